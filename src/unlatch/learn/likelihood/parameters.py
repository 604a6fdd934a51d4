"""What a model makes of a log: the expected number of times that it used each of its probabilities.

The expected counts are the E-step of EM, and divided by the probabilities they are the gradient of the
log-likelihood, so that every learner that climbs the likelihood is built on `expected_counts`. One call
passes over the log three times in memory that does not grow with steps times states, on two cores if there
are two, with the same bits on one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unlatch.arrays import Flags, Floats, Ints
from unlatch.core.alphabet import translate
from unlatch.core.checks import frozen
from unlatch.core.pomdp import POMDP
from unlatch.core.reading import Endings, reward_codes, told_endings
from unlatch.core.trajectory import Trajectory
from unlatch.learn.likelihood.words import Words, words_of
from unlatch.learn.significance import USED

__all__ = [
    "EncodedLog",
    "ExpectedCounts",
    "Parameters",
    "encoded_log",
    "maximization",
    "parameters_of",
]

MAX_TABLE = 1 << 22
"""Pairs up to which a table of all is quicker than sorting those that occur."""

JEFFREYS = 0.5
"""Prior count of every entry that a row uses: the prior that is uniform in the square roots of its probabilities."""

UNIFORM = 1.0
"""Prior count of every entry of a dense model: the prior to which all distributions are the same."""

_NO_VISITS = 1e-200
"""A row of expected counts with a smaller sum says nothing, not even in proportion."""

_NEGLIGIBLE = 1e-100
"""A probability below is set to zero: it can no longer matter, and denormal numbers are slow."""


@dataclass(frozen=True, eq=False)
class Parameters:
    """The numbers of a POMDP, free to move.

    Attributes
    ----------
    initial : array, shape (states,)
    transitions : array, shape (actions, states, states)
    observations : array, shape (actions, states, observations)
    first : array, shape (states, first observations), or None
        What is shown before the first action.
    rewards : array, shape (actions, states, rewards), or None
        What is paid beside the observation by the state left.
    terminal : array of bool, shape (states,)
        The states in which nothing more happens; by default none. They are no numbers, but what these are numbers of.
    shared : bool
        Whether a state shows the same under every action: then its rows of observations are equal, and count as one.
    dense : bool
        Whether any outcome is possible in every row, and all distributions are equally likely beforehand: then it is
        not the likelihood that is climbed but the probability of the numbers, which has one use more of every entry.
    """

    initial: Floats
    transitions: Floats
    observations: Floats
    first: Floats | None = None
    rewards: Floats | None = None
    terminal: Flags = None  # type: ignore[assignment]
    shared: bool = False
    dense: bool = False

    def __post_init__(self) -> None:
        given: object = self.terminal
        if given is None:
            object.__setattr__(self, "terminal", np.zeros(len(self.initial), dtype=bool))

    @property
    def n_states(self) -> int:
        return len(self.initial)

    @property
    def blocks(self) -> tuple[Floats, ...]:
        """The arrays that there are, in the order of the fields; the last axis of each is a distribution. Shared rows
        are there once, as if there were a single action."""
        return _present(self, self.shown)

    def __iter__(self) -> Iterator[Floats]:
        return iter(self.blocks)

    @property
    def log_prior(self) -> float:
        """What a dense model's numbers add to the likelihood that is climbed, up to a constant; zero for others."""
        if not self.dense:
            return 0.0
        return UNIFORM * sum(float(np.log(rows[rows > 0]).sum()) for rows in self.blocks[1:])

    @property
    def shown(self) -> Floats:
        """The rows of observations, (actions, states, observations); for a single action if they are shared."""
        return self.observations[:1] if self.shared else self.observations

    def for_all_actions(self, shown: Floats) -> Floats:
        """Rows as in `shown`, for every action."""
        return np.repeat(shown, len(self.observations), axis=0) if self.shared else shown

    def with_blocks(self, blocks: Iterable[Floats]) -> Parameters:
        """The same model with other numbers, in the order of `blocks`."""
        names = [name for name in BLOCKS if getattr(self, name) is not None]
        numbers: dict[str, Any] = dict(zip(names, blocks, strict=True))
        numbers["observations"] = self.for_all_actions(numbers["observations"])
        return replace(self, **numbers)


