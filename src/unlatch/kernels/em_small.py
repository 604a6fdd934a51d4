"""The passes of `unlatch.kernels.em` for few states, with every message held in registers.

Same results up to rounding, several times faster: with so few states the time goes into moving messages to and from
memory, not into arithmetic. Operators are dense (symbols, width, width); states that do not exist have rows and columns
of zeros.

Messages are tuples, and so are the arguments ``initial`` and ``ones``: the length of a tuple belongs to its type, so
that the compiler knows the width, unrolls every loop and makes code of its own for each of `WIDTHS` from one text.
"""

from __future__ import annotations

import numpy as np

from unlatch.kernels._jit import bare, bare_inlined, with_item

WIDTHS = (4, 8)
"""Numbers of states that messages are padded to. With more they would no longer fit into the registers."""

_SMALL = 1e-30
_TINY = 1e-100
_LOST = 1e-305


@bare
def forward_blocks(  # type: ignore[no-untyped-def]
    ahead, initial, steps, length, first, last, message, checkpoints
):
    """As `unlatch.kernels.em.forward_blocks`."""
    symbols, begins = steps
    gained = 0.0
    block = first
    a = load(message, 0, initial)
    for t in range(first * length, min(last * length, symbols.shape[0])):
        if begins[t]:
            if t > 0:
                gained += np.log(add(a))
            a = initial
        if t == block * length:
            store(checkpoints, block, a)
            block += 1
        b = apply(ahead, symbols[t], a)
        if add(b) < _SMALL:
            _, b, gain = settle(ahead, symbols[t], a)
            if gain == -np.inf:
                return gained, t
            gained += gain
        a = b
    store(message, 0, a)
    return gained, min(last * length, symbols.shape[0])


@bare
def backward_blocks(back, ones, steps, length, first, last, message):  # type: ignore[no-untyped-def]
    """As `unlatch.kernels.em.backward_blocks`."""
    symbols, begins = steps
    total = symbols.shape[0]
    b = load(message, 0, ones)
    for t in range(min(last * length, total) - 1, first * length - 1, -1):
        if t + 1 == total or begins[t + 1]:
            b = ones
        a = apply(back, symbols[t], b)
        if add(a) < _SMALL:
            _, a, _ = settle(back, symbols[t], b)
        b = a
    store(message, 0, b)


@bare
def count_blocks(  # type: ignore[no-untyped-def]
    ahead, back, initial, ones, steps, departure, length, first, last, checkpoints, message, workspace, sums
):
    """As `unlatch.kernels.em.count_blocks`."""
    if length == 1:
        return count_steps(back, ones, steps, departure, first, last, message, checkpoints, 0, sums)
    lost = 0
    for block in range(last - 1, first - 1, -1):
        begin, end = block * length, min(block * length + length, steps.symbols.shape[0])
        refill(ahead, initial, steps, begin, end, load(checkpoints, block, initial), workspace.messages)
        lost += count_steps(
            back, ones, steps, departure, begin, end, message, workspace.messages, begin, sums
        )
    return lost


@bare
def refill(ahead, initial, steps, begin, end, a, workspace):  # type: ignore[no-untyped-def]
    """The forward messages before every step of a block, from ``a`` before its first step."""
    symbols, begins = steps
    for t in range(begin, end):
        if begins[t]:
            a = initial
        store(workspace, t - begin, a)
        b = apply(ahead, symbols[t], a)
        if add(b) < _SMALL:
            a, b, _ = settle(ahead, symbols[t], a)
        a = b


@bare
def count_steps(  # type: ignore[no-untyped-def]
    back, ones, steps, departure, begin, end, message, workspace, origin, sums
):
    """As `unlatch.kernels.em.count_steps`."""
    symbols, begins = steps
    outer, _, last, first = sums
    lost = 0
    after = load(message, 0, ones)
    for t in range(end - 1, begin - 1, -1):
        k = symbols[t]
        ends = t + 1 == symbols.shape[0] or begins[t + 1]
        if ends:
            after = ones
        before = apply(back, k, after)
        if add(before) < _SMALL:
            after, before, _ = settle(back, k, after)
        a = load(workspace, t - origin, ones)
        likelihood = add(times(a, before))
        if likelihood < _TINY and add(a) > 0.0:
            a = divide(a, add(a))
            likelihood = add(times(a, before))
        if likelihood < _LOST:
            lost += 1
        else:
            a = multiply(a, 1.0 / likelihood)
            if ends and departure:
                add_row(last, k, times(a, before))
            else:
                add_outer(outer, k, a, after)
            if begins[t]:
                add_row(first, 0, times(a, before))
        after = before
    store(message, 0, after)
    return lost


@bare_inlined
def settle(dense, k, a):  # type: ignore[no-untyped-def]
    """The message scaled to sum one, its product ``a @ dense[k]``, the logarithm of the factor taken out."""
    mass = add(a)
    if not mass > 0.0:
        return a, a, -np.inf
    a = divide(a, mass)
    b = apply(dense, k, a)
    return a, b, np.log(mass) if add(b) > 0.0 else -np.inf


@bare_inlined
def apply(dense, k, a):  # type: ignore[no-untyped-def]
    """``a @ dense[k]``."""
    b = a
    for j in range(len(a)):
        total = 0.0
        for i in range(0, len(a), 4):
            total += (a[i] * dense[k, i, j] + a[i + 1] * dense[k, i + 1, j]) + (
                a[i + 2] * dense[k, i + 2, j] + a[i + 3] * dense[k, i + 3, j]
            )
        b = with_item(b, j, total)
    return b


@bare_inlined
def add_outer(sums, k, a, b):  # type: ignore[no-untyped-def]
    """``sums[k] += outer(a, b)``."""
    for i in range(len(a)):
        for j in range(len(a)):
            sums[k, i, j] += a[i] * b[j]


@bare_inlined
def add_row(sums, k, a):  # type: ignore[no-untyped-def]
    """``sums[k] += a``."""
    for i in range(len(a)):
        sums[k, i] += a[i]


@bare_inlined
def add(a):  # type: ignore[no-untyped-def]
    """The sum of a message."""
    total = 0.0
    for i in range(0, len(a), 4):
        total += (a[i] + a[i + 1]) + (a[i + 2] + a[i + 3])
    return total


@bare_inlined
def times(a, b):  # type: ignore[no-untyped-def]
    """Two messages multiplied state by state."""
    for i in range(len(a)):
        a = with_item(a, i, a[i] * b[i])
    return a


@bare_inlined
def multiply(a, factor):  # type: ignore[no-untyped-def]
    """A message times a number."""
    for i in range(len(a)):
        a = with_item(a, i, a[i] * factor)
    return a


@bare_inlined
def divide(a, total):  # type: ignore[no-untyped-def]
    """A message divided by a number."""
    for i in range(len(a)):
        a = with_item(a, i, a[i] / total)
    return a


@bare_inlined
def load(vectors, r, like):  # type: ignore[no-untyped-def]
    """A row as a message of the width of another."""
    a = like
    for i in range(len(like)):
        a = with_item(a, i, vectors[r, i])
    return a


@bare_inlined
def store(vectors, r, a):  # type: ignore[no-untyped-def]
    """A message as a row."""
    for i in range(len(a)):
        vectors[r, i] = a[i]
