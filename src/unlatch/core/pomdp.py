"""The explicit model: hidden states, how each action moves them, what each shows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from unlatch.arrays import Floats, Ints
from unlatch.core.alphabet import checked_names
from unlatch.core.checks import distributions, frozen
from unlatch.core.psr import PSR, same_alphabets, set_names
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
    """

    transitions: Floats
    observations: Floats
    initial: Floats
    emission: Emission = "departure"
    action_names: tuple[str, ...] = None  # type: ignore[assignment]  # None: filled in __post_init__
    observation_names: tuple[str, ...] = None  # type: ignore[assignment]
    state_names: tuple[str, ...] = None  # type: ignore[assignment]
    symbol_rewards: Floats | None = None

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
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"POMDP({self.n_states} states, {self.n_actions} actions, {self.n_observations} observations, "
            f"emission={self.emission!r})"
        )

    @property
    def n_states(self) -> int:
        return int(self.transitions.shape[1])

    @property
    def n_actions(self) -> int:
        return int(self.transitions.shape[0])

    @property
    def n_observations(self) -> int:
        return int(self.observations.shape[2])

    @cached_property
    def updates(self) -> Floats:
        """``updates[a, o]``: joint probability of showing ``o`` and moving, (actions, observations, S, S)."""
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
        ``initial``. Minus infinity if the log is impossible under the model."""
        return self._psr.log_likelihood(log)

    def belief(self, log: Trajectory) -> Floats:
        """Distribution over states after the log (after its last episode, if it has several)."""
        return self._psr.belief(log)

    def predict(self, belief: ArrayLike) -> Floats:
        """Probability of every observation after every action, shape (actions, observations)."""
        return self._psr.predict(belief)

    def encode(self, log: Trajectory) -> tuple[Ints, Ints]:
        """The log's codes in this model's alphabets, matched by name. Unknown symbols raise `DataError`."""
        return self._psr.encode(log)

    @cached_property
    def rewards(self) -> Floats | None:
        """Expected reward of every action in every state, shape (actions, states), if symbols carry any."""
        if self.symbol_rewards is None:
            return None
        shown = self.observations @ self.symbol_rewards
        if self.emission == "departure":
            return frozen(shown)
        return frozen(np.einsum("ast,at->as", self.transitions, shown))

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
        second = np.einsum("s,aost->ot", self.initial, self.updates) / self.n_actions
        joint = linalg.stationary_distribution(reactive_chain(self.updates, weights), second.ravel())
        return frozen(joint.reshape(second.shape).sum(axis=0))

    def reordered(self, order: ArrayLike) -> POMDP:
        """The same model with new state ``i`` being the old state ``order[i]``."""
        index = np.asarray(order)
        if index.dtype.kind not in "iu" or sorted(index.tolist()) != list(range(self.n_states)):
            raise DataError(
                f"order must be a permutation of the {self.n_states} states, got {index.tolist()}"
            )
        return replace(
            self,
            transitions=self.transitions[:, index][:, :, index],
            observations=self.observations[:, index],
            initial=self.initial[index],
            state_names=tuple(self.state_names[i] for i in index),
        )


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
            f"row for each of {observations} observations"
        )
    return weights


def reactive_chain(updates: Floats, policy: Floats) -> Floats:
    """One step of the pair (last observation, state) if ``policy[o]`` chooses the action after observation ``o``.

    A square matrix, row ``o * states + s``.
    """
    n_observations, size = updates.shape[1:3]
    chain: Floats = np.einsum("oa,apst->ospt", policy, updates)
    return chain.reshape(n_observations * size, n_observations * size)
