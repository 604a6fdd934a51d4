"""Whether stated intervals hold what they say: numbers of a model, and the return of a plan, over many logs.

    python benchmarks/coverage.py truth                     the maximum near the truth, with its zeros: hours
    python benchmarks/coverage.py search                    what `learn_pomdp(log)` finds: many hours
    python benchmarks/coverage.py information               standard errors in a few passes, beside differences
    python benchmarks/coverage.py design                    logs with chosen action frequencies, beside uniform ones
    python benchmarks/coverage.py truth --systems tiger --steps 10000 --at-most 2     whether it runs

Finished logs are kept in ``--out``: the same command goes on where it stopped, and ``--report`` only prints. Results
are in docs/intervals.md.
"""

from __future__ import annotations

if __name__ == "coverage":  # numba looks for the package of that name, and finds this file first
    raise ImportError("this is a benchmark, not the package that measures tests")

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import coverage_units
import unlatch
from coverage_units import DESIGNS, HORIZONS, LEVEL
from study_runs import Rows, add_options, digest, finished_rows
from unlatch import domains
from unlatch.study.jobs.units import Study, Unit
from unlatch.study.studies import code_digest

GROUPS = ("truth", "search", "information", "design")
STEPS = (10_000, 100_000)
BATCHES = {"truth": 50, "search": 20}
LOGS_IN_A_BATCH = {"truth": 10, "search": 5}
PLANS_IN_A_BATCH = {"truth": 4, "search": 2}
"""Logs of a batch for which a plan is made too: its return in many models takes longer than all the rest."""

LEAST, MOST = 0.87, 0.93
"""Wanted of intervals of 90 %; at the edge the first alone."""

DESIGN_BATCHES, DESIGN_LOGS = 8, 5
SHARES = (0.6, 0.65, 0.7, 0.8, 1.0, 1.05)
"""Of the steps of uniform exploration, at which a design is measured."""

