"""The joint covariance of the numbers of a model, from what the log says about them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from unlatch import linalg
from unlatch.arrays import Floats
from unlatch.core.checks import frozen
from unlatch.core.intervals import KINDS, Entry, Method, entry_at
from unlatch.errors import ResourceLimitError
from unlatch.learn.intervals.fit import Fit
from unlatch.learn.likelihood.information import (
    beforehand,
    block_length,
    numbered_entries,
    outer_products,
    repeated_sums,
    unscaled_curvature,
)
from unlatch.learn.likelihood.scores import Coordinates

__all__ = ["Covariance", "RootCovariance", "root_covariance"]

_MOST = 3_000
"""Numbers whose joint covariance is computed: its inverse takes seconds, and seventy megabytes."""

_FEWEST_BLOCKS = 2
"""Blocks for every number without which the matrix of outer products has no inverse worth the name."""

_MANY_BLOCKS = 10_000
"""Blocks that are wanted whatever the numbers: a variance that is a sum over so many is known to a percent or two."""

_BEFOREHAND = 0.5
"""Visits of a row that are credited beforehand."""

_LONG_BLOCK = 500
"""Events in a block where the model does not fit, at most: its scores then remember what came before."""


@dataclass(frozen=True, eq=False)
class Covariance:
    """The covariance of the free numbers of a model: those that are neither fixed nor at the edge.

    Attributes
    ----------
    matrix : array, shape (entries, entries)
        Singular, since every row of probabilities sums to one.
    entries : tuple of Entry
        What every index stands for.

    Examples
    --------
    >>> from unlatch import domains, simulate, uncertainty
    >>> found = uncertainty(domains.tiger(), simulate(domains.tiger(), 1_000, rng=0)).covariance()
    >>> found.entries[found.index("observations", action=0, state=0, outcome=0)]
    Entry(kind='observations', action=0, state=0, outcome=0)
    """

    matrix: Floats
    entries: tuple[Entry, ...]

    def __repr__(self) -> str:
        return f"Covariance({len(self.entries)} numbers)"

    def index(
        self, kind: str, *, action: int | None = None, state: int | None = None, outcome: int
    ) -> int | None:
        """The index of a number; None if it is not free. A row that all actions share is found under each of them."""
        for place in (Entry(kind, action, state, outcome), Entry(kind, None, state, outcome)):
            if place in self._places:
                return self._places[place]
        return None

    @cached_property
    def _places(self) -> dict[Entry, int]:
        return {entry: index for index, entry in enumerate(self.entries)}


@dataclass(frozen=True, eq=False)
class RootCovariance:
    """The covariance of the square roots of the free numbers, in the directions that keep the sums of rows.

    Attributes
    ----------
    fit : Fit
    coordinates : Coordinates
        Of the free numbers.
    roots : array, shape (coordinates,)
        The squares of a row sum to one.
    matrix : array, shape (coordinates, coordinates)
    method : Method
    """

    fit: Fit
    coordinates: Coordinates
    roots: Floats
    matrix: Floats
    method: Method

    @cached_property
    def masses(self) -> Floats:
        """For every coordinate, what the free numbers of its row sum to: one, but for what is next to zero."""
        chosen = self.coordinates.gathered(self.fit.parameters.blocks)
        sizes = np.diff(self.coordinates.rows)
        sums = np.add.reduceat(chosen, self.coordinates.rows[:-1]) if len(chosen) else chosen
        return np.repeat(sums, sizes)

    @cached_property
    def slope(self) -> Floats:
        """Of the probabilities, by the roots: twice the root, on the diagonal."""
        result: Floats = 2 * self.roots * self.masses
        return result

    @cached_property
    def probabilities(self) -> Covariance:
        """Of the numbers themselves."""
        return Covariance(
            frozen(self.matrix * np.outer(self.slope, self.slope)),
            tuple(self._entry(which, place) for which, place in self._places()),
        )

    @cached_property
    def errors(self) -> list[Floats]:
        """Standard errors, for each of `Parameters.blocks`; not a number where there is none."""
        variances = np.diag(self.matrix) * self.slope**2
        return self.spread_out(np.sqrt(np.maximum(variances, 0.0)), np.nan)

    def spread_out(self, values: Floats, other: float) -> list[Floats]:
        """A value for every coordinate as arrays shaped like the model's, with ``other`` elsewhere."""
        blocks = []
        for numbers in self.coordinates.numbers:
            block = np.full(numbers.shape, other)
            block[numbers >= 0] = values[numbers[numbers >= 0]]
            blocks.append(block)
        return blocks

    def moved(self, roots: Floats) -> list[Floats]:
        """The numbers of the model with other roots, of any length, for the free ones."""
        squares = roots**2
        sums = np.add.reduceat(squares, self.coordinates.rows[:-1]) if len(squares) else squares
        shares = squares / np.repeat(sums, np.diff(self.coordinates.rows)) * self.masses
        blocks = []
        for rows, numbers in zip(self.fit.parameters, self.coordinates.numbers, strict=True):
            block = np.array(rows)
            block[numbers >= 0] = shares[numbers[numbers >= 0]]
            blocks.append(block)
        return blocks

    def _places(self) -> list[tuple[int, int]]:
        """Block and flat index of every coordinate."""
        places = [(0, 0)] * len(self.coordinates)
        for which, numbers in enumerate(self.coordinates.numbers):
            for index in np.flatnonzero(numbers >= 0):
                places[int(numbers.flat[index])] = which, int(index)
        return places

    def _entry(self, which: int, place: int) -> Entry:
        names = [kind for kind in KINDS if getattr(self.fit.pomdp, kind) is not None]
        entry = entry_at(names[which], self.coordinates.numbers[which].shape, place)
        shared = self.fit.parameters.shared and entry.kind == "observations"
        return entry._replace(action=None) if shared else entry


