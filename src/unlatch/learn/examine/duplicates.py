"""Whether a log contains copies of itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unlatch.arrays import Flags, Floats, Ints
from unlatch.core.budget import checkpoint
from unlatch.core.trajectory import Trajectory
from unlatch.learn.examine.log_samples import counted, pooling, stretches

__all__ = ["Repetition", "repeated_steps"]

Words = NDArray[np.uint64]

_BITS = 40
"""Bits of surprise that a window must have beyond those for which the log's length alone provides a match."""

_SHORTEST = 64
"""Steps of a window, at least."""

_PARTS = 16
_PART_LENGTH = 1 << 16
"""The sample of the log that tells how surprising its steps are."""

_ACTIONS, _OBSERVATIONS = 8, 16
"""Symbols that are told apart in predicting; the rarer ones are pooled, which can only make them less surprising."""

_MAX_ORDER = 16
_MAX_CONTEXTS = 1 << 14
_STEPS_PER_CONTEXT = 16
"""Steps are predicted from as many steps before as leave every sequence of these this often on average. More would
make every step seem certain; fewer would make a process with a long memory seem more surprising than it is."""

_KEPT = 1 << 17
_CHUNK = 1 << 19
_GOLDEN = 0x9E3779B97F4A7C15


class Repetition(NamedTuple):
    """``share`` of the steps are, word for word, as ``distance`` steps before (the most frequent distance)."""

    share: float
    distance: int
    window: int


class _Surprise(NamedTuple):
    """Bits by which a pair surprises after the pairs before it: ``bits[context, pair]``.

    The context of a step is built from its last pair backwards: ``longer[n][context * base + pair]`` is the
    context that also holds the pair ``n + 1`` steps before. The last context of every length is for sequences
    that the sample does not hold.
    """

    actions: Ints
    observations: Ints
    longer: tuple[NDArray[np.int32], ...]
    bits: Floats
    mean: float

    @property
    def order(self) -> int:
        return len(self.longer)

    def pairs(self, actions: Ints, observations: Ints) -> Ints:
        """Classes of actions and observations as one number."""
        result: Ints = (
            self.actions[actions] * (int(self.observations.max()) + 1) + self.observations[observations]
        )
        return result

    def of(self, pairs: Ints) -> Floats:
        """Surprise of every step that has enough steps before it, shape (steps - order,)."""
        contexts = np.zeros(len(pairs), dtype=np.int64)
        for back, table in enumerate(self.longer, start=1):
            contexts = table[contexts[1:] * self.bits.shape[1] + pairs[:-back]]
        result: Floats = self.bits[contexts, pairs[self.order :]]
        return result


class _Windows(NamedTuple):
    """A sample of windows: a fingerprint of their content, where they start, the steps that they stand for,
    and whether they are too surprising to occur twice by chance."""

    prints: Words
    starts: Ints
    weights: Ints
    surprising: Flags


