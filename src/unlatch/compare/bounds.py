"""The Cramer-Rao bound: the errors that no unbiased learner can undercut."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlatch.arrays import Floats
from unlatch.core.pomdp import POMDP
from unlatch.core.random import RandomSource
from unlatch.learn.likelihood.coordinates import SquareRoots
from unlatch.learn.likelihood.information import information_matrix, row_variances
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import parameters_of
from unlatch.simulation import simulate

__all__ = ["ErrorBound", "cramer_rao_bound"]


class ErrorBound(NamedTuple):
    """Mean L1 errors of an efficient learner, times the square root of the number of steps."""

    observation_l1_all: float
    transition_l1: float


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
    """
    known_start = np.eye(pomdp.n_states)[int(np.argmax(pomdp.stationary(policy)))]
    truth = replace(pomdp, initial=known_start)  # a single start tells nothing that errors are measured on
    likelihood = Likelihood.of(simulate(truth, steps, policy=policy, rng=rng), truth.emission, truth)
    parameters = parameters_of(truth)
    roots = SquareRoots(parameters, likelihood.counts(parameters))
    variances = row_variances(roots, information_matrix(roots, likelihood))
    return ErrorBound(
        observation_l1_all=_mean_l1(variances.observations, steps),
        transition_l1=_mean_l1(variances.transitions, steps),
    )


def _mean_l1(variances: Floats, steps: int) -> float:
    return float(np.sqrt(2 / np.pi * steps * variances).sum(axis=-1).mean())
