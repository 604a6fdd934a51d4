"""PO-UCT: what it finds, what it forgets, and that it always answers."""

from __future__ import annotations

import json
import time
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

import naive
from unlatch import POMDP, POUCT, PSR, ExactPlanner, Partition, PartitionModel, Reward, domains, linalg
from unlatch.core.progress import listening
from unlatch.errors import BeliefCollapseError, BeliefCollapseWarning, DataError, NumericalError, UsageError

TIGER = domains.tiger()
LINE = domains.sense_float_reset(3)
HALLWAY = domains.noisy_hallway()
MIDDLE = Reward.on_states({"middle": 1.0})


def as_cells(model, cells=None):
    partition = Partition.singletons(model.n_states) if cells is None else Partition.from_cells(cells)
    return PartitionModel(model.to_psr(), partition)


# --- what it finds ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("emission", ["departure", "arrival"])
@pytest.mark.parametrize("way", ["state", "belief", "cell", "psr"])
def test_every_way_of_sampling_finds_the_value_of_one_step(rng, emission, way):
    """At depth 1 the mean return of an action is its expected reward, which is known."""
    model = naive.random_pomdp(rng, emission=emission)
    reward = Reward.on_observations({(0, 1): 3.0, (1, 2): -2.0})
    sampled = {"cell": as_cells(model, [[0, 2], [1]]), "psr": model.to_psr()}.get(way, model)
    planner = POUCT(
        sampled,
        reward,
        depth=1,
        simulations=40_000,
        exploration=50.0,
        sampling=None if way in ("cell", "psr") else way,
        rng=1,
    )
    expected = (model.predict(model.initial) * reward.resolve(model).symbols).sum(axis=1)
    assert np.allclose(planner.search().values, expected, atol=0.06)


@pytest.mark.parametrize("way", ["state", "belief", "cell"])
def test_every_way_of_sampling_pays_for_states(way):
    model = as_cells(HALLWAY) if way == "cell" else HALLWAY
    planner = POUCT(
        model,
        Reward.on_states({1: 1.0}),
        depth=1,
        simulations=10_000,
        exploration=5.0,
        sampling=None if way == "cell" else way,
        rng=1,
    )
    assert np.allclose(planner.search([0.2, 0.7, 0.1]).values, 0.7, atol=0.03)


@pytest.mark.parametrize("bonus", ["polynomial", "ucb1"])
@pytest.mark.parametrize("sampling", ["state", "belief"])
def test_many_simulations_come_near_the_optimum_of_the_window(bonus, sampling):
    """With exploration to spare the root's value tends to the exact one, from below."""
    exact = ExactPlanner(LINE, horizon=3)
    planner = POUCT(
        LINE, simulations=60_000, exploration=0.6, patience=1.0, bonus=bonus, sampling=sampling, rng=1
    )
    belief = [0.5, 0.5, 0.0]
    found = planner.search(belief)
    assert found.action == exact.action(belief, 3)
    assert found.values.max() == pytest.approx(exact.value(belief, 3), abs=0.1)


def test_a_wrong_model_finds_another_value():
    """The agreement above is not for free."""
    wrong = domains.sense_float_reset(3)
    wrong = POMDP(wrong.transitions, wrong.observations, wrong.initial, symbol_rewards=[0.0, 0.5, 0.0])
    planner = POUCT(wrong, simulations=20_000, exploration=0.6, patience=1.0, rng=1)
    assert (
        planner.search([0.5, 0.5, 0.0]).values.max()
        < ExactPlanner(LINE, horizon=3).value([0.5, 0.5, 0.0], 3) - 0.4
    )


def test_cells_are_sampled_with_signed_coordinates():
    """Inside a cell the coordinates are arbitrary; the paper's Theorem 1 makes its sums probabilities."""
    model = domains.sense_float_reset(4)
    basis = np.eye(4)
    basis[2:, 2:] = [[1.6, -0.6], [-0.7, 1.7]]  # rows sum to one, so that the final vector stays one
    signed = PartitionModel(
        model.to_psr().transformed(linalg.inverse(basis)), Partition.from_cells([[0], [1], [2, 3]])
    )
    assert signed.psr.updates.min() < -0.05
    options = {"depth": 3, "simulations": 30_000, "exploration": 1.0, "patience": 1.0, "rng": 3}
    plain = POUCT(model, **options).search([0.1, 0.2, 0.3, 0.4])
    for sampling in ("state", "belief"):
        belief = np.array([0.1, 0.2, 0.3, 0.4]) @ linalg.inverse(basis)
        found = POUCT(signed, sampling=sampling, **options).search(belief)
        assert np.allclose(found.values, plain.values, atol=0.08)


