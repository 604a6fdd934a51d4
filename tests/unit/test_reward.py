"""Goals: written in names or indices, turned into numbers by a model, refused where they make no sense."""

from __future__ import annotations

import numpy as np
import pytest

import naive
from unlatch import POMDP, PSR, Partition, PartitionModel, Reward, domains
from unlatch.errors import DataError, UsageError

HALLWAY = domains.noisy_hallway()
LINE = domains.sense_float_reset(4)


def confounded(cells=((0,), (1,), (2, 3))):
    return PartitionModel(LINE.to_psr(), Partition.from_cells(cells))


# --- writing ------------------------------------------------------------------------------------------------


def test_a_reward_is_a_value():
    one = Reward.on_states({"middle": 1.0})
    assert one == Reward.on_states({"middle": 1})
    assert hash(one) == hash(Reward.on_states({"middle": 1}))
    assert one != Reward.on_states({"middle": 2})
    with pytest.raises(AttributeError):
        one.kind = "cells"  # type: ignore[misc]


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 10**400])
def test_a_reward_must_be_finite(value):
    with pytest.raises(UsageError, match="must be finite"):
        Reward.on_states({0: value})


@pytest.mark.parametrize("value", ["1", None, True, 1j])
def test_a_reward_must_be_a_number(value):
    with pytest.raises(UsageError, match="must be a number"):
        Reward.on_observations({("left", "end-left"): value})


@pytest.mark.parametrize("value", [1e308, -1e308, 5e-324, 0, np.float32(2), np.int8(3)])
def test_every_finite_number_is_a_reward(value):
    assert Reward.on_states({0: value}).resolve(HALLWAY).cells[0, 0] == float(value)


def test_a_goal_names_something():
    for make in (Reward.on_states, Reward.on_cells, Reward.on_observations):
        with pytest.raises(UsageError, match="at least one"):
            make({})
    with pytest.raises(UsageError, match="a mapping"):
        Reward.on_states([0, 1])  # type: ignore[arg-type]


@pytest.mark.parametrize("key", [("left",), ("left", "end-left", 1), ()])
def test_rewards_on_observations_need_pairs(key):
    with pytest.raises(UsageError, match="pairs"):
        Reward.on_observations({key: 1.0})


def test_an_observation_alone_pays_after_any_action():
    hallway = domains.directional_hallway()
    alone = Reward.on_observations({"end-left": 1.0}).resolve(hallway).symbols
    every = Reward.on_observations({(action, "end-left"): 1.0 for action in hallway.action_names})
    np.testing.assert_array_equal(alone, every.resolve(hallway).symbols)
    assert alone.sum() == hallway.n_actions
    with pytest.raises(UsageError, match="twice"):
        Reward.on_observations({"end-left": 1.0, ("left", "end-left"): 2.0}).resolve(hallway)
    with pytest.raises(UsageError, match="nowhere"):
        Reward.on_observations({"nowhere": 1.0}).resolve(hallway)


# --- symbols and observations -------------------------------------------------------------------------------


def test_learned_rewards_are_those_of_the_symbols():
    tiger = domains.tiger()
    resolved = Reward.learned(tiger).resolve(tiger)
    assert np.array_equal(resolved.symbols, np.tile(tiger.symbol_rewards, (3, 1)))
    assert not resolved.cells.any()


def test_learned_rewards_follow_the_names_to_another_order():
    tiger = domains.tiger()
    order = np.arange(tiger.n_observations)[::-1]
    other = POMDP(
        tiger.transitions,
        tiger.observations[:, :, order],
        tiger.initial,
        action_names=tiger.action_names,
        observation_names=tuple(tiger.observation_names[o] for o in order),
    )
    assert np.array_equal(Reward.learned(tiger).resolve(other).symbols[0], tiger.symbol_rewards[order])


def test_a_model_without_symbol_rewards_says_what_to_do():
    with pytest.raises(UsageError, match=r"on_observations|on_states"):
        Reward.learned(HALLWAY)


