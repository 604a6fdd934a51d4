"""How much a log says about every number of a model, and how much more it would say if nothing were hidden."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from unlatch import linalg
from unlatch.arrays import Flags, Floats, Ints
from unlatch.core.progress import report
from unlatch.learn.likelihood.climb import Ascent
from unlatch.learn.likelihood.coordinates import SquareRoots
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import Parameters
from unlatch.learn.likelihood.scores import Coordinates

__all__ = [
    "beforehand",
    "block_length",
    "information_by_differences",
    "information_by_scores",
    "information_matrix",
    "missing_information",
    "numbered_entries",
    "outer_products",
    "repeated_sums",
    "row_variances",
    "unscaled_curvature",
]

_SHORTEST_BLOCK = 5
"""Events in a block of a long log, at least. The way back into what came before costs the same for every block: short
are dear. In a short log, which has few blocks, a single event is one."""

_SHORT_LOG = 20_000
"""Events up to which a log is short in this sense."""

_LONGEST_BLOCK = 50
"""Events in a block, at most: the way back is rarely longer, so that little would be saved."""

_BLOCKS_PER_COORDINATE = 25
"""Blocks that are wanted for every coordinate. The matrix of outer products is noisy, which makes half the logarithm of
its determinant too small, by up to coordinates^2 / (4 blocks), and variances too large by coordinates / blocks."""

_FEWEST_BLOCKS = 8
"""Blocks for every coordinate without which outer products are not used, if it can be helped: from here on half the
log-determinant was within two nats or three percent of what is missing, whichever is more, of that by differences."""

_STEP = 0.05
"""Of the differences: a tenth of a standard error of complete data."""

_DIFFERENCES = 150
"""Coordinates up to which the information matrix is computed by differences, at two passes over the log each."""

_DIFFERENCE_WORK = 50_000_000
"""Passes times events times states that differences may take where the information is wanted of many models: about a
second on one core."""

_WHOLE = 2_000
"""Coordinates up to which the information of all of them together is computed: thirty megabytes, and a second or two
for outer products and determinant. Beyond, only that of each state's own coordinates is."""


def information_by_differences(
    roots: SquareRoots, likelihood: Likelihood, *, step: float = _STEP, stage: str = "information"
) -> Floats:
    """Minus the Hessian of the log-likelihood in square-root coordinates, by differences of its gradient.

    The direction that merely rescales a row is flat; it gets the curvature that all others have
    where nothing is hidden, so that the matrix can be inverted.
    Two passes over the log for every coordinate; progress is reported as ``stage``.
    """
    every = np.arange(len(roots.start))
    return _invertible(roots, _curvature(roots, likelihood, every, step, stage))


def information_by_scores(
    roots: SquareRoots, likelihood: Likelihood, *, stage: str = "information"
) -> Floats:
    """The information of a log in square-root coordinates, by the outer products of the scores of its blocks.

    As `information_by_differences`, of which it is the expectation near the maximum if the model is right; in a few
    passes over the log, whatever the number of coordinates. Blocks should be many times the coordinates.
    """
    parameters = roots.like
    coordinates, _ = numbered_entries(parameters, roots.masks, by_state=False)
    (products,) = outer_products(parameters, likelihood, coordinates, [slice(0, len(coordinates))], stage)
    scale = coordinates.roots(parameters) / roots.start
    information = 4 * products * np.outer(scale, scale) + np.diag(_pressed(roots, likelihood))
    return _invertible(roots, information)


def information_matrix(
    roots: SquareRoots, likelihood: Likelihood, *, stage: str = "information"
) -> Floats | None:
    """The information of a log in square-root coordinates: by scores if it has blocks enough for so many coordinates,
    else by differences; None if there are too many for these too."""
    size = len(roots.start)
    if _enough_blocks(size, likelihood):
        return information_by_scores(roots, likelihood, stage=stage)
    if size <= _DIFFERENCES:
        return information_by_differences(roots, likelihood, stage=stage)
    return None


def row_variances(roots: SquareRoots, information: Floats) -> Parameters:
    """Variance of every probability of the model, zero where the probability is fixed at zero."""
    covariance = linalg.inverse(information)
    variances = np.empty(len(roots.start))
    for row in roots.rows():
        x = roots.start[row]
        norm = x @ x
        slope = 2 * np.diag(x) / norm - 2 * np.outer(x**2, x) / norm**2  # of p = x^2 / |x|^2
        variances[row] = np.einsum("ij,jk,ik->i", slope, covariance[np.ix_(row, row)], slope)
    arrays = [np.zeros(mask.shape) for mask in roots.masks]
    for (which, index), variance in zip(roots.places(), variances, strict=True):
        arrays[which].flat[index] = max(variance, 0.0)
    return roots.like.with_blocks(arrays)


