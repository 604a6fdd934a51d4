"""What a log determines of the model that was learned from it: its numbers carry noise, and its zeros are estimates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unlatch import linalg
from unlatch.arrays import Floats, own_errstate
from unlatch.core import html
from unlatch.core.identification import QUICK_STATES, Identification, Zero
from unlatch.core.pomdp import POMDP
from unlatch.core.trajectory import Trajectory
from unlatch.learn.identify.cone import Place
from unlatch.learn.identify.identification import SAME, determined_sentence, examined
from unlatch.learn.identify.process import Process
from unlatch.learn.identify.support import ZeroSupport, average_support, tested_zeros, zero_support
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import ExpectedCounts
from unlatch.learn.significance import USED

__all__ = ["identify_learned", "support_for_proof"]

_PROOFS = 4
"""Proofs that are sought while zeros are tested: the first two settle nearly all."""

_TESTS = 150
"""Zeros that are tested for one proof, a pass over the log each; where more are weak, slopes have the last word."""


@own_errstate
@linalg.on_one_thread
def identify_learned(
    pomdp: POMDP, steps: int, support: ZeroSupport | None = None, *, ranges: bool = True
) -> Identification:
    """`identify` for a model that was learned from so many steps.

    What is taken for zero is three standard errors of a probability of a half, in a row that was visited as often as
    rows are on average: states that noise alone tells apart then count as alike, which can only spoil a proof. A
    probability that the log has used less than half a time, and that is there only so that nothing unseen is
    impossible, is a zero. A zero carries the proof only if the log had opportunities enough to show it.

    Where numbers can move, the ranges are of models with the process of the learned one after rows were averaged that
    noise alone tells apart.
    """
    noise = _noise(pomdp, steps)
    known = average_support(pomdp, steps) if support is None else support
    closed = _closed(pomdp, known)
    doubted = frozenset(place for place in _zeros(closed) if not known.establishes(place))
    found = examined(closed, noise, np.random.default_rng(0), ranges=False, doubted=doubted)
    if found.verdict == "not minimal":
        return _within_noise(found, closed)
    if found.identified:
        return _supported(found, pomdp, known)
    if doubted:
        hoped = examined(closed, noise, np.random.default_rng(0), ranges=False)
        if hoped.identified:
            return _hoped_for(found, hoped, known)
    return _moving(found, closed, pomdp, noise, ranges)


def support_for_proof(
    pomdp: POMDP, log: Trajectory, likelihood: Likelihood, known: ExpectedCounts | None = None
) -> ZeroSupport | None:
    """What the log says about the zeros of a model: in detail about those that a proof would rest on. Expected counts
    that are ``known`` need not be computed anew.

    A proof is sought; zeros that it rests on and that slopes do not establish are tested; those that fail are left out
    of the next proof, until one holds or there is none.
    """
    support = zero_support(pomdp, likelihood, known=known)
    if support is None or pomdp.n_states > QUICK_STATES:
        return support
    closed, noise = _closed(pomdp, support), _noise(pomdp, len(log))
    refuted: set[Place] = set()
    for _ in range(_PROOFS):
        found = examined(closed, noise, np.random.default_rng(0), ranges=False, doubted=refuted)
        weak = [place for zero in found.zeros if not support.establishes(place := _place(zero))]
        if not weak or len(weak) > _TESTS:
            break
        support = support.corrected(tested_zeros(pomdp, log, weak))
        refuted |= {place for place in weak if not support.establishes(place)}
    return support


def _noise(pomdp: POMDP, steps: int) -> float:
    """Three standard errors of a probability of a half, in a row that is visited as often as rows are on average."""
    visits = max(steps, 1) / (pomdp.n_actions * pomdp.n_states)
    return min(0.5, 1.5 / float(np.sqrt(visits)))


def _closed(pomdp: POMDP, support: ZeroSupport) -> POMDP:
    """The model without what the log has not used."""

    def closed(rows: Floats, uses: Floats) -> Floats:
        kept = np.where(uses < USED, 0.0, rows)
        total = kept.sum(axis=-1, keepdims=True)
        result: Floats = np.where(total > 0, kept / np.where(total > 0, total, 1.0), rows)
        return result

    transitions = closed(pomdp.transitions, support.uses["transitions"])
    transitions[:, list(pomdp.terminal)] = pomdp.transitions[:, list(pomdp.terminal)]
    rewards = pomdp.reward_probabilities
    return replace(
        pomdp,
        transitions=transitions,
        observations=closed(pomdp.observations, support.uses["observations"]),
        reward_probabilities=None if rewards is None else closed(rewards, support.uses["rewards"]),
    )


def _zeros(pomdp: POMDP) -> list[Place]:
    """Every zero that a proof might use."""
    numbers = {"transitions": pomdp.transitions, "observations": pomdp.observations}
    if pomdp.reward_probabilities is not None:
        numbers["rewards"] = pomdp.reward_probabilities
    places: list[Place] = [
        (name, a, s, entry)
        for name, rows in numbers.items()
        for a, s, entry in np.argwhere(rows == 0).tolist()
    ]
    firsts = 1 if pomdp.first_observations is None else pomdp.first_observations.shape[1]
    return places + [("initial", first, 0, s) for first in range(firsts) for s in range(pomdp.n_states)]


def _within_noise(found: Identification, closed: POMDP) -> Identification:
    """Fewer numbers than states predict everything: of the model itself, or only as far as this log can tell."""
    if Process.of(closed).size(SAME) < closed.n_states:
        return found
    reason = (
        f"not settled by this log: as far as its noise allows to tell, fewer numbers might predict what "
        f"the {closed.n_states} states do; a proof needs as many numbers as states, and a longer log may show them"
    )
    return replace(found, verdict="undecided", reason=reason)


def _supported(found: Identification, pomdp: POMDP, support: ZeroSupport) -> Identification:
    """The proof, with what the log says about every zero that it rests on. Ranges are the learned numbers."""
    zeros = tuple(_with_support(zero, support) for zero in found.zeros)
    alone = found.everywhere and found.free_directions == 0  # otherwise it needs more zeros than were tested
    reason = determined_sentence(pomdp, len(zeros), alone=alone)
    if zeros:
        least = min(zeros, key=lambda zero: zero.opportunities or 0.0)
        tested = f"{least.opportunities:.0f} opportunities or more to show (p ≤ {least.p_value:.2g})"
        reason += f", which the log had {tested}"
    return replace(
        found,
        reason=reason,
        everywhere=alone,
        zeros=zeros,
        transitions=np.where(_never(found.transitions), found.transitions, pomdp.transitions[..., None]),
        observations=np.where(_never(found.observations), found.observations, pomdp.observations[..., None]),
    )


def _never(ranges: Floats) -> np.ndarray:
    flags: np.ndarray = (ranges[..., 1:] - ranges[..., :1]) > 0
    return flags


def _with_support(zero: Zero, support: ZeroSupport) -> Zero:
    opportunities, p_value = support.of(_place(zero))
    return zero._replace(opportunities=opportunities, p_value=p_value)


def _place(zero: Zero) -> Place:
    if zero.array == "initial":
        return ("initial", 0, 0, zero.place[0])
    action, state, entry = zero.place
    return (zero.array, action, state, entry)


def _hoped_for(found: Identification, hoped: Identification, support: ZeroSupport) -> Identification:
    """What would be proved, were more of the zeros established."""
    zeros = [_with_support(zero, support) for zero in hoped.zeros]
    doubted = tuple(zero for zero in zeros if not support.establishes(_place(zero)))
    names = html.cut_list([str(zero) for zero in doubted], 3)
    reason = (
        f"not settled by this log: it would be locally identified if {len(doubted)} probabilities were known to be "
        f"zero that the log had too few opportunities to show: {names}"
    )
    return replace(found, verdict="undecided", reason=reason, doubted=doubted)


def _moving(found: Identification, closed: POMDP, pomdp: POMDP, noise: float, ranges: bool) -> Identification:
    """Ranges, from the model whose rows agree where noise alone tells them apart."""
    if not ranges or found.verdict not in ("undecided", "not determined"):
        return found
    pooled = _pooled(closed, noise)
    wide = examined(pooled, SAME, np.random.default_rng(0))
    if wide.verdict != "not determined":
        return found
    return replace(
        wide, reason=wide.reason + "; rows were averaged where noise alone tells them apart", zeros=()
    )


def _pooled(pomdp: POMDP, noise: float) -> POMDP:
    """Rows averaged, action by action, of states that cannot be told apart beyond noise: what they show, or where they
    lead, whichever differs less."""
    from scipy.sparse.csgraph import connected_components

    process = Process.of(pomdp)
    live, actions = np.array(process.live), np.array(process.actions)
    shown = np.sqrt(((process.observations[:, :, None] - process.observations[:, None]) ** 2).sum(axis=3))
    places = process.places if pomdp.emission == "departure" else process.transitions.transpose(0, 2, 1)
    moved = np.sqrt(((places[:, :, None] - places[:, None]) ** 2).sum(axis=3))
    alike = np.sqrt(((shown * moved) ** 2).sum(axis=0)) <= noise
    weights = pomdp.stationary()[live] + 1e-12
    observations, transitions = pomdp.observations.copy(), pomdp.transitions.copy()
    for index, action in enumerate(actions):
        for rows, near in (
            (observations, alike & (shown[index] <= moved[index])),
            (transitions, alike & (moved[index] < shown[index]) & (pomdp.emission == "departure")),
        ):
            labels = connected_components(near, directed=False)[1]
            same = (labels[:, None] == labels) * weights
            rows[action, live] = same @ rows[action, live] / same.sum(axis=1, keepdims=True)
    return replace(
        pomdp,
        transitions=transitions / transitions.sum(axis=2, keepdims=True),
        observations=observations / observations.sum(axis=2, keepdims=True),
    )
