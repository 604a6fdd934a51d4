"""The page of a study: its curves and tables, from the rows that lie in its folder."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from unlatch.errors import DataError, StorageError
from unlatch.files.atomic import PathLike, check_target, checked_path, read_regular_file, write_atomically
from unlatch.show.report.graph import Series, chart_svg
from unlatch.show.report.markup import Markup, listing, page, section, table, tag
from unlatch.show.safe import counted
from unlatch.study.summary import Statistics, number, statistics

__all__ = ["study_html", "write_study_report"]

_ROWS = "rows.csv"
_LARGEST = 1 << 28
_KEYS = ("domain", "method", "states", "lengths", "tolerance", "steps")
"""Columns that tell rows apart; what other columns hold are measures."""

_NOT_MEASURED = (*_KEYS, "seed", "outcome", "unit", "full_rank_actions")
_MOST_LINES = 600

Row = Mapping[str, str]


def write_study_report(path: PathLike, folder: PathLike) -> None:
    """Write the page of a study's folder, whole or not at all."""
    check_target(path)
    write_atomically(path, study_html(folder).encode())


def study_html(folder: PathLike) -> str:
    """A page of the curves and tables of a study, or of all studies that lie in a folder."""
    root = Path(checked_path(folder))
    found = [root] if (root / _ROWS).is_file() else _inside(root)
    if not found:
        raise StorageError(f"{root}: no study: neither it nor a folder in it has a file {_ROWS}")
    parts = [_study(number, place) for number, place in enumerate(found)]
    return page(
        f"Study: {root.resolve().name}", tag("header", tag("h1", f"Study: {root.resolve().name}")), *parts
    )


def _inside(root: Path) -> list[Path]:
    try:
        return sorted(place for place in root.iterdir() if (place / _ROWS).is_file())
    except OSError as error:
        raise StorageError(f"{root}: cannot read: {error.strerror or error}") from None


def _study(place_in_page: int, folder: Path) -> Markup:
    rows = _rows(folder / _ROWS)
    failed = [row for row in rows if "failed(" in row.get("outcome", "")]
    good = [row for row in rows if "failed(" not in row.get("outcome", "")]
    measures = [name for name in (good[0] if good else {}) if name not in _NOT_MEASURED]
    curves = _curves(good, measures)
    said = [f"{counted(len(good), 'row')} from finished units; {len(failed)} failed."]
    said += ["Curves are means, bands the standard deviation."] if "<svg" in str(curves) else []
    if failed:
        said += sorted({f"{row.get('unit', '?')}: {row['outcome']}" for row in failed})[:20]
    return section(f"study{place_in_page}", folder.name, listing(said), curves, _tables(good, measures))


def _rows(path: Path) -> list[Row]:
    text = read_regular_file(path, largest=_LARGEST).decode("utf-8", errors="replace")
    try:
        return [
            {
                key: value or ""
                for key, value in row.items()
                if isinstance(key, str) and not isinstance(value, list)
            }
            for row in csv.DictReader(io.StringIO(text, newline=""))
        ]
    except csv.Error as error:
        raise DataError(f"{path}: no table: {error}") from None


