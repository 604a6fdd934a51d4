"""The kernel that follows rows of tables equals its Python source and a slow readable twin, however rows are cut."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unlatch.kernels import episodes

ROW = st.fixed_dictionaries(
    {
        "gap": st.sampled_from([False, False, False, True]),
        "opens": st.sampled_from([False, False, True]),
        "rise": st.sampled_from([0, 0, 0, 1, -1]),
        "answer": st.sampled_from([0, 0, 0, 1, -1]),
        "cut": st.sampled_from([0, 0, 0, 1]),
    }
)


def python(kernel: Any) -> Any:
    return getattr(kernel, "py_func", kernel)


def followed(
    kernel: Any, rows: list[dict[str, Any]], cuts: list[int], named: bool, answered: bool
) -> tuple[list[tuple[int, int]], dict[str, int]]:
    """The beginnings of a table in parts, and what is said of all rows."""
    state = np.array([-1, -1, 0, 1])
    codes = np.cumsum([row["rise"] for row in rows])
    begun: list[tuple[int, int]] = []
    said = dict.fromkeys(("back", "over", "late", "opened_at", "without_at"), -1) | {"opened": 0, "empty": 0}
    steps = 0
    bounds = sorted({0, *(min(cut, len(rows)) for cut in cuts), len(rows)})
    for first, last in itertools.pairwise(bounds):
        part = rows[first:last]
        opens = np.array([row["opens"] for row in part], dtype=bool)
        told = np.zeros(7, dtype=np.int64)
        starts, shown = np.zeros((2, len(part)), dtype=np.int64)
        count = kernel(
            np.array([row["gap"] for row in part], dtype=bool),
            opens,
            np.flatnonzero(opens) + first + 100,
            codes[first:last] if named else np.zeros(0, dtype=np.int64),
            np.array([row["answer"] for row in part] if answered else [], dtype=np.int8),
            np.array([row["cut"] for row in part] if answered else [], dtype=np.int8),
            state,
            told,
            starts,
            shown,
        )
        begun += [(steps + int(s), int(f)) for s, f in zip(starts[:count], shown[:count], strict=True)]
        steps += int((~opens).sum())
        for name, value in zip(said, told.tolist(), strict=True):
            if name in ("opened", "empty"):
                said[name] += value
            elif said[name] < 0 <= value:
                said[name] = first + value
    return begun, said


def naive(
    rows: list[dict[str, Any]], named: bool, answered: bool
) -> tuple[list[tuple[int, int]], dict[str, int]]:
    begun: list[tuple[int, int]] = []
    said = dict.fromkeys(("back", "over", "late", "opened_at", "without_at"), -1) | {"opened": 0, "empty": 0}
    steps, episode, waiting = 0, 0, None
    ended, terminated = True, False  # a table begins an episode

    def note(name: str, row: int) -> None:
        said[name] = row if said[name] < 0 else said[name]

    for i, row in enumerate(rows):
        begins = row["gap"] or ended
        if named:
            code = episode + row["rise"]
            rise = code + 1 if i == 0 else code - episode
            episode = code
            if rise < 0:
                note("back", i)
            if rise == 0 and terminated:
                note("over", i)
            begins = begins or rise > 0
            if row["opens"] and not begins:
                note("late", i)
        if row["opens"]:
            said["empty"] += waiting is not None
            note("opened_at", i)
            waiting = i + 100
        else:
            if waiting is not None and not begins:
                begun.append((steps, waiting))
                said["opened"] += 1
            elif waiting is not None or begins:
                said["empty"] += waiting is not None
                begun.append((steps, -1))
                note("without_at", i)
            waiting = None
            steps += 1
        terminated = answered and row["answer"] == 1
        ended = terminated or (answered and row["cut"] == 1)
    return begun, said


@pytest.mark.parametrize("kernel", [episodes.follow_rows, python(episodes.follow_rows)])
@given(
    rows=st.lists(ROW, max_size=25),
    cuts=st.lists(st.integers(0, 25), max_size=3),
    named=st.booleans(),
    answered=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_rows_are_followed_as_the_twin_does(
    kernel: Any, rows: list[dict[str, Any]], cuts: list[int], named: bool, answered: bool
) -> None:
    assert followed(kernel, rows, cuts, named, answered) == naive(rows, named, answered)
