"""The cone of small changes that leave no trace: which of them there are, and the proof that there are none.

All models of as many states as the process has dimensions are ``G' = Q^-1 G Q`` with Q 1 = 1, so what can be changed
without any trace is a change of basis Q = 1 + dQ that again gives a transition row and an observation row for every
state, none of them negative. If no dQ but zero does so to first order, no other model is near.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from unlatch import linalg
from unlatch.arrays import Floats, Ints
from unlatch.core.budget import checkpoint
from unlatch.learn.identify.process import Process

__all__ = ["PROVED", "Cone", "Place", "Proof"]

PROVED = 1e-6
"""What a dual solution may miss the objective by, relative to its largest entry: HiGHS works to 1e-7."""

Place = tuple[str, int, int, int]
"""A number of the model: array, action, state, next state, observation or reward. Where an episode begins, (array,
first observation, 0, state)."""

_Limits = tuple[Any, list[Place]]
"""Maps of dQ, one row for every zero, and whose they are."""


class Proof(NamedTuple):
    """That a cone is {0}: the zeros that it takes."""

    zeros: tuple[Place, ...]


class Cone:
    """Changes of basis dQ with rows that sum to zero, after which the model still is one, to first order.

    The form of a model is kept by a linear space of dQ, ``basis`` (states * states, dimension). On departure it is the
    product of one space for every row of dQ, on arrival for every column. Inside, zeros of the model must not become
    negative: ``limits @ y >= 0`` for the coordinates y, every row of ``limits`` with the zero that it comes from.

    Parameters
    ----------
    process : Process
    tolerance : float
        Singular values up to this are taken for zero.
    unreached_rows_free : bool
        Whether what a state shows on arrival may be anything where an action never leads to it: the cone is larger
        then, and a proof says more. To be sure of a direction, such rows are held.
    starts : bool
        Whether states that no episode begins in limit the cone too.
    doubted : set of Place
        Zeros that are not to be relied upon.
    """

    def __init__(
        self,
        process: Process,
        tolerance: float,
        *,
        unreached_rows_free: bool = False,
        starts: bool = False,
        doubted: Set[Place] = frozenset(),
    ) -> None:
        self._process, self._tolerance = process, tolerance
        self._arrival = process.emission == "arrival"
        self._unreached = ~process.reached() & self._arrival
        self.has_unreached_rows = bool(self._unreached.any())
        self._free_rows, self._starts, self._doubted = unreached_rows_free, starts, doubted
        self.basis = self._form_basis()
        self.dimension = int(self.basis.shape[1])

    @property
    def limits(self) -> Any:
        return self._limited[0]

    @property
    def zeros(self) -> list[Place]:
        return self._limited[1]

    # --- changes that keep the form ----------------------------------------------------------------------

    def _form_basis(self) -> Any:
        if not self._arrival:
            return self._departure_basis()
        basis = self._arrival_basis()
        return self._with_rewards(basis) if self._process.pays and basis.shape[1] else basis

    def _departure_basis(self) -> Any:
        n = self._process.n_states
        blocks = [self._null_space(self.row_equations(s), s) for s in range(n)]
        return _assembled(blocks, np.arange(n * n).reshape(n, n))

    def row_equations(self, s: int) -> Floats:
        """``sum_k dQ_sk (W[a]_k - W[a]_s) (T[a]_k - T[a]_s) = 0``, with W what is emitted and T all places to go: one
        row for every equation, one column for every k. Rewards and observations are independent likewise."""
        p = self._process
        shown, moved = p.shown - p.shown[:, [s]], p.places - p.places[:, [s]]
        found = [np.einsum("ako,akt->aotk", shown, moved).reshape(-1, p.n_states)]
        if p.pays and not self._arrival:
            paid, seen = p.rewards - p.rewards[:, [s]], p.observations - p.observations[:, [s]]
            found.append(np.einsum("akr,ako->arok", paid, seen).reshape(-1, p.n_states))
        return np.concatenate(found)

    def _arrival_basis(self) -> Any:
        """``sum_k (Z[a,k,o] - Z[a,t,o]) dQ_kt T[a]_:k`` is a multiple of ``T[a]_:t`` for every state t.

        Where T[a]_:t is zero the row Z[a,t] may be anything as soon as it is not; the equations are left out then,
        which makes the cone larger than it is, unless the row is to be held fixed.
        """
        p, n = self._process, self._process.n_states
        blocks = []
        for t in range(n):
            shown, moves = p.observations - p.observations[:, [t]], p.transitions
            column = moves[:, :, t]
            length = np.sqrt((column**2).sum(axis=1, keepdims=True))
            unit = np.divide(column, length, out=np.zeros_like(column), where=length > 0)
            beside = moves - unit[:, :, None] * np.einsum("as,ask->ak", unit, moves)[:, None]
            equations = np.einsum("ako,ask->aosk", shown, beside)
            if self._free_rows:
                equations = equations[~self._unreached[:, t]]
            blocks.append(self._null_space(equations.reshape(-1, n), t))
        return _assembled(blocks, np.arange(n * n).reshape(n, n).T)

    def _with_rewards(self, basis: Any) -> Any:
        """The part of the space under which rewards stay independent of where a step leads: equations on the rows."""
        import scipy.sparse as sparse

        n = self._process.n_states
        equations = [self.row_equations(s) @ basis[s * n : (s + 1) * n].toarray() for s in range(n)]
        within = self._null_columns(np.concatenate(equations))
        return sparse.csr_array(basis @ within)

    def _null_space(self, equations: Floats, own: int) -> Floats:
        """Orthonormal columns (states, directions) with a zero in the place of the state itself."""
        n = equations.shape[1]
        others = np.delete(np.arange(n), own)
        full = np.zeros((n, 0))
        if n > 1:
            null = self._null_columns(equations[:, others])
            full = np.zeros((n, null.shape[1]))
            full[others] = null
        return full

    def _null_columns(self, equations: Floats) -> Floats:
        """Orthonormal columns that all equations send to zero, within the tolerance."""
        checkpoint()
        unknowns = equations.shape[1]
        equations = equations[equations.any(axis=1)]  # most say nothing in a maze
        if len(equations) > 2 * unknowns:
            equations = linalg.triangle(equations)
        padded = np.concatenate(
            [equations, np.zeros((unknowns, unknowns))]
        )  # a right vector for every column
        _, values, vectors = linalg.svd(padded)
        null: Floats = vectors[:, values <= self._tolerance * max(1.0, values[0])]
        return null

    # --- limits -------------------------------------------------------------------------------------------

    @cached_property
    def _limited(self) -> _Limits:
        """One row for every zero that a direction of the space could move, of norm one."""
        import scipy.sparse as sparse

        pieces, zeros = [], []
        for matrix, places in self._all_limits():
            known = [i for i, place in enumerate(places) if place not in self._doubted]
            pieces.append(matrix[known] @ self.basis)
            zeros += [places[i] for i in known]
        limits = sparse.csr_array(sparse.vstack(pieces))
        norms = np.sqrt(np.asarray((limits**2).sum(axis=1)).ravel())
        kept = np.flatnonzero(norms > self._tolerance)
        scaled = sparse.csr_array(sparse.diags_array(1 / norms[kept]) @ limits[kept])
        return scaled, [zeros[index] for index in kept]

    def _all_limits(self) -> Iterator[_Limits]:
        for index in range(len(self._process.actions)):
            yield from self._transition_limits(index)
            yield self._observation_limits(index)
            if self._process.pays:
                yield self._emitted(index, "rewards", self._process.rewards[index])
        if self._starts:
            yield self._start_limits()

    def _transition_limits(self, index: int) -> Iterator[_Limits]:
        """Rows of ``dT[a] = T[a] dQ - dQ T[a]``, as maps of dQ, where T[a] is zero.

        Where Z[a,t] is free, all entries of ``dG[a,o]_:t`` must not be negative.
        """
        import scipy.sparse as sparse

        p, n = self._process, self._process.n_states
        one = sparse.eye_array(n, format="csr")
        moves = sparse.csr_array(p.transitions[index])
        change = sparse.csr_array(sparse.kron(moves, one) - sparse.kron(one, moves.T))
        loose = self._unreached[index] & self._free_rows
        found = np.argwhere((p.transitions[index] == 0) & ~loose)
        yield change[found[:, 0] * n + found[:, 1]], self._places("transitions", index, found, p.live)
        seen = np.argwhere(np.broadcast_to(loose, (n, n)))
        for shown in p.observations[index].T if len(seen) else ():
            joint = sparse.csr_array(sparse.kron(moves * shown, one))
            places = self._places("transitions", index, seen, p.live)
            yield joint[seen[:, 0] * n + seen[:, 1]], places
        never = np.argwhere(p.ending[index] == 0)
        values = -p.ending[index][:, never[:, 1]].T
        places = self._places("transitions", index, never, p.terminal)
        yield _row_maps(never[:, 0], values, n), places

    def _observation_limits(self, index: int) -> _Limits:
        """Rows of dZ[a], as maps of dQ, where Z[a] is zero and is seen at all."""
        p, n = self._process, self._process.n_states
        rows = p.observations[index]
        if not self._arrival:
            return self._emitted(index, "observations", rows)
        found = np.argwhere((rows == 0) & ~self._unreached[index][:, None])
        reached = p.transitions[index].sum(axis=0)
        t, o = found[:, 0], found[:, 1]
        values = reached * (rows[:, o].T - rows[t, o][:, None]) / reached[t][:, None]
        names = range(rows.shape[1])
        return _maps(np.arange(n) * n + t[:, None], values, n), self._places(
            "observations", index, found, names
        )

    def _emitted(self, index: int, array: str, rows: Floats) -> _Limits:
        """``-dQ Z[a]`` where Z[a], emitted by the state left, is zero."""
        found = np.argwhere(rows == 0)
        maps = _row_maps(found[:, 0], -rows[:, found[:, 1]].T, self._process.n_states)
        return maps, self._places(array, index, found, range(rows.shape[1]))

    def _start_limits(self) -> _Limits:
        """``b dQ`` where no episode begins."""
        p, n = self._process, self._process.n_states
        found = np.argwhere(p.starts == 0)
        first, t = found[:, 0], found[:, 1]
        maps = _maps(np.arange(n) * n + t[:, None], p.starts[first], n)
        return maps, [("initial", int(o), 0, p.live[s]) for o, s in found.tolist()]

    def _places(self, array: str, index: int, found: Ints, entries: Any) -> list[Place]:
        action, live = self._process.actions[index], self._process.live
        return [(array, action, live[s], entries[entry]) for s, entry in found.tolist()]

    # --- is there anything in it ------------------------------------------------------------------------

    def proof(self, rng: np.random.Generator) -> Proof | None:
        """The zeros from which it follows that the cone is {0}; None if it does not.

        Were there a nonzero y in the cone, a random objective c would almost surely not be orthogonal to it, and y
        would raise either c or -c. That nothing raises c is proved by multipliers: ``c = -sum of multiples of limits``.
        """
        if self.dimension == 0:
            return Proof(())
        if not self.zeros:
            return None
        objective = rng.standard_normal(self.dimension)
        needed: set[Place] = set()
        for sign in (1.0, -1.0):
            multipliers = self._solved(sign * objective)[1]
            missed = np.abs(sign * objective + self.limits.T @ multipliers).max()
            if missed > PROVED * np.abs(objective).max():
                return None
            used = np.flatnonzero(multipliers > PROVED * multipliers.max())
            needed.update(self.zeros[index] for index in used)
        return Proof(tuple(sorted(needed)))

    def direction(self, rng: np.random.Generator) -> Floats | None:
        """A nonzero element dQ of the cone (states, states); None if there is none at this precision."""
        n = self._process.n_states
        if self.dimension == 0:
            return None
        objective = rng.standard_normal(self.dimension)
        found = max(
            (self._solved(sign * objective)[0] for sign in (1.0, -1.0)), key=lambda y: np.abs(y).max()
        )
        if np.abs(found).max() < 0.5:  # an element of a cone can be scaled until it touches the box
            return None
        change: Floats = np.asarray(self.basis @ found).reshape(n, n)
        return change

    def _solved(self, objective: Floats) -> tuple[Floats, Floats]:
        """The point of the cone, cut by a box, with the largest objective; and the multipliers of the limits."""
        from scipy.optimize import linprog

        checkpoint()
        if not self.zeros:
            return np.sign(objective), np.zeros(0)
        solution = linprog(
            -objective,
            A_ub=-self.limits,
            b_ub=np.zeros(len(self.zeros)),
            bounds=(-1.0, 1.0),
            method="highs",
        )
        if solution.x is None:
            return np.zeros(self.dimension), np.zeros(len(self.zeros))
        return solution.x, np.maximum(-solution.ineqlin.marginals, 0.0)


def _row_maps(s: Ints, values: Floats, n: int) -> Any:
    """Maps that read row s of dQ, each with its values."""
    return _maps(s[:, None] * n + np.arange(n), values, n)


def _maps(places: Ints, values: Floats, n: int) -> Any:
    """A sparse map of dQ for every row of places and values."""
    import scipy.sparse as sparse

    rows = np.repeat(np.arange(len(places)), n)
    found = (np.ravel(values), (rows, np.ravel(places)))
    return sparse.csr_array(sparse.coo_array(found, shape=(len(places), n * n)))


def _assembled(blocks: list[Floats], places: Ints) -> Any:
    """The spaces of all rows (or columns) of dQ as one sparse basis; diagonal entries make every row sum to zero."""
    import scipy.sparse as sparse

    n = len(places)
    entries, rows, columns = [np.zeros(0)], [np.zeros(0, dtype=int)], [np.zeros(0, dtype=int)]
    offset = 0
    for block, place in zip(blocks, places, strict=True):
        k, j = np.nonzero(block)
        at = place[k]
        entries += [block[k, j], -block[k, j]]
        rows += [at, at // n * (n + 1)]
        columns += [offset + j, offset + j]
        offset += block.shape[1]
    found = np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns))
    return sparse.csr_array(sparse.coo_array(found, shape=(n * n, offset)))
