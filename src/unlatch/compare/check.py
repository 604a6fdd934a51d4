"""Before any data: whether a system can be learned, what of it, and from how many steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unlatch.arrays import Floats, own_errstate
from unlatch.compare.bounds import ErrorBound, cramer_rao_bound
from unlatch.core import html
from unlatch.core.arguments import real_number, whole_number
from unlatch.core.identification import Identification
from unlatch.core.pomdp import POMDP, Emission, checked_policy
from unlatch.core.random import RandomSource, resolve_rng
from unlatch.errors import NumericalError, UsageError
from unlatch.learn.identify.identification import checked_model, identify
from unlatch.learn.likelihood.climb import climb
from unlatch.learn.likelihood.evidence import SETTLED
from unlatch.learn.likelihood.marginal import Candidate, judged
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import Parameters, parameters_of
from unlatch.learn.likelihood.split_merge import merge_gains, merged_states
from unlatch.simulation import simulate

__all__ = ["ModelCheck", "check_model"]

_MERGES = 3
"""Pairs of states whose merger is climbed: those that should lose the least."""

_PASSES = 60
"""Of each of these climbs: from a merger of true states the maximum is near."""

_EPISODE = 1_000
"""Steps after which an episode that does not end is cut."""

_MOST_STEPS = 1e12
"""Beyond which a count is never right in practice."""

_SAME = 1e-12


@dataclass(frozen=True, eq=False)
class ModelCheck:
    """What can be expected of learning a system from logs of it.

    Attributes
    ----------
    identified : Identification
        What any log determines of it, from where the exploration takes it.
    emissions : tuple of str
        How its observations come about, its own first; both, if the same states can be read either way.
    classes : tuple of tuple of int
        Sets of states that the exploration does not leave again, ends followed by a new start. More than one: a single
        episode shows one of them only.
    transient : tuple of int
        States that every episode leaves for good: seen a few times an episode, whatever its length.
    unreached : tuple of int
        States that the exploration never comes to.
    untried : tuple of int
        Actions that it never takes.
    steps_for_count : int or None
        Steps until the evidence for the true number of states is 5 nats ahead of that for one state fewer: what the
        best merger of two states loses a step, against what the numbers cost. Measured on a simulated log, hence
        rough; None if there is nothing to merge, or if nothing is lost.
    steps_for_error : int or None
        Steps until the mean L1 error of a row, of observations or transitions, whichever is larger, is ``error`` for an
        efficient learner that knows states, zeros and their number (Cramer-Rao); None if something stands in the way.
    error : float
    bound : ErrorBound or None
        What that follows from: errors times the square root of the number of steps.
    obstacles : tuple of str
        What stands in the way, one sentence each; empty if nothing does.

    Examples
    --------
    >>> from unlatch import check_model, domains
    >>> check_model(domains.unidentifiable_pair()[0], steps=1_000).obstacles
    ('not everything is identified, whatever the length of the log',)
    """

    identified: Identification
    emissions: tuple[Emission, ...]
    classes: tuple[tuple[int, ...], ...]
    transient: tuple[int, ...]
    unreached: tuple[int, ...]
    untried: tuple[int, ...]
    steps_for_count: int | None
    steps_for_error: int | None
    error: float
    bound: ErrorBound | None
    obstacles: tuple[str, ...]
    state_names: tuple[str, ...]

    @property
    def learnable(self) -> bool:
        """Whether nothing stands in the way."""
        return not self.obstacles

    def sentences(self) -> tuple[str, ...]:
        """All of it in words, one sentence each."""
        verdict = "can be learned" if self.learnable else "cannot be learned in full"
        said = [f"{verdict} from a log of {' or '.join(self.emissions)} emission"]
        said += [f"in the way: {obstacle}" for obstacle in self.obstacles]
        said.append(str(self.identified))
        words = ", ".join(f"{number} {word}" for word, number in self.identified.row_counts().items())
        said.append(f"rows: {words}")
        if self.identified.dimension is not None:
            said.append(
                f"dimension of the process (PSR): {self.identified.dimension}, states: {self.identified.n_states}"
            )
        said.append(self._classes_in_words())
        said += self._steps_in_words()
        return tuple(said)

    def _classes_in_words(self) -> str:
        listed = html.cut_list(["{" + self._named(states) + "}" for states in self.classes], 4)
        text = f"states that the exploration stays in: {listed}"
        return text + (f"; left for good: {self._named(self.transient)}" if self.transient else "")

    def _named(self, states: tuple[int, ...]) -> str:
        return html.cut_list([self.state_names[state] for state in states])

    def _steps_in_words(self) -> list[str]:
        said = []
        if self.steps_for_count is not None:
            said.append(
                f"about {_rounded(self.steps_for_count)} steps until the log prefers this number of states to one "
                "fewer (rough: what the best merger of two states loses, on a simulated log)"
            )
        if self.steps_for_error is not None:
            said.append(
                f"about {_rounded(self.steps_for_error)} steps until rows are off by {self.error:g} in L1 on average "
                "(Cramer-Rao, states and zeros known: no learner needs fewer)"
            )
        return said

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def _repr_html_(self) -> str:
        return html.page(self.sentences()[0], html.listing(self.sentences()[1:]))


@own_errstate
def check_model(
    pomdp: POMDP,
    *,
    policy: ArrayLike | None = None,
    error: float = 0.05,
    steps: int = 20_000,
    rng: RandomSource = 0,
) -> ModelCheck:
    """Before any data: can this system be learned, what is identified, how many steps will it take?

    Parameters
    ----------
    pomdp : POMDP
        The system, or what is believed of it.
    policy : array, shape (actions,), optional
        How often the exploration takes each action; uniform by default.
    error : float
        The mean L1 error of rows to ask the number of steps for.
    steps : int
        Of the simulated log on which losses and information a step are measured.
    rng : int or numpy.random.Generator, optional

    Examples
    --------
    >>> from unlatch import check_model, domains
    >>> found = check_model(domains.tiger(), steps=5_000)
    >>> found.learnable, found.identified.dimension, found.steps_for_count < 5_000
    (True, 2, True)
    """
    checked_model(pomdp)
    real_number("error", error, 1e-6, 2.0)
    whole_number("steps", steps, least=1_000)
    weights = checked_policy(policy, pomdp.n_actions, pomdp.n_observations)
    if weights.ndim != 1:
        raise UsageError(
            "policy: a probability for every action; exploration by the last observation is not checked"
        )
    generator, _ = resolve_rng(rng)
    untried = tuple(int(a) for a in np.flatnonzero(weights <= 0))
    explored = replace(pomdp, untried_actions=_names(pomdp, untried))
    classes, transient, unreached = _classes(explored, weights)
    process = explored if _episodic(pomdp) else _underway(explored, weights)
    found = identify(process)
    obstacles = _obstacles(explored, found, classes, transient, unreached)
    bound, count = None, None
    if not obstacles:  # else there are rows that no log of this exploration brings closer
        bound = _bound(explored, weights, steps, generator)
    if found.dimension == pomdp.n_states > 1:
        count = _steps_for_count(explored, weights, steps, generator)
    worst = None if bound is None else max(bound.observation_l1_all, bound.transition_l1)
    return ModelCheck(
        identified=found,
        emissions=_emissions(explored),
        classes=classes,
        transient=transient,
        unreached=unreached,
        untried=untried,
        steps_for_count=count,
        steps_for_error=None if worst is None else max(1, int(np.ceil((worst / error) ** 2))),
        error=float(error),
        bound=bound,
        obstacles=obstacles,
        state_names=pomdp.state_names,
    )


def _names(pomdp: POMDP, actions: tuple[int, ...]) -> tuple[str, ...]:
    chosen = {*pomdp.untried_actions, *(pomdp.action_names[a] for a in actions)}
    return tuple(name for name in pomdp.action_names if name in chosen)


def _episodic(pomdp: POMDP) -> bool:
    return bool(pomdp.terminal) or pomdp.first_observations is not None


def _underway(pomdp: POMDP, weights: Floats) -> POMDP:
    """A long log is one from the middle: it begins wherever the exploration is found."""
    return replace(pomdp, initial=pomdp.stationary(weights))


# --- where the exploration goes ---------------------------------------------------------------------------------


def _classes(
    pomdp: POMDP, weights: Floats
) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...], tuple[int, ...]]:
    """Sets of states that are not left, states that are left for good, states that are never reached."""
    from scipy.sparse.csgraph import breadth_first_order, connected_components

    moves = np.einsum("a,ast->st", weights, pomdp.transitions) > 0
    moves[list(pomdp.terminal)] = pomdp.initial > 0
    reached = np.zeros(pomdp.n_states, dtype=bool)
    for state in np.flatnonzero(pomdp.initial > 0):
        reached[breadth_first_order(moves, state, return_predecessors=False)] = True
    labels = connected_components(moves, connection="strong")[1]
    leaves = moves & (labels[:, None] != labels)
    closed = [
        tuple(np.flatnonzero(labels == label).tolist())
        for label in np.unique(labels[reached])
        if not leaves[labels == label].any()
    ]
    staying = {state for states in closed for state in states}
    transient = tuple(int(s) for s in np.flatnonzero(reached) if s not in staying)
    return tuple(sorted(closed)), transient, tuple(np.flatnonzero(~reached).tolist())


def _emissions(pomdp: POMDP) -> tuple[Emission, ...]:
    """The model's own; and the other, if what is shown is the same wherever a step leads, or came from."""
    shown = pomdp.observations
    if pomdp.emission == "departure":
        # the state reached would have to show what every state that leads to it shows
        joint = pomdp.updates.sum(axis=2)
        mass = pomdp.transitions.sum(axis=1)
        rows = np.divide(joint, mass[:, None], out=np.zeros_like(joint), where=mass[:, None] > 0)
        other = pomdp.transitions[:, None] * rows[:, :, None, :]
    else:
        rows = np.einsum("ast,ato->aos", pomdp.transitions, shown)
        other = rows[:, :, :, None] * pomdp.transitions[:, None]
    if pomdp.reward_probabilities is None and np.abs(other - pomdp.updates).max() <= _SAME:
        return (pomdp.emission, "arrival" if pomdp.emission == "departure" else "departure")
    return (pomdp.emission,)


