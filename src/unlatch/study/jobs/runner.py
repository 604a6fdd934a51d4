"""Run the units of a study in separate processes, so that nothing that happens to a run costs a finished unit.

- Killed, interrupted or out of power: run it again, finished units are skipped.
- A unit that hangs is killed at its time limit and recorded as failed; so is one whose process dies twice.
- Two runners in one folder share the units; neither waits for ever.
- The files in ``units/`` are the same, byte for byte, whatever the number of workers and interruptions, as long
  as no unit ran into its time limit or out of memory. Times are kept in ``times/``, apart from that promise.

The runner knows nothing of what the units compute.
"""

from __future__ import annotations

import csv
import io
import signal
import threading
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from unlatch.core.progress import report
from unlatch.errors import RepairWarning, ResourceLimitError, StorageError, UsageError
from unlatch.files.atomic import PathLike, checked_path, write_atomically
from unlatch.study.jobs.folder import Claim, StudyFolder, study_folder
from unlatch.study.jobs.units import Study, Unit
from unlatch.study.jobs.workers import ATTEMPTS, Reply, UnitBlock, Worker, cause, run_apart, timed_out

__all__ = ["Summary", "collect_rows", "collect_seconds", "run_units", "write_table"]

Progress = Callable[[float, float], None]
"""Called with the work done and the work in all, in the unit of `Unit.cost`."""

_TICK = 0.1
"""Seconds between looks at the clock and at what fellow runners do."""

_FALSE_STARTS = 3
"""Workers in a row that may die before they are given any work."""

GRACE = 60.0
"""Seconds beyond the longest that a fellow runner can need, before we stop waiting for it."""


@dataclass(frozen=True)
class Summary:
    """How a run ended: numbers of units, and the names of those that had been finished but whose files were damaged
    or edited, so that they were run again."""

    finished: int
    failed: int
    run_here: int
    damaged: tuple[str, ...] = ()


def run_units(
    study: Study,
    out_dir: PathLike,
    *,
    workers: int = 1,
    engine: Any = None,
    time_limit_per_unit: float = 3600.0,
    chosen: Iterable[Unit] | None = None,
    force: bool = False,
    on_progress: Progress | None = None,
) -> Summary:
    """Run what is not finished yet; return when every unit is finished or recorded as failed.

    Parameters
    ----------
    study : Study
    out_dir : path
        Made if needed. One study per folder; any number of runners.
    workers : int
        Processes, each with one thread.
    engine : optional
        Somebody else who runs units, such as a cluster: an object with ``each(task, blocks, arguments)``. Its workers
        must find the functions of the units, and start a process for each; files are written here.
    time_limit_per_unit : float
        Seconds on the wall clock. A unit that failed for a shorter limit in an earlier run is tried again.
    chosen : units, optional
        Run only these of the study's units.
    force : bool
        Go on in a folder that holds another configuration; see `study_folder`.
    on_progress : callable, optional
        Beside the reports to `unlatch.core.progress`.

    Raises
    ------
    StorageError
        If the disk stands in the way, the folder holds another configuration, or a fellow runner does
        not come to an end.
    KeyboardInterrupt
        On Ctrl-C or SIGTERM, once all workers are stopped. The same call goes on where this one stopped.
    """
    _refuse_senseless(workers, time_limit_per_unit)
    units = list(study.units if chosen is None else chosen)
    with study_folder(study, Path(checked_path(out_dir)), force=force) as folder, _stop_requests() as stop:
        run = _Run(folder, units, workers, time_limit_per_unit, on_progress)
        try:
            if engine is None:
                run.to_the_end(stop)
            else:
                run.by(engine, stop)
        finally:
            run.dismiss()
    failed = sum(folder_result["outcome"] == "failed" for folder_result in run.results())
    return Summary(
        finished=len(units) - failed, failed=failed, run_here=run.run_here, damaged=tuple(run.damaged)
    )


def _refuse_senseless(workers: int, time_limit: float) -> None:
    if (
        type(workers) is not int
        or not isinstance(time_limit, int | float)
        or workers < 1
        or not time_limit > 0
    ):
        raise UsageError(
            f"workers and time limit must be positive numbers, got {workers!r} and {time_limit!r}"
        )


