"""The information of a log by the scores of its blocks, beside its differences; what is missing of it."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import naive
from naive import blurred
from sizes import sized
from unlatch import POMDP, Trajectory, domains, linalg, simulate
from unlatch.arrays import Floats
from unlatch.core.budget import Budget, Stopped
from unlatch.core.progress import listening
from unlatch.errors import BeliefCollapseError
from unlatch.learn.likelihood import scores
from unlatch.learn.likelihood.climb import Ascent, climb, evaluated
from unlatch.learn.likelihood.coordinates import SquareRoots
from unlatch.learn.likelihood.forward_backward import expected_counts
from unlatch.learn.likelihood.information import (
    information_by_differences,
    information_by_scores,
    information_matrix,
    missing_information,
    row_variances,
)
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import EncodedLog, Parameters, encoded_log, parameters_of
from unlatch.learn.likelihood.scores import Coordinates, block_scores, score_products
from unlatch.learn.likelihood.split_merge import with_shared_rows

EMISSIONS = ["departure", "arrival"]


# --- scores of blocks -----------------------------------------------------------------------------------


def every_coordinate(parameters: Parameters) -> Coordinates:
    numbers, done = [], 0
    for rows in parameters:
        mask = rows > 0
        numbers.append(np.where(mask, done + np.cumsum(mask).reshape(mask.shape) - 1, -1))
        done += int(mask.sum())
    sizes = np.concatenate([(rows > 0).sum(axis=-1).reshape(-1) for rows in parameters])
    return Coordinates(tuple(numbers), np.append(0, np.cumsum(sizes)))


def half_score(parameters: Parameters, log: EncodedLog, emission: str, events: int) -> Floats:
    """Of the first events, from their expected counts: n / x - x sum(n)."""
    head = replace(log, symbols=log.symbols[:events], begins=log.begins[:events])
    counts = expected_counts(parameters, head, emission=emission)  # type: ignore[arg-type]
    slopes = []
    for rows, uses in zip(parameters, counts.blocks, strict=True):
        x = np.sqrt(rows)
        with np.errstate(invalid="ignore"):
            slopes.append((uses / x - x * uses.sum(axis=-1, keepdims=True))[rows > 0])
    return np.concatenate(slopes)


def compare_with_heads(parameters: Parameters, log: EncodedLog, emission: str, length: int) -> None:
    """What every block adds is the score up to its end less the score up to its beginning."""
    found = np.concatenate(
        list(block_scores(parameters, log, every_coordinate(parameters), length=length, emission=emission))  # type: ignore[arg-type]
    )
    assert len(found) == -(-len(log) // length)
    before = np.zeros(found.shape[1])
    for block, score in enumerate(found):
        after = half_score(parameters, log, emission, min((block + 1) * length, len(log)))
        np.testing.assert_allclose(
            score, after - before, atol=5e-3
        )  # where the way back ends a little is left
        before = after
    np.testing.assert_allclose(found.sum(axis=0), before, atol=1e-2)


def episodes_of(model: POMDP) -> Trajectory:
    log = naive.simulate_episodes(model, np.random.default_rng(4), episodes=15, longest=4)
    assert 0 < log.terminated.sum() < 15
    return log


@pytest.mark.parametrize("length", [1, 7])
@pytest.mark.parametrize("emission", EMISSIONS)
@pytest.mark.parametrize("everything", [True, False], ids=["all told", "endings only"])
def test_a_block_adds_what_it_says_of_itself_and_of_its_past(
    emission: str, everything: bool, length: int
) -> None:
    """Endings, first observations, rewards apart; blocks that hold the ends of episodes."""
    build = naive.random_episodic if everything else naive.random_episodic_pomdp
    model = build(np.random.default_rng(3), emission=emission)
    log = encoded_log(episodes_of(model), model)
    assert log.tells_endings
    compare_with_heads(parameters_of(model), log, emission, length)


@pytest.mark.parametrize("emission", EMISSIONS)
@pytest.mark.parametrize("model", [domains.tmaze(), blurred(domains.directional_hallway(), 1)])
def test_the_same_without_endings(model: POMDP, emission: str) -> None:
    """The move of the last step is not seen with departure."""
    model = replace(model, emission=emission)
    log = encoded_log(simulate(model, 60, episodes=3, rng=2))
    compare_with_heads(parameters_of(model), log, emission, 5)


def test_rows_that_are_shared_have_their_coordinates_once() -> None:
    model = replace(blurred(domains.tmaze(), 1), emission="arrival")
    log = encoded_log(simulate(model, 120, episodes=2, rng=3))
    own = parameters_of(model)
    shared = replace(
        own, observations=np.tile(own.observations.mean(axis=0), (log.n_actions, 1, 1)), shared=True
    )
    compare_with_heads(shared, log, "arrival", 6)


def test_batches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = blurred(domains.directional_hallway(), 2)
    log, parameters = encoded_log(simulate(model, sized(20_000), rng=1)), parameters_of(model)
    coordinates = every_coordinate(parameters)
    whole = list(block_scores(parameters, log, coordinates, length=10))
    monkeypatch.setattr(scores, "BATCH_NUMBERS", 1_000)
    small = list(block_scores(parameters, log, coordinates, length=10))
    assert len(whole) == 1
    assert len(small) > 5
    np.testing.assert_array_equal(np.concatenate(small), whole[0])


def test_a_second_thread_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes the scores of a batch, of which there are several here, beside the products of the one before."""
    model = blurred(domains.directional_hallway(), 2)
    log, parameters = encoded_log(simulate(model, sized(40_000), rng=1)), parameters_of(model)
    coordinates = every_coordinate(parameters)
    found = []
    for threads in (1, 2):
        monkeypatch.setattr(scores, "use_threads", lambda work, threads=threads: threads > 1)
        monkeypatch.setattr(scores, "BATCH_NUMBERS", 1 << 14)
        (products,) = score_products(
            parameters, log, coordinates, [slice(0, len(coordinates))], length=5, emission="departure"
        )
        found.append(products)
    np.testing.assert_array_equal(*found)


