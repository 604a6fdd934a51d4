"""Expected counts of a log under a model: its matrices, the passes over the log, and the sums by probability.

The matrix of a symbol is diag(left) T[action] diag(reached), with what the symbol says about the state left and about
the state reached. Where most of its entries are zero, matrices and sums are lists of the others throughout.
"""

from __future__ import annotations

import math
import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unlatch.arrays import Flags, Floats, Ints
from unlatch.core.budget import checkpoint
from unlatch.core.pomdp import POMDP, Emission
from unlatch.core.reading import Endings
from unlatch.core.trajectory import Trajectory
from unlatch.errors import NumericalError, ResourceLimitError
from unlatch.learn.likelihood.lanes import (
    FullPasses,
    ListedPasses,
    Passes,
    in_two_lanes,
    one_after_the_other,
)
from unlatch.learn.likelihood.parameters import (
    EncodedLog,
    ExpectedCounts,
    Parameters,
    encoded_log,
    parameters_of,
)
from unlatch.learn.likelihood.words import WordPasses, are_worth_it, may_be_worth_it

__all__ = [
    "SymbolEntries",
    "Totals",
    "expectation",
    "expected_counts",
    "impossible_events",
    "log_likelihood",
    "run_passes",
    "symbol_entries",
    "symbol_matrices",
    "use_threads",
]

_MAX_OPERATORS = 1 << 28
"""Numbers in the matrices of all symbols: two gigabytes."""

_WORK_PER_THREAD = 1 << 23
"""Multiplications below which a second thread costs more than it saves."""

_STEP_COST = 100
"""What a step costs apart from its multiplications, in multiplications of a dense matrix (.4 ns here); as the others
below, by the time of passes over models of 12 to 200 states with 2 to 12 entries a row."""

_STATE_COST, _ENTRY_COST = 4, 9
"""The same for a state and for an entry, where all entries that are not zero are read."""

_LISTED_STATE_COST, _LISTED_ENTRY_COST = 110, 5
"""The same where only those are read that leave states which are possible, by list."""

_FEW_ENTRIES = 1 / 4
"""Share of the entries from which on whole matrices are taken without asking: then most states are possible at a time,
and a state costs more by list."""

_SUPPORT_CHUNK = 1 << 14
"""Events after which a look at what is possible may be stopped: each may take as long as a matrix has entries."""

_IN_REGISTERS = 8
"""States up to which dense messages are held in registers, and no list of entries is faster."""


def expectation(pomdp: POMDP, log: Trajectory) -> ExpectedCounts:
    """Expected counts of ``log`` under ``pomdp``; to pass over a log many times, use `expected_counts`."""
    return expected_counts(parameters_of(pomdp), encoded_log(log, pomdp), emission=pomdp.emission)


def expected_counts(
    parameters: Parameters,
    log: EncodedLog,
    *,
    emission: Emission = "departure",
    before: Floats | None = None,
    after: Floats | None = None,
    block_length: int | None = None,
    threads: int | None = None,
) -> ExpectedCounts:
    """Expected counts of a log under a model, by forward-backward messages.

    Parameters
    ----------
    parameters : Parameters
        Valid distributions; not checked again, because this is the inner loop of every climb.
    log : EncodedLog
    emission : "departure" or "arrival"
    before : array, shape (states,), optional
        The belief that the first event finds, where it does not begin an episode: of a log that goes on with another.
    after : array, shape (states,), optional
        How likely what comes after the last event is from every state, up to a factor, where its episode goes on. Then
        the likelihood includes it.
    block_length : int, optional
        Steps per block of the checkpointed pass; chosen for the cache by default.
    threads : int, optional
        1 or 2; by default as many as there are cores. Does not change the result.

    Raises
    ------
    BeliefCollapseError
        If an observation is impossible under the model and the steps before it.
    """
    if len(log) == 0:
        return _no_counts(parameters)
    factors = _factors(parameters, log, emission)
    if block_length is None and _goes_by_words(parameters, log, factors):
        try:
            tallies = _by_words(parameters, log, factors, emission, before, after, threads)
            return _by_probability(parameters, log, emission, tallies)
        except NumericalError:
            pass  # words lose their digits sooner than steps; and an error names the step
    events = _Events(log.symbols, log.begins, log.pair_counts, before)
    if after is not None:
        factors, events = factors.with_event(after), events.followed_by_one()
    options = _Options(emission == "departure" and not log.tells_endings, block_length, threads)
    actions, found = len(parameters.transitions), None
    visited = factors.visited(parameters.transitions, events.frequencies)
    if _may_be_sparse(parameters.n_states, visited):
        matrices = _gathered(parameters.transitions, parameters.transitions != 0, factors)
        found = _entry_totals(matrices, parameters.initial, events, visited, options)
    if found is not None:
        tallies = _entries_by_use(matrices, factors.actions, actions, found)
    else:
        updates = _updates(parameters.transitions, factors)
        totals = _dense_totals(updates, parameters.initial, events, options)
        tallies = _matrices_by_use(factors.actions, actions, totals)
    return _by_probability(parameters, log, emission, tallies.of_the_first(len(log.pair_counts)))


