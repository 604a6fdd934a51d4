"""Models with more states and with fewer: doubling, merging, and what a merge should cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from unlatch.arrays import Flags, Floats
from unlatch.learn.likelihood.climb import Ascent
from unlatch.learn.likelihood.parameters import ExpectedCounts, Parameters

__all__ = [
    "cheapest_pairs",
    "disjoint_pairs",
    "doubled_states",
    "merge_proposals",
    "merged_states",
    "tidied",
    "with_shared_rows",
]

_OBSERVATION_NOISE = 0.5
_TRANSITION_NOISE = 0.2
"""Standard deviation of the logarithm of a jittered probability. What twins show must differ enough to pull them apart;
how they move is better kept, since it was learned."""

_UNUSED = 1e-3
"""Expected uses below which an entry of a candidate is dropped."""

_MERGES_TRIED = 6


def tidied(ascent: Ascent) -> Ascent:
    """The model with entries that are not used set to zero, which costs next to nothing and makes passes cheap.

    A zero never comes back, and may yet be wrong: what is learned in the end starts from a `smoothed` model. Where
    episodes begin nothing is dropped: a single episode uses that row once.
    """
    counts, old = ascent.counts, ascent.parameters
    dropped = [_without_unused(rows, uses) for rows, uses in zip(old, counts.blocks, strict=True)]
    return replace(ascent, parameters=old.with_blocks([old.initial, *dropped[1:]]))


def _without_unused(rows: Floats, uses: Floats) -> Floats:
    """Rows without visits stay as they are."""
    used = np.where(uses < _UNUSED, 0.0, rows)
    total = used.sum(axis=-1, keepdims=True)
    result: Floats = np.where(total > 0.5, used / np.where(total > 0, total, 1.0), rows)
    return result


def doubled_states(
    parameters: Parameters, stickiness: float, rng: np.random.Generator, *, jitter: float = 1.0
) -> Parameters:
    """Every state twice, but for those where nothing more happens, told apart by one hidden bit that keeps its value
    with ``stickiness``.

    Rows are jittered, so that a climb can tell the twins apart; ``jitter`` scales how much.
    """
    live = ~parameters.terminal
    twins = np.flatnonzero(np.repeat(live, np.where(live, 2, 1)))  # places of the twins among the new states
    origin = np.repeat(np.arange(parameters.n_states), np.where(live, 2, 1))
    bit = np.array([[stickiness, 1 - stickiness], [1 - stickiness, stickiness]])
    transitions = parameters.transitions[:, origin][:, :, origin]
    transitions[:, twins[:, None], twins] = np.kron(parameters.transitions[:, live][:, :, live], bit)
    return Parameters(  # the rows of the end have a single entry, which no jitter moves
        initial=parameters.initial[origin] / np.where(live, 2, 1)[origin],
        transitions=_jittered(transitions, jitter * _TRANSITION_NOISE, rng),
        observations=_jittered(parameters.observations[:, origin], jitter * _OBSERVATION_NOISE, rng),
        first=None if parameters.first is None else parameters.first[origin],
        rewards=(
            None
            if parameters.rewards is None
            else _jittered(parameters.rewards[:, origin], jitter * _OBSERVATION_NOISE, rng)
        ),
        terminal=parameters.terminal[origin],
    )


def _jittered(rows: Floats, deviation: float, rng: np.random.Generator) -> Floats:
    noisy = rows * np.exp(deviation * rng.standard_normal(rows.shape))
    result: Floats = noisy / noisy.sum(axis=-1, keepdims=True)
    return result


def with_shared_rows(ascent: Ascent) -> Parameters:
    """The model in which a state shows the same under every action: what it showed in all."""
    shown = ascent.counts.observations.sum(axis=0)
    total = shown.sum(axis=1, keepdims=True)
    rows = np.where(total > 0, shown / np.where(total > 0, total, 1.0), ascent.parameters.observations[0])
    return replace(
        ascent.parameters,
        observations=np.repeat(rows[None], len(ascent.parameters.observations), axis=0),
        shared=True,
    )


def merge_proposals(ascent: Ascent) -> Iterator[Parameters]:
    """Models with fewer states, the most promising first.

    First all cheap pairs at once, then fewer and fewer of them, then the cheapest pairs one by one: after a
    doubling that did not pay every state has a twin, and merging twins singly would take long.
    """
    pairs = cheapest_pairs(ascent.counts, ascent.parameters.terminal)
    visits = ascent.visits
    disjoint = disjoint_pairs(pairs)
    size = len(disjoint)
    while size > 1:
        yield merged_states(ascent.parameters, disjoint[:size], visits)
        size //= 2
    for pair in pairs[:_MERGES_TRIED]:
        yield merged_states(ascent.parameters, [pair], visits)


def cheapest_pairs(counts: ExpectedCounts, terminal: Flags | None = None) -> list[tuple[int, int]]:
    """All pairs of states, those first whose merging should cost the fewest nats. A ``terminal`` state, in which
    nothing more happens, goes with its like only.

    The cost is that of giving both states the same rows, were the hidden states known: rarely visited states are
    cheap to merge even if their rows differ, often visited ones only if they agree.
    """
    if terminal is None:
        terminal = np.zeros(len(counts.initial), dtype=bool)
    cost = _merging_costs(counts.observations)
    cost += _merging_costs(counts.transitions, among_states=True)
    if counts.rewards is not None:
        cost += _merging_costs(counts.rewards)
    ends = np.flatnonzero(terminal)
    cost[ends[:, None], ends] = _ending_costs(counts.transitions[:, :, terminal])
    i, j = np.triu_indices(len(cost), 1)
    alike = terminal[i] == terminal[j]
    i, j = i[alike], j[alike]
    order = np.argsort(cost[i, j], kind="stable")
    return [(int(i[k]), int(j[k])) for k in order]


def _merging_costs(counts: Floats, *, among_states: bool = False) -> Floats:
    """Nats lost by every two states (n, n) that share their rows of ``counts`` (actions, states, outcomes).

    Where outcomes are states, the two are also one as outcomes.
    """
    n = counts.shape[1]
    costs = np.zeros((n, n))
    for i in range(n):
        mine, others = counts[:, i, None, :], counts
        if among_states:
            mine, others = _pooled_outcomes(mine, others, i)
        apart = _row_likelihoods(np.broadcast_to(mine, others.shape)) + _row_likelihoods(others)
        costs[i] = (apart - _row_likelihoods(mine + others)).sum(axis=0)
    return costs


def _ending_costs(moves: Floats) -> Floats:
    """Nats lost by every two states in which nothing more happens that are taken as one, given the moves into them
    (actions, states, ends): which of the two it was then no longer depends on the state before."""
    one, other = moves[:, :, :, None], moves[:, :, None, :]
    pairs = np.stack(np.broadcast_arrays(one, other), axis=-1)
    apart = _row_likelihoods(pairs).sum(axis=(0, 1))
    together = _row_likelihoods(pairs.sum(axis=1)).sum(axis=0)
    costs: Floats = apart - together
    return costs


def _pooled_outcomes(mine: Floats, others: Floats, i: int) -> tuple[Floats, Floats]:
    """Rows of state ``i`` and of every state j, with the outcomes i and j added up in j."""
    n = others.shape[1]
    mine, others = np.repeat(mine, n, axis=1), others.copy()
    states = np.arange(n)
    for rows in (mine, others):
        rows[:, states, states] += np.where(states == i, 0.0, rows[:, :, i])
        rows[:, states != i, i] = 0.0
    return mine, others


def _row_likelihoods(counts: Floats) -> Floats:
    """The largest log-likelihood of every row of counts."""
    total = counts.sum(axis=-1)
    safe = np.where(counts > 0, counts, 1.0)
    whole = np.where(total > 0, total, 1.0)
    result: Floats = (counts * np.log(safe)).sum(axis=-1) - total * np.log(whole)
    return result


def disjoint_pairs(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The first pairs first, every state in one pair at most."""
    taken: set[int] = set()
    chosen = []
    for i, j in pairs:
        if i not in taken and j not in taken:
            taken |= {i, j}
            chosen.append((i, j))
    return chosen


def merged_states(parameters: Parameters, pairs: list[tuple[int, int]], visits: Floats) -> Parameters:
    """Each pair as one state: rows averaged by visits, what led to either now leads to it."""
    n = len(parameters.initial)
    owner = np.arange(n)
    for i, j in pairs:
        owner[j] = i
    kept, owner = np.unique(owner, return_inverse=True)
    member = np.zeros((n, len(kept)))
    member[np.arange(n), owner] = 1.0
    weights = member.T * (visits + 1e-9)
    weights /= weights.sum(axis=1, keepdims=True)
    return Parameters(
        initial=parameters.initial @ member,
        transitions=weights @ parameters.transitions @ member,
        observations=weights @ parameters.observations,
        first=None if parameters.first is None else weights @ parameters.first,
        rewards=None if parameters.rewards is None else weights @ parameters.rewards,
        terminal=parameters.terminal[kept],
    )
