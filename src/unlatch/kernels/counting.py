"""Windows of a symbol sequence as exact integer keys: tables of them, sorted, and what is made of these.

A window of ``length`` symbols over an alphabet of ``base`` is a number with ``length`` digits, the first
symbol the most significant. Where that number would not fit 63 bits it is cut into words of ``digits``
symbols each; tables are arrays (words, windows), sorted lexicographically. Nothing is hashed, so two
windows share a key only if they are equal.
"""

from __future__ import annotations

import numpy as np

from unlatch.kernels._jit import kernel


@kernel
def fill_keys(symbols, begins, lengths, blocks, offset, digits, base, block_bits, out):  # type: ignore[no-untyped-def]
    """Keys of the ``digits`` symbols from ``offset`` on, for every window start of every piece.

    A piece is a run of ``lengths[i]`` consecutive window starts at ``begins[i]``. The piece's block number
    is appended to the key as its last ``block_bits`` bits.
    """
    top = 1
    for _ in range(digits - 1):
        top *= base
    position = 0
    for i in range(begins.shape[0]):
        if lengths[i] == 0:
            continue
        first = begins[i] + offset
        key = 0
        for d in range(digits):
            key = key * base + symbols[first + d]
        out[position] = (key << block_bits) | blocks[i]
        position += 1
        for t in range(1, lengths[i]):
            key = (key - symbols[first + t - 1] * top) * base + symbols[first + t + digits - 1]
            out[position] = (key << block_bits) | blocks[i]
            position += 1


@kernel
def count_runs(keys, block_bits):  # type: ignore[no-untyped-def]
    """Distinct codes of sorted one-word keys ``code << block_bits | block``, and their counts per block.

    Two passes, the first only to learn the size: at 1e7 keys memory traffic is what costs.
    """
    distinct = 0
    previous = np.int64(-1)
    for i in range(keys.shape[0]):
        code = keys[i] >> block_bits
        if code != previous:
            distinct += 1
            previous = code
    codes = np.empty((1, distinct), dtype=np.int64)
    counts = np.zeros((distinct, 1 << block_bits), dtype=np.int64)
    mask = (1 << block_bits) - 1
    row = -1
    previous = np.int64(-1)
    for i in range(keys.shape[0]):
        code = keys[i] >> block_bits
        if code != previous:
            row += 1
            codes[0, row] = code
            previous = code
        counts[row, keys[i] & mask] += 1
    return codes, counts


@kernel
def merge_tables(codes, counts, other_codes, other_counts):  # type: ignore[no-untyped-def]
    """Union of two sorted tables; counts of equal windows, or sums of weights, add up."""
    n_words = codes.shape[0]
    n, m = codes.shape[1], other_codes.shape[1]
    n_blocks = counts.shape[1]
    merged = np.empty((n_words, n + m), dtype=np.int64)
    total = np.zeros((n + m, n_blocks), dtype=counts.dtype)
    i, j, row = 0, 0, 0
    while i < n or j < m:
        comparison = 0
        if i == n:
            comparison = 1
        elif j == m:
            comparison = -1
        else:
            for w in range(n_words):
                if codes[w, i] != other_codes[w, j]:
                    comparison = -1 if codes[w, i] < other_codes[w, j] else 1
                    break
        if comparison <= 0:
            for w in range(n_words):
                merged[w, row] = codes[w, i]
            for b in range(n_blocks):
                total[row, b] += counts[i, b]
            i += 1
        if comparison >= 0:
            for w in range(n_words):
                merged[w, row] = other_codes[w, j]
            for b in range(n_blocks):
                total[row, b] += other_counts[j, b]
            j += 1
        row += 1
    return merged[:, :row].copy(), total[:row].copy()


@kernel
def differs(codes, i, j, base, kept, shortened):  # type: ignore[no-untyped-def]
    """Whether windows ``i`` and ``j`` differ in their first ``kept`` words, the word ``shortened`` less its
    last symbol."""
    for w in range(kept):
        if w == shortened:
            if codes[w, i] // base != codes[w, j] // base:
                return True
        elif codes[w, i] != codes[w, j]:
            return True
    return False


