"""Where results go: plain text on standard output, never interpreted, as wide as the reader has room for."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TextIO

from unlatch.errors import StorageError
from unlatch.show.safe import columns, encodable, plain

__all__ = ["Screen", "screen", "silence"]

_WIDTH_OF_A_FILE = 160
"""Columns of a table where nobody says how many there are: in a pipe or a file."""

_NARROWEST, _WIDEST = 20, 10_000
_GAP = "  "


@dataclass(frozen=True, eq=False)
class Screen:
    """A stream and its width. What is printed passes `plain`: nothing in it is acted upon.

    ``stream`` is None if standard output is closed: then there is nobody to tell. ``wraps`` says whether sentences are
    broken at ``width``; in a pipe or a file they are not.
    """

    stream: TextIO | None
    width: int = _WIDTH_OF_A_FILE
    wraps: bool = False

    def print(self, text: object = "", *, indent: str = "") -> None:
        """One sentence; where it is broken, the lines after the first begin with ``indent``."""
        line = plain(text)
        if self.wraps and columns(line) > self.width:
            line = textwrap.fill(
                line, self.width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
            )
        self.write(line)

    def table(self, title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A title and aligned columns, the first to the left, numbers to the right."""
        self.print(title)
        for line in _aligned([[plain(cell) for cell in row] for row in (header, *rows)]):
            self.write(line)

    def fits(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
        """Whether a table is no wider than the screen."""
        widths = _widths([[plain(cell) for cell in row] for row in (header, *rows)])
        return 1 + sum(widths) + len(_GAP) * (len(widths) - 1) <= self.width

    def write(self, line: str) -> None:
        """A line that is plain already."""
        if self.stream is None:
            return
        try:
            self.stream.write(encodable(line, self.stream.encoding or "utf-8") + "\n")
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _unwritable(error) from None

    def flush(self) -> None:
        """Hand over what was printed, so that a full disk is told of now and not after the exit."""
        if self.stream is None:
            return
        try:
            self.stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _unwritable(error) from None


def screen() -> Screen:
    """Standard output, as wide as COLUMNS says, else as the terminal is, else wide enough for most tables."""
    width = _declared_width()
    if width is not None:
        return Screen(sys.stdout, width, wraps=True)
    if sys.stdout is not None and sys.stdout.isatty():
        found = shutil.get_terminal_size((80, 24)).columns
        return Screen(sys.stdout, min(max(found, _NARROWEST), _WIDEST), wraps=True)
    return Screen(sys.stdout)


def silence() -> None:
    """Send the rest of standard output nowhere, so that the flush at exit does not fail once more."""
    with suppress(OSError, ValueError, AttributeError):
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
        os.close(descriptor)


def _declared_width() -> int | None:
    text = os.environ.get("COLUMNS", "")
    if not (text.isascii() and text.isdigit()) or len(text) > 9 or int(text) == 0:
        return None
    return min(max(int(text), _NARROWEST), _WIDEST)


def _unwritable(error: OSError) -> StorageError:
    return StorageError(f"standard output: cannot write: {error.strerror or error}")


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(columns(cell) for cell in column) for column in zip(*rows, strict=True)]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The header, a rule and the rows, padded to equal columns."""
    widths = _widths(rows)
    rule = ["─" * width for width in widths]
    return [_line(row, widths) for row in (rows[0], rule, *rows[1:])]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        cell + pad if index == 0 else pad + cell
        for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        for pad in [" " * (width - columns(cell))]
    ]
    return (" " + _GAP.join(cells)).rstrip()
