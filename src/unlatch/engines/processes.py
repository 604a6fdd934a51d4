"""Processes of this machine. One that dies is replaced, and its blocks are done again by others."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from unlatch.core.arguments import whole_number
from unlatch.core.budget import checkpoint
from unlatch.engines.engine import Block, Task, WorkerDied, nothing, result_alone, run_task

__all__ = ["Processes"]

_PATIENCE = 0.2
"""Seconds between two looks at whether the work may go on."""


class Processes:
    """Work on some blocks at a time, each in a process of its own that lives on for others."""

    remote = True

    def __init__(self, number: int | None = None) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._number = cores if number is None else whole_number("engine", number, least=1, most=1024)

    def each(
        self, task: Task, blocks: Sequence[Block], arguments: Sequence[tuple[Any, ...]]
    ) -> Iterator[Any]:
        pool = self._pool(self._number)
        waiting: dict[int, Future[Any]] = {}

        def trial(number: int | None) -> Any:
            """A block in a process by itself, so that only it can be the cause of what happens."""
            nonlocal pool
            given = (nothing,) if number is None else (run_task, task, blocks[number], arguments[number])
            try:
                return _awaited(pool.submit(*given))
            except BrokenProcessPool as error:
                pool.shutdown(wait=False)
                pool = self._pool(1)
                raise WorkerDied(str(error)) from None

        try:
            for done in range(len(blocks)):
                for number in range(done, min(done + 2 * self._number, len(blocks))):
                    if number not in waiting:
                        waiting[number] = pool.submit(run_task, task, blocks[number], arguments[number])
                try:
                    result = _awaited(waiting[done])
                except BrokenProcessPool:
                    pool.shutdown(wait=False, cancel_futures=True)
                    waiting.clear()
                    pool = self._pool(1)
                    result = result_alone(trial, done, done - 1 if done else None, blocks[done].name)
                    pool.shutdown(wait=False)
                    pool = self._pool(self._number)
                else:
                    waiting.pop(done)
                yield result
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    @staticmethod
    def _pool(number: int) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(number, mp_context=multiprocessing.get_context("spawn"))


def _awaited(future: Future[Any]) -> Any:
    while True:
        try:
            return future.result(timeout=_PATIENCE)
        except NotYet:
            checkpoint()
