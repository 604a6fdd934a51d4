"""Stage 5: the change of basis from predictive states to hidden states."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from unlatch import linalg
from unlatch.arrays import Floats
from unlatch.core.checks import frozen
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.partition import Partition
from unlatch.core.pomdp import Emission, checked_emission
from unlatch.core.psr import PSR
from unlatch.core.random import RandomSource, resolve_rng
from unlatch.errors import NotLearnableError, NumericalError, UsageError
from unlatch.learn.observability import full_rank_threshold
from unlatch.learn.significance import RESIDUAL_VARIANCES, jackknife_variance
from unlatch.learn.spectral.cell_basis import nonnegative_cells
from unlatch.learn.spectral.inverse_family import InverseFamily
from unlatch.learn.spectral.joint_diagonalization import (
    JointBasis,
    newton_refinement,
    off_diagonal_residual,
    random_basis,
)
from unlatch.learn.spectral.rank_one import RankOneFamily
from unlatch.learn.state_order import canonical_order

__all__ = ["CellBasis", "SimilarityTransform", "find_similarity"]

CellBasis = Literal["nonnegative", "rotation", "none"]


@dataclass(frozen=True, eq=False)
class SimilarityTransform:
    """The matrix that turns a PSR into (quasi-)states, and what was found on the way.

    Attributes
    ----------
    matrix : array, shape (rank, states)
        The paper's P~: ``psr.transformed(matrix)`` has a final vector of ones, and sums of its coordinates
        over a cell of ``partition`` are true probabilities (Theorem 1).
    emission : str
    full_rank_actions : tuple of int
    partition : Partition
    diagonals, diagonal_variances : array, shape (full-rank actions, states, observations)
        Observation rows of the full-rank actions as eigenvalues, averaged over cells, not yet projected;
        and their sampling variances (zero for an exact PSR). Empty without a full-rank action.
    action_singular_values, action_thresholds : array, shape (actions,)
        The smallest singular value of every action's matrix, and what it must exceed to count as full rank.
    residual : float
        Root of the sum of squares of what is left outside the diagonals; without a full-rank action, beside rank one.

    Examples
    --------
    >>> import unlatch
    >>> hankel = unlatch.exact_hankel(unlatch.domains.tiger(), history_length=2, test_length=1)
    >>> psr = unlatch.fit_psr(hankel, unlatch.factorize(hankel))
    >>> similarity = unlatch.find_similarity(psr, rng=0)
    >>> similarity.matrix.shape, similarity.partition
    ((2, 2), Partition({0}, {1}))
    """

    matrix: Floats
    emission: Emission
    full_rank_actions: tuple[int, ...]
    partition: Partition
    diagonals: Floats
    diagonal_variances: Floats
    action_singular_values: Floats
    action_thresholds: Floats
    residual: float
    diagnostics: Diagnostics = field(default_factory=Diagnostics)

    def __repr__(self) -> str:
        return f"SimilarityTransform({self.partition}, full-rank actions {list(self.full_rank_actions)})"


def find_similarity(
    psr: PSR,
    *,
    emission: Emission = "departure",
    min_singular_value: float | None = None,
    observation_tolerance: float | None = None,
    draws: int = 30,
    newton: bool = True,
    cell_basis: CellBasis = "nonnegative",
    rank_one: bool = True,
    rng: RandomSource = None,
) -> SimilarityTransform:
    """Jointly diagonalize the observation matrices of all full-rank actions; without any, tell states by rank one.

    Parameters
    ----------
    psr : PSR
    emission : "departure" or "arrival"
    min_singular_value : float, optional
        An action counts as full-rank if the smallest singular value of its matrix exceeds this; by default
        three standard errors, told from ``psr.replicates``.
    observation_tolerance : float, optional
        States belong to one cell if their observation rows differ by at most this (L1) under every
        full-rank action; by default five standard errors: states that are merged by mistake cost
        little, states that are torn apart by noise cost everything.
    draws : int
        Random combinations tried; the paper used one.
    newton : bool
        Refine by least squares over the whole family, weighted by noise. The paper did not.
    cell_basis : "nonnegative", "rotation" or "none"
        How states inside a cell, which the log does not determine, are chosen: the basis with the least
        negative probability, the paper's random rotation, or as the eigenvectors came (for a PSR
        that was rotated densely before).
    rank_one : bool
        Where no action has full rank, tell states by the independence of what they show and where they lead: then
        every state stands alone, or the PSR is refused. Without, it is refused at once, as in the paper.
    rng : int or numpy.random.Generator, optional

    Examples
    --------
    >>> import unlatch
    >>> hankel = unlatch.exact_hankel(unlatch.domains.tiger(), history_length=2, test_length=1)
    >>> psr = unlatch.fit_psr(hankel, unlatch.factorize(hankel))
    >>> unlatch.find_similarity(psr, rng=0).full_rank_actions  # to listen leaves the tiger where it is
    (0,)
    """
    generator, _ = resolve_rng(rng)
    checked_emission(emission)
    _check_options(min_singular_value, observation_tolerance, draws, cell_basis)
    smallest, thresholds = _action_ranks(psr, min_singular_value)
    actions = tuple(int(a) for a in np.flatnonzero(smallest > thresholds))
    if not actions and not rank_one:
        raise _no_full_rank_action(psr, smallest, thresholds)
    if not actions:
        return _by_rank_one(psr, emission, smallest, thresholds, draws, newton, generator)
    family = InverseFamily(psr, actions, emission, weighted=newton)
    start = random_basis(family.whole, family.weights, draws, generator)
    basis, notes = _checked_start(family, start)
    if newton:
        basis, _ = newton_refinement(family.whole, family.weights, basis, family.frozen_gaps(basis))
    partition = family.partition(basis, observation_tolerance)
    basis, partition = _grouped(basis, partition)
    transform = _scaled(psr, basis, partition, cell_basis, generator)
    if cell_basis == "nonnegative" and not partition.is_trivial:
        transform = nonnegative_cells(psr, transform, partition, generator)
    order = canonical_order(psr.transformed(transform))
    transform, partition = transform[:, order], partition.relabel(order)
    notes = notes + _residual_notes(family, basis, emission)
    return SimilarityTransform(
        matrix=frozen(transform),
        emission=emission,
        full_rank_actions=actions,
        partition=partition,
        diagonals=frozen(family.rows(family.whole, transform, partition)),
        diagonal_variances=frozen(family.row_variances(transform, partition)),
        action_singular_values=frozen(smallest),
        action_thresholds=frozen(thresholds),
        residual=float(np.sqrt(off_diagonal_residual(family.whole, np.ones(len(family.whole)), basis))),
        diagnostics=notes,
    )


def _check_options(
    min_singular_value: float | None, observation_tolerance: float | None, draws: int, cell_basis: str
) -> None:
    if min_singular_value is not None and not min_singular_value >= 0:
        raise UsageError(f"min_singular_value cannot be negative, got {min_singular_value}")
    if observation_tolerance is not None and not observation_tolerance >= 0:
        raise UsageError(f"observation_tolerance cannot be negative, got {observation_tolerance}")
    if draws < 1:
        raise UsageError(f"draws must be at least 1, got {draws}")
    if cell_basis not in ("nonnegative", "rotation", "none"):
        raise UsageError(f"cell_basis must be 'nonnegative', 'rotation' or 'none', got {cell_basis!r}")


# --- full-rank actions ----------------------------------------------------------------------------------


def _action_ranks(psr: PSR, min_singular_value: float | None) -> tuple[Floats, Floats]:
    """The smallest singular value of every action's matrix, and the threshold that it must exceed."""
    matrices = psr.updates.sum(axis=1)  # Eq. (14)
    smallest = np.empty(len(matrices))
    thresholds = np.empty(len(matrices))
    for a, matrix in enumerate(matrices):
        u, s, v = linalg.svd(matrix)
        smallest[a] = s[-1]
        thresholds[a] = (
            min_singular_value
            if min_singular_value is not None
            else full_rank_threshold(_standard_error(psr, a, u[:, -1], v[:, -1]))
        )
    return smallest, thresholds


