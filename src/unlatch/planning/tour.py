"""Where to go in order to learn: through all states of a model, over and over."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unlatch.arrays import Flags, Floats
from unlatch.core.pomdp import POMDP

__all__ = ["Tour", "expected_uses"]

_DISCOUNT = 0.95
"""What being there a step later counts for. Any from .9 to .99 goes the same ways in the systems tried."""

_SETTLED = 1e-4
_SWEEPS = 400
"""Sweeps until the way to a state is known well enough to be taken."""

_PATIENCE = 2.0
_LEAST_STEPS = 10
"""A state is given up after twice the steps that the model holds it to be away, and these: the model may be wrong."""

_OUT_OF_REACH = 1e-3
"""Value of a way below which it is not taken: more than a hundred steps away."""


class Tour:
    """A walk through the states of a model: always to the one that has been left alone for longest, and there the
    action that tells most.

    What a state is like is known after a few visits, but whether it depends on where one comes from, and on what was
    seen there, only shows on the way between places. Who goes where the counts are lowest stays about one place; who
    goes to what was left alone for longest goes from end to end, and what a system remembers over so many steps shows
    in the log.

    Beliefs are followed by somebody else; the way is that of somebody who sees the state, averaged over the belief.

    Parameters
    ----------
    model : POMDP
    gains : array, shape (actions, states)
        What taking an action in a state is expected to tell.
    uses : array, shape (actions, states)
        How often it was taken so far: with every further use it tells less.

    Attributes
    ----------
    target : int or None
        The state that it is on its way to.

    Examples
    --------
    >>> import numpy as np
    >>> from unlatch import domains
    >>> maze = domains.tmaze(3)
    >>> tour = Tour(maze, np.ones((4, 8)), np.zeros((4, 8)))
    >>> belief = np.eye(8)[3]               # top-rm_1, at one end
    >>> tour.visit(belief)
    >>> maze.action_names[tour.action(belief)]
    'left'
    """

    def __init__(self, model: POMDP, gains: Floats, uses: Floats) -> None:
        self._model = model
        self._live: Flags = model.going_on > 0
        self._gains, self._uses = np.asarray(gains), np.array(uses, dtype=np.float64)
        self._before = self._uses.copy()
        self._moves = _with_restarts(model)
        self._visited = np.full(model.n_states, -np.inf)
        self._ways: dict[int, Floats] = {}
        self._now = 0
        self.target: int | None = None
        self._until = 0.0

    def visit(self, belief: Floats) -> None:
        """One step is about to be taken from ``belief``."""
        self._now += 1
        self._visited[int(np.argmax(belief))] = self._now

    def took(self, belief: Floats, action: int) -> None:
        """It was this one."""
        self._uses[action] += belief

    def action(self, belief: Floats) -> int:
        """The index of the action to take."""
        if self.target == int(np.argmax(belief)):
            self.target = None
            return int(np.argmax(self.told @ belief))
        if self.target is not None and self._now > self._until:
            self._visited[self.target] = self._now
            self.target = None
        if self.target is None:
            self.target = self._next(belief)
        if self.target is None:
            return int(np.argmax(self.told @ belief))
        return int(np.argmax(self._way(self.target) @ belief))

    @property
    def told(self) -> Floats:
        """What every action is expected to tell in every state by now, shape (actions, states)."""
        told: Floats = self._gains * (self._before + 1) / (self._uses + 1)
        return told

    def _next(self, belief: Floats) -> int | None:
        """The state that was left alone for longest, of several the one that tells most; of those within reach."""
        told = self.told.sum(axis=0)
        for state in np.lexsort((-told, self._visited)).tolist():
            if not self._live[state] or state == int(np.argmax(belief)):
                continue
            worth = float((self._way(state) @ belief).max())
            if worth > _OUT_OF_REACH:
                self._until = self._now + _LEAST_STEPS + _PATIENCE * np.log(worth) / np.log(_DISCOUNT)
                return int(state)
            self._visited[state] = self._now
        return None

    def _way(self, target: int) -> Floats:
        """What every action is worth in every state on the way to ``target``, shape (actions, states)."""
        if target not in self._ways:
            moves = self._moves
            values = np.zeros(self._model.n_states)
            values[target] = 1.0
            for _ in range(_SWEEPS):
                worth = _DISCOUNT * (moves @ values)
                improved = worth.max(axis=0)
                improved[target] = 1.0
                change = np.abs(improved - values).max()
                values = improved
                if change <= _SETTLED:
                    break
            self._ways[target] = worth
        return self._ways[target]


def expected_uses(model: POMDP, actions: Sequence[int], steps: int) -> Floats:
    """How large a share of ``steps`` steps takes each action in each state, shape (actions, states), for who takes
    ``actions[state]``, from the start on, and after an end from the start again."""
    states = np.arange(model.n_states)
    moves = _with_restarts(model)[np.asarray(actions), states]
    live = model.going_on > 0
    place = model.initial * live / max(float(model.initial @ live), 1e-300)
    uses = np.zeros((model.n_actions, model.n_states))
    for _ in range(steps):
        uses[actions, states] += place / steps
        place = place @ moves
    return uses


def _with_restarts(model: POMDP) -> Floats:
    """The model's transitions, shape (actions, states, states), with another beginning in place of every end: for who
    wants to get somewhere, an end is a way back to the start."""
    live = model.going_on > 0
    moves = model.transitions * live
    restarts: Floats = moves + (1 - moves.sum(axis=2, keepdims=True)) * model.initial
    return restarts
