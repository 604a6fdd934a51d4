"""Delimited text: rows found in a block of bytes, cells turned into codes or numbers, and back into bytes.

Each kernel is one loop over a whole block: to pass arrays from kernel to kernel for every cell would cost
more than reading it. Cells are given by the positions of their first byte and of the one after their last.

A symbol table is four arrays that its owner allocates and enlarges: ``slots`` (open addressing, -1 where
free, a power of two long), ``symbols`` (one row for every symbol, with the columns below), ``arena``
(the bytes of all symbols, end to end) and ``counts`` (the symbols of every column, then the totals).
"""

from __future__ import annotations

import numpy as np

from unlatch.kernels._jit import bare, kernel
from unlatch.kernels.vectors import bytes_before_line_end

QUOTE, LF, CR = 34, 10, 13
PLUS, MINUS, POINT, ZERO, NINE, BIG_E, SMALL_E = 43, 45, 46, 48, 57, 69, 101

# how a loop over rows or cells ended
COMPLETE, PARTIAL, IN_QUOTE, AFTER_QUOTE, NUL, RAGGED, LONG_ROW, FULL, MANY = range(9)

# columns of the array of symbols
HASH, COLUMN, START, END, CODE, SEEN_ON = range(6)

COLUMNS = 8
"""Columns that a symbol table can tell apart."""

# entries of the counts after those of the columns
SYMBOLS, BYTES = COLUMNS, COLUMNS + 1

EXACT_TENS = np.array([float(f"1e{k}") for k in range(23)])
"""The powers of ten that a float holds exactly."""

_MOST_DIGITS = 1 << 53
_FAR = 100_000


WORD = 8
"""Bytes that are looked at together."""

LINE_WORDS = 4
"""Words that a line may have, with its end, to be told by them alone."""

LINE_MASKS = np.array(
    [
        [(1 << min(max(8 * (size + 1 - WORD * word), 0), 64)) - 1 for word in range(LINE_WORDS)]
        for size in range(WORD * LINE_WORDS + 1)
    ],
    dtype=np.uint64,
)
"""``LINE_MASKS[size, word]`` is what a line has of its words with so many bytes before its end, which is left too."""

_MIX = np.uint64(0x9E3779B97F4A7C15)
_ZERO, _ONE, _SHIFT = np.uint64(0), np.uint64(1), np.uint64(29)
_WORD, _TWO_WORDS, _THREE_WORDS = np.uint64(WORD), np.uint64(2 * WORD), np.uint64(3 * WORD)
_MIX_1, _MIX_2, _MIX_3 = (
    np.uint64(0xC2B2AE3D27D4EB4F),
    np.uint64(0x165667B19E3779F9),
    np.uint64(0x85EBCA77C2B2AE63),
)


@bare
def match_lines(words, stop, position, masks, keys, found, begin):  # type: ignore[no-untyped-def]
    """Look up whole lines, as long as each is one of those in ``keys``.

    ``found[r]`` receives the slot of a line, from ``begin`` on until it is full. ``words[i]`` are the eight bytes from
    ``i`` on, the first the lowest; ``stop`` is their number, ``masks`` are `LINE_MASKS`. Stops before a line that
    is not known, which a longer one never is, and where fewer bytes are left than a line may have. Nothing depends on
    how long a line is until it is compared: a guess of the processor that fails would cost as much as all the rest.

    Returns (position of the next line, entries of ``found`` that are filled).
    """
    mask = np.uint64(keys.shape[0] - 1)
    last = stop - WORD * LINE_WORDS
    rows = begin
    at = np.uint64(position)  # unsigned, so that nothing has to be asked about an index
    while rows < found.shape[0] and np.int64(at) <= last:
        size = bytes_before_line_end(words, at)
        w0 = words[at] & masks[size, 0]
        w1 = words[at + _WORD] & masks[size, 1]
        w2 = words[at + _TWO_WORDS] & masks[size, 2]
        w3 = words[at + _THREE_WORDS] & masks[size, 3]
        value = (w0 * _MIX) ^ (w1 * _MIX_1) ^ (w2 * _MIX_2) ^ (w3 * _MIX_3)
        slot = (value >> _SHIFT) & mask
        while (
            (keys[slot, 0] ^ w0) | (keys[slot, 1] ^ w1) | (keys[slot, 2] ^ w2) | (keys[slot, 3] ^ w3)
        ) != _ZERO:
            if keys[slot, 0] == _ZERO:
                return np.int64(at), rows
            slot = (slot + _ONE) & mask
        found[rows] = slot
        at += size + _ONE
        rows += 1
    return np.int64(at), rows


