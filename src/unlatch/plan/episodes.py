"""Act in the true system with a planner that sees only its own model, and keep score."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, get_args

import numpy as np

from unlatch.arrays import Floats, Ints, own_errstate
from unlatch.core import html
from unlatch.core.arguments import whole_number
from unlatch.core.checks import frozen
from unlatch.core.memory import require_memory
from unlatch.core.pomdp import POMDP
from unlatch.core.progress import report
from unlatch.core.random import RandomSource, resolve_rng
from unlatch.core.reward import Reward, Symbol, symbol_code
from unlatch.errors import BeliefCollapseError, UsageError
from unlatch.plan.pouct import POUCT
from unlatch.plan.problem import Untried

__all__ = ["Episodes", "Planner", "run_episodes"]

_STEPS_DRAWN = 4096
"""Steps whose random numbers are drawn at once."""

_SECONDS_PER_CALL = 0.2
"""Aim for the duration of a kernel call, so that Ctrl-C is answered soon."""


class Planner(Protocol):
    """What `run_episodes` asks of a planner.

    ``reset`` begins an episode, ``action`` names the next action, ``observe`` tells what was done and seen.
    Actions are names, or indices into ``planner.model.action_names`` (the truth's, if the planner has no
    ``model``); observations are told by name. An observation that the planner cannot follow raises
    `BeliefCollapseError`; a planner that goes on by itself may count such events in ``collapses``.
    """

    def reset(self) -> None: ...

    def action(self) -> Symbol: ...

    def observe(self, action: Symbol, observation: Symbol) -> None: ...


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
    state_names : tuple of str
    seed : int or None
        The seed of the true system's chances, unless a generator was passed.
    """

    rewards: Floats
    occupancy: Ints
    collapses: Ints
    state_names: tuple[str, ...]
    seed: int | None

    def __repr__(self) -> str:
        return f"Episodes({len(self)} episodes, mean {self.mean:.4g} ± {self.standard_error:.2g})"

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
                "occupancy": dict(zip(self.state_names, self.occupancy[i].tolist(), strict=True)),
            }

    @property
    @own_errstate
    def mean(self) -> float:
        return float(self.rewards.mean())

    @property
    @own_errstate
    def standard_deviation(self) -> float:
        """Of a single episode; 0 for one episode."""
        return float(self.rewards.std(ddof=1)) if len(self) > 1 else 0.0

    @property
    @own_errstate
    def standard_error(self) -> float:
        """Of the mean."""
        return float(self.standard_deviation / np.sqrt(len(self)))

    @property
    @own_errstate
    def share_of_time(self) -> Floats:
        """Share of all steps spent in every true state, shape (states,)."""
        result: Floats = self.occupancy.sum(axis=0) / self.occupancy.sum()
        return result


@own_errstate
def run_episodes(
    truth: POMDP,
    planner: Planner,
    *,
    episodes: int,
    steps: int,
    reward: Reward | None = None,
    rng: RandomSource = None,
    on_collapse: str = "reset",
    untried: Untried = "exclude",
) -> Episodes:
    """Let ``planner`` act in ``truth``.

    The planner is reset before every episode, sees only the names of observations, and is judged by
    ``reward`` on the true system: its states, its symbols. What the planner itself pursues does not matter
    here.

    Parameters
    ----------
    truth : POMDP
    planner : Planner
        `POUCT`, `ExactPlanner` or anything with ``reset()``, ``action()`` and ``observe(action,
        observation)``.
    episodes, steps : int
    reward : Reward, optional
        By default the rewards of the truth's own symbols.
    rng : int or numpy.random.Generator, optional
        Chances of the true system only; the planner has its own.
    on_collapse : "reset" or "raise"
        What to do if the planner raises `BeliefCollapseError`: count it and reset the planner, or pass it
        on. An observation that the planner's model has no name for is such a case.
    untried : "exclude" or "allow"
        If the truth is itself a learned model: whether to refuse actions that its log never tried.
    """
    episodes = whole_number("episodes", episodes, least=1)
    steps = whole_number("steps", steps, least=1)
    if on_collapse not in ("reset", "raise"):
        raise UsageError(f"on_collapse must be 'reset' or 'raise', got {on_collapse!r}")
    if not isinstance(truth, POMDP):
        raise UsageError(f"the true system must be a POMDP, got {type(truth).__name__}")
    if untried not in get_args(Untried):
        raise UsageError(f"untried must be 'exclude' or 'allow', got {untried!r}")
    require_memory(
        8 * episodes * (truth.n_states + 4), f"the scores of {episodes} episodes", "run fewer episodes"
    )
    generator, seed = resolve_rng(rng)
    stage = _Stage.build(truth, planner, reward, untried)
    if isinstance(planner, POUCT) and _fits_kernel(planner, steps, on_collapse):
        totals, occupancy, collapses = _in_kernel(stage, planner, episodes, steps, generator)
    else:
        totals, occupancy, collapses = _by_calls(stage, planner, episodes, steps, generator, on_collapse)
    return Episodes(
        rewards=frozen(stage.unscaled(totals)),
        occupancy=frozen(occupancy),
        collapses=frozen(collapses),
        state_names=truth.state_names,
        seed=seed,
    )


