"""A log in pieces: what passes over it need of each, whoever reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from unlatch.arrays import Flags, Floats, Ints
from unlatch.core.trajectory import Trajectory

__all__ = ["Chunk", "LogPiece", "pieces_of"]


class Chunk(Protocol):
    """Consecutive steps of a log, with the alphabets as far as they are known.

    A code keeps its meaning from chunk to chunk: later alphabets begin with the earlier ones.
    """

    @property
    def start(self) -> int:
        """How many steps of the log came before."""

    @property
    def actions(self) -> Any:
        """Codes of ``action_names``, any kind of integer, shape (steps,)."""

    @property
    def observations(self) -> Any: ...
    @property
    def episode_starts(self) -> Ints:
        """Steps of this chunk, counted from its first, at which an episode begins."""

    @property
    def action_names(self) -> tuple[str, ...]: ...
    @property
    def observation_names(self) -> tuple[str, ...]: ...
    @property
    def rewards(self) -> Floats | None: ...
    @property
    def probabilities(self) -> Floats | None: ...
    @property
    def terminated(self) -> Flags | None: ...
    @property
    def first_observations(self) -> Ints | None:
        """One for each of ``episode_starts``."""

    @property
    def first_observation_names(self) -> tuple[str, ...]: ...

    def __len__(self) -> int: ...


@dataclass(frozen=True, eq=False)
class LogPiece:
    """Some steps of a log that is in memory; a `Chunk`."""

    start: int
    actions: Ints
    observations: Ints
    episode_starts: Ints
    action_names: tuple[str, ...]
    observation_names: tuple[str, ...]
    rewards: Floats | None = None
    probabilities: Floats | None = None
    terminated: Flags | None = None
    first_observations: Ints | None = None
    first_observation_names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.actions)


def pieces_of(log: Trajectory, size: int) -> Iterator[LogPiece]:
    """A log in pieces of ``size`` steps, the last of fewer."""
    for start in range(0, len(log), size):
        stop = min(start + size, len(log))
        first, last = np.searchsorted(log.episode_starts, (start, stop))
        shown = log.first_observations
        yield LogPiece(
            start=start,
            actions=log.actions[start:stop],
            observations=log.observations[start:stop],
            episode_starts=log.episode_starts[first:last] - start,
            action_names=log.action_names,
            observation_names=log.observation_names,
            rewards=None if log.rewards is None else log.rewards[start:stop],
            probabilities=None if log.probabilities is None else log.probabilities[start:stop],
            terminated=None if log.terminated is None else log.terminated[start:stop],
            first_observations=None if shown is None else shown[first:last],
            first_observation_names=log.first_observation_names,
        )
