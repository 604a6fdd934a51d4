"""What a log holds, as data: how long, which symbols how often, how episodes end, how actions were chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc

from unlatch.arrays import Floats, Ints, own_errstate
from unlatch.core.arguments import checked_log
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.trajectory import Trajectory
from unlatch.errors import DataError
from unlatch.learn.examine.log import SIGNIFICANT, examine

__all__ = ["LogSummary", "SymbolCount", "summary_of"]

RARE = 100
"""Occurrences below which a symbol's numbers are little more than noise."""

_SPREAD = 50
"""Occurrences a symbol, on average, below which an alphabet is suspected to be a binned quantity or an identifier."""
_LARGE = 20
"""Symbols from which on an alphabet is suspected at all."""
_LOOKED_AT = 1 << 20
_STRATA = 32
"""Observations before, the most frequent, among which the test is made."""

_NO_TRACE = 0.01
"""p-value above which nothing is seen of a dependence."""

_EXPECTED = 5.0
"""Least expected count of a cell that is tested."""

_TELLING = {
    "done": "terminated",
    "terminal": "terminated",
    "is_terminal": "terminated",
    "timeout": "truncated",
    "timeouts": "truncated",
    "env": "environment",
    "env_id": "environment",
    "episode_id": "episode",
    "ep": "episode",
    "t": "step",
    "timestep": "step",
    "rewards": "reward",
    "prob": "probability",
    "propensity": "probability",
}
"""Names of columns that were not read, but may be what others call a column that is."""

_ANEW = frozenset(
    {"reset", "restart", "start", "begin", "init", "done", "end", "terminal", "terminated", "game over"}
)
"""Names of symbols that may be where a world starts anew."""


@dataclass(frozen=True)
class SymbolCount:
    """A symbol and how often it occurs.

    Examples
    --------
    >>> import unlatch
    >>> unlatch.inspect_log(unlatch.Trajectory.from_symbols(["a", "b", "a"], ["x", "x", "x"])).actions[0]
    SymbolCount(name='a', count=2)
    """

    name: str
    count: int


@dataclass(frozen=True)
class LogSummary:
    """What `inspect_log` found.

    Attributes
    ----------
    steps, episodes : int
    shortest, longest : int
        Steps of the shortest and the longest episode.
    median : float
        Of the steps of an episode.
    endings : int or None
        Episodes that ended for good; None if the log does not tell.
    actions, observations, first_observations : tuple of SymbolCount
        By frequency; the last is empty if the log has none.
    rare : tuple of str
        Actions and observations that occur fewer than 100 times, spelled ``action left`` and ``observation dark``.
    reward_range : (float, float, int) or None
        Lowest, highest, and how many different ones.
    has_probabilities : bool
    suspicious : tuple of str
        Sentences about columns that do not look like symbols, or were not read though their names are telling.
    uniform : float
        p-value of the hypothesis that actions are drawn independently and uniformly, by their counts.
    same_row, next_row : float
        p-values of the hypotheses that an observation, and the one in the row after it, do not depend on the
        action of the row, if actions were drawn independently of all that came before.
    diagnostics : Diagnostics
        What was noticed while the log was read, and what `examine` says about it.

    Examples
    --------
    >>> import unlatch
    >>> log = unlatch.Trajectory.from_symbols(["a", "b", "a"], ["x", "x", "y"], rewards=[0, 1, 1])
    >>> summary = unlatch.inspect_log(log)
    >>> summary.steps, summary.longest, summary.reward_range, summary.endings
    (3, 3, (0.0, 1.0, 2), None)
    """

    steps: int
    episodes: int
    shortest: int
    median: float
    longest: int
    endings: int | None
    actions: tuple[SymbolCount, ...]
    observations: tuple[SymbolCount, ...]
    first_observations: tuple[SymbolCount, ...]
    rare: tuple[str, ...]
    reward_range: tuple[float, float, int] | None
    has_probabilities: bool
    suspicious: tuple[str, ...]
    uniform: float
    same_row: float
    next_row: float
    diagnostics: Diagnostics

    @property
    def is_blind(self) -> bool:
        """Whether nothing speaks against actions that do not depend on observations."""
        return "actions_depend_on_observations" not in self.diagnostics

    @property
    def is_uniform(self) -> bool:
        """Whether nothing speaks against actions that are equally likely."""
        return self.uniform > SIGNIFICANT

    @property
    def acts_in_the_next_row(self) -> bool:
        """Whether what is observed depends on the action of the row before, but shows no trace of that of its own
        row: then it belongs to the state that the action left, or rows hold what was observed before their action."""
        return self.is_blind and self.same_row > _NO_TRACE and self.next_row <= SIGNIFICANT


@own_errstate
def summary_of(log: Trajectory) -> LogSummary:
    """What a log holds, and what is peculiar about it; what was noticed while reading it is part of that."""
    log = checked_log(log)
    if len(log) == 0:
        raise DataError("a log of 0 steps holds nothing")
    lengths = log.episode_ends - log.episode_starts
    actions = _counted(log.actions, log.action_names)
    observations = _counted(log.observations, log.observation_names)
    same_row, next_row = _dependence_on_actions(log)
    return LogSummary(
        steps=len(log),
        episodes=log.n_episodes,
        shortest=int(lengths.min()),
        median=float(np.median(lengths)),
        longest=int(lengths.max()),
        endings=None if log.terminated is None else int(log.terminated.sum()),
        actions=actions,
        observations=observations,
        first_observations=()
        if log.first_observations is None
        else _counted(log.first_observations, log.first_observation_names),
        rare=(*_rare("action", actions), *_rare("observation", observations)),
        reward_range=None
        if log.rewards is None
        else (float(log.rewards.min()), float(log.rewards.max()), len(np.unique(log.rewards))),
        has_probabilities=log.probabilities is not None,
        suspicious=tuple(_suspicious(log)),
        uniform=_uniformity(log.actions, len(log.action_names)),
        same_row=same_row,
        next_row=next_row,
        diagnostics=log.diagnostics + examine(log),
    )


