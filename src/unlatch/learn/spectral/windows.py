"""The windows of a log that occur, and how often: sorted tables that merge exactly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from unlatch.arrays import Floats, Ints
from unlatch.core.checks import frozen
from unlatch.errors import ResourceLimitError

__all__ = ["BLOCKS", "BLOCK_BITS", "WindowTable", "block_cuts", "digits_per_word", "noise_blocks"]

BLOCK_BITS = 3

BLOCKS = 1 << BLOCK_BITS
"""Parts of a log that are counted apart, so that noise can be told from their scatter."""

FIRST_QUOTA = 64
"""Steps of a block before the next one has its turn. Each turn gives every block twice as much as the one before."""

_FIRST_ROUND = FIRST_QUOTA << BLOCK_BITS

_KEY_BITS = 62

MAX_LENGTH = 64
"""Pairs of the longest window that is counted."""


@dataclass(frozen=True, eq=False)
class WindowTable:
    """All windows of one length that occur, in lexicographic order, with counts per block.

    ``codes`` has shape (words, windows), ``counts`` (windows, blocks). Symbols are pairs
    ``action * observations + observation``. Where the log says how probable each action was,
    ``weights`` (windows, blocks) has what the windows would count, up to a factor, had actions been chosen blindly and
    uniformly: every occurrence weighs one over the probability of its actions. ``squares`` (windows, 1) sums the
    squares of these weights.

    Examples
    --------
    >>> import unlatch
    >>> log = unlatch.Trajectory([0, 1, 0, 1], [0, 0, 1, 1])
    >>> table = unlatch.count_sequences(log, history_length=2, test_length=1).tables[0]
    >>> table.length, table.codes, table.counts.sum(axis=1)
    (1, array([[0, 1, 2, 3]]), array([1, 1, 1, 1]))
    """

    length: int
    base: int
    digits: int
    codes: Ints
    counts: Ints
    weights: Floats | None = None
    squares: Floats | None = None

    def __len__(self) -> int:
        return int(self.codes.shape[1])

    @cached_property
    def totals(self) -> Ints:
        """Count of every window in the whole log."""
        return frozen(self.counts.sum(axis=1))

    @property
    def masses(self) -> Ints | Floats:
        """What frequencies are taken of, per block: the weights if there are any, else the counts."""
        return self.counts if self.weights is None else self.weights

    def symbols(self) -> Ints:
        """The windows spelled out, shape (windows, length)."""
        from unlatch.kernels.counting import decode_windows

        result: Ints = decode_windows(self.codes, self.length, self.digits, self.base)
        return result

    def part(self, start: int, stop: int) -> Ints:
        """Keys of the symbols ``start``..``stop`` of every window."""
        from unlatch.kernels.counting import cut_windows

        if len(self.codes) == 1:
            shifted = self.codes // self.base ** (self.length - stop) if stop < self.length else self.codes
            return shifted % self.base ** (stop - start) if start > 0 else shifted
        result: Ints = cut_windows(self.codes, self.length, self.digits, self.base, start, stop)
        return result

    def rows_of(self, keys: Ints) -> Ints:
        """Index of every key in this table, -1 where it does not occur."""
        from unlatch.kernels.counting import locate

        size = self.base**self.length
        if size <= 1 << 24:
            lookup = np.full(size, -1, dtype=np.int64)
            lookup[self.codes[0]] = np.arange(len(self))
            rows: Ints = lookup[keys[0]]
        else:
            rows = locate(self.codes, keys)
        return rows

    def action_groups(self, n_observations: int) -> tuple[Ints, int]:
        """Number of the action sequence of every window, and how many distinct ones there are."""
        from unlatch.kernels.counting import action_keys

        keys = action_keys(self.codes, self.length, self.digits, self.base, n_observations)
        if len(keys) == 1 and (size := (self.base // n_observations) ** self.length) <= 1 << 22:
            return keys[0], size
        _, groups = np.unique(keys, axis=1, return_inverse=True)
        flat = groups.reshape(-1)
        return flat, int(flat.max()) + 1

    def tries(self, n_observations: int) -> tuple[Ints, Floats]:
        """Number of the action sequence of every window, and how often each sequence was tried.

        Where windows are weighted that is the effective number of tries, (sum of weights)² / sum of squares: as many
        equally weighted tries would be as noisy.
        """
        groups, size = self.action_groups(n_observations)
        masses = self.masses.sum(axis=1)
        tried = np.asarray(np.bincount(groups, weights=masses, minlength=size), dtype=np.float64)
        if self.squares is None:
            return groups, tried
        norms = np.sqrt(np.bincount(groups, weights=self.squares[:, 0], minlength=size))
        return groups, np.divide(tried, norms, out=np.zeros(size), where=norms > 0) ** 2

    def typical_tries(self, n_observations: int) -> float:
        """How often the action sequence of a random window of this length was tried."""
        _, tried = self.tries(n_observations)
        return float((tried**2).sum() / tried.sum())

    def merged(self, other: WindowTable) -> WindowTable:
        """Both tables in one; equal windows add up."""
        from unlatch.kernels.counting import merge_tables

        def union(one: Any, another: Any) -> Any:
            return None if one is None else merge_tables(self.codes, one, other.codes, another)[1]

        codes, counts = merge_tables(self.codes, self.counts, other.codes, other.counts)
        weights, squares = union(self.weights, other.weights), union(self.squares, other.squares)
        return WindowTable(self.length, self.base, self.digits, codes, counts, weights, squares)

    def recoded(self, codes: Ints, base: int) -> WindowTable:
        """The same windows with ``codes[symbol]`` for every symbol, all different, to another base."""
        from unlatch.kernels.tally import encode_windows

        digits = digits_per_word(base)
        words = encode_windows(codes[self.symbols()].reshape(len(self), self.length), digits, base)
        order = np.argsort(words[0]) if len(words) == 1 else np.lexsort(words[::-1])
        weights, squares = (None if a is None else a[order] for a in (self.weights, self.squares))
        return WindowTable(
            self.length,
            base,
            digits,
            np.ascontiguousarray(words[:, order]),
            self.counts[order],
            weights,
            squares,
        )

    def shortened(self) -> WindowTable:
        """Windows without their last symbol; equal prefixes add up. Counts only: the weight of a window is not the
        sum of those of its extensions."""
        from unlatch.kernels.counting import drop_last_symbol

        whole_word = (self.length - 1) % self.digits == 0
        codes, counts = drop_last_symbol(self.codes, self.counts, self.base, whole_word)
        return WindowTable(self.length - 1, self.base, self.digits, codes, counts)


def digits_per_word(base: int) -> int:
    """How many symbols fit one 63-bit key beside the block number; decided before any key is computed."""
    limit = 1 << (_KEY_BITS - BLOCK_BITS)
    digits = 1
    while digits < MAX_LENGTH and base ** (digits + 1) <= limit:  # Python integers: this cannot overflow
        digits += 1
    if base > limit:
        raise ResourceLimitError(f"{base} action-observation pairs are more than a key can hold")
    return digits


def noise_blocks(steps: Ints) -> Ints:
    """The block of every step of a log, counted from its beginning: a running quota.

    Every block has its turn for `FIRST_QUOTA` steps, then for twice as many, and so on. So the length of the log need
    not be known: blocks are long stretches at any time, the last of them about half of what a block has. From three
    rounds on none has more than 7/3 times as much as another, which counts for seven of eight blocks in a jackknife.
    """
    shifted = np.asarray(steps) + _FIRST_ROUND
    rounds = np.frexp(shifted.astype(np.float64))[1] - 1 - BLOCK_BITS
    result: Ints = (shifted >> rounds) & (BLOCKS - 1)
    return result


def block_cuts(start: int, stop: int) -> Ints:
    """Steps between ``start`` and ``stop`` at which another block has its turn."""
    return _CUTS[np.searchsorted(_CUTS, start, side="right") : np.searchsorted(_CUTS, stop)]


_CUTS = np.array(
    [((BLOCKS + i) << r) * FIRST_QUOTA - _FIRST_ROUND for r in range(50) for i in range(BLOCKS)],
    dtype=np.int64,
)
"""All of them, for any log."""
