"""Maximum likelihood from a model that is already near it, with the zeros that the log supports."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from unlatch import linalg
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.pomdp import POMDP, Emission
from unlatch.core.progress import report
from unlatch.core.trajectory import Trajectory
from unlatch.errors import BeliefCollapseError, UsageError
from unlatch.learn.climb import Ascent, SquareRoots
from unlatch.learn.expectation import EncodedLog, Parameters, encoded_log, expected_counts, parameters_of
from unlatch.learn.information import information_matrix
from unlatch.learn.search import climb_or_open, opened

__all__ = ["RefineResult", "refine"]

_RARELY_USED = 3.0
"""Expected uses below which an entry is tried as a zero at once, without asking for its standard error."""

_MAX_INFORMATION = 150
"""Free entries up to which the information matrix is computed, at one pass over the log each."""

_NEGLIGIBLE = 1e-9


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
    penalized likelihood prefers it: an entry must be worth half the logarithm of the number of steps.

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


def maximize(
    start: Parameters,
    log: EncodedLog,
    *,
    emission: Emission = "departure",
    evaluations: int = 400,
    zeros: bool = True,
    deadline: float | None = None,
) -> tuple[Ascent, int]:
    """The maximum near ``start`` and the number of entries set to zero on the way."""

    def up(parameters: Parameters) -> Ascent:
        return climb_or_open(
            parameters,
            log,
            emission=emission,
            evaluations=evaluations,
            deadline=deadline,
            on_step=lambda done, _: report("refining", min(done, evaluations), evaluations),
        )

    ascent = up(opened(start, log))
    removed = 0
    if not zeros or ascent.interrupted:
        return ascent, removed
    try:
        for propose in (_rarely_used, _insignificant):
            while deadline is None or time.monotonic() < deadline:
                candidates = propose(ascent, log, emission)
                simpler, count = _without(ascent, candidates, log, emission, up)
                if count == 0:
                    break
                ascent, removed = simpler, removed + count
    except KeyboardInterrupt:
        ascent = replace(ascent, converged=False, interrupted=True)
    return ascent, removed


# --- zeros -----------------------------------------------------------------------------------------------


def _rarely_used(ascent: Ascent, log: EncodedLog, emission: Emission) -> list[tuple[int, int]]:
    """Entries (flat index of the positive ones, by array) with the fewest expected uses, rarest first."""
    found = []
    expected = (ascent.counts.initial, ascent.counts.transitions, ascent.counts.observations)
    for which, (rows, uses) in enumerate(zip(ascent.parameters, expected, strict=True)):
        if which == 0:
            continue  # a single episode says next to nothing about where episodes begin
        visited = uses.sum(axis=-1, keepdims=True) > 2 * _RARELY_USED
        rare = (rows > 0) & (rows < 0.5) & (uses < _RARELY_USED) & visited
        found += [(float(uses.flat[i]), which, int(i)) for i in np.flatnonzero(rare)]
    return [(which, index) for _, which, index in sorted(found)]


def _insignificant(ascent: Ascent, log: EncodedLog, emission: Emission) -> list[tuple[int, int]]:
    """Entries whose removal should cost less than they are penalized for, by the information matrix.

    In square-root coordinates an entry x with standard error e costs about (x / e)^2 / 2 nats to remove.
    """
    roots = SquareRoots(ascent.parameters, ascent.counts)
    size = len(roots.start)
    if size > _MAX_INFORMATION:
        return []
    information = information_matrix(
        roots, log, emission, on_step=lambda done, of: report("judging zeros", done, of)
    )
    covariance = linalg.inverse(information)
    penalty = 0.5 * np.log(len(log))
    worth = 0.5 * roots.start**2 / np.maximum(np.diag(covariance), 1e-300)
    places = roots.places()
    order = np.argsort(worth)
    chosen: list[int] = []
    for i in order:
        which, index = places[i]
        if worth[i] > penalty or which == 0 or ascent.parameters[which].flat[index] > 0.5:
            continue
        together = [*chosen, int(i)]
        block = covariance[np.ix_(together, together)]
        loss = 0.5 * roots.start[together] @ linalg.inverse(block) @ roots.start[together]
        if loss <= penalty * len(together):
            chosen = together
    return [places[i] for i in chosen]


def _without(
    ascent: Ascent,
    candidates: list[tuple[int, int]],
    log: EncodedLog,
    emission: Emission,
    up: Callable[[Parameters], Ascent],
) -> tuple[Ascent, int]:
    """Remove as many candidates as pay, the first ones first; halve the number until it does."""
    penalty = 0.5 * np.log(len(log))
    count = len(candidates)
    while count > 0:
        simpler = _zeroed(ascent.parameters, candidates[:count])
        if simpler is not None:
            try:
                expected_counts(simpler, log, emission=emission)
                climbed = up(simpler)
                if climbed.interrupted:
                    raise KeyboardInterrupt
            except BeliefCollapseError:
                climbed = None
            if climbed is not None and ascent.log_likelihood - climbed.log_likelihood < penalty * count:
                return climbed, count
        count //= 2
    return ascent, 0


def _zeroed(parameters: Parameters, entries: list[tuple[int, int]]) -> Parameters | None:
    """The model with these entries zero, rows renormalized; None if a row would be empty."""
    arrays = [rows.copy() for rows in parameters]
    for which, index in entries:
        arrays[which].flat[index] = 0.0
    sums = [rows.sum(axis=-1, keepdims=True) for rows in arrays]
    if any((total <= _NEGLIGIBLE).any() for total in sums):
        return None
    return Parameters(*(rows / total for rows, total in zip(arrays, sums, strict=True)))