def test_automatic_exploration_survives_the_tiger():
    planner = POUCT(TIGER, rng=0)
    assert planner.action() == 0
    assert planner.action([0.999, 0.001]) == 2
    assert planner.action([0.001, 0.999]) == 1


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e12, 1e300])
def test_the_scale_of_the_reward_does_not_matter(scale):
    ours = POUCT(HALLWAY, MIDDLE, simulations=200, rng=5).search()
    other = POUCT(HALLWAY, Reward.on_states({1: scale}), simulations=200, rng=5).search()
    assert np.array_equal(ours.visits, other.visits)
    assert np.allclose(other.values / scale, ours.values)


@pytest.mark.parametrize("exploration", ["auto", 2.0])
def test_the_largest_rewards_do_not_overflow(exploration):
    reward = Reward.on_states({0: -1.7e308, 1: 1.7e308})
    found = POUCT(HALLWAY, reward, simulations=200, exploration=exploration, patience=1.0, rng=5).search()
    assert np.isfinite(found.values).all()


def test_constant_rewards_leave_the_choice_open():
    actions = {
        POUCT(HALLWAY, Reward.on_states({(0, 1, 2): 7.0}), simulations=40, rng=seed).action()
        for seed in range(20)
    }
    assert actions == {0, 1, 2, 3}


# --- what it forgets ----------------------------------------------------------------------------------------


def test_the_subtree_of_what_happened_is_kept():
    planner = POUCT(TIGER, simulations=500, rng=0)
    planner.search()
    planner.observe("listen", "hear-left|-1")
    assert planner.belief.tolist() == pytest.approx([0.85, 0.15])
    kept = planner.search()
    assert kept.visits.sum() > 500
    planner.reset()
    assert planner.search().visits.sum() == 500


def test_the_kept_subtree_can_be_declined():
    planner = POUCT(TIGER, simulations=500, reuse=False, rng=0)
    planner.search()
    planner.observe("listen", "hear-left|-1")
    assert planner.search().visits.sum() == 500
    paper = POUCT(TIGER, simulations=500, exploration=2.0, rng=0)
    paper.search()
    paper.observe("listen", "hear-left|-1")
    assert paper.search().visits.sum() == 500


def test_a_history_never_simulated_is_no_trouble():
    planner = POUCT(TIGER, simulations=1, rng=0)
    planner.search()
    for _ in range(3):
        planner.observe("listen", "hear-right|-1")
        assert planner.action() in (0, 1, 2)


def test_a_foreign_belief_leaves_the_planner_as_it_was():
    planner = POUCT(TIGER, simulations=50, rng=0)
    planner.search()
    tree = planner.state()["tree"]
    planner.search([0.3, 0.7])
    assert planner.state()["tree"] == tree
    assert planner.belief.tolist() == [0.5, 0.5]


def test_memory_stays_flat_over_many_steps():
    planner = POUCT(TIGER, simulations=20, depth=50, max_nodes=300, rng=0)
    tracemalloc.start()
    try:
        for step in range(3000):
            found = planner.search()
            assert found.nodes <= 300
            planner.observe("listen", "hear-left|-1" if step % 2 else "hear-right|-1")
            if step == 300:
                before, _ = tracemalloc.get_traced_memory()
        assert tracemalloc.get_traced_memory()[0] < before + 50_000
    finally:
        tracemalloc.stop()


# --- that it always answers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("simulations", [0, 1, 2])
def test_few_simulations_still_answer(simulations):
    found = POUCT(TIGER, simulations=simulations, rng=0).search()
    assert found.simulations == simulations
    assert found.visits.sum() == simulations
    assert found.action in (0, 1, 2)
    assert np.isfinite(found.values).all()


def test_without_simulations_the_next_reward_decides():
    assert POUCT(TIGER, simulations=0, rng=0).search().values.tolist() == pytest.approx([-1, -45, -45])
    assert POUCT(TIGER, simulations=0, rng=0).action() == 0


