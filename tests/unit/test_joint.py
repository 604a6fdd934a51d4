"""Joint diagonalization: planted bases, defective families, complex pairs."""

from __future__ import annotations

import numpy as np
import pytest

from unlatch import linalg
from unlatch.errors import NumericalError
from unlatch.learn.spectral.joint_diagonalization import (
    diagonals,
    newton_refinement,
    off_diagonal_residual,
    random_basis,
)


def planted(rng, n=4, m=6, noise=0.0):
    """A family with a common eigenbasis, the basis (columns of norm one) and the diagonals."""
    basis = rng.standard_normal((n, n)) + 2 * np.eye(n)
    basis /= np.sqrt((basis**2).sum(axis=0))
    d = rng.random((m, n))
    family = np.einsum("ij,kj,jl->kil", basis, d, linalg.inverse(basis))
    return family + noise * rng.standard_normal(family.shape), basis, d


def same_columns(found, expected, tolerance):
    """Whether two bases agree but for the order and sign of their columns."""
    overlap = np.abs(found.T @ expected)
    order = overlap.argmax(axis=0)
    signs = np.sign((found[:, order] * expected).sum(axis=0))
    return (
        sorted(order) == list(range(len(found)))
        and np.abs(found[:, order] * signs - expected).max() < tolerance
    )


def test_a_planted_basis_is_found(rng):
    family, basis, d = planted(rng)
    found = random_basis(family, np.ones(6), 5, rng)
    assert same_columns(found.matrix, basis, 1e-9)
    assert (found.complex_pairs, found.imaginary) == (0, 0.0)
    assert found.residual < 1e-24
    np.testing.assert_allclose(np.sort(diagonals(family, found.matrix)[0]), np.sort(d[0]), atol=1e-10)


def test_residual_is_what_lies_outside_the_diagonals(rng):
    family, weights = rng.standard_normal((3, 2, 2)), np.array([1.0, 2.0, 0.5])
    expected = (weights * (family[:, 0, 1] ** 2 + family[:, 1, 0] ** 2)).sum()
    assert off_diagonal_residual(family, weights, np.eye(2)) == pytest.approx(expected)


def test_the_best_of_many_draws_is_taken(rng):
    family, _, _ = planted(rng, noise=1e-3)
    few = random_basis(family, np.ones(6), 1, np.random.default_rng(0))
    many = random_basis(family, np.ones(6), 30, np.random.default_rng(0))
    assert many.residual < few.residual
    assert many.residual == off_diagonal_residual(family, np.ones(6), many.matrix)


def test_newton_improves_a_noisy_start(rng):
    family, _, _ = planted(rng, noise=1e-3)
    start = random_basis(family, np.ones(6), 1, rng)
    refined, residual = newton_refinement(family, np.ones(6), start.matrix, np.zeros((4, 4)))
    assert residual < start.residual
    assert residual == off_diagonal_residual(family, np.ones(6), refined)
    again, still = newton_refinement(family, np.ones(6), refined, np.zeros((4, 4)))
    assert still == pytest.approx(residual, rel=1e-6)
    assert same_columns(again, refined, 1e-6)


def test_newton_converges_from_afar(rng):
    family, basis, _ = planted(rng)
    start = basis + 0.05 * rng.standard_normal((4, 4))
    start /= np.sqrt((start**2).sum(axis=0))
    refined, residual = newton_refinement(family, np.ones(6), start, np.zeros((4, 4)))
    assert residual < 1e-24
    assert same_columns(refined, basis, 1e-10)


def test_newton_leaves_frozen_pairs_alone(rng):
    family, basis, _ = planted(rng, n=2, noise=1e-2)
    refined, _ = newton_refinement(family, np.ones(6), basis, np.full((2, 2), np.inf))
    assert np.array_equal(refined, basis)


def test_noisier_matrices_count_less(rng):
    family, basis, _ = planted(rng, noise=1e-4)
    family[0] += 0.1 * rng.standard_normal((4, 4))
    weights = np.array([1e-6, 1, 1, 1, 1, 1])
    refined, _ = newton_refinement(family, weights, basis, np.zeros((4, 4)))
    misled, _ = newton_refinement(family, np.ones(6), basis, np.zeros((4, 4)))
    assert np.abs(refined - basis).max() < 0.1 * np.abs(misled - basis).max()


def test_states_that_coincide_span_their_plane(rng):
    """Two equal columns of diagonals: the eigenvectors are arbitrary, their span is not."""
    family, basis, d = planted(rng)
    d[:, 1] = d[:, 0]
    family = np.einsum("ij,kj,jl->kil", basis, d, linalg.inverse(basis))
    found = random_basis(family, np.ones(6), 5, rng).matrix
    inside = linalg.inverse(basis) @ found
    plane = np.abs(inside[2:]).max(axis=0) < 1e-7
    assert plane.sum() == 2
    assert off_diagonal_residual(family, np.ones(6), found) < 1e-16


def test_complex_pairs_are_kept_as_planes(rng):
    """A turn in the first two coordinates has no real eigenvectors; the third coordinate does."""
    turn = np.array([[0.5, -0.3, 0.0], [0.3, 0.5, 0.0], [0.0, 0.0, 2.0]])
    found = random_basis(turn[None], np.ones(1), 3, rng)
    assert found.complex_pairs == 1
    assert found.imaginary == pytest.approx(0.3 / 3.5)  # the spread: 1.5 of the real parts, 2 of the largest
    assert np.isrealobj(found.matrix)
    alone = np.abs(found.matrix[2]) > 0.5
    assert alone.sum() == 1
    assert np.abs(found.matrix[:2, alone]).max() < 1e-12


def test_a_defective_matrix_keeps_its_plane(rng):
    """Jordan block: its eigenvalues coincide, and so do its eigenvectors but for rounding."""
    jordan = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 3.0]])
    found = random_basis(jordan[None], np.ones(1), 3, rng)
    assert linalg.condition(found.matrix) < 1e8
    assert found.residual > 1e-3  # no basis makes it diagonal


def test_no_basis_at_all(rng):
    with pytest.raises(NumericalError, match="in 3 draws no combination"):
        random_basis(np.full((1, 2, 2), [[1.0, 1e9], [0.0, 1.0 + 1e-3]]), np.ones(1), 3, rng)
