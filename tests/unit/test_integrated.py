"""The evidence for dense models by integration, against integrals that can be had otherwise."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from unlatch import POMDP, LearnResult, Trajectory, learn_pomdp, simulate
from unlatch.core.budget import Stopped
from unlatch.learn.likelihood import select_states
from unlatch.learn.likelihood.climb import climb, evaluated
from unlatch.learn.likelihood.coordinates import BrokenSticks
from unlatch.learn.likelihood.integrated import _Posterior, can_be_integrated, integrated, _between
from unlatch.learn.likelihood.marginal import Candidate, choice_cost, integrated_evidence, judged
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import Parameters


def drawn(states: int, actions: int, observations: int, rng: np.random.Generator) -> Parameters:
    """A model drawn from the prior."""
    return Parameters(
        initial=rng.dirichlet(np.ones(states)),
        transitions=rng.dirichlet(np.ones(states), size=(actions, states)),
        observations=rng.dirichlet(np.ones(observations), size=(actions, states)),
        dense=True,
    )


def logged(model: Parameters, steps: int, rng: np.random.Generator) -> Trajectory:
    pomdp = POMDP(
        transitions=model.transitions,
        observations=model.observations,
        initial=model.initial,
        emission="departure",
    )
    return simulate(pomdp, steps, rng=rng)


def by_prior_draws(states: int, likelihood: Likelihood, draws: int, rng: np.random.Generator) -> float:
    """Logarithm of the mean likelihood of models drawn from the prior."""
    sizes = likelihood.log.n_actions, likelihood.log.n_observations
    heights = [likelihood.log_likelihood(drawn(states, *sizes, rng)) for _ in range(draws)]
    return float(logsumexp(heights) - np.log(draws))


def some_counts(parameters: Parameters, rng: np.random.Generator) -> list[np.ndarray]:
    return [rng.gamma(2.0, size=rows.shape) * (rows > 0) for rows in parameters]


def with_a_zero(parameters: Parameters) -> Parameters:
    """The first action never shows the second observation."""
    shown = parameters.observations.copy()
    shown[0, :, 1] = 0
    return replace(parameters, observations=shown / shown.sum(axis=-1, keepdims=True))


def test_coordinates_lead_back_and_have_the_slope_they_say() -> None:
    rng = np.random.default_rng(0)
    model = with_a_zero(drawn(3, 2, 4, rng))
    sticks = BrokenSticks(model)
    assert len(sticks) == 2 + 2 * 3 * 2 + 3 * (2 + 3)
    z = sticks.coordinates(model)
    for rows, again in zip(model, sticks.parameters(z), strict=True):
        assert again == pytest.approx(rows, abs=1e-12)
    uses = some_counts(model, rng)

    def height(point: np.ndarray) -> float:
        blocks = sticks.parameters(point).blocks
        return sum(float((n[p > 0] * np.log(p[p > 0])).sum()) for n, p in zip(uses, blocks, strict=True))

    numeric = [(height(z + e) - height(z - e)) / 2e-5 for e in 1e-5 * np.eye(len(z))]
    assert sticks.gradient(z, uses) == pytest.approx(np.array(numeric), abs=1e-6)
    used = np.concatenate([n[p > 0] for n, p in zip(uses, model, strict=True)])
    assert used @ sticks.jacobian(z) == pytest.approx(np.array(numeric), abs=1e-6)


def test_normal_coordinates_are_all_distributions_equally_likely() -> None:
    rng = np.random.default_rng(1)
    sticks = BrokenSticks(drawn(3, 1, 4, rng))
    rows = np.array([sticks.parameters(z).observations[0, 0] for z in rng.normal(size=(4_000, len(sticks)))])
    assert rows.mean(axis=0) == pytest.approx(np.full(4, 1 / 4), abs=0.015)
    assert rows.var(axis=0) == pytest.approx(np.full(4, 3 / 16 / 5), rel=0.1)
    assert np.corrcoef(rows.T)[0, 1:] == pytest.approx(np.full(3, -1 / 3), abs=0.06)


def test_one_state_has_the_evidence_of_an_urn() -> None:
    rng = np.random.default_rng(2)
    likelihood = Likelihood.of(logged(drawn(1, 2, 3, rng), 200, rng), "departure")
    found = integrated(climb(drawn(1, 2, 3, rng), likelihood).parameters, likelihood, rng)
    counts = likelihood.log.seen
    exact = (gammaln(3) - gammaln(counts.sum(axis=1) + 3) + gammaln(counts + 1).sum(axis=1)).sum()
    assert found.value == pytest.approx(exact, abs=0.2)


@pytest.mark.parametrize(("states", "steps", "seed", "within"), [(2, 40, 3, 0.6), (3, 30, 5, 1.5)])
def test_hidden_states_have_the_mean_likelihood_of_models_drawn_from_the_prior(
    states: int, steps: int, seed: int, within: float
) -> None:
    """In short logs states are not told apart: to count names that are not there, or none, would be wrong by log S!,
    which is more than what four integrals may be wrong by."""
    rng = np.random.default_rng(seed)
    likelihood = Likelihood.of(logged(drawn(states, 2, 3, rng), steps, rng), "departure")
    start = climb(drawn(states, 2, 3, rng), likelihood).parameters
    found = [integrated(start, likelihood, rng).value for _ in range(4)]
    exact = by_prior_draws(states, likelihood, 8_000, rng)
    assert within < gammaln(states + 1)
    assert np.mean(found) == pytest.approx(exact, abs=within)


def test_just_one_renaming_of_a_model_is_in_the_domain() -> None:
    rng = np.random.default_rng(6)
    likelihood = Likelihood.of(logged(drawn(4, 2, 3, rng), 50, rng), "departure")
    posterior = _Posterior(drawn(4, 2, 3, rng), likelihood)
    for _ in range(20):
        model = drawn(4, 2, 3, rng)
        named = [
            posterior.is_named(replace(model, observations=model.observations[:, list(order)]))
            for order in permutations(range(4))
        ]
        assert sum(named) == 1


def test_neighbors_are_compared_as_bennett_does() -> None:
    """Two normal distributions, one 3 nats heavier and a standard deviation aside: log p/q is linear."""
    rng = np.random.default_rng(7)
    below, above = rng.normal(size=20_000), rng.normal(1.0, 1.0, size=5_000)
    assert _between(below - 0.5 + 3, above - 0.5 + 3) == pytest.approx(3.0, abs=0.03)


def test_a_seed_repeats_an_integral_and_entries_have_their_price() -> None:
    rng = np.random.default_rng(8)
    likelihood = Likelihood.of(logged(drawn(2, 2, 3, rng), 300, rng), "departure")
    candidate = judged(climb(drawn(2, 2, 3, rng), likelihood), likelihood)
    first, again = (integrated(candidate.parameters, likelihood, np.random.default_rng(9)) for _ in range(2))
    assert first == again
    priced = integrated_evidence(candidate, likelihood, np.random.default_rng(9))
    choices = sum(float(choice_cost(n, n)) for n in (2, 8, 12))
    assert priced.by_integration == pytest.approx(first.value - choices)
    assert priced.score == candidate.score


def test_only_small_dense_models_without_an_end_are_integrated() -> None:
    rng = np.random.default_rng(10)
    model = drawn(3, 2, 3, rng)
    likelihood = Likelihood.of(logged(model, 100, rng), "departure")
    assert can_be_integrated(model, likelihood)
    assert not can_be_integrated(replace(model, dense=False), likelihood)
    assert not can_be_integrated(replace(model, terminal=np.array([False, False, True])), likelihood)
    assert not can_be_integrated(drawn(30, 2, 3, rng), likelihood)
    assert np.isfinite(evaluated(model, likelihood).log_likelihood)


@pytest.fixture(scope="module")
def dense_log() -> Trajectory:
    rng = np.random.default_rng(11)
    return logged(drawn(3, 2, 4, rng), 4_000, rng)


def learned(log: Trajectory) -> LearnResult:
    return learn_pomdp(log, emission="departure", max_states=5, rng=0)


def test_learning_a_dense_model_compares_by_integrals(dense_log: Trajectory) -> None:
    """The chosen count has the best score, of all that were tried, and the runner-up is the next of those whose
    evidence was had in the same way."""
    evidence = learned(dense_log).evidence
    assert evidence.scores[evidence.states] == 0
    assert max(evidence.scores.values()) == 0
    assert evidence.scores[evidence.runner_up] == pytest.approx(-evidence.gap)
    assert evidence == learned(dense_log).evidence


def test_counts_are_those_with_the_larger_integral(
    dense_log: Trajectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Integrals that prefer four states, whatever Laplace's method says; five are 3 nats behind."""
    made_up = {2: -9.0, 3: -4.0, 4: 0.0, 5: -3.0}

    def pretended(candidate: Candidate, *_: object) -> Candidate:
        return replace(candidate, by_integration=made_up[candidate.n_states])

    monkeypatch.setattr(select_states, "integrated_evidence", pretended)
    monkeypatch.setattr(select_states, "_MAY_TURN", 1e9)
    result = learned(dense_log)
    assert result.states == 4
    assert (result.evidence.runner_up, result.evidence.gap) == (5, 3.0)
    assert result.evidence.scores[3] == -4.0
    assert max(result.evidence.scores.values()) == 0


def test_without_time_for_integrals_the_best_model_stays(
    dense_log: Trajectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> Candidate:
        raise Stopped

    monkeypatch.setattr(select_states, "_MAY_TURN", 1e9)
    monkeypatch.setattr(select_states, "integrated_evidence", stopped)
    interrupted = learned(dense_log)
    monkeypatch.setattr(select_states, "can_be_integrated", lambda *_: False)
    without = learned(dense_log)
    assert interrupted.states == without.states
    assert interrupted.evidence.scores == without.evidence.scores
