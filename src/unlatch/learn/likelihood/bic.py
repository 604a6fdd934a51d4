"""What a model costs: its free parameters at the price of BIC, and the choice of the entries that it uses."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from unlatch.arrays import Floats, Ints
from unlatch.learn.likelihood.climb import Ascent
from unlatch.learn.significance import OPPORTUNITIES, USED

__all__ = ["free_parameters", "parameter_price", "penalized_likelihood", "structure_cost"]


def penalized_likelihood(ascent: Ascent, steps: int) -> float:
    """Log-likelihood less what the model costs, in nats: half the logarithm of the steps for every free parameter
    (BIC), and the choice of the entries that are free."""
    price = free_parameters(ascent) * parameter_price(steps)
    return ascent.log_likelihood - price - structure_cost(ascent)


def parameter_price(steps: int) -> float:
    """Nats that a free parameter must gain to be worth it (BIC)."""
    return 0.5 * float(np.log(steps))


def free_parameters(ascent: Ascent) -> int:
    """Numbers that the log had a say in: entries with expected uses, less one per row; and one for every state
    after the first, since a row without a free number still has to say where it leads."""
    total = ascent.n_states - 1
    for rows in ascent.counts.blocks[1:]:
        total += int(np.maximum(_used(rows) - 1, 0).sum())
    return total


def structure_cost(ascent: Ascent) -> float:
    """Nats that it takes to say which entries the rows use, as far as these had to be guessed.

    A row that always leads to one state has no free number, so that BIC charges nothing for it; but which state that
    is was read off the log. Without a price for it a short log is explained by a chain of states that each occur once.
    After v visits of a row an entry that was never used may still have a probability of some 3 / v, so that few visits
    establish nothing, and many all: the price falls with the visits beyond `OPPORTUNITIES`.
    """
    counts = ascent.counts
    anywhere = np.full(len(counts.transitions), ascent.n_states)
    shown = [rows.reshape(-1, *rows.shape[-2:]) for rows in counts.blocks[2:]]
    return _choices(counts.transitions, anywhere) + sum(
        _choices(rows, (rows.sum(axis=1) > 0).sum(axis=1)) for rows in shown
    )


def _used(rows: Floats) -> Ints:
    """How many entries of every row the log has used, shape (actions, states)."""
    used: Ints = (rows > USED).sum(axis=-1)
    return used


def _choices(rows: Floats, possible: Ints) -> float:
    """Logarithm of the number of ways to choose the used entries of every visited row, less where visits are many."""
    used = _used(rows)
    visited = used > 0
    n = np.broadcast_to(possible[:, None], used.shape)[visited]
    k = used[visited]
    guessed = np.minimum(1.0, OPPORTUNITIES / rows.sum(axis=-1)[visited])
    return float((guessed * (gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))).sum())
