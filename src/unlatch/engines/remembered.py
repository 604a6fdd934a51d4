"""What was done is kept: results of blocks in a folder, so that a run that was killed goes on where it was.

A result is found again by what it was made from: the task, the files of the block as they were, what the task was told,
and the version. It is written whole or not at all, with a checksum; one that is damaged is made anew. Results are
Python objects: the folder must be one that nobody else can write to, and others are refused.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import stat
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from unlatch.engines.engine import Block, Engine, Task
from unlatch.errors import StorageError
from unlatch.files.atomic import write_atomically

__all__ = ["Remembered"]

_DIGEST = 32


class Remembered:
    """Work by another engine, whose results are kept in a folder.

    Parameters
    ----------
    engine : Engine
    folder : path
        Made if it is not there. Any number of runs may share it, one after the other or at a time.
    """

    remote = True

    def __init__(self, engine: Engine, folder: str | os.PathLike[str]) -> None:
        self.engine, self.folder = engine, Path(folder)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = self.folder.stat()
        except OSError as error:
            raise StorageError(f"{self.folder}: cannot keep results there: {error.strerror}") from None
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or found.st_uid != os.getuid():
            raise StorageError(
                f"{self.folder}: others can write to it, and what is kept there is run as it is read; choose a folder "
                f"of your own, or forbid it: chmod 700 {self.folder}"
            )

    def close(self) -> None:
        """Close the engine; what was kept stays."""
        if hasattr(self.engine, "close"):
            self.engine.close()

    def each(
        self, task: Task, blocks: Sequence[Block], arguments: Sequence[tuple[Any, ...]]
    ) -> Iterator[Any]:
        places = [self._place(task, block, given) for block, given in zip(blocks, arguments, strict=True)]
        missing = [number for number, place in enumerate(places) if _sealed_in(place) is None]
        made = self.engine.each(task, [blocks[i] for i in missing], [arguments[i] for i in missing])
        waiting = set(missing)
        for number, place in enumerate(places):
            if number in waiting:
                result = next(made)
                data = pickle.dumps(result)
                write_atomically(place, _digest(data) + data)
                yield result
            else:
                kept = _sealed_in(place)
                if kept is None:
                    raise StorageError(f"{place}: was there and is gone; repeat the call")
                yield pickle.loads(kept)

    def _place(self, task: Task, block: Block, given: tuple[Any, ...]) -> Path:
        identity = getattr(block, "identity", block)  # of a block in files: these as they are
        made_from = (version("unlatch"), f"{task.__module__}.{task.__qualname__}", identity, given)
        return self.folder / f"{_digest(pickle.dumps(made_from)).hex()}.result"


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST).digest()


def _sealed_in(place: Path) -> bytes | None:
    """What a file holds behind its checksum; None if it is missing or damaged."""
    try:
        content = place.read_bytes()
    except OSError:
        return None
    data = content[_DIGEST:]
    return data if content[:_DIGEST] == _digest(data) else None
