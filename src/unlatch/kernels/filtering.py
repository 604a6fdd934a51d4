"""The forward filter of the triple (initial, updates, final)."""

from __future__ import annotations

import numpy as np

from unlatch.kernels._jit import kernel


@kernel
def move(belief, matrix, after):  # type: ignore[no-untyped-def]
    """``after`` becomes ``belief @ matrix``."""
    k = belief.shape[0]
    for j in range(k):
        after[j] = 0.0
    for i in range(k):
        weight = belief[i]
        if weight != 0.0:
            for j in range(k):
                after[j] += weight * matrix[i, j]


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
        move(belief, matrix, after)
        probability = 0.0
        for j in range(k):
            probability += after[j] * final[j]
        if not probability > 0.0:
            return total, t
        for j in range(k):
            belief[j] = after[j] / probability
        total += np.log(probability)
    return total, actions.shape[0]


@kernel
def predict_steps(updates, shown, initial, anything, belief, begins, actions, observations, predicted):  # type: ignore[no-untyped-def]
    """Predict what every step shows before it is seen; ``belief`` is advanced in place.

    ``shown[a, c, i]`` is the probability that coordinate ``i`` shows class ``c`` of observations under action
    ``a``; ``predicted[t, c]`` becomes that of class ``c`` at step ``t``. The belief is ``initial`` where an
    episode begins, and ``anything`` after an observation that is impossible under it. Returns how many were.
    """
    k = belief.shape[0]
    after = np.empty(k)
    impossible = 0
    for t in range(actions.shape[0]):
        if begins[t]:
            belief[:] = initial
        action = actions[t]
        for c in range(predicted.shape[1]):
            probability = 0.0
            for i in range(k):
                probability += belief[i] * shown[action, c, i]
            predicted[t, c] = probability
        matrix = updates[action, observations[t]]
        move(belief, matrix, after)
        total = 0.0
        for j in range(k):
            total += after[j]
        if total > 0.0:
            for j in range(k):
                belief[j] = after[j] / total
        else:
            impossible += 1
            belief[:] = anything
    return impossible


@kernel
def add_residuals(predicted, classes, groups, deviations, covariances):  # type: ignore[no-untyped-def]
    """Add every step's residual, what was seen less what was predicted, and its covariance under the
    prediction, to those of the step's group; a step with a negative group is left out."""
    n = predicted.shape[1]
    for t in range(predicted.shape[0]):
        g = groups[t]
        if g < 0:
            continue
        deviations[g, classes[t]] += 1.0
        for c in range(n):
            p = predicted[t, c]
            deviations[g, c] -= p
            covariances[g, c, c] += p
            for d in range(n):
                covariances[g, c, d] -= p * predicted[t, d]
