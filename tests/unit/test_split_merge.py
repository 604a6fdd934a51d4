"""Models with more states and with fewer: doubling, merging, and what a merge should cost."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

import naive
from naive import blurred
from unlatch import POMDP, domains, simulate
from unlatch.learn.likelihood.climb import Ascent, climb, evaluated
from unlatch.learn.likelihood.forward_backward import expected_counts
from unlatch.learn.likelihood.marginal import Candidate, complete_evidence, judged
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import ExpectedCounts, Parameters, encoded_log, parameters_of
from unlatch.learn.likelihood.rounds import LONG_MEMORY, STICKINESS
from unlatch.learn.likelihood.split_merge import (
    blurred_states,
    disjoint_pairs,
    doubled_states,
    merge_gains,
    merge_proposals,
    merged_counts,
    merged_states,
    split_state,
    tidied,
    uses_few,
    with_shared_rows,
    without_unvisited,
)
from unlatch.learn.likelihood.starts import single_state, smoothed, with_endings


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_doubling_keeps_the_likelihood_when_nothing_is_jittered(
    emission: str,
) -> None:
    model = replace(blurred(domains.tmaze(), 1), emission=emission)
    log = encoded_log(simulate(model, 400, rng=0))
    doubled = doubled_states(parameters_of(model), 0.9, np.random.default_rng(0), jitter=0.0)
    before = expected_counts(parameters_of(model), log, emission=emission)  # type: ignore[arg-type]
    after = expected_counts(doubled, log, emission=emission)  # type: ignore[arg-type]
    assert after.log_likelihood == pytest.approx(before.log_likelihood, abs=1e-8)
    pairs = [(2 * s, 2 * s + 1) for s in range(4)]
    merged = merged_states(doubled, pairs, after.observations.sum(axis=(0, 2)))
    for rows, given in zip(merged, parameters_of(model), strict=True):
        np.testing.assert_allclose(rows, given, atol=1e-12)


def test_a_bit_that_lasts_long_fills_the_middle_of_a_corridor_at_once() -> None:
    """Both ends of the two corridors are told apart, the middle is not: what lies at one end then tells nothing about
    the other."""
    truth = domains.tmaze(rooms=10, fail=0.1)
    likelihood = Likelihood.of(simulate(truth, 60_000, rng=3), "departure", truth)
    whole = climb(parameters_of(truth), likelihood)
    middle = [(place, 11 + place) for place in range(4, 9)]
    merged = climb(merged_states(whole.parameters, middle, whole.visits), likelihood)
    assert merged.log_likelihood < whole.log_likelihood - 150

    def reached(stickiness: float) -> float:
        start = doubled_states(merged.parameters, stickiness, np.random.default_rng(0))
        return climb(start, likelihood, passes=50).log_likelihood

    assert reached(LONG_MEMORY) > whole.log_likelihood
    assert max(map(reached, STICKINESS)) < whole.log_likelihood


# --- blurring ---------------------------------------------------------------------------------------------


def corridor(cells: int) -> POMDP:
    """Two actions, that move one cell to either side and fail with .1; every cell shows itself."""
    moves = np.zeros((2, cells, cells))
    for cell in range(cells):
        for action, there in enumerate((max(cell - 1, 0), min(cell + 1, cells - 1))):
            moves[action, cell, there] += 0.9
            moves[action, cell, cell] += 0.1
    return POMDP(
        transitions=moves,
        observations=np.repeat(np.eye(cells)[None], 2, axis=0),
        initial=np.full(cells, 1 / cells),
    )


def entangled(truth: Parameters, one: int) -> Parameters:
    """Two neighboring cells as two states that are either, depending on the action."""
    other, left, right = one + 1, one - 1, one + 2
    moves, shown = truth.transitions.copy(), truth.observations.copy()
    moves[:, [one, other]] = 0.0
    moves[0, one, left], moves[1, one, [right, one]] = 1.0, (0.9, 0.1)
    moves[0, other, [other, one]] = moves[1, other, [one, other]] = 0.7, 0.3
    moves[1, left], moves[0, right] = 0.0, 0.0
    moves[1, left, [other, one, left]] = moves[0, right, [one, other, right]] = 0.7, 0.2, 0.1
    shown[0, [one, other]] = np.eye(len(shown[0]))[[one, other]]
    shown[1, [one, other]] = np.eye(len(shown[0]))[[other, one]]
    return replace(truth, transitions=moves, observations=shown)


def test_blurring_takes_apart_what_two_states_share_and_doubling_does_not() -> None:
    truth = corridor(6)
    likelihood = Likelihood.of(simulate(truth, 5_000, rng=0), "departure", truth)
    whole = climb(parameters_of(truth), likelihood).log_likelihood
    start = smoothed(entangled(parameters_of(truth), 2), likelihood.log)
    stuck = tidied(climb(start, likelihood))
    assert stuck.converged
    assert stuck.log_likelihood < whole - 500
    for stickiness in (LONG_MEMORY, *STICKINESS):
        doubled = doubled_states(stuck.parameters, stickiness, np.random.default_rng(0))
        assert climb(doubled, likelihood).log_likelihood < whole - 500
    start_anew = blurred_states(stuck)
    assert start_anew is not None
    assert climb(start_anew, likelihood).log_likelihood == pytest.approx(whole, abs=0.01)


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_only_states_that_show_the_same_in_all_and_change_with_the_action_are_blurred(emission: str) -> None:
    model = replace(domains.tmaze(rooms=2, fail=0.1), emission=emission)
    ascent = evaluated(parameters_of(model), Likelihood.of(simulate(model, 3_000, rng=0), emission, model))  # type: ignore[arg-type]
    found, given = blurred_states(ascent), ascent.parameters
    assert found is not None
    for rows in found:
        np.testing.assert_allclose(rows.sum(axis=-1), 1.0)
    ends = np.array([name.endswith("rm_1") for name in model.state_names])  # the prize is up or down
    assert ends.sum() == 2
    for rows, before in ((found.transitions, given.transitions), (found.observations, given.observations)):
        np.testing.assert_array_equal(rows[:, ~ends], before[:, ~ends])
    led, seen = given.transitions[:, ends].sum(axis=1), ascent.counts.observations.sum(axis=1)
    for end in np.flatnonzero(ends):
        np.testing.assert_array_equal(found.transitions[:, end] > 0, led > 0)
        np.testing.assert_array_equal(
            found.observations[:, end] > 0, (given.observations[:, ends].sum(axis=(0, 1)) > 0) & (seen > 0)
        )


def test_where_every_state_shows_the_same_after_any_action_nothing_is_blurred() -> None:
    room = domains.room(["rg", "gr"])
    ascent = evaluated(parameters_of(room), Likelihood.of(simulate(room, 500, rng=0), room.emission, room))
    assert blurred_states(ascent) is None


def test_ends_are_not_blurred() -> None:
    model = naive.random_episodic(np.random.default_rng(3), emission="arrival")
    log = naive.simulate_episodes(model, np.random.default_rng(0), episodes=20)
    ascent = evaluated(parameters_of(model), Likelihood.of(log, "arrival", model))
    uses = ascent.counts.observations
    by_turns = np.zeros_like(uses)
    by_turns[0, :, 0], by_turns[1, :, 1] = uses[0].sum(axis=1), uses[1].sum(axis=1)
    shown = by_turns / by_turns.sum(axis=2, keepdims=True)
    changed = replace(
        ascent,
        parameters=replace(ascent.parameters, observations=shown),
        counts=replace(ascent.counts, observations=by_turns),
    )
    found, ends = blurred_states(changed), ascent.parameters.terminal
    assert found is not None
    assert ends.any()
    for rows, before in zip(found.blocks, changed.parameters.blocks, strict=True):
        if rows.ndim > 1:
            np.testing.assert_array_equal(rows[..., ends, :], before[..., ends, :])
    assert (found.transitions[:, ~ends] != changed.parameters.transitions[:, ~ends]).any()


# --- what a merge should gain -----------------------------------------------------------------------------


def tables(
    rng: np.random.Generator, *, actions: int, sparse: bool, shared: bool = False, rewards: bool = False
) -> ExpectedCounts:
    """Counts of six states, one of which was never left; each is zero or counts as used."""

    def table(*shape: int) -> np.ndarray:
        counts = 1 + rng.gamma(0.5, 50.0, size=shape)
        return np.where(rng.random(shape) < 0.6, 0.0, counts) if sparse else counts

    moves, shown = table(actions, 6, 6), table(actions, 6, 4)
    moves[:, 5] = 0.0
    moves[0, :4, 4:] = 7.0  # two outcomes of one row, also where the row of one of the two is empty
    moves[0, 4, 4:] = 9.0
    shown[0, :, 3] = 0.0  # never shown after the first action
    return ExpectedCounts(
        initial=np.zeros(6),
        transitions=moves,
        observations=shown,
        log_likelihood=-1_000.0,
        first=table(6, 2),
        rewards=table(actions, 6, 3) if rewards else None,
        shared=shared,
    )


def candidate_of(
    counts: ExpectedCounts, terminal: np.ndarray | None = None, hidden: float = 0.0
) -> Candidate:
    """A model of which only the counts matter."""
    n = counts.n_states
    parameters = Parameters(
        initial=np.full(n, 1 / n),
        transitions=np.full(counts.transitions.shape, 1 / n),
        observations=np.full(counts.observations.shape, 1 / counts.observations.shape[2]),
        terminal=terminal,  # type: ignore[arg-type]
        shared=counts.shared,
    )
    ascent = Ascent(parameters, counts, passes=1, gradient=0.0, converged=True)
    return Candidate(ascent, complete_evidence(counts), hidden)


def height(row: np.ndarray) -> float:
    """The largest log-likelihood of a row of counts."""
    positive = row[row > 0]
    return float((positive * np.log(positive / positive.sum())).sum())


def likelihood_lost(counts: ExpectedCounts, i: int, j: int) -> float:
    """Spelled out: both rows become one; that the two are one outcome of a transition is no loss."""
    total = 0.0
    moves = counts.transitions.copy()
    moves[:, :, i] += moves[:, :, j]
    moves[:, :, j] = 0.0
    for rows in (moves, *counts.blocks[2:]):
        for kind in rows.reshape(-1, *rows.shape[-2:]):
            total += height(kind[i]) + height(kind[j]) - height(kind[i] + kind[j])
    return total


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize(
    "kind", [{"actions": 1}, {"actions": 3}, {"actions": 2, "shared": True}, {"actions": 2, "rewards": True}]
)
def test_a_merge_should_gain_the_evidence_saved_less_the_likelihood_lost(
    kind: dict[str, int], sparse: bool
) -> None:
    counts = tables(np.random.default_rng(3), sparse=sparse, **kind)  # type: ignore[arg-type]
    seen, faint = candidate_of(counts), candidate_of(counts, hidden=40.0)
    assert faint.seen_share == pytest.approx(np.exp(-80 / faint.free))
    merges, faintly = merge_gains(seen), merge_gains(faint)
    assert sorted(merges.pairs) == sorted(faintly.pairs) == list(combinations(range(6), 2))
    assert (np.diff(merges.gains) <= 0).all()
    faint_gains = dict(zip(faintly.pairs, faintly.gains, strict=True))
    for pair, gain in zip(*merges, strict=True):
        merged = candidate_of(merged_counts(counts, [pair]))
        saved, lost = merged.complete - seen.complete, likelihood_lost(counts, *pair)
        assert gain == pytest.approx(saved - lost, abs=1e-8)
        expected = saved - faint.seen_share * lost - faint.relief * (seen.free - merged.free)
        assert faint_gains[pair] == pytest.approx(expected, abs=1e-8)


def test_merged_counts_are_those_of_either_state() -> None:
    counts = tables(np.random.default_rng(0), actions=2, sparse=True, rewards=True)
    merged = merged_counts(counts, [(0, 2), (1, 4)])  # left: 0 with 2, 1 with 4, 3, 5
    assert merged.n_states == 4
    assert merged.log_likelihood == counts.log_likelihood
    moves, shown = counts.transitions, counts.observations
    assert merged.transitions[1, 0, 1] == pytest.approx(moves[1][np.ix_([0, 2], [1, 4])].sum())
    assert merged.transitions[0, 2, 3] == moves[0, 3, 5]
    np.testing.assert_allclose(merged.observations[:, 1], shown[:, 1] + shown[:, 4])
    for mine, its in zip(merged.blocks, counts.blocks, strict=True):
        assert mine.sum() == pytest.approx(its.sum())


def test_a_rare_state_is_merged_before_two_common_ones_that_are_more_alike() -> None:
    shown = np.array([[[5_000.0, 5_000.0], [4_500.0, 5_500.0], [4.0, 1.0]]])
    moves = np.array([[[5_000.0, 4_998.0, 2.0], [5_000.0, 4_998.0, 2.0], [3.0, 2.0, 0.0]]])
    counts = ExpectedCounts(initial=np.ones(3) / 3, transitions=moves, observations=shown, log_likelihood=0.0)
    assert 2 in merge_gains(candidate_of(counts)).pairs[0]


def test_pairs_that_are_merged_together_share_no_state() -> None:
    assert disjoint_pairs([(0, 1), (1, 2), (2, 3), (0, 3)]) == [(0, 1), (2, 3)]


def test_twins_are_proposed_to_be_merged_all_at_once_then_fewer_then_one_by_one() -> None:
    model = parameters_of(domains.tmaze())
    likelihood = Likelihood.of(simulate(domains.tmaze(), 2_000, rng=0), "departure")
    twins = evaluated(doubled_states(model, 0.9, np.random.default_rng(0), jitter=0.01), likelihood)
    proposals = list(merge_proposals(judged(twins, likelihood)))
    assert [len(pairs) for pairs in proposals] == [4, 2] + [1] * 6
    assert sorted(proposals[0]) == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert set(proposals[1]) < set(proposals[0])
    first = merged_states(twins.parameters, proposals[0], twins.visits)
    for rows, given in zip(first, model, strict=True):
        np.testing.assert_allclose(rows.sum(axis=-1), 1, atol=1e-12)
        assert np.abs(np.sort(rows, axis=None) - np.sort(given, axis=None)).max() < 0.05


def test_states_that_the_log_tells_apart_should_not_gain_and_are_tried_where_there_is_hope() -> None:
    tried = []
    for steps in (200, 5_000, 50_000):
        likelihood = Likelihood.of(simulate(domains.tmaze(), steps, rng=0), "departure")
        found = judged(evaluated(parameters_of(domains.tmaze()), likelihood), likelihood)
        assert (merge_gains(found).gains < -5).all()
        tried.append([len(pairs) for pairs in merge_proposals(found)])
    assert tried[0] == [2] + [1] * 6  # a climb may make up for it
    assert len(tried[2]) < len(tried[0])


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_a_state_is_split_in_two_that_differ_and_the_others_stay(emission: str) -> None:
    model = replace(blurred(domains.room(["rg", "bw"]), 1), emission=emission)
    before = parameters_of(model)
    split = split_state(before, 2, np.random.default_rng(0))
    assert split.n_states == 5
    for rows in split:
        np.testing.assert_allclose(rows.sum(axis=-1), 1)
    assert split.initial[[2, 4]].tolist() == [before.initial[2] / 2] * 2
    others = [0, 1, 3]
    np.testing.assert_array_equal(split.observations[:, others], before.observations[:, others])
    for rows in (split.transitions, split.observations):
        assert (np.abs(rows[:, 2] - rows[:, 4]).max(axis=-1) > 1e-3).all()
    shares = split.transitions[:, others][:, :, [2, 4]]
    assert shares.min() > 0
    assert (np.abs(shares[..., 0] - shares[..., 1]) > 1e-3).any()
    likelihood = Likelihood.of(simulate(model, 500, rng=0), emission)  # type: ignore[arg-type]
    assert climb(split, likelihood).log_likelihood > evaluated(before, likelihood).log_likelihood


def test_tidying_drops_what_is_not_used_and_keeps_rows_without_visits() -> None:
    parameters = Parameters(
        initial=np.array([0.5, 0.5]),
        transitions=np.array([[[0.9, 0.1], [0.3, 0.7]]]),
        observations=np.array([[[0.999, 0.001], [0.5, 0.5]]]),
    )
    counts = ExpectedCounts(
        initial=np.array([1.0, 0.0]),
        transitions=np.array([[[90.0, 10.0], [0.0, 0.0]]]),
        observations=np.array([[[100.0, 1e-4], [0.0, 0.0]]]),
        log_likelihood=-1.0,
    )
    kept = tidied(Ascent(parameters, counts, passes=1, gradient=0.0, converged=True)).parameters
    assert kept.observations.tolist() == [[[1.0, 0.0], [0.5, 0.5]]]
    assert kept.transitions.tolist() == parameters.transitions.tolist()
    assert kept.initial.tolist() == parameters.initial.tolist()  # a single episode uses it once


# --- ends -----------------------------------------------------------------------------------------------


def ends_reached(moves: list[list[float]]) -> ExpectedCounts:
    """Two states and three ends; ``moves`` has a row for each state, how often it led where."""
    transitions = np.zeros((1, 5, 5))
    transitions[0, :2] = moves
    shown = np.zeros((1, 5, 4))
    shown[0, :2] = [[500.0, 500.0, 0.0, 0.0], [500.0, 500.0, 0.0, 0.0]]
    shown[0, 2:, 1:] = np.diag(transitions[0, :2, 2:].sum(axis=0))
    return ExpectedCounts(np.array([1.0, 1.0, 0, 0, 0]), transitions, shown, log_likelihood=0.0)


ENDS = np.array([False, False, True, True, True])


def pairs_of(counts: ExpectedCounts, terminal: np.ndarray | None = None) -> list[tuple[int, int]]:
    return merge_gains(candidate_of(counts, terminal)).pairs


def test_ends_are_merged_with_ends_only() -> None:
    counts = ends_reached([[400.0, 400, 60, 60, 80], [400.0, 400, 60, 60, 80]])
    assert set(pairs_of(counts, ENDS)) == {(0, 1), (2, 3), (2, 4), (3, 4)}
    assert len(pairs_of(counts)) == 10
    likelihood = Likelihood.of(naive.simulate_episodes(
        naive.corridor(0.2), np.random.default_rng(0), episodes=100), "arrival"
    )  # fmt: skip
    ascent = evaluated(parameters_of(naive.corridor(0.2)), likelihood)
    for pairs in merge_proposals(judged(ascent, likelihood)):
        proposal = merged_states(ascent.parameters, pairs, ascent.visits)
        assert proposal.terminal.sum() in (1, 2)
        assert (~proposal.terminal).sum() in (1, 2)
        ends = proposal.terminal
        np.testing.assert_allclose(proposal.transitions[:, ends][:, :, ends].sum(axis=2), 1)
        assert np.isfinite(evaluated(proposal, likelihood).log_likelihood)


def test_ends_are_cheap_to_merge_where_it_does_not_depend_on_the_state_before_which_it_is() -> None:
    """What is shown last differs from end to end, and still loses nothing: one end shows the mixture."""
    alike = ends_reached(
        [[400.0, 400, 90, 30, 80], [800.0, 80, 30, 10, 80]]
    )  # three to one from either state
    assert next(pair for pair in pairs_of(alike, ENDS) if min(pair) >= 2) == (2, 3)
    reached = ends_reached([[400.0, 400, 90, 30, 80], [800.0, 80, 90, 80, 30]])
    counts = replace(reached, initial=np.zeros(5))  # where episodes begin is left out
    merges = merge_gains(candidate_of(counts, ENDS))
    gains = dict(zip(merges.pairs, merges.gains, strict=True))
    moves = counts.transitions[0, :2]
    for pair in ((2, 3), (2, 4), (3, 4)):
        to_either = moves[:, pair]
        lost = height(to_either[0]) + height(to_either[1]) - height(to_either.sum(axis=0))
        saved = complete_evidence(merged_counts(counts, [pair])) - complete_evidence(counts)
        assert gains[pair] == pytest.approx(saved - lost, abs=1e-8)
    assert gains[3, 4] == min(
        gains[2, 3], gains[2, 4], gains[3, 4]
    )  # eighty to thirty, and the other way round


def test_ends_are_not_doubled() -> None:
    model = naive.random_episodic(np.random.default_rng(3), emission="arrival")
    log = encoded_log(naive.simulate_episodes(model, np.random.default_rng(0), episodes=20), model)
    doubled = doubled_states(parameters_of(model), 0.8, np.random.default_rng(0), jitter=0.0)
    assert doubled.terminal.tolist() == [False] * 6 + [True] * 2
    before = expected_counts(parameters_of(model), log, emission="arrival")
    after = expected_counts(doubled, log, emission="arrival")
    assert after.log_likelihood == pytest.approx(before.log_likelihood, abs=1e-8)
    jittered = doubled_states(parameters_of(model), 0.8, np.random.default_rng(0))
    np.testing.assert_array_equal(jittered.transitions[:, 6:, 6:], np.tile(np.eye(2), (2, 1, 1)))
    merged = merged_states(doubled, [(0, 1), (2, 3), (4, 5)], after.observations.sum(axis=(0, 2)))
    for rows, given in zip(merged, parameters_of(model), strict=True):
        np.testing.assert_allclose(rows, given, atol=1e-12)


# --- shared rows ------------------------------------------------------------------------------------------


def test_shared_rows_are_what_a_state_showed_in_all() -> None:
    truth = blurred(domains.room(["rg", "bw"], wrong=0.1), 0)
    likelihood = Likelihood.of(simulate(truth, 500, rng=0), "arrival", truth)
    apart = evaluated(parameters_of(truth), likelihood)
    shared = with_shared_rows(apart)
    assert shared.shared
    assert (shared.observations == shared.observations[:1]).all()
    shown = apart.counts.observations.sum(axis=0)
    np.testing.assert_allclose(shared.observations[2], shown / shown.sum(axis=1, keepdims=True))
    np.testing.assert_array_equal(shared.transitions, apart.parameters.transitions)


def test_shared_rows_of_a_state_that_showed_nothing_stay() -> None:
    parameters = Parameters(
        initial=np.array([1.0, 0.0]),
        transitions=np.tile(np.eye(2), (2, 1, 1)),
        observations=np.array([[[0.5, 0.5], [0.2, 0.8]], [[0.4, 0.6], [0.3, 0.7]]]),
    )
    used = np.array([[[3.0, 1.0], [0.0, 0.0]], [[0.0, 4.0], [0.0, 0.0]]])
    counts = ExpectedCounts(np.array([1.0, 0.0]), np.zeros((2, 2, 2)), used, log_likelihood=-1.0)
    shared = with_shared_rows(Ascent(parameters, counts, passes=1, gradient=0.0, converged=True))
    np.testing.assert_allclose(shared.observations, np.tile([[3 / 8, 5 / 8], [0.2, 0.8]], (2, 1, 1)))


def test_a_climb_keeps_shared_rows_equal() -> None:
    truth = blurred(domains.room(["rg", "bw"], wrong=0.1), 0)
    likelihood = Likelihood.of(simulate(truth, 500, rng=0), "arrival", truth)
    apart = climb(parameters_of(truth), likelihood, passes=30)
    start = with_shared_rows(apart)
    shared = climb(start, likelihood, passes=30)
    assert shared.parameters.shared
    assert (shared.parameters.observations == shared.parameters.observations[:1]).all()
    assert shared.log_likelihood >= evaluated(start, likelihood).log_likelihood
    assert shared.log_likelihood < apart.log_likelihood
    assert tidied(shared).parameters.shared


@pytest.mark.parametrize("kind", ["shared", "dense"])
def test_more_states_and_fewer_are_of_the_same_kind(kind: str) -> None:
    model = replace(blurred(domains.tmaze(), 1), emission="arrival")
    log = simulate(model, 300, rng=0)
    likelihood = Likelihood.of(log, "arrival")
    start = evaluated(parameters_of(model), likelihood)
    parameters = with_shared_rows(start) if kind == "shared" else replace(start.parameters, dense=True)
    rng = np.random.default_rng(0)
    visits = start.visits
    but_one = np.array([1.0, 0.0, 1.0, 1.0])[:, None]
    counts = replace(
        start.counts,
        transitions=start.counts.transitions * but_one,
        observations=start.counts.observations * but_one,
    )
    fewer = without_unvisited(replace(start, parameters=parameters, counts=counts))
    assert fewer is not None
    for other in (
        doubled_states(parameters, 0.9, rng),
        split_state(parameters, 1, rng),
        merged_states(parameters, [(0, 2)], visits),
        fewer,
        blurred_states(replace(start, parameters=parameters)) or parameters,
        with_endings(parameters, likelihood.log, "arrival"),
    ):
        assert (other.shared, other.dense) == (kind == "shared", kind == "dense")
        if kind == "shared":
            np.testing.assert_array_equal(other.observations, np.repeat(other.observations[:1], 4, axis=0))
        else:
            assert (other.transitions > 0).all()


def test_dense_models_keep_what_is_hardly_used() -> None:
    likelihood = Likelihood.of(simulate(domains.tiger(), 200, rng=0), "departure")
    start = replace(evaluated(single_state(likelihood.log), likelihood).parameters, dense=True)
    rows = start.observations.copy()
    rows[0, 0] = np.where(rows[0, 0] > 0, rows[0, 0], 1e-9)
    hardly = replace(start, observations=rows / rows.sum(axis=2, keepdims=True))
    assert tidied(evaluated(hardly, likelihood)).parameters is hardly


def test_a_model_of_which_the_log_uses_few_transitions_is_told_by_its_counts() -> None:
    """A room: sixteen cells, of which every action leads to one. A climb leaves all others just above zero."""
    truth = domains.random_room(4, 4, rng=3)
    likelihood = Likelihood.of(simulate(truth, 3_000, rng=0), "arrival")
    ajar = smoothed(parameters_of(truth), likelihood.log, 1e-9)
    assert np.all(ajar.transitions > 0)
    assert uses_few(evaluated(ajar, likelihood))
    mixed = smoothed(parameters_of(truth), likelihood.log, 0.5)
    assert not uses_few(evaluated(mixed, likelihood))
