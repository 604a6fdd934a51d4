"""The search for the number of states: what it finds, what it keeps when it is cut short, what it obeys."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import unlatch
from naive import blurred
from unlatch import POMDP, domains, learn_pomdp, simulate
from unlatch.core.budget import Budget
from unlatch.core.emission import with_emission
from unlatch.learn.likelihood.climb import climb
from unlatch.learn.likelihood.objective import Hypothesis, Likelihood
from unlatch.learn.likelihood.parameters import Parameters, parameters_of
from unlatch.learn.likelihood.search import StateSearch, search_hypotheses, search_states
from unlatch.learn.likelihood.starts import single_state


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("tiger", 3_000),
        ("tmaze", 6_000),
        ("sense-float-reset:states=4", 40_000),
        ("directional-hallway", 40_000),
    ],
)
def test_search_finds_the_number_of_states(name: str, steps: int) -> None:
    truth = domains.by_name(name)
    log = simulate(truth, steps, rng=11)
    found = search_states(log, rng=np.random.default_rng(1))
    assert found.best.n_states == truth.n_states
    reference = climb(parameters_of(truth), Likelihood.of(log.head(found.steps), "departure"))
    assert found.best.log_likelihood > reference.log_likelihood - 1
    assert found.best.score == max(candidate.score for candidate in found.models.values())


@pytest.mark.parametrize("seconds", [1e-9, 0.05, 0.3, 0.6])
def test_a_search_that_is_cut_short_returns_the_best_model_that_it_has_seen(seconds: float) -> None:
    log = simulate(domains.tmaze(rooms=3), 20_000, rng=0)
    found = search_states(log, budget=Budget(seconds), rng=np.random.default_rng(0))
    assert not found.complete
    assert found.best.score == max(candidate.score for candidate in found.models.values())
    assert found.best is found.models[found.best.n_states]


def test_without_any_time_a_start_that_is_better_than_one_state_is_kept() -> None:
    truth = domains.tiger()
    found = search_states(
        simulate(truth, 20_000, rng=0),
        starts=[parameters_of(truth)],
        budget=Budget(1e-9),
        rng=np.random.default_rng(0),
    )
    assert found.best.n_states == 2
    assert set(found.models) == {1, 2}


def test_an_interrupt_ends_the_search_with_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    log = simulate(domains.tmaze(), 20_000, rng=0)
    budget = Budget()

    def interrupting(*arguments: object, **options: object) -> object:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr("unlatch.learn.likelihood.search.merge_proposals", interrupting)
    found = search_states(log, budget=budget, rng=np.random.default_rng(0))
    assert budget.interrupted
    assert not found.complete
    assert found.best.n_states >= 1
    with pytest.raises(KeyboardInterrupt):
        budget.interrupt()  # asked twice, it ends at once


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_no_more_states_than_allowed(limit: int) -> None:
    log = simulate(domains.tmaze(), 10_000, rng=0)
    found = search_states(log, max_states=limit, rng=np.random.default_rng(0))
    assert found.best.n_states <= limit
    assert max(found.models) <= limit
    start = parameters_of(domains.tmaze())  # has more: left out
    assert search_states(
        log, starts=[start], max_states=limit, budget=Budget(1e-9), rng=np.random.default_rng(0)
    ).models.keys() == {1}


def test_what_was_tried_cannot_be_changed() -> None:
    found = search_states(simulate(domains.tiger(), 1_000, rng=0), rng=np.random.default_rng(0))
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.complete = False  # type: ignore[misc]
    assert all(str(found.steps) in line for line in found.rounds)
    assert "2 states" in repr(found)


def test_a_state_that_is_never_visited_does_not_count_as_one_tried() -> None:
    log = simulate(domains.tiger(), 500, rng=0)
    alone = single_state(Likelihood.of(log, "departure").log)
    twice = Parameters(
        initial=np.array([1.0, 0.0]),
        transitions=np.tile(np.array([[1.0, 0.0], [0.5, 0.5]]), (3, 1, 1)),
        observations=np.repeat(alone.observations, 2, axis=1),
    )
    found = search_states(log, starts=[twice], budget=Budget(1e-9), rng=np.random.default_rng(0))
    assert set(found.models) == {1}


def test_a_model_with_a_state_that_is_never_visited_is_kept_without_it() -> None:
    """It was forgotten whole: a room of 400 cells began anew with a single state on the larger part of its log."""
    truth = parameters_of(domains.tiger())
    unvisited = Parameters(
        initial=np.append(truth.initial, 0.0),
        transitions=np.pad(truth.transitions, ((0, 0), (0, 1), (0, 1))) + np.diag([0.0, 0.0, 1.0]),
        observations=np.concatenate([truth.observations, truth.observations[:, :1]], axis=1),
    )
    log = simulate(domains.tiger(), 2_000, rng=0)
    found = search_states(log, starts=[unvisited], budget=Budget(1e-9), rng=np.random.default_rng(0))
    assert set(found.models) == {1, 2}
    assert found.best.n_states == 2


def test_it_looks_at_more_of_the_log_before_it_gives_up() -> None:
    """Four states are not worth their price in the first 20,000 steps, but they are in 40,000."""
    log = simulate(domains.sense_float_reset(4), 40_000, rng=11)
    found = search_states(log, rng=np.random.default_rng(1))
    assert found.steps == 40_000
    assert any(line.startswith("20000 steps") for line in found.rounds)


def test_where_a_round_would_need_most_of_the_log_it_looks_at_all_of_it() -> None:
    """A round on 20,000 of 30,000 steps that does not pay would be repeated on all of them."""
    found = search_states(simulate(domains.tiger(), 30_000, rng=0), rng=np.random.default_rng(0))
    assert found.best.n_states == 2
    assert all(line.startswith("30000 steps") for line in found.rounds)


@pytest.mark.slow
def test_many_states_are_merged_later_and_counted_as_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the number of states grows only those pairs are merged that should gain; the last round prunes."""
    room = domains.random_room(4, 5, rng=3)
    log = simulate(room, 20_000, rng=3)
    monkeypatch.setattr("unlatch.learn.likelihood.search.MANY_STATES", 4)
    found = search_states(log, emission="arrival", rng=np.random.default_rng(0))
    assert found.best.n_states == 20
    assert found.best.log_likelihood > -10


