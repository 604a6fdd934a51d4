"""From a log to a POMDP: the one call, its options, and logs that carry too little."""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import pytest

import naive
from unlatch import (
    POMDP,
    Trajectory,
    count_sequences,
    domains,
    estimate_hankel,
    exact_hankel,
    factorize,
    find_similarity,
    fit_psr,
    learn_from_hankel,
    learn_pomdp,
    learn_psr,
    recover_pomdp,
    simulate,
)
from unlatch.compare.errors import observation_l1_all
from unlatch.core.progress import listening
from unlatch.errors import DataError, NotLearnableError, UsageError

learn_spectral = partial(learn_pomdp, refine=None)

TIGER = simulate(domains.tiger(), 50_000, rng=0)


@pytest.fixture(scope="module")
def tiger():
    return learn_spectral(TIGER, rng=1)


# --- the whole call ---------------------------------------------------------------------------------------


def test_every_intermediate_is_kept(tiger):
    spectral = tiger.spectral
    assert tiger.states == tiger.pomdp.n_states == spectral.rank == spectral.factorization.rank == 2
    assert tiger.partition == spectral.partition == spectral.partition_model.partition
    assert tiger.full_rank_actions == spectral.full_rank_actions == (0,)
    assert spectral.counts.steps == tiger.steps == 50_000
    assert (tiger.seed, tiger.episodes, tiger.complete) == (1, 1, True)
    assert np.array_equal(spectral.singular_values, spectral.factorization.singular_values)
    assert spectral.psr == fit_psr(spectral.hankel, spectral.factorization)
    assert tiger.pomdp == spectral.pomdp == recover_pomdp(spectral.psr, spectral.similarity)
    assert spectral.partition_model.psr == spectral.psr.transformed(spectral.similarity.matrix)
    assert tiger.log_likelihood == tiger.pomdp.log_likelihood(TIGER)
    assert (tiger.evidence, tiger.search, spectral.refusal) == (None, None, None)
    assert "LearnResult(POMDP(2 states" in repr(tiger)
    assert "SpectralResult(rank 2, POMDP(2 states" in repr(spectral)


@pytest.mark.parametrize("rotation", ["cells", "dense"])
def test_the_call_is_its_stages(rotation):
    """The same generator handed from stage to stage gives what the one call gives."""
    log = simulate(domains.tmaze(), 50_000, rng=0)
    rng = np.random.default_rng(1)
    hankel = estimate_hankel(count_sequences(log, history_length=2, test_length=1))
    factorization = factorize(hankel, rotate=rotation == "dense", rng=rng)
    psr = fit_psr(hankel, factorization)
    similarity = find_similarity(psr, cell_basis="none" if rotation == "dense" else "nonnegative", rng=rng)
    result = learn_spectral(log, history_length=2, test_length=1, rotation=rotation, rng=1)
    assert not result.partition.is_trivial
    assert np.array_equal(result.spectral.similarity.matrix, similarity.matrix)
    assert result.spectral.pomdp == recover_pomdp(psr, similarity)


@pytest.mark.parametrize("source", [7, np.random.default_rng(7)])
def test_the_same_seed_gives_the_same_result(source):
    result = learn_spectral(TIGER, rng=source)
    again = learn_spectral(TIGER, rng=7)
    assert result.pomdp == again.pomdp
    assert np.array_equal(result.spectral.similarity.matrix, again.spectral.similarity.matrix)
    assert [str(note) for note in result.diagnostics] == [str(note) for note in again.diagnostics]
    assert (result.seed, again.seed) == (7 if source == 7 else None, 7)


def test_a_drawn_seed_is_recorded_and_repeats_the_result():
    first = learn_spectral(TIGER)
    assert learn_spectral(TIGER, rng=first.seed).pomdp == first.pomdp


def test_nothing_of_the_log_is_changed(tiger):
    assert simulate(domains.tiger(), 50_000, rng=0) == TIGER
    for array in (
        tiger.pomdp.transitions,
        tiger.spectral.psr.updates,
        tiger.spectral.similarity.matrix,
        tiger.spectral.singular_values,
    ):
        assert not array.flags.writeable


def test_the_user_s_floating_point_settings_do_not_matter():
    for log in (TIGER, simulate(domains.tmaze(), 50_000, rng=0)):
        expected = learn_spectral(log, rng=0)
        with np.errstate(all="raise"):
            strict = learn_spectral(log, rng=0)
            likelihood = strict.pomdp.log_likelihood(log)
        with np.errstate(all="ignore"):
            assert learn_spectral(log, rng=0).pomdp == expected.pomdp
        assert strict.pomdp == expected.pomdp
        assert likelihood == expected.pomdp.log_likelihood(log)
    with np.errstate(all="raise"):
        exact = exact_hankel(domains.sense_float_reset(4), history_length=4, test_length=3)
        assert learn_from_hankel(exact, rng=0).rank == 4


