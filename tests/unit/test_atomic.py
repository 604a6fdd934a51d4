"""Files are replaced whole or not at all, and only ordinary files are read."""

from __future__ import annotations

import errno
import os
import resource
import stat
from pathlib import Path

import pytest

from unlatch.errors import DataError, StorageError
from unlatch.files import atomic
from unlatch.files.atomic import atomic_writer, read_regular_file, reading, write_atomically


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_new_file_gets_the_permissions_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "new", b"text")
    finally:
        os.umask(before)
    assert (tmp_path / "new").read_bytes() == b"text"
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    assert names(tmp_path) == ["new"]


def test_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    target = tmp_path / "old"
    target.write_bytes(b"old")
    target.chmod(0o600)
    write_atomically(target, b"new")
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_relative_path_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_atomically("plain", b"x")
    assert names(tmp_path) == ["plain"]


def test_symbolic_link_is_replaced_and_its_target_left_alone(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"precious")
    (tmp_path / "link").symlink_to("target")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "target").read_bytes() == b"precious"
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "link").read_bytes() == b"new"


def test_order_is_flush_rename_flush_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    fsync, replace = os.fsync, os.replace

    def logged_fsync(descriptor: int) -> None:
        calls.append("fsync folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "fsync file")
        fsync(descriptor)

    def logged_replace(source: str, target: str) -> None:
        calls.append("replace")
        assert Path(source).read_bytes() == b"x"
        replace(source, target)

    monkeypatch.setattr(os, "fsync", logged_fsync)
    monkeypatch.setattr(os, "replace", logged_replace)
    write_atomically(tmp_path / "file", b"x")
    assert calls == ["fsync file", "replace", "fsync folder"]


@pytest.mark.parametrize("call", ["open", "fsync", "replace", "fchmod"])
def test_failing_system_call_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")

    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, call, fail)
        with pytest.raises(StorageError, match=r"file: cannot write: No space left on device"):
            write_atomically(target, b"new")
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_disk_that_fills_up_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        with pytest.raises(StorageError, match="File too large"):
            write_atomically(target, bytes(1 << 17))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_folder_that_cannot_be_flushed_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(folder: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(atomic, "_flush_directory", fail)
    with pytest.raises(StorageError, match="is in place, but may not survive a power cut: Input/output"):
        write_atomically(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_error_of_the_caller_passes_and_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    def fail_half_way() -> None:
        with atomic_writer(tmp_path / "file") as handle:
            handle.write(b"half")
            raise error

    with pytest.raises(error):
        fail_half_way()
    assert names(tmp_path) == []


def test_planted_temporary_file_is_neither_followed_nor_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda n: "known")
    (tmp_path / "victim").write_bytes(b"precious")
    planted = tmp_path / ".unlatch-known.tmp"
    planted.symlink_to("victim")
    with pytest.raises(StorageError, match="File exists"):
        write_atomically(tmp_path / "file", b"new")
    assert planted.is_symlink()
    assert (tmp_path / "victim").read_bytes() == b"precious"


def special(kind: str, folder: Path) -> str:
    path = folder / "special"
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to("special")
    return "/dev/zero" if kind == "device" else str(path)


KINDS = [
    ("directory", "a directory; an ordinary file is needed"),
    ("pipe", "a pipe; an ordinary file is needed"),
    ("device", "a device; an ordinary file is needed"),
    ("loop", "symbolic links"),
]


@pytest.mark.parametrize(("kind", "message"), [*KINDS, ("missing", "No such file")])
def test_only_ordinary_files_are_read(tmp_path: Path, kind: str, message: str) -> None:
    with pytest.raises(StorageError, match=message):
        read_regular_file(special(kind, tmp_path))


@pytest.mark.parametrize(("kind", "message"), KINDS)
def test_only_ordinary_files_are_replaced(tmp_path: Path, kind: str, message: str) -> None:
    with pytest.raises(StorageError, match=message):
        write_atomically(special(kind, tmp_path), b"x")
    assert names(tmp_path) in ([], ["special"])


@pytest.mark.parametrize("path", ["a\0b", "a\ud800b"])
def test_path_that_no_system_has(path: str) -> None:
    with pytest.raises(StorageError, match="no path of this system"):
        read_regular_file(path)
    with pytest.raises(StorageError, match="no path of this system"):
        write_atomically(path, b"x")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_permissions_are_respected(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    path.chmod(0o000)
    with pytest.raises(StorageError, match="Permission denied"):
        read_regular_file(path)
    path.chmod(0o444)
    with pytest.raises(StorageError, match="read-only"):
        write_atomically(path, b"y")


def test_read_only_file_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"old")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(StorageError, match="file: cannot write: the file is read-only"):
        write_atomically(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"


def test_read_gives_the_bytes_up_to_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    assert read_regular_file(path, largest=10) == b"0123456789"
    with pytest.raises(StorageError, match="10 bytes; at most 9"):
        read_regular_file(path, largest=9)


def grow(path: Path) -> None:
    with open(path, "ab") as handle:
        handle.write(b"more")


def rewrite(path: Path) -> None:
    path.write_bytes(b"other")
    os.utime(path, ns=(1, 1))


def exchange(path: Path) -> None:
    status = path.stat()
    path.with_name("other").write_bytes(b"first")
    os.utime(path.with_name("other"), ns=(status.st_atime_ns, status.st_mtime_ns))
    os.replace(path.with_name("other"), path)


@pytest.mark.parametrize("change", [grow, rewrite, exchange])
def test_change_while_reading_is_noticed(tmp_path: Path, change: object) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"first")
    with pytest.raises(StorageError, match="changed while reading"), reading(path):
        change(path)  # type: ignore[operator]


def test_change_while_reading_explains_an_error_of_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"first")

    def fail_over_a_growing_file() -> None:
        with reading(path):
            grow(path)
            raise DataError("something odd")

    with pytest.raises(StorageError, match="changed while reading"):
        fail_over_a_growing_file()
