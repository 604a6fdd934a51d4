"""Systems that nobody designed, each with a number; and all systems of the studies by name."""

from __future__ import annotations

from functools import cache

import numpy as np

from unlatch.arrays import Floats
from unlatch.core.pomdp import POMDP
from unlatch.domains import by_name

__all__ = ["KINDS", "NOISE", "dense_model", "dense_systems", "random_kind", "random_model", "system"]

KINDS = ("dense", "peaked", "zeros")
"""Of rows: drawn uniformly from the simplex, mostly one entry each, many entries zero."""

NOISE = "noise"
"""The system without memory: three actions, four symbols, all equally likely."""

_RANDOM, _NEW = 100, 30
"""Random models of the study, and further dense ones."""

_OF_RANDOM, _OF_DENSE = 1_000_003, 1_000_033
"""Two streams of numbers, so that the further dense models are none of the others."""

_LEAST_VISITED = 0.005


def system(name: str) -> POMDP:
    """A domain by name, ``noise``, or one of the models that nobody designed: ``random:17``, ``dense:3``."""
    if name == NOISE:
        return POMDP(
            transitions=np.ones((3, 1, 1)), observations=np.full((3, 1, 4), 0.25), initial=np.ones(1)
        )
    for prefix, make in (("random:", random_model), ("dense:", dense_model)):
        if name.startswith(prefix):
            return make(int(name.removeprefix(prefix)))
    return by_name(name)


def random_model(number: int) -> POMDP:
    """3 to 8 states, 2 to 4 actions, 3 to 6 observations; rows dense, or peaked, or with many zeros.

    Redrawn while the process does not visit all states or a state is visited less than once in 200 steps.
    """
    return _drawn(np.random.default_rng([number, _OF_RANDOM]), KINDS)[1]


@cache
def random_kind(number: int) -> str:
    """Which of the `KINDS` of rows a random model has."""
    return _drawn(np.random.default_rng([number, _OF_RANDOM]), KINDS)[0]


def dense_model(number: int) -> POMDP:
    """A model of the same law as the dense ones among the random models, but none of these."""
    return _drawn(np.random.default_rng([number, _OF_DENSE]), ("dense",))[1]


def dense_systems() -> tuple[str, ...]:
    """The dense ones among the random models of the study, then the further ones."""
    known = [f"random:{number}" for number in range(_RANDOM) if random_kind(number) == "dense"]
    return (*known, *(f"dense:{number}" for number in range(_NEW)))


def _drawn(rng: np.random.Generator, kinds: tuple[str, ...]) -> tuple[str, POMDP]:
    """A model of one of these kinds, and which."""
    from scipy.sparse.csgraph import connected_components

    while True:
        states, actions, observations = (
            int(rng.integers(low, high + 1)) for low, high in ((3, 8), (2, 4), (3, 6))
        )
        kind = kinds[int(rng.integers(len(kinds)))]
        model = POMDP(
            transitions=_rows(kind, (actions, states, states), rng),
            observations=_rows(kind, (actions, states, observations), rng),
            initial=np.full(states, 1 / states),
        )
        classes, _ = connected_components(model.transitions.mean(axis=0) > 0, connection="strong")
        if classes == 1 and model.stationary().min() > _LEAST_VISITED:
            return kind, model


def _rows(kind: str, shape: tuple[int, int, int], rng: np.random.Generator) -> Floats:
    concentration = 0.3 if kind == "peaked" else 1.0
    rows = rng.dirichlet(np.full(shape[2], concentration), size=shape[:2])
    if kind == "zeros":
        kept = rng.random(shape) < 0.4
        kept[np.arange(shape[0])[:, None], np.arange(shape[1]), rng.integers(shape[2], size=shape[:2])] = True
        rows = np.where(kept, rows, 0.0)
    result: Floats = rows / rows.sum(axis=2, keepdims=True)
    return result
