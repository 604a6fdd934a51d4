"""Baum-Welch with actions: climb the likelihood from random starts and keep the best.

The honest baseline of the field. One start is what papers usually run and often ends on a lesser summit; the
best of a dozen is far stronger on small models. The number of states has to be given.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from unlatch.arrays import Floats, Ints, own_errstate
from unlatch.core import html
from unlatch.core.arguments import checked_log, whole_number
from unlatch.core.checks import frozen
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.pomdp import POMDP, Emission, checked_emission
from unlatch.core.progress import report
from unlatch.core.psr import PSR
from unlatch.core.random import RandomSource, resolve_rng
from unlatch.core.trajectory import Trajectory
from unlatch.errors import NotLearnableError, NumericalError, UsageError
from unlatch.learn.likelihood.forward_backward import expected_counts
from unlatch.learn.likelihood.parameters import (
    EncodedLog,
    ExpectedCounts,
    Parameters,
    encoded_log,
    maximization,
    parameters_of,
)
from unlatch.learn.likelihood.starts import random_parameters
from unlatch.learn.significance import USED
from unlatch.learn.state_order import canonical_order

__all__ = ["EMResult", "learn_em"]

_ALLOWED_FALL = 1e-9
"""Relative fall of the log-likelihood in one iteration that is taken for rounding."""

_ROUNDING = 1e-12
"""Relative change of the log-likelihood that can only be rounding: nothing is left to gain."""

_STEP_ROUNDING = 1e-14
"""Rounding that every step adds to the log-likelihood, which may itself be zero (a log with no surprises)."""

SAME_SUMMIT = 0.1
"""Two starts whose log-likelihoods differ by fewer nats are taken to have reached the same optimum."""


@dataclass(frozen=True, eq=False)
class EMResult:
    """A POMDP of locally maximal likelihood and how it was found.

    Attributes
    ----------
    pomdp : POMDP
        From the best start, states in canonical order.
    log_likelihood : float
        Of the log under ``pomdp``, in nats.
    log_likelihoods : array, shape (iterations + 1,)
        Of the winning start: before the first iteration and after each.
    converged : bool
        Whether the winning start's last iteration gained less than the tolerance.
    start_log_likelihoods : array, shape (starts,)
        Where every start ended; their spread tells how much luck was needed.
    iterations : int
        Of the winning start.
    counts : ExpectedCounts
        Of the log under ``pomdp``: how much data stands behind every row.
    seed : int or None
        Repeats the result; None if the caller passed a generator.
    diagnostics : Diagnostics

    Examples
    --------
    >>> import unlatch
    >>> log = unlatch.simulate(unlatch.domains.tiger(), 2_000, rng=0)
    >>> result = unlatch.learn_em(log, states=2, iterations=50, rng=0)
    >>> result.iterations, result.log_likelihoods.shape
    (50, (51,))
    """

    pomdp: POMDP
    log_likelihood: float
    log_likelihoods: Floats
    converged: bool
    start_log_likelihoods: Floats
    iterations: int
    counts: ExpectedCounts
    seed: int | None = None
    diagnostics: Diagnostics = field(default_factory=Diagnostics)

    def __repr__(self) -> str:
        return (
            f"EMResult({self.pomdp}, log-likelihood {self.log_likelihood:.6g}, {self.iterations} iterations, "
            f"converged={self.converged}, {len(self.diagnostics)} diagnostics)"
        )

    def _repr_html_(self) -> str:
        """For notebooks: the model and what was noticed."""
        return html.page(repr(self), self.pomdp._repr_html_(), self.diagnostics._repr_html_())


@dataclass(frozen=True)
class _Climb:
    """One start's way up."""

    parameters: Parameters
    counts: ExpectedCounts
    log_likelihoods: list[float]
    converged: bool


