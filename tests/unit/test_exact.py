"""The exact planner: known optima, a brute-force twin, limits that are declared."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import naive
from unlatch import POMDP, ExactPlanner, Partition, PartitionModel, Reward, domains, linalg
from unlatch.core.progress import listening
from unlatch.errors import (
    BeliefCollapseError,
    BeliefCollapseWarning,
    DataError,
    ResourceLimitError,
    UsageError,
)

MIDDLE = Reward.on_states({"middle": 1.0})

KNOWN = [
    (domains.tiger(), None, 9.44),
    (domains.tmaze(), None, 2.34),
    (domains.sense_float_reset(3), None, 7.09),
    (domains.sense_float_reset(4), None, 7.09),
    (domains.directional_hallway(), MIDDLE, 6.16),
    (domains.noisy_hallway(), MIDDLE, 5.95),
]


def best_plan(model, reward, belief, steps, discount=1.0):
    """The optimal value by trying everything."""
    if steps == 0:
        return 0.0
    psr, paid = model.to_psr(), reward.resolve(model)
    totals = []
    for a in range(psr.n_actions):
        total = float(belief @ paid.states[a])
        for o in range(psr.n_observations):
            after = belief @ psr.updates[a, o]
            chance = float(after @ psr.final)
            if chance > 1e-13:
                later = best_plan(model, reward, after / chance, steps - 1, discount)
                total += chance * (paid.symbols[a, o] + discount * later)
        totals.append(total)
    return max(totals)


@pytest.mark.parametrize(("model", "reward", "optimum"), KNOWN)
def test_known_optima_over_ten_steps(model, reward, optimum):
    planner = ExactPlanner(model, reward, horizon=10)
    assert round(planner.value(), 2) == optimum
    assert planner.error_bound < 1e-8


@pytest.mark.parametrize("emission", ["departure", "arrival"])
@pytest.mark.parametrize("discount", [0.0, 0.7, 1.0])
def test_values_equal_those_of_trying_everything(rng, emission, discount):
    model = naive.random_pomdp(rng, emission=emission)
    reward = Reward.on_observations({(0, 1): 3.0, (1, 2): -2.0})
    planner = ExactPlanner(model, reward, horizon=3, discount=discount)
    assert planner.value() == pytest.approx(best_plan(model, reward, model.initial, 3, discount), abs=1e-12)


def test_other_coordinates_change_nothing(rng):
    model = domains.tiger()
    turned = model.to_psr().transformed(linalg.haar_rotation(2, rng))
    assert ExactPlanner(turned, horizon=8).value() == pytest.approx(ExactPlanner(model, horizon=8).value())
    cells = PartitionModel(domains.noisy_hallway().to_psr(), Partition.singletons(3))
    assert ExactPlanner(cells, Reward.on_cells({1: 1.0}), 5).value() == pytest.approx(
        ExactPlanner(domains.noisy_hallway(), MIDDLE, 5).value()
    )


def test_it_listens_before_it_opens():
    planner = ExactPlanner(domains.tiger())
    assert planner.action() == 0
    assert planner.action([0.97, 0.03], steps_left=1) == 2
    assert planner.action([0.03, 0.97], steps_left=1) == 1
    assert planner.value([1.0, 0.0], steps_left=1) == pytest.approx(10.0)


def test_the_steps_left_run_down_and_begin_again():
    planner = ExactPlanner(domains.tiger(), horizon=2)
    full = planner.value()
    planner.observe("listen", "hear-left|-1")
    assert planner.value() == planner.value(steps_left=1) != full
    planner.observe("open-right", "hear-left|10")
    assert planner.value() == full
    planner.observe("listen", "hear-left|-1")
    planner.reset()
    assert planner.value() == full
    assert planner.belief.tolist() == [0.5, 0.5]


def test_only_legal_actions_are_taken():
    planner = ExactPlanner(domains.tiger(), horizon=4, actions=["open-left", "open-right"])
    assert planner.action() in (1, 2)
    assert planner.value() == pytest.approx(4 * -45.0)


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e12, 1e306])
def test_the_scale_of_the_reward_does_not_matter(scale):
    small = ExactPlanner(domains.noisy_hallway(), MIDDLE, 4)
    other = ExactPlanner(domains.noisy_hallway(), Reward.on_states({1: scale}), 4)
    assert other.value() == pytest.approx(small.value() * scale, rel=1e-12)
    assert other.action() == small.action()


def test_the_largest_rewards_do_not_overflow():
    planner = ExactPlanner(domains.noisy_hallway(), Reward.on_states({0: -1e308, 1: 1e308}), 5)
    assert np.isfinite(planner.value())


def noisy(model, rng, size):
    """A model as learning leaves it: no two updates commute exactly any more."""

    def shaken(rows):
        raw = rows + size * rng.random(rows.shape) * (rows > 0)
        return raw / raw.sum(axis=-1, keepdims=True)

    return POMDP(
        shaken(model.transitions),
        shaken(model.observations),
        shaken(model.initial),
        action_names=model.action_names,
        observation_names=model.observation_names,
        symbol_rewards=model.symbol_rewards,
    )


def test_near_beliefs_are_merged_within_a_bound(rng):
    model = noisy(domains.directional_hallway(), rng, 1e-3)
    reward = Reward.on_states({1: 1.0})
    exact = ExactPlanner(model, reward, horizon=7)
    merged = ExactPlanner(model, reward, horizon=7, max_beliefs=30000)
    assert exact.error_bound < 1e-8 < merged.error_bound < 0.01
    assert abs(merged.value() - exact.value()) <= merged.error_bound
    planner = ExactPlanner(model, reward, horizon=7, max_beliefs=30000)
    for action, observation in [("left", "end-left"), ("reset", "end-right"), ("right", "end-right")]:
        planner.observe(action, observation)
        assert planner.value() == pytest.approx(
            exact.value(planner.belief, 7 - planner.state()["steps"]), abs=0.02
        )


def test_beyond_its_limit_it_says_so():
    planner = ExactPlanner(domains.noisy_hallway(), MIDDLE, horizon=10, max_beliefs=50, tolerance=1e-6)
    with pytest.raises(ResourceLimitError, match=r"more than 50 beliefs.*POUCT"):
        planner.value()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"horizon": 0}, "horizon"),
        ({"horizon": 2.0}, "horizon"),
        ({"max_beliefs": 0}, "max_beliefs"),
        ({"discount": 1.5}, "discount"),
        ({"tolerance": -1.0}, "tolerance"),
        ({"on_collapse": "ignore"}, "on_collapse"),
        ({"actions": []}, "no action is legal"),
        ({"actions": "listen"}, "a collection"),
        ({"actions": ["run"]}, "'listen'"),
    ],
)
def test_options_that_make_no_sense(options, complaint):
    with pytest.raises(UsageError, match=complaint):
        ExactPlanner(domains.tiger(), **options)


def test_questions_that_make_no_sense():
    planner = ExactPlanner(domains.tiger())
    with pytest.raises(UsageError, match="steps_left"):
        planner.value(steps_left=0)
    for belief in ([0.5], [0.9, 0.9], [np.nan, 1.0], "left"):
        with pytest.raises(DataError, match="belief"):
            planner.value(belief)
    with pytest.raises(DataError, match="total probability"):
        ExactPlanner(domains.tiger().to_psr()).value([0.0, 0.0])
    with pytest.raises(UsageError, match="expected a POMDP"):
        ExactPlanner(3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="expected a Reward"):
        ExactPlanner(domains.tiger(), {"left": 1})  # type: ignore[arg-type]


def test_an_impossible_observation():
    planner = ExactPlanner(domains.sense_float_reset(3), on_collapse="raise")
    with pytest.raises(BeliefCollapseError, match="impossible"):
        planner.observe("sense", "0|0")
    assert planner.collapses == 1
    planner = ExactPlanner(domains.sense_float_reset(3), on_collapse="reset")
    with pytest.warns(BeliefCollapseWarning, match="impossible"):
        planner.observe("sense", "0|0")
    assert planner.collapses == 1
    assert planner.belief.tolist() == [1, 0, 0]


def test_it_can_be_put_away_and_taken_up_again():
    planner = ExactPlanner(domains.tiger(), horizon=4)
    planner.observe("listen", "hear-left|-1")
    state = json.loads(json.dumps(planner.state()))
    other = ExactPlanner(domains.tiger(), horizon=4)
    other.restore(state)
    assert (other.value(), other.action()) == (planner.value(), planner.action())
    for broken in ({}, {**state, "steps": -1}, {**state, "belief": [1.0]}, {**state, "belief": "x"}, 3):
        with pytest.raises(DataError):
            other.restore(broken)


def test_progress_is_reported():
    heard = []
    with listening(lambda *event: heard.append(event)):
        ExactPlanner(domains.tiger(), horizon=4).value()
    assert heard[-1] == ("planning", 8, 8)
    assert all(stage == "planning" and 0 < done <= total for stage, done, total in heard)


def test_a_horizon_that_does_not_fit_is_refused_before_planning(monkeypatch):
    monkeypatch.setattr("unlatch.core.memory.available_memory", lambda: 10**10)
    with pytest.raises(
        ResourceLimitError, match=r"a plan of 100000000 steps would take .* shorten the horizon"
    ):
        ExactPlanner(domains.tiger(), horizon=10**8).value()
    with pytest.raises(UsageError, match="horizon"):
        ExactPlanner(domains.tiger(), horizon=10**30)


# --- endings ------------------------------------------------------------------------------------------------


def test_the_goal_pays_once():
    """By hand: two moves to the right, then it is over. Who does not know that expects to be paid for ever."""
    model = naive.corridor()
    planner = ExactPlanner(model, horizon=10)
    assert planner.value() == pytest.approx(1.0)
    assert planner.action() == 1
    assert ExactPlanner(replace(model, terminal=()), horizon=10).value() == pytest.approx(9.0)


def test_the_value_of_a_slippery_corridor_is_known():
    """Always to the right: V0 = .8 V1 - .2 and V1 = .8 + .2 V0, so that V0 = .44 / .84."""
    planner = ExactPlanner(naive.corridor(slip=0.2), horizon=60)
    assert planner.value() == pytest.approx(0.44 / 0.84, abs=1e-9)
    assert planner.value([0, 1, 0, 0]) == pytest.approx(0.8 + 0.2 * 0.44 / 0.84, abs=1e-9)
    assert planner.value([0, 0, 0, 1]) == 0.0


def working(pays, ends, emission="departure"):
    """Work is paid one with probability ``pays`` and is over after every step with probability ``ends``."""
    return POMDP(
        transitions=[[[1 - ends, ends], [0, 1]]],
        observations=[[[1.0], [1.0]]],
        initial=[1, 0],
        emission=emission,
        terminal=1,
        reward_values=[0.0, 1.0],
        reward_probabilities=[[[1 - pays, pays], [0.0, 1.0]]],  # nobody is paid after the end
    )


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_rewards_beside_observations_are_paid_until_the_end(emission):
    planner = ExactPlanner(working(0.4, 0.25, emission), horizon=8)
    assert planner.value() == pytest.approx(0.4 * (1 - 0.75**8) / 0.25)


def test_states_pay_until_the_end():
    reward = Reward.on_states({(0, 1): 1.0})
    assert ExactPlanner(working(0.4, 0.25), reward, horizon=8).value() == pytest.approx((1 - 0.75**8) / 0.25)


def bandit():
    """Nothing is seen, but what pulling pays tells a good machine from a bad one."""
    return POMDP(
        transitions=np.tile(np.eye(2), (2, 1, 1)),
        observations=np.ones((2, 2, 1)),
        initial=[0.5, 0.5],
        action_names=("pull", "wait"),
        observation_names=("nothing",),
        state_names=("good", "bad"),
        reward_values=[-1.0, 0.0, 1.0],
        reward_probabilities=[[[0, 0, 1], [1, 0, 0]], [[0, 1, 0], [0, 1, 0]]],
    )


def test_what_rewards_tell_is_planned_with():
    """By hand: pull once; of five steps a good machine pays five, a bad one costs one."""
    planner = ExactPlanner(bandit(), horizon=5)
    assert planner.value() == pytest.approx(0.5 * 5 - 0.5)
    planner.observe("pull", "nothing", reward=-1)
    assert planner.belief.tolist() == [0, 1]
    assert planner.action() == 1
    planner.reset()
    planner.observe("pull", "nothing", reward=1.0)
    assert planner.action() == 0
    assert planner.value() == pytest.approx(4.0)


def test_plans_from_first_observations_are_found_again():
    model = naive.corridor(
        slip=0.2,
        initial=[0.5, 0.5, 0, 0],
        first_observations=np.eye(4)[:, [0, 1]] + [[0, 0], [0, 0], [1, 0], [1, 0]],
        first_observation_names=("here", "there"),
    )
    planner = ExactPlanner(model, horizon=60)
    solved = []
    for observation, value in [("here", 0.44 / 0.84), ("there", 0.8 + 0.2 * 0.44 / 0.84)] * 2:
        planner.reset(observation)
        with listening(lambda *event: solved.append(event)):
            assert planner.value() == pytest.approx(value, abs=1e-9)
        solved.append("asked")
    assert solved[-2:] == ["asked", "asked"]  # the second time nothing is computed


def best_return(model, belief, steps):
    """The optimum by trying everything: actions, states left and reached, observations, rewards."""
    if steps == 0:
        return 0.0
    live = [s for s in range(model.n_states) if s not in model.terminal]
    departs = model.emission == "departure"
    returns = []
    for a in range(model.n_actions):
        total = 0.0
        for o in range(model.n_observations):
            for r, reward in enumerate(model.reward_values):
                after = np.zeros(model.n_states)
                for s in live:
                    shown = model.observations[a, s if departs else slice(None), o]
                    after += belief[s] * model.reward_probabilities[a, s, r] * model.transitions[a, s] * shown
                total += reward * after.sum()
                after[list(model.terminal)] = 0.0
                if after.sum() > 0:
                    total += after.sum() * best_return(model, after / after.sum(), steps - 1)
        returns.append(total)
    return max(returns)


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_values_with_endings_and_rewards_are_those_of_trying_everything(rng, emission):
    model = naive.random_episodic(rng, emission=emission)
    planner = ExactPlanner(model, horizon=3)
    assert planner.value() == pytest.approx(best_return(model, model.initial, 3), abs=1e-9)
    planner.reset("bright")
    start = model.initial * model.first_observations[:, 1]
    assert planner.belief == pytest.approx(start / start.sum())
    assert planner.value() == pytest.approx(best_return(model, start / start.sum(), 3), abs=1e-9)


def test_one_step_is_worth_what_the_model_says_it_pays(rng):
    for model in (naive.random_episodic(rng), naive.corridor(slip=0.2)):
        planner = ExactPlanner(model, horizon=1)
        for state in range(model.n_states):
            belief = np.eye(model.n_states)[state]
            assert planner.value(belief, 1) == pytest.approx(model.rewards[:, state].max())
