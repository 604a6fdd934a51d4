"""Rows and matrices by vector instructions, beside NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit

from unlatch.kernels import vectors as code

SIZES = (4, 8, 12, 16, 20, 28, 32, 36, 52)
"""With and without columns that are left over from groups of sixteen."""


@njit
def times_matrix(vectors, source, target, matrices, k):  # type: ignore[no-untyped-def]
    return code.times_matrix(vectors, source, target, matrices, k)


@njit
def inner_product(left, r, right, q):  # type: ignore[no-untyped-def]
    return code.inner_product(left, r, right, q)


@njit
def scaled_copy(target, k, w, source, r, weight):  # type: ignore[no-untyped-def]
    code.scaled_copy(target, k, w, source, r, weight)


@njit
def add_outer_products(sums, k, ahead, behind):  # type: ignore[no-untyped-def]
    code.add_outer_products(sums, k, ahead, behind)


COMPILED = times_matrix, inner_product, scaled_copy, add_outer_products
PLAIN = (
    code.plain_times_matrix,
    code.plain_inner_product,
    code.plain_scaled_copy,
    code.plain_add_outer_products,
)


@pytest.mark.parametrize("kind", [COMPILED, PLAIN], ids=["compiled", "plain"])
@pytest.mark.parametrize("n", SIZES)
def test_they_equal_numpy(n: int, kind: tuple[Any, ...]) -> None:
    rng = np.random.default_rng(n)
    times, inner, scaled, outer = kind
    vectors, matrices = rng.random((3, n)), rng.random((5, n, n))
    before = vectors.copy()
    total = times(vectors, 2, 0, matrices, np.uint32(3))
    np.testing.assert_allclose(vectors[0], before[2] @ matrices[3], rtol=1e-14)
    np.testing.assert_array_equal(vectors[1:], before[1:])
    assert total == pytest.approx(vectors[0].sum(), rel=1e-14)
    assert inner(vectors, 1, before, 2) == pytest.approx(before[1] @ before[2], rel=1e-14)

    ahead, behind = rng.random((2, 5, code.QUEUED, n))
    expected = ahead.copy()
    expected[4, 1] = 0.3 * before[2]
    scaled(ahead, np.uint32(4), 1, before, 2, 0.3)
    np.testing.assert_array_equal(ahead, expected)

    sums = rng.random((5, n, n))
    expected = sums.copy()
    expected[2] += ahead[2].T @ behind[2]
    outer(sums, np.uint32(2), ahead, behind)
    np.testing.assert_allclose(sums, expected, rtol=1e-14)


def test_what_is_not_a_number_stays_so() -> None:
    vectors, matrices = np.ones((2, 8)), np.ones((1, 8, 8))
    vectors[0, 5] = np.nan
    assert np.isnan(times_matrix(vectors, 0, 1, matrices, np.uint32(0)))
    assert np.isnan(vectors[1]).all()
