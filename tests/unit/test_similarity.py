"""The change of basis: full-rank actions, cells, scale, options, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import naive
from unlatch import (
    POMDP,
    PSR,
    Partition,
    count_sequences,
    domains,
    estimate_hankel,
    factorize,
    find_similarity,
    fit_psr,
    simulate,
)
from unlatch.errors import NotLearnableError, NumericalError, UsageError
from unlatch.learn.spectral.inverse_family import InverseFamily
from unlatch.learn.spectral.joint_diagonalization import diagonals

RNG = np.random.default_rng(1)
BASIS = RNG.standard_normal((4, 4)) + 2 * np.eye(4)


def hidden(model, basis=BASIS):
    """The exact PSR of a model from its stationary start, in coordinates that hide the states."""
    n = model.n_states
    return naive.stationary_start(model).to_psr().transformed(basis[:n, :n])


def estimated(model, steps, lengths, seed=0):
    counts = count_sequences(
        simulate(model, steps, rng=seed), history_length=lengths[0], test_length=lengths[1]
    )
    hankel = estimate_hankel(counts)
    return fit_psr(hankel, factorize(hankel, rank=model.n_states, rng=0))


@pytest.mark.parametrize("emission", ["departure", "arrival"])
@pytest.mark.parametrize("newton", [True, False])
@pytest.mark.parametrize("draws", [1, 10])
def test_hidden_coordinates_are_undone(rng, emission, newton, draws):
    model = naive.random_pomdp(rng, states=3, actions=3, emission=emission)
    found = find_similarity(hidden(model), emission=emission, newton=newton, draws=draws, rng=0)
    states = hidden(model).transformed(found.matrix)
    np.testing.assert_allclose(states.final, 1, atol=1e-10)
    assert found.partition.is_trivial
    assert found.full_rank_actions == (0, 1, 2)
    assert found.residual < 1e-9
    assert len(found.diagnostics) == 0
    order = [int(np.abs(states.initial - p).argmin()) for p in model.stationary()]
    np.testing.assert_allclose(states.initial[order], model.stationary(), atol=1e-9)
    np.testing.assert_allclose(
        states.updates[:, :, order][:, :, :, order], naive.stationary_start(model).updates, atol=1e-9
    )
    np.testing.assert_allclose(found.diagonals[:, order], model.observations, atol=1e-9)
    assert not found.diagonal_variances.any()


def test_only_full_rank_actions_count():
    found = find_similarity(hidden(domains.sense_float_reset(3)), rng=0)
    assert found.full_rank_actions == (0, 2)  # reset forgets
    assert found.action_singular_values[1] < 1e-12 < found.action_singular_values[0]
    assert "full-rank actions [0, 2]" in repr(found)


@pytest.mark.parametrize(
    ("model", "cells"),
    [
        (domains.tmaze(), {(0,), (2,), (1, 3)}),
        (domains.tmaze(fail=0.1), {(0,), (1,), (2,), (3,)}),
        (domains.sense_float_reset(4), {(0,), (1,), (2, 3)}),
        (domains.unidentifiable_pair()[0], {(0,), (1, 2)}),
        (domains.unidentifiable_pair()[1], {(0,), (1, 2)}),
    ],
)
@pytest.mark.parametrize("cell_basis", ["nonnegative", "rotation"])
def test_cells_are_states_that_look_alike_under_full_rank_actions(model, cells, cell_basis):
    found = find_similarity(hidden(model), cell_basis=cell_basis, rng=0)
    rows = {}  # the true states whose observation rows are those of a learned state
    for s in range(model.n_states):
        true = model.observations[list(found.full_rank_actions)]
        near = np.abs(true - found.diagonals[:, s][:, None]).max(axis=(0, 2)) < 1e-7
        rows[s] = tuple(np.flatnonzero(near).tolist())
    assert {rows[s] for s in range(model.n_states)} == cells
    assert {tuple(rows[s] for s in cell) for cell in found.partition.cells} == {
        (cell,) * len(cell) for cell in cells
    }


def test_a_tolerance_merges_states_by_hand():
    model = domains.noisy_hallway()
    assert find_similarity(hidden(model), observation_tolerance=0.59, rng=0).partition.is_trivial
    assert find_similarity(hidden(model), observation_tolerance=0.61, rng=0).partition.n_cells == 1


def test_a_threshold_decides_which_actions_are_full_rank():
    psr = hidden(domains.noisy_hallway(), np.eye(4))
    values = find_similarity(psr, rng=0).action_singular_values
    found = find_similarity(psr, min_singular_value=float(values[0]) + 1e-9, rng=0)
    assert found.full_rank_actions == (2,)  # stay is the identity
    assert found.action_thresholds.tolist() == [values[0] + 1e-9] * 4


def test_no_full_rank_action():
    """Every action forgets where it came from; observations still have rank 2."""
    model = POMDP(
        transitions=[[[0.3, 0.7]] * 2, [[0.6, 0.4]] * 2],
        observations=[[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.1, 0.9]]],
        initial=[0.5, 0.5],
        action_names=["push", "pull"],
    )
    with pytest.raises(
        NotLearnableError, match=r"full rank 2; smallest singular values: push .*needs.*, pull"
    ):
        find_similarity(hidden(model), rng=0)


@pytest.mark.parametrize(
    "options",
    [
        {"emission": "sideways"},
        {"min_singular_value": -1.0},
        {"min_singular_value": np.nan},
        {"observation_tolerance": -1.0},
        {"observation_tolerance": np.nan},
        {"draws": 0},
        {"cell_basis": "any"},
    ],
)
def test_options_that_make_no_sense(options):
    with pytest.raises(UsageError, match=next(iter(options))):
        find_similarity(hidden(domains.tiger()), **options)


def test_the_same_seed_gives_the_same_transform():
    psr = hidden(domains.tmaze())
    one, other = find_similarity(psr, rng=3), find_similarity(psr, rng=3)
    assert np.array_equal(one.matrix, other.matrix)


# --- the wrong convention ---------------------------------------------------------------------------------


def test_a_turning_process_is_no_departure_model():
    """One action whose family has complex eigenvalues: no hidden states with real rows explain it."""
    turn = np.array([[0.5, -0.2, 0], [0.2, 0.5, 0], [0, 0, 0.9]])
    psr = PSR(initial=np.ones(3) / 3, updates=np.stack([turn, np.eye(3) - turn])[None], final=np.ones(3))
    with pytest.raises(NumericalError, match=r"complex .* Try the other emission"):
        find_similarity(psr, rng=0)


@pytest.mark.parametrize("truth", ["departure", "arrival"])
def test_the_other_emission_leaves_a_residual_or_is_refused(rng, truth):
    model = naive.random_pomdp(rng, states=3, actions=3, emission=truth)
    other = {"departure": "arrival", "arrival": "departure"}[truth]
    assert find_similarity(hidden(model), emission=truth, rng=0).residual < 1e-9
    try:
        found = find_similarity(hidden(model), emission=other, rng=0)
    except NumericalError:
        return
    assert found.residual > 1e-3
    assert "not_jointly_diagonal" in found.diagnostics


def test_a_state_without_weight_in_the_final_vector_is_refused():
    """A block that no observation ever counts: rank too high."""
    model = domains.tiger().to_psr()
    updates = np.zeros((3, 6, 3, 3))
    updates[:, :, :2, :2] = model.updates
    updates[:, :, 2, 2] = RNG.random((3, 6))
    psr = PSR(initial=np.append(model.initial, 0.1), updates=updates, final=np.append(model.final, 0.0))
    with pytest.raises(NumericalError, match="no weight in the final vector"):
        find_similarity(psr, rng=0)


# --- noise ------------------------------------------------------------------------------------------------


def test_thresholds_follow_the_noise():
    few = find_similarity(estimated(domains.tiger(), 10_000, (2, 1)), rng=0)
    many = find_similarity(estimated(domains.tiger(), 1_000_000, (2, 1)), rng=0)
    assert few.full_rank_actions == many.full_rank_actions == (0,)
    ratio = few.action_thresholds / many.action_thresholds
    assert (ratio > 3).all()
    assert (ratio < 30).all()
    assert 3 < np.sqrt(few.diagonal_variances.sum() / many.diagonal_variances.sum()) < 30


def test_variances_are_those_of_repeated_logs():
    """Observation rows from 30 logs scatter as much as each log says that they would."""
    found = [find_similarity(estimated(domains.tiger(), 20_000, (2, 1), seed), rng=0) for seed in range(30)]
    scatter = np.var([f.diagonals[0, 0, 0] for f in found], ddof=1)
    stated = np.mean([f.diagonal_variances[0, 0, 0] for f in found])
    assert 0.4 < stated / scatter < 2.5


def test_noisier_actions_weigh_less(rng):
    """Inverse variances, the largest being one: three times the noise is a ninth of the weight."""
    exact = hidden(domains.noisy_hallway(), np.eye(4))
    scale = np.array([1e-3, 3e-3, 1e-3, 1e-3])[:, None, None, None]
    replicates = tuple(
        PSR(exact.initial, exact.updates + scale * rng.standard_normal(exact.updates.shape), exact.final)
        for _ in range(8)
    )
    psr = PSR(exact.initial, exact.updates, exact.final, replicates=replicates)
    weights = InverseFamily(psr, (0, 1), "departure", weighted=True).weights
    assert weights[:2].tolist() == [1.0, 1.0]
    assert 1 / 30 < weights[2] == weights[3] < 1 / 3
    assert InverseFamily(psr, (0, 1), "departure", weighted=False).weights.tolist() == [1.0] * 4


def test_pairs_that_noise_cannot_tell_apart_are_frozen():
    """Of the six pairs of T-Maze states only the two rooms look alike."""
    psr = estimated(domains.tmaze(), 100_000, (2, 1))
    found = find_similarity(psr, rng=0)
    family = InverseFamily(psr, found.full_rank_actions, "departure", weighted=True)
    d = diagonals(family.whole, found.matrix)
    squared = np.einsum("k,kij->ij", family.weights, (d[:, :, None] - d[:, None, :]) ** 2)
    frozen = squared <= family.frozen_gaps(found.matrix)
    assert np.argwhere(np.triu(frozen, 1)).tolist() == [[2, 3]]


def test_aliased_states_of_a_log_share_a_cell():
    found = find_similarity(estimated(domains.tmaze(), 100_000, (2, 1)), rng=0)
    assert found.partition == Partition.from_cells([[0], [1], [2, 3]])
    assert np.array_equal(found.diagonals[:, 2], found.diagonals[:, 3])
