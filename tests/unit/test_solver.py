"""The point-based solver: bounds that hold on both sides, for every kind of model; and the policy they are for."""

from __future__ import annotations

import json
import time
from itertools import pairwise

import numpy as np
import pytest

import naive
import unlatch
from unlatch import (
    POMDP,
    ExactPlanner,
    PointBasedSolver,
    Policy,
    Problem,
    Reward,
    domains,
    run_episodes,
    solve,
)
from unlatch.core.progress import listening
from unlatch.errors import BeliefCollapseError, DataError, ModelFileError, RepairWarning, UsageError

DISCOUNT = 0.3

TIGER = (-1 + 0.95 * (-1 + 0.95 * (0.745 * 10 - 0.0225 * 110))) / (1 - 0.95**2 * (0.745 * 0.95 + 0.255))
"""Listen twice, open if both were alike: the best plan's value at discount .95."""


def random_problem(seed: int, kind: str) -> Problem:
    rng = np.random.default_rng(seed)
    states, actions, observations = 3, 2, 2
    transitions = rng.dirichlet(np.full(states, 0.7), (actions, states))
    options: dict = {}
    if kind == "ending":
        transitions[:, -1] = np.eye(states)[-1]
        options["terminal"] = (states - 1,)
    initial = np.append(rng.dirichlet(np.ones(states - 1)), 0.0)
    if kind == "beside":
        options["reward_values"] = np.array([-1.0, 0.5, 2.0])
        options["reward_probabilities"] = rng.dirichlet(np.ones(3), (actions, states))
    if kind == "first":
        options["first_observations"] = rng.dirichlet(np.ones(2), states)
        options["first_observation_names"] = ("x", "y")
    if kind in ("symbols", "first", "ending"):
        options["symbol_rewards"] = np.array([1.0, -2.0])
    model = POMDP(
        transitions,
        rng.dirichlet(np.full(observations, 0.6), (actions, states)),
        initial,
        emission="arrival" if seed % 2 else "departure",
        **options,
    )
    reward = Reward.on_states({0: 1.0, 1: -0.5}) if kind == "states" else None
    return Problem(model, reward, discount=DISCOUNT)


def exact_value(problem: Problem) -> tuple[float, float]:
    """The value from the start of an episode, and how far it may be off."""
    horizon = 7 if problem.model.reward_values is None else 5  # more can be seen there
    planner = ExactPlanner(problem.model, problem.reward, horizon, discount=problem.discount)
    model = problem.model
    values = []
    if model.first_observations is None:
        values.append((1.0, planner.value()))
    else:
        for o, name in enumerate(model.first_observation_names):
            planner.reset(name)
            values.append((float(model.initial @ model.first_observations[:, o]), planner.value()))
    tail = DISCOUNT**horizon / (1 - DISCOUNT) * problem.resolved.scale
    return sum(weight * value for weight, value in values), tail + planner.error_bound


@pytest.mark.parametrize("kind", ["symbols", "states", "ending", "beside", "first"])
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
@pytest.mark.compiled
def test_bounds_bracket_the_exact_value(kind, seed):
    problem = random_problem(seed, kind)
    policy = solve(problem, gap=1e-3)
    value, error = exact_value(problem)
    assert policy.lower - error <= value <= policy.upper + error
    assert 0 <= policy.gap <= 1e-3
    assert policy.stopped == "gap"


@pytest.mark.compiled
def test_a_wrong_model_is_noticed():
    """The flip: what the bounds of one problem say is untrue of another."""
    value, error = exact_value(random_problem(0, "symbols"))
    other = solve(random_problem(2, "symbols"), gap=1e-3)
    assert not other.lower - error <= value <= other.upper + error


@pytest.mark.compiled
def test_bounds_hold_whenever_the_work_ends():
    solver = PointBasedSolver(Problem(domains.tiger(), discount=0.95))
    lower, upper = [], []
    for _ in range(12):
        solver.run(gap=0.0, max_backups=20)
        lower.append(solver.lower)
        upper.append(solver.upper)
    assert max(lower) <= TIGER <= min(upper)
    assert all(a <= b + 1e-9 for a, b in pairwise(lower))
    assert all(a >= b - 1e-9 for a, b in pairwise(upper))


