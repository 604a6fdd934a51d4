"""Expected counts of a hidden-state model given a log: forward-backward messages, block by block.

A step's symbol stands for its pair (action, observation) and has an operator M, whose entry (s, s') is the
joint probability of showing the observation and moving from s to s'. Forward messages are a' = a @ M,
backward messages b = b' @ M^T, and the step's expected transitions are a[s] M[s, s'] b'[s'] / (a @ M @ b').
M is the same at every step with the symbol, so only the outer products a b' are summed here; the caller
multiplies the sums by M once, at the end.

Memory need not grow with steps times states: the forward pass notes its message at the start of every block
only, and the counting pass, from the last block to the first, computes the rest of a block's messages anew.
With blocks of a single step all messages are noted and none is computed twice. Messages are scaled only when
they have become small, which spares a division and a logarithm at nearly every step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unlatch.kernels._jit import bare, bare_inlined
from unlatch.kernels.vectors import QUEUED, add_outer_products, inner_product, scaled_copy, times_matrix

_SMALL = 1e-30
"""Where a step leads to a message whose sum is below, the message before it is scaled to sum one."""

_TINY = 1e-100
"""A likelihood below, in the scale of the two messages it is a product of, calls for a better scale."""

_LOST = 1e-305
"""A likelihood below, in the best scale, has lost its digits."""


class Steps(NamedTuple):
    """A log as the kernels read it: the symbol of every step (unsigned), and whether it begins an episode."""

    symbols: Any
    begins: Any


class Operators(NamedTuple):
    """One matrix per symbol: all of ``dense`` (symbols, n, n) with n a multiple of four, or, where ``dense``
    is empty, the nonzero entries ``starts[k]`` to ``starts[k + 1]`` of (sources, targets, values)."""

    dense: Any
    starts: Any
    sources: Any
    targets: Any
    values: Any


class Sums(NamedTuple):
    """What the counting pass adds to: outer products of messages per symbol (``outer``) or per nonzero entry
    (``entries``), state posteriors of the ``last`` steps of episodes per symbol, and of their ``first`` (1, n)."""

    outer: Any
    entries: Any
    last: Any
    first: Any


class Workspace(NamedTuple):
    """Room that the counting pass needs: for the forward ``messages`` of a block (length + 1, n), and for the two sides
    ``ahead`` and ``behind`` (symbols, 4, n) of outer products, of which so many are ``waiting`` (symbols,) to be added.
    """

    messages: Any
    ahead: Any
    behind: Any
    waiting: Any


def empty_workspace(length: int, symbols: int, n: int) -> Workspace:
    queued = symbols, QUEUED, n
    return Workspace(
        np.empty((length + 1, n)), np.empty(queued), np.empty(queued), np.zeros(symbols, dtype=np.int64)
    )


@bare
def forward_blocks(  # type: ignore[no-untyped-def]
    ahead, initial, steps, length, first, last, message, checkpoints
):
    """Carry the forward message ``message[0]`` through blocks ``first`` to ``last``, noting it at each start.

    Returns (logarithm of the factors that were taken out, steps done). Fewer steps done than there are means
    that the next observation is impossible. ``message`` has two rows; the second is scratch.
    """
    symbols, begins = steps
    total = symbols.shape[0]
    gained = 0.0
    now = 0
    block = first
    for t in range(first * length, min(last * length, total)):
        if begins[t]:
            if t > 0:
                gained += scale(message, now)
            set_row(message, now, initial)
        if t == block * length:
            copy(message, now, checkpoints, block)
            block += 1
        k = symbols[t]
        mass = apply(ahead, k, message, now, 1 - now)
        if mass < _SMALL:
            gain = settle(ahead, k, message, now, 1 - now)
            if gain == -np.inf:
                return gained, t
            gained += gain
        now = 1 - now
    copy(message, now, message, 0)
    return gained, min(last * length, total)


@bare
def backward_blocks(back, ones, steps, length, first, last, message):  # type: ignore[no-untyped-def]
    """Carry the backward message ``message[0]`` from after block ``last - 1`` to before block ``first``."""
    symbols, begins = steps
    total = symbols.shape[0]
    now = 0
    for t in range(min(last * length, total) - 1, first * length - 1, -1):
        if t + 1 == total or begins[t + 1]:
            set_row(message, now, ones)
        k = symbols[t]
        mass = apply(back, k, message, now, 1 - now)
        if mass < _SMALL:
            settle(back, k, message, now, 1 - now)
        now = 1 - now
    copy(message, now, message, 0)


@bare
def count_blocks(  # type: ignore[no-untyped-def]
    ahead, back, initial, ones, steps, departure, length, first, last, checkpoints, message, workspace, sums
):
    """Add the expected counts of blocks ``first`` to ``last`` to ``sums``, from the last step to the first.

    ``message[0]`` is the backward message after the last of these blocks and becomes the one before the
    first. With ``departure`` the transition after an episode's last observation is left out: no observation
    depends on it. Nothing must wait in ``workspace``. Returns the number of steps whose messages have underflowed.
    """
    lost = 0
    if length == 1:
        lost += count_steps(
            back, ones, steps, departure, first, last, message, checkpoints, 0, workspace, sums
        )
    else:
        messages = workspace.messages
        for block in range(last - 1, first - 1, -1):
            copy(checkpoints, block, messages, 0)
            begin, end = block * length, min(block * length + length, steps.symbols.shape[0])
            refill(ahead, initial, steps, begin, end, messages)
            lost += count_steps(
                back, ones, steps, departure, begin, end, message, messages, begin, workspace, sums
            )
    for k in range(back.dense.shape[0]):
        add_outer(sums.outer, k, workspace)
    return lost


@bare
def refill(ahead, initial, steps, begin, end, messages):  # type: ignore[no-untyped-def]
    """The forward messages before every step of a block, from the one before its first step."""
    symbols, begins = steps
    for t in range(begin, end):
        r = t - begin
        if begins[t]:
            set_row(messages, r, initial)
        k = symbols[t]
        mass = apply(ahead, k, messages, r, r + 1)
        if mass < _SMALL:
            settle(ahead, k, messages, r, r + 1)


@bare
def count_steps(  # type: ignore[no-untyped-def]
    back, ones, steps, departure, begin, end, message, messages, origin, workspace, sums
):
    """The counting pass over steps whose forward messages stand in ``messages``, from step ``origin`` on. What waits
    in ``workspace`` at the end has still to be added."""
    symbols, begins = steps
    outer, entries, last, first = sums
    lost = 0
    now = 0
    for t in range(end - 1, begin - 1, -1):
        r = t - origin
        k = symbols[t]
        ends = t + 1 == symbols.shape[0] or begins[t + 1]
        if ends:
            set_row(message, now, ones)
        mass = apply(back, k, message, now, 1 - now)
        if mass < _SMALL:
            settle(back, k, message, now, 1 - now)
        likelihood = inner_product(messages, r, message, 1 - now)
        if likelihood < _TINY:
            scale(messages, r)
            likelihood = inner_product(messages, r, message, 1 - now)
        if likelihood < _LOST:
            lost += 1
        else:
            if ends and departure:
                add_posterior(last, k, messages, r, message, 1 - now, 1.0 / likelihood)
            elif back.dense.shape[0] == 0:
                add_entries(entries, back, k, messages, r, message, now, 1.0 / likelihood)
            else:
                enqueue(workspace, k, messages, r, message, now, 1.0 / likelihood)
                if workspace.waiting[k] == QUEUED:
                    add_outer(outer, k, workspace)
            if begins[t]:
                add_posterior(first, 0, messages, r, message, 1 - now, 1.0 / likelihood)
        now = 1 - now
    copy(message, now, message, 0)
    return lost


@bare_inlined
def settle(operators, k, vectors, source, target):  # type: ignore[no-untyped-def]
    """Take the product of a step anew from ``vectors[source]`` scaled to sum one.

    Returns the logarithm of the factor taken out: minus infinity if the result is zero nevertheless.
    """
    gained = scale(vectors, source)
    mass = apply(operators, k, vectors, source, target)
    return gained if mass > 0.0 else -np.inf


@bare_inlined
def apply(operators, k, vectors, source, target):  # type: ignore[no-untyped-def]
    """``vectors[target] = vectors[source] @ matrix[k]``; returns the sum."""
    if operators.dense.shape[0] == 0:
        return apply_sparse(operators, k, vectors, source, target)
    return times_matrix(vectors, source, target, operators.dense, k)


@bare_inlined
def apply_sparse(operators, k, vectors, source, target):  # type: ignore[no-untyped-def]
    """One multiplication for every entry that is not zero."""
    _, starts, sources, targets, values = operators
    for j in range(vectors.shape[1]):
        vectors[target, j] = 0.0
    total = 0.0
    for e in range(starts[k], starts[k + 1]):
        share = vectors[source, sources[e]] * values[e]
        vectors[target, targets[e]] += share
        total += share
    return total


@bare_inlined
def enqueue(workspace, k, forward, r, backward, q, weight):  # type: ignore[no-untyped-def]
    """Let ``weight * forward[r]`` and ``backward[q]`` wait for others of the same symbol."""
    _, ahead, behind, waiting = workspace
    scaled_copy(ahead, k, waiting[k], forward, r, weight)
    scaled_copy(behind, k, waiting[k], backward, q, 1.0)
    waiting[k] += 1


@bare_inlined
def add_outer(sums, k, workspace):  # type: ignore[no-untyped-def]
    """Add the outer products of all that waits."""
    _, ahead, behind, waiting = workspace
    n = sums.shape[2]
    for w in range(waiting[k], QUEUED):
        for i in range(n):
            ahead[k, w, i], behind[k, w, i] = 0.0, 0.0
    if waiting[k] > 0:
        add_outer_products(sums, k, ahead, behind)
    waiting[k] = 0


@bare_inlined
def add_entries(sums, back, k, forward, r, backward, q, weight):  # type: ignore[no-untyped-def]
    """The outer product at the nonzero entries only, each from the state it leaves to where it arrives."""
    for e in range(back.starts[k], back.starts[k + 1]):
        sums[e] += weight * forward[r, back.targets[e]] * backward[q, back.sources[e]]


@bare_inlined
def add_posterior(sums, k, forward, r, backward, q, weight):  # type: ignore[no-untyped-def]
    """``sums[k] += weight * forward[r] * backward[q]``, state by state."""
    for i in range(sums.shape[1]):
        sums[k, i] += weight * forward[r, i] * backward[q, i]


@bare_inlined
def scale(vectors, r):  # type: ignore[no-untyped-def]
    """Divide a row by its sum; returns the sum's logarithm. A row of zeros stays: minus infinity."""
    total = row_sum(vectors, r)
    if not total > 0.0:
        return -np.inf
    for i in range(vectors.shape[1]):
        vectors[r, i] /= total
    return np.log(total)


@bare_inlined
def row_sum(vectors, r):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(vectors.shape[1]):
        total += vectors[r, i]
    return total


@bare_inlined
def copy(source, r, target, q):  # type: ignore[no-untyped-def]
    """``target[q] = source[r]``."""
    for i in range(source.shape[1]):
        target[q, i] = source[r, i]


@bare_inlined
def set_row(vectors, r, values):  # type: ignore[no-untyped-def]
    """``vectors[r] = values``."""
    for i in range(vectors.shape[1]):
        vectors[r, i] = values[i]
