"""How fast logs are read: CSV beside pandas' default reader followed by factorize, Parquet beside pyarrow's bare read.

``python benchmarks/reading.py [--rows 10000000] [--repeats 5] [--parts csv ...]`` writes a log of Tiger (actions,
observations) and one of a lake with episodes (and rewards, endings) to a temporary folder, then reads each in turns by
each way, and prints the best of the repeats as ratios of wall time, of processor time and of the part of that which the
program itself takes: on a machine that others use too the first says little, and on one that hands memory back to a
host the second is for the most part the system finding memory for the arrays that are returned. Memory is what a fresh
process needs at its peak beyond what a short log takes, for a tenth of the rows and for all; `read_log` returns arrays,
whose size is told beside it.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas
import pyarrow.parquet

import unlatch

MEMORY = """
import sys
from unlatch import iterate_log, read_log
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM:"))
next(iterate_log(sys.argv[2])); read_log(sys.argv[2])
before = peak()
if sys.argv[3] == "iterate_log":
    steps, held = sum(len(chunk) for chunk in iterate_log(sys.argv[1])), 0
else:
    log = read_log(sys.argv[1])
    arrays = (log.actions, log.observations, log.rewards, log.episode_starts, log.terminated)
    steps, held = len(log), sum(array.nbytes for array in arrays if array is not None)
print(steps, (peak() - before) / 1024, held / 2**20)
"""


def by_pandas(path: Path) -> None:
    frame = pandas.read_csv(path)
    pandas.factorize(frame["action"])
    pandas.factorize(frame["observation"])


def in_chunks(path: Path) -> None:
    for _ in unlatch.iterate_log(path):
        pass


Times = tuple[float, float, float]
"""Seconds by the clock, of the processor, and of these without what the system did."""


def timed(call: Callable[[Path], object], path: Path) -> Times:
    wall, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    call(path)
    seconds, after = time.perf_counter() - wall, resource.getrusage(resource.RUSAGE_SELF)
    user = after.ru_utime - before.ru_utime
    return seconds, user + after.ru_stime - before.ru_stime, user


def best(calls: dict[str, Callable[[Path], object]], path: Path, repeats: int) -> dict[str, Times]:
    """The best times of every call, each called in its turn; the first time does not count."""
    found: dict[str, list[Times]] = {name: [] for name in calls}
    for turn in range(repeats + 1):
        for name, call in calls.items():
            times = timed(call, path)
            if turn:
                found[name].append(times)
    return {
        name: (min(t[0] for t in times), min(t[1] for t in times), min(t[2] for t in times))
        for name, times in found.items()
    }


def compared(title: str, times: dict[str, Times], yardstick: str) -> None:
    print(title)
    for name, (wall, processor, user) in times.items():
        ratios = ", ".join(f"{a / b:.2f}" for a, b in zip(times[yardstick], times[name], strict=True))
        print(
            f"  {name:12} {wall:6.2f} s wall {processor:6.2f} s processor {user:6.2f} s of the program   "
            f"{yardstick} takes {ratios} times that"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="of what is measured")
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory() as name:
        for part in options.parts:
            folder = Path(name) / part
            folder.mkdir()
            PARTS[part](folder, options.rows, options.repeats)


def tiger(rows: int) -> unlatch.Trajectory:
    return replace(unlatch.simulate(unlatch.domains.tiger(), rows, rng=1), rewards=None)


def lake(rows: int) -> unlatch.Trajectory:
    return unlatch.simulate(unlatch.domains.frozen_lake(), 100, total=rows, rng=1)


def csv(make: Callable[[int], unlatch.Trajectory], folder: Path, rows: int, repeats: int) -> None:
    path = folder / "log.csv"
    unlatch.write_log(path, make(rows))
    calls = {"pandas": by_pandas, "read_log": unlatch.read_log, "iterate_log": in_chunks}
    compared(f"CSV with {path.open().readline().strip()}, {rows} steps", best(calls, path, repeats), "pandas")


def parquet(make: Callable[[int], unlatch.Trajectory], folder: Path, rows: int, repeats: int) -> None:
    path = folder / "log.parquet"
    unlatch.write_log(path, make(rows))
    calls = {
        "pyarrow": lambda path: pyarrow.parquet.read_table(path),
        "read_log": unlatch.read_log,
        "iterate_log": in_chunks,
    }
    columns = ",".join(pyarrow.parquet.read_schema(path).names)
    compared(f"Parquet with {columns}, {rows} steps", best(calls, path, repeats), "pyarrow")


def memories(folder: Path, rows: int, repeats: int) -> None:
    log = tiger(rows)
    small = folder / "small.csv"
    unlatch.write_log(small, log.head(1_000))
    for ending in (".csv", ".parquet", ".npz"):
        for steps in (rows // 10, rows):
            path = folder / f"log{ending}"
            unlatch.write_log(path, log.head(steps))
            for way in ("iterate_log", "read_log"):
                memory(path, small, way)


def memory(path: Path, small: Path, way: str) -> None:
    run = [sys.executable, "-c", MEMORY, str(path), str(small), way]
    said = subprocess.run(run, capture_output=True, check=True, text=True).stdout.split()
    steps, peak, held = int(said[0]), float(said[1]), float(said[2])
    print(
        f"memory of {way}, {path.suffix}: {peak:.0f} MB for {steps} steps, of which {held:.0f} MB are the arrays"
    )


PARTS: dict[str, Callable[[Path, int, int], None]] = {
    "csv": partial(csv, tiger),
    "csv-episodes": partial(csv, lake),
    "parquet": partial(parquet, tiger),
    "parquet-episodes": partial(parquet, lake),
    "memory": memories,
}


if __name__ == "__main__":
    main()
