"""Stage 6: read the POMDP off, and put every row on the probability simplex."""

from __future__ import annotations

import numpy as np

from unlatch import linalg
from unlatch.arrays import Flags, Floats
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.partition import Partition
from unlatch.core.pomdp import POMDP, Emission
from unlatch.core.psr import PSR
from unlatch.errors import DataError, NumericalError
from unlatch.learn.significance import HETEROGENEOUS_SIGMAS, ROUNDING, jackknife_variance
from unlatch.learn.spectral.similarity import SimilarityTransform

__all__ = ["read_off", "recover_pomdp"]

MAX_MOVED = 20.0
"""L1 distance to the simplex beyond which a row is not a noisy distribution but a failed computation."""


def recover_pomdp(psr: PSR, similarity: SimilarityTransform) -> POMDP:
    """The explicit model: rows of every state, projected onto the simplex in L2.

    How much the projection moved is told by `read_off`, and by `learn_pomdp` in its diagnostics.

    Examples
    --------
    >>> import unlatch
    >>> hankel = unlatch.exact_hankel(unlatch.domains.tiger(), history_length=2, test_length=1)
    >>> psr = unlatch.fit_psr(hankel, unlatch.factorize(hankel))
    >>> pomdp = unlatch.recover_pomdp(psr, unlatch.find_similarity(psr, rng=0))
    >>> pomdp.observations[0].round(2)  # of listening
    array([[0.85, 0.15, 0.  , 0.  , 0.  , 0.  ],
           [0.15, 0.85, 0.  , 0.  , 0.  , 0.  ]])
    """
    return read_off(psr, similarity)[0]


def read_off(psr: PSR, similarity: SimilarityTransform) -> tuple[POMDP, Diagnostics]:
    """The model of `recover_pomdp` and the report of what had to be repaired."""
    if similarity.matrix.shape[0] != psr.rank:
        raise DataError(f"this similarity is of rank {similarity.matrix.shape[0]}, the PSR of {psr.rank}")
    states = psr.transformed(similarity.matrix)
    transitions = states.updates.sum(axis=1)
    shown, undetermined = _shown(states, similarity.emission)
    _read_full_rank_actions(states, similarity, shown, undetermined)
    notes = Diagnostics()
    _refuse_meaningless(transitions, similarity.partition, _tried(psr))
    rows, notes = _projected("transitions", transitions, notes, _tried(psr))
    shown, notes = _projected("observations", shown, notes, _tried(psr))
    initial, notes = _projected("initial", states.initial, notes)
    pomdp = POMDP(
        transitions=rows,
        observations=shown,
        initial=initial,
        emission=similarity.emission,
        action_names=psr.action_names,
        observation_names=psr.observation_names,
        symbol_rewards=psr.symbol_rewards,
    )
    return pomdp, notes + _undetermined_notes(undetermined)


def _tried(psr: PSR) -> Flags:
    """Actions that occur in the log at all; the matrices of the others are zero."""
    tried: Flags = np.abs(psr.updates).max(axis=(1, 2, 3)) > 0
    return tried


def _read_full_rank_actions(
    states: PSR,
    similarity: SimilarityTransform,
    shown: Floats,
    undetermined: Flags,
) -> None:
    """Fill in the rows of full-rank actions, which are equal within a cell, by the less noisy reading.

    Eigenvalues are better where an action's matrix is easy to invert; row sums pooled over the cell where
    it is not, above all if the action is full-rank only by the grace of noise. Where the row sums of a
    cell's states differ beyond their noise the cell is too coarse, and they are left as they are.
    """
    pooled = _pooled(states, similarity)
    variance = _variance([_pooled(replicate, similarity) for replicate in states.replicates], pooled)
    distinct = _differ_within_cells(states, similarity, shown, pooled)
    for index, action in enumerate(similarity.full_rank_actions):
        if distinct[index]:
            continue
        by_eigenvalues = similarity.diagonal_variances[index].sum() <= variance[index].sum()
        shown[action] = similarity.diagonals[index] if by_eigenvalues else pooled[index]
        undetermined[action] = False


