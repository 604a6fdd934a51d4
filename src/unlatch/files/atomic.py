"""Files written whole or not at all, and reading that takes only ordinary files.

Whatever goes wrong (a full disk, a kill, a permission), a file that was there before stays as it was, and
the error is a `StorageError` that names the path.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from unlatch.errors import StorageError, UnlatchError

__all__ = ["PathLike", "atomic_writer", "read_regular_file", "reading", "write_atomically"]

PathLike = str | os.PathLike[str]

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_OPEN = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def write_atomically(path: PathLike, data: bytes) -> None:
    """Replace the file at ``path`` by ``data``, or leave it untouched and raise `StorageError`."""
    with atomic_writer(path) as handle:
        handle.write(data)


@contextmanager
def atomic_writer(path: PathLike) -> Iterator[BinaryIO]:
    """A binary handle whose content takes the place of ``path`` once the block ends without an error.

    The content goes to a new file beside the target, is flushed to the disk, and is then renamed, so
    that a reader sees the old file or the new one and nothing else. The permissions are those of
    the file that is replaced, else what the umask gives. A symbolic link is replaced, not followed.
    """
    target = _checked_path(path)
    directory = os.path.dirname(target) or "."
    temporary = os.path.join(directory, f".unlatch-{secrets.token_hex(16)}.tmp")
    with _storage_errors(f"{target}: cannot write"):
        mode = _mode_of_target(target)
        descriptor = os.open(temporary, _CREATE, 0o666)
        try:
            with os.fdopen(descriptor, "wb") as handle:
                if mode is not None and os.name != "nt":
                    os.fchmod(descriptor, mode)
                yield handle
                handle.flush()
                os.fsync(descriptor)
            os.replace(temporary, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    with _storage_errors(f"{target}: the new content is in place, but may not survive a power cut"):
        _flush_directory(directory)


def _mode_of_target(target: str) -> int | None:
    """Permissions of the file that will be replaced; what is no file (``/dev/null``) is never replaced."""
    try:
        status = os.stat(target)
    except FileNotFoundError:
        return None
    _refuse_special(target, status)
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "the file is read-only")
    return stat.S_IMODE(status.st_mode) & 0o777


def _flush_directory(directory: str) -> None:
    """Make the rename durable, where the system has a way to."""
    if os.name == "nt":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # file systems that cannot flush a directory say so
            raise
    finally:
        os.close(descriptor)


def read_regular_file(path: PathLike, *, largest: int | None = None) -> bytes:
    """The bytes of an ordinary file of at most ``largest`` bytes."""
    with reading(path) as (handle, size):
        if largest is not None and size > largest:
            raise StorageError(f"{os.fspath(path)}: {size} bytes; at most {largest} are read")
        return handle.read(size)


@contextmanager
def reading(path: PathLike) -> Iterator[tuple[BinaryIO, int]]:
    """Open an ordinary file for reading; gives the handle and the size in bytes.

    Pipes, devices and directories are refused, since their end may never come. If the file is written to or
    replaced before the block ends, what was read is a mixture, and a `StorageError` says so.
    """
    name = _checked_path(path)
    with _storage_errors(f"{name}: cannot read"):
        _refuse_special(name, os.stat(name))  # before opening: to open some devices is to act on them
        with open(os.open(name, _OPEN), "rb") as handle:
            before = os.fstat(handle.fileno())
            _refuse_special(name, before)
            try:
                yield handle, before.st_size
            except UnlatchError:
                _refuse_changed(name, before, handle.fileno())
                raise
            _refuse_changed(name, before, handle.fileno())


def _refuse_special(name: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = next((kind for test, kind in _KINDS if test(status.st_mode)), "something else")
        raise StorageError(f"{name}: {kind}; an ordinary file is needed")


def _refuse_changed(name: str, before: os.stat_result, descriptor: int) -> None:
    """Compare the open file, and whatever now stands under its name, with the file as it was opened."""
    for now in (os.fstat(descriptor), os.stat(name)):
        if _identity(now) != _identity(before):
            raise StorageError(
                f"{name}: changed while reading; wait until its writer is done, then read it again"
            )


def _identity(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _checked_path(path: PathLike) -> str:
    """The path as text that the system can take."""
    name = os.fsdecode(path)
    try:
        if b"\0" not in os.fsencode(name):
            return name
    except UnicodeEncodeError:
        pass
    raise StorageError(f"{name!r}: no path of this system has such characters")


@contextmanager
def _storage_errors(failing: str) -> Iterator[None]:
    """Turn the system's errors into a `StorageError` that says what failed, where and why."""
    try:
        yield
    except UnlatchError:
        raise
    except OSError as error:
        raise StorageError(f"{failing}: {error.strerror or error}") from None
