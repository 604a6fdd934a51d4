"""How near ``learn_pomdp(log)``, with nothing but the log, comes to what the log allows: units of that study.

Every unit simulates a log, learns from it with default settings, and compares the result with the truth and with the
maximum of the likelihood that is reached from the truth.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from unlatch.core.pomdp import POMDP
from unlatch.core.trajectory import Trajectory
from unlatch.errors import UsageError
from unlatch.learn.likelihood.climb import evaluated
from unlatch.learn.likelihood.marginal import Candidate, judged
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import parameters_of
from unlatch.learn.likelihood.refine import RefineResult, refine
from unlatch.learn.pipeline import LearnResult, learn_pomdp
from unlatch.simulation import simulate
from unlatch.study.experiments import measure_model
from unlatch.study.jobs.units import Finding, Study, Unit
from unlatch.study.paper import curves, table_value
from unlatch.study.random_models import system
from unlatch.study.studies import DOMAINS as FIGURE_5
from unlatch.study.studies import FAIL, HALLWAYS, LENGTHS, TABLE_STEPS, code_digest
from unlatch.study.task import Parameters, Row, Watch, outcome, rounded

__all__ = [
    "GROUPS",
    "Case",
    "OracleGaps",
    "build_efficiency_study",
    "cases",
    "learned",
    "maze",
    "oracle_gaps",
    "paper_values",
    "units_of",
]

TIGER = "tiger"
TMAZE = "tmaze:rooms=1"
SENSE_3 = "sense-float-reset:states=3"
SENSE_4 = "sense-float-reset:states=4"
DIRECTIONAL = "directional-hallway"
NOISY = "noisy-hallway"


_LONG = 1_000_000
_ROUNDS = 5


def maze(states: int) -> str:
    """The T-Maze of the paper's tables, where up and down fail now and then."""
    return f"tmaze:rooms={states // 2 - 1},fail={FAIL}"


@dataclass(frozen=True)
class Case:
    """Logs of one kind: how many, and the share of them whose number of states must come out right."""

    system: str
    steps: int
    seeds: int
    share: float | None = None


GROUPS: dict[str, tuple[Case, ...]] = {
    "counts": (
        Case(TIGER, 2_000, 40, 0.95),
        Case(TMAZE, 5_000, 40, 0.95),
        Case(SENSE_3, 2_000, 40, 0.95),
        Case(SENSE_4, 15_000, 40, 0.95),
        Case(SENSE_4, 30_000, 40, 0.95),
        Case(DIRECTIONAL, 5_000, 40, 0.95),
        Case(DIRECTIONAL, 30_000, 40, 0.95),
        Case(NOISY, 100_000, 40, 0.95),
        Case(NOISY, 300_000, 10, 0.95),
        *(Case(maze(states), 100_000, 10, 0.9) for states in (6, 8, 10, 12, 14)),
        Case(maze(20), 200_000, 10, 0.7),
    ),
    "errors": (
        *(Case(system, 100_000, 40) for system in (TIGER, TMAZE, SENSE_3, SENSE_4, DIRECTIONAL)),
        Case(NOISY, 100_000, 10),
        *(Case(system, 1_000_000, 10) for system in (TIGER, TMAZE, SENSE_3, SENSE_4, DIRECTIONAL, NOISY)),
    ),
    "random": tuple(Case(f"random:{number}", 100_000, 1) for number in range(100)),
    "paper": tuple(
        Case(system, steps, 3 if steps <= 1_000_000 else 1)
        for figure, systems in (
            ("fig5", FIGURE_5),
            ("fig6", {name: name for name in HALLWAYS}),
        )
        for domain, system in systems.items()
        for steps in sorted(
            {
                size
                for (f, d, measure, method), curve in curves().items()
                if (f, d, measure) == (figure, domain, "observation_l1") and method.startswith("spectral")
                for size in curve
            }
        )
    )
    + tuple(Case(maze(states), TABLE_STEPS, 1) for states in (4, 6, 8, 10, 12, 14)),
    "largest": (
        Case(maze(30), 400_000, 3),
        Case(maze(30), 1_000_000, 2),
        Case(maze(50), 1_000_000, 3),
    ),
}
"""What is measured. ``paper``: at every number of steps at which the paper has an error."""


def cases(groups: Iterable[str]) -> list[Case]:
    """Of all groups, each kind of log once, with the most seeds that any group wants."""
    found: dict[tuple[str, int], Case] = {}
    for group in groups:
        if group not in GROUPS:
            raise UsageError(f"unknown group {group!r}; known: {', '.join(GROUPS)}")
        for case in GROUPS[group]:
            known = found.get((case.system, case.steps))
            if known is None or known.seeds < case.seeds:
                found[case.system, case.steps] = case
    return list(found.values())


def build_efficiency_study() -> Study:
    """One unit per log, of all groups."""
    units = [unit for case in cases(GROUPS) for unit in units_of(case)]
    return Study(
        "efficiency", tuple(units), settings={"code": code_digest("efficiency.py", "random_models.py")}
    )


