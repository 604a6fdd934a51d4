"""The agent: explores, learns, plans, acts, and goes on from its files."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import unlatch
from unlatch import Agent, Reward, domains
from unlatch.agent import information_gain
from unlatch.cli import run
from unlatch.errors import DataError, UsageError
from unlatch.learn.likelihood.forward_backward import expectation
from unlatch.planning.tour import expected_uses

QUICK: dict[str, Any] = {"first": 200, "growth": 2.0, "emission": "departure", "max_states": 1}


def test_the_log_has_everything(tmp_path):
    agent = Agent(domains.tiger(), seed=1, **QUICK)
    agent.run(500)
    log = agent.log
    assert log is not None
    assert len(agent) == len(log) == 500
    assert set(log.observation_names) == {"hear-left", "hear-right"}
    assert log.action_names == tuple(sorted(domains.tiger().action_names))
    assert np.allclose(log.probabilities[:200], 1 / 3)  # nothing known yet
    later = np.unique(np.round(log.probabilities[200:], 9))
    on_tour, for_the_goal = (
        {0.033333333, 0.933333333},
        {0.066666667, 0.866666667},
    )  # one of ten at random, or two
    assert set(later.tolist()) <= on_tour | for_the_goal
    assert [found.steps for found in agent.rounds] == [200, 400, 500]
    assert agent.policy is not None
    assert agent.policy.model is agent.result.pomdp


def test_the_same_seed_takes_the_same_steps():
    logs = []
    for _ in range(2):
        agent = Agent(domains.tiger(), seed=4, **QUICK)
        agent.run(250)
        logs.append(agent.log)
    assert logs[0] == logs[1]


def test_files_let_another_process_go_on(tmp_path):
    """A run that ended after its first call, and one that did not, come to the same log."""
    kept = Agent(domains.tiger(), seed=4, folder=tmp_path / "kept", **QUICK)
    kept.run(200)
    kept.run(40)
    first = Agent(domains.tiger(), seed=4, folder=tmp_path / "broken", **QUICK)
    first.run(200)
    again = Agent(domains.tiger(), folder=tmp_path / "broken", **QUICK)
    assert again.seed == 4
    assert len(again) == 200
    again.run(40)
    assert again.log == kept.log
    assert again.rounds == kept.rounds
    assert unlatch.load_model(tmp_path / "broken" / "model.json").pomdp == again.result.pomdp


class Failing:
    """Observes, and fails at the last of so many calls."""

    def __init__(self, calls: int) -> None:
        self.left = calls

    def __call__(self, shown: Any) -> int:
        self.left -= 1
        if self.left == 0:
            raise RuntimeError("the robot fell over")
        return int(shown)


def test_steps_survive_a_failure(tmp_path):
    agent = Agent("FrozenLake-v1", seed=0, folder=tmp_path, observe=Failing(30), first=100)
    with pytest.raises(RuntimeError):
        agent.run(100)
    saved = unlatch.read_log(tmp_path / "log.npz")
    assert saved == agent.log
    assert 15 < len(saved) < 30


def test_a_system_without_a_word_to_say_is_explored_on():
    """One action, one symbol: there is nothing to learn or to want."""
    still = unlatch.POMDP(transitions=[[[1.0]]], observations=[[[1.0]]], initial=[1.0], symbol_rewards=[0.0])
    agent = Agent(still, seed=0, first=20)
    agent.run(30)
    assert agent.policy is None
    assert agent.rounds[-1].lower is None


def test_goals_are_named_by_what_is_seen():
    goal = Reward.on_observations({("open-left", "hear-left"): 1.0})
    agent = Agent(domains.tiger(), goal=goal, seed=1, **QUICK)
    agent.run(200)
    assert agent.policy is not None
    assert agent.policy.reward == goal
    unseen = Agent(domains.tiger(), goal=Reward.on_observations({("listen", "roar"): 1.0}), seed=1, **QUICK)
    unseen.run(200)
    assert unseen.policy is None
    assert unseen.rounds[-1].share == 1.0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"goal": Reward.on_states({0: 1.0})}, "on observations"),
        ({"goal": "win"}, "must be a Reward"),
        ({"discount": 1.0}, "below 1"),
        ({"seed": np.random.default_rng(0)}, "whole number"),
        ({"first": 0}, "first"),
    ],
)
def test_what_cannot_be_is_refused(wrong, said):
    with pytest.raises(UsageError, match=said):
        Agent(domains.tiger(), **wrong)


def test_systems_that_cannot_be_acted_in_are_refused():
    import gymnasium

    with pytest.raises(UsageError, match="in one environment"):
        Agent(gymnasium.make_vec("FrozenLake-v1", num_envs=2))
    with pytest.raises(UsageError, match="not discrete"):
        Agent("CartPole-v1")
    with pytest.raises(UsageError, match="got list"):
        Agent([])


def test_folders_of_others_are_refused(tmp_path):
    (tmp_path / "agent.json").write_text(json.dumps({"seed": "x"}))
    with pytest.raises(DataError, match="no state of an agent"):
        Agent(domains.tiger(), folder=tmp_path)
    (tmp_path / "agent.json").write_text(json.dumps({"seed": 3, "rounds": []}))
    with pytest.raises(UsageError, match="has the seed 3"):
        Agent(domains.tiger(), folder=tmp_path, seed=4)
    (tmp_path / "agent.json").unlink()
    (tmp_path / "log.npz").write_bytes(b"")
    with pytest.raises(UsageError, match="folder of its own"):
        Agent(domains.tiger(), folder=tmp_path)


def test_information_falls_with_what_was_seen():
    """Row by row: half a free number over the uses; nothing in an ended episode."""
    model = domains.lockbox(1)
    short, long = (expectation(model, unlatch.simulate(model, 50, total=n, rng=0)) for n in (200, 2000))
    before, after = information_gain(model, short), information_gain(model, long)
    live = model.going_on > 0
    assert (before[:, live] > after[:, live]).all()
    assert (after[:, ~live] == 0).all()
    uses = long.transitions.sum(axis=2)
    total = float((after * uses).sum())
    both = long.transitions, long.observations
    free = sum(int(np.maximum((rows > 0.5).sum(axis=-1) - 1, 0).sum()) for rows in both)
    assert free / 2 * 0.8 < total < (free + 2 * uses.size) / 2


@pytest.fixture(scope="module")
def at_a_lock():
    """An agent before a box that opens after two pushes: what it has after 150 steps at random, and it after 2,700. The
    last model is of 2,400, from which nine agents of ten have all five states; 1,200 leave it within a nat or two, and
    to luck."""
    agent = Agent(domains.lockbox(2), seed=2, first=150, growth=2.0, emission="arrival", episode_steps=50)
    agent.run(150)
    at_first = agent.rounds[-1], agent.result.pomdp, agent.policy, agent.log
    agent.run(2_550)
    return agent, at_first


def test_a_plan_is_tried(at_a_lock):
    """Once the model is right, more boxes are opened than at random, though half of the time is for information."""
    agent, _ = at_a_lock
    ends = agent.log.terminated
    assert agent.result.states == 5
    assert ends[-300:].sum() / 300 > 1.3 * ends[:150].sum() / 150


def test_a_plan_is_tried_as_often_as_that_tells_something(at_a_lock):
    """Of what is gained by a step, that of the plan's own way counts for the plan."""
    found, model, policy, log = at_a_lock[1]
    told = information_gain(model, expectation(model, log))
    actions = [policy.action(belief) for belief in np.eye(model.n_states)]
    of_the_plan = (told * expected_uses(model, actions, 50)).sum()
    assert 0 < of_the_plan < 1
    assert found.share == pytest.approx(found.gain / (found.gain + of_the_plan + 1 / 200))


