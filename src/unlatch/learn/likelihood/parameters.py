"""What a model makes of a log: the expected number of times that it used each of its probabilities.

The expected counts are the E-step of EM, and divided by the probabilities they are the gradient of the
log-likelihood, so that every learner that climbs the likelihood is built on `expected_counts`. One call
passes over the log three times in memory that does not grow with steps times states, on two cores if there
are two, with the same bits on one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unlatch.arrays import Floats, Ints
from unlatch.core.checks import frozen
from unlatch.core.pomdp import POMDP
from unlatch.core.trajectory import Trajectory

__all__ = ["EncodedLog", "ExpectedCounts", "Parameters", "encoded_log", "maximization", "parameters_of"]

MAX_TABLE = 1 << 22
"""Pairs up to which a table of all is quicker than sorting those that occur."""

_NO_VISITS = 1e-200
"""A row of expected counts with a smaller sum says nothing, not even in proportion."""

_NEGLIGIBLE = 1e-100
"""A probability below is set to zero: it can no longer matter, and denormal numbers are slow."""


class Parameters(NamedTuple):
    """The numbers of a POMDP, free to move: initial (S,), transitions (A, S, S), observations (A, S, O)."""

    initial: Floats
    transitions: Floats
    observations: Floats


@dataclass(frozen=True, eq=False)
class EncodedLog:
    """A log prepared for many passes: one symbol per step for its pair (action, observation).

    Attributes
    ----------
    symbols : array of uint32, shape (steps,)
    begins : array of bool, shape (steps,)
        True at the first step of every episode.
    pair_actions, pair_observations : array of int, shape (symbols,)
        What every symbol stands for; only pairs that occur have one.
    pair_counts : array of int, shape (symbols,)
    action_names, observation_names : tuple of str
        The alphabets that the codes refer to.
    """

    symbols: NDArray[np.uint32]
    begins: NDArray[np.bool_]
    pair_actions: Ints
    pair_observations: Ints
    pair_counts: Ints
    action_names: tuple[str, ...]
    observation_names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.symbols)

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

    @property
    def seen(self) -> Ints:
        """How often every observation followed every action, shape (actions, observations)."""
        table = np.zeros((self.n_actions, self.n_observations), dtype=np.int64)
        table[self.pair_actions, self.pair_observations] = self.pair_counts
        return table


@dataclass(frozen=True, eq=False)
class ExpectedCounts:
    """Expected numbers of events in a log, given everything that was observed in it.

    Attributes
    ----------
    initial : array, shape (states,)
        Episodes that began in each state.
    transitions : array, shape (actions, states, states)
        With departure emission the transition after an episode's last step is not counted: nothing was
        observed that depends on it.
    observations : array, shape (actions, states, observations)
        By the state that emits: the one left (departure) or the one reached (arrival).
    log_likelihood : float
        Of the log under the model, in nats.
    """

    initial: Floats
    transitions: Floats
    observations: Floats
    log_likelihood: float

    def reordered(self, order: Ints) -> ExpectedCounts:
        """The same with new state ``i`` being the old state ``order[i]``."""
        return ExpectedCounts(
            initial=frozen(self.initial[order]),
            transitions=frozen(self.transitions[:, order][:, :, order]),
            observations=frozen(self.observations[:, order]),
            log_likelihood=self.log_likelihood,
        )


def encoded_log(log: Trajectory, model: POMDP | None = None) -> EncodedLog:
    """Prepare ``log`` in its own alphabets, or in those of ``model``."""
    actions, observations = (log.actions, log.observations) if model is None else model.encode(log)
    source = log if model is None else model
    pairs, symbols, counts = _numbered(actions, observations, len(source.observation_names))
    begins = np.zeros(len(log), dtype=bool)
    begins[log.episode_starts] = True
    return EncodedLog(
        symbols=frozen(symbols),
        begins=frozen(begins),
        pair_actions=frozen(pairs // len(source.observation_names)),
        pair_observations=frozen(pairs % len(source.observation_names)),
        pair_counts=frozen(counts),
        action_names=source.action_names,
        observation_names=source.observation_names,
    )


def _numbered(
    actions: Ints, observations: Ints, n_observations: int
) -> tuple[Ints, NDArray[np.uint32], Ints]:
    """The pairs that occur, the number of every step's pair among them, and how often each occurs."""
    codes = actions * n_observations + observations
    largest = int(codes.max(initial=0))
    if largest > MAX_TABLE:
        pairs, symbols, counts = np.unique(codes, return_inverse=True, return_counts=True)
        return pairs, symbols.astype(np.uint32), counts
    counts = np.bincount(codes, minlength=1)
    number = (np.cumsum(counts > 0) - 1).astype(np.uint32)
    return np.flatnonzero(counts), number[codes], counts[counts > 0]


def parameters_of(pomdp: POMDP) -> Parameters:
    """The numbers of a model."""
    return Parameters(pomdp.initial, pomdp.transitions, pomdp.observations)


def maximization(counts: ExpectedCounts, previous: Parameters) -> Parameters:
    """The parameters that make the expected counts most likely: every row in proportion to its counts.

    A row without counts keeps its previous values; the likelihood does not depend on it.
    """
    return Parameters(
        initial=_proportional(counts.initial, previous.initial),
        transitions=_proportional(counts.transitions, previous.transitions),
        observations=_proportional(counts.observations, previous.observations),
    )


def _proportional(counts: Floats, previous: Floats) -> Floats:
    totals = counts.sum(axis=-1, keepdims=True)
    empty = totals < _NO_VISITS
    rows = np.where(empty, previous, counts / np.where(empty, 1.0, totals))
    result: Floats = np.where(rows < _NEGLIGIBLE, 0.0, rows)
    return result
