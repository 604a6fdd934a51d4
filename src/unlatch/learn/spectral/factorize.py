"""Stage 3: the rank of the Hankel matrix, and its leading singular vectors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import scipy.sparse

from unlatch import linalg
from unlatch.arrays import Floats
from unlatch.core.budget import checkpoint
from unlatch.core.checks import frozen
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.progress import report
from unlatch.core.random import RandomSource, resolve_rng
from unlatch.errors import NotLearnableError, UsageError
from unlatch.learn.significance import EXACT, SINGULAR_VALUE_MARGIN
from unlatch.learn.spectral.hankel import HankelMatrix

__all__ = ["RankFactorization", "Scaling", "factorize"]

Scaling = Literal["noise", "none"]

_SPLITS = 12
"""Random halvings of the log's blocks by which the noise is measured."""


@dataclass(frozen=True, eq=False)
class RankFactorization:
    """The truncated SVD of a Hankel matrix.

    ``left`` (histories, rank) and ``right`` (tests, rank) are the leading singular vectors of the scaled matrix, each
    entry times the scale of its history or test; rotated if that was asked for. So ``left.T @ H @ right`` is the
    diagonal of the scaled matrix's singular values (or what the rotation made of it), but neither is orthonormal.

    Attributes
    ----------
    singular_values : array, shape (values,)
        The leading values of the matrix itself, at least one more than the rank where there are more. They decide the
        rank: thresholds on them, such as the paper's, are about probabilities.
    noise : float
        Estimated largest singular value of the sampling noise; 0 for an exact matrix.
    rank : int
    history_scales, test_scales : array, shape (histories,), (tests,)
        What rows and columns were multiplied with before the decomposition.

    Examples
    --------
    >>> import unlatch
    >>> factors = unlatch.factorize(unlatch.exact_hankel(unlatch.domains.tiger(), history_length=2, test_length=1))
    >>> factors.rank, factors.left.shape, factors.right.shape
    (2, (10, 2), (10, 2))
    """

    left: Floats
    right: Floats
    singular_values: Floats
    noise: float
    rank: int
    history_scales: Floats
    test_scales: Floats
    diagnostics: Diagnostics = field(default_factory=Diagnostics)

    def __repr__(self) -> str:
        return f"RankFactorization(rank {self.rank}, noise {self.noise:.2g})"


def factorize(
    hankel: HankelMatrix,
    *,
    rank: int | None = None,
    rank_tolerance: float | None = None,
    max_rank: int = 20,
    scaling: Scaling = "noise",
    rotate: bool = False,
    rng: RandomSource = None,
) -> RankFactorization:
    """Truncated SVD of the Hankel matrix, rows and columns scaled by their noise.

    Parameters
    ----------
    hankel : HankelMatrix
    rank : int, optional
        Fixes the rank.
    rank_tolerance : float, optional
        Counts the singular values above this fraction of the largest (the paper's 1/kappa). If neither is
        given, values must stand clear of the noise, measured by halving the log's blocks at random.
    max_rank : int
        The most that is considered when the rank is not fixed (the paper's "No. SVD").
    scaling : "noise" or "none"
        Before the singular vectors are taken, scale rows and columns such that all entries are about equally noisy,
        or take the matrix as it is, as the paper did.
    rotate : bool
        Apply one dense random rotation to both factors, as the paper's experiments did.
    rng : int or numpy.random.Generator, optional
        Start of the iterative SVD, choice of halvings, rotation.

    Examples
    --------
    >>> import unlatch
    >>> log = unlatch.simulate(unlatch.domains.tiger(), 20_000, rng=0)
    >>> hankel = unlatch.estimate_hankel(unlatch.count_sequences(log, history_length=2, test_length=1))
    >>> unlatch.factorize(hankel, rng=0).rank
    2
    """
    generator, _ = resolve_rng(rng)
    _check_options(rank, rank_tolerance, max_rank, scaling)
    largest = min(hankel.shape)
    if rank is not None and rank > largest:
        raise NotLearnableError(
            f"rank {rank} was asked for, but {hankel.shape[0]} histories and {hankel.shape[1]} tests allow "
            f"{largest} at most; choose longer histories and tests, or a lower rank"
        )
    wanted = min((rank if rank is not None else max_rank) + 1, largest)
    weights = (hankel.history_weights, hankel.test_weights)
    left, values, right = _decomposed(hankel, weights, wanted, generator)
    report("factorizing", 1, 2)
    if values[0] <= 0:
        raise NotLearnableError("the Hankel matrix is zero: no history was ever followed by a test")
    possible = int((values > EXACT * values[0]).sum())
    if rank is not None and rank > possible:
        raise NotLearnableError(
            f"rank {rank} was asked for, but the Hankel matrix has rank {possible}; choose a lower rank, or longer "
            "histories and tests"
        )
    noise = _noise_level(hankel, generator) if rank is None and rank_tolerance is None else np.nan
    if rank is None:
        rank = _count_values(values, rank_tolerance, noise, max_rank)
    if scaling == "noise" and hankel.replicates:
        weights = (hankel.history_scales, hankel.test_scales)
        left, _, right = _decomposed(hankel, weights, rank, generator)
    left = left[:, :rank] * weights[0][:, None]
    right = right[:, :rank] * weights[1][:, None]
    if rotate:
        rotation = linalg.haar_rotation(rank, generator)
        left, right = left @ rotation, right @ rotation
    report("factorizing", 2, 2)
    return RankFactorization(
        left=frozen(left),
        right=frozen(right),
        singular_values=frozen(values),
        noise=noise,
        rank=rank,
        history_scales=frozen(weights[0]),
        test_scales=frozen(weights[1]),
        diagnostics=_judge_gap(values, rank, noise),
    )


