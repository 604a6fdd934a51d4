"""Windows as exact integer keys, against tuples, dictionaries and Python's unbounded integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from unlatch import Trajectory, count_sequences
from unlatch.kernels import counting
from unlatch.learn.spectral.windows import BLOCKS, digits_per_word

BASES = [1, 2, 6, 40, 128, 10_000, 2**31, 2**59]


def words_of(windows, base, digits):
    """Windows of symbols as a table (words, windows) in sorted order, by Python integers."""
    length = len(windows[0])
    rows = [
        [naive.big_number(window[i : i + digits], base) for i in range(0, length, digits)]
        for window in sorted(windows)
    ]
    return np.array(rows, dtype=np.int64).T.copy()


def distinct_windows(rng, base, length, n):
    """Random windows that often share a prefix, so that every kind of comparison occurs."""
    alphabet = np.unique(np.append(rng.integers(0, base, 2), base - 1))
    return sorted({tuple(row) for row in rng.choice(alphabet, (n, length)).tolist()})


@pytest.mark.parametrize("base", BASES)
def test_a_word_of_digits_fits_beside_the_block(base):
    digits = digits_per_word(base)
    assert (base**digits - 1) * BLOCKS + BLOCKS - 1 < 2**62
    assert digits == 64 or base ** (digits + 1) * BLOCKS > 2**62


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("offset", [0, 2])
def test_fill_keys(version, rng, base, offset):
    digits = min(digits_per_word(base), 7)
    symbols = np.append(rng.integers(0, base, 58), [base - 1] * 2)
    begins, lengths, blocks = (
        np.array([0, 7, 20, 21]),
        np.array([5, 0, 1, 60 - 21 - offset - digits + 1]),
        [3, 1, 7, 0],
    )
    keys = np.empty(lengths.sum(), dtype=np.int64)
    version(counting.fill_keys)(symbols, begins, lengths, np.array(blocks), offset, digits, base, 3, keys)
    expected = [
        naive.big_number(symbols[t + offset : t + offset + digits], base) * 8 + block
        for begin, length, block in zip(begins, lengths, blocks, strict=True)
        for t in range(begin, begin + length)
    ]
    assert keys.tolist() == expected


def test_count_runs(version, rng):
    codes, blocks = rng.choice([0, 3, 4, 2**59 - 1], 200), rng.integers(0, 8, 200)
    found, counts = version(counting.count_runs)(np.sort(codes * 8 + blocks), 3)
    assert found.tolist() == [[0, 3, 4, 2**59 - 1]]
    expected = [[int(((codes == c) & (blocks == b)).sum()) for b in range(8)] for c in found[0]]
    assert counts.tolist() == expected


@pytest.mark.parametrize("words", [1, 2, 3])
@pytest.mark.parametrize("sizes", [(40, 30), (0, 5), (5, 0), (0, 0)])
def test_merge_tables(version, rng, words, sizes):
    tables = []
    for size in sizes:
        keys = np.unique(rng.integers(0, 4, (words, size)), axis=1).astype(np.int64)
        tables.append((np.ascontiguousarray(keys), rng.integers(1, 9, (keys.shape[1], 8))))
    expected = {}
    for codes, counts in tables:
        for code, row in zip(codes.T.tolist(), counts, strict=True):
            expected[tuple(code)] = expected.get(tuple(code), 0) + row
    codes, counts = version(counting.merge_tables)(*tables[0], *tables[1])
    assert [tuple(code) for code in codes.T.tolist()] == sorted(expected)
    assert counts.tolist() == [expected[key].tolist() for key in sorted(expected)]


@pytest.mark.parametrize("length", [2, 4, 5, 7])
@pytest.mark.parametrize("digits", [2, 3, 8])
def test_drop_last_symbol(version, rng, length, digits):
    base = 5
    windows = distinct_windows(rng, base, length, 60)
    counts = rng.integers(1, 9, (len(windows), 8))
    codes = words_of(windows, base, digits)
    shorter, totals = version(counting.drop_last_symbol)(codes, counts, base, (length - 1) % digits == 0)
    expected = {}
    for window, row in zip(windows, counts, strict=True):
        expected[window[:-1]] = expected.get(window[:-1], 0) + row
    assert shorter.tolist() == words_of(list(expected), base, digits).tolist()
    assert totals.tolist() == [expected[window].tolist() for window in sorted(expected)]


@pytest.mark.parametrize("base", BASES)
def test_windows_are_spelled_out_again(version, rng, base):
    length, digits = 9, min(digits_per_word(base), 9)
    windows = distinct_windows(rng, base, length, 30)
    codes = words_of(windows, base, digits)
    assert version(counting.decode_windows)(codes, length, digits, base).tolist() == [
        list(w) for w in windows
    ]
    first = np.empty(length, dtype=np.int64)
    version(counting.decode_window)(codes[:, 0], length, digits, base, first)
    assert first.tolist() == list(windows[0])


@pytest.mark.parametrize(("start", "stop"), [(0, 4), (3, 7), (4, 5), (0, 7), (2, 2)])
def test_cut_windows(version, rng, start, stop):
    base, length, digits = 11, 7, 3
    windows = distinct_windows(rng, base, length, 30)
    cut = version(counting.cut_windows)(words_of(windows, base, digits), length, digits, base, start, stop)
    for window, key in zip(windows, cut.T.tolist(), strict=True):
        part = window[start:stop]
        assert key == (
            [naive.big_number(part[i : i + digits], base) for i in range(0, len(part), digits)] or [0]
        )


@pytest.mark.parametrize("words", [1, 2])
def test_locate(version, rng, words):
    table = np.unique(rng.integers(0, 6, (words, 12)), axis=1)
    wanted = rng.integers(-1, 7, (words, 80))
    known = {tuple(code): row for row, code in enumerate(table.T.tolist())}
    rows = version(counting.locate)(table, wanted)
    assert rows.tolist() == [known.get(tuple(code), -1) for code in wanted.T.tolist()]
    assert (rows >= 0).any()
    assert (rows < 0).any()
    assert version(counting.locate)(table[:, :0], wanted).tolist() == [-1] * 80


@pytest.mark.parametrize("digits", [2, 3, 8])
def test_action_keys(version, rng, digits):
    n_actions, n_observations, length = 3, 4, 7
    windows = distinct_windows(rng, n_actions * n_observations, length, 40)
    codes = words_of(windows, n_actions * n_observations, digits)
    keys = version(counting.action_keys)(codes, length, digits, n_actions * n_observations, n_observations)
    for window, key in zip(windows, keys.T.tolist(), strict=True):
        actions = [symbol // n_observations for symbol in window]
        assert key == [naive.big_number(actions[i : i + digits], n_actions) for i in range(0, length, digits)]


def test_differs(version):
    codes = np.array([[7, 7, 8], [20, 24, 20]])
    differs = version(counting.differs)
    assert not differs(codes, 0, 1, 5, 2, 1)  # 20 and 24 agree but for their last digit to base 5
    assert differs(codes, 0, 1, 2, 2, 1)
    assert differs(codes, 0, 2, 5, 2, 1)
    assert not differs(codes, 0, 1, 2, 1, 1)  # only the first word is kept


# --- the whole count ------------------------------------------------------------------------------------

ALPHABETS = st.sampled_from([(1, 1), (1, 3), (2, 2), (4, 10), (16, 8), (90, 100), (10_000, 10_000)])


@st.composite
def logs(draw):
    """A log over a declared alphabet of any size, of which few symbols occur, cut into episodes."""
    n_actions, n_observations = draw(ALPHABETS)
    steps = draw(st.integers(14, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    actions = rng.choice(np.unique([0, n_actions // 2, n_actions - 1]), steps)
    observations = rng.choice(np.unique([0, n_observations // 3, n_observations - 1]), steps)
    longest = steps - 13  # leaves one episode of at least 13 steps
    cuts = draw(st.sets(st.integers(1, longest), max_size=5)) if longest > 1 else set()
    return Trajectory(
        actions=actions,
        observations=observations,
        action_names=[f"a{i}" for i in range(n_actions)],
        observation_names=[f"o{i}" for i in range(n_observations)],
        episode_starts=[0, *sorted(cuts)],
    )


@given(log=logs(), history=st.integers(2, 7), test=st.integers(1, 5))
def test_counting_equals_a_dictionary(log, history, test):
    counts = count_sequences(log, history_length=history, test_length=test)
    base = len(log.action_names) * len(log.observation_names)
    for table in counts.tables:
        expected = naive.count_windows_by_block(log, table.length, BLOCKS)
        pairs = [
            tuple(divmod(symbol, len(log.observation_names)) for symbol in window)
            for window in table.symbols().tolist()
        ]
        assert dict(zip(pairs, table.counts.tolist(), strict=True)) == expected
        assert pairs == sorted(pairs)
        assert table.totals.tolist() == table.counts.sum(axis=1).tolist()
        for code, window in zip(table.codes.T.tolist(), table.symbols().tolist(), strict=True):
            number = 0
            for w, word in enumerate(code):
                number = number * base ** min(table.digits, table.length - w * table.digits) + word
            assert number == naive.big_number(window, base)


@pytest.mark.parametrize(("symbols", "length"), [(40, 12), (128, 10)])
def test_windows_beyond_63_bits_never_collide(rng, symbols, length):
    """Two cases in which keys hashed into 64 bits went negative, or met."""
    assert symbols**length > 2**63
    observations = np.tile(rng.integers(0, symbols, 50), 40)
    changed = rng.random(2000) < 0.05
    observations[changed] = rng.integers(0, symbols, changed.sum())
    log = Trajectory(
        actions=np.zeros(2000, dtype=int),
        observations=observations,
        observation_names=[str(i) for i in range(symbols)],
    )
    counts = count_sequences(log, history_length=length - 1, test_length=1)
    assert (counts.table(length).codes >= 0).all()
    assert naive.spelled_out(counts) == naive.count_windows(log, length)
