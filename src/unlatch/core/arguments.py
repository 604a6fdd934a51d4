"""Checks of arguments that many public functions share: what comes through is what it should be."""

from __future__ import annotations

import math

import numpy as np

from unlatch.core.trajectory import Trajectory
from unlatch.errors import UsageError

__all__ = ["LARGEST", "checked_log", "checked_seconds", "real_number", "whole_number"]

LARGEST = 10**18
"""Of any count: what fits the integers of a kernel. What a machine can hold is asked of `require_memory`."""


def checked_log(log: object) -> Trajectory:
    """``log`` if it is one, else a `UsageError` that says how to make one."""
    if not isinstance(log, Trajectory):
        raise UsageError(
            f"expected a Trajectory, got {type(log).__name__}; build one from arrays, or use read_log"
        )
    return log


def checked_seconds(name: str, value: object) -> float | None:
    """A positive number of seconds, or None for no limit."""
    if value is None:
        return None
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | np.integer | np.floating)
        or not value > 0
    ):
        raise UsageError(f"{name} is a positive number of seconds, got {_shown(value):.40}")
    return float(value)


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
