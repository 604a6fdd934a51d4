"""Text files of any encoding as blocks of UTF-8 bytes, so that the kernels know one encoding only."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import BinaryIO

from unlatch.core.progress import report
from unlatch.errors import DataError, ResourceLimitError, StorageError, UnlatchError, UsageError

__all__ = ["checked_encoding", "utf8_blocks"]

BLOCK_BYTES = 1 << 20
"""Read at once: so few that they stay in the processor's cache while they are looked at, and as many as make what is
done once a block not count."""

_FOREIGN = (
    (
        b"\x1f\x8b",
        "compressed by gzip; a file is read as such if its name ends in .gz, a stream decompress first",
    ),
    (
        b"PK\x03\x04",
        "a zip archive; if it holds arrays of NumPy, give it a name that ends in .npz, else extract it first",
    ),
    (
        b"\x28\xb5\x2f\xfd",
        "compressed by zstd; a file is read as such if its name ends in .zst, a stream decompress first",
    ),
    (b"\xfd7zXZ\x00", "compressed by xz; decompress it first"),
    (b"PAR1", "a Parquet file; give it a name that ends in .parquet"),
    (b"ARROW1\x00\x00", "an Arrow file; give it a name that ends in .feather"),
    (b"\x93NUMPY", "a NumPy array; give it a name that ends in .npy"),
)


def checked_encoding(encoding: str) -> str:
    """The canonical name of a text encoding that Python knows."""
    try:
        "".encode(encoding)
        codecs.getincrementaldecoder(encoding)
        return codecs.lookup(encoding).name
    except (LookupError, UnicodeError, ValueError, TypeError):
        raise UsageError(f"unknown encoding {encoding!r:.80}; try utf-8, latin-1 or utf-16") from None


def utf8_blocks(handle: BinaryIO, size: int | None, encoding: str, where: str) -> Iterator[bytes]:
    """The first ``size`` bytes of ``handle``, or all of a stream, as UTF-8, block by block, without a byte
    order mark.

    A character that the end of the file cuts short leaves some bytes or a replacement character, so that
    its line is seen to be truncated.
    """
    decoder = codecs.getincrementaldecoder(encoding)()
    done = 0
    while raw := _block(handle, BLOCK_BYTES if size is None else min(BLOCK_BYTES, size - done), where):
        if done == 0:
            _refuse_foreign(raw, where)
        block = _converted(raw, done, decoder, encoding, where)
        yield block.removeprefix(codecs.BOM_UTF8) if done == 0 else block
        done += len(raw)
        if size is not None:
            report("reading", done, size)
    if encoding != "utf-8" and decoder.getstate()[0]:
        yield "\ufffd".encode()


def _block(handle: BinaryIO, wanted: int, where: str) -> bytes:
    """As many bytes as are wanted, fewer at the end only: a stream may give them in pieces."""
    pieces: list[bytes] = []
    while wanted > 0 and (piece := _piece(handle, wanted, where)):
        pieces.append(piece)
        wanted -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _piece(handle: BinaryIO, wanted: int, where: str) -> bytes:
    try:
        piece: object = handle.read(wanted)
    except (OSError, UnlatchError):
        raise
    except MemoryError:
        raise ResourceLimitError(f"{where}: out of memory while it was read") from None
    except Exception as error:  # the object is the caller's: closed, or a decompressor with errors of its own
        raise StorageError(f"{where}: cannot read: {type(error).__name__}: {error}") from None
    if piece is None:
        raise StorageError(
            f"{where}: cannot read: nothing has come yet; give a stream that waits for its data"
        )
    if not isinstance(piece, bytes):
        raise UsageError(f"{where}: gives {type(piece).__name__}, not bytes; open it in binary mode")
    return piece


def _converted(raw: bytes, done: int, decoder: codecs.IncrementalDecoder, encoding: str, where: str) -> bytes:
    pending = len(decoder.getstate()[0])
    if encoding == "utf-8" and not pending and raw.isascii():
        return raw
    try:
        text = decoder.decode(raw)
        return raw if encoding == "utf-8" else text.encode()
    except UnicodeError as error:
        start = getattr(error, "start", 0)
        raise DataError(
            f"{where}: byte {done - pending + start} is not {encoding}; {_encoding_hint(raw, encoding)}"
        ) from None


def _encoding_hint(raw: bytes, encoding: str) -> str:
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "it begins like UTF-16: encoding='utf-16' (--encoding utf-16)"
    guess = "latin-1" if encoding == "utf-8" else "utf-8"
    return f"name the encoding that it was written in, such as encoding={guess!r} (--encoding {guess})"


def _refuse_foreign(raw: bytes, where: str) -> None:
    for magic, remedy in _FOREIGN:
        if raw.startswith(magic):
            raise DataError(f"{where}: not a table of text but {remedy}")
