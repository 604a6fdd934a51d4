"""Zeros: which entries are closed, which are kept, and what is left when time is up."""

from __future__ import annotations

import numpy as np
import pytest

import unlatch
from naive import blurred
from sizes import sized
from unlatch import domains, simulate
from unlatch.core.budget import Budget, Stopped
from unlatch.core.progress import listening
from unlatch.learn.likelihood.bic import parameter_price, penalized_likelihood
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import Parameters, parameters_of
from unlatch.learn.likelihood.sparse_em import thrifty
from unlatch.learn.likelihood.zeros import maximize
from unlatch.study.efficiency import random_model


def test_thrift_closes_what_is_hardly_used_and_keeps_what_is_needed() -> None:
    # one action; state 1 is entered three times in all, and only there the second symbol is seen
    observations = np.zeros(3_000, dtype=np.int64)
    observations[[500, 1_500, 2_500]] = 1
    log = unlatch.Trajectory(np.zeros(3_000, dtype=np.int64), observations, ("a",), ("x", "y"))
    likelihood = Likelihood.of(log, "departure")
    start = Parameters(
        initial=np.array([0.999, 0.001]),
        transitions=np.array([[[0.99, 0.01], [0.9, 0.1]]]),
        observations=np.array([[[0.999, 0.001], [0.01, 0.99]]]),
    )
    saved = thrifty(start, likelihood)
    assert saved is not None
    counts = likelihood.counts(saved)  # possible: the way to the second symbol was opened again
    assert counts.log_likelihood > -40
    assert any((rows == 0).any() for rows in saved.blocks[1:])
    with Budget(1e-9).active(), pytest.raises(Stopped):
        thrifty(start, likelihood)


def test_zeros_found_from_far_are_as_good_as_those_found_from_the_truth() -> None:
    """The penalized likelihood of a sparse random model, from a start without a zero."""
    truth = random_model(5)
    log = simulate(truth, 30_000, rng=2)
    likelihood = Likelihood.of(log, "departure", truth)
    reference, _ = maximize(parameters_of(truth), likelihood)
    found, zeros = maximize(parameters_of(blurred(truth, 3, weight=0.3)), likelihood)
    assert found.converged
    assert penalized_likelihood(found, 30_000) > penalized_likelihood(reference, 30_000) - 1
    assert zeros > 50


def test_an_entry_that_is_worth_its_price_stays() -> None:
    """Three wrong observations in five thousand steps cannot be explained otherwise."""
    truth = domains.tiger()
    log = simulate(truth, 5_000, rng=0)
    likelihood = Likelihood.of(log, "departure", truth)
    whole, none = maximize(parameters_of(blurred(truth, 1)), likelihood, zeros=False)
    sparse, closed = maximize(parameters_of(blurred(truth, 1)), likelihood)
    assert none == 0
    assert closed > 0
    assert sparse.log_likelihood > whole.log_likelihood - closed * parameter_price(5_000)
    assert (sparse.parameters.observations[0, :, :2] > 0).all()  # listening is wrong now and then


@pytest.mark.parametrize("reports", [1, 30, 100])
def test_when_time_is_up_the_zeros_found_by_then_are_kept(reports: int) -> None:
    truth = domains.tmaze()
    likelihood = Likelihood.of(simulate(truth, sized(10_000), rng=1), "departure", truth)
    start = parameters_of(blurred(truth, 2))
    budget, heard = Budget(), []

    def interrupt(stage: str, done: float, total: float) -> None:
        heard.append(stage)
        if len(heard) == reports:
            budget.interrupt()

    with budget.active(), listening(interrupt):
        best, zeros = maximize(start, likelihood)
    assert len(heard) == reports  # what is left of the work was not done
    vanished = sum(
        int(((before > 0) & (rows == 0)).sum()) for before, rows in zip(start, best.parameters, strict=True)
    )
    assert 0 <= zeros <= vanished  # entries that the climb itself brought to zero are not counted
    assert likelihood.counts(best.parameters).log_likelihood == best.log_likelihood
