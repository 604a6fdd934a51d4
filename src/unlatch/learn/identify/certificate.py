"""Whether a model is the only one near itself with its process: linear algebra and two linear programs.

All models of as many states as the process has dimensions are ``G' = Q^-1 G Q`` with Q 1 = 1, so what can be changed
without any trace is a change of basis Q = 1 + dQ that again gives a transition row and an observation row for every
state, none of them negative. If no dQ but zero does so to first order, no other model is near.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from unlatch import linalg
from unlatch.arrays import Flags, Floats, own_errstate
from unlatch.core import html
from unlatch.core.arguments import real_number
from unlatch.core.budget import checkpoint
from unlatch.core.pomdp import POMDP, Emission
from unlatch.core.random import RandomSource, resolve_rng
from unlatch.learn.significance import USED

__all__ = ["Certificate", "Direction", "certify", "certify_learned"]

Verdict = Literal["determined", "not determined", "not minimal", "not examined"]

ZeroEntry = tuple[Literal["transitions", "observations"], int, int, int]
"""A place (array, action, state, next state or observation) where the model has a zero."""

_MOST_STATES = 60
"""Beyond, the linear programs have more than 3,500 unknowns and take minutes."""

_PROVED = 1e-6
"""What a dual solution may miss the objective by, relative to its largest entry: HiGHS works to 1e-7."""


class Direction(NamedTuple):
    """How the numbers of a model may begin to move together: first derivatives, the largest of size one.

    ``transitions`` (actions, states, states), ``observations`` (actions, states, observations) and ``initial``
    (states,), which follows the states: its own signs are not looked at.

    Examples
    --------
    >>> import unlatch
    >>> first, _ = unlatch.domains.unidentifiable_pair()
    >>> direction = unlatch.certify(first).direction
    >>> direction.transitions.shape, float(abs(direction.transitions).max())
    ((3, 3, 3), 1.0)
    """

    transitions: Floats
    observations: Floats
    initial: Floats


@dataclass(frozen=True, eq=False)
class Certificate:
    """Whether a model is isolated among all models of its size and emission that have the same process.

    Attributes
    ----------
    verdict : str
        "determined": proved, no other such model is near. "not determined": to first order its numbers can move without
        changing the process. "not minimal": the process has fewer dimensions than the model states, and the question
        is another one. "not examined": ``reason`` says why.
    dimension : int or None
        Of the process, counting a terminal state; None if it was not computed.
    free_directions : int or None
        Changes of basis that keep the form of a model, before any sign is looked at. If none, no zero is needed.
    zeros : tuple of (str, int, int, int)
        The zeros that the proof rests on: array, action, state, next state or observation. Empty if none is needed.
    direction : Direction or None
        One way to move, where the model is not determined.
    moving_states : tuple of int
        The states whose rows it moves.
    reason : str

    Examples
    --------
    >>> import unlatch
    >>> certificate = unlatch.certify(unlatch.domains.tiger())
    >>> certificate.verdict, certificate.zeros
    ('determined', ())
    >>> print(certificate)
    locally determined: no other model of 2 states and departure emission near this one has the same process
    """

    verdict: Verdict
    n_states: int
    emission: Emission
    dimension: int | None = None
    free_directions: int | None = None
    zeros: tuple[ZeroEntry, ...] = ()
    direction: Direction | None = None
    moving_states: tuple[int, ...] = ()
    reason: str = ""

    def __repr__(self) -> str:
        return f"Certificate({self})"

    def __str__(self) -> str:
        if self.verdict == "determined":
            text = (
                f"locally determined: no other model of {self.n_states} states and {self.emission} emission near this "
                "one has the same process"
            )
            number = len(self.zeros)
            return text + f"; rests on {number} zeros" * (number > 0)
        if self.verdict == "not determined":
            states = html.cut_list([str(state) for state in self.moving_states])
            return (
                "not determined: without changing the process to first order, the rows of these states can move: "
                f"{states}"
            )
        if self.verdict == "not minimal":
            return (
                f"not minimal: {self.n_states} states for a process of dimension {self.dimension}; which other models "
                "of this size have the same process is not told by changes of basis alone"
            )
        return f"not examined: {self.reason}"

    def _repr_html_(self) -> str:
        """For notebooks: the sentence, and what it rests on."""
        rows = [("dimension of the process", self.dimension), ("free directions", self.free_directions)]
        parts = [html.table([row for row in rows if row[1] is not None])]
        if self.zeros:
            header = ["zero in", "action", "state", "next state or observation"]
            parts.append(html.table(self.zeros, header))
        return html.page(str(self), *parts)


@own_errstate
def certify(pomdp: POMDP, *, tolerance: float = 1e-9, rng: RandomSource = None) -> Certificate:
    """Decide whether a model is locally determined by its process.

    The process is what can be seen in episodes that begin in ``pomdp.initial``; a log of one long episode says next to
    nothing about that, so let the model begin in ``pomdp.stationary()`` there. "Locally" means: no other model near
    this one, of as many states and the same emission. Models far away are not excluded, and the same model with its
    states renamed is none. Of a learned model the zeros are estimates, and the certificate is no better than those that
    it names.

    Not part of the claim, as nothing of it is seen: actions in ``untried_actions``, what a state shows under an action
    that never leads to it (arrival), the rows of a terminal state. Zeros of ``initial`` are not used. Of several
    terminal states each must show observations of its own on arrival: these are then what tells them apart.

    Parameters
    ----------
    pomdp : POMDP
    tolerance : float
        Singular values up to this are taken for zero; a larger one can only spoil a proof. Entries of the model are
        zero only if they are exactly that.
    rng : int or numpy.random.Generator, optional
        Draws the one direction that both linear programs look along; the verdict does not depend on it.

    Examples
    --------
    >>> from unlatch import certify, domains
    >>> certify(domains.tiger(), rng=0).verdict
    'determined'
    >>> certify(domains.unidentifiable_pair()[0], rng=0).verdict
    'not determined'
    """
    real_number("tolerance", tolerance, 0.0, 1.0)
    generator, _ = resolve_rng(rng)
    if pomdp.n_states > _MOST_STATES:
        return _declined(pomdp, f"{pomdp.n_states} states; up to {_MOST_STATES} are looked at")
    process = _Process.of(pomdp)
    if not len(process.actions) or not len(process.live):
        return _declined(pomdp, "no action was tried in any state that goes on")
    if not process.tells_endings_apart():
        return _declined(pomdp, "several terminal states, between which an ending does not tell")
    dimension = process.dimension(tolerance) + process.endings_told(tolerance)
    if dimension < pomdp.n_states:
        return Certificate("not minimal", pomdp.n_states, pomdp.emission, dimension)
    cone = _Cone(process, tolerance, unreached_rows_free=True)
    return _judged(pomdp, process, cone, dimension, tolerance, generator)


def certify_learned(pomdp: POMDP, steps: int) -> Certificate:
    """`certify` for a model that was learned from so many steps.

    What is taken for zero is three standard errors of a probability of a half, in a row that was visited as often as
    rows are on average: states that noise alone tells apart then count as alike, which can only spoil a proof. A
    probability that such a row has used less than half a time, and that is there only so that nothing unseen is
    impossible, is a zero: the proof then rests on it, and says so.
    """
    visits = max(steps, 1) / (pomdp.n_actions * pomdp.n_states)
    return certify(_used(pomdp, visits), tolerance=min(0.5, 1.5 / float(np.sqrt(visits))), rng=0)


def _used(pomdp: POMDP, visits: float) -> POMDP:
    """The model without what so many visits of a row should not have shown."""

    def closed(rows: Floats) -> Floats:
        kept = np.where(rows * visits < USED, 0.0, rows)
        total = kept.sum(axis=-1, keepdims=True)
        result: Floats = np.where(total > 0, kept / np.where(total > 0, total, 1.0), rows)
        return result

    return replace(pomdp, transitions=closed(pomdp.transitions), observations=closed(pomdp.observations))


def _declined(pomdp: POMDP, reason: str) -> Certificate:
    return Certificate("not examined", pomdp.n_states, pomdp.emission, reason=reason)


def _judged(
    pomdp: POMDP,
    process: _Process,
    cone: _Cone,
    dimension: int,
    tolerance: float,
    rng: np.random.Generator,
) -> Certificate:
    """The verdict on a minimal model."""

    def verdict(name: Verdict, **found: Any) -> Certificate:
        return Certificate(
            name, pomdp.n_states, pomdp.emission, dimension, free_directions=cone.dimension, **found
        )

    zeros = cone.proof(rng)
    if zeros is not None:
        return verdict("determined", zeros=zeros)
    # What would be seen where an action never leads may turn out to be anything: to be sure of a direction, hold it.
    held = _Cone(process, tolerance, unreached_rows_free=False) if cone.has_unreached_rows else cone
    change = held.direction(rng)
    if change is None:
        loose = "a proof would have to look into observation rows that are never shown"
        precision = "the linear programs are undecided at this precision"
        return verdict("not examined", reason=loose if cone.has_unreached_rows else precision)
    direction, moving = process.moved(pomdp, change)
    return verdict("not determined", direction=direction, moving_states=moving)


# --- the process ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Process:
    """What the claim is about: tried actions in states that go on. An ending is seen, as one more place to go.

    ``ending`` (actions, states, terminal states) is the probability to reach a terminal state, and ``ending_shows``
    (actions, terminal states, observations) what is shown then if the state reached shows it.
    """

    actions: tuple[int, ...]
    live: tuple[int, ...]
    terminal: tuple[int, ...]
    emission: Emission
    initial: Floats
    transitions: Floats
    observations: Floats
    ending: Floats
    ending_shows: Floats

    @classmethod
    def of(cls, pomdp: POMDP) -> _Process:
        terminal = pomdp.terminal
        actions = tuple(a for a, name in enumerate(pomdp.action_names) if name not in pomdp.untried_actions)
        live = tuple(s for s in range(pomdp.n_states) if s not in terminal)
        moves = pomdp.transitions[np.ix_(actions, live)]
        return cls(
            actions=actions,
            live=live,
            terminal=terminal,
            emission=pomdp.emission,
            initial=pomdp.initial[list(live)],
            transitions=moves[:, :, list(live)],
            observations=pomdp.observations[np.ix_(actions, live)],
            ending=moves[:, :, list(terminal)],
            ending_shows=pomdp.observations[np.ix_(actions, terminal)],
        )

    @property
    def n_states(self) -> int:
        return len(self.live)

    def updates(self) -> Floats:
        """``G[a,o]`` between states that go on."""
        shown = self.observations.transpose(0, 2, 1)
        if self.emission == "departure":
            return shown[:, :, :, None] * self.transitions[:, None]
        return self.transitions[:, None] * shown[:, :, None, :]

    def endings(self) -> Floats:
        """Probability to see o and end, (actions, observations, states)."""
        if self.emission == "departure":
            left: Floats = self.observations.transpose(0, 2, 1) * self.ending.sum(axis=2)[:, None]
            return left
        shown: Floats = self.ending @ self.ending_shows
        return shown.transpose(0, 2, 1)

    def tells_endings_apart(self) -> bool:
        """Whether there is one terminal state at most, or each shows observations of its own."""
        if len(self.terminal) < 2:
            return True
        return self.emission == "arrival" and bool(((self.ending_shows > 0).sum(axis=1) <= 1).all())

    def endings_told(self, tolerance: float) -> int:
        """How many terminal states it takes: one for whatever ends, and more if it is not always the same mixture of
        last observations that an action ends with."""
        if self.emission == "departure" or len(self.terminal) < 2:
            return int(self.ending.any())
        return max(self._mixtures(ends, tolerance) for ends in self.endings())

    def _mixtures(self, endings: Floats, tolerance: float) -> int:
        """Rank of what is shown last, (observations, states), of the states that can end at all."""
        often = endings.sum(axis=0)
        shown = endings[:, often > 0] / often[often > 0]
        return int((linalg.singular_values(shown) > tolerance).sum()) if shown.size else 0

    def dimension(self, tolerance: float) -> int:
        """Rank of the Hankel matrix with all histories and all tests, by closing two spaces under all updates."""
        updates = self.updates().reshape(-1, self.n_states, self.n_states)
        tests = np.concatenate([np.ones((1, self.n_states)), self.endings().reshape(-1, self.n_states)])
        reached = _closed_span(self.initial[None], updates, tolerance)
        observable = _closed_span(tests, updates.transpose(0, 2, 1), tolerance)
        if not len(reached):
            return 0
        return int((linalg.singular_values(reached @ observable.T) > tolerance).sum())

    def moved(self, pomdp: POMDP, change: Floats) -> tuple[Direction, tuple[int, ...]]:
        """What a change of basis does to the numbers of the model, to first order, and to whose rows."""
        transitions, observations = np.zeros_like(pomdp.transitions), np.zeros_like(pomdp.observations)
        initial = np.zeros(pomdp.n_states)
        live, actions = list(self.live), list(self.actions)
        transitions[np.ix_(actions, live, live)] = self.transitions @ change - change @ self.transitions
        transitions[np.ix_(actions, live, self.terminal)] = -(change @ self.ending)
        observations[np.ix_(actions, live)] = self._moved_rows(change)
        initial[live] = self.initial @ change
        size = max(float(np.abs(transitions).max()), float(np.abs(observations).max()))
        moves = np.maximum(np.abs(transitions).max(axis=(0, 2)), np.abs(observations).max(axis=(0, 2)))
        moving = tuple(int(s) for s in np.flatnonzero(moves > _PROVED * size))
        return Direction(transitions / size, observations / size, initial / size), moving

    def _moved_rows(self, change: Floats) -> Floats:
        if self.emission == "departure":
            departing: Floats = -(change @ self.observations)
            return departing
        reached = self.transitions.sum(axis=1)
        joint = change.T @ (reached[:, :, None] * self.observations)
        rate = joint - (reached @ change)[:, :, None] * self.observations
        known = self.reached()[:, :, None]
        result: Floats = np.divide(rate, reached[:, :, None], out=np.zeros_like(rate), where=known)
        return result

    def reached(self) -> Flags:
        """Whether an action ever leads to a state, (actions, states)."""
        flags: Flags = (self.transitions > 0).any(axis=1).reshape(len(self.actions), -1)
        return flags


def _closed_span(rows: Floats, updates: Floats, tolerance: float) -> Floats:
    """Orthonormal rows that span ``rows`` and whatever the updates make of them."""
    span, fresh = np.zeros((0, rows.shape[1])), rows
    while len(fresh) and len(span) < rows.shape[1]:
        checkpoint()
        beyond = fresh - fresh @ span.T @ span
        beyond = beyond[np.abs(beyond).max(axis=1) > tolerance]
        _, values, vectors = linalg.svd(np.concatenate([beyond, np.zeros((1, rows.shape[1]))]))
        new = vectors[:, values > tolerance].T
        span = np.concatenate([span, new])
        fresh = (new @ updates).reshape(-1, rows.shape[1])
    return span


# --- the cone of changes --------------------------------------------------------------------------------


class _Cone:
    """Changes of basis dQ with rows that sum to zero, after which the model still is one, to first order.

    The form of a model is kept by a linear space of dQ, ``basis`` (states * states, dimension). On departure it is the
    product of one space for every row of dQ, on arrival for every column. Inside, zeros of the model must not become
    negative: ``limits @ y >= 0`` for the coordinates y, every row of ``limits`` with the zero that it comes from.
    """

    def __init__(self, process: _Process, tolerance: float, *, unreached_rows_free: bool) -> None:
        self._process, self._tolerance = process, tolerance
        arrival = process.emission == "arrival"
        self._unreached = ~process.reached() & arrival
        self.has_unreached_rows = bool(self._unreached.any())
        self._free_rows = unreached_rows_free
        self.basis = self._departure_basis() if not arrival else self._arrival_basis()
        self.dimension = int(self.basis.shape[1])
        self.limits: Any = None
        self.zeros: list[ZeroEntry] = []
        if self.dimension:
            self.limits, self.zeros = self._limits()

    def _departure_basis(self) -> Any:
        """``sum_k dQ_sk (Z[a]_k - Z[a]_s) (T[a]_k - T[a]_s) = 0`` for every state s."""
        p = self._process
        places = np.concatenate([p.transitions, p.ending], axis=2)
        blocks = []
        for s in range(p.n_states):
            shown, moved = p.observations - p.observations[:, [s]], places - places[:, [s]]
            equations = np.einsum("ako,akt->aotk", shown, moved).reshape(-1, p.n_states)
            blocks.append(self._null_space(equations, s))
        rows = [[s * p.n_states + k for k in range(p.n_states)] for s in range(p.n_states)]
        return _assembled(blocks, rows, p.n_states)

    def _arrival_basis(self) -> Any:
        """``sum_k (Z[a,k,o] - Z[a,t,o]) dQ_kt T[a]_:k`` is a multiple of ``T[a]_:t`` for every state t.

        Where T[a]_:t is zero the row Z[a,t] may be anything as soon as it is not; the equations are left out then,
        which makes the cone larger than it is, unless the row is to be held fixed.
        """
        p = self._process
        blocks = []
        for t in range(p.n_states):
            shown, moves = p.observations - p.observations[:, [t]], p.transitions
            column = moves[:, :, t]
            length = np.sqrt((column**2).sum(axis=1, keepdims=True))
            unit = np.divide(column, length, out=np.zeros_like(column), where=length > 0)
            beside = moves - unit[:, :, None] * np.einsum("as,ask->ak", unit, moves)[:, None]
            equations = np.einsum("ako,ask->aosk", shown, beside)
            if self._free_rows:
                equations = equations[~self._unreached[:, t]]
            blocks.append(self._null_space(equations.reshape(-1, p.n_states), t))
        columns = [[k * p.n_states + t for k in range(p.n_states)] for t in range(p.n_states)]
        return _assembled(blocks, columns, p.n_states)

    def _null_space(self, equations: Floats, own: int) -> Floats:
        """Orthonormal columns (states, directions) with a zero in the place of the state itself."""
        checkpoint()
        n = equations.shape[1]
        others = np.delete(np.arange(n), own)
        equations = equations[equations.any(axis=1)][:, others]  # most say nothing in a maze
        padded = np.concatenate([equations, np.zeros((n, n - 1))])  # so that every column has a right vector
        null = np.zeros((n - 1, 0))
        if n > 1:
            _, values, vectors = linalg.svd(padded)
            null = vectors[:, values <= self._tolerance * max(1.0, values[0])]
        full = np.zeros((n, null.shape[1]))
        full[others] = null
        return full

    def _limits(self) -> tuple[Any, list[ZeroEntry]]:
        """One row for every zero that a direction of the space could move, of norm one."""
        import scipy.sparse as sparse

        pieces, zeros = [], []
        for matrix, places in (*self._transition_limits(), *self._observation_limits()):
            pieces.append(matrix @ self.basis)
            zeros += places
        limits = sparse.csr_array(sparse.vstack(pieces))
        norms = np.sqrt(np.asarray((limits**2).sum(axis=1)).ravel())
        kept = np.flatnonzero(norms > self._tolerance)
        scaled = sparse.csr_array(sparse.diags_array(1 / norms[kept]) @ limits[kept])
        return scaled, [zeros[index] for index in kept]

    def _transition_limits(self) -> Any:
        """Rows of ``dT[a] = T[a] dQ - dQ T[a]``, as maps of dQ, where T[a] is zero.

        Where Z[a,t] is free, all entries of ``dG[a,o]_:t`` must not be negative.
        """
        import scipy.sparse as sparse

        p, n = self._process, self._process.n_states
        one = sparse.eye_array(n, format="csr")
        for index, action in enumerate(p.actions):
            moves = sparse.csr_array(p.transitions[index])
            change = sparse.csr_array(sparse.kron(moves, one) - sparse.kron(one, moves.T))
            loose = self._unreached[index] & self._free_rows
            found = np.argwhere((p.transitions[index] == 0) & ~loose)
            yield change[found[:, 0] * n + found[:, 1]], self._named(action, found)
            seen = np.argwhere(np.broadcast_to(loose, (n, n)))
            for shown in p.observations[index].T if len(seen) else ():
                joint = sparse.csr_array(sparse.kron(moves * shown, one))
                yield joint[seen[:, 0] * n + seen[:, 1]], self._named(action, seen)
            for end, reached in zip(p.terminal, p.ending[index].T, strict=True):
                never = np.flatnonzero(reached == 0)
                leaving = sparse.csr_array(-sparse.kron(one, reached[None]))
                yield leaving[never], [("transitions", action, p.live[s], end) for s in never]

    def _named(self, action: int, found: Any) -> list[ZeroEntry]:
        live = self._process.live
        return [("transitions", action, live[s], live[t]) for s, t in found.tolist()]

    def _observation_limits(self) -> Any:
        """Rows of dZ[a], as maps of dQ, where Z[a] is zero and is seen at all."""
        import scipy.sparse as sparse

        p, n = self._process, self._process.n_states
        for index, action in enumerate(p.actions):
            rows = p.observations[index]
            found = np.argwhere((rows == 0) & ~self._unreached[index][:, None])
            maps = sparse.lil_array((len(found), n * n))
            reached = p.transitions[index].sum(axis=0)
            for row, (s, o) in enumerate(found.tolist()):
                if p.emission == "departure":
                    maps[row, s * n : (s + 1) * n] = -rows[:, o]
                else:
                    maps[row, s::n] = reached * (rows[:, o] - rows[s, o]) / reached[s]
            places: list[ZeroEntry] = [("observations", action, p.live[s], o) for s, o in found.tolist()]
            yield sparse.csr_array(maps), places

    # --- is there anything in it ------------------------------------------------------------------------

    def proof(self, rng: np.random.Generator) -> tuple[ZeroEntry, ...] | None:
        """The zeros from which it follows that the cone is {0}; None if it does not.

        Were there a nonzero y in the cone, a random objective c would almost surely not be orthogonal to it, and y
        would raise either c or -c. That nothing raises c is proved by multipliers: ``c = -sum of multiples of limits``.
        """
        if self.dimension == 0:
            return ()
        if not self.zeros:
            return None
        objective = rng.standard_normal(self.dimension)
        needed: set[ZeroEntry] = set()
        for sign in (1.0, -1.0):
            multipliers = self._solved(sign * objective)[1]
            missed = np.abs(sign * objective + self.limits.T @ multipliers).max()
            if missed > _PROVED * np.abs(objective).max():
                return None
            used = np.flatnonzero(multipliers > _PROVED * multipliers.max())
            needed.update(self.zeros[index] for index in used)
        return tuple(sorted(needed))

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


def _assembled(blocks: list[Floats], places: list[list[int]], n: int) -> Any:
    """The spaces of all rows (or columns) of dQ as one sparse basis; diagonal entries make every row sum to zero."""
    import scipy.sparse as sparse

    entries, rows, columns = [], [], []
    offset = 0
    for block, place in zip(blocks, places, strict=True):
        k, j = np.nonzero(block)
        at = np.asarray(place)[k]
        entries += [block[k, j], -block[k, j]]
        rows += [at, at // n * (n + 1)]
        columns += [offset + j, offset + j]
        offset += block.shape[1]
    found = np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns))
    return sparse.csr_array(sparse.coo_array(found, shape=(n * n, offset)))
