"""Slow, readable twins of the kernels: what they must equal. And random models to try both on."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unlatch import POMDP, PSR, SequenceCounts, Trajectory

Window = tuple[tuple[int, int], ...]
"""A sequence of (action, observation) pairs."""


# --- counting -------------------------------------------------------------------------------------------


def count_windows(log: Trajectory, longest: int) -> dict[Window, int]:
    """How often every window of up to ``longest`` pairs occurs inside an episode."""
    counts: dict[Window, int] = {}
    pairs = list(zip(log.actions.tolist(), log.observations.tolist(), strict=True))
    for start, end in zip(log.episode_starts.tolist(), log.episode_ends.tolist(), strict=True):
        for t in range(start, end):
            for stop in range(t + 1, min(t + longest, end) + 1):
                window = tuple(pairs[t:stop])
                counts[window] = counts.get(window, 0) + 1
    return counts


def noise_block(step: int) -> int:
    """The block whose turn it is: eight of 64 steps, then eight of 128, and so on."""
    quota = 64
    while step >= 8 * quota:
        step -= 8 * quota
        quota *= 2
    return step // quota


def count_windows_by_block(log: Trajectory, length: int, blocks: int) -> dict[Window, list[int]]:
    """How often every window of ``length`` pairs begins in each block."""
    counts: dict[Window, list[int]] = {}
    pairs = list(zip(log.actions.tolist(), log.observations.tolist(), strict=True))
    for start, end in zip(log.episode_starts.tolist(), log.episode_ends.tolist(), strict=True):
        for t in range(start, end - length + 1):
            window = tuple(pairs[t : t + length])
            counts.setdefault(window, [0] * blocks)[noise_block(t)] += 1
    return counts


def weigh_windows_by_block(log: Trajectory, length: int, blocks: int) -> dict[Window, list[float]]:
    """As `count_windows_by_block`, but a window counts one over the probability of its actions."""
    weights: dict[Window, list[float]] = {}
    pairs = list(zip(log.actions.tolist(), log.observations.tolist(), strict=True))
    for start, end in zip(log.episode_starts.tolist(), log.episode_ends.tolist(), strict=True):
        for t in range(start, end - length + 1):
            weight = 1 / math.prod(log.probabilities[t : t + length].tolist())
            weights.setdefault(tuple(pairs[t : t + length]), [0.0] * blocks)[noise_block(t)] += weight
    return weights


def spelled_out(counts: SequenceCounts) -> dict[Window, int]:
    """What was counted, as the dictionary that `count_windows` gives."""
    return {
        tuple(divmod(symbol, counts.n_observations) for symbol in window): total
        for table in counts.tables
        for window, total in zip(table.symbols().tolist(), table.totals.tolist(), strict=True)
    }


def big_number(symbols: Sequence[int], base: int) -> int:
    """The symbols as the digits of one (arbitrarily large) integer, the first the most significant."""
    number = 0
    for symbol in symbols:
        number = number * base + int(symbol)
    return number


# --- probabilities --------------------------------------------------------------------------------------


def path_probability(pomdp: POMDP, actions: Sequence[int], observations: Sequence[int]) -> float:
    """``P(observations | actions)`` from ``initial``: the sum over every path of hidden states."""
    total = 0.0
    for path in itertools.product(range(pomdp.n_states), repeat=len(actions) + 1):
        probability = pomdp.initial[path[0]]
        for t, (action, observation) in enumerate(zip(actions, observations, strict=True)):
            shower = path[t] if pomdp.emission == "departure" else path[t + 1]
            probability *= pomdp.transitions[action, path[t], path[t + 1]]
            probability *= pomdp.observations[action, shower, observation]
        total += probability
    return float(total)


def log_probability(pomdp: POMDP, log: Trajectory) -> float:
    """``log P(log | actions)`` with all that model and log both know of, as a sum over every path of states."""
    return sum(math.log(episode_probability(pomdp, log, k)) for k in range(log.n_episodes))


def episode_probability(pomdp: POMDP, log: Trajectory, episode: int) -> float:
    """That of one episode, not as a logarithm."""
    start, end = int(log.episode_starts[episode]), int(log.episode_ends[episode])
    total = 0.0
    for path in itertools.product(range(pomdp.n_states), repeat=end - start + 1):
        probability = pomdp.initial[path[0]]
        if pomdp.first_observations is not None and log.first_observations is not None:
            probability *= pomdp.first_observations[path[0], log.first_observations[episode]]
        for t, (left, reached) in enumerate(itertools.pairwise(path), start=start):
            action, over = log.actions[t], reached in pomdp.terminal
            shower = left if pomdp.emission == "departure" else reached
            probability *= pomdp.transitions[action, left, reached]
            probability *= pomdp.observations[action, shower, log.observations[t]]
            if pomdp.reward_probabilities is not None and log.rewards is not None:
                paid = pomdp.reward_values.tolist().index(log.rewards[t])
                probability *= pomdp.reward_probabilities[action, left, paid]
            if pomdp.terminal and log.terminated is not None:
                probability *= over == log.terminated[t]
            elif pomdp.terminal and t < end - 1:  # whatever the log tells, the episode went on
                probability *= not over
        total += probability
    return float(total)


def filter_steps(
    model: PSR, actions: Sequence[int], observations: Sequence[int]
) -> tuple[float, list[float], int]:
    """Log-likelihood, last belief and number of steps until an observation has no positive probability."""
    belief = model.initial.tolist()
    k = len(belief)
    total = 0.0
    for t, (action, observation) in enumerate(zip(actions, observations, strict=True)):
        matrix = model.updates[action, observation].tolist()
        after = [sum(belief[i] * matrix[i][j] for i in range(k)) for j in range(k)]
        probability = sum(after[j] * model.final[j] for j in range(k))
        if not probability > 0:
            return total, belief, t
        belief = [value / probability for value in after]
        total += math.log(probability)
    return total, belief, len(actions)


def all_paths(
    pomdp: POMDP, actions: Sequence[int], observations: Sequence[int]
) -> list[tuple[tuple[int, ...], float]]:
    """Every path of hidden states, one more than steps, with its probability and that of what was seen."""
    found = []
    for path in itertools.product(range(pomdp.n_states), repeat=len(actions) + 1):
        probability = float(pomdp.initial[path[0]])
        for t, (action, observation) in enumerate(zip(actions, observations, strict=True)):
            shower = path[t] if pomdp.emission == "departure" else path[t + 1]
            probability *= float(pomdp.transitions[action, path[t], path[t + 1]])
            probability *= float(pomdp.observations[action, shower, observation])
        found.append((path, probability))
    return found


def predict_rows(model: PSR, actions: Sequence[int], observations: Sequence[int]) -> list[list[float]]:
    """Probability of every observation at every step, as a ratio of probabilities of sequences."""
    rows = []
    for t in range(len(actions)):
        before = model.probability(actions[:t], observations[:t])
        rows.append(
            [
                model.probability(actions[: t + 1], [*observations[:t], o]) / before
                for o in range(model.n_observations)
            ]
        )
    return rows


def smooth_rows(
    model: PSR, actions: Sequence[int], observations: Sequence[int], *, reached: bool
) -> NDArray[np.float64]:
    """Distribution of every step's state given all steps: forward times backward products, never rescaled."""
    matrices = [model.updates[a, o] for a, o in zip(actions, observations, strict=True)]
    rows = []
    for t in range(len(matrices)):
        cut = t + 1 if reached else t
        forward, backward = model.initial, model.final
        for matrix in matrices[:cut]:
            forward = forward @ matrix
        for matrix in reversed(matrices[cut:]):
            backward = matrix @ backward
        rows.append(forward * backward / (forward @ backward))
    return np.array(rows)


