"""The Hankel matrix of a model: the limit of an endless log, without noise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from unlatch import linalg
from unlatch.arrays import Floats, Ints
from unlatch.core.checks import frozen
from unlatch.core.pomdp import POMDP, checked_policy, reactive_chain
from unlatch.core.psr import PSR
from unlatch.errors import DataError, ResourceLimitError
from unlatch.learn.spectral.counting import check_lengths
from unlatch.learn.spectral.hankel import MAX_ENTRIES, HankelMatrix

__all__ = ["exact_hankel"]


def exact_hankel(
    model: POMDP | PSR, *, history_length: int, test_length: int, policy: ArrayLike | None = None
) -> HankelMatrix:
    """The limit of `estimate_hankel` for a log of infinite length: no noise, stationary start.

    Parameters
    ----------
    model : POMDP or PSR
    history_length, test_length : int
        As in `count_sequences`.
    policy : array, shape (actions,) or (observations, actions), optional
        The exploration whose stationary distribution histories start from, as in `simulate`; uniform by
        default.

    Examples
    --------
    >>> import unlatch
    >>> hankel = unlatch.exact_hankel(unlatch.domains.tiger(), history_length=2, test_length=1)
    >>> unlatch.factorize(hankel).rank  # as many as there are states
    2
    """
    check_lengths(history_length, test_length)
    psr = model.to_psr()
    start = _stationary_start(model, psr, policy)
    size = psr.rank
    updates = psr.updates.reshape(-1, size, size)
    forward = _grow(start[None, :], history_length - 1, lambda rows, u: rows @ u, updates, append=True)
    backward = _grow(psr.final[None, :], test_length, lambda rows, u: rows @ u.T, updates, append=False)
    histories = np.concatenate([vectors for vectors, _ in forward])
    tests = np.concatenate([vectors for vectors, _ in backward]).T
    if len(updates) * len(histories) * tests.shape[1] > MAX_ENTRIES:
        raise ResourceLimitError(
            f"the exact Hankel matrix has {len(histories)} histories, {tests.shape[1]} tests and "
            f"{len(updates)} pairs; choose shorter lengths"
        )
    return HankelMatrix(
        matrix=scipy.sparse.csr_array(histories @ tests),
        extended=scipy.sparse.csr_array(np.concatenate([histories @ update @ tests for update in updates])),
        empty_history=frozen(start @ tests),
        empty_test=frozen(histories @ psr.final),
        histories=tuple(sequences for _, sequences in forward),
        tests=tuple(sequences for _, sequences in backward),
        action_names=psr.action_names,
        observation_names=psr.observation_names,
        history_weights=frozen(np.ones(len(histories))),
        test_weights=frozen(np.ones(tests.shape[1])),
        history_scales=frozen(np.ones(len(histories))),
        test_scales=frozen(np.ones(tests.shape[1])),
        symbol_rewards=psr.symbol_rewards,
    )


def _stationary_start(model: POMDP | PSR, psr: PSR, policy: ArrayLike | None) -> Floats:
    if isinstance(model, POMDP):
        return model.stationary(policy)
    weights = checked_policy(policy, psr.n_actions, psr.n_observations)
    if weights.ndim == 2:
        chain = reactive_chain(psr.updates, weights)
        joint = linalg.fixed_point(chain, np.tile(psr.final, psr.n_observations))
        start: Floats = joint.reshape(psr.n_observations, psr.rank).sum(axis=0)
        return start
    mean = np.einsum("a,aoij->ij", weights, psr.updates)
    return linalg.fixed_point(mean, psr.final)


def _grow(
    seed: Floats, length: int, step: Callable[[Floats, Floats], Floats], updates: Floats, *, append: bool
) -> list[tuple[Floats, Ints]]:
    """Vectors and pair codes of all possible sequences of length 1..``length``, in lexicographic order.

    Sequences grow at their end (``append``) or at their front; impossible ones, whose vector is zero, are
    dropped, as they never occur in a log either.
    """
    levels: list[tuple[Floats, Ints]] = []
    vectors, sequences = seed, np.empty((1, 0), dtype=np.int64)
    pairs = np.arange(len(updates))[:, None]
    for _ in range(length):
        if len(vectors) * len(updates) > MAX_ENTRIES // 10:
            raise ResourceLimitError("too many sequences for an exact Hankel matrix; choose shorter lengths")
        vectors = np.concatenate([step(vectors, update) for update in updates])
        grown = [pairs.repeat(len(sequences), axis=0), np.tile(sequences, (len(pairs), 1))]
        sequences = np.concatenate(grown[::-1] if append else grown, axis=1)
        possible = np.flatnonzero(np.abs(vectors).max(axis=1) > 1e-14)
        if possible.size == 0:
            raise DataError("the model gives every sequence probability zero")
        order = possible[np.lexsort(sequences[possible].T[::-1])]
        vectors, sequences = vectors[order], sequences[order]
        levels.append((vectors, sequences))
    return levels
