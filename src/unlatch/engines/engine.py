"""Who does the work on the blocks of a log: this process by default. Nothing here knows what the work is.

A task is a function of a block and of what it is told about it. It is pure: done again, by anybody, it gives the same.
Results come in the order of the blocks, whoever was first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from unlatch.core.budget import checkpoint
from unlatch.errors import UsageError

__all__ = ["Block", "Engine", "Task", "ThisProcess", "engine_of", "run_task"]

Task = Callable[..., Any]


class Block(Protocol):
    """A part of a log that whoever works on it reads for himself."""

    @property
    def name(self) -> str:
        """The file and the rows, as messages call it."""

    def read(self) -> Any:
        """Its steps."""


class Engine(Protocol):
    """Something that runs tasks on blocks."""

    @property
    def remote(self) -> bool:
        """Whether blocks are read elsewhere than in this process."""

    def each(
        self, task: Task, blocks: Sequence[Block], arguments: Sequence[tuple[Any, ...]]
    ) -> Iterator[Any]:
        """``task(block, *arguments)`` for every block, in their order."""


class ThisProcess:
    """One block after the other, here."""

    remote = False

    def each(
        self, task: Task, blocks: Sequence[Block], arguments: Sequence[tuple[Any, ...]]
    ) -> Iterator[Any]:
        for block, given in zip(blocks, arguments, strict=True):
            checkpoint()
            yield task(block, *given)


def run_task(task: Task, block: Block, arguments: tuple[Any, ...]) -> Any:
    """What a worker does, on one thread."""
    from unlatch import linalg

    return linalg.on_one_thread(task)(block, *arguments)


def engine_of(
    engine: Any,
    *,
    scheduler: str | None = None,
    insecure: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Engine:
    """An engine from what a caller says: None, "processes", "dask", a number of processes, or a client of Dask.

    Parameters
    ----------
    engine : None, str, int, dask.distributed.Client or Engine
    scheduler : str, optional
        Address of a running scheduler of Dask.
    insecure : bool
        Allow an address of another machine without TLS. Whoever reaches such a scheduler can run anything on it.
    checkpoint : path, optional
        Folder in which the result of every block is kept, for a call that is repeated after it was killed.
    """
    if engine is None or engine == "process":
        found: Engine = ThisProcess()
    elif engine == "processes" or (isinstance(engine, int) and not isinstance(engine, bool)):
        from unlatch.engines.processes import Processes

        found = Processes(None if engine == "processes" else engine)
    elif engine == "dask":
        from unlatch.engines.dask import DaskEngine

        found = DaskEngine.reached(scheduler, insecure=insecure)
    elif hasattr(engine, "each"):
        found = engine
    elif type(engine).__module__.startswith("distributed"):
        from unlatch.engines.dask import DaskEngine

        found = DaskEngine(engine)
    else:
        raise UsageError(
            f"engine must be None, 'processes', a number of processes, 'dask' or a client of Dask, got {engine!r:.60}"
        )
    if scheduler is not None and engine != "dask":
        raise UsageError("a scheduler is one of Dask: give engine='dask' (--engine dask) with it")
    if checkpoint is not None:
        from unlatch.engines.remembered import Remembered

        found = Remembered(found, checkpoint)
    return found