BLOCKS = ("initial", "transitions", "observations", "first", "rewards")
"""Fields of `Parameters` whose last axis is a distribution."""


def _present(holder: Parameters | ExpectedCounts, observations: Floats) -> tuple[Floats, ...]:
    """The fields that there are, with these observations."""
    rows = (holder.initial, holder.transitions, observations, holder.first, holder.rewards)
    return tuple(block for block in rows if block is not None)


@dataclass(frozen=True, eq=False)
class EncodedLog:
    """A log prepared for many passes: one symbol per event.

    An event is a step, told by its action, its observation, its reward if rewards are kept apart, and whether it ended
    the episode if the log tells; or what an episode showed before its first step.

    Attributes
    ----------
    symbols : array of uint32, shape (events,)
    begins : array of bool, shape (events,)
        True at the first event of every episode.
    pair_actions, pair_observations, pair_rewards, pair_endings : array of int, shape (symbols,)
        What every symbol stands for; only those that occur have one. The action is -1 for what is shown before the
        first step, the reward -1 where it is not kept apart, the ending one of `Endings`.
    pair_counts : array of int, shape (symbols,)
    steps : int
    action_names, observation_names, first_names : tuple of str
        The alphabets that the codes refer to.
    reward_values : array
        The rewards that are kept apart; none if they are not.
    """

    symbols: NDArray[np.uint32]
    begins: NDArray[np.bool_]
    pair_actions: Ints
    pair_observations: Ints
    pair_rewards: Ints
    pair_endings: Ints
    pair_counts: Ints
    steps: int
    action_names: tuple[str, ...]
    observation_names: tuple[str, ...]
    first_names: tuple[str, ...]
    reward_values: Floats

    def __len__(self) -> int:
        """Events to pass over."""
        return len(self.symbols)

    def head(self, events: int) -> EncodedLog:
        """The first events, with all symbols."""
        if events >= len(self):
            return self
        return self._with(self.symbols[:events], self.begins[:events])

    def around(self, events: Ints, reach: int) -> EncodedLog:
        """Only what lies no further than so many events from one of these; every piece is an episode."""
        near = np.zeros(len(self) + 1, dtype=np.int64)
        np.add.at(near, np.maximum(events - reach, 0), 1)
        np.add.at(near, np.minimum(events + reach + 1, len(self)), -1)
        kept = np.cumsum(near[:-1]) > 0
        begins = self.begins.copy()
        begins[1:] |= ~kept[:-1]
        begins[:1] = True
        return self._with(self.symbols[kept], begins[kept])

    def _with(self, symbols: NDArray[np.uint32], begins: NDArray[np.bool_]) -> EncodedLog:
        """The same with other events."""
        counts = np.bincount(symbols, minlength=len(self.pair_counts))
        steps = int(counts[self.is_step].sum())
        return replace(self, symbols=symbols, begins=begins, pair_counts=counts, steps=steps)

    @property
    def n_actions(self) -> int:
        return len(self.action_names)

    @property
    def n_observations(self) -> int:
        return len(self.observation_names)

    @property
    def untried_actions(self) -> tuple[str, ...]:
        """Names of actions that never occur."""
        tried = self.seen.sum(axis=1) > 0
        return tuple(name for name, used in zip(self.action_names, tried, strict=True) if not used)

    @cached_property
    def is_step(self) -> Flags:
        """Which symbols are steps, and not what came before the first."""
        return frozen(self.pair_actions >= 0)

    @cached_property
    def words(self) -> Words:
        """The log a few steps at a time, for passes of small models."""
        return words_of(self.symbols, self.begins, len(self.pair_counts))

    @cached_property
    def tells_endings(self) -> bool:
        return bool((self.pair_endings[self.is_step] != Endings.UNTOLD).any())

    @cached_property
    def last_seen(self) -> Ints:
        """How often every observation came with the end of an episode, shape (actions, observations)."""
        return self._tally(self.pair_endings == Endings.ENDS)

    @cached_property
    def seen(self) -> Ints:
        """How often every observation followed every action, shape (actions, observations)."""
        return self._tally(np.ones(len(self.pair_actions), dtype=bool))

    def _tally(self, which: Flags) -> Ints:
        table = np.zeros((self.n_actions, self.n_observations), dtype=np.int64)
        chosen = self.is_step & which
        np.add.at(
            table, (self.pair_actions[chosen], self.pair_observations[chosen]), self.pair_counts[chosen]
        )
        return table

    @cached_property
    def paid(self) -> Ints:
        """How often every reward followed every action, shape (actions, rewards)."""
        table = np.zeros((self.n_actions, len(self.reward_values)), dtype=np.int64)
        chosen = self.pair_rewards >= 0
        np.add.at(table, (self.pair_actions[chosen], self.pair_rewards[chosen]), self.pair_counts[chosen])
        return table

    @cached_property
    def first_seen(self) -> Ints:
        """How often every first observation was shown."""
        table = np.zeros(len(self.first_names), dtype=np.int64)
        np.add.at(table, self.pair_observations[~self.is_step], self.pair_counts[~self.is_step])
        return table


