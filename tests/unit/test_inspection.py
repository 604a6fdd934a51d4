"""What a log holds: counted as anybody would, and peculiarities named only where they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import unlatch
from unlatch import Trajectory, inspect_log, read_log, write_log
from unlatch.cli import run
from unlatch.errors import DataError, UsageError

TIGER = unlatch.simulate(unlatch.domains.tiger(), 5_000, rng=1)


def test_counts_are_those_of_the_log() -> None:
    log = Trajectory.from_symbols(
        ["a", "b", "a", "a"],
        ["x", "x", "y", "x"],
        rewards=[0, 1, 0, 2],
        episode_starts=[0, 1],
        terminated=[True, False, False, False],
        first_observations=["x", "z"],
    )
    summary = inspect_log(log)
    assert (summary.steps, summary.episodes, summary.endings) == (4, 2, 1)
    assert (summary.shortest, summary.median, summary.longest) == (1, 2.0, 3)
    assert [(s.name, s.count) for s in summary.actions] == [("a", 3), ("b", 1)]
    assert [(s.name, s.count) for s in summary.observations] == [("x", 3), ("y", 1)]
    assert [(s.name, s.count) for s in summary.first_observations] == [("x", 1), ("z", 1)]
    assert summary.reward_range == (0.0, 2.0, 3)
    assert summary.rare == ("action a", "action b", "observation x", "observation y")
    assert not summary.has_probabilities


def test_blind_uniform_exploration() -> None:
    summary = inspect_log(TIGER)
    assert summary.is_blind
    assert summary.is_uniform
    assert summary.rare == summary.suspicious == ()
    skewed = inspect_log(unlatch.simulate(unlatch.domains.tiger(), 5_000, policy=[0.8, 0.1, 0.1], rng=1))
    assert skewed.is_blind
    assert not skewed.is_uniform


def test_uniformity_is_left_open_where_counts_are_unlikely_but_not_impossible(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """60 of one action and 30 of the other: p = 0.0016."""
    rng = np.random.default_rng(3)
    actions = rng.permutation(["a"] * 60 + ["b"] * 30).tolist()
    write_log(tmp_path / "log.csv", Trajectory.from_symbols(actions, rng.choice(["x", "y"], 90).tolist()))
    assert run(["inspect", str(tmp_path / "log.csv")]) == 0
    assert "whether uniformly too is open (p = 0.002 by their counts)" in capfd.readouterr().out


def test_a_policy_that_looks_is_not_blind() -> None:
    rng = np.random.default_rng(1)
    observations = rng.integers(2, size=5_000)
    actions = np.append(0, observations[:-1]) ^ (rng.random(5_000) < 0.2)
    summary = inspect_log(Trajectory(actions.astype(int), observations))
    assert not summary.is_blind
    assert "actions_depend_on_observations" in summary.diagnostics


def corridor(order: str) -> Trajectory:
    """A walk on a ring of five colors; the color reached is shown, or the one left."""
    rng = np.random.default_rng(3)
    actions = rng.integers(2, size=4_000)
    places = np.cumsum(2 * actions - 1) % 5
    before = np.append(0, places[:-1])
    return Trajectory(actions, places if order == "reached" else before)


def test_a33_an_observation_without_a_trace_of_its_action() -> None:
    assert inspect_log(corridor("left")).acts_in_the_next_row
    for other in (
        corridor("reached"),
        TIGER,
        unlatch.simulate(unlatch.domains.frozen_lake(), 50, total=5_000, rng=1),
    ):
        assert not inspect_log(other).acts_in_the_next_row


def test_suspicious_columns() -> None:
    clock = inspect_log(Trajectory(np.arange(4_000) % 2, np.arange(4_000) // 40))
    assert clock.suspicious == ("the observation only rises, as a counter or a clock does: it is no symbol",)
    rng = np.random.default_rng(1)
    spread = inspect_log(Trajectory(rng.integers(2, size=400), rng.integers(60, size=400)))
    assert spread.suspicious[0].startswith("the observation has 60 different values in 400 steps")
    same = inspect_log(Trajectory([0, 0], [0, 1]))
    assert same.suspicious == ("the action is always the same",)


def test_telling_columns_that_were_not_read(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.csv"
    path.write_text("action,observation,done\n" + "a,x,0\nb,y,1\n" * 50)
    summary = inspect_log(read_log(path))
    assert summary.suspicious == (
        "the column 'done' was not read; if it is the terminated, say terminated='done' (--terminated)",
    )
    assert run(["inspect", str(path)]) == 0
    out = capfd.readouterr().out
    assert "100 steps in 1 episode\nendings: not told" in out
    assert "(--terminated)" in out
    assert "note: ignored_columns" in out
    assert run(["inspect", str(path), "--terminated", "done"]) == 0
    assert "endings: 50 of 50 episodes ended for good, 0 were cut" in capfd.readouterr().out


def test_a34_symbols_that_sound_like_a_restart() -> None:
    steps = ["go", "go", "<Reset>"] * 20
    one = Trajectory.from_symbols(steps, ["x", "y", "x"] * 20)
    (said,) = inspect_log(one).suspicious
    assert said.startswith(
        "the action '<Reset>' stands 20 times in a single episode: if the world starts anew there"
    )
    several = Trajectory.from_symbols(steps, ["x", "y", "x"] * 20, episode_starts=list(range(0, 60, 3)))
    assert inspect_log(several).suspicious == ()
    plain = Trajectory.from_symbols(["go", "go", "stay"] * 20, ["x", "y", "x"] * 20)
    assert inspect_log(plain).suspicious == ()


def test_a3_logs_of_one_step_can_be_inspected(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_log(tmp_path / "log.npz", Trajectory([0], [0]))
    assert run(["inspect", str(tmp_path / "log.npz")]) == 0
    assert "next: a log in which actions and observations differ is needed" in capfd.readouterr().out


def test_columns_by_name_and_several_of_one_observation(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.csv"
    path.write_text("do,x,y\n" + "a,1,red\nb,2,blue\n" * 5)
    arguments = ["inspect", str(path), "--action", "do", "--observation", "x", "--observation", "y"]
    assert run(arguments) == 0
    out = capfd.readouterr().out
    assert "1|red" in out
    assert "2 observations:" in out
    given = f"{path} --action do --observation x --observation y"
    assert f"next: unlatch learn {given} -o model.json" in " ".join(out.split())


def test_whatever_read_log_reads_is_inspected(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    write_log(path, TIGER)
    expected = inspect_log(TIGER)
    assert inspect_log(path).actions == expected.actions
    assert inspect_log([path], reward=None).reward_range is None
    table = pytest.importorskip("pyarrow.csv").read_csv(path)
    assert inspect_log(table).observations == expected.observations


def test_what_cannot_be_inspected() -> None:
    with pytest.raises(UsageError, match="a log is a path"):
        inspect_log(7)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="reward is an option of reading"):
        inspect_log(TIGER, reward=None)
    with pytest.raises(DataError, match="0 steps"):
        inspect_log(Trajectory([], []))
