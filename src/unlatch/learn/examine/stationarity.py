"""Whether a log is stationary: whether its two halves could come from one system and one policy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import stdtr

from unlatch.arrays import Floats, Ints
from unlatch.core.trajectory import Trajectory
from unlatch.learn.examine.log_samples import Stretch, counted, pooling, stretches

__all__ = ["Drift", "drift_between_halves"]

_HALF = 16
_BLOCKS = 2 * _HALF
"""Steps depend on one another, so noise is told from the scatter between blocks: enough of them for that to be
known, and each as long as can be, because blocks must outlast the system's memory."""

_BLOCK_LENGTH = 1 << 18
_SHORTEST = 32
"""Steps of a block: at most, which bounds time and memory, and at least."""

_ACTIONS, _OBSERVATIONS = 8, 16
"""Symbols that are told apart; the rarer ones are pooled."""

_RARE = 20
"""A frequency that rests on fewer occurrences is not compared."""


class Drift(NamedTuple):
    """The most significant change of a frequency, and the chance of one as significant among all ``compared``.

    ``before`` and ``after`` are conditional probabilities of the same ``event``, in the halves of the log.
    """

    p_value: float
    event: str
    before: float
    after: float
    compared: int


class _Events(NamedTuple):
    """How often events occurred and could have, per block: both (blocks, events); and what they are.

    An event is a pair of classes (action, observation), or two pairs in a row, or the same observation twice after
    two actions in a row. ``first`` and ``last`` number its pairs; ``first`` is -1 if there is one pair only, and
    ``last`` is -1 if ``first`` numbers the two actions.
    """

    counts: Ints
    tries: Ints
    first: Ints
    last: Ints


def drift_between_halves(log: Trajectory) -> Drift | None:
    """Compare the probabilities of observations, and of two in a row, given the actions, between the halves.

    Where hidden states are alike but for their names, a change shows in how long they last, and spreads over many
    frequencies; so it is an event of its own that the observation stays the same. Each difference is divided by the
    scatter of its frequency between blocks, or by that of independent steps if larger (Welch's test); the least of
    the p-values is multiplied by their number. None if the log is too short to be divided, or nothing in it occurs
    often enough.
    """
    if len(log) < _BLOCKS * _SHORTEST:
        return None
    blocks = stretches(log, _BLOCKS, _BLOCK_LENGTH)
    actions = pooling(counted((b.actions for b in blocks), len(log.action_names)), _ACTIONS)
    observations = pooling(
        counted((b.observations for b in blocks), len(log.observation_names)), _OBSERVATIONS
    )
    pooled = [Stretch(actions[b.actions], observations[b.observations], b.begins) for b in blocks]
    names = _names(actions, log.action_names), _names(observations, log.observation_names)
    events = _events(pooled, *map(len, names))
    before, after, p_values = _compared(events)
    if not len(p_values):
        return None
    worst = int(p_values.argmin())
    return Drift(
        p_value=min(float(p_values[worst]) * len(p_values), 1.0),
        event=_spelled(events, worst, names),
        before=float(before[worst]),
        after=float(after[worst]),
        compared=len(p_values),
    )


def _names(classes: Ints, names: tuple[str, ...]) -> list[str]:
    """What to call every class: its symbol, or all that it pools."""
    members = [np.flatnonzero(classes == chosen) for chosen in range(int(classes.max()) + 1)]
    return [f"'{names[some[0]]}'" if len(some) == 1 else "a rare symbol" for some in members]


def _spelled(events: _Events, index: int, names: tuple[list[str], list[str]]) -> str:
    actions, observations = names
    first, last = int(events.first[index]), int(events.last[index])
    if last < 0:
        before, after = divmod(first, len(actions))
        return f"the same observation after {actions[before]} and then {actions[after]}"
    pairs = [divmod(pair, len(observations)) for pair in (first, last) if pair >= 0]
    return ", then ".join(f"{observations[shown]} after {actions[done]}" for done, shown in pairs)


def _events(blocks: list[Stretch], n_actions: int, n_observations: int) -> _Events:
    """Every event that occurs often enough."""
    n_pairs = n_actions * n_observations
    singles, doubles, tries, double_tries = [], [], [], []
    for block in blocks:
        pairs = block.actions * n_observations + block.observations
        inside = ~block.begins[1:]
        singles.append(np.bincount(pairs, minlength=n_pairs))
        tries.append(np.bincount(block.actions, minlength=n_actions))
        doubles.append(np.bincount((pairs[:-1] * n_pairs + pairs[1:])[inside], minlength=n_pairs**2))
        done = block.actions[:-1] * n_actions + block.actions[1:]
        double_tries.append(np.bincount(done[inside], minlength=n_actions**2))
    shape = (len(blocks), n_actions, n_observations, n_actions, n_observations)
    same = np.einsum("baoco->bac", np.reshape(doubles, shape)).reshape(len(blocks), -1)
    first, last = np.divmod(np.arange(n_pairs**2), n_pairs)
    action = np.arange(n_pairs) // n_observations
    counts = np.hstack([singles, doubles, same])
    single, double = np.array(tries)[:, action], np.array(double_tries)
    chosen = counts.sum(axis=0) >= _RARE
    return _Events(
        counts=counts[:, chosen],
        tries=np.hstack([single, double[:, action[first] * n_actions + action[last]], double])[:, chosen],
        first=np.concatenate([np.full(n_pairs, -1), first, np.arange(n_actions**2)])[chosen],
        last=np.concatenate([np.arange(n_pairs), last, np.full(n_actions**2, -1)])[chosen],
    )


def _compared(events: _Events) -> tuple[Floats, Floats, Floats]:
    """Probabilities in both halves, and the p-value of their difference, for every event."""
    overall = events.counts.sum(axis=0) / events.tries.sum(axis=0)
    before, noise_before = _estimate(events.counts[:_HALF], events.tries[:_HALF], overall)
    after, noise_after = _estimate(events.counts[_HALF:], events.tries[_HALF:], overall)
    noise = noise_before + noise_after
    noisy = (noise > 0) & np.isfinite(noise)
    sure = np.where(noisy, noise, 1.0)
    deviates = np.where(noisy, np.abs(before - after) / np.sqrt(sure), 0.0)
    shares = np.where(noisy, noise_before / sure, 0.5)
    degrees = (_HALF - 1) / (shares**2 + (1 - shares) ** 2)
    p_values: Floats = 2 * stdtr(degrees, -deviates)
    return before, after, p_values


def _estimate(counts: Ints, tries: Ints, overall: Floats) -> tuple[Floats, Floats]:
    """Probability and its sampling variance, infinite where nothing was tried."""
    total = tries.sum(axis=0)
    some = np.maximum(total, 1)
    probability = counts.sum(axis=0) / some
    residuals = counts - probability * tries
    between = (residuals**2).sum(axis=0) * _HALF / (_HALF - 1) / some**2
    variance = np.maximum(between, overall * (1 - overall) / some)
    return probability, np.where(total > 0, variance, np.inf)
