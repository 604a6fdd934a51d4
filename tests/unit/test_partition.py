from __future__ import annotations

import numpy as np
import pytest

import naive
from unlatch import POMDP, PSR, Partition, domains
from unlatch.core.partition_model import PartitionModel
from unlatch.errors import DataError
from unlatch.learn.identify.entries import undetermined_entries


def test_cells_are_numbered_in_the_order_of_their_first_state():
    partition = Partition(np.array([7, 2, 7, 0]))
    assert partition.labels.tolist() == [0, 1, 0, 2]
    assert partition.cells == ((0, 2), (1,), (3,))
    assert (partition.n_states, partition.n_cells, partition.is_trivial) == (4, 3, False)
    assert repr(partition) == "Partition({0, 2}, {1}, {3})"
    assert not partition.labels.flags.writeable


def test_equal_partitions_however_they_were_made():
    made = [Partition(np.array([5, 1, 5])), Partition.from_cells([[1], [2, 0]]), Partition([0, 1, 0])]
    assert made[0] == made[1] == made[2]
    assert len({*made}) == 1
    assert made[0] != Partition.singletons(3)
    assert made[0] != "partition"
    assert Partition.singletons(3).is_trivial


@pytest.mark.parametrize("labels", [[], [[0, 1]], [0.0, 1.0], ["a"], 3])
def test_labels_must_be_one_number_per_state(labels):
    with pytest.raises(DataError, match="one cell number per state"):
        Partition(np.array(labels))


@pytest.mark.parametrize("cells", [[], [[]], [[0, 0]], [[0], [2]], [[0, 1], [1]]])
def test_cells_must_hold_every_state_once(cells):
    with pytest.raises(DataError, match="exactly once"):
        Partition.from_cells(cells)


def test_relabel_follows_the_states():
    partition = Partition.from_cells([[0, 2], [1]])
    assert partition.relabel([1, 0, 2]).cells == ((0,), (1, 2))
    assert partition.relabel([0, 2, 1]).cells == ((0, 1), (2,))


def test_sums_over_cells():
    partition = Partition.from_cells([[0, 2], [1]])
    assert partition.sums(np.array([1.0, 10.0, 100.0])).tolist() == [101.0, 10.0]
    assert partition.sums(np.ones((4, 5, 3))).shape == (4, 5, 2)


def test_a_partition_model_is_in_state_coordinates():
    psr = PSR(initial=[1.0, 0.0], updates=np.eye(2)[None, None], final=[1.0, 1.0])
    model = PartitionModel(psr, Partition.singletons(2))
    assert model.partition.sums(model.psr.initial).tolist() == [1.0, 0.0]
    with pytest.raises(DataError, match="3 states, the PSR 2"):
        PartitionModel(psr, Partition.singletons(3))
    with pytest.raises(DataError, match="not in state coordinates"):
        PartitionModel(psr.transformed([[2.0, 0.0], [0.0, 1.0]]), Partition.singletons(2))


# --- what a partition leaves open -------------------------------------------------------------------------


def aliased(emission):
    """Three states of which the last two look alike under action 0, not under action 1, which forgets."""
    rng = np.random.default_rng(0)
    transitions = rng.dirichlet(np.ones(3), (2, 3))
    transitions[1] = transitions[1, 0]
    observations = rng.dirichlet(np.ones(2), (2, 3))
    observations[0, 2] = observations[0, 1]
    return naive.stationary_start(POMDP(transitions, observations, np.ones(3) / 3, emission))


def read_off(psr, emission):
    """Transitions, observation rows and initial vector of a triple in state coordinates."""
    if emission == "departure":
        rows = psr.updates.sum(axis=3)
    else:
        reached = np.einsum("i,aoij->aoj", psr.initial, psr.updates)
        rows = reached / reached.sum(axis=1, keepdims=True)
    return psr.updates.sum(axis=1), rows.transpose(0, 2, 1), psr.initial


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_undetermined_entries_are_those_that_a_mixing_inside_cells_changes(emission):
    model = aliased(emission)
    mixing = np.eye(3) + 1e-3 * np.array([[0, 0, 0], [0, 1, -1], [0, -0.7, 0.7]])
    found = undetermined_entries(model, Partition([0, 1, 1]))
    moved = read_off(model.to_psr().transformed(mixing), emission)
    still = read_off(model.to_psr(), emission)
    for flags, after, before in zip(found, moved, still, strict=True):
        assert np.array_equal(flags, np.abs(after - before) > 1e-7)
        assert flags.any()
        assert not flags.all()
    assert found.any


def test_states_that_stand_alone_are_determined():
    assert not undetermined_entries(domains.tiger(), Partition.singletons(2)).any


def test_where_the_unidentifiable_pair_differs_is_undetermined():
    first, second = domains.unidentifiable_pair()
    found = undetermined_entries(naive.stationary_start(first), Partition([0, 1, 1]))
    assert found.transitions[np.abs(first.transitions - second.transitions) > 1e-9].all()
    assert not found.observations.any()
