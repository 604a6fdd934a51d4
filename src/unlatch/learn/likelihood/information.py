"""How much a log says about every number of a model."""

from __future__ import annotations

import numpy as np

from unlatch import linalg
from unlatch.arrays import Floats
from unlatch.core.progress import report
from unlatch.learn.likelihood.coordinates import SquareRoots
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import Parameters

__all__ = ["information_matrix", "row_variances"]


def information_matrix(
    roots: SquareRoots, likelihood: Likelihood, *, step: float = 0.05, stage: str = "information"
) -> Floats:
    """Minus the Hessian of the log-likelihood in square-root coordinates, by differences of its gradient.

    The direction that merely rescales a row is flat; it gets the curvature that all others have
    where nothing is hidden, so that the matrix can be inverted.
    Two passes over the log for every coordinate; progress is reported as ``stage``.
    """
    center = roots.start
    information = np.empty((len(center), len(center)))
    for i in range(len(center)):
        ahead, behind = center.copy(), center.copy()
        ahead[i] += step
        behind[i] -= step
        difference = _slope(roots, behind, likelihood) - _slope(roots, ahead, likelihood)
        information[i] = difference / (2 * step)
        report(stage, i + 1, len(center))
    information = (information + information.T) / 2
    for row in roots.rows():
        direction = np.zeros(len(center))
        direction[row] = center[row] / np.sqrt(center[row] @ center[row])
        information += 4.0 * np.outer(direction, direction)
    return information + 1e-9 * np.eye(len(center))


def _slope(roots: SquareRoots, point: Floats, likelihood: Likelihood) -> Floats:
    return roots.gradient(point, likelihood.counts(roots.parameters(point)))


def row_variances(roots: SquareRoots, information: Floats) -> Parameters:
    """Variance of every probability of the model, zero where the probability is fixed at zero."""
    covariance = linalg.inverse(information)
    variances = np.empty(len(roots.start))
    for row in roots.rows():
        x = roots.start[row]
        norm = x @ x
        slope = 2 * np.diag(x) / norm - 2 * np.outer(x**2, x) / norm**2  # of p = x^2 / |x|^2
        variances[row] = np.einsum("ij,jk,ik->i", slope, covariance[np.ix_(row, row)], slope)
    arrays = [np.zeros(mask.shape) for mask in roots.masks]
    for (which, index), variance in zip(roots.places(), variances, strict=True):
        arrays[which].flat[index] = max(variance, 0.0)
    return roots.like.with_blocks(arrays)
