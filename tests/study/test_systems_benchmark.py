"""A slice of the benchmark that learns ``.POMDP`` files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"

TIGER = """
# the tiger, written in as many ways as the format has
discount: 0.95
values: reward
states: left right
actions: listen open-left open-right
observations: 2
start: 0.3 0.7
T:listen
identity
T: open-left
uniform
T : open-right : *
0.5 0.5
O: *
uniform
O: listen : left : 0 0.85
O: listen : left : 1
0.15   # the other
O: 0 : right 0.15 0.85
R: listen : * : * : * -1
R: open-left : left : * : * -100
"""


def written(folder, text):
    path = folder / "tiger.95.POMDP"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.slow
@pytest.mark.compiled
def test_a_classic_file_is_learned_and_the_result_is_kept(tmp_path):
    written(tmp_path, TIGER)
    arguments = ["classic", "--models", ".", "--steps", "6000", "--emission", "arrival", "--workers", "1"]
    command = [sys.executable, str(BENCHMARKS / "systems.py"), *arguments, "--out", "out"]
    first, again = (
        subprocess.run([*command, *more], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        for more in ([], ["--report"])
    )
    assert first == again
    assert "| tiger.95 | 2 | 2 | arrival |" in first
