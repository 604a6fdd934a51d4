"""How long work may take, and whether somebody asked for its end.

Long work asks at every report of its progress (`unlatch.core.progress.report`) and between the calls of its kernels
whether it may go on. Where it may not, `Stopped` is raised, and whoever holds a result worth keeping ends the work
there (`Budget.ending`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TypeVar

__all__ = ["Budget", "Stopped", "checkpoint", "ending"]


T = TypeVar("T")


class Stopped(Exception):
    """Work has reached the end of its budget. Never leaves a public function."""


class Budget:
    """A deadline and an interrupt, shared by everything that is done for one call.

    Parameters
    ----------
    seconds : float, optional
        From now; endless by default.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._deadline = math.inf if seconds is None else time.monotonic() + seconds
        self._whole = self  # parts of a budget share the interrupt of the whole
        self._interrupted = False

    def __repr__(self) -> str:
        return f"Budget({self.seconds_left:.3g} seconds left, interrupted={self.interrupted})"

    @property
    def seconds_left(self) -> float:
        """Until the deadline; infinite if there is none, zero once it has passed or work was interrupted."""
        return 0.0 if self.interrupted else max(self._deadline - time.monotonic(), 0.0)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self._whole._interrupted

    @property
    def stopped(self) -> bool:
        """Whether work has to end, for whatever reason."""
        return self.interrupted or time.monotonic() > self._deadline

    def check(self) -> None:
        """Raise `Stopped` if work has to end."""
        if self.stopped:
            raise Stopped

    def interrupt(self) -> None:
        """Ask for the end of all work on this budget. Asked twice, it ends with `KeyboardInterrupt`."""
        if self.interrupted:
            raise KeyboardInterrupt
        self._whole._interrupted = True

    def share(self, part: float, *, least: float = 0.0, most: float = 0.0) -> Budget:
        """A budget that ends after a part of the time that is left, with the same interrupt.

        Where the time is short it may be longer than the whole: ``least`` times what is left, up to ``most`` seconds.
        """
        left = self.seconds_left
        smaller = Budget(None if math.isinf(self._deadline) else max(part * left, min(least * left, most)))
        smaller._whole = self._whole
        return smaller

    def extended(self, least: float) -> Budget:
        """A budget of at least so many seconds, for what is worth a little more time, with the same interrupt."""
        longer = Budget(None if math.isinf(self._deadline) else max(self._deadline - time.monotonic(), least))
        longer._whole = self._whole
        return longer

    @contextmanager
    def active(self) -> Iterator[Budget]:
        """Inside the block this is the budget that long work asks."""
        token = _active.set(self)
        try:
            yield self
        finally:
            _active.reset(token)

    def ending(self) -> AbstractContextManager[None, bool]:
        """A block of work on this budget that may end early; what it has found by then is kept by its owner.

        Afterwards ``stopped`` tells whether it did.
        """
        return _Ending(self)

    def insist(self, work: Callable[[], T]) -> T:
        """Do what has to be done in any case: an interrupt in the middle is noted, and it is done once more."""
        try:
            return work()
        except KeyboardInterrupt:
            self.interrupt()
            return work()


class _Ending:
    """Activates a budget (or none), and swallows its end. Without a budget Ctrl-C ends the call as usual."""

    def __init__(self, budget: Budget | None) -> None:
        self._budget = budget

    def __enter__(self) -> None:
        self._token = _active.set(self._budget)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        _active.reset(self._token)
        if self._budget is None or kind is None or not issubclass(kind, Stopped | KeyboardInterrupt):
            return False
        if issubclass(kind, KeyboardInterrupt):
            self._budget.interrupt()
        return True


_active: ContextVar[Budget | None] = ContextVar("unlatch_budget", default=None)


def checkpoint() -> None:
    """A moment at which long work may be stopped."""
    budget = _active.get()
    if budget is not None:
        budget.check()


def ending() -> AbstractContextManager[None, bool]:
    """`Budget.ending` of the active budget, if there is one."""
    return _Ending(_active.get())
