"""A slice of the benchmark that mutates model and policy files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def fuzz_models():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import fuzz_models
    finally:
        sys.path.remove(str(BENCHMARKS))
    return fuzz_models


@pytest.mark.parametrize("kind", ["pomdp", "pomdpx", "json", "npz", "alpha", "policyx"])
def test_mutated_files_are_read_or_refused(fuzz_models, tmp_path, kind):
    report = fuzz_models.run([kind], 120, 20, tmp_path, tmp_path / "kept", None)
    assert report.faults == []
    assert sum(report.outcomes.values()) == 120
    assert report.outcomes[f"{kind}: ModelFileError"] > 0


def test_flipped_bits_are_noticed_or_harmless(fuzz_models, tmp_path):
    report = fuzz_models.run_bits(["npz", "json"], tmp_path, 211)
    assert report.faults == []
    assert report.outcomes["npz: noticed"] > 100
