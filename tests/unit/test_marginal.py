"""The evidence for a model, against urns that are drawn from one by one."""

from __future__ import annotations

from dataclasses import replace
from math import comb, factorial, log

import numpy as np
import pytest
from scipy.special import logsumexp

from unlatch import POMDP, Trajectory, domains, simulate
from unlatch.learn.likelihood.climb import Ascent, climb, evaluated
from unlatch.learn.likelihood.marginal import (
    choice_cost,
    complete_evidence,
    entry_prices,
    expected_lead,
    free_parameters,
    judged,
    least_cost,
    unseen_odds,
)
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import ExpectedCounts, Parameters, parameters_of
from unlatch.learn.likelihood.split_merge import merged_states


def urn(row: np.ndarray) -> float:
    """Logarithm of the probability of a row's outcomes, drawn one by one: each is as likely as it was often, half a
    time to begin with."""
    drawn, total = np.zeros(len(row)), 0.0
    used = int((row > 0).sum())
    for outcome in np.repeat(np.arange(len(row)), row.astype(int)):
        total += log((drawn[outcome] + 0.5) / (drawn.sum() + used / 2))
        drawn[outcome] += 1
    return total


def best(row: np.ndarray) -> float:
    positive = row[row > 0]
    return float((positive * np.log(positive / positive.sum())).sum())


def naming(places: int, used: int) -> float:
    """Nats to name the entries that are used: first how many, then which."""
    return log(places + 1) + log(comb(places, used))


def by_hand(counts: ExpectedCounts) -> float:
    """Row by row; of what is shown, only what was ever shown after the action could be."""
    n = counts.n_states
    total = log(
        factorial(int((counts.transitions.sum(axis=(0, 2)) > 0).sum()))
    )  # states that are never left have no names
    for which, block in enumerate(counts.blocks):
        places = used = 0
        for kind in block.reshape(-1, *block.shape[-2:]) if block.ndim > 1 else [block[None]]:
            possible = n if which < 2 else int((kind.sum(axis=0) > 0).sum())
            for row in kind:
                if row.any():
                    total += urn(row) - best(row)
                    places, used = places + possible, used + int((row > 0).sum())
        total -= naming(places, used) if used else 0.0
    return total


