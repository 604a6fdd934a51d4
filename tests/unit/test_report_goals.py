"""Bounds of goals: against brute force, and against planners that know more or less."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import linalg

import naive
from unlatch import POMDP, ExactPlanner, Reward, domains
from unlatch.show.report import goals


def by_policies(pomdp, goal, discount):
    """The best over all policies that see the state, each judged by a linear system; and the fewest steps for sure."""
    values, steps = np.full(pomdp.n_states, -np.inf), np.full(pomdp.n_states, np.inf)
    here = np.arange(pomdp.n_states)
    for policy in itertools.product(range(pomdp.n_actions), repeat=pomdp.n_states):
        stays = goal.stays[list(policy), here] * ~goal.there[:, None]
        reached = np.where(goal.there, 1.0, goal.reached[list(policy), here])
        worth = linalg.solve(np.eye(len(here)) - discount * stays, reached)
        values = np.maximum(values, worth)
        chance = reached.copy()
        for _ in range(4000):
            chance = reached + stays @ chance
        sure = chance > 1 - 1e-6
        inner = stays[np.ix_(sure, sure)]
        count = linalg.solve(np.eye(len(inner)) - inner, np.where(goal.there[sure], 0.0, 1.0))
        steps[sure] = np.minimum(steps[sure], count)
    return values, steps


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_bounds_are_those_of_the_best_policy_that_sees_the_state(rng, emission):
    for _ in range(3):
        pomdp = naive.random_pomdp(rng, states=3, actions=2, observations=2)
        pomdp = POMDP(pomdp.transitions, pomdp.observations, pomdp.initial, emission=emission)
        for goal in (goals.state_goal(pomdp, 1), goals.observation_goal(pomdp, 0)):
            found = goals.outlook(pomdp, goal, 0.9)
            values, steps = by_policies(pomdp, goal, 0.9)
            assert found.values.max(axis=0) == pytest.approx(values, abs=1e-5)
            assert found.steps.min(axis=0) == pytest.approx(steps, rel=1e-4)


def test_a_goal_that_may_be_missed_for_ever_has_no_number_of_steps():
    trap = POMDP(
        [[[0.0, 0.5, 0.5], [0, 1, 0], [0, 0, 1]], [[1.0, 0, 0], [0, 1, 0], [0, 0, 1]]],
        np.ones((2, 3, 1)),
        [1, 0, 0],
    )
    found = goals.outlook(trap, goals.state_goal(trap, 2))
    assert found.values[0, 0] == pytest.approx(0.5)
    assert np.isinf(goals.least_steps(found.steps, trap.initial))
    assert goals.first_action(trap, found.values, trap.initial) == (0, pytest.approx(0.5))
    assert goals.least_steps(found.steps, np.array([0.0, 0, 1])) == 0
    out_of_reach = goals.outlook(trap, goals.state_goal(trap, 0))
    assert goals.first_action(trap, out_of_reach.values, np.array([0.0, 1, 0]))[1] == 0


def test_a_safe_way_is_taken_for_the_steps_though_a_bold_one_is_worth_more():
    bold = POMDP(
        [
            [[0.0, 0.9, 0.1, 0.0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]],
            [[0.0, 0.0, 0.0, 1.0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 1.0, 0, 0]],
        ],
        np.ones((2, 4, 1)),
        [1, 0, 0, 0],
    )
    found = goals.outlook(bold, goals.state_goal(bold, 1), 0.5)
    assert goals.first_action(bold, found.values, bold.initial)[0] == 0
    assert goals.least_steps(found.steps, bold.initial) == pytest.approx(2)


def test_untried_actions_are_not_taken():
    shortcut = POMDP(
        [[[0.0, 1.0], [0, 1]], [[1.0, 0.0], [0, 1]]], np.ones((2, 2, 1)), [1, 0], action_names=("jump", "wait"),
        untried_actions=("jump",),
    )  # fmt: skip
    found = goals.outlook(shortcut, goals.state_goal(shortcut, 1))
    assert goals.first_action(shortcut, found.values, shortcut.initial) == (1, 0)


def test_nothing_is_seen_after_the_end():
    over = POMDP([[[0.5, 0.5], [0, 1]]], [[[0.0, 1.0], [1.0, 0.0]]], [1, 0], terminal=1, emission="arrival")
    found = goals.outlook(over, goals.observation_goal(over, 0), 1.0)
    assert found.values[0, 0] == pytest.approx(1)  # shown on arrival, by the end itself
    assert found.values[0, 1] == 0


def test_the_value_of_a_reward_is_at_least_what_an_agent_without_sight_earns():
    tiger = domains.tiger()
    bound = goals.reward_outlook(tiger, 0.9)
    planner = ExactPlanner(tiger, Reward.learned(tiger), horizon=12, discount=0.9)
    for share in (0.5, 0.85, 1.0):
        belief = np.array([share, 1 - share])
        assert goals.first_action(tiger, bound, belief)[1] >= planner.value(belief) - 1e-6
    assert goals.reward_outlook(domains.by_name("room:rows=2,columns=3")) is None
