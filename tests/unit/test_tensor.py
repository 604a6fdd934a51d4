"""The tensor baseline recovers what one action determines, and says why it cannot where none does."""

from __future__ import annotations

import numpy as np
import pytest

from unlatch import (
    POMDP,
    TensorResult,
    count_sequences,
    domains,
    estimate_hankel,
    exact_hankel,
    factorize,
    fit_psr,
    learn_tensor,
    simulate,
)
from unlatch.compare.match_states import match_states
from unlatch.core.pomdp import Emission
from unlatch.errors import NotLearnableError, UnlatchError, UsageError
from unlatch.learn.baselines.tensor import leaks, learn_tensor_from_hankel


def random_pomdp(states: int, observations: int, actions: int, emission: Emission, seed: int) -> POMDP:
    rng = np.random.default_rng(seed)
    return POMDP(
        transitions=rng.dirichlet(np.full(states, 0.5), size=(actions, states)),
        observations=rng.dirichlet(np.full(observations, 0.5), size=(actions, states)),
        initial=np.full(states, 1 / states),
        emission=emission,
    )


def learn_exactly(truth: POMDP, histories: int = 2, tests: int = 1, **options: object) -> TensorResult:
    hankel = exact_hankel(truth, history_length=histories, test_length=tests)
    return learn_tensor_from_hankel(hankel, rng=0, **options)  # type: ignore[arg-type]


def largest_error(learned: POMDP, truth: POMDP) -> float:
    matched = learned.reordered(match_states(learned, truth))
    return max(
        float(np.abs(matched.transitions - truth.transitions).max()),
        float(np.abs(matched.observations - truth.observations).max()),
    )


def reasons(truth: POMDP, histories: int, tests: int) -> str:
    with pytest.raises(NotLearnableError) as failure:
        learn_exactly(truth, histories, tests)
    return str(failure.value)


# --- where it applies -----------------------------------------------------------------------------------


def test_tiger_is_recovered_exactly_through_listen() -> None:
    result = learn_exactly(domains.tiger())
    assert result.action == "listen"
    assert result.rank == 2
    assert largest_error(result.pomdp, domains.tiger()) < 1e-8
    assert [v.applies for v in result.verdicts] == [True, False, False]
    assert [str(v) for v in result.verdicts[1:]] == [
        "open-left: transition matrix has rank 1 of 2",
        "open-right: transition matrix has rank 1 of 2",
    ]
    assert [v.observation_rank for v in result.verdicts] == [2, 2, 2]
    assert result.verdicts[0].condition == pytest.approx(1 / 0.7)


@pytest.mark.parametrize("emission", ["departure", "arrival"])
@pytest.mark.parametrize("seed", range(3))
def test_random_pomdp_with_more_symbols_than_states_is_recovered_exactly(
    emission: Emission, seed: int
) -> None:
    truth = random_pomdp(3, 5, 2, emission, seed)
    result = learn_exactly(truth, emission=emission)
    assert all(v.applies for v in result.verdicts)
    assert result.pomdp.emission == emission
    assert largest_error(result.pomdp, truth) < 1e-8


def test_any_applicable_action_gives_the_same_model_and_the_best_conditioned_is_the_default() -> None:
    truth = random_pomdp(3, 4, 3, "departure", 7)
    default = learn_exactly(truth)
    assert default.action == min(default.verdicts, key=lambda v: v.condition).action
    for action in truth.action_names:
        result = learn_exactly(truth, action=action)
        assert result.action == action
        assert largest_error(result.pomdp, truth) < 1e-8


def test_rewards_make_sense_float_reset_with_three_states_learnable_through_sense() -> None:
    truth = domains.sense_float_reset(3)
    result = learn_exactly(truth)
    assert result.action == "sense"
    assert largest_error(result.pomdp, truth) < 1e-8
    floating, reset, _ = map(str, result.verdicts)
    assert floating.startswith("float: observation matrix has rank 2 of 3: 2 states show the same (0|0 1.00)")
    assert reset == "reset: transition matrix has rank 1 of 3"


def test_failing_doors_make_the_shortest_tmaze_learnable_through_up_or_down() -> None:
    truth = domains.tmaze(1, fail=0.1)
    result = learn_exactly(truth)
    assert result.action in ("up", "down")
    assert largest_error(result.pomdp, truth) < 1e-8


