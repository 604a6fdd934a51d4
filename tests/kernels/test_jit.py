"""A damaged or unwritable kernel cache costs a compilation, never the result or the process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = (
    "import numpy as np; from unlatch.kernels.simulation import draw; print(draw(np.array([0.3, 1.0]), 0.5))"
)
COMPILED = pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled")


def start(cache, script=SCRIPT, **environment):
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", script],
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(cache, script=SCRIPT, **environment):
    """What a kernel answers in a fresh interpreter that keeps its cache in ``cache``."""
    process = start(cache, script, **environment)
    out, err = process.communicate(timeout=240)
    return process.returncode, out.strip(), err


def files_in(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


@COMPILED
def test_damaged_caches(tmp_path):
    assert run(tmp_path) == (0, "1", "")
    files = files_in(tmp_path)
    assert {path.suffix for path in files} == {".nbi", ".nbc"}
    for damage in (lambda data: data[: len(data) // 2], lambda data: b"\xff" * len(data), lambda data: b""):
        for path in files:
            path.write_bytes(damage(path.read_bytes()))
        assert run(tmp_path) == (0, "1", "")


FLIPS = """
import pathlib
import numpy as np
from unlatch.kernels._jit import kernel
from unlatch.kernels.simulation import draw

draw(np.array([0.3, 1.0]), 0.5)
folder = pathlib.Path({folder!r})
rng = np.random.default_rng(0)
loaded = 0
for path in sorted(p for p in folder.rglob("*draw-*") if p.is_file()):
    whole = path.read_bytes()
    damaged = [whole[:size] for size in rng.integers(0, len(whole), 5)]
    for bit in rng.integers(0, 8 * len(whole), 20):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << (bit % 8)
        damaged.append(bytes(flipped))
    for data in damaged:
        path.write_bytes(data)
        again = kernel(draw.py_func)
        assert again(np.array([0.3, 1.0]), 0.5) == 1
        loaded += sum(again.stats.cache_hits.values())
        path.write_bytes(whole)
again = kernel(draw.py_func)
assert again(np.array([0.3, 1.0]), 0.5) == 1
print(loaded, sum(again.stats.cache_hits.values()))
"""


@COMPILED
def test_no_flipped_bit_and_no_cut_is_ever_trusted(tmp_path):
    """Numba by itself loads one flipped bit in eight as code and crashes."""
    code, out, err = run(tmp_path, FLIPS.format(folder=str(tmp_path)))
    assert (code, err) == (0, "")
    assert out == "0 1"  # damaged files are never loaded, whole ones are


@COMPILED
def test_two_processes_may_fill_one_cache_at_once(tmp_path):
    scripts = [SCRIPT, SCRIPT.replace("np.array([0.3, 1.0])", "np.array([0.3, 1.0], dtype=np.float32)")] * 2
    processes = [start(tmp_path, script) for script in scripts]
    for process in processes:
        out, err = process.communicate(timeout=240)
        assert (process.returncode, out.strip(), err) == (0, "1", "")
    for script in scripts[:2]:
        assert run(tmp_path, script) == (0, "1", "")


@COMPILED
def test_the_cache_can_be_switched_off(tmp_path):
    assert run(tmp_path, UNLATCH_NO_CACHE="1") == (0, "1", "")
    assert files_in(tmp_path) == []


def test_no_place_for_a_cache():
    assert run("/dev/null/nowhere") == (0, "1", "")


def test_no_home_and_nothing_writable():
    environment = {name: value for name, value in os.environ.items() if name != "HOME"}
    environment["NUMBA_CACHE_DIR"] = "/proc/nowhere"
    done = subprocess.run([sys.executable, "-W", "error", "-c", SCRIPT], env=environment, capture_output=True)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, b"1", b"")


# --- packages that are not there ----------------------------------------------------------------------------

ABSENT = """
import sys
sys.modules["{package}"] = None
import unlatch
from unlatch.errors import MissingDependencyError
tiger = unlatch.domains.tiger()
try:
    {call}
except MissingDependencyError as error:
    print(error.package, error.exit_code, "pip install {package}" in str(error))
"""


@pytest.mark.parametrize(
    ("package", "call"),
    [
        ("numba", "unlatch.simulate(tiger, 10, rng=0)"),
        ("numba", "unlatch.POUCT(tiger)"),
        ("numba", "tiger.belief(unlatch.Trajectory([0], [0], tiger.action_names, tiger.observation_names))"),
        ("matplotlib", "unlatch.plot_states(tiger, 'listen')"),
        ("matplotlib", "unlatch.draw_models({'true': tiger}, 'nowhere.png')"),
    ],
)
def test_an_absent_package_is_a_declared_error(tmp_path, package, call):
    assert run(tmp_path, ABSENT.format(package=package, call=call)) == (0, f"{package} 2 True", "")


def test_what_needs_no_kernel_works_without_numba(tmp_path):
    script = "import sys; sys.modules['numba'] = None; import unlatch; print(unlatch.domains.tmaze())"
    code, out, err = run(tmp_path, script)
    assert (code, err) == (0, "")
    assert out.startswith("POMDP(4 states")


@COMPILED
def test_whoever_listens_is_told_of_the_compiler(tmp_path):
    script = (
        "from unlatch.core.progress import listening\n"
        "import numpy as np\n"
        "from unlatch.kernels.simulation import draw\n"
        "with listening(lambda *_: None, print):\n"
        "    [draw(np.array([0.3, 1.0]), 0.5) for _ in range(2)]\n"
    )
    assert run(tmp_path, script) == (0, "compiling, kept for the next time\nNone", "")
    assert run(tmp_path, script) == (0, "", "")  # it was kept
    assert run(tmp_path, script, UNLATCH_NO_CACHE="1") == (0, "compiling\nNone", "")
