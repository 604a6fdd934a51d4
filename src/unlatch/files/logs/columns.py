"""Which column of a table is the action, which the observation: by the names of the columns, or by position."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from unlatch.core.diagnostics import Diagnostics
from unlatch.errors import DataError, UsageError

__all__ = [
    "ACTION",
    "ENVIRONMENT",
    "EPISODE",
    "MAX_ROW_BYTES",
    "NUL_BYTE",
    "OBSERVATION",
    "PROBABILITY",
    "REWARD",
    "ROLES",
    "STEP",
    "TERMINATED",
    "TRUNCATED",
    "Columns",
    "Roles",
    "by_name",
    "by_position",
    "checked_delimiter",
    "checked_roles",
    "first_block",
    "read_columns",
]

MAX_ROW_BYTES = 1 << 20
"""Longest row that is taken for a row rather than for a missing line end or an unclosed quote."""

_USUAL_ROW_BYTES = 1 << 12
"""Bytes that hold the first row of most files."""

NUL_BYTE = "a NUL byte; the file is damaged, or it is UTF-16: then encoding='utf-16' (--encoding utf-16)"
"""Said of such a row, be it the first or another."""

ROLES = (
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
ACTION, OBSERVATION, REWARD, EPISODE, PROBABILITY, TERMINATED, TRUNCATED, ENVIRONMENT, STEP = range(
    len(ROLES)
)
_BY_POSITION = ROLES[:4]
_USUAL_DELIMITERS = (",", ";", "\t", "|")
_SHOWN = 12

Roles = tuple[str | None, ...]
"""The names of the columns, in the order above, then those of further columns of the observation; None leaves
one out."""

_MOST_OBSERVATIONS = 16
"""Columns that one observation may be made of."""


@dataclass(frozen=True)
class Columns:
    """The fields of a row that are read.

    ``wanted`` has the field of every role, -1 where there is none, and of further columns of the observation;
    ``names`` what to call them in messages.
    """

    fields: int
    wanted: tuple[int, ...]
    names: tuple[str, ...]
    diagnostics: Diagnostics

    @property
    def present(self) -> tuple[int, ...]:
        """The columns that the table has."""
        return tuple(column for column, field in enumerate(self.wanted) if field >= 0)

    @property
    def further(self) -> tuple[int, ...]:
        """The columns of the observation after its first."""
        return tuple(range(len(ROLES), len(self.wanted)))


def checked_roles(
    action: str, observation: str | Sequence[str], *others: str | None, further: Sequence[str] = ()
) -> Roles:
    """Names of different columns, in the order of the roles. The observation may have several."""
    if isinstance(observation, list | tuple):
        if not 1 <= len(observation) <= _MOST_OBSERVATIONS:
            raise UsageError(
                f"an observation is one column or up to {_MOST_OBSERVATIONS}, got {len(observation)}"
            )
        observation, *further = observation
    roles: tuple[Any, ...] = (action, observation, *others, *further)
    named = [role for role in roles if role is not None]
    if not all(isinstance(role, str) for role in (*roles[:2], *further, *named)):
        raise UsageError(f"columns are named by text, got {', '.join(map(repr, roles))}")
    if len(set(named)) < len(named):
        raise UsageError(f"{', '.join(ROLES)} need a column each, got {named}")
    return roles


def checked_delimiter(delimiter: str) -> str:
    """The character that separates fields; a tab may be spelled ``\\t``."""
    text = delimiter if isinstance(delimiter, str) else ""
    character = "\t" if text == "\\t" else text
    if len(character) != 1 or not character.isascii() or character in '"\r\n\0':
        raise UsageError(
            f"the delimiter must be one ASCII character other than a quote, got {delimiter!r:.40}"
        )
    return character


def first_block(blocks: Iterator[bytes]) -> bytes:
    """As many blocks as surely hold the first row, joined."""
    head = b""
    for block in blocks:
        head += block
        if len(head) > MAX_ROW_BYTES:
            break
    return head


def read_columns(
    block: bytes, roles: Roles, header: bool, delimiter: str, where: str
) -> tuple[Columns, int, int]:
    """The columns of a file that begins with ``block``, and the position and line where its steps begin.

    Blank lines before the first row, and between header and steps, are passed over.
    """
    start, line = _after_blank_lines(block, 0, 1)
    if start == len(block):
        raise DataError(f"{where}: no data")
    row, stop = _first_row(block[start : start + MAX_ROW_BYTES + 1], delimiter, f"{where}, line {line}")
    if len(row) < 2:
        raise _single_column(row, delimiter, where)
    if not header:
        return by_position(row, roles, where), start, line
    columns = by_name(row, roles, where, no_header=True)
    line += _line_ends(block[start : start + stop])
    return columns, *_after_blank_lines(block, start + stop, line)


def _after_blank_lines(block: bytes, start: int, line: int) -> tuple[int, int]:
    stop = len(block) - len(block[start:].lstrip(b"\r\n"))
    return stop, line + _line_ends(block[start:stop])


def _line_ends(text: bytes) -> int:
    return text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")


def _first_row(block: bytes, delimiter: str, place: str) -> tuple[list[str], int]:
    """The cells of the first row and its length in bytes."""
    for size in (_USUAL_ROW_BYTES, len(block)):
        text = block[:size].decode(errors="replace")
        lines = io.StringIO(text, newline="")
        try:
            row = next(csv.reader(lines, delimiter=delimiter, strict=True))
        except csv.Error as error:
            if size >= len(block):
                raise DataError(f"{place}: {error}") from None
        else:
            if lines.tell() < len(text):  # more would change nothing
                break
    if "\0" in "".join(row):
        raise DataError(f"{place}: {NUL_BYTE}")
    length = len(text[: lines.tell()].encode())
    if length > MAX_ROW_BYTES:
        raise DataError(f"{place}: a row longer than {MAX_ROW_BYTES} bytes; this is not a table")
    return row, length


def _single_column(row: Sequence[str], delimiter: str, where: str) -> DataError:
    others = [d for d in _USUAL_DELIMITERS if d != delimiter and d in "".join(row)]
    spelled = {"\t": "'\\t'"}.get(others[0], repr(others[0])) if others else ""
    remedy = (
        f"try delimiter={spelled} (--delimiter {spelled})"
        if others
        else "name what separates them with delimiter=... (--delimiter)"
    )
    return DataError(f"{where}: 1 column found with delimiter {delimiter!r}: {_listing(row)}; {remedy}")


def by_name(header: Sequence[str], roles: Roles, where: str, *, no_header: bool = False) -> Columns:
    """Columns by their names; all but action and observation may be absent under their usual names. ``no_header``:
    the names may be a row of data."""
    twice = sorted(name for name, count in Counter(header).items() if count > 1)
    if twice:
        raise DataError(f"{where}: more than one column is called {_listing(twice)}; rename all but one")
    needed = (*roles[:2], *roles[len(ROLES) :])
    absent = [str(role) for role in needed if role not in header]
    if absent:
        there = "the first row is" if no_header else "there are"
        remedy = " or, if there is no header row, say header=False (--no-header)" if no_header else ""
        raise DataError(
            f"{where}: no column {_listing(absent)}; {there} {_listing(header)}. Name the columns "
            "that hold the action and the observation with action=... and observation=... (--action, --observation)"
            f"{remedy}"
        )
    for usual, role in zip(ROLES[2:], roles[2 : len(ROLES)], strict=True):
        if role not in header and role not in (None, usual):
            raise DataError(
                f"{where}: no column {role!r} for the {usual}; there are {_listing(header)}. Name one of them with "
                f"{usual}=... (--{usual})"
            )
    wanted = tuple(header.index(role) if role is not None and role in header else -1 for role in roles)
    ignored = [name for i, name in enumerate(header) if i not in wanted]
    return Columns(len(header), wanted, tuple(role or "" for role in roles), _noting_ignored(ignored))


def by_position(row: Sequence[str], roles: Roles, where: str) -> Columns:
    """Columns of a table without names: action, observation, reward, episode, in this order."""
    if len(roles) > len(ROLES):
        raise UsageError(f"{where}: several columns of one observation must have names; there is no header")
    if len(row) > len(_BY_POSITION):
        raise DataError(
            f"{where}: {len(row)} columns without a header; only {', '.join(_BY_POSITION)} are understood, in "
            "this order. Give the file a header row"
        )
    wanted = tuple(i if i < len(row) and role is not None else -1 for i, role in enumerate(roles))
    ignored = [f"number {i + 1}" for i in range(len(row)) if i not in wanted]
    columns = Columns(len(row), wanted, ROLES, _noting_ignored(ignored))
    if tuple(row[:2]) != roles[:2]:
        return columns
    notes = columns.diagnostics.noting(
        "header_like_row",
        "the first row reads like a header but was taken for a step, as header=False (--no-header) asks",
    )
    return replace(columns, diagnostics=notes)


def _noting_ignored(ignored: Sequence[str]) -> Diagnostics:
    if not ignored:
        return Diagnostics()
    return Diagnostics().noting("ignored_columns", f"not read: {_listing(ignored)}", columns=list(ignored))


def _listing(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name[:80]) for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown}, ... ({len(names)} in all)"
