"""One battery of checks that every learner passes: probabilities or a declared error, whatever the log is like.

A learner enters by one line in `LEARNERS`; a log that once broke one enters by one line in `LOGS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

import unlatch
from sizes import UNCOMPILED, sized
from unlatch import POMDP, PSR, Trajectory
from unlatch.errors import UnlatchError

ROUNDING = 1e-9

SECONDS = 5 if UNCOMPILED else 20
"""Time limit of the learner that has one."""

EPISODE = 15
"""Steps of the episodes of a log of many."""


# --- learners ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Learner:
    """A way from a log to a model.

    Attributes
    ----------
    name : str
    learn : callable
        From a log and a seed to a result.
    explains : bool
        Whether the log that a model was learned from must be possible under it.
    """

    name: str
    learn: Callable[[Any, int], Any]
    explains: bool

    def __repr__(self) -> str:
        return self.name

    def model(self, log: Any, seed: int = 1) -> POMDP | PSR:
        """The model alone."""
        return model_of(self.learn(log, seed))


def model_of(result: Any) -> POMDP | PSR:
    return result if isinstance(result, PSR) else result.pomdp


def _refined(log: Any, seed: int) -> Any:
    return unlatch.refine(_any_model(log, seed), log, passes=60)


def _any_model(log: Any, seed: int) -> POMDP:
    """Two states with random rows in the alphabets of the log, to begin from."""
    rng = np.random.default_rng(seed)
    known = log.with_reward_symbols() if isinstance(log, Trajectory) else None
    actions = ("a", "b") if known is None else known.action_names
    symbols = ("x", "y") if known is None else known.observation_names
    return POMDP(
        transitions=rng.dirichlet(np.ones(2), size=(len(actions), 2)),
        observations=rng.dirichlet(np.ones(len(symbols)), size=(len(actions), 2)),
        initial=np.full(2, 0.5),
        action_names=actions,
        observation_names=symbols,
        symbol_rewards=None if known is None else known.symbol_rewards,
    )


LEARNERS = [
    Learner(
        "learn_pomdp", lambda log, seed: unlatch.learn_pomdp(log, time_limit=SECONDS, rng=seed), explains=True
    ),
    Learner("spectral", lambda log, seed: unlatch.learn_pomdp(log, refine=None, rng=seed), explains=False),
    Learner("learn_em", lambda log, seed: unlatch.learn_em(log, 2, iterations=50, rng=seed), explains=True),
    Learner("learn_tensor", lambda log, seed: unlatch.learn_tensor(log, rng=seed), explains=False),
    Learner("learn_psr", lambda log, seed: unlatch.learn_psr(log, rng=seed), explains=False),
    Learner("refine", _refined, explains=True),
]


# --- logs -------------------------------------------------------------------------------------------------


def random_log(
    steps: int, *, actions: int = 2, observations: int = 2, seed: int = 7, **more: Any
) -> Trajectory:
    """A hidden bit that two actions keep or flip, seen with errors; further symbols are declared and never come."""
    rng = np.random.default_rng(seed)
    chosen = rng.integers(0, 2, steps)
    flips = rng.random(steps) < np.where(chosen == 0, 0.1, 0.6)
    hidden = np.cumsum(flips) % 2
    shown = np.where(rng.random(steps) < 0.85, hidden, 1 - hidden)
    return Trajectory(
        chosen,
        shown,
        action_names=[f"a{i}" for i in range(actions)],
        observation_names=[f"o{i}" for i in range(observations)],
        **more,
    )


def _constant(steps: int, actions: int) -> Trajectory:
    return Trajectory(np.arange(steps) % actions, np.zeros(steps, dtype=int))


def _one_action(steps: int, declared: int) -> Trajectory:
    shown = random_log(steps).observations
    names = [f"a{i}" for i in range(declared)]
    return Trajectory(np.zeros(steps, dtype=int), shown, action_names=names)


def _absorbed(steps: int) -> Trajectory:
    """A transient part, then an absorbing class that shows other symbols, in one episode."""
    rng = np.random.default_rng(3)
    before, after = rng.integers(0, 2, steps // 3), 2 + rng.integers(0, 2, steps - steps // 3)
    return Trajectory(rng.integers(0, 2, steps), np.concatenate([before, after]))


def _drifting(steps: int) -> Trajectory:
    """The same symbol with probability .2, then with .8."""
    rng = np.random.default_rng(4)
    chance = np.repeat([0.2, 0.8], [steps // 2, steps - steps // 2])
    return Trajectory(rng.integers(0, 2, steps), (rng.random(steps) < chance).astype(int))


def _policy(steps: int) -> Trajectory:
    """Actions that repeat the last observation."""
    shown = random_log(steps).observations
    return Trajectory(np.append(0, shown[:-1]), shown)


def _rewarded(steps: int) -> Trajectory:
    return random_log(steps, rewards=np.random.default_rng(5).integers(0, 2, steps) * 1.5 - 1)


LONG, MEDIUM = sized(1_200, 400), sized(600, 300)

SHORT = [0, 1, 2, 3, 5, 8, 13, 21, 34, 50, 60]

LOGS: dict[str, Callable[[], Trajectory]] = {
    **{f"{steps} steps": lambda steps=steps: random_log(steps) for steps in SHORT},
    "one long episode": lambda: random_log(LONG),
    "many episodes": lambda: random_log(MEDIUM, episode_starts=np.arange(0, MEDIUM, EPISODE)),
    "episodes of one step": lambda: random_log(300, episode_starts=np.arange(300)),
    "episodes of two steps": lambda: random_log(300, episode_starts=np.arange(0, 300, 2)),
    "one episode of many steps among short ones": lambda: random_log(400, episode_starts=[0, 1, 2, 3]),
    "constant observations": lambda: _constant(300, 2),
    "constant observations, one action": lambda: _constant(300, 1),
    "one of three actions": lambda: _one_action(500, 3),
    "one action": lambda: _one_action(500, 1),
    "symbols that never come": lambda: random_log(MEDIUM, actions=3, observations=5),
    "a cycle of three": lambda: Trajectory(np.zeros(600, dtype=int), np.arange(600) % 3),
    "absorbed": lambda: _absorbed(MEDIUM),
    "drifting": lambda: _drifting(LONG),
    "a deterministic policy": lambda: _policy(MEDIUM),
    "rewards": lambda: _rewarded(MEDIUM),
    "logged probabilities": lambda: random_log(MEDIUM, probabilities=np.full(MEDIUM, 0.5)),
    "as many symbols as steps, nearly": lambda: Trajectory(np.arange(60) % 2, np.arange(60) // 2 % 25),
}

HOSTILE: dict[str, Any] = {
    "None": None,
    "a path as text": "log.csv",
    "a path": Path("log.csv"),
    "bytes": b"log",
    "a number": 3,
    "a float": float("nan"),
    "a list of pairs": [(0, 1), (1, 0)],
    "ragged lists": [[0, 1], [1]],
    "an array": np.zeros((4, 2)),
    "an array of NaN": np.full(5, np.nan),
    "an object array": np.array([0, "a", None], dtype=object),
    "a dictionary": {"actions": [0], "observations": [1]},
    "the class": Trajectory,
    "a model": unlatch.domains.tiger(),
}
"""What is given in place of a log."""

HOSTILE_STEPS: dict[str, Any] = {
    "None": None,
    "text": "abc",
    "a path": Path("log.csv"),
    "a number": 5,
    "ragged": [[0, 1], [1]],
    "two-dimensional": [[0, 1], [1, 0]],
    "NaN": [0.0, float("nan")],
    "infinite": [0.0, float("inf")],
    "halves": [0.5, 1.5],
    "negative": [0, -1],
    "huge": [0, 2**70],
    "None inside": [0, None],
    "objects": np.array([0, object()], dtype=object),
    "nested text": [["a"], ["b", "c"]],
    "complex": [1j, 2j],
    "dates": np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]"),
    "a masked array": np.ma.masked_array([0, 1], mask=[False, True]),
    "a generator": (i for i in range(2)),
}
"""What is given in place of two actions or observations."""


# --- checks -----------------------------------------------------------------------------------------------


def outcome(learner: Learner, log: Any, seed: int = 1) -> Any:
    """What learning gives: a result, or the declared error that it raises; anything else propagates."""
    try:
        return learner.learn(log, seed)
    except UnlatchError as error:
        return error


def check_probabilities(model: POMDP | PSR) -> None:
    """Finite, and where it is a POMDP, rows that are distributions."""
    if isinstance(model, PSR):
        for numbers in (model.initial, model.updates, model.final):
            assert np.isfinite(numbers).all()
        return
    for rows in (model.initial, model.transitions, model.observations):
        assert np.isfinite(rows).all()
        assert rows.min() >= 0
        np.testing.assert_allclose(rows.sum(axis=-1), 1, atol=ROUNDING)


def check_explains(result: Any, log: Trajectory) -> None:
    """The log is possible under the model that was learned from it, and the likelihood said is its likelihood."""
    likelihood = result.pomdp.log_likelihood(log)
    assert np.isfinite(likelihood)
    np.testing.assert_allclose(result.log_likelihood, likelihood, rtol=1e-9, atol=1e-6)


def check_same(one: POMDP | PSR, other: POMDP | PSR) -> None:
    """The same numbers, bit for bit."""
    assert type(one) is type(other)
    for field in (
        ("initial", "updates") if isinstance(one, PSR) else ("initial", "transitions", "observations")
    ):
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field))


def arrays_of(value: Any, path: str = "result", depth: int = 2) -> list[tuple[str, np.ndarray]]:
    """All arrays in a result and in the values that it is made of, with where they are."""
    if isinstance(value, np.ndarray):
        return [(path, value)]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        parts = [(name, getattr(value, name)) for name in value._fields]
    elif is_dataclass(value) and not isinstance(value, type):
        parts = [(field.name, getattr(value, field.name)) for field in fields(value)]
    else:
        return []
    return [found for name, part in parts if depth for found in arrays_of(part, f"{path}.{name}", depth - 1)]


def snapshot(log: Trajectory) -> dict[str, Any]:
    """Copies of everything that a log holds."""
    return {
        field.name: np.array(value) if isinstance(value := getattr(log, field.name), np.ndarray) else value
        for field in fields(log)
    }
