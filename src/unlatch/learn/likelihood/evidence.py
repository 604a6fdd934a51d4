"""Weigh the scores of different numbers of states, and see which number predicts best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from unlatch.core.evidence import Evidence
from unlatch.errors import NumericalError
from unlatch.learn.likelihood.marginal import Candidate, expected_lead
from unlatch.learn.likelihood.objective import Hypothesis, Likelihood
from unlatch.learn.likelihood.starts import reopened
from unlatch.learn.likelihood.zeros import maximize, simplest, with_established_zeros

__all__ = ["SETTLED", "predictive_states", "weigh"]

SETTLED = 5.0
"""Nats of evidence (odds of about 150 to 1) at which a count is called settled."""

_NOISE = 1.0
"""Nats that each further number of a model has gained by fitting noise: half a nat at the maximum that it is climbed
to, as much again since it was chosen among others."""

_FORESEEN = 30.0
"""How many times as many steps are spoken of: what a log says about a log that is longer still is mostly its noise."""

_LEARNED_FROM = 0.75
"""Share of the log that models are learned from, to see which predicts the rest better."""


def weigh(
    states: int,
    scores: Mapping[int, float],
    steps: int,
    complete: bool,
    *,
    compared: Mapping[int, Candidate] | Iterable[int] = (),
    fixed: bool = False,
) -> Evidence:
    """Evidence from scores of models relative to the chosen one.

    The runner-up is the best of those ``compared`` on the same ``steps`` as the chosen one, to which all scores belong
    if none is named. Where their models are given, too, they tell how many more steps would settle it. Unless the
    caller fixed it, the chosen count is the one with the best score, or one with fewer states half a nat below it.
    """
    relative = dict(sorted(scores.items()))
    rivals = {n: relative[n] for n in (set(compared) or set(relative)) if n != states}
    if not rivals:
        return Evidence(states, relative, None, np.inf, steps, None, complete, fixed)
    runner_up = max(rivals, key=lambda count: rivals[count])
    gap = max(-rivals[runner_up], 0.0)
    more = 0 if gap >= SETTLED else None
    if more is None and runner_up < states and isinstance(compared, Mapping) and compared:
        more = _more_steps(compared[states], compared[runner_up], steps)
    return Evidence(states, relative, runner_up, gap, steps, more, complete, fixed)


def predictive_states(
    found: Mapping[int, Candidate], states: int, hypothesis: Hypothesis, likelihood: Likelihood
) -> int:
    """The number of states whose model predicts further steps best, as far as models are at hand.

    The likelihood of the log flatters a model by about a nat for each of its parameters (Akaike). Where another number
    is ahead by `SETTLED` nats once that is taken off, both are learned anew from the first part of the log, from where
    they are, and predict the rest; the other must be ahead by as much there, too.
    """
    expected = {n: candidate.log_likelihood - candidate.free for n, candidate in found.items()}
    other = max(expected, key=lambda n: expected[n], default=states)
    if states not in found or expected[other] < expected[states] + SETTLED:
        return states
    part = hypothesis.likelihood(max(1, int(_LEARNED_FROM * likelihood.steps)))
    ahead = _predicted(found[other], part, likelihood) - _predicted(found[states], part, likelihood)
    return other if ahead > SETTLED else states


def _predicted(candidate: Candidate, part: Likelihood, whole: Likelihood) -> float:
    """Log-likelihood of the rest of the log under the model that its first part leads to. Its zeros are found anew too:
    those of the whole log know the rest."""
    climbed = simplest(maximize(reopened(candidate.parameters, part), part), part).ascent
    try:
        opened, _ = with_established_zeros(climbed)
        return whole.counts(opened).log_likelihood - part.counts(opened).log_likelihood
    except NumericalError:
        return -np.inf


def _more_steps(chosen: Candidate, fewer: Candidate, steps: int) -> int | None:
    """Steps after which the chosen model should lead by `SETTLED` nats, less a standard deviation of that lead; None if
    what it is likelier by is no more than noise, or if more than `_FORESEEN` times as many would be needed.

    A model with too few states falls behind in proportion to the steps. One with too many does so only by the
    logarithm of their number, which cannot be extrapolated.
    """
    ratios = np.geomspace(1.0, _FORESEEN, 200)[1:]
    likelier = chosen.log_likelihood - fewer.log_likelihood - _NOISE * (chosen.free - fewer.free)
    # Of two models that are near each other the one is likelier by some nats, and the variance of these is twice as
    # many: that of what was seen, which is extrapolated, and that of what comes.
    deviations = np.sqrt(2 * max(likelier, 0.0) * ratios * (ratios - 1))
    leads = np.array([expected_lead(chosen, fewer, float(ratio), _NOISE) for ratio in ratios]) - deviations
    enough = ratios[leads >= SETTLED]
    return int(np.ceil(steps * (enough[0] - 1))) if likelier > 0 and len(enough) else None
