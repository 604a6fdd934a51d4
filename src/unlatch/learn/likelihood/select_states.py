"""From a first model to the best one: search for the number of states, then maximum likelihood on all data."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from unlatch import linalg
from unlatch.arrays import Floats
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.evidence import Evidence
from unlatch.core.partition import Partition
from unlatch.core.pomdp import POMDP, Emission
from unlatch.core.trajectory import Trajectory
from unlatch.errors import NotLearnableError
from unlatch.learn.likelihood.climb import Ascent
from unlatch.learn.likelihood.evidence import SETTLED, weigh
from unlatch.learn.likelihood.parameters import ExpectedCounts, Parameters, encoded_log, parameters_of
from unlatch.learn.likelihood.search import StateSearch, search_states
from unlatch.learn.likelihood.starts import climb_or_open, opened, random_parameters, smoothed
from unlatch.learn.likelihood.zeros import maximize
from unlatch.learn.state_order import canonical_order

__all__ = ["Completion", "complete"]

_FIRST_SAMPLE = 300_000
"""Steps on which zeros are judged; a longer log then only sharpens the numbers."""

_RANDOM_STARTS = 8
_CLEAR = 3.0


@dataclass(frozen=True, eq=False)
class Completion:
    """The best model of a log, why it has as many states as it has, and what distinguishes them."""

    pomdp: POMDP
    evidence: Evidence
    search: StateSearch
    ascent: Ascent
    zeros: int
    full_rank_actions: tuple[int, ...]
    partition: Partition
    diagnostics: Diagnostics


def complete(
    log: Trajectory,
    *,
    start: POMDP | None,
    states: int | None = None,
    emission: Emission = "departure",
    max_states: int = 40,
    time_limit: float | None = None,
    rng: np.random.Generator,
) -> Completion:
    """Search from ``start`` (the spectral model) and from scratch; then climb on the whole log.

    With ``states`` the count is fixed. ``time_limit`` is shared out: two thirds to the search. Ctrl-C ends it with the
    best model so far, and a note.
    """
    begun = time.monotonic()
    log = log.with_reward_symbols()
    starts = () if start is None else (parameters_of(start),)
    search = search_states(
        log,
        starts=starts,
        emission=emission,
        max_states=max_states if states is None else states,
        deadline=None if time_limit is None else begun + 2 * time_limit / 3,
        rng=rng,
    )
    chosen = search.best if states is None else _with_states(search, log, states, starts, emission, rng)
    deadline = None if time_limit is None else begun + time_limit
    ascent, zeros = replace(chosen, converged=False, interrupted=True), 0
    if not search.interrupted:
        with suppress(KeyboardInterrupt):  # then the model of the search is the best so far
            ascent, zeros = _on_all_data(chosen.parameters, log, emission, deadline)
    pomdp, ascent = _ordered(ascent, log, emission)
    scores = {**search.scores, chosen.n_states: search.note(chosen)}
    evidence = weigh(chosen.n_states, scores, search.steps, search.complete)
    actions = _full_rank_actions(pomdp, ascent)
    return Completion(
        pomdp=pomdp,
        evidence=evidence,
        search=search,
        ascent=ascent,
        zeros=zeros,
        full_rank_actions=actions,
        partition=_partition(pomdp, ascent, actions),
        diagnostics=_notes(evidence, ascent, start),
    )


def _with_states(
    search: StateSearch,
    log: Trajectory,
    states: int,
    starts: tuple[Parameters, ...],
    emission: Emission,
    rng: np.random.Generator,
) -> Ascent:
    """The best model with a given number of states: from the search, the given starts, or random ones."""
    sample = encoded_log(log.head(search.steps))
    candidates = [search.models[states]] if states in search.models else []
    given = [opened(start, sample) for start in starts if len(start.initial) == states]
    if not candidates:
        given += [random_parameters(sample, states, rng) for _ in range(_RANDOM_STARTS)]
    candidates += [climb_or_open(start, sample, emission=emission, evaluations=150) for start in given]
    if not candidates:
        raise NotLearnableError(f"no model with {states} states was found")
    return max(candidates, key=lambda ascent: ascent.log_likelihood)


def _on_all_data(
    parameters: Parameters, log: Trajectory, emission: Emission, deadline: float | None
) -> tuple[Ascent, int]:
    """Zeros and a first climb on part of a long log, then the whole.

    The zeros of the search are opened again: they were set for speed, these for good.
    """
    sample = encoded_log(log.head(_FIRST_SAMPLE))
    ascent, zeros = maximize(smoothed(parameters, sample), sample, emission=emission, deadline=deadline)
    if len(log) > _FIRST_SAMPLE and not ascent.interrupted:
        whole = encoded_log(log)
        ascent, _ = maximize(ascent.parameters, whole, emission=emission, zeros=False, deadline=deadline)
    return ascent, zeros


def _ordered(ascent: Ascent, log: Trajectory, emission: Emission) -> tuple[POMDP, Ascent]:
    """The model with states in canonical order.

    One long episode tells nothing about where episodes begin: then ``initial`` is the stationary distribution.
    """
    pomdp = POMDP(
        transitions=ascent.parameters.transitions,
        observations=ascent.parameters.observations,
        initial=ascent.parameters.initial,
        emission=emission,
        action_names=log.action_names,
        observation_names=log.observation_names,
        symbol_rewards=log.symbol_rewards,
    )
    settled = replace(pomdp, initial=_settled(pomdp, ascent.counts, log))
    order = canonical_order(settled.to_psr())
    chosen = settled if log.n_episodes == 1 else pomdp
    numbered = replace(chosen.reordered(order), state_names=pomdp.state_names)
    counts = ExpectedCounts(
        initial=ascent.counts.initial[order],
        transitions=ascent.counts.transitions[:, order][:, :, order],
        observations=ascent.counts.observations[:, order],
        log_likelihood=ascent.counts.log_likelihood,
    )
    return numbered, replace(ascent, parameters=parameters_of(numbered), counts=counts)


def _settled(pomdp: POMDP, counts: ExpectedCounts, log: Trajectory) -> Floats:
    """Where the process is in the long run, as it was explored; by the visits if actions reacted to observations."""
    if log.probabilities is None:
        return pomdp.stationary(np.bincount(log.actions, minlength=pomdp.n_actions) / len(log))
    visits = counts.transitions.sum(axis=(0, 2))
    result: Floats = visits / visits.sum()
    return result


# --- what distinguishes the states ---------------------------------------------------------------------


def _full_rank_actions(pomdp: POMDP, ascent: Ascent) -> tuple[int, ...]:
    """Actions whose smallest singular value is more than three standard errors from zero."""
    visits = ascent.counts.transitions.sum(axis=2)
    tried = ascent.counts.observations.sum(axis=(1, 2)) > 0
    return tuple(
        action
        for action, matrix in enumerate(pomdp.transitions)
        if tried[action] and _is_full_rank(matrix, visits[action])
    )


def _is_full_rank(matrix: Floats, visits: Floats) -> bool:
    """By the first-order change ``u @ noise @ v`` of the smallest singular value; rows are multinomial."""
    u, s, v = linalg.svd(matrix)
    left, right = u[:, -1], v[:, -1]
    spread = matrix @ right**2 - (matrix @ right) ** 2
    variance = float((left**2 * spread / np.maximum(visits, 1.0)).sum())
    return bool(s[-1] > _CLEAR * np.sqrt(max(variance, 0.0)) + 1e-9)


def _partition(pomdp: POMDP, ascent: Ascent, actions: tuple[int, ...]) -> Partition:
    """States whose observation rows agree, within noise, under every full-rank action."""
    from scipy.sparse.csgraph import connected_components

    chosen = list(actions)
    rows = pomdp.observations[chosen]
    visits = ascent.counts.observations[chosen].sum(axis=2, keepdims=True)
    deviation = np.sqrt(rows * (1 - rows) / np.maximum(visits, 1.0))
    distance = np.abs(rows[:, :, None] - rows[:, None]).sum(axis=3)
    limit = _CLEAR * np.hypot(deviation[:, :, None], deviation[:, None]).sum(axis=3) + 1e-6
    together = (distance <= limit).all(axis=0)
    return Partition(connected_components(together, directed=False)[1].astype(np.int64))


def _notes(evidence: Evidence, ascent: Ascent, start: POMDP | None) -> Diagnostics:
    notes = Diagnostics()
    if ascent.interrupted:
        notes = notes.noting("interrupted", "learning was interrupted; this is the best model so far")
    if not evidence.complete:
        notes = notes.noting("search_cut_short", "the search for the number of states was cut short")
    if not ascent.converged:
        notes = notes.noting(
            "not_converged",
            f"the likelihood was still rising after {ascent.evaluations} passes over the log",
            gradient=ascent.gradient,
        )
    if evidence.gap < SETTLED:
        notes = notes.noting("states_uncertain", str(evidence), gap=evidence.gap)
    if start is not None and start.n_states != evidence.states:
        notes = notes.noting(
            "spectral_disagrees",
            f"the spectral model has {start.n_states} states, the likelihood prefers {evidence.states}: "
            + (
                "the last singular values are below the noise of the Hankel matrix"
                if start.n_states < evidence.states
                else "noise was taken for states"
            ),
            spectral=start.n_states,
            likelihood=evidence.states,
        )
    return notes
