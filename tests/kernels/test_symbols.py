"""Whether a symbol settles the reward that comes with it."""

from __future__ import annotations

import numpy as np
import pytest

from unlatch.kernels.symbols import count_symbols, number_events, settled_rewards


@pytest.mark.parametrize(
    ("observations", "rewards", "table", "settled"),
    [
        ([0, 1, 0, 2], [5.0, -1.0, 5.0, 0.0], [5.0, -1.0, 0.0, 0.0], True),
        ([], [], [0.0, 0.0, 0.0, 0.0], True),
        ([3, 3], [0.0, 0.0], [0.0, 0.0, 0.0, 0.0], True),
        ([0, 1, 0], [0.0, -1.0, 5.0], [0.0, -1.0, 0.0, 0.0], False),
    ],
)
def test_settled_rewards(version, observations, rewards, table, settled):
    found, answer = version(settled_rewards)(np.array(observations, dtype=np.int64), np.array(rewards), 4)
    assert bool(answer) is settled
    assert found.tolist() == table


def test_equals_a_dictionary(version, rng):
    observations = rng.integers(0, 6, 300)
    worth = rng.standard_normal(6)
    table, settled = version(settled_rewards)(observations, worth[observations], 6)
    assert settled
    assert table.tolist() == worth.tolist()
    wrong = worth[observations]
    wrong[-1] += 1e-12
    assert not version(settled_rewards)(observations, wrong, 6)[1]


def test_events_are_numbered_and_counted(version, rng):
    first, second = rng.integers(0, 3, 50).astype(np.uint16), rng.integers(0, 5, 50)
    table, found = rng.permutation(15).reshape(3, 5).astype(np.uint32), np.empty(50, dtype=np.uint32)
    version(number_events)(first, second, table, found)
    assert found.tolist() == [int(table[a, b]) for a, b in zip(first, second, strict=True)]
    counts = np.zeros(15, dtype=np.int64)
    version(count_symbols)(found, counts)
    assert counts.tolist() == np.bincount(found, minlength=15).tolist()