def log_likelihood(
    parameters: Parameters,
    log: EncodedLog,
    *,
    emission: Emission = "departure",
    before: Floats | None = None,
    after: Floats | None = None,
) -> float:
    """That of `expected_counts`, by a pass ahead alone where a log is passed over in words."""
    factors = _factors(parameters, log, emission)
    if _goes_by_words(parameters, log, factors):
        try:
            return _word_passes(parameters, log, factors, emission, before, after).forward()
        except NumericalError:
            pass  # as in expected_counts
    found = expected_counts(parameters, log, emission=emission, before=before, after=after)
    return found.log_likelihood


def _goes_by_words(parameters: Parameters, log: EncodedLog, factors: _Factors) -> bool:
    """Whether passes from word to word are faster; where most entries are zero it is those that are not which count,
    and of a word's matrix they are more."""
    events, states = len(log), parameters.n_states
    if not may_be_worth_it(events, states, len(log.pair_counts)):
        return False
    visited = factors.visited(parameters.transitions, log.pair_counts)
    return not _may_be_sparse(states, visited) and are_worth_it(log.words, events)


def _by_words(
    parameters: Parameters,
    log: EncodedLog,
    factors: _Factors,
    emission: Emission,
    before: Floats | None,
    after: Floats | None,
    threads: int | None,
) -> _Tallies:
    """The same sums, from word to word."""
    passes = _word_passes(parameters, log, factors, emission, before, after)
    sums, height = _run(passes, passes.work, threads)
    totals = Totals(passes.joint(sums), sums.last, sums.first, height, passes.work)
    return _matrices_by_use(factors.actions, len(parameters.transitions), totals)


def _word_passes(
    parameters: Parameters,
    log: EncodedLog,
    factors: _Factors,
    emission: Emission,
    before: Floats | None,
    after: Floats | None,
) -> WordPasses:
    return WordPasses(
        _updates(parameters.transitions, factors),
        parameters.initial,
        log.words,
        start=before,
        after=after,
        last_move_unseen=emission == "departure" and not log.tells_endings,
    )


def _no_counts(parameters: Parameters) -> ExpectedCounts:
    nothing = parameters.with_blocks(np.zeros_like(rows) for rows in parameters)
    return ExpectedCounts(
        initial=nothing.initial,
        transitions=nothing.transitions,
        observations=nothing.observations,
        log_likelihood=0.0,
        first=nothing.first,
        rewards=nothing.rewards,
        shared=parameters.shared,
        dense=parameters.dense,
    )


class _Options(NamedTuple):
    """How to pass over a log, as `run_passes` is told."""

    last_move_unseen: bool
    block_length: int | None
    threads: int | None


class _Events(NamedTuple):
    """What is passed over: the symbol of every event, where episodes begin, how often every symbol occurs, and the
    belief before the first event if no episode begins there."""

    symbols: NDArray[np.uint32]
    begins: NDArray[np.bool_]
    frequencies: Ints
    before: Floats | None = None

    def followed_by_one(self) -> _Events:
        """With one event more, of a new symbol."""
        return _Events(
            np.append(self.symbols, np.uint32(len(self.frequencies))),
            np.append(self.begins, False),
            np.append(self.frequencies, 1),
            self.before,
        )


