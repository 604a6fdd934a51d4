# Two commands do everything on a machine with Python 3.11 and nothing else: `make demo` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# The same versions for everybody, also for what builds the package.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_BUILD_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test quick coverage interpreters rooms lint docs docs-outputs dist-check benchmarks efficiency systems reproduce clean

demo: $(VENV)/installed
	$(BIN)/unlatch demo --out out

# Two processes. Each takes tests of the same files as long as there are any, so that what a file prepares once is
# prepared once or twice; then it takes over from the other.
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal

test: $(VENV)/installed-test lint
	$(PYTEST)

# The tests that take less than five seconds each.
quick: $(VENV)/installed-test
	$(PYTEST) -m "not slow"

# Every line that runs, kernels included: without the JIT they are plain Python. Below 92 % is a failure.
coverage: $(VENV)/installed-test
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m coverage run -m pytest -m "not slow"
	$(BIN)/python -m coverage report

# The whole suite with every interpreter that is here, each in an environment of its own.
INTERPRETERS := 3.11 3.13
interpreters:
	@for version in $(INTERPRETERS); do \
		if command -v python$$version > /dev/null; then \
			$(MAKE) test PYTHON=python$$version VENV=.venv-$$version || exit 1; \
		else \
			echo "python$$version is not installed: not tested with it"; \
		fi; \
	done

# Which room of the source imports which, and whether ARCHITECTURE.md says so.
rooms: $(VENV)/installed-test
	$(BIN)/python tests/rooms.py

lint: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The documentation as web pages, in out/docs; a warning is an error.
docs: $(VENV)/installed-docs
	$(BIN)/python -m sphinx -W --keep-going -q -c docs -b html . out/docs
	@echo "open out/docs/index.html"

# Runs every page of the documentation and puts in what its blocks print; redraws their pictures, remakes their tables.
docs-outputs: $(VENV)/installed-test
	$(BIN)/python tests/pages.py --write

# Wheel and source distribution, each installed into an empty environment, where a model is learned.
dist-check: $(VENV)/bin/python
	$(BIN)/python tests/dist_check.py

# Statistical runs and speed: minutes, not part of `make test`. Their results are in docs/measurements.md.
benchmarks: $(VENV)/installed-test
	$(BIN)/python benchmarks/counting.py
	$(BIN)/python benchmarks/accuracy.py
	$(BIN)/python benchmarks/planning.py
	$(BIN)/python benchmarks/learned_planning.py
	$(BIN)/python benchmarks/em.py
	$(BIN)/python benchmarks/report.py

# Hours; goes on where it stopped. Results are in docs/efficiency.md.
efficiency: $(VENV)/installed-test
	$(BIN)/python benchmarks/efficiency.py --out out/efficiency

# Hours; goes on where it stopped. Two more groups need Gymnasium and files that are not shipped: docs/measurements.md.
systems: $(VENV)/installed-test
	$(BIN)/python benchmarks/rooms.py 6x8 10x10 14x14 empty --out out/rooms
	$(BIN)/python benchmarks/rooms.py --noisy --out out/rooms
	$(BIN)/python benchmarks/systems.py singular endings --out out/systems

# An hour or two; goes on where it stopped. Results are in docs/reproduction.md.
reproduce: $(VENV)/installed
	$(BIN)/unlatch reproduce all --seeds 20 --workers 2 --out out/reproduction

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "unlatch needs Python 3.11 or newer; call make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/installed-test: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $@ $(VENV)/installed

$(VENV)/installed-docs: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@

clean:
	rm -rf $(VENV) .venv-* .coverage out build dist .pytest_cache .mypy_cache .ruff_cache
