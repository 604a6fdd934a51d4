"""Which actions have full rank, and which states show the same under them: one rule for all learners.

An action of full rank loses nothing about the state that was left, so what follows it can be traced back. States whose
observation rows agree under all such actions form a cell of the observability partition (the paper's Section IV).
"""

from __future__ import annotations

import numpy as np

from unlatch import linalg
from unlatch.arrays import Flags, Floats
from unlatch.core.partition import Partition
from unlatch.core.pomdp import POMDP
from unlatch.learn.significance import DISTINCT_ROWS_SIGMAS, EXACT, FULL_RANK_SIGMAS, ROUNDING

__all__ = ["cells_of", "full_rank_actions", "full_rank_threshold", "same_rows"]


def full_rank_threshold(standard_error: float) -> float:
    """What the smallest singular value of a matrix must exceed, given what noise makes of a zero."""
    return FULL_RANK_SIGMAS * standard_error + EXACT


def same_rows(rows: Floats, deviations: Floats | None = None, *, tolerance: float | None = None) -> Partition:
    """Cells of states whose rows agree under every action, closed under transitivity.

    Parameters
    ----------
    rows : array, shape (actions, states, observations)
        With no action at all every state is like every other.
    deviations : array, shape (actions, states, states, observations), optional
        Standard deviation of the difference of every two rows; none if the rows are exact.
    tolerance : float, optional
        L1 distance up to which rows agree, instead of a multiple of the deviations.
    """
    from scipy.sparse.csgraph import connected_components

    distance = np.abs(rows[:, :, None] - rows[:, None]).sum(axis=3)
    limit = ROUNDING if deviations is None else DISTINCT_ROWS_SIGMAS * deviations.sum(axis=3) + ROUNDING
    together = (distance <= (limit if tolerance is None else tolerance)).all(axis=0)
    return Partition(connected_components(together, directed=False)[1].astype(np.int64))


def full_rank_actions(
    pomdp: POMDP, visits: Floats | None = None, *, min_singular_value: float | None = None
) -> tuple[int, ...]:
    """Actions whose transition matrix is known to have full rank.

    Parameters
    ----------
    pomdp : POMDP
    visits : array, shape (actions, states), optional
        How often the log left every state by every action; an exact model without.
    min_singular_value : float, optional
        What the smallest singular value must exceed, instead of a multiple of its standard error.
    """
    tried: Flags = np.ones(pomdp.n_actions, dtype=bool) if visits is None else visits.sum(axis=1) > 0
    found = []
    for action in np.flatnonzero(tried):
        matrix = pomdp.transitions[action]
        u, s, v = linalg.svd(matrix)
        error = 0.0 if visits is None else _standard_error(matrix, visits[action], u[:, -1], v[:, -1])
        threshold = full_rank_threshold(error) if min_singular_value is None else min_singular_value
        if s[-1] > threshold:
            found.append(int(action))
    return tuple(found)


def _standard_error(matrix: Floats, visits: Floats, left: Floats, right: Floats) -> float:
    """Of the smallest singular value, by its first-order change ``left @ noise @ right``; rows are multinomial."""
    spread = matrix @ right**2 - (matrix @ right) ** 2
    variance = float((left**2 * spread / np.maximum(visits, 1.0)).sum())
    return float(np.sqrt(max(variance, 0.0)))


def cells_of(
    pomdp: POMDP, actions: tuple[int, ...], visits: Floats | None = None, *, tolerance: float | None = None
) -> Partition:
    """The observability partition under the given full-rank actions.

    ``visits`` (actions, states) says how often every row was seen; without, the model is exact. A state in which
    nothing more happens is known by that, and has a cell of its own.
    """
    chosen = list(actions)
    live = pomdp.going_on > 0
    rows = pomdp.observations[chosen][:, live]
    if visits is None:
        cells = same_rows(rows, tolerance=tolerance)
    else:
        deviation = np.sqrt(rows * (1 - rows) / np.maximum(visits[chosen][:, live], 1.0)[:, :, None])
        cells = same_rows(rows, np.hypot(deviation[:, :, None], deviation[:, None]), tolerance=tolerance)
    labels = np.empty(pomdp.n_states, dtype=np.int64)
    labels[live] = cells.labels
    labels[~live] = cells.n_cells + np.arange(len(pomdp.terminal))
    return Partition(labels)
