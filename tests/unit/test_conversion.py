"""Emission converted: the same process on the other side of the move; and models that pay a problem's reward."""

from __future__ import annotations

import doctest
import itertools

import numpy as np
import pytest

import unlatch.core.emission
import unlatch.core.paying
from unlatch import POMDP, PSR, Problem, Reward, domains, paying_model, simulate, with_emission
from unlatch.errors import ResourceLimitError, UsageError

OTHER = {"departure": "arrival", "arrival": "departure"}


def random_model(seed, emission, *, terminal=False):
    """Sparse rows, some of them equal, with endings, first observations and rewards beside the observations."""
    rng = np.random.default_rng(seed)
    states, actions, observations = (int(rng.integers(low, high)) for low, high in ((2, 5), (1, 3), (2, 4)))

    def rows(*shape):
        table = rng.dirichlet(np.full(shape[-1], 0.4), size=shape[:-1])
        table[table < 0.05] = 0
        return table / table.sum(axis=-1, keepdims=True)

    moves, shows, initial = rows(actions, states, states), rows(actions, states, observations), rows(states)
    shows[:, states // 2 :] = shows[:, states // 2 : states // 2 + 1]
    ends = (states - 1,) if terminal else ()
    for state in ends:
        moves[:, state] = np.eye(states)[state]
        initial = np.append(np.full(states - 1, 1 / (states - 1)), 0.0)
    return POMDP(
        moves, shows, initial, emission, terminal=ends,
        first_observations=rows(states, 2), first_observation_names=("dark", "light"),
        reward_values=[-1.0, 2.0], reward_probabilities=rows(actions, states, 2),
    )  # fmt: skip


def joint(model, table, actions):
    """Probability of every sequence of observations that does not end, next to the expected reward, by all paths."""
    result, live = {}, model.going_on > 0
    for shown in itertools.product(range(model.n_observations), repeat=len(actions)):
        weights, paid = model.initial, np.zeros(model.n_states)
        for a, o in zip(actions, shown, strict=True):
            update = model.updates[a, o]
            pays = table[a, :, :, min(o, table.shape[3] - 1)]
            paid = (paid @ update + weights @ (update * pays)) * live
            weights = (weights @ update) * live
        result[shown] = (weights.sum(), paid.sum())
    return result


@pytest.mark.parametrize("emission", OTHER)
@pytest.mark.parametrize("seed", range(15))
def test_the_process_stays_what_it_was(emission, seed):
    model = random_model(seed, emission, terminal=seed % 2 == 1)
    other = with_emission(model, OTHER[emission])
    assert other.emission == OTHER[emission]
    log = simulate(model, 12, **({"total": 200} if model.terminal else {"episodes": 12}), rng=seed)
    assert other.log_likelihood(log) == pytest.approx(model.log_likelihood(log), abs=1e-10)
    actions = [0, model.n_actions - 1, 0]
    one, two = (joint(each, np.zeros((1, 1, 1, 1))[[0] * each.n_actions], actions) for each in (model, other))
    assert max(abs(one[shown][0] - two[shown][0]) for shown in one) < 1e-12
    back = with_emission(other, emission) if other.n_states < 60 else model
    assert back.log_likelihood(log) == pytest.approx(model.log_likelihood(log), abs=1e-10)


@pytest.mark.parametrize("emission", OTHER)
@pytest.mark.parametrize("seed", range(8))
def test_every_transition_pays_what_it_paid(emission, seed):
    model = random_model(seed, emission)
    rng = np.random.default_rng(seed)
    shape = (
        model.n_actions,
        model.n_states,
        model.n_states if seed % 2 else 1,
        model.n_observations if seed % 3 else 1,
    )
    problem = Problem(model, Reward.on_transitions(rng.normal(size=shape)), 0.5)
    other = with_emission(problem, OTHER[emission])
    assert other.discount == 0.5
    actions = [model.n_actions - 1, 0]
    ones, twos = (joint(each.model, each.reward_table, actions) for each in (problem, other))
    for shown in ones:
        assert ones[shown] == pytest.approx(twos[shown], abs=1e-12)


def test_a_wrong_conversion_would_be_noticed():
    """Merely to rename the emission is another process."""
    from dataclasses import replace

    model = random_model(1, "departure")
    wrong = replace(model, emission="arrival")
    table = np.zeros((model.n_actions, 1, 1, 1))
    one, two = joint(model, table, [0, 0, 0]), joint(wrong, table, [0, 0, 0])
    assert max(abs(one[shown][0] - two[shown][0]) for shown in one) > 1e-3


def test_no_more_states_than_needed():
    quiet = POMDP([[[0.5, 0.5], [0.5, 0.5]]], [[[0.9, 0.1], [0.9, 0.1]]], [1, 0])
    assert with_emission(quiet, "arrival").n_states == 2  # whatever leads there shows the same
    lock = POMDP([np.eye(3)[[1, 2, 0]]], [np.eye(3)], [1, 0, 0])
    assert with_emission(lock, "arrival").n_states == 3  # one way to get anywhere
    assert with_emission(lock, "arrival").state_names == lock.state_names
    tiger = with_emission(domains.tiger(), "arrival")
    assert tiger.n_states == 4
    assert with_emission(tiger, "arrival") is tiger
    seen = POMDP([np.full((3, 3), 1 / 3)], [np.eye(3)[[0, 0, 1]][:, :2]], [1, 0, 0], "arrival")
    assert with_emission(seen, "departure").n_states == 6  # two kinds of next state each


def test_names_of_copies_do_not_meet_other_names():
    model = POMDP(
        [[[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]]], [[[1, 0], [0, 1], [1, 0]]], [1, 0, 0],
        state_names=("a", "b", "a.0"),
    )  # fmt: skip
    names = with_emission(model, "arrival").state_names
    assert len(set(names)) == len(names)
    assert "a.0" in names


def test_too_many_states_are_refused():
    rng = np.random.default_rng(0)
    wide = POMDP(
        rng.dirichlet(np.ones(6), size=(12, 6)),
        rng.dirichlet(np.ones(3), size=(12, 6)),
        np.full(6, 1 / 6),
        "arrival",
    )
    with pytest.raises(ResourceLimitError, match="Keep it on arrival"):
        with_emission(wide, "departure")


@pytest.mark.parametrize("wrong", [3, domains.tiger().to_psr(), Problem(domains.tiger().to_psr())])
def test_what_has_no_emission(wrong):
    assert not isinstance(wrong, POMDP)
    with pytest.raises(UsageError):
        with_emission(wrong, "arrival")
    with pytest.raises(UsageError):
        with_emission(domains.tiger(), "midway")


def test_rewards_that_do_not_speak_of_states_stay():
    problem = Problem(domains.tiger())
    assert with_emission(problem, "arrival").reward == problem.reward
    assert isinstance(problem.model.to_psr(), PSR)


# --- models that pay -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_a_paying_model_pays_the_reward_and_shows_what_the_model_shows(seed):
    rng = np.random.default_rng(seed)
    states, actions, observations = 3, 2, 2
    moves, shows = (
        rng.dirichlet(np.ones(states), size=(actions, states)),
        rng.dirichlet(np.ones(2), size=(actions, states)),
    )
    model = POMDP(moves, shows, [0.5, 0.25, 0.25], "departure" if seed == 9 else "arrival")
    shape = (actions, states, states if seed % 2 else 1, observations if seed % 3 else 1)
    problem = Problem(model, Reward.on_transitions(rng.integers(-2, 3, size=shape).astype(float)))
    paying = paying_model(problem)
    log = simulate(paying, 30, episodes=40, rng=seed)
    assert log.rewards is not None
    if shape[2:] == (1, 1):
        assert paying.reward_values is not None
        np.testing.assert_allclose(Problem(paying).rewards, problem.rewards, atol=1e-12)
        return
    belief, own, expected, there = model.initial, paying.initial, [], []
    for a in (0, 1, 0):
        expected.append(belief @ problem.rewards[a])
        there.append(own @ Problem(paying).rewards[a])
        belief, own = belief @ model.transitions[a], own @ paying.transitions[a]
    assert expected == pytest.approx(there, abs=1e-12)
    plain = [name.rpartition("|")[0] for name in paying.observation_names]
    total = np.einsum("s,aost->ao", paying.initial, paying.updates)
    for o in range(observations):
        mine = total[:, [name == model.observation_names[o] for name in plain]].sum(axis=1)
        assert mine == pytest.approx(np.einsum("s,ast->a", model.initial, model.updates[:, o]), abs=1e-12)


def test_a_model_that_pays_already_is_left_alone():
    tiger = domains.tiger()
    assert paying_model(Problem(tiger)) is tiger
    with pytest.raises(UsageError):
        paying_model(tiger)


def test_an_ended_episode_pays_nothing():
    lake = domains.frozen_lake(lake=["SFF", "HFG"], observe="column")
    plain = POMDP(
        lake.transitions, lake.observations, lake.initial, "arrival", terminal=lake.terminal,
        first_observations=lake.first_observations, first_observation_names=lake.first_observation_names,
    )  # fmt: skip
    table = np.zeros((4, 6, 6))
    table[:, :, 5] = 1.0
    paying = paying_model(Problem(plain, Reward.on_transitions(table)))
    assert len(paying.terminal) == 2
    log = simulate(paying, 100, episodes=200, rng=0)
    assert log.first_observations is not None
    ends = np.flatnonzero(log.terminated)
    assert set(log.rewards[ends]) == {0.0, 1.0}
    assert not log.rewards[~log.terminated].any()


def test_tables_of_rewards():
    tiger = domains.tiger()
    assert Problem(tiger).reward_table.shape == (3, 2, 1, 6) or Problem(tiger).reward_table.shape == (
        3,
        1,
        1,
        6,
    )
    assert Problem(tiger, Reward.on_states({0: 2.0})).reward_table[:, :, 0, 0].tolist() == [[2, 0]] * 3
    with pytest.raises(UsageError):
        _ = Problem(tiger.to_psr()).reward_table


@pytest.mark.parametrize("module", [unlatch.core.emission, unlatch.core.paying])
def test_the_examples_are_true(module):
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0