def test_names_and_indices_mean_the_same():
    by_name = Reward.on_observations({("left", "end-left"): 1.0, ("right", "end-right"): 2.0})
    by_index = Reward.on_observations({(0, 0): 1.0, (1, np.int64(1)): 2.0})
    assert np.array_equal(by_name.resolve(HALLWAY).symbols, by_index.resolve(HALLWAY).symbols)
    assert by_name.resolve(HALLWAY).symbols.sum() == 3.0


@pytest.mark.parametrize("action", ["up", 4, -1, True, 0.0])
def test_an_unknown_action_is_told_the_known_ones(action):
    with pytest.raises(UsageError, match="'left', 'right', 'stay', 'reset'"):
        Reward.on_observations({(action, "end-left"): 1.0}).resolve(HALLWAY)


def test_long_lists_of_names_are_cut():
    model = POMDP([[[1.0]]], np.full((1, 1, 30), 1 / 30), [1.0])
    with pytest.raises(UsageError, match="30 in all"):
        Reward.on_observations({(0, "x"): 1.0}).resolve(model)


def test_one_pair_cannot_be_paid_twice():
    with pytest.raises(UsageError, match="twice"):
        Reward.on_observations({("left", "end-left"): 1.0, (0, 0): 2.0}).resolve(HALLWAY)


def test_an_observation_without_its_reward_pays_on_all_symbols_that_show_it():
    tiger = domains.tiger()
    symbols = Reward.on_observations({("listen", "hear-left"): 1.0}).resolve(tiger).symbols
    assert symbols[0].tolist() == [float(name.startswith("hear-left|")) for name in tiger.observation_names]
    assert not symbols[1:].any()
    model = POMDP(
        [[[1.0]]],
        [[[0.5, 0.3, 0.2]]],
        [1.0],
        observation_names=("a|0", "a|1", "b|0"),
        symbol_rewards=[0, 1, 0],
    )
    assert Reward.on_observations({(0, "a"): 2.0}).resolve(model).symbols.tolist() == [[2, 2, 0]]
    with pytest.raises(UsageError, match="twice"):
        Reward.on_observations({(0, "a"): 2.0, (0, "a|1"): 1.0}).resolve(model)
    with pytest.raises(UsageError, match=r"unknown observation 'c': the model knows 'a\|0'"):
        Reward.on_observations({(0, "c"): 1.0}).resolve(model)


def test_names_that_only_look_like_pairs_are_left_alone():
    model = POMDP(
        [[[1.0]]], [[[0.5, 0.5]]], [1.0], observation_names=("a|0", "a|7"), symbol_rewards=[0.0, 1.0]
    )
    with pytest.raises(UsageError, match="unknown observation 'a'"):
        Reward.on_observations({(0, "a"): 1.0}).resolve(model)


# --- rewards beside observations ----------------------------------------------------------------------------


def test_learned_rewards_beside_observations():
    model = naive.random_episodic(np.random.default_rng(0))
    resolved = Reward.learned(model).resolve(model)
    assert resolved.rewards.tolist() == [-1.0, 0.0, 2.5]
    assert not resolved.symbols.any()
    assert not resolved.states.any()


def test_a_reward_is_the_same_in_models_that_pay_it_in_another_way():
    mixed = naive.random_episodic(np.random.default_rng(0))
    paired = POMDP(
        [[[1.0]]],
        [[[0.5, 0.3, 0.2]]],
        [1.0],
        observation_names=("a", "b", "c"),
        symbol_rewards=[2.5, 0.0, 9.0],
    )
    assert Reward.learned(mixed).resolve(paired).symbols.tolist() == [[2.5, 0, 0]]
    with pytest.raises(UsageError, match="knows no rewards"):
        Reward.learned(mixed).resolve(HALLWAY)


# --- states and cells ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["middle", 1, np.int32(1), (1,)])
def test_a_state_by_name_by_index_or_alone_in_a_tuple(state):
    assert Reward.on_states({state: 2.0}).resolve(HALLWAY).states[0].tolist() == [0, 2, 0]


