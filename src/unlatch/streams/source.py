"""Logs that are not in memory: read block by block, as often as needed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from unlatch.core.chunks import LogChunk, concatenated
from unlatch.errors import DataError, StorageError, UsageError
from unlatch.files.atomic import checked_path
from unlatch.files.logs.portions import DIVISIBLE, row_count, some_rows
from unlatch.files.logs.read import iterate_log
from unlatch.files.logs.sources import parts_of

__all__ = [
    "BLOCK",
    "Edges",
    "FileBlock",
    "HeldBlock",
    "LogFiles",
    "Span",
    "file_blocks",
    "known_beginnings",
    "spans_of",
]

BLOCK = 1 << 20
"""Steps of a block: a few megabytes, and as many as most writers of Parquet put into a row group."""

SPANS, _BLOCKS_OF_A_SPAN = 16, 16
"""Spans that a log is cut into at least, and blocks of one of them at most: half a second of counting."""

_LEAST = 1 << 12
"""Steps of a last block that is a block of its own; fewer go with the one before."""

_ONE_AFTER_ANOTHER = ("sort", "autoreset", "missing")


@dataclass(frozen=True)
class Edges:
    """What the first and the last row of a block say about episodes."""

    first: str | None
    last: str | None
    ended: bool


@dataclass(frozen=True, eq=False)
class FileBlock:
    """Some rows of one file (Parquet, NPY) or of several that follow each other. Small: it holds no data.

    Attributes
    ----------
    start : int
        How many steps of the log come before.
    parts : tuple of (path, first row, rows)
    options : mapping
        Of `read_log`.
    continues : bool
        Whether its first step goes on with the episode before.
    """

    start: int
    parts: tuple[tuple[str, int, int], ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    continues: bool = False

    @property
    def name(self) -> str:
        """The files and rows, as messages call them."""
        return "; ".join(f"{path}, rows {first} to {first + rows - 1}" for path, first, rows in self.parts)

    @property
    def identity(self) -> Any:
        """The rows, the files as they are on the disk, and how they are read."""
        files = []
        for path, *rows in self.parts:
            try:
                found = os.stat(path)
            except OSError as error:
                raise StorageError(f"{path}: {error.strerror}") from None
            files.append((os.path.abspath(path), *rows, found.st_size, found.st_mtime_ns))
        return self.start, tuple(files), sorted(self.options.items()), self.continues

    def __len__(self) -> int:
        return sum(rows for _, _, rows in self.parts)

    def read(self) -> LogChunk:
        """Its steps, in alphabets of their own."""
        return self.read_with_edges()[0]

    def read_with_edges(self) -> tuple[LogChunk, Edges]:
        """Its steps, and what its first and last rows say about episodes."""
        tables = [some_rows(*part, self.options) for part in self.parts]
        chunks = list(iterate_log(tables, chunk=max(len(self), 1), **self.options))
        if len(chunks) != 1 or len(chunks[0]) != len(self):
            raise DataError(
                f"{self.name}: {sum(map(len, chunks))} steps in {len(self)} rows; rows that are no steps (first "
                "observations, gaps) can be read by this process only: leave the engine out"
            )
        piece = chunks[0]
        starts = piece.episode_starts[1:] if self.continues else piece.episode_starts
        begin, end = tables[0].slice(0, 1), tables[-1].slice(len(tables[-1]) - 1, 1)
        edges = Edges(self._cell(begin, "episode"), self._cell(end, "episode"), self._ended(end))
        return replace(piece, start=self.start, episode_starts=starts), edges

    def _cell(self, table: Any, role: str) -> str | None:
        name = self.options.get(role, role)
        if name is None or name not in table.column_names:
            return None
        return str(table.column(name)[0].as_py())

    def _ended(self, table: Any) -> bool:
        told = (self._cell(table, role) for role in ("terminated", "truncated"))
        return any(
            cell is not None and cell.lower() in ("true", "t", "yes", "y", "1", "1.0") for cell in told
        )


@dataclass(frozen=True, eq=False)
class Span:
    """Blocks that follow each other, for work whose result is not larger for several of them."""

    blocks: tuple[FileBlock, ...]

    @property
    def name(self) -> str:
        """The files and rows, as messages call them."""
        return replace(self.blocks[0], parts=self._parts()).name

    def _parts(self) -> tuple[tuple[str, int, int], ...]:
        found: list[tuple[str, int, int]] = []
        for path, first, rows in (part for block in self.blocks for part in block.parts):
            if found and found[-1][0] == path:
                found[-1] = (path, found[-1][1], found[-1][2] + rows)
            else:
                found.append((path, first, rows))
        return tuple(found)

    @property
    def identity(self) -> Any:
        """Of its blocks."""
        return tuple(block.identity for block in self.blocks)

    def read(self) -> Iterator[LogChunk]:
        """The steps of one block after the other."""
        return (block.read() for block in self.blocks)


@dataclass(frozen=True, eq=False)
class HeldBlock:
    """A block that has been read."""

    steps: Any
    name: str = "this process"

    def read(self) -> Any:
        """Its steps."""
        return self.steps


class LogFiles:
    """A log in files, read as often as needed and never whole: what `learn_pomdp` takes for a log with options.

    Parameters
    ----------
    source : path, or several
        As for `read_log`; anything that can be read again.
    options
        As for `read_log`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from unlatch import LogFiles, domains, learn_pomdp, simulate, write_log
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for night in range(3):
    ...         write_log(pathlib.Path(folder) / f"{night}.csv", simulate(domains.tiger(), 2_000, rng=night))
    ...     learn_pomdp(LogFiles(folder, strict=True), rng=0).episodes
    3
    """

    def __init__(self, source: Any, **options: Any) -> None:
        self.paths = parts_of(source)
        for part in self.paths:
            if not isinstance(part, str | os.PathLike):
                raise UsageError(
                    f"a log that is read more than once must be in files, got {type(part).__name__}; build a "
                    "Trajectory from arrays, use read_log, or write it to a file"
                )
        self.paths = [checked_path(path) for path in self.paths]
        self.options = options

    def __repr__(self) -> str:
        return f"LogFiles({len(self.paths)} files, first {self.paths[0]!r})"

    def chunks(self) -> Iterator[Any]:
        """The log from its beginning, in chunks of a block each; a short last one goes with the one before."""
        return _without_a_crumb(iterate_log(self.paths, chunk=BLOCK, **self.options))

    @property
    def splits(self) -> bool:
        """Whether any rows can be read by themselves."""
        plain = not any(self.options.get(name) not in (None, False, "refuse") for name in _ONE_AFTER_ANOTHER)
        return (
            plain
            and self.options.get("order", "action-first") == "action-first"
            and all(path.lower().endswith(DIVISIBLE) for path in self.paths)
        )


def file_blocks(files: LogFiles) -> list[FileBlock]:
    """The blocks of a log in Parquet or NPY files, each to be read by itself; whether they go on with the episode
    before is not known yet."""
    if not files.splits:
        raise UsageError(
            "only Parquet and NPY files, their rows in order, are read in parts by others than this process; write "
            "the log as Parquet, or leave the engine out"
        )
    sizes = [row_count(path) for path in files.paths]
    total = sum(sizes)
    cuts = list(range(0, total, BLOCK))
    if len(cuts) > 1 and total - cuts[-1] < _LEAST:
        cuts.pop()
    begins = np.concatenate([[0], np.cumsum(sizes)]).tolist()
    found = []
    for start, stop in zip(cuts, [*cuts[1:], total], strict=True):
        parts = []
        for path, begin, end in zip(files.paths, begins[:-1], begins[1:], strict=True):
            first, last = max(start, begin), min(stop, end)
            if first < last:
                parts.append((path, first - begin, last - first))
        found.append(FileBlock(start, tuple(parts), dict(files.options)))
    return found


def spans_of(blocks: Sequence[FileBlock]) -> list[Span]:
    """All blocks, some at a time: so few spans that what is merged is little, so many that all workers have some."""
    size = min(max(len(blocks) // SPANS, 1), _BLOCKS_OF_A_SPAN)
    return [Span(tuple(blocks[start : start + size])) for start in range(0, len(blocks), size)]


def _without_a_crumb(chunks: Iterator[LogChunk]) -> Iterator[LogChunk]:
    waiting: LogChunk | None = None
    for chunk in chunks:
        if waiting is not None and len(chunk) < _LEAST:
            waiting = concatenated([waiting, chunk])
            continue
        if waiting is not None:
            yield waiting
        waiting = chunk
    if waiting is not None:
        yield waiting


def known_beginnings(
    blocks: Sequence[FileBlock], edges: Sequence[Edges], *, continued: bool
) -> list[FileBlock]:
    """The blocks with whether each goes on with the episode before."""
    found = []
    for number, block in enumerate(blocks):
        goes_on = number > 0
        if goes_on:
            before, here = edges[number - 1], edges[number]
            new_file = block.parts[0][1] == 0
            goes_on = (continued or not new_file) and before.last == here.first and not before.ended
        found.append(replace(block, continues=goes_on))
    return found
