"""The scatter of a model's numbers over other logs: simulated from the model, or made of pieces of its own log.

Slow, since every one of them is fitted anew; a check of what the information of the log says in a few passes. The
pieces hold for a model that does not fit as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unlatch import linalg
from unlatch.arrays import own_errstate
from unlatch.core.arguments import checked_log, whole_number
from unlatch.core.checks import frozen
from unlatch.core.intervals import KINDS, Rows
from unlatch.core.pomdp import POMDP
from unlatch.core.progress import report
from unlatch.core.random import RandomSource, resolve_rng
from unlatch.core.trajectory import Trajectory
from unlatch.engines.engine import engine_of
from unlatch.errors import UsageError
from unlatch.learn.intervals.fit import Fit
from unlatch.learn.intervals.uncertainty import checked_level
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.zeros import maximize
from unlatch.simulation import simulate

__all__ = ["Bootstrap", "bootstrap"]

_BLOCKS = 50
"""Pieces into which a single long episode is cut."""


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """The numbers of a model fitted to other logs like its own.

    Attributes
    ----------
    estimates : Rows
        Each with a first axis for the logs.
    kind : "parametric" or "block"

    Examples
    --------
    >>> from unlatch import bootstrap, domains, simulate
    >>> found = bootstrap(domains.tiger(), simulate(domains.tiger(), 1_000, rng=0), replicates=5, rng=0)
    >>> found.estimates.observations.shape, found.intervals(0.5).observations.shape
    ((5, 3, 2, 6), (3, 2, 6, 2))
    """

    estimates: Rows
    kind: str

    def __repr__(self) -> str:
        return f"Bootstrap({len(self)} logs, {self.kind})"

    def __len__(self) -> int:
        return len(self.estimates.initial)

    @property
    def standard_errors(self) -> Rows:
        """The standard deviation of every number over the logs."""
        return Rows(**{kind: frozen(rows.std(axis=0, ddof=1)) for kind, rows in self.estimates.items()})

    def intervals(self, level: float = 0.9) -> Rows:
        """The middle share ``level`` of every number over the logs, with a last axis for least and greatest."""
        tails = [(1 - checked_level(level)) / 2, (1 + level) / 2]
        return Rows(
            **{
                kind: frozen(np.moveaxis(np.quantile(rows, tails, axis=0), 0, -1))
                for kind, rows in self.estimates.items()
            }
        )


@own_errstate
@linalg.on_one_thread
def bootstrap(
    pomdp: POMDP,
    log: Trajectory,
    *,
    kind: Literal["parametric", "block"] = "parametric",
    replicates: int = 100,
    shared: bool = False,
    engine: Any = None,
    rng: RandomSource = None,
) -> Bootstrap:
    """Fit the model to other logs like the one that it was fitted to, always from where it is and with its zeros.

    Parameters
    ----------
    pomdp : POMDP
        At the maximum of the likelihood of ``log``.
    log : Trajectory
    kind : "parametric" or "block"
        Logs that are simulated from the model, with actions as often as in the log; or logs of episodes drawn from
        this one with replacement, of a fiftieth of it each where it is a single episode.
    replicates : int
        Number of logs.
    shared : bool
        As in `uncertainty`.
    engine : optional
        Who fits: None for this process, or others as in `learn_pomdp`. Does not change the result.
    rng : int or numpy.random.Generator, optional

    Examples
    --------
    >>> from unlatch import bootstrap, domains, refine, simulate
    >>> log = simulate(domains.tiger(), 2_000, rng=0)
    >>> model = refine(domains.tiger(), log).pomdp
    >>> bootstrap(model, log, replicates=5, rng=0).standard_errors.observations.shape
    (3, 2, 6)
    """
    if not isinstance(pomdp, POMDP):
        raise UsageError(f"expected a POMDP, got {type(pomdp).__name__}")
    if kind not in ("parametric", "block"):
        raise UsageError(f"kind must be 'parametric' or 'block', got {kind!r:.40}")
    replicates = whole_number("replicates", replicates, least=2)
    generator, _ = resolve_rng(rng)
    fit = Fit.of(pomdp, checked_log(log), shared=shared)
    others = [
        _OtherLog(f"log {number + 1} of {replicates}", fit, log if kind == "block" else None, own)
        for number, own in enumerate(generator.spawn(replicates))
    ]
    found = []
    for rows in engine_of(engine).each(_fitted, others, [()] * replicates):
        found.append(rows)
        report("bootstrap", len(found), replicates)
    return Bootstrap(
        Rows(
            **{
                name: frozen(np.stack([getattr(rows, name) for rows in found]))
                for name in KINDS
                if getattr(found[0], name) is not None
            }
        ),
        kind,
    )


class _OtherLog(NamedTuple):
    """A log like that of a fit, made by whoever fits it: of pieces of ``log``, or simulated where there is none."""

    name: str
    fit: Fit
    log: Trajectory | None
    rng: np.random.Generator

    def read(self) -> Trajectory:
        return _simulated(self.fit, self.rng) if self.log is None else _resampled(self.log, self.rng)


def _fitted(other: _OtherLog) -> Rows:
    """The numbers of the model at the maximum for another log."""
    fit = other.fit
    likelihood = Likelihood.of(other.read(), fit.pomdp.emission, fit.pomdp)
    return fit.as_rows(maximize(fit.parameters, likelihood).parameters.blocks)


def _simulated(fit: Fit, rng: np.random.Generator) -> Trajectory:
    longest = fit.steps if fit.longest_episode is None else fit.longest_episode
    return simulate(fit.pomdp, longest, total=fit.steps, policy=fit.policy, rng=rng)


def _resampled(log: Trajectory, rng: np.random.Generator) -> Trajectory:
    """Episodes, or pieces of a single one, drawn with replacement, until there are as many."""
    starts = log.episode_starts
    if log.n_episodes == 1:
        starts = np.linspace(0, len(log), min(_BLOCKS, len(log)), endpoint=False).astype(np.int64)
        log = replace(log, first_observations=None, first_observation_names=None)  # type: ignore[arg-type]
    lengths = np.diff(np.append(starts, len(log)))
    drawn = rng.integers(len(starts), size=len(starts))
    steps = np.concatenate([np.arange(starts[e], starts[e] + lengths[e]) for e in drawn])

    def taken(column: NDArray[Any] | None) -> Any:
        return None if column is None else column[steps]

    return replace(
        log,
        actions=log.actions[steps],
        observations=log.observations[steps],
        rewards=taken(log.rewards),
        probabilities=taken(log.probabilities),
        terminated=taken(log.terminated),
        episode_starts=np.cumsum(lengths[drawn]) - lengths[drawn],
        first_observations=None if log.first_observations is None else log.first_observations[drawn],
    )
