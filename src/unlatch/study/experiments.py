"""The units behind Figs. 5, 6, 7, 9 and Table 6: learn from one log at many sizes, measure, plan.

Every function takes a unit's parameters and seed and gives rows. A learner that fails is an outcome: the row names
the error and its measures are missing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unlatch import linalg
from unlatch.compare.errors import (
    observation_l1,
    observation_l1_all,
    three_step_transition_l1,
    transition_l1,
    true_partition,
)
from unlatch.compare.match_states import match_states
from unlatch.core.partition_model import PartitionModel
from unlatch.core.pomdp import POMDP
from unlatch.core.psr import PSR
from unlatch.core.trajectory import Trajectory
from unlatch.learn.baselines.baum_welch import learn_em
from unlatch.learn.pipeline import learn_pomdp
from unlatch.learn.spectral.factorize import RankFactorization
from unlatch.learn.spectral.fit_psr import fit_psr
from unlatch.learn.spectral.hankel import HankelMatrix
from unlatch.learn.spectral.recover import recover_pomdp
from unlatch.learn.spectral.similarity import SimilarityTransform, find_similarity
from unlatch.planning.exact import ExactPlanner
from unlatch.study.jobs.units import Finding
from unlatch.study.scores import play, true_goals
from unlatch.study.task import Parameters, Row, Task, Watch, outcome, rounded

__all__ = [
    "em",
    "measure_model",
    "measure_spectral",
    "optimum",
    "picture",
    "similarity_of",
    "spectral",
    "truth",
]


# --- the spectral learner and the PSR --------------------------------------------------------------------


def spectral(parameters: Parameters, seed: np.random.SeedSequence) -> Finding:
    """Four methods on one Hankel matrix.

    - ``psr``: the linear PSR.
    - ``spectral``: the partition-level model, measured and planned with as in the paper: the observation error is that
      of the diagonals.
    - ``spectral-plain``: the same without scaling, with the paper's single draw and dense rotation; errors only.
    - ``spectral-model``: the explicit POMDP read off ``spectral``, measured like any other POMDP.
    """
    task = Task(parameters, seed)
    rows: list[Row] = []
    for steps in parameters["sizes"]:
        watch = Watch()
        rows.extend(_spectral_rows(task, steps, watch))
    return Finding([rounded(row) for row in rows], watch.seconds)  # times are those of the largest size


def _spectral_rows(task: Task, steps: int, watch: Watch) -> list[Row]:
    names = ("psr", "spectral", "spectral-plain", "spectral-model")
    rows = {name: task.row(name, steps) for name in names}
    with outcome(*rows.values()):
        log = task.log(steps)
        with watch("hankel"):
            hankel = task.hankel(log)
        with watch("psr"):
            factors = task.factorized(hankel, steps)
            psr = fit_psr(hankel, factors)
        for row in rows.values():
            row["states"] = factors.rank
        rows["spectral"]["singular_ratio"] = _singular_ratio(factors, task.truth.n_states)
        with outcome(rows["psr"]):
            play(rows["psr"], psr, task, Watch())
        with outcome(rows["spectral"], rows["spectral-model"]):
            _learn_states(rows["spectral"], rows["spectral-model"], psr, task, watch)
        with outcome(rows["spectral-plain"]):
            _learn_plainly(rows["spectral-plain"], hankel, task)
    return list(rows.values())


def _singular_ratio(factors: RankFactorization, states: int) -> float | None:
    """The quantity of Fig. 7."""
    values = factors.singular_values
    return float(values[states - 1] / values[0]) if len(values) >= states else None


def _learn_states(row: Row, model_row: Row, psr: PSR, task: Task, watch: Watch) -> None:
    with watch("pomdp"):
        similarity = similarity_of(psr, task, row["steps"])
    model = PartitionModel(psr.transformed(similarity.matrix), similarity.partition)
    measure_spectral(row, model, similarity, task.truth)
    with outcome(row):
        play(row, model, task, watch)
    with outcome(model_row):
        with watch("pomdp"):
            pomdp = recover_pomdp(psr, similarity)
        measure_model(model_row, pomdp, task.truth)
        play(model_row, pomdp, task, Watch())


def _learn_plainly(row: Row, hankel: HankelMatrix, task: Task) -> None:
    """As the paper did: no scaling, rotate after the SVD, draw once, take the eigenvectors as they come."""
    psr = fit_psr(hankel, task.factorized(hankel, row["steps"], plain=True))
    similarity = similarity_of(psr, task, row["steps"], plain=True)
    model = PartitionModel(psr.transformed(similarity.matrix), similarity.partition)
    measure_spectral(row, model, similarity, task.truth)


def similarity_of(psr: PSR, task: Task, place: object, *, plain: bool = False) -> SimilarityTransform:
    """Our joint diagonalization with the domain's thresholds, or the paper's."""
    return find_similarity(
        psr,
        min_singular_value=task.parameters["min_singular_value"],
        observation_tolerance=task.parameters["observation_tolerance"],
        draws=1 if plain else 30,
        newton=not plain,
        cell_basis="none" if plain else "nonnegative",
        rank_one=False,  # the paper's tables have no entry where no action has full rank
        rng=task.rng("similarity", place, plain),
    )


def measure_spectral(row: Row, model: PartitionModel, similarity: SimilarityTransform, truth: POMDP) -> None:
    """The paper's two errors, defined where the number of states is right.

    They need no model read off, so that a log whose model is far from probabilities counts like any other.
    ``observation_l1`` is over the actions that truly have full rank: one that was not found enters with its row sums,
    one that was found by mistake does not enter. ``observation_l1_found`` is over those that were found.
    """
    if model.n_states != truth.n_states:
        return
    actions, partition = true_partition(truth)
    found = list(similarity.full_rank_actions)
    rows = linalg.project_to_simplex(model.psr.updates.sum(axis=3).transpose(0, 2, 1))
    rows[found] = linalg.project_to_simplex(similarity.diagonals)
    row["observation_l1"] = observation_l1(rows[actions], actions, truth)
    row["observation_l1_found"] = observation_l1(rows[found], found, truth)
    row["three_step_transition_l1"] = three_step_transition_l1(model.psr, partition, truth)
    row["full_rank_actions"] = len(similarity.full_rank_actions)


def measure_model(row: Row, model: POMDP, truth: POMDP) -> None:
    """The same errors of an explicit model, the observation error over the actions that truly have full rank;
    and the stricter ones over all actions."""
    if model.n_states != truth.n_states:
        return
    actions, partition = true_partition(truth)
    order = match_states(model, truth)
    row["observation_l1"] = observation_l1(model.observations[actions], actions, truth)
    row["three_step_transition_l1"] = three_step_transition_l1(model, partition, truth)
    row["observation_l1_all"] = observation_l1_all(model, truth, order=order)
    row["transition_l1"] = transition_l1(model, truth, order=order)


# --- expectation-maximization ----------------------------------------------------------------------------


def em(parameters: Parameters, seed: np.random.SeedSequence) -> Finding:
    """Baum-Welch with as many states as the PSR has components.

    Every start climbs on the first ``search_steps`` steps; the most likely one then follows the growing log,
    some iterations at every size. Where the number of states changes, the search begins anew. Whether
    the climb has arrived shows in ``log_likelihood_gap``, the nats above the truth: at the maximum it is
    positive, about half the number of parameters.

    The log begins once, so its first state says nothing about where others begin: for planning, the start
    is the stationary distribution, as for the other learners.
    """
    task = Task(parameters, seed)
    watch = Watch()
    rows: list[Row] = []
    model: POMDP | None = None
    for steps in parameters["sizes"]:
        row = task.row(parameters["method"], steps)
        rows.append(row)
        with outcome(row):
            log = task.log(steps)
            row["states"] = task.factorized(task.hankel(log), steps).rank
            with watch("em"):
                model = _climbed(task, log, row["states"], model)
            row["log_likelihood_gap"] = model.log_likelihood(log) - task.truth.log_likelihood(log)
            measure_model(row, model, task.truth)
            play(row, replace(model, initial=model.stationary()), task, watch)
    return Finding([rounded(row) for row in rows], watch.seconds)


def _climbed(task: Task, log: Trajectory, states: int, before: POMDP | None) -> POMDP:
    plan = task.parameters["em"]
    ease = min(1.0, plan["easy_states"] ** 2 / states**2)
    short = len(log) <= plan["search_steps"]
    if short or before is None or before.n_states != states:
        head = log.head(plan["search_steps"])
        before = learn_em(
            head,
            states,
            starts=plan["starts"],
            iterations=max(1, round(ease * plan["search_iterations"])),
            tolerance=plan["tolerance"],
            threads=1,
            rng=task.rng("em", plan["starts"], len(head), states),
        ).pomdp
    if short:
        return before
    fewest, most = plan["follow_iterations"]
    iterations = int(np.clip(ease * plan["follow_work"] / len(log), fewest, most))
    return learn_em(
        log, states, iterations=iterations, tolerance=plan["tolerance"], initial_model=before, threads=1
    ).pomdp


# --- the truth -------------------------------------------------------------------------------------------


def truth(parameters: Parameters, seed: np.random.SeedSequence) -> Finding:
    """The planner with the true model."""
    task = Task(parameters, seed)
    row = task.row("truth", 0)
    with outcome(row):
        play(row, task.truth, task, Watch())
    return Finding([rounded(row)])


def optimum(parameters: Parameters, seed: np.random.SeedSequence) -> Finding:
    """The best that any plan for the true system can expect."""
    task = Task(parameters, seed)
    row = task.row("optimum", 0)
    with outcome(row):
        for column, reward in true_goals(task).items():
            row[column] = ExactPlanner(task.truth, reward, parameters["planning"]["steps"]).value()
    return Finding([rounded(row)])


def picture(parameters: Parameters, seed: np.random.SeedSequence) -> Finding:
    """A learned model beside the true one, entry by entry, with no threshold set by hand."""
    task = Task(parameters, seed)
    (steps,) = parameters["sizes"]
    learned = learn_pomdp(task.log(steps), emission="departure", rng=task.rng("picture")).pomdp
    learned = learned.reordered(match_states(learned, task.truth))
    rows = [
        {
            "kind": kind,
            "action": a,
            "state": s,
            "entry": e,
            "learned": float(value),
            "true": float(true[a, s, e]),
        }
        for kind, estimate, true in (
            ("transition", learned.transitions, task.truth.transitions),
            ("observation", learned.observations, task.truth.observations),
        )
        for (a, s, e), value in np.ndenumerate(estimate)
    ]
    return Finding([rounded(row) for row in rows])
