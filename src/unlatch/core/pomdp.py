"""The explicit model: hidden states, how each action moves them, what each shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from unlatch.arrays import Flags, Floats, Ints, own_errstate
from unlatch.core import html
from unlatch.core.alphabet import checked_names
from unlatch.core.checks import REPAIRABLE, distributions, finite_floats, frozen
from unlatch.core.inference import (
    Impossible,
    Moment,
    checked_impossible,
    final_belief,
    log_likelihood,
    most_likely_path,
    predictions,
    state_probabilities,
)
from unlatch.core.memory import require_memory
from unlatch.core.psr import PSR, same_alphabets, set_names
from unlatch.core.reading import read_events
from unlatch.core.trajectory import Trajectory
from unlatch.errors import DataError, UsageError

__all__ = ["POMDP", "Emission"]

Emission = Literal["departure", "arrival"]


def checked_emission(emission: str) -> Emission:
    """``emission`` if it names a convention, else a `UsageError`."""
    if emission not in get_args(Emission):
        raise UsageError(f"emission must be 'departure' or 'arrival', got {emission!r}")
    return emission  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class POMDP:
    """A discrete POMDP.

    Parameters
    ----------
    transitions : array, shape (actions, states, states)
        ``transitions[a, s, t]``: probability that action ``a`` moves state ``s`` to ``t``.
    observations : array, shape (actions, states, observations)
        ``observations[a, s, o]``: probability that state ``s`` shows ``o`` under action ``a``.
    initial : array, shape (states,)
    emission : "departure" or "arrival"
        Whether the state that an action leaves emits the observation, or the one it arrives in.
    action_names, observation_names, state_names : sequence of str, optional
    symbol_rewards : array, shape (observations,), optional
        The reward that each observation symbol carries.
    untried_actions : tuple of str
        Names of the actions that the log never tried. Their rows are no more than placeholders, so planners leave
        these actions out unless told otherwise.
    terminal : tuple of int
        States in which nothing more happens: the episode is over when one is reached. Each leads to itself, and what it
        shows afterwards is no more than a placeholder. An index or a name will do for a single one.
    first_observations : array, shape (states, first observations), optional
        ``first_observations[s, o]``: probability that ``o`` is shown before the first action if the episode starts
        in ``s``.
    first_observation_names : sequence of str, optional
        By default the names of the observations.
    reward_values : array, shape (rewards,), optional
        Rewards that are paid beside the observation, by the state that an action leaves; increasing.
    reward_probabilities : array, shape (actions, states, rewards), optional
        How likely each of them is.

    Examples
    --------
    >>> import unlatch
    >>> machine = unlatch.POMDP(
    ...     transitions=[[[0.9, 0.1], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]],  # it wears out; it is repaired
    ...     observations=[[[0.8, 0.2], [0.3, 0.7]], [[0.5, 0.5], [0.5, 0.5]]],
    ...     initial=[1.0, 0.0],
    ...     action_names=["use", "repair"],
    ...     observation_names=["good", "bad"],
    ... )
    >>> machine
    POMDP(2 states, 2 actions, 2 observations, emission='departure')
    >>> log = unlatch.Trajectory.from_symbols(["use", "use"], ["good", "bad"])
    >>> machine.belief(log).round(3)
    array([0.648, 0.352])
    >>> round(machine.log_likelihood(log), 4)
    -1.6094
    """

    transitions: Floats
    observations: Floats
    initial: Floats
    emission: Emission = "departure"
    action_names: tuple[str, ...] = None  # type: ignore[assignment]  # None: filled in __post_init__
    observation_names: tuple[str, ...] = None  # type: ignore[assignment]
    state_names: tuple[str, ...] = None  # type: ignore[assignment]
    symbol_rewards: Floats | None = None
    untried_actions: tuple[str, ...] = ()
    terminal: tuple[int, ...] = ()
    first_observations: Floats | None = None
    first_observation_names: tuple[str, ...] = None  # type: ignore[assignment]
    reward_values: Floats | None = None
    reward_probabilities: Floats | None = None

    @own_errstate
    def __post_init__(self) -> None:
        transitions = distributions("transitions", self.transitions, ndim=3)
        observations = distributions("observations", self.observations, ndim=3)
        initial = distributions("initial", self.initial, ndim=1)
        actions, states, following = transitions.shape
        if (
            following != states
            or observations.shape[:2] != (actions, states)
            or initial.shape != (states,)
            or 0 in observations.shape
        ):
            raise DataError(
                f"shapes do not fit together: transitions {transitions.shape}, observations "
                f"{observations.shape}, initial {initial.shape}; expected (actions, states, states), "
                "(actions, states, observations), (states,)"
            )
        for name, value in (
            ("transitions", transitions),
            ("observations", observations),
            ("initial", initial),
        ):
            object.__setattr__(self, name, value)
        checked_emission(self.emission)
        set_names(self, actions, observations.shape[2])
        object.__setattr__(self, "state_names", checked_names("state_names", self.state_names, states))
        untried = _checked_untried(self.untried_actions, self.action_names)
        object.__setattr__(self, "untried_actions", untried)
        object.__setattr__(self, "terminal", _checked_terminal(self))
        self._set_first_observations()
        self._set_rewards()

    def _set_first_observations(self) -> None:
        given: tuple[str, ...] | None = self.first_observation_names
        if self.first_observations is None:
            object.__setattr__(self, "first_observation_names", ())
            return
        rows = distributions("first_observations", self.first_observations, ndim=2)
        own = self.observation_names if given is None else given
        names = checked_names("first_observation_names", own, None)
        if rows.shape != (self.n_states, len(names)):
            raise DataError(
                f"first_observations: shape {rows.shape} for {self.n_states} states and {len(names)} names of first "
                "observations",
                field="first_observations",
            )
        object.__setattr__(self, "first_observations", rows)
        object.__setattr__(self, "first_observation_names", names)

    def _set_rewards(self) -> None:
        if (self.reward_values is None) != (self.reward_probabilities is None):
            raise DataError("reward_values and reward_probabilities belong together; give both or neither")
        if self.reward_values is None or self.reward_probabilities is None:
            return
        if self.symbol_rewards is not None:
            raise DataError(
                "rewards come with the symbols or beside them, not both: leave symbol_rewards out"
            )
        values = finite_floats("reward_values", self.reward_values, ndim=1)
        rows = distributions("reward_probabilities", self.reward_probabilities, ndim=3)
        if rows.shape != (self.n_actions, self.n_states, len(values)) or (np.diff(values) <= 0).any():
            raise DataError(
                f"reward_probabilities: shape {rows.shape} for {self.n_actions} actions, {self.n_states} states and "
                f"{len(values)} rewards, which must increase",
                field="reward_probabilities",
            )
        object.__setattr__(self, "reward_values", frozen(values))
        object.__setattr__(self, "reward_probabilities", rows)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, POMDP):
            return NotImplemented
        return (
            self.emission == other.emission
            and self.state_names == other.state_names
            and np.array_equal(self.transitions, other.transitions)
            and np.array_equal(self.observations, other.observations)
            and np.array_equal(self.initial, other.initial)
            and same_alphabets(self, other)
            and self.untried_actions == other.untried_actions
            and self.terminal == other.terminal
            and self.first_observation_names == other.first_observation_names
            and all(
                _same_arrays(getattr(self, name), getattr(other, name))
                for name in ("first_observations", "reward_values", "reward_probabilities")
            )
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        untried = f", untried_actions={self.untried_actions!r}" if self.untried_actions else ""
        terminal = f", terminal={self.terminal!r}" if self.terminal else ""
        return (
            f"POMDP({self.n_states} states, {self.n_actions} actions, {self.n_observations} observations, "
            f"emission={self.emission!r}{untried}{terminal})"
        )

    def _repr_html_(self) -> str:
        """For notebooks: what every state shows and where it leads, action by action."""
        parts = [html.matrix(self.initial[None], ["probability"], self.state_names, "starts in")]
        live = self.going_on > 0
        if self.terminal:
            ends = [self.state_names[state] for state in self.terminal]
            parts.append(html.heading(f"the end, where nothing more happens: {html.cut_list(ends)}"))
        if self.first_observations is not None:
            parts.append(
                self._rows_of(live, self.first_observations, self.first_observation_names, "shows first")
            )
        for a, action in enumerate(self.action_names[: html.MOST_TABLES]):
            untried = " (never tried: placeholders)" if action in self.untried_actions else ""
            parts += [
                html.heading(f"{action}{untried}"),
                self._rows_of(self.showing, self.observations[a], self.observation_names, "shows"),
                self._rows_of(live, self.transitions[a], self.state_names, "leads to"),
            ]
            if self.reward_probabilities is not None and self.reward_values is not None:
                values = [f"{value:g}" for value in self.reward_values]
                parts.append(self._rows_of(live, self.reward_probabilities[a], values, "pays"))
        if self.n_actions > html.MOST_TABLES:
            parts.append(html.heading(f"and {self.n_actions - html.MOST_TABLES} more actions"))
        return html.page(repr(self), *parts)

    def _rows_of(self, chosen: Flags, values: Floats, columns: Sequence[str], corner: str) -> str:
        """A table of the states whose rows mean something."""
        names = [name for name, some in zip(self.state_names, chosen, strict=True) if some]
        return html.matrix(values[chosen], names, columns, corner)

    @property
    def n_states(self) -> int:
        return int(self.transitions.shape[1])

    @cached_property
    def going_on(self) -> Floats:
        """The belief of somebody who knows nothing but that the episode goes on: uniform over the other states."""
        live = ~np.isin(np.arange(self.n_states), self.terminal)
        return frozen(live / live.sum())

    @cached_property
    def showing(self) -> Flags:
        """Which states' observations mean something: what a terminal state shows does if it is shown on arrival, at the
        last step of an episode; otherwise it is a placeholder."""
        live = self.going_on > 0
        return frozen(live if self.emission == "departure" else np.ones_like(live))

    @property
    def n_actions(self) -> int:
        return int(self.transitions.shape[0])

    @property
    def n_observations(self) -> int:
        return int(self.observations.shape[2])

    @cached_property
    @own_errstate
    def updates(self) -> Floats:
        """``updates[a, o]``: joint probability of showing ``o`` and moving, (actions, observations, S, S)."""
        size = 8 * self.transitions.size * self.n_observations
        require_memory(2 * size, f"the updates of {self!r}", "take fewer states or observations")
        shown = self.observations.transpose(0, 2, 1)
        if self.emission == "departure":
            return frozen(shown[:, :, :, None] * self.transitions[:, None])
        return frozen(self.transitions[:, None] * shown[:, :, None, :])

    @cached_property
    def _psr(self) -> PSR:
        return PSR(
            initial=self.initial,
            updates=self.updates,
            final=np.ones(self.n_states),
            action_names=self.action_names,
            observation_names=self.observation_names,
            symbol_rewards=self.symbol_rewards,
        )

    def to_psr(self) -> PSR:
        """The same process as a triple whose coordinates are the states and whose final vector is one."""
        return self._psr

    def log_likelihood(self, log: Trajectory) -> float:
        """Log-probability of the observations given the actions, in nats; every episode starts from
        ``initial``. Minus infinity if the log is impossible under the model.

        Endings, first observations and rewards beside observations count where model and log both know of them.
        """
        return log_likelihood(read_events(self, log), log)

    def belief(self, log: Trajectory, *, impossible: Impossible = "mix") -> Floats:
        """Distribution over states after the log (after its last episode, if it has several).

        After an impossible step it goes on from what that step alone tells, and a `BeliefCollapseWarning` counts such
        steps; with ``impossible="raise"`` a `BeliefCollapseError` names the first.
        """
        checked_impossible(impossible)
        return final_belief(read_events(self, log), log, impossible)

    @own_errstate
    def predict(self, belief: ArrayLike) -> Floats:
        """Probability of every observation after every action, shape (actions, observations)."""
        vector = finite_floats("belief", belief, ndim=1)
        if vector.shape != self.initial.shape:
            raise DataError(f"belief: {len(vector)} entries for {self.n_states} states", field="belief")
        left = np.broadcast_to(vector, (self.n_actions, self.n_states))
        emitting = left if self.emission == "departure" else vector @ self.transitions
        result: Floats = np.einsum("as,aso->ao", emitting, self.observations)
        return result

    def predictions(self, log: Trajectory, *, impossible: Impossible = "mix") -> Floats:
        """Probability of every observation at every step of a log, given the step's action and everything before it
        in its episode; shape (steps, observations), in the order of ``observation_names``.

        ``impossible`` as in `belief`. The log-likelihood is the sum of the logarithms of what was seen:

        >>> import numpy as np, unlatch
        >>> tiger = unlatch.domains.tiger()
        >>> log = unlatch.simulate(tiger, 100, rng=0)
        >>> seen = tiger.predictions(log)[np.arange(100), log.observations]
        >>> bool(np.isclose(np.log(seen).sum(), tiger.log_likelihood(log)))
        True
        """
        checked_impossible(impossible)
        return predictions(read_events(self, log), log, self._psr.shows, impossible)

    def state_probabilities(self, log: Trajectory, *, moment: Moment = "left") -> Floats:
        """Distribution of the hidden state at every step, given everything seen in the step's episode, before and
        after it (smoothing); shape (steps, states).

        Row ``t`` is of the state that step ``t`` *left*, the one in which its action was taken; with
        ``moment="reached"`` of the state that it led to. The first is what emitted the observation of step ``t``
        in a departure model, the second in an arrival model.

        Raises `BeliefCollapseError` where an observation is impossible.

        >>> import unlatch
        >>> tiger = unlatch.domains.tiger()
        >>> heard = unlatch.Trajectory([0, 0], [0, 0], tiger.action_names, tiger.observation_names)
        >>> tiger.state_probabilities(heard).round(3).tolist()
        [[0.97, 0.03], [0.97, 0.03]]
        """
        return state_probabilities(read_events(self, log), log, moment)

    def most_likely_path(self, log: Trajectory, *, moment: Moment = "left") -> Ints:
        """The states of the likeliest path through every episode (Viterbi), as indices; shape (steps,).

        The path of an episode of ``n`` steps has ``n + 1`` states, and the one returned maximizes the probability of
        all of them together with what was seen. Entry ``t`` is the state that step ``t`` left; with
        ``moment="reached"`` the one that it led to. Of equally likely paths one is returned.

        Memory: one byte per state and step of the longest episode (two beyond 256 states). Raises
        `BeliefCollapseError` where an observation is impossible.

        >>> import unlatch
        >>> tiger = unlatch.domains.tiger()
        >>> heard = unlatch.Trajectory([0, 0], [0, 0], tiger.action_names, tiger.observation_names)
        >>> tiger.most_likely_path(heard).tolist()
        [0, 0]
        """
        return most_likely_path(read_events(self, log), log, moment)

    def encode(self, log: Trajectory) -> tuple[Ints, Ints]:
        """The log's codes in this model's alphabets, matched by name. Unknown symbols raise `DataError`."""
        return self._psr.encode(log)

    @cached_property
    @own_errstate
    def rewards(self) -> Floats | None:
        """Expected reward of every action in every state, shape (actions, states), if there are any; zero in
        terminal states."""
        going_on = self.going_on > 0
        if self.reward_probabilities is not None and self.reward_values is not None:
            return frozen(self.reward_probabilities @ self.reward_values * going_on)
        if self.symbol_rewards is None:
            return None
        shown = self.observations @ self.symbol_rewards
        if self.emission == "arrival":
            shown = np.einsum("ast,at->as", self.transitions, shown)
        return frozen(shown * going_on)

    @own_errstate
    def stationary(self, policy: ArrayLike | None = None) -> Floats:
        """Long-run distribution of states under a policy (uniform by default): a probability for every action,
        or (observations, actions) if actions are chosen by the last observation.

        Found by a linear solve, so a periodic chain is no trouble. If several classes of states
        are closed, each gets the mass that ``initial`` sends to it.
        """
        from unlatch import linalg

        weights = checked_policy(policy, self.n_actions, self.n_observations)
        if weights.ndim == 1:
            chain = np.einsum("a,ast->st", weights, self.transitions)
            return frozen(linalg.stationary_distribution(chain, self.initial))
        pairs = self.n_observations * self.n_states
        require_memory(
            3 * 8 * pairs**2, f"a chain of {pairs} observations and states", "choose actions blindly"
        )
        second = np.einsum("s,aost->ot", self.initial, self.updates) / self.n_actions
        joint = linalg.stationary_distribution(reactive_chain(self.updates, weights), second.ravel())
        return frozen(joint.reshape(second.shape).sum(axis=0))

    def reordered(self, order: ArrayLike) -> POMDP:
        """The same model with new state ``i`` being the old state ``order[i]``."""
        index = np.asarray(order)
        if index.dtype.kind not in "iu" or sorted(index.tolist()) != list(range(self.n_states)):
            raise DataError(
                f"order must be a permutation of the {self.n_states} states, got {index.tolist()}",
                field="order",
            )
        return replace(
            self,
            transitions=self.transitions[:, index][:, :, index],
            observations=self.observations[:, index],
            initial=self.initial[index],
            state_names=tuple(self.state_names[i] for i in index),
            terminal=tuple(np.flatnonzero(np.isin(index, self.terminal)).tolist()),
            first_observations=None if self.first_observations is None else self.first_observations[index],
            reward_probabilities=(
                None if self.reward_probabilities is None else self.reward_probabilities[:, index]
            ),
        )


def _same_arrays(one: Floats | None, other: Floats | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)


def _checked_terminal(pomdp: POMDP) -> tuple[int, ...]:
    """The terminal states in increasing order: they lead to themselves, and no episode starts there."""
    given: object = pomdp.terminal
    if given is None:
        return ()
    listed = [given] if isinstance(given, int | str | np.integer) else given
    if not isinstance(listed, Iterable):
        raise DataError(f"terminal: expected states, got {given!r:.60}", field="terminal")
    found = set()
    for state in listed:
        index = pomdp.state_names.index(state) if state in pomdp.state_names else state
        if (
            isinstance(index, bool)
            or not isinstance(index, int | np.integer)
            or not 0 <= index < pomdp.n_states
        ):
            raise DataError(
                f"terminal: {state!r:.60} is no state of the model, which has {pomdp.n_states}",
                field="terminal",
            )
        found.add(int(index))
    terminal = sorted(found)
    if len(terminal) == pomdp.n_states:
        raise DataError("terminal: every state is; an episode needs one to begin in", field="terminal")
    for state in terminal:
        if (pomdp.transitions[:, state, state] < 1 - REPAIRABLE).any():
            raise DataError(
                f"terminal: nothing more happens in state {pomdp.state_names[state]!r}, so that every action must "
                "leave it where it is",
                field="terminal",
            )
        if pomdp.initial[state] > 0:
            raise DataError(
                f"terminal: an episode cannot start in state {pomdp.state_names[state]!r}, where it is over",
                field="terminal",
            )
    return tuple(terminal)


def _checked_untried(untried: object, names: tuple[str, ...]) -> tuple[str, ...]:
    """The untried actions in the order of the alphabet."""
    if isinstance(untried, str) or not isinstance(untried, Iterable):
        raise DataError(
            f"untried_actions: expected a tuple of action names, got {untried!r}", field="untried_actions"
        )
    listed = list(untried)
    for name in listed:
        if name not in names:
            raise DataError(
                f"untried_actions: {name!r} is no action of the model, which has {', '.join(map(repr, names))}",
                field="untried_actions",
            )
    return tuple(name for name in names if name in listed)


def checked_policy(policy: ArrayLike | None, actions: int, observations: int) -> Floats:
    """A distribution over actions, or one for every last observation; uniform if None."""
    if policy is None:
        return frozen(np.full(actions, 1 / actions))
    try:
        reactive = np.ndim(policy) == 2
    except ValueError:  # rows of different lengths, of which the check below tells
        reactive = False
    weights = distributions("policy", policy, ndim=2 if reactive else 1)
    if weights.shape not in ((actions,), (observations, actions)):
        raise DataError(
            f"policy: an array of shape {weights.shape}; give a probability for each of {actions} actions, or such a "
            f"row for each of {observations} observations",
            field="policy",
        )
    return weights


def reactive_chain(updates: Floats, policy: Floats) -> Floats:
    """One step of the pair (last observation, state) if ``policy[o]`` chooses the action after observation ``o``.

    A square matrix, row ``o * states + s``.
    """
    n_observations, size = updates.shape[1:3]
    chain: Floats = np.einsum("oa,apst->ospt", policy, updates)
    return chain.reshape(n_observations * size, n_observations * size)
