"""The command line: one thin module per command, loaded when it is called."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

import click

from unlatch import __version__
from unlatch.errors import UnlatchError

__all__ = ["cli", "main"]

_COMMANDS = {
    "simulate": "Sample a log from a domain or a model file.",
    "learn": "Learn a POMDP from a log.",
    "plan": "Plan towards a goal, act, and report how it went.",
    "show": "Print a model: states, partition, matrices.",
    "demo": "Learn Tiger from a simulated log and compare it with the truth.",
    "reproduce": "Make the paper's figures and tables, ours beside the paper's.",
}

_INTERRUPTED = 130
_OUR_BUG = 1


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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.command(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="unlatch")
def cli() -> None:
    """Learn an explicit POMDP from the log of what an agent did and saw, then plan with it.

    Exit codes: 0 done, 2 usage, 3 bad log, 4 bad model file, 5 not learnable from this log, 6 numerical
    trouble, 7 storage, 8 over a limit, 130 interrupted, 1 a bug of ours.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code; no error reaches the user as a traceback."""
    sys.exit(_run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    try:
        cli.main(args=list(arguments) if arguments is not None else None, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except UnlatchError as error:
        _say(f"error: {error}")
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        _say("interrupted")
        return _INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that the flush at exit is silent
        return 0
    except Exception as error:
        if os.environ.get("UNLATCH_TRACEBACK"):
            raise
        _say(f"internal error ({type(error).__name__}: {error}); this is a bug of ours, please report it. ")
        _say("UNLATCH_TRACEBACK=1 shows where it happened")
        return _OUR_BUG
    return 0


def _say(text: str) -> None:
    click.echo(text, err=True)
