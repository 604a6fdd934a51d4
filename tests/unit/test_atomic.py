"""Files are replaced whole or not at all, and only ordinary files are read."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from unlatch.errors import DataError, StorageError, UsageError
from unlatch.files.atomic import atomic_writer, check_target, read_regular_file, reading, write_atomically


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def without_nameless_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system that knows no files without a name."""
    really = os.open

    def refusing(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return really(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", refusing)


@pytest.fixture(params=["nameless", "named"])
def temporary(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to write: to a file that has no name yet, and to a temporary one."""
    if request.param == "named":
        without_nameless_files(monkeypatch)
    return str(request.param)


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


@pytest.mark.parametrize("existed", [False, True])
def test_order_is_flush_rename_flush_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, temporary: str, existed: bool
) -> None:
    if existed:
        (tmp_path / "file").write_bytes(b"old")
    calls: list[str] = []
    fsync, replace, link = os.fsync, os.replace, os.link

    def logged_fsync(descriptor: int) -> None:
        calls.append("fsync folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "fsync file")
        fsync(descriptor)

    def logged_replace(source: str, target: str) -> None:
        calls.append("replace")
        assert Path(source).read_bytes() == b"x"
        replace(source, target)

    def logged_link(*args: Any, **more: Any) -> None:
        calls.append("link")
        link(*args, **more)

    monkeypatch.setattr(os, "fsync", logged_fsync)
    monkeypatch.setattr(os, "replace", logged_replace)
    monkeypatch.setattr(os, "link", logged_link)
    write_atomically(tmp_path / "file", b"x")
    named = {
        ("nameless", False): ["link"],
        ("nameless", True): ["link", "replace"],
        ("named", False): ["replace"],
        ("named", True): ["replace"],
    }
    assert calls == ["fsync file", *named[temporary, existed], "fsync folder"]
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("call", ["open", "fsync", "replace", "fchmod", "link"])
def test_failing_system_call_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, temporary: str, call: str
) -> None:
    if (temporary, call) == ("named", "link"):
        pytest.skip("a file that has a name is not linked")
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
    fsync = os.fsync

    def fail_for_folders(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, "Input/output error")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_for_folders)
    with pytest.raises(StorageError, match="is in place, but may not survive a power cut: Input/output"):
        write_atomically(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_error_of_the_caller_passes_and_leaves_nothing(
    tmp_path: Path, temporary: str, error: type[BaseException]
) -> None:
    def fail_half_way() -> None:
        with atomic_writer(tmp_path / "file") as handle:
            handle.write(b"half")
            raise error

    with pytest.raises(error):
        fail_half_way()
    assert names(tmp_path) == []


def test_planted_temporary_file_is_neither_followed_nor_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, temporary: str
) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda n: "beef")
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "victim").write_bytes(b"precious")
    planted = tmp_path / ".unlatch-beef.tmp"
    planted.symlink_to("victim")
    with pytest.raises(StorageError, match="File exists"):
        write_atomically(tmp_path / "file", b"new")
    assert planted.is_symlink()
    assert (tmp_path / "victim").read_bytes() == b"precious"
    assert (tmp_path / "file").read_bytes() == b"old"


def test_dangling_link_is_replaced(tmp_path: Path, temporary: str) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    write_atomically(tmp_path / "link", b"new")
    assert not (tmp_path / "link").is_symlink()
    assert names(tmp_path) == ["link"]


# --- what a killed writer leaves ---------------------------------------------------------------------------

WRITER = """
import os, sys
from unlatch.files.atomic import atomic_writer
if sys.argv[2] == "named":
    del os.O_TMPFILE
    import importlib, unlatch.files.atomic as module
    atomic_writer = importlib.reload(module).atomic_writer
with atomic_writer(sys.argv[1]) as handle:
    handle.write(b"half")
    handle.flush()
    print("writing", flush=True)
    sys.stdin.read()
"""


def writer(target: Path, kind: str) -> subprocess.Popen[bytes]:
    """A process that has written half a file, and waits."""
    command = [sys.executable, "-c", WRITER, str(target), kind]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"writing\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killed_writer_leaves_nothing(tmp_path: Path, number: int) -> None:
    with writer(tmp_path / "file", "nameless") as process:
        assert names(tmp_path) == []
        process.send_signal(number)
    assert names(tmp_path) == []


def test_leftover_of_a_killed_writer_is_removed_by_the_next(tmp_path: Path) -> None:
    with writer(tmp_path / "first", "named") as dead, writer(tmp_path / "second", "named") as living:
        assert len(names(tmp_path)) == 2
        dead.kill()
        dead.wait()
        write_atomically(tmp_path / "third", b"x")
        assert len(names(tmp_path)) == 2  # the third, and the temporary file of the living
        living.communicate()
    assert names(tmp_path) == ["second", "third"]
    assert (tmp_path / "second").read_bytes() == b"half"


def test_foreign_files_are_not_taken_for_leftovers(tmp_path: Path) -> None:
    kept = [".unlatch-notes.tmp", ".unlatch-12.txt", "unlatch-12.tmp", ".unlatch-.tmp"]
    for name in kept:
        (tmp_path / name).write_text("mine")
    (tmp_path / ".unlatch-12.tmp").mkdir()
    os.mkfifo(tmp_path / ".unlatch-13.tmp")
    write_atomically(tmp_path / "file", b"x")
    assert names(tmp_path) == sorted([*kept, ".unlatch-12.tmp", ".unlatch-13.tmp", "file"])


def test_temporary_file_that_was_taken_for_a_leftover_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fellow looks for leftovers in the instant between making the file and locking it."""
    without_nameless_files(monkeypatch)
    really, left = fcntl.flock, [1]

    def removed_just_before(descriptor: int, operation: int) -> None:
        if left.pop() if left else 0:
            (leftover,) = tmp_path.glob(".unlatch-*.tmp")
            leftover.unlink()
        really(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", removed_just_before)
    write_atomically(tmp_path / "file", b"x")
    assert (tmp_path / "file").read_bytes() == b"x"
    assert names(tmp_path) == ["file"]


# --- before the work begins --------------------------------------------------------------------------------


def test_target_that_can_be_written_is_accepted_and_nothing_is_left(tmp_path: Path, temporary: str) -> None:
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "log").write_bytes(b"log")
    for name in ("new", "old"):
        check_target(tmp_path / name, not_over=[tmp_path / "log", "-", tmp_path / "absent"])
    assert names(tmp_path) == ["log", "old"]
    assert (tmp_path / "old").read_bytes() == b"old"


def test_target_in_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"there is no folder .*nodir.*; make it first"):
        check_target(tmp_path / "nodir" / "m.json")
    (tmp_path / "plain").write_bytes(b"")
    with pytest.raises(StorageError, match="there is no folder"):
        check_target(tmp_path / "plain" / "m.json")
    with pytest.raises(StorageError, match="the name of a folder"):
        check_target(f"{tmp_path}/")


def test_target_in_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(*args: Any, **more: Any) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", refusing)
    with pytest.raises(StorageError, match="cannot write: Permission denied"):
        check_target(tmp_path / "file")


def test_target_of_another_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StorageError, match="a directory; an ordinary file is needed"):
        check_target(tmp_path)
    with pytest.raises(StorageError, match="a device"):
        check_target("/dev/null")
    (tmp_path / "old").write_bytes(b"old")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(StorageError, match="read-only"):
        check_target(tmp_path / "old")


@pytest.mark.parametrize("kind", ["itself", "dotted", "symbolic", "hard"])
def test_target_may_not_be_what_is_read(tmp_path: Path, kind: str) -> None:
    """``learn X.csv -o X.csv``, by whatever name."""
    log, target = tmp_path / "log.csv", tmp_path / "other.csv"
    log.write_bytes(b"log")
    if kind == "symbolic":
        target.symlink_to(log)
    elif kind == "hard":
        os.link(log, target)
    else:
        target = log if kind == "itself" else Path(f"{tmp_path}/../{tmp_path.name}/log.csv")
    with pytest.raises(UsageError, match=r"would be written over .*log\.csv, which is read"):
        check_target(target, not_over=[tmp_path / "absent", log])
    assert log.read_bytes() == b"log"


@pytest.mark.parametrize("path", [None, 3, 3.5, ["a"], object()])
def test_what_is_no_path_is_a_usage_error(path: Any) -> None:
    for use in (check_target, read_regular_file, lambda p: write_atomically(p, b"x")):
        with pytest.raises(UsageError, match=r"a path is text or a pathlib\.Path, got"):
            use(path)


def test_empty_path() -> None:
    for use in (check_target, read_regular_file, lambda p: write_atomically(p, b"x")):
        with pytest.raises(StorageError, match="the path is empty"):
            use("")


# --- what is no ordinary file ------------------------------------------------------------------------------


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
