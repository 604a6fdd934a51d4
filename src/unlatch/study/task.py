"""What all units of the paper's studies share: a system, one log of it, streams of chance, rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unlatch.core.trajectory import Trajectory
from unlatch.domains import by_name
from unlatch.errors import UnlatchError
from unlatch.learn.spectral.counting import count_sequences
from unlatch.learn.spectral.factorize import RankFactorization, factorize
from unlatch.learn.spectral.hankel import HankelMatrix, estimate_hankel
from unlatch.simulation import simulate
from unlatch.study.jobs.units import named_seed

__all__ = ["MAX_RANK", "Parameters", "Row", "Task", "Watch", "outcome", "rounded"]

Parameters = Mapping[str, Any]
Row = dict[str, Any]

MAX_RANK = 20
"""The paper's "No. SVD"."""


class Task:
    """A unit's parameters brought to life."""

    def __init__(self, parameters: Parameters, seed: np.random.SeedSequence) -> None:
        self.parameters = parameters
        self.truth = by_name(parameters["system"])
        self._root = int(seed.entropy)  # type: ignore[arg-type]
        self._longest: Trajectory | None = None

    def rng(self, purpose: str, *details: object) -> np.random.Generator:
        """A stream of its own for every purpose.

        It depends on the domain, the unit's number and the purpose, not on the order of calls or on the
        method: all methods learn from the same log.
        """
        place = (self.parameters["domain"], self.parameters["seed"], purpose, *details)
        return np.random.default_rng(named_seed(self._root, "/".join(map(str, place))))

    def log(self, steps: int) -> Trajectory:
        """The first ``steps`` steps of the one log of this domain and number."""
        if self._longest is None:
            longest = max(self.parameters["sizes"])
            self._longest = simulate(self.truth, longest, rng=self.rng("log"))
        return self._longest.head(steps)

    def row(self, method: str, steps: int) -> Row:
        """The beginning of a row."""
        return {
            "domain": self.parameters["domain"],
            "method": method,
            "steps": steps,
            "seed": self.parameters["seed"],
            "outcome": "ok",
        }

    def hankel(self, log: Trajectory) -> HankelMatrix:
        """Estimated at the domain's size."""
        history_length, test_length = self.parameters["lengths"]
        counts = count_sequences(log, history_length=history_length, test_length=test_length)
        return estimate_hankel(counts)

    def factorized(self, hankel: HankelMatrix, steps: int, *, plain: bool = False) -> RankFactorization:
        """With the domain's threshold, or its number of states where that is given.

        ``plain``: as the paper did, unscaled and rotated at random.
        """
        return factorize(
            hankel,
            rank=self.parameters["rank"],
            rank_tolerance=self.parameters["rank_tolerance"],
            max_rank=MAX_RANK,
            scaling="none" if plain else "noise",
            rotate=plain,
            rng=self.rng("svd", steps, plain),
        )


@dataclass
class Watch:
    """Adds up the time spent on every stage: ``with watch("hankel"): ...``.

    Of another clock with that clock: ``watch("cpu", time.process_time)`` is the processor's time, of all threads.
    """

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, stage: str, clock: Callable[[], float] = time.perf_counter) -> Iterator[None]:
        begun = clock()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + clock() - begun


@contextmanager
def outcome(*rows: Row) -> Iterator[None]:
    """What the library declares impossible becomes the outcome of the rows; a bug passes through."""
    try:
        yield
    except UnlatchError as error:
        for row in rows:
            row["outcome"] = type(error).__name__


def rounded(row: Row) -> Row:
    """Six digits are enough for a table; what is not finite is missing."""
    return {key: _short(value) for key, value in row.items()}


def _short(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return float(f"{value:.6g}") if np.isfinite(value) else None
    return value
