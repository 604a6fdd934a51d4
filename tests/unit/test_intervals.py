"""How sure every number of a model is: standard errors by several routes, edges, draws, what follows from them."""

from __future__ import annotations

import io
import os
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import naive
from unlatch import (
    POMDP,
    Entry,
    ExactPlanner,
    Intervals,
    Trajectory,
    bootstrap,
    design,
    domains,
    identify,
    learn_pomdp,
    match_states,
    refine,
    simulate,
    uncertainty,
)
from unlatch.core.intervals import KINDS
from unlatch.errors import DataError, NotLearnableError, ResourceLimitError, UsageError
from unlatch.learn.intervals.sets import open_sets
from unlatch.learn.intervals.uncertainty import Uncertainty
from unlatch.learn.pipeline import LearnResult
from unlatch.show.screen import Screen
from unlatch.show.summary import interval_sentences, summarize_pomdp, summarize_result
from unlatch.show.text import print_csv, print_summary

LEVEL = 0.9


def fitted(truth: POMDP, log: Trajectory) -> POMDP:
    """The maximum near the truth, started as a learned model is."""
    found = refine(truth, log, zeros=False).pomdp
    if truth.terminal:
        return found
    return replace(
        found, initial=found.stationary(np.bincount(log.actions, minlength=truth.n_actions) / len(log))
    )


@pytest.fixture(scope="module")
def tiger() -> LearnResult:
    return learn_pomdp(simulate(domains.tiger(), 4_000, rng=3), rng=0)


def errors_of(sure: Uncertainty) -> np.ndarray:
    return np.sqrt(np.diag(sure.covariance().matrix))


# --- standard errors --------------------------------------------------------------------------------------


def seen_process(rng: np.random.Generator) -> POMDP:
    """Nothing hidden: every state shows itself on arrival, whatever the action."""
    return POMDP(
        transitions=rng.dirichlet(np.ones(3), size=(2, 3)),
        observations=np.tile(np.eye(3), (2, 1, 1)),
        initial=np.full(3, 1 / 3),
        emission="arrival",
    )


def test_where_nothing_is_hidden_a_number_is_a_share_of_visits() -> None:
    truth = seen_process(np.random.default_rng(0))
    log = simulate(truth, 20_000, rng=1)
    model = fitted(truth, log)
    found = uncertainty(model, log).intervals(LEVEL)
    states = np.concatenate([[-1], log.observations[:-1]])
    for a in range(2):
        for s in range(3):
            visits = ((log.actions == a) & (states == s)).sum()
            p = model.transitions[a, s]
            np.testing.assert_allclose(
                found.standard_errors.transitions[a, s], np.sqrt(p * (1 - p) / visits), rtol=0.04
            )


def test_an_outcome_that_never_came_is_bounded_as_exact_counting_has_it() -> None:
    truth = replace(
        seen_process(np.random.default_rng(0)),
        transitions=np.array([np.roll(np.eye(3), 1, axis=1), np.full((3, 3), 1 / 3)]),
    )
    log = simulate(truth, 3_000, rng=1)
    found = uncertainty(fitted(truth, log), log).intervals(LEVEL)
    states = np.concatenate([[-1], log.observations[:-1]])
    visits = ((log.actions == 0) & (states == 0)).sum()
    exact = 1 - 0.1 ** (1 / visits)
    np.testing.assert_allclose(found.transitions[0, 0, 0], [0, exact], rtol=0.02)
    np.testing.assert_allclose(found.transitions[0, 0, 1], [1 - exact, 1], rtol=1e-3)


def dense_arrival() -> POMDP:
    rng = np.random.default_rng(5)
    return POMDP(
        transitions=rng.dirichlet(np.ones(2), size=(2, 2)),
        observations=np.tile([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], (2, 1, 1)),
        initial=np.array([0.5, 0.5]),
        emission="arrival",
    )


SYSTEMS = [domains.tiger(), domains.tmaze(), dense_arrival()]


