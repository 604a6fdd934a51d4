"""Mutated logs and models: every file is read, or refused with a declared error, and nothing else happens.

    python benchmarks/fuzz.py                                       20,000 files of each format
    python benchmarks/fuzz.py --formats csv parquet --files 1000000
    python benchmarks/fuzz.py --formats csv --seconds 60            as many as there is time for
    python benchmarks/fuzz.py --formats csv --start 500000          files that follow those of an earlier run
    python benchmarks/fuzz.py --formats csv --only 4711             one of the files again
    python benchmarks/fuzz.py --bits                                all single-bit flips of saved models, JSON and NPZ

What is mutated is in ``fuzz_logs.py`` and ``fuzz_models.py``. What is read must come back when it is written and read
again. A fault is an exception that is not declared, a model that does not come back, a file that takes more
than two seconds, a process that grows beyond 512 MB, or one that dies or hangs; the file is kept beside the report and
the exit code is 1. Files are read by processes of their own (``--workers``), many by each, which a parent watches.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import random
import resource
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

SLOW = 2.0
LARGE = 512.0
ADDRESSES = 8 << 30
"""Bytes that the process may ask for: what a file declares may be huge, and no file gets that much."""

TOLD_EVERY = 60.0
"""Seconds, after which it is told how far it has come."""

BLOCK = 250
"""Files that a process is given at a time."""

HANGS = 30.0
"""Seconds with one file after which a process is killed."""

BEGINS = 300.0
"""Seconds after which a process must have begun: kernels may have to be compiled."""

TOKENS = (
    b"", b"\0", b'"', b'""', b"'", b",", b";", b"\t", b"\n", b"\r", b"\r\n", b"\n\n",
    b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", "é".encode(), "e\u0301".encode(), "\u202e".encode(), b"\x1b[31m",
    b"nan", b"NaN", b"-Infinity", b"inf", b"1e999", b"-1e-999", b"9" * 400, b"9" * 5000, b"-1", b"0.1", b"01",
    b"null", b"true", b"[]", b"{}", b"[" * 150, b'{"a":' * 150, b"[]," * 5000, b'{"":0},' * 2000,
    b'"\\ud800"', b'"\\u0000"', b"x" * 300, b"x" * 5000, b"a,b,c,d,e,f,g\n", b"action,observation\n", b"=1+1",
    b"PK\x03\x04", b"\x80\x04",
)  # fmt: skip
"""What parsers stumble over."""


@dataclass
class Report:
    """What became of the files."""

    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slowest: tuple[float, str] = (0.0, "none")
    megabytes: float = 0.0
    """The most memory that a process has had."""

    def add(self, name: str, outcome: str, seconds: float) -> None:
        self.outcomes[outcome] += 1
        self.slowest = max(self.slowest, (seconds, name))

    def join(self, other: Report) -> None:
        self.outcomes += other.outcomes
        self.faults += other.faults
        self.slowest = max(self.slowest, other.slowest)
        self.megabytes = max(self.megabytes, other.megabytes)


@dataclass(frozen=True)
class Format:
    """How files of one format are made and read.

    ``bases`` gives whole files; ``changed`` a mutation of one, the others
    given; ``attempt(path, base=..., rng=...)`` reads a file and says what came of it.
    """

    ending: str
    bases: Callable[[Path], list[bytes]]
    changed: Callable[[bytes, random.Random, list[bytes]], bytes]
    attempt: Callable[..., str]


# --- mutations -------------------------------------------------------------------------------------------


def mutated(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """One to a few changes of the bytes."""
    for _ in range(rng.choice((1, 1, 1, 2, 4, 8))):
        at, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        near = min(at + rng.choice((1, 2, 8, 40)), len(data))
        kind = rng.randrange(8)
        if kind == 0 and data:
            flipped = bytearray(data)
            flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            data = bytes(flipped)
        elif kind == 1:
            data = data[:at] + data[near:]
        elif kind == 2:
            data = data[:at] + rng.choice(TOKENS) + data[at:]
        elif kind == 3:
            data = data[:at] + rng.choice(TOKENS) + data[near:]
        elif kind == 4:
            data = data[:at] + data[at:near] * rng.choice((2, 3, 50)) + data[near:]
        elif kind == 5:
            data = data[:at] + rng.randbytes(rng.choice((1, 4, 16))) + data[at:]
        elif kind == 6:
            data = data[: rng.choice((at, end, len(data) - 1))]
        else:
            other = rng.choice(others)
            cut = rng.randrange(len(other) + 1)
            data = data[:at] + other[cut : cut + (end - at)] + data[end:]
    return data


# --- running ---------------------------------------------------------------------------------------------


def formats() -> dict[str, Format]:
    """Every format by its name."""
    from fuzz_logs import LOGS
    from fuzz_models import MODELS

    return {**LOGS, **MODELS}


def run(
    names: Sequence[str],
    files: int,
    seed: int,
    folder: Path,
    keep: Path,
    *,
    start: int = 0,
    seconds: float = float("inf"),
    workers: int = 1,
) -> Report:
    """Make and read the files, of each format as many as asked for or as fit into its seconds."""
    report = Report()
    for name in names:
        watch = _Watch(Job(name, seed, folder, keep), (start, start + files), seconds, workers)
        report.join(watch.finished())
    return report


@dataclass(frozen=True)
class Job:
    """Files of one format, each of which its number determines."""

    name: str
    seed: int
    folder: Path
    keep: Path

    def file(self, number: int, kind: Format, bases: list[bytes]) -> tuple[bytes, bytes, random.Random]:
        """A file, what it was made from, and what is drawn further."""
        rng = random.Random(zlib.crc32(f"{self.name}:{self.seed}".encode()) << 64 | number)
        base = rng.choice(bases)
        return kind.changed(base, rng, bases), base, rng


def work(job: Job, connection: Connection, at: Any) -> None:
    """A process: reads the files whose numbers it is sent, and says what came of them; ``at`` is the one it is at."""
    prepare()
    kind = formats()[job.name]
    folder = job.folder / f"worker-{os.getpid()}"
    folder.mkdir()
    bases = kind.bases(folder)
    path = folder / f"file{kind.ending}"
    for data in bases:  # compiles what reads a file, which is not the fault of a file
        path.write_bytes(data)
        kind.attempt(path, base=data, rng=random.Random(0))
    connection.send(None)
    gc.collect()
    gc.freeze()
    gc.disable()  # what a file leaves behind is looked for once a block, not hundreds of times
    while (numbers := connection.recv()) is not None:
        report = Report()
        for number in range(*numbers):
            at[0] = number
            data, base, rng = job.file(number, kind, bases)
            attempt = partial(kind.attempt, base=base, rng=rng)
            add_file(report, path, f"{number}{kind.ending}", job.name, data, attempt, job.keep)
        report.megabytes = peak_megabytes()
        gc.collect()
        connection.send(report)


class Patience:
    """How long a process has been at one file, or at beginning."""

    def __init__(self) -> None:
        self.at = -1
        self.since = time.monotonic()

    def begin(self) -> None:
        """It is given files: what it took to begin is not their fault."""
        self.since = time.monotonic()

    def seconds(self, at: int) -> float:
        if at != self.at:
            self.at, self.since = at, time.monotonic()
        return time.monotonic() - self.since


class _Worker:
    """One such process, as its parent sees it."""

    def __init__(self, job: Job) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.at = context.RawArray("q", [-1])
        self.numbers: tuple[int, int] | None = None
        self.process = context.Process(target=work, args=(job, other, self.at), daemon=True)
        self.process.start()
        other.close()
        self._patience = Patience()

    def give(self, numbers: tuple[int, int] | None) -> None:
        self.numbers = numbers
        self._patience.begin()
        self.connection.send(numbers)

    def hangs(self) -> bool:
        """Whether it has been at one file, or at beginning, for too long."""
        return self._patience.seconds(self.at[0]) > (BEGINS if self.numbers is None else HANGS)

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


class _Watch:
    """Gives files out to workers, gathers what came of them, and takes the place of those that die or hang."""

    def __init__(self, job: Job, numbers: tuple[int, int], seconds: float, workers: int) -> None:
        self.report = Report()
        self._job = job
        self._blocks = _blocks(*numbers)
        self._again: list[tuple[int, int]] = []
        self._workers = [_Worker(job) for _ in range(min(workers, max(1, numbers[1] - numbers[0])))]
        self._seconds = seconds
        self._begun: float | None = None

    def finished(self) -> Report:
        told = time.monotonic()
        while self._workers:
            ready = wait([worker.connection for worker in self._workers], timeout=0.5)
            for worker in list(self._workers):
                if worker.connection in ready:
                    self._listen(worker)
                elif worker.hangs():
                    self._replace(worker, "hangs")
            if time.monotonic() - told > TOLD_EVERY:
                told = time.monotonic()
                count = sum(self.report.outcomes.values())
                print(f"{self._job.name}: {count} files, peak {self.report.megabytes:.0f} MB", flush=True)
        return self.report

    def _listen(self, worker: _Worker) -> None:
        try:
            said = worker.connection.recv()
        except EOFError:
            worker.process.join()
            self._replace(worker, f"the process died with {worker.process.exitcode}")
            return
        if said is not None:
            self.report.join(said)
        self._begun = self._begun or time.monotonic()  # the seconds are those of reading
        numbers = self._next()
        worker.give(numbers)
        if numbers is None:
            worker.process.join()
            self._workers.remove(worker)

    def _next(self) -> tuple[int, int] | None:
        if self._begun is not None and time.monotonic() - self._begun > self._seconds:
            return None
        return self._again.pop() if self._again else next(self._blocks, None)

    def _replace(self, worker: _Worker, what: str) -> None:
        """Keep the file that it was reading, and let another read the rest."""
        worker.end()
        self._workers.remove(worker)
        if worker.numbers is None:
            self.report.faults.append(f"{self._job.name}: {what} before it read a file")
            return
        kind = formats()[self._job.name]
        number, (first, last) = worker.at[0], worker.numbers
        data, *_ = self._job.file(number, kind, kind.bases(self._job.folder))
        _keep(self.report, self._job.keep, f"{number}{kind.ending}", data, what)
        self.report.add(f"{number}{kind.ending}", f"{self._job.name}: FAULT: {what}", 0.0)
        self._again += [part for part in ((first, number), (number + 1, last)) if part[0] < part[1]]
        self._workers.append(_Worker(self._job))


def _blocks(first: int, last: int) -> Iterator[tuple[int, int]]:
    for number in range(first, last, BLOCK):
        yield number, min(number + BLOCK, last)


def add_file(
    report: Report,
    path: Path,
    name: str,
    kind: str,
    data: bytes,
    attempt: Callable[[Path], str],
    keep: Path,
) -> None:
    """Write a file, read it, and note what came of it."""
    path.write_bytes(data)
    begun = time.perf_counter()
    try:
        outcome = attempt(path)
    except Exception as error:
        outcome = f"FAULT: {type(error).__name__}"
        _keep(report, keep, name, data, traceback.format_exc())
    seconds = time.perf_counter() - begun
    if seconds > SLOW:
        _keep(report, keep, name, data, f"took {seconds:.1f} s")
    report.add(name, f"{kind}: {outcome}", seconds)


def prepare() -> None:
    """What a process is that reads such files: a warning is an error, and memory has an end."""
    warnings.simplefilter("error")
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))


def _keep(report: Report, keep: Path, name: str, data: bytes, what: str) -> None:
    keep.mkdir(parents=True, exist_ok=True)
    (keep / name).write_bytes(data)
    report.faults.append(f"{keep / name}: {what}")


def run_bits(folder: Path, keep: Path, stride: int) -> Report:
    """Every single-bit flip (or every ``stride``-th) of our own files is refused, or the model is the same."""
    from fuzz_models import flipped_outcome

    report = Report()
    for name in ("json", "npz"):
        for number, data in enumerate(formats()[name].bases(folder)):
            for bit in range(0, 8 * len(data), stride):
                flipped = bytearray(data)
                flipped[bit // 8] ^= 1 << bit % 8
                add_file(
                    report,
                    folder / f"flipped.{name}",
                    f"{number}-{bit}.{name}",
                    name,
                    bytes(flipped),
                    partial(flipped_outcome, data=data),
                    keep,
                )
    report.megabytes = peak_megabytes()
    return report


def main() -> int:
    known = list(formats())
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--formats", nargs="+", choices=known, default=known, metavar="FORMAT", help=", ".join(known)
    )
    parser.add_argument("--files", type=int, default=20_000, help="of each format")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="at most, for each format")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="the number of the first file")
    parser.add_argument("--only", type=int, help="the number of one file")
    parser.add_argument("--bits", action="store_true", help="flip bits instead")
    parser.add_argument("--stride", type=int, default=1, help="flip every so many bits")
    parser.add_argument("--keep", type=Path, default=Path("out/fuzz"), help="where files with faults go")
    parser.add_argument("--workers", type=int, default=1, help="processes that read files")
    given = parser.parse_args()
    prepare()
    warm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=warm if warm.is_dir() else None) as name:
        folder = Path(name)
        begun = time.perf_counter()
        if given.bits:
            report = run_bits(folder, given.keep, given.stride)
        else:
            report = run(
                given.formats,
                given.files if given.only is None else 1,
                given.seed,
                folder,
                given.keep,
                start=given.start if given.only is None else given.only,
                seconds=given.seconds,
                workers=given.workers,
            )
        seconds = time.perf_counter() - begun
    return told(report, seconds)


def peak_megabytes() -> float:
    """The most memory that this program has had; getrusage would count what its parent had when it began."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def told(report: Report, seconds: float) -> int:
    """Print the report; 1 if there was a fault."""
    for outcome, count in sorted(report.outcomes.items()):
        print(f"{count:9d}  {outcome}")
    slowest, name = report.slowest
    print(f"{sum(report.outcomes.values())} files in {seconds:.0f} s, peak {report.megabytes:.0f} MB")
    print(f"slowest: {name}, {slowest:.2f} s")
    if report.megabytes > LARGE:
        report.faults.append(f"a process grew to {report.megabytes:.0f} MB")
    for fault in report.faults[:10]:
        print(f"FAULT {fault}")
    print(f"{len(report.faults)} faults")
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
