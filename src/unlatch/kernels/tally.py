"""Windows of a symbol sequence counted as they come, in tables that grow.

A window of ``length`` symbols is a number whose digits are the symbols, ``bits`` bits each, cut into words of
``digits`` symbols. A table keeps these numbers as they are, in the order in which they first came; where in it a number
stands is looked up in ``slots``, whose size is a power of two. Two windows share a row only if they are equal.
"""

from __future__ import annotations

import numpy as np

from unlatch.kernels._jit import inlined, kernel

PIECE, OFFSET, ROWS = 0, 1, 2
"""Of a state: the piece and the window of it that come next, and how many rows the table has."""


@kernel
def number_pairs(first, second, rows, columns, table, begin, out):  # type: ignore[no-untyped-def]
    """The number of every pair of codes, from step ``begin`` on, up to the first that has none.

    It stands in ``table`` in the row of the one code and the column of the other; -1 is none. Returns the step of that
    pair, or the number of steps.
    """
    for t in range(begin, first.shape[0]):
        row, column = rows[first[t]], columns[second[t]]
        if row < 0 or column < 0 or table[row, column] < 0:
            return t
        out[t] = table[row, column]
    return first.shape[0]


@kernel
def number_values(values, beside, guesses, known, numbers, begin, out):  # type: ignore[no-untyped-def]
    """The number of every value, which are those of the sorted values that are ``known``, up to the first that is not.

    ``guesses[code]`` is where the last value beside that code stood: mostly it is there again. Returns as
    `number_pairs`.
    """
    for t in range(begin, values.shape[0]):
        low = guesses[beside[t]]
        if low >= known.shape[0] or known[low] != values[t]:
            low, high = 0, known.shape[0]
            while low < high:
                middle = (low + high) // 2
                if known[middle] < values[t]:
                    low = middle + 1
                else:
                    high = middle
            if low == known.shape[0] or known[low] != values[t]:
                return t
            guesses[beside[t]] = low
        out[t] = numbers[low]
    return values.shape[0]


@kernel
def tally_few(symbols, begins, sizes, blocks, length, bits, counts):  # type: ignore[no-untyped-def]
    """Count every window of every piece in the row of ``counts`` that is its key, for keys of few bits in all."""
    mask = (1 << (bits * length)) - 1
    for i in range(begins.shape[0]):
        first = begins[i]
        key = 0
        if sizes[i] > 0:
            for d in range(length - 1):
                key = (key << bits) | symbols[first + d]
        for t in range(first, first + sizes[i]):
            key = ((key << bits) | symbols[t + length - 1]) & mask
            counts[key, blocks[i]] += 1


@kernel
def tally_halves(symbols, begins, sizes, length, second, bits, state, firsts, seconds, used, counts):  # type: ignore[no-untyped-def]
    """Count every window of every piece in the row of its first symbols and the column of its ``second`` last ones.

    ``firsts`` and ``seconds`` give the row and the column of every key, -1 if it has none yet; ``used`` says how many
    have one. The counts of few halves lie close together, and no key is compared. Goes on as `tally_windows`, until all
    are counted or there is no row or column left.
    """
    mask = (1 << (bits * length)) - 1
    low = (1 << (bits * second)) - 1
    for i in range(state[PIECE], begins.shape[0]):
        first = begins[i] + state[OFFSET]
        key = 0
        if state[OFFSET] < sizes[i]:
            for d in range(length - 1):
                key = (key << bits) | symbols[first + d]
        for t in range(first, begins[i] + sizes[i]):
            key = ((key << bits) | symbols[t + length - 1]) & mask
            row, column = firsts[key >> (bits * second)], seconds[key & low]
            if row < 0 or column < 0:
                if (row < 0 and used[0] == counts.shape[0]) or (column < 0 and used[1] == counts.shape[1]):
                    state[PIECE], state[OFFSET] = i, t - begins[i]
                    return False
                if row < 0:
                    row = used[0]
                    firsts[key >> (bits * second)] = row
                    used[0] += 1
                if column < 0:
                    column = used[1]
                    seconds[key & low] = column
                    used[1] += 1
            counts[row, column] += 1
        state[OFFSET] = 0
    state[PIECE], state[OFFSET] = 0, 0
    return True