class _Factors(NamedTuple):
    """What every symbol's matrix is made of: ``left`` and ``reached`` (symbols, n), and its action. Symbols without
    one move nothing: their action is -1 and their matrix diag(left)."""

    actions: Ints
    left: Floats
    reached: Floats

    def with_event(self, chances: Floats) -> _Factors:
        """With one symbol more, that moves nothing and is so likely in every state."""
        return _Factors(
            np.append(self.actions, -1),
            np.concatenate([self.left, chances[None]]),
            np.concatenate([self.reached, np.ones_like(chances)[None]]),
        )

    def entries(self, moves: Flags) -> Ints:
        """How many entries of every symbol's matrix are not zero, at most; ``moves`` (actions, n, n) tells which
        transitions are not."""
        leaving, arriving = (np.count_nonzero(moves, axis=axis)[self.actions] for axis in (2, 1))
        here, there = (leaving * (self.left != 0)).sum(axis=1), (arriving * (self.reached != 0)).sum(axis=1)
        counts: Ints = np.where(self.actions < 0, self.left.shape[1], np.minimum(here, there))
        return counts

    def visited(self, transitions: Floats, frequencies: Ints) -> float:
        """The same of a step on average, if symbols occur so often; all, for messages that are held in registers."""
        n = self.left.shape[1]
        if n <= _IN_REGISTERS:
            return float(n**2)
        return float(self.entries(transitions != 0) @ frequencies / frequencies.sum())


def _factors(parameters: Parameters, log: EncodedLog, emission: Emission) -> _Factors:
    steps = log.is_step
    actions = log.pair_actions[steps]
    left, reached = np.ones((2, len(steps), parameters.n_states))
    shown = parameters.observations[actions, :, log.pair_observations[steps]]
    (left if emission == "departure" else reached)[steps] = shown
    if parameters.rewards is not None and len(log.reward_values):
        left[steps] *= parameters.rewards[actions, :, log.pair_rewards[steps]]
    if log.tells_endings:
        ends = log.pair_endings[steps][:, None]
        reached[steps] *= (ends == Endings.UNTOLD) | ((ends == Endings.ENDS) == parameters.terminal)
    if parameters.first is not None:
        left[~steps] = parameters.first[:, log.pair_observations[~steps]].T
    return _Factors(log.pair_actions, left, reached)


def _may_be_sparse(states: int, visited: float) -> bool:
    """Whether reading entries may be faster than whole matrices, if a step's matrix has so many entries on average: it
    depends on how many states are possible at a time."""
    return states > _IN_REGISTERS and visited < _FEW_ENTRIES * states**2


def _updates(transitions: Floats, factors: _Factors) -> Floats:
    """The matrix of every symbol, (symbols, n, n)."""
    n = transitions.shape[1]
    _refuse_large(len(factors.actions) * n**2, f"{len(factors.actions)} pairs of action and observation", n)
    updates = transitions[factors.actions]
    updates *= factors.left[:, :, None]
    updates *= factors.reached[:, None, :]
    for still in np.flatnonzero(factors.actions < 0):
        updates[still] = np.diag(factors.left[still])
    return updates


def _refuse_large(size: int, what: str, states: int) -> None:
    if size > _MAX_OPERATORS:
        raise ResourceLimitError(
            f"{what} with {states} states need {size} numbers, at most {_MAX_OPERATORS} are allowed; "
            "use fewer states or merge symbols"
        )


def symbol_matrices(parameters: Parameters, log: EncodedLog, emission: Emission) -> Floats:
    """Joint probability of all that a symbol shows and of the move, for every symbol, (symbols, n, n)."""
    return _updates(parameters.transitions, _factors(parameters, log, emission))


