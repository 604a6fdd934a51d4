"""The chosen number of states beside others: what nearby models come to once they are climbed and have their zeros."""

from __future__ import annotations

import numpy as np

from unlatch.learn.likelihood.climb import evaluated
from unlatch.learn.likelihood.finish import finished
from unlatch.learn.likelihood.marginal import Candidate, judged, least_cost
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import Parameters
from unlatch.learn.likelihood.search import StateSearch
from unlatch.learn.likelihood.split_merge import merge_gains, merged_states, split_state, without_unvisited
from unlatch.learn.likelihood.starts import DENSE_STATES, climb_or_open, possible
from unlatch.learn.likelihood.zeros import NO_DIFFERENCE, climbed_on, maximize, simplest
from unlatch.learn.significance import USED

__all__ = ["CLOSE", "Rivals"]

CLOSE = 20.0
"""Nats that a longer climb and the zeros of a model may still make up for: within them a hypothesis is climbed too."""

_TRIED = 3
"""Pairs of states whose merging is climbed from, to find the best model with a state fewer, and states whose splitting
is, to find the best with one more."""

_WAYS = 8
"""Ways from one number of states to the next that are gone once more, where models have no zeros, at most."""


class Rivals:
    """The final model of a hypothesis beside those with other numbers of states, each climbed and with its zeros. The
    best is the one with the most evidence, or with fewer states where more make no difference."""

    def __init__(
        self, search: StateSearch, best: Candidate, likelihood: Likelihood, rng: np.random.Generator
    ) -> None:
        self._search, self._rng = search, rng
        self.best, self.likelihood = best, likelihood
        self.finished = {self.best.n_states: self.best}
        self._tried = set(self.finished)
        self._gone: set[tuple[Candidate, int]] = set()  # from which model to which number of states

    def compare(self) -> None:
        """Finish the nearest rivals; one that turns out better takes the place of the best, and has rivals itself.

        A rival that could not come up to another one is not climbed on nor finished, and keeps the score of its short
        climb. Models without zeros have many maxima: from their rivals their own number is climbed to anew.
        """
        while missing := [n for n in self.nearest() if n not in self._tried]:
            self._tried |= set(missing)
            climbed: list[Candidate] = []
            for states in sorted(missing, reverse=True):
                climbed.append(self._climbed(states, max((other.score for other in climbed), default=None)))
            for rival in sorted(climbed, key=lambda rival: -rival.score):
                others = [found.score for n, found in self.finished.items() if n != self.best.n_states]
                if self._add(rival) and _could_reach(rival, max(others, default=-np.inf)):
                    self._add(self._finished(rival))
            self._climb_across()

    def _climb_across(self) -> None:
        """Where models have no zeros, from each of the best one and its neighbors to the numbers of states beside it,
        as long as that leads to better ones. States are split, which takes a climb each, only on the way to the best
        one's number."""
        for _ in range(_WAYS):
            states = self.best.n_states
            near = [
                found for n, found in self.finished.items() if abs(n - states) <= 1 and found.parameters.dense
            ]
            ways = [
                (origin, known)
                for origin in near
                for known in near
                if (origin.n_states == known.n_states + 1 or origin.n_states + 1 == known.n_states == states)
                and (origin, known.n_states) not in self._gone
            ]
            if not (ways and self.best.parameters.dense):
                break
            origin, known = ways[0]
            for start in self.one_off(origin, known.n_states):
                found = judged(maximize(start, self.likelihood), self.likelihood)
                if found.score > known.score + NO_DIFFERENCE:
                    self._add(found)

    def _finished(self, rival: Candidate) -> Candidate:
        """The rival at its maximum with its zeros. One with many states that is then still clearly behind, or has a
        state that is no longer visited, is spared the opening of zeros, which is most of the work."""
        if rival.n_states > DENSE_STATES:
            found = simplest(maximize(rival.parameters, self.likelihood), self.likelihood)
            if found.score < self.best.score - CLOSE or without_unvisited(found.ascent) is not None:
                return found
        return finished(rival.parameters, self.likelihood)

    def _add(self, rival: Candidate) -> bool:
        """Keep a rival, if it is the best of its number of states."""
        rival = self._as_visited(rival)
        known = self.finished.get(rival.n_states)
        if known is not None and rival.score <= known.score:
            return False
        self.finished[rival.n_states] = rival
        self._tried.add(rival.n_states)
        most = max(found.score for found in self.finished.values())
        self.best = min(
            (found for found in self.finished.values() if found.score > most - NO_DIFFERENCE),
            key=lambda candidate: candidate.n_states,
        )
        return True

    def _as_visited(self, rival: Candidate) -> Candidate:
        """The rival without states that are never visited: with them it is no model of more states, and says nothing
        about their number."""
        visited = without_unvisited(rival.ascent)
        if visited is None:
            return rival
        return judged(evaluated(possible(visited, self.likelihood), self.likelihood), self.likelihood)

    def nearest(self) -> list[int]:
        """A state fewer, and the next number above that the search has seen: without zeros a state more, to which one
        is split."""
        states = self.best.n_states
        fewer = [states - 1] if int((~self.best.parameters.terminal).sum()) > 1 else []
        more = [n for n in self._search.models if n > states]
        if self.best.parameters.dense:
            more = [states + 1] * bool(more)
        return fewer + ([min(more)] if more else [])

    def _climbed(self, states: int, target: float | None) -> Candidate:
        """The best model with so many states after a short climb: from that of the search or, for a state fewer or
        more, from the best model with two of its states merged, with one split. What the search has left behind with
        more states than the best was climbed from other models."""
        found = [self._search.models[states].parameters] if states in self._search.models else []
        found += self.one_off(self.best, states)
        if self.best.parameters.dense:  # what noise is and what is not shows late
            climbed = [maximize(start, self.likelihood) for start in found]
        else:
            climbed = [
                climb_or_open(start, self.likelihood, passes=30, target=target, stage="comparing")
                for start in found
            ]
        return max(
            (judged(ascent, self.likelihood) for ascent in climbed),
            key=lambda candidate: (without_unvisited(candidate.ascent) is None, candidate.score),
        )

    def one_off(self, model: Candidate, states: int) -> list[Parameters]:
        """The model with two of its states merged or with one split, if that makes so many states; in a few ways, of
        one without zeros with every state split."""
        self._gone.add((model, states))
        parameters, visits, tried = model.parameters, model.ascent.visits, _TRIED
        if states == model.n_states - 1:
            return [merged_states(parameters, [pair], visits) for pair in merge_gains(model).pairs[:tried]]
        if states != model.n_states + 1:
            return []
        if parameters.dense:
            tried = max(tried, DENSE_STATES)
        common = np.argsort(-np.where(parameters.terminal, 0.0, visits), kind="stable")
        alive = min(tried, model.ascent.n_going_on)
        return [split_state(parameters, int(state), self._rng) for state in common[:alive]]

    def move_to(self, likelihood: Likelihood) -> None:
        """Climb the best and its strongest rival on more of the log; the rival with zeros of its own as far as these
        may bring it close."""
        self.likelihood = likelihood
        first, *others = sorted(self.finished.values(), key=lambda found: -found.score)[:2]
        self.best = self._as_visited(climbed_on(first, likelihood))
        self.finished = {self.best.n_states: self.best}
        for other in others:
            self._add(climbed_on(other, likelihood, self.best.score - CLOSE))


def _could_reach(rival: Candidate, evidence: float) -> bool:
    """Whether a longer climb and zeros might give a rival so much evidence: it has what it has, or keeps no more than
    one entry a row and all of its likelihood."""
    counts = rival.ascent.counts
    _, moves, shown, *_ = counts.blocks
    rows, symbols = shown.sum(axis=-1) > USED, (shown.sum(axis=-2) > 0).sum(axis=-1)
    sparse = -least_cost(moves.sum(axis=-1) > USED, np.atleast_2d(rows), np.atleast_1d(symbols))
    return rival.log_likelihood + max(sparse, rival.complete + rival.hidden) >= evidence - CLOSE
