"""Symbols and what comes with them."""

from __future__ import annotations

import numpy as np

from unlatch.kernels._jit import kernel


@kernel
def settled_rewards(observations, rewards, n_symbols):  # type: ignore[no-untyped-def]
    """The reward of every symbol (0 for symbols that never occur), and whether the symbol settles it."""
    table = np.zeros(n_symbols)
    seen = np.zeros(n_symbols, dtype=np.bool_)
    for t in range(observations.shape[0]):
        symbol = observations[t]
        if not seen[symbol]:
            seen[symbol] = True
            table[symbol] = rewards[t]
        elif table[symbol] != rewards[t]:
            return table, False
    return table, True


@kernel
def number_events(first, second, table, out):  # type: ignore[no-untyped-def]
    """``out[t] = table[first[t], second[t]]``, for codes that are not negative."""
    for t in range(first.shape[0]):
        out[t] = table[np.uint64(first[t]), np.uint64(second[t])]


@kernel
def count_symbols(symbols, counts):  # type: ignore[no-untyped-def]
    """Add one to ``counts[symbol]`` for every symbol."""
    for t in range(symbols.shape[0]):
        counts[symbols[t]] += 1
