"""A problem as an agent of pomdp-py, ready for its planners."""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from unlatch.arrays import Floats
from unlatch.core.emission import with_emission
from unlatch.core.pomdp import POMDP
from unlatch.core.problem import Problem
from unlatch.core.random import RandomSource, resolve_rng
from unlatch.errors import MissingDependencyError, UsageError

__all__ = ["PomdpPyAgent", "to_pomdp_py"]


class PomdpPyAgent(NamedTuple):
    """What pomdp-py plans with: an ``agent`` with all its models, an ``environment`` that begins in a state drawn from
    the start, and the actions, observations and states by their numbers in the problem.

    Every action, observation and state has a ``code``, its number, and a ``name``, that of the model.
    """

    agent: Any
    environment: Any
    actions: tuple[Any, ...]
    observations: tuple[Any, ...]
    states: tuple[Any, ...]


def to_pomdp_py(problem: Problem, *, rng: RandomSource = None) -> PomdpPyAgent:
    """An agent of pomdp-py for a problem: transition, observation, reward and policy models, and the first belief.

    Parameters
    ----------
    problem : Problem
        With a POMDP. Observations come on arrival in pomdp-py: a model that shows them on departure is converted
        exactly (`with_emission`).
    rng : int or numpy.random.Generator, optional
        For what the models sample. pomdp-py's own planners draw from Python's `random` besides.

    Returns
    -------
    PomdpPyAgent
        For ``pomdp_py.POUCT(...).plan(result.agent)`` and its like. A reward is what is expected for the state left,
        the action and the state reached. What is shown before the first action has no place there.

    Raises `MissingDependencyError` where pomdp-py is not installed.

    Examples
    --------
    >>> import unlatch
    >>> wrapped = unlatch.to_pomdp_py(unlatch.Problem(unlatch.domains.tiger(), discount=0.95), rng=0)
    >>> type(wrapped).__name__
    'PomdpPyAgent'
    """
    library = _pomdp_py()
    if not isinstance(problem, Problem) or not isinstance(problem.model, POMDP):
        raise UsageError(
            "to_pomdp_py needs a Problem with a POMDP: only a model with states can be planned in there"
        )
    generator, _ = resolve_rng(rng)
    converted = with_emission(problem, "arrival")
    model = converted.model
    assert isinstance(model, POMDP)
    kinds = _classes()
    states, actions, observations = (
        tuple(kind(code, name) for code, name in enumerate(names))
        for kind, names in (
            (kinds.State, model.state_names), (kinds.Action, model.action_names),
            (kinds.Observation, model.observation_names),
        )
    )  # fmt: skip
    usable = [action for action in actions if action.name not in model.untried_actions]
    belief = library.Histogram({state: float(model.initial[state.code]) for state in states})
    transition = kinds.Transition(model, states, generator)
    pays = kinds.Reward(converted)
    agent = library.Agent(
        belief, kinds.Policy(usable, generator), transition, kinds.Shown(model, observations, generator), pays
    )
    start = states[int(generator.choice(model.n_states, p=model.initial / model.initial.sum()))]
    return PomdpPyAgent(agent, library.Environment(start, transition, pays), actions, observations, states)


def _pomdp_py() -> Any:
    try:
        import pomdp_py
    except ImportError:
        raise MissingDependencyError(
            "pomdp-py is not installed; install it by: pip install 'unlatch[rivals]'", package="pomdp-py"
        ) from None
    return pomdp_py


