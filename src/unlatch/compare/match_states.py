"""Which learned state is which true one."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np

from unlatch.arrays import Floats, Ints, own_errstate
from unlatch.core.pomdp import POMDP
from unlatch.core.psr import PSR
from unlatch.errors import DataError

__all__ = [
    "SAME",
    "action_order",
    "aligned_rows",
    "match_observation_rows",
    "match_states",
    "row_distances",
    "shown_rows",
]

SAME = 1e-9
"""Largest difference between probabilities that are meant to be equal."""


@own_errstate
def match_states(estimate: POMDP, truth: POMDP) -> Ints:
    """The order that turns the states of ``estimate`` into those of ``truth``.

    ``estimate.reordered(order)`` has its states where ``truth`` has them. Chosen to minimize

        sum over a, s of ``|Z'[a,s] - Z[a,s]|_1 + |T'[a,s] - T[a,s]|_1``,

    because observation rows alone cannot tell aliased states apart. This is a quadratic assignment, so the
    search starts from two linear ones (what every state shows sooner or later, and what it shows at once)
    and improves each by reassigning all states and by swapping pairs until nothing helps.

    Examples
    --------
    >>> import unlatch
    >>> maze = unlatch.domains.tmaze()
    >>> shuffled = maze.reordered([2, 0, 3, 1])
    >>> order = unlatch.match_states(shuffled, maze)
    >>> shuffled.reordered(order).state_names == maze.state_names
    True
    """
    learned, true = aligned_rows(estimate, truth)
    shown = row_distances(learned.observations, true.observations)
    problem = _JointMatching(shown, learned.transitions, true.transitions)
    starts = (row_distances(_tests(learned), _tests(true)), shown)
    return min((problem.improved(_assignment(costs)) for costs in starts), key=problem.cost)


@own_errstate
def match_observation_rows(rows: Floats, true_rows: Floats) -> Ints:
    """The order of learned states that minimizes the sum of |Z'[a,s] - Z[a,s]|_1 (the paper's matching).

    Both arrays have shape (actions, states, observations). States that share their rows under all actions
    are matched at will.
    """
    return _assignment(row_distances(rows, true_rows))


class _Rows(NamedTuple):
    """A model's rows in alphabets shared with another model."""

    observations: Floats
    transitions: Floats


def aligned_rows(estimate: POMDP, truth: POMDP) -> tuple[_Rows, _Rows]:
    """Both models' rows: actions in the truth's order, symbols of the truth and then those only learned."""
    if estimate.n_states != truth.n_states:
        raise DataError(
            f"the estimate has {estimate.n_states} states, the truth {truth.n_states}; states can be matched "
            "only where the numbers agree"
        )
    if estimate.emission != truth.emission:
        raise DataError(f"the estimate emits on {estimate.emission}, the truth on {truth.emission}")
    learned, true = shown_rows(estimate, truth)
    moves = estimate.transitions[action_order(estimate, truth)]
    return _Rows(learned, moves), _Rows(true, truth.transitions)


def shown_rows(estimate: PSR | POMDP, truth: POMDP) -> tuple[Floats, Floats]:
    """Observation rows of both over the union of their symbols, shape (actions, states, symbols)."""
    names = list(dict.fromkeys((*truth.observation_names, *estimate.observation_names)))
    rows = _observation_rows(estimate, truth.emission)[action_order(estimate, truth)]
    return _spread(rows, estimate.observation_names, names), _spread(
        truth.observations, truth.observation_names, names
    )


def _observation_rows(model: PSR | POMDP, emission: str) -> Floats:
    """The rows of a POMDP; of a PSR in state coordinates, what its states show by its updates."""
    if isinstance(model, POMDP):
        return model.observations
    if emission == "departure":
        shown: Floats = model.updates.sum(axis=3).transpose(0, 2, 1)
        return shown
    arrived = np.einsum("i,aoij->ajo", model.initial, model.updates)
    total = arrived.sum(axis=2, keepdims=True)
    reached = np.abs(total) > SAME
    result: Floats = np.where(reached, arrived / np.where(reached, total, 1.0), 0.0)
    return result


def _spread(rows: Floats, names: tuple[str, ...], union: list[str]) -> Floats:
    result = np.zeros((*rows.shape[:2], len(union)))
    result[:, :, [union.index(name) for name in names]] = rows
    return result


def action_order(estimate: PSR | POMDP, truth: POMDP) -> list[int]:
    if set(estimate.action_names) != set(truth.action_names):
        raise DataError(f"actions differ: learned {estimate.action_names}, true {truth.action_names}")
    return [estimate.action_names.index(name) for name in truth.action_names]


def row_distances(learned: Floats, true: Floats) -> Floats:
    """L1 distance, summed over the first and last axes, of every learned state to every true one."""
    result: Floats = np.abs(learned[:, :, None] - true[:, None]).sum(axis=(0, 3))
    return result


def _assignment(costs: Floats) -> Ints:
    """The learned state for every true one at least total cost."""
    from scipy.optimize import linear_sum_assignment

    order: Ints = linear_sum_assignment(costs.T)[1]
    return order


def _tests(rows: _Rows) -> Floats:
    """What every state shows under every action after repeating an action, or acting at random, for a while.

    Long repetitions bring an agent to the ends of corridors, where aliased states show their difference.
    Shape (habits x lengths x actions, states, symbols).
    """
    habits = np.concatenate([rows.transitions, rows.transitions.mean(axis=0, keepdims=True)])
    reached = np.broadcast_to(np.eye(habits.shape[1]), habits.shape)
    tests = []
    for _ in range(2 * habits.shape[1]):
        tests.append(reached[:, None] @ rows.observations[None])
        reached = reached @ habits
    stacked: Floats = np.concatenate(tests)
    return stacked.reshape(-1, *rows.observations.shape[1:])


class _JointMatching:
    """The cost of an order: distances of observation rows plus distances of transition rows."""

    def __init__(self, shown: Floats, learned: Floats, true: Floats) -> None:
        self.shown_rows, self._learned, self._true = shown, learned, true

    def cost(self, order: Ints) -> float:
        moves = self._learned[:, order][:, :, order]
        return float(self.shown_rows[order, np.arange(len(order))].sum() + np.abs(moves - self._true).sum())

    def improved(self, order: Ints) -> Ints:
        """Reassign or swap as long as the cost falls; a finite set of orders, so this ends."""
        while True:
            better = min((self._reassigned(order), *self._swaps(order)), key=self.cost)
            if self.cost(better) >= self.cost(order):
                return order
            order = better

    def _reassigned(self, order: Ints) -> Ints:
        """The best assignment if every state's neighbors were already matched rightly."""
        leaving = row_distances(self._learned[:, :, order], self._true)
        arriving = row_distances(self._learned[:, order].transpose(0, 2, 1), self._true.transpose(0, 2, 1))
        return _assignment(self.shown_rows + leaving + arriving)

    def _swaps(self, order: Ints) -> list[Ints]:
        swapped = []
        for i, j in combinations(range(len(order)), 2):
            other = order.copy()
            other[[i, j]] = order[[j, i]]
            swapped.append(other)
        return swapped
