"""Validation shared by the value classes: arrays come in, checked read-only arrays go out."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unlatch.arrays import Floats
from unlatch.errors import DataError, RepairWarning

ROUNDING = 1e-12
"""Deviation of a probability that is rounding: sums are left as they are, negatives set to zero."""

REPAIRABLE = 1e-5
"""Largest deviation of a row sum from one that is repaired, with a warning, instead of refused."""

MAX_NAME_BYTES = 256


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A C-contiguous, read-only copy; the array itself if it is that already and no view of another."""
    flags = array.flags
    if array.base is None and flags.c_contiguous and not flags.writeable:
        return array
    copy = np.array(array, order="C", copy=True)
    copy.setflags(write=False)
    return copy


def as_array(field: str, value: Any, expected: str, dtype: Any = None) -> NDArray[Any]:
    """Any array-like as an array; a masked entry is missing, and what lies beneath it is nobody's number.

    Objects convert themselves (tables, tensors), and may fail in any way they like.
    """
    if isinstance(value, np.ma.MaskedArray):
        _refuse_masked(field, value)
    try:
        return np.asarray(value, dtype=dtype)
    except Exception as error:
        rows = isinstance(value, list | tuple)
        got = "lists of different lengths" if rows else f"{type(value).__name__}, which says: {error}"
        raise DataError(f"{field}: expected {expected}, got {got:.200}") from None


def _refuse_masked(field: str, array: np.ma.MaskedArray[Any, Any]) -> None:
    mask = np.ma.getmaskarray(array)
    if mask.dtype == np.bool_ and mask.any():
        place = [int(i) for i in np.argwhere(mask)[0]]
        raise DataError(
            f"{field}{place or ''} is masked, and {int(mask.sum())} in all: remove the steps that are missing, and let "
            "an episode start after each"
        )


def finite_floats(field: str, value: ArrayLike, *, ndim: int) -> Floats:
    """Convert to a finite float64 array of ``ndim`` dimensions, or say what is wrong with ``field``."""
    array = as_array(field, value, "an array of real numbers")
    if array.dtype.kind not in "fiu":
        raise DataError(f"{field}: expected an array of real numbers, got {_describe(value)}")
    with np.errstate(over="ignore"):  # a number beyond the largest is found below, and named
        array = array.astype(np.float64, copy=False)
    if array.ndim != ndim:
        raise DataError(f"{field}: expected {ndim} dimensions, got shape {array.shape}")
    bad = ~np.isfinite(array)
    if bad.any():
        place = tuple(int(i) for i in np.argwhere(bad)[0])
        raise DataError(f"{field}{list(place)} is {float(array[place])}; every entry must be finite")
    return array


def distributions(field: str, value: ArrayLike, *, ndim: int) -> Floats:
    """Check that the last axis of ``value`` holds probability distributions; return a read-only copy.

    Sums within 1e-12 of one are left bit for bit; up to 1e-5 they are renormalized with a
    `RepairWarning`; beyond that a `DataError` names the row.
    """
    array = finite_floats(field, value, ndim=ndim)
    if array.shape[-1] == 0:
        raise DataError(f"{field}: the last axis is empty; a distribution needs at least one entry")
    lowest = array.min(initial=0.0)
    if lowest < -ROUNDING:
        place = tuple(int(i) for i in np.argwhere(array == lowest)[0])
        raise DataError(f"{field}{list(place)} is {lowest}; probabilities cannot be negative")
    if lowest < 0:
        array = np.where(array < 0, 0.0, array)
        warnings.warn(RepairWarning(f"{field}: negatives down to {lowest:.1e} set to zero"), stacklevel=4)
    sums = array.sum(axis=-1)
    off = np.abs(sums - 1)
    worst = float(off.max(initial=0.0))
    if worst > REPAIRABLE:
        place = tuple(int(i) for i in np.argwhere(off == worst)[0])
        where = f"row {list(place)}" if place else "the vector"
        raise DataError(
            f"{field}: {where} sums to {float(sums[place])!r}; it must sum to 1 (tolerance {REPAIRABLE})"
        )
    if worst > ROUNDING:
        repaired = off > ROUNDING
        array = np.where(repaired[..., None], array / sums[..., None], array)
        warnings.warn(
            RepairWarning(f"{field}: {int(repaired.sum())} rows off by up to {worst:.1e} were renormalized"),
            stacklevel=4,
        )
    return frozen(array)


def same_length(**arrays: Sequence[Any] | NDArray[Any]) -> None:
    """Refuse arrays of different lengths, naming each."""
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        listing = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise DataError(f"lengths differ: {listing}; one entry per step is needed in each")


def _describe(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of dtype {value.dtype}"
    return type(value).__name__
