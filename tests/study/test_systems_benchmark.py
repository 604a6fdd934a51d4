"""The reader of ``.POMDP`` files in ``benchmarks/``, and a slice of the benchmark that uses it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
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


@pytest.fixture(scope="module")
def read_pomdp_file():
    spec = importlib.util.spec_from_file_location("pomdp_files", BENCHMARKS / "pomdp_files.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.read_pomdp_file


def written(folder, text):
    path = folder / "tiger.95.POMDP"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_way_to_write_a_table_is_read(read_pomdp_file, tmp_path):
    model = read_pomdp_file(written(tmp_path, TIGER))
    assert model.emission == "arrival"
    assert model.state_names == ("left", "right")
    assert model.action_names == ("listen", "open-left", "open-right")
    assert model.observation_names == ("0", "1")
    np.testing.assert_allclose(model.initial, [0.3, 0.7])
    half = np.full((2, 2), 0.5)
    np.testing.assert_allclose(model.transitions, [np.eye(2), half, half])
    np.testing.assert_allclose(model.observations, [[[0.85, 0.15], [0.15, 0.85]], half, half])


@pytest.mark.parametrize(
    ("start", "initial"),
    [
        ("", [0.5, 0.5]),
        ("start: uniform", [0.5, 0.5]),
        ("start: right", [0, 1]),
        ("start include: left", [1, 0]),
        ("start exclude: 0", [0, 1]),
    ],
)
def test_every_way_to_write_a_start_is_read(read_pomdp_file, tmp_path, start, initial):
    model = read_pomdp_file(written(tmp_path, TIGER.replace("start: 0.3 0.7", start)))
    np.testing.assert_allclose(model.initial, initial)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("identity", "0.5 0.5 1", "expected 4 numbers, got 3"),
        ("0.15   # the other", "0.25", "adds up to 1.1"),
        ("O: 0 : right", "O: 0 : middle", "'middle' is none of left, right"),
        ("discount: 0.95", "hello", "expected a section"),
    ],
)
def test_what_cannot_be_read_is_said(read_pomdp_file, tmp_path, old, new, said):
    with pytest.raises(ValueError, match=said):
        read_pomdp_file(written(tmp_path, TIGER.replace(old, new)))


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
