"""Sampling against a plain loop that consumes the same uniform numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from unlatch.kernels.simulation import draw, possible_outcomes, simulate_steps

JUST_BELOW_ONE = np.nextafter(1.0, 0.0)


@given(
    weights=st.lists(st.sampled_from([0.0, 1e-300, 1e-17, 0.1, 0.3, 1.0]), min_size=1, max_size=12),
    uniform=st.floats(0, 1, exclude_max=True),
)
def test_draw_equals_the_naive_one(version, weights, uniform):
    if sum(weights) == 0:
        weights = [*weights, 1.0]
    probabilities = np.array(weights) / sum(weights)
    outcome = version(draw)(np.cumsum(probabilities), uniform)
    assert outcome == naive.draw(probabilities, uniform)
    assert probabilities[outcome] > 0


def test_rounding_never_leaves_the_alphabet(version):
    """Ten times .1 sum to .9999999999999999: a uniform number above that is still an outcome."""
    cumulative = np.cumsum(np.full(10, 0.1))
    assert cumulative[-1] < 1
    assert version(draw)(cumulative, cumulative[-1]) == 9
    assert version(draw)(np.append(cumulative, cumulative[-1]), JUST_BELOW_ONE) == 9


@pytest.mark.parametrize(
    ("probabilities", "uniform", "outcome"),
    [
        ([0, 0.5, 0.5], 0.0, 1),
        ([0.5, 0, 0.5], 0.5, 2),
        ([0.5, 0.5, 0], JUST_BELOW_ONE, 1),
        ([0, 0, 1], 0.3, 2),
    ],
)
def test_impossible_outcomes_are_never_drawn(version, probabilities, uniform, outcome):
    assert version(draw)(np.cumsum(np.array(probabilities, dtype=float)), uniform) == outcome


@pytest.mark.parametrize("emission", ["departure", "arrival"])
@pytest.mark.parametrize("rows", [None, 5])
def test_steps_equal_a_plain_loop(version, rng, emission, rows):
    model = naive.random_pomdp(rng, states=4, actions=3, observations=5, emission=emission, concentration=0.3)
    policy = rng.dirichlet(np.ones(3), rows)
    first = np.full(3, 1 / 3) if rows else policy
    uniforms = rng.random((500, 3))
    actions, observations = np.empty(500, dtype=np.int64), np.empty(500, dtype=np.int64)
    last = version(simulate_steps)(
        np.cumsum(np.vstack([np.broadcast_to(policy, (5, 3)), first]), axis=1),
        *version(possible_outcomes)(np.cumsum(model.transitions, axis=2)),
        *version(possible_outcomes)(np.cumsum(model.observations, axis=2)),
        emission == "arrival",
        2,
        5,
        uniforms,
        actions,
        observations,
    )
    assert (actions.tolist(), observations.tolist(), last) == naive.simulate(
        model, uniforms, state=2, policy=policy
    )
