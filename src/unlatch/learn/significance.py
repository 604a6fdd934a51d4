"""Noise of estimates, told from delete-one replicates (the block jackknife)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unlatch.arrays import Floats

__all__ = ["jackknife_variance"]


def jackknife_variance(replicates: Sequence[Floats]) -> Floats:
    """Entrywise variance of the estimate from the whole log, given its delete-one replicates.

    Zero when there are none: the estimate is exact.
    """
    if len(replicates) == 0:
        return np.zeros(())
    stacked = np.asarray(replicates)
    count = len(stacked)
    scatter: Floats = ((stacked - stacked.mean(axis=0)) ** 2).sum(axis=0) * (count - 1) / count
    return scatter
