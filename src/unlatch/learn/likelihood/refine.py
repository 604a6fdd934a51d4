"""Maximum likelihood from a model that is already near it, with the zeros that the log supports."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from unlatch import linalg
from unlatch.arrays import own_errstate
from unlatch.core import html
from unlatch.core.arguments import checked_log, checked_seconds, whole_number
from unlatch.core.budget import Budget
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.pomdp import POMDP
from unlatch.core.trajectory import Trajectory
from unlatch.errors import NotLearnableError, UsageError
from unlatch.learn.likelihood.climb import Ascent, evaluated
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import ExpectedCounts, Parameters, parameters_of
from unlatch.learn.likelihood.starts import possible, smoothed
from unlatch.learn.likelihood.zeros import maximize, simplest

__all__ = ["RefineResult", "refine", "with_parameters"]


@dataclass(frozen=True, eq=False)
class RefineResult:
    """A model of maximal likelihood near the one that was given.

    Attributes
    ----------
    pomdp : POMDP
    log_likelihood : float
        Of the log, in nats.
    gained : float
        Nats above the model that was given; infinite if the log was impossible under it.
    zeros : int
        Entries that were set to zero because the log supports it.
    converged : bool
    passes : int
        Passes over the log of the last climb.
    counts : ExpectedCounts
        Of the log under ``pomdp``: how much data stands behind every row.
    complete : bool
        False if the time limit or Ctrl-C ended the work.

    Examples
    --------
    >>> import unlatch
    >>> tiger = unlatch.domains.tiger()
    >>> log = unlatch.simulate(tiger, 2_000, rng=0)
    >>> result = unlatch.refine(tiger, log)  # the maximum of the likelihood near the truth
    >>> result.pomdp, result.converged
    (POMDP(2 states, 3 actions, 6 observations, emission='departure'), True)
    """

    pomdp: POMDP
    log_likelihood: float
    gained: float
    zeros: int
    converged: bool
    passes: int
    counts: ExpectedCounts
    complete: bool = True
    diagnostics: Diagnostics = field(default_factory=Diagnostics)

    def __repr__(self) -> str:
        return f"RefineResult({self.pomdp}, log-likelihood {self.log_likelihood:.6g}, converged={self.converged})"

    def _repr_html_(self) -> str:
        """For notebooks: the model and what was noticed."""
        return html.page(repr(self), self.pomdp._repr_html_(), self.diagnostics._repr_html_())


@own_errstate
@linalg.on_one_thread
def refine(
    pomdp: POMDP,
    log: Trajectory,
    *,
    passes: int = 400,
    zeros: bool = True,
    time_limit: float | None = None,
) -> RefineResult:
    """Climb to the maximum of the likelihood from ``pomdp``.

    Zeros of ``pomdp`` stay zeros as long as they allow the log. With ``zeros``, entries are set to zero where there is
    more evidence for the model without them.

    Parameters
    ----------
    pomdp : POMDP
    log : Trajectory
        How the actions were chosen does not matter to the likelihood.
    passes : int
        Most passes over the log for one climb.
    zeros : bool
    time_limit : float, optional
        Seconds after which the best model so far is returned, not converged; so does Ctrl-C.

    Examples
    --------
    >>> import unlatch
    >>> tiger = unlatch.domains.tiger()
    >>> log = unlatch.simulate(tiger, 2_000, rng=0)
    >>> better = unlatch.refine(tiger, log)
    >>> better.gained > 0
    True
    """
    if not isinstance(pomdp, POMDP):
        raise UsageError(f"expected a POMDP to begin from, got {type(pomdp).__name__}")
    passes = whole_number("passes", passes, least=1)
    budget = Budget(checked_seconds("time_limit", time_limit))
    if len(checked_log(log)) == 0:
        raise NotLearnableError("the log has no steps; there is nothing to learn from")
    likelihood = Likelihood.of(log, pomdp.emission, pomdp)
    before = pomdp.log_likelihood(log)
    best, removed = evaluated(possible(parameters_of(pomdp), likelihood), likelihood), 0
    with budget.ending():
        whole = best = maximize(parameters_of(pomdp), likelihood, passes=passes)
        if zeros:
            best = simplest(whole, likelihood, passes=passes).ascent
            removed = _positive(whole) - _positive(best)
    return RefineResult(
        pomdp=with_parameters(pomdp, best.parameters),
        log_likelihood=best.log_likelihood,
        gained=best.log_likelihood - before,
        zeros=removed,
        converged=best.converged,
        passes=best.passes,
        counts=best.counts.reordered(np.arange(pomdp.n_states)),
        complete=not budget.stopped,
        diagnostics=convergence_notes(best),
    )


def _positive(ascent: Ascent) -> int:
    """Entries that are not zero."""
    return sum(int(np.count_nonzero(rows)) for rows in ascent.parameters)


def with_parameters(pomdp: POMDP, parameters: Parameters) -> POMDP:
    """The model with other numbers."""
    return replace(
        pomdp,
        transitions=parameters.transitions,
        observations=parameters.observations,
        initial=parameters.initial,
        first_observations=parameters.first,
        reward_probabilities=parameters.rewards,
    )


def made_possible(pomdp: POMDP, log: Trajectory, weight: float = 1e-3) -> POMDP:
    """The model with a little of everything in every row, so that no step of the log is impossible."""
    steps = Likelihood.of(log, pomdp.emission, pomdp).log
    return with_parameters(pomdp, smoothed(parameters_of(pomdp), steps, weight))


def convergence_notes(ascent: Ascent) -> Diagnostics:
    """That the likelihood was still rising, if it was."""
    if ascent.converged:
        return Diagnostics()
    slope = f" (steepest slope {ascent.gradient:.2g} nats per two standard errors)"
    return Diagnostics().noting(
        "not_converged",
        f"the likelihood was still rising after {ascent.passes} passes over the log"
        f"{slope * bool(np.isfinite(ascent.gradient))}; allow more time or passes",
        passes=ascent.passes,
        gradient=ascent.gradient if np.isfinite(ascent.gradient) else None,
    )
