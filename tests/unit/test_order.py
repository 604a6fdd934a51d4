"""Equal models print equally: the canonical order of states."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import naive
from unlatch import POMDP, domains
from unlatch.learn.state_order import canonical_order


@pytest.mark.parametrize("emission", ["departure", "arrival"])
@pytest.mark.parametrize("seed", range(5))
def test_any_relabeling_is_ordered_back(seed, emission):
    model = naive.random_pomdp(np.random.default_rng(seed), states=4, emission=emission)
    expected = model.reordered(canonical_order(model.to_psr()))
    for order in itertools.permutations(range(4)):
        shuffled = model.reordered(order)
        again = shuffled.reordered(canonical_order(shuffled.to_psr()))
        assert again.state_names == expected.state_names
        assert again == expected


@pytest.mark.parametrize(
    "model",
    [
        domains.tiger(),
        domains.tmaze(),
        domains.tmaze(2, 0.1),
        domains.sense_float_reset(5),
        domains.noisy_hallway(),
    ],
)
def test_symmetric_domains_have_an_order_too(model):
    """Tiger, T-Maze and hallways have mirror images; which symbols are numbered first decides."""
    rng = np.random.default_rng(0)
    expected = naive.stationary_start(model)
    expected = expected.reordered(canonical_order(expected.to_psr())).state_names
    for _ in range(10):
        shuffled = naive.stationary_start(model).reordered(rng.permutation(model.n_states))
        assert shuffled.reordered(canonical_order(shuffled.to_psr())).state_names == expected


def test_states_that_are_visited_more_come_first():
    alike = POMDP(
        transitions=[[[0.2, 0.8], [0.2, 0.8]]], observations=[[[0.5, 0.5], [0.5, 0.5]]], initial=[0.2, 0.8]
    )
    assert canonical_order(alike.to_psr()).tolist() == [1, 0]


def test_states_that_show_the_first_symbols_come_first():
    alike = POMDP(
        transitions=[[[0.5, 0.5], [0.5, 0.5]]], observations=[[[0.1, 0.9], [0.9, 0.1]]], initial=[0.5, 0.5]
    )
    assert canonical_order(alike.to_psr()).tolist() == [1, 0]


def test_rounding_does_not_shuffle():
    alike = POMDP(
        transitions=np.full((1, 3, 3), 1 / 3), observations=np.ones((1, 3, 1)), initial=np.full(3, 1 / 3)
    )
    assert canonical_order(alike.to_psr()).tolist() == [0, 1, 2]
