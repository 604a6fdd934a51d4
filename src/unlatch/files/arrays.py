"""Arrays in files: NPZ archives and NPY files, of ours and of others, and nothing in them that is ever executed.

Whoever reads one goes through this module. Names of members, their sizes and what their headers declare are compared
with what there is before anything is allocated; what needs a pickle, is encrypted, lies or is damaged is refused with a
`DataError`. What we write ourselves is not compressed, so that a small file cannot turn into a large array, and
`write_arrays` puts a checksum beside the arrays.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import struct
import warnings
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from tokenize import TokenError
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from unlatch.errors import DataError, ModelFileError, ResourceLimitError
from unlatch.files import strict_json
from unlatch.files.atomic import PathLike, atomic_writer, checked_path, reading

__all__ = [
    "Arrays",
    "Declared",
    "declared_by",
    "exactly",
    "is_archive_of",
    "members_of",
    "read_arrays",
    "refuse_unless_as_long",
    "refusing_damage",
    "stored_array",
    "write_archive",
    "write_arrays",
]

Arrays = Mapping[str, NDArray[Any]]

_HEADER = "header.npy"
_SUFFIX = ".npy"
_MAX_HEADER = 1 << 26
_MOST_MEMBERS = 10_000
_LONGEST_DECLARATION = 10_000
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time that members carry: the same content gives the same bytes."""

_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    ValueError,
    NotImplementedError,
    RuntimeError,
    SyntaxError,
    TokenError,
    KeyError,
    IndexError,
    OverflowError,
    TypeError,
    MemoryError,
    RecursionError,
)
"""What zipfile and numpy raise about archives and headers that are not what they say."""


# --- what every reader of arrays asks ------------------------------------------------------------------------


