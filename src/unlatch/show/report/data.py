"""Everything that a report shows, gathered before a line of it is written.

Intervals and verdicts are handed in, as they take longer than the page; what was not computed is None, and the page
says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from unlatch.arrays import Floats
from unlatch.compare.match_states import match_states
from unlatch.core.pomdp import POMDP
from unlatch.core.psr import PSR
from unlatch.core.trajectory import Trajectory
from unlatch.errors import DataError, UsageError
from unlatch.show.beliefs import Step, as_read, beliefs_along
from unlatch.show.report.check import Check, check_predictions
from unlatch.show.safe import counted
from unlatch.show.summary import Summary, summarize_pomdp, summarize_result, summarize_saved
from unlatch.simulation import simulate

__all__ = ["Intervals", "ReportData", "Truth", "Verdicts", "report_data"]

OPEN = "open"
"""The verdict on a number that is one choice among many."""


_MOST_TRACKED = 40_000
"""Numbers that the beliefs of a page may take."""

_TRACKED_STEPS, _SIMULATED_STEPS = 200, 60

_SAME_LIKELIHOOD = 1e-9
"""Relative difference of likelihoods up to which a log of the same length is taken for the one learned from."""


class Intervals(Protocol):
    """Lower and upper ends for every number of a model, as a last axis of two."""

    @property
    def transitions(self) -> Floats: ...
    @property
    def observations(self) -> Floats: ...
    @property
    def initial(self) -> Floats: ...


class Verdicts(NamedTuple):
    """A word for every number of a model: what is known of it beyond its estimate. ``meaning`` explains the words."""

    transitions: NDArray[np.str_]
    observations: NDArray[np.str_]
    initial: NDArray[np.str_]
    meaning: str = ""


class Truth(NamedTuple):
    """The true system, with its states in the order of the model's if they correspond."""

    pomdp: POMDP
    matched: bool


@dataclass(frozen=True, eq=False)
class ReportData:
    """A model and what is said about it.

    ``intervals`` tell how sure numbers are by the log, ``ranges`` which ones other models with the same process have.
    """

    title: str
    summary: Summary
    pomdp: POMDP
    intervals: Intervals | None
    level: float | None
    verdicts: Verdicts | None
    ranges: Intervals | None
    log: Trajectory | None
    own_log: bool
    check: Check | None
    steps: tuple[Step, ...]
    truth: Truth | None
    options: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)


def report_data(
    subject: Any,
    *,
    log: Trajectory | None = None,
    truth: POMDP | None = None,
    intervals: Intervals | None = None,
    level: float | None = None,
    verdicts: Verdicts | None = None,
    title: str | None = None,
) -> ReportData:
    """Gather it from a model, a result of learning or the content of a model file."""
    summary, options, provenance = _known(subject)
    pomdp = summary.model
    if isinstance(pomdp, PSR):
        raise UsageError("a PSR has no states to report on; learn_pomdp or recover_pomdp gives a POMDP")
    for name, value, kind in (("log", log, Trajectory), ("truth", truth, POMDP)):
        if value is not None and not isinstance(value, kind):
            raise UsageError(f"{name} must be of type {kind.__name__}, got {type(value).__name__}")
    if intervals is None:
        intervals = _stated(subject)
        level = getattr(intervals, "level", level)
    _refuse_shapes(pomdp, intervals, verdicts)
    check = None if log is None or not len(log) else check_predictions(pomdp, log)
    return ReportData(
        title=title or f"A model of {counted(pomdp.n_states, 'hidden state')}",
        summary=summary,
        pomdp=pomdp,
        intervals=intervals,
        level=level,
        verdicts=_verdicts(summary, pomdp) if verdicts is None else verdicts,
        ranges=summary.identified,
        log=log,
        own_log=log is not None and _is_own(summary, pomdp, log),
        check=check,
        steps=_followed(pomdp, log),
        truth=None if truth is None else _truth(pomdp, truth),
        options=options,
        provenance=provenance,
    )