@pytest.mark.parametrize("limit", [0, 0.001, 0.05])
def test_the_time_limit_is_kept(limit):
    planner = POUCT(TIGER, simulations=10**9, time_limit=limit, depth=10, max_nodes=10_000, rng=0)
    begun = time.perf_counter()
    found = planner.search()
    assert time.perf_counter() - begun < limit + 0.5  # 50 ms and a loaded machine
    assert found.simulations < 10**9
    assert (found.simulations > 0) == (limit > 0)


def test_a_long_time_limit_ends_with_the_simulations():
    assert POUCT(TIGER, simulations=300, time_limit=3600, rng=0).search().simulations == 300


@pytest.mark.parametrize(
    ("discount", "depth", "steps"), [(0.0, 10**6, 1), (0.5, 10**6, 20), (0.9999, 10**6, 138_149), (1.0, 7, 7)]
)
def test_the_window_ends_where_rewards_weigh_nothing(discount, depth, steps):
    planner = POUCT(TIGER, simulations=2, depth=depth, discount=discount, patience=1.0, rng=0)
    assert planner.settings.depth == steps
    assert np.isfinite(planner.search().values).all()


@pytest.mark.parametrize("way", ["state", "belief", "cell"])
def test_a_window_cut_into_stretches_gives_the_same_tree(way):
    """Beyond a depth the search is driven from Python, so that Ctrl-C is answered within a simulation."""
    model = as_cells(HALLWAY) if way == "cell" else HALLWAY
    options = {"depth": 50, "simulations": 30, "sampling": None if way == "cell" else way, "rng": 5}
    whole, cut = (POUCT(model, Reward.on_states({1: 1.0}), **options) for _ in range(2))
    cut.settings = cut.settings._replace(stretch=7)
    one, other = whole.search(), cut.search()
    assert whole.state() == cut.state()
    assert np.array_equal(one.values, other.values)


def test_no_kernel_call_takes_long_whatever_the_depth():
    for model in (TIGER, domains.tmaze(30)):
        for sampling in ("state", "belief"):
            settings = POUCT(model, depth=10**8, sampling=sampling, rng=0).settings
            assert settings.depth == 10**8
            assert settings.stretch <= 1 << 20
    assert (
        POUCT(domains.tmaze(30), sampling="belief", rng=0).settings.stretch
        < POUCT(domains.tmaze(1), sampling="belief", rng=0).settings.stretch
    )


def test_a_deep_window_needs_no_recursion():
    one = POMDP([[[1.0]]], [[[1.0]]], [1.0])
    planner = POUCT(one, Reward.on_states({0: 1.0}), depth=10**6, simulations=3, exploration=1.0, rng=0)
    assert planner.search().values[0] == pytest.approx(1e6)


def test_one_action_one_observation_one_state():
    one = POMDP([[[1.0]]], [[[1.0]]], [1.0], symbol_rewards=[0.0])
    planner = POUCT(one, simulations=10, rng=0)
    assert planner.action() == 0
    planner.observe(0, 0)
    assert planner.action() == 0


def test_the_node_cap_holds():
    found = POUCT(domains.tmaze(), simulations=5000, depth=8, max_nodes=50, rng=0).search()
    assert (found.nodes, found.full) == (50, True)
    assert POUCT(TIGER, simulations=50, max_nodes=1, rng=0).search().nodes == 1
    assert not POUCT(TIGER, simulations=5, rng=0).search().full


def test_only_legal_actions_are_taken():
    planner = POUCT(TIGER, actions=["open-left", 2], simulations=100, rng=0)
    found = planner.search()
    assert found.action in (1, 2)
    assert found.values[0] == -np.inf
    assert found.visits[0] == 0
    planner.observe("listen", "hear-left|-1")  # somebody else may act, too
    assert planner.action() in (1, 2)


def test_the_same_seed_gives_the_same_search():
    one, two, three = (POUCT(domains.tmaze(), rng=seed) for seed in (7, 7, 8))
    for _ in range(2):
        a, b, c = (planner.search() for planner in (one, two, three))
        assert np.array_equal(a.values, b.values)
        assert not np.array_equal(a.values, c.values)
        for planner in (one, two, three):
            planner.observe("left", "rm_1|0")
    assert one.seed == 7
    assert POUCT(TIGER, rng=np.random.default_rng(3)).seed is None


