"""What is said about a log before learning and about a model after: each note where it belongs, none elsewhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import naive
from unlatch import POMDP, Trajectory, domains, learn_pomdp, simulate
from unlatch.errors import NotLearnableError
from unlatch.kernels.filtering import add_residuals, predict_steps
from unlatch.learn.examine.chi_square import ChiSquare, chi_square
from unlatch.learn.examine.duplicates import repeated_steps
from unlatch.learn.examine.goodness_of_fit import misfit
from unlatch.learn.examine.log import examine, refuse_deterministic_policy
from unlatch.learn.examine.log_samples import pooling, stretches
from unlatch.learn.examine.model import examine_model
from unlatch.learn.examine.policy_dependence import dependence_on_observations
from unlatch.learn.examine.stationarity import drift_between_halves
from unlatch.learn.likelihood.forward_backward import expectation

HEALTHY = [
    "tiger",
    "tmaze",
    "tmaze:rooms=6,fail=0.1",
    "sense-float-reset:states=3",
    "sense-float-reset:states=5",
    "directional-hallway",
    "noisy-hallway",
]


def names(notes):
    return [note.name for note in notes]


def joined(*logs, episodes=False):
    """Logs one after another: as one episode, or each with its own."""
    offsets = np.cumsum([0, *(len(log) for log in logs[:-1])])
    return Trajectory(
        actions=np.concatenate([log.actions for log in logs]),
        observations=np.concatenate([log.observations for log in logs]),
        action_names=logs[0].action_names,
        observation_names=logs[0].observation_names,
        episode_starts=np.concatenate([log.episode_starts + k for log, k in zip(logs, offsets, strict=True)])
        if episodes
        else None,
    )


def acted(pomdp, steps, choose, *, seed=0, episodes=1):
    """A log of a policy: ``choose(rng, actions, observations)`` sees the episode so far."""
    rng = np.random.default_rng(seed)
    moves, shows = np.cumsum(pomdp.transitions, axis=2), np.cumsum(pomdp.observations, axis=2)
    all_actions, all_observations = [], []
    for _ in range(episodes):
        actions, observations = [], []
        state = int(rng.choice(pomdp.n_states, p=pomdp.initial))
        for chance, other in rng.random((steps, 2)):
            action = choose(rng, actions, observations)
            actions.append(action)
            observations.append(int(np.searchsorted(shows[action, state], chance, side="right")))
            state = int(np.searchsorted(moves[action, state], other, side="right"))
        all_actions += actions
        all_observations += observations
    return Trajectory(
        all_actions,
        all_observations,
        pomdp.action_names,
        pomdp.observation_names,
        episode_starts=np.arange(0, steps * episodes, steps),
    )


# --- healthy logs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("domain", HEALTHY)
def test_healthy_logs_and_their_true_models_are_passed_over(domain):
    """Twelve logs of a domain, short and long, of one or many episodes, explored evenly or not: no false alarm."""
    pomdp = domains.by_name(domain)
    skewed = np.arange(1.0, pomdp.n_actions + 1) / np.arange(1.0, pomdp.n_actions + 1).sum()
    for seed in range(4):
        for steps, episodes, policy in ((2_000, 1, None), (100, 60, None), (12_000, 1, skewed)):
            log = simulate(pomdp, steps, episodes=episodes, policy=policy, rng=seed)
            refuse_deterministic_policy(log)
            assert names(examine(log)) == []
            assert names(examine_model(pomdp, log)) == []


@pytest.mark.parametrize(
    "log",
    [
        Trajectory([], [], ("a", "b"), ("x", "y")),
        Trajectory([0], [0]),
        Trajectory([0, 1, 0], [1, 0, 1]),
        Trajectory([0, 1] * 5, [0, 1, 1, 0, 0] * 2, episode_starts=np.arange(10)),
        simulate(domains.tiger(), 2, episodes=3, rng=0),
        simulate(domains.tiger(), 40, rng=0),
    ],
    ids=len,
)
def test_logs_of_a_few_steps_are_no_trouble(log):
    refuse_deterministic_policy(log)
    assert set(names(examine(log))) <= {"constant_observations", "one_action"}
    uniform = np.full((len(log.action_names), 2, len(log.observation_names)), 1 / len(log.observation_names))
    model = POMDP(
        np.full((len(log.action_names), 2, 2), 0.5),
        uniform,
        [0.5, 0.5],
        "departure",
        log.action_names,
        log.observation_names,
    )
    assert names(examine_model(model, replace(log, rewards=None))) == []


def test_large_alphabets_are_pooled():
    rng = np.random.default_rng(0)
    log = Trajectory(rng.integers(0, 50, 20_000), np.minimum(rng.geometric(0.01, 20_000), 999))
    assert names(examine(log)) == []
    refuse_deterministic_policy(log)


# --- policies -------------------------------------------------------------------------------------------


def depending(share, lag=1):
    """Act on the observation some steps before with probability ``share``, at random otherwise."""

    def choose(rng, actions, observations):
        if len(observations) >= lag and rng.random() < share:
            return observations[-lag] % 3
        return int(rng.integers(3))

    return choose


@pytest.mark.parametrize("domain", ["tiger", "tmaze", "noisy-hallway"])
@pytest.mark.parametrize(("share", "lag"), [(0.3, 1), (0.3, 2)])
def test_actions_that_depend_on_observations_are_noted(domain, share, lag):
    log = acted(domains.by_name(domain), 6_000, depending(share, lag))
    notes = examine(log)
    assert names(notes) == ["actions_depend_on_observations"]
    details = notes["actions_depend_on_observations"].details
    assert details["p_value"] < 1e-6
    assert details["lag"] == lag
    assert 0.05 < details["effect"] < 0.6


def test_short_episodes_are_enough():
    log = acted(domains.tiger(), 10, depending(0.3), episodes=800)
    assert names(examine(log)) == ["actions_depend_on_observations"]


def test_a_dependence_too_small_to_matter_is_not_noted():
    steps = 400_000
    rng = np.random.default_rng(0)
    observations = rng.integers(0, 2, steps)
    actions = rng.integers(0, 2, steps)
    follow = rng.random(steps) < 0.012
    actions[1:][follow[1:]] = observations[:-1][follow[1:]]
    log = Trajectory(actions, observations)
    found = dependence_on_observations(log)
    assert found.p_value < 1e-6
    assert found.effect == pytest.approx(0.012, abs=0.004)
    assert names(examine(log)) == []


def test_a_known_policy_is_not_tested():
    log = acted(domains.tiger(), 3_000, depending(0.5))
    assert names(examine(log)) == ["actions_depend_on_observations"]
    assert names(examine(replace(log, probabilities=np.full(len(log), 1 / 3)))) == []


def sticky(rng, actions, observations):
    return actions[-1] if actions and rng.random() < 0.8 else int(rng.integers(3))


def sequences(rng, actions, observations):
    """Random choice among three fixed sequences of six actions."""
    if len(actions) % 6 == 0:
        sequences.now = ((0, 0, 1, 1, 2, 2), (1, 0, 0, 0, 0, 1), (2, 1, 2, 0, 0, 0))[rng.integers(3)]
    return sequences.now[len(actions) % 6]


def cycle(rng, actions, observations):
    return (0, 1, 0, 2, 0, 0, 1)[len(actions) % 7]


def habits(rng, actions, observations):
    """Its preferences change every three hundred steps."""
    if len(actions) % 300 == 0:
        habits.now = rng.dirichlet(np.full(3, 0.5))
    return int(np.searchsorted(np.cumsum(habits.now[:2]), rng.random()))


@pytest.mark.parametrize("domain", ["tiger", "tmaze:rooms=3", "sense-float-reset:states=4", "noisy-hallway"])
@pytest.mark.parametrize("policy", [sticky, sequences, cycle, habits])
def test_policies_that_follow_only_their_own_past_are_blind(domain, policy):
    log = acted(domains.by_name(domain), 9_000, policy)
    refuse_deterministic_policy(log)
    assert "actions_depend_on_observations" not in examine(log)
    assert "repeated_log" not in examine(log)


def test_a_deterministic_policy_is_refused_with_the_pairs_that_it_never_tried():
    log = acted(domains.noisy_hallway(), 2_000, lambda rng, actions, seen: seen[-1] if seen else 0)
    left, right = log.action_names[:2]
    one, other = log.observation_names
    with pytest.raises(NotLearnableError, match=r"100\.00%") as error:
        refuse_deterministic_policy(log)
    assert f"'{right}' after '{one}', '{left}' after '{other}'." in str(error.value)


def test_many_untried_pairs_are_counted():
    rng = np.random.default_rng(0)
    observations = rng.integers(0, 8, 1_000)
    log = Trajectory(np.append(0, observations[:-1]), observations)
    with pytest.raises(NotLearnableError, match="and 46 more"):  # of 8 * 8 - 8
        refuse_deterministic_policy(log)


def test_whoever_tries_everything_is_not_refused():
    """Exploration for a moment, anywhere, is enough; so is a policy that does not look at all."""
    rng = np.random.default_rng(0)
    observations = rng.integers(0, 3, 50_000)
    followed = np.append(0, observations[:-1])
    explored = np.where(rng.random(50_000) < 1.2e-3, rng.integers(0, 3, 50_000), followed)
    refuse_deterministic_policy(Trajectory(explored, observations))
    for constant in (np.zeros(50_000, dtype=int), (np.arange(50_000) == 7).astype(int)):
        refuse_deterministic_policy(Trajectory(constant, observations, ("a", "b"), ("x", "y", "z")))
    with pytest.raises(NotLearnableError):
        refuse_deterministic_policy(Trajectory(followed, observations))
    each_seen_once = np.arange(5_000)
    alphabet = tuple(map(str, each_seen_once))
    refuse_deterministic_policy(Trajectory(rng.integers(0, 2, 5_000), each_seen_once, ("a", "b"), alphabet))


def test_the_first_action_of_an_episode_follows_nothing():
    observations = np.tile([0, 1], 300)
    actions = np.tile([0, 1], 300)  # what would follow 1 is always the first action of an episode
    refuse_deterministic_policy(Trajectory(actions, observations, episode_starts=np.arange(0, 600, 2)))


# --- constants ------------------------------------------------------------------------------------------


def test_constant_observations():
    actions = np.random.default_rng(0).integers(0, 2, 500)
    notes = examine(Trajectory(actions, 1 - actions, ("a", "b", "never"), ("x", "y")))
    assert names(notes) == ["constant_observations"]
    assert notes["constant_observations"].details["shown"] == {"a": "y", "b": "x"}
    varied = 1 - actions
    varied[-1] = 1 - varied[-1]
    assert names(examine(Trajectory(actions, varied, ("a", "b", "never"), ("x", "y")))) == []


def test_only_one_action_of_several():
    observations = np.random.default_rng(0).integers(0, 2, 500)
    actions = np.ones_like(observations)
    notes = examine(Trajectory(actions, observations, ("a", "b", "c"), ("x", "y")))
    assert names(notes) == ["one_action"]
    assert notes["one_action"].details == {"used": "b", "unused": ["a", "c"]}
    assert names(examine(Trajectory(np.zeros_like(actions), observations))) == []


# --- drift ----------------------------------------------------------------------------------------------


def deafer(accuracy):
    """Tiger with another accuracy of listening: every single observation stays as likely as it was."""
    tiger = domains.tiger()
    listening = np.where(tiger.observations == 0.85, accuracy, tiger.observations)
    return replace(tiger, observations=np.where(listening == 0.15, 1 - accuracy, listening))


@pytest.mark.parametrize("seed", range(3))
def test_two_systems_one_after_another(seed):
    tiger = joined(simulate(domains.tiger(), 15_000, rng=seed), simulate(deafer(0.6), 15_000, rng=seed + 10))
    notes = examine(tiger)
    assert names(notes) == ["drift"]
    assert notes["drift"].details["p_value"] < 1e-4
    assert "'listen'" in notes["drift"].details["event"]
    hallways = (domains.directional_hallway(), domains.noisy_hallway())
    assert "drift" in examine(joined(*(simulate(hall, 40_000, rng=seed) for hall in hallways)))


def test_a_gradual_change():
    parts = [simulate(deafer(accuracy), 3_000, rng=i) for i, accuracy in enumerate(np.linspace(0.9, 0.6, 40))]
    assert "drift" in examine(joined(*parts))


def test_an_event_that_ceases_and_one_that_never_varied():
    """No scatter between blocks is no reason to call everything a change, nor to miss one."""
    steps = np.arange(20_000)
    assert "drift" in examine(Trajectory(np.zeros(20_000, dtype=int), (steps >= 10_000).astype(int)))
    assert "drift" not in examine(Trajectory(np.zeros(20_000, dtype=int), steps % 3))


def test_slow_systems_are_not_called_drifting():
    """A corridor that takes thousands of steps to forget; four hundred logs, of which one may err."""
    maze = domains.tmaze(rooms=14)
    found = [drift_between_halves(simulate(maze, 2_000, rng=seed)) for seed in range(400)]
    assert sum(result.p_value < 1e-4 for result in found) <= 1


def test_rare_symbols_have_no_name_of_their_own():
    rng = np.random.default_rng(0)
    observations = np.append(rng.integers(0, 40, 10_000), rng.integers(0, 20, 10_000))
    found = drift_between_halves(Trajectory(rng.integers(0, 20, 20_000), observations))
    assert found.p_value < 1e-4
    assert "rare symbol" in found.event


# --- copies ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("domain", ["tiger", "tmaze", "sense-float-reset:states=3", "noisy-hallway"])
def test_copies_are_found_and_measured(domain):
    one, other = (simulate(domains.by_name(domain), 3_000, rng=seed) for seed in (0, 1))
    notes = examine(joined(one, one))
    assert names(notes) == ["repeated_log"]
    assert notes["repeated_log"].details["share"] == pytest.approx(0.5, abs=0.02)
    assert notes["repeated_log"].details["distance"] == 3_000
    assert repeated_steps(joined(one, one, one, one)).share == pytest.approx(0.75, abs=0.02)
    assert repeated_steps(joined(one, other, one, episodes=True)).share == pytest.approx(1 / 3, abs=0.02)
    assert repeated_steps(joined(one, other)).share == 0
    assert names(examine_model(domains.by_name(domain), joined(one, one, episodes=True))) == []


def test_copies_of_episodes_in_any_order():
    log = simulate(domains.tmaze(), 40, episodes=60, rng=0)
    order = np.random.default_rng(0).permutation(np.repeat(np.arange(60), 2))
    copied = joined(*(log.episode(i) for i in order), episodes=True)
    assert repeated_steps(copied).share == pytest.approx(0.5, abs=0.02)
    assert repeated_steps(log).share == 0


def test_copies_are_found_in_a_sample_of_a_long_log():
    one = simulate(domains.tiger(), 400_000, rng=0)
    found = repeated_steps(joined(one, simulate(domains.tiger(), 12_345, rng=1), one))
    assert found.share == pytest.approx(400_000 / 812_345, abs=0.02)
    assert found.distance == 412_345


def test_what_repeats_by_nature_is_no_copy():
    """Periods, standstill, and a process that is all but deterministic."""
    steps = np.arange(20_000)
    rng = np.random.default_rng(0)
    for observations in (steps % 7, steps * 0, (rng.random(20_000) < 1e-3).astype(int)):
        assert "repeated_log" not in examine(Trajectory(steps // 2 % 3, observations))


# --- models ---------------------------------------------------------------------------------------------


def two_rooms(leak=0.0):
    """A hall that is left for good with a probability, and a room behind it that is not (but for ``leak``)."""
    transitions = np.array(
        [
            [
                [0.50, 0.499, 0.001, 0.0],
                [0.5, 0.5, 0.0, 0.0],
                [leak, 0.0, 0.5, 0.5 - leak],
                [0.0, 0.0, 0.5, 0.5],
            ]
        ]
    )
    observations = np.array([[[0.9, 0.1, 0, 0], [0.1, 0.9, 0, 0], [0, 0, 0.9, 0.1], [0, 0, 0.1, 0.9]]])
    return POMDP(transitions, observations, [1.0, 0, 0, 0], state_names=("h1", "h2", "r1", "r2"))


def test_states_that_were_left_for_good():
    log = simulate(two_rooms(), 20_000, rng=1)
    notes = examine_model(two_rooms(), log)
    assert names(notes) == ["several_classes"]
    details = notes["several_classes"].details
    assert (details["recurrent"], details["transient"]) == ([["r1", "r2"]], ["h1", "h2"])
    assert details["transient_share"] == pytest.approx((log.observations < 2).mean(), abs=1e-3)
    assert details["shares"][0] + details["transient_share"] == pytest.approx(1)
    assert "having left for good h1, h2" in notes["several_classes"].message
    given = examine_model(two_rooms(), log, counts=expectation(two_rooms(), log))
    assert [note.message for note in given] == [note.message for note in notes]


def test_a_way_back_or_many_episodes_make_one_class():
    assert names(examine_model(two_rooms(leak=0.002), simulate(two_rooms(leak=0.002), 20_000, rng=1))) == []
    many = simulate(two_rooms(), 4_000, episodes=20, rng=1)
    assert names(examine_model(two_rooms(), many)) == []


def test_two_classes_that_were_never_left():
    model = replace(
        two_rooms(), transitions=np.kron(np.eye(2), np.full((2, 2), 0.5))[None], initial=[0.5, 0, 0.5, 0]
    )
    log = joined(
        *(simulate(replace(model, initial=start), 3_000, rng=0) for start in ([1, 0, 0, 0], [0, 0, 1, 0])),
        episodes=True,
    )
    details = examine_model(model, log)["several_classes"].details
    assert details["recurrent"] == [["h1", "h2"], ["r1", "r2"]]
    assert details["shares"] == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize(
    ("wrong", "clue"),
    [
        (deafer(0.7), {"lag 1", "calibration"}),
        (deafer(0.95), {"lag 1", "calibration"}),
        (
            replace(domains.tiger(), transitions=np.full((3, 2, 2), 0.5)),
            {"lag 1"},
        ),
    ],
    ids=["deaf", "sharp", "forgetful"],
)
def test_a_wrong_model_fits_poorly(wrong, clue):
    notes = examine_model(wrong, simulate(domains.tiger(), 10_000, rng=0))
    assert names(notes) == ["poor_fit"]
    details = notes["poor_fit"].details
    assert details["p_value"] < 1e-6
    assert details["effect"] > 0.03
    assert details["clue"] in clue
    assert details["impossible"] == 0


def test_memory_that_a_model_lacks_is_found_however_far_back():
    """In the corridor every step forgets the row: what was on the map predicts the prize better."""
    maze = domains.tmaze(rooms=4, fail=0.1)
    half = maze.n_states // 2
    forgetful = maze.transitions.copy()
    mixed = 0.5 * (maze.transitions[:, :, :half] + maze.transitions[:, :, half:])
    forgetful[:, 1 : half - 1] = np.concatenate([mixed, mixed], axis=2)[:, 1 : half - 1]
    forgetful[:, half + 1 : -1] = np.concatenate([mixed, mixed], axis=2)[:, half + 1 : -1]
    log = simulate(maze, 20_000, rng=0)
    found = misfit(replace(maze, transitions=forgetful), log)
    assert found.p_value < 1e-6
    assert found.clue == "last rare"
    assert misfit(maze, log).p_value > 1e-3


def test_what_should_not_happen():
    """One observation in two hundred belies a model that expects none, or hardly any."""
    rng = np.random.default_rng(0)
    log = Trajectory(np.zeros(20_000, dtype=int), (rng.random(20_000) < 0.005).astype(int))
    for expected in (0.0, 1e-5):
        model = POMDP([[[1.0]]], [[[1 - expected, expected]]], [1.0])
        notes = examine_model(model, log)
        assert names(notes) == ["poor_fit"]
        assert notes["poor_fit"].details["clue"] == "unlikely"
        impossible = int(log.observations.sum()) if expected == 0 else 0
        assert notes["poor_fit"].details["impossible"] == impossible
    assert (
        "impossible under it"
        in examine_model(POMDP([[[1.0]]], [[[1.0, 0.0]]], [1.0]), log)["poor_fit"].message
    )


def test_only_the_last_steps_of_a_long_log_are_predicted():
    """From the middle of an episode, without being told the state."""
    maze = domains.tmaze(rooms=2)
    found = misfit(maze, simulate(maze, 230_000, rng=0))
    assert found.steps == 200_000
    assert found.impossible == 0
    assert found.p_value > 1e-3


# --- as part of learning --------------------------------------------------------------------------------


def test_learning_refuses_a_deterministic_policy():
    tiger = domains.tiger()
    last_heard = np.eye(3)[np.arange(tiger.n_observations) % 3]
    log = replace(simulate(tiger, 3_000, policy=last_heard, rng=0), probabilities=None)
    with pytest.raises(NotLearnableError, match="never tried"):
        learn_pomdp(log, rng=0)


def test_learning_from_constant_observations_gives_one_state():
    actions = np.random.default_rng(0).integers(0, 3, 2_000)
    result = learn_pomdp(Trajectory(actions, np.zeros(2_000, dtype=int)), rng=0)
    assert result.pomdp.n_states == 1
    assert "constant_observations" in result.diagnostics


def test_too_few_states_fit_poorly():
    result = learn_pomdp(simulate(domains.tmaze(), 10_000, rng=0), states=2, rng=0)
    assert result.diagnostics["poor_fit"].details["p_value"] < 1e-6


# --- episodes that end ----------------------------------------------------------------------------------


def episodic(seed, **options):
    """A model, and a log of its episodes, some of which a time limit cuts."""
    model = naive.random_episodic_pomdp(np.random.default_rng(seed), states=3, observations=3, **options)
    rng = np.random.default_rng(seed + 100)
    return model, naive.simulate_episodes(model, rng, episodes=2_500, longest=25)


@pytest.mark.parametrize("emission", ["departure", "arrival"])
@pytest.mark.parametrize(
    "options",
    [{}, {"ends": 2, "ending": 0.05}, {"first": 3}, {"rewards": 3}, {"first": 2, "rewards": 2}],
    ids=str,
)
def test_true_models_of_episodes_that_end_are_passed_over(emission, options):
    model, log = episodic(1, emission=emission, **options)
    assert names(examine(log)) == []
    assert names(examine_model(model, log)) == []
    told_less = replace(log, terminated=None, first_observations=None, rewards=None)
    assert names(examine_model(model, told_less)) == []
    assert misfit(model, log).impossible == 0


def test_a_model_whose_episodes_go_on_for_ever_would_not_be_the_true_one():
    """The beliefs of a model that forgets that an episode goes on drift into its end, where placeholders are shown."""
    model, log = episodic(3, ending=0.3, emission="arrival")
    endless = replace(model, terminal=())
    assert names(examine_model(model, log)) == []
    assert "poor_fit" in names(examine_model(endless, log))


def test_wrong_endings_fit_poorly():
    model, log = episodic(2, ending=0.1)
    moves = model.transitions.copy()
    moves[:, :3] = moves[:, :3] * 0.6 / 0.9  # as if an episode were four times as likely to end
    moves[:, :3, 3] = 0.4
    wrong = replace(model, transitions=moves)
    assert "poor_fit" in names(examine_model(wrong, log))
    assert "poor_fit" not in names(examine_model(wrong, replace(log, terminated=None)))  # nobody could tell


def test_impossible_first_observations_and_endings_are_counted():
    model = naive.random_episodic_pomdp(np.random.default_rng(0), first=2)
    log = naive.simulate_episodes(model, np.random.default_rng(1), episodes=50)
    never = replace(model, first_observations=np.tile([1.0, 0.0], (3, 1)))
    found = examine_model(never, log)["poor_fit"].details
    assert found["impossible"] == int((log.first_observations == 1).sum()) > 0
    endless = replace(
        model,
        transitions=np.tile([[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]], (2, 1, 1)),
        first_observations=None,
    )
    assert examine_model(endless, log)["poor_fit"].details["impossible"] == 50


def lengthy(lengths, **fields):
    """A log of episodes of these lengths."""
    steps = sum(lengths)
    rng = np.random.default_rng(0)
    starts = np.cumsum([0, *lengths[:-1]])
    return Trajectory(rng.integers(0, 2, steps), rng.integers(0, 3, steps), episode_starts=starts, **fields)


def test_episodes_of_different_lengths_want_endings():
    note = examine(lengthy([9, 7, 153, 20]))["endings_not_told"]
    assert (
        "episodes have different lengths (7 to 153) and the log does not say whether they ended"
        in note.message
    )
    assert "Add a column terminated (Trajectory(terminated=...))" in note.message
    assert note.details == {"shortest": 7, "longest": 153, "episodes": 4}
    limited = [20] * 30 + [3] + [20] * 5  # a time limit, and an ending before it
    assert "endings_not_told" in examine(lengthy(limited))


@pytest.mark.parametrize("lengths", [[40], [40, 20], [40] * 9, [40] * 9 + [3], [40] * 9 + [60]], ids=str)
def test_a_fixed_horizon_has_no_endings_to_tell(lengths):
    assert "endings_not_told" not in examine(lengthy(lengths))


def test_told_endings_are_not_asked_for():
    lengths = [9, 7, 153, 20]
    assert "endings_not_told" not in examine(lengthy(lengths, terminated=np.zeros(sum(lengths), dtype=bool)))


def test_other_examinations_of_episodes_that_end():
    """Policies, copies and changes are found across many episodes as in one that is long."""
    model = naive.random_episodic_pomdp(np.random.default_rng(4), states=3, observations=3, ending=0.01)
    log = naive.simulate_episodes(model, np.random.default_rng(5), episodes=150, longest=200)
    twice = joined(log, log, episodes=True)
    assert "repeated_log" in examine(replace(twice, terminated=np.tile(log.terminated, 2)))
    other = replace(log, observations=(log.observations + 1) % 3)
    changed = joined(log, other, episodes=True)
    assert "drift" in examine(changed)
    refuse_deterministic_policy(log)
    followed = np.append(0, log.observations[:-1] % 2)
    with pytest.raises(NotLearnableError, match="settles the action"):
        refuse_deterministic_policy(replace(log, actions=followed))
    few = naive.simulate_episodes(model, np.random.default_rng(0), episodes=3, longest=40)
    assert "several_classes" not in examine_model(model, few)


# --- the parts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_predictions_equal_explicit_ones(version, rng, emission):
    model = naive.random_pomdp(rng, states=3, emission=emission)
    actions, observations = rng.integers(0, 2, 60), rng.integers(0, 3, 60)
    begins = np.full(60, -1)
    begins[[0, 25, 40]] = [0, 1, 0]
    starts = np.array([model.initial, rng.dirichlet(np.ones(3))])
    shown = model.updates.sum(axis=3)
    predicted, belief = np.empty((60, 3)), np.full(3, 1 / 3)
    lost = version(predict_steps)(
        model.updates, shown, starts, belief.copy(), belief, begins, actions, observations, predicted
    )
    expected = model.initial
    for t in range(60):
        expected = starts[begins[t]] if begins[t] >= 0 else expected
        np.testing.assert_allclose(predicted[t], model.predict(expected)[actions[t]], rtol=1e-12)
        expected = expected @ model.updates[actions[t], observations[t]]
        expected = expected / expected.sum()
    assert lost == 0
    np.testing.assert_allclose(belief, expected, rtol=1e-12)


def test_after_the_impossible_anything_is_possible(version):
    """Two states that alternate and show themselves; the second 1 in a row cannot be."""
    updates = np.zeros((1, 2, 2, 2))
    updates[0, 0, 0, 1] = updates[0, 1, 1, 0] = 1.0
    predicted, anything = np.empty((5, 2)), np.array([0.5, 0.5])
    observations, nothing = np.array([0, 1, 1, 0, 1]), np.zeros(5, dtype=int)
    lost = version(predict_steps)(
        updates,
        updates.sum(axis=3),
        np.array([[1.0, 0]]),
        anything,
        anything.copy(),
        nothing - 1,
        nothing,
        observations,
        predicted,
    )
    assert lost == 1
    assert predicted.tolist() == [[0.5, 0.5], [0, 1], [1, 0], [0.5, 0.5], [0, 1]]


def test_residuals_are_summed_by_group(version, rng):
    predicted = rng.dirichlet(np.ones(3), 40)
    seen, groups = rng.integers(0, 3, 40), rng.integers(-1, 2, 40)
    deviations, covariances = np.zeros((2, 3)), np.zeros((2, 3, 3))
    version(add_residuals)(predicted, seen, groups, deviations, covariances)
    for group in range(2):
        rows = predicted[groups == group]
        np.testing.assert_allclose(deviations[group], (np.eye(3)[seen[groups == group]] - rows).sum(axis=0))
        np.testing.assert_allclose(covariances[group], np.diag(rows.sum(axis=0)) - rows.T @ rows)


def test_chi_square_of_counts():
    """Of a multinomial it is Pearson's, whatever the singular covariance; rare directions are left out."""
    expected = np.array([40.0, 60.0, 100.0])
    counts = np.array([50.0, 50.0, 100.0])
    covariance = np.diag(expected) - np.outer(expected, expected) / 200
    test = chi_square(counts - expected, covariance)
    assert test.degrees == 2
    assert test.statistic == pytest.approx(((counts - expected) ** 2 / expected).sum())
    assert test.p_value == pytest.approx(np.exp(-test.statistic / 2))
    assert test.excess == pytest.approx(test.statistic - 2)
    assert chi_square(np.array([3.0, -3.0]), np.array([[2.0, -2.0], [-2.0, 2.0]])) == ChiSquare(0.0, 0)
    assert ChiSquare().p_value == 1.0
    assert ChiSquare(1.0, 1).plus(ChiSquare(2.0, 3)) == (3.0, 4)


def test_pooling_keeps_the_frequent():
    assert pooling(np.array([5, 0, 9, 1, 2]), 3).tolist() == [1, 2, 0, 2, 2]
    assert pooling(np.array([5, 0, 9]), 8).tolist() == [1, 1, 0]
    assert pooling(np.array([0, 0]), 8).tolist() == [0, 0]


def test_stretches_cover_the_log_and_know_where_episodes_begin():
    log = Trajectory(np.arange(10) % 2, np.arange(10) % 3, episode_starts=[0, 4, 5])
    parts = stretches(log, 3, 2)
    assert [part.observations.tolist() for part in parts] == [[0, 1], [0, 1], [0, 1]]
    assert [part.begins.tolist() for part in parts] == [[True, False], [True, True], [True, False]][
        : len(parts)
    ]
    assert sum(len(part.actions) for part in stretches(log, 3, 100)) == 10
    assert len(stretches(log.head(2), 5, 100)) == 2
