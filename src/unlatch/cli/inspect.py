"""``unlatch inspect``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from unlatch.cli.logs import as_given, log_options, read_input
from unlatch.cli.options import INPUT
from unlatch.cli.progress import progress


@click.command()
@click.argument("log", type=INPUT)
@log_options
@click.pass_context
def inspect(ctx: click.Context, /, log: Path, **options: Any) -> None:
    """Say what LOG holds: steps, episodes, endings, symbols, how actions were chosen, and what to do next.

    LOG is a table (.csv, .csv.gz, .csv.zst, .parquet, .feather, .npz, .npy), a folder of them, or - for standard input.
    """
    from unlatch.learn.examine.inspection import summary_of
    from unlatch.show.log_text import print_log_summary
    from unlatch.show.screen import screen

    words = [str(log), *as_given(ctx)]
    with progress():
        summary = summary_of(read_input(ctx, [log], options))
    print_log_summary(screen(), summary, words)
