"""Some rows of a file, wherever they stand in it: Parquet and NPY files can be read so, and nothing before is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unlatch.errors import DataError, UnlatchError
from unlatch.files.arrays import Declared, declared_by, refuse_unless_as_long, refusing_damage
from unlatch.files.atomic import reading
from unlatch.files.logs.arrow import arrow_library, is_text
from unlatch.files.logs.columns import ROLES

__all__ = ["DIVISIBLE", "row_count", "some_rows"]

_NPY = ".npy"
DIVISIBLE = (".parquet", ".pq", _NPY)
"""Endings of the files that can be read so."""

_ROWS_AT_ONCE = 1 << 18


def row_count(path: str) -> int:
    """How many rows a file has; no row is read."""
    if path.lower().endswith(_NPY):
        return _declared(path)[0].shape[0]
    arrow_library(f"{path}: to read Parquet")
    import pyarrow.parquet as parquet

    with _told(path):
        return int(parquet.read_metadata(path).num_rows)


def some_rows(path: str, first: int, rows: int, options: Mapping[str, Any]) -> Any:
    """Rows ``first`` to ``first + rows`` of a file as a table of pyarrow, with the columns that a reader with these
    options looks at."""
    arrow_library(f"{path}: to read it in parts")
    names = [options.get(role, role) for role in ROLES]
    named = [name for entry in names for name in ([entry] if isinstance(entry, str) else entry or ())]
    with _told(f"{path}, rows {first} to {first + rows - 1}"):
        if path.lower().endswith(_NPY):
            return _of_array(path, first, rows, names, named)
        return _of_parquet(path, first, rows, named)


@contextmanager
def _told(where: str) -> Iterator[None]:
    """Whatever is said about a file that cannot be read, as an error of ours."""
    try:
        yield
    except UnlatchError:
        raise
    except (OSError, ValueError, IndexError, RuntimeError) as error:
        said = " ".join(str(error).split())[:200]
        raise DataError(f"{where}: cannot be read ({said})") from None


def _of_parquet(path: str, first: int, rows: int, named: Sequence[str]) -> Any:
    """Only the row groups that hold the rows are read, and the last of them only as far as needed."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    wanted = [field for field in parquet.read_schema(path) if field.name in named]
    texts = [field.name for field in wanted if is_text(pa, field.type)]
    with parquet.ParquetFile(path, read_dictionary=texts, page_checksum_verification=True) as file:
        sizes = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        begins = np.concatenate([[0], np.cumsum(sizes)])
        groups = np.flatnonzero((begins[1:] > first) & (begins[:-1] < first + rows)).tolist()
        before, found, missing = first - int(begins[groups[0]]), [], rows
        columns = [field.name for field in wanted]
        for batch in file.iter_batches(_ROWS_AT_ONCE, groups, columns, use_threads=False):
            part = batch.slice(min(before, len(batch)), missing)
            before -= min(before, len(batch))
            missing -= len(part)
            if len(part):
                found.append(part)
            if not missing:
                break
        if missing:
            raise ValueError(f"{missing} rows are missing")
        return pa.Table.from_batches(found)


def _of_array(path: str, first: int, rows: int, names: Sequence[Any], named: Sequence[str]) -> Any:
    """Named fields, or columns in the order of `ROLES`, as `npy_table` reads them."""
    import pyarrow as pa

    declared, offset = _declared(path)
    shape = declared.shape[::-1] if declared.fortran_order else declared.shape
    whole = np.memmap(path, declared.dtype, "r", offset, shape)
    table = (whole.T if declared.fortran_order else whole)[first : first + rows]
    if declared.dtype.names is not None and len(declared.shape) == 1:
        columns = {name: table[name] for name in declared.dtype.names if name in named}
    elif len(declared.shape) == 2 and declared.dtype.names is None:
        pairs = zip(names, table.T, strict=False)
        columns = {name: column for name, column in pairs if isinstance(name, str)}
    else:
        raise ValueError(f"the shape {declared.shape} of {declared.dtype}; expected named fields or columns")
    return pa.table({name: pa.array(_plain(column)) for name, column in columns.items()})


def _plain(column: NDArray[Any]) -> NDArray[Any]:
    """In memory, in the byte order of this machine, text as text."""
    own = np.array(column, dtype=column.dtype.newbyteorder("="))
    return np.char.decode(own) if own.dtype.kind == "S" else own


def _declared(path: str) -> tuple[Declared, int]:
    """What an NPY file declares, and where its array begins."""
    with reading(path) as (handle, size), refusing_damage(path, "NPY", "write it anew with numpy.save"):
        declared = declared_by(handle, path)
        if not declared.shape:
            raise DataError(f"{path}: one number; a log has rows")
        refuse_unless_as_long(declared, size - handle.tell(), path)
        return declared, handle.tell()