def test_a_start_near_the_truth_is_climbed() -> None:
    truth = domains.tmaze()
    log = simulate(truth, 20_000, rng=3)
    found = search_states(
        log, starts=[parameters_of(blurred(truth, 1))], max_states=4, rng=np.random.default_rng(0)
    )
    reference = climb(parameters_of(truth), Likelihood.of(log, "departure"))
    assert found.best.log_likelihood > reference.log_likelihood - 1


@pytest.mark.parametrize(
    ("system", "steps"),
    [("tiger", 100), ("tmaze", 200), ("sense-float-reset:states=3", 100), ("noise", 200), ("noise", 500)],
)
def test_a_short_log_is_not_memorized(system: str, steps: int) -> None:
    """Chains of states that each occur once once gave eighteen states and more for a hundred steps of Tiger."""
    for seed in range(2):
        seen, other, states = short_logs(system, steps, seed)
        result = unlatch.learn_pomdp(seen, rng=0)
        assert result.states <= states + 1
        if set(np.unique(other.observations)) <= set(np.unique(seen.observations)):
            assert np.isfinite(result.pomdp.log_likelihood(other))


def short_logs(system: str, steps: int, seed: int) -> tuple[unlatch.Trajectory, unlatch.Trajectory, int]:
    """A short log, a longer one of the same system, and the number of its states."""
    if system == "noise":
        draws = np.random.default_rng(seed).integers((3, 4), size=(steps + 2_000, 2)).T
        names = ("a", "b", "c"), ("w", "x", "y", "z")
        short, long = (
            unlatch.Trajectory(*draws[:, part], *names) for part in (slice(steps), slice(steps, None))
        )
        return short, long, 1
    truth = domains.by_name(system)
    return simulate(truth, steps, rng=seed), simulate(truth, 2_000, rng=seed + 100), truth.n_states


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_the_directional_hallway_is_found_in_five_thousand_steps(seed: int) -> None:
    result = unlatch.learn_pomdp(simulate(domains.directional_hallway(), 5_000, rng=seed), rng=0)
    assert result.states == 3
    assert result.evidence is not None
    assert result.evidence.gap > 5


@pytest.mark.slow
def test_the_count_does_not_depend_on_the_seed_of_the_learner() -> None:
    """Doubling alone missed the fourth state of this log with some seeds; it is found where one state is split."""
    log = simulate(domains.sense_float_reset(4), 15_000, rng=np.random.default_rng([3, 15_000]))
    assert [unlatch.learn_pomdp(log, rng=seed).states for seed in range(3)] == [4, 4, 4]


