"""What can be said about a model after learning: whether it explains its log, and which states the log left."""

from __future__ import annotations

import numpy as np

from unlatch.arrays import Flags, Floats, Ints, own_errstate
from unlatch.core.arguments import checked_log
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.pomdp import POMDP
from unlatch.core.progress import report
from unlatch.core.trajectory import Trajectory
from unlatch.errors import NumericalError
from unlatch.learn.examine.duplicates import repeated_steps
from unlatch.learn.examine.goodness_of_fit import misfit
from unlatch.learn.examine.log import OFTEN, REPEATED, SIGNIFICANT, listed
from unlatch.learn.likelihood.forward_backward import expectation
from unlatch.learn.likelihood.parameters import ExpectedCounts
from unlatch.learn.significance import USED

__all__ = ["examine_model"]

_MISFIT = 0.03
"""Standardized residual per step above which a fit is called poor, for the same reason."""

_VISIBLE = 1e-3
"""Share of a log from which on a class of states is more than a rounding of its edges."""


@own_errstate
def examine_model(pomdp: POMDP, log: Trajectory, *, counts: ExpectedCounts | None = None) -> Diagnostics:
    """Whether ``pomdp``, learned from ``log``, explains it, and which of its states the log says little about.

    Parameters
    ----------
    pomdp : POMDP
    log : Trajectory
    counts : ExpectedCounts, optional
        Of ``log`` under ``pomdp``, if they are at hand; computed otherwise.

    Returns
    -------
    Diagnostics
        Any of ``several_classes`` and ``poor_fit``.

    Examples
    --------
    >>> import unlatch
    >>> tiger = unlatch.domains.tiger()
    >>> [note.name for note in unlatch.examine_model(tiger, unlatch.simulate(tiger, 2_000, rng=0))]
    []
    >>> one_state = unlatch.learn_em(unlatch.simulate(tiger, 2_000, rng=0), states=1, rng=0).pomdp
    >>> [note.name for note in unlatch.examine_model(one_state, unlatch.simulate(tiger, 2_000, rng=0))]
    ['poor_fit']
    """
    if len(checked_log(log)) == 0:
        return Diagnostics()
    report("examining the model", 0, 2)
    classes = _several_classes(pomdp, log, counts)
    report("examining the model", 1, 2)
    return classes + _poor_fit(pomdp, log)


def _several_classes(pomdp: POMDP, log: Trajectory, counts: ExpectedCounts | None) -> Diagnostics:
    if counts is None:
        try:
            counts = expectation(pomdp, log)
        except NumericalError:
            return Diagnostics()  # the log is impossible under the model: a poor fit, and noted as such
    live = pomdp.going_on > 0  # nothing is left to see of an episode that ended
    visits = counts.observations.sum(axis=(0, 2)) * live
    moves = (counts.transitions.sum(axis=0) >= USED) & live
    recurrent, transient = _classes(moves, visits, counts.initial, log.n_episodes)
    least = max(_VISIBLE * visits.sum(), OFTEN)
    recurrent = [states for states in recurrent if visits[states].sum() >= least]
    passed = visits[transient].sum() >= least
    if len(recurrent) < 2 and not passed:
        return Diagnostics()

    def named(states: Ints) -> list[str]:
        return [pomdp.state_names[state] for state in states.tolist()]

    def told(states: Ints) -> str:
        return f"{listed(named(states), len(states))} ({visits[states].sum() / visits.sum():.1%} of it)"

    left = f", having left for good {told(transient)}" if passed else ""
    return Diagnostics().noting(
        "several_classes",
        f"the log does not move freely between all states: it stays in {'; '.join(map(told, recurrent))}{left}. "
        "What it entered or left once it says little about, and averages over it mix the classes. Learn from the parts "
        "apart, or log many episodes",
        recurrent=[named(states) for states in recurrent],
        transient=named(transient),
        shares=[float(visits[states].sum() / visits.sum()) for states in recurrent],
        transient_share=float(visits[transient].sum() / visits.sum()),
    )


def _classes(moves: Flags, visits: Floats, begun: Floats, episodes: int) -> tuple[list[Ints], Ints]:
    """Classes of states that the log moved between and did not leave, and the states that it left for good.

    Moves are those that the log has seen, not those that the model allows: a fitted probability is seldom quite
    zero. ``begun`` counts the episodes that started in every state. States without visits are in neither.
    """
    from scipy.sparse.csgraph import connected_components

    visited = visits >= USED
    if episodes >= OFTEN:  # a new episode leads back to where episodes begin
        moves = moves | (visited[:, None] & (begun >= USED))
    _, labels = connected_components(moves, directed=True, connection="strong")
    leaves = (moves & (labels[:, None] != labels)).any(axis=1)
    open_classes = np.unique(labels[leaves])
    closed = [label for label in np.unique(labels[visited]).tolist() if label not in open_classes]
    return (
        [np.flatnonzero((labels == label) & visited) for label in closed],
        np.flatnonzero(visited & np.isin(labels, open_classes)),
    )


def _poor_fit(pomdp: POMDP, log: Trajectory) -> Diagnostics:
    found = misfit(pomdp, log)
    if not found.impossible:
        if found.p_value >= SIGNIFICANT or found.effect < _MISFIT:
            return Diagnostics()
        if repeated_steps(log).share >= REPEATED:
            return Diagnostics()  # copies double every deviation; they are noted before learning
    reason = (
        f"{found.impossible} of {found.steps} observations are impossible under it"
        if found.impossible
        else f"{_CLUES[found.clue]} (p {found.p_value:.1g}, {found.effect:.2f} standard deviations per step)"
    )
    return Diagnostics().noting(
        "poor_fit",
        f"the model does not explain the log: {reason}. Refine the model, allow more states, or check whether the log "
        "is one system throughout",
        **found._asdict(),
    )


_BETTER = "predicts better than the model's memory"

_CLUES = {
    "calibration": "its predicted probabilities are off",
    "lag 1": f"the pair one step before {_BETTER}",
    "lag 2": f"the pair two steps before {_BETTER}",
    "lag 3": f"the pair three steps before {_BETTER}",
    "last rare": f"what was seen last of the rarer observations {_BETTER}",
    "unlikely": "observations that it calls all but impossible keep occurring",
}