def promises_kept(policy: Policy) -> bool:
    """Whether every plan gets what it promises by going on with its successors: then who follows the best plan at
    every belief does, too."""
    steps = policy.steps
    after = np.zeros_like(policy.vectors)
    for i, vector in enumerate(policy.vectors):
        a = steps.legal.tolist().index(int(policy.actions_taken[i]))
        for s in range(steps.rank):
            own = slice(steps.starts[a * steps.rank + s], steps.starts[a * steps.rank + s + 1])
            plans = policy.successors[i][steps.events[own]]
            later = np.where(plans >= 0, policy.vectors[plans, steps.following[own]], 0.0)
            paid = steps.rewards[a, s] * steps.scale
            after[i, s] = paid + steps.discount * (steps.chances[own] @ later) - vector[s]
    return bool(after.min() > -1e-6)


@pytest.mark.parametrize("horizon", [None, 5])
@pytest.mark.compiled
def test_every_plan_keeps_its_promise(horizon):
    policy = solve(Problem(domains.tmaze(), discount=0.9), horizon=horizon, gap=0.05)
    assert promises_kept(policy)
    arrays = policy.to_arrays()
    arrays["vectors"] = arrays["vectors"] + np.eye(
        *arrays["vectors"].shape
    )  # one plan promises more than it keeps
    assert not promises_kept(Policy.from_arrays(policy.problem, arrays))


@pytest.mark.compiled
def test_tiger():
    policy = solve(Problem(domains.tiger(), discount=0.95))
    assert policy.lower <= TIGER <= policy.upper
    assert policy.value([0.5, 0.5]) == pytest.approx(policy.lower, abs=1e-6)
    names = policy.model.action_names
    beliefs = ([0.5, 0.5], [0.85, 0.15], [0.98, 0.02], [0.02, 0.98])
    found = [names[policy.action(belief)] for belief in beliefs]
    assert found == ["listen", "listen", "open-right", "open-left"]
    for belief in ([1.0, 0.0], [0.3, 0.7], [0.9, 0.1]):
        lower, upper = policy.bounds(belief)
        assert lower <= upper


@pytest.mark.parametrize(
    ("model", "reward"),
    [
        (domains.tiger(), None),
        (domains.tmaze(), None),
        (domains.sense_float_reset(3), None),
        (domains.directional_hallway(), Reward.on_states({"middle": 1.0})),
    ],
)
@pytest.mark.compiled
def test_with_a_horizon_it_is_the_exact_plan(model, reward):
    policy = solve(Problem(model, reward, discount=1.0), horizon=6, gap=1e-6, time_limit=30)
    exact = ExactPlanner(model, reward, 6)
    assert policy.lower - 1e-6 <= exact.value() <= policy.upper + 1e-6
    assert policy.gap <= 1e-6


@pytest.mark.compiled
def test_what_the_policy_gathers_lies_between_the_bounds():
    model = domains.tiger()
    policy = solve(Problem(model, discount=0.75))
    rng = np.random.default_rng(0)
    totals = []
    for _ in range(400):
        policy.reset()
        state, total, weight = rng.choice(2, p=model.initial), 0.0, 1.0
        for _ in range(40):
            action = policy.action()
            shown = rng.choice(model.n_observations, p=model.observations[action, state])
            total += weight * model.symbol_rewards[shown]
            weight *= 0.75
            state = rng.choice(2, p=model.transitions[action, state])
            policy.observe(action, int(shown))
        totals.append(total)
    error = 3 * np.std(totals) / np.sqrt(len(totals))
    assert policy.lower - error <= np.mean(totals) <= policy.upper + error


