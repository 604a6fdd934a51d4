"""Models to climb from, and ways to make one possible for a log."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from unlatch.arrays import Flags, Floats, Ints
from unlatch.core.pomdp import Emission
from unlatch.core.reading import Endings
from unlatch.errors import NumericalError
from unlatch.learn.likelihood.climb import Ascent, climb
from unlatch.learn.likelihood.forward_backward import impossible_events
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import EncodedLog, Parameters, maximization

__all__ = [
    "DENSE_STATES",
    "climb_or_open",
    "completed",
    "opened",
    "possible",
    "random_parameters",
    "reopened",
    "seen_states",
    "single_state",
    "smoothed",
    "with_endings",
    "with_one_end",
    "zeros_save_time",
]

DENSE_STATES = 8
"""States up to which zeros do not make passes faster."""

_MOSTLY = 0.5
"""Share of the transitions that a model uses above which they do not either, whatever its states: passes go by whole
matrices then."""

_TRIALS = 3
_GROWN = 2.0
"""Passes that a zero is opened for, and the growth by which it shows that it is wanted. Noise alone makes half of all
grow a little."""

_TRIAL_WORK = 500_000_000
"""Multiplications of one such pass, events times states squared, at most: less than a second."""

_OPENINGS = 8
_AROUND = 20
_OPENING_SHARE = 10
"""How often zeros are opened where a log is impossible, events before and after each such place that are asked, and how
many times `_TRIAL_WORK` that may take: an impossible log is rare, and without these zeros every pass is dear."""

_USED_THERE = 0.01
"""Expected uses there from which an entry is opened: one is needed, or a few that may each be the one."""

_NEGLIGIBLE = 1e-12
"""Probability to go on below which a row is taken to end the episode for certain."""


def single_state(log: EncodedLog, emission: Emission = "departure", *, shared: bool = False) -> Parameters:
    """The model without memory: every action's overall distribution, or that of all together if rows are ``shared``,
    and how often it ends the episode."""
    seen = log.seen - (log.last_seen if emission == "arrival" else 0)
    shown = np.broadcast_to(seen.sum(axis=0), seen.shape) if shared else seen
    observations = _shares(shown)[:, None, :]
    alone = Parameters(
        initial=np.ones(1),
        transitions=np.ones((log.n_actions, 1, 1)),
        observations=observations,
        first=_shares(log.first_seen[None]) if log.first_names else None,
        rewards=_shares(log.paid)[:, None, :] if len(log.reward_values) else None,
        shared=shared,
    )
    return with_endings(alone, log, emission)


def _shares(counts: Ints) -> Floats:
    """Rows as distributions; a row without counts is uniform."""
    rows = counts + (counts.sum(axis=-1, keepdims=True) == 0)
    result: Floats = rows / rows.sum(axis=-1, keepdims=True)
    return result


def with_endings(parameters: Parameters, log: EncodedLog, emission: Emission) -> Parameters:
    """The model with states in which nothing more happens, if the log has endings: as often as in all.

    The state left shows the last observation (departure): then one such state is enough. Otherwise there is one for
    every last observation, which it shows; how each of them depends on the state before is then up to the transitions.
    Those that the model has already are taken apart again.
    """
    if not log.last_seen.any():
        return parameters
    live = ~parameters.terminal
    shows = np.ones((1, log.n_observations)) / log.n_observations
    if emission == "arrival":
        shows = np.eye(log.n_observations)[log.last_seen.any(axis=0)]
    states, ends = int(live.sum()), len(shows)
    laws = _ending_laws(parameters, log, emission, shows)
    transitions = np.zeros((log.n_actions, states + ends, states + ends))
    stay = parameters.transitions[:, live][:, :, live]
    transitions[:, :states, :states] = (
        stay * ((1 - laws.sum(axis=2)) / np.maximum(stay.sum(axis=2), _NEGLIGIBLE))[:, :, None]
    )
    transitions[:, :states, states:] = laws
    transitions[:, states:, states:] = np.eye(ends)
    last = np.broadcast_to(shows, (log.n_actions, *shows.shape))
    return replace(
        parameters,
        initial=np.append(parameters.initial[live], np.zeros(ends)),
        transitions=transitions,
        observations=np.concatenate([parameters.observations[:, live], last], axis=1),
        first=_placeholders(parameters.first, live, ends, axis=0),
        rewards=_placeholders(parameters.rewards, live, ends, axis=1),
        terminal=np.arange(states + ends) >= states,
    )


def _ending_laws(parameters: Parameters, log: EncodedLog, emission: Emission, shows: Floats) -> Floats:
    """Probability that an action in a state ends the episode with each of the last rows, (actions, states, ends)."""
    live, ends = ~parameters.terminal, parameters.terminal
    if not ends.any():
        shares = log.last_seen / np.maximum(log.seen.sum(axis=1, keepdims=True), 1)
        law = shares @ shows.T if emission == "arrival" else shares.sum(axis=1, keepdims=True)
        return np.repeat(law[:, None, :], int(live.sum()), axis=1)
    known = parameters.transitions[:, live][:, :, ends]
    shown = parameters.observations[:, ends] @ shows.T
    result: Floats = known.sum(axis=2, keepdims=True) if emission == "departure" else known @ shown
    return result


def _placeholders(rows: Floats | None, live: Flags, ends: int, axis: int) -> Floats | None:
    """The rows of the states that go on, and uniform ones, which mean nothing, for those that do not."""
    if rows is None:
        return None
    kept = rows.compress(live, axis=axis)
    shape = list(kept.shape)
    shape[axis] = ends
    return np.concatenate([kept, np.full(shape, 1 / shape[-1])], axis=axis)


def seen_states(log: EncodedLog) -> Parameters:
    """A state for every observation, as if the last one told everything: the start for a system that hides little.

    Of arrival emission. Where an observation leads is counted; one that no step follows leads anywhere.
    """
    shown = np.flatnonzero((log.seen - log.last_seen).any(axis=0))
    number = np.full(log.n_observations, -1)
    number[shown] = np.arange(len(shown))
    step = log.is_step[log.symbols] & (log.pair_endings[log.symbols] != Endings.ENDS)
    state = np.where(step, number[log.pair_observations[log.symbols]], -1)
    known = ~log.begins[1:] & (state[:-1] >= 0) & (state[1:] >= 0)
    moves = np.zeros((log.n_actions, len(shown), len(shown)), dtype=np.int64)
    np.add.at(moves, (log.pair_actions[log.symbols[1:][known]], state[:-1][known], state[1:][known]), 1)
    return Parameters(
        initial=np.full(len(shown), 1 / len(shown)),
        transitions=_shares(moves),
        observations=np.repeat(np.eye(log.n_observations)[None, shown], log.n_actions, axis=0),
    )


def completed(parameters: Parameters, log: EncodedLog, emission: Emission) -> Parameters:
    """A model that knows nothing of endings, first observations or rewards apart, with what the log says overall."""
    states = parameters.n_states
    alone = single_state(log, emission)
    first, rewards = parameters.first, parameters.rewards
    if first is None and alone.first is not None:
        first = np.repeat(alone.first[:1], states, axis=0)
    if rewards is None and alone.rewards is not None:
        rewards = np.repeat(alone.rewards[:, :1], states, axis=1)
    return with_endings(replace(parameters, first=first, rewards=rewards), log, emission)


def opened(parameters: Parameters, log: EncodedLog, weight: float = 1e-3) -> Parameters:
    """The model with a little room for symbols that it gives no chance anywhere but that occur in the log."""
    live = ~parameters.terminal
    shown = parameters.observations[:, live].sum(axis=1)
    new = (log.seen > log.last_seen) & (shown <= 0)
    if parameters.shared:
        new[:] = new.any(axis=0)
    if not new.any():
        return parameters
    observations = parameters.observations + weight * new[:, None, :] * live[:, None]
    return replace(parameters, observations=observations / observations.sum(axis=-1, keepdims=True))


def smoothed(parameters: Parameters, log: EncodedLog, weight: float = 1e-3) -> Parameters:
    """The model mixed with a little of everything, so that no log is impossible. The end stays the end."""
    live = ~parameters.terminal
    everywhere = {
        "initial": live / live.sum(),
        "transitions": np.full(parameters.n_states, 1 / parameters.n_states),
        "observations": _shares(log.seen.sum(axis=0) if parameters.shared else log.seen[:, None, :]),
        "first": _shares(log.first_seen) if parameters.first is not None else None,
        "rewards": _shares(log.paid)[:, None, :] if parameters.rewards is not None else None,
    }
    mixed = {
        name: (1 - weight) * getattr(parameters, name) + weight * overall
        for name, overall in everywhere.items()
        if overall is not None
    }
    mixed["transitions"][:, parameters.terminal] = parameters.transitions[:, parameters.terminal]
    return replace(parameters, **mixed)


def possible(parameters: Parameters, likelihood: Likelihood) -> Parameters:
    """The model itself, or mixed with a little of everything if the log is impossible under it."""
    try:
        likelihood.counts(parameters)
    except NumericalError:
        return smoothed(parameters, likelihood.log)
    return parameters


def climb_or_open(start: Parameters, likelihood: Likelihood, **options: Any) -> Ascent:
    """`climb`, from a model without those zeros of ``start`` that make the log impossible, if any do: without those
    that a part of the log wants open, also without those that it wants open where it is impossible, or without any."""
    with suppress(NumericalError):
        return climb(start, likelihood, **options)
    ajar = reopened(start, likelihood.sample)
    with suppress(NumericalError):
        return climb(ajar, likelihood, **options)
    if zeros_save_time(ajar):
        with suppress(NumericalError):
            return climb(_allowed(ajar, likelihood.sample), likelihood, **options)
    return climb(smoothed(start, likelihood.log), likelihood, **options)


def _allowed(start: Parameters, likelihood: Likelihood) -> Parameters:
    """The model with zeros opened until the log is possible, or as often as that is tried.

    Which ones is asked of the steps around those that are impossible, as episodes that may begin anywhere: all of the
    log with all zeros open would take minutes with hundreds of states. Those are opened that are used there.
    """
    current, live = start, ~start.terminal
    for _ in range(_OPENINGS):
        places = impossible_events(current, likelihood.log, likelihood.emission)
        if not len(places):
            break
        most = max(1, _OPENING_SHARE * _trial_events(start) // (2 * _AROUND + 1))
        part = replace(likelihood, log=likelihood.log.around(places[:most], _AROUND))
        ajar = _with_wanted(replace(current, initial=live / live.sum()), part)
        uses = part.counts(ajar).blocks
        kept = [
            np.where((closed > 0) | (used > _USED_THERE), rows, 0.0)
            for closed, rows, used in zip(current, ajar, uses, strict=True)
        ]
        rows = [block / np.maximum(block.sum(axis=-1, keepdims=True), _NEGLIGIBLE) for block in kept]
        current = replace(current.with_blocks(rows), initial=start.initial)
    return current


def _trial_events(parameters: Parameters) -> int:
    """Events that a pass with all zeros open may take."""
    return _TRIAL_WORK // parameters.n_states**2


def zeros_save_time(parameters: Parameters) -> bool:
    """Whether passes over a log are faster for the zeros of a model. Where they are not, none should be set before a
    model is judged by them: in a noisy system a climb leaves entries near zero on its way that are not."""
    used = np.count_nonzero(parameters.transitions) / parameters.transitions.size
    return bool(parameters.n_states > DENSE_STATES and used <= _MOSTLY)


def reopened(parameters: Parameters, likelihood: Likelihood) -> Parameters:
    """The model with those of its zeros open that the log may want to use.

    All are opened a little, and a few passes of EM tell: an entry grows in each of them exactly if the likelihood rises
    with it. Those that do not grow enough are closed again. A pass with all zeros open is dear: with many states only
    as much of the log is asked, from its beginning, as `_TRIAL_WORK` allows. Where zeros save no time, all stay open:
    where much is hidden EM takes hundreds of passes to show what it wants.
    """
    if not zeros_save_time(parameters):
        return smoothed(parameters, likelihood.log)
    return _with_wanted(parameters, replace(likelihood, log=likelihood.log.head(_trial_events(parameters))))


def _with_wanted(parameters: Parameters, part: Likelihood) -> Parameters:
    """The model with those of its zeros open that a part of the log wants to use."""
    current = opening = smoothed(parameters, part.log)
    for _ in range(_TRIALS):
        current = maximization(part.counts(current), current)
    wanted = [
        (before > 0) | (after > _GROWN * ajar)
        for before, ajar, after in zip(parameters, opening, current, strict=True)
    ]
    kept = [np.where(mask, after, 0.0) for mask, after in zip(wanted, current, strict=True)]
    return current.with_blocks(rows / rows.sum(axis=-1, keepdims=True) for rows in kept)


def random_parameters(
    steps: EncodedLog, states: int, rng: np.random.Generator, emission: Emission = "departure"
) -> Parameters:
    """A random start: flat Dirichlet rows over what was seen after each action.

    An action that was never tried gets a placeholder: it moves nothing and shows what the whole log shows. Of the
    states, those in which nothing more happens are as few as the log allows: one, if it has endings.
    """
    ends = int(steps.last_seen.any())
    live = max(states - ends, 1)
    untried = steps.seen.sum(axis=1) == 0
    transitions = rng.dirichlet(np.ones(live), size=(steps.n_actions, live))
    shares = rng.standard_exponential((steps.n_actions, live, steps.n_observations))
    shares *= (steps.seen > 0)[:, None]
    transitions[untried] = np.eye(live)
    shares[untried] = steps.seen.sum(axis=0)
    start = Parameters(
        initial=rng.dirichlet(np.ones(live)),
        transitions=transitions,
        observations=shares / shares.sum(axis=2, keepdims=True),
    )
    whole = completed(start, steps, emission)
    return whole if whole.n_states <= live + ends else with_one_end(whole, steps)


def with_one_end(parameters: Parameters, log: EncodedLog) -> Parameters:
    """The model with all states in which nothing more happens taken as one, which shows what was seen last in all."""
    live, ends = ~parameters.terminal, parameters.terminal
    states = int(live.sum())
    transitions = np.zeros((log.n_actions, states + 1, states + 1))
    transitions[:, :states, :states] = parameters.transitions[:, live][:, :, live]
    transitions[:, :states, states] = parameters.transitions[:, live][:, :, ends].sum(axis=2)
    transitions[:, states, states] = 1.0
    seen = log.last_seen
    last = _shares(np.broadcast_to(seen.sum(axis=0), seen.shape) if parameters.shared else seen)[:, None, :]
    return replace(
        parameters,
        initial=np.append(parameters.initial[live], 0.0),
        transitions=transitions,
        observations=np.concatenate([parameters.observations[:, live], last], axis=1),
        first=_placeholders(parameters.first, live, 1, axis=0),
        rewards=_placeholders(parameters.rewards, live, 1, axis=1),
        terminal=np.arange(states + 1) >= states,
    )
