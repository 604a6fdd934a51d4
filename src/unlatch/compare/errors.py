"""How far a learned model is from the true one: the paper's measures, and stricter ones.

Hidden states have no names, so every measure first matches learned states to true ones. Actions and symbols
are matched by name: a learned alphabet may be ordered differently, or lack symbols that never occurred.

In the formulas T[a,s] and Z[a,s] are the true transition and observation rows, T'[a,s] and Z'[a,s] the learned
ones after matching, and |x|_1 is the sum of absolute values.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlatch import linalg
from unlatch.arrays import Floats, Ints
from unlatch.core.checks import finite_floats
from unlatch.core.partition import Partition
from unlatch.core.pomdp import POMDP
from unlatch.core.psr import PSR
from unlatch.core.trajectory import Trajectory
from unlatch.errors import DataError

__all__ = [
    "held_out_gap",
    "match_observation_rows",
    "match_states",
    "observation_l1",
    "observation_l1_all",
    "three_step_transition_l1",
    "transition_l1",
    "true_partition",
]

_SAME = 1e-9
"""Largest difference between probabilities that are meant to be equal."""


def match_states(estimate: POMDP, truth: POMDP) -> Ints:
    """The order that turns the states of ``estimate`` into those of ``truth``.

    ``estimate.reordered(order)`` has its states where ``truth`` has them. Chosen to minimize

        sum over a, s of |Z'[a,s] - Z[a,s]|_1 + |T'[a,s] - T[a,s]|_1,

    because observation rows alone cannot tell aliased states apart. This is a quadratic assignment, so the
    search starts from two linear ones (what every state shows sooner or later, and what it shows at once)
    and improves each by reassigning all states and by swapping pairs until nothing helps.
    """
    learned, true = _aligned(estimate, truth)
    shown = _distances(learned.observations, true.observations)
    problem = _JointMatching(shown, learned.transitions, true.transitions)
    starts = (_distances(_tests(learned), _tests(true)), shown)
    return min((problem.improved(_assignment(costs)) for costs in starts), key=problem.cost)


def match_observation_rows(rows: Floats, true_rows: Floats) -> Ints:
    """The order of learned states that minimizes the sum of |Z'[a,s] - Z[a,s]|_1 (the paper's matching).

    Both arrays have shape (actions, states, observations). States that share their rows under all actions
    are matched at will.
    """
    return _assignment(_distances(rows, true_rows))


def observation_l1(
    rows: ArrayLike, actions: ArrayLike, truth: POMDP, *, order: ArrayLike | None = None
) -> float:
    """The paper's observation error: mean over full-rank actions a and states s of |Z'[a,s] - Z[a,s]|_1.

    Parameters
    ----------
    rows : array, shape (full-rank actions, states, observations)
        The estimate (the projected diagonals of the jointly diagonalized matrices), in the truth's order of
        symbols.
    actions : array of int, shape (full-rank actions,)
        Which actions of ``truth`` these are.
    truth : POMDP
    order : array of int, shape (states,), optional
        The matching of states; by default the one that minimizes the distance of these rows.
    """
    learned = finite_floats("rows", rows, ndim=3)
    true_rows = truth.observations[np.asarray(actions, dtype=np.int64)]
    if learned.shape != true_rows.shape:
        raise DataError(f"rows have shape {learned.shape}, those of the truth {true_rows.shape}")
    return _matched_l1(learned, true_rows, order)


def observation_l1_all(estimate: POMDP, truth: POMDP, *, order: ArrayLike | None = None) -> float:
    """Observation error of a whole model: mean over all actions a and states s of |Z'[a,s] - Z[a,s]|_1.

    ``order`` is the matching of states; by default the one that minimizes this distance.
    """
    learned, true = _aligned(estimate, truth)
    return _matched_l1(learned.observations, true.observations, order)


def transition_l1(estimate: POMDP, truth: POMDP, *, order: ArrayLike | None = None) -> float:
    """Transition error: mean over all actions a and states s of |T'[a,s] - T[a,s]|_1.

    ``order`` is the matching of states; by default that of `match_states`.
    """
    learned, true = _aligned(estimate, truth)
    matched = match_states(estimate, truth) if order is None else np.asarray(order)
    moves = learned.transitions[:, matched][:, :, matched]
    return float(np.abs(moves - true.transitions).sum(axis=2).mean())


def three_step_transition_l1(
    estimate: PSR | POMDP, labels: ArrayLike | Partition, truth: POMDP, *, order: ArrayLike | None = None
) -> float:
    """The paper's transition error, over sequences of three actions and cells of states.

    With b the stationary belief under uniform actions and C(x) the sums of x over the cells of the truth's
    partition, the mean over all (a1, a2, a3) of

        |project(C(b' T'[a1] T'[a2] T'[a3])) - C(b T[a1] T[a2] T[a3])|_1,

    where project is onto the simplex: inside a cell a state's share need not be a probability, and noise
    may carry the sums off the simplex as well.

    Parameters
    ----------
    estimate : PSR or POMDP
        A PSR must be in state coordinates (final vector of ones); its initial vector is the stationary
        belief, as learning estimates it. Of a POMDP the stationary belief is computed.
    labels : array of int, shape (states,), or Partition
        The cell of every state of ``truth``, see `true_partition`.
    truth : POMDP
    order : array of int, shape (states,), optional
        The matching of states; by default by observation rows over all actions.
    """
    partition = labels if isinstance(labels, Partition) else Partition(np.asarray(labels))
    psr = estimate.to_psr()
    if psr.rank != truth.n_states or partition.n_states != truth.n_states:
        raise DataError(
            f"the estimate has {psr.rank} states, the partition {partition.n_states}, the truth "
            f"{truth.n_states}; the measure is defined only where they agree"
        )
    belief = estimate.stationary() if isinstance(estimate, POMDP) else psr.initial
    if order is None:
        learned, true_rows = _shown(estimate, truth)
        order = match_observation_rows(learned, true_rows)
    matched = np.asarray(order)
    moves = psr.updates.sum(axis=1)[_action_order(psr, truth)][:, matched][:, :, matched]
    reached = partition.sums(_three_steps(belief[matched], moves))
    expected = partition.sums(_three_steps(truth.stationary(), truth.transitions))
    return float(np.abs(linalg.project_to_simplex(reached) - expected).sum(axis=-1).mean())


def held_out_gap(model: PSR | POMDP, truth: PSR | POMDP, log: Trajectory) -> float:
    """Nats per step by which the truth predicts a log better: (log P(log) - log P'(log)) / steps.

    On a log that the model was not learned from this estimates the rate of relative entropy: zero only for a
    model that predicts as the truth does. Infinite if the log is impossible under the model.
    """
    if len(log) == 0:
        raise DataError("the log has no steps to compare the models on")
    return (truth.log_likelihood(log) - model.log_likelihood(log)) / len(log)


def true_partition(pomdp: POMDP) -> tuple[Ints, Partition]:
    """The actions whose transition matrices have full rank, and the observability partition under them.

    States are in one cell if their observation rows agree under every full-rank action; with no such action
    all states are. The rank is that of the exact matrix, up to rounding.
    """
    full = np.array([_has_full_rank(matrix) for matrix in pomdp.transitions])
    actions = np.flatnonzero(full)
    distances = _distances(pomdp.observations[actions], pomdp.observations[actions])
    return actions, Partition(np.argmax(distances < _SAME * pomdp.n_observations, axis=1))


def _has_full_rank(matrix: Floats) -> bool:
    values = linalg.singular_values(matrix)
    return bool(values[-1] > len(matrix) * np.finfo(float).eps * values[0])


class _Rows(NamedTuple):
    """A model's rows in alphabets shared with another model."""

    observations: Floats
    transitions: Floats


def _aligned(estimate: POMDP, truth: POMDP) -> tuple[_Rows, _Rows]:
    """Both models' rows: actions in the truth's order, symbols of the truth and then those only learned."""
    if estimate.n_states != truth.n_states:
        raise DataError(
            f"the estimate has {estimate.n_states} states, the truth {truth.n_states}; states can be matched "
            "only where the numbers agree"
        )
    if estimate.emission != truth.emission:
        raise DataError(f"the estimate emits on {estimate.emission}, the truth on {truth.emission}")
    learned, true = _shown(estimate, truth)
    moves = estimate.transitions[_action_order(estimate, truth)]
    return _Rows(learned, moves), _Rows(true, truth.transitions)


def _shown(estimate: PSR | POMDP, truth: POMDP) -> tuple[Floats, Floats]:
    """Observation rows of both over the union of their symbols, shape (actions, states, symbols)."""
    names = list(dict.fromkeys((*truth.observation_names, *estimate.observation_names)))
    rows = _observation_rows(estimate, truth.emission)[_action_order(estimate, truth)]
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
    reached = np.abs(total) > _SAME
    result: Floats = np.where(reached, arrived / np.where(reached, total, 1.0), 0.0)
    return result


def _spread(rows: Floats, names: tuple[str, ...], union: list[str]) -> Floats:
    result = np.zeros((*rows.shape[:2], len(union)))
    result[:, :, [union.index(name) for name in names]] = rows
    return result


def _action_order(estimate: PSR | POMDP, truth: POMDP) -> list[int]:
    if set(estimate.action_names) != set(truth.action_names):
        raise DataError(f"actions differ: learned {estimate.action_names}, true {truth.action_names}")
    return [estimate.action_names.index(name) for name in truth.action_names]


def _matched_l1(learned: Floats, true: Floats, order: ArrayLike | None) -> float:
    matched = match_observation_rows(learned, true) if order is None else np.asarray(order)
    return float(np.abs(learned[:, matched] - true).sum(axis=2).mean())


def _three_steps(belief: Floats, moves: Floats) -> Floats:
    """``belief T[a1] T[a2] T[a3]`` for all sequences, shape (actions, actions, actions, states)."""
    result: Floats = np.einsum("i,aij,bjk,ckl->abcl", belief, moves, moves, moves, optimize=True)
    return result


def _distances(learned: Floats, true: Floats) -> Floats:
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
        self._shown, self._learned, self._true = shown, learned, true

    def cost(self, order: Ints) -> float:
        moves = self._learned[:, order][:, :, order]
        return float(self._shown[order, np.arange(len(order))].sum() + np.abs(moves - self._true).sum())

    def improved(self, order: Ints) -> Ints:
        """Reassign or swap as long as the cost falls; a finite set of orders, so this ends."""
        while True:
            better = min((self._reassigned(order), *self._swaps(order)), key=self.cost)
            if self.cost(better) >= self.cost(order):
                return order
            order = better

    def _reassigned(self, order: Ints) -> Ints:
        """The best assignment if every state's neighbors were already matched rightly."""
        leaving = _distances(self._learned[:, :, order], self._true)
        arriving = _distances(self._learned[:, order].transpose(0, 2, 1), self._true.transpose(0, 2, 1))
        return _assignment(self._shown + leaving + arriving)

    def _swaps(self, order: Ints) -> list[Ints]:
        swapped = []
        for i, j in combinations(range(len(order)), 2):
            other = order.copy()
            other[[i, j]] = order[[j, i]]
            swapped.append(other)
        return swapped