@pytest.mark.compiled
def test_it_is_a_planner():
    lake = domains.frozen_lake(slippery=False, observe="column")
    policy = solve(Problem(lake, discount=0.95))
    played = run_episodes(lake, policy, episodes=5, steps=20, rng=0)
    assert played.rewards.tolist() == [1.0] * 5
    assert played.ended.all()
    assert policy.lower == pytest.approx(0.95**5, abs=1e-3)


@pytest.mark.compiled
def test_rewards_beside_observations_are_information():
    """Two states look alike, and only what they pay tells them apart."""
    model = POMDP(
        transitions=np.tile(np.eye(2), (3, 1, 1)),
        observations=np.ones((3, 2, 1)),
        initial=[0.5, 0.5],
        emission="arrival",
        reward_values=[-1.0, 0.0, 1.0],
        reward_probabilities=[
            [[0, 1, 0], [0, 1, 0]],
            [[0, 0, 1], [1, 0, 0]],
            [[1, 0, 0], [0, 0, 1]],
        ],
    )
    policy = solve(Problem(model, discount=0.9))
    assert policy.lower == pytest.approx(0.9 / 0.1, abs=2e-3)  # guess once, then know
    policy.observe(1, 0, -1.0)
    assert policy.belief.tolist() == [0.0, 1.0]
    assert policy.action() == 2


@pytest.mark.compiled
def test_actions_never_tried_are_left_out():
    model = POMDP(
        np.full((2, 2, 2), 0.5),
        np.full((2, 2, 2), 0.5),
        [0.5, 0.5],
        action_names=["known", "unknown"],
        untried_actions=("unknown",),
    )
    reward = Reward.on_observations({("unknown", 0): 1.0})
    assert solve(Problem(model, reward)).actions == ("known",)
    assert solve(Problem(model, reward)).upper == pytest.approx(0.0, abs=1e-9)
    assert solve(Problem(model, reward), untried="allow").lower == pytest.approx(10.0, abs=2e-3)


@pytest.mark.parametrize("size", [1e308, 1e-300])
@pytest.mark.compiled
def test_rewards_of_any_size(size):
    tiger = domains.tiger()
    pays = Reward.on_observations({("listen", "hear-left|-1"): size, ("open-left", "hear-left|10"): -size})
    policy = solve(Problem(tiger, pays, discount=0.5), gap=size * 1e-3)
    assert np.isfinite([policy.lower, policy.upper]).all()
    assert policy.lower > 0


@pytest.mark.compiled
def test_sums_beyond_the_largest_number_are_that():
    """Both bounds are at the ends of what a float holds, and their distance is beyond: nothing breaks on the way."""
    pays = Reward.on_observations({("listen", "hear-left|-1"): 1e308, ("open-left", "hear-left|10"): -1e308})
    policy = solve(Problem(domains.tiger(), pays, discount=0.9999), time_limit=0.3)
    assert np.isfinite([policy.lower, policy.upper]).all()
    assert policy.action() == 0


@pytest.mark.compiled
def test_small_improvements_count_where_it_takes_many():
    """With such a discount one backup does little about a gap of thousands."""
    solver = PointBasedSolver(Problem(domains.tiger(), discount=0.999))
    solver.run(gap=1e-3, max_backups=10_000)
    assert solver.lower > -990  # always listening is worth -1000


@pytest.mark.parametrize("discount", [0.0, 0.9999])
@pytest.mark.compiled
def test_discounts_at_the_edges(discount):
    policy = solve(Problem(domains.sense_float_reset(3), discount=discount), gap=0.5, time_limit=20)
    assert policy.lower <= policy.upper
    assert policy.gap <= max(0.5, 0.1 * policy.upper)


@pytest.mark.compiled
def test_the_smallest_problems():
    nothing = POMDP(np.ones((1, 1, 1)), np.ones((1, 1, 1)), [1.0], symbol_rewards=[2.0])
    policy = solve(Problem(nothing, discount=0.5))
    assert policy.lower == pytest.approx(4.0, abs=1e-3)
    assert policy.action() == 0
    assert policy.in_words() == ["always 0"]
    ends = POMDP(
        [[[0.0, 1.0], [0.0, 1.0]]], np.ones((1, 2, 1)), [1.0, 0.0], symbol_rewards=[2.0], terminal=[1]
    )
    assert solve(Problem(ends)).upper == pytest.approx(2.0, abs=1e-3)


