"""``unlatch reproduce``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from unlatch.cli.options import Number, Whole, of_an_engine
from unlatch.cli.program import Interrupted, say
from unlatch.cli.progress import progress
from unlatch.errors import StorageError

_GIGABYTES = 1.5
"""Memory of a worker at the longest logs, 2e7 steps."""

_NAMES = ("fig5", "fig6", "fig7", "fig9", "table2", "table3", "table4", "table5", "table6", "all")


@click.command()
@click.argument("target", type=click.Choice(_NAMES))
@click.option("--seeds", type=Whole(most=100_000), default=20, show_default=True, help="Logs per domain.")
@click.option(
    "--workers", type=Whole(most=1024), default=1, show_default=True, help="Processes, one thread each."
)
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default=Path("reproduction"), show_default=True,
    help="Folder for units, rows, figures and tables.",
)  # fmt: skip
@click.option("--sizes-up-to", type=Whole(30_000, 2_000_000_000), metavar="N", help="Leave out longer logs.")
@click.option(
    "--time-limit", type=Number(above=0), default=3600.0, show_default=True,
    help="Seconds after which a unit is killed and recorded as failed.",
)  # fmt: skip
@of_an_engine(
    "Who starts the processes that units are run in: this process, as many as there are workers, a cluster of Dask."
)
@click.option("--force", is_flag=True, help="Go on in a folder made with other settings; kept on record.")
def reproduce(
    target: str, seeds: int, workers: int, out: Path, sizes_up_to: int | None, time_limit: float,
    engine: str, scheduler: str | None, insecure_scheduler: bool, force: bool,
) -> None:  # fmt: skip
    """Make TARGET, a figure or table of the paper or all of them, with the paper's numbers beside ours.

    Work is done in units that are kept one by one: a run that was killed, or interrupted by Ctrl-C, goes on
    where it stopped when the same command is given again. Several such commands may share a folder. The workers of a
    cluster need nothing but unlatch: files are written here.
    """
    from unlatch.engines.engine import engine_of
    from unlatch.show.screen import screen
    from unlatch.study.reproduction import reproduce_targets

    _check_folder(out, target)
    if sizes_up_to is None:
        say(f"each of {workers} workers needs up to {_GIGABYTES} GB of memory")
    others = None
    if engine != "process" or scheduler:
        who = workers if engine == "processes" else engine
        others = engine_of(who, scheduler=scheduler, insecure=insecure_scheduler)
    try:
        with progress():
            done = reproduce_targets(
                target,
                out,
                seeds=seeds,
                workers=workers,
                engine=others,
                sizes_up_to=sizes_up_to,
                time_limit=time_limit,
                force=force,
            )
    except KeyboardInterrupt:
        again = f"unlatch {shlex.join(sys.argv[1:])}"
        raise Interrupted(f"interrupted: finished units are kept; go on with: {again}") from None
    finally:
        if others is not None and hasattr(others, "close"):
            others.close()
    output = screen()
    for study, summary in done.summaries.items():
        failed = f", {summary.failed} failed (see {out / study / 'rows.csv'})" if summary.failed else ""
        output.print(f"{study}: {summary.finished} units{failed}; {summary.run_here} of them run now")
    for path in done.files:
        output.print(f"wrote {path}")


def _check_folder(out: Path, target: str) -> None:
    """Whether the folder can be written to, before hours of work."""
    from unlatch.files.atomic import check_target

    try:
        out.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise StorageError(f"cannot make the folder {out}: {getattr(error, 'strerror', error)}") from None
    check_target(out / f"{target}.md")
