"""Plain arrays in the order of axes of POMDPs.jl: next state first, state last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlatch.arrays import Floats, own_errstate
from unlatch.core.checks import finite_floats, frozen
from unlatch.core.emission import with_emission
from unlatch.core.pomdp import POMDP
from unlatch.core.problem import Problem
from unlatch.core.reward import Reward
from unlatch.errors import DataError, UsageError

__all__ = ["TabularArrays", "from_arrays", "to_arrays"]


class TabularArrays(NamedTuple):
    """What `TabularPOMDP(T, R, O, discount)` of POMDPModels.jl takes, and where an episode starts.

    ``transitions[t, a, s]`` is the probability of state ``t`` after action ``a`` in state ``s``, ``rewards[s, a]`` what
    that pays on average, ``observations[o, a, t]`` the probability of seeing ``o`` on arriving in ``t``, ``initial[s]``
    that of starting in ``s``: ``transitions`` (states, actions, states), ``rewards`` (states, actions),
    ``observations`` (observations, actions, states), ``initial`` (states,).

    Examples
    --------
    >>> import unlatch
    >>> arrays = unlatch.to_arrays(unlatch.Problem(unlatch.domains.tiger(), discount=0.95))
    >>> arrays.transitions.shape, arrays.discount
    ((4, 3, 4), 0.95)
    """

    transitions: Floats
    rewards: Floats
    observations: Floats
    discount: float
    initial: Floats


@own_errstate
def to_arrays(problem: Problem) -> TabularArrays:
    """A problem as arrays in the order of POMDPs.jl.

    Observations come on arrival there: a model that shows them on departure is converted exactly (`with_emission`), and
    may then have more states. Rewards are those expected for every state and action.

    >>> import unlatch
    >>> arrays = unlatch.to_arrays(unlatch.Problem(unlatch.domains.tiger()))
    >>> arrays.transitions.shape, arrays.rewards.shape, arrays.observations.shape
    ((4, 3, 4), (4, 3), (6, 3, 4))
    """
    if not isinstance(problem, Problem):
        raise UsageError(f"expected a Problem, got {type(problem).__name__}")
    converted = with_emission(problem, "arrival")
    model = converted.model
    assert isinstance(model, POMDP)
    return TabularArrays(
        frozen(model.transitions.transpose(2, 0, 1)),
        frozen(converted.rewards.T),
        frozen(model.observations.transpose(2, 0, 1)),
        converted.discount,
        model.initial,
    )


@own_errstate
def from_arrays(
    transitions: ArrayLike,
    rewards: ArrayLike,
    observations: ArrayLike,
    discount: float,
    initial: ArrayLike | None = None,
    *,
    state_names: Sequence[str] | None = None,
    action_names: Sequence[str] | None = None,
    observation_names: Sequence[str] | None = None,
) -> Problem:
    """A problem from arrays in the order of POMDPs.jl.

    Parameters
    ----------
    transitions : array, shape (states, actions, states)
        ``transitions[t, a, s]``: probability of ``t`` after ``a`` in ``s``.
    rewards : array, shape (states, actions)
    observations : array, shape (observations, actions, states)
        ``observations[o, a, t]``: probability of ``o`` on arriving in ``t``.
    discount : float
    initial : array, shape (states,), optional
        Uniform by default.
    state_names, action_names, observation_names : sequence of str, optional

    Examples
    --------
    >>> import unlatch
    >>> problem = unlatch.Problem(unlatch.domains.tiger())
    >>> unlatch.from_arrays(*unlatch.to_arrays(problem)).model.n_states
    4
    """
    moves = finite_floats("transitions", transitions, ndim=3)
    shows = finite_floats("observations", observations, ndim=3)
    pays = finite_floats("rewards", rewards, ndim=2)
    states, actions = moves.shape[0], moves.shape[1]
    if (
        moves.shape != (states, actions, states)
        or shows.shape[1:] != (actions, states)
        or pays.shape != (states, actions)
    ):
        raise DataError(
            f"shapes do not fit together: transitions {moves.shape}, rewards {pays.shape}, observations {shows.shape}; "
            "expected (states, actions, states), (states, actions), (observations, actions, states)"
        )
    model = POMDP(
        transitions=moves.transpose(1, 2, 0),
        observations=shows.transpose(1, 2, 0),
        initial=np.full(states, 1 / max(states, 1)) if initial is None else initial,  # type: ignore[arg-type]
        emission="arrival",
        action_names=action_names,  # type: ignore[arg-type]
        observation_names=observation_names,  # type: ignore[arg-type]
        state_names=state_names,  # type: ignore[arg-type]
    )
    return Problem(model, Reward.on_transitions(pays.T), discount)
