"""Value functions as vectors: what a belief is worth, and what to do there."""

import doctest

import numpy as np
import pytest

import unlatch.core.alpha_vectors
from unlatch import AlphaVectors
from unlatch.errors import DataError

PLANS = AlphaVectors([[0.0, 10.0], [6.0, 6.0], [10.0, 0.0]], [1, 0, 2])


@pytest.mark.parametrize(
    ("belief", "best", "action", "value"),
    [([1, 0], 2, 2, 10.0), ([0.5, 0.5], 1, 0, 6.0), ([0.25, 0.75], 0, 1, 7.5), ([0.4, 0.6], 0, 1, 6.0)],
)
def test_the_vector_that_is_worth_most_decides(belief, best, action, value):
    assert (PLANS.best(belief), PLANS.action(belief)) == (best, action)
    assert PLANS.value(belief) == pytest.approx(value)


def test_it_is_a_value():
    vectors = np.array([[0.0, 10.0], [6.0, 6.0]])
    plans = AlphaVectors(vectors, np.array([1, 0]))
    vectors[0, 0] = 5.0
    assert plans.vectors[0, 0] == 0.0
    assert not plans.vectors.flags.writeable
    assert not plans.actions.flags.writeable
    assert plans == AlphaVectors([[0.0, 10.0], [6.0, 6.0]], [1, 0])
    assert plans != AlphaVectors([[0.0, 10.0], [6.0, 6.0]], [1, 1])
    assert (len(plans), plans.n_states) == (2, 2)
    assert "2 vectors" in repr(plans)
    assert "action 1" in plans._repr_html_()


@pytest.mark.parametrize(
    ("vectors", "actions"),
    [
        ([[1.0, np.nan]], [0]),
        ([[1.0, 2.0]], [0, 1]),
        ([[1.0, 2.0]], [-1]),
        ([[1.0, 2.0]], [0.5]),
        ([1.0, 2.0], [0, 0]),
        (np.empty((0, 2)), np.empty(0, dtype=int)),
        (np.empty((2, 0)), [0, 0]),
    ],
)
def test_what_is_no_value_function_is_refused(vectors, actions):
    with pytest.raises(DataError):
        AlphaVectors(vectors, actions)


@pytest.mark.parametrize("belief", [[0.5], [0.2, 0.3, 0.5], [[0.5, 0.5]], [np.nan, 0.5]])
def test_a_belief_over_other_states_is_refused(belief):
    with pytest.raises(DataError, match="belief"):
        PLANS.value(belief)


def test_the_example_is_true():
    found = doctest.testmod(unlatch.core.alpha_vectors, extraglobs={"AlphaVectors": AlphaVectors})
    assert found.attempted > 0
    assert found.failed == 0