def test_the_end_of_a_budget_ends_both_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    model = blurred(domains.directional_hallway(), 2)
    log, parameters = encoded_log(simulate(model, 5_000, rng=1)), parameters_of(model)
    coordinates = every_coordinate(parameters)
    monkeypatch.setattr(scores, "use_threads", lambda work: True)
    budget, before = Budget(0.0), threading.active_count()
    with budget.ending():
        score_products(
            parameters, log, coordinates, [slice(0, len(coordinates))], length=5, emission="departure"
        )
        pytest.fail("it has ended")
    assert budget.stopped
    assert threading.active_count() == before


@pytest.mark.parametrize("cuts", [[3, 7, 8], [1], [70]])
def test_parts_have_the_squares_of_their_own_scores(cuts: list[int]) -> None:
    """Narrow ones, and such that are wide enough for a product of matrices."""
    model = domains.tmaze(3)
    parameters = parameters_of(blurred(model, seed=0))
    log = encoded_log(simulate(model, 1_000, rng=0))
    coordinates = every_coordinate(parameters)
    scores = np.concatenate(list(block_scores(parameters, log, coordinates, length=10)))
    bounds = [0, *cuts, len(coordinates)]
    parts = [slice(a, b) for a, b in pairwise(bounds)]
    found = score_products(parameters, log, coordinates, parts, length=10, emission="departure")
    assert len(found) == len(parts)
    for part, products in zip(parts, found, strict=True):
        np.testing.assert_allclose(products, scores[:, part].T @ scores[:, part], rtol=1e-9, atol=1e-9)


def test_parts_of_many_states_have_the_squares_of_their_own_scores() -> None:
    """Of a model with zeros each block touches few coordinates."""
    model = domains.random_room(4, 5, 4, rng=0)
    parameters, log = parameters_of(model), encoded_log(simulate(model, 500, rng=0))
    coordinates = every_coordinate(parameters)
    scores = np.concatenate(list(block_scores(parameters, log, coordinates, length=5, emission="arrival")))
    parts = [slice(a, min(a + 9, len(coordinates))) for a in range(0, len(coordinates), 9)]
    found = score_products(parameters, log, coordinates, parts, length=5, emission="arrival")
    for part, products in zip(parts, found, strict=True):
        np.testing.assert_allclose(products, scores[:, part].T @ scores[:, part], atol=1e-12)


