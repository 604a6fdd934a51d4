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
from unlatch.engines.engine import Block, Task, run_task
from unlatch.errors import EngineError

__all__ = ["Processes"]

_TRIES = 3
"""Processes that a block may take down, alone, before it is called the cause."""

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
        strikes = [0] * len(blocks)
        try:
            done = 0
            while done < len(blocks):
                for number in range(done, min(done + 2 * self._number, len(blocks))):
                    if number not in waiting:
                        waiting[number] = pool.submit(run_task, task, blocks[number], arguments[number])
                try:
                    result = _awaited(waiting[done])
                except BrokenProcessPool:
                    pool.shutdown(wait=False, cancel_futures=True)
                    waiting.clear()
                    result = self._alone(task, blocks[done], arguments[done], strikes, done)
                    pool = self._pool(self._number)
                else:
                    waiting.pop(done)
                yield result
                done += 1
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _alone(
        self, task: Task, block: Block, given: tuple[Any, ...], strikes: list[int], number: int
    ) -> Any:
        """The result of a block in a process by itself, so that only it can be the cause of what happens."""
        while True:
            with self._pool(1) as pool:
                try:
                    return _awaited(pool.submit(run_task, task, block, given))
                except BrokenProcessPool:
                    strikes[number] += 1
            if strikes[number] >= _TRIES:
                raise EngineError(
                    f"{block.name}: every process that worked on it died ({_TRIES} of {_TRIES}); out of memory, or a "
                    "damaged file that takes the reader down. Leave it out, or look at it by itself",
                    block=block.name,
                )

    @staticmethod
    def _pool(number: int) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(number, mp_context=multiprocessing.get_context("spawn"))


def _awaited(future: Future[Any]) -> Any:
    while True:
        try:
            return future.result(timeout=_PATIENCE)
        except NotYet:
            checkpoint()