def units_of(case: Case, *, at_most: int | None = None) -> list[Unit]:
    """The units of a case, or the first few."""
    return [
        Unit(
            f"{case.system.replace(':', '.').replace(',', '.')}.{case.steps}.{seed:03d}",
            learned,
            {"system": case.system, "steps": case.steps, "seed": seed},
            cost=_expected_seconds(case),
        )
        for seed in range(case.seeds if at_most is None else min(at_most, case.seeds))
    ]


def _expected_seconds(case: Case) -> float:
    states = 6 if case.system.startswith("random") else system(case.system).n_states
    return 1.0 + 2e-6 * case.steps * states


# --- one log ---------------------------------------------------------------------------------------------


def learned(parameters: Parameters, seed: np.random.SeedSequence) -> Finding:
    """Learn with nothing but the log, and measure.

    ``log_likelihood_gap``: nats above the maximum that a climb from the truth reaches. ``oracle_gap``: the same of
    the evidence; where it is positive with a wrong number of states, the log itself prefers that. Both are
    compared from the likeliest start: where one episode began says nothing about the system, and a learned model does
    not keep it.
    """
    rng = np.random.default_rng(seed)
    truth = system(parameters["system"])
    watch = Watch()
    row: Row = {**parameters, "outcome": "ok", "true_states": truth.n_states}
    with outcome(row):
        log = simulate(truth, parameters["steps"], rng=rng)
        with watch("learn"), watch("learn_cpu", time.process_time):
            result = learn_pomdp(log, rng=rng)
        best = refine(truth, log, zeros=len(log) <= _LONG)  # on a long log the zeros of the truth do
        _compare(row, result, best, truth, log)
    return Finding([rounded(row)], watch.seconds)


def _compare(row: Row, result: LearnResult, best: RefineResult, truth: POMDP, log: Trajectory) -> None:
    spectral = None if result.spectral is None else result.spectral.pomdp
    row["states"], row["emission"] = result.states, result.pomdp.emission
    row["spectral_states"] = None if spectral is None else spectral.n_states
    row["evidence_gap"] = None if result.evidence is None else result.evidence.gap
    row["log_likelihood_gap"], row["oracle_gap"] = oracle_gaps(result.pomdp, best.pomdp, log)
    measure_model(row, result.pomdp, truth)
    reference: Row = {}
    measure_model(reference, best.pomdp, truth)
    row.update({f"best_{name}": reference[name] for name in ("observation_l1_all", "transition_l1")})


class OracleGaps(NamedTuple):
    """Nats by which a model is above another on the same log: of the likelihood, and of what the learner maximizes."""

    log_likelihood: float
    evidence: float


def oracle_gaps(model: POMDP, best: POMDP, log: Trajectory) -> OracleGaps:
    """How far a learned model is above the one that was refined from the truth, each from its likeliest start."""
    ours, reached = (_from_likeliest_start(each, log) for each in (model, best))
    return OracleGaps(
        ours.log_likelihood - reached.log_likelihood,
        ours.score - reached.score,
    )


def _from_likeliest_start(model: POMDP, log: Trajectory) -> Candidate:
    """The model with the start that its log has made likely, by a few rounds of EM for that alone."""
    likelihood = Likelihood.of(log, model.emission, model)
    shared = bool((model.observations == model.observations[0]).all())
    ascent = evaluated(replace(parameters_of(model), shared=shared), likelihood)
    for _ in range(_ROUNDS):
        start = ascent.counts.initial / ascent.counts.initial.sum()
        ascent = evaluated(replace(ascent.parameters, initial=start), likelihood)
    return judged(ascent, likelihood)


# --- the paper's numbers ---------------------------------------------------------------------------------


def paper_values() -> list[dict[str, Any]]:
    """Every error of the paper's spectral method in Figs. 5 and 6 and Tables 3 and 4.

    Of the tables, the best that any of its thresholds and lengths gave.
    """
    systems = {**FIGURE_5, **{name: name for name in HALLWAYS}}
    found: list[dict[str, Any]] = []
    for (figure, domain, measure, method), curve in curves().items():
        if measure in ("observation_l1", "three_step_transition_l1") and method.startswith("spectral"):
            found += [
                {
                    "place": figure,
                    "system": systems[domain],
                    "steps": steps,
                    "measure": measure,
                    "paper": v.mean,
                }
                for steps, v in curve.items()
                if np.isfinite(v.mean)
            ]
    for table, measure in (("table3", "observation_l1"), ("table4", "three_step_transition_l1")):
        for states in (4, 6, 8, 10, 12, 14):
            values = _table_values(table, states)
            if values:
                found.append(
                    {
                        "place": table,
                        "system": maze(states),
                        "steps": TABLE_STEPS,
                        "measure": measure,
                        "paper": min(values),
                    }
                )
    return found


def _table_values(table: str, states: int) -> list[float]:
    means = [
        table_value(table, f"{states}", f"{first}-{second}", f"1e-{power}").mean
        for first, second in LENGTHS
        for power in range(1, 7)
    ]
    return [mean for mean in means if np.isfinite(mean)]
