"""Stage 1: count every window of the log, exactly, in one pass over steps that come in any chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from unlatch.arrays import Flags, Floats, Ints
from unlatch.core.alphabet import sorted_names
from unlatch.core.arguments import checked_log
from unlatch.core.budget import checkpoint
from unlatch.core.checks import frozen
from unlatch.core.chunks import LogChunk, chunks_of, own_copy
from unlatch.core.numbering import SymbolNumbers
from unlatch.core.progress import report
from unlatch.core.trajectory import Trajectory, format_reward
from unlatch.errors import DataError, NotLearnableError, ResourceLimitError, UsageError
from unlatch.learn.spectral.tallies import Pieces, Tally
from unlatch.learn.spectral.windows import (
    MAX_LENGTH,
    WindowTable,
    block_cuts,
    digits_per_word,
    noise_blocks,
)

__all__ = [
    "SequenceCounts",
    "WindowCounter",
    "check_lengths",
    "count_chunks",
    "count_sequences",
    "merged_counts",
]

STEPS_AT_ONCE = 1 << 19
"""Steps counted by one call of a kernel: Ctrl-C waits for it."""


@dataclass(frozen=True, eq=False)
class SequenceCounts:
    """Counts of every action–observation window up to ``history_length + test_length``.

    ``a + b`` is what one would have counted in both logs, kept apart as episodes: merging is exact,
    associative and independent of order. Symbols are matched by name; a symbol that only one log has is added to the
    alphabet, which is then sorted. ``paired`` says that symbols are pairs of observation and reward, named
    ``observation|reward``, since observations do not settle their rewards; where they do not in both logs together,
    the sum is of pairs.
    ``symbol_rewards`` (observations,) is what the symbols carry, or None.

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
    episodes: int = 1
    longest_episode: int = 0
    paired: bool = False

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

    def __repr__(self) -> str:
        return (
            f"SequenceCounts({self.steps} steps, {self.episodes} episodes, {self.n_actions} actions, "
            f"{self.n_observations} observations, histories of {self.history_length}, tests of {self.test_length}, "
            f"{sum(map(len, self.tables))} windows)"
        )

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
        for field in ("history_length", "test_length"):
            if getattr(self, field) != getattr(other, field):
                raise DataError(
                    f"counts cannot be merged: {field} differs ({getattr(self, field)} and "
                    f"{getattr(other, field)}); count both logs with the same lengths"
                )
        if self.weighted != other.weighted:
            raise DataError(
                "counts cannot be merged: only one of the logs has probabilities; add them to the other (for blind "
                "exploration, how often each action was taken), or count both without"
            )
        if (self.symbol_rewards is None) != (other.symbol_rewards is None):
            raise DataError("counts cannot be merged: only one of the logs has rewards")
        one, another = _in_one_alphabet(self, other)
        rewards = one.symbol_rewards
        if rewards is not None and another.symbol_rewards is not None:
            rewards = frozen(np.where(one.symbols_seen, rewards, another.symbol_rewards))
        return SequenceCounts(
            history_length=one.history_length,
            test_length=one.test_length,
            action_names=one.action_names,
            observation_names=one.observation_names,
            tables=tuple(a.merged(b) for a, b in zip(one.tables, another.tables, strict=True)),
            steps=one.steps + another.steps,
            episodes=one.episodes + another.episodes,
            longest_episode=max(one.longest_episode, another.longest_episode),
            symbol_rewards=rewards,
            paired=one.paired,
        )

    @property
    def symbols_seen(self) -> Flags:
        """Which observation symbols occur."""
        seen = np.zeros(self.n_observations, dtype=bool)
        seen[self.table(1).codes[0] % self.n_observations] = True
        for table in self.tables[1:]:  # of windows across a seam the single steps are counted elsewhere
            if seen.all():
                break
            seen[table.symbols().reshape(-1) % self.n_observations] = True
        return seen

    @property
    def settled(self) -> dict[str, float]:
        """The reward of every observation that occurs, where observations settle their rewards."""
        if self.symbol_rewards is None or self.paired:
            return {}
        return {
            self.observation_names[i]: float(self.symbol_rewards[i])
            for i in np.flatnonzero(self.symbols_seen)
        }

    def with_pairs(self) -> SequenceCounts:
        """The same counts with pairs of observation and reward for symbols."""
        if self.symbol_rewards is None or self.paired:
            return self
        seen = np.flatnonzero(self.symbols_seen).tolist()
        names = {i: f"{self.observation_names[i]}|{format_reward(self.symbol_rewards[i])}" for i in seen}
        renamed = tuple(names.get(i, name) for i, name in enumerate(self.observation_names))
        kept = tuple(names[i] for i in seen)
        return replace(self, observation_names=renamed, paired=True).in_alphabets(self.action_names, kept)

    def within(self, history_length: int, test_length: int) -> SequenceCounts:
        """The same counts for shorter histories and tests."""
        check_lengths(history_length, test_length)
        longest = history_length + test_length
        if longest > len(self.tables):
            raise UsageError(
                f"windows of up to {len(self.tables)} pairs were counted; histories of {history_length} with tests of "
                f"{test_length} need {longest}. Count the log anew, with longer tests"
            )
        return replace(
            self, history_length=history_length, test_length=test_length, tables=self.tables[:longest]
        )

    def in_alphabets(
        self, action_names: tuple[str, ...], observation_names: tuple[str, ...]
    ) -> SequenceCounts:
        """The same counts with other codes: alphabets that hold all names of these that occur, in any order."""
        if (self.action_names, self.observation_names) == (action_names, observation_names):
            return self
        observed = {name: i for i, name in enumerate(observation_names)}
        actions = np.array([action_names.index(name) for name in self.action_names], dtype=np.int64)
        observations = np.array(
            [observed.get(name, 0) for name in self.observation_names], dtype=np.int64
        )  # unseen may be left out
        codes = (actions[:, None] * len(observation_names) + observations).reshape(-1)
        base = len(action_names) * len(observation_names)
        rewards = self.symbol_rewards
        if rewards is not None:
            spread = np.zeros(len(observation_names))
            spread[observations[self.symbols_seen]] = rewards[self.symbols_seen]
            rewards = frozen(spread)
        return replace(
            self,
            action_names=action_names,
            observation_names=observation_names,
            tables=tuple(table.recoded(codes, base) for table in self.tables),
            symbol_rewards=rewards,
        )