@own_errstate
def learn_em(
    log: Trajectory,
    states: int,
    *,
    starts: int = 1,
    iterations: int = 500,
    tolerance: float = 1e-6,
    emission: Emission = "departure",
    initial_model: POMDP | None = None,
    force: bool = False,
    threads: int | None = None,
    rng: RandomSource = None,
) -> EMResult:
    """Learn a POMDP with a given number of states by expectation-maximization.

    Parameters
    ----------
    log : Trajectory
        Rewards, if any, are learned as part of the observation. The actions may depend on what was
        observed: the likelihood does not care why they were chosen.
    states : int
    starts : int
        Random starts (rows drawn from a flat Dirichlet distribution); the most likely result wins.
    iterations : int
        Most iterations per start.
    tolerance : float
        A start has converged when an iteration gains less than this many nats over the whole log. Nats, not
        nats per step: a difference of one nat is as telling in a long log as in a short one.
    emission : "departure" or "arrival"
        Whether the state left or the state reached shows the observation.
    initial_model : POMDP, optional
        Takes the place of the first random start. Its zeros stay zeros.
    force : bool
        Go on even if the log cannot carry so many states.
    threads : int, optional
        1 or 2; by default as many as there are cores. Does not change the result.
    rng : int or numpy.random.Generator, optional

    Returns
    -------
    EMResult

    Raises
    ------
    NotLearnableError
        If the log is empty; and, unless ``force``, if it is shorter than the number of parameters or if its
        observations never vary.
    NumericalError
        If the likelihood falls, which it cannot do but for an arithmetic fault.

    Examples
    --------
    >>> import unlatch
    >>> log = unlatch.simulate(unlatch.domains.tiger(), 2_000, rng=0)
    >>> unlatch.learn_em(log, states=2, iterations=50, rng=0).pomdp
    POMDP(2 states, 3 actions, 6 observations, emission='departure')
    """
    checked_emission(emission)
    _check_options(states, starts, iterations, tolerance, initial_model, emission)
    generator, seed = resolve_rng(rng)
    log = checked_log(log).with_reward_symbols()
    steps = encoded_log(log, initial_model)
    _refuse_unlearnable(steps, states, force)
    climbs = []
    for start in range(starts):
        if initial_model is not None and start == 0:
            parameters = parameters_of(initial_model)
        else:
            parameters = random_parameters(steps, states, generator, emission)
        climbs.append(_climb(parameters, steps, emission, iterations, tolerance, threads, (start, starts)))
    source = log if initial_model is None else initial_model
    return _result(climbs, steps, source, emission, tolerance, seed, log.diagnostics)


def _check_options(
    states: int,
    starts: int,
    iterations: int,
    tolerance: float,
    initial_model: POMDP | None,
    emission: Emission,
) -> None:
    for name, value in (("states", states), ("starts", starts), ("iterations", iterations)):
        whole_number(name, value, least=1)
    if not tolerance >= 0:
        raise UsageError(f"tolerance must be zero or more nats, got {tolerance}")
    if initial_model is not None and initial_model.n_states != states:
        raise UsageError(f"initial_model has {initial_model.n_states} states, states={states} was asked for")
    if initial_model is not None and initial_model.emission != emission:
        raise UsageError(
            f"initial_model emits on {initial_model.emission}, emission={emission!r} was asked for"
        )


def _refuse_unlearnable(steps: EncodedLog, states: int, force: bool) -> None:
    if len(steps) == 0:
        raise NotLearnableError("the log has no steps; there is nothing to learn from")
    shown = np.count_nonzero(steps.seen, axis=1)
    if states > 1 and shown.max() == 1 and not force:
        raise NotLearnableError(
            "every action shows one and the same observation throughout: one state explains the log and "
            "nothing in it tells more apart; use states=1, or pass force=True"
        )
    parameters = int((shown > 0).sum()) * states * (states - 1) + int(np.maximum(shown - 1, 0).sum()) * states
    if parameters > len(steps) and not force:
        raise NotLearnableError(
            f"{states} states have {parameters} free probabilities, more than the log's {len(steps)} steps; "
            "use fewer states, log more steps, or pass force=True"
        )


def _climb(
    parameters: Parameters,
    steps: EncodedLog,
    emission: Emission,
    iterations: int,
    tolerance: float,
    threads: int | None,
    place: tuple[int, int],
) -> _Climb:
    """Iterate from one start until the gain is below the tolerance; ``place`` is (start, starts)."""
    counts = expected_counts(parameters, steps, emission=emission, threads=threads)
    history = [counts.log_likelihood]
    converged = False
    for iteration in range(iterations):
        parameters = maximization(counts, parameters)
        counts = expected_counts(parameters, steps, emission=emission, threads=threads)
        history.append(counts.log_likelihood)
        report("EM", place[0] + (iteration + 1) / iterations, place[1])
        _refuse_fall(history, len(steps), place[0])
        rounding = _ROUNDING * abs(history[-1]) + _STEP_ROUNDING * len(steps)
        if abs(history[-1] - history[-2]) <= max(tolerance, rounding):
            converged = True
            break
    report("EM", place[0] + 1, place[1])
    return _Climb(parameters, counts, history, converged)


