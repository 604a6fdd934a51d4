"""What to log next: how often to take every action so that the numbers of a model become sure soonest, and how long.

The information of a step is measured on logs that are simulated from the model, with the same chances for all
frequencies that are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from unlatch import linalg
from unlatch.arrays import Flags, Floats, own_errstate
from unlatch.core.arguments import whole_number
from unlatch.core.budget import checkpoint
from unlatch.core.checks import frozen
from unlatch.core.intervals import Entry
from unlatch.core.pomdp import POMDP
from unlatch.core.progress import report
from unlatch.core.random import RandomSource, resolve_rng
from unlatch.errors import UsageError
from unlatch.learn.intervals.boundary import greatest_zeros, zero_slopes
from unlatch.learn.intervals.fit import Fit
from unlatch.learn.likelihood.information import (
    beforehand,
    numbered_entries,
    outer_products,
    repeated_sums,
)
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import Parameters, parameters_of
from unlatch.learn.likelihood.scores import Coordinates
from unlatch.simulation import simulate

if TYPE_CHECKING:
    from unlatch.learn.intervals.uncertainty import Uncertainty

__all__ = ["Design", "Needs", "design", "needs"]

_STEPS = 50_000
"""Of a simulated log on which the information of a step is measured: standard errors to a percent or so, but for rows
that are hardly ever visited."""

_BLOCKS, _LONGEST_BLOCK = 8, 20
"""Blocks for every number into which such a log is cut, and events in a block at most."""

_LEAST_SHARE = 0.1
"""Of uniform exploration in every design: a model that is not quite right must have a chance to show it."""

_WORTH_IT = 1.05
"""Steps of uniform exploration that one step must be worth, on every one of some further logs, for a design to be
taken: rows that are hardly ever visited make one log differ from the next."""

_FURTHER_LOGS = 2

_TRIES, _MOST_TRIES = 40, 200
"""Frequencies that are tried, at most: the same for all observations, and by the last one, where it is 25 for every
number that is chosen."""

_MOST_STEPS = 10**15
"""Beyond, it is no number of steps."""


@dataclass(frozen=True, eq=False)
class Design:
    """How often to take every action.

    Attributes
    ----------
    action_probabilities : array, shape (actions,) or (observations, actions)
        What `simulate` takes as ``policy``: the same at every step, or by the last observation; uniform where nothing
        better was found.
    action_names, observation_names : tuple of str
    worth : float
        Steps of uniform exploration that one step is worth at least, on logs simulated from the model; 1 for uniform.

    Examples
    --------
    >>> from unlatch import design, domains
    >>> found = design(domains.noisy_hallway(), steps=5_000, rng=0)
    >>> found.worth >= 1, found.action_probabilities.shape
    (True, (4,))
    """

    action_probabilities: Floats
    action_names: tuple[str, ...]
    observation_names: tuple[str, ...]
    worth: float

    def __repr__(self) -> str:
        return f"Design({self}; a step is worth {self.worth:.2f} of uniform exploration)"

    def __str__(self) -> str:
        if self.action_probabilities.ndim == 1:
            return self._listing(self.action_probabilities)
        rows = zip(self.observation_names, self.action_probabilities, strict=True)
        return "; ".join(f"after {name}: {self._listing(row)}" for name, row in rows)

    def _listing(self, shares: Floats) -> str:
        return ", ".join(f"{name} {share:.2f}" for name, share in zip(self.action_names, shares, strict=True))


@dataclass(frozen=True, eq=False)
class Needs:
    """What it takes to bring the widest interval under a given width.

    Attributes
    ----------
    width, level : float
        What was asked for.
    widest : Entry or None
        The number whose interval is the widest now; None if none is about the noise of the log.
    now : float
        Its width.
    steps : int or None
        More steps with ``action_probabilities``, predicted; zero if it is narrow enough, None if no number of steps
        is enough.
    steps_as_before : int or None
        The same with actions as often as in the log.
    action_probabilities : array, shape (actions,)
        What `simulate` takes as ``policy``.
    action_names : tuple of str

    Examples
    --------
    >>> from unlatch import domains, simulate, uncertainty
    >>> sure = uncertainty(domains.tiger(), simulate(domains.tiger(), 5_000, rng=0))
    >>> print(sure.needs(0.5))
    every interval about the noise of the log is at most 0.5 wide at 90%
    """

    width: float
    level: float
    widest: Entry | None
    now: float
    steps: int | None
    steps_as_before: int | None
    action_probabilities: Floats
    action_names: tuple[str, ...]

    @property
    def action_steps(self) -> dict[str, int]:
        """How many of the steps each action should get; empty if no number of steps is enough."""
        if self.steps is None:
            return {}
        shares = zip(self.action_names, self.action_probabilities, strict=True)
        return {name: round(self.steps * share) for name, share in shares}

    def __repr__(self) -> str:
        return f"Needs({self})"

    def __str__(self) -> str:
        if self.steps == 0:
            return f"every interval about the noise of the log is at most {self.width:g} wide at {self.level:.0%}"
        if self.steps is None:
            return f"no number of steps is predicted to bring every interval under {self.width:g} at {self.level:.0%}"
        shares = ", ".join(f"{count} of {name}" for name, count in self.action_steps.items())
        return (
            f"the widest interval is {self.now:.3g} wide at {self.level:.0%}; under {self.width:g} after about "
            f"{self.steps} more steps: {shares}"
        )


@own_errstate
@linalg.on_one_thread
def design(
    pomdp: POMDP,
    *,
    criterion: Literal["mean", "widest"] = "mean",
    by: Literal["action", "last observation"] = "action",
    episode_steps: int | None = None,
    steps: int = _STEPS,
    rng: RandomSource = None,
) -> Design:
    """The frequencies of actions with which a log says the most about the numbers of a model.

    Parameters
    ----------
    pomdp : POMDP
        What is thought to be true, such as a model that was learned from a first log. Its zeros count as known.
    criterion : "mean" or "widest"
        The mean standard error of all numbers, or the largest.
    by : "action" or "last observation"
        Whether an action is as likely at every step, or may depend on what was seen last, where that is worth more. The
        search takes up to five times as long.
    episode_steps : int, optional
        Steps after which an episode is cut, and a new one begins; by default it is never cut.
    steps : int
        Of the simulated logs on which frequencies are compared.
    rng : int or numpy.random.Generator, optional

    Examples
    --------
    >>> from unlatch import design, domains, simulate
    >>> found = design(domains.tiger(), steps=5_000, rng=0)
    >>> log = simulate(domains.tiger(), 1_000, policy=found.action_probabilities, rng=1)
    """
    if not isinstance(pomdp, POMDP):
        raise UsageError(f"expected a POMDP, got {type(pomdp).__name__}")
    if criterion not in ("mean", "widest"):
        raise UsageError(f"criterion must be 'mean' or 'widest', got {criterion!r:.40}")
    if by not in ("action", "last observation"):
        raise UsageError(f"by must be 'action' or 'last observation', got {by!r:.40}")
    length = whole_number("steps", steps, least=100)
    cut = None if episode_steps is None else whole_number("episode_steps", episode_steps, least=1)
    generator, _ = resolve_rng(rng)
    world = _World.of(pomdp, cut, length, generator)
    over = np.max if criterion == "widest" else np.mean

    def error(policy: Floats, seed: int) -> float:
        return float(over(np.sqrt(world.variances(world.information(policy, seed)))))

    def designed(policy: Floats, worth: float) -> Design:
        return Design(frozen(policy), pomdp.action_names, pomdp.observation_names, worth)

    uniform = world.uniform
    if not len(world.coordinates) or len(world.tried) < 2:
        return designed(uniform, 1.0)
    tried = [_least(lambda policy: error(policy, world.seeds[0]), world)]
    if by == "last observation":
        tried.append(_least(lambda policy: error(policy, world.seeds[0]), world, by_observation=tried[0]))
    plain = {seed: error(uniform, seed) for seed in world.seeds[1:]}
    worths = [
        min((plain[seed] / error(policy, seed)) ** 2 for seed in plain)  # errors fall with the square root
        for policy in tried
    ]
    best = int(np.argmax(worths))
    return designed(tried[best], float(worths[best])) if worths[best] >= _WORTH_IT else designed(uniform, 1.0)


@own_errstate
@linalg.on_one_thread
def needs(sure: Uncertainty, width: float, level: float, rng: RandomSource) -> Needs:
    """See `Uncertainty.needs`."""
    fit, intervals = sure.fit, sure.intervals(level)
    widest = intervals.widest
    now = 0.0 if widest is None else intervals.width(widest)
    before = fit.policy

    def answer(steps: int | None, as_before: int | None, policy: Floats) -> Needs:
        names = fit.pomdp.action_names
        return Needs(width, level, widest, now, steps, as_before, frozen(policy), names)

    if now <= width:
        return answer(0, 0, before)
    generator, _ = resolve_rng(rng)
    world = _World.of(fit.pomdp, fit.longest_episode, _STEPS, generator, fit)
    outlook = _Outlook(sure, world, level)
    as_before = outlook.steps_until(width, before, world.seeds[0])
    if as_before is None or len(world.tried) < 2:
        return answer(as_before, as_before, before)
    best = _least(lambda policy: outlook.widest(as_before, policy, world.seeds[0]), world, before)
    chosen = [
        (steps, policy)
        for policy in (before, best)
        if (steps := outlook.steps_until(width, policy, world.seeds[1])) is not None
    ]
    if not chosen:
        return answer(as_before, as_before, before)
    steps, policy = min(chosen, key=lambda pair: pair[0])
    return answer(steps, as_before, policy)


@dataclass(frozen=True, eq=False)
class _World:
    """A model to simulate, and the numbers that its logs inform about."""

    pomdp: POMDP
    parameters: Parameters
    coordinates: Coordinates
    closed: list[Flags] | None
    episode_steps: int | None
    steps: int
    tried: list[int]
    seeds: tuple[int, ...]

    @classmethod
    def of(
        cls,
        pomdp: POMDP,
        episode_steps: int | None,
        steps: int,
        rng: np.random.Generator,
        fit: Fit | None = None,
    ) -> _World:
        numbers = parameters_of(pomdp) if fit is None else fit.parameters
        tried = [a for a, name in enumerate(pomdp.action_names) if name not in pomdp.untried_actions]
        told = bool(pomdp.terminal) or episode_steps is not None
        coordinates, _ = numbered_entries(
            numbers, _free(numbers, tried, told) if fit is None else fit.free, by_state=False
        )
        seeds = tuple(int(seed) for seed in rng.integers(2**62, size=1 + _FURTHER_LOGS))
        closed = None if fit is None else fit.closed
        return cls(pomdp, numbers, coordinates, closed, episode_steps, steps, tried, seeds)

    @property
    def uniform(self) -> Floats:
        policy = np.zeros(self.pomdp.n_actions)
        policy[self.tried] = 1 / len(self.tried)
        return policy

    @cached_property
    def roots(self) -> Floats:
        return self.coordinates.roots(self.parameters)

    @cached_property
    def slope(self) -> Floats:
        """Of the probabilities, by the roots."""
        return 2 * self.roots

    def information(self, policy: Floats, seed: int) -> _Information:
        """Of a step, measured on a simulated log."""
        checkpoint()
        longest = self.steps if self.episode_steps is None else min(self.episode_steps, self.steps)
        log = simulate(self.pomdp, longest, total=self.steps, policy=policy, rng=seed)
        likelihood = Likelihood.of(log, self.pomdp.emission, self.pomdp)
        whole = [slice(0, len(self.coordinates))]
        length = int(np.clip(self.steps // (_BLOCKS * len(self.coordinates)), 1, _LONGEST_BLOCK))
        (products,) = outer_products(
            self.parameters, likelihood, self.coordinates, whole, "designing", length=length
        )
        visits = likelihood.counts(self.parameters).blocks
        falls = [np.zeros(rows.shape) for rows in self.parameters]
        if self.closed is not None:
            slopes = zero_slopes(self.parameters, self.closed, likelihood)
            falls = [np.maximum(-slope, 0.0) / self.steps for slope in slopes]
        return _Information(
            products / self.steps, [uses.sum(axis=-1, keepdims=True) / self.steps for uses in visits], falls
        )

    def variances(self, found: _Information, steps: float | None = None) -> Floats:
        """Of the probabilities, after so many steps; by default as many as were simulated."""
        count = self.steps if steps is None else steps
        visits = self.coordinates.gathered(
            [
                np.broadcast_to(rates, rows.shape) * count
                for rates, rows in zip(found.visits, self.parameters, strict=True)
            ]
        )
        return self.variances_of(found.matrix * count, np.maximum(visits, 1.0))

    def variances_of(self, products: Floats, visits: Floats) -> Floats:
        """From outer products of half the scores."""
        prior = beforehand(self.coordinates.rows, self.roots, visits, np.full(len(self.roots), 0.5))
        covariance = linalg.inverse(products + prior) / 4
        variances = np.empty(len(self.roots))
        for begin, end in pairwise(self.coordinates.rows):
            x = self.roots[begin:end]
            along = np.eye(len(x)) - np.outer(x, x)
            variances[begin:end] = np.diag(along @ covariance[begin:end, begin:end] @ along)
        return np.maximum(variances * self.slope**2, 0.0)


@dataclass(frozen=True, eq=False)
class _Information:
    """Of a step: outer products of half the scores, the visits of every row, and how steeply the log-likelihood falls
    with every number that is zero."""

    matrix: Floats
    visits: list[Floats]
    falls: list[Floats]


def _free(parameters: Parameters, tried: list[int], start_is_told: bool) -> list[Flags]:
    """The positive entries of rows that have several and that a log can inform about."""
    chosen = [rows > 0 for rows in parameters]
    chosen[0] &= start_is_told
    for which, flags in enumerate(chosen):
        if which and flags.ndim == 3 and len(flags) > 1:
            untried = np.ones(len(flags), dtype=bool)
            untried[tried] = False
            flags[untried] = False
        if which == 1:
            flags[:, parameters.terminal] = False
    return [flags & (flags.sum(axis=-1, keepdims=True) > 1) for flags in chosen]


class _Outlook:
    """How wide intervals will be after more steps."""

    def __init__(self, sure: Uncertainty, world: _World, level: float) -> None:
        self._world, self._level, fit = world, level, sure.fit
        self._products = linalg.inverse(4 * _full(sure)) if len(world.coordinates) else np.zeros((0, 0))
        self._visits = [repeated_sums(uses) for uses in fit.counts.blocks]
        self._zeros, self._nats = greatest_zeros(fit, level), -np.log1p(-level)
        self._shares = world.coordinates.gathered(fit.parameters.blocks)
        self._known: dict[tuple[bytes, int], _Information] = {}

    def _information(self, policy: Floats, seed: int) -> _Information:
        key = policy.tobytes(), seed
        if key not in self._known:
            self._known[key] = self._world.information(policy, seed)
        return self._known[key]

    def widest(self, steps: float, policy: Floats, seed: int) -> float:
        """Of all intervals after so many more steps."""
        from unlatch.learn.intervals.uncertainty import share_bounds

        found = self._information(policy, seed)
        widths = [0.0]
        for bound, falls, uses, rates in zip(
            self._zeros, found.falls, self._visits, found.visits, strict=True
        ):
            closed = np.isfinite(bound)
            by_slope = 1 / (1 / np.maximum(bound[closed], 1e-12) + steps * falls[closed] / self._nats)
            # what other numbers could explain as well has no slope at zero: it falls as errors do, by the visits
            before = np.maximum(np.broadcast_to(uses, bound.shape)[closed], 1.0)
            more = steps * np.broadcast_to(rates, bound.shape)[closed]
            later = np.minimum(by_slope, bound[closed] * np.sqrt(before / (before + more)))
            widths.append(float(later.max(initial=0.0)))
        if len(self._world.coordinates):
            visits = self._world.coordinates.gathered(self._visits)
            errors = np.sqrt(
                self._world.variances_of(self._products + found.matrix * steps, np.maximum(visits, 1.0))
            )
            low, high = share_bounds(self._shares, errors, self._level)
            widths.append(float((high - low).max()))
        return max(widths)

    def steps_until(self, width: float, policy: Floats, seed: int) -> int | None:
        """More steps until the widest interval is so narrow; None if there is no such number."""
        low, high = 0.0, 1000.0
        while self.widest(high, policy, seed) > width:
            low, high = high, 4 * high
            if high > _MOST_STEPS:
                return None
        while high - low > 1 + 0.01 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self.widest(middle, policy, seed) > width else (low, middle)
        return int(np.ceil(high))


def _full(sure: Uncertainty) -> Floats:
    """The covariance of the roots with a little in the directions that merely rescale rows, so that it can be inverted:
    as if they had been seen once."""
    roots = sure.roots
    matrix = roots.matrix.copy()
    for begin, end in pairwise(roots.coordinates.rows):
        x = roots.roots[begin:end]
        matrix[begin:end, begin:end] += np.outer(x, x)
    return matrix + 1e-12 * np.eye(len(matrix))


def _least(
    error: Callable[[Floats], float],
    world: _World,
    start: Floats | None = None,
    by_observation: Floats | None = None,
) -> Floats:
    """The frequencies with the least error, by a simplex search over their logarithms.

    One for every action, or a row of them for every observation, beginning with ``by_observation`` for all.
    """
    from scipy.optimize import minimize

    size, tries = len(world.tried), 0
    rows = 1 if by_observation is None else world.pomdp.n_observations
    numbers = rows * (size - 1)
    most = _TRIES if by_observation is None else min(25 * numbers, _MOST_TRIES)

    def policy_at(point: Floats) -> Floats:
        powers = np.hstack([point.reshape(rows, size - 1), np.zeros((rows, 1))])
        weights = np.exp(powers - powers.max(axis=1, keepdims=True))
        policy = np.zeros((rows, world.pomdp.n_actions))
        shares = weights / weights.sum(axis=1, keepdims=True)
        policy[:, world.tried] = (1 - _LEAST_SHARE) * shares + _LEAST_SHARE / size
        return policy[0] if by_observation is None else policy

    def height(point: Floats) -> float:
        nonlocal tries
        tries += 1
        report("designing", min(tries, most), most)
        return float(np.log(max(error(policy_at(point)), 1e-300)))

    first = np.zeros((numbers + 1, numbers))
    first[1:] = np.eye(numbers) * 1.5
    center = start if by_observation is None else by_observation
    if center is not None:
        shares = np.maximum(center[world.tried] - _LEAST_SHARE / size, 0.01)
        first += np.tile(np.log(shares[:-1] / shares[-1]), rows)
    options = {"maxfev": most, "initial_simplex": first, "xatol": 0.02, "fatol": 1e-3}
    found = minimize(height, first[0], method="Nelder-Mead", options=options)
    return policy_at(found.x)
