"""How sure the number of states is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

__all__ = ["Evidence", "weigh"]

SETTLED = 5.0
"""Nats of penalized likelihood (odds of about 150 to 1) at which a count is called settled."""


@dataclass(frozen=True)
class Evidence:
    """The penalized likelihood of every number of states that was tried, and what follows from it.

    Attributes
    ----------
    states : int
        The number chosen.
    scores : mapping of int to float
        Nats of penalized likelihood (BIC) relative to the chosen model, by number of states.
    runner_up : int or None
        The number with the next best score.
    gap : float
        How many nats the runner-up lies behind; infinite if nothing else was tried.
    steps : int
        Steps of the log that the comparison was made on.
    steps_to_settle : int or None
        How many more steps of the same kind should bring the gap to 5 nats; 0 if it is there already, None if
        that cannot be told.
    complete : bool
        False if the search was cut short by a time limit or by Ctrl-C.
    """

    states: int
    scores: Mapping[int, float]
    runner_up: int | None
    gap: float
    steps: int
    steps_to_settle: int | None
    complete: bool = True

    def __str__(self) -> str:
        if self.runner_up is None:
            return f"{self.states} states; no other number was tried"
        text = f"{self.states} states; runner-up {self.runner_up}, {self.gap:.1f} nats behind on {self.steps} steps"
        if self.steps_to_settle:
            text += f"; about {self.steps_to_settle} more steps would settle it"
        return text if self.complete else text + "; the search was cut short"


def weigh(states: int, scores: Mapping[int, float], steps: int, complete: bool) -> Evidence:
    """Evidence from absolute scores of models compared on the same ``steps``."""
    relative = {count: score - scores[states] for count, score in sorted(scores.items())}
    others = {count: score for count, score in relative.items() if count != states}
    if not others:
        return Evidence(states, relative, None, np.inf, steps, None, complete)
    runner_up = max(others, key=lambda count: others[count])
    gap = -others[runner_up]
    return Evidence(
        states, relative, runner_up, gap, steps, _more_steps(gap, steps, runner_up < states), complete
    )


def _more_steps(gap: float, steps: int, too_few: bool) -> int | None:
    """A model with too few states falls behind in proportion to the steps; one with too many, only by the
    logarithm of their number, which cannot be extrapolated."""
    if gap >= SETTLED:
        return 0
    if not too_few or gap <= 0:
        return None
    return int(np.ceil(steps * (SETTLED / gap - 1)))
