"""Ways to point at a hidden state that a person can say aloud."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from unlatch import linalg
from unlatch.arrays import Flags, Floats, own_errstate
from unlatch.core.partition import Partition
from unlatch.core.partition_model import PartitionModel
from unlatch.core.pomdp import POMDP
from unlatch.core.reward import Symbol, symbol_code
from unlatch.core.symbols import plain_observations
from unlatch.errors import UsageError

__all__ = ["most_ambiguous_state", "state_named", "states_in_cell", "states_where"]

_TIE = 1e-12
"""Probabilities closer than this are equally likely."""


@own_errstate
def states_where(
    model: POMDP | PartitionModel, rule: str, observations: Mapping[Symbol, Symbol]
) -> tuple[int, ...]:
    """The states that show what ``observations`` says.

    With the rule "argmax" (the only one) these are the states whose most likely observation under every
    action of the mapping is the one named with it: ``states_where(model, "argmax", {"left": "end-left",
    "right": "end-right"})``. An observation that ties for the most likely counts as such. Where symbols are pairs such
    as ``hear-left|-1``, the observation alone stands for all of them. Terminal states are left out: nothing is done
    there.

    Raises
    ------
    UsageError
        If no state fits; the message tells what every state shows.

    Examples
    --------
    >>> import unlatch
    >>> hallway = unlatch.domains.directional_hallway()
    >>> unlatch.states_where(hallway, "argmax", {"left": "end-left", "right": "end-right"})
    (1,)
    """
    if rule != "argmax":
        raise UsageError(f"unknown rule {rule!r}: the only one is 'argmax'")
    if not observations:
        raise UsageError("states_where needs at least one action and the observation to look for")
    rows = _observation_rows(model)
    fits = _acted_in(model)
    for action, observation in observations.items():
        a = symbol_code("action", action, model.action_names)
        shown, others = _chances_of(model, rows[a], observation)
        fits &= shown >= others - _TIE
    if not fits.any():
        raise UsageError(f"no state shows {dict(observations)!r}; {_most_likely(model, rows, observations)}")
    return tuple(int(s) for s in np.flatnonzero(fits))


@own_errstate
def most_ambiguous_state(model: POMDP | PartitionModel) -> int:
    """The state whose observations have the largest entropy, summed over actions; the first one of equals. Terminal
    states are left out.

    Examples
    --------
    >>> import unlatch
    >>> hallway = unlatch.domains.noisy_hallway()
    >>> hallway.state_names[unlatch.most_ambiguous_state(hallway)]
    'middle'
    """
    rows = _observation_rows(model)
    logs = np.log(np.where(rows > 0, rows, 1.0))
    entropy = np.where(_acted_in(model), -(rows * logs).sum(axis=(0, 2)), -1.0)
    return int(np.flatnonzero(entropy >= entropy.max() - _TIE)[0])


def state_named(model: POMDP, name: str) -> int:
    """The index of the state of that name."""
    return symbol_code("state", str(name), model.state_names)


def states_in_cell(partition: Partition | PartitionModel, cell: int) -> tuple[int, ...]:
    """The states of one cell, as `Reward.on_states` takes them."""
    cells = (partition.partition if isinstance(partition, PartitionModel) else partition).cells
    if isinstance(cell, bool) or not isinstance(cell, int | np.integer) or not 0 <= cell < len(cells):
        raise UsageError(f"unknown cell {cell!r}: there are {len(cells)}, {cells}")
    return cells[cell]


def _observation_rows(model: POMDP | PartitionModel) -> Floats:
    """What every state shows, shape (actions, states, observations)."""
    if isinstance(model, POMDP):
        return model.observations
    if isinstance(model, PartitionModel):
        rows = np.einsum("aoij,j->aio", model.psr.updates, model.psr.final)
        return linalg.project_to_simplex(rows)
    raise UsageError(
        f"a {type(model).__name__} has no states to choose from; use Reward.on_observations, or recover a POMDP"
    )


def _acted_in(model: POMDP | PartitionModel) -> Flags:
    """Which states an action can be taken in."""
    if isinstance(model, POMDP):
        result: Flags = model.going_on > 0
        return result
    return np.ones(model.n_states, dtype=bool)


def _chances_of(model: POMDP | PartitionModel, rows: Floats, observation: Symbol) -> tuple[Floats, Floats]:
    """In every state the probability of an observation, and that of the likeliest one. An observation that is named
    without its reward is compared with observations without theirs."""
    names = model.observation_names
    if isinstance(observation, str) and observation not in names:
        plain = plain_observations(names, model.symbol_rewards)
        if observation in plain:
            distinct = tuple(dict.fromkeys(plain))
            places = np.array([distinct.index(name) for name in plain])
            rows, names = rows @ np.eye(len(distinct))[places], distinct
    return rows[:, symbol_code("observation", observation, names)], rows.max(axis=1)


def _most_likely(model: POMDP | PartitionModel, rows: Floats, observations: Mapping[Symbol, Symbol]) -> str:
    """What every state shows most under the actions asked for, in words."""
    actions = [symbol_code("action", action, model.action_names) for action in observations]
    shown = [
        f"state {s}: "
        + ", ".join(
            f"{model.action_names[a]} shows {model.observation_names[int(rows[a, s].argmax())]}"
            for a in actions
        )
        for s in range(rows.shape[1])
    ]
    return "; ".join(shown)
