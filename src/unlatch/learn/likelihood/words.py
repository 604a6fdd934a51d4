"""Passes over a long log from word to word: a few steps at a time, whose matrices are multiplied once.

With few states and few symbols the same short sequences come again and again. A pass then costs as many products as
the log has words, and what is told apart at the end is the tree of different words, which is small. The sums are those
of passes from step to step, but for rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import unlatch.learn.likelihood.lanes as lanes
from unlatch.arrays import Floats, Ints
from unlatch.core.budget import checkpoint
from unlatch.errors import BeliefCollapseError

__all__ = ["WordPasses", "Words", "are_worth_it", "may_be_worth_it", "words_of"]

LEAST_STEPS = 1 << 14
"""Events from which on words are made. Below, a pass takes a millisecond, most of which is not spent on steps."""

MOST_STATES = 8
"""States up to which words are made. Messages of eight numbers are held in registers by every compiler that was tried.
Those of twelve are by some: with 9 to 12 states a step took 80 ns on one machine and 300 to 500 on another, where
passes from step to step take 100."""

MOST_SYMBOLS = 1 << 8
LEAST_LENGTH, LONGEST = 1.5, 8
"""Steps of a word at least, on average, and at most."""

FEW = 1 << 11
"""Different words: what they need, some hundred bytes each, should fit the fast caches."""

STEPS_PER_WORD = 80
"""Steps of a log for every different word, at least. Each is multiplied out in every pass, and its sums told apart: in
logs of 2e4 to 1e5 steps, with two to eight states, more words than that saved less than they cost."""

PROBED_SHARE = 1 / 32
LEAST_PROBED = 16
"""The part of a log that is read to find out how long its words may be, and steps of it for every word that is allowed:
fewer would not show them."""

STRETCH = 1 << 15
"""Words of a stretch, whose forward messages are computed anew where those of the whole log are too many to keep."""

_WORD_COST = 100
"""What a word costs apart from its multiplications, in multiplications."""


@dataclass(frozen=True, eq=False)
class Words:
    """A log as words.

    Attributes
    ----------
    numbers : array of uint32, shape (words of the log,)
    begins : array of bool, shape (words of the log,)
        Where episodes begin.
    parents, lasts : array of int32, shape (different words,)
        Every word is the one that is its parent, followed by the symbol that is its last; single symbols come first
        and have neither.
    counts : array of int, shape (different words,)
        How often each comes.
    """

    numbers: NDArray[np.uint32]
    begins: NDArray[np.bool_]
    parents: NDArray[np.int32]
    lasts: NDArray[np.int32]
    counts: Ints

    def __len__(self) -> int:
        return len(self.numbers)


def may_be_worth_it(events: int, states: int, symbols: int) -> bool:
    """Whether passes from word to word may be faster than those from step to step: it is worth making the words."""
    return events >= LEAST_STEPS and states <= MOST_STATES and symbols <= MOST_SYMBOLS


def are_worth_it(words: Words, events: int) -> bool:
    """Whether passes from word to word are faster: if words are long enough."""
    return events >= LEAST_LENGTH * len(words)


def words_of(symbols: NDArray[np.uint32], begins: NDArray[np.bool_], n_symbols: int) -> Words:
    """A log in words that are as long as they can be while they are few."""
    few = max(n_symbols, min(FEW, len(symbols) // STEPS_PER_WORD))
    room = 2 * few  # beyond it no new words are made; what comes then is read in shorter ones
    probed = max(1, int(PROBED_SHARE * len(symbols)), LEAST_PROBED * few)
    longest = 1
    while longest < LONGEST:
        tried = _cut(symbols[:probed], begins[:probed], n_symbols, longest + 1, room)
        if len(tried.parents) > few:
            break
        longest += 1
    return _cut(symbols, begins, n_symbols, longest, room)


def _cut(
    symbols: NDArray[np.uint32], begins: NDArray[np.bool_], n_symbols: int, longest: int, room: int
) -> Words:
    from unlatch.kernels.symbols import count_symbols
    from unlatch.kernels.words import read_words

    children = np.full((room, n_symbols), -1, dtype=np.int32)
    parents, lasts = np.zeros((2, room), dtype=np.int32)
    numbers, starts = np.empty(len(symbols), dtype=np.uint32), np.empty(len(symbols), dtype=bool)
    written, used = read_words(symbols, begins, longest, children, parents, lasts, n_symbols, numbers, starts)
    found, counts = numbers[:written].copy(), np.zeros(used, dtype=np.int64)
    count_symbols(found, counts)
    return Words(found, starts[:written].copy(), parents[:used], lasts[:used], counts)


class WordSums(NamedTuple):
    """What a counting pass adds to: outer products by row of a word's matrix, posteriors of the states left by the last
    steps of episodes, by symbol, and of the states that episodes begin in."""

    outer: Floats
    last: Floats
    first: Floats


class WordPasses:
    """Forward, backward and counting pass over a log in words; `Passes`.

    Parameters
    ----------
    matrices : array, shape (symbols, states, states)
    initial : array, shape (states,)
    words : Words
    start : array, shape (states,), optional
        The belief that the first word finds if no episode begins there.
    after : array, shape (states,), optional
        How likely what comes after the last word is from every state, if its episode goes on.
    last_move_unseen : bool
        Nothing observed depends on the move of an episode's last step.
    """

    def __init__(
        self,
        matrices: Floats,
        initial: Floats,
        words: Words,
        *,
        start: Floats | None,
        after: Floats | None,
        last_move_unseen: bool,
    ) -> None:
        from unlatch.kernels.words import Rows, multiply_out

        n = matrices.shape[1]
        width = n + -n % 4
        different = len(words.parents)
        self._words = words
        self._matrices = np.zeros((len(matrices), n, width))
        self._matrices[:, :, :n] = matrices
        self._rows = Rows(
            np.zeros(different + 1, dtype=np.int64),
            np.zeros(different * n, dtype=np.int64),
            np.zeros((different * n + 1, width)),
            np.zeros(different * n, dtype=np.int64),
        )
        self._used = multiply_out(words.parents, words.lasts, self._matrices, self._rows)
        self._initial, self._start, self._after = (
            np.append(np.ones(n) if values is None else values, np.zeros(width - n))
            for values in (initial, initial if start is None else start, after)
        )
        self._ones = tuple(np.append(np.ones(n), np.zeros(width - n)))
        self._ending = after is None
        self._unseen = last_move_unseen
        self._row_counts = np.diff(self._rows.starts)
        noted = int(self._row_counts @ words.counts)
        self._keeps_all = noted <= lanes.KEPT_NUMBERS
        length = -(-len(words) // 2) if self._keeps_all else STRETCH
        self._cuts = [*range(0, len(words), length), len(words)]
        self._messages = np.empty((len(self._cuts) - 1, width))
        self._tape = np.empty(noted if self._keeps_all else 0)
        self._ends = np.zeros(len(self._cuts), dtype=np.int64)
        self.work = float(len(words)) * (_WORD_COST + self._used / different * width)

    def empty_sums(self) -> WordSums:
        symbols, n, width = self._matrices.shape
        return WordSums(np.zeros((self._used, width)), np.zeros((symbols, n)), np.zeros(n))

    def message(self) -> Floats:
        return self._after[None].copy()

    def forward(self) -> float:
        message, gained = self._start[None].copy(), 0.0
        tape = self._tape if self._keeps_all else self._scratch()
        for stretch in range(len(self._messages)):
            checkpoint()
            self._messages[stretch] = message[0]
            gained += self._carry(stretch, message, tape)
        return gained + float(np.log(message[0] @ self._after))

    def _carry(self, stretch: int, message: Floats, tape: Floats) -> float:
        """Take a forward message through a stretch of words; the logarithm of the factors that were taken out."""
        from unlatch.kernels.words import forward_words

        first, last = self._cuts[stretch : stretch + 2]
        begin = self._ends[stretch] if self._keeps_all else 0
        gain, done, end = forward_words(
            *self._log, first, last, self._rows, tuple(self._initial), message, tape, begin
        )
        if done < last:
            raise BeliefCollapseError(f"word {done}: impossible under the model and the words before it")
        self._ends[stretch + 1] = end
        return float(gain)

    def _scratch(self) -> Floats:
        """A tape for one stretch."""
        return np.empty(STRETCH * int(self._row_counts.max()))

    @property
    def _log(self) -> tuple[Any, Any]:
        return self._words.numbers, self._words.begins

    @property
    def _middle(self) -> int:
        return len(self._messages) // 2

    def backward(self, message: Floats) -> Iterator[bool]:
        from unlatch.kernels.words import backward_words

        for stretch in range(len(self._messages) - 1, self._middle - 1, -1):
            first, last = self._cuts[stretch : stretch + 2]
            backward_words(*self._log, first, last, self._rows, self._ones, message, self._ending)
            yield True

    def upper(self, message: Floats, sums: WordSums) -> Iterator[int]:
        return self._count(message, self._middle, len(self._messages), sums)

    def lower(self, message: Floats, sums: WordSums) -> Iterator[int]:
        return self._count(message, 0, self._middle, sums)

    def _count(self, message: Floats, begin: int, stop: int, sums: WordSums) -> Iterator[int]:
        from unlatch.kernels.words import count_words

        tape = self._tape if self._keeps_all else self._scratch()
        for stretch in range(stop - 1, begin - 1, -1):
            checkpoint()
            if not self._keeps_all:
                self._carry(stretch, self._messages[stretch][None].copy(), tape)
            yield count_words(
                *self._log,
                self._unseen,
                *self._cuts[stretch : stretch + 2],
                self._rows,
                self._ones,
                message,
                tape,
                self._ends[stretch + 1],
                self._ending,
                sums,
            )

    def joint(self, sums: WordSums) -> Floats:
        """Expected moves by symbol (symbols, n, n); uses up what was summed by word."""
        from unlatch.kernels.words import tell_apart

        outer = np.zeros_like(self._matrices)
        tell_apart(self._words.parents, self._words.lasts, self._matrices, self._rows, sums.outer, outer)
        outer *= self._matrices
        return outer[:, :, : self._matrices.shape[1]]
