"""Reading by another thread, while what was read before is worked on."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

__all__ = ["read_ahead"]

T = TypeVar("T")


def read_ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items, of which the next is read by another thread while the caller works on one. None is an end too.

    At their end what the two have freed goes back to the system: the allocator would keep it for that thread, tens of
    megabytes.
    """
    context = copy_context()

    def read() -> T | None:
        return context.run(next, items, None)

    with ThreadPoolExecutor(max_workers=1) as reader:
        coming = reader.submit(read)
        while (item := coming.result()) is not None:
            coming = reader.submit(read)
            yield item
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, others keep less
        if trim is not None:
            trim(0)
