"""What can be said about a log before learning from it, and about a model after.

Every function here turns a measurement, which has its own module, into a finding that a person can act on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np

from unlatch.arrays import Ints, own_errstate
from unlatch.core.arguments import checked_log
from unlatch.core.budget import ending
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.progress import report
from unlatch.core.trajectory import Trajectory
from unlatch.errors import NotLearnableError
from unlatch.learn.examine.duplicates import repeated_steps
from unlatch.learn.examine.log_samples import counted
from unlatch.learn.examine.policy_dependence import dependence_on_observations
from unlatch.learn.examine.stationarity import drift_between_halves

__all__ = ["examine", "refuse_deterministic_policy"]

_CHUNK = 1 << 20
"""Steps looked at together, which bounds the memory."""

SIGNIFICANT = 1e-6
_DRIFTING = 1e-4
"""Chance of a false alarm; more for drift, which is judged from the scatter of few blocks."""

_DEPENDENT = 0.02
"""Cramér's V above which the dependence of actions on observations is worth a word. A log of millions of steps
makes the smallest dependence significant; one below moves no estimate by more than its noise."""

REPEATED = 0.01
"""Share of repeated steps from which on they change how much a log seems to say."""

_FUNCTION = 0.999
"""Share of actions that the last observation must explain for the policy to count as deterministic."""

_FEW_STEPS = 40
"""A log this short may look deterministic by chance."""

_NAMED = 10
"""How many untried pairs, or states, a message names."""

OFTEN = 10
"""Visits, or episodes, from which on a part of the system was not only passed through."""


@own_errstate
def examine(log: Trajectory) -> Diagnostics:
    """What stands in the way of learning from ``log``, as far as can be told in a second or two.

    Parameters
    ----------
    log : Trajectory

    Returns
    -------
    Diagnostics
        Any of ``constant_observations``, ``one_action``, ``endings_not_told``, ``actions_depend_on_observations``,
        ``drift`` and ``repeated_log``; empty for a log without peculiarities.

    Examples
    --------
    >>> import unlatch
    >>> log = unlatch.simulate(unlatch.domains.tiger(), 2_000, rng=0)
    >>> [note.name for note in unlatch.examine(log)]
    []
    >>> copied = unlatch.Trajectory(log.actions, log.actions)  # nothing is seen but what was done
    >>> [note.name for note in unlatch.examine(copied)]
    ['constant_observations']
    """
    log = checked_log(log).with_reward_symbols()
    notes = Diagnostics()
    if len(log) == 0:
        return notes
    with ending():
        for done, test in enumerate(_TESTS):
            report("examining the log", done, len(_TESTS))
            if test is _actions_depend_on_observations and "repeated_log" in notes:
                break  # copies double every deviation: what is tested by the number of steps could not be trusted
            notes = notes + test(log)
        return notes
    return notes.noting(  # the budget ended before the tests did
        "not_examined", "there was no time to examine the whole log; call examine(log) by itself"
    )


# --- before learning ------------------------------------------------------------------------------------


def refuse_deterministic_policy(log: Trajectory) -> None:
    """Raise `NotLearnableError` if the last observation settles the action.

    Then what an action does is known only after the observations that it was chosen on, and what it does
    elsewhere cannot be learned. An action that was tried everywhere, however rarely, is no obstacle.
    """
    log = log.with_reward_symbols()
    tried = _Tried(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), len(log.action_names))
    for pairs in _observations_and_next_actions(log):
        tried = tried.adding(pairs)
        if tried.explained() < _FUNCTION:
            return  # whatever the rest of the log is like, here other actions were tried
    if tried.is_policy():
        _refuse(log, tried)


class _Tried(NamedTuple):
    """Pairs ``observation * width + next action`` that occur, and how often."""

    pairs: Ints
    counts: Ints
    width: int

    def adding(self, pairs: Ints) -> _Tried:
        new, times = np.unique(pairs, return_counts=True)
        every, place = np.unique(np.append(self.pairs, new), return_inverse=True)
        counts = np.zeros(len(every), dtype=np.int64)
        np.add.at(counts, place, np.append(self.counts, times))
        return _Tried(every, counts, self.width)

    def explained(self) -> float:
        """Share of actions that are the most frequent one after their observation.

        Observations that came once are left out: any action is a function of those.
        """
        _, start = np.unique(self.pairs // self.width, return_index=True)
        if not len(start):
            return 0.0
        totals, best = np.add.reduceat(self.counts, start), np.maximum.reduceat(self.counts, start)
        several = totals > 1
        return float(best[several].sum() / totals[several].sum()) if several.any() else 0.0

    def is_policy(self) -> bool:
        """Whether the observation explains what always taking one action would not."""
        steps = int(self.counts.sum())
        if steps < _FEW_STEPS:
            return False
        others = steps - int(np.bincount(self.pairs % self.width, weights=self.counts).max())
        return others >= OFTEN and (1 - self.explained()) * steps <= others / OFTEN


def _observations_and_next_actions(log: Trajectory) -> Iterator[Ints]:
    for start in range(0, len(log) - 1, _CHUNK):
        stop = min(start + _CHUNK, len(log) - 1)
        pairs = log.observations[start:stop] * len(log.action_names) + log.actions[start + 1 : stop + 1]
        crossing = log.episode_starts[(log.episode_starts > start) & (log.episode_starts <= stop)] - 1 - start
        yield np.delete(pairs, crossing)


def _refuse(log: Trajectory, tried: _Tried) -> None:
    """Name what was never tried; nothing to refuse if everything was."""
    seen, used = np.unique(tried.pairs // tried.width), np.unique(tried.pairs % tried.width)
    missing = len(seen) * len(used) - len(tried.pairs)
    if missing == 0:
        return
    known = set(tried.pairs.tolist())
    untried = (
        f"{log.action_names[action]!r} after {log.observation_names[observation]!r}"
        for observation in seen.tolist()
        for action in used.tolist()
        if observation * tried.width + action not in known
    )
    raise NotLearnableError(
        f"the last observation settles the action, in {tried.explained():.2%} of the steps, so that some were never "
        f"tried: {listed(untried, missing)}. What they would do cannot be learned from this log: log again with "
        "actions chosen at random, at least now and then"
    )


def _constant_observations(log: Trajectory) -> Diagnostics:
    shown = np.full(len(log.action_names), -1)
    for start in range(0, len(log), _CHUNK):
        actions, observations = log.actions[start : start + _CHUNK], log.observations[start : start + _CHUNK]
        fresh = shown[actions] < 0
        shown[actions[fresh]] = observations[fresh]
        if (shown[actions] != observations).any():
            return Diagnostics()
    return Diagnostics().noting(
        "constant_observations",
        "every action always shows the same observation, so nothing tells hidden states apart: one state explains "
        "the log. To learn more, log observations that vary",
        steps=len(log),
        shown={
            log.action_names[action]: log.observation_names[shown[action]]
            for action in np.flatnonzero(shown >= 0).tolist()
        },
    )


def _one_action(log: Trajectory) -> Diagnostics:
    chunks = (log.actions[start : start + _CHUNK] for start in range(0, len(log), _CHUNK))
    used = np.flatnonzero(counted(chunks, len(log.action_names)))
    unused = [name for action, name in enumerate(log.action_names) if action not in used]
    if len(used) > 1 or not unused:
        return Diagnostics()
    return Diagnostics().noting(
        "one_action",
        f"only {log.action_names[used[0]]!r} was ever used; nothing can be learned about the other "
        f"{len(unused)} declared actions. Log with all of them, or declare only this one",
        used=log.action_names[used[0]],
        unused=unused,
    )


def _endings_not_told(log: Trajectory) -> Diagnostics:
    """Episodes that all have the same length were cut there; the last may have been cut by the end of the log."""
    lengths = log.episode_ends - log.episode_starts
    if log.terminated is not None or (lengths[:-1] == lengths[0]).all():
        return Diagnostics()
    shortest, longest = int(lengths.min()), int(lengths.max())
    return Diagnostics().noting(
        "endings_not_told",
        f"episodes have different lengths ({shortest} to {longest}) and the log does not say whether they ended or "
        "were cut: a learned model will not know endings, and a plan may count on rewards after them. Add a column "
        "terminated (Trajectory(terminated=...)), true where nothing more could happen",
        shortest=shortest,
        longest=longest,
        episodes=log.n_episodes,
    )


def _actions_depend_on_observations(log: Trajectory) -> Diagnostics:
    if log.probabilities is not None:
        return Diagnostics()  # the policy is known, and accounted for
    found = dependence_on_observations(log)
    if not found.confirmed or found.p_value >= SIGNIFICANT or found.effect < _DEPENDENT:
        return Diagnostics()
    return Diagnostics().noting(
        "actions_depend_on_observations",
        f"actions depend on what was observed {found.lag} step{'s' * (found.lag > 1)} before (Cramér's V "
        f"{found.effect:.2f}, p {found.p_value:.1g}). Frequencies of such a log are biased: give the probability "
        "with which every action was chosen, or log with actions that ignore the observations",
        **found._asdict(),
    )


def _drift(log: Trajectory) -> Diagnostics:
    found = drift_between_halves(log)
    if found is None or found.p_value >= _DRIFTING:
        return Diagnostics()
    return Diagnostics().noting(
        "drift",
        f"the halves of the log differ: {found.event} has probability {found.before:.3f}, then {found.after:.3f} "
        f"(p {found.p_value:.1g}). The system or the policy changed, or it changes more slowly than the log is long; "
        "a model averages over both. Learn from the halves apart, or log for longer",
        **found._asdict(),
    )


def _repeated_log(log: Trajectory) -> Diagnostics:
    found = repeated_steps(log)
    if found.share < REPEATED:
        return Diagnostics()
    return Diagnostics().noting(
        "repeated_log",
        f"{found.share:.0%} of the steps repeat earlier ones word for word, most often {found.distance} steps later, "
        "which chance would not do. Copies are no new evidence: errors look smaller than they are, and noise may "
        "pass for states. Remove them, and examine the log again",
        **found._asdict(),
    )


# --- after learning -------------------------------------------------------------------------------------


def listed(names: Iterable[str], total: int) -> str:
    more = f" and {total - _NAMED} more" if total > _NAMED else ""
    return f"{', '.join(islice(names, _NAMED))}{more}"


_TESTS = (
    _constant_observations,
    _one_action,
    _endings_not_told,
    _drift,
    _repeated_log,
    _actions_depend_on_observations,
)
"""What `examine` looks for, in this order."""
