"""How fast logs are read: CSV beside pandas' default reader followed by factorize, Parquet beside pyarrow's bare read.

``python benchmarks/reading.py [--rows 10000000] [--repeats 5]`` writes a log of Tiger (actions, observations) to
a temporary
folder, then reads it in turns by each way, and prints the best of the repeats as ratios of wall time and of
processor time: on a machine
that others use too the second is the one to trust. Memory is what a fresh process needs at its peak beyond what a
short log takes; it must not grow with the log.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas
import pyarrow.parquet

import unlatch

MEMORY = """
import sys
from unlatch import iterate_log
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM:"))
next(iterate_log(sys.argv[2]))
before = peak()
steps = sum(len(chunk) for chunk in iterate_log(sys.argv[1]))
print(steps, (peak() - before) / 1024)
"""


def by_pandas(path: Path) -> None:
    frame = pandas.read_csv(path)
    pandas.factorize(frame["action"])
    pandas.factorize(frame["observation"])


def in_chunks(path: Path) -> None:
    for _ in unlatch.iterate_log(path):
        pass


def timed(call: Callable[[Path], object], path: Path) -> tuple[float, float]:
    wall, processor = time.perf_counter(), time.process_time()
    call(path)
    return time.perf_counter() - wall, time.process_time() - processor


def best(
    calls: dict[str, Callable[[Path], object]], path: Path, repeats: int
) -> dict[str, tuple[float, float]]:
    """The best wall time and processor time of every call, each called in its turn."""
    found = {name: [timed(call, path) for _ in range(1)] for name, call in calls.items()}
    for _ in range(repeats):
        for name, call in calls.items():
            found[name].append(timed(call, path))
    return {
        name: (min(w for w, _ in times[1:]), min(p for _, p in times[1:])) for name, times in found.items()
    }


def compared(title: str, times: dict[str, tuple[float, float]], yardstick: str) -> None:
    print(title)
    for name, (wall, processor) in times.items():
        ratios = ", ".join(f"{a / b:.2f}" for a, b in zip(times[yardstick], (wall, processor), strict=True))
        print(
            f"  {name:24} {wall:7.2f} s wall {processor:7.2f} s processor   {yardstick} takes {ratios} times that"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = replace(unlatch.simulate(unlatch.domains.tiger(), options.rows, rng=1), rewards=None)
        paths = {ending: Path(folder, f"log{ending}") for ending in (".csv", ".parquet", ".npz")}
        for path in paths.values():
            unlatch.write_log(path, log)
        small = Path(folder, "small.csv")
        unlatch.write_log(small, log.head(1_000))
        half = {ending: Path(folder, f"half{ending}") for ending in paths}
        for path in half.values():
            unlatch.write_log(path, log.head(options.rows // 2))
        csv = {"pandas": by_pandas, "read_log": unlatch.read_log, "iterate_log": in_chunks}
        compared(f"CSV, {options.rows} rows", best(csv, paths[".csv"], options.repeats), "pandas")
        parquet = {
            "pyarrow": lambda path: pyarrow.parquet.read_table(path),
            "read_log": unlatch.read_log,
            "iterate_log": in_chunks,
        }
        compared("Parquet", best(parquet, paths[".parquet"], options.repeats), "pyarrow")
        npz = {"read_log": unlatch.read_log, "iterate_log": in_chunks}
        compared("NPZ", best(npz, paths[".npz"], 1), "read_log")
        for path in (*half.values(), *paths.values()):
            run = [sys.executable, "-c", MEMORY, str(path), str(small)]
            steps, megabytes = subprocess.run(run, capture_output=True, check=True, text=True).stdout.split()
            print(f"memory of iterate_log, {path.suffix}: {float(megabytes):.0f} MB for {steps} steps")


if __name__ == "__main__":
    main()
