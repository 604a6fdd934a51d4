"""Windows counted as the steps of a log come in, in tables that grow."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlatch.arrays import Floats, Ints
from unlatch.learn.spectral.windows import BLOCK_BITS, BLOCKS, WindowTable, digits_per_word

__all__ = ["Pieces", "Tally"]

_FEW = 1 << 10
"""Rows that a table has room for at first."""

DIRECT_BITS = 16
"""Bits of a key up to which there is a row for every key: four megabytes."""

MANY = 1 << 15
"""Windows beyond which sorting is faster than looking up: their counts no longer fit the fast caches."""

SORTED_AT_ONCE = 1 << 22
"""Keys that are gathered before they are sorted: thirty megabytes."""


class Pieces(NamedTuple):
    """Runs of window starts in one episode and one block."""

    begins: Ints
    sizes: Ints
    blocks: Ints

    def __bool__(self) -> bool:
        return len(self.begins) > 0


class Tally:
    """Windows of one length, counted by block; with their weights if actions come with probabilities.

    As long as keys have few bits they are the rows of a table. Beyond, windows are looked up in a table that grows;
    when that has become too large for the fast caches, keys are gathered, sorted, and merged with what there is.
    """

    def __init__(self, length: int, *, weighted: bool) -> None:
        self._length = length
        self._bits = 1
        self._weighted = weighted
        self._direct: Ints | None = None
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
        elif self._looked_up is None or len(self._looked_up) < MANY or not self._looked_up.one_word:
            self._by_look_up().add(symbols, pieces, None)
        else:
            self._gather(symbols, pieces)

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
        for part in parts:
            again = part.recoded(np.arange(part.base), 1 << bits)
            self._sorted = again if self._sorted is None else self._sorted.merged(again)

    def _parts(self) -> list[WindowTable]:
        """What was counted, in tables of some order."""
        self._sort()
        found = [] if self._sorted is None else [self._sorted]
        if self._looked_up is not None:
            found.append(self._looked_up.table())
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