def test_an_impossible_log_is_refused() -> None:
    model = domains.sense_float_reset(3)
    log = encoded_log(simulate(blurred(model, 1, weight=0.5), 200, rng=0), model)
    with pytest.raises(BeliefCollapseError, match="impossible"):
        list(block_scores(parameters_of(model), log, every_coordinate(parameters_of(model)), length=5))


# --- information ----------------------------------------------------------------------------------------


def climbed(model: POMDP, steps: int, seed: int = 0) -> tuple[Ascent, Likelihood]:
    likelihood = Likelihood.of(simulate(model, steps, rng=seed), model.emission, model)
    return climb(parameters_of(model), likelihood), likelihood


def errors(roots: SquareRoots, information: Floats) -> Floats:
    """Standard errors of everything but where episodes begin."""
    return np.sqrt(np.concatenate([rows.ravel() for rows in row_variances(roots, information).blocks[1:]]))


def assert_same_information(ascent: Ascent, likelihood: Likelihood) -> None:
    roots = SquareRoots(ascent.parameters, ascent.counts)
    slow, quick = (
        information_by_differences(roots, likelihood),
        information_by_scores(roots, likelihood),
    )
    expected, found = errors(roots, slow), errors(roots, quick)
    moving = expected > 1e-4
    ratios = found[moving] / expected[moving]
    assert np.median(ratios) == pytest.approx(1, abs=0.05)
    assert np.quantile(ratios, [0.05, 0.95]) == pytest.approx(1, abs=0.2)
    prior = 0.01 * np.eye(len(slow))  # what the log leaves open has no logarithm
    heights = [linalg.log_determinant(matrix + prior, least=0.01) / 2 for matrix in (slow, quick)]
    assert heights[1] == pytest.approx(heights[0], abs=2)


@pytest.mark.compiled
@pytest.mark.parametrize(
    "model",
    [
        domains.tiger(),
        domains.tmaze(),
        domains.directional_hallway(),
        domains.noisy_hallway(),
        replace(blurred(domains.tmaze(), 3), emission="arrival"),
        blurred(domains.tmaze(), 3, weight=0.2),
    ],
    ids=["tiger", "tmaze", "directional", "noisy", "arrival", "dense"],
)
def test_scores_agree_with_differences(model: POMDP) -> None:
    assert_same_information(*climbed(model, 100_000))


@pytest.mark.compiled
@pytest.mark.parametrize("emission", EMISSIONS)
def test_scores_agree_with_differences_in_episodes(emission: str) -> None:
    """Endings, first observations and rewards apart."""
    model = naive.random_episodic(np.random.default_rng(3), emission=emission)
    log = naive.simulate_episodes(model, np.random.default_rng(1), episodes=3_000, longest=30)
    likelihood = Likelihood.of(log, emission, model)  # type: ignore[arg-type]
    assert_same_information(climb(parameters_of(model), likelihood), likelihood)


@pytest.mark.compiled
def test_scores_agree_with_differences_where_rows_are_shared() -> None:
    ascent, likelihood = climbed(replace(blurred(domains.tmaze(), 3), emission="arrival"), 50_000)
    shared = climb(with_shared_rows(ascent), likelihood)
    assert shared.parameters.shared
    assert_same_information(shared, likelihood)


def test_of_a_long_log_by_scores_of_a_short_one_by_differences_else_not_at_all() -> None:
    heard: list[float] = []

    def note(stage: str, done: float, total: float) -> None:
        heard.append(total)

    model = domains.tiger()
    for steps in (2_000, 100):
        ascent, likelihood = climbed(model, steps)
        roots = SquareRoots(ascent.parameters, ascent.counts)
        with listening(note):
            found = information_matrix(roots, likelihood)
        assert found is not None
        assert heard[-1] == (steps if steps == 2_000 else len(roots.start))
        assert linalg.log_determinant(found, least=1e-9) == pytest.approx(len(found) * np.log(4), abs=2)
    large = blurred(domains.tmaze(3), 0)
    likelihood = Likelihood.of(simulate(large, 300, rng=0), "departure", large)
    roots = SquareRoots(parameters_of(large), likelihood.counts(parameters_of(large)))
    assert information_matrix(roots, likelihood) is None