def collect_rows(
    study: Study, out_dir: PathLike, chosen: Iterable[Unit] | None = None
) -> list[dict[str, Any]]:
    """The rows of all finished units in the order of the study, each with its ``unit`` first.

    A unit that failed contributes one row: its ``unit`` and an ``outcome`` such as ``failed(timeout)``. Units whose
    files are damaged or were edited are left out, with a warning.
    """
    folder = StudyFolder(study, Path(checked_path(out_dir)))
    rows: list[dict[str, Any]] = []
    damaged: list[str] = []
    for unit in study.units if chosen is None else chosen:
        result = folder.result(unit)
        if result is None:
            damaged += [unit.id] if folder.is_damaged(unit) else []
            continue
        if result["outcome"] == "failed":
            rows.append(
                {"unit": unit.id, **_scalars(unit.parameters), "outcome": f"failed({result['reason']})"}
            )
        else:
            rows.extend({"unit": unit.id, **row} for row in result["rows"])
    if damaged:
        _warn_of_damage(damaged, "were left out; run the study again")
    return rows


def _warn_of_damage(damaged: Sequence[str], what_became: str) -> None:
    shown = ", ".join(damaged[:5]) + (", ..." if len(damaged) > 5 else "")
    warnings.warn(
        RepairWarning(f"{len(damaged)} units whose files are damaged or edited {what_became}: {shown}"),
        stacklevel=3,
    )


def collect_seconds(
    study: Study, out_dir: PathLike, chosen: Iterable[Unit] | None = None
) -> dict[str, dict[str, Any]]:
    """Stage times by unit, of the units that have them."""
    folder = StudyFolder(study, Path(checked_path(out_dir)))
    times = {unit.id: folder.seconds(unit) for unit in (study.units if chosen is None else chosen)}
    return {unit_id: seconds for unit_id, seconds in times.items() if seconds}


def write_table(path: PathLike, rows: Sequence[Mapping[str, Any]], first: Sequence[str] = ()) -> None:
    """Rows as CSV: the columns named ``first``, then the others as they first appear.

    What a row lacks is left empty, what it could not tell is ``nan``.
    """
    present = dict.fromkeys(key for row in rows for key in row)
    columns = [*(key for key in first if key in present), *(key for key in present if key not in first)]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: "nan" if value is None else value for key, value in row.items()} for row in rows)
    write_atomically(path, text.getvalue().encode())


def _scalars(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in parameters.items() if isinstance(value, str | int | float)}


