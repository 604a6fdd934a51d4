"""Forward-backward passes over a log in blocks, in two lanes, in calls short enough to be interrupted.

The counting pass runs in two lanes, one for each half of the log, whose sums are added in a fixed order. The
lower lane needs the backward message in the middle of the log: with two threads it comes from a backward
pass over the upper half, beside the forward pass; with one thread the upper lane arrives there by itself.
The arithmetic is the same either way, so the number of threads does not change a bit of the result.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unlatch.arrays import Floats, Ints
from unlatch.core.budget import checkpoint
from unlatch.core.pomdp import POMDP, Emission
from unlatch.core.reading import Endings
from unlatch.core.trajectory import Trajectory
from unlatch.errors import BeliefCollapseError, NumericalError, ResourceLimitError
from unlatch.learn.likelihood.parameters import (
    EncodedLog,
    ExpectedCounts,
    Parameters,
    encoded_log,
    parameters_of,
)

__all__ = ["Totals", "expectation", "expected_counts", "run_passes"]

_MAX_OPERATORS = 1 << 28
"""Numbers in the matrices of all symbols: two gigabytes."""

WORK_PER_CALL = 1 << 27
"""Multiplications per kernel call: about a tenth of a second, so that Ctrl-C is answered soon."""

_WORK_PER_THREAD = 1 << 23
"""Multiplications below which a second thread costs more than it saves."""

KEPT_NUMBERS = 1 << 22
"""Numbers in the forward messages of a log up to which all are kept (32 megabytes) and none computed twice."""

_BLOCK_NUMBERS = 1 << 13
"""Numbers in the forward messages of one block of a longer log: few enough for the fast cache."""

_SPARSE_COST = 4
"""One multiplication by an entry that has to be looked up costs as much as so many dense ones."""

_STEP_COST = 32
"""What a step costs apart from its multiplications, in the same unit."""


def expectation(pomdp: POMDP, log: Trajectory) -> ExpectedCounts:
    """Expected counts of ``log`` under ``pomdp``; to pass over a log many times, use `expected_counts`."""
    return expected_counts(parameters_of(pomdp), encoded_log(log, pomdp), emission=pomdp.emission)


def expected_counts(
    parameters: Parameters,
    log: EncodedLog,
    *,
    emission: Emission = "departure",
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
    totals = run_passes(
        _updates(parameters, log, emission),
        parameters.initial,
        log.symbols,
        log.begins,
        log.pair_counts,
        last_move_unseen=emission == "departure" and not log.tells_endings,
        block_length=block_length,
        threads=threads,
    )
    return _by_probability(parameters, log, emission, totals)


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
    )


def _by_probability(
    parameters: Parameters, log: EncodedLog, emission: Emission, totals: Totals
) -> ExpectedCounts:
    """What every symbol used, added up by the probabilities that it used."""
    steps = log.is_step
    actions, joint = log.pair_actions[steps], totals.joint[steps]
    left = joint.sum(axis=2) + totals.last[steps]
    emitted = left if emission == "departure" else joint.sum(axis=1)
    transitions = np.zeros_like(parameters.transitions)
    np.add.at(transitions, actions, joint)
    observations = _tallied(parameters.observations, actions, log.pair_observations[steps], emitted)
    first, rewards = None, None
    if parameters.first is not None:
        first = np.zeros_like(parameters.first)
        shown = np.diagonal(totals.joint[~steps], axis1=1, axis2=2) + totals.last[~steps]
        first[:, log.pair_observations[~steps]] = shown.T
    if parameters.rewards is not None:
        rewards = np.zeros_like(parameters.rewards)
        if len(log.reward_values):
            rewards = _tallied(rewards, actions, log.pair_rewards[steps], left)
    return ExpectedCounts(
        initial=totals.first,
        transitions=transitions,
        observations=observations,
        log_likelihood=totals.log_likelihood,
        first=first,
        rewards=rewards,
        shared=parameters.shared,
    )


def _tallied(like: Floats, actions: Ints, outcomes: Ints, uses: Floats) -> Floats:
    """``uses`` (symbols, states) added up by action and outcome, shaped as ``like`` (actions, states, outcomes)."""
    table = np.zeros((like.shape[0], like.shape[2], like.shape[1]))
    np.add.at(table, (actions, outcomes), uses)
    return np.ascontiguousarray(table.transpose(0, 2, 1))


def _updates(parameters: Parameters, log: EncodedLog, emission: Emission) -> Floats:
    """Joint probability of all that a symbol shows and of the move, for every symbol of the log: (symbols, n, n)."""
    size = len(log.pair_actions) * parameters.n_states**2
    if size > _MAX_OPERATORS:
        raise ResourceLimitError(
            f"{len(log.pair_actions)} pairs of action and observation with {parameters.n_states} states "
            f"need {size} numbers, at most {_MAX_OPERATORS} are allowed; use fewer states or merge symbols"
        )
    steps = log.is_step
    actions = log.pair_actions[steps]
    shown = parameters.observations[actions, :, log.pair_observations[steps]]
    moves = parameters.transitions[actions]
    moves = moves * (shown[:, :, None] if emission == "departure" else shown[:, None, :])
    if parameters.rewards is not None and len(log.reward_values):
        moves *= parameters.rewards[actions, :, log.pair_rewards[steps]][:, :, None]
    if log.tells_endings:
        ends = log.pair_endings[steps][:, None]
        moves *= ((ends == Endings.UNTOLD) | ((ends == Endings.ENDS) == parameters.terminal))[:, None, :]
    if steps.all():
        return moves
    updates = np.zeros((len(steps), parameters.n_states, parameters.n_states))
    updates[steps] = moves
    if parameters.first is not None:
        states = np.arange(parameters.n_states)
        before = np.flatnonzero(~steps)
        updates[before[:, None], states, states] = parameters.first[:, log.pair_observations[before]].T
    return updates


class Totals(NamedTuple):
    """Sums over a log: ``joint`` (symbols, n, n) of expected moves, ``last`` (symbols, n) of the states left
    at the ends of episodes where nothing tells of the move (else zero), ``first`` (n,) of the states that episodes
    begin in."""

    joint: Floats
    last: Floats
    first: Floats
    log_likelihood: float


@dataclass(frozen=True, eq=False)
class _Work:
    """Everything that the passes share; ``n`` states are padded to a multiple of four."""

    kernels: Any  # the module for small models or the one for all
    ahead: Any  # Operators
    back: Any  # Operators
    initial: Any  # an array, or a tuple where messages are held in registers
    ones: Any  # the same
    steps: Any  # Steps
    last_move_unseen: bool
    length: int
    checkpoints: Floats
    step_cost: float  # in dense multiplications

    @property
    def n(self) -> int:
        return len(self.initial)

    @property
    def blocks(self) -> int:
        return len(self.checkpoints)

    @property
    def middle(self) -> int:
        return self.blocks // 2

    def calls(self, first: int, last: int) -> list[tuple[int, int]]:
        """Ranges of blocks, each small enough for one kernel call."""
        size = max(1, int(WORK_PER_CALL / (self.length * self.step_cost)))
        return [(begin, min(begin + size, last)) for begin in range(first, last, size)]


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
    work = _prepared(updates, initial, symbols, begins, frequencies, last_move_unseen, block_length)
    lower, upper = _empty_sums(work), _empty_sums(work)
    message = np.ones((2, work.n))
    if _use_threads(work, threads):
        gains, _ = _side_by_side(_forward(work), _backward(work, message, work.middle, work.blocks))
        lost = _side_by_side(
            _count(work, message, 0, work.middle, lower),
            _count(work, np.ones((2, work.n)), work.middle, work.blocks, upper),
        )
    else:
        gains = list(_forward(work))
        upper_lost = list(_count(work, message, work.middle, work.blocks, upper))
        lost = list(_count(work, message, 0, work.middle, lower)), upper_lost
    _refuse_lost(sum(lost[0]) + sum(lost[1]))
    return _totals(updates, work, lower, upper, float(sum(gains)))


def _prepared(
    updates: Floats,
    initial: Floats,
    symbols: NDArray[np.uint32],
    begins: NDArray[np.bool_],
    frequencies: Ints,
    last_move_unseen: bool,
    block_length: int | None,
) -> _Work:
    from unlatch.kernels import em, em_small

    n = -(-len(initial) // 4) * 4
    small = n in em_small.WIDTHS
    form = tuple if small else np.asarray
    sparse_cost = _SPARSE_COST * float(np.count_nonzero(updates, axis=(1, 2)) @ frequencies / len(symbols))
    operators = _sparse_operators if not small and sparse_cost < n**2 else _dense_operators
    kept = len(symbols) * n <= KEPT_NUMBERS
    length = block_length or (1 if kept else max(64, _BLOCK_NUMBERS // n))
    return _Work(
        kernels=em_small if small else em,
        ahead=operators(updates, n),
        back=operators(updates.transpose(0, 2, 1), n),
        initial=form(_padded(initial, (n,))),
        ones=form(np.ones(n)),
        steps=em.Steps(symbols, begins),
        last_move_unseen=last_move_unseen,
        length=length,
        checkpoints=np.empty((-(-len(symbols) // length), n)),
        step_cost=_STEP_COST + min(sparse_cost, n**2),
    )


def _padded(array: Floats, shape: tuple[int, ...]) -> Floats:
    """The array in a corner of zeros."""
    result = np.zeros(shape)
    result[tuple(slice(size) for size in array.shape)] = array
    return result


def _dense_operators(updates: Floats, n: int) -> Any:
    from unlatch.kernels.em import Operators

    nothing = np.zeros(0, dtype=np.uint32)
    return Operators(_padded(updates, (len(updates), n, n)), nothing, nothing, nothing, np.zeros(0))


def _sparse_operators(updates: Floats, n: int) -> Any:
    from unlatch.kernels.em import Operators

    symbols, sources, targets = np.nonzero(updates)
    starts = np.searchsorted(symbols, np.arange(len(updates) + 1))
    return Operators(
        dense=np.zeros((0, n, n)),
        starts=starts.astype(np.uint32),
        sources=sources.astype(np.uint32),
        targets=targets.astype(np.uint32),
        values=updates[symbols, sources, targets],
    )


def _empty_sums(work: _Work) -> Any:
    from unlatch.kernels.em import Sums

    symbols = max(len(work.back.dense), len(work.back.starts) - 1)
    return Sums(
        dense=np.zeros_like(work.back.dense),
        sparse=np.zeros_like(work.back.values),
        last=np.zeros((symbols, work.n)),
        first=np.zeros((1, work.n)),
    )


def _forward(work: _Work) -> Iterator[float]:
    """The forward pass; yields what every call adds to the log-likelihood."""
    message = np.zeros((2, work.n))
    message[0] = work.initial
    for first, last in work.calls(0, work.blocks):
        checkpoint()
        gain, done = work.kernels.forward_blocks(
            work.ahead, work.initial, work.steps, work.length, first, last, message, work.checkpoints
        )
        if done < min(last * work.length, len(work.steps.symbols)):
            raise BeliefCollapseError(f"step {done}: impossible under the model and the steps before it")
        yield gain
    yield float(np.log(message[0].sum()))


def _backward(work: _Work, message: Floats, first: int, last: int) -> Iterator[int]:
    """The backward message before block ``first``, left in ``message``."""
    for begin, end in reversed(work.calls(first, last)):
        checkpoint()
        work.kernels.backward_blocks(work.back, work.ones, work.steps, work.length, begin, end, message)
        yield 0


def _count(work: _Work, message: Floats, first: int, last: int, sums: Any) -> Iterator[int]:
    """One lane of the counting pass; yields how many steps every call has lost to underflow."""
    workspace = np.empty((work.length + 1, work.n))
    for begin, end in reversed(work.calls(first, last)):
        checkpoint()
        yield work.kernels.count_blocks(
            work.ahead,
            work.back,
            work.initial,
            work.ones,
            work.steps,
            work.last_move_unseen,
            work.length,
            begin,
            end,
            work.checkpoints,
            message,
            workspace,
            sums,
        )


def _use_threads(work: _Work, threads: int | None) -> bool:
    if threads is None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return cores > 1 and len(work.steps.symbols) * work.step_cost > _WORK_PER_THREAD
    return threads > 1


def _side_by_side(here: Iterator[Any], there: Iterator[Any]) -> tuple[list[Any], list[Any]]:
    """Exhaust two lanes at once, the second in a thread, and return what they yielded.

    They go call by call, so that an interrupt waits for one call and not for the other lane's end.
    """
    end = object()
    lanes: tuple[list[Any], list[Any]] = [], []
    with ThreadPoolExecutor(max_workers=1) as pool:
        while True:
            pending = pool.submit(next, there, end)
            results = next(here, end), pending.result()
            for lane, result in zip(lanes, results, strict=True):
                if result is not end:
                    lane.append(result)
            if results[0] is end and results[1] is end:
                return lanes


def _refuse_lost(lost: int) -> None:
    if lost:
        raise NumericalError(
            f"{lost} steps have lost all digits: under the model, what came before them and what came after "
            "are all but impossible together; raise its smallest probabilities"
        )


def _totals(updates: Floats, work: _Work, lower: Any, upper: Any, log_likelihood: float) -> Totals:
    states = updates.shape[1]
    if len(work.back.dense):
        outer = (lower.dense + upper.dense)[:, :states, :states]
    else:
        outer = np.zeros_like(updates)
        symbols = np.repeat(np.arange(len(updates)), np.diff(work.back.starts.astype(np.int64)))
        outer[symbols, work.back.targets, work.back.sources] = lower.sparse + upper.sparse
    return Totals(
        joint=updates * outer,
        last=(lower.last + upper.last)[:, :states],
        first=(lower.first + upper.first)[0, :states],
        log_likelihood=log_likelihood,
    )
