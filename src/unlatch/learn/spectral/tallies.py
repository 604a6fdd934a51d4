"""Windows counted as the steps of a log come in: symbols that are numbered as they appear, tables that grow."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unlatch.arrays import Floats, Ints
from unlatch.core.alphabet import refuse_continuous
from unlatch.core.chunks import Chunk
from unlatch.core.trajectory import format_reward
from unlatch.errors import DataError
from unlatch.learn.spectral.windows import BLOCK_BITS, BLOCKS, WindowTable, digits_per_word

__all__ = ["Pieces", "Symbols", "Tally"]

_FEW = 1 << 10
"""Rows that a table has room for at first."""

_DIRECT_BITS = 16
"""Bits of a key up to which there is a row for every key: four megabytes."""

_MANY = 1 << 15
"""Windows beyond which sorting is faster than looking up: their counts no longer fit the fast caches."""

_SORTED_AT_ONCE = 1 << 22
"""Keys that are gathered before they are sorted: thirty megabytes."""


class Pieces(NamedTuple):
    """Runs of window starts in one episode and one block."""

    begins: Ints
    sizes: Ints
    blocks: Ints

    def __bool__(self) -> bool:
        return len(self.begins) > 0


class Symbols:
    """The symbols of a log, numbered as they appear: an action, an observation, and the reward if there is one.

    Alphabets may grow from chunk to chunk. Whether an observation settles its reward is known at the end only; until
    then a symbol is the pair.
    """

    def __init__(self) -> None:
        self.action_names: tuple[str, ...] = ()
        self.observation_names: tuple[str, ...] = ()
        self.rewarded: bool | None = None
        self._rewards = np.zeros(0)  # sorted
        self._reward_numbers = np.zeros(0, dtype=np.int64)
        self._shown = _Pairs()  # of observation and reward
        self._symbols = _Pairs()  # of action and what is shown

    def __len__(self) -> int:
        return len(self._symbols)

    def number(self, chunk: Chunk) -> Ints:
        """The symbol of every step."""
        self._take_names(chunk)
        shown: Ints = np.asarray(chunk.observations)
        if chunk.rewards is not None:
            shown = self._shown.number(shown, self._reward_codes(shown, chunk.rewards))
        symbols: Ints = self._symbols.number(np.asarray(chunk.actions), shown)
        return symbols

    def _take_names(self, chunk: Chunk) -> None:
        if not len(chunk):
            return
        rewarded = chunk.rewards is not None
        if self.rewarded is not None and self.rewarded != rewarded:
            raise DataError(
                f"some steps of the log have rewards and those from step {chunk.start} on have "
                f"{'some' if rewarded else 'none'}; give all steps a reward, or leave them out"
            )
        self.rewarded = rewarded
        for kind in ("action_names", "observation_names"):
            known, names = getattr(self, kind), getattr(chunk, kind)
            if names[: len(known)] != known:
                raise DataError(f"{kind}: chunks of a log must go on with the alphabet of those before")
            setattr(self, kind, names)

    def _reward_codes(self, observations: Ints, rewards: Floats) -> Any:
        from unlatch.kernels.tally import number_values

        guesses = np.zeros(len(self.observation_names), dtype=np.int64)
        codes, done = np.empty(len(rewards), dtype=np.int32), 0
        while True:
            known = self._rewards, self._reward_numbers
            done = number_values(rewards, observations, guesses, *known, done, codes)
            if done == len(rewards):
                return codes
            more = np.setdiff1d(rewards[done : done + _FEW] + 0.0, self._rewards)  # -0.0 is 0.0
            refuse_continuous("rewards", len(self._rewards) + len(more), 5 * len(rewards))
            numbers = np.append(self._reward_numbers, len(self._rewards) + np.arange(len(more)))
            both = np.append(self._rewards, more)
            order = np.argsort(both)
            self._rewards, self._reward_numbers = both[order], numbers[order]

    def names(
        self, action_names: tuple[str, ...], observation_names: tuple[str, ...]
    ) -> tuple[tuple[str, ...], Floats | None, Ints]:
        """In the given alphabets: the names of what is shown, their rewards if there are any, and the code
        ``action * shown + shown`` of every symbol."""
        actions = _places(self.action_names, action_names)
        places = _places(self.observation_names, observation_names)
        shown, names, rewards = places, observation_names, None
        if self.rewarded:
            shown, names, rewards = self._with_rewards(places, observation_names)
        numbers = np.array(self._symbols.known, dtype=np.int64).reshape(-1, 2)
        return names, rewards, actions[numbers[:, 0]] * len(names) + shown[numbers[:, 1]]

    def _with_rewards(
        self, places: Ints, observation_names: tuple[str, ...]
    ) -> tuple[Ints, tuple[str, ...], Floats]:
        pairs = np.array(self._shown.known, dtype=np.int64).reshape(-1, 2)
        values = np.empty(len(self._rewards))
        values[self._reward_numbers] = self._rewards
        observed, paid = places[pairs[:, 0]], values[pairs[:, 1]]
        if len(np.unique(observed)) == len(observed):  # the observation settles the reward
            table = np.zeros(len(observation_names))
            table[observed] = paid
            return observed, observation_names, table
        order = np.lexsort((paid, observed))
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        names = tuple(f"{observation_names[observed[i]]}|{format_reward(paid[i])}" for i in order)
        return rank, names, paid[order]


class _Pairs:
    """Pairs of codes, numbered as they appear."""

    def __init__(self) -> None:
        self.known: list[tuple[int, int]] = []
        self._places = [np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32)]
        self._seen = [0, 0]
        self._table = np.full((1, 1), -1, dtype=np.int32)

    def __len__(self) -> int:
        return len(self.known)

    def number(self, first: Ints, second: Ints) -> Any:
        """The number of every pair."""
        from unlatch.kernels.tally import number_pairs

        for side, codes in enumerate((first, second)):
            self._know(side, int(codes.max(initial=0)))
        numbers, done = np.empty(len(first), dtype=np.int32), 0
        while True:
            done = number_pairs(first, second, *self._places, self._table, done, numbers)
            if done == len(first):
                return numbers
            self._add(int(first[done]), int(second[done]))

    def _know(self, side: int, code: int) -> None:
        missing = code + 1 - len(self._places[side])
        if missing > 0:
            self._places[side] = np.append(self._places[side], np.full(missing, -1, dtype=np.int32))

    def _add(self, *pair: int) -> None:
        for side, code in enumerate(pair):
            if self._places[side][code] < 0:
                self._places[side][code] = self._seen[side]
                self._seen[side] += 1
                if self._seen[side] > self._table.shape[side]:
                    more = np.full_like(self._table, -1)
                    self._table = np.concatenate([self._table, more], axis=side)
        row, column = (self._places[side][code] for side, code in enumerate(pair))
        self._table[row, column] = len(self.known)
        self.known.append((pair[0], pair[1]))


def _places(names: tuple[str, ...], among: tuple[str, ...]) -> Ints:
    index = {name: i for i, name in enumerate(among)}
    return np.array([index[name] for name in names], dtype=np.int64)


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
        elif self._bits * self._length <= _DIRECT_BITS:
            self._count_directly(symbols, pieces)
        elif self._looked_up is None or len(self._looked_up) < _MANY or not self._looked_up.one_word:
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
        if sum(map(len, self._gathered)) >= _SORTED_AT_ONCE:
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
