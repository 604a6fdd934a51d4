"""``np.seterr(all="raise")`` set by the user changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from unlatch import (
    POMDP,
    POUCT,
    ExactPlanner,
    Partition,
    PartitionModel,
    domains,
    most_ambiguous_state,
    run_episodes,
    simulate,
    states_where,
)
from unlatch.compare.errors import (
    held_out_gap,
    observation_l1_all,
    three_step_transition_l1,
    transition_l1,
    true_partition,
)
from unlatch.compare.match_states import match_states

TINY = 1e-300


def cycle():
    """Three states in turn: a product of many certain steps."""
    return POMDP([np.roll(np.eye(3), 1, axis=1)], [np.eye(3)], [1.0, 0, 0], symbol_rewards=[0.0, 0, 1])


def rare(emission):
    """Probabilities whose products are below the smallest float."""
    return POMDP(
        [
            [[1 - TINY, TINY, 0], [TINY, 1 - TINY, 0], [1e-320, 0, 1]],
            [[0.5, 0.5, 0], [0, 1, 0], [1e-310, 1e-200, 1]],
        ],
        [[[1 - TINY, TINY], [1e-308, 1], [0.5, 0.5]], [[1e-320, 1], [1, 1e-320], [0.2, 0.8]]],
        [1e-320, 1, 1e-200],
        emission,
        symbol_rewards=[1e-300, 1.0],
    )


MODELS = {
    "cycle": cycle,
    "rare": lambda: rare("departure"),
    "rare-arrival": lambda: rare("arrival"),
    "tiger": domains.tiger,
}


@pytest.fixture(autouse=True)
def raising() -> Iterator[None]:
    with np.errstate(all="raise"):
        yield


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_models_answer(make):
    model = make()
    log = simulate(model, 200, rng=0)
    reactive = np.full((model.n_observations, model.n_actions), 1 / model.n_actions)
    for numbers in (
        model.log_likelihood(log),
        model.belief(log),
        model.predict(model.initial),
        model.predictions(log),
        model.state_probabilities(log),
        model.most_likely_path(log),
        model.stationary(),
        model.stationary(reactive),
        model.rewards,
        model.to_psr().probability([0] * 3, [0] * 3),
        model.to_psr().transformed(1e-200 * np.eye(model.n_states)).initial,
        PartitionModel(model.to_psr(), Partition.singletons(model.n_states)).cell_probabilities(
            model.initial
        ),
    ):
        assert np.isfinite(numbers).all()
    assert len(simulate(model, 10, policy=reactive, rng=0)) == 10


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_planners_answer(make):
    model = make()
    for planner in (
        POUCT(model, rng=0, depth=5, discount=0.5),
        POUCT(model, rng=0, sampling="belief"),
        POUCT(model.to_psr(), rng=0),
        ExactPlanner(model, horizon=5),
        ExactPlanner(model, horizon=5, discount=1e-200),
    ):
        played = run_episodes(model, planner, episodes=3, steps=5, rng=0)
        assert np.isfinite([played.mean, played.standard_error]).all()
        assert played.share_of_time.sum() == pytest.approx(1)
    assert 0 <= most_ambiguous_state(model) < model.n_states
    assert states_where(model, "argmax", {0: int(model.observations[0, 0].argmax())})


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_comparisons_answer(make):
    model = make()
    log = simulate(model, 200, rng=0)
    assert sorted(match_states(model, model)) == list(range(model.n_states))
    assert (
        observation_l1_all(model, model)
        == transition_l1(model, model)
        == held_out_gap(model, model, log)
        == 0
    )
    assert three_step_transition_l1(model, true_partition(model)[1], model) == pytest.approx(0, abs=1e-9)
