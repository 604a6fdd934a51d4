"""Items that another thread makes or reads, while those before are worked on."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

__all__ = ["ahead"]

T = TypeVar("T")


def ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items, of which another thread makes the next while the caller works on one. None is an end too.

    At their end what the two have freed goes back to the system: the allocator would keep it for that thread, tens of
    megabytes.
    """
    context = copy_context()

    def make() -> T | None:
        return context.run(next, items, None)

    with ThreadPoolExecutor(max_workers=1) as maker:
        coming = maker.submit(make)
        while (item := coming.result()) is not None:
            coming = maker.submit(make)
            yield item
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, others keep less
        if trim is not None:
            trim(0)