# --- simulation -----------------------------------------------------------------------------------------


def draw(probabilities: Sequence[float], uniform: float) -> int:
    """The outcome in whose interval ``uniform`` falls; the last possible one if rounding leaves a gap."""
    total = 0.0
    last = 0
    for outcome, probability in enumerate(probabilities):
        if total + probability > total:
            last = outcome
            total += probability
            if uniform < total:
                return outcome
    return last


def simulate(
    pomdp: POMDP, uniforms: NDArray[np.float64], *, state: int, policy: ArrayLike | None = None
) -> tuple[list[int], list[int], int]:
    """Actions, observations and the last state; uniform numbers for the action, the observation, the state.

    A policy with several rows is asked for that of the last observation, and chooses uniformly if there is none.
    """
    blind = np.full(pomdp.n_actions, 1 / pomdp.n_actions)
    if policy is not None and np.ndim(policy) == 1:
        blind = np.asarray(policy)
    reacts = policy is not None and np.ndim(policy) == 2
    actions, observations = [], []
    for for_action, for_observation, for_state in uniforms:
        action = draw(policy[observations[-1]] if reacts and observations else blind, for_action)
        following = draw(pomdp.transitions[action, state], for_state)
        shower = state if pomdp.emission == "departure" else following
        actions.append(action)
        observations.append(draw(pomdp.observations[action, shower], for_observation))
        state = following
    return actions, observations, state