@dataclass(frozen=True, eq=False)
class ExpectedCounts:
    """Expected numbers of events in a log, given everything that was observed in it.

    Attributes
    ----------
    initial : array, shape (states,)
        Episodes that began in each state.
    transitions : array, shape (actions, states, states)
        With departure emission the transition after an episode's last step is not counted unless the log tells
        endings: nothing was observed that depends on it.
    observations : array, shape (actions, states, observations)
        By the state that emits: the one left (departure) or the one reached (arrival).
    log_likelihood : float
        Of the log under the model, in nats.
    first : array, shape (states, first observations), or None
    rewards : array, shape (actions, states, rewards), or None
        By the state left.
    shared, dense : bool
        Whether the model's states show the same under every action, and whether any outcome is possible in every row.
    work : float
        Multiplications that it took, or what took as long.

    Examples
    --------
    >>> import unlatch
    >>> tiger = unlatch.domains.tiger()
    >>> counts = unlatch.refine(tiger, unlatch.simulate(tiger, 2_000, rng=0)).counts
    >>> counts.transitions.shape, round(float(counts.observations.sum()))
    ((3, 2, 2), 2000)
    """

    initial: Floats
    transitions: Floats
    observations: Floats
    log_likelihood: float
    first: Floats | None = None
    rewards: Floats | None = None
    shared: bool = False
    dense: bool = False
    work: float = 0.0

    @property
    def n_states(self) -> int:
        return len(self.initial)

    @property
    def blocks(self) -> tuple[Floats, ...]:
        """The uses of all of `Parameters.blocks`."""
        shown = self.observations
        return _present(self, shown.sum(axis=0, keepdims=True) if self.shared else shown)

    @property
    def climbed(self) -> tuple[Floats, ...]:
        """The uses that are climbed with: one more of every entry of a dense model but for where episodes begin."""
        if not self.dense:
            return self.blocks
        start, *others = self.blocks
        return start, *(np.where(uses > 0, uses + UNIFORM, 0.0) for uses in others)

    @property
    def least(self) -> float:
        """The uses that an entry must exceed to be part of the model."""
        return 0.0 if self.dense else USED

    @property
    def prior(self) -> float:
        """The uses that every entry of a row is credited with beforehand, as the evidence has it."""
        return UNIFORM if self.dense else JEFFREYS

    def reordered(self, order: Ints) -> ExpectedCounts:
        """The same with new state ``i`` being the old state ``order[i]``."""
        return ExpectedCounts(
            initial=frozen(self.initial[order]),
            transitions=frozen(self.transitions[:, order][:, :, order]),
            observations=frozen(self.observations[:, order]),
            log_likelihood=self.log_likelihood,
            first=None if self.first is None else frozen(self.first[order]),
            rewards=None if self.rewards is None else frozen(self.rewards[:, order]),
            shared=self.shared,
            dense=self.dense,
            work=self.work,
        )