@pytest.mark.parametrize("truth", SYSTEMS, ids=["tiger", "tmaze", "dense arrival"])
def test_scores_of_blocks_agree_with_second_differences(truth: POMDP) -> None:
    log = simulate(truth, 60_000, rng=2)
    model = fitted(truth, log)
    one, other = (errors_of(uncertainty(model, log, method=method)) for method in ("scores", "differences"))  # type: ignore[arg-type]
    assert np.median(one / other) == pytest.approx(1.0, abs=0.02)
    assert np.mean(np.abs(one / other - 1) < 0.08) > 0.9


def test_where_the_model_fits_the_sandwich_is_no_other() -> None:
    log = simulate(domains.tiger(), 60_000, rng=2)
    model = fitted(domains.tiger(), log)
    plain, robust = (errors_of(uncertainty(model, log, method=method)) for method in ("scores", "sandwich"))  # type: ignore[arg-type]
    assert np.median(robust / plain) == pytest.approx(1.0, abs=0.1)


def test_where_the_model_does_not_fit_the_sandwich_sees_the_true_scatter() -> None:
    """One state for a process that stays where it is for long: runs of equal symbols are taken for independent ones."""
    sticky = POMDP(
        transitions=np.array([[[0.98, 0.02], [0.02, 0.98]]]),
        observations=np.eye(2)[None],
        initial=np.array([0.5, 0.5]),
    )
    shares, errors = [], {"scores": [], "sandwich": []}
    for seed in range(40):
        log = simulate(sticky, 4_000, rng=seed)
        share = np.bincount(log.observations, minlength=2) / len(log)
        model = POMDP(np.ones((1, 1, 1)), share[None, None], np.ones(1))
        shares.append(share[0])
        for method, found in errors.items():
            found.append(errors_of(uncertainty(model, log, method=method))[0])  # type: ignore[arg-type]
    scatter = np.std(shares)
    assert np.mean(errors["scores"]) < 0.3 * scatter
    assert 0.7 * scatter < np.mean(errors["sandwich"]) < 1.3 * scatter


@pytest.mark.parametrize("kind", ["parametric", "block"])
def test_other_logs_scatter_as_the_information_says(kind: str) -> None:
    log = simulate(domains.tiger(), 3_000, rng=5)
    model = fitted(domains.tiger(), log)
    stated = uncertainty(model, log).intervals().standard_errors
    found = bootstrap(model, log, kind=kind, replicates=60, rng=0)  # type: ignore[arg-type]
    assert len(found) == 60
    for name in ("transitions", "observations"):
        said, seen = getattr(stated, name), getattr(found.standard_errors, name)
        free = np.isfinite(said)
        assert np.median(said[free] / seen[free]) == pytest.approx(1.0, abs=0.2)
    bounds = found.intervals(0.5)
    assert (bounds.observations[..., 0] <= bounds.observations[..., 1]).all()


def test_episodes_are_drawn_whole() -> None:
    box = domains.lockbox(1)
    log = simulate(box, 20, total=1_500, rng=1)
    model = fitted(box, log)
    stated = uncertainty(model, log).intervals().standard_errors.observations
    seen = bootstrap(model, log, kind="block", replicates=40, rng=0).standard_errors.observations
    free = np.isfinite(stated)
    assert np.median(stated[free] / seen[free]) == pytest.approx(1.0, abs=0.3)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    truth = domains.tiger()
    inside = (truth.observations > 0) & (truth.observations < 1)
    hits, edges = [], []
    for seed in range(40):
        log = simulate(truth, 2_000, rng=seed)
        bounds = uncertainty(fitted(truth, log), log).intervals(LEVEL).observations
        held = (bounds[..., 0] <= truth.observations) & (truth.observations <= bounds[..., 1])
        hits.append(held[inside].mean())
        edges.append(held[~inside].mean())
    assert 0.84 < np.mean(hits) < 0.96  # some three standard errors of so few logs
    assert np.mean(edges) >= 0.87


