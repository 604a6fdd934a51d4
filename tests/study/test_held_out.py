"""Units that judge learned models on logs that they have not seen, each run once on a small log."""

from __future__ import annotations

import numpy as np
import pytest

from unlatch import POMDP, Trajectory, domains, simulate
from unlatch.study.held_out import (
    RULES,
    build_study,
    ceiling,
    ceiling_units,
    chances_of_what_was_seen,
    chosen_by,
    dense,
    dense_units,
    one_state_chances,
    rules,
    rules_units,
    short,
    short_units,
)
from unlatch.study.jobs.units import named_seed
from unlatch.study.random_models import dense_model, dense_systems, random_kind, random_model, system

SMALL = "dense:3"  # three states


def test_chances_multiply_to_the_likelihood_and_are_zero_where_a_model_forbids():
    tiger = domains.tiger()
    log = simulate(tiger, 500, rng=0)
    assert np.log(chances_of_what_was_seen(tiger, log)).sum() == pytest.approx(tiger.log_likelihood(log))
    sure = POMDP(transitions=np.ones((1, 1, 1)), observations=[[[1.0, 0.0]]], initial=np.ones(1))
    seen = Trajectory([0, 0, 0], [1, 0, 1], sure.action_names, sure.observation_names[::-1])
    assert chances_of_what_was_seen(sure, seen).tolist() == [1.0, 0.0, 1.0]


def test_one_state_counts_what_every_action_showed():
    training = Trajectory([0, 0, 0, 1], [0, 0, 1, 1])
    log = Trajectory([0, 1, 1], [0, 0, 1])
    assert one_state_chances(training, log) == pytest.approx([2 / 3, 0, 1])
    assert one_state_chances(training, log, unseen=0.5) == pytest.approx([2.5 / 4, 0.25, 0.75])


def test_kinds_of_random_models_and_further_dense_ones():
    kinds = [random_kind(number) for number in range(100)]
    assert [kinds.count(kind) for kind in ("dense", "peaked", "zeros")] == [31, 35, 34]
    for number in range(20):
        assert (kinds[number] == "zeros") == bool((random_model(number).transitions == 0).any())
    names = dense_systems()
    assert len(names) == len(set(names)) == 61
    assert all(kinds[int(name.removeprefix("random:"))] == "dense" for name in names[:31])
    assert dense_model(3) == system("dense:3") != system("random:3")
    assert system("noise").n_states == 1
    assert system("tiger") == domains.tiger()


def test_the_studies_have_every_log_once():
    assert len(build_study("short", short_units()).units) == 4 * 5 * 40
    assert len(short_units(at_most=2)) == 4 * 5 * 2
    assert len(build_study("dense", dense_units()).units) == 61
    units = build_study("rules", rules_units(at_most=2)).units
    counts = [system(name).n_states + 2 for name in dense_systems()[:2]]
    assert [unit.parameters["states"] for unit in units] == [
        *range(1, counts[0] + 1),
        *range(1, counts[1] + 1),
    ]


@pytest.mark.compiled
def test_a_short_log_is_learned_and_judged_or_refused():
    (row,) = short({"system": "tiger", "steps": 800, "seed": 0}, named_seed(0, "x")).rows
    assert (row["outcome"], row["true_states"]) == ("ok", 2)
    assert row["states"] <= 3
    assert row["impossible"] == 0
    assert row["one_state_nats"] < row["nats"] < row["true_nats"] < 0
    (refused,) = short({"system": "noise", "steps": 10, "seed": 0}, named_seed(0, "x")).rows
    assert refused["outcome"] == "NotLearnableError"
    assert refused["true_nats"] == pytest.approx(-np.log(4), rel=1e-5)
    assert "states" not in refused


@pytest.mark.compiled
def test_a_dense_model_is_judged_on_the_same_logs_as_the_rules():
    parameters = {"system": SMALL, "steps": 3_000}
    finding = dense(parameters, named_seed(0, "x"))
    (row,) = finding.rows
    assert (row["outcome"], row["true_states"]) == ("ok", 3)
    assert row["loss"] > 0
    assert finding.seconds["learn_cpu"] > 0
    (one,), (three,) = (rules({**parameters, "states": states}, named_seed(0, "x")).rows for states in (1, 3))
    assert three["log_likelihood"] > one["log_likelihood"]
    assert three["free_parameters"] > one["free_parameters"]
    if row["states"] == 1:  # then both are frequencies of the same log
        assert row["loss"] == pytest.approx(one["loss"], rel=0.05)


@pytest.mark.compiled
def test_what_the_evidence_prefers_is_climbed_to_from_the_truth():
    rows = ceiling({"system": SMALL, "steps": 3_000}, named_seed(0, "x")).rows
    assert [row["states"] for row in rows] == [1, 2, 3, 4, 5]
    heights = [row["log_likelihood"] for row in rows]
    assert heights[0] < heights[1] < heights[2]
    assert [row["free_parameters"] for row in rows] == sorted(row["free_parameters"] for row in rows)
    assert max(rows, key=lambda row: row["score"])["states"] < 5
    assert {row["true_states"] for row in rows} == {3}
    assert len(ceiling_units()) == 61


def test_every_rule_takes_what_it_prefers():
    def fit(states: int, log_likelihood: float, validation: float, loss: float) -> dict[str, float]:
        return {
            "states": states, "true_states": 3, "steps": 100_000, "free_parameters": 10 * states,
            "log_likelihood": log_likelihood, "validation": validation, "loss": loss,
        }  # fmt: skip

    fits = [fit(1, 0, 0, 50), fit(2, 60, 5, 20), fit(3, 90, 4, 30), fit(4, 102, 3, 40)]
    counts = {rule: chosen_by(rule, fits).states for rule in (*RULES, "true count", "hindsight", "one state")}
    assert list(counts.values()) == [2, 3, 4, 2, 3, 2, 1]
    assert chosen_by("hindsight", fits).loss == 20
