"""Errors carry data for programs, beside the message for people."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from unlatch import POMDP, Partition, Trajectory, domains, errors

DATA = {
    errors.DataError: {"step": 3, "line": 4, "field": "rewards"},
    errors.ModelFileError: {"line": 4, "field": "pomdp.initial"},
    errors.NotLearnableError: {"singular_values": np.array([2.0, 1.0]), "thresholds": np.array([0.1, 0.1])},
    errors.BeliefCollapseError: {
        "belief": np.array([0.5, 0.5]),
        "step": 3,
        "action": "listen",
        "observation": "hear-left",
    },
    errors.MissingDependencyError: {"package": "numba"},
}


@pytest.mark.parametrize("kind", DATA, ids=lambda kind: kind.__name__)
def test_data_is_optional_keyword_only_and_survives_a_worker(kind):
    plain = kind("what went wrong")
    assert str(plain) == "what went wrong"
    assert all(getattr(plain, name) is None for name in DATA[kind])
    carrying = pickle.loads(pickle.dumps(kind("what went wrong", **DATA[kind])))
    assert str(carrying) == "what went wrong"
    for name, value in DATA[kind].items():
        assert np.array_equal(getattr(carrying, name), value)
    for name in DATA[kind]:
        assert name in kind.__doc__


def test_a_missing_package_is_also_an_import_error():
    assert issubclass(errors.MissingDependencyError, ImportError)
    assert errors.MissingDependencyError.exit_code == 2


TIGER = domains.tiger()


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: TIGER.reordered([0, 0]), "order"),
        (lambda: TIGER.stationary([1.0]), "policy"),
        (lambda: TIGER.predict([1.0]), "belief"),
        (lambda: Partition([[0]]), "labels"),
        (lambda: Partition.from_cells([[0], [0]]), "cells"),
        (lambda: Partition([0, 1]).relabel([1]), "order"),
        (lambda: POMDP([[[1.0]]], [[[1.0]]], [1.0], symbol_rewards=[1.0, 2.0]), "symbol_rewards"),
    ],
)
def test_the_field_that_is_wrong_is_named(call, field):
    with pytest.raises(errors.DataError) as caught:
        call()
    assert caught.value.field == field


def test_the_step_that_is_wrong_is_named():
    log = Trajectory([0, 0], [0, 0], TIGER.action_names, TIGER.observation_names, rewards=[-1.0, 5.0])
    with pytest.raises(errors.DataError, match="step 1") as caught:
        TIGER.belief(log)
    assert (caught.value.step, caught.value.field) == (1, "rewards")
    with pytest.raises(errors.DataError) as caught:
        TIGER.to_psr().probability([0, 9], [0, 0])
    assert caught.value.step == 1
