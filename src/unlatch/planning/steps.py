"""What every step can bring, state by state: a problem as a solver reads it, without a matrix for every event.

An event is what a step shows and pays beside that, among those after which the episode goes on. What follows the end
is worth nothing, so that steps which end the episode are left out, and the chances of a row may sum to less than one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from unlatch.arrays import Floats, Ints, own_errstate
from unlatch.core.arguments import real_number
from unlatch.core.checks import frozen
from unlatch.core.memory import require_memory
from unlatch.core.pomdp import POMDP
from unlatch.core.problem import Problem
from unlatch.core.reward import ResolvedReward, Symbol
from unlatch.errors import UsageError
from unlatch.planning.belief import BeliefTracker, OnCollapse
from unlatch.planning.events import Beginning, known_beginning, observation_codes
from unlatch.planning.problem import TrackedProblem, Untried, legal_actions

__all__ = ["StateProblem", "StateTracker", "state_problem"]

_LARGEST = float(np.finfo(np.float64).max)

_BYTES_PER_ENTRY = 64
"""What one way from a state to the next takes while the rows are put together."""


@dataclass(frozen=True, eq=False)
class StateProblem(TrackedProblem):
    """A POMDP with its reward, in units of its largest absolute value, over its legal actions."""

    model: POMDP
    beginning: Beginning | None
    initial: Floats  # (states,)
    final: Floats  # (states,): ones
    scale: float
    legal: Ints
    discount: float
    rewards: Floats  # (legal actions, states), scaled
    starts: Ints  # (legal actions * states + 1,): where the rows begin
    events: Ints  # by row, in increasing order
    following: Ints
    chances: Floats
    shown: Ints  # (events,): the observation of an event
    paid: Ints  # (events,): its reward beside the observation, -1 if there is none

    @property
    def pays(self) -> bool:
        return self.model.symbol_rewards is not None or self.model.reward_values is not None

    @property
    def n_events(self) -> int:
        return len(self.shown)

    def event_name(self, event: int) -> str:
        """What is seen, and what is paid beside it."""
        name: str = self.model.observation_names[int(self.shown[event])]
        if self.paid[event] < 0 or self.model.reward_values is None:
            return name
        return f"{name} with reward {self.model.reward_values[self.paid[event]]:g}"

    def after(self, belief: Floats, action: int, event: int) -> Floats:
        """Weights of the next states together with an event, not normalized; ``action`` counts among the legal ones."""
        weights = np.zeros(self.rank)
        for s in np.flatnonzero(belief):
            row = action * self.rank + s
            own = slice(self.starts[row], self.starts[row + 1])
            here = self.events[own] == event
            np.add.at(weights, self.following[own][here], belief[s] * self.chances[own][here])
        return weights

    def beginnings(self) -> tuple[Floats, Floats]:
        """How episodes begin: beliefs (beginnings, states), one for every first observation, and how likely each is."""
        first = self.model.first_observations
        if first is None:
            return self.initial[None], np.ones(1)
        joint = (self.initial[:, None] * first).T
        likely = joint.sum(axis=1)
        possible = likely > 0
        return joint[possible] / likely[possible, None], likely[possible]


@own_errstate
def state_problem(
    problem: Problem, actions: Iterable[Symbol] | None = None, untried: Untried = "exclude"
) -> StateProblem:
    """The rows of a problem's POMDP, restricted to legal ``actions``."""
    model = problem.model
    if not isinstance(model, POMDP):
        raise UsageError(
            f"a solver needs states, which a {type(model).__name__} does not tell apart; take the POMDP, or plan with "
            "POUCT or ExactPlanner"
        )
    legal = legal_actions(model, actions, untried)
    resolved = problem.resolved
    live = model.going_on > 0
    tables = [_rows(model, int(a), live) for a in legal]
    sources, targets, codes, chances = (np.concatenate(column) for column in zip(*tables, strict=True))
    rows = sources + np.repeat(np.arange(len(legal)), [len(table[0]) for table in tables]) * model.n_states
    known, events = np.unique(codes, return_inverse=True)
    order = np.lexsort((targets, events, rows))
    starts = np.zeros(len(legal) * model.n_states + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=len(starts) - 1), out=starts[1:])
    beside = -1 if model.reward_values is None else 0
    return StateProblem(
        model=model,
        beginning=known_beginning(model),
        initial=model.initial,
        final=frozen(np.ones(model.n_states)),
        scale=resolved.scale,
        legal=legal,
        discount=problem.discount,
        rewards=_expected(model, resolved)[legal],
        starts=frozen(starts),
        events=frozen(events[order]),
        following=frozen(targets[order]),
        chances=frozen(chances[order]),
        shown=frozen(known // _rewards_beside(model)),
        paid=frozen(known % _rewards_beside(model) + beside),
    )


def _rewards_beside(model: POMDP) -> int:
    return 1 if model.reward_values is None else len(model.reward_values)


def _rows(model: POMDP, action: int, live: np.ndarray) -> tuple[Ints, Ints, Ints, Floats]:
    """Every way from a state to the next that an action has: both states, the code of what is shown and paid, the
    probability."""
    moves = model.transitions[action] * live[:, None] * live
    sources, targets = np.nonzero(moves)
    chances = moves[sources, targets]
    emitting = targets if model.emission == "arrival" else sources
    ways = int((model.observations[action] > 0).sum(axis=1)[emitting].sum()) * _rewards_beside(model)
    require_memory(
        _BYTES_PER_ENTRY * ways * model.n_actions, f"the steps of {model!r}", "plan with a smaller model"
    )
    which, shown, likely = _choices(model.observations[action], emitting)
    sources, targets, chances = sources[which], targets[which], chances[which] * likely
    codes = shown * _rewards_beside(model)
    if model.reward_probabilities is not None:
        which, paid, likely = _choices(model.reward_probabilities[action], sources)
        sources, targets, chances = sources[which], targets[which], chances[which] * likely
        codes = codes[which] + paid
    return sources, targets, codes, chances


def _choices(rows: Floats, chosen: Ints) -> tuple[Ints, Ints, Floats]:
    """Every possible entry of ``rows[chosen]``: whose it is among the chosen, which it is, and its probability."""
    owners, entries = np.nonzero(rows)
    begins = np.searchsorted(owners, np.arange(len(rows) + 1))
    counts = np.diff(begins)[chosen]
    which = np.repeat(np.arange(len(chosen)), counts)
    inside = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    place = begins[chosen][which] + inside
    return which, entries[place], rows[chosen[which], entries[place]]


def _expected(model: POMDP, resolved: ResolvedReward) -> Floats:
    """What every action is expected to pay in every state, scaled: each part divided first, lest their sum overflow."""
    symbols = resolved.symbols / resolved.scale
    shown = np.einsum("aso,ao->as", model.observations, symbols)
    if model.emission == "arrival":
        shown = np.einsum("ast,at->as", model.transitions, shown)
    total = resolved.states / resolved.scale + shown
    if model.reward_probabilities is not None:
        total = total + model.reward_probabilities @ (resolved.rewards / resolved.scale)
    total[:, list(model.terminal)] = 0.0
    return np.asarray(total)


class StateTracker(BeliefTracker):
    """The belief after every real step, from the rows of a POMDP."""

    def __init__(self, problem: StateProblem, on_collapse: OnCollapse) -> None:
        super().__init__(problem, on_collapse)
        self._live = problem.model.going_on > 0

    def _follow(self, a: int, observation: Symbol, reward: float | None) -> tuple[int, bool]:
        from unlatch.kernels.treesearch import MIX, RESET

        problem = self._problem
        after = self._after(self._belief, a, observation, reward)
        if after is not None:
            self._belief = after
            return 0, False
        if self.policy == MIX:
            told = self._after(problem.mixing, a, observation, reward)
            self._belief = problem.mixing.copy() if told is None else told
        elif self.policy == RESET:
            self._belief = problem.initial.copy()
        return -1, False

    def _after(self, belief: Floats, a: int, observation: Symbol, reward: float | None) -> Floats | None:
        """The belief after a step, among the states in which the episode goes on if it can have; None if the step is
        impossible."""
        model: POMDP = self._problem.model
        codes = observation_codes(model, observation)
        weights = belief * self._live
        if reward is not None:
            paid = real_number("reward", reward, -_LARGEST, _LARGEST)
            if model.symbol_rewards is not None:
                codes = codes[model.symbol_rewards[codes] == paid]
            if model.reward_probabilities is not None and model.reward_values is not None:
                weights = weights * model.reward_probabilities[a][:, model.reward_values == paid].sum(axis=1)
        shown = model.observations[a][:, codes].sum(axis=1)
        if model.emission == "departure":
            joint = (weights * shown) @ model.transitions[a]
        else:
            joint = (weights @ model.transitions[a]) * shown
        for states in (self._live, ~self._live):
            total = float(joint[states].sum())
            if total > 0:
                result: Floats = np.where(states, joint, 0.0) / total
                return result
        return None
