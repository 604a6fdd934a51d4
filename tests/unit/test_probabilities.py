"""Exploration that depends on observations: windows weighted by the probabilities of their actions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import naive
from unlatch import (
    POMDP,
    Trajectory,
    count_sequences,
    domains,
    estimate_hankel,
    exact_hankel,
    learn_pomdp,
    read_log,
    simulate,
    simulation,
    write_log,
)
from unlatch.errors import DataError
from unlatch.learn.spectral import counting as module
from unlatch.learn.spectral.windows import BLOCKS, noise_blocks

TIGER = domains.tiger()
CAUTIOUS = np.array(
    [
        [0.4, 0.1, 0.5],  # the tiger was heard on the left: rather open the right door
        [0.4, 0.5, 0.1],
        [0.6, 0.2, 0.2],
        [0.6, 0.2, 0.2],
        [0.2, 0.6, 0.2],
        [0.2, 0.2, 0.6],
    ]
)
LOG = simulate(TIGER, 400, episodes=3, policy=CAUTIOUS, rng=0)


def count(log, history_length=3, test_length=2):
    return count_sequences(log, history_length=history_length, test_length=test_length)


def bare(log):
    return replace(log, probabilities=None)


def lopsided(emission):
    """A model whose long-run states depend on the policy, and a policy that favors the first one."""
    model = POMDP(
        transitions=[[[0.95, 0.05], [0.5, 0.5]], [[0.5, 0.5], [0.05, 0.95]]],
        observations=[[[0.9, 0.1], [0.2, 0.8]], [[0.6, 0.4], [0.3, 0.7]]],
        initial=[0.5, 0.5],
        emission=emission,
    )
    return model, np.array([[0.8, 0.2], [0.55, 0.45]])


def distance(one, other):
    """Largest difference of any entry."""
    return max(
        float(np.abs(one.toarray() - other.toarray()).max()),
        float(np.abs(one.extended.toarray() - other.extended.toarray()).max()),
        float(np.abs(one.empty_history - other.empty_history).max()),
        float(np.abs(one.empty_test - other.empty_test).max()),
    )


# --- logs of reactive policies ----------------------------------------------------------------------------


def test_every_action_is_logged_with_its_probability():
    assert LOG.probabilities is not None
    for start, end in zip(LOG.episode_starts, LOG.episode_ends, strict=True):
        assert LOG.probabilities[start] == 1 / 3  # nothing was observed before
        chosen = CAUTIOUS[LOG.observations[start : end - 1], LOG.actions[start + 1 : end]]
        assert LOG.probabilities[start + 1 : end].tolist() == chosen.tolist()


def test_blind_policies_log_no_probabilities():
    assert simulate(TIGER, 10, rng=0).probabilities is None
    assert simulate(TIGER, 10, policy=[0.5, 0.3, 0.2], rng=0).probabilities is None


def test_equal_rows_are_a_blind_policy():
    policy = np.array([0.5, 0.3, 0.2])
    reactive = simulate(TIGER, 1000, policy=np.tile(policy, (6, 1)), rng=3)
    blind = simulate(TIGER, 1000, policy=policy, rng=3)
    assert reactive.actions[1:].tolist() == blind.actions[1:].tolist()
    assert TIGER.stationary(np.tile(policy, (6, 1))) == pytest.approx(TIGER.stationary(policy))


def test_chunks_do_not_change_the_log(monkeypatch):
    monkeypatch.setattr(simulation, "STEPS_PER_CALL", 64)
    assert simulate(TIGER, 400, episodes=3, policy=CAUTIOUS, rng=0) == LOG


def test_a_simulated_log_reads_back(tmp_path):
    write_log(tmp_path / "log.csv", LOG)
    back = read_log(tmp_path / "log.csv")
    assert len(back.diagnostics) == 0
    assert back.probabilities.tolist() == LOG.probabilities.tolist()
    assert (tmp_path / "log.csv").read_text().startswith("action,observation,reward,episode,probability\n")


def test_the_stationary_distribution_where_the_state_is_seen(rng):
    """On arrival every state shows itself: then the last observation is the state that an action leaves."""
    moves = rng.dirichlet(np.ones(4), (3, 4))
    model = POMDP(moves, np.tile(np.eye(4), (3, 1, 1)), [1.0, 0, 0, 0], "arrival")
    policy = rng.dirichlet(np.ones(3), 4)
    chain = np.einsum("sa,ast->st", policy, moves)
    assert model.stationary(policy) == pytest.approx(np.linalg.matrix_power(chain, 200)[0])


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_the_stationary_distribution_is_that_of_a_long_log(emission):
    moves = 0.7 * np.stack([np.eye(3), np.roll(np.eye(3), 1, axis=1)]) + 0.1  # stay; on to the next
    model = POMDP(moves, np.tile(np.eye(3), (2, 1, 1)), [1.0, 0.0, 0.0], emission)
    policy = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])
    log = simulate(model, 200_000, policy=policy, rng=1)
    assert np.bincount(log.observations) / len(log) == pytest.approx(model.stationary(policy), abs=0.01)
    assert np.abs(model.stationary(policy) - model.stationary()).max() > 0.02


# --- counting ---------------------------------------------------------------------------------------------


def assert_weights(counts, log):
    for table in counts.tables:
        expected = naive.weigh_windows_by_block(log, table.length, BLOCKS)
        windows = [tuple(divmod(s, counts.n_observations) for s in row) for row in table.symbols().tolist()]
        assert set(windows) == set(expected)
        np.testing.assert_allclose(table.weights, [expected[window] for window in windows], rtol=1e-12)


@pytest.mark.parametrize("at_once", [1, 7, 1 << 19])
def test_weights_equal_a_dictionary(monkeypatch, at_once):
    monkeypatch.setattr(module, "STEPS_AT_ONCE", at_once)
    counts = count(LOG)
    assert_weights(counts, LOG)
    assert naive.spelled_out(counts) == naive.count_windows(LOG, 5)


def test_weights_of_windows_of_several_words(rng):
    names = [str(i) for i in range(5000)]
    log = Trajectory(
        np.zeros(160, int),
        rng.choice([0, 17, 4999], 160),
        observation_names=names,
        episode_starts=[0, 3, 80],
        probabilities=rng.uniform(0.1, 1, 160),
    )
    counts = count(log, 6, 3)
    assert len(counts.table(9).codes) == 3
    assert_weights(counts, log)


def test_counts_stay_what_they_are():
    with_weights, without = count(LOG), count(bare(LOG))
    assert with_weights.weighted
    assert not without.weighted
    for one, other in zip(with_weights.tables, without.tables, strict=True):
        assert np.array_equal(one.codes, other.codes)
        assert np.array_equal(one.counts, other.counts)


def test_merged_weights_are_those_of_both_logs():
    first, second = LOG.episode(0), simulate(TIGER, 300, policy=CAUTIOUS[::-1], rng=7)
    both = Trajectory(
        actions=np.concatenate([first.actions, second.actions]),
        observations=np.concatenate([first.observations, second.observations]),
        action_names=first.action_names,
        observation_names=first.observation_names,
        rewards=np.concatenate([first.rewards, second.rewards]),
        episode_starts=[0, len(first)],
        probabilities=np.concatenate([first.probabilities, second.probabilities]),
    )
    merged, whole = count(first) + count(second), count(both)
    for one, other in zip(merged.tables, whole.tables, strict=True):
        assert np.array_equal(one.codes, other.codes)
        np.testing.assert_allclose(one.weights.sum(axis=1), other.weights.sum(axis=1), rtol=1e-12)
        np.testing.assert_allclose(one.squares, other.squares, rtol=1e-12)
    np.testing.assert_allclose(
        estimate_hankel(merged).toarray(), estimate_hankel(whole).toarray(), atol=1e-14
    )
    with pytest.raises(DataError, match="only one of the logs has probabilities"):
        count(first) + count(bare(second))


@pytest.mark.compiled
def test_weights_beyond_every_number():
    chances = np.full(1200, 0.5)
    chances[700] = 1e-200
    with pytest.raises(DataError, match=r"so improbable \(down to 1.0e-200 each\)"):
        count(replace(LOG, probabilities=chances))


def test_effective_tries():
    """Equal weights leave the number of tries as it is; uneven ones lower it."""
    equal = count(replace(LOG, probabilities=np.full(len(LOG), 0.25)))
    for table, plain in zip(equal.tables, count(bare(LOG)).tables, strict=True):
        np.testing.assert_allclose(table.tries(6)[1], plain.tries(6)[1], rtol=1e-12)
        assert table.typical_tries(6) == pytest.approx(plain.typical_tries(6))
    log = Trajectory([0] * 8, [0, 1] * 4, probabilities=[1, 0.1, 1, 1, 1, 1, 1, 1])
    assert count(log, 2, 1).table(1).tries(2)[1] == pytest.approx([17**2 / 107])


# --- the Hankel matrix ------------------------------------------------------------------------------------


def test_equal_probabilities_change_nothing():
    one = estimate_hankel(count(replace(LOG, probabilities=np.full(len(LOG), 0.3))))
    other = estimate_hankel(count(bare(LOG)))
    assert distance(one, other) < 1e-14
    np.testing.assert_allclose(one.history_scales, other.history_scales, rtol=1e-12)
    np.testing.assert_allclose(one.test_weights, other.test_weights, rtol=1e-12)


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_the_estimate_tends_to_the_exact_matrix(emission):
    """Started from the long-run states of the policy that acted, not of uniform exploration."""
    model, policy = lopsided(emission)
    exact = exact_hankel(model, history_length=2, test_length=1, policy=policy)
    log = simulate(model, 1_000_000, policy=policy, rng=2)
    weighted = estimate_hankel(count(log, 2, 1))
    assert distance(weighted, exact) < 0.01
    assert distance(estimate_hankel(count(bare(log), 2, 1)), exact) > 0.1
    assert distance(weighted, exact_hankel(model, history_length=2, test_length=1)) > 0.04
    assert len(weighted.diagnostics) == 0


def test_the_error_falls_with_the_root_of_the_steps():
    exact = exact_hankel(TIGER, history_length=2, test_length=1, policy=CAUTIOUS).toarray()

    def error(steps, known=True):
        logs = [simulate(TIGER, steps, policy=CAUTIOUS, rng=seed) for seed in range(5)]
        matrices = [estimate_hankel(count(log if known else bare(log), 2, 1)).toarray() for log in logs]
        return np.mean([np.linalg.norm(matrix - exact) for matrix in matrices])

    assert error(400_000) < 0.03
    assert 7 < error(4_000) / error(400_000) < 14
    assert error(400_000, known=False) > 0.3


def test_a_model_and_its_psr_have_one_matrix(rng):
    model, policy = lopsided("departure")
    psr = model.to_psr().transformed(rng.standard_normal((2, 2)))
    one = exact_hankel(model, history_length=2, test_length=2, policy=policy)
    assert distance(one, exact_hankel(psr, history_length=2, test_length=2, policy=policy)) < 1e-12


def test_replicates_leave_out_one_block_each():
    log = simulate(TIGER, 64 * (1 + 2) * BLOCKS, policy=CAUTIOUS, rng=4)
    blocks = noise_blocks(np.arange(len(log)))
    starts = np.append(0, np.flatnonzero(np.diff(blocks)) + 1)
    hankel = estimate_hankel(count(replace(log, episode_starts=starts), 2, 1))
    for block, replicate in enumerate(hankel.replicates):
        keep = blocks != block
        rest = Trajectory(
            actions=log.actions[keep],
            observations=log.observations[keep],
            action_names=log.action_names,
            observation_names=log.observation_names,
            rewards=log.rewards[keep],
            episode_starts=(np.cumsum(keep) - 1)[starts[keep[starts]]],
            probabilities=log.probabilities[keep],
        )
        assert distance(replicate, estimate_hankel(count(rest, 2, 1))) < 1e-13


@pytest.mark.parametrize("case", ["wrong", "deterministic", "impossible"])
def test_probabilities_that_cannot_be(case):
    """Weights of an action average to one if its logged probabilities are right and never zero."""
    log = simulate(TIGER, 20_000, policy=CAUTIOUS, rng=6)
    if case == "wrong":
        log = replace(log, probabilities=np.minimum(log.probabilities * 1.2, 1))
    elif case == "deterministic":
        log = replace(log, probabilities=np.ones(len(log)))
    else:
        never_after_left = CAUTIOUS.copy()
        never_after_left[0] = [0.0, 0.5, 0.5]
        log = simulate(TIGER, 20_000, policy=never_after_left, rng=6)
    note = estimate_hankel(count(log)).diagnostics["doubtful_probabilities"]
    assert note.details["averages"]["listen"] < 0.95
    assert ("open-left" in note.details["averages"]) == (case != "impossible")


# --- learning ---------------------------------------------------------------------------------------------


def test_tiger_is_learned_from_a_reactive_policy():
    truth = replace(TIGER, initial=TIGER.stationary(CAUTIOUS))
    log = simulate(TIGER, 200_000, policy=CAUTIOUS, rng=1)
    result = learn_pomdp(log, refine=None, rng=0)
    assert result.states == 2
    assert "doubtful_probabilities" not in result.diagnostics
    assert naive.distance_up_to_relabeling(result.pomdp, truth) < 0.02
    misled = learn_pomdp(bare(log), refine=None, rank=2, rng=0)
    assert naive.distance_up_to_relabeling(misled.pomdp, truth) > 0.2
