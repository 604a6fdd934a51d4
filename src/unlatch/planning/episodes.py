"""Act in the true system with a planner that sees only its own model, and keep score."""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, get_args

import numpy as np

from unlatch.arrays import Flags, Floats, Ints, own_errstate
from unlatch.core import html
from unlatch.core.arguments import whole_number
from unlatch.core.checks import frozen
from unlatch.core.memory import require_memory
from unlatch.core.partition_model import PartitionModel
from unlatch.core.pomdp import POMDP
from unlatch.core.progress import report
from unlatch.core.psr import PSR
from unlatch.core.random import RandomSource, resolve_rng
from unlatch.core.reward import Reward, Symbol, symbol_code
from unlatch.core.symbols import plain_observations
from unlatch.errors import BeliefCollapseError, BeliefCollapseWarning, UsageError
from unlatch.planning.environments import Mapper, is_environment, play_environment
from unlatch.planning.events import Events, events_of, known_beginning
from unlatch.planning.pouct import POUCT
from unlatch.planning.problem import Untried

__all__ = ["Episodes", "Planner", "run_episodes"]

_STEPS_DRAWN = 4096
"""Steps whose random numbers are drawn at once."""

_SECONDS_PER_CALL = 0.2
"""Aim for the duration of a kernel call, so that Ctrl-C is answered soon."""


class Planner(Protocol):
    """What `run_episodes` asks of a planner.

    ``reset`` begins an episode, ``action`` names the next action, ``observe`` tells what was done, what was seen and
    what was paid. Actions are names, or indices into ``planner.model.action_names`` (the truth's, if the planner has no
    ``model``); observations are told by name. The first observation is told where the truth shows one, the reward where
    it pays one, and either only to a planner whose method has a parameter ``observation`` or ``reward`` for it. An
    observation that the planner cannot follow raises `BeliefCollapseError`; a planner that goes on by itself may count
    such events in ``collapses``.

    Examples
    --------
    >>> import unlatch
    >>> class Listener:
    ...     def reset(self, observation=None): ...
    ...
    ...     def action(self):
    ...         return "listen"
    ...
    ...     def observe(self, action, observation, reward=None): ...
    ...
    >>> unlatch.run_episodes(unlatch.domains.tiger(), Listener(), episodes=2, steps=10, rng=0).mean
    -10.0
    """

    def reset(self, observation: Symbol | None = None) -> None: ...

    def action(self) -> Symbol: ...

    def observe(self, action: Symbol, observation: Symbol, reward: float | None = None) -> None: ...


@dataclass(frozen=True, eq=False)
class Episodes:
    """The score of every episode.

    Parameters
    ----------
    rewards : array, shape (episodes,)
        Undiscounted sum of rewards.
    occupancy : array of int, shape (episodes, states)
        How many actions were taken in every true state.
    collapses : array of int, shape (episodes,)
        How many observations the planner's belief held impossible.
    lengths : array of int, shape (episodes,)
        Steps of every episode.
    ended : array of bool, shape (episodes,)
        Whether the true system ended it; otherwise it was cut after the steps allowed.
    state_names : tuple of str
    seed : int or None
        The seed of the true system's chances, unless a generator was passed.

    Examples
    --------
    >>> import unlatch
    >>> tiger = unlatch.domains.tiger()
    >>> played = unlatch.run_episodes(tiger, unlatch.ExactPlanner(tiger, horizon=10), episodes=3, steps=10, rng=0)
    >>> played.rewards
    array([ 1., 12., 23.])
    >>> played.lengths
    array([10, 10, 10])
    """

    rewards: Floats
    occupancy: Ints
    collapses: Ints
    lengths: Ints
    ended: Flags
    state_names: tuple[str, ...]
    seed: int | None

    def __repr__(self) -> str:
        ended = f", {int(self.ended.sum())} ended" if self.ended.any() else ""
        collapses = f", {int(self.collapses.sum())} collapses" if self.collapses.any() else ""
        score = f"mean {self.mean:.4g} ± {self.standard_error:.2g}"
        return f"Episodes({len(self)} episodes, {score}{ended}{collapses})"

    def _repr_html_(self) -> str:
        """For notebooks: the score, and where the time was spent."""
        shares = zip(self.state_names, self.share_of_time, strict=True)
        rows = ((name, f"{share:.3f}") for name, share in shares)
        return html.page(
            repr(self),
            html.heading(
                f"{int(self.collapses.sum())} observations were impossible under the planner's model"
            ),
            html.table(rows, ["true state", "share of time"]),
        )

    def __len__(self) -> int:
        return len(self.rewards)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """One row per episode, as plain numbers."""
        for i in range(len(self)):
            yield {
                "episode": i,
                "reward": float(self.rewards[i]),
                "collapses": int(self.collapses[i]),
                "length": int(self.lengths[i]),
                "ended": bool(self.ended[i]),
                "occupancy": dict(zip(self.state_names, self.occupancy[i].tolist(), strict=True)),
            }

    @property
    @own_errstate
    def mean(self) -> float:
        unit = self._unit
        return float((self.rewards / unit).mean() * unit)

    @property
    @own_errstate
    def standard_deviation(self) -> float:
        """Of a single episode; 0 for one episode."""
        unit = self._unit
        return float((self.rewards / unit).std(ddof=1) * unit) if len(self) > 1 else 0.0

    @property
    def _unit(self) -> float:
        """A power of two about as large as the rewards: sums of the largest numbers there are, and of their squares,
        would be infinite; division by it is exact."""
        _, exponent = np.frexp(np.abs(self.rewards).max(initial=0.0))
        return float(np.ldexp(1.0, int(exponent) - 1))

    @property
    @own_errstate
    def standard_error(self) -> float:
        """Of the mean."""
        return float(self.standard_deviation / np.sqrt(len(self)))

    @property
    @own_errstate
    def share_of_time(self) -> Floats:
        """Share of all steps spent in every true state, shape (states,); empty where these are hidden."""
        result: Floats = self.occupancy.sum(axis=0) / max(self.occupancy.sum(), 1)
        return result


