"""A small language in which the domains are written: who shows what, who moves where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unlatch.arrays import Floats
from unlatch.core.memory import require_memory
from unlatch.core.pomdp import POMDP, Emission
from unlatch.core.trajectory import format_reward

Symbol = tuple[str, float] | str
"""An observation, with the reward that comes with it where the domain has rewards."""

Moves = Mapping[tuple[str, str], Mapping[str, float]]
Shows = Mapping[tuple[str, str], Mapping[Any, float]]  # Any: Symbol; a mapping's keys are invariant


def require_room(*, states: int, actions: int, symbols: int) -> None:
    """Refuse a domain whose arrays would not fit, before anything is made: twice, for the model keeps a copy."""
    require_memory(
        2 * 8 * actions * states * (states + symbols), f"a domain of {states} states", "ask for a smaller one"
    )


def build(
    *,
    states: Sequence[str],
    actions: Sequence[str],
    moves: Moves,
    shows: Shows,
    initial: Mapping[str, float],
    emission: Emission = "departure",
    terminal: Sequence[str] = (),
    first: Mapping[str, Mapping[str, float]] | None = None,
) -> POMDP:
    """Assemble a POMDP; (action, state) pairs absent from ``moves`` stay where they are.

    Observation symbols are numbered in the order in which ``shows`` first mentions them; so are those that ``first``
    says every state shows before the first action.
    """
    symbols = list(dict.fromkeys(symbol for row in shows.values() for symbol in row))
    state_index = {name: i for i, name in enumerate(states)}
    transitions = np.zeros((len(actions), len(states), len(states)))
    observations = np.zeros((len(actions), len(states), len(symbols)))
    for a, action in enumerate(actions):
        for s, state in enumerate(states):
            for following, probability in moves.get((action, state), {state: 1.0}).items():
                transitions[a, s, state_index[following]] += probability
            for symbol, probability in shows[action, state].items():
                observations[a, s, symbols.index(symbol)] += probability
    beginnings, beginning_names = _beginnings(states, first)
    return POMDP(
        transitions=transitions,
        observations=observations,
        initial=np.array([initial.get(state, 0.0) for state in states]),
        action_names=tuple(actions),
        observation_names=tuple(_symbol_name(symbol) for symbol in symbols),
        state_names=tuple(states),
        symbol_rewards=_rewards(symbols),
        emission=emission,
        terminal=tuple(state_index[state] for state in terminal),
        first_observations=beginnings,
        first_observation_names=beginning_names,
    )


def _beginnings(
    states: Sequence[str], first: Mapping[str, Mapping[str, float]] | None
) -> tuple[Floats | None, tuple[str, ...]]:
    """What every state shows before the first action, and the names of that."""
    if first is None:
        return None, ()
    names = list(dict.fromkeys(name for row in first.values() for name in row))
    rows = np.zeros((len(states), len(names)))
    for s, state in enumerate(states):
        for name, probability in first[state].items():
            rows[s, names.index(name)] += probability
    return rows, tuple(names)


def _symbol_name(symbol: Symbol) -> str:
    return symbol if isinstance(symbol, str) else f"{symbol[0]}|{format_reward(symbol[1])}"


def _rewards(symbols: Sequence[Symbol]) -> Floats | None:
    if all(isinstance(symbol, str) for symbol in symbols):
        return None
    return np.array([0.0 if isinstance(symbol, str) else symbol[1] for symbol in symbols])