def _decomposed(
    hankel: HankelMatrix, scales: tuple[Floats, Floats], rank: int, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """The leading singular triplets of the scaled matrix."""
    return linalg.truncated_svd(_scaled(hankel, hankel.matrix.data, *scales), rank, rng, on_step=checkpoint)


def _check_options(rank: int | None, rank_tolerance: float | None, max_rank: int, scaling: str) -> None:
    if rank is not None and (isinstance(rank, bool) or not isinstance(rank, int | np.integer) or rank < 1):
        raise UsageError(f"rank must be a whole number of at least 1, got {rank!r}")
    if rank_tolerance is not None and not 0 < rank_tolerance < 1:
        raise UsageError(f"rank_tolerance is a fraction between 0 and 1, got {rank_tolerance}")
    if max_rank < 1:
        raise UsageError(f"max_rank must be at least 1, got {max_rank}")
    if scaling not in ("noise", "none"):
        raise UsageError(f"scaling must be 'noise' or 'none', got {scaling!r}")


def _count_values(values: Floats, tolerance: float | None, noise: float, max_rank: int) -> int:
    threshold = (
        values[0] * tolerance
        if tolerance is not None
        else max(SINGULAR_VALUE_MARGIN * noise, EXACT * values[0])
    )
    return int(np.clip((values > threshold).sum(), 1, max_rank))


def _noise_level(hankel: HankelMatrix, rng: np.random.Generator) -> float:
    """Spectral norm of the sampling error of the matrix.

    If the log is halved, half the difference of the two estimates has the law of the error of the whole.
    A delete-one replicate is the whole plus 1/(n-1) of its block's deviation, so differences of halves
    are signed sums of replicates. The largest of several random halvings is taken.
    """
    count = len(hankel.replicates)
    if count < 2:
        return 0.0
    signs = np.repeat([1.0, -1.0], count // 2)
    levels = []
    for _ in range(_SPLITS):
        checkpoint()
        weights = rng.permutation(signs) * (count - 1) / count
        data = sum(w * r.matrix.data for w, r in zip(weights, hankel.replicates, strict=True))
        matrix = _scaled(hankel, data, hankel.history_weights, hankel.test_weights)
        levels.append(linalg.spectral_norm(matrix, rng))
    return float(np.max(levels))


def _scaled(hankel: HankelMatrix, data: Floats, rows: Floats, columns: Floats) -> Any:
    """A matrix with the sparsity of the Hankel matrix, rows and columns scaled."""
    matrix = scipy.sparse.csr_array(
        (data, hankel.matrix.indices, hankel.matrix.indptr), shape=hankel.matrix.shape
    )
    return scipy.sparse.csr_array(scipy.sparse.diags_array(rows) @ matrix @ scipy.sparse.diags_array(columns))


def _judge_gap(values: Floats, rank: int, noise: float) -> Diagnostics:
    notes = Diagnostics()
    following = values[rank] if len(values) > rank else 0.0
    if following > 0 and values[rank - 1] < 1.5 * following:
        notes = notes.noting(
            "no_gap",
            f"singular value {rank} is only {values[rank - 1] / following:.2f} times the next: its "
            "rank is uncertain; log more steps",
            ratio=float(values[rank - 1] / following),
        )
    if noise > 0 and following > 0.9 * SINGULAR_VALUE_MARGIN * noise:
        notes = notes.noting(
            "near_noise",
            f"singular value {rank + 1} ({following:.3g}) is close to the noise ({noise:.3g}): one more "
            "state may be hidden in it",
            value=float(following),
            noise=noise,
        )
    return notes
