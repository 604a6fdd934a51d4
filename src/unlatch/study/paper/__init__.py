"""The published numbers of Shaw, Manderson, Kessens and Roy (WAFR 2026), to stand beside ours.

``figures.csv`` holds the curves of Figs. 5 and 6, read off the published figures; ``tables.csv`` holds Tables 2 to 6;
Table 1 and the ends of the curves of Fig. 7 are few enough to stand here.
"""

from __future__ import annotations

import csv
import math
from functools import cache
from importlib.resources import files
from typing import NamedTuple

__all__ = ["FIGURE_7_AT_A_MILLION", "THRESHOLDS", "Thresholds", "Value", "curve", "curves", "table_value"]


class Thresholds(NamedTuple):
    """A row of Table 1."""

    rank_tolerance: float
    min_singular_value: float
    history_length: int
    test_length: int
    observation_tolerance: float


THRESHOLDS = {
    "tiger": Thresholds(0.34, 0.1, 2, 1, 0.1),
    "tmaze": Thresholds(0.1, 0.01, 2, 1, 0.1),
    "sense-float-reset-3": Thresholds(0.1, 0.1, 3, 2, 0.1),
    "sense-float-reset-4": Thresholds(0.015, 0.1, 4, 3, 0.5),
}

FIGURE_7_AT_A_MILLION = {
    "tiger": 0.4272,
    "tmaze": 0.2119,
    "sense-float-reset-3": 0.1337,
    "sense-float-reset-4": 0.0227,
}
"""Where the curves of Fig. 7 end, at 1e6 steps."""


class Value(NamedTuple):
    """A mean over seeds and its standard deviation; NaN where the paper has none."""

    mean: float
    sd: float


Curve = dict[int, Value]
"""Values by number of steps; a line without steps, such as that of the true model, has the key 0."""


@cache
def curves() -> dict[tuple[str, str, str, str], Curve]:
    """Every curve of Figs. 5 and 6 by figure, domain, measure and method."""
    found: dict[tuple[str, str, str, str], Curve] = {}
    for row in _rows("figures.csv"):
        key = (f"fig{row['figure']}", row["domain"], row["measure"], row["method"])
        found.setdefault(key, {})[int(row["steps"] or 0)] = Value(_number(row["mean"]), _number(row["sd"]))
    return found


def curve(figure: str, domain: str, measure: str, method: str) -> Curve:
    """One curve; empty if the paper has none."""
    return curves().get((figure, domain, measure, method), {})


@cache
def _table() -> dict[tuple[str, str, str, str], Value]:
    return {
        (f"table{row['table']}", row["system"], row["lengths"], row["column"]): Value(
            _number(row["mean"]), _number(row["sd"])
        )
        for row in _rows("tables.csv")
    }


def table_value(table: str, system: str, lengths: str, column: str) -> Value:
    """One cell of a table; NaN if the paper leaves it empty."""
    return _table().get((table, system, lengths, column), Value(math.nan, math.nan))


def _rows(name: str) -> list[dict[str, str]]:
    text = (files(__name__) / name).read_text(encoding="utf-8")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


def _number(text: str) -> float:
    return float(text) if text else math.nan
