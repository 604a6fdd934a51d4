"""Predictions, smoothing and the most likely path, against the enumeration of every path of hidden states."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import naive
from unlatch import POMDP, Trajectory, domains, simulate
from unlatch.core import inference
from unlatch.core.progress import listening
from unlatch.errors import (
    BeliefCollapseError,
    BeliefCollapseWarning,
    DataError,
    ResourceLimitError,
    UsageError,
)

EMISSIONS = ("departure", "arrival")
MOMENTS = ("left", "reached")
ALTERNATING = POMDP([[[0.0, 1.0], [1.0, 0.0]]], [[[1.0, 0.0], [0.0, 1.0]]], [1.0, 0.0])


def log_of(model, actions, observations, starts=None):
    return Trajectory(
        actions, observations, model.action_names, model.observation_names, episode_starts=starts
    )


def short_logs(model, steps):
    """Every log of that many steps, actions by rote."""
    for observations in itertools.product(range(model.n_observations), repeat=steps):
        yield [t % model.n_actions for t in range(steps)], list(observations)


# --- against enumeration ----------------------------------------------------------------------------------


@pytest.mark.parametrize("emission", EMISSIONS)
@pytest.mark.parametrize("moment", MOMENTS)
def test_smoothing_equals_the_enumeration_of_paths(rng, emission, moment):
    model = naive.random_pomdp(rng, states=3, observations=2, emission=emission)
    shift = moment == "reached"
    for actions, observations in short_logs(model, 4):
        expected = np.zeros((4, 3))
        for path, probability in naive.all_paths(model, actions, observations):
            for t in range(4):
                expected[t, path[t + shift]] += probability
        expected /= expected.sum(axis=1, keepdims=True)
        found = model.state_probabilities(log_of(model, actions, observations), moment=moment)
        np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("emission", EMISSIONS)
def test_the_most_likely_path_is_the_likeliest_of_all(rng, emission):
    model = naive.random_pomdp(rng, states=3, observations=2, emission=emission, concentration=0.5)
    for actions, observations in short_logs(model, 4):
        paths = dict(naive.all_paths(model, actions, observations))
        log = log_of(model, actions, observations)
        left = model.most_likely_path(log)
        reached = model.most_likely_path(log, moment="reached")
        assert left[1:].tolist() == reached[:-1].tolist()
        assert paths[(int(left[0]), *reached.tolist())] == pytest.approx(max(paths.values()), rel=1e-12)


@pytest.mark.parametrize("emission", EMISSIONS)
def test_predictions_are_ratios_of_probabilities_of_paths(rng, emission):
    model = naive.random_pomdp(rng, states=3, observations=2, emission=emission)
    for actions, observations in short_logs(model, 4):
        found = model.predictions(log_of(model, actions, observations))
        for t in range(4):
            before = naive.path_probability(model, actions[:t], observations[:t])
            for o in range(2):
                after = naive.path_probability(model, actions[: t + 1], [*observations[:t], o])
                assert found[t, o] == pytest.approx(after / before, rel=1e-10)


def test_a_wrong_model_smooths_otherwise(rng):
    """The agreement above is not for free."""
    model = naive.random_pomdp(rng)
    log = simulate(model, 50, rng=0)
    flipped = POMDP(model.transitions, model.observations, model.initial, "arrival")
    assert np.abs(model.state_probabilities(log) - flipped.state_probabilities(log)).max() > 0.05


# --- episodes, chunks, both conventions ---------------------------------------------------------------------


@pytest.mark.parametrize("emission", EMISSIONS)
def test_every_episode_is_judged_by_itself(rng, emission):
    model = naive.random_pomdp(rng, emission=emission)
    log = simulate(model, 30, episodes=4, rng=1)
    for method in (
        model.predictions,
        model.state_probabilities,
        model.most_likely_path,
        lambda log: model.state_probabilities(log, moment="reached"),
    ):
        whole = method(log)
        parts = [method(log.episode(i)) for i in range(4)]
        np.testing.assert_allclose(whole, np.concatenate(parts), atol=1e-13)
        assert not whole.flags.writeable


@pytest.mark.parametrize("moment", MOMENTS)
def test_chunks_change_nothing(rng, monkeypatch, moment):
    model = naive.random_pomdp(rng)
    log = simulate(model, 100, episodes=2, rng=1)
    whole = (
        model.predictions(log),
        model.state_probabilities(log, moment=moment),
        model.most_likely_path(log, moment=moment),
        model.log_likelihood(log),
    )
    monkeypatch.setattr(inference, "WORK_PER_CALL", 100)
    heard = []
    with listening(lambda *event: heard.append(event)):
        again = (
            model.predictions(log),
            model.state_probabilities(log, moment=moment),
            model.most_likely_path(log, moment=moment),
            model.log_likelihood(log),
        )
    for one, other in zip(whole, again, strict=True):
        assert np.allclose(one, other, rtol=1e-12)
    assert ("smoothing", 400, 400) in heard
    assert all(done <= total for _, done, total in heard)


def test_the_last_state_reached_is_the_belief(rng):
    model = naive.random_pomdp(rng)
    log = simulate(model, 200, rng=1)
    np.testing.assert_allclose(
        model.state_probabilities(log, moment="reached")[-1], model.belief(log), atol=1e-12
    )


def test_predictions_of_a_psr_equal_those_of_its_pomdp(rng):
    model = naive.random_pomdp(rng)
    log = simulate(model, 40, rng=1)
    psr = model.to_psr().transformed(rng.standard_normal((3, 3)))
    np.testing.assert_allclose(psr.predictions(log), model.predictions(log), atol=1e-8)


def test_an_empty_log_gives_empty_tables():
    tiger = domains.tiger()
    empty = log_of(tiger, np.zeros(0, int), np.zeros(0, int))
    assert tiger.predictions(empty).shape == (0, 6)
    assert tiger.state_probabilities(empty).shape == (0, 2)
    assert tiger.most_likely_path(empty).shape == (0,)


# --- endings, first observations, rewards beside observations ---------------------------------------------

OPTIONS = [
    {},
    {"ends": 2},
    {"ends": 0},
    {"first": 3},
    {"rewards": 3},
    {"ends": 2, "first": 2, "rewards": 2},
    {"ends": 0, "first": 2, "rewards": 2},
]


def episodic(rng, emission, options):
    """A random model, and a log of a few short episodes of it."""
    model = naive.random_episodic_pomdp(
        rng, emission=emission, ending=0.3 * (options.get("ends") != 0), **options
    )
    return model, naive.simulate_episodes(model, rng, episodes=6, longest=4)


@pytest.mark.parametrize("emission", EMISSIONS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_likelihood_of_everything_equals_the_enumeration_of_paths(rng, emission, options):
    model, log = episodic(rng, emission, options)
    assert model.log_likelihood(log) == pytest.approx(naive.log_probability(model, log), rel=1e-12)
    for field in ("terminated", "first_observations", "rewards"):
        less = replace(log, **{field: None})
        assert model.log_likelihood(less) == pytest.approx(naive.log_probability(model, less), rel=1e-12)
        if getattr(log, field) is not None and (field != "terminated" or model.terminal):
            assert model.log_likelihood(less) > model.log_likelihood(log)


@pytest.mark.parametrize("emission", EMISSIONS)
def test_the_probabilities_of_all_logs_add_up_to_one(rng, emission):
    """Whatever one step may show, pay and do: first observation, observation, reward, and whether it was the last."""
    model = naive.random_episodic_pomdp(rng, emission=emission, ends=2, first=2, rewards=2)
    total = 0.0
    for first, seen, paid, ended in itertools.product(range(2), range(2), (-1.0, 0.0), (False, True)):
        log = Trajectory(
            [1],
            [seen],
            model.action_names,
            model.observation_names,
            rewards=[paid],
            terminated=[ended],
            first_observations=[first],
            first_observation_names=model.first_observation_names,
        )
        total += np.exp(model.log_likelihood(log))
    assert total == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("emission", EMISSIONS)
@pytest.mark.parametrize("told", [True, False])
def test_predictions_know_that_the_episode_goes_on(rng, emission, told):
    model, log = episodic(rng, emission, {"ends": 2, "first": 2, "rewards": 2})
    log = log if told else replace(log, terminated=None)
    rows = model.predictions(log)
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=1e-12)
    for episode, (start, end) in enumerate(zip(log.episode_starts, log.episode_ends, strict=True)):
        for t in range(start, end):
            whole = log.episode(episode)
            before = replace(whole.head(t - start + 1), terminated=None, rewards=None)
            expected = []
            for seen in range(model.n_observations):
                codes = np.append(whole.observations[: t - start], seen)
                expected.append(prefix_probability(model, replace(before, observations=codes), whole.rewards))
            np.testing.assert_allclose(rows[t], np.array(expected) / sum(expected), rtol=1e-10)


def prefix_probability(model, log, rewards):
    """Of a log whose last step tells neither its reward nor whether it ended: the sum over what these may be."""
    paid = [[*rewards[: len(log) - 1], value] for value in model.reward_values]
    return sum(naive.episode_probability(model, replace(log, rewards=values), 0) for values in paid)


@pytest.mark.parametrize("emission", EMISSIONS)
def test_beliefs_and_smoothing_of_episodes_that_end(rng, emission):
    model = naive.random_episodic_pomdp(rng, emission=emission, ends=2, first=2, rewards=2)
    log = naive.simulate_episodes(model, rng, episodes=40, longest=6)
    over, going = np.isin(np.arange(4), model.terminal), model.going_on
    reached = model.state_probabilities(log, moment="reached")
    left = model.state_probabilities(log)
    np.testing.assert_allclose(reached[log.terminated][:, over].sum(axis=1), 1.0, rtol=1e-12)
    assert reached[~log.terminated][:, over].max() == left[:, over].max() == 0.0
    assert (
        np.isin(model.most_likely_path(log, moment="reached"), model.terminal).tolist()
        == log.terminated.tolist()
    )
    assert going.tolist() == [0.5, 0.5, 0.0, 0.0]
    for episode in (0, 1, 2):
        part = log.episode(episode)
        np.testing.assert_allclose(
            model.belief(part), model.state_probabilities(part, moment="reached")[-1], atol=1e-12
        )


def test_unknown_rewards_are_told(rng):
    model, log = episodic(rng, "departure", {"rewards": 2})
    wrong = replace(log, rewards=np.append(log.rewards[:-1], 7.5))
    with pytest.raises(DataError, match=rf"step {len(log) - 1}: reward 7.5 is none of .*: -1, 0") as caught:
        model.log_likelihood(wrong)
    assert caught.value.field == "rewards"


# --- what goes wrong ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method", ["belief", "predictions", "state_probabilities", "most_likely_path"], ids=str
)
def test_an_impossible_step_is_told_with_its_data(method):
    log = log_of(ALTERNATING, [0] * 5, [0, 1, 1, 0, 1], starts=[0, 2] if method != "belief" else None)
    options = {"impossible": "raise"} if method in ("belief", "predictions") else {}
    with pytest.raises(BeliefCollapseError, match="step 2: observation '1' after action '0'") as caught:
        getattr(ALTERNATING, method)(log, **options)
    assert caught.value.step == 2
    assert (caught.value.action, caught.value.observation) == ("0", "1")
    assert caught.value.belief.tolist() == [1.0, 0.0]


def test_beliefs_go_on_after_an_impossible_step_and_warn():
    """The step alone tells where it came from: what shows 1 leads to what shows 0."""
    log = log_of(ALTERNATING, [0] * 5, [0, 1, 1, 0, 0])
    with pytest.warns(BeliefCollapseWarning, match="impossible under the model: 2, the first at step 2"):
        assert ALTERNATING.belief(log).tolist() == [0.0, 1.0]
    with pytest.warns(BeliefCollapseWarning, match="impossible='raise' makes it an error"):
        rows = ALTERNATING.predictions(log)
    assert rows.tolist() == [[1, 0], [0, 1], [1, 0], [1, 0], [0, 1]]
    assert ALTERNATING.log_likelihood(log) == -np.inf


def test_an_impossible_ending_leaves_the_belief_among_what_goes_on():
    model = POMDP(
        np.array([[[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]]),
        np.ones((1, 3, 1)),
        [1, 0, 0],
        terminal=2,
    )
    log = Trajectory([0, 0], [0, 0], terminated=[False, True])
    assert model.log_likelihood(log) == -np.inf
    with pytest.warns(BeliefCollapseWarning, match="impossible under the model: 1"):
        assert model.belief(log).tolist() == [0.5, 0.5, 0.0]
    with pytest.raises(BeliefCollapseError, match="step 1"):
        model.belief(log, impossible="raise")


def test_an_impossible_first_observation():
    model = POMDP(
        np.eye(2)[None],
        np.ones((1, 2, 1)),
        [1, 0],
        first_observations=np.eye(2),
        first_observation_names=["a", "b"],
    )
    log = Trajectory([0], [0], first_observations=[1], first_observation_names=["a", "b"])
    assert model.log_likelihood(log) == -np.inf
    for method in ("belief", "predictions"):
        with pytest.raises(
            BeliefCollapseError, match="episode 0: the first observation 'b' is impossible"
        ) as caught:
            getattr(model, method)(log, impossible="raise")
        assert (caught.value.step, caught.value.observation) == (0, "b")
    with pytest.warns(BeliefCollapseWarning, match="impossible under the model: 1, the first at step 0"):
        assert model.belief(log).tolist() == [0.5, 0.5]


def test_other_ways_with_the_impossible_are_refused():
    log = log_of(ALTERNATING, [0], [0])
    for method in (ALTERNATING.belief, ALTERNATING.predictions):
        with pytest.raises(UsageError, match="'mix' or 'raise', got 'ignore'"):
            method(log, impossible="ignore")


def test_unlikely_steps_do_not_underflow():
    """A state that is next to impossible so far, and the only possible one afterwards."""
    tiny = 1e-300
    model = POMDP(
        [[[1.0, 0.0], [0.0, 1.0]]],
        [[[1.0, 0.0, 0.0], [tiny, 1.0 - tiny, 0.0]]],
        [1.0 - 1e-12, 1e-12],
    )
    log = log_of(model, [0, 0], [1, 1])
    assert model.state_probabilities(log).tolist() == [[0.0, 1.0], [0.0, 1.0]]
    assert model.most_likely_path(log).tolist() == [1, 1]
    long = log_of(model, np.zeros(100_000, int), np.ones(100_000, int))
    assert model.most_likely_path(long).tolist() == [1] * 100_000
    assert model.state_probabilities(long)[:, 1].min() == 1.0


def test_other_moments_are_refused():
    log = log_of(ALTERNATING, [0], [0])
    for method in (ALTERNATING.state_probabilities, ALTERNATING.most_likely_path):
        with pytest.raises(UsageError, match="'left' or 'reached'"):
            method(log, moment="between")


def test_tables_that_do_not_fit_are_refused_before_they_are_made(monkeypatch):
    model = domains.tiger()
    log = simulate(model, 2_000_000, rng=0)
    monkeypatch.setattr("unlatch.core.memory.available_memory", lambda: 10_000_000)
    with pytest.raises(ResourceLimitError, match=r"96.0 MB of memory, 10.0 MB are available; cut the log"):
        model.predictions(log)
