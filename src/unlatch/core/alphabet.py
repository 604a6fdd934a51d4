"""Names of actions, observations and states: checked once, compared by text."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from unlatch.arrays import Ints
from unlatch.core.checks import MAX_NAME_BYTES, as_array
from unlatch.errors import DataError, ResourceLimitError

MAX_SYMBOLS = 10_000
"""Largest alphabet that is taken for symbols rather than for a continuous quantity."""


def checked_names(field: str, names: Sequence[str] | None, size: int | None) -> tuple[str, ...]:
    """Validate ``size`` names (any number, if None), or number them from zero when none are given."""
    if names is None:
        return tuple(str(i) for i in range(size or 0))
    listed = text_items(field, names, "names")
    if size is not None and len(listed) != size:
        raise DataError(f"{field}: {len(listed)} names for {size} symbols")
    checked = tuple(checked_name(field, name) for name in listed)
    if len(set(checked)) < len(checked):
        twice = next(name for name, count in Counter(checked).items() if count > 1)
        raise DataError(f"{field}: the name {twice!r} stands twice (names are compared after Unicode NFC)")
    return checked


def text_items(field: str, value: object, what: str) -> list[str]:
    """The items of a flat sequence of text: a list, an array, or a column of a table.

    Sets and iterators have no order or no length to go by, so they are refused.
    """
    expected = f"a flat sequence of text {what}"
    array = as_array(field, value, expected, dtype=object)
    if array.ndim != 1:
        got = f"an array of shape {array.shape}" if array.ndim else type(value).__name__
        raise DataError(f"{field}: expected {expected}, got {got}")
    items = array.tolist()
    wrong = next((i for i, item in enumerate(items) if not isinstance(item, str)), None)
    if wrong is not None:
        remedy = _remedy(items[wrong]) if what == "symbols" else ""
        raise DataError(f"{field}[{wrong}] is {_described(items[wrong])}; expected {expected}{remedy}")
    return [str.__str__(item) for item in items]  # the text itself, also of an enumeration's member


def _described(item: object) -> str:
    return "missing" if _is_missing(item) else f"{item!r:.40} of type {type(item).__name__}"


def _remedy(item: object) -> str:
    if _is_missing(item):
        return ". Remove the step, and let an episode start after it"
    if isinstance(item, int | np.integer):
        return ". Give codes to Trajectory(...), or make text of every symbol"
    return ""


def _is_missing(item: object) -> bool:
    """The ways in which tables say that nothing is there; those of pandas by name, since it need not be installed."""
    if isinstance(item, float | np.floating):
        return bool(np.isnan(item))
    if isinstance(item, np.datetime64 | np.timedelta64):
        return bool(np.isnat(item))
    return item is None or type(item).__name__ in ("NAType", "NaTType", "MaskedConstant")


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
    """The canonical order of an alphabet: by value if all names are plain integers, else as text in NFC.

    ``01`` is not a plain integer, so that ``01`` and ``1`` never trade places by accident.
    """
    listed = list(names)
    if all(_is_plain_integer(name) for name in listed):
        return sorted(listed, key=int)
    return sorted(listed, key=lambda name: unicodedata.normalize("NFC", name))


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
