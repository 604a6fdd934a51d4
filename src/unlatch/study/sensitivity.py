"""The units behind Tables 2 to 5: T-Mazes of growing length, Hankel sizes and rank tolerances."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unlatch import linalg
from unlatch.arrays import Floats
from unlatch.core.partition_model import PartitionModel
from unlatch.core.pomdp import POMDP
from unlatch.core.psr import PSR
from unlatch.domains import by_name
from unlatch.learn.spectral.counting import SequenceCounts, count_sequences
from unlatch.learn.spectral.factorize import RankFactorization, factorize
from unlatch.learn.spectral.fit_psr import fit_psr
from unlatch.learn.spectral.hankel import HankelMatrix, estimate_hankel
from unlatch.learn.spectral.recover import recover_pomdp
from unlatch.learn.spectral.similarity import SimilarityTransform
from unlatch.study.experiments import measure_model, measure_spectral, similarity_of
from unlatch.study.jobs.units import Finding
from unlatch.study.task import MAX_RANK, Parameters, Row, Task, Watch, outcome, rounded

__all__ = ["limit", "sensitivity", "tolerance_name"]

_NEGLIGIBLE = 1e-9
"""Size below which a cosine between exact subspaces is rounding."""


def sensitivity(parameters: Parameters, seed: np.random.SeedSequence) -> Finding:
    """One log at every Hankel size and rank tolerance. The largest counts contain the smaller ones."""
    task = Task(parameters, seed)
    (steps,) = parameters["sizes"]
    log = task.log(steps)
    longest = tuple(parameters["lengths"][-1])
    _tables(task, _counted(task, 20_000, longest), Watch())  # compiles the kernels before the clock starts
    watch = Watch()
    with watch("hankel"):
        counts = count_sequences(log, history_length=longest[0], test_length=longest[1])
    return Finding([rounded(row) for row in _tables(task, counts, watch)], watch.seconds)


def _counted(task: Task, steps: int, lengths: tuple[int, ...]) -> SequenceCounts:
    return count_sequences(task.log(steps), history_length=lengths[0], test_length=lengths[1])


def _tables(task: Task, counts: SequenceCounts, watch: Watch) -> list[Row]:
    rows: list[Row] = []
    for history_length, test_length in task.parameters["lengths"]:
        rows.extend(_rows(task, counts, (history_length, test_length), watch))
    return rows


def _rows(task: Task, counts: SequenceCounts, lengths: tuple[int, int], watch: Watch) -> list[Row]:
    """A row per rank tolerance; errors where the rank equals the number of states."""
    name = f"{lengths[0]}-{lengths[1]}"
    tolerances = task.parameters["tolerances"]
    with watch("hankel"):
        hankel = estimate_hankel(_sized(counts, lengths))
    with watch(f"psr {name}"):
        factors = factorize(
            hankel, rank_tolerance=min(tolerances), max_rank=MAX_RANK, rng=task.rng("svd", name)
        )
        fit_psr(hankel, factors)
    return [_row(task, hankel, factors, tolerance, name, watch) for tolerance in tolerances]


def _row(
    task: Task, hankel: HankelMatrix, factors: RankFactorization, tolerance: float, name: str, watch: Watch
) -> Row:
    values = factors.singular_values
    rank = int(np.clip((values > values[0] * tolerance).sum(), 1, MAX_RANK))
    row: Row = {
        "states": task.truth.n_states,
        "lengths": name,
        "tolerance": tolerance_name(tolerance),
        "seed": task.parameters["seed"],
        "outcome": "ok",
        "rank": rank,
    }
    if rank == task.truth.n_states:
        with outcome(row):
            psr = fit_psr(hankel, _truncated(factors, rank))
            with watch(f"similarity {name} {tolerance_name(tolerance)}"):
                similarity = similarity_of(psr, task, (name, rank))
            model = PartitionModel(psr.transformed(similarity.matrix), similarity.partition)
            measure_spectral(row, model, similarity, task.truth)
            _measure_read_off(row, psr, similarity, task.truth)
    return row


def _measure_read_off(row: Row, psr: PSR, similarity: SimilarityTransform, truth: POMDP) -> None:
    """Errors of the explicit model in columns of their own, where one can be read off."""
    model_row: Row = {"outcome": "ok"}
    with outcome(model_row):
        measure_model(model_row, recover_pomdp(psr, similarity), truth)
    row["read_off"] = model_row.pop("outcome")
    row.update({f"model_{column}": value for column, value in model_row.items()})


def tolerance_name(tolerance: float) -> str:
    """As the paper writes it: 1e-2."""
    return f"{tolerance:.0e}".replace("e-0", "e-")


def _sized(counts: SequenceCounts, lengths: tuple[int, int]) -> SequenceCounts:
    """The counts of a smaller Hankel matrix, which those of a larger one contain."""
    history_length, test_length = lengths
    tables = counts.tables[: history_length + test_length]
    return replace(counts, history_length=history_length, test_length=test_length, tables=tables)


def _truncated(factors: RankFactorization, rank: int) -> RankFactorization:
    return replace(factors, left=factors.left[:, :rank], right=factors.right[:, :rank], rank=rank)


# --- infinite data ---------------------------------------------------------------------------------------


def limit(parameters: Parameters, seed: np.random.SeedSequence) -> Finding:
    """Rank of the Hankel matrix of a log without end, at every size."""
    model = by_name(parameters["system"])
    return Finding(
        [
            {
                "states": model.n_states,
                "lengths": f"{history_length}-{test_length}",
                "tolerance": "limit",
                "outcome": "ok",
                "rank": _limit_rank(model, history_length - 1, test_length),
            }
            for history_length, test_length in parameters["lengths"]
        ]
    )


def _limit_rank(model: POMDP, longest_history: int, longest_test: int) -> int:
    """From orthonormal bases of what histories and tests span: their matrix has the Hankel matrix's rank."""
    updates = model.updates.reshape(-1, model.n_states, model.n_states)
    histories = _spanned(model.stationary()[None], longest_history, updates)
    tests = _spanned(np.ones((1, model.n_states)), longest_test, updates.transpose(0, 2, 1))
    return int((linalg.singular_values(histories @ tests.T) > _NEGLIGIBLE).sum())


def _spanned(start: Floats, longest: int, updates: Floats) -> Floats:
    """Basis of the span of all sequences of length 1 to ``longest``."""
    level, found = start, np.empty((0, start.shape[1]))
    for _ in range(longest):
        level = _basis(np.concatenate([level @ update for update in updates]))
        found = _basis(np.concatenate([found, level]))
    return found


def _basis(vectors: Floats) -> Floats:
    _, values, right = linalg.svd(vectors)
    result: Floats = right[:, values > _NEGLIGIBLE * values[0]].T
    return result
