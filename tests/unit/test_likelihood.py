"""Climbing the likelihood, and what a model costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import naive
import unlatch
from naive import blurred
from sizes import sized
from unlatch import domains, simulate
from unlatch.compare.errors import observation_l1_all, transition_l1
from unlatch.core.budget import Budget, Stopped
from unlatch.core.progress import listening
from unlatch.errors import UsageError
from unlatch.learn.likelihood.bic import free_parameters, penalized_likelihood, structure_cost
from unlatch.learn.likelihood.climb import Ascent, climb
from unlatch.learn.likelihood.coordinates import SquareRoots
from unlatch.learn.likelihood.evidence import weigh
from unlatch.learn.likelihood.forward_backward import expected_counts
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import (
    ExpectedCounts,
    Parameters,
    encoded_log,
    maximization,
    parameters_of,
)
from unlatch.learn.likelihood.refine import refine
from unlatch.learn.likelihood.starts import opened, seen_states, single_state, smoothed, with_endings


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_gradient_is_that_of_the_likelihood(emission: str) -> None:
    model = replace(blurred(domains.tmaze(), 0), emission=emission)
    log = encoded_log(simulate(model, 300, episodes=2, rng=0))
    start = parameters_of(model)
    counts = expected_counts(start, log, emission=emission)  # type: ignore[arg-type]
    roots = SquareRoots(start, counts)
    slope = roots.gradient(roots.start, counts)
    rng = np.random.default_rng(1)
    for i in rng.choice(len(slope), 12, replace=False):
        heights = []
        for step in (1e-4, -1e-4):
            point = roots.start.copy()
            point[i] += step
            heights.append(expected_counts(roots.parameters(point), log, emission=emission).log_likelihood)  # type: ignore[arg-type]
        assert slope[i] == pytest.approx((heights[0] - heights[1]) / 2e-4, rel=1e-4, abs=1e-5)


def test_climb_goes_higher_than_em_in_fewer_passes() -> None:
    truth = domains.directional_hallway()
    log = simulate(truth, 20_000, rng=1)
    start = blurred(truth, 2)
    ascent = climb(parameters_of(start), Likelihood.of(log, "departure"))
    em = unlatch.learn_em(log, 3, initial_model=start, iterations=ascent.passes, rng=0)
    assert ascent.converged
    assert ascent.log_likelihood > em.log_likelihood
    assert ascent.log_likelihood > truth.log_likelihood(log)


def test_climb_keeps_zeros_and_rows() -> None:
    truth = domains.tmaze()
    ascent = climb(parameters_of(truth), Likelihood.of(simulate(truth, 5_000, rng=3), "departure"))
    for rows, given in zip(ascent.parameters, parameters_of(truth), strict=True):
        assert not rows[given == 0].any()
        np.testing.assert_allclose(rows.sum(axis=-1), 1, atol=1e-12)


def test_climb_ends_with_its_budget() -> None:
    likelihood = Likelihood.of(simulate(domains.noisy_hallway(), sized(20_000), rng=0), "departure")
    start = parameters_of(blurred(domains.noisy_hallway(), 0))
    budget, heard = Budget(), []

    def interrupt_at_the_fifth(stage: str, done: float, total: float) -> None:
        heard.append(done)
        if len(heard) == 5:
            budget.interrupt()

    with budget.active(), listening(interrupt_at_the_fifth):
        ascent = climb(start, likelihood)
    assert len(heard) == 5
    assert not ascent.converged
    assert ascent.passes < climb(start, likelihood).passes
    assert ascent.log_likelihood > likelihood.counts(start).log_likelihood
    with budget.active(), pytest.raises(Stopped):
        climb(start, likelihood)  # nothing was seen, so there is nothing to return


def test_climb_gives_up_on_a_target_out_of_reach() -> None:
    likelihood = Likelihood.of(simulate(domains.noisy_hallway(), 20_000, rng=0), "departure")
    start = parameters_of(blurred(domains.noisy_hallway(), 0))
    free = climb(start, likelihood)
    within_reach = climb(start, likelihood, target=free.log_likelihood - 1)
    assert within_reach.log_likelihood >= free.log_likelihood - 1
    hopeless = climb(start, likelihood, target=free.log_likelihood + 10_000)
    assert not hopeless.converged
    assert hopeless.passes < free.passes / 2


def test_climb_survives_a_step_to_where_all_digits_are_lost() -> None:
    """Steps at .2 and then at .8: between two states that all but exclude each other messages underflow."""
    rng = np.random.default_rng(0)
    shown = np.append(rng.random(5_000) < 0.2, rng.random(5_000) < 0.8).astype(int)
    likelihood = Likelihood.of(unlatch.Trajectory(np.zeros(10_000, dtype=int), shown), "departure")
    split = Parameters(
        initial=np.array([1.0, 0.0]),
        transitions=np.array([[[1 - 1e-12, 1e-12], [1e-12, 1 - 1e-12]]]),
        observations=np.array([[[0.8, 0.2], [0.2, 0.8]]]),
    )
    assert np.isfinite(climb(split, likelihood).log_likelihood)


def test_a_parameter_is_an_entry_that_was_used_and_a_state_costs_one() -> None:
    truth = domains.tmaze()
    ascent = climb(parameters_of(truth), Likelihood.of(simulate(truth, 5_000, rng=3), "departure"))
    rows = [*parameters_of(truth).transitions, *parameters_of(truth).observations]
    expected = sum(int((row > 0).sum()) - 1 for matrix in rows for row in matrix) + truth.n_states - 1
    assert free_parameters(ascent) == expected
    assert penalized_likelihood(ascent, 5_000) == pytest.approx(
        ascent.log_likelihood - 0.5 * expected * np.log(5_000) - structure_cost(ascent)
    )


@pytest.mark.parametrize(("visits", "share"), [(1.0, 1.0), (30.0, 1.0), (300.0, 0.1), (3_000.0, 0.01)])
def test_the_structure_costs_the_choice_of_entries_as_far_as_visits_do_not_establish_it(
    visits: float, share: float
) -> None:
    """A row that leads to one of four states costs log 4, one that leads to two of them log 6, to all nothing."""
    moves = visits * np.array([[[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0.25] * 4, [0, 0, 0, 0]]])
    shown = visits * np.array([[[1.0, 0, 0], [0.5, 0.5, 0], [1, 0, 0], [0, 0, 0]]])  # the third never occurs
    used = ExpectedCounts(np.full(4, 0.25), np.ceil(moves), np.ceil(shown), log_likelihood=0.0)
    parameters = Parameters(np.full(4, 0.25), np.full((1, 4, 4), 0.25), np.full((1, 4, 3), 1 / 3))
    ascent = Ascent(parameters, used, passes=1, gradient=0.0, converged=True)
    expected = np.log(4) + np.log(6) + 2 * np.log(2)
    assert structure_cost(ascent) == pytest.approx(share * expected, rel=0.05)


@pytest.mark.parametrize("name", ["tiger", "tmaze", "sense-float-reset", "directional-hallway"])
def test_refine_finds_the_structural_zeros(name: str) -> None:
    truth = domains.by_name(name)
    log = simulate(truth, 50_000, rng=4)
    result = refine(blurred(truth, 5), log)
    assert result.converged
    assert result.gained > 0
    wrongly = (truth.transitions > 0) & (result.pomdp.transitions == 0)
    assert not wrongly.any()
    found = (result.pomdp.transitions == 0) & (truth.transitions == 0)
    assert found.sum() >= 0.9 * (truth.transitions == 0).sum()
    assert observation_l1_all(result.pomdp, truth) < 0.05
    assert transition_l1(result.pomdp, truth) < 0.12


def test_refine_without_zeros_and_with_bad_arguments() -> None:
    truth = domains.tiger()
    log = simulate(truth, 2_000, rng=0)
    assert refine(blurred(truth, 0), log, zeros=False).zeros == 0
    with pytest.raises(UsageError):
        refine(truth, log, passes=0)


def test_refine_opens_zeros_that_the_log_contradicts() -> None:
    truth = domains.tiger()
    log = simulate(truth, 5_000, rng=1)
    rows = truth.observations.copy()
    rows[0, :, :2] = np.eye(2)  # claims that listening is never wrong
    wrong = replace(truth, observations=rows)
    assert wrong.log_likelihood(log) == -np.inf
    result = refine(wrong, log)
    assert result.gained == np.inf
    assert observation_l1_all(result.pomdp, truth) < 0.1


def test_opened_and_smoothed_make_room() -> None:
    log = encoded_log(simulate(domains.tiger(), 500, rng=0))
    closed = Parameters(np.ones(1), np.ones((3, 1, 1)), np.eye(6)[[0, 2, 4]][:, None, :])
    room = opened(closed, log)
    assert (room.observations.sum(axis=1)[log.seen > 0] > 0).all()
    expected_counts(smoothed(closed, log), log)  # would raise if a step were impossible
    assert single_state(log).observations.shape == (3, 1, 6)


def test_learn_pomdp_refined_beats_the_spectral_model() -> None:
    truth = domains.tmaze()
    log = simulate(truth, 20_000, rng=5)
    result = unlatch.learn_pomdp(log, rng=0)
    assert result.states == result.spectral.rank == 4
    assert result.evidence is not None
    assert result.evidence.states == 4
    assert result.evidence.gap > 5
    assert result.log_likelihood == result.pomdp.log_likelihood(log)
    assert result.log_likelihood > result.spectral.pomdp.log_likelihood(log)
    assert observation_l1_all(result.pomdp, truth) < 0.02
    again = unlatch.learn_pomdp(log, rng=0)
    assert again.pomdp == result.pomdp


def test_learn_pomdp_with_a_fixed_number_of_states() -> None:
    log = simulate(domains.tmaze(), 10_000, rng=6)
    result = unlatch.learn_pomdp(log, states=3, rng=0)
    assert result.pomdp.n_states == 3
    assert result.evidence.fixed
    more = unlatch.learn_pomdp(log, states=5, rng=0)
    assert more.states == 5
    assert more.evidence.gap == 0  # four states are worth more
    assert "5 states as asked; 4 score" in str(more.evidence)
    with pytest.raises(UsageError, match="rank=4 would be a spectral model of more states"):
        unlatch.learn_pomdp(log, states=3, rank=4)
    with pytest.raises(UsageError, match="refine"):
        unlatch.learn_pomdp(log, refine="yes")  # type: ignore[arg-type]


def test_evidence_in_words_and_numbers() -> None:
    sure = weigh(3, {2: -150.0, 3: -100.0, 4: -130.0}, 1000, True)
    assert (sure.runner_up, sure.gap, sure.steps_to_settle) == (4, 30.0, 0)
    unsure = weigh(3, {2: -101.0, 3: -100.0}, 1000, True)
    assert unsure.steps_to_settle == 4000
    assert "4000 more steps" in str(unsure)
    assert weigh(1, {1: 0.0}, 10, False).runner_up is None
    assert weigh(2, {2: 0.0, 3: -1.0}, 10, True).steps_to_settle is None


# --- rows that all actions share ------------------------------------------------------------------------


def shared_start() -> Parameters:
    rng = np.random.default_rng(0)
    return Parameters(
        initial=np.array([0.5, 0.5]),
        transitions=rng.dirichlet(np.ones(2), (3, 2)),
        observations=np.tile(rng.dirichlet(np.ones(4), 2), (3, 1, 1)),
        shared=True,
    )


def test_shared_rows_are_among_the_numbers_once() -> None:
    start = shared_start()
    assert [block.shape for block in start] == [(2,), (3, 2, 2), (1, 2, 4)]
    other = np.random.default_rng(1).dirichlet(np.ones(4), (1, 2))
    moved = start.with_blocks([start.initial, start.transitions, other])
    assert moved.shared
    np.testing.assert_array_equal(moved.observations, np.repeat(other, 3, axis=0))
    assert [block.shape for block in replace(start, shared=False)] == [(2,), (3, 2, 2), (3, 2, 4)]


def test_uses_of_shared_rows_are_added_up_over_actions() -> None:
    start = shared_start()
    rng = np.random.default_rng(2)
    log = encoded_log(unlatch.Trajectory(rng.integers(3, size=200), rng.integers(4, size=200)))
    shared = expected_counts(start, log)
    apart = expected_counts(replace(start, shared=False), log)
    assert shared.log_likelihood == apart.log_likelihood
    np.testing.assert_allclose(shared.blocks[2][0], apart.observations.sum(axis=0))
    np.testing.assert_allclose(shared.observations, apart.observations)
    better = maximization(shared, start)
    assert (better.observations == better.observations[:1]).all()
    shown = apart.observations.sum(axis=0)
    np.testing.assert_allclose(better.observations[1], shown / shown.sum(axis=1, keepdims=True))
    assert expected_counts(better, log).log_likelihood > shared.log_likelihood
    few = Ascent(start, shared, passes=1, gradient=0.0, converged=True)
    many = Ascent(replace(start, shared=False), apart, passes=1, gradient=0.0, converged=True)
    assert (
        free_parameters(many) - free_parameters(few) == 2 * 2 * 3
    )  # of three actions, two states, four symbols


def test_the_gradient_of_shared_rows_is_that_of_the_likelihood() -> None:
    start = shared_start()
    rng = np.random.default_rng(2)
    log = encoded_log(unlatch.Trajectory(rng.integers(3, size=200), rng.integers(4, size=200)))
    counts = expected_counts(start, log)
    roots = SquareRoots(start, counts)
    slope = roots.gradient(roots.start, counts)
    for i in range(len(slope)):
        heights = []
        for step in (1e-4, -1e-4):
            point = roots.start.copy()
            point[i] += step
            heights.append(expected_counts(roots.parameters(point), log).log_likelihood)
        assert slope[i] == pytest.approx((heights[0] - heights[1]) / 2e-4, rel=1e-4, abs=1e-5)


def test_shared_rows_stay_shared_when_they_are_opened_or_smoothed() -> None:
    start = shared_start()
    rows = start.observations.copy()
    rows[:, :, 3] = 0.0
    closed = replace(start, observations=rows / rows.sum(axis=2, keepdims=True))
    log = encoded_log(unlatch.Trajectory([0, 1, 2, 0], [0, 1, 2, 3], ("a", "b", "c"), ("w", "x", "y", "z")))
    for other in (opened(closed, log), smoothed(closed, log)):
        assert other.shared
        np.testing.assert_array_equal(other.observations, np.repeat(other.observations[:1], 3, axis=0))
        assert (other.observations[:, :, 3] > 0).all()
        np.testing.assert_allclose(other.observations.sum(axis=2), 1)


# --- a state for every observation ----------------------------------------------------------------------


def test_a_state_for_every_observation_leads_where_it_was_seen_to_lead() -> None:
    truth = domains.room(["rg", "bw"], slip=0.3)
    log = simulate(truth, 400, episodes=2, rng=0)
    found = seen_states(encoded_log(log))
    assert found.n_states == 4
    np.testing.assert_array_equal(found.observations, np.tile(np.eye(4), (4, 1, 1)))
    counts = np.zeros((4, 4, 4))
    for t in range(1, len(log)):
        if t not in log.episode_starts:
            counts[log.actions[t], log.observations[t - 1], log.observations[t]] += 1
    np.testing.assert_allclose(found.transitions, counts / counts.sum(axis=2, keepdims=True))


def test_a_state_for_every_observation_is_the_whole_truth_of_a_room_without_noise() -> None:
    truth = domains.room(["rg", "bw"], slip=0.3)
    log = simulate(truth, sized(2_000), rng=0)
    likelihood = Likelihood.of(log, "arrival")
    start = seen_states(likelihood.log)
    assert climb(start, likelihood).log_likelihood < likelihood.counts(start).log_likelihood + 2
    assert likelihood.counts(start).log_likelihood > truth.log_likelihood(log) - 2


def test_observations_that_only_come_last_are_ends_and_no_states() -> None:
    log = encoded_log(naive.simulate_episodes(naive.corridor(0.2), np.random.default_rng(0), episodes=300))
    found = seen_states(log)
    assert found.n_states == 2
    assert (found.transitions.argmax(axis=2) == [[1, 0], [1, 0]]).all()  # as far as it goes on
    whole = with_endings(found, log, "arrival")
    assert whole.terminal.tolist() == [False, False, True, True]
    climbed = climb(whole, Likelihood(log, "arrival")).parameters
    np.testing.assert_allclose(climbed.transitions, naive.corridor(0.2).transitions, atol=0.1)


def test_an_observation_that_no_step_follows_leads_anywhere() -> None:
    log = unlatch.Trajectory([0, 0, 0], [0, 0, 1], ("a",), ("x", "y"))
    np.testing.assert_allclose(seen_states(encoded_log(log)).transitions, [[[0.5, 0.5], [0.5, 0.5]]])
