"""Rewards as plain values, and back."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from unlatch.core.reward import Reward
from unlatch.errors import DataError, UnlatchError

__all__ = ["TABLE", "plain_reward", "read_reward"]

TABLE = "reward.table"
"""The name of the array of a reward on transitions, where arrays are kept apart."""

_KINDS = get_args(get_type_hints(Reward)["kind"])
_PAIRS = ("observations", "states")
"""Kinds whose keys may be several things at once."""


def plain_reward(reward: Reward, arrays: dict[str, NDArray[Any]] | None = None) -> dict[str, Any]:
    """A reward as JSON has it; its table goes to ``arrays``, if that is given."""
    if reward.table is None:
        entries = [[_plain_key(key), float(value)] for key, value in reward.entries]
        return {"kind": reward.kind, "entries": entries}
    if arrays is None:
        return {"kind": reward.kind, "table": reward.table.tolist()}
    arrays[TABLE] = reward.table
    return {"kind": reward.kind}


def _plain_key(key: Any) -> Any:
    if isinstance(key, tuple):
        return [_plain_key(part) for part in key]
    return key.item() if isinstance(key, np.generic) else key


def read_reward(content: Any) -> Reward:
    """A reward that `plain_reward` made, checked as if a user had made it; `DataError` for what is none."""
    if not isinstance(content, dict) or content.get("kind") not in _KINDS:
        raise DataError(f'reward: expected an object with a "kind" out of {", ".join(_KINDS)}')
    kind = content["kind"]
    try:
        if kind == "transitions":
            return Reward.on_transitions(content.get("table"))  # type: ignore[arg-type]
        entries = _entries(kind, content.get("entries"))
        if kind == "observations":
            return Reward.on_observations(entries)
        if kind == "states":
            return Reward.on_states(entries)
        if kind == "cells":
            return Reward.on_cells(entries)
    except UnlatchError as error:
        raise DataError(f"reward: {error}") from None
    return Reward(kind, tuple(entries.items()))


def _entries(kind: str, listed: Any) -> dict[Any, float]:
    if not isinstance(listed, list) or not all(isinstance(item, list) and len(item) == 2 for item in listed):
        raise DataError(f"rewards on {kind} need a list of pairs, each of what pays and how much")
    entries = {_key(kind, key): _number(value) for key, value in listed}
    if len(entries) < len(listed):
        raise DataError(f"rewards on {kind} name something twice")
    return entries


def _key(kind: str, key: Any) -> Any:
    if kind in _PAIRS and isinstance(key, list):
        return tuple(_key("", part) for part in key)
    if kind == "rewards":
        return _number(key)
    if type(key) not in (int, str) or (kind == "symbols" and type(key) is not str):
        raise DataError(f"{key!r:.40} names nothing that could pay")
    return key


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise DataError(f"expected a number, got {value!r:.40}")
    try:
        number = float(value)
    except OverflowError:
        number = np.inf
    if not np.isfinite(number):
        raise DataError("a number is too large")
    return number
