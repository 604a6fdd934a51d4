"""What environments show and what can be done in them, as symbols."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from unlatch.core.alphabet import refuse_continuous
from unlatch.core.trajectory import Trajectory
from unlatch.errors import DataError, UsageError

__all__ = ["Observe", "Recorder", "actions_of", "checked_observe", "discrete_sizes", "joined", "symbol"]

Observe = Callable[[Any], Any]
"""Makes a symbol of what an environment shows: text, a whole number, or a tuple of these."""

_BETWEEN = "|"
"""Between the parts of a symbol, as where a log has several columns of one observation."""


def symbol(value: Any, where: str) -> str:
    """Text as it is, a whole number by its digits, several by a bar between them."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | np.bool_ | np.integer):
        return str(int(value))
    if isinstance(value, np.ndarray) and value.dtype.kind in "biu":
        return (
            symbol(value.item(), where)
            if value.ndim == 0
            else _BETWEEN.join(map(str, map(int, value.ravel())))
        )
    if isinstance(value, list | tuple):
        return _BETWEEN.join(symbol(part, where) for part in value)
    kind = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
    raise DataError(
        f"{where}: {kind} is no symbol; map it to text, a whole number or a tuple of these with observe=... (--observe)"
    )


def discrete_sizes(space: Any) -> tuple[int, ...] | None:
    """How many values every part of a discrete space of Gymnasium has; None for a space of another kind."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return (int(space.n),)
    if isinstance(space, spaces.MultiDiscrete):
        return tuple(int(n) for n in np.ravel(space.nvec))
    if isinstance(space, spaces.MultiBinary):
        return (2,) * int(np.prod(space.shape))
    if isinstance(space, spaces.Tuple):
        parts = [discrete_sizes(part) for part in space.spaces]
        return None if None in parts else tuple(n for part in parts if part is not None for n in part)
    return None


def actions_of(space: Any, where: str) -> tuple[int, ...]:
    """The sizes of a discrete space of actions, or an error."""
    sizes = discrete_sizes(space)
    if sizes is None:
        raise UsageError(
            f"{where}: the actions are {str(space)[:80]}; only discrete ones can be recorded: wrap the "
            f"environment so that it "
            "takes one of finitely many"
        )
    return sizes


def checked_observe(space: Any, observe: Observe | None, where: str) -> Observe:
    """What makes symbols of observations: the caller's function, or the values themselves if the space is discrete."""
    from gymnasium import spaces

    if observe is not None:
        if not callable(observe):
            raise UsageError(f"observe must be a function of an observation, got {type(observe).__name__}")
        return observe
    if discrete_sizes(space) is None and not isinstance(space, spaces.Text):
        raise UsageError(
            f"{where}: shows {str(space)[:80]}, which is not discrete; say which symbol stands for an observation with "
            "observe=..., a function (--observe FILE.py:FUNCTION)"
        )
    return lambda value: value


class _Codes:
    """Symbols as they come, numbered."""

    def __init__(self) -> None:
        self._table: dict[str, int] = {}
        self.codes: list[int] = []

    def add(self, name: str) -> None:
        self.codes.append(self._table.setdefault(name, len(self._table)))

    def names(self) -> list[str]:
        known = list(self._table)
        return [known[code] for code in self.codes]

    def refuse_continuous(self, what: str) -> None:
        refuse_continuous(what, len(self._table), len(self.codes))


class Recorder:
    """Collects the episodes of one environment."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.actions, self.observations, self.first = _Codes(), _Codes(), _Codes()
        self.rewards: list[float] = []
        self.terminated: list[bool] = []
        self.chances: list[float] = []
        self.starts: list[int] = []

    def __len__(self) -> int:
        return len(self.rewards)

    def begin(self, shown: Any) -> None:
        """A new episode, which shows something before the first action."""
        if self.starts and self.starts[-1] == len(self):  # the one before has no step
            self.starts.pop()
            self.first.codes.pop()
        self.starts.append(len(self))
        self.first.add(symbol(shown, self.where))

    def add(self, action: str, shown: Any, reward: Any, terminated: Any, chance: float | None) -> None:
        """One step of the present episode."""
        self.actions.add(action)
        self.observations.add(symbol(shown, self.where))
        self.rewards.append(float(reward))
        self.terminated.append(bool(terminated))
        if chance is not None:
            self.chances.append(chance)


def joined(recorders: Sequence[Recorder]) -> Trajectory:
    """The episodes of all recorders as one log."""
    kept = [recorder for recorder in recorders if len(recorder)]
    actions: list[str] = []
    observations: list[str] = []
    first: list[str] = []
    starts: list[int] = []
    for recorder in kept:
        recorder.observations.refuse_continuous(f"{recorder.where}: what is observed")
        opened = recorder.first.names()
        if recorder.starts[-1] == len(recorder):  # reset, and nothing done
            opened, recorder.starts = opened[:-1], recorder.starts[:-1]
        starts += [start + len(actions) for start in recorder.starts]
        actions += recorder.actions.names()
        observations += recorder.observations.names()
        first += opened
    chances = [chance for recorder in kept for chance in recorder.chances]
    if 0 < len(chances) < len(actions):
        raise UsageError("the policy gave the probabilities of some actions but not of all; give all or none")
    return Trajectory.from_symbols(
        actions,
        observations,
        rewards=[reward for recorder in kept for reward in recorder.rewards],
        episode_starts=starts,
        probabilities=chances or None,
        terminated=[ended for recorder in kept for ended in recorder.terminated],
        first_observations=first,
    )
