"""Which events the zeros of a model do not allow, beside sets of states in plain Python."""

from __future__ import annotations

import numpy as np

import naive
from unlatch.kernels.support import find_impossible


def test_equals_sets_of_states(version, rng):
    for _ in range(20):
        symbols, n, events = 3, 5, 60
        matrices = rng.random((symbols, n, n)) * (rng.random((symbols, n, n)) < 0.15)
        initial = np.arange(n) == rng.integers(n)
        log, begins = rng.integers(0, symbols, events).astype(np.uint32), rng.random(events) < 0.05
        begins[0] = True
        _, targets = np.nonzero(matrices.reshape(-1, n))
        starts = np.concatenate([[0], np.cumsum(np.count_nonzero(matrices, axis=2))])
        states, stamps = np.zeros(n + 1, dtype=np.int64), np.zeros(n, dtype=np.int64)
        found = np.zeros(events, dtype=bool)
        for begin, end in ((0, 23), (23, events)):  # as calls do that may be stopped between
            version(find_impossible)(
                starts, targets, initial, log, begins, begin, end, states, stamps, found[begin:end]
            )
        expected = naive.impossible_events(matrices, initial, log, begins)
        assert np.flatnonzero(found).tolist() == expected
        assert expected  # the case is not empty