@kernel
def enter_line(keys, w0, w1, w2, w3):  # type: ignore[no-untyped-def]
    """Enter a line with its end, none of whose bytes is zero, into the table that `match_lines` looks in; there must
    be room.

    Returns its slot.
    """
    mask = keys.shape[0] - 1
    value = (w0 * _MIX) ^ (w1 * _MIX_1) ^ (w2 * _MIX_2) ^ (w3 * _MIX_3)
    slot = np.int64(value >> _SHIFT) & mask
    while keys[slot, 0] != _ZERO:
        slot = (slot + 1) & mask
    keys[slot, 0] = w0
    keys[slot, 1] = w1
    keys[slot, 2] = w2
    keys[slot, 3] = w3
    return slot


@kernel
def look_up(table, codes, out):  # type: ignore[no-untyped-def]
    """``out[i] = table[codes[i]]``; how many of these are negative."""
    negative = 0
    for i in range(codes.shape[0]):
        entry = table[codes[i]]
        negative += entry < 0
        out[i] = entry
    return negative


@kernel
def find_rows(  # type: ignore[no-untyped-def]
    block, position, line, final, delimiter, longest, column_of, starts, ends, lines
):
    """Find the rows of a block and the cells of the columns that are wanted.

    ``column_of[f]`` is the column of field ``f``, -1 if it is not wanted; every row must have as many fields.
    ``starts[c, r]`` and ``ends[c, r]`` receive the bounds of a cell without its quotes, ``lines[r]`` the line
    where the row begins. A blank line is a row whose cells start at -1. Unless ``final``, a row is complete
    only once a byte rules out that it goes on.

    Returns (how it ended, position and line of the next row, rows, its fields, doubled quotes met).
    """
    stop = block.shape[0]
    rows = 0
    doubled = 0
    fields = 0
    ended = COMPLETE
    while position < stop and rows < lines.shape[0]:
        i = position
        fields = 0
        height = 1
        while True:
            if i < stop and block[i] == QUOTE:
                i += 1
                first = i
                closed = False
                while i < stop and block[i] != 0:
                    byte = block[i]
                    following = block[i + 1] if i + 1 < stop else 0
                    if byte == QUOTE and following == QUOTE:
                        doubled += 1
                        i += 1
                    elif byte == QUOTE:
                        closed = True
                        break
                    elif byte == LF or (byte == CR and following != LF):
                        height += 1
                    i += 1
                last = i
                if not closed:
                    ended = IN_QUOTE if i >= stop else NUL
                    break
                i += 1
            else:
                first = i
                while i < stop:
                    byte = block[i]
                    if byte == delimiter or (byte <= CR and (byte == LF or byte == CR or byte == 0)):
                        break
                    i += 1
                last = i
            if fields < column_of.shape[0]:
                column = column_of[fields]
                if column >= 0:
                    starts[column, rows] = first
                    ends[column, rows] = last
            fields += 1
            if i >= stop:
                ended = PARTIAL
                break
            byte = block[i]
            i += 1
            if byte != delimiter:
                if byte == CR and i < stop and block[i] == LF:
                    i += 1
                elif byte == CR and i >= stop and not final:
                    ended = PARTIAL
                elif byte == 0:
                    ended = NUL
                elif byte != LF and byte != CR:
                    ended = AFTER_QUOTE
                break
        if ended == COMPLETE and i - position > longest:
            ended = LONG_ROW
        elif ended == COMPLETE and fields == 1 and last == position:  # nothing, not even a pair of quotes
            starts[:, rows] = -1
            ends[:, rows] = -1
        elif ended == COMPLETE and fields != column_of.shape[0]:
            ended = RAGGED
        if ended != COMPLETE:
            break
        lines[rows] = line
        line += height
        position = i
        rows += 1
    return ended, position, line, rows, fields, doubled


@kernel
def unquote(block, starts, ends):  # type: ignore[no-untyped-def]
    """Halve the doubled quotes of quoted cells, in place: the cell becomes shorter."""
    for cell in range(starts.shape[0]):
        first = starts[cell]
        if first > 0 and block[first - 1] == QUOTE:
            last = first
            i = first
            while i < ends[cell]:
                block[last] = block[i]
                last += 1
                i += 2 if block[i] == QUOTE else 1
            ends[cell] = last


