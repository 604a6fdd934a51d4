"""Rows that are not yet in the order of a log: several columns of one observation, several environments in turns, steps
out of order, observations that stand before their action."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from unlatch.arrays import Flags, Floats, Ints
from unlatch.core.alphabet import MAX_SYMBOLS, refuse_continuous
from unlatch.core.diagnostics import Diagnostics
from unlatch.errors import DataError, UsageError
from unlatch.files.logs.columns import (
    ACTION,
    ENVIRONMENT,
    EPISODE,
    OBSERVATION,
    STEP,
    TERMINATED,
    TRUNCATED,
    Columns,
)
from unlatch.files.logs.rows import NOTHING, YES, Answers, Numbers, Place, RowBatch, RowSource

__all__ = ["Order", "arranged"]

Order = Literal["action-first", "observation-first"]

_BETWEEN = "|"
"""Between the parts of a symbol that is made of several columns."""


def arranged(source: RowSource, *, sort: bool, order: Order) -> RowSource:
    """The same table with its rows in the order of the log; itself, if they are."""
    if source.columns.further:
        source = _Paired(source)
    if sort and STEP not in source.columns.present:
        raise UsageError(
            f"{source.place.where}: sort=True (--sort) needs a column that numbers the steps; name it with step=... "
            "(--step)"
        )
    if sort or order == "observation-first" or ENVIRONMENT in source.columns.present:
        return _Rearranged(source, sort, order)
    return source


# --- one symbol from several columns ------------------------------------------------------------------------


class _Paired:
    """A table whose observation is the tuple of several columns: ``3`` and ``red`` are ``3|red``."""

    def __init__(self, source: RowSource) -> None:
        self.columns: Columns = source.columns
        self.place: Place = source.place
        self._source = source
        self._further = source.columns.further
        self._codes: dict[tuple[int, ...], int] = {}
        self._names: dict[str, int] = {}
        self._tokens: list[str] = []
        self._seen: list[int] = []
        self._rows = 0

    def batches(self) -> Iterator[RowBatch]:
        for batch in self._source.batches():
            yield self._paired(batch)

    def findings(self, strict: bool) -> Diagnostics:
        return self._source.findings(strict)

    def _paired(self, batch: RowBatch) -> RowBatch:
        columns = [OBSERVATION, *self._further]
        codes = np.stack([batch.symbols[column] for column in columns], axis=1)
        distinct, first, inverse = np.unique(codes, axis=0, return_index=True, return_inverse=True)
        table = [
            self._code(tuple(row), batch, columns, int(batch.lines[where]))
            for row, where in zip(distinct.tolist(), first.tolist(), strict=True)
        ]
        self._rows += len(batch)
        if len(self._tokens) > MAX_SYMBOLS:
            names = ", ".join(repr(self.place.names[column]) for column in columns)
            refuse_continuous(f"{self.place.where}, columns {names}", len(self._tokens), self._rows)
        symbols = {c: v for c, v in batch.symbols.items() if c not in self._further}
        symbols[OBSERVATION] = np.array(table, dtype=np.int64)[inverse.reshape(-1)]
        return replace(
            batch,
            symbols=symbols,
            tokens={**batch.tokens, OBSERVATION: self._tokens},
            seen={**batch.seen, OBSERVATION: self._seen},
        )

    def _code(self, row: tuple[int, ...], batch: RowBatch, columns: Sequence[int], line: int) -> int:
        if NOTHING in row:  # incomplete
            return NOTHING
        if row not in self._codes:
            parts = [batch.tokens[column][code] for column, code in zip(columns, row, strict=True)]
            name = _BETWEEN.join(parts)
            if name in self._names:
                raise DataError(
                    f"{self.place.where}, {self.place.unit} {line}: {name!r} stands for different cells, since some of "
                    f"them hold {_BETWEEN!r}; rename these"
                )
            self._names[name] = self._codes[row] = len(self._tokens)
            self._tokens.append(name)
            self._seen.append(line)
        return self._codes[row]


# --- rows in another order ----------------------------------------------------------------------------------


class _Rearranged:
    """A table that is read whole, since its rows stand in another order than those of the log."""

    def __init__(self, source: RowSource, sort: bool, order: Order) -> None:
        self.columns: Columns = source.columns
        self.place: Place = source.place
        self._source = source
        self._sort = sort
        self._order = order
        self._unseen = 0

    def batches(self) -> Iterator[RowBatch]:
        batches = list(self._source.batches())
        if not batches:
            return
        rows = _gathered(batches)
        if rows.blank is not None and rows.blank.any():
            rows = rows.chosen(~rows.blank)
        rows = self._sorted(rows)
        if self._order == "observation-first":
            rows = self._shifted(rows)
        yield from _by_environment(rows)

    def findings(self, strict: bool) -> Diagnostics:
        notes = self._source.findings(strict)
        if self._unseen:
            notes = notes.noting(
                "unseen_outcomes",
                f"{self._unseen} actions at the ends of episodes were left out: what followed them was not observed",
                steps=self._unseen,
            )
        return notes

    def _sorted(self, rows: RowBatch) -> RowBatch:
        """Environment by environment; with ``sort`` the steps of every episode by their numbers."""
        keys: list[Ints | Floats] = []
        if self._sort:
            numbers = rows.numbers[STEP].values
            acted = rows.symbols[ACTION] >= 0
            if np.isnan(numbers[acted]).any():
                return rows  # told later, with its line
            keys.append(np.where(acted, numbers, -np.inf))
            if EPISODE in rows.symbols:
                keys.append(rows.symbols[EPISODE])
        if ENVIRONMENT in rows.symbols:
            keys.append(rows.symbols[ENVIRONMENT])
        return rows.chosen(np.lexsort(keys)) if keys else rows

    def _shifted(self, rows: RowBatch) -> RowBatch:
        """Every action with the observation of the next row; the first of an episode opens it."""
        same = _joins_next(rows)
        lost = ~same & (rows.symbols[ACTION] >= 0)
        self._unseen = int(lost.sum())
        if TERMINATED in rows.answers:
            ended = lost & (rows.answers[TERMINATED].values == YES)
            if ended.any():
                raise self.place.wrong(
                    int(rows.lines[ended.argmax()]),
                    TERMINATED,
                    "the episode ended here, but what was observed last is not there, since observations stand before "
                    "their action. Add a row with that observation and no action, or leave the endings out with "
                    "terminated=None (--ignore-terminated)",
                )
        opens = np.append(True, ~same[:-1])
        rank = np.arange(len(rows))
        steps = rows.chosen(same)
        following = rank[same] + 1
        symbols = dict(steps.symbols)
        symbols[OBSERVATION] = rows.symbols[OBSERVATION][following]
        shown = _emptied(rows.chosen(opens))
        both = _concatenated([shown, replace(steps, symbols=symbols)])
        return both.chosen(
            np.lexsort([np.repeat([0, 1], [len(shown), len(steps)]), np.append(rank[opens], rank[same])])
        )


def _joins_next(rows: RowBatch) -> Flags:
    """Which rows belong to the same episode as the next."""
    same = np.append(np.ones(len(rows) - 1, dtype=bool), False)
    for column in (ENVIRONMENT, EPISODE):
        if column in rows.symbols:
            same[:-1] &= np.diff(rows.symbols[column]) == 0
    if EPISODE not in rows.symbols:  # nothing else tells where episodes begin
        for column in (TERMINATED, TRUNCATED):
            if column in rows.answers:
                ended = rows.answers[column].values == YES
                goes_on = np.append(
                    rows.symbols[ACTION][1:] < 0, False
                )  # a last row, with what was seen last
                same &= ~ended | goes_on
        same[:-1] &= (rows.symbols[ACTION] >= 0)[:-1]
    return same


def _emptied(rows: RowBatch) -> RowBatch:
    """Rows that hold what was shown before any action, and nothing else."""
    size = len(rows)
    return replace(
        rows,
        symbols={**rows.symbols, ACTION: np.full(size, NOTHING)},
        numbers={
            c: Numbers(np.full(size, np.nan), np.ones(size, dtype=bool), lambda row: "") for c in rows.numbers
        },
        answers={c: Answers(np.full(size, NOTHING, dtype=np.int8), lambda row: "") for c in rows.answers},
    )


def _by_environment(rows: RowBatch) -> Iterator[RowBatch]:
    """One environment after the other; nothing joins across the seams."""
    if ENVIRONMENT not in rows.symbols or not len(rows):
        yield rows
        return
    environments = rows.symbols[ENVIRONMENT]
    if EPISODE in rows.symbols:
        rows = replace(
            rows, symbols={**rows.symbols, EPISODE: _pair_codes(environments, rows.symbols[EPISODE])}
        )
    starts = np.flatnonzero(np.diff(environments, prepend=environments[0] - 1))
    seams = np.zeros(len(rows), dtype=bool)
    seams[starts] = True
    yield replace(rows, seams=seams)


def _pair_codes(one: Ints, other: Ints) -> Ints:
    """Codes of pairs that rise as they appear."""
    _, first, inverse = np.unique(
        np.stack([one, other], axis=1), axis=0, return_index=True, return_inverse=True
    )
    rank = np.argsort(np.argsort(first))
    result: Ints = rank[inverse.reshape(-1)]
    return result


# --- batches joined -----------------------------------------------------------------------------------------


def _gathered(batches: Sequence[RowBatch]) -> RowBatch:
    return batches[0] if len(batches) == 1 else _concatenated(batches)


def _concatenated(batches: Sequence[RowBatch]) -> RowBatch:
    last = batches[-1]
    bounds = np.append(0, np.cumsum([len(batch) for batch in batches]))
    return RowBatch(
        lines=np.concatenate([batch.lines for batch in batches]),
        symbols={c: np.concatenate([batch.symbols[c] for batch in batches]) for c in last.symbols},
        tokens=last.tokens,
        seen=last.seen,
        numbers={
            c: Numbers(
                np.concatenate([batch.numbers[c].values for batch in batches]),
                np.concatenate([batch.numbers[c].empty for batch in batches]),
                _shown([batch.numbers[c].shown for batch in batches], bounds),
            )
            for c in last.numbers
        },
        answers={
            c: Answers(
                np.concatenate([batch.answers[c].values for batch in batches]),
                _shown([batch.answers[c].shown for batch in batches], bounds),
            )
            for c in last.answers
        },
        blank=_blank(batches),
    )


def _blank(batches: Sequence[RowBatch]) -> Flags | None:
    parts = [batch.blank for batch in batches]
    if all(part is None for part in parts):
        return None
    return np.concatenate(
        [np.zeros(len(b), dtype=bool) if p is None else p for b, p in zip(batches, parts, strict=True)]
    )


def _shown(parts: Sequence[Callable[[int], str]], bounds: Ints) -> Callable[[int], str]:
    def shown(row: int) -> str:
        part = int(np.searchsorted(bounds, row, side="right")) - 1
        return parts[part](row - int(bounds[part]))

    return shown
