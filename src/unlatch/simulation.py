"""Sample logs from a known POMDP."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from unlatch.core.pomdp import POMDP, checked_policy
from unlatch.core.progress import report
from unlatch.core.random import RandomSource, resolve_rng
from unlatch.core.trajectory import Trajectory
from unlatch.errors import ResourceLimitError, UsageError

__all__ = ["simulate"]

_CHUNK = 1 << 16
"""Steps per kernel call: their random numbers stay in the cache."""

_MAX_STEPS = 2_000_000_000


def simulate(
    pomdp: POMDP,
    steps: int,
    *,
    episodes: int = 1,
    policy: ArrayLike | None = None,
    rng: RandomSource = None,
) -> Trajectory:
    """Act blindly in ``pomdp`` and log what happens.

    Parameters
    ----------
    pomdp : POMDP
    steps : int
        Length of every episode.
    episodes : int
        Number of episodes, each begun anew from ``pomdp.initial``.
    policy : array, shape (actions,), optional
        Probability of every action at every step; uniform by default.
    rng : int or numpy.random.Generator, optional

    Returns
    -------
    Trajectory
        With the names of ``pomdp`` and, if its symbols carry rewards, the rewards.
    """
    from unlatch.kernels.simulation import draw, simulate_steps

    for name, count in (("steps", steps), ("episodes", episodes)):
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise UsageError(f"{name} must be a whole number of at least 1, got {count!r}")
    if steps * episodes > _MAX_STEPS:
        raise ResourceLimitError(f"{steps * episodes} steps in all; at most {_MAX_STEPS} fit one log")
    generator, _ = resolve_rng(rng)
    actions = np.empty(steps * episodes, dtype=np.int64)
    observations = np.empty_like(actions)
    chances = np.cumsum(checked_policy(policy, pomdp.n_actions))
    transitions = np.cumsum(pomdp.transitions, axis=2)
    shown = np.cumsum(pomdp.observations, axis=2)
    starting = np.cumsum(pomdp.initial)
    arrival = pomdp.emission == "arrival"
    uniforms = np.empty((min(_CHUNK, steps), 3))
    for start in range(0, steps * episodes, steps):
        state = draw(starting, generator.random())
        for begin in range(start, start + steps, _CHUNK):
            stop = min(begin + _CHUNK, start + steps)
            generator.random(out=uniforms[: stop - begin])
            state = simulate_steps(
                chances,
                transitions,
                shown,
                arrival,
                state,
                uniforms[: stop - begin],
                actions[begin:stop],
                observations[begin:stop],
            )
            report("simulating", stop, steps * episodes)
    rewards = None if pomdp.symbol_rewards is None else pomdp.symbol_rewards[observations]
    for array in (actions, observations, rewards):
        if array is not None:
            array.setflags(write=False)  # handed over: nobody else holds them, so no copy is needed
    return Trajectory(
        actions=actions,
        observations=observations,
        action_names=pomdp.action_names,
        observation_names=pomdp.observation_names,
        rewards=rewards,
        episode_starts=np.arange(0, steps * episodes, steps),
    )
