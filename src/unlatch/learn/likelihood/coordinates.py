"""Coordinates in which the likelihood is easy to climb: scaled square roots of probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unlatch.arrays import Flags, Floats, Ints
from unlatch.learn.likelihood.parameters import ExpectedCounts, Parameters

__all__ = ["SquareRoots"]


class SquareRoots:
    """The scaled square-root coordinates of the positive entries of a model."""

    def __init__(self, parameters: Parameters, counts: ExpectedCounts) -> None:
        self.like = parameters
        self.masks: list[Flags] = [rows > 0 for rows in parameters]
        self._scales = [np.sqrt(np.maximum(rows.sum(axis=-1, keepdims=True), 1.0)) for rows in counts.blocks]
        self.start = self.coordinates(parameters)

    def coordinates(self, parameters: Parameters) -> Floats:
        """Of a model that has no positive entries beyond those of the first."""
        return np.concatenate(
            [(np.sqrt(r) * s)[m] for r, s, m in zip(parameters, self._scales, self.masks, strict=True)]
        )

    def places(self) -> list[tuple[int, int]]:
        """For every coordinate: which of the blocks and its flat index there."""
        return [(which, int(i)) for which, mask in enumerate(self.masks) for i in np.flatnonzero(mask)]

    def rows(self) -> list[Ints]:
        """The coordinates of every row of probabilities."""
        rows, position = [], 0
        for mask in self.masks:
            for size in mask.reshape(-1, mask.shape[-1]).sum(axis=1):
                rows.append(np.arange(position, position + int(size)))
                position += int(size)
        return rows

    def _roots(self, coordinates: Floats) -> list[Floats]:
        roots, position = [], 0
        for mask, scale in zip(self.masks, self._scales, strict=True):
            rows = np.zeros(mask.shape)
            size = int(mask.sum())
            rows[mask] = coordinates[position : position + size]
            position += size
            roots.append(rows / scale)
        return roots

    def parameters(self, coordinates: Floats) -> Parameters:
        """The model at a point; all rows are distributions, whatever the point."""
        squares = [rows * rows for rows in self._roots(coordinates)]
        return self.like.with_blocks(rows / rows.sum(axis=-1, keepdims=True) for rows in squares)

    def gradient(self, coordinates: Floats, uses: Sequence[Floats]) -> Floats:
        """Of the log-likelihood; the expected uses of every entry are all that it takes."""
        parts = []
        for roots, visits, mask, scale in zip(
            self._roots(coordinates), uses, self.masks, self._scales, strict=True
        ):
            norms = (roots * roots).sum(axis=-1, keepdims=True)
            ratio = np.divide(visits, roots, out=np.zeros_like(roots), where=np.abs(roots) > 1e-100)
            slope = 2 * (ratio - roots / norms * visits.sum(axis=-1, keepdims=True))
            parts.append((slope / scale)[mask])
        return np.concatenate(parts)
