"""Whether a model is the only one at all with its process, whatever its states are called.

A new state that is a mixture of old ones must keep what it emits independent of where it leads. That is a linear
condition on the products of its weights, one for every pair of old states. If the conditions are independent, only
states that are *alike* (nothing emitted tells them apart where it matters) can be mixed. Where at most two are alike,
what is left are two numbers for every such pair, which the signs of probabilities confine.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

from unlatch import linalg
from unlatch.arrays import Flags, Floats, Ints
from unlatch.core.budget import checkpoint
from unlatch.learn.identify.process import Process

__all__ = ["Reach", "reach"]

_INDEPENDENT = 1e-6
"""Smallest singular value, of conditions of norm one, that counts as more than rounding: a larger bound can only spoil
a proof, and the conditions are products of differences."""

_ALIKE = 1e-12
"""What a mixture of two states of an exact model may violate by rounding alone: numbers are at most one."""

_MOST_NUMBERS = 40_000_000
"""Of all conditions together, for which 1 GB is enough; beyond, nothing is said of models far away."""

_POINT = 1e-6
"""Width up to which an interval is a point: at a double root half of the digits are lost."""

_TESTS = 400
"""Histories and tests whose probabilities confine a pair, at most: the short ones do nearly all of it."""

_ROUNDS = 40
"""Rounds in which pairs confine each other; most need two."""


@dataclass(frozen=True)
class Reach:
    """How far all models of a process are known to reach.

    Attributes
    ----------
    pairs : tuple of (int, int), or None
        The states that may be mixed, two and two, as live states; None if nothing is known.
    boxes : array, shape (pairs, 2, 2)
        Of every pair, between what its two weights lie: new state i is ``(1 - x) i + x j``, new state j
        ``y i + (1 - y) j``, after calling the new states such that ``x + y < 1``.
    """

    pairs: tuple[tuple[int, int], ...] | None
    boxes: Floats

    @property
    def alone(self) -> bool:
        """Whether no other model has this process, but for names of states."""
        return self.pairs is not None and not self.open

    @property
    def open(self) -> tuple[int, ...]:
        """The pairs that are not confined to what they are."""
        return tuple(i for i, box in enumerate(self.boxes) if np.abs(box).max() > _POINT)


def reach(process: Process, noise: float = 0.0) -> Reach:
    """What is known of all models with the process of a minimal one.

    States that differ by no more than ``noise`` count as alike, and conditions must be independent beyond it.
    """
    pairs = _alike_pairs(process, noise)
    if pairs is None:
        return Reach(None, np.zeros((0, 2, 2)))
    return Reach(pairs, _confined(process, pairs))


# --- who can be mixed with whom -----------------------------------------------------------------------------


def _alike_pairs(process: Process, noise: float) -> tuple[tuple[int, int], ...] | None:
    """Pairs of states that can be mixed, if no state is in two of them and nothing else can be."""
    n = process.n_states
    if n == 1:
        return ()
    i, j = np.triu_indices(n, 1)
    conditions = _conditions(process, i, j)
    if conditions is None:
        return None
    size = np.sqrt((conditions**2).sum(axis=1))
    alike = size <= max(_ALIKE, noise)
    pairs = [(int(a), int(b)) for a, b in zip(i[alike], j[alike], strict=True)]
    if len({state for pair in pairs for state in pair}) < 2 * len(pairs):
        return None
    others = conditions[~alike] / size[~alike, None]
    if len(others) and (len(others) > others.shape[1] or _smallest(others) <= max(_INDEPENDENT, noise)):
        return None
    return tuple(pairs)


def _smallest(rows: Floats) -> float:
    checkpoint()
    tall = linalg.triangle(rows.T) if rows.shape[1] > 2 * len(rows) else rows.T
    return float(linalg.singular_values(tall)[-1])


def _conditions(process: Process, i: Ints, j: Ints) -> Floats | None:
    """For every pair of states what their mixture violates, (pairs, conditions); None if that is too much to hold.

    On departure ``sum_(i<j) w_i w_j (W_i - W_j) (T_i - T_j) = 0`` for the weights w of a new state, on arrival the
    same with 2 x 2 minors in place of differences for a column of Q.
    """
    p = process
    arrival = p.emission == "arrival"
    a, n, o = p.observations.shape
    wide = a * n * n * o * o / 4 if arrival else a * p.shown.shape[2] * (n + len(p.terminal))
    if wide * n * n / 2 > _MOST_NUMBERS:
        return None
    if arrival:
        return _products(_minors(p.observations, i, j), _minors(p.transitions.transpose(0, 2, 1), i, j))
    found = _products(_differences(p.shown, i, j), _differences(p.places, i, j))
    if not p.pays:
        return found
    more = _products(_differences(p.rewards, i, j), _differences(p.observations, i, j))
    return np.concatenate([found, more], axis=1)


def _products(one: Floats, other: Floats) -> Floats:
    """All products of what two kinds of rows differ by, action by action, (pairs, products)."""
    result: Floats = np.einsum("apx,apy->paxy", one, other).reshape(one.shape[1], -1)
    return result


def _differences(rows: Floats, i: Ints, j: Ints) -> Floats:
    result: Floats = rows[:, i] - rows[:, j]
    return result


def _minors(rows: Floats, i: Ints, j: Ints) -> Floats:
    """All ``u_x v_y - u_y v_x`` of rows u, v, (actions, pairs, minors)."""
    u, v = rows[:, i], rows[:, j]
    x, y = np.array(list(combinations(range(rows.shape[2]), 2)), dtype=int).reshape(-1, 2).T
    result: Floats = u[:, :, x] * v[:, :, y] - u[:, :, y] * v[:, :, x]
    return result


# --- how far --------------------------------------------------------------------------------------------------


def _confined(process: Process, pairs: tuple[tuple[int, int], ...]) -> Floats:
    """A box for the two weights of every pair, (pairs, 2, 2), from what must not be negative.

    Whatever is confined to a point is known from then on, and confines its neighbors.
    """
    boxes = np.stack([_first_box(process, i, j) for i, j in pairs]) if pairs else np.zeros((0, 2, 2))
    updates = process.updates().reshape(-1, process.n_states, process.n_states)
    known = np.ones(process.n_states, dtype=bool)
    known[[state for pair in pairs for state in pair]] = False
    for _ in range(_ROUNDS):
        checkpoint()
        before = boxes.copy()
        for number, (i, j) in enumerate(pairs):
            boxes[number] = _by_neighbors(boxes[number], updates, i, j, known)
            boxes[number] = _by_itself(boxes[number], updates[:, [[i], [j]], [i, j]])
            if np.abs(boxes[number]).max() <= _POINT:
                known[[i, j]] = True
        if np.abs(boxes - before).max(initial=0.0) < _POINT:
            break
    return boxes


def _first_box(process: Process, i: int, j: int) -> Floats:
    """From the probabilities of short tests, which mixtures must keep, and from beliefs, which must be mixtures.

    The second also keeps x + y clear of one.
    """
    updates = process.updates().reshape(-1, process.n_states, process.n_states)
    short = np.concatenate([np.ones((1, process.n_states)), process.endings().reshape(-1, process.n_states)])
    for _ in range(2):
        longer = (short @ updates.transpose(0, 2, 1)).reshape(-1, process.n_states)
        short = _few(np.concatenate([short, longer]))
    beliefs = process.starts
    for _ in range(3):
        further = (beliefs @ updates).reshape(-1, process.n_states)
        beliefs = _few(np.concatenate([beliefs, further]))
    if process.emission == "departure":
        seen = process.observations.transpose(0, 2, 1).reshape(-1, process.n_states)
        short = np.concatenate([short, seen, process.ending.transpose(0, 2, 1).reshape(-1, process.n_states)])
    box = np.array([[-np.inf, np.inf], [-np.inf, np.inf]])
    return _from_beliefs(_from_tests(box, short[:, [i, j]]), beliefs[:, [i, j]])


def _few(rows: Floats) -> Floats:
    """The rows that say something, the shortest ones if they are many."""
    kept: Floats = rows[rows.max(axis=1) > _POINT][:_TESTS]
    return kept


def _from_tests(box: Floats, values: Floats) -> Floats:
    """``v_i + x (v_j - v_i) >= 0`` and ``v_j + y (v_i - v_j) >= 0``."""
    box = box.copy()
    for row, own, other in ((0, values[:, 0], values[:, 1]), (1, values[:, 1], values[:, 0])):
        slope = other - own
        rises, falls = slope > _POINT * np.maximum(own, other), slope < -_POINT * np.maximum(own, other)
        box[row, 0] = max(box[row, 0], float((-own[rises] / slope[rises]).max(initial=-np.inf)))
        box[row, 1] = min(box[row, 1], float((-own[falls] / slope[falls]).min(initial=np.inf)))
    return box


def _from_beliefs(box: Floats, beliefs: Floats) -> Floats:
    """``y <= h_i / (h_i + h_j) <= 1 - x`` for whatever is believed of the two."""
    box = box.copy()
    total = beliefs.sum(axis=1)
    share = beliefs[total > _POINT, 0] / total[total > _POINT]
    if len(share):
        box[0, 1] = min(box[0, 1], float(1 - share.max()))
        box[1, 1] = min(box[1, 1], float(share.min()))
    return box


def _by_neighbors(box: Floats, updates: Floats, i: int, j: int, known: Flags) -> Floats:
    """Confined by moves to and from states that are known."""
    there = updates[:, [i, j]][:, :, known].transpose(0, 2, 1).reshape(-1, 2)
    back = updates[:, known][:, :, [i, j]].reshape(-1, 2)
    return _from_beliefs(_from_tests(box, there), back)


def _by_itself(box: Floats, inside: Floats) -> Floats:
    """Confined by moves inside the pair, (updates, 2, 2): ``P g adj(P) >= 0``, P the mixing of the pair.

    Off the diagonal the entries are quadratic in one weight, on it linear in each.
    """
    inside = inside[inside.any(axis=(1, 2))]
    if not len(inside) or not np.isfinite(box).all():
        return box
    g11, g12, g21, g22 = inside.reshape(-1, 4).T
    box = box.copy()
    for row, (a, b, c, d) in enumerate(((g11, g12, g21, g22), (g22, g21, g12, g11))):
        # with x for the row's own weight: -((1-x) a + x c) x + ((1-x) b + x d) (1-x) >= 0
        quadratic = np.stack([a - c + b - d, -a - 2 * b + d, b], axis=1)
        for coefficients in quadratic:
            box[row] = _where_positive(coefficients, box[row])
    for _ in range(4):
        for corner in (_corner(g11, g12, g21, g22), _corner(g22, g21, g12, g11)[:, [0, 2, 1, 3]]):
            box[0] = _where_some(corner, box[0], box[1])
            box[1] = _where_some(corner[:, [0, 2, 1, 3]], box[1], box[0])
    return box


def _corner(g11: Floats, g12: Floats, g21: Floats, g22: Floats) -> Floats:
    """``((1-x) g11 + x g21) (1-y) - ((1-x) g12 + x g22) y`` as coefficients of 1, x, y, x y."""
    return np.stack([g11, g21 - g11, -g11 - g12, g11 - g21 + g12 - g22], axis=1)


def _where_positive(coefficients: Floats, interval: Floats) -> Floats:
    """The hull of where a parabola is not negative inside an interval; the point zero is always kept."""
    a, b, c = (float(value) for value in coefficients)
    low, high = interval
    slack = 1e-13 * max(abs(a), abs(b), abs(c), 1e-300)
    points = [low, high]
    if abs(a) > slack:
        inside = b * b - 4 * a * c
        if inside >= 0:
            points += [(-b - np.sqrt(inside)) / (2 * a), (-b + np.sqrt(inside)) / (2 * a)]
    elif abs(b) > slack:
        points.append(-c / b)
    kept = sorted(point for point in points if low <= point <= high)
    good = [0.0]
    for left, right in pairwise(kept):
        middle = (left + right) / 2
        if a * middle * middle + b * middle + c >= -slack:
            good += [left, right]
    return np.array([min(good), max(good)])


def _where_some(corners: Floats, own: Floats, other: Floats) -> Floats:
    """The hull of where every bilinear form is not negative for some value of the other weight: for one of its ends."""
    low, high = float(own[0]), float(own[1])
    for c0, cx, cy, cxy in corners.tolist():
        parts = []
        for end in other.tolist():
            level, slope = c0 + cy * end, cx + cxy * end
            slack = 1e-13 * max(abs(c0), abs(cx), abs(cy), abs(cxy))
            if abs(slope) <= slack:
                parts += [(low, high)] if level >= -slack else []
            elif slope > 0:
                parts.append((max(low, -level / slope), high))
            else:
                parts.append((low, min(high, -level / slope)))
        parts = [(left, right) for left, right in parts if left <= right]
        if parts:  # there is the model itself at least; none is rounding
            low, high = min(left for left, _ in parts), max(right for _, right in parts)
    return np.array([min(low, 0.0), max(high, 0.0)])
