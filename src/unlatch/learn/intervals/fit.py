"""A model beside the log that it was fitted to: which of its numbers the log has used, and which it could have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from unlatch.arrays import Flags, Floats
from unlatch.core.intervals import Rows
from unlatch.core.pomdp import POMDP
from unlatch.core.trajectory import Trajectory
from unlatch.errors import NotLearnableError
from unlatch.learn.likelihood.blocks import BlockedLog
from unlatch.learn.likelihood.climb import Ascent
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import ExpectedCounts, Parameters, parameters_of
from unlatch.learn.likelihood.refine import with_parameters
from unlatch.learn.significance import USED

__all__ = ["Fit"]

_SAME = 1e-9
"""Difference up to which a start is the stationary distribution."""


@dataclass(frozen=True, eq=False)
class Fit:
    """A model near the maximum of its likelihood, with the log.

    Attributes
    ----------
    pomdp : POMDP
    parameters : Parameters
        Its numbers; rows that all actions share are there once.
    likelihood : Likelihood
    counts : ExpectedCounts
        How often the log used every number.
    episodes, longest_episode : int
        How many there are, and the steps of the longest; None if there is but one.
    policy : array, shape (actions,)
        How often every action was taken, as a share of all.
    """

    pomdp: POMDP
    parameters: Parameters
    likelihood: Likelihood
    counts: ExpectedCounts
    episodes: int
    longest_episode: int | None
    policy: Floats

    @classmethod
    def of(
        cls, pomdp: POMDP, log: Trajectory, *, shared: bool = False, whole: Likelihood | None = None
    ) -> Fit:
        """One pass over the log: over all of it where ``log`` is a sample and ``whole`` the likelihood of the whole, in
        the alphabets of the model."""
        if len(log) == 0:
            raise NotLearnableError("the log has no steps; it says nothing about any number")
        parameters = parameters_of(pomdp)
        if shared:  # those of an action that was never tried are placeholders
            tried = [a for a, name in enumerate(pomdp.action_names) if name not in pomdp.untried_actions]
            rows = pomdp.observations[tried[:1] or [0]]
            parameters = replace(
                parameters, observations=np.repeat(rows, pomdp.n_actions, axis=0), shared=True
            )
        likelihood = whole or Likelihood.of(log, pomdp.emission, pomdp)
        events = likelihood.log
        taken = events.seen.sum(axis=1)
        return cls(
            pomdp=pomdp,
            parameters=parameters,
            likelihood=likelihood,
            counts=likelihood.counts(parameters),
            episodes=events.episodes if isinstance(events, BlockedLog) else log.n_episodes,
            longest_episode=_longest_episode(log),
            policy=taken / taken.sum(),
        )

    @property
    def steps(self) -> int:
        return self.likelihood.steps

    @property
    def start_is_told(self) -> bool:
        """Whether the log says where episodes begin: a single one does not."""
        return self.episodes > 1

    @cached_property
    def settled(self) -> bool:
        """Whether ``initial`` is where the process is in the long run, for want of anything better: then it follows the
        other numbers."""
        if self.start_is_told or self.pomdp.terminal:
            return False
        return bool(np.abs(self.pomdp.initial - self.pomdp.stationary(self.policy)).max() < _SAME)

    @cached_property
    def visited(self) -> list[Flags]:
        """For each block, the rows that the log has a say in, with a last axis of length one."""
        rows = [uses.sum(axis=-1, keepdims=True) > USED for uses in self.counts.blocks]
        rows[0] = rows[0] & self.start_is_told
        rows[1] = rows[1] & ~self.parameters.terminal[:, None]
        return rows

    @cached_property
    def used(self) -> list[Flags]:
        """For each block, the entries of visited rows that the log has used."""
        return [
            (rows > 0) & (uses > USED) & visited
            for rows, uses, visited in zip(self.parameters, self.counts.blocks, self.visited, strict=True)
        ]

    @cached_property
    def free(self) -> list[Flags]:
        """For each block, the used entries that are not alone in their row."""
        return [used & (used.sum(axis=-1, keepdims=True) > 1) for used in self.used]

    @cached_property
    def closed(self) -> list[Flags]:
        """For each block, the entries of visited rows that the log has not used: at zero, or next to it."""
        return [
            visited & ~used & used.any(axis=-1, keepdims=True)
            for visited, used in zip(self.visited, self.used, strict=True)
        ]

    @property
    def ascent(self) -> Ascent:
        """As the end of a climb."""
        return Ascent(self.parameters, self.counts, passes=1, gradient=np.inf, converged=True)

    def model(self, blocks: Sequence[Floats]) -> POMDP:
        """The model with other numbers, in the order of `Parameters.blocks`; its start follows if it is settled."""
        changed = with_parameters(self.pomdp, self.parameters.with_blocks(blocks))
        untried = [self.pomdp.action_names.index(name) for name in self.pomdp.untried_actions]
        if untried and self.parameters.shared:
            shown = changed.observations.copy()
            shown[untried] = self.pomdp.observations[untried]
            changed = replace(changed, observations=shown)
        return replace(changed, initial=changed.stationary(self.policy)) if self.settled else changed

    def as_rows(self, blocks: Sequence[Floats]) -> Rows:
        """Arrays in the order of `Parameters.blocks`, which may have a further axis, shaped as the model's."""
        given = iter(blocks)
        initial, moves, shown = next(given), next(given), next(given)
        first = next(given) if self.parameters.first is not None else None
        paid = next(given) if self.parameters.rewards is not None else None
        if self.parameters.shared:
            shown = np.repeat(shown, self.pomdp.n_actions, axis=0)
        return Rows(initial, moves, shown, first, paid)


def _longest_episode(log: Trajectory) -> int | None:
    if log.n_episodes == 1:
        return None
    return int(np.diff(np.append(log.episode_starts, len(log))).max())
