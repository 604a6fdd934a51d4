"""The simulator: the same numbers as a plain loop, and the right frequencies."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

import naive
from unlatch import POMDP, domains, simulate, simulation
from unlatch.core.progress import listening
from unlatch.errors import DataError, ResourceLimitError, UsageError

ALPHA = 1e-6
"""Chance that a right simulator fails one comparison of frequencies (seeds are fixed, so it never does)."""


@pytest.mark.parametrize("emission", ["departure", "arrival"])
@pytest.mark.parametrize(
    "policy", [None, [0.2, 0.0, 0.8], [[0.2, 0.0, 0.8], [0.1, 0.8, 0.1]] * 2 + [[0, 1, 0]]]
)
def test_equals_a_plain_loop(rng, emission, policy):
    model = naive.random_pomdp(rng, states=4, actions=3, observations=5, emission=emission, concentration=0.3)
    log = simulate(model, 100, episodes=3, policy=policy, rng=7)
    same = np.random.default_rng(7)
    expected = []
    for _ in range(3):
        state = naive.draw(model.initial, same.random())
        actions, observations, _ = naive.simulate(model, same.random((100, 3)), state=state, policy=policy)
        expected += zip(actions, observations, strict=True)
    assert list(zip(log.actions.tolist(), log.observations.tolist(), strict=True)) == expected
    assert log.episode_starts.tolist() == [0, 100, 200]


def test_names_and_rewards_come_along():
    tiger = domains.tiger()
    log = simulate(tiger, 50, rng=1)
    assert (log.action_names, log.observation_names) == (tiger.action_names, tiger.observation_names)
    assert log.rewards.tolist() == tiger.symbol_rewards[log.observations].tolist()
    assert simulate(domains.noisy_hallway(), 5, rng=1).rewards is None


def test_seeds_and_generators():
    tiger = domains.tiger()
    assert simulate(tiger, 100, rng=3) == simulate(tiger, 100, rng=np.random.default_rng(3))
    assert simulate(tiger, 100, rng=3) != simulate(tiger, 100, rng=4)
    assert simulate(tiger, 100) != simulate(tiger, 100)


def test_chunks_do_not_change_the_log(monkeypatch):
    tiger = domains.tiger()
    whole = simulate(tiger, 1000, episodes=2, rng=0)
    monkeypatch.setattr(simulation, "STEPS_PER_CALL", 64)
    heard = []
    with listening(lambda *report: heard.append(report)):
        assert simulate(tiger, 1000, episodes=2, rng=0) == whole
    assert len(heard) == 2 * -(-1000 // 64)
    assert heard[-1] == ("simulating", 2000, 2000)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"steps": 0}, UsageError),
        ({"steps": 5, "episodes": 0}, UsageError),
        ({"steps": 5, "rng": -1}, UsageError),
        ({"steps": 5, "rng": "seed"}, UsageError),
        ({"steps": 5, "rng": True}, UsageError),
        ({"steps": 10**6, "episodes": 10**6}, ResourceLimitError),
        ({"steps": 5, "policy": [0.5, 0.5]}, DataError),
        ({"steps": 5, "policy": [np.nan, 0.5, 0.5]}, DataError),
        ({"steps": 5, "policy": [0.5, 0.2, 0.2]}, DataError),
        ({"steps": 5, "policy": [[0.5, 0.3, 0.2]]}, DataError),
        ({"steps": 5, "policy": [[0.5, 0.3, 0.2], [0.5]]}, DataError),
        ({"steps": 5, "policy": [[0.5, 0.3, 0.1]] * 6}, DataError),
        ({"steps": 5, "policy": [[[0.5, 0.3, 0.2]]]}, DataError),
    ],
)
def test_requests_that_make_no_sense(options, error):
    with pytest.raises(error):
        simulate(domains.tiger(), **options)


# --- frequencies --------------------------------------------------------------------------------------------


def compare(counts, probabilities):
    """The p-value of observed counts, none of which may be of an impossible outcome."""
    possible = np.asarray(probabilities) > 0
    assert counts[~possible].sum() == 0
    assert counts.sum() > 5000
    if possible.sum() == 1:
        return 1.0
    return chisquare(counts[possible], counts.sum() * probabilities[possible]).pvalue


@pytest.fixture(scope="module")
def sparse():
    """A model that shows its state, with many impossible moves."""
    rng = np.random.default_rng(5)
    transitions = rng.dirichlet(np.ones(4), (3, 4))
    transitions[rng.random((3, 4, 4)) < 0.4] = 0
    transitions += np.roll(np.eye(4), 1, axis=1) * 0.1
    return POMDP(
        transitions=transitions / transitions.sum(axis=2, keepdims=True),
        observations=np.tile(np.eye(4), (3, 1, 1)),
        initial=[0.1, 0.0, 0.6, 0.3],
    )


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_moves_and_actions_have_their_probabilities(sparse, emission):
    model = POMDP(sparse.transitions, sparse.observations, sparse.initial, emission)
    policy = np.array([0.5, 0.3, 0.2])
    log = simulate(model, 1_000_000, policy=policy, rng=11)
    assert compare(np.bincount(log.actions, minlength=3), policy) > ALPHA
    shift = 0 if emission == "departure" else 1  # which action leads from one shown state to the next
    sources, targets = log.observations[:-1], log.observations[1:]
    actions = log.actions[shift : len(log) - 1 + shift]
    for a in range(3):
        for s in range(4):
            here = np.bincount(targets[(actions == a) & (sources == s)], minlength=4)
            assert compare(here, model.transitions[a, s]) > ALPHA
            order = np.argsort(-model.transitions[a, s])
            wrong = model.transitions[a, s].copy()
            wrong[order[:2]] += [-0.03, 0.03]
            if wrong[order[1]] > 0.03:  # both are possible: three per cent astray would be noticed
                assert compare(here, wrong) < ALPHA


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_observations_have_their_probabilities(rng, emission):
    rows = np.array([[[0.7, 0.3, 0.0]], [[0.0, 0.1, 0.9]]])
    model = POMDP(transitions=np.ones((2, 1, 1)), observations=rows, initial=[1.0], emission=emission)
    log = simulate(model, 500_000, rng=12)
    for a in range(2):
        here = np.bincount(log.observations[log.actions == a], minlength=3)
        assert compare(here, rows[a, 0]) > ALPHA
        assert compare(here, rows[a, 0] + np.array([[-0.01, 0.01, 0], [0, 0.01, -0.01]])[a]) < ALPHA


def test_episodes_start_anew(sparse):
    log = simulate(sparse, 1, episodes=20_000, rng=13)
    assert compare(np.bincount(log.observations, minlength=4), sparse.initial) > ALPHA
    assert log.n_episodes == 20_000


# --- episodes that end --------------------------------------------------------------------------------------


@pytest.mark.parametrize("emission", ["departure", "arrival"])
@pytest.mark.parametrize("per_call", [7, 1 << 16])
def test_everything_that_a_model_knows_equals_a_plain_loop(rng, emission, per_call, monkeypatch):
    monkeypatch.setattr(simulation, "STEPS_PER_CALL", per_call)
    model = naive.random_episodic(rng, emission=emission)
    ours, same = np.random.default_rng(7), np.random.default_rng(7)
    log = simulate(model, 6, total=400, rng=ours)
    expected = naive.simulate_by(model, iter(same.random, None), longest=6, steps=400)
    assert log == expected
    assert 0 < log.terminated.sum() < log.n_episodes
    assert ours.random() == same.random()  # no number more was drawn
    assert np.isfinite(model.log_likelihood(log))


def test_a_log_has_so_many_steps_or_so_many_episodes(rng):
    model = naive.random_episodic(rng)
    assert len(simulate(model, 5000, rng=0)) == 5000
    assert simulate(model, 5000, rng=0).n_episodes > 500
    episodes = simulate(model, 50, episodes=300, rng=0)
    assert episodes.n_episodes == 300
    assert episodes.terminated[episodes.episode_ends - 1].all()
    short = simulate(model, 2, episodes=300, rng=0)
    lengths = short.episode_ends - short.episode_starts
    assert set(lengths.tolist()) == {1, 2}
    cut = ~short.terminated[short.episode_ends - 1]
    assert cut.any()
    assert (lengths[cut] == 2).all()


def test_episodes_of_unknown_length_in_parts_are_the_same(rng, monkeypatch):
    model = naive.random_episodic(rng)
    whole = simulate(model, 9, episodes=300, rng=0)
    monkeypatch.setattr(simulation, "STEPS_PER_CALL", 11)
    heard = []
    with listening(lambda *event: heard.append(event)):
        assert simulate(model, 9, episodes=300, rng=0) == whole
    assert heard[-1] == ("simulating", 300, 300)


def test_a_total_cuts_the_last_episode_of_a_model_that_never_ends():
    log = simulate(domains.tiger(), 50, total=120, rng=0)
    assert log.episode_starts.tolist() == [0, 50, 100]
    assert len(log) == 120
    assert log.terminated is None
    assert simulate(domains.tiger(), 50, total=100, rng=0) == simulate(domains.tiger(), 50, episodes=2, rng=0)


def one_state(ends, **options):
    """One state to act in, and two in which it is over: reached with the chances ``ends``."""
    transitions = [[[1 - sum(ends), *ends], [0, 1, 0], [0, 0, 1]]]
    shown = [[[1, 0, 0], [0, 1, 0], [0, 0, 1]]]
    return POMDP(transitions, shown, [1, 0, 0], "arrival", terminal=(1, 2), **options)


def test_endings_have_the_probabilities_of_the_model():
    log = simulate(one_state((0.2, 0.1)), 10**6, total=300_000, rng=5)
    lengths = log.episode_ends - log.episode_starts
    if not log.terminated[-1]:
        lengths = lengths[:-1]
    counts = np.bincount(np.minimum(lengths, 12), minlength=13)[1:]
    law = 0.3 * 0.7 ** np.arange(12)
    law[-1] = 0.7**11
    assert compare(counts, law) > ALPHA
    assert compare(counts, np.append(0.31 * 0.69 ** np.arange(11), 0.69**11)) < ALPHA
    last = np.bincount(log.observations[log.terminated], minlength=3)
    assert compare(last, np.array([0, 2 / 3, 1 / 3])) > ALPHA


def test_first_observations_and_rewards_have_the_probabilities_of_the_model():
    model = one_state(
        (0.2, 0.1),
        first_observations=[[0.3, 0.7]] * 3,
        first_observation_names=("x", "y"),
        reward_values=[0.0, 5.0],
        reward_probabilities=[[[0.6, 0.4]] * 3],
    )
    log = simulate(model, 10**6, total=100_000, rng=6)
    assert compare(np.bincount(log.first_observations), np.array([0.3, 0.7])) > ALPHA
    assert compare(np.bincount((log.rewards == 5).astype(int)), np.array([0.6, 0.4])) > ALPHA
    assert log.first_observation_names == ("x", "y")


def test_the_first_observation_chooses_the_first_action_where_it_has_the_name_of_another():
    model = POMDP(
        np.tile(np.eye(2), (2, 1, 1)),
        np.tile(np.eye(2), (2, 1, 1)),
        [0.5, 0.5],
        first_observations=np.eye(2),
        first_observation_names=("1", "dark"),
    )
    log = simulate(model, 1, episodes=2000, policy=[[0.5, 0.5], [0.1, 0.9]], rng=0)
    seen = log.first_observations == 0  # "1", whose row is the second
    assert log.actions[seen].mean() == pytest.approx(0.9, abs=0.03)
    assert log.actions[~seen].mean() == pytest.approx(0.5, abs=0.05)
    assert set(log.probabilities[seen].tolist()) == {0.1, 0.9}
    assert set(log.probabilities[~seen].tolist()) == {0.5}


def test_episodes_and_a_total_exclude_each_other():
    with pytest.raises(UsageError, match="not both"):
        simulate(domains.tiger(), 5, episodes=2, total=10)
    with pytest.raises(UsageError, match="total must be a whole number"):
        simulate(domains.tiger(), 5, total=0)
    with pytest.raises(ResourceLimitError, match="in all"):
        simulate(domains.tiger(), 5, total=10**10)


# --- more than the machine holds ----------------------------------------------------------------------------


def test_a_log_that_does_not_fit_is_refused_before_it_is_made(monkeypatch):
    monkeypatch.setattr("unlatch.core.memory.available_memory", lambda: 10**9)
    with pytest.raises(
        ResourceLimitError, match=r"a log of 500000000 steps would take 12.5 GB of memory, 1.0 GB"
    ):
        simulate(domains.tiger(), 500_000_000)
    with pytest.raises(ResourceLimitError, match="GB"):
        simulate(domains.noisy_hallway(), 50_000_000, policy=np.full((2, 4), 0.25))


@pytest.mark.parametrize("steps", [10**30, -(10**30), 10**5000], ids=["large", "negative", "longer"])
def test_sizes_beyond_reason_are_refused(steps):
    with pytest.raises(UsageError, match="steps must be a whole number"):
        simulate(domains.tiger(), steps)
    with pytest.raises(UsageError, match="episodes must be a whole number"):
        simulate(domains.tiger(), 1, episodes=steps)


def test_only_a_pomdp_can_be_simulated():
    with pytest.raises(UsageError, match="got PSR"):
        simulate(domains.tiger().to_psr(), 10)
