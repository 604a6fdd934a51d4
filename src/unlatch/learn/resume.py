"""More steps for a model that was learned before: never from scratch again, unless the system has changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from unlatch import linalg
from unlatch.arrays import own_errstate
from unlatch.core.arguments import checked_log
from unlatch.core.budget import Budget
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.pomdp import POMDP
from unlatch.core.random import RandomSource, resolve_rng
from unlatch.core.trajectory import Trajectory
from unlatch.errors import NotLearnableError, NumericalError, UsageError
from unlatch.learn.examine.model import examine_model
from unlatch.learn.likelihood.climb import Ascent, evaluated
from unlatch.learn.likelihood.marginal import free_parameters
from unlatch.learn.likelihood.objective import Hypothesis, Likelihood
from unlatch.learn.likelihood.parameters import Parameters, parameters_of
from unlatch.learn.likelihood.refine import convergence_notes
from unlatch.learn.likelihood.select_states import returned_model
from unlatch.learn.likelihood.starts import possible
from unlatch.learn.likelihood.zeros import maximize, simplest
from unlatch.learn.options import LearnOptions
from unlatch.learn.pipeline import LearnResult, learn_pomdp, marked, observability
from unlatch.learn.significance import CHANGED

__all__ = ["resume"]


@own_errstate
@linalg.on_one_thread
def resume(
    result: Any,
    new_log: Trajectory,
    *,
    old_log: Trajectory | None = None,
    time_limit: float | None = None,
    rng: RandomSource = None,
) -> LearnResult:
    """Learn from the log of a model and from a new one together, beginning with the model.

    The result is the model of maximal likelihood of both logs near the old one: what learning from both together leads
    to, in a fraction of the time. First it is asked whether the new log could come from the system of the old one
    (``changed`` in the diagnostics, with a p-value, if not). Only if it could not, or if it shows symbols that the old
    log had not (``new_symbols``), is the number of states searched for anew in both (``states_changed`` if it is
    another).

    Parameters
    ----------
    result : LearnResult, SavedModel or POMDP
        What was learned before.
    new_log : Trajectory
        More of the same system: its episodes come after those of the old log.
    old_log : Trajectory, optional
        What the model was learned from. A `LearnResult` of this session holds it; a model from a file does not.
    time_limit : float, optional
        Seconds for the whole call.
    rng : int or numpy.random.Generator, optional

    Returns
    -------
    LearnResult

    Examples
    --------
    >>> from unlatch import domains, learn_pomdp, resume, simulate
    >>> first = learn_pomdp(simulate(domains.tiger(), 5_000, rng=0), rng=0)
    >>> resume(first, simulate(domains.tiger(), 1_000, rng=1)).steps
    6000
    """
    pomdp = _model(result)
    old = _old_log(result, old_log)
    new = _as_the_model_reads(checked_log(new_log), pomdp)
    if len(new) == 0:
        raise NotLearnableError("the new log has no steps; there is nothing to go on with")
    options = LearnOptions(time_limit=time_limit)
    budget = Budget(options.time_limit)
    generator, seed = resolve_rng(rng)
    both = joined_logs(_as_the_model_reads(old, pomdp), new)
    unknown = [name for name in both.observation_names if name not in pomdp.observation_names]
    unknown += [name for name in both.action_names if name not in pomdp.action_names]
    notes = _about_symbols(unknown)
    change = None
    if not unknown:
        with budget.active():
            change = _change(pomdp, old, new)
        notes = notes + _about_change(change, pomdp.n_states)
    if unknown or (change is not None and change.is_real):
        found = _searched(both, pomdp, budget, generator)
        notes = notes + _about_states(pomdp.n_states, found.states)
        return replace(found, seed=seed, diagnostics=notes + found.diagnostics)
    found = _climbed(pomdp, both, options, budget)
    return replace(found, seed=seed, diagnostics=notes + found.diagnostics)


def _model(result: Any) -> POMDP:
    pomdp = result if isinstance(result, POMDP) else getattr(result, "pomdp", None)
    if not isinstance(pomdp, POMDP):
        raise UsageError(
            f"expected a result of learning or a saved POMDP to go on from, got {type(result).__name__}"
        )
    return pomdp


def _old_log(result: Any, old_log: Trajectory | None) -> Trajectory:
    if old_log is not None:
        return checked_log(old_log)
    log: Trajectory | None = getattr(result, "log", None)
    if log is None:
        raise UsageError(
            "the log that the model was learned from is needed: a model alone does not say what was seen. Give it as "
            "old_log (--old-log)"
        )
    return log


def _as_the_model_reads(log: Trajectory, pomdp: POMDP) -> Trajectory:
    """With pairs of observation and reward for symbols, where the model has such."""
    if log.rewards is None or pomdp.reward_values is not None:
        return log
    known = set(pomdp.observation_names)
    if known >= set(log.observation_names):
        return log
    paired = log.with_reward_symbols(always=True)
    shared = len(known & set(paired.observation_names)), len(known & set(log.observation_names))
    return paired if shared[0] > shared[1] else log


def joined_logs(one: Trajectory, other: Trajectory) -> Trajectory:
    """Both logs in one, the episodes of the other after those of the one; names that only the other has come last."""
    for name in ("rewards", "probabilities", "terminated", "first_observations"):
        if (getattr(one, name) is None) != (getattr(other, name) is None):
            raise UsageError(f"only one of the logs has {name}; give both logs alike")
    action_names = tuple(dict.fromkeys([*one.action_names, *other.action_names]))
    observation_names = tuple(dict.fromkeys([*one.observation_names, *other.observation_names]))
    first_names = tuple(dict.fromkeys([*one.first_observation_names, *other.first_observation_names]))

    def coded(codes: Any, names: tuple[str, ...], among: tuple[str, ...]) -> Any:
        return np.array([among.index(name) for name in names], dtype=np.int64)[codes]

    def both(name: str) -> Any:
        return (
            None if getattr(one, name) is None else np.concatenate([getattr(one, name), getattr(other, name)])
        )

    first = None
    if one.first_observations is not None and other.first_observations is not None:
        first = np.concatenate(
            [coded(log.first_observations, log.first_observation_names, first_names) for log in (one, other)]
        )
    return Trajectory(
        actions=np.concatenate([coded(log.actions, log.action_names, action_names) for log in (one, other)]),
        observations=np.concatenate(
            [coded(log.observations, log.observation_names, observation_names) for log in (one, other)]
        ),
        action_names=action_names,
        observation_names=observation_names,
        rewards=both("rewards"),
        episode_starts=np.concatenate([one.episode_starts, other.episode_starts + len(one)]),
        probabilities=both("probabilities"),
        terminated=both("terminated"),
        first_observations=first,
        first_observation_names=first_names if first is not None else None,  # type: ignore[arg-type]
    )


# --- has the system changed? ------------------------------------------------------------------------------


class _Change(NamedTuple):
    """Twice the nats that the new log gains by numbers of its own, beyond what noise in both logs explains."""

    statistic: float
    free: int
    p_value: float

    @property
    def is_real(self) -> bool:
        return self.p_value < CHANGED


def _change(pomdp: POMDP, old: Trajectory, new: Trajectory) -> _Change:
    """A likelihood ratio: what the new log gains by numbers of its own. Were the old ones exact, it would be
    chi-square; they have noise as well, which adds the share of the steps."""
    from scipy.special import chdtrc

    likelihood = Likelihood.of(new, pomdp.emission, pomdp)
    start = parameters_of(pomdp)
    try:
        before = likelihood.counts(start).log_likelihood
    except NumericalError:
        return _Change(np.inf, 1, 0.0)
    own = maximize(start, likelihood, passes=100)
    free = free_parameters(own) + pomdp.n_states
    statistic = 2 * (own.log_likelihood - before) / (1 + len(new) / max(len(old), 1))
    return _Change(statistic, free, float(chdtrc(free, max(statistic, 0.0))))


def _about_change(change: _Change, states: int) -> Diagnostics:
    if not change.is_real:
        return Diagnostics()
    return Diagnostics().noting(
        "changed",
        f"the new log is not one of the system that the model of {states} states was learned from (p = "
        f"{change.p_value:.1g}): numbers of its own explain it better by {change.statistic / 2:.1f} nats, where noise "
        f"gains about {change.free / 2:.1f}; the result is an average of what was and what is. To learn what is, learn "
        "from the new log alone",
        p_value=change.p_value,
        gained=change.statistic / 2,
        free=change.free,
    )


def _about_symbols(names: list[str]) -> Diagnostics:
    if not names:
        return Diagnostics()
    shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    return Diagnostics().noting(
        "new_symbols", f"the new log has symbols that the old one had not: {shown}", names=list(names)
    )


def _about_states(before: int, after: int) -> Diagnostics:
    if before == after:
        return Diagnostics()
    return Diagnostics().noting(
        "states_changed",
        f"with the new log there are {after} states, before there were {before}",
        before=before,
        after=after,
    )


# --- what comes of both -----------------------------------------------------------------------------------


def _searched(both: Trajectory, pomdp: POMDP, budget: Budget, rng: np.random.Generator) -> LearnResult:
    left = budget.seconds_left
    limit = left if np.isfinite(left) else None
    return learn_pomdp(both, emission=pomdp.emission, time_limit=limit, rng=rng)


def _climbed(pomdp: POMDP, both: Trajectory, options: LearnOptions, budget: Budget) -> LearnResult:
    likelihood = Likelihood.of(both, pomdp.emission, pomdp)
    start: Parameters = parameters_of(pomdp)
    best: Ascent = evaluated(possible(start, likelihood), likelihood)
    finished = False
    with budget.ending():
        best = maximize(start, likelihood)
        best = simplest(best, likelihood).ascent
        finished = True
    hypothesis = Hypothesis(both, pomdp.emission, rewards_apart=pomdp.reward_values is not None)
    learned, counts, height, notes = budget.insist(lambda: returned_model(best, hypothesis))
    learned = marked(learned, both)
    actions, partition = observability(learned, counts, options)
    fit = Diagnostics()
    with budget.ending():
        fit = examine_model(learned, both, counts=counts)
    return LearnResult(
        pomdp=learned,
        partition=partition,
        full_rank_actions=actions,
        log_likelihood=height,
        evidence=None,
        spectral=None,
        search=None,
        options=options,
        steps=len(both),
        episodes=both.n_episodes,
        log=both,
        complete=finished and not budget.interrupted,
        diagnostics=convergence_notes(best) + notes + fit,
    )
