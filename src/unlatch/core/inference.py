"""What a model says of a log, step by step: filtering, prediction, smoothing, the most likely path.

Written for the log as the model reads it (`Reading`), so that departure and arrival emission, endings and first
observations need no cases of their own. Kernels are called in chunks, so that Ctrl-C is answered soon.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Literal, get_args

import numpy as np

from unlatch.arrays import Floats, Ints, own_errstate
from unlatch.core.checks import frozen
from unlatch.core.memory import require_memory
from unlatch.core.progress import report
from unlatch.core.reading import Reading
from unlatch.core.trajectory import Trajectory
from unlatch.errors import BeliefCollapseError, BeliefCollapseWarning, NumericalError, UsageError

__all__ = [
    "Impossible",
    "Moment",
    "checked_impossible",
    "final_belief",
    "log_likelihood",
    "most_likely_path",
    "predictions",
    "state_probabilities",
]

Moment = Literal["left", "reached"]
"""Which of a step's two states is meant: the one that its action was taken in, or the one that it led to."""

WORK_PER_CALL = 1 << 27
"""Multiplications per kernel call: about a tenth of a second, so that Ctrl-C is answered soon."""

_SHORTER = "cut the log into parts, each an episode or several"


Impossible = Literal["mix", "raise"]
"""What follows a step that the model holds impossible: go on with what that step alone tells, or an error."""


def checked_impossible(impossible: str) -> Impossible:
    """``impossible`` if it names a choice, else a `UsageError`."""
    if impossible not in get_args(Impossible):
        raise UsageError(f"impossible must be 'mix' or 'raise', got {impossible!r}")
    return impossible  # type: ignore[return-value]


@own_errstate
def log_likelihood(reading: Reading, log: Trajectory) -> float:
    """Of all episodes, in nats; minus infinity if a step is impossible."""
    from unlatch.kernels.filtering import filter_steps

    total = 0.0
    for episode, (start, end) in enumerate(_episodes(log)):
        which = reading.beginnings[episode]
        total += float(reading.start_gains[which])
        belief = reading.starts[which].copy()
        for begin, stop in _chunks(start, end, reading.rank**2):
            gain, done = filter_steps(
                reading.updates,
                reading.final,
                belief,
                reading.actions[begin:stop],
                reading.events[begin:stop],
            )
            if done < stop - begin:
                return -np.inf
            total += gain
            report("filtering", stop, len(log))
    return total


@own_errstate
def final_belief(reading: Reading, log: Trajectory, impossible: Impossible) -> Floats:
    """The belief after the last episode of the log."""
    from unlatch.kernels.filtering import filter_steps

    if log.n_episodes == 0:
        return frozen(reading.starts[0])
    start = int(log.episode_starts[-1])
    collapses = _Collapses(log, impossible)
    belief = _start(reading, log, log.n_episodes - 1, collapses)

    def filtered(part: slice) -> int:
        _, done = filter_steps(
            reading.updates, reading.final, belief, reading.actions[part], reading.events[part]
        )
        return int(done)

    for begin, stop in _chunks(start, len(log), reading.rank**2):
        _past_the_impossible(filtered, begin, stop, reading, belief, collapses)
        report("filtering", stop, len(log))
    collapses.tell()
    return frozen(belief)


@own_errstate
def predictions(reading: Reading, log: Trajectory, shows: Floats, impossible: Impossible) -> Floats:
    """Probability of every observation at every step, given its action and all before; (steps, observations).

    ``shows[a, i, o]`` is the probability of ``o`` under ``a``, linear in the belief.
    """
    from unlatch.kernels.filtering import predict_rows

    rows = _rows(log, shows.shape[2])
    collapses = _Collapses(log, impossible)
    work = reading.rank * (reading.rank + shows.shape[2])
    belief = np.empty(reading.rank)

    def predicted(part: slice) -> int:
        actions, events = reading.actions[part], reading.events[part]
        return int(predict_rows(reading.updates, reading.final, shows, belief, actions, events, rows[part]))

    for episode, (start, end) in enumerate(_episodes(log)):
        belief[:] = _start(reading, log, episode, collapses)
        for begin, stop in _chunks(start, end, work):
            _past_the_impossible(predicted, begin, stop, reading, belief, collapses)
            report("predicting", stop, len(log))
    collapses.tell()
    return _handed_over(rows)


class _Collapses:
    """Counts what a model held impossible, and says so once; or refuses the first."""

    def __init__(self, log: Trajectory, impossible: Impossible) -> None:
        self._log, self._impossible = log, impossible
        self._count, self._first = 0, -1

    def note(self, step: int, belief: Floats) -> None:
        """Step ``step`` was impossible under ``belief``."""
        if self._impossible == "raise":
            refuse_collapse(self._log, belief, step, len(self._log))
        self._add(step)

    def note_beginning(self, episode: int) -> None:
        """What the episode showed before its first step was impossible."""
        if self._impossible == "raise":
            _refuse_beginning(self._log, episode)
        self._add(int(self._log.episode_starts[episode]))

    def _add(self, step: int) -> None:
        self._first = self._first if self._count else step
        self._count += 1

    def tell(self) -> None:
        if self._count:
            warnings.warn(
                f"observations of the log that are impossible under the model: {self._count}, the first at step "
                f"{self._first}; the belief went on from what each of them alone tells. impossible='raise' makes it an "
                "error",
                BeliefCollapseWarning,
                stacklevel=5,
            )


