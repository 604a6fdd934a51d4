"""Zeros that the log supports: entries that are not worth their price, found from the maximum of the likelihood."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from unlatch import linalg
from unlatch.core.pomdp import Emission
from unlatch.core.progress import report
from unlatch.errors import BeliefCollapseError
from unlatch.learn.likelihood.bic import free_parameters, parameter_price
from unlatch.learn.likelihood.climb import Ascent
from unlatch.learn.likelihood.coordinates import SquareRoots
from unlatch.learn.likelihood.forward_backward import expected_counts
from unlatch.learn.likelihood.information import information_matrix
from unlatch.learn.likelihood.parameters import EncodedLog, Parameters
from unlatch.learn.likelihood.sparse_em import thrifty
from unlatch.learn.likelihood.starts import climb_or_open, opened

__all__ = ["Entry", "maximize"]

_RARELY_USED = 3.0
"""Expected uses below which an entry is tried as a zero at once, without asking for its standard error."""

_DOUBT = 0.5
"""Share of a parameter's price that an entry must be worth to stay. The whole price would be that of BIC, but closing
an entry wrongly costs about three standard errors, and leaving one open wrongly costs less than one."""

_MAX_INFORMATION = 150
"""Free entries up to which the information matrix is computed, at one pass over the log each."""

_NEGLIGIBLE = 1e-9


Entry = tuple[int, int]
"""One probability of a model: which array (initial, transitions, observations), and its flat index there."""


def maximize(
    start: Parameters,
    log: EncodedLog,
    *,
    emission: Emission = "departure",
    evaluations: int = 400,
    zeros: bool = True,
    deadline: float | None = None,
) -> tuple[Ascent, int]:
    """The maximum near ``start`` and the number of entries set to zero on the way.

    Zeros are looked for in two ways, one by one from the maximum and by `thrifty`; the better model is taken.
    """
    maximizer = _Maximizer(log, emission, evaluations, deadline)
    ascent = maximizer.climbed(opened(start, log))
    if not zeros or ascent.interrupted:
        return ascent, 0
    best = ascent
    try:
        best = maximizer.with_zeros(ascent)
        saved = thrifty(ascent.parameters, log, emission=emission, deadline=deadline)
        if saved is not None:
            other = maximizer.with_zeros(maximizer.climbed(saved))
            best = max(best, other, key=lambda found: found.log_likelihood - _worth(found, len(log)))
    except KeyboardInterrupt:
        best = replace(best, converged=False, interrupted=True)
    return best, _positive(ascent) - _positive(best)


def _worth(ascent: Ascent, steps: int) -> float:
    """What all parameters together must be worth."""
    return _DOUBT * parameter_price(steps) * free_parameters(ascent)


def _positive(ascent: Ascent) -> int:
    """Entries that are not zero."""
    return sum(int(np.count_nonzero(rows)) for rows in ascent.parameters)


class _Maximizer:
    """Climbs one log, and sets entries to zero where that pays."""

    def __init__(self, log: EncodedLog, emission: Emission, evaluations: int, deadline: float | None) -> None:
        self._log, self._emission = log, emission
        self._evaluations, self._deadline = evaluations, deadline

    def climbed(self, start: Parameters, target: float | None = None) -> Ascent:
        most = self._evaluations
        return climb_or_open(
            start,
            self._log,
            emission=self._emission,
            evaluations=most,
            target=target,
            deadline=self._deadline,
            on_step=lambda done, _: report("refining", min(done, most), most),
        )

    def with_zeros(self, ascent: Ascent) -> Ascent:
        """Entries set to zero as long as they are not worth their price, those with the fewest uses first."""
        refused: set[Entry] = set()
        for propose in (_rarely_used, _insignificant):
            while self._deadline is None or time.monotonic() < self._deadline:
                if ascent.interrupted:
                    raise KeyboardInterrupt
                candidates = [e for e in propose(ascent, self._log, self._emission) if e not in refused]
                ascent, dropped = self._without(ascent, candidates)
                if not dropped:
                    break
                refused |= set(candidates) - dropped
        return ascent

    def _without(self, ascent: Ascent, candidates: list[Entry]) -> tuple[Ascent, set[Entry]]:
        """Set candidates to zero where that pays; gives the model and the entries.

        All are tried at once. A group that does not pay is tried again in two halves, so that a few entries that
        are needed after all do not keep the others.
        """
        price = _DOUBT * parameter_price(len(self._log))
        dropped: set[Entry] = set()
        groups = [candidates] if candidates else []
        while groups:
            group = groups.pop()
            least = ascent.log_likelihood - price * len(group)
            simpler = self._climbed_without(ascent, group, least)
            if simpler is not None and simpler.log_likelihood > least:
                ascent, dropped = simpler, dropped | set(group)
            elif len(group) > 1:
                middle = len(group) // 2
                groups += [group[middle:], group[:middle]]
        return ascent, dropped

    def _climbed_without(self, ascent: Ascent, entries: list[Entry], least: float) -> Ascent | None:
        """The maximum without these entries, or None if the log is impossible without them."""
        simpler = _zeroed(ascent.parameters, entries)
        if simpler is None:
            return None
        try:
            expected_counts(simpler, self._log, emission=self._emission)
        except BeliefCollapseError:
            return None
        climbed = self.climbed(simpler, least)
        if climbed.interrupted:
            raise KeyboardInterrupt
        return climbed


def _rarely_used(ascent: Ascent, log: EncodedLog, emission: Emission) -> list[Entry]:
    """Entries with the fewest expected uses, rarest first."""
    found = []
    expected = (ascent.counts.initial, ascent.counts.transitions, ascent.counts.observations)
    for which, (rows, uses) in enumerate(zip(ascent.parameters, expected, strict=True)):
        if which == 0:
            continue  # a single episode says next to nothing about where episodes begin
        visited = uses.sum(axis=-1, keepdims=True) > 2 * _RARELY_USED
        rare = (rows > 0) & (rows < 0.5) & (uses < _RARELY_USED) & visited
        found += [(float(uses.flat[i]), which, int(i)) for i in np.flatnonzero(rare)]
    return [(which, index) for _, which, index in sorted(found)]


def _insignificant(ascent: Ascent, log: EncodedLog, emission: Emission) -> list[Entry]:
    """Entries that should not be worth their price, by the information matrix.

    Near zero the likelihood is a parabola in the probability p, so that removing an entry with standard error e
    costs about (p / e)^2 / 2 nats. In square-root coordinates p = x^2 has the error 2 x e(x): the cost is
    (x / e(x))^2 / 8.
    """
    roots = SquareRoots(ascent.parameters, ascent.counts)
    size = len(roots.start)
    if size > _MAX_INFORMATION:
        return []
    information = information_matrix(
        roots, log, emission, on_step=lambda done, of: report("judging zeros", done, of)
    )
    covariance = linalg.inverse(information)
    price = _DOUBT * parameter_price(len(log))
    halves = roots.start / 2
    worth = 0.5 * halves**2 / np.maximum(np.diag(covariance), 1e-300)
    places = roots.places()
    order = np.argsort(worth)
    chosen: list[int] = []
    for i in order:
        which, index = places[i]
        if worth[i] > price or which == 0 or ascent.parameters[which].flat[index] > 0.5:
            continue
        together = [*chosen, int(i)]
        block = covariance[np.ix_(together, together)]
        loss = 0.5 * halves[together] @ linalg.inverse(block) @ halves[together]
        if loss <= price * len(together):
            chosen = together
    return [places[i] for i in chosen]


def _zeroed(parameters: Parameters, entries: list[Entry]) -> Parameters | None:
    """The model with these entries zero, rows renormalized; None if a row would be empty."""
    arrays = [rows.copy() for rows in parameters]
    for which, index in entries:
        arrays[which].flat[index] = 0.0
    sums = [rows.sum(axis=-1, keepdims=True) for rows in arrays]
    if any((total <= _NEGLIGIBLE).any() for total in sums):
        return None
    return Parameters(*(rows / total for rows, total in zip(arrays, sums, strict=True)))
