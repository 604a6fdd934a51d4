"""Tables in delimited text (RFC 4180), block by block: only codes and numbers are kept, never the text."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import islice
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
    EPISODE,
    MAX_ROW_BYTES,
    NUL_BYTE,
    PROBABILITY,
    REWARD,
    STEP,
    TERMINATED,
    TRUNCATED,
    Columns,
)
from unlatch.files.logs.rising import RisingNumbers
from unlatch.files.logs.rows import (
    NO,
    NOTHING,
    WRONG,
    YES,
    Answers,
    Consecutive,
    Lines,
    Numbers,
    Place,
    RowBatch,
)
from unlatch.kernels import cells, text

__all__ = ["ANSWERS", "DelimitedReader", "SymbolTable"]

Bytes = NDArray[np.uint8]
Bounds = NDArray[np.int32]
Starts = NDArray[np.uint32]
Codes = NDArray[np.int16]

ROWS_PER_CALL = 1 << 16
"""So few that the positions of their cells stay in the processor's cache."""

_MAX_CELL_BYTES = 4 * MAX_NAME_BYTES
"""Longest cell that is looked at: composing its characters (NFC) may still bring it below the limit."""

_NUMBER = re.compile(rb"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")

_NOT_PLAIN = (ord('"'), 0)
"""Bytes that the quick kernels know nothing of."""

_LINE_BYTES = text.WORD * text.LINE_WORDS
_SEAM = 4 * _LINE_BYTES
"""Bytes of a block that are looked at together with what was left of the one before: some lines."""

_LINES = 1 << 12
"""Places in the table of lines, of which half are used."""

_ENOUGH_LINES, _USES_OF_A_LINE = 64, 16
"""After so many different lines each must have come as often, or looking them up is not worth it."""

_FEW = 1 << 5
"""Symbols for which a table has room at first: a short log is read in less time than large tables are cleared in."""

_USUAL_NAME_BYTES = 1 << 4

_SLOTS = 1 << 7
"""Places in a table of short cells at first, of which half are used: so few that they stay in the processor's cache."""

_MOST_SLOTS = 1 << 15
"""As many as an alphabet may need."""

_MOST_NUMBERS = 1 << 9
"""Different cells of a column of numbers, beyond which each cell is read anew."""

_FIRST_ROWS = 1 << 8
"""Rows that are read alone, so that the tables know something before many cells are looked up."""

_CELLS_PER_CALL = 1 << 19
"""Cells that are found at once, at most: so few that their positions stay in the processor's cache."""

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


class _Texts(Sequence[str]):
    """The symbols of a table as texts, each when it is asked for: there may be many episodes."""

    def __init__(self, table: SymbolTable) -> None:
        self._table = table

    def __len__(self) -> int:
        return self._table.size

    def __getitem__(self, code):  # type: ignore[no-untyped-def]
        return self._table.cell(code).decode(errors="replace")


class _Lines(Sequence[int]):
    """The lines where the symbols of a table were first seen."""

    def __init__(self, table: SymbolTable) -> None:
        self._table = table

    def __len__(self) -> int:
        return self._table.size

    def __getitem__(self, code):  # type: ignore[no-untyped-def]
        return self._table.line(code)


