"""Rules that point at states, and what they say when nothing fits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import naive
from unlatch import POMDP, Partition, PartitionModel, domains, most_ambiguous_state, states_where
from unlatch.errors import UsageError
from unlatch.planning.goals import state_named, states_in_cell

ENDS = {"left": "end-left", "right": "end-right"}
DIRECTIONAL = domains.directional_hallway()
NOISY = domains.noisy_hallway()


def as_partition_model(model):
    return PartitionModel(model.to_psr(), Partition.singletons(model.n_states))


def test_the_middle_of_the_directional_hallway_shows_the_end_ahead():
    assert states_where(DIRECTIONAL, "argmax", ENDS) == (1,)
    assert states_where(DIRECTIONAL, "argmax", {0: 0, 1: 1}) == (1,)
    assert states_where(as_partition_model(DIRECTIONAL), "argmax", ENDS) == (1,)


def test_several_states_may_fit():
    assert states_where(DIRECTIONAL, "argmax", {"left": "end-left"}) == (0, 1)


def test_an_observation_that_ties_is_a_most_likely_one():
    assert states_where(NOISY, "argmax", ENDS) == (1,)


def test_the_middle_of_the_noisy_hallway_is_the_most_ambiguous():
    assert most_ambiguous_state(NOISY) == 1
    assert most_ambiguous_state(as_partition_model(NOISY)) == 1


def test_among_equally_ambiguous_states_the_first_one_is_taken():
    assert most_ambiguous_state(DIRECTIONAL) == 0
    assert most_ambiguous_state(domains.sense_float_reset(3)) == 0


def test_nothing_fits():
    with pytest.raises(UsageError, match="state 0: left shows end-left, right shows end-left; state 1"):
        states_where(DIRECTIONAL, "argmax", {"left": "end-right", "right": "end-left"})


@pytest.mark.parametrize(
    ("rule", "observations", "complaint"),
    [
        ("argmin", ENDS, "'argmax'"),
        ("argmax", {}, "at least one action"),
        ("argmax", {"up": "end-left"}, "'left', 'right', 'stay', 'reset'"),
        ("argmax", {"left": "end"}, "'end-left', 'end-right'"),
    ],
)
def test_what_is_unknown_is_told_the_known(rule, observations, complaint):
    with pytest.raises(UsageError, match=complaint):
        states_where(NOISY, rule, observations)


def test_a_psr_has_no_states_to_choose_from():
    with pytest.raises(UsageError, match="recover a POMDP"):
        most_ambiguous_state(NOISY.to_psr())  # type: ignore[arg-type]


def test_a_state_by_its_name():
    assert state_named(NOISY, "middle") == 1
    with pytest.raises(UsageError, match="'left', 'middle', 'right'"):
        state_named(NOISY, "center")


def test_the_states_of_a_cell():
    partition = Partition.from_cells([[0], [1, 2]])
    assert states_in_cell(partition, 1) == (1, 2)
    assert states_in_cell(PartitionModel(NOISY.to_psr(), partition), 1) == (1, 2)
    with pytest.raises(UsageError, match="there are 2"):
        states_in_cell(partition, 2)


# --- endings, and symbols that are pairs -----------------------------------------------------------------------


def test_states_in_which_nothing_is_done_are_no_goals():
    model = naive.corridor()
    rows = np.array(model.observations)
    rows[:, 2:] = 0.25  # placeholders, as random as can be
    assert most_ambiguous_state(replace(model, observations=rows)) == 0
    with pytest.raises(UsageError, match="no state shows"):
        states_where(model, "argmax", {"right": "goal"})


def test_an_observation_may_be_named_without_its_reward():
    model = POMDP(
        np.tile(np.eye(2), (1, 1, 1)),
        [[[0.3, 0.3, 0.4], [0.1, 0.1, 0.8]]],
        [0.5, 0.5],
        observation_names=("a|0", "a|1", "b|0"),
        symbol_rewards=[0.0, 1.0, 0.0],
    )
    assert states_where(model, "argmax", {0: "a"}) == (0,)
    assert states_where(model, "argmax", {0: "b"}) == (1,)
    assert states_where(model, "argmax", {0: "b|0"}) == (
        0,
        1,
    )  # of the three symbols it is the likeliest in both