@pytest.mark.compiled
def test_time_limits_are_kept():
    solve(Problem(domains.tiger(), discount=0.5))  # compiled by now
    begun = time.perf_counter()
    policy = solve(Problem(domains.tmaze(8), discount=0.99), gap=1e-9, time_limit=0.2)
    assert time.perf_counter() - begun < 2.0  # on a machine that is busy with other things
    assert policy.stopped == "time"
    assert policy.action() in range(4)
    assert solve(Problem(domains.tmaze(8), discount=0.99), gap=0.0, time_limit=0.0).lower <= 0.01


@pytest.mark.compiled
def test_ctrl_c_returns_what_there_is():
    calls = []

    def press(stage: str, done: float, total: float) -> None:
        calls.append(stage)
        if sum("value" in each for each in calls) >= 2:
            raise KeyboardInterrupt

    with listening(press):
        policy = solve(Problem(domains.tmaze(8), discount=0.99), gap=1e-9)
    assert policy.stopped == "interrupt"
    assert policy.lower <= policy.upper
    assert any("value" in stage and " to " in stage for stage in calls)


def test_what_cannot_be_solved_is_refused():
    tiger = domains.tiger()
    with pytest.raises(UsageError, match="horizon"):
        solve(Problem(tiger, discount=1.0))
    with pytest.raises(UsageError, match="take the POMDP"):
        solve(Problem(tiger.to_psr()))
    with pytest.raises(UsageError, match="Problem"):
        solve(tiger)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no action is legal"):
        solve(Problem(tiger), actions=[])
    with pytest.raises(UsageError, match="gap"):
        solve(Problem(tiger), gap=-1.0)
    with pytest.raises(UsageError, match="horizon"):
        solve(Problem(tiger), horizon=0)


@pytest.mark.compiled
def test_the_same_work_finds_the_same():
    first, second = (solve(Problem(domains.tmaze(), discount=0.9), gap=0.01) for _ in range(2))
    assert np.array_equal(first.vectors, second.vectors)
    assert (first.lower, first.upper) == (second.lower, second.upper)


# --- the policy --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiger() -> Policy:
    return solve(Problem(domains.tiger(), discount=0.95))


@pytest.mark.compiled
def test_the_impossible(tiger):
    model = domains.sense_float_reset(3)
    policy = solve(Problem(model, discount=0.9))
    with pytest.warns(unlatch.BeliefCollapseWarning, match="impossible"):
        policy.observe("sense", "0|0")  # from state 0 it shows 1
    assert policy.collapses == 1
    assert policy.belief.sum() == pytest.approx(1.0)
    strict = solve(Problem(model, discount=0.9), on_collapse="raise")
    with pytest.raises(BeliefCollapseError):
        strict.observe("sense", "0|0")


@pytest.mark.compiled
def test_beliefs_are_those_of_other_planners(tiger):
    other = ExactPlanner(domains.tiger(), horizon=3)
    tiger.reset()
    for step in (("listen", "hear-left", -1.0), ("listen", "hear-left|-1"), ("listen", "hear-right")):
        tiger.observe(*step)
        other.observe(*step)
        assert tiger.belief == pytest.approx(other.belief, abs=1e-12)
    saved = json.loads(json.dumps(tiger.state()))
    before = tiger.belief
    tiger.reset()
    tiger.restore(saved)
    assert np.array_equal(tiger.belief, before)
    with pytest.raises(DataError):
        tiger.restore({"belief": [1.0, 0.0], "collapses": 0, "steps": -1})
    tiger.reset()


