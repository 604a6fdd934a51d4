"""Passes over a log block by block, against passes over the whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unlatch import Trajectory, domains, simulate
from unlatch.core.chunks import chunks_of
from unlatch.errors import BeliefCollapseError, DataError
from unlatch.learn.likelihood.blocks import (
    block_counts,
    blocked_log,
    scan_block,
    seam_messages,
    tree_sum,
)
from unlatch.learn.likelihood.forward_backward import expected_counts
from unlatch.learn.likelihood.parameters import encoded_log, parameters_of

CASES = {
    "tiger": (domains.tiger(), simulate(domains.tiger(), 20_000, rng=0)),
    "maze": (domains.tmaze(4), simulate(domains.tmaze(4), 20_000, rng=1)),
    "wide": (domains.tmaze(12), simulate(domains.tmaze(12), 9_000, rng=1)),
    "episodes": (domains.tiger(), simulate(domains.tiger(), 37, episodes=300, rng=2)),
    "ends": (domains.frozen_lake(), simulate(domains.frozen_lake(), 60, episodes=200, rng=3)),
}


def in_blocks(model, log, size, emission=None):
    """Expected counts by blocks, and the log as they see it."""
    emission = emission or model.emission
    pieces = list(chunks_of(log, size))
    whole = blocked_log([scan_block(piece) for piece in pieces])
    parameters = parameters_of(model)
    messages = seam_messages(parameters, whole, emission)
    total = tree_sum(
        block_counts(parameters, whole.encoding, piece, emission, *messages.around(i))
        for i, piece in enumerate(pieces)
    )
    return replace(total, log_likelihood=total.log_likelihood - messages.counted_twice), whole, messages


def sorted_alphabets(model, log):
    """A blocked log sorts its alphabets; a log that was read has sorted ones."""
    names = tuple(sorted(log.action_names)), tuple(sorted(log.observation_names))
    actions = np.array([names[0].index(n) for n in log.action_names])
    shown = np.array([names[1].index(n) for n in log.observation_names])
    moved = replace(
        log,
        actions=actions[log.actions],
        observations=shown[log.observations],
        action_names=names[0],
        observation_names=names[1],
    )
    back, back_shown = np.argsort(actions), np.argsort(shown)
    again = replace(
        model,
        transitions=model.transitions[back],
        observations=model.observations[back][:, :, back_shown],
        action_names=names[0],
        observation_names=names[1],
        symbol_rewards=None if model.symbol_rewards is None else model.symbol_rewards[back_shown],
    )
    return again, moved


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("size", [1_500, 4_096, 50_000])
def test_blocks_equal_the_whole(case, size):
    model, log = sorted_alphabets(*CASES[case])
    expected = expected_counts(parameters_of(model), encoded_log(log), emission=model.emission)
    found, whole, messages = in_blocks(model, log, size)
    assert messages.unforgotten < 1e-6
    assert (whole.steps, whole.episodes, len(whole)) == (len(log), log.n_episodes, len(encoded_log(log)))
    assert whole.pair_counts[whole.pair_counts > 0].tolist() == encoded_log(log).pair_counts.tolist()
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, abs=1e-6)
    for one, other in zip(found.blocks, expected.blocks, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5, rtol=1e-9)


def test_the_order_and_number_of_hands_do_not_change_a_bit():
    model, log = sorted_alphabets(*CASES["maze"])
    one, _, _ = in_blocks(model, log, 1_500)
    other, _, _ = in_blocks(model, log, 1_500)
    assert one.log_likelihood == other.log_likelihood
    assert np.array_equal(one.transitions, other.transitions)


def test_rewards_that_observations_do_not_settle_are_part_of_the_symbol(rng):
    log = Trajectory(rng.integers(0, 2, 3000), rng.integers(0, 2, 3000), rewards=rng.integers(0, 2, 3000))
    whole = blocked_log([scan_block(piece) for piece in chunks_of(log, 700)])
    symbols = log.with_reward_symbols()
    assert whole.observation_names == symbols.observation_names
    assert whole.encoding.symbol_rewards.tolist() == symbols.symbol_rewards.tolist()
    assert whole.pair_counts.tolist() == encoded_log(symbols).pair_counts.tolist()
    assert whole.encoding.trajectory(next(chunks_of(log, 3000))) == symbols


def test_what_only_some_blocks_have_is_refused():
    log = simulate(domains.tiger(), 3_000, rng=0)
    scans = [scan_block(piece) for piece in chunks_of(log, 1_500)]
    bare = [scan_block(piece) for piece in chunks_of(replace(log, rewards=None), 1_500)]
    with pytest.raises(DataError, match="only some parts of the log have rewards"):
        blocked_log([scans[0], bare[1]])


def test_an_impossible_log_is_told():
    model, log = sorted_alphabets(*CASES["maze"])
    sure = replace(model, observations=np.eye(model.n_observations)[np.zeros((4, model.n_states), dtype=int)])
    with pytest.raises(BeliefCollapseError):
        in_blocks(sure, log, 1_500)