MAZE = 14
FASTER, WITHIN, FOR_SHARE = 20, 0.05, 0.95
"""Wanted of the information of a T-Maze: times faster than by differences, standard errors within, for this share."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("groups", nargs="*", help=f"any of {', '.join(GROUPS)}; all by default")
    parser.add_argument("--systems", nargs="+", default=list(HORIZONS))
    parser.add_argument("--steps", type=int, nargs="+", default=list(STEPS))
    add_options(parser, out="coverage")
    arguments = parser.parse_args()
    chosen = arguments.groups or list(GROUPS)
    if unknown := (set(chosen) - set(GROUPS)) | (set(arguments.systems) - set(HORIZONS)):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    for group in chosen:
        print(f"\n## {group}\n", flush=True)
        if group == "information":
            _information()
        elif group == "design":
            _design(_rows("design", _design_units(), arguments))
        else:
            _coverage(_rows(group, _units(group, arguments), arguments))


def _rows(group: str, units: Sequence[Unit], arguments: argparse.Namespace) -> list[dict[str, Any]]:
    settings = {"code": code_digest(), "benchmark": digest(coverage_units)}
    study = Study(group, tuple(_units(group, None) if group != "design" else units), settings=settings)
    few = [unit for unit in units if unit.parameters["batch"] < (arguments.at_most or len(units))]
    return finished_rows(study, arguments.out / group, arguments, few)


def _units(group: str, arguments: argparse.Namespace | None) -> list[Unit]:
    systems = list(HORIZONS) if arguments is None else arguments.systems
    lengths = list(STEPS) if arguments is None else arguments.steps
    return [
        Unit(
            f"{group}.{system.replace(':', '.')}.{steps}.{batch:03d}",
            coverage_units.coverage,
            {
                "system": system, "steps": steps, "mode": group, "batch": batch,
                "logs": LOGS_IN_A_BATCH[group], "plans": PLANS_IN_A_BATCH[group],
            },
            cost=steps,
        )
        for batch in range(BATCHES[group])
        for steps in lengths
        for system in systems
    ]  # fmt: skip


def _design_units() -> list[Unit]:
    return [
        Unit(
            f"design.{system}.{steps}.{by.replace(' ', '-')}.{batch:02d}",
            coverage_units.designed,
            {
                "system": system, "steps": steps, "by": by, "batch": batch,
                "logs": DESIGN_LOGS, "shares": list(SHARES),
            },
        )
        for batch in range(DESIGN_BATCHES)
        for system, steps, by in DESIGNS
    ]  # fmt: skip


# --- reports ---------------------------------------------------------------------------------------------


def _coverage(rows: Rows) -> None:
    print(
        f"| system | steps | logs | numbers inside {LEVEL:.0%} intervals | the worst number | at the edge | "
        "return of the plan | true return below, above | not compared |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for system in HORIZONS:
        for steps in STEPS:
            here = [row for row in rows if (row["system"], row["steps"]) == (system, steps)]
            if here:
                print(f"| {system} | {steps} | {_line(here)} |")
    print(f"\nwanted: {LEAST:.0%} to {MOST:.0%}, at the edge at least {LEAST:.0%}")


def _line(rows: Rows) -> str:
    fine = [row for row in rows if row["outcome"] == "ok"]
    others = len(rows) - len(fine)
    if not fine:
        return f"0 | - | - | - | - | - | {others}"
    inside, edge = (_table([row[column] for row in fine]) for column in ("inside", "edge"))
    plans = [row for row in fine if row.get("plan") is not None]
    held = "-" if not plans else f"{np.mean([row['plan'] for row in plans]):.1%} of {len(plans)}"
    below = np.mean([row["plan_true"] < row["plan_low"] for row in plans]) if plans else np.nan
    above = np.mean([row["plan_true"] > row["plan_high"] for row in plans]) if plans else np.nan
    told = inside[:, ~np.isnan(inside).all(axis=0)]
    worst = np.nanmin(np.nanmean(told, axis=0)) if told.size else np.nan
    return (
        f"{len(fine)} | {_mean(inside)} ± {_error(inside)} | {worst:.1%} | {_mean(edge)} | {held} | "
        f"{below:.1%}, {above:.1%} | {others}"
    )


def _table(digits: list[str]) -> Any:
    """Logs by numbers; those that a log says nothing about are not a number. Where models have other alphabets the
    numbers cannot be told apart, and all of a log are one."""
    values = {"0": 0.0, "1": 1.0, "-": np.nan}
    if len({len(row) for row in digits}) > 1:
        return np.array([[np.nanmean([values[digit] for digit in row] or [np.nan])] for row in digits])
    return np.array([[values[digit] for digit in row] for row in digits])


def _mean(table: Any) -> str:
    return f"{np.nanmean(table):.1%}" if table.size else "-"


def _error(table: Any) -> str:
    """Of the mean over logs: numbers of one log hang together."""
    if table.size == 0 or len(table) < 2:
        return "-"
    return f"{np.nanmean(table, axis=1).std(ddof=1) / np.sqrt(len(table)):.1%}"


def _design(rows: Rows) -> None:
    print(
        "| system | action frequencies | worth, predicted | steps | share of its steps | error ÷ that of uniform |"
    )
    print("|---|---|---|---|---|---|")
    for kind in DESIGNS:
        here = [row for row in rows if (row["system"], row["steps"], row["by"]) == kind]
        if not here:
            continue
        uniform = np.mean([row["uniform"] for row in here])
        ratios = {share: np.mean([row[f"design_{share}"] for row in here]) / uniform for share in SHARES}
        enough = [share for share in SHARES if ratios[share] <= 1.0]
        first = here[0]
        listing = ", ".join(f"{share:.0%}: {ratio:.3f}" for share, ratio in ratios.items())
        print(
            f"| {first['system']} | {first['policy']} | {first['worth']:.2f} | {first['steps']} | "
            f"{f'{min(enough):.0%}' if enough else 'more'} ({len(here)} logs) | {listing} |"
        )
    print("\nwanted: at most 70 % at one of them, never more than 105 %")


def _information() -> None:
    """On one processor, and once more on two threads: the same digits."""
    truth = domains.by_name(f"tmaze:rooms={(MAZE - 2) // 2}")
    log = unlatch.simulate(truth, 100_000, rng=0)
    model = unlatch.refine(truth, log, zeros=False).pomdp
    found = {}
    for method in ("scores", "differences"):
        unlatch.uncertainty(truth, log.head(2_000), method=method).covariance()  # type: ignore[arg-type]
        begun = time.perf_counter()
        found[method] = unlatch.uncertainty(model, log, method=method), 0.0  # type: ignore[arg-type]
        errors = np.sqrt(np.diag(found[method][0].covariance().matrix))
        found[method] = errors, time.perf_counter() - begun
    ratio = found["scores"][0] / found["differences"][0]
    near = np.mean(np.abs(ratio - 1) < WITHIN)
    print(
        f"T-Maze of {truth.n_states} states, {len(log)} steps, {len(ratio)} free numbers: "
        f"{found['scores'][1]:.2f} s, by differences {found['differences'][1]:.2f} s: "
        f"{found['differences'][1] / found['scores'][1]:.0f} times faster (wanted: {FASTER}); standard errors within "
        f"{WITHIN:.0%} for {near:.1%} of them (wanted: {FOR_SHARE:.0%}), median ratio {np.median(ratio):.4f}"
    )
    print(f"the same on one thread and on two: {_digits_on(1) == _digits_on(2)}")


def _digits_on(threads: int) -> str:
    """The standard errors as another process computes them."""
    program = (
        "import hashlib, unlatch; from unlatch import domains\n"
        f"m = domains.by_name('tmaze:rooms={(MAZE - 2) // 2}'); log = unlatch.simulate(m, 20_000, rng=0)\n"
        "print(hashlib.sha256(unlatch.uncertainty(m, log).covariance().matrix.tobytes()).hexdigest())"
    )
    names = ("OMP", "OPENBLAS", "MKL", "NUMBA")
    environment = {**os.environ, **{f"{name}_NUM_THREADS": str(threads) for name in names}}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


if __name__ == "__main__":
    main()
