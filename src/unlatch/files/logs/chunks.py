"""The chunks of a log that is read: in other sizes, and as one log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unlatch.core.alphabet import sorted_names
from unlatch.core.chunks import LogChunk, column, concatenated
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.trajectory import Trajectory

__all__ = ["joined", "resized"]

Array = NDArray[Any]


def resized(chunks: Iterable[LogChunk], steps: int) -> Iterator[LogChunk]:
    """The same steps in chunks of ``steps``, the last of fewer."""
    waiting: list[LogChunk] = []
    count = 0
    for chunk in chunks:
        waiting.append(chunk)
        count += len(chunk)
        if count < steps:
            continue
        whole = concatenated(waiting)
        full = count - count % steps
        for start in range(0, full, steps):
            yield whole.part(start, start + steps)
        waiting, count = [whole.part(full, count)], count - full
    if count:
        yield concatenated(waiting)


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
        rewards=_kept(column(chunks, "rewards")),
        episode_starts=_kept(np.concatenate([chunk.episode_starts + chunk.start for chunk in chunks])),
        probabilities=_kept(column(chunks, "probabilities")),
        terminated=_kept(column(chunks, "terminated")),
        first_observations=first,
        first_observation_names=first_names,  # type: ignore[arg-type]
        diagnostics=diagnostics,
    )


def _kept(array: Array | None) -> Any:
    """A new array that nobody else has and nobody will write to: then a log needs no copy of it."""
    if array is not None:
        array.setflags(write=False)
    return array


def _sorted_codes(parts: Sequence[Array], names: Sequence[str]) -> tuple[tuple[str, ...], Array]:
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
    return tuple(ordered), _kept(result)
