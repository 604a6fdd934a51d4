"""The tree search against a twin with dictionaries, against its own Python version, and against golden trees.

``python tests/kernels/test_treesearch.py`` writes the golden trees anew.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from unlatch import POUCT, Partition, PartitionModel, Reward, domains, linalg
from unlatch.kernels import treesearch
from unlatch.planning.tree import empty_tree, roomy_tree, tree_from_state, tree_state

GOLDEN = Path(__file__).parent.parent / "golden"
WORDS = (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03)
JUST_BELOW_ONE = np.nextafter(1.0, 0.0)


def as_python(kernel):
    return getattr(kernel, "py_func", kernel)


def words():
    return np.array(WORDS, dtype=np.uint64)


def planner_of(name):
    """The planners whose trees are kept: every way of sampling, both bonuses, with and without a discount."""
    line = domains.sense_float_reset(4)
    cells = PartitionModel(line.to_psr(), Partition.from_cells([[0], [1], [2, 3]]))
    return {
        "tiger": lambda: POUCT(domains.tiger(), rng=0),
        "tiger-paper": lambda: POUCT(domains.tiger(), exploration=2.0, rng=0),
        "tmaze-belief": lambda: POUCT(domains.tmaze(), sampling="belief", depth=4, rng=0),
        "line-cells": lambda: POUCT(cells, Reward.on_cells({1: 1.0}), depth=4, discount=0.9, rng=0),
        "hallway-ucb1": lambda: POUCT(
            domains.noisy_hallway(), Reward.on_states({"middle": 1.0}), bonus="ucb1", max_nodes=12, rng=0
        ),
    }[name]()


NAMES = ["tiger", "tiger-paper", "tmaze-belief", "line-cells", "hallway-ucb1"]


def grown(planner, simulations, search=treesearch.search):
    """The tree after ``simulations`` from the planner's belief, with fixed random words."""
    tree = empty_tree(planner.model.n_actions, simulations + 1)
    search(planner.tables, planner.settings, tree, planner.belief.copy(), simulations, words())
    return tree


