"""Reading ``.POMDP`` files, Cassandra's text format, in which the state reached shows the observation.

The text is cut into words once, by a pattern that never looks back, and the words are gone through once; what line a
word stood in is looked up only where something is to be said about it. Comments that unlatch wrote itself
(`comment_table`) give back the names and what else the format has no place for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from math import isfinite, prod
from typing import Any, NoReturn

import numpy as np

from unlatch.arrays import Floats
from unlatch.core.checks import REPAIRABLE, ROUNDING
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.memory import require_memory
from unlatch.core.pomdp import POMDP
from unlatch.core.problem import smallest_table
from unlatch.core.reward import Reward
from unlatch.errors import ModelFileError, ResourceLimitError, UnlatchError
from unlatch.files.models.comment_table import CommentTable, find_table
from unlatch.files.models.native import SavedModel, unreachable, with_repairs_noted

__all__ = ["RESERVED", "read_pomdp"]

_COMMENT = re.compile(r"#[^\n\r]*+")
_SIGN = re.compile(r"(?<![^ \t\n\r\f\v:])([+-])[ \t]++(?=[0-9.])")
_WORD = re.compile(r"[:*]|[^ \t\n\r\f\v:*]++")
_NUMBER_SIGNS = re.compile(r"[0-9.eE+-]*+")
_NAME = re.compile(r"[A-Za-z_][^\x00-\x20\x7f]*+")

_LISTS = ("states", "actions", "observations")
_PREAMBLE = ("discount", "values", *_LISTS)
_SECTIONS = (*_PREAMBLE, "start", "T", "O", "R")
RESERVED = frozenset((*_SECTIONS, "uniform", "identity", "reset", "reward", "cost", "include", "exclude"))
"""Words that cannot be names."""

_AXES = {
    "T": ("actions", "states", "states"),
    "O": ("actions", "states", "observations"),
    "R": ("actions", "states", "states", "observations"),
}
_ROW_WORDS = {"T": ("uniform", "reset"), "O": ("uniform",), "R": ()}

_LONGEST_NUMBER = 1200
"""Characters: the smallest float written without an exponent has fewer."""

_MOST_BYTES = 1 << 30
_LEAST_BYTES, _BYTES_A_BYTE = 1 << 27, 64
"""Memory for the tables of a model: as much as the first; of a short file no more than the second, and the third for
every byte of it, so that a few bytes cannot ask for all the memory there is."""

_MOST_NUMBERED = 1_000_000
"""Actions or observations that a file may have without naming them: their numbers become names."""

_MOST_NAMES_SHOWN = 8

Place = int | slice


class _Floats(dict[str, float]):
    """Words to numbers, each made once; a `KeyError` for what is none. ASCII digits, a point, an exponent: no ``nan``,
    no underscores, no digits of other scripts."""

    def __missing__(self, word: str) -> float:
        if word is None or len(word) > _LONGEST_NUMBER or not _NUMBER_SIGNS.fullmatch(word):
            raise KeyError(word)
        try:
            value = float(word)
        except ValueError:
            raise KeyError(word) from None
        if not isfinite(value):
            raise KeyError(word)
        self[word] = value
        return value


class _Words:
    """The words of a file, and where they stand."""

    def __init__(self, text: str, where: str) -> None:
        self.where = where
        clean = _COMMENT.sub("", text) if "#" in text else text
        self._text = _SIGN.sub(r"\1", clean)
        self.list = _WORD.findall(self._text)

    def line(self, index: int) -> int:
        """The line of a word, counted from 1; of a word beyond the last, the last line."""
        found = next(islice(_WORD.finditer(self._text), index, None), None)
        end = len(self._text) if found is None else found.start()
        mark = "\n" if "\n" in self._text else "\r"
        return self._text.count(mark, 0, end) + 1

    def refuse(self, index: int, reason: str, field: str | None = None) -> NoReturn:
        line = self.line(index)
        raise ModelFileError(f"{self.where}: line {line}: {reason}", line=line, field=field)


def read_pomdp(data: bytes, where: str) -> SavedModel:
    """The model, reward and discount of a ``.POMDP`` file, given by its bytes."""
    text = _decoded(data, where)
    reader = _Reader(_Words(text, where), len(data))
    table = find_table(text, where)
    reader.read()
    try:
        return reader.result(table)
    except ModelFileError:
        raise
    except ResourceLimitError as error:
        raise ResourceLimitError(f"{where}: {error}") from None
    except UnlatchError as error:
        raise ModelFileError(f"{where}: {error}") from None


def _decoded(data: bytes, where: str) -> str:
    if not data.strip():
        raise ModelFileError(f"{where}: the file is empty")
    if b"\0" in data:
        raise ModelFileError(f"{where}: byte {data.index(0)} is zero; a .POMDP file is text", line=1)
    try:
        return data.removeprefix(b"\xef\xbb\xbf").decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ModelFileError(
            f"{where}: line {line}: byte {error.start} is not UTF-8; save the file as UTF-8", line=line
        ) from None


class _Reader:
    """Goes through the words once, preamble first, and keeps what they say."""

    def __init__(self, words: _Words, size: int) -> None:
        self._source = words
        self._words = words.list
        self._at = 0
        self._allowed = min(_MOST_BYTES, _LEAST_BYTES + _BYTES_A_BYTE * size)
        self._preamble: dict[str, Any] = {}
        self._initial: Floats | None = None
        self._start_word = 0
        self._entries: dict[str, list[int]] = {"T": [], "O": []}  # the words that they begin at
        self._rewards: list[tuple[tuple[Place, ...], Any]] = []
        self._floats = _Floats()
        self._notes = Diagnostics()

    # --- preamble --------------------------------------------------------------------------------------

    def read(self) -> None:
        """All sections, in the order of the file."""
        words = self._words
        while self._at < len(words) and words[self._at] not in _AXES:
            self._preamble_item()
        missing = [kind for kind in _PREAMBLE if kind not in self._preamble]
        if missing:
            self._refuse(f"{', '.join(missing)}: missing; the preamble needs {', '.join(_PREAMBLE)}")
        self._allocate()
        while self._at < len(words):
            self._single_numbers()
            if self._at < len(words):
                self._table_entry()

    def _preamble_item(self) -> None:
        kind = self._words[self._at]
        begun = self._at
        if kind not in _SECTIONS:
            self._refuse(f"expected one of {', '.join(_SECTIONS)} and a colon, got {_shown(kind)}")
        if kind in self._preamble:
            self._refuse(f"{kind} stands twice")
        if kind == "start":
            self._preamble[kind] = True
            self._start()
            self._start_word = begun
            return
        self._at += 1
        self._colon(kind)
        if kind == "discount":
            self._preamble[kind] = self._discount()
        elif kind == "values":
            self._preamble[kind] = self._one_of("reward", "cost")
        else:
            self._preamble[kind] = self._names(kind)

    def _colon(self, kind: str) -> None:
        if self._word() != ":":
            self._refuse(f"expected a colon after {_shown(kind)}, got {_shown(self._word())}")
        self._at += 1

    def _word(self) -> str | None:
        return self._words[self._at] if self._at < len(self._words) else None

    def _one_of(self, *choices: str) -> str:
        word = self._word()
        if word not in choices:
            self._refuse(f"expected {' or '.join(choices)}, got {_shown(word)}")
        self._at += 1
        return str(word)

    def _discount(self) -> float:
        value = self._number()
        if not 0 <= value <= 1:
            self._refuse(
                f"a discount is a number from 0 to 1, got {value:g}", at=self._at - 1, field="discount"
            )
        if value == 1:
            self._notes = self._notes.noting(
                "undiscounted",
                "the discount is 1, which is for plans with a horizon: sums without end have no value",
            )
        return value

    def _names(self, kind: str) -> tuple[str, ...]:
        """As listed, or numbers if only how many there are is given."""
        begun = self._at
        while (word := self._word()) is not None and word not in RESERVED and word not in (":", "*"):
            self._at += 1
        listed = self._words[begun : self._at]
        if not listed:
            self._refuse(f"{kind}: expected names or a number, got {_shown(word)}{_reserved(word)}")
        if word is not None and word not in _SECTIONS:
            self._refuse(f"{kind}: {_shown(word)} cannot be a name{_reserved(word)}")
        if len(listed) == 1 and _is_index(listed[0]):
            return self._numbered(kind, listed[0], begun)
        for number, name in enumerate(listed):
            if _NAME.fullmatch(name) is None:
                self._refuse(
                    f"{kind}: {_shown(name)} cannot be a name; a name begins with a letter", at=begun + number
                )
        if len(set(listed)) < len(listed):
            place = next(i for i, name in enumerate(listed) if name in listed[:i])
            self._refuse(f"{kind}: {_shown(listed[place])} stands twice", at=begun + place)
        return tuple(listed)

    def _numbered(self, kind: str, word: str, begun: int) -> tuple[str, ...]:
        count = int(word) if len(word) < 10 else self._allowed
        if count == 0:
            self._refuse(f"{kind}: at least one is needed", at=begun)
        numbers = count * count if kind == "states" else count  # of one matrix, at least
        if 8 * numbers > self._allowed or count > _MOST_NUMBERED:
            raise ResourceLimitError(
                f"{self._source.where}: line {self._source.line(begun)}: {kind}: {word[:20]} are too many"
            )
        return tuple(map(str, range(count)))

    def _start(self) -> None:
        """One of the four forms: a distribution, uniform, a state, or some states or all others."""
        begun = self._at
        self._at += 1
        if "states" not in self._preamble:
            self._refuse("start stands before states; the states come first", at=begun)
        mode = self._one_of("include", "exclude") if self._word() != ":" else None
        self._colon("start")
        first = self._at
        while (word := self._word()) is not None and word not in _SECTIONS:
            self._at += 1
        listed = self._words[first : self._at]
        states = self._preamble["states"]
        if mode is None:
            self._initial = self._distribution(listed, states, begun)
            return
        chosen = np.full(len(states), mode == "exclude")
        index = _index_of(states)
        for number, word in enumerate(listed):
            if word == "*" or (place := self._place(word, index, len(states))) is None:
                self._refuse(f"start {mode}: no state {_shown(word)}", at=first + number)
            chosen[place] = mode == "include"
        if not chosen.any() or not listed:
            self._refuse(f"start {mode}: leaves no state to start in", at=begun)
        self._initial = chosen / chosen.sum()

    def _distribution(self, listed: list[str], states: tuple[str, ...], begun: int) -> Floats:
        if listed == ["uniform"]:
            return np.full(len(states), 1 / len(states))
        if len(listed) == 1 and len(states) > 1:
            place = self._place(listed[0], _index_of(states), len(states))
            if isinstance(place, int):
                chosen: Floats = np.eye(1, len(states), place)[0]
                return chosen
            self._refuse(f"start: no state {_shown(listed[0])}", at=begun)
        if len(listed) != len(states):
            self._refuse(f"start: {len(listed)} numbers for {len(states)} states", at=begun)
        after, self._at = self._at, self._at - len(listed)
        row = self._numbers(len(listed), "start")
        self._at = after
        return self._repaired_row(row, begun)

    def _repaired_row(self, row: Floats, word: int) -> Floats:
        total, lowest = float(row.sum()), float(row.min())
        if lowest < -ROUNDING or not abs(total - 1) <= REPAIRABLE:
            what = f"has the negative entry {lowest:g}" if lowest < -ROUNDING else f"sums to {total!r}"
            self._refuse(f"start: {what}; it must be a distribution", at=word, field="start")
        if lowest < 0 or abs(total - 1) > ROUNDING:
            line = self._source.line(word)
            self._note_repair("start", f"line {line}", 1, abs(total - 1), line)
            row = np.maximum(row, 0.0)
            row = row / row.sum()
        return row

    # --- tables ----------------------------------------------------------------------------------------

    def _allocate(self) -> None:
        sizes = {kind: len(self._preamble[kind]) for kind in _LISTS}
        states, actions, observations = (sizes[kind] for kind in _LISTS)
        needed = 8 * actions * states * (states + observations)
        what = f"the tables of {states} states, {actions} actions and {observations} observations"
        self._require(needed, what)
        require_memory(3 * needed, what, "take fewer states")
        self._tables = {
            "T": np.zeros((actions, states, states)),
            "O": np.zeros((actions, states, observations)),
        }
        index = {kind: _index_of(self._preamble[kind]) for kind in _LISTS}
        self._shapes = {kind: tuple(sizes[axis] for axis in axes) for kind, axes in _AXES.items()}
        self._indices = {kind: tuple(index[axis] for axis in axes) for kind, axes in _AXES.items()}
        if self._initial is None:
            self._initial = np.full(states, 1 / states)

    def _require(self, needed: int, what: str) -> None:
        if needed > self._allowed:
            raise ResourceLimitError(
                f"{self._source.where}: {what} would take {needed} bytes; at most {self._allowed} are allowed for a "
                "file of this size"
            )

    def _single_numbers(self) -> None:
        """As many entries as follow each other that are single numbers, all of whose words are as usual: large files
        have a million of these. Whatever else comes is left to `_table_entry`, which also says what is wrong."""
        words, floats, entries = self._words, self._floats, self._entries
        actions, states, observations = (self._indices["R"][axis] for axis in (0, 1, 3))
        moves, shows, rewards = self._tables["T"], self._tables["O"], self._rewards
        at, end = self._at, len(words) - 7
        try:
            while at < end:
                kind = words[at]
                if words[at + 1] != ":" or words[at + 3] != ":" or words[at + 5] != ":":
                    break
                if kind == "R":
                    if words[at + 7] != ":":
                        break
                    value = floats[words[at + 9]]
                    places = (
                        actions[words[at + 2]],
                        states[words[at + 4]],
                        states[words[at + 6]],
                        observations[words[at + 8]],
                    )
                    rewards.append((places, value))
                    at += 10
                    continue
                value = floats[words[at + 7]]
                if kind == "T":
                    moves[actions[words[at + 2]], states[words[at + 4]], states[words[at + 6]]] = value
                elif kind == "O":
                    shows[actions[words[at + 2]], states[words[at + 4]], observations[words[at + 6]]] = value
                else:
                    break
                entries[kind].append(at)
                at += 8
        except (KeyError, IndexError):
            pass
        self._at = at

    def _table_entry(self) -> None:
        """One entry: ``T : a : s : t 0.5`` and its like."""
        words, begun = self._words, self._at
        kind = words[begun]
        if kind not in _AXES:
            if kind in _SECTIONS:
                self._refuse(f"{kind} belongs before the first of T, O and R")
            self._refuse(f"expected T, O or R and a colon, got {_shown(kind)}; one number too many before?")
        places = self._places(begun)
        self._at = begun + 1 + 2 * len(places)
        if not places:
            self._refuse(f"expected a colon and an action after {kind}, got {_shown(self._word())}")
        value = (
            self._number()
            if len(places) == len(self._indices[kind])
            else self._values(kind, self._shapes[kind][len(places) :])
        )
        if kind == "R":
            self._rewards.append((places, value))
        else:
            self._entries[kind].append(begun)
            self._tables[kind][places] = value

    def _places(self, begun: int) -> tuple[Place, ...]:
        """Where the entry that begins at a word sets something."""
        words = self._words
        kind = words[begun]
        places: list[Place] = []
        for axis, index in enumerate(self._indices[kind]):
            at = begun + 1 + 2 * axis
            if words[at : at + 1] != [":"]:
                break
            word = words[at + 1] if at + 1 < len(words) else None
            place = index.get(word)  # type: ignore[arg-type]
            places.append(self._unusual_place(word, kind, axis, at + 1) if place is None else place)
        return tuple(places)

    def _unusual_place(self, word: str | None, kind: str, axis: int, at: int) -> Place:
        name = _AXES[kind][axis]
        place = self._place(word, {}, self._shapes[kind][axis])
        if place is None:
            known = self._preamble[name]
            listing = ", ".join(known[:_MOST_NAMES_SHOWN]) + (
                ", ..." if len(known) > _MOST_NAMES_SHOWN else ""
            )
            self._refuse(f"{kind}: {_shown(word)} is none of the {len(known)} {name}: {listing}", at=at)
        return place

    @staticmethod
    def _place(word: str | None, index: dict[str, Place], size: int) -> Place | None:
        if word is None:
            return None
        if word in index:
            return index[word]
        return int(word) if _is_index(word) and len(word) < 19 and int(word) < size else None

    def _values(self, kind: str, shape: tuple[int, ...]) -> Any:
        """The numbers of a row or of a matrix, or a word that stands for them."""
        word = self._word()
        if word in _ROW_WORDS[kind]:
            self._at += 1
            return 1 / shape[-1] if word == "uniform" else self._initial
        if word == "identity" and kind != "R" and len(shape) == 2 and shape[0] == shape[1]:
            self._at += 1
            return np.eye(shape[0])
        self._require(8 * prod(shape), f"{prod(shape)} numbers of one entry")
        return self._numbers(prod(shape), kind).reshape(shape)

    def _numbers(self, count: int, kind: str) -> Floats:
        listed = self._words[self._at : self._at + count]
        if _NUMBER_SIGNS.fullmatch("".join(listed)) and len(listed) == count:
            try:
                values = np.fromiter(map(float, listed), dtype=np.float64, count=count)
            except ValueError:
                values = None
            if (
                values is not None
                and np.isfinite(values).all()
                and len(max(listed, key=len)) <= _LONGEST_NUMBER
            ):
                self._at += count
                return values
        for number, word in enumerate(listed):  # to say which
            if word in _SECTIONS:
                self._refuse(f"{kind}: expected {count} numbers, got {number}", at=self._at + number)
            self._checked_float(word, self._at + number)
        return self._refuse(
            f"{kind}: expected {count} numbers, got {len(listed)} before the end of the file",
            at=len(self._words) - 1,
        )

    def _number(self) -> float:
        value = self._checked_float(self._word(), self._at)
        self._at += 1
        return value

    def _checked_float(self, word: str | None, at: int) -> float:
        try:
            return self._floats[word]  # type: ignore[index]
        except KeyError:
            return self._refuse(f"expected a number such as 0.25, got {_shown(word)}", at=at)

    def _refuse(self, reason: str, *, at: int | None = None, field: str | None = None) -> NoReturn:
        self._source.refuse(self._at if at is None else at, reason, field)

    # --- what was read ---------------------------------------------------------------------------------

    def result(self, table: CommentTable) -> SavedModel:
        """The model, with rows checked and what was noticed."""
        names = {kind: table.names(kind, self._preamble[kind]) for kind in _LISTS}
        transitions, observations = self._checked_rows("T"), self._checked_rows("O")
        assert self._initial is not None  # since the tables were made
        pomdp, repairs = with_repairs_noted(
            POMDP,
            "model",
            transitions=transitions,
            observations=observations,
            initial=self._initial,
            emission="arrival",
            action_names=names["actions"],
            observation_names=names["observations"],
            state_names=names["states"],
            **table.fields(self._preamble["states"], self._preamble["actions"]),
        )
        reward = Reward.on_transitions(self._reward_table())
        return SavedModel(
            pomdp=pomdp,
            reward=reward,
            discount=self._preamble["discount"],
            diagnostics=self._notes + repairs + unreachable(pomdp),
        )

    def _checked_rows(self, kind: str) -> Floats:
        table = self._tables[kind]
        lowest = table.min(axis=2)
        if (lowest < -ROUNDING).any():
            self._refuse_row(kind, np.argwhere(lowest < -ROUNDING)[0], "has a negative probability")
        if (lowest < 0).any():
            action, state = np.argwhere(lowest < 0)[0]
            self._notes = self._notes.noting(
                "repaired",
                f"{kind}: {self._row_text(kind, action, state)}: negatives down to {lowest.min():.1e} set to zero",
            )
            np.maximum(table, 0.0, out=table)
        totals = table.sum(axis=2)
        off = np.abs(totals - 1)
        if not (off <= REPAIRABLE).all():
            action, state = np.argwhere(~(off <= REPAIRABLE))[0]
            total = float(totals[action, state])
            what = f"sums to {total!r}; it must sum to 1" if total else "is missing"
            self._refuse_row(kind, (action, state), what)
        repaired = off > ROUNDING
        if repaired.any():
            action, state = (int(code) for code in np.unravel_index(int(off.argmax()), off.shape))
            text, line = self._row_text(kind, action, state), self._line_of_row(kind, action, state)
            self._note_repair(kind, text, int(repaired.sum()), float(off.max()), line)
            table[repaired] /= totals[repaired][:, None]
        return table

    def _note_repair(self, kind: str, text: str, rows: int, worst: float, line: int | None) -> None:
        self._notes = self._notes.noting(
            "repaired",
            f"{kind}: {rows} {'row was' if rows == 1 else 'rows were'} renormalized, the worst off by {worst:.1e}: "
            f"{text}",
            rows=rows,
            worst=worst,
            line=line,
        )

    def _refuse_row(self, kind: str, row: Sequence[int] | Any, what: str) -> NoReturn:
        action, state = (int(code) for code in row)
        line = self._line_of_row(kind, action, state)
        text = self._row_text(kind, action, state)
        raise ModelFileError(f"{self._source.where}: {kind}: {text}: the row {what}", line=line, field=kind)

    def _row_text(self, kind: str, action: Any, state: Any) -> str:
        line = self._line_of_row(kind, int(action), int(state))
        where = "" if line is None else f"line {line}, "
        names = self._preamble["actions"][action], self._preamble["states"][state]
        return f"{where}action {names[0]!r}, state {names[1]!r}"

    def _line_of_row(self, kind: str, action: int, state: int) -> int | None:
        """Of the last entry that set something in a row."""
        for begun in reversed(self._entries[kind]):
            places = self._places(begun)
            if all(_covers(place, code) for place, code in zip(places, (action, state), strict=False)):
                return self._source.line(begun)
        return None

    def _reward_table(self) -> Floats:
        """All rewards, with the next state and the observation left out where no entry speaks of them."""
        shape = self._shapes["R"]
        used = {axis for axis in (2, 3) if any(_speaks_of(places, axis) for places, _ in self._rewards)}
        kept = tuple(size if axis < 2 or axis in used else 1 for axis, size in enumerate(shape))
        self._require(8 * prod(kept), f"the rewards of {' by '.join(map(str, kept))} cases")
        require_memory(24 * prod(kept), "the rewards", "take fewer states or observations")
        table = np.zeros(kept)
        for places, value in self._rewards:  # an axis that is left out has nothing but wildcards
            table[places] = value
        signed = -table if self._preamble["values"] == "cost" else table
        if self._preamble["values"] == "cost":
            self._notes = self._notes.noting(
                "costs_negated", "the file has costs; rewards are their negatives"
            )
        return smallest_table(signed + 0.0)  # no negative zeros


def _speaks_of(places: tuple[Place, ...], axis: int) -> bool:
    return len(places) <= axis or isinstance(places[axis], int)


def _covers(place: Place, code: int) -> bool:
    return isinstance(place, slice) or place == code


def _index_of(names: tuple[str, ...]) -> dict[str, Place]:
    """Every name, every number and the wildcard to the place that it stands for; a name goes before a number."""
    index: dict[str, Place] = {"*": slice(None)}
    index.update((str(code), code) for code in range(len(names)))
    index.update((name, code) for code, name in enumerate(names))
    return index


def _is_index(word: str) -> bool:
    return word.isascii() and word.isdigit()


def _shown(word: str | None) -> str:
    return "the end of the file" if word is None else repr(word[:40])


def _reserved(word: str | None) -> str:
    return ", which is a reserved word" if word in RESERVED else ""
