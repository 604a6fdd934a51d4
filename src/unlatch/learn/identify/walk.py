"""How far the numbers of a model can go without a trace: other models with its process, one after the other.

From a model the walk goes where one number grows, or falls, the most: a linear program tells the step, Newton's method
brings the new states back to where what they emit is independent of where they lead, and a step that is not worth it is
halved. Every model that counts is a valid one with the same process to rounding, so that what was reached is attained.
It need not be all: the way is local.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unlatch import linalg
from unlatch.arrays import Floats
from unlatch.core.budget import checkpoint
from unlatch.errors import NumericalError
from unlatch.learn.identify.cone import Cone
from unlatch.learn.identify.everywhere import Reach
from unlatch.learn.identify.process import Process, invertible

__all__ = ["Member", "Walk", "explored"]

_VALID = 1e-12
"""Negative probabilities, and misses of the form, that are rounding."""

_FIRST_STEP = 0.5
_LEAST_STEP = 1e-7
"""Bounds of a change of basis, in its largest coordinate."""

_PENALTY = 10.0
"""What a negative probability costs against the number that is to grow."""

_NO_GAIN = 1e-11
"""What is not worth a step: the bounds of a walk are given to nine digits."""

_STEPS = 60
"""Of one way; most take five to ten."""

_WORK = 4_000.0
"""Steps of all ways together with two states that are mixed; fewer with many states and directions, by what a step
costs. It takes seconds."""

_MOVED = 1e-9
"""First-order change, the largest being one, below which a number stays."""

_GRID = 21
"""Points a side that are tried first where all models are known to lie in a rectangle."""


@dataclass(frozen=True, eq=False)
class Member:
    """A model with the same process: how its states are mixed from those of the first one."""

    mixing: Floats
    process: Process

    def values(self) -> Floats:
        return np.concatenate([block.ravel() for block in self.process.numbers()])


class Walk:
    """All ways from one model, and what they came to."""

    def __init__(self, process: Process, tolerance: float) -> None:
        self._process, self._tolerance = process, tolerance
        start = Member(np.eye(process.n_states), process)
        self.members: list[Member] = [start]
        self.low = self.high = start.values()
        self._lowest = np.zeros(len(self.low), dtype=int)
        self._highest = np.zeros(len(self.low), dtype=int)
        self._work = 0.0

    def toward(self, number: int, sign: float) -> None:
        """As far as it goes in one number, from the best member known so far."""
        best = (self._highest if sign > 0 else self._lowest)[number]
        current, radius = self.members[best], _FIRST_STEP
        reached = current
        for _ in range(_STEPS):
            if radius < _LEAST_STEP or self.exhausted:
                break
            proposed = self._proposed(current, number, sign, radius)
            if proposed is None:
                break
            gain = _merit(proposed, number, sign) - _merit(current, number, sign)
            if gain < _NO_GAIN:
                radius /= 4
                continue
            current = proposed
            if current.process.lowest >= -_VALID:
                reached = current
        if reached is not self.members[best]:
            self.add(reached)

    def add(self, member: Member) -> None:
        """One more valid model."""
        number, values = len(self.members), member.values()
        self.members.append(member)
        self._lowest = np.where(values < self.low, number, self._lowest)
        self._highest = np.where(values > self.high, number, self._highest)
        self.low, self.high = np.minimum(self.low, values), np.maximum(self.high, values)

    @property
    def exhausted(self) -> bool:
        return self._work > _WORK

    def moving(self) -> Floats:
        """Which numbers some direction that keeps the form moves, and how fast."""
        slopes = _slopes(self._process, _dense_basis(self._process, self._tolerance))
        speed: Floats = np.abs(slopes).max(axis=1, initial=0.0)
        return speed

    def _proposed(self, current: Member, number: int, sign: float, radius: float) -> Member | None:
        """The member that a linear program leads to, brought back to the form; None if there is nowhere to go."""
        checkpoint()
        basis = _dense_basis(current.process, self._tolerance)
        n, d = self._process.n_states, basis.shape[1]
        self._work += 1 + (n / 8) ** 3 + d / 20
        if d == 0:
            return None
        slopes = _slopes(current.process, basis)
        y = _climbing(slopes, current.values(), sign * slopes[number], radius)
        valid = current.process.lowest >= -_VALID
        if y is None or (valid and sign * float(slopes[number] @ y) < _NO_GAIN):
            return None
        change = np.eye(n) + (basis @ y).reshape(n, n)
        while radius > _LEAST_STEP:
            member = self.member(change, current)
            if member is not None:
                return member
            radius /= 4
            change = np.eye(n) + (change - np.eye(n)) / 4
        return None

    def member(self, change: Floats, current: Member) -> Member | None:
        """The model after a change of basis from a member; None if no model of the right form is near."""
        if not invertible(change):
            return None
        try:
            mixing = _restored(self._process, linalg.inverse(change) @ current.mixing)
            if mixing is None or not invertible(mixing):
                return None
            return Member(mixing, self._process.mixed(mixing))
        except NumericalError:
            return None


def explored(process: Process, tolerance: float, known: Reach) -> Walk:
    """Walks from a model in all its numbers that can move."""
    walk = Walk(process, tolerance)
    if len(known.open) == 1 and known.pairs is not None:
        _sow(walk, process, known.pairs[known.open[0]], known.boxes[known.open[0]])
    speed = walk.moving()
    numbers = [int(i) for i in np.argsort(-speed) if speed[i] > _MOVED * max(1.0, speed.max())]
    for number in numbers:
        for sign in (1.0, -1.0):
            if walk.exhausted:
                return walk
            walk.toward(number, sign)
    return walk


def _sow(walk: Walk, process: Process, pair: tuple[int, int], box: Floats) -> None:
    """The valid models of a grid over the rectangle in which all of them lie."""
    if not np.isfinite(box).all():
        return
    i, j = pair
    for x in np.linspace(box[0, 0], box[0, 1], _GRID):
        for y in np.linspace(box[1, 0], box[1, 1], _GRID):
            if x + y > 1 - 1e-6:
                continue
            mixing = np.eye(process.n_states)
            mixing[i, [i, j]], mixing[j, [i, j]] = (1 - x, x), (y, 1 - y)
            if _defect(process, mixing) > _VALID:
                continue
            member = Member(mixing, process.mixed(mixing))
            if member.process.lowest >= -_VALID:
                walk.add(member)


def _merit(member: Member, number: int, sign: float) -> float:
    values = member.values()
    return sign * float(values[number]) + _PENALTY * float(np.minimum(values, 0.0).sum())


def _climbing(slopes: Floats, values: Floats, objective: Floats, radius: float) -> Floats | None:
    """The step of largest gain after which no number is negative, to first order."""
    from scipy.optimize import linprog

    moved = np.abs(slopes).max(axis=1) > _VALID
    solution = linprog(
        -objective,
        A_ub=-slopes[moved],
        b_ub=np.maximum(values[moved], -radius / 4),
        bounds=(-radius, radius),
        method="highs",
    )
    found: Floats | None = solution.x
    return found


def _dense_basis(process: Process, tolerance: float) -> Floats:
    """Directions that keep the form. A number next to zero is taken for zero, as an end of the way."""
    tidy = replace(
        process, transitions=np.where(np.abs(process.transitions) < _VALID, 0.0, process.transitions)
    )
    basis: Floats = Cone(tidy, max(tolerance, 1e-9)).basis.toarray()
    return basis


def _slopes(process: Process, basis: Floats) -> Floats:
    """First derivatives of all numbers along all directions, (numbers, directions)."""
    n = process.n_states
    changes = basis.T.reshape(-1, 1, n, n)
    moves = process.transitions @ changes - changes @ process.transitions
    shown = -(changes @ process.observations)
    if process.emission == "arrival":
        shown = moved_arrival_rows(process, changes)
    pieces = (
        moves,
        shown,
        -(changes @ process.rewards),
        -(changes @ process.ending),
        process.starts @ changes[:, 0],
    )
    return np.concatenate([piece.reshape(len(changes), -1) for piece in pieces], axis=1).T


def moved_arrival_rows(process: Process, changes: Floats) -> Floats:
    """``dZ`` for changes of basis, (directions, actions, states, observations); zero where no action leads."""
    reached = process.transitions.sum(axis=1)
    joint = changes.transpose(0, 1, 3, 2) @ (reached[:, :, None] * process.observations)
    mass = (reached[:, None] @ changes)[:, :, 0]
    rate = joint - mass[..., None] * process.observations
    told = np.broadcast_to(reached[:, :, None] > _VALID, rate.shape)
    divisor = np.broadcast_to(reached[:, :, None], rate.shape)
    result: Floats = np.divide(rate, divisor, out=np.zeros_like(rate), where=told)
    return result


# --- back to the form ---------------------------------------------------------------------------------------


def _restored(process: Process, mixing: Floats) -> Floats | None:
    """The mixing near this one under which what is emitted is independent of where it leads."""
    for _ in range(30):
        if _defect(process, mixing) <= 1e-13:
            return mixing
        before = mixing
        if process.emission == "departure" or process.pays:
            mixing = np.stack([_restored_row(process, row) for row in mixing])
        if process.emission == "arrival":
            mixing = _restored_columns(process, mixing)
        if np.abs(mixing - before).max() < 1e-15:
            break
    return mixing if _defect(process, mixing) <= _VALID else None


def _defect(process: Process, mixing: Floats) -> float:
    """By how much the updates in the new states differ from those of a model."""
    try:
        mixed = process.mixed(mixing)
        back = linalg.inverse(mixing)
    except NumericalError:
        return np.inf
    off = np.abs(mixing @ process.updates() @ back - mixed.updates()).max(initial=0.0)
    ends = np.abs(process.endings() @ mixing.T - mixed.endings()).max(initial=0.0)
    return float(max(off, ends))


def _restored_row(process: Process, w: Floats) -> Floats:
    """One Newton step for the weights of a new state: what it emits, independent of where it leads."""
    pairs = [(process.shown, process.places)]
    if process.pays and process.emission == "departure":
        pairs.append((process.rewards, process.observations))
    misses, slopes = [np.array([w.sum() - 1])], [np.ones((1, len(w)))]
    for one, other in pairs:
        mean, there = np.einsum("k,ako->ao", w, one), np.einsum("k,akt->at", w, other)
        joint = np.einsum("ako,akt->aotk", one, other)
        misses.append((joint @ w - mean[:, :, None] * there[:, None]).ravel())
        slope = joint - np.einsum("ako,at->aotk", one, there) - np.einsum("ao,akt->aotk", mean, other)
        slopes.append(slope.reshape(-1, len(w)))
    return w - _shortest(np.concatenate(slopes), np.concatenate(misses))


def _restored_columns(process: Process, mixing: Floats) -> Floats:
    """One Newton step for every column of Q: what is shown on arrival, independent of where one came from."""
    back = linalg.inverse(mixing)
    rows = process.mixed(mixing).observations
    columns = []
    for t, v in enumerate(back.T):
        arriving = np.einsum("ask,k->as", process.transitions, v)
        length = np.sqrt((arriving**2).sum(axis=1, keepdims=True))
        unit = np.divide(arriving, length, out=np.zeros_like(arriving), where=length > _VALID)
        beside = (
            process.transitions
            - unit[:, :, None] * np.einsum("as,ask->ak", unit, process.transitions)[:, None]
        )
        slope = np.einsum("ako,ask->aosk", process.observations - rows[:, [t]], beside).reshape(-1, len(v))
        columns.append(v - _shortest(slope, slope @ v))
    new = np.stack(columns, axis=1)
    scale = linalg.least_squares(new, np.ones(len(new)))
    return linalg.inverse(new * scale)


def _shortest(slopes: Floats, misses: Floats) -> Floats:
    """The shortest step that undoes the misses to first order, in the directions that do more than rounding."""
    if len(slopes) > 2 * slopes.shape[1]:
        both = linalg.triangle(np.concatenate([slopes, misses[:, None]], axis=1))
        slopes, misses = both[:, :-1], both[:, -1]
    left, values, right = linalg.svd(slopes)
    kept = values > 1e-7 * max(1.0, values[0])
    step: Floats = right[:, kept] @ ((left[:, kept].T @ misses) / values[kept])
    return step