@kernel
def intern_cells(  # type: ignore[no-untyped-def]
    block, starts, ends, lines, column, begin, limit, slots, symbols, arena, counts, codes
):
    """Number the distinct cells of a column as they appear; ``codes`` receives the number of every cell.

    Cells are compared byte for byte. Returns (how it ended, cells done): FULL if a new symbol has no room in
    the table, MANY if the column would have more than ``limit``.
    """
    mask = slots.shape[0] - 1
    for cell in range(begin, starts.shape[0]):
        first = starts[cell]
        length = ends[cell] - first
        value = np.int64(2166136261) ^ np.int64(column)
        for i in range(first, first + length):  # FNV-1a, kept below 2^32, so that nothing overflows
            value = ((value ^ np.int64(block[i])) * 16777619) & 0xFFFFFFFF
        slot = value & mask
        code = np.int64(-1)
        while slots[slot] >= 0:
            known = slots[slot]
            start = symbols[known, START]
            same = (
                symbols[known, HASH] == value
                and symbols[known, COLUMN] == column
                and symbols[known, END] - start == length
            )
            i = 0
            while same and i < length:
                same = arena[start + i] == block[first + i]
                i += 1
            if same:
                code = symbols[known, CODE]
                break
            slot = (slot + 1) & mask
        if code < 0:
            code = counts[column]
            total = counts[SYMBOLS]
            used = counts[BYTES]
            if code >= limit:
                return MANY, cell
            if total >= symbols.shape[0] or used + length > arena.shape[0]:
                return FULL, cell
            for i in range(length):
                arena[used + i] = block[first + i]
            symbols[total, HASH] = value
            symbols[total, COLUMN] = column
            symbols[total, START] = used
            symbols[total, END] = used + length
            symbols[total, CODE] = code
            symbols[total, SEEN_ON] = lines[cell]
            slots[slot] = total
            counts[column] = code + 1
            counts[SYMBOLS] = total + 1
            counts[BYTES] = used + length
        codes[cell] = code
    return COMPLETE, starts.shape[0]


@kernel
def place_symbols(slots, symbols, total):  # type: ignore[no-untyped-def]
    """Enter the first ``total`` symbols into free ``slots``, after the table was enlarged."""
    mask = slots.shape[0] - 1
    for known in range(total):
        slot = symbols[known, HASH] & mask
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = known


@kernel
def read_decimals(block, starts, ends, values, exact):  # type: ignore[no-untyped-def]
    """Read short decimal numbers into ``values``; ``exact`` says which were read.

    A number is read if its digits fit 53 bits and one multiplication or division by an exact power of ten
    gives its value: then that is the float nearest to the text. Longer ones, and what is no number at
    all, are left to the caller.
    """
    for cell in range(starts.shape[0]):
        i = starts[cell]
        last = ends[cell]
        negative = i < last and block[i] == MINUS
        if i < last and (block[i] == MINUS or block[i] == PLUS):
            i += 1
        digits = np.int64(0)
        seen = 0
        point = -1
        while i < last and digits <= _MOST_DIGITS:
            if ZERO <= block[i] <= NINE:
                digits = digits * 10 + (np.int64(block[i]) - ZERO)
                seen += 1
            elif block[i] == POINT and point < 0:
                point = seen
            else:
                break
            i += 1
        exponent = np.int64(0 if point < 0 else point - seen)
        good: bool | np.bool_ = seen > 0 and digits <= _MOST_DIGITS
        if good and i < last and (block[i] == SMALL_E or block[i] == BIG_E):
            i += 1
            sign = -1 if i < last and block[i] == MINUS else 1
            if i < last and (block[i] == MINUS or block[i] == PLUS):
                i += 1
            good = i < last
            power = np.int64(0)
            while i < last and ZERO <= block[i] <= NINE and power < _FAR:
                power = power * 10 + (np.int64(block[i]) - ZERO)
                i += 1
            exponent += sign * power
        good = good and i == last and -22 <= exponent <= 22
        exact[cell] = good
        if good:
            scale = EXACT_TENS[abs(exponent)]
            value = digits / scale if exponent < 0 else digits * scale
            values[cell] = -value if negative else value


@kernel
def join_cells(cells, arena, offsets, out):  # type: ignore[no-untyped-def]
    """Copy the texts ``arena[offsets[c] : offsets[c + 1]]`` for every ``c`` of ``cells``, row by row."""
    position = 0
    for row in range(cells.shape[0]):
        for column in range(cells.shape[1]):
            for i in range(offsets[cells[row, column]], offsets[cells[row, column] + 1]):
                out[position] = arena[i]
                position += 1
