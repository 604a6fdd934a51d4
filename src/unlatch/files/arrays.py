"""Arrays in one file: an NPZ archive that NumPy reads too, with a checksum, and nothing in it that is ever executed.

Members are stored, not compressed: a small file cannot turn into a large array. Their names, kinds and numbers of
dimensions must be those that the reader expects, and the sizes that their headers declare are compared with the sizes
that there are before anything is allocated. Whatever is damaged or foreign is refused with a `DataError`.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import tokenize
import warnings
import zipfile
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from unlatch.errors import DataError, ModelFileError
from unlatch.files import strict_json
from unlatch.files.atomic import PathLike, atomic_writer, checked_path, reading

__all__ = ["Arrays", "is_archive_of", "read_arrays", "write_arrays"]

Arrays = Mapping[str, NDArray[Any]]

_HEADER = "header.npy"
_SUFFIX = ".npy"
_MAX_HEADER = 1 << 26
_MOST_MEMBERS = 10_000
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time that members carry: the same content gives the same bytes."""


def write_arrays(path: PathLike, kind: str, header: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a file, whole or not at all.

    Parameters
    ----------
    path : where to write
    kind : str
        What the file is, as `read_arrays` will ask for it.
    header : mapping
        Plain JSON values.
    arrays : mapping from names to arrays of numbers
    """
    text = json.dumps({"kind": kind, **header, "sha256": _digest(kind, header, arrays)}, ensure_ascii=True)
    members = {_HEADER: np.frombuffer(text.encode(), dtype=np.uint8)}
    members.update({name + _SUFFIX: np.ascontiguousarray(array) for name, array in arrays.items()})
    with atomic_writer(path) as handle, zipfile.ZipFile(handle, "w", zipfile.ZIP_STORED) as archive:
        for name, array in members.items():
            with archive.open(zipfile.ZipInfo(name, _EPOCH), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)


def _digest(kind: str, header: Mapping[str, Any], arrays: Arrays) -> str:
    found = hashlib.sha256(json.dumps([kind, header], ensure_ascii=True, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(f"{name} {array.dtype.str} {array.shape}".encode())
        found.update(array.reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def is_archive_of(path: PathLike, kind: str) -> bool:
    """Whether an ordinary file claims to be of that kind; nothing else of it is looked at."""
    with reading(checked_path(path)) as (handle, _):
        if handle.read(4) != b"PK\x03\x04":
            return False
        try:
            with zipfile.ZipFile(handle) as archive:
                header = _header(archive, "")
        except (zipfile.BadZipFile, DataError, ValueError, OSError, EOFError, RuntimeError, KeyError):
            return False
    return bool(header.get("kind") == kind)


def read_arrays(path: PathLike, kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The header and the arrays of a file that `write_arrays` wrote; other kinds and damaged files are refused."""
    where = checked_path(path)
    with reading(where) as (handle, _):
        return _read(handle, kind, where)


def _read(handle: BinaryIO, kind: str, where: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    try:
        with zipfile.ZipFile(handle) as archive:
            header = _header(archive, where)
            if header.pop("kind", None) != kind:
                raise DataError(f"{where}: not a file of {kind}")
            names = [info.filename for info in archive.infolist() if info.filename != _HEADER]
            _refuse_foreign(names, header, where)
            arrays = {name.removesuffix(_SUFFIX): _array(archive, name, where) for name in names}
    except DataError:
        raise
    except (
        zipfile.BadZipFile,
        ValueError,
        EOFError,
        RuntimeError,
        NotImplementedError,
        KeyError,
        UnicodeError,
    ) as error:
        raise DataError(f"{where}: damaged, or not a file of {kind} ({error}); make it anew") from None
    claimed = header.pop("sha256", None)
    if claimed != _digest(kind, header, arrays):
        raise DataError(f"{where}: the checksum does not fit the content; the file is damaged, make it anew")
    return header, arrays


def _header(archive: zipfile.ZipFile, where: str) -> dict[str, Any]:
    if archive.getinfo(_HEADER).file_size > _MAX_HEADER:
        raise DataError(f"{where}: its header is too large")
    raw = _array(archive, _HEADER, where)
    if raw.dtype != np.uint8 or raw.ndim != 1:
        raise DataError(f"{where}: its header is no text")
    try:
        header = strict_json.parse(raw.tobytes(), where)
    except ModelFileError as error:
        raise DataError(str(error)) from None
    if not isinstance(header, dict):
        raise DataError(f"{where}: its header is no object")
    return header


def _refuse_foreign(names: list[str], header: Mapping[str, Any], where: str) -> None:
    if len(names) > _MOST_MEMBERS or len(set(names)) < len(names):
        raise DataError(f"{where}: {len(names)} members, some of them twice or too many")
    for name in names:
        plain = name.removesuffix(_SUFFIX)
        if not name.endswith(_SUFFIX) or not plain.replace("_", "").isalnum() or not plain.isascii():
            raise DataError(f"{where}: {name[:60]!r} is no name of an array here")


def _array(archive: zipfile.ZipFile, name: str, where: str) -> NDArray[Any]:
    """One member, if its header declares as much as there is."""
    info = archive.getinfo(name)
    if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
        raise DataError(f"{where}: {name} is compressed; arrays are stored as they are here")
    with archive.open(info) as member:
        begin = io.BytesIO(member.read(min(info.file_size, 1 << 16)))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                if np.lib.format.read_magic(begin) != (1, 0):
                    raise DataError(f"{where}: {name} has a header of another version")
                shape, fortran, dtype = np.lib.format.read_array_header_1_0(begin)
        except DataError:
            raise
        except (ValueError, EOFError, Warning, SyntaxError, TypeError, tokenize.TokenError) as error:
            raise DataError(f"{where}: {name} has no readable header ({error})") from None
        if dtype.hasobject or dtype.kind not in "biuf" or fortran or any(size < 0 for size in shape):
            raise DataError(f"{where}: {name} holds no plain numbers")
        expected = begin.tell() + math.prod(shape) * dtype.itemsize
        if expected != info.file_size:
            raise DataError(f"{where}: {name} declares {expected} bytes and has {info.file_size}")
    data = archive.read(info)  # checks the CRC of all of it
    return np.frombuffer(data, dtype=dtype, offset=begin.tell()).reshape(shape)
