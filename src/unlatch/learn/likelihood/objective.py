"""What is climbed: the likelihood of one log, read with one emission."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from unlatch.arrays import Floats
from unlatch.core.pomdp import POMDP, Emission
from unlatch.core.trajectory import Trajectory
from unlatch.errors import NumericalError
from unlatch.learn.likelihood.blocks import BlockedLog
from unlatch.learn.likelihood.forward_backward import expected_counts, log_likelihood
from unlatch.learn.likelihood.parameters import (
    EncodedLog,
    ExpectedCounts,
    Parameters,
    encoded_log,
    parameters_of,
)
from unlatch.learn.likelihood.scores import Coordinates, score_products

__all__ = ["Hypothesis", "Likelihood"]

_REMEMBERED = 4
"""Models whose counts are kept: a climb begins where another ended, or where it was asked whether one is possible."""


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The likelihood of a log as a function of the parameters of a model.

    Every pass asks the budget that is active (`Budget.active`) whether it may go on.
    """

    log: EncodedLog
    emission: Emission
    _recent: deque[tuple[Parameters, ExpectedCounts]] = field(
        default_factory=lambda: deque(maxlen=_REMEMBERED), init=False, repr=False
    )

    @classmethod
    def of(
        cls, log: Trajectory, emission: Emission, model: POMDP | None = None, *, rewards_apart: bool = False
    ) -> Likelihood:
        """Of a log in its own alphabets, or in those of ``model``; see `encoded_log`."""
        return cls(encoded_log(log, model, rewards_apart=rewards_apart), emission)

    @property
    def steps(self) -> int:
        return self.log.steps

    @property
    def sample(self) -> Likelihood:
        """That of a part of the log which tells as much a step: what is the same for any part is asked of it. All of
        the log, where that is in memory."""
        return self

    def counts(self, parameters: Parameters) -> ExpectedCounts:
        """Expected counts and log-likelihood, in one pass forth and back; none for a model that was just asked for.

        Raises
        ------
        BeliefCollapseError
            If the log is impossible under the parameters.
        NumericalError
            If what came before a step and what came after it are all but impossible together.
        Stopped
            At the end of the active budget.
        """
        for known, counts in self._recent:
            if known is parameters:
                return counts
        counts = expected_counts(parameters, self.log, emission=self.emission)
        self._recent.append((parameters, counts))
        return counts

    def log_likelihood(self, parameters: Parameters) -> float:
        """That of the counts, for which a pass ahead may be enough."""
        return log_likelihood(parameters, self.log, emission=self.emission)

    def score_products(
        self,
        parameters: Parameters,
        coordinates: Coordinates,
        parts: Sequence[slice],
        length: int,
        stage: str,
    ) -> list[Floats]:
        """Sums of outer products of half the scores of blocks of so many events; progress is reported as ``stage``."""
        return score_products(
            parameters,
            self.log,
            coordinates,
            parts,
            length=length,
            emission=self.emission,
            stage=stage,
        )


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """How a log is taken to have come about: which state shows the observation, and where rewards come from.

    Attributes
    ----------
    log : Trajectory
        Its symbols are pairs with rewards, unless these are kept apart.
    emission : "departure" or "arrival"
    rewards_apart : bool
        Whether the state left pays the reward, beside the observation.
    starts : tuple of Parameters
        Models to begin from.
    whole : Likelihood, optional
        Of the whole log, of which ``log`` is then a sample in memory.
    """

    log: Trajectory
    emission: Emission
    rewards_apart: bool = False
    starts: tuple[Parameters, ...] = ()
    whole: Likelihood | None = None

    @property
    def steps(self) -> int:
        """Of the whole log."""
        return len(self.log) if self.whole is None else self.whole.steps

    @property
    def episodes(self) -> int:
        """Of the whole log."""
        blocked = self._blocked
        return self.log.n_episodes if blocked is None else blocked.episodes

    @property
    def symbol_rewards(self) -> Floats | None:
        """The reward of every observation symbol of the whole log, if it settles it."""
        blocked = self._blocked
        return self.log.symbol_rewards if blocked is None else blocked.encoding.symbol_rewards

    @property
    def _blocked(self) -> BlockedLog | None:
        log = None if self.whole is None else self.whole.log
        return log if isinstance(log, BlockedLog) else None

    def log_likelihood(self, pomdp: POMDP) -> float:
        """Of the whole log under a model; minus infinity if it is impossible."""
        if self.whole is None:
            return pomdp.log_likelihood(self.log)
        try:
            return self.whole.log_likelihood(parameters_of(pomdp))
        except NumericalError:
            return -np.inf

    def likelihood(self, steps: int | None = None) -> Likelihood:
        """Of the whole log, or of its first steps, as far as these are in memory."""
        if steps is None and self.whole is not None:
            return self.whole
        part = self.log if steps is None else self.log.head(steps)
        return Likelihood.of(part, self.emission, rewards_apart=self.rewards_apart)

    def __str__(self) -> str:
        return f"{self.emission}{' with rewards by the state left' * self.rewards_apart}"
