"""Sampling trajectories of a POMDP under a policy that knows the last observation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unlatch.kernels._jit import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


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


class Laws(NamedTuple):
    """What every choice of a simulated episode is drawn from, cumulative along the last axis."""

    starting: Floats  # (S,)
    first: Floats  # (S, K): what is shown before the first action; K is 0 if nothing is
    openings: Ints  # (max(K, 1),): the row of the policy that chooses the first action
    policy: Floats  # (rows, A)
    moves: Floats  # (A, S, S): this and the following as `possible_outcomes` makes them
    targets: Ints
    shows: Floats  # (A, S, O)
    symbols: Ints
    pays: Floats  # (A, S, R): rewards beside the observation; R is 0 if there are none
    rewards: Ints
    ends: Flags  # (S,): whether a state ends the episode
    arrival: bool
    longest: int  # the most steps of an episode


@kernel
def simulate_steps(  # type: ignore[no-untyped-def]
    laws, place, episodes, uniforms, actions, observations, rewards, ended, starts, firsts
):
    """Fill the output arrays while uniform numbers last: (steps, uniform numbers used, episodes begun).

    ``place`` is where the log stands and is moved along: the state (negative where an episode is to begin), the row of
    the policy, the steps of the episode so far. At most ``episodes`` are begun. An episode takes a number for its state
    and one for its first observation, if there is one; a step takes one for the action, the observation, the next state
    and the reward beside them, if there is one. Later actions are chosen by the row of the last observation. ``starts``
    and ``firsts`` get the step and the first observation of every episode begun; ``rewards`` and ``ended`` are empty if
    the model knows of neither.
    """
    policy, moves, targets = laws.policy, laws.moves, laws.targets
    shows, symbols, arrival = laws.shows, laws.symbols, laws.arrival
    opens, paid, ending = laws.first.shape[1] > 0, laws.pays.shape[2] > 0, ended.shape[0] > 0
    state, row, age = place[0], place[1], place[2]
    width = 4 if paid else 3
    used, begun, t = 0, 0, 0
    while t < actions.shape[0]:
        beginning = (2 if opens else 1) if state < 0 else 0
        if used + beginning + width > uniforms.shape[0]:
            break
        if state < 0:
            if begun == episodes:
                break
            state = draw(laws.starting, uniforms[used])
            row = laws.openings[0]
            if opens:
                firsts[begun] = draw(laws.first[state], uniforms[used + 1])
                row = laws.openings[firsts[begun]]
            starts[begun] = t
            begun += 1
            used += beginning
            age = 0
        action = draw(policy[row], uniforms[used])
        k = 0
        while uniforms[used + 2] >= moves[action, state, k]:
            k += 1
        following = targets[action, state, k]
        source = following if arrival else state
        k = 0
        while uniforms[used + 1] >= shows[action, source, k]:
            k += 1
        actions[t] = action
        observations[t] = symbols[action, source, k]
        if paid:
            k = 0
            while uniforms[used + 3] >= laws.pays[action, state, k]:
                k += 1
            rewards[t] = laws.rewards[action, state, k]
        row = observations[t]
        state = following
        age += 1
        if ending:
            ended[t] = laws.ends[state]
        if age == laws.longest or (ending and laws.ends[state]):
            state = -1
        used += width
        t += 1
    place[0], place[1], place[2] = state, row, age
    return t, used, begun
