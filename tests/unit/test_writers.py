"""Every writer, whole or not at all: a disk that is full, a file that may not be written, a process that is killed."""

from __future__ import annotations

import ast
import errno
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import unlatch
import writers
from unlatch.errors import StorageError
from writers import IN_FOLDERS, WRITERS

SOURCE = Path(unlatch.__file__).parent
DOOR = "files/atomic.py"
OTHERS_THAT_WRITE = {
    "kernels/_jit.py": "compiled code, whose files have a checksum each",
    "study/jobs/folder.py": "locks, which hold nothing",
    "show/screen.py": "the null device, after the reader of our output has gone",
}
"""Modules that open files for writing themselves, and what."""


@pytest.fixture(params=WRITERS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def path(tmp_path: Path, name: str) -> Iterator[Path]:
    """An older file, which is still there at the end, and nothing else."""
    target = tmp_path / name
    WRITERS[name][1](target)  # imports what it needs, and makes what it reads
    assert target.stat().st_size > 32
    target.write_bytes(b"old")
    yield target
    assert target.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_whatever_fails_leaves_the_old_file(path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fills up, system calls that fail, a file that is read-only, a folder that is not there."""
    write = WRITERS[name][1]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (32, hard))
    try:
        with pytest.raises(StorageError, match=name):
            write(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == b"old"

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    for call in ("fsync", "replace", "fchmod", "link"):
        with monkeypatch.context() as patched:
            patched.setattr(os, call, fail)
            with pytest.raises(StorageError, match=name):
                write(path)
        assert path.read_bytes() == b"old"
    with monkeypatch.context() as patched:
        patched.setattr(os, "access", lambda _, mode: mode != os.W_OK)  # a superuser has every permission
        with pytest.raises(StorageError, match=name):
            write(path)
    with pytest.raises(StorageError, match=name):
        write(path.parent / "nowhere" / name)


def test_a_killed_writer_leaves_the_old_file(tmp_path: Path) -> None:
    program = [sys.executable, writers.__file__, tmp_path]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert "FAULT" not in done.stdout
    assert done.stdout.endswith("done\n")


# ---------------------------------------------------------------- the one door


@cache
def modules() -> dict[str, ast.Module]:
    return {file.relative_to(SOURCE).as_posix(): ast.parse(file.read_text()) for file in SOURCE.rglob("*.py")}


def calls(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """The last name of what is called, and the call."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function: Any = node.func
            yield getattr(function, "attr", getattr(function, "id", "")), node


def test_every_caller_of_the_door_is_tested() -> None:
    through = {
        name
        for name, tree in modules().items()
        if name != DOOR and any(called in ("write_atomically", "atomic_writer") for called, _ in calls(tree))
    }
    assert through == {module for module, _ in WRITERS.values()} | set(IN_FOLDERS)
    tests = Path(__file__).parent.parent.parent
    for module, test in IN_FOLDERS.items():
        assert (tests / test).exists(), module


def test_nothing_is_written_by_another_door() -> None:
    found = {
        name for name, tree in modules().items() if any(writes(called, node) for called, node in calls(tree))
    }
    assert found - {DOOR} == set(OTHERS_THAT_WRITE)


def writes(called: str, node: ast.Call) -> bool:
    """Whether a call opens a file for writing, or moves one, as far as can be seen."""
    spelled = ast.unparse(node)
    if called in (
        "write_text",
        "write_bytes",
        "rename",
        "tofile",
        "save",
        "savez",
        "savez_compressed",
        "savetxt",
    ):
        return not spelled.startswith(("self.", "sys."))
    if spelled.startswith(("os.rename", "os.replace", "os.link", "os.symlink", "shutil.copy", "shutil.move")):
        return True
    if called in ("_open_for_write", "NamedTemporaryFile", "mkstemp"):
        return True
    if spelled.startswith("os.open("):
        return any(flag in spelled for flag in ("O_WRONLY", "O_RDWR", "O_CREAT"))
    if called == "open" and not spelled.startswith(
        "archive.open("
    ):  # a member of an archive that is being written
        modes = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
        texts = [
            mode.value for mode in modes if isinstance(mode, ast.Constant) and isinstance(mode.value, str)
        ]
        return any(set(text) & set("wax+") and set(text) <= set("rwaxbt+") for text in texts)
    return False


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("open(path, 'wb')", True),
        ("path.open(mode='a')", True),
        ("open(path, 'rb')", False),
        ("open(path)", False),
        ("path.write_text('x')", True),
        ("np.save(path, array)", True),
        ("os.open(path, os.O_RDONLY)", False),
        ("os.open(path, os.O_WRONLY)", True),
        ("os.replace(a, b)", True),
    ],
)
def test_the_test_of_the_door_would_notice(text: str, expected: bool) -> None:
    [(called, node)] = list(calls(ast.parse(text)))[:1]
    assert writes(called, node) is expected