def _refuse_fall(history: list[float], steps: int, start: int) -> None:
    before, after = history[-2:]
    if after < before - _ALLOWED_FALL * abs(before) - _STEP_ROUNDING * steps:
        raise NumericalError(
            f"start {start}, iteration {len(history) - 1}: the log-likelihood fell from {before!r} to "
            f"{after!r}, which EM cannot do; please report it with the log and the seed"
        )


def _result(
    climbs: list[_Climb],
    steps: EncodedLog,
    source: Trajectory | POMDP,
    emission: Emission,
    tolerance: float,
    seed: int | None,
    notes: Diagnostics,
) -> EMResult:
    reached = np.array([climb.log_likelihoods[-1] for climb in climbs])
    best = climbs[int(np.argmax(reached))]
    pomdp = POMDP(
        transitions=best.parameters.transitions,
        observations=best.parameters.observations,
        initial=best.parameters.initial,
        emission=emission,
        action_names=steps.action_names,
        observation_names=steps.observation_names,
        symbol_rewards=source.symbol_rewards,
        untried_actions=steps.untried_actions,
        terminal=tuple(np.flatnonzero(best.parameters.terminal).tolist()),
        first_observations=best.parameters.first,
        first_observation_names=steps.first_names or None,  # type: ignore[arg-type]
        reward_values=source.reward_values if isinstance(source, POMDP) else None,
        reward_probabilities=best.parameters.rewards,
    )
    order = _order(pomdp)
    names = pomdp.state_names
    counts = best.counts.reordered(order)
    notes = notes + _climb_notes(best, reached, tolerance) + _row_notes(counts, steps)
    return EMResult(
        pomdp=replace(pomdp.reordered(order), state_names=names),
        log_likelihood=best.log_likelihoods[-1],
        log_likelihoods=frozen(np.array(best.log_likelihoods)),
        converged=best.converged,
        start_log_likelihoods=frozen(reached),
        iterations=len(best.log_likelihoods) - 1,
        counts=counts,
        seed=seed,
        diagnostics=notes,
    )


def _order(pomdp: POMDP) -> Ints:
    """The canonical order of the states, by the same rule as for every other learner; the end comes last."""
    settled = pomdp.initial if pomdp.terminal else pomdp.stationary()
    order = canonical_order(PSR(settled, pomdp.updates, np.ones(pomdp.n_states)))
    return order[np.argsort(np.isin(order, pomdp.terminal), kind="stable")]


def _climb_notes(best: _Climb, reached: Floats, tolerance: float) -> Diagnostics:
    notes = Diagnostics()
    if not best.converged:
        gain = best.log_likelihoods[-1] - best.log_likelihoods[-2]
        notes = notes.noting(
            "not_converged",
            f"the last of {len(best.log_likelihoods) - 1} iterations still gained {gain:.2g} nats, more than "
            f"the tolerance {tolerance:.2g}; allow more iterations",
            gain=gain,
        )
    alone = int((reached > reached.max() - SAME_SUMMIT).sum()) == 1
    if len(reached) > 1 and alone:
        notes = notes.noting(
            "starts_disagree",
            f"only one of {len(reached)} starts reached the best likelihood, the next is "
            f"{np.sort(reached)[-1] - np.sort(reached)[-2]:.3g} nats below; more starts may find better",
            log_likelihoods=reached.tolist(),
        )
    return notes


def _row_notes(counts: ExpectedCounts, steps: EncodedLog) -> Diagnostics:
    """What the log says nothing about: states, rows, actions and symbols without data."""
    notes = Diagnostics()
    tried = steps.seen.sum(axis=1) > 0
    visits = counts.observations.sum(axis=2)
    starved = np.flatnonzero(visits.sum(axis=0) < USED)
    if starved.size:
        notes = notes.noting(
            "starved_states",
            f"states {starved.tolist()} explain no step of the log; their rows are those of the start. "
            "Fewer states would do",
            states=starved.tolist(),
        )
    for name, rows in (("observations", visits), ("transitions", counts.transitions.sum(axis=2))):
        empty = [[int(a), int(s)] for a, s in np.argwhere(rows < USED) if tried[a]]
        if empty:
            notes = notes.noting(
                f"unvisited_{name}",
                f"{len(empty)} rows of {name} have no expected visit; they keep the values of the start",
                rows=empty,
            )
    never = [name for name, seen in zip(steps.action_names, tried, strict=True) if not seen]
    if never:
        notes = notes.noting(
            "never_tried",
            f"actions never tried in the log: {', '.join(never)}; their rows mean nothing",
            actions=never,
        )
    return notes
