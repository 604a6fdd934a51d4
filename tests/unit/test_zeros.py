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
from unlatch.learn.likelihood.bic import parameter_price, penalized_likelihood
from unlatch.learn.likelihood.climb import Ascent, climb
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import ExpectedCounts, Parameters, parameters_of
from unlatch.learn.likelihood.sparse_em import thrifty
from unlatch.learn.likelihood.zeros import maximize, with_established_zeros
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
    saved = thrifty(start, likelihood)
    assert saved is not None
    counts = likelihood.counts(saved)  # possible: the way to the second symbol was opened again
    assert counts.log_likelihood > -40
    assert any((rows == 0).any() for rows in saved.blocks[1:])
    with Budget(1e-9).active(), pytest.raises(Stopped):
        thrifty(start, likelihood)


def test_zeros_found_from_far_are_as_good_as_those_found_from_the_truth() -> None:
    """The penalized likelihood of a sparse random model, from a start without a zero."""
    truth = random_model(5)
    log = simulate(truth, 30_000, rng=2)
    likelihood = Likelihood.of(log, "departure", truth)
    reference, _ = maximize(parameters_of(truth), likelihood)
    found, zeros = maximize(parameters_of(blurred(truth, 3, weight=0.3)), likelihood)
    assert found.converged
    assert penalized_likelihood(found, 30_000) > penalized_likelihood(reference, 30_000) - 1
    assert zeros > 50


def test_an_entry_that_is_worth_its_price_stays() -> None:
    """Three wrong observations in five thousand steps cannot be explained otherwise."""
    truth = domains.tiger()
    log = simulate(truth, 5_000, rng=0)
    likelihood = Likelihood.of(log, "departure", truth)
    whole, none = maximize(parameters_of(blurred(truth, 1)), likelihood, zeros=False)
    sparse, closed = maximize(parameters_of(blurred(truth, 1)), likelihood)
    assert none == 0
    assert closed > 0
    assert sparse.log_likelihood > whole.log_likelihood - closed * parameter_price(5_000)
    assert (sparse.parameters.observations[0, :, :2] > 0).all()  # listening is wrong now and then


@pytest.mark.parametrize("reports", [1, 30, 50])
def test_when_time_is_up_the_zeros_found_by_then_are_kept(reports: int) -> None:
    truth = domains.tmaze()
    likelihood = Likelihood.of(simulate(truth, sized(10_000), rng=1), "departure", truth)
    start = parameters_of(blurred(truth, 2))
    budget, heard = Budget(), []

    def interrupt(stage: str, done: float, total: float) -> None:
        heard.append(stage)
        if len(heard) == reports:
            budget.interrupt()

    with budget.active(), listening(interrupt):
        best, zeros = maximize(start, likelihood)
    assert len(heard) == reports  # what is left of the work was not done
    vanished = sum(
        int(((before > 0) & (rows == 0)).sum()) for before, rows in zip(start, best.parameters, strict=True)
    )
    assert 0 <= zeros <= vanished  # entries that the climb itself brought to zero are not counted
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


def test_zeros_of_rows_with_few_visits_are_opened_and_those_of_many_kept() -> None:
    ascent = visited(np.array([[10.0, 1_000.0, 10.0], [0.2, 29.0, 10.0]]))
    old = ascent.parameters
    new, rows = with_established_zeros(ascent)
    for block in new:
        np.testing.assert_allclose(block.sum(axis=-1), 1)
    third = np.full(3, 1 / 3)
    np.testing.assert_allclose(new.transitions[0, 0], (10 * old.transitions[0, 0] + third) / 11)
    np.testing.assert_allclose(new.transitions[1, 1], (29 * old.transitions[1, 1] + third) / 30)
    np.testing.assert_allclose(new.observations[0, 0], [10.5 / 11, 0.5 / 11])
    assert new.rewards is not None
    np.testing.assert_allclose(new.rewards[0, 0], [10.5 / 11, 0.5 / 11])
    assert new.first is not None
    np.testing.assert_allclose(new.first[0], [5.5 / 6, 0.5 / 6])
    for kept, before in (
        (new.transitions[0, 1], old.transitions[0, 1]),  # a thousand visits establish a zero
        (new.transitions[1, 0], old.transitions[1, 0]),  # no visit means nothing
        (new.transitions[:, 2], old.transitions[:, 2]),  # nothing leads out of the end
        (new.first[1], old.first[1]),
        (new.initial, old.initial),
    ):
        np.testing.assert_array_equal(kept, before)
    opened = sum(
        int((mine != its).any(axis=-1).sum()) for mine, its in zip(new.blocks, old.blocks, strict=True)
    )
    assert rows == opened == 2 + 4 + 1 + 4  # what the end shows last, and pays, may be luck as well


def test_only_what_was_seen_after_an_action_is_opened() -> None:
    whole = visited(np.full((2, 3), 10.0))
    observations = whole.counts.observations.copy()
    observations[1, :, 1] = 0.0
    ascent = replace(whole, counts=replace(whole.counts, observations=observations))
    new, _ = with_established_zeros(ascent)
    assert new.observations[0, 0, 1] > 0
    assert new.observations[1, 0, 1] == 0  # never seen after the second action


def test_rows_that_are_shared_are_judged_by_all_their_visits() -> None:
    ascent = visited(np.array([[20.0, 5.0, 1.0], [20.0, 5.0, 1.0]]), shared=True)
    new, _ = with_established_zeros(ascent)
    assert new.shared
    np.testing.assert_array_equal(
        new.observations[:, 0], ascent.parameters.observations[:, 0]
    )  # forty visits
    np.testing.assert_allclose(new.observations[:, 1], np.tile([0.5 / 11, 10.5 / 11], (2, 1)))
    assert (new.observations == new.observations[:1]).all()


def test_a_model_without_weak_rows_stays_as_it_is() -> None:
    truth = domains.tiger()
    log = simulate(truth, sized(3_000), rng=0)
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
    assert (pomdp.transitions[walk] == 0).sum() == 3  # three hundred visits each: established
    assert (pomdp.transitions[jump] > 0).all()
    assert (pomdp.transitions[jump].max(axis=1) > 0.7).all()
    assert np.isfinite(pomdp.log_likelihood(other))


def moves_seen(log: unlatch.Trajectory) -> set[tuple[int, int, int]]:
    """Observation, next action and next observation, of every two steps in a row."""
    steps = zip(log.actions.tolist(), log.observations.tolist(), strict=True)
    return {(before, action, after) for (_, before), (action, after) in pairwise(steps)}
