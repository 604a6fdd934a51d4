"""The formulas of docs/formulas.md, spelled out once more and compared with what the code computes."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import unlatch
from unlatch import POMDP, Trajectory, domains, simulate
from unlatch.compare.bounds import cramer_rao_bound
from unlatch.learn.likelihood.climb import Ascent, climb
from unlatch.learn.likelihood.evidence import weigh
from unlatch.learn.likelihood.marginal import Candidate, complete_evidence, judged
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import ExpectedCounts, Parameters, parameters_of
from unlatch.learn.likelihood.split_merge import merge_gains, merged_counts, merged_states
from unlatch.learn.significance import jackknife_variance


@pytest.fixture(scope="module")
def hankel():
    log = unlatch.simulate(unlatch.domains.tiger(), 3_000, policy=[0.8, 0.1, 0.1], rng=1)
    return log, unlatch.estimate_hankel(unlatch.count_sequences(log, history_length=2, test_length=1))


def test_the_jackknife_of_a_mean_is_its_sampling_variance(rng):
    sample = rng.standard_normal(8)
    replicates = [np.delete(sample, i).mean() for i in range(8)]
    np.testing.assert_allclose(jackknife_variance(replicates), sample.var(ddof=1) / 8)


def windows(log: Trajectory, length: int) -> dict[tuple[tuple[int, int], ...], int]:
    pairs = list(zip(log.actions.tolist(), log.observations.tolist(), strict=True))
    found: dict[tuple[tuple[int, int], ...], int] = {}
    for start in range(len(pairs) - length + 1):
        window = tuple(pairs[start : start + length])
        found[window] = found.get(window, 0) + 1
    return found


def tries(log: Trajectory, length: int) -> dict[tuple[int, ...], int]:
    found: dict[tuple[int, ...], int] = {}
    for window, times in windows(log, length).items():
        actions = tuple(action for action, _ in window)
        found[actions] = found.get(actions, 0) + times
    return found


def typical(log: Trajectory, length: int) -> float:
    tried = np.array(list(tries(log, length).values()), dtype=float)
    return float((tried**2).sum() / tried.sum())


def test_scales_of_rows_and_columns(hankel):
    """L1 = 2 and L2 = 1: one floor for histories, one for tests, and both are those of windows of two pairs."""
    log, matrix = hankel
    log = log.with_reward_symbols()
    n_observations = len(log.observation_names)
    tried, floor = tries(log, 1), 1 / np.sqrt(typical(log, 2))
    expected = []
    for (pair,) in matrix.histories[0].tolist():
        action, observation = divmod(pair, n_observations)
        chance = windows(log, 1)[((action, observation),)] / tried[(action,)]
        weight = np.sqrt(min(1, tried[(action,)] / (typical(log, 1) / 2)))
        expected.append(weight / np.sqrt(chance + floor))
    np.testing.assert_allclose(matrix.history_scales, expected)
    np.testing.assert_allclose(matrix.test_scales, expected)
    assert matrix.history_weights.min() < 1  # the rare actions weigh less


def test_the_noise_is_that_of_a_halving(hankel):
    """Half the difference of the estimates from two halves, as a signed sum of replicates."""
    _, matrix = hankel
    weigh_rows = matrix.history_weights[:, None] * matrix.test_weights
    norms = []
    for chosen in itertools.combinations(range(8), 4):
        signs = [1 if b in chosen else -1 for b in range(8)]
        data = 7 / 8 * sum(s * r.toarray() for s, r in zip(signs, matrix.replicates, strict=True))
        norms.append(np.sqrt(max(np.real(_eigenvalues(weigh_rows * data)))))
    noise = unlatch.factorize(matrix, rng=0).noise
    assert np.isclose(noise, norms, rtol=1e-6).any()
    assert noise >= np.median(norms)


def _eigenvalues(matrix):
    from scipy.linalg import eigvalsh

    return eigvalsh(matrix @ matrix.T)


def test_scaled_factors_are_not_those_of_an_svd_and_the_psr_does_not_need_them_to_be(hankel):
    """``left S right.T`` is not the matrix; ``(left.T H right)^-1`` is all that the PSR takes."""
    _, matrix = hankel
    factors = unlatch.factorize(matrix, rank=2, rng=0)
    dense = matrix.toarray()
    rebuilt = factors.left * factors.singular_values[:2] @ factors.right.T
    assert np.abs(rebuilt - dense).max() > 0.1
    model = unlatch.domains.tiger()
    exact = unlatch.exact_hankel(model, history_length=2, test_length=1)
    stationary = POMDP(model.transitions, model.observations, model.stationary())
    for scale in (1.0, 3.0):
        plain = unlatch.factorize(exact, rank=2, rng=0)
        scaled = replace(
            plain,
            left=plain.left * np.linspace(1, scale, len(plain.left))[:, None],
            right=plain.right * np.linspace(scale, 1, len(plain.right))[:, None],
        )
        psr = unlatch.fit_psr(exact, scaled)
        few = Trajectory([0, 0, 1], [0, 1, 2], stationary.action_names, stationary.observation_names)
        np.testing.assert_allclose(
            psr.initial @ psr.updates[0, 0] @ psr.updates[0, 1] @ psr.final,
            np.exp(stationary.log_likelihood(few.head(2))),
        )


def test_a_merge_loses_the_nats_of_rows_that_become_one(rng):
    """Spelled out pair by pair: rows of both states added up, and both one outcome of every transition."""
    observed, moved = 1 + rng.gamma(0.5, 50, (2, 4, 3)), 1 + rng.gamma(0.5, 50, (2, 4, 4))
    counts = ExpectedCounts(np.zeros(4), moved, observed, 0.0)
    parameters = Parameters(np.full(4, 0.25), np.full((2, 4, 4), 0.25), np.full((2, 4, 3), 1 / 3))
    ascent = Ascent(parameters, counts, passes=1, gradient=0.0, converged=True)
    seen, hidden = (Candidate(ascent, complete_evidence(counts), nats) for nats in (0.0, 12.0))

    def best(row):
        positive = row[row > 0]
        return (positive * np.log(positive / row.sum())).sum() if len(positive) else 0.0

    def cost(i, j):
        total = 0.0
        for action in range(2):
            pooled = moved[action].copy()
            pooled[:, i] += pooled[:, j]
            pooled[:, j] = 0
            for rows in (observed[action], pooled):
                total += best(rows[i]) + best(rows[j]) - best(rows[i] + rows[j])
        return total

    share = np.exp(-2 * 12 / (8 * 3 + 8 * 2))  # of twelve nats that the log hides about forty parameters
    for candidate, part in ((seen, 1.0), (hidden, share)):
        merges = merge_gains(candidate)
        assert sorted(merges.pairs) == list(itertools.combinations(range(4), 2))
        for pair, gain in zip(*merges, strict=True):
            fewer = merged_counts(counts, [pair])
            saved = complete_evidence(fewer) - complete_evidence(counts)
            closed = sum(
                int((c.blocks[k] > 0).sum()) * sign for k in (1, 2) for c, sign in ((counts, 1), (fewer, -1))
            )
            rows = 2 * 2  # of two actions, a row of moves and one of what is shown
            expected = saved - part * cost(*pair) - candidate.hidden / 40 * (closed - rows)
            np.testing.assert_allclose(gain, expected)


@pytest.mark.compiled
def test_the_bound_of_a_chain_that_is_seen_is_that_of_its_rows():
    """Where nothing is hidden a row of transitions is a multinomial with as many draws as the state has visits."""
    moves = np.array([[0.7, 0.3], [0.2, 0.8]])
    chain = POMDP(moves[None], np.eye(2)[None], [1.0, 0.0])
    share = chain.stationary()
    deviations = np.sqrt(2 / np.pi * moves * (1 - moves) / share[:, None])
    bound = cramer_rao_bound(chain, steps=50_000, rng=0)
    assert bound.observation_l1_all == pytest.approx(0, abs=1e-6)
    assert bound.transition_l1 == pytest.approx(deviations.sum(axis=1).mean(), rel=0.02)


def test_steps_to_settle_are_those_after_which_the_lead_is_clear_of_its_noise():
    truth = domains.tiger()
    likelihood = Likelihood.of(simulate(truth, 200, rng=5), truth.emission, truth)
    two = judged(climb(parameters_of(truth), likelihood), likelihood)
    one = judged(climb(merged_states(two.parameters, [(0, 1)], np.ones(2)), likelihood), likelihood)
    gap = two.score - one.score
    found = weigh(2, {1: -gap, 2: 0.0}, 200, True, compared={1: one, 2: two})
    assert found.gap == gap < 5
    assert found.steps_to_settle is not None

    def lead(steps):
        r, numbers = 1 + steps / 200, two.free - one.free
        likelier = two.log_likelihood - one.log_likelihood - numbers
        noise = np.sqrt(2 * likelier * r * (r - 1))
        return gap + (r - 1) * likelier - numbers * np.log(r) / 2 - noise

    assert lead(found.steps_to_settle) >= 5 > lead(found.steps_to_settle * 0.9)
    assert weigh(2, {1: -gap, 2: 0.0}, 200, True).steps_to_settle is None  # of scores alone
    backwards = weigh(2, {1: -gap, 2: 0.0}, 200, True, compared={1: two, 2: one})
    assert backwards.steps_to_settle is None  # no likelier than the one with fewer
    assert weigh(3, {3: 0.0, 4: -2.0}, 1000, True).steps_to_settle is None
    assert weigh(3, {2: -9.0, 3: 0.0}, 1000, True).steps_to_settle == 0
