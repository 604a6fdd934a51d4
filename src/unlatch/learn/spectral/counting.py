"""Stage 1: count every window of the log, exactly, in one pass of sorting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from unlatch.arrays import Flags, Floats, Ints
from unlatch.core.checks import frozen
from unlatch.core.progress import report
from unlatch.core.trajectory import Trajectory
from unlatch.errors import DataError, NotLearnableError, ResourceLimitError, UsageError

__all__ = ["SequenceCounts", "WindowTable", "count_sequences"]

BLOCK_BITS = 3
BLOCKS = 1 << BLOCK_BITS
"""Contiguous parts of a log that are counted apart, so that noise can be told from their scatter."""

_CHUNK = 1 << 24
"""Windows sorted at once: bounds the working memory whatever the length of the log."""

_WEIGHED_AT_ONCE = 1 << 19
"""Windows looked up by one call of a kernel: Ctrl-C waits for it."""

_KEY_BITS = 62
_MAX_LENGTH = 64


@dataclass(frozen=True, eq=False)
class WindowTable:
    """All windows of one length that occur, in lexicographic order, with counts per block.

    ``codes`` has shape (words, windows), ``counts`` (windows, blocks). Symbols are pairs
    ``action * observations + observation``. Where the log says how probable each action was, ``weights``
    (windows, blocks) has what the windows would count, up to a factor, had actions been chosen blindly and
    uniformly: every occurrence weighs one over the probability of its actions. ``squares`` (windows, 1) sums the
    squares of these weights.
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

    def shortened(self) -> WindowTable:
        """Windows without their last symbol; equal prefixes add up. Counts only: the weight of a window is not the
        sum of those of its extensions."""
        from unlatch.kernels.counting import drop_last_symbol

        whole_word = (self.length - 1) % self.digits == 0
        codes, counts = drop_last_symbol(self.codes, self.counts, self.base, whole_word)
        return WindowTable(self.length - 1, self.base, self.digits, codes, counts)


@dataclass(frozen=True, eq=False)
class SequenceCounts:
    """Counts of every action–observation window up to ``history_length + test_length``.

    ``a + b`` is what one would have counted in both logs, kept apart as episodes: merging is exact,
    associative and independent of order.
    """

    history_length: int
    test_length: int
    action_names: tuple[str, ...]
    observation_names: tuple[str, ...]
    tables: tuple[WindowTable, ...]
    steps: int
    symbol_rewards: Floats | None = None

    @property
    def n_actions(self) -> int:
        return len(self.action_names)

    @property
    def n_observations(self) -> int:
        return len(self.observation_names)

    @property
    def weighted(self) -> bool:
        """Whether windows are weighted by the probabilities of their actions."""
        return self.tables[0].weights is not None

    def table(self, length: int) -> WindowTable:
        """The windows of one length, from 1 to ``history_length + test_length``."""
        return self.tables[length - 1]

    def count(self, actions: list[int], observations: list[int]) -> int:
        """How often one sequence of pairs occurs."""
        from unlatch.kernels.counting import locate

        if len(actions) != len(observations) or not 1 <= len(actions) <= len(self.tables):
            raise UsageError(
                f"give one to {len(self.tables)} pairs, got {len(actions)} and {len(observations)}"
            )
        if not (0 <= min(actions) <= max(actions) < self.n_actions) or not (
            0 <= min(observations) <= max(observations) < self.n_observations
        ):
            raise UsageError(
                f"codes must lie below {self.n_actions} actions and {self.n_observations} observations"
            )
        table = self.table(len(actions))
        pairs = np.asarray(actions) * self.n_observations + np.asarray(observations)
        words = [
            sum(int(s) * table.base**p for p, s in enumerate(reversed(pairs[i : i + table.digits].tolist())))
            for i in range(0, len(pairs), table.digits)
        ]
        row = int(locate(table.codes, np.array(words, dtype=np.int64)[:, None])[0])
        return int(table.totals[row]) if row >= 0 else 0

    def __add__(self, other: SequenceCounts) -> SequenceCounts:
        if not isinstance(other, SequenceCounts):
            return NotImplemented
        for field in ("history_length", "test_length", "action_names", "observation_names"):
            if getattr(self, field) != getattr(other, field):
                raise DataError(
                    f"counts cannot be merged: {field} differs ({getattr(self, field)} and "
                    f"{getattr(other, field)}); count both logs with the same lengths and alphabets"
                )
        if self.weighted != other.weighted:
            raise DataError(
                "counts cannot be merged: only one of the logs has probabilities; add them to the other (for blind "
                "exploration, how often each action was taken), or count both without"
            )
        return SequenceCounts(
            history_length=self.history_length,
            test_length=self.test_length,
            action_names=self.action_names,
            observation_names=self.observation_names,
            tables=tuple(a.merged(b) for a, b in zip(self.tables, other.tables, strict=True)),
            steps=self.steps + other.steps,
            symbol_rewards=self._merged_rewards(other),
        )

    def _merged_rewards(self, other: SequenceCounts) -> Floats | None:
        if self.symbol_rewards is None or other.symbol_rewards is None:
            if self.symbol_rewards is not other.symbol_rewards:
                raise DataError("counts cannot be merged: only one of the logs has rewards")
            return None
        seen, seen_there = self._symbols_seen(), other._symbols_seen()
        differs = seen & seen_there & (self.symbol_rewards != other.symbol_rewards)
        if differs.any():
            name = self.observation_names[int(np.flatnonzero(differs)[0])]
            raise DataError(f"counts cannot be merged: observation {name!r} carries different rewards")
        return frozen(np.where(seen, self.symbol_rewards, other.symbol_rewards))

    def _symbols_seen(self) -> Flags:
        seen = np.zeros(self.n_observations, dtype=bool)
        seen[self.table(1).codes[0] % self.n_observations] = True
        return seen