def _value(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _grouped(rows: Sequence[Row], keys: Sequence[str], measure: str) -> dict[tuple[str, ...], Statistics]:
    values: dict[tuple[str, ...], list[float | None]] = {}
    for row in rows:
        values.setdefault(tuple(row.get(key, "") for key in keys), []).append(_value(row.get(measure, "")))
    return {key: statistics(found) for key, found in values.items()}


# --- curves ----------------------------------------------------------------------------------------------


def _curves(rows: Sequence[Row], measures: Sequence[str]) -> Markup:
    """For every domain and measure a chart of the methods by size."""
    sized = [row for row in rows if (_value(row.get("steps", "")) or 0) > 0]
    drawn = [
        _chart([row for row in sized if row.get("domain", "") == domain], domain, measure)
        for domain in dict.fromkeys(row.get("domain", "") for row in sized)
        for measure in measures
    ]
    return tag("div", *(chart for chart in drawn if chart), class_="charts")


def _chart(rows: Sequence[Row], domain: str, measure: str) -> Markup:
    found = _grouped(rows, ("method", "steps"), measure)
    curves = {}
    for method in dict.fromkeys(key[0] for key in found):
        points = sorted(
            (float(steps), stats) for (name, steps), stats in found.items() if name == method and stats.count
        )
        if len(points) > 1:
            curves[method] = points
    if not curves:
        return Markup("")
    means = np.array([stats.mean for points in curves.values() for _, stats in points])
    steep = bool((means > 0).all() and means.max() > 20 * means.min())
    series = [_series(method, points, steep) for method, points in curves.items()]
    sizes = [size for points in curves.values() for size, _ in points]
    title = f"{domain}: {measure}"
    drawing = chart_svg(
        series, label=f"{title} by steps; the table below has the numbers", x_ticks=_decades(min(sizes), max(sizes)),
        y_ticks=_levels(series, steep), titles=("steps", measure.replace("_", " ")),
    )  # fmt: skip
    return tag("figure", tag("figcaption", tag("strong", title)), drawing)


def _series(method: str, points: Sequence[tuple[float, Statistics]], steep: bool) -> Series:
    def height(value: float) -> float:
        return math.log10(value) if steep else value

    return Series(
        method,
        [(math.log10(size), height(stats.mean)) for size, stats in points],
        [(height(_lower(stats, steep)), height(stats.mean + stats.sd)) for _, stats in points],
    )


def _lower(stats: Statistics, steep: bool) -> float:
    """The lower end of a band; on a logarithmic scale it does not reach down to nothing."""
    return max(stats.mean - stats.sd, 0.2 * stats.mean) if steep else stats.mean - stats.sd


def _decades(least: float, most: float) -> list[tuple[float, str]]:
    first, last = math.floor(math.log10(least)), math.ceil(math.log10(most))
    return [(float(power), f"1e{power}") for power in range(first, max(last, first + 1) + 1)]


def _levels(series: Sequence[Series], steep: bool) -> list[tuple[float, str]]:
    low = min(min(low for low, _ in curve.band) for curve in series)
    high = max(max(high for _, high in curve.band) for curve in series)
    if steep:
        return [(float(power), f"{10.0**power:g}") for power in range(math.floor(low), math.ceil(high) + 1)]
    step = _round_step((high - low) / 4)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [(step * i, f"{step * i:.10g}") for i in range(first, max(last, first + 1) + 1)]


def _round_step(wanted: float) -> float:
    """The next of 1, 2, 5, 10, ... of its size."""
    size = 10.0 ** math.floor(math.log10(wanted)) if wanted > 0 else 1.0
    return next(times * size for times in (1.0, 2.0, 5.0, 10.0) if times * size >= wanted or times == 10.0)


# --- tables ----------------------------------------------------------------------------------------------


def _tables(rows: Sequence[Row], measures: Sequence[str]) -> Markup:
    keys = [key for key in _KEYS if any(row.get(key, "") for row in rows)]
    measured = [
        measure for measure in measures if any(_value(row.get(measure, "")) is not None for row in rows)
    ]
    lines = list(_lines(rows, keys, measured))
    more = (
        tag("p", f"{len(lines) - _MOST_LINES} more lines are in {_ROWS}.") if len(lines) > _MOST_LINES else ""
    )
    shown = (
        table([*keys, *(name.replace("_", " ") for name in measured)], lines[:_MOST_LINES]) if lines else ""
    )
    told = tag("summary", "Means ± standard deviations over seeds (of how many)")
    return tag("details", told, shown, more, open=len(lines) <= 60)


def _lines(rows: Sequence[Row], keys: Sequence[str], measures: Sequence[str]) -> Iterator[list[object]]:
    by_measure = [_grouped(rows, keys, measure) for measure in measures]
    for key in dict.fromkeys(tuple(row.get(name, "") for name in keys) for row in rows):
        yield [*key, *(_said(found[key]) for found in by_measure)]


def _said(stats: Statistics) -> str:
    if not stats.count:
        return ""
    spread = f" ± {number(stats.sd)}" if stats.count > 1 else ""
    return f"{number(stats.mean)}{spread} ({stats.count})"
