"""A learned model that is certain only up to cells of states."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unlatch.core.partition import Partition
from unlatch.core.psr import PSR
from unlatch.errors import DataError

__all__ = ["PartitionModel"]


@dataclass(frozen=True, eq=False)
class PartitionModel:
    """A PSR in state coordinates with its observability partition (the paper's Theorem 1).

    The final vector is one. Single coordinates need not be probabilities, but their sums over a cell are:
    ``partition.sums(psr.belief(log))`` is the distribution over cells.
    """

    psr: PSR
    partition: Partition

    def __post_init__(self) -> None:
        if self.partition.n_states != self.psr.rank:
            raise DataError(f"the partition has {self.partition.n_states} states, the PSR {self.psr.rank}")
        if np.abs(self.psr.final - 1).max() > 1e-6:
            raise DataError("the PSR of a partition model must be in state coordinates: final vector of ones")