@dataclass(frozen=True, eq=False)
class _Stage:
    """The true system with its actions in the planner's order and its rewards scaled."""

    truth: POMDP
    action_names: tuple[str, ...]
    symbols: Ints
    shown: Floats
    following: Floats
    symbol_rewards: Floats
    state_rewards: Floats
    scale: float
    refused: frozenset[str]

    @classmethod
    def build(cls, truth: POMDP, planner: Planner, reward: Reward | None, untried: Untried) -> _Stage:
        require_memory(16 * truth.updates.size, "the tables of the true system", "act in a smaller one")
        resolved = (Reward.from_symbols(truth) if reward is None else reward).resolve(truth)
        scale = max(float(np.abs(resolved.symbols).max()), float(np.abs(resolved.cells).max())) or 1.0
        model = getattr(planner, "model", truth)
        order = [symbol_code("action", name, truth.action_names) for name in model.action_names]
        codes = {name: code for code, name in enumerate(model.observation_names)}
        refused = frozenset(truth.untried_actions if untried == "exclude" else ())
        for name in getattr(planner, "actions", ()):  # known beforehand: say so before acting
            _refuse_untried(name, refused)
        return cls(
            truth=truth,
            action_names=model.action_names,
            symbols=np.array([codes.get(name, -1) for name in truth.observation_names], dtype=np.int64),
            shown=np.cumsum(truth.updates.sum(axis=3), axis=1).transpose(0, 2, 1)[order].copy(),
            following=np.cumsum(truth.updates, axis=3)[order],
            symbol_rewards=resolved.symbols[order] / scale,
            state_rewards=resolved.states / scale,
            scale=scale,
            refused=refused,
        )

    def unscaled(self, totals: Floats) -> Floats:
        largest = np.finfo(np.float64).max
        with np.errstate(over="ignore"):
            result: Floats = np.clip(totals * self.scale, -largest, largest)
        return result


def _fits_kernel(planner: POUCT, steps: int, on_collapse: str) -> bool:
    """Whole episodes run in the kernel if they are short, have no clock and never need to raise."""
    raises = planner.on_collapse == "raise" and on_collapse == "raise"
    return planner.time_limit is None and not raises and planner.calls_per_episode(steps) <= 1


def _in_kernel(
    stage: _Stage, planner: POUCT, episodes: int, steps: int, generator: np.random.Generator
) -> tuple[Floats, Ints, Ints]:
    """Episodes in batches whose size follows the measured speed."""
    from unlatch.kernels.treesearch import World

    world = World(
        starting=np.cumsum(stage.truth.initial),
        shown=stage.shown,
        following=stage.following,
        symbol_rewards=stage.symbol_rewards,
        state_rewards=stage.state_rewards,
        symbols=stage.symbols,
    )
    parts = []
    done, batch = 0, 1
    while done < episodes:
        begun = time.perf_counter()
        parts.append(planner.play(world, generator.random((batch, 2 * steps + 1))))
        done += batch
        elapsed = max(time.perf_counter() - begun, 1e-6)
        report("acting", done, episodes)
        batch = max(1, min(4 * batch, int(batch * _SECONDS_PER_CALL / elapsed), episodes - done))
    totals, occupancy, collapses = (np.concatenate(column) for column in zip(*parts, strict=True))
    return totals, occupancy, collapses


def _by_calls(
    stage: _Stage,
    planner: Planner,
    episodes: int,
    steps: int,
    generator: np.random.Generator,
    on_collapse: str,
) -> tuple[Floats, Ints, Ints]:
    """Episodes through the planner's protocol."""
    totals = np.zeros(episodes)
    occupancy = np.zeros((episodes, stage.truth.n_states), dtype=np.int64)
    collapses = np.zeros(episodes, dtype=np.int64)
    for episode in range(episodes):
        before = getattr(planner, "collapses", 0)
        chances = _chances(generator, steps)
        caught, totals[episode], occupancy[episode] = _act(stage, planner, chances, on_collapse)
        counted = getattr(planner, "collapses", 0) - before
        collapses[episode] = max(caught, counted)
        report("acting", episode + 1, episodes)
    planner.reset()
    return totals, occupancy, collapses


def _chances(generator: np.random.Generator, steps: int) -> Iterator[Sequence[float]]:
    """The numbers that an episode is drawn with: its start (and nothing), then observation and next state of every
    step; in the order in which `play` has them, without holding those of a long episode at once."""
    yield generator.random(), 0.0
    for begin in range(0, steps, _STEPS_DRAWN):
        yield from generator.random((min(_STEPS_DRAWN, steps - begin), 2)).tolist()


def _act(
    stage: _Stage, planner: Planner, chances: Iterator[Sequence[float]], on_collapse: str
) -> tuple[int, float, Ints]:
    """One episode: collapses caught, sum of rewards, steps in every state."""
    from unlatch.kernels.treesearch import draw_cumulative

    truth = stage.truth
    occupancy = np.zeros(truth.n_states, dtype=np.int64)
    total, caught = 0.0, 0
    planner.reset()
    state = draw_cumulative(np.cumsum(truth.initial), next(chances)[0])
    for for_observation, for_state in chances:
        action = symbol_code("action", planner.action(), stage.action_names)
        _refuse_untried(stage.action_names[action], stage.refused)
        observation = draw_cumulative(stage.shown[action, state], for_observation)
        occupancy[state] += 1
        total += stage.symbol_rewards[action, observation] + stage.state_rewards[state]
        state = draw_cumulative(stage.following[action, observation, state], for_state)
        try:
            planner.observe(stage.action_names[action], truth.observation_names[observation])
        except BeliefCollapseError:
            if on_collapse == "raise":
                raise
            caught += 1
            planner.reset()
    return caught, total, occupancy


def _refuse_untried(action: str, refused: frozenset[str]) -> None:
    if action in refused:
        raise UsageError(
            f"the system to act in was learned from a log that never tried action {action!r}, so that what it does is "
            "not known; take it from the planner's actions, or run with untried='allow'"
        )
