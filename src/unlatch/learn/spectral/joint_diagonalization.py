"""Joint diagonalization by similarity: one basis in which a family of matrices is as diagonal as can be.

Eigenvectors of random combinations (He, Kressner, Plestenjak 2024) start it, the best of several draws by
off-diagonal residual; a Newton iteration that uses every matrix at once finishes it. A single draw is
statistically poor: the error of a pair of eigenvectors grows with 1/cos^2 of the angle between the drawn
weights and the difference of the pair's diagonals, and some pair is always unlucky.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unlatch import linalg
from unlatch.arrays import Complexes, Floats
from unlatch.core.budget import checkpoint
from unlatch.core.progress import report
from unlatch.errors import NumericalError

__all__ = ["JointBasis", "diagonals", "newton_refinement", "off_diagonal_residual", "random_basis"]

_MAX_CONDITION = 1e8
_NEWTON_STEPS = 60
_TRUST = 0.3


@dataclass(frozen=True)
class JointBasis:
    """A basis (columns of norm one), its residual, and what its draw ran into.

    ``imaginary`` is the largest imaginary part of an eigenvalue of the drawn combination, relative to
    the spread of the eigenvalues; pairs of complex eigenvectors enter the basis by a real basis of the
    plane that they span.
    """

    matrix: Floats
    residual: float
    imaginary: float
    complex_pairs: int


def random_basis(family: Floats, weights: Floats, draws: int, rng: np.random.Generator) -> JointBasis:
    """The best of ``draws`` eigenbases of random combinations of ``family`` (m, n, n).

    ``weights`` (m,) are inverse variances: noisier matrices count less in draws and residual.
    """
    best: JointBasis | None = None
    for draw in range(draws):
        report("diagonalizing", draw, draws)
        direction = rng.standard_normal(len(family))
        direction /= np.sqrt(direction @ direction)
        basis = _try_eigenbasis(np.einsum("k,kij->ij", direction * np.sqrt(weights), family))  # Eq. (16)
        if basis is None:
            continue
        matrix, imaginary, pairs = basis
        residual = off_diagonal_residual(family, weights, matrix)
        if best is None or residual < best.residual:
            best = JointBasis(matrix, residual, imaginary, pairs)
    if best is None:
        raise NumericalError(
            f"in {draws} draws no combination of the observation matrices had an invertible eigenbasis; they "
            "may be defective. Log more steps, or check the emission convention"
        )
    return best


def _try_eigenbasis(combination: Floats) -> tuple[Floats, float, int] | None:
    try:
        return _eigenbasis(combination)
    except NumericalError:  # this draw was unlucky, another will do
        return None


def _eigenbasis(combination: Floats) -> tuple[Floats, float, int] | None:
    """A real, well-conditioned eigenbasis; None if there is none.

    Eigenvalues that coincide or come in complex pairs are treated as one cluster: its invariant subspace
    is well defined even where its eigenvectors are not, and is given an orthonormal basis.
    """
    values, vectors = linalg.eigen(combination)
    spread = float(np.ptp(values.real)) + float(np.abs(values).max()) + 1e-300
    imaginary = float(np.abs(values.imag).max() / spread)
    clusters = _clusters(values, 1e-7 * spread)
    matrix = np.empty_like(combination)
    column = 0
    for cluster in clusters:
        size = len(cluster)
        if size == 1:
            block = vectors[:, cluster].real
        else:
            block = linalg.null_basis(_cluster_polynomial(combination, values[cluster]), size)
        matrix[:, column : column + size] = block
        column += size
    matrix = matrix / np.sqrt((matrix**2).sum(axis=0))
    if not np.isfinite(matrix).all() or linalg.condition(matrix) > _MAX_CONDITION:
        return None
    return matrix, imaginary, int((values.imag > 1e-12 * spread).sum())


def _clusters(values: Complexes, gap: float) -> list[list[int]]:
    """Group eigenvalues whose real parts lie within ``gap``, and complex ones with their conjugates."""
    order = np.lexsort((values.imag, values.real))
    clusters: list[list[int]] = []
    for index in order.tolist():
        last = clusters[-1][-1] if clusters else None
        if last is not None and abs(values[index].real - values[last].real) <= gap:
            clusters[-1].append(index)
        else:
            clusters.append([index])
    return clusters


def _cluster_polynomial(matrix: Floats, roots: Complexes) -> Floats:
    """The product of (matrix - root) over a cluster closed under conjugation: real, and zero exactly on
    the cluster's invariant subspace."""
    product = np.eye(len(matrix), dtype=np.complex128)
    for root in roots:
        product = product @ (matrix - root * np.eye(len(matrix)))
    if np.abs(product.imag).max() > 1e-6 * (np.abs(product).max() + 1e-300):
        raise NumericalError("a cluster of eigenvalues is not closed under conjugation")
    result: Floats = product.real.copy()  # the imaginary part is rounding, checked above
    return result


def off_diagonal_residual(family: Floats, weights: Floats, basis: Floats) -> float:
    """Weighted sum of squares outside the diagonals of ``basis^-1 @ X @ basis``."""
    outside = _rotated(family, basis) * (1 - np.eye(len(basis)))
    return float(weights @ (outside**2).sum(axis=(1, 2)))


def diagonals(family: Floats, basis: Floats) -> Floats:
    """The diagonals of ``basis^-1 @ X @ basis``, shape (m, n)."""
    result: Floats = np.einsum("kii->ki", _rotated(family, basis)).copy()
    return result


def _rotated(family: Floats, basis: Floats) -> Floats:
    result: Floats = linalg.inverse(basis) @ family @ basis
    return result


def newton_refinement(
    family: Floats, weights: Floats, start: Floats, frozen_gap: Floats
) -> tuple[Floats, float]:
    """Improve a basis by least squares over the whole family; returns it with its residual.

    For every ordered pair of states the first-order correction that best explains their off-diagonal
    entries is ``sum_k w_k (d_ki - d_kj) Y_kji / sum_k w_k (d_ki - d_kj)^2``. Pairs whose squared weighted gap
    is at most ``frozen_gap`` (n, n) cannot be told apart and are left alone.
    """
    basis, residual = start, off_diagonal_residual(family, weights, start)
    best = basis, residual
    for _ in range(_NEWTON_STEPS):
        checkpoint()
        rotated = _rotated(family, basis)
        d = np.einsum("kii->ki", rotated)
        gaps = d[:, None, :] - d[:, :, None]  # gaps[k, j, i] = d_ki - d_kj
        squared = np.einsum("k,kji->ji", weights, gaps**2)
        known = squared > frozen_gap
        moment = np.einsum("k,kji,kji->ji", weights, gaps, rotated)
        step = np.divide(moment, squared, out=np.zeros_like(moment), where=known)
        size = float(linalg.singular_values(step)[0])
        if size < 1e-15:
            break
        basis = basis @ (np.eye(len(basis)) + step * min(1.0, _TRUST / size))
        basis = basis / np.sqrt((basis**2).sum(axis=0))
        if linalg.condition(basis) > _MAX_CONDITION:
            break
        residual = off_diagonal_residual(family, weights, basis)
        if residual < best[1]:
            best = basis, residual
        elif size < 1e-6:
            break
    return best
