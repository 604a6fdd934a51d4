"""The forward filter of the triple (initial, updates, final)."""

from __future__ import annotations

import numpy as np

from unlatch.kernels._jit import kernel


@kernel
def filter_steps(updates, final, belief, actions, observations):  # type: ignore[no-untyped-def]
    """Advance ``belief`` (in place) through the steps, normalized after each.

    Returns (log-likelihood, steps done). Fewer steps done than given means that the next observation has
    no positive probability under the belief before it, which is left in ``belief``.
    """
    k = belief.shape[0]
    after = np.empty(k)
    total = 0.0
    for t in range(actions.shape[0]):
        matrix = updates[actions[t], observations[t]]
        for j in range(k):
            after[j] = 0.0
        for i in range(k):
            weight = belief[i]
            if weight != 0.0:
                for j in range(k):
                    after[j] += weight * matrix[i, j]
        probability = 0.0
        for j in range(k):
            probability += after[j] * final[j]
        if not probability > 0.0:
            return total, t
        for j in range(k):
            belief[j] = after[j] / probability
        total += np.log(probability)
    return total, actions.shape[0]
