"""Counts do not depend on how a log is cut into pieces, nor on the order in which they are merged."""

from __future__ import annotations

import functools
import itertools
import operator

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import naive
from unlatch import Trajectory, count_sequences, estimate_hankel


@st.composite
def pieces(draw, alphabets):
    """Logs over one alphabet, each long enough to be counted, and the log that holds them as episodes."""
    sizes = draw(st.lists(st.integers(6, 40), min_size=1, max_size=6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_actions, n_observations = draw(st.sampled_from(alphabets))
    names = [str(i) for i in range(n_actions)], [str(i) for i in range(n_observations)]
    starts = np.cumsum([0, *sizes])
    actions = rng.choice([0, n_actions - 1], starts[-1])
    observations = rng.choice([0, n_observations // 2, n_observations - 1], starts[-1])
    logs = [Trajectory(actions[i:j], observations[i:j], *names) for i, j in itertools.pairwise(starts)]
    return logs, Trajectory(actions, observations, *names, episode_starts=starts[:-1])


def count(log):
    return count_sequences(log, history_length=3, test_length=2)


@given(pieces([(1, 1), (2, 3), (30, 40), (2000, 4000)]), st.randoms(use_true_random=False))
def test_merged_pieces_are_the_whole(case, random):
    logs, whole = case
    expected = naive.count_windows(whole, 5)
    random.shuffle(logs)
    merged = functools.reduce(operator.add, [count(log) for log in logs])
    assert naive.spelled_out(merged) == naive.spelled_out(count(whole)) == expected
    assert merged.steps == len(whole)
    for one, other in zip(merged.tables, count(whole).tables, strict=True):
        assert np.array_equal(one.codes, other.codes)
        assert np.array_equal(one.totals, other.totals)


@given(pieces([(1, 1), (2, 3), (4, 10)]))
def test_merged_pieces_have_the_hankel_matrix_of_the_whole(case):
    logs, whole = case
    merged = functools.reduce(operator.add, [count(log) for log in logs])
    one, other = estimate_hankel(merged), estimate_hankel(count(whole))
    assert np.array_equal(one.toarray(), other.toarray())
    assert np.array_equal(one.extended.tocoo().data, other.extended.tocoo().data)
    assert np.array_equal(one.empty_history, other.empty_history)