def simulate_episodes(
    pomdp: POMDP, rng: np.random.Generator, *, episodes: int, longest: int = 10_000
) -> Trajectory:
    """Episodes of uniform exploration, each to its end or to ``longest`` steps, with all that the model can show."""
    actions, observations, rewards, terminated, starts, first = [], [], [], [], [], []
    for _ in range(episodes):
        starts.append(len(actions))
        state = draw(pomdp.initial.tolist(), rng.random())
        if pomdp.first_observations is not None:
            first.append(draw(pomdp.first_observations[state].tolist(), rng.random()))
        for _ in range(longest):
            action = int(rng.integers(pomdp.n_actions))
            following = draw(pomdp.transitions[action, state].tolist(), rng.random())
            shower = state if pomdp.emission == "departure" else following
            actions.append(action)
            observations.append(draw(pomdp.observations[action, shower].tolist(), rng.random()))
            if pomdp.reward_probabilities is not None:
                paid = draw(pomdp.reward_probabilities[action, state].tolist(), rng.random())
                rewards.append(float(pomdp.reward_values[paid]))
            terminated.append(following in pomdp.terminal)
            state = following
            if terminated[-1]:
                break
    return Trajectory(
        actions,
        observations,
        pomdp.action_names,
        pomdp.observation_names,
        rewards=rewards or None,
        episode_starts=starts,
        terminated=terminated,
        first_observations=first or None,
        first_observation_names=pomdp.first_observation_names if first else None,
    )


def simulate_by(pomdp: POMDP, uniforms: Iterator[float], *, longest: int, steps: int) -> Trajectory:
    """A log of ``steps`` steps of a blind, uniform explorer in episodes of at most ``longest`` steps, with everything
    that the model knows; uniform numbers for the state and the first observation of an episode, then for the action,
    the observation, the next state and the reward of every step."""
    blind = np.full(pomdp.n_actions, 1 / pomdp.n_actions)
    rows: list[tuple[int, int, float, bool]] = []
    starts, firsts = [], []
    state = None
    while len(rows) < steps:
        if state is None:
            starts.append(len(rows))
            state = draw(pomdp.initial, next(uniforms))
            if pomdp.first_observations is not None:
                firsts.append(draw(pomdp.first_observations[state], next(uniforms)))
        action = draw(blind, next(uniforms))
        for_observation = next(uniforms)
        following = draw(pomdp.transitions[action, state], next(uniforms))
        shower = state if pomdp.emission == "departure" else following
        observation = draw(pomdp.observations[action, shower], for_observation)
        reward = 0.0
        if pomdp.reward_probabilities is not None:
            reward = pomdp.reward_values[draw(pomdp.reward_probabilities[action, state], next(uniforms))]
        rows.append((action, observation, reward, following in pomdp.terminal))
        over = following in pomdp.terminal or len(rows) - starts[-1] == longest
        state = None if over else following
    actions, observations, rewards, ended = zip(*rows, strict=True)
    return Trajectory(
        actions=actions,
        observations=observations,
        action_names=pomdp.action_names,
        observation_names=pomdp.observation_names,
        rewards=None if pomdp.reward_probabilities is None else rewards,
        episode_starts=starts,
        terminated=ended if pomdp.terminal else None,
        first_observations=firsts or None,
        first_observation_names=pomdp.first_observation_names or None,
    )


