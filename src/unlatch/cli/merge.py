"""``unlatch merge``."""

from __future__ import annotations

from pathlib import Path

import click

from unlatch.cli.options import INPUT, OUTPUT
from unlatch.show.safe import counted

__all__ = ["merge"]


@click.command()
@click.argument("counts", type=INPUT, nargs=-1, required=True)
@click.option("-o", "--output", type=OUTPUT, required=True, help="The counts to write (NPZ).")
def merge(counts: tuple[Path, ...], output: Path) -> None:
    """Join COUNTS, files that unlatch count or unlatch merge wrote: what one would have counted in all logs.

    Symbols are matched by their names. The result does not depend on the order of the files.
    """
    from unlatch.files.atomic import check_target
    from unlatch.learn.spectral.counting import merged_counts
    from unlatch.show.screen import screen
    from unlatch.streams.counts_file import load_counts, save_counts

    check_target(output, not_over=counts)
    found = merged_counts(load_counts(path) for path in counts)
    save_counts(output, found)
    screen().print(
        f"wrote the counts of {counted(len(counts), 'file')}, {counted(found.steps, 'step')} in all, to {output}"
    )
