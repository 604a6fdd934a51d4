"""Systems to try things on, each a short readable definition: the paper's, rooms, a frozen lake, a lockbox, tag.

Where a domain has rewards, its observation symbols are pairs named ``observation|reward``.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature

from unlatch.core.pomdp import POMDP
from unlatch.domains.lakes import frozen_lake
from unlatch.domains.lockboxes import lockbox
from unlatch.domains.paper import (
    directional_hallway,
    noisy_hallway,
    sense_float_reset,
    tiger,
    tmaze,
    unidentifiable_pair,
)
from unlatch.domains.rooms import random_room, room
from unlatch.domains.tag import tag
from unlatch.errors import UsageError

__all__ = [
    "NAMES",
    "by_name",
    "directional_hallway",
    "frozen_lake",
    "lockbox",
    "noisy_hallway",
    "random_room",
    "room",
    "sense_float_reset",
    "tag",
    "tiger",
    "tmaze",
    "unidentifiable_pair",
]


def _room(
    rows: int = 3, columns: int = 4, colors: int = 4, slip: float = 0.0, wrong: float = 0.0, seed: int = 0
) -> POMDP:
    """A random room that can be asked for in one line of text."""
    return random_room(rows, columns, colors, slip=slip, wrong=wrong, rng=seed)


_BUILDERS: dict[str, Callable[..., POMDP]] = {
    "tiger": tiger,
    "tmaze": tmaze,
    "sense-float-reset": sense_float_reset,
    "directional-hallway": directional_hallway,
    "noisy-hallway": noisy_hallway,
    "room": _room,
    "frozen-lake": frozen_lake,
    "lockbox": lockbox,
    "tag": tag,
}

NAMES = tuple(_BUILDERS)
"""The domains that `by_name` knows."""


def by_name(text: str) -> POMDP:
    """A domain from text, with its parameters after a colon: ``tiger``, ``tmaze:rooms=3,fail=0.1``,
    ``room:rows=4,columns=5,seed=7``, ``frozen-lake:slippery=false,observe=column``.

    Examples
    --------
    >>> from unlatch import domains
    >>> domains.by_name("tmaze:rooms=3,fail=0.1")
    POMDP(8 states, 4 actions, 9 observations, emission='departure')
    """
    name, _, options = text.strip().replace("_", "-").partition(":")
    if name not in _BUILDERS:
        raise UsageError(f"unknown domain {name!r}; known: {', '.join(NAMES)} (parameters as tmaze:rooms=3)")
    builder = _BUILDERS[name]
    values = dict(_option(part, builder) for part in options.split(",") if part)
    try:
        return builder(**values)
    except TypeError:
        raise UsageError(f"domain {name!r} has no such parameter: {options}") from None


def _option(text: str, builder: Callable[..., POMDP]) -> tuple[str, int | float | bool | str]:
    key, _, value = text.partition("=")
    parameter = signature(builder).parameters.get(key)
    if parameter is not None and isinstance(parameter.default, str):
        return key, value
    if value in ("true", "false"):
        return key, value == "true"
    try:
        return key, int(value)
    except ValueError:
        pass
    try:
        return key, float(value)
    except ValueError:
        raise UsageError(f"cannot read the domain's parameter {text!r}; write it as rooms=3") from None
