"""Sampling trajectories of a POMDP under a policy that knows the last observation."""

from __future__ import annotations

import numpy as np

from unlatch.kernels._jit import kernel


@kernel
def draw(cumulative, uniform):  # type: ignore[no-untyped-def]
    """Index of the first cumulative weight above ``uniform``; never an outcome of zero probability.

    Rounding may leave the last cumulative weight below one; then the last outcome with mass is taken.
    """
    last = 0
    before = 0.0
    for i in range(cumulative.shape[0]):
        if cumulative[i] > before:
            last = i
            before = cumulative[i]
            if uniform < cumulative[i]:
                return i
    return last


@kernel
def possible_outcomes(cumulative):  # type: ignore[no-untyped-def]
    """Of every row (A, S, K) only the outcomes with mass, in order: their cumulative weights and indices.

    The last one's weight is infinite, so that rounding cannot lead past it. Rows of real models are short: this
    is most of the simulator's speed.
    """
    n_actions, n_states, size = cumulative.shape
    weights = np.full((n_actions, n_states, size), np.inf)
    outcomes = np.zeros((n_actions, n_states, size), dtype=np.int64)
    for a in range(n_actions):
        for s in range(n_states):
            count = 0
            before = 0.0
            for k in range(size):
                if cumulative[a, s, k] > before:
                    before = cumulative[a, s, k]
                    weights[a, s, count] = before
                    outcomes[a, s, count] = k
                    count += 1
            weights[a, s, max(count - 1, 0)] = np.inf
    return weights, outcomes


@kernel
def simulate_steps(  # type: ignore[no-untyped-def]
    policy, moves, targets, shows, symbols, arrival, state, row, uniforms, out_actions, out_observations
):
    """Fill the output arrays from ``state`` on; returns the state after the last step.

    policy (rows, A) is cumulative along its last axis; moves and targets (A, S, S), shows and symbols (A, S, O) are
    what `possible_outcomes` makes of transitions and observations; uniforms has three columns: for the action, the
    observation and the next state. ``row`` of the policy chooses the first action, later ones are chosen by the row of
    the last observation.
    """
    for t in range(out_actions.shape[0]):
        action = draw(policy[row], uniforms[t, 0])
        k = 0
        while uniforms[t, 2] >= moves[action, state, k]:
            k += 1
        following = targets[action, state, k]
        source = following if arrival else state
        k = 0
        while uniforms[t, 1] >= shows[action, source, k]:
            k += 1
        out_actions[t] = action
        out_observations[t] = symbols[action, source, k]
        row = out_observations[t]
        state = following
    return state
