"""How much memory there is, asked before it is taken: a refusal that names the remedy instead of a `MemoryError`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from unlatch.errors import ResourceLimitError

__all__ = ["available_memory", "memory_errors", "require_memory"]

_CGROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
"""Where a container says how much it may use, and how much it does."""


_NEVER_ASKED = 1 << 26
"""Bytes that are taken without asking: asking costs more than a small model does."""


def require_memory(needed: int, what: str, remedy: str) -> None:
    """Refuse what would not fit: ``needed`` bytes for ``what``; the remedy is said to the caller."""
    available = available_memory() if needed > _NEVER_ASKED else None
    if available is not None and needed > available:
        raise ResourceLimitError(
            f"{what} would take {_readable(needed)} of memory, {_readable(available)} are available; {remedy}"
        )


@contextmanager
def memory_errors(what: str, remedy: str) -> Iterator[None]:
    """Turn a `MemoryError`, where no estimate foresaw it, into a `ResourceLimitError`."""
    try:
        yield
    except MemoryError as error:
        raise ResourceLimitError(f"{what}: out of memory ({error or 'no details'}); {remedy}") from None


def available_memory() -> int | None:
    """Bytes that this process may still take: the least of what the machine, the container and the process's own
    limit leave. None where none of them can be asked."""
    amounts = [amount for amount in (_machine(), *_containers(), _own_limit()) if amount is not None]
    return max(min(amounts), 0) if amounts else None


def _machine() -> int | None:
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    with suppress(AttributeError, OSError, ValueError):  # no /proc: all of the memory is the best guess
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def _containers() -> Iterator[int]:
    for limit, used in _CGROUPS:
        with suppress(OSError, ValueError):  # "max" is no number: no limit
            yield int(Path(limit).read_text()) - int(Path(used).read_text())


def _own_limit() -> int | None:
    """What ``ulimit -v`` leaves."""
    with suppress(ImportError, OSError, ValueError, IndexError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            return int(limit) - pages * os.sysconf("SC_PAGE_SIZE")
    return None


def _readable(amount: int) -> str:
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6)):
        if amount >= size:
            return f"{amount // size}.{amount % size * 10 // size} {unit}"
    return f"{amount} bytes"
