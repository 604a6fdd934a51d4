"""The folder of a study on the disk, shared by any number of runners.

::

    study.json         what the units in here were computed from
    units/3f/ID.json   one file a finished unit; the same bytes whoever computed it, and when
    times/3f/ID.json   how long it took, how many attempts it needed: not the same in every run
    claims/ID.lock     exists while a runner works on the unit, held by a kernel lock that dies with the runner

A file is there whole or not at all, so a runner can be killed at any moment. Every unit carries the checksum of its
content: one that was damaged or edited is not a result, and is run again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from unlatch.errors import ModelFileError, StorageError
from unlatch.files import strict_json
from unlatch.files.atomic import write_atomically
from unlatch.study.jobs.units import Study, Unit, canonical_bytes

__all__ = ["Claim", "StudyFolder", "study_folder"]

_FORMAT = 2
"""Of units, times and ``study.json``; since 2 units and times have a checksum."""

_PATIENCE = 10.0
"""Seconds to wait for another runner that is just opening the folder."""


@contextmanager
def study_folder(study: Study, path: Path, *, force: bool = False) -> Iterator[StudyFolder]:
    """Open the folder of ``study`` at ``path``, make it if needed, and hold it open to fellow runners.

    A folder that holds another configuration is refused with `StorageError`, because results of two would
    be mixed. With ``force`` it is taken over: units whose function, parameters and seed are unchanged
    stay, the others are run again, and ``study.json`` remembers that it happened.
    """
    folder = StudyFolder(study, path)
    folder.make()
    with _opened(path / "study.lock") as lock:
        _enter(folder, lock, force)
        yield folder


class StudyFolder:
    """Where results of one study are kept; see the module for what lies where."""

    def __init__(self, study: Study, path: Path) -> None:
        self.study, self.path = study, path

    def make(self) -> None:
        """Make the folders; what is there already stays."""
        try:
            for name in ("units", "times", "claims"):
                (self.path / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"{self.path}: cannot make the folder: {error.strerror}") from None

    def result(self, unit: Unit) -> dict[str, Any] | None:
        """The content of the unit's file, or None if it is not finished.

        A file that is damaged, or was computed from other parameters, counts as absent.
        """
        content = _unsealed(self._file("units", unit))
        if content is None or not _is_result(content):
            return None
        return content if self._is_ours(content, unit) else None

    def is_damaged(self, unit: Unit) -> bool:
        """Whether there is a file that cannot be what a runner wrote: not whole, edited, or of no form."""
        path = self._file("units", unit)
        content = _read_json(path)
        if content is None:
            return os.path.lexists(path)
        if content.get("format") != _FORMAT:
            return type(content.get("format")) is not int
        return not _is_result(_unsealed(path) or {})

    def _is_ours(self, content: Mapping[str, Any], unit: Unit) -> bool:
        ours = (unit.id, self.study.fingerprint(unit))
        return (content["unit"], content["fingerprint"]) == ours

    def seconds(self, unit: Unit) -> dict[str, Any]:
        """Stage times of a finished unit, ``total`` and ``attempts`` among them; empty if unknown."""
        return _unsealed(self._file("times", unit)) or {}

    def record(self, unit: Unit, content: Mapping[str, Any], times: Mapping[str, Any]) -> None:
        """Write a unit's result. Times come first: a unit that is finished has them."""
        described = {
            "format": _FORMAT,
            "unit": unit.id,
            "fingerprint": self.study.fingerprint(unit),
            **content,
        }
        for kind, value in (("times", times), ("units", described)):
            target = self._file(kind, unit)
            with suppress(FileExistsError):
                os.mkdir(target.parent)
            write_atomically(target, canonical_bytes(_sealed(value)) + b"\n")

    def claim(self, unit: Unit) -> Claim | None:
        """The right to run a unit, or None if another runner has it."""
        return Claim.taken(self.path / "claims" / f"{unit.id}.lock")

    def holder(self, unit: Unit) -> str:
        """Who works on the unit, for people to read."""
        with suppress(OSError):
            return (self.path / "claims" / f"{unit.id}.lock").read_text().strip() or "a runner"
        return "a runner"

    def tidy(self) -> None:
        """Remove what killed runners left behind. Only for a runner that is alone."""
        leftovers = [*self.path.rglob(".unlatch-*.tmp"), *(self.path / "claims").glob("*.lock")]
        for path in leftovers:
            with suppress(OSError):
                path.unlink()

    def _file(self, kind: str, unit: Unit) -> Path:
        shard = hashlib.sha256(unit.id.encode()).hexdigest()[:2]
        return self.path / kind / shard / f"{unit.id}.json"

    # --- configuration ------------------------------------------------------------------------------------

    def stored(self) -> dict[str, Any]:
        """What ``study.json`` says; empty if there is none."""
        path = self.path / "study.json"
        content = _read_json(path)
        if content is None and not os.path.lexists(path):
            return {}
        kinds = {"hash": str, "configuration": dict, "history": list}
        if content is None or not all(isinstance(content.get(key), kind) for key, kind in kinds.items()):
            raise StorageError(f"{path}: damaged; move it away if the folder's results may be run again")
        return content

    def difference(self) -> str:
        """How the folder's configuration differs from ours, in words; empty if it does not."""
        stored = self.stored()
        if not stored or stored.get("hash") == self.study.hash:
            return ""
        there, here = stored["configuration"], self.study.configuration
        parts = [
            f"{key} is {_shown(there.get(key))} there and {_shown(here.get(key))} here"
            for key in dict.fromkeys([*there, *here])
            if there.get(key) != here.get(key)
        ]
        return (
            "; ".join(parts) or f"hash is {_shown(stored['hash'])} there and {_shown(self.study.hash)} here"
        )

    def store(self, overridden: str = "") -> None:
        """Write our configuration; ``overridden`` is the difference that a forced run went over."""
        stored = self.stored()
        if stored.get("hash") == self.study.hash:
            return
        history = [*stored.get("history", [])]
        if overridden:
            history.append({"forced": overridden, "before": stored["configuration"]})
        content = {"hash": self.study.hash, "configuration": self.study.configuration, "history": history}
        write_atomically(self.path / "study.json", json.dumps(content, indent=1).encode() + b"\n")