@pytest.mark.compiled
def test_graph(tiger):
    graph = tiger.graph()
    assert graph.complete
    assert [node.action for node in graph.nodes].count("listen") == 3
    assert len(graph.nodes) == 5
    assert {edge.target for edge in graph.edges if graph.nodes[edge.source].action == "open-left"} == {0}
    for number in range(len(graph.nodes)):
        assert sum(edge.probability for edge in graph.edges if edge.source == number) == pytest.approx(1.0)
    assert json.loads(json.dumps(graph.to_dict()))["complete"] is True
    assert "hear-left|-1 -> 1" in str(graph)
    cut = tiger.graph(max_nodes=2)
    assert not cut.complete
    assert not all(node.expanded for node in cut.nodes)


@pytest.mark.compiled
def test_graph_of_episodes_that_end():
    graph = solve(Problem(domains.frozen_lake(slippery=False), discount=0.95)).graph()
    assert graph.starts == (("0", 0),)
    assert [edge.observation for edge in graph.edges if edge.target is None] == ["15|1"]


@pytest.mark.compiled
def test_words(tiger):
    first, second = tiger.in_words()
    assert first == (
        "listen until one state is .97 certain, then by that state - tiger-left: open-right; tiger-right: open-left"
    )
    assert second.startswith("by the probability of tiger-left: open-left from 0 to .0")
    boundary = float(second.split("listen from ")[1].split()[0])
    names = tiger.model.action_names
    assert names[tiger.action([boundary - 0.02, 1.02 - boundary])] == "open-left"
    assert names[tiger.action([boundary + 0.02, 0.98 - boundary])] == "listen"
    with pytest.warns(RepairWarning, match="renormalized"):  # not to one in more digits than it has
        assert names[tiger.action(np.float32([0.99, 0.01]))] == "open-right"


@pytest.mark.compiled
def test_alpha_vectors_and_arrays(tiger, tmp_path):
    plans = tiger.alpha_vectors
    assert plans.value([0.5, 0.5]) == pytest.approx(tiger.lower, abs=1e-6)
    unlatch.save_policy(tmp_path / "plan.alpha", plans)
    assert unlatch.load_policy(tmp_path / "plan.alpha") == plans
    again = Policy.from_arrays(tiger.problem, tiger.to_arrays())
    for belief in ([0.5, 0.5], [0.1, 0.9], [1.0, 0.0]):
        assert again.bounds(belief) == tiger.bounds(belief)
        assert again.action(belief) == tiger.action(belief)
    with pytest.raises(UsageError, match="horizon"):
        _ = solve(Problem(domains.tiger(), discount=1.0), horizon=2).alpha_vectors
    for field, value in (("vectors", [[1.0]]), ("actions", [9]), ("successors", [[-7]]), ("stages", [1.5])):
        with pytest.raises(DataError):
            Policy.from_arrays(tiger.problem, {**tiger.to_arrays(), field: value})


@pytest.mark.compiled
def test_upper_bounds_everywhere(tiger):
    """The sawtooth of the policy is that of a slow twin, and above the value at every belief."""
    bound = tiger.upper_bound
    for p in np.linspace(0, 1, 21):
        belief = np.array([p, 1 - p])
        assert bound.value(belief, 0) == pytest.approx(naive.sawtooth(bound, belief), abs=1e-9)
        assert bound.value(belief, 0) >= tiger.value(belief) - 1e-9


@pytest.mark.parametrize("ending", ["json", "npz"])
@pytest.mark.compiled
def test_files(tiger, tmp_path, ending):
    path = tmp_path / f"tiger.{ending}"
    unlatch.save_solution(path, tiger)
    again = unlatch.load_solution(path)
    assert (again.lower, again.upper, again.stopped) == (tiger.lower, tiger.upper, "gap")
    assert again.bounds([0.3, 0.7]) == tiger.bounds([0.3, 0.7])
    assert unlatch.load_problem(path) == tiger.problem
    unlatch.save_problem(path, tiger.problem)
    with pytest.raises(ModelFileError, match="no policy"):
        unlatch.load_solution(path)
