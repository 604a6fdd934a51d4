"""How much a log says about every number of a model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unlatch import linalg
from unlatch.arrays import Floats
from unlatch.core.pomdp import Emission
from unlatch.learn.likelihood.coordinates import SquareRoots
from unlatch.learn.likelihood.forward_backward import expected_counts
from unlatch.learn.likelihood.parameters import EncodedLog, Parameters

__all__ = ["information_matrix", "row_variances"]


def information_matrix(
    roots: SquareRoots,
    log: EncodedLog,
    emission: Emission,
    *,
    step: float = 0.05,
    on_step: Callable[[int, int], None] | None = None,
) -> Floats:
    """Minus the Hessian of the log-likelihood in square-root coordinates, by differences of its gradient.

    The direction that merely rescales a row is flat; it gets unit curvature so that the matrix can be inverted.
    Two passes over the log for every coordinate; ``on_step`` is told how many coordinates are done.
    """
    center = roots.start
    information = np.empty((len(center), len(center)))
    for i in range(len(center)):
        ahead, behind = center.copy(), center.copy()
        ahead[i] += step
        behind[i] -= step
        difference = _slope(roots, behind, log, emission) - _slope(roots, ahead, log, emission)
        information[i] = difference / (2 * step)
        if on_step is not None:
            on_step(i + 1, len(center))
    information = (information + information.T) / 2
    for row in roots.rows():
        direction = np.zeros(len(center))
        direction[row] = center[row] / np.sqrt(center[row] @ center[row])
        information += 4.0 * np.outer(direction, direction)
    return information + 1e-9 * np.eye(len(center))


def _slope(roots: SquareRoots, point: Floats, log: EncodedLog, emission: Emission) -> Floats:
    return roots.gradient(point, expected_counts(roots.parameters(point), log, emission=emission))


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
    return Parameters(*arrays)
