"""Climbing the likelihood, setting zeros, searching for the number of states."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

import unlatch
from unlatch import POMDP, domains, simulate
from unlatch.compare.errors import observation_l1_all, transition_l1
from unlatch.errors import UsageError
from unlatch.learn.likelihood.bic import free_parameters, penalized_likelihood
from unlatch.learn.likelihood.climb import climb
from unlatch.learn.likelihood.coordinates import SquareRoots
from unlatch.learn.likelihood.evidence import weigh
from unlatch.learn.likelihood.forward_backward import expected_counts
from unlatch.learn.likelihood.parameters import ExpectedCounts, Parameters, encoded_log, parameters_of
from unlatch.learn.likelihood.refine import refine
from unlatch.learn.likelihood.search import StateSearch, search_states
from unlatch.learn.likelihood.sparse_em import thrifty
from unlatch.learn.likelihood.split_merge import cheapest_pairs, doubled_states, merged_states
from unlatch.learn.likelihood.starts import opened, single_state, smoothed
from unlatch.study.efficiency import random_model


def blurred(model: POMDP, seed: int, weight: float = 0.1) -> POMDP:
    """The model mixed with random rows: near enough to climb back, without a single zero."""
    rng = np.random.default_rng(seed)

    def mixed(rows: np.ndarray) -> np.ndarray:
        return (1 - weight) * rows + weight * rng.dirichlet(np.ones(rows.shape[-1]), rows.shape[:-1])

    return replace(model, transitions=mixed(model.transitions), observations=mixed(model.observations))


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
    ascent = climb(parameters_of(start), encoded_log(log))
    em = unlatch.learn_em(log, 3, initial_model=start, iterations=ascent.evaluations, rng=0)
    assert ascent.converged
    assert ascent.log_likelihood > em.log_likelihood
    assert ascent.log_likelihood > truth.log_likelihood(log)


def test_climb_keeps_zeros_and_rows() -> None:
    truth = domains.tmaze()
    log = encoded_log(simulate(truth, 5_000, rng=3))
    ascent = climb(parameters_of(truth), log)
    for rows, given in zip(ascent.parameters, parameters_of(truth), strict=True):
        assert not rows[given == 0].any()
        np.testing.assert_allclose(rows.sum(axis=-1), 1, atol=1e-12)


def test_climb_honors_its_deadline() -> None:
    log = encoded_log(simulate(domains.noisy_hallway(), 50_000, rng=0))
    ascent = climb(parameters_of(blurred(domains.noisy_hallway(), 0)), log, deadline=time.monotonic())
    assert not ascent.converged
    assert ascent.evaluations < 10


def test_climb_gives_up_on_a_target_out_of_reach() -> None:
    log = encoded_log(simulate(domains.noisy_hallway(), 20_000, rng=0))
    start = parameters_of(blurred(domains.noisy_hallway(), 0))
    free = climb(start, log)
    within_reach = climb(start, log, target=free.log_likelihood - 1)
    assert within_reach.log_likelihood >= free.log_likelihood - 1
    hopeless = climb(start, log, target=free.log_likelihood + 10_000)
    assert not hopeless.converged
    assert hopeless.evaluations < free.evaluations / 2


def test_a_parameter_is_an_entry_that_was_used_and_a_state_costs_one() -> None:
    truth = domains.tmaze()
    log = encoded_log(simulate(truth, 5_000, rng=3))
    ascent = climb(parameters_of(truth), log)
    rows = [*parameters_of(truth).transitions, *parameters_of(truth).observations]
    expected = sum(int((row > 0).sum()) - 1 for matrix in rows for row in matrix) + truth.n_states - 1
    assert free_parameters(ascent) == expected
    assert penalized_likelihood(ascent, 5_000) == pytest.approx(
        ascent.log_likelihood - 0.5 * expected * np.log(5_000)
    )


def test_thrift_closes_what_is_hardly_used_and_keeps_what_is_needed() -> None:
    # one action; state 1 is entered three times in all, and only there the second symbol is seen
    observations = np.zeros(3_000, dtype=np.int64)
    observations[[500, 1_500, 2_500]] = 1
    log = encoded_log(unlatch.Trajectory(np.zeros(3_000, dtype=np.int64), observations, ("a",), ("x", "y")))
    start = Parameters(
        initial=np.array([0.999, 0.001]),
        transitions=np.array([[[0.99, 0.01], [0.9, 0.1]]]),
        observations=np.array([[[0.999, 0.001], [0.01, 0.99]]]),
    )
    saved = thrifty(start, log)
    assert saved is not None
    counts = expected_counts(saved, log)  # possible: the way to the second symbol was opened again
    assert counts.log_likelihood > -40
    assert any((rows == 0).any() for rows in saved[1:])
    assert thrifty(start, log, deadline=time.monotonic() - 1) is None


def test_zeros_found_from_far_are_as_good_as_those_found_from_the_truth() -> None:
    """The penalized likelihood of a sparse random model, from a start without a zero."""
    truth = random_model(5)
    log = simulate(truth, 30_000, rng=2)
    reference = refine(truth, log).ascent
    found = refine(blurred(truth, 3, weight=0.3), log)
    assert found.converged
    assert penalized_likelihood(found.ascent, 30_000) > penalized_likelihood(reference, 30_000) - 1
    assert found.zeros > 50


def test_a_state_that_is_never_visited_does_not_count_as_one_tried() -> None:
    log = encoded_log(simulate(domains.tiger(), 500, rng=0))
    alone = single_state(log)
    twice = Parameters(
        initial=np.array([1.0, 0.0]),
        transitions=np.tile(np.array([[1.0, 0.0], [0.5, 0.5]]), (3, 1, 1)),
        observations=np.repeat(alone.observations, 2, axis=1),
    )
    best = climb(alone, log)
    search = StateSearch(best, len(log))
    search.note(best)
    search.note(climb(twice, log))
    assert set(search.scores) == {1}


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
        refine(truth, log, evaluations=0)


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


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_doubling_keeps_the_likelihood_when_nothing_is_jittered(
    emission: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unlatch.learn.likelihood.split_merge._OBSERVATION_NOISE", 0.0)
    monkeypatch.setattr("unlatch.learn.likelihood.split_merge._TRANSITION_NOISE", 0.0)
    model = replace(blurred(domains.tmaze(), 1), emission=emission)
    log = encoded_log(simulate(model, 400, rng=0))
    doubled = doubled_states(parameters_of(model), 0.9, np.random.default_rng(0))
    before = expected_counts(parameters_of(model), log, emission=emission)  # type: ignore[arg-type]
    after = expected_counts(doubled, log, emission=emission)  # type: ignore[arg-type]
    assert after.log_likelihood == pytest.approx(before.log_likelihood, abs=1e-8)
    pairs = [(2 * s, 2 * s + 1) for s in range(4)]
    merged = merged_states(doubled, pairs, after.observations.sum(axis=(0, 2)))
    for rows, given in zip(merged, parameters_of(model), strict=True):
        np.testing.assert_allclose(rows, given, atol=1e-12)


def test_opened_and_smoothed_make_room() -> None:
    log = encoded_log(simulate(domains.tiger(), 500, rng=0))
    closed = Parameters(np.ones(1), np.ones((3, 1, 1)), np.eye(6)[[0, 2, 4]][:, None, :])
    room = opened(closed, log)
    assert (room.observations.sum(axis=1)[log.seen > 0] > 0).all()
    expected_counts(smoothed(closed, log), log)  # would raise if a step were impossible
    assert single_state(log).observations.shape == (3, 1, 6)


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("tiger", 3_000),
        ("tmaze", 6_000),
        ("sense-float-reset:states=4", 40_000),
        ("directional-hallway", 40_000),
    ],
)
def test_search_finds_the_number_of_states(name: str, steps: int) -> None:
    truth = domains.by_name(name)
    log = simulate(truth, steps, rng=11)
    found = search_states(log, rng=np.random.default_rng(1))
    assert found.best.n_states == truth.n_states
    reference = climb(parameters_of(truth), encoded_log(log.head(found.steps)))
    assert found.best.log_likelihood > reference.log_likelihood - 1
    assert penalized_likelihood(found.best, found.steps) == max(found.scores.values())


def test_search_returns_the_best_so_far_when_time_is_up() -> None:
    log = simulate(domains.tmaze(rooms=3), 20_000, rng=0)
    found = search_states(log, deadline=time.monotonic() + 0.5, rng=np.random.default_rng(0))
    assert not found.complete
    assert found.best.n_states >= 1


def test_learn_pomdp_refined_beats_the_spectral_model() -> None:
    truth = domains.tmaze()
    log = simulate(truth, 20_000, rng=5)
    result = unlatch.learn_pomdp(log, rng=0)
    assert result.pomdp.n_states == result.rank == 4
    assert result.evidence is not None
    assert result.evidence.states == 4
    assert result.evidence.gap > 5
    assert result.spectral is not None
    assert result.pomdp.log_likelihood(log) > result.spectral.log_likelihood(log)
    assert observation_l1_all(result.pomdp, truth) < 0.02
    again = unlatch.learn_pomdp(log, rng=0)
    assert again.pomdp == result.pomdp


def test_learn_pomdp_with_a_fixed_number_of_states() -> None:
    log = simulate(domains.tmaze(), 10_000, rng=6)
    result = unlatch.learn_pomdp(log, states=3, rng=0)
    assert result.pomdp.n_states == 3
    with pytest.raises(UsageError, match="agree"):
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


@pytest.mark.parametrize("moment", [0.1, 0.5, 0.97])
def test_interruption_gives_the_best_model_so_far(moment: float, monkeypatch: pytest.MonkeyPatch) -> None:
    log = simulate(domains.tiger(), 5_000, rng=1)
    calls = 0
    last = 10**9

    def counted(*arguments: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        if calls == last:
            raise KeyboardInterrupt
        return expected_counts(*arguments, **options)  # type: ignore[arg-type]

    for module in ("climb", "zeros", "information", "sparse_em"):
        monkeypatch.setattr(f"unlatch.learn.likelihood.{module}.expected_counts", counted)
    whole = unlatch.learn_pomdp(log, rng=0)
    assert "interrupted" not in whole.diagnostics
    calls, last = 0, int(moment * calls)
    early = unlatch.learn_pomdp(log, rng=0)
    assert "interrupted" in early.diagnostics
    assert calls <= last + 2  # what is left of the work was not done
    assert np.isfinite(early.pomdp.log_likelihood(log))
    assert early.pomdp.n_states in (1, 2)


def test_merging_costs_are_those_of_shared_rows() -> None:
    rng = np.random.default_rng(0)
    counts = ExpectedCounts(
        initial=np.ones(4) / 4,
        transitions=rng.gamma(0.5, 100.0, size=(2, 4, 4)),
        observations=rng.gamma(0.5, 100.0, size=(2, 4, 3)),
        log_likelihood=0.0,
    )

    def height(row: np.ndarray) -> float:
        return float((row * np.log(row / row.sum())).sum())

    def cost(i: int, j: int) -> float:
        total = 0.0
        for a in range(2):
            shown = counts.observations[a]
            total += height(shown[i]) + height(shown[j]) - height(shown[i] + shown[j])
            moves = [
                np.append(np.delete(counts.transitions[a, s], [i, j]), counts.transitions[a, s, [i, j]].sum())
                for s in (i, j)
            ]
            total += height(moves[0]) + height(moves[1]) - height(moves[0] + moves[1])
        return total

    pairs = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    assert cheapest_pairs(counts) == sorted(pairs, key=lambda pair: cost(*pair))


def test_a_rare_state_is_merged_before_two_common_ones_that_are_more_alike() -> None:
    shown = np.array([[[5_000.0, 5_000.0], [4_500.0, 5_500.0], [4.0, 1.0]]])
    moves = np.array([[[5_000.0, 4_998.0, 2.0], [5_000.0, 4_998.0, 2.0], [3.0, 2.0, 0.0]]])
    counts = ExpectedCounts(initial=np.ones(3) / 3, transitions=moves, observations=shown, log_likelihood=0.0)
    assert 2 in cheapest_pairs(counts)[0]
