"""How sure every number of a model is: an interval and a verdict for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from unlatch.arrays import Floats
from unlatch.core.checks import frozen
from unlatch.errors import DataError

__all__ = ["IDENTIFIED", "KINDS", "Entry", "Intervals", "Method", "Rows", "Verdict"]

Method = Literal["scores", "differences", "sandwich"]
"""Where the covariance comes from: scores of blocks, second differences, or the first between two of the second."""

Verdict = Literal["identified", "bounded", "never observed", "not examined", "by definition"]

IDENTIFIED: tuple[Verdict, ...] = ("identified", "not examined")
"""Verdicts of numbers whose interval is about the noise of the log; the others have a set."""

KINDS = ("initial", "transitions", "observations", "first_observations", "reward_probabilities")
"""Fields of a `POMDP` whose last axis is a distribution, in the order of `Rows`."""


class Rows(NamedTuple):
    """Something for every number of a model; None for rows that it does not have.

    Examples
    --------
    >>> from unlatch import domains, simulate, uncertainty
    >>> sure = uncertainty(domains.tiger(), simulate(domains.tiger(), 1_000, rng=0)).intervals()
    >>> [kind for kind, rows in sure.standard_errors.items()]
    ['initial', 'transitions', 'observations']
    """

    initial: NDArray[Any]
    transitions: NDArray[Any]
    observations: NDArray[Any]
    first_observations: NDArray[Any] | None = None
    reward_probabilities: NDArray[Any] | None = None

    def items(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Kind and array of those that there are."""
        return ((kind, rows) for kind, rows in zip(KINDS, self, strict=True) if rows is not None)


class Entry(NamedTuple):
    """One number of a model: its kind (a field of `POMDP`), and its place there.

    ``action`` is None where no action belongs to it, or all do: rows that all actions share are one. ``outcome`` is the
    index on the last axis.

    Examples
    --------
    >>> from unlatch import Entry, domains, simulate, uncertainty
    >>> sure = uncertainty(domains.tiger(), simulate(domains.tiger(), 1_000, rng=0)).intervals()
    >>> low, high = sure.of(Entry("observations", action=0, state=0, outcome=0))
    >>> bool(low < 0.85 < high)
    True
    """

    kind: str
    action: int | None
    state: int | None
    outcome: int


