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

Aside = Callable[[str | None], None]
"""Called with what holds up the stage at work, and with None once it does not any more."""

_listener: ContextVar[Listener | None] = ContextVar("unlatch_progress", default=None)
_aside: ContextVar[Aside | None] = ContextVar("unlatch_aside", default=None)

__all__ = ["Aside", "Listener", "listening", "remark", "report"]


@contextmanager
def listening(listener: Listener, aside: Aside | None = None) -> Iterator[None]:
    """Send every report made inside the block to ``listener``, and every remark to ``aside``."""
    tokens = _listener.set(listener), _aside.set(aside)
    try:
        yield
    finally:
        _listener.reset(tokens[0])
        _aside.reset(tokens[1])


def report(stage: str, done: float, total: float) -> None:
    """Announce that ``done`` of ``total`` units of ``stage`` are finished; raises `Stopped` if work has to end."""
    listener = _listener.get()
    if listener is not None:
        listener(stage, done, total)
    checkpoint()


def remark(text: str | None) -> None:
    """Announce what the stage at work waits for, which cannot say how far it has come; None when that is over."""
    aside = _aside.get()
    if aside is not None:
        aside(text)
