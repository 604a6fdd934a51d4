"""What is noticed about a log before learning from it, and about a model after."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unlatch import POMDP, Trajectory, domains, learn_pomdp, simulate
from unlatch.errors import NotLearnableError
from unlatch.learn.examination import examine, examine_model, refuse_deterministic_policy

HEALTHY = {
    "tiger": domains.tiger(),
    "tmaze": domains.tmaze(),
    "sense-float-reset": domains.sense_float_reset(4),
    "directional": domains.directional_hallway(),
    "noisy": domains.noisy_hallway(),
}


def joined(first: Trajectory, second: Trajectory) -> Trajectory:
    """One log after the other, as if nothing had happened in between."""
    return Trajectory(
        np.concatenate([first.actions, second.actions]),
        np.concatenate([first.observations, second.observations]),
        first.action_names,
        first.observation_names,
    )


def following(model: POMDP, steps: int, share: float, seed: int) -> Trajectory:
    """A log in which a share of the actions is the number of the last observation; without probabilities."""
    table = np.full((model.n_observations, model.n_actions), (1 - share) / model.n_actions)
    table[np.arange(model.n_observations), np.arange(model.n_observations) % model.n_actions] += share
    return replace(simulate(model, steps, policy=table, rng=seed), probabilities=None)


@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_is_noticed_about_healthy_logs(name: str) -> None:
    """Twenty logs each: more than one false alarm in a hundred would hardly pass."""
    for seed in range(20):
        assert not len(examine(simulate(HEALTHY[name], 20_000, rng=seed))), seed


@pytest.mark.parametrize("name", ["tiger", "tmaze", "directional"])
def test_the_true_model_fits(name: str) -> None:
    for seed in range(5):
        log = simulate(HEALTHY[name], 50_000, rng=seed)
        assert not len(examine_model(HEALTHY[name], log)), seed


def test_a_policy_that_only_repeats_itself_is_blind() -> None:
    rng = np.random.default_rng(0)
    model = domains.tiger()
    stays = rng.random(20_000) < 0.6
    fresh = rng.integers(3, size=20_000)
    starts = np.flatnonzero(~stays | (np.arange(20_000) == 0))
    actions = fresh[starts][np.searchsorted(starts, np.arange(20_000), side="right") - 1]
    state, observations = 0, []
    for action in actions:
        observations.append(int(rng.choice(6, p=model.observations[action, state])))
        state = int(rng.choice(2, p=model.transitions[action, state]))
    log = Trajectory(actions, observations, model.action_names, model.observation_names)
    assert "actions_depend_on_observations" not in examine(log)


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_actions_that_follow_observations(share: float) -> None:
    log = following(domains.tiger(), 20_000, share, 0)
    note = examine(log)["actions_depend_on_observations"]
    assert note.details["p_value"] < 1e-6
    known = replace(log, probabilities=np.full(len(log), 0.5))
    assert "actions_depend_on_observations" not in examine(known)


def test_a_deterministic_policy_is_refused_with_what_it_never_tried() -> None:
    log = following(domains.tiger(), 5_000, 1.0, 0)
    with pytest.raises(NotLearnableError, match=r"'open-left' after 'hear-left\|-1'"):
        refuse_deterministic_policy(log)
    with pytest.raises(NotLearnableError, match="never tried"):
        learn_pomdp(log, rng=0)
    refuse_deterministic_policy(following(domains.tiger(), 5_000, 0.9, 0))
    refuse_deterministic_policy(Trajectory([0] * 500, [0, 1] * 250))  # one action is no choice


def test_constant_observations_and_a_single_action() -> None:
    rng = np.random.default_rng(0)
    constant = Trajectory(rng.integers(3, size=2_000), np.zeros(2_000, dtype=int))
    assert "constant_observations" in examine(constant)
    assert learn_pomdp(constant, rng=0).pomdp.n_states == 1
    single = simulate(domains.tiger(), 5_000, policy=[1, 0, 0], rng=0)
    assert examine(single)["one_action"].details["unused"] == ["open-left", "open-right"]


def test_a_system_that_changes() -> None:
    for seed in range(3):
        first = simulate(domains.directional_hallway(), 10_000, rng=seed)
        second = simulate(domains.noisy_hallway(), 10_000, rng=seed)
        assert examine(joined(first, second))["drift"].details["p_value"] < 1e-4


def test_a_log_that_contains_itself() -> None:
    log = simulate(domains.tiger(), 5_000, rng=0)
    note = examine(joined(log, log))["repeated_log"]
    assert note.details["share"] == pytest.approx(0.5, abs=0.05)
    assert note.details["distance"] == 5_000
    periodic = Trajectory(np.zeros(5_000, dtype=int), np.arange(5_000) % 3)
    assert "repeated_log" not in examine(periodic)


def test_states_that_were_left_for_good() -> None:
    """Two states, then two others for ever."""
    moves = np.array([[[0.5, 0.49, 0.01, 0], [0.5, 0.5, 0, 0], [0, 0, 0.3, 0.7], [0, 0, 0.7, 0.3]]])
    shown = np.array([[[0.9, 0.1, 0, 0], [0.1, 0.9, 0, 0], [0, 0, 0.9, 0.1], [0, 0, 0.1, 0.9]]])
    model = POMDP(transitions=moves, observations=shown, initial=[1, 0, 0, 0])
    note = examine_model(model, simulate(model, 3_000, rng=1))["several_classes"]
    assert note.details["recurrent"] == [list(model.state_names[2:])]
    assert note.details["transient"] == list(model.state_names[:2])


def test_a_model_without_enough_memory_fits_poorly() -> None:
    truth = domains.tmaze()
    log = simulate(truth, 30_000, rng=0)
    note = examine_model(learn_pomdp(log, states=2, rng=0).pomdp, log)["poor_fit"]
    assert note.details["p_value"] < 1e-6
