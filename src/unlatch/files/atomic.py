"""Files written whole or not at all, and reading that takes only ordinary files.

Whatever goes wrong (a full disk, a kill, a permission), a file that was there before stays as it was, and
the error is a `StorageError` that names the path.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from unlatch.errors import StorageError, UnlatchError, UsageError

if sys.platform != "win32":
    import fcntl

__all__ = [
    "PathLike",
    "atomic_writer",
    "check_target",
    "checked_path",
    "read_regular_file",
    "reading",
    "storage_errors",
    "write_atomically",
]

PathLike = str | os.PathLike[str]

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_OPEN = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NAMELESS = getattr(os, "O_TMPFILE", None)
_NO_NAMELESS_FILES = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)
"""What file systems and kernels answer that know no files without a name."""

_TEMPORARY = re.compile(r"\.unlatch-[0-9a-f]{1,32}\.tmp")

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

    The content goes to a new file in the same folder, is flushed to the disk, and only then gets the name, so
    that a reader sees the old file or the new one and nothing else. The permissions are those of
    the file that is replaced, else what the umask gives. A symbolic link is replaced, not followed.

    Where the system has files without a name (Linux), a writer that is killed leaves nothing behind. Elsewhere, and in
    the instant between naming and replacing, it leaves a temporary file, which the next write in that folder removes.
    """
    target = checked_path(path)
    directory = os.path.dirname(target) or "."
    with storage_errors(f"{target}: cannot write"):
        mode = _mode_of_target(target)
        _sweep(directory)
        with _temporary(directory) as (descriptor, name):
            if mode is not None and os.name != "nt":
                os.fchmod(descriptor, mode)
            with os.fdopen(descriptor, "wb", closefd=os.name == "nt") as handle:
                yield handle
                handle.flush()
                os.fsync(descriptor)
            _put_in_place(descriptor, name, target, replaces=mode is not None)
    with storage_errors(f"{target}: the new content is in place, but may not survive a power cut"):
        _flush_directory(directory)


def check_target(path: PathLike, *, not_over: Iterable[PathLike] = ()) -> None:
    """Refuse, before any work is done, a path that could not be written when the work is over.

    Parameters
    ----------
    path : where a file will be written
    not_over : paths
        Files that are read and must stay: ``path`` may not be one of them, be it by another name, through a symbolic
        link or as a hard link. What does not exist is passed over.

    Raises
    ------
    StorageError
        If the folder does not exist or cannot be written to, or ``path`` is a directory, a device, a pipe or read-only.
    UsageError
        If ``path`` is one of ``not_over``, or no path at all.
    """
    target = checked_path(path)
    directory, file_name = os.path.split(target)
    if not file_name:
        raise StorageError(f"{target}: the name of a folder; name the file to write inside it")
    if not os.path.isdir(directory or "."):
        raise StorageError(f"{target}: cannot write: there is no folder {directory!r}; make it first")
    for other in map(checked_path, not_over):
        if _is_same_file(target, other):
            raise UsageError(f"{target}: would be written over {other}, which is read; choose another name")
    with storage_errors(f"{target}: cannot write"):
        _mode_of_target(target)
        with _temporary(directory or "."):
            pass


def _is_same_file(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them does not exist, or may not be looked at: then it is not read either
        return False


# --- a file to write to, until it gets its name -----------------------------------------------------------


@contextmanager
def _temporary(directory: str) -> Iterator[tuple[int, str | None]]:
    """A new locked file in a folder, and its name if it has one; gone at the end unless it got another."""
    descriptor, name = _created(directory)
    try:
        yield descriptor, name
    finally:
        if name is not None:
            with suppress(OSError):
                os.unlink(name)
        with suppress(OSError):
            os.close(descriptor)


def _created(directory: str) -> tuple[int, str | None]:
    """A descriptor, and a name where the system has no files without one.

    A file with a name could be taken for a leftover before it is locked; whoever did so removed it, and we try again.
    """
    descriptor = _nameless(directory)
    if descriptor is not None:
        _lock(descriptor)
        return descriptor, None
    while True:
        name = _temporary_name(directory)
        descriptor = os.open(name, _CREATE, 0o666)
        _lock(descriptor)
        if _is_named(descriptor, name):
            return descriptor, name
        os.close(descriptor)


def _nameless(directory: str) -> int | None:
    """A file without a name, if the system has such and a way to name it later."""
    if _NAMELESS is None or not os.path.isdir("/proc/self/fd"):
        return None
    try:
        return os.open(directory, _NAMELESS | os.O_WRONLY, 0o666)
    except OSError as error:
        if error.errno in _NO_NAMELESS_FILES:
            return None
        raise


def _temporary_name(directory: str) -> str:
    return os.path.join(directory, f".unlatch-{secrets.token_hex(16)}.tmp")


def _put_in_place(descriptor: int, name: str | None, target: str, *, replaces: bool) -> None:
    """Give the finished file its name. A link makes a new name at once; an old one is replaced by renaming."""
    if name is None and not replaces:
        with suppress(FileExistsError):  # somebody made it meanwhile, or it is a dangling symbolic link
            _link(descriptor, target)
            return
    if name is None:
        name = _temporary_name(os.path.dirname(target) or ".")
        _link(descriptor, name)
    try:
        os.replace(name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def _link(descriptor: int, name: str) -> None:
    """Name an open file. Only with ``src_dir_fd`` (of no use here otherwise) does Python follow the link in /proc."""
    os.link(f"/proc/self/fd/{descriptor}", name, src_dir_fd=descriptor, follow_symlinks=True)


# --- leftovers of writers that were killed ----------------------------------------------------------------


def _lock(descriptor: int) -> None:
    """Mark the file as being written; the mark goes with the process. Not every file system can."""
    if sys.platform != "win32":
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)


def _sweep(directory: str) -> None:
    """Remove temporary files that no writer holds a lock on."""
    if sys.platform == "win32":
        return
    with suppress(OSError):
        for name in os.listdir(directory):
            if _TEMPORARY.fullmatch(name):
                _remove_abandoned(os.path.join(directory, name))


def _remove_abandoned(name: str) -> None:
    with suppress(OSError):  # a symbolic link, another user's file, gone already, or locked
        descriptor = os.open(name, _OPEN | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if stat.S_ISREG(os.fstat(descriptor).st_mode) and _is_named(descriptor, name):
                os.unlink(name)
        finally:
            os.close(descriptor)


def _is_named(descriptor: int, name: str) -> bool:
    try:
        return os.path.samestat(os.lstat(name), os.fstat(descriptor))
    except FileNotFoundError:
        return False


# --- what stands in the way -------------------------------------------------------------------------------


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
    name = checked_path(path)
    with storage_errors(f"{name}: cannot read"):
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


def checked_path(path: object) -> str:
    """The path as text that the system can take, or an error that says why it is none."""
    if not isinstance(path, str | bytes | os.PathLike):
        raise UsageError(f"a path is text or a pathlib.Path, got {type(path).__name__}")
    name = os.fsdecode(path)
    if not name:
        raise StorageError("the path is empty; name a file")
    try:
        if b"\0" not in os.fsencode(name):
            return name
    except UnicodeEncodeError:
        pass
    raise StorageError(f"{name!r}: no path of this system has such characters")


@contextmanager
def storage_errors(failing: str) -> Iterator[None]:
    """Turn the system's errors into a `StorageError` that says what failed, where and why."""
    try:
        yield
    except UnlatchError:
        raise
    except OSError as error:
        raise StorageError(f"{failing}: {error.strerror or error}") from None