@kernel
def tally_packed(symbols, begins, sizes, length, bits, count_bits, state, slots):  # type: ignore[no-untyped-def]
    """Count every window of every piece where its key stands: a slot is ``key + 1`` above
    ``count_bits`` bits of count.

    One look at the memory for a window. Goes on as `tally_windows`, until all are counted or ``slots`` are half full.
    """
    mask = (1 << (bits * length)) - 1
    room = slots.shape[0] // 2
    used = state[ROWS]
    for i in range(state[PIECE], begins.shape[0]):
        first = begins[i] + state[OFFSET]
        key = 0
        if state[OFFSET] < sizes[i]:
            for d in range(length - 1):
                key = (key << bits) | symbols[first + d]
        for t in range(first, begins[i] + sizes[i]):
            key = ((key << bits) | symbols[t + length - 1]) & mask
            slot = folded(key) & (slots.shape[0] - 1)
            entry = slots[slot]
            while entry != 0 and (entry >> count_bits) - 1 != key:
                slot = (slot + 1) & (slots.shape[0] - 1)
                entry = slots[slot]
            if entry == 0:
                if used == room:
                    state[PIECE], state[OFFSET], state[ROWS] = i, t - begins[i], used
                    return False
                used += 1
                entry = (key + 1) << count_bits
            slots[slot] = entry + 1
        state[OFFSET] = 0
    state[PIECE], state[OFFSET], state[ROWS] = 0, 0, used
    return True


@kernel
def unload(slots, count_bits, totals):  # type: ignore[no-untyped-def]
    """Add the counts of all slots to ``totals`` (slots,), and set them to zero."""
    mask = (1 << count_bits) - 1
    for slot in range(slots.shape[0]):
        count = slots[slot] & mask
        if count != 0:
            totals[slot] += count
            slots[slot] -= count


@kernel
def move_slots(slots, count_bits, totals, more_slots, more_totals):  # type: ignore[no-untyped-def]
    """Move all slots, and their totals (blocks, slots), to larger tables that are empty."""
    for old in range(slots.shape[0]):
        if slots[old] != 0:
            slot = folded((slots[old] >> count_bits) - 1) & (more_slots.shape[0] - 1)
            while more_slots[slot] != 0:
                slot = (slot + 1) & (more_slots.shape[0] - 1)
            more_slots[slot] = slots[old]
            for block in range(totals.shape[0]):
                more_totals[block, slot] = totals[block, old]


