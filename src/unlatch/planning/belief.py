"""The exact belief that a planner keeps beside its search."""

from __future__ import annotations

import warnings
from typing import Any, Literal, get_args

import numpy as np

from unlatch.arrays import Floats, Ints, own_errstate
from unlatch.core.checks import frozen
from unlatch.core.reward import Symbol
from unlatch.core.symbols import plain_observations
from unlatch.errors import BeliefCollapseError, BeliefCollapseWarning, DataError, UsageError
from unlatch.planning.problem import TrackedProblem

__all__ = ["BeliefTracker", "OnCollapse"]

OnCollapse = Literal["raise", "reset", "mix"]
"""What follows an observation that the model holds impossible: an error, a fresh start from the initial
belief, or the belief of an agent that knows nothing but this one step."""


class BeliefTracker:
    """The belief after every real step, and how often a step was impossible under it.

    A step that is told of is one that the episode went on after, if it can have: the belief is that of somebody who
    will act once more. Only where the model holds that the step ended the episode for sure, the belief is that it is
    over.
    """

    def __init__(self, problem: TrackedProblem, on_collapse: OnCollapse) -> None:
        if on_collapse not in get_args(OnCollapse):
            raise UsageError(f"on_collapse must be 'raise', 'reset' or 'mix', got {on_collapse!r}")
        self.policy = get_args(OnCollapse).index(on_collapse)
        self.collapses = 0
        self._told = False
        self._codes: dict[object, tuple[Ints, Ints]] = {}
        self._problem: Any = problem
        self._belief = problem.initial.copy()

    @property
    def belief(self) -> Floats:
        """A read-only copy."""
        return frozen(self._belief)

    @own_errstate
    def reset(self, observation: Symbol | None = None) -> None:
        """Start again from the model's initial belief, conditioned on the first observation if there is one; collapses
        stay counted."""
        if observation is None:
            self._belief = self._problem.initial.copy()
            return
        belief, possible = self.beginning(observation)
        if not possible:
            self._belief = self._problem.initial.copy()
            names = self._known_names(None)
            name = observation if isinstance(observation, str) else names[observation]
            self._count_collapse(f"first observation {name!r}", None, name)
        self._belief = belief

    def beginning(self, observation: Symbol) -> tuple[Floats, bool]:
        """The belief after a first observation, and whether it was possible."""
        from unlatch.kernels.treesearch import MIX

        problem = self._problem
        chances = problem.first_chances(observation)
        priors = [problem.initial, problem.mixing] if self.policy == MIX else [problem.initial]
        for prior in priors:
            joint: Floats = prior * chances
            if joint.sum() > 0:
                return joint / joint.sum(), prior is problem.initial
        return problem.initial.copy(), False

    @own_errstate
    def observe(self, action: Symbol, observation: Symbol, reward: float | None = None) -> int:
        """Advance by a real step: the code of its event, or -1 if it was impossible or several events agree with it.

        After an impossible step the belief is what the policy makes of it.
        """
        problem = self._problem
        a = problem.action_code(action)
        event, single = self._follow(a, observation, reward)
        if event < 0:
            name = problem.model.action_names[a]
            self._count_collapse(
                f"observation {_shown(problem, observation, reward)} after action {name!r}",
                name,
                _name(problem, observation),
            )
        return int(event) if single else -1

    def _follow(self, a: int, observation: Symbol, reward: float | None) -> tuple[int, bool]:
        """Advance the belief: the code of the event or -1, and whether one event at most agrees with what was seen."""
        from unlatch.kernels.treesearch import follow

        problem = self._problem
        kinds = self._event_codes(observation, reward)
        single = max(map(len, kinds)) <= 1
        if single:
            updates, place = problem.updates, a
            going_on, ended = (int(codes[0]) if len(codes) else -1 for codes in kinds)
        else:  # what somebody knows who cannot tell which it was
            updates, place = np.stack([problem.updates[a, codes].sum(axis=0) for codes in kinds])[None], 0
            going_on, ended = (kind if len(codes) else -1 for kind, codes in enumerate(kinds))
        event: int = follow(
            updates,
            problem.final,
            problem.initial,
            problem.mixing,
            self.policy,
            self._belief,
            place,
            going_on,
            ended,
        )
        return event, single

    def _event_codes(self, observation: Symbol, reward: float | None) -> tuple[Ints, Ints]:
        """Looked up once for whatever the model knows."""
        key = (
            type(observation),
            repr(observation),
            type(reward),
            repr(reward),
        )  # hashable, whatever they are
        if key not in self._codes:
            found: tuple[Ints, Ints] = self._problem.event_codes(observation, reward)
            if not any(map(len, found)):
                return found
            self._codes[key] = found
        return self._codes[key]

    def _count_collapse(self, what: str, action: str | None, observation: str) -> None:
        """Count an impossible observation, and raise or, the first time, warn."""
        from unlatch.kernels.treesearch import RAISE

        self.collapses += 1
        why = f"{what} is impossible under the model and the steps before it"
        if observation not in self._known_names(action):
            why = f"{what} is unknown to the model"
        if self.policy == RAISE:
            raise BeliefCollapseError(
                f"{why}; the model comes from another system or lacks data: use on_collapse='mix' or 'reset' to go on",
                belief=self.belief,
                action=action,
                observation=observation,
            )
        if not self._told:
            self._told = True
            warnings.warn(
                f"{why}; planning goes on, and such events are counted in the planner's collapses without a further "
                "warning. on_collapse='raise' makes them errors",
                BeliefCollapseWarning,
                stacklevel=5,
            )

    def _known_names(self, action: str | None) -> tuple[str, ...]:
        """The names that may be observed: before the first action, or after one."""
        model, beginning = self._problem.model, self._problem.beginning
        if action is None:
            return () if beginning is None else beginning.names
        names: tuple[str, ...] = model.observation_names
        return names + plain_observations(names, model.symbol_rewards)

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


def _name(problem: TrackedProblem, observation: Symbol) -> str:
    return observation if isinstance(observation, str) else problem.model.observation_names[observation]


def _shown(problem: TrackedProblem, observation: Symbol, reward: float | None) -> str:
    paid = "" if reward is None or not problem.pays else f" with reward {reward:g}"
    return f"{_name(problem, observation)!r}{paid}"
