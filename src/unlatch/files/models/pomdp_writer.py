"""Writing ``.POMDP`` files: plain decimals without exponents, names that every reader takes, LF and ASCII.

Numbers are the shortest decimals that read back as the same float, so that a model comes back bit for bit. What the
format has no place for stands in a comment (`comment_table`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from unlatch import __version__
from unlatch.arrays import Floats
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.problem import Problem
from unlatch.errors import DataError, ModelFileError
from unlatch.files.models.comment_table import safe_names, table_of, table_text
from unlatch.files.models.export import Export, exported, plain_number
from unlatch.files.models.pomdp_reader import RESERVED, read_pomdp

__all__ = ["pomdp_bytes"]

_SPARSE = 0.25
"""Share of entries that are not zero, below which they are written one by one."""

_SMALL = 16
"""States or observations up to which a matrix is written whole: it is easier to read."""

Names = Mapping[str, Sequence[str]]


def pomdp_bytes(problem: Problem, where: str) -> tuple[bytes, Diagnostics]:
    """The bytes of the file, which have been read back, and what it holds in another form than the problem does."""
    export = exported(problem)
    model = export.pomdp
    names = {
        "states": _written(model.state_names, "s"),
        "actions": _written(model.action_names, "a"),
        "observations": _written(model.observation_names, "o"),
    }
    data = "".join(_lines(export, names)).encode("ascii")
    try:
        read_pomdp(data, where)
    except ModelFileError as error:
        raise DataError(f"not written, because it could not be loaded again: {error}") from None
    return data, export.notes


def _written(names: tuple[str, ...], letter: str) -> tuple[str, ...]:
    """How each is called in the file: numbers from 0 stay numbers, since only how many there are is said."""
    return names if _are_numbers(names) else safe_names(names, letter, RESERVED)


def _are_numbers(names: Sequence[str]) -> bool:
    return list(names) == [str(code) for code in range(len(names))]


def _lines(export: Export, names: Names) -> Iterator[str]:
    model = export.pomdp
    yield f"# Written by unlatch {__version__}.\n"
    table = table_text(table_of(model, names))
    if table:
        yield f"# {table}\n"
    yield f"\ndiscount: {plain_number(export.discount)}\nvalues: reward\n"
    for kind, own in names.items():
        yield f"{kind}: {len(own) if _are_numbers(own) else ' '.join(own)}\n"
    yield f"\nstart: {_row(model.initial)}\n"
    for code, action in enumerate(names["actions"]):
        yield from _matrix("T", action, names["states"], names["states"], model.transitions[code])
    for code, action in enumerate(names["actions"]):
        yield from _matrix("O", action, names["states"], names["observations"], model.observations[code])
    for code, action in enumerate(names["actions"]):
        yield from _rewards(action, names, export.rewards[code])


def _row(values: Floats) -> str:
    return " ".join(map(plain_number, values.tolist()))


def _matrix(
    kind: str, action: str, rows: Sequence[str], columns: Sequence[str], values: Floats
) -> Iterator[str]:
    """All of one action: as a word, whole, or entry by entry."""
    yield "\n"
    if kind == "T" and np.array_equal(values, np.eye(len(values))):
        yield f"T: {action}\nidentity\n"
        return
    if values.shape[1] <= _SMALL or np.count_nonzero(values) > _SPARSE * values.size:
        yield f"{kind}: {action}\n"
        yield from (f"{_row(row)}\n" for row in values)
        return
    for row, column in np.argwhere(values).tolist():
        yield f"{kind}: {action} : {rows[row]} : {columns[column]} {plain_number(values[row, column])}\n"


def _rewards(action: str, names: Names, table: Floats) -> Iterator[str]:
    """Of one action, ``table[s, t, o]``: nothing for zero, wildcards for what makes no difference."""
    if not table.any():
        return
    yield "\n"
    if (table == table[:1]).all():
        yield from _rewards_of_state(action, "*", names, table[0])
        return
    for state, name in enumerate(names["states"]):
        yield from _rewards_of_state(action, name, names, table[state])


def _rewards_of_state(action: str, state: str, names: Names, table: Floats) -> Iterator[str]:
    following = names["states"] if len(table) > 1 else ("*",)
    shown: Callable[[int], str] = (
        (lambda code: names["observations"][code]) if table.shape[1] > 1 else lambda _: "*"
    )
    for t, name in enumerate(following):
        if table.shape[1] > 1 and np.count_nonzero(table[t]) > _SPARSE * table.shape[1]:
            yield f"R: {action} : {state} : {name}\n{_row(table[t])}\n"
            continue
        for o in np.flatnonzero(table[t]).tolist():
            yield f"R: {action} : {state} : {name} : {shown(o)} {plain_number(table[t, o])}\n"
