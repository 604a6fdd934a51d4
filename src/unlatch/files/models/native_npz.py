"""Our own model files for large models: the content of the JSON files, with the arrays as bytes, in an NPZ archive.

NumPy opens such an archive too (``numpy.load(path)["pomdp.transitions"]``), but here nothing is left to NumPy's loader
or to the archive: nothing is compressed, so that no file can become larger than it is; every header is read by a
grammar of one line, so that nothing in it is evaluated; names are those that this module writes and no others; nothing
is ever put on the disk. A SHA-256 of the whole content is in the file, so that no flipped bit goes unnoticed.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
import struct
import zipfile
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unlatch.errors import DataError, ModelFileError, ResourceLimitError, UnlatchError
from unlatch.files import strict_json
from unlatch.files.models.native import (
    FORMAT,
    MAX_BYTES,
    SavedModel,
    checked_version,
    content_of,
    noting_newer,
    saved_from,
)

__all__ = ["npz_bytes", "read_npz"]

_CONTENT = "content.json"
_ARRAYS = {
    f"{name}.npy": name
    for name in (
        *(f"pomdp.{own}" for own in (
            "transitions", "observations", "initial", "symbol_rewards", "first_observations", "reward_values",
            "reward_probabilities",
        )),
        *(f"psr.{own}" for own in ("initial", "updates", "final", "symbol_rewards")),
        "reward.table",
    )
}  # fmt: skip
"""The members that an archive may have beside its content, and the field that each is."""

_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(
    rb"\{'descr': '<f8', 'fortran_order': False, "
    rb"'shape': \(([0-9]{1,18},(?: [0-9]{1,18}(?:, [0-9]{1,18}){0,3})?)\), \} *+\n"
)
"""As NumPy writes it for an array of little-endian doubles; no other dtype is used."""

_OBJECTS = re.compile(rb"'descr': *'\|?O")

_ARCHIVE_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    ValueError,
    NotImplementedError,
    EOFError,
    RuntimeError,
    OverflowError,
    IndexError,
    OSError,
)
"""What the archive module raises for damaged bytes."""

_LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""The time of every member, so that the same model gives the same bytes."""


def npz_bytes(saved: SavedModel, where: str) -> bytes:
    """The bytes of the file, which have been read back: what could not be loaded is not written."""
    arrays: dict[str, NDArray[Any]] = {}
    content = content_of(saved, arrays)
    content["sha256"] = _checksum(content, arrays)
    size = sum(array.nbytes for array in arrays.values())
    if size > MAX_BYTES // 2:
        raise ResourceLimitError(
            f"{where}: {size} bytes of numbers; a model file has at most {MAX_BYTES // 2}"
        )
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED, allowZip64=False) as archive:
        archive.writestr(_member(_CONTENT), (strict_json.pretty(content) + "\n").encode())
        for name, array in arrays.items():
            archive.writestr(_member(f"{name}.npy"), _array_bytes(array))
    data = stream.getvalue()
    try:
        read_npz(data, where)
    except ModelFileError as error:
        raise DataError(f"not written, because it could not be loaded again: {error}") from None
    return data


def _member(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _LONG_AGO)
    info.external_attr = 0o644 << 16
    return info


def _array_bytes(array: NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.ascontiguousarray(array, dtype="<f8"), (1, 0), allow_pickle=False)
    return stream.getvalue()


def _checksum(content: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> str:
    """Of everything but the checksum: the canonical text, then every array by name, shape and bytes."""
    rest = {key: value for key, value in content.items() if key != "sha256"}
    digest = hashlib.sha256(strict_json.canonical(rest))
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name], dtype="<f8")
        digest.update(json.dumps([name, *array.shape]).encode())
        digest.update(array.data)
    return digest.hexdigest()


def read_npz(data: bytes, where: str) -> SavedModel:
    """The model of an NPZ file, given by its bytes."""
    if not data.startswith(b"PK\x03\x04"):
        raise ModelFileError(f"{where}: no NPZ archive, so no model of ours; {_kind(data)}")
    members = _members(data, where)
    content = strict_json.parse(members.pop(_CONTENT), where)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ModelFileError(f'{where}: {_CONTENT}: no unlatch model; "format" must be {FORMAT!r}')
    minor = checked_version(content, where)
    arrays = {_ARRAYS[name]: _array(member, f"{where}: {name}") for name, member in members.items()}
    if content.get("sha256") != _checksum(content, arrays):
        raise ModelFileError(f"{where}: the checksum does not match: the file was damaged or edited")
    for name, array in arrays.items():
        _put(content, name, array, where)
    try:
        return saved_from(content, noting_newer(content, minor))
    except UnlatchError as error:
        raise ModelFileError(f"{where}: {error}") from None


def _kind(data: bytes) -> str:
    if not data:
        return "the file is empty"
    return "pickle refused" if data[0] == 0x80 else f"it begins with {data[:8]!r}"


def _put(content: dict[str, Any], name: str, array: NDArray[Any], where: str) -> None:
    section, _, own = name.partition(".")
    place = content.get(section)
    if not isinstance(place, dict) or own in place:
        raise ModelFileError(f"{where}: {name} is an array of no section, or of one that has it already")
    place[own] = array


def _members(data: bytes, where: str) -> dict[str, bytes]:
    """The bytes of every member, none of which is compressed, encrypted, unknown or there twice."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            _check_members(infos, len(data), where)
            members = {info.filename: archive.read(info) for info in infos}
    except _ARCHIVE_ERRORS as error:
        raise ModelFileError(f"{where}: a damaged archive: {error}"[:300]) from None
    return members


def _check_members(infos: list[zipfile.ZipInfo], size: int, where: str) -> None:
    names = [info.filename for info in infos]
    for info in infos:
        if info.filename not in _ARRAYS and info.filename != _CONTENT:
            raise ModelFileError(f"{where}: a member {info.filename!r:.80}, which no model has")
        if info.flag_bits & 1:
            raise ModelFileError(f"{where}: {info.filename} is encrypted")
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise ModelFileError(
                f"{where}: {info.filename} is compressed; models are not, so that none can be a bomb"
            )
    if _CONTENT not in names or len(set(names)) < len(names):
        raise ModelFileError(f"{where}: the members {', '.join(names)[:200]} are not those of a model")
    if sum(info.file_size for info in infos) > size:
        raise ModelFileError(f"{where}: its members claim more bytes than the file has")


def _array(member: bytes, where: str) -> NDArray[Any]:
    """An array of doubles whose header says what its bytes are."""
    length = int.from_bytes(member[8:10], "little")
    header = member[10 : 10 + length]
    match = _HEADER.fullmatch(header) if member[:8] == _MAGIC else None
    if match is None:
        reason = "pickle refused: an array of objects" if _OBJECTS.search(header) else "no array of doubles"
        raise ModelFileError(f"{where}: {reason}")
    shape = tuple(int(part) for part in match[1].replace(b",", b" ").split())
    if 8 * math.prod(shape) != len(member) - 10 - length:
        raise ModelFileError(f"{where}: shape {shape} for {len(member) - 10 - length} bytes")
    return np.frombuffer(member, dtype="<f8", offset=10 + length).reshape(shape).astype(np.float64)
