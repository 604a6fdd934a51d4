"""What every block of a log says about the numbers of a model: increments of the score.

A symbol's matrix M holds the joint probability of what the step shows and of its move. Beliefs a go ahead and are
scaled to sum one, by the probability c of the step: a' = a @ M / c. Messages b come back, b = M @ b' / c, and keep
a @ b = 1, so that the expected moves of the step are a[s] M[s, s'] b'[s'] / c without another division.

What a block adds to the expected moves of the steps before it is found by the same recursion from b - 1: the
difference of the messages with and without the block. It fades as the chain forgets, and where nothing is left of it
the way back ends. Beliefs are lists of the states that are possible, and only these are looked at: of hundreds of
states mostly a handful are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from unlatch.kernels._jit import bare, bare_inlined

_GONE = 1e-250
"""A belief below is zero. Messages are at most one over the belief, and must stay finite."""

_FORGOTTEN = 1e-4
"""What a block may still say about a state before it, summed over the states, where the way back ends."""


class ScoredSteps(NamedTuple):
    """A log as these kernels read it: the symbol of every step (unsigned), and whether it begins an episode."""

    symbols: Any
    begins: Any


class Moves(NamedTuple):
    """The nonzero entries of all symbols' matrices, those of symbol k from state i being ``starts[k * n + i]`` to
    ``starts[k * n + i + 1]``; and the coordinates that count them, -1 for none.

    An entry is counted by ``moved`` and ``shown`` (entries,), all entries of a symbol from one state together by
    ``left`` (symbols * n, 2), and the states that episodes begin in by ``began`` (n,).
    """

    starts: Any
    targets: Any
    values: Any
    moved: Any
    shown: Any
    left: Any
    began: Any


class Beliefs(NamedTuple):
    """Of the steps from ``origin`` on: the belief before each, the ``states`` and their ``masses`` from ``offsets[r]``
    to ``offsets[r + 1]``, and its probability given those before it. ``place`` (states,) is scratch."""

    origin: int
    offsets: Any
    states: Any
    masses: Any
    probability: Any
    place: Any


@bare
def filter_steps(moves, initial, steps, beliefs, begin, end):  # type: ignore[no-untyped-def]
    """Note the beliefs after steps ``begin`` to ``end``, from the one before the first.

    Returns (where it ended, whether that is all that there is room for). Fewer steps than asked for, and room for more,
    means that the next step is impossible.
    """
    origin, offsets, states, masses, probability, place = beliefs
    n = place.shape[0]
    for t in range(begin, end):
        r = t - origin
        if offsets[r] + 2 * n > states.shape[0]:
            return t, True
        if steps.begins[t]:
            restart(initial, r, beliefs)
        middle = offsets[r + 1]
        last = middle
        base = int(steps.symbols[t]) * n
        total = 0.0
        for p in range(offsets[r], middle):
            weight = masses[p]
            if weight > 0.0:
                row = base + states[p]
                for e in range(moves.starts[row], moves.starts[row + 1]):
                    share = weight * moves.values[e]
                    total += share
                    j = moves.targets[e]
                    known = place[j]
                    if middle <= known < last and states[known] == j:
                        masses[known] += share
                    else:
                        place[j] = last
                        states[last] = j
                        masses[last] = share
                        last += 1
        if not total > 0.0:
            return t, False
        probability[r] = total
        for p in range(middle, last):
            share = masses[p] / total
            masses[p] = share if share > _GONE else 0.0
        offsets[r + 2] = last
    return end, False


@bare_inlined
def restart(initial, r, beliefs):  # type: ignore[no-untyped-def]
    """Put the belief that an episode begins with in the place of the last one, number ``r``."""
    last = beliefs.offsets[r]
    for i in range(initial.shape[0]):
        if initial[i] > 0.0:
            beliefs.states[last] = i
            beliefs.masses[last] = initial[i]
            last += 1
    beliefs.offsets[r + 1] = last


@bare
def score_blocks(  # type: ignore[no-untyped-def]
    moves, rows, roots, steps, beliefs, length, reach, first, last, message, counts, scores
):
    """The increments of the score of blocks ``first`` to ``last``, one row of ``scores`` each.

    ``rows`` are the first coordinates of all rows of probabilities, ``roots`` the square roots of these. A block is
    followed back at most ``reach`` steps beyond its beginning. ``message`` has two rows and ``counts`` one number for
    every coordinate; both are scratch.
    """
    begins = steps.begins
    for block in range(first, last):
        begin, end = block * length, min(block * length + length, begins.shape[0])
        for c in range(counts.shape[0]):
            counts[c] = 0.0
        now = 0
        for t in range(end - 1, begin - 1, -1):
            if t == end - 1 or begins[t + 1]:
                for i in range(message.shape[1]):
                    message[now, i] = 1.0
            step_back(moves, steps, beliefs, t, message, now, counts)
            now = 1 - now
        if not begins[begin]:
            r = begin - beliefs.origin
            for p in range(beliefs.offsets[r], beliefs.offsets[r + 1]):
                message[now, beliefs.states[p]] -= 1.0
            for t in range(begin - 1, max(begin - reach, beliefs.origin) - 1, -1):
                if forgotten(beliefs, t + 1 - beliefs.origin, message, now):
                    break
                step_back(moves, steps, beliefs, t, message, now, counts)
                now = 1 - now
                if begins[t]:
                    break
        write_scores(counts, rows, roots, scores, block - first)


@bare_inlined
def step_back(moves, steps, beliefs, t, message, now, counts):  # type: ignore[no-untyped-def]
    """Carry ``message[now]`` from after step ``t`` to before it, as ``message[1 - now]``, and count its moves. At
    states that are not possible there it holds whatever it held."""
    r = t - beliefs.origin
    base = int(steps.symbols[t]) * message.shape[1]
    scale = 1.0 / beliefs.probability[r]
    for p in range(beliefs.offsets[r], beliefs.offsets[r + 1]):
        i, belief = beliefs.states[p], beliefs.masses[p]
        row = base + i
        total = 0.0
        if belief > 0.0:
            for e in range(moves.starts[row], moves.starts[row + 1]):
                part = scale * moves.values[e] * message[now, moves.targets[e]]
                total += part
                if moves.moved[e] >= 0:
                    counts[moves.moved[e]] += belief * part
                if moves.shown[e] >= 0:
                    counts[moves.shown[e]] += belief * part
            for which in range(2):
                if moves.left[row, which] >= 0:
                    counts[moves.left[row, which]] += belief * total
            if steps.begins[t] and moves.began[i] >= 0:
                counts[moves.began[i]] += belief * total
        message[1 - now, i] = total


@bare_inlined
def forgotten(beliefs, r, message, now):  # type: ignore[no-untyped-def]
    """Whether the difference of two messages says nothing about the states any more."""
    total = 0.0
    for p in range(beliefs.offsets[r], beliefs.offsets[r + 1]):
        total += beliefs.masses[p] * abs(message[now, beliefs.states[p]])
    return total < _FORGOTTEN


@bare_inlined
def write_scores(counts, rows, roots, scores, b):  # type: ignore[no-untyped-def]
    """Half the score: of a row with counts n and roots x of its probabilities, n / x - x * sum(n)."""
    for row in range(rows.shape[0] - 1):
        visits = 0.0
        for c in range(rows[row], rows[row + 1]):
            visits += counts[c]
        for c in range(rows[row], rows[row + 1]):
            scores[b, c] = counts[c] / roots[c] - roots[c] * visits


@bare
def add_products(scores, bounds, begins, sums):  # type: ignore[no-untyped-def]
    """Add the outer products of every row of ``scores`` to ``sums``, for each part of its columns with itself.

    Parts follow each other: part p has columns ``bounds[p]`` to ``bounds[p + 1]``, and its square stands in ``sums``
    from ``begins[p]`` on. A block touches few of many parts, and little of these: zeros are passed over.
    """
    for b in range(scores.shape[0]):
        for p in range(bounds.shape[0] - 1):
            first, last = bounds[p], bounds[p + 1]
            for i in range(first, last):
                score = scores[b, i]
                if score != 0.0:
                    row = begins[p] + (i - first) * (last - first) - first
                    for j in range(first, last):
                        sums[row + j] += score * scores[b, j]
