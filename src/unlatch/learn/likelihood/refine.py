"""Maximum likelihood from a model that is already near it, with the zeros that the log supports."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from unlatch.core.diagnostics import Diagnostics
from unlatch.core.pomdp import POMDP
from unlatch.core.trajectory import Trajectory
from unlatch.errors import UsageError
from unlatch.learn.likelihood.climb import Ascent
from unlatch.learn.likelihood.parameters import encoded_log, parameters_of
from unlatch.learn.likelihood.zeros import maximize

__all__ = ["RefineResult", "refine"]


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
    evaluations : int
        Passes over the log.
    ascent : Ascent
        The climb that ended here, with expected counts.
    """

    pomdp: POMDP
    log_likelihood: float
    gained: float
    zeros: int
    converged: bool
    evaluations: int
    ascent: Ascent
    diagnostics: Diagnostics = field(default_factory=Diagnostics)

    def __repr__(self) -> str:
        return f"RefineResult({self.pomdp}, log-likelihood {self.log_likelihood:.6g}, converged={self.converged})"


def refine(
    pomdp: POMDP,
    log: Trajectory,
    *,
    evaluations: int = 400,
    zeros: bool = True,
    time_limit: float | None = None,
) -> RefineResult:
    """Climb to the maximum of the likelihood from ``pomdp``.

    Zeros of ``pomdp`` stay zeros as long as they allow the log. With ``zeros``, entries are set to zero where the
    likelihood hardly suffers: to stay, an entry must be worth a quarter of the logarithm of the number of steps.

    Parameters
    ----------
    pomdp : POMDP
    log : Trajectory
        How the actions were chosen does not matter to the likelihood.
    evaluations : int
        Most passes over the log for one climb.
    zeros : bool
    time_limit : float, optional
        Seconds after which the best model so far is returned, not converged.
    """
    if evaluations < 1:
        raise UsageError(f"evaluations must be at least 1, got {evaluations}")
    deadline = None if time_limit is None else time.monotonic() + time_limit
    steps = encoded_log(log, pomdp)
    before = pomdp.log_likelihood(log)
    ascent, removed = maximize(
        parameters_of(pomdp),
        steps,
        emission=pomdp.emission,
        evaluations=evaluations,
        zeros=zeros,
        deadline=deadline,
    )
    refined = replace(
        pomdp,
        transitions=ascent.parameters.transitions,
        observations=ascent.parameters.observations,
        initial=ascent.parameters.initial,
    )
    return RefineResult(
        pomdp=refined,
        log_likelihood=ascent.log_likelihood,
        gained=ascent.log_likelihood - before,
        zeros=removed,
        converged=ascent.converged,
        evaluations=ascent.evaluations,
        ascent=ascent,
        diagnostics=_notes(ascent),
    )


def _notes(ascent: Ascent) -> Diagnostics:
    if ascent.converged:
        return Diagnostics()
    return Diagnostics().noting(
        "not_converged",
        f"the likelihood was still rising after {ascent.evaluations} passes over the log (steepest direction "
        f"{ascent.gradient:.2g} nats per standard error)",
        evaluations=ascent.evaluations,
        gradient=ascent.gradient,
    )


# --- zeros -----------------------------------------------------------------------------------------------
