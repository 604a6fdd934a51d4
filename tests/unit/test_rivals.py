"""The chosen number of states beside its neighbors, each climbed to the end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unlatch import POMDP, simulate
from unlatch.learn.likelihood.climb import climb
from unlatch.learn.likelihood.marginal import Candidate, judged
from unlatch.learn.likelihood.objective import Hypothesis, Likelihood
from unlatch.learn.likelihood.parameters import Parameters
from unlatch.learn.likelihood.rivals import Rivals
from unlatch.learn.likelihood.search import StateSearch

pytestmark = pytest.mark.compiled

STATES = 3


def dense(states: int, seed: int) -> Parameters:
    rng = np.random.default_rng(seed)
    return Parameters(
        initial=np.full(states, 1 / states),
        transitions=rng.dirichlet(np.ones(states), size=(2, states)),
        observations=rng.dirichlet(np.full(4, 0.5), size=(2, states)),
        dense=True,
    )


@pytest.fixture(scope="module")
def hypothesis() -> Hypothesis:
    truth = dense(STATES, seed=0)
    model = POMDP(truth.transitions, truth.observations, truth.initial)
    return Hypothesis(simulate(model, 20_000, rng=0), "departure")


def rivals_of(best: Candidate, hypothesis: Hypothesis, seen: dict[int, Candidate]) -> Rivals:
    likelihood = hypothesis.likelihood()
    search = StateSearch(best, likelihood, {best.n_states: best, **seen}, (), True, hypothesis)
    return Rivals(search, best, likelihood, np.random.default_rng(0))


def climbed(start: Parameters, likelihood: Likelihood) -> Candidate:
    return judged(climb(start, likelihood), likelihood)


def test_without_zeros_a_state_more_is_compared_though_the_search_has_seen_only_many(
    hypothesis: Hypothesis,
) -> None:
    likelihood = hypothesis.likelihood()
    best, many = (climbed(dense(states, 0), likelihood) for states in (STATES, 3 * STATES))
    rivals = rivals_of(best, hypothesis, {many.n_states: many})
    assert rivals.nearest() == [STATES - 1, STATES + 1]
    assert len(rivals.one_off(best, STATES + 1)) == STATES  # every state as two
    assert len(rivals.one_off(best, STATES - 1)) == STATES  # every pair as one
    assert rivals.one_off(best, STATES + 2) == []
    with_zeros = replace(best, ascent=replace(best.ascent, parameters=replace(best.parameters, dense=False)))
    assert rivals_of(with_zeros, hypothesis, {many.n_states: many}).nearest() == [STATES - 1, 3 * STATES]
    assert rivals_of(best, hypothesis, {}).nearest() == [STATES - 1]  # no more were allowed


def test_a_lesser_maximum_is_left_by_way_of_the_neighbors(hypothesis: Hypothesis) -> None:
    """A model whose climb was cut short ends where the one from the truth does, with as many states."""
    likelihood = hypothesis.likelihood()
    best = climbed(dense(STATES, 0), likelihood)
    poor = judged(climb(dense(STATES, 7), likelihood, passes=2), likelihood)
    assert poor.score < best.score - 50
    rivals = rivals_of(poor, hypothesis, {STATES + 1: climbed(dense(STATES + 1, 3), likelihood)})
    rivals.compare()
    assert rivals.best.n_states == STATES
    assert rivals.best.score == pytest.approx(best.score, abs=0.5)
    assert set(rivals.finished) >= {STATES - 1, STATES, STATES + 1}
