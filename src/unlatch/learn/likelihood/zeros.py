"""Zeros that the log supports: entries that are not worth their price, found from the maximum of the likelihood."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from unlatch import linalg
from unlatch.arrays import Floats
from unlatch.core.budget import ending
from unlatch.errors import NumericalError
from unlatch.learn.likelihood.bic import free_parameters, parameter_price
from unlatch.learn.likelihood.climb import Ascent
from unlatch.learn.likelihood.coordinates import SquareRoots
from unlatch.learn.likelihood.information import information_matrix
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import Parameters
from unlatch.learn.likelihood.sparse_em import thrifty
from unlatch.learn.likelihood.starts import climb_or_open, opened
from unlatch.learn.significance import EXACT, OPPORTUNITIES, USED

__all__ = ["Entry", "maximize", "with_established_zeros"]

_RARELY_USED = 3.0
"""Expected uses below which an entry is tried as a zero at once, without asking for its standard error."""

_DOUBT = 0.5
"""Share of a parameter's price that an entry must be worth to stay. The whole price would be that of BIC, but closing
an entry wrongly costs about three standard errors, and leaving one open wrongly costs less than one."""

_MAX_INFORMATION = 1_000
"""Entries up to which zeros are judged by the information matrix: it and its inverse are cheap up to here."""

_NEGLIGIBLE = 1e-9


Entry = tuple[int, int]
"""One probability of a model: which of its blocks (`Parameters.blocks`), and its flat index there."""


def maximize(
    start: Parameters, likelihood: Likelihood, *, passes: int = 400, zeros: bool = True
) -> tuple[Ascent, int]:
    """The maximum near ``start`` and the number of entries set to zero on the way.

    Zeros are looked for in two ways, one by one from the maximum and by `thrifty`; the better model is taken. At the
    end of the budget it is the best found by then.
    """
    whole = _climbed(opened(start, likelihood.log), likelihood, passes)
    if not zeros:
        return whole, 0
    best = whole
    with ending():
        for simpler in _simplified(whole, likelihood, passes):
            best = simpler
        saved = thrifty(whole.parameters, likelihood)
        if saved is not None:
            *_, other = _simplified(_climbed(saved, likelihood, passes), likelihood, passes)
            best = max(best, other, key=lambda found: found.log_likelihood - _worth(found, likelihood.steps))
    return best, _positive(whole) - _positive(best)


def with_established_zeros(ascent: Ascent) -> tuple[Parameters, int]:
    """The model whose zeros the log had opportunities against, and in how many rows others were opened.

    A row that was visited a few times gets one visit more, spread over all that it might have led to, or that any row
    of its action has shown: so its zeros become small probabilities, and a log that shows one is not impossible.
    Rows without visits mean nothing, and where episodes begin is left alone.
    """
    start, moves, *shown = zip(ascent.parameters, ascent.counts.blocks, strict=True)
    blocks, opened_rows = [start[0]], 0
    for rows, uses in (moves, *shown):
        visits = uses.sum(axis=-1, keepdims=True)
        might = np.ones(rows.shape, bool) if uses is moves[1] else uses.sum(axis=-2, keepdims=True) > 0
        missing = ((rows <= 0) & might).any(axis=-1, keepdims=True)
        weak = (visits >= USED) & (visits < OPPORTUNITIES) & missing
        spread = might / np.maximum(might.sum(axis=-1, keepdims=True), 1)
        blocks.append(np.where(weak, (visits * rows + spread) / (visits + 1), rows))
        opened_rows += int(weak.sum())
    return ascent.parameters.with_blocks(blocks), opened_rows


def _worth(ascent: Ascent, steps: int) -> float:
    """What all parameters together must be worth."""
    return _price(steps) * free_parameters(ascent)


def _price(steps: int) -> float:
    """Nats that an entry must be worth to stay."""
    return _DOUBT * parameter_price(steps)


def _positive(ascent: Ascent) -> int:
    """Entries that are not zero."""
    return sum(int(np.count_nonzero(rows)) for rows in ascent.parameters)


def _climbed(start: Parameters, likelihood: Likelihood, passes: int, target: float | None = None) -> Ascent:
    return climb_or_open(start, likelihood, passes=passes, target=target, stage="refining")


def _simplified(ascent: Ascent, likelihood: Likelihood, passes: int) -> Iterator[Ascent]:
    """The model itself, then with more and more entries set to zero, as long as they are not worth their price."""
    yield ascent
    refused: set[Entry] = set()
    for propose in (_rarely_used, _insignificant):
        while True:
            candidates = [entry for entry in propose(ascent, likelihood) if entry not in refused]
            dropped: set[Entry] = set()
            for ascent, group in _without(ascent, candidates, likelihood, passes):  # noqa: B020 - the next from the last
                dropped |= set(group)
                yield ascent
            if not dropped:
                break
            refused |= set(candidates) - dropped


def _without(
    ascent: Ascent, candidates: list[Entry], likelihood: Likelihood, passes: int
) -> Iterator[tuple[Ascent, list[Entry]]]:
    """Set candidates to zero where that pays; gives the model after every group of entries, and the group.

    All are tried at once. A group that does not pay is tried again in two halves, so that a few entries that
    are needed after all do not keep the others.
    """
    groups = [candidates] if candidates else []
    while groups:
        group = groups.pop()
        least = ascent.log_likelihood - _price(likelihood.steps) * len(group)
        simpler = _climbed_without(ascent, group, likelihood, passes, least)
        if simpler is not None and simpler.log_likelihood > least:
            ascent = simpler
            yield ascent, group
        elif len(group) > 1:
            middle = len(group) // 2
            groups += [group[middle:], group[:middle]]


def _climbed_without(
    ascent: Ascent, entries: list[Entry], likelihood: Likelihood, passes: int, least: float
) -> Ascent | None:
    """The maximum without these entries, or None if the log is impossible without them."""
    simpler = _zeroed(ascent.parameters, entries)
    if simpler is None:
        return None
    try:
        likelihood.counts(simpler)
    except NumericalError:
        return None
    return _climbed(simpler, likelihood, passes, least)


def _rarely_used(ascent: Ascent, likelihood: Likelihood) -> list[Entry]:
    """Entries with the fewest expected uses, rarest first."""
    found = []
    for which, (rows, uses) in enumerate(zip(ascent.parameters, ascent.counts.blocks, strict=True)):
        if which == 0:
            continue  # a single episode says next to nothing about where episodes begin
        visited = uses.sum(axis=-1, keepdims=True) > 2 * _RARELY_USED
        rare = (rows > 0) & (rows < 0.5) & (uses < _RARELY_USED) & visited
        found += [(float(uses.flat[i]), which, int(i)) for i in np.flatnonzero(rare)]
    return [(which, index) for _, which, index in sorted(found)]


def _insignificant(ascent: Ascent, likelihood: Likelihood) -> list[Entry]:
    """Entries that should not be worth their price, by the information matrix.

    Near zero the likelihood is a parabola in the probability p, so that removing an entry with standard error e
    costs about (p / e)^2 / 2 nats. In square-root coordinates p = x^2 has the error 2 x e(x): the cost is
    (x / e(x))^2 / 8.
    """
    roots = SquareRoots(ascent.parameters, ascent.counts)
    size = len(roots.start)
    if size > _MAX_INFORMATION:
        return []
    information = information_matrix(roots, likelihood, stage="judging zeros")
    if information is None:
        return []
    covariance = linalg.inverse(information)
    price = _price(likelihood.steps)
    halves = roots.start / 2
    worth = 0.5 * halves**2 / np.maximum(np.diag(covariance), 1e-300)
    places = roots.places()
    order = np.argsort(worth)
    chosen: list[int] = []
    loss, inverse = 0.0, np.zeros((0, 0))  # of all that are chosen together, and of their covariance
    for i in order:
        which, index = places[i]
        if worth[i] > price or which == 0 or ascent.parameters.blocks[which].flat[index] > 0.5:
            continue
        weights = inverse @ covariance[chosen, i]
        own = covariance[i, i] - covariance[i, chosen] @ weights  # variance, given the others
        if own <= EXACT * covariance[i, i]:
            continue  # settled by them
        more = 0.5 * (halves[i] - weights @ halves[chosen]) ** 2 / own
        if loss + more <= price * (len(chosen) + 1):
            chosen.append(int(i))
            loss += float(more)
            inverse = _bordered(inverse, weights, own)
    return [places[i] for i in chosen]


def _bordered(inverse: Floats, weights: Floats, own: float) -> Floats:
    """The inverse of a covariance with one more row and column: ``weights`` predict the new variable from the others,
    and ``own`` is the variance that is left."""
    ahead = np.append(-weights, 1.0)
    result = np.outer(ahead, ahead) / own
    result[:-1, :-1] += inverse
    return result


def _zeroed(parameters: Parameters, entries: list[Entry]) -> Parameters | None:
    """The model with these entries zero, rows renormalized; None if a row would be empty."""
    arrays = [rows.copy() for rows in parameters]
    for which, index in entries:
        arrays[which].flat[index] = 0.0
    sums = [rows.sum(axis=-1, keepdims=True) for rows in arrays]
    if any((total <= _NEGLIGIBLE).any() for total in sums):
        return None
    return parameters.with_blocks(rows / total for rows, total in zip(arrays, sums, strict=True))
