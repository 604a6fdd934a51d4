"""Models with more states and with fewer: doubling, splitting, merging, and what a merge should gain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from unlatch.arrays import Flags, Floats, Ints
from unlatch.learn.likelihood.climb import Ascent
from unlatch.learn.likelihood.marginal import Candidate, choice_cost, row_likelihoods
from unlatch.learn.likelihood.parameters import ExpectedCounts, Parameters
from unlatch.learn.likelihood.starts import DENSE_STATES
from unlatch.learn.significance import USED

__all__ = [
    "Merges",
    "blurred_states",
    "disjoint_pairs",
    "doubled_states",
    "merge_gains",
    "merge_proposals",
    "merged_counts",
    "merged_states",
    "split_state",
    "tidied",
    "uses_few",
    "with_shared_rows",
    "without_unvisited",
]

_OBSERVATION_NOISE = 0.5
_TRANSITION_NOISE = 0.2
"""Standard deviation of the logarithm of a jittered probability. What twins show must differ enough to pull them apart;
how they move is better kept, since it was learned."""

_BLUR = 0.8
"""Share of the others in a blurred state. Half is too little where two states change places with every action; from .8
to .95 it makes no difference."""

_OTHERWISE = 0.5
"""Cosine of the roots of what a state shows after two actions below which it shows other things: states that are one
place have 1, those that are two by turns 0."""

_NO_VISITS = 1e-300

_UNUSED = 1e-3
"""Expected uses below which an entry of a candidate is dropped."""

_FEW = 0.25
"""Share of the transitions that a log uses up to which lists of them are faster than whole matrices. Rooms use a tenth
of them, noisy ones a fifth, noisy systems whose zeros were wrong (query.s2) more than half."""

_MERGES_TRIED = 6
"""Pairs that are merged one by one, each with a climb of its own."""

_MADE_UP = 10.0
_MADE_UP_IN_ALL = 100.0
"""Nats that a climb may make up for after a merge, for every free parameter of the model and in all: with less hope a
merge is not tried. Three for a parameter were seen, in a noisy room; in others and in corridors what should not gain
did not."""

Pair = tuple[int, int]


def tidied(ascent: Ascent) -> Ascent:
    """The model with entries that are not used set to zero, which costs next to nothing and makes passes cheap.

    Dense models have none. A climb never opens a zero again, and it may yet be wrong: what is learned in the end starts
    from a model whose zeros were opened where the log may want them (`unlatch.learn.likelihood.starts.reopened`). Where
    episodes begin nothing is dropped: a single episode uses that row once.
    """
    counts, old = ascent.counts, ascent.parameters
    if old.dense:
        return ascent
    dropped = [_without_unused(rows, uses) for rows, uses in zip(old, counts.blocks, strict=True)]
    return replace(ascent, parameters=old.with_blocks([old.initial, *dropped[1:]]))


def uses_few(ascent: Ascent) -> bool:
    """Whether a log uses so few of the transitions of a model that to drop the others makes passes cheap, however many
    of these a climb has left just above zero."""
    used = np.count_nonzero(ascent.counts.transitions >= _UNUSED)
    return bool(ascent.n_states > DENSE_STATES and used <= _FEW * ascent.counts.transitions.size)


def _without_unused(rows: Floats, uses: Floats) -> Floats:
    """Rows without their unused entries; those without visits stay as they are."""
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
    shown = _jittered(parameters.shown[:, origin], jitter * _OBSERVATION_NOISE, rng)
    return replace(  # the rows of the end have a single entry, which no jitter moves
        parameters,
        initial=parameters.initial[origin] / np.where(live, 2, 1)[origin],
        transitions=_jittered(transitions, jitter * _TRANSITION_NOISE, rng),
        observations=parameters.for_all_actions(shown),
        first=None if parameters.first is None else parameters.first[origin],
        rewards=(
            None
            if parameters.rewards is None
            else _jittered(parameters.rewards[:, origin], jitter * _OBSERVATION_NOISE, rng)
        ),
        terminal=parameters.terminal[origin],
    )


def blurred_states(ascent: Ascent) -> Parameters | None:
    """The states that show other things after one action than after another mixed with each other, as far as they show
    the same in all, and what they show after an action with what they show after any; None if no two show the same.

    A climb may end where two states share two places between them, each being one place before one action and the other
    before another, with the zeros that this takes. Their twins have the same zeros, so that no doubling leads out.
    Blurred, they have what either has, nearly alike, and a climb tells the places apart.
    """
    old, uses = ascent.parameters, ascent.counts.observations
    shown = uses.sum(axis=0)
    overall = shown / np.maximum(shown.sum(axis=1, keepdims=True), _NO_VISITS)
    mixed = _changing(old.observations, uses) & ~old.terminal
    alike = np.where(np.outer(mixed, mixed), np.sqrt(overall) @ np.sqrt(overall).T, 0.0)
    if not np.triu(alike, 1).any():
        return None
    itself = np.eye(old.n_states)
    alike = np.maximum(alike, itself)
    blur = (1 - _BLUR) * itself + _BLUR * alike / alike.sum(axis=1, keepdims=True)
    seen = uses.sum(axis=1, keepdims=True) > 0  # after every action, by any state
    rows = np.where(seen, (1 - _BLUR) * old.observations + _BLUR * overall, 0.0)
    total = rows.sum(axis=2, keepdims=True)
    kept = (total == 0) | ~mixed[:, None]
    rows = np.where(kept, old.observations, rows / np.where(total > 0, total, 1.0))
    return replace(
        old,
        transitions=blur @ old.transitions,
        observations=blur @ rows,
        rewards=None if old.rewards is None else blur @ old.rewards,
    )


def _changing(shown: Floats, uses: Floats) -> Flags:
    """The states of which what they show after some action is, for the most part, not what they show after another;
    of actions that were taken there."""
    taken = uses.sum(axis=2) > USED
    common = np.einsum("aso,bso->abs", np.sqrt(shown), np.sqrt(shown))
    result: Flags = ((common < _OTHERWISE) & taken[:, None] & taken).any(axis=(0, 1))
    return result


def without_unvisited(ascent: Ascent) -> Parameters | None:
    """The model without the states that the log never visits; None if it visits all. Ends stay: the log has them."""
    kept = np.flatnonzero((ascent.visits > USED) | ascent.parameters.terminal)
    old = ascent.parameters
    if len(kept) == old.n_states or not len(kept):
        return None
    transitions = old.transitions[:, kept][:, :, kept]
    total, start = transitions.sum(axis=2, keepdims=True), old.initial[kept]
    return replace(
        old,
        initial=start / start.sum() if start.sum() > 0 else np.full(len(kept), 1 / len(kept)),
        transitions=np.where(total > 0, transitions / np.where(total > 0, total, 1.0), 1 / len(kept)),
        observations=old.observations[:, kept],
        first=None if old.first is None else old.first[kept],
        rewards=None if old.rewards is None else old.rewards[:, kept],
        terminal=old.terminal[kept],
    )


def split_state(parameters: Parameters, state: int, rng: np.random.Generator) -> Parameters:
    """One state as two, each reached as often; their rows are jittered, also in how they move: what the two show may be
    the same."""
    origin = np.append(np.arange(parameters.n_states), state)
    halves = np.where(origin == state, 0.5, 1.0)
    twins = np.flatnonzero(origin == state)
    transitions = parameters.transitions[:, origin][:, :, origin] * halves
    shown = parameters.shown[:, origin]
    rewards = None if parameters.rewards is None else parameters.rewards[:, origin]
    for rows in (transitions, shown, rewards):
        if rows is not None:
            rows[:, twins] = _jittered(rows[:, twins], _OBSERVATION_NOISE, rng)
    transitions[:, :, twins] *= np.exp(
        _OBSERVATION_NOISE * rng.standard_normal(transitions[:, :, twins].shape)
    )
    return replace(
        parameters,
        initial=parameters.initial[origin] * halves,
        transitions=transitions / transitions.sum(axis=2, keepdims=True),
        observations=parameters.for_all_actions(shown),
        first=None if parameters.first is None else parameters.first[origin],
        rewards=rewards,
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


def merge_proposals(candidate: Candidate, most: int | None = None) -> Iterator[list[Pair]]:
    """Pairs of states to merge at once, the most promising first; at ``most`` so many, if that is given.

    First every state with another, then half as many pairs, and so on, and in its place the number of pairs that should
    gain; then the best pairs one by one. After a doubling that did not pay every state has a twin, and merging twins
    singly would take long. What should not gain is tried too: how much a climb makes up for cannot be told beforehand,
    only that it is not everything.
    """
    pairs, gains = merge_gains(candidate)
    disjoint = disjoint_pairs(pairs)
    least = -_MADE_UP * candidate.free - _MADE_UP_IN_ALL
    gain_of = dict(zip(pairs, gains.tolist(), strict=True))
    sizes = {len(disjoint_pairs(pairs[: int((gains > 0).sum())]))}
    size = len(disjoint)
    while size > 1:
        sizes.add(size)
        size //= 2
    for size in sorted(sizes - {0, 1}, reverse=True):
        if (most is None or size <= most) and sum(gain_of[pair] for pair in disjoint[:size]) > least:
            yield disjoint[:size]
    for pair in pairs[:_MERGES_TRIED]:
        if gain_of[pair] > least:
            yield [pair]


class Merges(NamedTuple):
    """All pairs of states, the best first, with the nats of evidence that merging each should gain."""

    pairs: list[Pair]
    gains: Floats


def merge_gains(candidate: Candidate) -> Merges:
    """What it should do to the evidence to merge every two states.

    A state in which nothing more happens goes with its like only. What is lost in likelihood is taken from what would
    be lost were the hidden states known, in proportion to what the log says about the numbers; what is saved is what
    the numbers cost.
    """
    counts, terminal = candidate.ascent.counts, candidate.ascent.parameters.terminal
    law = counts.least, counts.prior
    moves, shown = _moves_merged(counts, *law), [_rows_merged(rows, *law) for rows in counts.blocks[2:]]
    ends = np.flatnonzero(terminal)
    lost = moves.lost + sum(change.lost for change in shown)
    lost[ends[:, None], ends] = _ending_costs(counts.transitions[:, :, terminal])
    left = (counts.transitions.sum(axis=2) > USED).any(axis=0)
    names = np.log(max(left.sum(), 1)) * np.outer(left, left)  # a state that is never left has none to lose
    gains = -candidate.seen_share * lost - names
    for change in (moves, *shown):
        gains += change.saved - candidate.relief * (change.used - change.rows)
    i, j = np.triu_indices(len(gains), 1)
    alike = terminal[i] == terminal[j]
    i, j = i[alike], j[alike]
    order = np.argsort(-gains[i, j], kind="stable")
    i, j = i[order], j[order]
    return Merges(list(zip(i.tolist(), j.tolist(), strict=True)), gains[i, j])


@dataclass(frozen=True, eq=False)
class _Merged:
    """What merging every two states (n, n) does to one block of rows: likelihood lost were the states known, nats of
    complete evidence saved otherwise, and how many used entries and visited rows fewer there are."""

    lost: Floats
    saved: Floats
    used: Floats
    rows: Floats


def _moves_merged(counts: ExpectedCounts, least: float, prior: float) -> _Merged:
    """Of the transitions, where both states are one as outcomes too."""
    from unlatch.kernels.merging import merge_outcomes, merge_rows

    moves, n = counts.transitions, counts.n_states
    changes = _no_changes(n)
    merge_rows(_sparse_rows(moves), np.ones(len(moves)), least, prior, True, changes)
    used = moves > least
    merge_outcomes(
        _sparse_rows(moves.transpose(0, 2, 1)),
        used.sum(axis=2),
        np.where(used, moves, 0.0).sum(axis=2),
        least,
        prior,
        changes,
    )
    entries, rows = used.sum(), used.any(axis=2).sum()
    left = (rows - changes.rows) * (n - 1)
    choice = choice_cost(rows * n, entries) - choice_cost(left, np.minimum(entries - changes.used, left))
    return _Merged(changes.lost, changes.numbers + choice, changes.used, changes.rows)


def _rows_merged(counts: Floats, least: float, prior: float) -> _Merged:
    """Of rows of outcomes that are no states."""
    from unlatch.kernels.merging import merge_rows

    rows = counts.reshape(-1, *counts.shape[-2:])
    changes = _no_changes(rows.shape[1])
    possible = (rows.sum(axis=1) > 0).sum(axis=1)
    merge_rows(_sparse_rows(rows), possible.astype(float), least, prior, False, changes)
    used = rows > least
    places = (possible[:, None] * used.any(axis=2)).sum()
    choice = choice_cost(places, used.sum()) - choice_cost(
        places - changes.places, np.minimum(used.sum() - changes.used, places - changes.places)
    )
    return _Merged(changes.lost, changes.numbers + choice, changes.used, changes.rows)


def _no_changes(n: int) -> Any:
    from unlatch.kernels.merging import Changes

    return Changes(*(np.zeros((n, n)) for _ in Changes._fields))


def _sparse_rows(counts: Floats) -> Any:
    """The entries of ``counts`` (kinds, states, outcomes) that are not zero, as the kernels read them."""
    from unlatch.kernels.merging import CountedRows

    kinds, states, outcomes = np.nonzero(counts)
    n = counts.shape[1]
    number = kinds * n + states
    starts = np.searchsorted(number, np.arange(counts.shape[0] * n + 1))
    begins = starts[np.arange(counts.shape[0])[:, None] * n + np.arange(n + 1)]
    return CountedRows(begins, outcomes, counts[kinds, states, outcomes])


def _ending_costs(moves: Floats) -> Floats:
    """Nats lost by every two states in which nothing more happens that are taken as one, given the moves into them
    (actions, states, ends): which of the two it was then no longer depends on the state before."""
    one, other = moves[:, :, :, None], moves[:, :, None, :]
    pairs = np.stack(np.broadcast_arrays(one, other), axis=-1)
    apart = row_likelihoods(pairs).sum(axis=(0, 1))
    together = row_likelihoods(pairs.sum(axis=1)).sum(axis=0)
    costs: Floats = apart - together
    return costs


def disjoint_pairs(pairs: list[Pair]) -> list[Pair]:
    """The first pairs first, every state in one pair at most."""
    taken: set[int] = set()
    chosen = []
    for i, j in pairs:
        if i not in taken and j not in taken:
            taken |= {i, j}
            chosen.append((i, j))
    return chosen


def merged_states(parameters: Parameters, pairs: list[Pair], visits: Floats) -> Parameters:
    """Each pair as one state: rows averaged by visits, what led to either now leads to it."""
    kept, member = _membership(len(parameters.initial), pairs)
    weights = member.T * (visits + 1e-9)
    weights /= weights.sum(axis=1, keepdims=True)
    return replace(
        parameters,
        initial=parameters.initial @ member,
        transitions=weights @ parameters.transitions @ member,
        observations=weights @ parameters.observations,
        first=None if parameters.first is None else weights @ parameters.first,
        rewards=None if parameters.rewards is None else weights @ parameters.rewards,
        terminal=parameters.terminal[kept],
    )


def merged_counts(counts: ExpectedCounts, pairs: list[Pair]) -> ExpectedCounts:
    """What the counts would be if each pair were one state and all else stayed."""
    _, member = _membership(counts.n_states, pairs)
    return replace(
        counts,
        initial=counts.initial @ member,
        transitions=member.T @ counts.transitions @ member,
        observations=member.T @ counts.observations,
        first=None if counts.first is None else member.T @ counts.first,
        rewards=None if counts.rewards is None else member.T @ counts.rewards,
    )


def _membership(n: int, pairs: list[Pair]) -> tuple[Ints, Floats]:
    """The states that are left, and which of them every state belongs to, shape (n, left)."""
    owner = np.arange(n)
    for i, j in pairs:
        owner[j] = i
    kept, owner = np.unique(owner, return_inverse=True)
    member = np.zeros((n, len(kept)))
    member[np.arange(n), owner] = 1.0
    return kept, member