@own_errstate
def run_episodes(
    truth: POMDP | Any,
    planner: Planner,
    *,
    episodes: int,
    steps: int,
    reward: Reward | None = None,
    rng: RandomSource = None,
    on_collapse: str = "reset",
    untried: Untried = "exclude",
    action_map: Mapper | None = None,
    observation_map: Mapper | None = None,
) -> Episodes:
    """Let ``planner`` act in ``truth``: a POMDP, or an environment in the manner of Gymnasium.

    The planner is reset before every episode, sees only what the true system shows, and is judged by
    ``reward`` on the true system: its states, its symbols. What the planner itself pursues does not matter
    here. An episode is over when the true system ends it (``truth.terminal``), or after ``steps`` steps.

    Parameters
    ----------
    truth : POMDP or environment
        An environment is anything with ``reset(seed=...)`` and ``step(action)`` that return what Gymnasium's do. It
        keeps the score itself, and its states stay hidden: ``occupancy`` is empty. The planner needs a ``model``.
    planner : Planner
        `POUCT`, `ExactPlanner` or anything with ``reset()``, ``action()`` and ``observe(action,
        observation)``; see `Planner`.
    episodes, steps : int
        Number of episodes, and the most steps of one.
    reward : Reward, optional
        By default the rewards of the truth itself.
    rng : int or numpy.random.Generator, optional
        Chances of the true system only; the planner has its own.
    on_collapse : "reset" or "raise"
        What to do if the planner raises `BeliefCollapseError`: count it and reset the planner, or pass it
        on. `POUCT` and `ExactPlanner` raise it only if told so; otherwise they go on by themselves, and what they held
        impossible is counted in the result, without a warning.
    untried : "exclude" or "allow"
        If the truth is itself a learned model: whether to refuse actions that its log never tried.
    action_map, observation_map : function or mapping, optional
        Of an environment: from the name of an action to what ``step`` takes, and from what it shows to the name of an
        observation. By default names that are numbers stand for these numbers, other actions for their place among the
        model's, and observations go by their text if the model knows it, else by their number.

    Examples
    --------
    >>> import unlatch
    >>> tiger = unlatch.domains.tiger()
    >>> played = unlatch.run_episodes(tiger, unlatch.ExactPlanner(tiger, horizon=10), episodes=200, steps=10, rng=0)
    >>> round(played.mean, 1), round(played.standard_error, 1)
    (8.2, 2.0)
    """
    episodes = whole_number("episodes", episodes, least=1)
    steps = whole_number("steps", steps, least=1)
    if on_collapse not in ("reset", "raise"):
        raise UsageError(f"on_collapse must be 'reset' or 'raise', got {on_collapse!r}")
    if not isinstance(truth, POMDP) and not is_environment(truth):
        raise UsageError(
            f"the true system must be a POMDP, or an environment with reset and step, got {type(truth).__name__}"
        )
    if untried not in get_args(Untried):
        raise UsageError(f"untried must be 'exclude' or 'allow', got {untried!r}")
    if not isinstance(truth, POMDP):
        if reward is not None:
            raise UsageError(
                "an environment keeps its own score: leave the reward out, or wrap the environment"
            )
        return _in_environment(truth, planner, episodes, steps, rng, action_map, observation_map, on_collapse)
    if action_map is not None or observation_map is not None:
        raise UsageError(
            "a POMDP's symbols go by their names: action_map and observation_map are for environments"
        )
    require_memory(
        8 * episodes * (truth.n_states + 4), f"the scores of {episodes} episodes", "run fewer episodes"
    )
    generator, seed = resolve_rng(rng)
    report("acting", 0, episodes)  # of a large system the tables take a while
    stage = Stage.build(truth, planner, reward, untried)
    if isinstance(planner, POUCT) and _fits_kernel(planner, stage, steps, on_collapse):
        scores = _in_kernel(stage, planner, episodes, steps, generator)
    else:
        scores = _by_calls(stage, planner, episodes, steps, generator, on_collapse)
    return Episodes(
        rewards=frozen(stage.unscaled(scores.totals)),
        occupancy=frozen(scores.occupancy),
        collapses=frozen(scores.collapses),
        lengths=frozen(scores.lengths),
        ended=frozen(scores.ended),
        state_names=truth.state_names,
        seed=seed,
    )


