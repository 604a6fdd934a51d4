"""What a log has to say about the zeros of the model that was learned from it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unlatch.arrays import Floats
from unlatch.core.checks import frozen
from unlatch.core.pomdp import POMDP
from unlatch.errors import NumericalError
from unlatch.learn.identify.cone import Place
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import Parameters, parameters_of

__all__ = ["ZeroSupport", "average_support", "zero_support"]

_OPENED = 1e-9
"""What every zero is raised to for a moment: the likelihood is linear in it, and 1e9 uses would still be none."""

_RARE = 0.05
"""The probability that a zero is tested against: what happens less often than one time in twenty moves a row by less
than most rows are known to, and a log that could not even show this much says nothing about a zero."""

_LIKELY = 0.05
"""P-value up to which a zero counts as established: sixty opportunities."""


@dataclass(frozen=True, eq=False)
class ZeroSupport:
    """For every probability of a learned model, what its log says about it.

    Attributes
    ----------
    uses : mapping of str to array
        Expected uses of each probability of ``transitions``, ``observations``, ``rewards`` and ``initial``.
    opportunities : mapping of str to array
        Nats that the log would lose for every unit of probability that is given to the entry, from the rest of its
        row, all other numbers as they are: visits of the row that did not use it, as if states were seen. A state that
        the log cannot tell from another gives fewer than its visits.
    """

    uses: dict[str, Floats]
    opportunities: dict[str, Floats]

    def of(self, place: Place) -> tuple[float, float]:
        """Opportunities, and the p-value of a probability of one in twenty or more."""
        array, action, state, entry = place
        index = (entry,) if array == "initial" else (action, state, entry)
        opportunities = float(self.opportunities[array][index])
        return opportunities, float((1 - _RARE) ** opportunities)

    def establishes(self, place: Place) -> bool:
        return self.of(place)[1] <= _LIKELY


def zero_support(pomdp: POMDP, likelihood: Likelihood) -> ZeroSupport | None:
    """From one pass over the log, every zero opened a little; None if the log is all but impossible under the model.

    The derivative of the log-likelihood by a probability p, at the cost of the rest of its row, is
    ``uses / p - visits``.
    """
    parameters = _opened(parameters_of(pomdp))
    try:
        counts = likelihood.counts(parameters)
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
        {name: frozen(uses) for name, (_, uses) in found.items()},
        {name: frozen(np.maximum(opportunities, 0.0)) for name, opportunities in lost.items()},
    )


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