# --- what is missing ------------------------------------------------------------------------------------


def test_nothing_is_missing_where_nothing_is_hidden() -> None:
    """T-Maze tells the junction's side late but for certain, a single state has no secrets at all."""
    coin = POMDP(np.ones((2, 1, 1)), [[[0.7, 0.3]], [[0.2, 0.8]]], [1.0])
    for model in (coin, domains.tmaze()):
        ascent, likelihood = climbed(model, sized(20_000))
        assert missing_information(ascent, likelihood) == pytest.approx(0, abs=0.3)
    certain = POMDP([[[0.0, 1.0], [1.0, 0.0]]], [np.eye(2)], [1.0, 0.0])
    ascent, likelihood = climbed(certain, 200)
    assert missing_information(ascent, likelihood) == 0.0


def by_hand(ascent: Ascent, likelihood: Likelihood) -> float:
    """Both matrices in the roots themselves, the log's from the scaled differences."""
    roots = SquareRoots(ascent.parameters, ascent.counts)
    visits, kept = [], []
    for uses, mask in zip(ascent.counts.blocks, roots.masks, strict=True):
        used = uses > 0.5
        visits.append(np.broadcast_to(uses.sum(axis=-1, keepdims=True), uses.shape)[mask])
        kept.append((used & (used.sum(axis=-1, keepdims=True) > 1))[mask])
    kept[0][:] = False  # where episodes begin
    v, which = np.concatenate(visits), np.flatnonzero(np.concatenate(kept))
    scales = np.sqrt(np.maximum(v, 1.0))
    observed = (information_by_differences(roots, likelihood) / 4 * np.outer(scales, scales))[
        np.ix_(which, which)
    ]
    known = observed + np.eye(len(which))
    return float(0.5 * (np.log(v[which] + 1).sum() - linalg.log_determinant(known, least=1.0)))


@pytest.mark.compiled
@pytest.mark.parametrize("steps", [500, 20_000], ids=["by differences", "by scores"])
def test_what_is_missing_is_half_the_difference_of_two_log_determinants(steps: int) -> None:
    model = domains.directional_hallway() if steps == 20_000 else blurred(domains.tiger(), 0, weight=0.4)
    ascent, likelihood = climbed(model, steps)
    assert missing_information(ascent, likelihood) == pytest.approx(by_hand(ascent, likelihood), abs=1)


@pytest.mark.compiled
def test_of_each_state_apart_less_is_missing() -> None:
    """The determinant of a matrix is at most the product of those of its diagonal blocks."""
    for model in (domains.noisy_hallway(), blurred(domains.tmaze(), 3, weight=0.2)):
        ascent, likelihood = climbed(model, 30_000)
        whole, apart = (missing_information(ascent, likelihood, whole=size) for size in (2_000, 0))
        assert 0.6 * whole < apart < whole


def test_entries_that_the_log_has_not_used_change_nothing() -> None:
    model = domains.tiger()
    likelihood = Likelihood.of(simulate(model, 5_000, rng=0), "departure", model)
    parameters = parameters_of(model)
    listening_row = parameters.transitions.copy()
    listening_row[0] = [[1 - 1e-6, 1e-6], [1e-6, 1 - 1e-6]]
    ajar = replace(parameters, transitions=listening_row)
    found = [missing_information(evaluated(model_, likelihood), likelihood) for model_ in (parameters, ajar)]
    assert found[1] == pytest.approx(found[0], abs=0.01)


def test_it_ends_with_its_budget() -> None:
    ascent, likelihood = climbed(domains.tiger(), 3_000)
    with Budget(1e-9).active(), pytest.raises(Stopped):
        missing_information(ascent, likelihood)
