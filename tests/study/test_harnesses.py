"""A slice of the robustness harnesses in ``benchmarks/``; their whole is run by hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"


def finished(folder: Path, program: str, *arguments: str) -> str:
    """What the harness says, which must have found nothing."""
    command = [sys.executable, str(BENCHMARKS / program), *arguments]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_mutated_files_have_declared_outcomes(tmp_path: Path) -> None:
    said = finished(tmp_path, "fuzz.py", "--files", "800", "--seed", "1")
    assert "csv: read" in said
    assert "json: read" in said
    assert "0 faults" in said
    assert list(tmp_path.iterdir()) == []


def test_mutated_tables_have_declared_outcomes(tmp_path: Path) -> None:
    said = finished(tmp_path, "fuzz.py", "--tables", "--files", "1500", "--seed", "1")
    for kind in ("parquet", "feather", "npz", "npy", "csv.gz", "csv.zst"):
        assert f"{kind}: DataError" in said
    assert "0 faults" in said
    assert list(tmp_path.iterdir()) == []


def test_flipped_bits_are_noticed_or_harmless(tmp_path: Path) -> None:
    said = finished(tmp_path, "fuzz.py", "--bits", "--stride", "61")
    assert "noticed" in said
    assert "0 faults" in said


def test_signals_leave_nothing_partial_and_nothing_behind(tmp_path: Path) -> None:
    counts = ("--kills", "3", "--interrupts", "2", "--terminations", "1")
    said = finished(tmp_path, "kills.py", *counts, "--small", "--only", "simulate")
    assert "0 faults" in said
    assert list(tmp_path.iterdir()) == []
