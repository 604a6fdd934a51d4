"""What an agent is to pursue: numbers on symbols, rewards, (action, observation) pairs, states, cells or transitions.

A reward is written in names or indices and knows no model. It becomes numbers when a model is at hand, so
that one goal serves the truth and every model learned from it, whatever their order of symbols.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from unlatch.arrays import Floats, Ints, own_errstate
from unlatch.core import html
from unlatch.core.checks import as_array, finite_floats, frozen
from unlatch.core.partition import Partition
from unlatch.core.partition_model import PartitionModel
from unlatch.core.pomdp import POMDP
from unlatch.core.psr import PSR
from unlatch.core.symbols import symbols_showing
from unlatch.errors import DataError, UsageError

__all__ = ["Model", "ResolvedReward", "Reward"]

Model = POMDP | PartitionModel | PSR
"""Whatever a planner can plan with."""

Symbol = int | str
"""An index, or a name."""

Place = int | str | tuple[int, ...]
"""A state by index or name, or the states of a cell."""

Seen = tuple[Symbol, Symbol] | Symbol
"""An observation after an action, or after any."""

_MOST_NAMES = 12


@dataclass(frozen=True, eq=False)
class Reward:
    """A goal. Make one by `learned`, `on_observations`, `on_states`, `on_cells` or `on_transitions`.

    Rewards on states and cells are paid on leaving the state, whatever the action. Once an episode has ended, nothing
    is paid. ``table`` (actions, states, states, observations), with a one where that makes no difference, has the
    rewards on transitions, and is None otherwise.

    Examples
    --------
    >>> import unlatch
    >>> hallway = unlatch.domains.directional_hallway()
    >>> goal = unlatch.Reward.on_states({"middle": 1.0})
    >>> round(unlatch.ExactPlanner(hallway, goal, horizon=3).value(), 3)
    1.299
    """

    kind: Literal["symbols", "rewards", "observations", "states", "cells", "transitions"]
    entries: tuple[tuple[Any, float], ...]
    table: Floats | None = (
        None  # (actions, states, states, observations), or 1 where that makes no difference
    )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Reward):
            return NotImplemented
        if (self.kind, self.entries) != (other.kind, other.entries):
            return False
        return (
            self.table is other.table
            if self.table is None or other.table is None
            else np.array_equal(self.table, other.table)
        )

    def __hash__(self) -> int:
        return hash((self.kind, self.entries))

    def __repr__(self) -> str:
        if self.table is None:
            return f"Reward({self.kind!r}, {self.entries!r})"
        return f"Reward({self.kind!r}, from {self.table.min():g} to {self.table.max():g})"

    def _repr_html_(self) -> str:
        """For notebooks: what pays how much."""
        if self.table is not None:
            actions, states = self.table.shape[:2]
            span = f"from {self.table.min():g} to {self.table.max():g}"
            return html.page(
                "Reward on transitions", html.table([(f"{actions} actions, {states} states", span)])
            )
        rows = ((_place_text(key), f"{value:g}") for key, value in self.entries)
        return html.page(f"Reward on {self.kind}", html.table(rows, [self.kind, "pays"]))

    @classmethod
    def learned(cls, model: Model) -> Reward:
        """The rewards that the model itself knows: those of its symbols, or those paid beside the observations."""
        if model.symbol_rewards is not None:
            pairs = zip(model.observation_names, model.symbol_rewards.tolist(), strict=True)
            return cls("symbols", tuple((name, value) for name, value in pairs if value != 0))
        if isinstance(model, POMDP) and model.reward_values is not None:
            return cls("rewards", tuple((value, value) for value in model.reward_values.tolist() if value))
        raise UsageError(
            "the model's observation symbols carry no rewards; name a goal with Reward.on_observations "
            "or Reward.on_states"
        )

    @classmethod
    def on_observations(cls, rewards: Mapping[Seen, float]) -> Reward:
        """Pay ``r`` whenever the action of a pair ``(action, observation): r`` is followed by its
        observation; ``observation: r`` pays whatever the action was. All are names or indices. Where symbols are pairs
        such as ``hear-left|-1``, the observation alone (``hear-left``) stands for all of them.

        >>> import unlatch
        >>> unlatch.Reward.on_observations({"hear-left": 1.0}).resolve(unlatch.domains.tiger()).symbols.sum(axis=1)
        array([3., 3., 3.])
        """
        for key in rewards:
            if isinstance(key, tuple) and len(key) != 2:
                raise UsageError(
                    f"rewards on observations need pairs (action, observation) or observations, got {key!r}"
                )
        return cls("observations", _checked_entries("observations", rewards))

    @classmethod
    def on_states(cls, rewards: Mapping[Place, float]) -> Reward:
        """Pay ``r`` on leaving a state of ``{state: r}``.

        A state is an index or a name; a tuple of indices, as `Partition.cells` holds them, stands for all
        of its states. A terminal state is never left and pays nothing.
        """
        return cls("states", _checked_entries("states", rewards))

    @classmethod
    def on_cells(cls, rewards: Mapping[int, float]) -> Reward:
        """Pay ``r`` on leaving any state of a cell of ``{cell: r}``, cells by their number in the
        partition of a `PartitionModel`."""
        return cls("cells", _checked_entries("cells", rewards))

    @classmethod
    @own_errstate
    def on_transitions(cls, rewards: ArrayLike) -> Reward:
        """Pay by action and state, and by the next state and the observation if these matter: an array of shape
        (actions, states), (actions, states, states) or (actions, states, states, observations), in the order of the
        model's names. It is what model files hold.

        Planners weigh it by its expectation for every action and state.

        >>> import numpy as np, unlatch
        >>> tiger = unlatch.domains.tiger()
        >>> pays = np.array([[-1.0, -1.0], [-100.0, 10.0], [10.0, -100.0]])  # listen, open-left, open-right
        >>> unlatch.Reward.on_transitions(pays).resolve(tiger).states.tolist()
        [[-1.0, -1.0], [-100.0, 10.0], [10.0, -100.0]]
        """
        given = as_array("rewards", rewards, "an array of numbers")
        if not 2 <= given.ndim <= 4:
            raise UsageError(
                "rewards on transitions need an array of shape (actions, states), (actions, states, states) or "
                f"(actions, states, states, observations), got one of shape {given.shape}"
            )
        table = finite_floats("rewards", given, ndim=given.ndim)
        if 0 in table.shape:
            raise UsageError(f"rewards on transitions: an array of shape {table.shape} pays nothing")
        return cls("transitions", (), frozen(table.reshape(table.shape + (1,) * (4 - table.ndim))))

    @own_errstate
    def resolve(self, model: Model) -> ResolvedReward:
        """The numbers of this reward in the alphabets and states of ``model``; `UsageError` where the model
        does not know what the reward speaks of."""
        partition = _partition(model)
        if self.table is not None:
            return _resolved_table(self.table, model, partition)
        tables = {
            "symbols": np.zeros((model.n_actions, model.n_observations)),
            "cells": np.zeros(partition.n_cells),
            "rewards": np.zeros(len(_rewards_beside(model))),
        }
        paid: set[tuple[str, tuple[int, ...]]] = set()
        for key, value in self.entries:
            table, places = self._places(key, model, partition)
            for place in places:
                if (table, place) in paid:
                    raise UsageError(f"the reward names {key!r} twice")
                paid.add((table, place))
                tables[table][place] = value
        if self.kind == "symbols" or (self.kind == "rewards" and model.symbol_rewards is not None):
            tables["symbols"][:] = tables["symbols"][0]
        if isinstance(model, POMDP):
            tables["cells"][list(model.terminal)] = 0.0
        cells = np.tile(tables["cells"], (model.n_actions, 1))
        return ResolvedReward(
            frozen(tables["symbols"]), frozen(cells), partition.labels, frozen(tables["rewards"])
        )

    def _places(self, key: Any, model: Model, partition: Partition) -> tuple[str, list[tuple[int, ...]]]:
        """Where ``key`` pays: entries of (action, observation), cells, or rewards beside observations."""
        if self.kind == "symbols":
            return "symbols", [(0, symbol_code("observation", key, model.observation_names))]
        if self.kind == "rewards":
            return _places_of_reward(key, model)
        if self.kind == "observations":
            action, shown = key if isinstance(key, tuple) else (None, key)
            actions = (
                range(model.n_actions)
                if action is None
                else [symbol_code("action", action, model.action_names)]
            )
            return "symbols", [(code, symbol) for code in actions for symbol in _symbols(shown, model)]
        if isinstance(model, PSR):
            raise UsageError(
                f"a PSR cannot be rewarded on {self.kind}: its coordinates are predictions, not states; "
                "use Reward.on_observations, or recover a POMDP from the PSR first"
            )
        if self.kind == "cells":
            return "cells", [(_cell(key, model, partition),)]
        return "cells", [(cell,) for cell in _cells_of_states(key, model, partition)]


@dataclass(frozen=True, eq=False)
class ResolvedReward:
    """A reward as numbers: ``symbols[a, o]`` paid with the observation, ``cells[a, labels[s]]`` paid on leaving state
    ``s`` by action ``a``, and ``rewards[r]`` paid with the model's own reward of that number, beside the observation. A
    POMDP's states are cells of their own; a PSR has one cell, which pays nothing."""

    symbols: Floats
    cells: Floats
    labels: Ints
    rewards: Floats

    @property
    def states(self) -> Floats:
        """The reward of leaving every state by every action, shape (actions, states)."""
        result: Floats = self.cells[:, self.labels]
        return result

    @property
    def scale(self) -> float:
        """The largest absolute number, or one if nothing pays."""
        return (
            max(float(np.abs(table).max(initial=0.0)) for table in (self.symbols, self.cells, self.rewards))
            or 1.0
        )


