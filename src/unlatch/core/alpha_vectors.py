"""A value function that is the largest of linear ones, each with its first action: what solvers return and exchange."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from unlatch.arrays import Floats, Ints, own_errstate
from unlatch.core import html
from unlatch.core.checks import as_array, finite_floats, frozen
from unlatch.errors import DataError

__all__ = ["AlphaVectors"]


@dataclass(frozen=True, eq=False)
class AlphaVectors:
    """A piecewise linear, convex value function and the policy that goes with it.

    Parameters
    ----------
    vectors : array, shape (vectors, states)
        ``vectors[i, s]``: what plan ``i`` is worth if the state is ``s``.
    actions : array, shape (vectors,)
        The action that each plan begins with, as a number from 0.

    Examples
    --------
    >>> plans = AlphaVectors([[0.0, 10.0], [6.0, 6.0]], [1, 0])
    >>> plans.action([0.5, 0.5]), plans.value([0.5, 0.5])
    (0, 6.0)
    >>> plans.action([0.1, 0.9]), plans.value([0.1, 0.9])
    (1, 9.0)
    """

    vectors: Floats
    actions: Ints

    @own_errstate
    def __post_init__(self) -> None:
        vectors = finite_floats("vectors", self.vectors, ndim=2)
        actions = as_array("actions", self.actions, "an array of action numbers")
        if 0 in vectors.shape:
            raise DataError(
                f"vectors: shape {vectors.shape}; at least one vector over at least one state is needed"
            )
        if (
            actions.dtype.kind not in "iu"
            or actions.shape != vectors.shape[:1]
            or actions.min(initial=0) < 0
            or actions.max(initial=0) > np.iinfo(np.int64).max
        ):
            raise DataError(
                f"actions: expected {len(vectors)} whole numbers from 0, one for each vector, got an array of dtype "
                f"{actions.dtype} and shape {actions.shape}",
                field="actions",
            )
        object.__setattr__(self, "vectors", frozen(vectors))
        object.__setattr__(self, "actions", frozen(actions.astype(np.int64)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AlphaVectors):
            return NotImplemented
        return np.array_equal(self.vectors, other.vectors) and np.array_equal(self.actions, other.actions)

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self.vectors)

    def __repr__(self) -> str:
        return f"AlphaVectors({len(self)} vectors, {self.n_states} states)"

    def _repr_html_(self) -> str:
        """For notebooks: every vector with its action."""
        rows = [f"action {action}" for action in self.actions]
        return html.page(repr(self), html.matrix(self.vectors, rows, [str(s) for s in range(self.n_states)]))

    @property
    def n_states(self) -> int:
        return int(self.vectors.shape[1])

    def best(self, belief: ArrayLike) -> int:
        """The number of the vector that is worth most at a belief; of equal ones the first."""
        return int(np.argmax(self._worth(belief)))

    def action(self, belief: ArrayLike) -> int:
        """The action to take at a belief, a distribution over states."""
        return int(self.actions[self.best(belief)])

    def value(self, belief: ArrayLike) -> float:
        """What is expected from a belief on."""
        return float(self._worth(belief).max())

    @own_errstate
    def _worth(self, belief: ArrayLike) -> Floats:
        """Of every vector at a belief."""
        weights = finite_floats("belief", belief, ndim=1)
        if weights.shape != (self.n_states,):
            raise DataError(f"belief: {len(weights)} entries for {self.n_states} states", field="belief")
        worth: Floats = self.vectors @ weights
        return worth
