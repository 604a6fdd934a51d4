"""A slice of the robustness harnesses in ``benchmarks/``; their whole is run by hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"


def finished(folder: Path, program: str, *arguments: str) -> str:
    """What the harness says, which must have found nothing."""
    command = [sys.executable, str(BENCHMARKS / program), *arguments]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


LOGS = ("csv", "parquet", "feather", "log-npz", "npy", "csv-gz", "csv-zst")
MODELS = ("pomdp", "pomdpx", "json", "npz", "alpha", "policyx")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*LOGS, *MODELS])
def test_mutated_files_are_read_or_refused(tmp_path: Path, kind: str) -> None:
    """A minute for all of them."""
    said = finished(
        tmp_path, "fuzz.py", "--formats", kind, "--seconds", "4", "--files", "100000", "--seed", "1"
    )
    assert f"{kind}: {'DataError' if kind in LOGS else 'ModelFileError'}" in said
    assert "0 faults" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["csv", "parquet", "pomdp", "npz"])
def test_some_mutated_files_are_read_or_refused(tmp_path: Path, kind: str) -> None:
    said = finished(tmp_path, "fuzz.py", "--formats", kind, "--files", "150", "--seed", "2")
    assert f"{kind}: read" in said
    assert "150 files" in said
    assert "0 faults" in said


def test_files_follow_those_of_an_earlier_run(tmp_path: Path) -> None:
    said = finished(tmp_path, "fuzz.py", "--formats", "alpha", "--start", "700", "--files", "60")
    assert "60 files" in said
    assert int(said.split("slowest: ")[1].split(".")[0]) in range(700, 760)


def test_a_process_that_was_slow_to_begin_does_not_hang_with_its_first_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import fuzz

    patience = fuzz.Patience()
    patience.since -= 100
    assert patience.seconds(-1) >= 100
    patience.begin()
    assert patience.seconds(-1) < 10
    patience.since -= 100
    assert patience.seconds(-1) >= 100
    assert patience.seconds(0) < 10


def test_flipped_bits_are_noticed_or_harmless(tmp_path: Path) -> None:
    said = finished(tmp_path, "fuzz.py", "--bits", "--stride", "211")
    assert "json: noticed" in said
    assert "npz: noticed" in said
    assert "0 faults" in said


def test_signals_leave_nothing_partial_and_nothing_behind(tmp_path: Path) -> None:
    counts = ("--kills", "3", "--interrupts", "2", "--terminations", "1")
    said = finished(tmp_path, "kills.py", *counts, "--small", "--only", "simulate")
    assert "0 faults" in said
    assert list(tmp_path.iterdir()) == []
