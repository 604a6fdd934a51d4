"""The inner loops of `identifiability.py restarts`: from a change of basis down to where a model has its form and no
negative probability, by Levenberg's method.

The model in the basis S has the updates G = S U S^-1. A weight moved from i to j in row i changes them by
dG = e_i r G - G e_i r, where r is row j of S^-1 less row i: derivatives are exact, and cost one pass over G each.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from unlatch import POMDP
from unlatch.arrays import Floats

_ROUNDS = 60
_THERE, _STUCK = 1e-22, 1e2
"""Squared misses at which the search is there, and the damping at which nothing leads further down."""

_SINGULAR = 1e-3
"""Determinant of a basis below which it is none."""


def descended(model: POMDP, points: Floats) -> tuple[Floats, Floats]:
    """Where the search comes to from every point, entries off the diagonal of S row by row, and the squared misses."""
    found, heights = points.copy(), np.empty(len(points))
    _descend_all(model.updates, model.initial, model.emission == "departure", found, heights)
    return found, heights


def squared_misses(model: POMDP, points: Floats) -> Floats:
    """Of the form, and negative probabilities, at every point."""
    return np.array(
        [
            float((_misses(model.updates, model.initial, model.emission == "departure", point)[0] ** 2).sum())
            for point in points
        ]
    )


@njit(cache=True)
def _descend_all(updates, initial, departure, points, heights):  # type: ignore[no-untyped-def]
    for place in range(len(points)):
        heights[place] = _descend(updates, initial, departure, points[place])


@njit(cache=True)
def _descend(updates, initial, departure, point):  # type: ignore[no-untyped-def]
    """Moves the point; returns its squared misses."""
    size, damping = len(point), 1e-2
    missed, slopes = _misses(updates, initial, departure, point)
    height = (missed * missed).sum()
    for _ in range(_ROUNDS):
        if height <= _THERE or damping >= _STUCK:
            break
        curvature = slopes.T @ slopes
        scale = damping * max(np.trace(curvature), 1e-12)
        for k in range(size):
            curvature[k, k] += scale
        proposed = point - np.linalg.solve(curvature, slopes.T @ missed)
        there, along = _misses(updates, initial, departure, proposed)
        lower = (there * there).sum()
        if lower < height:
            point[:], height, missed, slopes = proposed, lower, there, along
            damping = max(damping / 5, 1e-14)
        else:
            damping *= 4
    return height


@njit(cache=True)
def _misses(updates, initial, departure, point):  # type: ignore[no-untyped-def]
    """All misses at a point, and their derivatives by its entries."""
    actions, shown_count, n, _ = updates.shape
    count = actions * shown_count * n * n + actions * n * n + actions * shown_count * n + n
    missed, slopes = np.full(count, 10.0), np.zeros((count, n * (n - 1)))
    basis = np.eye(n)
    entry = 0
    for i in range(n):
        for j in range(n):
            if i != j:
                basis[i, j] = point[entry]
                basis[i, i] -= point[entry]
                entry += 1
    if not abs(np.linalg.det(basis)) >= _SINGULAR:
        return missed, slopes
    back = np.linalg.inv(basis)
    g = np.empty(updates.shape)
    for a in range(actions):
        for o in range(shown_count):
            g[a, o] = basis @ np.ascontiguousarray(updates[a, o]) @ back
    moves, shown, weight = _parts(g, departure)
    start = initial @ back
    _fill(g, moves, shown, start, departure, missed)
    change, entry = np.empty(g.shape), 0
    for i in range(n):
        for j in range(n):
            if i == j:
                continue
            row = back[j] - back[i]
            for a in range(actions):
                for o in range(shown_count):
                    for s in range(n):
                        for t in range(n):
                            change[a, o, s, t] = -g[a, o, s, i] * row[t]
                    for t in range(n):
                        for s in range(n):
                            change[a, o, i, t] += row[s] * g[a, o, s, t]
            _fill_slopes(g, moves, shown, weight, start, departure, change, -start[i] * row, slopes[:, entry])
            entry += 1
    return missed, slopes


@njit(cache=True)
def _parts(g, departure):  # type: ignore[no-untyped-def]
    """Transitions, what is shown by the state that shows it, and under arrival the weight of that state's column."""
    actions, shown_count, n, _ = g.shape
    moves, shown, weight = (
        np.zeros((actions, n, n)),
        np.zeros((actions, shown_count, n)),
        np.ones((actions, n)),
    )
    for a in range(actions):
        for o in range(shown_count):
            for s in range(n):
                for t in range(n):
                    moves[a, s, t] += g[a, o, s, t]
                    if departure:
                        shown[a, o, s] += g[a, o, s, t]
        if departure:
            continue
        for t in range(n):
            weight[a, t] = max((moves[a, :, t] ** 2).sum(), 1e-12)
            for o in range(shown_count):
                shown[a, o, t] = (g[a, o, :, t] * moves[a, :, t]).sum() / weight[a, t]
    return moves, shown, weight


@njit(cache=True)
def _fill(g, moves, shown, start, departure, missed):  # type: ignore[no-untyped-def]
    actions, shown_count, n, _ = g.shape
    place = 0
    for a in range(actions):
        for o in range(shown_count):
            for s in range(n):
                for t in range(n):
                    missed[place] = shown[a, o, s if departure else t] * moves[a, s, t] - g[a, o, s, t]
                    place += 1
    for part in (moves.ravel(), shown.ravel(), start):
        for value in part:
            missed[place] = min(value, 0.0)
            place += 1


@njit(cache=True)
def _fill_slopes(g, moves, shown, weight, start, departure, change, start_change, slopes):  # type: ignore[no-untyped-def]
    """Derivatives of `_fill`, where the updates change by ``change``."""
    actions, shown_count, n, _ = g.shape
    moved, showed = np.zeros(moves.shape), np.zeros(shown.shape)
    for a in range(actions):
        for o in range(shown_count):
            for s in range(n):
                for t in range(n):
                    moved[a, s, t] += change[a, o, s, t]
                    if departure:
                        showed[a, o, s] += change[a, o, s, t]
        if departure:
            continue
        for t in range(n):
            heavier = 2 * (moves[a, :, t] * moved[a, :, t]).sum()
            for o in range(shown_count):
                more = (change[a, o, :, t] * moves[a, :, t] + g[a, o, :, t] * moved[a, :, t]).sum()
                showed[a, o, t] = (more - shown[a, o, t] * heavier) / weight[a, t]
    place = 0
    for a in range(actions):
        for o in range(shown_count):
            for s in range(n):
                for t in range(n):
                    shows = s if departure else t
                    slopes[place] = (
                        showed[a, o, shows] * moves[a, s, t]
                        + shown[a, o, shows] * moved[a, s, t]
                        - change[a, o, s, t]
                    )
                    place += 1
    for part, moving in (
        (moves.ravel(), moved.ravel()),
        (shown.ravel(), showed.ravel()),
        (start, start_change),
    ):
        for k in range(len(part)):
            slopes[place] = moving[k] if part[k] < 0 else 0.0
            place += 1