def _resolved_table(table: Floats, model: Model, partition: Partition) -> ResolvedReward:
    """A reward on transitions by what it is expected to pay for every action and state."""
    if not isinstance(model, POMDP):
        raise UsageError(
            f"rewards on transitions speak of states, which a {type(model).__name__} does not tell apart; use "
            "Reward.on_observations, or plan with the POMDP"
        )
    full = (model.n_actions, model.n_states, model.n_states, model.n_observations)
    fits = all(own in (1, wanted) for own, wanted in zip(table.shape[2:], full[2:], strict=True))
    if table.shape[:2] != full[:2] or not fits:
        raise DataError(
            f"rewards on transitions: shape {table.shape} for {full[0]} actions, {full[1]} states and {full[3]} "
            "observations",
            field="reward",
        )
    cells = np.array([_expected_pay(table[a], model, a) for a in range(model.n_actions)])
    cells[:, list(model.terminal)] = 0.0
    nothing = np.zeros((model.n_actions, model.n_observations))
    return ResolvedReward(
        frozen(nothing), frozen(cells), partition.labels, frozen(np.zeros(len(_rewards_beside(model))))
    )


def _expected_pay(table: Floats, model: POMDP, action: int) -> Floats:
    """Expectation over next state and observation of ``table[s, t, o]``, shape (states,)."""
    moves, shows = model.transitions[action], model.observations[action]
    if table.shape[1:] == (1, 1):
        return table[:, 0, 0]  # nothing to average: to the last digit
    if table.shape[2] == 1:
        paid = table[:, :, 0]
    elif model.emission == "arrival":
        paid = np.einsum(
            "sto,to->st", np.broadcast_to(table, (len(moves), len(moves), table.shape[2])), shows
        )
    else:
        paid = np.einsum("sto,so->st", table, shows)
    return np.asarray((moves * paid).sum(axis=1), dtype=np.float64)


