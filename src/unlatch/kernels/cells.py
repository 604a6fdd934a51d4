"""Plain rows of delimited text (no quotes, no zero bytes): where their cells begin, and which known cell each of them
is.

A column at a time, after all cells have been found: so a loop has one thing to do, and what one row is does not wait
for where the row before ended. Positions are unsigned and texts are padded: nothing has to be asked about an index.
"""

from __future__ import annotations

import numpy as np

from unlatch.kernels._jit import kernel, trailing_zeros

LF, CR = 10, 13

WORD = 8
"""Bytes that are looked at together."""

KEY_WORDS = 3
"""Words that a cell may have to be told by them alone."""

PADDING = 64
"""Bytes that must be there after a text, so that words can be read from any of its positions."""

TILE = 1 << 12
"""Bytes that are compared at once: so few that they stay next to the processor."""

SLACK = 68
"""Entries of an array of positions that stay free: those of 64 bytes are written four at a time."""

CELL_MASKS = np.array(
    [
        [(1 << min(max(8 * (size - WORD * word), 0), 64)) - 1 for size in range(WORD * KEY_WORDS + 2)]
        for word in range(KEY_WORDS)
    ],
    dtype=np.uint64,
)
"""``CELL_MASKS[word, size]`` is what a cell of so many bytes has of its words."""

UNKNOWN, EMPTY = -2, -1
"""The code of a cell that is not in a table of keys, and of an empty one."""

_ZERO, _ONE, _EIGHT, _SIXTEEN = np.uint64(0), np.uint64(1), np.uint64(8), np.uint64(16)
_ONES = np.uint64(0x0101010101010101)
_TOP = np.uint64(56)
_GATHER = np.uint64(0x0102040810204080)
"""Times this, a word of eight bytes that are 0 or 1 has them as the bits of its highest byte."""

_MIX, _MIX_1, _MIX_2 = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xC2B2AE3D27D4EB4F),
    np.uint64(0x165667B19E3779F9),
)
_SHIFT = np.uint64(40)
_LONGEST_KEY = np.uint64(WORD * KEY_WORDS)
_BEYOND_KEY = np.uint64(WORD * KEY_WORDS + 1)
_BEYOND_WORD = np.uint64(WORD + 1)

_MOST_DIGITS = 18
_ZERO_DIGIT, _NINE_DIGIT = 48, 57


