"""Logs as delimited text: one row a step, the action first, then the observation that followed it. A row without an
action holds what was shown before the first one of its episode.

Symbols are text and stay as they are: ``NA``, ``01`` and ``1e5`` are names like any other. What cannot be
read without guessing is refused, with the line and a remedy.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO, Literal, NamedTuple, get_args

import numpy as np

from unlatch.arrays import Floats, Ints
from unlatch.core.alphabet import checked_name, refuse_continuous, sorted_names
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.progress import report
from unlatch.core.trajectory import Trajectory, format_reward
from unlatch.errors import DataError, UsageError
from unlatch.files.atomic import PathLike, atomic_writer, checked_path, reading, storage_errors
from unlatch.files.columns import (
    ACTION,
    OBSERVATION,
    PROBABILITY,
    REWARD,
    Roles,
    checked_delimiter,
    checked_roles,
    first_block,
    read_columns,
)
from unlatch.files.text import checked_encoding, utf8_blocks

if TYPE_CHECKING:
    from unlatch.files.steps import StepReader

__all__ = ["Missing", "read_log", "write_log"]

Missing = Literal["refuse", "split"]

STEPS_PER_CHUNK = 1 << 18
"""Written at once: large enough for the kernel, small enough to report progress."""

_NEEDS_QUOTES = (",", '"', "\n", "\r")
_READ_AS_FORMULA = ("=", "+", "-", "@")


def read_log(
    source: PathLike | BinaryIO,
    *,
    action: str = "action",
    observation: str = "observation",
    reward: str | None = "reward",
    episode: str | None = "episode",
    probability: str | None = "probability",
    terminated: str | None = "terminated",
    truncated: str | None = "truncated",
    header: bool = True,
    delimiter: str = ",",
    encoding: str = "utf-8",
    missing: Missing = "refuse",
    strict: bool = False,
) -> Trajectory:
    """Read a log from delimited text (RFC 4180), in one pass and little more memory than the result.

    Parameters
    ----------
    source : path of an ordinary file, or a binary file object
        An object is read to its end and neither rewound nor closed; it may be a pipe, such as ``sys.stdin.buffer``, or
        decompress what it reads, as those of ``gzip.open`` do.
    action, observation : str
        Names of the columns with the action and the observation that followed it.
    reward, episode, probability : str or None
        Names of the columns with the reward, the episode and the probability with which the action was chosen,
        if there are any; None ignores a column that is there. An episode begins where the text in its column
        changes.
    terminated, truncated : str or None
        Names of the columns that say whether the step ended its episode for good, and whether it was cut there (a
        time limit); true or false, 1 or 0, yes or no. Another episode begins after either. Where a step says both,
        it ended.
    header : bool
        Whether the first row names the columns. If not, they are action, observation, reward, episode, in
        this order, of which the last two may be absent.
    delimiter, encoding : str
    missing : "refuse" or "split"
        What a row without action or observation, or a blank line between rows, means: an error, or that
        the steps after it are a new episode. Unless they split, a row without an action that is the first of its
        episode holds what was shown before any action; then every episode has one.
    strict : bool
        Refuse a last row without a line end. Otherwise it is taken for cut off: dropped, and noted in the
        log's diagnostics as ``truncated_tail``.

    Returns
    -------
    Trajectory
        Symbols in sorted order (`sorted_names`); what was noticed on the way is in its ``diagnostics``.

    Examples
    --------
    >>> import io
    >>> import unlatch
    >>> text = b"action,observation,reward\\nlisten,hear-left,-1\\nopen-right,hear-left,10\\n"
    >>> unlatch.read_log(io.BytesIO(text))  # or a path
    Trajectory(2 steps, 1 episodes, 2 actions, 1 observations, rewards)
    """
    if not isinstance(missing, str) or missing not in get_args(Missing):
        raise UsageError(f"missing must be 'refuse' or 'split', got {missing!r:.40}")
    roles = checked_roles(action, observation, reward, episode, probability, terminated, truncated)
    separator, codec = checked_delimiter(delimiter), checked_encoding(encoding)
    with _opened(source) as (handle, size, where):
        blocks = utf8_blocks(handle, size, codec, where)
        steps = _read_steps(blocks, roles, header, separator, where, openings=missing == "refuse")
    notes = _findings(steps, missing, strict)
    return _trajectory(steps, notes)


@contextmanager
def _opened(source: PathLike | BinaryIO) -> Iterator[tuple[BinaryIO, int | None, str]]:
    """A handle, its size if that is known, and what messages call it."""
    if isinstance(source, str | os.PathLike) or not hasattr(source, "read"):
        where = checked_path(source)
        with reading(where) as (handle, size):
            yield handle, size, where
        return
    name = getattr(source, "name", None)
    where = name if isinstance(name, str) else f"<{type(source).__name__}>"
    with storage_errors(f"{where}: cannot read"):
        yield (
            getattr(source, "buffer", source),
            None,
            where,
        )  # a text stream, as standard input is, has bytes beneath


def _read_steps(
    blocks: Iterator[bytes], roles: Roles, header: bool, delimiter: str, where: str, *, openings: bool
) -> StepReader:
    from unlatch.files.steps import StepReader

    first = first_block(blocks)
    columns, start, line = read_columns(first, roles, header, delimiter, where)
    steps = StepReader(columns, delimiter, line, where, openings=openings)
    steps.read(chain([first[start:]], blocks))
    return steps


def _findings(steps: StepReader, missing: Missing, strict: bool) -> Diagnostics:
    """Refuse what may not be passed over; note what may."""
    notes = steps.columns.diagnostics
    if steps.truncated_line is not None:
        line, where = steps.truncated_line, steps.where
        if strict:
            raise DataError(
                f"{where}, line {line}: no line end; the file was cut off: complete the row and end it with a "
                "newline, or remove it"
            )
        notes = notes.noting(
            "truncated_tail", f"line {line} has no line end and was dropped as cut off", steps=1, line=line
        )
    gaps = steps.gaps
    if gaps.rows:
        column = steps.columns.names[gaps.column]
        first = f"an empty cell in column {column!r}" if gaps.column >= 0 else "a blank line"
        if missing == "refuse":
            raise DataError(
                f"{steps.where}, line {gaps.line}: {first}; {gaps.rows} rows lack action or observation; "
                "complete them, or let a new episode begin after each with missing='split' "
                "(--missing split)"
            )
        notes = notes.noting(
            "missing_split",
            f"{gaps.rows} incomplete rows were taken for ends of episodes",
            rows=gaps.rows,
            line=gaps.line,
        )
    return notes + _about_first_observations(steps)


def _about_first_observations(steps: StepReader) -> Diagnostics:
    """Every episode has one or none has; one without a step cannot be kept."""
    episodes = steps.episodes
    if episodes.line_opened >= 0 and episodes.line_without >= 0:
        raise DataError(
            f"{steps.where}, line {episodes.line_without}: an episode begins without a first observation, but line "
            f"{episodes.line_opened} has an observation and no action, as first observations do. Give every episode "
            "one; or, if that is no first observation, complete the row, or let a new episode begin after it with "
            "missing='split' (--missing split)"
        )
    if not episodes.empty:
        return Diagnostics()
    return Diagnostics().noting(
        "empty_episodes",
        f"{episodes.empty} episodes have a first observation and no step; they were left out",
        episodes=episodes.empty,
    )


def _trajectory(steps: StepReader, notes: Diagnostics) -> Trajectory:
    from unlatch.files.steps import FIRST

    if steps.steps == 0:
        cut = "; its only row has no line end" if steps.truncated_line is not None else ""
        raise DataError(f"{steps.where}: 0 steps{cut}")
    alphabets = {}
    for column in (ACTION, OBSERVATION, FIRST):
        name = steps.columns.names[min(column, OBSERVATION)]
        tokens, lines = steps.table.tokens(column)
        refuse_continuous(f"{steps.where}, column {name!r}", len(tokens), steps.steps)
        names = _checked_alphabet(tokens, lines, name, steps.where)
        notes = notes if column == FIRST else _noting_variants(notes, names, name)
        ordered = sorted_names(names)
        rank = {symbol: i for i, symbol in enumerate(ordered)}
        alphabets[column] = tuple(ordered), np.array([rank[symbol] for symbol in names], dtype=np.int64)
    action_names, action_codes = alphabets[ACTION]
    observation_names, observation_codes = alphabets[OBSERVATION]
    first_names, first_codes = alphabets[FIRST]
    first = steps.first_observations(first_codes)
    return Trajectory(
        actions=steps.codes(ACTION, action_codes),
        observations=steps.codes(OBSERVATION, observation_codes),
        action_names=action_names,
        observation_names=observation_names,
        rewards=steps.numbers(REWARD),
        episode_starts=steps.episode_starts(),
        probabilities=steps.numbers(PROBABILITY),
        terminated=steps.terminated(),
        first_observations=first,
        first_observation_names=first_names if first is not None else None,  # type: ignore[arg-type]
        diagnostics=notes,
    )


def _checked_alphabet(tokens: Sequence[str], lines: Sequence[int], column: str, where: str) -> list[str]:
    """The tokens as names, in their order; two that only look different are refused."""
    first: dict[str, int] = {}
    for token, line in zip(tokens, lines, strict=True):
        name = checked_name(f"{where}, line {line}, column {column!r}", token)
        if name in first:
            raise DataError(
                f"{where}, column {column!r}: {name!r} is spelled with different code points on lines "
                f"{first[name]} and {line}; they look alike, so spell it one way (Unicode NFC)"
            )
        first[name] = line
    return list(first)


def _noting_variants(notes: Diagnostics, names: Sequence[str], column: str) -> Diagnostics:
    """Names that differ only by blanks or case stay apart, but are often a slip of the pen."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault("".join(name.split()).casefold(), []).append(name)
    alike = [sorted(group) for group in groups.values() if len(group) > 1]
    if not alike:
        return notes
    shown = "; ".join(" and ".join(map(repr, group)) for group in alike[:5])
    return notes.noting(
        "similar_names",
        f"column {column!r}: kept apart though they differ only by blanks or case: {shown}",
        column=column,
        groups=alike,
    )


