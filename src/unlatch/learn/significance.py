"""What counts as more than noise, and as used at all: every such number once, with its reason.

Noise is told from delete-one replicates (the block jackknife) in the spectral stages, from expected visits in models
that were fitted by likelihood. A multiple of a standard error is small where missing an effect is the worse mistake,
and large where taking noise for one is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unlatch.arrays import Floats

__all__ = [
    "CHANGED",
    "DISTINCT_ROWS_SIGMAS",
    "DOUBTFUL_SIGMAS",
    "EXACT",
    "FROZEN_SIGMAS",
    "FULL_RANK_SIGMAS",
    "HETEROGENEOUS_SIGMAS",
    "KERNEL_VARIANCES",
    "LEAK_VARIANCES",
    "RESIDUAL_VARIANCES",
    "ROUNDING",
    "SINGULAR_VALUE_MARGIN",
    "UNSEEN",
    "USED",
    "jackknife_variance",
]

USED = 0.5
"""Expected uses from which on the log has used an entry, a row or a state at all: more likely than not once."""

UNSEEN = 0.01
"""How often a row may be expected to show, in a log as long as this one, what it has not shown so far, and still keep
its zeros: rows are many, and one such step makes a whole log impossible."""

CHANGED = 1e-3
"""The p-value below which a new log is said not to come from the system of an old one: one false alarm in a thousand
nights."""

EXACT = 1e-9
"""Relative size below which a number of an exact model is rounding."""

ROUNDING = 1e-6
"""Distance up to which rows that went through inversions are the same without any noise."""

SINGULAR_VALUE_MARGIN = 1.25
"""How far a singular value of a Hankel matrix must stand above the largest of twelve measured noise levels: their
largest is itself uncertain by some ten percent, and a state taken for noise is found later by its likelihood."""

FULL_RANK_SIGMAS = 3.0
"""Standard errors by which the smallest singular value of a transition matrix must exceed zero. An action that is
counted by mistake has a noisy inverse and is given little weight, one that is missed costs all its information."""

DISTINCT_ROWS_SIGMAS = 5.0
"""Standard errors by which observation rows must differ for their states to be told apart. States that are merged by
mistake cost little, states that are torn apart by noise cost everything; and all pairs of states are compared."""

FROZEN_SIGMAS = 3.0
"""Standard errors up to which two states' eigenvalues are too close for a Newton step to separate their eigenvectors:
the step divides by their gap."""

HETEROGENEOUS_SIGMAS = 6.0
"""Standard errors by which a state's row must leave that of its cell for the cell to be too coarse: more than what
tells cells apart, since the cell was judged by the same numbers."""

KERNEL_VARIANCES = 4.0
"""Times the noise variance (two standard deviations) that the minors of a mixture of states must have for it to be told
from a state. Many minors are added up, so that noise alone gives about one; below three the models that come out are
wrong throughout, above four they are right to within their noise."""

LEAK_VARIANCES = 3.0
"""Times the noise variance that may lie outside the leading singular subspaces; at the right rank it is about one."""

RESIDUAL_VARIANCES = 25.0
"""Times the noise variance (five standard deviations) that may be left outside the diagonals of the inverse family."""

DOUBTFUL_SIGMAS = 5.0
"""Standard errors by which the average weight of an action must miss one for the logged probabilities to be doubted."""


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
