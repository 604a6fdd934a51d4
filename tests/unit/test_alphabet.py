"""Names of symbols: what is accepted, how they are ordered, how logs and models are matched."""

from __future__ import annotations

import numpy as np
import pytest

from unlatch.core.alphabet import (
    MAX_SYMBOLS,
    checked_name,
    checked_names,
    refuse_continuous,
    sorted_names,
    translate,
)
from unlatch.core.trajectory import Trajectory
from unlatch.errors import DataError, ResourceLimitError


@pytest.mark.parametrize(
    "name", ["left", " left ", "\U0001f42f", "\u05d0\u05d1", "e\u0301", "x" * 256, "<b>"]
)
def test_names_of_any_script_are_kept_up_to_nfc(name):
    assert checked_name("names", name) in (name, "\u00e9")


@pytest.mark.parametrize("name", ["", "a\0b", "tab\t", "\x1b[31m", "\ud800", "x" * 257, "\u20ac" * 86])
def test_names_that_no_file_could_hold_are_refused(name):
    with pytest.raises(DataError, match="names: "):
        checked_name("names", name)


def test_names_are_numbered_when_none_are_given():
    assert checked_names("names", None, 3) == ("0", "1", "2")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a"], "1 names for 2 symbols"),
        (["a", "a"], "'a' stands twice"),
        (["\u00e9", "e\u0301"], "stands twice"),
        ("ab", "sequence of text"),
        ([1, 2], "sequence of text"),
    ],
)
def test_lists_of_names_that_do_not_fit(names, message):
    with pytest.raises(DataError, match=message):
        checked_names("names", names, 2)


@pytest.mark.parametrize(
    ("names", "ordered"),
    [
        (["10", "9", "-1"], ["-1", "9", "10"]),
        (["10", "9", "01"], ["01", "10", "9"]),
        (["b", "10", "9"], ["10", "9", "b"]),
        (["\u0663", "2"], ["2", "\u0663"]),
        ([], []),
    ],
)
def test_canonical_order(names, ordered):
    assert sorted_names(names) == ordered


@pytest.mark.parametrize(("most", "rows"), [(100, 100), (101, 505), (MAX_SYMBOLS, 10**9)])
def test_where_an_alphabet_ends_and_a_quantity_begins(most, rows):
    refuse_continuous("column", most, rows)
    with pytest.raises(ResourceLimitError, match=f"{most + 1} distinct values in {rows} rows"):
        refuse_continuous("column", most + 1, rows)


def test_translation_is_by_name():
    codes = np.array([0, 1, 0])
    assert translate("action", codes, ("a", "b"), ("b", "c", "a")).tolist() == [2, 0, 2]
    assert translate("action", codes, ("a", "b"), ("a", "b", "c")).tolist() == [0, 1, 0]
    assert translate("action", codes, ("a", "b", "unused"), ("b", "a")).tolist() == [1, 0, 1]


def test_an_unknown_symbol_is_named_with_its_step():
    with pytest.raises(DataError, match="unknown action 'b' at step 1: the model knows 'a', 'c'"):
        translate("action", np.array([0, 1]), ("a", "b"), ("a", "c"))
    with pytest.raises(DataError, match=r"'11', \.\.\. \(13 in all\)"):
        translate("action", np.array([0]), ("x",), tuple(str(i) for i in range(13)))


def test_the_order_is_that_of_the_names_as_they_are_kept():
    """A character that Unicode composes to one that sorts elsewhere."""
    assert sorted_names(["\u4e3e", "\U0002f800"]) == ["\U0002f800", "\u4e3e"]
    log = Trajectory.from_symbols(["\u4e3e", "\U0002f800"], ["0", "0"])
    assert log.action_names == ("\u4e3d", "\u4e3e")
    assert log.actions.tolist() == [1, 0]