# --- the simplex ----------------------------------------------------------------------------------------


def project_to_simplex(row: ArrayLike) -> NDArray[np.float64]:
    """The nearest distribution: bisection for the threshold that leaves a total of one."""
    values = np.asarray(row, dtype=float)
    low, high = values.min() - 1.0, values.max()
    for _ in range(200):
        middle = (low + high) / 2
        if np.maximum(values - middle, 0).sum() > 1:
            low = middle
        else:
            high = middle
    return np.maximum(values - (low + high) / 2, 0)


# --- models ---------------------------------------------------------------------------------------------


def random_pomdp(
    rng: np.random.Generator,
    *,
    states: int = 3,
    actions: int = 2,
    observations: int = 3,
    emission: str = "departure",
    concentration: float = 1.0,
) -> POMDP:
    """All rows drawn from a symmetric Dirichlet distribution."""
    return POMDP(
        transitions=rng.dirichlet(np.full(states, concentration), (actions, states)),
        observations=rng.dirichlet(np.full(observations, concentration), (actions, states)),
        initial=rng.dirichlet(np.ones(states)),
        emission=emission,
    )


def random_episodic_pomdp(
    rng: np.random.Generator,
    *,
    states: int = 2,
    ends: int = 1,
    actions: int = 2,
    observations: int = 2,
    first: int = 0,
    rewards: int = 0,
    emission: str = "departure",
    ending: float = 0.2,
) -> POMDP:
    """A random model in which a step ends the episode with probability ``ending``; the last states are terminal."""
    plain = random_pomdp(rng, states=states, actions=actions, observations=observations)
    total = states + ends
    transitions = np.zeros((actions, total, total))
    transitions[:, :states, :states] = (1 - ending) * plain.transitions
    transitions[:, :states, states:] = ending * rng.dirichlet(np.ones(ends), (actions, states))
    transitions[:, states:, states:] = np.eye(ends)
    return POMDP(
        transitions=transitions,
        observations=rng.dirichlet(np.ones(observations), (actions, total)),
        initial=np.append(plain.initial, np.zeros(ends)),
        emission=emission,
        terminal=tuple(range(states, total)),
        first_observations=rng.dirichlet(np.ones(first), total) if first else None,
        first_observation_names=tuple("abcdef"[:first]) if first else None,
        reward_values=np.arange(rewards) - 1.0 if rewards else None,
        reward_probabilities=rng.dirichlet(np.ones(rewards), (actions, total)) if rewards else None,
    )


def random_episodic(rng: np.random.Generator, *, emission: str = "departure") -> POMDP:
    """Three states to act in and two in which an episode is over, first observations, and rewards beside the others."""
    transitions = rng.dirichlet(np.ones(5), (2, 5))
    transitions[:, 3:] = np.eye(5)[3:]
    initial = np.append(rng.dirichlet(np.ones(3)), [0.0, 0.0])
    return POMDP(
        transitions=transitions,
        observations=rng.dirichlet(np.ones(3), (2, 5)),
        initial=initial,
        emission=emission,
        terminal=(3, 4),
        first_observations=rng.dirichlet(np.ones(2), 5),
        first_observation_names=("dark", "bright"),
        reward_values=[-1.0, 0.0, 2.5],
        reward_probabilities=rng.dirichlet(np.ones(3), (2, 5)),
    )


