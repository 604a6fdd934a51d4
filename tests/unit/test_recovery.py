"""Reading the POMDP off, and what is told about it."""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import pytest

import naive
from unlatch import (
    POMDP,
    PSR,
    Trajectory,
    domains,
    find_similarity,
    learn_pomdp,
    linalg,
    recover_pomdp,
    simulate,
)
from unlatch.errors import DataError, NumericalError
from unlatch.learn.significance import jackknife_variance
from unlatch.learn.spectral.recover import read_off

learn_spectral = partial(learn_pomdp, refine=None)


def exact(model):
    """The exact PSR from the stationary start, and its similarity."""
    psr = naive.stationary_start(model).to_psr()
    return psr, find_similarity(psr, emission=model.emission, rng=0)


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_an_exact_psr_needs_no_repair(rng, emission):
    model = naive.random_pomdp(rng, emission=emission)
    pomdp, notes = read_off(*exact(model))
    assert naive.distance_up_to_relabeling(pomdp, naive.stationary_start(model)) < 1e-9
    assert len(notes) == 0
    assert pomdp.emission == emission
    assert recover_pomdp(*exact(model)) == pomdp


def test_names_and_rewards_come_along():
    tiger = domains.tiger()
    pomdp = recover_pomdp(*exact(tiger))
    assert (pomdp.action_names, pomdp.observation_names) == (tiger.action_names, tiger.observation_names)
    assert pomdp.symbol_rewards.tolist() == tiger.symbol_rewards.tolist()


def test_rows_of_a_noisy_psr_are_projected_and_the_distance_is_told(rng):
    psr, similarity = exact(domains.noisy_hallway())
    noisy = PSR(psr.initial, psr.updates + 0.02 * rng.standard_normal(psr.updates.shape), psr.final)
    pomdp, notes = read_off(noisy, similarity)
    states = noisy.transformed(similarity.matrix)
    np.testing.assert_allclose(
        pomdp.transitions, linalg.project_to_simplex(states.updates.sum(axis=1)), atol=1e-12
    )
    moved = np.abs(pomdp.transitions - states.updates.sum(axis=1)).sum(axis=2)
    assert notes["projected_transitions"].details["largest"] == pytest.approx(moved.max())
    assert notes["projected_transitions"].details["mean"] == pytest.approx(moved.mean())


def test_rows_far_from_any_distribution_are_refused():
    psr, similarity = exact(domains.tiger())
    wild = PSR(psr.initial, psr.updates * np.array([[50.0], [-50.0]]), psr.final)
    with pytest.raises(NumericalError, match=r"transitions \[.*\] lies .* from any probability distribution"):
        read_off(wild, similarity)


def test_a_similarity_of_another_rank_is_refused():
    _, similarity = exact(domains.tiger())
    with pytest.raises(DataError, match="rank 2, the PSR of 3"):
        read_off(naive.stationary_start(domains.noisy_hallway()).to_psr(), similarity)


def test_full_rank_rows_are_read_by_the_less_noisy_of_two_ways(rng):
    """Departure rows of a full-rank action: eigenvalues when they vary less than pooled row sums."""
    psr, similarity = exact(domains.tiger())
    replicates = tuple(
        PSR(psr.initial, psr.updates + 0.01 * rng.standard_normal(psr.updates.shape), psr.final)
        for _ in range(8)
    )
    noisy = PSR(psr.initial, psr.updates, psr.final, replicates=replicates)
    marked = np.broadcast_to([0.7, 0.1, 0.1, 0.1, 0.0, 0.0], similarity.diagonals.shape)
    for variance, by_eigenvalues in ((0.0, True), (1.0, False)):
        chosen = dataclasses.replace(
            similarity,
            diagonals=marked,
            diagonal_variances=np.full(similarity.diagonals.shape, variance),
        )
        rows = recover_pomdp(noisy, chosen).observations[0]
        assert np.allclose(rows, marked[0]) is by_eigenvalues