def whole_counts(seed: int, **kept: bool) -> ExpectedCounts:
    """Few whole numbers, many of them zero; a row without visits, and a symbol that one action never shows."""
    rng = np.random.default_rng(seed)
    moves, shown, first, paid = (
        rng.integers(0, 9, size=shape) * (rng.random(shape) < 0.6)
        for shape in ((2, 3, 3), (2, 3, 4), (3, 2), (2, 3, 3))
    )
    moves[1, 2] = 0
    shown[0, :, 1] = 0
    return ExpectedCounts(
        initial=np.array([2.0, 0.0, 1.0]),
        transitions=moves.astype(float),
        observations=shown.astype(float),
        log_likelihood=0.0,
        first=first.astype(float) if kept.get("first") else None,
        rewards=paid.astype(float) if kept.get("rewards") else None,
        shared=bool(kept.get("shared")),
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kept", [{}, {"first": True}, {"rewards": True}, {"shared": True}])
def test_complete_evidence_is_that_of_urns_and_of_naming_what_is_in_them(
    kept: dict[str, bool], seed: int
) -> None:
    counts = whole_counts(seed, **kept)
    assert complete_evidence(counts) == pytest.approx(by_hand(counts), abs=1e-9)


def test_states_without_visits_cost_nothing_and_have_no_names() -> None:
    counts = whole_counts(0)
    padded = replace(
        counts,
        initial=np.zeros(4),
        transitions=np.zeros((2, 4, 4)),
        observations=np.zeros((2, 4, 4)),
    )
    assert complete_evidence(padded) == 0.0


def test_an_episode_begins_in_one_state_though_the_log_does_not_tell_which() -> None:
    counts = whole_counts(0)
    told = replace(counts, initial=np.array([0.0, 1.0, 0.0]))
    untold = replace(counts, initial=np.array([0.25, 0.5, 0.25]))
    assert complete_evidence(untold) == complete_evidence(told)


def test_naming_costs_are_those_of_all_choices_in_equal_parts() -> None:
    for places in range(1, 8):
        shares = [comb(places, k) * np.exp(-float(choice_cost(places, k))) for k in range(places + 1)]
        np.testing.assert_allclose(shares, 1 / (places + 1))


def without_entry(block: np.ndarray, index: tuple[int, ...]) -> np.ndarray:
    """The counts with the uses of one entry spread over the others of its row."""
    less = block.copy()
    row = less[index[:-1]]
    uses, row[index[-1]] = row[index[-1]], 0.0
    row *= 1 + uses / row.sum()
    return less


@pytest.mark.parametrize("shared", [False, True])
def test_the_price_of_an_entry_is_what_is_saved_without_it(shared: bool) -> None:
    rng = np.random.default_rng(0)
    moves = 5 + rng.gamma(0.5, 400.0, (2, 3, 3))
    moves[0, 1, 2] = moves[1, 0, 0] = 0.0
    shown = 5 + rng.gamma(0.5, 400.0, (2, 3, 4))
    counts = ExpectedCounts(np.zeros(3), moves, shown, 0.0, shared=shared)
    start, *prices = entry_prices(counts)
    assert not start.any()
    for name, price, block in zip(("transitions", "observations"), prices, counts.blocks[1:], strict=True):
        assert price.shape == block.shape
        for index in np.ndindex(block.shape):
            if block[index] == 0:
                continue
            less = without_entry(block, index)
            if name == "observations" and shared:
                less = np.concatenate([less, np.zeros_like(less)])
            saved = complete_evidence(replace(counts, **{name: less})) - complete_evidence(counts)
            assert price[index] == pytest.approx(saved, abs=0.1)


@pytest.mark.parametrize("uses", [2.0, 20.0, 300.0])
def test_the_price_of_an_entry_is_what_closing_it_saves(uses: float) -> None:
    moves = np.array([[[uses, 400.0, 600.0 - uses], [500.0, 250.0, 250.0], [1_000.0, 0.0, 0.0]]])
    shown = np.array([[[1_000.0, 0.0], [0.0, 1_000.0], [500.0, 500.0]]])
    counts = ExpectedCounts(
        initial=np.array([1.0, 0.0, 0.0]), transitions=moves, observations=shown, log_likelihood=0.0
    )
    closed = moves.copy()
    closed[0, 0, 0] = 0.0
    closed[0, 0] *= 1_000.0 / closed[0, 0].sum()
    saved = complete_evidence(replace(counts, transitions=closed)) - complete_evidence(counts)
    assert entry_prices(counts)[1][0, 0, 0] == pytest.approx(saved, abs=0.1)


# --- a log in which nothing is hidden --------------------------------------------------------------------


def chain_log(steps: int) -> tuple[POMDP, Trajectory]:
    """Three states that show themselves, moved by two actions."""
    moves = [[[0.8, 0.2, 0], [0, 0.5, 0.5], [1, 0, 0]], [[0, 0, 1], [0.6, 0.2, 0.2], [0, 1, 0]]]
    chain = POMDP(moves, np.tile(np.eye(3), (2, 1, 1)), [1.0, 0, 0], "departure")
    return chain, simulate(chain, steps, rng=0)


@pytest.mark.parametrize("steps", [60, 400])
def test_the_evidence_of_a_chain_that_is_seen_is_its_exact_probability(steps: int) -> None:
    """Integrated over all numbers in closed form: an urn for every row, and the names of what is in them."""
    chain, trajectory = chain_log(steps)
    likelihood = Likelihood.of(trajectory, "departure", chain)
    ascent = climb(parameters_of(chain), likelihood, gain_tolerance=1e-9, gradient_tolerance=1e-7)
    found = judged(ascent, likelihood)
    moves = np.zeros((2, 3, 3))
    states = trajectory.observations
    np.add.at(moves, (trajectory.actions[:-1], states[:-1], states[1:]), 1)
    shown = np.array([np.diag(np.bincount(states[trajectory.actions == a], minlength=3)) for a in (0, 1)])
    exact = log(factorial(3)) - naming(3, 1)  # where it began
    exact += sum(urn(row) for rows in moves for row in rows)
    exact -= naming(sum(3 for rows in moves for row in rows if row.any()), int((moves > 0).sum()))
    exact -= naming(18, int((shown > 0).sum()))  # every state shows one thing, which is certain then
    assert found.log_likelihood + found.complete == pytest.approx(exact, abs=1e-5)
    assert found.hidden == pytest.approx(
        0, abs=1e-3 if steps == 60 else 0.2
    )  # a long log's by sampled scores
    assert found.score == found.log_likelihood + found.complete + found.hidden
    assert found.seen_share == pytest.approx(1, abs=0.1)


def test_a_log_that_hides_is_charged_less() -> None:
    """The hallway rarely tells where one is; the same numbers with the states shown would cost more."""
    model = domains.directional_hallway()
    likelihood = Likelihood.of(simulate(model, 3_000, rng=0), "departure", model)
    found = judged(climb(parameters_of(model), likelihood), likelihood)
    assert found.hidden > 1
    assert 0 < found.seen_share < 1
    assert found.relief * found.free == pytest.approx(found.hidden)
    assert found.complete == complete_evidence(found.ascent.counts)


def test_a_parameter_is_an_entry_that_was_used_beside_another() -> None:
    truth = domains.tmaze()
    ascent = climb(parameters_of(truth), Likelihood.of(simulate(truth, 5_000, rng=3), "departure"))
    rows = [*parameters_of(truth).transitions, *parameters_of(truth).observations]
    assert free_parameters(ascent) == sum(int((row > 0).sum()) - 1 for matrix in rows for row in matrix)


def test_a_state_without_use_costs_what_its_rows_would_cost_were_they_seen() -> None:
    """One state as two that are the same: the likelihood stays, the numbers cost more, the log charges none of it."""
    trajectory = simulate(domains.tiger(), 1_000, rng=0)
    likelihood = Likelihood.of(trajectory, "departure")
    shown = likelihood.log.seen / likelihood.log.seen.sum(axis=1, keepdims=True)
    one = Parameters(np.ones(1), np.ones((3, 1, 1)), shown[:, None])
    two = Parameters(np.full(2, 0.5), np.full((3, 2, 2), 0.5), np.repeat(shown[:, None], 2, axis=1))
    single, twice = (judged(evaluated(each, likelihood), likelihood) for each in (one, two))
    assert twice.log_likelihood == pytest.approx(single.log_likelihood)
    assert twice.free == 2 * single.free + 6  # and where each of the six rows leads
    assert twice.complete < single.complete - twice.free
    assert twice.hidden > single.hidden + 20


# --- what was not seen -----------------------------------------------------------------------------------


def test_unseen_entries_become_unlikely_with_their_opportunities() -> None:
    """The odds of all entries beforehand, times what an urn with one outcome more gives to the same draws."""
    uses = np.array([[3.0, 0.0, 0.0], [20.0, 8.0, 0.0], [0.0, 0.0, 0.0]])
    opportunities = np.broadcast_to(uses.sum(axis=1, keepdims=True), uses.shape)
    odds = unseen_odds(uses, opportunities)
    before = (3 + 1) / (9 - 3 + 1)  # three used of nine places

    def unlikely(visits: int, used: int) -> float:
        sizes = np.arange(visits)
        return float(np.prod((sizes + used / 2) / (sizes + (used + 1) / 2)))

    for row, expected in enumerate([unlikely(3, 1), unlikely(28, 2), 1.0]):
        np.testing.assert_allclose(odds[row], before * expected)
    assert odds[1, 0] < odds[0, 0] < odds[2, 0]


def test_a_candidate_says_where_it_ended() -> None:
    model = domains.tmaze()
    likelihood = Likelihood.of(simulate(model, 500, rng=0), "departure", model)
    ascent: Ascent = evaluated(parameters_of(model), likelihood)
    found = judged(ascent, likelihood)
    assert (found.n_states, found.log_likelihood) == (4, ascent.log_likelihood)
    assert found.parameters is ascent.parameters
    assert found.free == free_parameters(ascent)


# --- models without zeros -----------------------------------------------------------------------------------


def dense(states: int, *, actions: int = 2, symbols: int = 3, seed: int = 0) -> Parameters:
    rng = np.random.default_rng(seed)
    return Parameters(
        initial=rng.dirichlet(np.ones(states)),
        transitions=rng.dirichlet(np.ones(states), size=(actions, states)),
        observations=rng.dirichlet(np.ones(symbols), size=(actions, states)),
        dense=True,
    )


def noise(steps: int, *, actions: int = 2, symbols: int = 3) -> Trajectory:
    rng = np.random.default_rng(5)
    return Trajectory(rng.integers(actions, size=steps), rng.integers(symbols, size=steps))


def test_the_evidence_of_one_dense_state_is_its_exact_probability() -> None:
    log = noise(300)
    likelihood = Likelihood.of(log, "departure")
    found = judged(climb(dense(1), likelihood), likelihood)
    exact = -log_of_naming_all(6)
    for action in range(2):
        drawn = np.zeros(3)
        for symbol in log.observations[log.actions == action]:
            exact += np.log((drawn[symbol] + 1) / (drawn.sum() + 3))
            drawn[symbol] += 1
    start, moves = log_of_naming_all(1), log_of_naming_all(2)
    assert found.score == pytest.approx(exact - start - moves, abs=0.02)


def log_of_naming_all(places: int) -> float:
    return naming(places, places)


def test_a_dense_model_is_climbed_to_its_most_probable_numbers() -> None:
    likelihood = Likelihood.of(noise(400), "departure")
    found = climb(dense(3), likelihood, passes=400, gain_tolerance=1e-10, gradient_tolerance=1e-6)
    for rows, uses in zip(found.parameters.blocks[1:], found.counts.blocks[1:], strict=True):
        credited = (uses + 1) / (uses + 1).sum(axis=-1, keepdims=True)
        np.testing.assert_allclose(rows, credited, atol=1e-4)


def averaged_over_the_prior(log: Trajectory, states: int, draws: int) -> float:
    """Logarithm of the mean probability of a log under models drawn uniformly, that begin anywhere."""
    rng, actions, symbols = np.random.default_rng(0), len(log.action_names), len(log.observation_names)
    moves = rng.dirichlet(np.ones(states), size=(draws, actions, states))
    shown = rng.dirichlet(np.ones(symbols), size=(draws, actions, states))
    beliefs, nats = np.full((draws, states), 1 / states), np.zeros(draws)
    for action, symbol in zip(log.actions, log.observations, strict=True):
        beliefs = beliefs * shown[:, action, :, symbol]
        chances = beliefs.sum(axis=1)
        nats += np.log(chances)
        beliefs = np.einsum("ds,dst->dt", beliefs / chances[:, None], moves[:, action])
    return float(logsumexp(nats) - np.log(draws))


@pytest.mark.parametrize("states", [3, 4])
def test_the_evidence_of_states_that_are_faint_is_some_nats_too_low_and_not_too_high(states: int) -> None:
    """Forty steps of two actions say next to nothing about four states: most of every row is as it was before, and its
    law has more room than the parabola that it is taken for."""
    ahead, seed = [], 0
    while len(ahead) < 4:
        truth, seed = dense(states, seed=seed), seed + 1
        log = simulate(POMDP(truth.transitions, truth.observations, truth.initial), 40, rng=seed)
        if len(set(zip(log.actions, log.observations, strict=True))) < 6:
            continue  # an outcome that never came is not one of those that are possible
        likelihood = Likelihood.of(log, "departure")
        starts = [dense(states, seed=10 * seed + other) for other in range(4)]
        found = max(judged(climb(start, likelihood), likelihood).score for start in starts)
        exact = averaged_over_the_prior(log, states, 60_000)
        said = naming(states, 1) + log_of_naming_all(2 * states**2) + log_of_naming_all(6 * states)
        ahead.append(found - (exact - said))
    assert -2.5 < np.mean(ahead) < -1.0
    assert max(ahead) < 0.5


def test_states_that_the_log_does_not_tell_apart_have_no_names() -> None:
    """Else every further state of a short log would gain the logarithm of their number for nothing."""
    likelihood = Likelihood.of(noise(100), "departure")
    alone = judged(climb(dense(1), likelihood), likelihood)
    alike = Parameters(
        initial=np.full(40, 1 / 40),
        transitions=np.full((2, 40, 40), 1 / 40),
        observations=np.repeat(alone.parameters.observations, 40, axis=1),
        dense=True,
    )
    many = judged(evaluated(alike, likelihood), likelihood)
    assert many.log_likelihood == pytest.approx(alone.log_likelihood)
    assert many.score < alone.score + 1


def test_states_that_the_log_tells_apart_have_all_their_names() -> None:
    truth = POMDP(np.full((1, 3, 3), 1 / 3), 0.97 * np.eye(3)[None] + 0.01, [1, 0, 0])
    log = simulate(truth, 3_000, rng=0)
    likelihood = Likelihood.of(log, "departure")
    found = judged(climb(replace(parameters_of(truth), dense=True), likelihood), likelihood)
    assert found.complete == pytest.approx(complete_evidence(found.ascent.counts), abs=0.1)


def test_the_lead_on_more_steps_is_told_from_fewer() -> None:
    """The true T-Maze beside one whose corridors are one: what it leads by on five times the steps."""
    truth = domains.tmaze()
    log = simulate(truth, 25_000, rng=0)
    whole = parameters_of(truth)
    one_corridor = merged_states(whole, [(0, 1), (2, 3)], np.ones(4))
    leads = []
    for steps in (5_000, 25_000):
        likelihood = Likelihood.of(log.head(steps), truth.emission, truth)
        larger, fewer = (judged(climb(start, likelihood), likelihood) for start in (whole, one_corridor))
        leads.append(larger.score - fewer.score)
        if steps == 5_000:
            expected, now = expected_lead(larger, fewer, 5.0, 0.5), expected_lead(larger, fewer, 1.0, 0.5)
            cautious = expected_lead(larger, fewer, 5.0, 2.0)
            back, numbers = expected_lead(fewer, larger, 5.0, 0.5), larger.free - fewer.free
    assert now == pytest.approx(leads[0])
    assert expected == pytest.approx(leads[1], rel=0.1)
    assert expected - cautious == pytest.approx(4 * (2.0 - 0.5) * numbers)
    assert back == pytest.approx(-expected)


def test_the_least_cost_is_that_of_a_model_with_one_entry_a_row() -> None:
    """A cycle of three states that shows where it is: its evidence is what saying its entries costs, but for its start,
    which is a row of its own."""
    cycle = np.roll(np.eye(3), 1, axis=1)[None]
    model = POMDP(transitions=cycle, observations=np.eye(3)[None], initial=np.eye(3)[0])
    likelihood = Likelihood.of(simulate(model, 300, rng=0), "departure")
    found = judged(evaluated(parameters_of(model), likelihood), likelihood)
    every = np.ones((1, 3), dtype=bool)
    beginning = float(choice_cost(3, 1))
    assert found.log_likelihood == pytest.approx(0.0)
    assert -least_cost(every, every, np.array([3])) - beginning == pytest.approx(found.score)
