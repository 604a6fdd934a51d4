"""Rows of a table, whatever kind of file they came from: codes of symbols, numbers, answers, and where each row is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from unlatch.arrays import Flags, Floats, Ints
from unlatch.core.diagnostics import Diagnostics
from unlatch.errors import DataError
from unlatch.files.logs.columns import Columns

__all__ = [
    "NO",
    "NOTHING",
    "WRONG",
    "YES",
    "Answers",
    "Consecutive",
    "Lines",
    "Numbers",
    "Place",
    "RowBatch",
    "RowSource",
]

YES, NO, NOTHING, WRONG = 1, 0, -1, -2
"""What a cell of an ending says; `NOTHING` is also the code of an empty cell in a column of symbols."""


class Consecutive:
    """Lines one after the other, none of which has to be kept."""

    def __init__(self, first: int, count: int) -> None:
        self._first = first
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, rows):  # type: ignore[no-untyped-def]
        if isinstance(rows, slice):
            return np.asarray(self)[rows]
        if isinstance(rows, np.ndarray):
            return self.take(rows, "clip")
        return self._first + rows + (self._count if rows < 0 else 0)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.arange(self._first, self._first + self._count, dtype=dtype)

    def take(self, rows: Ints, mode: str) -> Ints:
        return rows.astype(np.int64) + self._first


Lines = Ints | Consecutive
"""The line of every row."""


class Numbers(NamedTuple):
    """A column of numbers: NaN where a cell holds no finite one, which of them are empty, and what a cell says."""

    values: Floats
    empty: Flags
    shown: Callable[[int], str]

    def chosen(self, places: Ints) -> Numbers:
        return Numbers(
            self.values.take(places, mode="clip"),
            self.empty.take(places, mode="clip"),
            lambda row: self.shown(int(places[row])),
        )


class Answers(NamedTuple):
    """A column of endings: `YES`, `NO`, `NOTHING` or `WRONG`, and what a cell says."""

    values: NDArray[np.int8]
    shown: Callable[[int], str]

    def chosen(self, places: Ints) -> Answers:
        return Answers(self.values.take(places, mode="clip"), lambda row: self.shown(int(places[row])))


@dataclass(frozen=True)
class Place:
    """Spells a cell of a table in messages. A text has lines, counted from 1 with its header; other tables
    have rows."""

    where: str
    names: tuple[str, ...]
    unit: str = "line"

    def __call__(self, line: int, column: int) -> str:
        return f"{self.where}, {self.unit} {line}, column {self.names[column]!r}"

    def wrong(self, line: int, column: int, what: str) -> DataError:
        return DataError(f"{self(line, column)}: {what}", line=line, field=self.names[column])


@dataclass(frozen=True)
class RowBatch:
    """Some rows, one after the other.

    ``symbols[c][row]`` is the code of a cell, `NOTHING` if it is empty, and ``tokens[c][code]`` its text; codes
    keep their meaning from
    batch to batch, and tokens are only added. ``seen[c][code]`` is the line of the first cell with that text. Codes of
    episodes rise as they appear. ``blank`` marks rows that are blank lines, ``seams`` those that do not go on
    with the row before.
    """

    lines: Lines
    symbols: Mapping[int, Ints]
    tokens: Mapping[int, Sequence[str]]
    seen: Mapping[int, Sequence[int]]
    numbers: Mapping[int, Numbers] = field(default_factory=dict)
    answers: Mapping[int, Answers] = field(default_factory=dict)
    blank: Flags | None = None
    seams: Flags | None = None

    def __len__(self) -> int:
        return len(self.lines)

    def chosen(self, rows: Flags | Ints) -> RowBatch:
        """Some of the rows, in the order of ``rows``."""
        places: Ints = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows.astype(np.int64, copy=False)
        return replace(
            self,
            lines=self.lines.take(places, mode="clip"),
            symbols={column: codes.take(places, mode="clip") for column, codes in self.symbols.items()},
            numbers={column: numbers.chosen(places) for column, numbers in self.numbers.items()},
            answers={column: answers.chosen(places) for column, answers in self.answers.items()},
            blank=None if self.blank is None else self.blank.take(places, mode="clip"),
            seams=None if self.seams is None else self.seams.take(places, mode="clip"),
        )


class RowSource(Protocol):
    """A table that gives its rows in batches, once."""

    columns: Columns
    place: Place

    def batches(self) -> Iterator[RowBatch]:
        """The rows, a few ten thousand at a time."""

    def findings(self, strict: bool) -> Diagnostics:
        """What was noticed about the table, once all rows have been read; with ``strict`` some of that is refused."""
