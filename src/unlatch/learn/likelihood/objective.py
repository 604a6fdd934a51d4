"""What is climbed: the likelihood of one log, read with one emission."""

from __future__ import annotations

from dataclasses import dataclass

from unlatch.core.pomdp import POMDP, Emission
from unlatch.core.trajectory import Trajectory
from unlatch.learn.likelihood.forward_backward import expected_counts
from unlatch.learn.likelihood.parameters import EncodedLog, ExpectedCounts, Parameters, encoded_log

__all__ = ["Likelihood"]


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The likelihood of a log as a function of the parameters of a model.

    Every pass asks the budget that is active (`Budget.active`) whether it may go on.
    """

    log: EncodedLog
    emission: Emission

    @classmethod
    def of(cls, log: Trajectory, emission: Emission, model: POMDP | None = None) -> Likelihood:
        """Of a log in its own alphabets, or in those of ``model``."""
        return cls(encoded_log(log, model), emission)

    @property
    def steps(self) -> int:
        return len(self.log)

    def counts(self, parameters: Parameters) -> ExpectedCounts:
        """Expected counts and log-likelihood, in one pass forth and back.

        Raises
        ------
        BeliefCollapseError
            If the log is impossible under the parameters.
        NumericalError
            If what came before a step and what came after it are all but impossible together.
        Stopped
            At the end of the active budget.
        """
        return expected_counts(parameters, self.log, emission=self.emission)
