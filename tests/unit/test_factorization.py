"""The rank, and the singular vectors."""

from __future__ import annotations

import numpy as np
import pytest

from unlatch import (
    Trajectory,
    count_sequences,
    domains,
    estimate_hankel,
    exact_hankel,
    factorize,
    find_similarity,
    fit_psr,
    linalg,
    simulate,
)
from unlatch.compare.errors import three_step_transition_l1, true_partition
from unlatch.errors import DataError, NotLearnableError, UsageError

SFR = exact_hankel(domains.sense_float_reset(3), history_length=3, test_length=2)
TIGER = estimate_hankel(
    count_sequences(simulate(domains.tiger(), 20_000, rng=0), history_length=2, test_length=1)
)


def test_exact_matrices_show_their_rank():
    factors = factorize(SFR, rng=0)
    assert (factors.rank, factors.noise) == (3, 0.0)
    assert factors.singular_values[3] < 1e-12
    assert len(factors.diagnostics) == 0
    np.testing.assert_allclose(factors.left.T @ factors.left, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(factors.right.T @ factors.right, np.eye(3), atol=1e-12)
    core = factors.left.T @ (SFR.matrix @ factors.right)
    np.testing.assert_allclose(core, np.diag(factors.singular_values[:3]), atol=1e-12)
    np.testing.assert_allclose(factors.left @ core @ factors.right.T, SFR.toarray(), atol=1e-12)
    assert repr(factors) == "RankFactorization(rank 3, noise 0)"


def test_the_paper_s_dense_rotation_turns_both_sides_alike():
    plain, turned = factorize(SFR, rng=0), factorize(SFR, rotate=True, rng=0)
    rotation = plain.left.T @ turned.left
    np.testing.assert_allclose(rotation.T @ rotation, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(turned.right, plain.right @ rotation, atol=1e-12)
    assert np.abs(rotation - np.eye(3)).max() > 0.1


def test_noise_is_measured_and_cleared():
    factors = factorize(TIGER, rng=0)
    exact = exact_hankel(domains.tiger(), history_length=2, test_length=1)
    assert factors.rank == 2
    true_noise = linalg.singular_values(TIGER.toarray() - exact.toarray())[0]
    assert 0.5 * true_noise < factors.noise < 3 * true_noise
    assert factors.singular_values[2] < 1.25 * factors.noise < factors.singular_values[1]


@pytest.mark.parametrize(("tolerance", "rank"), [(0.9, 1), (0.14, 2), (0.13, 3), (1e-6, 3)])
def test_a_tolerance_counts_values_above_a_fraction_of_the_largest(tolerance, rank):
    """Relative values of Sense-Float-Reset: 1, ..., .1335."""
    factors = factorize(SFR, rank_tolerance=tolerance, rng=0)
    assert factors.rank == rank == (factors.singular_values > tolerance * factors.singular_values[0]).sum()
    assert np.isnan(factors.noise)


def test_a_rank_can_be_fixed_or_bounded():
    assert factorize(SFR, rank=2, rng=0).rank == 2
    assert factorize(TIGER, rank=5, rng=0).left.shape == (10, 5)
    assert factorize(SFR, max_rank=1, rng=0).rank == 1
    assert factorize(SFR, rank_tolerance=1e-6, max_rank=2, rng=0).rank == 2


def test_more_than_the_matrix_allows():
    with pytest.raises(NotLearnableError, match=r"rank 11 .* 10 histories and 10 tests allow 10 at most"):
        factorize(TIGER, rank=11)


@pytest.mark.parametrize("rank", [4, 20])
def test_more_than_an_exact_matrix_holds(rank):
    with pytest.raises(
        NotLearnableError, match=f"rank {rank} was asked for, but the Hankel matrix has rank 3"
    ):
        factorize(SFR, rank=rank, rng=0)


@pytest.mark.parametrize(
    "options",
    [
        {"rank": 0},
        {"rank_tolerance": 0},
        {"rank_tolerance": 1},
        {"rank_tolerance": np.nan},
        {"max_rank": 0},
        {"scaling": "x"},
    ],
)
def test_options_that_make_no_sense(options):
    with pytest.raises(UsageError, match=next(iter(options))):
        factorize(TIGER, **options)


def test_a_cut_without_a_gap_is_told():
    note = factorize(TIGER, rank=3, rng=0).diagnostics["no_gap"]
    values = factorize(TIGER, rank=3, rng=0).singular_values
    assert note.details["ratio"] == pytest.approx(values[2] / values[3])
    assert note.details["ratio"] < 1.5
    assert "no_gap" not in factorize(TIGER, rank=2, rng=0).diagnostics


def test_a_state_close_to_the_noise_is_told():
    """300,000 steps of the noisy hallway show two states clearly and hint at the third."""
    log = simulate(domains.noisy_hallway(), 300_000, rng=2)
    factors = factorize(estimate_hankel(count_sequences(log, history_length=3, test_length=2)), rng=0)
    assert factors.rank == 2
    note = factors.diagnostics["near_noise"]
    assert note.details == {"value": factors.singular_values[2], "noise": factors.noise}
    assert "near_noise" not in factorize(TIGER, rng=0).diagnostics


def test_the_same_seed_gives_the_same_factors():
    one, other = factorize(TIGER, rotate=True, rng=5), factorize(TIGER, rotate=True, rng=5)
    assert np.array_equal(one.left, other.left)
    assert one.noise == other.noise


# --- the PSR that follows ---------------------------------------------------------------------------------


@pytest.mark.parametrize("rotate", [False, True])
def test_an_exact_psr_predicts_like_its_model(rotate):
    model = domains.sense_float_reset(3)
    psr = fit_psr(SFR, factorize(SFR, rotate=rotate, rng=0))
    log = simulate(model, 8, rng=1)
    truth = model.to_psr()
    start = model.stationary()
    for steps in range(9):
        vector = start
        for a, o in zip(log.actions[:steps], log.observations[:steps], strict=True):
            vector = vector @ truth.updates[a, o]
        assert psr.probability(log.actions[:steps], log.observations[:steps]) == pytest.approx(
            vector.sum(), abs=1e-11
        )
    assert (psr.action_names, psr.observation_names) == (model.action_names, model.observation_names)


def test_replicates_share_the_basis():
    psr = fit_psr(TIGER, factorize(TIGER, rng=0))
    assert len(psr.replicates) == 8
    spread = max(np.abs(replicate.updates - psr.updates).max() for replicate in psr.replicates)
    assert 0 < spread < 0.1


def test_factors_of_another_matrix_are_refused():
    with pytest.raises(DataError, match="another Hankel matrix"):
        fit_psr(TIGER, factorize(SFR, rng=0))


def test_scaling_by_noise_lowers_the_error_and_leaves_the_values():
    truth = domains.sense_float_reset(3)
    errors = {"noise": [], "none": []}
    for seed in range(6):
        hankel = estimate_hankel(
            count_sequences(simulate(truth, 20_000, rng=seed), history_length=3, test_length=2)
        )
        for scaling, found in errors.items():
            factors = factorize(hankel, rank=3, scaling=scaling, rng=0)
            psr = fit_psr(hankel, factors)
            similarity = find_similarity(psr, min_singular_value=0.1, rng=0)
            found.append(
                three_step_transition_l1(psr.transformed(similarity.matrix), true_partition(truth)[1], truth)
            )
        assert np.array_equal(factors.singular_values, factorize(hankel, rank=3, rng=0).singular_values)
    assert np.mean(errors["noise"]) < 0.9 * np.mean(errors["none"])


def test_a_rare_history_does_not_outweigh_the_rest():
    """One step in 5,000 shows a symbol of its own: scaled, it must not pass for a state."""
    log = simulate(domains.tiger(), 20_000, rng=0)
    observations = log.observations.copy()
    observations[[5_000, 5_001, 10_000, 15_000]] = 6
    odd = Trajectory(log.actions, observations, log.action_names, (*log.observation_names, "odd"))
    hankel = estimate_hankel(count_sequences(odd, history_length=3, test_length=2))
    plain = estimate_hankel(count_sequences(log, history_length=3, test_length=2))
    rare = [i for i, label in enumerate(hankel.labels(hankel.histories)) if "odd" in str(label)]
    assert rare
    share = np.abs(factorize(hankel, rank=2, rng=0).left / hankel.history_scales[:, None])[rare].max()
    assert share < 0.1
    assert hankel.history_scales.max() < 3 * plain.history_scales.max()
