"""Every kernel of plain cells equals its Python source and a slow readable twin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from unlatch.kernels import cells

LONGEST = 40
SYMBOLS = [b"a", b"bc", b"x" * 8, b"x" * 9, b"y" * 17, b"z" * 24]
PIECES = [
    b"a",
    b"bc",
    b",",
    b",",
    b",",
    b"\n",
    b"\n",
    b"\r",
    b"\r\n",
    b"x" * 8,
    b"x" * 9,
    b"y" * 17,
    b"z" * 30,
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=60).map(b"".join)

Kernels = Callable[[Any], Any]


def compiled(kernel: Any) -> Any:
    """A kernel as it is called; where it is plain Python, sums that wrap around are no fault."""

    def call(*arguments: Any) -> Any:
        with np.errstate(over="ignore"):
            return kernel(*arguments)

    return call


def plain(kernel: Any) -> Any:
    """The function that a kernel was compiled from, without complaints about sums that wrap around."""
    function = getattr(kernel, "py_func", kernel)

    def call(*arguments: Any) -> Any:
        zeros = mock.patch.object(
            cells, "trailing_zeros", lambda word: (int(word) & -int(word)).bit_length() - 1 if word else 64
        )
        with zeros, np.errstate(over="ignore"):
            return function(*arguments)

    return call


def padded(data: bytes) -> np.ndarray:
    return np.frombuffer(bytearray(data + bytes(cells.PADDING)), dtype=np.uint8)


def words_of(data: np.ndarray) -> Any:
    return np.ndarray(shape=(len(data) - 7,), dtype="<u8", buffer=data, strides=(1,))


def found(version: Kernels, data: bytes, position: int, room: int, tile: int = 64) -> tuple[list[int], int]:
    flags = np.full(tile, 9, dtype=np.uint8)
    starts = np.zeros(room + 1 + cells.SLACK, dtype=np.uint32)
    count, ends = version(cells.find_cells)(
        padded(data), position, len(data), ord(","), flags, flags.view(np.uint64), starts
    )
    return starts[: count + 1].tolist(), int(ends)


def naive_cells(data: bytes, position: int) -> list[int]:
    return [position, *(i + 1 for i in range(position, len(data)) if data[i : i + 1] in (b",", b"\n", b"\r"))]


@pytest.mark.parametrize("version", [compiled, plain])
@given(data=TEXTS, position=st.sampled_from([0, 3]), tile=st.sampled_from([64, 128]))
@example(data=b",\n" * 100, position=0, tile=64)
@example(data=b"", position=0, tile=64)
@settings(max_examples=60, deadline=None)
def test_cells_begin_after_delimiters_and_line_ends(
    version: Kernels, data: bytes, position: int, tile: int
) -> None:
    position = min(position, len(data))
    starts, ends = found(version, data, position, 4096, tile)
    assert starts == naive_cells(data, position)
    assert ends == data[position:].count(b"\n") + data[position:].count(b"\r")


@pytest.mark.parametrize("version", [compiled, plain])
def test_cells_are_found_as_far_as_there_is_room(version: Kernels) -> None:
    data = b"a,b\n" * 200
    starts, _ = found(version, data, 0, 10)
    assert starts == naive_cells(data, 0)[: len(starts)]
    assert 10 <= len(starts) <= 10 + cells.SLACK


def counted(version: Kernels, data: bytes, fields: int, crlf: bool) -> int:
    starts, ends = found(compiled, data, 0, 4096)
    array = np.array([*starts, 0, 0], dtype=np.uint32)
    return int(
        version(cells.count_rows)(
            padded(data), array, len(starts) - 1, ends, fields, int(crlf), ord(","), LONGEST
        )
    )


def naive_count(data: bytes, fields: int, crlf: bool) -> int:
    """Line by line, until one is not of the form; a CR elsewhere is a line end too."""
    end, rows, position = (b"\r\n" if crlf else b"\n"), 0, 0
    while (stop := data.find(end, position)) >= 0:
        line = data[position:stop]
        if line.count(b",") != fields - 1 or b"\n" in line or b"\r" in line or not line:
            break
        if stop + len(end) - position > LONGEST:
            break
        rows += 1
        position = stop + len(end)
    return rows


@pytest.mark.parametrize("version", [compiled, plain])
@given(data=TEXTS, fields=st.integers(2, 3), crlf=st.booleans())
@example(data=b"a,bc\n" * 9 + b"a\n,bc\n" + b"a,bc\n" * 9, fields=3, crlf=False)
@example(data=b"a\nb,c\n" * 3, fields=3, crlf=False)  # as many marks as two rows, with a line end inside
@example(data=b"a,bc\r\n" * 3 + b"a,bc\n" + b"a,bc\r\n", fields=2, crlf=True)
@example(data=b"a,b\rc,\n" + b"a,bc\r\n", fields=2, crlf=True)
@example(data=b"a," + b"z" * 60 + b"\n", fields=2, crlf=False)
@settings(max_examples=100, deadline=None)
def test_rows_are_counted_up_to_one_of_another_form(
    version: Kernels, data: bytes, fields: int, crlf: bool
) -> None:
    assert counted(version, data, fields, crlf) == naive_count(data, fields, crlf)


def table_of(version: Kernels, symbols: list[bytes], slots: int = 16) -> tuple[Any, Any]:
    keys, codes = np.zeros((slots, cells.KEY_WORDS), dtype=np.uint64), np.full(slots, -2, dtype=np.int16)
    codes[0] = cells.EMPTY
    for code, symbol in enumerate(symbols):
        version(cells.enter_cell)(keys, codes, *np.frombuffer(symbol.ljust(24, b"\0"), dtype="<u8"), code)
    return keys, codes


@pytest.mark.parametrize("version", [compiled, plain])
@given(
    rows=st.lists(
        st.tuples(*[st.sampled_from([b"", *SYMBOLS, b"b", b"z" * 25, b"x" * 10])] * 2),
        min_size=1,
        max_size=20,
    ),
    field=st.integers(0, 1),
    short=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_known_cells_have_their_code(
    version: Kernels, rows: list[tuple[bytes, bytes]], field: int, short: bool
) -> None:
    known = [symbol for symbol in SYMBOLS if len(symbol) <= 8] if short else SYMBOLS
    keys, codes = table_of(version, known, slots=256)
    data = padded(b"".join(a + b"," + b + b"\n" for a, b in rows))
    starts = np.array(naive_cells(data.tobytes().rstrip(b"\0"), 0), dtype=np.uint32)
    got = np.full(len(rows), 99, dtype=np.int16)
    unknown = version(cells.look_up_cells)(
        words_of(data), starts, 2, field, len(rows), short, cells.CELL_MASKS, keys, codes, got
    )
    entered = {tuple(key.tolist()) for key in keys}
    expected = [
        cells.EMPTY
        if not row[field]
        else known.index(row[field])
        if row[field] in known
        and tuple(np.frombuffer(row[field].ljust(24, b"\0"), dtype="<u8").tolist()) in entered
        else cells.UNKNOWN
        for row in rows
    ]
    assert got.tolist() == expected
    assert unknown == expected.count(cells.UNKNOWN)


@pytest.mark.parametrize("version", [compiled, plain])
def test_tables_that_collide_know_or_do_not_know_but_mix_nothing_up(version: Kernels) -> None:
    symbols = [b"%d" % i for i in range(8)]
    keys, codes = table_of(version, symbols, slots=16)
    data = padded(b"".join(symbol + b"\n" for symbol in symbols))
    starts = np.arange(0, 17, 2, dtype=np.uint32)
    got = np.zeros(8, dtype=np.int16)
    unknown = version(cells.look_up_cells)(
        words_of(data), starts, 1, 0, 8, True, cells.CELL_MASKS, keys, codes, got
    )
    assert all(code in (i, cells.UNKNOWN) for i, code in enumerate(got.tolist()))
    assert unknown == np.count_nonzero(got == cells.UNKNOWN) <= 3  # those that found no place before the end


@pytest.mark.parametrize("version", [compiled, plain])
@given(
    names=st.lists(
        st.sampled_from([b"", b"7", b"07", b"1234567", b"12345678", b"u" * 20, b"u" * 19 + b"v"]), min_size=1
    )
)
@settings(max_examples=60, deadline=None)
def test_changes_are_where_a_cell_differs_from_the_one_before(version: Kernels, names: list[bytes]) -> None:
    data = padded(b"".join(b"x," + name + b"\n" for name in names))
    starts = np.array(naive_cells(data.tobytes().rstrip(b"\0"), 0), dtype=np.uint32)
    changes = np.zeros((3, len(names) + 1), dtype=np.int32)
    count = version(cells.find_changes)(data, words_of(data), starts, 2, 1, len(names), changes)
    expected = [i for i in range(len(names)) if i == 0 or names[i] != names[i - 1]]
    assert changes[0, :count].tolist() == expected
    texts = [data[a:b].tobytes() for a, b in changes[1:, :count].T.tolist()]
    assert texts == [names[i] for i in expected]
    codes, got = np.arange(len(expected)), np.zeros(len(names), dtype=np.int64)
    version(cells.spread_runs)(changes[0, :count], codes, got)
    assert got.tolist() == (np.cumsum([i in expected for i in range(len(names))]) - 1).tolist()


@pytest.mark.parametrize("version", [compiled, plain])
@pytest.mark.parametrize("odd", ["", "07", "+7", "-1", "1.0", "9" * 19, "x", "1x", "\u0663"])
def test_whole_numbers_are_read_up_to_a_cell_that_holds_none(version: Kernels, odd: str) -> None:
    texts = ["0", "7", "10", "9" * 18, odd, "3"]
    bounds = np.cumsum([0, *(len(text.encode()) for text in texts)]).astype(np.int32)
    numbers = np.zeros(len(texts), dtype=np.int64)
    data = padded("".join(texts).encode())
    assert version(cells.read_whole_numbers)(data, bounds[:-1], bounds[1:], numbers) == 4
    assert numbers[:4].tolist() == [0, 7, 10, 10**18 - 1]