def _in_environment(
    environment: Any,
    planner: Any,
    episodes: int,
    steps: int,
    rng: RandomSource,
    action_map: Mapper | None,
    observation_map: Mapper | None,
    on_collapse: str,
) -> Episodes:
    if not hasattr(getattr(planner, "model", None), "action_names"):
        raise UsageError(
            "to act in an environment, a planner needs the model whose names it speaks: planner.model"
        )
    generator, seed = resolve_rng(rng)
    knows = known_beginning(planner.model) is not None
    played = play_environment(
        environment,
        planner,
        episodes=episodes,
        steps=steps,
        seed=int(generator.integers(2**31)),
        tells=(knows and _takes(planner.reset, "observation"), _takes(planner.observe, "reward")),
        action_map=action_map,
        observation_map=observation_map,
        on_collapse=on_collapse,
    )
    return Episodes(
        rewards=frozen(np.array([one.total for one in played])),
        occupancy=frozen(np.zeros((episodes, 0), dtype=np.int64)),
        collapses=frozen(np.array([one.collapses for one in played], dtype=np.int64)),
        lengths=frozen(np.array([one.length for one in played], dtype=np.int64)),
        ended=frozen(np.array([one.ended for one in played], dtype=bool)),
        state_names=(),
        seed=seed,
    )


class _Scores(NamedTuple):
    """What `POUCT.play` returns: a row per episode."""

    totals: Floats
    occupancy: Ints
    collapses: Ints
    lengths: Ints
    ended: Flags


