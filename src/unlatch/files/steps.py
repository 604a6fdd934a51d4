"""The steps of a delimited file, block by block: only codes and numbers are kept, never the text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unlatch.arrays import Flags, Floats, Ints
from unlatch.core.alphabet import MAX_SYMBOLS, refuse_continuous
from unlatch.core.checks import MAX_NAME_BYTES
from unlatch.core.trajectory import CHANCE_RANGE
from unlatch.errors import DataError
from unlatch.files.columns import (
    ACTION,
    EPISODE,
    MAX_ROW_BYTES,
    NUL_BYTE,
    OBSERVATION,
    PROBABILITY,
    REWARD,
    TERMINATED,
    TRUNCATED,
    Columns,
)
from unlatch.files.episodes import Episodes, Rows
from unlatch.kernels import text

__all__ = ["FIRST", "StepReader", "SymbolTable"]

Bytes = NDArray[np.uint8]
Bounds = NDArray[np.int32]
Codes = NDArray[np.unsignedinteger[Any]]

FIRST = TRUNCATED + 1
"""The observations of rows without an action: in the table of symbols a column of their own."""

ROWS_PER_CALL = 1 << 16
"""So few that the positions of their cells stay in the processor's cache."""

_MAX_CELL_BYTES = 4 * MAX_NAME_BYTES
"""Longest cell that is looked at: composing its characters (NFC) may still bring it below the limit."""

_CODE = np.min_scalar_type(MAX_SYMBOLS)
_NUMBER = re.compile(rb"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")

_REMEDIES = {
    REWARD: "correct it, or leave the rewards out with reward=None (--ignore-reward)",
    PROBABILITY: "correct it, or leave the probabilities out with probability=None (--ignore-probability)",
}
"""What to do about a cell that should hold a number."""

