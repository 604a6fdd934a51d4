"""Of all bases that a log leaves open inside a cell, one that gives probabilities."""

from __future__ import annotations

import numpy as np
import pytest

import naive
from unlatch import PSR, Partition, domains, linalg
from unlatch.learn.spectral.cell_basis import Negativity, nonnegative_cells


def mixed(model, partition, rng):
    """The model's exact PSR after a random change of basis inside cells (rows summing to one)."""
    problem = Negativity(model.to_psr(), partition)
    mixing = problem.mixing(rng.normal(0.3, 1.0, problem.size))
    np.testing.assert_allclose(mixing.sum(axis=1), 1)
    return model.to_psr().transformed(mixing)


@pytest.mark.parametrize(
    ("model", "cells"),
    [(domains.tmaze(), [[0], [1, 3], [2]]), (domains.sense_float_reset(5), [[0], [1], [2, 3, 4]])],
)
def test_structural_zeros_pin_the_states_down(rng, model, cells):
    partition = Partition.from_cells(cells)
    model = naive.stationary_start(model)
    psr = mixed(model, partition, rng)
    assert psr.updates.min() < -0.1
    found = psr.transformed(nonnegative_cells(psr, np.eye(model.n_states), partition, rng))
    assert found.updates.min() > -1e-9
    np.testing.assert_allclose(found.final, 1, atol=1e-10)
    np.testing.assert_allclose(partition.sums(found.initial), partition.sums(model.initial), atol=1e-10)
    np.testing.assert_allclose(np.sort(found.initial), np.sort(model.initial), atol=1e-8)


def test_the_unidentifiable_pair_gives_some_valid_model(rng):
    model = naive.stationary_start(domains.unidentifiable_pair()[0])
    partition = Partition.from_cells([[0], [1, 2]])
    psr = mixed(model, partition, rng)
    found = psr.transformed(nonnegative_cells(psr, np.eye(3), partition, rng))
    assert found.updates.min() > -1e-9
    assert found.initial.min() > -1e-9


def test_no_choice_is_ever_worse_than_the_one_given(rng):
    psr = naive.random_pomdp(rng, states=4).to_psr()
    noisy = PSR(psr.initial, psr.updates + 0.05 * rng.standard_normal(psr.updates.shape), psr.final)
    partition = Partition.from_cells([[0, 1], [2, 3]])
    found = nonnegative_cells(noisy, np.eye(4), partition, rng)
    problem = Negativity(noisy, partition)
    assert problem.cost(found) <= problem.cost(np.eye(4))
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-12)
    assert np.abs(found[:2, 2:]).max() == np.abs(found[2:, :2]).max() == 0


def test_trivial_cells_leave_nothing_to_choose(rng):
    problem = Negativity(naive.random_pomdp(rng).to_psr(), Partition.singletons(3))
    assert problem.size == 0
    assert np.array_equal(problem.mixing(np.empty(0)), np.eye(3))


def test_the_jacobian_is_the_derivative(rng):
    psr = naive.random_pomdp(rng, states=4).to_psr()
    problem = Negativity(psr, Partition.from_cells([[0, 1, 2], [3]]))
    at = rng.normal(0.3, 0.7, problem.size)
    step = 1e-6
    for p in range(problem.size):
        ahead, behind = at.copy(), at.copy()
        ahead[p] += step
        behind[p] -= step
        numeric = (problem.residuals(ahead) - problem.residuals(behind)) / (2 * step)
        np.testing.assert_allclose(problem.jacobian(at)[:, p], numeric, atol=1e-5)
    assert problem.residuals(at).any()
    assert problem.cost(problem.mixing(at)) == pytest.approx((problem.residuals(at) ** 2).sum())


def test_a_singular_mixing_costs_infinitely(rng):
    problem = Negativity(naive.random_pomdp(rng, states=2).to_psr(), Partition([0, 0]))
    singular = problem.mixing(np.array([0.5, 0.5]))
    assert linalg.condition(singular) > 1e15
    assert problem.cost(singular) == np.inf
    assert (problem.residuals(np.array([0.5, 0.5])) == 1e3).all()
    assert not problem.jacobian(np.array([0.5, 0.5])).any()
    assert linalg.condition(problem.mixing(problem.random_start(rng))) < 100


def test_cells_too_large_to_search_are_left_alone(rng):
    psr = PSR(rng.standard_normal(13), rng.standard_normal((1, 1, 13, 13)), np.ones(13))
    assert np.array_equal(nonnegative_cells(psr, np.eye(13), Partition([0] * 13), rng), np.eye(13))
