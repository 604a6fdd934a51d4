"""What a model says of a log, step by step: filtering, prediction, smoothing, the most likely path.

Written for the triple (initial, updates, final), so that departure and arrival emission need no cases of their own.
Every episode starts from ``initial``; kernels are called in chunks, so that Ctrl-C is answered soon.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from unlatch.arrays import Floats, Ints
from unlatch.core.checks import frozen
from unlatch.core.floating import own_errstate
from unlatch.core.memory import require_memory
from unlatch.core.progress import report
from unlatch.core.trajectory import Trajectory
from unlatch.errors import BeliefCollapseError, NumericalError, UsageError

if TYPE_CHECKING:
    from unlatch.core.psr import PSR

__all__ = [
    "Moment",
    "filter_log",
    "most_likely_path",
    "predictions",
    "refuse_collapse",
    "state_probabilities",
]

Moment = Literal["left", "reached"]
"""Which of a step's two states is meant: the one that its action was taken in, or the one that it led to."""

WORK_PER_CALL = 1 << 27
"""Multiplications per kernel call: about a tenth of a second, so that Ctrl-C is answered soon."""

_SHORTER = "cut the log into parts, each an episode or several"


@own_errstate
def filter_log(psr: PSR, log: Trajectory, first: int = 0) -> tuple[float, Floats, int]:
    """Log-likelihood of the episodes from step ``first`` on, the belief at the end, and the steps done.

    Fewer steps done than the log has means that the next one is impossible under the belief returned.
    """
    from unlatch.kernels.filtering import filter_steps

    actions, observations = psr.encode(log)
    total, belief = 0.0, psr.initial.copy()
    for start, end in _episodes(log, first):
        belief = psr.initial.copy()
        for begin, stop in _chunks(start, end, psr.rank**2):
            gain, done = filter_steps(
                psr.updates, psr.final, belief, actions[begin:stop], observations[begin:stop]
            )
            total += gain
            if done < stop - begin:
                return total, belief, begin + done
            report("filtering", stop, len(log))
    return total, belief, len(log)


@own_errstate
def predictions(psr: PSR, log: Trajectory) -> Floats:
    """Probability of every observation at every step, given its action and all before; (steps, observations)."""
    from unlatch.kernels.filtering import predict_rows

    actions, observations = psr.encode(log)
    rows = _rows(log, psr.n_observations)
    shows = np.ascontiguousarray(np.einsum("aoij,j->aio", psr.updates, psr.final))
    work = psr.rank * (psr.rank + psr.n_observations)
    for start, end in _episodes(log):
        belief = psr.initial.copy()
        for begin, stop in _chunks(start, end, work):
            done = predict_rows(
                psr.updates,
                psr.final,
                shows,
                belief,
                actions[begin:stop],
                observations[begin:stop],
                rows[begin:stop],
            )
            refuse_collapse(log, belief, begin + done, stop)
            report("predicting", stop, len(log))
    return _handed_over(rows)


@own_errstate
def state_probabilities(psr: PSR, log: Trajectory, moment: Moment) -> Floats:
    """Distribution of a state at every step given its whole episode; of coordinates that are states."""
    from unlatch.kernels.filtering import forward_rows, smooth_rows

    reached = _is_reached(moment)
    actions, observations = psr.encode(log)
    rows = _rows(log, psr.rank)
    for start, end in _episodes(log):
        belief = psr.initial.copy()
        chunks = list(_chunks(start, end, psr.rank**2))
        for begin, stop in chunks:
            part = slice(begin, stop)
            done = forward_rows(psr.updates, belief, actions[part], observations[part], reached, rows[part])
            refuse_collapse(log, belief, begin + done, stop)
            report("smoothing", start + stop, 2 * len(log))  # of two passes
        later = np.ones(psr.rank)
        for begin, stop in reversed(chunks):
            part = slice(begin, stop)
            if not smooth_rows(psr.updates, later, actions[part], observations[part], reached, rows[part]):
                raise NumericalError(
                    f"steps {begin} to {stop}: the probabilities of states lost all digits; the log is next to "
                    "impossible under the model"
                )
            report("smoothing", start + 2 * end - begin, 2 * len(log))
    return _handed_over(rows)


@own_errstate
def most_likely_path(psr: PSR, log: Trajectory, moment: Moment) -> Ints:
    """The likeliest path of states of every episode (Viterbi); of coordinates that are states."""
    from unlatch.kernels.filtering import trace_back, viterbi_steps

    reached = _is_reached(moment)
    actions, observations = psr.encode(log)
    kind = np.min_scalar_type(psr.rank - 1)
    longest = int((log.episode_ends - log.episode_starts).max(initial=0))
    require_memory(
        longest * psr.rank * kind.itemsize + 8 * len(log), f"the paths of {longest} steps", _SHORTER
    )
    came_from = np.empty((longest, psr.rank), dtype=kind)
    path = np.empty(len(log), dtype=np.int64)
    with np.errstate(divide="ignore"):  # log 0 is minus infinity, as it should be
        log_updates, log_initial = np.log(psr.updates), np.log(psr.initial)
    for start, end in _episodes(log):
        scores = log_initial.copy()
        for begin, stop in _chunks(start, end, psr.rank**2):
            possible = viterbi_steps(
                log_updates,
                scores,
                actions[begin:stop],
                observations[begin:stop],
                came_from[begin - start : stop - start],
            )
            if not possible:
                _, belief, done = filter_log(psr, log, start)
                refuse_collapse(log, belief, done, len(log))
            report("finding the path", stop, len(log))
        trace_back(came_from[: end - start], int(scores.argmax()), reached, path[start:end])
    path.setflags(write=False)
    return path


def refuse_collapse(log: Trajectory, belief: Floats, done: int, wanted: int) -> None:
    """Raise a `BeliefCollapseError` if a kernel stopped at step ``done``, before the ``wanted`` one."""
    if done >= wanted:
        return
    action = log.action_names[int(log.actions[done])]
    observation = log.observation_names[int(log.observations[done])]
    raise BeliefCollapseError(
        f"step {done}: observation {observation!r} after action {action!r} is impossible under the model and the "
        "steps before it; the log comes from another system, or the model lacks data",
        belief=frozen(belief),
        step=done,
        action=action,
        observation=observation,
    )


def _episodes(log: Trajectory, first: int = 0) -> Iterator[tuple[int, int]]:
    """Beginning and end of the episodes that begin at step ``first`` or later."""
    for start, end in zip(log.episode_starts.tolist(), log.episode_ends.tolist(), strict=True):
        if start >= first:
            yield start, end


def _chunks(start: int, end: int, work: int) -> Iterator[tuple[int, int]]:
    """Stretches of steps that a kernel does in one call, if one step costs ``work`` multiplications."""
    size = max(1, WORK_PER_CALL // work)
    for begin in range(start, end, size):
        yield begin, min(begin + size, end)


def _rows(log: Trajectory, width: int) -> Floats:
    require_memory(8 * len(log) * width, f"a table of {len(log)} steps by {width}", _SHORTER)
    return np.empty((len(log), width))


def _handed_over(rows: Floats) -> Floats:
    rows.setflags(write=False)  # nobody else holds it, so no copy is needed
    return rows


def _is_reached(moment: str) -> bool:
    if moment not in get_args(Moment):
        raise UsageError(f"moment must be 'left' or 'reached', got {moment!r}")
    return moment == "reached"
