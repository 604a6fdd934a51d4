"""Whether a model explains a log: whether its one-step predictions leave anything to predict."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import pdtrc

from unlatch.arrays import Flags, Floats, Ints
from unlatch.core.pomdp import POMDP
from unlatch.core.reading import Reading, read_events
from unlatch.core.trajectory import Trajectory
from unlatch.learn.examine.chi_square import ChiSquare, chi_square
from unlatch.learn.examine.log_samples import counted, pooling

__all__ = ["Misfit", "misfit"]

_STEPS = 200_000
"""Steps that are predicted: the last ones of the log."""

_WARM_UP = 5_000
"""Steps before them that only bring the belief up to date."""

_LAGS = 3
"""How many steps back the memory that the model lacks is looked for."""

_ACTIONS, _OBSERVATIONS = 8, 12
"""Symbols that are told apart; the rarer ones are pooled."""

_BINS = 8
"""Classes of how sure a prediction is."""

_RARE = 0.5
"""Share of the steps that the rarer observations make up, at most."""

_UNLIKELY = 1e-3
"""An observation with less probability is unlikely: such are counted together, and their number is Poisson."""

_WORK_PER_CALL = 1 << 26


class Misfit(NamedTuple):
    """What the predictions of a model miss.

    Attributes
    ----------
    p_value : float
        Of the clearest of the tests, times their number.
    effect : float
        Per step, the standardized size of what could have been predicted better; zero for the true model.
    clue : str
        What predicts better: "calibration" (the predicted probabilities themselves), "lag 1" to "lag 3" (the
        pair that many steps before), "last rare" (the last pair with one of the rarer observations), or
        "unlikely" (observations that should hardly ever occur).
    unlikely, expected_unlikely : float
        Observations with a probability below .001: how many came, and how many should have come.
    impossible : int
        Observations with probability zero.
    steps : int
    """

    p_value: float
    effect: float
    clue: str
    unlikely: int
    expected_unlikely: float
    impossible: int
    steps: int


class _Predictions(NamedTuple):
    """Steps in classes of actions and of what they showed, and the probabilities of these classes."""

    actions: Ints
    observations: Ints
    begins: Flags
    probabilities: Floats
    impossible: int


def misfit(pomdp: POMDP, log: Trajectory) -> Misfit:
    """Test the one-step predictions of ``pomdp`` on the last steps of ``log``.

    Under the true model, what is seen less what was predicted has mean zero whatever went before. So residuals
    are summed over steps with the same action and the same past, as far as the latter goes into one class of
    the prediction or one earlier pair, and compared with their covariance under the model. A model that was
    fitted to the same log passes a little more easily than the true one.

    A step that there is shows that the episode had gone on, so that no prediction counts on an end before it. Where
    model and log know of endings, or of rewards beside observations, these are predicted together with the observation.
    """
    steps = _predicted(pomdp, log)
    tests = {"calibration": _tested(steps, _confidence(steps))}
    tests |= {f"lag {lag}": _tested(steps, _past_pairs(steps, lag)) for lag in range(1, _LAGS + 1)}
    tests["last rare"] = _tested(steps, _last_rare_pair(steps))
    unlikely, expected = _unlikely(steps)
    p_values = {clue: test.p_value for clue, test in tests.items()}
    p_values["unlikely"] = float(pdtrc(unlikely - 1, expected)) if unlikely else 1.0
    effects = {clue: float(np.sqrt(test.excess / max(len(steps.actions), 1))) for clue, test in tests.items()}
    effects["unlikely"] = float(np.sqrt(max(unlikely - expected, 0.0) / max(len(steps.actions), 1)))
    clue = min(p_values, key=lambda clue: (p_values[clue], -effects[clue]))
    return Misfit(
        p_value=min(p_values[clue] * len(p_values), 1.0),
        effect=effects[clue],
        clue=clue,
        unlikely=unlikely,
        expected_unlikely=expected,
        impossible=steps.impossible,
        steps=len(steps.actions),
    )


def _predicted(pomdp: POMDP, log: Trajectory) -> _Predictions:
    """Filter through the warm-up and predict the steps after it."""
    first = max(len(log) - _STEPS, 0)
    warm = max(first - _WARM_UP, 0)
    reading = read_events(pomdp, log)
    seen, shows = _outcomes(pomdp, log, reading)
    actions, events, seen = reading.actions[warm:], reading.events[warm:], seen[warm:]
    inside = log.episode_starts >= warm
    begins = np.full(len(actions), -1)
    begins[log.episode_starts[inside] - warm] = reading.beginnings[inside]
    classes = pooling(counted([seen], shows.shape[1]), _OBSERVATIONS)
    shown = np.einsum("aoi,oc->aci", shows, np.eye(int(classes.max()) + 1)[classes])
    belief = reading.anything.copy()  # in the middle of an episode it could be anywhere
    before, after = slice(0, first - warm), slice(first - warm, len(actions))
    _filtered(reading, shown, belief, begins[before], actions[before], events[before])
    probabilities, impossible = _filtered(
        reading, shown, belief, begins[after], actions[after], events[after]
    )
    return _Predictions(
        actions=pooling(counted([actions], pomdp.n_actions), _ACTIONS)[actions[after]],
        observations=classes[seen[after]],
        begins=begins[after] >= 0,
        probabilities=probabilities,
        impossible=impossible,
    )


def _outcomes(pomdp: POMDP, log: Trajectory, reading: Reading) -> tuple[Ints, Floats]:
    """What every step showed, of outcomes that exclude one another, and their probabilities ``shows[a, o, i]``.

    Of a model with endings the events come in three parts: the episode goes on, it ends, and either, for steps that
    do not tell. The first two are used where the log tells, else the last.
    """
    shows = reading.updates.sum(axis=3)
    if not pomdp.terminal:
        return reading.events, shows
    third = shows.shape[1] // 3
    if log.terminated is not None:
        return reading.events, shows[:, : 2 * third]
    return reading.events % third, shows[:, 2 * third :]


def _filtered(
    reading: Reading, shown: Floats, belief: Floats, begins: Ints, actions: Ints, events: Ints
) -> tuple[Floats, int]:
    """Probability of every class at every step, and how many events had none; advances ``belief``."""
    from unlatch.kernels.filtering import predict_steps

    probabilities = np.empty((len(actions), shown.shape[1]))
    possible = np.isfinite(reading.start_gains)
    starts = np.where(possible[:, None], reading.starts, reading.anything)
    chunk = max(1, _WORK_PER_CALL // (reading.rank * (reading.rank + shown.shape[1])))
    impossible = int((~possible[begins[begins >= 0]]).sum())
    for start in range(0, len(actions), chunk):
        part = slice(start, start + chunk)
        impossible += predict_steps(
            reading.updates,
            shown,
            starts,
            reading.anything,
            belief,
            begins[part],
            actions[part],
            events[part],
            probabilities[part],
        )
    return probabilities, impossible


def _confidence(steps: _Predictions) -> Ints:
    """The class that is predicted most, and how surely, as one number."""
    sure = np.minimum((steps.probabilities.max(axis=1) * _BINS).astype(np.int64), _BINS - 1)
    result: Ints = steps.probabilities.argmax(axis=1) * _BINS + sure
    return result


def _past_pairs(steps: _Predictions, lag: int) -> Ints:
    """The pair ``lag`` steps before, as one number; -1 where that lies in another episode."""
    pairs = steps.actions * steps.probabilities.shape[1] + steps.observations
    past = np.full(len(pairs), -1)
    past[lag:] = pairs[:-lag]
    crossing = steps.begins.copy()
    for back in range(1, lag):
        crossing[back:] |= steps.begins[:-back]
    past[crossing] = -1
    return past


def _last_rare_pair(steps: _Predictions) -> Ints:
    """The last pair with one of the rarer observations, however long ago; -1 if there is none in the episode.

    What is rare tends to be what a system must remember: a sign at the other end of a corridor.
    """
    shares = np.bincount(steps.observations, minlength=steps.probabilities.shape[1]) / len(steps.observations)
    rare = np.cumsum(shares[::-1])[::-1] <= _RARE  # classes are numbered by decreasing frequency
    places = np.arange(len(steps.observations))
    begins = np.maximum.accumulate(np.where(steps.begins, places, 0))
    latest = np.maximum.accumulate(np.where(rare[steps.observations], places, -1))
    before = np.append(-1, latest[:-1])
    pairs = steps.actions * steps.probabilities.shape[1] + steps.observations
    return np.where(before >= begins, pairs[before], -1)


def _tested(steps: _Predictions, past: Ints) -> ChiSquare:
    """Residuals by action and past."""
    from unlatch.kernels.filtering import add_residuals

    n_actions = int(steps.actions.max(initial=0)) + 1
    groups = np.where(past < 0, -1, past * n_actions + steps.actions)
    size, classes = int(groups.max(initial=-1)) + 1, steps.probabilities.shape[1]
    deviations, covariances = np.zeros((size, classes)), np.zeros((size, classes, classes))
    add_residuals(steps.probabilities, steps.observations, groups, deviations, covariances)
    test = ChiSquare()
    for deviation, covariance in zip(deviations, covariances, strict=True):
        if covariance.any():
            test = test.plus(chi_square(deviation, covariance))
    return test


def _unlikely(steps: _Predictions) -> tuple[int, float]:
    """How many unlikely observations came, and how many should have come."""
    unlikely = steps.probabilities < _UNLIKELY
    came = np.take_along_axis(unlikely, steps.observations[:, None], axis=1)
    return int(came.sum()), float(steps.probabilities[unlikely].sum())
