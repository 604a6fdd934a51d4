"""What a log has to say about the zeros of the model that was learned from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from unlatch.arrays import Floats
from unlatch.core.budget import checkpoint
from unlatch.core.checks import frozen
from unlatch.core.pomdp import POMDP
from unlatch.core.trajectory import Trajectory
from unlatch.errors import NumericalError
from unlatch.learn.identify.cone import Place
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import ExpectedCounts, Parameters, parameters_of

__all__ = ["ZeroSupport", "average_support", "tested_zeros", "zero_support"]

_OPENED = 1e-9
"""What every zero is raised to for a moment: the likelihood is linear in it, and 1e9 uses would still be none."""

_RARE = 0.05
"""The probability that a zero is tested against: what happens less often than one time in twenty moves a row by less
than most rows are known to, and a log that could not even show this much says nothing about a zero."""

_LIKELY = 0.05
"""P-value up to which a zero counts as established: sixty opportunities."""

_MOST_WORK = 4_000_000_000
"""Multiplications of a pass with all zeros open, events times states squared, at most: seconds. Nothing is sparse
then: with 400 states, whose matrices do not fit into the cache, all of a million steps took 280 CPU s, this 6.5."""


@dataclass(frozen=True, eq=False)
class ZeroSupport:
    """For every probability of a learned model, what its log says about it.

    Attributes
    ----------
    uses : mapping of str to array
        Expected uses of each probability of ``transitions``, ``observations``, ``rewards`` and ``initial``.
    opportunities : mapping of str to array
        Visits of the row without a use of the entry that would say as much against it, were states seen: what the log
        loses if the entry gets a probability of one in twenty, from the rest of its row and all other numbers as they
        are, divided by what it would lose at every visit. Of most entries it is told from the slope of the likelihood
        alone, which is fewer.
    """

    uses: dict[str, Floats]
    opportunities: dict[str, Floats]

    def of(self, place: Place) -> tuple[float, float]:
        """Opportunities, and the p-value of a probability of one in twenty or more."""
        opportunities = float(self.opportunities[place[0]][_index(place)])
        return opportunities, float((1 - _RARE) ** opportunities)

    def establishes(self, place: Place) -> bool:
        return self.of(place)[1] <= _LIKELY

    def corrected(self, found: dict[Place, float]) -> ZeroSupport:
        """With opportunities of some entries as they are."""
        opportunities = {name: rows.copy() for name, rows in self.opportunities.items()}
        for place, number in found.items():
            opportunities[place[0]][_index(place)] = number
        return ZeroSupport(self.uses, {name: frozen(rows) for name, rows in opportunities.items()})


def _index(place: Place) -> tuple[int, ...]:
    array, action, state, entry = place
    return (entry,) if array == "initial" else (action, state, entry)


def zero_support(
    pomdp: POMDP,
    likelihood: Likelihood,
    *,
    known: ExpectedCounts | None = None,
    most_work: int = _MOST_WORK,
) -> ZeroSupport | None:
    """From one pass over the log, every zero opened a little; None if the log is all but impossible under the model.

    The derivative of the log-likelihood by a probability p, at the cost of the rest of its row, is
    ``uses / p - visits``. Where an entry makes possible what is impossible otherwise that is all; where it merely mixes
    what is hidden, the log loses more than the slope says, and `tested_zeros` asks what. With many states the slopes
    are those of the first steps alone, as many as ``most_work`` allows; uses are those of all, which may be ``known``:
    a model whose zeros were opened is as slow as one without any.
    """
    given = parameters_of(pomdp)
    parameters, part = _opened(given), _beginning(likelihood, most_work // given.n_states**2)
    try:
        counts = part.counts(parameters)
        used = counts if part is likelihood else known or likelihood.counts(given)
    except NumericalError:
        return None
    found = {
        "initial": (parameters.initial, counts.initial),
        "transitions": (parameters.transitions, counts.transitions),
        "observations": (parameters.observations, counts.observations),
    }
    if parameters.rewards is not None and counts.rewards is not None:
        found["rewards"] = (parameters.rewards, counts.rewards)
    lost = {name: uses.sum(axis=-1, keepdims=True) - uses / rows for name, (rows, uses) in found.items()}
    return ZeroSupport(
        {name: frozen(getattr(used, name)) for name in found},
        {name: frozen(np.maximum(opportunities, 0.0)) for name, opportunities in lost.items()},
    )


def _beginning(likelihood: Likelihood, events: int) -> Likelihood:
    """Of no more of the log than so many events, from its beginning."""
    if likelihood.steps <= events:
        return likelihood
    sample = likelihood.sample
    return replace(sample, log=sample.log.head(events))


def tested_zeros(pomdp: POMDP, log: Trajectory, places: Iterable[Place]) -> dict[Place, float]:
    """Opportunities against zeros, one pass over the log for each: what it loses at a probability of one in twenty."""
    height = pomdp.log_likelihood(log)
    found = {}
    for place in places:
        checkpoint()
        lost = height - _with_entry(pomdp, place, _RARE).log_likelihood(log)
        found[place] = max(lost, 0.0) / -float(np.log1p(-_RARE))
    return found


def _with_entry(pomdp: POMDP, place: Place, value: float) -> POMDP:
    """The model with one probability set, the rest of its row scaled down."""
    field = "reward_probabilities" if place[0] == "rewards" else place[0]
    rows = getattr(pomdp, field).copy()
    index = _index(place)
    rows[index[:-1]] *= (1 - value) / (1 - rows[index])
    rows[index] = value
    rows[index[:-1]] /= rows[index[:-1]].sum()
    return replace(pomdp, **{field: rows})


def average_support(pomdp: POMDP, steps: int) -> ZeroSupport:
    """What a log of so many steps says on average, where nothing else is known of it: every row visited as often."""
    visits = max(steps, 1) / (pomdp.n_actions * pomdp.n_states)
    numbers = {"transitions": pomdp.transitions, "observations": pomdp.observations, "initial": pomdp.initial}
    if pomdp.reward_probabilities is not None:
        numbers["rewards"] = pomdp.reward_probabilities
    opportunities = {name: np.full(rows.shape, visits) for name, rows in numbers.items()}
    opportunities["initial"][:] = 1.0  # one episode at least
    return ZeroSupport({name: rows * visits for name, rows in numbers.items()}, opportunities)


def _opened(parameters: Parameters) -> Parameters:
    """Every zero a little above it, but for the end, which stays the end."""

    def raised(rows: Floats) -> Floats:
        positive = np.maximum(rows, _OPENED)
        result: Floats = positive / positive.sum(axis=-1, keepdims=True)
        return result

    transitions = raised(parameters.transitions)
    transitions[:, parameters.terminal] = np.maximum(parameters.transitions[:, parameters.terminal], 1e-300)
    return replace(
        parameters,
        initial=raised(parameters.initial),
        transitions=transitions,
        observations=raised(parameters.observations),
        rewards=None if parameters.rewards is None else raised(parameters.rewards),
        shared=False,
    )