def test_diagnostics_of_the_log_come_along():
    log = Trajectory(TIGER.actions.astype(float), TIGER.observations)
    assert "float_symbols" in learn_spectral(log, rng=0).diagnostics


def test_progress_is_told_stage_by_stage():
    heard = []
    with listening(lambda stage, done, total: heard.append((stage, 0 <= done <= total))):
        learn_spectral(TIGER, rng=0)
    assert {stage for stage, _ in heard} == {
        "counting",
        "estimating",
        "factorizing",
        "diagonalizing",
        "examining the log",
        "filtering",
    }
    assert all(sane for _, sane in heard)


# --- options ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ({"history_length": 3, "test_length": 1}, (3, 1)),
        ({"history_length": 3}, (3, 2)),
        ({"test_length": 2}, (3, 2)),
        ({"history_length": 2}, (2, 1)),
        ({}, (2, 1)),
    ],
)
def test_lengths(lengths, expected):
    hankel = learn_spectral(TIGER, rng=0, **lengths).spectral.hankel
    assert (hankel.history_length, hankel.test_length) == expected


def test_lengths_grow_while_that_reveals_states():
    """Three states of Sense-Float-Reset do not show in single pairs: reset and sense look at state 0 only."""
    log = simulate(domains.sense_float_reset(4), 500_000, rng=0)
    grown = learn_spectral(log, rng=0)
    assert grown.states == 4
    assert grown.spectral.hankel.test_length > 1
    assert learn_spectral(log, history_length=2, test_length=1, rng=0).states < 4


def test_a_fixed_rank_and_thresholds_are_obeyed():
    lengths = {"history_length": 2, "test_length": 1}
    result = learn_spectral(TIGER, rank=1, rng=0, **lengths)
    assert result.states == result.spectral.rank == 1
    assert learn_spectral(TIGER, rank_tolerance=0.9, rng=0, **lengths).states == 1
    assert learn_spectral(TIGER, max_rank=1, rng=0, **lengths).states == 1
    merged = learn_spectral(TIGER, observation_tolerance=2.0, rng=0, **lengths)
    assert merged.partition.n_cells == 1
    every = learn_spectral(TIGER, rank=2, min_singular_value=0.0, rng=0, **lengths)
    assert every.full_rank_actions == (0, 1, 2)


def test_the_paper_s_variant(tiger):
    """One draw, no refinement, one dense rotation: where every state stands alone it agrees with ours."""
    paper = learn_spectral(
        TIGER, history_length=2, test_length=1, draws=1, newton=False, rotation="dense", rng=0
    )
    assert np.abs(paper.pomdp.transitions - tiger.pomdp.transitions).max() < 0.05
    turned = paper.spectral.factorization.left.T @ (
        paper.spectral.hankel.matrix @ paper.spectral.factorization.right
    )
    assert np.abs(turned - np.diag(np.diag(turned))).max() > 1e-3


@pytest.mark.parametrize(
    "options",
    [
        {"rotation": "none"},
        {"emission": "sideways"},
        {"rank": 0},
        {"rank_tolerance": 2.0},
        {"draws": 0},
        {"history_length": 1, "test_length": 1},
        {"rng": "seed"},
    ],
)
def test_options_that_make_no_sense(options):
    with pytest.raises(UsageError, match=next(iter(options))):
        learn_spectral(TIGER, **options)


def test_the_psr_alone():
    psr = learn_psr(TIGER, rng=1)
    assert psr.rank == 2
    truth = naive.stationary_start(domains.tiger()).to_psr()
    for a in range(3):
        for o in range(6):
            assert psr.probability([a, 0], [o, 0]) == pytest.approx(
                truth.probability([a, 0], [o, 0]), abs=0.01
            )
    assert learn_psr(TIGER, rank=3, rng=1).rank == 3


def test_learning_from_an_exact_matrix_factorizes_it_by_itself():
    exact = exact_hankel(domains.tiger(), history_length=2, test_length=1)
    result = learn_from_hankel(exact, rng=4)
    assert (result.rank, result.counts, result.refusal) == (2, None, None)
    assert result.pomdp == learn_from_hankel(exact, rng=4).pomdp


# --- logs that carry too little ---------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_too_short(steps):
    with pytest.raises(NotLearnableError, match=f"has {steps} steps; windows of length 3 need at least 4"):
        learn_spectral(Trajectory([0] * steps, [0] * steps))


