"""The rooms of the source and who imports whom: as declared in ARCHITECTURE.md, and as it is.

``python tests/rooms.py`` prints the graph between rooms, as rows of the table there, and whether it equals the table.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "unlatch"
TABLE = ROOT / "ARCHITECTURE.md"

NEVER = {
    ("learn.spectral", "learn.likelihood"),
    ("learn.spectral", "learn.likelihood.passes"),
    ("learn.likelihood", "learn.spectral"),
    ("learn.likelihood.passes", "learn.spectral"),
    ("learn.examine", "learn.likelihood"),  # the passes over a log are all that it may see
    ("learn.examine", "learn.spectral"),
    ("learn.pipeline", "learn.baselines"),
    ("study.jobs", "core"),
}
"""Edges that no table may declare, beside those between siblings."""

SIBLINGS = ("learn", "planning", "files", "bridges")
"""Rooms, with all rooms inside, that do not know each other."""

BASELINES = {"unlatch", "study"}
"""The only rooms that may import the baselines."""


@dataclass(frozen=True)
class Room:
    """A room: files or folders of the source, and the rooms that it imports."""

    name: str
    places: tuple[str, ...]
    imports: frozenset[str]


def declared(text: str | None = None) -> dict[str, Room]:
    """The table of ARCHITECTURE.md whose first column is headed "room"."""
    lines = (TABLE.read_text(encoding="utf-8") if text is None else text).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| room |")) + 2
    rooms = {}
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        name, places, _, imports = (cell.strip() for cell in line.strip("|").split("|"))
        room = Room(name.strip("`"), _quoted(places), frozenset(_quoted(imports)))
        rooms[room.name] = room
    return rooms


def _quoted(cell: str) -> tuple[str, ...]:
    return tuple(re.findall(r"`([^`]+)`", cell))


def room_of(module: str, rooms: dict[str, Room]) -> str | None:
    """The room of a file, given by its path in the source; the longest place that fits wins."""
    fitting = [
        (len(place), room.name)
        for room in rooms.values()
        for place in room.places
        if module == place or (place.endswith("/") and module.startswith(place))
    ]
    return max(fitting)[1] if fitting else None


def imported(tree: ast.AST) -> Iterator[str]:
    """Every module or name that a file imports, wherever in the file, in full dotted form."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _file_of(name: str, source: Path) -> str | None:
    """The file that an imported name lives in: the module itself, or the one that it is a name of."""
    parts = name.split(".")[1:]
    while parts:
        path = source.joinpath(*parts)
        for candidate in (path.with_suffix(".py"), path / "__init__.py"):
            if candidate.exists():
                return candidate.relative_to(source).as_posix()
        parts = parts[:-1]
    return "__init__.py"


def actual(rooms: dict[str, Room], source: Path = SOURCE) -> dict[str, dict[str, set[str]]]:
    """For every room the rooms that it imports, each with the files that do."""
    graph: dict[str, dict[str, set[str]]] = {name: {} for name in rooms}
    for path in sorted(source.rglob("*.py")):
        file = path.relative_to(source).as_posix()
        room = room_of(file, rooms)
        if room is None:
            raise LookupError(f"{file} lies in no room of the table in {TABLE.name}")
        for name in imported(ast.parse(path.read_text(encoding="utf-8"))):
            if name.split(".")[0] != "unlatch" or name == "unlatch.__version__":
                continue
            target = room_of(_file_of(name, source) or "", rooms)
            if target is not None and target != room:
                graph[room].setdefault(target, set()).add(file)
    return graph


def differences(rooms: dict[str, Room], graph: dict[str, dict[str, set[str]]]) -> list[str]:
    """What the table and the source disagree on, one line each."""
    lines = []
    for name, room in rooms.items():
        found = graph[name]
        for target in sorted(set(found) - room.imports):
            lines.append(
                f"{name} imports {target}, which the table does not allow: {', '.join(sorted(found[target]))}"
            )
        for target in sorted(room.imports - set(found)):
            lines.append(f"{name} does not import {target}, which the table says it does")
    return lines


def forbidden(graph: dict[str, dict[str, set[str]]]) -> list[str]:
    """Edges that must not exist whatever the table says."""
    edges = [(room, target) for room, found in graph.items() for target in found]
    return [f"{room} must not import {target}" for room, target in edges if _is_forbidden(room, target)]


def _is_forbidden(room: str, target: str) -> bool:
    here, there = (name.split(".")[0] for name in (room, target))
    if here in SIBLINGS and there in SIBLINGS and here != there:
        return True
    return (room, target) in NEVER or (target == "learn.baselines" and here not in BASELINES)


def walk() -> list[tuple[str, str]]:
    """The steps of the walk of one log in ARCHITECTURE.md: file and function."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| # | step |")) + 2
    steps: list[tuple[str, str]] = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        *_, file, names = line.strip().strip("|").split("|")
        steps += [(_quoted(file)[0], name) for name in _quoted(names)]
    return steps


def defines(path: Path, name: str) -> bool:
    """Whether a file exists and defines a function or class of that name."""
    if not path.exists():
        return False
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return any(getattr(node, "name", None) == name for node in body)


def main() -> int:
    """Print the graph and what is wrong with it; 0 if nothing is."""
    rooms = declared()
    graph = actual(rooms)
    for name in rooms:
        print(f"{name:24s} -> {', '.join(f'`{target}`' for target in rooms if target in graph[name]) or '—'}")
    wrong = differences(rooms, graph) + forbidden(graph)
    print("\n" + ("\n".join(wrong) if wrong else "The graph equals the one declared in ARCHITECTURE.md."))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
