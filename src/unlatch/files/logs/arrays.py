"""Logs as arrays of NumPy: NPZ archives with one array a column, NPY files with a table. Never pickled, read a
piece at a time, and only after what the headers declare has been compared with what is there."""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unlatch.arrays import Ints
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.progress import report
from unlatch.errors import DataError, ResourceLimitError
from unlatch.files.arrays import (
    Declared,
    declared_by,
    exactly,
    members_of,
    refuse_unless_as_long,
    refusing_damage,
)
from unlatch.files.logs.columns import (
    ACTION,
    PROBABILITY,
    REWARD,
    STEP,
    TERMINATED,
    TRUNCATED,
    Roles,
    by_name,
    by_position,
)
from unlatch.files.logs.rows import Answers, Consecutive, Lines, Numbers, Place, RowBatch
from unlatch.files.logs.values import Tokens, answers_of, answers_of_texts, noting_floats, numbers_of

__all__ = ["NAMES", "ArrayReader", "contents_of", "npy_table", "npz_table"]

Array = NDArray[Any]

ROWS_PER_BATCH = 1 << 16
NAMES = "_names"
"""Ending of the member that holds the names of a column's codes."""

CONTENTS = b"unlatch log: "
_LONGEST_HEADER = 10_000
_MOST_NAME_BYTES = 1 << 24
_BOMB_BYTES = 1 << 30
_BOMB_RATIO = 200
"""An archive that unpacks to more bytes than that, and to so many times its size, is refused."""

_REMEDY = "write it anew with numpy.savez(..., action=..., observation=...)"


class _Column(NamedTuple):
    """A column as it is read on: from ``handle``, ``rows`` entries of ``dtype``; ``names`` if these are codes."""

    handle: Any
    dtype: np.dtype[Any]
    rows: int
    names: Sequence[str] | None

    def read(self, rows: int) -> Array:
        return np.frombuffer(exactly(self.handle, rows * self.dtype.itemsize), dtype=self.dtype)


class ArrayReader:
    """The rows of a table whose columns are arrays. A `RowSource`."""

    def __init__(
        self, columns: Any, where: str, rows: int, pieces: Iterator[dict[int, Array]], names: dict[int, Any]
    ):
        self.columns = columns
        self.place = Place(where, columns.names, "row")
        self._pieces = pieces
        self._names = names
        self._total = rows
        self._tokens = {
            column: Tokens(column, self.place)
            for column in columns.present
            if column not in (REWARD, PROBABILITY, STEP, TERMINATED, TRUNCATED)
        }
        self._rows = 0

    def batches(self) -> Iterator[RowBatch]:
        while True:
            with refusing_damage(self.place.where, "arrays", _REMEDY):
                piece = next(self._pieces, None)
            if piece is None:
                return
            yield self._read(piece)
            report("reading", self._rows, self._total)

    def findings(self, strict: bool) -> Diagnostics:
        return noting_floats(self.columns.diagnostics, self._tokens, self.columns)

    def _read(self, piece: dict[int, Array]) -> RowBatch:
        rows = len(piece[ACTION])
        lines = Consecutive(self._rows + 1, rows)
        self._rows += rows
        symbols: dict[int, Ints] = {}
        numbers: dict[int, Numbers] = {}
        answers: dict[int, Answers] = {}
        for column, values in piece.items():
            if column in self._tokens:
                symbols[column] = self._symbols(values, lines, column)
            elif column in (TERMINATED, TRUNCATED):
                answers[column] = self._answers(values, lines, column)
            else:
                if values.dtype.kind not in "iufb":
                    raise self._wrong_type(column, values.dtype, "numbers")
                numbers[column] = numbers_of(values, None)
        return RowBatch(
            lines=lines,
            symbols=symbols,
            tokens={column: tokens.tokens for column, tokens in self._tokens.items()},
            seen={column: tokens.seen for column, tokens in self._tokens.items()},
            numbers=numbers,
            answers=answers,
        )

    def _symbols(self, values: Array, lines: Lines, column: int) -> Ints:
        tokens, kind = self._tokens[column], values.dtype.kind
        if column in self._names:
            return tokens.of_codes(self._indices(values, lines, column), self._names[column], lines)
        if kind in "iu":
            return tokens.of_integers(values, None, lines)
        if kind == "f":
            return tokens.of_floats(values.astype(np.float64), None, lines)
        if kind == "b":
            return tokens.of_codes(values.astype(np.int64), ("false", "true"), lines)
        texts, codes = self._texts(values, lines, column)
        return tokens.of_codes(codes, texts, lines)

    def _indices(self, values: Array, lines: Lines, column: int) -> Ints:
        """Codes of names; -1 is no name at all, as in the row of a first observation."""
        if values.dtype.kind not in "iu":
            raise self._wrong_type(column, values.dtype, "whole numbers, since there are names for them")
        bad = (values < -1) if values.dtype.kind == "i" else np.zeros(len(values), dtype=bool)
        bad |= values >= len(self._names[column])
        if bad.any():
            row = int(bad.argmax())
            raise self.place.wrong(
                int(lines[row]),
                column,
                f"{int(values[row])}, but there are {len(self._names[column])} names, numbered from 0",
            )
        return values.astype(np.int64)

    def _texts(self, values: Array, lines: Lines, column: int) -> tuple[list[str], Ints]:
        if values.dtype.kind not in "US" or values.dtype.itemsize == 0:
            raise self._wrong_type(column, values.dtype, "text or whole numbers")
        if not _is_text(values):
            raise self.place.wrong(int(lines[0]), column, "what is no text, here or in the next rows")
        distinct, codes = np.unique(values, return_inverse=True)
        if values.dtype.kind == "U":
            return distinct.tolist(), codes
        try:
            return [text.decode() for text in distinct.tolist()], codes
        except UnicodeDecodeError:
            raise self.place.wrong(
                int(lines[0]), column, "bytes that are not UTF-8 here or in the next rows"
            ) from None

    def _answers(self, values: Array, lines: Lines, column: int) -> Answers:
        if values.dtype.kind in "biuf":
            return answers_of(values, None)
        texts, codes = self._texts(values, lines, column)
        return answers_of_texts(codes, texts)

    def _wrong_type(self, column: int, dtype: Any, expected: str) -> DataError:
        name = self.place.names[column]
        return DataError(
            f"{self.place.where}, column {name!r}: holds {dtype}; expected {expected}: convert it first",
            field=name,
        )


