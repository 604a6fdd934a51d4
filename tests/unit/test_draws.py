"""A plan in other models than its own: exact returns, intervals, optimism, plans that are good for all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import naive
from unlatch import (
    POMDP,
    POUCT,
    ExactPlanner,
    Reward,
    domains,
    plan_return,
    plan_value,
    robust_plan,
    run_episodes,
    simulate,
    uncertainty,
)
from unlatch.errors import UsageError
from unlatch.planning import exact


def coin(chance: float) -> POMDP:
    """Two machines, of which the second pays with this chance and the first with a half."""
    return POMDP(
        transitions=np.ones((2, 1, 1)),
        observations=np.array([[[0.5, 0.5]], [[1 - chance, chance]]]),
        initial=np.ones(1),
        action_names=("first", "second"),
        observation_names=("0", "1"),
        symbol_rewards=np.array([0.0, 1.0]),
    )


@pytest.mark.parametrize(
    "model",
    [domains.tiger(), domains.tmaze(), domains.sense_float_reset(3)],
    ids=["tiger", "tmaze", "sense-float-reset"],
)
def test_in_its_own_model_a_plan_returns_its_value(model: POMDP) -> None:
    planner = ExactPlanner(model, horizon=4, discount=0.9)
    assert plan_value(planner)(model) == pytest.approx(planner.value(), rel=1e-9)


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_endings_first_observations_and_rewards_beside_are_followed(emission: str) -> None:
    model = naive.random_episodic(np.random.default_rng(3), emission=emission)
    other = replace(model, transitions=0.8 * model.transitions + 0.2 * model.transitions[::-1])
    planner = ExactPlanner(model, horizon=4)
    for truth in (model, other):
        played = run_episodes(truth, planner, episodes=500, steps=4, rng=0)
        assert plan_value(planner)(truth) == pytest.approx(played.mean, abs=4 * played.standard_error)


def test_the_plan_stays_the_same_whatever_the_truth() -> None:
    planner = ExactPlanner(coin(0.6), horizon=2)
    value = plan_value(planner)
    for chance in (0.1, 0.6, 0.9):
        assert value(coin(chance)) == pytest.approx(2 * chance)  # it has chosen the second machine


def test_the_interval_of_a_return_is_as_wide_as_the_models_scatter() -> None:
    rng = np.random.default_rng(0)
    chances = 0.8 + 0.02 * rng.standard_normal(400)
    found = plan_return(ExactPlanner(coin(0.8), horizon=1), [coin(chance) for chance in chances])
    assert found.own == pytest.approx(0.8)
    assert found.optimism == 0  # the same plan is the best in all of them
    assert found.high - found.low == pytest.approx(2 * 1.645 * 0.02, rel=0.1)
    assert found.unplanned == 0
    assert "at 90%" in repr(found)


def test_of_two_machines_that_tie_the_luckier_is_promised_too_much() -> None:
    """The second pays a half as well, but the log made it .51; in models that may be true it is either."""
    rng = np.random.default_rng(0)
    models = [coin(chance) for chance in 0.51 + 0.02 * rng.standard_normal(200)]
    planner = ExactPlanner(coin(0.51), horizon=1)
    found = plan_return(planner, models, replans=200)
    below = (
        0.3085  # share of the models in which the first machine is better: there it gains, and loses .01 here
    )
    assert found.optimism == pytest.approx(0.02 * (0.3521 - 0.5 * below) + 0.01 * below, rel=0.15)
    assert plan_return(planner, models, replans=0).optimism == 0
    assert (found.low + found.high) / 2 == pytest.approx(0.51 - found.optimism)


def test_few_models_make_the_interval_wider() -> None:
    """Their scatter is an estimate: of the interval's share, the truth is one more draw."""
    rng, held = np.random.default_rng(1), 0
    for _ in range(400):
        center = 0.8 + 0.02 * rng.standard_normal()
        models = [coin(chance) for chance in center + 0.02 * rng.standard_normal(4)]
        found = plan_return(ExactPlanner(coin(center), horizon=1), models, replans=0)
        held += found.low <= 0.8 <= found.high
    assert 0.86 < held / 400 < 0.94  # with the normal quantile and the biased scatter: 0.76


