"""What a solver returns: for every belief an action, what it is worth at least, and what nothing can exceed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from unlatch.arrays import Floats, Ints, own_errstate
from unlatch.core import html
from unlatch.core.alpha_vectors import AlphaVectors
from unlatch.core.arguments import whole_number
from unlatch.core.checks import as_array, finite_floats, frozen
from unlatch.core.pomdp import POMDP
from unlatch.core.problem import Problem
from unlatch.core.reward import Reward, Symbol
from unlatch.errors import DataError, UsageError
from unlatch.planning.belief import OnCollapse
from unlatch.planning.steps import StateProblem, StateTracker, state_problem

if TYPE_CHECKING:
    from unlatch.planning.graph import PolicyGraph

__all__ = ["Policy", "UpperBound"]

_ENDLESS = {
    "gap": "the gap that was asked for",
    "time": "the time limit",
    "interrupt": "Ctrl-C",
    "memory": "the end of memory",
    "not begun": "no work at all",
}


@dataclass(frozen=True, eq=False)
class UpperBound:
    """A bound on the value from above: of every certainty, of every action, of beliefs that were come by, and between
    them by the sawtooth. In units of the reward, by stage: the steps taken before, one stage without a horizon.

    ``corners`` (stages, states) and ``informed`` (stages, actions, states) bound certainties and actions; ``stages``
    (points,), ``values`` (points,) and ``starts`` (points + 1,) the beliefs, whose nonzero ``weights`` (entries,) are
    on ``states`` (entries,).

    Examples
    --------
    >>> import unlatch
    >>> problem = unlatch.Problem(unlatch.domains.tiger(), discount=0.95)
    >>> policy = unlatch.solve(problem)
    >>> policy.upper_bound.corners.shape, policy.upper >= policy.lower
    ((1, 2), True)
    """

    corners: Floats  # (stages, states)
    informed: Floats  # (stages, actions, states)
    stages: Ints  # (points,)
    values: Floats  # (points,)
    starts: Ints  # (points + 1,): where the weights of a point begin
    states: Ints  # of the weights
    weights: Floats

    def value(self, belief: Floats, stage: int) -> float:
        """The bound at a belief."""
        certain = float(belief @ self.corners[stage])
        best = min(certain, float((self.informed[stage] @ belief).max()))
        if len(self.values):
            shares = np.minimum.reduceat(belief[self.states] / self.weights, self.starts[:-1])
            own = np.add.reduceat(self.weights * self.corners[stage][self.states], self.starts[:-1])
            lowered = np.where(self.stages == stage, shares * np.minimum(self.values - own, 0.0), 0.0)
            best = min(best, certain + float(lowered.min()))
        return best


class Policy:
    """A policy with proven bounds, and a planner that follows it: see `solve`.

    Attributes
    ----------
    problem : Problem
    lower, upper : float
        Bounds on what the best policy gathers from the start of an episode; the first is reached by this one. Where the
        model knows of first observations, the start is after the first of them was seen.
    gap : float
        The distance of the two.
    horizon : int or None
        Steps that are planned for; None for ever.
    stopped : str
        Why the work ended: "gap", "time", "interrupt" or "memory".
    vectors, actions : arrays, shape (vectors, states) and (vectors,)
        Plans: what each is worth in every state, and its first action. Of those for the stage at hand the one that is
        worth most at a belief is followed.
    stages : array of int, shape (vectors,)
        Steps taken before; all 0 without a horizon.
    leading : int
        So many vectors, the first ones, make up the bound; the others are what these go on with.
    successors : array of int, shape (vectors, events)
        The plan that each goes on with after every event; -1 where the horizon ends.

    Examples
    --------
    >>> import unlatch
    >>> problem = unlatch.Problem(unlatch.domains.tiger(), discount=0.95)
    >>> policy = unlatch.solve(problem)
    >>> round(policy.lower, 1), policy.gap <= 1e-3
    (19.4, True)
    >>> unlatch.domains.tiger().action_names[policy.action([0.5, 0.5])]
    'listen'
    """

    def __init__(
        self,
        *,
        problem: Problem,
        vectors: Floats,
        actions: Ints,
        successors: Ints,
        stages: Ints,
        leading: int,
        upper_bound: UpperBound,
        lower: float,
        upper: float,
        horizon: int | None,
        legal: tuple[int, ...],
        stopped: str,
        on_collapse: OnCollapse = "mix",
    ) -> None:
        self.problem = problem
        self.vectors, self.actions_taken = frozen(vectors), frozen(actions)
        self.successors, self.stages = frozen(successors), frozen(stages)
        self.upper_bound, self.leading = upper_bound, leading
        self.lower, self.upper, self.horizon, self.stopped = lower, upper, horizon, stopped
        self.on_collapse = on_collapse
        self._legal = legal
        self._tracker = StateTracker(self.steps, on_collapse)
        self._taken = 0

    def __repr__(self) -> str:
        horizon = "" if self.horizon is None else f", horizon={self.horizon}"
        return f"Policy(value {self.lower:.6g} to {self.upper:.6g}, {len(self.vectors)} vectors{horizon})"

    def _repr_html_(self) -> str:
        """For notebooks: the bounds, why the work ended, and what the policy does."""
        rows = [
            ("value at least", f"{self.lower:.6g}"),
            ("value at most", f"{self.upper:.6g}"),
            ("vectors", str(len(self.vectors))),
            ("the work ended by", _ENDLESS.get(self.stopped, self.stopped)),
        ]
        return html.page(repr(self), html.table(rows), *(html.heading(line) for line in self.in_words()))

    @property
    def model(self) -> POMDP:
        assert isinstance(self.problem.model, POMDP)
        return self.problem.model

    @property
    def reward(self) -> Reward:
        return self.problem.reward

    @property
    def gap(self) -> float:
        return self.upper - self.lower

    @property
    def actions(self) -> tuple[str, ...]:
        """Names of the actions that the policy chooses from."""
        return self.steps.actions

    @property
    def belief(self) -> Floats:
        """The exact belief after the steps observed so far."""
        return self._tracker.belief

    @property
    def collapses(self) -> int:
        """How many observations were impossible under the belief."""
        return self._tracker.collapses

    @cached_property
    def steps(self) -> StateProblem:
        """The problem as a solver reads it."""
        return state_problem(self.problem, self._legal, "allow")

    @property
    def alpha_vectors(self) -> AlphaVectors:
        """The plans as files of solvers hold them: without a horizon only."""
        if self.horizon is not None:
            raise UsageError(
                "the plans of a policy with a horizon differ from step to step, which alpha vectors do not tell apart; "
                "solve without a horizon, or save the policy itself"
            )
        return AlphaVectors(self.vectors, self.actions_taken)

    def action(self, belief: ArrayLike | None = None, steps_left: int | None = None) -> int:
        """The index of the action to take: at ``belief``, or at the policy's own."""
        weights, stage = self._question(belief, steps_left)
        return int(self.actions_taken[self._best(weights, stage)])

    def value(self, belief: ArrayLike | None = None, steps_left: int | None = None) -> float:
        """What the policy gathers at least, from ``belief`` or its own."""
        return self.bounds(belief, steps_left)[0]

    @own_errstate
    def bounds(self, belief: ArrayLike | None = None, steps_left: int | None = None) -> tuple[float, float]:
        """What the policy gathers at least from ``belief`` or its own, and what no policy can exceed."""
        weights, stage = self._question(belief, steps_left)
        lower = float(self.vectors[self._best(weights, stage)] @ weights)
        return lower, max(self.upper_bound.value(weights, stage), lower)

    def reset(self, observation: Symbol | None = None) -> None:
        """Begin a new episode. ``observation`` is what was shown before the first action; see `POUCT.reset`."""
        self._taken = 0
        self._tracker.reset(observation)

    def observe(self, action: Symbol, observation: Symbol, reward: float | None = None) -> None:
        """Tell what was done and seen, by name or index, and what was paid; see `POUCT.observe`."""
        self._tracker.observe(action, observation, reward)
        self._taken += 1

    def state(self) -> dict[str, Any]:
        """Everything that changes while acting, as plain numbers and lists that JSON can hold."""
        return {**self._tracker.state(), "steps": self._taken}

    def restore(self, state: dict[str, Any]) -> None:
        """Return to what `state` recorded, on the same policy."""
        taken = state.get("steps") if isinstance(state, dict) else None
        if not isinstance(taken, int) or isinstance(taken, bool) or taken < 0:
            raise DataError("a policy's state needs the number of steps taken")
        self._tracker.restore(state)
        self._taken = taken

    def graph(self, *, max_nodes: int = 200) -> PolicyGraph:
        """The policy as a graph: situations, their actions, and where every observation leads; see `PolicyGraph`."""
        from unlatch.planning.graph import policy_graph

        return policy_graph(self, whole_number("max_nodes", max_nodes, least=1))

    def in_words(self) -> list[str]:
        """Sentences that say what the policy does, as far as a few sentences can; see `describe_policy`."""
        from unlatch.planning.words import describe_policy

        return describe_policy(self)

    def to_arrays(self) -> dict[str, Any]:
        """Everything but the problem, as arrays, numbers and text; `from_arrays` makes a policy of it again."""
        bound = self.upper_bound
        return {
            "vectors": self.vectors,
            "actions": self.actions_taken,
            "successors": self.successors,
            "stages": self.stages,
            "leading": self.leading,
            "upper_corners": bound.corners,
            "upper_informed": bound.informed,
            "upper_stages": bound.stages,
            "upper_values": bound.values,
            "upper_starts": bound.starts,
            "upper_states": bound.states,
            "upper_weights": bound.weights,
            "legal": np.array(self._legal, dtype=np.int64),
            "lower": self.lower,
            "upper": self.upper,
            "horizon": self.horizon,
            "stopped": self.stopped,
        }

    @classmethod
    @own_errstate
    def from_arrays(
        cls, problem: Problem, arrays: dict[str, Any], *, on_collapse: OnCollapse = "mix"
    ) -> Policy:
        """The policy that `to_arrays` wrote down; `DataError` where the arrays do not fit the problem."""
        return cls(problem=problem, on_collapse=on_collapse, **_checked_arrays(problem, arrays))

    def _best(self, belief: Floats, stage: int) -> int:
        """The plan that is worth most at a belief."""
        halves = belief / 2  # of the largest numbers there are even a mean may be too large, by rounding
        if self.horizon is None:
            return int(np.argmax(self.vectors @ halves))
        own = np.flatnonzero(self.stages == stage)
        return int(own[np.argmax(self.vectors[own] @ halves)])

    @own_errstate
    def _question(self, belief: ArrayLike | None, steps_left: int | None) -> tuple[Floats, int]:
        weights = self._tracker.belief if belief is None else self.steps.checked_belief(belief)
        if self.horizon is None:
            if steps_left is not None:
                raise UsageError(
                    "a policy without a horizon does not count the steps left; solve with horizon="
                )
            return weights, 0
        if steps_left is None:
            return weights, self._taken % self.horizon
        return weights, self.horizon - whole_number("steps_left", steps_left, least=1, most=self.horizon)


