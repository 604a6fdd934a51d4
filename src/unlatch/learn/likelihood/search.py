"""How many hidden states? Double the model, climb, prune what does not pay, until nothing pays.

Doubling gives every state a copy and the whole model one persistent hidden bit, which is what a corridor needs:
splitting single states shows no gain until the entire chain is split. Merging states back is judged by the
penalized likelihood, with a parameter counted only where the log expects it to be used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from unlatch.core.budget import Budget
from unlatch.core.pomdp import Emission
from unlatch.core.trajectory import Trajectory
from unlatch.learn.likelihood.bic import free_parameters, parameter_price, penalized_likelihood
from unlatch.learn.likelihood.climb import Ascent, evaluated
from unlatch.learn.likelihood.objective import Hypothesis, Likelihood
from unlatch.learn.likelihood.parameters import Parameters
from unlatch.learn.likelihood.split_merge import (
    cheapest_pairs,
    disjoint_pairs,
    doubled_states,
    merge_proposals,
    merged_states,
    tidied,
)
from unlatch.learn.likelihood.starts import (
    climb_or_open,
    completed,
    opened,
    possible,
    seen_states,
    single_state,
    smoothed,
    with_endings,
    with_one_end,
)
from unlatch.learn.significance import USED

__all__ = ["StateSearch", "search_hypotheses", "search_states"]

_STICKINESS = (0.9, 0.7, 0.5)
"""How persistent the new hidden bit starts out; the best of the three is kept."""

_SPARSE_FROM = 8
"""States beyond which zeros make passes faster."""

_STEPS_PER_STATE = 4_000
_MOST_PER_STATE = 40_000
_LEAST_SAMPLE = 20_000
_LARGEST_SAMPLE = 300_000
"""Steps that a search ends with, unless there are so many states that each would be seen too rarely."""

_GROWTH = 4
_PROBING_PASSES = 20
_DOUBLING_PASSES = 50
_MERGING_PASSES = 20
_PATIENCE = 2
_NOISE_GAIN = 2.0
"""Nats per parameter that fitting noise gains at most: half a nat on average where the likelihood is a parabola, but a
doubled model has many ways to do so and keeps the best; a parameter that is needed gains its price at least, which is
several nats."""
_IMPROVEMENT = 0.5
"""Nats of penalized likelihood by which a round must improve to count as a success."""


@dataclass(frozen=True, eq=False)
class StateSearch:
    """What a search tried.

    Attributes
    ----------
    best : Ascent
        The model with the best score of all that were seen.
    steps : int
        Steps of the log that models were compared on, from its beginning.
    scores : mapping of int to float
        Penalized likelihood, in nats, of the best model of every number of states.
    models : mapping of int to Ascent
        These models.
    rounds : tuple of str
        What was doubled and what became of it.
    complete : bool
        False if the budget ended before the search did.
    hypothesis : Hypothesis
        How the log was taken to have come about.
    given_up : bool
        True if the search ended early because another hypothesis did better with fewer states.
    """

    best: Ascent
    steps: int
    scores: Mapping[int, float]
    models: Mapping[int, Ascent]
    rounds: tuple[str, ...]
    complete: bool
    hypothesis: Hypothesis
    given_up: bool = False

    def score(self, ascent: Ascent) -> float:
        """Penalized likelihood of a model on the same steps."""
        return penalized_likelihood(ascent, self.steps)

    def __repr__(self) -> str:
        return f"StateSearch({self.best.n_states} states of {sorted(self.scores)}, {self.steps} steps)"


def search_states(
    log: Trajectory,
    *,
    starts: Iterable[Parameters] = (),
    emission: Emission = "departure",
    max_states: int = 40,
    budget: Budget | None = None,
    rng: np.random.Generator,
) -> StateSearch:
    """Find the number of states and a model near the maximum of the likelihood.

    The search works on the first part of the log, and on more of it as states get rarer. It begins from a
    single state and from every model in ``starts``. At the end of the budget, or on Ctrl-C, the best model seen comes
    back, at worst the better of a single state and the starts.
    """
    hypothesis = Hypothesis(log, emission, starts=tuple(starts))
    (found,) = search_hypotheses([hypothesis], max_states=max_states, budget=budget, rng=rng)
    return found


def search_hypotheses(
    hypotheses: Sequence[Hypothesis],
    *,
    max_states: int = 40,
    budget: Budget | None = None,
    rng: np.random.Generator,
) -> list[StateSearch]:
    """One search for each hypothesis, in turns, best first.

    A hypothesis is given up once it has more states than another and is behind nevertheless: what it lacks is not
    states. What came first at the end is compared on the same steps.
    """
    budget = Budget() if budget is None else budget
    streams = [rng] if len(hypotheses) == 1 else rng.spawn(len(hypotheses))
    searches = [_Search(h, max_states, stream) for h, stream in zip(hypotheses, streams, strict=True)]
    for search in searches:
        budget.insist(search.begin)
    with budget.ending():
        _in_turns(searches)
        _on_the_same_steps(searches)
    return sorted((search.outcome() for search in searches), key=lambda found: -found.score(found.best))


def _in_turns(searches: list[_Search]) -> None:
    """A round at a time to the search that has worked least, so that one that needs many states does not hold up one
    that needs few; by multiplications, not by the clock, so that a seed repeats it."""
    active = list(searches)
    while active:
        min(active, key=lambda search: search.work).advance()
        most = max(search.steps for search in searches)
        scores = {search: search.score_on(most) for search in searches}
        leader = max(searches, key=lambda search: scores[search])
        for search in active:
            behind = scores[search] < scores[leader] - _IMPROVEMENT
            search.given_up = behind and search.has_more_states_than(leader)
        active = [search for search in active if not (search.done or search.given_up)]


def _on_the_same_steps(searches: list[_Search]) -> None:
    most = max(search.steps for search in searches)
    for search in searches:
        if search.steps < most:
            search.move_to(most)


@dataclass
class _Seen:
    """The models that were seen on one sample, the best of every number of states."""

    steps: int
    max_states: int
    scores: dict[int, float] = field(default_factory=dict)
    models: dict[int, Ascent] = field(default_factory=dict)

    def score(self, ascent: Ascent) -> float:
        return penalized_likelihood(ascent, self.steps)

    def record(self, ascent: Ascent) -> Ascent:
        """Remember a model, unless it has states beyond the limit or states that are never visited."""
        score, states = self.score(ascent), ascent.n_states
        visited = states == 1 or ascent.visits.min() > USED
        if visited and states <= self.max_states and score > self.scores.get(states, -np.inf):
            self.scores[states], self.models[states] = score, ascent
        return ascent

    @property
    def best(self) -> Ascent:
        return self.models[max(self.scores, key=lambda states: self.scores[states])]


class _Search:
    def __init__(self, hypothesis: Hypothesis, max_states: int, rng: np.random.Generator) -> None:
        self._hypothesis, self._max_states, self._rng = hypothesis, max_states, rng
        self._rounds: list[str] = []
        self._starts: list[Parameters] = []
        self._likelihood = hypothesis.likelihood(_LEAST_SAMPLE)
        self._seen = _Seen(self._likelihood.steps, max_states)
        self._failures, self._least = 0, self._likelihood.steps
        self.done = self.given_up = False
        self.work = 0.0

    @property
    def steps(self) -> int:
        """Of the log that models are compared on."""
        return self._likelihood.steps

    def outcome(self) -> StateSearch:
        seen = self._seen
        return StateSearch(
            best=seen.best,
            steps=seen.steps,
            scores=dict(seen.scores),
            models=dict(seen.models),
            rounds=tuple(self._rounds),
            complete=self.done or self.given_up,
            hypothesis=self._hypothesis,
            given_up=self.given_up,
        )

    # --- rivals -------------------------------------------------------------------------------------

    def score_on(self, steps: int) -> float:
        """The best score, on so many steps of the log; without a climb, so rather too low where that is more."""
        if steps <= self.steps:
            return self._seen.score(self._seen.best)
        larger = self._hypothesis.likelihood(steps)
        best = evaluated(possible(opened(self._seen.best.parameters, larger.log), larger), larger)
        return penalized_likelihood(best, larger.steps)

    def has_more_states_than(self, other: _Search) -> bool:
        """Those not counted where nothing more happens; and once it has had a round of its own."""
        return bool(self._rounds) and self._seen.best.n_going_on > other._seen.best.n_going_on

    # --- rounds -------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Look at what there is, without a climb: little work, done whatever the budget."""
        log, emission = self._likelihood.log, self._likelihood.emission
        given = list(self._hypothesis.starts)
        shown = np.count_nonzero((log.seen > log.last_seen).any(axis=0))
        if emission == "arrival" and 1 < shown <= self._max_states:
            given.append(smoothed(seen_states(log), log))
        starts = (completed(start, log, emission) for start in given)
        self._starts = [opened(start, log) for start in starts if start.n_states <= self._max_states]
        for start in (self._single_state(self._likelihood), *self._starts):
            self._seen.record(evaluated(possible(start, self._likelihood), self._likelihood))

    def _single_state(self, likelihood: Likelihood) -> Parameters:
        alone = single_state(likelihood.log, likelihood.emission)
        return alone if alone.n_states <= self._max_states else with_one_end(alone, likelihood.log)

    def advance(self) -> None:
        """The next round; the first of them climbs from the given starts."""
        if not self._rounds:
            for start in self._starts:
                self._pruned(self._climb(start, _DOUBLING_PASSES))
        if self._seen.best.n_states >= self._max_states:
            self.done = True
            return
        wanted = self._wanted_sample(self._least)
        if wanted > self.steps:
            self.move_to(wanted)
        if self._round():
            self._failures = 0
            return
        self._failures += 1
        self._least = _GROWTH * self.steps  # before giving up, look at more of the log
        self.done = self._failures >= _PATIENCE and self._wanted_sample(self._least) <= self.steps

    def _round(self) -> bool:
        """Double, climb, prune; True if that paid in more states."""
        best = self._seen.best
        before = self._seen.score(best)
        parted = with_endings(best.parameters, self._likelihood.log, self._likelihood.emission)
        candidates = [
            self._climb(doubled_states(parted, sticky, self._rng), _PROBING_PASSES) for sticky in _STICKINESS
        ]
        promising = max(candidates, key=lambda ascent: ascent.log_likelihood)
        doubled = self._climb(promising.parameters, _DOUBLING_PASSES)
        pruned = max(self._pruned(doubled), self._one_more(doubled, best.n_states), key=self._seen.score)
        after = self._seen.score(pruned)
        self._rounds.append(
            f"{self._likelihood.steps} steps: {best.n_states} states doubled and pruned to {pruned.n_states}, "
            f"penalized likelihood {before:.1f} to {after:.1f}"
        )
        reached = self._seen.best
        return reached.n_states > best.n_states and self._seen.score(reached) > before + _IMPROVEMENT

    def _one_more(self, doubled: Ascent, states: int) -> Ascent:
        """The doubled model merged to a single state more than before: what the evidence is about."""
        pairs = disjoint_pairs(cheapest_pairs(doubled.counts, doubled.parameters.terminal))[
            : doubled.n_states - states - 1
        ]
        return self._climb(merged_states(doubled.parameters, pairs, doubled.visits), _DOUBLING_PASSES)

    # --- samples --------------------------------------------------------------------------------------

    def _wanted_sample(self, least: int) -> int:
        states = self._seen.best.n_states
        most = max(_LARGEST_SAMPLE, _MOST_PER_STATE * states)
        return min(max(least, 2 * _STEPS_PER_STATE * states), most, len(self._hypothesis.log))

    def move_to(self, steps: int) -> None:
        """Continue on a larger part of the log: scores of the smaller part no longer compare."""
        larger = self._hypothesis.likelihood(steps)
        before = with_endings(self._seen.best.parameters, larger.log, larger.emission)
        if before.n_states > self._max_states:
            before = self._seen.best.parameters
        best = _climbed(opened(before, larger.log), larger, _DOUBLING_PASSES)
        alone = evaluated(self._single_state(larger), larger)
        self._likelihood, self._seen = larger, _Seen(steps, self._max_states)
        for ascent in (alone, best):
            self._seen.record(ascent)

    # --- climbing and pruning ---------------------------------------------------------------------------

    def _climb(self, start: Parameters, passes: int, target: float | None = None) -> Ascent:
        ascent = _climbed(start, self._likelihood, passes, target)
        self.work += ascent.passes * self.steps * ascent.n_states**2
        return self._seen.record(ascent)

    def _pruned(self, ascent: Ascent) -> Ascent:
        """Merge states while that improves the penalized likelihood.

        A merge that costs no more than noise would gain is taken at once. If none does, the best of the cheapest
        pairs is, so that two states that the log tells apart are not merged merely because the model has too many.
        """
        current = ascent
        while current.n_states > 1:
            simpler = self._merged(current)
            if simpler is None:
                break
            current = simpler
        return self._climb(self._within_limit(current), _DOUBLING_PASSES)

    def _within_limit(self, ascent: Ascent) -> Parameters:
        """The cheapest pairs merged until no more states are left than were allowed, whatever that costs."""
        current = ascent
        while (surplus := current.n_states - self._max_states) > 0:
            pairs = disjoint_pairs(cheapest_pairs(current.counts, current.parameters.terminal))[:surplus]
            current = evaluated(merged_states(current.parameters, pairs, current.visits), self._likelihood)
        return current.parameters

    def _merged(self, current: Ascent) -> Ascent | None:
        """The model with fewer states, or None if none is better."""
        steps, score = self._likelihood.steps, self._seen.score(current)
        size = free_parameters(current)
        best: Ascent | None = None
        for proposal in merge_proposals(current):
            removed = current.n_states - proposal.n_states
            saved = 2 * size * removed / current.n_states  # at most: rows and columns
            target = score + (size - saved) * parameter_price(steps)
            merged = self._climb(proposal, _MERGING_PASSES, target)
            if self._seen.score(merged) <= score:
                continue
            loss = current.log_likelihood - merged.log_likelihood
            if loss < max(removed * np.log(steps), _NOISE_GAIN * (size - free_parameters(merged))):
                return merged
            if removed == 1 and (best is None or self._seen.score(merged) > self._seen.score(best)):
                best = merged
        return best


def _climbed(start: Parameters, likelihood: Likelihood, passes: int, target: float | None = None) -> Ascent:
    """A climb that is as exact as a comparison needs; entries that are not used are dropped where that saves time."""
    states = start.n_states
    ascent = climb_or_open(
        start,
        likelihood,
        passes=passes,
        gain_tolerance=0.02,
        target=target,
        stage=f"searching ({states} states)",
    )
    return tidied(ascent) if states > _SPARSE_FROM else ascent
