"""A model at the end of its way: at its maximum, with the zeros and the shared rows that have more evidence."""

from __future__ import annotations

from dataclasses import replace

from unlatch.errors import NumericalError
from unlatch.learn.likelihood.climb import evaluated
from unlatch.learn.likelihood.marginal import Candidate, judged
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import Parameters
from unlatch.learn.likelihood.split_merge import with_shared_rows
from unlatch.learn.likelihood.starts import DENSE_STATES, possible, reopened
from unlatch.learn.likelihood.zeros import (
    EXPLAINED,
    NO_DIFFERENCE,
    maximize,
    simplest,
    with_established_zeros,
)

__all__ = ["finished"]


def finished(parameters: Parameters, sample: Likelihood) -> Candidate:
    """The maximum near a model, with its zeros if there is more evidence for these, and with shared rows if there is no
    less. The zeros of the search were set for speed: they are opened where they may be wrong, unless all is explained
    with them. With many states that does not open them all: then those are opened, as long as that pays, that the log
    had few opportunities against."""
    explained = _explains_all(parameters, sample)
    start = parameters if explained else reopened(parameters, sample)
    found = simplest(maximize(start, sample), sample)
    while found.n_states > DENSE_STATES and not (explained or start.dense):
        ajar, _ = with_established_zeros(found.ascent)
        other = simplest(maximize(ajar, sample), sample)
        paid = other.score > found.score + NO_DIFFERENCE
        found = max(found, other, key=lambda candidate: candidate.score)
        if not paid:
            break
    if start.dense:
        sparse = simplest(maximize(replace(start, dense=False), sample), sample)
        found = max(found, sparse, key=lambda candidate: candidate.score)
    shared = _with_shared_rows(found, sample)
    return found if shared is None or shared.score < found.score else shared


def _explains_all(parameters: Parameters, sample: Likelihood) -> bool:
    """Whether nothing is left to gain by other numbers."""
    try:
        return sample.counts(parameters).log_likelihood > -EXPLAINED
    except NumericalError:
        return False


def _with_shared_rows(found: Candidate, sample: Likelihood) -> Candidate | None:
    """The model in which what a state shows does not depend on the action, with its zeros; None if there is no hope.

    In most systems it does not, and rows that are learned from all actions at once are as much more accurate.
    """
    if len(found.parameters.observations) < 2 or found.parameters.shared:
        return None
    pooled = judged(evaluated(possible(with_shared_rows(found.ascent), sample), sample), sample)
    if pooled.score + _noise(found) < found.score:
        return None
    return simplest(maximize(reopened(pooled.parameters, sample), sample), sample)


def _noise(found: Candidate) -> float:
    """Nats that a climb may make up for at most where rows that are equal were averaged: what noise gains with as many
    numbers as there are, twice over."""
    return float(found.free)
