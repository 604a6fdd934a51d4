"""From a first model to the best one: search for the number of states, then maximum likelihood on all data."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unlatch.arrays import Floats
from unlatch.core.budget import Budget, checkpoint
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.evidence import Evidence
from unlatch.core.pomdp import POMDP, Emission
from unlatch.core.trajectory import Trajectory
from unlatch.learn.likelihood.climb import Ascent, evaluated
from unlatch.learn.likelihood.evidence import SETTLED, weigh
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import ExpectedCounts, Parameters, parameters_of
from unlatch.learn.likelihood.refine import convergence_notes, made_possible
from unlatch.learn.likelihood.search import StateSearch, search_states
from unlatch.learn.likelihood.starts import climb_or_open, opened, random_parameters, smoothed
from unlatch.learn.likelihood.zeros import maximize
from unlatch.learn.state_order import canonical_order

__all__ = ["MOST_STATES", "Selection", "select_states"]

MOST_STATES = 40
"""States at which a search ends unless the caller names another limit: beyond, a pass over the log takes long."""

_FIRST_SAMPLE = 300_000
"""Steps on which zeros are judged; a longer log then only sharpens the numbers."""

_RANDOM_STARTS = 8

_FOR_THE_SEARCH = 2 / 3
_FOR_THE_CLIMB = 0.8
"""Shares of the time: of all that there is, and of what is then left. The rest is for what comes after."""


@dataclass(frozen=True, eq=False)
class Selection:
    """The best model of a log and why it has as many states as it has.

    Attributes
    ----------
    pomdp : POMDP
        States in canonical order.
    counts : ExpectedCounts
        How much data stands behind every row of ``pomdp``.
    log_likelihood : float
        Of the log under ``pomdp``; finite.
    evidence : Evidence
    search : StateSearch
    zeros : int
        Entries that were set to zero because the log supports it.
    complete : bool
        False if the budget ended before search and climb did.
    """

    pomdp: POMDP
    counts: ExpectedCounts
    log_likelihood: float
    evidence: Evidence
    search: StateSearch
    zeros: int
    complete: bool
    diagnostics: Diagnostics


def select_states(
    log: Trajectory,
    *,
    start: POMDP | None,
    states: int | None = None,
    max_states: int | None = None,
    emission: Emission = "departure",
    budget: Budget,
    rng: np.random.Generator,
) -> Selection:
    """Search from ``start`` (the spectral model) and from scratch; then climb on the whole log.

    With ``states`` the count is fixed. At the end of the budget, or on Ctrl-C, the best model so far comes back, with
    a note.
    """
    starts = [] if start is None else [parameters_of(start)]
    limit = states or max_states or MOST_STATES
    search = search_states(
        log,
        starts=starts,
        emission=emission,
        max_states=limit,
        budget=budget.share(_FOR_THE_SEARCH),
        rng=rng,
    )
    chosen = search.best
    if states is not None:
        chosen = _with_states(search, log, states, starts, emission, budget, rng)
    best, zeros, finished = replace(chosen, converged=False), 0, False
    with budget.share(_FOR_THE_CLIMB).ending():
        best, zeros = _on_all_data(chosen.parameters, log, emission)
        checkpoint()
        finished = True
    pomdp, counts, log_likelihood, notes = budget.insist(lambda: _returned(best, log, emission))
    evidence = _evidence(search, chosen, fixed=states is not None)
    return Selection(
        pomdp=pomdp,
        counts=counts,
        log_likelihood=log_likelihood,
        evidence=evidence,
        search=search,
        zeros=zeros,
        complete=search.complete and finished,
        diagnostics=_notes(evidence, best, limit if states is None else None) + notes,
    )


def _with_states(
    search: StateSearch,
    log: Trajectory,
    states: int,
    starts: list[Parameters],
    emission: Emission,
    budget: Budget,
    rng: np.random.Generator,
) -> Ascent:
    """The best model with a given number of states: from the search, the given starts, or random ones."""
    likelihood = Likelihood.of(log.head(search.steps), emission)
    given = [opened(start, likelihood.log) for start in starts if len(start.initial) == states]
    if states in search.models:
        candidates = [search.models[states]]
    else:
        given += [random_parameters(likelihood.log, states, rng) for _ in range(_RANDOM_STARTS)]
        candidates = [evaluated(smoothed(given[0], likelihood.log), likelihood)]  # whatever the budget
    with budget.share(_FOR_THE_CLIMB / 2).ending():
        for start in given:
            candidates.append(climb_or_open(start, likelihood, passes=150))
    return max(candidates, key=lambda ascent: ascent.log_likelihood)


def _on_all_data(parameters: Parameters, log: Trajectory, emission: Emission) -> tuple[Ascent, int]:
    """Zeros and a first climb on part of a long log, then the whole.

    The zeros of the search are opened again: they were set for speed, these for good.
    """
    sample = Likelihood.of(log.head(_FIRST_SAMPLE), emission)
    best, zeros = maximize(smoothed(parameters, sample.log), sample)
    if len(log) > _FIRST_SAMPLE:
        best, _ = maximize(best.parameters, Likelihood.of(log, emission), zeros=False)
    return best, zeros


def _evidence(search: StateSearch, chosen: Ascent, *, fixed: bool) -> Evidence:
    scores = dict(search.scores)
    if (
        chosen.n_states not in scores
    ):  # a count that was asked for, found apart from the search or never visited
        scores[chosen.n_states] = search.score(chosen)
    return weigh(chosen.n_states, scores, search.steps, search.complete, fixed=fixed)


# --- the model that is returned ------------------------------------------------------------------------


def _returned(
    best: Ascent, log: Trajectory, emission: Emission
) -> tuple[POMDP, ExpectedCounts, float, Diagnostics]:
    """The model with states in canonical order, its counts, and the likelihood that it gives to the log."""
    learned = POMDP(
        transitions=best.parameters.transitions,
        observations=best.parameters.observations,
        initial=best.parameters.initial,
        emission=emission,
        action_names=log.action_names,
        observation_names=log.observation_names,
        symbol_rewards=log.symbol_rewards,
    )
    settled = replace(learned, initial=_settled(learned, best.counts, log))
    order = canonical_order(settled.to_psr())
    if log.n_episodes == 1:
        share = replace(learned, initial=_time_share(best.counts, emission))
        chosen, height = _with_a_start(settled, share, log)
    else:
        chosen, height = learned, learned.log_likelihood(log)
    notes = Diagnostics()
    if not np.isfinite(height):  # learned from a part of the log, the rest of which it has not seen
        chosen = made_possible(chosen, log)
        height = chosen.log_likelihood(log)
        notes = notes.noting(
            "opened_zeros",
            "there was no time to fit the whole log, parts of which were impossible: every probability was mixed with "
            "a little of everything. Allow more time",
        )
    numbered = replace(chosen.reordered(order), state_names=learned.state_names)
    return numbered, replace(best.counts.reordered(order), log_likelihood=height), height, notes


def _with_a_start(settled: POMDP, share: POMDP, log: Trajectory) -> tuple[POMDP, float]:
    """One long episode tells nothing about where episodes begin: so as if the process had settled before.

    Unless the log left states for good, and would be all but impossible then: that costs more than to name the state
    that it began in among all its steps. Then the share of time that it spent in each state.
    """
    beginning = log.head(_FIRST_SAMPLE)
    costs = share.log_likelihood(beginning) - settled.log_likelihood(beginning)
    chosen = share if costs > np.log(len(log)) else settled
    return chosen, chosen.log_likelihood(log)


def _settled(pomdp: POMDP, counts: ExpectedCounts, log: Trajectory) -> Floats:
    """Where the process is in the long run, as it was explored; by the visits if actions reacted to observations."""
    if log.probabilities is None:
        return pomdp.stationary(np.bincount(log.actions, minlength=pomdp.n_actions) / len(log))
    return _time_share(counts, pomdp.emission)


def _time_share(counts: ExpectedCounts, emission: Emission) -> Floats:
    """The share of steps that left every state."""
    left = counts.observations if emission == "departure" else counts.transitions
    visits = left.sum(axis=(0, 2))
    result: Floats = visits / visits.sum()
    return result


def _notes(evidence: Evidence, best: Ascent, limit: int | None) -> Diagnostics:
    notes = Diagnostics()
    if not evidence.complete:
        notes = notes.noting(
            "search_cut_short",
            "the search for the number of states was cut short; another number may explain the log better",
        )
    notes = notes + convergence_notes(best)
    if evidence.states == limit:
        notes = notes.noting(
            "states_at_limit",
            f"the search ended at its limit of {limit} states; more may explain the log better: raise max_states",
            limit=limit,
        )
    if evidence.gap < SETTLED and not evidence.fixed:
        notes = notes.noting("states_uncertain", str(evidence), gap=evidence.gap)
    return notes
