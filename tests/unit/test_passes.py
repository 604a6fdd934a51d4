"""Expected counts of every kind of model against a plain forward-backward pass in NumPy."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from unlatch import Trajectory, domains, simulate
from unlatch.core.pomdp import Emission
from unlatch.errors import BeliefCollapseError, NumericalError
from unlatch.learn.likelihood.forward_backward import expected_counts, run_passes
from unlatch.learn.likelihood.parameters import (
    EncodedLog,
    ExpectedCounts,
    Parameters,
    encoded_log,
    parameters_of,
)
from unlatch.learn.likelihood.split_merge import doubled_states
from unlatch.learn.likelihood.starts import random_parameters

EMISSIONS = pytest.mark.parametrize("emission", ["departure", "arrival"])
ROOM = domains.random_room(4, 5, rng=0)


def plain_counts(parameters: Parameters, log: EncodedLog, emission: Emission) -> Any:
    """One step after the other, every message scaled to sum one."""
    n, total = parameters.n_states, len(log)
    matrices = []
    for action, observation in zip(log.pair_actions, log.pair_observations, strict=True):
        shown = parameters.observations[action, :, observation]
        moves = parameters.transitions[action]
        matrices.append(shown[:, None] * moves if emission == "departure" else moves * shown)
    forward, after, log_likelihood = np.empty((total, n)), np.empty((total, n)), 0.0
    a = b = parameters.initial
    for t, k in enumerate(log.symbols):
        a = parameters.initial if log.begins[t] else a
        forward[t] = a
        a = a @ matrices[k]
        log_likelihood += np.log(a.sum())
        a = a / a.sum()
    found = SimpleNamespace(
        initial=np.zeros(n),
        transitions=np.zeros_like(parameters.transitions),
        observations=np.zeros_like(parameters.observations),
        log_likelihood=log_likelihood,
    )
    for t in range(total - 1, -1, -1):
        ends = t + 1 == total or log.begins[t + 1]
        k = log.symbols[t]
        after[t] = 1.0 if ends else b
        b = matrices[k] @ after[t]
        joint = forward[t][:, None] * matrices[k] * after[t]
        joint /= joint.sum()
        b = b / b.sum()
        action, observation = log.pair_actions[k], log.pair_observations[k]
        if not (ends and emission == "departure"):
            found.transitions[action] += joint
        found.observations[action, :, observation] += joint.sum(axis=1 if emission == "departure" else 0)
        if log.begins[t]:
            found.initial += joint.sum(axis=1)
    return found


def assert_same(counts: ExpectedCounts, expected: Any, tolerance: float = 1e-10) -> None:
    assert counts.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-12)
    for name in ("initial", "transitions", "observations"):
        np.testing.assert_allclose(
            getattr(counts, name), getattr(expected, name), rtol=tolerance, atol=tolerance
        )


def same_bits(one: ExpectedCounts, other: ExpectedCounts) -> bool:
    return one.log_likelihood == other.log_likelihood and all(
        np.array_equal(here, there) for here, there in zip(one.blocks, other.blocks, strict=True)
    )


def thinned(parameters: Parameters, share: float, rng: np.random.Generator) -> Parameters:
    """The same with a share of the transitions set to zero, never to the next state."""
    moves = parameters.transitions * (rng.random(parameters.transitions.shape) > share)
    states = np.arange(parameters.n_states)
    moves[:, states, (states + 1) % parameters.n_states] += 0.1
    return replace(parameters, transitions=moves / moves.sum(axis=2, keepdims=True))


def log_of_episodes(steps: int, rng: np.random.Generator) -> EncodedLog:
    return encoded_log(
        Trajectory(
            rng.integers(2, size=steps), rng.integers(3, size=steps), episode_starts=[0, 7, 8, steps // 2]
        )
    )


@EMISSIONS
@pytest.mark.parametrize("states", [1, 2, 4, 5, 7, 8, 9, 13, 48])
@pytest.mark.parametrize("share", [0.0, 0.9], ids=["dense", "sparse"])
def test_counts_are_those_of_a_plain_pass(states: int, share: float, emission: Emission) -> None:
    rng = np.random.default_rng(states)
    log = log_of_episodes(300, rng)
    parameters = thinned(random_parameters(log, states, rng), share, rng)
    expected = plain_counts(parameters, log, emission)
    one = expected_counts(parameters, log, emission=emission, threads=1)
    assert_same(one, expected)
    assert same_bits(one, expected_counts(parameters, log, emission=emission, threads=2))
    for length in (1, 2, 50, 1000):
        for threads in (1, 2):
            blocked = expected_counts(
                parameters, log, emission=emission, block_length=length, threads=threads
            )
            assert_same(blocked, expected)


@pytest.mark.parametrize("twins", [False, True], ids=["true", "doubled"])
def test_counts_of_a_room_are_those_of_a_plain_pass(twins: bool) -> None:
    log = encoded_log(simulate(ROOM, 3000, episodes=3, rng=0), ROOM)
    parameters = parameters_of(ROOM)
    if twins:
        parameters = doubled_states(parameters, 0.9, np.random.default_rng(0))
    counts = expected_counts(parameters, log, emission=ROOM.emission, threads=1)
    expected = plain_counts(parameters, log, ROOM.emission)
    assert_same(counts, expected)
    for length in (1, 100):
        blocked = expected_counts(parameters, log, emission=ROOM.emission, block_length=length)
        assert_same(blocked, expected)
    assert same_bits(counts, expected_counts(parameters, log, emission=ROOM.emission, threads=2))


def room_twice(steps: int) -> tuple[Parameters, EncodedLog]:
    """A model with many states of which few are possible at a time, and a log of it."""
    log = encoded_log(simulate(ROOM, steps, rng=0), ROOM)
    return doubled_states(parameters_of(ROOM), 0.9, np.random.default_rng(0)), log


def test_bits_do_not_depend_on_which_lane_arrives_first(monkeypatch: pytest.MonkeyPatch) -> None:
    parameters, log = room_twice(2000)
    for work in (1, 10_000, 10**9):  # calls of one step, of some, of all
        monkeypatch.setattr("unlatch.learn.likelihood.lanes.WORK_PER_CALL", work)
        one, two = (
            expected_counts(parameters, log, emission=ROOM.emission, threads=threads) for threads in (1, 2)
        )
        assert same_bits(one, two)


def test_long_lists_of_states_are_not_all_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 20_000
    parameters, log = room_twice(steps)
    kept = expected_counts(parameters, log, emission=ROOM.emission, threads=1)
    monkeypatch.setattr("unlatch.learn.likelihood.lanes.KEPT_NUMBERS", 30_000)
    expected_counts(parameters, log, emission=ROOM.emission)
    tracemalloc.start()
    blocked = expected_counts(parameters, log, emission=ROOM.emission, threads=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < steps * parameters.n_states  # one byte per step and state; all messages would take eight
    assert same_bits(blocked, expected_counts(parameters, log, emission=ROOM.emission, threads=2))
    assert blocked.log_likelihood == pytest.approx(kept.log_likelihood, rel=1e-13)
    np.testing.assert_allclose(blocked.transitions, kept.transitions, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("threads", [1, 2])
def test_lists_that_turn_out_longer_than_their_room_are_kept_when_more_is_made(
    monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """Of a log that is too long to keep all messages, those at the beginnings of blocks were lost when there was no
    more room: 30x30 cells and two million steps ended the process."""
    parameters, log = room_twice(20_000)
    for seed in (1, 2):
        parameters = doubled_states(parameters, 0.9, np.random.default_rng(seed))
    assert parameters.n_states == 8 * ROOM.n_states  # all eight are possible; there is room for four a block
    kept = expected_counts(parameters, log, emission=ROOM.emission, threads=1)
    monkeypatch.setattr("unlatch.learn.likelihood.lanes.KEPT_NUMBERS", 1_000)
    blocked = expected_counts(parameters, log, emission=ROOM.emission, threads=threads)
    assert blocked.log_likelihood == pytest.approx(kept.log_likelihood, rel=1e-13)
    np.testing.assert_allclose(blocked.transitions, kept.transitions, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("block_length", [None, 16])
def test_an_impossible_step_is_named(threads: int, block_length: int | None) -> None:
    log = simulate(ROOM, 500, rng=0)
    observations = log.observations.copy()
    parameters = parameters_of(ROOM)
    encoded = encoded_log(log, ROOM)
    belief, wrong = parameters.initial, 400
    for t in range(wrong):  # where the walk is, so that a color can be shown that is not there
        belief = (belief @ parameters.transitions[log.actions[t]]) * parameters.observations[
            log.actions[t], :, log.observations[t]
        ]
        belief /= belief.sum()
    chances = (belief @ parameters.transitions[log.actions[wrong]]) @ parameters.observations[
        log.actions[wrong]
    ]
    observations[wrong] = np.argmin(chances)
    assert chances.min() == 0
    spoiled = encoded_log(replace(log, observations=observations), ROOM)
    assert len(spoiled) == len(encoded)
    with pytest.raises(BeliefCollapseError, match=f"step {wrong}: impossible"):
        expected_counts(
            parameters, spoiled, emission=ROOM.emission, threads=threads, block_length=block_length
        )


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("states", [2, 8, 20])
def test_lost_digits_are_refused(states: int, threads: int) -> None:
    """The first half says that the state is the first, the second half that it is another."""
    shown = np.full((1, states, 2), [1e-160, 1.0])
    shown[0, 0] = [1.0, 1e-160]
    parameters = Parameters(np.full(states, 1 / states), np.eye(states)[None], shown)
    log = encoded_log(Trajectory(np.zeros(4, dtype=int), [0, 0, 1, 1]))
    with pytest.raises(NumericalError, match="lost all digits"):
        expected_counts(parameters, log, threads=threads)


@pytest.mark.parametrize("states", [3, 20])
def test_untried_actions_have_no_counts(states: int) -> None:
    rng = np.random.default_rng(0)
    log = encoded_log(Trajectory([0, 2, 0, 2], [0, 1, 0, 1], action_names=("a", "b", "c", "d")))
    parameters = thinned(random_parameters(log, states, rng), 0.9, rng)
    counts = expected_counts(parameters, log, emission="arrival")
    np.testing.assert_allclose(counts.transitions.sum(axis=(1, 2)), [2, 0, 2, 0], rtol=1e-12)


@pytest.mark.parametrize("states", [3, 20])
def test_passes_take_any_matrices(states: int) -> None:
    rng = np.random.default_rng(0)
    log = log_of_episodes(400, rng)
    parameters = thinned(random_parameters(log, states, rng), 0.9, rng)
    shown = parameters.observations[log.pair_actions, :, log.pair_observations]
    updates = parameters.transitions[log.pair_actions] * shown[:, None, :]
    totals = run_passes(
        updates, parameters.initial, log.symbols, log.begins, log.pair_counts, last_move_unseen=False
    )
    counts = expected_counts(parameters, log, emission="arrival")
    moves = np.zeros_like(counts.transitions)
    np.add.at(moves, log.pair_actions, totals.joint)
    np.testing.assert_allclose(moves, counts.transitions, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(totals.joint.sum(axis=(1, 2)), log.pair_counts, rtol=1e-12)
    np.testing.assert_allclose(totals.first, counts.initial, rtol=1e-12)
    assert totals.log_likelihood == counts.log_likelihood
    assert not totals.last.any()
