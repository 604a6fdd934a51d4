"""The command line: one thin module per command, loaded when it is called.

This file imports next to nothing, so that an interrupt is answered from the first moments on.
"""

from __future__ import annotations

import sys

from unlatch.cli.signals import INTERRUPTED, answer_signals, ignore_signals

TYPE_CHECKING = False  # typing itself takes most of the time that an early interrupt would fall into
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main", "run"]

_USAGE = 2


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code; no error reaches the user as a traceback."""
    try:
        answer_signals()
        code = run(arguments)
    except KeyboardInterrupt:  # before the program could catch it, or while it said its last words
        code = INTERRUPTED
        _say("interrupted")
    ignore_signals()
    # An interrupt inside an exec, though caught, would make Python end by SIGINT; another exec makes it forget.
    exec("pass")
    sys.exit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line with ``arguments`` (by default those of the process) and return its exit code."""
    try:
        from unlatch.cli.program import run_program
    except ImportError as error:
        from unlatch.cli.dependencies import missing_library

        if (sentence := missing_library(error)) is None:
            raise
        _say(f"error: {sentence}")
        return _USAGE
    return run_program(arguments)


def _say(text: str) -> None:
    """What can be said before the module that says things is loaded."""
    if sys.stderr is not None:
        print(text, file=sys.stderr)