def _differ_within_cells(
    states: PSR, similarity: SimilarityTransform, shown: Floats, pooled: Floats
) -> Flags:
    """Full-rank actions under which some state's row leaves its cell's by more than noise."""
    actions = list(similarity.full_rank_actions)
    away = shown[actions] - pooled
    replicates = [
        _shown(r, similarity.emission)[0][actions] - _pooled(r, similarity) for r in states.replicates
    ]
    limit = HETEROGENEOUS_SIGMAS * np.sqrt(_variance(replicates, away)) + ROUNDING
    beyond: Flags = np.abs(away) > limit
    result: Flags = np.asarray(beyond.any(axis=(1, 2)))
    return result


def _variance(replicates: list[Floats], like: Floats) -> Floats:
    result: Floats = np.broadcast_to(jackknife_variance(replicates), like.shape)
    return result


def _pooled(states: PSR, similarity: SimilarityTransform) -> Floats:
    """``P(o | cell, a)`` of every state's cell under the full-rank actions, from the stationary belief."""
    updates = states.updates[list(similarity.full_rank_actions)]
    if similarity.emission == "departure":
        joint = states.initial * updates.sum(axis=3)
    else:
        joint = np.einsum("i,aoij->aoj", states.initial, updates)
    in_cell = similarity.partition.sums(joint)[:, :, similarity.partition.labels]
    result: Floats = (in_cell / in_cell.sum(axis=1, keepdims=True)).transpose(0, 2, 1)
    return result


def _shown(states: PSR, emission: Emission) -> tuple[Floats, Flags]:
    """Observation rows (actions, states, observations) off the updates, and which of them mean nothing."""
    if emission == "arrival":
        return _shown_on_arrival(states)
    shown = states.updates.sum(axis=3).transpose(0, 2, 1)
    return shown.copy(), np.zeros(shown.shape[:2], dtype=bool)


def _shown_on_arrival(states: PSR) -> tuple[Floats, Flags]:
    """Rows ``(b G[a,o])_j / (b T[a])_j`` of the state arrived in, weighted by the stationary belief.

    A state that an action never leads to shows nothing under it: such rows carry no information and
    take the action's overall distribution.
    """
    reached = np.einsum("i,aoij->aoj", states.initial, states.updates)
    mass = reached.sum(axis=1)
    overall = reached.sum(axis=2)
    unreached = mass <= 1e-9
    shown = reached.transpose(0, 2, 1) / np.where(unreached, 1.0, mass)[:, :, None]
    return np.where(unreached[:, :, None], overall[:, None, :], shown), unreached


def _refuse_meaningless(transitions: Floats, partition: Partition, tried: Flags) -> None:
    """Where a state stands alone, its transitions summed over cells must at least resemble probabilities.

    Inside a cell the basis is free, and single rows may lie anywhere.
    """
    alone = np.array([len(partition.cells[label]) == 1 for label in partition.labels])
    sums = partition.sums(transitions)
    moved = np.abs(linalg.project_to_simplex(sums) - sums).sum(axis=-1)
    moved = np.where(tried[:, None] & alone, moved, 0.0)
    worst = float(moved.max())
    if worst > MAX_MOVED:
        place = tuple(int(i) for i in np.argwhere(moved == worst)[0])
        raise NumericalError(
            f"transitions {list(place)} lies {worst:.2g} (L1) from any probability distribution: the log is too "
            "short for this rank, or histories and tests are too short to tell all states apart. Log more steps, "
            "choose a lower rank, or longer tests"
        )


def _projected(
    field: str,
    rows: Floats,
    notes: Diagnostics,
    tried: Flags | None = None,
) -> tuple[Floats, Diagnostics]:
    projected = linalg.project_to_simplex(rows)
    moved = np.abs(projected - rows).sum(axis=-1)
    if tried is not None:
        moved = np.where(tried[:, None], moved, 0.0)
    worst = float(moved.max())
    if worst > 1e-9:
        notes = notes.noting(
            f"projected_{field}",
            f"rows of {field} were moved onto the simplex by up to {worst:.2g} (L1), {moved.mean():.2g} on average",
            largest=worst,
            mean=float(moved.mean()),
        )
    return projected, notes


def _undetermined_notes(undetermined: Flags) -> Diagnostics:
    notes = Diagnostics()
    if undetermined.any():
        notes = notes.noting(
            "undetermined_rows",
            f"{int(undetermined.sum())} observation rows belong to states that the action never leads to; "
            "they are filled with the action's overall distribution and carry no information",
            rows=[[int(a), int(s)] for a, s in np.argwhere(undetermined)],
        )
    return notes
