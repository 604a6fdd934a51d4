"""Finite logs with fixed seeds: the learner finds what is there. Marked slow: together they take a while."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import naive
from unlatch import POMDP, Partition, Trajectory, domains, learn_pomdp, simulate

pytestmark = pytest.mark.slow

learn_spectral = partial(learn_pomdp, refine=None)

STEPS = 100_000

ARRIVAL = POMDP(
    transitions=[[[0.8, 0.2], [0.3, 0.7]], [[0.1, 0.9], [0.6, 0.4]]],
    observations=[[[0.9, 0.1], [0.2, 0.8]], [[0.7, 0.3], [0.1, 0.9]]],
    initial=[0.5, 0.5],
    emission="arrival",
)


def matched(result, truth):
    """The learned model with its states in the order of the true ones whose rows are nearest."""
    distance = np.abs(result.pomdp.observations[:, :, None] - truth.observations[:, None]).sum(axis=(0, 3))
    order = distance.argmin(axis=0)
    return result.pomdp.reordered(order)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("model", "cells"), [(domains.tiger(), 2), (domains.sense_float_reset(3), 3), (domains.tmaze(), 3)]
)
def test_domains_are_learned_from_a_hundred_thousand_steps(model, cells, seed):
    result = learn_spectral(simulate(model, STEPS, rng=seed), rng=seed)
    assert result.states == model.n_states
    assert result.partition.n_cells == cells
    learned = matched(result, model)
    assert np.abs(learned.observations - model.observations).max() < 0.06
    assert np.abs(learned.transitions - model.transitions).max() < 0.15
    assert np.abs(learned.initial - model.stationary()).max() < 0.03


@pytest.mark.parametrize("seed", range(3))
def test_an_arrival_model_is_learned(seed):
    result = learn_spectral(simulate(ARRIVAL, STEPS, rng=seed), emission="arrival", rng=seed)
    assert result.states == 2
    assert naive.distance_up_to_relabeling(result.pomdp, naive.stationary_start(ARRIVAL)) < 0.1


def test_the_wrong_emission_is_told():
    log = simulate(ARRIVAL, 10 * STEPS, rng=0)
    assert "not_jointly_diagonal" not in learn_spectral(log, emission="arrival", rng=0).diagnostics
    note = learn_spectral(log, emission="departure", rng=0).diagnostics["not_jointly_diagonal"]
    assert "arrival emission" in note.message
    assert note.details["residual"] > 25 * note.details["noise"]


def test_more_steps_give_a_better_model():
    tiger = domains.tiger()
    errors = []
    for steps in (3_000, 1_000_000):
        results = [learn_spectral(simulate(tiger, steps, rng=seed), rank=2, rng=0) for seed in range(3)]
        errors.append(
            np.mean([np.abs(matched(r, tiger).transitions - tiger.transitions).mean() for r in results])
        )
    assert errors[1] < errors[0] / 5


def test_two_policies_give_the_same_model():
    """The estimator conditions on actions: how often each was tried must not matter."""
    tiger = domains.tiger()
    for policy in ([0.8, 0.1, 0.1], [0.2, 0.2, 0.6]):
        result = learn_spectral(simulate(tiger, 3 * STEPS, policy=policy, rng=0), rng=0)
        learned = matched(result, tiger)
        assert np.abs(learned.observations - tiger.observations).max() < 0.06
        assert np.abs(learned.transitions - tiger.transitions).max() < 0.1


def test_episodes_of_any_length_do():
    """Many short episodes from the stationary start hold the same windows as one long log."""
    tiger = domains.tiger()
    result = learn_spectral(simulate(tiger, 20, episodes=STEPS // 20, rng=0), rng=0)
    assert result.states == 2
    assert np.abs(matched(result, tiger).observations - tiger.observations).max() < 0.06


@pytest.mark.parametrize("model", [domains.tiger(), domains.tmaze()])
def test_relabeled_symbols_give_the_relabeled_model(model):
    """Other numbers for the same names: the same model, its states perhaps in another order."""
    rng = np.random.default_rng(0)
    log = simulate(model, STEPS, rng=1)
    actions, observations = rng.permutation(model.n_actions), rng.permutation(model.n_observations)
    turned = Trajectory(
        np.argsort(actions)[log.actions],
        np.argsort(observations)[log.observations],
        [model.action_names[a] for a in actions],
        [model.observation_names[o] for o in observations],
        log.rewards,
    )
    plain = learn_spectral(log, rng=0)
    other = learn_spectral(turned, rng=0)
    assert other.states == plain.states
    assert sorted(map(len, other.partition.cells)) == sorted(map(len, plain.partition.cells))
    back = POMDP(
        transitions=other.pomdp.transitions[np.argsort(actions)],
        observations=other.pomdp.observations[np.argsort(actions)][:, :, np.argsort(observations)],
        initial=other.pomdp.initial,
    )
    same = POMDP(plain.pomdp.transitions, plain.pomdp.observations, plain.pomdp.initial)
    assert naive.distance_up_to_relabeling(back, same) < 1e-4


def test_learned_states_are_in_a_stable_order():
    """Logs of one domain give states in one order: what is printed first is the same state every time."""
    tiger = domains.tiger()
    first = [
        learn_spectral(simulate(tiger, STEPS, rng=seed), rng=seed).pomdp.observations[0, 0, 0]
        for seed in range(5)
    ]
    assert np.ptp(first) < 0.05


@pytest.mark.parametrize("model", [domains.tiger(), domains.sense_float_reset(3), domains.tmaze()])
def test_a_learned_model_predicts_almost_as_well_as_the_truth(model):
    """One step ahead, along a log that it never saw; both begin from the stationary belief."""
    learned = learn_spectral(simulate(model, STEPS, rng=0), rng=0).pomdp.to_psr()
    truth = naive.stationary_start(model).to_psr()
    fresh = simulate(model, 2_000, rng=99)
    mine, yours, apart = learned.initial, truth.initial, []
    for action, observation in zip(fresh.actions, fresh.observations, strict=True):
        apart.append(np.abs(learned.predict(mine) - truth.predict(yours)).sum(axis=1).max())
        mine, yours = mine @ learned.updates[action, observation], yours @ truth.updates[action, observation]
        mine, yours = mine / mine.sum(), yours / yours.sum()
    assert np.mean(apart) < 0.05


def test_the_partition_of_the_unidentifiable_pair_is_found_in_a_log():
    first, _ = domains.unidentifiable_pair()
    result = learn_spectral(simulate(first, 3 * STEPS, rng=0), rank=3, rng=0)
    assert sorted(map(len, result.partition.cells)) == [1, 2]
    assert result.partition != Partition.singletons(3)
