"""Sampling trajectories of a POMDP under a memoryless policy."""

from __future__ import annotations

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
def simulate_steps(  # type: ignore[no-untyped-def]
    policy, transitions, observations, arrival, state, uniforms, out_actions, out_observations
):
    """Fill the output arrays from ``state`` on; returns the state after the last step.

    policy (A,), transitions (A, S, S) and observations (A, S, O) are cumulative along their last axis;
    uniforms has three columns: for the action, the observation and the next state.
    """
    for t in range(out_actions.shape[0]):
        action = draw(policy, uniforms[t, 0])
        following = draw(transitions[action, state], uniforms[t, 2])
        source = following if arrival else state
        out_actions[t] = action
        out_observations[t] = draw(observations[action, source], uniforms[t, 1])
        state = following
    return state
