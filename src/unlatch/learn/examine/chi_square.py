"""The chi-square of a vector of counts."""

from __future__ import annotations

from typing import NamedTuple

from scipy.special import chdtrc

from unlatch import linalg
from unlatch.arrays import Floats

__all__ = ["ChiSquare", "chi_square"]

_FEW = 5.0
"""Least variance, in squared counts, of a direction that is tested: below it a count is not nearly normal."""


class ChiSquare(NamedTuple):
    """A sum of squared standard deviates and their number."""

    statistic: float = 0.0
    degrees: int = 0

    def plus(self, other: ChiSquare) -> ChiSquare:
        """Independent parts of one test, taken together."""
        return ChiSquare(self.statistic + other.statistic, self.degrees + other.degrees)

    @property
    def p_value(self) -> float:
        return float(chdtrc(self.degrees, self.statistic)) if self.degrees else 1.0

    @property
    def excess(self) -> float:
        """What the statistic has beyond its mean under the hypothesis; zero if it has less."""
        return max(self.statistic - self.degrees, 0.0)


def chi_square(deviation: Floats, covariance: Floats) -> ChiSquare:
    """Test of a vector of counts whose mean is zero and whose covariance is known, possibly singular.

    Directions in which the counts vary by less than a few are left out: they are not nearly normal, and a
    single rare event would be called significant.
    """
    directions, variances, _ = linalg.svd(covariance)
    tested = variances >= _FEW
    along = deviation @ directions[:, tested]
    return ChiSquare(float((along**2 / variances[tested]).sum()), int(tested.sum()))
