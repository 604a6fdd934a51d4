"""The forward filter against explicit loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

import naive
from unlatch import PSR
from unlatch.kernels.filtering import filter_steps


def run(kernel, model, actions, observations):
    belief = model.initial.copy()
    total, done = kernel(model.updates, model.final, belief, np.asarray(actions), np.asarray(observations))
    return total, belief, done


@pytest.mark.parametrize("emission", ["departure", "arrival"])
@pytest.mark.parametrize("states", [1, 2, 5])
def test_equals_explicit_loops(version, rng, emission, states):
    model = naive.random_pomdp(rng, states=states, emission=emission).to_psr()
    actions, observations = rng.integers(0, 2, 200), rng.integers(0, 3, 200)
    total, belief, done = run(version(filter_steps), model, actions, observations)
    expected_total, expected_belief, expected_done = naive.filter_steps(model, actions, observations)
    assert total == pytest.approx(expected_total, rel=1e-13)
    np.testing.assert_allclose(belief, expected_belief, rtol=1e-12)
    assert done == expected_done == 200


def test_negative_coordinates_are_no_trouble(version, rng):
    model = naive.random_pomdp(rng).to_psr().transformed(rng.standard_normal((3, 3)))
    actions, observations = rng.integers(0, 2, 50), rng.integers(0, 3, 50)
    total, belief, _ = run(version(filter_steps), model, actions, observations)
    expected_total, expected_belief, _ = naive.filter_steps(model, actions, observations)
    assert total == pytest.approx(expected_total, rel=1e-10)
    np.testing.assert_allclose(belief, expected_belief, rtol=1e-8)


def test_stops_before_the_impossible(version):
    """Two states that alternate and show themselves: 0 1 0 1; the second 1 in a row cannot be."""
    updates = np.zeros((1, 2, 2, 2))
    updates[0, 0, 0, 1] = updates[0, 1, 1, 0] = 1.0
    model = PSR(initial=np.array([1.0, 0.0]), updates=updates, final=np.ones(2))
    total, belief, done = run(version(filter_steps), model, [0] * 4, [0, 1, 1, 0])
    assert (total, done) == (0.0, 2)
    assert belief.tolist() == [1.0, 0.0]  # as it was before the impossible step


def test_does_not_underflow(rng):
    """A million steps of probability 1e-5 each are a likelihood of 10 ** -5,000,000."""
    model = PSR(initial=[1.0], updates=[[[[1e-5]], [[1 - 1e-5]]]], final=[1.0])
    n = 1_000_000
    total, belief, done = run(filter_steps, model, np.zeros(n, dtype=int), np.zeros(n, dtype=int))
    assert done == n
    assert total == pytest.approx(n * math.log(1e-5), rel=1e-9)
    assert belief.tolist() == [1.0]
