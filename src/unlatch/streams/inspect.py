"""What a log holds, be it in memory or wherever logs are read from."""

from __future__ import annotations

from typing import Unpack

from unlatch.core.trajectory import Trajectory
from unlatch.errors import UsageError
from unlatch.files.logs.read import ReadOptions, checked_options, read_log
from unlatch.files.logs.sources import LogSource
from unlatch.learn.examine.inspection import LogSummary, summary_of

__all__ = ["inspect_log"]


def inspect_log(log: Trajectory | LogSource, **options: Unpack[ReadOptions]) -> LogSummary:
    """What a log holds, and what is peculiar about it.

    Parameters
    ----------
    log : Trajectory, or what `read_log` reads
        A log, a path, several paths, a folder, a binary file or a table in memory. What was noticed while reading
        is part of the summary.
    **options
        Of `read_log`, for a log that has to be read.

    Examples
    --------
    >>> import unlatch
    >>> summary = unlatch.inspect_log(unlatch.simulate(unlatch.domains.tiger(), 5_000, rng=1))
    >>> summary.steps, summary.episodes, summary.endings, summary.is_blind, summary.is_uniform
    (5000, 1, None, True, True)
    """
    if not isinstance(log, Trajectory):
        return summary_of(read_log(log, **checked_options(options)))
    if options:
        raise UsageError(f"{next(iter(options))} is an option of reading; this log is in memory already")
    return summary_of(log)