def test_rows_are_pooled_over_a_cell():
    """Where eigenvalues vary more, the rows of a cell are P(o | cell, a), equal for all its states."""
    psr, similarity = exact(domains.tmaze())
    chosen = dataclasses.replace(
        similarity,
        diagonals=np.full(similarity.diagonals.shape, 1 / 7),
        diagonal_variances=np.ones(similarity.diagonals.shape),
    )
    pomdp = recover_pomdp(PSR(psr.initial, psr.updates, psr.final, replicates=(psr, psr)), chosen)
    truth = recover_pomdp(psr, similarity)
    np.testing.assert_allclose(pomdp.observations[:2], truth.observations[:2], atol=1e-9)


def test_cells_that_are_too_coarse_keep_the_rows_of_their_states():
    """Both states of Tiger forced into one cell: their rows under `listen` still differ."""
    psr = naive.stationary_start(domains.tiger()).to_psr()
    similarity = find_similarity(psr, observation_tolerance=2.0, rng=0)
    assert similarity.partition.n_cells == 1
    assert np.array_equal(similarity.diagonals[0, 0], similarity.diagonals[0, 1])
    rows = recover_pomdp(psr, similarity).observations[0]
    sums = psr.transformed(similarity.matrix).updates[0].sum(axis=2).T
    np.testing.assert_allclose(rows, sums, atol=1e-9)
    assert np.abs(rows[0] - rows[1]).max() > 0.1


def test_states_that_an_action_never_reaches_on_arrival_are_told():
    """Under `home` only state 0 is ever arrived in: what 1 shows after it cannot be known."""
    model = POMDP(
        transitions=[[[1, 0], [1, 0]], [[0.5, 0.5], [0.3, 0.7]]],
        observations=[[[0.9, 0.1], [0.5, 0.5]], [[0.8, 0.2], [0.1, 0.9]]],
        initial=[1, 0],
        emission="arrival",
        action_names=["home", "go"],
    )
    pomdp, notes = read_off(*exact(model))
    note = notes["undetermined_rows"]
    [[action, state]] = note.details["rows"]
    assert action == 0
    np.testing.assert_allclose(pomdp.observations[0, state], [0.9, 0.1], atol=1e-9)  # home's overall rows
    np.testing.assert_allclose(pomdp.observations[0, 1 - state], [0.9, 0.1], atol=1e-9)
    np.testing.assert_allclose(pomdp.observations[1, state], [0.1, 0.9], atol=1e-9)


def test_an_action_never_tried_is_told_and_its_rows_are_uniform():
    log = simulate(domains.tiger(), 50_000, policy=[0.8, 0.2, 0.0], rng=0)
    result = learn_spectral(log, history_length=2, test_length=1, rng=0)
    assert result.diagnostics["never_tried"].details == {"actions": ["open-right"]}
    assert result.diagnostics["projected_transitions"].details["largest"] < 0.1  # not the filled-in rows
    assert np.allclose(result.pomdp.transitions[2], 0.5)
    assert np.allclose(result.pomdp.observations[2], 1 / 6)
    assert result.states == 2


def test_jackknife_variance():
    """For a mean of blocks the jackknife is the usual variance of a mean."""
    blocks = np.random.default_rng(0).standard_normal((8, 3))
    replicates = [np.delete(blocks, i, axis=0).mean(axis=0) for i in range(8)]
    np.testing.assert_allclose(jackknife_variance(replicates), blocks.var(axis=0, ddof=1) / 8)
    assert jackknife_variance([]) == 0.0


def test_learned_rows_are_distributions():
    log = Trajectory(
        np.random.default_rng(0).integers(0, 2, 3000), np.random.default_rng(1).integers(0, 3, 3000)
    )
    pomdp = learn_spectral(log, rank=2, rng=0, min_singular_value=0.0).pomdp
    for rows in (pomdp.transitions, pomdp.observations, pomdp.initial):
        assert rows.min() >= 0
        np.testing.assert_allclose(rows.sum(axis=-1), 1, atol=1e-12)