def test_rows_that_all_actions_share_are_surer() -> None:
    truth = domains.frozen_lake(lake=["SF", "FG"], observe="row")
    log = simulate(truth, 30, total=3_000, rng=0)
    blurred = replace(truth, observations=0.9 * truth.observations + 0.1 * truth.observations[:, ::-1])
    log = simulate(replace(blurred, first_observations=None), 30, total=3_000, rng=0)
    model = fitted(replace(blurred, first_observations=None), log)
    pooled = replace(model, observations=np.repeat(model.observations.mean(axis=0)[None], 4, axis=0))
    alone, together = (
        uncertainty(pooled, log, shared=shared).intervals().standard_errors.observations
        for shared in (False, True)
    )
    free = np.isfinite(alone) & np.isfinite(together)
    assert free.any()
    assert np.median(together[free] / alone[free]) < 0.75
    np.testing.assert_array_equal(together[0], together[3])
    entries = uncertainty(pooled, log, shared=True).covariance().entries
    assert all(entry.action is None for entry in entries if entry.kind == "observations")


# --- the edge, and what is not there -----------------------------------------------------------------------


def episodic_log(emission: str) -> tuple[POMDP, Trajectory]:
    model = naive.random_episodic(np.random.default_rng(3), emission=emission)
    return model, naive.simulate_episodes(model, np.random.default_rng(4), episodes=400, longest=6)


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_endings_first_observations_and_rewards_beside_have_intervals(emission: str) -> None:
    truth, log = episodic_log(emission)
    found = uncertainty(refine(truth, log, zeros=False).pomdp, log).intervals(LEVEL)
    for kind in KINDS:
        bounds, rows = getattr(found, kind), getattr(truth, kind)
        assert bounds.shape == (*rows.shape, 2)
        assert (bounds >= 0).all()
        assert (bounds <= 1).all()
        assert (bounds[..., 0] <= bounds[..., 1]).all()
        assert not bounds.flags.writeable
    terminal = list(truth.terminal)
    assert (found.verdicts.transitions[:, terminal] == "by definition").all()
    np.testing.assert_array_equal(found.transitions[..., 0][:, terminal], truth.transitions[:, terminal])
    held = (found.first_observations[..., 0] <= truth.first_observations) & (
        truth.first_observations <= found.first_observations[..., 1]
    )
    assert held.mean() > 0.7


def test_the_estimate_lies_in_its_interval(tiger: LearnResult) -> None:
    found = tiger.intervals()
    for kind, bounds in found.rows.items():
        values = getattr(tiger.pomdp, kind)
        assert (bounds[..., 0] <= values).all()
        assert (values <= bounds[..., 1]).all()


def test_a_single_episode_tells_nothing_about_its_start(tiger: LearnResult) -> None:
    assert (tiger.intervals().verdicts.initial == "never observed").all()
    np.testing.assert_array_equal(tiger.intervals().initial, [[0, 1], [0, 1]])


def test_several_episodes_tell_where_they_begin() -> None:
    truth = replace(domains.tiger(), initial=np.array([0.2, 0.8]))
    log = simulate(truth, 4, episodes=1_000, rng=1)
    low, high = uncertainty(refine(truth, log, zeros=False).pomdp, log).intervals().initial[0]
    assert low < 0.2 < high < 0.3


def test_an_action_never_tried_is_never_observed() -> None:
    names = (*domains.tiger().action_names, "pull")
    log = simulate(domains.tiger(), 3_000, rng=1)
    result = learn_pomdp(replace(log, action_names=names), states=2, emission="departure", rng=0)
    found = result.intervals()
    assert (found.verdicts.transitions[3] == "never observed").all()
    np.testing.assert_array_equal(found.observations[3, ..., 0], 0)
    np.testing.assert_array_equal(found.observations[3, ..., 1], 1)
    assert np.isnan(found.standard_errors.transitions[3]).all()


