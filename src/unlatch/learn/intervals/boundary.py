"""Numbers at zero or next to it, where no parabola fits the likelihood: how far it lets them rise, and whether it lets
the others fall to zero."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unlatch import linalg
from unlatch.arrays import Flags, Floats
from unlatch.errors import NumericalError
from unlatch.learn.intervals.fit import Fit
from unlatch.learn.likelihood.information import block_length, numbered_entries, outer_products

__all__ = ["greatest_zeros", "may_be_zero"]

_OPENED = 1e-9
"""Probability that a zero is opened by to see what the likelihood does: too little to change anything else."""

_RESISTED = 0.25
"""Share of a row's visits. A zero against which the likelihood falls by at least so much for every unit of probability
is bounded by the slope alone; of the others the curvature is asked too."""

_MOST_BENT = 300
"""Zeros whose curvature is asked for, those with the least slope first."""

_MOST_TRIED = 100
"""Small numbers that are tried as zero, a pass over the log each; the others are taken to be possibly zero."""


def greatest_zeros(fit: Fit, level: float) -> list[Floats]:
    """For each of `Parameters.blocks`, up to where every closed entry may rise; not a number elsewhere.

    With the slope -c and the curvature k of the log-likelihood at zero, others following, the bound u is where it has
    fallen by log(1 / (1 - level)): c u + k u^2 / 2. Were the states seen, an outcome that never came in n visits would
    have c = n, and the bound is the exact one: (1 - u)^n = 1 - level.
    """
    nats = -np.log1p(-level)
    slopes = _slopes(fit)
    bent = _curvatures(fit, slopes)
    bounds = []
    for slope, curvature, closed, rows in zip(slopes, bent, fit.closed, fit.parameters, strict=True):
        fall = np.where(closed, -slope, 1.0)
        k = np.where(closed, curvature, 0.0)
        root = np.sqrt(fall**2 + 2 * nats * k)
        with np.errstate(divide="ignore", invalid="ignore"):
            # 2 nats / (c + root) is the same as (root - c) / k, and holds for k = 0
            reach = np.where(fall + root > 0, 2 * nats / np.where(fall + root > 0, fall + root, 1.0), 1.0)
        bounds.append(np.where(closed, np.clip(reach + rows, 0.0, 1.0), np.nan))
    return bounds


def _slopes(fit: Fit) -> list[Floats]:
    """Of the log-likelihood by every closed entry, the rest of its row shrinking in proportion: one pass."""
    counts = fit.likelihood.counts(replace(fit.parameters.with_blocks(_ajar(fit)), dense=False))
    slopes = []
    for rows, uses in zip(_ajar(fit), counts.blocks, strict=True):
        visits = uses.sum(axis=-1, keepdims=True)
        slopes.append(np.divide(uses, rows, out=np.zeros_like(rows), where=rows > 0) - visits)
    return slopes


def _ajar(fit: Fit) -> list[Floats]:
    """The model with its zeros opened a little; a row whose zeros are opened still sums to one."""
    blocks = []
    for rows, closed in zip(fit.parameters, fit.closed, strict=True):
        opened = np.where(closed, np.maximum(rows, _OPENED), rows)
        blocks.append(opened / opened.sum(axis=-1, keepdims=True))
    return blocks


def _curvatures(fit: Fit, slopes: list[Floats]) -> list[Floats]:
    """Of minus the log-likelihood along every closed entry that the slope hardly bounds, free ones following; zero for
    others."""
    weak = _weakly_resisted(fit, slopes)
    result = [np.zeros(rows.shape) for rows in fit.parameters]
    if not any(flags.any() for flags in weak):
        return result
    ajar = fit.parameters.with_blocks(_ajar(fit))
    chosen = [free | flags for free, flags in zip(fit.free, weak, strict=True)]
    # an entry that is alone in its row has no direction of its own; with a zero beside it it does
    chosen = [
        flags | (used & flags.any(axis=-1, keepdims=True))
        for flags, used in zip(chosen, fit.used, strict=True)
    ]
    coordinates, _ = numbered_entries(ajar, chosen, by_state=False)
    length = block_length(len(coordinates), fit.likelihood)
    (products,) = outer_products(
        ajar, fit.likelihood, coordinates, [slice(0, len(coordinates))], "intervals", length=length
    )
    roots = coordinates.roots(ajar)
    by_probability = products / np.outer(roots, roots)
    is_weak = coordinates.gathered([flags.astype(float) for flags in weak]) > 0.5
    others = np.flatnonzero(~is_weak)
    following = products[np.ix_(others, others)] + np.diag(0.5 + roots[others] ** 2 * 0)
    following_inverse = linalg.inverse(following) if len(others) else np.zeros((0, 0))
    half = products[:, others] / roots[:, None]
    own = np.diag(by_probability) - np.einsum("ij,jk,ik->i", half, following_inverse, half)
    for block, numbers, flags in zip(result, coordinates.numbers, weak, strict=True):
        block[flags] = np.maximum(own[numbers[flags]], 0.0)
    return result


def _weakly_resisted(fit: Fit, slopes: list[Floats]) -> list[Flags]:
    weak, strength = [], []
    for slope, closed, uses in zip(slopes, fit.closed, fit.counts.blocks, strict=True):
        visits = np.maximum(uses.sum(axis=-1, keepdims=True), 1.0)
        strength.append(np.where(closed, -slope / visits, np.inf))
    values = np.concatenate([each.ravel() for each in strength])
    limit = _RESISTED
    if (values < limit).sum() > _MOST_BENT:
        limit = float(np.sort(values)[_MOST_BENT])
    for each in strength:
        weak.append(each < limit)
    return weak


def may_be_zero(fit: Fit, errors: list[Floats], sigmas: float) -> list[Flags]:
    """For each of `Parameters.blocks`, the free entries that may as well be zero.

    Those less than so many standard errors above it without which the log is still possible.
    """
    small = [
        free & (rows < sigmas * np.where(free, error, 0.0))
        for free, rows, error in zip(fit.free, fit.parameters, errors, strict=True)
    ]
    places = sorted(
        (float(fit.counts.blocks[which].flat[i]), which, int(i))
        for which, flags in enumerate(small)
        for i in np.flatnonzero(flags)
    )
    for _, which, index in places[-_MOST_TRIED:]:
        small[which].flat[index] = _possible_without(fit, which, index)
    return small


def _possible_without(fit: Fit, which: int, index: int) -> bool:
    blocks = [np.array(rows) for rows in fit.parameters]
    row = blocks[which].reshape(-1, blocks[which].shape[-1])[index // blocks[which].shape[-1]]
    row[index % len(row)] = 0.0
    if row.sum() <= 0:
        return False
    row /= row.sum()
    try:
        fit.likelihood.counts(fit.parameters.with_blocks(blocks))
    except NumericalError:
        return False
    return True
