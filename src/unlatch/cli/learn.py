"""``unlatch learn``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unlatch.cli.logs import log_options, read_input
from unlatch.cli.options import INPUT, OUTPUT, SEED, Number, Whole
from unlatch.cli.program import Interrupted
from unlatch.cli.progress import progress
from unlatch.cli.signals import was_interrupted

if TYPE_CHECKING:
    from unlatch.learn.pipeline import LearnResult
    from unlatch.show.screen import Screen

__all__ = ["learn", "print_result"]


@click.command()
@click.argument("log", type=INPUT)
@click.option("-o", "--output", type=OUTPUT, required=True, help="The model to write (JSON).")
@click.option("--states", type=Whole(), help="Fix the number of states.")
@click.option("--max-states", type=Whole(), help="Most states that the search considers.")
@click.option(
    "--time-limit",
    type=Number(above=0),
    help="Seconds for the whole call; the best model found by then is kept.",
)
@click.option(
    "--refine/--no-refine",
    default=True,
    show_default=True,
    help="Search the number of states and maximize the likelihood, or stop at the fast spectral model.",
)
@click.option(
    "--emission",
    type=click.Choice(["auto", "departure", "arrival"]),
    default="auto",
    show_default=True,
    help="Which state shows the observation: the one left, the one reached, or the one that explains the log better.",
)
@click.option("--rank", type=Whole(), help="Rank of the spectral stage; found from the log if not given.")
@click.option(
    "--rank-tolerance", type=Number(), help="Count singular values above this fraction of the largest."
)
@click.option(
    "--max-rank", type=Whole(), default=20, show_default=True, help="Largest rank of the spectral stage."
)
@click.option("--history-length", type=Whole(2), help="Longest history; grown from the log if not given.")
@click.option("--test-length", type=Whole(), help="Longest test; grown from the log if not given.")
@click.option(
    "--min-singular-value",
    type=Number(),
    help="Threshold of a full-rank action; from the noise if not given.",
)
@click.option(
    "--observation-tolerance", type=Number(), help="L1 distance within a cell; from the noise if not given."
)
@click.option("--draws", type=Whole(), default=30, show_default=True, help="Random combinations tried.")
@click.option(
    "--newton/--no-newton",
    default=True,
    show_default=True,
    help="Refine the joint diagonalization, or leave it as the paper did.",
)
@click.option(
    "--rotation",
    type=click.Choice(["cells", "dense"]),
    default="cells",
    show_default=True,
    help="Choose a basis inside cells, or rotate densely after the SVD as the paper did.",
)
@click.option(
    "--scaling",
    type=click.Choice(["noise", "none"]),
    default="noise",
    show_default=True,
    help="Scale the Hankel matrix such that its entries are equally noisy, or not, as the paper did.",
)
@click.option("--seed", type=SEED, help="Seed; drawn and recorded if not given.")
@log_options
@click.pass_context
def learn(ctx: click.Context, /, log: Path, output: Path, seed: int | None, **options: Any) -> None:
    """Learn a POMDP from LOG, a CSV file with the columns action and observation; - reads standard input.

    Optional columns: reward (learned with the observation, or beside it), episode (no window of the log crosses
    from one to the next), probability (with which the action was chosen), terminated (true where a step ended its
    episode for good) and truncated (true where it was cut). A row without an action, the first of its episode, holds
    what was shown before any action. Actions must not depend on what was observed, unless their probabilities are
    given.
    """
    from unlatch.files.atomic import check_target
    from unlatch.learn.pipeline import learn_pomdp
    from unlatch.show.screen import screen
    from unlatch.show.summary import ending_sentences

    check_target(output, not_over=() if str(log) == "-" else (log,))
    with progress():
        trajectory = read_input(ctx, log, options)
        result = learn_pomdp(trajectory, rng=seed, **_given(ctx, options))
    cut = _saved_despite_interrupt(output, result) or "interrupted" in result.diagnostics
    if cut or was_interrupted():
        raise Interrupted(f"interrupted: wrote the best model so far to {output}")
    output_screen = screen()
    for sentence in ending_sentences(trajectory):
        output_screen.print(sentence)
    print_result(output_screen, result, output)


def _given(ctx: click.Context, options: dict[str, Any]) -> dict[str, Any]:
    """What the user set, as `learn_pomdp` spells it: defaults have their home there."""
    given = {name: value for name, value in options.items() if _is_given(ctx, name)}
    if "refine" in given:
        given["refine"] = "auto" if given["refine"] else None
    return given


def _is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT


def _saved_despite_interrupt(output: Path, result: LearnResult) -> bool:
    """Write the model; an interrupt in the middle leaves the old file, so it is written once more. True then."""
    from unlatch.files.models.doors import save_model

    try:
        save_model(output, result)
    except KeyboardInterrupt:
        save_model(output, result)
        return True
    return False


def print_result(screen: Screen, result: LearnResult, output: Path) -> None:
    """What was learned, how sure it is, and where it was written."""
    from unlatch.show.summary import summarize_result
    from unlatch.show.text import print_findings

    print_findings(screen, summarize_result(result))
    screen.print(f"wrote {output}; see it with: unlatch show {shlex.quote(str(output))}")
