"""Limits that hold: time, states, interrupts; and what is said of work that was cut short."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import unlatch
from unlatch import domains, learn_pomdp, simulate
from unlatch.core.budget import Budget, Stopped, checkpoint, ending
from unlatch.core.progress import listening, report
from unlatch.learn.likelihood.forward_backward import expected_counts

pytestmark = pytest.mark.compiled  # whole learnings, one after another

TIGER = simulate(domains.tiger(), 20_000, rng=0)


# --- the budget --------------------------------------------------------------------------------------------


def test_a_budget_without_a_limit_never_ends():
    budget = Budget()
    budget.check()
    assert not budget.stopped
    assert budget.seconds_left == np.inf
    assert budget.share(0.5).seconds_left == np.inf
    checkpoint()  # nobody set one


def test_work_ends_at_a_report_of_its_progress():
    done = 0
    budget = Budget(1e-9)
    with budget.ending():
        for done in range(10):
            report("working", done, 10)
    assert done == 0
    assert budget.stopped
    assert not budget.interrupted
    report("working", 10, 10)  # outside of the block nothing limits it


def test_parts_share_the_interrupt_but_not_the_deadline():
    whole = Budget(100)
    part = whole.share(0.1)
    assert 9 < part.seconds_left <= 10
    assert 99 < whole.extended(5).seconds_left <= 100
    assert 4 < Budget(1e-9).extended(5).seconds_left <= 5
    assert Budget().extended(5).seconds_left == np.inf
    with part.ending():
        raise KeyboardInterrupt
    assert whole.interrupted
    assert whole.extended(5).stopped
    assert whole.share(1.0).stopped
    assert "interrupted=True" in repr(whole)
    with pytest.raises(KeyboardInterrupt), part.ending():
        raise KeyboardInterrupt


def test_what_has_to_be_done_is_done_once_more_after_an_interrupt():
    calls = []

    def work():
        calls.append(len(calls))
        if len(calls) == 1:
            raise KeyboardInterrupt
        return "done"

    budget = Budget()
    assert budget.insist(work) == "done"
    assert budget.interrupted
    assert calls == [0, 1]
    calls.clear()
    with pytest.raises(KeyboardInterrupt):  # the second time it ends
        budget.insist(work)


@pytest.mark.parametrize(
    "place",
    [
        "unlatch.learn.pipeline.full_rank_actions",
        "unlatch.learn.pipeline.examine_model",
        "unlatch.learn.likelihood.select_states.canonical_order",
        "unlatch.learn.likelihood.rounds.single_state",
    ],
)
def test_an_interrupt_between_the_long_stretches_loses_no_model(place, monkeypatch):
    module, name = place.rsplit(".", 1)
    real = getattr(importlib.import_module(module), name)
    calls = []

    def interrupted_once(*arguments, **options):
        calls.append(name)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    monkeypatch.setattr(place, interrupted_once)
    result = learn_pomdp(TIGER, rng=0)
    assert "interrupted" in result.diagnostics
    assert not result.complete
    assert np.isfinite(result.log_likelihood)
    if name != "single_state":  # the search was over by then, and nothing of it is lost
        assert result.states == 2


def test_without_a_budget_an_interrupt_ends_the_call():
    with pytest.raises(KeyboardInterrupt), ending():
        raise KeyboardInterrupt
    with pytest.raises(Stopped), ending():
        raise Stopped
    with pytest.raises(ZeroDivisionError), Budget().ending():
        raise ZeroDivisionError


# --- time --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("log", [TIGER, TIGER.head(100), simulate(domains.tiger(), 30, episodes=50, rng=1)])
def test_without_any_time_there_is_still_a_model(log):
    result = learn_pomdp(log, time_limit=1e-6, rng=0)
    assert not result.complete
    no_climb = 1, len(log.observation_names)  # the models that take none: the better of the two comes back
    assert result.states in no_climb
    assert np.isfinite(result.log_likelihood)
    assert result.log_likelihood == pytest.approx(result.pomdp.log_likelihood(log), rel=1e-12)
    assert {"time_limit", "search_cut_short", "spectral_refused", "not_examined"} <= {
        note.name for note in result.diagnostics
    }
    assert "1e-06 seconds" in result.diagnostics["time_limit"].message


def test_without_any_time_a_fixed_number_of_states_is_still_obeyed():
    result = learn_pomdp(TIGER, states=3, time_limit=1e-6, rng=0)
    assert (result.states, result.evidence.states, result.evidence.fixed) == (3, 3, True)
    assert np.isfinite(result.log_likelihood)


def test_the_spectral_model_alone_is_refused_without_time():
    with pytest.raises(unlatch.errors.ResourceLimitError, match="no time left"):
        learn_pomdp(TIGER, refine=None, time_limit=1e-6, rng=0)


@pytest.mark.parametrize("seconds", [0.1, 0.3, 1.0])
def test_a_short_limit_does_not_lose_a_good_spectral_model(seconds):
    """Two states, found at once by the spectral stages, were once dropped for one because the search had no time."""
    learn_pomdp(TIGER.head(2_000), rng=0)  # compiled
    result = learn_pomdp(TIGER, time_limit=seconds, rng=0)
    if result.spectral is not None and result.spectral.pomdp is not None:
        assert result.states == 2
    assert "noise was taken for states" not in " ".join(note.message for note in result.diagnostics)


@pytest.mark.parametrize("seconds", [0.2, 0.7, 1.5])
def test_the_gap_is_never_negative_and_the_best_is_returned(seconds):
    log = simulate(domains.tmaze(rooms=3), 20_000, rng=0)
    evidence = learn_pomdp(log, time_limit=seconds, rng=0).evidence
    assert evidence.gap >= 0
    assert max(evidence.scores, key=lambda count: evidence.scores[count]) == evidence.states


@pytest.mark.parametrize("value", [0, -1, float("nan"), "soon", True])
def test_a_limit_that_makes_no_sense(value):
    with pytest.raises(unlatch.errors.UsageError, match="time_limit is a positive number of seconds"):
        learn_pomdp(TIGER, time_limit=value)


@pytest.mark.parametrize(
    "stage", ["counting", "estimating", "factorizing", "diagonalizing", "choosing a basis inside cells"]
)
def test_every_spectral_stage_can_be_stopped(stage):
    """The choice of a basis inside cells of aliased states once took twenty seconds that no limit ended."""
    log = simulate(domains.tmaze(), 20_000, rng=0)

    def stop(heard, done, total):
        if heard == stage:
            raise Stopped

    with listening(stop):
        result = learn_pomdp(log, states=4, rng=0)
    assert "no time left" in result.diagnostics["spectral_refused"].message
    assert result.spectral is None
    assert result.states == 4


# --- interrupts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", [0.1, 0.5, 0.97])
def test_interruption_gives_the_best_model_so_far(moment: float, monkeypatch: pytest.MonkeyPatch) -> None:
    log = simulate(domains.tiger(), 5_000, rng=1)
    calls = 0
    last = 10**9

    def counted(*arguments: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        if calls == last:
            raise KeyboardInterrupt
        return expected_counts(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("unlatch.learn.likelihood.objective.expected_counts", counted)
    whole = unlatch.learn_pomdp(log, rng=0)
    assert "interrupted" not in whole.diagnostics
    calls, last = 0, int(moment * calls)
    early = unlatch.learn_pomdp(log, rng=0)
    assert "interrupted" in early.diagnostics
    assert not early.complete
    assert calls <= last + 2  # what is left of the work was not done
    assert np.isfinite(early.pomdp.log_likelihood(log))
    assert early.pomdp.n_states in (1, 2)


def test_an_interrupt_of_the_spectral_stages_leaves_a_model(monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("unlatch.learn.pipeline.factorize_counted", interrupted)
    result = learn_pomdp(TIGER, rng=0)
    assert "interrupted" in result.diagnostics
    assert not result.complete
    assert np.isfinite(result.log_likelihood)
    with pytest.raises(KeyboardInterrupt):
        learn_pomdp(TIGER, refine=None, rng=0)


# --- states ------------------------------------------------------------------------------------------------


def test_a_limit_of_states_is_obeyed_and_said():
    log = simulate(domains.tmaze(), 10_000, rng=0)
    result = learn_pomdp(log, max_states=3, rng=0)
    assert result.states <= 3
    assert result.spectral.rank <= 3
    if result.states == 3:
        assert "raise max_states" in result.diagnostics["states_at_limit"].message
    assert "states_at_limit" not in learn_pomdp(log, rng=0).diagnostics
    with pytest.raises(unlatch.errors.UsageError, match="states=4 is more than max_states=3"):
        learn_pomdp(log, states=4, max_states=3)


def test_thresholds_that_a_user_sets_reach_the_refined_model():
    """They were once decided anew by other tests."""
    log = simulate(domains.tiger(), 20_000, rng=0)
    plain = learn_pomdp(log, rng=0)
    assert plain.partition.is_trivial
    assert plain.full_rank_actions == (0,)
    assert learn_pomdp(log, observation_tolerance=2.0, rng=0).partition.n_cells == 1
    assert learn_pomdp(log, min_singular_value=0.0, rng=0).full_rank_actions == (0, 1, 2)
    none = learn_pomdp(log, states=2, min_singular_value=5.0, rng=0)
    assert none.full_rank_actions == ()
    assert none.partition.n_cells == 1
