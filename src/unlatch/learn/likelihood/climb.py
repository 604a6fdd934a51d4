"""Climb the likelihood: a quasi-Newton method in coordinates where it is easy.

Every row p of probabilities is written as x^2 / |x|^2, and x is scaled by the square root of the row's expected
visits. In these coordinates the information of the complete data is the identity, so that what a step has to
overcome is only what is hidden; a probability that wants to be zero is an ordinary smooth minimum at x = 0;
and no constraint is left. L-BFGS then needs tens of passes over the log where EM needs thousands.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from unlatch.arrays import Floats
from unlatch.core.pomdp import Emission
from unlatch.errors import BeliefCollapseError
from unlatch.learn.likelihood.coordinates import SquareRoots
from unlatch.learn.likelihood.forward_backward import expected_counts
from unlatch.learn.likelihood.parameters import EncodedLog, ExpectedCounts, Parameters, maximization

__all__ = ["Ascent", "climb"]

_MEMORY = 20
_IMPOSSIBLE = 1e15
_WARM_STEPS = 3

_LOOK_BACK = 4
_HOPE = 2.0
"""A target is out of reach if twice the last gains, kept up for all passes that are left, would not reach it."""


@dataclass(frozen=True, eq=False)
class Ascent:
    """Where a climb ended.

    Attributes
    ----------
    parameters : Parameters
    counts : ExpectedCounts
        Of the log under ``parameters``; its ``log_likelihood`` is the height reached.
    evaluations : int
        Passes over the log.
    gradient : float
        Largest component of the gradient in the scaled coordinates, in nats per standard error.
    converged : bool
        Whether gradient or gain fell below its tolerance.
    interrupted : bool
        Whether it was Ctrl-C that ended the climb.
    """

    parameters: Parameters
    counts: ExpectedCounts
    evaluations: int
    gradient: float
    converged: bool
    interrupted: bool = False

    @property
    def log_likelihood(self) -> float:
        return self.counts.log_likelihood

    @property
    def n_states(self) -> int:
        return len(self.parameters.initial)


class _Stop(Exception):
    """Raised inside the optimizer to leave it: out of time, or without hope."""


def climb(
    start: Parameters,
    log: EncodedLog,
    *,
    emission: Emission = "departure",
    evaluations: int = 300,
    gain_tolerance: float = 1e-4,
    gradient_tolerance: float = 1e-2,
    target: float | None = None,
    deadline: float | None = None,
    on_step: Callable[[int, float], None] | None = None,
) -> Ascent:
    """Maximize the likelihood from ``start``; zeros stay zeros. Ctrl-C ends it where it is.

    Parameters
    ----------
    start : Parameters
    log : EncodedLog
    evaluations : int
        Most passes over the log.
    gain_tolerance : float
        Stop when an iteration gains fewer nats.
    gradient_tolerance : float
        Stop when no coordinate promises more than this many nats per standard error.
    target : float, optional
        Log-likelihood below which the result is of no use: the climb ends as soon as it cannot get there.
    deadline : float, optional
        Value of ``time.monotonic()`` after which the best so far is returned.
    on_step : callable, optional
        Told the number of passes and the log-likelihood after each.
    """
    parameters = start
    for _ in range(_WARM_STEPS):  # EM steps: cheap, safe, and they tell the visits of every row
        counts = expected_counts(parameters, log, emission=emission)
        parameters = maximization(counts, parameters)
    roots = SquareRoots(parameters, counts)
    search = _Search(roots, log, emission, evaluations, target, deadline, on_step)
    converged = search.run(gain_tolerance, gradient_tolerance)
    return Ascent(
        parameters=search.best_parameters,
        counts=search.best_counts,
        evaluations=_WARM_STEPS + search.evaluations,
        gradient=search.best_gradient,
        converged=converged,
        interrupted=search.interrupted,
    )


class _Search:
    """One run of L-BFGS that remembers the highest point it saw."""

    def __init__(
        self,
        roots: SquareRoots,
        log: EncodedLog,
        emission: Emission,
        most: int,
        target: float | None,
        deadline: float | None,
        on_step: Callable[[int, float], None] | None,
    ) -> None:
        self._roots, self._log, self._emission = roots, log, emission
        self._most, self._target, self._deadline, self._on_step = most, target, deadline, on_step
        self.evaluations = 0
        self._heights: list[float] = []
        self.interrupted = False
        self.best_parameters: Parameters
        self.best_counts: ExpectedCounts
        self.best_gradient: float
        self._evaluate(roots.start)

    def run(self, gain_tolerance: float, gradient_tolerance: float) -> bool:
        from scipy.optimize import minimize

        height = max(abs(self.best_counts.log_likelihood), 1.0)
        options: dict[str, Any] = {
            "maxcor": _MEMORY,
            "maxfun": self._most,
            "maxiter": self._most,
            "ftol": gain_tolerance / height,
            "gtol": gradient_tolerance,
        }
        try:
            found = minimize(self._negative, self._roots.start, jac=True, method="L-BFGS-B", options=options)
        except _Stop:
            return False
        except KeyboardInterrupt:  # what was reached so far is worth keeping; the caller is told
            self.interrupted = True
            return False
        return bool(found.status == 0)

    def _negative(self, coordinates: Floats) -> tuple[float, Floats]:
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise _Stop
        if self._target is not None and not self._can_reach(self._target):
            raise _Stop
        return self._evaluate(coordinates)

    def _can_reach(self, target: float) -> bool:
        if len(self._heights) <= _LOOK_BACK:
            return True
        pace = (self._heights[-1] - self._heights[-1 - _LOOK_BACK]) / _LOOK_BACK
        return self._heights[-1] + _HOPE * pace * (self._most - self.evaluations) >= target

    def _evaluate(self, coordinates: Floats) -> tuple[float, Floats]:
        self.evaluations += 1
        parameters = self._roots.parameters(coordinates)
        try:
            counts = expected_counts(parameters, self._log, emission=self._emission)
        except BeliefCollapseError:  # the line search stepped onto a zero; it will step back
            return _IMPOSSIBLE, np.zeros_like(coordinates)
        slope = self._roots.gradient(coordinates, counts)
        if self.evaluations == 1 or counts.log_likelihood > self.best_counts.log_likelihood:
            self.best_parameters, self.best_counts = parameters, counts
            self.best_gradient = float(np.abs(slope).max())
        self._heights.append(self.best_counts.log_likelihood)
        if self._on_step is not None:
            self._on_step(self.evaluations, counts.log_likelihood)
        return -counts.log_likelihood, -slope
