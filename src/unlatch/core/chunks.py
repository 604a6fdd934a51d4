"""A log in pieces: what passes over it need of each, whoever reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from unlatch.arrays import Flags, Floats, Ints
from unlatch.core.trajectory import Trajectory

__all__ = ["Chunk", "LogPiece", "own_copy", "part_of", "pieces_of"]


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
    whole = LogPiece(
        start=0,
        actions=log.actions,
        observations=log.observations,
        episode_starts=log.episode_starts,
        action_names=log.action_names,
        observation_names=log.observation_names,
        rewards=log.rewards,
        probabilities=log.probabilities,
        terminated=log.terminated,
        first_observations=log.first_observations,
        first_observation_names=log.first_observation_names,
    )
    for start in range(0, len(log), size):
        yield part_of(whole, start, min(start + size, len(log)))


def part_of(chunk: Chunk, start: int, stop: int) -> LogPiece:
    """The steps from ``start`` up to ``stop`` of a chunk."""
    first, last = np.searchsorted(chunk.episode_starts, (start, stop))
    shown = chunk.first_observations
    return LogPiece(
        start=chunk.start + start,
        actions=chunk.actions[start:stop],
        observations=chunk.observations[start:stop],
        episode_starts=chunk.episode_starts[first:last] - start,
        action_names=chunk.action_names,
        observation_names=chunk.observation_names,
        rewards=None if chunk.rewards is None else chunk.rewards[start:stop],
        probabilities=None if chunk.probabilities is None else chunk.probabilities[start:stop],
        terminated=None if chunk.terminated is None else chunk.terminated[start:stop],
        first_observations=None if shown is None else shown[first:last],
        first_observation_names=chunk.first_observation_names,
    )


def own_copy(piece: LogPiece) -> LogPiece:
    """With arrays of its own: a slice would keep the whole that it is a slice of."""
    arrays: dict[str, Any] = {
        name: value.copy() for name, value in vars(piece).items() if isinstance(value, np.ndarray)
    }
    return replace(piece, **arrays)
