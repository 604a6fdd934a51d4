"""Stages 1 to 3 at lengths that the log chooses: histories and tests grow while that reveals more states."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from unlatch.core.trajectory import Trajectory
from unlatch.errors import NotLearnableError
from unlatch.learn.spectral.counting import SequenceCounts, count_sequences
from unlatch.learn.spectral.factorize import RankFactorization, Scaling, factorize
from unlatch.learn.spectral.hankel import HankelMatrix, estimate_hankel
from unlatch.learn.spectral.windows import BLOCKS

__all__ = ["FEWER_WINDOWS", "counting", "factorize_counted", "factorize_log"]

_MAX_TEST_LENGTH = 5

_MAX_WINDOWS = 5_000_000

FEWER_WINDOWS = 300_000
"""Windows up to which histories and tests grow where memory is dear: all stages then take a few hundred megabytes."""


Count = Callable[[int, int], SequenceCounts]
"""The counts of a log for a length of histories and one of tests."""


def counting(log: Trajectory) -> Count:
    """How a log in memory is counted."""
    return lambda histories, tests: count_sequences(log, history_length=histories, test_length=tests)


def factorize_log(
    log: Trajectory,
    *,
    rank: int | None,
    rank_tolerance: float | None,
    max_rank: int,
    history_length: int | None,
    test_length: int | None,
    scaling: Scaling,
    rotate: bool,
    rng: np.random.Generator,
) -> tuple[SequenceCounts, HankelMatrix, RankFactorization]:
    """Counts, Hankel matrix and factorization at the given lengths, or at lengths chosen by growing."""
    return factorize_counted(
        counting(log),
        rank=rank,
        rank_tolerance=rank_tolerance,
        max_rank=max_rank,
        history_length=history_length,
        test_length=test_length,
        scaling=scaling,
        rotate=rotate,
        rng=rng,
    )


def factorize_counted(
    count: Count,
    *,
    rank: int | None,
    rank_tolerance: float | None,
    max_rank: int,
    history_length: int | None,
    test_length: int | None,
    scaling: Scaling,
    rotate: bool,
    most_tests: int = _MAX_TEST_LENGTH,
    most_windows: int = _MAX_WINDOWS,
    rng: np.random.Generator,
) -> tuple[SequenceCounts, HankelMatrix, RankFactorization]:
    """The same for a log that others count; where lengths are chosen, with tests of at most so many pairs and about so
    many windows."""
    if history_length is not None or test_length is not None:
        tests = test_length if test_length is not None else max(history_length - 1, 1)  # type: ignore[operator]
        histories = history_length if history_length is not None else tests + 1
        counts = count(histories, tests)
        hankel = estimate_hankel(counts)
    else:
        counts, hankel = _grown(count, rank, max_rank, (most_tests, most_windows), rng)
    factorization = factorize(
        hankel,
        rank=rank,
        rank_tolerance=rank_tolerance,
        max_rank=max_rank,
        scaling=scaling,
        rotate=rotate,
        rng=rng,
    )
    return counts, hankel, factorization


def _grown(
    count: Count, rank: int | None, max_rank: int, most: tuple[int, int], rng: np.random.Generator
) -> tuple[SequenceCounts, HankelMatrix]:
    """The shortest histories and tests beyond which no further state shows itself above the noise."""
    best = _measured(count, 1, max_rank, rng)
    if rank is None:
        _refuse_too_short(best.counts)
    most_tests, most_windows = most
    for tests in range(2, most_tests + 1):
        if (rank is not None and best.rank >= rank) or not _can_grow(best.counts, most_windows):
            break
        longer = _measured(count, tests, max_rank, rng)
        if longer.rank <= best.rank and (rank is None or rank <= min(best.hankel.shape)):
            break
        best = longer
    return best.counts, best.hankel


def _refuse_too_short(counts: SequenceCounts) -> None:
    """Noise is told from the scatter between blocks of the log, so a sequence must have been tried in most."""
    tries = counts.table(2).typical_tries(counts.n_observations)
    if tries < BLOCKS:
        raise NotLearnableError(
            f"{counts.steps} steps are too few to tell states from noise: two actions in a row were tried about "
            f"{tries:.1f} times, at least {BLOCKS} are needed. Log some {BLOCKS * counts.n_actions**2} steps or "
            "more, or fix the rank"
        )


class _Measured(NamedTuple):
    counts: SequenceCounts
    hankel: HankelMatrix
    rank: int


def _measured(count: Count, tests: int, max_rank: int, rng: np.random.Generator) -> _Measured:
    counts = count(tests + 1, tests)
    hankel = estimate_hankel(counts)
    return _Measured(counts, hankel, factorize(hankel, max_rank=max_rank, scaling="none", rng=rng).rank)


def _can_grow(counts: SequenceCounts, most_windows: int) -> bool:
    """Whether windows two pairs longer exist and their number stays within memory."""
    longest = len(counts.tables)
    tries = counts.table(longest).typical_tries(counts.n_observations) / counts.n_actions
    if tries < BLOCKS:
        return False
    growth = len(counts.table(longest)) / len(counts.table(longest - 1))
    expected = min(len(counts.table(longest)) * growth**2, counts.steps)
    return counts.longest_episode > longest + 2 and expected <= most_windows
