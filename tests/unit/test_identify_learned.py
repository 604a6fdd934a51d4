"""What a log determines of the model learned from it: noise, zeros that are estimates, files and what is printed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import unlatch
from unlatch import POMDP, domains
from unlatch.learn.identify.learned import identify_learned
from unlatch.learn.identify.support import ZeroSupport, average_support, zero_support
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import parameters_of
from unlatch.show.summary import partition_sentences, summarize_pomdp, summarize_result

SEEN = POMDP(
    [[[0.0, 1.0, 0.0], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]]],
    [np.eye(3)],
    [1.0, 0.0, 0.0],
)
"""Three states that everybody can see."""


def support_of(model: POMDP, steps: int, seed: int = 0) -> ZeroSupport:
    log = unlatch.simulate(model, steps, rng=seed)
    found = zero_support(model, Likelihood.of(log, model.emission, model))
    assert found is not None
    return found


def test_opportunities_are_visits_where_states_are_seen() -> None:
    log = unlatch.simulate(SEEN, 400, rng=0)
    found = support_of(SEEN, 400)
    visits = np.bincount(log.observations, minlength=3)
    zeros = SEEN.transitions[0] == 0
    left = visits - np.eye(3)[log.observations[-1]]  # where the last step led was not seen
    expected = np.broadcast_to(left[:, None], (3, 3))[zeros]
    assert found.opportunities["transitions"][0][zeros] == pytest.approx(expected, abs=1e-4)
    opportunities, p_value = found.of(("transitions", 0, 0, 0))
    assert p_value == pytest.approx(0.95**opportunities)
    assert found.establishes(("transitions", 0, 0, 0))
    assert not support_of(SEEN, 60).establishes(("transitions", 0, 2, 2))


def test_with_too_much_work_opportunities_are_those_of_the_first_steps() -> None:
    model = domains.sense_float_reset(4)
    log = unlatch.simulate(model, 3_000, rng=1)
    likelihood = Likelihood.of(log, "departure", model)
    whole = zero_support(model, likelihood)
    part = zero_support(model, likelihood, most_work=1_000 * 4**2)
    first = zero_support(model, Likelihood.of(log.head(1_000), "departure", model))
    assert whole is not None
    assert part is not None
    assert first is not None
    for name, opportunities in part.opportunities.items():
        np.testing.assert_allclose(opportunities, first.opportunities[name], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(part.uses[name], whole.uses[name], atol=1e-3)
    counts = likelihood.counts(parameters_of(model))
    with_counts = zero_support(model, likelihood, known=counts, most_work=1_000 * 4**2)
    assert with_counts is not None
    for name, uses in with_counts.uses.items():
        assert np.array_equal(uses, getattr(counts, name))
        np.testing.assert_array_equal(with_counts.opportunities[name], part.opportunities[name])


def test_opportunities_are_the_slope_of_the_likelihood() -> None:
    """By differences, in a model whose states are hidden: the same number, and fewer than visits."""
    model = domains.sense_float_reset(4)
    log = unlatch.simulate(model, 3_000, rng=1)
    found = zero_support(model, Likelihood.of(log, "departure", model))
    assert found is not None
    places = [tuple(place) for place in np.argwhere(model.transitions == 0)]
    for place in places[:6]:
        moves = model.transitions.copy()
        step = 1e-6
        moves[place[:2]] *= 1 - step
        moves[place] += step
        slope = (replace(model, transitions=moves).log_likelihood(log) - model.log_likelihood(log)) / step
        assert found.opportunities["transitions"][place] == pytest.approx(max(-slope, 0.0), rel=1e-2, abs=0.5)
    hidden = found.opportunities["transitions"][0, 3, 2 + 0]
    visits = found.uses["transitions"][0, 3].sum()
    assert hidden <= visits


@pytest.fixture(scope="module")
def result() -> unlatch.LearnResult:
    log = unlatch.simulate(domains.tmaze(1), 5_000, rng=1)
    return unlatch.learn_pomdp(log, rng=1, emission="departure", states=4)


@pytest.mark.compiled
def test_a_proof_rests_on_zeros_that_the_log_could_have_shown(result: unlatch.LearnResult) -> None:
    found = result.identified
    assert found.identified
    assert found.zeros
    assert all(zero.opportunities is not None and zero.opportunities > 58 for zero in found.zeros)
    assert all(zero.p_value is not None and zero.p_value <= 0.05 for zero in found.zeros)
    assert "opportunities or more to show" in str(found)
    assert np.array_equal(found.transitions[..., 0], result.pomdp.transitions)
    nothing = ZeroSupport(
        result.zero_support.uses,  # type: ignore[union-attr]
        {name: np.zeros_like(rows) for name, rows in result.zero_support.opportunities.items()},  # type: ignore[union-attr]
    )
    doubtful = identify_learned(result.pomdp, result.steps, nothing)
    assert not doubtful.identified
    assert doubtful.doubted
    assert doubtful.zeros == ()
    assert str(doubtful).startswith("not settled by this log")


@pytest.mark.compiled
def test_the_verdict_goes_with_the_file_and_is_printed(result: unlatch.LearnResult, tmp_path: Path) -> None:
    unlatch.save_model(tmp_path / "model.json", result)
    saved = unlatch.load_model(tmp_path / "model.json")
    assert saved.identified == result.identified
    said = "\n".join(partition_sentences(summarize_result(result)))
    assert str(result.identified) in said
    assert f"rests on: {result.identified.zeros[0]}" in said


def test_noise_is_no_proof() -> None:
    """Two states whose rows differ by less than noise: exactly taken the model is identified, from a log it is not."""
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.ones(3), (2, 4))
    rows[:, 3] = 0.99 * rows[:, 2] + 0.01 * rng.dirichlet(np.ones(3), 2)
    model = POMDP(rng.dirichlet(np.ones(4), (2, 4)), rows, np.full(4, 0.25))
    assert unlatch.identify(model, ranges=False).identified
    assert not identify_learned(model, 10_000, ranges=False).identified
    found = identify_learned(model, 10_000)
    assert not found.identified
    if found.extremes is not None:
        assert "rows were averaged where noise alone tells them apart" in str(found)


def test_without_a_pass_over_the_log_visits_are_averages() -> None:
    model = domains.tmaze(1)
    assert identify_learned(model, 100_000).identified
    few = identify_learned(model, 200)
    assert not few.identified
    assert few.verdict == "undecided"
    assert "numbers might predict what the 4 states do" in str(few)  # and not that they do
    assert average_support(model, 1600).of(("transitions", 0, 0, 2))[0] == 100


def test_a_model_of_which_nothing_else_is_known() -> None:
    said = partition_sentences(summarize_pomdp(domains.tiger()))
    assert said == (str(unlatch.identify(domains.tiger())), "rows: 12 identified")
