"""How far a goal is and what to do first, as if the state became known after the next step.

That assumption makes it simple and gives bounds: no agent that sees only observations needs fewer steps, or earns more
(Littman, Cassandra and Kaelbling call it QMDP). The script of the page computes the same for any belief.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from unlatch.arrays import Flags, Floats
from unlatch.core.pomdp import POMDP

__all__ = [
    "DISCOUNT",
    "Goal",
    "Outlook",
    "first_action",
    "least_steps",
    "observation_goal",
    "outlook",
    "reward_outlook",
    "state_goal",
    "tried",
]

DISCOUNT = 0.95
"""Per step, of everything that is earned."""

_TOLERANCE, _ROUNDS = 1e-7, 20_000


@dataclass(frozen=True, eq=False)
class Goal:
    """What is to happen once: ``reached[a, s]`` is the probability that it does when ``a`` is done in ``s``, and
    ``stays[a, s, t]`` that it does not and ``t`` follows. ``there`` marks the states in which it has."""

    reached: Floats
    stays: Floats
    there: Flags


class Outlook(NamedTuple):
    """For every action and state: what it is worth to begin with it (at most), and how many steps it then takes (at
    least; infinite where the goal may be missed for ever)."""

    values: Floats
    steps: Floats


def state_goal(pomdp: POMDP, state: int) -> Goal:
    """To come to a state."""
    there = np.arange(pomdp.n_states) == state
    return Goal(pomdp.transitions @ there.astype(float), pomdp.transitions * ~there, there)


def observation_goal(pomdp: POMDP, symbol: int) -> Goal:
    """To see an observation, after whatever action. Nothing more is seen once an episode is over."""
    shown = pomdp.observations[:, :, symbol]
    if pomdp.emission == "departure":
        both = shown[:, :, None] * pomdp.transitions
    else:
        both = pomdp.transitions * shown[:, None, :]
    both = both * (pomdp.going_on > 0)[:, None]
    return Goal(both.sum(axis=2), pomdp.transitions - both, np.zeros(pomdp.n_states, dtype=bool))


def tried(pomdp: POMDP) -> Flags:
    """The actions that the log tried: the rows of others mean nothing."""
    return np.array([name not in pomdp.untried_actions for name in pomdp.action_names])


def outlook(pomdp: POMDP, goal: Goal, discount: float = DISCOUNT) -> Outlook:
    """One for reaching the goal, discounted for every step before, and the steps until then."""
    chosen = tried(pomdp)
    values = np.where(goal.there, 1.0, 0.0)
    for _ in range(_ROUNDS):
        gained = goal.reached + discount * (goal.stays @ values)
        following = np.where(goal.there, 1.0, gained[chosen].max(axis=0))
        done = float(np.abs(following - values).max()) <= _TOLERANCE
        values = following
        if done:
            break
    gained = goal.reached + discount * (goal.stays @ values)
    return Outlook(np.where(goal.there, 1.0, gained), _steps(goal, chosen))


def _steps(goal: Goal, chosen: Flags) -> Floats:
    """Expected steps if one begins with an action and then does the best, where the goal is reached for sure."""
    sure, allowed = _sure(goal, chosen)
    count = np.zeros(len(sure))
    for _ in range(_ROUNDS):
        following = np.where(allowed, 1.0 + goal.stays @ count, np.inf).min(axis=0)
        following = np.where(goal.there | ~sure, 0.0, following)
        done = float(np.abs(following - count).max()) <= _TOLERANCE * (1.0 + float(count.max()))
        count = following
        if done:
            break
    first = np.where(allowed, 1.0 + goal.stays @ count, np.inf)
    return np.where(goal.there, 0.0, first)


def _sure(goal: Goal, chosen: Flags) -> tuple[Flags, Flags]:
    """States from which the goal can be reached for sure, and the actions there that do not spoil it."""
    sure = np.ones(len(goal.there), dtype=bool)
    while True:
        allowed = chosen[:, None] & ~(goal.stays[:, :, ~sure] > 0).any(axis=2)
        near = goal.there.copy()
        while True:
            helps = (goal.reached > 0) | (goal.stays[:, :, near] > 0).any(axis=2)
            wider = near | (sure & (helps & allowed).any(axis=0))
            if (wider == near).all():
                break
            near = wider
        if (near == sure).all():
            return sure, allowed
        sure = sure & near


def reward_outlook(pomdp: POMDP, discount: float = DISCOUNT) -> Floats | None:
    """The most that every action and state can earn of the rewards that the model knows, discounted; None if it knows
    none."""
    if pomdp.rewards is None:
        return None
    chosen, live = tried(pomdp), pomdp.going_on > 0
    values = np.zeros(pomdp.n_states)
    scale = 1.0 + float(np.abs(pomdp.rewards).max())
    for _ in range(_ROUNDS):
        earned = pomdp.rewards + discount * (pomdp.transitions @ values)
        following = np.where(live, earned[chosen].max(axis=0), 0.0)
        done = float(np.abs(following - values).max()) <= _TOLERANCE * scale
        values = following
        if done:
            break
    return np.where(live, pomdp.rewards + discount * (pomdp.transitions @ values), 0.0)


def first_action(pomdp: POMDP, values: Floats, belief: Floats) -> tuple[int, float]:
    """The action that is worth most at a belief, and how much; the first of equals."""
    worth = np.where(tried(pomdp), values @ belief, -np.inf)
    best = int(np.argmax(worth >= worth.max() - 1e-9 * (1 + abs(worth.max()))))
    return best, float(worth[best])


def least_steps(steps: Floats, belief: Floats) -> float:
    """How many steps it takes at least from a belief; infinite where every first action may miss the goal for ever."""
    return float((np.where(belief > 0, steps, 0.0) @ belief).min())
