"""The optimal plan over a finite horizon, by dynamic programming over the beliefs that can be reached.

Beliefs are expanded level by level, equal ones merged, and values carried back. Where a model's noise keeps
beliefs apart that mean the same, near ones are merged instead, on a grid no coarser than needed, and the
error that this can cause is bounded and told.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unlatch.arrays import Floats, Ints, own_errstate
from unlatch.core.arguments import whole_number
from unlatch.core.memory import memory_errors, require_memory
from unlatch.core.progress import report
from unlatch.core.reward import Model, Reward, Symbol
from unlatch.errors import DataError, ResourceLimitError, UsageError
from unlatch.planning.belief import BeliefTracker, OnCollapse
from unlatch.planning.problem import PlanningProblem, Untried, planning_problem

__all__ = ["ExactPlanner"]

_GRIDS = (1e-10, 1e-7, 1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
"""Distances at which beliefs are merged, tried in turn; the first only undoes rounding."""

_IMPOSSIBLE = 1e-12
"""Probability up to which an observation is never followed."""

_FARTHEST = 1e18
"""Where numbers are cut off that only a PSR without meaning comes to."""

_BYTES_PER_LEVEL = 2000
"""What the least level takes, of one belief."""

_SMALLER = "shorten the horizon, lower max_beliefs, or plan with POUCT"

_STEPS_PER_BELIEF = 16
"""Steps from one level to the next that may be held, for every belief allowed."""

_MOST_STARTS = 16
"""Plans that are kept from the start of an episode on: one, and one more for each of the first observations seen."""


class ExactPlanner:
    """A planner that knows the best action for every belief it can come to within its horizon.

    Parameters
    ----------
    model : POMDP, PartitionModel or PSR
    reward : Reward, optional
        By default the reward that the model learned.
    horizon : int
        Steps to plan for. An episode that outlasts it is planned in stretches of ``horizon`` steps.
    discount : float
    actions : collection of names or indices, optional
        The legal actions; all by default.
    untried : "exclude" or "allow"
        Whether actions that the model's log never tried are left out; see `POMDP.untried_actions`.
    max_beliefs : int
        Largest number of different beliefs at one step.
    tolerance : float
        Largest bound on the error of the value that is accepted where near beliefs had to be merged to
        stay below ``max_beliefs``, as a share of the largest absolute reward. `error_bound` tells the
        actual one.
    on_collapse : "mix", "reset" or "raise"
        What follows an observation that is impossible under the belief; see `POUCT`. Counted in ``collapses``.

    Raises
    ------
    ResourceLimitError
        When planning, if there are more beliefs than ``max_beliefs`` at every accepted distance.

    Examples
    --------
    >>> import unlatch
    >>> tiger = unlatch.domains.tiger()
    >>> planner = unlatch.ExactPlanner(tiger, horizon=10)
    >>> round(planner.value(), 3)
    9.438
    >>> tiger.action_names[planner.action([0.97, 0.03], steps_left=3)]
    'listen'
    """

    def __init__(
        self,
        model: Model,
        reward: Reward | None = None,
        horizon: int = 10,
        *,
        discount: float = 1.0,
        actions: Iterable[Symbol] | None = None,
        untried: Untried = "exclude",
        max_beliefs: int = 400_000,
        tolerance: float = 0.01,
        on_collapse: OnCollapse = "mix",
    ) -> None:
        self.horizon = whole_number("horizon", horizon, least=1)
        most = whole_number("max_beliefs", max_beliefs, least=1)
        if not 0 <= discount <= 1 or not tolerance >= 0:
            raise UsageError(
                f"discount must lie in [0, 1] and tolerance be at least 0, got {discount!r} and {tolerance!r}"
            )
        self._problem = planning_problem(model, reward, actions, untried)
        self.model = model
        self.reward = self._problem.reward
        self._limits = _Limits(float(discount), most, float(tolerance))
        self._tracker = BeliefTracker(self._problem, on_collapse)
        self._steps = 0
        self._plans: list[_Plan] = []
        self._latest: list[_Plan] = []

    @property
    def actions(self) -> tuple[str, ...]:
        """Names of the actions that the planner chooses from."""
        return self._problem.actions

    @property
    def discount(self) -> float:
        """What a reward one step later counts for."""
        return self._limits.discount

    @property
    def belief(self) -> Floats:
        """The exact belief after the steps observed so far."""
        return self._tracker.belief

    @property
    def collapses(self) -> int:
        """How many observations were impossible under the belief."""
        return self._tracker.collapses

    @property
    def error_bound(self) -> float:
        """How far the value at the initial belief can be off, in units of the reward.

        For a model whose probabilities are all between 0 and 1; an estimated PSR may leave that range.
        """
        self._look_up(self._problem.initial, self.horizon)
        return float(self._problem.unscaled(np.array([self._plans[0].error]))[0])

    def for_model(self, model: Model) -> ExactPlanner:
        """A planner with the same reward and options for another model."""
        limits = self._limits
        return ExactPlanner(
            model,
            self.reward,
            self.horizon,
            discount=limits.discount,
            actions=self.actions,
            untried="allow",  # those that are left out are left out above
            max_beliefs=limits.max_beliefs,
            tolerance=limits.tolerance,
        )

    def reset(self, observation: Symbol | None = None) -> None:
        """Begin a new episode: the initial belief, the whole horizon ahead. ``observation`` is what was shown before
        the first action; see `POUCT.reset`."""
        self._steps = 0
        self._tracker.reset(observation)

    def value(self, belief: ArrayLike | None = None, steps_left: int | None = None) -> float:
        """The largest expected sum of rewards over the steps left, from ``belief`` or the planner's own."""
        best, _ = self._look_up(*self._question(belief, steps_left))
        return float(self._problem.unscaled(np.array([best]))[0])

    def action(self, belief: ArrayLike | None = None, steps_left: int | None = None) -> int:
        """The index of a best action; the first one of equals."""
        _, action = self._look_up(*self._question(belief, steps_left))
        return action

    def observe(self, action: Symbol, observation: Symbol, reward: float | None = None) -> None:
        """Tell what was done and seen, by name or index, and what was paid; see `POUCT.observe`."""
        self._tracker.observe(action, observation, reward)
        self._steps += 1

    def state(self) -> dict[str, Any]:
        """Everything that changes while planning, as plain numbers and lists that JSON can hold."""
        return {**self._tracker.state(), "steps": self._steps}

    def restore(self, state: dict[str, Any]) -> None:
        """Return to what `state` recorded, on a planner made with the same model and options."""
        steps = state.get("steps") if isinstance(state, dict) else None
        if not isinstance(steps, int) or steps < 0:
            raise DataError("an exact planner's state needs the number of steps taken")
        self._tracker.restore(state)
        self._steps = steps

    @own_errstate
    def _question(self, belief: ArrayLike | None, steps_left: int | None) -> tuple[Floats, int]:
        root = self._tracker.belief if belief is None else self._problem.checked_belief(belief)
        if steps_left is None:
            return root, self.horizon - self._steps % self.horizon
        return root, whole_number("steps_left", steps_left, least=1)

    @own_errstate
    def _look_up(self, belief: Floats, steps: int) -> tuple[float, int]:
        """Value and action from the plans at hand: those from the start of an episode, and the latest other one."""
        for plan in (*self._plans, *self._latest):
            found = plan.find(belief, steps, self._limits.tolerance)
            if found is not None:
                return found
        if not self._plans:
            self._plans = [planned_from(self._problem, self._limits, self._problem.initial, self.horizon)]
            return self._look_up(belief, steps)
        plan = planned_from(self._problem, self._limits, belief, steps)
        starts = self._steps == 0 and np.array_equal(belief, self._tracker.belief)
        if starts and len(self._plans) < _MOST_STARTS:
            self._plans.append(plan)
        else:
            self._latest = [plan]
        return float(plan.levels[0].values[0]), int(plan.levels[0].actions[0])


