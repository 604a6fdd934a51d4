"""The Cramer-Rao bound: the errors that no unbiased learner can undercut."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlatch import linalg
from unlatch.arrays import Floats, own_errstate
from unlatch.core.pomdp import POMDP
from unlatch.core.random import RandomSource
from unlatch.core.trajectory import Trajectory
from unlatch.learn.likelihood.coordinates import SquareRoots
from unlatch.learn.likelihood.information import information_by_differences, row_variances
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import parameters_of
from unlatch.simulation import simulate

__all__ = ["ErrorBound", "cramer_rao_bound", "ending_errors"]


_TRANSITIONS = 1
"""Their place among the blocks of `Parameters`."""


class ErrorBound(NamedTuple):
    """Mean L1 errors of an efficient learner, times the square root of the number of steps.

    Examples
    --------
    >>> import unlatch
    >>> bound = unlatch.cramer_rao_bound(unlatch.domains.tiger(), steps=20_000)
    >>> round(bound.observation_l1_all / 1_000, 4)  # after a million steps
    0.0018
    """

    observation_l1_all: float
    transition_l1: float


@own_errstate
def cramer_rao_bound(
    pomdp: POMDP, *, steps: int = 300_000, policy: ArrayLike | None = None, rng: RandomSource = 0
) -> ErrorBound:
    """The least errors that a log can give, from the information of a simulated one at the true model.

    Zeros of the model count as known, which makes the bound slightly too low where they have to be found. An error
    is taken as normal: its mean size is sqrt(2/pi) standard deviations.

    Parameters
    ----------
    pomdp : POMDP
        The truth.
    steps : int
        Length of the log on which the information per step is measured; the result holds for any length.
    policy : array, shape (actions,), optional
        Of the exploration; uniform by default.
    rng : int or numpy.random.Generator, optional

    Examples
    --------
    >>> import unlatch
    >>> bound = unlatch.cramer_rao_bound(unlatch.domains.tiger(), steps=20_000)
    >>> round(bound.transition_l1 / 1_000, 4)  # after a million steps
    0.0013
    """
    truth = pomdp
    if not pomdp.terminal:  # a single start tells nothing that errors are measured on
        known_start = np.eye(pomdp.n_states)[int(np.argmax(pomdp.stationary(policy)))]
        truth = replace(pomdp, initial=known_start)
    likelihood = Likelihood.of(simulate(truth, steps, policy=policy, rng=rng), truth.emission, truth)
    parameters = parameters_of(truth)
    roots = SquareRoots(parameters, likelihood.counts(parameters))
    variances = row_variances(roots, information_by_differences(roots, likelihood))
    return ErrorBound(
        observation_l1_all=_mean_l1(variances.observations, steps),
        transition_l1=_mean_l1(variances.transitions, steps),
    )


def _mean_l1(variances: Floats, steps: int) -> float:
    return float(np.sqrt(2 / np.pi * steps * variances).sum(axis=-1).mean())


@own_errstate
def ending_errors(truth: POMDP, log: Trajectory) -> Floats:
    """The least standard errors of the probabilities that a step ends its episode, shape (actions, states).

    From the information of ``log`` at the true model, whose zeros count as known. Zero in terminal states.
    """
    likelihood = Likelihood.of(log, truth.emission, truth)
    parameters = parameters_of(truth)
    roots = SquareRoots(parameters, likelihood.counts(parameters))
    covariance = linalg.inverse(information_by_differences(roots, likelihood))
    errors = np.zeros(parameters.transitions.shape[:2])
    places = roots.places()
    for row in roots.rows():
        if places[row[0]][0] != _TRANSITIONS:
            continue
        a, s, _ = np.unravel_index(places[row[0]][1], parameters.transitions.shape)
        reached = np.array([places[i][1] for i in row]) % truth.n_states
        x = roots.start[row]
        ends, norm = parameters.terminal[reached], x @ x
        slope = 2 * x * ends / norm - 2 * x * (x[ends] @ x[ends]) / norm**2  # of sum x_end^2 / |x|^2
        errors[a, s] = np.sqrt(max(slope @ covariance[np.ix_(row, row)] @ slope, 0.0))
    errors[:, parameters.terminal] = 0.0
    return errors
