"""What is possible at all: sets of states, without their probabilities."""

from __future__ import annotations

import numpy as np

from unlatch.kernels._jit import inlined, kernel


@kernel
def find_impossible(starts, targets, initial, symbols, begins, begin, end, states, stamps, found):  # type: ignore[no-untyped-def]
    """Which of the events ``begin`` to ``end`` no state that was possible before them allows.

    Row ``symbol * n + state`` of all matrices has the entries ``starts[row]`` to ``starts[row + 1]`` of ``targets``.
    ``initial`` (n,) says where episodes may begin. After an event that nothing allows everything is possible that it
    leads to from any state. ``states`` (n + 1,) holds the possible states, their number last, and is carried along;
    ``stamps`` (n,) are scratch, none of them above ``begin`` at first. ``found[t - begin]`` is set.
    """
    n = initial.shape[0]
    kept = np.empty(n, dtype=states.dtype)
    for t in range(begin, end):
        if begins[t]:
            states[n] = 0
            for s in range(n):
                if initial[s]:
                    states[states[n]] = s
                    states[n] += 1
        row = np.int64(symbols[t]) * n
        count = 0
        for k in range(states[n]):
            count = add_reached(starts, targets, row + states[k], t, stamps, kept, count)
        found[t - begin] = count == 0
        if count == 0:  # as if nothing were known: whatever the event leads to, or anything
            for s in range(n):
                count = add_reached(starts, targets, row + s, t, stamps, kept, count)
        if count == 0:
            for s in range(n):
                kept[s] = s
            count = n
        states[n] = count
        for k in range(count):
            states[k] = kept[k]


@inlined
def add_reached(starts, targets, row, t, stamps, kept, count):  # type: ignore[no-untyped-def]
    """Append to the first ``count`` of the ``kept`` states those that a row leads to, each once; how many there are."""
    for entry in range(starts[row], starts[row + 1]):
        j = targets[entry]
        if stamps[j] <= t:
            stamps[j] = t + 1
            kept[count] = j
            count += 1
    return count