class SymbolTable:
    """The distinct cells of a column, numbered as they appear, and the line where each was first seen."""

    def __init__(self) -> None:
        self._counts = np.zeros(text.COLUMNS + 2, dtype=np.int64)
        self._symbols = np.zeros((_FEW, 6), dtype=np.int64)
        self._arena = np.zeros(_USUAL_NAME_BYTES * _FEW, dtype=np.uint8)
        self._slots = np.full(4 * _FEW, -1, dtype=np.int64)

    @property
    def size(self) -> int:
        return int(self._counts[text.SYMBOLS])

    @property
    def tokens(self) -> Sequence[str]:
        return _Texts(self)

    @property
    def seen(self) -> Sequence[int]:
        return _Lines(self)

    def cell(self, code: int) -> bytes:
        """The bytes of a symbol."""
        self._check(code)
        symbol = self._symbols[code]
        return self._arena[symbol[text.START] : symbol[text.END]].tobytes()

    def line(self, code: int) -> int:
        self._check(code)
        return int(self._symbols[code, text.SEEN_ON])

    def _check(self, code: int) -> None:
        if not 0 <= code < self.size:
            raise IndexError(code)

    def codes(
        self, block: Bytes, starts: Bounds, ends: Bounds, lines: Lines, limit: int = _NO_LIMIT
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
                return codes, ended == text.COMPLETE
            self._enlarge()

    def _enlarge(self) -> None:
        self._symbols = np.concatenate([self._symbols, np.zeros_like(self._symbols)])
        self._arena = np.concatenate([self._arena, np.zeros_like(self._arena)])
        self._slots = np.full(2 * len(self._slots), -1, dtype=np.int64)
        text.place_symbols(self._slots, self._symbols, self._counts[text.SYMBOLS])


class _Keys:
    """The short cells of a column that came before, for the kernel that looks many up at once."""

    def __init__(self) -> None:
        self._keys, self._codes = _no_keys(_SLOTS)
        self._short = True
        self._learned = 0
        self._entered = 0

    def look_up(self, words: Any, starts: Starts, stride: int, field: int, rows: int) -> tuple[Codes, int]:
        """The codes of the cells of a field, and how many are not known."""
        found = np.empty(rows, dtype=np.int16)
        with np.errstate(over="ignore"):  # where kernels are plain Python
            unknown = cells.look_up_cells(
                words,
                starts,
                stride,
                field,
                rows,
                self._short,
                cells.CELL_MASKS,
                self._keys,
                self._codes,
                found,
            )
        return found, unknown

    def learn(self, table: SymbolTable) -> None:
        """Enter what is new in ``table``, as long as there is room: a full table would be slow."""
        with np.errstate(over="ignore"):  # where kernels are plain Python
            for code in range(self._learned, table.size):
                self._enter(table.cell(code), code)
        self._learned = table.size
        if 2 * self._entered > len(self._codes) and len(self._codes) < _MOST_SLOTS:
            self._keys, self._codes = _no_keys(2 * len(self._codes))
            self._learned = self._entered = 0
            self.learn(table)

    def _enter(self, cell: bytes, code: int) -> None:
        if not 0 < len(cell) <= cells.WORD * cells.KEY_WORDS or self._entered > len(self._codes) // 2:
            return
        words = np.frombuffer(cell.ljust(cells.WORD * cells.KEY_WORDS, b"\0"), dtype="<u8")
        cells.enter_cell(self._keys, self._codes, *words, code)
        self._entered += 1
        self._short &= len(cell) <= cells.WORD


def _no_keys(slots: int) -> tuple[NDArray[np.uint64], Codes]:
    codes = np.full(slots, cells.UNKNOWN, dtype=np.int16)
    codes[0] = cells.EMPTY
    return np.zeros((slots, cells.KEY_WORDS), dtype=np.uint64), codes


class _EpisodeNames:
    """The names of episodes, numbered as they appear: by their numbers, as long as these rise, then by their texts."""

    def __init__(self) -> None:
        self._numbers: RisingNumbers | None = RisingNumbers()
        self._table = SymbolTable()

    @property
    def tokens(self) -> Sequence[str]:
        return self._table.tokens if self._numbers is None else self._numbers

    @property
    def seen(self) -> Sequence[int]:
        return self._table.seen

    def codes(self, block: Bytes, starts: Bounds, ends: Bounds, lines: Lines) -> Ints:
        if self._numbers is not None:
            numbers = np.empty(len(starts), dtype=np.int64)
            if cells.read_whole_numbers(block, starts, ends, numbers) == len(starts):
                codes = self._numbers.codes(numbers)
                if codes is not None:
                    return codes
            self._spell()
        return self._table.codes(block, starts, ends, lines)[0]

    def _spell(self) -> None:
        """From now on by texts: enter what came before, in its order."""
        before, self._numbers = self._numbers, None
        names = iter(before or ())
        while some := list(islice(names, ROWS_PER_CALL)):
            bounds = np.cumsum([0, *map(len, some)]).astype(np.int32)
            block = np.frombuffer(bytearray("".join(some).encode()), dtype=np.uint8)
            self._table.codes(block, bounds[:-1], bounds[1:], np.zeros(len(some), dtype=np.int64))


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
        self._found = np.empty(ROWS_PER_CALL, dtype=np.int16)
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

    def match(self, block: bytes, position: int) -> int:
        """Look up lines from ``position`` on, as far as they are known; where the next begins."""
        with np.errstate(over="ignore"):  # where kernels are plain Python
            position, rows = text.match_lines(
                _words(np.frombuffer(block, dtype=np.uint8)),
                len(block),
                position,
                text.LINE_MASKS,
                self._keys,
                self._found,
                self.rows,
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
        self, lines: Lines, tokens: Mapping[int, Sequence[str]], seen: Mapping[int, Sequence[int]]
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


def _words(data: Bytes) -> Any:
    """The eight bytes from every position on as one number, the first the lowest."""
    return np.ndarray(shape=(len(data) - cells.WORD + 1,), dtype=np.dtype("<u8"), buffer=data, strides=(1,))


class DelimitedReader:
    """The rows of a delimited text that comes in blocks. A `RowSource`.

    ``line`` is that of the next row. A last row without a line end is dropped and its line remembered, as
    ``truncated_line``.
    """

    def __init__(
        self, columns: Columns, delimiter: str, line: int, where: str, blocks: Iterable[bytes]
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
        self._bounds: Bounds = np.zeros((2, len(columns.wanted), 0), dtype=np.int32)
        self._lines: Ints = np.zeros(0, dtype=np.int64)
        self._starts: Starts = np.zeros(0, dtype=np.uint32)
        self._changes: Bounds = np.zeros((3, 0), dtype=np.int32)
        self._buffer = np.zeros(0, dtype=np.uint8)
        self._flags = np.zeros(cells.TILE, dtype=np.uint8)
        self._episodes = _EpisodeNames()
        self._tables = {column: SymbolTable() for column in columns.present if column != EPISODE}
        self._keys = {column: _Keys() for column in self._tables}
        self._known_lines = _KnownLines(useful=not {EPISODE, STEP} & set(columns.present))
        self._read = {column: _ReadNumbers() for column in columns.present if column in _NUMBERS}
        self._rows = 0

    def batches(self) -> Iterator[RowBatch]:
        """Read to the end."""
        rest = b""
        for block in self._blocks:
            rest = yield from self._read_block(rest, block, final=False)
            if len(rest) > MAX_ROW_BYTES:
                raise self._wrong_row(text.LONG_ROW, 0)
        rest = yield from self._read_block(rest, b"", final=True)
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

        Lines that came before are looked up, and given once there are many; others are read.
        """
        position = 0
        if self._known_lines.useful:
            position = yield from self._look_up(rest, block)
            if self._known_lines.useful and not final:
                return (rest[position:] + block) if position < len(rest) else block[position - len(rest) :]
        yield from self._rows_of_known_lines()
        data, size = self._copied(rest, block), len(rest) + len(block)
        plain = not any(byte in rest or byte in block for byte in _NOT_PLAIN)
        crlf = (rest[-1:] + block[: block.find(b"\n") + 1]).endswith(b"\r\n")
        return (yield from self._read_rows(data, position, size, plain=plain, crlf=crlf, final=final))

    def _look_up(self, rest: bytes, block: bytes) -> Generator[RowBatch, None, int]:
        """Take the lines of both that are known or can be; where in them the others begin. A block is looked at where
        it is: only its first lines are copied, behind the rest."""
        seam = rest + block[:_SEAM]
        position = yield from self._look_up_lines(seam, 0)
        if self._known_lines.useful and position >= len(rest) and len(block) > _SEAM:
            position = len(rest) + (yield from self._look_up_lines(block, position - len(rest)))
        return position

    def _look_up_lines(self, block: bytes, position: int) -> Generator[RowBatch, None, int]:
        """The same from ``position`` on; fewer bytes than a line may have are left."""
        while self._known_lines.useful and len(block) - position >= _LINE_BYTES:
            position = self._known_lines.match(block, position)
            if self._known_lines.is_full:
                yield from self._rows_of_known_lines()
            elif len(block) - position >= _LINE_BYTES:
                line = block[position : position + _LINE_BYTES]
                self._learn(line[: line.find(b"\n") + 1])
        return position

    def _learn(self, line: bytes) -> None:
        """Read a line, so that it is known from now on. One that is too long is given as nothing."""
        if not line:
            self._known_lines.useful = False
            return
        data = np.frombuffer(bytearray(line), dtype=np.uint8)
        ended, position, _, rows, _, doubled = self._found(
            data, 0, self.line + self._known_lines.rows, final=False
        )
        if ended != text.COMPLETE or rows != 1 or position != len(line) or self._bounds[0, ACTION, 0] < 0:
            self._known_lines.useful = False  # for other lines there is another way
            return
        self._known_lines.enter(line, self._batch(data, 1, doubled=doubled > 0))
        self._rows -= 1  # it is counted when it is looked up

    def _rows_of_known_lines(self) -> Iterator[RowBatch]:
        """The rows of the lines that were looked up since the last time."""
        rows = self._known_lines.rows
        if rows:
            tokens = {c: table.tokens for c, table in self._tables.items()}
            seen = {c: table.seen for c, table in self._tables.items()}
            yield self._known_lines.taken(Consecutive(self.line, rows), tokens, seen)
            self.line += rows
            self._rows += rows

    def _read_rows(
        self, data: Bytes, position: int, size: int, *, plain: bool, crlf: bool, final: bool
    ) -> Generator[RowBatch, None, bytes]:
        """The same for rows that have to be read, from ``position`` up to ``size``.

        ``plain`` ones are found and looked up by the quick kernels, with line ends of two bytes if ``crlf``; whatever
        is not of that form is left to one that knows the format.
        """
        ended, fields = text.COMPLETE, 0
        while position < size and ended == text.COMPLETE:
            if plain:
                rows = self._found_plain(data, position, size, crlf)
                if rows:
                    stride = self.columns.fields + crlf
                    yield self._plain_batch(data, rows, stride)
                    position = int(self._starts[rows * stride])
                    self.line += rows
                    continue
            ended, position, line, rows, fields, doubled = self._found(
                data[:size], position, self.line, final=final
            )
            if rows:
                yield self._batch(data, rows, doubled=doubled > 0)
            self.line = line
        if ended not in (text.COMPLETE, text.PARTIAL, text.IN_QUOTE) or (final and ended == text.IN_QUOTE):
            raise self._wrong_row(ended, fields)
        return data[position:size].tobytes()

    def _found(
        self, data: Bytes, position: int, line: int, *, final: bool
    ) -> tuple[int, int, int, int, int, int]:
        """Find rows of any form: what `find_rows` returns."""
        most = min(ROWS_PER_CALL, len(data))  # a row has a byte at least
        if len(self._lines) < most:
            self._bounds = np.zeros((2, len(self.columns.wanted), most), dtype=np.int32)
            self._lines = np.zeros(most, dtype=np.int64)
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

    def _copied(self, rest: bytes, block: bytes) -> Bytes:
        """Both, one after the other, and as many bytes more as the kernels want: in one place for all blocks, which is
        in the processor's cache."""
        size = len(rest) + len(block) + cells.PADDING
        if len(self._buffer) < size:
            self._buffer = np.zeros(2 * size, dtype=np.uint8)
        view = memoryview(self._buffer)  # type: ignore[arg-type]
        view[: len(rest)] = rest
        view[len(rest) : len(rest) + len(block)] = block
        return self._buffer

    def _found_plain(self, data: Bytes, position: int, size: int, crlf: bool) -> int:
        """Find the cells of plain rows, as many as there is room for; how many rows. The first few come alone: what
        they hold is known when the others are looked up."""
        fields = self.columns.fields
        most = min(ROWS_PER_CALL if self._rows else _FIRST_ROWS, ROWS_PER_CALL, _CELLS_PER_CALL // fields + 1)
        most = min(most, (size - position) // fields + 1)  # a cell has the byte at least that ends it
        if self._changes.shape[1] < most + 1:
            self._starts = np.zeros(most * (fields + 1) + 1 + cells.SLACK, dtype=np.uint32)
            self._changes = np.zeros((3, most + 1), dtype=np.int32)
        with np.errstate(over="ignore"):  # where kernels are plain Python
            found, line_ends = cells.find_cells(
                data, position, size, self._delimiter, self._flags, self._flags.view(np.uint64), self._starts
            )
        rows = cells.count_rows(
            data,
            self._starts,
            found,
            line_ends,
            fields,
            int(crlf),
            self._delimiter,
            MAX_ROW_BYTES,
        )
        return min(int(rows), most)

    def _plain_batch(self, data: Bytes, rows: int, stride: int) -> RowBatch:
        """The rows whose cells have been found by the quick kernels."""
        lines = Consecutive(self.line, rows)
        words = _words(data)
        symbols: dict[int, Any] = {}
        numbers: dict[int, Numbers] = {}
        answers: dict[int, Answers] = {}
        for column in self.columns.present:
            field = self.columns.wanted[column]
            if column == EPISODE:
                symbols[column] = self._runs(data, words, lines, stride, field)
            elif column in _NUMBERS and self._read[column].are_many:
                numbers[column] = _numbers(data, *self._bounds_of(stride, field, rows))
            else:
                codes = self._known(data, words, lines, stride, column)
                if codes is None:
                    numbers[column] = _numbers(data, *self._bounds_of(stride, field, rows))
                elif column in _NUMBERS:
                    numbers[column] = self._read[column].of(codes)
                elif column in _ANSWERS:
                    answers[column] = self._answered(codes, column)
                else:
                    symbols[column] = codes
        self._rows += rows
        return self._with_tokens(lines, symbols, numbers, answers, None)

    def _bounds_of(self, stride: int, field: int, rows: int) -> tuple[Bounds, Bounds]:
        """Where the cells of a field begin and end."""
        first = self._starts[field : field + stride * (rows - 1) + 1 : stride].astype(np.int32)
        following = self._starts[field + 1 : field + stride * (rows - 1) + 2 : stride].astype(np.int32)
        return first, following - np.int32(1)

    def _known(self, data: Bytes, words: Any, lines: Lines, stride: int, column: int) -> Codes | None:
        """The codes of the cells of a column; only those that did not come before are looked at one by one. None if it
        is one of numbers and they turn out to be too many for that."""
        field, keys = self.columns.wanted[column], self._keys[column]
        codes, unknown = keys.look_up(words, self._starts, stride, field, len(lines))
        if unknown:
            places = np.flatnonzero(codes == cells.UNKNOWN)
            starts, ends = self._bounds_of(stride, field, len(lines))
            if column in _NUMBERS:
                found = self._read[column].codes(data, starts[places], ends[places], self._tables[column])
                if found is None:
                    return None
            elif column in _ANSWERS:
                found, _ = self._tables[column].codes(data, starts[places], ends[places], lines[places])
                found = np.minimum(
                    found, np.iinfo(np.int16).max
                )  # so many are refused at once, the first by its text
            else:
                found = self._interned(
                    data, starts[places], ends[places], lines[places], column, rows=len(lines)
                )
            codes[places] = found
            keys.learn(self._tables[column])
        return codes

    def _runs(self, data: Bytes, words: Any, lines: Lines, stride: int, field: int) -> Ints:
        """The codes of episodes, looked for where the cell is another than in the row before."""
        rows = len(lines)
        with np.errstate(over="ignore"):
            found = cells.find_changes(data, words, self._starts, stride, field, rows, self._changes)
        places, starts, ends = self._changes[:, :found]
        codes = self._named(data, starts, ends, lines[places])
        result = np.empty(rows, dtype=np.int64)
        cells.spread_runs(places, codes, result)
        return result

    def _batch(self, block: Bytes, rows: int, *, doubled: bool) -> RowBatch:
        """The rows whose cells have been found by the kernel that knows the format."""
        starts, ends = self._bounds[:, :, :rows]
        lines = self._lines[:rows].copy()
        blank = starts[ACTION] < 0
        if blank.any():
            starts, ends = np.maximum(starts, 0), np.maximum(ends, 0)
        if doubled:
            for column in self.columns.present:
                text.unquote(block, starts[column], ends[column])
        symbols: dict[int, Any] = {}
        numbers: dict[int, Numbers] = {}
        answers: dict[int, Answers] = {}
        for column in self.columns.present:
            given = block, starts[column], ends[column]
            if column == EPISODE:
                symbols[column] = self._named(*given, lines)
            elif column in _NUMBERS:
                numbers[column] = _numbers(*given)
            elif column in _ANSWERS:
                codes, _ = self._tables[column].codes(*given, lines)
                answers[column] = self._answered(codes, column)
            else:
                symbols[column] = self._interned(*given, lines, column, rows=rows)
        self._rows += rows
        return self._with_tokens(lines, symbols, numbers, answers, blank)

    def _with_tokens(
        self,
        lines: Lines,
        symbols: dict[int, Any],
        numbers: dict[int, Numbers],
        answers: dict[int, Answers],
        blank: Flags | None,
    ) -> RowBatch:
        tables = {c: self._episodes if c == EPISODE else self._tables[c] for c in symbols}
        return RowBatch(
            lines=lines,
            symbols=symbols,
            tokens={c: table.tokens for c, table in tables.items()},
            seen={c: table.seen for c, table in tables.items()},
            numbers=numbers,
            answers=answers,
            blank=blank,
        )

    def _named(self, block: Bytes, starts: Bounds, ends: Bounds, lines: Lines) -> Ints:
        """The codes of episodes, of which one may have an empty name."""
        self._refuse_long(starts, ends, lines, EPISODE)
        return self._episodes.codes(block, starts, ends, lines)

    def _interned(
        self, block: Bytes, starts: Bounds, ends: Bounds, lines: Lines, column: int, *, rows: int
    ) -> Ints:
        """The codes of cells, all or some of those of so many rows, by the table that knows every one."""
        self._refuse_long(starts, ends, lines, column)
        codes, within = self._tables[column].codes(block, starts, ends, lines, MAX_SYMBOLS + 1)
        if not within:
            refuse_continuous(
                f"{self.place.where}, column {self.place.names[column]!r}",
                MAX_SYMBOLS + 1,
                self._rows + rows,
            )
        codes[ends == starts] = NOTHING
        return codes

    def _refuse_long(self, starts: Bounds, ends: Bounds, lines: Lines, column: int) -> None:
        length = ends - starts
        if length.max(initial=0) > _MAX_CELL_BYTES:
            raise DataError(
                f"{self.place(int(lines[length.argmax()]), column)}: a symbol longer than {MAX_NAME_BYTES} bytes; "
                "give it a shorter name"
            )

    def _answered(self, codes: Any, column: int) -> Answers:
        """What the cells of a column of endings say; an empty one has a code of its own, or -1."""
        tokens = self._tables[column].tokens
        meant = np.array(
            [*(ANSWERS.get(token.strip().lower(), WRONG) for token in tokens), NOTHING], dtype=np.int8
        )
        return Answers(
            _looked_up(meant, codes), lambda row: tokens[code] if (code := int(codes[row])) >= 0 else ""
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
        return DataError(f"{self.place.where}, line {self.line}: {wrong}", line=self.line)


class _ReadNumbers:
    """What the cells of a column of numbers hold, as long as there are few different ones: each is read once."""

    def __init__(self) -> None:
        self.are_many = False
        self._values: list[float] = []
        self._texts: list[str] = []

    def codes(self, block: Bytes, starts: Bounds, ends: Bounds, table: SymbolTable) -> Ints | None:
        """The codes of cells that are not known yet; None if there are too many, from now on."""
        lines = np.zeros(len(starts), dtype=np.int64)
        short = (ends - starts).max(initial=0) <= cells.WORD * cells.KEY_WORDS  # longer ones are never known
        codes, within = table.codes(block, starts, ends, lines, _MOST_NUMBERS) if short else (lines, False)
        if not within:
            self.are_many = True
            return None
        for code in range(len(self._values), table.size):
            cell = table.cell(code)
            self._values.append(_number(cell))
            self._texts.append(cell.decode(errors="replace"))
        return codes

    def of(self, codes: Codes) -> Numbers:
        """The numbers behind codes; -1 is an empty cell."""
        values = _looked_up(np.array([*self._values, np.nan]), codes)
        texts = self._texts
        return Numbers(values, codes < 0, lambda row: texts[code] if (code := int(codes[row])) >= 0 else "")


def _looked_up(table: NDArray[Any], codes: Any) -> NDArray[Any]:
    """The entries of a table, the last for -1."""
    found = np.empty(len(codes), dtype=table.dtype)
    text.look_up(table, codes, found)
    return found


def _numbers(block: Bytes, starts: Bounds, ends: Bounds) -> Numbers:
    values = np.empty(len(starts))
    exact = np.empty(len(starts), dtype=np.bool_)
    text.read_decimals(block, starts, ends, values, exact)
    empty = ends == starts  # as every first observation's, so that there may be many
    values[empty] = np.nan
    texts = {}
    for row in np.flatnonzero(~exact & ~empty).tolist():
        cell = block[starts[row] : ends[row]].tobytes()
        values[row] = _number(cell)
        if np.isnan(values[row]):
            texts[row] = cell.decode(errors="replace")
    return Numbers(values, empty, lambda row: texts.get(row, ""))


def _number(cell: bytes) -> float:
    """A number that is too long for the kernel; not a number, if it is none or not finite."""
    value = float(cell) if len(cell) <= _MAX_CELL_BYTES and _NUMBER.fullmatch(cell) else float("nan")
    return value if abs(value) < float("inf") else float("nan")