def _past_the_impossible(
    advance: Callable[[slice], int],
    begin: int,
    stop: int,
    reading: Reading,
    belief: Floats,
    collapses: _Collapses,
) -> None:
    """Take ``belief`` through the steps by ``advance``, which stops before one that is impossible; and beyond it."""
    while begin < stop:
        begin += advance(slice(begin, stop))
        if begin < stop:
            collapses.note(begin, belief)
            _after_the_impossible(reading, begin, belief)
            begin += 1


def _after_the_impossible(reading: Reading, step: int, belief: Floats) -> None:
    """What the step alone tells somebody who knew nothing; if it tells nothing, nothing is known."""
    after = reading.anything @ reading.updates[reading.actions[step], reading.events[step]]
    total = float(after @ reading.final)
    belief[:] = after / total if total > 0 else reading.anything


def _start(reading: Reading, log: Trajectory, episode: int, collapses: _Collapses | None = None) -> Floats:
    """The belief before an episode's first action; an impossible beginning is an error unless somebody counts them."""
    which = int(reading.beginnings[episode])
    belief: Floats = reading.anything.copy()
    if np.isfinite(reading.start_gains[which]):
        belief[:] = reading.starts[which]
    elif collapses is None:
        _refuse_beginning(log, episode)
    else:
        collapses.note_beginning(episode)
    return belief


def _refuse_beginning(log: Trajectory, episode: int) -> None:
    assert log.first_observations is not None
    name = log.first_observation_names[int(log.first_observations[episode])]
    raise BeliefCollapseError(
        f"episode {episode}: the first observation {name!r} is impossible under the model; the log comes from another "
        "system, or the model lacks data",
        step=int(log.episode_starts[episode]),
        observation=name,
    )


@own_errstate
def state_probabilities(reading: Reading, log: Trajectory, moment: Moment) -> Floats:
    """Distribution of a state at every step given its whole episode; of coordinates that are states."""
    from unlatch.kernels.filtering import forward_rows, smooth_rows

    reached = _is_reached(moment)
    actions, events, updates = reading.actions, reading.events, reading.updates
    rows = _rows(log, reading.rank)
    for episode, (start, end) in enumerate(_episodes(log)):
        belief = _start(reading, log, episode)
        chunks = list(_chunks(start, end, reading.rank**2))
        for begin, stop in chunks:
            part = slice(begin, stop)
            done = forward_rows(updates, belief, actions[part], events[part], reached, rows[part])
            refuse_collapse(log, belief, begin + done, stop)
            report("smoothing", start + stop, 2 * len(log))  # of two passes
        later = np.ones(reading.rank)
        for begin, stop in reversed(chunks):
            part = slice(begin, stop)
            if not smooth_rows(updates, later, actions[part], events[part], reached, rows[part]):
                raise NumericalError(
                    f"steps {begin} to {stop}: the probabilities of states lost all digits; the log is next to "
                    "impossible under the model"
                )
            report("smoothing", start + 2 * end - begin, 2 * len(log))
    return _handed_over(rows)


@own_errstate
def most_likely_path(reading: Reading, log: Trajectory, moment: Moment) -> Ints:
    """The likeliest path of states of every episode (Viterbi); of coordinates that are states."""
    from unlatch.kernels.filtering import trace_back, viterbi_steps

    reached = _is_reached(moment)
    kind = np.min_scalar_type(reading.rank - 1)
    longest = int((log.episode_ends - log.episode_starts).max(initial=0))
    needed = longest * reading.rank * kind.itemsize + 8 * len(log) + 8 * reading.updates.size
    require_memory(needed, f"the paths of {longest} steps", _SHORTER)
    came_from = np.empty((longest, reading.rank), dtype=kind)
    path = np.empty(len(log), dtype=np.int64)
    with np.errstate(divide="ignore"):  # log 0 is minus infinity, as it should be
        log_updates = np.log(reading.updates)
    for episode, (start, end) in enumerate(_episodes(log)):
        with np.errstate(divide="ignore"):
            scores = np.log(_start(reading, log, episode))
        for begin, stop in _chunks(start, end, reading.rank**2):
            possible = viterbi_steps(
                log_updates,
                scores,
                reading.actions[begin:stop],
                reading.events[begin:stop],
                came_from[begin - start : stop - start],
            )
            if not possible:
                _refuse_impossible(reading, log, episode, start, end)
            report("finding the path", stop, len(log))
        trace_back(came_from[: end - start], int(scores.argmax()), reached, path[start:end])
    path.setflags(write=False)
    return path


def _refuse_impossible(reading: Reading, log: Trajectory, episode: int, start: int, end: int) -> None:
    """Name the impossible step of an episode that has one."""
    from unlatch.kernels.filtering import filter_steps

    belief = _start(reading, log, episode)
    _, done = filter_steps(
        reading.updates, reading.final, belief, reading.actions[start:end], reading.events[start:end]
    )
    refuse_collapse(log, belief, start + done, end)


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


def _episodes(log: Trajectory) -> Iterator[tuple[int, int]]:
    """Beginning and end of every episode."""
    yield from zip(log.episode_starts.tolist(), log.episode_ends.tolist(), strict=True)


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