def write_log(path: PathLike, log: Trajectory) -> None:
    """Write a log so that `read_log` gives it back, but for symbols that never occur; whole or not at all.

    Columns are action and observation, then reward if the log has rewards, episode (0, 1, ...) if it has
    more than one, probability if it has probabilities and terminated if it tells its endings. A first observation is a
    row before the first step of its episode, in which only observation and episode are filled. Names that a
    spreadsheet would take for a formula are quoted.

    Examples
    --------
    >>> import unlatch
    >>> log = unlatch.Trajectory.from_symbols(["left", "right"], ["wall", "door"])
    >>> unlatch.write_log("log.csv", log)
    >>> unlatch.read_log("log.csv") == log
    True
    """
    if not isinstance(log, Trajectory):
        raise UsageError(f"a Trajectory can be written as a log, got {type(log).__name__}")
    if len(log) == 0:
        raise DataError(f"{checked_path(path)}: a log of 0 steps cannot be written")
    header = ["action", "observation"]
    header += ["reward"] if log.rewards is not None else []
    header += ["episode"] if log.n_episodes > 1 else []
    header += ["probability"] if log.probabilities is not None else []
    header += ["terminated"] if log.terminated is not None else []
    with atomic_writer(path) as handle:
        handle.write(",".join(header).encode() + b"\n")
        for begin in range(0, len(log), STEPS_PER_CHUNK):
            stop = min(begin + STEPS_PER_CHUNK, len(log))
            handle.write(_rows(log, begin, stop))
            report("writing", stop, len(log))


