"""Searches side by side: whose turn it is, who waits for whom, and who is given up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from unlatch.arrays import Flags
from unlatch.learn.likelihood.climb import evaluated
from unlatch.learn.likelihood.marginal import Candidate, judged, least_cost
from unlatch.learn.likelihood.rounds import CLEARLY, Search
from unlatch.learn.likelihood.starts import DENSE_STATES, possible
from unlatch.learn.significance import USED

__all__ = ["Participant", "in_turns"]

_HANDICAP = 32
"""A search that is behind has its turn when the leader has worked so many times as much as it will have after that
turn: what those behind spend is a few percent each, and one that is right after all does not wait for a leader that
needs ever more states."""
_BY_CHANCE = 0.02
"""Share of its evidence by which rows by action may be ahead of shared ones that are right, with few states; by
which a hypothesis is behind what was not seen, but lies between what was; and within which two come close."""


def in_turns(participants: Sequence[Participant]) -> None:
    """A turn at a time to the search that has worked least, so that one that needs many states does not hold up one
    that needs few; the work of those that are behind the leader, or can wait for another, counts `_HANDICAP` times. In
    multiplications, not by the clock, so that a seed repeats it."""
    leader, active = participants[0], list(participants)

    def counted(one: Participant) -> float:
        ahead = [other for other in active if not other.is_behind(leader)]
        waits = one.is_behind(leader) or any(one.can_wait_for(other) for other in ahead)
        return _HANDICAP * (one.work + one.next_work) if waits else one.work

    while active:
        min(active, key=counted).advance()
        leader = max(participants, key=lambda one: one.evidence_a_step)
        for one in active:
            one.given_up = one is not leader and one.lacks_no_states_beside(leader)
        active = [one for one in active if not (one.done or one.given_up)]


class Participant:
    """A search beside those for other hypotheses about the same log."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self.last_work = 0.0
        self._elsewhere: dict[tuple[Candidate, int], float] = {}  # evidence for models on other steps

    @property
    def work(self) -> float:
        return self.search.work

    @property
    def done(self) -> bool:
        return self.search.done

    @property
    def given_up(self) -> bool:
        return self.search.given_up

    @given_up.setter
    def given_up(self, given_up: bool) -> None:
        self.search.given_up = given_up

    @property
    def best(self) -> Candidate:
        return self.search.seen.best

    @property
    def evidence_a_step(self) -> float:
        return self.best.score / max(self.search.steps, 1)

    @property
    def next_work(self) -> float:
        """What the next turn should take: as much as the last one, more on a larger sample."""
        search = self.search
        larger = 1.0 if search.unpaid else search.wanted_sample() / max(search.steps, 1)
        return self.last_work * max(larger, 1.0)

    def advance(self) -> None:
        before = self.work
        self.search.advance()
        self.last_work = self.work - before

    # --- who waits ------------------------------------------------------------------------------------

    def is_behind(self, leader: Participant) -> bool:
        """Whether the leader had more evidence with as many states: one that leads by its states may yet be caught up
        with. Beside rows by action, which gain something with few states wherever they are, it must be clearly more,
        unless the last round here did not pay."""
        mine, least = self.best.ascent.n_going_on, self.best.score + self._by_chance(leader)
        return self is not leader and leader._had_more(mine, least / max(self.search.steps, 1))

    def _by_chance(self, leader: Participant) -> float:
        """Nats that the leader may be ahead with few states although there is nothing else in its favor."""
        more_rows = self.search.shared and not leader.search.shared
        return _BY_CHANCE * abs(self.best.score) if more_rows and not self.search.failures else 0.0

    def _had_more(self, states: int, evidence: float) -> bool:
        """Whether more evidence a step was seen with no more states. With more than a few, for which turns are dear,
        also whether what lies between that and what was seen with more is clearly more: states are doubled, and
        numbers of them left out."""
        seen = [(n, score / max(steps, 1)) for n, score, steps in self.search.history]
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

    def can_wait_for(self, other: Participant) -> bool:
        """Whether what the other looks for is a special case of what is looked for here, and is not clearly behind:
        then that is likely all there is to find, with far fewer numbers. Or whether a round did not pay here, while
        the other, with about as much evidence and not behind either, still has rounds to go: it may turn out better."""
        if other.is_behind(self):
            return False
        if self._includes(other):
            return True
        return self.search.unpaid is not None and other.search.unpaid is None and other._comes_close_to(self)

    def _comes_close_to(self, other: Participant) -> bool:
        clearly = _BY_CHANCE * abs(other.evidence_a_step)
        return self is not other and self.evidence_a_step > other.evidence_a_step - clearly

    def _includes(self, other: Participant) -> bool:
        """Whether the other has the same hypothesis with rows that actions share."""
        return (
            other.search.hypothesis is self.search.hypothesis
            and other.search.shared
            and not self.search.shared
        )

    # --- who is given up --------------------------------------------------------------------------------

    def lacks_no_states_beside(self, leader: Participant) -> bool:
        """Whether this search has had a turn, and the leader, which is done, had clearly more evidence with fewer
        states, or with as many if the last round here did not pay or the leader's models are special cases of those
        here; with any number if more states cannot make up for it. A lead that the last turn here has more than gained
        is not clear where the two come close. States in which nothing more happens are not counted."""
        if not (self.search.history and leader.done):
            return False
        mine: float = self.best.ascent.n_going_on + (self._includes(leader) or self.search.failures > 0)
        close = min(self._last_gain, _BY_CHANCE * abs(self.best.score))
        lead = max(CLEARLY, close, self._by_chance(leader))
        if leader.search.explains_all() and self._most_evidence(leader.best) < leader.best.score - CLEARLY:
            mine, lead = np.inf, CLEARLY
        return any(n < mine and others > self.best.score + lead for n, others in self._beside(leader, mine))

    @property
    def _last_gain(self) -> float:
        """Nats that the last turn gained on the steps that are looked at now, if it paid, or the one before it if there
        is more to try of what did not: a step's share of what a model costs is less on more steps, and no gain."""
        history = self.search.history[:-1] if self.search.unpaid else self.search.history
        if len(history) < 2 or (self.search.failures and not self.search.unpaid):
            return 0.0
        (_, before, fewer), (_, after, steps) = history[-2:]
        return (after / max(steps, 1) - before / max(fewer, 1)) * self.search.steps

    def _most_evidence(self, explained: Candidate) -> float:
        """What there could be here for a model that tells apart what one does that leaves nothing to explain: as many
        states and as many visited rows, none with more than one entry, which each has to say."""
        counts = explained.ascent.counts
        left: Flags = counts.transitions.sum(axis=2) > USED
        reached: Flags = counts.transitions.sum(axis=1) > USED
        shown = left if self.search.likelihood.emission == "departure" else reached
        seen: Flags = self.search.likelihood.log.seen > 0
        if self.search.shared:
            shown, seen = np.atleast_2d(shown.any(axis=0)), np.atleast_2d(seen.any(axis=0))
        return -least_cost(left, shown, seen.sum(axis=1))

    def _beside(self, leader: Participant, most: float) -> Iterator[tuple[int, float]]:
        """States and evidence of what the leader had on the steps that are looked at here, at last of its best model
        and of its best with fewer states than ``most``, taken as they are."""
        for states, evidence, steps in leader.search.history:
            if steps == self.search.steps:
                yield states, evidence
        fewer = [model for model in leader.search.seen.models.values() if model.ascent.n_going_on < most]
        for model in [leader.best, *sorted(fewer, key=lambda model: -model.score)[:1]]:
            yield model.ascent.n_going_on, leader.evidence_on(model, self.search.steps)

    def evidence_on(self, model: Candidate, steps: int) -> float:
        """For a model on these or other steps, as it is."""
        if steps == self.search.steps:
            return model.score
        if (model, steps) not in self._elsewhere:
            likelihood = self.search.hypothesis.likelihood(steps)
            there = judged(evaluated(possible(model.parameters, likelihood), likelihood), likelihood)
            self._elsewhere[model, steps] = there.score
        return self._elsewhere[model, steps]
