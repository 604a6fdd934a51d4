"""Sample logs from a known POMDP."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from unlatch.arrays import Floats, Ints, own_errstate
from unlatch.core.arguments import whole_number
from unlatch.core.memory import require_memory
from unlatch.core.pomdp import POMDP, checked_policy
from unlatch.core.progress import report
from unlatch.core.random import RandomSource, resolve_rng
from unlatch.core.trajectory import Trajectory
from unlatch.errors import ResourceLimitError, UsageError

__all__ = ["simulate"]

STEPS_PER_CALL = 1 << 16
"""Steps per kernel call: their random numbers stay in the cache."""

_MAX_STEPS = 2_000_000_000


@own_errstate
def simulate(
    pomdp: POMDP,
    steps: int,
    *,
    episodes: int = 1,
    policy: ArrayLike | None = None,
    rng: RandomSource = None,
) -> Trajectory:
    """Act in ``pomdp``, blindly or by the last observation, and log what happens.

    Parameters
    ----------
    pomdp : POMDP
    steps : int
        Length of every episode.
    episodes : int
        Number of episodes, each begun anew from ``pomdp.initial``.
    policy : array, shape (actions,) or (observations, actions), optional
        Probability of every action at every step; uniform by default. Of a table, the row of the last observation
        is used; the first action of an episode, with none before it, is chosen uniformly.
    rng : int or numpy.random.Generator, optional

    Returns
    -------
    Trajectory
        With the names of ``pomdp``; if its symbols carry rewards, the rewards; if actions depended on
        observations, their probabilities.
    """
    from unlatch.kernels.simulation import draw, simulate_steps

    steps = whole_number("steps", steps, least=1)
    episodes = whole_number("episodes", episodes, least=1)
    if not isinstance(pomdp, POMDP):
        raise UsageError(f"simulate acts in a POMDP, got {type(pomdp).__name__}")
    if steps * episodes > _MAX_STEPS:
        raise ResourceLimitError(f"{steps * episodes} steps in all; at most {_MAX_STEPS} fit one log")
    weights = checked_policy(policy, pomdp.n_actions, pomdp.n_observations)
    _require_room(pomdp, steps * episodes, episodes, reacts=weights.ndim == 2)
    generator, _ = resolve_rng(rng)
    actions = np.empty(steps * episodes, dtype=np.int64)
    observations = np.empty_like(actions)
    table = _policy_table(weights, pomdp.n_observations)
    chances = np.cumsum(table, axis=1)
    moves, targets = _outcomes(pomdp.transitions)
    shows, symbols = _outcomes(pomdp.observations)
    starting = np.cumsum(pomdp.initial)
    arrival = pomdp.emission == "arrival"
    uniforms = np.empty((min(STEPS_PER_CALL, steps), 3))
    for start in range(0, steps * episodes, steps):
        state = draw(starting, generator.random())
        for begin in range(start, start + steps, STEPS_PER_CALL):
            stop = min(begin + STEPS_PER_CALL, start + steps)
            generator.random(out=uniforms[: stop - begin])
            state = simulate_steps(
                chances,
                moves,
                targets,
                shows,
                symbols,
                arrival,
                state,
                pomdp.n_observations if begin == start else observations[begin - 1],
                uniforms[: stop - begin],
                actions[begin:stop],
                observations[begin:stop],
            )
            report("simulating", stop, steps * episodes)
    rewards = None if pomdp.symbol_rewards is None else pomdp.symbol_rewards[observations]
    probabilities = None if weights.ndim == 1 else _chosen_with(table, actions, observations, steps)
    for array in (actions, observations, rewards, probabilities):
        if array is not None:
            array.setflags(write=False)  # handed over: nobody else holds them, so no copy is needed
    return Trajectory(
        actions=actions,
        observations=observations,
        action_names=pomdp.action_names,
        observation_names=pomdp.observation_names,
        rewards=rewards,
        episode_starts=np.arange(0, steps * episodes, steps),
        probabilities=probabilities,
    )


def _require_room(pomdp: POMDP, steps: int, episodes: int, *, reacts: bool) -> None:
    """Refuse a log that would not fit: two codes a step, a reward, a probability and the rows that it was looked up
    in, and the flags by which the finished log is checked."""
    numbers = 2 + (pomdp.symbol_rewards is not None) + 2 * reacts
    tables = 3 * 8 * (pomdp.transitions.size + pomdp.observations.size)
    require_memory(
        steps * (8 * numbers + 1) + 16 * episodes + tables,
        f"a log of {steps} steps",
        "simulate fewer, or several logs with a seed each",
    )


def _outcomes(probabilities: Floats) -> tuple[Floats, Ints]:
    """What can follow, by action and state, with cumulative weights; an action at a time, for the sake of Ctrl-C."""
    from unlatch.kernels.simulation import possible_outcomes

    parts = [possible_outcomes(np.cumsum(table[None], axis=2)) for table in probabilities]
    weights, outcomes = zip(*parts, strict=True)
    return np.concatenate(weights), np.concatenate(outcomes)


def _policy_table(policy: Floats, observations: int) -> Floats:
    """A row of probabilities for every last observation, then one for the first step of an episode."""
    if policy.ndim == 1:
        return np.tile(policy, (observations + 1, 1))
    actions = policy.shape[1]
    return np.concatenate([policy, np.full((1, actions), 1 / actions)])


def _chosen_with(table: Floats, actions: Ints, observations: Ints, steps: int) -> Floats:
    """The probability with which every action was chosen, in episodes of ``steps`` steps."""
    rows = np.empty_like(observations)
    rows[1:] = observations[:-1]
    rows[::steps] = len(table) - 1
    result: Floats = table[rows, actions]
    return result