def _counted(codes: Ints, names: Sequence[str]) -> tuple[SymbolCount, ...]:
    counts = np.bincount(codes, minlength=len(names))
    return tuple(SymbolCount(names[i], int(counts[i])) for i in np.argsort(-counts, kind="stable").tolist())


def _rare(kind: str, symbols: Sequence[SymbolCount]) -> list[str]:
    return [f"{kind} {symbol.name}" for symbol in symbols if symbol.count < RARE]


# --- columns that may not be what they are taken for ----------------------------------------------------------


def _suspicious(log: Trajectory) -> list[str]:
    found = []
    for kind, codes, names in (
        ("action", log.actions, log.action_names),
        ("observation", log.observations, log.observation_names),
    ):
        used = len(np.unique(codes))
        if used == 1:
            found.append(f"the {kind} is always the same")
        elif used >= _LARGE and _only_rises(codes, names):
            found.append(f"the {kind} only rises, as a counter or a clock does: it is no symbol")
        elif used >= _LARGE and used > len(log) / _SPREAD:
            found.append(
                f"the {kind} has {used} different values in {len(log)} steps: if it is a measured quantity or an "
                "identifier, bin it or leave it out"
            )
        if log.n_episodes == 1:
            found += _starting_anew(kind, codes, names)
    if "ignored_columns" in log.diagnostics:
        for column in log.diagnostics["ignored_columns"].details["columns"]:
            role = _TELLING.get(str(column).lower())
            if role is not None:
                found.append(
                    f"the column {column!r} was not read; if it is the {role}, say {role}={column!r} (--{role})"
                )
    return found


def _starting_anew(kind: str, codes: Ints, names: Sequence[str]) -> list[str]:
    """Symbols of a log of one episode that sound as if there were more of them."""
    counts = np.bincount(codes, minlength=len(names)).tolist()
    return [
        f"the {kind} {name!r} stands {count} times in a single episode: if the world starts anew there, say where "
        "episodes begin with episode=... or end with terminated=... (--episode, --terminated)"
        for name, count in zip(names, counts, strict=True)
        if count > 1 and name.lower().strip("<>[]_ ") in _ANEW
    ]


def _only_rises(codes: Ints, names: Sequence[str]) -> bool:
    """Whether the symbols, which are in sorted order if they are whole numbers, never fall."""
    whole = all(name.removeprefix("-").isdigit() for name in names)
    return whole and bool((np.diff(codes) >= 0).all())


# --- how actions were chosen, and where they show ---------------------------------------------------------------


def _uniformity(actions: Ints, size: int) -> float:
    counts = np.bincount(actions, minlength=size)
    expected = len(actions) / size
    if size < 2 or expected < _EXPECTED:
        return 1.0
    return float(chdtrc(size - 1, float(((counts - expected) ** 2 / expected).sum())))


def _dependence_on_actions(log: Trajectory) -> tuple[float, float]:
    """Of the observation in the same row, and in the next, among steps with the same observation before it."""
    actions, observations = log.actions[:_LOOKED_AT], log.observations[:_LOOKED_AT]
    goes_on = np.ones(len(actions), dtype=bool)
    goes_on[log.episode_starts[log.episode_starts < len(actions)]] = False
    later = np.flatnonzero(goes_on)
    sizes = len(log.action_names), len(log.observation_names)
    before = observations[later - 1]
    return (
        _independence(actions[later], observations[later], before, sizes),
        _independence(actions[later - 1], observations[later], before, sizes),
    )


def _independence(actions: Ints, observations: Ints, strata: Ints, sizes: tuple[int, int]) -> float:
    """p-value of Pearson's test in every stratum, taken together; what is too rare for it is left out."""
    statistic, degrees = 0.0, 0
    often = np.argsort(-np.bincount(strata, minlength=1), kind="stable")[:_STRATA]
    for stratum in often.tolist():
        here = strata == stratum
        codes = actions[here] * sizes[1] + observations[here]
        table = np.bincount(codes, minlength=sizes[0] * sizes[1]).reshape(sizes).astype(np.float64)
        part, free = _pearson(table)
        statistic, degrees = statistic + part, degrees + free
    return float(chdtrc(degrees, statistic)) if degrees else 1.0


def _pearson(table: Floats) -> tuple[float, int]:
    """Pearson's statistic and its degrees of freedom."""
    least = np.sqrt(_EXPECTED * table.sum())
    table = table[table.sum(axis=1) >= least][:, table.sum(axis=0) >= least]
    if min(table.shape) < 2 or not table.any():
        return 0.0, 0
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    used = expected > 0
    statistic = float(((table - expected)[used] ** 2 / expected[used]).sum())
    return statistic, (table.shape[0] - 1) * (table.shape[1] - 1)
