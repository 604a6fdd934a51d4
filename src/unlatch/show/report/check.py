"""Whether a model predicts a log: how often something was seen, beside how often the model expected it.

At every step the model has a probability for every observation, given all that came before. Summed over the steps with
the same few pairs before them, these are the expected counts; the difference to what was seen is a sum of martingale
differences whose variance is the sum of p (1 - p), so that its standard error is known without any assumption about the
log.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from unlatch.arrays import Floats, Ints, own_errstate
from unlatch.core.pomdp import POMDP
from unlatch.core.trajectory import Trajectory
from unlatch.errors import BeliefCollapseWarning
from unlatch.show.beliefs import as_read

__all__ = ["Check", "Window", "check_predictions"]

LONGEST = 3
"""Pairs of action and observation of the longest windows."""

MOST_STEPS = 200_000
_LEAST = 5.0
"""Expected occurrences, of the observation and of all others, from which a normal approximation is fair."""

_LEVEL = 0.05


class Window(NamedTuple):
    """A few pairs, the last one of which was predicted: how often it was seen after the rest, and expected."""

    pairs: tuple[tuple[str, str], ...]
    steps: int
    seen: int
    expected: float
    deviation: float

    @property
    def error(self) -> float:
        """Standard errors between what was seen and what was expected."""
        return (self.seen - self.expected) / self.deviation


@dataclass(frozen=True, eq=False)
class Check:
    """All windows that occur often enough, those that deviate most first.

    ``limit`` is what the largest deviation should stay below, 95 times in 100, if the model is right, by a union over
    all windows; ``impossible`` counts the steps that the model had ruled out.
    """

    windows: tuple[Window, ...]
    steps: int
    log_likelihood: float
    limit: float
    impossible: int

    @property
    def beyond(self) -> int:
        """How many windows deviate more than they should."""
        return sum(abs(window.error) > self.limit for window in self.windows)


@own_errstate
def check_predictions(pomdp: POMDP, log: Trajectory) -> Check:
    """Compare what a model expects of a log with what is there, over windows of one to three pairs."""
    read = as_read(pomdp, log).head(MOST_STEPS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BeliefCollapseWarning)
        predicted = pomdp.predictions(read)
    actions, observations = pomdp.encode(read)
    given = predicted[np.arange(len(read)), observations]
    windows = [
        window
        for length in range(1, LONGEST + 1)
        for window in _windows(pomdp, read, actions, observations, predicted, length)
    ]
    windows.sort(key=lambda window: -abs(window.error))
    with np.errstate(divide="ignore"):
        total = float(np.log(given).sum())
    limit = float(-ndtri(_LEVEL / (2 * max(1, len(windows)))))
    return Check(tuple(windows), len(read), total, limit, int((given <= 0).sum()))


def _windows(
    pomdp: POMDP, log: Trajectory, actions: Ints, observations: Ints, predicted: Floats, length: int
) -> list[Window]:
    """Windows of one length, by what came before the last observation."""
    steps = _with_past(log, length)
    if not len(steps):
        return []
    past = [column[steps - back] for back in range(length - 1, 0, -1) for column in (actions, observations)]
    contexts, which = _contexts([*past, actions[steps]], max(pomdp.n_actions, pomdp.n_observations))
    order = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[order], np.arange(len(contexts)))
    rows = predicted[steps][order]
    expected = np.add.reduceat(rows, starts, axis=0)
    variance = np.add.reduceat(rows * (1 - rows), starts, axis=0)
    seen = np.zeros_like(expected)
    np.add.at(seen, (which, observations[steps]), 1.0)
    sizes = np.bincount(which, minlength=len(contexts))
    enough = (expected >= _LEAST) & (sizes[:, None] - expected >= _LEAST) & (variance >= 1.0)
    return [
        Window(
            _named(pomdp, contexts[c].tolist(), int(o)),
            int(sizes[c]),
            int(seen[c, o]),
            float(expected[c, o]),
            float(np.sqrt(variance[c, o])),
        )
        for c, o in np.argwhere(enough)
    ]


def _contexts(columns: Sequence[Ints], base: int) -> tuple[Ints, Ints]:
    """The different rows of several columns, and which of them every row is."""
    which = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:  # numbered anew after every column, so that no number grows beyond 64 bits
        _, first, which = np.unique(which * base + column, return_index=True, return_inverse=True)
    return np.column_stack([column[first] for column in columns]), which


def _with_past(log: Trajectory, length: int) -> Ints:
    """Steps with so many pairs in their own episode, themselves included."""
    steps = np.arange(len(log))
    begun = log.episode_starts[np.searchsorted(log.episode_starts, steps, side="right") - 1]
    result: Ints = steps[steps - begun >= length - 1]
    return result


def _named(pomdp: POMDP, context: list[int], symbol: int) -> tuple[tuple[str, str], ...]:
    codes = [*context, symbol]
    return tuple(
        (pomdp.action_names[action], pomdp.observation_names[observation])
        for action, observation in zip(codes[::2], codes[1::2], strict=True)
    )