def root_covariance(fit: Fit, method: Method = "scores") -> RootCovariance:
    """The covariance of the square roots of all free numbers.

    In the square roots complete data say the same about all directions of a row: one for every visit. To what the log
    says is added what half a visit would, so that there is always an inverse; where the log says nothing, the standard
    error is then so large that all is possible.
    """
    coordinates, _ = numbered_entries(fit.parameters, fit.free, by_state=False)
    roots = coordinates.roots(fit.parameters)
    size = len(coordinates)
    if size == 0:
        return RootCovariance(fit, coordinates, roots, np.zeros((0, 0)), method)
    _refuse_too_many(size, fit)
    visits = coordinates.gathered([repeated_sums(uses) for uses in fit.counts.blocks])
    prior = beforehand(coordinates.rows, roots, visits, np.full(size, _BEFOREHAND))
    if method == "scores":
        covariance = _by_scores(fit, coordinates, prior)
    else:
        curvature = unscaled_curvature(fit.ascent, fit.likelihood, coordinates, "intervals")
        covariance = linalg.inverse(curvature + prior) / 4
        if method == "sandwich":
            length = int(np.clip(len(fit.likelihood.log) // (8 * size), 1, _LONG_BLOCK))
            scattered = _scattered(fit, coordinates, length) + prior
            covariance = 4 * covariance @ scattered @ covariance
    along = _along_rows(coordinates, roots)
    return RootCovariance(fit, coordinates, roots, frozen(along @ covariance @ along), method)


def _refuse_too_many(size: int, fit: Fit) -> None:
    if size > _MOST:
        raise ResourceLimitError(
            f"{size} numbers of the model are free; a joint covariance is computed of up to {_MOST}"
        )
    if len(fit.likelihood.log) < _FEWEST_BLOCKS * size:
        raise ResourceLimitError(
            f"{len(fit.likelihood.log)} events for {size} free numbers; for standard errors there must be at least "
            f"{_FEWEST_BLOCKS} each: learn from a longer log"
        )


def _by_scores(fit: Fit, coordinates: Coordinates, prior: Floats) -> Floats:
    """A matrix that is a sum over few blocks has an inverse that is too large, by the numbers over the blocks."""
    size, events = len(coordinates), len(fit.likelihood.log)
    length = min(
        block_length(size, fit.likelihood), max(1, events // max(_FEWEST_BLOCKS * size, _MANY_BLOCKS))
    )
    blocks = -(-events // length)
    inverse = linalg.inverse(_scattered(fit, coordinates, length) + prior)
    result: Floats = inverse / 4 * max(1 - (size + 1) / blocks, 1 / _FEWEST_BLOCKS)
    return result


def _scattered(fit: Fit, coordinates: Coordinates, length: int) -> Floats:
    """Outer products of half the scores of blocks."""
    whole = [slice(0, len(coordinates))]
    return outer_products(fit.parameters, fit.likelihood, coordinates, whole, "intervals", length=length)[0]


def _along_rows(coordinates: Coordinates, roots: Floats) -> Floats:
    """The projection on what does not merely rescale rows."""
    projection = np.eye(len(roots))
    for begin, end in pairwise(coordinates.rows):
        projection[begin:end, begin:end] -= np.outer(roots[begin:end], roots[begin:end])
    return projection
