"""Act in a real environment: anything with the two methods of Gymnasium, ``reset`` and ``step``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from unlatch.core.progress import report
from unlatch.core.reward import symbol_code
from unlatch.core.symbols import plain_observations
from unlatch.errors import BeliefCollapseError, BeliefCollapseWarning, DataError, UsageError

__all__ = ["Mapper", "Played", "is_environment", "play_environment"]

Mapper = Callable[[Any], Any] | Mapping[Any, Any]
"""What something is called on the other side: a function or a table."""


@dataclass(frozen=True)
class Played:
    """One episode: the sum of its rewards, its steps, whether it ended, and how many observations were impossible."""

    total: float
    length: int
    ended: bool
    collapses: int


def is_environment(truth: object) -> bool:
    """Whether ``truth`` has the methods of an environment."""
    return callable(getattr(truth, "reset", None)) and callable(getattr(truth, "step", None))


def play_environment(
    environment: Any,
    planner: Any,
    *,
    episodes: int,
    steps: int,
    seed: int,
    tells: tuple[bool, bool],
    action_map: Mapper | None,
    observation_map: Mapper | None,
    on_collapse: str,
) -> list[Played]:
    """Let ``planner`` act; ``tells`` says whether it is told of first observations and of rewards."""
    stage = _Stage(environment, planner, *tells, action_map, observation_map, on_collapse)
    played = []
    for episode in range(episodes):
        before = getattr(planner, "collapses", 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BeliefCollapseWarning)  # the result counts them
            total, length, ended, caught = stage.play(steps, seed if episode == 0 else None)
        counted = getattr(planner, "collapses", 0) - before
        played.append(Played(total, length, ended, max(caught, counted)))
        report("acting", episode + 1, episodes)
    planner.reset()
    return played


@dataclass
class _Stage:
    environment: Any
    planner: Any
    tells_first: bool
    tells_rewards: bool
    action_map: Mapper | None
    observation_map: Mapper | None
    on_collapse: str

    def play(self, steps: int, seed: int | None) -> tuple[float, int, bool, int]:
        """One episode: its sum of rewards, its steps, whether it ended, collapses caught."""
        total, caught = 0.0, 0
        caught += self._begin(_started(self.environment, seed))
        for taken in range(1, steps + 1):
            name = self._action_name(self.planner.action())
            seen, reward, ended, cut = _stepped(self.environment, self._environment_action(name))
            total += reward
            caught += self._tell(name, self._observation_name(seen), reward)
            if ended or cut:
                return total, taken, ended, caught
        return total, steps, False, caught

    def _begin(self, seen: Any) -> int:
        if not self.tells_first:
            self.planner.reset()
            return 0
        return self._caught(lambda: self.planner.reset(self._first_name(seen)))

    def _tell(self, action: str, observation: str, reward: float) -> int:
        if self.tells_rewards:
            return self._caught(lambda: self.planner.observe(action, observation, reward=reward))
        return self._caught(lambda: self.planner.observe(action, observation))

    def _caught(self, telling: Callable[[], None]) -> int:
        try:
            telling()
        except BeliefCollapseError:
            if self.on_collapse == "raise":
                raise
            self.planner.reset()
            return 1
        return 0

    def _action_name(self, action: Any) -> str:
        names = self.planner.model.action_names
        return str(names[symbol_code("action", action, names)])

    def _environment_action(self, name: str) -> Any:
        """By the caller's table; else the number that the name is, else its place among the model's actions."""
        if self.action_map is not None:
            return _looked_up("action", self.action_map, name)
        return int(name) if name.isascii() and name.isdigit() else self.planner.model.action_names.index(name)

    def _observation_name(self, seen: Any) -> str:
        model = self.planner.model
        known = (*model.observation_names, *plain_observations(model.observation_names, model.symbol_rewards))
        return self._name(seen, known, model.observation_names)

    def _first_name(self, seen: Any) -> str:
        known = getattr(self.planner.model, "first_observation_names", ())
        return self._name(seen, known, known)

    def _name(self, seen: Any, known: tuple[str, ...], ordered: tuple[str, ...]) -> str:
        """By the caller's table; else as text if the model knows that, else by its number."""
        if self.observation_map is not None:
            return str(_looked_up("observation", self.observation_map, seen))
        if isinstance(seen, np.ndarray) and seen.ndim == 0:
            seen = seen.item()
        text = str(seen)
        if text in known or isinstance(seen, str) or not isinstance(seen, int | np.integer):
            return text
        return ordered[seen] if 0 <= seen < len(ordered) else text


def _looked_up(kind: str, mapper: Mapper, key: Any) -> Any:
    if not isinstance(mapper, Mapping):
        return mapper(key)
    try:
        return mapper[key]
    except (KeyError, TypeError):
        raise UsageError(f"the table of {kind}s does not know {key!r:.100}") from None


def _started(environment: Any, seed: int | None) -> Any:
    """The first observation."""
    result = environment.reset() if seed is None else environment.reset(seed=seed)
    if not isinstance(result, tuple) or len(result) != 2:
        raise DataError("the environment's reset() must return (observation, info), as in Gymnasium")
    return result[0]


def _stepped(environment: Any, action: Any) -> tuple[Any, float, bool, bool]:
    """What a step shows and pays, whether it ended the episode, and whether it was merely cut."""
    result = environment.step(action)
    if not isinstance(result, tuple) or len(result) != 5:
        raise DataError(
            "the environment's step() must return (observation, reward, terminated, truncated, info), as in Gymnasium; "
            "an older one needs a wrapper"
        )
    seen, reward, ended, cut, _ = result
    value = float(reward)
    if not np.isfinite(value):
        raise DataError(f"the environment paid {value}; rewards must be finite")
    return seen, value, bool(ended), bool(cut)
