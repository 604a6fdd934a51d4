"""Who does the work on the blocks of a log: this process by default. Nothing here knows what the work is.

A task is a function of a block and of what it is told about it. It is pure: done again, by anybody, it gives the same.
Results come in the order of the blocks, whoever was first.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from unlatch.core.budget import checkpoint
from unlatch.errors import EngineError, UsageError

__all__ = [
    "Block",
    "Engine",
    "Task",
    "ThisProcess",
    "WorkerDied",
    "engine_of",
    "nothing",
    "result_alone",
    "run_task",
]

Task = Callable[..., Any]

_CONTROLS = 4
"""Trials of another block after every death. So the other is exposed to whatever else kills workers for longer than the
suspect is, and deaths of the suspect alone are no accident."""

_LUCK = 1e-4
"""A block is called the cause if deaths that come to anybody would have hit it alone with a smaller chance than this:
after five deaths in five trials, if none of twenty others died."""

_ROUNDS = 40
"""Trials of a block, with others beside it, after which something else must be what kills workers."""


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


def nothing() -> None:
    """A task that any worker survives that can work at all."""


class WorkerDied(Exception):
    """Whoever worked on a block is gone. Its own fault, or not."""


def result_alone(trial: Callable[[int | None], Any], suspect: int, survivor: int | None, name: str) -> Any:
    """The result of a block whose workers have died more than once, worked on while nobody works on anything else.

    Workers die for reasons of their own (somebody kills them, a machine goes down), and a block that has been unlucky
    is only tried again. It is called the cause if it takes down one worker after the other while those that work on
    another block, under the same conditions, survive.

    Parameters
    ----------
    trial : callable
        ``trial(number)`` works on a block by itself, ``trial(None)`` on nothing; raises `WorkerDied`.
    suspect, survivor : int
        The block, and one that was worked on before and killed nobody; None if there is none.
    name : str
        Of the suspect, as messages call it.
    """
    lived = died = 0
    for deaths in range(1, _ROUNDS + 1):
        checkpoint()
        try:
            return trial(suspect)
        except WorkerDied as death:
            last = death
        for _ in range(_CONTROLS):
            try:
                trial(survivor)
            except WorkerDied:
                died += 1
                break
            lived += 1
        if _luck(deaths, lived, died) < _LUCK:
            raise EngineError(
                f"{name}: every worker that worked on it died ({deaths} of {deaths} by itself, while {lived} of "
                f"{lived + died} beside it lived; {last}); out of memory, or a damaged file that takes the reader "
                "down. Leave it out, or look at it by itself",
                block=name,
                poison=True,
            ) from None
    raise EngineError(
        f"workers die whatever they work on ({_ROUNDS} times beside {name}; {last}): is somebody killing them, is "
        "there memory left? What was kept with a checkpoint is still there: repeat the call when workers live",
        block=name,
    )


def _luck(deaths: int, lived: int, died: int) -> float:
    """The chance that all trials of one block are among the deaths, if each death might have come to any trial."""
    others = lived + died
    return math.comb(others, died) / math.comb(deaths + others, deaths + died)


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
