"""How long the logs of the tests are."""

from __future__ import annotations

import os

UNCOMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
"""Kernels run as the Python that they are written in, a hundred times slower: every line of them can be counted."""


def sized(compiled: int, uncompiled: int = 1_500) -> int:
    """Steps of a log that a test learns from, fewer where the JIT is off and every step costs a hundred times more."""
    return uncompiled if UNCOMPILED else compiled
