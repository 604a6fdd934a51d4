"""``unlatch count``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from unlatch.cli.logs import iterate_input, log_options
from unlatch.cli.options import INPUT, OUTPUT, Whole
from unlatch.cli.progress import progress
from unlatch.show.safe import counted

__all__ = ["count"]


@click.command()
@click.argument("logs", type=INPUT, nargs=-1, required=True)
@click.option("-o", "--output", type=OUTPUT, required=True, help="The counts to write (NPZ).")
@click.option("--test-length", type=Whole(), default=2, show_default=True, help="Longest test.")
@click.option("--history-length", type=Whole(2), help="Longest history; one more than tests if not given.")
@log_options
@click.pass_context
def count(
    ctx: click.Context,
    /,
    logs: tuple[Path, ...],
    output: Path,
    test_length: int,
    history_length: int | None,
    **options: Any,
) -> None:
    """Count the windows of LOGS, in memory that does not grow with them; - reads standard input.

    Counts of several runs are joined by unlatch merge, and learned from by unlatch learn: parts of a log can be counted
    wherever they are, in any order.
    """
    from unlatch.files.atomic import check_target
    from unlatch.learn.spectral.counting import count_chunks
    from unlatch.show.screen import screen
    from unlatch.streams.counts_file import save_counts

    check_target(output, not_over=[log for log in logs if str(log) != "-"])
    with progress():
        chunks = iterate_input(ctx, logs, options)
        found = count_chunks(
            chunks, history_length=history_length or test_length + 1, test_length=test_length
        )
        save_counts(output, found)
    windows = sum(len(table) for table in found.tables)
    screen().print(
        f"wrote {counted(windows, 'window')} of {counted(found.steps, 'step')} in "
        f"{counted(found.episodes, 'episode')} to {output}"
    )
