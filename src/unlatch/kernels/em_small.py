"""The passes of `unlatch.kernels.em` for at most four states, with every message held in registers.

Same arguments, same results up to rounding, about four times faster: with so few states the time goes into
moving messages to and from memory, not into arithmetic. Operators are dense (symbols, 4, 4); states that do
not exist have rows and columns of zeros.
"""

from __future__ import annotations

import numpy as np

from unlatch.kernels._jit import kernel

_SMALL = 1e-30
_TINY = 1e-100
_LOST = 1e-305


@kernel
def forward_blocks(  # type: ignore[no-untyped-def]
    ahead, initial, steps, length, first, last, message, checkpoints
):
    """As `unlatch.kernels.em.forward_blocks`."""
    symbols, begins = steps
    dense = ahead.dense
    gained = 0.0
    block = first
    a = load(message, 0)
    for t in range(first * length, min(last * length, symbols.shape[0])):
        if begins[t]:
            if t > 0:
                gained += np.log(add(a))
            a = restart(initial)
        if t == block * length:
            store(checkpoints, block, a)
            block += 1
        b = apply(dense, symbols[t], a)
        if add(b) < _SMALL:
            _, b, gain = settle(dense, symbols[t], a)
            if gain == -np.inf:
                return gained, t
            gained += gain
        a = b
    store(message, 0, a)
    return gained, min(last * length, symbols.shape[0])


@kernel
def backward_blocks(back, ones, steps, length, first, last, message):  # type: ignore[no-untyped-def]
    """As `unlatch.kernels.em.backward_blocks`."""
    symbols, begins = steps
    dense = back.dense
    total = symbols.shape[0]
    b = load(message, 0)
    for t in range(min(last * length, total) - 1, first * length - 1, -1):
        if t + 1 == total or begins[t + 1]:
            b = restart(ones)
        a = apply(dense, symbols[t], b)
        if add(a) < _SMALL:
            _, a, _ = settle(dense, symbols[t], b)
        b = a
    store(message, 0, b)


@kernel
def count_blocks(  # type: ignore[no-untyped-def]
    ahead, back, initial, ones, steps, departure, length, first, last, checkpoints, message, workspace, sums
):
    """As `unlatch.kernels.em.count_blocks`."""
    if length == 1:
        return count_steps(back, ones, steps, departure, first, last, message, checkpoints, 0, sums)
    lost = 0
    for block in range(last - 1, first - 1, -1):
        begin, end = block * length, min(block * length + length, steps.symbols.shape[0])
        refill(ahead, initial, steps, begin, end, load(checkpoints, block), workspace)
        lost += count_steps(back, ones, steps, departure, begin, end, message, workspace, begin, sums)
    return lost


@kernel
def refill(ahead, initial, steps, begin, end, a, workspace):  # type: ignore[no-untyped-def]
    """The forward messages before every step of a block, from ``a`` before its first step."""
    symbols, begins = steps
    dense = ahead.dense
    for t in range(begin, end):
        if begins[t]:
            a = restart(initial)
        store(workspace, t - begin, a)
        b = apply(dense, symbols[t], a)
        if add(b) < _SMALL:
            a, b, _ = settle(dense, symbols[t], a)
        a = b


@kernel
def count_steps(  # type: ignore[no-untyped-def]
    back, ones, steps, departure, begin, end, message, workspace, origin, sums
):
    """As `unlatch.kernels.em.count_steps`."""
    symbols, begins = steps
    dense = back.dense
    outer, _, last, first = sums
    lost = 0
    after = load(message, 0)
    for t in range(end - 1, begin - 1, -1):
        k = symbols[t]
        ends = t + 1 == symbols.shape[0] or begins[t + 1]
        if ends:
            after = restart(ones)
        before = apply(dense, k, after)
        if add(before) < _SMALL:
            after, before, _ = settle(dense, k, after)
        a = load(workspace, t - origin)
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


@kernel
def settle(dense, k, a):  # type: ignore[no-untyped-def]
    """The message scaled to sum one, its product ``a @ dense[k]``, the logarithm of the factor taken out."""
    mass = add(a)
    if not mass > 0.0:
        return a, a, -np.inf
    a = divide(a, mass)
    b = apply(dense, k, a)
    return a, b, np.log(mass) if add(b) > 0.0 else -np.inf


@kernel
def apply(dense, k, a):  # type: ignore[no-untyped-def]
    """``a @ dense[k]``, written out so that nothing leaves the registers."""
    return (
        (a[0] * dense[k, 0, 0] + a[1] * dense[k, 1, 0]) + (a[2] * dense[k, 2, 0] + a[3] * dense[k, 3, 0]),
        (a[0] * dense[k, 0, 1] + a[1] * dense[k, 1, 1]) + (a[2] * dense[k, 2, 1] + a[3] * dense[k, 3, 1]),
        (a[0] * dense[k, 0, 2] + a[1] * dense[k, 1, 2]) + (a[2] * dense[k, 2, 2] + a[3] * dense[k, 3, 2]),
        (a[0] * dense[k, 0, 3] + a[1] * dense[k, 1, 3]) + (a[2] * dense[k, 2, 3] + a[3] * dense[k, 3, 3]),
    )


@kernel
def add_outer(sums, k, a, b):  # type: ignore[no-untyped-def]
    """``sums[k] += outer(a, b)``."""
    for i in range(4):
        for j in range(4):
            sums[k, i, j] += a[i] * b[j]


@kernel
def add_row(sums, k, a):  # type: ignore[no-untyped-def]
    """``sums[k] += a``."""
    for i in range(4):
        sums[k, i] += a[i]


@kernel
def add(a):  # type: ignore[no-untyped-def]
    """The sum of a message."""
    return (a[0] + a[1]) + (a[2] + a[3])


@kernel
def times(a, b):  # type: ignore[no-untyped-def]
    """Two messages multiplied state by state."""
    return (a[0] * b[0], a[1] * b[1], a[2] * b[2], a[3] * b[3])


@kernel
def multiply(a, factor):  # type: ignore[no-untyped-def]
    """A message times a number."""
    return (a[0] * factor, a[1] * factor, a[2] * factor, a[3] * factor)


@kernel
def divide(a, total):  # type: ignore[no-untyped-def]
    """A message divided by a number."""
    return (a[0] / total, a[1] / total, a[2] / total, a[3] / total)


@kernel
def load(vectors, r):  # type: ignore[no-untyped-def]
    """A row as a message."""
    return (vectors[r, 0], vectors[r, 1], vectors[r, 2], vectors[r, 3])


@kernel
def restart(vector):  # type: ignore[no-untyped-def]
    """The message that an episode begins with."""
    return (vector[0], vector[1], vector[2], vector[3])


@kernel
def store(vectors, r, a):  # type: ignore[no-untyped-def]
    """A message as a row."""
    for i in range(4):
        vectors[r, i] = a[i]
