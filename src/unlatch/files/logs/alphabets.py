"""Alphabets that may grow: the names of symbols as they appear, and the codes of several tables in one numbering."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from unlatch.arrays import Ints
from unlatch.core.alphabet import MAX_SYMBOLS, checked_name, refuse_continuous
from unlatch.core.diagnostics import Diagnostics
from unlatch.errors import DataError
from unlatch.files.logs.rows import Place

__all__ = ["CODE", "Codes", "GrowingAlphabet", "noting_variants"]

Codes = NDArray[np.uint16]
CODE = np.min_scalar_type(MAX_SYMBOLS)
"""Codes as they are kept while a log is read."""


class GrowingAlphabet:
    """Names in the order in which they appear; a code never changes its meaning."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._codes: dict[str, int] = {}
        self._origins: dict[str, tuple[int, str]] = {}
        self._table = np.zeros(0, dtype=np.int32)
        self._same = 0  # codes of the table, from 0 on, that are ours too
        self._known: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self._names)

    @property
    def names(self) -> tuple[str, ...]:
        """All names so far."""
        if len(self._known) < len(self._names):
            self._known = tuple(self._names)
        return self._known

    def enter_table(self) -> None:
        """Another table begins, with a numbering of its own."""
        self._table = np.zeros(0, dtype=np.int32)
        self._same = 0

    def codes(
        self, codes: Ints, tokens: Sequence[str], seen: Sequence[int], place: Place, column: int, rows: int
    ) -> Codes:
        """Our codes for those of the table; ``rows`` says how many had been read before."""
        if len(self._table) < len(tokens):
            more = np.full(len(tokens) - len(self._table), -1, dtype=np.int32)
            self._table = np.concatenate([self._table, more])
        from unlatch.kernels.text import look_up

        if codes.dtype == np.int16 and self._same == len(tokens) == len(self._names):
            return codes.view(CODE)
        result = np.empty(len(codes), dtype=np.int16)
        places = codes.view(f"u{codes.itemsize}")  # none is negative: of unsigned numbers nobody asks
        if look_up(self._table, places, result):
            for code in np.flatnonzero(np.bincount(codes[result < 0])).tolist():
                self._table[code] = self._entered(tokens[code], place, int(seen[code]), column)
            if len(self) > MAX_SYMBOLS:
                refuse_continuous(
                    f"{place.where}, column {place.names[column]!r}", len(self), rows + len(codes)
                )
            look_up(self._table, places, result)
            same = np.flatnonzero(self._table != np.arange(len(self._table)))
            self._same = int(same[0]) if len(same) else len(self._table)
        return result.view(CODE)

    def _entered(self, token: str, place: Place, line: int, column: int) -> int:
        """The code of a token, be it new or known from another table; two that only look different are refused."""
        code = self._codes.get(token)
        if code is not None:
            return code
        name = checked_name(place(line, column), token)
        if name in self._origins:
            first, where = self._origins[name]
            lines = f"{first} and {line}" if where == place.where else f"{first} of {where} and {line}"
            raise DataError(
                f"{place.where}, column {place.names[column]!r}: {name!r} is spelled with different code points on "
                f"{place.unit}s {lines}; they look alike, so spell it one way (Unicode NFC)"
            )
        self._origins[name] = line, place.where
        self._codes[token] = len(self._names)
        self._names.append(name)
        return len(self._names) - 1


def noting_variants(notes: Diagnostics, names: Sequence[str], column: str) -> Diagnostics:
    """Names that differ only by blanks or case stay apart, but are often a slip of the pen."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault("".join(name.split()).casefold(), []).append(name)
    alike = [sorted(group) for group in groups.values() if len(group) > 1]
    if not alike:
        return notes
    shown = "; ".join(" and ".join(map(repr, group)) for group in alike[:5])
    return notes.noting(
        "similar_names",
        f"column {column!r}: kept apart though they differ only by blanks or case: {shown}",
        column=column,
        groups=alike,
    )
