"""What there is to say about a model, as data. Terminal, notebook and report are renderings of it.

Every sentence here follows from what was computed; where nothing was, none is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from unlatch.arrays import Flags
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.evidence import Evidence
from unlatch.core.identification import QUICK_STATES, Identification
from unlatch.core.intervals import Entry, Intervals
from unlatch.core.partition import Partition
from unlatch.core.pomdp import POMDP
from unlatch.core.psr import PSR
from unlatch.core.trajectory import Trajectory
from unlatch.learn.identify.entries import NOTICEABLE, Undetermined, undetermined_entries
from unlatch.learn.identify.identification import identify
from unlatch.learn.identify.learned import identify_learned
from unlatch.show.safe import counted

__all__ = [
    "HankelSummary",
    "Result",
    "Saved",
    "Summary",
    "count_sentences",
    "ending_sentences",
    "interval_sentences",
    "partition_sentences",
    "summarize_pomdp",
    "summarize_result",
    "summarize_saved",
]

_MOST_MOVES = 12

_MOST_ZEROS = 4


class Result(Protocol):
    """What a result of learning has to be summarized by; `LearnResult` does."""

    @property
    def pomdp(self) -> POMDP: ...
    @property
    def partition(self) -> Partition: ...
    @property
    def full_rank_actions(self) -> tuple[int, ...]: ...
    @property
    def evidence(self) -> Evidence | None: ...
    @property
    def steps(self) -> int: ...
    @property
    def episodes(self) -> int: ...
    @property
    def log_likelihood(self) -> float: ...
    @property
    def diagnostics(self) -> Diagnostics: ...
    @property
    def spectral(self) -> Any: ...
    @property
    def complete(self) -> bool: ...
    @property
    def identified(self) -> Identification: ...


class Saved(Protocol):
    """What the content of a model file has to be summarized by; `SavedModel` does."""

    @property
    def model(self) -> POMDP | PSR: ...
    @property
    def partition(self) -> Partition | None: ...
    @property
    def evidence(self) -> Evidence | None: ...
    @property
    def log_likelihood(self) -> float | None: ...
    @property
    def diagnostics(self) -> Diagnostics: ...
    @property
    def provenance(self) -> Mapping[str, Any]: ...
    @property
    def identified(self) -> Identification | None: ...


@dataclass(frozen=True, eq=False)
class HankelSummary:
    """What the spectral stage saw: the rank of its Hankel matrix, singular values, lengths of histories and tests."""

    rank: int
    singular_values: tuple[float, ...]
    history_length: int
    test_length: int


@dataclass(frozen=True, eq=False)
class Summary:
    """A model and what is known about it; None where it is not known.

    ``full_rank_actions`` has names; None if nobody recorded them, empty if there are none. ``untried`` names the
    actions that the log never tried. ``recorded`` is what was found out about its identification when it was learned.
    """

    model: POMDP | PSR
    partition: Partition | None = None
    full_rank_actions: tuple[str, ...] | None = None
    evidence: Evidence | None = None
    steps: int | None = None
    episodes: int | None = None
    log_likelihood: float | None = None
    untried: tuple[str, ...] = ()
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    hankel: HankelSummary | None = None
    complete: bool = True
    recorded: Identification | None = None
    intervals: Intervals | None = None

    @property
    def terminal(self) -> tuple[str, ...]:
        """Names of the states in which an episode is over."""
        if not isinstance(self.model, POMDP):
            return ()
        return tuple(self.model.state_names[state] for state in self.model.terminal)

    @property
    def partition_speaks(self) -> bool:
        """Whether the partition says anything: without an action of full rank it is one cell, for want of a reason
        to part states."""
        return self.partition is not None and self.full_rank_actions != () and isinstance(self.model, POMDP)

    @property
    def settled(self) -> bool:
        """Whether the evidence settles the number of states: found by a complete search, ahead by enough."""
        evidence = self.evidence
        return (
            evidence is not None
            and evidence.complete
            and not evidence.fixed
            and evidence.steps_to_settle == 0
        )

    @cached_property
    def identified(self) -> Identification | None:
        """What is determined of the model, as recorded or told now; None where that would take long."""
        if self.recorded is not None or not isinstance(self.model, POMDP):
            return self.recorded
        if self.model.n_states > QUICK_STATES:
            return None
        return identify(self.model) if self.steps is None else identify_learned(self.model, self.steps)

    @property
    def determined(self) -> bool:
        """Whether it is proved that no other model near this one has its process."""
        return self.identified is not None and self.identified.identified

    @cached_property
    def undetermined(self) -> Undetermined | None:
        """Which entries a change of basis inside a cell moves; None where the partition has no such cell, or where it
        is proved that none can."""
        if not self.partition_speaks or not isinstance(self.model, POMDP) or self.partition is None:
            return None
        if self.partition.is_trivial or self.determined:
            return None
        return undetermined_entries(self.model, self.partition, tolerance=NOTICEABLE)


def summarize_pomdp(pomdp: POMDP) -> Summary:
    """A model of which nothing but its numbers is known."""
    return Summary(model=pomdp, untried=pomdp.untried_actions)


def summarize_result(result: Result) -> Summary:
    """What a `LearnResult` says of the model that it returns."""
    names = result.pomdp.action_names
    return Summary(
        model=result.pomdp,
        partition=result.partition,
        full_rank_actions=tuple(names[a] for a in result.full_rank_actions),
        evidence=result.evidence,
        steps=result.steps,
        episodes=result.episodes,
        log_likelihood=result.log_likelihood,
        untried=result.pomdp.untried_actions,
        diagnostics=result.diagnostics,
        hankel=_hankel(result.spectral),
        complete=result.complete,
        recorded=result.identified if result.pomdp.n_states <= QUICK_STATES else None,
        intervals=getattr(result, "stated", None),
    )


def _hankel(spectral: Any) -> HankelSummary | None:
    if spectral is None:
        return None
    return HankelSummary(
        rank=spectral.rank,
        singular_values=tuple(float(value) for value in spectral.singular_values[: spectral.rank + 2]),
        history_length=spectral.hankel.history_length,
        test_length=spectral.hankel.test_length,
    )


def summarize_saved(saved: Saved) -> Summary:
    """What a model file says. Its provenance may hold anything: what does not fit is taken for not known."""
    model = saved.model
    log = _section(saved.provenance, "log")
    return Summary(
        model=model,
        partition=saved.partition,
        full_rank_actions=_recorded_names(saved.provenance, "full_rank_actions", model.action_names),
        evidence=saved.evidence,
        steps=_recorded_count(log, "steps"),
        episodes=_recorded_count(log, "episodes"),
        log_likelihood=saved.log_likelihood,
        untried=model.untried_actions if isinstance(model, POMDP) else (),
        diagnostics=saved.diagnostics,
        hankel=_recorded_hankel(_section(saved.provenance, "spectral")),
        complete=saved.evidence is None or saved.evidence.complete,
        recorded=saved.identified,
        intervals=getattr(saved, "intervals", None),
    )


def _section(provenance: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = provenance.get(key)
    return value if isinstance(value, Mapping) else {}


def _recorded_hankel(spectral: Mapping[str, Any]) -> HankelSummary | None:
    counts = [_recorded_count(spectral, key) for key in ("rank", "history_length", "test_length")]
    values = spectral.get("singular_values")
    if None in counts or not isinstance(values, list | tuple):
        return None
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return None
    rank, history_length, test_length = (count or 0 for count in counts)
    return HankelSummary(rank, tuple(map(float, values[: rank + 2])), history_length, test_length)


def _recorded_names(
    provenance: Mapping[str, Any], key: str, known: tuple[str, ...]
) -> tuple[str, ...] | None:
    """The names under ``key`` if they are names of this model, else None."""
    names = provenance.get(key)
    if not isinstance(names, list | tuple) or not all(
        isinstance(name, str) and name in known for name in names
    ):
        return None
    return tuple(names)


def _recorded_count(provenance: Mapping[str, Any], key: str) -> int | None:
    value = provenance.get(key)
    return value if type(value) is int and value >= 0 else None


# --- sentences -------------------------------------------------------------------------------------------


def count_sentences(summary: Summary) -> tuple[str, ...]:
    """The log, the number of states, and how sure it is."""
    if not isinstance(summary.model, POMDP):
        return ()
    states = counted(summary.model.n_states, "hidden state") + _ends(summary)
    said = [states] if summary.steps is None else [f"{_log(summary)}; {states}"]
    if summary.evidence is not None:
        said.append(f"evidence: {summary.evidence}")
    if summary.log_likelihood is not None:
        said.append(f"log-likelihood of the model on its log: {_nats(summary)}")
    if summary.hankel is not None:
        said.append(_hankel_sentence(summary.hankel))
    return tuple(said)


def _ends(summary: Summary) -> str:
    if not summary.terminal:
        return ""
    are = "is" if len(summary.terminal) == 1 else "are"
    return f", of which {', '.join(summary.terminal)} {are} the end"


def ending_sentences(log: Trajectory) -> tuple[str, ...]:
    """How many episodes of a log ended, if it tells."""
    if log.terminated is None:
        return ()
    ended = int(log.terminated.sum())
    return (f"{ended} of {counted(log.n_episodes, 'episode')} ended, {log.n_episodes - ended} were cut",)


def _log(summary: Summary) -> str:
    steps = counted(summary.steps or 0, "step")
    return steps if summary.episodes is None else f"{steps} in {counted(summary.episodes, 'episode')}"


def _nats(summary: Summary) -> str:
    total = f"{summary.log_likelihood:.6g} nats"
    if not summary.steps or summary.log_likelihood is None:
        return total
    return f"{total}, {summary.log_likelihood / summary.steps:.6f} per step"


def _hankel_sentence(hankel: HankelSummary) -> str:
    values = ", ".join(f"{value:.3g}" for value in hankel.singular_values)
    return (
        f"Hankel matrix: rank {hankel.rank}, leading singular values {values} (histories to "
        f"{hankel.history_length - 1}, tests to {hankel.test_length})"
    )


def partition_sentences(summary: Summary) -> tuple[str, ...]:
    """What the observability partition says of this model, and nothing beyond it."""
    if not isinstance(summary.model, POMDP):
        return ()
    if summary.partition is None:
        return tuple(_identified(summary))
    if not summary.partition_speaks:
        return (
            "no action of full rank: the observability partition says nothing about which states, or which numbers, "
            "the log determines",
            *_identified(summary),
        )
    said = [_cells(summary.model, summary.partition)]
    if summary.full_rank_actions:
        said.insert(0, f"full-rank actions: {', '.join(summary.full_rank_actions)}")
    if summary.model.n_states > 1:
        said += _trivial(summary) if summary.partition.is_trivial else _confounded(summary)
    said += _identified(summary)
    if summary.model.n_states > 1:
        said += _reservations(summary)
    return tuple(said)


def _identified(summary: Summary) -> list[str]:
    """What is proved about the numbers of the model as they are; the log knows them up to noise."""
    found = summary.identified
    if found is None:
        return []
    said = [str(found), _rows_in_words(found)]
    for words, zeros in (("rests on", found.zeros), ("would rest on", found.doubted)):
        if zeros:
            more = f", and {len(zeros) - _MOST_ZEROS} more" if len(zeros) > _MOST_ZEROS else ""
            said.append(f"{words}: {'; '.join(str(zero) for zero in zeros[:_MOST_ZEROS])}{more}")
    return said


def _rows_in_words(found: Identification) -> str:
    return "rows: " + ", ".join(f"{number} {word}" for word, number in found.row_counts().items())


def interval_sentences(summary: Summary) -> tuple[str, ...]:
    """How sure the numbers are."""
    intervals = summary.intervals
    if intervals is None or not isinstance(summary.model, POMDP):
        return ()
    said = [str(intervals)]
    widest = intervals.widest
    if widest is not None:
        low, high = intervals.of(widest)
        said.append(f"the widest: {_named(summary.model, widest)}, from {low:.3g} to {high:.3g}")
    return tuple(said)


def _named(pomdp: POMDP, entry: Entry) -> str:
    """A number in words."""
    state = "" if entry.state is None else pomdp.state_names[entry.state]
    if entry.kind == "initial":
        return f"that an episode starts in {pomdp.state_names[entry.outcome]}"
    if entry.kind == "first_observations":
        return f"that {state} shows {pomdp.first_observation_names[entry.outcome]} first"
    under = "" if entry.action is None else f" under {pomdp.action_names[entry.action]}"
    if entry.kind == "transitions":
        return f"that {state} leads to {pomdp.state_names[entry.outcome]}{under}"
    if entry.kind == "observations":
        return f"that {state} shows {pomdp.observation_names[entry.outcome]}{under}"
    assert pomdp.reward_values is not None
    return f"that {state} pays {pomdp.reward_values[entry.outcome]:g}{under}"


def _cells(pomdp: POMDP, partition: Partition) -> str:
    cells = ", ".join("{" + ", ".join(pomdp.state_names[s] for s in cell) + "}" for cell in partition.cells)
    return f"observability partition: {cells}"


def _by(summary: Summary) -> str:
    return f" ({', '.join(summary.full_rank_actions)})" if summary.full_rank_actions else ""


def _trivial(summary: Summary) -> list[str]:
    return [
        f"no two states of this model share their observation rows under all full-rank actions{_by(summary)}"
    ]


def _confounded(summary: Summary) -> list[str]:
    """Cells of several states, and which entries a change of basis inside them moves."""
    assert summary.partition is not None  # the caller looked
    said = [
        f"states {', '.join(summary.model.state_names[s] for s in cell)} show the same under every full-rank "  # type: ignore[union-attr]
        f"action{_by(summary)}"
        for cell in summary.partition.cells
        if len(cell) > 1
    ]
    if summary.determined:
        return said
    entries = summary.undetermined
    if entries is None or not entries.any:
        return [
            *said,
            f"no change of basis inside a cell moves an entry by more than {NOTICEABLE} to first order",
        ]
    said += _open_entries(summary.model, entries)  # type: ignore[arg-type]
    said.append(
        "the numbers marked ~ are one choice among many with the same predictions: a change of basis inside a cell "
        "moves them; the probability of a cell after any history stays"
    )
    return said


def _open_entries(pomdp: POMDP, entries: Undetermined) -> list[str]:
    said = []
    for a, name in enumerate(pomdp.action_names):
        moves = _open_moves(pomdp, entries.transitions[a])
        if moves:
            said.append(f"not determined under {name}: transitions {', '.join(moves)}")
        rows = [pomdp.state_names[s] for s in np.flatnonzero(entries.observations[a].any(axis=1))]
        if rows:
            said.append(f"not determined under {name}: observations of {', '.join(rows)}")
    return said


def _open_moves(pomdp: POMDP, undetermined: Flags) -> list[str]:
    pairs = np.argwhere(undetermined)
    moves = [f"{pomdp.state_names[s]}→{pomdp.state_names[t]}" for s, t in pairs[:_MOST_MOVES]]
    return moves if len(pairs) <= _MOST_MOVES else [*moves, f"... ({len(pairs)} in all)"]


def _reservations(summary: Summary) -> list[str]:
    """A partition is of the states that were found: it says nothing about states that were not."""
    if summary.evidence is None or summary.settled:
        return []
    states = summary.model.n_states  # type: ignore[union-attr]
    reason = "was given, not found" if summary.evidence.fixed else "is not settled by this log"
    return [f"this speaks of the model with {states} states; that number {reason}"]
