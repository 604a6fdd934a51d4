"""Whether a model is the only one with its process; and where it is not, what others there are."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unlatch import linalg
from unlatch.arrays import Flags, Floats, own_errstate
from unlatch.core import html
from unlatch.core.arguments import real_number
from unlatch.core.identification import Direction, Identification, Verdict, Zero
from unlatch.core.pomdp import POMDP
from unlatch.core.random import RandomSource, resolve_rng
from unlatch.errors import UsageError
from unlatch.learn.identify.cone import PROVED, Cone, Place
from unlatch.learn.identify.everywhere import Reach, reach
from unlatch.learn.identify.process import Process
from unlatch.learn.identify.walk import Member, Walk, explored, moved_arrival_rows

__all__ = ["identify"]

_MOST_STATES = 60
"""Beyond, the linear programs have more than 3,500 unknowns and take minutes."""

SAME = 1e-9
"""Difference up to which two numbers of an exact model are the same."""

_HANKEL = 1e-10
"""By how much the probability of any short sequence may differ between models that are said to have one process."""


@own_errstate
@linalg.on_one_thread
def identify(
    pomdp: POMDP, *, ranges: bool = True, tolerance: float = SAME, rng: RandomSource = 0
) -> Identification:
    """What the process of a model determines of its numbers.

    The process is what can be seen in episodes that begin in ``pomdp.initial``; a log of one long episode says next to
    nothing about that, so let the model begin in ``pomdp.stationary()`` there. First the dimension of the process must
    be the number of states. Then two linear programs prove that no other model near has the same process, or give a
    direction in which numbers can move; from there a walk finds other models. "Locally" means: near this one, of as
    many states and the same emission. Where it can be proved that no other exists at all, it says so. The same model
    with its states renamed is none. docs/identifiability.md has the proofs.

    Not part of the claim, as nothing of it is seen: actions in ``untried_actions``, what a state shows under an action
    that never leads to it (arrival), the rows of a terminal state. Of several terminal states each must show
    observations of its own on arrival: these are then what tells them apart.

    Parameters
    ----------
    pomdp : POMDP
    ranges : bool
        Whether to look for other models, which takes seconds where there are some; the verdict alone is quicker.
    tolerance : float
        Singular values up to this are taken for zero; a larger one can only spoil a proof. Entries of the model are
        zero only if they are exactly that.
    rng : int or numpy.random.Generator, optional
        Draws the one direction that both linear programs look along; the verdict does not depend on it.

    Returns
    -------
    Identification

    Examples
    --------
    >>> from unlatch import domains, identify
    >>> print(identify(domains.tiger()))
    identified: no other model of 2 states shows the same, but for the names of its states
    >>> found = identify(domains.unidentifiable_pair()[0])
    >>> found.identified, found.transitions[0, 1, 1].round(3).tolist()
    (False, [0.0, 0.2])
    """
    checked_model(pomdp)
    real_number("tolerance", tolerance, 0.0, 1.0)
    generator, _ = resolve_rng(rng)
    return examined(pomdp, tolerance, generator, ranges=ranges)


def checked_model(pomdp: object) -> POMDP:
    if not isinstance(pomdp, POMDP):
        raise UsageError(f"expected a POMDP, got {type(pomdp).__name__}; of a result take result.pomdp")
    return pomdp


def examined(
    pomdp: POMDP,
    tolerance: float,
    rng: np.random.Generator,
    *,
    ranges: bool = True,
    doubted: Set[Place] = frozenset(),
) -> Identification:
    """`identify` after its checks; zeros that are ``doubted`` limit nothing."""
    process = Process.of(pomdp)
    case = _Case(pomdp, process, tolerance, rng)
    if pomdp.n_states > _MOST_STATES:
        return case.declined(f"{pomdp.n_states} states; up to {_MOST_STATES} are looked at")
    if not process.actions:
        return case.declined("no action was tried")
    if not process.tells_endings_apart():
        return case.declined("several terminal states, between which an ending does not tell")
    dimension = process.size(tolerance)
    if dimension < pomdp.n_states:
        return case.not_minimal(dimension)
    return _judged(case, dimension, ranges, doubted)


def _judged(case: _Case, dimension: int, ranges: bool, doubted: Set[Place]) -> Identification:
    """The verdict on a minimal model.

    Where episodes begin is relied upon only if nothing else suffices. What would be seen where an action never leads
    may turn out to be anything: a proof allows for it, a direction holds it.
    """
    process, tolerance = case.process, case.tolerance
    for starts in (False, True):
        cone = Cone(process, tolerance, unreached_rows_free=True, starts=starts, doubted=doubted)
        proof = cone.proof(case.rng)
        if proof is not None:
            known = reach(process, tolerance if tolerance > SAME else 0.0)
            return case.determined(proof.zeros, known.alone, dimension, cone.dimension)
    held = Cone(process, tolerance, starts=True, doubted=doubted)
    change = held.direction(case.rng)
    if change is None:
        loose = "a proof would have to look into observation rows that are never shown"
        precision = "the linear programs are undecided at this precision"
        return case.declined(loose if cone.has_unreached_rows else precision, dimension, held.dimension)
    return case.moving(change, ranges, dimension, held.dimension)


@dataclass(frozen=True, eq=False)
class _Case:
    """A model under examination, and how its verdict is put together."""

    pomdp: POMDP
    process: Process
    tolerance: float
    rng: np.random.Generator

    def declined(self, why: str, dimension: int | None = None, free: int | None = None) -> Identification:
        return self._said("not examined", f"not examined: {why}", dimension=dimension, free_directions=free)

    def not_minimal(self, dimension: int) -> Identification:
        never = [self.pomdp.state_names[s] for s in np.flatnonzero(~self._ever())]
        why = f"; never reached: {html.cut_list(never)}" if never else ""
        reason = (
            f"not identified: {self.pomdp.n_states} states where {dimension} numbers predict everything{why}; which "
            "other models of this size show the same is not told by changes of basis alone"
        )
        return self._said("not minimal", reason, dimension=dimension)

    def determined(self, zeros: tuple[Place, ...], alone: bool, dimension: int, free: int) -> Identification:
        return self._said(
            "determined",
            determined_sentence(self.pomdp, len(zeros), alone=alone),
            everywhere=alone,
            zeros=tuple(named_zero(self.pomdp, place) for place in zeros),
            dimension=dimension,
            free_directions=free,
        )

    def moving(self, change: Floats, ranges: bool, dimension: int, free: int) -> Identification:
        direction, moving = _moved(self.pomdp, self.process, change)
        found: dict[str, Any] = {
            "direction": direction,
            "moving_states": moving,
            "dimension": dimension,
            "free_directions": free,
        }
        names = html.cut_list([self.pomdp.state_names[state] for state in moving])
        rows = f"the rows of {names} can change together without any effect on what is seen"
        if not ranges:
            return self._said("undecided", f"not identified to first order: {rows}", **found)
        known = reach(self.process)
        walk = explored(self.process, self.tolerance, known)
        extremes = _extremes(self.pomdp, self.process, walk)
        if extremes is None:
            return self._said(
                "undecided", f"not proved: to first order {rows}, but no other model was found", **found
            )
        reason = (
            f"not identified: {rows}; the ranges are attained by models that were found, and may be wider"
        )
        return self._said("not determined", reason, walk=walk, known=known, extremes=extremes, **found)

    def _said(
        self,
        verdict: Verdict,
        reason: str,
        *,
        walk: Walk | None = None,
        known: Reach | None = None,
        **found: Any,
    ) -> Identification:
        pomdp = self.pomdp
        spread = _Ranges(pomdp, self.process, self._ever())
        if walk is not None:
            spread.widen(walk)
        transition_rows, observation_rows = spread.verdicts(verdict, _settled(self.process, known))
        return Identification(
            identified=verdict == "determined",
            reason=reason,
            transitions=spread.transitions,
            observations=spread.observations,
            initial=spread.initial,
            n_states=pomdp.n_states,
            emission=pomdp.emission,
            verdict=verdict,
            transition_rows=transition_rows,
            observation_rows=observation_rows,
            **found,
        )

    def _ever(self) -> Flags:
        """Which states an episode ever comes to, by tried actions."""
        moves: Flags = self.pomdp.transitions[list(self.process.actions)].sum(axis=0) > 0
        ever: Flags = np.asarray(self.pomdp.initial > 0)
        for _ in range(self.pomdp.n_states):
            ever = ever | moves[ever].any(axis=0)
        return ever


def determined_sentence(pomdp: POMDP, zeros: int, *, alone: bool) -> str:
    """What is proved, and on what it rests."""
    if alone:
        text = (
            f"identified: no other model of {_states(pomdp)} shows the same, but for the names of its states"
        )
    else:
        text = (
            f"locally identified: any other model of {_states(pomdp)} near this one would show something else; models "
            "far away are not excluded"
        )
    plural = "probability that is zero" if zeros == 1 else "probabilities that are zero"
    return text + f"; rests on {zeros} {plural}" * (zeros > 0)


def _states(pomdp: POMDP) -> str:
    return f"{pomdp.n_states} state{'s' * (pomdp.n_states != 1)}"


def named_zero(pomdp: POMDP, place: Place) -> Zero:
    """A zero in words."""
    array, action, state, entry = place
    if array == "initial":
        shown = (
            "" if pomdp.first_observations is None else f" showing {pomdp.first_observation_names[action]}"
        )
        return Zero("initial", (entry,), f"no episode begins in {pomdp.state_names[entry]}{shown}")
    where = f"{pomdp.action_names[action]}: {pomdp.state_names[state]} never"
    index = (action, state, entry)
    if array == "transitions":
        return Zero("transitions", index, f"{where} leads to {pomdp.state_names[entry]}")
    if array == "observations":
        return Zero("observations", index, f"{where} shows {pomdp.observation_names[entry]}")
    assert pomdp.reward_values is not None
    return Zero("rewards", index, f"{where} pays {pomdp.reward_values[entry]:g}")


def _moved(pomdp: POMDP, process: Process, change: Floats) -> tuple[Direction, tuple[int, ...]]:
    """What a change of basis does to the numbers of the model, to first order, and to whose rows."""
    transitions, observations = np.zeros_like(pomdp.transitions), np.zeros_like(pomdp.observations)
    initial = np.zeros(pomdp.n_states)
    live, actions = list(process.live), list(process.actions)
    transitions[np.ix_(actions, live, live)] = process.transitions @ change - change @ process.transitions
    transitions[np.ix_(actions, live, process.terminal)] = -(change @ process.ending)
    shown = -(change @ process.observations)
    if process.emission == "arrival":
        shown = moved_arrival_rows(process, change[None, None])[0]
    observations[np.ix_(actions, live)] = shown
    initial[live] = process.starts.sum(axis=0) @ change
    paid = np.abs(change @ process.rewards).max(initial=0.0)
    size = max(float(np.abs(transitions).max()), float(np.abs(observations).max()), float(paid))
    moves = np.maximum(np.abs(transitions).max(axis=(0, 2)), np.abs(observations).max(axis=(0, 2)))
    moving = tuple(int(s) for s in np.flatnonzero(moves > PROVED * size))
    return Direction(transitions / size, observations / size, initial / size), moving


# --- ranges and rows ------------------------------------------------------------------------------------------


class _Ranges:
    """Least and greatest value of every number of a model, and the word for every row."""

    def __init__(self, pomdp: POMDP, process: Process, ever: Flags) -> None:
        self._pomdp, self._process, self._ever = pomdp, process, ever
        self.transitions = np.stack([pomdp.transitions] * 2, axis=-1)
        self.observations = np.stack([pomdp.observations] * 2, axis=-1)
        self.initial = np.stack([pomdp.initial] * 2, axis=-1)
        self._never_moves, self._never_shown = self._never()
        self.transitions[self._never_moves] = self.observations[self._never_shown] = [0.0, 1.0]

    def _never(self) -> tuple[Flags, Flags]:
        """Rows of which no log shows anything, (actions, states) each."""
        pomdp, process = self._pomdp, self._process
        tried = np.isin(np.arange(pomdp.n_actions), process.actions)[:, None]
        live = np.isin(np.arange(pomdp.n_states), process.live)
        moves = ~tried | ~self._ever
        shown = ~tried | (~self._ever if pomdp.emission == "departure" else ~self._reached())
        return moves & live, shown | (~live & (pomdp.emission == "departure"))

    def _reached(self) -> Flags:
        """Whether an action leads to a state from one that is ever reached."""
        flags: Flags = self._pomdp.transitions[:, self._ever].sum(axis=1) > 0
        return flags

    def widen(self, walk: Walk) -> None:
        """Over all models found."""
        process, sizes = self._process, [block.size for block in self._process.numbers()]
        live, actions = list(process.live), list(process.actions)
        edges = np.cumsum([0, *sizes])
        bounds = [
            np.stack([_tidied(walk.low[a:b]), _tidied(walk.high[a:b])], axis=-1) for a, b in pairwise(edges)
        ]
        moves, shown, _, ending, _ = (
            found.reshape(*block.shape, 2) for found, block in zip(bounds, process.numbers(), strict=True)
        )
        self._take(self.transitions, np.ix_(actions, live, live), moves)
        self._take(self.transitions, np.ix_(actions, live, process.terminal), ending)
        self._take(self.observations, np.ix_(actions, live), shown)
        begun = np.stack([member.process.starts.sum(axis=0) for member in walk.members])
        self._take(
            self.initial, np.ix_(live), _tidied(np.stack([begun.min(axis=0), begun.max(axis=0)], axis=-1))
        )
        self.transitions[self._never_moves] = self.observations[self._never_shown] = [0.0, 1.0]

    def _take(self, own: Floats, where: Any, found: Floats) -> None:
        """A number that no model found changes keeps its own bits."""
        moved = found[..., 1] - found[..., 0] > SAME
        own[where] = np.where(moved[..., None], found, own[where])

    def verdicts(
        self, verdict: Verdict, settled: tuple[Flags, Flags] | None
    ) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
        pomdp, process = self._pomdp, self._process
        words: dict[Verdict, str] = {
            "determined": "identified",
            "not minimal": "not examined",
            "not examined": "not examined",
        }
        base = words.get(verdict, "not moved")
        found = []
        for which, (ranges, never) in enumerate(
            ((self.transitions, self._never_moves), (self.observations, self._never_shown))
        ):
            rows = np.full((pomdp.n_actions, pomdp.n_states), base, dtype="<U27")
            if verdict == "determined":
                rows[:, self._shows_the_same()] = "identified up to relabeling"
            if settled is not None:
                inner = rows[np.ix_(process.actions, process.live)]
                rows[np.ix_(process.actions, process.live)] = np.where(settled[which], "identified", inner)
            rows[:, list(process.terminal)] = "identified"  # by what it means to be the end
            moved = (ranges[..., 1] - ranges[..., 0] > SAME).any(axis=2)
            rows[moved] = "bounded"
            rows[never] = "never observed"
            found.append(rows)
        return found[0], found[1]

    def _shows_the_same(self) -> Flags:
        """States that show and pay the same as another one under every tried action."""
        p = self._process
        flags = np.zeros(self._pomdp.n_states, dtype=bool)
        rows = np.concatenate([p.observations, p.rewards], axis=2).transpose(1, 0, 2).reshape(p.n_states, -1)
        same = np.abs(rows[:, None] - rows).max(axis=2) <= SAME
        flags[list(p.live)] = same.sum(axis=1) > 1
        return flags


def _tidied(values: Floats) -> Floats:
    clipped: Floats = np.clip(values, 0.0, 1.0)
    return np.where(clipped < 1e-12, 0.0, clipped)


def _settled(process: Process, known: Reach | None) -> tuple[Flags, Flags] | None:
    """Rows that stay whatever is mixed with whatever it is alike, (actions, live states) each; None if unknown.

    Numbers are rational functions of the weights, so that those which two random mixings leave alone are constant,
    almost surely.
    """
    if known is None or known.pairs is None:
        return None
    rng = np.random.default_rng(0)
    moves = shown = np.ones((len(process.actions), process.n_states), dtype=bool)
    for _ in range(2):
        mixing = np.eye(process.n_states)
        for pair in known.open:
            i, j = known.pairs[pair]
            x, y = rng.uniform(0.1, 0.4, 2)
            mixing[i, [i, j]], mixing[j, [i, j]] = (1 - x, x), (y, 1 - y)
        mixed = process.mixed(mixing)
        moves = moves & (np.abs(mixed.places - process.places).max(axis=2) <= SAME)
        shown = shown & (np.abs(mixed.observations - process.observations).max(axis=2) <= SAME)
    return moves, shown


# --- extremes --------------------------------------------------------------------------------------------------


def _extremes(pomdp: POMDP, process: Process, walk: Walk) -> tuple[POMDP, POMDP] | None:
    """The two models found that differ the most in one number, as models."""
    if len(walk.members) < 2:
        return None
    values = np.stack([member.values() for member in walk.members])
    number = int(np.argmax(values.max(axis=0) - values.min(axis=0)))
    if np.ptp(values[:, number]) <= SAME:
        return None
    pair = [
        model_of(pomdp, process, walk.members[int(i)])
        for i in (values[:, number].argmin(), values[:, number].argmax())
    ]
    return pair[0], pair[1]


def model_of(pomdp: POMDP, process: Process, member: Member) -> POMDP:
    """A member as a POMDP with the names of the first; what is never seen stays as it was."""
    found, live, actions = member.process, list(process.live), list(process.actions)
    transitions, observations = pomdp.transitions.copy(), pomdp.observations.copy()
    transitions[np.ix_(actions, live, live)] = found.transitions
    transitions[np.ix_(actions, live, process.terminal)] = found.ending
    observations[np.ix_(actions, live)] = found.observations
    initial = np.zeros(pomdp.n_states)
    initial[live] = found.starts.sum(axis=0)
    changes: dict[str, Any] = {
        "transitions": _normalized(transitions),
        "observations": _normalized(observations),
        "initial": _normalized(initial),
    }
    if pomdp.first_observations is not None:
        first = pomdp.first_observations.copy()
        begun = np.flatnonzero(initial > 0)
        first[begun] = np.clip(found.starts.T[np.searchsorted(live, begun)], 0, None)
        changes["first_observations"] = _normalized(first)
    if pomdp.reward_probabilities is not None:
        paid = pomdp.reward_probabilities.copy()
        paid[np.ix_(actions, live)] = found.rewards
        changes["reward_probabilities"] = _normalized(paid)
    return replace(pomdp, **changes)


def _normalized(rows: Floats) -> Floats:
    """Without the rounding of a walk."""
    clipped = np.where(rows < 1e-13, 0.0, rows)
    result: Floats = clipped / clipped.sum(axis=-1, keepdims=True)
    return result
