"""Progress of long work, told to whoever listens.

The library never draws: it announces stages, and a front end that wants a bar listens. With no listener the
cost is two context-variable look-ups per chunk of work. Every report is also a moment at which work that has used up
its budget ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from unlatch.core.budget import checkpoint

Listener = Callable[[str, float, float], None]
"""Called with the stage's name, the work done and the work in all."""

_listener: ContextVar[Listener | None] = ContextVar("unlatch_progress", default=None)

__all__ = ["Listener", "listening", "report"]


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Send every report made inside the block to ``listener``."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report(stage: str, done: float, total: float) -> None:
    """Announce that ``done`` of ``total`` units of ``stage`` are finished; raises `Stopped` if work has to end."""
    listener = _listener.get()
    if listener is not None:
        listener(stage, done, total)
    checkpoint()
