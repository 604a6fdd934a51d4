"""What a plan is worth if its model is not quite right: the same plan in other models, and a plan that is good for all.

A plan is made with one model and followed whatever the truth is, so that its return is a smooth function of the true
numbers. But its own model promises too much of it: of plans that are about equally good, the one is taken that the
noise of the log favors. How much too much is told by plans for other models that may be true, followed in both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from unlatch.arrays import Floats, Ints, own_errstate
from unlatch.core.arguments import real_number, whole_number
from unlatch.core.checks import frozen
from unlatch.core.pomdp import POMDP
from unlatch.core.progress import report
from unlatch.core.random import RandomSource, resolve_rng
from unlatch.core.reward import Reward, symbol_code
from unlatch.errors import ResourceLimitError, UsageError
from unlatch.planning.episodes import Planner, run_episodes
from unlatch.planning.exact import ExactPlanner
from unlatch.planning.problem import PlanningProblem, planning_problem

__all__ = ["PlanReturn", "plan_return", "plan_value", "robust_plan"]

_IMPOSSIBLE = 1e-12
"""Probability up to which an event is not followed; as `ExactPlanner` has it."""

_DECIMALS = 9
"""Of a belief, by which two are the same."""

_MOST_NODES = 200_000
"""Beliefs that a plan may come to, at one step."""


@dataclass(frozen=True, eq=False)
class PlanReturn:
    """The return of a plan in several models, of which any may be the true one.

    Attributes
    ----------
    returns : array, shape (models,)
        Expected sum of rewards over the steps of the plan, in every model.
    low, high : float
        The interval: about what the plan's own model promises, less its optimism, as wide as the returns scatter. Of a
        planner that promises nothing, where the share ``level`` of the returns lies.
    level : float
    own : float or None
        The return that the plan's own model promises, if that was computed.
    optimism : float
        What a plan is promised too much by the model that it is made for, on average over the models that were planned
        for: what the best plan for each of them gains there on this plan, and loses to it in the plan's own model.
    unplanned : float
        Largest probability, over the models, of what the plan's own model holds impossible; after that no reward is
        counted.

    Examples
    --------
    >>> from unlatch import ExactPlanner, domains, plan_return
    >>> models = [domains.tmaze(fail=fail) for fail in (0.1, 0.2, 0.3)]
    >>> found = plan_return(ExactPlanner(models[1], horizon=3), models)
    >>> bool(found.returns[0] > found.returns[2]), found.interval == (found.low, found.high)
    (True, True)
    """

    returns: Floats
    low: float
    high: float
    level: float
    own: float | None = None
    optimism: float = 0.0
    unplanned: float = 0.0

    def __repr__(self) -> str:
        promised = "" if self.own is None else f", {self.own:.4g} by its own model"
        between = f"{self.low:.4g} to {self.high:.4g} at {self.level:.0%}"
        return f"PlanReturn({between}{promised}, {len(self.returns)} models)"

    @property
    def interval(self) -> tuple[float, float]:
        return self.low, self.high


@own_errstate
def plan_return(
    planner: Planner,
    models: Sequence[POMDP],
    *,
    level: float = 0.9,
    steps: int | None = None,
    episodes: int = 200,
    reward: Reward | None = None,
    replans: int = 20,
    rng: RandomSource = None,
) -> PlanReturn:
    """The return of a plan, with its interval over models that may be true, such as ``result.draws(400)``.

    The planner keeps its own model, and acts in every one of ``models``. For an `ExactPlanner` over its horizon the
    returns are exact; any other planner plays ``episodes`` episodes in each, with the same chances, and their noise
    makes the interval wider.

    Parameters
    ----------
    planner : Planner
    models : sequence of POMDP
    level : float
        Share of the models that the interval holds.
    steps : int, optional
        Of an episode; by default the horizon of an `ExactPlanner`, else it has to be given.
    episodes : int
        For planners other than `ExactPlanner`.
    reward : Reward, optional
        What counts; by default the planner's own, or that of each model.
    replans : int
        Models, of the first, that are planned for, to tell how much too much a plan is promised; zero for none. For an
        `ExactPlanner` only.
    rng : int or numpy.random.Generator, optional

    Examples
    --------
    >>> from unlatch import ExactPlanner, domains, learn_pomdp, plan_return, simulate
    >>> result = learn_pomdp(simulate(domains.tiger(), 5_000, rng=0), rng=0)
    >>> planner = ExactPlanner(result.pomdp, horizon=3)
    >>> found = plan_return(planner, result.draws(100, rng=0))
    >>> bool(found.low < found.own < found.high)
    True
    """
    real_number("level", level, 0.0, 1.0)
    whole_number("replans", replans, least=0)
    _refuse_no_models(models)
    if (
        isinstance(planner, ExactPlanner)
        and steps in (None, planner.horizon)
        and isinstance(planner.model, POMDP)
    ):
        return _exact_return(planner, models, level, reward, replans)
    if steps is None:
        raise UsageError("give the steps of an episode: this planner has no horizon of its own")
    returns = _played(planner, models, whole_number("steps", steps, least=1), episodes, reward, rng)
    # so that one more draw, as which the truth counts, falls between them as often as said, however few there are
    low, high = np.quantile(returns, [(1 - level) / 2, (1 + level) / 2], method="weibull")
    return PlanReturn(frozen(returns), float(low), float(high), level)


def _exact_return(
    planner: ExactPlanner, models: Sequence[POMDP], level: float, reward: Reward | None, replans: int
) -> PlanReturn:
    from scipy.special import stdtrit

    assert isinstance(planner.model, POMDP)
    returns, lost = _Graph.of(planner).values([planner.model, *models], reward)
    own, returns = float(returns[0]), returns[1:]
    too_much = np.array(
        [
            _too_much(planner, model, own, float(there), reward)
            for model, there in zip(models[:replans], returns, strict=False)
        ]
    )
    optimism = float(too_much.mean()) if replans else 0.0
    noise = _variance(too_much) / max(len(too_much), 1)
    # the scatter is an estimate itself, from as many models as there are, and so is the optimism
    quantile = float(stdtrit(max(len(returns) - 1, 1), (1 + level) / 2)) if level < 1 else np.inf
    reach = quantile * np.sqrt(_variance(returns) + noise)
    middle = own - optimism
    return PlanReturn(
        frozen(returns),
        float(middle - reach),
        float(middle + reach),
        level,
        own,
        optimism,
        float(lost[1:].max()),
    )


def _variance(values: Floats) -> float:
    """Of the distribution that the values are drawn from; zero for a single one."""
    return float(values.var(ddof=1)) if len(values) > 1 else 0.0


def _too_much(planner: ExactPlanner, model: POMDP, own: float, there: float, reward: Reward | None) -> float:
    """What the best plan for another model is promised too much by it, beside the planner's plan: what it gains there,
    and what it loses in the planner's own model. Neither is negative, and what makes all plans better or worse in the
    other model, the noise of a draw, cancels."""
    assert isinstance(planner.model, POMDP)
    (best_there, best_here), _ = _Graph.of(planner.for_model(model)).values([model, planner.model], reward)
    return max(float(best_there) - there, 0.0) + max(own - float(best_here), 0.0)


def plan_value(planner: ExactPlanner, *, reward: Reward | None = None) -> Callable[[POMDP], float]:
    """The expected return of a plan over its horizon, as a function of the model that it is followed in.

    For ``result.interval_of``: the return of a plan with the interval that the log leaves it.

    Examples
    --------
    >>> from unlatch import ExactPlanner, domains, plan_value
    >>> planner = ExactPlanner(domains.tiger(), horizon=3)
    >>> bool(abs(plan_value(planner)(domains.tiger()) - planner.value()) < 1e-9)
    True
    """
    if not isinstance(planner, ExactPlanner) or not isinstance(planner.model, POMDP):
        raise UsageError(
            "the exact return of a plan is that of an ExactPlanner with a POMDP; let others act: plan_return"
        )
    graph = _Graph.of(planner)

    def value(model: POMDP) -> float:
        returns, _ = graph.values([model], reward)
        return float(returns[0])

    return value


@own_errstate
def robust_plan(
    models: Sequence[POMDP],
    reward: Reward | None = None,
    *,
    horizon: int = 10,
    criterion: Literal["worst", "mean"] = "worst",
    **options: Any,
) -> tuple[ExactPlanner, PlanReturn]:
    """Of the best plans for every model, the one that does best in all of them.

    Parameters
    ----------
    models : sequence of POMDP
        Models that may be true, such as ``[result.pomdp, *result.draws(20)]``. Each is planned for, and every plan is
        followed in each: the time grows with the square of their number.
    reward : Reward, optional
        By default what the models learned.
    horizon : int
    criterion : "worst" or "mean"
        The largest return in the model that is worst for the plan, or the largest mean over models.
    options
        Further options of `ExactPlanner`.

    Returns
    -------
    planner : ExactPlanner
    found : PlanReturn
        Its returns in all models; ``low`` and ``high`` are the least and the greatest.

    Examples
    --------
    >>> from unlatch import domains, robust_plan
    >>> models = [domains.tmaze(fail=fail) for fail in (0.1, 0.3)]
    >>> planner, found = robust_plan(models, horizon=3)
    >>> found.returns.shape
    (2,)
    """
    if criterion not in ("worst", "mean"):
        raise UsageError(f"criterion must be 'worst' or 'mean', got {criterion!r:.40}")
    _refuse_no_models(models)
    best: tuple[float, ExactPlanner, PlanReturn] | None = None
    for done, model in enumerate(models):
        planner = ExactPlanner(model, reward, horizon, **options)
        returns, lost = _Graph.of(planner).values(models, None)
        score = float(returns.min() if criterion == "worst" else returns.mean())
        if best is None or score > best[0]:
            ends = float(returns.min()), float(returns.max())
            best = score, planner, PlanReturn(frozen(returns), *ends, 1.0, unplanned=float(lost.max()))
        report("planning", done + 1, len(models))
    assert best is not None
    return best[1:]


def _refuse_no_models(models: Sequence[POMDP]) -> None:
    if not models or not all(isinstance(model, POMDP) for model in models):
        raise UsageError("models must be POMDPs, one at least, such as result.draws(100)")


def _played(
    planner: Planner,
    models: Sequence[POMDP],
    steps: int,
    episodes: int,
    reward: Reward | None,
    rng: RandomSource,
) -> Floats:
    """Mean returns over the same chances in every model."""
    generator, _ = resolve_rng(rng)
    seed = int(generator.integers(2**62))
    return np.array(
        [
            run_episodes(model, planner, episodes=episodes, steps=steps, reward=reward, rng=seed).mean
            for model in models
        ]
    )


# --- a plan as a graph ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Level:
    """The beliefs of one step that a plan comes to: what it does there, and where every event leads."""

    actions: Ints  # (nodes,)
    following: Ints  # (nodes, events), -1: not followed


@dataclass(frozen=True, eq=False)
class _Graph:
    """All that a plan may come to, by the beliefs of its own model."""

    planner: ExactPlanner
    problem: PlanningProblem
    levels: tuple[_Level, ...]

    @classmethod
    def of(cls, planner: ExactPlanner) -> _Graph:
        problem = planning_problem(planner.model, planner.reward, planner.actions, "allow")
        beliefs = _beginnings(problem)
        levels = []
        for left in range(planner.horizon, 0, -1):
            actions = np.array([planner.action(belief, left) for belief in beliefs])
            following, beliefs = _followed(problem, beliefs, actions)
            levels.append(_Level(actions, following))
        return cls(planner, problem, tuple(levels))

    def values(self, models: Sequence[POMDP], reward: Reward | None) -> tuple[Floats, Floats]:
        """Expected return of the plan in every model, and the probability of what it has no plan for."""
        paid = self.planner.reward if reward is None else reward
        returns, lost = np.empty(len(models)), np.empty(len(models))
        problems: dict[Any, list[tuple[int, PlanningProblem]]] = {}
        for place, model in enumerate(models):
            problem = planning_problem(model, paid, untried="allow")
            alike = (model.action_names, problem.updates.shape, tuple(_looks(problem)))
            problems.setdefault(alike, []).append((place, problem))
        for together in problems.values():
            places = [place for place, _ in together]
            returns[places], lost[places] = self._values([problem for _, problem in together])
        return returns, lost

    def _values(self, others: list[PlanningProblem]) -> tuple[Floats, Floats]:
        """Of models with the same actions and events, all at once: they differ in numbers only."""
        names = others[0].model.action_names
        codes = np.array([symbol_code("action", name, names) for name in self.problem.model.action_names])
        events = _same_events(self.problem, others[0])
        updates = np.stack([other.updates[codes] for other in others])
        expected = np.stack([other.unscaled(other.expected[codes]) for other in others])
        mass = np.stack([_starting(self.problem, other) for other in others])
        returns, lost, weight = np.zeros(len(others)), np.zeros(len(others)), 1.0
        for level, after in zip(self.levels, (*self.levels[1:], None), strict=True):
            returns += weight * np.einsum("mns,mns->m", mass, expected[:, level.actions])
            if after is None:
                break
            weight *= self.planner.discount
            reached = np.zeros((len(after.actions), *mass.shape[::2]))
            for action in np.unique(level.actions):
                here = np.flatnonzero(level.actions == action)
                for event, known in enumerate(events):
                    target = level.following[here, known] if known >= 0 else np.full(len(here), -1)
                    moved = mass[:, here] @ updates[:, action, event]
                    lost += moved[:, target < 0].sum(axis=(1, 2))
                    np.add.at(reached, target[target >= 0], moved[:, target >= 0].swapaxes(0, 1))
            mass = reached.swapaxes(0, 1)
        return returns, lost


def _beginnings(problem: PlanningProblem) -> Floats:
    """The beliefs that an episode may begin with, one for every first observation that the model shows."""
    model = problem.model
    if not isinstance(model, POMDP) or model.first_observations is None:
        return problem.initial[None]
    joint = (problem.initial[:, None] * model.first_observations).T
    chances = joint.sum(axis=1, keepdims=True)
    result: Floats = np.where(chances > _IMPOSSIBLE, joint / np.maximum(chances, _IMPOSSIBLE), problem.mixing)
    return result


def _starting(own: PlanningProblem, other: PlanningProblem) -> Floats:
    """How likely another model begins in each of its states, for every beginning of the plan."""
    assert isinstance(own.model, POMDP)
    assert isinstance(other.model, POMDP)
    if own.model.first_observations is None:
        return other.initial[None].copy()
    if other.model.first_observations is None:
        raise UsageError("the plan waits for a first observation, which one of the models does not show")
    joint = other.initial[:, None] * other.model.first_observations
    names = other.model.first_observation_names
    columns = [names.index(name) if name in names else -1 for name in own.model.first_observation_names]
    return np.stack([joint[:, c] if c >= 0 else np.zeros(len(joint)) for c in columns])


def _followed(problem: PlanningProblem, beliefs: Floats, actions: Ints) -> tuple[Ints, Floats]:
    """For every belief and event the number of the belief after it, and these beliefs."""
    following = np.full((len(beliefs), problem.updates.shape[1]), -1)
    places, after = [], []
    for event in range(problem.updates.shape[1]):
        for action in np.unique(actions):
            here = np.flatnonzero(actions == action)
            moved = beliefs[here] @ problem.updates[action, event]
            chances = moved @ problem.final
            likely = chances > _IMPOSSIBLE
            places.append((here[likely], event))
            after.append(moved[likely] / chances[likely, None])
    reached = np.concatenate(after)
    # a belief stays as the planner has it: rounded, it would not know it, and plan for it anew
    _, first, numbers = np.unique(
        np.round(reached, _DECIMALS), axis=0, return_index=True, return_inverse=True
    )
    if len(first) > _MOST_NODES:
        raise ResourceLimitError(
            f"the plan comes to more than {_MOST_NODES} beliefs at one step; shorten its horizon, or follow it in "
            "episodes: give steps"
        )
    numbers, done = numbers.ravel(), 0
    for here, event in places:
        following[here, event] = numbers[done : done + len(here)]
        done += len(here)
    return following, reached[first]


def _same_events(own: PlanningProblem, other: PlanningProblem) -> list[int]:
    """For every event of another model the plan's own event that looks the same, -1 if there is none."""
    known = {key: event for event, key in enumerate(_looks(own))}
    return [known.get(key, -1) for key in _looks(other)]


def _looks(problem: PlanningProblem) -> list[tuple[str | None, float | None, bool]]:
    """What can be seen of every event: its observation, what is paid beside it, whether it ends the episode."""
    model, events = problem.model, problem.events
    assert isinstance(model, POMDP)
    return [
        (
            None if symbol < 0 else model.observation_names[symbol],
            None if code < 0 or model.reward_values is None else float(model.reward_values[code]),
            bool(ended),
        )
        for symbol, code, ended in zip(
            events.observations.tolist(), events.rewards.tolist(), events.ended.tolist(), strict=True
        )
    ]
