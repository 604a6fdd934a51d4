"""How many hidden states? Double the model, climb, prune what does not pay, until nothing pays.

Doubling gives every state a copy and the whole model one persistent hidden bit, which is what a corridor needs:
splitting single states shows no gain until the entire chain is split. So these are split only where doubling did not
pay. Merging states back is judged by the evidence (`unlatch.learn.likelihood.marginal`), which also says beforehand
which states it should pay to merge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from unlatch.arrays import Flags
from unlatch.core.budget import Budget
from unlatch.core.pomdp import Emission
from unlatch.core.trajectory import Trajectory
from unlatch.errors import NumericalError
from unlatch.learn.likelihood.climb import Ascent, evaluated
from unlatch.learn.likelihood.evidence import SETTLED
from unlatch.learn.likelihood.marginal import (
    Candidate,
    complete_evidence,
    expected_lead,
    free_parameters,
    judged,
    least_cost,
)
from unlatch.learn.likelihood.objective import Hypothesis, Likelihood
from unlatch.learn.likelihood.parameters import Parameters
from unlatch.learn.likelihood.sparse_em import thrifty
from unlatch.learn.likelihood.split_merge import (
    blurred_states,
    disjoint_pairs,
    doubled_states,
    merge_gains,
    merge_proposals,
    merged_counts,
    merged_states,
    split_state,
    tidied,
    uses_few,
    without_unvisited,
)
from unlatch.learn.likelihood.starts import (
    DENSE_STATES,
    climb_or_open,
    completed,
    opened,
    possible,
    seen_states,
    single_state,
    smoothed,
    with_endings,
    with_one_end,
    zeros_save_time,
)
from unlatch.learn.significance import USED

__all__ = ["LONG_MEMORY", "MANY_STATES", "STICKINESS", "StateSearch", "search_hypotheses", "search_states"]

STICKINESS = (0.9, 0.7, 0.5)
"""How persistent the new hidden bit starts out. The best of the three is kept, for the next rounds too as long as they
pay."""

LONG_MEMORY = 0.99
"""The same, tried on the largest sample beside the others: there a bit may tell that takes a hundred steps to show, as
in the middle of a corridor. With .997 a T-Maze is found as soon, with .97 in one of two tries. In the first rounds,
when states are still symbols, it would put places together that are far apart."""

_LEAST_SAMPLE = 20_000
_STEPS_PER_STATE = 4_000
_STEPS_PER_FURTHER_STATE = 2_000
"""Steps that a search begins with, and for every state the least that it goes on with; for further states of many fewer
do, since what a system with so many states shows must tell much about them."""

_LARGEST_SAMPLE = 300_000
_MOST_PER_STATE = 20_000
"""Steps that a search ends with, and for every state as many where states are so many that each would be seen too
rarely."""

_TELLS_MORE = 1.5
"""Times as many steps for which, with a state or two more, all is looked at anew; not for a tenth more."""

_MOST_OF_IT = 0.5
"""Share of the steps that a search ends with from which it goes on with all of these, unless states are many and so
rounds are dear: a round on them costs less than one that does not pay on so much of them, and is then repeated."""

_STEPS_PER_PROBE = 2_000
"""Steps for every state from which it is told which of several starts to climb on from."""

_PROBING_PASSES = 20
_PASSES = 50
_MERGING_PASSES = 20
"""Passes of a climb at most: to see which start is promising, in a stretch of the way on from it, to see what a merge
costs."""

_STRETCHES = 8
"""Stretches of a climb at most."""

_JUDGING_PASSES = 4
"""Passes that a judgment is counted as. It takes some ten of them with few states, and more with many."""

_SPLITS, _SPLITS_KEPT = 16, 2
"""States that are split one by one where doubling did not pay, the most visited first, and how many of these models are
climbed on."""

MANY_STATES = 64
"""States from which, as long as their number grows, few are merged and no entries saved: that takes climbs over all of
the sample, and what is left over does no harm where states are doubled again."""

_TIE = 0.01
"""Nats of evidence that a merge may cost: states that are never visited are told from nothing."""
_NOISE_GAIN = 1.0
"""Nats per parameter that fitting noise gains: half a nat on average where the likelihood is a parabola, but a doubled
model has many ways to do so and keeps the best. Up to 1.3 was seen."""
_IMPROVEMENT = 0.5
"""Nats of evidence by which a round must improve to count as a success."""
_HANDICAP = 32
"""A search that is behind has its turn when the leader has worked so many times as much: what those behind spend is a
few percent each, and one that is right after all does not wait for a leader that needs ever more states."""
_CLEARLY = 20.0
"""Nats that a longer climb and the zeros of a model do not make up for."""
_BY_CHANCE = 0.02
"""Share of its evidence by which rows by action may be ahead of shared ones that are right, with few states; by
which a hypothesis is behind what was not seen, but lies between what was; and within which two come close."""
_MOST = 0.5
"""Share of the transitions that a model must use for it to be worth asking whether all are."""
_LEAST_PRICE = 1.0
"""Nats that a further state costs at least: its rows have to say where they lead and what they show."""


@dataclass(frozen=True, eq=False)
class StateSearch:
    """What a search tried.

    Attributes
    ----------
    best : Candidate
        The model with the best score of all that were seen.
    likelihood : Likelihood
        Of the steps of the log that models were compared on, from its beginning.
    models : mapping of int to Candidate
        The best model of every number of states.
    rounds : tuple of str
        What was doubled and what became of it.
    complete : bool
        False if the budget ended before the search did.
    hypothesis : Hypothesis
        How the log was taken to have come about.
    given_up : bool
        True if the search ended early because another hypothesis was done and had clearly more evidence with no more
        states.

    Examples
    --------
    >>> import unlatch
    >>> log = unlatch.simulate(unlatch.domains.tiger(), 2_000, rng=0)
    >>> search = unlatch.learn_pomdp(log, emission="departure", max_states=2, rng=0).search
    >>> sorted(search.models), search.complete
    ([1, 2], True)
    """

    best: Candidate
    likelihood: Likelihood
    models: Mapping[int, Candidate]
    rounds: tuple[str, ...]
    complete: bool
    hypothesis: Hypothesis
    given_up: bool = False

    @property
    def steps(self) -> int:
        return self.likelihood.steps

    def __repr__(self) -> str:
        return f"StateSearch({self.best.n_states} states of {sorted(self.models)}, {self.steps} steps)"


def search_states(
    log: Trajectory,
    *,
    starts: Iterable[Parameters] = (),
    emission: Emission = "departure",
    max_states: int | None = None,
    budget: Budget | None = None,
    rng: np.random.Generator,
) -> StateSearch:
    """Find the number of states and a model near the maximum of the likelihood.

    The search works on the first part of the log, and on more of it as there are more states and before it ends. It
    begins from a single state and from every model in ``starts``. Without ``max_states`` only the log bounds the
    states. At the end of the budget, or on Ctrl-C, the best model seen comes back, at worst the better of a single
    state and the starts.
    """
    hypothesis = Hypothesis(log, emission, starts=tuple(starts))
    (found,) = search_hypotheses([hypothesis], max_states=max_states, budget=budget, rng=rng)
    return found


def search_hypotheses(
    hypotheses: Sequence[Hypothesis],
    *,
    max_states: int | None = None,
    thorough: bool = False,
    budget: Budget | None = None,
    rng: np.random.Generator,
) -> list[StateSearch]:
    """Searches for each hypothesis, in turns; what they found, the best first. If ``thorough``, each looks at all of
    the log before it ends.

    Where the state reached shows the observation, it mostly shows the same whatever the action was, but need not: there
    is a search for either. A search is given up once the leader is done and had clearly more evidence with no more
    states, so that what it lacks is not states. At the end the models of all others are climbed on the same steps, and
    compared there.
    """
    budget = Budget() if budget is None else budget
    limit = max_states or max(len(hypothesis.log) for hypothesis in hypotheses)
    kinds = [(h, shared) for h in hypotheses for shared in ((False, True) if _may_share(h) else (False,))]
    streams = [rng] if len(kinds) == 1 else rng.spawn(len(kinds))
    searches = [
        _Search(h, limit, thorough, stream, shared=shared)
        for (h, shared), stream in zip(kinds, streams, strict=True)
    ]
    for search in searches:
        budget.insist(search.begin)
    with budget.ending():
        _in_turns(searches)
        _on_the_same_steps(searches)
    found = [_outcome([search for search in searches if search.hypothesis is h]) for h in hypotheses]
    return sorted(found, key=_evidence_a_step)  # cut short, they may have got to different steps


def _may_share(hypothesis: Hypothesis) -> bool:
    return hypothesis.emission == "arrival" and len(hypothesis.log.action_names) > 1


def _outcome(searches: list[_Search]) -> StateSearch:
    """What the searches of one hypothesis found: the model with the most evidence, unless one of another search with
    fewer states is about as likely. Then it is not states that the first has in its favor, but rows that it need not
    have: a door of Tiger, after which nothing is known, would be a state of its own."""
    outcomes = sorted((search.outcome() for search in searches), key=_evidence_a_step)
    best, complete = outcomes[0], all(outcome.complete for outcome in outcomes)
    for other in outcomes[1:]:
        if other.steps != best.steps:
            continue
        if (
            other.best.ascent.n_going_on < best.best.ascent.n_going_on
            and other.best.log_likelihood > best.best.log_likelihood - SETTLED
        ):
            return replace(other, complete=complete)
        best = replace(best, models=_best_of_each(best, other))
    return replace(best, complete=complete)


def _best_of_each(best: StateSearch, other: StateSearch) -> dict[int, Candidate]:
    """The better model of every number of states."""
    models = {**other.models, **best.models}
    for states in other.models.keys() & best.models.keys() - {best.best.n_states}:
        models[states] = max(best.models[states], other.models[states], key=lambda found: found.score)
    return models


def _evidence_a_step(outcome: StateSearch) -> float:
    """The more, the lower."""
    return -outcome.best.score / max(outcome.steps, 1)


def _in_turns(searches: list[_Search]) -> None:
    """A turn at a time to the search that has worked least, so that one that needs many states does not hold up one
    that needs few; the work of those that are behind the leader, or can wait for another, counts `_HANDICAP` times. In
    multiplications, not by the clock, so that a seed repeats it."""
    leader, active = searches[0], list(searches)

    def counted(search: _Search) -> float:
        waits = search.is_behind(leader) or any(search.can_wait_for(other) for other in active)
        return search.work * (_HANDICAP if waits else 1)

    while active:
        min(active, key=counted).advance()
        leader = max(searches, key=lambda search: search.evidence_a_step)
        for search in active:
            search.given_up = search is not leader and search.lacks_no_states_beside(leader)
        active = [search for search in active if not (search.done or search.given_up)]


def _on_the_same_steps(searches: list[_Search]) -> None:
    """Those that have looked at less of the log go on to where the others are, unless they were given up."""
    most = max(search.steps for search in searches)
    for search in searches:
        if search.steps < most and not search.given_up:
            search.move_to(most)


@dataclass
class _Seen:
    """The models that were seen on one sample, the best of every number of states."""

    max_states: int
    models: dict[int, Candidate] = field(default_factory=dict)
    pruned: list[tuple[int, float]] = field(default_factory=list)  # states and evidence

    def record(self, candidate: Candidate) -> Candidate:
        """Remember a model, unless it has states beyond the limit or states that are never visited."""
        states, known = candidate.n_states, self.models.get(candidate.n_states)
        visited = states == 1 or candidate.ascent.visits.min() > USED
        if visited and states <= self.max_states and (known is None or candidate.score > known.score):
            self.models[states] = candidate
        return candidate

    def is_pruned(self, candidate: Candidate) -> bool:
        """Whether it is one of the models of which no two states should be merged: as many states, and the same
        evidence."""
        return any(
            candidate.n_states == states and abs(candidate.score - score) < _IMPROVEMENT
            for states, score in self.pruned
        )

    @property
    def best(self) -> Candidate:
        return max(self.models.values(), key=lambda candidate: candidate.score)

    def promising(self, ratio: float) -> Candidate | None:
        """The model with more states than the best that should be the furthest ahead of it on so many times as many
        steps; None if none should."""
        best = self.best
        leads = {
            states: expected_lead(model, best, ratio, 2 * _NOISE_GAIN)
            for states, model in self.models.items()
            if states > best.n_states
        }
        states = max(leads, key=lambda n: leads[n], default=0)
        return self.models[states] if leads.get(states, 0.0) > 0 else None


class _Doubled(NamedTuple):
    """The best model ``before`` a round, with its states doubled and ``climbed``, and ``others``, which looked less
    promising, after short climbs."""

    before: Candidate
    climbed: Candidate
    others: list[Parameters]


class _Search:
    def __init__(
        self,
        hypothesis: Hypothesis,
        max_states: int,
        thorough: bool,
        rng: np.random.Generator,
        *,
        shared: bool = False,
        dense: bool = False,
    ) -> None:
        self.hypothesis, self._max_states, self._thorough, self._rng = hypothesis, max_states, thorough, rng
        self._shared, self._dense = shared, dense
        self._rounds: list[str] = []
        self._starts: list[Parameters] = []
        self._likelihood = hypothesis.likelihood(_LEAST_SAMPLE)
        self._seen = _Seen(max_states)
        self._stickiness: tuple[float, ...] = STICKINESS
        self._failures = 0
        self._unpaid: _Doubled | None = None
        self.done = self.given_up = self._asked = self._grew = False
        self.work = 0.0
        self._elsewhere: tuple[Candidate, int, float] | None = (
            None  # a model, other steps, its evidence there
        )
        self.history: list[tuple[int, float, int]] = []  # states, evidence and steps, after every round

    @property
    def steps(self) -> int:
        """Of the log that models are compared on."""
        return self._likelihood.steps

    def outcome(self) -> StateSearch:
        return StateSearch(
            best=self._seen.best,
            likelihood=self._likelihood,
            models=dict(self._seen.models),
            rounds=tuple(self._rounds),
            complete=self.done or self.given_up,
            hypothesis=self.hypothesis,
            given_up=self.given_up,
        )

    # --- rivals -------------------------------------------------------------------------------------

    @property
    def evidence_a_step(self) -> float:
        return self._seen.best.score / max(self.steps, 1)

    def is_behind(self, leader: _Search) -> bool:
        """Whether the leader had more evidence with as many states: one that leads by its states may yet be caught up
        with. Beside rows by action, which gain something with few states wherever they are, it must be clearly more,
        unless the last round here did not pay."""
        mine, least = self._seen.best.ascent.n_going_on, self._seen.best.score
        if self._shared and not leader._shared and not self._failures:
            least += _BY_CHANCE * abs(least)
        return self is not leader and leader._had_more(mine, least / max(self.steps, 1))

    def _had_more(self, states: int, evidence: float) -> bool:
        """Whether more evidence a step was seen with no more states. With more than a few, for which turns are dear,
        also whether what lies between that and what was seen with more is clearly more: states are doubled, and
        numbers of them left out."""
        seen = [(n, score / max(steps, 1)) for n, score, steps in self.history]
        fewer = [(n, least) for n, least in seen if n <= states]
        if any(least > evidence for _, least in fewer):
            return True
        clearly = evidence + _BY_CHANCE * abs(evidence)
        return states > DENSE_STATES and any(
            least + (most - least) * (states - n) / (more - n) > clearly
            for n, least in fewer
            for more, most in seen
            if more > states
        )

    def can_wait_for(self, other: _Search) -> bool:
        """Whether what the other looks for is a special case of what is looked for here, and is not clearly behind:
        then that is likely all there is to find, with far fewer numbers. Or whether a round did not pay here, while
        the other, with about as much evidence and not behind either, still has rounds to go: it may turn out better."""
        if other.is_behind(self):
            return False
        if self._includes(other):
            return True
        return self._unpaid is not None and other._unpaid is None and other._comes_close_to(self)

    def _comes_close_to(self, other: _Search) -> bool:
        clearly = _BY_CHANCE * abs(other.evidence_a_step)
        return self is not other and self.evidence_a_step > other.evidence_a_step - clearly

    def _includes(self, other: _Search) -> bool:
        """Whether the other has the same hypothesis with rows that actions share."""
        return other.hypothesis is self.hypothesis and other._shared and not self._shared

    def lacks_no_states_beside(self, leader: _Search) -> bool:
        """Whether this search has had a turn, and the leader, which is done, had clearly more evidence with fewer
        states, or with as many if the last round here did not pay or the leader's models are special cases of those
        here; with any number if more states cannot make up for it. States in which nothing more happens are not
        counted."""
        if not (self.history and leader.done):
            return False
        mine: float = self._seen.best.ascent.n_going_on + (self._includes(leader) or self._failures > 0)
        if (
            leader._explains_all()
            and self._most_evidence(leader._seen.best) < leader._seen.best.score - _CLEARLY
        ):
            mine = np.inf
        return any(
            n < mine and others > self._seen.best.score + _CLEARLY for n, others in self._beside(leader)
        )

    def _most_evidence(self, explained: Candidate) -> float:
        """What there could be here for a model that tells apart what one does that leaves nothing to explain: as many
        states and as many visited rows, none with more than one entry, which each has to say."""
        counts = explained.ascent.counts
        left: Flags = counts.transitions.sum(axis=2) > USED
        reached: Flags = counts.transitions.sum(axis=1) > USED
        shown = left if self._likelihood.emission == "departure" else reached
        seen: Flags = self._likelihood.log.seen > 0
        if self._shared:
            shown, seen = np.atleast_2d(shown.any(axis=0)), np.atleast_2d(seen.any(axis=0))
        return -least_cost(left, shown, seen.sum(axis=1))

    def _beside(self, leader: _Search) -> Iterator[tuple[int, float]]:
        """States and evidence of what the leader had on the steps that are looked at here, at last of its best model,
        taken as it is."""
        for states, evidence, steps in leader.history:
            if steps == self.steps:
                yield states, evidence
        best = leader._seen.best
        if leader.steps != self.steps:
            yield best.ascent.n_going_on, leader.evidence_on(self.steps)

    def evidence_on(self, steps: int) -> float:
        """For the best model on other steps, as it is."""
        best = self._seen.best
        if self._elsewhere is None or self._elsewhere[:2] != (best, steps):
            likelihood = self.hypothesis.likelihood(steps)
            there = judged(evaluated(possible(best.parameters, likelihood), likelihood), likelihood)
            self._elsewhere = best, steps, there.score
        return self._elsewhere[2]

    # --- rounds -------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Look at what there is, without a climb: little work, done whatever the budget."""
        log, emission = self._likelihood.log, self._likelihood.emission
        # Rows that were learned apart cannot be made one: states may be named anew after every action.
        given = [start for start in self.hypothesis.starts if start.shared or not self._shared]
        shown = np.count_nonzero((log.seen > log.last_seen).any(axis=0))
        if emission == "arrival" and 1 < shown <= self._max_states:
            given.append(smoothed(replace(seen_states(log), shared=self._shared), log))
        starts = (completed(start, log, emission) for start in given)
        self._starts = [
            replace(opened(start, log), shared=self._shared)
            for start in starts
            if start.n_states <= self._max_states
        ]
        for start in (self._single_state(self._likelihood), *self._starts):
            self._record(evaluated(possible(start, self._likelihood), self._likelihood))

    def _single_state(self, likelihood: Likelihood) -> Parameters:
        alone = single_state(likelihood.log, likelihood.emission, shared=self._shared)
        alone = replace(alone, dense=self._dense)
        return alone if alone.n_states <= self._max_states else with_one_end(alone, likelihood.log)

    def advance(self) -> None:
        """The next turn: the first climbs from the given starts, others are rounds, or what is still to be tried after
        one that did not pay. That is most of the work, and by then another hypothesis may have turned out better."""
        if self._starts:
            for start in self._starts:
                self._pruned(self._climb(start))
            self._starts = []
            self._note()
            return
        if self._seen.best.n_states >= self._max_states:
            self.done = True
            return
        if self._unpaid is None:
            self._look_at_more()
            paid = self._round()
        else:
            paid = self._look_harder(self._unpaid)
        self._failures = 0 if paid else self._failures + 1
        self._note()
        if self._failures and self._unpaid is None and self.steps >= self._largest_sample():
            self.done = self._explains_all() or not (self._without_zeros() or self._second_opinion())

    def _look_at_more(self) -> None:
        """Go on to the steps that the next round needs."""
        wanted = self._wanted_sample()
        if wanted > self.steps:
            self.move_to(wanted)

    def _note(self) -> None:
        self.history.append((self._seen.best.ascent.n_going_on, self._seen.best.score, self.steps))

    def _without_zeros(self) -> bool:
        """Whether there is more evidence for the best model if any outcome is possible in all of its rows; asked where
        it uses most of its transitions."""
        best = self._seen.best
        if best.parameters.dense or not self._uses_most_entries():
            return False
        start = replace(smoothed(best.parameters, self._likelihood.log), dense=True)
        found = self._pruned(self._climb(start))
        self._rounds.append(
            f"{self._likelihood.steps} steps: {best.n_states} states without zeros pruned to {found.n_states}, "
            f"evidence {best.score:.1f} to {found.score:.1f}"
        )
        return self._seen.best.score > best.score + _IMPROVEMENT

    def _second_opinion(self) -> bool:
        """Whether a search from scratch, with other random numbers, leads to more evidence; asked once. For a model
        without zeros, whose states are faint, with as much of the log from its beginning."""
        if self._asked:
            return False
        self._asked, before = True, self._seen.best.score
        anew, dense = replace(self.hypothesis, starts=()), self._seen.best.parameters.dense
        other = _Search(anew, self._max_states, self._thorough, self._rng, shared=self._shared, dense=dense)
        if dense:
            other._likelihood = self._likelihood
        other._asked = True
        other.begin()
        while not (other.done or (other._failures and other._unpaid is None)):
            if not other._starts:
                other._look_at_more()
            if other.history and other._has_come_to_the_end_of(self):
                break
            other.advance()
        self.work += other.work
        ratio = self.steps / max(other.steps, 1)
        for found in (other._seen.best, other._seen.promising(ratio)):
            if found is not None:
                self._pruned(self._climb(self._moved(found)))
        self._rounds.append(
            f"{self._likelihood.steps} steps: from scratch{' without zeros' * dense} to "
            f"{other._seen.best.n_states} states, "
            f"evidence {before:.1f} to {self._seen.best.score:.1f}"
        )
        self._failures = 0
        return self._seen.best.score > before + _IMPROVEMENT

    def _has_come_to_the_end_of(self, other: _Search) -> bool:
        """Whether this search stands where the other did on the same steps with as many states as it ended with: the
        same evidence, so the same model. The rounds that followed led nowhere."""
        best = self._seen.best
        states = best.ascent.n_going_on
        return states == other._seen.best.ascent.n_going_on and any(
            (states, self.steps) == (n, on) and abs(best.score - others) < _IMPROVEMENT
            for n, others, on in other.history
        )

    def _uses_most_entries(self) -> bool:
        """Whether the best model uses more than half of the transitions that the states it leaves might have."""
        counts = self._seen.best.ascent.counts.transitions
        left = counts[counts.sum(axis=2) > USED]
        return bool((left > USED).sum() > _MOST * left.size)

    def _explains_all(self) -> bool:
        """Whether a further state could not gain what it costs."""
        return self._seen.best.log_likelihood > -_LEAST_PRICE

    def _round(self) -> bool:
        """Double, climb, prune. True if that paid: in more states, or in a clearly better model. Where it did not, and
        there is no more of the log to look at, more is to be tried."""
        self._disentangle()
        best = self._with_its_zeros()
        whole = self.steps >= self._largest_sample()
        doubled, pruned = self._doubled_and_pruned(best)
        paid = self._conclude(best, pruned)
        if whole and not (paid or self._explains_all()):
            self._unpaid = doubled
        return paid

    def _look_harder(self, unpaid: _Doubled) -> bool:
        """After a round that did not pay: all doublings, if one alone was tried; then one state more and, unless that
        pays or all that was gained is noise, entries saved and the other doublings: which of them pays cannot be told
        by a short climb. True if one does."""
        self._unpaid, best, doubled = None, unpaid.before, unpaid
        found: list[Candidate] = []
        if not doubled.others:
            doubled, pruned = self._doubled_and_pruned(best)
            found.append(pruned)
        if not any(self._pays(pruned, best) for pruned in found):
            found.append(self._one_more(doubled.climbed, best))
            done = self._pays(found[-1], best) or self._explains_all()
            if not (done or self._is_noise(doubled.climbed, best)):
                others = [self._saving(doubled.climbed), *map(self._climb, doubled.others)]
                found += map(self._pruned, others)
        return self._conclude(best, max(found, key=lambda pruned: pruned.score))

    def _conclude(self, before: Candidate, pruned: Candidate) -> bool:
        """Whether a round paid, from the best model before it."""
        self._rounds.append(
            f"{self._likelihood.steps} steps: {before.n_states} states doubled and pruned to {pruned.n_states}, "
            f"evidence {before.score:.1f} to {pruned.score:.1f}"
        )
        reached = self._seen.best
        self._grew = reached.n_states > before.n_states
        paid = reached.score > before.score + (_IMPROVEMENT if self._grew else _CLEARLY)
        if not paid:
            self._stickiness = STICKINESS  # the one that paid before does no longer: now they are compared
        return paid

    def _doubled_and_pruned(self, best: Candidate) -> tuple[_Doubled, Candidate]:
        """Doublings after short climbs, the most promising one climbed, and what is left of it."""
        first, *others = self._doublings(best)
        doubled = _Doubled(best, self._climb(first), others[: len(STICKINESS) - 1])
        return doubled, self._pruned(doubled.climbed, best)

    def _pays(self, found: Candidate, best: Candidate) -> bool:
        """Whether there is more evidence for more states; or clearly more for any number, where states are many, of
        which rounds that grow leave some over."""
        if found.n_states > best.n_states:
            return found.score > best.score + _IMPROVEMENT
        return best.n_states > MANY_STATES and found.score > best.score + _CLEARLY

    def _is_noise(self, doubled: Candidate, best: Candidate) -> bool:
        """Whether a doubled model gained no more than noise does with so many numbers more: then other doublings, and
        the same with fewer entries, have nothing to find. With few states they cost little and states may be faint:
        there noise is what is left of a parabola, up to two standard deviations, which are less than a state costs."""
        gained, numbers = doubled.log_likelihood - best.log_likelihood, doubled.free - best.free
        if best.n_states > DENSE_STATES:
            return gained < _NOISE_GAIN * numbers
        return bool(gained < numbers / 2 + 2 * np.sqrt(max(numbers, 0) / 2))

    def _disentangle(self) -> None:
        """Climb from the best model blurred, as long as that may lead clearly above it: what two states share crosswise
        no doubling takes apart."""
        best = self._seen.best
        start, least = blurred_states(best.ascent), best.log_likelihood + _CLEARLY
        if start is not None:
            found = self._climbed(start, _PASSES, least)
            if found.log_likelihood > least:
                self._climb(found.parameters)

    def _with_its_zeros(self) -> Candidate:
        """The best model. On the whole sample one with many states is first given the zeros that it can do with:
        otherwise the round would find these, be taken for a success, and be followed by another. With few states that
        costs little, and a state that is still missed may hide in what would be closed; with many it waits until a
        round finds no more states."""
        best = self._seen.best
        grows = best.n_states >= MANY_STATES and self._grew
        if best.n_states > DENSE_STATES and self.steps >= self._largest_sample() and not grows:
            self._saving(best)
        return self._seen.best

    def _doublings(self, best: Candidate) -> list[Parameters]:
        """Twice the states after short climbs, the most promising first. The stickiness that paid in the last round is
        not compared with others again; where several are on the largest sample, all of it is looked at, since what
        takes long to show is rare."""
        parted = with_endings(best.parameters, self._likelihood.log, self._likelihood.emission)
        stickiness, likelihood = self._stickiness, self._for_probes(best.n_states)
        if len(stickiness) > 1 and self.steps >= self._largest_sample():
            stickiness, likelihood = (LONG_MEMORY, *stickiness), self._likelihood
        probes = {
            sticky: self._climbed(doubled_states(parted, sticky, self._rng), _PROBING_PASSES, on=likelihood)
            for sticky in stickiness
        }
        promising = sorted(probes, key=lambda sticky: -probes[sticky].log_likelihood)
        self._stickiness = tuple(promising[:1])
        return [probes[sticky].parameters for sticky in promising]

    def _one_more(self, doubled: Candidate, best: Candidate) -> Candidate:
        """The best model with a single state more: the doubled one with the best pairs merged, or the one before with a
        state split; also with as few entries as it can do with."""
        chosen = disjoint_pairs(merge_gains(doubled).pairs)[: doubled.n_states - best.n_states - 1]
        merged = merged_states(doubled.parameters, chosen, doubled.ascent.visits)
        common = np.argsort(-np.where(best.parameters.terminal, 0.0, best.ascent.visits), kind="stable")
        likelihood = self._for_probes(best.n_states)
        probes = [
            self._climbed(split_state(best.parameters, int(state), self._rng), _PROBING_PASSES, on=likelihood)
            for state in common[: min(_SPLITS, best.ascent.n_going_on)]
        ]
        probes.sort(key=lambda ascent: -ascent.log_likelihood)
        starts = [merged, *(probe.parameters for probe in probes[:_SPLITS_KEPT])]
        found = [self._climb(start) for start in starts]
        first = max(found, key=lambda candidate: candidate.score)
        return max(first, self._saving(first), key=lambda candidate: candidate.score)

    def _saving(self, candidate: Candidate) -> Candidate:
        """The model after `thrifty` and a climb. With fewer entries it costs less, and states are merged more easily
        that have less to differ in."""
        if candidate.parameters.dense:
            return candidate
        start = thrifty(candidate.ascent, self._likelihood)
        return candidate if start is None else self._climb(start)

    # --- samples --------------------------------------------------------------------------------------

    def _wanted_sample(self) -> int:
        """Steps for the next round: as many as there may be if the last one did not pay, before the search gives up.
        Not at once: by then another may be done, and nothing be left to look for."""
        largest = self._largest_sample()
        if self._failures:
            return largest
        states = self._seen.best.n_states
        many = max(states - MANY_STATES, 0)
        wanted = max(self.steps, _STEPS_PER_STATE * (states - many) + _STEPS_PER_FURTHER_STATE * many)
        return largest if states < MANY_STATES and wanted > _MOST_OF_IT * largest else min(wanted, largest)

    def _largest_sample(self) -> int:
        whole = len(self.hypothesis.log)
        most = max(_LARGEST_SAMPLE, _MOST_PER_STATE * self._seen.best.n_states)
        if self._thorough or most >= whole:
            return whole
        return self.steps if self.steps < most < _TELLS_MORE * self.steps else most

    def move_to(self, steps: int) -> None:
        """Continue on a larger part of the log, from the best model, one with more states that should be better there,
        and a single state: scores of the smaller part do not compare."""
        larger, before, fewer = self.hypothesis.likelihood(steps), self._seen, self.steps
        self._likelihood, self._seen = larger, _Seen(self._max_states)
        self._record(evaluated(self._single_state(larger), larger))
        self._climb(self._moved(before.best))
        promising = before.promising(steps / max(fewer, 1))
        if promising is not None:
            best = self._seen.best
            found = self._pruned(self._climb(self._moved(promising)))
            self._rounds.append(
                f"{steps} steps: {promising.n_states} states taken up and pruned to {found.n_states}, "
                f"evidence {best.score:.1f} to {found.score:.1f}"
            )

    def _moved(self, candidate: Candidate) -> Parameters:
        """A model of another part of the log, to climb from on this one."""
        log, parameters = self._likelihood.log, candidate.parameters
        ended = with_endings(parameters, log, self._likelihood.emission)
        return opened(parameters if ended.n_states > self._max_states else ended, log)

    # --- climbing and pruning ---------------------------------------------------------------------------

    def _for_probes(self, states: int) -> Likelihood:
        """Enough of the log to see which of several starts is the most promising. All where states are many: most of it
        would be needed anyway, and the rest is mostly impossible with the zeros that a part leads to."""
        steps = max(_LEAST_SAMPLE, _STEPS_PER_PROBE * states)
        enough = states < MANY_STATES and steps < self.steps
        return self.hypothesis.likelihood(steps) if enough else self._likelihood

    def _climbed(
        self, start: Parameters, passes: int, target: float | None = None, on: Likelihood | None = None
    ) -> Ascent:
        """A climb that is as exact as a comparison needs; what is not used is dropped where that saves time."""
        likelihood = on or self._likelihood
        best = self._seen.models and f", best so far {self._seen.best.n_states}"
        ascent = climb_or_open(
            start,
            likelihood,
            passes=passes,
            gain_tolerance=0.02,
            target=target,
            stage=f"searching ({start.n_states} states{best or ''})",
        )
        self.work += ascent.passes * ascent.counts.work
        return tidied(ascent) if zeros_save_time(start) or uses_few(ascent) else ascent

    def _record(self, ascent: Ascent) -> Candidate:
        """The model judged and remembered, without states that are never visited: one with such states would be
        forgotten, and a search that has moved to another sample begin anew."""
        # A state may be needed once, and yet not be visited more likely than not: then it stays.
        with suppress(NumericalError):
            while (visited := without_unvisited(ascent)) is not None:
                ascent = evaluated(visited, self._likelihood)
        self.work += _JUDGING_PASSES * ascent.counts.work
        return self._seen.record(judged(ascent, self._likelihood))

    def _climb(self, start: Parameters) -> Candidate:
        """Climb as long as another stretch should gain clearly, and not merely what noise gains with so many numbers,
        half a nat each by and by: that twins differ may show late, and stretches begin with coordinates that are scaled
        to where they are."""
        ascent = self._climbed(start, _PASSES)
        for _ in range(_STRETCHES - 1):
            if ascent.pace * _PASSES < max(_CLEARLY, free_parameters(ascent) / 4):
                break
            ascent = self._climbed(ascent.parameters, _PASSES)
        return self._record(ascent)

    def _pruned(self, candidate: Candidate, before: Candidate | None = None) -> Candidate:
        """Merge states while that improves the evidence.

        A merge that costs no more than noise would gain is taken at once. If none is, the one with the most evidence of
        those that were tried is: many pairs, where a model has far too many states, but not those that the log tells
        apart. What was too many pairs is not tried again until half as many were right. Of a model with many states
        that is clearly better than the one ``before`` the round, only those pairs are merged, all at once, that should
        gain: the others are left to the next round.
        """
        current = candidate
        if self._is_growing(current, before):
            return self._with_promising_merged(current)
        most = current.n_states
        while current.n_states > 1:
            if self._seen.is_pruned(current):
                return current
            simpler = self._merged(current, most)
            if simpler is None:
                break
            most = 2 * (current.n_states - simpler.n_states)
            current = simpler
        current = self._climb(self._within_limit(current))
        self._seen.pruned.append((current.n_states, current.score))
        return current

    def _is_growing(self, found: Candidate, before: Candidate | None) -> bool:
        """Whether the round will be followed by another, and a climb for every number of pairs would be dear."""
        return (
            before is not None
            and found.n_states > MANY_STATES
            and found.score > before.score + _CLEARLY
            and found.log_likelihood < -_LEAST_PRICE
        )

    def _with_promising_merged(self, current: Candidate) -> Candidate:
        """The model with all pairs merged that should gain, if that is right."""
        pairs, gains = merge_gains(current)
        chosen = disjoint_pairs(pairs[: int((gains > 0).sum())])
        merged = self._with_merged(current, chosen) if chosen else None
        if merged is None or merged.score < current.score:
            merged = current
        surplus = merged.n_states > self._max_states
        return self._climb(self._within_limit(merged)) if surplus else merged

    def _within_limit(self, candidate: Candidate) -> Parameters:
        """The cheapest pairs merged until no more states are left than were allowed, whatever that costs."""
        current = candidate
        while (surplus := current.n_states - self._max_states) > 0:
            pairs = disjoint_pairs(merge_gains(current).pairs)[:surplus]
            merged = merged_states(current.parameters, pairs, current.ascent.visits)
            current = judged(evaluated(merged, self._likelihood), self._likelihood)
        return current.parameters

    def _merged(self, current: Candidate, most: int) -> Candidate | None:
        """The model with fewer states, by at most so many pairs, or None if none is better. Where there is clearly less
        evidence than for the best model, and no more likelihood than noise gives so many numbers more, only what costs
        no more than noise is merged: one pair at a time would take long to get there."""
        best: Candidate | None = None
        behind = current.score < self._seen.best.score - _CLEARLY and not self._is_likelier(current)
        for pairs in merge_proposals(current, most):
            if behind and len(pairs) == 1:
                break
            merged = self._with_merged(current, pairs)
            if merged is None or merged.score < current.score - _TIE:
                continue
            lost = current.log_likelihood - merged.log_likelihood
            if lost < _NOISE_GAIN * (current.free - merged.free):
                return merged
            if best is None or merged.score > best.score:
                best = merged
            elif len(pairs) > 1 and merged.score < best.score - _CLEARLY:
                break  # more pairs were better, and fewer would not be
        return best

    def _is_likelier(self, candidate: Candidate) -> bool:
        """Whether the best model lacks something that this one has, whatever that costs here."""
        best = self._seen.best
        likelier = candidate.log_likelihood - best.log_likelihood
        return likelier > _CLEARLY + _NOISE_GAIN * max(candidate.free - best.free, 0)

    def _with_merged(self, current: Candidate, pairs: list[tuple[int, int]]) -> Candidate | None:
        """The model with these states merged, or None where the climb has no hope to be worth it."""
        fewer = complete_evidence(merged_counts(current.ascent.counts, pairs))
        target = current.score - fewer - current.hidden  # with less hidden than before it would need more
        start = merged_states(current.parameters, pairs, current.ascent.visits)
        ascent = self._climbed(start, _MERGING_PASSES, target)
        return None if ascent.log_likelihood < target else self._record(ascent)