def test_ties_are_broken_by_lot():
    model = POMDP(np.ones((4, 1, 1)), np.ones((4, 1, 1)), [1.0], symbol_rewards=[1.0])
    assert {POUCT(model, simulations=8, rng=seed).action() for seed in range(40)} == {0, 1, 2, 3}
    assert {POUCT(model, simulations=0, rng=seed).action() for seed in range(40)} == {0, 1, 2, 3}


# --- actions that the log never tried -------------------------------------------------------------------------

INVENTED = POMDP(
    np.full((2, 1, 1), 1.0),
    [[[0.9, 0.1]], [[0.0, 1.0]]],
    [1.0],
    action_names=("tried", "never"),
    symbol_rewards=[0.0, 1.0],
    untried_actions=("never",),
)
"""A log that never tried one of its actions: the certain, rewarded row of that action is an invention."""


@pytest.mark.parametrize("make", [lambda *a, **k: POUCT(*a, simulations=50, rng=0, **k), ExactPlanner])
def test_planners_leave_out_what_was_never_tried_unless_told_otherwise(make):
    cautious, bold = make(INVENTED), make(INVENTED, untried="allow")
    assert (cautious.actions, bold.actions) == (("tried",), ("tried", "never"))
    assert (cautious.action(), bold.action()) == (0, 1)
    with pytest.raises(UsageError, match="tried none of the legal actions"):
        make(INVENTED, actions=["never"])
    with pytest.raises(UsageError, match="untried='allow'"):
        make(replace(INVENTED, untried_actions=("tried", "never")))


# --- impossible observations --------------------------------------------------------------------------------


def test_an_impossible_observation_is_an_error_if_told_so():
    planner = POUCT(LINE, simulations=20, on_collapse="raise", rng=0)
    with pytest.raises(BeliefCollapseError, match=r"'0\|0' after action 'sense' is impossible") as caught:
        planner.observe("sense", "0|0")
    assert caught.value.belief.tolist() == [1, 0, 0]
    assert (caught.value.action, caught.value.observation) == ("sense", "0|0")
    assert caught.value.step is None
    assert planner.collapses == 1
    assert planner.belief.tolist() == [1, 0, 0]
    assert planner.action() in (0, 1, 2)


def test_an_unknown_observation_is_an_impossible_one():
    with pytest.raises(BeliefCollapseError, match="'moo' after action 'sense' is unknown"):
        POUCT(LINE, simulations=20, on_collapse="raise", rng=0).observe("sense", "moo")


def test_after_a_reset_the_belief_is_the_initial_one():
    planner = POUCT(LINE, simulations=20, on_collapse="reset", rng=0)
    planner.observe("float", "0|0")
    with pytest.warns(BeliefCollapseWarning, match="'moo' after action 'sense' is unknown"):
        planner.observe("sense", "moo")
    assert planner.belief.tolist() == [1, 0, 0]
    assert planner.collapses == 1


def test_by_default_the_belief_goes_on_from_what_the_step_alone_tells():
    planner = POUCT(LINE, simulations=20, rng=0)
    with pytest.warns(BeliefCollapseWarning, match="counted in the planner's collapses") as warned:
        planner.observe("sense", "0|1")  # only state 1 shows that
    assert warned[0].filename == __file__
    assert planner.belief.tolist() == [0, 1, 0]
    planner.observe("sense", "moo")  # tells nothing at all, and is not warned of again
    assert np.allclose(planner.belief, 1 / 3)
    assert planner.collapses == 2


def test_a_psr_that_cancels_is_not_divided_by():
    psr = PSR([0.5, 0.5], [[[[1.0, 0.0], [0.0, -1.0]], [[0.0, 0.0], [0.0, 2.0]]]], [1.0, 1.0])
    with pytest.raises(BeliefCollapseError):
        POUCT(psr, Reward.on_observations({(0, 0): 1.0}), simulations=50, on_collapse="raise", rng=0).observe(
            0, 0
        )


@pytest.mark.filterwarnings("ignore::unlatch.BeliefCollapseWarning")
@pytest.mark.parametrize("noise", [1e-3, 1e-1, 1.0])
def test_a_psr_full_of_noise_never_breaks_the_search(rng, noise):
    psr = TIGER.to_psr()
    shaken = PSR(
        psr.initial + noise * rng.normal(size=2),
        psr.updates + noise * rng.normal(size=psr.updates.shape),
        psr.final + noise * rng.normal(size=2),
        symbol_rewards=psr.symbol_rewards,
    )
    try:
        planner = POUCT(shaken, simulations=200, depth=20, on_collapse="mix", rng=0)
    except NumericalError:
        return
    for _ in range(30):
        found = planner.search()
        assert np.isfinite(found.values).all()
        planner.observe(found.action, int(rng.integers(6)))
        assert np.isfinite(planner.belief).all()