@kernel
def drop_last_symbol(codes, counts, base, whole_word):  # type: ignore[no-untyped-def]
    """The table of windows one symbol shorter: prefixes of a sorted table are sorted already.

    ``whole_word`` says that the last word holds a single symbol and falls away.
    """
    n_words, n = codes.shape
    kept = n_words - 1 if whole_word else n_words
    shortened = n_words - 1
    distinct = 1 if n > 0 else 0
    for i in range(1, n):
        if differs(codes, i - 1, i, base, kept, shortened):
            distinct += 1
    shorter = np.empty((kept, distinct), dtype=np.int64)
    total = np.zeros((distinct, counts.shape[1]), dtype=np.int64)
    row = -1
    for i in range(n):
        if i == 0 or differs(codes, i - 1, i, base, kept, shortened):
            row += 1
            for w in range(kept):
                shorter[w, row] = codes[w, i] // base if w == shortened else codes[w, i]
        for b in range(counts.shape[1]):
            total[row, b] += counts[i, b]
    return shorter, total


@kernel
def cut_windows(codes, length, digits, base, start, stop):  # type: ignore[no-untyped-def]
    """Keys of the symbols ``start``..``stop`` of every window, in words of their own."""
    n = codes.shape[1]
    n_words = max(1, (stop - start + digits - 1) // digits)
    cut = np.zeros((n_words, n), dtype=np.int64)
    symbols = np.empty(length, dtype=np.int64)
    for i in range(n):
        decode_window(codes[:, i], length, digits, base, symbols)
        for p in range(start, stop):
            w = (p - start) // digits
            cut[w, i] = cut[w, i] * base + symbols[p]
    return cut


@kernel
def decode_window(words, length, digits, base, symbols):  # type: ignore[no-untyped-def]
    """The symbols of one window, written into ``symbols``."""
    for w in range(words.shape[0]):
        first = w * digits
        last = min(first + digits, length)
        word = words[w]
        for p in range(last - 1, first - 1, -1):
            symbols[p] = word % base
            word //= base


@kernel
def decode_windows(codes, length, digits, base):  # type: ignore[no-untyped-def]
    """The symbols of every window, shape (windows, length)."""
    symbols = np.empty((codes.shape[1], length), dtype=np.int64)
    for i in range(codes.shape[1]):
        decode_window(codes[:, i], length, digits, base, symbols[i])
    return symbols


@kernel
def locate(codes, wanted):  # type: ignore[no-untyped-def]
    """Row of every wanted key in a sorted table, -1 where it is absent."""
    rows = np.empty(wanted.shape[1], dtype=np.int64)
    for i in range(wanted.shape[1]):
        low, high = 0, codes.shape[1]
        while low < high:
            middle = (low + high) // 2
            smaller = False
            for w in range(codes.shape[0]):
                if codes[w, middle] != wanted[w, i]:
                    smaller = codes[w, middle] < wanted[w, i]
                    break
            if smaller:
                low = middle + 1
            else:
                high = middle
        found = low < codes.shape[1]
        if found:
            for w in range(codes.shape[0]):
                if codes[w, low] != wanted[w, i]:
                    found = False
        rows[i] = low if found else -1
    return rows


@kernel
def action_keys(codes, length, digits, base, n_observations):  # type: ignore[no-untyped-def]
    """Keys of the action sequences of windows of pairs, in the same words, to the base of the actions."""
    n_words, n = codes.shape
    n_actions = base // n_observations
    keys = np.zeros((n_words, n), dtype=np.int64)
    for w in range(n_words):
        size = min(digits, length - w * digits)
        for i in range(n):
            word = codes[w, i]
            key = 0
            scale = 1
            for _ in range(size):
                key += (word % base) // n_observations * scale
                word //= base
                scale *= n_actions
            keys[w, i] = key
    return keys
