"""Gymnasium, pomdp-py, arrays of POMDPs.jl: what comes out is the problem that went in."""

from __future__ import annotations

import random
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from unlatch import (
    POMDP,
    AlphaVectors,
    Problem,
    Reward,
    domains,
    from_arrays,
    load_problem,
    save_policy,
    save_problem,
    to_arrays,
    to_gymnasium,
    to_pomdp_py,
    with_emission,
)
from unlatch.errors import DataError, MissingDependencyError, UsageError

LAKE = domains.frozen_lake(lake=["SFF", "HFG"], observe="column")
TIGER = Problem(domains.tiger())


@pytest.fixture
def episodic_file(tmp_path):
    save_problem(tmp_path / "lake.POMDP", Problem(LAKE))
    return load_problem(tmp_path / "lake.POMDP")


# --- Gymnasium -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tiger", "tmaze", "lockbox"])
def test_environments_pass_the_checker(name):
    check_env(to_gymnasium(Problem(domains.by_name(name))).unwrapped)


def test_an_episodic_file_passes_the_checker(episodic_file):
    env = to_gymnasium(episodic_file)
    check_env(env.unwrapped)
    assert env.spec.id == "unlatch/Problem-v0"


def test_the_same_seed_gives_the_same_episodes():
    def played(seed):
        env = to_gymnasium(Problem(LAKE), max_episode_steps=20)
        rng = np.random.default_rng(0)
        observation, info = env.reset(seed=seed)
        steps = [(int(observation), info["observation"])]
        for _ in range(100):
            observation, reward, ended, cut, info = env.step(int(rng.integers(4)))
            steps.append((int(observation), reward, ended, cut, info["state"]))
            if ended or cut:
                env.reset()
        return steps

    assert played(3) == played(3)
    assert played(3) != played(4)


def test_endings_rewards_and_first_observations():
    env = to_gymnasium(Problem(LAKE))
    first, info = env.reset(seed=0)
    assert info["observation"] in LAKE.first_observation_names
    assert env.observation_space.contains(first)
    paid = []
    for episode in range(50):
        env.reset(seed=episode)
        ended = False
        while not ended:
            _, reward, ended, cut, info = env.step(2)
            assert not cut
        assert info["state"] in LAKE.terminal
        paid.append(reward)
        with pytest.raises((UsageError, gymnasium.error.ResetNeeded)):
            env.unwrapped.step(0)
    assert set(paid) == {0.0, 1.0}


def test_frequencies_are_those_of_the_model():
    rng = np.random.default_rng(0)
    model = POMDP(
        rng.dirichlet(np.ones(2), size=(1, 2)), rng.dirichlet(np.ones(2), size=(1, 2)), [0.5, 0.5], "departure",
        reward_values=[0.0, 1.0], reward_probabilities=[[[0.25, 0.75], [1.0, 0.0]]],
    )  # fmt: skip
    env = to_gymnasium(Problem(model)).unwrapped
    _, info = env.reset(seed=0)
    assert info["observation"] == "nothing yet"
    counts, paid, visits, state = np.zeros((2, 2, 2)), np.zeros(2), np.zeros(2), info["state"]
    for _ in range(20_000):
        shown, reward, *_, info = env.step(0)
        counts[state, int(shown), info["state"]] += 1
        paid[state] += reward
        visits[state] += 1
        state = info["state"]
    expected = model.updates[0].transpose(1, 0, 2)
    np.testing.assert_allclose(counts / visits[:, None, None], expected, atol=0.02)
    np.testing.assert_allclose(paid / visits, [0.75, 0.0], atol=0.02)


def test_rewards_by_transition_are_paid_as_they_are():
    table = np.arange(8.0).reshape(1, 2, 2, 2)
    model = POMDP(np.full((1, 2, 2), 0.5), np.full((1, 2, 2), 0.5), [0.5, 0.5], "arrival")
    env = to_gymnasium(Problem(model, Reward.on_transitions(table))).unwrapped
    _, info = env.reset(seed=0)
    for _ in range(200):
        state = info["state"]
        shown, reward, *_, info = env.step(0)
        assert reward == table[0, state, info["state"], int(shown)]


def test_what_is_no_environment():
    with pytest.raises(UsageError):
        to_gymnasium(Problem(domains.tiger().to_psr()))
    env = to_gymnasium(TIGER).unwrapped
    with pytest.raises(UsageError, match="reset"):
        env.step(0)
    env.reset(seed=0)
    with pytest.raises(UsageError, match="is not one of 3"):
        env.step(7)
    with pytest.raises(UsageError, match="render"):
        gymnasium.make("unlatch/Problem-v0", problem=TIGER, render_mode="human")


@pytest.mark.parametrize(("library", "call"), [("gymnasium", to_gymnasium), ("pomdp_py", to_pomdp_py)])
def test_a_missing_library_is_said_with_the_remedy(monkeypatch, library, call):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingDependencyError, match="pip install 'unlatch"):
        call(TIGER)


# --- pomdp-py --------------------------------------------------------------------------------------------


