"""Our own model files for large models: the content of the JSON files, with the arrays as bytes, in an NPZ archive.

NumPy opens such an archive too (``numpy.load(path)["pomdp.transitions"]``). Here it is read with the guards of
`files.arrays`: nothing is compressed, so that no file can become larger than it is; nothing is unpickled or put on the
disk; names are those that this module writes and no others. A SHA-256 of the whole content is in the file, so that no
flipped bit goes unnoticed.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unlatch.errors import DataError, ModelFileError, ResourceLimitError, UnlatchError
from unlatch.files import strict_json
from unlatch.files.arrays import members_of, refusing_damage, stored_array, write_archive
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
    write_archive(
        stream,
        {
            _CONTENT: (strict_json.pretty(content) + "\n").encode(),
            **{f"{name}.npy": np.asarray(array, dtype="<f8") for name, array in arrays.items()},
        },
    )
    data = stream.getvalue()
    try:
        read_npz(data, where)
    except ModelFileError as error:
        raise DataError(f"not written, because it could not be loaded again: {error}") from None
    return data


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
    try:
        with refusing_damage(where, "NPZ", "save the model anew"):
            content, arrays, minor = _parts(data, where)
    except DataError as error:
        raise ModelFileError(str(error)) from None
    if content.get("sha256") != _checksum(content, arrays):
        raise ModelFileError(f"{where}: the checksum does not match: the file was damaged or edited")
    for name, array in arrays.items():
        _put(content, name, array, where)
    try:
        return saved_from(content, noting_newer(content, minor))
    except UnlatchError as error:
        raise ModelFileError(f"{where}: {error}") from None


def _parts(data: bytes, where: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]], int]:
    """The content, the arrays and how much newer the file is than this program."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = members_of(archive, where, stored=True, others=(_CONTENT,))
        for name in members:
            if name not in _ARRAYS and name != _CONTENT:
                raise DataError(f"{where}: a member {name!r:.80}, which no model has")
        if _CONTENT not in members:
            raise DataError(f"{where}: the members {', '.join(members)[:200]} are not those of a model")
        if sum(info.file_size for info in members.values()) > len(data):
            raise DataError(f"{where}: its members claim more bytes than the file has")
        content = strict_json.parse(archive.read(members.pop(_CONTENT)), where)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ModelFileError(f'{where}: {_CONTENT}: no unlatch model; "format" must be {FORMAT!r}')
        minor = checked_version(content, where)
        arrays = {_ARRAYS[name]: _doubles(archive, info, where) for name, info in members.items()}
    return content, arrays, minor


def _doubles(archive: zipfile.ZipFile, info: zipfile.ZipInfo, where: str) -> NDArray[Any]:
    array = stored_array(archive, info, where)
    if array.dtype.str != "<f8":
        raise DataError(f"{where}: {info.filename}: holds {array.dtype}; expected doubles")
    return array.astype(np.float64)


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
