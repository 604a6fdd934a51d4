"""The long-run distribution of any chain: periodic, reducible, with transient states."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unlatch.linalg import stationary_distribution


@st.composite
def chains(draw):
    """A stochastic matrix with many zeros (multiples of 1/2 or 1/4 a row), and a start."""
    n = draw(st.integers(1, 7))
    rows = []
    for _ in range(n):
        targets = draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=4))
        rows.append(np.bincount(targets, minlength=n) / len(targets))
    start = np.bincount(draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=3)), minlength=n)
    return np.array(rows), start / start.sum()


def long_run_average(chain, start):
    """The mean of ``start @ chain ** t`` over a long time, by repeated doubling."""
    average, power = np.eye(len(chain)), chain  # over one step, and that many steps ahead
    for _ in range(30):
        average = (average + power @ average) / 2
        power = power @ power
        power = power / power.sum(axis=1, keepdims=True)
    return start @ average


@given(chains())
def test_it_is_stationary_and_a_distribution(case):
    chain, start = case
    found = stationary_distribution(chain, start)
    assert found.min() >= 0
    assert abs(found.sum() - 1) < 1e-12
    np.testing.assert_allclose(found @ chain, found, atol=1e-10)


@given(chains())
def test_it_is_the_long_run_average_from_the_start(case):
    chain, start = case
    np.testing.assert_allclose(
        stationary_distribution(chain, start), long_run_average(chain, start), atol=1e-6
    )


@given(chains())
def test_it_does_not_depend_on_when_one_begins_to_look(case):
    chain, start = case
    np.testing.assert_allclose(
        stationary_distribution(chain, start), stationary_distribution(chain, start @ chain), atol=1e-9
    )
