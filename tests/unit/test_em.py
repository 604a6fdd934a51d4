"""Expected counts and EM: exactness, monotony, honesty about what the log does not say."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from unlatch import POMDP, Trajectory, domains, learn_em, simulate
from unlatch.core.pomdp import Emission
from unlatch.core.progress import listening
from unlatch.errors import BeliefCollapseError, NotLearnableError, NumericalError, UsageError
from unlatch.learn.baselines import baum_welch as em_module
from unlatch.learn.baselines.baum_welch import EMResult
from unlatch.learn.likelihood.forward_backward import expectation, expected_counts
from unlatch.learn.likelihood.parameters import (
    ExpectedCounts,
    Parameters,
    encoded_log,
    maximization,
    parameters_of,
)
from unlatch.learn.likelihood.starts import random_parameters

EMISSIONS = pytest.mark.parametrize("emission", ["departure", "arrival"])


def random_pomdp(
    seed: int, states: int = 3, actions: int = 2, symbols: int = 3, emission: Emission = "departure"
) -> POMDP:
    rng = np.random.default_rng(seed)
    return POMDP(
        transitions=rng.dirichlet(np.ones(states), (actions, states)),
        observations=rng.dirichlet(np.ones(symbols), (actions, states)),
        initial=rng.dirichlet(np.ones(states)),
        emission=emission,
    )


def same_counts(one: ExpectedCounts, other: ExpectedCounts) -> bool:
    return (
        one.log_likelihood == other.log_likelihood
        and np.array_equal(one.initial, other.initial)
        and np.array_equal(one.transitions, other.transitions)
        and np.array_equal(one.observations, other.observations)
    )


def assert_valid(result: EMResult) -> None:
    """Finite rows that sum to one within 1e-12, and a likelihood that never fell."""
    model = result.pomdp
    for rows in (model.transitions, model.observations, model.initial):
        assert np.isfinite(rows).all()
        assert (rows >= 0).all()
        assert np.abs(rows.sum(axis=-1) - 1).max() < 1e-12
    history = result.log_likelihoods
    assert (np.diff(history) >= -1e-9 * np.abs(history[1:]) - 1e-11).all()
    assert history[-1] == result.log_likelihood == result.start_log_likelihoods.max()
    assert len(history) == result.iterations + 1


# expected counts


@EMISSIONS
@pytest.mark.parametrize("states", [2, 4, 5, 9])
def test_likelihood_of_the_counts_is_the_filters(states: int, emission: Emission) -> None:
    model = random_pomdp(states, states, emission=emission)
    log = simulate(model, 700, episodes=3, rng=0)
    counts = expectation(model, log)
    assert counts.log_likelihood == pytest.approx(model.log_likelihood(log), rel=1e-12)
    assert counts.observations.sum() == pytest.approx(len(log), rel=1e-12)
    assert counts.initial.sum() == pytest.approx(3, rel=1e-12)
    shown = np.zeros((2, 3))
    np.add.at(shown, (log.actions, log.observations), 1)
    np.testing.assert_allclose(counts.observations.sum(axis=1), shown, rtol=1e-12)


@EMISSIONS
@pytest.mark.parametrize("model", [domains.tiger(), domains.tmaze(3)], ids=["dense", "sparse"])
def test_neither_threads_nor_blocks_change_the_counts(model: POMDP, emission: Emission) -> None:
    log = simulate(model, 3000, episodes=2, rng=1)
    steps, parameters = encoded_log(log, model), parameters_of(model)
    if emission == "arrival":  # another model with the same zeros would make the log impossible
        parameters = random_parameters(steps, model.n_states, np.random.default_rng(0))
    whole = expected_counts(parameters, steps, emission=emission, threads=1)
    assert same_counts(whole, expected_counts(parameters, steps, emission=emission, threads=2))
    for length in (2, 7, 5000):
        blocked = expected_counts(parameters, steps, emission=emission, block_length=length)
        np.testing.assert_allclose(blocked.transitions, whole.transitions, rtol=1e-11, atol=1e-11)
        assert blocked.log_likelihood == pytest.approx(whole.log_likelihood, rel=1e-13)


def test_long_logs_are_counted_in_short_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    model = domains.tiger()
    log = simulate(model, 5000, rng=0)
    whole = expectation(model, log)
    monkeypatch.setattr("unlatch.learn.likelihood.lanes.WORK_PER_CALL", 1)
    for threads in (1, 2):
        steps = encoded_log(log, model)
        assert same_counts(whole, expected_counts(parameters_of(model), steps, threads=threads))


def test_memory_does_not_grow_with_steps_times_states(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_pomdp(0, 20)
    log = simulate(model, 200_000, rng=0)
    steps, parameters = encoded_log(log, model), parameters_of(model)
    kept = expected_counts(parameters, steps)
    monkeypatch.setattr("unlatch.learn.likelihood.lanes.KEPT_NUMBERS", 100_000)
    expected_counts(parameters, steps)
    tracemalloc.start()
    blocked = expected_counts(parameters, steps)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200_000 * 20  # one byte per step and state; the forward messages alone would take eight
    assert blocked.log_likelihood == pytest.approx(kept.log_likelihood, rel=1e-13)
    np.testing.assert_allclose(blocked.transitions, kept.transitions, rtol=1e-10)


def test_pairs_are_numbered_alike_by_table_and_by_sorting(monkeypatch: pytest.MonkeyPatch) -> None:
    log = simulate(domains.tmaze(2), 500, rng=0)
    by_table = encoded_log(log)
    monkeypatch.setattr("unlatch.learn.likelihood.parameters.MAX_TABLE", 0)
    by_sorting = encoded_log(log)
    for field in ("symbols", "pair_actions", "pair_observations", "pair_counts"):
        np.testing.assert_array_equal(getattr(by_table, field), getattr(by_sorting, field))
    assert by_table.symbols.dtype == by_sorting.symbols.dtype == np.uint32
    np.testing.assert_array_equal(by_table.pair_actions[by_table.symbols], log.actions)
    np.testing.assert_array_equal(by_table.pair_observations[by_table.symbols], log.observations)
    assert by_table.seen.sum() == 500


@EMISSIONS
@pytest.mark.parametrize("states", [3, 6])
def test_counts_over_probabilities_are_the_gradient(states: int, emission: Emission) -> None:
    model = random_pomdp(7, states, emission=emission)
    log = simulate(model, 60, episodes=2, rng=2)
    steps, parameters = encoded_log(log, model), parameters_of(model)
    counts = expected_counts(parameters, steps, emission=emission)
    rng = np.random.default_rng(0)
    for field, expected in (("initial", counts.initial), ("transitions", counts.transitions),
                            ("observations", counts.observations)):  # fmt: skip
        rows = getattr(parameters, field)
        direction = rng.standard_normal(rows.shape) * rows
        direction -= rows * direction.sum(axis=-1, keepdims=True)  # stay on the simplex

        def likelihood(
            size: float, field: str = field, rows: np.ndarray = rows, direction: np.ndarray = direction
        ) -> float:
            moved = replace(parameters, **{field: rows + size * direction})
            return expected_counts(moved, steps, emission=emission).log_likelihood

        slope = (likelihood(1e-5) - likelihood(-1e-5)) / 2e-5
        assert slope == pytest.approx(float((expected / rows * direction).sum()), rel=1e-6, abs=1e-6)


def test_counts_of_an_empty_log_are_zero() -> None:
    model = domains.tiger()
    empty = Trajectory([], [], model.action_names, model.observation_names)
    counts = expectation(model, empty)
    assert counts.log_likelihood == 0
    assert counts.transitions.sum() == counts.observations.sum() == counts.initial.sum() == 0


def test_an_impossible_log_is_refused_with_the_step() -> None:
    model = domains.sense_float_reset(3)
    log = simulate(model, 50, rng=0)
    symbols = log.observations.copy()
    step = int(np.flatnonzero(log.actions == model.action_names.index("float"))[3])
    symbols[step] = model.observation_names.index("1|0")
    wrong = Trajectory(log.actions, symbols, log.action_names, log.observation_names)
    with pytest.raises(BeliefCollapseError, match=f"step {step}"):
        expectation(model, wrong)


def test_rows_without_counts_keep_their_values() -> None:
    previous = Parameters(np.array([0.5, 0.5]), np.full((1, 2, 2), 0.5), np.full((1, 2, 2), 0.5))
    counts = ExpectedCounts(
        np.array([1.0, 0]), np.array([[[3.0, 1], [0, 0]]]), np.array([[[1.0, 3], [0, 1e-300]]]), 0.0
    )
    following = maximization(counts, previous)
    np.testing.assert_array_equal(following.transitions[0], [[0.75, 0.25], [0.5, 0.5]])
    np.testing.assert_array_equal(following.observations[0], [[0.25, 0.75], [0.5, 0.5]])


# EM


@EMISSIONS
@pytest.mark.parametrize("seed", range(25))
def test_the_likelihood_never_falls(seed: int, emission: Emission) -> None:
    model = random_pomdp(seed, 2 + seed % 4, emission=emission)
    log = simulate(model, 150, episodes=1 + seed % 3, rng=seed)
    result = learn_em(log, 2 + seed % 5, iterations=100, tolerance=0, emission=emission, rng=seed, force=True)
    assert_valid(result)
    assert result.pomdp.log_likelihood(log) == pytest.approx(result.log_likelihood, rel=1e-11)


def test_a_falling_likelihood_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    log = simulate(domains.tiger(), 500, rng=0)
    shuffled = random_parameters(encoded_log(log), 2, np.random.default_rng(9))
    before = expected_counts(shuffled, encoded_log(log)).log_likelihood
    assert before < learn_em(log, 2, iterations=5, rng=0).log_likelihood - 1
    steps = iter([maximization] * 5)
    monkeypatch.setattr(em_module, "maximization", lambda *given: next(steps, lambda *_: shuffled)(*given))
    with pytest.raises(NumericalError, match="iteration 6: the log-likelihood fell"):
        learn_em(log, 2, rng=0)


def test_twelve_starts_find_tiger_where_one_may_fail() -> None:
    model = domains.tiger()
    log = simulate(model, 10_000, rng=0)
    result = learn_em(log, 2, starts=12, rng=0)
    assert_valid(result)
    assert result.log_likelihood >= model.log_likelihood(log)
    assert len(result.start_log_likelihoods) == 12
    assert result.start_log_likelihoods.min() < result.log_likelihood - 100
    assert "starts_disagree" not in result.diagnostics
    listening_rows = result.pomdp.observations[0]
    assert np.abs(np.sort(listening_rows.max(axis=1)) - 0.85).max() < 0.03
    np.testing.assert_allclose(result.pomdp.transitions[0], np.eye(2), atol=0.02)
    assert result.pomdp.symbol_rewards is not None
    assert result.pomdp.emission == "departure"


@pytest.mark.parametrize("model", [domains.tiger(), domains.tmaze(2), domains.sense_float_reset(5)])
def test_the_truth_is_nearly_a_fixed_point(model: POMDP) -> None:
    log = simulate(model, 20_000, rng=3)
    result = learn_em(log, model.n_states, initial_model=model, iterations=30, rng=0)
    assert_valid(result)
    truth = model.log_likelihood(log)
    assert result.log_likelihoods[0] == pytest.approx(truth, rel=1e-12)
    free = np.count_nonzero(model.transitions) + np.count_nonzero(model.observations)
    assert truth <= result.log_likelihood < truth + free
    assert (result.pomdp.transitions == 0).sum() >= (model.transitions == 0).sum()


def test_exact_expected_counts_give_back_the_model() -> None:
    model = domains.directional_hallway()
    belief = model.stationary()[None, :, None]
    counts = ExpectedCounts(
        model.initial, 1e6 * belief * model.transitions, 1e6 * belief * model.observations, 0.0
    )
    again = maximization(counts, parameters_of(model))
    for rows, expected in zip(again, parameters_of(model), strict=True):
        np.testing.assert_allclose(rows, expected, atol=1e-15)


def test_agrees_with_hmmlearn_on_one_action() -> None:
    hmm = pytest.importorskip("hmmlearn.hmm")
    truth, start = random_pomdp(0, 4, 1, 6), random_pomdp(1, 4, 1, 6)
    log = simulate(truth, 20_000, episodes=2, rng=0)
    iterations = 15
    rival = hmm.CategoricalHMM(
        4, n_iter=iterations, tol=-np.inf, init_params="", implementation="scaling", n_features=6
    )
    rival.startprob_, rival.transmat_ = start.initial.copy(), start.transitions[0].copy()
    rival.emissionprob_ = start.observations[0].copy()
    rival.fit(log.observations[:, None], [20_000, 20_000])
    result = learn_em(log, 4, initial_model=start, iterations=iterations, tolerance=0, rng=0)
    history = np.array(rival.monitor_.history)
    np.testing.assert_allclose(result.log_likelihoods[iterations - len(history) : -1], history, rtol=1e-9)
    score = rival.score(log.observations[:, None], [20_000, 20_000])
    assert result.log_likelihood == pytest.approx(score, rel=1e-9)


def test_arrival_models_are_learned_too() -> None:
    model = POMDP(
        transitions=[[[0.9, 0.1], [0.2, 0.8]], [[0.1, 0.9], [0.7, 0.3]]],
        observations=[[[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.1], [0.2, 0.8]]],
        initial=[0.5, 0.5],
        emission="arrival",
    )
    log = simulate(model, 20_000, rng=0)
    result = learn_em(log, 2, starts=4, emission="arrival", rng=0)
    assert result.pomdp.emission == "arrival"
    assert result.log_likelihood >= model.log_likelihood(log)
    order = np.argsort(-result.pomdp.observations[0, :, 0])
    np.testing.assert_allclose(result.pomdp.reordered(order).transitions, model.transitions, atol=0.05)


def test_a_starved_state_keeps_valid_rows_and_is_named() -> None:
    start = POMDP(
        transitions=[[[1.0, 0.0], [0.3, 0.7]]],
        observations=[[[0.5, 0.5], [0.25, 0.75]]],
        initial=[1.0, 0.0],
    )
    log = simulate(random_pomdp(0, 2, 1, 2), 500, rng=0)
    result = learn_em(log, 2, initial_model=start, rng=0)
    assert_valid(result)
    starved = result.diagnostics["starved_states"].details["states"]
    assert len(starved) == 1
    np.testing.assert_array_equal(result.pomdp.observations[0, starved[0]], [0.25, 0.75])
    assert result.counts.observations[0, starved[0]].sum() == 0
    assert "unvisited_transitions" in result.diagnostics


def test_many_states_for_little_variety_never_give_undefined_rows() -> None:
    log = Trajectory([0] * 400, [0, 1] * 200)
    for seed in range(5):
        assert_valid(learn_em(log, 6, iterations=300, rng=seed))


def test_an_untried_action_is_marked_and_has_valid_rows() -> None:
    log = Trajectory([0, 1] * 100, [0, 0, 1, 1] * 50, action_names=("go", "stay", "jump"))
    result = learn_em(log, 2, rng=0)
    assert_valid(result)
    assert result.diagnostics["never_tried"].details["actions"] == ["jump"]
    np.testing.assert_array_equal(result.pomdp.transitions[2], np.eye(2))
    np.testing.assert_array_equal(result.pomdp.observations[2], np.full((2, 2), 0.5))


def test_not_converged_is_said() -> None:
    log = simulate(domains.tiger(), 2000, rng=0)
    result = learn_em(log, 2, iterations=3, rng=0)
    assert not result.converged
    assert result.iterations == 3
    assert "not_converged" in result.diagnostics
    done = learn_em(log, 2, iterations=2000, tolerance=1e-3, rng=0)
    assert done.converged
    assert "not_converged" not in done.diagnostics
    assert done.log_likelihoods[-1] - done.log_likelihoods[-2] <= 1e-3


def test_lone_winners_among_the_starts_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    log = simulate(domains.tiger(), 2000, rng=0)
    monkeypatch.setattr(em_module, "SAME_SUMMIT", 1e-12)
    result = learn_em(log, 2, starts=3, iterations=20, rng=0)
    assert result.diagnostics["starts_disagree"].details["log_likelihoods"] == pytest.approx(
        result.start_log_likelihoods
    )


def test_more_parameters_than_steps_are_refused_unless_forced() -> None:
    log = simulate(domains.tiger(), 60, rng=0)
    with pytest.raises(NotLearnableError, match="force=True"):
        learn_em(log, 8, rng=0)
    assert_valid(learn_em(log, 8, force=True, iterations=50, rng=0))
    with pytest.raises(NotLearnableError, match="no steps"):
        learn_em(Trajectory([], [], ("a",), ("o",)), 2)


def test_constant_observations_carry_one_state_only() -> None:
    log = Trajectory([0, 1] * 100, [0, 1] * 100)
    with pytest.raises(NotLearnableError, match="states=1"):
        learn_em(log, 2, rng=0)
    result = learn_em(log, 1, rng=0)
    assert result.log_likelihood == pytest.approx(0, abs=1e-9)
    assert result.converged
    assert_valid(learn_em(log, 3, force=True, rng=0))


def test_rewards_become_part_of_the_symbols() -> None:
    log = Trajectory([0, 0, 1, 1] * 50, [0, 1, 0, 1] * 50, rewards=[0.0, 1.0, 1.0, 0.0] * 50)
    result = learn_em(log, 2, rng=0)
    assert result.pomdp.observation_names == ("0|0", "0|1", "1|0", "1|1")
    np.testing.assert_array_equal(result.pomdp.symbol_rewards, [0, 1, 0, 1])
    assert result.pomdp.log_likelihood(log) == pytest.approx(result.log_likelihood, rel=1e-9, abs=1e-9)


def test_the_same_seed_gives_the_same_bits() -> None:
    log = simulate(domains.tmaze(), 1000, rng=0)
    one = learn_em(log, 4, starts=2, iterations=20, rng=5, threads=1)
    other = learn_em(log, 4, starts=2, iterations=20, rng=5, threads=2)
    assert one.pomdp == other.pomdp
    assert one.seed == 5
    drawn = learn_em(log, 4, iterations=5)
    assert drawn.seed is not None
    assert learn_em(log, 4, iterations=5, rng=drawn.seed).pomdp == drawn.pomdp
    assert learn_em(log, 4, iterations=5, rng=np.random.default_rng(0)).seed is None


def test_results_are_read_only_and_input_is_left_alone() -> None:
    log = simulate(domains.tiger(), 500, rng=0)
    before = log.actions.copy(), log.observations.copy()
    result = learn_em(log, 2, iterations=5, rng=0)
    np.testing.assert_array_equal(log.actions, before[0])
    np.testing.assert_array_equal(log.observations, before[1])
    for array in (result.log_likelihoods, result.start_log_likelihoods, result.counts.transitions):
        assert not array.flags.writeable
    assert repr(result).startswith("EMResult(POMDP(2 states")


def test_progress_is_told() -> None:
    heard: list[tuple[str, float, float]] = []
    log = simulate(domains.tiger(), 300, rng=0)
    with listening(lambda *news: heard.append(news)):
        learn_em(log, 2, starts=2, iterations=10, rng=0)
    fractions = [done / total for stage, done, total in heard if stage == "EM"]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1


@pytest.mark.parametrize(
    "options",
    [
        {"states": 0},
        {"states": 2.5},
        {"states": True},
        {"states": 2, "starts": 0},
        {"states": 2, "iterations": 0},
        {"states": 2, "tolerance": float("nan")},
        {"states": 2, "emission": "sideways"},
        {"states": 3, "initial_model": domains.tiger()},
        {"states": 2, "initial_model": domains.tiger(), "emission": "arrival"},
        {"states": 2, "rng": -1},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object]) -> None:
    log = simulate(domains.tiger(), 100, rng=0)
    with pytest.raises(UsageError):
        learn_em(log, **options)  # type: ignore[arg-type]