_FLAG_REMEDIES = {
    TERMINATED: "or leave the column out with terminated=None (--ignore-terminated)",
    TRUNCATED: "or leave the column out with truncated=None (--ignore-truncated)",
}
_FLAGS = {
    **dict.fromkeys(("true", "t", "yes", "y", "1", "1.0"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0", "0.0"), False),
}
"""What a cell of an ending may hold, whatever its case."""

_WRONG_ROWS = {
    text.NUL: NUL_BYTE,
    text.AFTER_QUOTE: "text after a closing quote; inside quotes, write a quote twice",
    text.IN_QUOTE: "a quote is opened in this row and never closed",
    text.LONG_ROW: f"a row longer than {MAX_ROW_BYTES} bytes: a quote that is never closed, or not a table",
}


class SymbolTable:
    """The distinct cells of all columns, numbered as they appear."""

    def __init__(self) -> None:
        self._counts = np.zeros(text.COLUMNS + 2, dtype=np.int64)
        self._symbols = np.zeros((1 << 10, 6), dtype=np.int64)
        self._arena = np.zeros(1 << 14, dtype=np.uint8)
        self._slots = np.full(1 << 12, -1, dtype=np.int64)

    def codes(
        self, block: Bytes, starts: Bounds, ends: Bounds, lines: Ints, column: int, limit: int
    ) -> tuple[Ints, bool]:
        """The number of every cell, and whether the column's symbols stayed within ``limit``."""
        codes = np.empty(len(starts), dtype=np.int64)
        ended, done = text.FULL, 0
        while True:
            ended, done = text.intern_cells(
                block,
                starts,
                ends,
                lines,
                column,
                done,
                limit,
                self._slots,
                self._symbols,
                self._arena,
                self._counts,
                codes,
            )
            if ended != text.FULL:
                return codes, ended == text.COMPLETE
            self._enlarge()

    def _enlarge(self) -> None:
        self._symbols = np.concatenate([self._symbols, np.zeros_like(self._symbols)])
        self._arena = np.concatenate([self._arena, np.zeros_like(self._arena)])
        self._slots = np.full(2 * len(self._slots), -1, dtype=np.int64)
        text.place_symbols(self._slots, self._symbols, self._counts[text.SYMBOLS])

    def tokens(self, column: int) -> tuple[list[str], list[int]]:
        """The symbols of a column in the order of their codes, and the line where each was first seen."""
        known = self._symbols[: self._counts[text.SYMBOLS]]
        rows = known[known[:, text.COLUMN] == column]
        bounds = rows[:, [text.START, text.END]].tolist()
        return [self._arena[a:b].tobytes().decode() for a, b in bounds], rows[:, text.SEEN_ON].tolist()


@dataclass(frozen=True)
class _Part:
    """The steps of one call: codes, numbers and endings if there are any, and which begin an episode.

    ``first`` has the first observations of the episodes that begin here; None while the table has shown none.
    """

    actions: Codes
    observations: Codes
    numbers: dict[int, Floats]
    terminated: Flags | None
    episode_starts: Ints
    first: Codes | None


class _Cells(NamedTuple):
    """The bounds of the cells of some rows, and the lines where these begin."""

    block: Bytes
    starts: Bounds
    ends: Bounds
    lines: Ints

    def of(self, column: int) -> tuple[Bytes, Bounds, Bounds, Ints]:
        """The cells of one column."""
        return self.block, self.starts[column], self.ends[column], self.lines

    def chosen(self, rows: Flags | Ints) -> _Cells:
        """The cells of some of the rows."""
        return _Cells(self.block, self.starts[:, rows], self.ends[:, rows], self.lines[rows])


@dataclass(frozen=True)
class _Places:
    """Spells a cell of the file in messages; the last name is the one of `FIRST`."""

    where: str
    names: tuple[str, ...]

    def __call__(self, line: int, column: int) -> str:
        return f"{self.where}, line {line}, column {self.names[column]!r}"


class _Gaps:
    """Rows without action or observation, and blank lines between rows: where steps do not join.

    ``rows`` counts them, ``line`` and ``column`` (-1: blank) are of the first, and ``open`` says that the
    next step has none before it to join. With ``openings`` a row that lacks the action only is no gap.
    """

    def __init__(self, openings: bool) -> None:
        self.rows = 0
        self.line = 0
        self.column = -1
        self.open = True
        self._openings = openings
        self._blank_rows = 0
        self._blank_line = 0

    def split(self, starts: Bounds, ends: Bounds, lines: Ints) -> tuple[Ints, Flags, Flags]:
        """The rows that are none, which of them come after one, and which of them lack an action."""
        shown = ends[OBSERVATION] > starts[OBSERVATION]
        complete = (ends[ACTION] > starts[ACTION]) & shown
        present = shown if self._openings else complete
        kept = np.flatnonzero(present)
        self._count(~present, starts, ends, lines)
        after = np.diff(kept, prepend=-1) > 1
        if len(kept):
            after[0] |= self.open
        if len(present):
            self.open = not present[-1]
        return kept, after, ~complete[kept]

    def _count(self, incomplete: NDArray[np.bool_], starts: Bounds, ends: Bounds, lines: Ints) -> None:
        """A blank line counts once a row follows it: at the end of a file it means nothing."""
        filled = np.flatnonzero(starts[ACTION] >= 0)
        last = int(filled[-1]) + 1 if len(filled) else 0
        inside, trailing = np.flatnonzero(incomplete[:last]), lines[last:]
        if last and self._blank_rows:
            self._add(self._blank_rows, self._blank_line, -1)
            self._blank_rows = 0
        if len(inside):
            first = inside[0]
            empty = ACTION if ends[ACTION, first] == starts[ACTION, first] else OBSERVATION
            self._add(len(inside), int(lines[first]), empty if starts[ACTION, first] >= 0 else -1)
        if len(trailing):
            self._blank_line = self._blank_line if self._blank_rows else int(trailing[0])
            self._blank_rows += len(trailing)

    def _add(self, rows: int, line: int, column: int) -> None:
        if self.rows == 0:
            self.line, self.column = line, column
        self.rows += rows


class StepReader:
    """Collects the steps of a file from its blocks. ``where`` is what messages call the file."""

    def __init__(
        self, columns: Columns, delimiter: str, line: int, where: str, *, openings: bool = True
    ) -> None:
        self.columns = columns
        self.where = where
        self.table = SymbolTable()
        self.gaps = _Gaps(openings)
        self._place = _Places(where, (*columns.names, columns.names[OBSERVATION]))
        self.episodes = Episodes(self._place)
        self.steps = 0
        self.line = line
        self.truncated_line: int | None = None
        self._delimiter = ord(delimiter)
        self._column_of = np.full(columns.fields, -1, dtype=np.int64)
        for column, field in enumerate(columns.wanted):
            if field >= 0:
                self._column_of[field] = column
        self._bounds = np.zeros((2, len(columns.wanted), ROWS_PER_CALL), dtype=np.int32)
        self._lines = np.zeros(ROWS_PER_CALL, dtype=np.int64)
        self._flag_table = SymbolTable()
        self._parts: list[_Part] = []

    def read(self, blocks: Iterable[bytes]) -> None:
        """Read to the end. A last row without a line end is dropped and its line remembered."""
        rest = b""
        for block in blocks:
            _, rest = self._read_block(rest + block, final=False)
            if len(rest) > MAX_ROW_BYTES:
                raise self._wrong_row(text.LONG_ROW, 0)
        ended, rest = self._read_block(rest, final=True)
        if ended == text.IN_QUOTE:
            raise self._wrong_row(ended, 0)
        if rest:
            self.truncated_line = self.line
        self.episodes.finish()

    def codes(self, column: int, table: Ints) -> Ints:
        """The codes of the actions or observations, each replaced by its entry in ``table``."""
        result = np.empty(self.steps, dtype=np.int64)
        done = 0
        for part in self._parts:
            codes = part.actions if column == ACTION else part.observations
            np.take(table, codes, out=result[done : done + len(codes)])
            done += len(codes)
        return result

    def numbers(self, column: int) -> Floats | None:
        """The rewards or probabilities, if the file has them."""
        numbers = [part.numbers[column] for part in self._parts if column in part.numbers]
        return np.concatenate(numbers) if numbers else None

    def episode_starts(self) -> Ints:
        return np.concatenate([part.episode_starts for part in self._parts])

    def terminated(self) -> Flags | None:
        """Which steps ended their episode for good, if the file tells."""
        flags = [part.terminated for part in self._parts if part.terminated is not None]
        return np.concatenate(flags) if flags else None

    def first_observations(self, table: Ints) -> Ints | None:
        """Of every episode, each replaced by its entry in ``table``; None if there are none."""
        if not self.episodes.opened:
            return None
        codes = np.concatenate([part.first for part in self._parts if part.first is not None])
        result: Ints = table[codes]
        return result

    def _read_block(self, block: bytes, *, final: bool) -> tuple[int, bytes]:
        """Take the whole rows of ``block``; gives back how it ended and the bytes of a partial row."""
        data = np.frombuffer(bytearray(block), dtype=np.uint8)
        position, ended = 0, text.COMPLETE
        while position < len(block) and ended == text.COMPLETE:
            ended, position, line, rows, fields, doubled = text.find_rows(
                data,
                position,
                self.line,
                final,
                self._delimiter,
                MAX_ROW_BYTES,
                self._column_of,
                self._bounds[0],
                self._bounds[1],
                self._lines,
            )
            self._take(data, rows, doubled > 0)
            self.line = line
        if ended not in (text.COMPLETE, text.PARTIAL, text.IN_QUOTE):
            raise self._wrong_row(ended, fields)
        return ended, block[position:]

    def _take(self, block: Bytes, rows: int, doubled: bool) -> None:
        """Keep the steps of the rows whose cells have been found."""
        starts, ends = self._bounds[:, :, :rows]
        kept, after_gap, openings = self.gaps.split(starts, ends, self._lines[:rows])
        cells = _Cells(block, starts, ends, self._lines[:rows])
        cells = cells.chosen(kept) if len(kept) < rows else cells
        if doubled:
            for column in filter(self._has, range(len(self.columns.wanted))):
                text.unquote(block, cells.starts[column], cells.ends[column])
        steps, first = cells, np.zeros(0, dtype=np.int64)
        if openings.any():
            steps, first = cells.chosen(~openings), self._opened(cells.chosen(openings))
        flags = {
            column: self._flags(*steps.of(column), column) for column in _FLAG_REMEDIES if self._has(column)
        }
        numbers = {
            column: self._numbers(*steps.of(column), column) for column in _REMEDIES if self._has(column)
        }
        if PROBABILITY in numbers:
            self._check_chances(numbers[PROBABILITY], steps.lines)
        actions = self._symbols(*steps.of(ACTION), ACTION).astype(_CODE)
        observations = self._symbols(*steps.of(OBSERVATION), OBSERVATION).astype(_CODE)
        begins, shown = self.episodes.begin(
            Rows(
                lines=cells.lines,
                after_gap=after_gap,
                openings=openings,
                first=first,
                episodes=self._symbols(*cells.of(EPISODE), EPISODE) if self._has(EPISODE) else None,
                terminated=_spread(flags.get(TERMINATED), ~openings),
                truncated=_spread(flags.get(TRUNCATED), ~openings),
            )
        )
        self._parts.append(
            _Part(
                actions=actions,
                observations=observations,
                numbers=numbers,
                terminated=flags.get(TERMINATED),
                episode_starts=np.flatnonzero(begins) + self.steps,
                first=shown.astype(_CODE) if self.episodes.line_without < 0 else None,
            )
        )
        self.steps += len(actions)

    def _has(self, column: int) -> bool:
        return self.columns.wanted[column] >= 0

    def _opened(self, cells: _Cells) -> Ints:
        """The codes of first observations. Nothing had been done yet, so that their rows can say no more."""
        for column in (*_REMEDIES, *_FLAG_REMEDIES):
            if self._has(column):
                self._refuse_content(cells.chosen(cells.ends[column] > cells.starts[column]), column)
        return self._symbols(*cells.of(OBSERVATION), FIRST)

    def _refuse_content(self, cells: _Cells, column: int) -> None:
        read = self._numbers if column in _REMEDIES else self._flags
        filled = np.flatnonzero(read(*cells.of(column), column))
        if len(filled):
            raise DataError(
                f"{self._place(int(cells.lines[filled[0]]), column)}: the row has no action, so that this cell must be "
                "empty or zero; name the action, or clear the cell if the row holds what was shown before the first one"
            )

    def _symbols(self, block: Bytes, starts: Bounds, ends: Bounds, lines: Ints, column: int) -> Ints:
        long = np.flatnonzero(ends - starts > _MAX_CELL_BYTES)
        if len(long):
            raise DataError(
                f"{self._place(int(lines[long[0]]), column)}: a symbol longer than {MAX_NAME_BYTES} bytes; "
                "give it a shorter name"
            )
        limit = np.iinfo(np.int64).max if column == EPISODE else MAX_SYMBOLS
        codes, within = self.table.codes(block, starts, ends, lines, column, limit)
        if not within:
            refuse_continuous(
                f"{self.where}, column {self._place.names[column]!r}", limit + 1, self.steps + len(codes)
            )
        return codes

    def _flags(self, block: Bytes, starts: Bounds, ends: Bounds, lines: Ints, column: int) -> Flags:
        """Whether each cell says yes."""
        codes, _ = self._flag_table.codes(block, starts, ends, lines, column, np.iinfo(np.int64).max)
        tokens, seen = self._flag_table.tokens(column)
        meant = [_FLAGS.get(token.strip().lower()) for token in tokens]
        if None in meant:
            wrong = meant.index(None)
            raise DataError(
                f"{self._place(seen[wrong], column)}: {tokens[wrong][:40]!r} is neither true nor false; write true or "
                f"false, 1 or 0, yes or no, {_FLAG_REMEDIES[column]}"
            )
        result: Flags = np.array(meant, dtype=bool)[codes]
        return result

    def _numbers(self, block: Bytes, starts: Bounds, ends: Bounds, lines: Ints, column: int) -> Floats:
        values = np.empty(len(starts))
        exact = np.empty(len(starts), dtype=np.bool_)
        text.read_decimals(block, starts, ends, values, exact)
        left = np.flatnonzero(~exact)
        if len(left):
            raw = block.tobytes()
            cells = [raw[a:b] for a, b in zip(starts[left].tolist(), ends[left].tolist(), strict=True)]
            values[left] = [_number(cell) for cell in cells]
            wrong = np.flatnonzero(~np.isfinite(values[left]))
            if len(wrong):
                shown = cells[wrong[0]][:40].decode(errors="replace")
                raise DataError(
                    f"{self._place(int(lines[left[wrong[0]]]), column)}: {shown!r} is not a finite number; "
                    f"{_REMEDIES[column]}"
                )
        return values

    def _check_chances(self, chances: Floats, lines: Ints) -> None:
        wrong = np.flatnonzero((chances <= 0) | (chances > 1))
        if len(wrong):
            raise DataError(
                f"{self._place(int(lines[wrong[0]]), PROBABILITY)}: {float(chances[wrong[0]])}; {CHANCE_RANGE}; "
                f"{_REMEDIES[PROBABILITY]}"
            )

    def _wrong_row(self, ended: int, fields: int) -> DataError:
        """What is wrong with the row that begins at the current line."""
        if ended == text.RAGGED:
            wrong = (
                f"{fields} fields where the first row has {self.columns.fields}; put a cell that holds the "
                "delimiter in quotes"
            )
        else:
            wrong = _WRONG_ROWS[ended]
        return DataError(f"{self.where}, line {self.line}: {wrong}")


def _spread(flags: Flags | None, steps: Flags) -> Flags:
    """For every row, from those of its steps; none where the table does not say."""
    result = np.zeros(len(steps), dtype=bool)
    if flags is not None:
        result[steps] = flags
    return result


def _number(cell: bytes) -> float:
    """A number that is too long for the kernel; not a number, if it is none."""
    return float(cell) if len(cell) <= _MAX_CELL_BYTES and _NUMBER.fullmatch(cell) else float("nan")