def _obstacles(
    pomdp: POMDP,
    found: Identification,
    classes: tuple[tuple[int, ...], ...],
    transient: tuple[int, ...],
    unreached: tuple[int, ...],
) -> tuple[str, ...]:
    said = []
    if pomdp.untried_actions:
        said.append(
            f"never taken: {html.cut_list(list(pomdp.untried_actions))}; nothing is learned of these actions"
        )
    if unreached:
        said.append(f"never reached: {html.cut_list([pomdp.state_names[s] for s in unreached])}")
    if len(classes) > 1:
        said.append(
            f"{len(classes)} sets of states are never left: a single episode shows one of them; record many episodes"
        )
    if transient and not _episodic(pomdp):
        names = html.cut_list([pomdp.state_names[s] for s in transient])
        said.append(f"left for good: {names}; record many episodes, which begin where this model does")
    if not found.identified:
        said.append("not everything is identified, whatever the length of the log")
    return tuple(said)


# --- how many steps ---------------------------------------------------------------------------------------------


def _bound(pomdp: POMDP, weights: Floats, steps: int, rng: np.random.Generator) -> ErrorBound | None:
    try:
        return cramer_rao_bound(pomdp, steps=steps, policy=weights, rng=rng)
    except NumericalError:  # rows that this log did not visit
        return None


