"""What a planner earns in the true system with a given model, in the paper's setting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from unlatch.core.partition_model import PartitionModel
from unlatch.core.pomdp import POMDP
from unlatch.core.psr import PSR
from unlatch.core.reward import Model, Reward
from unlatch.errors import UsageError
from unlatch.planning.episodes import Episodes, run_episodes
from unlatch.planning.goals import most_ambiguous_state, states_where
from unlatch.planning.pouct import POUCT
from unlatch.study.task import Row, Task, Watch

__all__ = ["on_described_state", "play", "true_goals"]


def play(row: Row, model: Model, task: Task, watch: Watch) -> None:
    """Add the scores of the paper's planner to ``row``, in columns named after the goals.

    A partition-level model samples observations from the mixture under its whole belief, which is the first of
    the paper's two ways and asks least of a noisy partition.

    A goal on observations is scored twice: by itself, and (``_meant``) by the steps spent in the state that
    it was meant to bring the agent to.
    """
    judged = true_goals(task)
    row["collapses"] = 0
    for column, reward in _goals(model, task).items():
        place = (row["method"], row["steps"], column)
        episodes = _episodes(model, reward, judged[column], task, place, watch)
        row[column] = episodes.mean
        row[f"{column}_sd"] = episodes.standard_deviation
        row["collapses"] += int(episodes.collapses.sum())
        if column == "observation_reward":
            meant = task.truth.state_names.index(task.parameters["goal"]["name"])
            row["observation_reward_meant"] = float(episodes.occupancy[:, meant].mean())


def true_goals(task: Task) -> dict[str, Reward]:
    """The goals in the true system, where the states are known by name."""
    goal = task.parameters["goal"]
    if goal is None:
        return {"total_reward": Reward.learned(task.truth)}
    return {"observation_reward": _on_pairs(goal), "state_reward": Reward.on_states({goal["name"]: 1.0})}


def _goals(model: Model, task: Task) -> dict[str, Reward]:
    """The same goals as somebody states them who has only the model."""
    goal = task.parameters["goal"]
    if goal is None:
        return {"total_reward": Reward.learned(model)}
    goals = {"observation_reward": _on_pairs(goal)}
    if not isinstance(model, PSR):
        goals["state_reward"] = on_described_state(model, goal["state"])
    return goals


def _on_pairs(goal: Mapping[str, Any]) -> Reward:
    return Reward.on_observations(dict.fromkeys(map(tuple, goal["pairs"]), 1.0))


def on_described_state(model: POMDP | PartitionModel, rule: Mapping[str, Any]) -> Reward:
    """Reward on leaving the state that the rule describes; if none fits exactly, the one that fits best."""
    if rule["rule"] == "most ambiguous":
        states: tuple[int, ...] = (most_ambiguous_state(model),)
    else:
        try:
            states = states_where(model, "argmax", rule["shows"])
        except UsageError:
            states = (_best_fit(model, rule["shows"]),)
    if isinstance(model, POMDP):
        return Reward.on_states(dict.fromkeys(states, 1.0))
    return Reward.on_cells(dict.fromkeys((int(model.partition.labels[s]) for s in states), 1.0))


def _best_fit(model: POMDP | PartitionModel, shows: Mapping[str, str]) -> int:
    """The state most likely to show all that, one action with the other."""
    chances = model.to_psr().updates.sum(axis=3)
    score = sum(
        chances[model.action_names.index(action), model.observation_names.index(observation)]
        for action, observation in shows.items()
    )
    return int(np.argmax(score))


def _episodes(
    model: Model, reward: Reward, judged: Reward, task: Task, place: tuple[object, ...], watch: Watch
) -> Episodes:
    plan = task.parameters["planning"]
    planner = POUCT(
        model,
        reward,
        simulations=plan["simulations"],
        depth=plan["depth"],
        exploration=plan["exploration"],
        sampling="belief" if isinstance(model, PartitionModel) else None,
        on_collapse="mix",
        rng=task.rng("planner", *place),
    )
    with watch("planning"):
        return run_episodes(
            task.truth,
            planner,
            episodes=plan["episodes"],
            steps=plan["steps"],
            reward=judged,
            rng=task.rng("world", *place),
        )
