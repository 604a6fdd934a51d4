"""Where a log comes from: a file of any kind, several of them, a folder, a stream, a table in memory."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, BinaryIO

from unlatch.core.ahead import ahead
from unlatch.errors import DataError, UsageError
from unlatch.files.atomic import PathLike, checked_path, reading, storage_errors
from unlatch.files.logs import text
from unlatch.files.logs.columns import Roles, first_block, read_columns
from unlatch.files.logs.compressed import ENDINGS as COMPRESSED
from unlatch.files.logs.rows import RowSource

__all__ = ["FOLDER_ENDINGS", "Form", "LogSource", "opened", "parts_of"]

LogSource = PathLike | BinaryIO | Sequence[Any] | Any
"""What `read_log` takes: a path, a stream of bytes, several of them, or a table with ``__arrow_c_stream__``."""

_PARQUET = (".parquet", ".pq")
_FEATHER = (".feather", ".arrow", ".ipc")
_TEXT = (".csv", ".tsv", ".txt")
FOLDER_ENDINGS = (
    *_TEXT,
    *(text + packed for text in _TEXT for packed in COMPRESSED),
    *_PARQUET,
    *_FEATHER,
    ".npz",
    ".npy",
)
"""Of the files in a folder those that are parts of a log."""

_FEW_BLOCKS = 8
"""A text of fewer blocks is read before another thread would have begun."""


@dataclass(frozen=True)
class Form:
    """How a table is to be read. ``header``, ``delimiter`` and ``encoding`` are of text only."""

    roles: Roles
    header: bool
    delimiter: str
    encoding: str


def parts_of(source: LogSource) -> list[Any]:
    """The paths, streams and tables that a log is made of, in their order."""
    if isinstance(source, list | tuple):
        if not source:
            raise UsageError("no file to read; give at least one")
        return [part for item in source for part in parts_of(item)]
    if isinstance(source, str | os.PathLike):
        path = checked_path(source)
        if os.path.isdir(path):
            return _files_in(path)
        if path.startswith("minari:") and not os.path.exists(path):
            name = path.removeprefix("minari:")
            raise UsageError(
                f"{path}: the name of a dataset of Minari, not of a file; from_minari({name!r}) reads it, and unlatch "
                f"record {path} -o log.parquet makes a file of it"
            )
    return [source]


def _files_in(folder: str) -> list[str]:
    """The tables of a folder in the order of their names, numbers by value. Names that begin with a dot or an
    underscore are of those who wrote the tables, not tables."""
    with storage_errors(f"{folder}: cannot read"):
        names = sorted(os.listdir(folder), key=_natural)
    tables = [name for name in names if not name.startswith((".", "_"))]
    if not tables:
        raise DataError(f"{folder}: no data; the folder holds no table")
    for name in tables:
        path = os.path.join(folder, name)
        if not name.lower().endswith(FOLDER_ENDINGS) or not _is_file(path):
            raise DataError(
                f"{path}: is no table that can be read ({', '.join(FOLDER_ENDINGS)}); take it out of the "
                f"folder, or name "
                "the files that make the log"
            )
    return [os.path.join(folder, name) for name in tables]


def _is_file(path: str) -> bool:
    with storage_errors(f"{path}: cannot read"):
        return stat.S_ISREG(os.stat(path).st_mode)


def _natural(name: str) -> list[tuple[int, str]]:
    """``part-2`` before ``part-10``."""
    return [
        (int(piece), "") if piece.isdigit() else (-1, piece)
        for piece in re.findall(r"[0-9]{1,18}|[^0-9]+", name)
    ]


@contextmanager
def opened(part: Any, form: Form) -> Iterator[RowSource]:
    """The table that ``part`` is; open for as long as its rows are read."""
    if hasattr(part, "__arrow_c_stream__"):
        from unlatch.files.logs.arrow import memory_table

        yield memory_table(part, form.roles)
        return
    if not isinstance(part, str | bytes | os.PathLike) and not hasattr(part, "read"):
        raise UsageError(
            f"a log is a path, a binary file, or a table that has __arrow_c_stream__, got {type(part).__name__}; of "
            "arrays make a Trajectory"
        )
    if isinstance(part, str | bytes | os.PathLike):
        with _opened_file(checked_path(part), form) as table:
            yield table
        return
    name = getattr(part, "name", None)
    where = name if isinstance(name, str) else f"<{type(part).__name__}>"
    with storage_errors(f"{where}: cannot read"):
        # a text stream, as standard input is, has bytes beneath
        yield _text(getattr(part, "buffer", part), None, where, form)


@contextmanager
def _opened_file(where: str, form: Form) -> Iterator[RowSource]:
    """The ending of its name says what kind of file it is."""
    ending = where.lower()
    with ExitStack() as stack:
        handle, size = stack.enter_context(reading(where))
        if size == 0:
            raise DataError(f"{where}: no data")
        if ending.endswith((*_PARQUET, *_FEATHER)):
            from unlatch.files.logs import arrow

            table = arrow.parquet_table if ending.endswith(_PARQUET) else arrow.feather_table
            yield table(where, where, form.roles)
        elif ending.endswith(".npz"):
            from unlatch.files.logs.arrays import npz_table

            yield npz_table(handle, where, form.roles, stack)
        elif ending.endswith(".npy"):
            from unlatch.files.logs.arrays import npy_table

            yield npy_table(handle, size, where, form.roles)
        elif ending.endswith(COMPRESSED):
            from unlatch.files.logs.compressed import unpacked

            yield _text(unpacked(handle, size, where), None, where, form)
        else:
            yield _text(handle, size, where, form)


def _text(handle: BinaryIO, size: int | None, where: str, form: Form) -> RowSource:
    from unlatch.files.logs.delimited import DelimitedReader

    blocks = text.utf8_blocks(handle, size, form.encoding, where)
    first = first_block(blocks)
    columns, start, line = read_columns(first, form.roles, form.header, form.delimiter, where)
    if size is not None and size > _FEW_BLOCKS * text.BLOCK_BYTES:
        blocks = ahead(blocks)
    return DelimitedReader(columns, form.delimiter, line, where, chain([first[start:]], blocks))