@kernel
def find_cells(block, position, stop, delimiter, flags, flag_words, starts):  # type: ignore[no-untyped-def]
    """Find where cells begin: ``starts[0]`` is ``position``, and after every delimiter and every byte of a line end
    stands the next.

    ``flags`` is a multiple of 64 bytes long, and ``flag_words`` are the same bytes as words. Stops at ``stop``, or
    where ``starts`` has no room for another 64 bytes.

    Returns how many cells were found, the last of which is followed by what begins at the next entry of ``starts``, and
    how many bytes of line ends.
    """
    comma, lf, cr = np.uint8(delimiter), np.uint8(LF), np.uint8(CR)
    room = starts.shape[0] - SLACK
    starts[0] = position
    found = np.uint64(1)
    line_ends = _ZERO
    while position < stop and np.int64(found) < room:
        size = min(flags.shape[0], stop - position)
        part = block[position : position + size]
        for i in range(size):
            byte = part[i]
            line_end = np.uint8(byte == lf) | np.uint8(byte == cr)
            flags[i] = np.uint8(byte == comma) | line_end | (line_end << np.uint8(1))
        for i in range(size, (size + 63) & ~63):
            flags[i] = 0
        words = np.uint64((size + 63) // 64 * WORD)
        w = _ZERO
        after = np.uint64(position) + _ONE
        while w < words and np.int64(found) < room:
            total = _ZERO
            total_ends = _ZERO
            bits = _ZERO
            for k in range(WORD):
                both = flag_words[w + np.uint64(k)]
                word = both & _ONES
                total += word
                total_ends += (both >> _ONE) & _ONES
                bits |= ((word * _GATHER) >> _TOP) << np.uint64(8 * k)
            at = found
            while bits != _ZERO:  # four at a time: how many there are is hard to guess for a processor
                for k in range(4):
                    starts[at + np.uint64(k)] = np.uint32(after + np.uint64(trailing_zeros(bits)))
                    bits &= bits - _ONE
                at += np.uint64(4)
            found += (total * _ONES) >> _TOP
            line_ends += (total_ends * _ONES) >> _TOP
            after += np.uint64(64)
            w += _EIGHT
        position = np.int64(after) - 1
    return np.int64(found) - 1, np.int64(line_ends)


@kernel
def count_rows(block, starts, found, line_ends, fields, crlf, delimiter, longest):  # type: ignore[no-untyped-def]
    """How many rows of ``fields`` cells the first ``found`` cells are, which have so many bytes of line ends; with
    ``crlf`` every row has an empty cell more, between the two bytes of its line end. Stops before a row that is blank,
    ragged, ended otherwise, or too long.
    """
    stride = fields + crlf
    most = found // stride
    step, last = np.uint64(stride), np.uint64(0)
    begin = np.uint64(starts[0])
    rows = 0
    while rows < most:
        last += step
        end = np.uint64(starts[last])
        if block[end - _ONE] != LF or end - begin > np.uint64(longest):
            break
        begin = end
        rows += 1
    if line_ends == rows and not crlf:
        return rows
    for row in range(rows):  # there are more line ends than that, and some may stand inside of rows
        at = row * stride
        for field in range(fields - 1):
            if block[starts[at + field + 1] - 1] != delimiter:
                return row
        if crlf and (block[starts[at + fields] - 1] != CR or starts[at + stride] != starts[at + fields] + 1):
            return row
    return rows


@kernel
def look_up_cells(words, starts, stride, field, rows, short, masks, keys, codes, found):  # type: ignore[no-untyped-def]
    """Look up the cells of one field: ``found[r]`` receives the code of that of row ``r``, or one of the two above.

    ``words[i]`` are the eight bytes from ``i`` on, the first the lowest, ``masks`` are `CELL_MASKS`. The table is a
    power of two long: ``keys[slot]`` are the words of a cell, zero where the slot is free, and ``codes[slot]`` its
    code, `UNKNOWN` where it is free. Slot 0 is that of the empty cell. ``short`` says that no key has more than a word.

    Returns how many are not known.
    """
    mask = np.uint64(codes.shape[0] - 1)
    step = np.uint64(stride)
    at = np.uint64(field)
    unknown = 0
    if short:
        for r in range(rows):
            first = np.uint64(starts[at])
            size = min(np.uint64(starts[at + _ONE]) - first - _ONE, _BEYOND_WORD)
            at += step
            w0 = words[first] & masks[0, size]
            slot = ((w0 * _MIX) >> _SHIFT) & mask
            while keys[slot, 0] != w0:
                if keys[slot, 0] == _ZERO:
                    break
                slot = (slot + _ONE) & mask
            code = codes[slot]
            if keys[slot, 0] != w0 or size > _EIGHT:
                code = np.int16(UNKNOWN)
            unknown += code == UNKNOWN
            found[r] = code
        return unknown
    for r in range(rows):
        first = np.uint64(starts[at])
        size = min(np.uint64(starts[at + _ONE]) - first - _ONE, _BEYOND_KEY)
        at += step
        w0 = words[first] & masks[0, size]
        w1 = words[first + _EIGHT] & masks[1, size]
        w2 = words[first + _SIXTEEN] & masks[2, size]
        slot = (((w0 * _MIX) ^ (w1 * _MIX_1) ^ (w2 * _MIX_2)) >> _SHIFT) & mask
        other = (keys[slot, 0] ^ w0) | (keys[slot, 1] ^ w1) | (keys[slot, 2] ^ w2)
        while other != _ZERO:
            if keys[slot, 0] == _ZERO:
                break
            slot = (slot + _ONE) & mask
            other = (keys[slot, 0] ^ w0) | (keys[slot, 1] ^ w1) | (keys[slot, 2] ^ w2)
        code = codes[slot]
        if other != _ZERO or size > _LONGEST_KEY:
            code = np.int16(UNKNOWN)
        unknown += code == UNKNOWN
        found[r] = code
    return unknown


@kernel
def enter_cell(keys, codes, w0, w1, w2, code):  # type: ignore[no-untyped-def]
    """Enter a cell that is not empty into the table that `look_up_cells` looks in; half of it must be free.

    Not entered, and so never known, is one that would have to stand beyond the end of the table.
    """
    mask = np.uint64(codes.shape[0] - 1)
    slot = (((w0 * _MIX) ^ (w1 * _MIX_1) ^ (w2 * _MIX_2)) >> _SHIFT) & mask
    slot = max(slot, _ONE)
    while slot <= mask and keys[slot, 0] != _ZERO:
        slot += _ONE
    if slot <= mask:
        keys[slot, 0] = w0
        keys[slot, 1] = w1
        keys[slot, 2] = w2
        codes[slot] = code


@kernel
def find_changes(block, words, starts, stride, field, rows, changes):  # type: ignore[no-untyped-def]
    """The rows whose cell of one field differs from that of the row before; the first always counts as one.

    ``changes[0]`` receives these rows, ``changes[1]`` and ``changes[2]`` where their cells begin and end. Returns how
    many there are.
    """
    step = np.uint64(stride)
    at = np.uint64(field)
    found = np.uint64(0)
    before = np.uint64(starts[at])
    size_before = np.uint64(1) << np.uint64(40)  # of no cell
    for r in range(rows):
        first = np.uint64(starts[at])
        size = np.uint64(starts[at + _ONE]) - first - _ONE
        at += step
        same = size == size_before
        if same and _ZERO < size <= _EIGHT:
            same = ((words[first] ^ words[before]) << (np.uint64(64) - _EIGHT * size)) == _ZERO
        elif same:
            i = _ZERO
            while i < size and same:
                same = block[first + i] == block[before + i]
                i += _ONE
        changes[0, found] = r
        changes[1, found] = first
        changes[2, found] = first + size
        found += np.uint64(not same)
        before, size_before = first, size
    return np.int64(found)


@kernel
def spread_runs(changes, codes, found):  # type: ignore[no-untyped-def]
    """The codes of all rows, from those of the rows that `find_changes` found."""
    for run in range(changes.shape[0]):
        end = found.shape[0] if run + 1 == changes.shape[0] else np.int64(changes[run + 1])
        for row in range(np.int64(changes[run]), end):
            found[row] = codes[run]


@kernel
def read_whole_numbers(block, starts, ends, numbers):  # type: ignore[no-untyped-def]
    """The whole numbers that cells hold in the one way in which a number is written (``7``, neither ``07`` nor ``+7``),
    so that equal numbers are equal texts. Stops at a cell that holds none, or one of more than 18 digits.

    Returns how many were read.
    """
    for cell in range(starts.shape[0]):
        first, last = np.int64(starts[cell]), np.int64(ends[cell])
        digits = last - first
        if digits < 1 or digits > _MOST_DIGITS or (digits > 1 and block[first] == _ZERO_DIGIT):
            return cell
        number = np.int64(0)
        for i in range(first, last):
            if block[i] < _ZERO_DIGIT or block[i] > _NINE_DIGIT:
                return cell
            number = number * 10 + (np.int64(block[i]) - _ZERO_DIGIT)
        numbers[cell] = number
    return starts.shape[0]
