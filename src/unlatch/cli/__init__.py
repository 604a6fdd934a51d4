"""The command line: one thin module per command, loaded when it is called.

This file imports next to nothing, so that an interrupt is answered from the first moments on.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from unlatch.cli.signals import INTERRUPTED, answer_signals

__all__ = ["main", "run"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code; no error reaches the user as a traceback."""
    try:
        answer_signals()
        code = run(arguments)
    except KeyboardInterrupt:  # before the program could catch it, or while it said its last words
        code = INTERRUPTED
        if sys.stderr is not None:
            print("interrupted", file=sys.stderr)
    sys.exit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line with ``arguments`` (by default those of the process) and return its exit code."""
    from unlatch.cli.program import run_program

    return run_program(arguments)
