"""How sure a model is that was fitted to a log: intervals of its numbers and of whatever is computed from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from unlatch import linalg
from unlatch.arrays import Flags, Floats, own_errstate
from unlatch.core.arguments import checked_log, real_number, whole_number
from unlatch.core.checks import frozen
from unlatch.core.intervals import IDENTIFIED, KINDS, Intervals, Method, Rows
from unlatch.core.pomdp import POMDP
from unlatch.core.progress import report
from unlatch.core.random import RandomSource, resolve_rng
from unlatch.core.trajectory import Trajectory
from unlatch.errors import UsageError
from unlatch.learn.intervals.boundary import greatest_zeros, may_be_zero
from unlatch.learn.intervals.covariance import Covariance, RootCovariance, root_covariance
from unlatch.learn.intervals.fit import Fit

if TYPE_CHECKING:
    from unlatch.learn.intervals.design import Needs

__all__ = ["OpenSets", "Uncertainty", "checked_level", "share_bounds", "uncertainty"]

_DRAWS = 400
"""Models that an interval is taken from: their quantiles at 5 % are then within 1 % of where they should be."""

_STEP = 0.1
"""Of differences, in standard errors."""

OpenSets = Rows
"""For every number least and greatest value of the set that it is only known to lie in; not a number where the process
determines it."""


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """What a log says about the numbers of the model that was fitted to it, and about what follows from them.

    Attributes
    ----------
    fit : Fit
        The model beside its log.
    method : "scores", "differences" or "sandwich"
    open_sets : OpenSets or None
        The sets of those numbers that no log determines.
    examined : bool or Rows
        Whether all other numbers are proved to be determined; or for each of them, whether it is.
    equals : tuple of POMDP
        Other models that predict the same of everything that can be seen, where there are such.

    Examples
    --------
    >>> from unlatch import domains, simulate, uncertainty
    >>> sure = uncertainty(domains.tiger(), simulate(domains.tiger(), 1_000, rng=0))
    >>> sure.interval_of(lambda model: model.stationary()).shape
    (2, 2)
    """

    fit: Fit
    method: Method = "scores"
    open_sets: OpenSets | None = None
    examined: bool | Rows = False
    equals: tuple[POMDP, ...] = ()

    def __repr__(self) -> str:
        return f"Uncertainty({self.fit.pomdp}, {self.fit.steps} steps, {self.method})"

    @property
    def pomdp(self) -> POMDP:
        return self.fit.pomdp

    @cached_property
    @linalg.on_one_thread
    def roots(self) -> RootCovariance:
        """The covariance, in the square roots of the probabilities."""
        return root_covariance(self.fit, self.method)

    @own_errstate
    def covariance(self) -> Covariance:
        """Joint covariance of all numbers that are neither fixed nor at the edge, with what every index stands for."""
        return self.roots.probabilities

    @own_errstate
    @linalg.on_one_thread
    def intervals(self, level: float = 0.9) -> Intervals:
        """An interval for every number.

        A number between zero and one with estimate p and standard error e is as good as a share of m = p (1 - p) / e^2
        independent tries, and has their interval (of Jeffreys): it stays between zero and one, and holds for small
        numbers too. At the edge see docs/intervals.md.
        """
        level = checked_level(level)
        bounds = self.fit.as_rows(self._bounds(level))
        errors, verdicts = self.fit.as_rows(self.roots.errors), self._verdicts()
        stated = {
            kind: _stated(
                box,
                getattr(errors, kind),
                getattr(verdicts, kind),
                getattr(self.pomdp, kind),
                None if self.open_sets is None else getattr(self.open_sets, kind),
            )
            for kind, box in bounds.items()
        }
        return Intervals(
            level=level,
            **{kind: stated[kind].bounds if kind in stated else None for kind in KINDS},  # type: ignore[arg-type]
            standard_errors=Rows(**{kind: found.errors for kind, found in stated.items()}),
            verdicts=Rows(**{kind: found.verdicts for kind, found in stated.items()}),
            method=self.method,
        )

    def _bounds(self, level: float) -> list[Floats]:
        """For each of `Parameters.blocks`, with a last axis for least and greatest; [0, 1] for rows without a visit."""
        fit, errors = self.fit, self.roots.errors
        zeros = may_be_zero(fit, errors, _normal_quantile((1 + level) / 2))
        blocks = []
        for rows, error, zero, greatest, used, visited in zip(
            fit.parameters, errors, zeros, greatest_zeros(fit, level), fit.used, fit.visited, strict=True
        ):
            block = _shares(rows, error, level)
            block[zero, 0] = 0.0
            _settle_edges(block, greatest, used, rows)
            block[~np.broadcast_to(visited, rows.shape)] = 0.0, 1.0
            blocks.append(block)
        return blocks

    def _verdicts(self) -> Rows:
        """Of every number, as if the process determined all that was seen."""
        visited = self.fit.as_rows(
            [
                np.broadcast_to(seen, rows.shape)
                for seen, rows in zip(self.fit.visited, self.fit.parameters, strict=True)
            ]
        )
        verdicts = Rows(
            **{
                kind: np.where(
                    seen, np.where(self._is_examined(kind), "identified", "not examined"), "never observed"
                )
                for kind, seen in visited.items()
            }
        )
        untried = [self.pomdp.action_names.index(name) for name in self.pomdp.untried_actions]
        for _, words in verdicts.items():
            if words.ndim == 3:  # by action
                words[untried] = "never observed"
        terminal = self.fit.parameters.terminal
        verdicts.transitions[:, terminal] = "by definition"
        verdicts.initial[terminal] = "by definition"
        for _, words in verdicts.items():
            if words.shape[-1] == 1:  # the only outcome that there is
                words[...] = "by definition"
        return verdicts

    def _is_examined(self, kind: str) -> Any:
        return getattr(self.examined, kind) if isinstance(self.examined, Rows) else self.examined

    @own_errstate
    @linalg.on_one_thread
    def draws(self, n: int, *, rng: RandomSource = None) -> list[POMDP]:
        """Models as the log leaves them possible: drawn from the approximate distribution of the numbers given the log.

        Normal in the square roots of the probabilities, so that rows stay distributions and zeros stay zeros. An
        ``initial`` that is no more than where the process settles follows the other numbers. Numbers that no log
        determines scatter about those of this model, not over their sets: what is predicted, or planned for what can be
        seen, is the same for all of these.
        """
        n = whole_number("n", n, least=1)
        generator, _ = resolve_rng(rng)
        factor = linalg.symmetric_root(self.roots.matrix)
        return [
            self.fit.model(
                self.roots.moved(self.roots.roots + factor @ generator.standard_normal(len(factor)))
            )
            for _ in range(n)
        ]

    def interval_of(
        self,
        function: Callable[[POMDP], Any],
        *,
        level: float = 0.9,
        method: Literal["delta", "draws"] = "delta",
        draws: int = _DRAWS,
        rng: RandomSource = 0,
    ) -> Floats:
        """The interval of anything that is computed from a model: a number, or an array of them.

        Where other models predict the same (``equals``), it reaches to what the function has for these. What is
        computed from predictions alone has one value for all of them; what is computed from numbers that no log
        determines may have values beyond those that were found. Numbers at the edge stay where they are: how far a zero
        may rise is told by `intervals`.

        Parameters
        ----------
        function : callable
            From a `POMDP` to a number or an array.
        level : float
        method : "delta" or "draws"
            The slope of the function times the covariance of the numbers: two evaluations for every free number, for
            functions that are smooth. Or quantiles over models drawn from what the log leaves possible, for any.
        draws : int
            Models to draw.
        rng : int or numpy.random.Generator, optional

        Returns
        -------
        array, shape (..., 2)
            Least and greatest value.
        """
        level = checked_level(level)
        if method not in ("draws", "delta"):
            raise UsageError(f"method must be 'draws' or 'delta', got {method!r:.40}")
        if method == "delta":
            bounds = self._by_slope(function, level)
        else:
            bounds = self._by_draws(function, level, whole_number("draws", draws, least=20), rng)
        for model in self.equals:
            value = np.asarray(function(model), dtype=np.float64)
            bounds = np.stack([np.minimum(bounds[..., 0], value), np.maximum(bounds[..., 1], value)], axis=-1)
        return frozen(bounds)

    def _by_draws(self, function: Callable[[POMDP], Any], level: float, n: int, rng: RandomSource) -> Floats:
        values = []
        models = self.draws(n, rng=rng)
        for done, model in enumerate(models):
            values.append(np.asarray(function(model), dtype=np.float64))
            report("intervals", done + 1, len(models))
        shares = [(1 - level) / 2, (1 + level) / 2]
        tails = np.quantile(np.stack(values), shares, axis=0, method="weibull")  # holds however few there are
        result: Floats = np.moveaxis(tails, 0, -1)
        return result

    def _by_slope(self, function: Callable[[POMDP], Any], level: float) -> Floats:
        roots = self.roots
        factor = linalg.symmetric_root(roots.matrix)
        center = np.asarray(function(self.pomdp), dtype=np.float64)
        slopes = []
        for direction in factor.T:
            ahead, behind = (
                np.asarray(function(self.fit.model(roots.moved(roots.roots + sign * _STEP * direction))))
                for sign in (1.0, -1.0)
            )
            slopes.append((ahead - behind) / (2 * _STEP))
        error = np.sqrt((np.stack(slopes) ** 2).sum(axis=0)) if slopes else np.zeros_like(center)
        reach = float(_normal_quantile((1 + level) / 2)) * error
        return np.stack([center - reach, center + reach], axis=-1)

    def needs(self, width: float, *, level: float = 0.9, rng: RandomSource = 0) -> Needs:
        """How many more steps would bring the widest interval under ``width``, and which actions to take in them."""
        from unlatch.learn.intervals.design import needs

        return needs(self, real_number("width", width, 1e-9, 1.0), checked_level(level), rng)


@own_errstate
def uncertainty(
    pomdp: POMDP, log: Trajectory, *, shared: bool = False, method: Method = "scores"
) -> Uncertainty:
    """How sure the numbers of a model are that was fitted to a log by maximum likelihood.

    Of a `learn_pomdp` result use ``result.intervals()`` and the like, which also know what no log determines: here
    that is not looked at.

    Parameters
    ----------
    pomdp : POMDP
        At the maximum of the likelihood of the log, such as `refine` gives.
    log : Trajectory
    shared : bool
        Whether its states show the same under every action, so that their rows are learned from all at once.
    method : "scores", "differences" or "sandwich"
        The information of the log from the scores of its blocks, in about three passes; by differences, two passes for
        every number; or the first between two of the second, which holds for a model that does not fit as well.

    Examples
    --------
    >>> from unlatch import domains, refine, simulate, uncertainty
    >>> log = simulate(domains.tiger(), 5_000, rng=0)
    >>> sure = uncertainty(refine(domains.tiger(), log).pomdp, log)
    >>> low, high = sure.intervals().observations[0, 0, 0]
    >>> bool(low < 0.85 < high)
    True
    """
    if not isinstance(pomdp, POMDP):
        raise UsageError(f"expected a POMDP, got {type(pomdp).__name__}")
    if method not in get_args(Method):
        raise UsageError(f"method must be one of {', '.join(get_args(Method))}, got {method!r:.40}")
    return Uncertainty(Fit.of(pomdp, checked_log(log), shared=shared), method)


def checked_level(level: object) -> float:
    """A level strictly between zero and one."""
    value = real_number("level", level, 0.0, 1.0)
    if not 0 < value < 1:
        raise UsageError(f"level must lie between 0 and 1, got {value}")
    return value


def _normal_quantile(share: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(share))


def share_bounds(p: Floats, errors: Floats, level: float) -> tuple[Floats, Floats]:
    """The interval of Jeffreys for shares p of as many tries as have these standard errors."""
    from scipy.special import betaincinv

    tries = p * (1 - p) / np.maximum(errors, 1e-12) ** 2
    a, b = tries * p + 0.5, tries * (1 - p) + 0.5
    low, high = betaincinv(a, b, (1 - level) / 2), betaincinv(a, b, (1 + level) / 2)
    return np.minimum(low, p), np.maximum(high, p)


def _shares(rows: Floats, errors: Floats, level: float) -> Floats:
    """Intervals of the free numbers, shape (..., 2); not a number where there is no standard error."""
    bounds = np.full((*rows.shape, 2), np.nan)
    free = np.isfinite(errors)
    bounds[free, 0], bounds[free, 1] = share_bounds(rows[free], errors[free], level)
    return bounds


def _settle_edges(block: Floats, greatest: Floats, used: Flags, rows: Floats) -> None:
    """Intervals of the entries at zero, and of those that are alone in their row: at one, or as far below as one of
    the others may rise."""
    closed = np.isfinite(greatest)
    block[closed, 0], block[closed, 1] = 0.0, greatest[closed]
    alone = used & (used.sum(axis=-1, keepdims=True) == 1)
    rise = np.where(closed, greatest, 0.0).max(axis=-1, keepdims=True)
    block[alone, 0] = np.minimum(1.0 - np.broadcast_to(rise, rows.shape)[alone], rows[alone])
    block[alone, 1] = 1.0


class _Stated(NamedTuple):
    """What is said of the numbers of one kind."""

    bounds: Floats
    errors: Floats
    verdicts: NDArray[Any]


def _stated(
    bounds: Floats, errors: Floats, verdicts: NDArray[Any], values: Floats, sets: Floats | None
) -> _Stated:
    """Bounds that agree with the verdicts, and a set in place of those of numbers that no log determines."""
    bounds, words = bounds.copy(), verdicts.copy()
    bounds[words == "never observed"] = 0.0, 1.0
    fixed = words == "by definition"
    bounds[fixed] = np.repeat(values[fixed][:, None], 2, axis=1)
    if sets is not None:
        moves = np.isfinite(sets[..., 0]) & np.isin(words, IDENTIFIED)
        bounds[moves, 0] = np.minimum(bounds[moves, 0], sets[moves, 0])
        bounds[moves, 1] = np.maximum(bounds[moves, 1], sets[moves, 1])
        words[moves] = "bounded"
    known = np.where(np.isin(words, IDENTIFIED), errors, np.nan)
    return _Stated(frozen(bounds), frozen(known), frozen(words))
