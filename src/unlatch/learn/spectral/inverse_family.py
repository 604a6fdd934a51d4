"""The matrices that share the hidden states as eigenvectors, and how noisy they are."""

from __future__ import annotations

import numpy as np

from unlatch import linalg
from unlatch.arrays import Floats
from unlatch.core.partition import Partition
from unlatch.core.pomdp import Emission
from unlatch.core.psr import PSR
from unlatch.learn.observability import same_rows
from unlatch.learn.significance import EXACT, FROZEN_SIGMAS, jackknife_variance
from unlatch.learn.spectral.joint_diagonalization import diagonals

__all__ = ["InverseFamily"]


class InverseFamily:
    """``M[a,o] M[a]^-1`` (departure) or ``M[a]^-1 M[a,o]`` (arrival) over full-rank actions."""

    def __init__(self, psr: PSR, actions: tuple[int, ...], emission: Emission, *, weighted: bool) -> None:
        self.n_actions, self.n_observations = len(actions), psr.n_observations
        self.whole = _observation_matrices(psr, actions, emission)
        self.replicates = [_observation_matrices(r, actions, emission) for r in psr.replicates]
        self.weights = self._noise_weights() if weighted else np.ones(len(self.whole))

    def _noise_weights(self) -> Floats:
        """Inverse variances, one per action, the largest being one."""
        if not self.replicates:
            return np.ones(len(self.whole))
        variance = jackknife_variance(self.replicates).reshape(self.n_actions, -1).mean(axis=1)
        weights = (
            variance.min() / np.maximum(variance, 1e-300) if variance.min() > 0 else np.ones(self.n_actions)
        )
        return np.repeat(weights, self.n_observations)

    def _diagonal_replicates(self, basis: Floats) -> list[Floats]:
        return [diagonals(replicate, basis) for replicate in self.replicates]

    def frozen_gaps(self, basis: Floats) -> Floats:
        """Squared weighted gap (n, n) up to which two states' diagonals differ by no more than noise."""
        n = len(basis)
        if not self.replicates:
            return np.full((n, n), EXACT**2)
        gaps = [d[:, None, :] - d[:, :, None] for d in self._diagonal_replicates(basis)]
        noise = np.einsum("k,kij->ij", self.weights, jackknife_variance(gaps))
        result: Floats = FROZEN_SIGMAS**2 * noise + EXACT**2
        return result

    def partition(self, basis: Floats, tolerance: float | None) -> Partition:
        """Cells of states whose rows agree under every full-rank action, closed under transitivity."""
        if not self.replicates:
            return same_rows(self._as_rows(diagonals(self.whole, basis)), tolerance=tolerance)
        replicates = [self._as_rows(d) for d in self._diagonal_replicates(basis)]
        deviations = np.sqrt(jackknife_variance([rows[:, :, None] - rows[:, None] for rows in replicates]))
        return same_rows(self._as_rows(diagonals(self.whole, basis)), deviations, tolerance=tolerance)

    def _as_rows(self, d: Floats) -> Floats:
        """Eigenvalues (matrices, states) as observation rows, (full-rank actions, states, observations)."""
        rows: Floats = d.reshape(self.n_actions, self.n_observations, -1).transpose(0, 2, 1)
        return rows

    def row_variances(self, transform: Floats, partition: Partition) -> Floats:
        """Sampling variances of `rows`."""
        variance = jackknife_variance([self.rows(r, transform, partition) for r in self.replicates])
        result: Floats = np.broadcast_to(variance, self.rows(self.whole, transform, partition).shape)
        return result

    def rows(self, matrices: Floats, transform: Floats, partition: Partition) -> Floats:
        """Observation rows (full-rank actions, states, observations), equal within a cell."""
        d = diagonals(matrices, transform)
        sizes = np.bincount(partition.labels)
        return self._as_rows((partition.sums(d) / sizes)[:, partition.labels])

    def noise_residual(self, basis: Floats) -> float:
        """What sampling noise alone would leave outside the diagonals (weighted sum of squares)."""
        if not self.replicates:
            return 0.0
        inverse = linalg.inverse(basis)
        variance = jackknife_variance([inverse @ replicate @ basis for replicate in self.replicates])
        inside = np.einsum("kii->ki", variance).sum(axis=1)
        return float(self.weights @ (variance.sum(axis=(1, 2)) - inside))


def _observation_matrices(psr: PSR, actions: tuple[int, ...], emission: Emission) -> Floats:
    matrices = []
    for action in actions:
        inverse = linalg.inverse(psr.updates[action].sum(axis=0))
        if emission == "departure":
            matrices.append(psr.updates[action] @ inverse)  # Eq. (15)
        else:
            matrices.append(inverse @ psr.updates[action])
    return np.concatenate(matrices)
