"""Logs that once led to a wrong answer or to an error: drift, states left for good, actions never tried."""

from __future__ import annotations

import numpy as np
import pytest

from unlatch import Trajectory, domains, learn_pomdp, simulate

pytestmark = pytest.mark.compiled  # whole learnings, one after another


def one_action(observations) -> Trajectory:
    return Trajectory(np.zeros(len(observations), dtype=int), np.asarray(observations, dtype=int))


@pytest.mark.parametrize(("before", "after"), [(0.2, 0.8), (0.3, 0.7), (0.1, 0.5), (0.4, 0.6)])
def test_a_log_that_drifts_is_learned_and_the_drift_is_noted(before, after):
    """The two halves are two states that exclude each other: messages between them lost all digits."""
    rng = np.random.default_rng(0)
    log = one_action(np.append(rng.random(5_000) < before, rng.random(5_000) < after))
    result = learn_pomdp(log, rng=0)
    assert "drift" in result.diagnostics
    assert np.isfinite(result.log_likelihood)
    halves = sum(
        learn_pomdp(half, states=1, rng=0).log_likelihood for half in (log.head(5_000), log_tail(log))
    )
    assert result.log_likelihood > halves - 200


def log_tail(log: Trajectory) -> Trajectory:
    return one_action(log.observations[5_000:])


@pytest.mark.parametrize("seed", range(3))
def test_states_that_a_log_leaves_for_good_do_not_make_it_impossible(seed):
    """One episode that begins in a transient part: under the stationary distribution it could not have begun."""
    rng = np.random.default_rng(seed)
    shown = np.append(rng.integers(0, 2, 300), 2 + (rng.random(5_000) < 0.3))
    log = Trajectory(rng.integers(0, 2, len(shown)), shown)
    result = learn_pomdp(log, rng=0)
    assert result.log_likelihood == result.pomdp.log_likelihood(log)
    assert np.isfinite(result.log_likelihood)
    assert "several_classes" in result.diagnostics
    assert (result.pomdp.initial > 0).all()


def test_one_long_episode_starts_where_the_process_is_in_the_long_run():
    log = simulate(domains.tiger(), 20_000, rng=0)
    result = learn_pomdp(log, rng=0)
    shares = np.bincount(log.actions) / len(log)
    np.testing.assert_allclose(result.pomdp.initial, result.pomdp.stationary(shares), atol=1e-9)


def test_many_episodes_start_where_episodes_were_seen_to_start():
    truth = domains.sense_float_reset(3)
    log = simulate(truth, 20, episodes=2_000, rng=0)
    result = learn_pomdp(log, rng=0)
    assert result.states == 3
    assert result.log_likelihood == pytest.approx(result.pomdp.log_likelihood(log), abs=1e-9)
    assert np.abs(np.sort(result.pomdp.initial) - np.sort(truth.initial)).max() < 0.1


def test_an_action_that_was_never_tried_is_marked_and_gets_no_certain_row():
    log = simulate(domains.tiger(), 5_000, rng=0)
    log = Trajectory(
        log.actions, log.observations, (*log.action_names, "run"), log.observation_names, log.rewards
    )
    for refine in ("auto", None):
        result = learn_pomdp(log, refine=refine, rng=0)
        assert result.pomdp.untried_actions == ("run",)
        assert result.diagnostics["never_tried"].details == {"actions": ["run"]}
        np.testing.assert_allclose(result.pomdp.transitions[3], 1 / 2)
        np.testing.assert_allclose(result.pomdp.observations[3], 1 / 6)
        assert 3 not in result.full_rank_actions
    assert learn_pomdp(simulate(domains.tiger(), 5_000, rng=0), rng=0).pomdp.untried_actions == ()


def test_a_cycle_is_learned_whatever_the_floating_point_settings():
    log = one_action(np.arange(6_000) % 3)
    expected = learn_pomdp(log, rng=0)
    with np.errstate(all="raise"):
        strict = learn_pomdp(log, rng=0)
    assert strict.pomdp == expected.pomdp
    assert strict.states == 3
    np.testing.assert_allclose(strict.pomdp.initial, 1 / 3)


def test_a_note_about_the_spectral_model_is_not_one_about_the_result():
    """A perfect model was said to be not jointly diagonal, and rows that nobody returned to be projected."""
    for seed in range(2):
        result = learn_pomdp(simulate(domains.tmaze(), 10_000, rng=seed), rng=0)
        names = {note.name for note in result.diagnostics}
        assert not names & {
            "not_jointly_diagonal",
            "complex_pairs",
            "projected_transitions",
            "projected_observations",
            "near_noise",
            "no_gap",
        }
        assert {note.name for note in result.spectral.diagnostics} - names


def test_a_rank_below_the_noise_is_not_called_a_rank_that_is_missing():
    log = simulate(domains.directional_hallway(), 20_000, rng=4)
    result = learn_pomdp(log, rng=0)
    message = result.diagnostics["spectral_refused"].message
    assert "shows full rank 3 above the noise" in message
    assert "learn_psr" in message


def test_a_spectral_model_under_which_its_log_is_impossible_is_opened_a_little():
    for seed in range(6):
        log = simulate(domains.tmaze(), 5_000, rng=seed)
        result = learn_pomdp(log, refine=None, rng=0)
        assert result.log_likelihood == result.pomdp.log_likelihood(log)
        assert np.isfinite(result.log_likelihood)
        impossible = result.spectral.pomdp.log_likelihood(log) == -np.inf
        assert ("opened_zeros" in result.diagnostics) == impossible
        assert np.abs(result.pomdp.transitions - result.spectral.pomdp.transitions).max() < 1e-5
        if impossible:
            return
    raise AssertionError("no such log among these")
