"""Progress of work that turns out to take longer than a moment, always on standard error.

On a terminal one bar, of the stage that is at work. Elsewhere a plain line every ten seconds, also while a stage
is silent.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from unlatch.cli.program import say
from unlatch.core.progress import listening
from unlatch.show.safe import plain

__all__ = ["progress"]

_PATIENCE = 1.0
"""Seconds of silence before a bar appears."""

_EVERY = 10.0
"""Seconds between two lines where there is no terminal."""


@contextmanager
def progress(every: float = _EVERY) -> Iterator[None]:
    """Show the stages announced inside the block."""
    on_terminal = sys.stderr is not None and sys.stderr.isatty()
    teller = _Bar() if on_terminal else _Lines(every)
    try:
        with listening(teller.update, teller.aside):
            yield
    finally:
        teller.stop()


class _Lines:
    """A thread that says every so often where the work stands."""

    def __init__(self, every: float) -> None:
        self._begun = time.monotonic()
        self._every = every
        self._latest = "starting"
        self._aside: str | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tell, daemon=True)
        self._thread.start()

    def update(self, stage: str, done: float, total: float) -> None:
        self._latest = f"{stage}, {done:.10g} of {total:.10g}"

    def aside(self, text: str | None) -> None:
        self._aside = text

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _tell(self) -> None:
        while not self._over.wait(self._every):
            say(f"{self._aside or self._latest}, {time.monotonic() - self._begun:.0f} s elapsed")


class _Bar:
    """One bar that always belongs to the stage at work."""

    def __init__(self) -> None:
        self._progress: Any = None
        self._task: Any = None
        self._stage = ""
        self._begun = time.monotonic()

    def update(self, stage: str, done: float, total: float) -> None:
        if time.monotonic() - self._begun < _PATIENCE:
            return
        if self._progress is None:
            self._start(plain(stage), total)
        elif stage != self._stage:  # a new stage begins at zero: no percentage of the last one stays
            self._progress.reset(self._task, description=plain(stage), total=total, completed=0)
        self._stage = stage
        self._progress.update(self._task, completed=done, total=total)

    def aside(self, text: str | None) -> None:
        if self._progress is not None:
            self._progress.update(self._task, description=plain(text or self._stage))
        elif text is not None:
            self.update(text, 0, 1)

    def stop(self) -> None:
        if self._progress is not None:
            self._progress.stop()

    def _start(self, stage: str, total: float) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
        from rich.text import Text

        begun = self._begun

        class Elapsed(ProgressColumn):
            """Seconds since the work began, whatever stage it is at."""

            def render(self, task: object) -> Text:
                return Text(f"{time.monotonic() - begun:.0f} s")

        size = shutil.get_terminal_size()  # given, so that rich need not make sense of COLUMNS
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%", markup=False),
            Elapsed(),
            console=Console(
                stderr=True, width=size.columns, height=size.lines, markup=False, emoji=False, highlight=False
            ),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._progress.add_task(stage, total=total)
        self._progress.start()