def _rows(log: Trajectory, begin: int, stop: int) -> memoryview:
    """The text of some steps: every cell is looked up among few texts, then all are joined at once."""
    from unlatch.kernels.text import join_cells

    columns = [
        _Column(log.actions[begin:stop], [_quoted(name) for name in log.action_names]),
        _Column(log.observations[begin:stop], [_quoted(name) for name in log.observation_names]),
    ]
    if log.rewards is not None:
        columns.append(_distinct_numbers(log.rewards[begin:stop]))
    if log.n_episodes > 1:
        numbers = np.searchsorted(log.episode_starts, np.arange(begin, stop), side="right") - 1
        columns.append(_Column(numbers - numbers[0], [str(i) for i in range(numbers[0], numbers[-1] + 1)]))
    if log.probabilities is not None:
        columns.append(_distinct_numbers(log.probabilities[begin:stop]))
    if log.terminated is not None:
        columns.append(_Column(log.terminated[begin:stop].astype(np.int64), ["false", "true"]))
    if log.first_observations is not None:
        columns = _with_openings(columns, log, begin, stop)
    cells, texts = _joined_columns(columns)
    arena = np.frombuffer(b"".join(texts), dtype=np.uint8)
    lengths = np.array([len(text) for text in texts])
    out = np.empty(int(lengths[cells].sum()), dtype=np.uint8)
    join_cells(cells, arena, np.append(0, np.cumsum(lengths)), out)
    return out.data


class _Column(NamedTuple):
    """The cells of a column: which of the texts stands in every row."""

    codes: Ints
    texts: list[str]


def _with_openings(columns: list[_Column], log: Trajectory, begin: int, stop: int) -> list[_Column]:
    """With a row for the first observation of every episode that begins here; its other cells, but for that of the
    episode, are empty."""
    first, last = np.searchsorted(log.episode_starts, (begin, stop))
    places = log.episode_starts[first:last] - begin
    assert log.first_observations is not None
    shown = log.first_observations[first:last]
    episode = (2 + (log.rewards is not None)) if log.n_episodes > 1 else -1
    result = []
    for i, (codes, texts) in enumerate(columns):
        added, more = np.full(len(places), len(texts)), [""]
        if i == OBSERVATION:
            added, more = len(texts) + shown, [_quoted(name) for name in log.first_observation_names]
        elif i == episode:
            added, more = codes[places], []
        result.append(_Column(np.insert(codes, places, added), texts + more))
    return result


def _distinct_numbers(values: Floats) -> _Column:
    """The texts of the numbers that occur, and which of them stands where.

    They are told apart by their bits, so that 0 and -0 stay what they are.
    """
    bits, codes = np.unique(values.view(np.int64), return_inverse=True)
    return _Column(codes, [format_reward(value) for value in bits.view(np.float64).tolist()])


def _joined_columns(columns: Sequence[_Column]) -> tuple[Ints, list[bytes]]:
    """One numbering for the texts of all columns, each followed by the comma or line end that it needs."""
    texts: list[bytes] = []
    cells = np.empty((len(columns[0][0]), len(columns)), dtype=np.int64)
    for i, (codes, names) in enumerate(columns):
        cells[:, i] = codes + len(texts)
        end = "\n" if i == len(columns) - 1 else ","
        texts += [(name + end).encode() for name in names]
    return cells, texts


def _quoted(name: str) -> str:
    if name.startswith(_READ_AS_FORMULA) or any(c in name for c in _NEEDS_QUOTES):
        return '"' + name.replace('"', '""') + '"'
    return name
