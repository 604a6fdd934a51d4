"""Which numbers no log determines, and the set that each of them is only known to lie in.

The one place that knows how an `Identification` says so.
"""

from __future__ import annotations

import numpy as np

from unlatch.arrays import Flags, Floats
from unlatch.core.identification import Identification
from unlatch.core.intervals import KINDS, Rows
from unlatch.core.pomdp import POMDP

__all__ = ["open_sets"]

_MOVES = 1e-9
"""First derivative, the largest being one, and width of a range from which on a number moves."""

_PROVED = ("identified", "identified up to relabeling")
"""What is said of a row whose numbers are determined, also where those of others are not."""


def open_sets(pomdp: POMDP, found: Identification | None) -> tuple[Rows | None, bool | Rows]:
    """The sets, not a number where there is none; and of the other numbers whether they are proved to be determined:
    all or none of them, or for each.

    An identification that refuses names one way to move. The ranges that it attained are inner bounds, and the truth
    may lie beyond them; so the set is all of [0, 1], for every row of a state that moves and for every number that
    moves with it or has a range, unless the row is proved to be determined all the same; what another way would move is
    not known.
    """
    if found is None or found.direction is None:
        return None, found is not None and found.identified
    states, direction = list(found.moving_states), found.direction
    sets = {}
    proved = {
        kind: np.zeros(np.shape(rows), dtype=bool)
        for kind in KINDS
        if (rows := getattr(pomdp, kind)) is not None
    }
    for kind, words in (("transitions", found.transition_rows), ("observations", found.observation_rows)):
        proved[kind] |= np.isin(words, _PROVED)[..., None]
    for kind in ("initial", "transitions", "observations"):
        ranges = getattr(found, kind)
        moves = (np.abs(getattr(direction, kind)) > _MOVES) | (ranges[..., 1] - ranges[..., 0] > _MOVES)
        if kind == "initial":
            moves[states] = True
        else:
            moves[:, states] = True
        sets[kind] = _whole(moves & ~proved[kind])
    others = {
        "first_observations": pomdp.first_observations,
        "reward_probabilities": pomdp.reward_probabilities,
    }
    for kind, rows in others.items():
        if rows is not None:
            moves = np.zeros(rows.shape, dtype=bool)
            moves[..., states, :] = True
            sets[kind] = _whole(moves)
    return Rows(**sets), Rows(**proved)


def _whole(moves: Flags) -> Floats:
    bounds = np.full((*moves.shape, 2), np.nan)
    bounds[moves] = 0.0, 1.0
    return bounds
