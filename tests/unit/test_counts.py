"""Counting windows: exact, mergeable, never across episodes."""

from __future__ import annotations

import numpy as np
import pytest

import naive
from unlatch import Trajectory, count_sequences, domains, simulate
from unlatch.core.progress import listening
from unlatch.errors import DataError, NotLearnableError, ResourceLimitError, UsageError
from unlatch.learn.spectral import counting as module

TIGER = simulate(domains.tiger(), 400, episodes=3, rng=0)


def count(log, history_length=3, test_length=2):
    return count_sequences(log, history_length=history_length, test_length=test_length)


def part(log, start, stop):
    return Trajectory(
        log.actions[start:stop], log.observations[start:stop], log.action_names, log.observation_names
    )


def test_equals_a_dictionary():
    counts = count(TIGER)
    assert naive.spelled_out(counts) == naive.count_windows(TIGER, 5)
    assert (counts.steps, counts.n_actions, counts.n_observations) == (1200, 3, 6)
    assert [table.length for table in counts.tables] == [1, 2, 3, 4, 5]
    assert counts.symbol_rewards.tolist() == domains.tiger().symbol_rewards.tolist()


def test_one_sequence_can_be_asked_for():
    counts = count(TIGER)
    windows = naive.count_windows(TIGER, 5)
    for window in [*list(windows)[:50], ((0, 5),) * 4, ((2, 0),)]:
        actions, observations = zip(*window, strict=True)
        assert counts.count(list(actions), list(observations)) == windows.get(window, 0)
    for actions, observations in ([], []), ([0], [0, 1]), ([0] * 6, [0] * 6):
        with pytest.raises(UsageError, match="one to 5 pairs"):
            counts.count(actions, observations)
    for action, observation in (-1, 6), (3, 0), (0, 6), (0, -1):
        with pytest.raises(UsageError, match="below 3 actions and 6 observations"):
            counts.count([0, action], [0, observation])


@pytest.mark.parametrize("starts", [[0], [0, 7], [0, 1, 2, 3], [0, 10, 20, 21, 22, 30], range(30)])
def test_windows_never_cross_episodes(starts):
    log = Trajectory(
        actions=np.zeros(60, dtype=int), observations=np.arange(60) % 7, episode_starts=list(starts)
    )
    counts = count(log)
    assert naive.spelled_out(counts) == naive.count_windows(log, 5)
    sizes = log.episode_ends - log.episode_starts
    for table in counts.tables:
        assert table.counts.sum() == np.maximum(sizes - table.length + 1, 0).sum()


@pytest.mark.parametrize("chunk", [1, 7, 100, 1200])
def test_the_size_of_a_chunk_does_not_matter(monkeypatch, chunk):
    whole = count(TIGER)
    monkeypatch.setattr(module, "STEPS_AT_ONCE", chunk)
    heard = []
    with listening(lambda *report: heard.append(report)):
        again = count(TIGER)
    for one, other in zip(whole.tables, again.tables, strict=True):
        assert np.array_equal(one.codes, other.codes)
        assert np.array_equal(one.counts, other.counts)
    done = [done for stage, done, _ in heard if stage == "counting"]
    assert done == sorted(done)
    assert heard[-1][1] <= heard[-1][2]


# --- merging ----------------------------------------------------------------------------------------------


def test_a_sum_is_what_both_logs_hold_as_episodes():
    parts = [part(TIGER, 0, 400), part(TIGER, 400, 800), part(TIGER, 800, 1200)]
    a, b, c = (count(p) for p in parts)
    expected = naive.count_windows(TIGER, 5)
    for merged in ((a + b) + c, a + (b + c), c + b + a):
        assert naive.spelled_out(merged) == expected
        assert merged.steps == 1200
    for one, other in zip(((a + b) + c).tables, (c + (a + b)).tables, strict=True):
        assert np.array_equal(one.codes, other.codes)
        assert np.array_equal(one.counts, other.counts)


def test_merging_windows_of_several_words(rng):
    names = [str(i) for i in range(5000)]
    logs = [
        Trajectory(np.zeros(80, int), rng.choice([0, 17, 4999], 80), observation_names=names)
        for _ in range(2)
    ]
    both = Trajectory(
        np.zeros(160, int),
        np.concatenate([log.observations for log in logs]),
        observation_names=names,
        episode_starts=[0, 80],
    )
    merged = count(logs[0], 6, 3) + count(logs[1], 6, 3)
    assert len(merged.table(9).codes) == 3
    assert naive.spelled_out(merged) == naive.count_windows(both, 9)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (count(TIGER, 2, 2), "history_length differs"),
        (count(TIGER, 3, 1), "test_length differs"),
        (count(part(TIGER, 0, 400)), "only one of the logs has rewards"),
    ],
)
def test_counts_that_cannot_be_merged(other, message):
    with pytest.raises(DataError, match=message):
        count(TIGER) + other


def test_merging_rewards():
    first = Trajectory([0] * 9, [0, 1] * 4 + [0], observation_names=["a", "b", "c"], rewards=[1, 2] * 4 + [1])
    second = Trajectory(
        [0] * 9, [0, 2] * 4 + [0], observation_names=["a", "b", "c"], rewards=[1, 3] * 4 + [1]
    )
    assert (count(first) + count(second)).symbol_rewards.tolist() == [1.0, 2.0, 3.0]
    assert (count(second) + count(first)).symbol_rewards.tolist() == [1.0, 2.0, 3.0]
    other = Trajectory([0] * 9, [0] * 9, observation_names=["a", "b", "c"], rewards=[5] * 9)
    merged = count(first) + count(other)
    assert merged.observation_names == ("a|1", "a|5", "b|2")
    assert merged.symbol_rewards.tolist() == [1.0, 5.0, 2.0]
    assert [merged.count([0], [i]) for i in range(3)] == [5, 9, 4]
    again = merged + count(second)
    assert again.observation_names == ("a|1", "a|5", "b|2", "c|3")
    assert again.count([0], [0]) == 10
    with pytest.raises(TypeError):
        count(first) + 1


# --- rewards are part of the symbol -----------------------------------------------------------------------


def test_pairs_of_observation_and_reward_are_the_symbols():
    log = Trajectory([0] * 8, [0, 1] * 4, rewards=[0, 0, 5, 0] * 2)
    counts = count(log, 2, 1)
    assert counts.observation_names == ("0|0", "0|5", "1|0")
    assert counts.symbol_rewards.tolist() == [0.0, 5.0, 0.0]
    assert counts.count([0, 0], [1, 2]) == 2
    assert counts.count([0, 0], [0, 1]) == 0


# --- logs that are too short ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "starts"), [(0, None), (1, None), (2, None), (5, None), (20, range(0, 20, 5))]
)
def test_too_short(steps, starts):
    log = Trajectory([0] * steps, [0] * steps, episode_starts=None if starts is None else list(starts))
    with pytest.raises(
        NotLearnableError, match=rf"has {min(steps, 5)} steps; windows of length 5 need at least 6"
    ):
        count(log)
    assert count(Trajectory([0] * 6, [0] * 6)).table(5).totals.tolist() == [2]


@pytest.mark.parametrize(
    ("lengths", "error"), [((1, 1), UsageError), ((2, 0), UsageError), ((40, 25), ResourceLimitError)]
)
def test_lengths_for_which_there_is_no_matrix(lengths, error):
    with pytest.raises(error):
        count(TIGER, *lengths)


def test_an_alphabet_beyond_any_key():
    with pytest.raises(ResourceLimitError, match="more than a key can hold"):
        module.digits_per_word(2**60)
