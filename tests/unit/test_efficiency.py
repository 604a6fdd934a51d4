"""The Cramer-Rao bound, and the units of the efficiency study."""

from __future__ import annotations

import numpy as np
import pytest

from unlatch import POMDP, domains, simulate
from unlatch.compare.bounds import cramer_rao_bound
from unlatch.errors import UsageError
from unlatch.learn.likelihood.coordinates import SquareRoots
from unlatch.learn.likelihood.information import information_by_differences, row_variances
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import parameters_of
from unlatch.study.efficiency import (
    GROUPS,
    build_efficiency_study,
    cases,
    learned,
    paper_values,
)
from unlatch.study.jobs.units import named_seed
from unlatch.study.random_models import random_model


def test_without_hidden_states_variances_are_those_of_frequencies() -> None:
    shown = np.array([[[0.7, 0.2, 0.1, 0.0]], [[0.25, 0.25, 0.25, 0.25]]])
    model = POMDP(transitions=np.ones((2, 1, 1)), observations=shown, initial=[1.0])
    trajectory = simulate(model, 20_000, rng=0)
    likelihood = Likelihood.of(trajectory, "departure", model)
    parameters = parameters_of(model)
    roots = SquareRoots(parameters, likelihood.counts(parameters))
    variances = row_variances(roots, information_by_differences(roots, likelihood))
    tries = np.bincount(trajectory.actions)
    expected = shown * (1 - shown) / tries[:, None, None]
    assert variances.observations == pytest.approx(expected, rel=0.1)  # at the truth, not at the frequencies
    assert np.all(variances.transitions < 1e-12)


@pytest.mark.parametrize(
    ("model", "observation", "transition"),
    [
        (domains.tiger(), 1.770, 1.303),
        (domains.tmaze(), 0.693, 1.277),
        (domains.sense_float_reset(3), 0.0, 1.229),
        (domains.directional_hallway(), 4.592, 9.020),
    ],
)
def test_bounds_of_the_domains(model: POMDP, observation: float, transition: float) -> None:
    """Against values from outer products of scores, an independent computation."""
    bound = cramer_rao_bound(model, steps=100_000)
    assert bound.observation_l1_all == pytest.approx(observation, rel=0.05, abs=1e-6)
    assert bound.transition_l1 == pytest.approx(transition, rel=0.05)


def test_random_models_are_ergodic_and_repeatable() -> None:
    models = [random_model(number) for number in range(20)]
    assert models[3] == random_model(3)
    assert len({(m.n_states, m.n_actions, m.n_observations) for m in models}) > 5
    for model in models:
        assert model.stationary().min() > 0.005
    assert any((model.transitions == 0).any() for model in models)


def test_a_log_is_learned_and_compared() -> None:
    (row,) = learned({"system": "tiger", "steps": 5_000, "seed": 0}, named_seed(0, "x")).rows
    assert (row["outcome"], row["states"], row["true_states"]) == ("ok", 2, 2)
    assert abs(row["log_likelihood_gap"]) < 10
    assert 0 < row["observation_l1_all"] < 0.2
    (failed,) = learned({"system": "tiger", "steps": 20, "seed": 0}, named_seed(0, "x")).rows
    assert failed["outcome"] == "NotLearnableError"
    assert "states" not in failed


def test_the_study_has_every_log_once_and_every_point_of_the_paper() -> None:
    units = build_efficiency_study().units
    kinds = {(unit.parameters["system"], unit.parameters["steps"]) for unit in units}
    assert kinds == {(case.system, case.steps) for group in GROUPS.values() for case in group}
    assert {(value["system"], value["steps"]) for value in paper_values()} <= kinds
    assert (
        len(
            [
                unit
                for unit in units
                if unit.parameters["system"] == "tiger" and unit.parameters["steps"] == 100_000
            ]
        )
        == 40
    )
    with pytest.raises(UsageError, match="unknown group"):
        cases(["nothing"])
