"""The projection onto the simplex is optimal."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import naive
from unlatch.linalg import project_to_simplex

ROWS = arrays(float, st.integers(1, 12), elements=st.floats(-100, 100, allow_subnormal=False))


@given(ROWS)
def test_it_is_a_distribution_and_equals_bisection(row):
    projected = project_to_simplex(row)
    assert projected.min() >= 0
    assert abs(projected.sum() - 1) < 1e-12
    np.testing.assert_allclose(projected, naive.project_to_simplex(row), atol=1e-9)


@given(ROWS)
def test_the_conditions_of_the_optimum_hold(row):
    """Karush, Kuhn, Tucker: positive entries are all moved by one amount, zeros by no more than it."""
    projected = project_to_simplex(row)
    moved = row - projected
    threshold = moved[projected > 0].max()
    np.testing.assert_allclose(moved[projected > 0], threshold, atol=1e-10)
    assert (moved[projected == 0] <= threshold + 1e-10).all()


@given(ROWS, st.integers(0, 2**32 - 1))
def test_no_other_distribution_is_nearer(row, seed):
    projected = project_to_simplex(row)
    others = np.random.default_rng(seed).dirichlet(np.full(len(row), 0.3), 20)
    nearest = ((row - projected) ** 2).sum()
    assert (((row - others) ** 2).sum(axis=1) >= nearest - 1e-9).all()


@given(ROWS)
def test_distributions_stay(row):
    projected = project_to_simplex(row)
    np.testing.assert_allclose(project_to_simplex(projected), projected, atol=1e-15)


@given(ROWS, st.floats(-50, 50))
def test_a_shift_of_all_entries_changes_nothing(row, shift):
    np.testing.assert_allclose(project_to_simplex(row + shift), project_to_simplex(row), atol=1e-11)