@contextmanager
def refusing_damage(where: str, kind: str, remedy: str) -> Iterator[None]:
    """Whatever the libraries raise about damaged bytes becomes a `DataError`."""
    try:
        yield
    except (DataError, ResourceLimitError):
        raise
    except (*_DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # a position before the beginning
            raise
        said = " ".join(str(error).split())[:200]
        raise DataError(
            f"{where}: cannot be read as {kind}: {said} ({type(error).__name__}); it is damaged, cut off or of another "
            f"kind: {remedy}"
        ) from None


def members_of(
    archive: zipfile.ZipFile, where: str, *, stored: bool, others: Collection[str] = ()
) -> dict[str, zipfile.ZipInfo]:
    """The members of an archive by their names: arrays, and those of the ``others`` that are there.

    Nothing is ever unpacked to the disk. With ``stored`` members must not be compressed.
    """
    infos = archive.infolist()
    if len(infos) > _MOST_MEMBERS:
        raise DataError(f"{where}: {len(infos)} members; an archive of arrays has at most {_MOST_MEMBERS}")
    members: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        name = info.filename
        own = name.removesuffix(_SUFFIX)
        if name not in others and (not name.endswith(_SUFFIX) or not own or "/" in own or "\\" in own):
            raise DataError(
                f"{where}: holds {name[:80]!r}; an archive of arrays holds .npy files and no folders"
            )
        if name in members:
            raise DataError(f"{where}: more than one array is called {own!r}; rename all but one")
        if info.flag_bits & 1:
            raise DataError(f"{where}: {own!r} is encrypted")
        if stored and (info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size):
            raise DataError(
                f"{where}: {name} is compressed; here arrays are stored as they are, so that none can be a bomb"
            )
        archive.open(info).close()  # its name stands twice in the archive, and both must agree
        members[name] = info
    return members


class Declared(NamedTuple):
    """What an array says about itself before its bytes."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def declared_by(handle: Any, where: str) -> Declared:
    """What an array declares; nothing of it is read yet."""
    version = npy.read_magic(handle)
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    if version not in readers:
        raise DataError(f"{where}: version {version} of the format of arrays; 1.0 and 2.0 are read")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about headers of another Python, which are right all the same
        shape, fortran_order, dtype = readers[version](handle, max_header_size=_LONGEST_DECLARATION)
    if dtype.hasobject:
        raise DataError(
            f"{where}: holds Python objects, which would have to be unpickled: pickle refused. Store numbers or text"
        )
    if any(size < 0 for size in shape):
        raise DataError(f"{where}: a shape of {shape}")
    return Declared(tuple(shape), bool(fortran_order), dtype)


def refuse_unless_as_long(declared: Declared, there: int, where: str) -> None:
    """The bytes of an array must be as many as it declares."""
    if declared.nbytes != there:
        raise DataError(
            f"{where}: declares the shape {declared.shape} of {declared.dtype}, but has {there} bytes for it"
        )


def exactly(handle: Any, size: int) -> bytes:
    """The next ``size`` bytes."""
    data: bytes = handle.read(size)
    if len(data) < size:
        raise EOFError(f"{size - len(data)} bytes are missing")
    return data


def stored_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, where: str) -> NDArray[Any]:
    """An array of numbers, row after row, that is not compressed; read whole, with its checksum."""
    place = f"{where}: {info.filename}"
    with refusing_damage(place, "an array", "write it anew"), archive.open(info) as member:
        declared = declared_by(member, place)
        if declared.dtype.kind not in "biuf" or declared.fortran_order:
            raise DataError(f"{place}: holds no plain numbers, but {declared.dtype}")
        refuse_unless_as_long(declared, info.file_size - member.tell(), place)
        data = member.read()  # to the end, where the checksum is
    return np.frombuffer(data, dtype=declared.dtype).reshape(declared.shape)


# --- archives of ours -----------------------------------------------------------------------------------------


def write_archive(target: BinaryIO, members: Mapping[str, bytes | NDArray[Any]]) -> None:
    """Write an archive of members, none of them compressed: text as it is, arrays as NumPy has them."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = 0o644 << 16
            with archive.open(info, "w", force_zip64=True) as member:
                if isinstance(content, bytes):
                    member.write(content)
                else:
                    npy.write_array(member, np.ascontiguousarray(content), version=(1, 0), allow_pickle=False)


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
    members.update({name + _SUFFIX: array for name, array in arrays.items()})
    with atomic_writer(path) as handle:
        write_archive(handle, members)


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
            with refusing_damage("", kind, ""), zipfile.ZipFile(handle) as archive:
                header = _header(archive, "")
        except DataError:
            return False
    return bool(header.get("kind") == kind)


def read_arrays(path: PathLike, kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The header and the arrays of a file that `write_arrays` wrote; other kinds and damaged files are refused."""
    where = checked_path(path)
    with reading(where) as (handle, _), refusing_damage(where, f"a file of {kind}", "make it anew"):
        return _read(handle, kind, where)


def _read(handle: BinaryIO, kind: str, where: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    with zipfile.ZipFile(handle) as archive:
        header = _header(archive, where)
        if header.pop("kind", None) != kind:
            raise DataError(f"{where}: not a file of {kind}")
        members = members_of(archive, where, stored=True)
        del members[_HEADER]
        arrays = {
            name.removesuffix(_SUFFIX): stored_array(archive, info, where) for name, info in members.items()
        }
    claimed = header.pop("sha256", None)
    if claimed != _digest(kind, header, arrays):
        raise DataError(f"{where}: the checksum does not fit the content; the file is damaged, make it anew")
    return header, arrays


def _header(archive: zipfile.ZipFile, where: str) -> dict[str, Any]:
    info = archive.getinfo(_HEADER)
    if info.file_size > _MAX_HEADER:
        raise DataError(f"{where}: its header is too large")
    raw = stored_array(archive, info, where)
    if raw.dtype != np.uint8 or raw.ndim != 1:
        raise DataError(f"{where}: its header is no text")
    try:
        header = strict_json.parse(raw.tobytes(), where)
    except ModelFileError as error:
        raise DataError(str(error)) from None
    if not isinstance(header, dict):
        raise DataError(f"{where}: its header is no object")
    return header
