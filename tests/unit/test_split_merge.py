"""Models with more states and with fewer: doubling, merging, and what a merge should cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from naive import blurred
from unlatch import domains, simulate
from unlatch.learn.likelihood.climb import Ascent, evaluated
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
