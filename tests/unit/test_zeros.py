"""Zeros: which entries are closed, which are kept, and what is left when time is up."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import unlatch
from naive import blurred
from sizes import sized
from unlatch import POMDP, domains, learn_pomdp, simulate
from unlatch.core.budget import Budget, Stopped
from unlatch.core.progress import listening
from unlatch.learn.likelihood.climb import Ascent, climb, evaluated
from unlatch.learn.likelihood.marginal import judged, unseen_odds
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import ExpectedCounts, Parameters, parameters_of
from unlatch.learn.likelihood.sparse_em import thrifty
from unlatch.learn.likelihood.zeros import maximize, simplest, with_established_zeros
from unlatch.learn.significance import UNSEEN
from unlatch.study.random_models import random_model


def test_thrift_closes_what_is_hardly_used_and_keeps_what_is_needed() -> None:
    # one action; state 1 is entered three times in all, and only there the second symbol is seen
    observations = np.zeros(3_000, dtype=np.int64)
    observations[[500, 1_500, 2_500]] = 1
    log = unlatch.Trajectory(np.zeros(3_000, dtype=np.int64), observations, ("a",), ("x", "y"))
    likelihood = Likelihood.of(log, "departure")
    start = Parameters(
        initial=np.array([0.999, 0.001]),
        transitions=np.array([[[0.99, 0.01], [0.9, 0.1]]]),
        observations=np.array([[[0.999, 0.001], [0.01, 0.99]]]),
    )
    saved = thrifty(evaluated(start, likelihood), likelihood)
    assert saved is not None
    counts = likelihood.counts(saved)  # possible: the way to the second symbol was opened again
    assert counts.log_likelihood > -40
    assert any((rows == 0).any() for rows in saved.blocks[1:])
    whole = evaluated(start, likelihood)
    with Budget(1e-9).active(), pytest.raises(Stopped):
        thrifty(whole, likelihood)


def zeros_of(parameters: Parameters) -> int:
    return sum(int((rows == 0).sum()) for rows in parameters)


def test_zeros_found_from_far_are_as_good_as_those_found_from_the_truth() -> None:
    """The evidence for a sparse random model, from a start without a zero."""
    truth = random_model(5)
    log = simulate(truth, 30_000, rng=2)
    likelihood = Likelihood.of(log, "departure", truth)
    reference = simplest(maximize(parameters_of(truth), likelihood), likelihood)
    whole = maximize(parameters_of(blurred(truth, 3, weight=0.3)), likelihood)
    found = simplest(whole, likelihood)
    assert found.ascent.converged
    assert found.score > reference.score - 1
    assert zeros_of(found.parameters) > zeros_of(whole.parameters) + 50


def test_an_entry_that_is_worth_its_price_stays() -> None:
    """Three wrong observations in five thousand steps cannot be explained otherwise."""
    truth = domains.tiger()
    log = simulate(truth, 5_000, rng=0)
    likelihood = Likelihood.of(log, "departure", truth)
    whole = maximize(parameters_of(blurred(truth, 1)), likelihood)
    sparse = simplest(whole, likelihood)
    assert zeros_of(sparse.parameters) > zeros_of(whole.parameters)
    assert sparse.score > judged(whole, likelihood).score - 0.5  # what is not used costs nothing, and goes
    assert not sparse.parameters.transitions[0][~np.eye(2, dtype=bool)].any()  # listening moves nothing
    assert sparse.score == judged(sparse.ascent, likelihood).score
    assert (sparse.parameters.observations[0, :, :2] > 0).all()  # listening is wrong now and then


@pytest.mark.parametrize("reports", [1, 4, 8])
def test_when_time_is_up_the_zeros_found_by_then_are_kept(reports: int) -> None:
    truth = domains.tmaze()
    likelihood = Likelihood.of(simulate(truth, sized(10_000), rng=1), "departure", truth)
    whole = maximize(parameters_of(blurred(truth, 2)), likelihood)
    budget, heard = Budget(), []

    def interrupt(stage: str, done: float, total: float) -> None:
        heard.append(stage)
        if len(heard) == reports:
            budget.interrupt()

    with budget.active(), listening(interrupt):
        if reports == 1:  # in the midst of the first judgment: nothing can be returned
            with pytest.raises(Stopped):
                simplest(whole, likelihood)
            return
        best = simplest(whole, likelihood)
    assert len(heard) == reports  # what is left of the work was not done
    assert zeros_of(best.parameters) >= zeros_of(whole.parameters)
    assert best.score >= judged(whole, likelihood).score - 0.5
    assert likelihood.counts(best.parameters).log_likelihood == best.log_likelihood


# --- zeros that the log had opportunities against -------------------------------------------------------


def visited(visits: np.ndarray, *, shared: bool = False) -> Ascent:
    """Two states that show themselves and an end, of one action or two, whose rows were visited so often."""
    moves = np.array([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    shown = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    parameters = Parameters(
        initial=np.array([1.0, 0.0, 0.0]),
        transitions=np.tile(moves, (2, 1, 1)),
        observations=np.tile(shown, (2, 1, 1)),
        first=np.eye(2)[[0, 1, 0]],
        rewards=np.tile(np.eye(2)[[0, 1, 0]], (2, 1, 1)),
        terminal=np.array([False, False, True]),
        shared=shared,
    )
    counts = ExpectedCounts(
        initial=np.array([1.0, 0.0, 0.0]),
        transitions=(visits * ~parameters.terminal)[:, :, None]
        * parameters.transitions,  # nobody leaves the end
        observations=visits[:, :, None] * parameters.observations,
        log_likelihood=-1.0,
        first=np.array([5.0, 100.0, 0.0])[:, None] * parameters.first,
        rewards=visits[:, :, None] * parameters.rewards,
        shared=shared,
    )
    return Ascent(parameters, counts, passes=1, gradient=0.0, converged=True)


def expected_unseen(uses: np.ndarray, among_states: bool) -> np.ndarray:
    """Entry by entry: half a use among its opportunities, times the odds that it is used at all, for every visit.

    Those of what no state has shown after an action are of all states.
    """
    opportunities, found = np.zeros(uses.shape), np.zeros(uses.shape)
    for index in np.ndindex(uses.shape):
        kind = uses[index[:-2]]
        never = not among_states and kind[:, index[-1]].sum() == 0
        opportunities[index] = kind.sum() if never else uses[index[:-1]].sum()
    odds = unseen_odds(uses, opportunities)
    for index in np.ndindex(uses.shape):
        if uses[index] == 0:
            found[index] = uses[index[:-1]].sum() * 0.5 * odds[index] / max(opportunities[index], 1)
    return found


@pytest.mark.parametrize("shared", [False, True])
def test_zeros_of_rows_with_few_visits_are_opened_and_those_of_many_kept(shared: bool) -> None:
    ascent = visited(np.array([[10.0, 1e5, 10.0], [0.0, 29.0, 10.0]]), shared=shared)
    old = ascent.parameters
    new, opened = with_established_zeros(ascent)
    assert new.shared == shared
    np.testing.assert_array_equal(new.initial, old.initial)
    weak_rows = kept_rows = 0
    old_blocks, counted = old.blocks[1:], ascent.counts.blocks[1:]
    for which, (mine, its, uses) in enumerate(zip(new.blocks[1:], old_blocks, counted, strict=True)):
        np.testing.assert_allclose(mine.sum(axis=-1), 1)
        expected = expected_unseen(uses, which == 0)
        for row in np.ndindex(expected.shape[:-1]):
            more, visits = expected[row].sum(), uses[row].sum()
            if more <= UNSEEN:  # established, or without visits, which means nothing
                np.testing.assert_array_equal(mine[row], its[row])
                kept_rows += 1
                continue
            weak_rows += 1
            np.testing.assert_allclose(mine[row], (visits * its[row] + expected[row]) / (visits + more))
    assert opened == weak_rows > 5
    assert kept_rows >= 6
    assert (new.transitions[0, 0] > 0).all()  # ten visits establish nothing
    np.testing.assert_array_equal(new.transitions[0, 1], old.transitions[0, 1])  # a hundred thousand do
    np.testing.assert_array_equal(new.transitions[1, 0], old.transitions[1, 0])
    np.testing.assert_array_equal(
        new.transitions[:, 2], old.transitions[:, 2]
    )  # nothing leads out of the end


def test_the_more_visits_the_less_is_left_for_what_was_not_seen() -> None:
    left = []
    for visits in (2.0, 10.0, 100.0, 1_000.0):
        new, _ = with_established_zeros(visited(np.full((2, 3), visits)))
        left.append(new.observations[0, 0, 1])
    assert all(more > less for more, less in pairwise(left[:3]))
    assert 0.005 < left[1] < 0.05
    assert left[2] < 0.001


def test_what_a_climb_left_next_to_zero_is_as_unseen_as_a_zero() -> None:
    ascent = visited(np.full((2, 3), 10.0))
    rows, uses = ascent.parameters.observations + 1e-18, ascent.counts.observations + 1e-17
    almost = replace(
        ascent,
        parameters=replace(ascent.parameters, observations=rows / rows.sum(axis=2, keepdims=True)),
        counts=replace(ascent.counts, observations=uses),
    )
    (mine, opened), (its, others) = with_established_zeros(almost), with_established_zeros(ascent)
    assert opened == others
    np.testing.assert_allclose(mine.observations, its.observations, rtol=1e-9)


def test_rows_that_are_shared_are_judged_by_all_their_visits() -> None:
    apart = visited(np.full((2, 3), 20.0))
    together = visited(np.full((2, 3), 20.0), shared=True)
    alone, pooled = (with_established_zeros(ascent)[0].observations for ascent in (apart, together))
    assert (pooled == pooled[:1]).all()
    assert (
        0 < pooled[0, 0, 1] < alone[0, 0, 1] / 2
    )  # forty visits, and half of the odds that twice as many have


def test_a_model_without_weak_rows_stays_as_it_is() -> None:
    truth = domains.tiger()
    log = simulate(truth, 100_000, rng=0)
    ascent = climb(parameters_of(truth), Likelihood.of(log, "departure", truth))
    new, rows = with_established_zeros(ascent)
    assert rows == 0
    for mine, its in zip(new, ascent.parameters, strict=True):
        np.testing.assert_array_equal(mine, its)


@pytest.mark.compiled
def test_what_a_rare_row_did_not_show_is_not_called_impossible() -> None:
    """One action in fifty is a jump, which goes astray now and then: never seen in one log, often in another."""
    ring = np.roll(np.eye(3), 1, axis=1)
    truth = POMDP(
        [0.9 * ring + 0.1 * np.eye(3), 0.9 * ring.T + 0.05 * np.eye(3) + 0.05 * ring],
        np.tile(np.eye(3), (2, 1, 1)),
        [1.0, 0.0, 0.0],
        "arrival",
        ("walk", "jump"),
    )
    log, other = simulate(truth, 1_000, policy=[0.98, 0.02], rng=5), simulate(truth, 1_000, rng=6)
    assert moves_seen(other) > moves_seen(log)  # what every state shows is itself
    result = learn_pomdp(log, emission="arrival", rng=0)
    pomdp = result.pomdp
    assert pomdp.n_states == 3
    note = next(note for note in result.diagnostics if note.name == "weak_rows")
    assert note.details["rows"] >= 1
    walk, jump = (pomdp.action_names.index(name) for name in ("walk", "jump"))
    assert (np.sort(pomdp.transitions[walk])[:, 0] < 0.0005).all()  # three hundred visits each
    assert (np.sort(pomdp.transitions[jump])[:, 0] > 0.005).all()
    assert (pomdp.transitions[jump].max(axis=1) > 0.7).all()
    assert pomdp.log_likelihood(other) > truth.log_likelihood(other) - 50


def moves_seen(log: unlatch.Trajectory) -> set[tuple[int, int, int]]:
    """Observation, next action and next observation, of every two steps in a row."""
    steps = zip(log.actions.tolist(), log.observations.tolist(), strict=True)
    return {(before, action, after) for (_, before), (action, after) in pairwise(steps)}
