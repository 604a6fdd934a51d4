"""Which numbers no log determines, and the set that each of them is only known to lie in.

The one place that knows how an `Identification` says so.
"""

from __future__ import annotations

import numpy as np

from unlatch.arrays import Flags, Floats
from unlatch.core.identification import Identification
from unlatch.core.intervals import Rows
from unlatch.core.pomdp import POMDP

__all__ = ["open_sets"]

_MOVES = 1e-9
"""First derivative, the largest being one, from which on a number moves."""


def open_sets(pomdp: POMDP, found: Identification | None) -> tuple[Rows | None, bool]:
    """The sets, not a number where there is none; and whether all other numbers are proved to be determined.

    An identification that refuses names one way to move. The ranges that it attained are inner bounds, and the truth
    may lie beyond them; so the set is all of [0, 1], for every row of a state that moves and for every number that
    moves with it; and what another way would move is not known.
    """
    if found is None or found.direction is None:
        return None, found is not None and found.identified
    states, direction = list(found.moving_states), found.direction
    sets = {}
    for kind in ("initial", "transitions", "observations"):
        moves = np.abs(getattr(direction, kind)) > _MOVES
        if kind == "initial":
            moves[states] = True
        else:
            moves[:, states] = True
        sets[kind] = _whole(moves)
    others = {
        "first_observations": pomdp.first_observations,
        "reward_probabilities": pomdp.reward_probabilities,
    }
    for kind, rows in others.items():
        if rows is not None:
            moves = np.zeros(rows.shape, dtype=bool)
            moves[..., states, :] = True
            sets[kind] = _whole(moves)
    return Rows(**sets), False


def _whole(moves: Flags) -> Floats:
    bounds = np.full((*moves.shape, 2), np.nan)
    bounds[moves] = 0.0, 1.0
    return bounds
