"""From a target's name to its files: run what is missing, collect, draw, tabulate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unlatch.files.atomic import write_atomically
from unlatch.study import figures, tables
from unlatch.study.jobs.runner import Summary, collect_rows, collect_seconds, run_units, write_table
from unlatch.study.jobs.units import Study, Unit
from unlatch.study.studies import CURVE_SIZES, PLANNING, TARGETS, build_study, chosen_units, targets_of

__all__ = ["Reproduction", "reproduce_targets"]

_FIRST_COLUMNS = ("domain", "method", "states", "lengths", "tolerance", "steps", "seed", "outcome")


@dataclass(frozen=True)
class Reproduction:
    """What came of a run: units by study, and the files made."""

    summaries: Mapping[str, Summary]
    files: tuple[Path, ...]


@dataclass(frozen=True)
class _Results:
    """All that the figures and tables of one study are made from."""

    rows: Sequence[Mapping[str, Any]]
    seconds: Mapping[str, Mapping[str, Any]]
    sizes_up_to: int | None


def reproduce_targets(
    name: str,
    out: Path,
    *,
    seeds: int = 20,
    workers: int = 1,
    engine: Any = None,
    sizes_up_to: int | None = None,
    time_limit: float = 3600.0,
    force: bool = False,
) -> Reproduction:
    """Make a figure or table, or "all" of them, in the folder ``out``.

    Units of a study are kept in a folder of its own inside ``out``, shared by all targets that need
    them: ``fig7`` after ``fig5`` runs nothing. Beside them lie their rows (``rows.csv``) and times
    (``times.csv``; not the same in every run). ``engine`` as for `run_units`.
    """
    targets = targets_of(name)
    summaries: dict[str, Summary] = {}
    made: list[Path] = []
    for study_name in dict.fromkeys(TARGETS[target].study for target in targets):
        study = build_study(study_name, seeds=seeds, sizes_up_to=sizes_up_to)
        mine = [target for target in targets if TARGETS[target].study == study_name]
        needed = {unit.id for target in mine for unit in chosen_units(study, target)}
        folder = out / study_name
        summaries[study_name] = run_units(
            study,
            folder,
            workers=workers,
            engine=engine,
            time_limit_per_unit=time_limit,
            chosen=[unit for unit in study.units if unit.id in needed],
            force=force,
        )
        made += _write_rows(study, folder)
        for target in mine:
            made += _made(target, study, folder, out, sizes_up_to)
    return Reproduction(summaries, tuple(made))


def _write_rows(study: Study, folder: Path) -> list[Path]:
    """One table of all that is finished, and one of the times."""
    pictures = [unit for unit in study.units if unit.id.startswith("picture.")]
    plain = [unit for unit in study.units if unit not in pictures]
    rows, times = folder / "rows.csv", folder / "times.csv"
    found = [_without_unit(row) for row in collect_rows(study, folder, plain)]
    write_table(rows, found, first=_FIRST_COLUMNS)
    write_table(
        times, [{"unit": unit, **seconds} for unit, seconds in collect_seconds(study, folder).items()]
    )
    return [rows, times]


def _without_unit(row: Mapping[str, Any]) -> dict[str, Any]:
    """Finished rows say domain, method and seed themselves; failed ones keep the name of their unit."""
    failed = str(row.get("outcome", "")).startswith("failed(")
    return {key: value for key, value in row.items() if key != "unit" or failed}


def _made(target: str, study: Study, folder: Path, out: Path, sizes_up_to: int | None) -> list[Path]:
    units: list[Unit] = chosen_units(study, target)
    results = _Results(
        [row for row in collect_rows(study, folder, units) if "failed(" not in str(row.get("outcome"))],
        collect_seconds(study, folder, units),
        sizes_up_to,
    )
    made = []
    if target in _FIGURES:
        made.append(_FIGURES[target](results.rows, out / f"{target}.png"))
    if target in _TABLES:
        path = out / f"{target}.md"
        write_atomically(path, _TABLES[target](results).encode())
        made.append(path)
    return made


_FIGURES: dict[str, Callable[[Sequence[Mapping[str, Any]], Path], Path]] = {
    "fig5": figures.draw_figure5,
    "fig6": figures.draw_figure6,
    "fig7": figures.draw_figure7,
    "fig9": figures.draw_figure9,
}

_TABLES: dict[str, Callable[[_Results], str]] = {
    "fig5": lambda results: tables.comparison_table("fig5", results.rows),
    "fig6": lambda results: tables.comparison_table("fig6", results.rows),
    "fig7": lambda results: tables.singular_table(results.rows),
    "table2": lambda results: tables.rank_table(results.rows),
    "table3": lambda results: tables.error_table(
        results.rows, "table3", "observation_l1", "Table 3: observation error (L1)"
    ),
    "table4": lambda results: tables.error_table(
        results.rows,
        "table4",
        "three_step_transition_l1",
        "Table 4: transition error (L1, three steps, cells)",
    ),
    "table5": lambda results: tables.learning_time_table(results.seconds),
    "table6": lambda results: tables.run_time_table(
        results.seconds,
        max(size for size in CURVE_SIZES if size <= (results.sizes_up_to or max(CURVE_SIZES))),
        int(PLANNING["episodes"] * PLANNING["steps"]),
    ),
}
