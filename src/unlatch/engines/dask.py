"""A cluster of Dask: one here, one that runs somewhere, or one that the caller is connected to.

Tasks read their own data and return small results; nothing is scattered, and no worker steals from another. A worker
that dies is replaced, and its blocks are given to others, as often as it takes: workers may die for any reason. Only a
block that takes down one worker after the other while others live is named. If the scheduler itself is gone, an error
says so; what was kept with a checkpoint, or counted into files, is still there.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any
from urllib.parse import urlsplit

from unlatch.core.budget import checkpoint
from unlatch.engines.engine import Block, Task, WorkerDied, nothing, result_alone, run_task
from unlatch.errors import EngineError, MissingDependencyError, UsageError

__all__ = ["DaskEngine"]

_LOCAL = ("127.0.0.1", "localhost", "::1", "[::1]")

_IN_FLIGHT = 3
"""Blocks submitted for every worker: enough that none waits, few enough that results do not pile up."""

_PATIENCE = 0.5
"""Seconds between two looks at a result."""

_BEGUN = "unlatch.streams.begun"
"""The module that workers of ours load before they are there: a worker that dies young should not die of its start."""

_FREELY = 2
"""Times that a block is given to workers among others before it is tried by itself."""

_RETRIES = 1
"""Times that a task which has raised an error is done once more: a file system may have been away for a moment."""

_REPLACED = 10.0
"""Seconds in which whoever watches over a worker that has died replaces it. Asked for anew before that, workers that
are just beginning would be closed, with what they have begun."""

_SILENCE = 60.0
"""Seconds without a scheduler, or without a worker, after which they are given up."""


def _library() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise MissingDependencyError(
            f"engine 'dask' needs distributed, which cannot be imported ({error}); install it: pip install "
            "'unlatch[cluster]'",
            package="distributed",
        ) from None
    return distributed


class DaskEngine:
    """Work on the blocks of a log by the workers of a client.

    Parameters
    ----------
    client : dask.distributed.Client
    silence : float
        Seconds without a scheduler or a worker after which they are given up.
    cluster : optional
        What is closed with the engine.
    """

    remote = True

    def __init__(self, client: Any, *, silence: float = _SILENCE, cluster: Any = None) -> None:
        self.client = client
        self.cluster = cluster
        self._wanted = 0 if cluster is None else len(cluster.workers)
        self._silence = silence

    @classmethod
    def reached(cls, address: str | None, *, insecure: bool = False) -> DaskEngine:
        """With a client of the scheduler at an address; without one, with a cluster of this machine's cores."""
        distributed = _library()
        if address is None:
            return cls.here()
        refuse_open_address(address, insecure=insecure)
        try:
            return cls(distributed.Client(address, timeout=_SILENCE / 4, set_as_default=False))
        except (OSError, ValueError, TimeoutError) as error:
            raise EngineError(
                f"no scheduler of Dask answers at {address} ({error}); is it running?"
            ) from None

    @classmethod
    def here(cls, workers: int | None = None, *, silence: float = _SILENCE) -> DaskEngine:
        """With a cluster of processes on this machine, which nobody else can reach; closed with the engine."""
        import dask

        distributed = _library()
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        settings = {
            "distributed.scheduler.work-stealing": False,
            "distributed.scheduler.allowed-failures": 0,  # who is to blame is found out here
            "distributed.comm.timeouts.connect": _SILENCE / 4,
            "distributed.scheduler.http.routes": [],  # a server for pages is begun all the same: it has none
            "distributed.worker.http.routes": [],
        }
        try:
            with dask.config.set(settings):
                cluster = distributed.LocalCluster(
                    n_workers=workers or cores,
                    threads_per_worker=1,
                    processes=True,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",
                    scheduler_kwargs={"dashboard": False},
                    preload=[_BEGUN],
                )
                client = distributed.Client(cluster, set_as_default=False)
        except (OSError, RuntimeError, TimeoutError) as error:
            raise EngineError(
                f"no cluster of Dask could be started here ({error}); in a program of your own it must be started "
                "under if __name__ == '__main__', since workers import it"
            ) from None
        return cls(client, silence=silence, cluster=cluster)

    def close(self) -> None:
        """Close the client, and the cluster if it was made here."""
        self.client.close(timeout=5)
        if self.cluster is not None:
            self.cluster.close(timeout=10)

    def each(
        self, task: Task, blocks: Sequence[Block], arguments: Sequence[tuple[Any, ...]]
    ) -> Iterator[Any]:
        run, submissions = secrets.token_hex(8), count()
        waiting: dict[int, Any] = {}

        def submitted(number: int | None) -> Any:
            given = (nothing,) if number is None else (run_task, task, blocks[number], arguments[number])
            key = f"unlatch-{run}-{number}-{next(submissions)}"
            try:
                return self.client.submit(*given, key=key, retries=_RETRIES)
            except Exception as error:  # a client says in its own ways that it has no scheduler any more
                if self.client.status == "running":
                    raise
                raise self._lost(blocks[done], str(error)) from None

        def survivor() -> int | None:
            """A block that was worked on and killed nobody, once nobody works on anything any more."""
            for other, future in waiting.items():
                self._finished(future, blocks[other])
            if done:
                return done - 1
            return next((other for other, future in waiting.items() if future.status == "finished"), None)

        def trial(number: int | None) -> Any:
            future = submitted(number)
            try:
                return self._result(future, blocks[done])
            finally:
                future.release()

        try:
            for done in range(len(blocks)):
                for number in range(done, min(done + self._most(), len(blocks))):
                    if number not in waiting:
                        waiting[number] = submitted(number)
                result = None
                for trials_left in range(_FREELY - 1, -1, -1):
                    try:
                        result = self._result(waiting[done], blocks[done])
                        break
                    except WorkerDied:
                        waiting.pop(done).release()
                        if trials_left:
                            waiting[done] = submitted(done)
                if done not in waiting:
                    result = result_alone(trial, done, survivor(), blocks[done].name)
                yield result
                if done in waiting:
                    waiting.pop(done).release()
        finally:
            for future in waiting.values():
                future.release()

    def _most(self) -> int:
        return max(2, _IN_FLIGHT * len(self.client.scheduler_info(n_workers=-1).get("workers", ())))

    def _result(self, future: Any, block: Block) -> Any:
        """What a task has returned; `WorkerDied` if its worker has not lived to see that."""
        distributed = _library()
        self._finished(future, block)
        try:
            return future.result(timeout=self._silence)
        except distributed.KilledWorker as error:
            raise WorkerDied(str(error)) from None
        except (distributed.CancelledError, distributed.comm.CommClosedError, TimeoutError) as error:
            raise self._lost(block, str(error)) from None

    def _finished(self, future: Any, block: Block) -> None:
        """Wait for the end of a task, whatever it is, as long as there is a scheduler with a worker."""
        distributed = _library()
        heard = asked = time.monotonic()
        while True:
            checkpoint()
            try:
                future.exception(timeout=_PATIENCE)
                return
            except (distributed.CancelledError, distributed.comm.CommClosedError) as error:
                raise self._lost(block, str(error)) from None
            except TimeoutError:
                now = time.monotonic()
                if self._alive():
                    heard = asked = now
                elif now - heard > self._silence:
                    raise self._lost(block, f"silent for {self._silence:g} seconds") from None
                elif self.cluster is not None and now - asked > _REPLACED:
                    asked = now
                    self.cluster.scale(self._wanted)  # whoever watched over a worker may be gone with it

    def _alive(self) -> bool:
        """Whether the scheduler answers, and has a worker."""
        if self.client.status != "running":
            return False
        try:
            return len(self.client.scheduler_info(n_workers=-1).get("workers", ())) > 0
        except (OSError, RuntimeError, TimeoutError):
            return False

    def _lost(self, block: Block, why: str) -> EngineError:
        return EngineError(
            f"the scheduler of Dask or all its workers are gone ({why}); {block.name} and what comes after it are not "
            "done. Start the cluster again and repeat the call: the log is as it was, what was kept with a checkpoint "
            "is not done again, and counts that were written to files are still there",
            block=block.name,
        )


def refuse_open_address(address: str, *, insecure: bool) -> None:
    """Refuse the address of another machine without TLS: whoever reaches such a scheduler can run anything there."""
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    if parts.scheme not in ("tcp", "tls", "ucx", "ws", "wss") or not parts.hostname:
        raise UsageError(
            f"{address!r:.80} is no address of a scheduler; expected tls://host:port or tcp://127.0.0.1:port"
        )
    if parts.hostname in _LOCAL or parts.scheme in ("tls", "wss") or insecure:
        return
    raise UsageError(
        f"{address} is another machine, reached without encryption: whoever can reach it can run anything on its "
        "workers. Use TLS (tls://...), an ssh tunnel to 127.0.0.1, or say that the network is yours: "
        "--insecure-scheduler (insecure=True)"
    )
