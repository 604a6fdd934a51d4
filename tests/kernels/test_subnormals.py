"""Subnormal numbers are zero where that was asked for, and nowhere else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numba import njit

from unlatch.kernels.subnormals import CAN_BE_ZERO, subnormals_as_zero

pytestmark = pytest.mark.skipif(not CAN_BE_ZERO, reason="this processor is not slowed down by them")


@njit
def product(numbers):  # type: ignore[no-untyped-def]
    result = 1.0
    for number in numbers:
        result *= number
    return result


SMALL = np.array([1e-200, 1e-110])  # the product is 1e-310
HALF = np.array([5e-324, 2.0])


def test_small_results_and_operands_are_zero_inside_and_not_after() -> None:
    assert product(SMALL) > 0
    with subnormals_as_zero():
        assert product(SMALL) == 0.0
        assert product(HALF) == 0.0
        assert product(np.array([1e-200, 1e-100])) > 0  # small, but with all digits
    assert product(SMALL) > 0
    assert product(HALF) > 0


def test_an_error_inside_leaves_nothing_behind() -> None:
    with pytest.raises(ValueError, match="on the way"), subnormals_as_zero():
        raise ValueError("on the way")
    assert product(SMALL) > 0


def test_inside_another_the_outer_one_stays() -> None:
    with subnormals_as_zero():
        with subnormals_as_zero():
            pass
        assert product(SMALL) == 0.0


def test_other_threads_are_left_alone() -> None:
    def inside() -> float:
        with subnormals_as_zero():
            return float(product(SMALL))

    with ThreadPoolExecutor(max_workers=1) as pool:
        assert pool.submit(inside).result() == 0.0
        assert product(SMALL) > 0
        assert pool.submit(product, SMALL).result() > 0
