"""Sample logs from a known POMDP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from unlatch.arrays import Floats, Ints, own_errstate
from unlatch.core.arguments import whole_number
from unlatch.core.memory import require_memory
from unlatch.core.pomdp import POMDP, checked_policy
from unlatch.core.progress import report
from unlatch.core.random import RandomSource, resolve_rng
from unlatch.core.trajectory import Trajectory
from unlatch.errors import ResourceLimitError, UsageError

if TYPE_CHECKING:
    from unlatch.kernels.simulation import Laws

__all__ = ["simulate"]

STEPS_PER_CALL = 1 << 16
"""Steps per kernel call: their random numbers stay in the cache."""

_MAX_STEPS = 2_000_000_000


@own_errstate
def simulate(
    pomdp: POMDP,
    steps: int,
    *,
    episodes: int | None = None,
    total: int | None = None,
    policy: ArrayLike | None = None,
    rng: RandomSource = None,
) -> Trajectory:
    """Act in ``pomdp``, blindly or by the last observation, and log what happens.

    Parameters
    ----------
    pomdp : POMDP
    steps : int
        Length of every episode; the most, if the model knows endings (``pomdp.terminal``). An episode that reaches
        it is cut, and not marked as ended.
    episodes : int, optional
        Number of episodes, each begun anew from ``pomdp.initial``.
    total : int, optional
        Steps of the whole log instead: episodes are begun anew until there are so many, and the last one is cut. If
        neither is given, the log has ``steps`` steps in all: one episode, unless it ends before that.
    policy : array, shape (actions,) or (observations, actions), optional
        Probability of every action at every step; uniform by default. Of a table, the row of the last observation
        is used; the first action of an episode is chosen uniformly, unless the model shows a first observation of
        the same name as one of the others.
    rng : int or numpy.random.Generator, optional

    Returns
    -------
    Trajectory
        With the names of ``pomdp``; with what it knows of rewards, endings and first observations; if actions depended
        on observations, with their probabilities.

    Examples
    --------
    >>> import unlatch
    >>> tiger = unlatch.domains.tiger()
    >>> unlatch.simulate(tiger, 50, total=120, rng=0).episode_starts.tolist()
    [0, 50, 100]
    """
    steps = whole_number("steps", steps, least=1)
    if not isinstance(pomdp, POMDP):
        raise UsageError(f"simulate acts in a POMDP, got {type(pomdp).__name__}")
    extent = _extent(pomdp, steps, episodes, total)
    weights = checked_policy(policy, pomdp.n_actions, pomdp.n_observations)
    if extent.steps is not None:
        _require_room(pomdp, extent.steps, -(-extent.steps // steps), reacts=weights.ndim == 2)
    generator, _ = resolve_rng(rng)
    table = _policy_table(weights, pomdp.n_observations)
    openings = _openings(pomdp)
    tape = _Tape.recorded(pomdp, _laws(pomdp, table, openings, steps), extent, generator)
    rewards = _rewards(pomdp, tape)
    probabilities = None if weights.ndim == 1 else _chosen_with(table, openings, tape)
    for array in (tape.actions, tape.observations, rewards, probabilities):
        if array is not None:
            array.setflags(write=False)  # handed over: nobody else holds them, so no copy is needed
    return Trajectory(
        actions=tape.actions,
        observations=tape.observations,
        action_names=pomdp.action_names,
        observation_names=pomdp.observation_names,
        rewards=rewards,
        episode_starts=tape.starts,
        probabilities=probabilities,
        terminated=tape.ended if pomdp.terminal else None,
        first_observations=None if pomdp.first_observations is None else tape.firsts,
        first_observation_names=pomdp.first_observation_names or None,  # type: ignore[arg-type]
    )


@dataclass(frozen=True)
class _Extent:
    """How much to log: so many steps, or if that is not known beforehand so many episodes."""

    steps: int | None
    episodes: int


def _extent(pomdp: POMDP, longest: int, episodes: int | None, total: int | None) -> _Extent:
    if episodes is not None and total is not None:
        raise UsageError("give the number of episodes or the steps of the whole log (total), not both")
    if episodes is not None:
        episodes = whole_number("episodes", episodes, least=1)
        if pomdp.terminal:
            return _Extent(None, episodes)
        total = longest * episodes
    elif total is not None:
        total = whole_number("total", total, least=1)
    else:
        total = longest
    _refuse_longer(total)
    return _Extent(total, total)


def _refuse_longer(steps: int) -> None:
    if steps > _MAX_STEPS:
        raise ResourceLimitError(f"{steps} steps in all; at most {_MAX_STEPS} fit one log")


class _Tape:
    """The columns of a log while it grows."""

    def __init__(self, pomdp: POMDP, room: int) -> None:
        self.actions, self.observations = np.empty(room, np.int64), np.empty(room, np.int64)
        self.rewards = np.empty(room if pomdp.reward_values is not None else 0, np.int64)
        self.ended = np.empty(room if pomdp.terminal else 0, np.bool_)
        self.starts, self.firsts = np.empty(0, np.int64), np.empty(0, np.int64)

    @classmethod
    def recorded(cls, pomdp: POMDP, laws: Laws, extent: _Extent, generator: np.random.Generator) -> _Tape:
        """Draw no more random numbers than the log takes, so that the stream ends where the log does."""
        from unlatch.kernels.simulation import simulate_steps

        tape = cls(pomdp, STEPS_PER_CALL if extent.steps is None else extent.steps)
        per_step = 3 + (pomdp.reward_values is not None)
        per_start = 1 + (pomdp.first_observations is not None)
        place, uniforms = np.array([-1, 0, 0]), np.empty(0)
        starts, firsts = np.empty((2, STEPS_PER_CALL), dtype=np.int64)
        parts: list[Ints] = []
        done, begun = 0, 0
        while True:
            inside = bool(place[0] >= 0)
            if extent.steps is None:
                needed = (extent.episodes - begun) * (per_start + per_step) + inside * per_step
                tape._make_room(done + STEPS_PER_CALL)
            else:
                needed = (extent.steps - done) * per_step + (not inside and done < extent.steps) * per_start
            if needed == 0:
                break
            fresh = min(needed - len(uniforms), STEPS_PER_CALL * per_step)
            uniforms = np.concatenate([uniforms, generator.random(fresh)])
            part = slice(done, done + STEPS_PER_CALL)
            logged, used, opened = simulate_steps(
                laws,
                place,
                extent.episodes - begun,
                uniforms,
                tape.actions[part],
                tape.observations[part],
                tape.rewards[part],
                tape.ended[part],
                starts,
                firsts,
            )
            parts.append(np.stack([starts[:opened] + done, firsts[:opened]]))
            uniforms = uniforms[used:]
            done, begun = done + logged, begun + opened
            if extent.steps is None:
                report("simulating", begun, extent.episodes)
            else:
                report("simulating", done, extent.steps)
        tape.starts, tape.firsts = np.concatenate(parts, axis=1)
        tape._cut(done)
        return tape

    def _make_room(self, steps: int) -> None:
        """Twice the room where there is not enough for ``steps`` steps."""
        room = len(self.actions)
        if steps <= room:
            return
        _refuse_longer(steps)
        require_memory(
            6 * (8 * room + self.ended.nbytes), f"a log of {2 * room} steps", "simulate fewer episodes"
        )
        for name in ("actions", "observations", "rewards", "ended"):
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.empty_like(column)]))

    def _cut(self, steps: int) -> None:
        if steps < len(self.actions):
            for name in ("actions", "observations", "rewards", "ended"):
                setattr(self, name, getattr(self, name)[:steps].copy())


def _require_room(pomdp: POMDP, steps: int, episodes: int, *, reacts: bool) -> None:
    """Refuse a log that would not fit: two codes a step, a reward (and its code), a probability and the rows that it
    was looked up in, and the flags by which the finished log is checked."""
    rewards = (pomdp.symbol_rewards is not None) + 2 * (pomdp.reward_values is not None)
    numbers = 2 + rewards + 2 * reacts
    tables = 3 * 8 * (pomdp.transitions.size + pomdp.observations.size)
    require_memory(
        steps * (8 * numbers + 1 + 2 * bool(pomdp.terminal)) + 16 * episodes + tables,
        f"a log of {steps} steps",
        "simulate fewer, or several logs with a seed each",
    )


def _laws(pomdp: POMDP, table: Floats, openings: Ints, longest: int) -> Laws:
    from unlatch.kernels.simulation import Laws

    moves, targets = _outcomes(pomdp.transitions)
    shows, symbols = _outcomes(pomdp.observations)
    none = np.empty((pomdp.n_actions, pomdp.n_states, 0))
    pays, rewards = (
        (none, none.astype(np.int64))
        if pomdp.reward_probabilities is None
        else _outcomes(pomdp.reward_probabilities)
    )
    first = pomdp.first_observations
    return Laws(
        starting=np.cumsum(pomdp.initial),
        first=none[0] if first is None else np.cumsum(first, axis=1),
        openings=openings,
        policy=np.cumsum(table, axis=1),
        moves=moves,
        targets=targets,
        shows=shows,
        symbols=symbols,
        pays=pays,
        rewards=rewards,
        ends=np.isin(np.arange(pomdp.n_states), pomdp.terminal),
        arrival=pomdp.emission == "arrival",
        longest=longest,
    )


def _outcomes(probabilities: Floats) -> tuple[Floats, Ints]:
    """What can follow, by action and state, with cumulative weights; an action at a time, for the sake of Ctrl-C."""
    from unlatch.kernels.simulation import possible_outcomes

    parts = [possible_outcomes(np.cumsum(table[None], axis=2)) for table in probabilities]
    weights, outcomes = zip(*parts, strict=True)
    return np.concatenate(weights), np.concatenate(outcomes)


def _policy_table(policy: Floats, observations: int) -> Floats:
    """A row of probabilities for every last observation, then one for the first step of an episode."""
    if policy.ndim == 1:
        return np.tile(policy, (observations + 1, 1))
    actions = policy.shape[1]
    return np.concatenate([policy, np.full((1, actions), 1 / actions)])


def _openings(pomdp: POMDP) -> Ints:
    """The row of the policy table for every first observation: that of the observation of the same name, if any."""
    rows = {name: row for row, name in enumerate(pomdp.observation_names)}
    names = pomdp.first_observation_names or ("",)
    return np.array([rows.get(name, pomdp.n_observations) for name in names], dtype=np.int64)


def _rewards(pomdp: POMDP, tape: _Tape) -> Floats | None:
    if pomdp.reward_values is not None:
        drawn: Floats = pomdp.reward_values[tape.rewards]
        return drawn
    return None if pomdp.symbol_rewards is None else pomdp.symbol_rewards[tape.observations]


def _chosen_with(table: Floats, openings: Ints, tape: _Tape) -> Floats:
    """The probability with which every action was chosen."""
    rows = np.empty_like(tape.observations)
    rows[1:] = tape.observations[:-1]
    rows[tape.starts] = openings[tape.firsts] if len(openings) > 1 else openings[0]
    result: Floats = table[rows, tape.actions]
    return result
