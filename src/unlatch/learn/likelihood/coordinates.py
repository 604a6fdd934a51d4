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
        places, rows, scales = [], [], []
        entries = numbers = 0  # of the blocks before
        for mask, uses in zip(self.masks, counts.blocks, strict=True):
            inside = np.flatnonzero(mask)
            row = inside // mask.shape[-1]
            places.append(inside + entries)
            rows.append(row + numbers)
            scales.append(np.sqrt(np.maximum(uses.sum(axis=-1), 1.0)).reshape(-1)[row])
            entries, numbers = entries + mask.size, numbers + mask.size // mask.shape[-1]
        # All entries that are free as one vector, with the row and the scale of each: a pass of a small model over a
        # short log takes no longer than a few calls of NumPy.
        self._places, self._scale = np.concatenate(places), np.concatenate(scales)
        new = np.diff(np.concatenate(rows), prepend=-1) != 0
        self._begins, self._rows = np.flatnonzero(new), np.cumsum(new) - 1
        self.start = self.coordinates(parameters)

    def coordinates(self, parameters: Parameters) -> Floats:
        """Of a model that has no positive entries beyond those of the first."""
        result: Floats = np.sqrt(self._gathered(parameters.blocks)) * self._scale
        return result

    def _gathered(self, blocks: Sequence[Floats]) -> Floats:
        """The free entries of arrays that are shaped as the blocks of the model."""
        result: Floats = np.concatenate([rows.reshape(-1) for rows in blocks])[self._places]
        return result

    def _sums(self, values: Floats) -> Floats:
        """For every free entry the sum of its row."""
        result: Floats = np.add.reduceat(values, self._begins)[self._rows]
        return result

    def places(self) -> list[tuple[int, int]]:
        """For every coordinate: which of the blocks and its flat index there."""
        return [(which, int(i)) for which, mask in enumerate(self.masks) for i in np.flatnonzero(mask)]

    def rows(self) -> list[Ints]:
        """The coordinates of every row of probabilities."""
        return np.split(np.arange(len(self._rows)), self._begins[1:])

    def parameters(self, coordinates: Floats) -> Parameters:
        """The model at a point; all rows are distributions, whatever the point."""
        squares = (coordinates / self._scale) ** 2
        entries = np.zeros(sum(mask.size for mask in self.masks))
        entries[self._places] = squares / self._sums(squares)
        ends = np.cumsum([mask.size for mask in self.masks])
        blocks = np.split(entries, ends[:-1])
        return self.like.with_blocks(
            rows.reshape(mask.shape) for rows, mask in zip(blocks, self.masks, strict=True)
        )

    def gradient(self, coordinates: Floats, uses: Sequence[Floats]) -> Floats:
        """Of the log-likelihood; the expected uses of every entry are all that it takes."""
        roots, used = coordinates / self._scale, self._gathered(uses)
        ratio = np.divide(used, roots, out=np.zeros_like(roots), where=np.abs(roots) > 1e-100)
        slope: Floats = 2 * (ratio - roots / self._sums(roots * roots) * self._sums(used)) / self._scale
        return slope
