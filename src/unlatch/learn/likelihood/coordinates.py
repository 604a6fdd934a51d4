"""Coordinates in which the likelihood is easy to climb: scaled square roots of probabilities; and some in which the
prior of a dense model is easy to draw from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unlatch.arrays import Flags, Floats, Ints
from unlatch.learn.likelihood.parameters import ExpectedCounts, Parameters

__all__ = ["BrokenSticks", "SquareRoots"]


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


class BrokenSticks:
    """Coordinates in which the prior of a dense model, all distributions equally likely in every row, is the standard
    normal distribution.

    A row is a stick of which its entries break off shares one after the other. A share before k others is distributed
    as 1 - u^(1/k) with u uniform, so that u = Phi(-z) makes z normal; the last entry takes what is left.
    """

    def __init__(self, parameters: Parameters) -> None:
        self.like = parameters
        self._masks: list[Flags] = [rows > 0 for rows in parameters]
        behind = [mask[..., ::-1].cumsum(axis=-1)[..., ::-1] - mask for mask in self._masks]
        self._free: list[Flags] = [
            mask & (after > 0) for mask, after in zip(self._masks, behind, strict=True)
        ]
        self._others = [after[free] for after, free in zip(behind, self._free, strict=True)]
        self._ends = np.cumsum([len(others) for others in self._others])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def coordinates(self, parameters: Parameters) -> Floats:
        """Of a model with the same zeros."""
        from scipy.special import ndtri

        found = []
        for rows, free, others in zip(parameters.blocks, self._free, self._others, strict=True):
            left = rows[..., ::-1].cumsum(axis=-1)[..., ::-1]
            rest = ((left - rows)[free] / left[free]) ** others
            found.append(np.clip(-ndtri(rest), -_FAR, _FAR))
        return np.concatenate(found)

    def parameters(self, coordinates: Floats) -> Parameters:
        """The model at a point."""
        blocks = []
        for part, mask, free, others in self._parts(coordinates):
            kept, broken = np.zeros(mask.shape), np.zeros(mask.shape)  # logarithms of shares
            kept[free] = _log_tail(part) / others
            broken[free] = np.log(np.maximum(-np.expm1(kept[free]), _LEAST))
            blocks.append(np.where(mask, np.exp(broken + kept.cumsum(axis=-1) - kept), 0.0))
        return self.like.with_blocks(blocks)

    def gradient(self, coordinates: Floats, uses: Sequence[Floats]) -> Floats:
        """Of what has these derivatives by the logarithms of the probabilities; of the log-likelihood, the expected
        uses."""
        slopes = []
        for (part, _, free, others), used in zip(self._parts(coordinates), uses, strict=True):
            thinner, odds = _slopes(part, others)
            after = used[..., ::-1].cumsum(axis=-1)[..., ::-1] - used
            slopes.append(thinner * (used[free] * odds - after[free]))
        return np.concatenate(slopes)

    def jacobian(self, coordinates: Floats) -> Floats:
        """Derivatives of the logarithms of all positive probabilities, block by block, by the coordinates."""
        entries = sum(mask.size for mask in self._masks)
        result = np.zeros((entries, len(self)))
        above = column = 0
        for part, mask, free, others in self._parts(coordinates):
            thinner, odds = _slopes(part, others)
            width = mask.shape[-1]
            for place, slope, ratio in zip(np.flatnonzero(free), thinner, odds, strict=True):
                result[above + place, column] = slope * ratio
                result[above + place + 1 : above + (place // width + 1) * width, column] = -slope
                column += 1
            above += mask.size
        positive = np.concatenate([mask.reshape(-1) for mask in self._masks])
        chosen: Floats = result[positive]
        return chosen

    def _parts(self, coordinates: Floats) -> list[tuple[Floats, Flags, Flags, Ints]]:
        parts = np.split(coordinates, self._ends[:-1])
        return list(zip(parts, self._masks, self._free, self._others, strict=True))


_FAR = 8.0
"""Standard deviations beyond which a probability does not differ from zero or one."""

_LEAST = 1e-300


def _log_tail(z: Floats) -> Floats:
    from scipy.special import log_ndtr

    result: Floats = log_ndtr(-z)
    return result


def _slopes(z: Floats, others: Ints) -> tuple[Floats, Floats]:
    """By how much the logarithm of what is kept falls with z, and the odds of what is kept."""
    tail = _log_tail(z)
    kept = tail / others
    thinner = np.exp(-0.5 * z * z - 0.5 * np.log(2 * np.pi) - tail) / others
    return thinner, np.exp(kept) / np.maximum(-np.expm1(kept), _LEAST)
