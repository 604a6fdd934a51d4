"""A damaged or unwritable kernel cache costs a compilation, never the result."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = (
    "import numpy as np; from unlatch.kernels.simulation import draw; print(draw(np.array([0.3, 1.0]), 0.5))"
)


def run(cache):
    """What a kernel answers in a fresh interpreter that keeps its cache in ``cache``."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout.strip(), done.stderr


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled")
def test_damaged_caches(tmp_path):
    assert run(tmp_path) == (0, "1", "")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".nbi", ".nbc"}
    for damage in (lambda data: data[: len(data) // 2], lambda data: b"\xff" * len(data)):
        for path in files:
            path.write_bytes(damage(path.read_bytes()))
        assert run(tmp_path) == (0, "1", "")


def test_no_place_for_a_cache():
    assert run("/dev/null/nowhere") == (0, "1", "")