def _standard_error(psr: PSR, action: int, left: Floats, right: Floats) -> float:
    """Of ``left @ M[a] @ right``: what noise alone would make of a singular value that is truly zero."""
    values = [left @ replicate.updates[action].sum(axis=0) @ right for replicate in psr.replicates]
    return float(np.sqrt(jackknife_variance(values)))


# --- without a full-rank action ---------------------------------------------------------------------------


def _by_rank_one(
    psr: PSR,
    emission: Emission,
    smallest: Floats,
    thresholds: Floats,
    draws: int,
    newton: bool,
    rng: np.random.Generator,
) -> SimilarityTransform:
    """Every state by itself, as what it shows does not depend on where it leads; refused where that is too little."""
    family = RankOneFamily(psr, emission, weighted=newton)
    if family.kernel_dimension != psr.rank:
        raise _no_full_rank_action(psr, smallest, thresholds, family)
    partition = Partition(np.arange(psr.rank))
    basis = family.basis(draws, rng, newton=newton)
    transform = _scaled(psr, basis, partition, "none", rng)
    transform = transform[:, canonical_order(psr.transformed(transform))]
    residual, noise = family.residual(transform)
    return SimilarityTransform(
        matrix=frozen(transform),
        emission=emission,
        full_rank_actions=(),
        partition=partition,
        diagonals=frozen(np.zeros((0, psr.rank, psr.n_observations))),
        diagonal_variances=frozen(np.zeros((0, psr.rank, psr.n_observations))),
        action_singular_values=frozen(smallest),
        action_thresholds=frozen(thresholds),
        residual=float(np.sqrt(residual)),
        diagnostics=_rank_one_notes(psr, residual, noise, emission),
    )


