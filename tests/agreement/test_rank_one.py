"""States without any full-rank action: exact input gives the exact model wherever the criterion holds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import naive
from unlatch import (
    POMDP,
    domains,
    exact_hankel,
    find_similarity,
    learn_from_hankel,
    learn_pomdp,
    linalg,
    observation_l1_all,
    simulate,
    transition_l1,
)
from unlatch.errors import NotLearnableError
from unlatch.learn.spectral.rank_one import rank_one_criterion

MODELS = 60


def forgetful_rows(rng: np.random.Generator, states: int, rank: int) -> np.ndarray:
    """A stochastic matrix of the given rank: rows are mixtures of ``rank`` distributions."""
    mixed = rng.dirichlet(np.full(rank, 0.7), states) @ rng.dirichlet(np.full(states, 0.7), rank)
    return mixed / mixed.sum(axis=1, keepdims=True)


def forgetful_model(rng: np.random.Generator, emission: str) -> POMDP:
    """Three to six states, two to four actions and observations, and not one action of full rank."""
    states, actions, observations = (int(rng.integers(low, high)) for low, high in ((3, 7), (2, 5), (2, 5)))
    ranks = [int(rng.integers(max(2, states - 2), states)) for _ in range(actions)]
    return POMDP(
        [forgetful_rows(rng, states, rank) for rank in ranks],
        rng.dirichlet(np.full(observations, 0.7), (actions, states)),
        np.full(states, 1 / states),
        emission,
    )


def wedge(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """All 2x2 minors of two rows."""
    first, second = np.triu_indices(len(one), 1)
    return one[first] * other[second] - one[second] * other[first]


def independent_pairs(model: POMDP) -> int:
    """The rank of the vectors v_ij, spelled out."""
    moves = model.transitions if model.emission == "departure" else model.transitions.transpose(0, 2, 1)
    vectors = [
        np.concatenate(
            [
                np.outer(wedge(shown[i], shown[j]), wedge(moved[i], moved[j])).ravel()
                for shown, moved in zip(model.observations, moves, strict=True)
            ]
        )
        for i, j in itertools.combinations(range(model.n_states), 2)
    ]
    values = linalg.singular_values(np.array(vectors))
    return int((values > 1e-9 * values[0]).sum())


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_wherever_the_criterion_holds_the_model_is_recovered(emission):
    """Of sixty random models most satisfy it; every one of those comes out, every other is refused."""
    satisfied = 0
    for seed in range(MODELS):
        model = forgetful_model(np.random.default_rng([seed, 1]), emission)
        found, pairs = rank_one_criterion(model)
        assert pairs == model.n_states * (model.n_states - 1) // 2
        assert found == independent_pairs(model), seed
        hankel = exact_hankel(model, history_length=3, test_length=2)
        if found < pairs:
            with pytest.raises(NotLearnableError, match="rank-one criterion"):
                learn_from_hankel(hankel, emission=emission, rng=seed)
            continue
        result = learn_from_hankel(hankel, emission=emission, rng=seed)
        satisfied += 1
        assert result.full_rank_actions == ()
        assert result.partition.is_trivial
        assert len(result.diagnostics) == 0
        distance = naive.distance_up_to_relabeling(result.pomdp, naive.stationary_start(model))
        assert distance < 1e-8, seed
    assert satisfied >= 50


def test_the_other_emission_is_refused():
    model = forgetful_model(np.random.default_rng([0, 1]), "departure")
    hankel = exact_hankel(model, history_length=3, test_length=2)
    with pytest.raises(NotLearnableError, match="dimension 0, not 5; the process may fit the other emission"):
        learn_from_hankel(hankel, emission="arrival", rng=0)


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_both_ways_agree_where_there_are_full_rank_actions(emission, rng):
    """A threshold that no action reaches sends an ordinary model the other way."""
    model = naive.random_pomdp(rng, states=4, actions=3, observations=4, emission=emission)
    hankel = exact_hankel(model, history_length=2, test_length=1)
    usual = learn_from_hankel(hankel, emission=emission, rng=0)
    other = learn_from_hankel(hankel, emission=emission, min_singular_value=1e6, rng=0)
    assert usual.full_rank_actions == (0, 1, 2)
    assert other.full_rank_actions == ()
    np.testing.assert_allclose(other.pomdp.updates, usual.pomdp.updates, atol=1e-8)


@pytest.mark.parametrize(
    "model",
    [domains.tiger(), domains.sense_float_reset(3), domains.directional_hallway(), domains.noisy_hallway()],
)
def test_domains_that_satisfy_the_criterion(model):
    found, pairs = rank_one_criterion(model)
    assert found == pairs


def test_states_that_show_the_same_do_not_satisfy_it():
    found, pairs = rank_one_criterion(domains.sense_float_reset(4))
    assert found < pairs


def test_the_paper_s_refusal_can_be_had():
    model = forgetful_model(np.random.default_rng([0, 1]), "departure")
    psr = naive.stationary_start(model).to_psr()
    with pytest.raises(NotLearnableError, match="full rank 5") as refused:
        find_similarity(psr, rank_one=False, rng=0)
    assert "rank-one" not in str(refused.value)


@pytest.mark.parametrize("newton", [True, False])
def test_hidden_coordinates_are_undone_whatever_they_are(newton):
    model = forgetful_model(np.random.default_rng([0, 1]), "departure")
    skew = np.random.default_rng(5).standard_normal((5, 5)) * 10.0 ** np.arange(-2, 3)
    psr = naive.stationary_start(model).to_psr().transformed(skew)
    found = find_similarity(psr, newton=newton, rng=0)
    states = psr.transformed(found.matrix)
    np.testing.assert_allclose(states.final, 1, atol=1e-7)
    expected = np.sort(model.stationary())
    np.testing.assert_allclose(np.sort(states.initial), expected, atol=1e-7)
    assert found.residual < 1e-7


def walk_that_forgets(emission: str) -> POMDP:
    """Three places; under either action one of them leads half where the second leads and half where the third does,
    so that no transition matrix has full rank."""
    swept = np.array([[0.9, 0.05, 0.05], [0.5, 0.05, 0.45], [0.1, 0.05, 0.85]])
    turned = np.array([[0.1, 0.45, 0.45], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
    shown = np.array([[0.9, 0.05, 0.05], [0.05, 0.9, 0.05], [0.05, 0.05, 0.9]])
    return POMDP([swept, turned], [shown, shown[:, [1, 2, 0]]], [1 / 3] * 3, emission)


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_a_log_of_such_a_model_is_learned_instead_of_refused(emission):
    truth = walk_that_forgets(emission)
    assert max(linalg.singular_values(matrix)[-1] for matrix in truth.transitions) < 1e-12
    log = simulate(truth, 200_000, rng=1)
    result = learn_pomdp(log, refine=None, emission=emission, rng=0)
    assert result.states == 3
    assert result.full_rank_actions == ()
    assert result.partition.is_trivial
    assert "not_rank_one" not in result.diagnostics
    assert observation_l1_all(result.pomdp, truth) < 0.1
    assert transition_l1(result.pomdp, truth) < 0.1
    assert result.log_likelihood > truth.log_likelihood(log) - 1e-3 * len(log)


def test_a_log_of_the_other_emission_is_said_not_to_fit():
    log = simulate(walk_that_forgets("departure"), 200_000, rng=0)
    result = learn_pomdp(log, refine=None, emission="arrival", states=3, min_singular_value=1e6, rng=0)
    assert "not_rank_one" in result.diagnostics


def test_a_short_log_is_refused_with_the_dimension_of_the_kernel():
    log = simulate(walk_that_forgets("departure"), 300, rng=0)
    with pytest.raises(
        NotLearnableError, match=r"kernel has dimension \d within the noise, not 3"
    ) as refused:
        learn_pomdp(log, refine=None, rank=3, history_length=2, test_length=1, rng=0)
    assert (refused.value.singular_values < refused.value.thresholds).all()