class SymbolEntries(NamedTuple):
    """The entries of all symbols' matrices that are not zero, by symbol, state left and state reached."""

    symbols: Ints
    sources: Ints
    targets: Ints
    values: Floats
    shape: tuple[int, ...]  # (symbols, n)

    @property
    def leaving(self) -> Ints:
        """The row of every entry, counted through all matrices."""
        return self.symbols * self.shape[1] + self.sources

    @property
    def arriving(self) -> Ints:
        """The same for its column."""
        return self.symbols * self.shape[1] + self.targets


def symbol_entries(parameters: Parameters, log: EncodedLog, emission: Emission) -> SymbolEntries:
    """Joint probability of all that a symbol shows and of the move, for every symbol, where it is not zero."""
    factors = _factors(parameters, log, emission)
    return _gathered(parameters.transitions, parameters.transitions != 0, factors)


def impossible_events(parameters: Parameters, log: EncodedLog, emission: Emission) -> Ints:
    """The events that the model's zeros do not allow after those before them; after each the model knows nothing."""
    from unlatch.kernels.support import find_impossible

    matrices = symbol_entries(parameters, log, emission)
    entries, n = _entries(matrices), parameters.n_states
    states, stamps = np.zeros(n + 1, dtype=np.int64), np.zeros(n, dtype=np.int64)
    impossible = np.zeros(len(log), dtype=bool)
    for begin in range(0, len(log), _SUPPORT_CHUNK):
        checkpoint()
        end = min(begin + _SUPPORT_CHUNK, len(log))
        find_impossible(
            entries.starts, entries.targets, parameters.initial > 0, log.symbols, log.begins,
            begin, end, states, stamps, impossible[begin:end],
        )  # fmt: skip
    return np.flatnonzero(impossible)


