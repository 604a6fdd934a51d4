"""What the benchmarks share that run studies: their options, running what is not finished, rows with their seconds."""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from unlatch.engines.engine import engine_of
from unlatch.study.jobs.runner import collect_rows, collect_seconds, run_units, write_table
from unlatch.study.jobs.units import Study, Unit

Rows = Sequence[Mapping[str, Any]]

TIMES = {"seconds": "learn", "cpu": "learn_cpu"}
"""Columns that differ from run to run, and the stage that each is of: what learning took, by clock and processor."""


def add_options(parser: argparse.ArgumentParser, *, out: str) -> None:
    parser.add_argument("--out", type=Path, default=Path(out))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--engine", choices=["process", "processes", "dask"], default="process")
    parser.add_argument("--scheduler", help="with --engine dask: the address of a running cluster")
    parser.add_argument("--at-most", type=int, help="logs of a kind")
    parser.add_argument("--report", action="store_true", help="print what is finished, run nothing")
    parser.add_argument("--force", action="store_true", help="go on in a folder made by other code")


def finished_rows(
    study: Study,
    folder: Path,
    arguments: argparse.Namespace,
    chosen: Sequence[Unit],
    *,
    shown: Sequence[Unit] | None = None,
    most_seconds: float = 7200.0,
) -> list[dict[str, Any]]:
    """Run what is not finished of the chosen units, unless only a report is asked for.

    Returns the rows of the ``shown`` units, by default the chosen ones, with their times.
    """
    shown = chosen if shown is None else shown
    if not arguments.report:
        with _engine(arguments) as engine:
            run_units(
                study, folder, workers=arguments.workers, engine=engine, chosen=chosen, force=arguments.force,
                time_limit_per_unit=most_seconds, on_progress=_progress(study.name),
            )  # fmt: skip
    seconds = collect_seconds(study, folder, shown)
    rows = collect_rows(study, folder, shown)
    if rows:
        write_table(folder / "rows.csv", rows)
    return [
        {**row, **{column: seconds.get(row["unit"], {}).get(stage) for column, stage in TIMES.items()}}
        for row in rows
    ]


@contextmanager
def _engine(arguments: argparse.Namespace) -> Iterator[Any]:
    """Who runs units, if somebody else does: workers of a cluster must find the modules of the benchmarks."""
    if arguments.engine == "process" and arguments.scheduler is None:
        yield None
        return
    who = arguments.workers if arguments.engine == "processes" else arguments.engine
    engine = engine_of(who, scheduler=arguments.scheduler)
    try:
        yield engine
    finally:
        if hasattr(engine, "close"):
            engine.close()


def _progress(name: str) -> Callable[[float, float], None]:
    begun = time.monotonic()

    def tell(done: float, total: float) -> None:
        print(
            f"{name}: {done / max(total, 1e-9):.0%}, {time.monotonic() - begun:.0f} s",
            file=sys.stderr,
            flush=True,
        )

    return tell


def digest(*modules: ModuleType) -> str:
    """Changes whenever what is measured, or how, changes."""
    sources = [Path(module.__file__ or "").read_bytes() for module in modules]
    return hashlib.sha256(b"".join(sources)).hexdigest()[:16]


def median(rows: Rows, column: str) -> float:
    """Of the rows that have it; not a number if none does."""
    values = [row[column] for row in rows if row.get(column) is not None]
    return float(np.median(values)) if values else float("nan")


def number(row: Mapping[str, Any], column: str, form: str) -> str:
    """A cell of a table."""
    value = row.get(column)
    return "-" if value is None else format(value, form)