def combination(code: str, actions: int) -> unlatch.POMDP:
    """A lock that opens after the right actions and is blocked after the first wrong one; nothing shows how far one
    is."""
    opened, blocked = len(code), len(code) + 1
    moves = np.zeros((actions, blocked + 1, blocked + 1))
    moves[:, :opened, blocked] = 1.0
    for place, right in enumerate(map(int, code)):
        moves[right, place] = np.eye(blocked + 1)[place + 1]
    moves[:, [opened, blocked], [opened, blocked]] = 1.0
    shows = np.eye(3)[[0] * opened + [1, 2]]
    return unlatch.POMDP(
        transitions=moves,
        observations=[shows] * actions,
        initial=np.eye(blocked + 1)[0],
        emission="arrival",
        observation_names=["click", "open", "blocked"],
        symbol_rewards=[0.0, 1.0, 0.0],
        terminal=[opened, blocked],
    )


@pytest.mark.parametrize("goal", [None, Reward.on_observations({"open": 2.0})])
def test_what_was_paid_is_done_again(goal):
    """By a model of three states a lock is all chance; it comes open all the same once it came open once."""
    lock = combination("0120", 3)
    agent = Agent(lock, goal=goal, seed=0, first=400, emission="arrival", max_states=3)
    agent.run(400)
    by_chance = agent.log.rewards.sum() / agent.log.n_episodes
    assert 0 < by_chance < 0.05
    agent.run(200)
    after = agent.log.episode_starts >= 400
    assert agent.log.rewards[400:].sum() / after.sum() > 3 * by_chance


def test_on_the_command_line(tmp_path, capsys):
    options = ["-o", str(tmp_path / "a"), "--first", "60", "--emission", "departure", "--max-states", "1"]
    assert run(["agent", "tiger", "--steps", "60", "--seed", "1", *options]) == 0
    said = capsys.readouterr().out
    assert "nats expected from a step" in said
    assert "(seed 1)" in said
    assert run(["agent", "tiger", "--steps", "10", *options]) == 0
    assert len(unlatch.read_log(tmp_path / "a" / "log.npz")) == 70
    assert run(["agent", "tiger", "--goal", "listen=", *options]) == 2
    assert run(["agent", "NoSuch-v0", *options]) == 2
    assert run(["agent", "tiger", "--set", "a=1", *options]) == 2