@dataclass(frozen=True, eq=False)
class Stage:
    """The true system with its actions in the planner's order and its rewards scaled."""

    truth: POMDP
    action_names: tuple[str, ...]
    events: Events
    told: tuple[
        tuple[str, float | None], ...
    ]  # observation and reward of every event, as the planner is told of it
    first: (
        Floats  # (states, first observations), cumulative; empty if nothing is shown before the first action
    )
    tells_first: bool
    tells_rewards: bool
    order: tuple[int, ...]  # of the planner's actions among those of the truth
    shown: Floats  # (actions, states, events), cumulative
    symbol_rewards: Floats
    state_rewards: Floats
    scale: float
    refused: frozenset[str]

    @classmethod
    def build(cls, truth: POMDP, planner: Planner, reward: Reward | None, untried: Untried) -> Stage:
        events = events_of(truth)
        resolved = (Reward.learned(truth) if reward is None else reward).resolve(truth)
        model = getattr(planner, "model", truth)
        order = [symbol_code("action", name, truth.action_names) for name in model.action_names]
        refused = frozenset(truth.untried_actions if untried == "exclude" else ())
        for name in getattr(planner, "actions", ()):  # known beforehand: say so before acting
            _refuse_untried(name, refused)
        first = truth.first_observations
        knows = not isinstance(model, POMDP | PartitionModel | PSR) or known_beginning(model) is not None
        return cls(
            truth=truth,
            action_names=model.action_names,
            events=events,
            told=_told(truth, events, model.observation_names),
            first=np.empty((truth.n_states, 0)) if first is None else np.cumsum(first, axis=1),
            tells_first=first is not None and knows and _takes(planner.reset, "observation"),
            tells_rewards=events.paid is not None and _takes(planner.observe, "reward"),
            order=tuple(order),
            shown=np.cumsum(events.chances()[order], axis=2),
            symbol_rewards=events.payments(resolved)[order] / resolved.scale,
            state_rewards=resolved.states[order] / resolved.scale,
            scale=resolved.scale,
            refused=refused,
        )

    @cached_property
    def following(self) -> Floats:
        """Next states, cumulative, shape (actions, events, states, states): for whole episodes in a kernel."""
        require_memory(16 * self.events.updates.size, "the tables of the true system", "act in a smaller one")
        following = self.events.updates[list(self.order)]
        return np.cumsum(following, axis=3, out=following)

    def reached(self, action: int, event: int, state: int) -> Floats:
        """One row of it."""
        return np.cumsum(self.events.reached(self.order[action], event, state))

    def unscaled(self, totals: Floats) -> Floats:
        largest = np.finfo(np.float64).max
        with np.errstate(over="ignore"):
            result: Floats = np.clip(totals * self.scale, -largest, largest)
        return result


def _told(truth: POMDP, events: Events, known: tuple[str, ...]) -> tuple[tuple[str, float | None], ...]:
    """The observation and the reward of every event of ``truth``. A symbol that is a pair goes by the observation alone
    where the planner's model does not know the pair."""
    plain = plain_observations(truth.observation_names, truth.symbol_rewards)
    told: list[tuple[str, float | None]] = []
    for event, symbol in enumerate(events.observations.tolist()):
        name = truth.observation_names[symbol]
        reward = None if events.paid is None else float(events.paid[event])
        told.append((name if name in known or plain[symbol] not in known else plain[symbol], reward))
    return tuple(told)


def _takes(method: Callable[..., object], parameter: str) -> bool:
    """Whether a planner's method can be told of something."""
    try:
        parameters = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):  # something callable that does not tell
        return False
    return any(each.name == parameter or each.kind is each.VAR_KEYWORD for each in parameters)


def _fits_kernel(planner: POUCT, stage: Stage, steps: int, on_collapse: str) -> bool:
    """Whole episodes run in the kernel if they are short, have no clock, never need to raise, and every event of the
    truth is one event of the planner's model."""
    raises = planner.on_collapse == "raise" and on_collapse == "raise"
    if planner.time_limit is not None or raises or planner.calls_per_episode(steps) > 1:
        return False
    return all(len(codes) <= 1 for told in stage.told for codes in planner.event_codes(*told))


