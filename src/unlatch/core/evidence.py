"""How sure the number of states is, and which of them shows the observation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from unlatch.core import html
from unlatch.errors import DataError

__all__ = ["Evidence"]


@dataclass(frozen=True)
class Evidence:
    """The evidence for every number of states that was tried, and what follows from it.

    That for a model is the probability of the log under it, whatever its numbers (docs/formulas.md).

    Attributes
    ----------
    states : int
        The number chosen.
    scores : mapping of int to float
        Nats of evidence relative to the chosen model, by number of states. Those beside the chosen number and the
        runner-up are of the search, from shorter climbs on part of a long log.
    runner_up : int or None
        The best other number of those whose models were climbed to the end, and given their zeros, as the chosen one
        was.
    gap : float
        How many nats the runner-up lies behind, never negative; infinite if nothing else was compared. Zero where
        another count scores higher, since the caller fixed this one or since more states gain less than half a nat:
        then ``scores`` says by how much.
    steps : int
        Steps of the log that chosen model and runner-up were compared on.
    steps_to_settle : int or None
        How many more steps of the same kind should bring the gap to 5 nats; 0 if it is there already, None if
        that cannot be told.
    complete : bool
        False if the search was cut short by a time limit or by Ctrl-C.
    fixed : bool
        True if the caller fixed the number of states.
    emission : str
        How the observation comes about in the chosen model: "departure", "arrival", or the latter with rewards by the
        state left. Empty if unknown.
    emission_scores : mapping of str to float
        Nats relative to the chosen model, by emission, at the best number of states of each; only what was compared to
        the end.
    emissions_given_up : tuple of str
        Those whose search ended early, clearly behind another one that was done and had no more states, or had left
        nothing to explain.
    predictive_states : int or None
        The number of states that predicts further steps best, among those compared to the end: where states are faint,
        fewer may predict better than the log has evidence for, or more. The chosen number if no other was seen to do
        so; None if there was no time to look, and in files that were written before it was looked at.

    Examples
    --------
    >>> from unlatch import Evidence
    >>> evidence = Evidence(
    ...     states=2, scores={1: -310.2, 2: 0.0, 3: -8.5}, runner_up=3, gap=8.5, steps=5_000, steps_to_settle=0
    ... )
    >>> print(evidence)
    2 states; runner-up 3, 8.5 nats behind on 5000 steps
    """

    states: int
    scores: Mapping[int, float]
    runner_up: int | None
    gap: float
    steps: int
    steps_to_settle: int | None
    complete: bool = True
    fixed: bool = False
    emission: str = ""
    emission_scores: Mapping[str, float] = field(default_factory=dict)
    emissions_given_up: tuple[str, ...] = ()
    predictive_states: int | None = None

    def __post_init__(self) -> None:
        if not self.gap >= 0:
            raise DataError(f"the gap of the evidence cannot be negative, got {self.gap}")
        if self.runner_up is not None and self.runner_up not in self.scores:
            raise DataError(f"evidence: the runner-up {self.runner_up} has no score")

    @property
    def emission_gap(self) -> float:
        """How many nats the next best emission lies behind; infinite if no other was compared to the end."""
        others = [-score for name, score in self.emission_scores.items() if name != self.emission]
        return max(0.0, min(others)) if others else np.inf

    @property
    def emissions_compared(self) -> int:
        """How many emissions were tried."""
        return len(self.emission_scores) + len(self.emissions_given_up)

    def __str__(self) -> str:
        states = f"{self.states} state{'s' * (self.states != 1)}" + " as asked" * self.fixed
        if self.runner_up is None:
            text = f"{states}; no other number was compared on {self.steps} steps"
        elif (lead := self.scores[self.runner_up]) > 0:
            text = f"{states}; {self.runner_up} score {lead:.1f} nats higher on {self.steps} steps"
        else:
            text = f"{states}; runner-up {self.runner_up}, {self.gap:.1f} nats behind on {self.steps} steps"
        if self.fixed and self.scores and max(self.scores) <= self.states:
            text += "; none with more was tried"
        if self.steps_to_settle:
            text += f"; about {self.steps_to_settle} more steps would settle it"
        if self.predictive_states not in (None, self.states):
            text += f"; {self.predictive_states} predict further steps better"
        if np.isfinite(self.emission_gap) and self.states > 1:  # one state is left and reached alike
            text += f"; emission: {self.emission}, by {self.emission_gap:.1f} nats"
        elif self.emissions_given_up:
            text += f"; emission: {self.emission}"
        if self.emissions_given_up:
            text += f" ({' and '.join(self.emissions_given_up)} given up: clearly behind)"
        return text if self.complete else text + "; the search was cut short"

    def _repr_html_(self) -> str:
        """For notebooks: the score of every number of states."""
        rows = ((count, f"{score:.1f}") for count, score in sorted(self.scores.items()))
        return html.page(str(self), html.table(rows, ["states", "nats relative to the chosen"]))

    def as_dict(self) -> dict[str, Any]:
        """Plain values for a file; an infinite gap is None."""
        values = asdict(self)
        values["scores"] = {str(count): float(score) for count, score in self.scores.items()}
        values["gap"] = float(self.gap) if np.isfinite(self.gap) else None
        values["emissions_given_up"] = list(self.emissions_given_up)
        values["emission_scores"] = {name: float(score) for name, score in self.emission_scores.items()}
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Evidence:
        """The inverse of `as_dict`; a `DataError` names the field that does not fit."""
        try:
            gap = values["gap"]
            return cls(
                states=_count("states", values["states"]),
                scores={int(count): float(score) for count, score in values["scores"].items()},
                runner_up=_optional("runner_up", values["runner_up"]),
                gap=np.inf if gap is None else float(gap),
                steps=_count("steps", values["steps"]),
                steps_to_settle=_optional("steps_to_settle", values["steps_to_settle"]),
                complete=bool(values["complete"]),
                fixed=bool(values["fixed"]),
                emission=str(values.get("emission", "")),
                emission_scores={
                    str(name): float(score) for name, score in values.get("emission_scores", {}).items()
                },
                emissions_given_up=tuple(str(name) for name in values.get("emissions_given_up", ())),
                predictive_states=_optional("predictive_states", values.get("predictive_states")),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise DataError(f"evidence: {type(error).__name__}: {error}") from None


def _count(field: str, value: Any) -> int:
    if type(value) is not int or value < 0:
        raise DataError(f"evidence: {field} must be a whole number, got {value!r:.40}")
    return value


def _optional(field: str, value: Any) -> int | None:
    return None if value is None else _count(field, value)