@dataclass(frozen=True)
class _Limits:
    discount: float
    max_beliefs: int
    tolerance: float


@dataclass(frozen=True, eq=False)
class _Level:
    """The beliefs at one step, in the order of their keys on ``grid``, with what they are worth.

    Beliefs a and b differ in worth by at most ``|a - b| @ envelope``.
    """

    grid: float
    keys: NDArray[np.uint64]
    beliefs: Floats
    envelope: Floats
    values: Floats
    actions: Ints

    @cached_property
    def _neighbors(self) -> Any:
        from scipy.spatial import KDTree

        return KDTree(self.beliefs)

    def find(self, belief: Floats, tolerance: float) -> int | None:
        """The place of ``belief``: by key, or where beliefs were merged the nearest, if within tolerance."""
        place = int(np.searchsorted(self.keys, _keys(belief[None], self.grid)[0]))
        if place < len(self.keys) and np.abs(self.beliefs[place] - belief).max() <= self.grid:
            return place
        if self.grid == _GRIDS[0]:
            return None
        nearest = int(self._neighbors.query(belief)[1])
        near = float(np.abs(self.beliefs[nearest] - belief) @ self.envelope) <= tolerance
        return nearest if near else None


@dataclass(frozen=True, eq=False)
class _Plan:
    """Levels from the first step to the last; ``error`` bounds what merging did to the first value."""

    levels: tuple[_Level, ...]
    error: float

    def find(self, belief: Floats, steps: int, tolerance: float) -> tuple[float, int] | None:
        """Value and action at ``belief`` with ``steps`` left, if the plan came by it."""
        if steps > len(self.levels):
            return None
        level = self.levels[len(self.levels) - steps]
        place = level.find(belief, tolerance)
        return None if place is None else (float(level.values[place]), int(level.actions[place]))


