"""Zeros that the log supports: entries without which there is no less evidence for the model, found from the maximum of
the likelihood; and which of them it had too few opportunities against."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from unlatch import linalg
from unlatch.arrays import Flags, Floats
from unlatch.core.budget import ending
from unlatch.errors import NumericalError
from unlatch.learn.likelihood.climb import Ascent
from unlatch.learn.likelihood.coordinates import SquareRoots
from unlatch.learn.likelihood.information import information_matrix
from unlatch.learn.likelihood.marginal import Candidate, complete_evidence, entry_prices, judged, unseen_odds
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import Parameters
from unlatch.learn.likelihood.sparse_em import thrifty
from unlatch.learn.likelihood.starts import DENSE_STATES, climb_or_open, opened, reopened
from unlatch.learn.significance import EXACT, UNSEEN

__all__ = [
    "EXPLAINED",
    "NO_DIFFERENCE",
    "Entry",
    "climbed_on",
    "maximize",
    "simplest",
    "with_established_zeros",
]

_RARELY_USED = 3.0
"""Expected uses below which an entry is tried as a zero at once, without asking for its standard error."""

_MAX_INFORMATION = 1_000
"""Entries up to which zeros are judged by the information matrix: it and its inverse are cheap up to here."""

_HALVINGS = 8
"""How often a group of entries that is not worth closing is tried again in halves: every try is a climb, which is dear
with many states. Eight take some hundred entries down to single ones. With few states the halves always go there: what
is left open wrongly makes a model look worse than it is, and with it a runner-up."""

NO_DIFFERENCE = 0.5
"""Nats below the most evidence found that further zeros may leave: an entry that the log does not use costs nothing and
is better gone."""

EXPLAINED = 1.0
"""Nats of the log left to explain that are not worth opening zeros for."""

_OPENING_PASSES, _FURTHER_PASSES = 30, 100
"""Passes with the zeros of a model open, and how many more at the pace of the last must get it to where it is with
them: a climb from zeros that are right gains little, and that slowly."""

_NEGLIGIBLE = 1e-9


Entry = tuple[int, int]
"""One probability of a model: which of its blocks (`Parameters.blocks`), and its flat index there."""


def maximize(start: Parameters, likelihood: Likelihood, *, passes: int = 400) -> Ascent:
    """The maximum near ``start``, whose zeros stay as long as they allow the log."""
    return _climbed(opened(start, likelihood.log), likelihood, passes)


def simplest(whole: Ascent, likelihood: Likelihood, *, passes: int = 400) -> Candidate:
    """The model near a maximum with those entries set to zero without which there is more evidence for it, or as much.

    A dense model has none. Zeros are looked for twice, from the maximum and from where `thrifty` leads; the better
    model is taken. At the end of the budget it is the best found by then, once the first is judged.
    """
    best = judged(whole, likelihood)
    if whole.parameters.dense:
        return best
    with ending():
        for simpler in _simplified(best, likelihood, passes):
            best = simpler
        saved = thrifty(whole, likelihood)
        if saved is not None:
            other = judged(_climbed(saved, likelihood, passes), likelihood)
            for simpler in _simplified(other, likelihood, passes):
                best = max(best, simpler, key=lambda found: found.score)
    return best


def climbed_on(candidate: Candidate, likelihood: Likelihood, least: float = -np.inf) -> Candidate:
    """The maximum on more of the log than the model has seen: with the zeros that it has, or with others, where there
    is more evidence for it without them. Less of the log may have had no use for what all of it uses.

    A log in files is not asked about zeros: that would double the passes. Nor is a model asked for others that could
    not come up to the ``least`` evidence if they cost nothing.
    """
    closed = judged(maximize(candidate.parameters, likelihood), likelihood)
    settled = closed.parameters.dense or closed.log_likelihood > -EXPLAINED
    if settled or likelihood.sample is not likelihood:
        return closed
    start = reopened(closed.parameters, likelihood)
    ajar = judged(_climbed(start, likelihood, _OPENING_PASSES), likelihood)
    further = _FURTHER_PASSES * ajar.ascent.pace
    gained = max(ajar.log_likelihood + further - closed.log_likelihood, 0.0)
    if ajar.score + further <= closed.score or closed.score + gained < least:
        return closed
    ajar = judged(maximize(ajar.parameters, likelihood), likelihood)
    if ajar.score <= closed.score:
        return closed
    return max(closed, simplest(ajar.ascent, likelihood), key=lambda found: found.score)


def with_established_zeros(ascent: Ascent) -> tuple[Parameters, int]:
    """The model whose zeros the log had opportunities against, and in how many rows others were opened.

    What a row never showed may still happen, as often as the evidence allows: beforehand an unseen entry is used as
    likely as others are, and then it should have shown up with the visits. Where a log as long as this one should show
    something unseen of a row `UNSEEN` times or more, the row's zeros, and what a climb has left next to zero, become
    as small probabilities, and a log that shows one is not impossible. Rows without visits mean nothing, and where
    episodes begin is left alone.
    """
    start, moves, *shown = zip(ascent.parameters, ascent.counts.blocks, strict=True)
    blocks, opened_rows = [start[0]], 0
    least = ascent.counts.least and UNSEEN
    for (rows, uses), among_states in [(moves, True), *((block, False) for block in shown)]:
        unseen = uses <= least  # a climb ends near zero, and not at it
        expected = _expected_unseen(uses, unseen, among_states)
        total = expected.sum(axis=-1, keepdims=True)
        weak = total > UNSEEN
        visits = uses.sum(axis=-1, keepdims=True)
        opened = (visits * rows + expected) / np.maximum(visits + total, _NEGLIGIBLE)
        blocks.append(np.where(weak, opened, rows))
        opened_rows += int(weak.sum())
    return ascent.parameters.with_blocks(blocks), opened_rows


def _expected_unseen(uses: Floats, unseen: Flags, among_states: bool) -> Floats:
    """How often a log as long as this one should show, of every row, each entry that this one did not.

    A symbol that no state has shown after an action had the opportunities of all of them, and not of the row alone.
    """
    visits = np.broadcast_to(uses.sum(axis=-1, keepdims=True), uses.shape)
    opportunities = visits
    if not among_states:
        never = uses.sum(axis=-2, keepdims=True) <= 0
        everywhere = uses.sum(axis=(-2, -1), keepdims=True)
        opportunities = np.where(never, everywhere, visits)
    odds = unseen_odds(uses, opportunities)
    chances = 0.5 * odds / np.maximum(opportunities, 1.0)  # half a use among so many, if it is used at all
    return np.where(unseen, visits * chances, 0.0)


def _climbed(start: Parameters, likelihood: Likelihood, passes: int, target: float | None = None) -> Ascent:
    return climb_or_open(start, likelihood, passes=passes, target=target, stage="refining")


def _simplified(current: Candidate, likelihood: Likelihood, passes: int) -> Iterator[Candidate]:
    """The model itself, then with more and more entries set to zero, as long as no evidence to speak of is lost."""
    yield current
    refused: set[Entry] = set()
    highest = current.score
    for propose in (_rarely_used, _insignificant):
        while True:
            candidates = [entry for entry in propose(current, likelihood) if entry not in refused]
            dropped: set[Entry] = set()
            least = highest - NO_DIFFERENCE
            for current, group, least in _without(current, candidates, likelihood, passes, least):  # noqa: B020 - the next from the last
                dropped |= set(group)
                highest = least + NO_DIFFERENCE
                yield current
            if not dropped:
                break
            refused |= set(candidates) - dropped


def _without(
    current: Candidate, candidates: list[Entry], likelihood: Likelihood, passes: int, least: float
) -> Iterator[tuple[Candidate, list[Entry], float]]:
    """Set candidates to zero where that leaves at least so much evidence; gives the model after every group of entries,
    the group, and how much evidence further ones must leave.

    All are tried at once. A group that does not pay is tried again in two halves, and these again, so that a few
    entries that are needed after all do not keep the others. Where a model without them is likelier, they are not
    needed: then what was judged before was not at its maximum, and had more evidence than it has there.
    """
    most = len(candidates) if current.n_states <= DENSE_STATES else _HALVINGS
    groups = [(candidates, most)] if candidates else []
    while groups:
        group, halvings = groups.pop()
        simpler = _climbed_without(current, group, likelihood, passes, least)
        if simpler is not None and simpler.score > least:
            current, least = simpler, max(least, simpler.score - NO_DIFFERENCE)
            yield current, group, least
        elif simpler is not None and simpler.log_likelihood >= current.log_likelihood:
            current, least = simpler, simpler.score - NO_DIFFERENCE
            yield current, group, least
        elif len(group) > 1 and halvings > 0:
            middle = len(group) // 2
            groups += [(group[middle:], halvings - 1), (group[:middle], halvings - 1)]


def _climbed_without(
    current: Candidate, entries: list[Entry], likelihood: Likelihood, passes: int, least: float
) -> Candidate | None:
    """The maximum without these entries, or None if the log is impossible without them or the climb has no hope of
    leaving so much evidence."""
    simpler = _zeroed(current.parameters, entries)
    if simpler is None:
        return None
    try:
        start = likelihood.counts(simpler)
    except NumericalError:
        return None
    target = least - complete_evidence(start) - current.hidden
    ascent = _climbed(simpler, likelihood, passes, target)
    return None if ascent.log_likelihood < target else judged(ascent, likelihood)


def _rarely_used(current: Candidate, likelihood: Likelihood) -> list[Entry]:
    """Entries with the fewest expected uses, rarest first."""
    found = []
    for which, (rows, uses) in enumerate(zip(current.parameters, current.ascent.counts.blocks, strict=True)):
        if which == 0:
            continue  # a single episode says next to nothing about where episodes begin
        visited = uses.sum(axis=-1, keepdims=True) > 2 * _RARELY_USED
        rare = (rows > 0) & (rows < 0.5) & (uses < _RARELY_USED) & visited
        found += [(float(uses.flat[i]), which, int(i)) for i in np.flatnonzero(rare)]
    return [(which, index) for _, which, index in sorted(found)]


def _insignificant(current: Candidate, likelihood: Likelihood) -> list[Entry]:
    """Entries that should not be worth their price, by the information matrix.

    With few states as many as should not be worth more than their price together: some of them are, which is told when
    halves are tried. With many that would take most of the time, for a nat or two: then each must be worth less than
    its price, given those before it, and all of them by what makes a difference.

    Near zero the likelihood is a parabola in the probability p, so that removing an entry with standard error e
    costs about (p / e)^2 / 2 nats. In square-root coordinates p = x^2 has the error 2 x e(x): the cost is
    (x / e(x))^2 / 8. The price is what the evidence charges for the entry.
    """
    roots = SquareRoots(current.parameters, current.ascent.counts)
    if len(roots.start) > _MAX_INFORMATION:
        return []
    information = information_matrix(roots, likelihood, stage="judging zeros")
    if information is None:
        return []
    covariance = linalg.inverse(information)
    prices = _prices(current, roots, information)
    halves = roots.start / 2
    worth = 0.5 * halves**2 / np.maximum(np.diag(covariance), 1e-300)
    places = roots.places()
    chosen: list[int] = []
    few = current.n_states <= DENSE_STATES
    promised = 0.0  # nats that there should be more of
    inverse = np.zeros((0, 0))  # of the covariance of all that are chosen
    for i in np.argsort(worth - prices):
        which, index = places[i]
        if worth[i] > prices[i] or which == 0 or current.parameters.blocks[which].flat[index] > 0.5:
            continue
        weights = inverse @ covariance[chosen, i]
        own = covariance[i, i] - covariance[i, chosen] @ weights  # variance, given the others
        if own <= EXACT * covariance[i, i]:
            continue  # settled by them
        more = 0.5 * (halves[i] - weights @ halves[chosen]) ** 2 / own
        if more <= prices[i] + (promised if few else 0.0):
            chosen.append(int(i))
            promised += float(prices[i] - more)
            inverse = _bordered(inverse, weights, own)
    return [places[i] for i in chosen] if few or promised > NO_DIFFERENCE else []


def _bordered(inverse: Floats, weights: Floats, own: float) -> Floats:
    """The inverse of a covariance with one more row and column: ``weights`` predict the new variable from the others,
    and ``own`` is the variance that is left."""
    ahead = np.append(-weights, 1.0)
    result = np.outer(ahead, ahead) / own
    result[:-1, :-1] += inverse
    return result


def _prices(current: Candidate, roots: SquareRoots, information: Floats) -> Floats:
    """Nats of evidence that the removal of every entry saves: as if the states were seen, less what is hidden of it."""
    counts = current.ascent.counts
    saved = np.concatenate(
        [prices[mask] for prices, mask in zip(entry_prices(counts), roots.masks, strict=True)]
    )
    visits = np.concatenate(
        [
            np.broadcast_to(rows.sum(axis=-1, keepdims=True), rows.shape)[mask]
            for rows, mask in zip(counts.blocks, roots.masks, strict=True)
        ]
    )
    spread = linalg.inverse(information / 4 + np.diag(1 / np.maximum(visits, 1.0)))
    return saved - 0.5 * np.log(np.maximum(np.diag(spread), 1.0))


def _zeroed(parameters: Parameters, entries: list[Entry]) -> Parameters | None:
    """The model with these entries zero, rows renormalized; None if a row would be empty."""
    arrays = [rows.copy() for rows in parameters]
    for which, index in entries:
        arrays[which].flat[index] = 0.0
    sums = [rows.sum(axis=-1, keepdims=True) for rows in arrays]
    if any((total <= _NEGLIGIBLE).any() for total in sums):
        return None
    return parameters.with_blocks(rows / total for rows, total in zip(arrays, sums, strict=True))