def test_the_only_outcome_that_there_is_needs_no_log() -> None:
    log = Trajectory(np.zeros(300, dtype=int), np.random.default_rng(0).integers(0, 2, 300))
    found = learn_pomdp(log, states=1, rng=0).intervals()
    np.testing.assert_array_equal(found.initial, [[1.0, 1.0]])
    assert found.verdicts.transitions.item() == "by definition"


def test_what_no_log_determines_has_a_set_and_no_standard_error() -> None:
    truth = domains.unidentifiable_pair()[0]
    log = simulate(truth, 5_000, rng=0)
    identification = identify(truth, rng=0)
    sets, examined = open_sets(truth, identification)
    sure = replace(uncertainty(fitted(truth, log), log), open_sets=sets, examined=examined)
    found = sure.intervals()
    bounded = found.verdicts.transitions == "bounded"
    assert bounded.any()
    assert np.isnan(found.standard_errors.transitions[bounded]).all()
    np.testing.assert_array_equal(found.transitions[bounded], np.tile([0.0, 1.0], (bounded.sum(), 1)))
    rows = (
        ("transitions", identification.transition_rows),
        ("observations", identification.observation_rows),
    )
    for kind, words in rows:  # those that are proved all the same, and no others
        proved = np.broadcast_to(words[..., None] == "identified", getattr(truth, kind).shape)
        np.testing.assert_array_equal(getattr(found.verdicts, kind) == "identified", proved)
        bounds, true = getattr(found, kind)[proved], getattr(truth, kind)[proved]
        assert ((bounds[:, 0] <= true) & (true <= bounds[:, 1])).all()
        assert np.median(bounds[:, 1] - bounds[:, 0]) < 0.02
        assert (bounds[:, 1] - bounds[:, 0]).max() < 1


def test_a_bootstrap_is_the_same_whoever_fits() -> None:
    log = simulate(domains.tiger(), 1_000, rng=0)
    for kind in ("parametric", "block"):
        here, there = (
            bootstrap(domains.tiger(), log, kind=kind, replicates=4, engine=engine, rng=0)  # type: ignore[arg-type]
            for engine in (None, 2)
        )
        np.testing.assert_array_equal(here.estimates.transitions, there.estimates.transitions)
        assert not np.array_equal(here.estimates.transitions[0], here.estimates.transitions[1])


@pytest.mark.parametrize("method", ["delta", "draws"])
def test_an_interval_reaches_to_the_models_that_predict_the_same(method: str) -> None:
    truth = domains.unidentifiable_pair()[0]
    log = simulate(truth, 5_000, rng=0)
    sure = uncertainty(fitted(truth, log), log)
    one, other = identify(sure.pomdp, rng=0).extremes or ()
    wider = replace(sure, equals=(one, other))

    def both(of: Uncertainty, function: Any) -> Any:
        return of.interval_of(function, method=method, draws=20)  # type: ignore[arg-type]

    low, high = np.moveaxis(both(wider, lambda model: model.transitions), -1, 0)
    for model in (one, other):
        assert (low <= model.transitions).all()
        assert (model.transitions <= high).all()
    np.testing.assert_allclose(  # what can be seen is the same for all of them
        both(wider, lambda model: model.predict(model.initial)),
        both(sure, lambda model: model.predict(model.initial)),
        atol=0.01,  # twenty draws
    )


def test_a_determined_model_is_called_identified(tiger: LearnResult) -> None:
    assert tiger.identified.identified
    assert set(tiger.intervals().verdicts.transitions.ravel()) == {"identified"}


def test_a_small_number_may_be_zero_unless_a_step_proves_it() -> None:
    """Two of a thousand steps showed a third symbol: less than two standard errors above zero, but seen."""
    observations = np.concatenate([np.zeros(500, int), np.ones(498, int), [2, 2]])
    log = Trajectory(np.zeros(1_000, dtype=int), np.random.default_rng(0).permutation(observations))
    model = POMDP(np.ones((1, 1, 1)), np.array([[[0.5, 0.498, 0.002]]]), np.ones(1))
    low, high = uncertainty(model, log).intervals(LEVEL).observations[0, 0, 2]
    assert 0 < low < 0.001
    assert 0.004 < high < 0.007


