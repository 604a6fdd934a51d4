"""The triple (initial, updates, final), shared by predictive state representations and POMDPs.

Whatever is written for the triple (likelihood, filtering, prediction) serves the truth, a learned PSR and
a learned POMDP alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from unlatch.arrays import Floats, Ints, own_errstate
from unlatch.core import html
from unlatch.core.alphabet import checked_names, translate
from unlatch.core.checks import finite_floats, frozen
from unlatch.core.inference import (
    Impossible,
    checked_impossible,
    final_belief,
    log_likelihood,
    predictions,
)
from unlatch.core.reading import plain_reading
from unlatch.core.trajectory import Trajectory
from unlatch.errors import DataError

__all__ = ["PSR"]


@dataclass(frozen=True, eq=False)
class PSR:
    """A linear predictive state representation.

    Parameters
    ----------
    initial : array, shape (k,)
    updates : array, shape (actions, observations, k, k)
    final : array, shape (k,)
        ``P(o1..on | a1..an) = initial @ updates[a1, o1] @ ... @ updates[an, on] @ final``.
    action_names, observation_names : sequence of str, optional
    symbol_rewards : array, shape (observations,), optional
        The reward that each observation symbol carries.
    replicates : tuple of PSR
        The same quantities from the data less one block each, in the same basis (delete-one jackknife).
        Their scatter is the noise that the later stages measure their thresholds by. Empty when the PSR
        is exact.

    Examples
    --------
    >>> import unlatch
    >>> psr = unlatch.domains.tiger().to_psr()
    >>> psr.updates.shape
    (3, 6, 2, 2)
    >>> round(psr.probability([0, 0], [0, 0]), 4)  # of hearing the same twice
    0.3725
    """

    initial: Floats
    updates: Floats
    final: Floats
    action_names: tuple[str, ...] = None  # type: ignore[assignment]  # None: filled in __post_init__
    observation_names: tuple[str, ...] = None  # type: ignore[assignment]
    symbol_rewards: Floats | None = None
    replicates: tuple[PSR, ...] = ()

    @own_errstate
    def __post_init__(self) -> None:
        initial = frozen(finite_floats("initial", self.initial, ndim=1))
        updates = frozen(finite_floats("updates", self.updates, ndim=4))
        final = frozen(finite_floats("final", self.final, ndim=1))
        k = len(initial)
        if k == 0 or updates.shape[2:] != (k, k) or final.shape != (k,) or 0 in updates.shape:
            raise DataError(
                f"shapes do not fit together: initial {initial.shape}, updates {updates.shape}, "
                f"final {final.shape}; expected (k,), (actions, observations, k, k), (k,)"
            )
        for name, value in (("initial", initial), ("updates", updates), ("final", final)):
            object.__setattr__(self, name, value)
        set_names(self, updates.shape[0], updates.shape[1])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PSR):
            return NotImplemented
        return (
            np.array_equal(self.initial, other.initial)
            and np.array_equal(self.updates, other.updates)
            and np.array_equal(self.final, other.final)
            and same_alphabets(self, other)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PSR(rank {self.rank}, {self.n_actions} actions, {self.n_observations} observations)"

    def _repr_html_(self) -> str:
        """For notebooks: the alphabets, and what is predicted at the start."""
        return html.page(
            repr(self),
            html.heading("probability of every observation, if an action comes first"),
            html.matrix(self.predict(self.initial), self.action_names, self.observation_names, "action"),
        )

    @property
    def rank(self) -> int:
        return len(self.initial)

    @property
    def n_actions(self) -> int:
        return int(self.updates.shape[0])

    @property
    def n_observations(self) -> int:
        return int(self.updates.shape[1])

    def to_psr(self) -> PSR:
        """Itself: so that a POMDP and a PSR can be asked alike."""
        return self

    @own_errstate
    def transformed(self, basis: ArrayLike) -> PSR:
        """The same process in other coordinates: initial @ P, P^-1 @ updates @ P, P^-1 @ final."""
        from unlatch import linalg

        matrix = finite_floats("basis", basis, ndim=2)
        inverse = linalg.inverse(matrix)
        return PSR(
            initial=self.initial @ matrix,
            updates=inverse @ self.updates @ matrix,
            final=inverse @ self.final,
            action_names=self.action_names,
            observation_names=self.observation_names,
            symbol_rewards=self.symbol_rewards,
            replicates=tuple(replicate.transformed(matrix) for replicate in self.replicates),
        )

    @own_errstate
    def probability(self, actions: ArrayLike, observations: ArrayLike) -> float:
        """``P(observations | actions)`` of one short sequence of codes, from ``initial``."""
        vector = self.initial
        pairs = list(zip(np.asarray(actions).tolist(), np.asarray(observations).tolist(), strict=True))
        for step, (action, observation) in enumerate(pairs):
            if not (0 <= action < self.n_actions and 0 <= observation < self.n_observations):
                raise DataError(
                    f"no such pair of codes: action {action}, observation {observation}", step=step
                )
            vector = vector @ self.updates[action, observation]
        return float(vector @ self.final)

    @own_errstate
    def predict(self, belief: ArrayLike) -> Floats:
        """Probability of every observation after every action, shape (actions, observations).

        For an estimated PSR the numbers may leave [0, 1]; they are returned as they are.
        """
        vector = finite_floats("belief", belief, ndim=1)
        if vector.shape != self.initial.shape:
            raise DataError(f"belief: {len(vector)} entries for a model of rank {self.rank}", field="belief")
        result: Floats = np.einsum("i,aoij,j->ao", vector, self.updates, self.final)
        return result

    def log_likelihood(self, log: Trajectory) -> float:
        """Log-probability of the observations given the actions, in nats; every episode starts from
        ``initial``. Minus infinity if an observation has no positive probability."""
        return log_likelihood(plain_reading(self, log), log)

    def belief(self, log: Trajectory, *, impossible: Impossible = "mix") -> Floats:
        """The predictive state after the log, or after its last episode if it has several.

        After an observation without a positive probability it goes on from what that step alone tells, and a
        `BeliefCollapseWarning` counts such steps; with ``impossible="raise"`` a `BeliefCollapseError` names the first.
        """
        checked_impossible(impossible)
        return final_belief(plain_reading(self, log), log, impossible)

    def predictions(self, log: Trajectory, *, impossible: Impossible = "mix") -> Floats:
        """Probability of every observation at every step of a log, given the step's action and everything before it
        in its episode; shape (steps, observations), in the order of ``observation_names``.

        For an estimated PSR the numbers may leave [0, 1]; they are returned as they are. ``impossible`` as in `belief`.

        Examples
        --------
        >>> import unlatch
        >>> tiger = unlatch.domains.tiger()
        >>> log = unlatch.simulate(tiger, 100, rng=0)
        >>> tiger.predictions(log).shape
        (100, 6)
        """
        checked_impossible(impossible)
        return predictions(plain_reading(self, log), log, self.shows, impossible)

    @property
    def shows(self) -> Floats:
        """Probability of every observation under every action, linear in the belief: (actions, rank, observations)."""
        return np.ascontiguousarray(np.einsum("aoij,j->aio", self.updates, self.final))

    def encode(self, log: Trajectory) -> tuple[Ints, Ints]:
        """The log's codes in this model's alphabets, matched by name. Unknown symbols raise `DataError`."""
        return encode_log(log, self.action_names, self.observation_names, self.symbol_rewards)


def set_names(model: object, actions: int, observations: int) -> None:
    """Check and set the alphabets of a frozen model under construction."""
    for kind, size in (("action", actions), ("observation", observations)):
        field = f"{kind}_names"
        object.__setattr__(model, field, checked_names(field, getattr(model, field), size))
    rewards = getattr(model, "symbol_rewards", None)
    if rewards is not None:
        array = finite_floats("symbol_rewards", rewards, ndim=1)
        if array.shape != (observations,):
            raise DataError(
                f"symbol_rewards: {array.shape[0]} rewards for {observations} observation symbols",
                field="symbol_rewards",
            )
        object.__setattr__(model, "symbol_rewards", frozen(array))


def same_alphabets(one: object, other: object) -> bool:
    """Equal names of actions and observations, and equal symbol rewards."""
    first, second = getattr(one, "symbol_rewards", None), getattr(other, "symbol_rewards", None)
    return (
        getattr(one, "action_names", None) == getattr(other, "action_names", None)
        and getattr(one, "observation_names", None) == getattr(other, "observation_names", None)
        and (first is None) == (second is None)
        and (first is None or second is None or np.array_equal(first, second))
    )


def encode_log(
    log: Trajectory,
    action_names: tuple[str, ...],
    observation_names: tuple[str, ...],
    symbol_rewards: Floats | None,
) -> tuple[Ints, Ints]:
    """Codes of ``log`` in the given alphabets.

    A log that keeps rewards apart from observations is read as pairs where the alphabet consists of pairs.
    """
    known = set(observation_names)
    if log.rewards is not None and symbol_rewards is not None and not known.issuperset(log.observation_names):
        paired = log.with_reward_symbols(always=True)
        if not known.isdisjoint(paired.observation_names):
            log = paired
    actions = translate("action", log.actions, log.action_names, action_names)
    observations = translate("observation", log.observations, log.observation_names, observation_names)
    if log.rewards is not None and symbol_rewards is not None:
        differs = np.flatnonzero(symbol_rewards[observations] != log.rewards)
        if differs.size:
            step = int(differs[0])
            raise DataError(
                f"step {step}: observation {observation_names[int(observations[step])]!r} came with reward "
                f"{log.rewards[step]}, the model knows it with {symbol_rewards[observations[step]]}",
                step=step,
                field="rewards",
            )
    return actions, observations
