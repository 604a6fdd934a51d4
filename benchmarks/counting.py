"""How fast windows are counted and the Hankel matrix is factorized, as ratios within one run.

    python benchmarks/counting.py [--steps 10000000]

1. Tiger, 1e6 steps, the paper's size (2, 1): against a plain dictionary loop.
2. T-Maze with 14 states, 1e7 steps, all windows up to length 7: against one numpy.sort of as many random
   64-bit integers; peak memory.
3. That Hankel matrix factorized at rank 20: against counting it. (The paper: 900 s and 1,000 s.)
4. Simulation: against a plain Python loop.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import unlatch
from unlatch import domains

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
import naive


def seconds(work: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    """The fastest of a few runs, and the result."""
    best, result = np.inf, None
    for _ in range(repeats):
        begun = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - begun)
    return best, result


def peak_memory() -> float:
    """Largest resident size of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=10_000_000, help="steps of the T-Maze log")
    arguments = parser.parse_args()

    small = unlatch.simulate(domains.tiger(), 2000, rng=0)
    unlatch.factorize(
        unlatch.estimate_hankel(unlatch.count_sequences(small, history_length=2, test_length=1)), rng=0
    )

    tiger = unlatch.simulate(domains.tiger(), 1_000_000, rng=1)
    ours, counts = seconds(lambda: unlatch.count_sequences(tiger, history_length=2, test_length=1))
    plain, table = seconds(lambda: naive.count_windows(tiger, 3), repeats=1)
    assert sum(len(t) for t in counts.tables) == len(table)
    print(
        f"counting Tiger, 1e6 steps, (2, 1): {ours:.4f} s; dictionary loop {plain:.2f} s; ratio {plain / ours:.0f}"
    )

    maze = domains.tmaze(rooms=6)
    simulating, log = seconds(lambda: unlatch.simulate(maze, arguments.steps, rng=2))
    keys = np.random.default_rng(0).integers(0, 2**62, arguments.steps)
    sorting, _ = seconds(lambda: np.sort(keys))
    before = peak_memory()
    counting, counts = seconds(lambda: unlatch.count_sequences(log, history_length=4, test_length=3))
    memory = peak_memory()
    distinct = len(counts.table(7))
    print(
        f"counting T-Maze 14, {arguments.steps:.0e} steps, windows to 7 ({distinct} distinct): {counting:.3f} s; one "
        f"numpy.sort {sorting:.3f} s; ratio {counting / sorting:.2f} (at most 4 wanted); peak memory {memory:.2f} GB "
        f"({before:.2f} GB before)"
    )
    estimating, hankel = seconds(lambda: unlatch.estimate_hankel(counts), repeats=1)
    factorizing, _ = seconds(lambda: unlatch.factorize(hankel, rank=20, rng=0))
    print(
        f"estimating {hankel}: {estimating:.2f} s; factorizing at rank 20: {factorizing:.3f} s; ratio to counting "
        f"{factorizing / counting:.2f} (at most 1 wanted)"
    )
    generator, tried = np.random.default_rng(1), 100_000
    draws = ([generator.random() for _ in range(3)] for _ in range(tried))
    plain, _ = seconds(lambda: naive.simulate(maze, draws, state=0), repeats=1)
    plain *= arguments.steps / tried
    print(
        f"simulating T-Maze 14, {arguments.steps:.0e} steps: {simulating:.2f} s; plain loop {plain:.0f} s (from 1e5 "
        f"steps); ratio {plain / simulating:.0f}"
    )


if __name__ == "__main__":
    main()
