"""A progress bar for work that turns out to take longer than a moment."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from unlatch.core.progress import listening

_PATIENCE = 1.0
"""Seconds of silence before a bar appears."""


@contextmanager
def progress_bar() -> Iterator[None]:
    """Show the stages announced inside the block, on standard error, if that is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with _Bars(console).listening():
        yield


class _Bars:
    def __init__(self, console: object) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(),
            console=console,  # type: ignore[arg-type]
            transient=True,
        )
        self._tasks: dict[str, int] = {}
        self._begun = time.monotonic()

    @contextmanager
    def listening(self) -> Iterator[None]:
        try:
            with listening(self._update):
                yield
        finally:
            self._progress.stop()

    def _update(self, stage: str, done: float, total: float) -> None:
        if time.monotonic() - self._begun < _PATIENCE:
            return
        self._progress.start()
        if stage not in self._tasks:
            for task in self._tasks.values():
                self._progress.update(task, visible=False)  # type: ignore[arg-type]
            self._tasks[stage] = self._progress.add_task(stage, total=total)
        self._progress.update(self._tasks[stage], completed=done, total=total, visible=True)  # type: ignore[arg-type]
