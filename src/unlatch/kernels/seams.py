"""Beliefs and chances at the places where a long log is cut: from the steps around them alone."""

from __future__ import annotations

import numpy as np

from unlatch.kernels._jit import kernel


@kernel
def believed(updates, initial, symbols, begins, first, out):  # type: ignore[no-untyped-def]
    """The belief after all events from ``first`` on, from a uniform one before them.

    Zero throughout if the events are impossible.
    """
    n = initial.shape[0]
    moved = np.empty(n)
    for i in range(n):
        out[i] = 1.0 / n
    for t in range(first, symbols.shape[0]):
        if begins[t]:
            for i in range(n):
                out[i] = initial[i]
        total = 0.0
        for j in range(n):
            moved[j] = 0.0
        for i in range(n):
            if out[i] > 0.0:
                for j in range(n):
                    moved[j] += out[i] * updates[symbols[t], i, j]
        for j in range(n):
            total += moved[j]
        for j in range(n):
            out[j] = moved[j] / total if total > 0.0 else 0.0


@kernel
def foreseen(updates, symbols, begins, last, out):  # type: ignore[no-untyped-def]
    """How likely the events up to ``last`` are from every state before them, scaled to a largest of one.

    Where an episode begins, what comes from there on says nothing about the state before.
    """
    n = out.shape[0]
    seen = np.empty(n)
    for i in range(n):
        out[i] = 1.0
    for t in range(last - 1, -1, -1):
        top = 0.0
        for i in range(n):
            total = 0.0
            for j in range(n):
                total += updates[symbols[t], i, j] * out[j]
            seen[i] = total
            top = max(top, total)
        for i in range(n):
            out[i] = seen[i] / top if top > 0.0 else 0.0
        if begins[t]:
            for i in range(n):
                out[i] = 1.0
