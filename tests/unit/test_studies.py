"""The paper's studies: the data behind them, what their units give, and what is made of it."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unlatch.cli import main
from unlatch.errors import UsageError
from unlatch.study import experiments, figures, paper, sensitivity, studies, tables
from unlatch.study.jobs.units import Finding, Study, Unit
from unlatch.study.studies import DOMAINS, HALLWAYS, TARGETS, build_study, chosen_units, targets_of
from unlatch.study.summary import compare, group, number, paper_curve, plus_minus

QUICK = {"episodes": 2, "steps": 4, "simulations": 30, "depth": 3, "exploration": 2.0}
QUICK_EM = {**studies.EM, "search_steps": 1500, "search_iterations": 3, "follow_iterations": [1, 2]}


def unit_of(study_name: str, unit_id: str, **changes: Any) -> tuple[Study, Unit]:
    """A unit of a study, made small."""
    study = build_study(study_name, seeds=2)
    (unit,) = (unit for unit in study.units if unit.id == unit_id)
    quick = {"planning": QUICK} if "planning" in unit.parameters else {}
    return study, Unit(unit.id, unit.function, {**unit.parameters, **quick, **changes})


def rows_of(study_name: str, unit_id: str, **changes: Any) -> list[dict[str, Any]]:
    study, unit = unit_of(study_name, unit_id, **changes)
    finding: Finding = unit.function(unit.parameters, study.seed_of(unit))
    return [dict(row) for row in finding.rows]


# --- the paper's numbers ---------------------------------------------------------------------------------


def test_published_numbers_are_at_hand() -> None:
    assert len(paper.curves()) == 54
    assert paper.curve("fig5", "tiger", "observation_l1", "spectral")[1_000_000].mean == 0.00267
    assert paper.curve("fig6", "noisy-hallway", "total_reward", "truth")[0].mean == 6.16
    assert paper.curve("fig5", "tiger", "observation_l1", "psr") == {}
    assert paper.table_value("table2", "10", "4-3", "1e-2") == (10, 0.3)
    assert paper.table_value("table5", "14", "4-3", "psr") == (1000, 260)
    assert math.isnan(paper.table_value("table3", "14", "4-3", "1e-1").mean)
    assert math.isnan(paper.table_value("table3", "99", "4-3", "1e-1").mean)


def test_every_learner_of_ours_has_its_curve_in_the_paper() -> None:
    for domain in DOMAINS:
        assert set(paper_curve("fig5", domain, "estimated_states", "spectral")) == set(studies.CURVE_SIZES)
        assert 0 in paper_curve("fig5", domain, "total_reward", "truth")
    for domain in HALLWAYS:
        assert set(paper_curve("fig6", domain, "observation_l1", "spectral-model")) == set(
            studies.HALLWAY_SIZES
        )
        assert set(paper_curve("fig6", domain, "state_reward", "em")) == set(studies.HALLWAY_SIZES)
        assert len(paper_curve("fig6", domain, "observation_reward", "psr")) == 22
        assert len(paper_curve("fig6", domain, "observation_reward_meant", "psr")) == 22
        assert set(studies.HALLWAY_EM_SIZES) <= set(studies.HALLWAY_SIZES)


# --- studies as data -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["curves", "hallways", "sensitivity"])
def test_more_seeds_do_not_change_the_units_there_are(name: str) -> None:
    few, many = build_study(name, seeds=2), build_study(name, seeds=5)
    fingerprints = {unit.id: many.fingerprint(unit) for unit in many.units}
    assert all(fingerprints[unit.id] == few.fingerprint(unit) for unit in few.units)
    assert few.configuration["seeds"] == 2
    assert few.configuration["code"] == many.configuration["code"]
    assert all(unit.cost > 0 for unit in many.units)


def test_targets_choose_their_units() -> None:
    study = build_study("curves", seeds=3)
    assert {unit.id.split(".")[0] for unit in chosen_units(study, "fig7")} == {"spectral"}
    assert [unit.id for unit in chosen_units(study, "fig9")] == ["picture.tiger"]
    assert len(chosen_units(study, "fig5")) == 4 + 3 * 4 * 4
    assert targets_of("all") == tuple(TARGETS)
    assert targets_of("fig6") == ("fig6",)
    with pytest.raises(UsageError, match="unknown target 'fig8'"):
        targets_of("fig8")
    with pytest.raises(UsageError, match="at least one seed"):
        build_study("curves", seeds=0)
    with pytest.raises(UsageError, match="leave nothing"):
        build_study("curves", seeds=1, sizes_up_to=100)


def test_sizes_can_be_limited() -> None:
    for name, largest in (("curves", 50_000), ("hallways", 100_000), ("sensitivity", 40_000)):
        for unit in build_study(name, seeds=1, sizes_up_to=largest).units:
            assert max(unit.parameters["sizes"]) <= largest


# --- units -----------------------------------------------------------------------------------------------


def test_spectral_unit_gives_four_methods_and_the_same_rows_whatever_the_sizes() -> None:
    rows = rows_of("curves", "spectral.tiger.001", sizes=[2000, 5000])
    assert [(row["method"], row["steps"]) for row in rows[:4]] == [
        ("psr", 2000),
        ("spectral", 2000),
        ("spectral-plain", 2000),
        ("spectral-model", 2000),
    ]
    assert {row["outcome"] for row in rows} == {"ok"}
    assert {row["states"] for row in rows} == {2}
    last = {row["method"]: row for row in rows[4:]}
    assert last["spectral"]["singular_ratio"] == pytest.approx(0.427, abs=0.02)
    assert 0 < last["spectral"]["observation_l1"] <= last["spectral"]["observation_l1_found"] < 0.5
    assert 0 < last["spectral-model"]["transition_l1"] < 0.5
    assert all("total_reward" in last[name] for name in ("psr", "spectral", "spectral-model"))
    assert rows_of("curves", "spectral.tiger.001", sizes=[5000]) == rows[4:]
    assert rows_of("curves", "spectral.tiger.000", sizes=[5000]) != rows[4:]


def test_learner_that_fails_is_an_outcome() -> None:
    rows = rows_of("curves", "spectral.sense-float-reset-4.000", sizes=[6, 3000])
    assert {row["outcome"] for row in rows[:4]} == {"NotLearnableError"}
    outcomes = {row["method"]: row["outcome"] for row in rows[4:]}
    assert outcomes["psr"] == "ok"
    assert outcomes["spectral"] == outcomes["spectral-model"] == "NotLearnableError"
    assert rows[5]["states"] == 20


def test_em_unit_searches_then_follows() -> None:
    rows = rows_of("curves", "em-12.tiger.000", sizes=[1000, 3000], em={**QUICK_EM, "starts": 2})
    assert [row["method"] for row in rows] == ["em-12", "em-12"]
    assert all(math.isfinite(row["log_likelihood_gap"]) for row in rows)
    assert all(row["observation_l1"] >= 0 and "total_reward" in row for row in rows)


def test_hallway_units_score_both_goals() -> None:
    rows = rows_of("hallways", "spectral.directional-hallway.000", sizes=[30_000])
    scores = {row["method"]: row for row in rows}
    assert 0 <= scores["spectral"]["state_reward"] <= 4
    assert 0 <= scores["spectral"]["observation_reward_meant"] <= 4
    assert "state_reward" not in scores["psr"]  # a PSR has no states
    noisy = rows_of("hallways", "truth.noisy-hallway.000")[0]
    assert noisy["observation_reward"] == 4  # every step left or right pays


@pytest.mark.parametrize(
    ("study", "domain", "column", "value"),
    [
        ("curves", "tiger", "total_reward", 9.438),
        ("curves", "tmaze", "total_reward", 2.335),
        ("curves", "sense-float-reset-3", "total_reward", 7.094),
        ("curves", "sense-float-reset-4", "total_reward", 7.094),
        ("hallways", "directional-hallway", "state_reward", 6.160),
        ("hallways", "noisy-hallway", "state_reward", 5.951),
    ],
)
def test_exact_optimum_of_ten_steps(study: str, domain: str, column: str, value: float) -> None:
    (row,) = rows_of(study, f"optimum.{domain}", planning=studies.PLANNING)
    assert row[column] == pytest.approx(value, abs=5e-4)


def test_ranks_in_the_limit_are_those_of_the_paper() -> None:
    for rooms in studies.ROOMS:
        for row in rows_of("sensitivity", f"limit.tmaze-{2 * (rooms + 1)}"):
            assert (
                row["rank"] == paper.table_value("table2", str(row["states"]), row["lengths"], "limit").mean
            )


def test_sensitivity_unit_covers_sizes_and_tolerances() -> None:
    rows = rows_of("sensitivity", "sensitivity.tmaze-4.000", sizes=[40_000])
    assert len(rows) == 18
    assert rows[0]["lengths"] == "2-1"
    assert rows[0]["tolerance"] == "1e-1"
    assert rows[0]["rank"] == 4
    assert rows[0]["observation_l1"] > 0
    assert "model_observation_l1" in rows[0]
    assert rows[-1]["rank"] == 20
    assert "observation_l1" not in rows[-1]


def test_described_state_that_does_not_exist_is_replaced_by_the_nearest() -> None:
    from unlatch import domains
    from unlatch.study.scores import on_described_state

    truth = domains.directional_hallway()
    rule = {"rule": "shows", "shows": {"left": "end-right", "right": "end-left"}}
    reward = on_described_state(truth, rule)
    assert len(reward.entries) == 1


# --- summaries, tables, figures --------------------------------------------------------------------------


def made_up(domains: Any, sizes: tuple[int, ...], columns: tuple[str, ...]) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    methods = ("psr", "spectral", "spectral-plain", "spectral-model", "em", "em-12")
    rows: list[dict[str, Any]] = []
    for domain in domains:
        for seed in range(3):
            for method in methods:
                for steps in sizes:
                    row = {"domain": domain, "method": method, "steps": steps, "seed": seed, "outcome": "ok"}
                    row.update({column: float(rng.random()) for column in columns})
                    rows.append({**row, "states": 3})
            rows.append(
                {"domain": domain, "method": "truth", "steps": 0, "outcome": "ok", "total_reward": 1.0}
            )
    rows.append({"domain": "tiger", "method": "em", "steps": 0, "outcome": "NumericalError"})
    return rows


def test_statistics_count_what_is_missing() -> None:
    rows = [{"d": "a", "x": 1.0}, {"d": "a", "x": 3.0}, {"d": "a", "x": None}, {"d": "b"}]
    found = group(rows, ("d",), "x")
    assert (found["a",].mean, found["a",].count, found["a",].tried) == (2.0, 2, 3)
    assert found["a",].sd == pytest.approx(math.sqrt(2))
    assert found["b",].count == 0
    assert math.isnan(found["b",].standard_error)


def test_comparison_judges_every_measure_its_own_way() -> None:
    sizes = (1000, 2000)
    theirs = {n: paper.curve("fig5", "tmaze", "observation_l1", "spectral")[n].mean for n in sizes}
    rows = [
        {"domain": "tmaze", "method": "spectral", "steps": 1000, "observation_l1": theirs[1000], "states": 4}
        | {"total_reward": -50.0},
        {
            "domain": "tmaze",
            "method": "spectral",
            "steps": 2000,
            "observation_l1": 2 * theirs[2000],
            "states": 9,
        }
        | {"total_reward": 50.0},
    ]
    found = {one.measure: one for one in compare("fig5", rows, "spectral", {"tmaze": 4})}
    assert found["observation_l1"].at_least_as_good == 1
    assert found["observation_l1"].median_ratio == pytest.approx(1.5)
    assert found["estimated_states"].at_least_as_good == 1
    assert found["total_reward"].at_least_as_good == 1


def test_numbers_are_written_as_in_tables() -> None:
    shown = [number(value) for value in (0, 0.00267, 0.4272, 20, 1234.5, 9999, 2.2e-9, 5e7, math.nan)]
    assert shown == ["0", "0.00267", "0.427", "20", "1234", "9999", "2.2e-09", "5.0e+07", "nan"]
    assert plus_minus(1.0, math.nan) == "1"
    assert plus_minus(1.0, 0.5) == "1 ± 0.5"


@pytest.mark.slow
def test_figures_are_drawn(tmp_path: Path) -> None:
    columns = ("observation_l1", "three_step_transition_l1", "total_reward", "singular_ratio")
    rows = made_up(DOMAINS, (1000, 10_000), columns)
    assert figures.draw_figure5(rows, tmp_path / "fig5.png").stat().st_size > 10_000
    assert figures.draw_figure7(rows, tmp_path / "fig7.png").stat().st_size > 5_000
    rows = made_up(HALLWAYS, (30_000,), (*columns[:2], "state_reward", "observation_reward"))
    assert figures.draw_figure6(rows, tmp_path / "fig6.png").stat().st_size > 10_000


def test_tables_hold_ours_theirs_and_the_ratio() -> None:
    rows = made_up(DOMAINS, (1000,), ("observation_l1", "singular_ratio"))
    text = tables.comparison_table("fig5", rows)
    assert "| observation_l1 | tiger | spectral |" in text
    assert "| em | tiger | NumericalError | 1 |" in text
    assert "| tiger | 1000 |" in tables.singular_table(rows)
    cells = [
        {"states": 4, "lengths": "2-1", "tolerance": "1e-1", "rank": rank, "observation_l1": error}
        for rank, error in ((4, 0.01), (4, 0.02))
    ]
    assert "| 4 | 2-1 | 1e-1 | 4 ± 0 | 4 ± 0 | 1 |" in tables.rank_table(cells)
    errors = tables.error_table(cells, "table3", "observation_l1", "Table 3")
    assert "| 4 | 2-1 | 1e-1 | 0.015 ± 0.00707 | 0.09 ± 0.2 | 0.167 | 2 of 2 | nan |" in errors
    assert "At or below the paper's in 1 of the 14 cells" in errors
    seconds = {"sensitivity.tmaze-4.000": {"hankel": 9.1, "psr 2-1": 0.1, "similarity 2-1 1e-1": 0.1}}
    text = tables.learning_time_table(seconds)
    assert "| Hankel | all | 4 | 9.1 | 910 ± 210 | 100 |" in text
    assert "| POMDP | 2-1 | 4 | 0.2 | 0.2 ± 0.099 | 1 |" in text
    text = tables.run_time_table({"spectral.tiger.000": {"hankel": 0.16, "planning": 3.4}}, 1_000_000, 10)
    assert "| tiger | hankel | 0.16 | 16 ± 8.6 | 100 |" in text
    assert "| tiger | planning | 0.34 | 3.4 ± 1.2 | 10 |" in text


# --- the command -----------------------------------------------------------------------------------------


@pytest.mark.compiled
def test_command_makes_a_figure_and_runs_nothing_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["reproduce", "fig9", "--seeds", "1", "--sizes-up-to", "30000", "--out", str(tmp_path)]
    for run_now in (1, 0):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == 0
        assert f"curves: 1 units; {run_now} of them run now" in capsys.readouterr().out
    assert (tmp_path / "fig9.png").stat().st_size > 5_000
    with pytest.raises(SystemExit) as stopped:
        main([*arguments, "--seeds", "2"])
    assert stopped.value.code == 7
    assert "seeds is 1 there and 2 here" in capsys.readouterr().err


def test_interrupted_command_tells_how_to_go_on(tmp_path: Path) -> None:
    arguments = ["reproduce", "table2", "--seeds", "1", "--sizes-up-to", "10000000", "--out", str(tmp_path)]
    command = [sys.executable, "-m", "unlatch", *arguments]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    while not list(tmp_path.glob("sensitivity/units/*/*.json")):
        time.sleep(0.02)
        assert process.poll() is None
    begun = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert time.monotonic() - begun < 2
    assert process.returncode == 130
    resume = f"go on with: unlatch {' '.join(arguments)}"
    assert errors.decode().split("\n") == [f"interrupted: finished units are kept; {resume}", ""]


def test_units_can_be_found_by_their_names() -> None:
    for function in (experiments.spectral, experiments.em, sensitivity.sensitivity, sensitivity.limit):
        module = sys.modules[function.__module__]
        assert getattr(module, function.__qualname__) is function
