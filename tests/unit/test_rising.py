"""Numbers of episodes: codes as they appear, and their texts again, in memory that consecutive numbers do not need."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from unlatch.files.logs.rising import RisingNumbers


@given(
    rises=st.lists(st.sampled_from([1, 1, 1, 2, 7]), min_size=1, max_size=40),
    first=st.integers(0, 5),
    cuts=st.lists(st.integers(0, 40), max_size=4),
    again=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_codes_and_texts(rises: list[int], first: int, cuts: list[int], again: bool) -> None:
    numbers = (first + np.cumsum([0, *rises])).tolist()
    known = RisingNumbers()
    bounds = sorted({0, *(min(cut, len(numbers)) for cut in cuts), len(numbers)})
    for cut, end in itertools.pairwise(bounds):
        begin = cut - 1 if again and cut else cut  # the last of before may come once more
        codes = known.codes(np.array(numbers[begin:end]))
        assert codes is not None
        assert codes.tolist() == list(range(begin, end))
    assert list(known) == [known[code] for code in range(len(known))] == list(map(str, numbers))
    assert known.codes(np.array([numbers[-1] + 1, numbers[0]])) is None
    assert known.codes(np.array([numbers[0] - 1])) is None
    assert len(known) == len(numbers)
    assert known.codes(np.array([numbers[-1]])).tolist() == [len(numbers) - 1]
