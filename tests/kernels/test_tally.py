"""Windows counted as they come, against dictionaries."""

from __future__ import annotations

import numpy as np
import pytest

import naive
from unlatch.kernels import tally

PIECES = np.array([0, 9, 20, 30]), np.array([5, 0, 9, 1]), np.array([3, 1, 7, 0])
"""Begins, sizes and blocks of runs of window starts."""


def windows(symbols, length):
    """Every window of the pieces, and its block."""
    return [
        (tuple(symbols[t : t + length].tolist()), int(block))
        for begin, size, block in zip(*PIECES, strict=True)
        for t in range(begin, begin + size)
    ]


@pytest.mark.parametrize(("length", "digits"), [(1, 8), (3, 8), (5, 2), (7, 3)])
def test_tallies_equal_a_dictionary(version, rng, length, digits):
    symbols = rng.choice([0, 1, 5, 7], 40).astype(np.int32)
    keys = np.zeros((-(-length // digits), 64), dtype=np.int64)
    counts, slots = np.zeros((64, 8), dtype=np.int64), np.full(128, -1)
    state, rows = np.zeros(3, dtype=np.int64), np.full(15, -1)
    kernel = version(tally.tally_windows if length <= digits else tally.tally_long_windows)
    extra = () if length <= digits else (digits,)
    assert kernel(symbols, *PIECES, length, 3, *extra, state, slots, keys, counts, rows)
    expected: dict = {}
    for window, block in windows(symbols, length):
        expected.setdefault(window, [0] * 8)[block] += 1
    found = {}
    for row, window in enumerate(expected):  # rows in the order of appearance
        words = [naive.big_number(window[i : i + digits], 8) for i in range(0, length, digits)]
        assert keys[:, row].tolist() == words
        found[window] = counts[row].tolist()
    assert found == expected
    assert [list(expected)[row] for row in rows] == [window for window, _ in windows(symbols, length)]
    assert state.tolist() == [0, 0, len(expected)]


@pytest.mark.parametrize("length", [1, 3, 5])
def test_keys_beside_their_counts_equal_a_dictionary(version, rng, length):
    symbols = rng.integers(0, 8, 40).astype(np.int32)
    begins, sizes, _ = PIECES
    slots, totals = np.zeros(4, dtype=np.int64), np.zeros((2, 4), dtype=np.int64)
    for _ in range(2):
        state = np.array([0, 0, np.count_nonzero(slots)])
        while not version(tally.tally_packed)(symbols, begins, sizes, length, 3, 5, state, slots):
            more = np.zeros(2 * len(slots), dtype=np.int64), np.zeros((2, 2 * len(slots)), dtype=np.int64)
            version(tally.move_slots)(slots, 5, totals, *more)
            slots, totals = more
        version(tally.unload)(slots, 5, totals[1])
    expected: dict = {}
    for window, _ in windows(symbols, length):
        key = naive.big_number(window, 8)
        expected[key] = expected.get(key, 0) + 2
    used = np.flatnonzero(slots)
    assert dict(zip(((slots[used] >> 5) - 1).tolist(), totals[1, used].tolist(), strict=True)) == expected
    assert not totals[0].any()
    assert len(slots) >= 2 * len(used)


@pytest.mark.parametrize(("length", "digits"), [(2, 8), (5, 2)])
def test_a_full_table_is_gone_on_with(version, rng, length, digits):
    symbols = rng.integers(0, 8, 40).astype(np.int32)
    kernel = version(tally.tally_windows if length <= digits else tally.tally_long_windows)
    extra = () if length <= digits else (digits,)
    room = 2
    keys = np.zeros((-(-length // digits), room), dtype=np.int64)
    counts, slots = np.zeros((room, 8), dtype=np.int64), np.full(2 * room, -1)
    state, rows, times = np.zeros(3, dtype=np.int64), np.full(15, -1), 0
    while not kernel(symbols, *PIECES, length, 3, *extra, state, slots, keys, counts, rows):
        times += 1
        assert state[2] == keys.shape[1]
        keys = np.concatenate([keys, np.zeros_like(keys)], axis=1)
        counts = np.concatenate([counts, np.zeros_like(counts)])
        slots = np.full(2 * len(slots), -1)
        version(tally.place_keys)(slots, keys, state[2])
    assert times > 1
    distinct = list(dict.fromkeys(window for window, _ in windows(symbols, length)))
    assert [distinct[row] for row in rows] == [window for window, _ in windows(symbols, length)]
    assert counts.sum() == len(rows)


def test_tally_halves_goes_on_where_it_had_no_room(version, rng):
    symbols = rng.integers(0, 6, 40).astype(np.int32)
    begins, sizes, _ = PIECES
    firsts, seconds = np.full(512, -1, dtype=np.int32), np.full(64, -1, dtype=np.int32)
    used, counts, state = (
        np.zeros(2, dtype=np.int64),
        np.zeros((1, 1), dtype=np.int32),
        np.zeros(2, dtype=np.int64),
    )
    times = 0
    while not version(tally.tally_halves)(
        symbols, begins, sizes, 5, 2, 3, state, firsts, seconds, used, counts
    ):
        times += 1
        more = np.zeros((counts.shape[0] + 3, counts.shape[1] + 2), dtype=np.int32)
        more[: counts.shape[0], : counts.shape[1]] = counts
        counts = more
    assert times > 1
    expected: dict = {}
    for window, _ in windows(symbols, 5):
        key = naive.big_number(window, 8)
        expected[key] = expected.get(key, 0) + 1
    rows = {int(row): key for key, row in enumerate(firsts) if row >= 0}
    columns = {int(column): key for key, column in enumerate(seconds) if column >= 0}
    found = {(rows[i] << 6) | columns[j]: int(counts[i, j]) for i, j in zip(*np.nonzero(counts), strict=True)}
    assert found == expected
    assert used.tolist() == [len(rows), len(columns)]


def test_tally_few(version, rng):
    symbols = rng.integers(0, 4, 40).astype(np.int32)
    counts = np.zeros((64, 8), dtype=np.int64)
    version(tally.tally_few)(symbols, *PIECES, 3, 2, counts)
    expected = np.zeros_like(counts)
    for window, block in windows(symbols, 3):
        expected[naive.big_number(window, 4), block] += 1
    assert counts.tolist() == expected.tolist()


def test_number_pairs(version):
    rows, columns = np.array([0, -1, 1], dtype=np.int32), np.array([0, 1], dtype=np.int32)
    table = np.array([[0, -1], [1, 2]], dtype=np.int32)
    first, second = np.array([0, 2, 2, 0, 1]), np.array([0, 0, 1, 1, 0])
    out = np.zeros(5, dtype=np.int32)
    assert version(tally.number_pairs)(first, second, rows, columns, table, 0, out) == 3
    table[0, 1] = 3
    assert version(tally.number_pairs)(first, second, rows, columns, table, 3, out) == 4
    assert out[:4].tolist() == [0, 1, 2, 3]
    rows[1] = 0
    assert version(tally.number_pairs)(first, second, rows, columns, table, 4, out) == 5


def test_number_values(version):
    known, numbers = np.array([-1.0, 0.0, 2.5]), np.array([2, 0, 1])
    values, beside = np.array([0.0, -0.0, 2.5, -1.0, 2.5, 7.0]), np.array([0, 0, 1, 1, 1, 0])
    guesses, out = np.zeros(2, dtype=np.int64), np.zeros(6, dtype=np.int32)
    assert version(tally.number_values)(values, beside, guesses, known, numbers, 0, out) == 5
    assert out[:5].tolist() == [0, 0, 1, 2, 1]
    assert version(tally.number_values)(values, beside, guesses, known[:0], numbers[:0], 0, out) == 0


def test_encode_windows(version):
    symbols = np.array([[1, 2, 3], [4, 0, 1]])
    assert version(tally.encode_windows)(symbols, 2, 10).tolist() == [[12, 40], [3, 1]]


def test_folded_keys_are_small_and_few_meet(version, rng):
    keys = np.unique(rng.integers(0, 2**62, 1000))
    folded = [version(tally.folded)(int(key)) for key in keys]
    assert min(folded) >= 0
    assert max(folded) < 2**43
    assert len({number % 4096 for number in folded}) > 700


def test_same_words(version):
    keys = np.array([[1, 2], [3, 4]])
    assert version(tally.same_words)(keys, 0, np.array([1, 3]))
    assert not version(tally.same_words)(keys, 1, np.array([2, 3]))


@pytest.mark.parametrize("length", [1, 3])
def test_add_weights(version, rng, length):
    probabilities = rng.uniform(0.1, 1, 40)
    begins, lengths, blocks = np.array([0, 9, 20]), np.array([5, 0, 20 - length + 1]), np.array([2, 5, 7])
    rows = rng.integers(0, 4, lengths.sum())
    sums, squares = np.zeros((4, 8)), np.zeros((4, 1))
    version(tally.add_weights)(rows, probabilities, begins, lengths, blocks, length, sums, squares)
    starts = [
        (t, b) for begin, n, b in zip(begins, lengths, blocks, strict=True) for t in range(begin, begin + n)
    ]
    expected, expected_squares = np.zeros((4, 8)), np.zeros((4, 1))
    for row, (t, block) in zip(rows, starts, strict=True):
        weight = 1 / probabilities[t : t + length].prod()
        expected[row, block] += weight
        expected_squares[row] += weight**2
    np.testing.assert_allclose(sums, expected, rtol=1e-13)
    np.testing.assert_allclose(squares, expected_squares, rtol=1e-13)