def repeated_steps(log: Trajectory) -> Repetition:
    """The share of the log that repeats, word for word, something before it, and not by chance.

    All windows of a fixed length are fingerprinted, and every episode that is shorter. Those whose fingerprint
    falls in a fixed range are kept, so that a copy is kept together with its original wherever it stands. A
    window counts as a copy only if it is surprising: its probability, from what follows on short stretches of
    the log, must be so low that chance would not produce it twice. So a periodic process, or a stretch without
    events, is not taken for a copy; nor is a log that consists of very many copies of a short one, which no one
    could tell from a periodic process.
    """
    surprise = _surprise(log)
    needed = _needed(len(log))
    longest = min(len(log) // 2, _CHUNK)
    if surprise.mean * longest < 2 * needed:
        return Repetition(0.0, 0, 0)  # hardly anything ever happens: no stretch of the log is surprising
    window = max(_SHORTEST, int(np.ceil(2 * needed / surprise.mean)))
    parts = list(_fingerprints(log, surprise, window))
    windows = _Windows(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    order = np.argsort(windows.prints, kind="stable")
    earlier, later = order[:-1], order[1:]
    copied = (windows.prints[earlier] == windows.prints[later]) & windows.surprising[later]
    if not copied.any():
        return Repetition(0.0, 0, window)
    distances, times = np.unique(
        windows.starts[later[copied]] - windows.starts[earlier[copied]], return_counts=True
    )
    share = windows.weights[later[copied]].sum() / windows.weights.sum()
    return Repetition(float(share), int(distances[times.argmax()]), window)


def _needed(places: int) -> float:
    """Bits of surprise that a match needs where any two of so many places may match."""
    return float(_BITS + 2 * np.log2(max(places, 2)))


# --- how surprising a step is ---------------------------------------------------------------------------


def _surprise(log: Trajectory) -> _Surprise:
    """Conditional frequencies of pairs after the pairs before, on a sample of the log."""
    parts = stretches(log, _PARTS, _PART_LENGTH)
    actions = pooling(counted((part.actions for part in parts), len(log.action_names)), _ACTIONS)
    observations = pooling(
        counted((part.observations for part in parts), len(log.observation_names)), _OBSERVATIONS
    )
    base = int(actions.max() + 1) * int(observations.max() + 1)
    blank = _Surprise(actions, observations, (), np.zeros((1, base)), 0.0)
    pairs = np.concatenate([blank.pairs(part.actions, part.observations) for part in parts])
    contexts, longer = _contexts(pairs, base)
    size = int(contexts.max(initial=-1)) + 2
    counts = np.bincount(contexts * base + pairs[len(longer) :], minlength=size * base).reshape(size, base)
    before = counts.sum(axis=1, keepdims=True)
    bits = np.log2(np.where(counts > 0, before, 1) / np.maximum(counts, 1))
    return blank._replace(longer=longer, bits=bits, mean=float((bits * counts).sum() / max(counts.sum(), 1)))


def _contexts(pairs: Ints, base: int) -> tuple[Ints, tuple[NDArray[np.int32], ...]]:
    """The context of every step that has enough steps before it, and the tables that lead to it."""
    limit = min(len(pairs) // _STEPS_PER_CONTEXT, _MAX_CONTEXTS)
    contexts, known, tables = np.zeros(len(pairs), dtype=np.int64), 1, []
    for back in range(1, min(_MAX_ORDER, len(pairs) - 1) + 1):
        keys = contexts[1:] * base + pairs[:-back]
        used = np.bincount(keys, minlength=(known + 1) * base) > 0
        if used.sum() > limit:
            break
        known = int(used.sum())
        tables.append(np.where(used, np.cumsum(used) - 1, known).astype(np.int32))
        contexts = tables[-1][keys].astype(np.int64)
    return contexts, tuple(tables)


# --- fingerprints ---------------------------------------------------------------------------------------


def _fingerprints(log: Trajectory, surprise: _Surprise, window: int) -> Iterator[_Windows]:
    """The sample of windows, chunk by chunk."""
    stride = max(1, len(log) // _KEPT)
    length = _CHUNK + window
    action_words = _scrambled(len(log.action_names), 1)
    observation_words = _scrambled(len(log.observation_names), 2)
    powers = np.cumprod(np.full(length, _GOLDEN, dtype=np.uint64))
    inverse = np.cumprod(np.full(length, pow(_GOLDEN, -1, 1 << 64), dtype=np.uint64))
    for start in range(0, len(log), _CHUNK):
        checkpoint()
        stop = min(start + length, len(log))
        actions, observations = log.actions[start:stop], log.observations[start:stop]
        first, last = _extents(log, start, min(start + _CHUNK, len(log)), window)
        words = (action_words[actions] + observation_words[observations]) * powers[: stop - start]
        sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(words)])
        prints = _mixed((sums[last] - sums[first]) * inverse[first])
        kept = prints <= np.uint64((1 << 64) // stride - 1)
        first, last = first[kept], last[kept]
        bits = np.zeros(stop - start + 1)
        np.cumsum(surprise.of(surprise.pairs(actions, observations)), out=bits[surprise.order + 1 :])
        whole = last - first < window
        yield _Windows(
            prints=prints[kept],
            starts=first + start,
            weights=np.where(whole, last - first, 1),
            surprising=bits[last] - bits[first]
            >= np.where(whole, _needed(log.n_episodes), _needed(len(log))),
        )


def _extents(log: Trajectory, start: int, stop: int, window: int) -> tuple[Ints, Ints]:
    """First step and end, relative to ``start``, of the windows that begin in ``start`` .. ``stop``.

    A window lies inside one episode; an episode that is shorter is one window.
    """
    places = np.arange(start, stop)
    episode = np.searchsorted(log.episode_starts, places, side="right") - 1
    begins, ends = log.episode_starts[episode], log.episode_ends[episode]
    fits = places + window <= ends
    whole = (places == begins) & ~fits
    chosen = fits | whole
    return places[chosen] - start, np.where(whole, ends, places + window)[chosen] - start


def _scrambled(size: int, stream: int) -> Words:
    """Fixed numbers without pattern, one for every code."""
    return _mixed(np.arange(1, size + 1, dtype=np.uint64) * np.uint64(_GOLDEN) + np.uint64(stream << 32))


def _mixed(words: Words) -> Words:
    """Each bit of the result depends on all bits of the word (the finalizer of SplitMix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
