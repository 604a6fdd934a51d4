"""Where the episodes of a table begin: at a new text in their column, after an ending, at a first observation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unlatch.arrays import Flags, Ints
from unlatch.errors import DataError
from unlatch.files.logs.columns import ACTION, EPISODE
from unlatch.files.logs.rows import Lines, Place

__all__ = ["Beginnings", "Episodes", "Rows"]

_NONE = -1
"""The first observation of an episode that has none, and a line that there is not."""

_FIRST, _TERMINATED, _ENDED = 1, 2, 3
"""Entries of the state that rows leave behind, as the kernel has them."""

_NO_CODES = np.zeros(0, dtype=np.int64)
_NO_ANSWERS = np.zeros(0, dtype=np.int8)


class Rows(NamedTuple):
    """What rows say about episodes, one entry a row.

    ``openings`` are the rows without an action: they hold what was shown before the first one, and ``first`` has its
    codes, one for every such row. ``episodes`` numbers the texts of the episode's column as they appear. It,
    ``terminated`` and ``truncated`` (`YES` where it was) are None if there is no such column.
    """

    lines: Lines
    after_gap: Flags
    openings: Flags
    first: Ints
    episodes: Ints | None
    terminated: NDArray[np.int8] | None
    truncated: NDArray[np.int8] | None


class Beginnings(NamedTuple):
    """The steps that begin an episode, and the first observations of these episodes, -1 for none."""

    starts: Ints
    first: Ints


class Episodes:
    """Follows the rows of tables, call by call. ``place`` spells a line and a column of the present one in messages.

    ``opened`` counts the episodes with a first observation; ``empty`` those with nothing but that, which are no part
    of the log. ``line_opened`` is the first row with one, and ``line_without`` where the first episode without one
    begins, in the table ``place_without``; -1 if there is none.
    """

    def __init__(self) -> None:
        self.place = Place("", ())
        self.opened = 0
        self.empty = 0
        self.line_opened = _NONE
        self.line_without = _NONE
        self.place_without = self.place
        self._line = _NONE
        self._state = np.array([_NONE, _NONE, 0, 0])  # this and the line: of the last row

    def begin(self, rows: Rows) -> Beginnings:
        """Which of the next rows' steps begin an episode."""
        from unlatch.kernels import episodes as kernel

        size = len(rows.lines)
        said = np.zeros(7, dtype=np.int64)
        starts, first = np.empty((2, size), dtype=np.int64)
        begun = kernel.follow_rows(
            rows.after_gap,
            rows.openings,
            rows.first,
            _NO_CODES if rows.episodes is None else rows.episodes,
            _NO_ANSWERS if rows.terminated is None else rows.terminated,
            _NO_ANSWERS if rows.truncated is None else rows.truncated,
            self._state,
            said,
            starts,
            first,
        )
        self._refuse(rows, *said[: kernel.OPENED_AT].tolist())
        self.opened += int(said[kernel.OPENED])
        self.empty += int(said[kernel.EMPTY])
        self._take_note(rows.lines, int(said[kernel.OPENED_AT]), int(said[kernel.WITHOUT_AT]))
        return Beginnings(starts[:begun].copy(), first[:begun].copy())

    def go_on(self, lines: Lines, after_gap: Flags) -> Beginnings | None:
        """As `begin`, for rows that say nothing about episodes; None if a first observation waits for one of them."""
        if self._state[_FIRST] != _NONE or not len(lines):
            return None
        after_gap[0] |= self._state[_ENDED] != 0
        starts = np.flatnonzero(after_gap)
        self._take_note(lines, _NONE, int(starts[0]) if len(starts) else _NONE)
        self._state[[_TERMINATED, _ENDED]] = 0
        return Beginnings(starts, np.full(len(starts), _NONE))

    def finish(self) -> None:
        """No row follows that belongs to what came before."""
        self.empty += int(self._state[_FIRST] != _NONE)
        self._state[:] = _NONE, _NONE, 0, 1

    def _take_note(self, lines: Lines, opened: int, without: int) -> None:
        """Remember the lines that messages may speak of."""
        if self.line_without == _NONE and without != _NONE:
            self.line_without, self.place_without = int(lines[without]), self.place
        if self.line_opened == _NONE and opened != _NONE:
            self.line_opened = int(lines[opened])
        if len(lines):
            self._line = int(lines[-1])

    def _refuse(self, rows: Rows, back: int, over: int, late: int) -> None:
        """Codes of episodes rise as they appear, so that a lower one had been left before."""
        if back != _NONE:
            raise DataError(
                f"{self.place(int(rows.lines[back]), EPISODE)}: an episode that had ended goes on; "
                "sort the rows by episode"
            )
        if over != _NONE:
            before = int(rows.lines[over - 1]) if over else self._line
            raise DataError(
                f"{self.place(int(rows.lines[over]), EPISODE)}: the episode goes on, though it terminated on "
                f"{self.place.unit} {before}; give every episode a number of its own, or correct the ending, "
                f"which is for good"
            )
        if late != _NONE:
            raise DataError(
                f"{self.place(int(rows.lines[late]), ACTION)}: an empty cell, in a row that is not the first of "
                "its episode; only what was shown before the first action has none: complete it, or let a new episode "
                "begin after it with missing='split' (--missing split)"
            )
