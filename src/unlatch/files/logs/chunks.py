"""The chunks of a log that is read: in other sizes, and as one log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unlatch.core.alphabet import sorted_names
from unlatch.core.chunks import LogChunk, concatenated
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.trajectory import Trajectory, checked_before

__all__ = ["Joining", "resized"]

Array = NDArray[Any]

_LONG = 1 << 14
"""Entries of a first chunk after which more are expected."""

_ROOM = 1 << 20
"""Entries for which an array that grows has room at first, if more are expected."""


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


class Joining:
    """The chunks of a log, one after the other, become one log with sorted alphabets.

    Codes stay narrow until all names are known, numbers are copied once; a chunk is not needed once it was added.
    """

    def __init__(self) -> None:
        self._actions = _Growing()
        self._observations = _Growing()
        self._first = _Growing()
        self._starts = _Growing()
        self._others = {name: _Growing() for name in ("rewards", "probabilities", "terminated")}
        self._last: LogChunk | None = None

    def add(self, chunk: LogChunk) -> None:
        self._actions.add(chunk.actions)
        self._observations.add(chunk.observations)
        self._starts.add(chunk.episode_starts + chunk.start)
        if chunk.first_observations is not None:
            self._first.add(chunk.first_observations)
        for name, column in self._others.items():
            part = getattr(chunk, name)
            if part is not None:
                column.add(part)
        self._last = chunk

    def finished(self, diagnostics: Diagnostics) -> Trajectory:
        """The whole; what the reader has seen to is not asked again."""
        last = self._last
        if last is None:
            raise ValueError("nothing was read")
        first_names = last.observation_names
        first: Array | None = None
        action_names, actions = _sorted_codes(self._actions.all(), last.action_names)
        observation_names, observations = _sorted_codes(self._observations.all(), last.observation_names)
        if last.first_observation_names:
            first_names, first = _sorted_codes(self._first.all(), last.first_observation_names)
        others: dict[str, Any] = {
            name: column.all() if len(column) == len(actions) else None
            for name, column in self._others.items()
        }
        return checked_before(
            actions=actions,
            observations=observations,
            action_names=action_names,
            observation_names=observation_names,
            episode_starts=self._starts.all(),
            first_observations=first,
            first_observation_names=first_names,
            diagnostics=diagnostics,
            **others,
        )


class _Growing:
    """Arrays put together end to end, in one place that grows where there is no room: a large one is moved by the
    system, which copies nothing."""

    def __init__(self) -> None:
        self._array: Array | None = None
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, part: Array) -> None:
        end = self._size + len(part)
        if self._array is None:
            self._array = np.empty(end if end < _LONG else max(end, _ROOM), dtype=part.dtype)
        elif end > len(self._array):
            self._array.resize(end + end // 4, refcheck=False)
        self._array[self._size : end] = part
        self._size = end

    def all(self) -> Array:
        """What was added; nobody will write to it, and no more can be added."""
        whole = np.zeros(0, dtype=np.int64) if self._array is None else self._array
        whole.resize(self._size, refcheck=False)  # gives the rest back; no copy
        whole.setflags(write=False)
        return whole


def _sorted_codes(codes: Array, names: Sequence[str]) -> tuple[tuple[str, ...], Array]:
    """The names in sorted order, and all codes as codes of that order."""
    from unlatch.kernels.text import look_up

    ordered = sorted_names(names)
    rank = {name: i for i, name in enumerate(ordered)}
    result = np.empty(len(codes), dtype=np.int64)
    look_up(np.array([rank[name] for name in names], dtype=np.int64), codes, result)
    result.setflags(write=False)
    return tuple(ordered), result
