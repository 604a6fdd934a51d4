"""Logs of environments of Gymnasium: what a loop would have written down, whatever the mode of autoreset."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import unlatch
from unlatch import Trajectory, from_minari, read_log, record
from unlatch.cli import run
from unlatch.errors import DataError, UsageError


def text(value: Any) -> str:
    return "|".join(str(int(part)) for part in np.atleast_1d(value)) if not isinstance(value, str) else value


def by_a_loop(env: Any, steps: int, seed: int, observe: Any = text) -> Trajectory:
    """As anybody would write it."""
    rng = np.random.default_rng(seed)
    actions, observations, rewards, terminated, starts, first = [], [], [], [], [], []
    over = True
    for t in range(steps):
        if over:
            shown, _ = env.reset(seed=seed if t == 0 else None)
            starts.append(t)
            first.append(observe(shown))
        action = int(rng.integers(env.action_space.n))
        shown, reward, ended, cut, _ = env.step(action)
        over = ended or cut
        actions.append(str(action))
        observations.append(observe(shown))
        rewards.append(float(reward))
        terminated.append(bool(ended))
    return Trajectory.from_symbols(
        actions,
        observations,
        rewards=rewards,
        episode_starts=starts,
        terminated=terminated,
        first_observations=first,
    )


@pytest.mark.parametrize("name", ["FrozenLake-v1", "CliffWalking-v1", "Taxi-v4", "Blackjack-v1"])
def test_one_line_is_the_loop(name: str) -> None:
    log = record(name, 3_000, seed=7)
    assert log == by_a_loop(gymnasium.make(name), 3_000, 7)
    assert log.probabilities is None  # blind
    assert log.diagnostics["recorded"].details == {"environment": name, "seed": 7, "autoreset": None}


@pytest.mark.parametrize(
    ("package", "name", "observe"),
    [
        ("popgym", "popgym-RepeatPreviousEasy-v0", None),
        (
            "minigrid",
            "MiniGrid-Empty-5x5-v0",
            lambda shown: view(shown),
        ),
    ],
)
def test_environments_of_others(package: str, name: str, observe: Any) -> None:
    """Where they are installed."""
    pytest.importorskip(package)
    log = record(name, 1_000, seed=3, observe=observe)
    mapped = (lambda o: "|".join(map(str, observe(o)))) if observe else text
    assert log == by_a_loop(gymnasium.make(name), 1_000, 3, mapped)


class Repeat(gymnasium.Env[Any, Any]):
    """As POPGym's RepeatPrevious: a card is shown, and what is to be done is the one of some steps ago."""

    observation_space = spaces.Discrete(4)
    action_space = spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.cards = self.np_random.integers(4, size=12).tolist()
        self.at = 0
        return self.cards[0], {}

    def step(self, action: Any) -> Any:
        reward = 0.0 if self.at < 4 else (0.1 if action == self.cards[self.at - 4] else -0.1)
        self.at += 1
        return self.cards[self.at], reward, self.at == 11, False, {}


class Grid(gymnasium.Env[Any, Any]):
    """As MiniGrid's: a picture of what is ahead, a direction, and a text that is no symbol."""

    observation_space = spaces.Dict(
        {
            "image": spaces.Box(0, 255, (7, 7, 3), np.uint8),
            "direction": spaces.Discrete(4),
            "mission": spaces.Text(40),
        }
    )
    action_space = spaces.Discrete(7)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.direction, self.steps = int(self.np_random.integers(4)), 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        self.direction = (self.direction + (1 if action == 1 else -1 if action == 0 else 0)) % 4
        self.steps += 1
        ended = bool(self.np_random.random() < 0.1)
        return self._seen(), float(ended), ended, not ended and self.steps == 20, {}

    def _seen(self) -> dict[str, Any]:
        image = self.np_random.integers(0, 3, (7, 7, 3)).astype(np.uint8)
        return {"image": image, "direction": self.direction, "mission": "get to the green goal square"}


def view(shown: Any) -> tuple[int, ...]:
    return (*shown["image"][3, 5, :2].tolist(), int(shown["direction"]))