def _place_text(key: object) -> str:
    return ", ".join(str(part) for part in key) if isinstance(key, tuple) else str(key)


def symbol_code(kind: str, symbol: object, names: tuple[str, ...]) -> int:
    """Index of a name, or an index checked; `UsageError` names what is known."""
    if isinstance(symbol, str):
        if symbol in names:
            return names.index(symbol)
    elif isinstance(symbol, int | np.integer) and not isinstance(symbol, bool) and 0 <= symbol < len(names):
        return int(symbol)
    return unknown(kind, symbol, names)


def unknown(kind: str, symbol: object, names: tuple[str, ...]) -> NoReturn:
    """Refuse ``symbol``, saying which ones there are."""
    listing = ", ".join(repr(name) for name in names[:_MOST_NAMES])
    more = f", ... ({len(names)} in all)" if len(names) > _MOST_NAMES else ""
    raise UsageError(f"unknown {kind} {symbol!r}: the model knows {listing}{more}")


def _checked_entries(kind: str, rewards: Mapping[Any, float]) -> tuple[tuple[Any, float], ...]:
    if not isinstance(rewards, Mapping) or not rewards:
        raise UsageError(f"a reward on {kind} needs a mapping from at least one of them to a number")
    return tuple((key, _finite(key, value)) for key, value in rewards.items())


