"""EM that charges every entry its price, to find a model with few parameters.

At the maximum of the likelihood a log leaves whole families of models nearly equal, and some of them have many more
zeros than others. Taking away single entries from an arbitrary member of the family does not lead there; EM that
charges every entry its price does.
"""

from __future__ import annotations

import numpy as np

from unlatch.arrays import Flags, Floats
from unlatch.core.progress import report
from unlatch.errors import NumericalError
from unlatch.learn.likelihood.climb import Ascent
from unlatch.learn.likelihood.marginal import entry_prices
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import Parameters
from unlatch.learn.significance import USED

__all__ = ["thrifty"]

_THRIFTY_PASSES = 40
_STILL = 1e-4
"""Change of any probability in a pass below which it is over: all passes that there are would move none by .004."""
_AJAR = 1e-6
"""Chance given to closed entries, to see which of them are needed."""


def thrifty(whole: Ascent, likelihood: Likelihood) -> Parameters | None:
    """A model near this one with many zeros, to climb from; None if they make the log impossible.

    Every pass of EM takes what an entry costs off its expected uses, which moves the model along the directions that
    the log leaves open to where entries vanish. What was closed and turns out to be needed is opened again.
    """
    parameters, prices = whole.parameters, [np.maximum(rows, 0.0) for rows in entry_prices(whole.counts)]
    current, needed = parameters, [np.zeros(rows.shape, dtype=bool) for rows in parameters]
    for done in range(_THRIFTY_PASSES):
        report("saving parameters", done, _THRIFTY_PASSES)
        try:
            counts = likelihood.counts(current)
        except NumericalError:
            current, needed = _reopened(current, parameters, needed, likelihood)
            continue
        charged = [
            _charged(uses, rows, price, free)
            for uses, rows, price, free in zip(counts.blocks, current, prices, needed, strict=True)
        ]
        charged[0] = current.initial  # a single episode says next to nothing about where episodes begin
        moved = max(np.abs(rows - old).max() for rows, old in zip(charged, current, strict=True))
        current = current.with_blocks(charged)
        if moved < _STILL:
            break
    current, _ = _reopened(current, parameters, needed, likelihood)
    try:
        likelihood.counts(current)
    except NumericalError:
        return None
    return current


def _charged(uses: Floats, previous: Floats, price: Floats, free: Flags) -> Floats:
    """Rows in proportion to the uses less their price; a row that cannot pay stays as it is."""
    left = np.where(free, uses, np.maximum(uses - price, 0.0))
    total = left.sum(axis=-1, keepdims=True)
    result: Floats = np.where(total > 0, left / np.where(total > 0, total, 1.0), previous)
    return result


def _reopened(
    current: Parameters, before: Parameters, needed: list[Flags], likelihood: Likelihood
) -> tuple[Parameters, list[Flags]]:
    """The model with those entries as they were before that are used even where they are next to impossible."""
    ajar = [(1 - _AJAR) * rows + _AJAR * old for rows, old in zip(current, before, strict=True)]
    counts = likelihood.counts(current.with_blocks(ajar))
    needed = [
        known | ((rows <= 0) & (old > 0) & (used > USED))
        for known, rows, old, used in zip(needed, current, before, counts.blocks, strict=True)
    ]
    opened = [
        np.where(n & (rows <= 0), old, rows) for n, rows, old in zip(needed, current, before, strict=True)
    ]
    return current.with_blocks(rows / rows.sum(axis=-1, keepdims=True) for rows in opened), needed
