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
def predict_steps(updates, shown, starts, anything, belief, begins, actions, events, predicted):  # type: ignore[no-untyped-def]
    """Predict what every step shows before it is seen; ``belief`` is advanced in place.

    ``shown[a, c, i]`` is the probability that coordinate ``i`` shows class ``c`` of events under action
    ``a``; ``predicted[t, c]`` becomes that of class ``c`` at step ``t``. The belief is ``starts[begins[t]]`` where an
    episode begins (``begins`` is negative elsewhere), and ``anything`` after an event that is impossible under it.
    Returns how many were.
    """
    k = belief.shape[0]
    after = np.empty(k)
    impossible = 0
    for t in range(actions.shape[0]):
        if begins[t] >= 0:
            belief[:] = starts[begins[t]]
        action = actions[t]
        for c in range(predicted.shape[1]):
            probability = 0.0
            for i in range(k):
                probability += belief[i] * shown[action, c, i]
            predicted[t, c] = probability
        matrix = updates[action, events[t]]
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


@kernel
def predict_rows(updates, final, shows, belief, actions, observations, rows):  # type: ignore[no-untyped-def]
    """``rows[t, o]`` becomes the probability of ``o`` at step ``t``; ``belief`` is advanced in place.

    ``shows[a, i, o]`` is the probability of ``o`` under ``a``, linear in the belief. Returns the steps done, fewer
    than given if the next observation has no positive probability.
    """
    k = belief.shape[0]
    after = np.empty(k)
    for t in range(actions.shape[0]):
        action = actions[t]
        for o in range(rows.shape[1]):
            rows[t, o] = 0.0
        for i in range(k):
            weight = belief[i]
            if weight != 0.0:
                for o in range(rows.shape[1]):
                    rows[t, o] += weight * shows[action, i, o]
        move(belief, updates[action, observations[t]], after)
        probability = 0.0
        for j in range(k):
            probability += after[j] * final[j]
        if not probability > 0.0:
            return t
        for j in range(k):
            belief[j] = after[j] / probability
    return actions.shape[0]


@kernel
def forward_rows(updates, belief, actions, observations, reached, rows):  # type: ignore[no-untyped-def]
    """``rows[t]`` becomes the belief before step ``t``, or after it if ``reached``; ``belief`` is advanced in place.

    Returns the steps done, fewer than given if the next observation is impossible.
    """
    k = belief.shape[0]
    after = np.empty(k)
    for t in range(actions.shape[0]):
        move(belief, updates[actions[t], observations[t]], after)
        probability = 0.0
        for j in range(k):
            probability += after[j]
        if not probability > 0.0:
            return t
        for j in range(k):
            if not reached:
                rows[t, j] = belief[j]
            belief[j] = after[j] / probability
            if reached:
                rows[t, j] = belief[j]
    return actions.shape[0]


@kernel
def weigh_row(row, later):  # type: ignore[no-untyped-def]
    """Multiply a belief (in place) by what later steps say of its states, and make it a distribution.

    ``later`` is scaled to a largest entry of one among the states that are possible, and is zero at the others:
    without that a likely but impossible state could push the possible ones below the smallest float. Returns False,
    and leaves the belief, if nothing remains.
    """
    largest = 0.0
    for i in range(row.shape[0]):
        if row[i] > 0.0:
            largest = max(largest, later[i])
        else:
            later[i] = 0.0
    if not largest > 0.0:
        return False
    total = 0.0
    for i in range(row.shape[0]):
        later[i] /= largest
        row[i] *= later[i]
        total += row[i]
    for i in range(row.shape[0]):
        row[i] /= total
    return True


@kernel
def smooth_rows(updates, later, actions, observations, reached, rows):  # type: ignore[no-untyped-def]
    """Turn the beliefs of `forward_rows` into distributions given the whole episode, from the last step back.

    ``later`` (in place) is the probability of all that follows, by state and up to a factor. Returns False if that
    is lost in underflow.
    """
    k = later.shape[0]
    before = np.empty(k)
    for t in range(actions.shape[0] - 1, -1, -1):
        if reached and not weigh_row(rows[t], later):
            return False
        matrix = updates[actions[t], observations[t]]
        for i in range(k):
            before[i] = 0.0
            for j in range(k):
                before[i] += matrix[i, j] * later[j]
        largest = 0.0
        for i in range(k):
            largest = max(largest, before[i])
        if not largest > 0.0:
            return False
        for i in range(k):
            later[i] = before[i] / largest
        if not reached and not weigh_row(rows[t], later):
            return False
    return True


@kernel
def viterbi_steps(log_updates, scores, actions, observations, came_from):  # type: ignore[no-untyped-def]
    """Advance ``scores`` (in place), the log-probability of the best path to every state relative to the best of
    all; ``came_from[t, j]`` becomes the state before on that path. False if no path is possible."""
    k = scores.shape[0]
    after = np.empty(k)
    for t in range(actions.shape[0]):
        matrix = log_updates[actions[t], observations[t]]
        best = -np.inf
        for j in range(k):
            source = 0
            highest = -np.inf
            for i in range(k):
                score = scores[i] + matrix[i, j]
                if score > highest:
                    highest = score
                    source = i
            came_from[t, j] = source
            after[j] = highest
            best = max(best, highest)
        if best == -np.inf:
            return False
        for j in range(k):
            scores[j] = after[j] - best
    return True


@kernel
def trace_back(came_from, last, reached, path):  # type: ignore[no-untyped-def]
    """Fill ``path`` with the states that lead to ``last``: those left by every step, or those reached."""
    state = last
    for t in range(path.shape[0] - 1, -1, -1):
        following = state
        state = int(came_from[t, state])
        path[t] = following if reached else state