def count_sequences(log: Trajectory, *, history_length: int, test_length: int) -> SequenceCounts:
    """Count every window of up to ``history_length + test_length`` pairs.

    Windows never cross the start of an episode. Where rewards are logged, the symbol that is counted is
    the pair (observation, reward). Where the probabilities of actions are logged, windows are weighted by them
    as well, so that actions may depend on observations.

    Parameters
    ----------
    log : Trajectory
    history_length, test_length : int
        The paper's "(L1, L2)": the Hankel matrix has histories of length 1..L1-1, extended by one pair to
        L1, and tests of length 1..L2.

    Notes
    -----
    The longest windows are sorted once; every shorter table follows from it by dropping the last symbol and
    adding the one window per episode that has no longer extension. Weights are added up in a second pass that
    looks every window up.
    """
    if not isinstance(log, Trajectory):
        raise UsageError(
            f"expected a Trajectory, got {type(log).__name__}; build one from arrays, or use read_log"
        )
    check_lengths(history_length, test_length)
    longest = history_length + test_length
    log = log.with_reward_symbols()
    longest_episode = int((log.episode_ends - log.episode_starts).max(initial=0))
    if longest_episode < longest + 1:
        raise NotLearnableError(
            f"the longest episode has {longest_episode} steps; windows of length {longest} need at least "
            f"{longest + 1}. Log more steps or choose shorter histories and tests"
        )
    base = len(log.action_names) * len(log.observation_names)
    symbols = log.actions * len(log.observation_names) + log.observations
    tables = [_count_windows(log, symbols, longest, base)]
    for length in range(longest - 1, 0, -1):
        tables.append(_shorter_table(tables[-1], log, symbols))
        report("counting", longest - length, longest)
    if log.probabilities is not None:
        for i, table in enumerate(tables):
            tables[i] = _weighted(table, log.probabilities, log, symbols)
            report("weighing", i + 1, longest)
    counts = SequenceCounts(
        history_length=history_length,
        test_length=test_length,
        action_names=log.action_names,
        observation_names=log.observation_names,
        tables=tuple(reversed(tables)),
        steps=len(log),
        symbol_rewards=log.symbol_rewards,
    )
    _check_totals(counts, log)
    return counts


def check_lengths(history_length: int, test_length: int) -> None:
    """Refuse lengths for which no Hankel matrix exists."""
    for name, length in (("history_length", history_length), ("test_length", test_length)):
        if isinstance(length, bool) or not isinstance(length, int | np.integer):
            raise UsageError(f"{name} must be a whole number, got {length!r}")
    if history_length < 2 or test_length < 1:
        raise UsageError(
            f"history_length must be at least 2 and test_length at least 1, got {history_length} and "
            f"{test_length}: histories of length 1..history_length-1 are extended by one pair"
        )
    if history_length + test_length > _MAX_LENGTH:
        raise ResourceLimitError(f"windows of more than {_MAX_LENGTH} pairs are not counted")


def _shorter_table(table: WindowTable, log: Trajectory, symbols: Ints) -> WindowTable:
    shorter = table.shortened()
    last_starts = log.episode_ends - shorter.length
    last_starts = last_starts[last_starts >= log.episode_starts]
    ones = np.ones(len(last_starts), dtype=np.int64)
    blocks = last_starts * BLOCKS // len(log)
    return shorter.merged(_count_pieces(symbols, last_starts, ones, blocks, shorter.length, shorter.base))


def _count_windows(log: Trajectory, symbols: Ints, length: int, base: int) -> WindowTable:
    table: WindowTable | None = None
    done = 0
    for begins, sizes, blocks in _chunks(*_pieces(log, length), _CHUNK):
        part = _count_pieces(symbols, begins, sizes, blocks, length, base)
        table = part if table is None else table.merged(part)
        done += int(sizes.sum())
        report("counting", done / len(log), length)
    assert table is not None  # the longest episode holds at least one window
    return table


