"""Several steps as one: the words of a log, their matrices, and passes over a log from word to word.

A word is a few consecutive steps of one episode, whose matrix is the product of theirs. A pass from word to word makes
as many products of messages and matrices as there are words, and adds outer products by word; what every symbol adds to
these is told apart once, at the end: if the outer products of the word u v are summed to G, those of u are G V^T, and
those of v are U^T G.

Words are numbered as the nodes of a tree: the single symbols come first, and every other word is a word before it,
its parent, with one symbol more. Of a word's matrix only those rows are kept that are not zero, which are few where
what is seen tells much about the state. Rows are padded to a multiple of four numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unlatch.kernels._jit import bare, bare_inlined, with_item

_SMALL = 1e-30
"""Messages whose sum is below are scaled to sum one."""

_LOST = 1e-250
"""A likelihood below, in the scale of the two messages it is a product of, may have lost its digits."""


class Rows(NamedTuple):
    """The matrices of all words: rows ``starts[w]`` to ``starts[w + 1]`` are those of word w that are not zero, each
    with the state it leaves, its numbers, and the row of the parent that it comes from."""

    starts: Any
    states: Any
    numbers: Any
    origins: Any


@bare
def read_words(symbols, begins, longest, children, parents, lasts, used, words, starts):  # type: ignore[no-untyped-def]
    """Cut a log into words of up to ``longest`` steps; the last step of every episode is one of its own.

    ``children[word, symbol]`` is the word with that symbol more, or -1; new words are added after the first ``used``
    as long as there is room in ``parents``, and where there is none words are shorter. ``words`` and ``starts``
    receive the word and whether it begins an episode. Returns how many words there are, and how many different ones.
    """
    total = symbols.shape[0]
    room = parents.shape[0]
    written = 0
    t = 0
    while t < total:
        word = np.int64(symbols[t])
        starts[written] = begins[t]
        end = min(t + longest, total - 1)
        t += 1
        while t < end and not begins[t] and not begins[t + 1]:
            longer = children[word, symbols[t]]
            if longer < 0:
                if used == room:
                    break
                longer = used
                children[word, symbols[t]] = longer
                parents[longer] = word
                lasts[longer] = symbols[t]
                used += 1
            word = np.int64(longer)
            t += 1
        words[written] = word
        written += 1
    return written, used


@bare
def multiply_out(parents, lasts, matrices, rows):  # type: ignore[no-untyped-def]
    """Fill ``rows`` with the matrices of all words, from those of the symbols (symbols, n, width)."""
    starts, states, numbers, origins = rows
    n_symbols, n, width = matrices.shape
    used = 0
    for word in range(parents.shape[0]):
        starts[word] = used
        if word < n_symbols:
            for i in range(n):
                for j in range(width):
                    numbers[used, j] = matrices[word, i, j]
                if is_not_zero(numbers, used):
                    states[used], origins[used] = i, used
                    used += 1
            continue
        last = lasts[word]
        for row in range(starts[parents[word]], starts[parents[word] + 1]):
            for j in range(width):
                numbers[used, j] = 0.0
            for m in range(n):
                share = numbers[row, m]
                if share != 0.0:
                    for j in range(width):
                        numbers[used, j] += share * matrices[last, m, j]
            if is_not_zero(numbers, used):
                states[used], origins[used] = states[row], row
                used += 1
    starts[parents.shape[0]] = used
    return used


@bare_inlined
def is_not_zero(numbers, row):  # type: ignore[no-untyped-def]
    """Whether a row has a number that is not zero."""
    for j in range(numbers.shape[1]):
        if numbers[row, j] != 0.0:
            return True
    return False


@bare
def forward_words(words, begins, first, last, rows, initial, message, tape, written):  # type: ignore[no-untyped-def]
    """Carry a forward message through words ``first`` to ``last``; what it gives to the rows of every word is noted
    on ``tape`` from ``written`` on.

    Returns (logarithm of the factors that were taken out, words done, numbers on the tape). Fewer words done than
    there are means that the next one is impossible, or all but.
    """
    starts, states, numbers, _ = rows
    gained = 0.0
    for t in range(first, last):
        if begins[t]:
            if t > 0:
                gained += np.log(add(load(message, 0, initial)))
            store(message, 0, initial)
        word = words[t]
        begin, end = starts[word], starts[word + 1]
        now = zero(initial)
        for row in range(begin, end):
            share = message[0, states[row]]
            tape[written] = share
            written += 1
            now = add_multiple(now, share, numbers, row)
        mass = add(now)
        if mass < _SMALL:
            if not mass > _LOST:
                return gained, t, written
            now = multiply(now, 1.0 / mass)
            gained += np.log(mass)
        store(message, 0, now)
    return gained, last, written


@bare
def count_words(words, begins, departure, first, last, rows, ones, message, tape, written, ending, sums):  # type: ignore[no-untyped-def]
    """Add the outer products of words ``last - 1`` down to ``first`` to ``sums``, with the backward message, which is
    carried along; ``written`` is where the tape of these words ends.

    ``ending`` says that the last word of all ends an episode. Returns how many words have a likelihood that has
    lost its digits.
    """
    starts, states, numbers, _ = rows
    outer, posteriors, beginnings = sums
    lost = 0
    for t in range(last - 1, first - 1, -1):
        word = words[t]
        ends = ending if t + 1 == words.shape[0] else begins[t + 1]
        if ends:
            store(message, 0, ones)
        after = load(message, 0, ones)
        begin, end = starts[word], starts[word + 1]
        written -= end - begin
        store(message, 0, zero(ones))
        likelihood, mass = 0.0, 0.0
        for row in range(begin, end):
            chance = product(after, numbers, row)
            message[0, states[row]] = chance
            mass += chance
            likelihood += tape[written + row - begin] * chance
        if likelihood < _LOST:
            lost += 1
            likelihood = 1.0
        factor = 1.0 / likelihood
        if ends and departure:
            for row in range(begin, end):
                posteriors[word, states[row]] += (
                    tape[written + row - begin] * factor * message[0, states[row]]
                )
        else:
            for row in range(begin, end):
                add_to(outer, row, tape[written + row - begin] * factor, after)
        if begins[t]:
            for row in range(begin, end):
                beginnings[states[row]] += tape[written + row - begin] * factor * message[0, states[row]]
        if mass < _SMALL and mass > 0.0:
            store(message, 0, multiply(load(message, 0, ones), 1.0 / mass))
    return lost


@bare
def backward_words(words, begins, first, last, rows, ones, message, ending):  # type: ignore[no-untyped-def]
    """Carry the backward message of `count_words` from after word ``last - 1`` to before word ``first``."""
    starts, states, numbers, _ = rows
    for t in range(last - 1, first - 1, -1):
        word = words[t]
        if ending if t + 1 == words.shape[0] else begins[t + 1]:
            store(message, 0, ones)
        after = load(message, 0, ones)
        store(message, 0, zero(ones))
        mass = 0.0
        for row in range(starts[word], starts[word + 1]):
            chance = product(after, numbers, row)
            message[0, states[row]] = chance
            mass += chance
        if mass < _SMALL and mass > 0.0:
            store(message, 0, multiply(load(message, 0, ones), 1.0 / mass))


@bare
def tell_apart(parents, lasts, matrices, rows, outer, by_symbol):  # type: ignore[no-untyped-def]
    """Give what was summed by word to the symbols that it is made of: ``by_symbol`` (symbols, n, width).

    From the longest words to the shortest, so that every word has all that it passes on. ``outer`` changes.
    """
    starts, states, numbers, origins = rows
    n_symbols, n, width = matrices.shape
    for word in range(parents.shape[0] - 1, n_symbols - 1, -1):
        last = lasts[word]
        for row in range(starts[word], starts[word + 1]):
            origin = origins[row]
            for m in range(n):
                total = 0.0
                for j in range(width):
                    total += outer[row, j] * matrices[last, m, j]
                outer[origin, m] += total
                share = numbers[origin, m]
                if share != 0.0:
                    for j in range(width):
                        by_symbol[last, m, j] += share * outer[row, j]
    for word in range(n_symbols):
        for row in range(starts[word], starts[word + 1]):
            for j in range(width):
                by_symbol[word, states[row], j] += outer[row, j]


@bare_inlined
def zero(like):  # type: ignore[no-untyped-def]
    """A message of zeros, as wide as another."""
    for j in range(len(like)):
        like = with_item(like, j, 0.0)
    return like


@bare_inlined
def add_multiple(message, factor, numbers, row):  # type: ignore[no-untyped-def]
    """``message + factor * numbers[row]``."""
    for j in range(len(message)):
        message = with_item(message, j, message[j] + factor * numbers[row, j])
    return message


@bare_inlined
def product(message, numbers, row):  # type: ignore[no-untyped-def]
    """``message @ numbers[row]``."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for j in range(0, len(message), 4):
        a += message[j] * numbers[row, j]
        b += message[j + 1] * numbers[row, j + 1]
        c += message[j + 2] * numbers[row, j + 2]
        d += message[j + 3] * numbers[row, j + 3]
    return (a + b) + (c + d)


@bare_inlined
def add_to(sums, row, factor, message):  # type: ignore[no-untyped-def]
    """``sums[row] += factor * message``."""
    more = message
    for j in range(len(message)):
        more = with_item(more, j, sums[row, j] + factor * message[j])
    for j in range(len(message)):
        sums[row, j] = more[j]


@bare_inlined
def multiply(message, factor):  # type: ignore[no-untyped-def]
    """A message times a number."""
    for j in range(len(message)):
        message = with_item(message, j, message[j] * factor)
    return message


@bare_inlined
def add(message):  # type: ignore[no-untyped-def]
    """The sum of a message."""
    total = 0.0
    for j in range(0, len(message), 4):
        total += (message[j] + message[j + 1]) + (message[j + 2] + message[j + 3])
    return total


@bare_inlined
def load(vectors, row, like):  # type: ignore[no-untyped-def]
    """A row as a message of the width of another."""
    for j in range(len(like)):
        like = with_item(like, j, vectors[row, j])
    return like


@bare_inlined
def store(vectors, row, message):  # type: ignore[no-untyped-def]
    """A message as a row."""
    for j in range(len(message)):
        vectors[row, j] = message[j]
