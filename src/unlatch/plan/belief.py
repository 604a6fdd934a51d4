"""The exact belief that a planner keeps beside its search."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from unlatch.arrays import Floats, own_errstate
from unlatch.core.checks import frozen
from unlatch.core.reward import Symbol
from unlatch.errors import BeliefCollapseError, DataError, UsageError
from unlatch.plan.problem import PlanningProblem

__all__ = ["BeliefTracker", "OnCollapse"]

OnCollapse = Literal["raise", "reset", "mix"]
"""What follows an observation that the model holds impossible: an error, a fresh start from the initial
belief, or the belief of an agent that knows nothing but this one step."""


class BeliefTracker:
    """The belief after every real step, and how often a step was impossible under it."""

    def __init__(self, problem: PlanningProblem, on_collapse: OnCollapse) -> None:
        if on_collapse not in get_args(OnCollapse):
            raise UsageError(f"on_collapse must be 'raise', 'reset' or 'mix', got {on_collapse!r}")
        self.policy = get_args(OnCollapse).index(on_collapse)
        self.collapses = 0
        self._problem = problem
        self._belief = problem.initial.copy()

    @property
    def belief(self) -> Floats:
        """A read-only copy."""
        return frozen(self._belief)

    def reset(self) -> None:
        """Start again from the model's initial belief; collapses stay counted."""
        self._belief = self._problem.initial.copy()

    @own_errstate
    def observe(self, action: Symbol, observation: Symbol) -> bool:
        """Advance by a real step. False if it was impossible and the belief began anew."""
        from unlatch.kernels.treesearch import follow

        problem = self._problem
        a, o = problem.action_code(action), problem.observation_code(observation)
        possible = follow(
            problem.updates, problem.final, problem.initial, problem.mixing, self.policy, self._belief, a, o
        )
        if not possible:
            self.collapses += 1
            if self.policy == 0:
                raise BeliefCollapseError(
                    _impossible(problem, a, o, observation),
                    belief=self.belief,
                    action=problem.model.action_names[a],
                    observation=str(observation) if o < 0 else problem.model.observation_names[o],
                )
        return bool(possible)

    def state(self) -> dict[str, object]:
        """What `restore` needs, as plain numbers and lists."""
        return {"belief": self._belief.tolist(), "collapses": self.collapses}

    def restore(self, state: dict[str, object]) -> None:
        """Return to what `state` recorded."""
        try:
            belief = np.array(state["belief"], dtype=np.float64)
            collapses = int(state["collapses"])  # type: ignore[call-overload]
        except (KeyError, TypeError, ValueError):
            raise DataError("a planner's state needs a belief and a count of collapses") from None
        if belief.shape != self._belief.shape or not np.isfinite(belief).all() or collapses < 0:
            raise DataError(
                f"the state's belief does not fit a model with {self._problem.rank} coordinates",
                field="belief",
            )
        self._belief, self.collapses = belief, collapses


def _impossible(problem: PlanningProblem, action: int, code: int, observation: Symbol) -> str:
    names = problem.model
    shown = observation if code < 0 else names.observation_names[code]
    why = "is unknown to the model" if code < 0 else "is impossible under the model and the steps before it"
    return (
        f"observation {shown!r} after action {names.action_names[action]!r} {why}; the model comes from another "
        "system or lacks data: use on_collapse='reset' or 'mix' to go on"
    )
