"""Whether the actions of a log were chosen blindly: regardless of what had been observed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlatch.arrays import Floats, Ints
from unlatch.core.trajectory import Trajectory
from unlatch.learn.examine.chi_square import ChiSquare, chi_square
from unlatch.learn.examine.log_samples import Stretch, counted, pooling, renumbered, stretches

__all__ = ["Dependence", "dependence_on_observations"]

_PARTS = 64
_PART_LENGTH = 1 << 12
"""A quarter of a million steps, spread over the log, show an effect that is large enough to matter beyond doubt."""

_LAGS = 3
"""How far back the observation may lie that the action is tested against."""

_DEEPEST = 16
_STEPS_PER_STRATUM = 8
"""Past actions that are held fixed: at most so many, and no more than leave every sequence this often on average."""

_APART = 16
"""Steps between an action and the later one that it is compared with; fewer in short episodes."""

_CONFIRMED = 1e-3
"""The later actions, of which there are fewer, must agree at this level."""

_CLASSES = 8
"""Actions, and observations, that are told apart; the rarer ones are pooled."""

_AT_ONCE = 1 << 13
"""Strata whose covariances are held in memory at a time."""


class Dependence(NamedTuple):
    """How actions depend on the observation ``lag`` steps before.

    Attributes
    ----------
    p_value : float
        Given the past actions; counts all lags that were tried.
    effect : float
        Cramér's V, less what chance alone would give.
    confirmed : bool
        Whether actions some steps later do not show the same dependence.
    lag : int
    steps : int
        How many were compared.
    """

    p_value: float
    effect: float
    confirmed: bool
    lag: int
    steps: int


def dependence_on_observations(log: Trajectory) -> Dependence:
    """Test whether actions depend on the observations before them.

    A blind policy may well follow its own past (sequences, sticky actions) or change its habits over time, and what
    was observed follows from the same actions. So action and observation are compared among steps with the same
    past actions, which leaves nothing to a policy with a short memory; and to be confirmed, a dependence must
    vanish for actions a little later, which leaves nothing to habits that last longer.
    """
    steps = _joined(stretches(log, _PARTS, _PART_LENGTH))
    strata, twins = _strata(steps), _twins(steps)
    found = [
        _given_past(steps, strata, lag)._replace(confirmed=_against_later(steps, twins, lag) < _CONFIRMED)
        for lag in range(1, _LAGS + 1)
    ]
    return min(found, key=lambda result: (not result.confirmed, result.p_value, -result.effect))


def _joined(parts: list[Stretch]) -> Stretch:
    """One stretch of all; actions and observations without the codes that never occur."""
    actions, observations, begins = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Stretch(renumbered(actions), renumbered(observations), begins)


def _since_begin(steps: Stretch) -> Ints:
    """How many steps of its episode precede every step."""
    places = np.arange(len(steps.begins))
    return places - np.maximum.accumulate(np.where(steps.begins, places, 0))


def _pooled(codes: Ints) -> Ints:
    return pooling(counted([codes], int(codes.max(initial=0)) + 1), _CLASSES)[codes]


# --- among steps with the same past actions -------------------------------------------------------------


def _strata(steps: Stretch) -> Ints:
    """A number for the actions before every step, as many as the length of the log allows.

    Where the episode began within these, they are fewer, and a stratum of their own.
    """
    age, nothing = _since_begin(steps), int(steps.actions.max()) + 1
    strata = np.zeros(len(age), dtype=np.int64)
    for back in range(1, min(_DEEPEST, len(age) - 1) + 1):
        before = np.full(len(age), nothing)
        before[back:] = steps.actions[:-back]
        before[age < back] = nothing
        finer = renumbered(strata * (nothing + 1) + before)
        if back > 1 and finer.max() >= len(age) // _STEPS_PER_STRATUM:
            break
        strata = finer
    return strata


def _given_past(steps: Stretch, strata: Ints, lag: int) -> Dependence:
    """Actions against the observations ``lag`` steps before, inside the strata.

    Deviations are summed over the strata that share the last action before they are squared (the generalized test
    of Cochran, Mantel and Haenszel), so that strata may be small and many without a loss of power.
    """
    later = np.flatnonzero(_since_begin(steps) >= lag)
    actions, observations = _pooled(steps.actions[later]), _pooled(steps.observations[later - lag])
    last = _pooled(steps.actions[later - 1])
    test = ChiSquare()
    for action in range(int(last.max(initial=-1)) + 1):
        inside = last == action
        test = test.plus(_within(actions[inside], observations[inside], strata[later[inside]]))
    smaller = min(int(actions.max(initial=0)), int(observations.max(initial=0)))
    effect = float(np.sqrt(test.excess / (len(later) * smaller))) if test.degrees else 0.0
    return Dependence(min(test.p_value * _LAGS, 1.0), effect, False, lag, len(later))


def _within(actions: Ints, observations: Ints, strata: Ints) -> ChiSquare:
    """Joint counts against those that independence inside every stratum would give, summed over strata."""
    strata = renumbered(strata)
    rows, columns, n = (int(codes.max()) + 1 for codes in (observations, actions, strata))
    joint = np.bincount(observations * columns + actions, minlength=rows * columns)
    shown = np.bincount(strata * rows + observations, minlength=n * rows).reshape(n, rows)
    done = np.bincount(strata * columns + actions, minlength=n * columns).reshape(n, columns)
    several = shown.sum(axis=1) > 1  # a step that is alone in its stratum says nothing: its deviation is zero
    expected = (shown.T / shown.sum(axis=1)) @ done
    covariance = _covariance(shown[several], done[several])
    return chi_square((joint.reshape(rows, columns) - expected).ravel(), covariance)


def _covariance(shown: Ints, done: Ints) -> Floats:
    """Of the joint counts, given both margins in every stratum (multivariate hypergeometric)."""
    rows, columns = shown.shape[1], done.shape[1]
    total = np.zeros((rows * rows, columns * columns))
    for start in range(0, len(shown), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        size = shown[part].sum(axis=1)[:, None, None]
        left = _spread(shown[part] / size[:, :, 0]) * size**2 / (size - 1)
        right = _spread(done[part] / size[:, :, 0])
        total += left.reshape(len(left), -1).T @ right.reshape(len(right), -1)
    return total.reshape(rows, rows, columns, columns).transpose(0, 2, 1, 3).reshape(rows * columns, -1)


def _spread(probabilities: Floats) -> Floats:
    """Covariance of one draw from every row, shape (rows, n, n)."""
    result: Floats = -probabilities[:, :, None] * probabilities[:, None, :]
    diagonal = np.arange(probabilities.shape[1])
    result[:, diagonal, diagonal] += probabilities
    return result


# --- against later actions ------------------------------------------------------------------------------


def _twins(steps: Stretch) -> tuple[Ints, Ints]:
    """Pairs of steps of an episode, some way apart, with the same last action; every step in at most one pair.

    An episode is cut into blocks; the first step with a given last action in one block is paired with the first in
    the next, the second with the second. Which steps are paired does not depend on their own actions.
    """
    age = _since_begin(steps)
    apart = int(np.clip(len(age) // steps.begins.sum() // 4, 2, _APART))
    places = np.flatnonzero(age > 0)
    n_actions = int(steps.actions.max()) + 1
    blocks = (places - age[places]) + age[places] // apart * apart
    second = age[places] // apart % 2 == 1
    keys = blocks * n_actions + steps.actions[places - 1]
    order = np.argsort(keys, kind="stable")
    index = np.arange(len(keys))
    fresh = np.append(True, np.diff(keys[order]) > 0)[: len(keys)]
    rank = np.empty(len(keys), dtype=np.int64)
    rank[order] = index - np.maximum.accumulate(np.where(fresh, index, 0))
    slots = (keys - np.where(second, apart * n_actions, 0)) * apart + rank
    _, firsts, seconds = np.intersect1d(
        slots[~second], slots[second], assume_unique=True, return_indices=True
    )
    return places[~second][firsts], places[second][seconds]


def _against_later(steps: Stretch, twins: tuple[Ints, Ints], lag: int) -> float:
    """The p-value for actions after an observation being distributed as those some steps later.

    For every observation the test of Stuart and Maxwell for equal margins of paired draws. Zero
    if there are no pairs: in episodes that short, the past actions are the whole story.
    """
    if not len(twins[0]):
        return 0.0
    known = _since_begin(steps)[twins[0]] >= lag
    first, second = twins[0][known], twins[1][known]
    pooled, observations = _pooled(steps.actions), _pooled(steps.observations[first - lag])
    n, size = int(pooled.max()) + 1, int(observations.max(initial=-1)) + 1
    joint = np.bincount((observations * n + pooled[first]) * n + pooled[second], minlength=size * n * n)
    test = ChiSquare()
    for table in joint.reshape(size, n, n).astype(np.float64):
        before, after = table.sum(axis=1), table.sum(axis=0)
        test = test.plus(chi_square(before - after, np.diag(before + after) - table - table.T))
    return test.p_value
