"""Which numbers of a learned model a log determines, and which are one choice among many."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlatch.arrays import Flags, Floats
from unlatch.core.partition import Partition
from unlatch.core.pomdp import POMDP

__all__ = ["NOTICEABLE", "Undetermined", "undetermined_entries"]

NOTICEABLE = 0.02
"""How far an entry must be free to move to be called undetermined: in a learned model noise moves them all."""


class Undetermined(NamedTuple):
    """True where an entry changes under some change of basis that the log cannot see.

    ``transitions`` (actions, states, states), ``observations`` (actions, states, observations), ``initial`` (states,).

    Examples
    --------
    >>> import unlatch
    >>> line = unlatch.domains.sense_float_reset(4)
    >>> _, partition = unlatch.true_partition(line)
    >>> open_entries = unlatch.undetermined_entries(line, partition)
    >>> open_entries.transitions.shape, int(open_entries.transitions.sum())
    ((3, 4, 4), 8)
    """

    transitions: Flags
    observations: Flags
    initial: Flags

    @property
    def any(self) -> bool:
        return bool(self.transitions.any() or self.observations.any() or self.initial.any())


def undetermined_entries(pomdp: POMDP, partition: Partition, *, tolerance: float = 1e-6) -> Undetermined:
    """Entries of the model that the observability partition leaves open.

    All models with the same Hankel matrix and cells are ``Q^-1 G Q`` with Q block-diagonal and rows
    summing to one. An entry is determined if no infinitesimal such change moves it. Zeros of the true model
    can determine more, as a change that makes a probability negative is not allowed; that is not looked
    at here.

    Examples
    --------
    >>> import unlatch
    >>> line = unlatch.domains.sense_float_reset(4)
    >>> _, partition = unlatch.true_partition(line)
    >>> partition
    Partition({0}, {1}, {2, 3})
    >>> bool(unlatch.undetermined_entries(line, partition).observations.any())
    False
    """
    transitions = np.zeros(pomdp.transitions.shape, dtype=bool)
    observations = np.zeros(pomdp.observations.shape, dtype=bool)
    initial = np.zeros(pomdp.n_states, dtype=bool)
    shown = pomdp.updates.sum(axis=3)  # (actions, observations, states): departure read-out
    for change in _changes(partition):
        moved = pomdp.transitions @ change - change @ pomdp.transitions
        transitions |= np.abs(moved) > tolerance
        if pomdp.emission == "departure":
            moved_rows = (shown @ change.T).transpose(0, 2, 1)
        else:
            moved_rows = _moved_on_arrival(pomdp, change)
        observations |= np.abs(moved_rows) > tolerance
        initial |= np.abs(pomdp.initial @ change) > tolerance
    return Undetermined(transitions, observations, initial)


def _changes(partition: Partition) -> list[Floats]:
    """Generators of the changes of basis inside cells: rows sum to zero."""
    changes = []
    for cell in partition.cells:
        for i in cell:
            for j in cell:
                if i != j:
                    change = np.zeros((partition.n_states, partition.n_states))
                    change[i, j], change[i, i] = 1.0, -1.0
                    changes.append(change)
    return changes


def _moved_on_arrival(pomdp: POMDP, change: Floats) -> Floats:
    """First-order change of the rows read off on arrival, ``(b G[a,o])_j / (b T[a])_j``."""
    belief = pomdp.stationary()
    joint = np.einsum("i,aoij->aoj", belief, pomdp.updates)
    mass = joint.sum(axis=1, keepdims=True)
    moved = joint @ change
    rate = moved - joint * moved.sum(axis=1, keepdims=True) / np.where(mass > 0, mass, 1.0)
    result: Floats = (rate / np.where(mass > 0, mass, 1.0)).transpose(0, 2, 1)
    return result
