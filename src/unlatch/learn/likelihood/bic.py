"""What a model costs: its free parameters, at the price of BIC."""

from __future__ import annotations

import numpy as np

from unlatch.learn.likelihood.climb import Ascent

__all__ = ["USED", "free_parameters", "parameter_price", "penalized_likelihood"]

USED = 0.5
"""Expected uses below which an entry is not counted as a parameter."""


def free_parameters(ascent: Ascent) -> int:
    """Numbers that the log had a say in: entries with expected uses, less one per row; and one for every state
    after the first, since a row without a free number still has to say where it leads."""
    total = ascent.n_states - 1
    for rows in (ascent.counts.transitions, ascent.counts.observations):
        used = (rows > USED).sum(axis=-1)
        total += int(np.maximum(used - 1, 0).sum())
    return total


def penalized_likelihood(ascent: Ascent, steps: int) -> float:
    """Log-likelihood less half the logarithm of the steps for every free parameter (BIC, in nats)."""
    return ascent.log_likelihood - free_parameters(ascent) * parameter_price(steps)


def parameter_price(steps: int) -> float:
    """Nats that a free parameter must gain to be worth it (BIC)."""
    return 0.5 * float(np.log(steps))