@pytest.mark.parametrize(("env", "observe"), [(Repeat, None), (Grid, view)])
def test_environments_with_the_spaces_of_others(env: Any, observe: Any) -> None:
    log = record(env(), 1_000, seed=3, observe=observe)
    mapped = (lambda shown: "|".join(map(str, observe(shown)))) if observe else text
    assert log == by_a_loop(env(), 1_000, 3, mapped)
    assert log != by_a_loop(env(), 1_000, 4, mapped)
    assert 1 < log.terminated.sum() < log.n_episodes or env is Repeat
    if observe:
        with pytest.raises(UsageError, match="observe"):
            record(env(), 10, seed=3)


class Count(gymnasium.Env[Any, Any]):
    """Shows how often it was stepped since its reset, and which reset that was; ends after ``length`` steps."""

    observation_space = spaces.Tuple([spaces.Discrete(10), spaces.Discrete(500)])
    action_space = spaces.Discrete(2, start=5)

    def __init__(self, length: int = 3, cut: bool = False) -> None:
        self.length, self.cut, self.resets, self.steps = length, cut, -1, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.resets += 1
        self.steps = 0
        return (0, self.resets), {}

    def step(self, action: Any) -> Any:
        assert self.steps < self.length, "stepped after its end"
        assert self.action_space.contains(action)
        self.steps += 1
        over = self.steps == self.length
        return (self.steps, self.resets), float(action), over and not self.cut, over and self.cut, {}


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("cut", [False, True])
def test_a36_every_mode_of_autoreset(mode: AutoresetMode, cut: bool) -> None:
    world = SyncVectorEnv([lambda: Count(3, cut), lambda: Count(2, cut)], autoreset_mode=mode)
    log = record(world, 11, seed=1)
    world.close()
    shown = [log.observation_names[o] for o in log.observations]
    assert shown == ["1|0", "2|0", "3|0", "1|1", "2|1", "3|1", "1|0", "2|0", "1|1", "2|1", "1|2"]
    assert log.episode_starts.tolist() == [0, 3, 6, 8, 10]
    assert log.terminated.tolist() == [not cut and s in (2, 5, 7, 9) for s in range(11)]
    assert [log.first_observation_names[o] for o in log.first_observations] == [
        "0|0",
        "0|1",
        "0|0",
        "0|1",
        "0|2",
    ]
    assert set(log.action_names) == {"5", "6"}
    assert log.rewards.tolist() == [float(log.action_names[a]) for a in log.actions]
    assert log.diagnostics["recorded"].details["autoreset"] == mode.value


def test_autoreset_of_a_single_environment() -> None:
    wrapped = gymnasium.wrappers.Autoreset(Count())
    assert record(wrapped, 8, seed=1) == record(Count(), 8, seed=1)


def test_a_vector_that_does_not_say_how_it_resets() -> None:
    world = SyncVectorEnv([Count, Count])
    world.metadata = {}
    with pytest.raises(UsageError, match="does not say how it resets"):
        record(world, 5)


@pytest.mark.parametrize(
    ("space", "example"),
    [
        (spaces.MultiDiscrete([3, 2]), "0|1"),
        (spaces.MultiBinary(3), "0|1|1"),
        (spaces.Tuple([spaces.Discrete(2), spaces.MultiDiscrete([2, 2])]), "1|0|1"),
    ],
)
def test_actions_and_observations_in_parts(space: Any, example: str) -> None:
    class Echo(Count):
        action_space = space
        observation_space = space

        def reset(self, **options: Any) -> Any:
            super().reset(**options)
            return space.sample(), {}

        def step(self, action: Any) -> Any:
            assert space.contains(action)
            return action, 0.0, False, False, {}

    log = record(Echo(), 300, seed=1)
    assert example in log.action_names
    assert log.action_names == log.observation_names
    assert (log.actions == log.observations).all()
    with pytest.raises(UsageError, match="action_names are for one part"):
        record(Echo(), 5, action_names=["a", "b"])


def test_the_probabilities_that_a_policy_gives_are_kept() -> None:
    by_distribution = record(Count(), 600, seed=1, policy=lambda shown: [0.25, 0.75], observe=lambda o: o[0])
    assert set(by_distribution.probabilities.tolist()) == {0.25, 0.75}
    chosen = np.array([by_distribution.action_names[a] for a in by_distribution.actions])
    assert (by_distribution.probabilities == np.where(chosen == "6", 0.75, 0.25)).all()
    assert 0.68 < (chosen == "6").mean() < 0.82
    pairs = record(Count(), 9, seed=1, policy=lambda shown: (5 + shown[0] % 2, 0.5))
    assert [pairs.action_names[a] for a in pairs.actions] == ["5", "6", "5"] * 3
    assert pairs.probabilities.tolist() == [0.5] * 9
    alone = record(Count(), 9, seed=1, policy=lambda shown: 5 + shown[0] % 2)
    assert alone.probabilities is None
    assert (alone.actions == pairs.actions).all()


