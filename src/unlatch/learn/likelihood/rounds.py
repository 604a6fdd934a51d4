"""One search for the number of states: double the model, climb, prune what does not pay, until nothing pays.

Doubling gives every state a copy and the whole model one persistent hidden bit, which is what a corridor needs:
splitting single states shows no gain until the entire chain is split. So these are split only where doubling did not
pay. Merging states back is judged by the evidence (`unlatch.learn.likelihood.marginal`), which also says beforehand
which states it should pay to merge.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from unlatch.errors import NumericalError
from unlatch.learn.likelihood.climb import Ascent, evaluated
from unlatch.learn.likelihood.marginal import (
    Candidate,
    complete_evidence,
    expected_lead,
    free_parameters,
    judged,
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

__all__ = [
    "CLEARLY",
    "LARGEST_SAMPLE",
    "LONG_MEMORY",
    "MANY_STATES",
    "MOST_PER_STATE",
    "STICKINESS",
    "Doubled",
    "Search",
    "Seen",
]

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

LARGEST_SAMPLE = 300_000
MOST_PER_STATE = 20_000
"""Steps that a search ends with, and for every state as many where states are so many that each would be seen too
rarely."""

_FORESEEN = 4
"""Times as many steps at most that a search goes on to where it ended, and a model with more states that it has seen
should be ahead there."""

_TELLS_MORE = 1.5
"""Times as many steps for which, with a state or two more, all is looked at anew; not for a tenth more."""

_MOST_OF_IT = 0.5
"""Share of the steps that a search ends with from which it goes on with all of these, unless states are many and so
rounds are dear: a round on them costs less than one that does not pay on so much of them, and is then repeated."""

_STEPS_PER_PROBE = 2_000
_STEPS_PER_SPLIT = 5_000
"""Steps for every state from which it is told which of several starts to climb on from: all states doubled, or one of
them split, of which less is to be seen."""

_PROBING_PASSES = 20
_PASSES = 50
_MERGING_PASSES = 20
"""Passes of a climb at most: to see which start is promising, in a stretch of the way on from it, to see what a merge
costs."""

_STRETCHES = 8
"""Stretches of a climb at most."""

_JUDGING_PASSES = 4
"""Passes that a judgment is counted as. It takes some ten of them with few states, and more with many."""

_SPLITS, _SPLITS_KEPT = 32, 3
"""States that are split one by one where doubling did not pay, the most visited first, and how many of these models are
climbed on. The one that is two may be the rarest: a goal from which episodes begin anew, as in milos-aaai97. Of many
states (`MANY_STATES`) none are: so many short climbs over all of the log would take longer than doubling them."""

_OPENED = 0.02
"""Weight of everything in a model whose zeros are opened."""

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
CLEARLY = 20.0
"""Nats that a longer climb and the zeros of a model do not make up for."""
_MOST = 0.5
"""Share of the transitions that a model must use for it to be worth asking whether all are."""
_LEAST_PRICE = 1.0
"""Nats that a further state costs at least: its rows have to say where they lead and what they show."""


@dataclass
class Seen:
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

    def promising(self, ratio: float, noise: float = 2 * _NOISE_GAIN) -> Candidate | None:
        """The model with more states than the best that should be the furthest ahead of it on so many times as many
        steps, if each of its further numbers has fitted so much ``noise``; None if none should."""
        best = self.best
        leads = {
            states: expected_lead(model, best, ratio, noise)
            for states, model in self.models.items()
            if states > best.n_states
        }
        states = max(leads, key=lambda n: leads[n], default=0)
        return self.models[states] if leads.get(states, 0.0) > 0 else None


class Doubled(NamedTuple):
    """The best model ``before`` a round, with its states doubled and ``climbed``, and ``others``, which looked less
    promising, after short climbs."""

    before: Candidate
    climbed: Candidate
    others: list[Parameters]


class Search:
    """A search under one hypothesis, a turn at a time.

    With ``shared`` its models have rows that actions share, with ``dense`` no zeros. ``seen`` are the models so far on
    the first ``steps`` of the log, ``history`` how many states the best had after every turn; ``failures`` counts the
    rounds since one paid, and ``unpaid`` is what the last one left to try. ``work`` is in multiplications.
    """

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
        self.shared, self._dense = shared, dense
        self.rounds: list[str] = []
        self._starts: list[Parameters] = []
        self.likelihood = hypothesis.likelihood(_LEAST_SAMPLE)
        self.seen = Seen(max_states)
        self._stickiness: tuple[float, ...] = STICKINESS
        self.failures = 0
        self.unpaid: Doubled | None = None
        self._split_in_vain: Candidate | None = None
        self.done = self.given_up = self._asked = self._grew = self.grew_by_one = False
        self.work = 0.0
        self._needed = 0  # steps that should tell more states
        self.history: list[tuple[int, float, int]] = []  # states, evidence and steps, after every round

    @property
    def steps(self) -> int:
        """Of the log that models are compared on."""
        return self.likelihood.steps

    # --- rounds -------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Look at what there is, without a climb: little work, done whatever the budget."""
        log, emission = self.likelihood.log, self.likelihood.emission
        # Rows that were learned apart cannot be made one: states may be named anew after every action.
        given = [start for start in self.hypothesis.starts if start.shared or not self.shared]
        shown = np.count_nonzero((log.seen > log.last_seen).any(axis=0))
        if emission == "arrival" and 1 < shown <= self._max_states:
            given.append(smoothed(replace(seen_states(log), shared=self.shared), log))
        starts = (completed(start, log, emission) for start in given)
        self._starts = [
            replace(opened(start, log), shared=self.shared)
            for start in starts
            if start.n_states <= self._max_states
        ]
        for start in (self._single_state(self.likelihood), *self._starts):
            self.record(evaluated(possible(start, self.likelihood), self.likelihood))

    def _single_state(self, likelihood: Likelihood) -> Parameters:
        alone = single_state(likelihood.log, likelihood.emission, shared=self.shared)
        alone = replace(alone, dense=self._dense)
        return alone if alone.n_states <= self._max_states else with_one_end(alone, likelihood.log)

    def advance(self) -> None:
        """The next turn: the first climbs from the given starts, others are rounds, or what is still to be tried after
        one that did not pay. That is most of the work, and by then another hypothesis may have turned out better."""
        if self._starts:
            for start in self._starts:
                self._pruned(self.climb(start))
            self._starts = []
            self._note()
            return
        if self.seen.best.n_states >= self._max_states:
            self.done = True
            return
        if self.unpaid is None:
            self._look_at_more()
            paid = self.take_round()
        else:
            paid = self._look_harder(self.unpaid)
        self.failures = 0 if paid else self.failures + 1
        self._note()
        ended = self.failures and self.unpaid is None and self.steps >= self._largest_sample()
        if ended and not self._should_pay_on_more():
            self.done = self.explains_all() or not (self._without_zeros() or self._second_opinion())

    def _look_at_more(self) -> None:
        """Go on to the steps that the next round needs."""
        wanted = self.wanted_sample()
        if wanted > self.steps:
            self.move_to(wanted)

    def _note(self) -> None:
        self.history.append((self.seen.best.ascent.n_going_on, self.seen.best.score, self.steps))

    def _without_zeros(self) -> bool:
        """Whether there is more evidence for the best model if any outcome is possible in all of its rows; asked where
        it uses most of its transitions."""
        best = self.seen.best
        if best.parameters.dense or not self._uses_most_entries():
            return False
        start = replace(smoothed(best.parameters, self.likelihood.log), dense=True)
        found = self._pruned(self.climb(start))
        self.rounds.append(
            f"{self.likelihood.steps} steps: {best.n_states} states without zeros pruned to {found.n_states}, "
            f"evidence {best.score:.1f} to {found.score:.1f}"
        )
        return self.seen.best.score > best.score + _IMPROVEMENT

    def _second_opinion(self) -> bool:
        """Whether a search from scratch, with other random numbers, leads to more evidence; asked once. For a model
        without zeros, whose states are faint, with as much of the log from its beginning."""
        if self._asked:
            return False
        self._asked, before = True, self.seen.best.score
        anew, dense = replace(self.hypothesis, starts=()), self.seen.best.parameters.dense
        other = Search(anew, self._max_states, self._thorough, self._rng, shared=self.shared, dense=dense)
        if dense:
            other.likelihood = self.likelihood
        other._asked = True
        other.begin()
        while not (other.done or (other.failures and other.unpaid is None)):
            if not other._starts:
                other._look_at_more()
            if other.history and other._has_come_to_the_end_of(self):
                break
            other.advance()
        self.work += other.work
        ratio = self.steps / max(other.steps, 1)
        for found in (other.seen.best, other.seen.promising(ratio)):
            if found is not None:
                self._pruned(self.climb(self._moved(found)))
        self.rounds.append(
            f"{self.likelihood.steps} steps: from scratch{' without zeros' * dense} to "
            f"{other.seen.best.n_states} states, "
            f"evidence {before:.1f} to {self.seen.best.score:.1f}"
        )
        self.failures = 0
        return self.seen.best.score > before + _IMPROVEMENT

    def _has_come_to_the_end_of(self, other: Search) -> bool:
        """Whether this search stands where the other did on the same steps with as many states as it ended with: the
        same evidence, so the same model. The rounds that followed led nowhere."""
        best = self.seen.best
        states = best.ascent.n_going_on
        return states == other.seen.best.ascent.n_going_on and any(
            (states, self.steps) == (n, on) and abs(best.score - others) < _IMPROVEMENT
            for n, others, on in other.history
        )

    def _uses_most_entries(self) -> bool:
        """Whether the best model uses more than half of the transitions that the states it leaves might have."""
        counts = self.seen.best.ascent.counts.transitions
        left = counts[counts.sum(axis=2) > USED]
        return bool((left > USED).sum() > _MOST * left.size)

    def explains_all(self) -> bool:
        """Whether a further state could not gain what it costs."""
        return self.seen.best.log_likelihood > -_LEAST_PRICE

    def take_round(self) -> bool:
        """Double, climb, prune. True if that paid: in more states, or in a clearly better model. Where it did not, and
        there is no more of the log to look at, more is to be tried. Where the last round did not pay but a single state
        more did, another one is tried first."""
        self._disentangle()
        best = self._with_its_zeros()
        if self.grew_by_one and self.grows_by_one(best):
            return self._conclude(best, self.seen.best, "split to")
        whole = self.steps >= self._largest_sample()
        doubled, pruned = self.doubled_and_pruned(best)
        paid = self._conclude(best, pruned)
        if whole and not (paid or self.explains_all() or self._should_pay_on_more()):
            self.unpaid = doubled
        return paid

    def _should_pay_on_more(self) -> bool:
        """Whether a longer log should tell more states, which then is looked at."""
        more = min(len(self.hypothesis.log), _FORESEEN * self.steps)
        if more < _TELLS_MORE * self.steps or self.seen.promising(more / self.steps, _NOISE_GAIN) is None:
            return False
        self._needed = more
        return True

    def _look_harder(self, unpaid: Doubled) -> bool:
        """After a round that did not pay: one state more, unless that was tried; then all doublings, if one alone was;
        and, unless all that was gained is noise, entries saved and the other doublings: which of them pays cannot be
        told by a short climb. True if one does."""
        self.unpaid, best, doubled = None, unpaid.before, unpaid
        if self.grows_by_one(best, doubled.climbed):
            return self._conclude(best, self.seen.best, "split to")
        found = [best]
        if not doubled.others:
            doubled, pruned = self.doubled_and_pruned(best)
            found.append(pruned)
        done = self._pays(found[-1], best) or self.explains_all()
        if not (done or self._is_noise(doubled.climbed, best)):
            others = [self.saving(doubled.climbed), *map(self.climb, doubled.others)]
            found += map(self._pruned, others)
        return self._conclude(best, max(found, key=lambda pruned: pruned.score))

    def grows_by_one(self, best: Candidate, doubled: Candidate | None = None) -> bool:
        """Whether a single state more pays; asked once of a model. Then another may be one too many: the state before
        it may have stood in its place."""
        if best is self._split_in_vain:
            return False
        found = self.one_more(best, doubled)
        self.grew_by_one = self._pays(found, best)
        if self.grew_by_one:
            self._pruned(found)
        self._split_in_vain = None if self.grew_by_one else best
        return self.grew_by_one

    def _conclude(self, before: Candidate, pruned: Candidate, how: str = "doubled and pruned to") -> bool:
        """Whether a round paid, from the best model before it."""
        self.rounds.append(
            f"{self.likelihood.steps} steps: {before.n_states} states {how} {pruned.n_states}, "
            f"evidence {before.score:.1f} to {pruned.score:.1f}"
        )
        reached = self.seen.best
        self._grew = reached.n_states > before.n_states
        paid = reached.score > before.score + (_IMPROVEMENT if self._grew else CLEARLY)
        if not paid:
            self._stickiness = STICKINESS  # the one that paid before does no longer: now they are compared
        return paid

    def doubled_and_pruned(self, best: Candidate) -> tuple[Doubled, Candidate]:
        """Doublings after short climbs, the most promising one climbed, and what is left of it."""
        first, *others = self._doublings(best)
        doubled = Doubled(best, self.climb(first), others[: len(STICKINESS) - 1])
        return doubled, self._pruned(doubled.climbed, best)

    def _pays(self, found: Candidate, best: Candidate) -> bool:
        """Whether there is more evidence for more states; or clearly more for any number, where states are many, of
        which rounds that grow leave some over."""
        if found.n_states > best.n_states:
            return found.score > best.score + _IMPROVEMENT
        return best.n_states > MANY_STATES and found.score > best.score + CLEARLY

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
        best = self.seen.best
        start, least = blurred_states(best.ascent), best.log_likelihood + CLEARLY
        if start is not None:
            found = self._climbed(start, _PASSES, least)
            if found.log_likelihood > least:
                self.climb(found.parameters)

    def _with_its_zeros(self) -> Candidate:
        """The best model. On the whole sample one with many states is first given the zeros that it can do with:
        otherwise the round would find these, be taken for a success, and be followed by another. With few states that
        costs little, and a state that is still missed may hide in what would be closed; with many it waits until a
        round finds no more states."""
        best = self.seen.best
        grows = best.n_states >= MANY_STATES and self._grew
        if best.n_states > DENSE_STATES and self.steps >= self._largest_sample() and not grows:
            self.saving(best)
        return self.seen.best

    def _doublings(self, best: Candidate) -> list[Parameters]:
        """Twice the states after short climbs, the most promising first. The stickiness that paid in the last round is
        not compared with others again; where several are on the largest sample, all of it is looked at, since what
        takes long to show is rare."""
        parted = with_endings(best.parameters, self.likelihood.log, self.likelihood.emission)
        stickiness, likelihood = self._stickiness, self._for_probes(best.n_states)
        if len(stickiness) > 1 and self.steps >= self._largest_sample():
            stickiness, likelihood = (LONG_MEMORY, *stickiness), self.likelihood
        probes = {
            sticky: self._climbed(doubled_states(parted, sticky, self._rng), _PROBING_PASSES, on=likelihood)
            for sticky in stickiness
        }
        promising = sorted(probes, key=lambda sticky: -probes[sticky].log_likelihood)
        self._stickiness = tuple(promising[:1])
        return [probes[sticky].parameters for sticky in promising]

    def one_more(self, best: Candidate, doubled: Candidate | None = None) -> Candidate:
        """The best model with a single state more: one with a state split, or the doubled model with the best pairs
        merged; also with as few entries as it can do with."""
        starts = [] if best.n_states > MANY_STATES else self._splits(best)
        if doubled is not None:
            chosen = disjoint_pairs(merge_gains(doubled).pairs)[: doubled.n_states - best.n_states - 1]
            starts.append(merged_states(doubled.parameters, chosen, doubled.ascent.visits))
        found = [self.climb(start) for start in starts] or [best]
        likeliest = max(found, key=lambda candidate: candidate.log_likelihood)
        return max(*found, self.saving(likeliest), key=lambda candidate: candidate.score)

    def _splits(self, best: Candidate) -> list[Parameters]:
        """The most promising models with one of the states as two, after short climbs."""
        start = self._with_open_zeros(best)
        common = np.argsort(-np.where(start.terminal, 0.0, best.ascent.visits), kind="stable")
        likelihood = self._for_probes(best.n_states, _STEPS_PER_SPLIT)
        probes = [
            self._climbed(split_state(start, int(state), self._rng), _PROBING_PASSES, on=likelihood)
            for state in common[: min(_SPLITS, best.ascent.n_going_on)]
        ]
        probes.sort(key=lambda ascent: -ascent.log_likelihood)
        return [probe.parameters for probe in probes[:_SPLITS_KEPT]]

    def _with_open_zeros(self, best: Candidate) -> Parameters:
        """The best model; with more than a few states, to which zeros are given as the search goes on, climbed once
        more with all of them open: they hide which state is two, since where the two lead they close."""
        parameters = best.parameters
        if best.n_states <= DENSE_STATES or parameters.transitions.all():
            return parameters
        return self._climbed(smoothed(parameters, self.likelihood.log, _OPENED), _PASSES).parameters

    def saving(self, candidate: Candidate) -> Candidate:
        """The model after `thrifty` and a climb. With fewer entries it costs less, and states are merged more easily
        that have less to differ in."""
        if candidate.parameters.dense:
            return candidate
        start = thrifty(candidate.ascent, self.likelihood)
        return candidate if start is None else self.climb(start)

    # --- samples --------------------------------------------------------------------------------------

    def wanted_sample(self) -> int:
        """Steps for the next round: as many as there may be if the last one did not pay, before the search gives up.
        Not at once: by then another may be done, and nothing be left to look for."""
        largest = self._largest_sample()
        if self.failures:
            return largest
        states = self.seen.best.n_states
        many = max(states - MANY_STATES, 0)
        wanted = max(self.steps, _STEPS_PER_STATE * (states - many) + _STEPS_PER_FURTHER_STATE * many)
        return largest if states < MANY_STATES and wanted > _MOST_OF_IT * largest else min(wanted, largest)

    def _largest_sample(self) -> int:
        whole = len(self.hypothesis.log)
        most = max(LARGEST_SAMPLE, MOST_PER_STATE * self.seen.best.n_states, self._needed)
        if self._thorough or most >= whole:
            return whole
        return self.steps if self.steps < most < _TELLS_MORE * self.steps else most

    def move_to(self, steps: int) -> None:
        """Continue on a larger part of the log, from the best model, one with more states that should be better there,
        and a single state: scores of the smaller part do not compare. Where time ends before the best model is there,
        it stays on the smaller part."""
        larger, smaller, before = self.hypothesis.likelihood(steps), self.likelihood, self.seen
        self.likelihood, self.seen = larger, Seen(self._max_states)
        try:
            self.record(evaluated(self._single_state(larger), larger))
            self.climb(self._moved(before.best))
        except BaseException:
            self.likelihood, self.seen = smaller, before
            raise
        # The model that it goes on for is taken up as readily as it was asked for.
        noise = _NOISE_GAIN if self._needed else 2 * _NOISE_GAIN
        promising = before.promising(steps / max(smaller.steps, 1), noise)
        if promising is not None:
            best = self.seen.best
            found = self._pruned(self.climb(self._moved(promising)))
            self.rounds.append(
                f"{steps} steps: {promising.n_states} states taken up and pruned to {found.n_states}, "
                f"evidence {best.score:.1f} to {found.score:.1f}"
            )

    def _moved(self, candidate: Candidate) -> Parameters:
        """A model of another part of the log, to climb from on this one."""
        log, parameters = self.likelihood.log, candidate.parameters
        ended = with_endings(parameters, log, self.likelihood.emission)
        return opened(parameters if ended.n_states > self._max_states else ended, log)

    # --- climbing and pruning ---------------------------------------------------------------------------

    def _for_probes(self, states: int, each: int = _STEPS_PER_PROBE) -> Likelihood:
        """Enough of the log to see which of several starts is the most promising. All where states are many: most of it
        would be needed anyway, and the rest is mostly impossible with the zeros that a part leads to."""
        steps = max(_LEAST_SAMPLE, each * states)
        enough = states < MANY_STATES and steps < self.steps
        return self.hypothesis.likelihood(steps) if enough else self.likelihood

    def _climbed(
        self, start: Parameters, passes: int, target: float | None = None, on: Likelihood | None = None
    ) -> Ascent:
        """A climb that is as exact as a comparison needs; what is not used is dropped where that saves time."""
        likelihood = on or self.likelihood
        best = self.seen.models and f", best so far {self.seen.best.n_states}"
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

    def record(self, ascent: Ascent) -> Candidate:
        """The model judged and remembered, without states that are never visited: one with such states would be
        forgotten, and a search that has moved to another sample begin anew."""
        # A state may be needed once, and yet not be visited more likely than not: then it stays.
        with suppress(NumericalError):
            while (visited := without_unvisited(ascent)) is not None:
                ascent = evaluated(visited, self.likelihood)
        self.work += _JUDGING_PASSES * ascent.counts.work
        return self.seen.record(judged(ascent, self.likelihood))

    def climb(self, start: Parameters) -> Candidate:
        """Climb as long as another stretch should gain clearly, and not merely what noise gains with so many numbers,
        half a nat each by and by: that twins differ may show late, and stretches begin with coordinates that are scaled
        to where they are."""
        ascent = self._climbed(start, _PASSES)
        for _ in range(_STRETCHES - 1):
            if ascent.pace * _PASSES < max(CLEARLY, free_parameters(ascent) / 4):
                break
            ascent = self._climbed(ascent.parameters, _PASSES)
        return self.record(ascent)

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
            if self.seen.is_pruned(current):
                return current
            simpler = self.merged(current, most)
            if simpler is None:
                break
            most = 2 * (current.n_states - simpler.n_states)
            current = simpler
        current = self.climb(self._within_limit(current))
        self.seen.pruned.append((current.n_states, current.score))
        return current

    def _is_growing(self, found: Candidate, before: Candidate | None) -> bool:
        """Whether the round will be followed by another, and a climb for every number of pairs would be dear."""
        return (
            before is not None
            and found.n_states > MANY_STATES
            and found.score > before.score + CLEARLY
            and found.log_likelihood < -_LEAST_PRICE
        )

    def _with_promising_merged(self, current: Candidate) -> Candidate:
        """The model with all pairs merged that should gain, if that is right."""
        pairs, gains = merge_gains(current)
        chosen = disjoint_pairs(pairs[: int((gains > 0).sum())])
        merged = self.with_merged(current, chosen) if chosen else None
        if merged is None or merged.score < current.score:
            merged = current
        surplus = merged.n_states > self._max_states
        return self.climb(self._within_limit(merged)) if surplus else merged

    def _within_limit(self, candidate: Candidate) -> Parameters:
        """The cheapest pairs merged until no more states are left than were allowed, whatever that costs."""
        current = candidate
        while (surplus := current.n_states - self._max_states) > 0:
            pairs = disjoint_pairs(merge_gains(current).pairs)[:surplus]
            merged = merged_states(current.parameters, pairs, current.ascent.visits)
            current = judged(evaluated(merged, self.likelihood), self.likelihood)
        return current.parameters

    def merged(self, current: Candidate, most: int) -> Candidate | None:
        """The model with fewer states, by at most so many pairs, or None if none is better. Where there is clearly less
        evidence than for the best model, and no more likelihood than noise gives so many numbers more, only what costs
        no more than noise is merged: one pair at a time would take long to get there. For the same reason pairs that
        gained one by one are merged together."""
        best: Candidate | None = None
        gained: list[tuple[float, tuple[int, int]]] = []
        behind = current.score < self.seen.best.score - CLEARLY and not self._is_likelier(current)
        for pairs in merge_proposals(current, most):
            if behind and len(pairs) == 1:
                break
            merged = self.with_merged(current, pairs)
            if merged is None or merged.score < current.score - _TIE:
                continue
            lost = current.log_likelihood - merged.log_likelihood
            if lost < _NOISE_GAIN * (current.free - merged.free):
                return merged
            if len(pairs) == 1:
                gained.append((merged.score, pairs[0]))
            if best is None or merged.score > best.score:
                best = merged
            elif len(pairs) > 1 and merged.score < best.score - CLEARLY:
                break  # more pairs were better, and fewer would not be
        together = disjoint_pairs([pair for _, pair in sorted(gained, reverse=True)])
        if best is None or len(together) < 2:
            return best
        merged = self.with_merged(current, together)
        return best if merged is None or merged.score < best.score else merged

    def _is_likelier(self, candidate: Candidate) -> bool:
        """Whether the best model lacks something that this one has, whatever that costs here."""
        best = self.seen.best
        likelier = candidate.log_likelihood - best.log_likelihood
        return likelier > CLEARLY + _NOISE_GAIN * max(candidate.free - best.free, 0)

    def with_merged(self, current: Candidate, pairs: list[tuple[int, int]]) -> Candidate | None:
        """The model with these states merged, or None where the climb has no hope to be worth it."""
        fewer = complete_evidence(merged_counts(current.ascent.counts, pairs))
        target = current.score - fewer - current.hidden  # with less hidden than before it would need more
        start = merged_states(current.parameters, pairs, current.ascent.visits)
        ascent = self._climbed(start, _MERGING_PASSES, target)
        return None if ascent.log_likelihood < target else self.record(ascent)
