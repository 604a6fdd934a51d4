"""The chunks of a log that is read: in other sizes, and as one log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unlatch.core.alphabet import sorted_names
from unlatch.core.chunks import LogChunk, concatenated
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.trajectory import Trajectory, checked_before

__all__ = ["Joining", "resized"]

Array = NDArray[Any]

ROOM = 4
"""Times as much as is needed is the room that a growing array is given."""

_THREADS, _STEPS_PER_THREAD = 2, 1 << 20
"""Threads that translate codes at the end, and the steps that each has at least."""


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
        self._actions = _Column()
        self._observations = _Column()
        self._first = _Column()
        self._starts = _Column()
        self._others = {name: _Column() for name in ("rewards", "probabilities", "terminated")}
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
        first: Array | None = None
        action_names, actions = _sorted_codes(self._actions, last.action_names)
        observation_names, observations = _sorted_codes(self._observations, last.observation_names)
        first_names = observation_names
        if last.first_observation_names:
            first_names, first = _sorted_codes(self._first, last.first_observation_names)
        others: dict[str, Any] = {
            name: column.whole() if len(column) == len(actions) else None
            for name, column in self._others.items()
        }
        return checked_before(
            actions=actions,
            observations=observations,
            action_names=action_names,
            observation_names=observation_names,
            episode_starts=self._starts.whole(),
            first_observations=first,
            first_observation_names=first_names,
            diagnostics=diagnostics,
            **others,
        )


class _Column:
    """Arrays put together end to end, in one with much room: what was never written to takes no memory, and what is
    taken in small pieces would cost more to get from the system than to read."""

    def __init__(self) -> None:
        self._array: Array = np.zeros(0)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, part: Array) -> None:
        end = self._size + len(part)
        if end > len(self._array):
            self._make_room(end, part.dtype)
        self._array[self._size : end] = part
        self._size = end

    def _make_room(self, needed: int, dtype: Any) -> None:
        try:
            larger = np.empty(ROOM * needed if self._size else needed, dtype=dtype)
        except MemoryError:  # some systems lend no more than they have
            larger = np.empty(needed + needed // 8, dtype=dtype)
        larger[: self._size] = self.filled
        self._array = larger

    @property
    def filled(self) -> Array:
        return self._array[: self._size]

    def whole(self) -> Array:
        """What was added; nobody will write to it, and no more can be added."""
        self._array.resize(self._size, refcheck=False)  # gives the rest back
        self._array.setflags(write=False)
        return self._array


def _sorted_codes(codes: _Column, names: Sequence[str]) -> tuple[tuple[str, ...], Array]:
    """The names in sorted order, and all codes as codes of that order."""
    from unlatch.kernels.text import look_up

    ordered = sorted_names(names)
    rank = {name: i for i, name in enumerate(ordered)}
    table = np.array([rank[name] for name in names], dtype=np.int64)
    result = np.empty(len(codes), dtype=np.int64)
    size = max(_STEPS_PER_THREAD, -(-len(codes) // _THREADS))
    parts = [slice(start, start + size) for start in range(0, len(codes), size)]

    def translate(part: slice) -> None:
        look_up(table, codes.filled[part], result[part])

    if len(parts) > 1:  # most of the time the system is looking for memory that the result goes to
        with ThreadPoolExecutor(max_workers=_THREADS) as pool:
            list(pool.map(translate, parts))
    else:
        translate(slice(None))
    result.setflags(write=False)
    return tuple(ordered), result