def test_a_plan_is_made_once_for_all_that_it_comes_to(monkeypatch: pytest.MonkeyPatch) -> None:
    solved, solve = [], exact.planned_from
    monkeypatch.setattr(exact, "planned_from", lambda *given: solved.append(given) or solve(*given))
    plan_value(ExactPlanner(domains.tmaze(), horizon=4))
    assert len(solved) <= 2


def test_what_the_model_holds_impossible_is_told() -> None:
    planner = ExactPlanner(coin(1.0), horizon=2)
    assert plan_return(planner, [coin(0.75)], replans=0).unplanned == pytest.approx(0.25)


def test_models_may_have_their_actions_and_symbols_in_another_order() -> None:
    tiger = domains.tiger()
    order, symbols = [2, 0, 1], [5, 3, 1, 0, 2, 4]
    turned = replace(
        tiger,
        transitions=tiger.transitions[order],
        observations=tiger.observations[order][:, :, symbols],
        action_names=tuple(tiger.action_names[a] for a in order),
        observation_names=tuple(tiger.observation_names[o] for o in symbols),
        symbol_rewards=tiger.symbol_rewards[symbols],  # type: ignore[index]
    )
    planner = ExactPlanner(tiger, horizon=3)
    assert plan_value(planner)(turned) == pytest.approx(planner.value())


def test_other_planners_act_in_every_model() -> None:
    models = [coin(0.7), coin(0.9)]
    planner = POUCT(coin(0.8), simulations=100, depth=1, rng=0)
    found = plan_return(planner, models, steps=2, episodes=100, level=0.5, rng=1)
    np.testing.assert_allclose(found.returns, [1.4, 1.8], atol=0.25)
    assert found.own is None
    with pytest.raises(UsageError, match="steps"):
        plan_return(planner, models)


def test_a_robust_plan_takes_what_is_never_bad() -> None:
    models = [coin(0.9), coin(0.2)]
    planner, found = robust_plan(models, horizon=1)
    assert planner.action() == 0
    assert found.interval == (0.5, 0.5)
    planner, found = robust_plan(models, horizon=1, criterion="mean")
    assert planner.action() == 1
    np.testing.assert_allclose(found.returns, [0.9, 0.2])


def test_the_interval_of_a_plan_comes_from_the_log() -> None:
    truth = coin(0.8)
    log = simulate(truth, 2_000, rng=0)
    seen = np.bincount(log.observations[log.actions == 1]) / (log.actions == 1).sum()
    half = np.bincount(log.observations[log.actions == 0]) / (log.actions == 0).sum()
    model = replace(truth, observations=np.stack([half, seen])[:, None])
    value = plan_value(ExactPlanner(model, horizon=1))
    low, high = uncertainty(model, log).interval_of(value)
    error = np.sqrt(seen[1] * seen[0] / (log.actions == 1).sum())
    np.testing.assert_allclose([low, high], seen[1] + np.array([-1, 1]) * 1.645 * error, atol=3e-3)


def test_what_does_not_fit_is_refused() -> None:
    planner = ExactPlanner(coin(0.8), horizon=1)
    with pytest.raises(UsageError, match="models"):
        plan_return(planner, [])
    with pytest.raises(UsageError, match="criterion"):
        robust_plan([coin(0.5)], criterion="best")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="ExactPlanner"):
        plan_value(POUCT(coin(0.5), rng=0))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="level"):
        plan_return(planner, [coin(0.5)], level=2)
    assert plan_value(planner, reward=Reward.on_observations({("second", "0"): 1.0}))(coin(0.75)) == 0.25
