"""Logs of environments of Gymnasium, single or vectorized, acted in by a policy or at random."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unlatch.bridges.symbols import Observe, Recorder, actions_of, checked_observe, joined, symbol
from unlatch.core.alphabet import checked_names
from unlatch.core.arguments import whole_number
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.progress import report
from unlatch.core.random import resolve_rng
from unlatch.core.trajectory import Trajectory
from unlatch.errors import MissingDependencyError, UsageError

__all__ = ["made", "opened", "record"]

Policy = Callable[[Any], Any]

_REPORTED = 1000
"""Steps between two reports of progress."""


def record(
    env: Any,
    steps: int,
    *,
    policy: Policy | Sequence[float] | None = None,
    seed: int | None = None,
    observe: Observe | None = None,
    action_names: Sequence[str] | None = None,
) -> Trajectory:
    """Act in an environment of Gymnasium and keep the log: actions, what followed each, rewards, endings and what every
    episode showed first.

    Parameters
    ----------
    env : str, gymnasium.Env or gymnasium.vector.VectorEnv
        The name of a registered environment (``"FrozenLake-v1"``, ``"package:Name-v0"``), or an environment,
        which stays open. Its actions must be discrete, be it in several parts (``1|0``). The environments of a vector
        are recorded side by side, and their episodes stand one environment after the other.
    steps : int
        In all; the last episode of an environment is cut there. Resets are no steps, whatever the environment's
        mode of autoreset.
    policy : function, probabilities or None
        None explores uniformly at random, the same probabilities at every step independently of what is seen: both
        blind, as learning likes it best. A function is given the observation as the environment shows it and returns an
        action, or a pair (action, probability with which it was chosen), or the probabilities of all actions, of which
        one is drawn. Probabilities that a function gives are kept in the log.
    seed : int, optional
        Of the environment and of what is drawn here; one that had to be drawn is in the log's diagnostics
        (``recorded``).
    observe : function, optional
        Makes a symbol (text, a whole number, or a tuple of these) of an observation. Needed where observations are not
        discrete.
    action_names : sequence of str, optional
        Names of the actions 0, 1, ... of an environment whose actions have one part.

    Examples
    --------
    >>> import unlatch
    >>> log = unlatch.record("FrozenLake-v1", 1000, seed=1, action_names=["left", "down", "right", "up"])
    >>> len(log), log.action_names, log.first_observation_names
    (1000, ('down', 'left', 'right', 'up'), ('0',))
    """
    gymnasium = _gymnasium()
    whole_number("steps", steps, least=1)
    generator, used = resolve_rng(seed)
    with _environment(env) as (world, where):
        vector = isinstance(world, gymnasium.vector.VectorEnv)
        session = _Session(
            world=world,
            where=where,
            rng=generator,
            seed=int(generator.integers(2**31)) if used is None else used % 2**31,
            observe=checked_observe(
                world.single_observation_space if vector else world.observation_space, observe, where
            ),
            choose=_chooser(
                world.single_action_space if vector else world.action_space,
                policy,
                action_names,
                where,
                generator,
            ),
        )
        recorders = _record_vector(session, steps) if vector else [_record_single(session, steps)]
        mode = str(world.metadata["autoreset_mode"].value) if vector else None
    notes = Diagnostics().noting(
        "recorded",
        f"{steps} steps of {where}, seed {used}" + (f", autoreset {mode}" if mode else ""),
        environment=where,
        seed=used,
        autoreset=mode,
    )
    return replace(joined(recorders), diagnostics=notes)


def _gymnasium() -> Any:
    try:
        import gymnasium
    except ImportError as error:
        raise MissingDependencyError(
            f"to record a log, gymnasium is needed, which cannot be imported ({error}); install it: "
            "pip install 'unlatch[gymnasium]'",
            package="gymnasium",
        ) from None
    return gymnasium


@contextmanager
def _environment(env: Any) -> Iterator[tuple[Any, str]]:
    """The environment, closed in the end if it is given by name, and what messages call it."""
    world, where = opened(env)
    try:
        yield world, where
    finally:
        if isinstance(env, str):
            world.close()


def opened(env: Any) -> tuple[Any, str]:
    """The environment, made if it is given by name, and what messages call it."""
    gymnasium = _gymnasium()
    if isinstance(env, gymnasium.Env | gymnasium.vector.VectorEnv):
        spec = getattr(env, "spec", None)
        return env, spec.id if spec is not None else type(getattr(env, "unwrapped", env)).__name__
    if not isinstance(env, str):
        raise UsageError(
            f"env must be the name of an environment, or one of Gymnasium, got {type(env).__name__}"
        )
    return made(env, {}, 1), env


def made(name: str, settings: Mapping[str, Any], count: int) -> Any:
    """The environment of that name, or ``count`` of them side by side."""
    gymnasium = _gymnasium()
    try:
        if count > 1:
            options = {**settings, "disable_env_checker": True}
            return gymnasium.make_vec(name, num_envs=count, vectorization_mode="sync", **options)
        return gymnasium.make(name, disable_env_checker=True, **settings)
    except (gymnasium.error.Error, ImportError, TypeError, ValueError, AssertionError) as error:
        raise UsageError(f"{name[:80]}: cannot be made: {' '.join(str(error).split())[:300]}") from None


@dataclass(frozen=True)
class _Session:
    """What a recording needs at every step. ``choose`` gives an action, its symbol, and its probability if
    that is kept."""

    world: Any
    where: str
    rng: np.random.Generator
    seed: int
    observe: Observe
    choose: Callable[[Any], tuple[Any, str, float | None]]


# --- actions ------------------------------------------------------------------------------------------------


def _chooser(
    space: Any, policy: Any, names: Sequence[str] | None, where: str, rng: np.random.Generator
) -> Callable[[Any], tuple[Any, str, float | None]]:
    sizes = actions_of(space, where)
    single = hasattr(space, "n") and hasattr(space, "start")
    start = int(space.start) if single else 0
    if names is not None:
        if not single:
            raise UsageError(f"{where}: an action has {len(sizes)} parts; action_names are for one part")
        names = checked_names("action_names", names, sizes[0])

    def name_of(action: Any) -> str:
        if not space.contains(action):
            raise UsageError(
                f"{where}: the policy chose {str(action)[:80]!r}, which is no action of {str(space)[:80]}"
            )
        return symbol(action, where) if names is None else names[int(action) - start]

    if policy is None:
        return lambda shown: _drawn_uniformly(space, sizes, start, single, rng, name_of)
    if not callable(policy):
        fixed = _checked_chances(policy, sizes, single, where)
        return lambda shown: (*_drawn(fixed, start, rng, name_of)[:2], None)

    def choose(shown: Any) -> tuple[Any, str, float | None]:
        answer = policy(shown)
        if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], float | np.floating):
            return _as_action(answer[0], single), name_of(_as_action(answer[0], single)), float(answer[1])
        if single and not isinstance(answer, int | np.integer) and np.ndim(answer) == 1:
            return _drawn(_checked_chances(answer, sizes, single, where), start, rng, name_of)
        return _as_action(answer, single), name_of(_as_action(answer, single)), None

    return choose


def _as_action(action: Any, single: bool) -> Any:
    """A whole number of NumPy, as spaces want it."""
    return np.int64(action) if single and isinstance(action, int | np.integer) else action


def _drawn_uniformly(
    space: Any,
    sizes: tuple[int, ...],
    start: int,
    single: bool,
    rng: np.random.Generator,
    name_of: Callable[[Any], str],
) -> tuple[Any, str, float | None]:
    if single:
        action: Any = np.int64(start + rng.integers(sizes[0]))
    elif hasattr(space, "spaces"):
        action = tuple(_random_part(part, rng) for part in space.spaces)
    else:
        action = _random_part(space, rng)
    return action, name_of(action), None


def _random_part(space: Any, rng: np.random.Generator) -> Any:
    """One action of a space, drawn by our generator, so that one seed settles the recording."""
    if hasattr(space, "spaces"):
        return tuple(_random_part(part, rng) for part in space.spaces)
    if hasattr(space, "nvec"):
        return (rng.integers(space.nvec) + getattr(space, "start", 0)).astype(space.dtype)
    if hasattr(space, "start"):
        return np.int64(space.start + rng.integers(space.n))
    return rng.integers(2, size=space.shape).astype(space.dtype)


def _drawn(
    chances: Any, start: int, rng: np.random.Generator, name_of: Callable[[Any], str]
) -> tuple[Any, str, float | None]:
    chosen = int(rng.choice(len(chances), p=chances))
    action = np.int64(start + chosen)
    return action, name_of(action), float(chances[chosen])


def _checked_chances(chances: Any, sizes: tuple[int, ...], single: bool, where: str) -> Any:
    try:
        array = np.asarray(chances, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.zeros(0)
    if not single or array.shape != sizes or not (array >= 0).all() or not abs(array.sum() - 1) < 1e-6:
        raise UsageError(
            f"{where}: the policy must give an action, a pair (action, probability), or {sizes[0]} "
            f"probabilities that sum to "
            f"1, got {str(chances)[:80]}"
        )
    return array / array.sum()


# --- one environment ----------------------------------------------------------------------------------------


def _record_single(session: _Session, steps: int) -> Recorder:
    recorder = Recorder(session.where)
    shown, _ = session.world.reset(seed=session.seed)
    recorder.begin(session.observe(shown))
    while True:
        action, name, chance = session.choose(shown)
        shown, reward, terminated, truncated, _ = session.world.step(action)
        recorder.add(name, session.observe(shown), reward, terminated, chance)
        if len(recorder) % _REPORTED == 0:
            report("recording", len(recorder), steps)
        if len(recorder) == steps:
            return recorder
        if terminated or truncated:
            shown, _ = session.world.reset()
            recorder.begin(session.observe(shown))


# --- several side by side -----------------------------------------------------------------------------------


def _record_vector(session: _Session, steps: int) -> list[Recorder]:
    """Every environment gives its share of the steps; one that resets while others step waits."""
    from gymnasium.vector import AutoresetMode

    world, count = session.world, session.world.num_envs
    mode = world.metadata.get("autoreset_mode")
    if not isinstance(mode, AutoresetMode):
        raise UsageError(
            f"{session.where}: does not say how it resets (metadata['autoreset_mode'], an AutoresetMode of "
            f"Gymnasium), so "
            "that nobody could tell steps from resets"
        )
    wanted = [steps // count + (i < steps % count) for i in range(count)]
    recorders = [Recorder(session.where) for _ in range(count)]
    batch, _ = world.reset(seed=session.seed)
    shown = _parts(world, batch)
    for recorder, first in zip(recorders, shown, strict=True):
        recorder.begin(session.observe(first))
    ended = [False] * count
    while any(len(recorder) < share for recorder, share in zip(recorders, wanted, strict=True)):
        chosen = [session.choose(part) for part in shown]
        actions = np.stack([action for action, _, _ in chosen]).astype(world.action_space.dtype)
        batch, rewards, terminated, truncated, infos = world.step(actions)
        following = _parts(world, batch)
        over = [bool(a or b) for a, b in zip(terminated, truncated, strict=True)]
        for i, recorder in enumerate(recorders):
            if mode is AutoresetMode.NEXT_STEP and ended[i]:  # it was only reset, whatever the action
                recorder.begin(session.observe(following[i]))
                continue
            last = following[i]
            if mode is AutoresetMode.SAME_STEP and over[i]:
                last = infos["final_obs"][i]
            if len(recorder) < wanted[i]:
                recorder.add(chosen[i][1], session.observe(last), rewards[i], terminated[i], chosen[i][2])
            if mode is AutoresetMode.SAME_STEP and over[i]:
                recorder.begin(session.observe(following[i]))
        if mode is AutoresetMode.DISABLED and any(over):
            batch, _ = world.reset(options={"reset_mask": np.array(over)})
            following = _parts(world, batch)
            for i in np.flatnonzero(over).tolist():
                recorders[i].begin(session.observe(following[i]))
            over = [False] * count
        ended, shown = over, following
        report("recording", min(steps, sum(map(len, recorders))), steps)
    return recorders


def _parts(world: Any, batch: Any) -> list[Any]:
    """What every environment of a vector shows."""
    from gymnasium.vector.utils import iterate

    return [_copied(part) for part in iterate(world.observation_space, batch)]


def _copied(part: Any) -> Any:
    """The vector may write the next observations into the same memory."""
    return part.copy() if isinstance(part, np.ndarray) else part
