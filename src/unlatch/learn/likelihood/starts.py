"""Models to climb from, and ways to make one possible for a log."""

from __future__ import annotations

import numpy as np

from unlatch.errors import BeliefCollapseError
from unlatch.learn.likelihood.climb import Ascent, climb
from unlatch.learn.likelihood.parameters import EncodedLog, Parameters

__all__ = ["climb_or_open", "opened", "single_state", "smoothed"]


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


def climb_or_open(start: Parameters, log: EncodedLog, **options: object) -> Ascent:
    """`climb`, from a model without the zeros of ``start`` if those make the log impossible."""
    try:
        return climb(start, log, **options)  # type: ignore[arg-type]
    except BeliefCollapseError:
        return climb(smoothed(start, log), log, **options)  # type: ignore[arg-type]
