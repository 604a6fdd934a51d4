"""The passes of `unlatch.kernels.em` where the cost of a step follows the entries that leave states with mass.

A forward message is a list of the states that can have been reached, with their masses; all others are zero exactly,
and nothing is left out because it is small. The counting pass asks for the backward message at the states of the
forward message only, so that of a step's matrix only their rows are read. The backward message itself is an array
over all states in which the others hold whatever they held.

Messages are scaled by powers of two, which no digit depends on: the backward message that the counting pass arrives
with in the middle of a log has the same digits as the one that `backward_steps` has made without it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from unlatch.kernels._jit import bare, bare_inlined

_SMALL = 1e-30
_TINY = 1e-100
_LOST = 1e-305

_FAINT = 1e-200
"""A backward message with an entry below, in a scale in which the sum is not small, may have lost digits."""

_LARGEST_EXPONENT = 1000
"""Of the factors that messages are scaled by: two to the power of 1024 would be infinite."""


class Entries(NamedTuple):
    """The matrices of all symbols: row ``r = symbol * states + state`` has the entries ``starts[r]`` to
    ``starts[r + 1]`` of ``targets`` and ``values``, all of which are not zero."""

    starts: Any
    targets: Any
    values: Any


class Origins(NamedTuple):
    """The same entries by the state reached: the states that lead to it, from ``starts[r]`` to ``starts[r + 1]``."""

    starts: Any
    sources: Any


class Messages(NamedTuple):
    """Forward messages, one after the other: number r has the ``states`` and ``masses`` from ``offsets[r]`` to
    ``offsets[r + 1]``."""

    offsets: Any
    states: Any
    masses: Any


class Backward(NamedTuple):
    """A backward message: its ``values`` (n,) and, for `backward_steps`, which ``states`` (2, n) are not zero and how
    many there are, ``count`` (1,). The second row of states and ``seen`` (n,) are scratch."""

    values: Any
    states: Any
    count: Any
    seen: Any


class ListedSums(NamedTuple):
    """What the counting pass adds to: products of messages per entry, state posteriors of the ``last`` steps of
    episodes per symbol, and of their ``first`` (1, n)."""

    entries: Any
    last: Any
    first: Any


@bare
def forward_steps(entries, initial, steps, begin, end, origin, place, kept):  # type: ignore[no-untyped-def]
    """Append the forward messages after steps ``begin`` to ``end`` to those that are kept, from step ``origin`` on.

    Returns (logarithm of the factors that were taken out, steps done, whether that is all that there is room for).
    Fewer steps done than asked for, and room for more, means that the next observation is impossible. ``place`` (n,)
    has the place of every state in the last message, and whatever lies before that for all others.
    """
    symbols, begins = steps
    offsets, states, _ = kept
    n = place.shape[0]
    gained = 0.0
    for t in range(begin, end):
        r = t - origin
        if offsets[r + 1] + 2 * n > states.shape[0]:
            return gained, t, True
        if begins[t]:
            if t > 0:
                gained += np.log(message_sum(kept, r))
            restart(initial, r, place, kept)
        if advance(entries, symbols[t], r, place, kept) < _SMALL:
            gained += scale(kept, r)
            forget(r + 1, place, kept)
            if not advance(entries, symbols[t], r, place, kept) > 0.0:
                return gained, t, False
    return gained, end, False


@bare
def forward_blocks(  # type: ignore[no-untyped-def]
    entries, initial, steps, length, first, last, place, workspace, checkpoints
):
    """Carry the first message of ``workspace`` through blocks ``first`` to ``last``, noting it at each start.

    Returns (logarithm of the factors that were taken out, blocks done, step that is impossible or minus one). Fewer
    blocks done than asked for means that ``checkpoints`` has no room for more.
    """
    gained = 0.0
    for block in range(first, last):
        if checkpoints.offsets[block] + place.shape[0] > checkpoints.states.shape[0]:
            return gained, block, -1
        copy(workspace, 0, checkpoints, block)
        begin, end = block * length, min(block * length + length, steps.symbols.shape[0])
        clear(place)
        gain, done, _ = forward_steps(entries, initial, steps, begin, end, begin, place, workspace)
        gained += gain
        if done < end:
            return gained, block, done
        copy(workspace, end - begin, workspace, 0)
    return gained, last, -1


@bare
def count_blocks(  # type: ignore[no-untyped-def]
    entries,
    initial,
    steps,
    departure,
    length,
    first,
    last,
    place,
    checkpoints,
    workspace,
    after,
    before,
    sums,
):
    """As `count_steps` for blocks ``first`` to ``last``, whose forward messages are computed anew."""
    lost = 0
    for block in range(last - 1, first - 1, -1):
        copy(checkpoints, block, workspace, 0)
        begin, end = block * length, min(block * length + length, steps.symbols.shape[0])
        clear(place)
        forward_steps(entries, initial, steps, begin, end, begin, place, workspace)
        lost += count_steps(entries, steps, departure, begin, end, begin, workspace, after, before, sums)
    return lost


@bare
def count_steps(  # type: ignore[no-untyped-def]
    entries, steps, departure, begin, end, origin, kept, after, before, sums
):
    """Add the expected counts of steps ``begin`` to ``end`` to ``sums``, from the last to the first.

    ``after`` (n,) is the backward message after the last of these steps and becomes the one before the first;
    ``before`` (n,) is scratch. Returns the number of steps whose messages have underflowed.
    """
    symbols, begins = steps
    offsets, states, _ = kept
    n = after.shape[0]
    lost = 0
    for t in range(end - 1, begin - 1, -1):
        k, r = symbols[t], t - origin
        ends = t + 1 == symbols.shape[0] or begins[t + 1]
        if ends:
            for i in range(n):
                after[i] = 1.0
        mass, likelihood = recede(entries, k, r, kept, after, before)
        if mass < _SMALL:
            lift(entries, k, r, kept, after)
            _, likelihood = recede(entries, k, r, kept, after, before)
        if likelihood < _TINY:
            scale(kept, r)
            _, likelihood = recede(entries, k, r, kept, after, before)
        if likelihood < _LOST:
            lost += 1
        else:
            weight = 1.0 / likelihood
            if ends and departure:
                add_posterior(sums.last, k, weight, r, kept, before)
            else:
                add_entries(sums.entries, entries, k, weight, r, kept, after)
            if begins[t]:
                add_posterior(sums.first, 0, weight, r, kept, before)
        for p in range(offsets[r], offsets[r + 1]):
            after[states[p]] = before[p - offsets[r]]
    return lost


@bare
def backward_steps(entries, origins, steps, begin, end, message, before):  # type: ignore[no-untyped-def]
    """Carry a backward message from after step ``end - 1`` to before step ``begin``, whatever came before. ``before``
    (n,) is scratch.

    Returns False as soon as an entry is so faint that it may have lost digits.
    """
    symbols, begins = steps
    values, states, count, _ = message
    n = values.shape[0]
    for t in range(end - 1, begin - 1, -1):
        if t + 1 == symbols.shape[0] or begins[t + 1]:
            for i in range(n):
                values[i], states[0, i] = 1.0, i
            count[0] = n
        found = leading(origins, symbols[t], t, message)
        mass, least = rows(entries, symbols[t], found, message, before)
        if mass < _SMALL:
            peak = 0.0
            for c in range(count[0]):
                peak = max(peak, values[states[0, c]])
            multiply(values, power_below(peak))
            mass, least = rows(entries, symbols[t], found, message, before)
        if found == 0 or least < _FAINT:
            return False
        for c in range(count[0]):
            values[states[0, c]] = 0.0
        for c in range(found):
            states[0, c] = states[1, c]
            values[states[1, c]] = before[c]
        count[0] = found
    return True


@bare_inlined
def leading(origins, k, t, message):  # type: ignore[no-untyped-def]
    """Note the states that lead to those of a backward message; returns how many there are."""
    starts, sources = origins
    values, states, count, seen = message
    row = k * values.shape[0]
    found = 0
    for c in range(count[0]):
        j = states[0, c]
        for e in range(starts[row + j], starts[row + j + 1]):
            i = sources[e]
            if seen[i] != t:
                seen[i] = t
                states[1, found] = i
                found += 1
    return found


@bare_inlined
def rows(entries, k, found, message, before):  # type: ignore[no-untyped-def]
    """The backward message one step earlier at the states found, each as `recede` adds it up; its sum and its least."""
    starts, targets, values = entries
    row = k * message.values.shape[0]
    mass, least = 0.0, np.inf
    for c in range(found):
        i = message.states[1, c]
        total = 0.0
        for e in range(starts[row + i], starts[row + i + 1]):
            total += values[e] * message.values[targets[e]]
        before[c] = total
        mass += total
        least = min(least, total)
    return mass, least


@bare_inlined
def advance(entries, k, r, place, kept):  # type: ignore[no-untyped-def]
    """The forward message after message ``r`` and a step with symbol ``k``, appended; returns its sum."""
    starts, targets, values = entries
    offsets, states, masses = kept
    row = k * place.shape[0]
    middle = offsets[r + 1]
    end = middle
    total = 0.0
    for p in range(offsets[r], middle):
        mass, i = masses[p], row + states[p]
        for e in range(starts[i], starts[i + 1]):
            share = mass * values[e]
            total += share
            j = targets[e]
            if place[j] < middle:
                place[j] = end
                states[end] = j
                masses[end] = share
                end += 1
            else:
                masses[place[j]] += share
    offsets[r + 2] = end
    return total


@bare_inlined
def recede(entries, k, r, kept, after, before):  # type: ignore[no-untyped-def]
    """The backward message before a step at the states of forward message ``r``: its sum, and the likelihood."""
    starts, targets, values = entries
    offsets, states, masses = kept
    row = k * after.shape[0]
    first = offsets[r]
    mass, likelihood = 0.0, 0.0
    for p in range(first, offsets[r + 1]):
        i = row + states[p]
        total = 0.0
        for e in range(starts[i], starts[i + 1]):
            total += values[e] * after[targets[e]]
        before[p - first] = total
        mass += total
        likelihood += masses[p] * total
    return mass, likelihood


@bare_inlined
def lift(entries, k, r, kept, after):  # type: ignore[no-untyped-def]
    """Scale a backward message by a power of two, so that the largest entry that matters is near one."""
    starts, targets, _ = entries
    offsets, states, _ = kept
    row = k * after.shape[0]
    peak = 0.0
    for p in range(offsets[r], offsets[r + 1]):
        i = row + states[p]
        for e in range(starts[i], starts[i + 1]):
            peak = max(peak, after[targets[e]])
    multiply(after, power_below(peak))


@bare_inlined
def power_below(peak):  # type: ignore[no-untyped-def]
    """The power of two that takes a number to between one half and one; one for zero."""
    if not peak > 0.0:
        return 1.0
    return math.ldexp(1.0, min(-math.frexp(peak)[1], _LARGEST_EXPONENT))


@bare_inlined
def multiply(vector, factor):  # type: ignore[no-untyped-def]
    for i in range(vector.shape[0]):
        vector[i] *= factor


@bare_inlined
def add_entries(sums, entries, k, weight, r, kept, after):  # type: ignore[no-untyped-def]
    """The outer product of the two messages, at the entries that leave the states of the forward message."""
    starts, targets, _ = entries
    offsets, states, masses = kept
    row = k * after.shape[0]
    for p in range(offsets[r], offsets[r + 1]):
        share, i = weight * masses[p], row + states[p]
        for e in range(starts[i], starts[i + 1]):
            sums[e] += share * after[targets[e]]


@bare_inlined
def add_posterior(sums, k, weight, r, kept, before):  # type: ignore[no-untyped-def]
    """The product of the two messages, state by state."""
    offsets, states, masses = kept
    for p in range(offsets[r], offsets[r + 1]):
        sums[k, states[p]] += weight * masses[p] * before[p - offsets[r]]


@bare_inlined
def restart(initial, r, place, kept):  # type: ignore[no-untyped-def]
    """Put the message that an episode begins with in the place of the last one, number ``r``."""
    forget(r, place, kept)
    offsets, states, masses = kept
    end = offsets[r]
    for i in range(initial.shape[0]):
        if initial[i] > 0.0:
            states[end] = i
            masses[end] = initial[i]
            end += 1
    offsets[r + 1] = end


@bare_inlined
def forget(r, place, kept):  # type: ignore[no-untyped-def]
    """The states of message ``r`` have no place any more."""
    for p in range(kept.offsets[r], kept.offsets[r + 1]):
        place[kept.states[p]] = -1


@bare_inlined
def clear(place):  # type: ignore[no-untyped-def]
    for i in range(place.shape[0]):
        place[i] = -1


@bare_inlined
def message_sum(kept, r):  # type: ignore[no-untyped-def]
    total = 0.0
    for p in range(kept.offsets[r], kept.offsets[r + 1]):
        total += kept.masses[p]
    return total


@bare_inlined
def scale(kept, r):  # type: ignore[no-untyped-def]
    """Scale message ``r`` by a power of two, so that its sum is near one; returns the logarithm of what it lost."""
    factor = power_below(message_sum(kept, r))
    for p in range(kept.offsets[r], kept.offsets[r + 1]):
        kept.masses[p] *= factor
    return -np.log(factor)


@bare_inlined
def copy(source, r, target, q):  # type: ignore[no-untyped-def]
    """Message ``r`` of one list becomes the last of another, number ``q``."""
    first = target.offsets[q]
    for p in range(source.offsets[r], source.offsets[r + 1]):
        target.states[first + p - source.offsets[r]] = source.states[p]
        target.masses[first + p - source.offsets[r]] = source.masses[p]
    target.offsets[q + 1] = first + source.offsets[r + 1] - source.offsets[r]