def test_a_tuple_stands_for_all_of_its_states():
    assert Reward.on_states({(0, 2): 1.0}).resolve(HALLWAY).states[0].tolist() == [1, 0, 1]


def test_a_state_that_ends_the_episode_is_never_left():
    model = naive.corridor()
    with pytest.raises(UsageError, match="'goal' ends the episode"):
        Reward.on_states({"goal": 1.0}).resolve(model)
    assert Reward.on_states({(0, 3): 1.0}).resolve(model).states[0].tolist() == [1, 0, 0, 0]


def test_an_unknown_state_is_told_the_known_ones():
    with pytest.raises(UsageError, match="'left', 'middle', 'right'"):
        Reward.on_states({"center": 1.0}).resolve(HALLWAY)


def test_a_psr_has_no_states_and_says_so():
    for reward in (Reward.on_states({0: 1.0}), Reward.on_cells({0: 1.0})):
        with pytest.raises(UsageError, match="predictions, not states"):
            reward.resolve(HALLWAY.to_psr())
    assert Reward.on_observations({(0, 0): 1.0}).resolve(HALLWAY.to_psr()).symbols[0, 0] == 1


def test_cells_pay_all_of_their_states():
    resolved = Reward.on_cells({2: 3.0}).resolve(confounded())
    assert resolved.cells[0].tolist() == [0, 0, 3]
    assert resolved.states.tolist() == [[0, 0, 3, 3]] * 3


def test_a_cell_may_be_given_by_its_states():
    model = confounded()
    assert Reward.on_states({model.partition.cells[2]: 3.0}).resolve(model).cells[0].tolist() == [0, 0, 3]
    assert Reward.on_states({(1, 3, 2): 3.0}).resolve(model).cells[0].tolist() == [0, 3, 3]


def test_a_state_that_stands_alone_may_be_rewarded():
    assert Reward.on_states({"1": 1.0}).resolve(confounded()).cells[0].tolist() == [0, 1, 0]


@pytest.mark.parametrize("state", [3, (1, 2)])
def test_confounded_states_cannot_be_singled_out(state):
    with pytest.raises(UsageError, match="confounds"):
        Reward.on_states({state: 1.0}).resolve(confounded())


@pytest.mark.parametrize("cell", [3, -1, "0", True])
def test_an_unknown_cell_is_told_the_known_ones(cell):
    with pytest.raises(UsageError, match=r"3 cells.*\{2, 3\}"):
        Reward.on_cells({cell: 1.0}).resolve(confounded())


def test_a_pomdp_has_states_not_cells():
    with pytest.raises(UsageError, match="on_states"):
        Reward.on_cells({0: 1.0}).resolve(HALLWAY)


# --- the partition-level model ------------------------------------------------------------------------------


def test_a_partition_model_is_a_value():
    model = confounded()
    assert model == confounded()
    assert model != confounded(((0, 1), (2, 3)))
    assert model != 1
    assert repr(model) == "PartitionModel(4 states in 3 cells, 3 actions, 3 observations)"
    assert model.to_psr() == LINE.to_psr()
    assert np.array_equal(model.symbol_rewards, LINE.symbol_rewards)


def test_cell_probabilities_are_sums_projected():
    model = confounded()
    assert np.allclose(model.cell_probabilities([0.5, 0.25, 0.5, -0.25]), [0.5, 0.25, 0.25])
    assert np.allclose(model.cell_probabilities([0.8, 0.4, -0.3, 0.1]), [0.7, 0.3, 0.0])
    with pytest.raises(DataError, match="3 entries for 4 states"):
        model.cell_probabilities([0.5, 0.25, 0.25])


def test_what_is_no_partition_model_is_refused():
    with pytest.raises(DataError, match="3 states, the PSR 4"):
        PartitionModel(LINE.to_psr(), Partition.singletons(3))
    psr = LINE.to_psr()
    doubled = PSR(psr.initial / 2, psr.updates, psr.final * 2)
    with pytest.raises(DataError, match="not in state coordinates"):
        PartitionModel(doubled, Partition.singletons(4))