def _known(subject: Any) -> tuple[Summary, Mapping[str, Any], Mapping[str, Any]]:
    if isinstance(subject, POMDP | PSR):
        return (summarize_pomdp(subject) if isinstance(subject, POMDP) else Summary(model=subject)), {}, {}
    if hasattr(subject, "provenance") and hasattr(subject, "model"):
        return summarize_saved(subject), subject.options, subject.provenance
    if hasattr(subject, "pomdp") and hasattr(subject, "full_rank_actions"):
        log = {"steps": subject.steps, "episodes": subject.episodes}
        return summarize_result(subject), subject.options.as_dict(), {"seed": subject.seed, "log": log}
    raise UsageError(
        f"a report is of a result of learning, a POMDP or a saved model, got {type(subject).__name__}"
    )


def _stated(subject: Any) -> Intervals | None:
    """The intervals that a result states, or that its file has."""
    found = subject.stated if hasattr(subject, "stated") else getattr(subject, "intervals", None)
    return None if callable(found) else found


def _refuse_shapes(pomdp: POMDP, intervals: Intervals | None, verdicts: Verdicts | None) -> None:
    for kind, given, ends in (("intervals", intervals, (2,)), ("verdicts", verdicts, ())):
        for name in ("transitions", "observations", "initial") if given is not None else ():
            shape = np.shape(getattr(given, name))
            expected = (*getattr(pomdp, name).shape, *ends)
            if shape != expected:
                raise DataError(f"{kind}.{name}: shape {shape}, expected {expected}", field=kind)


_WORDS = {
    "identified": "proved: no other model near this one with the same process has other numbers in this row",
    "identified up to relabeling": "proved, but another state shows the same: which is which is a matter of names",
    "bounded": "models with the same process and other numbers were found",
    "never observed": "no log shows anything of this row",
    "not moved": "no model found has other numbers, without a proof",
    "not examined": "not examined",
}
"""What `Identification` says of rows."""


def _verdicts(summary: Summary, pomdp: POMDP) -> Verdicts | None:
    """What identification or, failing that, the partition says of the numbers; None where neither says anything."""
    found = summary.identified
    if found is not None:
        words = [*found.transition_rows.ravel().tolist(), *found.observation_rows.ravel().tolist()]
        said = "; ".join(f"“{word}” – {meaning}" for word, meaning in _WORDS.items() if word in words)
        return Verdicts(
            np.broadcast_to(found.transition_rows[..., None], pomdp.transitions.shape),
            np.broadcast_to(found.observation_rows[..., None], pomdp.observations.shape),
            np.full(pomdp.n_states, ""),
            said + ".",
        )
    entries = summary.undetermined
    if entries is None:
        return None
    transitions, observations, initial = (
        np.where(flags, OPEN, "") for flags in (entries.transitions, entries.observations, entries.initial)
    )
    said = "“open”, marked ~ – a change of basis inside a cell moves this number and no prediction; others it does not."
    return Verdicts(transitions, observations, initial, said)


def _is_own(summary: Summary, pomdp: POMDP, log: Trajectory) -> bool:
    """Whether a log seems to be the one that the model was learned from: as long, and as likely to the last digits."""
    if summary.steps != len(log) or summary.log_likelihood is None:
        return False
    found = pomdp.log_likelihood(as_read(pomdp, log))
    return bool(abs(found - summary.log_likelihood) <= _SAME_LIKELIHOOD * abs(found))


def _followed(pomdp: POMDP, log: Trajectory | None) -> tuple[Step, ...]:
    most = max(1, min(_TRACKED_STEPS, _MOST_TRACKED // pomdp.n_states))
    if log is not None and len(log):
        return tuple(beliefs_along(pomdp, log.head(min(most, len(log)))))
    length = min(_SIMULATED_STEPS, most)
    simulated = simulate(pomdp, length, total=length if pomdp.terminal else None, policy=_tried(pomdp), rng=0)
    return tuple(beliefs_along(pomdp, simulated))


def _tried(pomdp: POMDP) -> Floats:
    """Uniform over the actions whose rows mean something."""
    chosen = np.array([name not in pomdp.untried_actions for name in pomdp.action_names], dtype=float)
    chosen = chosen if chosen.any() else np.ones_like(chosen)
    result: Floats = chosen / chosen.sum()
    return result


def _truth(pomdp: POMDP, truth: POMDP) -> Truth:
    same = (
        truth.n_states == pomdp.n_states
        and set(truth.action_names) == set(pomdp.action_names)
        and bool(set(truth.observation_names) & set(pomdp.observation_names))
    )
    if not same:
        return Truth(truth, matched=False)
    return Truth(truth.reordered(np.argsort(match_states(pomdp, truth))), matched=True)
