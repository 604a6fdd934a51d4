"""Search from a solver's bounds: before every action they are tightened at the belief that the episode has come to."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unlatch.arrays import Floats, own_errstate
from unlatch.core.arguments import real_number, whole_number
from unlatch.core.pomdp import POMDP
from unlatch.core.problem import Problem
from unlatch.core.reward import Symbol
from unlatch.errors import UsageError
from unlatch.planning.belief import OnCollapse
from unlatch.planning.solver import PointBasedSolver
from unlatch.planning.steps import StateTracker

__all__ = ["BoundSearch"]


class BoundSearch:
    """A planner that goes on solving where an episode leads.

    The bounds of ``solver`` are those to begin with, and get tighter as one acts; what is gathered is never less, on
    average, than its lower bound promises. The same number of backups before every action makes the same choices.

    Parameters
    ----------
    solver : PointBasedSolver
    backups : int
        Backups before every action.
    time_limit : float, optional
        Seconds for these; then what is chosen depends on the machine.
    on_collapse : "mix", "reset" or "raise"
        As in `POUCT`.

    Examples
    --------
    >>> from unlatch import BoundSearch, PointBasedSolver, Problem, domains
    >>> solver = PointBasedSolver(Problem(domains.tiger(), discount=0.95))
    >>> planner = BoundSearch(solver, backups=100)
    >>> planner.model.action_names[planner.action()]
    'listen'
    """

    def __init__(
        self,
        solver: PointBasedSolver,
        *,
        backups: int = 200,
        time_limit: float | None = None,
        on_collapse: OnCollapse = "mix",
    ) -> None:
        if not isinstance(solver, PointBasedSolver):
            raise UsageError(f"expected a PointBasedSolver, got {type(solver).__name__}")
        self.solver = solver
        self.backups = whole_number("backups", backups, least=0)
        self.time_limit = None if time_limit is None else real_number("time_limit", time_limit, 0.0, math.inf)
        self._tracker = StateTracker(solver.steps, on_collapse)
        self._taken = 0

    @property
    def problem(self) -> Problem:
        return self.solver.problem

    @property
    def model(self) -> POMDP:
        return self.solver.steps.model

    @property
    def actions(self) -> tuple[str, ...]:
        """Names of the actions that the planner chooses from."""
        return self.solver.steps.actions

    @property
    def belief(self) -> Floats:
        """The exact belief after the steps observed so far."""
        return self._tracker.belief

    @property
    def collapses(self) -> int:
        """How many observations were impossible under the belief."""
        return self._tracker.collapses

    @property
    def lower(self) -> float:
        """What is gathered at least from the start of an episode."""
        return self.solver.lower

    @property
    def upper(self) -> float:
        """What nobody can exceed from the start of an episode."""
        return self.solver.upper

    @own_errstate
    def action(self, belief: ArrayLike | None = None) -> int:
        """The index of the action to take, after tightening the bounds at ``belief`` or at the planner's own."""
        weights = self.belief if belief is None else self.solver.steps.checked_belief(belief)
        if self.backups and not self._is_over(weights):
            self.solver.improve(
                weights, self._taken, gap=0.0, time_limit=self.time_limit, max_backups=self.backups
            )
        return self.solver.best_action(weights, self._taken)

    def value(self, belief: ArrayLike | None = None) -> float:
        """What is gathered at least from ``belief`` or the planner's own."""
        weights = self.belief if belief is None else self.solver.steps.checked_belief(belief)
        return self.solver.lower_at(weights, self._taken)

    def reset(self, observation: Symbol | None = None) -> None:
        """Begin a new episode; see `POUCT.reset`. What was learned about the problem stays."""
        self._taken = 0
        self._tracker.reset(observation)

    def observe(self, action: Symbol, observation: Symbol, reward: float | None = None) -> None:
        """Tell what was done and seen, by name or index, and what was paid; see `POUCT.observe`."""
        self._tracker.observe(action, observation, reward)
        self._taken += 1

    def _is_over(self, belief: Floats) -> bool:
        return bool(np.all(belief[self.model.going_on > 0] == 0))

    def __repr__(self) -> str:
        return f"BoundSearch(value {self.lower:.6g} to {self.upper:.6g}, {self.backups} backups an action)"

    def state(self) -> dict[str, Any]:
        """Belief and steps, as plain numbers and lists that JSON can hold."""
        return {**self._tracker.state(), "steps": self._taken}
