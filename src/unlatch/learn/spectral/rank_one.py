"""Hidden states without a full-rank action: what is seen and where one goes are independent given the state.

On departure row w of P^-1 picks out one state, and for every action the matrix ``X[o, :] = w M[a,o]`` (observations,
coordinates) is then that state's observation row times its transition row: of rank one. A mixture of states is not,
unless the rows of one kind coincide. All 2x2 minors of X are linear in ``W = w w^T``, so the states span the kernel of
one linear map L on symmetric matrices, and no matrix of an action has to be inverted. On arrival the columns v of P
take the place of the rows of P^-1: the same with every matrix transposed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unlatch import linalg
from unlatch.arrays import Floats
from unlatch.core.budget import checkpoint
from unlatch.core.pomdp import POMDP, Emission
from unlatch.core.progress import report
from unlatch.core.psr import PSR
from unlatch.errors import NumericalError
from unlatch.learn.significance import KERNEL_VARIANCES, ROUNDING, jackknife_variance
from unlatch.learn.spectral.joint_diagonalization import random_basis

__all__ = ["RankOneFamily", "rank_one_criterion"]

_NEWTON_STEPS = 60
_TRUST = 0.3
_MAX_CONDITION = 1e8
_REFERENCES = 30
"""Random elements of the kernel of which the one that is easiest to invert is taken."""


def rank_one_criterion(pomdp: POMDP) -> tuple[int, int]:
    """How many pairs of states the rank-one decomposition tells apart, and how many pairs there are.

    For every pair i < j let v_ij hold, over all actions, the minors of their two observation rows times the minors of
    their two transition rows (columns, on arrival). The model can be recovered without a full-rank action if these
    vectors are linearly independent, that is if both numbers returned are equal.
    """
    spectrum = _Kernel(_oriented(pomdp.updates, pomdp.emission)).spectrum
    n = pomdp.n_states
    return len(spectrum) - _rounded_zeros(spectrum), n * (n - 1) // 2


def _oriented(updates: Floats, emission: Emission) -> Floats:
    """The matrices whose rows, in state coordinates, are those that have rank one over observations."""
    return updates if emission == "departure" else updates.transpose(0, 1, 3, 2)


def _rounded_zeros(spectrum: Floats) -> int:
    return int((spectrum <= ROUNDING**2 * spectrum[-1]).sum()) if spectrum[-1] > 0 else len(spectrum)


@dataclass(frozen=True)
class _Whitening:
    """Coordinates on either side in which the matrices have no preferred direction: ``left^T M right``.

    The minors vanish in any coordinates; in these the kernel stands out best from rounding.
    """

    left: Floats
    right: Floats

    @classmethod
    def of(cls, matrices: Floats) -> _Whitening:
        left = _whitened(np.einsum("aoik,aojk->ij", matrices, matrices))
        turned = np.einsum("ji,aojk->aoik", left, matrices)
        return cls(left, _whitened(np.einsum("aoik,aoil->kl", turned, turned)))

    def __call__(self, matrices: Floats) -> Floats:
        result: Floats = self.left.T @ matrices @ self.right
        return result


def _whitened(moment: Floats) -> Floats:
    """Columns b with ``b^T moment b = 1``; directions that never occur are left as they are."""
    vectors, values, _ = linalg.svd(moment)
    scale = np.where(values > ROUNDING**2 * values[0], values, 1.0)
    result: Floats = vectors / np.sqrt(scale)
    return result


class _Kernel:
    """Spectrum of ``L^T L`` (increasing) and its eigenvectors as symmetric matrices (number, n, n)."""

    def __init__(self, matrices: Floats) -> None:
        self.whitening = _Whitening.of(matrices)
        whitened = self.whitening(matrices)
        basis = _symmetric_basis(matrices.shape[-1])
        form = basis.T @ _minor_form(whitened) @ basis
        vectors, values, _ = linalg.svd((form + form.T) / 2)
        n = matrices.shape[-1]
        self.spectrum: Floats = values[::-1]
        self.elements: Floats = (basis @ vectors[:, ::-1]).T.reshape(-1, n, n)


def _symmetric_basis(n: int) -> Floats:
    """Orthonormal columns (n * n, n (n + 1) / 2) that span the symmetric matrices."""
    rows, columns = np.triu_indices(n)
    basis = np.zeros((n, n, len(rows)))
    each = np.arange(len(rows))
    entry = np.where(rows == columns, 1.0, np.sqrt(0.5))
    basis[rows, columns, each] = entry
    basis[columns, rows, each] = entry
    return basis.reshape(n * n, -1)


def _minor_form(matrices: Floats) -> Floats:
    """The quadratic form of W (n * n, n * n) whose value is the sum of all squared minors, without any minor.

    With ``A[ok, o'k'] = sum_ij W_ij M[o]_ik M[o']_jk'`` a minor is ``A[ok, o'k'] - A[ok', o'k]``. The sum of squares
    over all o, o', k, k' needs only the moments ``sum_o M[o]_ik M[o]_lk'``.
    """
    n = matrices.shape[-1]
    form = np.zeros((n * n, n * n))
    for action in matrices:
        checkpoint()
        moments = np.tensordot(action, action, axes=(0, 0))  # i, k, l, k'
        traced = np.einsum("ikjk->ij", moments)
        straight = np.einsum("il,jm->ijlm", traced, traced)
        pairs = moments.transpose(0, 2, 1, 3).reshape(n * n, n * n)  # (i, l), (k, k')
        turned = moments.transpose(3, 1, 0, 2).reshape(n * n, n * n)  # (k, k'), (j, m)
        crossed = (pairs @ turned).reshape(n, n, n, n)  # i, l, j, m
        form += 2 * (straight - crossed.transpose(0, 2, 1, 3)).reshape(n * n, n * n)
    return form


def _minors(matrices: Floats, element: Floats) -> Floats:
    """All minors of one action (observations, n, n) at W = ``element``, each as often as `_minor_form` counts it."""
    seen = np.einsum("oik,ij,pjl->okpl", matrices, element, matrices, optimize=True)
    result: Floats = seen - seen.transpose(0, 3, 2, 1)
    return result


class RankOneFamily:
    """The matrices of a PSR as rank-one mixtures, with the noise that their replicates show.

    Attributes
    ----------
    spectrum : array
        Sums of squared minors along the principal directions of symmetric matrices, increasing.
    kernel_dimension : int
        How many of them are no more than noise (or rounding, if the PSR is exact). The states are determined if it is
        the number of states.
    counted_all : bool
        False if the count was given up at twice the number of states, beyond which it makes no difference.
    """

    def __init__(self, psr: PSR, emission: Emission, *, weighted: bool) -> None:
        self._final = psr.final
        self._emission = emission
        self._whole = _oriented(psr.updates, emission)
        self._replicates = [_oriented(replicate.updates, emission) for replicate in psr.replicates]
        self._weights = self._noise_weights() if weighted else np.ones(psr.n_actions)
        self._kernel = _Kernel(self._weighted(self._whole))
        self.spectrum = self._kernel.spectrum
        most = min(2 * psr.rank, len(self.spectrum)) if psr.replicates else len(self.spectrum)
        self.kernel_dimension = self._count_noise(most) if psr.replicates else _rounded_zeros(self.spectrum)
        self.counted_all = self.kernel_dimension < most or most == len(self.spectrum)

    def _noise_weights(self) -> Floats:
        """Inverse variances, one per action, the largest being one; untried actions have no say."""
        n_actions = len(self._whole)
        if not self._replicates:
            return np.ones(n_actions)
        variance = jackknife_variance(self._replicates).reshape(n_actions, -1).mean(axis=1)
        known = variance > 0
        if not known.any():
            return np.ones(n_actions)
        return np.where(known, variance[known].min() / np.where(known, variance, 1.0), 1.0)

    def _weighted(self, matrices: Floats) -> Floats:
        """Minors are quadratic in the matrices, their squares of fourth degree."""
        result: Floats = matrices * self._weights[:, None, None, None] ** 0.25
        return result

    def _count_noise(self, most: int) -> int:
        """Directions along which the minors are no more than noise makes of zeros: the states, and what follows them.

        Whether the states themselves fit is told later, and better, by `residual`.
        """
        for index in range(self._whole.shape[-1], most):
            if self.spectrum[index] > KERNEL_VARIANCES * self._noise_along(self._kernel.elements[index]):
                return index
        return most

    def _noise_along(self, element: Floats) -> float:
        """Sampling variance of all minors at W = ``element``, added up."""
        total = 0.0
        for action in range(len(self._whole)):
            checkpoint()
            minors = [_minors(whitened[action], element) for whitened in self._whitened_replicates]
            total += float(jackknife_variance(minors).sum())
        return total

    @cached_property
    def _whitened_replicates(self) -> list[Floats]:
        return [self._kernel.whitening(self._weighted(matrices)) for matrices in self._replicates]

    # --- from the kernel to the states ------------------------------------------------------------------

    def basis(self, draws: int, rng: np.random.Generator, *, newton: bool) -> Floats:
        """The change of basis P (columns up to scale) whose states the kernel consists of.

        Elements of the kernel are ``sum_s lambda_s w_s w_s^T``: congruent to diagonal matrices by one and the same
        transform. One of them inverted times all others is a family that is diagonal in P.
        """
        n = self._whole.shape[-1]
        elements = self._kernel.elements[:n]
        reference = self._reference(elements, rng)
        start = random_basis(linalg.inverse(reference) @ elements, np.ones(n), draws, rng).matrix
        oriented = linalg.inverse(self._kernel.whitening.left.T) @ start
        if newton:
            oriented = self._refined(oriented)
        return oriented if self._emission == "departure" else linalg.inverse(oriented).T

    def _reference(self, elements: Floats, rng: np.random.Generator) -> Floats:
        candidates = np.einsum("rk,kij->rij", rng.standard_normal((_REFERENCES, len(elements))), elements)
        conditions = [linalg.condition(candidate) for candidate in candidates]
        if min(conditions) > _MAX_CONDITION:
            raise NumericalError(
                "the minors of the update matrices vanish only for singular mixtures of states: the process does not "
                "fit this emission convention or rank. Try the other emission, or another rank"
            )
        result: Floats = candidates[int(np.argmin(conditions))]
        return result

    def _refined(self, start: Floats) -> Floats:
        """Newton steps on what is left beside rank one; the best basis met.

        A change ``P (1 + E)`` moves the part of state s that is not of rank one, to first order, only by E_st for
        t != s: for every state a linear least-squares problem over all actions.
        """
        basis = self._scaled(start)
        best, least = basis, np.inf
        for step in range(_NEWTON_STEPS):
            report("separating states", step, _NEWTON_STEPS)
            outside = self._outside(self._whole, self._leading(basis), basis)
            left = float((np.einsum("ssaok->saok", outside) ** 2).sum())
            change = _least_squares_change(outside)
            size = float(linalg.singular_values(change)[0])
            if left < least:
                best, least = basis, left
            elif size < 1e-6:
                break
            if size < 1e-15:
                break
            basis = self._scaled(basis @ (np.eye(len(basis)) + change * min(1.0, _TRUST / size)))
            if linalg.condition(basis) > _MAX_CONDITION:
                break
        return best

    def _scaled(self, basis: Floats) -> Floats:
        """Columns scaled so that the final vector of the PSR becomes one, where that is possible."""
        if self._emission == "departure":
            scale = linalg.inverse(basis) @ self._final
        else:
            weights = basis.T @ self._final
            scale = np.divide(1.0, weights, out=np.zeros_like(weights), where=weights != 0)
        usable = np.abs(scale).min() > 1e-10 * np.abs(scale).max()
        result: Floats = basis * (scale if usable else 1 / np.sqrt((basis**2).sum(axis=0)))
        return result

    def _leading(self, basis: Floats) -> tuple[Floats, Floats]:
        """Leading singular vectors of every state's matrix: (states, actions, observations), (states, actions, n)."""
        states = _by_state(self._whole, basis)
        n, n_actions, n_observations, _ = states.shape
        left, right = np.empty((n, n_actions, n_observations)), np.empty((n, n_actions, n))
        for s in range(n):
            for a in range(n_actions):
                u, _, v = linalg.svd(states[s, a])
                left[s, a], right[s, a] = u[:, 0], v[:, 0]
        return left, right

    def _outside(self, matrices: Floats, leading: tuple[Floats, Floats], basis: Floats) -> Floats:
        """``outside[s, t]``: state t's matrices (actions, observations, n) without the leading vectors of state s."""
        left, right = leading
        states = _by_state(matrices, basis) * np.sqrt(self._weights)[:, None, None]
        across = states - left[:, None, :, :, None] * np.einsum("sao,taok->stak", left, states)[:, :, :, None]
        along = np.einsum("staok,sak->stao", across, right)
        result: Floats = across - along[..., None] * right[:, None, :, None]
        return result

    def residual(self, basis: Floats) -> tuple[float, float]:
        """Sum of squares beside rank one in the basis P, and what noise alone would leave there."""
        oriented = basis if self._emission == "departure" else linalg.inverse(basis).T
        leading = self._leading(oriented)

        def own(matrices: Floats) -> Floats:
            result: Floats = np.einsum("ssaok->saok", self._outside(matrices, leading, oriented))
            return result

        noise = jackknife_variance([own(replicate) for replicate in self._replicates])
        return float((own(self._whole) ** 2).sum()), float(noise.sum())


def _by_state(matrices: Floats, basis: Floats) -> Floats:
    """Matrices in the coordinates of a basis, (states, actions, observations, n)."""
    result: Floats = (linalg.inverse(basis) @ matrices @ basis).transpose(2, 0, 1, 3)
    return result


def _least_squares_change(outside: Floats) -> Floats:
    """The first-order change of basis that takes away most of what is beside rank one."""
    n = len(outside)
    change = np.zeros((n, n))
    for s in range(n):
        others = np.arange(n) != s
        columns = outside[s].reshape(n, -1).T
        change[s, others] = linalg.least_squares(columns[:, others], columns[:, s])
    return change
