"""Endings, first observations and rewards apart: what is expected of a log, and what is learned from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import naive
import unlatch
from sizes import sized
from unlatch import POMDP, LearnResult, Trajectory, learn_pomdp, match_states
from unlatch.cli import run
from unlatch.core.reading import Endings
from unlatch.errors import UsageError
from unlatch.learn.likelihood.forward_backward import expectation, expected_counts
from unlatch.learn.likelihood.parameters import (
    BLOCKS,
    ExpectedCounts,
    Parameters,
    encoded_log,
    parameters_of,
)
from unlatch.learn.likelihood.starts import random_parameters, single_state

EMISSIONS = ["departure", "arrival"]

# --- expected counts ------------------------------------------------------------------------------------


def short_log(model: POMDP, seed: int = 0) -> Trajectory:
    """Few enough steps an episode to sum over all paths; some episodes end, others are cut."""
    log = naive.simulate_episodes(model, np.random.default_rng(seed), episodes=12, longest=4)
    assert 0 < log.terminated.sum() < 12
    return log


@pytest.mark.parametrize("emission", EMISSIONS)
@pytest.mark.parametrize("everything", [True, False], ids=["all told", "endings only"])
def test_the_likelihood_is_a_sum_over_paths(emission: str, everything: bool) -> None:
    build = naive.random_episodic if everything else naive.random_episodic_pomdp
    model = build(np.random.default_rng(3), emission=emission)
    log = short_log(model)
    counts = expectation(model, log)
    assert counts.log_likelihood == pytest.approx(naive.log_probability(model, log), abs=1e-9)
    assert counts.log_likelihood == pytest.approx(model.log_likelihood(log), abs=1e-9)


def with_entry(parameters: Parameters, name: str, index: int, factor: float) -> Parameters:
    """One probability multiplied by a factor; its row is no distribution then, which the likelihood does not ask."""
    rows = getattr(parameters, name).copy()
    rows.flat[index] *= factor
    return replace(parameters, **{name: rows})


@pytest.mark.parametrize("emission", EMISSIONS)
def test_counts_are_the_slope_of_the_likelihood_along_the_logarithm_of_every_probability(
    emission: str,
) -> None:
    model = naive.random_episodic(np.random.default_rng(5), emission=emission)
    log = encoded_log(short_log(model), model)
    parameters = parameters_of(model)
    counts = expected_counts(parameters, log, emission=emission)  # type: ignore[arg-type]
    for name in BLOCKS:
        uses = getattr(counts, name)
        rows = getattr(parameters, name)
        assert uses.shape == rows.shape
        for index in np.flatnonzero(rows):
            up, down = (
                expected_counts(with_entry(parameters, name, index, np.exp(h)), log, emission=emission)  # type: ignore[arg-type]
                for h in (1e-5, -1e-5)
            )
            slope = (up.log_likelihood - down.log_likelihood) / 2e-5
            assert uses.flat[index] == pytest.approx(slope, abs=1e-6), (name, index)


@pytest.mark.parametrize("emission", EMISSIONS)
def test_counts_add_up_to_what_the_log_has(emission: str) -> None:
    model = naive.random_episodic(np.random.default_rng(5), emission=emission)
    log = short_log(model)
    counts = expectation(model, log)
    ends = list(model.terminal)
    assert counts.initial.sum() == pytest.approx(12)
    assert counts.transitions.sum() == pytest.approx(len(log))
    assert counts.transitions[:, :, ends].sum() == pytest.approx(log.terminated.sum())
    assert not counts.transitions[:, ends].any()
    assert not counts.initial[ends].any()
    assert counts.first is not None
    np.testing.assert_allclose(counts.first.sum(axis=0), np.bincount(log.first_observations))
    assert counts.rewards is not None
    np.testing.assert_allclose(
        counts.rewards.sum(axis=(0, 1)), np.bincount(np.searchsorted(model.reward_values, log.rewards))
    )
    moved = counts.reordered(np.array([2, 0, 1, 4, 3]))
    again = expectation(model.reordered([2, 0, 1, 4, 3]), log)
    for mine, its in zip(moved.blocks, again.blocks, strict=True):
        np.testing.assert_allclose(mine, its, atol=1e-9)


def test_what_the_model_does_not_know_is_left_out() -> None:
    model = naive.random_episodic(np.random.default_rng(5))
    log = short_log(model)
    plain = naive.random_pomdp(np.random.default_rng(1))
    encoded = encoded_log(log, plain)
    assert not encoded.tells_endings
    assert (encoded.first_names, len(encoded.reward_values), len(encoded)) == ((), 0, len(log))
    assert (encoded.pair_endings == Endings.UNTOLD).all()
    assert encoded_log(log, model).tells_endings
    assert len(encoded_log(log, model)) == len(log) + log.n_episodes
    without = replace(log, terminated=None, rewards=None, first_observations=None)
    assert expectation(plain, log).log_likelihood == expectation(plain, without).log_likelihood


def test_counts_of_nothing() -> None:
    model = naive.random_episodic(np.random.default_rng(5))
    nothing = expectation(model, short_log(model).head(0))
    assert nothing.log_likelihood == 0
    assert isinstance(nothing, ExpectedCounts)
    assert [block.any() for block in nothing.blocks] == [False] * 5


@pytest.mark.parametrize("emission", EMISSIONS)
def test_the_model_without_memory_ends_as_often_as_the_log(emission: str) -> None:
    model = naive.random_episodic(np.random.default_rng(5), emission=emission)
    log = naive.simulate_episodes(model, np.random.default_rng(0), episodes=40, longest=6)
    alone = single_state(encoded_log(log, rewards_apart=True), emission)  # type: ignore[arg-type]
    for action in range(2):
        taken = log.actions == action
        assert alone.transitions[action, 0, 1:].sum() == pytest.approx(log.terminated[taken].mean())
    last = np.unique(log.observations[log.terminated])
    assert alone.terminal.tolist() == [False] + [True] * (1 if emission == "departure" else len(last))
    for block in alone:
        np.testing.assert_allclose(block.sum(axis=-1), 1)
    for states in (1, 2, 4):
        drawn = random_parameters(
            encoded_log(log, rewards_apart=True), states, np.random.default_rng(0), emission  # type: ignore[arg-type]
        )  # fmt: skip
        assert (drawn.n_states, drawn.terminal.sum()) == (max(states, 2), 1)


# --- learning -------------------------------------------------------------------------------------------


def peaked(emission: str) -> POMDP:
    """Three states in a ring, the last of which tends to end the episode, above all under the second action."""
    ends = np.array([[0.02, 0.05, 0.2], [0.02, 0.02, 0.4]])
    ring = np.array([
        [[0.0, 0.9, 0.1], [0.1, 0.0, 0.9], [0.9, 0.1, 0.0]],
        [[0.9, 0.1, 0.0], [0.0, 0.9, 0.1], [0.1, 0.0, 0.9]],
    ])  # fmt: skip
    transitions = np.zeros((2, 4, 4))
    transitions[:, :3, :3] = ring * (1 - ends)[:, :, None]
    transitions[:, :3, 3], transitions[:, 3, 3] = ends, 1.0
    shown = np.array([[0.9, 0.1, 0.0], [0.0, 0.9, 0.1], [0.1, 0.0, 0.9], [0.0, 0.0, 1.0]])
    return POMDP(transitions, [shown, shown], [0.6, 0.3, 0.1, 0.0], emission, terminal=(3,))  # type: ignore[arg-type]


def episodes_of(emission: str, *, longest: int = 10_000, seed: int = 0) -> Trajectory:
    log = naive.simulate_episodes(
        peaked(emission), np.random.default_rng(seed), episodes=2_000, longest=longest
    )
    return log.head(sized(5_000, 300))


@pytest.fixture(scope="module", params=EMISSIONS)
def learned(request: pytest.FixtureRequest) -> tuple[LearnResult, POMDP]:
    emission = request.param
    return learn_pomdp(episodes_of(emission), rng=0), peaked(emission)


def ending_errors(pomdp: POMDP, truth: POMDP, log: Trajectory) -> np.ndarray:
    """By how many standard errors P(end | state, action) is off, were the states known."""
    aligned = pomdp.reordered(match_states(pomdp, truth))
    visits = expectation(truth, log).transitions.sum(axis=2)[:, :3]
    end = truth.transitions[:, :3, 3]
    return np.abs(aligned.transitions[:, :3, 3] - end) / np.sqrt(end * (1 - end) / visits)


@pytest.mark.compiled
def test_the_end_is_a_state_of_its_own(learned: tuple[LearnResult, POMDP]) -> None:
    result, truth = learned
    pomdp = result.pomdp
    assert (pomdp.n_states, pomdp.emission) == (4, truth.emission)
    assert (result.states, result.evidence.states) == (4, 4)
    assert pomdp.terminal == (3,)
    assert (pomdp.transitions[:, 3] == [0, 0, 0, 1]).all()
    assert pomdp.initial[3] == 0
    assert match_states(pomdp, truth)[3] == 3
    assert result.log_likelihood == pytest.approx(pomdp.log_likelihood(episodes_of(truth.emission)))
    assert result.log_likelihood > truth.log_likelihood(episodes_of(truth.emission))
    np.testing.assert_allclose(
        pomdp.reordered(match_states(pomdp, truth)).initial, truth.initial, atol=4 * np.sqrt(0.24 / 550)
    )
    assert "spectral_disagrees" not in result.diagnostics  # the end is no state of the spectral stages


@pytest.mark.compiled
def test_how_likely_the_end_is_from_every_state(learned: tuple[LearnResult, POMDP]) -> None:
    result, truth = learned
    assert ending_errors(result.pomdp, truth, episodes_of(truth.emission)).max() < 4


@pytest.mark.compiled
@pytest.mark.parametrize("emission", EMISSIONS)
def test_an_episode_that_was_cut_is_no_evidence_for_the_end(emission: str) -> None:
    truth = peaked(emission)
    log = episodes_of(emission, longest=5)
    cut = log.n_episodes - int(log.terminated.sum())
    assert cut > 0.4 * log.n_episodes  # taken for endings they would more than double these probabilities
    result = learn_pomdp(log, emission=emission, rng=0)  # type: ignore[arg-type]
    assert result.states == 4
    assert ending_errors(result.pomdp, truth, log).max() < 4


@pytest.mark.compiled
def test_a_learned_model_with_an_end_survives_a_file(
    learned: tuple[LearnResult, POMDP], tmp_path: Path
) -> None:
    result, truth = learned
    unlatch.save_model(tmp_path / "model.json", result)
    saved = unlatch.load_model(tmp_path / "model.json")
    assert saved.model == result.pomdp
    assert saved.evidence == result.evidence
    log = episodes_of(truth.emission)
    assert saved.model.log_likelihood(log) == result.log_likelihood


@pytest.mark.compiled
def test_a_learned_model_with_an_end_is_identified(learned: tuple[LearnResult, POMDP]) -> None:
    result, _ = learned
    assert result.identified.verdict == "determined"
    assert result.identified.dimension == 4


# --- several ends ---------------------------------------------------------------------------------------


def corridor_log(slip: float = 0.2, steps: int = 3_000) -> Trajectory:
    """Of a corridor between a trap, which costs one, and a goal, which pays one; rewards in a column of their own."""
    log = naive.simulate_episodes(naive.corridor(slip), np.random.default_rng(0), episodes=2_000).head(steps)
    names = ("near-trap", "near-goal", "trap", "goal")
    paid = np.array([0.0, 0.0, -1.0, 1.0])[log.observations]
    return replace(log, observation_names=names, rewards=paid)


@pytest.fixture(scope="module")
def corridor() -> POMDP:
    return learn_pomdp(corridor_log(steps=sized(3_000, 300)), rng=0).pomdp


@pytest.mark.compiled
def test_every_last_observation_of_the_state_reached_has_its_own_end(corridor: POMDP) -> None:
    truth = naive.corridor(0.2)
    assert corridor.emission == "arrival"
    assert corridor.terminal == (2, 3)
    order = match_states(replace(corridor, observation_names=truth.observation_names), truth)
    aligned = corridor.reordered(order)
    assert aligned.terminal == (2, 3)
    assert not aligned.initial[2:].any()
    np.testing.assert_allclose(aligned.transitions, truth.transitions, atol=0.08)
    np.testing.assert_allclose(aligned.observations, truth.observations, atol=0.05)
    assert aligned.rewards is not None
    np.testing.assert_allclose(aligned.rewards[:, :2], truth.rewards[:, :2], atol=0.1)


@pytest.mark.compiled
def test_a_plan_counts_no_reward_after_the_end(corridor: POMDP) -> None:
    """The goal pays once: a single step to it is worth at most one, whatever stands in the rows of the end."""
    assert corridor.rewards is not None
    assert not corridor.rewards[:, list(corridor.terminal)].any()
    planner = unlatch.POUCT(corridor, discount=0.95, simulations=2_000, rng=0)
    found = planner.search()
    assert corridor.action_names[found.action] == "right"
    assert 0 < found.values.max() < 1
    planner.observe("right", "near-goal", 0.0)
    assert corridor.action_names[planner.action()] == "right"
    played = unlatch.run_episodes(naive.corridor(0.2), planner, episodes=20, steps=30, rng=0)
    assert np.abs(played.rewards).max() <= 1
    assert played.ended.all()
    assert played.rewards.mean() > 0.3


# --- first observations ---------------------------------------------------------------------------------


@pytest.mark.compiled
def test_first_observations_tell_where_an_episode_begins() -> None:
    """Two states that never change and show little; what is shown first tells them apart nine times in ten."""
    truth = POMDP(
        transitions=[np.eye(2)],
        observations=[[[0.8, 0.2], [0.2, 0.8]]],
        initial=[0.7, 0.3],
        first_observations=[[0.9, 0.1], [0.1, 0.9]],
        first_observation_names=("dark", "bright"),
    )
    log = naive.simulate_episodes(truth, np.random.default_rng(0), episodes=sized(1_000, 40), longest=4)
    found = learn_pomdp(log, emission="departure", rng=0).pomdp
    assert (found.n_states, found.terminal) == (2, ())
    assert found.first_observation_names == ("dark", "bright")
    aligned = found.reordered(match_states(found, truth))
    np.testing.assert_allclose(aligned.first_observations, truth.first_observations, atol=0.06)
    np.testing.assert_allclose(aligned.initial, truth.initial, atol=0.06)
    shown = Trajectory([0], [0], found.action_names, found.observation_names)
    told = [
        replace(shown, first_observations=[k], first_observation_names=("dark", "bright")) for k in (0, 1)
    ]
    first = [aligned.state_probabilities(log)[0, 0] for log in told]
    assert first[0] > 0.95
    assert first[1] < 0.7


# --- what is asked for, and what is not told ------------------------------------------------------------


@pytest.mark.parametrize("emission", EMISSIONS)
def test_a_count_that_is_asked_for_includes_the_end(emission: str) -> None:
    log = episodes_of(emission).head(300)
    for states in (2, 3):
        result = learn_pomdp(log, states=states, emission=emission, rng=0)  # type: ignore[arg-type]
        assert (result.states, result.pomdp.terminal) == (states, (states - 1,))
        assert result.evidence.fixed
        assert np.isfinite(result.log_likelihood)


def test_a_limit_includes_the_end() -> None:
    log = corridor_log(steps=300)
    result = learn_pomdp(log, max_states=2, emission="arrival", rng=0)
    assert (result.states, result.pomdp.terminal) == (2, (1,))


@pytest.mark.parametrize("option", ["states", "max_states"])
def test_a_single_state_leaves_no_room_for_the_end(option: str) -> None:
    log = corridor_log(steps=300)
    with pytest.raises(UsageError, match=f"{option}=1, but the log has episodes that ended"):
        learn_pomdp(log, **{option: 1}, rng=0)  # type: ignore[arg-type]
    endless = replace(log, terminated=None)
    assert learn_pomdp(endless, **{option: 1}, rng=0).states == 1  # type: ignore[arg-type]


def test_a_log_that_tells_of_no_end_has_none() -> None:
    log = unlatch.simulate(unlatch.domains.tiger(), 300, episodes=3, rng=0)
    told = replace(log, terminated=np.zeros(len(log), dtype=bool))
    with_flags, without = (learn_pomdp(which, emission="departure", rng=0) for which in (told, log))
    assert with_flags.pomdp.terminal == ()
    assert with_flags.pomdp.n_states == without.pomdp.n_states
    assert "left_out" not in learn_pomdp(told, refine=None, rng=0).diagnostics


def test_the_spectral_model_says_what_it_leaves_out() -> None:
    model = naive.random_episodic_pomdp(np.random.default_rng(0), first=2, ending=0.02)
    log = naive.simulate_episodes(model, np.random.default_rng(0), episodes=40)
    result = learn_pomdp(log, refine=None, rank=1, rng=0)
    assert result.pomdp.terminal == ()
    note = next(note for note in result.diagnostics if note.name == "left_out")
    assert "endings and first observations" in note.message
    assert np.isfinite(result.log_likelihood)


# --- the command line -----------------------------------------------------------------------------------


@pytest.mark.compiled
def test_from_a_table_with_endings_to_a_plan(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log, model = str(tmp_path / "log.csv"), str(tmp_path / "model.json")
    unlatch.write_log(log, corridor_log(steps=sized(1_000, 300)))
    assert "terminated" in Path(log).read_text(encoding="utf-8").splitlines()[0]
    assert run(["learn", log, "-o", model, "--seed", "1", "--emission", "arrival"]) == 0
    learned = unlatch.load_model(model).model
    assert isinstance(learned, POMDP)
    assert learned.terminal == (2, 3)
    capfd.readouterr()
    told = ["--reward", "learned", "--simulations", "200", "--episodes", "10", "--seed", "1"]
    assert run(["plan", model, *told]) == 0
    assert "return over at most 10 steps" in capfd.readouterr().out


def test_episodes_of_a_single_step_are_enough_if_there_are_many() -> None:
    """No window fits into one, and with arrival emission the state that is left never shows anything."""
    rng = np.random.default_rng(0)
    steps = 1_500
    first, actions = rng.integers(2, size=steps), rng.integers(2, size=steps)
    right = rng.random(steps) < 0.9
    log = Trajectory(
        actions,
        np.where(right, first ^ actions, 1 - (first ^ actions)),
        terminated=np.ones(steps, dtype=bool),
        first_observations=first,
    )
    result = learn_pomdp(log, rng=0)
    assert "spectral_refused" in result.diagnostics
    pomdp = result.pomdp
    assert pomdp.n_states - len(pomdp.terminal) == 2
    assert pomdp.first_observations[:2].max(axis=1).min() > 0.85