@dataclass(frozen=True, eq=False)
class Intervals:
    """An interval for every number of a model, and what kind of knowledge it is.

    The verdicts: *identified* - the process determines the number, up to the names of the states and among the models
    near this one, and the interval is about the noise of the log; *bounded* - no log determines it, and the interval is
    a set of values, each of which may be as right as any other; *never observed* - the log has nothing to say, so that
    it is [0, 1]; *by definition* - nothing to learn, as in a terminal state; *not examined* - whether the number is
    identified was not looked at, or could not be told; the interval is about the noise of the log.

    Attributes
    ----------
    level : float
        Share of logs whose interval covers the true number, as intended.
    transitions : array, shape (actions, states, states, 2)
        Least and greatest value.
    observations : array, shape (actions, states, observations, 2)
    initial : array, shape (states, 2)
    first_observations : array, shape (states, first observations, 2), or None
    reward_probabilities : array, shape (actions, states, rewards, 2), or None
    standard_errors : Rows
        Of every number; not a number where there is none: zeros and ones, and what is not identified.
    verdicts : Rows
        Of words.
    method : "scores", "differences" or "sandwich"
        Where the standard errors come from. All but the last hold for a model that fits its log.

    Examples
    --------
    >>> from unlatch import domains, simulate, uncertainty
    >>> sure = uncertainty(domains.tiger(), simulate(domains.tiger(), 1_000, rng=0)).intervals(level=0.8)
    >>> sure.level, sure.transitions.shape, str(sure.verdicts.initial[0])
    (0.8, (3, 2, 2, 2), 'never observed')
    """

    level: float
    transitions: Floats
    observations: Floats
    initial: Floats
    first_observations: Floats | None
    reward_probabilities: Floats | None
    standard_errors: Rows
    verdicts: Rows
    method: Method = "scores"

    def __repr__(self) -> str:
        return f"Intervals({self})"

    def __str__(self) -> str:
        counts = Counter(word for _, rows in self.verdicts.items() for word in rows.ravel().tolist())
        kinds = ", ".join(f"{counts[verdict]} {verdict}" for verdict in get_args(Verdict) if counts[verdict])
        widest = self.widest
        wide = "" if widest is None else f"; the widest of those about noise is {self.width(widest):.3g} wide"
        return f"{self.level:.0%} intervals of {counts.total()} numbers: {kinds}{wide}"

    @property
    def rows(self) -> Rows:
        """All intervals, in the order of `KINDS`."""
        return Rows(*(getattr(self, kind) for kind in KINDS))

    @property
    def widest(self) -> Entry | None:
        """The number with the widest interval of those whose interval is about the noise of the log; None if there is
        none."""
        best: tuple[float, Entry] | None = None
        for kind, bounds in self.rows.items():
            words = getattr(self.verdicts, kind)
            widths = np.where(np.isin(words, IDENTIFIED), bounds[..., 1] - bounds[..., 0], -1.0)
            place = int(widths.argmax())
            if widths.flat[place] >= 0 and (best is None or widths.flat[place] > best[0]):
                best = float(widths.flat[place]), entry_at(kind, widths.shape, place)
        return None if best is None else best[1]

    def of(self, entry: Entry) -> tuple[float, float]:
        """Least and greatest value of one number; of a row that all actions share, of any action."""
        bounds = getattr(self, entry.kind)
        place = [index for index in (entry.action, entry.state, entry.outcome) if index is not None]
        while len(place) < bounds.ndim - 1:
            place.insert(0, 0)
        low, high = bounds[tuple(place)]
        return float(low), float(high)

    def width(self, entry: Entry) -> float:
        """Greatest less least value of one number."""
        low, high = self.of(entry)
        return high - low

    def as_dict(self) -> dict[str, Any]:
        """Plain values for a file; a missing standard error is None."""
        return {
            "level": float(self.level),
            "method": self.method,
            **{
                kind: {
                    "intervals": bounds.tolist(),
                    "standard_errors": _with_none(getattr(self.standard_errors, kind)),
                    "verdicts": getattr(self.verdicts, kind).tolist(),
                }
                for kind, bounds in self.rows.items()
            },
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Intervals:
        """The inverse of `as_dict`; a `DataError` names the field that does not fit."""
        try:
            given = {kind: values[kind] for kind in KINDS if values.get(kind) is not None}
            bounds = {kind: _bounds(kind, part["intervals"]) for kind, part in given.items()}
            errors = {kind: _errors(kind, part["standard_errors"]) for kind, part in given.items()}
            words = {kind: _words(kind, part["verdicts"]) for kind, part in given.items()}
            for kind, array in bounds.items():
                if not array.shape[:-1] == errors[kind].shape == words[kind].shape:
                    raise DataError(f"intervals: {kind}: arrays of different shapes")
            if values["method"] not in get_args(Method):
                raise DataError(f"intervals: no method {values['method']!r:.40}")
            level = float(values["level"])
            if not 0 < level < 1:
                raise DataError(f"intervals: level must lie between 0 and 1, got {level}")
            return cls(
                level=level,
                **{kind: bounds.get(kind) for kind in KINDS},  # type: ignore[arg-type]
                standard_errors=Rows(**errors),
                verdicts=Rows(**words),
                method=values["method"],
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"intervals: {type(error).__name__}: {error}") from None


def entry_at(kind: str, shape: tuple[int, ...], place: int) -> Entry:
    """The entry at a flat index of an array of that kind."""
    index = [int(i) for i in np.unravel_index(place, shape)]
    if kind == "initial":
        return Entry(kind, None, None, index[0])
    return Entry(kind, index[0] if len(index) == 3 else None, index[-2], index[-1])


def _with_none(errors: Floats) -> Any:
    return np.where(np.isfinite(errors), errors, None).tolist()  # type: ignore[call-overload]


def _bounds(kind: str, value: Any) -> Floats:
    array = np.asarray(value, dtype=np.float64)
    inside = array.ndim >= 2 and array.shape[-1] == 2 and bool((array >= 0).all() and (array <= 1).all())
    if not inside or bool((array[..., 0] > array[..., 1]).any()):
        raise DataError(f"intervals: {kind}: expected pairs of numbers between 0 and 1, the lesser first")
    return frozen(array)


def _errors(kind: str, value: Any) -> Floats:
    array = np.asarray(value, dtype=np.float64)  # None becomes not a number
    if bool((array < 0).any()):
        raise DataError(f"intervals: {kind}: a standard error cannot be negative")
    return frozen(array)


def _words(kind: str, value: Any) -> NDArray[Any]:
    array = np.asarray(value)
    unknown = set(array.ravel().tolist()) - set(get_args(Verdict))
    if unknown:
        raise DataError(f"intervals: {kind}: no verdict {sorted(map(repr, unknown))[0]:.40}")
    return frozen(array)
