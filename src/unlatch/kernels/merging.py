"""What it would do to the evidence to take two states as one, for every two, were the hidden states known.

Only entries that are not zero are touched, so that hundreds of sparse states are compared in a moment. The formulas
are those of `unlatch.learn.likelihood.marginal`, for the rows that a merge changes.
"""

from __future__ import annotations

from math import lgamma, log
from typing import Any, NamedTuple

from unlatch.kernels._jit import kernel


class CountedRows(NamedTuple):
    """Expected counts by kind of row and state: row (r, i) has the entries ``starts[r, i]`` to ``starts[r, i + 1]`` of
    ``outcomes`` and ``values``, sorted by outcome."""

    starts: Any
    outcomes: Any
    values: Any


class Changes(NamedTuple):
    """What becomes of every two states (n, n) that are merged: likelihood ``lost``, what the ``numbers`` cost less,
    how many ``used`` entries, visited ``rows``, and ``places`` for entries in these rows fewer there are."""

    lost: Any
    numbers: Any
    used: Any
    rows: Any
    places: Any


@kernel
def merge_rows(rows, possible, least, prior, among_states, changes):  # type: ignore[no-untyped-def]
    """Add what merging the rows of every two states changes.

    ``possible[r]`` says how many entries a row of the kind may use, ``least`` from how many uses on an entry counts as
    used, ``prior`` how many uses every entry is credited with. With ``among_states`` outcomes are states themselves, so
    that the two are one as outcomes too.
    """
    starts, outcomes, values = rows
    kinds, n = starts.shape[0], starts.shape[1] - 1
    for r in range(kinds):
        for i in range(n):
            for j in range(i + 1, n):
                merge_two(starts[r], outcomes, values, i, j, possible[r], least, prior, among_states, changes)


@kernel
def merge_two(starts, outcomes, values, i, j, possible, least, prior, among_states, changes):  # type: ignore[no-untyped-def]
    """One row of two states: both lists of entries are walked at once."""
    a, a_end, b, b_end = starts[i], starts[i + 1], starts[j], starts[j + 1]
    if a == a_end and b == b_end:
        return
    if not among_states and (a == a_end or b == b_end):  # else the other row still has the two as one outcome
        return
    a_total = a_used = b_total = b_used = ab_total = ab_used = 0.0
    a_sum = b_sum = ab_sum = 0.0  # of x log x over all entries
    a_seen = b_seen = ab_seen = 0.0  # visits through used entries
    a_part = b_part = ab_part = 0.0  # what used entries contribute to the price
    pooled = 0.0  # of the two states as outcomes
    while a < a_end or b < b_end:
        x = y = 0.0
        outcome = outcomes[a] if b == b_end or (a < a_end and outcomes[a] <= outcomes[b]) else outcomes[b]
        if a < a_end and outcomes[a] == outcome:
            x = values[a]
            a += 1
        if b < b_end and outcomes[b] == outcome:
            y = values[b]
            b += 1
        if x > 0.0:
            a_total += x
            a_sum += x * log(x)
            if x > least:
                a_used += 1
                a_seen += x
                a_part += entry_part(x, prior)
        if y > 0.0:
            b_total += y
            b_sum += y * log(y)
            if y > least:
                b_used += 1
                b_seen += y
                b_part += entry_part(y, prior)
        z = x + y
        if among_states and (outcome == i or outcome == j):
            pooled += z
        elif z > 0.0:
            ab_total += z
            ab_sum += z * log(z)
            if z > least:
                ab_used += 1
                ab_seen += z
                ab_part += entry_part(z, prior)
    if among_states and pooled > 0.0:
        ab_total += pooled
        ab_sum += pooled * log(pooled)
        if pooled > least:
            ab_used += 1
            ab_seen += pooled
            ab_part += entry_part(pooled, prior)
    lost, numbers, used, fewer, places = changes
    if among_states:  # that the two are one as outcomes is no loss: which of them it was is no longer asked
        mine = without_split(starts, outcomes, values, i, i, j)
        yours = without_split(starts, outcomes, values, j, i, j)
        lost[i, j] += mine + yours - ab_sum + ab_total * log(ab_total)
    else:
        lost[i, j] += a_sum - a_total * log(a_total) + b_sum - b_total * log(b_total)
        lost[i, j] -= ab_sum - ab_total * log(ab_total)
    numbers[i, j] += row_price(ab_part, ab_used, ab_seen, prior)
    numbers[i, j] -= row_price(a_part, a_used, a_seen, prior) + row_price(b_part, b_used, b_seen, prior)
    used[i, j] += a_used + b_used - ab_used
    if a_used > 0 and b_used > 0:
        fewer[i, j] += 1
        places[i, j] += possible


@kernel
def without_split(starts, outcomes, values, k, i, j):  # type: ignore[no-untyped-def]
    """The largest log-likelihood of row ``k`` with the outcomes ``i`` and ``j`` taken as one."""
    total = result = both = 0.0
    for e in range(starts[k], starts[k + 1]):
        x = values[e]
        total += x
        if outcomes[e] == i or outcomes[e] == j:
            both += x
        elif x > 0.0:
            result += x * log(x)
    if both > 0.0:
        result += both * log(both)
    return result - total * log(total) if total > 0.0 else 0.0


@kernel
def merge_outcomes(columns, row_used, row_seen, least, prior, changes):  # type: ignore[no-untyped-def]
    """Add what it changes in the rows of *other* states that two states are one as outcomes.

    ``columns`` is as `CountedRows`, with the states that lead to each in the place of outcomes; ``row_used`` and
    ``row_seen`` (kinds, n) are the used entries of every row and the visits through them.
    """
    starts, origins, values = columns
    kinds, n = starts.shape[0], starts.shape[1] - 1
    _, numbers, used, _, _ = changes
    for r in range(kinds):
        for i in range(n):
            for j in range(i + 1, n):
                a, b = starts[r, i], starts[r, j]
                while a < starts[r, i + 1] and b < starts[r, j + 1]:
                    if origins[a] < origins[b]:
                        a += 1
                    elif origins[b] < origins[a]:
                        b += 1
                    else:
                        k, x, y = origins[a], values[a], values[b]
                        a += 1
                        b += 1
                        if k != i and k != j and x > least and y > least:
                            m, v = row_used[r, k], row_seen[r, k]
                            numbers[i, j] += (
                                entry_part(x + y, prior) - entry_part(x, prior) - entry_part(y, prior)
                            )
                            numbers[i, j] += row_price(0.0, m - 1, v, prior) - row_price(0.0, m, v, prior)
                            used[i, j] += 1


@kernel
def entry_part(x, prior):  # type: ignore[no-untyped-def]
    """What a used entry contributes to the price of its row."""
    return lgamma(x + prior) - lgamma(prior) - x * log(x)


@kernel
def row_price(part, used, visits, prior):  # type: ignore[no-untyped-def]
    """Logarithm of the Dirichlet-multinomial probability of a row over what its best numbers would give."""
    if used == 0:
        return 0.0
    return part + lgamma(prior * used) - lgamma(visits + prior * used) + visits * log(visits)