def test_tiger_from_a_log() -> None:
    truth = domains.tiger()
    result = learn_tensor(simulate(truth, 100_000, rng=1), rng=0)
    assert result.action == "listen"
    assert result.rank == 2
    assert largest_error(result.pomdp, truth) < 0.03
    assert all("above the noise" in v.reason for v in result.verdicts[1:])


def test_one_state_is_no_special_case() -> None:
    result = learn_exactly(random_pomdp(1, 3, 2, "departure", 0))
    assert result.rank == 1
    assert largest_error(result.pomdp, random_pomdp(1, 3, 2, "departure", 0)) < 1e-12


# --- where it does not, and why -------------------------------------------------------------------------


def test_sense_float_reset_with_four_states_fails_with_its_reasons() -> None:
    message = reasons(domains.sense_float_reset(4), 3, 2)
    assert "float: transition matrix has rank 3 of 4, observation matrix rank 2 of 4" in message
    assert "reset: transition matrix has rank 1 of 4" in message
    assert "sense: observation matrix has rank 3 of 4: 2 states show the same (0|0 1.00)" in message


def test_sense_float_reset_without_rewards_fails_with_its_reasons() -> None:
    message = reasons(domains.sense_float_reset(3, reward=False), 3, 2)
    assert "float: observation matrix has rank 1 of 3: all 3 states show the same (0 1.00)" in message
    assert "reset: transition matrix has rank 1 of 3" in message
    assert "sense: observation matrix has rank 2 of 3: 2 states show the same (0 1.00)" in message


def test_tmaze_fails_with_its_reasons() -> None:
    message = reasons(domains.tmaze(1), 2, 1)
    for action in ("left", "right"):
        assert (
            f"{action}: observation matrix has rank 3 of 4: 2 states show the same (rm_1|0 1.00)" in message
        )
    for action in ("up", "down"):
        assert f"{action}: transition matrix has rank 3 of 4" in message


def test_longer_tmaze_fails_even_where_doors_fail() -> None:
    message = reasons(domains.tmaze(2, fail=0.1), 3, 2)
    assert "up: observation matrix has rank 5 of 6: 2 states show the same (rm_2|0 1.00)" in message


def test_directional_hallway_fails_with_its_reasons() -> None:
    message = reasons(domains.directional_hallway(), 3, 2)
    same = "2 states show the same (end-left 0.80, end-right 0.20), 2 symbols for 3 states"
    assert f"left: observation matrix has rank 2 of 3: {same}" in message
    assert "stay: observation matrix has rank 1 of 3: all 3 states show the same" in message
    assert "reset: transition matrix has rank 1 of 3" in message


def test_distinct_rows_are_not_enough() -> None:
    message = reasons(domains.noisy_hallway(), 3, 2)
    assert (
        "left: observation matrix has rank 2 of 3: the rows of different states are linearly dependent, "
        "2 symbols for 3 states"
    ) in message


def test_sense_float_reset_fails_from_a_log() -> None:
    log = simulate(domains.sense_float_reset(4), 300_000, rng=2)
    with pytest.raises(NotLearnableError) as failure:
        learn_tensor(log, rank=4, history_length=3, test_length=2, rng=0)
    assert "2 states show the same within noise (0|0 1.00)" in str(failure.value)
    assert "float: transition matrix has rank 3 of 4 above the noise" in str(failure.value)


def test_singular_doors_are_not_taken_for_full_rank_by_the_grace_of_noise() -> None:
    for seed in range(5):
        log = simulate(domains.tmaze(1), 20_000, rng=seed)
        with pytest.raises(NotLearnableError, match="there is none"):
            learn_tensor(log, rank=4, history_length=2, test_length=1, rng=0)


def test_an_action_that_does_not_apply_cannot_be_asked_for() -> None:
    with pytest.raises(NotLearnableError, match=r"'open-left' is not such an action\. listen: .*rank 1 of 2"):
        learn_exactly(domains.tiger(), action="open-left")


def test_an_action_that_was_never_tried_is_named() -> None:
    log = simulate(domains.tiger(), 20_000, policy=[0.5, 0.5, 0.0], rng=0)
    result = learn_tensor(log, history_length=2, test_length=1, rng=0)
    assert result.action == "listen"
    assert result.verdicts[2].transition_rank == 0
    assert "never tried" in result.verdicts[2].reason