def _rank_one_notes(psr: PSR, residual: float, noise: float, emission: Emission) -> Diagnostics:
    if residual <= max(RESIDUAL_VARIANCES * noise, 1e-12 * float((psr.updates**2).sum())):
        return Diagnostics()
    other = "arrival" if emission == "departure" else "departure"
    return Diagnostics().noting(
        "not_rank_one",
        f"what states show depends on where they lead by {np.sqrt(residual / max(noise, 1e-30)):.0f} times the noise: "
        f"the log may come from {other} emission, or from more states",
        residual=residual,
        noise=noise,
    )


def _no_full_rank_action(
    psr: PSR, smallest: Floats, thresholds: Floats, family: RankOneFamily | None = None
) -> NotLearnableError:
    listing = ", ".join(
        f"{name} {value:.2g} (needs {threshold:.2g})"
        for name, value, threshold in zip(psr.action_names, smallest, thresholds, strict=True)
    )
    seen = " above the noise" if psr.replicates else ""
    without = "" if family is None else _failed_criterion(psr, family)
    return NotLearnableError(
        f"no action's transition matrix shows full rank {psr.rank}{seen}; smallest singular values: {listing}. "
        f"{without}Log more steps, choose a lower rank, or use learn_psr, which needs no such action",
        singular_values=smallest,
        thresholds=thresholds,
    )


def _failed_criterion(psr: PSR, family: RankOneFamily) -> str:
    dimension = f"{'' if family.counted_all else 'at least '}{family.kernel_dimension}"
    seen = " within the noise" if psr.replicates else ""
    fit = "; the process may fit the other emission, or another rank" * (family.kernel_dimension < psr.rank)
    return (
        "The rank-one criterion, which can do without, fails too: its kernel has dimension "
        f"{dimension}{seen}, not {psr.rank}{fit}. "
    )


def _checked_start(family: InverseFamily, start: JointBasis) -> tuple[Floats, Diagnostics]:
    """Complex pairs are two states that noise cannot separate; without noise they cannot be."""
    notes = Diagnostics()
    if start.complex_pairs:
        if not family.replicates and start.imaginary > 1e-6:
            raise NumericalError(
                f"eigenvalues of the observation matrices are complex (imaginary part {start.imaginary:.2g} "
                "of their spread): the process does not fit this emission convention or rank. Try the "
                "other emission, or another rank"
            )
        notes = notes.noting(
            "complex_pairs",
            f"{start.complex_pairs} pairs of states came out as complex eigenvalues and were kept as planes",
            pairs=start.complex_pairs,
            imaginary=start.imaginary,
        )
    return start.matrix, notes


def _residual_notes(family: InverseFamily, basis: Floats, emission: Emission) -> Diagnostics:
    residual = off_diagonal_residual(family.whole, family.weights, basis)
    noise = family.noise_residual(basis)
    if residual <= max(RESIDUAL_VARIANCES * noise, 1e-12 * float((family.whole**2).sum())):
        return Diagnostics()
    other = "arrival" if emission == "departure" else "departure"
    return Diagnostics().noting(
        "not_jointly_diagonal",
        f"what is left outside the diagonals is {np.sqrt(residual / max(noise, 1e-30)):.0f} times the noise: "
        f"the log may come from {other} emission, or from more states",
        residual=residual,
        noise=noise,
    )


# --- scale, and the freedom inside cells ----------------------------------------------------------------


def _grouped(basis: Floats, partition: Partition) -> tuple[Floats, Partition]:
    """Columns of one cell side by side, with an orthonormal basis of their span."""
    order = np.argsort(partition.labels, kind="stable")
    grouped, partition = basis[:, order].copy(), partition.relabel(order)
    for cell in partition.cells:
        if len(cell) > 1:
            grouped[:, list(cell)] = linalg.orthonormal(grouped[:, list(cell)])
    return grouped, partition


def _scaled(
    psr: PSR, basis: Floats, partition: Partition, cell_basis: CellBasis, rng: np.random.Generator
) -> Floats:
    """``P' R diag(R^T P'^-1 m_inf)``: the scale that makes the final vector one.

    Of several rotations the one is kept whose smallest scale stands farthest from zero.
    """
    target = linalg.inverse(basis) @ psr.final
    best = np.eye(len(basis))
    worst_scale = -1.0
    for _ in range(1 if cell_basis == "none" or partition.is_trivial else 20):
        rotation = _block_rotation(partition, rng) if cell_basis != "none" else np.eye(len(basis))
        smallest = float(np.abs(rotation.T @ target).min())
        if smallest > worst_scale:
            best, worst_scale = rotation, smallest
        if cell_basis == "rotation" and worst_scale > 1e-3 * np.abs(target).max():
            break
    scale = best.T @ target
    if worst_scale <= 1e-10 * float(np.abs(target).max()):
        raise NumericalError(
            "a hidden state has no weight in the final vector, so that its scale is undefined; the rank is "
            "too high for this log. Choose a lower rank or log more steps"
        )
    result: Floats = basis @ best * scale
    return result


def _block_rotation(partition: Partition, rng: np.random.Generator) -> Floats:
    rotation = np.zeros((partition.n_states, partition.n_states))
    for cell in partition.cells:
        rotation[np.ix_(cell, cell)] = linalg.haar_rotation(len(cell), rng)
    return rotation
