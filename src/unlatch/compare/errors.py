"""How far a learned model is from the true one: the paper's measures, and stricter ones.

Hidden states have no names, so every measure first matches learned states to true ones. Actions and symbols
are matched by name: a learned alphabet may be ordered differently, or lack symbols that never occurred.

In the formulas T[a,s] and Z[a,s] are the true transition and observation rows, T'[a,s] and Z'[a,s] the learned
ones after matching, and |x|_1 is the sum of absolute values.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from unlatch import linalg
from unlatch.arrays import Floats, Ints, own_errstate
from unlatch.compare.match_states import (
    SAME,
    action_order,
    aligned_rows,
    match_observation_rows,
    match_states,
    row_distances,
    shown_rows,
)
from unlatch.core.checks import finite_floats
from unlatch.core.partition import Partition
from unlatch.core.pomdp import POMDP
from unlatch.core.psr import PSR
from unlatch.core.trajectory import Trajectory
from unlatch.errors import DataError

__all__ = [
    "held_out_gap",
    "observation_l1",
    "observation_l1_all",
    "three_step_transition_l1",
    "transition_l1",
    "true_partition",
]


@own_errstate
def observation_l1(
    rows: ArrayLike, actions: ArrayLike, truth: POMDP, *, order: ArrayLike | None = None
) -> float:
    """The paper's observation error: mean over full-rank actions a and states s of ``|Z'[a,s] - Z[a,s]|_1``.

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

    Examples
    --------
    >>> import unlatch
    >>> tiger = unlatch.domains.tiger()
    >>> unlatch.observation_l1(tiger.observations[:1], [0], tiger)  # of the first action's true rows
    0.0
    """
    learned = finite_floats("rows", rows, ndim=3)
    true_rows = truth.observations[np.asarray(actions, dtype=np.int64)]
    if learned.shape != true_rows.shape:
        raise DataError(f"rows have shape {learned.shape}, those of the truth {true_rows.shape}")
    return _matched_l1(learned, true_rows, order)


@own_errstate
def observation_l1_all(estimate: POMDP, truth: POMDP, *, order: ArrayLike | None = None) -> float:
    """Observation error of a whole model: mean over all actions a and states s of ``|Z'[a,s] - Z[a,s]|_1``.

    ``order`` (states,) is the matching of states; by default the one that minimizes this distance.

    Examples
    --------
    >>> import unlatch
    >>> tiger = unlatch.domains.tiger()
    >>> learned = unlatch.refine(tiger, unlatch.simulate(tiger, 20_000, rng=0)).pomdp
    >>> round(unlatch.observation_l1_all(learned, tiger), 3)
    0.022
    """
    learned, true = aligned_rows(estimate, truth)
    return _matched_l1(learned.observations, true.observations, order)


@own_errstate
def transition_l1(estimate: POMDP, truth: POMDP, *, order: ArrayLike | None = None) -> float:
    """Transition error: mean over all actions a and states s of ``|T'[a,s] - T[a,s]|_1``.

    ``order`` (states,) is the matching of states; by default that of `match_states`.

    Examples
    --------
    >>> import unlatch
    >>> tiger = unlatch.domains.tiger()
    >>> learned = unlatch.refine(tiger, unlatch.simulate(tiger, 20_000, rng=0)).pomdp
    >>> round(unlatch.transition_l1(learned, tiger), 3)
    0.008
    """
    learned, true = aligned_rows(estimate, truth)
    matched = match_states(estimate, truth) if order is None else np.asarray(order)
    moves = learned.transitions[:, matched][:, :, matched]
    return float(np.abs(moves - true.transitions).sum(axis=2).mean())


@own_errstate
def three_step_transition_l1(
    estimate: PSR | POMDP, labels: ArrayLike | Partition, truth: POMDP, *, order: ArrayLike | None = None
) -> float:
    """The paper's transition error, over sequences of three actions and cells of states.

    With b the stationary belief under uniform actions and C(x) the sums of x over the cells of the truth's
    partition, the mean over all (a1, a2, a3) of

        ``|project(C(b' T'[a1] T'[a2] T'[a3])) - C(b T[a1] T[a2] T[a3])|_1``,

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

    Examples
    --------
    >>> import unlatch
    >>> tiger = unlatch.domains.tiger()
    >>> _, partition = unlatch.true_partition(tiger)
    >>> round(unlatch.three_step_transition_l1(tiger, partition, tiger), 12)
    0.0
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
        learned, true_rows = shown_rows(estimate, truth)
        order = match_observation_rows(learned, true_rows)
    matched = np.asarray(order)
    moves = psr.updates.sum(axis=1)[action_order(psr, truth)][:, matched][:, :, matched]
    reached = partition.sums(_three_steps(belief[matched], moves))
    expected = partition.sums(_three_steps(truth.stationary(), truth.transitions))
    return float(np.abs(linalg.project_to_simplex(reached) - expected).sum(axis=-1).mean())


@own_errstate
def held_out_gap(model: PSR | POMDP, truth: PSR | POMDP, log: Trajectory) -> float:
    """Nats per step by which the truth predicts a log better: (log P(log) - log P'(log)) / steps.

    On a log that the model was not learned from this estimates the rate of relative entropy: zero only for a
    model that predicts as the truth does. Infinite if the log is impossible under the model.

    Examples
    --------
    >>> import unlatch
    >>> tiger = unlatch.domains.tiger()
    >>> learned = unlatch.refine(tiger, unlatch.simulate(tiger, 2_000, rng=0)).pomdp
    >>> round(unlatch.held_out_gap(learned, tiger, unlatch.simulate(tiger, 20_000, rng=1)), 3)
    0.004
    """
    if len(log) == 0:
        raise DataError("the log has no steps to compare the models on")
    return (truth.log_likelihood(log) - model.log_likelihood(log)) / len(log)


@own_errstate
def true_partition(pomdp: POMDP) -> tuple[Ints, Partition]:
    """The actions whose transition matrices have full rank, and the observability partition under them.

    States are in one cell if their observation rows agree under every full-rank action; with no such action
    all states are. The rank is that of the exact matrix, up to rounding.

    Examples
    --------
    >>> import unlatch
    >>> actions, partition = unlatch.true_partition(unlatch.domains.tmaze())
    >>> actions, partition  # two actions have full rank; two states show the same under them
    (array([0, 1]), Partition({0}, {1, 3}, {2}))
    """
    full = np.array([_has_full_rank(matrix) for matrix in pomdp.transitions])
    actions = np.flatnonzero(full)
    distances = row_distances(pomdp.observations[actions], pomdp.observations[actions])
    return actions, Partition(np.argmax(distances < SAME * pomdp.n_observations, axis=1))


def _has_full_rank(matrix: Floats) -> bool:
    values = linalg.singular_values(matrix)
    return bool(values[-1] > len(matrix) * np.finfo(float).eps * values[0])


def _matched_l1(learned: Floats, true: Floats, order: ArrayLike | None) -> float:
    matched = match_observation_rows(learned, true) if order is None else np.asarray(order)
    return float(np.abs(learned[:, matched] - true).sum(axis=2).mean())


def _three_steps(belief: Floats, moves: Floats) -> Floats:
    """``belief T[a1] T[a2] T[a3]`` for all sequences, shape (actions, actions, actions, states)."""
    result: Floats = np.einsum("i,aij,bjk,ckl->abcl", belief, moves, moves, moves, optimize=True)
    return result
