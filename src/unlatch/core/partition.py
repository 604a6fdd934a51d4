"""Which hidden states a log cannot tell apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from unlatch.arrays import Floats, Ints, own_errstate
from unlatch.core import html
from unlatch.core.checks import frozen
from unlatch.errors import DataError

__all__ = ["Partition"]


@dataclass(frozen=True, eq=False)
class Partition:
    """The observability partition: states in one cell share their observation rows under every
    full-rank action.

    ``labels`` has shape (states,): ``labels[s]`` is the cell of state ``s``. Cells are numbered in the order of their
    first state.

    Examples
    --------
    >>> import unlatch
    >>> partition = unlatch.Partition.from_cells([[0, 2], [1]])
    >>> partition
    Partition({0, 2}, {1})
    >>> partition.labels, partition.is_trivial
    (array([0, 1, 0]), False)
    """

    labels: Ints

    def __post_init__(self) -> None:
        labels = np.asarray(self.labels)
        if labels.ndim != 1 or labels.dtype.kind not in "iu" or labels.size == 0:
            raise DataError("labels: expected one cell number per state", field="labels")
        _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
        renumbered = np.argsort(np.argsort(first))[inverse]
        object.__setattr__(self, "labels", frozen(renumbered.astype(np.int64)))

    @classmethod
    def singletons(cls, states: int) -> Partition:
        """Every state alone: nothing is confounded."""
        return cls(np.arange(states))

    @classmethod
    def from_cells(cls, cells: Sequence[Sequence[int]]) -> Partition:
        """From lists of states that together name every state once."""
        members = [s for cell in cells for s in cell]
        if sorted(members) != list(range(len(members))) or not members:
            raise DataError(f"cells must hold every state from 0 exactly once, got {cells}", field="cells")
        labels = np.empty(len(members), dtype=np.int64)
        for number, cell in enumerate(cells):
            labels[list(cell)] = number
        return cls(labels)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Partition):
            return NotImplemented
        return np.array_equal(self.labels, other.labels)

    def __hash__(self) -> int:
        return hash(self.labels.tobytes())

    def __repr__(self) -> str:
        return "Partition(" + ", ".join("{" + ", ".join(map(str, cell)) + "}" for cell in self.cells) + ")"

    def _repr_html_(self) -> str:
        """For notebooks: the states of every cell."""
        rows = ((c, html.cut_list([str(s) for s in cell])) for c, cell in enumerate(self.cells))
        title = f"Partition of {self.n_states} states into {self.n_cells} cells"
        return html.page(title, html.table(rows, ["cell", "states"]))

    @cached_property
    def cells(self) -> tuple[tuple[int, ...], ...]:
        """The states of every cell."""
        return tuple(
            tuple(int(s) for s in np.flatnonzero(self.labels == c)) for c in range(int(self.labels.max()) + 1)
        )

    @property
    def n_states(self) -> int:
        return len(self.labels)

    @property
    def n_cells(self) -> int:
        return len(self.cells)

    @property
    def is_trivial(self) -> bool:
        """True if every state stands alone."""
        return self.n_cells == self.n_states

    def relabel(self, order: ArrayLike) -> Partition:
        """The partition after states were reordered: new state ``i`` is old state ``order[i]``."""
        index = np.asarray(order)
        if index.dtype.kind not in "iu" or sorted(index.tolist()) != list(range(self.n_states)):
            raise DataError(
                f"order must be a permutation of the {self.n_states} states, got {index.tolist()}",
                field="order",
            )
        return Partition(self.labels[index])

    @own_errstate
    def sums(self, vectors: Floats) -> Floats:
        """Sum the last axis over cells: (..., states) to (..., cells)."""
        indicator = np.eye(self.n_cells)[self.labels]
        result: Floats = np.asarray(vectors) @ indicator
        return result