# --- covariance, draws, functions --------------------------------------------------------------------------


def test_the_covariance_says_what_its_indices_are(tiger: LearnResult) -> None:
    found = tiger.covariance()
    assert found.matrix.shape == (len(found.entries),) * 2
    np.testing.assert_allclose(found.matrix, found.matrix.T)
    a, s = 0, 0
    o = int(tiger.pomdp.observations[a, s].argmax())
    index = found.index("observations", action=a, state=s, outcome=o)
    assert index is not None
    assert found.entries[index] == Entry("observations", a, s, o)
    error = tiger.intervals().standard_errors.observations[a, s, o]
    assert np.sqrt(found.matrix[index, index]) == pytest.approx(error)
    row = [i for i, entry in enumerate(found.entries) if entry[:3] == ("observations", a, s)]
    np.testing.assert_allclose(found.matrix[row].sum(axis=0), 0, atol=1e-12)  # rows sum to one
    assert found.index("initial", outcome=0) is None


def test_draws_scatter_as_the_covariance_says(tiger: LearnResult) -> None:
    models = tiger.draws(400, rng=0)
    stacked = np.stack([model.observations for model in models])
    errors = tiger.intervals().standard_errors.observations
    free = np.isfinite(errors)
    np.testing.assert_allclose(stacked.std(axis=0)[free] / errors[free], 1, atol=0.15)
    np.testing.assert_array_equal((stacked == 0).all(axis=0), tiger.pomdp.observations == 0)
    again = tiger.draws(400, rng=0)
    np.testing.assert_array_equal(again[-1].transitions, models[-1].transitions)
    frequencies = np.bincount(tiger.search.hypothesis.log.actions) / tiger.steps  # type: ignore[union-attr]
    np.testing.assert_allclose(models[0].initial, models[0].stationary(frequencies))


def test_an_interval_of_a_number_is_that_of_the_function_that_reads_it(tiger: LearnResult) -> None:
    direct = tiger.intervals().observations[0]
    free = np.isfinite(tiger.intervals().standard_errors.observations[0])
    slope, drawn = (
        tiger.interval_of(lambda model: model.observations[0], method=method) for method in ("delta", "draws")
    )
    np.testing.assert_allclose(slope[free], direct[free], atol=4e-3)
    np.testing.assert_allclose(drawn[free], direct[free], atol=6e-3)


def test_shares_and_beliefs_have_intervals(tiger: LearnResult) -> None:
    log = simulate(domains.tiger(), 5, rng=1)
    bounds = tiger.interval_of(lambda model: model.belief(log))
    assert bounds.shape == (2, 2)
    assert (bounds[:, 0] < tiger.pomdp.belief(log)).all()
    low, high = tiger.interval_of(lambda model: model.stationary()[0], method="draws", draws=100)
    assert low < 0.5 < high


def test_matched_states_make_the_truth_comparable(tiger: LearnResult) -> None:
    order = match_states(tiger.pomdp, domains.tiger())
    bounds = tiger.intervals().observations[0][order]
    names = tiger.pomdp.observation_names
    left = bounds[0, names.index("hear-left|-1")]
    assert left[0] < 0.85 < left[1]


# --- what to log next ---------------------------------------------------------------------------------------


