"""Predictions, smoothing and the most likely path, against the enumeration of every path of hidden states."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import naive
from unlatch import POMDP, Trajectory, domains, simulate
from unlatch.core import inference
from unlatch.core.progress import listening
from unlatch.errors import BeliefCollapseError, ResourceLimitError, UsageError

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


# --- what goes wrong ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method", ["belief", "predictions", "state_probabilities", "most_likely_path"], ids=str
)
def test_an_impossible_step_is_told_with_its_data(method):
    log = log_of(ALTERNATING, [0] * 5, [0, 1, 1, 0, 1], starts=[0, 2] if method != "belief" else None)
    with pytest.raises(BeliefCollapseError, match="step 2: observation '1' after action '0'") as caught:
        getattr(ALTERNATING, method)(log)
    assert caught.value.step == 2
    assert (caught.value.action, caught.value.observation) == ("0", "1")
    assert caught.value.belief.tolist() == [1.0, 0.0]


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
