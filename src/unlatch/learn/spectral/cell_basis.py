"""Inside a cell: of all bases that explain the log equally well, one that gives probabilities.

Theorem 1 leaves a matrix Q free for every cell (block-diagonal, rows summing to one). Most choices give
negative "probabilities". The one with the least negativity makes the printed model as close to a POMDP as
the log allows; where structural zeros pin the states down, it is the true one.
"""

from __future__ import annotations

import numpy as np

from unlatch import linalg
from unlatch.arrays import Floats
from unlatch.core.budget import checkpoint
from unlatch.core.partition import Partition
from unlatch.core.progress import report
from unlatch.core.psr import PSR
from unlatch.errors import NumericalError

__all__ = ["nonnegative_cells"]

_STARTS = 12
_PRECISION = {"ftol": 1e-15, "xtol": 1e-15, "gtol": 1e-15}
_MAX_STATES_IN_CELL = 12

_MANY = 30
"""Free entries beyond which a step is solved iteratively and fewer starts are tried: exactly, each step is a singular
value decomposition, and all of them take minutes for a basis that likelihood goes on from."""
_STARTS_OF_MANY = 3
_STEPS_OF_MANY = 50


def nonnegative_cells(psr: PSR, transform: Floats, partition: Partition, rng: np.random.Generator) -> Floats:
    """A transform with the same cells whose updates and initial vector are least negative."""
    from scipy.optimize import least_squares

    if max(len(cell) for cell in partition.cells) > _MAX_STATES_IN_CELL:
        return transform
    problem = Negativity(psr.transformed(transform), partition)
    best, best_cost = np.eye(partition.n_states), problem.cost(np.eye(partition.n_states))
    many = problem.size > _MANY
    starts = _STARTS_OF_MANY if many else _STARTS
    for attempt in range(starts):
        report("choosing a basis inside cells", attempt, starts)
        start = problem.random_start(rng) if attempt else np.zeros(problem.size)
        solution = least_squares(
            problem.residuals,
            start,
            jac=problem.jacobian,
            max_nfev=_STEPS_OF_MANY if many else 200,
            tr_solver="lsmr" if many else "exact",
            **_PRECISION,
        )
        mixing = problem.mixing(solution.x)
        cost = problem.cost(mixing)
        if cost < best_cost:
            best, best_cost = mixing, cost
        if best_cost < 1e-24:
            break
    result: Floats = transform @ best
    return result


class Negativity:
    """The negative parts of ``Q^-1 G Q`` and ``b Q`` as residuals of Q's free entries.

    Q has rows summing to one, so each row of a cell of m states has m - 1 free entries: all but the
    diagonal one.
    """

    def __init__(self, model: PSR, partition: Partition) -> None:
        self._updates = model.updates.reshape(-1, model.rank, model.rank)
        self._initial = model.initial
        n = model.rank
        self._free = [
            (i, j)
            for i in range(n)
            for j in range(n)
            if i != j and partition.labels[i] == partition.labels[j]
        ]
        self.size = len(self._free)

    def mixing(self, parameters: Floats) -> Floats:
        q = np.eye(len(self._initial))
        for value, (i, j) in zip(parameters, self._free, strict=True):
            q[i, j] = value
            q[i, i] -= value
        return q

    def random_start(self, rng: np.random.Generator) -> Floats:
        """Entries spread around those of a stochastic matrix; a nearly singular Q is drawn again."""
        for _ in range(20):
            start = rng.normal(0.3, 0.7, self.size)
            if linalg.condition(self.mixing(start)) < 100:
                return start
        return np.zeros(self.size)

    def _transformed(self, q: Floats) -> tuple[Floats, Floats] | None:
        try:
            inverse = linalg.inverse(q)
        except NumericalError:
            return None
        return inverse @ self._updates @ q, inverse

    def residuals(self, parameters: Floats) -> Floats:
        checkpoint()
        q = self.mixing(parameters)
        moved = self._transformed(q)
        if moved is None:
            return np.full(self._updates.size + len(self._initial), 1e3)
        return np.minimum(np.append(moved[0].ravel(), self._initial @ q), 0.0)

    def jacobian(self, parameters: Floats) -> Floats:
        q = self.mixing(parameters)
        moved = self._transformed(q)
        rows = self._updates.size + len(self._initial)
        if moved is None:
            return np.zeros((rows, self.size))
        updates, inverse = moved
        active = np.append(updates.ravel() < 0, self._initial @ q < 0)
        columns = np.empty((rows, self.size))
        left = updates @ inverse
        for p, (i, j) in enumerate(self._free):
            # The change of Q has one row, so that both products with it are outer ones.
            moving = inverse[:, i, None] * (updates[:, None, i] - updates[:, None, j])
            moving[:, :, j] += left[:, :, i]
            moving[:, :, i] -= left[:, :, i]
            columns[: -len(q), p] = moving.ravel()
            columns[-len(q) :, p] = 0.0
            columns[len(columns) - len(q) + j, p] = self._initial[i]
            columns[len(columns) - len(q) + i, p] = -self._initial[i]
        columns[~active] = 0.0
        return columns

    def cost(self, q: Floats) -> float:
        """Sum of squares of all negative parts."""
        moved = self._transformed(q)
        if moved is None:
            return np.inf
        negative = np.minimum(np.append(moved[0].ravel(), self._initial @ q), 0.0)
        return float(negative @ negative)
