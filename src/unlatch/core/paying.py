"""A problem as a model that pays its reward itself, so that logs of it have rewards and a learner can learn them."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from unlatch.arrays import Floats, Ints, own_errstate
from unlatch.core.emission import copied_names, with_emission
from unlatch.core.memory import require_memory
from unlatch.core.pomdp import POMDP
from unlatch.core.problem import Problem
from unlatch.core.trajectory import format_reward
from unlatch.errors import UsageError

__all__ = ["paying_model"]


@own_errstate
def paying_model(problem: Problem) -> POMDP:
    """The model of a problem with the reward paid by the model.

    A model that pays rewards already is returned as it is. Where the reward depends on the action and the state left
    alone, it is paid beside the observation; otherwise with it, by symbols such as ``goal|1``, and a state stands
    several times where what is paid on the way there differs.

    >>> import numpy as np
    >>> from unlatch import POMDP, Problem, Reward
    >>> door = POMDP([[[0.5, 0.5], [0.0, 1.0]]], [[[1.0, 0.0], [0.0, 1.0]]], [1.0, 0.0], "arrival")
    >>> paying_model(Problem(door, Reward.on_transitions([[0.0, 1.0]]))).reward_values.tolist()
    [0.0, 1.0]
    >>> paying_model(Problem(door, Reward.on_transitions([[[0.0, 1.0], [0.0, 0.0]]]))).observation_names
    ('0|0', '1|0', '1|1')
    """
    if not isinstance(problem, Problem) or not isinstance(problem.model, POMDP):
        raise UsageError("a Problem with a POMDP is needed: only states can pay")
    if problem.model.symbol_rewards is not None or problem.model.reward_values is not None:
        return problem.model
    table = problem.reward_table
    if table.shape[2:] == (1, 1):
        values, codes = np.unique(table[:, :, 0, 0], return_inverse=True)
        chances = np.eye(len(values))[codes.reshape(table.shape[:2])]
        return replace(problem.model, reward_values=values, reward_probabilities=chances)
    return _paying_symbols(with_emission(problem, "arrival"))


class _Class(NamedTuple):
    """How a state is reached by an action: which class every state belongs to that leads there (-1 for none), and what
    each class pays with every observation."""

    of: Ints
    pays: Floats


def _paying_symbols(problem: Problem) -> POMDP:
    model = problem.model
    assert isinstance(model, POMDP)
    classes = [
        [_classes(problem, model, a, t) for a in range(model.n_actions)] for t in range(model.n_states)
    ]
    copies = [max(1, *(len(own.pays) for own in row)) for row in classes]
    origin = np.repeat(np.arange(model.n_states), copies)
    first = np.concatenate([[0], np.cumsum(copies)[:-1]]).astype(np.int64)
    values = np.unique(np.concatenate([own.pays.ravel() for row in classes for own in row] or [np.zeros(1)]))
    size = model.n_actions * len(origin) * (len(origin) + model.n_observations * len(values))
    require_memory(24 * size, f"a model of {len(origin)} states that pays", "take fewer rewards")
    moves = np.zeros((model.n_actions, model.n_states, len(origin)))
    shows = np.zeros((model.n_actions, len(origin), model.n_observations, len(values)))
    for t, row in enumerate(classes):
        for a, own in enumerate(row):
            sources = np.flatnonzero(own.of >= 0)
            moves[a, sources, first[t] + own.of[sources]] = model.transitions[a, sources, t]
            for copy in range(copies[t]):
                pays = own.pays[copy] if copy < len(own.pays) else np.zeros(model.n_observations)
                codes = np.searchsorted(values, pays).clip(0, len(values) - 1)
                shows[a, first[t] + copy, np.arange(model.n_observations), codes] = model.observations[a, t]
    return _assembled(model, origin, first, moves, shows, values)


def _classes(problem: Problem, model: POMDP, action: int, state: int) -> _Class:
    live = model.going_on > 0
    sources = np.flatnonzero((model.transitions[action, :, state] > 0) & live)
    of = np.full(model.n_states, -1)
    if not len(sources):
        return _Class(of, np.zeros((0, model.n_observations)))
    table = problem.reward_table
    pays = table[action, sources, min(state, table.shape[2] - 1)]
    whole = np.broadcast_to(pays, (len(sources), model.n_observations))
    possible = np.where(model.observations[action, state] > 0, whole, 0.0)
    rows, codes = np.unique(possible, axis=0, return_inverse=True)
    of[sources] = codes.reshape(-1)
    return _Class(of, rows)


def _assembled(
    model: POMDP, origin: Ints, first: Ints, moves: Floats, shows: Floats, values: Floats
) -> POMDP:
    flat = shows.reshape(*shows.shape[:2], -1)
    used = np.flatnonzero(flat.any(axis=(0, 1)))
    whole = moves[:, origin]
    for state in model.terminal:
        here = np.flatnonzero(origin == state)
        whole[:, here] = 0.0
        whole[:, here, here] = 1.0
    initial = np.zeros(len(origin))
    initial[first] = model.initial
    rewards = values[used % len(values)]
    rows = model.first_observations
    return POMDP(
        transitions=whole,
        observations=flat[:, :, used],
        initial=initial,
        emission="arrival",
        action_names=model.action_names,
        observation_names=tuple(
            f"{model.observation_names[pair // len(values)]}|{format_reward(reward)}"
            for pair, reward in zip(used, rewards, strict=True)
        ),
        state_names=copied_names(model.state_names, origin),
        symbol_rewards=rewards,
        untried_actions=model.untried_actions,
        terminal=tuple(np.flatnonzero(np.isin(origin, model.terminal)).tolist()),
        first_observations=None if rows is None else rows[origin],
        first_observation_names=model.first_observation_names if rows is not None else None,  # type: ignore[arg-type]
    )
