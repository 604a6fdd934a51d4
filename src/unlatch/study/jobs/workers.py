"""Processes that run one unit at a time, and can be killed at any moment without harm.

A unit may hang in native code with the interpreter's lock held; no thread and no signal handler can stop
that, only another process can. So every unit runs in a child, and the parent watches the clock.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, NamedTuple

from unlatch.errors import UsageError
from unlatch.study.jobs.units import Unit, canonical_bytes, named_seed

__all__ = ["ATTEMPTS", "Reply", "UnitBlock", "Worker", "cause", "run_apart", "serve", "timed_out"]

_LIBRARIES = ("OPENBLAS", "OMP", "MKL", "BLIS", "VECLIB_MAXIMUM", "NUMEXPR", "NUMBA")
"""They would start threads of their own; parallelism is by process."""

START = "import sys; sys.path[:] = sys.argv[3:]; from unlatch.study.jobs.workers import serve; serve()"
"""A fresh interpreter that finds the same modules as its parent, and runs nobody's main module."""

ATTEMPTS = 2
"""Processes that may die while they run a unit; the last time is its failure."""

_READY = b"ready"
_PR_SET_PDEATHSIG = 1


class Reply(NamedTuple):
    """What came back from a worker: the result as JSON, stage times, and for us the traceback of a bug."""

    content: dict[str, Any]
    seconds: dict[str, float]
    trace: str = ""


class Worker:
    """A child process, seen from its parent."""

    def __init__(self) -> None:
        self.connection, theirs = Pipe()
        command = [sys.executable, "-P", "-c", START, str(theirs.fileno()), str(os.getpid()), *sys.path]
        single = {f"{library}_NUM_THREADS": "1" for library in _LIBRARIES}
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # Ctrl-C is the parent's business
        try:
            self._process = subprocess.Popen(
                command, env={**os.environ, **single}, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            theirs.close()
        self.ready = False
        self.unit: Unit | None = None
        self.begun = 0.0

    def assign(self, root_seed: int, unit: Unit) -> None:
        """Send a unit to be run; the clock starts."""
        try:
            job = pickle.dumps((unit.function, dict(unit.parameters), root_seed, unit.id))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise UsageError(f"unit {unit.id} cannot be sent to another process: {error}") from None
        self.unit, self.begun = unit, time.monotonic()
        with suppress(OSError):  # a worker that has died is noticed by its parent a moment later
            self.connection.send_bytes(job)

    def receive(self) -> Reply | None:
        """The unit's result, or None for the greeting of a worker that has started. EOFError if it died."""
        try:
            message = self.connection.recv_bytes()
        except OSError:
            raise EOFError from None
        if message == _READY:
            self.ready = True
            return None
        self.unit = None
        reply: Reply = pickle.loads(message)
        return reply

    @property
    def seconds(self) -> float:
        """Since the unit was assigned."""
        return time.monotonic() - self.begun

    def kill(self) -> int | None:
        """End the process whatever it is doing, and give the code it ended with."""
        self._process.kill()
        return self.buried()

    def buried(self) -> int | None:
        """Wait for a process that is about to end; give its exit code and free what it held."""
        self.connection.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        return self._process.returncode


# --- wherever an engine works ----------------------------------------------------------------------------


@dataclass(frozen=True)
class UnitBlock:
    """A unit, as engines see it."""

    unit: Unit

    @property
    def name(self) -> str:
        return f"unit {self.unit.id}"

    def read(self) -> Unit:
        return self.unit


def run_apart(block: UnitBlock, root_seed: int, limit: float) -> tuple[Reply, float, int]:
    """A task for an engine: run a unit in a process of its own on the machine where this is called.

    Whatever the unit does costs nobody but that process, which is killed at the limit. Returns the reply, seconds, and
    the processes that it took.
    """
    attempts = 0
    while True:
        attempts += 1
        worker = Worker()
        try:
            worker.assign(root_seed, block.unit)
            while worker.unit is not None:
                left = limit - worker.seconds
                if left <= 0:
                    return timed_out(limit), worker.seconds, attempts
                if wait([worker.connection], timeout=left) and (reply := worker.receive()) is not None:
                    return reply, worker.seconds, attempts
        except EOFError:
            code = worker.buried()
            if attempts == ATTEMPTS:
                failed = {"outcome": "failed", "reason": "killed", "detail": cause(code)}
                return Reply(failed, {}), worker.seconds, attempts
        finally:
            worker.kill()


def timed_out(limit: float) -> Reply:
    """What is recorded of a unit that took longer."""
    return Reply({"outcome": "failed", "reason": "timeout", "limit": limit}, {})


def cause(code: int | None) -> str:
    """What ended a process, for people; the kernel sends SIGKILL when memory runs out."""
    if code is None or code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name
    return f"{name}, perhaps out of memory" if name == "SIGKILL" else name


# --- inside the child ------------------------------------------------------------------------------------


def serve() -> None:
    """Run units until the parent hangs up. SIGINT is blocked since before this process began."""
    connection, parent = Connection(int(sys.argv[1])), int(sys.argv[2])
    _die_with(parent)
    with suppress(EOFError, OSError):
        connection.send_bytes(_READY)
        while True:
            connection.send_bytes(pickle.dumps(_answer(connection.recv_bytes())))


def _die_with(parent: int) -> None:
    """Ask the kernel to end this process with its parent, so that a killed run leaves nobody behind."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def _answer(job: bytes) -> Reply:
    try:
        function, parameters, root, unit_id = pickle.loads(job)
        finding = function(parameters, named_seed(root, unit_id))
        content = {"outcome": "finished", "rows": [dict(row) for row in finding.rows]}
        canonical_bytes(content)  # here, so that what is no JSON is the unit's failure and not the parent's
        return Reply(content, dict(finding.seconds))
    except MemoryError:
        return Reply({"outcome": "failed", "reason": "memory", "detail": "MemoryError"}, {})
    except Exception as error:
        detail = f"{type(error).__name__}: {error}"
        return Reply(
            {"outcome": "failed", "reason": "error", "detail": detail}, {}, trace=traceback.format_exc()
        )
