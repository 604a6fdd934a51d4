"""How every kernel is compiled: lazily, cached where the disk allows it, without holding the GIL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


class _ForgivingCache:
    """A numba cache whose damaged or unwritable files mean a recompilation, never an exception."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def load_overload(self, *args: Any) -> Any:
        try:
            return self._cache.load_overload(*args)
        except Exception:
            return None

    def save_overload(self, *args: Any) -> None:
        try:
            self._cache.save_overload(*args)
        except Exception:
            return


def kernel(function: Callable[..., Any]) -> Any:
    """Compile ``function`` on first call. A kernel calls only kernels of its own file: the cache does not
    notice edits elsewhere."""
    try:
        compiled = njit(cache=True, nogil=True)(function)
    except RuntimeError:  # no place to keep a cache
        return njit(nogil=True)(function)
    if hasattr(compiled, "_cache"):
        compiled._cache = _ForgivingCache(compiled._cache)
    return compiled
