"""From a first model to the best one: search for the number of states, then maximum likelihood on all data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from unlatch.arrays import Floats
from unlatch.core.budget import Budget, checkpoint, ending
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.evidence import Evidence
from unlatch.core.pomdp import POMDP, Emission
from unlatch.core.trajectory import Trajectory
from unlatch.learn.likelihood.bic import free_parameters, parameter_price, penalized_likelihood
from unlatch.learn.likelihood.climb import Ascent, evaluated
from unlatch.learn.likelihood.evidence import SETTLED, weigh
from unlatch.learn.likelihood.objective import Hypothesis, Likelihood
from unlatch.learn.likelihood.parameters import ExpectedCounts, Parameters
from unlatch.learn.likelihood.refine import convergence_notes, made_possible
from unlatch.learn.likelihood.search import StateSearch, search_hypotheses
from unlatch.learn.likelihood.split_merge import with_shared_rows
from unlatch.learn.likelihood.starts import (
    climb_or_open,
    completed,
    opened,
    possible,
    random_parameters,
    smoothed,
)
from unlatch.learn.likelihood.zeros import maximize, with_established_zeros
from unlatch.learn.significance import OPPORTUNITIES
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

_SLACK = 2.0
"""Times the price saved that sharing rows may cost before the climb that makes up for it."""

_CLOSE = 20.0
"""Nats that a longer climb and the zeros of a model may still make up for: within them a hypothesis is climbed too."""


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
    hypotheses: Sequence[Hypothesis],
    *,
    states: int | None = None,
    max_states: int | None = None,
    budget: Budget,
    rng: np.random.Generator,
) -> Selection:
    """Search from the given starts and from scratch; then climb on the whole log, with the hypothesis that does best.

    With ``states`` the count is fixed. At the end of the budget, or on Ctrl-C, the best model so far comes back, with
    a note.
    """
    limit = states or max_states or MOST_STATES
    searches = search_hypotheses(hypotheses, max_states=limit, budget=budget.share(_FOR_THE_SEARCH), rng=rng)
    contenders = [_Contender(search, search.best) for search in searches]
    if states is not None:
        contenders = [_with_states(search, states, budget, rng) for search in searches]
    contenders.sort(key=lambda contender: -contender.score)
    first = contenders[0]
    best, zeros, finished = replace(first.chosen, converged=False), 0, False
    with budget.share(_FOR_THE_CLIMB).ending():
        contenders = _climbed_where_close(contenders)
        first = contenders[0]
        assert first.climbed is not None
        best, zeros = first.climbed, first.zeros
        if len(first.hypothesis.log) > _FIRST_SAMPLE:
            best, _ = maximize(best.parameters, first.hypothesis.likelihood(), zeros=False)
        checkpoint()
        finished = True
    hypothesis = first.hypothesis
    pomdp, counts, log_likelihood, notes = budget.insist(lambda: _returned(best, hypothesis))
    evidence = _evidence(contenders, fixed=states is not None)
    return Selection(
        pomdp=pomdp,
        counts=counts,
        log_likelihood=log_likelihood,
        evidence=evidence,
        search=first.search,
        zeros=zeros,
        complete=all(search.complete for search in searches) and finished,
        diagnostics=_notes(evidence, best, limit if states is None else None) + notes,
    )


@dataclass(frozen=True, eq=False)
class _Contender:
    """The best model of one hypothesis: ``chosen`` on the steps of the search, then ``climbed`` with its zeros."""

    search: StateSearch
    chosen: Ascent
    climbed: Ascent | None = None
    zeros: int = 0

    @property
    def hypothesis(self) -> Hypothesis:
        return self.search.hypothesis

    @property
    def score(self) -> float:
        """On the steps of the search, which are the same for all."""
        return self.search.score(self.chosen)

    @property
    def final_score(self) -> float:
        """Of the climbed model, on as many steps as zeros are judged on."""
        if self.climbed is None:
            return -np.inf
        return penalized_likelihood(self.climbed, min(len(self.hypothesis.log), _FIRST_SAMPLE))

    def climb(self) -> _Contender:
        """With zeros, on part of a long log. Those of the search are opened again: they were set for speed."""
        sample = self.hypothesis.likelihood(_FIRST_SAMPLE)
        climbed, zeros = maximize(smoothed(self.chosen.parameters, sample.log), sample)
        simpler = _with_shared_rows(climbed, sample)
        if simpler is not None:
            climbed, zeros = simpler
        return replace(self, climbed=climbed, zeros=zeros)


def _with_shared_rows(climbed: Ascent, sample: Likelihood) -> tuple[Ascent, int] | None:
    """The model in which what a state shows does not depend on the action, with its zeros; None if that is no better.

    In most systems it does not, and rows that are learned from all actions at once are as much more accurate.
    """
    if len(climbed.parameters.observations) < 2:
        return None
    pooled = evaluated(possible(with_shared_rows(climbed), sample), sample)
    saved = (free_parameters(climbed) - free_parameters(pooled)) * parameter_price(sample.steps)
    if pooled.log_likelihood < climbed.log_likelihood - _SLACK * saved:
        return None
    best, zeros = maximize(smoothed(pooled.parameters, sample.log), sample)
    before = penalized_likelihood(climbed, sample.steps)
    return (best, zeros) if penalized_likelihood(best, sample.steps) > before else None


def _climbed_where_close(contenders: list[_Contender]) -> list[_Contender]:
    """The contenders, the first with its final model, and so those that come close to it; the best first."""
    close = [c for c in contenders if c.score > contenders[0].score - _CLOSE]
    climbed = [close[0].climb()]
    with ending():  # at the end of the budget the others stay as they are
        for contender in close[1:]:
            climbed.append(contender.climb())
    close = close[: len(climbed)]
    climbed.sort(key=lambda c: -c.final_score)
    first = min((c for c in climbed if _ties(c, climbed[0])), key=_convention)
    return [first, *(c for c in climbed if c is not first), *(c for c in contenders if c not in close)]


def _ties(contender: _Contender, best: _Contender) -> bool:
    """Whether the log does not decide between two hypotheses.

    What a state costs by itself, whatever its numbers, is left out: one state more or less is no evidence about which
    of them shows the observation. A hypothesis that was given up was not searched to the end, and wins only by its
    score.
    """
    if contender is best or contender.search.given_up:
        return contender is best
    price = parameter_price(min(len(best.hypothesis.log), _FIRST_SAMPLE))
    states = price * (contender.chosen.n_going_on - best.chosen.n_going_on)
    return contender.final_score + states > best.final_score - SETTLED


def _convention(contender: _Contender) -> tuple[bool, bool]:
    """What is taken where the log does not decide: what most files and environments mean by an observation, that of the
    state reached; rewards with it."""
    return contender.hypothesis.emission != "arrival", contender.hypothesis.rewards_apart


def _with_states(search: StateSearch, states: int, budget: Budget, rng: np.random.Generator) -> _Contender:
    """The best model with a given number of states: from the search, the given starts, or random ones."""
    hypothesis = search.hypothesis
    likelihood = hypothesis.likelihood(search.steps)
    starts = [completed(start, likelihood.log, hypothesis.emission) for start in hypothesis.starts]
    given = [opened(start, likelihood.log) for start in starts if start.n_states == states]
    if states in search.models:
        candidates = [search.models[states]]
    else:
        given += [
            random_parameters(likelihood.log, states, rng, hypothesis.emission) for _ in range(_RANDOM_STARTS)
        ]
        candidates = [evaluated(smoothed(given[0], likelihood.log), likelihood)]  # whatever the budget
    with budget.share(_FOR_THE_CLIMB / 2).ending():
        for start in given:
            candidates.append(climb_or_open(start, likelihood, passes=150))
    return _Contender(search, max(candidates, key=lambda ascent: ascent.log_likelihood))


def _evidence(contenders: list[_Contender], *, fixed: bool) -> Evidence:
    first = contenders[0]
    scores = dict(first.search.scores)
    states = first.chosen.n_states
    if states not in scores:  # a count that was asked for, found apart from the search or never visited
        scores[states] = first.score
    weighed = weigh(states, scores, first.search.steps, first.search.complete, fixed=fixed)
    if len(contenders) == 1:
        return replace(weighed, emission=str(first.hypothesis))
    given_up = [other for other in contenders if other.search.given_up and other is not first]
    return replace(
        weighed,
        emission=str(first.hypothesis),
        emission_scores={
            str(other.hypothesis): _behind(other, first) for other in contenders if other not in given_up
        },
        emissions_given_up=tuple(str(other.hypothesis) for other in given_up),
    )


def _behind(other: _Contender, first: _Contender) -> float:
    """Nats by which one hypothesis lies behind, a negative number; by their final models if both were climbed to."""
    if other.climbed is None or first.climbed is None:
        return min(other.score - first.score, 0.0)
    return min(other.final_score - first.final_score, 0.0)


# --- the model that is returned ------------------------------------------------------------------------


def _returned(best: Ascent, hypothesis: Hypothesis) -> tuple[POMDP, ExpectedCounts, float, Diagnostics]:
    """The model with states in canonical order, its counts, and the likelihood that it gives to the log."""
    log, emission = hypothesis.log, hypothesis.emission
    parameters, weak = with_established_zeros(best)
    learned = _as_pomdp(parameters, hypothesis)
    settled = learned if learned.terminal else replace(learned, initial=_settled(learned, best.counts, log))
    order = canonical_order(settled.to_psr())
    order = order[np.argsort(best.parameters.terminal[order], kind="stable")]  # the end comes last
    if log.n_episodes == 1 and not learned.terminal and learned.first_observations is None:
        share = replace(learned, initial=_time_share(best.counts, emission))
        chosen, height = _with_a_start(settled, share, log)
    else:
        chosen, height = learned, learned.log_likelihood(log)
    notes = Diagnostics()
    if weak:
        notes = notes.noting(
            "weak_rows",
            f"{weak} rows of the model were visited fewer than {OPPORTUNITIES:g} times, too few to call impossible "
            "what they did not show: one visit was spread over it",
            rows=weak,
        )
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


def _as_pomdp(parameters: Parameters, hypothesis: Hypothesis) -> POMDP:
    log = hypothesis.log
    rewards = parameters.rewards
    return POMDP(
        transitions=parameters.transitions,
        observations=parameters.observations,
        initial=parameters.initial,
        emission=hypothesis.emission,
        action_names=log.action_names,
        observation_names=log.observation_names,
        symbol_rewards=None if rewards is not None else log.symbol_rewards,
        terminal=tuple(np.flatnonzero(parameters.terminal).tolist()),
        first_observations=parameters.first,
        first_observation_names=None if parameters.first is None else log.first_observation_names,  # type: ignore[arg-type]
        reward_values=None if rewards is None else np.unique(log.rewards + 0.0),  # type: ignore[operator]
        reward_probabilities=rewards,
    )


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
    if (
        evidence.emission_gap < SETTLED and evidence.states > 1
    ):  # a single state is left and reached all the same
        other = max(
            (name for name in evidence.emission_scores if name != evidence.emission),
            key=lambda name: evidence.emission_scores[name],
        )
        notes = notes.noting(
            "emission_uncertain",
            f"{evidence.emission} and {other} emission explain the log about equally well ({evidence.emission_gap:.1f} "
            f"nats apart); the model takes {evidence.emission}, and emission= decides otherwise",
            gap=evidence.emission_gap,
        )
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
