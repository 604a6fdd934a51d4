"""Where the episodes of a table begin: at a new text in their column, after an ending, at a first observation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlatch.arrays import Flags, Ints
from unlatch.errors import DataError
from unlatch.files.logs.columns import ACTION, EPISODE
from unlatch.files.logs.rows import Place

__all__ = ["Beginnings", "Episodes", "Rows"]

_NONE = -1
"""The first observation of an episode that has none, and a line that there is not."""


class Rows(NamedTuple):
    """What rows say about episodes, one entry a row.

    ``openings`` are the rows without an action: they hold what was shown before the first one, and ``first`` has its
    codes, one for every such row. ``episodes`` numbers the texts of the episode's column as they appear; None if
    there is no such column.
    """

    lines: Ints
    after_gap: Flags
    openings: Flags
    first: Ints
    episodes: Ints | None
    terminated: Flags
    truncated: Flags


class Beginnings(NamedTuple):
    """Which steps begin an episode, and the first observations of these episodes, -1 for none."""

    begins: Flags
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
        self._line = _NONE  # this and the rest: of the last row
        self._episode = _NONE
        self._first = _NONE
        self._terminated = False
        self._ended = False

    def begin(self, rows: Rows) -> Beginnings:
        """Which of the next rows' steps begin an episode."""
        if not len(rows.lines):
            return Beginnings(rows.after_gap, rows.first)
        ended = rows.terminated | rows.truncated
        begins = rows.after_gap | np.append(self._ended, ended[:-1])
        if rows.episodes is None:
            begins |= rows.openings
        else:
            begins |= self._changes(rows, rows.episodes)
            self._refuse_late_openings(rows, begins)
            self._episode = int(rows.episodes[-1])
        result = self._with_first_observations(rows, begins)
        self._line = int(rows.lines[-1])
        self._terminated, self._ended = bool(rows.terminated[-1]), bool(ended[-1])
        return result

    def go_on(self, lines: Ints, after_gap: Flags) -> Beginnings | None:
        """As `begin`, for rows that say nothing about episodes; None if a first observation waits for one of them."""
        if self._first != _NONE or not len(lines):
            return None
        begins = after_gap
        begins[0] |= self._ended
        places = np.flatnonzero(begins)
        if self.line_without == _NONE and len(places):
            self.line_without, self.place_without = int(lines[places[0]]), self.place
        self._line = int(lines[-1])
        self._terminated = self._ended = False
        return Beginnings(begins, np.full(len(places), _NONE))

    def finish(self) -> None:
        """No row follows that belongs to what came before."""
        self.empty += self._first != _NONE
        self._first = self._episode = _NONE
        self._terminated, self._ended = False, True

    def _changes(self, rows: Rows, episodes: Ints) -> Flags:
        """Where another episode is named. Codes rise as they appear, so a lower one had been left before."""
        rise = np.diff(episodes, prepend=self._episode)
        back = np.flatnonzero(rise < 0)
        if len(back):
            raise DataError(
                f"{self.place(int(rows.lines[back[0]]), EPISODE)}: an episode that had ended goes on; "
                "sort the rows by episode"
            )
        over = np.flatnonzero((rise == 0) & np.append(self._terminated, rows.terminated[:-1]))
        if len(over):
            row = int(over[0])
            before = int(rows.lines[row - 1]) if row else self._line
            raise DataError(
                f"{self.place(int(rows.lines[row]), EPISODE)}: the episode goes on, though it terminated on "
                f"{self.place.unit} {before}; give every episode a number of its own, or correct the ending, "
                f"which is for good"
            )
        return rise > 0

    def _refuse_late_openings(self, rows: Rows, begins: Flags) -> None:
        late = np.flatnonzero(rows.openings & ~begins)
        if len(late):
            raise DataError(
                f"{self.place(int(rows.lines[late[0]]), ACTION)}: an empty cell, in a row that is not the first of "
                "its episode; only what was shown before the first action has none: complete it, or let a new episode "
                "begin after it with missing='split' (--missing split)"
            )

    def _with_first_observations(self, rows: Rows, begins: Flags) -> Beginnings:
        """A first observation belongs to the step in the next row, unless that begins another episode."""
        if self._first == _NONE and not len(rows.first):  # as in most tables
            self._count(rows, np.zeros_like(begins), np.zeros_like(begins), begins)
            return Beginnings(begins, np.full(np.count_nonzero(begins), _NONE))
        shown = np.full(len(begins) + 1, _NONE)
        shown[0] = self._first
        shown[1:][rows.openings] = rows.first
        before, self._first = shown[:-1], int(shown[-1])
        waiting = before != _NONE
        joined = waiting & ~begins & ~rows.openings
        fresh = (waiting | begins) & ~rows.openings
        self._count(rows, waiting, joined, fresh)
        return Beginnings(fresh[~rows.openings], np.where(joined, before, _NONE)[fresh])

    def _count(self, rows: Rows, waiting: Flags, joined: Flags, fresh: Flags) -> None:
        self.opened += int(np.count_nonzero(joined))
        self.empty += int(np.count_nonzero(waiting & ~joined))
        without = fresh & ~joined
        if self.line_without == _NONE and without.any():
            self.line_without, self.place_without = int(rows.lines[without.argmax()]), self.place
        if self.line_opened == _NONE and rows.openings.any():
            self.line_opened = int(rows.lines[rows.openings.argmax()])
