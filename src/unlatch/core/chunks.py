"""A log in chunks: what a reader gives while it reads, and what passes over a log take one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unlatch.arrays import Flags, Floats, Ints
from unlatch.core.trajectory import Trajectory

__all__ = ["LogChunk", "chunks_of", "column", "concatenated", "own_copy"]

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class LogChunk:
    """Some consecutive steps of a log, with the alphabets as far as they are known.

    A code keeps its meaning from chunk to chunk: later alphabets begin with the earlier ones. In the chunks that
    `iterate_log` gives, names stand in the order in which they appeared, not in sorted order as in the `Trajectory`
    that `read_log` makes.

    Attributes
    ----------
    start : int
        How many steps of the log came before.
    actions, observations : array of integers, shape (steps,)
        Codes into ``action_names`` and ``observation_names``; of 16 bits where a reader made them.
    episode_starts : array of int, shape (episodes that begin here,)
        Steps of this chunk, counted from its first, at which an episode begins. Unless the first is 0, the chunk
        goes on with the episode before: windows reach back into the chunks before it, as far as that episode does.
    rewards, probabilities : array of float, shape (steps,), or None
    terminated : array of bool, shape (steps,), or None
    first_observations : array of int, shape (episodes that begin here,), or None
        Codes into ``first_observation_names``.

    Examples
    --------
    >>> import io, unlatch
    >>> text = b"action,observation\\nleft,dark\\nright,dark\\nleft,light\\n"
    >>> for chunk in unlatch.iterate_log(io.BytesIO(text), chunk=2):
    ...     print(chunk.start, chunk.observations.tolist(), chunk.episode_starts.tolist())
    0 [0, 0] [0]
    2 [1] []
    >>> chunk.observation_names
    ('dark', 'light')
    """

    start: int
    actions: Array
    observations: Array
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

    def part(self, start: int, stop: int) -> LogChunk:
        """The steps from ``start`` up to ``stop`` of this chunk."""
        first, last = np.searchsorted(self.episode_starts, (start, stop))
        first_observations = self.first_observations
        return replace(
            self,
            start=self.start + start,
            actions=self.actions[start:stop],
            observations=self.observations[start:stop],
            episode_starts=self.episode_starts[first:last] - start,
            rewards=None if self.rewards is None else self.rewards[start:stop],
            probabilities=None if self.probabilities is None else self.probabilities[start:stop],
            terminated=None if self.terminated is None else self.terminated[start:stop],
            first_observations=None if first_observations is None else first_observations[first:last],
        )


def chunks_of(log: Trajectory, size: int) -> Iterator[LogChunk]:
    """A log in chunks of ``size`` steps, the last of fewer."""
    whole = LogChunk(
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
        yield whole.part(start, min(start + size, len(log)))


def own_copy(chunk: LogChunk) -> LogChunk:
    """With arrays of its own: a slice would keep the whole that it is a slice of."""
    arrays: dict[str, Any] = {
        name: value.copy() for name, value in vars(chunk).items() if isinstance(value, np.ndarray)
    }
    return replace(chunk, **arrays)


def concatenated(chunks: Sequence[LogChunk]) -> LogChunk:
    """Chunks that follow each other as one."""
    if len(chunks) == 1:
        return chunks[0]
    first, last = chunks[0], chunks[-1]
    return replace(
        last,
        start=first.start,
        actions=np.concatenate([chunk.actions for chunk in chunks]),
        observations=np.concatenate([chunk.observations for chunk in chunks]),
        episode_starts=np.concatenate([chunk.episode_starts + chunk.start - first.start for chunk in chunks]),
        rewards=column(chunks, "rewards"),
        probabilities=column(chunks, "probabilities"),
        terminated=column(chunks, "terminated"),
        first_observations=column(chunks, "first_observations"),
    )


def column(chunks: Sequence[LogChunk], name: str) -> Any:
    """One field of all chunks; None unless all have it."""
    parts = [getattr(chunk, name) for chunk in chunks]
    return None if any(part is None for part in parts) else np.concatenate(parts)
