"""Checks of arguments that many public functions share: what comes through is what it should be."""

from __future__ import annotations

from typing import Any

import numpy as np

from unlatch.core.trajectory import Trajectory
from unlatch.errors import UsageError

__all__ = ["checked_count", "checked_log", "checked_seconds"]


def checked_log(log: Any) -> Trajectory:
    """``log`` if it is one, else a `UsageError` that says how to make one."""
    if not isinstance(log, Trajectory):
        raise UsageError(
            f"expected a Trajectory, got {type(log).__name__}; build one from arrays, or use read_log"
        )
    return log


def checked_count(name: str, value: Any, *, least: int = 1) -> int:
    """A whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise UsageError(f"{name} must be a whole number of at least {least}, got {value!r:.40}")
    return int(value)


def checked_seconds(name: str, value: Any) -> float | None:
    """A positive number of seconds, or None for no limit."""
    if value is None:
        return None
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | np.integer | np.floating)
        or not value > 0
    ):
        raise UsageError(f"{name} is a positive number of seconds, got {value!r:.40}")
    return float(value)
