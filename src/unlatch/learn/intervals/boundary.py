"""Numbers at zero or next to it, where no parabola fits the likelihood: how far it lets them rise, and whether it lets
the others fall to zero."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unlatch import linalg
from unlatch.arrays import Flags, Floats
from unlatch.errors import NumericalError
from unlatch.learn.intervals.fit import Fit
from unlatch.learn.likelihood.information import numbered_entries, outer_products
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import Parameters

__all__ = ["greatest_zeros", "may_be_zero", "zero_slopes"]

_OPENED = 1e-9
"""Probability that a zero is opened by to see what the likelihood does: too little to change anything else."""

_RESISTED = 0.25
"""Share of a row's visits. A zero against which the likelihood falls by at least so much for every unit of probability
is bounded by the slope alone; of the others the curvature is asked too."""

_MOST_BENT = 300
"""Zeros whose curvature is asked for, those with the least slope first."""

_A_LITTLE = 0.5
"""Visits credited beforehand, so that there is an inverse."""

_MOST_TRIED = 100
"""Small numbers that are tried as zero, a pass over the log each; the others are taken to be possibly zero."""


def greatest_zeros(fit: Fit, level: float) -> list[Floats]:
    """For each of `Parameters.blocks`, up to where every closed entry may rise; not a number elsewhere.

    With the slope -c and the curvature k of the log-likelihood at zero, others following, the bound u is where it has
    fallen by log(1 / (1 - level)): c u + k u^2 / 2. Were the states seen, an outcome that never came in n visits would
    have c = n, and the bound is the exact one: (1 - u)^n = 1 - level.
    """
    nats = -np.log1p(-level)
    slopes = zero_slopes(fit.parameters, fit.closed, fit.likelihood)
    bounds = []
    for slope, k, closed, rows in zip(
        slopes, _curvatures(fit, slopes), fit.closed, fit.parameters, strict=True
    ):
        reach = _fallen(-slope[closed], k[closed], nats)
        block = np.full(rows.shape, np.nan)
        block[closed] = np.minimum(rows[closed] + reach, 1.0)
        bounds.append(block)
    return bounds


def _fallen(slope: Floats, curvature: Floats, nats: float) -> Floats:
    """Where slope u + curvature u^2 / 2 comes to so many nats; one where it does not."""
    divisor = slope + np.sqrt(
        slope**2 + 2 * nats * curvature
    )  # without a difference, and for no curvature too
    return np.where(divisor > 0, 2 * nats / np.where(divisor > 0, divisor, 1.0), 1.0)


def zero_slopes(parameters: Parameters, closed: list[Flags], likelihood: Likelihood) -> list[Floats]:
    """Of the log-likelihood by every closed entry, the rest of its row shrinking in proportion: one pass."""
    ajar = _ajar(parameters, closed)
    counts = likelihood.counts(replace(parameters.with_blocks(ajar), dense=False))
    slopes = []
    for rows, uses in zip(ajar, counts.blocks, strict=True):
        visits = uses.sum(axis=-1, keepdims=True)
        slopes.append(np.divide(uses, rows, out=np.zeros_like(rows), where=rows > 0) - visits)
    return slopes


def _ajar(parameters: Parameters, closed: list[Flags]) -> list[Floats]:
    """The model with its zeros opened a little; a row whose zeros are opened still sums to one."""
    blocks = []
    for rows, zeros in zip(parameters, closed, strict=True):
        opened = np.where(zeros, np.maximum(rows, _OPENED), rows)
        blocks.append(opened / opened.sum(axis=-1, keepdims=True))
    return blocks


def _curvatures(fit: Fit, slopes: list[Floats]) -> list[Floats]:
    """Of minus the log-likelihood along every closed entry that the slope hardly bounds, free ones following; zero for
    others."""
    weak = _weakly_resisted(fit, slopes)
    result = [np.zeros(rows.shape) for rows in fit.parameters]
    if not any(flags.any() for flags in weak):
        return result
    ajar = fit.parameters.with_blocks(_ajar(fit.parameters, fit.closed))
    chosen = [
        free
        | flags
        | (used & flags.any(axis=-1, keepdims=True))  # with a zero beside it a single entry can move
        for free, flags, used in zip(fit.free, weak, fit.used, strict=True)
    ]
    coordinates, _ = numbered_entries(ajar, chosen, by_state=False)
    whole = [slice(0, len(coordinates))]
    (products,) = outer_products(ajar, fit.likelihood, coordinates, whole, "intervals")
    roots = coordinates.roots(ajar)
    others = np.flatnonzero(coordinates.gathered([flags.astype(np.float64) for flags in weak]) == 0)
    following = linalg.inverse(products[np.ix_(others, others)] + _A_LITTLE * np.eye(len(others)))
    half = products[:, others] / roots[:, None]  # from roots to probabilities: half the score over the root
    own = np.diag(products) / roots**2 - np.einsum("ij,jk,ik->i", half, following, half)
    for block, numbers, flags in zip(result, coordinates.numbers, weak, strict=True):
        block[flags] = np.maximum(own[numbers[flags]], 0.0)
    return result


def _weakly_resisted(fit: Fit, slopes: list[Floats]) -> list[Flags]:
    """The closed entries against which the likelihood falls by little."""
    shares = [
        np.where(closed, -slope / np.maximum(uses.sum(axis=-1, keepdims=True), 1.0), np.inf)
        for slope, closed, uses in zip(slopes, fit.closed, fit.counts.blocks, strict=True)
    ]
    least = np.sort(np.concatenate([block.ravel() for block in shares]))[: _MOST_BENT + 1]
    limit = min(_RESISTED, float(least[-1])) if len(least) > _MOST_BENT else _RESISTED
    return [block < limit for block in shares]


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
    without = fit.parameters.with_blocks(blocks)
    try:
        for likelihood in dict.fromkeys((fit.likelihood.sample, fit.likelihood)):
            likelihood.log_likelihood(without)
    except NumericalError:
        return False
    return True