def test_the_agent_has_the_problems_numbers():
    problem = with_emission(TIGER, "arrival")
    made = to_pomdp_py(TIGER, rng=0)
    model = problem.model
    agent = made.agent
    for s, state in enumerate(made.states):
        assert agent.belief[state] == model.initial[s]
        for a, action in enumerate(made.actions):
            for t, following in enumerate(made.states):
                assert (
                    agent.transition_model.probability(following, state, action) == model.transitions[a, s, t]
                )
            for o, shown in enumerate(made.observations):
                assert (
                    agent.observation_model.probability(shown, state, action) == model.observations[a, s, o]
                )
            mean = sum(
                model.transitions[a, s, t] * agent.reward_model.sample(state, action, following)
                for t, following in enumerate(made.states)
            )
            assert mean == pytest.approx(problem.rewards[a, s], abs=1e-12)
    assert [action.name for action in agent.all_actions] == list(model.action_names)
    assert made.environment.state in made.states
    samples = [agent.transition_model.sample(made.states[0], made.actions[1]).code for _ in range(2_000)]
    np.testing.assert_allclose(np.bincount(samples, minlength=4) / 2_000, model.transitions[1, 0], atol=0.04)


def test_what_it_writes_is_read_as_the_problem_that_it_was_given(tmp_path):
    """Its writer knows the format from the same page as we do, and nothing else of us."""
    from pomdp_py.utils.interfaces.conversion import to_pomdp_file

    problem = with_emission(TIGER, "arrival")
    made = to_pomdp_py(TIGER, rng=0)
    to_pomdp_file(made.agent, tmp_path / "its.POMDP", discount_factor=0.9, float_precision=15)
    read = load_problem(tmp_path / "its.POMDP")
    assert read.discount == 0.9
    for name in ("transitions", "observations", "initial"):
        np.testing.assert_allclose(
            getattr(read.model, name), getattr(problem.model, name), rtol=0, atol=1e-12
        )
    np.testing.assert_allclose(read.rewards, problem.rewards, rtol=0, atol=1e-12)


def test_it_reads_the_policies_that_we_write(tmp_path):
    from pomdp_py.utils.interfaces.conversion import AlphaVectorPolicy

    plans = AlphaVectors([[0.5, -2.25e-7], [3.0, 1 / 3], [-1e9, 4.0]], [1, 0, 1])
    for ending, solver in ((".alpha", "pomdp-solve"), (".policyx", "sarsop")):
        save_policy(tmp_path / f"ours{ending}", plans)
        found = AlphaVectorPolicy.construct(tmp_path / f"ours{ending}", ["s", "t"], [0, 1], solver)
        assert [action for _, action in found.alphas] == plans.actions.tolist()
        assert [list(vector) for vector, _ in found.alphas] == plans.vectors.tolist()


def test_its_planner_listens_first():
    import pomdp_py

    random.seed(0)
    made = to_pomdp_py(TIGER, rng=0)
    planner = pomdp_py.POUCT(
        max_depth=3,
        discount_factor=0.95,
        num_sims=500,
        exploration_const=110,
        rollout_policy=made.agent.policy_model,
    )
    assert planner.plan(made.agent).name == "listen"
    assert repr(made.actions[0]) == "Action('listen')"
    assert made.actions[0] != made.states[0]


def test_untried_actions_are_left_out():
    tiger = domains.tiger()
    from dataclasses import replace

    made = to_pomdp_py(Problem(replace(tiger, untried_actions=("open-left",))), rng=0)
    assert [action.name for action in made.agent.all_actions] == ["listen", "open-right"]
    with pytest.raises(UsageError):
        to_pomdp_py(Problem(tiger.to_psr()))


# --- arrays ----------------------------------------------------------------------------------------------


def test_axes_of_the_arrays():
    problem = with_emission(TIGER, "arrival")
    arrays = to_arrays(TIGER)
    a, s, t, o = 1, 2, 3, 4
    assert arrays.transitions[t, a, s] == problem.model.transitions[a, s, t]
    assert arrays.observations[o, a, t] == problem.model.observations[a, t, o]
    assert arrays.rewards[s, a] == problem.rewards[a, s]
    assert not arrays.transitions.flags.writeable
    back = from_arrays(
        *arrays, state_names=problem.model.state_names, action_names=problem.model.action_names,
        observation_names=problem.model.observation_names,
    )  # fmt: skip
    np.testing.assert_array_equal(back.model.transitions, problem.model.transitions)
    np.testing.assert_array_equal(back.model.observations, problem.model.observations)
    np.testing.assert_array_equal(back.rewards, problem.rewards)
    assert back.model.state_names == problem.model.state_names
    assert from_arrays(*arrays[:4]).model.initial.tolist() == [0.25] * 4


def test_arrays_that_do_not_fit():
    arrays = to_arrays(TIGER)
    with pytest.raises(DataError, match="do not fit"):
        from_arrays(arrays.transitions, arrays.rewards.T, arrays.observations, 0.9)
    with pytest.raises(DataError):
        from_arrays(arrays.transitions.transpose(2, 1, 0), arrays.rewards, arrays.observations, 0.9)
    with pytest.raises(UsageError):
        to_arrays(domains.tiger())
