"""A problem as an environment of Gymnasium."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from unlatch.arrays import Floats
from unlatch.core.pomdp import POMDP
from unlatch.core.problem import Problem
from unlatch.errors import MissingDependencyError, UsageError

if TYPE_CHECKING:
    import gymnasium

__all__ = ["ENVIRONMENT_ID", "make_environment", "to_gymnasium"]

ENVIRONMENT_ID = "unlatch/Problem-v0"
"""Under this name `gymnasium.make` makes an environment of any problem, given as ``problem=``."""


def to_gymnasium(problem: Problem, *, max_episode_steps: int | None = None) -> gymnasium.Env[Any, Any]:
    """An environment that behaves as the problem's model does and pays its reward.

    Parameters
    ----------
    problem : Problem
        With a POMDP.
    max_episode_steps : int, optional
        After so many steps an episode is cut (``truncated``). By default it goes on until it ends.

    Returns
    -------
    gymnasium.Env
        Actions are the numbers of the model's actions. Observations are the numbers of the observations; before the
        first action the model's first observation is shown, or, where it has none, the number after the last, which
        means that nothing has been seen yet. First observations that are no observations have the numbers after those.
        An episode is ``terminated`` when a terminal state is reached. ``reset(seed=...)`` settles everything that
        follows; ``info`` has the names, and the hidden state under ``state``.

    Raises `MissingDependencyError` where Gymnasium is not installed.

    >>> import unlatch
    >>> env = unlatch.to_gymnasium(unlatch.Problem(unlatch.domains.tiger()))
    >>> nothing_yet, info = env.reset(seed=0)
    >>> int(nothing_yet), int(env.action_space.n)
    (6, 3)
    >>> _, reward, terminated, truncated, info = env.step(0)
    >>> reward, terminated, truncated
    (-1.0, False, False)
    """
    library = _gymnasium()
    if not isinstance(problem, Problem) or not isinstance(problem.model, POMDP):
        raise UsageError(
            "to_gymnasium needs a Problem with a POMDP: only a model with states can be acted in"
        )
    if ENVIRONMENT_ID not in library.registry:
        library.register(ENVIRONMENT_ID, entry_point="unlatch.bridges.environment:make_environment")
    made: gymnasium.Env[Any, Any] = library.make(
        ENVIRONMENT_ID, problem=problem, max_episode_steps=max_episode_steps
    )
    return made


def _gymnasium() -> Any:
    try:
        import gymnasium
    except ImportError:
        raise MissingDependencyError(
            "Gymnasium is not installed; install it by: pip install 'unlatch[gymnasium]'", package="gymnasium"
        ) from None
    return gymnasium


def make_environment(problem: Problem, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
    """What `gymnasium.make` calls. There is nothing to render."""
    if render_mode is not None:
        raise UsageError(f"there is nothing to render, got render_mode={render_mode!r}")
    environment: gymnasium.Env[Any, Any] = _environment_class()(problem)
    return environment


@cache
def _environment_class() -> Any:
    """The class, made when Gymnasium is first needed."""
    gymnasium = _gymnasium()

    class ProblemEnvironment(gymnasium.Env):  # type: ignore[misc,name-defined]
        """Samples states, observations, rewards and endings of a POMDP."""

        metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  # as Gymnasium has it
        render_mode = None

        def __init__(self, problem: Problem) -> None:
            self.problem = problem
            self._world = World(problem)
            self.action_space = gymnasium.spaces.Discrete(problem.model.n_actions)
            self.observation_space = gymnasium.spaces.Discrete(len(self._world.names))
            self._state: int | None = None

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            super().reset(seed=seed)
            self._state, shown = self._world.begun(self.np_random)
            return np.int64(shown), self._world.told(self._state, shown)

        def step(self, action: Any) -> Any:
            if self._state is None:
                raise UsageError("call reset() before step(), and again after an episode has ended")
            code = int(action)
            if not self.action_space.contains(code):
                raise UsageError(f"action {action!r} is not one of {self.action_space.n}")
            state, shown, reward = self._world.step(self._state, code, self.np_random)
            ended = state in self._world.model.terminal
            self._state = None if ended else state
            return np.int64(shown), reward, ended, False, self._world.told(state, shown)

    return ProblemEnvironment


class World:
    """A POMDP that is acted in, step by step: states, observations and rewards drawn from a generator."""

    def __init__(self, problem: Problem) -> None:
        assert isinstance(problem.model, POMDP)
        self.model = problem.model
        model = self.model
        first = [name for name in model.first_observation_names if name not in model.observation_names]
        nothing = [] if model.first_observations is not None else ["nothing yet"]
        self.names = (*model.observation_names, *nothing, *first)
        self._first_codes = [self.names.index(name) for name in model.first_observation_names]
        self._random_pay = problem.resolved.rewards if problem.resolved.rewards.any() else None
        self._table = problem.reward_table
        if self._random_pay is not None and model.reward_probabilities is not None:
            self._table = self._table - (model.reward_probabilities @ self._random_pay)[:, :, None, None]

    def begun(self, rng: np.random.Generator) -> tuple[int, int]:
        """A first state, and what is shown before the first action."""
        state = _drawn(self.model.initial, rng)
        if self.model.first_observations is None:
            return state, self.model.n_observations
        return state, self._first_codes[_drawn(self.model.first_observations[state], rng)]

    def step(self, state: int, action: int, rng: np.random.Generator) -> tuple[int, int, float]:
        """The next state, what is shown and what is paid."""
        model = self.model
        following = _drawn(model.transitions[action, state], rng)
        emitting = state if model.emission == "departure" else following
        shown = _drawn(model.observations[action, emitting], rng)
        table = self._table
        paid = float(table[action, state, min(following, table.shape[2] - 1), min(shown, table.shape[3] - 1)])
        if self._random_pay is not None and model.reward_probabilities is not None:
            paid += float(self._random_pay[_drawn(model.reward_probabilities[action, state], rng)])
        return following, shown, paid

    def told(self, state: int, shown: int) -> dict[str, Any]:
        """What goes beside the numbers."""
        return {"state": state, "observation": self.names[shown]}


def _drawn(chances: Floats, rng: np.random.Generator) -> int:
    """An index by its probability; never one that has none."""
    total = np.cumsum(chances)
    found = int(np.searchsorted(total, rng.random() * total[-1], side="right"))
    return min(found, int(np.flatnonzero(chances)[-1]))
