"""Rows of tables become steps of a log: gaps, first observations, endings, episodes, growing alphabets.

The same for every kind of file, and for several files one after the other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from unlatch.arrays import Flags, Floats, Ints
from unlatch.core.alphabet import refuse_continuous
from unlatch.core.chunks import LogChunk
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.trajectory import CHANCE_RANGE
from unlatch.errors import DataError
from unlatch.files.logs.alphabets import GrowingAlphabet, noting_variants
from unlatch.files.logs.columns import (
    ACTION,
    EPISODE,
    OBSERVATION,
    PROBABILITY,
    REWARD,
    STEP,
    TERMINATED,
    TRUNCATED,
)
from unlatch.files.logs.episodes import Beginnings, Episodes, Rows
from unlatch.files.logs.rows import NOTHING, WRONG, YES, Answers, Lines, Numbers, Place, RowBatch, RowSource

__all__ = ["Assembler", "Autoreset", "Missing"]

Missing = Literal["refuse", "split"]
Autoreset = Literal["next-step"]

_REMEDIES = {
    REWARD: "correct it, or leave the rewards out with reward=None (--ignore-reward)",
    PROBABILITY: "correct it, or leave the probabilities out with probability=None (--ignore-probability)",
    STEP: "correct it, or leave the numbers of steps out with step=None (--ignore-step)",
}
"""What to do about a cell that should hold a number."""

_FLAG_REMEDIES = {
    TERMINATED: "or leave the column out with terminated=None (--ignore-terminated)",
    TRUNCATED: "or leave the column out with truncated=None (--ignore-truncated)",
}

_FIRST = -1
"""The alphabet of first observations, beside those of `ACTION` and `OBSERVATION`."""


class _Gaps:
    """Rows without action or observation, and blank lines between rows: where steps do not join.

    ``rows`` counts them, ``line`` and ``column`` (-1: blank) are of the first, and ``open`` says that the
    next step has none before it to join. With ``openings`` a row that lacks the action only is no gap.
    """

    def __init__(self, openings: bool) -> None:
        self.rows = 0
        self.line = 0
        self.column = -1
        self.place = Place("", ())
        self.open = True
        self._here = Place("", ())
        self._openings = openings
        self._blank_rows = 0
        self._blank_line = 0

    def enter(self, place: Place, *, continued: bool) -> None:
        """Another table; blank lines at the end of the one before meant nothing."""
        self._here = place
        self._blank_rows = 0
        self.open |= not continued

    def split(self, rows: RowBatch) -> tuple[RowBatch, Flags, Flags]:
        """The rows that are none, which of them come after one, and which of them lack an action."""
        if rows.blank is None and all(rows.symbols[c].min(initial=0) >= 0 for c in (ACTION, OBSERVATION)):
            return self._all_complete(rows)
        shown = rows.symbols[OBSERVATION] >= 0
        complete = shown & (rows.symbols[ACTION] >= 0)
        present = shown if self._openings else complete
        if present.all():
            after = np.zeros(len(rows), dtype=bool)
            kept = rows
            self._settle_blank_lines()
        else:
            self._count(~present, rows)
            places = np.flatnonzero(present)
            after = np.diff(places, prepend=-1) > 1
            kept = rows.chosen(places)
        if len(after):
            after[0] |= self.open
        if len(present):
            self.open = not present[-1]
        if kept.seams is not None:
            after |= kept.seams
        return kept, after, ~complete[present]

    def _all_complete(self, rows: RowBatch) -> tuple[RowBatch, Flags, Flags]:
        """The same where no cell is empty, as in most tables."""
        after, openings = np.zeros((2, len(rows)), dtype=bool)
        if len(rows):
            self._settle_blank_lines()
            after[0] = self.open
            self.open = False
        if rows.seams is not None:
            after |= rows.seams
        return rows, after, openings

    def _count(self, incomplete: Flags, rows: RowBatch) -> None:
        """A blank line counts once a row follows it: at the end of a file it means nothing."""
        blank = np.zeros(len(rows), dtype=bool) if rows.blank is None else rows.blank
        filled = np.flatnonzero(~blank)
        last = int(filled[-1]) + 1 if len(filled) else 0
        inside, trailing = np.flatnonzero(incomplete[:last]), rows.lines[last:]
        if last:
            self._settle_blank_lines()
        if len(inside):
            first = int(inside[0])
            empty = ACTION if rows.symbols[ACTION][first] < 0 else OBSERVATION
            self._add(len(inside), int(rows.lines[first]), -1 if blank[first] else empty)
        if len(trailing):
            self._blank_line = self._blank_line if self._blank_rows else int(trailing[0])
            self._blank_rows += len(trailing)

    def _settle_blank_lines(self) -> None:
        """A row follows them."""
        if self._blank_rows:
            self._add(self._blank_rows, self._blank_line, -1)
            self._blank_rows = 0

    def _add(self, rows: int, line: int, column: int) -> None:
        if self.rows == 0:
            self.line, self.column, self.place = line, column, self._here
        self.rows += rows


class _StepNumbers:
    """Follows the column that numbers steps: inside an episode they rise by one; where they rise by more, some are
    missing."""

    def __init__(self) -> None:
        self.gaps = 0
        self.checked = 0
        self._last = 0.0

    def breaks(self, numbers: Floats, starts: Ints, lines: Lines, place: Place) -> Flags:
        """Where steps are missing, of episodes that begin at ``starts``."""
        rise = np.diff(numbers, prepend=self._last)
        inside = np.ones(len(numbers), dtype=bool)
        inside[starts] = False
        back = np.flatnonzero(inside & (rise <= 0))
        if len(back):
            row = int(back[0])
            what = "stands twice" if rise[row] == 0 else "comes after a higher one"
            raise place.wrong(
                int(lines[row]),
                STEP,
                f"step {numbers[row]:g} {what} in the same episode. If rows are out of order, sort=True "
                f"(--sort) puts them "
                "in order; if they belong to several episodes or environments, name the column that tells them "
                "apart with "
                "episode=... or environment=... (--episode, --environment); if the column does not number steps, "
                "step=None (--ignore-step)",
            )
        if len(numbers):
            self._last = float(numbers[-1])
        missing: Flags = inside & (rise != 1)
        self.gaps += int(missing.sum())
        self.checked += int(inside.sum())
        return missing


class Assembler:
    """Makes a log from the rows of one table, or of several: `enter` one, `take` its rows, `leave` it."""

    def __init__(
        self, *, missing: Missing, strict: bool, continued: bool, autoreset: Autoreset | None
    ) -> None:
        self.steps = 0
        self.diagnostics = Diagnostics()
        self._missing = missing
        self._strict = strict
        self._continued = continued
        self._drops_resets = autoreset == "next-step"
        self._gaps = _Gaps(openings=missing == "refuse")
        self._episodes = Episodes()
        self._numbers = _StepNumbers()
        self._alphabets = {column: GrowingAlphabet() for column in (ACTION, OBSERVATION, _FIRST)}
        self._episode_codes: dict[str, int] = {}
        self._place = Place("", ())
        self._first_place: Place | None = None
        self._optional: tuple[int, ...] | None = None
        self._resets = 0
        self._reset_next = False

    # --- tables

    def enter(self, source: RowSource) -> None:
        """The rows that follow are those of ``source``."""
        self._place = self._episodes.place = source.place
        self._first_place = self._first_place or source.place
        optional = tuple(
            column for column in source.columns.present if column in (REWARD, PROBABILITY, TERMINATED)
        )
        if self._optional is not None and optional != self._optional:
            raise DataError(
                f"{source.place.where}: has not the same columns as {self._first_place.where}: of reward, probability "
                "and terminated, all files of a log have a column or none has; leave it out with reward=None "
                "(--ignore-reward) and so on"
            )
        self._optional = optional
        self._gaps.enter(source.place, continued=self._continued)
        for alphabet in self._alphabets.values():
            alphabet.enter_table()

    def leave(self, source: RowSource) -> None:
        """All rows of ``source`` have been taken."""
        self.diagnostics += source.findings(self._strict)
        if not self._continued:
            self._episodes.finish()
            self._reset_next = False

    def finish(self) -> Diagnostics:
        """No table follows: refuse what may not be passed over, note what may."""
        self._episodes.finish()
        self._note_gaps()
        self._note_first_observations()
        self._note_step_numbers()
        if self._resets:
            self.diagnostics = self.diagnostics.noting(
                "reset_rows", f"{self._resets} rows were resets, not steps; left out", rows=self._resets
            )
        if self.steps == 0:
            self._refuse_emptiness()
        place = self._first_place or self._place
        for column, alphabet in self._alphabets.items():
            name = place.names[max(column, OBSERVATION) if column == _FIRST else column]
            refuse_continuous(f"{place.where}, column {name!r}", len(alphabet), self.steps)
            if column != _FIRST:
                self.diagnostics = noting_variants(self.diagnostics, alphabet.names, name)
        return self.diagnostics

    # --- rows

    def take(self, rows: RowBatch) -> LogChunk:
        """The steps of the next rows."""
        rows = self._without_resets(rows)
        kept, after_gap, openings = self._gaps.split(rows)
        steps, opened = kept, None
        if openings.any():
            steps, opened = _without_episodes(kept).chosen(~openings), kept.chosen(openings)
            self._refuse_content(opened)
        numbers = {column: self._checked_numbers(steps, column) for column in steps.numbers}
        answers = {column: self._checked_answers(steps, column) for column in steps.answers}
        if PROBABILITY in numbers:
            self._check_chances(numbers[PROBABILITY], steps.lines)
        starts, first = self._beginnings(kept, opened, after_gap, openings)
        if STEP in numbers:
            breaks = self._numbers.breaks(numbers[STEP], starts, steps.lines, self._place)
            if breaks.any():
                starts, first = _with_breaks(starts, first, breaks)
        chunk = LogChunk(
            start=self.steps,
            actions=self._coded(steps, ACTION, ACTION),
            observations=self._coded(steps, OBSERVATION, OBSERVATION),
            episode_starts=starts,
            action_names=self._alphabets[ACTION].names,
            observation_names=self._alphabets[OBSERVATION].names,
            rewards=numbers.get(REWARD),
            probabilities=numbers.get(PROBABILITY),
            terminated=answers.get(TERMINATED),
            first_observations=first if self._episodes.line_without < 0 else None,
            first_observation_names=self._alphabets[_FIRST].names,
        )
        self.steps += len(chunk)
        return chunk

    def _beginnings(
        self, rows: RowBatch, opened: RowBatch | None, after_gap: Flags, openings: Flags
    ) -> Beginnings:
        """Where episodes begin among the steps of these rows, and their first observations."""
        if opened is None and not rows.answers and EPISODE not in rows.symbols:
            found = self._episodes.go_on(rows.lines, after_gap)
            if found is not None:
                return found
        answers = {column: answers.values for column, answers in rows.answers.items()}
        return self._episodes.begin(
            Rows(
                lines=rows.lines,
                after_gap=after_gap,
                openings=openings,
                first=self._coded(opened, OBSERVATION, _FIRST),
                episodes=self._episodes_of(rows),
                terminated=answers.get(TERMINATED),
                truncated=answers.get(TRUNCATED),
            )
        )

    def _without_resets(self, rows: RowBatch) -> RowBatch:
        """Without the rows that environments add after an ending, where nothing was done but to reset."""
        if not self._drops_resets or not len(rows):
            return rows
        ended = np.zeros(len(rows), dtype=bool)
        for column in (TERMINATED, TRUNCATED):
            if column in rows.answers:
                ended |= rows.answers[column].values == YES
        fake = np.append(self._reset_next, ended[:-1])
        if rows.seams is not None:
            fake &= ~rows.seams
        self._reset_next = bool(ended[-1])
        self._resets += int(fake.sum())
        return rows.chosen(~fake) if fake.any() else rows

    def _coded(self, rows: RowBatch | None, column: int, alphabet: int) -> Any:
        if rows is None:
            return np.zeros(0, dtype=np.int64)
        codes = self._alphabets[alphabet].codes(
            rows.symbols[column], rows.tokens[column], rows.seen[column], self._place, column, self.steps
        )
        return codes.astype(np.int64) if alphabet == _FIRST else codes

    def _episodes_of(self, rows: RowBatch) -> Ints | None:
        """Codes of episodes; those of a log in several files in one numbering."""
        if EPISODE not in rows.symbols:
            return None
        codes = rows.symbols[EPISODE]
        if not self._continued:
            return codes
        tokens, table = rows.tokens[EPISODE], {}
        for code in dict.fromkeys(codes.tolist()):
            text = "" if code == NOTHING else tokens[code]
            table[code] = self._episode_codes.setdefault(text, len(self._episode_codes))
        return np.array([table[code] for code in codes.tolist()], dtype=np.int64)

    # --- cells

    def _checked_numbers(self, rows: RowBatch, column: int) -> Floats:
        numbers: Numbers = rows.numbers[column]
        bad = np.isnan(numbers.values)
        if bad.any():
            row = int(bad.argmax())
            raise self._place.wrong(
                int(rows.lines[row]),
                column,
                f"{numbers.shown(row)[:40]!r} is not a finite number; {_REMEDIES[column]}",
            )
        return numbers.values

    def _checked_answers(self, rows: RowBatch, column: int) -> Flags:
        answers: Answers = rows.answers[column]
        bad = answers.values < 0
        if bad.any():
            row = int(bad.argmax())
            raise self._no_answer(rows, column, row)
        result: Flags = answers.values == YES
        return result

    def _no_answer(self, rows: RowBatch, column: int, row: int) -> DataError:
        return self._place.wrong(
            int(rows.lines[row]),
            column,
            f"{rows.answers[column].shown(row)[:40]!r} is neither true nor false; write true or false, 1 or 0, yes or "
            f"no, {_FLAG_REMEDIES[column]}",
        )

    def _check_chances(self, chances: Floats, lines: Lines) -> None:
        wrong = np.flatnonzero((chances <= 0) | (chances > 1))
        if len(wrong):
            raise self._place.wrong(
                int(lines[wrong[0]]),
                PROBABILITY,
                f"{float(chances[wrong[0]])}; {CHANCE_RANGE}; {_REMEDIES[PROBABILITY]}",
            )

    def _refuse_content(self, rows: RowBatch) -> None:
        """First observations: nothing had been done yet, so that their rows can say no more."""
        for column in (REWARD, PROBABILITY):
            if column in rows.numbers:
                self._checked_numbers(rows.chosen(~rows.numbers[column].empty), column)
                self._refuse_filled(rows, column, np.nan_to_num(rows.numbers[column].values) != 0)
        for column, answers in rows.answers.items():
            wrong = np.flatnonzero(answers.values == WRONG)
            if len(wrong):
                raise self._no_answer(rows, column, int(wrong[0]))
            self._refuse_filled(rows, column, answers.values == YES)

    def _refuse_filled(self, rows: RowBatch, column: int, filled: Flags) -> None:
        if filled.any():
            raise self._place.wrong(
                int(rows.lines[filled.argmax()]),
                column,
                "the row has no action, so that this cell must be empty or zero; name the action, or clear the cell if "
                "the row holds what was shown before the first one",
            )

    # --- at the end

    def _note_gaps(self) -> None:
        gaps = self._gaps
        if not gaps.rows:
            return
        column = gaps.place.names[gaps.column]
        first = f"an empty cell in column {column!r}" if gaps.column >= 0 else "a blank line"
        if self._missing == "refuse":
            raise DataError(
                f"{gaps.place.where}, {gaps.place.unit} {gaps.line}: {first}; {gaps.rows} rows lack action or "
                "observation; complete them, or let a new episode begin after each with missing='split' "
                "(--missing split)",
                line=gaps.line,
            )
        self.diagnostics = self.diagnostics.noting(
            "missing_split",
            f"{gaps.rows} incomplete rows were taken for ends of episodes",
            rows=gaps.rows,
            line=gaps.line,
        )

    def _note_first_observations(self) -> None:
        """Every episode has one or none has; one without a step cannot be kept."""
        episodes = self._episodes
        if episodes.line_opened >= 0 and episodes.line_without >= 0:
            place = episodes.place_without
            raise DataError(
                f"{place.where}, {place.unit} {episodes.line_without}: an episode begins without a first "
                f"observation, but {place.unit} {episodes.line_opened} has an observation and no action, as first "
                "observations do. Give every episode one; or, if that is no first observation, complete the "
                "row, or let "
                "a new episode begin after it with missing='split' (--missing split)"
            )
        if episodes.opened and self._numbers.gaps:
            raise DataError(
                f"{self._place.where}: {self._numbers.gaps} times steps are missing inside an episode that has a first "
                "observation; what follows would begin without one. Leave the numbers of steps out with step=None "
                "(--ignore-step), or the first observations"
            )
        if episodes.empty:
            self.diagnostics = self.diagnostics.noting(
                "empty_episodes",
                f"{episodes.empty} episodes have a first observation and no step; they were left out",
                episodes=episodes.empty,
            )

    def _note_step_numbers(self) -> None:
        gaps, checked = self._numbers.gaps, self._numbers.checked
        if not gaps:
            return
        if gaps > checked / 2:
            raise DataError(
                f"{self._place.where}, column {self._place.names[STEP]!r}: rises by more than one between most "
                f"rows, so "
                "it does not number the steps; name another column, or none with step=None (--ignore-step)"
            )
        self.diagnostics = self.diagnostics.noting(
            "step_gaps",
            f"{gaps} times the numbers of steps leave some out inside an episode; a new episode begins there",
            gaps=gaps,
        )

    def _refuse_emptiness(self) -> None:
        cut = "; its only row has no line end" if "truncated_tail" in self.diagnostics else ""
        raise DataError(f"{self._place.where}: 0 steps{cut}")


def _without_episodes(rows: RowBatch) -> RowBatch:
    return replace(
        rows, symbols={column: codes for column, codes in rows.symbols.items() if column != EPISODE}
    )


def _with_breaks(starts: Ints, first: Ints, breaks: Flags) -> tuple[Ints, Ints]:
    """With more beginnings, which have no first observations."""
    both = np.union1d(starts, np.flatnonzero(breaks))
    result = np.full(len(both), NOTHING)
    result[np.searchsorted(both, starts)] = first
    return both, result
