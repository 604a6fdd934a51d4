"""A model and a reward as the numbers that a planner computes with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from unlatch.arrays import Floats, Ints, own_errstate
from unlatch.core.arguments import real_number
from unlatch.core.checks import ROUNDING, distributions, finite_floats, frozen
from unlatch.core.partition_model import PartitionModel
from unlatch.core.pomdp import POMDP
from unlatch.core.psr import PSR
from unlatch.core.reward import Model, Reward, Symbol, symbol_code
from unlatch.errors import DataError, NumericalError, UsageError
from unlatch.planning.events import Beginning, Events, events_of, known_beginning, observation_codes

__all__ = ["PlanningProblem", "TrackedProblem", "Untried", "legal_actions", "planning_problem"]

Untried = Literal["exclude", "allow"]
"""Whether a planner may choose actions whose rows are placeholders, as the log never tried them."""

_LARGEST = float(np.finfo(np.float64).max)

_POSSIBLE = 1e-12
"""Probability from which a symbol counts as one that an action can show."""


class TrackedProblem(ABC):
    """What following a belief needs to know of a model."""

    model: Model
    beginning: Beginning | None
    initial: Floats  # (k,)
    final: Floats  # (k,)
    scale: float
    legal: Ints  # actions to choose from

    @property
    def rank(self) -> int:
        return len(self.initial)

    @property
    def actions(self) -> tuple[str, ...]:
        """Names of the actions to choose from."""
        return tuple(self.model.action_names[a] for a in self.legal)

    @property
    @abstractmethod
    def pays(self) -> bool:
        """Whether the model knows of rewards, so that one can be told."""

    @property
    def mixing(self) -> Floats:
        """The belief of an agent that knows nothing but that the episode goes on: uniform over the states in which it
        does, where there are states, else the initial one."""
        return self.model.going_on if isinstance(self.model, POMDP) else self.initial

    def unscaled(self, values: Floats) -> Floats:
        """Values in the units of the reward; those beyond the largest float become that."""
        with np.errstate(over="ignore"):
            result: Floats = np.clip(values * self.scale, -_LARGEST, _LARGEST)
        return result

    def checked_belief(self, belief: ArrayLike) -> Floats:
        """A belief that a caller passed, normalized once, as a fresh array."""
        if isinstance(self.model, POMDP):
            weights = distributions("belief", belief, ndim=1)
        else:
            weights = finite_floats("belief", belief, ndim=1)
        if weights.shape != self.initial.shape:
            raise DataError(f"belief: {weights.shape[0]} entries, the model has {self.rank}", field="belief")
        total = float(weights @ self.final)
        if not total > 0:
            raise DataError(f"belief: its total probability is {total}; it must be 1", field="belief")
        result: Floats = weights / total
        return result

    def action_code(self, action: Symbol) -> int:
        """The index of an action given by name or index."""
        return symbol_code("action", action, self.model.action_names)

    def first_chances(self, observation: Symbol) -> Floats:
        """The probability of a first observation in every state; zero for a name that is not known."""
        if self.beginning is None:
            raise UsageError(
                "the model does not know what is shown before the first action, so that it cannot make use of "
                f"{observation!r}; learn it from a log with first observations, give the POMDP first_observations, or "
                "reset without an observation"
            )
        return self.beginning.of(observation)


@dataclass(frozen=True, eq=False)
class PlanningProblem(TrackedProblem):
    """The triple of a model, over its events, with a reward in units of its largest absolute value.

    Without that scaling a reward of 1e308 would overflow and one of 1e-300 would drown in a bonus.
    """

    model: Model
    reward: Reward
    events: Events
    beginning: Beginning | None
    initial: Floats  # (k,)
    final: Floats  # (k,)
    shows: Floats  # (actions, k, events): probability of an event, linear in the belief
    labels: Ints  # (k,): cell of every coordinate
    symbol_rewards: Floats  # (actions, events), scaled
    cell_rewards: Floats  # (actions, cells), scaled
    expected: Floats  # (actions, k): expected reward of an action, linear in the belief, scaled
    scale: float
    legal: Ints  # actions to choose from

    @property
    def updates(self) -> Floats:
        """Shape (actions, events, k, k)."""
        return self.events.updates

    @property
    def pays(self) -> bool:
        return self.events.paid is not None

    @property
    def span(self) -> float:
        """Largest minus smallest reward that one legal step can pay, scaled."""
        shows = self.shows[self.legal]
        rewards = self.symbol_rewards[self.legal][(np.abs(shows) > _POSSIBLE).any(axis=1)]
        return (float(np.ptp(rewards)) if rewards.size else 0.0) + float(
            np.ptp(self.cell_rewards[self.legal])
        )

    def event_codes(self, observation: Symbol, reward: float | None) -> tuple[Ints, Ints]:
        """The events that agree with what was seen: those after which the episode goes on, and those that end it."""
        paid = None if reward is None else real_number("reward", reward, -_LARGEST, _LARGEST)
        return self.events.showing(observation_codes(self.model, observation), paid)


@own_errstate
def planning_problem(
    model: Model,
    reward: Reward | None,
    actions: Iterable[Symbol] | None = None,
    untried: Untried = "exclude",
) -> PlanningProblem:
    """Resolve ``reward`` (by default the learned one) on ``model``, restricted to legal ``actions``.

    Actions that the model's log never tried are legal only with ``untried="allow"``.
    """
    if not isinstance(model, POMDP | PartitionModel | PSR):
        raise UsageError(f"expected a POMDP, a PartitionModel or a PSR, got {type(model).__name__}")
    if reward is None:
        reward = Reward.learned(model)
    if not isinstance(reward, Reward):
        raise UsageError(f"expected a Reward, got {type(reward).__name__}")
    resolved = reward.resolve(model)
    psr, events = model.to_psr(), events_of(model)
    scale = resolved.scale
    shows = np.einsum("aoij,j->aio", events.updates, psr.final)
    symbols, cells = events.payments(resolved) / scale, resolved.cells / scale
    expected = np.einsum("aio,ao->ai", shows, symbols) + cells[:, resolved.labels] * psr.final
    arrays: dict[str, Any] = {
        "initial": _normalized(psr),
        "final": psr.final,
        "shows": frozen(shows),
        "labels": resolved.labels,
        "symbol_rewards": frozen(symbols),
        "cell_rewards": frozen(cells),
        "expected": frozen(expected),
        "legal": legal_actions(model, actions, untried),
    }
    return PlanningProblem(
        model=model, reward=reward, events=events, beginning=known_beginning(model), scale=scale, **arrays
    )


def _normalized(psr: PSR) -> Floats:
    total = float(psr.initial @ psr.final)
    if not total > 0:
        raise NumericalError(
            f"the model gives the empty sequence probability {total}; such a PSR predicts nothing, learn it anew "
            "from more data"
        )
    return psr.initial if abs(total - 1) <= ROUNDING else frozen(psr.initial / total)


def legal_actions(model: Model, actions: Iterable[Symbol] | None, untried: Untried) -> Ints:
    """Codes of the actions to choose from: the given ones or all, without those that the model's log never tried unless
    ``untried="allow"``."""
    return _tried(_legal(actions, model), model, untried)


def _legal(actions: Iterable[Symbol] | None, model: Model) -> Ints:
    if actions is None:
        return frozen(np.arange(model.n_actions))
    if isinstance(actions, str):
        raise UsageError(f"actions must be a collection of actions, got the text {actions!r}")
    codes = sorted({symbol_code("action", action, model.action_names) for action in actions})
    if not codes:
        raise UsageError("no action is legal: a planner needs at least one to choose")
    return frozen(np.array(codes, dtype=np.int64))


def _tried(legal: Ints, model: Model, untried: Untried) -> Ints:
    """Of the legal actions those that the model's log tried, or all if told so."""
    if untried not in get_args(Untried):
        raise UsageError(f"untried must be 'exclude' or 'allow', got {untried!r}")
    if untried == "allow" or not isinstance(model, POMDP) or not model.untried_actions:
        return legal
    tried = [a for a in legal.tolist() if model.action_names[a] not in model.untried_actions]
    if not tried:
        raise UsageError(
            "the log tried none of the legal actions, so that the model knows nothing of them; log them first, or "
            "plan with untried='allow'"
        )
    return frozen(np.array(tried, dtype=np.int64))
