"""Every kernel of delimited text equals its Python source and a slow readable twin."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from unlatch.kernels import text, vectors

LONGEST = 40
TEXTS = st.lists(st.sampled_from('a0b",,;\n\r '), max_size=40).map("".join)


def python(kernel: Any) -> Any:
    """The function that a kernel was compiled from."""
    return getattr(kernel, "py_func", kernel)


def as_bytes(data: bytes) -> np.ndarray:
    return np.frombuffer(bytearray(data), dtype=np.uint8)


def found(kernel: Any, data: bytes, *, fields: int, final: bool, room: int = 64) -> tuple[Any, ...]:
    """What the kernel says, with all fields wanted: rows as bounds, lines, and how it ended."""
    starts, ends = np.full((2, 4, room), -7, dtype=np.int32)
    lines = np.zeros(room, dtype=np.int64)
    ended, position, line, rows, count, doubled = kernel(
        as_bytes(data), 0, 1, final, ord(","), LONGEST, np.arange(fields), starts, ends, lines
    )
    bounds = [[(int(starts[f, r]), int(ends[f, r])) for f in range(fields)] for r in range(rows)]
    return int(ended), int(position), int(line), bounds, lines[:rows].tolist(), int(count), int(doubled) > 0


def naive_row(data: bytes, start: int, final: bool) -> tuple[int, list[tuple[int, int]], int]:
    """How the row at ``start`` ended, the bounds of its fields, and where the next one begins."""
    bounds: list[tuple[int, int]] = []
    i = start
    while True:
        quoted = re.compile(rb'"((?:[^"\0]|"")*+)(")?').match(data, i)
        if quoted and not quoted[2]:
            return (text.NUL if quoted.end(1) < len(data) else text.IN_QUOTE), bounds, start
        plain = re.compile(rb"[^,\r\n\0]*").match(data, i)
        assert plain is not None
        bounds.append(quoted.span(1) if quoted else plain.span())
        i = quoted.end() if quoted else plain.end()
        ending = re.compile(rb",|\r\n|\r|\n").match(data, i)
        if i == len(data) or (ending and ending[0] == b"\r" and ending.end() == len(data) and not final):
            return text.PARTIAL, bounds, start
        if not ending:
            return (text.NUL if data[i] == 0 else text.AFTER_QUOTE), bounds, start
        i = ending.end()
        if ending[0] != b",":
            return text.COMPLETE, bounds, i


def naive_rows(data: bytes, fields: int, final: bool, room: int) -> tuple[Any, ...]:
    rows: list[list[tuple[int, int]]] = []
    lines = []
    position, line, ended, count = 0, 1, text.COMPLETE, 0
    while position < len(data) and len(rows) < room:
        ended, bounds, following = naive_row(data, position, final)
        count = len(bounds)
        blank = len(bounds) == 1 and bounds[0][1] == position
        if ended == text.COMPLETE and following - position > LONGEST:
            ended = text.LONG_ROW
        elif ended == text.COMPLETE and not blank and len(bounds) != fields:
            ended = text.RAGGED
        if ended != text.COMPLETE:
            break
        rows.append([(-1, -1)] * fields if blank else bounds)
        lines.append(line)
        line += len(re.findall(rb"\r\n|\r|\n", data[position:following]))
        position = following
    return ended, position, line, rows, lines, count


@given(data=TEXTS, fields=st.integers(1, 3), final=st.booleans(), room=st.sampled_from([1, 2, 64]))
@example(data='"a\nb",c\r\n\r\n"","x""y"\r', fields=2, final=True, room=64)
@example(data='"a\nb",c\r\n\r\n"","x""y"\r', fields=2, final=False, room=64)
@example(data='a,b\n"a"b,c\n', fields=2, final=True, room=64)
@example(data="a," + "b" * 60 + "\n", fields=2, final=True, room=64)
@settings(max_examples=400, deadline=None)
def test_rows_equal_their_twin(data: str, fields: int, final: bool, room: int) -> None:
    raw = data.encode()
    expected = naive_rows(raw, fields, final, room)
    got = found(text.find_rows, raw, fields=fields, final=final, room=room)
    assert got[:5] == expected[:5]
    if got[0] == text.RAGGED:
        assert got[5] == expected[5]
    assert found(python(text.find_rows), raw, fields=fields, final=final, room=room) == got


@pytest.mark.parametrize("data", ["a,b\na,\0\n", 'a,b\n"\0",c\n', 'a,b\n"c"\0,d\n'])
def test_nul_byte_ends_the_rows(data: str) -> None:
    for kernel in (text.find_rows, python(text.find_rows)):
        ended, position, line, rows, *_ = found(kernel, data.encode(), fields=2, final=True)
        assert (ended, position, line, len(rows)) == (text.NUL, 4, 2, 1)


@given(data=TEXTS)
@settings(max_examples=300, deadline=None)
def test_cells_equal_those_of_the_csv_module(data: str) -> None:
    """An independent twin: wherever both take the text for a table, they read the same cells."""
    raw = (data + "\n").encode()
    try:
        rows = [row for row in csv.reader(io.StringIO(data + "\n", newline=""), strict=True) if row]
    except csv.Error:
        return
    fields = len(rows[0]) if rows else 1
    if fields <= 4:
        ended, _, _, bounds, *_ = found(text.find_rows, raw, fields=fields, final=True)
        if ended == text.COMPLETE:
            assert unquoted(text.unquote, raw, bounds) == unquoted(python(text.unquote), raw, bounds) == rows
        else:
            assert ended in (text.RAGGED, text.LONG_ROW)


def unquoted(kernel: Callable[..., None], raw: bytes, bounds: list[list[tuple[int, int]]]) -> list[list[str]]:
    data = as_bytes(raw)
    result = []
    for row in bounds:
        if row[0][0] >= 0:
            starts, ends = np.array(row, dtype=np.int32).T.copy()
            kernel(data, starts, ends)
            result.append([data[a:b].tobytes().decode() for a, b in zip(starts, ends, strict=True)])
    return result


CELLS = st.lists(st.sampled_from(["", "a", "b", "ab", "ba", "abc", "a" * 9, "é", "01", "1"]), max_size=30)


class Table:
    """A symbol table that begins so small that it must grow and its probes collide."""

    def __init__(self) -> None:
        self.slots = np.full(2, -1, dtype=np.int64)
        self.symbols = np.zeros((1, 6), dtype=np.int64)
        self.arena = np.zeros(1, dtype=np.uint8)
        self.counts = np.zeros(text.COLUMNS + 2, dtype=np.int64)

    def grow(self, place: Callable[..., None]) -> None:
        self.slots = np.full(2 * len(self.slots), -1, dtype=np.int64)
        self.symbols = np.concatenate([self.symbols, np.zeros_like(self.symbols)])
        self.arena = np.concatenate([self.arena, np.zeros_like(self.arena)])
        place(self.slots, self.symbols, self.counts[text.SYMBOLS])


def interned(intern: Any, place: Any, columns: list[list[str]], limit: int = 99) -> tuple[Any, ...]:
    table = Table()
    result = []
    for column, cells in enumerate(columns):
        encoded = [cell.encode() for cell in cells]
        bounds = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
        codes = np.full(len(cells), -1, dtype=np.int64)
        ended, done = text.FULL, 0
        while ended == text.FULL:
            ended, done = intern(
                as_bytes(b"".join(encoded)),
                bounds[:-1],
                bounds[1:],
                np.arange(len(cells)) + 10,
                column,
                done,
                limit,
                table.slots,
                table.symbols,
                table.arena,
                table.counts,
                codes,
            )
            if ended == text.FULL:
                table.grow(place)
        result.append((int(ended), int(done), codes.tolist()))
    known = table.symbols[: table.counts[text.SYMBOLS]]
    names = [
        (
            int(row[text.COLUMN]),
            table.arena[row[text.START] : row[text.END]].tobytes().decode(),
            int(row[text.SEEN_ON]),
        )
        for row in known
    ]
    return result, names


def naive_interned(columns: list[list[str]], limit: int) -> tuple[Any, ...]:
    result, names = [], []
    for column, cells in enumerate(columns):
        known: dict[str, int] = {}
        codes = [-1] * len(cells)
        ended, done = text.COMPLETE, len(cells)
        for i, cell in enumerate(cells):
            if cell not in known:
                if len(known) == limit:
                    ended, done = text.MANY, i
                    break
                known[cell] = len(known)
                names.append((column, cell, i + 10))
            codes[i] = known[cell]
        result.append((ended, done, codes))
    return result, names


@given(columns=st.lists(CELLS, min_size=1, max_size=4), limit=st.sampled_from([0, 1, 3, 99]))
@settings(max_examples=150, deadline=None)
def test_codes_equal_those_of_a_dict(columns: list[list[str]], limit: int) -> None:
    expected = naive_interned(columns, limit)
    assert interned(text.intern_cells, text.place_symbols, columns, limit) == expected
    assert interned(python(text.intern_cells), python(text.place_symbols), columns, limit) == expected


def test_many_symbols_keep_apart() -> None:
    cells = [f"{i:05d}" for i in range(20_000)]
    result, names = interned(text.intern_cells, text.place_symbols, [cells + cells], limit=20_000)
    ended, done, codes = result[0]
    assert (ended, done) == (text.COMPLETE, 40_000)
    assert codes == [*range(20_000), *range(20_000)]
    assert [name for _, name, _ in names] == cells


def decimals(kernel: Any, cells: list[str]) -> list[float | None]:
    encoded = [cell.encode() for cell in cells]
    bounds = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    values, exact = np.zeros(len(cells)), np.zeros(len(cells), dtype=np.bool_)
    kernel(as_bytes(b"".join(encoded)), bounds[:-1], bounds[1:], values, exact)
    return [value if good else None for value, good in zip(values.tolist(), exact.tolist(), strict=True)]


NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(-(10**9), 10**9, places=3).map(str),
    st.integers(-(2**62), 2**62).map(str),
    st.lists(st.sampled_from("0123456789+-.eE"), min_size=1, max_size=8).map("".join),
)
GRAMMAR = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


@given(cells=st.lists(NUMBERS, max_size=20))
@settings(max_examples=300, deadline=None)
def test_decimals_are_right_or_left_alone(cells: list[str]) -> None:
    got = decimals(text.read_decimals, cells)
    for cell, value in zip(cells, got, strict=True):
        if value is not None:
            assert GRAMMAR.fullmatch(cell)
            assert repr(value) == repr(float(cell))
    assert repr(decimals(python(text.read_decimals), cells)) == repr(got)


def test_short_decimals_are_read_by_the_kernel() -> None:
    parts = itertools.product(
        ["", "-", "+"], ["0", "1", "10", ".5", "1.", "0.25", "123456.789"], ["", "e3", "E-2", "e+1"]
    )
    cells = ["".join(part) for part in parts]
    assert decimals(text.read_decimals, cells) == [float(cell) for cell in cells]


@pytest.mark.parametrize("digits", ["1", "3", str(2**53), str(2**53 + 1), "1" * 30])
def test_decimals_at_the_edge_of_what_is_exact(digits: str) -> None:
    """2^53 and 10^22 are the last that a float holds exactly: beyond them, the kernel must not try."""
    cells = [f"{digits}e{power}" for power in range(-30, 31)]
    for kernel in (text.read_decimals, python(text.read_decimals)):
        for power, cell, value in zip(range(-30, 31), cells, decimals(kernel, cells), strict=True):
            assert value == (float(cell) if abs(power) <= 22 and int(digits) <= 2**53 else None)


@pytest.mark.parametrize(
    "cell", ["", "-", ".", "e", "1e", "1e+", "1.2.3", "nan", "inf", "0x1", "1_0", " 1", "1 ", "--1"]
)
def test_what_is_no_number_is_left_alone(cell: str) -> None:
    assert decimals(text.read_decimals, [cell, "7"]) == [None, 7.0]
    assert decimals(python(text.read_decimals), [cell, "7"]) == [None, 7.0]


@given(
    texts=st.lists(st.binary(max_size=5), min_size=1, max_size=5),
    shape=st.tuples(st.integers(0, 6), st.integers(1, 4)),
    seed=st.integers(0, 9),
)
@settings(max_examples=100, deadline=None)
def test_joined_cells_equal_their_twin(texts: list[bytes], shape: tuple[int, int], seed: int) -> None:
    cells = np.random.default_rng(seed).integers(0, len(texts), shape)
    expected = b"".join(texts[c] for c in cells.ravel())
    for kernel in (text.join_cells, python(text.join_cells)):
        out = np.zeros(len(expected), dtype=np.uint8)
        kernel(cells, as_bytes(b"".join(texts)), np.cumsum([0, *map(len, texts)]), out)
        assert out.tobytes() == expected


# ---------------------------------------------------------------- whole lines

LINES = [b"a,b\n", b"left,wall\n", b"left,wall " + b"x" * 21 + b"\n", b"right,\n", b"a,b\r\n"]
PIECES = [
    *LINES,
    b"\n",
    b"a,b",
    b"a,b\0\n",
    b"left,walk\n",
    b"x" * 31 + b"\n",
    b"y" * 32 + b"\n",
    b"a" * 70,
    "é,ü\n".encode(),
]


def matched(
    kernel: Any, enter: Any, data: bytes, position: int, room: int, begin: int
) -> tuple[int, list[int]]:
    keys, found = np.zeros((16, text.LINE_WORDS), dtype=np.uint64), np.full(room, -7, dtype=np.int16)
    words = np.ndarray(shape=(max(len(data) - 7, 0),), dtype="<u8", buffer=bytearray(data), strides=(1,))
    with np.errstate(over="ignore"):
        number = {
            int(enter(keys, *np.frombuffer(line.ljust(32, b"\0"), dtype="<u8"))): i
            for i, line in enumerate(LINES)
        }
        at, rows = kernel(words, len(data), position, text.LINE_MASKS, keys, found, begin)
    assert found[:begin].tolist() == [-7] * begin
    return int(at), [number[slot] for slot in found[begin:rows].tolist()]


def naive_match(data: bytes, position: int, room: int) -> tuple[int, list[int]]:
    found: list[int] = []
    while len(found) < room and position + 32 <= len(data):
        line = data[position : data.find(b"\n", position) + 1]
        if line not in LINES:
            break
        found.append(LINES.index(line))
        position += len(line)
    return position, found


@given(
    lines=st.lists(st.sampled_from(PIECES), max_size=40),
    position=st.sampled_from([0, 4]),
    begin=st.sampled_from([0, 3]),
    room=st.sampled_from([5, 64]),
)
@example(lines=[*LINES, *LINES, *LINES], position=0, begin=0, room=64)
@example(lines=[*LINES, b"a,b\0\n", *LINES, *LINES], position=4, begin=3, room=64)
@settings(max_examples=300, deadline=None)
def test_known_lines_equal_their_twin(lines: list[bytes], position: int, begin: int, room: int) -> None:
    data = b"a,b\n" + b"".join(lines)
    expected = naive_match(data, position, room - begin)
    assert matched(text.match_lines, text.enter_line, data, position, room, begin) == expected
    with mock.patch.object(text, "bytes_before_line_end", vectors.plain_bytes_before_line_end):
        plain = python(text.match_lines), python(text.enter_line)
        assert matched(*plain, data, position, room, begin) == expected


def test_codes_are_looked_up() -> None:
    table, codes = np.array([5, -1, 7], dtype=np.int32), np.array([0, 2, 1, 1, 0])
    for kernel in (text.look_up, python(text.look_up)):
        out = np.zeros(5, dtype=np.int16)
        assert kernel(table, codes, out) == 2
        assert out.tolist() == [5, 7, -1, -1, 5]