def corridor(slip: float = 0.0, **options: object) -> POMDP:
    """Two places between a trap on the left, which costs one, and a goal on the right, which pays one; either ends it.

    A move goes the other way with probability ``slip``. What would be shown after the end is a placeholder on purpose:
    it pays for ever.
    """
    right = np.zeros((4, 4))
    right[0, [1, 2]] = 1 - slip, slip
    right[1, [3, 0]] = 1 - slip, slip
    left = np.zeros((4, 4))
    left[0, [2, 1]] = 1 - slip, slip
    left[1, [0, 3]] = 1 - slip, slip
    right[2:, 2:] = left[2:, 2:] = np.eye(2)
    fields = {
        "transitions": [left, right],
        "observations": np.tile(np.eye(4), (2, 1, 1)),
        "initial": [1.0, 0.0, 0.0, 0.0],
        "emission": "arrival",
        "action_names": ("left", "right"),
        "observation_names": ("near-trap|0", "near-goal|0", "trap|-1", "goal|1"),
        "state_names": ("near-trap", "near-goal", "trap", "goal"),
        "symbol_rewards": [0.0, 0.0, -1.0, 1.0],
        "terminal": ("trap", "goal"),
    }
    return POMDP(**{**fields, **options})  # type: ignore[arg-type]


def stationary_start(pomdp: POMDP) -> POMDP:
    """The same model begun in its stationary distribution under uniform exploration."""
    return POMDP(
        transitions=pomdp.transitions,
        observations=pomdp.observations,
        initial=pomdp.stationary(),
        emission=pomdp.emission,
        action_names=pomdp.action_names,
        observation_names=pomdp.observation_names,
        state_names=pomdp.state_names,
        symbol_rewards=pomdp.symbol_rewards,
    )


def distance_up_to_relabeling(model: POMDP, truth: POMDP) -> float:
    """Largest difference of any entry of any array, under the best matching of the states."""
    if model.n_states != truth.n_states:
        return math.inf
    candidates = (model.reordered(order) for order in itertools.permutations(range(truth.n_states)))
    return min(
        max(
            float(np.abs(candidate.transitions - truth.transitions).max()),
            float(np.abs(candidate.observations - truth.observations).max()),
            float(np.abs(candidate.initial - truth.initial).max()),
        )
        for candidate in candidates
    )


def blurred(model: POMDP, seed: int, weight: float = 0.1) -> POMDP:
    """The model mixed with random rows: near enough to climb back, without a single zero."""
    rng = np.random.default_rng(seed)

    def mixed(rows: np.ndarray) -> np.ndarray:
        return (1 - weight) * rows + weight * rng.dirichlet(np.ones(rows.shape[-1]), rows.shape[:-1])

    return replace(model, transitions=mixed(model.transitions), observations=mixed(model.observations))


# --- bounds of a solver ---------------------------------------------------------------------------------


def sawtooth(bound: Any, belief: NDArray[np.float64]) -> float:
    """An upper bound at a belief, of a solver without a horizon: by certainties, by every action, by every point."""
    corners = bound.corners[0]
    values = [float(belief @ corners), max(float(row @ belief) for row in bound.informed[0])]
    for i, value in enumerate(bound.values):
        own = slice(bound.starts[i], bound.starts[i + 1])
        states, weights = bound.states[own], bound.weights[own]
        share = min(belief[s] / w for s, w in zip(states, weights, strict=True))
        lowered = min(value - float(weights @ corners[states]), 0.0)
        values.append(float(belief @ corners) + share * lowered)
    return min(values[1], *values[:1], *values[2:])


def informed_bound(
    updates: NDArray[np.float64], rewards: NDArray[np.float64], discount: float, steps: int
) -> NDArray[np.float64]:
    """The fast informed bound after so many sweeps from zero, shape (actions, states)."""
    worth = np.zeros_like(rewards)
    for _ in range(steps):
        later = np.einsum("aest,bt->aesb", updates, worth)
        worth = rewards + discount * later.max(axis=3).sum(axis=1)
    return worth


def impossible_events(matrices: Any, initial: Any, log: Any, begins: Any) -> list[int]:
    """Events that no state allows which was possible before them; after one, whatever it leads to from any state is."""
    everything = set(range(len(initial)))
    states, found = everything, []
    for t, symbol in enumerate(log):
        if begins[t]:
            states = {int(s) for s in np.flatnonzero(initial)}
        after = _led_to(matrices[symbol], states)
        if not after:
            found.append(t)
            after = _led_to(matrices[symbol], everything) or everything
        states = after
    return found


def _led_to(matrix: Any, states: set[int]) -> set[int]:
    return {int(j) for s in states for j in np.flatnonzero(matrix[s])}