def _finite(key: object, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise UsageError(f"the reward of {key!r} must be a number, got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise UsageError(f"the reward of {key!r} is {number}; rewards must be finite")
    return number


def _partition(model: Model) -> Partition:
    if isinstance(model, PartitionModel):
        return model.partition
    if isinstance(model, POMDP):
        return Partition.singletons(model.n_states)
    return Partition(np.zeros(model.rank, dtype=np.int64))


def _cell(key: object, model: Model, partition: Partition) -> int:
    if not isinstance(model, PartitionModel):
        raise UsageError(
            "a POMDP has states, not cells: use Reward.on_states, also for the states of a cell at once "
            "(partition.cells[i])"
        )
    if isinstance(key, int | np.integer) and not isinstance(key, bool) and 0 <= key < partition.n_cells:
        return int(key)
    raise UsageError(f"unknown cell {key!r}: the model has {partition.n_cells} cells, {partition}")


def _rewards_beside(model: Model) -> Floats:
    """The rewards that a model pays beside its observations."""
    if isinstance(model, POMDP) and model.reward_values is not None:
        return model.reward_values
    return np.empty(0)


def _places_of_reward(value: float, model: Model) -> tuple[str, list[tuple[int, ...]]]:
    """Where a model pays ``value`` itself."""
    if model.symbol_rewards is not None:
        return "symbols", [(0, int(symbol)) for symbol in np.flatnonzero(model.symbol_rewards == value)]
    if not len(_rewards_beside(model)):
        raise UsageError(
            "the model knows no rewards; name a goal with Reward.on_observations or Reward.on_states"
        )
    return "rewards", [(int(code),) for code in np.flatnonzero(_rewards_beside(model) == value)]


def _symbols(observation: Symbol, model: Model) -> list[int]:
    """The symbols that show an observation."""
    if isinstance(observation, str):
        found = symbols_showing(observation, model.observation_names, model.symbol_rewards)
        if len(found):
            return [int(symbol) for symbol in found]
    return [symbol_code("observation", observation, model.observation_names)]


def _state_names(model: POMDP | PartitionModel) -> tuple[str, ...]:
    if isinstance(model, POMDP):
        return model.state_names
    return tuple(str(s) for s in range(model.n_states))


def _cells_of_states(key: object, model: POMDP | PartitionModel, partition: Partition) -> list[int]:
    """Cells that together are exactly the states that ``key`` stands for."""
    names = _state_names(model)
    states = key if isinstance(key, tuple) else (key,)
    wanted = {symbol_code("state", state, names) for state in states}
    if isinstance(model, POMDP) and wanted and wanted.issubset(model.terminal):
        raise UsageError(
            f"state {key!r} ends the episode: it is never left, and a reward on leaving it would never be paid; reward "
            "what is seen on the way there (Reward.on_observations), or the state before it"
        )
    cells = sorted({int(partition.labels[s]) for s in wanted})
    for cell in cells:
        if not wanted.issuperset(partition.cells[cell]):
            raise UsageError(
                f"state {key!r} lies in the cell {set(partition.cells[cell])}, whose states the log confounds: "
                "no reward can single one out; reward the whole cell (Reward.on_cells)"
            )
    return cells
