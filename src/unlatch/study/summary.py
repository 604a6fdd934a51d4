"""Means over seeds, and how they compare with the paper's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unlatch.study import paper

__all__ = [
    "CURVES",
    "Comparison",
    "Statistics",
    "compare",
    "group",
    "number",
    "paper_curve",
    "plus_minus",
    "statistics",
]

Row = Mapping[str, Any]

CURVES = {
    "fig5": ("estimated_states", "observation_l1", "three_step_transition_l1", "total_reward"),
    "fig6": (
        *("observation_l1", "three_step_transition_l1"),
        *("state_reward", "observation_reward", "observation_reward_meant"),
    ),
}
"""The measures of the two figures that the paper's numbers are at hand for."""

_THEIRS = {"em-12": "em", "spectral-plain": "spectral", "spectral-model": "spectral"}
"""The method of the paper that one of ours stands beside."""

_COLUMNS = {"estimated_states": "states"}
"""Where a measure has another name in the rows."""


@dataclass(frozen=True)
class Statistics:
    """Of the seeds that have a value, out of all that were tried."""

    mean: float
    sd: float
    count: int
    tried: int

    @property
    def standard_error(self) -> float:
        return self.sd / math.sqrt(self.count) if self.count else math.nan


def group(rows: Iterable[Row], keys: Sequence[str], measure: str) -> dict[tuple[Any, ...], Statistics]:
    """Statistics of a measure over all rows that agree in ``keys``."""
    found: dict[tuple[Any, ...], list[float | None]] = {}
    column = _COLUMNS.get(measure, measure)
    for row in rows:
        found.setdefault(tuple(row.get(key) for key in keys), []).append(row.get(column))
    return {key: statistics(values) for key, values in found.items()}


def statistics(values: Sequence[float | None]) -> Statistics:
    """Of the values that are not None."""
    known = np.array([value for value in values if value is not None], dtype=float)
    if known.size == 0:
        return Statistics(math.nan, math.nan, 0, len(values))
    sd = float(known.std(ddof=1)) if known.size > 1 else 0.0
    return Statistics(float(known.mean()), sd, known.size, len(values))


def paper_curve(figure: str, domain: str, measure: str, method: str) -> paper.Curve:
    """The paper's curve for one of ours; in Fig. 6 its names tell method and goal together."""
    method = _THEIRS.get(method, method)
    measure = measure.removesuffix("_found")
    rewarded = "reward" in measure
    if figure == "fig5" or method == "truth":
        return paper.curve(figure, domain, "total_reward" if rewarded else measure, method)
    goal = measure.split("_")[0] if rewarded else "state"
    return paper.curve(figure, domain, "total_reward" if rewarded else measure, f"{method}-{goal}-reward")


@dataclass(frozen=True)
class Comparison:
    """One of our curves against the paper's, over the sizes that both have."""

    domain: str
    measure: str
    method: str
    points: int
    at_least_as_good: int
    median_ratio: float


def compare(
    figure: str, rows: Sequence[Row], method: str, true_states: Mapping[str, int]
) -> list[Comparison]:
    """Where our mean is at or below the paper's; for numbers of states, as near to the truth; for rewards, at or
    above."""
    found = []
    for measure in (*CURVES[figure], "observation_l1_found"):
        ours = group(rows, ("domain", "method", "steps"), measure)
        for domain in dict.fromkeys(row["domain"] for row in rows):
            theirs = paper_curve(figure, domain, measure, method)
            shared = [
                (ours[domain, method, steps].mean, value.mean)
                for steps, value in theirs.items()
                if (domain, method, steps) in ours and ours[domain, method, steps].count
            ]
            if shared:
                found.append(_compared(domain, measure, method, shared, true_states[domain]))
    return found


def _compared(
    domain: str, measure: str, method: str, shared: list[tuple[float, float]], states: int
) -> Comparison:
    if measure == "estimated_states":
        shared_errors = [(abs(ours - states), abs(theirs - states)) for ours, theirs in shared]
        good = sum(ours <= theirs + 1e-9 for ours, theirs in shared_errors)
    elif "reward" in measure:
        good = sum(ours >= theirs for ours, theirs in shared)
    else:
        good = sum(ours <= theirs for ours, theirs in shared)
    ratios = [ours / theirs for ours, theirs in shared if theirs]
    ratio = float(np.median(ratios)) if ratios else math.nan
    return Comparison(domain, measure, method, len(shared), good, ratio)


def number(value: float) -> str:
    """Two or three digits, as tables have them."""
    if math.isnan(value):
        return "nan"
    if value == 0 or 0.001 <= abs(value) < 10_000:
        text = f"{value:.3g}"
        return text if "e" not in text else f"{value:.0f}"
    return f"{value:.1e}"


def plus_minus(mean: float, sd: float) -> str:
    """Mean and standard deviation; the latter only if there is one."""
    return number(mean) if math.isnan(mean) or math.isnan(sd) else f"{number(mean)} ± {number(sd)}"
