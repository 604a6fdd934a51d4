"""Stage 1: count every window of the log, exactly, in one pass of sorting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from unlatch.arrays import Flags, Floats, Ints
from unlatch.core.arguments import checked_log
from unlatch.core.budget import checkpoint
from unlatch.core.checks import frozen
from unlatch.core.progress import report
from unlatch.core.trajectory import Trajectory
from unlatch.errors import DataError, NotLearnableError, ResourceLimitError, UsageError
from unlatch.learn.spectral.windows import BLOCK_BITS, BLOCKS, MAX_LENGTH, WindowTable, digits_per_word

__all__ = ["SequenceCounts", "count_sequences"]

WINDOWS_AT_ONCE = 1 << 24
"""Windows sorted at once: bounds the working memory whatever the length of the log."""

WEIGHED_AT_ONCE = 1 << 19
"""Windows looked up by one call of a kernel: Ctrl-C waits for it."""


@dataclass(frozen=True, eq=False)
class SequenceCounts:
    """Counts of every action–observation window up to ``history_length + test_length``.

    ``a + b`` is what one would have counted in both logs, kept apart as episodes: merging is exact,
    associative and independent of order. ``symbol_rewards`` (observations,) is what the symbols carry, or None.

    Examples
    --------
    >>> import unlatch
    >>> logs = [unlatch.simulate(unlatch.domains.tiger(), 1_000, rng=seed) for seed in (1, 2)]
    >>> monday, tuesday = (unlatch.count_sequences(log, history_length=2, test_length=1) for log in logs)
    >>> (monday + tuesday).steps
    2000
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

    Examples
    --------
    >>> import unlatch
    >>> log = unlatch.simulate(unlatch.domains.tiger(), 20_000, rng=0)
    >>> counts = unlatch.count_sequences(log, history_length=2, test_length=1)
    >>> [len(table.counts) for table in counts.tables]  # different windows of one, two and three pairs
    [10, 100, 999]
    """
    checked_log(log)
    check_lengths(history_length, test_length)
    checkpoint()  # what follows may take a second before it reports
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
    if history_length + test_length > MAX_LENGTH:
        raise ResourceLimitError(f"windows of more than {MAX_LENGTH} pairs are not counted")


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
    for begins, sizes, blocks in _chunks(*_pieces(log, length), WINDOWS_AT_ONCE):
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
    for begins, sizes, blocks in _chunks(*_pieces(log, table.length), WEIGHED_AT_ONCE):
        rows = locate(table.codes, _words(symbols, begins, sizes, table.length, table.base))
        add_weights(rows, probabilities, begins, sizes, blocks, table.length, sums, squares)
    if not np.isfinite(squares).all():
        raise DataError(
            f"the actions of {table.length} steps in a row were so improbable (down to {probabilities.min():.1e} "
            "each) that their weight exceeds every number; leave out the episodes with such actions"
        )
    return replace(table, weights=frozen(sums), squares=frozen(squares))


def _check_totals(counts: SequenceCounts, log: Trajectory) -> None:
    """Every table must hold exactly the windows that exist: sum over episodes of max(0, n - length + 1)."""
    sizes = log.episode_ends - log.episode_starts
    for table in counts.tables:
        expected = int(np.maximum(sizes - table.length + 1, 0).sum())
        counted = int(table.counts.sum())
        if counted != expected:
            raise AssertionError(f"counted {counted} windows of length {table.length}, not {expected}")
