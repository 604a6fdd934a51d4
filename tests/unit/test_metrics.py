"""The measures: states are found again under any relabelling, errors are what the formulas say."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from unlatch import POMDP, PSR, Partition, Trajectory, domains, simulate
from unlatch.compare.errors import (
    held_out_gap,
    observation_l1,
    observation_l1_all,
    three_step_transition_l1,
    transition_l1,
    true_partition,
)
from unlatch.compare.match_states import match_observation_rows, match_states
from unlatch.errors import DataError

ALIASED = [domains.tmaze(rooms) for rooms in range(1, 7)]
ALIASED += [domains.tmaze(3, fail=0.1), domains.sense_float_reset(4), domains.sense_float_reset(5)]
DISTINCT = [
    domains.tiger(),
    domains.sense_float_reset(3),
    domains.directional_hallway(),
    domains.noisy_hallway(),
]


def label(model: POMDP) -> str:
    return f"{model.n_states}-states-{model.action_names[0]}"


def noisy(model: POMDP, noise: float, rng: np.random.Generator) -> POMDP:
    def mixed(rows: np.ndarray) -> np.ndarray:
        return (1 - noise) * rows + noise * rng.dirichlet(np.ones(rows.shape[-1]), rows.shape[:-1])

    return POMDP(
        transitions=mixed(model.transitions),
        observations=mixed(model.observations),
        initial=mixed(model.initial),
        action_names=model.action_names,
        observation_names=model.observation_names,
    )


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.1])
@pytest.mark.parametrize("model", ALIASED + DISTINCT, ids=label)
def test_states_are_found_again_after_any_shuffle(model: POMDP, noise: float) -> None:
    rng = np.random.default_rng(model.n_states)
    for _ in range(4):
        shuffle = rng.permutation(model.n_states)
        learned = noisy(model.reordered(shuffle), noise, rng)
        order = match_states(learned, model)
        np.testing.assert_array_equal(shuffle[order], np.arange(model.n_states))


def test_observation_rows_alone_do_not_tell_aliased_states_apart() -> None:
    model = domains.tmaze(3)
    swapped = np.array([0, 5, 2, 3, 4, 1, 6, 7])  # two rooms that look alike
    order = match_observation_rows(model.observations[:, swapped], model.observations)
    assert observation_l1_all(model.reordered(swapped), model) < 1e-12
    assert transition_l1(model.reordered(swapped), model) < 1e-12
    assert transition_l1(model, model, order=swapped) > 0.1
    assert sorted(order) == list(range(8))


@pytest.mark.parametrize("model", ALIASED + DISTINCT, ids=label)
def test_the_truth_has_no_error(model: POMDP) -> None:
    shuffled = model.reordered(np.random.default_rng(1).permutation(model.n_states))
    actions, partition = true_partition(model)
    order = match_states(shuffled, model)
    assert observation_l1_all(shuffled, model) == pytest.approx(0, abs=1e-12)
    assert transition_l1(shuffled, model) == pytest.approx(0, abs=1e-12)
    assert three_step_transition_l1(shuffled, partition, model, order=order) == pytest.approx(0, abs=1e-9)
    rows = shuffled.observations[actions]
    assert observation_l1(rows, actions, model) == pytest.approx(0, abs=1e-12)
    assert observation_l1(rows, actions, model, order=order) == pytest.approx(0, abs=1e-12)


def test_errors_are_means_of_row_distances() -> None:
    truth = domains.tiger()
    observations = truth.observations.copy()
    observations[0, 0, :2] += [-0.1, 0.1]
    transitions = truth.transitions.copy()
    transitions[0, 1] = [0.3, 0.7]
    learned = POMDP(transitions, observations, truth.initial, action_names=truth.action_names,
                    observation_names=truth.observation_names)  # fmt: skip
    assert observation_l1_all(learned, truth) == pytest.approx(0.2 / 6)
    assert observation_l1(observations[[0]], [0], truth) == pytest.approx(0.2 / 2)
    assert transition_l1(learned, truth) == pytest.approx(0.6 / 6)


def test_alphabets_are_matched_by_name() -> None:
    truth = domains.tiger()
    actions, symbols = np.array([2, 0, 1]), np.random.default_rng(0).permutation(truth.n_observations)
    learned = POMDP(
        truth.transitions[actions],
        truth.observations[actions][:, :, symbols],
        truth.initial,
        action_names=[truth.action_names[i] for i in actions],
        observation_names=[truth.observation_names[i] for i in symbols],
    )
    assert observation_l1_all(learned, truth) == pytest.approx(0, abs=1e-12)
    assert transition_l1(learned, truth) == pytest.approx(0, abs=1e-12)
    assert three_step_transition_l1(learned, [0, 1], truth) == pytest.approx(0, abs=1e-12)


def test_symbols_of_one_side_only_count_as_errors() -> None:
    truth = POMDP(np.ones((1, 1, 1)), [[[0.5, 0.5]]], [1.0], observation_names=("x", "y"))
    learned = POMDP(np.ones((1, 1, 1)), [[[0.5, 0.5]]], [1.0], observation_names=("z", "x"))
    assert observation_l1_all(learned, truth) == pytest.approx(1.0)


def test_three_steps_by_the_formula() -> None:
    truth = domains.directional_hallway()
    learned = noisy(truth, 0.05, np.random.default_rng(0))
    labels = np.array([0, 1, 0])
    b, c = learned.stationary(), truth.stationary()
    errors = []
    for word in product(range(truth.n_actions), repeat=3):
        x, y = b, c
        for a in word:
            x, y = x @ learned.transitions[a], y @ truth.transitions[a]
        errors.append(2 * abs(x[1] - y[1]))
    measured = three_step_transition_l1(learned, labels, truth, order=[0, 1, 2])
    assert measured == pytest.approx(np.mean(errors))
    assert three_step_transition_l1(learned, Partition(labels), truth) == pytest.approx(np.mean(errors))


def test_three_steps_do_not_depend_on_the_basis_inside_a_cell() -> None:
    truth = domains.sense_float_reset(4)
    _, partition = true_partition(truth)
    assert partition.cells == ((0,), (1,), (2, 3))
    mixing = np.eye(4)
    mixing[2:, 2:] = [[1.7, -0.7], [0.4, 0.6]]
    stationary = PSR(
        truth.stationary(), truth.updates, np.ones(4), truth.action_names, truth.observation_names
    )
    mixed = stationary.transformed(mixing)
    assert (mixed.updates < -0.01).any()
    assert three_step_transition_l1(mixed, partition, truth) == pytest.approx(0, abs=1e-9)
    wrong = PSR(truth.initial, truth.updates, np.ones(4), truth.action_names, truth.observation_names)
    assert three_step_transition_l1(wrong, partition, truth) > 0.01


def test_arrival_models_have_rows_too() -> None:
    truth = POMDP([[[0.9, 0.1], [0.2, 0.8]]], [[[0.9, 0.1], [0.2, 0.8]]], [0.5, 0.5], emission="arrival")
    psr = PSR(truth.stationary(), truth.updates, np.ones(2))
    assert three_step_transition_l1(psr, [0, 1], truth) == pytest.approx(0, abs=1e-12)
    shuffled = PSR(truth.stationary()[::-1], truth.updates[:, :, ::-1, ::-1], np.ones(2))
    assert three_step_transition_l1(shuffled, [0, 1], truth) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("model", "actions", "cells"),
    [
        (domains.tiger(), ["listen"], 2),
        (domains.tmaze(2), ["left", "right"], 4),
        (domains.tmaze(2, fail=0.1), ["left", "right", "up", "down"], 5),
        (domains.tmaze(6), ["left", "right"], 8),
        (domains.sense_float_reset(3), ["float", "sense"], 3),
        (domains.sense_float_reset(4), ["sense"], 3),
        (domains.directional_hallway(), ["left", "right", "stay"], 3),
    ],
)
def test_the_true_partition(model: POMDP, actions: list[str], cells: int) -> None:
    full, partition = true_partition(model)
    assert [model.action_names[a] for a in full] == actions
    assert partition.n_cells == cells


def test_without_a_full_rank_action_all_states_share_a_cell() -> None:
    model = POMDP(np.full((1, 2, 2), 0.5), [[[1.0, 0.0], [0.0, 1.0]]], [0.5, 0.5])
    full, partition = true_partition(model)
    assert len(full) == 0
    assert partition.n_cells == 1


def test_held_out_gap_is_nats_per_step() -> None:
    truth = domains.tiger()
    log = simulate(truth, 2000, rng=0)
    learned = noisy(truth, 0.1, np.random.default_rng(0))
    gap = held_out_gap(learned, truth, log)
    assert gap == pytest.approx((truth.log_likelihood(log) - learned.log_likelihood(log)) / 2000)
    assert gap > 0
    assert held_out_gap(truth.to_psr(), truth, log) == pytest.approx(0, abs=1e-12)
    impossible = POMDP(truth.transitions, np.roll(truth.observations, 2, axis=2), truth.initial,
                       action_names=truth.action_names, observation_names=truth.observation_names)  # fmt: skip
    assert held_out_gap(impossible, truth, log) == np.inf
    with pytest.raises(DataError, match="no steps"):
        held_out_gap(truth, truth, Trajectory([], [], truth.action_names, truth.observation_names))


def test_what_cannot_be_compared_is_refused() -> None:
    tiger, maze = domains.tiger(), domains.tmaze()
    arrival = POMDP(tiger.transitions, tiger.observations, tiger.initial, "arrival", tiger.action_names,
                    tiger.observation_names)  # fmt: skip
    for measure in (match_states, observation_l1_all, transition_l1):
        with pytest.raises(DataError, match="states"):
            measure(maze, tiger)
        with pytest.raises(DataError, match="emits"):
            measure(arrival, tiger)
        with pytest.raises(DataError, match="actions differ"):
            measure(POMDP(tiger.transitions, tiger.observations, tiger.initial), tiger)
    with pytest.raises(DataError, match="agree"):
        three_step_transition_l1(maze, [0, 1], tiger)
    with pytest.raises(DataError, match="shape"):
        observation_l1(tiger.observations, [0], tiger)
