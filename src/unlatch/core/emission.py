"""The same process with the observation shown by the other state: the one that an action leaves, or the one it reaches.

Where the two conventions need different states, a state is written several times; copies lead alike. The conversion is
exact: the likelihood of every log stays what it was, and so does what every transition pays.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import NamedTuple, overload

import numpy as np

from unlatch.arrays import Floats, Ints, own_errstate
from unlatch.core.memory import require_memory
from unlatch.core.pomdp import POMDP, Emission, checked_emission
from unlatch.core.problem import Problem
from unlatch.core.reward import Reward
from unlatch.errors import ResourceLimitError, UsageError

__all__ = ["Converted", "converted", "copied_names", "with_emission"]

MOST_STATES = 20_000
"""States that a conversion may lead to: a model of more would not fit anywhere."""


class Converted(NamedTuple):
    """A model with the other emission, and for each of its states the one that it is a copy of."""

    pomdp: POMDP
    origin: Ints


@overload
def with_emission(model: POMDP, emission: Emission) -> POMDP: ...
@overload
def with_emission(model: Problem, emission: Emission) -> Problem: ...
@own_errstate
def with_emission(model: POMDP | Problem, emission: Emission) -> POMDP | Problem:
    """The same process, shown on departure or on arrival.

    Parameters
    ----------
    model : POMDP or Problem
    emission : "departure" or "arrival"

    Returns
    -------
    POMDP or Problem
        The model itself if it has that emission. Otherwise one in which a state may stand several times, under names
        such as ``left.0`` and ``left.1``. Rewards of a problem come along, transition by transition.

    Raises
    ------
    ResourceLimitError
        If it would take too many states. To arrival it takes at most as many as states times observations; to
        departure, a state must know beforehand what each action will lead to, and that can be a product over actions.

    Examples
    --------
    >>> import unlatch
    >>> tiger = unlatch.domains.tiger()  # opening a door pays by the state left, and leads anywhere
    >>> with_emission(tiger, "arrival").state_names
    ('tiger-left.0', 'tiger-left.1', 'tiger-right.0', 'tiger-right.1')
    """
    checked_emission(emission)
    if isinstance(model, POMDP):
        return converted(model, emission).pomdp
    if not isinstance(model, Problem):
        raise UsageError(f"expected a POMDP or a Problem, got {type(model).__name__}")
    if not isinstance(model.model, POMDP):
        raise UsageError(f"a {type(model.model).__name__} has no states that could show anything")
    if model.model.emission == emission:
        return model
    pomdp, origin = converted(model.model, emission)
    if model.reward.kind in ("symbols", "rewards", "observations"):  # these do not speak of states
        return replace(model, model=pomdp)
    table = model.reward_table
    following = origin if table.shape[2] > 1 else np.zeros(1, dtype=np.int64)
    size = 8 * pomdp.n_actions * len(origin) * len(following) * table.shape[3]
    require_memory(2 * size, "the rewards of every transition", "take fewer states")
    copied = table[:, origin][:, :, following]
    return replace(model, model=pomdp, reward=Reward.on_transitions(copied))


def converted(pomdp: POMDP, emission: Emission) -> Converted:
    """A model with the given emission, and where its states come from."""
    if pomdp.emission == emission:
        return Converted(pomdp, np.arange(pomdp.n_states))
    return _on_arrival(pomdp) if emission == "arrival" else _on_departure(pomdp)


# --- departure to arrival ----------------------------------------------------------------------------------


def _on_arrival(pomdp: POMDP) -> Converted:
    """What a state is reached with decides what it shows: a copy for every kind of state that leads there, by what that
    state shows; or for every observation that it is reached with, if those are fewer."""
    plans = [_cheaper_plan(pomdp, state) for state in range(pomdp.n_states)]
    copies = np.array(
        [max(1, *(len(rows) for rows in plan.rows)) for plan in plans]
    )  # one if nothing leads there
    origin = np.repeat(np.arange(pomdp.n_states), copies)
    first = np.concatenate([[0], np.cumsum(copies)[:-1]])
    actions, size = pomdp.n_actions, len(origin)
    _require(actions, size, pomdp.n_observations)
    moves = np.zeros((actions, pomdp.n_states, size))
    shows = np.array(pomdp.observations[:, origin])
    for state, plan in enumerate(plans):
        own = slice(int(first[state]), int(first[state]) + int(copies[state]))
        for action in range(actions):
            shares, rows = plan.shares[action], plan.rows[action]
            moves[action, :, own.start : own.start + len(rows)] = shares
            shows[action, own.start : own.start + len(rows)] = rows
    moves = moves[:, origin]
    for state in pomdp.terminal:
        here = np.flatnonzero(origin == state)
        moves[:, here] = 0.0
        moves[:, here, here] = 1.0
    return _assembled(pomdp, "arrival", origin, moves, shows, pomdp.initial, first)


class _Plan(NamedTuple):
    """How a state is reached, for every action: ``shares[s, c]``, the probability of coming from ``s`` to copy ``c``,
    and ``rows[c]``, what that copy shows."""

    shares: list[Floats]
    rows: list[Floats]


def _cheaper_plan(pomdp: POMDP, state: int) -> _Plan:
    live = pomdp.going_on > 0
    by_row, by_observation = _Plan([], []), _Plan([], [])
    for action in range(pomdp.n_actions):
        leads = np.where(live, pomdp.transitions[action, :, state], 0.0)
        for plan, make in ((by_row, _by_row), (by_observation, _by_observation)):
            shares, rows = make(leads, pomdp.observations[action])
            plan.shares.append(shares)
            plan.rows.append(rows)
    return min(by_row, by_observation, key=lambda plan: max(len(rows) for rows in plan.rows))


def _by_row(leads: Floats, shows: Floats) -> tuple[Floats, Floats]:
    """A copy for every different row of observations among the states that lead here."""
    sources = np.flatnonzero(leads)
    if not len(sources):
        return np.zeros((len(leads), 0)), np.zeros((0, shows.shape[1]))
    rows, kinds = np.unique(shows[sources], axis=0, return_inverse=True)
    shares = np.zeros((len(leads), len(rows)))
    shares[sources, kinds.reshape(-1)] = leads[sources]
    return shares, rows


def _by_observation(leads: Floats, shows: Floats) -> tuple[Floats, Floats]:
    """A copy for every observation that can be seen on the way here."""
    joint = leads[:, None] * shows
    seen = np.flatnonzero(joint.any(axis=0))
    return joint[:, seen], np.eye(shows.shape[1])[seen]


# --- arrival to departure ----------------------------------------------------------------------------------


def _on_departure(pomdp: POMDP) -> Converted:
    """A state is drawn together with what each action will find there: which kind of next state, by what it shows. A
    copy for every combination over actions; those that are not tried are forgotten with the state."""
    choices = [
        [_kinds(pomdp, state, action) for action in range(pomdp.n_actions)] for state in range(pomdp.n_states)
    ]
    counts = [prod(len(kinds.weights) for kinds in own) for own in choices]
    if sum(counts) > MOST_STATES:
        raise ResourceLimitError(
            f"on departure this model takes {_readable(sum(counts))} states, one for every combination of what its "
            f"actions may lead to; at most {MOST_STATES} are made. Keep it on arrival"
        )
    origin = np.repeat(np.arange(pomdp.n_states), counts)
    actions, size = pomdp.n_actions, len(origin)
    _require(actions, size, pomdp.n_observations)
    drawn = np.zeros((pomdp.n_states, size))  # probability of every copy, given its state
    moves, shows = np.zeros((actions, size, pomdp.n_states)), np.zeros((actions, size, pomdp.n_observations))
    place = 0
    for state, own in enumerate(choices):
        for combination in np.ndindex(*(len(kinds.weights) for kinds in own)):
            picked = list(zip(own, combination, strict=True))
            drawn[state, place] = prod(float(kinds.weights[kind]) for kinds, kind in picked)
            for action, (kinds, kind) in enumerate(picked):
                moves[action, place], shows[action, place] = kinds.moves[kind], kinds.shows[kind]
            place += 1
    whole = moves @ drawn
    for state in pomdp.terminal:
        here = np.flatnonzero(origin == state)
        whole[:, here] = 0.0
        whole[:, here, here] = 1.0
    return _assembled(pomdp, "departure", origin, whole, shows, pomdp.initial @ drawn, None)


class _Kinds(NamedTuple):
    """What an action may lead to from a state, by what is shown there: how likely each kind is, where it leads, what it
    shows."""

    weights: Floats
    moves: Floats
    shows: Floats


def _kinds(pomdp: POMDP, state: int, action: int) -> _Kinds:
    moves, shows = pomdp.transitions[action, state], pomdp.observations[action]
    if state in pomdp.terminal:
        return _Kinds(np.ones(1), moves[None], shows[state][None])
    reached = np.flatnonzero(moves)
    rows, kinds = np.unique(shows[reached], axis=0, return_inverse=True)
    parts = np.zeros((len(rows), len(moves)))
    parts[kinds.reshape(-1), reached] = moves[reached]
    weights = parts.sum(axis=1)
    if len(rows) == 1:
        return _Kinds(np.ones(1), moves[None], rows)
    return _Kinds(weights / weights.sum(), parts / weights[:, None], rows)


# --- what both share ---------------------------------------------------------------------------------------


def _require(actions: int, states: int, observations: int) -> None:
    if states > MOST_STATES:
        raise ResourceLimitError(f"the conversion takes {states} states; at most {MOST_STATES} are made")
    needed = 16 * actions * states * (states + observations)
    require_memory(needed, f"a model of {states} states", "keep its emission as it is")


def _assembled(
    pomdp: POMDP,
    emission: Emission,
    origin: Ints,
    moves: Floats,
    shows: Floats,
    initial: Floats,
    first: Ints | None,
) -> Converted:
    if (
        first is not None
    ):  # before anything was shown, copies make no difference: an episode starts in the first
        starts = np.zeros(len(origin))
        starts[first] = initial
        initial = starts
    first_rows, rewards = pomdp.first_observations, pomdp.reward_probabilities
    result = replace(
        pomdp,
        transitions=moves,
        observations=shows,
        initial=initial,
        emission=emission,
        state_names=copied_names(pomdp.state_names, origin),
        terminal=tuple(np.flatnonzero(np.isin(origin, pomdp.terminal)).tolist()),
        first_observations=None if first_rows is None else first_rows[origin],
        first_observation_names=pomdp.first_observation_names,
        reward_probabilities=None if rewards is None else rewards[:, origin],
    )
    return Converted(result, origin)


def copied_names(names: tuple[str, ...], origin: Ints) -> tuple[str, ...]:
    """The name of a state that stands once; of others with a number, after a mark that makes no two names the same."""
    several = np.bincount(origin, minlength=len(names)) > 1
    mark = "."
    while True:
        numbers = np.arange(len(origin)) - np.searchsorted(origin, origin)
        copied = tuple(
            f"{names[state][:200]}{mark}{number}" if several[state] else names[state]
            for state, number in zip(origin, numbers, strict=True)
        )
        if len(set(copied)) == len(copied):
            return copied
        mark += "."


def _readable(count: int) -> str:
    return str(count) if count < 10**12 else "more than a million million"
