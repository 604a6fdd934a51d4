"""One way to say it: a problem in, a planner out, with the reason why it is this one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from unlatch.arrays import Floats, own_errstate
from unlatch.core.arguments import real_number, whole_number
from unlatch.core.pomdp import POMDP
from unlatch.core.problem import Problem
from unlatch.core.random import RandomSource
from unlatch.core.reward import Model, Symbol
from unlatch.errors import ResourceLimitError, UsageError
from unlatch.planning.belief import OnCollapse
from unlatch.planning.exact import ExactPlanner
from unlatch.planning.online import BoundSearch
from unlatch.planning.policy import Policy
from unlatch.planning.pouct import POUCT
from unlatch.planning.problem import Untried
from unlatch.planning.solver import PointBasedSolver

__all__ = ["Plan", "plan"]

Method = Literal["auto", "exact", "point-based", "search"]

_TINY = 20_000
"""Beliefs at one step up to which a plan with a horizon is computed exactly: a second or two."""

_SHARE = 1e-3
"""Gap that is asked for by default, as a share of the largest reward."""


_SHARE_OF_TIME = 0.01
"""Of the time for the plan, what a search may take before every action."""


@dataclass(frozen=True, eq=False)
class Plan:
    """A planner, chosen for a problem: what `run_episodes` takes, with what is known of its value.

    Attributes
    ----------
    planner : ExactPlanner, Policy, BoundSearch or POUCT
    method : "exact", "point-based" or "search"
    reason : str
        Why this one, in words.
    lower, upper : float or None
        Bounds on what the best policy gathers from the start of an episode; the first is reached by this planner. None
        where nothing is proven.

    Examples
    --------
    >>> import unlatch
    >>> chosen = unlatch.plan(unlatch.Problem(unlatch.domains.tiger(), discount=0.95))
    >>> chosen.method, chosen.upper >= chosen.lower
    ('point-based', True)
    """

    planner: ExactPlanner | Policy | BoundSearch | POUCT
    method: str
    reason: str
    lower: float | None
    upper: float | None

    def __repr__(self) -> str:
        value = "" if self.lower is None else f", value {self.lower:.6g} to {self.upper:.6g}"
        return f"Plan({self.method}{value})"

    @property
    def model(self) -> Model:
        return self.planner.model

    @property
    def actions(self) -> tuple[str, ...]:
        """Names of the actions to choose from."""
        return self.planner.actions

    @property
    def belief(self) -> Floats:
        return self.planner.belief

    @property
    def collapses(self) -> int:
        return self.planner.collapses

    def reset(self, observation: Symbol | None = None) -> None:
        """Begin an episode; see `POUCT.reset`."""
        self.planner.reset(observation)

    def action(self) -> int:
        """The index of the action to take."""
        return self.planner.action()

    def observe(self, action: Symbol, observation: Symbol, reward: float | None = None) -> None:
        """Tell what was done, seen and paid; see `POUCT.observe`."""
        self.planner.observe(action, observation, reward)

    def in_words(self) -> list[str]:
        """What the planner does, where that can be said; see `Policy.in_words`."""
        return self.planner.in_words() if isinstance(self.planner, Policy) else []


@own_errstate
def plan(
    problem: Problem,
    method: Method = "auto",
    *,
    horizon: int | None = None,
    gap: float | None = None,
    time_limit: float | None = 10.0,
    simulations: int = 1000,
    actions: Iterable[Symbol] | None = None,
    untried: Untried = "exclude",
    on_collapse: OnCollapse = "mix",
    rng: RandomSource = None,
) -> Plan:
    """A planner for ``problem``, the strongest that the time allows, and why it is this one.

    Exact where a horizon is given and few beliefs can be reached within it; point-based where its bounds come within
    the gap in the time given; else a search that starts from those bounds at every step. A model without states (a
    PSR, a `PartitionModel`) is searched by `POUCT`.

    Parameters
    ----------
    problem : Problem
    method : "auto", "exact", "point-based" or "search"
    horizon : int, optional
        Steps to plan for; endless by default, which needs a discount below 1.
    gap : float, optional
        Distance of the bounds that is good enough; by default a thousandth of the largest reward.
    time_limit : float or None
        Seconds for the point-based plan; a search may take a hundredth of it before every action.
    simulations : int
        Of every search by `POUCT`.
    actions, untried, on_collapse, rng
        As in `POUCT`.

    Examples
    --------
    >>> from unlatch import Problem, domains, plan
    >>> found = plan(Problem(domains.tiger(), discount=0.95))
    >>> found.method, round(found.lower, 1)
    ('point-based', 19.3)
    >>> plan(Problem(domains.tiger(), discount=1.0), horizon=10).method
    'exact'
    """
    if not isinstance(problem, Problem):
        raise UsageError(
            f"expected a Problem, got {type(problem).__name__}; make one: Problem(model, reward)"
        )
    if method not in get_args(Method):
        raise UsageError(f"method must be one of {', '.join(map(repr, get_args(Method)))}, got {method!r}")
    horizon = None if horizon is None else whole_number("horizon", horizon, least=1)
    wanted = _SHARE * problem.resolved.scale if gap is None else real_number("gap", gap, 0.0, np.inf)
    seconds = None if time_limit is None else real_number("time_limit", time_limit, 0.0, np.inf)
    options: dict[str, Any] = {"actions": actions, "untried": untried, "on_collapse": on_collapse}
    if not isinstance(problem.model, POMDP):
        return _without_states(problem, method, horizon, simulations, rng, options)
    if method == "exact" or (method == "auto" and horizon is not None):
        found = _exact(problem, method, horizon, wanted, options)
        if found is not None:
            return found
    return _by_bounds(problem, method, horizon, wanted, seconds, options)


def _exact(
    problem: Problem, method: str, horizon: int | None, gap: float, options: dict[str, Any]
) -> Plan | None:
    """The exact plan; None where there is too much to plan for, unless it was asked for."""
    if horizon is None:
        raise UsageError(
            "an exact plan needs a horizon: say how many steps to plan for, or take another method"
        )
    limits: dict[str, Any] = {} if method == "exact" else {"max_beliefs": _TINY}
    planner = ExactPlanner(
        problem.model, problem.reward, horizon, discount=problem.discount, **limits, **options
    )
    try:
        value, error = planner.value(), planner.error_bound
    except ResourceLimitError:
        if method == "exact":
            raise
        return None
    if method == "auto" and error > gap:
        return None
    why = "as asked for" if method == "exact" else f"few enough beliefs can be reached within {horizon} steps"
    return Plan(planner, "exact", why, value - error, value + error)


def _by_bounds(
    problem: Problem,
    method: str,
    horizon: int | None,
    gap: float,
    seconds: float | None,
    options: dict[str, Any],
) -> Plan:
    """The point-based policy, or the search that goes on from its bounds."""
    solver = PointBasedSolver(problem, horizon=horizon, **options)
    if method == "search" and seconds is None:
        raise UsageError("a search begins with bounds, for which it needs a time limit: give time_limit=")
    stopped = solver.run(gap=gap, time_limit=seconds)
    bounds = solver.lower, solver.upper
    if method == "search":
        why = "as asked for"
    elif stopped == "gap":
        return Plan(solver.policy(), "point-based", f"its bounds come within {gap:g} of each other", *bounds)
    elif method == "point-based":
        return Plan(solver.policy(), "point-based", f"as asked for; stopped by {stopped}", *bounds)
    else:
        why = f"bounds still {solver.gap:.3g} apart, stopped by {stopped}; they are tightened before every action"
    each = None if seconds is None else _SHARE_OF_TIME * seconds
    planner = BoundSearch(solver, time_limit=each, on_collapse=options["on_collapse"])
    return Plan(planner, "search", why, *bounds)


def _without_states(
    problem: Problem,
    method: str,
    horizon: int | None,
    simulations: int,
    rng: RandomSource,
    options: dict[str, Any],
) -> Plan:
    """Tree search over histories, which is all that a model without states allows beside the exact plan."""
    kind = type(problem.model).__name__
    if method == "point-based":
        raise UsageError(f"a point-based plan needs states, which a {kind} does not tell apart; take 'auto'")
    if method == "exact":
        found = _exact(problem, method, horizon, 0.0, options)
        assert found is not None
        return found
    planner = POUCT(
        problem.model,
        problem.reward,
        depth="auto" if horizon is None else horizon,
        discount=problem.discount,
        simulations=simulations,
        rng=rng,
        **options,
    )
    return Plan(planner, "search", f"a {kind} has no states that bounds could be computed for", None, None)
