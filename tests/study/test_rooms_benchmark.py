"""A slice of ``benchmarks/rooms.py``, and of the groups of ``benchmarks/efficiency.py`` that are made like it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"

RIVAL = '''
import numpy as np
from tqdm import trange


class CHMM:
    """Knows nothing: every clone equally likely. What the real one offers, as far as the benchmark calls it."""

    def __init__(self, n_clones, x, a, pseudocount, seed):
        assert len(x) == len(a)
        assert x.dtype == a.dtype == np.int64
        print("noise on standard output")
        self.n_clones, self.pseudocount = n_clones, pseudocount

    def update_T(self):
        pass

    def learn_em_T(self, x, a, n_iter):
        bar = trange(n_iter, position=0)
        for _ in bar:
            bar.set_postfix(train_bps=2.0)
        return [2.0] * n_iter

    def learn_viterbi_T(self, x, a, n_iter):
        assert self.pseudocount == 0

    def decode(self, x, a):
        return None, x * self.n_clones[0]

    def bps(self, x, a):
        assert self.pseudocount > 0  # a step is impossible without
        return np.full(len(x), 2.0)
'''


def said(folder: Path, program: str, *arguments: str) -> str:
    """What a benchmark prints; it must end well."""
    command = [sys.executable, str(BENCHMARKS / program), *arguments]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@pytest.mark.slow
@pytest.mark.compiled
def test_a_room_is_learned_beside_a_rival_and_the_result_is_kept(tmp_path: Path) -> None:
    (tmp_path / "chmm_actions.py").write_text(RIVAL)
    arguments = ["3x4", "--at-most", "1", "--steps", "5000", "--workers", "1", "--cscg", "."]
    first, again = (said(tmp_path, "rooms.py", *arguments, *more) for more in ([], ["--report"]))
    assert first == again
    ours, theirs = first.split("## cscg")
    assert "| 3x4 | 0 | 12 | 12 | arrival |" in ours
    assert "| 3x4 | 1 of 1 | 12 |" in ours
    assert "| 3x4 | 1.5 × | 0 of 3 (0%) | 4 |" in theirs
    assert "| 3x4 | 5.0 × | 0 of 3 (0%) | 4 |" in theirs
    assert "standard output" not in first


@pytest.mark.slow
@pytest.mark.compiled
def test_the_empty_room_and_the_noisy_one_run(tmp_path: Path) -> None:
    arguments = ["--at-most", "1", "--steps", "300", "--workers", "1"]
    assert "| empty | 0 |" in said(tmp_path, "rooms.py", "empty", *arguments)
    assert "## rooms-noisy" in said(tmp_path, "rooms.py", "3x4", "--noisy", *arguments)


@pytest.mark.slow
@pytest.mark.compiled
def test_neighbors_learn_the_same_log(tmp_path: Path) -> None:
    (tmp_path / "chmm_actions.py").write_text(RIVAL)
    printed = said(tmp_path, "neighbors.py", "tiger", "--steps", "1000", "--cscg", ".")
    rows = [line.split(" | ") for line in printed.splitlines()[2:]]
    bits = {learner: float(above) for _, learner, _, _, above, _ in rows}
    assert list(bits) == ["unlatch", "CSCG", "hmmlearn"]
    assert 0 <= bits["unlatch"] < bits["CSCG"]


@pytest.mark.slow
@pytest.mark.compiled
def test_the_logs_of_systems_are_learned_with_a_seed(tmp_path: Path) -> None:
    systems = ["tiger", "tmaze:rooms=1"]
    arguments = ["seeds", "--at-most", "1", "--steps", "300", "--workers", "1", "--systems", *systems]
    printed = said(tmp_path, "efficiency.py", *arguments)
    assert "| tiger | 3e+02 | 2 |" in printed
    assert "of 2 systems" in printed


@pytest.mark.slow
@pytest.mark.compiled
def test_rules_are_reported_beside_what_is_learned(tmp_path: Path) -> None:
    arguments = ["rules", "dense", "--at-most", "1", "--steps", "300", "--workers", "1"]
    printed = said(tmp_path, "efficiency.py", *arguments)
    assert "| Hannan–Quinn |" in printed
    assert "| learn_pomdp(log) |" in printed
    assert "learned ÷ best fixed rule" in printed


@pytest.mark.slow
@pytest.mark.compiled
def test_speed_is_measured_beside_another_checkout(tmp_path: Path) -> None:
    source = str(BENCHMARKS.parent / "src")
    printed = said(
        tmp_path, "efficiency.py", "speed", "--steps", "600", "--at-most", "1", "--against", source,
        "--systems", "tiger",
    )  # fmt: skip
    assert "| tiger | 6e+02 | here | " in printed
    assert "| tiger | 6e+02 | there | " in printed
