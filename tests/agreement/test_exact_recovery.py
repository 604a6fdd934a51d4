"""Exact input, exact output: from its exact Hankel matrix every domain is recovered up to relabeling."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import naive
from unlatch import (
    Partition,
    domains,
    exact_hankel,
    factorize,
    find_similarity,
    fit_psr,
    learn_from_hankel,
    linalg,
    simulate,
)

OBSERVABLE = {
    "tiger": (domains.tiger(), (2, 1)),
    "sense-float-reset-3": (domains.sense_float_reset(3), (3, 2)),
    "directional": (domains.directional_hallway(), (2, 1)),
    "noisy": (domains.noisy_hallway(), (3, 2)),
    "tmaze-fail": (domains.tmaze(rooms=1, fail=0.1), (2, 1)),
}
"""Domains whose partition is trivial, with the lengths that show every state."""

ALIASED = {
    "tmaze": (domains.tmaze(), (2, 1)),
    "tmaze-6": (domains.tmaze(rooms=2), (3, 2)),
    "sense-float-reset-4": (domains.sense_float_reset(4), (4, 3)),
    "sense-float-reset-5": (domains.sense_float_reset(5), (5, 4)),
    "unidentifiable": (domains.unidentifiable_pair()[1], (3, 2)),
}
"""Domains in which some states look alike under every full-rank action."""

BASES = ["nonnegative", "rotation", "dense"]


def hankel_of(model, lengths):
    return exact_hankel(model, history_length=lengths[0], test_length=lengths[1])


def stages(model, lengths, basis, seed=0):
    """The PSR and its similarity; "dense" is the variant that the paper ran."""
    hankel = hankel_of(model, lengths)
    psr = fit_psr(hankel, factorize(hankel, rotate=basis == "dense", rng=seed))
    cell_basis = "none" if basis == "dense" else basis
    return psr, find_similarity(psr, emission=model.emission, cell_basis=cell_basis, rng=seed)


# --- where every state stands alone -----------------------------------------------------------------------


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("name", OBSERVABLE)
def test_observable_domains_are_recovered_in_full(name, basis):
    model, lengths = OBSERVABLE[name]
    hankel = hankel_of(model, lengths)
    factors = factorize(hankel, rotate=basis == "dense", rng=0)
    result = learn_from_hankel(hankel, factors, cell_basis="none" if basis == "dense" else basis, rng=0)
    assert result.partition.is_trivial
    assert naive.distance_up_to_relabeling(result.pomdp, naive.stationary_start(model)) < 1e-8
    assert result.pomdp.observation_names == model.observation_names
    assert len(result.diagnostics) == 0


@pytest.mark.parametrize("emission", ["departure", "arrival"])
@pytest.mark.parametrize("states", [2, 3, 4])
@pytest.mark.parametrize("seed", range(4))
def test_random_models_are_recovered_in_full(seed, states, emission):
    rng = np.random.default_rng([seed, states])
    model = naive.random_pomdp(
        rng, states=states, actions=3, observations=4, emission=emission, concentration=0.5
    )
    result = learn_from_hankel(hankel_of(model, (2, 1)), emission=emission, rng=seed)
    assert result.rank == states
    assert result.partition.is_trivial
    assert naive.distance_up_to_relabeling(result.pomdp, naive.stationary_start(model)) < 1e-8


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_the_wrong_emission_is_not_recovered(emission):
    """The comparison can fail: the same matrix read by the other convention is another model, or refused."""
    model = naive.random_pomdp(
        np.random.default_rng(8), states=2, actions=3, emission=emission, concentration=0.5
    )
    other = {"departure": "arrival", "arrival": "departure"}[emission]
    result = learn_from_hankel(hankel_of(model, (2, 1)), emission=other, rng=0)
    assert "not_jointly_diagonal" in result.diagnostics
    assert naive.distance_up_to_relabeling(result.pomdp, naive.stationary_start(model)) > 1e-2


# --- where only sums over cells are determined (Theorem 1) ------------------------------------------------


def true_cells(model, full_rank_actions):
    """States whose observation rows agree under every full-rank action."""
    rows = model.observations[list(full_rank_actions)]
    alike = np.abs(rows[:, :, None] - rows[:, None, :]).max(axis=(0, 3)) < 1e-12
    return Partition(alike.argmax(axis=1))


def matched_cells(model, similarity):
    """For every learned cell, the true cell with its observation rows; checked to be a bijection."""
    cells = true_cells(model, similarity.full_rank_actions)
    rows = model.observations[list(similarity.full_rank_actions)]
    matches = []
    for learned in similarity.partition.cells:
        distance = [
            np.abs(rows[:, cell[0]] - similarity.diagonals[:, learned[0]]).max() for cell in cells.cells
        ]
        assert min(distance) < 1e-8
        matches.append(int(np.argmin(distance)))
        assert len(cells.cells[matches[-1]]) == len(learned)
    assert sorted(matches) == list(range(cells.n_cells))
    return cells, matches


def random_sequences(model, rng, number=1000, longest=6):
    """Half of them windows of a simulated log, so possible; half of them any symbols at all."""
    log = simulate(model, 20_000, rng=rng)
    for k in range(number):
        length = int(rng.integers(0, longest + 1))
        if k % 2:
            start = int(rng.integers(len(log) - length))
            yield log.actions[start : start + length], log.observations[start : start + length]
        else:
            yield rng.integers(0, model.n_actions, length), rng.integers(0, model.n_observations, length)


def products(psr, sequences):
    """``initial @ M @ ... @ M`` of every sequence."""
    for actions, observations in sequences:
        vector = psr.initial
        for a, o in zip(actions, observations, strict=True):
            vector = vector @ psr.updates[a, o]
        yield vector


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("name", ALIASED)
def test_sums_over_cells_are_true_probabilities(name, basis):
    model, lengths = ALIASED[name]
    psr, similarity = stages(model, lengths, basis)
    cells, matches = matched_cells(model, similarity)
    assert not similarity.partition.is_trivial
    sequences = list(random_sequences(model, np.random.default_rng(0)))
    truth = np.array(list(products(naive.stationary_start(model).to_psr(), sequences)))
    learned = np.array(list(products(psr.transformed(similarity.matrix), sequences)))
    expected = cells.sums(truth)[:, matches]
    np.testing.assert_allclose(similarity.partition.sums(learned), expected, atol=1e-8)
    assert (expected > 1e-3).any(axis=1).sum() > 300
    assert np.abs(similarity.partition.sums(learned) - np.roll(expected, 1, axis=1)).max() > 0.1


@pytest.mark.parametrize("name", ALIASED)
def test_the_result_keeps_the_partition_model_and_a_valid_pomdp(name):
    """With the default basis no row needs to be moved: what is printed is one of the possible models."""
    model, lengths = ALIASED[name]
    result = learn_from_hankel(hankel_of(model, lengths), rng=0)
    assert result.rank == model.n_states
    assert len(result.diagnostics) == 0
    states = result.partition_model.psr
    np.testing.assert_allclose(states.final, 1, atol=1e-9)
    np.testing.assert_allclose(result.pomdp.updates, states.updates, atol=1e-7)
    sequences = list(random_sequences(model, np.random.default_rng(1), number=200))
    truth = [vector.sum() for vector in products(naive.stationary_start(model).to_psr(), sequences)]
    learned = [vector.sum() for vector in products(result.pomdp.to_psr(), sequences)]
    np.testing.assert_allclose(learned, truth, atol=1e-7)


def test_the_unidentifiable_pair_is_learned_alike():
    first, second = domains.unidentifiable_pair()
    one, other = (learn_from_hankel(hankel_of(model, (3, 2)), rng=0) for model in (first, second))
    assert one.partition == other.partition == Partition.from_cells([[0], [1, 2]])
    assert one.full_rank_actions == other.full_rank_actions == (0, 2)
    np.testing.assert_allclose(one.hankel.toarray(), other.hankel.toarray(), atol=1e-12)
    np.testing.assert_allclose(one.pomdp.updates, other.pomdp.updates, atol=1e-6)


# --- spectra, order ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "lengths", "ratio"),
    [
        (domains.tiger(), (2, 1), 0.4272),
        (domains.tmaze(), (2, 1), 0.2118),
        (domains.sense_float_reset(3), (3, 2), 0.1335),
        (domains.sense_float_reset(4), (4, 3), 0.0216),
    ],
)
def test_spectra_of_the_paper_s_domains(model, lengths, ratio):
    values = linalg.singular_values(hankel_of(model, lengths).toarray())
    assert round(values[model.n_states - 1] / values[0], 4) == ratio
    assert values[model.n_states] < 1e-12


@pytest.mark.parametrize("name", [*OBSERVABLE, "tmaze", "tmaze-6", "sense-float-reset-4"])
def test_relabeled_truths_and_other_seeds_give_the_same_model(name):
    model, lengths = {**OBSERVABLE, **ALIASED}[name]
    expected = learn_from_hankel(hankel_of(model, lengths), rng=0).pomdp
    orders = list(itertools.permutations(range(model.n_states)))
    for seed, order in enumerate(orders[1 :: max(1, len(orders) // 4)], start=1):
        again = learn_from_hankel(hankel_of(model.reordered(order), lengths), rng=seed).pomdp
        np.testing.assert_allclose(again.transitions, expected.transitions, atol=1e-9)
        np.testing.assert_allclose(again.observations, expected.observations, atol=1e-9)
        np.testing.assert_allclose(again.initial, expected.initial, atol=1e-9)