@kernel
def tally_windows(symbols, begins, sizes, blocks, length, bits, state, slots, keys, counts, rows):  # type: ignore[no-untyped-def]
    """Count every window of every piece in a table of one-word keys, until all are counted or the table is half full.

    A piece is a run of ``sizes[i]`` window starts at ``begins[i]``, counted in column ``blocks[i]`` of ``counts``.
    ``state`` says where to go on and is brought up to date. ``rows`` receives the row of every window, in the order of
    the pieces, unless it is empty. Returns whether all are counted.
    """
    mask = (1 << (bits * length)) - 1
    room = min(keys.shape[1], slots.shape[0] // 2)
    used = state[ROWS]
    position = 0
    for i in range(state[PIECE]):
        position += sizes[i]
    for i in range(state[PIECE], begins.shape[0]):
        offset = state[OFFSET]
        position += offset
        first = begins[i] + offset
        key = 0
        if offset < sizes[i]:
            for d in range(length - 1):
                key = (key << bits) | symbols[first + d]
        for t in range(first, begins[i] + sizes[i]):
            key = ((key << bits) | symbols[t + length - 1]) & mask
            slot = folded(key) & (slots.shape[0] - 1)
            row = slots[slot]
            while row >= 0 and keys[0, row] != key:
                slot = (slot + 1) & (slots.shape[0] - 1)
                row = slots[slot]
            if row < 0:
                if used == room:
                    state[PIECE], state[OFFSET], state[ROWS] = i, t - begins[i], used
                    return False
                row = used
                slots[slot] = row
                keys[0, row] = key
                used += 1
            counts[row, blocks[i]] += 1
            if rows.shape[0] > 0:
                rows[position] = row
            position += 1
        state[OFFSET] = 0
    state[PIECE], state[OFFSET], state[ROWS] = 0, 0, used
    return True


@kernel
def tally_long_windows(  # type: ignore[no-untyped-def]
    symbols, begins, sizes, blocks, length, bits, digits, state, slots, keys, counts, rows
):
    """As `tally_windows`, for keys of several words of ``digits`` symbols."""
    n_words = keys.shape[0]
    room = min(keys.shape[1], slots.shape[0] // 2)
    used = state[ROWS]
    words = np.empty(n_words, dtype=np.int64)
    position = 0
    for i in range(state[PIECE]):
        position += sizes[i]
    for i in range(state[PIECE], begins.shape[0]):
        position += state[OFFSET]
        for t in range(begins[i] + state[OFFSET], begins[i] + sizes[i]):
            mixed = 0
            for w in range(n_words):
                key = 0
                for d in range(w * digits, min(w * digits + digits, length)):
                    key = (key << bits) | symbols[t + d]
                words[w] = key
                mixed = folded((mixed << 7) ^ folded(key))
            slot = mixed & (slots.shape[0] - 1)
            row = slots[slot]
            while row >= 0 and not same_words(keys, row, words):
                slot = (slot + 1) & (slots.shape[0] - 1)
                row = slots[slot]
            if row < 0:
                if used == room:
                    state[PIECE], state[OFFSET], state[ROWS] = i, t - begins[i], used
                    return False
                row = used
                slots[slot] = row
                for w in range(n_words):
                    keys[w, row] = words[w]
                used += 1
            counts[row, blocks[i]] += 1
            if rows.shape[0] > 0:
                rows[position] = row
            position += 1
        state[OFFSET] = 0
    state[PIECE], state[OFFSET], state[ROWS] = 0, 0, used
    return True


@kernel
def place_keys(slots, keys, used):  # type: ignore[no-untyped-def]
    """Fill empty ``slots`` (all -1) with the rows of the first ``used`` keys."""
    for row in range(used):
        mixed = 0
        if keys.shape[0] == 1:
            mixed = folded(keys[0, row])
        else:
            for w in range(keys.shape[0]):
                mixed = folded((mixed << 7) ^ folded(keys[w, row]))
        slot = mixed & (slots.shape[0] - 1)
        while slots[slot] >= 0:
            slot = (slot + 1) & (slots.shape[0] - 1)
        slots[slot] = row


@kernel
def add_weights(rows, probabilities, begins, sizes, blocks, length, sums, squares):  # type: ignore[no-untyped-def]
    """Add the weight of every window to its row: one over the probability that its actions were chosen.

    ``rows`` are those of `tally_windows`; ``sums`` (windows, blocks) receives the weights, ``squares`` (windows, 1)
    their squares. A weight too large for a float becomes infinite.
    """
    position = 0
    for i in range(begins.shape[0]):
        for t in range(begins[i], begins[i] + sizes[i]):
            weight = 1.0
            for d in range(length):
                weight /= probabilities[t + d]
            sums[rows[position], blocks[i]] += weight
            squares[rows[position], 0] += weight * weight
            position += 1


@kernel
def encode_windows(symbols, digits, base):  # type: ignore[no-untyped-def]
    """Keys of windows that are spelled out (windows, length), shape (words, windows)."""
    n, length = symbols.shape
    codes = np.zeros(((length + digits - 1) // digits, n), dtype=np.int64)
    for i in range(n):
        for p in range(length):
            codes[p // digits, i] = codes[p // digits, i] * base + symbols[i, p]
    return codes


@inlined
def folded(key):  # type: ignore[no-untyped-def]
    """A number below 2^42 whose bits depend on all bits of a key below 2^63; no product overflows."""
    low, middle, high = key & 0x1FFFFF, (key >> 21) & 0x1FFFFF, key >> 42
    mixed = (low * 0x1E3779B97F5) ^ (middle * 0x1B54A32D193) ^ (high * 0x151EB851EB9)
    return (mixed ^ (mixed >> 31)) >> 20


@inlined
def same_words(keys, row, words):  # type: ignore[no-untyped-def]
    """Whether a row of the table has these words."""
    for w in range(keys.shape[0]):
        if keys[w, row] != words[w]:
            return False
    return True
