"""Text that is unpacked while it is read (.gz, .zst), with a limit on what a small file may become."""

from __future__ import annotations

import gzip
import zlib
from functools import cache
from typing import Any, BinaryIO

from unlatch.errors import DataError, ResourceLimitError, UnlatchError
from unlatch.files.logs.arrow import arrow_library

__all__ = ["ENDINGS", "unpacked"]

ENDINGS = (".gz", ".zst")

BOMB_BYTES = 1 << 30
BOMB_RATIO = 250
"""A file that unpacks to more bytes than that, and to so many times its size, is refused."""


def unpacked(handle: BinaryIO, size: int, where: str) -> BinaryIO:
    """A stream of what ``handle``, a compressed file of ``size`` bytes, holds."""
    packed_by_gzip = where.lower().endswith(".gz")
    stream: Any = gzip.GzipFile(fileobj=handle, mode="rb") if packed_by_gzip else _zstd(handle, where)
    return _Unpacked(stream, size, where)  # type: ignore[return-value]


def _zstd(handle: BinaryIO, where: str) -> Any:
    library = _zstd_library()
    if library is not None:
        return library.ZstdFile(handle)
    pa = arrow_library(f"{where}: to unpack zstd")
    return _Filled(pa.CompressedInputStream(pa.OSFile(where), "zstd"))  # it would close our handle


@cache
def _zstd_library() -> Any:
    """Python has zstd from 3.14 on; pyarrow always."""
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return None
    return zstd


class _Filled:
    """Reads into memory of ours: what pyarrow takes to return bytes in, it loses where the stream is damaged."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def read(self, wanted: int) -> bytes:
        memory = bytearray(wanted)
        count = self._stream.readinto(memory)
        return bytes(memoryview(memory)[:count])


class _Unpacked:
    """Reads, and says in our words what is wrong with the file."""

    def __init__(self, stream: Any, size: int, where: str) -> None:
        self._stream = stream
        self._limit = max(BOMB_BYTES, BOMB_RATIO * size)
        self._size = size
        self._where = where
        self._done = 0

    def read(self, wanted: int) -> bytes:
        try:
            data: bytes = self._stream.read(wanted)
        except UnlatchError:
            raise
        except (OSError, EOFError, zlib.error, ValueError) as error:
            if isinstance(error, OSError) and error.errno:
                raise
            said = " ".join(str(error).split())[:200]
            raise DataError(
                f"{self._where}: cannot be unpacked: {said}; it is damaged or cut off: compress it anew"
            ) from None
        self._done += len(data)
        if self._done > self._limit:
            raise ResourceLimitError(
                f"{self._where}: {self._size} bytes became more than {self._limit}; if that is meant, unpack it first"
            )
        return data