def missing_information(
    ascent: Ascent, likelihood: Likelihood, *, whole: int = _WHOLE, stage: str = "information"
) -> float:
    """Nats by which complete data would say more about the numbers of a model than the log does.

    Half the difference of the log-determinants of two information matrices, that of the complete data and that of the
    log, both beside what the prior says, as many visits of a row as it credits it with; in the square roots of the
    probabilities, where complete data say the same about all directions of a row: one for every visit. Where episodes
    begin is left out, since a single one says nothing about it, as are entries that the log has not used, and what is
    then alone in its row.

    Parameters
    ----------
    ascent : Ascent
        At a maximum of the likelihood, or near it.
    likelihood : Likelihood
    whole : int
        Coordinates up to which the log's matrix is computed as a whole. Beyond, only the blocks on its diagonal that
        belong to one state each: their determinants multiply to at least that of the whole (Fischer), so that the
        result is a lower bound, up to noise.
    stage : str
        The name under which progress is reported.
    """
    parameters = ascent.parameters
    coordinates, owners = numbered_entries(parameters, _used_entries(ascent), by_state=True)
    size, enough = len(coordinates), _enough_blocks(len(coordinates), likelihood)
    if size == 0:
        return 0.0
    parts = [slice(0, size)]
    work = 2 * size * len(likelihood.log) * parameters.n_states
    if not enough and size <= whole and work <= _DIFFERENCE_WORK:
        found = [unscaled_curvature(ascent, likelihood, coordinates, stage)]
    else:
        parts = parts if enough and size <= whole else owners
        found = outer_products(parameters, likelihood, coordinates, parts, stage)
    visits = coordinates.gathered([repeated_sums(uses) for uses in ascent.counts.blocks])
    roots = coordinates.roots(parameters)
    sizes = np.diff(coordinates.rows)
    prior = ascent.counts.prior * np.repeat(sizes, sizes)
    observed = sum(
        linalg.log_determinant(
            information + beforehand(_within(coordinates.rows, part), roots[part], visits[part], prior[part]),
            least=float(prior[part].min()),
        )
        for information, part in zip(found, parts, strict=True)
    )
    return 0.5 * (float(np.log(visits + prior).sum()) - observed)


def repeated_sums(uses: Floats) -> Floats:
    """For every entry the sum of its row."""
    return np.broadcast_to(uses.sum(axis=-1, keepdims=True), uses.shape)


def _used_entries(ascent: Ascent) -> list[Flags]:
    """For each block, the entries that the log has used, in rows with several; none of where episodes begin.

    An entry that the log has not used is at the edge of what is possible, where its score vanishes for every block and
    says nothing about its information.
    """
    chosen = [
        (rows > 0) & (uses > ascent.counts.least)
        for rows, uses in zip(ascent.parameters, ascent.counts.blocks, strict=True)
    ]
    chosen[0][:] = False
    return [used & (used.sum(axis=-1, keepdims=True) > 1) for used in chosen]


def numbered_entries(
    parameters: Parameters, chosen: Sequence[Flags], *, by_state: bool
) -> tuple[Coordinates, list[slice]]:
    """Coordinates for the chosen entries, and the range of those that each state owns.

    In the order of `Parameters.blocks`, or with all rows of a state together.
    """
    masks = [mask.reshape(-1, mask.shape[-1]) for mask in chosen]
    sizes = np.concatenate([mask.sum(axis=1) for mask in masks])
    owners = np.concatenate([np.arange(len(mask)) % parameters.n_states for mask in masks])
    order = np.argsort(owners, kind="stable") if by_state else np.arange(len(sizes))
    begins = np.zeros(len(sizes), dtype=np.int64)
    begins[order] = np.cumsum(sizes[order]) - sizes[order]
    numbers, done = [], 0
    for rows, mask in zip(parameters, masks, strict=True):
        own = begins[done : done + len(mask), None] + np.cumsum(mask, axis=1) - 1
        numbers.append(np.where(mask, own, -1).reshape(rows.shape))
        done += len(mask)
    starts = np.append(begins[order][sizes[order] > 0], sizes.sum())
    ends = np.cumsum(np.bincount(owners, weights=sizes).astype(np.int64))
    ranges = [slice(int(a), int(b)) for a, b in zip(np.append(0, ends), ends, strict=False) if b > a]
    return Coordinates(tuple(numbers), starts), ranges