def test_fixed_probabilities_are_blind() -> None:
    log = record(
        Count(), 1_000, seed=1, policy=[0.9, 0.1], action_names=["stay", "go"], observe=lambda o: o[0]
    )
    assert log.probabilities is None
    assert log.action_names == ("go", "stay")
    assert 0.86 < (log.actions == 1).mean() < 0.94


@pytest.mark.parametrize(
    "policy",
    [
        [0.5, 0.6],
        [1.0],
        "left",
        lambda shown: 9,
        lambda shown: "left",
        lambda shown: [0.5, 0.2, 0.3],
        lambda shown: (5, 0.5) if shown[0] else 5,
    ],
)
def test_policies_that_make_no_sense(policy: Any) -> None:
    with pytest.raises(UsageError):
        record(Count(), 10, policy=policy)


@pytest.mark.parametrize(
    ("env", "options", "message"),
    [
        (3, {}, "must be the name of an environment"),
        ("Nothing-v0", {}, "Nothing-v0: cannot be made"),
        ("no_such_package:Nothing-v0", {}, "cannot be made"),
        ("CartPole-v1", {}, "which is not discrete"),
        ("Pendulum-v1", {"observe": str}, "only discrete ones can be recorded"),
        ("FrozenLake-v1", {"observe": 3}, "must be a function"),
        ("FrozenLake-v1", {"seed": -1}, "cannot be negative"),
    ],
)
def test_what_cannot_be_recorded(env: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        record(env, 10, **options)


def test_steps_are_a_number() -> None:
    with pytest.raises(UsageError, match="steps must be a whole number"):
        record("FrozenLake-v1", 0)


def test_what_is_no_symbol() -> None:
    with pytest.raises(DataError, match="float is no symbol"):
        record("FrozenLake-v1", 5, observe=float)
    assert record("CartPole-v1", 50, seed=1, observe=lambda o: (int(o[2] > 0), "x")).observation_names == (
        "0|x",
        "1|x",
    )


def test_the_same_seed_gives_the_same_log_and_one_that_was_drawn_is_told() -> None:
    log = record("FrozenLake-v1", 200)
    assert record("FrozenLake-v1", 200, seed=log.diagnostics["recorded"].details["seed"]) == log


# ---------------------------------------------------------------- Minari


class Episode:
    def __init__(self, first: int, length: int) -> None:
        self.observations = np.arange(first, first + length + 1)
        self.actions = np.arange(length) % 2
        self.rewards = np.arange(length) / 2
        self.terminations = np.arange(length) == length - 1
        self.truncations = np.zeros(length, dtype=bool)


class Dataset:
    """What `from_minari` uses of a dataset of Minari."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Discrete(20)
    total_episodes = 2

    def __init__(self, *episodes: Any) -> None:
        self.episodes = episodes

    def iterate_episodes(self) -> Any:
        return iter(self.episodes)


def test_episodes_of_a_dataset() -> None:
    log = from_minari(Dataset(Episode(0, 3), Episode(5, 2)), action_names=["a", "b"])
    assert log == Trajectory.from_symbols(
        ["a", "b", "a", "a", "b"],
        ["1", "2", "3", "6", "7"],
        rewards=[0, 0.5, 1, 0, 0.5],
        episode_starts=[0, 3],
        terminated=[False, False, True, False, True],
        first_observations=["0", "5"],
    )


def test_datasets_that_are_none() -> None:
    with pytest.raises(UsageError, match="expected a dataset of Minari"):
        from_minari(3)
    with pytest.raises(DataError, match="0 steps"):
        from_minari(Dataset())
    wrong = Episode(0, 3)
    wrong.observations = wrong.observations[:-1]
    with pytest.raises(DataError, match="one more is expected"):
        from_minari(Dataset(wrong))


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # Minari leaves a folder to the collector
def test_a_dataset_of_minari_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is installed."""
    for needed in ("h5py", "jax"):  # to collect one; to read it the first is enough
        pytest.importorskip(needed)
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    env = minari.DataCollector(gymnasium.make("FrozenLake-v1"))
    env.action_space.seed(1)
    first, starts, steps = [], [], []
    for seed in range(5):
        shown, _ = env.reset(seed=seed)
        first.append(str(shown))
        starts.append(len(steps))
        over = False
        while not over:
            action = env.action_space.sample()
            shown, reward, ended, cut, _ = env.step(action)
            steps.append((str(action), str(shown), float(reward), ended))
            over = ended or cut
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is said of a dataset that is published
        data = env.create_dataset("test/lake-v0")
    env.close()
    log = from_minari(data)
    actions, observations, rewards, terminated = zip(*steps, strict=True)
    assert log == Trajectory.from_symbols(
        actions,
        observations,
        rewards=rewards,
        episode_starts=starts,
        terminated=terminated,
        first_observations=first,
    )
    assert from_minari("test/lake-v0") == log
    target = tmp_path / "lake.parquet"
    assert run(["record", "minari:test/lake-v0", "-o", str(target)]) == 0
    assert read_log(target) == log


# ---------------------------------------------------------------- from the shell


def test_record_from_the_shell(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "lake.parquet"
    arguments = ["record", "FrozenLake-v1", "--steps", "500", "--seed", "4", "--action-names", "l,d,r,u"]
    assert run([*arguments, "-o", str(target)]) == 0
    log = read_log(target)
    assert log == record("FrozenLake-v1", 500, seed=4, action_names=["l", "d", "r", "u"])
    assert f"wrote 500 steps in {log.n_episodes} episodes" in capfd.readouterr().out
    assert run([*arguments, "--set", "is_slippery=false", "--environments", "3", "-o", str(target)]) == 0
    world = gymnasium.make_vec("FrozenLake-v1", num_envs=3, vectorization_mode="sync", is_slippery=False)
    assert read_log(target) == record(world, 500, seed=4, action_names=["l", "d", "r", "u"])


def test_a_mapper_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "mapper.py").write_text("def side(o):\n    return 'left' if o[2] < 0 else 'right'\n")
    target = tmp_path / "pole.csv"
    observe = f"{tmp_path / 'mapper.py'}:side"
    assert run(["record", "CartPole-v1", "--steps", "100", "--observe", observe, "-o", str(target)]) == 0
    assert read_log(target).observation_names == ("left", "right")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["Nothing-v0"], 2),
        (["CartPole-v1"], 2),
        (["FrozenLake-v1", "--set", "is_slippery"], 2),
        (["FrozenLake-v1", "--set", "no_such=1"], 2),
        (["FrozenLake-v1", "--observe", "x"], 2),
        (["FrozenLake-v1", "--observe", "nowhere.py:f"], 2),
        (["FrozenLake-v1", "--observe", "{file}:g"], 2),
        (["FrozenLake-v1", "--observe", "{file}:f"], 2),
        (["FrozenLake-v1", "--action-names", "a,b"], 3),
        (["minari:no/such-v0"], None),
    ],
)
def test_mistakes_in_the_shell(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], code: int | None
) -> None:
    (tmp_path / "m.py").write_text("def f(o):\n    raise KeyError('x')\n")
    filled = [argument.format(file=tmp_path / "m.py") for argument in arguments]
    got = run(["record", *filled, "--steps", "10", "-o", str(tmp_path / "log.csv")])
    assert got == code or (code is None and got in (2, 3))
    assert "internal error" not in capfd.readouterr().err
    assert not (tmp_path / "log.csv").exists()


def test_an_ending_that_cannot_be_written_is_told_first(tmp_path: Path) -> None:
    assert run(["record", "FrozenLake-v1", "-o", str(tmp_path / "log.feather")]) == 2


def test_without_gymnasium() -> None:
    program = (
        "import sys; sys.modules['gymnasium'] = None; sys.modules['minari'] = None\n"
        "import unlatch\n"
        "for call in (lambda: unlatch.record('FrozenLake-v1', 5), lambda: unlatch.from_minari('x')):\n"
        "    try: call()\n"
        "    except unlatch.errors.MissingDependencyError as error: print(error)\n"
    )
    run_ = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ}, check=True
    )
    assert "pip install 'unlatch[gymnasium]'" in run_.stdout
    assert "pip install minari" in run_.stdout
    assert unlatch.record is record