def _in_one_alphabet(one: SequenceCounts, other: SequenceCounts) -> tuple[SequenceCounts, SequenceCounts]:
    conflict = any(other.settled.get(name, reward) != reward for name, reward in one.settled.items())
    if one.paired or other.paired or conflict:
        one, other = one.with_pairs(), other.with_pairs()
    actions = one.action_names
    if actions != other.action_names:
        actions = tuple(sorted_names({*actions, *other.action_names}))
    observations = one.observation_names
    if observations != other.observation_names:
        observations = _sorted_pairs(one, other) if one.paired else _sorted(one, other)
    return one.in_alphabets(actions, observations), other.in_alphabets(actions, observations)


def _sorted(one: SequenceCounts, other: SequenceCounts) -> tuple[str, ...]:
    return tuple(sorted_names({*one.observation_names, *other.observation_names}))


def _sorted_pairs(one: SequenceCounts, other: SequenceCounts) -> tuple[str, ...]:
    """By observation, then by reward."""
    pairs: dict[str, tuple[str, float]] = {}
    for counts in (one, other):
        assert counts.symbol_rewards is not None
        for name, reward in zip(counts.observation_names, counts.symbol_rewards.tolist(), strict=True):
            pairs[name] = name.removesuffix(f"|{format_reward(reward)}"), reward
    rank = {
        name: i for i, name in enumerate(sorted_names({observation for observation, _ in pairs.values()}))
    }
    return tuple(sorted(pairs, key=lambda name: (rank[pairs[name][0]], pairs[name][1])))


