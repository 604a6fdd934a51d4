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
from unlatch.learn.likelihood.climb import Ascent, evaluated
from unlatch.learn.likelihood.evidence import SETTLED, predictive_states, weigh
from unlatch.learn.likelihood.finish import finished
from unlatch.learn.likelihood.marginal import Candidate, judged
from unlatch.learn.likelihood.objective import Hypothesis, Likelihood
from unlatch.learn.likelihood.parameters import ExpectedCounts, Parameters
from unlatch.learn.likelihood.refine import convergence_notes, made_possible
from unlatch.learn.likelihood.rivals import CLOSE, Rivals
from unlatch.learn.likelihood.search import StateSearch, search_hypotheses
from unlatch.learn.likelihood.starts import (
    climb_or_open,
    completed,
    opened,
    random_parameters,
    smoothed,
)
from unlatch.learn.likelihood.zeros import (
    with_established_zeros,
)
from unlatch.learn.state_order import canonical_order

__all__ = ["Selection", "returned_model", "select_states"]

_FIRST_SAMPLE = 300_000
"""Steps on which zeros are judged at first, unless the search needed more."""

_RANDOM_STARTS = 8
"""Climbs from random models for a number of states that was asked for and that the search has not seen."""

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
    score : float
        Logarithm of the evidence for the model, on the steps that counts were compared on.
    complete : bool
        False if the budget ended before search and climb did.
    """

    pomdp: POMDP
    counts: ExpectedCounts
    log_likelihood: float
    evidence: Evidence
    search: StateSearch
    score: float
    complete: bool
    diagnostics: Diagnostics


def select_states(
    hypotheses: Sequence[Hypothesis],
    *,
    states: int | None = None,
    max_states: int | None = None,
    thorough: bool = False,
    budget: Budget,
    rng: np.random.Generator,
) -> Selection:
    """Search from the given starts and from scratch; then climb on the whole log, with the hypothesis that does best.

    With ``states`` the count is fixed. A ``thorough`` search looks at the whole log. At the end of the budget, or on
    Ctrl-C, the best model so far comes back, with a note.
    """
    limit = states or max_states
    searches = search_hypotheses(
        hypotheses, max_states=limit, thorough=thorough, budget=budget.share(_FOR_THE_SEARCH), rng=rng
    )
    contenders = [_Contender(search, search.best) for search in searches]
    if states is not None:
        contenders = [_with_states(search, states, budget, rng) for search in searches]
    contenders.sort(key=lambda contender: -contender.chosen.score / contender.search.steps)
    first = contenders[0]
    best, complete, rivals = replace(first.chosen.ascent, converged=False), False, first.rivals(rng)
    predictive: int | None = None
    with budget.share(_FOR_THE_CLIMB).ending():
        contenders = _finished_where_close(contenders)
        first = contenders[0]
        assert first.final is not None
        best, rivals = first.final.ascent, first.rivals(rng)
        if states is None:
            rivals.compare()
        if rivals.likelihood.steps < first.hypothesis.steps:
            rivals.move_to(first.hypothesis.likelihood())
        best = rivals.best.ascent
        checkpoint()
        predictive = predictive_states(
            rivals.finished, rivals.best.n_states, first.hypothesis, rivals.likelihood
        )
        complete = True
    hypothesis = first.hypothesis
    pomdp, counts, log_likelihood, notes = budget.insist(lambda: returned_model(best, hypothesis))
    evidence = replace(
        _evidence(rivals, contenders, fixed=states is not None),
        predictive_states=predictive,
    )
    return Selection(
        pomdp=pomdp,
        counts=counts,
        log_likelihood=log_likelihood,
        evidence=evidence,
        search=first.search,
        score=rivals.best.score,
        complete=all(search.complete for search in searches) and complete,
        diagnostics=_notes(evidence, best, max_states if states is None else None) + notes,
    )


# --- hypotheses ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Contender:
    """The best model of one hypothesis: ``chosen`` on the steps of the search, then ``final`` with its zeros."""

    search: StateSearch
    chosen: Candidate
    final: Candidate | None = None

    @property
    def hypothesis(self) -> Hypothesis:
        return self.search.hypothesis

    @property
    def sample(self) -> Likelihood:
        """What final models are judged on: part of a long log, as long for every hypothesis."""
        steps = min(max(self.search.steps, _FIRST_SAMPLE), len(self.hypothesis.log))
        return self.search.likelihood if steps == self.search.steps else self.hypothesis.likelihood(steps)

    @property
    def final_score(self) -> float:
        return -np.inf if self.final is None else self.final.score

    def rivals(self, rng: np.random.Generator) -> Rivals:
        if self.final is None:
            return Rivals(self.search, self.chosen, self.search.likelihood, rng)
        return Rivals(self.search, self.final, self.sample, rng)

    def finished(self) -> _Contender:
        return replace(self, final=finished(self.chosen.parameters, self.sample))


def _finished_where_close(contenders: list[_Contender]) -> list[_Contender]:
    """The contenders, the first with its final model, and so those that come close to it; the best first."""
    first = contenders[0]
    close = [
        c
        for c in contenders
        if c.search.steps == first.search.steps and c.chosen.score > first.chosen.score - CLOSE
    ]
    climbed = [close[0].finished()]
    with ending():  # at the end of the budget the others stay as they are
        for contender in close[1:]:
            climbed.append(contender.finished())
    close = close[: len(climbed)]
    climbed.sort(key=lambda c: -c.final_score)
    first = min((c for c in climbed if _ties(c, climbed[0])), key=_convention)
    return [first, *(c for c in climbed if c is not first), *(c for c in contenders if c not in close)]


def _ties(contender: _Contender, best: _Contender) -> bool:
    """Whether the log does not decide between two hypotheses, and the one is not worse for taking more states: with the
    wrong emission some are needed to remember what was shown. One that was given up was not searched to the end, and
    wins only by its score."""
    if contender is best or contender.search.given_up:
        return contender is best
    assert contender.final is not None
    assert best.final is not None
    if contender.final.n_states > best.final.n_states:
        return False
    return contender.final_score > best.final_score - SETTLED


def _convention(contender: _Contender) -> tuple[bool, bool]:
    """What is taken where the log does not decide: what most files and environments mean by an observation, that of the
    state reached; rewards with it."""
    return contender.hypothesis.emission != "arrival", contender.hypothesis.rewards_apart


def _with_states(search: StateSearch, states: int, budget: Budget, rng: np.random.Generator) -> _Contender:
    """The best model with a given number of states: from the search, the given starts, or random ones."""
    hypothesis, likelihood = search.hypothesis, search.likelihood
    starts = [completed(start, likelihood.log, hypothesis.emission) for start in hypothesis.starts]
    given = [opened(start, likelihood.log) for start in starts if start.n_states == states]
    if states in search.models:
        candidates = [search.models[states].ascent]
    else:
        given += [
            random_parameters(likelihood.log, states, rng, hypothesis.emission) for _ in range(_RANDOM_STARTS)
        ]
        candidates = [evaluated(smoothed(given[0], likelihood.log), likelihood)]  # whatever the budget
    with budget.share(_FOR_THE_CLIMB / 2).ending():
        for start in given:
            candidates.append(climb_or_open(start, likelihood, passes=150))
    best = max(candidates, key=lambda ascent: ascent.log_likelihood)
    return _Contender(search, budget.insist(lambda: judged(best, likelihood)))


# --- evidence ----------------------------------------------------------------------------------------------


def _evidence(rivals: Rivals, contenders: list[_Contender], *, fixed: bool) -> Evidence:
    first = contenders[0]
    states, steps, compared = rivals.best.n_states, rivals.likelihood.steps, rivals.finished
    if fixed:  # then no other number was climbed to the end: what the search saw is compared, on its steps
        steps, compared = first.search.steps, {}
    known = first.search.models.get(states, first.chosen).score
    scores = {n: found.score - known for n, found in first.search.models.items()}
    scores.update({n: found.score - rivals.best.score for n, found in rivals.finished.items()})
    weighed = replace(
        weigh(states, scores, steps, first.search.complete, fixed=fixed, compared=compared),
        emission=str(first.hypothesis),
    )
    if len(contenders) == 1:
        return weighed
    given_up = [other for other in contenders if other.search.given_up and other is not first]
    return replace(
        weighed,
        emission_scores={
            str(other.hypothesis): _behind(other, first)
            for other in contenders
            if other not in given_up
            and other.search.steps == first.search.steps  # else it was cut short before
        },
        emissions_given_up=tuple(str(other.hypothesis) for other in given_up),
    )


def _behind(other: _Contender, first: _Contender) -> float:
    """Nats by which one hypothesis lies behind, a negative number; by their final models if both were climbed to."""
    if other.final is None or first.final is None:
        return min(other.chosen.score - first.chosen.score, 0.0)
    return min(other.final.score - first.final.score, 0.0)


# --- the model that is returned ------------------------------------------------------------------------


def returned_model(best: Ascent, hypothesis: Hypothesis) -> tuple[POMDP, ExpectedCounts, float, Diagnostics]:
    """The model with states in canonical order, its counts, and the likelihood that it gives to the log."""
    log, emission = hypothesis.log, hypothesis.emission
    parameters, weak = with_established_zeros(best)
    learned = _as_pomdp(parameters, hypothesis)
    settled = learned if learned.terminal else replace(learned, initial=_settled(learned, best.counts, log))
    order = canonical_order(settled.to_psr())
    order = order[np.argsort(best.parameters.terminal[order], kind="stable")]  # the end comes last
    chosen = learned
    if hypothesis.episodes == 1 and not learned.terminal and learned.first_observations is None:
        share = replace(learned, initial=_time_share(best.counts, emission))
        chosen = _with_a_start(settled, share, log)
    height = hypothesis.log_likelihood(chosen)
    notes = Diagnostics()
    if weak:
        notes = notes.noting(
            "weak_rows",
            f"{weak} rows of the model were visited too rarely to call impossible what they did not show: it was given "
            "the small probability that it may have",
            rows=weak,
        )
    if not np.isfinite(height):  # learned from a part of the log, the rest of which it has not seen
        chosen = made_possible(chosen, log)
        height = hypothesis.log_likelihood(chosen)
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
        symbol_rewards=None if rewards is not None else hypothesis.symbol_rewards,
        terminal=tuple(np.flatnonzero(parameters.terminal).tolist()),
        first_observations=parameters.first,
        first_observation_names=None if parameters.first is None else log.first_observation_names,  # type: ignore[arg-type]
        reward_values=None if rewards is None else np.unique(log.rewards + 0.0),  # type: ignore[operator]
        reward_probabilities=rewards,
    )


def _with_a_start(settled: POMDP, share: POMDP, log: Trajectory) -> POMDP:
    """One long episode tells nothing about where episodes begin: so as if the process had settled before.

    Unless the log left states for good, and would be all but impossible then: that costs more than to name the state
    that it began in among all its steps. Then the share of time that it spent in each state.
    """
    beginning = log.head(_FIRST_SAMPLE)
    costs = share.log_likelihood(beginning) - settled.log_likelihood(beginning)
    return share if costs > np.log(len(log)) else settled


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
        notes = notes.noting(
            "states_uncertain", f"the number of states is not settled: {evidence}", gap=evidence.gap
        )
    return notes
