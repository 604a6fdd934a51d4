"""A log in pieces: what a reader gives while it reads, and how the pieces make one log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unlatch.arrays import Flags, Floats, Ints
from unlatch.core.alphabet import sorted_names
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.trajectory import Trajectory

__all__ = ["LogChunk", "joined", "resized"]

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class LogChunk:
    """Some consecutive steps of a log, with the alphabets as far as they are known.

    A code keeps its meaning from chunk to chunk: later alphabets begin with the earlier ones. Names stand in the
    order in which they appeared, not in sorted order as in the `Trajectory` that `read_log` makes.

    Attributes
    ----------
    start : int
        How many steps of the log came before.
    actions, observations : array of uint16, shape (steps,)
        Codes into ``action_names`` and ``observation_names``.
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


def resized(chunks: Iterable[LogChunk], steps: int) -> Iterator[LogChunk]:
    """The same steps in chunks of ``steps``, the last of fewer."""
    waiting: list[LogChunk] = []
    count = 0
    for chunk in chunks:
        waiting.append(chunk)
        count += len(chunk)
        if count < steps:
            continue
        whole = _concatenated(waiting)
        full = count - count % steps
        for start in range(0, full, steps):
            yield whole.part(start, start + steps)
        waiting, count = [whole.part(full, count)], count - full
    if count:
        yield _concatenated(waiting)


def _concatenated(chunks: Sequence[LogChunk]) -> LogChunk:
    if len(chunks) == 1:
        return chunks[0]
    first, last = chunks[0], chunks[-1]
    return replace(
        last,
        start=first.start,
        actions=np.concatenate([chunk.actions for chunk in chunks]),
        observations=np.concatenate([chunk.observations for chunk in chunks]),
        episode_starts=np.concatenate([chunk.episode_starts + chunk.start - first.start for chunk in chunks]),
        rewards=_column(chunks, "rewards"),
        probabilities=_column(chunks, "probabilities"),
        terminated=_column(chunks, "terminated"),
        first_observations=_column(chunks, "first_observations"),
    )


def _column(chunks: Sequence[LogChunk], name: str) -> Any:
    """One field of all chunks; None unless all have it."""
    parts = [getattr(chunk, name) for chunk in chunks]
    return None if any(part is None for part in parts) else np.concatenate(parts)


def joined(chunks: Sequence[LogChunk], diagnostics: Diagnostics) -> Trajectory:
    """All chunks of a log as one, with sorted alphabets."""
    last = chunks[-1]
    action_names, actions = _sorted_codes([chunk.actions for chunk in chunks], last.action_names)
    observation_names, observations = _sorted_codes(
        [chunk.observations for chunk in chunks], last.observation_names
    )
    first, first_names = None, None
    if last.first_observation_names:
        parts = [chunk.first_observations for chunk in chunks if chunk.first_observations is not None]
        first_names, first = _sorted_codes(parts, last.first_observation_names)
    return Trajectory(
        actions=actions,
        observations=observations,
        action_names=action_names,
        observation_names=observation_names,
        rewards=_column(chunks, "rewards"),
        episode_starts=np.concatenate([chunk.episode_starts + chunk.start for chunk in chunks]),
        probabilities=_column(chunks, "probabilities"),
        terminated=_column(chunks, "terminated"),
        first_observations=first,
        first_observation_names=first_names,  # type: ignore[arg-type]
        diagnostics=diagnostics,
    )


def _sorted_codes(parts: Sequence[Array], names: Sequence[str]) -> tuple[tuple[str, ...], Ints]:
    """The names in sorted order, and all codes as codes of that order."""
    from unlatch.kernels.text import look_up

    ordered = sorted_names(names)
    rank = {name: i for i, name in enumerate(ordered)}
    table = np.array([rank[name] for name in names], dtype=np.int64)
    result = np.empty(sum(map(len, parts)), dtype=np.int64)
    done = 0
    for part in parts:
        look_up(table, part, result[done : done + len(part)])
        done += len(part)
    result.setflags(write=False)
    return tuple(ordered), result