def test_as_many_steps_as_needed_bring_the_widest_interval_under_the_width() -> None:
    truth, log = domains.tiger(), simulate(domains.tiger(), 4_000, rng=3)
    sure = uncertainty(fitted(truth, log), log)
    now = sure.intervals().width(sure.intervals().widest)  # type: ignore[arg-type]
    found = sure.needs(now / 2, rng=0)
    assert found.now == pytest.approx(now)
    assert found.steps is not None
    assert found.steps_as_before is not None
    assert found.steps <= 1.05 * found.steps_as_before
    assert found.steps_as_before == pytest.approx(3 * len(log), rel=0.25)  # errors fall with the square root
    assert found.action_probabilities.sum() == pytest.approx(1)
    assert sum(found.action_steps.values()) == pytest.approx(found.steps, abs=3)
    more = simulate(truth, found.steps_as_before + len(log), rng=1)
    after = uncertainty(fitted(truth, more), more).intervals()
    assert after.width(after.widest) == pytest.approx(now / 2, rel=0.1)  # type: ignore[arg-type]


def test_nothing_more_is_needed_where_intervals_are_narrow(tiger: LearnResult) -> None:
    found = tiger.needs(0.9)
    assert found.steps == 0
    assert "at most 0.9 wide" in str(found)


def test_a_design_gives_more_to_what_is_learned_slowly() -> None:
    """One action is clear at once, the other has a fair coin in each of two states: all that is unsure is there."""
    half = np.full((2, 2), 0.5)
    truth = POMDP(
        transitions=np.tile(half, (2, 1, 1)),
        observations=np.stack([np.eye(2, 4), np.concatenate([np.zeros((2, 2)), half], axis=1)]),
        initial=np.array([0.5, 0.5]),
    )
    found = design(truth, steps=4_000, rng=0)
    assert found.worth >= 1.0
    assert found.action_probabilities.sum() == pytest.approx(1)
    again = design(truth, steps=4_000, rng=0)
    np.testing.assert_array_equal(again.action_probabilities, found.action_probabilities)


def test_a_design_by_the_last_observation_takes_what_is_unsure_there() -> None:
    """Where the state is seen, and in each of two another action is a coin flip: as often as it pleases blindly, half
    of the steps are lost."""
    coin, across = [0.5, 0.5], np.eye(2)[::-1]
    truth = POMDP(
        transitions=np.array([[coin, across[1]], [across[0], coin]]),
        observations=np.tile(np.eye(2), (2, 1, 1)),
        initial=np.array([0.5, 0.5]),
        emission="arrival",
    )
    assert design(truth, steps=4_000, rng=0).action_probabilities.tolist() == [0.5, 0.5]
    found = design(truth, by="last observation", steps=4_000, rng=0)
    assert found.action_probabilities.shape == (2, 2)
    assert found.action_probabilities.min() >= 0.05  # a tenth stays uniform
    assert (np.diag(found.action_probabilities) > 0.85).all()
    assert found.worth == pytest.approx(0.95 / 0.5, rel=0.15)
    assert str(found).startswith(f"after {truth.observation_names[0]}: {truth.action_names[0]} 0.")
    assert len(simulate(truth, 100, policy=found.action_probabilities, rng=0)) == 100


# --- files ---------------------------------------------------------------------------------------------------


def test_intervals_come_back_from_plain_values(tiger: LearnResult) -> None:
    found = tiger.intervals(0.8)
    again = Intervals.from_dict(found.as_dict())
    assert again.level == 0.8
    for kind, bounds in found.rows.items():
        np.testing.assert_array_equal(getattr(again, kind), bounds)
        np.testing.assert_array_equal(getattr(again.verdicts, kind), getattr(found.verdicts, kind))
        np.testing.assert_array_equal(
            getattr(again.standard_errors, kind), getattr(found.standard_errors, kind)
        )
    assert str(again) == str(found)


@pytest.mark.parametrize(
    "damage",
    [
        lambda values: values.update(level=2.0),
        lambda values: values.update(method="guess"),
        lambda values: values.pop("transitions"),
        lambda values: values["initial"]["intervals"].pop(),
        lambda values: values["initial"].update(verdicts=["sure", "sure"]),
        lambda values: values["initial"].update(intervals=[[0.5, 0.1], [0.0, 1.0]]),
        lambda values: values["initial"].update(intervals=[[0.5, 1.1], [0.0, 1.0]]),
        lambda values: values["initial"].update(standard_errors=[-1.0, 0.0]),
    ],
)
def test_damaged_values_are_refused(tiger: LearnResult, damage) -> None:
    values = tiger.intervals().as_dict()
    damage(values)
    with pytest.raises(DataError, match="intervals"):
        Intervals.from_dict(values)


