"""The evidence for a model: the probability of the log under it, whatever its numbers.

One criterion for all that is compared: how many states, which entries are zero, which state shows the observation,
whether rows are shared. The derivation is in docs/formulas.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, xlogy

from unlatch.arrays import Flags, Floats, Ints
from unlatch.learn.likelihood.climb import Ascent, evaluated
from unlatch.learn.likelihood.information import missing_information
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import JEFFREYS, ExpectedCounts, Parameters
from unlatch.learn.significance import USED

__all__ = [
    "Candidate",
    "choice_cost",
    "complete_evidence",
    "entry_prices",
    "expected_lead",
    "free_parameters",
    "judged",
    "least_cost",
    "row_likelihoods",
    "unseen_odds",
]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model at the maximum of its likelihood, or near it, with the evidence for it.

    Attributes
    ----------
    ascent : Ascent
    complete : float
        What the numbers cost if the hidden states had been seen (`complete_evidence`), a negative number.
    hidden : float
        Nats of it that the log does not charge, since it says less about the numbers than the states would.
    """

    ascent: Ascent
    complete: float
    hidden: float

    @property
    def score(self) -> float:
        """Logarithm of the evidence, in nats."""
        return self.ascent.log_likelihood + self.complete + self.hidden

    @property
    def parameters(self) -> Parameters:
        return self.ascent.parameters

    @property
    def n_states(self) -> int:
        return self.ascent.n_states

    @property
    def log_likelihood(self) -> float:
        return self.ascent.log_likelihood

    @cached_property
    def free(self) -> int:
        """Free parameters, those of where episodes begin apart."""
        return free_parameters(self.ascent)

    @property
    def relief(self) -> float:
        """Nats that the log does not charge, a parameter."""
        return self.hidden / max(self.free, 1)

    @property
    def seen_share(self) -> float:
        """What the log says about a parameter, as a share of what the hidden states would say; the geometric mean."""
        return float(np.exp(-2 * self.relief))


def judged(ascent: Ascent, likelihood: Likelihood) -> Candidate:
    """A model with the evidence for it: the logarithm of the probability of the log, whatever the model's numbers.

    What the numbers cost is first taken as if the hidden states had been seen, where it is exact; then the log gets
    back what it cannot have charged.
    """
    hidden = max(0.0, missing_information(*_on_a_sample(ascent, likelihood)))
    candidate = Candidate(ascent, complete_evidence(ascent.counts), hidden)
    if ascent.parameters.dense:
        lost = _names_lost(ascent.counts, candidate.seen_share)
        candidate = replace(candidate, complete=candidate.complete - lost)
    return candidate


def expected_lead(one: Candidate, other: Candidate, ratio: float, noise: float) -> float:
    """Nats by which the evidence for ``one`` should exceed that for ``other`` on ``ratio`` times as many steps.

    What it is likelier by grows with the steps, but for the ``noise`` that each of its further numbers has fitted, in
    nats; what these cost grows by half the logarithm of the steps each.
    """
    numbers = one.free - other.free
    likelier = one.log_likelihood - other.log_likelihood - noise * numbers
    return one.score - other.score + (ratio - 1) * likelier - numbers * float(np.log(ratio)) / 2


def _on_a_sample(ascent: Ascent, likelihood: Likelihood) -> tuple[Ascent, Likelihood]:
    """The share of the information that is hidden is the same in any part of a log: where that is not in memory, it is
    asked of a sample."""
    sample = likelihood.sample
    return (ascent, likelihood) if sample is likelihood else (evaluated(ascent.parameters, sample), sample)


def complete_evidence(counts: ExpectedCounts) -> float:
    """Nats by which the evidence would differ from the likelihood if the expected counts had been seen.

    Negative but for the number of ways to name the states, which are as many models. States that the log never leaves
    and that never show anything have no names.
    """
    start, moves, *shown = counts.blocks
    # Those that are never left, such as the end, are no choice of names.
    left = (moves.sum(axis=-1) > USED).any(axis=0)
    total = float(gammaln(left.sum() + 1))
    total += _of_block(_begun(start)[None], len(start), USED, JEFFREYS, likeliest=True)
    total += _of_block(moves, len(start), counts.least, counts.prior, likeliest=not counts.dense)
    for rows in shown:
        possible = (rows.sum(axis=-2) > 0).sum(axis=-1)  # what was ever shown after the action
        total += _of_block(rows, possible[..., None], counts.least, counts.prior, likeliest=not counts.dense)
    return total


def least_cost(left: Flags, shown: Flags, symbols: Ints) -> float:
    """Nats that a model costs at least if each of its visited rows uses a single entry, which it has to say.

    ``left`` (actions, states) are the visited rows of transitions and ``shown`` those of observations, or (1, states)
    if actions share them; ``symbols`` are how many observations came after each of these actions.
    """
    states = int(left.any(axis=0).sum())
    moves, rows = left.sum(), shown.sum(axis=1)
    cost = choice_cost(states * moves, moves) + choice_cost((rows * symbols).sum(), rows.sum())
    return float(cost - gammaln(states + 1))


def _begun(start: Floats) -> Floats:
    """Where episodes began. A single one began in one state: where the log does not tell in which of several, none of
    which then has a use to speak of, the likeliest is named, which costs what it costs where the log does tell."""
    if not 0 < start.max() <= USED:
        return start
    named = np.zeros_like(start)
    named[start.argmax()] = start.sum()
    return named