class _Run:
    """One runner at work: a queue, the workers, and the units that fellow runners hold."""

    def __init__(
        self,
        folder: StudyFolder,
        units: Sequence[Unit],
        workers: int,
        time_limit: float,
        on_progress: Progress | None,
    ) -> None:
        self._folder, self._units, self._limit, self._on_progress = folder, units, time_limit, on_progress
        self._size = workers
        self._queue: deque[Unit] = deque()
        self._elsewhere: deque[Unit] = deque()
        self._workers: list[Worker] = []
        self._claims: dict[str, Claim] = {}
        self._attempts: Counter[str] = Counter()
        self._false_starts = 0
        self._idle_since = time.monotonic()
        self._total = sum(unit.cost for unit in units)
        self._done = 0.0
        self.run_here = 0
        self.damaged: list[str] = []

    def results(self) -> Iterator[dict[str, Any]]:
        for unit in self._units:
            result = self._folder.result(unit)
            if result is not None:
                yield result

    def _look_through(self, stop: _StopRequest) -> None:
        """Queue what is not finished."""
        for unit in self._units:
            stop.obey()
            if not self._skip(unit):
                self._queue.append(unit)
                self.damaged += [unit.id] if self._folder.is_damaged(unit) else []
        if self.damaged:
            _warn_of_damage(self.damaged, "are run again")
        self._progress()

    def by(self, engine: Any, stop: _StopRequest) -> None:
        """Until every unit has a file, by the workers of an engine."""
        self._look_through(stop)
        stop.at_once = True
        while self._queue or self._elsewhere:
            stop.obey()
            units = list(iter(self._next, None))
            given = [(self._folder.study.root_seed, self._limit)] * len(units)
            done = engine.each(run_apart, [UnitBlock(unit) for unit in units], given)
            for unit, (reply, seconds, attempts) in zip(units, done, strict=True):
                self._attempts[unit.id] += attempts
                self._finish(unit, reply, seconds)
            if self._elsewhere:
                time.sleep(_TICK)
                self._look_elsewhere()

    def to_the_end(self, stop: _StopRequest) -> None:
        """Until every unit has a file, by processes of this machine."""
        self._look_through(stop)
        while self._queue or self._elsewhere or self._claims:
            stop.obey()
            self._hire()
            self._assign()
            self._listen()
            self._watch()
            self._look_elsewhere()

    def dismiss(self) -> None:
        """Kill the workers and give unfinished units back."""
        for worker in self._workers:
            worker.kill()
        for claim in self._claims.values():
            claim.release()
        self._workers, self._claims = [], {}

    # --- before a unit ------------------------------------------------------------------------------------

    def _skip(self, unit: Unit) -> bool:
        """Whether the unit is finished, which is then counted."""
        result = self._folder.result(unit)
        if result is None or (result.get("reason") == "timeout" and result["limit"] < self._limit):
            return False
        self._done += unit.cost
        return True

    def _hire(self) -> None:
        wanted = min(self._size, len(self._queue) + len(self._claims))
        while len(self._workers) < wanted:
            self._workers.append(Worker())

    def _assign(self) -> None:
        for worker in self._workers:
            if not worker.ready or worker.unit is not None:
                continue
            unit = self._next()
            if unit is None:
                return
            self._attempts[unit.id] += 1
            worker.assign(self._folder.study.root_seed, unit)

    def _next(self) -> Unit | None:
        """A unit that is ours to run. Whether it is finished is asked again under the claim."""
        while self._queue:
            unit = self._queue.popleft()
            claim = self._folder.claim(unit)
            if claim is None:
                self._elsewhere.append(unit)
            elif self._skip(unit):
                claim.release()
                self._progress()
            else:
                self._claims[unit.id] = claim
                return unit
        return None

    def _look_elsewhere(self) -> None:
        """With nothing left in the queue: see what became of the units that fellow runners hold."""
        if self._claims or self._queue:
            self._idle_since = time.monotonic()
        elif (idle := time.monotonic() - self._idle_since) > ATTEMPTS * self._limit + GRACE:
            unit = self._elsewhere[0]
            raise StorageError(
                f"{self._folder.path}: {len(self._elsewhere)} units are held by others for {idle:.0f} s, "
                f"{unit.id} by {self._folder.holder(unit)}; see whether it still runs, then run this again"
            )
        if not self._queue:
            self._queue, self._elsewhere = self._elsewhere, deque()

    # --- after a unit -------------------------------------------------------------------------------------

    def _listen(self) -> None:
        """Take what workers have to say; they say something within a tick, or nothing is read."""
        connections = {worker.connection: worker for worker in self._workers}
        for connection in wait(list(connections), timeout=_TICK) if connections else ():
            worker = connections[connection]  # type: ignore[index]
            unit = worker.unit
            try:
                reply = worker.receive()
            except EOFError:
                self._bury(worker)
                continue
            self._false_starts = 0
            if reply is not None and unit is not None:
                self._finish(unit, reply, worker.seconds)

    def _watch(self) -> None:
        """Kill what is over time."""
        for worker in list(self._workers):
            unit = worker.unit
            if unit is not None and worker.seconds > self._limit:
                self._workers.remove(worker)
                worker.kill()
                self._finish(unit, timed_out(self._limit), worker.seconds)

    def _bury(self, worker: Worker) -> None:
        """A worker died by itself or was killed: its unit gets one more chance."""
        self._workers.remove(worker)
        code = worker.buried()
        if worker.unit is None:
            self._false_starts += not worker.ready
            if self._false_starts >= _FALSE_STARTS:
                raise ResourceLimitError(
                    f"worker processes end as soon as they start ({cause(code)}); is there memory left?"
                )
        elif self._attempts[worker.unit.id] >= ATTEMPTS:
            detail = {"outcome": "failed", "reason": "killed", "detail": cause(code)}
            self._finish(worker.unit, Reply(detail, {}), worker.seconds)
        else:
            self._claims.pop(worker.unit.id).release()
            self._queue.append(worker.unit)

    def _finish(self, unit: Unit, reply: Reply, seconds: float) -> None:
        times: dict[str, Any] = {**reply.seconds, "total": seconds, "attempts": self._attempts[unit.id]}
        if reply.trace:
            times["trace"] = reply.trace
        self._folder.record(unit, reply.content, times)
        self._claims.pop(unit.id).release()
        self.run_here += 1
        self._done += unit.cost
        self._progress()

    def _progress(self) -> None:
        report(self._folder.study.name, self._done, self._total)
        if self._on_progress is not None:
            self._on_progress(self._done, self._total)


# --- stopping --------------------------------------------------------------------------------------------


class _StopRequest:
    """Set by Ctrl-C or SIGTERM; the second time nobody waits for anything, nor the first if we are not asked before
    long (``at_once``)."""

    def __init__(self) -> None:
        self.requested = False
        self.at_once = False

    def obey(self) -> None:
        """Stop here if a stop was requested."""
        if self.requested:
            raise KeyboardInterrupt

    def __call__(self, *_: object) -> None:
        if self.requested or self.at_once:
            raise KeyboardInterrupt
        self.requested = True


@contextmanager
def _stop_requests() -> Iterator[_StopRequest]:
    """Listen for signals while the block runs, where the system lets us: in the main thread."""
    stop = _StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
