"""Logs as files: delimited text, also compressed, Parquet, NPZ; the ending of the name says which."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from unlatch.arrays import Floats, Ints
from unlatch.core.progress import report
from unlatch.core.trajectory import Trajectory, format_reward
from unlatch.errors import DataError, UsageError
from unlatch.files.atomic import PathLike, atomic_writer, checked_path
from unlatch.files.logs.arrays import NAMES, contents_of
from unlatch.files.logs.arrow import COLUMNS_KEY, arrow_library
from unlatch.files.logs.columns import OBSERVATION

__all__ = ["check_log_target", "write_log"]

STEPS_PER_CHUNK = 1 << 18
"""Written at once: large enough for the kernel, small enough to report progress."""

_NEEDS_QUOTES = (",", '"', "\n", "\r")
_READ_AS_FORMULA = ("=", "+", "-", "@")

_NOT_WRITTEN = (".feather", ".arrow", ".ipc", ".npy", ".zst", ".zip", ".bz2", ".xz", ".json", ".xlsx")
"""Endings of kinds of file that are not written, so that a text is not taken for one."""


def write_log(path: PathLike, log: Trajectory) -> None:
    """Write a log so that `read_log` gives it back, but for symbols that never occur; whole or not at all.

    The ending of the path says how: ``.parquet`` (with checksums of its pages; needs pyarrow), ``.npz``, ``.gz``
    (compressed text), anything else is text. Columns are action and observation, then reward if the log has rewards,
    episode (0, 1, ...) if it has more than one, probability if it has probabilities and terminated if it tells its
    endings. A first observation is a row before the first step of its episode, in which only observation and
    episode are filled. Names that a spreadsheet would take for a formula are quoted in a text.

    Examples
    --------
    >>> import unlatch
    >>> log = unlatch.Trajectory.from_symbols(["left", "right"], ["dark", "light"], rewards=[0, 1])
    >>> unlatch.write_log("log.npz", log)
    >>> unlatch.read_log("log.npz") == log
    True
    """
    if not isinstance(log, Trajectory):
        raise UsageError(f"a Trajectory can be written as a log, got {type(log).__name__}")
    if len(log) == 0:
        raise DataError(f"{checked_path(path)}: a log of 0 steps cannot be written")
    write = _writer(checked_path(path))
    with atomic_writer(path) as handle:
        write(handle, log)


def check_log_target(path: PathLike) -> None:
    """Refuse, before any work is done, a path whose ending names a kind of file that cannot be written here."""
    _writer(checked_path(path))


def _writer(path: str) -> Callable[[BinaryIO, Trajectory], None]:
    ending = path.lower()
    if ending.endswith((".parquet", ".pq")):
        arrow_library(f"{path}: to write Parquet")
        return _write_parquet
    if ending.endswith(".npz"):
        return _write_npz
    if ending.endswith(".gz"):
        return _write_compressed
    if ending.endswith(_NOT_WRITTEN):
        raise UsageError(
            f"{path}: logs are written as .csv, .csv.gz, .parquet or .npz; choose one of these endings"
        )
    return _write_text


# --- text ---------------------------------------------------------------------------------------------------


def _write_compressed(handle: BinaryIO, log: Trajectory) -> None:
    with gzip.GzipFile(filename="", mode="wb", fileobj=handle, mtime=0) as packed:
        _write_text(packed, log)  # type: ignore[arg-type]


def _write_text(handle: BinaryIO, log: Trajectory) -> None:
    header = ["action", "observation"]
    header += ["reward"] if log.rewards is not None else []
    header += ["episode"] if log.n_episodes > 1 else []
    header += ["probability"] if log.probabilities is not None else []
    header += ["terminated"] if log.terminated is not None else []
    handle.write(",".join(header).encode() + b"\n")
    for begin, stop in _stretches(log):
        handle.write(_rows(log, begin, stop))


def _stretches(log: Trajectory) -> Iterator[tuple[int, int]]:
    """Where to begin and stop writing, so many steps at a time."""
    for begin in range(0, len(log), STEPS_PER_CHUNK):
        stop = min(begin + STEPS_PER_CHUNK, len(log))
        yield begin, stop
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


# --- columns as arrays --------------------------------------------------------------------------------------


class _Arrays(NamedTuple):
    """Some rows as arrays: -1 for the action of a first observation, NaN for what such a row does not say.
    ``observation`` numbers the names of first observations after those of the others."""

    action: Ints
    observation: Ints
    reward: Floats | None
    episode: Ints | None
    probability: Floats | None
    terminated: NDArray[np.bool_] | None
    opening: NDArray[np.bool_] | None


def _arrays(log: Trajectory, begin: int, stop: int) -> _Arrays:
    """The rows of some steps, with those of first observations."""
    places = np.zeros(0, dtype=np.int64)
    shown = places
    if log.first_observations is not None:
        first, last = np.searchsorted(log.episode_starts, (begin, stop))
        places = log.episode_starts[first:last] - begin
        shown = _first_places(log)[log.first_observations[first:last]]

    def column(values: Any, filler: Any) -> Any:
        return None if values is None else np.insert(values[begin:stop], places, filler)

    numbers = None
    if log.n_episodes > 1:
        of_step = np.searchsorted(log.episode_starts, np.arange(begin, stop), side="right") - 1
        numbers = np.insert(of_step, places, of_step[places])
    opening = None
    if log.first_observations is not None:
        opening = np.insert(np.zeros(stop - begin, dtype=bool), places, True)
    return _Arrays(
        action=column(log.actions, -1),
        observation=column(log.observations, shown),
        reward=column(log.rewards, np.nan),
        episode=numbers,
        probability=column(log.probabilities, np.nan),
        terminated=column(log.terminated, False),
        opening=opening,
    )


def _observation_names(log: Trajectory) -> tuple[str, ...]:
    """All that may stand in the column, each once: pyarrow leaves unset memory in the file behind a dictionary in which
    a name stands twice."""
    if log.first_observations is None:
        return log.observation_names
    return tuple(dict.fromkeys((*log.observation_names, *log.first_observation_names)))


def _first_places(log: Trajectory) -> Ints:
    """Where among these the first observations are."""
    place = {name: i for i, name in enumerate(_observation_names(log))}
    return np.array([place[name] for name in log.first_observation_names], dtype=np.int64)


# --- Parquet ------------------------------------------------------------------------------------------------


def _write_parquet(handle: BinaryIO, log: Trajectory) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    fields = [pa.field(name, kind) for name, kind in _parquet_columns(log).items()]
    schema = pa.schema(fields, metadata={COLUMNS_KEY: ",".join(_parquet_columns(log))})
    names = pa.array(log.action_names), pa.array(_observation_names(log))
    with pq.ParquetWriter(handle, schema, compression="zstd", write_page_checksum=True) as writer:
        for begin, stop in _stretches(log):
            rows = _arrays(log, begin, stop)
            arrays = [_dictionary(pa, rows.action, names[0]), _dictionary(pa, rows.observation, names[1])]
            for values in (rows.reward, rows.episode, rows.probability, rows.terminated):
                if values is not None:
                    hidden = rows.opening if values is not rows.episode else None
                    arrays.append(pa.array(values, mask=hidden))
            writer.write_batch(pa.record_batch(arrays, schema=schema))


def _parquet_columns(log: Trajectory) -> dict[str, Any]:
    import pyarrow as pa

    symbols = pa.dictionary(pa.int32(), pa.string())
    return {
        "action": symbols,
        "observation": symbols,
        **({"reward": pa.float64()} if log.rewards is not None else {}),
        **({"episode": pa.int64()} if log.n_episodes > 1 else {}),
        **({"probability": pa.float64()} if log.probabilities is not None else {}),
        **({"terminated": pa.bool_()} if log.terminated is not None else {}),
    }


def _dictionary(pa: Any, codes: Ints, names: Any) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32), mask=codes < 0), names)


# --- NPZ ----------------------------------------------------------------------------------------------------


def _write_npz(handle: BinaryIO, log: Trajectory) -> None:
    """One array a column, and the names of the codes; the same log gives the same bytes."""
    rows = len(log) + (log.n_episodes if log.first_observations is not None else 0)
    kinds: dict[str, Any] = {
        "action": np.int16,
        "observation": np.int16,
        "reward": np.float64 if log.rewards is not None else None,
        "episode": np.int64 if log.n_episodes > 1 else None,
        "probability": np.float64 if log.probabilities is not None else None,
        "terminated": np.bool_ if log.terminated is not None else None,
    }
    with zipfile.ZipFile(handle, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, kind in kinds.items():
            if kind is not None:
                with _member(archive, name) as member:
                    npy.write_array_header_1_0(member, _declared(rows, np.dtype(kind)))
                    for begin, stop in _stretches(log):
                        member.write(getattr(_arrays(log, begin, stop), name).astype(kind).tobytes())
        for name, names in (("action", log.action_names), ("observation", _observation_names(log))):
            with _member(archive, name + NAMES) as member:
                npy.write_array(member, np.array(names), version=(1, 0), allow_pickle=False)
        archive.comment = contents_of(name.removesuffix(".npy") for name in archive.namelist())


def _member(archive: zipfile.ZipFile, name: str) -> Any:
    info = zipfile.ZipInfo(name + ".npy")
    info.compress_type = zipfile.ZIP_DEFLATED
    return archive.open(info, "w", force_zip64=True)


def _declared(rows: int, dtype: np.dtype[Any]) -> dict[str, Any]:
    return {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": (rows,)}
