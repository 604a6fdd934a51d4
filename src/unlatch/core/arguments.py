"""One home for the checks of numbers that callers pass."""

from __future__ import annotations

import math

import numpy as np

from unlatch.errors import UsageError

__all__ = ["LARGEST", "real_number", "whole_number"]

LARGEST = 10**18
"""Of any count: what fits the integers of a kernel. What a machine can hold is asked of `require_memory`."""


def whole_number(name: str, value: object, *, least: int, most: int = LARGEST) -> int:
    """``value`` if it is a whole number in that range, else a `UsageError` that names it."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise UsageError(f"{name} must be a whole number of at least {least}, got {_shown(value)}")
    if value > most:
        raise UsageError(f"{name} must be a whole number of at most {most}, got {_shown(value)}")
    return int(value)


def real_number(name: str, value: object, least: float, most: float) -> float:
    """``value`` if it is a finite number in that range, else a `UsageError` that names it."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise UsageError(f"{name} must be a number, got {_shown(value)}")
    if not least <= value <= most or math.isinf(value):
        raise UsageError(f"{name} must be a finite number from {least} to {most}, got {_shown(value)}")
    return float(value)


def _shown(value: object) -> str:
    """As Python writes it, but for numbers of so many digits that writing them is refused."""
    if isinstance(value, int) and abs(value) > LARGEST**4:
        return "a number of more than 72 digits"
    return repr(value)
