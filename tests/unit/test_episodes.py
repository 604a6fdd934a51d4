"""Acting in the truth with a planner that knows only its own model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import naive
from unlatch import POMDP, POUCT, ExactPlanner, Reward, domains, run_episodes, simulate
from unlatch.core.progress import listening
from unlatch.errors import BeliefCollapseError, ResourceLimitError, UsageError

TIGER = domains.tiger()
HALLWAY = domains.noisy_hallway()
MIDDLE = Reward.on_states({"middle": 1.0})


class Stubborn:
    """A planner from elsewhere: it has nothing but the protocol."""

    def __init__(self, action, collapse_on=None):
        self.next, self.collapse_on, self.log = action, collapse_on, []

    def reset(self):
        self.log.append("reset")

    def action(self):
        return self.next

    def observe(self, action, observation):
        self.log.append((action, observation))
        if observation == self.collapse_on:
            raise BeliefCollapseError("never seen")


class ByCalls:
    """A planner behind nothing but the protocol, so that its episodes cannot run in the kernel."""

    def __init__(self, planner):
        self.planner, self.model = planner, planner.model
        self.reset, self.action, self.observe = planner.reset, planner.action, planner.observe

    @property
    def collapses(self):
        return self.planner.collapses


def renamed(model, **changes):
    fields = {
        "transitions": model.transitions,
        "observations": model.observations,
        "initial": model.initial,
        "action_names": model.action_names,
        "observation_names": model.observation_names,
        "symbol_rewards": model.symbol_rewards,
    }
    return POMDP(**{**fields, **changes})


# --- keeping score ------------------------------------------------------------------------------------------


def test_a_planner_needs_only_the_protocol():
    planner = Stubborn("listen")
    played = run_episodes(TIGER, planner, episodes=3, steps=4, rng=0)
    assert played.rewards.tolist() == [-4, -4, -4]
    assert played.occupancy.sum(axis=1).tolist() == [4, 4, 4]
    assert planner.log.count("reset") == 4  # before every episode, and once all is over
    assert {action for action, _ in (step for step in planner.log if step != "reset")} == {"listen"}
    assert played.mean == -4
    assert played.standard_error == 0
    assert played.collapses.sum() == 0


def test_states_pay_when_they_are_left():
    stay = run_episodes(HALLWAY, Stubborn("stay"), episodes=2000, steps=3, reward=MIDDLE, rng=0)
    assert np.array_equal(stay.rewards, stay.occupancy[:, 1])
    assert set(stay.rewards.tolist()) == {0.0, 3.0}
    assert stay.share_of_time[1] == pytest.approx(1 / 3, abs=0.04)
    assert stay.mean == pytest.approx(1.0, abs=0.12)


def test_rewards_come_with_the_true_observation():
    reward = Reward.on_observations({("stay", "end-left"): 2.0})
    played = run_episodes(HALLWAY, Stubborn("stay"), episodes=2000, steps=1, reward=reward, rng=0)
    assert played.mean == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_the_truth_emits_by_its_own_convention(emission):
    flip = POMDP([[[0.0, 1.0], [1.0, 0.0]]], [[[1.0, 0.0], [0.0, 1.0]]], [1.0, 0.0], emission=emission)
    planner = Stubborn(0)
    run_episodes(flip, planner, episodes=1, steps=3, reward=Reward.on_states({0: 1.0}), rng=0)
    seen = [step[1] for step in planner.log if step != "reset"]
    assert seen == (["0", "1", "0"] if emission == "departure" else ["1", "0", "1"])


def test_rows_are_plain():
    played = run_episodes(HALLWAY, Stubborn(0), episodes=2, steps=5, reward=MIDDLE, rng=1)
    rows = list(played)
    assert [row["episode"] for row in rows] == [0, 1]
    assert sum(rows[0]["occupancy"].values()) == 5
    assert set(rows[0]["occupancy"]) == {"left", "middle", "right"}
    assert len(played) == 2
    assert repr(played).startswith("Episodes(2 episodes, mean")
    assert played.seed == 1


def test_statistics_of_a_single_episode():
    played = run_episodes(TIGER, Stubborn(0), episodes=1, steps=1, rng=0)
    assert played.standard_deviation == played.standard_error == 0


def test_huge_rewards_stay_finite():
    reward = Reward.on_states({(0, 1, 2): 1e308})
    played = run_episodes(HALLWAY, Stubborn(0), episodes=2, steps=10, reward=reward, rng=0)
    assert np.isfinite(played.rewards).all()
    assert played.mean == played.rewards[0] == np.finfo(np.float64).max
    assert played.standard_error == 0


def test_statistics_do_not_depend_on_the_size_of_rewards():
    """Squares of the largest numbers are infinite, and those of the smallest nothing."""
    by_size = []
    for size in (1.0, 2.0**1000, 2.0**-1000):
        pays = Reward.on_observations({("listen", "hear-left|-1"): size})
        played = run_episodes(TIGER, Stubborn(0), episodes=20, steps=3, reward=pays, rng=0)
        by_size.append((played.mean / size, played.standard_error / size))
    assert by_size[0] == by_size[1] == by_size[2]
    assert by_size[0][1] > 0


# --- the same by kernel and by calls ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"exploration": 2.0},
        {"sampling": "belief"},
        {"depth": 6, "max_nodes": 20},
        {"actions": ["listen", "open-left"]},
        {"bonus": "ucb1", "discount": 0.9},
    ],
)
def test_episodes_in_the_kernel_equal_episodes_by_calls(options):
    runs = []
    for wrapped in (lambda planner: planner, ByCalls):
        planner = POUCT(TIGER, simulations=40, rng=3, **options)
        runs.append(run_episodes(TIGER, wrapped(planner), episodes=12, steps=8, rng=4))
        assert planner.state()["tree"]["parent"] == [-1]
    assert np.array_equal(runs[0].rewards, runs[1].rewards)
    assert np.array_equal(runs[0].occupancy, runs[1].occupancy)


@pytest.mark.parametrize("on_collapse", ["raise", "reset", "mix"])
def test_collapses_count_the_same_in_the_kernel_and_by_calls(on_collapse):
    """The planner believes in a line of three states, the truth has four."""
    truth, model = domains.sense_float_reset(4), domains.sense_float_reset(3)
    never = np.array(model.transitions)
    never[0] = np.eye(3)  # as if floating moved nothing
    wrong = renamed(model, transitions=never)
    runs = []
    for wrapped in (lambda planner: planner, ByCalls):
        planner = POUCT(wrong, simulations=10, on_collapse=on_collapse, actions=["float", "sense"], rng=3)
        runs.append(run_episodes(truth, wrapped(planner), episodes=20, steps=8, rng=4))
        assert planner.collapses == runs[-1].collapses.sum() > 0
    assert np.array_equal(runs[0].rewards, runs[1].rewards)
    assert np.array_equal(runs[0].collapses, runs[1].collapses)


@pytest.mark.parametrize(
    ("options", "on_collapse", "in_kernel"),
    [
        ({}, "reset", True),
        ({"on_collapse": "raise"}, "raise", False),
        ({"on_collapse": "raise"}, "reset", True),
        ({}, "raise", True),
        ({"simulations": 2, "depth": 10**6}, "reset", False),
        ({"simulations": 0, "depth": 10**6}, "reset", False),
        ({"time_limit": 1, "simulations": 2}, "reset", False),
    ],
)
def test_short_searches_run_in_the_kernel_and_long_ones_by_calls(
    options, on_collapse, in_kernel, monkeypatch
):
    played = []
    original = POUCT.play
    monkeypatch.setattr(
        POUCT, "play", lambda *arguments: played.append(True) or original(*arguments), raising=True
    )
    planner = POUCT(TIGER, **{"simulations": 20, "rng": 0, **options})
    run_episodes(TIGER, planner, episodes=1, steps=2, rng=0, on_collapse=on_collapse)
    assert bool(played) == in_kernel


def test_the_chances_of_an_episode_do_not_depend_on_how_they_are_drawn():
    """Longer than what is drawn at once, by calls and in the kernel."""
    runs = [
        run_episodes(
            TIGER, wrapped(POUCT(TIGER, simulations=1, depth=1, rng=3)), episodes=2, steps=5000, rng=4
        )
        for wrapped in (lambda planner: planner, ByCalls)
    ]
    assert np.array_equal(runs[0].rewards, runs[1].rewards)
    assert np.array_equal(runs[0].occupancy, runs[1].occupancy)


# --- another alphabet ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda model: POUCT(model, simulations=300, rng=0), ExactPlanner])
def test_the_planner_s_model_may_number_its_symbols_otherwise(make):
    actions, symbols = [2, 0, 1], np.arange(TIGER.n_observations)[::-1]
    model = renamed(
        TIGER,
        transitions=TIGER.transitions[actions],
        observations=TIGER.observations[actions][:, :, symbols],
        action_names=tuple(TIGER.action_names[a] for a in actions),
        observation_names=tuple(TIGER.observation_names[o] for o in symbols),
        symbol_rewards=TIGER.symbol_rewards[symbols],
    )
    played = run_episodes(TIGER, make(model), episodes=300, steps=10, rng=1)
    assert played.mean > 0
    assert played.collapses.sum() == 0


@pytest.mark.parametrize("make", [lambda *a, **k: POUCT(*a, simulations=20, rng=0, **k), ExactPlanner])
def test_a_symbol_that_the_model_lacks_is_a_collapse(make):
    lacking = renamed(
        TIGER,
        observation_names=tuple(name.replace("hear-right|-1", "moo") for name in TIGER.observation_names),
    )
    planner = make(lacking)
    played = run_episodes(TIGER, planner, episodes=40, steps=5, rng=1)
    assert played.collapses.sum() > 0
    assert f"{played.collapses.sum()} collapses" in repr(played)
    with pytest.raises(BeliefCollapseError, match="hear-right"):
        run_episodes(
            TIGER, make(lacking, on_collapse="raise"), episodes=40, steps=5, rng=1, on_collapse="raise"
        )


def test_collapses_of_a_foreign_planner_are_counted():
    planner = Stubborn("listen", collapse_on="hear-left|-1")
    played = run_episodes(TIGER, planner, episodes=50, steps=4, rng=0)
    assert 0 < played.collapses.sum() < 200
    assert planner.log.count("reset") == 51 + played.collapses.sum()


def test_an_action_that_the_truth_lacks():
    other = renamed(TIGER, action_names=("listen", "open-left", "run"))
    with pytest.raises(UsageError, match="'open-right'"):
        run_episodes(TIGER, ExactPlanner(other), episodes=1, steps=1)
    with pytest.raises(UsageError, match="unknown action 'run'"):
        run_episodes(TIGER, Stubborn("run"), episodes=1, steps=1)


# --- options ------------------------------------------------------------------------------------------------


def test_the_same_seeds_give_the_same_episodes():
    runs = [
        run_episodes(TIGER, POUCT(TIGER, simulations=30, rng=2), episodes=9, steps=5, rng=3) for _ in range(2)
    ]
    assert np.array_equal(runs[0].rewards, runs[1].rewards)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"episodes": 0}, "episodes"),
        ({"steps": 0}, "steps"),
        ({"steps": 1.5}, "steps"),
        ({"steps": 10**30}, "at most"),
        ({"episodes": 10**5000}, "more than 72 digits"),
        ({"untried": "maybe"}, "'exclude' or 'allow'"),
        ({"on_collapse": "mix"}, "'reset' or 'raise'"),
    ],
)
def test_options_that_make_no_sense(options, complaint):
    with pytest.raises(UsageError, match=complaint):
        run_episodes(TIGER, Stubborn(0), **{"episodes": 1, "steps": 1, **options})


def test_only_a_pomdp_or_an_environment_can_be_acted_in():
    with pytest.raises(UsageError, match="must be a POMDP, or an environment with reset and step, got PSR"):
        run_episodes(TIGER.to_psr(), Stubborn(0), episodes=1, steps=1)  # type: ignore[arg-type]


def test_a_truth_without_rewards_needs_one():
    with pytest.raises(UsageError, match="carry no rewards"):
        run_episodes(HALLWAY, Stubborn(0), episodes=1, steps=1)


@pytest.mark.parametrize(
    "planner", [Stubborn(0), POUCT(TIGER, simulations=5, rng=0)], ids=["calls", "kernel"]
)
def test_progress_is_reported(planner):
    heard = []
    with listening(lambda *event: heard.append(event)):
        run_episodes(TIGER, planner, episodes=7, steps=2, rng=0)
    assert heard[-1] == ("acting", 7, 7)


# --- how well ---------------------------------------------------------------------------------------------


def test_the_exact_planner_gathers_its_value():
    played = run_episodes(TIGER, ExactPlanner(TIGER), episodes=4000, steps=10, rng=5)
    assert played.mean == pytest.approx(9.438, abs=4 * played.standard_error)
    assert played.standard_error < 0.5


@pytest.mark.parametrize(
    ("model", "least"), [(TIGER, 4.0), (domains.tmaze(), 2.0), (domains.sense_float_reset(4), 6.5)]
)
def test_automatic_exploration_gathers_enough(model, least):
    played = run_episodes(model, POUCT(model, rng=0), episodes=400, steps=10, rng=1)
    assert played.mean >= least


# --- actions that a log never tried ----------------------------------------------------------------------


def test_a_learned_system_refuses_actions_that_its_log_never_tried():
    learned = replace(TIGER, untried_actions=("open-left",))
    with pytest.raises(UsageError, match="never tried action 'open-left'"):
        run_episodes(learned, POUCT(TIGER, simulations=5, rng=0), episodes=1, steps=1)
    with pytest.raises(UsageError, match="never tried action 'open-left'"):
        run_episodes(learned, Stubborn("open-left"), episodes=1, steps=1)
    for planner in (
        POUCT(learned, simulations=5, rng=0),
        ExactPlanner(learned, horizon=2),
        Stubborn("listen"),
    ):
        run_episodes(learned, planner, episodes=2, steps=2)
    run_episodes(learned, Stubborn("open-left"), episodes=1, steps=1, untried="allow")


def test_scores_that_do_not_fit_are_refused():
    with pytest.raises(ResourceLimitError, match="run fewer episodes"):
        run_episodes(TIGER, Stubborn(0), episodes=10**15, steps=1)


# --- episodes that end ------------------------------------------------------------------------------------


class Listener(Stubborn):
    """A planner that takes everything that it can be told."""

    def reset(self, observation=None):
        self.log.append(("first", observation))

    def observe(self, action, observation, reward=None):
        self.log.append((action, observation, reward))


def test_an_episode_is_over_when_the_truth_ends_it():
    played = run_episodes(naive.corridor(), Stubborn("right"), episodes=3, steps=10, rng=0)
    assert played.rewards.tolist() == [1, 1, 1]
    assert played.lengths.tolist() == [2, 2, 2]
    assert played.ended.all()
    assert played.occupancy.tolist() == [[1, 1, 0, 0]] * 3
    assert [row["ended"] for row in played] == [True] * 3
    assert [row["length"] for row in played] == [2] * 3
    cut = run_episodes(naive.corridor(), Stubborn("right"), episodes=2, steps=1, rng=0)
    assert not cut.ended.any()
    assert cut.rewards.tolist() == [0, 0]
    assert "3 ended" in repr(played)


@pytest.mark.parametrize(
    "make",
    [
        lambda model: ExactPlanner(model, horizon=40),
        lambda model: POUCT(model, simulations=300, depth=8, rng=0),
    ],
)
def test_planners_gather_the_value_of_the_slippery_corridor(make):
    model = naive.corridor(slip=0.2)
    played = run_episodes(model, make(model), episodes=4000, steps=40, rng=1)
    assert played.mean == pytest.approx(0.44 / 0.84, abs=4 * played.standard_error)
    assert played.standard_error < 0.02
    assert played.ended.mean() > 0.99
    assert played.collapses.sum() == 0


def test_a_planner_is_told_first_observations_and_rewards(rng):
    truth = naive.random_episodic(rng)
    planner = Listener(0)
    played = run_episodes(truth, planner, episodes=200, steps=4, rng=0)
    firsts = [entry[1] for entry in planner.log if entry[0] == "first"]
    assert set(firsts[:-1]) == {"dark", "bright"}
    assert firsts[-1] is None  # once all is over
    steps = [entry for entry in planner.log if entry[0] != "first"]
    assert len(steps) == played.lengths.sum()
    assert {reward for _, _, reward in steps} == {-1.0, 0.0, 2.5}
    assert sum(reward for _, _, reward in steps) == pytest.approx(played.rewards.sum())


def test_frequencies_of_the_truth_are_those_of_the_model(rng):
    """The same law as in a simulated log: lengths, endings, rewards."""
    truth = naive.random_episodic(rng)
    played = run_episodes(truth, Stubborn(0), episodes=20_000, steps=3, rng=0)
    log = simulate(truth, 3, episodes=20_000, policy=[1.0, 0.0], rng=1)
    lengths = log.episode_ends - log.episode_starts
    assert played.lengths.mean() == pytest.approx(lengths.mean(), abs=0.03)
    assert played.ended.mean() == pytest.approx(log.terminated.sum() / 20_000, abs=0.02)
    assert played.mean == pytest.approx(log.rewards.sum() / 20_000, abs=0.06)


@pytest.mark.parametrize("on_collapse", ["raise", "reset", "mix"])
@pytest.mark.parametrize("emission", ["departure", "arrival"])
@pytest.mark.parametrize("case", ["known", "other", "unaware"])
def test_the_kernel_equals_calls_where_episodes_end(rng, emission, on_collapse, case):
    truth = naive.random_episodic(rng, emission=emission)
    model = truth
    if case == "other":  # much is impossible under the planner's model
        model = replace(
            truth,
            transitions=np.tile(np.eye(5), (2, 1, 1)),
            observations=np.tile(np.eye(5)[:, :3] + np.eye(5)[:, [3, 4, 2]] * [1, 1, 0], (2, 1, 1)),
            initial=[1, 0, 0, 0, 0],
            first_observations=np.eye(2)[[0, 1, 1, 1, 1]],
        )
    if case == "unaware":
        model = replace(truth, terminal=(), first_observations=None)
    runs, planners = [], []
    for wrapped in (lambda planner: planner, ByCalls):
        planners.append(POUCT(model, simulations=30, on_collapse=on_collapse, rng=3))
        runs.append(run_episodes(truth, wrapped(planners[-1]), episodes=30, steps=6, rng=4))
        assert planners[-1].collapses == runs[-1].collapses.sum()
    for field in ("rewards", "occupancy", "collapses", "lengths", "ended"):
        assert np.array_equal(getattr(runs[0], field), getattr(runs[1], field)), field
    assert (runs[0].collapses.sum() > 0) == (case == "other")
    assert runs[0].ended.any()
    assert not runs[0].occupancy[:, 3:].any()


def test_pairs_of_the_truth_are_understood_by_a_model_that_knows_observations_alone():
    """Tiger's symbols are pairs; a model with rewards beside its observations knows neither name nor reward of them."""
    heard = {name: name.rpartition("|")[0] for name in TIGER.observation_names}
    values = np.unique(TIGER.symbol_rewards)
    plain = tuple(dict.fromkeys(heard.values()))
    shown, paid = np.zeros((3, 2, len(plain))), np.zeros((3, 2, len(values)))
    for code, name in enumerate(TIGER.observation_names):
        shown[:, :, plain.index(heard[name])] += TIGER.observations[:, :, code]
        paid[:, :, np.searchsorted(values, TIGER.symbol_rewards[code])] += TIGER.observations[:, :, code]
    mixed = replace(
        TIGER,
        observations=shown,
        observation_names=plain,
        symbol_rewards=None,
        reward_values=values,
        reward_probabilities=paid,
    )
    assert ExactPlanner(mixed).value() == pytest.approx(ExactPlanner(TIGER).value())
    for planner in (ExactPlanner(mixed), POUCT(mixed, rng=0)):
        played = run_episodes(TIGER, planner, episodes=300, steps=10, rng=5)
        assert played.collapses.sum() == 0
        assert played.mean > 3
    back = run_episodes(mixed, ExactPlanner(TIGER), episodes=300, steps=10, rng=5)
    assert back.collapses.sum() == 0
    assert back.mean > 3


def test_a_planner_that_knows_no_rewards_cannot_tell_which_pair_it_was():
    """Then several events of its model agree, and its episodes run by calls."""
    silent = renamed(
        TIGER, symbol_rewards=None, observation_names=tuple(f"o{i}" for i in range(TIGER.n_observations))
    )
    model = renamed(TIGER, observation_names=tuple(f"o{i}|{r:g}" for i, r in enumerate(TIGER.symbol_rewards)))
    judged = Reward.on_observations({("listen", "o0"): 1.0})
    played = run_episodes(
        silent, POUCT(model, simulations=50, rng=0), episodes=5, steps=5, reward=judged, rng=1
    )
    assert played.collapses.sum() == 0
