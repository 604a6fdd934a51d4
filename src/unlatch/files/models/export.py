"""A problem as formats without departure emission, terminal states or first observations can hold it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlatch.arrays import Floats
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.emission import with_emission
from unlatch.core.pomdp import POMDP
from unlatch.core.problem import Problem
from unlatch.errors import UsageError

__all__ = ["Export", "exported", "plain_number"]

_DROPPED = 1e-10
"""Probabilities below this are taken for zero by the reference tools."""


class Export(NamedTuple):
    """A model on arrival, ``rewards[a, s, t, o]`` with axes of length 1 where they make no difference, and notes."""

    pomdp: POMDP
    rewards: Floats
    discount: float
    notes: Diagnostics


def exported(problem: Problem) -> Export:
    """The problem on arrival, and what is said in another form than before."""
    model = problem.model
    if not isinstance(model, POMDP):
        raise UsageError(
            f"a {type(model).__name__} cannot be written to this format; take a POMDP, or .json or .npz"
        )
    on_arrival = with_emission(problem, "arrival")
    pomdp = on_arrival.model
    assert isinstance(pomdp, POMDP)
    notes = Diagnostics()
    if model.emission == "departure":
        notes = notes.noting(
            "emission_converted",
            f"the format shows observations on arrival: the same process, with {pomdp.n_states} instead of "
            f"{model.n_states} states",
            states=pomdp.n_states,
        )
    notes = _noting_losses(notes, problem, pomdp)
    return Export(pomdp, on_arrival.reward_table, problem.discount, notes)


def _noting_losses(notes: Diagnostics, problem: Problem, pomdp: POMDP) -> Diagnostics:
    if pomdp.terminal:
        notes = notes.noting(
            "terminal_as_absorbing",
            f"the format has no terminal states: {len(pomdp.terminal)} are written as states that lead to themselves "
            "and pay nothing; unlatch reads them back as terminal",
        )
    if pomdp.first_observations is not None:
        notes = notes.noting(
            "first_observations_in_comment",
            "the format has no observations before the first action: other tools will not know of them",
        )
    if problem.resolved.rewards.any():
        notes = notes.noting(
            "rewards_averaged",
            "the format has no random rewards: those that the model pays beside its observations are written with "
            "their expectation",
        )
    smallest = min(float(rows[rows > 0].min()) for rows in (pomdp.transitions, pomdp.observations))
    if smallest < _DROPPED:
        notes = notes.noting(
            "tiny_probabilities",
            f"probabilities down to {smallest:.1e} are written; the reference tools drop those below {_DROPPED:g}",
            smallest=smallest,
        )
    return notes


def plain_number(value: float) -> str:
    """The shortest decimal without an exponent that reads back as the same float."""
    return np.format_float_positional(value, unique=True, trim="-")
