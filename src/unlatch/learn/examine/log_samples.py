"""What the tests of a log and of a model share: parts of a log, pooled alphabets, and the chi-square of a
vector of counts."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from unlatch.arrays import Flags, Ints
from unlatch.core.trajectory import Trajectory

__all__ = ["Stretch", "counted", "pooling", "renumbered", "stretches"]


class Stretch(NamedTuple):
    """Contiguous steps of a log; ``begins`` is True at the first step of every episode, and of the stretch."""

    actions: Ints
    observations: Ints
    begins: Flags


def stretches(log: Trajectory, parts: int, longest: int) -> list[Stretch]:
    """The log in ``parts`` contiguous parts of equal length, of each at most its first ``longest`` steps."""
    edges = np.linspace(0, len(log), parts + 1).astype(np.int64)
    return [
        _stretch(log, start, min(stop, start + longest))
        for start, stop in pairwise(edges.tolist())
        if stop > start
    ]


def _stretch(log: Trajectory, start: int, stop: int) -> Stretch:
    begins = np.zeros(stop - start, dtype=bool)
    first, last = np.searchsorted(log.episode_starts, (start, stop))
    begins[log.episode_starts[first:last] - start] = True
    begins[0] = True
    return Stretch(log.actions[start:stop], log.observations[start:stop], begins)


def counted(parts: Iterable[Ints], size: int) -> Ints:
    """How often every code below ``size`` occurs in all parts together."""
    total = np.zeros(size, dtype=np.int64)
    for part in parts:
        total += np.bincount(part, minlength=size)
    return total


def pooling(counts: Ints, limit: int) -> Ints:
    """A class for every code: codes that occur are numbered by decreasing count, the rare ones share the last.

    At most ``limit`` classes; codes that never occur are in the last one too.
    """
    ranks = np.empty(len(counts), dtype=np.int64)
    ranks[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    classes = min(int((counts > 0).sum()), limit)
    return np.minimum(ranks, max(classes - 1, 0))


def renumbered(codes: Ints) -> Ints:
    """The same codes without gaps, in the same order."""
    used = np.bincount(codes) > 0
    return (np.cumsum(used) - 1)[codes]