# --- wrong rank -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("truth", "rank"), [(domains.tiger(), 1), (domains.sense_float_reset(3), 2)])
def test_too_low_a_rank_is_noticed(truth: POMDP, rank: int) -> None:
    hankel = exact_hankel(truth, history_length=2, test_length=1)
    with pytest.raises(NotLearnableError, match=f"more than {rank} states"):
        learn_tensor_from_hankel(hankel, factorize(hankel, rank=rank), rng=0)
    log = simulate(truth, 50_000, rng=0)
    with pytest.raises(NotLearnableError, match=f"more than {rank} states"):
        learn_tensor(log, rank=rank, history_length=2, test_length=1, rng=0)


def test_windows_that_hide_a_state_are_noticed() -> None:
    with pytest.raises(NotLearnableError, match=r"more than 3 states.*longer histories and tests"):
        learn_exactly(domains.sense_float_reset(4), 2, 1)


def test_too_high_a_rank_is_noticed() -> None:
    hankel = exact_hankel(domains.tiger(), history_length=2, test_length=1)
    with pytest.raises(NotLearnableError, match="rank 3 was asked for, but the Hankel matrix has rank 2"):
        learn_tensor_from_hankel(hankel, factorize(hankel, rank=3), rng=0)
    log = simulate(domains.tiger(), 50_000, rng=0)
    with pytest.raises(NotLearnableError, match="listen: transition matrix has rank 2 of 3 above the noise"):
        learn_tensor(log, rank=3, history_length=2, test_length=1, rng=0)


# --- contract -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [20, 60, 200, 1000])
@pytest.mark.parametrize(
    "truth",
    [domains.tiger(), domains.sense_float_reset(3), domains.tmaze(1), domains.noisy_hallway()],
    ids=["tiger", "sense-float-reset", "tmaze", "hallway"],
)
def test_short_logs_give_probabilities_or_a_declared_error(truth: POMDP, steps: int) -> None:
    for seed in range(3):
        log = simulate(truth, steps, rng=seed)
        try:
            with np.errstate(invalid="raise", divide="raise"):
                learned = learn_tensor(log, history_length=2, test_length=1, rng=0).pomdp
        except UnlatchError:
            continue
        for rows in (learned.transitions, learned.observations, learned.initial):
            assert np.isfinite(rows).all()
            np.testing.assert_allclose(rows.sum(axis=-1), 1.0)


def test_same_seed_same_result() -> None:
    log = simulate(domains.tiger(), 5_000, rng=3)
    first, second = (learn_tensor(log, history_length=2, test_length=1, rng=5) for _ in range(2))
    assert first.pomdp == second.pomdp
    assert first.verdicts == second.verdicts
    assert first.seed == second.seed == 5


def test_a_drawn_seed_repeats_the_result() -> None:
    log = simulate(domains.tiger(), 5_000, rng=3)
    first = learn_tensor(log, history_length=2, test_length=1)
    assert first.pomdp == learn_tensor(log, history_length=2, test_length=1, rng=first.seed).pomdp


def test_options_are_checked_before_anything_is_counted() -> None:
    log = simulate(domains.tiger(), 100, rng=0)
    with pytest.raises(UsageError, match="unknown action 'look'; the log has listen, open-left, open-right"):
        learn_tensor(log, action="look")
    with pytest.raises(UsageError, match="emission"):
        learn_tensor(log, emission="sideways")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="draws"):
        learn_tensor(log, draws=0)


@pytest.mark.parametrize("scaling", ["noise", "none"])
def test_what_leads_out_of_the_right_rank_is_about_the_noise(scaling):
    """With factors that were taken for orthonormal it was a quarter to a half of it, and one rank too few passed."""
    log = simulate(domains.tiger(), 50_000, rng=3)
    hankel = estimate_hankel(count_sequences(log, history_length=2, test_length=1))
    right = factorize(hankel, rank=2, scaling=scaling, rng=0)
    for outside, noise in leaks(hankel, right, fit_psr(hankel, right)):
        assert 0.6 < outside / noise < 1.6
    short = factorize(hankel, rank=1, scaling=scaling, rng=0)
    assert max(outside / noise for outside, noise in leaks(hankel, short, fit_psr(hankel, short))) > 100