@pytest.mark.slow
def test_both_corridors_of_a_long_maze_are_found() -> None:
    truth = domains.tmaze(rooms=14, fail=0.1)
    log = simulate(truth, 400_000, rng=0)
    found = search_states(log, max_states=30, rng=np.random.default_rng(0))
    reference = climb(parameters_of(truth), Likelihood.of(log, "departure"))
    assert found.best.n_states == 30
    assert found.best.log_likelihood > reference.log_likelihood - 1


@pytest.mark.slow
def test_a_noisy_room_has_as_many_states_as_cells() -> None:
    room = domains.room(["rgb", "bwr"], wrong=0.05, slip=0.1)
    result = unlatch.learn_pomdp(simulate(room, 20_000, rng=1), rng=0)
    assert (result.states, result.pomdp.emission) == (6, "arrival")


def test_a_short_log_leaves_other_logs_possible() -> None:
    truth = domains.tiger()
    for seed in range(3):
        learned = unlatch.learn_pomdp(simulate(truth, 200, rng=seed), rng=0).pomdp
        seen = simulate(truth, 200, rng=seed)
        other = simulate(truth, 2_000, rng=seed + 100)
        if set(np.unique(other.observations)) <= set(np.unique(seen.observations)):
            assert np.isfinite(learned.log_likelihood(other))


def test_where_the_state_reached_shows_the_same_under_every_action_rows_are_shared() -> None:
    """Rows by action leave states named anew after every action, which no longer can be shared."""
    rng = np.random.default_rng(3)
    moves = 0.9 * np.eye(4)[[rng.permutation(4) for _ in range(3)]] + 0.025
    shown = np.array([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9]])
    truth = POMDP(moves, np.repeat(shown[None], 3, axis=0), np.full(4, 0.25), emission="arrival")
    found = search_states(simulate(truth, 20_000, rng=1), emission="arrival", rng=np.random.default_rng(0))
    assert found.best.parameters.shared


def test_a_system_without_zeros_is_learned_without_zeros() -> None:
    rng = np.random.default_rng(1)
    truth = POMDP(rng.dirichlet(np.ones(3), (2, 3)), rng.dirichlet(np.ones(4), (2, 3)), np.full(3, 1 / 3))
    result = learn_pomdp(simulate(truth, 20_000, rng=2), rng=0)
    assert result.states > 1
    assert (result.pomdp.transitions > 0).all()


def room_searches(layout: int) -> list[StateSearch]:
    log = simulate(domains.random_room(4, 5, 4, rng=layout), 20_000, rng=1)
    hypotheses = [Hypothesis(log, "departure"), Hypothesis(log, "arrival")]
    return search_hypotheses(hypotheses, rng=np.random.default_rng(0))


def test_a_hypothesis_that_is_behind_waits_and_is_given_up() -> None:
    right, wrong = room_searches(layout=3)
    assert (right.hypothesis.emission, right.best.n_states) == ("arrival", 20)
    assert wrong.given_up
    assert len(wrong.rounds) < len(right.rounds)
    assert wrong.best.n_states < 20


def test_what_would_be_dearer_is_not_looked_for_once_all_is_explained() -> None:
    """Told by the state left and the action, the colors of a room take a row for every action. Here departure went on
    to as many states as arrival, although no number of them could make up for that."""
    right, wrong = room_searches(layout=1)
    assert (right.hypothesis.emission, right.best.n_states) == ("arrival", 20)
    assert right.best.log_likelihood > -1
    assert wrong.given_up
    assert wrong.best.n_states < 10


def test_one_that_may_be_cheaper_is_not_given_up_because_another_explains_all() -> None:
    """Without slips the state left and the action tell the color too; but that takes a row for every action. So the
    other explains all of the log, from its beginning, and the right one is not given up for it."""
    room = domains.random_room(4, 5, 4, rng=0)
    log = simulate(room, 20_000, rng=1)
    told_before = parameters_of(with_emission(room, "departure"))
    hypotheses = [Hypothesis(log, "departure", starts=(told_before,)), Hypothesis(log, "arrival")]
    right, other = search_hypotheses(hypotheses, rng=np.random.default_rng(0))
    assert (right.hypothesis.emission, right.best.n_states, right.given_up) == ("arrival", 20, False)
    assert (other.hypothesis.emission, other.best.n_states) == ("departure", 20)
    for search in (right, other):
        assert search.complete
        assert search.best.log_likelihood > -1
    assert right.best.score > other.best.score + 100
