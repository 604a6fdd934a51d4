"""Counts as files: what was counted in one place is merged and learned from in another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unlatch.arrays import Ints
from unlatch.core.alphabet import checked_names
from unlatch.core.checks import frozen
from unlatch.errors import DataError, UnlatchError, UsageError
from unlatch.files.arrays import is_archive_of, read_arrays, write_arrays
from unlatch.files.atomic import PathLike, checked_path
from unlatch.learn.spectral.counting import SequenceCounts, check_lengths
from unlatch.learn.spectral.windows import BLOCKS, WindowTable, digits_per_word

__all__ = ["is_counts_file", "load_counts", "save_counts"]

KIND = "unlatch-counts"
_VERSION = 1
_WHOLE = ("history_length", "test_length", "steps", "episodes", "longest_episode", "version")
_FIELDS = {*_WHOLE, "action_names", "observation_names", "weighted", "rewarded", "paired"}


def save_counts(path: PathLike, counts: SequenceCounts) -> None:
    """Write counts as a checksummed NPZ file, whole or not at all; the same counts give the same bytes.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from unlatch import count_sequences, domains, load_counts, save_counts, simulate
    >>> counts = count_sequences(simulate(domains.tiger(), 500, rng=0), history_length=2, test_length=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_counts(pathlib.Path(folder) / "counts.npz", counts)
    ...     load_counts(pathlib.Path(folder) / "counts.npz").steps
    500
    """
    if not isinstance(counts, SequenceCounts):
        raise UsageError(f"expected SequenceCounts, got {type(counts).__name__}; use count_sequences")
    header = {
        "version": _VERSION,
        "history_length": int(counts.history_length),
        "test_length": int(counts.test_length),
        "steps": int(counts.steps),
        "episodes": int(counts.episodes),
        "longest_episode": int(counts.longest_episode),
        "action_names": list(counts.action_names),
        "observation_names": list(counts.observation_names),
        "weighted": counts.weighted,
        "rewarded": counts.symbol_rewards is not None,
        "paired": counts.paired,
    }
    arrays: dict[str, NDArray[Any]] = {}
    if counts.symbol_rewards is not None:
        arrays["symbol_rewards"] = counts.symbol_rewards
    for table in counts.tables:
        arrays[f"codes_{table.length}"] = table.codes
        arrays[f"counts_{table.length}"] = _small(table.counts)
        if table.weights is not None and table.squares is not None:
            arrays[f"weights_{table.length}"] = table.weights
            arrays[f"squares_{table.length}"] = table.squares
    write_arrays(path, KIND, header, arrays)


def _small(counts: Ints) -> NDArray[Any]:
    """With as few bytes as the largest count needs."""
    return counts.astype(np.min_scalar_type(int(counts.max(initial=0))))


def is_counts_file(path: PathLike) -> bool:
    """Whether a file claims to hold counts."""
    return is_archive_of(path, KIND)


def load_counts(path: PathLike) -> SequenceCounts:
    """Counts that `save_counts` wrote.

    Raises
    ------
    DataError
        If the file is damaged, of another kind, or its content contradicts itself.

    Examples
    --------
    >>> import unlatch
    >>> log = unlatch.simulate(unlatch.domains.tiger(), 1_000, rng=1)
    >>> unlatch.save_counts("counts.npz", unlatch.count_sequences(log, history_length=2, test_length=1))
    >>> unlatch.load_counts("counts.npz").steps
    1000
    """
    where = checked_path(path)
    header, arrays = read_arrays(path, KIND)
    try:
        return _counts(header, arrays)
    except (KeyError, TypeError, ValueError, UnlatchError) as error:
        raise DataError(f"{where}: not what counts look like ({error}); count the log anew") from None


def _counts(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> SequenceCounts:
    if set(header) != _FIELDS or header["version"] != _VERSION:
        raise DataError(f"fields {sorted(header)} of version {header.get('version')!r}")
    if not all(type(header[name]) is int and header[name] >= 0 for name in _WHOLE):
        raise DataError("a length or a size is no whole number")
    check_lengths(header["history_length"], header["test_length"])
    actions = checked_names("action_names", header["action_names"], None)
    observations = checked_names("observation_names", header["observation_names"], None)
    longest = header["history_length"] + header["test_length"]
    base = len(actions) * len(observations)
    kinds = ["codes", "counts", *(["weights", "squares"] if header["weighted"] else [])]
    expected = {f"{kind}_{length}" for kind in kinds for length in range(1, longest + 1)}
    if set(arrays) != expected | ({"symbol_rewards"} if header["rewarded"] else set()):
        raise DataError(f"arrays {sorted(arrays)}")
    rewards = arrays.get("symbol_rewards")
    if rewards is not None and (rewards.shape != (len(observations),) or not np.isfinite(rewards).all()):
        raise DataError("symbol_rewards: one finite number for every observation is needed")
    return SequenceCounts(
        history_length=header["history_length"],
        test_length=header["test_length"],
        action_names=actions,
        observation_names=observations,
        tables=tuple(_table(length, base, arrays) for length in range(1, longest + 1)),
        steps=header["steps"],
        symbol_rewards=None if rewards is None else frozen(rewards.astype(np.float64)),
        episodes=header["episodes"],
        longest_episode=header["longest_episode"],
        paired=header["paired"] is True,
    )


def _table(length: int, base: int, arrays: Mapping[str, NDArray[Any]]) -> WindowTable:
    digits = digits_per_word(base)
    codes, counts = arrays[f"codes_{length}"], arrays[f"counts_{length}"]
    windows = codes.shape[-1]
    if codes.dtype != np.int64 or codes.shape != (-(-length // digits), windows) or windows == 0:
        raise DataError(f"codes_{length}: shape {codes.shape}")
    if counts.dtype.kind != "u" or counts.shape != (windows, BLOCKS):
        raise DataError(f"counts_{length}: shape {counts.shape}")
    for w, word in enumerate(codes):
        if word.min() < 0 or word.max() >= base ** min(digits, length - w * digits):
            raise DataError(f"codes_{length}: a window of unknown symbols")
    if not _increase(codes) or (counts.sum(axis=1) == 0).any():
        raise DataError(f"codes_{length}: windows out of order, twice, or never counted")
    weights, squares = arrays.get(f"weights_{length}"), arrays.get(f"squares_{length}")
    if weights is not None and squares is not None:
        if weights.shape != counts.shape or squares.shape != (windows, 1):
            raise DataError(f"weights_{length}: shape {weights.shape}")
        if not (np.isfinite(weights).all() and np.isfinite(squares).all()):
            raise DataError(f"weights_{length}: a weight that is no finite number")
        weights, squares = frozen(weights.astype(np.float64)), frozen(squares.astype(np.float64))
    return WindowTable(length, base, digits, frozen(codes), frozen(counts.astype(np.int64)), weights, squares)


def _increase(codes: Ints) -> bool:
    """Whether columns are in lexicographic order, none twice."""
    larger = np.zeros(codes.shape[1] - 1, dtype=bool)
    equal = ~larger
    for word in codes:
        larger |= equal & (word[1:] > word[:-1])
        equal &= word[1:] == word[:-1]
    return bool(larger.all())