# --- the whole search ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_golden_trees(name):
    expected = json.loads((GOLDEN / f"tree-{name}.json").read_text())
    found = tree_state(grown(planner_of(name), 120))
    for field in ("parent", "action", "symbol", "visits", "deepest"):
        assert found[field] == expected[field]
    assert np.allclose(found["values"], expected["values"], rtol=1e-12, atol=1e-14)
    assert np.allclose(found["closing"], expected["closing"], rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_compiled_search_equals_python(name):
    planner = planner_of(name)
    compiled = grown(planner, 60)
    python = grown(planner, 60, as_python(treesearch.search))
    assert tree_state(compiled) == tree_state(python)


class Twin:
    """PO-UCT as one would write it down: a dictionary from histories to counts and sums."""

    def __init__(self, model, rewards, *, depth, exploration, discount):
        self.model, self.rewards = model, rewards
        self.depth, self.exploration, self.discount = depth, exploration, discount
        self.random = words()
        self.nodes = {(): self.fresh()}

    def fresh(self):
        return [[0, 0.0] for _ in range(self.model.n_actions)]

    def uniform(self):
        return as_python(treesearch.uniform)(self.random)

    def choose(self, node):
        untried = [a for a, (visits, _) in enumerate(node) if visits == 0]
        if untried:
            return untried[int(self.uniform() * len(untried))]
        total = sum(visits for visits, _ in node)
        width = self.exploration * math.sqrt(math.sqrt(total))
        scores = [mean + width / math.sqrt(visits) for visits, mean in node]
        best, ties = 0, 1
        for action in range(1, len(scores)):
            if scores[action] > scores[best]:
                best, ties = action, 1
            elif scores[action] == scores[best]:
                ties += 1
                best = action if self.uniform() * ties < 1 else best
        return best

    def roll_out(self, state, steps):
        total, weight = 0.0, 1.0
        for _ in range(steps):
            action = int(self.uniform() * self.model.n_actions)
            total += weight * float(self.model.observations[action, state] @ self.rewards)
            weight *= self.discount
            state = naive.draw(self.model.transitions[action, state], self.uniform())
        return total

    def simulate(self):
        state = naive.draw(self.model.initial, self.uniform())
        history, path = (), []
        while history in self.nodes and len(path) < self.depth:
            node = self.nodes[history]
            action = self.choose(node)
            observation = naive.draw(self.model.observations[action, state], self.uniform())
            path.append((node, action, self.rewards[observation]))
            state = naive.draw(self.model.transitions[action, state], self.uniform())
            history = (*history, (action, observation))
        if history not in self.nodes and len(path) < self.depth:
            self.nodes[history] = self.fresh()
        total = self.roll_out(state, self.depth - len(path))
        for node, action, reward in reversed(path):
            total = reward + self.discount * total
            node[action][0] += 1
            node[action][1] += (total - node[action][1]) / node[action][0]


def histories(tree):
    """What `Twin` calls the nodes of a tree."""
    named = [()]
    for node in range(1, int(tree.size[0])):
        step = (int(tree.action[node]), int(tree.symbol[node]))
        named.append((*named[tree.parent[node]], step))
    return named


@pytest.mark.parametrize(("depth", "discount"), [(1, 1.0), (3, 1.0), (6, 0.8)])
def test_search_equals_a_twin_with_dictionaries(rng, depth, discount):
    model = naive.random_pomdp(rng, states=3, actions=3, observations=4)
    rewards = np.array([-1.0, 0.25, 0.5, 1.0])
    reward = Reward.on_observations({(a, o): rewards[o] for a in range(3) for o in range(4)})
    planner = POUCT(model, reward, depth=depth, exploration=0.8, discount=discount, rng=0)
    tree = grown(planner, 400)
    twin = Twin(model, rewards, depth=depth, exploration=0.8, discount=discount)
    for _ in range(400):
        twin.simulate()
    assert histories(tree) == list(twin.nodes)
    for node, statistics in enumerate(twin.nodes.values()):
        assert tree.visits[node].tolist() == [visits for visits, _ in statistics]
        assert np.allclose(tree.values[node], [mean for _, mean in statistics], atol=1e-10)


# --- keeping a subtree --------------------------------------------------------------------------------------


def nested(tree, node=0):
    """A tree as plain nested values, children in the order of their list."""
    below = {}
    for action in range(tree.child.shape[1]):
        child = tree.child[node, action]
        while child >= 0:
            assert tree.parent[child] == node
            assert tree.action[child] == action
            below[action, int(tree.symbol[child])] = nested(tree, child)
            child = tree.sibling[child]
    return tree.visits[node].tolist(), tree.values[node].tolist(), below


def assert_nearly(one, other):
    """Equal nested trees, but for rounding of the values."""
    assert one[0] == other[0]
    assert np.allclose(one[1], other[1], atol=1e-12)
    assert list(one[2]) == list(other[2])
    for step in one[2]:
        assert_nearly(one[2][step], other[2][step])


def shifted(tree, missing, discount):
    """What a nested tree becomes when its window grows by a step of that value."""
    visits, values, below = tree
    deeper = {step: shifted(child, missing / discount, discount) for step, child in below.items()}
    return visits, [value + missing for value in values], deeper


@pytest.mark.parametrize("discount", [1.0, 0.7])
def test_the_kept_subtree_is_the_one_below_the_step(version, discount):
    planner = POUCT(domains.tmaze(), depth=4, discount=discount, patience=1.0, exploration=2.0, rng=0)
    tree = grown(planner, 500)
    expected = {step: child for step, child in nested(tree)[2].items() if child[2]}
    assert len(expected) > 3
    last = tree.closing[0] / tree.closing[1]
    for (action, observation), subtree in expected.items():
        copy = type(tree)(*(field.copy() for field in tree))
        version(treesearch.keep_subtree)(copy, planner.settings, action, observation)
        assert_nearly(nested(copy), shifted(subtree, last * discount**3, discount))
        assert copy.deepest[0] == tree.deepest[0] - 1
        assert not copy.closing.any()


@pytest.mark.parametrize("observation", [-1, 5])
def test_what_was_never_simulated_begins_anew(version, observation):
    tree = grown(planner_of("tiger"), 10)
    version(treesearch.keep_subtree)(tree, planner_of("tiger").settings, 0, observation)
    assert nested(tree) == ([0, 0, 0], [0, 0, 0], {})


def test_a_larger_tree_holds_the_same():
    tree = grown(planner_of("tmaze-belief"), 200)
    larger = roomy_tree(tree, 1000)
    assert roomy_tree(tree, 10) is tree
    assert len(larger.parent) == 1000
    assert nested(larger) == nested(tree)
    assert nested(tree_from_state(tree_state(tree), 4, 7, 1000)) == nested(tree)


# --- parts --------------------------------------------------------------------------------------------------


def test_uniform_numbers_are_uniform(version):
    random = words()
    draws = np.array([version(treesearch.uniform)(random) for _ in range(20_000)])
    assert 0 <= draws.min() < draws.max() < 1
    counts = np.bincount((draws * 20).astype(int), minlength=20)
    assert ((counts - 1000) ** 2 / 1000).sum() < 60  # chi-square, 19 degrees of freedom
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.03


@given(
    weights=st.lists(st.sampled_from([0.0, 1e-300, 1e-17, 0.1, 0.3, 1.0]), min_size=1, max_size=12),
    chance=st.one_of(st.floats(0, 1, exclude_max=True), st.just(JUST_BELOW_ONE)),
)
def test_nothing_of_zero_weight_is_ever_drawn(version, weights, chance):
    probabilities = np.array(weights if sum(weights) > 0 else [*weights, 1.0])
    cumulative = np.cumsum(probabilities)
    assert probabilities[version(treesearch.draw_cumulative)(cumulative, chance)] > 0
    assert probabilities[version(treesearch.draw_row)(cumulative[None, None], 0, 0, chance)] > 0
    assert (
        probabilities[version(treesearch.draw_following)(cumulative[None, None, None], 0, 0, 0, chance)] > 0
    )
    assert probabilities[version(treesearch.draw_weights)(probabilities / probabilities.sum(), chance)] > 0


@given(weights=st.lists(st.floats(-1, 2), min_size=1, max_size=8))
def test_projection_is_the_nearest_distribution_on_the_positive_entries(version, weights):
    values = np.array(weights)
    support = values > 0
    projected = values.copy()
    assert version(treesearch.project)(projected) == support.any()
    if support.any():
        assert np.allclose(projected[support], linalg.project_to_simplex(values[support]), atol=1e-9)
    assert (projected[~support] == 0).all()


def test_a_step_is_taken_as_the_filter_takes_it(version, rng):
    model = naive.random_pomdp(rng)
    after = np.empty(3)
    assert version(treesearch.advance)(model.updates, np.ones(3), np.array(model.initial), 1, 2, after)
    expected = model.initial @ model.updates[1, 2]
    assert np.allclose(after, expected / expected.sum())


@pytest.mark.parametrize(
    ("policy", "events", "followed", "expected"),
    [
        (treesearch.MIX, (0, 1), 0, [1, 0, 0]),  # the episode goes on if it can have
        (treesearch.MIX, (-1, 1), 1, [0, 0, 1]),
        (treesearch.MIX, (2, 1), 1, [0, 0, 1]),
        (treesearch.MIX, (2, -1), -1, [0, 1, 0]),  # impossible: what it alone tells
        (treesearch.MIX, (-1, -1), -1, [0.5, 0.5, 0]),
        (treesearch.RESET, (2, -1), -1, [0, 0.5, 0.5]),
        (treesearch.RAISE, (2, -1), -1, [1, 0, 0]),
    ],
)
def test_a_real_step_goes_on_if_it_can_and_collapses_as_told(version, policy, events, followed, expected):
    """Event 0: the first state stays; event 1: it ends; event 2: the second state stays."""
    updates = np.zeros((1, 3, 3, 3))
    updates[0, 0, 0, 0] = updates[0, 1, 0, 2] = 0.5
    updates[0, 2, 1, 1] = 1.0
    belief, initial, mixing = np.array([1.0, 0, 0]), np.array([0, 0.5, 0.5]), np.array([0.5, 0.5, 0])
    found = version(treesearch.follow)(updates, np.ones(3), initial, mixing, policy, belief, 0, *events)
    assert found == followed
    assert belief.tolist() == expected


def test_signed_beliefs_that_cancel_are_impossible(version):
    updates = np.eye(2)[None, None]
    after = np.empty(2)
    for belief in ([0.0, 0.0], [1.0, -1.0], [1e12, 1 - 1e12], [-0.5, 0.2], [np.inf, 0.0]):
        with np.errstate(invalid="ignore"):
            assert not version(treesearch.advance)(updates, np.ones(2), np.array(belief), 0, 0, after)


def write_golden() -> None:
    for name in NAMES:
        text = json.dumps(tree_state(grown(planner_of(name), 120)))
        (GOLDEN / f"tree-{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    write_golden()
