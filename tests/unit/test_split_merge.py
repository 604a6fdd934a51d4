"""Models with more states and with fewer: doubling, merging, and what a merge should cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import naive
from naive import blurred
from unlatch import domains, simulate
from unlatch.learn.likelihood.climb import Ascent, climb, evaluated
from unlatch.learn.likelihood.forward_backward import expected_counts
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import ExpectedCounts, Parameters, encoded_log, parameters_of
from unlatch.learn.likelihood.split_merge import (
    cheapest_pairs,
    disjoint_pairs,
    doubled_states,
    merge_proposals,
    merged_states,
    tidied,
    with_shared_rows,
)


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_doubling_keeps_the_likelihood_when_nothing_is_jittered(
    emission: str,
) -> None:
    model = replace(blurred(domains.tmaze(), 1), emission=emission)
    log = encoded_log(simulate(model, 400, rng=0))
    doubled = doubled_states(parameters_of(model), 0.9, np.random.default_rng(0), jitter=0.0)
    before = expected_counts(parameters_of(model), log, emission=emission)  # type: ignore[arg-type]
    after = expected_counts(doubled, log, emission=emission)  # type: ignore[arg-type]
    assert after.log_likelihood == pytest.approx(before.log_likelihood, abs=1e-8)
    pairs = [(2 * s, 2 * s + 1) for s in range(4)]
    merged = merged_states(doubled, pairs, after.observations.sum(axis=(0, 2)))
    for rows, given in zip(merged, parameters_of(model), strict=True):
        np.testing.assert_allclose(rows, given, atol=1e-12)


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


def test_pairs_that_are_merged_together_share_no_state() -> None:
    assert disjoint_pairs([(0, 1), (1, 2), (2, 3), (0, 3)]) == [(0, 1), (2, 3)]


def test_twins_are_proposed_to_be_merged_all_at_once_then_one_by_one() -> None:
    model = parameters_of(domains.tmaze())
    likelihood = Likelihood.of(simulate(domains.tmaze(), 2_000, rng=0), "departure")
    twins = evaluated(doubled_states(model, 0.9, np.random.default_rng(0), jitter=0.01), likelihood)
    sizes = [len(proposal.initial) for proposal in merge_proposals(twins)]
    assert sizes[:2] == [4, 6]
    assert sizes[2:] == [7] * len(sizes[2:])
    first = next(merge_proposals(twins))
    for rows, given in zip(first, model, strict=True):
        np.testing.assert_allclose(rows.sum(axis=-1), 1, atol=1e-12)
        assert np.abs(np.sort(rows, axis=None) - np.sort(given, axis=None)).max() < 0.05


def test_tidying_drops_what_is_not_used_and_keeps_rows_without_visits() -> None:
    parameters = Parameters(
        initial=np.array([0.5, 0.5]),
        transitions=np.array([[[0.9, 0.1], [0.3, 0.7]]]),
        observations=np.array([[[0.999, 0.001], [0.5, 0.5]]]),
    )
    counts = ExpectedCounts(
        initial=np.array([1.0, 0.0]),
        transitions=np.array([[[90.0, 10.0], [0.0, 0.0]]]),
        observations=np.array([[[100.0, 1e-4], [0.0, 0.0]]]),
        log_likelihood=-1.0,
    )
    kept = tidied(Ascent(parameters, counts, passes=1, gradient=0.0, converged=True)).parameters
    assert kept.observations.tolist() == [[[1.0, 0.0], [0.5, 0.5]]]
    assert kept.transitions.tolist() == parameters.transitions.tolist()
    assert kept.initial.tolist() == parameters.initial.tolist()  # a single episode uses it once


# --- ends -----------------------------------------------------------------------------------------------


def ends_reached(moves: list[list[float]]) -> ExpectedCounts:
    """Two states and three ends; ``moves`` has a row for each state, how often it led where."""
    transitions = np.zeros((1, 5, 5))
    transitions[0, :2] = moves
    shown = np.zeros((1, 5, 4))
    shown[0, :2] = [[500.0, 500.0, 0.0, 0.0], [500.0, 500.0, 0.0, 0.0]]
    shown[0, 2:, 1:] = np.diag(transitions[0, :2, 2:].sum(axis=0))
    return ExpectedCounts(np.array([1.0, 1.0, 0, 0, 0]), transitions, shown, log_likelihood=0.0)


ENDS = np.array([False, False, True, True, True])


def test_ends_are_merged_with_ends_only() -> None:
    counts = ends_reached([[400.0, 400, 60, 60, 80], [400.0, 400, 60, 60, 80]])
    assert set(cheapest_pairs(counts, ENDS)) == {(0, 1), (2, 3), (2, 4), (3, 4)}
    assert len(cheapest_pairs(counts)) == 10
    likelihood = Likelihood.of(naive.simulate_episodes(
        naive.corridor(0.2), np.random.default_rng(0), episodes=100), "arrival"
    )  # fmt: skip
    ascent = evaluated(parameters_of(naive.corridor(0.2)), likelihood)
    for proposal in merge_proposals(ascent):
        assert proposal.terminal.sum() in (1, 2)
        assert (~proposal.terminal).sum() in (1, 2)
        ends = proposal.terminal
        np.testing.assert_allclose(proposal.transitions[:, ends][:, :, ends].sum(axis=2), 1)
        assert np.isfinite(evaluated(proposal, likelihood).log_likelihood)


def test_ends_are_cheap_to_merge_where_it_does_not_depend_on_the_state_before_which_it_is() -> None:
    """What is shown last differs from end to end, and still costs nothing: one end shows the mixture."""
    counts = ends_reached([[400.0, 400, 90, 30, 80], [800.0, 80, 30, 10, 80]])
    pairs = cheapest_pairs(counts, ENDS)
    assert next(pair for pair in pairs if min(pair) >= 2) == (2, 3)  # three to one from either state
    together = ends_reached([[400.0, 400, 90, 30, 80], [800.0, 80, 90, 80, 30]])
    assert [pair for pair in cheapest_pairs(together, ENDS) if min(pair) >= 2][-1] == (3, 4)


def test_ends_are_not_doubled() -> None:
    model = naive.random_episodic(np.random.default_rng(3), emission="arrival")
    log = encoded_log(naive.simulate_episodes(model, np.random.default_rng(0), episodes=20), model)
    doubled = doubled_states(parameters_of(model), 0.8, np.random.default_rng(0), jitter=0.0)
    assert doubled.terminal.tolist() == [False] * 6 + [True] * 2
    before = expected_counts(parameters_of(model), log, emission="arrival")
    after = expected_counts(doubled, log, emission="arrival")
    assert after.log_likelihood == pytest.approx(before.log_likelihood, abs=1e-8)
    jittered = doubled_states(parameters_of(model), 0.8, np.random.default_rng(0))
    np.testing.assert_array_equal(jittered.transitions[:, 6:, 6:], np.tile(np.eye(2), (2, 1, 1)))
    merged = merged_states(doubled, [(0, 1), (2, 3), (4, 5)], after.observations.sum(axis=(0, 2)))
    for rows, given in zip(merged, parameters_of(model), strict=True):
        np.testing.assert_allclose(rows, given, atol=1e-12)


# --- shared rows ------------------------------------------------------------------------------------------


def test_shared_rows_are_what_a_state_showed_in_all() -> None:
    truth = blurred(domains.room(["rg", "bw"], wrong=0.1), 0)
    likelihood = Likelihood.of(simulate(truth, 500, rng=0), "arrival", truth)
    apart = evaluated(parameters_of(truth), likelihood)
    shared = with_shared_rows(apart)
    assert shared.shared
    assert (shared.observations == shared.observations[:1]).all()
    shown = apart.counts.observations.sum(axis=0)
    np.testing.assert_allclose(shared.observations[2], shown / shown.sum(axis=1, keepdims=True))
    np.testing.assert_array_equal(shared.transitions, apart.parameters.transitions)


def test_shared_rows_of_a_state_that_showed_nothing_stay() -> None:
    parameters = Parameters(
        initial=np.array([1.0, 0.0]),
        transitions=np.tile(np.eye(2), (2, 1, 1)),
        observations=np.array([[[0.5, 0.5], [0.2, 0.8]], [[0.4, 0.6], [0.3, 0.7]]]),
    )
    used = np.array([[[3.0, 1.0], [0.0, 0.0]], [[0.0, 4.0], [0.0, 0.0]]])
    counts = ExpectedCounts(np.array([1.0, 0.0]), np.zeros((2, 2, 2)), used, log_likelihood=-1.0)
    shared = with_shared_rows(Ascent(parameters, counts, passes=1, gradient=0.0, converged=True))
    np.testing.assert_allclose(shared.observations, np.tile([[3 / 8, 5 / 8], [0.2, 0.8]], (2, 1, 1)))


def test_a_climb_keeps_shared_rows_equal() -> None:
    truth = blurred(domains.room(["rg", "bw"], wrong=0.1), 0)
    likelihood = Likelihood.of(simulate(truth, 500, rng=0), "arrival", truth)
    apart = climb(parameters_of(truth), likelihood, passes=30)
    start = with_shared_rows(apart)
    shared = climb(start, likelihood, passes=30)
    assert shared.parameters.shared
    assert (shared.parameters.observations == shared.parameters.observations[:1]).all()
    assert shared.log_likelihood >= evaluated(start, likelihood).log_likelihood
    assert shared.log_likelihood < apart.log_likelihood
    assert tidied(shared).parameters.shared