# --- refusals ------------------------------------------------------------------------------------------------


def test_the_spectral_model_has_no_intervals() -> None:
    result = learn_pomdp(simulate(domains.tiger(), 3_000, rng=0), refine=None, rng=0)
    assert result.stated is None
    with pytest.raises(UsageError, match="refine='auto'"):
        result.intervals()


def test_levels_methods_and_models_are_checked(tiger: LearnResult) -> None:
    log = simulate(domains.tiger(), 100, rng=0)
    for level in (0, 1, -0.5, 2, "0.9", None):
        with pytest.raises(UsageError, match="level"):
            tiger.intervals(level)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="method"):
        uncertainty(domains.tiger(), log, method="guess")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="POMDP"):
        uncertainty("tiger", log)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="method"):
        tiger.interval_of(lambda model: 1.0, method="guess")
    with pytest.raises(UsageError, match="width"):
        tiger.needs(0)
    with pytest.raises(UsageError, match="kind"):
        bootstrap(domains.tiger(), log, kind="guess")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="criterion"):
        design(domains.tiger(), criterion="guess")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="last observation"):
        design(domains.tiger(), by="guess")  # type: ignore[arg-type]
    with pytest.raises(NotLearnableError, match="no steps"):
        uncertainty(domains.tiger(), log.head(0))


def test_more_numbers_than_steps_are_refused() -> None:
    truth = naive.blurred(domains.tmaze(), 1)
    log = simulate(truth, 40, rng=0)
    with pytest.raises(ResourceLimitError, match="free numbers"):
        uncertainty(truth, log).intervals()


def test_a_planner_of_the_model_promises_what_its_value_is(tiger: LearnResult) -> None:
    planner = ExactPlanner(tiger.pomdp, horizon=3)
    low, high = tiger.interval_of(lambda model: ExactPlanner(model, horizon=3).value())
    assert low < planner.value() < high


# --- on the screen -------------------------------------------------------------------------------------------


def test_what_is_printed_names_the_widest_interval(tiger: LearnResult) -> None:
    found = tiger.intervals()
    said = interval_sentences(summarize_result(tiger))
    assert said[0] == str(found)
    widest = found.widest
    assert widest is not None
    low, high = found.of(widest)
    assert f"from {low:.3g} to {high:.3g}" in said[1]
    assert tiger.pomdp.action_names[widest.action] in said[1]  # type: ignore[index]


def test_tables_and_csv_have_the_bounds_if_asked_for(tiger: LearnResult) -> None:
    stream = io.StringIO()
    output = Screen(stream)
    print_summary(output, summarize_result(tiger), form="table", actions=("listen",), intervals=True)
    low, high = tiger.intervals().transitions[0, 0, 0]
    assert f"[{low:.3f}, {high:.3f}]".replace("[0.", "[.") in stream.getvalue()
    stream.seek(0)
    print_csv(output, tiger.pomdp, intervals=tiger.intervals())
    lines = stream.getvalue().splitlines()
    assert any(line.endswith('"least","greatest","verdict"') for line in lines)
    assert any(line.endswith('"never observed"') for line in lines)
    with pytest.raises(UsageError, match="no intervals"):
        print_summary(output, summarize_pomdp(domains.tiger()), intervals=True)


def test_one_thread_and_two_give_the_same_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    log = simulate(domains.tmaze(), 100_000, rng=0)  # enough work for a second thread
    found = []
    for threads in (1, 2):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, threads=threads: set(range(threads)))
        found.append(uncertainty(domains.tmaze(), log).covariance().matrix.tobytes())
    assert found[0] == found[1]
