"""The evidence for a dense model, integrated: where the log hardly tells states apart, no parabola fits its likelihood.

From a normal distribution q whose integral is known, a path of distributions q^(1-b) p^b leads to what is to be
integrated, p, the likelihood times the prior. Along it draws are moved by Hamiltonian dynamics, down and up again, and
what they say about neighboring b adds up to the logarithm of the integral. The derivation is in docs/formulas.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, gammaln

from unlatch import linalg
from unlatch.arrays import Floats
from unlatch.core.budget import checkpoint
from unlatch.core.progress import report
from unlatch.errors import NumericalError
from unlatch.learn.likelihood.coordinates import BrokenSticks
from unlatch.learn.likelihood.information import numbered_entries, outer_products
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import Parameters

__all__ = ["Integral", "_Posterior", "can_be_integrated", "integrated", "_between"]

_MOST_COORDINATES = 400
_MOST_WORK = 40_000_000
"""Coordinates, and steps times states squared, up to which a model is integrated: some thousand passes, each of which
then takes less than a tenth of a second."""

_BURN = 21
_DRAWS = 24
"""Moves to get from the maximum to where most of the probability is, and draws that the normal distribution is fitted
to."""

_PER_INFORMATION = 3
"""Moves between two looks at the information of the log, which takes as long as some ten passes."""

_LEAPS = 16
"""Gradients of a move. With 6 of them, and as many more moves, the sums down and up differed by three times as much:
the ways along which the log says little are long."""

_WIDE = 1.5
"""Times the variance that the information says: 1 and 2.5 lead to sums that differ by more."""

_RUNGS = 16
_MOVES = 2
"""Values of b, dense near one, where the draws spread beyond what any normal distribution has; moves at each."""

_FIRST_STEP = 0.1
_LONGEST_STEP = 0.6
_ACCEPTED = 0.75
_ADAPTED = 0.1
"""Of the dynamics, in standard deviations of q: where the step begins, what it never exceeds; the share of moves that
should be taken, and how quickly the step is adapted to that."""

_NORMAL_DRAWS = 40
"""Draws from q itself."""

_AGREED = 6.0
_SWEEPS = 3
"""Nats within which the sums down and up should agree; else there are further sweeps, up to so many in all."""


@dataclass(frozen=True)
class Integral:
    """The logarithm of an integral.

    Attributes
    ----------
    value : float
    error : float
        Half of what sums down and up the path differ by: the one tends to be too large, the other too small.
    """

    value: float
    error: float


def can_be_integrated(parameters: Parameters, likelihood: Likelihood) -> bool:
    """Whether it is a dense model, all of whose states go on, of a log in memory, small enough."""
    return bool(
        parameters.dense
        and not parameters.terminal.any()
        and likelihood.sample is likelihood
        and len(likelihood.log) * parameters.n_states**2 <= _MOST_WORK
        and len(BrokenSticks(_opened(parameters))) <= _MOST_COORDINATES
    )


@linalg.on_one_thread
def integrated(
    parameters: Parameters, likelihood: Likelihood, rng: np.random.Generator, *, stage: str = "integrating"
) -> Integral:
    """Logarithm of the probability of the log under a dense model, whatever its numbers: all rows, and where episodes
    begin, equally likely beforehand to be any distribution over their positive entries.

    ``parameters`` are near a maximum; those that its renamings lead to are counted with it, others are only as far as
    draws get there.
    """
    path = _Path(_Posterior(_opened(parameters), likelihood), rng, stage)
    path.settle()
    sums: list[float] = []
    while len(sums) < 2 * _SWEEPS:
        sums += path.sweep()
        if abs(np.mean(sums[::2]) - np.mean(sums[1::2])) < _AGREED:
            break
    error = abs(float(np.mean(sums[::2]) - np.mean(sums[1::2]))) / 2
    return Integral(float(np.mean(sums)), error)


def _opened(parameters: Parameters) -> Parameters:
    """With every state possible at the beginning: climbs close what a single episode says nothing about."""
    states = parameters.n_states
    return replace(parameters, initial=(parameters.initial + 1 / states) / 2)


@dataclass(frozen=True, eq=False)
class _Point:
    """Somewhere on the path: coordinates, the model, the logarithm of likelihood times prior and its gradient."""

    z: Floats
    parameters: Parameters
    height: float
    slope: Floats


class _Posterior:
    """Likelihood times prior in the coordinates `BrokenSticks`."""

    def __init__(self, parameters: Parameters, likelihood: Likelihood) -> None:
        self.sticks, self._likelihood = BrokenSticks(parameters), likelihood
        self._reference = _shown(parameters)

    def at(self, z: Floats) -> _Point:
        checkpoint()
        parameters = self.sticks.parameters(z)
        try:
            counts = self._likelihood.counts(parameters)
        except NumericalError:
            return _Point(z, parameters, -np.inf, np.zeros_like(z))
        height = counts.log_likelihood - 0.5 * z @ z - 0.5 * len(z) * np.log(2 * np.pi)
        return _Point(z, parameters, height, self.sticks.gradient(z, counts.blocks) - z)

    def precision(self, point: _Point) -> Floats:
        """The information of the log at a point, and of the prior."""
        model = point.parameters
        chosen = [rows > 0 for rows in model]
        coordinates, _ = numbered_entries(model, chosen, by_state=False)
        (products,) = outer_products(
            model, self._likelihood, coordinates, [slice(0, len(coordinates))], "integrating"
        )
        slopes = coordinates.roots(model)[:, None] * self.sticks.jacobian(point.z)
        return slopes.T @ products @ slopes + np.eye(len(point.z))

    def is_named(self, parameters: Parameters) -> bool:
        """Whether no renaming of the states is nearer to the first model by what they show. Of all renamings of a model
        that is so for one: these models are a domain with each of them once."""
        from scipy.optimize import linear_sum_assignment

        costs = ((self._reference[:, None] - _shown(parameters)[None]) ** 2).sum(axis=-1)
        return bool((linear_sum_assignment(costs)[1] == np.arange(len(costs))).all())


def _shown(parameters: Parameters) -> Floats:
    """All that every state shows, as one row."""
    return parameters.shown.transpose(1, 0, 2).reshape(parameters.n_states, -1)


class _Normal:
    """The distribution q, and coordinates y in which it is the standard one."""

    def __init__(self, mean: Floats, precision: Floats) -> None:
        self._mean = mean
        # With the lower factor of the precision, C C' = P, y = C' (z - mean).
        self._factor = linalg.lower_factor(precision)
        self._inverse = linalg.inverse(self._factor)
        self._constant = float(np.log(np.diag(self._factor)).sum()) - 0.5 * len(mean) * np.log(2 * np.pi)

    def whitened(self, z: Floats) -> Floats:
        result: Floats = (z - self._mean) @ self._factor
        return result

    def point(self, y: Floats) -> Floats:
        result: Floats = self._mean + y @ self._inverse
        return result

    def slope(self, slope: Floats) -> Floats:
        """A gradient by z as one by y."""
        result: Floats = self._inverse @ slope
        return result

    def height(self, y: Floats) -> float:
        return float(self._constant - 0.5 * y @ y)


class _Path:
    """A draw that is moved along the path."""

    def __init__(self, posterior: _Posterior, rng: np.random.Generator, stage: str) -> None:
        self._posterior, self._rng, self._stage = posterior, rng, stage
        self._now = posterior.at(posterior.sticks.coordinates(posterior.sticks.like))
        self._normal = _Normal(self._now.z, posterior.precision(self._now))
        self._step = _FIRST_STEP

    def settle(self) -> None:
        """From the maximum to where most of the probability is; then q is fitted to it: the mean of the draws, and the
        mean of the information at them, which is what minimizes the divergence of q from p."""
        seen = [self._posterior.precision(self._now)]
        for i in range(_BURN):
            self._move(1.0)
            if i % _PER_INFORMATION == 0:
                seen.append(self._posterior.precision(self._now))
                self._normal = _Normal(self._now.z, np.mean(seen[-4:], axis=0))
            report(self._stage, i + 1, _BURN + _DRAWS)
        draws, seen = [], seen[-1:]
        for i in range(_DRAWS):
            self._move(1.0)
            draws.append(self._now.z)
            if i % _PER_INFORMATION == 0:
                seen.append(self._posterior.precision(self._now))
            report(self._stage, _BURN + i + 1, _BURN + _DRAWS)
        self._normal = _Normal(np.mean(draws, axis=0), np.mean(seen, axis=0) / _WIDE)

    def sweep(self) -> tuple[float, float]:
        """The logarithm of the integral of p, by the way down from it to q and by that up again."""
        ladder = 1 - np.linspace(0, 1, _RUNGS + 1) ** 2
        down = [self._leads(b) for b in ladder[:-1]]
        drawn = [self._posterior.at(self._normal.point(y)) for y in self._normal_draws()]
        inside = [point for point in drawn if self._posterior.is_named(point.parameters)]
        if not inside:
            return -np.inf, -np.inf
        self._now = inside[-1]
        at_normal = np.array([self._lead(point) for point in inside])
        up = [self._leads(b) for b in ladder[-2::-1]][::-1]
        names = float(gammaln(self._now.parameters.n_states + 1) + np.log(len(inside) / len(drawn)))
        return tuple(names + _summed(ladder, [*leads, at_normal]) for leads in (down, up))  # type: ignore[return-value]

    def _normal_draws(self) -> Floats:
        return self._rng.normal(size=(_NORMAL_DRAWS, len(self._posterior.sticks)))

    def _leads(self, b: float) -> Floats:
        """What draws at b say, one after every move."""
        found = np.empty(_MOVES)
        for i in range(_MOVES):
            self._move(b)
            found[i] = self._lead(self._now)
        return found

    def _lead(self, point: _Point) -> float:
        """Logarithm of p over q."""
        return point.height - self._normal.height(self._normal.whitened(point.z))

    def _move(self, b: float) -> None:
        """One move that leaves q^(1-b) p^b, within the domain of names, as it is; one that leads out is refused."""
        y, point = self._normal.whitened(self._now.z), self._now
        speed = self._rng.normal(size=len(y))
        step = self._step * self._rng.uniform(0.8, 1.2)
        before = self._height(b, y, point) - 0.5 * speed @ speed
        speed = speed + 0.5 * step * self._slope(b, y, point)
        for leap in range(_LEAPS):
            y = y + step * speed
            point = self._posterior.at(self._normal.point(y))
            if not np.isfinite(point.height):
                break
            speed = speed + (step if leap < _LEAPS - 1 else 0.5 * step) * self._slope(b, y, point)
        gain = float(self._height(b, y, point) - 0.5 * speed @ speed - before)
        chance = float(np.exp(min(gain, 0.0))) if np.isfinite(gain) else 0.0
        self._step = min(self._step * float(np.exp(_ADAPTED * (chance - _ACCEPTED))), _LONGEST_STEP)
        if self._rng.random() < chance and self._posterior.is_named(point.parameters):
            self._now = point

    def _height(self, b: float, y: Floats, point: _Point) -> float:
        return (1 - b) * self._normal.height(y) + b * point.height

    def _slope(self, b: float, y: Floats, point: _Point) -> Floats:
        return b * self._normal.slope(point.slope) - (1 - b) * y


def _summed(ladder: Floats, leads: list[Floats]) -> float:
    """Logarithm of the ratio of the integrals at the two ends of a ladder, from neighbor to neighbor."""
    total = 0.0
    for i in range(len(ladder) - 1):
        apart = ladder[i] - ladder[i + 1]
        total += _between(apart * leads[i + 1], apart * leads[i])
    return total


def _between(below: Floats, above: Floats) -> float:
    """Logarithm of the ratio of two integrals from the logarithms of the ratio of their integrands, at draws from the
    lower and from the upper one: the acceptance ratio method of Bennett."""
    from scipy.optimize import brentq

    more = np.log(len(below) / len(above))
    both = np.concatenate([below, above])

    def excess(value: float) -> float:
        return float(expit(below - value - more).sum() - expit(more + value - above).sum())

    margin = 50.0 + abs(more)
    return float(brentq(excess, both.min() - margin, both.max() + margin))
