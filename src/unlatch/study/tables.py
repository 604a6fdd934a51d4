"""The paper's tables with our numbers beside, as Markdown."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unlatch.domains import by_name
from unlatch.study.paper import FIGURE_7_AT_A_MILLION, table_value
from unlatch.study.sensitivity import tolerance_name
from unlatch.study.studies import DOMAINS, HALLWAYS, LENGTHS, ROOMS, TOLERANCES
from unlatch.study.summary import Statistics, compare, group, number, plus_minus

__all__ = [
    "comparison_table",
    "error_table",
    "learning_time_table",
    "machine",
    "rank_table",
    "run_time_table",
    "singular_table",
]

Row = Mapping[str, Any]
Seconds = Mapping[str, Mapping[str, Any]]

_NOTHING = Statistics(math.nan, math.nan, 0, 0)


def rank_table(rows: Sequence[Row]) -> str:
    """Table 2: the estimated rank, and the rank in the limit."""
    ours = group(rows, ("states", "lengths", "tolerance"), "rank")
    lines = []
    equal = near = 0
    for states, lengths in _systems():
        for column in ("limit", *map(tolerance_name, TOLERANCES)):
            found = ours.get((states, lengths, column), _NOTHING)
            theirs = table_value("table2", str(states), lengths, column)
            if column in ("1e-1", "1e-2"):
                near += 1
                equal += round(found.mean) == theirs.mean if found.count else 0
            lines.append(
                [states, lengths, column, _shown(found), plus_minus(*theirs), _ratio(found.mean, theirs.mean)]
            )
    head = _table(["states", "Hankel size", "1/κ", "ours", "paper", "ratio"], lines)
    return (
        "Table 2: estimated rank of the Hankel matrix (`limit`: of infinite data).\n\n"
        f"At 1/κ = .1 and .01 the mean rank, rounded, equals the paper's in {equal} of {near} cells.\n\n{head}"
    )


def error_table(rows: Sequence[Row], table: str, measure: str, title: str) -> str:
    """Tables 3 and 4: errors where the rank equals the number of states, measured as in the paper; beside it those
    of the explicit model.

    ``seeds`` tells in how many of them the rank was right and the learner found a full-rank action.
    """
    ours = group(rows, ("states", "lengths", "tolerance"), measure)
    models = group(rows, ("states", "lengths", "tolerance"), f"model_{measure}")
    lines = []
    below = known = 0
    for states, lengths in _systems():
        for column in map(tolerance_name, TOLERANCES):
            found = ours.get((states, lengths, column), _NOTHING)
            theirs = table_value(table, str(states), lengths, column)
            if math.isnan(theirs.mean) and not found.count:
                continue
            if not math.isnan(theirs.mean):
                known += 1
                below += found.count > 0 and found.mean <= theirs.mean
            ratio, seeds = _ratio(found.mean, theirs.mean), f"{found.count} of {found.tried}"
            model = _shown(models.get((states, lengths, column), _NOTHING))
            lines.append([states, lengths, column, _shown(found), plus_minus(*theirs), ratio, seeds, model])
    heads = ["states", "Hankel size", "1/κ", "ours", "paper", "ratio", "seeds", "explicit model"]
    body = _table(heads, lines)
    return (
        f"{title}. Cells that are nan for both are left out.\n\n"
        f"At or below the paper's in {below} of the {known} cells where it has a number.\n\n{body}"
    )


def learning_time_table(seconds: Seconds) -> str:
    """Table 5: how long T-Mazes take, by Hankel size."""
    lines = []
    for rooms in ROOMS:
        states = 2 * (rooms + 1)
        times = _times(seconds, f"sensitivity.tmaze-{states}.")
        found = _median([unit["hankel"] for unit in times])
        theirs = table_value("table5", str(states), "", "hankel")
        lines.append(["Hankel", "all", states, *_faster(found, theirs)])
        for history_length, test_length in LENGTHS:
            name = f"{history_length}-{test_length}"
            for column in ("psr", "pomdp"):
                found = _median([_learning_time(unit, name, column) for unit in times])
                lines.append(
                    [
                        column.upper(),
                        name,
                        states,
                        *_faster(found, table_value("table5", str(states), name, column)),
                    ]
                )
    body = _table(["stage", "Hankel size", "states", "ours (s)", "paper (s)", "times faster"], lines)
    return (
        "Table 5: seconds to learn a T-Maze, median over seeds. POMDP includes PSR; where the rank was never right "
        f"there is no POMDP.\n\nOurs: {machine()}, one thread per worker. {_THEIRS}\n\n{body}"
    )


def _learning_time(unit: Mapping[str, Any], name: str, column: str) -> float:
    if column == "psr":
        return float(unit.get(f"psr {name}", math.nan))
    added = [value for key, value in unit.items() if key.startswith(f"similarity {name} ")]
    return float(unit[f"psr {name}"] + np.mean(added)) if added else math.nan


def run_time_table(seconds: Seconds, steps: int, planned: int) -> str:
    """Table 6: how long learning and planning take in the domains of Fig. 5.

    ``planned`` is the number of steps that the planning time of a unit covers.
    """
    lines = []
    for domain in DOMAINS:
        times = _times(seconds, f"spectral.{domain}.")
        climbs = _times(seconds, f"em.{domain}.")
        columns = {
            "hankel": [unit.get("hankel", math.nan) for unit in times],
            "psr": [unit.get("psr", math.nan) for unit in times],
            "pomdp": [unit.get("psr", math.nan) + unit.get("pomdp", math.nan) for unit in times],
            "em": [unit.get("em", math.nan) for unit in climbs],
            "planning": [unit.get("planning", math.nan) / planned for unit in times],
        }
        for column, values in columns.items():
            theirs = table_value("table6", domain, "", column)
            lines.append([domain, column, *_faster(_median(values), theirs)])
    body = _table(["domain", "stage", "ours (s)", "paper (s)", "times faster"], lines)
    return (
        f"Table 6: seconds at {steps} steps, median over seeds; planning: seconds per step. PSR and POMDP are totals "
        "after the Hankel matrix. EM: one start, the whole climb through all sizes up to this one.\n\n"
        f"Ours: {machine()}, one thread per worker. {_THEIRS}\n\n{body}"
    )


_THEIRS = "The paper's: unoptimized Python, Intel Xeon Gold 6140, shared cluster."


def singular_table(rows: Sequence[Row]) -> str:
    """Fig. 7 in numbers: where the curves end."""
    ours = group(
        [row for row in rows if row.get("method") == "spectral"], ("domain", "steps"), "singular_ratio"
    )
    lines = []
    for domain in DOMAINS:
        steps = max(size for name, size in ours if name == domain)
        found, theirs = ours[domain, steps], FIGURE_7_AT_A_MILLION[domain]
        lines.append([domain, steps, _shown(found), number(theirs), _ratio(found.mean, theirs)])
    return "Fig. 7 at its end: σ_r / σ_1, the paper's at 1e6 steps.\n\n" + _table(
        ["domain", "steps", "ours", "paper", "ratio"], lines
    )


def comparison_table(figure: str, rows: Sequence[Row]) -> str:
    """Figs. 5 and 6 in numbers: at how many sizes our mean is at least as good as the paper's."""
    systems = DOMAINS if figure == "fig5" else {name: name for name in HALLWAYS}
    states = {domain: by_name(system).n_states for domain, system in systems.items()}
    lines = []
    for method in ("spectral", "spectral-model", "spectral-plain", "psr", "em", "em-12"):
        for found in compare(figure, rows, method, states):
            share = f"{found.at_least_as_good} of {found.points}"
            lines.append([found.measure, found.domain, method, share, number(found.median_ratio)])
    lines.sort(key=lambda line: (line[0], line[1]))
    body = _table(["measure", "domain", "method", "at least as good", "median ratio"], lines)
    return (
        f"{figure}: sizes at which our mean over seeds is at least as good as the paper's (errors: at or below; "
        "states: as near to the truth; rewards: at or above), and the median of ours / paper's.\n\n"
        f"{body}{_failures(rows)}"
    )


