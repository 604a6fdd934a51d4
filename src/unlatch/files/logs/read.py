"""Logs from files and tables: one row a step, the action first, then the observation that followed it. A row without an
action holds what was shown before the first one of its episode.

Symbols are text and stay as they are: ``NA``, ``01`` and ``1e5`` are names like any other. What cannot be
read without guessing is refused, with the line and a remedy.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, TypedDict, Unpack, get_args

import numpy as np

from unlatch.core.chunks import LogChunk
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.trajectory import Trajectory
from unlatch.errors import UsageError
from unlatch.files.logs.arrange import Order, arranged
from unlatch.files.logs.assemble import Assembler, Autoreset, Missing
from unlatch.files.logs.chunks import Joining, resized
from unlatch.files.logs.columns import checked_delimiter, checked_roles
from unlatch.files.logs.sources import Form, LogSource, opened, parts_of
from unlatch.files.logs.text import checked_encoding

__all__ = ["ReadOptions", "checked_options", "iterate_log", "read_log"]

STEPS_PER_CHUNK = 1 << 20


class ReadOptions(TypedDict, total=False):
    """What `read_log` takes beside the source, for those that hand it on."""

    action: str
    observation: str | Sequence[str]
    reward: str | None
    episode: str | None
    probability: str | None
    terminated: str | None
    truncated: str | None
    environment: str | None
    step: str | None
    header: bool
    delimiter: str
    encoding: str
    missing: Missing
    order: Order
    autoreset: Autoreset | None
    sort: bool
    continued: bool
    strict: bool


def read_log(
    source: LogSource,
    *,
    action: str = "action",
    observation: str | Sequence[str] = "observation",
    reward: str | None = "reward",
    episode: str | None = "episode",
    probability: str | None = "probability",
    terminated: str | None = "terminated",
    truncated: str | None = "truncated",
    environment: str | None = "environment",
    step: str | None = "step",
    header: bool = True,
    delimiter: str = ",",
    encoding: str = "utf-8",
    missing: Missing = "refuse",
    order: Order = "action-first",
    autoreset: Autoreset | None = None,
    sort: bool = False,
    continued: bool = False,
    strict: bool = False,
) -> Trajectory:
    """Read a log from a table, in one pass and little more memory than the result.

    Parameters
    ----------
    source : path, binary file object, table in memory, or a list of these
        The ending of a path says what it is: ``.parquet`` (``.pq``), ``.feather`` (``.arrow``, ``.ipc``), ``.npz``,
        ``.npy``, text compressed as ``.gz`` or ``.zst``; anything else is delimited text (RFC 4180). A folder
        stands for the tables in it, in the order of their names. A file object holds text; it is read to its end and
        neither rewound nor closed, and may be a pipe, such as ``sys.stdin.buffer``. A table in memory is any
        object with ``__arrow_c_stream__``, such as a data frame of pandas or Polars or a relation of DuckDB. Parquet,
        Feather, zstd and tables in memory need pyarrow: ``pip install 'unlatch[tables]'``.
    action, observation : str
        Names of the columns with the action and the observation that followed it. A list of several names makes one
        symbol of these columns, ``3|red``.
    reward, episode, probability : str or None
        Names of the columns with the reward, the episode and the probability with which the action was chosen,
        if there are any; None ignores a column that is there. An episode begins where the text in its column
        changes.
    terminated, truncated : str or None
        Names of the columns that say whether the step ended its episode for good, and whether it was cut there (a
        time limit); true or false, 1 or 0, yes or no. Another episode begins after either. Where a step says both,
        it ended.
    environment, step : str or None
        Names of the columns that say which of several environments, recorded in turns, a row belongs to, and that
        number the steps. Inside an episode steps rise by one; where some are missing a new episode begins
        (``step_gaps`` in the diagnostics).
    header : bool
        Whether the first row of a text names the columns. If not, they are action, observation, reward, episode, in
        this order, of which the last two may be absent.
    delimiter, encoding : str
        Of text.
    missing : "refuse" or "split"
        What a row without action or observation, or a blank line between rows, means: an error, or that
        the steps after it are a new episode. Unless they split, a row without an action that is the first of its
        episode holds what was shown before any action; then every episode has one.
    order : "action-first" or "observation-first"
        Whether the observation of a row followed its action, or stood before it, as in tables of (observation, action,
        reward). Then what follows an action is in the next row of its episode, and the first row of an episode has
        what was shown first.
    autoreset : None or "next-step"
        "next-step" if the row after an ending only reset the environment, as vector environments of Gymnasium write
        by default: such rows are left out.
    sort : bool
        Whether rows may be out of order; they are sorted by environment, episode and step.
    continued : bool
        Whether several files are the parts of one log, so that an episode may go on from one to the next. Otherwise
        every file begins a new one, and its episodes have nothing to do with those of the same name in others.
    strict : bool
        Refuse a last row of a text without a line end. Otherwise it is taken for cut off: dropped, and noted in the
        log's diagnostics as ``truncated_tail``.

    Returns
    -------
    Trajectory
        Symbols in sorted order; what was noticed on the way is in its ``diagnostics``.

    Examples
    --------
    >>> import io
    >>> text = b"did,saw,color\\nleft,3,red\\nright,1,blue\\n"
    >>> log = read_log(io.BytesIO(text), action="did", observation=["saw", "color"])
    >>> log.observation_names
    ('1|blue', '3|red')
    """
    form = _checked_form(
        (action, observation, reward, episode, probability, terminated, truncated, environment, step),
        header=header,
        delimiter=delimiter,
        encoding=encoding,
    )
    chunks = _read(source, form, missing, order, autoreset, sort, continued, strict)
    log = Joining()
    while True:
        try:
            log.add(next(chunks))
        except StopIteration as end:
            return log.finished(end.value)


def iterate_log(
    source: LogSource, *, chunk: int = STEPS_PER_CHUNK, **options: Unpack[ReadOptions]
) -> Iterator[LogChunk]:
    """Read a log piece by piece, in memory that does not grow with its length.

    Takes the options of `read_log`. What is wrong with a log as a whole (rows that lack cells, say) is raised after
    the last chunk. With ``sort``, ``order="observation-first"`` or a column ``environment`` a table is read whole
    first.

    Parameters
    ----------
    source : as for `read_log`
    chunk : int
        Steps of a chunk; the last one has fewer.

    Yields
    ------
    LogChunk

    Examples
    --------
    >>> import io
    >>> text = b"action,observation\\n" + b"left,dark\\n" * 5
    >>> [len(chunk) for chunk in iterate_log(io.BytesIO(text), chunk=2)]
    [2, 2, 1]
    """
    if not isinstance(chunk, int) or chunk < 1:
        raise UsageError(f"chunk must be a number of steps above 0, got {chunk!r:.40}")
    reader = _options_of_reader(options)
    return resized(_read(source, *reader), chunk)


def checked_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """All options of `read_log`, those that are not given with their defaults; others are refused."""
    defaults: dict[str, Any] = dict(read_log.__kwdefaults__ or {})
    unknown = sorted(set(options) - set(defaults))
    if unknown:
        raise UsageError(f"no option {unknown[0]!r}; there are {', '.join(defaults)}")
    return defaults | dict(options)


def _options_of_reader(options: Mapping[str, Any]) -> tuple[Any, ...]:
    """The arguments of `_read` from those of `read_log`."""
    given = checked_options(options)
    form = _checked_form(
        tuple(given[name] for name in list(given)[:9]),
        header=given["header"],
        delimiter=given["delimiter"],
        encoding=given["encoding"],
    )
    return form, *(given[name] for name in ("missing", "order", "autoreset", "sort", "continued", "strict"))


def _checked_form(names: tuple[Any, ...], *, header: bool, delimiter: str, encoding: str) -> Form:
    _check_answers(header=header)
    return Form(
        roles=checked_roles(*names),
        header=header,
        delimiter=checked_delimiter(delimiter),
        encoding=checked_encoding(encoding),
    )


def _read(
    source: LogSource,
    form: Form,
    missing: Missing,
    order: Order,
    autoreset: Autoreset | None,
    sort: bool,
    continued: bool,
    strict: bool,
) -> Generator[LogChunk, None, Diagnostics]:
    """The chunks of a log as its tables give them; at the end what was noticed."""
    _check_choices(missing, order, autoreset)
    _check_answers(sort=sort, continued=continued, strict=strict)
    assembler = Assembler(missing=missing, strict=strict, continued=continued, autoreset=autoreset)
    for part in parts_of(source):
        with opened(part, form) as table:
            rows = arranged(table, sort=sort, order=order)
            assembler.enter(rows)
            for batch in rows.batches():
                yield assembler.take(batch)
            assembler.leave(rows)
    return assembler.finish()


def _check_choices(missing: object, order: object, autoreset: object) -> None:
    for name, value, allowed in (
        ("missing", missing, get_args(Missing)),
        ("order", order, get_args(Order)),
        ("autoreset", autoreset, (None, *get_args(Autoreset))),
    ):
        if not isinstance(value, str | None) or value not in allowed:
            raise UsageError(f"{name} must be {' or '.join(map(repr, allowed))}, got {value!r:.40}")


def _check_answers(**answers: object) -> None:
    for name, value in answers.items():
        if not isinstance(value, bool | np.bool_):
            raise UsageError(f"{name} must be True or False, got {value!r:.40}")
