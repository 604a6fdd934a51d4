"""plan(): which planner, and why; search from bounds; search that sees far; environments as the truth."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest

import unlatch
from unlatch import (
    POUCT,
    BoundSearch,
    PointBasedSolver,
    Problem,
    ShortSightWarning,
    domains,
    run_episodes,
    solve,
)
from unlatch.errors import DataError, UsageError


@pytest.mark.compiled
def test_which_and_why():
    tiger = Problem(domains.tiger(), discount=0.95)
    found = unlatch.plan(tiger)
    assert (found.method, type(found.planner).__name__) == ("point-based", "Policy")
    assert "within" in found.reason
    assert found.lower <= 19.37137 <= found.upper
    assert "listen until" in found.in_words()[0]
    exact = unlatch.plan(Problem(domains.tiger(), discount=1.0), horizon=5)
    assert exact.method == "exact"
    assert exact.lower == pytest.approx(unlatch.ExactPlanner(domains.tiger(), horizon=5).value())
    searched = unlatch.plan(Problem(domains.tmaze(8), discount=0.99), gap=1e-9, time_limit=0.05)
    assert searched.method == "search"
    assert "apart" in searched.reason
    played = run_episodes(domains.tmaze(8), searched, episodes=2, steps=3, rng=0)
    assert len(played) == 2
    for method, kind in (("point-based", "point-based"), ("search", "search")):
        assert unlatch.plan(tiger, method, time_limit=0.1).method == kind


@pytest.mark.compiled
def test_models_without_states_are_searched():
    found = unlatch.plan(Problem(domains.tiger().to_psr(), discount=0.9), rng=0, simulations=50)
    assert found.method == "search"
    assert isinstance(found.planner, POUCT)
    assert found.lower is None
    assert "PSR" in found.reason


def test_refusals():
    tiger = Problem(domains.tiger())
    with pytest.raises(UsageError, match="method"):
        unlatch.plan(tiger, "best")
    with pytest.raises(UsageError, match="horizon"):
        unlatch.plan(tiger, "exact")
    with pytest.raises(UsageError, match="Problem"):
        unlatch.plan(domains.tiger())
    with pytest.raises(UsageError, match="states"):
        unlatch.plan(Problem(domains.tiger().to_psr()), "point-based")


def test_the_name_is_the_package_and_the_function():
    import unlatch.planning.choose as choose

    assert unlatch.planning.choose is choose
    assert callable(unlatch.plan)


@pytest.mark.compiled
def test_without_time_there_is_still_an_action():
    problem = Problem(domains.tmaze(6), discount=0.95)
    found = unlatch.plan(problem, time_limit=0.0)
    assert found.method == "search"
    begun = time.perf_counter()
    assert found.action() in range(4)
    assert time.perf_counter() - begun < 1.0
    assert unlatch.plan(problem, "point-based", time_limit=0.0).action() in range(4)


@pytest.mark.compiled
def test_bounds_get_tighter_where_one_acts():
    solver = PointBasedSolver(Problem(domains.tmaze(3), discount=0.95))
    solver.run(gap=0.0, max_backups=5)
    planner = BoundSearch(solver, backups=50)
    before = planner.lower, planner.upper
    assert planner.action() in range(4)
    planner.observe("left", "rm_1|0")
    at_start = planner.value()
    planner.action()
    assert planner.value() >= at_start
    assert planner.lower >= before[0]
    assert planner.upper <= before[1]
    planner.reset()
    assert BoundSearch(solver, backups=0).action() in range(4)


# --- PO-UCT that sees far ----------------------------------------------------------------------------------------


def test_a_window_without_a_reward_is_told():
    lake = domains.frozen_lake(slippery=False)
    with pytest.warns(ShortSightWarning, match="6 steps away"):
        POUCT(lake, depth=3, rng=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        POUCT(lake, depth=6, rng=0)
        POUCT(lake, depth=2, leaf="mdp", discount=0.9, rng=0)


@pytest.mark.compiled
def test_a_goal_far_away_is_reached():
    lake = domains.frozen_lake(slippery=False, observe="column")
    planner = POUCT(lake, depth="auto", rng=0)
    assert planner.settings.depth == 12
    played = run_episodes(lake, planner, episodes=5, steps=12, rng=0)
    assert played.mean == 1.0


@pytest.mark.compiled
def test_leaves_by_what_states_are_worth_if_seen():
    lake = domains.frozen_lake(slippery=False)
    planner = POUCT(lake, depth=1, leaf="mdp", discount=0.9, simulations=50, rng=0)
    found = planner.search()
    names = lake.action_names
    assert found.values[names.index("down")] == pytest.approx(0.9**5)
    assert found.values[names.index("up")] == pytest.approx(0.9**6)


@pytest.mark.compiled
def test_leaves_by_a_policy():
    maze = domains.tmaze(3)
    policy = solve(Problem(maze, discount=0.95), gap=0.01, time_limit=10)
    planner = POUCT(maze, depth=4, leaf=policy, discount=0.95, simulations=200, rng=0)
    found = planner.search()
    assert found.values.max() == pytest.approx(policy.lower, rel=0.1)
    assert planner.action() == policy.action()  # to the map first
    again = POUCT(maze, depth=4, leaf=policy, discount=0.95, simulations=200, rng=0)
    assert np.array_equal(again.search().values, found.values)
    belief = POUCT(maze, depth=4, leaf=policy, discount=0.95, simulations=200, sampling="belief", rng=0)
    assert belief.action() == policy.action()


def test_leaves_that_make_no_sense_are_refused():
    tiger = domains.tiger()
    with pytest.raises(UsageError, match="leaf"):
        POUCT(tiger, leaf="guess")
    with pytest.raises(UsageError, match="discount"):
        POUCT(tiger, leaf="mdp", patience=1.0)
    with pytest.raises(UsageError, match="PSR"):
        POUCT(tiger.to_psr(), leaf="mdp")
    with pytest.raises(UsageError, match="leaf"):
        POUCT(tiger, leaf=3)


# --- environments ------------------------------------------------------------------------------------------------


class Corridor:
    """Three cells to the goal; shows its number, pays at the end. As little of Gymnasium as is needed."""

    def __init__(self, shows=int):
        self.shows, self.seeds = shows, []

    def reset(self, seed=None):
        self.seeds.append(seed)
        self.cell = 0
        return self.shows(0), {}

    def step(self, action):
        assert action in (0, 1)
        self.cell = max(self.cell + (1 if action == 1 else -1), 0)
        return self.shows(self.cell), float(self.cell == 3), self.cell == 3, False, {}


def corridor_model():
    moves = np.zeros((2, 4, 4))
    for s in range(3):
        moves[0, s, max(s - 1, 0)] = moves[1, s, s + 1] = 1.0
    moves[:, 3, 3] = 1.0
    return unlatch.POMDP(
        moves,
        np.tile(np.eye(4), (2, 1, 1)),
        [1, 0, 0, 0],
        emission="arrival",
        action_names=["back", "forth"],
        observation_names=["0", "1", "2", "3"],
        symbol_rewards=[0, 0, 0, 1],
        terminal=[3],
    )


@pytest.mark.compiled
def test_an_environment_as_the_truth():
    policy = solve(Problem(corridor_model(), discount=0.9))
    world = Corridor()
    played = run_episodes(world, policy, episodes=3, steps=10, rng=0)
    assert played.rewards.tolist() == [1.0, 1.0, 1.0]
    assert played.lengths.tolist() == [3, 3, 3]
    assert played.ended.all()
    assert played.collapses.sum() == 0
    assert played.share_of_time.shape == (0,)
    assert world.seeds[0] is not None
    assert world.seeds[1:] == [None, None]
    assert "3 episodes" in repr(played)


@pytest.mark.compiled
def test_names_are_mapped():
    policy = solve(Problem(corridor_model(), discount=0.9))
    letters = Corridor(shows=lambda cell: "abcd"[cell])
    tables = {
        "action_map": {"back": 0, "forth": 1},
        "observation_map": {"a": "0", "b": "1", "c": "2", "d": "3"},
    }
    assert run_episodes(letters, policy, episodes=1, steps=10, rng=0, **tables).mean == 1.0
    by_function = {"observation_map": lambda seen: str("abcd".index(seen))}
    assert run_episodes(letters, policy, episodes=1, steps=10, rng=0, **by_function).mean == 1.0
    assert run_episodes(letters, policy, episodes=1, steps=10, rng=0).collapses.sum() > 0
    with pytest.raises(UsageError, match="does not know"):
        run_episodes(letters, policy, episodes=1, steps=10, rng=0, observation_map={"a": "0"})


@pytest.mark.compiled
def test_environments_that_are_none():
    policy = solve(Problem(corridor_model(), discount=0.9))
    with pytest.raises(UsageError, match="reset and step"):
        run_episodes(object(), policy, episodes=1, steps=1)
    with pytest.raises(UsageError, match="own score"):
        run_episodes(Corridor(), policy, episodes=1, steps=1, reward=unlatch.Reward.on_states({0: 1.0}))
    with pytest.raises(UsageError, match="for environments"):
        run_episodes(corridor_model(), policy, episodes=1, steps=1, action_map={})
    old = Corridor()
    old.step = lambda action: (0, 0.0, False, {})
    with pytest.raises(DataError, match="older"):
        run_episodes(old, policy, episodes=1, steps=1)
    rich = Corridor()
    rich.step = lambda action: (0, float("nan"), False, False, {})
    with pytest.raises(DataError, match="finite"):
        run_episodes(rich, policy, episodes=1, steps=1)


@pytest.mark.compiled
def test_gymnasium_itself():
    gymnasium = pytest.importorskip("gymnasium")
    lake = gymnasium.make("FrozenLake-v1", is_slippery=False)
    policy = solve(Problem(domains.frozen_lake(slippery=False), discount=0.95))
    played = run_episodes(lake, policy, episodes=3, steps=100, rng=0)
    assert played.mean == 1.0
    assert played.lengths.tolist() == [6, 6, 6]


def test_tag():
    model = domains.tag()
    assert model.n_states == 870
    assert (model.observations.sum(axis=2) == 1).all()
    assert len(domains.by_name("tag:flee=0.5").terminal) == 29
