"""How far a tree search has to look, and what lies beyond its tree."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from unlatch.arrays import Flags, Floats
from unlatch.core.checks import frozen
from unlatch.core.pomdp import POMDP
from unlatch.core.problem import Problem
from unlatch.errors import ShortSightWarning, UsageError
from unlatch.planning.problem import PlanningProblem

__all__ = ["automatic_depth", "leaf_vectors", "warn_if_short_sighted"]

_LEAST_DEPTH = 3
_MOST_DEPTH = 100
"""Beyond it a tree has no nodes: so many steps are for what lies beyond its leaves."""

_UNKNOWN_DEPTH = 10
"""Where there are no states, and nobody knows how far a reward is."""

_BACKUPS = 3000
"""Backups of the quick plan that leaves are valued by: a fraction of a second, the same for the same problem."""

_QUICK_GAP = 1e-3
"""Gap at which that plan is good enough, as a share of the largest reward."""

_PAYS = 1e-9
"""Difference of two rewards, in units of the largest, from which one can be preferred to the other."""


def automatic_depth(problem: PlanningProblem) -> int:
    """Twice the fewest steps within which the best-paying state can be left."""
    if not isinstance(problem.model, POMDP):
        return _UNKNOWN_DEPTH
    best = problem.expected[problem.legal].max(axis=0)
    for steps, reached in enumerate(_reached(problem, _MOST_DEPTH), start=1):
        whole = reached  # the last one is everything that can be reached
        if (best[reached] >= best.max() - _PAYS).any():
            return min(max(2 * steps, _LEAST_DEPTH), _MOST_DEPTH)
    target = best[whole].max() - _PAYS
    for steps, reached in enumerate(_reached(problem, _MOST_DEPTH), start=1):
        if (best[reached] >= target).any():
            return min(max(2 * steps, _LEAST_DEPTH), _MOST_DEPTH)
    return _MOST_DEPTH


def _reached(problem: PlanningProblem, most: int) -> Any:
    """The states that can be reached within 0, 1, ... steps; up to ``most``, or until there are no more."""
    moves = (problem.updates[problem.legal].sum(axis=(0, 1))) > 0
    reached: Flags = problem.initial > 0
    for _ in range(most):
        yield reached
        wider = reached | moves[reached].any(axis=0)
        if (wider == reached).all():
            return
        reached = wider


def warn_if_short_sighted(problem: PlanningProblem, depth: int) -> None:
    """Say so where every action pays the same as far as a search of ``depth`` steps sees, and there is more beyond."""
    if not isinstance(problem.model, POMDP):
        return
    rewards = problem.expected[problem.legal]
    if float(np.ptp(rewards)) <= _PAYS:
        return
    distance = _steps_to_choice(problem, rewards)
    if distance is not None and distance > depth:
        warnings.warn(
            f"the search looks {depth} steps ahead, and the nearest choice of rewards lies {distance} steps away: "
            "until then all actions look alike. Plan with depth='auto', with a greater depth, or by unlatch.solve",
            ShortSightWarning,
            stacklevel=4,
        )


def _steps_to_choice(problem: PlanningProblem, rewards: Floats) -> int | None:
    """Fewest steps within which not all that can be paid is the same; None if it always is."""
    for distance, reached in enumerate(_reached(problem, problem.rank + 1), start=1):
        if float(np.ptp(rewards[:, reached])) > _PAYS:
            return distance
    return None


def leaf_vectors(problem: PlanningProblem, leaf: Any, discount: float) -> Floats:
    """Vectors whose largest product with a belief is its value, scaled as the search is; none for rollouts."""
    from unlatch.planning.policy import Policy

    if leaf == "rollout":
        return np.zeros((0, problem.rank))
    if isinstance(leaf, Policy):
        return _policy_vectors(problem, leaf)
    if leaf not in ("mdp", "solver"):
        raise UsageError(f"leaf must be 'rollout', 'mdp', 'solver' or a Policy, got {type(leaf).__name__}")
    if discount == 1:
        raise UsageError(
            "leaves can be valued for ever only if later rewards count for less: give a discount or a patience below 1"
        )
    own = Problem(problem.model, problem.reward, discount=discount)
    from unlatch.planning.solver import PointBasedSolver

    solver = PointBasedSolver(own, actions=problem.legal.tolist(), untried="allow")
    if leaf == "mdp":
        return solver.certain_values()[None]
    solver.run(gap=_QUICK_GAP * problem.scale, max_backups=_BACKUPS)
    return solver.active_vectors()


def _policy_vectors(problem: PlanningProblem, policy: Any) -> Floats:
    if policy.horizon is not None:
        raise UsageError("leaf: a policy with a horizon is worth nothing beyond it; solve without a horizon")
    if policy.vectors.shape[1] != problem.rank:
        raise UsageError(
            f"leaf: the policy is for {policy.vectors.shape[1]} states, the model has {problem.rank}"
        )
    return frozen(policy.vectors[: policy.leading] / problem.scale)