# --- policies that were written down ----------------------------------------------------------------------------------


def _checked_arrays(problem: Problem, arrays: dict[str, Any]) -> dict[str, Any]:
    """What `Policy` is made of, each array of the type and shape that the problem asks for."""
    model = problem.model
    if not isinstance(model, POMDP):
        raise DataError(f"a policy needs the POMDP that it is for, got a {type(model).__name__}")
    states = model.n_states
    horizon = arrays.get("horizon")
    horizon = None if horizon is None else whole_number("horizon", horizon, least=1)
    stages = horizon or 1
    vectors = _fitting("vectors", _floats(arrays, "vectors", 2), (None, states))
    known = len(vectors)
    legal = _codes("legal", arrays.get("legal"), (None,), 0, model.n_actions)
    points = _codes("upper_stages", arrays.get("upper_stages"), (None,), 0, stages)
    weights = _fitting("upper_weights", _floats(arrays, "upper_weights", 1), (None,))
    starts = _codes("upper_starts", arrays.get("upper_starts"), (len(points) + 1,), 0, len(weights) + 1)
    if known == 0 or len(legal) == 0 or (weights <= 0).any() or (np.diff(starts) <= 0).any():
        raise DataError("a policy needs plans, legal actions, and weights above zero for every point")
    values = _floats(arrays, "upper_values", 1)
    levels = _codes("stages", arrays.get("stages"), (known,), 0, stages)
    if len(np.unique(levels)) != stages:
        raise DataError("stages: a policy needs a plan for every stage", field="stages")
    return {
        "vectors": vectors,
        "actions": _codes("actions", arrays.get("actions"), (known,), 0, model.n_actions),
        "successors": _codes("successors", arrays.get("successors"), (known, None), -1, known),
        "stages": levels,
        "leading": whole_number("leading", arrays.get("leading", known), least=0, most=known),
        "upper_bound": UpperBound(
            corners=_fitting(
                "upper_corners",
                _floats(arrays, "upper_corners", 2),
                (stages, states),
            ),
            informed=_fitting(
                "upper_informed",
                _floats(arrays, "upper_informed", 3),
                (stages, len(legal), states),
            ),
            stages=points,
            values=_fitting("upper_values", values, (len(points),)),
            starts=starts,
            states=_codes("upper_states", arrays.get("upper_states"), (len(weights),), 0, states),
            weights=weights,
        ),
        "lower": float(arrays.get("lower", -np.inf)),
        "upper": float(arrays.get("upper", np.inf)),
        "horizon": horizon,
        "legal": tuple(legal.tolist()),
        "stopped": str(arrays.get("stopped", "unknown")),
    }


def _floats(arrays: dict[str, Any], field: str, ndim: int) -> Floats:
    if field not in arrays:
        raise DataError(f"{field}: missing; a policy cannot do without", field=field)
    return finite_floats(field, arrays[field], ndim=ndim)


def _fitting(field: str, array: Any, shape: tuple[int | None, ...]) -> Any:
    fits = array.ndim == len(shape) and all(
        wanted is None or own == wanted for own, wanted in zip(array.shape, shape, strict=True)
    )
    if not fits:
        raise DataError(f"{field}: shape {array.shape} does not fit the model", field=field)
    return array


def _codes(field: str, value: Any, shape: tuple[int | None, ...], least: int, beyond: int) -> Ints:
    """Whole numbers from ``least`` to below ``beyond``."""
    array = as_array(field, value, "an array of whole numbers")
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise DataError(f"{field}: expected whole numbers, got {array.dtype}", field=field)
    fitting: Ints = _fitting(field, array.astype(np.int64), shape)
    if fitting.size and (fitting.min() < least or fitting.max() >= beyond):
        raise DataError(f"{field}: numbers from {least} to {beyond - 1} are known", field=field)
    return fitting