@cache
def _classes() -> Any:
    """The classes, made when pomdp-py is first needed: it is compiled, and they derive from its own."""
    library = _pomdp_py()

    class Named:
        """A number of the model with its name; equal to others of its kind by the number."""

        def __init__(self, code: int, name: str) -> None:
            self.code, self.name = code, name

        def __eq__(self, other: Any) -> bool:
            return type(self) is type(other) and bool(self.code == other.code)

        def __hash__(self) -> int:
            return hash(self.code)

        def __repr__(self) -> str:
            return f"{type(self).__name__}({self.name!r})"

        __str__ = __repr__

    class State(Named, library.State):  # type: ignore[misc,name-defined]
        pass

    class Action(Named, library.Action):  # type: ignore[misc,name-defined]
        pass

    class Observation(Named, library.Observation):  # type: ignore[misc,name-defined]
        pass

    class Transition(library.TransitionModel):  # type: ignore[misc,name-defined]
        def __init__(self, model: POMDP, states: tuple[Any, ...], rng: np.random.Generator) -> None:
            self._chances, self._states, self._rng = model.transitions, states, rng
            self._sums = np.cumsum(model.transitions, axis=2).tolist()

        def probability(self, next_state: Any, state: Any, action: Any) -> float:
            return float(self._chances[action.code, state.code, next_state.code])

        def sample(self, state: Any, action: Any) -> Any:
            return self._states[_picked(self._sums[action.code][state.code], self._rng)]

        def get_all_states(self) -> Any:
            return self._states

    class Shown(library.ObservationModel):  # type: ignore[misc,name-defined]
        def __init__(self, model: POMDP, observations: tuple[Any, ...], rng: np.random.Generator) -> None:
            self._chances, self._observations, self._rng = model.observations, observations, rng
            self._sums = np.cumsum(model.observations, axis=2).tolist()

        def probability(self, observation: Any, next_state: Any, action: Any) -> float:
            return float(self._chances[action.code, next_state.code, observation.code])

        def sample(self, next_state: Any, action: Any) -> Any:
            return self._observations[_picked(self._sums[action.code][next_state.code], self._rng)]

        def get_all_observations(self) -> Any:
            return self._observations

    class Reward(library.RewardModel):  # type: ignore[misc,name-defined]
        """Expected for the state left, the action and the state reached: planners there know no observation yet."""

        def __init__(self, problem: Problem) -> None:
            table = _expected(problem)
            self._by_next_state = table.shape[2] > 1
            self._table = table.tolist()

        def sample(self, state: Any, action: Any, next_state: Any) -> float:
            paid: list[float] = self._table[action.code][state.code]
            return paid[next_state.code if self._by_next_state else 0]

        def argmax(self, state: Any, action: Any, next_state: Any) -> float:
            return self.sample(state, action, next_state)

    class Policy(library.RolloutPolicy):  # type: ignore[misc,name-defined]
        def __init__(self, actions: list[Any], rng: np.random.Generator) -> None:
            self._actions, self._rng = actions, rng

        def get_all_actions(self, state: Any = None, history: Any = None) -> Any:
            return self._actions

        def sample(self, state: Any) -> Any:
            return self._actions[int(self._rng.integers(len(self._actions)))]

        def rollout(self, state: Any, history: Any = None) -> Any:
            return self.sample(state)

    return _Kinds(State, Action, Observation, Transition, Shown, Reward, Policy)


class _Kinds(NamedTuple):
    State: Any
    Action: Any
    Observation: Any
    Transition: Any
    Shown: Any
    Reward: Any
    Policy: Any


def _expected(problem: Problem) -> Floats:
    """What is paid on average for leaving a state by an action and reaching the next, shape (actions, states, states)
    or (actions, states, 1)."""
    model, table = problem.model, problem.reward_table
    assert isinstance(model, POMDP)
    if table.shape[3] == 1:
        return table[:, :, :, 0]
    result: Floats = np.einsum(
        "asto,ato->ast",
        np.broadcast_to(table, (*table.shape[:2], model.n_states, table.shape[3])),
        model.observations,
    )
    return result


def _picked(sums: list[float], rng: np.random.Generator) -> int:
    """An index by cumulated probabilities; never one whose probability is zero. Lists, since planners there ask for one
    number at a time."""
    return bisect_right(sums, rng.random() * sums[-1])
