"""What a step can bring, as a planner and the system it acts in see it.

A step shows an observation. Of a model that knows of it, it also pays a reward beside the observation, and either lets
the episode go on or ends it. All of that together is one event, and events take the place of observations wherever
beliefs are followed: endings and rewards then need no cases of their own. A step after the end is an event that shows
nothing and pays nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unlatch.arrays import Flags, Floats, Ints
from unlatch.core.checks import ROUNDING, frozen
from unlatch.core.memory import require_memory
from unlatch.core.pomdp import POMDP
from unlatch.core.reward import Model, ResolvedReward, Symbol, symbol_code
from unlatch.core.symbols import plain_observations, symbols_showing

__all__ = ["Beginning", "Events", "events_of", "known_beginning", "observation_codes"]


@dataclass(frozen=True, eq=False)
class Events:
    """The events of a model. Where it knows neither endings nor rewards beside observations, they are its observations.

    Attributes
    ----------
    model : POMDP, PartitionModel or PSR
    observations : array of int, shape (events,)
        What is shown: codes of the model's observations, -1 after the end.
    rewards : array of int, shape (events,)
        What is paid beside it: codes of the model's ``reward_values``, -1 if nothing is.
    paid : array, shape (events,), or None
        The reward of every event in the model's own units; None if it knows none.
    ended : array of bool, shape (events,)
        Whether the episode is over.
    """

    model: Model
    observations: Ints
    rewards: Ints
    paid: Floats | None
    ended: Flags

    def __len__(self) -> int:
        return len(self.observations)

    @cached_property
    def updates(self) -> Floats:
        """Shape (actions, events, k, k). Of a model with hundreds of states they take gigabytes: who needs a row or
        the sums of rows asks `reached` and `chances`."""
        model = self.model
        if not isinstance(model, POMDP) or not (model.terminal or (self.rewards >= 0).any()):
            updates: Floats = model.to_psr().updates
            return updates
        shape = (model.n_actions, len(self), model.n_states, model.n_states)
        require_memory(
            8 * math.prod(shape), "the events of the model", "take fewer states, observations or rewards"
        )
        result = np.empty(shape)
        for action, event in np.ndindex(result.shape[:2]):
            result[action, event] = self.reached(action, event, slice(None))
        return frozen(result)

    def reached(self, action: int, event: int, state: int | slice) -> Floats:
        """Of a POMDP: the chance of every next state together with an event, after an action in one or all states."""
        model = self.model
        assert isinstance(model, POMDP)
        shown, paid = self.observations[event], self.rewards[event]
        live = model.going_on > 0
        goes_on = np.asarray(live[state])[..., None]
        if shown < 0:  # nothing moves after the end
            return np.where(goes_on, 0.0, np.eye(model.n_states)[state])
        emits = model.observations[action, :, shown]
        if model.emission == "departure":
            emits = emits[state][..., None]
        rows = model.transitions[action, state] * emits
        if paid >= 0 and model.reward_probabilities is not None:
            rows = model.reward_probabilities[action, state, paid][..., None] * rows
        if model.terminal:
            rows = rows * goes_on * (live != self.ended[event])
        return np.asarray(rows)

    def chances(self) -> Floats:
        """Of a POMDP: the probability of every event after every action in every state, (actions, states, events)."""
        model = self.model
        assert isinstance(model, POMDP)
        live = model.going_on > 0
        result = np.zeros((model.n_actions, model.n_states, len(self)))
        for over in (False, True):
            events = np.flatnonzero((self.ended == over) & (self.observations >= 0))
            chances = _ways(model, live != over if model.terminal else np.ones_like(live))
            result[..., events] = chances[..., self.observations[events]]
            if model.reward_probabilities is not None:
                result[..., events] *= model.reward_probabilities[..., self.rewards[events]]
        if model.terminal:
            result *= live[:, None]
            result[:, ~live, -1] = 1.0
        return result

    def payments(self, resolved: ResolvedReward) -> Floats:
        """What ``resolved`` pays with every event after every action, shape (actions, events)."""
        table = np.zeros((len(resolved.symbols), len(self)))
        shown, beside = self.observations >= 0, self.rewards >= 0
        table[:, shown] = resolved.symbols[:, self.observations[shown]]
        table[:, beside] += resolved.rewards[self.rewards[beside]]
        return table

    def showing(self, observations: Ints, reward: float | None) -> tuple[Ints, Ints]:
        """The events that show one of ``observations`` and pay ``reward``, if that is known: those after which the
        episode goes on, and those that end it."""
        agree = np.isin(self.observations, observations)
        if reward is not None and self.paid is not None:
            agree &= self.paid == reward
        return np.flatnonzero(agree & ~self.ended), np.flatnonzero(agree & self.ended)


def events_of(model: Model) -> Events:
    """The events of a model that a planner plans with, or that it acts in."""
    observations = np.arange(model.n_observations)
    rewards, paid = np.full(len(observations), -1), model.symbol_rewards
    if isinstance(model, POMDP) and model.reward_probabilities is not None:
        assert model.reward_values is not None
        shown = _ways(model, np.ones(model.n_states, dtype=bool))
        beside = model.reward_probabilities[..., None] * shown[..., None, :]
        rewards, observations = np.nonzero(beside.any(axis=(0, 1)))
        paid = model.reward_values[rewards]
    ended = np.zeros(len(observations), dtype=bool)
    if isinstance(model, POMDP) and model.terminal:
        kept, ended = _with_endings(model, observations, rewards)
        observations, rewards = np.append(observations[kept], -1), np.append(rewards[kept], -1)
        paid = None if paid is None else np.append(paid[kept], 0.0)
    return Events(
        model, frozen(observations), frozen(rewards), None if paid is None else frozen(paid), frozen(ended)
    )


def _ways(model: POMDP, into: Flags) -> Floats:
    """The probability to see each observation on the way into some states, shape (actions, states, observations)."""
    moves = model.transitions * into
    if model.emission == "arrival":
        return np.asarray(moves @ model.observations)
    return np.asarray(moves.sum(axis=2)[..., None] * model.observations)


def _with_endings(model: POMDP, observations: Ints, rewards: Ints) -> tuple[Ints, Flags]:
    """Events that let the episode go on, events that end it, and one for every step after that: which of the given
    events each of the first two kinds is, and which are of the second or third kind."""
    live = model.going_on > 0
    ending = (_ways(model, ~live) * live[:, None])[..., observations]
    if model.reward_probabilities is not None:
        ending = ending * model.reward_probabilities[..., rewards]
    kept = np.concatenate([np.arange(len(observations)), np.flatnonzero(ending.any(axis=(0, 1)))])
    return kept, np.arange(len(kept) + 1) >= len(observations)


@dataclass(frozen=True, eq=False)
class Beginning:
    """What an episode may show before its first action: names, and the probability of each in every state."""

    names: tuple[str, ...]
    chances: Floats  # (states, first observations)

    def of(self, observation: Symbol) -> Floats:
        """The probability of a first observation in every state; zero for a name that is not known."""
        if isinstance(observation, str) and observation not in self.names:
            return np.zeros(len(self.chances))
        result: Floats = self.chances[:, symbol_code("first observation", observation, self.names)]
        return result


def known_beginning(model: object) -> Beginning | None:
    """What a model knows of first observations.

    A model that emits on arrival and shows the same whatever the action shows it at the start as well.
    """
    if not isinstance(model, POMDP):
        return None
    if model.first_observations is not None:
        return Beginning(model.first_observation_names, model.first_observations)
    tried = [a for a, name in enumerate(model.action_names) if name not in model.untried_actions]
    rows = model.observations[tried or [0]]
    if model.emission == "departure" or np.abs(rows - rows[0]).max() > ROUNDING:
        return None
    plain = plain_observations(model.observation_names, model.symbol_rewards)
    names = tuple(dict.fromkeys(plain))
    chances = np.zeros((model.n_states, len(names)))
    for symbol, name in enumerate(plain):
        chances[:, names.index(name)] += rows[0, :, symbol]
    return Beginning(names, frozen(chances))


def observation_codes(model: Model, observation: Symbol) -> Ints:
    """The model's codes of an observation given by name, with its reward or without, or by index; none for a name
    outside the alphabet, which is a thing that may be seen though the model holds it impossible."""
    if isinstance(observation, str):
        return symbols_showing(observation, model.observation_names, model.symbol_rewards)
    return np.array([symbol_code("observation", observation, model.observation_names)])
