"""How many hidden states? Double the model, climb, prune what does not pay, until nothing pays.

Doubling gives every state a copy and the whole model one persistent hidden bit, which is what a corridor needs:
splitting single states shows no gain until the entire chain is split. Merging states back is judged by the
penalized likelihood (BIC), with a parameter counted only where the log expects it to be used.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from unlatch.core.pomdp import Emission
from unlatch.core.progress import report
from unlatch.core.trajectory import Trajectory
from unlatch.learn.likelihood.bic import free_parameters, parameter_price, penalized_likelihood
from unlatch.learn.likelihood.climb import Ascent
from unlatch.learn.likelihood.parameters import EncodedLog, Parameters, encoded_log
from unlatch.learn.likelihood.split_merge import (
    cheapest_pairs,
    disjoint_pairs,
    doubled_states,
    merge_proposals,
    merged_states,
    tidied,
)
from unlatch.learn.likelihood.starts import climb_or_open, opened, single_state

__all__ = ["StateSearch", "search_states"]

_STICKINESS = (0.9, 0.7, 0.5)
"""How persistent the new hidden bit starts out; the best of the three is kept."""

_VISITED = 0.5
"""Expected visits below which a state is there in name only."""

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
_IMPROVEMENT = 0.5
"""Nats of penalized likelihood by which a round must improve to count as a success."""


@dataclass
class StateSearch:
    """The outcome: the best model on the largest sample used, and the best of every state count seen there."""

    best: Ascent
    steps: int
    scores: dict[int, float] = field(default_factory=dict)
    models: dict[int, Ascent] = field(default_factory=dict)
    rounds: list[str] = field(default_factory=list)
    complete: bool = True
    interrupted: bool = False

    def note(self, ascent: Ascent) -> float:
        """Remember a model, unless some of its states are never visited; returns its penalized likelihood."""
        score = penalized_likelihood(ascent, self.steps)
        visits = ascent.counts.observations.sum(axis=(0, 2))
        if visits.min() > _VISITED and score > self.scores.get(ascent.n_states, -np.inf):
            self.scores[ascent.n_states] = score
            self.models[ascent.n_states] = ascent
        return score


def search_states(
    log: Trajectory,
    *,
    starts: tuple[Parameters, ...] = (),
    emission: Emission = "departure",
    max_states: int = 40,
    deadline: float | None = None,
    rng: np.random.Generator,
) -> StateSearch:
    """Find the number of states and a model near the maximum of the likelihood.

    The search works on the first part of the log, and on more of it as states get rarer. It begins from a
    single state and from every model in ``starts``. On Ctrl-C or after ``deadline`` the best so far comes back
    with ``complete`` False.
    """
    searcher = _Searcher(log, emission, max_states, deadline, rng)
    try:
        searcher.run(starts)
    except (KeyboardInterrupt, _OutOfTime) as stop:
        if searcher.state is None:
            raise
        searcher.state.complete = False
        searcher.state.interrupted = isinstance(stop, KeyboardInterrupt)
    assert searcher.state is not None
    return searcher.state


class _OutOfTime(Exception):
    """The deadline has passed."""


class _Searcher:
    def __init__(
        self,
        log: Trajectory,
        emission: Emission,
        max_states: int,
        deadline: float | None,
        rng: np.random.Generator,
    ) -> None:
        self._log, self._emission, self._max_states = log, emission, max_states
        self._deadline, self._rng = deadline, rng
        self.state: StateSearch | None = None
        self._sample: EncodedLog

    # --- rounds -------------------------------------------------------------------------------------

    def run(self, starts: tuple[Parameters, ...]) -> None:
        self._take_sample(_LEAST_SAMPLE)
        first = self._climb(single_state(self._sample), 5)
        self.state = StateSearch(first, len(self._sample))
        score = self.state.note(first)
        for start in starts:
            ascent = self._climb(opened(start, self._sample), _DOUBLING_PASSES)
            pruned = self._pruned(ascent)
            if self.state.note(pruned) > score:
                self.state.best, score = pruned, self.state.note(pruned)
        failures, least = 0, len(self._sample)
        while self._best.n_states < self._max_states:
            wanted = self._wanted_sample(least)
            if wanted > len(self._sample):
                self._move_to(wanted)
            if self._round():
                failures = 0
                continue
            failures += 1
            least = _GROWTH * len(self._sample)  # before giving up, look at more of the log
            if failures >= _PATIENCE and self._wanted_sample(least) <= len(self._sample):
                return

    @property
    def _best(self) -> Ascent:
        assert self.state is not None
        return self.state.best

    def _round(self) -> bool:
        """Double, climb, prune; True if that paid in more states."""
        state = self.state
        assert state is not None
        before = state.note(self._best)
        candidates = [
            self._climb(doubled_states(self._best.parameters, sticky, self._rng), _PROBING_PASSES)
            for sticky in _STICKINESS
        ]
        promising = max(candidates, key=lambda ascent: ascent.log_likelihood)
        doubled = self._climb(promising.parameters, _DOUBLING_PASSES)
        pruned = max(self._pruned(doubled), self._one_more(doubled), key=state.note)
        after = state.note(pruned)
        state.rounds.append(
            f"{len(self._sample)} steps: {self._best.n_states} states doubled and pruned to {pruned.n_states}, "
            f"penalized likelihood {before:.1f} to {after:.1f}"
        )
        grown = pruned.n_states > self._best.n_states and after > before + _IMPROVEMENT
        if after > before:
            state.best = pruned
        return grown

    def _one_more(self, doubled: Ascent) -> Ascent:
        """The doubled model merged to a single state more than the best: what the evidence is about."""
        pairs = disjoint_pairs(cheapest_pairs(doubled.counts))[: self._best.n_states - 1]
        visits = doubled.counts.observations.sum(axis=(0, 2))
        return self._climb(merged_states(doubled.parameters, pairs, visits), _DOUBLING_PASSES)

    # --- samples --------------------------------------------------------------------------------------

    def _wanted_sample(self, least: int) -> int:
        by_states = _STEPS_PER_STATE * 2 * self._best.n_states
        most = max(_LARGEST_SAMPLE, _MOST_PER_STATE * self._best.n_states)
        return min(max(least, by_states), most, len(self._log))

    def _take_sample(self, steps: int) -> None:
        self._sample = encoded_log(self._log.head(steps))

    def _move_to(self, steps: int) -> None:
        """Continue on a larger part of the log: scores of the smaller part no longer compare."""
        self._take_sample(steps)
        best = self._climb(opened(self._best.parameters, self._sample), _DOUBLING_PASSES)
        assert self.state is not None
        self.state = StateSearch(best, len(self._sample), rounds=self.state.rounds)
        self.state.note(best)

    # --- climbing and pruning ---------------------------------------------------------------------------

    def _climb(self, start: Parameters, passes: int, target: float | None = None) -> Ascent:
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise _OutOfTime
        states = len(start.initial)
        ascent = climb_or_open(
            start,
            self._sample,
            emission=self._emission,
            evaluations=passes,
            gain_tolerance=0.02,
            target=target,
            deadline=self._deadline,
            on_step=lambda done, _: report(f"searching ({states} states)", done, passes),
        )
        if ascent.interrupted:
            raise KeyboardInterrupt
        return tidied(ascent) if states > _SPARSE_FROM else ascent

    def _pruned(self, ascent: Ascent) -> Ascent:
        """Merge states while that improves the penalized likelihood.

        A merge that costs no more than noise would gain is taken at once. If none does, the best of the cheapest
        pairs is, so that two states that the log tells apart are not merged merely because the model has too many.
        """
        state = self.state
        assert state is not None
        current, score = ascent, state.note(ascent)
        while current.n_states > 1:
            best: Ascent | None = None
            size = free_parameters(current)
            for proposal in merge_proposals(current):
                removed = current.n_states - len(proposal.initial)
                saved = 2 * size * removed / current.n_states  # at most: rows and columns
                target = score + (size - saved) * parameter_price(len(self._sample))
                merged = self._climb(proposal, _MERGING_PASSES, target)
                loss = current.log_likelihood - merged.log_likelihood
                noise = max(removed * np.log(len(self._sample)), size - free_parameters(merged))
                better = state.note(merged) > score
                if better and loss < noise:
                    best = merged
                    break
                if better and removed == 1 and (best is None or state.note(merged) > state.note(best)):
                    best = merged
            if best is None:
                break
            current, score = best, state.note(best)
        return self._climb(current.parameters, _DOUBLING_PASSES)
