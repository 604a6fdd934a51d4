"""``unlatch report``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unlatch.cli.logs import log_options, read_input
from unlatch.cli.options import INPUT, OUTPUT
from unlatch.errors import UsageError

if TYPE_CHECKING:
    from unlatch.core.trajectory import Trajectory


@click.command()
@click.argument("subject", type=INPUT, metavar="MODEL|STUDY")
@click.option(
    "--log",
    type=INPUT,
    help="A log for the check of predictions, and to step through; best one not learned from.",
)
@click.option("--truth", metavar="DOMAIN|MODEL", help="The true system, to stand beside what was learned.")
@click.option("--title", metavar="TEXT", help="Heading of the page.")
@click.option(
    "-o", "--output", type=OUTPUT, required=True, metavar="PAGE.html", help="Where to write the page."
)
@log_options
@click.pass_context
def report(
    ctx: click.Context,
    /,
    subject: Path,
    log: Path | None,
    truth: str | None,
    title: str | None,
    output: Path,
    **options: Any,
) -> None:
    """Write one page about MODEL, a file that learn wrote: what was found, how sure it is, what cannot be known.

    The page loads nothing and sends nothing. It is complete with scripts off; with scripts on one can switch actions,
    follow the belief along a log and choose goals. Of STUDY, a folder that reproduce wrote, it has the curves and
    tables. The last options say how to read the log.
    """
    from unlatch.files.atomic import check_target
    from unlatch.show.screen import screen

    if subject.is_dir():
        if log is not None or truth is not None or title is not None:
            raise UsageError("--log, --truth and --title are for models; a study's page has none of them")
        from unlatch.study.report import write_study_report

        write_study_report(output, subject)
    else:
        check_target(output, not_over=[path for path in (subject, log) if path is not None])
        _write(subject, None if log is None else read_input(ctx, [log], options), truth, title, output)
    screen().print(f"wrote {output}")


def _write(subject: Path, log: Trajectory | None, truth: str | None, title: str | None, output: Path) -> None:
    from unlatch.cli.show import loaded
    from unlatch.cli.simulate import domain_or_model
    from unlatch.show.report import write_report

    saved = loaded(subject)
    true = None if truth is None else domain_or_model(truth)
    write_report(output, saved, log=log, truth=true, title=title)
