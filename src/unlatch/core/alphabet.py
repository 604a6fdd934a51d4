"""Names of actions, observations and states: checked once, compared by text."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np

from unlatch.arrays import Ints
from unlatch.core.checks import MAX_NAME_BYTES
from unlatch.errors import DataError, ResourceLimitError

MAX_SYMBOLS = 10_000
"""Largest alphabet that is taken for symbols rather than for a continuous quantity."""


def checked_names(field: str, names: Sequence[str] | None, size: int) -> tuple[str, ...]:
    """Validate ``size`` names, or number them from zero when none are given."""
    if names is None:
        return tuple(str(i) for i in range(size))
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise DataError(f"{field}: expected a sequence of text names")
    if len(names) != size:
        raise DataError(f"{field}: {len(names)} names for {size} symbols")
    checked = tuple(checked_name(field, str(name)) for name in names)
    if len(set(checked)) < len(checked):
        twice = next(name for name in checked if checked.count(name) > 1)
        raise DataError(f"{field}: the name {twice!r} stands twice (names are compared after Unicode NFC)")
    return checked


def checked_name(field: str, name: str) -> str:
    """One name in NFC form, free of control characters and at most 256 bytes."""
    if name == "":
        raise DataError(f"{field}: a name is empty")
    if any(unicodedata.category(c) in ("Cc", "Cs") for c in name):
        raise DataError(f"{field}: the name {name!r} has a control character or lone surrogate")
    normal = unicodedata.normalize("NFC", name)
    if len(normal.encode()) > MAX_NAME_BYTES:
        raise DataError(f"{field}: the name {name[:20]!r}... is longer than {MAX_NAME_BYTES} bytes")
    return normal


def sorted_names(names: Iterable[str]) -> list[str]:
    """The canonical order of an alphabet: by value if all names are plain integers, else as text.

    ``01`` is not a plain integer, so that ``01`` and ``1`` never trade places by accident.
    """
    listed = list(names)
    if all(_is_plain_integer(name) for name in listed):
        return sorted(listed, key=int)
    return sorted(listed)


def _is_plain_integer(name: str) -> bool:
    digits = name.removeprefix("-")
    return digits.isascii() and digits.isdigit() and (digits == "0" or digits[0] != "0") and len(digits) <= 18


def refuse_continuous(field: str, distinct: int, rows: int) -> None:
    """An alphabet that grows with the log is a continuous quantity or an identifier, not symbols."""
    if distinct > MAX_SYMBOLS or (distinct > 100 and distinct > rows / 5):
        raise ResourceLimitError(
            f"{field} looks continuous: {distinct} distinct values in {rows} rows; bin it into symbols first"
        )


def translate(field: str, codes: Ints, source: tuple[str, ...], target: tuple[str, ...]) -> Ints:
    """Re-index ``codes`` from the names of ``source`` to those of ``target``.

    Only symbols that occur must exist in the target; the first that does not is named.
    """
    if source == target[: len(source)]:
        return codes
    index = {name: i for i, name in enumerate(target)}
    table = np.array([index.get(name, -1) for name in source], dtype=np.int64)
    missing = np.flatnonzero(table[codes] < 0) if (table < 0).any() else np.empty(0, dtype=np.int64)
    if missing.size:
        name = source[int(codes[missing[0]])]
        raise DataError(
            f"unknown {field} {name!r} at step {int(missing[0])}: the model knows {_listing(target)}"
        )
    return table[codes]


def _listing(names: tuple[str, ...], most: int = 12) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown}, ... ({len(names)} in all)"
