"""Weigh the scores of different numbers of states."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from unlatch.core.evidence import Evidence

__all__ = ["SETTLED", "weigh"]

SETTLED = 5.0
"""Nats of penalized likelihood (odds of about 150 to 1) at which a count is called settled."""


def weigh(
    states: int, scores: Mapping[int, float], steps: int, complete: bool, *, fixed: bool = False
) -> Evidence:
    """Evidence from absolute scores of models compared on the same ``steps``.

    Unless the caller fixed it, the chosen count is the one with the best score.
    """
    relative = {count: score - scores[states] for count, score in sorted(scores.items())}
    others = {count: score for count, score in relative.items() if count != states}
    if not others:
        return Evidence(states, relative, None, np.inf, steps, None, complete, fixed)
    runner_up = max(others, key=lambda count: others[count])
    gap = max(-others[runner_up], 0.0) if fixed else -others[runner_up]
    more = _more_steps(gap, steps, runner_up < states)
    return Evidence(states, relative, runner_up, gap, steps, more, complete, fixed)


def _more_steps(gap: float, steps: int, too_few: bool) -> int | None:
    """A model with too few states falls behind in proportion to the steps; one with too many, only by the
    logarithm of their number, which cannot be extrapolated."""
    if gap >= SETTLED:
        return 0
    if not too_few or gap <= 0:
        return None
    return int(np.ceil(steps * (SETTLED / gap - 1)))