def _steps_for_count(pomdp: POMDP, weights: Floats, steps: int, rng: np.random.Generator) -> int | None:
    """From the evidence for the model and for its best merger on a simulated log, extrapolated."""
    options: dict[str, Any] = {"total": steps} if _episodic(pomdp) else {}
    log = simulate(pomdp, _EPISODE if options else steps, policy=weights, rng=rng, **options)
    apart = pomdp.reward_probabilities is not None
    likelihood = Likelihood.of(log, pomdp.emission, pomdp, rewards_apart=apart)
    try:
        whole = _climbed(parameters_of(pomdp), likelihood)
        rivals = [
            _climbed(merged_states(whole.parameters, [pair], whole.ascent.visits), likelihood)
            for pair in merge_gains(whole).pairs[:_MERGES]
        ]
    except NumericalError:
        return None
    if not rivals:
        return None
    rival = max(rivals, key=lambda candidate: candidate.log_likelihood)
    return _steps_until_ahead(whole, rival, steps)


def _climbed(start: Parameters, likelihood: Likelihood) -> Candidate:
    return judged(climb(start, likelihood, passes=_PASSES), likelihood)


def _steps_until_ahead(whole: Candidate, rival: Candidate, steps: int) -> int | None:
    """The first number of steps n with ``n rate - price(n) >= 5 nats``.

    The rate is what the rival loses a step, less the half nat for every further number by which a fit flatters; the
    price of these numbers grows by half a nat with every factor e of steps.
    """
    further = max(whole.free - rival.free, 1)
    lost = whole.log_likelihood - rival.log_likelihood
    rate = (lost - further / 2) / steps
    if rate <= 0:
        return None
    price = lost - (whole.score - rival.score)
    numbers = np.geomspace(10, _MOST_STEPS, 2_000)
    ahead = numbers * rate - np.maximum(price + further / 2 * np.log(numbers / steps), 0.0) >= SETTLED
    return int(np.ceil(numbers[int(np.argmax(ahead))])) if ahead.any() else None


def _rounded(number: int) -> str:
    """To two digits: no more is known."""
    return f"{float(f'{number:.2g}'):,.0f}"
