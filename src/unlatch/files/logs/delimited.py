"""Tables in delimited text (RFC 4180), block by block: only codes and numbers are kept, never the text."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unlatch.arrays import Flags, Floats, Ints
from unlatch.core.alphabet import MAX_SYMBOLS, refuse_continuous
from unlatch.core.checks import MAX_NAME_BYTES
from unlatch.core.diagnostics import Diagnostics
from unlatch.errors import DataError
from unlatch.files.logs.columns import (
    ACTION,
    ENVIRONMENT,
    EPISODE,
    MAX_ROW_BYTES,
    NUL_BYTE,
    OBSERVATION,
    PROBABILITY,
    REWARD,
    STEP,
    TERMINATED,
    TRUNCATED,
    Columns,
)
from unlatch.files.logs.rows import NO, NOTHING, WRONG, YES, Answers, Numbers, Place, RowBatch
from unlatch.kernels import text

__all__ = ["ANSWERS", "DelimitedReader", "SymbolTable"]

Bytes = NDArray[np.uint8]
Bounds = NDArray[np.int32]

ROWS_PER_CALL = 1 << 16
"""So few that the positions of their cells stay in the processor's cache."""

_MAX_CELL_BYTES = 4 * MAX_NAME_BYTES
"""Longest cell that is looked at: composing its characters (NFC) may still bring it below the limit."""

_NUMBER = re.compile(rb"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")

_NOT_PLAIN = (ord('"'), ord("\r"), 0)
"""Bytes that the quick kernel knows nothing of."""

_SLOTS = 1 << 10
"""Places in a table of short symbols, of which half are used: so few that they stay in the processor's cache."""

_LINE_BYTES = text.WORD * text.LINE_WORDS
_LINES = 1 << 12
"""Places in the table of lines, of which half are used."""

_ENOUGH_LINES, _USES_OF_A_LINE = 64, 16
"""After so many different lines each must have come as often, or looking them up is not worth it."""

_NUMBERS = (REWARD, PROBABILITY, STEP)
_ANSWERS = (TERMINATED, TRUNCATED)
_NO_LIMIT = int(np.iinfo(np.int64).max)

ANSWERS = {
    **dict.fromkeys(("true", "t", "yes", "y", "1", "1.0"), YES),
    **dict.fromkeys(("false", "f", "no", "n", "0", "0.0"), NO),
    "": NOTHING,
}
"""What a cell of an ending may hold, whatever its case."""

_WRONG_ROWS = {
    text.NUL: NUL_BYTE,
    text.AFTER_QUOTE: "text after a closing quote; inside quotes, write a quote twice",
    text.IN_QUOTE: "a quote is opened in this row and never closed",
    text.LONG_ROW: f"a row longer than {MAX_ROW_BYTES} bytes: a quote that is never closed, or not a table",
}


class SymbolTable:
    """The distinct cells of a column, numbered as they appear, and the line where each was first seen."""

    def __init__(self, *, keeps_texts: bool = True) -> None:
        self.tokens: list[str] = []
        self.seen: list[int] = []
        self._keeps_texts = keeps_texts
        self._counts = np.zeros(text.COLUMNS + 2, dtype=np.int64)
        self._symbols = np.zeros((1 << 10, 6), dtype=np.int64)
        self._arena = np.zeros(1 << 14, dtype=np.uint8)
        self._slots = np.full(1 << 12, -1, dtype=np.int64)

    def codes(
        self, block: Bytes, starts: Bounds, ends: Bounds, lines: Ints, limit: int = _NO_LIMIT
    ) -> tuple[Ints, bool]:
        """The number of every cell, and whether the symbols stayed within ``limit``."""
        codes = np.empty(len(starts), dtype=np.int64)
        ended, done = text.FULL, 0
        while True:
            ended, done = text.intern_cells(
                block,
                starts,
                ends,
                lines,
                0,
                done,
                limit,
                self._slots,
                self._symbols,
                self._arena,
                self._counts,
                codes,
            )
            if ended != text.FULL:
                self._take_note()
                return codes, ended == text.COMPLETE
            self._enlarge()

    def _enlarge(self) -> None:
        self._symbols = np.concatenate([self._symbols, np.zeros_like(self._symbols)])
        self._arena = np.concatenate([self._arena, np.zeros_like(self._arena)])
        self._slots = np.full(2 * len(self._slots), -1, dtype=np.int64)
        text.place_symbols(self._slots, self._symbols, self._counts[text.SYMBOLS])

    def _take_note(self) -> None:
        """The texts of what is new."""
        if not self._keeps_texts:
            return
        known, total = len(self.tokens), int(self._counts[text.SYMBOLS])
        for first, last, line in self._symbols[known:total, [text.START, text.END, text.SEEN_ON]].tolist():
            self.tokens.append(self._arena[first:last].tobytes().decode(errors="replace"))
            self.seen.append(line)