def test_a_psr_without_mass_is_refused():
    with pytest.raises(NumericalError, match="empty sequence"):
        POUCT(PSR([0.0], [[[[1.0]]]], [1.0]), Reward.on_observations({(0, 0): 1.0}))


# --- saving, options ----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::unlatch.BeliefCollapseWarning")
def test_it_can_be_put_away_and_taken_up_again():
    planner = POUCT(TIGER, simulations=200, on_collapse="reset", rng=0)
    planner.search()
    planner.observe("listen", "hear-left|-1")
    state = json.loads(json.dumps(planner.state()))
    other = POUCT(TIGER, simulations=200, on_collapse="reset", rng=99)
    other.restore(state)
    for observation in ("hear-left|-1", "hear-right|-1", "moo"):
        one, two = planner.search(), other.search()
        assert np.array_equal(one.values, two.values)
        assert (one.action, one.nodes, one.depth) == (two.action, two.nodes, two.depth)
        planner.observe("listen", observation)
        other.observe("listen", observation)
    assert other.collapses == planner.collapses == 1


@pytest.mark.parametrize(
    "change",
    [
        {"random": [1]},
        {"random": [0, 0]},
        {"random": [1, 2**64]},
        {"random": [1.0, 2.0]},
        {"belief": [1.0]},
        {"belief": [np.nan, 1.0]},
        {"collapses": -1},
        {"tree": None},
        {"tree": {"parent": [-1]}},
    ],
)
def test_a_damaged_state_is_refused(change):
    planner = POUCT(TIGER, simulations=20, rng=0)
    with pytest.raises(DataError):
        planner.restore({**planner.state(), **change})


@pytest.mark.parametrize("field", ["parent", "action", "symbol", "visits", "values"])
@pytest.mark.parametrize("value", [-7, 2**31, "x"])
def test_a_damaged_tree_is_refused(field, value):
    planner = POUCT(TIGER, simulations=20, rng=0)
    planner.search()
    state = planner.state()
    row = state["tree"][field][-1]
    state["tree"][field][-1] = [value] * 3 if isinstance(row, list) else value
    if field == "values" and value != "x":
        planner.restore(state)  # any number may be a mean return
    else:
        with pytest.raises(DataError):
            planner.restore(state)


def test_a_state_is_a_mapping():
    with pytest.raises(DataError, match="a mapping"):
        POUCT(TIGER, simulations=20, rng=0).restore([])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"simulations": -1}, "simulations"),
        ({"simulations": 10.0}, "simulations"),
        ({"depth": 0}, "depth"),
        ({"exploration": -1.0}, "exploration"),
        ({"exploration": "much"}, "exploration"),
        ({"exploration": np.inf}, "exploration"),
        ({"bonus": "puct"}, "'polynomial' or 'ucb1'"),
        ({"sampling": "cell"}, "'state' or 'belief'"),
        ({"discount": 1.1}, "discount"),
        ({"patience": -0.1}, "patience"),
        ({"max_nodes": 0}, "max_nodes"),
        ({"max_nodes": 2**31}, "max_nodes"),
        ({"depth": 10**30}, "depth"),
        ({"simulations": 10**30}, "simulations"),
        ({"untried": "maybe"}, "'exclude' or 'allow'"),
        ({"time_limit": -1}, "time_limit"),
        ({"time_limit": np.nan}, "time_limit"),
        ({"on_collapse": "ignore"}, "on_collapse"),
        ({"actions": []}, "no action is legal"),
        ({"rng": "seed"}, "rng"),
    ],
)
def test_options_that_make_no_sense(options, complaint):
    with pytest.raises(UsageError, match=complaint):
        POUCT(TIGER, **options)


def test_a_psr_has_no_states_to_draw():
    assert POUCT(TIGER.to_psr(), simulations=50, rng=0).action() == 0
    with pytest.raises(UsageError, match="no states to draw"):
        POUCT(TIGER.to_psr(), sampling="state")


def test_long_searches_report_progress():
    heard = []
    planner = POUCT(TIGER, simulations=600, depth=4000, max_nodes=10, rng=0)
    with listening(lambda *event: heard.append(event)):
        planner.search()
    assert heard
    assert all(stage == "searching" and done < total == 600 for stage, done, total in heard)


