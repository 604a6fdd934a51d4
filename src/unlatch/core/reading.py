"""A log as a model reads it: what happened at every step, and what that does to a belief.

A step shows an observation. Where model and log both know of it, it also shows whether it ended the episode, and which
reward was paid on leaving a state; and an episode may show something before its first action. All of that becomes one
code per step and one starting belief per episode here, so that filtering, prediction and smoothing are written once.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from unlatch.arrays import Floats, Ints
from unlatch.core.alphabet import translate
from unlatch.core.checks import frozen
from unlatch.core.memory import require_memory
from unlatch.core.trajectory import Trajectory
from unlatch.errors import DataError

if TYPE_CHECKING:
    from unlatch.core.pomdp import POMDP
    from unlatch.core.psr import PSR

__all__ = [
    "Endings",
    "Reading",
    "plain_reading",
    "read_events",
    "reward_codes",
    "told_endings",
    "with_rewards",
]


@dataclass(frozen=True, eq=False)
class Reading:
    """Everything that the passes over a log need.

    Attributes
    ----------
    updates : array, shape (actions, events, k, k)
    final : array, shape (k,)
    actions, events : array of int, shape (steps,)
        Codes into ``updates``. Event ``e`` shows observation ``e % observations``.
    starts : array, shape (beginnings, k)
        Beliefs before the first action; ``start_gains`` are the logarithms of what they took.
    beginnings : array of int, shape (episodes,)
        Which of them every episode starts with.
    anything : array, shape (k,)
        The belief of somebody who knows nothing but that the episode goes on.
    """

    updates: Floats
    final: Floats
    actions: Ints
    events: Ints
    starts: Floats
    start_gains: Floats
    beginnings: Ints
    anything: Floats

    @property
    def rank(self) -> int:
        return len(self.final)


def plain_reading(psr: PSR, log: Trajectory) -> Reading:
    """Of a model that knows nothing but observations."""
    actions, observations = psr.encode(log)
    return Reading(
        updates=psr.updates,
        final=psr.final,
        actions=actions,
        events=observations,
        starts=psr.initial[None],
        start_gains=np.zeros(1),
        beginnings=np.zeros(log.n_episodes, dtype=np.int64),
        anything=psr.initial,
    )


def read_events(pomdp: POMDP, log: Trajectory) -> Reading:
    """Of a model that may know endings, first observations and rewards beside observations.

    What only one of the two knows is left out. A log that does not tell its endings tells at least that every episode
    went on until its last step.
    """
    actions, events = pomdp.encode(log)
    updates = pomdp.updates
    if pomdp.reward_probabilities is not None and log.rewards is not None:
        updates = with_rewards(updates, pomdp.reward_probabilities)
        events = events + reward_codes(pomdp, log) * pomdp.n_observations
    if pomdp.terminal:
        require_memory(24 * updates.size, "the events of the model", "take fewer states or observations")
        ends = np.isin(np.arange(pomdp.n_states), pomdp.terminal)
        events = events + told_endings(log) * updates.shape[1]
        updates = np.concatenate(
            [updates * ~ends, updates * ends, updates], axis=1
        )  # in the order of `Endings`
    starts, gains, beginnings = _beginnings(pomdp, log)
    return Reading(
        updates=updates,
        final=np.ones(pomdp.n_states),
        actions=actions,
        events=events,
        starts=starts,
        start_gains=gains,
        beginnings=beginnings,
        anything=pomdp.going_on,
    )


def with_rewards(updates: Floats, probabilities: Floats) -> Floats:
    """The updates of every pair of a reward, paid by the state left, and an observation: ``r * observations + o``."""
    actions, _, size, _ = updates.shape
    rewards = probabilities.shape[2]
    require_memory(16 * updates.size * rewards, "the events of the model", "round rewards to fewer values")
    paid = probabilities.transpose(0, 2, 1)[:, :, None, :, None]
    result: Floats = (paid * updates[:, None]).reshape(actions, -1, size, size)
    return result


class Endings(IntEnum):
    """What a step tells of its episode's end."""

    GOES_ON = 0
    ENDS = 1
    UNTOLD = 2


def told_endings(log: Trajectory) -> Ints:
    """One of `Endings` for every step; a silent log tells at least that an episode went on until its last step."""
    if log.terminated is not None:
        return log.terminated.astype(np.int64)
    endings = np.full(len(log), int(Endings.GOES_ON))
    endings[log.episode_ends - 1] = Endings.UNTOLD
    return endings


def reward_codes(pomdp: POMDP, log: Trajectory) -> Ints:
    """The number of every step's reward among those that the model knows."""
    assert log.rewards is not None
    assert pomdp.reward_values is not None
    codes = np.searchsorted(pomdp.reward_values, log.rewards).clip(max=len(pomdp.reward_values) - 1)
    unknown = np.flatnonzero(pomdp.reward_values[codes] != log.rewards)
    if unknown.size:
        step = int(unknown[0])
        raise DataError(
            f"step {step}: reward {log.rewards[step]:g} is none of those that the model knows: "
            f"{', '.join(f'{value:g}' for value in pomdp.reward_values[:12])}",
            step=step,
            field="rewards",
        )
    return codes


def _beginnings(pomdp: POMDP, log: Trajectory) -> tuple[Floats, Floats, Ints]:
    """Beliefs after every first observation, the logarithms of their probabilities, and which every episode has."""
    if pomdp.first_observations is None or log.first_observations is None:
        return pomdp.initial[None], np.zeros(1), np.zeros(log.n_episodes, dtype=np.int64)
    codes = translate(
        "first observation",
        log.first_observations,
        log.first_observation_names,
        pomdp.first_observation_names,
    )
    joint = pomdp.initial * pomdp.first_observations.T
    chances = joint.sum(axis=1)
    with np.errstate(divide="ignore"):
        gains = np.log(chances)
    starts = joint / np.where(chances > 0, chances, 1.0)[:, None]
    return frozen(starts), frozen(gains), codes
