"""The only door to LAPACK.

Everything that goes in is checked to be finite first (a single NaN can hang LAPACK for ever), every
routine is SciPy's, and what LAPACK leaves open (signs, order) is settled here once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from unlatch.arrays import Floats, own_errstate
from unlatch.errors import NumericalError

__all__ = [
    "condition",
    "eigen",
    "fixed_point",
    "haar_rotation",
    "inverse",
    "least_squares",
    "log_determinant",
    "null_basis",
    "on_one_thread",
    "orthonormal",
    "project_to_simplex",
    "singular_values",
    "spectral_norm",
    "stationary_distribution",
    "svd",
    "symmetric_root",
    "triangle",
    "truncated_svd",
]

P = ParamSpec("P")
T = TypeVar("T")

_DENSE_LIMIT = 400
"""Smaller side up to which a full decomposition is cheaper than an iterative one."""


def on_one_thread(function: Callable[P, T]) -> Callable[P, T]:
    """The function with BLAS held to one thread meanwhile: its matrices are many and small, and threads that wait for
    each other's scraps took five times the processor time without being faster."""

    @wraps(function)
    def held(*args: P.args, **kwargs: P.kwargs) -> T:
        with threadpool_limits(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return held


def _finite(matrix: NDArray[np.generic]) -> None:
    if not np.isfinite(matrix).all():
        raise NumericalError("a matrix with infinite or undefined entries reached a decomposition")


@own_errstate
def inverse(matrix: Floats) -> Floats:
    """The inverse of a square matrix that is not singular to working precision."""
    _finite(matrix)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", scipy.linalg.LinAlgWarning)
            result: Floats = scipy.linalg.inv(matrix)
    except (scipy.linalg.LinAlgError, scipy.linalg.LinAlgWarning):
        raise NumericalError("a matrix that must be inverted is singular") from None
    _finite(result)
    return result


@own_errstate
def log_determinant(matrix: Floats, *, least: float) -> float:
    """Logarithm of the determinant of a symmetric matrix whose eigenvalues are ``least`` or more.

    Those that noise has brought below, even below zero, count as ``least``.
    """
    _finite(matrix)
    try:
        _cholesky_diagonal(matrix - least * (1 - 1e-9) * np.eye(len(matrix)))
        return 2 * float(np.log(_cholesky_diagonal(matrix)).sum())
    except scipy.linalg.LinAlgError:
        return float(np.log(np.maximum(scipy.linalg.eigvalsh(matrix), least)).sum())


@own_errstate
def symmetric_root(matrix: Floats) -> Floats:
    """The symmetric matrix whose square is a covariance; what rounding has made negative of it counts as zero."""
    _finite(matrix)
    if len(matrix) == 0:
        return matrix
    values, vectors = scipy.linalg.eigh((matrix + matrix.T) / 2)
    result: Floats = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return result


def _cholesky_diagonal(matrix: Floats) -> Floats:
    result: Floats = np.diag(scipy.linalg.cholesky(matrix, lower=True))
    return result


@own_errstate
def singular_values(matrix: Floats) -> Floats:
    """Singular values in decreasing order."""
    _finite(matrix)
    result: Floats = scipy.linalg.svdvals(matrix)
    return result


@own_errstate
def condition(matrix: Floats) -> float:
    """Ratio of the largest singular value to the smallest; infinite for a singular matrix."""
    values = singular_values(matrix)
    return float(values[0] / values[-1]) if values[-1] > 0 else np.inf


@own_errstate
def svd(matrix: Floats) -> tuple[Floats, Floats, Floats]:
    """Thin SVD ``U, s, V`` (columns of V are right vectors) with canonical signs."""
    _finite(matrix)
    u, s, vt = scipy.linalg.svd(matrix, full_matrices=False)
    return _canonical_signs(u, s, vt.T)


@own_errstate
def truncated_svd(
    matrix: object, rank: int, rng: np.random.Generator, *, on_step: Callable[[], None] = lambda: None
) -> tuple[Floats, Floats, Floats]:
    """The leading ``rank`` singular triplets of a sparse matrix, in decreasing order, canonical signs.

    Small matrices are decomposed whole; large ones by Lanczos iterations from a start drawn from ``rng``. What
    ``on_step`` raises, called at every iteration, ends them.
    """
    import scipy.sparse
    import scipy.sparse.linalg

    sparse = scipy.sparse.csr_array(matrix)
    _finite(sparse.data)
    smaller = min(sparse.shape)
    if smaller <= _DENSE_LIMIT or rank >= smaller // 2:
        u, s, v = svd(sparse.toarray())
        return u[:, :rank], s[:rank], v[:, :rank]
    start = rng.standard_normal(smaller)
    try:
        u, s, vt = scipy.sparse.linalg.svds(_watched(sparse, on_step), k=rank, v0=start)
    except scipy.sparse.linalg.ArpackError as error:
        raise NumericalError(f"the singular value decomposition did not converge: {error}") from None
    order = np.argsort(-s)
    return _canonical_signs(u[:, order], s[order], vt[order].T)


def _watched(sparse: Any, on_step: Callable[[], None]) -> Any:
    """A matrix as an operator that says when it is used."""
    import scipy.sparse.linalg

    def ahead(vector: Floats) -> Floats:
        on_step()
        result: Floats = sparse @ vector
        return result

    def back(vector: Floats) -> Floats:
        on_step()
        result: Floats = sparse.T @ vector
        return result

    return scipy.sparse.linalg.LinearOperator(
        sparse.shape, matvec=ahead, rmatvec=back, matmat=ahead, rmatmat=back, dtype=np.float64
    )


@own_errstate
def spectral_norm(matrix: object, rng: np.random.Generator, iterations: int = 30) -> float:
    """Largest singular value of a sparse matrix, by power iterations; within a percent or so, from below."""
    import scipy.sparse

    sparse = scipy.sparse.csr_array(matrix)
    _finite(sparse.data)
    if min(sparse.shape) <= _DENSE_LIMIT // 4:
        return float(scipy.linalg.svdvals(sparse.toarray())[0])
    vector = rng.standard_normal(sparse.shape[1])
    norm = 0.0
    for _ in range(iterations):
        image = sparse @ vector
        norm = float(np.sqrt(image @ image))
        if norm == 0.0:
            return 0.0
        vector = sparse.T @ (image / norm)
        vector /= np.sqrt(vector @ vector)
    return norm


def _canonical_signs(u: Floats, s: Floats, v: Floats) -> tuple[Floats, Floats, Floats]:
    """Make the largest entry of every left vector positive, so that equal input gives equal output."""
    leading = u[np.argmax(np.abs(u), axis=0), np.arange(u.shape[1])]
    signs = np.where(leading < 0, -1.0, 1.0)
    return u * signs, s, v * signs


@own_errstate
def eigen(matrix: Floats) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """Eigenvalues and right eigenvectors (columns of norm one) of a square matrix."""
    _finite(matrix)
    values, vectors = scipy.linalg.eig(matrix)
    return values, vectors.astype(np.complex128)


@own_errstate
def null_basis(matrix: Floats, dimension: int) -> Floats:
    """Orthonormal columns spanning the ``dimension`` directions that ``matrix`` shrinks the most."""
    _finite(matrix)
    _, _, vt = scipy.linalg.svd(matrix)
    result: Floats = vt[len(vt) - dimension :].T
    return result


@own_errstate
def triangle(matrix: Floats) -> Floats:
    """The triangular factor of a tall matrix: as many rows as columns, the same singular values and right vectors."""
    _finite(matrix)
    result: Floats = scipy.linalg.qr(matrix, mode="r", check_finite=False)[0][: matrix.shape[1]]
    return result


@own_errstate
def least_squares(matrix: Floats, target: Floats) -> Floats:
    """The shortest x that minimizes ``|matrix @ x - target|``."""
    _finite(matrix)
    _finite(target)
    result: Floats = scipy.linalg.lstsq(matrix, target)[0]
    return result


@own_errstate
def orthonormal(columns: Floats) -> Floats:
    """An orthonormal basis of the span of independent columns."""
    _finite(columns)
    result: Floats = scipy.linalg.qr(columns, mode="economic")[0]
    return result


@own_errstate
def haar_rotation(dimension: int, rng: np.random.Generator) -> Floats:
    """A rotation drawn uniformly (Haar measure) from SO(dimension)."""
    if dimension == 1:
        return np.ones((1, 1))
    q, r = scipy.linalg.qr(rng.standard_normal((dimension, dimension)))
    q = q * np.sign(np.diag(r))
    if scipy.linalg.det(q) < 0:
        q[:, 0] = -q[:, 0]
    result: Floats = q
    return result


@own_errstate
def stationary_distribution(chain: Floats, start: Floats) -> Floats:
    """Long-run average distribution of a Markov chain begun in ``start``, by linear solves.

    Mass in transient states flows to the closed classes that it is absorbed by; inside a closed class the
    distribution is the class's own, also if the class is periodic.
    """
    from scipy.sparse.csgraph import connected_components

    _finite(chain)
    n_classes, labels = connected_components(chain > 0, directed=True, connection="strong")
    leaves = np.zeros(n_classes, dtype=bool)
    sources, targets = np.nonzero(chain > 0)
    leaves[labels[sources[labels[sources] != labels[targets]]]] = True
    transient = leaves[labels]
    absorbed = np.where(transient, 0.0, start)
    if transient.any():
        absorbed[~transient] += _absorbed_mass(chain, start, transient)
    result = np.zeros(len(chain))
    for label in np.flatnonzero(~leaves):
        members = np.flatnonzero(labels == label)
        mass = absorbed[members].sum()
        if mass > 0:
            result[members] = mass * _irreducible_stationary(chain[np.ix_(members, members)])
    if not np.isfinite(result).all():
        raise NumericalError(
            "a state is left with a probability too small for floating point; set probabilities below 1e-300 to zero"
        )
    normalized: Floats = result / result.sum()
    return normalized


def _absorbed_mass(chain: Floats, start: Floats, transient: NDArray[np.bool_]) -> Floats:
    """The mass that the transient states of a chain send to each of the others in the end."""
    inside, leaving = chain[np.ix_(transient, transient)], chain[np.ix_(transient, ~transient)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", scipy.linalg.LinAlgWarning)
            visits = scipy.linalg.solve((np.eye(len(inside)) - inside).T, start[transient])
    except (scipy.linalg.LinAlgError, scipy.linalg.LinAlgWarning):
        return _eliminated_mass(inside, leaving, start[transient])
    result: Floats = visits @ leaving
    return result


def _eliminated_mass(inside: Floats, leaving: Floats, mass: Floats) -> Floats:
    """As `_absorbed_mass`, state by state and without a subtraction: slower, but accurate where states are left so
    rarely that one minus the chance of staying is zero."""
    moves, mass = (
        np.concatenate([inside, leaving], axis=1),
        np.concatenate([mass, np.zeros(leaving.shape[1])]),
    )
    for state in range(len(inside) - 1, -1, -1):
        row = moves[state].copy()
        row[state:][: len(inside) - state] = 0.0  # itself, and states that are gone already
        if not row.any():
            continue  # left so rarely that even that is lost: its mass is spread by what remains
        row /= row.max()
        row /= row.sum()
        mass += mass[state] * row
        moves += np.outer(moves[:, state], row)
    result: Floats = mass[len(inside) :]
    return result


def _irreducible_stationary(chain: Floats) -> Floats:
    """Of an irreducible chain, by the elimination of Grassmann, Taksar and Heyman: no subtraction, so that every
    entry is accurate however weakly the states are coupled."""
    reduced = chain.copy()
    weights = np.ones(len(chain))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # the caller looks at what came of it
        for k in range(len(chain) - 1, 0, -1):
            reduced[:k, k] /= reduced[k, :k].sum()
            reduced[:k, :k] += np.outer(reduced[:k, k], reduced[k, :k])
        for k in range(1, len(chain)):
            weights[k] = weights[:k] @ reduced[:k, k]
        result: Floats = weights / weights.sum()
    return result


@own_errstate
def project_to_simplex(rows: Floats) -> Floats:
    """The nearest point (in L2) of the probability simplex to every row (last axis).

    Closed form: subtract the one threshold that makes the positive parts sum to one.
    """
    _finite(rows)
    ordered = -np.sort(-rows, axis=-1)
    excess = np.cumsum(ordered, axis=-1) - 1
    counts = np.arange(1, rows.shape[-1] + 1)
    support = (ordered * counts > excess).sum(axis=-1, keepdims=True)
    threshold = np.take_along_axis(excess, support - 1, axis=-1) / support
    projected = np.maximum(rows - threshold, 0.0)
    result: Floats = projected / projected.sum(axis=-1, keepdims=True)
    return result


@own_errstate
def fixed_point(update: Floats, final: Floats) -> Floats:
    """The row vector m with ``m @ update = m`` and ``m @ final = 1``, in the least-squares sense."""
    _finite(update)
    system = np.concatenate([update.T - np.eye(len(update)), final[None, :]])
    target = np.append(np.zeros(len(update)), 1.0)
    result: Floats = scipy.linalg.lstsq(system, target)[0]
    return result
