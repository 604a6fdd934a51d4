"""A canonical order of hidden states, so that equal models print equally."""

from __future__ import annotations

import numpy as np

from unlatch.arrays import Floats, Ints
from unlatch.core.psr import PSR

__all__ = ["canonical_order"]


def canonical_order(model: PSR) -> Ints:
    """Permutation that sorts the states of a triple in state coordinates.

    States that are visited more come first; then those that show the first symbols of the first actions
    more; then those that lead to such states. All three enter one smooth number per state (the
    initial vector plus geometric weights over actions, symbols and time), because sorting by one after the
    other would let noise in the first shuffle states that the second tells apart clearly.
    """
    shown = model.updates @ model.final  # (actions, observations, states)
    weights = _geometric(model.n_actions, 0.7)[:, None] * _geometric(model.n_observations, 0.6)
    ahead = np.einsum("ao,aos->s", weights, shown)
    moves = np.einsum("a,aoij->ij", _geometric(model.n_actions, 0.6), model.updates)
    key = model.initial.copy()
    for power in range(model.rank + 1):
        key += 0.5**power * ahead
        ahead = moves @ ahead
    return np.argsort(-np.round(key, 9), kind="stable")


def _geometric(size: int, ratio: float) -> Floats:
    weights = ratio ** np.arange(size)
    normalized: Floats = weights / weights.sum()
    return normalized
