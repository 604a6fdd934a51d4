"""A log in chunks, in any sizes, with alphabets that grow: what is counted is always the same."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from unlatch import Trajectory, count_sequences
from unlatch.core.chunks import LogChunk
from unlatch.errors import DataError
from unlatch.learn.spectral import tallies
from unlatch.learn.spectral.counting import (
    WindowCounter,
    count_chunks,
    count_part,
    joined_parts,
    merged_counts,
)
from unlatch.learn.spectral.windows import BLOCKS


def appearing(codes, names):
    """Codes in the order of appearance, and the names in that order."""
    order = list(dict.fromkeys(codes.tolist()))
    place = {code: i for i, code in enumerate(order)}
    return np.array([place[code] for code in codes.tolist()], dtype=np.uint16), [
        names[code] for code in order
    ]


def chunked(log, cuts):
    """As readers give it: names appear when they are first needed."""
    actions, action_names = appearing(log.actions, log.action_names)
    observations, observation_names = appearing(log.observations, log.observation_names)
    bounds = [0, *sorted(cuts), len(log)]
    for start, stop in pairwise(bounds):
        inside = log.episode_starts[(log.episode_starts >= start) & (log.episode_starts < stop)]
        yield LogChunk(
            start=start,
            actions=actions[start:stop],
            observations=observations[start:stop],
            episode_starts=inside - start,
            action_names=tuple(action_names[: len(set(actions[:stop].tolist()))]),
            observation_names=tuple(observation_names[: len(set(observations[:stop].tolist()))]),
            rewards=None if log.rewards is None else log.rewards[start:stop],
            probabilities=None if log.probabilities is None else log.probabilities[start:stop],
        )


@st.composite
def cut_logs(draw):
    n_actions, n_observations = draw(st.sampled_from([(1, 1), (1, 3), (2, 2), (4, 10), (30, 40)]))
    steps = draw(st.integers(14, 300))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    starts = draw(st.sets(st.integers(1, steps - 13), max_size=8)) if steps > 14 else set()
    log = Trajectory(
        actions=rng.integers(0, n_actions, steps),
        observations=rng.integers(0, n_observations, steps),
        episode_starts=[0, *sorted(starts)],
        rewards=draw(st.sampled_from([None, np.round(rng.normal(size=steps))])),
        probabilities=draw(st.sampled_from([None, rng.uniform(0.1, 1, steps)])),
    )
    return log, draw(st.sets(st.integers(0, steps), max_size=30))


def same(one, other):
    assert (one.action_names, one.observation_names) == (other.action_names, other.observation_names)
    assert (one.steps, one.episodes, one.longest_episode) == (
        other.steps,
        other.episodes,
        other.longest_episode,
    )
    for a, b in zip(one.tables, other.tables, strict=True):
        for field in ("codes", "counts", "weights", "squares"):
            first, second = getattr(a, field), getattr(b, field)
            assert (first is None) == (second is None)
            assert first is None or np.array_equal(first, second), field
    assert (one.symbol_rewards is None) == (other.symbol_rewards is None)
    if one.symbol_rewards is not None:
        assert np.array_equal(one.symbol_rewards, other.symbol_rewards)


@given(cut=cut_logs(), history=st.integers(2, 6), test=st.integers(1, 5))
def test_chunks_count_as_the_whole(cut, history, test):
    log, cuts = cut
    whole = count_sequences(log, history_length=history, test_length=test)
    same(count_chunks(chunked(log, cuts), history_length=history, test_length=test), whole)


@given(cut=cut_logs(), history=st.integers(2, 5))
def test_chunks_equal_a_dictionary_by_block(cut, history):
    log, cuts = cut
    log = replace(log, rewards=None, probabilities=None)
    counts = count_chunks(chunked(log, cuts), history_length=history, test_length=2)
    assert naive.spelled_out(counts) == naive.count_windows(log, history + 2)
    for table in counts.tables:
        expected = naive.count_windows_by_block(log, table.length, BLOCKS)
        pairs = [
            tuple(divmod(symbol, counts.n_observations) for symbol in w) for w in table.symbols().tolist()
        ]
        assert dict(zip(pairs, table.counts.tolist(), strict=True)) == expected


@given(cut=cut_logs(), history=st.integers(2, 5))
def test_parts_that_are_counted_apart_join_to_the_whole(cut, history):
    log, _ = cut
    log = Trajectory(
        *(np.tile(codes, 3) for codes in (log.actions, log.observations)),
        log.action_names,
        log.observation_names,
        None if log.rewards is None else np.tile(log.rewards, 3),
        np.concatenate([log.episode_starts + i * len(log) for i in range(3)])[:: 1 + len(log) % 3],
        None if log.probabilities is None else np.tile(log.probabilities, 3),
    )
    bounds = [0, len(log) // 3 + 5, 2 * (len(log) // 3), len(log)]
    parts, goes_on = [], []
    for start, stop in pairwise(bounds):
        piece = list(chunked(log.head(stop), [start]))[-1]
        goes_on.append(start not in log.episode_starts)
        parts.append(count_part([piece], history, 1))
    found = joined_parts(parts, lambda number: goes_on[number])
    whole = count_sequences(log, history_length=history, test_length=1)
    assert (found.steps, found.episodes, found.longest_episode) == (
        len(log),
        log.n_episodes,
        whole.longest_episode,
    )
    for one, other in zip(found.tables, whole.tables, strict=True):
        assert np.array_equal(one.codes, other.codes)
        assert np.array_equal(one.counts, other.counts)
        if one.weights is not None:
            np.testing.assert_allclose(one.weights, other.weights, rtol=1e-12)


def test_a_table_that_is_sorted_counts_as_one_that_is_looked_up(monkeypatch, rng):
    log = Trajectory(rng.integers(0, 3, 3000), rng.integers(0, 40, 3000))
    expected = count_sequences(log, history_length=3, test_length=2)
    packed = [("DIRECT_BITS", 0), ("COUNT_BITS", 6), ("PACKED", 500)]
    for name, value in (*packed, ("PACKED_BITS", 0), ("MANY", 500), ("SORTED_AT_ONCE", 400)):
        monkeypatch.setattr(tallies, name, value)
        same(count_chunks(chunked(log, range(0, 3000, 70)), history_length=3, test_length=2), expected)


@given(seed=st.integers(0, 2**32), parts=st.integers(1, 9))
def test_merging_matches_symbols_by_name(seed, parts):
    rng = np.random.default_rng(seed)
    logs = [
        Trajectory.from_symbols(
            [str(s) for s in rng.choice(rng.choice(["go", "wait", "stop"], 2), 30)],
            [str(s) for s in rng.choice(rng.choice(["a", "b", "c", "d", "e"], 3), 30)],
        )
        for _ in range(parts)
    ]
    both = Trajectory.from_symbols(
        [log.action_names[a] for log in logs for a in log.actions],
        [log.observation_names[o] for log in logs for o in log.observations],
        episode_starts=range(0, 30 * parts, 30),
    )
    counts = [count_sequences(log, history_length=2, test_length=2) for log in logs]
    for order in (counts, counts[::-1]):
        merged = merged_counts(order)
        assert (merged.action_names, merged.observation_names) == (both.action_names, both.observation_names)
        assert naive.spelled_out(merged) == naive.count_windows(both, 4)
        assert (merged.steps, merged.episodes) == (30 * parts, parts)


def test_what_is_missing_in_some_chunks_is_refused(rng):
    log = Trajectory(rng.integers(0, 2, 40), rng.integers(0, 2, 40), rewards=np.zeros(40))
    pieces = list(chunked(log, [20]))
    for change, message in (
        ({"rewards": None}, "some steps of the log have rewards"),
        ({"probabilities": np.full(20, 0.5)}, "some steps of the log have probabilities"),
    ):
        counter = WindowCounter(2, 1)
        counter.add(pieces[0])
        with pytest.raises(DataError, match=message):
            counter.add(replace(pieces[1], **change))
