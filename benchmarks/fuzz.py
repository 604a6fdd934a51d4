"""Mutated logs and models: every file is read, or refused with a declared error, and nothing else happens.

    python benchmarks/fuzz.py                                       20,000 files of each format
    python benchmarks/fuzz.py --formats csv parquet --files 1000000
    python benchmarks/fuzz.py --formats csv --seconds 60            as many as there is time for
    python benchmarks/fuzz.py --formats csv --only 4711             one of the files again
    python benchmarks/fuzz.py --bits                                all single-bit flips of saved models, JSON and NPZ

What is mutated is in ``fuzz_logs.py`` and ``fuzz_models.py``. What is read must come back when it is written and read
again. A fault is an exception that is not declared, a model that does not come back, a file that takes more
than two seconds, or a process that grows beyond 512 MB; the file is kept beside the report and the exit code is 1.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

SLOW = 2.0
LARGE = 512.0
ADDRESSES = 8 << 30
"""Bytes that the process may ask for: what a file declares may be huge, and no file gets that much."""

TOLD_EVERY = 100_000
"""Files, after which it is told how far it has come."""

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

    def add(self, name: str, outcome: str, seconds: float) -> None:
        self.outcomes[outcome] += 1
        self.slowest = max(self.slowest, (seconds, name))


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
    only: int | None = None,
    seconds: float = float("inf"),
) -> Report:
    """Make and read the files one by one, of each format as many as asked for or as fit into its seconds."""
    report = Report()
    for name in names:
        kind = formats()[name]
        bases = kind.bases(folder)
        for data in bases:  # compiles what reads a file, which is not the fault of a file
            path = folder / f"base{kind.ending}"
            path.write_bytes(data)
            kind.attempt(path, base=data, rng=random.Random(0))
        begun = time.perf_counter()
        for number in range(files) if only is None else (only,):
            rng = random.Random(f"{seed}:{name}:{number}")
            base = rng.choice(bases)
            data = kind.changed(base, rng, bases)
            attempt = partial(kind.attempt, base=base, rng=rng)
            add_file(report, folder / f"{number}{kind.ending}", name, data, attempt, keep)
            taken = time.perf_counter() - begun
            if (number + 1) % TOLD_EVERY == 0:
                print(
                    f"{name}: {number + 1} files, {taken:.0f} s, peak {peak_megabytes():.0f} MB", flush=True
                )
            if taken > seconds:
                break
    return report


def add_file(
    report: Report, path: Path, kind: str, data: bytes, attempt: Callable[[Path], str], keep: Path
) -> None:
    """Write a file, read it, and note what came of it."""
    path.write_bytes(data)
    begun = time.perf_counter()
    try:
        outcome = attempt(path)
    except Exception as error:
        outcome = f"FAULT: {type(error).__name__}"
        _keep(report, keep, path.name, data, traceback.format_exc())
    seconds = time.perf_counter() - begun
    if seconds > SLOW:
        _keep(report, keep, path.name, data, f"took {seconds:.1f} s")
    report.add(path.name, f"{kind}: {outcome}", seconds)
    path.unlink()


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
                path = folder / f"{number}-{bit}.{name}"
                add_file(
                    report,
                    path,
                    name,
                    bytes(flipped),
                    partial(flipped_outcome, data=data),
                    keep,
                )
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
    parser.add_argument("--only", type=int, help="the number of one file")
    parser.add_argument("--bits", action="store_true", help="flip bits instead")
    parser.add_argument("--stride", type=int, default=1, help="flip every so many bits")
    parser.add_argument("--keep", type=Path, default=Path("out/fuzz"), help="where files with faults go")
    given = parser.parse_args()
    warnings.simplefilter("error")
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    warm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=warm if warm.is_dir() else None) as name:
        folder = Path(name)
        begun = time.perf_counter()
        if given.bits:
            report = run_bits(folder, given.keep, given.stride)
        else:
            report = run(
                given.formats,
                given.files,
                given.seed,
                folder,
                given.keep,
                only=given.only,
                seconds=given.seconds,
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
    megabytes = peak_megabytes()
    slowest, name = report.slowest
    print(f"{sum(report.outcomes.values())} files in {seconds:.0f} s, peak {megabytes:.0f} MB")
    print(f"slowest: {name}, {slowest:.2f} s")
    if megabytes > LARGE:
        report.faults.append(f"the process grew to {megabytes:.0f} MB")
    for fault in report.faults[:10]:
        print(f"FAULT {fault}")
    print(f"{len(report.faults)} faults")
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