class _Keys:
    """Short symbols of every column, for the kernel that finds rows and looks symbols up in one go."""

    def __init__(self, columns: int, known: Iterable[int]) -> None:
        self.coded = np.zeros(columns, dtype=np.bool_)
        self.coded[list(known)] = True
        self.keys = np.zeros((columns, _SLOTS, text.KEY_WORDS), dtype=np.uint64)
        self.slots = np.full((columns, _SLOTS), -1, dtype=np.int64)
        self._learned = [0] * columns
        self._entered = [0] * columns

    def learn(self, column: int, tokens: Sequence[str]) -> None:
        """Enter what is new, as long as there is room: a full table would be slow."""
        for code in range(self._learned[column], len(tokens)):
            cell = tokens[code].encode()
            if 0 < len(cell) <= text.WORD * text.KEY_WORDS and self._entered[column] < _SLOTS // 2:
                words = np.frombuffer(cell.ljust(text.WORD * text.KEY_WORDS, b"\0"), dtype="<u8")
                with np.errstate(over="ignore"):  # where kernels are plain Python
                    text.enter_key(self.keys[column], self.slots[column], *words, code)
                self._entered[column] += 1
        self._learned[column] = len(tokens)


class _KnownLines:
    """Whole lines that came before, and what was read from each: most logs have few different ones.

    ``rows`` lines have been looked up and not yet been taken. Not ``useful`` any more once lines turn out to be
    mostly different, as those with numbers of episodes or steps are, or of another form than short ones that are a row
    each.
    """

    def __init__(self, *, useful: bool) -> None:
        self.useful = useful
        self.rows = 0
        self._keys = np.zeros((_LINES, text.LINE_WORDS), dtype=np.uint64)
        self._found = np.zeros(ROWS_PER_CALL, dtype=np.int16)
        self._entered = 0
        self._matched = 0
        self._symbols: dict[int, NDArray[Any]] = {}  # narrow codes: they are as many as rows
        self._numbers: dict[int, tuple[Floats, Flags]] = {}
        self._answers: dict[int, NDArray[np.int8]] = {}
        self._shown: dict[tuple[int, int], str] = {}

    @property
    def is_full(self) -> bool:
        """Whether what was found has to be taken before there is room for more."""
        return self.rows == len(self._found)

    def match(self, data: Bytes, position: int) -> int:
        """Look up lines from ``position`` on, as far as they are known; where the next begins."""
        with np.errstate(over="ignore"):  # where kernels are plain Python
            position, rows = text.match_lines(
                _words(data), len(data), position, text.LINE_MASKS, self._keys, self._found, self.rows
            )
        self._matched += rows - self.rows
        self.rows = rows
        return position

    def enter(self, line: bytes, row: RowBatch) -> None:
        """The only row of ``row`` is what ``line`` says."""
        self._entered += 1
        rare = self._entered >= _ENOUGH_LINES and self._matched < _USES_OF_A_LINE * self._entered
        self.useful = not rare and self._entered <= _LINES // 2
        words = np.frombuffer(line.ljust(_LINE_BYTES, b"\0"), dtype="<u8")
        with np.errstate(over="ignore"):
            slot = text.enter_line(self._keys, *words)
        for column, codes in row.symbols.items():
            self._symbols.setdefault(column, np.zeros(_LINES, dtype=np.int16))[slot] = codes[0]
        for column, numbers in row.numbers.items():
            values, empty = self._numbers.setdefault(column, (np.zeros(_LINES), np.zeros(_LINES, dtype=bool)))
            values[slot], empty[slot] = numbers.values[0], numbers.empty[0]
            self._shown[column, slot] = numbers.shown(0)
        for column, answers in row.answers.items():
            self._answers.setdefault(column, np.zeros(_LINES, dtype=np.int8))[slot] = answers.values[0]
            self._shown[column, slot] = answers.shown(0)

    def taken(
        self, lines: Ints, tokens: Mapping[int, Sequence[str]], seen: Mapping[int, Sequence[int]]
    ) -> RowBatch:
        """The rows that were found; there are none then."""
        slots = self._found[: self.rows].copy()
        self.rows = 0

        def shown(column: int) -> Callable[[int], str]:
            return lambda row: self._shown[column, int(slots[row])]

        return RowBatch(
            lines=lines,
            symbols={c: _looked_up(table, slots) for c, table in self._symbols.items()},
            tokens=tokens,
            seen=seen,
            numbers={
                c: Numbers(values[slots], empty[slots], shown(c))
                for c, (values, empty) in self._numbers.items()
            },
            answers={c: Answers(table[slots], shown(c)) for c, table in self._answers.items()},
        )