def block_length(coordinates: int, likelihood: Likelihood) -> int:
    """Events in a block such that there are enough of them for so many coordinates, if it can be."""
    wanted = len(likelihood.log) // (_BLOCKS_PER_COORDINATE * coordinates)
    return int(np.clip(wanted, _shortest_block(likelihood), _LONGEST_BLOCK))


def _enough_blocks(size: int, likelihood: Likelihood) -> bool:
    return len(likelihood.log) >= _shortest_block(likelihood) * _FEWEST_BLOCKS * size


def _shortest_block(likelihood: Likelihood) -> int:
    return 1 if len(likelihood.log) <= _SHORT_LOG else _SHORTEST_BLOCK


def _pressed(roots: SquareRoots, likelihood: Likelihood) -> Floats:
    """Curvature of the square where the likelihood rises towards zero: a probability p = x^2 that it presses there has
    a score of zero, but with the slope -c of the likelihood in p the curvature 2 c."""
    slope = roots.gradient(roots.start, likelihood.counts(roots.like).blocks)
    return np.maximum(-slope / roots.start, 0.0)


def outer_products(
    parameters: Parameters,
    likelihood: Likelihood,
    coordinates: Coordinates,
    parts: list[slice],
    stage: str,
    *,
    length: int | None = None,
) -> list[Floats]:
    """Sums of outer products of half the scores of all blocks, for each part of the coordinates.

    Blocks have ``length`` events, by default as many as leave enough of them for the largest part.
    """
    if length is None:
        length = block_length(max(part.stop - part.start for part in parts), likelihood)
    return likelihood.score_products(parameters, coordinates, parts, length, stage)


def beforehand(rows: Ints, roots: Floats, visits: Floats, prior: Floats) -> Floats:
    """What the prior says in every direction; and what merely rescales a row has as much as complete data have of the
    others."""
    known = np.diag(prior)
    for begin, end in pairwise(rows):
        known[begin:end, begin:end] += visits[begin] * np.outer(roots[begin:end], roots[begin:end])
    return known


def _within(rows: Ints, part: slice) -> Ints:
    """The rows of a part of the coordinates, counted from its beginning."""
    inside: Ints = rows[(rows >= part.start) & (rows <= part.stop)] - part.start
    return inside


def _invertible(roots: SquareRoots, information: Floats) -> Floats:
    """With four for the direction that merely rescales a row, which all others have where nothing is hidden."""
    result = information + 1e-9 * np.eye(len(information))
    for row in roots.rows():
        x = roots.start[row] / np.sqrt(roots.start[row] @ roots.start[row])
        result[np.ix_(row, row)] += 4.0 * np.outer(x, x)
    return result


def unscaled_curvature(
    ascent: Ascent, likelihood: Likelihood, coordinates: Coordinates, stage: str
) -> Floats:
    """Minus a quarter of the Hessian in the square roots themselves, where complete data give the visits of a row."""
    roots = SquareRoots(ascent.parameters, ascent.counts)
    chosen = np.concatenate(
        [numbers[mask] for numbers, mask in zip(coordinates.numbers, roots.masks, strict=True)]
    )
    wanted = np.flatnonzero(chosen >= 0)[np.argsort(chosen[chosen >= 0])]
    scale = roots.start[wanted] / coordinates.roots(ascent.parameters)
    return _curvature(roots, likelihood, wanted, _STEP, stage) * np.outer(scale, scale) / 4


def _curvature(roots: SquareRoots, likelihood: Likelihood, wanted: Ints, step: float, stage: str) -> Floats:
    """Minus the Hessian in some of the coordinates."""
    rows = np.empty((len(wanted), len(wanted)))
    for done, i in enumerate(wanted):
        ahead, behind = roots.start.copy(), roots.start.copy()
        ahead[i] += step
        behind[i] -= step
        difference = _slope(roots, behind, likelihood) - _slope(roots, ahead, likelihood)
        rows[done] = difference[wanted] / (2 * step)
        report(stage, done + 1, len(wanted))
    return (rows + rows.T) / 2


def _slope(roots: SquareRoots, point: Floats, likelihood: Likelihood) -> Floats:
    return roots.gradient(point, likelihood.counts(roots.parameters(point)).blocks)