def test_the_shortest_log_that_will_do():
    """With a given rank four steps hold the windows that are needed; to find it takes a try in every block."""
    for steps in (4, 5):
        assert learn_spectral(Trajectory([0] * steps, [0] * steps), rank=1, rng=0).states == 1
    assert learn_spectral(Trajectory([0] * 9, [0] * 9), rng=0).states == 1
    with pytest.raises(NotLearnableError, match="8 steps are too few to tell states from noise"):
        learn_spectral(Trajectory([0] * 8, [0] * 8), rng=0)


@pytest.mark.parametrize("steps", [5, 12, 25, 60])
def test_a_short_log_is_no_reason_to_see_many_states(steps):
    """Sequences tried once show no noise; they must not pass for states."""
    for seed in range(5):
        try:
            found = learn_spectral(simulate(domains.tiger(), steps, rng=seed), rng=0).states
        except NotLearnableError:
            continue
        assert found <= 2


def test_too_short_for_the_lengths_asked_for():
    with pytest.raises(NotLearnableError, match="has 20 steps; windows of length 30 need at least 31"):
        learn_spectral(TIGER.head(20), history_length=20, test_length=10)


@pytest.mark.parametrize("actions", [1, 2, 3])
def test_a_constant_observation_is_one_state(rng, actions):
    log = Trajectory(rng.integers(0, actions, 2000), np.zeros(2000, dtype=int))
    result = learn_spectral(log, rng=0)
    assert result.states == 1
    np.testing.assert_allclose(result.pomdp.transitions, 1)
    np.testing.assert_allclose(result.pomdp.observations, 1)


@pytest.mark.parametrize("actions", [1, 2])
def test_a_constant_observation_does_not_hide_two_states(rng, actions):
    log = Trajectory(rng.integers(0, actions, 2000), np.zeros(2000, dtype=int))
    with pytest.raises(NotLearnableError, match="rank 2 was asked for, but the Hankel matrix has rank 1"):
        learn_spectral(log, rank=2, rng=0)


def test_coin_flips_are_one_state(rng):
    log = Trajectory(np.zeros(20_000, dtype=int), rng.choice(2, 20_000, p=[0.3, 0.7]))
    result = learn_spectral(log, rng=0)
    assert result.states == 1
    np.testing.assert_allclose(result.pomdp.observations[0, 0], [0.3, 0.7], atol=0.02)


def test_one_action_is_enough(rng):
    model = POMDP(
        transitions=[[[0.9, 0.1], [0.3, 0.7]]], observations=[[[0.9, 0.1], [0.2, 0.8]]], initial=[0.5, 0.5]
    )
    result = learn_spectral(simulate(model, 300_000, rng=0), rng=0)
    assert result.states == 2
    assert naive.distance_up_to_relabeling(result.pomdp, naive.stationary_start(model)) < 0.05


@pytest.mark.parametrize("word", ["abc", "aabxb"])
def test_no_other_count_scores_higher_than_that_of_a_cycle(word):
    """A second state to begin in, as likely as the first, is no way round saying where the episode began."""
    shown = [word[t % len(word)] for t in range(300)]
    evidence = learn_pomdp(Trajectory.from_symbols(["go"] * 300, shown), rng=1).evidence
    assert evidence.states == len(word)
    assert max(evidence.scores.values()) == 0


@pytest.mark.parametrize("period", [2, 3, 5])
def test_a_deterministic_cycle_is_learned_exactly(period):
    log = Trajectory(np.zeros(6000, dtype=int), np.arange(6000) % period)
    pomdp = learn_spectral(log, rng=0).pomdp
    assert pomdp.n_states == period
    truth = POMDP(
        transitions=[np.roll(np.eye(period), 1, axis=1)],
        observations=[np.eye(period)],
        initial=np.full(period, 1 / period),
    )
    assert naive.distance_up_to_relabeling(pomdp, truth) < 1e-3


@pytest.mark.parametrize("lengths", [{"history_length": 2, "test_length": 1}])
def test_a_rank_beyond_the_matrix_names_the_largest(lengths):
    with pytest.raises(NotLearnableError, match=r"rank 11 was asked for, .* allow 10 at most"):
        learn_spectral(TIGER, rank=11, **lengths)