def _failures(rows: Sequence[Row]) -> str:
    """Outcomes other than ok, by method and domain."""
    counts: dict[tuple[str, str, str], int] = {}
    for row in rows:
        if row["outcome"] != "ok":
            key = (row.get("method", ""), row.get("domain", ""), row["outcome"])
            counts[key] = counts.get(key, 0) + 1
    if not counts:
        return "\nEvery learner finished at every size.\n"
    lines = [[*key, count] for key, count in sorted(counts.items())]
    return "\nRows without a model:\n\n" + _table(["method", "domain", "outcome", "rows"], lines)


def machine() -> str:
    """What the times were taken on."""
    model = platform.processor() or platform.machine()
    try:
        names = [
            line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0].split(":", 1)[1].strip() if names else model
    except OSError:
        pass
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}, NumPy {np.__version__}"


def _systems() -> list[tuple[int, str]]:
    return [(2 * (rooms + 1), f"{a}-{b}") for rooms in ROOMS for a, b in LENGTHS]


def _times(seconds: Seconds, prefix: str) -> list[Mapping[str, Any]]:
    return [times for unit, times in seconds.items() if unit.startswith(prefix)]


def _median(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return float(np.median(known)) if known else math.nan


def _faster(ours: float, theirs: tuple[float, float]) -> list[str]:
    return [number(ours), plus_minus(*theirs), _ratio(theirs[0], ours)]


def _ratio(ours: float, theirs: float) -> str:
    if math.isnan(ours) or math.isnan(theirs) or theirs == 0:
        return ""
    return number(ours / theirs)


def _shown(found: Statistics) -> str:
    return plus_minus(found.mean, found.sd)


def _table(columns: Sequence[str], lines: Sequence[Sequence[Any]]) -> str:
    text = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    text += [f"| {' | '.join(str(cell) for cell in line)} |" for line in lines]
    return "\n".join(text) + "\n"