def _looked_up(table: NDArray[Any], slots: NDArray[np.int16]) -> NDArray[Any]:
    found = np.empty(len(slots), dtype=table.dtype)
    text.look_up(table, slots, found)
    return found


def _words(data: Bytes) -> Any:
    """The eight bytes from every position on as one number, the first the lowest."""
    return np.ndarray(shape=(len(data) - text.WORD + 1,), dtype=np.dtype("<u8"), buffer=data, strides=(1,))


class DelimitedReader:
    """The rows of a delimited text that comes in blocks. A `RowSource`.

    ``line`` is that of the next row. A last row without a line end is dropped and its line remembered, as
    ``truncated_line``. Texts of episodes are kept only if they are asked for (``names_episodes``): there may be many.
    """

    def __init__(
        self,
        columns: Columns,
        delimiter: str,
        line: int,
        where: str,
        blocks: Iterable[bytes],
        *,
        names_episodes: bool = True,
    ) -> None:
        self.columns = columns
        self.place = Place(where, columns.names)
        self.line = line
        self.truncated_line: int | None = None
        self._blocks = blocks
        self._delimiter = ord(delimiter)
        self._column_of = np.full(columns.fields, -1, dtype=np.int64)
        for column in columns.present:
            self._column_of[columns.wanted[column]] = column
        self._bounds = np.zeros((2, len(columns.wanted), ROWS_PER_CALL), dtype=np.int32)
        self._lines = np.zeros(ROWS_PER_CALL, dtype=np.int64)
        self._symbols = (ACTION, OBSERVATION, EPISODE, ENVIRONMENT, *columns.further)
        self._tables = {
            column: SymbolTable(keeps_texts=names_episodes or column != EPISODE)
            for column in columns.present
            if column in (*self._symbols, *_ANSWERS)
        }
        self._codes = np.zeros((len(columns.wanted), ROWS_PER_CALL), dtype=np.int64)
        known = [column for column in self._tables if column not in (EPISODE, *_ANSWERS)]
        self._keys = _Keys(len(columns.wanted), known)
        self._known = _KnownLines(useful=not {EPISODE, STEP} & set(columns.present))
        self._rows = 0

    def batches(self) -> Iterator[RowBatch]:
        """Read to the end."""
        rest = b""
        for block in self._blocks:
            rest = yield from self._read_block(rest, block, final=False)
            if len(rest) > MAX_ROW_BYTES:
                raise self._wrong_row(text.LONG_ROW, 0)
        rest = yield from self._read_block(rest, b"", final=True)
        yield from self._known_rows()
        if rest:
            self.truncated_line = self.line

    def findings(self, strict: bool) -> Diagnostics:
        notes, line = self.columns.diagnostics, self.truncated_line
        if line is None:
            return notes
        if strict:
            raise DataError(
                f"{self.place.where}, line {line}: no line end; the file was cut off: complete the row and end it with "
                "a newline, or remove it"
            )
        return notes.noting(
            "truncated_tail", f"line {line} has no line end and was dropped as cut off", steps=1, line=line
        )

    def _read_block(self, rest: bytes, block: bytes, *, final: bool) -> Generator[RowBatch, None, bytes]:
        """Give the whole rows of ``rest`` and ``block``; what is left over are the bytes of a partial row.

        Lines that came before are looked up, and given once there are many; others are read. The line that begins in
        ``rest`` is looked up in a copy that is as small as can be.
        """
        looked = 0
        if rest and self._known.useful and len(block) >= 2 * _LINE_BYTES:
            looked = yield from self._look_up(rest + block[: 2 * _LINE_BYTES], 0)
        position = looked - len(rest)
        if position < 0:
            block, position = rest[looked:] + block, 0
        if self._known.useful:
            position = yield from self._look_up(block, position)
            if self._known.useful and not final:
                return block[position:]
        yield from self._known_rows()
        if position == len(block):
            return b""
        return (yield from self._read_rows(bytearray(block[position:]), final=final))

    def _look_up(self, block: bytes, position: int) -> Generator[RowBatch, None, int]:
        """Take the lines of ``block`` from ``position`` on that are known or can be; where the others begin."""
        data = np.frombuffer(block, dtype=np.uint8)
        while self._known.useful and len(block) - position >= _LINE_BYTES:
            position = self._known.match(data, position)
            if self._known.is_full:
                yield from self._known_rows()
            elif len(block) - position >= _LINE_BYTES:
                self._learn(block[position : block.find(b"\n", position, position + _LINE_BYTES) + 1])
        return position

    def _learn(self, line: bytes) -> None:
        """Read a line, so that it is known from now on. One that is too long is given as nothing."""
        if not line:
            self._known.useful = False
            return
        data = np.frombuffer(bytearray(line), dtype=np.uint8)
        ended, position, _, rows, _, doubled = self._found(data, 0, self.line + self._known.rows, final=False)
        if ended != text.COMPLETE or rows != 1 or position != len(line) or self._bounds[0, ACTION, 0] < 0:
            self._known.useful = False  # for other lines there is another way
            return
        self._known.enter(line, self._batch(data, 1, doubled=doubled > 0, coded=False))

    def _known_rows(self) -> Iterator[RowBatch]:
        """The rows of the lines that were looked up since the last time."""
        rows = self._known.rows
        if rows:
            tokens = {c: table.tokens for c, table in self._tables.items()}
            seen = {c: table.seen for c, table in self._tables.items()}
            yield self._known.taken(np.arange(self.line, self.line + rows), tokens, seen)
            self.line += rows
            self._rows += rows

    def _read_rows(self, block: bytearray, *, final: bool) -> Generator[RowBatch, None, bytes]:
        """The same for rows that have to be read.

        Plain rows are found and looked up at once; whatever is not plain is left to a kernel that knows the format.
        """
        data = np.frombuffer(block, dtype=np.uint8)
        plain = len(block) >= text.WORD and not any(byte in block for byte in _NOT_PLAIN)
        position, ended, fields = 0, text.COMPLETE, 0
        while position < len(block) and ended == text.COMPLETE:
            rows = 0
            if plain:
                position, rows = self._scan(data, position)
                if rows:
                    self._lines[:rows] = np.arange(self.line, self.line + rows)
                    yield self._batch(data, rows, doubled=False, coded=True)
                    self.line += rows
            if rows < ROWS_PER_CALL and position < len(block):
                ended, position, line, rows, fields, doubled = self._found(
                    data, position, self.line, final=final
                )
                if rows:
                    yield self._batch(data, rows, doubled=doubled > 0, coded=False)
                self.line = line
        if ended not in (text.COMPLETE, text.PARTIAL, text.IN_QUOTE) or (final and ended == text.IN_QUOTE):
            raise self._wrong_row(ended, fields)
        return bytes(block[position:])

    def _found(
        self, data: Bytes, position: int, line: int, *, final: bool
    ) -> tuple[int, int, int, int, int, int]:
        """Find rows of any form: what `find_rows` returns."""
        found: tuple[int, int, int, int, int, int] = text.find_rows(
            data,
            position,
            line,
            final,
            self._delimiter,
            MAX_ROW_BYTES,
            self._column_of,
            self._bounds[0],
            self._bounds[1],
            self._lines,
        )
        return found

    def _scan(self, data: Bytes, position: int) -> tuple[int, int]:
        """Find plain rows and the codes of their symbols, as far as these are known."""
        with np.errstate(over="ignore"):  # where kernels are plain Python
            position, rows = text.scan_rows(
                _words(data),
                len(data),
                position,
                self._delimiter,
                MAX_ROW_BYTES,
                self._column_of,
                self._keys.coded,
                self._keys.keys,
                self._keys.slots,
                self._bounds[0],
                self._bounds[1],
                self._codes,
            )
        return position, rows

    def _batch(self, block: Bytes, rows: int, *, doubled: bool, coded: bool) -> RowBatch:
        """The rows whose cells have been found; ``coded`` if their symbols have been looked up."""
        starts, ends = self._bounds[:, :, :rows]
        lines = self._lines[:rows].copy()
        blank = None
        if not coded:
            blank = starts[ACTION] < 0
            if blank.any():
                starts, ends = np.maximum(starts, 0), np.maximum(ends, 0)
        if doubled:
            for column in self.columns.present:
                text.unquote(block, starts[column], ends[column])
        batch = RowBatch(
            lines=lines,
            symbols={
                c: self._coded(block, starts[c], ends[c], lines, c, coded)
                for c in self._tables
                if c not in _ANSWERS
            },
            tokens={c: table.tokens for c, table in self._tables.items()},
            seen={c: table.seen for c, table in self._tables.items()},
            numbers={c: _numbers(block, starts[c], ends[c]) for c in self.columns.present if c in _NUMBERS},
            answers={
                c: self._answers(block, starts[c], ends[c], lines, c) for c in self._tables if c in _ANSWERS
            },
            blank=blank,
        )
        self._rows += rows
        return batch

    def _coded(
        self, block: Bytes, starts: Bounds, ends: Bounds, lines: Ints, column: int, known: bool
    ) -> Ints:
        """The codes of symbols. Of those that are ``known`` the others are looked for only."""
        if not known or not self._keys.coded[column]:
            return self._interned(block, starts, ends, lines, column)
        codes = self._codes[column, : len(starts)].copy()
        unknown = np.flatnonzero(codes == text.UNKNOWN)
        if len(unknown):
            codes[unknown] = self._interned(block, starts[unknown], ends[unknown], lines[unknown], column)
            self._keys.learn(column, self._tables[column].tokens)
        return codes

    def _interned(self, block: Bytes, starts: Bounds, ends: Bounds, lines: Ints, column: int) -> Ints:
        """The codes of cells by the table that knows all of them; an episode may have an empty name."""
        length = ends - starts
        if length.max(initial=0) > _MAX_CELL_BYTES:
            raise DataError(
                f"{self.place(int(lines[length.argmax()]), column)}: a symbol longer than {MAX_NAME_BYTES} bytes; "
                "give it a shorter name"
            )
        if column == EPISODE:
            return self._tables[column].codes(block, starts, ends, lines)[0]
        codes, within = self._tables[column].codes(block, starts, ends, lines, MAX_SYMBOLS + 1)
        if not within:
            refuse_continuous(
                f"{self.place.where}, column {self.place.names[column]!r}",
                MAX_SYMBOLS + 1,
                self._rows + len(codes),
            )
        codes[length == 0] = NOTHING
        return codes

    def _answers(self, block: Bytes, starts: Bounds, ends: Bounds, lines: Ints, column: int) -> Answers:
        table = self._tables[column]
        codes, _ = table.codes(block, starts, ends, lines)
        meant = np.array([ANSWERS.get(token.strip().lower(), WRONG) for token in table.tokens], dtype=np.int8)
        return Answers(meant[codes], lambda row: table.tokens[int(codes[row])])

    def _wrong_row(self, ended: int, fields: int) -> DataError:
        """What is wrong with the row that begins at the current line."""
        if ended == text.RAGGED:
            wrong = (
                f"{fields} fields where the first row has {self.columns.fields}; put a cell that holds the "
                "delimiter in quotes"
            )
        else:
            wrong = _WRONG_ROWS[ended]
        return DataError(f"{self.place.where}, line {self.line}: {wrong}", line=self.line)


def _numbers(block: Bytes, starts: Bounds, ends: Bounds) -> Numbers:
    values = np.empty(len(starts))
    exact = np.empty(len(starts), dtype=np.bool_)
    text.read_decimals(block, starts, ends, values, exact)
    empty = ends == starts  # as every first observation's, so that there may be many
    values[empty] = np.nan
    left = np.flatnonzero(~exact & ~empty)
    for row in left.tolist():
        values[row] = _number(block[starts[row] : ends[row]].tobytes())
    starts, ends = starts.copy(), ends.copy()
    return Numbers(
        values,
        empty,
        lambda row: block[starts[row] : ends[row]].tobytes().decode(errors="replace"),
    )


def _number(cell: bytes) -> float:
    """A number that is too long for the kernel; not a number, if it is none or not finite."""
    value = float(cell) if len(cell) <= _MAX_CELL_BYTES and _NUMBER.fullmatch(cell) else float("nan")
    return value if abs(value) < float("inf") else float("nan")