def encoded_log(log: Trajectory, model: POMDP | None = None, *, rewards_apart: bool = False) -> EncodedLog:
    """Prepare ``log`` in its own alphabets, or in those of ``model``.

    With a model, what it does not know is left out: endings, first observations, rewards beside observations. Without
    one, all that the log tells is taken, rewards only with ``rewards_apart``.
    """
    actions, observations = (log.actions, log.observations) if model is None else model.encode(log)
    source = log if model is None else model
    values, rewards = _rewards(log, model, rewards_apart)
    sizes = (len(source.action_names), len(source.observation_names), max(len(values), 1), len(Endings))
    told = (actions, observations, rewards, _endings(log, model))
    codes = np.ravel_multi_index(np.broadcast_arrays(*told), sizes) if len(log) else actions
    pairs, symbols, counts = _numbered(codes)
    columns = np.array(np.unravel_index(pairs, sizes))
    columns[2] -= len(values) == 0  # -1: there are none
    starts = log.episode_starts
    first, first_names = _first(log, model)
    if first is not None:
        shown, numbers, times = _numbered(first)
        symbols = np.insert(symbols, starts, len(pairs) + numbers)
        before = np.full((4, len(shown)), -1)
        before[1] = shown
        columns, counts = np.concatenate([columns, before], axis=1), np.concatenate([counts, times])
        starts = starts + np.arange(len(starts))
    begins = np.zeros(len(symbols), dtype=bool)
    begins[starts] = True
    return EncodedLog(
        symbols=frozen(symbols),
        begins=frozen(begins),
        pair_actions=frozen(columns[0]),
        pair_observations=frozen(columns[1]),
        pair_rewards=frozen(columns[2]),
        pair_endings=frozen(columns[3]),
        pair_counts=frozen(counts),
        steps=len(log),
        action_names=source.action_names,
        observation_names=source.observation_names,
        first_names=first_names,
        reward_values=values,
    )


def _rewards(log: Trajectory, model: POMDP | None, apart: bool) -> tuple[Floats, Ints]:
    """The rewards that are kept apart, and the number of every step's among them."""
    nothing = np.zeros(0), np.zeros(1, dtype=np.int64)
    if log.rewards is None:
        return nothing
    if model is None:
        if not apart:
            return nothing
        values, codes = np.unique(log.rewards + 0.0, return_inverse=True)  # -0.0 is 0.0
        return values, codes
    if model.reward_values is None:
        return nothing
    return model.reward_values, reward_codes(model, log)


def _endings(log: Trajectory, model: POMDP | None) -> Ints:
    """What every step tells of its episode's end, to a learner or to a model that knows of ends."""
    knows = log.terminated is not None if model is None else bool(model.terminal)
    return told_endings(log) if knows else np.full(1, int(Endings.UNTOLD))


def _first(log: Trajectory, model: POMDP | None) -> tuple[Ints | None, tuple[str, ...]]:
    """What every episode showed before its first action, and the names of these."""
    if log.first_observations is None or (model is not None and model.first_observations is None):
        return None, ()
    if model is None:
        return log.first_observations, log.first_observation_names
    names = model.first_observation_names
    return translate("first observation", log.first_observations, log.first_observation_names, names), names


def _numbered(codes: Ints) -> tuple[Ints, NDArray[np.uint32], Ints]:
    """The codes that occur, the number of every entry's code among them, and how often each occurs."""
    largest = int(codes.max(initial=0))
    if largest > MAX_TABLE:
        kinds, symbols, counts = np.unique(codes, return_inverse=True, return_counts=True)
        return kinds, symbols.astype(np.uint32), counts
    counts = np.bincount(codes, minlength=1)
    number = (np.cumsum(counts > 0) - 1).astype(np.uint32)
    return np.flatnonzero(counts), number[codes], counts[counts > 0]


def parameters_of(pomdp: POMDP) -> Parameters:
    """The numbers of a model."""
    return Parameters(
        initial=pomdp.initial,
        transitions=pomdp.transitions,
        observations=pomdp.observations,
        first=pomdp.first_observations,
        rewards=pomdp.reward_probabilities,
        terminal=np.isin(np.arange(pomdp.n_states), pomdp.terminal),
    )


def maximization(counts: ExpectedCounts, previous: Parameters) -> Parameters:
    """The parameters that make the expected counts most likely: every row in proportion to its counts.

    A row without counts keeps its previous values; the likelihood does not depend on it.
    """
    return previous.with_blocks(
        _proportional(uses, rows) for uses, rows in zip(counts.climbed, previous.blocks, strict=True)
    )


def _proportional(counts: Floats, previous: Floats) -> Floats:
    totals = counts.sum(axis=-1, keepdims=True)
    empty = totals < _NO_VISITS
    rows = np.where(empty, previous, counts / np.where(empty, 1.0, totals))
    result: Floats = np.where(rows < _NEGLIGIBLE, 0.0, rows)
    return result
