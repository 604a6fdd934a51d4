"""The belief of somebody who follows a log, step by step, as data for pictures and for the report."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlatch.arrays import Floats
from unlatch.core.pomdp import POMDP
from unlatch.core.reading import read_events
from unlatch.core.trajectory import Trajectory

__all__ = ["Step", "as_read", "beliefs_along"]


class Step(NamedTuple):
    """What was done and seen, and the belief after it.

    Before the first step of an episode ``action`` is None, and ``observation`` what was shown first, if anything.
    ``chance`` is the probability that the model gave to what was seen; zero where it held it impossible, after which
    the belief goes on from what that step alone tells.
    """

    action: str | None
    observation: str | None
    chance: float
    belief: Floats


def as_read(pomdp: POMDP, log: Trajectory) -> Trajectory:
    """The log with rewards made part of its symbols, where that is what the model knows."""
    pairs = pomdp.symbol_rewards is not None and log.rewards is not None
    if pairs and not set(log.observation_names) <= set(pomdp.observation_names):
        return log.with_reward_symbols()
    return log


def beliefs_along(pomdp: POMDP, log: Trajectory) -> list[Step]:
    """The belief at the start of every episode and after every step, from the left to the right of a log."""
    log = as_read(pomdp, log)
    reading = read_events(pomdp, log)
    steps: list[Step] = []
    for episode, (start, end) in enumerate(
        zip(log.episode_starts.tolist(), log.episode_ends.tolist(), strict=True)
    ):
        which = int(reading.beginnings[episode])
        gain = float(reading.start_gains[which])
        belief = reading.starts[which] if np.isfinite(gain) else reading.anything
        steps.append(Step(None, _first(log, episode), float(np.exp(gain)), belief))
        for step in range(start, end):
            update = reading.updates[reading.actions[step], reading.events[step]]
            after = belief @ update
            chance = float(after.sum())
            if chance <= 0:
                after = reading.anything @ update
            total = float(after.sum())
            belief = after / total if total > 0 else reading.anything
            action = log.action_names[int(log.actions[step])]
            observation = log.observation_names[int(log.observations[step])]
            steps.append(Step(action, observation, max(chance, 0.0), belief))
    return steps


def _first(log: Trajectory, episode: int) -> str | None:
    if log.first_observations is None:
        return None
    return log.first_observation_names[int(log.first_observations[episode])]