def _pieces(log: Trajectory, length: int) -> tuple[Ints, Ints, Ints]:
    """Runs of window starts that lie in one episode and one block: begin, size, block."""
    cuts = -(-np.arange(1, BLOCKS) * len(log) // BLOCKS)  # first step of blocks 1, 2, ...
    last = np.maximum(log.episode_ends - length + 1, log.episode_starts)
    begins = np.union1d(log.episode_starts, cuts)
    episode = np.searchsorted(log.episode_starts, begins, side="right") - 1
    ends = np.minimum(np.append(begins[1:], len(log)), last[episode])
    sizes = np.maximum(ends - begins, 0)
    return begins[sizes > 0], sizes[sizes > 0], (begins * BLOCKS // len(log))[sizes > 0]


def _chunks(begins: Ints, sizes: Ints, blocks: Ints, largest: int) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Group pieces, cut where needed, into chunks of about ``largest`` windows, never twice as many."""
    whole = np.maximum(-(-sizes // largest), 1)
    piece = np.repeat(np.arange(len(begins)), whole)
    nth = np.arange(len(piece)) - np.repeat(np.cumsum(whole) - whole, whole)
    begins = begins[piece] + nth * largest
    sizes = np.minimum(sizes[piece] - nth * largest, largest)
    blocks = blocks[piece]
    chunk = (np.cumsum(sizes) - 1) // largest
    for number in np.unique(chunk):
        chosen = chunk == number
        yield begins[chosen], sizes[chosen], blocks[chosen]


def _count_pieces(
    symbols: Ints, begins: Ints, sizes: Ints, blocks: Ints, length: int, base: int
) -> WindowTable:
    from unlatch.kernels.counting import count_runs, count_sorted_words, fill_keys

    digits = digits_per_word(base)
    if length <= digits:
        keys = np.empty(int(sizes.sum()), dtype=np.int64)
        fill_keys(symbols, begins, sizes, blocks, 0, length, base, BLOCK_BITS, keys)
        keys.sort()
        codes, counts = count_runs(keys, BLOCK_BITS)
        return WindowTable(length, base, digits, codes, counts)
    words = _words(symbols, begins, sizes, length, base)
    order = np.lexsort(words[::-1])
    codes, counts = count_sorted_words(words, np.repeat(blocks, sizes), order, BLOCKS)
    return WindowTable(length, base, digits, codes, counts)


def _words(symbols: Ints, begins: Ints, sizes: Ints, length: int, base: int) -> Ints:
    """Keys of windows without their blocks, shape (words, windows)."""
    from unlatch.kernels.counting import fill_keys

    digits = digits_per_word(base)
    words = np.empty((-(-length // digits), int(sizes.sum())), dtype=np.int64)
    unblocked = np.zeros_like(begins)
    for w in range(len(words)):
        fill_keys(
            symbols, begins, sizes, unblocked, w * digits, min(digits, length - w * digits), base, 0, words[w]
        )
    return words


def _weighted(table: WindowTable, probabilities: Floats, log: Trajectory, symbols: Ints) -> WindowTable:
    """The table with the sums of the weights of its windows."""
    from unlatch.kernels.counting import add_weights, locate

    sums, squares = np.zeros((len(table), BLOCKS)), np.zeros((len(table), 1))
    for begins, sizes, blocks in _chunks(*_pieces(log, table.length), _WEIGHED_AT_ONCE):
        rows = locate(table.codes, _words(symbols, begins, sizes, table.length, table.base))
        add_weights(rows, probabilities, begins, sizes, blocks, table.length, sums, squares)
    if not np.isfinite(squares).all():
        raise DataError(
            f"the actions of {table.length} steps in a row were so improbable (down to {probabilities.min():.1e} "
            "each) that their weight exceeds every number; leave out the episodes with such actions"
        )
    return replace(table, weights=frozen(sums), squares=frozen(squares))


def digits_per_word(base: int) -> int:
    """How many symbols fit one 63-bit key beside the block number; decided before any key is computed."""
    limit = 1 << (_KEY_BITS - BLOCK_BITS)
    digits = 1
    while digits < _MAX_LENGTH and base ** (digits + 1) <= limit:  # Python integers: this cannot overflow
        digits += 1
    if base > limit:
        raise ResourceLimitError(f"{base} action-observation pairs are more than a key can hold")
    return digits


def _check_totals(counts: SequenceCounts, log: Trajectory) -> None:
    """Every table must hold exactly the windows that exist: sum over episodes of max(0, n - length + 1)."""
    sizes = log.episode_ends - log.episode_starts
    for table in counts.tables:
        expected = int(np.maximum(sizes - table.length + 1, 0).sum())
        counted = int(table.counts.sum())
        if counted != expected:
            raise AssertionError(f"counted {counted} windows of length {table.length}, not {expected}")