class Claim:
    """A kernel lock on a file of its own: gone with the process that took it, however that ended."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path, self._descriptor = path, descriptor

    @classmethod
    def taken(cls, path: Path) -> Claim | None:
        """Take the lock without waiting.

        A former holder removes the file while it still has the lock. Whoever opened the file before that
        and got the lock after holds a file without a name, which is no claim.
        """
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            raise StorageError(f"{path}: cannot lock: {error.strerror}") from None
        claim = cls(path, descriptor)
        if _locked(descriptor, fcntl.LOCK_EX) and claim._has_its_name():
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
            return claim
        os.close(descriptor)
        return None

    def _has_its_name(self) -> bool:
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._descriptor))
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Give the unit back, finished or not."""
        with suppress(OSError):
            os.unlink(self._path)
        os.close(self._descriptor)


# --- one runner or several -------------------------------------------------------------------------------


def _enter(folder: StudyFolder, lock: int, force: bool) -> None:
    """Agree on the configuration: who comes first settles it, who joins must have the same.

    The first has the folder to itself for a moment, to tidy up and write; then it shares it.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        if _locked(lock, fcntl.LOCK_EX):
            difference = folder.difference()
            _refuse(folder, difference if not force else "")
            folder.tidy()
            folder.store(difference)
        if _locked(lock, fcntl.LOCK_SH) and folder.stored():
            _refuse(folder, folder.difference(), " by the runner that is at work there")
            return
        if time.monotonic() > deadline:
            raise StorageError(f"{folder.path}: another runner keeps the folder locked; try again later")
        time.sleep(0.02)


def _refuse(folder: StudyFolder, difference: str, used: str = "") -> None:
    if difference:
        raise StorageError(
            f"{folder.path}: used{used} for another configuration: {difference}. Choose another folder, or "
            "force it, which keeps the units that did not change and records what differed"
        )


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise StorageError(f"{path}: cannot lock: {error.strerror}") from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _locked(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise StorageError(f"this file system cannot lock files: {error.strerror}") from None
    return True


def _read_json(path: Path) -> dict[str, Any] | None:
    """An object from a small file, or None if the file is absent or holds something else."""
    try:
        content = strict_json.parse(path.read_bytes(), str(path))
    except (OSError, ModelFileError):
        return None
    return content if isinstance(content, dict) else None


def _sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """With a checksum of all the rest."""
    return {**content, "sha256": hashlib.sha256(canonical_bytes(content)).hexdigest()}


def _unsealed(path: Path) -> dict[str, Any] | None:
    """The content of a file whose checksum is right, without it."""
    content = _read_json(path)
    if content is None:
        return None
    rest = {key: value for key, value in content.items() if key != "sha256"}
    return rest if content == _sealed(rest) else None


def _is_result(content: Mapping[str, Any]) -> bool:
    """Whether a unit's file has what everyone who reads it goes by."""
    if content.get("format") != _FORMAT or not {"unit", "fingerprint"} <= content.keys():
        return False
    if content.get("outcome") == "finished":
        rows = content.get("rows")
        return isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    limited = content.get("reason") != "timeout" or type(content.get("limit")) in (int, float)
    return content.get("outcome") == "failed" and isinstance(content.get("reason"), str) and limited


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:12] + '..."'