def merged_counts(parts: Iterable[SequenceCounts]) -> SequenceCounts:
    """The sum of all, as a tree: the larger tables of later sums are merged few times."""
    waiting: list[tuple[int, SequenceCounts]] = []
    for part in parts:
        size = 1
        while waiting and waiting[-1][0] == size:
            part, size = waiting.pop()[1] + part, 2 * size
        waiting.append((size, part))
    if not waiting:
        raise UsageError("there are no counts to merge")
    total = waiting.pop()[1]
    while waiting:
        total = waiting.pop()[1] + total
    return total


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

    Examples
    --------
    >>> import unlatch
    >>> log = unlatch.simulate(unlatch.domains.tiger(), 20_000, rng=0)
    >>> counts = unlatch.count_sequences(log, history_length=2, test_length=1)
    >>> [len(table.counts) for table in counts.tables]  # different windows of one, two and three pairs
    [10, 100, 999]
    """
    checked_log(log)
    counter = WindowCounter(history_length, test_length)
    for chunk in chunks_of(log, STEPS_AT_ONCE):
        checkpoint()
        counter.add(chunk)
        report("counting", chunk.start + len(chunk), len(log))
    return counter.finished(log.action_names, log.observation_names)


def count_chunks(chunks: Iterable[LogChunk], *, history_length: int, test_length: int) -> SequenceCounts:
    """As `count_sequences`, for a log that comes in chunks of any size; memory does not grow with its length.

    Alphabets may grow from chunk to chunk; those of the result are sorted.
    """
    counter = WindowCounter(history_length, test_length)
    for chunk in chunks:
        checkpoint()
        counter.add(chunk)
    return counter.finished()


class WindowCounter:
    """Counts the windows of a log whose steps come in chunks, one after the other.

    Every step begins one longest window, which ends after ``history_length + test_length`` pairs or with the episode.
    These are counted, by length; shorter windows are their beginnings. The last steps of a chunk wait for the next
    one, so that it does not matter where chunks are cut. With probabilities, windows of all lengths are counted
    directly, since the weight of a window is not the sum of those of its extensions.
    """

    def __init__(self, history_length: int, test_length: int) -> None:
        check_lengths(history_length, test_length)
        self.history_length, self.test_length = history_length, test_length
        self.steps = 0
        self.episodes = 0
        self._longest = history_length + test_length
        self._symbols = SymbolNumbers()
        self._tallies: list[Tally] = []
        self._weighted: bool | None = None
        self._waiting = _Steps(0, np.zeros(0, dtype=np.int64), None)
        self._open_steps = 0  # of the episode that has not ended
        self._longest_episode = 0
        self._expected = np.zeros(self._longest, dtype=np.int64)
        self._least_probability = np.inf

    def add(self, chunk: LogChunk, *, until: int | None = None) -> None:
        """The next steps of the log. Windows that start at step ``until`` or later are left to others."""
        if not len(chunk):
            return
        self._begin(chunk)
        new = _Steps(chunk.start, self._symbols.number(chunk), chunk.probabilities)
        steps = self._waiting.followed_by(new)
        starts = np.asarray(chunk.episode_starts, dtype=np.int64) + len(self._waiting)
        self._note_episodes(np.asarray(chunk.episode_starts), len(chunk))
        bounds = np.concatenate([[0], starts, [len(steps)]])
        self._count(steps, bounds[:-1], bounds[1:], until, closed=len(bounds) - 2)
        kept = max(int(bounds[-2]), len(steps) - self._longest + 1)
        self._waiting = steps.part(kept)
        self.steps += len(chunk)

    def _begin(self, chunk: LogChunk) -> None:
        weighted = chunk.probabilities is not None
        if self._weighted is None:
            self._weighted = weighted
            self._tallies = [Tally(n, weighted=weighted) for n in range(1, self._longest + 1)]
        elif self._weighted != weighted:
            raise DataError(
                f"some steps of the log have probabilities, but not all (step {chunk.start}); add them to all, or "
                "leave them out"
            )
        if chunk.probabilities is not None:
            self._least_probability = min(self._least_probability, float(np.min(chunk.probabilities)))

    def _note_episodes(self, starts: Ints, steps: int) -> None:
        """Sizes of the episodes that have ended, for the number of windows that there must be."""
        bounds = np.append(starts, steps)
        sizes = np.diff(bounds)[: len(starts) - 1]  # of those that begin and end here
        if len(starts):
            self._close(np.append(self._open_steps + bounds[0], sizes))
            self._open_steps = int(steps - starts[-1])
        else:
            self._open_steps += steps
        self.episodes += len(starts) + (self.steps == 0 and (not len(starts) or starts[0] > 0))

    def _close(self, sizes: Ints) -> None:
        self._longest_episode = max(self._longest_episode, int(sizes.max(initial=0)))
        for length in range(1, self._longest + 1):
            self._expected[length - 1] += np.maximum(sizes - length + 1, 0).sum()

    def _count(self, steps: _Steps, firsts: Ints, ends: Ints, until: int | None, closed: int) -> None:
        """The windows of stretches [first, end) of steps, of which the first so many have ended."""
        for length in range(self._longest, 0, -1):
            if self._weighted:
                fresh = len(self._waiting) - length + 1  # windows before are counted already
                begins, stops = np.maximum(firsts, fresh), ends - length + 1
            elif length == self._longest:
                begins, stops = firsts, ends - length + 1
            else:
                begins = ends[:closed] - length
                begins = begins[begins >= firsts[:closed]]
                stops = begins + 1
            pieces = _pieces(begins, stops, steps.start, until)
            if pieces:
                self._tallies[length - 1].add(steps.symbols, pieces, len(self._symbols), steps.probabilities)

    def go_on_after(self, chunk: LogChunk) -> None:
        """Take up where another counter has left off: the windows of these steps wait for what comes next."""
        self._begin(chunk)
        self._waiting = _Steps(chunk.start, self._symbols.number(chunk), chunk.probabilities)

    def leave(self) -> None:
        """Let the windows that wait to another counter."""
        self._waiting = self._waiting.part(len(self._waiting))

    def end_episode(self) -> None:
        """What comes next, if anything, belongs to another episode."""
        size = len(self._waiting)
        if size and not self._weighted:
            bounds = np.array([0]), np.array([size])
            for length in range(min(size, self._longest - 1), 0, -1):
                begins = bounds[1] - length
                pieces = _pieces(begins, begins + 1, self._waiting.start, None)
                self._tallies[length - 1].add(self._waiting.symbols, pieces, len(self._symbols), None)
        self._waiting = self._waiting.part(size)
        self._close(np.array([self._open_steps]))
        self._open_steps = 0

    def finished(
        self, action_names: tuple[str, ...] | None = None, observation_names: tuple[str, ...] | None = None
    ) -> SequenceCounts:
        """All counts, in the given alphabets or in those that were seen, sorted."""
        self.end_episode()
        if self._longest_episode < self._longest + 1:
            raise _too_short(self._longest_episode, self._longest)
        counts = self._counts(action_names, observation_names)
        self._check_totals(counts)
        return counts

    def so_far(self) -> SequenceCounts:
        """What has been counted, without the windows that wait for what comes next; tables may be empty."""
        return self._counts(None, None)

    def _counts(
        self, action_names: tuple[str, ...] | None, observation_names: tuple[str, ...] | None
    ) -> SequenceCounts:
        actions = action_names or tuple(sorted_names(self._symbols.action_names))
        names, rewards, paired, codes = self._symbols.names(
            actions, observation_names or tuple(sorted_names(self._symbols.observation_names))
        )
        base = len(actions) * len(names)
        digits_per_word(base)
        tables: list[WindowTable] = []
        for tally in reversed(self._tallies):
            table = tally.table(codes, base)
            if tables and not self._weighted:
                table = tables[-1].shortened().merged(table)
            tables.append(self._with_finite_weights(table))
        return SequenceCounts(
            history_length=self.history_length,
            test_length=self.test_length,
            action_names=actions,
            observation_names=names,
            tables=tuple(reversed(tables)),
            steps=self.steps,
            symbol_rewards=None if rewards is None else frozen(rewards),
            episodes=self.episodes,
            longest_episode=self._longest_episode,
            paired=paired,
        )

    def _with_finite_weights(self, table: WindowTable) -> WindowTable:
        if table.squares is not None and not np.isfinite(table.squares).all():
            raise DataError(
                f"the actions of {table.length} steps in a row were so improbable (down to "
                f"{self._least_probability:.1e} each) that their weight exceeds every number; leave out the episodes "
                "with such actions"
            )
        return table

    def _check_totals(self, counts: SequenceCounts) -> None:
        """Every table must hold exactly the windows that exist: sum over episodes of max(0, n - length + 1)."""
        for table, expected in zip(counts.tables, self._expected.tolist(), strict=True):
            counted = int(table.counts.sum())
            if counted != expected:
                raise AssertionError(f"counted {counted} windows of length {table.length}, not {expected}")


# --- parts of a log that are counted apart ----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CountedPart:
    """The windows that lie in one part of a log, and the steps at its edges, of which some reach over them.

    Attributes
    ----------
    counts : SequenceCounts
    head : LogChunk
        The first steps: as many as a window that begins before the part may have in it.
    tail : LogChunk
        The last steps of the last episode, whose windows are not complete.
    sizes : array of int
        Steps before the first beginning of an episode, and of every episode from there on; the last may go on.
    """

    counts: SequenceCounts
    head: LogChunk
    tail: LogChunk
    sizes: Ints


def count_part(chunks: Iterable[LogChunk], history_length: int, test_length: int) -> CountedPart:
    """Count the windows inside one part of a log, whose steps come in chunks: one, or several of which each has steps
    enough for any window."""
    counter = WindowCounter(history_length, test_length)
    reach = history_length + test_length - 1
    head: LogChunk | None = None
    tail: LogChunk | None = None
    sizes = np.zeros(1, dtype=np.int64)
    for chunk in chunks:
        for start in range(0, len(chunk), STEPS_AT_ONCE):
            counter.add(chunk.part(start, min(start + STEPS_AT_ONCE, len(chunk))))
        if head is None:
            head = own_copy(chunk.part(0, min(reach, len(chunk))))
        more = np.diff(np.concatenate([[0], chunk.episode_starts, [len(chunk)]]))
        sizes = np.concatenate([sizes[:-1], sizes[-1:] + more[:1], more[1:]])
        last = int(chunk.episode_starts[-1]) if len(chunk.episode_starts) else 0
        tail = own_copy(chunk.part(max(len(chunk) - reach, last), len(chunk)))
    assert head is not None
    assert tail is not None
    return CountedPart(counts=counter.so_far(), head=head, tail=tail, sizes=sizes)


def joined_parts(parts: Iterable[CountedPart], continues: Callable[[int], bool]) -> SequenceCounts:
    """The counts of a log of which the parts are given in their order; each but the last has steps enough for any
    window. ``continues(k)`` says whether part k goes on with the episode before."""
    over: WindowCounter | None = None
    waiting: LogChunk | None = None
    episodes: list[Ints] = []

    def own_windows() -> Iterator[SequenceCounts]:
        nonlocal over, waiting
        for number, part in enumerate(parts):
            history_length, test_length = part.counts.history_length, part.counts.test_length
            over = over or WindowCounter(history_length, test_length)
            goes_on = number > 0 and continues(number)
            if waiting is not None:
                over.go_on_after(waiting)
                if goes_on:
                    over.add(part.head, until=part.head.start)
                    over.leave()
                else:
                    over.end_episode()
            if goes_on:
                episodes[-1][-1] += part.sizes[0]
            elif part.sizes[0]:
                episodes.append(part.sizes[:1].copy())
            if len(part.sizes) > 1:
                episodes.append(part.sizes[1:].copy())
            waiting = part.tail
            yield part.counts

    total = merged_counts(own_windows())
    assert over is not None
    assert waiting is not None
    over.go_on_after(waiting)
    over.end_episode()
    sizes = np.concatenate(episodes)
    total = total + over.so_far()
    longest = len(total.tables)
    if int(sizes.max()) < longest + 1:
        raise _too_short(int(sizes.max()), longest)
    return replace(total, steps=int(sizes.sum()), episodes=len(sizes), longest_episode=int(sizes.max()))


@dataclass(frozen=True, eq=False)
class _Steps:
    """Consecutive steps of a log from ``start`` on: their symbols, and the probabilities of their actions."""

    start: int
    symbols: Ints
    probabilities: Floats | None

    def __len__(self) -> int:
        return len(self.symbols)

    def part(self, first: int) -> _Steps:
        """Those from ``first`` on."""
        chances = None if self.probabilities is None else self.probabilities[first:].copy()
        return _Steps(self.start + first, self.symbols[first:].copy(), chances)

    def followed_by(self, other: _Steps) -> _Steps:
        if not len(self):
            return other
        chances = None
        if self.probabilities is not None and other.probabilities is not None:
            chances = np.concatenate([self.probabilities, other.probabilities])
        return _Steps(self.start, np.concatenate([self.symbols, other.symbols]), chances)


def _pieces(begins: Ints, stops: Ints, start: int, until: int | None) -> Pieces:
    """Runs of window starts [begin, stop), counted from step ``start`` of the log, cut where another block has its
    turn."""
    if until is not None:
        stops = np.minimum(stops, until - start)
    there = stops > begins
    begins, stops = begins[there], stops[there]
    if len(begins):
        cuts = block_cuts(start + int(begins[0]), start + int(stops[-1])) - start
        run = np.searchsorted(begins, cuts, side="right") - 1
        inside = (begins[run] < cuts) & (cuts < stops[run])
        cuts, run = cuts[inside], run[inside]
        ends = stops
        begins = np.insert(begins, run + 1, cuts)
        stops = np.insert(ends, run, cuts)
    return Pieces(begins, stops - begins, noise_blocks(begins + start))


def _too_short(episode: int, window: int) -> NotLearnableError:
    return NotLearnableError(
        f"the longest episode has {episode} steps; windows of length {window} need at least {window + 1}. Log more "
        "steps or choose shorter histories and tests"
    )


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
