"""Four routes to one number: path enumeration, filter, PSR product, Hankel entry. A wrong model must disagree."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import naive
from unlatch import POMDP, Trajectory, domains, exact_hankel

SIZES = list(itertools.product([1, 2, 3], [1, 2, 3], [1, 2, 3]))
"""(states, actions, observations): all sizes up to three of each, small enough to enumerate every path."""


def seeded(*key):
    return np.random.default_rng([*key])


def model_of(rng, states, actions, observations, emission):
    return naive.stationary_start(
        naive.random_pomdp(rng, states=states, actions=actions, observations=observations, emission=emission)
    )


def by_filter(model, actions, observations):
    log = Trajectory(
        np.asarray(actions, dtype=int),
        np.asarray(observations, dtype=int),
        model.action_names,
        model.observation_names,
    )
    return np.exp(model.log_likelihood(log))


def by_hankel(hankel, n_observations, actions, observations):
    """The entries of every history and test that together are the sequence."""
    pairs = [a * n_observations + o for a, o in zip(actions, observations, strict=True)]
    histories = [tuple(row) for block in hankel.histories for row in block.tolist()]
    tests = [tuple(row) for block in hankel.tests for row in block.tolist()]
    dense = hankel.toarray()
    return [
        dense[histories.index(tuple(pairs[:cut])), tests.index(tuple(pairs[cut:]))]
        for cut in range(1, len(pairs))
        if cut < hankel.history_length and len(pairs) - cut <= hankel.test_length
    ]


def disagreement(truth, other, rng, sequences=10):
    """Largest difference between enumeration under one model and the three other routes under another."""
    hankel = exact_hankel(other, history_length=3, test_length=2)
    worst = 0.0
    for _ in range(sequences):
        length = int(rng.integers(2, 5))
        actions = rng.integers(0, truth.n_actions, length).tolist()
        observations = rng.integers(0, truth.n_observations, length).tolist()
        expected = naive.path_probability(truth, actions, observations)
        entries = by_hankel(hankel, truth.n_observations, actions, observations)
        assert len(entries) >= 1
        routes = [
            by_filter(other, actions, observations),
            other.to_psr().probability(actions, observations),
            *entries,
        ]
        worst = max(worst, *(abs(route - expected) for route in routes))
    return worst


@pytest.mark.parametrize("emission", ["departure", "arrival"])
@pytest.mark.parametrize(("states", "actions", "observations"), SIZES)
def test_all_routes_agree(states, actions, observations, emission):
    rng = seeded(states, actions, observations)
    model = model_of(rng, states, actions, observations, emission)
    assert disagreement(model, model, rng) < 1e-12


@pytest.mark.parametrize("emission", ["departure", "arrival"])
@pytest.mark.parametrize("seed", range(3))
def test_a_wrong_model_disagrees(seed, emission):
    rng = seeded(seed)
    model = model_of(rng, 3, 2, 3, emission)
    fields = {"transitions": model.transitions, "observations": model.observations, "initial": model.initial}
    other = {"departure": "arrival", "arrival": "departure"}[emission]
    wrong = {
        "emission": POMDP(**fields, emission=other),
        "observation rows": POMDP(
            **{**fields, "observations": model.observations[:, [1, 2, 0]]}, emission=emission
        ),
        "actions": POMDP(**{**fields, "transitions": model.transitions[[1, 0]]}, emission=emission),
    }
    for name, flipped in wrong.items():
        assert disagreement(model, naive.stationary_start(flipped), seeded(seed)) > 1e-3, name


@pytest.mark.parametrize("emission", ["departure", "arrival"])
@pytest.mark.parametrize("states", [2, 3])
def test_the_filter_equals_enumeration_over_eight_steps(states, emission):
    rng = seeded(states)
    model = model_of(rng, states, 2, 3, emission)
    actions, observations = rng.integers(0, 2, 8).tolist(), rng.integers(0, 3, 8).tolist()
    expected = naive.path_probability(model, actions, observations)
    assert by_filter(model, actions, observations) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_probabilities_of_all_observations_sum_to_one(emission):
    model = model_of(seeded(4), 3, 2, 3, emission)
    for actions in itertools.product(range(2), repeat=3):
        everything = itertools.product(range(3), repeat=3)
        assert sum(model.to_psr().probability(actions, seen) for seen in everything) == pytest.approx(
            1, abs=1e-14
        )


@pytest.mark.parametrize("model", [domains.tiger(), domains.sense_float_reset(3), domains.tmaze()])
def test_domains_agree_from_their_own_start(model):
    rng = seeded(5)
    for _ in range(20):
        actions = rng.integers(0, model.n_actions, 4).tolist()
        observations = rng.integers(0, model.n_observations, 4).tolist()
        expected = naive.path_probability(model, actions, observations)
        assert by_filter(model, actions, observations) == pytest.approx(expected, abs=1e-14)
        assert model.to_psr().probability(actions, observations) == pytest.approx(expected, abs=1e-14)
