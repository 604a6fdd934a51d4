"""Windows counted as the steps of a log come in, in tables that grow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from unlatch.arrays import Floats, Ints
from unlatch.learn.spectral.windows import BLOCK_BITS, BLOCKS, WindowTable, digits_per_word

__all__ = ["Pieces", "Tally"]

_FEW = 1 << 10
"""Rows that a table has room for at first."""

DIRECT_BITS = 16
"""Bits of a key up to which there is a row for every key: four megabytes."""

HALF_BITS = 16
"""Bits of half a key up to which there is a row or a column for every half."""

HALVES = 1 << 19
"""Counts of halves by halves, at most: two megabytes, of which the common ones stay in the fast caches."""

PACKED_BITS = 40
"""Bits of a key up to which it stands in one number with its count."""

COUNT_BITS = 22
"""Bits of that count, which is taken aside before it needs more."""

PACKED = 1 << 18
"""Windows beyond which keys with counts are gathered and sorted instead: their totals take thirty megabytes."""

MANY = 1 << 15
"""The same for keys of more bits, which are looked up in tables of several parts."""

_AT_ONCE = 1 << 29
"""Windows that are counted in 32 bits before counts are taken aside."""

SORTED_AT_ONCE = 1 << 22
"""Keys that are gathered before they are sorted: thirty megabytes."""


class Pieces(NamedTuple):
    """Runs of window starts in one episode and one block."""

    begins: Ints
    sizes: Ints
    blocks: Ints

    def __bool__(self) -> bool:
        return len(self.begins) > 0

    def in_turns(self, most: int) -> Iterator[Pieces]:
        """The same runs in parts, each of one block and of fewer than twice so many windows."""
        begins, sizes, blocks = self
        if sizes.max(initial=0) > most:
            begins, sizes, blocks = _shorter(self, most)
        turns = np.flatnonzero(np.diff(blocks)) + 1
        for first, last in zip([0, *turns.tolist()], [*turns.tolist(), len(blocks)], strict=True):
            parts = (np.cumsum(sizes[first:last]) - 1) // most
            cuts = first + np.flatnonzero(np.diff(parts)) + 1
            for begin, end in zip([first, *cuts.tolist()], [*cuts.tolist(), last], strict=True):
                yield Pieces(begins[begin:end], sizes[begin:end], blocks[begin:end])


def _shorter(pieces: Pieces, most: int) -> Pieces:
    """The same runs, cut where they are longer than that."""
    times = -(-pieces.sizes // most)
    run = np.repeat(np.arange(len(times)), times)
    offsets = (np.arange(len(run)) - np.repeat(np.cumsum(times) - times, times)) * most
    return Pieces(
        pieces.begins[run] + offsets, np.minimum(pieces.sizes[run] - offsets, most), pieces.blocks[run]
    )


class Tally:
    """Windows of one length, counted by block; with their weights if actions come with probabilities.

    As long as keys have few bits they are the rows of a table; with some more their halves are its rows and columns, as
    long as these are few. Beyond, windows are looked up in a table that grows, in which a key of some more bits stands
    beside its count; when that has become too large for the fast caches, keys are gathered, sorted, and merged with
    what there is.
    """

    def __init__(self, length: int, *, weighted: bool) -> None:
        self._length = length
        self._bits = 1
        self._weighted = weighted
        self._direct: Ints | None = None
        self._halves: _Halves | None = None
        self._packed: _Packed | None = None
        self._looked_up: _LookUp | None = None
        self._sorted: WindowTable | None = None
        self._gathered: list[Ints] = []

    def add(self, symbols: Ints, pieces: Pieces, kinds: int, probabilities: Floats | None) -> None:
        """Count the windows that start in the pieces; there are so many kinds of symbols."""
        self._make_room(kinds)
        if self._weighted:
            self._by_look_up().add(symbols, pieces, probabilities)
        elif self._bits * self._length <= DIRECT_BITS:
            self._count_directly(symbols, pieces)
        elif self._bits * self._length <= PACKED_BITS:
            for part in self._not_by_halves(symbols, pieces):
                if self._packed is None:
                    self._packed = _Packed(self._length, self._bits)
                if len(self._packed) < PACKED:
                    self._packed.add(symbols, part)
                else:
                    self._gather(symbols, part)
        elif self._looked_up is None or len(self._looked_up) < MANY or not self._looked_up.one_word:
            self._by_look_up().add(symbols, pieces, None)
        else:
            self._gather(symbols, pieces)

    def _not_by_halves(self, symbols: Ints, pieces: Pieces) -> list[Pieces]:
        """Count by halves what can be; the rest."""
        if self._bits * -(-self._length // 2) > HALF_BITS:
            return [pieces]
        if self._halves is None:
            self._halves = _Halves(self._length, self._bits)
        return self._halves.add(symbols, pieces)

    def _by_look_up(self) -> _LookUp:
        if self._looked_up is None:
            self._looked_up = _LookUp(self._length, self._bits, weighted=self._weighted)
        return self._looked_up

    def _count_directly(self, symbols: Ints, pieces: Pieces) -> None:
        from unlatch.kernels.tally import tally_few

        if self._direct is None:
            self._direct = np.zeros((1 << (self._bits * self._length), BLOCKS), dtype=np.int64)
        tally_few(symbols, *pieces, self._length, self._bits, self._direct)

    def _gather(self, symbols: Ints, pieces: Pieces) -> None:
        from unlatch.kernels.counting import fill_keys

        keys = np.empty(int(pieces.sizes.sum()), dtype=np.int64)
        fill_keys(symbols, *pieces, 0, self._length, 1 << self._bits, BLOCK_BITS, keys)
        self._gathered.append(keys)
        if sum(map(len, self._gathered)) >= SORTED_AT_ONCE:
            self._sort()

    def _sort(self) -> None:
        """Add what was gathered to the sorted table."""
        from unlatch.kernels.counting import count_runs

        if not self._gathered:
            return
        keys = np.concatenate(self._gathered)
        self._gathered = []
        keys.sort()
        base = 1 << self._bits
        part = WindowTable(self._length, base, digits_per_word(base), *count_runs(keys, BLOCK_BITS))
        self._sorted = part if self._sorted is None else self._sorted.merged(part)

    def _make_room(self, kinds: int) -> None:
        """Keys with digits for so many kinds of symbols."""
        bits = max(1, int(kinds - 1).bit_length())
        if bits <= self._bits:
            return
        looked_up = None if self._looked_up is None else self._looked_up.widened(bits)
        self._looked_up = None
        parts = self._parts()
        self._bits, self._direct, self._looked_up, self._sorted = bits, None, looked_up, None
        self._halves = self._packed = None
        for part in parts:
            again = part.recoded(np.arange(part.base), 1 << bits)
            self._sorted = again if self._sorted is None else self._sorted.merged(again)

    def _parts(self) -> list[WindowTable]:
        """What was counted, in tables of some order."""
        self._sort()
        found = [] if self._sorted is None else [self._sorted]
        if self._looked_up is not None:
            found.append(self._looked_up.table())
        if self._halves is not None:
            found.append(self._halves.table())
        if self._packed is not None:
            found.append(self._packed.table())
        if self._direct is not None:
            rows = np.flatnonzero(self._direct.any(axis=1))
            base = 1 << self._bits
            found.append(
                WindowTable(self._length, base, digits_per_word(base), rows[None], self._direct[rows])
            )
        return found

    def table(self, codes: Ints, base: int) -> WindowTable:
        """In sorted order, with other codes for the symbols."""
        parts = [part.recoded(codes, base) for part in self._parts()]
        if not parts:
            parts = [_LookUp(self._length, 1, weighted=self._weighted).table().recoded(codes, base)]
        table = parts[0]
        for part in parts[1:]:
            table = table.merged(part)
        return table


class _Halves:
    """A table of first halves of windows by second halves, counted in the block that has its turn; what was counted in
    others is taken aside."""

    def __init__(self, length: int, bits: int) -> None:
        self._length, self._bits = length, bits
        self._second = length // 2
        first = length - self._second
        self._numbers = [np.full(1 << (bits * half), -1, dtype=np.int32) for half in (first, self._second)]
        self._used = np.zeros(2, dtype=np.int64)
        self._counts = np.zeros((1 << 6, 1 << 6), dtype=np.int32)
        self._totals = np.zeros((BLOCKS, *self._counts.shape), dtype=np.int64)
        self._block = 0
        self._since = 0  # windows since counts were taken aside
        self._full = False

    def add(self, symbols: Ints, pieces: Pieces) -> list[Pieces]:
        """Count the windows that start in the pieces; those for which the table became too large are given back."""
        left = []
        for part in pieces.in_turns(_AT_ONCE):
            if not self._full:
                windows, block = int(part.sizes.sum()), int(part.blocks[0])
                if block != self._block or self._since + windows >= 2 * _AT_ONCE:
                    self._take_aside()
                    self._block = block
                self._since += windows
                part = self._count(symbols, part)
            if part:
                left.append(part)
        return left

    def _count(self, symbols: Ints, part: Pieces) -> Pieces:
        """Count what there is room for; the rest."""
        from unlatch.kernels.tally import tally_halves

        state = np.zeros(2, dtype=np.int64)
        while not tally_halves(
            symbols, part.begins, part.sizes, self._length, self._second, self._bits, state,
            *self._numbers, self._used, self._counts,
        ):  # fmt: skip
            if not self._enlarge():
                self._full = True
                piece, offset = state.tolist()
                begins, sizes = part.begins[piece:].copy(), part.sizes[piece:].copy()
                begins[0] += offset
                sizes[0] -= offset
                return Pieces(begins, sizes, part.blocks[piece:])
        return Pieces(part.begins[:0], part.sizes[:0], part.blocks[:0])

    def _take_aside(self) -> None:
        self._totals[self._block] += self._counts
        self._counts[:] = 0
        self._since = 0

    def _enlarge(self) -> bool:
        """Twice as many rows or columns, whatever there are none of, unless that are too many counts."""
        rows, columns = self._counts.shape
        if self._used[0] == rows:
            rows *= 2
        if self._used[1] == columns:
            columns *= 2
        if rows * columns > HALVES:
            return False
        self._take_aside()
        totals = np.zeros((BLOCKS, rows, columns), dtype=np.int64)
        totals[:, : self._totals.shape[1], : self._totals.shape[2]] = self._totals
        self._totals, self._counts = totals, np.zeros((rows, columns), dtype=np.int32)
        return True

    def table(self) -> WindowTable:
        """As it is, in the order of the rows."""
        self._take_aside()
        firsts, seconds = (np.flatnonzero(numbers >= 0) for numbers in self._numbers)
        keys = np.empty(self._counts.shape, dtype=np.int64)
        rows, columns = (
            numbers[keys] for numbers, keys in zip(self._numbers, (firsts, seconds), strict=True)
        )
        keys[rows[:, None], columns] = (firsts[:, None] << (self._bits * self._second)) | seconds
        used = self._totals.any(axis=0)
        base = 1 << self._bits
        counts = np.ascontiguousarray(self._totals[:, used].T)
        return WindowTable(self._length, base, digits_per_word(base), keys[used][None], counts)


class _Packed:
    """A table of windows whose keys stand beside their counts in the block that has its turn; what they counted in
    others is taken aside."""

    def __init__(self, length: int, bits: int) -> None:
        self._length, self._bits = length, bits
        self._slots = np.zeros(4 * _FEW, dtype=np.int64)
        self._totals = np.zeros((BLOCKS, 4 * _FEW), dtype=np.int64)
        self._used = 0
        self._block = 0
        self._since = 0  # windows since counts were taken aside

    def __len__(self) -> int:
        return self._used

    def add(self, symbols: Ints, pieces: Pieces) -> None:
        """Count the windows that start in the pieces."""
        for part in pieces.in_turns(1 << (COUNT_BITS - 1)):
            windows, block = int(part.sizes.sum()), int(part.blocks[0])
            if block != self._block or self._since + windows >= 1 << COUNT_BITS:
                self._take_aside()
                self._block = block
            self._since += windows
            self._count(symbols, part)

    def _count(self, symbols: Ints, part: Pieces) -> None:
        from unlatch.kernels.tally import tally_packed

        state = np.array([0, 0, self._used])
        done = False
        while not done:
            done = tally_packed(
                symbols, part.begins, part.sizes, self._length, self._bits, COUNT_BITS, state, self._slots
            )
            self._used = int(state[2])
            if not done:
                self._enlarge()

    def _take_aside(self) -> None:
        from unlatch.kernels.tally import unload

        unload(self._slots, COUNT_BITS, self._totals[self._block])
        self._since = 0

    def _enlarge(self) -> None:
        from unlatch.kernels.tally import move_slots

        slots = np.zeros(2 * len(self._slots), dtype=np.int64)
        totals = np.zeros((BLOCKS, len(slots)), dtype=np.int64)
        move_slots(self._slots, COUNT_BITS, self._totals, slots, totals)
        self._slots, self._totals = slots, totals

    def table(self) -> WindowTable:
        """As it is, in the order of the slots."""
        self._take_aside()
        used = np.flatnonzero(self._slots)
        base = 1 << self._bits
        keys = (self._slots[used] >> COUNT_BITS) - 1
        counts = np.ascontiguousarray(self._totals[:, used].T)
        return WindowTable(self._length, base, digits_per_word(base), keys[None], counts)


class _LookUp:
    """A table of windows in the order in which they came, and where each of them stands."""

    def __init__(self, length: int, bits: int, *, weighted: bool) -> None:
        self._length, self._bits = length, bits
        self._digits = digits_per_word(1 << bits)
        self._keys = np.zeros((-(-length // self._digits), _FEW), dtype=np.int64)
        self._counts = np.zeros((_FEW, BLOCKS), dtype=np.int64)
        self._slots = np.full(4 * _FEW, -1, dtype=np.int64)
        self._used = 0
        self._sums = np.zeros((_FEW, BLOCKS)) if weighted else None
        self._squares = np.zeros((_FEW, 1)) if weighted else None

    def __len__(self) -> int:
        return self._used

    @property
    def one_word(self) -> bool:
        return len(self._keys) == 1

    def add(self, symbols: Ints, pieces: Pieces, probabilities: Floats | None) -> None:
        from unlatch.kernels.tally import add_weights, tally_long_windows, tally_windows

        weighted = self._sums is not None
        rows = np.empty(int(pieces.sizes.sum()) if weighted else 0, dtype=np.int64)
        state = np.array([0, 0, self._used])
        done = False
        while not done:
            tables = (state, self._slots, self._keys, self._counts, rows)
            if self.one_word:
                done = tally_windows(symbols, *pieces, self._length, self._bits, *tables)
            else:
                done = tally_long_windows(symbols, *pieces, self._length, self._bits, self._digits, *tables)
            self._used = int(state[2])
            if not done:
                self._enlarge()
        if weighted:
            add_weights(rows, probabilities, *pieces, self._length, self._sums, self._squares)

    def _enlarge(self) -> None:
        self._keys = np.concatenate([self._keys, np.zeros_like(self._keys)], axis=1)
        self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        if self._sums is not None and self._squares is not None:
            self._sums = np.concatenate([self._sums, np.zeros_like(self._sums)])
            self._squares = np.concatenate([self._squares, np.zeros_like(self._squares)])
        self._slots = np.empty(2 * len(self._slots), dtype=np.int64)
        self._place()

    def _place(self) -> None:
        from unlatch.kernels.tally import place_keys

        self._slots[:] = -1
        place_keys(self._slots, self._keys, self._used)

    def widened(self, bits: int) -> _LookUp:
        """The same table, in the same order, with so many bits for a symbol: sums of weights go on where they were."""
        from unlatch.kernels.tally import encode_windows

        wider = _LookUp(self._length, bits, weighted=False)
        keys = np.zeros((len(wider._keys), self._keys.shape[1]), dtype=np.int64)
        keys[:, : self._used] = encode_windows(self.table().symbols(), wider._digits, 1 << bits)
        wider._keys, wider._counts, wider._slots = keys, self._counts, self._slots
        wider._sums, wider._squares, wider._used = self._sums, self._squares, self._used
        wider._place()
        return wider

    def table(self) -> WindowTable:
        """As it is, in the order in which windows came."""
        n = self._used
        weights, squares = (None if a is None else a[:n] for a in (self._sums, self._squares))
        return WindowTable(
            self._length,
            1 << self._bits,
            self._digits,
            self._keys[:, :n],
            self._counts[:n],
            weights,
            squares,
        )