def _names_lost(counts: ExpectedCounts, share: float) -> float:
    """Nats that `complete_evidence` has for names of states that the log does not tell apart.

    S states have S! names if these are as many maxima: if exchanging two states leads over a valley. Where there is
    none, as between states without a visit to speak of, it is one maximum. How deep it is is told by what merging the
    two would cost; ``share`` of that were the states seen.
    """
    live = np.flatnonzero((counts.transitions.sum(axis=2) > USED).any(axis=0))
    if len(live) < 2:
        return 0.0
    lost = np.zeros((len(live), len(live)))
    for block in counts.blocks[1:]:
        rows = block.reshape(-1, *block.shape[-2:])[:, live]
        alone = row_likelihoods(rows)
        for i in range(len(live)):
            lost[i] += (alone + alone[:, i : i + 1] - row_likelihoods(rows + rows[:, i : i + 1])).sum(axis=0)
    pairs = lost[np.triu_indices(len(live), 1)]
    told_apart = -np.expm1(-share * np.maximum(pairs, 0.0)).mean()
    others = np.arange(len(live))
    return float(gammaln(len(live) + 1) - np.log1p(told_apart * others).sum())


def row_likelihoods(rows: Floats) -> Floats:
    """The largest log-likelihood of every row of counts."""
    result: Floats = xlogy(rows, rows).sum(axis=-1) - xlogy(rows.sum(axis=-1), rows.sum(axis=-1))
    return result


def free_parameters(ascent: Ascent) -> int:
    """Numbers that the log had a say in: entries with expected uses, less one per row."""
    counts = ascent.counts
    return sum(int(np.maximum(_used(rows, counts.least) - 1, 0).sum()) for rows in counts.blocks[1:])


def entry_prices(counts: ExpectedCounts) -> list[Floats]:
    """Nats of `complete_evidence` that every single entry of every block costs: what closing it saves, if its uses go
    to the others of its row."""
    start, moves, *shown = counts.blocks
    prices = [np.zeros_like(start), _entry_prices(moves, len(start))]
    for rows in shown:
        prices.append(_entry_prices(rows, (rows.sum(axis=-2) > 0).sum(axis=-1)[..., None]))
    return prices


def _entry_prices(rows: Floats, possible: ArrayLike) -> Floats:
    used = _used(rows)
    places = _places(used, possible)
    entries = used.sum()
    choice = choice_cost(places, entries) - choice_cost(places, max(entries - 1, 0))
    n, v = np.maximum(rows, USED), np.maximum(rows.sum(axis=-1), USED)
    m = np.maximum(used, 2)
    fewer = gammaln((m - 1) / 2) - gammaln(v + (m - 1) / 2) - gammaln(m / 2) + gammaln(v + m / 2)
    # The uses go to the others, whose own terms are then n lower in all.
    own = gammaln(n + JEFFREYS) - gammaln(JEFFREYS) - n * np.log(n) + n
    prices: Floats = fewer[..., None] - own + choice
    return prices


def unseen_odds(uses: Floats, opportunities: Floats) -> Floats:
    """For every entry of a block, the odds that it is used if it was not seen at so many opportunities.

    Before the log they are those of used entries among all of the block. An entry that is used seldom stays unseen for
    long: to have a place for it costs the row the more of its evidence, the more often another one was taken.
    """
    used = _used(uses)
    entries, places = used.sum(), used.size * uses.shape[-1]
    before = (entries + 1.0) / (places - entries + 1.0)
    m, v = np.maximum(used, 1)[..., None], opportunities
    unlikely = gammaln((m + 1) / 2) - gammaln(v + (m + 1) / 2) - gammaln(m / 2) + gammaln(v + m / 2)
    odds: Floats = before * np.exp(unlikely)
    return odds


def _used(rows: Floats, least: float = USED) -> Ints:
    """How many entries of every row the log has used."""
    used: Ints = (rows > least).sum(axis=-1)
    return used


def _of_block(rows: Floats, possible: ArrayLike, least: float, prior: float, *, likeliest: bool) -> float:
    """Of all rows of one kind, given how many entries each might use, the uses that count as some, those that every
    entry is credited with, and whether the model has the ``likeliest`` numbers."""
    rows = np.where(rows.sum(axis=-1, keepdims=True) > USED, rows, 0.0)
    n = np.where(rows > least, rows, 0.0)
    used, visits = _used(n, 0.0), n.sum(axis=-1)
    visited = used > 0
    if not visited.any():
        return 0.0
    choice = float(choice_cost(_places(used, possible), used.sum()))
    return _numbers(n[visited], used[visited], visits[visited], prior, likeliest) - choice


def _places(used: Ints, possible: ArrayLike) -> int:
    """How many entries the rows might use that use any."""
    visited = used > 0
    return int(np.broadcast_to(possible, visited.shape)[visited].sum())


def _numbers(n: Floats, used: Ints, visits: Floats, prior: float, likeliest: bool) -> float:
    """Logarithm of the Dirichlet-multinomial probability of the rows' counts over what the model's numbers give: those
    that are likeliest, or those that are with as many uses more as every entry is credited with."""
    taken = n > 0
    counts, more = n[taken], 0.0 if likeliest else prior
    given = (counts * np.log(counts + more)).sum() - (visits * np.log(visits + more * used)).sum()
    mixed = (gammaln(counts + prior) - gammaln(prior)).sum()
    mixed += (gammaln(prior * used) - gammaln(visits + prior * used)).sum()
    return float(mixed - given)


def choice_cost(places: ArrayLike, used: ArrayLike) -> Floats:
    """Nats to say which of the entries are used, if any share of them is as likely beforehand as any other."""
    n, k = np.asarray(places), np.asarray(used)
    cost: Floats = np.log(n + 1.0) + gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    return cost
