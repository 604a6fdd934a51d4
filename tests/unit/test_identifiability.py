from __future__ import annotations

import numpy as np
import pytest

from unlatch import POMDP, Partition, domains
from unlatch.learn.identify.entries import undetermined_entries


def test_nothing_is_open_when_every_state_stands_alone() -> None:
    model = domains.tiger()
    assert not undetermined_entries(model, Partition.singletons(2)).any


def test_the_pair_of_the_paper_differs_only_where_it_is_said_to_be_open() -> None:
    first, second = domains.unidentifiable_pair()
    opened = undetermined_entries(first, Partition.from_cells([[0], [1, 2]]))
    differs = np.abs(first.transitions - second.transitions) > 1e-12
    assert not (differs & ~opened.transitions).any()
    assert differs.any()
    assert not opened.transitions[1:].any()  # reset and sense are determined
    assert not opened.observations.any()


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_rows_that_differ_inside_a_cell_are_open(emission: str) -> None:
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.ones(3), (2, 3))
    rows[0, 1] = rows[0, 2]
    model = POMDP(rng.dirichlet(np.ones(3), (2, 3)), rows, np.full(3, 1 / 3), emission)  # type: ignore[arg-type]
    opened = undetermined_entries(model, Partition.from_cells([[0], [1, 2]]))
    assert not opened.observations[0].any()
    assert opened.observations[1, 1:].all()
    assert not opened.observations[1, 0].any()


def test_arrival_rows_are_open_where_a_small_change_of_basis_moves_them() -> None:
    rng = np.random.default_rng(3)
    rows = rng.dirichlet(np.ones(4), (2, 3))
    rows[0, 1] = rows[0, 2]
    model = POMDP(rng.dirichlet(np.ones(3), (2, 3)), rows, np.full(3, 1 / 3), "arrival")

    def moved_rows(mixing: np.ndarray) -> np.ndarray:
        moved = model.to_psr().transformed(mixing)
        joint = np.einsum("i,aoij->aoj", model.stationary() @ mixing, moved.updates)
        return (joint / joint.sum(axis=1, keepdims=True)).transpose(0, 2, 1)

    differs = np.zeros(model.observations.shape, dtype=bool)
    for i, j in ((1, 2), (2, 1)):  # inside the cell, rows summing to zero
        change = np.zeros((3, 3))
        change[i, j], change[i, i] = 1e-6, -1e-6
        rate = (moved_rows(np.eye(3) + change) - moved_rows(np.eye(3) - change)) / 2e-6
        differs |= np.abs(rate) > 1e-6
    opened = undetermined_entries(model, Partition.from_cells([[0], [1, 2]]))
    assert np.array_equal(opened.observations, differs)
    assert opened.observations[1].any()
    assert not opened.observations.all()
