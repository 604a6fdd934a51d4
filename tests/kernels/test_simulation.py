"""Sampling against a plain loop that consumes the same uniform numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from unlatch.kernels.simulation import Laws, draw, possible_outcomes, simulate_steps

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


def laws_of(model, policy, first, version, longest=10**9):
    """The tables of a model without first observations and rewards of its own."""
    nothing = np.empty((model.n_actions, model.n_states, 0))
    table = np.vstack([np.broadcast_to(policy, (model.n_observations, model.n_actions)), first])
    moves, targets = version(possible_outcomes)(np.cumsum(model.transitions, axis=2))
    shows, symbols = version(possible_outcomes)(np.cumsum(model.observations, axis=2))
    return Laws(
        starting=np.cumsum(model.initial),
        first=nothing[0],
        openings=np.array([model.n_observations]),
        policy=np.cumsum(table, axis=1),
        moves=moves,
        targets=targets,
        shows=shows,
        symbols=symbols,
        pays=nothing,
        rewards=nothing.astype(np.int64),
        ends=np.zeros(model.n_states, dtype=bool),
        arrival=model.emission == "arrival",
        longest=longest,
    )


def columns(steps):
    """Room for actions, observations, no rewards, no endings, starts and first observations."""
    codes = [np.empty(steps, dtype=np.int64) for _ in range(4)]
    return codes[0], codes[1], np.empty(0, np.int64), np.empty(0, bool), codes[2], codes[3]


@pytest.mark.parametrize("emission", ["departure", "arrival"])
@pytest.mark.parametrize("rows", [None, 5])
def test_steps_equal_a_plain_loop(version, rng, emission, rows):
    model = naive.random_pomdp(rng, states=4, actions=3, observations=5, emission=emission, concentration=0.3)
    policy = rng.dirichlet(np.ones(3), rows)
    first = np.full(3, 1 / 3) if rows else policy
    uniforms = rng.random((500, 3))
    place = np.array([2, 5, 0])
    out = columns(500)
    done = version(simulate_steps)(laws_of(model, policy, first, version), place, 1, uniforms.ravel(), *out)
    assert done == (500, 1500, 0)
    assert (out[0].tolist(), out[1].tolist(), place[0]) == naive.simulate(
        model, uniforms, state=2, policy=policy
    )
    assert place[2] == 500


def test_it_stops_where_numbers_or_episodes_run_out(version, rng):
    model = naive.random_pomdp(rng)
    laws = laws_of(model, np.full(2, 0.5), np.full(2, 0.5), version, longest=4)
    uniforms = rng.random(30)
    place, out = np.array([-1, 0, 0]), columns(20)
    assert version(simulate_steps)(laws, place, 9, uniforms, *out) == (9, 30, 3)  # 4 + 4 + 1 steps, 3 starts
    assert out[4][:3].tolist() == [0, 4, 8]
    assert place[0] >= 0
    place = np.array([-1, 0, 0])
    assert version(simulate_steps)(laws, place, 2, uniforms, *out) == (8, 26, 2)
    assert place[0] == -1
    place = np.array([-1, 0, 0])
    assert version(simulate_steps)(laws, place, 2, uniforms[:3], *out) == (0, 0, 0)
