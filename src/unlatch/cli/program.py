"""The commands by name, and what every outcome means for the user: a line and an exit code, never a traceback."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from unlatch import __version__
from unlatch.cli.dependencies import missing_library
from unlatch.cli.signals import INTERRUPTED, was_interrupted
from unlatch.errors import ResourceLimitError, StorageError, UnlatchError, UsageError
from unlatch.show.safe import plain
from unlatch.show.screen import screen, silence

__all__ = ["Interrupted", "run_program", "say"]

_COMMANDS = {
    "simulate": "Sample a log from a domain or a model file.",
    "record": "Record a log in an environment of Gymnasium.",
    "inspect": "Say what a log holds, and what to do next.",
    "learn": "Learn a POMDP from logs, or from counts.",
    "count": "Count the windows of logs into a file.",
    "merge": "Join files of counts.",
    "plan": "Plan towards a goal, act, and report how it went.",
    "agent": "Explore a system from nothing, learn it, plan, act, and go on learning.",
    "show": "Print a model: states, partition, matrices.",
    "report": "Write one page about a model or a study: graphs, numbers, checks, goals.",
    "convert": "Write a model or policy in another format: .POMDP, .pomdpx, .json, .npz, .dot, .mmd.",
    "check": "Before any data: can a system be learned, and from how many steps?",
    "demo": "Learn Tiger from a simulated log and compare it with the truth.",
    "reproduce": "Make the paper's figures and tables, ours beside the paper's.",
    "doctor": "Look at the installation: versions, cores, memory, cache, what is missing.",
    "completion": "Print what makes a shell complete commands and options.",
}

_FIRST_STEPS = """\
Learn an explicit POMDP from the log of what an agent did and saw, then plan with it.

  unlatch demo                                     see it at work on a simulated log, in a minute or two
  unlatch learn log.csv -o model.json              learn a model from a log with the columns action, observation
  unlatch show model.json                          what was found: states, matrices, what the log leaves open
  unlatch plan model.json --reward learned         plan with it and act; --goal ... for a goal of your own
  unlatch simulate lockbox --steps 9 -o log.csv    no log at hand? make one

unlatch --help lists all commands, unlatch COMMAND --help what can be set, unlatch doctor what may be wrong.
"""
"""What people do, for those who give no command."""

_OUR_BUG = 1


class Interrupted(Exception):
    """The user asked the work to end; the message says what became of it."""


class _LazyGroup(click.Group):
    """Knows the commands' names and one-line helps without importing them, so that --help is instant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"unlatch.cli.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        name = args[0]
        if name not in _COMMANDS and not name.startswith("-"):
            near = difflib.get_close_matches(name.lower(), _COMMANDS, n=1, cutoff=0.5)
            known = f"did you mean {near[0]}?" if near else f"there are {', '.join(_COMMANDS)}"
            ctx.fail(f"no command {name[:60]!r}; {known}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # click would print an empty line first
            raise Interrupted("interrupted") from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.command(
    cls=_LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="unlatch")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Learn an explicit POMDP from the log of what an agent did and saw, then plan with it.

    Exit codes: 0 done, 2 usage, 3 bad log, 4 bad model file, 5 not learnable from this log, 6 numerical
    trouble, 7 storage, 8 over a limit, 130 interrupted, 1 a bug of ours.
    """
    if ctx.invoked_subcommand is None:
        for line in _FIRST_STEPS.splitlines():
            screen().write(line)


def run_program(arguments: Sequence[str] | None) -> int:
    """Run a command; every error becomes a line on standard error and an exit code."""
    try:
        with _warnings_as_lines():
            cli.main(
                args=None if arguments is None else list(arguments),
                prog_name="unlatch",
                standalone_mode=False,
            )
        screen().flush()
    except BaseException as error:
        return _told(error)
    return 0


def _told(error: BaseException) -> int:
    """Say what happened; the exit code."""
    if isinstance(
        error, BrokenPipeError | SystemExit
    ):  # the reader has seen enough; click makes an exit of it
        silence()
        return 0
    if isinstance(error, Interrupted):
        say(str(error))
        return INTERRUPTED
    if isinstance(error, click.Abort | KeyboardInterrupt):
        say("interrupted")
        return INTERRUPTED
    if isinstance(error, click.ClickException):
        return _told_usage(error)
    if was_interrupted() and isinstance(error, ImportError):  # it fell into the loading of a library
        say("interrupted")
        return INTERRUPTED
    declared = _declared(error)
    if declared is not None:
        say(f"error: {declared}")
        if isinstance(error, OSError):
            silence()
        return declared.exit_code
    if was_interrupted():  # a library made something else of the interrupt
        say("interrupted")
        return INTERRUPTED
    if os.environ.get("UNLATCH_TRACEBACK"):
        raise error
    say(f"internal error ({type(error).__name__}: {error}); this is a bug of ours, please report it.")
    say("UNLATCH_TRACEBACK=1 shows where it happened")
    return _OUR_BUG


def _told_usage(error: click.ClickException) -> int:
    context = getattr(error, "ctx", None)
    if context is not None:
        _say_lines(context.get_usage())
        say(f"Try '{context.command_path} --help' for help.")
    _say_lines(f"error: {error.format_message()}")
    return error.exit_code


def _declared(error: BaseException) -> UnlatchError | None:
    """The declared error that ``error`` is or amounts to; None for a bug of ours."""
    if isinstance(error, UnlatchError):
        return error
    if isinstance(error, MemoryError):
        return ResourceLimitError(
            "out of memory; ask for less (fewer steps, states or symbols, shorter histories and tests), or give the "
            "process more memory"
        )
    if isinstance(error, ImportError) and (sentence := missing_library(error)) is not None:
        return UsageError(sentence)
    if isinstance(error, OSError) and error.filename is None:
        return StorageError(f"input or output failed: {error.strerror or error}")
    return None


def say(text: str) -> None:
    """One plain line on standard error; where that is closed or full there is nobody to tell."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(plain(text) + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return


def _say_lines(text: str) -> None:
    """Text that click laid out on several lines."""
    for line in text.expandtabs(2).split("\n"):
        say(line)


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Warnings as plain lines: they may quote names."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        say(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