# --- endings ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampling", ["state", "belief"])
def test_the_goal_pays_once(sampling):
    model = naive.corridor(slip=0.2)
    options = {"depth": 12, "simulations": 20_000, "patience": 1.0, "sampling": sampling, "rng": 0}
    found = POUCT(model, exploration=0.4, **options).search()
    exact = ExactPlanner(model, horizon=12)
    assert found.action == exact.action() == 1
    assert found.values.max() == pytest.approx(exact.value(), abs=0.03)
    unaware = POUCT(replace(model, terminal=()), exploration=4.0, **options).search()
    assert unaware.values.max() > 2  # the reward of the goal again and again


def test_rewards_beside_observations_are_pursued():
    """The model's rewards are what a planner pursues by default, and they tell the states apart."""
    model = POMDP(
        transitions=np.tile(np.eye(2), (2, 1, 1)),
        observations=np.ones((2, 2, 1)),
        initial=[0.5, 0.5],
        action_names=("pull", "wait"),
        observation_names=("nothing",),
        reward_values=[-1.0, 0.0, 1.0],
        reward_probabilities=[[[0, 0, 1], [1, 0, 0]], [[0, 1, 0], [0, 1, 0]]],
    )
    planner = POUCT(model, depth=5, simulations=20_000, patience=1.0, exploration=2.0, reuse=True, rng=0)
    found = planner.search()
    assert found.action == 0
    assert found.values[0] == pytest.approx(2.0, abs=0.2)
    planner.observe("pull", "nothing", -1)
    assert planner.belief.tolist() == [0, 1]
    assert len(planner.state()["tree"]["parent"]) > 1  # what was paid belongs to the branch that is kept
    assert planner.action() == 1


def lasting(**options):
    """Two states that never change; one step in A ends the episode with probability .9, one in B with .1."""
    fields = {
        "transitions": [[[0.1, 0.0, 0.9], [0.0, 0.9, 0.1], [0.0, 0.0, 1.0]]],
        "observations": np.ones((1, 3, 1)),
        "initial": [0.5, 0.5, 0.0],
        "state_names": ("A", "B", "over"),
        "terminal": "over",
    }
    return POMDP(**{**fields, **options})


PAYS = Reward.on_states({"A": 1.0})


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_a_step_that_is_told_of_is_one_that_the_episode_went_on_after(emission):
    planner = POUCT(lasting(emission=emission), PAYS, simulations=50, rng=0)
    planner.observe(0, 0)
    assert planner.belief == pytest.approx([0.1, 0.9, 0.0])
    planner.observe(0, 0)
    assert planner.belief == pytest.approx([1 / 82, 81 / 82, 0.0])


def test_where_a_step_ends_it_for_sure_the_belief_is_that_it_is_over():
    model = lasting(transitions=[[[0, 0, 1], [0, 0, 1], [0, 0, 1]]])
    planner = POUCT(model, PAYS, simulations=20, rng=0)
    planner.observe(0, 0)
    assert planner.belief.tolist() == [0, 0, 1]
    assert planner.collapses == 0
    assert planner.search().values.tolist() == [0.0]
    with pytest.warns(BeliefCollapseWarning, match="impossible"):
        planner.observe(0, 0)


def test_who_knows_nothing_knows_that_it_goes_on():
    planner = POUCT(lasting(), PAYS, simulations=20, rng=0)
    with pytest.warns(BeliefCollapseWarning, match="unknown"):
        planner.observe(0, "moo")
    assert planner.belief.tolist() == [0.5, 0.5, 0.0]


def test_a_tree_with_endings_can_be_put_away():
    planner = POUCT(naive.corridor(slip=0.3), simulations=300, depth=6, rng=0)
    planner.search()
    other = POUCT(naive.corridor(slip=0.3), simulations=300, depth=6, rng=1)
    other.restore(json.loads(json.dumps(planner.state())))
    for each in (planner, other):
        each.observe("right", "near-goal", 0)
    assert np.array_equal(other.search().values, planner.search().values)


# --- the first observation ----------------------------------------------------------------------------------

MAKERS = [lambda *a, **k: POUCT(*a, simulations=20, rng=0, **k), ExactPlanner]


