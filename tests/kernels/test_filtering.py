"""The forward filter against explicit loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

import naive
from unlatch import PSR
from unlatch.kernels.filtering import (
    filter_steps,
    forward_rows,
    predict_rows,
    smooth_rows,
    trace_back,
    viterbi_steps,
)


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


# --- predictions, smoothing, the most likely path -----------------------------------------------------------


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_predictions_equal_ratios_of_products(version, rng, emission):
    model = naive.random_pomdp(rng, emission=emission).to_psr()
    actions, observations = rng.integers(0, 2, 12), rng.integers(0, 3, 12)
    rows = np.empty((12, 3))
    shows = np.einsum("aoij,j->aio", model.updates, model.final)
    belief = model.initial.copy()
    assert version(predict_rows)(model.updates, model.final, shows, belief, actions, observations, rows) == 12
    np.testing.assert_allclose(rows, naive.predict_rows(model, actions.tolist(), observations.tolist()))


@pytest.mark.parametrize("reached", [False, True])
def test_smoothing_equals_products_never_rescaled(version, rng, reached):
    model = naive.random_pomdp(rng).to_psr()
    actions, observations = rng.integers(0, 2, 12), rng.integers(0, 3, 12)
    rows = np.empty((12, 3))
    belief, later = model.initial.copy(), np.ones(3)
    assert version(forward_rows)(model.updates, belief, actions, observations, reached, rows) == 12
    assert version(smooth_rows)(model.updates, later, actions, observations, reached, rows)
    np.testing.assert_allclose(rows, naive.smooth_rows(model, actions, observations, reached=reached))


def test_the_best_path_equals_the_best_of_all(version, rng):
    model = naive.random_pomdp(rng)
    actions, observations = rng.integers(0, 2, 5), rng.integers(0, 3, 5)
    scores, came_from = np.log(model.initial), np.empty((5, 3), np.uint8)
    assert version(viterbi_steps)(np.log(model.updates), scores, actions, observations, came_from)
    left, reached = np.empty(5, np.int64), np.empty(5, np.int64)
    version(trace_back)(came_from, int(scores.argmax()), False, left)
    version(trace_back)(came_from, int(scores.argmax()), True, reached)
    best = max(naive.all_paths(model, actions, observations), key=lambda found: found[1])[0]
    assert (int(left[0]), *reached.tolist()) == best


def test_kernels_stop_before_the_impossible(version):
    updates = np.zeros((1, 2, 2, 2))
    updates[0, 0, 0, 1] = updates[0, 1, 1, 0] = 1.0
    actions, observations = np.zeros(4, int), np.array([0, 1, 1, 0])
    rows, belief = np.empty((4, 2)), np.array([1.0, 0.0])
    assert version(forward_rows)(updates, belief, actions, observations, False, rows) == 2
    assert belief.tolist() == [1.0, 0.0]
    belief = np.array([1.0, 0.0])
    shows = updates.sum(axis=3).transpose(0, 2, 1).copy()
    assert version(predict_rows)(updates, np.ones(2), shows, belief, actions, observations, rows) == 2
    with np.errstate(divide="ignore"):
        logs, scores = np.log(updates), np.log(np.array([1.0, 0.0]))
    came_from = np.empty((4, 2), np.uint8)
    assert not version(viterbi_steps)(logs, scores, actions, observations, came_from)


def test_smoothing_says_when_nothing_is_left(version):
    rows = np.array([[1.0, 0.0]])
    zero = np.zeros((1, 1, 2, 2))
    for reached in (False, True):
        later = np.array([0.0, 1.0])
        assert not version(smooth_rows)(zero, later, np.zeros(1, int), np.zeros(1, int), reached, rows)
