"""Options of commands that read a log, and the reading itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unlatch.errors import StorageError, UsageError

if TYPE_CHECKING:
    from unlatch.core.trajectory import Trajectory

__all__ = ["as_given", "iterate_input", "log_options", "open_input", "read_input", "reader_options"]

_COLUMNS = (
    "action",
    "observation",
    "reward",
    "episode",
    "probability",
    "terminated",
    "truncated",
    "environment",
    "step",
)
_IGNORED = ("reward", "probability", "terminated", "truncated", "environment", "step")
_READER = ("header", "delimiter", "encoding", "missing", "order", "autoreset", "sort", "continued", "strict")

_IN_WORDS = {
    "action": "Column of the action.",
    "observation": "Column of the observation that followed it; given several times, their columns make one symbol.",
    "reward": "Column of the reward.",
    "episode": "Column of the episode.",
    "probability": "Column of the probability with which the action was chosen.",
    "terminated": "Column that is true where the step ended its episode for good.",
    "truncated": "Column that is true where the episode was cut, as by a time limit.",
    "environment": "Column that tells environments apart which were recorded in turns.",
    "step": "Column that numbers the steps of an episode.",
}


def log_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that reads a log."""
    options = [
        click.option(
            f"--{name}",
            metavar="NAME",
            default=name if name != "observation" else (name,),
            multiple=name == "observation",
            show_default=True,
            help=_IN_WORDS[name],
        )
        for name in _COLUMNS
    ]
    options += [
        click.option("--delimiter", default=",", show_default=True, help="What separates the columns."),
        click.option("--encoding", default="utf-8", show_default=True, help="Text encoding of the log."),
        click.option(
            "--no-header", is_flag=True, help="Columns are action, observation[, reward[, episode]]."
        ),
        click.option(
            "--missing",
            type=click.Choice(["refuse", "split"]),
            default="refuse",
            show_default=True,
            help="What an empty cell means: an error (but for the action of a first observation), or a gap that splits "
            "the log.",
        ),
        click.option("--ignore-reward", is_flag=True, help="Leave the reward column out of what is learned."),
        click.option(
            "--ignore-probability",
            is_flag=True,
            help="Leave the probability column out: actions did not depend on observations.",
        ),
        click.option(
            "--ignore-terminated", is_flag=True, help="Leave the column out that tells where episodes ended."
        ),
        click.option(
            "--ignore-truncated",
            is_flag=True,
            help="Leave the column out that tells where episodes were cut.",
        ),
        click.option("--ignore-environment", is_flag=True, help="Leave the column of environments out."),
        click.option("--ignore-step", is_flag=True, help="Leave the numbers of steps out."),
        click.option(
            "--order",
            type=click.Choice(["action-first", "observation-first"]),
            default="action-first",
            show_default=True,
            help="Whether the observation of a row followed its action or stood before it.",
        ),
        click.option(
            "--autoreset",
            type=click.Choice(["next-step"]),
            help="The row after an ending only resets the environment, and is no step.",
        ),
        click.option("--sort", is_flag=True, help="Sort the rows by environment, episode and step."),
        click.option(
            "--continued", is_flag=True, help="Files of a folder are parts of one log: episodes go on."
        ),
        click.option("--strict", is_flag=True, help="Refuse a log whose last line is cut off."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def read_input(ctx: click.Context, paths: Sequence[Path], options: dict[str, Any]) -> Trajectory:
    """Read logs, or standard input for ``-``, taking the reader's options out of ``options``."""
    from unlatch.files.logs.read import read_log

    return read_log(_source(paths), **reader_options(ctx, options))


def iterate_input(ctx: click.Context, paths: Sequence[Path], options: dict[str, Any]) -> Iterator[Any]:
    """Read logs chunk by chunk, one after the other, as `read_input` does."""
    from unlatch.files.logs.read import iterate_log

    return iterate_log(_source(paths), **reader_options(ctx, options))


def refuse_company_of_standard_input(paths: Sequence[Path]) -> None:
    if len(paths) > 1 and "-" in map(str, paths):
        raise UsageError("- is standard input, and the only log there can be")


def _source(paths: Sequence[Path]) -> Any:
    """What the readers take: a path, several, or standard input."""
    refuse_company_of_standard_input(paths)
    if str(paths[0]) != "-":
        return paths[0] if len(paths) == 1 else [str(path) for path in paths]
    if sys.stdin is None:
        raise StorageError("standard input is closed; give a file, or pipe a log in")
    return sys.stdin.buffer


def open_input(ctx: click.Context, paths: Sequence[Path], options: dict[str, Any]) -> Any:
    """Logs that are read as often as needed."""
    from unlatch.streams.source import LogFiles

    return LogFiles([str(path) for path in paths], **reader_options(ctx, options))


def as_given(ctx: click.Context) -> list[str]:
    """The options that were given to a command, as words to give them to another."""
    words = []
    for option in ctx.command.params:
        name = option.name or ""
        is_given = ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if not isinstance(option, click.Option) or not is_given:
            continue
        value = ctx.params[name]
        if option.is_flag:
            words.append(option.opts[0])
        else:
            values = value if option.multiple else [value]
            words += [word for one in values for word in (option.opts[0], str(one))]
    return words


def reader_options(ctx: click.Context, options: dict[str, Any]) -> dict[str, Any]:
    """The options of the reader, taken out of ``options``."""
    for name in _IGNORED:
        source = ctx.get_parameter_source(name)
        if options.pop(f"ignore_{name}"):
            if source is not click.core.ParameterSource.DEFAULT:
                raise UsageError(f"--{name} and --ignore-{name} exclude each other")
            options[name] = None
    options["header"] = not options.pop("no_header")
    options["delimiter"] = options["delimiter"].replace("\\t", "\t")
    return {name: options.pop(name) for name in (*_COLUMNS, *_READER)}