# --- NPZ ----------------------------------------------------------------------------------------------------


def npz_table(handle: BinaryIO, where: str, roles: Roles, stack: ExitStack) -> ArrayReader:
    """An archive with one array a column; what it opens is closed with ``stack``."""
    with refusing_damage(where, "NPZ", _REMEDY):
        archive = stack.enter_context(zipfile.ZipFile(handle))
        members = _members(archive, where)
        listed = [
            name for name in members if not (name.endswith(NAMES) and name.removesuffix(NAMES) in members)
        ]
        columns = by_name(listed, roles, where)
        wanted = {column: columns.names[column] for column in columns.present}
        _refuse_bombs([members[name] for name in wanted.values()], where)
        parts = {column: _member(archive, members, name, where, stack) for column, name in wanted.items()}
    lengths = {wanted[column]: part.rows for column, part in parts.items()}
    if len(set(lengths.values())) > 1:
        listing = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise DataError(f"{where}: lengths differ: {listing}; one entry per step is needed in each")
    rows = parts[ACTION].rows
    names = {column: part.names for column, part in parts.items() if part.names is not None}
    return ArrayReader(columns, where, rows, _npz_pieces(parts, rows), names)


def _members(archive: zipfile.ZipFile, where: str) -> dict[str, zipfile.ZipInfo]:
    """The arrays of an archive by name."""
    members = {
        name.removesuffix(".npy"): info for name, info in members_of(archive, where, stored=False).items()
    }
    if not members:
        raise DataError(f"{where}: no data")
    if archive.comment.startswith(CONTENTS) and archive.comment != contents_of(members):
        raise DataError(f"{where}: some of the arrays that it was written with are not there; write it anew")
    return members


def contents_of(members: Iterable[str]) -> bytes:
    """What an archive of ours says about itself: a damaged directory may lack some of its members."""
    return CONTENTS + ",".join(members).encode()


def _refuse_bombs(members: Sequence[zipfile.ZipInfo], where: str) -> None:
    unpacked = sum(info.file_size for info in members)
    stored = sum(info.compress_size for info in members)
    if unpacked > _BOMB_BYTES and unpacked > _BOMB_RATIO * stored:
        raise ResourceLimitError(
            f"{where}: {stored} bytes would become {unpacked}; if that is meant, store the arrays uncompressed"
        )


