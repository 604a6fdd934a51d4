"""What was done is kept: results of blocks in a folder, so that a run that was killed goes on where it was.

A result is found again by what it was made from: the task, the files of the block as they were, what the task was told,
the code of this library, and the versions of those that compute. It is a file of numbers and text with a checksum
(`written`), written whole or not at all; one that is damaged is made anew.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from unlatch.engines.engine import Block, Engine, Task
from unlatch.engines.written import fingerprint, read_back, written
from unlatch.errors import EngineError, StorageError, UnlatchError
from unlatch.files.arrays import read_arrays, write_arrays

__all__ = ["Remembered"]

_KIND = "unlatch-block"
_LIBRARIES = ("numpy", "scipy", "numba")


class Remembered:
    """Work by another engine, whose results are kept in a folder.

    A block that kills whoever works on it does not keep the others from being done: they are kept, and then the error
    tells all such blocks.

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
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"{self.folder}: cannot keep results there: {error.strerror}") from None

    def close(self) -> None:
        """Close the engine; what was kept stays."""
        if hasattr(self.engine, "close"):
            self.engine.close()

    def each(
        self, task: Task, blocks: Sequence[Block], arguments: Sequence[tuple[Any, ...]]
    ) -> Iterator[Any]:
        places = [self._place(task, block, given) for block, given in zip(blocks, arguments, strict=True)]
        missing = [number for number, place in enumerate(places) if _kept(place) is None]
        made = self._made(task, missing, blocks, arguments, places)
        waiting = set(missing)
        for number, place in enumerate(places):
            if number in waiting:
                yield next(made)
                continue
            kept = _kept(place)
            if kept is None:
                raise StorageError(f"{place}: was there and is gone; repeat the call")
            yield kept[0]

    def _made(
        self,
        task: Task,
        missing: Sequence[int],
        blocks: Sequence[Block],
        arguments: Sequence[tuple[Any, ...]],
        places: Sequence[Path],
    ) -> Iterator[Any]:
        """The results that were not there, each kept before it is given on."""
        poison: list[EngineError] = []
        done = 0
        while done < len(missing):
            rest = missing[done:]
            results = self.engine.each(task, [blocks[i] for i in rest], [arguments[i] for i in rest])
            try:
                for result in results:
                    _keep(places[missing[done]], result)
                    done += 1
                    if not poison:
                        yield result
            except EngineError as error:
                if error.block != blocks[missing[done]].name or not error.poison:
                    raise
                poison.append(error)
                done += 1
        if poison:
            raise _all_of(poison, self.folder)

    def _place(self, task: Task, block: Block, given: tuple[Any, ...]) -> Path:
        identity = getattr(block, "identity", block)  # of a block in files: these as they are
        made_from = (digest_of_the_code(), f"{task.__module__}.{task.__qualname__}", identity, given)
        return self.folder / f"{fingerprint(made_from)}.npz"


def _all_of(poison: Sequence[EngineError], folder: Path) -> EngineError:
    """One error for all blocks that killed their workers."""
    if len(poison) == 1:
        return EngineError(
            f"{poison[0]}. All other blocks are done, and kept in {folder}",
            block=poison[0].block,
            poison=True,
        )
    names = "; ".join(str(error.block) for error in poison)
    return EngineError(
        f"every worker that worked on one of {len(poison)} blocks died: {names}. All others are done, and kept in "
        f"{folder}. Leave these out, or look at them by themselves",
        block=poison[0].block,
        poison=True,
    )


def _keep(place: Path, result: Any) -> None:
    content, arrays = written(result)
    write_arrays(place, _KIND, {"result": content}, arrays)


def _kept(place: Path) -> tuple[Any] | None:
    """A result that is there, in a tuple; None if it is missing or damaged."""
    if not place.is_file():
        return None
    try:
        header, arrays = read_arrays(place, _KIND)
        return (read_back(header["result"], arrays),)
    except (UnlatchError, KeyError, TypeError, ValueError):
        return None


@cache
def digest_of_the_code() -> str:
    """Changes whenever code changes that a result could depend on."""
    found = hashlib.sha256("".join(f"{name} {version(name)}\n" for name in _LIBRARIES).encode())
    package = Path(str(files("unlatch")))
    for path in sorted(package.rglob("*.py")):
        found.update(str(path.relative_to(package)).encode())
        found.update(path.read_bytes())
    return found.hexdigest()