def _in_kernel(
    stage: Stage, planner: POUCT, episodes: int, steps: int, generator: np.random.Generator
) -> _Scores:
    """Episodes in batches whose size follows the measured speed."""
    from unlatch.kernels.treesearch import World

    beginnings, possible = planner.beginnings(stage.truth.first_observation_names)
    codes = [planner.event_codes(*told) for told in stage.told]
    going_on, ended = (
        np.array([int(kinds[kind][0]) if len(kinds[kind]) else -1 for kinds in codes], dtype=np.int64)
        for kind in (0, 1)
    )
    world = World(
        starting=np.cumsum(stage.truth.initial),
        first=stage.first,
        beginnings=beginnings,
        possible=possible,
        shown=stage.shown,
        following=stage.following,
        symbol_rewards=stage.symbol_rewards,
        state_rewards=stage.state_rewards,
        ends=stage.events.ended,
        going_on=going_on,
        ended=ended,
    )
    width = 2 * steps + 1 + (stage.first.shape[1] > 0)
    parts = []
    done, batch = 0, 1
    while done < episodes:
        begun = time.perf_counter()
        parts.append(planner.play(world, generator.random((batch, width))))
        done += batch
        elapsed = max(time.perf_counter() - begun, 1e-6)
        report("acting", done, episodes)
        batch = max(1, min(4 * batch, int(batch * _SECONDS_PER_CALL / elapsed), episodes - done))
    return _Scores(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _by_calls(
    stage: Stage,
    planner: Planner,
    episodes: int,
    steps: int,
    generator: np.random.Generator,
    on_collapse: str,
) -> _Scores:
    """Episodes through the planner's protocol."""
    collapses, lengths = np.zeros((2, episodes), dtype=np.int64)
    scores = _Scores(
        totals=np.zeros(episodes),
        occupancy=np.zeros((episodes, stage.truth.n_states), dtype=np.int64),
        collapses=collapses,
        lengths=lengths,
        ended=np.zeros(episodes, dtype=bool),
    )
    for episode in range(episodes):
        before = getattr(planner, "collapses", 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BeliefCollapseWarning)  # the result counts them
            caught = _act(stage, planner, _Chances(generator, steps), on_collapse, scores, episode)
        counted = getattr(planner, "collapses", 0) - before
        collapses[episode] = max(caught, counted)
        report("acting", episode + 1, episodes)
    planner.reset()
    return scores


class _Chances:
    """The numbers that an episode is drawn with, in the order in which `play` has them: its start, its first
    observation if there is one, then observation and next state of every step. Those of a long episode are not held at
    once; those of steps that an ending leaves out are drawn nevertheless, so that the next episode does not depend on
    when this one ends."""

    def __init__(self, generator: np.random.Generator, steps: int) -> None:
        self._generator, self._left = generator, steps

    def single(self) -> float:
        return float(self._generator.random())

    def of_steps(self) -> Iterator[Sequence[float]]:
        while self._left:
            drawn = min(_STEPS_DRAWN, self._left)
            self._left -= drawn
            yield from self._generator.random((drawn, 2)).tolist()

    def finish(self) -> None:
        while self._left:
            drawn = min(_STEPS_DRAWN, self._left)
            self._left -= drawn
            self._generator.random((drawn, 2))


def _act(
    stage: Stage, planner: Planner, chances: _Chances, on_collapse: str, scores: _Scores, episode: int
) -> int:
    """One episode, whose score is added to its row; returns the collapses caught."""
    from unlatch.kernels.treesearch import draw_cumulative

    truth = stage.truth
    caught = 0
    state = draw_cumulative(np.cumsum(truth.initial), chances.single())
    caught += _begin(stage, planner, state, chances, on_collapse)
    for for_observation, for_state in chances.of_steps():
        action = symbol_code("action", planner.action(), stage.action_names)
        _refuse_untried(stage.action_names[action], stage.refused)
        event = draw_cumulative(stage.shown[action, state], for_observation)
        scores.occupancy[episode, state] += 1
        scores.lengths[episode] += 1
        scores.totals[episode] += stage.symbol_rewards[action, event] + stage.state_rewards[action, state]
        state = draw_cumulative(stage.reached(action, event, state), for_state)
        observation, reward = stage.told[event]
        try:
            if stage.tells_rewards:
                planner.observe(stage.action_names[action], observation, reward=reward)
            else:
                planner.observe(stage.action_names[action], observation)
        except BeliefCollapseError:
            if on_collapse == "raise":
                raise
            caught += 1
            planner.reset()
        if stage.events.ended[event]:
            scores.ended[episode] = True
            break
    chances.finish()
    return caught


def _begin(stage: Stage, planner: Planner, state: int, chances: _Chances, on_collapse: str) -> int:
    """Reset the planner, with the first observation if there is one; returns the collapses caught."""
    from unlatch.kernels.treesearch import draw_cumulative

    if not stage.first.shape[1]:
        planner.reset()
        return 0
    first = draw_cumulative(stage.first[state], chances.single())
    if not stage.tells_first:
        planner.reset()
        return 0
    try:
        planner.reset(stage.truth.first_observation_names[first])
    except BeliefCollapseError:
        if on_collapse == "raise":
            raise
        planner.reset()
        return 1
    return 0


def _refuse_untried(action: str, refused: frozenset[str]) -> None:
    if action in refused:
        raise UsageError(
            f"the system to act in was learned from a log that never tried action {action!r}, so that what it does is "
            "not known; take it from the planner's actions, or run with untried='allow'"
        )