def _member(
    archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], name: str, where: str, stack: ExitStack
) -> _Column:
    handle = stack.enter_context(archive.open(members[name]))
    header = _flat(handle, members[name], f"{where}, array {name!r}")
    names = None
    if name + NAMES in members:
        info = members[name + NAMES]
        with archive.open(info) as listing:
            place = f"{where}, array {name + NAMES!r}"
            if info.file_size > _MOST_NAME_BYTES:
                raise ResourceLimitError(f"{place}: {info.file_size} bytes of names")
            declared = _flat(listing, info, place)
            if declared.dtype.kind != "U" or declared.dtype.itemsize == 0:
                raise DataError(f"{place}: holds {declared.dtype}; expected text")
            data = exactly(listing, declared.shape[0] * declared.dtype.itemsize)
            listing.read(1)  # to the end, where the checksum is
            listed = np.frombuffer(data, dtype=declared.dtype)
            if not _is_text(listed):
                raise DataError(f"{place}: holds what is no text")
            names = listed.tolist()
    return _Column(handle, header.dtype, header.shape[0], names)


def _is_text(values: Array) -> bool:
    """Whether all characters are: numbers beyond the last one would make strings that Python does not survive."""
    if values.dtype.kind != "U" or not values.size:
        return True
    points = np.ascontiguousarray(values).view(np.dtype("u4").newbyteorder(values.dtype.byteorder))
    return bool(points.max() <= sys.maxunicode)


def _flat(handle: Any, info: zipfile.ZipInfo, place: str) -> Declared:
    """The header of an array of one dimension, which must be as long as it says."""
    header = declared_by(handle, place)
    if len(header.shape) != 1 or header.dtype.names is not None or header.dtype.subdtype is not None:
        raise DataError(
            f"{place}: has the shape {header.shape} of {header.dtype}; expected one entry per step"
        )
    refuse_unless_as_long(header, info.file_size - handle.tell(), place)
    return header


def _npz_pieces(parts: dict[int, _Column], rows: int) -> Iterator[dict[int, Array]]:
    for start in range(0, rows, ROWS_PER_BATCH):
        size = min(ROWS_PER_BATCH, rows - start)
        yield {column: part.read(size) for column, part in parts.items()}
    for part in parts.values():
        part.handle.read(1)  # to the end, where the checksum is


# --- NPY ----------------------------------------------------------------------------------------------------


def npy_table(handle: BinaryIO, size: int, where: str, roles: Roles) -> ArrayReader:
    """One array: with named fields, or of two to four columns of numbers (action, observation, reward, episode)."""
    with refusing_damage(where, "NPY", _REMEDY):
        header = declared_by(handle, where)
        refuse_unless_as_long(header, size - handle.tell(), where)
    if header.dtype.names is not None and len(header.shape) == 1:
        columns = by_name(list(header.dtype.names), roles, where)
        return ArrayReader(columns, where, header.shape[0], _records(handle, header, columns), {})
    if len(header.shape) != 2 or header.dtype.names is not None or header.shape[1] < 2:
        raise DataError(
            f"{where}: has the shape {header.shape} of {header.dtype}; expected named fields (action, "
            f"observation, ...), "
            "or two dimensions, of which the columns are action, observation, reward, episode, in this order"
        )
    columns = by_position([""] * header.shape[1], roles, where)
    return ArrayReader(columns, where, header.shape[0], _table_rows(handle, header, columns), {})


def _records(handle: BinaryIO, header: Declared, columns: Any) -> Iterator[dict[int, Array]]:
    rows = header.shape[0]
    for start in range(0, rows, ROWS_PER_BATCH):
        data = exactly(handle, min(ROWS_PER_BATCH, rows - start) * header.dtype.itemsize)
        table = np.frombuffer(data, dtype=header.dtype)
        yield {column: table[columns.names[column]] for column in columns.present}


def _table_rows(handle: BinaryIO, header: Declared, columns: Any) -> Iterator[dict[int, Array]]:
    rows, width = header.shape
    item, begin = header.dtype.itemsize, handle.tell()
    for start in range(0, rows, ROWS_PER_BATCH):
        size = min(ROWS_PER_BATCH, rows - start)
        if header.fortran_order:
            parts = []
            for field in range(width):
                handle.seek(begin + (field * rows + start) * item, io.SEEK_SET)
                parts.append(np.frombuffer(exactly(handle, size * item), dtype=header.dtype))
            table = np.stack(parts, axis=1)
        else:
            table = np.frombuffer(exactly(handle, size * width * item), dtype=header.dtype).reshape(
                size, width
            )
        yield {column: table[:, columns.wanted[column]] for column in columns.present}
