"""Full rank and same rows: one rule, for exact models and for estimates."""

from __future__ import annotations

import numpy as np
import pytest

from unlatch import POMDP, Partition, domains
from unlatch.learn.observability import cells_of, full_rank_actions, full_rank_threshold, same_rows
from unlatch.learn.significance import DISTINCT_ROWS_SIGMAS, FULL_RANK_SIGMAS

NEARLY_SINGULAR = POMDP(
    transitions=[[[0.52, 0.48], [0.48, 0.52]], [[0.9, 0.1], [0.2, 0.8]]],
    observations=[[[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]]],
    initial=[0.5, 0.5],
)


def test_exact_matrices_of_full_rank():
    assert full_rank_actions(domains.tiger()) == (0,)
    assert full_rank_actions(NEARLY_SINGULAR) == (0, 1)
    assert full_rank_actions(NEARLY_SINGULAR, min_singular_value=0.5) == (1,)


@pytest.mark.parametrize(("visits", "found"), [(100, (1,)), (100_000, (0, 1))])
def test_few_visits_do_not_show_a_small_singular_value(visits, found):
    assert full_rank_actions(NEARLY_SINGULAR, np.full((2, 2), float(visits))) == found


def test_an_action_without_visits_has_no_rank():
    visits = np.array([[1e6, 1e6], [0.0, 0.0]])
    assert full_rank_actions(NEARLY_SINGULAR, visits) == (0,)


def test_the_threshold_is_a_multiple_of_the_standard_error():
    assert full_rank_threshold(0.1) == pytest.approx(FULL_RANK_SIGMAS * 0.1)
    assert full_rank_threshold(0.0) > 0


def test_rows_within_their_noise_are_the_same():
    rows = np.array([[[0.5, 0.5], [0.6, 0.4], [0.9, 0.1]]])
    distance = 0.2
    for factor, cells in ((1.1, [[0, 1], [2]]), (0.9, [[0], [1], [2]])):
        deviations = np.full((1, 3, 3, 2), factor * distance / (2 * DISTINCT_ROWS_SIGMAS))
        assert same_rows(rows, deviations) == Partition.from_cells(cells)
    assert same_rows(rows) == Partition.singletons(3)
    assert same_rows(rows, tolerance=0.3) == Partition.from_cells([[0, 1], [2]])
    assert same_rows(rows, tolerance=0.7) == Partition.from_cells([[0, 1, 2]])  # transitivity


def test_without_an_action_all_states_are_alike():
    assert cells_of(NEARLY_SINGULAR, ()) == Partition.from_cells([[0, 1]])


def test_cells_count_only_the_actions_given():
    assert cells_of(NEARLY_SINGULAR, (0,)).is_trivial
    assert cells_of(NEARLY_SINGULAR, (1,)).n_cells == 1
    assert cells_of(NEARLY_SINGULAR, (0,), np.full((2, 2), 3.0)).n_cells == 1  # three visits tell nothing
    assert cells_of(NEARLY_SINGULAR, (0,), np.full((2, 2), 1000.0)).is_trivial
