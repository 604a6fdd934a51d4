"""Tables in memory that speak the Arrow C stream, Parquet and Feather files: all by way of pyarrow, batch by batch.

What comes from a file is not trusted: every column is validated before it is looked at, or while it is looked up in a
table, checksums of pages are verified, and whatever pyarrow says about a damaged file becomes a `DataError`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unlatch.arrays import Flags, Ints
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.progress import report
from unlatch.errors import DataError, MissingDependencyError, ResourceLimitError, UnlatchError
from unlatch.files.logs.columns import (
    EPISODE,
    PROBABILITY,
    REWARD,
    STEP,
    TERMINATED,
    TRUNCATED,
    Columns,
    Roles,
    by_name,
)
from unlatch.files.logs.rows import Answers, Consecutive, Lines, Numbers, Place, RowBatch
from unlatch.files.logs.values import Tokens, answers_of, answers_of_texts, noting_floats, numbers_of
from unlatch.kernels import text

__all__ = [
    "COLUMNS_KEY",
    "ArrowReader",
    "arrow_library",
    "feather_table",
    "is_text",
    "memory_table",
    "parquet_table",
]

ROWS_PER_BATCH = 1 << 18
"""Rows that are read at once: so many that what is done once for all of them does not count."""

_FIRST_ROWS = 1 << 12
"""Rows that are read alone, so that the tables know something before many cells are looked up."""

_BUFFER = 1 << 20
"""Bytes of a column that are read at once; without a buffer it would be the whole column of a row group."""

_SMALL = 1 << 26
"""Bytes of a file that is read without a buffer: what one of its pages declares is then compared with what is there."""

COLUMNS_KEY = b"unlatch-columns"
"""Names the columns of a Parquet file of ours once more: its pages have checksums, but the names of columns
have none."""

Array = NDArray[Any]


def arrow_library(what: str) -> Any:
    """pyarrow, or an error that says how to get it."""
    try:
        import pyarrow
    except ImportError as error:
        raise MissingDependencyError(
            f"{what} needs pyarrow, which cannot be imported ({error}); install it: pip install 'unlatch[tables]'",
            package="pyarrow",
        ) from None
    return pyarrow


@contextmanager
def _arrow_errors(where: str, kind: str) -> Iterator[None]:
    """Whatever pyarrow raises about what it reads, which has a dozen types, as an error of ours."""
    try:
        yield
    except (UnlatchError, KeyboardInterrupt):
        raise
    except MemoryError:
        raise ResourceLimitError(
            f"{where}: out of memory; a part of it, unpacked, is larger than what there is"
        ) from None
    except Exception as error:
        said = " ".join(str(error).split())
        raise DataError(
            f"{where}: cannot be read as {kind}: {said[:200]} ({type(error).__name__}); it is damaged or cut off, or "
            "uses what pyarrow does not know: write it anew"
        ) from None


class ArrowReader:
    """The rows of a table that comes as record batches. A `RowSource`."""

    def __init__(
        self,
        names: Sequence[str],
        roles: Roles,
        where: str,
        kind: str,
        batches: Callable[[Columns], Iterator[Any]],
    ) -> None:
        self.columns = by_name(names, roles, where)
        self.place = Place(where, self.columns.names, "row")
        self._kind = kind
        self._batches = batches
        self._tokens = {
            column: Tokens(column, self.place)
            for column in self.columns.present
            if column not in (REWARD, PROBABILITY, STEP, TERMINATED, TRUNCATED)
        }
        self._dictionaries: dict[int, tuple[Any, Any, NDArray[np.int16]]] = {}
        self._rows = 0

    def batches(self) -> Iterator[RowBatch]:
        source = self._batches(self.columns)
        while True:
            with _arrow_errors(self.place.where, self._kind):
                batch = next(source, None)
            if batch is None:
                return
            done = 0
            while done < batch.num_rows:
                size = ROWS_PER_BATCH if self._rows else _FIRST_ROWS
                with _arrow_errors(self.place.where, self._kind):
                    rows = self._read(batch.slice(done, size))
                yield rows
                done += size

    def findings(self, strict: bool) -> Diagnostics:
        return noting_floats(self.columns.diagnostics, self._tokens, self.columns)

    def _read(self, batch: Any) -> RowBatch:
        lines = Consecutive(self._rows + 1, batch.num_rows)
        self._rows += batch.num_rows
        symbols: dict[int, Ints] = {}
        numbers: dict[int, Numbers] = {}
        answers: dict[int, Answers] = {}
        for column in self.columns.present:
            array = batch.column(self.columns.names[column])
            found = self._known(array, column)
            if found is not None:
                symbols[column] = found
                continue
            array.validate(full=True)
            if column in self._tokens:
                symbols[column] = self._symbols(array, lines, column)
            elif column in (TERMINATED, TRUNCATED):
                answers[column] = self._answers(array, column)
            else:
                numbers[column] = self._numbers(array, column)
        return RowBatch(
            lines=lines,
            symbols=symbols,
            tokens={column: tokens.tokens for column, tokens in self._tokens.items()},
            seen={column: tokens.seen for column, tokens in self._tokens.items()},
            numbers=numbers,
            answers=answers,
        )

    def _known(self, array: Any, column: int) -> Any:
        """The codes of a column whose dictionary came before, if it is one and all its entries are known."""
        known = self._dictionaries.get(column)
        if known is None or array.type != known[0] or array.indices.null_count:
            return None
        if not array.dictionary.equals(known[1]):
            return None
        indices = _plain(array.indices)
        places = indices.view(f"u{indices.itemsize}")  # a negative one is a high one
        if len(places) and int(places.max()) >= len(known[2]):
            return None
        found = np.empty(len(array), dtype=np.int16)
        return None if text.look_up(known[2], places, found) else found

    def _symbols(self, array: Any, lines: Lines, column: int) -> Any:
        import pyarrow as pa

        kind, tokens = array.type, self._tokens[column]
        if pa.types.is_null(kind):
            return np.full(len(array), -1, dtype=np.int64)
        if pa.types.is_integer(kind):
            return tokens.of_integers(*_values(array), lines)
        if pa.types.is_floating(kind):
            return tokens.of_floats(*_values(array), lines)
        if (
            not pa.types.is_dictionary(kind)
            or array.indices.null_count
            or column == EPISODE
            or not len(array)
        ):
            return tokens.of_codes(*self._coded(array, column), lines)
        self._check_dictionary(array, column)
        return self._learned(array, lines, column)

    def _learned(self, array: Any, lines: Lines, column: int) -> Any:
        """The codes of a column with a dictionary and without gaps, and for the next batches what each entry is."""
        texts, indices = _Texts(array.dictionary), _plain(array.indices)
        uses = np.bincount(indices, minlength=len(texts))
        uses[_plain(array.dictionary.is_null())] = 0
        table = self._tokens[column].table(uses, indices, texts, lines)[:-1].astype(np.int16)
        found = np.empty(len(array), dtype=np.int16)
        text.look_up(table, indices, found)
        self._dictionaries[column] = array.type, array.dictionary, table
        return found

    def _coded(self, array: Any, column: int) -> tuple[Ints, Sequence[str]]:
        """Codes of a column of texts, and the texts; -1 where there is none."""
        import pyarrow as pa

        kind = array.type
        if pa.types.is_boolean(kind):
            values, missing = _values(array)
            codes = values.astype(np.int64)
            return (codes if missing is None else np.where(missing, -1, codes)), ("false", "true")
        if is_text(pa, kind):
            if kind in (pa.string_view(),):
                array = array.cast(pa.large_string())
            array = array.dictionary_encode()
        elif not pa.types.is_dictionary(kind):
            raise self._wrong_type(column, kind, "text or whole numbers")
        self._check_dictionary(array, column)
        values, missing = _values(array.indices)
        codes = values.astype(np.int64)
        if missing is not None:
            codes[missing] = -1
        texts = _Texts(array.dictionary)
        if array.dictionary.null_count:
            empty = _plain(array.dictionary.is_null())
            codes = np.where((codes >= 0) & empty[codes], -1, codes)
        return codes, texts

    def _check_dictionary(self, array: Any, column: int) -> None:
        import pyarrow as pa

        kind = array.type.value_type
        if not (is_text(pa, kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
            raise self._wrong_type(column, array.type, "text or whole numbers")

    def _answers(self, array: Any, column: int) -> Answers:
        import pyarrow as pa

        kind = array.type
        if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
            return answers_of(*_values(array))
        if pa.types.is_null(kind):
            return answers_of(np.full(len(array), np.nan), None)
        if is_text(pa, kind) or (pa.types.is_dictionary(kind) and is_text(pa, kind.value_type)):
            codes, texts = self._coded(array, column)
            return answers_of_texts(codes, texts)
        raise self._wrong_type(column, kind, "truth values")

    def _numbers(self, array: Any, column: int) -> Numbers:
        import pyarrow as pa

        kind = array.type
        if pa.types.is_null(kind):
            return numbers_of(np.full(len(array), np.nan), None)
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
            raise self._wrong_type(column, kind, "numbers")
        return numbers_of(*_values(array))

    def _wrong_type(self, column: int, kind: Any, expected: str) -> DataError:
        name = self.place.names[column]
        return DataError(
            f"{self.place.where}, column {name!r}: holds {str(kind)[:80]}; expected {expected}: convert it first",
            field=name,
        )


class _Texts(Sequence[str]):
    """The entries of a dictionary as Python objects, each when it is asked for."""

    def __init__(self, entries: Any) -> None:
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, index: Any) -> Any:
        value = self._entries[index].as_py()
        return str(value).lower() if isinstance(value, bool) else value


def is_text(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view())


def _values(array: Any) -> tuple[Array, Flags | None]:
    """The numbers of a column, zero where they are missing, and where they are."""
    if array.null_count == 0:
        return _plain(array), None
    missing = _plain(array.is_null())
    filled = type(array).from_buffers(array.type, len(array), [None, array.buffers()[1]], offset=array.offset)
    values = _plain(filled).copy()
    values[missing] = 0
    return values, missing


def _plain(array: Any) -> Array:
    """A column without gaps as NumPy has it. pyarrow's own ways import pandas where that is installed: most of a second
    and 40 MB, in every worker."""
    import pyarrow as pa

    if pa.types.is_boolean(array.type):
        return np.from_dlpack(array.cast(pa.uint8())).view(np.bool_)
    return np.from_dlpack(array)


# --- where record batches come from -------------------------------------------------------------------------


def memory_table(table: Any, roles: Roles) -> ArrowReader:
    """A table in memory that exports itself as an Arrow C stream."""
    where = f"<{type(table).__name__}>"
    pa = arrow_library(f"{where}: to read a table in memory")
    with _arrow_errors(where, "a table"):
        stream = pa.RecordBatchReader.from_stream(table)
        names = list(stream.schema.names)

    def batches(columns: Columns) -> Iterator[Any]:
        wanted = [columns.names[column] for column in columns.present]
        for batch in stream:
            chosen = batch.select(wanted)
            chosen.validate()
            yield chosen

    return ArrowReader(names, roles, where, "a table", batches)


def parquet_table(path: str, where: str, roles: Roles) -> ArrowReader:
    """A Parquet file, a few pages at a time. Of its metadata only the number of rows is looked at: to ask pyarrow
    for more aborts the process if the file is damaged."""
    pa = arrow_library(f"{where}: to read Parquet")
    import pyarrow.parquet as pq

    with _arrow_errors(where, "Parquet"):
        schema = pq.read_schema(path)
        _refuse_renamed(schema, where)
        texts = {field.name for field in schema if is_text(pa, field.type)}

    def batches(columns: Columns) -> Iterator[Any]:
        wanted = [columns.names[column] for column in columns.present]
        with pq.ParquetFile(
            path,
            read_dictionary=[name for name in wanted if name in texts],
            buffer_size=_BUFFER if os.path.getsize(path) > _SMALL else 0,
            pre_buffer=False,
            page_checksum_verification=True,
        ) as file:
            total, done = file.metadata.num_rows, 0
            for batch in file.iter_batches(ROWS_PER_BATCH, columns=wanted, use_threads=False):
                batch.validate()
                yield batch
                done += batch.num_rows
                report("reading", done, max(total, done))
        if done != total:
            raise DataError(f"{where}: has {done} rows, but declares {total}; it is damaged: write it anew")

    return ArrowReader(list(schema.names), roles, where, "Parquet", batches)


def _refuse_renamed(schema: Any, where: str) -> None:
    declared = (schema.metadata or {}).get(COLUMNS_KEY)
    if declared is not None and declared != ",".join(schema.names).encode():
        raise DataError(
            f"{where}: has the columns {', '.join(schema.names)[:200]}, but was written with "
            f"{declared.decode(errors='replace')[:200]}; it is damaged: write it anew"
        )


def feather_table(path: str, where: str, roles: Roles) -> ArrowReader:
    """A Feather file (Arrow IPC), one of its batches at a time."""
    pa = arrow_library(f"{where}: to read Feather")

    def opened() -> Any:
        return pa.ipc.open_file(pa.OSFile(path))

    with _arrow_errors(where, "Feather"):
        names = list(opened().schema.names)

    def batches(columns: Columns) -> Iterator[Any]:
        wanted = [columns.names[column] for column in columns.present]
        file = opened()
        for i in range(file.num_record_batches):
            batch = file.get_batch(i).select(wanted)
            batch.validate()
            yield batch
            report("reading", i + 1, file.num_record_batches)

    return ArrowReader(names, roles, where, "Feather", batches)