def test_no_full_rank_action():
    """Every action is a reset of its own; what is seen still has two states behind it."""
    model = POMDP(
        transitions=[[[0.8, 0.2]] * 2, [[0.3, 0.7]] * 2],
        observations=[[[0.9, 0.1], [0.1, 0.9]], [[0.2, 0.8], [0.8, 0.2]]],
        initial=[0.5, 0.5],
        action_names=["here", "there"],
    )
    log = simulate(model, 100_000, rng=0)
    assert learn_psr(log, rng=0).rank == 2
    with pytest.raises(
        NotLearnableError,
        match=r"full rank 2 above the noise; smallest singular values: here \S+ \(needs .*there",
    ):
        learn_spectral(log, emission="departure", rng=0)


def test_a_declared_action_that_was_never_tried():
    log = Trajectory(
        TIGER.actions,
        TIGER.observations,
        (*TIGER.action_names, "run"),
        TIGER.observation_names,
        TIGER.rewards,
    )
    result = learn_spectral(log, rng=0)
    assert result.diagnostics["never_tried"].details == {"actions": ["run"]}
    assert 3 not in result.full_rank_actions
    assert result.pomdp.action_names[3] == "run"
    np.testing.assert_allclose(
        result.pomdp.transitions[:3], learn_spectral(TIGER, rng=0).pomdp.transitions, atol=1e-9
    )


def test_a_declared_observation_that_never_came():
    log = Trajectory(
        TIGER.actions, TIGER.observations, TIGER.action_names, (*TIGER.observation_names, "roar")
    )
    result = learn_spectral(log, rng=0)
    assert result.states == 2
    assert np.abs(result.pomdp.observations[:, :, 6]).max() < 0.01


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rewards_that_are_no_numbers_never_reach_the_learner(value):
    rewards = TIGER.rewards.copy()
    rewards[123] = value
    with pytest.raises(DataError, match=rf"rewards\[123\] is {value}"):
        learn_spectral(Trajectory(TIGER.actions, TIGER.observations, rewards=rewards))


def test_rewards_apart_from_observations_are_learned_as_pairs(tiger):
    """Two sounds and a reward column are the six symbols of the domain."""
    sounds = np.array([0 if name.startswith("hear-left") else 1 for name in TIGER.observation_names])
    log = Trajectory(
        TIGER.actions,
        sounds[TIGER.observations],
        TIGER.action_names,
        ("hear-left", "hear-right"),
        TIGER.rewards,
    )
    result = learn_spectral(log, rng=1)
    assert set(result.pomdp.observation_names) == set(domains.tiger().observation_names)
    assert result.pomdp.log_likelihood(log) == pytest.approx(tiger.pomdp.log_likelihood(TIGER), abs=0.1)
    assert np.sort(result.pomdp.rewards[1]).tolist() == pytest.approx([-100, 10], abs=3)


def same_wherever_one_was() -> POMDP:
    """Every action leads where it leads from anywhere: two states show themselves, but no action has full rank."""
    return POMDP(
        transitions=[[[0.9, 0.1]] * 2, [[0.2, 0.8]] * 2],
        observations=[[[0.9, 0.1], [0.2, 0.8]]] * 2,
        initial=[0.5, 0.5],
    )


@pytest.mark.slow
def test_without_a_full_rank_action_the_most_likely_model_comes_back():
    truth = same_wherever_one_was()
    log = simulate(truth, 20_000, rng=1)
    result = learn_pomdp(log, emission="departure", rng=0)
    assert result.states == 2
    assert result.full_rank_actions == ()
    assert "no action's transition matrix shows full rank 2" in result.diagnostics["spectral_refused"].message
    assert result.spectral.pomdp is result.spectral.similarity is result.spectral.partition is None
    assert (result.spectral.refusal.singular_values < result.spectral.refusal.thresholds).all()
    assert result.spectral.psr.rank == 2
    assert result.pomdp.log_likelihood(log) > truth.log_likelihood(log)
    with pytest.raises(NotLearnableError, match="full rank"):
        learn_pomdp(log, emission="departure", refine=None, rng=0)


def test_likelihood_goes_on_where_the_spectral_stages_refuse():
    """Actions that react to observations bias the frequencies, but not the likelihood."""
    truth = domains.tiger()
    policy = np.full((truth.n_observations, truth.n_actions), 0.15)
    policy[np.arange(truth.n_observations), np.arange(truth.n_observations) % 3] = 0.7
    log = dataclasses.replace(simulate(truth, 20_000, policy=policy, rng=0), probabilities=None)
    with pytest.raises(NotLearnableError):
        learn_spectral(log, rng=0)
    result = learn_pomdp(log, rng=0)
    assert result.states == 2
    assert "spectral_refused" in result.diagnostics
    assert observation_l1_all(result.pomdp, truth) < 0.05
