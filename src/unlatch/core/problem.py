"""A model, what is to be pursued in it, and how much less a reward counts a step later: what a solver solves."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from unlatch.arrays import Floats, own_errstate
from unlatch.core import html
from unlatch.core.arguments import real_number
from unlatch.core.checks import frozen
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.memory import require_memory
from unlatch.core.partition_model import PartitionModel
from unlatch.core.pomdp import POMDP
from unlatch.core.psr import PSR
from unlatch.core.reward import Model, ResolvedReward, Reward
from unlatch.errors import UsageError

__all__ = ["Problem"]


@dataclass(frozen=True, eq=False)
class Problem:
    """A planning problem.

    Parameters
    ----------
    model : POMDP, PartitionModel or PSR
        A learned model, a domain, or what a file holds. Its terminal states end an episode.
    reward : Reward, optional
        What is pursued; by default the rewards that the model itself knows.
    discount : float
        What a reward one step later counts for, from 0 to 1; by default .95, as in most files of the field. One is for
        plans with a horizon.
    diagnostics : Diagnostics
        What was noticed where the problem was read from a file; it makes no difference to whether problems are equal.

    Examples
    --------
    >>> from unlatch import Problem, Reward, domains
    >>> Problem(domains.tiger(), discount=0.95)
    Problem(POMDP(2 states, 3 actions, 6 observations, emission='departure'), reward on symbols, discount=0.95)
    >>> Problem(domains.noisy_hallway(), Reward.on_states({"middle": 1.0})).rewards.tolist()
    [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]
    """

    model: Model
    reward: Reward = None  # type: ignore[assignment]  # None: filled in __post_init__
    discount: float = 0.95
    diagnostics: Diagnostics = field(default_factory=Diagnostics)

    @own_errstate
    def __post_init__(self) -> None:
        if not isinstance(self.model, POMDP | PartitionModel | PSR):
            raise UsageError(
                f"a problem needs a POMDP, a PartitionModel or a PSR, got {type(self.model).__name__}; of a learned "
                "result take result.pomdp"
            )
        given: Reward | None = self.reward
        if given is None:
            object.__setattr__(self, "reward", Reward.learned(self.model))
        elif not isinstance(given, Reward):
            raise UsageError(f"expected a Reward, got {type(given).__name__}")
        notes: object = self.diagnostics
        if not isinstance(notes, Diagnostics):
            raise UsageError(f"diagnostics: expected Diagnostics, got {type(notes).__name__}")
        object.__setattr__(self, "discount", real_number("discount", self.discount, 0.0, 1.0))
        self.resolved  # noqa: B018  # refuses a reward that speaks of what the model does not know

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Problem):
            return NotImplemented
        return bool(
            self.model == other.model and self.reward == other.reward and self.discount == other.discount
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Problem({self.model!r}, reward on {self.reward.kind}, discount={self.discount:g})"

    def _repr_html_(self) -> str:
        """For notebooks: the discount, the reward, the model."""
        parts = html.table([("discount", self.discount)]), self.reward._repr_html_()
        return html.page(repr(self), *parts, self.model._repr_html_())

    @property
    def terminal(self) -> tuple[int, ...]:
        """States in which nothing more happens."""
        return self.model.terminal if isinstance(self.model, POMDP) else ()

    @cached_property
    def resolved(self) -> ResolvedReward:
        """The reward in the alphabets and states of the model."""
        return self.reward.resolve(self.model)

    @cached_property
    @own_errstate
    def rewards(self) -> Floats:
        """What every action is expected to pay in every state, shape (actions, states); of a POMDP only."""
        if not isinstance(self.model, POMDP):
            raise UsageError(f"a {type(self.model).__name__} does not tell its states apart; take the POMDP")
        model, paid = self.model, self.resolved
        shown = model.observations
        if model.emission == "arrival":
            shown = np.einsum("ast,ato->aso", model.transitions, model.observations)
        total = paid.states + np.einsum("aso,ao->as", shown, paid.symbols)
        if model.reward_probabilities is not None:
            total = total + model.reward_probabilities @ paid.rewards
        total[:, list(model.terminal)] = 0.0
        return frozen(total)

    @cached_property
    @own_errstate
    def reward_table(self) -> Floats:
        """What is paid for leaving a state by an action, for reaching the next state and for what is shown on the way:
        shape (actions, states, states, observations), the last two axes of length 1 where they make no difference. Of a
        POMDP only.

        Rewards that the model pays at random, beside its observations, stand here with their expectation.
        """
        if not isinstance(self.model, POMDP):
            raise UsageError(f"a {type(self.model).__name__} does not tell its states apart; take the POMDP")
        model, paid = self.model, self.resolved
        if self.reward.table is not None:
            table = self.reward.table
        else:
            by_state = paid.states
            if model.reward_probabilities is not None:
                by_state = by_state + model.reward_probabilities @ paid.rewards
            table = by_state[:, :, None, None] + paid.symbols[:, None, None, :]
        require_memory(8 * table.size, "the rewards of every transition", "take fewer states or observations")
        live = (model.going_on > 0)[None, :, None, None]
        return frozen(smallest_table(np.where(live, table, 0.0)))


def smallest_table(table: Floats) -> Floats:
    """A table of rewards with the next state and the observation left out where they make no difference."""
    for axis in (3, 2):
        first = np.take(table, [0], axis=axis)
        if np.array_equal(np.broadcast_to(first, table.shape), table):
            table = first
    return table
