"""A library that is not there: what to say. Imports nothing but the standard library."""

from __future__ import annotations

import sys

__all__ = ["missing_library"]


def missing_library(error: ImportError) -> str | None:
    """A sentence with the remedy if ``error`` is about a library that unlatch needs, None if it is about unlatch."""
    name = (error.name or "").partition(".")[0]
    if name == "unlatch":
        return None
    return (
        f"{name or 'a library that unlatch needs'} cannot be imported: {error}; install it for this Python: "
        f"{sys.executable} -m pip install {name or 'unlatch'}"
    )
