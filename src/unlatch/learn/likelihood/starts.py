"""Models to climb from, and ways to make one possible for a log."""

from __future__ import annotations

from typing import Any

import numpy as np

from unlatch.errors import NumericalError
from unlatch.learn.likelihood.climb import Ascent, climb
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import EncodedLog, Parameters

__all__ = ["climb_or_open", "opened", "possible", "random_parameters", "single_state", "smoothed"]


def single_state(log: EncodedLog) -> Parameters:
    """The model without memory: every action's overall distribution."""
    seen = log.seen + np.where(log.seen.sum(axis=1, keepdims=True) == 0, 1, 0)
    return Parameters(
        initial=np.ones(1),
        transitions=np.ones((log.n_actions, 1, 1)),
        observations=(seen / seen.sum(axis=1, keepdims=True))[:, None, :],
    )


def opened(parameters: Parameters, log: EncodedLog, weight: float = 1e-3) -> Parameters:
    """The model with a little room for symbols that it gives no chance anywhere but that occur in the log."""
    shown = parameters.observations.sum(axis=1)
    new = (log.seen > 0) & (shown <= 0)
    if not new.any():
        return parameters
    observations = parameters.observations + weight * new[:, None, :]
    return parameters._replace(observations=observations / observations.sum(axis=-1, keepdims=True))


def smoothed(parameters: Parameters, log: EncodedLog, weight: float = 1e-3) -> Parameters:
    """The model mixed with a little of everything, so that no log is impossible."""
    overall = single_state(log).observations
    states = len(parameters.initial)
    return Parameters(
        initial=(1 - weight) * parameters.initial + weight / states,
        transitions=(1 - weight) * parameters.transitions + weight / states,
        observations=(1 - weight) * parameters.observations + weight * overall,
    )


def possible(parameters: Parameters, likelihood: Likelihood) -> Parameters:
    """The model itself, or mixed with a little of everything if the log is impossible under it."""
    try:
        likelihood.counts(parameters)
    except NumericalError:
        return smoothed(parameters, likelihood.log)
    return parameters


def climb_or_open(start: Parameters, likelihood: Likelihood, **options: Any) -> Ascent:
    """`climb`, from a model without the zeros of ``start`` if those make the log impossible."""
    try:
        return climb(start, likelihood, **options)
    except NumericalError:
        return climb(smoothed(start, likelihood.log), likelihood, **options)


def random_parameters(steps: EncodedLog, states: int, rng: np.random.Generator) -> Parameters:
    """A random start: flat Dirichlet rows over what was seen after each action.

    An action that was never tried gets a placeholder: it moves nothing and shows what the whole log shows.
    """
    untried = steps.seen.sum(axis=1) == 0
    transitions = rng.dirichlet(np.ones(states), size=(steps.n_actions, states))
    shares = rng.standard_exponential((steps.n_actions, states, steps.n_observations))
    shares *= (steps.seen > 0)[:, None]
    transitions[untried] = np.eye(states)
    shares[untried] = steps.seen.sum(axis=0)
    return Parameters(
        initial=rng.dirichlet(np.ones(states)),
        transitions=transitions,
        observations=shares / shares.sum(axis=2, keepdims=True),
    )
