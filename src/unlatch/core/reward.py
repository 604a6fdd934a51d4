"""What an agent is to pursue: numbers on symbols, on (action, observation) pairs, on states or on cells.

A reward is written in names or indices and knows no model. It becomes numbers when a model is at hand, so
that one goal serves the truth and every model learned from it, whatever their order of symbols.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np

from unlatch.arrays import Floats, Ints, own_errstate
from unlatch.core import html
from unlatch.core.checks import frozen
from unlatch.core.partition import Partition
from unlatch.core.partition_model import PartitionModel
from unlatch.core.pomdp import POMDP
from unlatch.core.psr import PSR
from unlatch.errors import UsageError

__all__ = ["Model", "ResolvedReward", "Reward"]

Model = POMDP | PartitionModel | PSR
"""Whatever a planner can plan with."""

Symbol = int | str
"""An index, or a name."""

Place = int | str | tuple[int, ...]
"""A state by index or name, or the states of a cell."""

_MOST_NAMES = 12


@dataclass(frozen=True)
class Reward:
    """A goal. Make one by `from_symbols`, `on_observations`, `on_states` or `on_cells`.

    Rewards on states and cells are paid on leaving the state, whatever the action.
    """

    kind: Literal["symbols", "observations", "states", "cells"]
    entries: tuple[tuple[Any, float], ...]

    def _repr_html_(self) -> str:
        """For notebooks: what pays how much."""
        rows = ((_place_text(key), f"{value:g}") for key, value in self.entries)
        return html.page(f"Reward on {self.kind}", html.table(rows, [self.kind, "pays"]))

    @classmethod
    def from_symbols(cls, model: Model) -> Reward:
        """The rewards that were learned as part of the observations: ``model.symbol_rewards``."""
        if model.symbol_rewards is None:
            raise UsageError(
                "the model's observation symbols carry no rewards; name a goal with Reward.on_observations "
                "or Reward.on_states"
            )
        pairs = zip(model.observation_names, model.symbol_rewards.tolist(), strict=True)
        return cls("symbols", tuple((name, value) for name, value in pairs if value != 0))

    @classmethod
    def on_observations(cls, rewards: Mapping[tuple[Symbol, Symbol], float]) -> Reward:
        """Pay ``r`` whenever the action of a pair ``(action, observation): r`` is followed by its
        observation. Both are names or indices."""
        for key in rewards:
            if not (isinstance(key, tuple) and len(key) == 2):
                raise UsageError(f"rewards on observations need pairs (action, observation), got {key!r}")
        return cls("observations", _checked_entries("observations", rewards))

    @classmethod
    def on_states(cls, rewards: Mapping[Place, float]) -> Reward:
        """Pay ``r`` on leaving a state of ``{state: r}``.

        A state is an index or a name; a tuple of indices, as `Partition.cells` holds them, stands for all
        of its states.
        """
        return cls("states", _checked_entries("states", rewards))

    @classmethod
    def on_cells(cls, rewards: Mapping[int, float]) -> Reward:
        """Pay ``r`` on leaving any state of a cell of ``{cell: r}``, cells by their number in the
        partition of a `PartitionModel`."""
        return cls("cells", _checked_entries("cells", rewards))

    @own_errstate
    def resolve(self, model: Model) -> ResolvedReward:
        """The numbers of this reward in the alphabets and states of ``model``; `UsageError` where the model
        does not know what the reward speaks of."""
        partition = _partition(model)
        symbols = np.zeros((model.n_actions, model.n_observations))
        cells = np.zeros(partition.n_cells)
        paid: set[tuple[int, ...]] = set()
        for key, value in self.entries:
            for place in self._places(key, model, partition):
                if place in paid:
                    raise UsageError(f"the reward names {key!r} twice")
                paid.add(place)
                if len(place) == 2:
                    symbols[place] = value
                else:
                    cells[place] = value
        if self.kind == "symbols":
            symbols[:] = symbols[0]
        return ResolvedReward(frozen(symbols), frozen(cells), partition.labels)

    def _places(self, key: Any, model: Model, partition: Partition) -> list[tuple[int, ...]]:
        """Where ``key`` pays: entries of (action, observation), or cells."""
        if self.kind == "symbols":
            return [(0, symbol_code("observation", key, model.observation_names))]
        if self.kind == "observations":
            action = symbol_code("action", key[0], model.action_names)
            return [(action, symbol_code("observation", key[1], model.observation_names))]
        if isinstance(model, PSR):
            raise UsageError(
                f"a PSR cannot be rewarded on {self.kind}: its coordinates are predictions, not states; "
                "use Reward.on_observations, or recover a POMDP from the PSR first"
            )
        if self.kind == "cells":
            return [(_cell(key, model, partition),)]
        return [(cell,) for cell in _cells_of_states(key, model, partition)]


@dataclass(frozen=True, eq=False)
class ResolvedReward:
    """A reward as numbers: ``symbols[a, o]`` paid with the observation, and ``cells[labels[s]]`` paid on
    leaving state ``s``. A POMDP's states are cells of their own; a PSR has one cell, which pays nothing."""

    symbols: Floats
    cells: Floats
    labels: Ints

    @property
    def states(self) -> Floats:
        """The reward of leaving every state."""
        result: Floats = self.cells[self.labels]
        return result


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


def _state_names(model: POMDP | PartitionModel) -> tuple[str, ...]:
    if isinstance(model, POMDP):
        return model.state_names
    return tuple(str(s) for s in range(model.n_states))


def _cells_of_states(key: object, model: POMDP | PartitionModel, partition: Partition) -> list[int]:
    """Cells that together are exactly the states that ``key`` stands for."""
    names = _state_names(model)
    states = key if isinstance(key, tuple) else (key,)
    wanted = {symbol_code("state", state, names) for state in states}
    cells = sorted({int(partition.labels[s]) for s in wanted})
    for cell in cells:
        if not wanted.issuperset(partition.cells[cell]):
            raise UsageError(
                f"state {key!r} lies in the cell {set(partition.cells[cell])}, whose states the log confounds: "
                "no reward can single one out; reward the whole cell (Reward.on_cells)"
            )
    return cells
