"""Ctrl-C and SIGTERM: the first asks the work to end, the second ends the process.

Nothing heavy is imported here: until `answer_signals` has run, an interrupt would end in a traceback.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # ``signal`` itself imports enum, which takes longer than all else
import os
import sys
import time

__all__ = ["INTERRUPTED", "answer_signals", "ignore_signals", "was_interrupted"]

INTERRUPTED = 130
"""Exit code of work that was cut short."""

_SAME_PRESS = 0.1
"""Seconds within which two signals count as one: a terminal and a supervisor may both pass on one Ctrl-C."""

_AGAIN = 0.05
"""Seconds until an interrupt that fell into a callback, where exceptions are lost, is raised again."""

_asked: list[float] = []
"""When the process was asked to end; empty if it was not."""


def answer_signals() -> None:
    """From now on SIGINT and SIGTERM raise `KeyboardInterrupt`, and a second one ends the process at once."""
    numbers = [n for n in (_signal.SIGINT, _signal.SIGTERM) if _signal.getsignal(n) is not _signal.SIG_IGN]
    for number in numbers:
        _signal.signal(number, _interrupt)
    if hasattr(_signal, "setitimer"):
        _signal.signal(_signal.SIGALRM, _interrupt)
        sys.unraisablehook = _raise_again
    if os.name != "nt":
        _watch(numbers)


def ignore_signals() -> None:
    """The work is done and its exit code is settled: a signal during the last clearing up must not change it."""
    for number in (_signal.SIGINT, _signal.SIGTERM):
        _signal.signal(number, _signal.SIG_IGN)


def was_interrupted() -> bool:
    """Whether the process was asked to end, even if somebody swallowed the exception."""
    return bool(_asked)


def _interrupt(number: int, _frame: object) -> None:
    _asked.append(time.monotonic())
    raise KeyboardInterrupt


def _raise_again(lost: sys.UnraisableHookArgs) -> None:
    """An interrupt that was raised where nothing can catch it (a callback, a finalizer) is raised once more.

    After one, finalizers of objects that it left half-built may fail too, which is nobody's concern any more.
    """
    if issubclass(lost.exc_type, KeyboardInterrupt):
        _signal.setitimer(_signal.ITIMER_REAL, _AGAIN)
    elif not _asked:
        sys.__unraisablehook__(lost)


def _watch(numbers: list[int]) -> None:
    """End the process at the second signal from a thread, since Python's own handler waits for a kernel to return."""
    import threading

    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    _signal.set_wakeup_fd(theirs, warn_on_full_buffer=False)
    threading.Thread(target=_end_at_second, args=(ours, frozenset(numbers)), daemon=True).start()


def _end_at_second(pipe: int, numbers: frozenset[int]) -> None:
    first: float | None = None
    while True:
        received = os.read(pipe, 64)
        if not any(number in numbers for number in received):
            continue
        now = time.monotonic()
        if first is None:
            first = now
        elif now - first > _SAME_PRESS:
            os._exit(INTERRUPTED)
