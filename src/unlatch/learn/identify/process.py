"""What a model shows to somebody who cannot see its states: the process that every claim of this room is about."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unlatch import linalg
from unlatch.arrays import Flags, Floats
from unlatch.core.budget import checkpoint
from unlatch.core.pomdp import POMDP, Emission
from unlatch.errors import NumericalError

__all__ = ["Process"]


@dataclass(frozen=True, eq=False)
class Process:
    """Tried actions in states that go on. An ending is seen, as one more place to go.

    Attributes
    ----------
    actions, live, terminal : tuple of int
        The model's actions that were tried, its states that go on, those that end an episode.
    starts : array, shape (first observations, live)
        How likely an episode begins in a state with each first observation; a single row where nothing is shown then.
    transitions : array, shape (actions, live, live)
    observations : array, shape (actions, live, observations)
    rewards : array, shape (actions, live, rewards)
        Paid beside the observation by the state left; a single certain one where there are none.
    ending : array, shape (actions, live, terminal)
    ending_shows : array, shape (actions, terminal, observations)
        What is shown at the end if the state reached shows it.
    """

    actions: tuple[int, ...]
    live: tuple[int, ...]
    terminal: tuple[int, ...]
    emission: Emission
    starts: Floats
    transitions: Floats
    observations: Floats
    rewards: Floats
    ending: Floats
    ending_shows: Floats

    @classmethod
    def of(cls, pomdp: POMDP) -> Process:
        actions = tuple(a for a, name in enumerate(pomdp.action_names) if name not in pomdp.untried_actions)
        live = tuple(s for s in range(pomdp.n_states) if s not in pomdp.terminal)
        moves = pomdp.transitions[np.ix_(actions, live)]
        initial, first = pomdp.initial, pomdp.first_observations
        starts = initial[None] if first is None else initial * first.T
        paid = pomdp.reward_probabilities
        rewards = np.ones((len(actions), len(live), 1)) if paid is None else paid[np.ix_(actions, live)]
        return cls(
            actions=actions,
            live=live,
            terminal=pomdp.terminal,
            emission=pomdp.emission,
            starts=starts[:, list(live)],
            transitions=moves[:, :, list(live)],
            observations=pomdp.observations[np.ix_(actions, live)],
            rewards=rewards,
            ending=moves[:, :, list(pomdp.terminal)],
            ending_shows=pomdp.observations[np.ix_(actions, pomdp.terminal)],
        )

    @property
    def n_states(self) -> int:
        """Of those that go on."""
        return len(self.live)

    @property
    def places(self) -> Floats:
        """Where a step leads, ends included, (actions, states, places)."""
        return np.concatenate([self.transitions, self.ending], axis=2)

    @property
    def shown(self) -> Floats:
        """What the state left emits, (actions, states, symbols): rewards, on departure each with its observation."""
        if self.emission == "arrival":
            return self.rewards
        pairs: Floats = self.rewards[:, :, :, None] * self.observations[:, :, None]
        return pairs.reshape(*pairs.shape[:2], -1)

    @property
    def pays(self) -> bool:
        """Whether rewards beside observations tell anything."""
        return bool(self.rewards.shape[2] > 1)

    def updates(self) -> Floats:
        """``G[a, symbol]`` between states that go on, (actions, rewards * observations, states, states)."""
        paid, seen = self.rewards.transpose(0, 2, 1), self.observations.transpose(0, 2, 1)
        moves = paid[:, :, None, :, None] * self.transitions[:, None, None]
        departure = self.emission == "departure"
        joint = moves * (seen[:, None, :, :, None] if departure else seen[:, None, :, None, :])
        return joint.reshape(len(self.actions), -1, self.n_states, self.n_states)

    def endings(self) -> Floats:
        """Probability of every symbol together with an end, (actions, rewards * observations, states)."""
        if self.emission == "departure":
            seen = self.observations * self.ending.sum(axis=2)[:, :, None]
        else:
            seen = self.ending @ self.ending_shows
        joint: Floats = self.rewards.transpose(0, 2, 1)[:, :, None] * seen.transpose(0, 2, 1)[:, None]
        return joint.reshape(len(self.actions), -1, self.n_states)

    def reached(self) -> Flags:
        """Whether an action ever leads to a state, (actions, states)."""
        flags: Flags = (self.transitions > 0).any(axis=1).reshape(len(self.actions), -1)
        return flags

    # --- its dimension ----------------------------------------------------------------------------------

    def tells_endings_apart(self) -> bool:
        """Whether there is one terminal state at most, or each shows observations of its own."""
        if len(self.terminal) < 2:
            return True
        return self.emission == "arrival" and bool(((self.ending_shows > 0).sum(axis=1) <= 1).all())

    def endings_told(self, tolerance: float) -> int:
        """How many terminal states it takes: one for whatever ends, and more if it is not always the same mixture of
        last observations that an action ends with."""
        if self.emission == "departure" or len(self.terminal) < 2:
            return int(self.ending.any())
        seen = (self.ending @ self.ending_shows).transpose(0, 2, 1)
        return max(_mixtures(ends, tolerance) for ends in seen)

    def size(self, tolerance: float) -> int:
        """The least states that a model of it has, ends included: numbers that predict everything."""
        return self.dimension(tolerance) + self.endings_told(tolerance)

    def dimension(self, tolerance: float) -> int:
        """Rank of the Hankel matrix with all histories and all tests, by closing two spaces under all updates."""
        reached, observable = self.spans(tolerance)
        if not len(reached):
            return 0
        return int((linalg.singular_values(reached @ observable.T) > tolerance).sum())

    def spans(self, tolerance: float) -> tuple[Floats, Floats]:
        """Orthonormal rows that span what histories lead to, and what tests ask for."""
        updates = self.updates().reshape(-1, self.n_states, self.n_states)
        tests = np.concatenate([np.ones((1, self.n_states)), self.endings().reshape(-1, self.n_states)])
        return (
            _closed_span(self.starts, updates, tolerance),
            _closed_span(tests, updates.transpose(0, 2, 1), tolerance),
        )

    # --- other models with the same process ---------------------------------------------------------------

    def mixed(self, mixing: Floats) -> Process:
        """The same process with new states: row ``s`` of ``mixing`` says of which old ones the new ``s`` is made.

        Rows sum to one. What comes out is a model only if the form is kept, which is for the caller to see to, and if
        nothing is negative. Raises `NumericalError` where the new states do not span the old ones.
        """
        back = linalg.inverse(mixing)
        moves = mixing @ self.transitions @ back
        rows = mixing @ self.observations
        if self.emission == "arrival":
            rows = self._arrival_rows(mixing, back)
        return replace(
            self,
            starts=self.starts @ back,
            transitions=moves,
            observations=rows,
            rewards=mixing @ self.rewards,
            ending=mixing @ self.ending,
        )

    def _arrival_rows(self, mixing: Floats, back: Floats) -> Floats:
        """Read off columns, weighted by the column itself; where one is zero the row stays."""
        left = mixing @ self.transitions  # from new states to old ones
        moves = left @ back
        joint = np.einsum("ask,ako,kt->asto", left, self.observations, back)
        weight = np.einsum("ast,ast->at", moves, moves)
        rows = np.einsum("asto,ast->ato", joint, moves)
        told = (weight > 1e-24)[:, :, None]
        result: Floats = np.divide(rows, weight[:, :, None], out=self.observations.copy(), where=told)
        return result

    def numbers(self) -> tuple[Floats, ...]:
        """All that must not be negative."""
        return self.transitions, self.observations, self.rewards, self.ending, self.starts

    @property
    def lowest(self) -> float:
        return min(float(block.min(initial=0.0)) for block in self.numbers())


def _mixtures(endings: Floats, tolerance: float) -> int:
    """Rank of what is shown last, (observations, states), of the states that can end at all."""
    often = endings.sum(axis=0)
    shown = endings[:, often > 0] / often[often > 0]
    return int((linalg.singular_values(shown) > tolerance).sum()) if shown.size else 0


def _closed_span(rows: Floats, updates: Floats, tolerance: float) -> Floats:
    """Orthonormal rows that span ``rows`` and whatever the updates make of them."""
    span, fresh = np.zeros((0, rows.shape[1])), rows
    while len(fresh) and len(span) < rows.shape[1]:
        checkpoint()
        beyond = fresh - fresh @ span.T @ span
        beyond = beyond[np.abs(beyond).max(axis=1) > tolerance]
        _, values, vectors = linalg.svd(np.concatenate([beyond, np.zeros((1, rows.shape[1]))]))
        new = vectors[:, values > tolerance].T
        span = np.concatenate([span, new])
        fresh = (new @ updates).reshape(-1, rows.shape[1])
    return span


def invertible(mixing: Floats) -> bool:
    """Whether new states span the old ones, with digits to spare."""
    try:
        return linalg.condition(mixing) < 1e8
    except NumericalError:
        return False