def foggy(**options):
    return replace(
        TIGER,
        first_observations=[[0.8, 0.2, 0.0], [0.4, 0.5, 0.1]],
        first_observation_names=("dark", "bright", "never"),
        **options,
    )


@pytest.mark.parametrize("make", MAKERS)
def test_the_first_observation_conditions_the_initial_belief(make):
    planner = make(foggy())
    for observation in ("dark", 0, np.int64(0)):
        planner.reset(observation)
        assert planner.belief == pytest.approx([2 / 3, 1 / 3])
    planner.reset()
    assert planner.belief.tolist() == [0.5, 0.5]
    with pytest.raises(UsageError, match="unknown first observation 3"):
        planner.reset(3)
    assert planner.collapses == 0


@pytest.mark.parametrize("make", MAKERS)
def test_a_first_observation_that_cannot_be(make):
    model = foggy(initial=[1.0, 0.0])
    planner = make(model, on_collapse="raise")
    with pytest.raises(BeliefCollapseError, match="first observation 'never' is impossible") as caught:
        planner.reset("never")
    assert (caught.value.action, caught.value.observation) == (None, "never")
    with pytest.raises(BeliefCollapseError, match="first observation 'moo' is unknown"):
        planner.reset("moo")
    planner = make(model)
    with pytest.warns(BeliefCollapseWarning) as warned:
        planner.reset("never")
    assert warned[0].filename == __file__
    assert planner.belief.tolist() == [0, 1]  # what it alone tells
    planner.reset("moo")
    assert planner.belief.tolist() == [1, 0]
    assert planner.collapses == 2


@pytest.mark.parametrize("make", MAKERS)
def test_a_model_that_shows_where_it_arrives_shows_where_it_starts(make):
    model = naive.corridor(initial=[0.25, 0.75, 0, 0])
    planner = make(model)
    planner.reset("near-goal")
    assert planner.belief.tolist() == [0, 1, 0, 0]
    depends = np.array(model.observations)
    depends[0] = depends[0][:, [1, 0, 2, 3]]
    for other in (replace(model, observations=depends), replace(model, emission="departure"), TIGER.to_psr()):
        with pytest.raises(UsageError, match="does not know what is shown before the first action"):
            make(other).reset("near-goal")
    untried = replace(model, observations=depends, untried_actions=("left",))
    make(untried).reset("near-goal")  # rows that are placeholders do not count


# --- observations and rewards by name -----------------------------------------------------------------------


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    "told", [("hear-left|-1",), ("hear-left", -1), ("hear-left", -1.0), ("hear-left|-1", -1), ("hear-left",)]
)
def test_an_observation_may_be_told_apart_from_its_reward(make, told):
    planner = make(TIGER)
    planner.observe("listen", *told)
    assert planner.belief == pytest.approx([0.85, 0.15])


def test_an_observation_without_its_reward_stands_for_all_symbols_that_show_it():
    model = POMDP(
        np.eye(2)[None],
        [[[0.5, 0.3, 0.2], [0.1, 0.3, 0.6]]],
        [0.5, 0.5],
        observation_names=("a|0", "a|1", "b|0"),
        symbol_rewards=[0.0, 1.0, 0.0],
    )
    planner = POUCT(model, simulations=50, rng=0)
    planner.search()
    planner.observe(0, "a")
    assert planner.belief == pytest.approx([2 / 3, 1 / 3])
    assert planner.state()["tree"]["parent"] == [-1]  # no single branch is what happened
    planner.search()
    planner.observe(0, "a", 1)
    assert planner.belief == pytest.approx([2 / 3, 1 / 3])
    assert len(planner.state()["tree"]["parent"]) > 1
    with pytest.warns(BeliefCollapseWarning, match="'b' with reward 1 after action '0' is impossible"):
        planner.observe(0, "b", 1)


def test_a_reward_that_is_no_number_is_refused():
    planner = POUCT(TIGER, simulations=20, rng=0)
    for reward in ("-1", np.nan, np.inf, True, [1]):
        with pytest.raises(UsageError, match="reward"):
            planner.observe("listen", "hear-left", reward)
    with pytest.raises(UsageError, match="unknown observation"):
        planner.observe("listen", ["hear-left"])


def test_a_model_without_rewards_takes_no_notice_of_one():
    planner = POUCT(HALLWAY, MIDDLE, simulations=20, rng=0)
    planner.observe("stay", "end-left", 17)
    assert planner.collapses == 0
