"""A learned model whose states are known only up to the cells of a partition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from unlatch.arrays import Floats, own_errstate
from unlatch.core import html
from unlatch.core.checks import finite_floats
from unlatch.core.partition import Partition
from unlatch.core.psr import PSR
from unlatch.errors import DataError

__all__ = ["PartitionModel"]

_FINAL_TOLERANCE = 1e-6
"""How far an entry of the final vector may be from one before the coordinates are no states."""


@dataclass(frozen=True, eq=False)
class PartitionModel:
    """A PSR in state coordinates together with the observability partition of those states.

    Inside a cell the coordinates are known only up to a similarity, so a single one may be negative and
    means nothing by itself; sums over a cell are probabilities (the paper's Theorem 1).

    Parameters
    ----------
    psr : PSR
        With a final vector of ones.
    partition : Partition
        One label per coordinate of ``psr``.

    Examples
    --------
    >>> import unlatch
    >>> truth = unlatch.domains.tmaze()
    >>> _, partition = unlatch.true_partition(truth)
    >>> model = unlatch.PartitionModel(truth.to_psr(), partition)
    >>> model.partition
    Partition({0}, {1, 3}, {2})
    """

    psr: PSR
    partition: Partition

    @own_errstate
    def __post_init__(self) -> None:
        if self.partition.n_states != self.psr.rank:
            raise DataError(
                f"the partition has {self.partition.n_states} states, the PSR {self.psr.rank} coordinates",
                field="partition",
            )
        off = float(np.abs(self.psr.final - 1).max())
        if off > _FINAL_TOLERANCE:
            raise DataError(
                f"final is off one by up to {off:.1e}: the PSR is not in state coordinates; transform it by "
                "the learned similarity first",
                field="psr",
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PartitionModel):
            return NotImplemented
        return self.psr == other.psr and self.partition == other.partition

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"PartitionModel({self.n_states} states in {self.partition.n_cells} cells, {self.n_actions} "
            f"actions, {self.n_observations} observations)"
        )

    def _repr_html_(self) -> str:
        """For notebooks: the cells, and the probability of each at the start."""
        chances = self.cell_probabilities(self.initial)
        rows = (
            (c, html.cut_list([str(s) for s in cell]), f"{chances[c]:.3g}")
            for c, cell in enumerate(self.partition.cells)
        )
        return html.page(repr(self), html.table(rows, ["cell", "states", "at the start"]))

    @property
    def initial(self) -> Floats:
        return self.psr.initial

    @property
    def n_states(self) -> int:
        return self.psr.rank

    @property
    def n_actions(self) -> int:
        return self.psr.n_actions

    @property
    def n_observations(self) -> int:
        return self.psr.n_observations

    @property
    def action_names(self) -> tuple[str, ...]:
        return self.psr.action_names

    @property
    def observation_names(self) -> tuple[str, ...]:
        return self.psr.observation_names

    @property
    def symbol_rewards(self) -> Floats | None:
        return self.psr.symbol_rewards

    def to_psr(self) -> PSR:
        """The triple, without the partition."""
        return self.psr

    @own_errstate
    def cell_probabilities(self, belief: ArrayLike) -> Floats:
        """Probability of every cell under a (quasi-)belief, projected onto the simplex; shape (cells,)."""
        from unlatch import linalg

        weights = finite_floats("belief", belief, ndim=1)
        if weights.shape != self.initial.shape:
            raise DataError(f"belief: {weights.shape[0]} entries for {self.n_states} states", field="belief")
        return linalg.project_to_simplex(self.partition.sums(weights * self.psr.final))