@dataclass(frozen=True, eq=False)
class _Merged:
    """Beliefs of which near ones were made one: the grid, its keys in order, a belief for each key, and for
    every belief that came in the place of its key. ``moved`` bounds what this did to a value."""

    grid: float
    keys: NDArray[np.uint64]
    beliefs: Floats
    places: Ints
    moved: float


@dataclass(frozen=True, eq=False)
class _Steps:
    """Steps from the beliefs of one level to those of the next."""

    slots: Ints  # belief * actions + action
    targets: Ints
    probabilities: Floats


def planned_from(problem: PlanningProblem, limits: _Limits, belief: Floats, horizon: int) -> _Plan:
    """`_planned`, refused where memory does not suffice."""
    what = f"a plan of {horizon} steps"
    require_memory(horizon * (_BYTES_PER_LEVEL + 24 * problem.rank), what, _SMALLER)
    with memory_errors(what, _SMALLER):
        return _planned(problem, limits, belief, horizon)


@own_errstate
def _planned(problem: PlanningProblem, limits: _Limits, belief: Floats, horizon: int) -> _Plan:
    """Expand the beliefs level by level, then carry values back."""
    envelopes = _envelopes(problem, limits.discount, horizon)
    level = _merge(belief[None], _GRIDS[0], envelopes[horizon])
    levels, steps = [level], []
    error, weight = 0.0, 1.0
    for t in range(1, horizon):
        taken, level, cost = _expand(problem, level, envelopes[horizon - t], limits.max_beliefs)
        weight *= limits.discount
        error += weight * cost
        if error > max(limits.tolerance, _GRIDS[1]):
            raise _out_of_reach(limits, horizon)
        levels.append(level)
        steps.append(taken)
        report("planning", t, 2 * horizon)
    return _Plan(_evaluated(problem, limits.discount, envelopes, levels, steps), error)


def _out_of_reach(limits: _Limits, horizon: int) -> ResourceLimitError:
    return ResourceLimitError(
        f"more than {limits.max_beliefs} beliefs can be reached within {horizon} steps, and merging near ones "
        f"would cost more than {limits.tolerance:g} of the largest reward; shorten the horizon, raise max_beliefs "
        "or tolerance, or plan with POUCT"
    )


def _evaluated(
    problem: PlanningProblem,
    discount: float,
    envelopes: list[Floats],
    levels: list[_Merged],
    steps: list[_Steps],
) -> tuple[_Level, ...]:
    """Carry values from the last level back to the first."""
    legal = problem.legal
    valued: list[_Level] = []
    for t in range(len(levels) - 1, -1, -1):
        level = levels[t]
        returns = level.beliefs @ problem.expected[legal].T
        if t < len(steps):
            later = steps[t].probabilities * valued[-1].values[steps[t].targets]
            total = np.bincount(steps[t].slots, weights=later, minlength=returns.size)
            returns = returns + discount * total.reshape(returns.shape)
        best = returns.argmax(axis=1)
        values = returns[np.arange(len(best)), best]
        envelope = envelopes[len(levels) - t]
        valued.append(_Level(level.grid, level.keys, level.beliefs, envelope, values, legal[best]))
        report("planning", 2 * len(levels) - t, 2 * len(levels))
    return tuple(reversed(valued))


