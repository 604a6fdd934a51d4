"""``unlatch show``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unlatch.cli.options import INPUT, OUTPUT
from unlatch.errors import ModelFileError, UsageError

if TYPE_CHECKING:
    from unlatch.files.models.native import SavedModel
    from unlatch.show.screen import Screen

_MOST_REWARDS = 40
"""Rows of expected rewards that are printed."""

_LOOKED_AT = 4096
"""Bytes of a file that is no model, to tell whether it is a log."""


@click.command()
@click.argument("model", type=INPUT)
@click.option(
    "--action", "actions", multiple=True, metavar="NAME", help="Print this action only; repeatable."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["auto", "table", "sparse", "csv"]),
    default="auto",
    show_default=True,
    help="Tables, or per state the likely entries only, or all numbers as CSV; auto takes tables if they fit.",
)
@click.option(
    "--intervals/--no-intervals",
    default=False,
    help="Print the least and greatest value beside every number.",
)
@click.option("--picture", type=OUTPUT, help="Also draw the state graphs to this file.")
def show(model: Path, actions: tuple[str, ...], form: str, intervals: bool, picture: Path | None) -> None:
    """Print MODEL: its states, what the log could not tell apart, and every action's matrices."""
    from unlatch.show.screen import screen
    from unlatch.show.summary import summarize_saved
    from unlatch.show.text import print_csv, print_summary

    if picture is not None:
        _check_picture(picture, model)
    saved = loaded(model)
    if picture is not None and saved.pomdp is None:
        raise UsageError(f"{model} holds a PSR, which has no states to draw")
    output = screen()
    if form == "csv":
        if saved.pomdp is None:
            raise UsageError(
                f"{model} holds a PSR, whose coordinates are not states; --format csv is for POMDPs"
            )
        print_csv(output, saved.pomdp, actions, intervals=saved.intervals if intervals else None)
    else:
        summary = summarize_saved(saved)
        print_summary(output, summary, form=form, actions=actions, intervals=intervals)  # type: ignore[arg-type]
        if saved.pomdp is not None and saved.reward is not None:
            _print_rewards(output, saved, actions)
    if picture is not None and saved.pomdp is not None:
        from unlatch.show.plots import draw_models

        draw_models({model.stem: saved.pomdp}, picture, actions=actions or None)
        if form != "csv":
            output.print(f"drew {picture}")


def _print_rewards(output: Screen, saved: SavedModel, actions: tuple[str, ...]) -> None:
    """What every action is expected to pay in every state that pays anything, and the discount."""
    problem, model = saved.problem, saved.pomdp
    assert model is not None
    rows = [
        [action, state, f"{problem.rewards[a, s]:g}"]
        for a, action in enumerate(model.action_names)
        for s, state in enumerate(model.state_names)
        if problem.rewards[a, s] != 0 and (not actions or action in actions)
    ]
    more = len(rows) - _MOST_REWARDS
    output.table(
        f"expected rewards (discount {problem.discount:g})", ["action", "state", "pays"], rows[:_MOST_REWARDS]
    )
    if more > 0:
        output.print(f"and {more} more", indent="  ")


def _check_picture(picture: Path, model: Path) -> None:
    from unlatch.files.atomic import check_target

    check_target(picture, not_over=(model,))


def loaded(path: Path) -> SavedModel:
    from unlatch.files.models.doors import load_model

    try:
        return load_model(path)
    except ModelFileError:
        if not _looks_like_a_log(path):
            raise
    raise ModelFileError(
        f"{path} is a log, not a model; learn a model from it: unlatch learn {shlex.quote(str(path))} -o model.json"
    )


def _looks_like_a_log(path: Path) -> bool:
    """Whether a file that is no model has a header as logs have, or at least the name of a table."""
    try:
        with path.open("rb") as handle:
            head = handle.read(_LOOKED_AT)
    except OSError:
        return False
    first = head.partition(b"\n")[0].lower()
    if b"\0" in head or not head or head.lstrip().startswith((b"{", b"[")):
        return False
    return (b"action" in first and b"observation" in first) or path.suffix.lower() in (".csv", ".tsv")
