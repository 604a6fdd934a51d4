"""What no relabeling and no change of coordinates may change."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from unlatch import POMDP, Partition, Trajectory, linalg

SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def models(draw):
    """A random POMDP, some of its rows with zeros, and the generator that drew it."""
    rng = np.random.default_rng(draw(SEEDS))
    model = naive.random_pomdp(
        rng,
        states=draw(st.integers(1, 5)),
        actions=draw(st.integers(1, 3)),
        observations=draw(st.integers(1, 4)),
        emission=draw(st.sampled_from(["departure", "arrival"])),
        concentration=draw(st.sampled_from([0.3, 1.0, 5.0])),
    )
    return model, rng


def log_of(model, rng, steps=30):
    return Trajectory(
        rng.integers(0, model.n_actions, steps),
        rng.integers(0, model.n_observations, steps),
        model.action_names,
        model.observation_names,
        episode_starts=[0, steps // 2],
    )


@given(models())
def test_relabeled_states_have_the_same_likelihood(case):
    model, rng = case
    log = log_of(model, rng)
    order = rng.permutation(model.n_states)
    turned = model.reordered(order)
    assert turned.log_likelihood(log) == pytest.approx(model.log_likelihood(log), rel=1e-10)
    np.testing.assert_allclose(turned.belief(log), model.belief(log)[order], atol=1e-9)
    np.testing.assert_allclose(turned.stationary(), model.stationary()[order], atol=1e-9)
    assert turned.reordered(np.argsort(order)) == model


@given(models())
def test_relabeled_symbols_have_the_same_likelihood(case):
    model, rng = case
    log = log_of(model, rng)
    actions, observations = rng.permutation(model.n_actions), rng.permutation(model.n_observations)
    turned = POMDP(
        transitions=model.transitions[actions],
        observations=model.observations[actions][:, :, observations],
        initial=model.initial,
        emission=model.emission,
        action_names=[model.action_names[a] for a in actions],
        observation_names=[model.observation_names[o] for o in observations],
    )
    assert turned.log_likelihood(log) == pytest.approx(model.log_likelihood(log), rel=1e-12)


@given(models())
def test_a_similarity_leaves_all_probabilities_unchanged(case):
    model, rng = case
    basis = linalg.haar_rotation(model.n_states, rng) * rng.uniform(0.5, 2, model.n_states)
    psr = model.to_psr()
    moved = psr.transformed(basis)
    for length in range(4):
        actions = rng.integers(0, model.n_actions, length)
        observations = rng.integers(0, model.n_observations, length)
        assert moved.probability(actions, observations) == pytest.approx(
            psr.probability(actions, observations), abs=1e-12
        )
    np.testing.assert_allclose(moved.predict(moved.initial), psr.predict(psr.initial), atol=1e-12)
    back = moved.transformed(linalg.inverse(basis))
    np.testing.assert_allclose(back.updates, psr.updates, atol=1e-12)


@given(models())
def test_beliefs_and_predictions_are_distributions(case):
    model, rng = case
    belief = model.belief(log_of(model, rng))
    assert belief.min() >= 0
    assert belief.sum() == pytest.approx(1, abs=1e-12)
    predicted = model.predict(belief)
    assert predicted.min() >= 0
    np.testing.assert_allclose(predicted.sum(axis=1), 1, atol=1e-12)


@given(labels=st.lists(st.integers(-3, 3), min_size=1, max_size=8), seed=SEEDS)
def test_partitions_follow_their_states(labels, seed):
    rng = np.random.default_rng(seed)
    partition = Partition(np.array(labels))
    order = rng.permutation(len(labels))
    turned = partition.relabel(order)
    together = {frozenset(cell) for cell in partition.cells}
    assert {frozenset(int(order[s]) for s in cell) for cell in turned.cells} == together
    assert turned.relabel(np.argsort(order)) == partition
    assert Partition.from_cells(partition.cells) == partition
    firsts = [cell[0] for cell in turned.cells]
    assert firsts == sorted(firsts)
    values = rng.random((2, len(labels)))
    assert turned.sums(values[:, order]).sum() == pytest.approx(values.sum())
    expected = sorted(values[0][list(cell)].sum() for cell in partition.cells)
    np.testing.assert_allclose(np.sort(turned.sums(values[0][order])), expected)