def _expand(
    problem: PlanningProblem, level: _Merged, envelope: Floats, most: int
) -> tuple[_Steps, _Merged, float]:
    """The steps from a level, the level after it, and the most that merging can change a value.

    Where near beliefs are merged anyway, observations less likely than the grid is wide are left out.
    """
    exact = level.grid == _GRIDS[0]
    cutoff = _IMPOSSIBLE if exact else level.grid
    slots, probabilities, parts, targets = [], [], [], []
    dropped = moved = 0.0
    known = 0
    for position, action in enumerate(problem.legal):
        chances = np.maximum(level.beliefs @ problem.shows[action], 0.0)
        kept = np.where(chances > cutoff, chances, 0.0)
        shares = kept.sum(axis=1)
        dropped = max(dropped, float((chances.sum(axis=1) - shares).max()))
        rows, observations = np.nonzero(kept)
        after = np.empty((len(rows), problem.rank))
        for observation in range(chances.shape[1]):
            here = observations == observation
            source = level.beliefs[rows[here]]
            likely = kept[rows[here], observation]
            after[here] = source @ problem.updates[action, observation] / likely[:, None]
        part = _merge(after, level.grid, envelope)
        slots.append(rows * len(problem.legal) + position)
        probabilities.append(kept[rows, observations] / shares[rows])
        targets.append(part.places + known)
        parts.append(part.beliefs)
        known += len(part.keys)
        moved = max(moved, part.moved)
    room = max(1, min(most, _STEPS_PER_BELIEF * most // chances.shape[1] // len(problem.legal)))
    whole = _merge_to_fit(np.concatenate(parts), level.grid, envelope, room)
    taken = _Steps(
        np.concatenate(slots), whole.places[np.concatenate(targets)], np.concatenate(probabilities)
    )
    return taken, whole, moved + whole.moved + 2 * dropped * float(envelope.max())


def _merge_to_fit(beliefs: Floats, grid: float, envelope: Floats, most: int) -> _Merged:
    """Merge on the finest grid, from ``grid`` on, that leaves at most ``most`` beliefs."""
    for width in _GRIDS[_GRIDS.index(grid) :]:
        merged = _merge(beliefs, width, envelope)
        if len(merged.keys) <= most:
            return merged
    return replace(merged, moved=np.inf)


def _merge(beliefs: Floats, grid: float, envelope: Floats) -> _Merged:
    keys, first, places = np.unique(_keys(beliefs, grid), return_index=True, return_inverse=True)
    chosen = beliefs[first]
    moved = float((np.abs(beliefs - chosen[places]) @ envelope).max(initial=0.0))
    return _Merged(grid, keys, chosen, places, moved)


def _keys(beliefs: Floats, grid: float) -> NDArray[np.uint64]:
    """One number per cell of the grid that a belief lies in. Two cells that share a number are merged as if
    near; the measured distance, and so the error bound, then shows it."""
    cells = np.rint(np.clip(beliefs / grid, -_FARTHEST, _FARTHEST)).astype(np.int64).view(np.uint64)
    keys = np.zeros(len(beliefs), dtype=np.uint64)
    for column in cells.T:
        keys = (keys ^ column) * np.uint64(0x9E3779B97F4A7C15)
        keys ^= keys >> np.uint64(29)
    return keys


def _envelopes(problem: PlanningProblem, discount: float, steps: int) -> list[Floats]:
    """Bounds on the entries of every plan's value vector with 0, 1, ... steps left, shape (k,) each.

    Two beliefs a and b differ in value by at most ``|a - b| @ envelope``. The middle of the rewards is
    taken off first: it adds the same to every belief.
    """
    rewards = problem.expected[problem.legal]
    middle = (rewards.max() + rewards.min()) / 2
    centered = np.abs(rewards - middle * problem.final)
    flows = np.abs(problem.updates[problem.legal]).sum(axis=1)
    envelopes = [np.zeros(problem.rank)]
    for _ in range(steps):
        reached = (centered + discount * flows @ envelopes[-1]).max(axis=0)
        envelopes.append(np.minimum(reached, _FARTHEST))
    return envelopes
