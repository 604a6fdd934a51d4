"""Columns that are arrays, not text: whole numbers, truth values and texts as symbols, numbers, answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unlatch.arrays import Flags, Ints
from unlatch.core.alphabet import MAX_SYMBOLS, refuse_continuous
from unlatch.core.diagnostics import Diagnostics
from unlatch.files.logs.columns import EPISODE, Columns
from unlatch.files.logs.delimited import ANSWERS
from unlatch.files.logs.rising import RisingNumbers
from unlatch.files.logs.rows import NO, NOTHING, WRONG, YES, Answers, Lines, Numbers, Place

__all__ = ["Tokens", "answers_of", "answers_of_texts", "noting_floats", "numbers_of"]

Array = NDArray[Any]

_EXACT = 2.0**53
_DENSE = 1 << 16
"""Whole numbers in so small a range are told apart by a table instead of by sorting."""

_MOST = 10**18
"""Below it, a number of an episode is one that may rise."""

_FEW = 16
"""New texts that are looked for one by one."""


class Tokens:
    """The texts of one column, numbered as they come. ``floats`` says that whole numbers came as floats."""

    def __init__(self, column: int, place: Place) -> None:
        self.seen: list[int] = []
        self.floats = False
        self._texts: list[str] = []
        self._rising = RisingNumbers() if column == EPISODE else None
        self._column = column
        self._place = place
        self._codes: dict[str, int] = {}
        self._rows = 0

    @property
    def tokens(self) -> Sequence[str]:
        """All texts so far."""
        return self._texts if self._rising is None else self._rising

    def of_codes(self, codes: Ints, texts: Any, lines: Lines) -> Ints:
        """Codes of cells that are given as numbers of ``texts[i]``, -1 for none."""
        table = self.table(np.bincount(codes + 1, minlength=len(texts) + 1)[1:], codes, texts, lines)
        return table[codes]

    def table(self, uses: Ints, codes: Array, texts: Any, lines: Lines) -> Ints:
        """The code of every text, given how often each is used; of none for those that are not, and at the end. Only
        texts that occur are looked at."""
        self._spell()
        table = np.full(len(texts) + 1, NOTHING, dtype=np.int64)
        used = np.flatnonzero(uses)
        self._refuse_many(len(used), len(codes))
        new = [i for i in used.tolist() if str(texts[i]) not in self._codes]
        first = {i: int((codes == i).argmax()) for i in new} if len(new) <= _FEW else _first_rows(codes)
        for i in sorted(used.tolist(), key=lambda i: first.get(i, -1)):
            table[i] = self._code(texts[i], int(lines[first.get(i, 0)]))
        self._rows += len(codes)
        self._refuse_many(len(self.tokens), 0)
        return table

    def of_integers(self, values: Array, missing: Flags | None, lines: Lines) -> Ints:
        """Codes of whole numbers, whose decimal digits are their texts."""
        if not len(values):
            return np.zeros(0, dtype=np.int64)
        if self._column == EPISODE:
            return self._of_runs(values, missing, lines)
        low, high = int(values.min()), int(values.max())
        if high - low < _DENSE:
            codes = (values - values.dtype.type(low)).astype(np.int64)
            texts: Any = range(low, high + 1)
        else:
            texts, codes = np.unique(values, return_inverse=True)
            texts = texts.tolist() if len(texts) <= MAX_SYMBOLS else texts
        if missing is not None:
            codes = np.where(missing, NOTHING, codes)
        return self.of_codes(codes, texts, lines)

    def of_floats(self, values: Array, missing: Flags | None, lines: Lines) -> Ints:
        """Codes of floats, all of which must be whole numbers; what is not a number is missing."""
        gone = np.isnan(values) if missing is None else missing | np.isnan(values)
        filled = np.where(gone, 0, values)
        bad = ~np.isfinite(filled) | (filled != np.floor(filled)) | (np.abs(filled) > _EXACT)
        if bad.any():
            row = int(bad.argmax())
            raise self._place.wrong(
                int(lines[row]),
                self._column,
                f"{float(values[row])!r}; symbols must be whole numbers or text: bin the column into symbols first",
            )
        self.floats = True
        return self.of_integers(filled.astype(np.int64), gone if gone.any() else None, lines)

    def _of_runs(self, values: Array, missing: Flags | None, lines: Lines) -> Ints:
        """Codes that rise as they appear, looked up once for every run of equal numbers: episodes are many."""
        from unlatch.kernels.cells import spread_runs

        starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
        numbers = values[starts]
        found = None
        if (
            self._rising is not None
            and missing is None
            and int(numbers.min()) >= 0
            and int(numbers.max()) < _MOST
        ):
            found = self._rising.codes(numbers.astype(np.int64, copy=False))
        if found is None:
            self._spell()
            names = zip(numbers.tolist(), starts.tolist(), strict=True)
            found = np.array([self._code(v, int(lines[s])) for v, s in names], dtype=np.int64)
        codes = np.empty(len(values), dtype=np.int64)
        spread_runs(starts, found, codes)
        return codes if missing is None else np.where(missing, NOTHING, codes)

    def _spell(self) -> None:
        """From now on by texts: enter what came before as numbers that rise."""
        before, self._rising = self._rising, None
        for text in before or ():
            self._code(text, 0)

    def _code(self, value: object, line: int) -> int:
        text = str(value)
        if text == "" and self._column != EPISODE:
            return NOTHING
        code = self._codes.get(text)
        if code is None:
            code = self._codes[text] = len(self._texts)
            self._texts.append(text)
            self.seen.append(line)
        return code

    def _refuse_many(self, distinct: int, rows: int) -> None:
        if distinct > MAX_SYMBOLS and self._column != EPISODE:
            name = self._place.names[self._column]
            refuse_continuous(f"{self._place.where}, column {name!r}", distinct, self._rows + rows)


def _first_rows(codes: Ints) -> dict[int, int]:
    """Where every code stands first."""
    values, rows = np.unique(codes, return_index=True)
    return dict(zip(values.tolist(), rows.tolist(), strict=True))


def numbers_of(values: Array, missing: Flags | None) -> Numbers:
    """A column of numbers; what is missing or not a number is an empty cell."""
    with np.errstate(over="ignore"):
        floats = values.astype(np.float64, copy=False)
    finite = np.isfinite(floats)
    if missing is None and finite.all():
        return Numbers(floats, ~finite, lambda row: str(float(floats[row])))
    empty = np.isnan(floats) if missing is None else missing | np.isnan(floats)
    known = np.where(finite & ~empty, floats, np.nan)
    return Numbers(known, empty, lambda row: "" if empty[row] else str(float(floats[row])))


def answers_of(values: Array, missing: Flags | None) -> Answers:
    """A column of truth values, or of the numbers 0 and 1."""
    if values.dtype == np.bool_:
        flags = values.astype(np.int8)
        answers = flags if missing is None else np.where(missing, np.int8(NOTHING), flags)
        return Answers(answers, lambda row: "" if answers[row] == NOTHING else str(values[row]))
    answers = np.full(len(values), WRONG, dtype=np.int8)
    answers[values == 1] = YES
    answers[values == 0] = NO
    gone = values != values  # what is not a number
    answers[gone if missing is None else missing | gone] = NOTHING
    return Answers(answers, lambda row: "" if answers[row] == NOTHING else str(values[row]))


def answers_of_texts(codes: Ints, texts: Iterable[str]) -> Answers:
    """A column of words."""
    words = list(texts)
    table = np.array([*(ANSWERS.get(word.strip().lower(), WRONG) for word in words), NOTHING], dtype=np.int8)
    return Answers(table[codes], lambda row: "" if codes[row] < 0 else words[int(codes[row])])


def noting_floats(notes: Diagnostics, tokens: Mapping[int, Tokens], columns: Columns) -> Diagnostics:
    """Whole numbers that came as floats became symbols: said once for every column."""
    for column, table in tokens.items():
        if table.floats:
            name = columns.names[column]
            notes = notes.noting(
                "float_symbols", f"column {name!r} came as floats and was read as integers", column=name
            )
    return notes
