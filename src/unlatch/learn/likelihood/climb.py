"""Climb the likelihood: a quasi-Newton method in coordinates where it is easy.

Every row p of probabilities is written as x^2 / |x|^2, and x is scaled by the square root of the row's expected
visits. In these coordinates the information of the complete data is four times the identity, so that what a step has to
overcome is only what is hidden; a probability that wants to be zero is an ordinary smooth minimum at x = 0;
and no constraint is left. L-BFGS then needs tens of passes over the log where EM needs thousands.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from unlatch.arrays import Floats
from unlatch.core.budget import checkpoint, ending
from unlatch.core.progress import report
from unlatch.errors import NumericalError
from unlatch.learn.likelihood.coordinates import SquareRoots
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import ExpectedCounts, Parameters, maximization

__all__ = ["Ascent", "climb", "evaluated"]

_MEMORY = 20
_IMPOSSIBLE = 1e15
_WARM_STEPS = 3

_PACE = 10
"""Passes that the pace of a climb is taken from."""

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
    passes : int
        Passes over the log.
    gradient : float
        Largest component of the gradient in the scaled coordinates: nats per two standard errors of complete data.
    converged : bool
        Whether gradient or gain fell below its tolerance.
    pace : float
        Nats a pass that the last ten gained, on average.
    """

    parameters: Parameters
    counts: ExpectedCounts
    passes: int
    gradient: float
    converged: bool
    pace: float = 0.0

    @property
    def log_likelihood(self) -> float:
        return self.counts.log_likelihood

    @property
    def n_states(self) -> int:
        return self.parameters.n_states

    @property
    def n_going_on(self) -> int:
        """The number of states but for those in which nothing more happens, of which emissions need different numbers
        for the same system."""
        return int((~self.parameters.terminal).sum())

    @property
    def visits(self) -> Floats:
        """How often every state was left or emitted, whichever is more: where episodes begin a state may never be
        reached, and one in which nothing more happens is only reached."""
        left, reached = self.counts.transitions.sum(axis=(0, 2)), self.counts.transitions.sum(axis=(0, 1))
        emitted = self.counts.observations.sum(axis=(0, 2))
        result: Floats = np.where(self.parameters.terminal, reached, np.maximum(left, emitted))
        return result


def evaluated(parameters: Parameters, likelihood: Likelihood) -> Ascent:
    """A model as it is, without a step: one pass."""
    return Ascent(parameters, likelihood.counts(parameters), passes=1, gradient=np.inf, converged=False)


class _NoHope(Exception):
    """Raised inside the optimizer to leave it: the target is out of reach."""


def climb(
    start: Parameters,
    likelihood: Likelihood,
    *,
    passes: int = 300,
    gain_tolerance: float = 1e-4,
    gradient_tolerance: float = 1e-2,
    target: float | None = None,
    stage: str = "climbing",
) -> Ascent:
    """Maximize the likelihood from ``start``, of a dense model beside its prior; zeros stay zeros.

    Once a pass is done, the end of the budget or Ctrl-C ends the climb where it is. Then the budget says that it is
    stopped, and the next piece of work ends.

    Parameters
    ----------
    start : Parameters
    likelihood : Likelihood
    passes : int
        Most passes over the log.
    gain_tolerance : float
        Stop when an iteration gains fewer nats.
    gradient_tolerance : float
        Stop when no component of the gradient in the scaled coordinates is larger.
    target : float, optional
        Log-likelihood below which the result is of no use: the climb ends as soon as it cannot get there.
    stage : str
        What progress is reported as.
    """
    checkpoint()
    best = evaluated(start, likelihood)
    with ending():
        for _ in range(_WARM_STEPS - 1):  # EM steps: cheap, safe, and they tell the visits of every row
            best = evaluated(maximization(best.counts, best.parameters), likelihood)
        roots = SquareRoots(maximization(best.counts, best.parameters), best.counts)
        search = _Search(roots, likelihood, passes, target, stage, best)
        with ending():
            search.run(gain_tolerance, gradient_tolerance)
        best = search.ascent()
    return best  # noqa: RET504 - the block may end early


class _Search:
    """One run of L-BFGS that remembers the highest point it saw."""

    def __init__(
        self,
        roots: SquareRoots,
        likelihood: Likelihood,
        most: int,
        target: float | None,
        stage: str,
        before: Ascent,
    ) -> None:
        self._roots, self._likelihood = roots, likelihood
        self._most, self._target, self._stage = most, target, stage
        self._passes = 0
        self._heights: list[float] = []
        self._height = -np.inf
        self._converged = False
        self._best = before

    def ascent(self) -> Ascent:
        """The highest point."""
        best, recent = self._best, self._heights[-1 - _PACE :]
        return Ascent(
            best.parameters,
            best.counts,
            _WARM_STEPS + self._passes,
            best.gradient,
            self._converged,
            (recent[-1] - recent[0]) / max(len(recent) - 1, 1) if recent else 0.0,
        )

    def run(self, gain_tolerance: float, gradient_tolerance: float) -> None:
        from scipy.optimize import minimize

        at_start = self._negative(self._roots.start)
        options: dict[str, Any] = {
            "maxcor": _MEMORY,
            "maxfun": self._most,
            "maxiter": self._most,
            "ftol": gain_tolerance / max(abs(self._best.log_likelihood), 1.0),
            "gtol": gradient_tolerance,
        }

        def hopeful(coordinates: Floats) -> tuple[float, Floats]:
            if self._target is not None and not self._can_reach(self._target):
                raise _NoHope
            if np.array_equal(coordinates, self._roots.start):  # where the minimizer begins
                return at_start
            return self._negative(coordinates)

        with suppress(_NoHope):
            found = minimize(hopeful, self._roots.start, jac=True, method="L-BFGS-B", options=options)
            self._converged = bool(found.status == 0)

    def _can_reach(self, target: float) -> bool:
        if len(self._heights) <= _LOOK_BACK:
            return True
        pace = (self._heights[-1] - self._heights[-1 - _LOOK_BACK]) / _LOOK_BACK
        return self._heights[-1] + _HOPE * pace * (self._most - self._passes) >= target

    def _negative(self, coordinates: Floats) -> tuple[float, Floats]:
        """Height and slope, turned upside down for a minimizer."""
        self._passes += 1
        parameters = self._roots.parameters(coordinates)
        try:
            counts = self._likelihood.counts(parameters)
        except NumericalError:  # the line search stepped onto a zero, or next to one; it will step back
            return _IMPOSSIBLE, np.zeros_like(coordinates)
        slope = self._roots.gradient(coordinates, counts.climbed)
        height = counts.log_likelihood + parameters.log_prior
        if not self._heights or height > self._height:
            steepest = float(np.abs(slope).max())
            self._best = Ascent(parameters, counts, self._passes, steepest, converged=False)
            self._height = height
        self._heights.append(self._best.log_likelihood)
        report(self._stage, min(self._passes, self._most), self._most)
        return -height, -slope
