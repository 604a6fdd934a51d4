"""Stage 4: the linear predictive state representation in the basis of the right singular vectors."""

from __future__ import annotations

import numpy as np

from unlatch import linalg
from unlatch.arrays import Floats
from unlatch.core.budget import checkpoint
from unlatch.core.psr import PSR
from unlatch.errors import DataError
from unlatch.learn.spectral.factorize import RankFactorization
from unlatch.learn.spectral.hankel import HankelMatrix

__all__ = ["fit_psr"]


def fit_psr(hankel: HankelMatrix, factorization: RankFactorization) -> PSR:
    """Solve the paper's Eqs. (5)-(7) for the triple, and once more for every replicate of the matrix.

    Every replicate uses the same singular vectors, so that all share one basis and can be compared entry
    by entry.

    Examples
    --------
    >>> import unlatch
    >>> hankel = unlatch.exact_hankel(unlatch.domains.tiger(), history_length=2, test_length=1)
    >>> unlatch.fit_psr(hankel, unlatch.factorize(hankel))
    PSR(rank 2, 3 actions, 6 observations)
    """
    if factorization.left.shape[0] != hankel.shape[0] or factorization.right.shape[0] != hankel.shape[1]:
        raise DataError("this factorization belongs to another Hankel matrix")
    replicates = tuple(_solve(replicate, factorization) for replicate in hankel.replicates)
    return _solve(hankel, factorization, replicates)


def _solve(hankel: HankelMatrix, factors: RankFactorization, replicates: tuple[PSR, ...] = ()) -> PSR:
    checkpoint()
    u, v = factors.left, factors.right
    n_actions, n_observations = len(hankel.action_names), len(hankel.observation_names)
    core = linalg.inverse(u.T @ (hankel.matrix @ v))  # (U^T H V)^-1 U^T is the pseudoinverse of A
    projected = (hankel.extended @ v).reshape(hankel.n_pairs, hankel.shape[0], factors.rank)
    updates = core @ (u.T @ projected)  # Eq. (5)
    return PSR(
        initial=hankel.empty_history @ v,  # Eq. (6)
        updates=_by_action(updates, n_actions, n_observations),
        final=core @ (u.T @ hankel.empty_test),  # Eq. (7)
        action_names=hankel.action_names,
        observation_names=hankel.observation_names,
        symbol_rewards=hankel.symbol_rewards,
        replicates=replicates,
    )


def _by_action(updates: Floats, n_actions: int, n_observations: int) -> Floats:
    rank = updates.shape[-1]
    result: Floats = np.reshape(updates, (n_actions, n_observations, rank, rank))
    return result
