"""What importing costs, and who may import whom."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import unlatch

SOURCE = Path(unlatch.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
HEAVY = {"numba", "scipy", "matplotlib"}

FORBIDDEN = {
    "errors": {"core", "kernels", "domains", "learn", "plan", "files", "study", "cli", "simulation"},
    "linalg": {"core", "kernels", "domains", "learn", "plan", "files", "study", "cli", "simulation"},
    "core": {"domains", "learn", "plan", "files", "study", "cli", "simulation"},
    "domains": {"learn", "plan", "files", "study", "cli"},
    "simulation": {"domains", "learn", "plan", "files", "study", "cli"},
    "learn": {"plan", "files", "study", "cli", "domains"},
    "plan": {"learn", "files", "study", "cli", "domains"},
    "files": {"learn", "plan", "study", "cli", "domains"},
    "study": {"cli"},
}
"""Imports point one way: errors, linalg | kernels <- core <- domains <- learn | plan | files <- study <- cli."""


def imported(tree):
    """Every module that a file imports, wherever in the file, in full dotted form."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def dotted(node):
    """``a.b.c`` of an attribute expression."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def uses(tree, *names):
    """Modules and attributes that are, or lie inside, one of ``names``."""
    found = {*imported(tree), *(dotted(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute))}
    return {f for f in found if any(f == name or f.startswith(f"{name}.") for name in names)}


def parse(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def ids(path):
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_numpy_s_own_linear_algebra_is_never_used(path):
    """One NaN can hang it for ever."""
    assert uses(parse(path), "np.linalg", "numpy.linalg") == set()


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_linalg_is_the_only_door_to_lapack(path):
    if path != SOURCE / "linalg.py":
        assert uses(parse(path), "scipy.linalg", "scipy.sparse.linalg") == set()


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_imports_point_one_way(path):
    home = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    ours = {name.split(".")[1] for name in imported(parse(path)) if name.startswith("unlatch.")}
    assert ours & FORBIDDEN.get(home, set()) == set()


@pytest.mark.parametrize("path", sorted((SOURCE / "kernels").glob("*.py")), ids=ids)
def test_kernels_import_nothing_of_ours(path):
    ours = {name for name in imported(parse(path)) if name.split(".")[0] == "unlatch"}
    if path.name == "_jit.py":  # says in our words that numba is missing
        ours -= {"unlatch.errors", "unlatch.errors.MissingDependencyError"}
    assert ours <= {"unlatch.kernels._jit", "unlatch.kernels._jit.kernel"}


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("import numpy as np\nnp.linalg.svd(x)", {"np.linalg", "np.linalg.svd"}),
        ("from numpy import linalg", {"numpy.linalg"}),
        ("from numpy.linalg import svd", {"numpy.linalg", "numpy.linalg.svd"}),
        ("import numpy\nf = numpy.linalg.inv", {"numpy.linalg", "numpy.linalg.inv"}),
        ("import scipy.linalg\nlinalg = 1\nlinalg.real", set()),
    ],
)
def test_the_search_itself_finds_what_it_should(code, names):
    assert uses(ast.parse(code), "np.linalg", "numpy.linalg") == names


# --- what importing costs ---------------------------------------------------------------------------------


def loaded(code):
    """Which heavy packages are loaded after ``code`` ran in a fresh interpreter."""
    script = f"import sys\n{code}\nprint(*(name for name in {sorted(HEAVY)} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy():
    assert loaded("import unlatch") == set()
    assert loaded("import unlatch; unlatch.domains.tmaze(); unlatch.Trajectory([0], [0])") == set()
    assert loaded("from unlatch.kernels import filtering") >= {"numba"}  # the search itself works


def test_every_public_name_can_be_reached():
    assert set(unlatch.__all__) == set(dir(unlatch))
    for name in unlatch.__all__:
        assert getattr(unlatch, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        unlatch.nothing  # noqa: B018


def test_every_error_is_ours_with_its_exit_code():
    codes = {
        "UsageError": 2,
        "DataError": 3,
        "ModelFileError": 4,
        "NotLearnableError": 5,
        "NumericalError": 6,
        "BeliefCollapseError": 6,
        "StorageError": 7,
        "ResourceLimitError": 8,
    }
    for name, code in codes.items():
        error = getattr(unlatch.errors, name)
        assert issubclass(error, unlatch.errors.UnlatchError)
        assert error.exit_code == code
    assert unlatch.errors.UnlatchError.exit_code == 1
    assert str(unlatch.errors.StorageError("disk", "full")) == "disk full"