def _gathered(transitions: Floats, moves: Flags, factors: _Factors) -> SymbolEntries:
    """The same as `_updates`, from the transitions that are not zero."""
    n = transitions.shape[1]
    cells = np.flatnonzero(moves)
    chances = transitions.reshape(-1)[cells]
    if (factors.actions < 0).any():  # one more action, the last, which moves nothing
        cells = np.concatenate([cells, moves.size + np.arange(n) * (n + 1)])
        chances = np.concatenate([chances, np.ones(n)])
    starts = np.searchsorted(cells, np.arange(cells[-1] // n**2 + 2) * n**2)
    sizes = np.diff(starts)[factors.actions]
    _refuse_large(int(sizes.sum()), "matrices", n)
    symbols = np.repeat(np.arange(len(sizes)), sizes)
    shifts = starts[:-1][factors.actions] - (np.cumsum(sizes) - sizes)
    chosen = np.arange(len(symbols)) + shifts[symbols]
    sources, targets = np.divmod(cells[chosen] % n**2, n)
    values = chances[chosen] * factors.left[symbols, sources] * factors.reached[symbols, targets]
    used = np.flatnonzero(values)
    return SymbolEntries(symbols[used], sources[used], targets[used], values[used], factors.left.shape)


class Totals(NamedTuple):
    """Sums over a log: ``joint`` (symbols, n, n) of expected moves, ``last`` (symbols, n) of the states left
    at the ends of episodes where nothing tells of the move (else zero), ``first`` (n,) of the states that episodes
    begin in; ``work`` is what they took, in multiplications."""

    joint: Floats
    last: Floats
    first: Floats
    log_likelihood: float
    work: float


class _EntryTotals(NamedTuple):
    """The same with ``joint`` (entries,) for the entries of `SymbolEntries` only."""

    joint: Floats
    last: Floats
    first: Floats
    log_likelihood: float
    work: float


class _Tallies(NamedTuple):
    """Sums over a log by what was used: moves (actions, n, n), states left and states reached by symbol (symbols, n),
    where ``left`` includes the last states of episodes; states that episodes begin in (n,)."""

    moves: Floats
    left: Floats
    reached: Floats
    first: Floats
    log_likelihood: float
    work: float

    def of_the_first(self, symbols: int) -> _Tallies:
        """Without the symbols beyond, which move nothing."""
        return self._replace(left=self.left[:symbols], reached=self.reached[:symbols])


def run_passes(
    updates: Floats,
    initial: Floats,
    symbols: NDArray[np.uint32],
    begins: NDArray[np.bool_],
    frequencies: Ints,
    *,
    last_move_unseen: bool,
    block_length: int | None = None,
    threads: int | None = None,
) -> Totals:
    """Expected moves for every symbol, given its matrix ``updates[symbol]`` (symbols, states, states).

    ``last_move_unseen`` says that nothing observed depends on the move of an episode's last step.
    """
    options = _Options(last_move_unseen, block_length, threads)
    events = _Events(symbols, begins, frequencies)
    visited, found = float(np.count_nonzero(updates, axis=(1, 2)) @ frequencies / len(symbols)), None
    if _may_be_sparse(len(initial), visited):
        places = np.nonzero(updates)
        matrices = SymbolEntries(places[0], places[1], places[2], updates[places], updates.shape[:2])
        found = _entry_totals(matrices, initial, events, visited, options)
    if found is None:
        return _dense_totals(updates, initial, events, options)
    joint = np.zeros_like(updates)
    joint[places] = found.joint
    return Totals(joint, *found[1:])


def _dense_totals(
    updates: Floats,
    initial: Floats,
    events: _Events,
    options: _Options,
) -> Totals:
    from unlatch.kernels.em import Operators

    n = len(initial)
    more = -n % 4
    nothing = np.zeros(0, dtype=np.uint32)
    padded = np.zeros((len(updates), n + more, n + more))
    padded[:, :n, :n] = updates
    ahead = Operators(padded, nothing, nothing, nothing, np.zeros(0))
    back = ahead._replace(dense=np.ascontiguousarray(padded.transpose(0, 2, 1)))
    cost = _dense_cost(n)
    passes = FullPasses(
        ahead,
        back,
        initial,
        events.symbols,
        events.begins,
        start=events.before,
        last_move_unseen=options.last_move_unseen,
        step_cost=cost,
        block_length=options.block_length,
    )
    work = len(events.symbols) * cost
    sums, log_likelihood = _run(passes, work, options.threads)
    joint = sums.outer[:, :n, :n]
    joint *= updates
    return Totals(joint, sums.last[:, :n], sums.first[0, :n], log_likelihood, work)


def _dense_cost(states: int) -> float:
    return _STEP_COST + float(states**2)


def _entry_totals(
    matrices: SymbolEntries,
    initial: Floats,
    events: _Events,
    visited: float,
    options: _Options,
) -> _EntryTotals | None:
    """By lists of the states that are possible, unless they are so many that reading all entries is faster; None if
    whole matrices are."""
    n = len(initial)
    cost = _STEP_COST + _STATE_COST * n + _ENTRY_COST * visited
    common: dict[str, Any] = {
        "start": events.before,
        "last_move_unseen": options.last_move_unseen,
        "step_cost": cost,
        "block_length": options.block_length,
    }
    passes: Passes
    passes = listed = ListedPasses(_entries(matrices), initial, events.symbols, events.begins, **common)
    listed_cost = _STEP_COST + listed.activity() * (_LISTED_STATE_COST + _LISTED_ENTRY_COST * visited / n)
    if min(listed_cost, cost) > _dense_cost(n):
        return None
    if listed_cost > cost:
        passes = FullPasses(*_entry_operators(matrices), initial, events.symbols, events.begins, **common)
    work = len(events.symbols) * min(cost, listed_cost)
    sums, log_likelihood = _run(passes, work, options.threads)
    joint = sums.entries * matrices.values
    return _EntryTotals(joint, sums.last[:, :n], sums.first[0, :n], log_likelihood, work)


def _entries(matrices: SymbolEntries) -> Any:
    """The entries by symbol and state left."""
    from unlatch.kernels.em_sparse import Entries

    counts = np.bincount(matrices.leaving, minlength=matrices.shape[0] * matrices.shape[1])
    starts = np.concatenate([[0], np.cumsum(counts)])
    return Entries(starts, matrices.targets.astype(np.uint32), matrices.values)


def _entry_operators(matrices: SymbolEntries) -> tuple[Any, Any]:
    """The entries by symbol, to go ahead and to go back."""
    from unlatch.kernels.em import Operators

    starts = np.searchsorted(matrices.symbols, np.arange(matrices.shape[0] + 1)).astype(np.uint32)
    sources, targets = (states.astype(np.uint32) for states in (matrices.sources, matrices.targets))
    nothing = np.zeros((0, 0, 0))
    return (
        Operators(nothing, starts, sources, targets, matrices.values),
        Operators(nothing, starts, targets, sources, matrices.values),
    )


def _run(passes: Passes, work: float, threads: int | None) -> tuple[Any, float]:
    """All sums, and the log-likelihood."""
    lower, upper = passes.empty_sums(), passes.empty_sums()
    run = in_two_lanes if use_threads(work, threads) else one_after_the_other
    log_likelihood, lost = run(passes, lower, upper)
    _refuse_lost(lost)
    for here, there in zip(lower, upper, strict=True):
        here += there
    return lower, log_likelihood


def use_threads(work: float, threads: int | None = None) -> bool:
    """Whether so many multiplications are worth a second thread, unless it was said how many there shall be."""
    if threads is None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return cores > 1 and work > _WORK_PER_THREAD
    return threads > 1


def _refuse_lost(lost: int) -> None:
    if lost:
        raise NumericalError(
            f"{lost} steps have lost all digits: under the model, what came before them and what came after "
            "are all but impossible together; raise its smallest probabilities"
        )


def _matrices_by_use(actions: Ints, n_actions: int, totals: Totals) -> _Tallies:
    joint = totals.joint
    taken = (np.arange(n_actions)[:, None] == actions).astype(np.float64)
    return _Tallies(
        (taken @ joint.reshape(len(joint), -1)).reshape(n_actions, *joint.shape[1:]),
        totals.joint.sum(axis=2) + totals.last,
        totals.joint.sum(axis=1),
        totals.first,
        totals.log_likelihood,
        totals.work,
    )


def _entries_by_use(matrices: SymbolEntries, actions: Ints, n_actions: int, totals: _EntryTotals) -> _Tallies:
    size, n = matrices.shape
    taken = actions[matrices.symbols]
    moving = taken >= 0
    cells = ((taken * n + matrices.sources) * n + matrices.targets)[moving]

    def tallied(places: Ints, uses: Floats, *shape: int) -> Floats:
        return np.bincount(places, uses, math.prod(shape)).astype(np.float64, copy=False).reshape(shape)

    return _Tallies(
        tallied(cells, totals.joint[moving], n_actions, n, n),
        tallied(matrices.leaving, totals.joint, size, n) + totals.last,
        tallied(matrices.arriving, totals.joint, size, n),
        totals.first,
        totals.log_likelihood,
        totals.work,
    )


def _by_probability(
    parameters: Parameters, log: EncodedLog, emission: Emission, tallies: _Tallies
) -> ExpectedCounts:
    """What every symbol used, added up by the probabilities that it used."""
    steps = log.is_step
    actions, left = log.pair_actions[steps], tallies.left[steps]
    emitted = left if emission == "departure" else tallies.reached[steps]
    observations = _tallied(parameters.observations, actions, log.pair_observations[steps], emitted)
    first, rewards = None, None
    if parameters.first is not None:
        first = np.zeros_like(parameters.first)
        first[:, log.pair_observations[~steps]] = tallies.left[~steps].T
    if parameters.rewards is not None:
        rewards = np.zeros_like(parameters.rewards)
        if len(log.reward_values):
            rewards = _tallied(rewards, actions, log.pair_rewards[steps], left)
    return ExpectedCounts(
        initial=tallies.first,
        transitions=tallies.moves,
        observations=observations,
        log_likelihood=tallies.log_likelihood,
        first=first,
        rewards=rewards,
        shared=parameters.shared,
        dense=parameters.dense,
        work=tallies.work,
    )


def _tallied(like: Floats, actions: Ints, outcomes: Ints, uses: Floats) -> Floats:
    """``uses`` (symbols, states) added up by action and outcome, shaped as ``like`` (actions, states, outcomes)."""
    table = np.zeros((like.shape[0], like.shape[2], like.shape[1]))
    np.add.at(table, (actions, outcomes), uses)
    return np.ascontiguousarray(table.transpose(0, 2, 1))
