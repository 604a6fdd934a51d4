"""What a process determines of the model that shows it: verdicts, ranges, and the zeros that a proof rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from unlatch.arrays import Floats
from unlatch.core import html
from unlatch.core.checks import frozen
from unlatch.core.pomdp import POMDP, Emission
from unlatch.errors import DataError

__all__ = ["QUICK_STATES", "Direction", "Identification", "RowVerdict", "Zero"]

Verdict = Literal["determined", "not determined", "undecided", "not minimal", "not examined"]

RowVerdict = Literal[
    "identified", "identified up to relabeling", "bounded", "never observed", "not moved", "not examined"
]

Array = Literal["transitions", "observations", "rewards", "initial"]

QUICK_STATES = 30
"""Up to which it takes seconds at most to tell what is identified: models are shown and saved with it unasked."""

_PLAIN = (
    "identified",
    "everywhere",
    "verdict",
    "reason",
    "n_states",
    "emission",
    "dimension",
    "free_directions",
)
"""Fields that a file keeps as they are."""

_RANGED = ("transitions", "observations", "initial")


class Zero(NamedTuple):
    """A probability that is zero, and what a log has to say about that.

    ``place`` indexes the array (where episodes begin: the state alone). ``opportunities`` counts how often the log
    would have shown it, were it certain, as if states were seen; ``p_value`` is how likely it would show as little if
    the probability were one in twenty. None if there is no log.

    Examples
    --------
    >>> from unlatch import domains, identify
    >>> print(identify(domains.sense_float_reset(4)).zeros[0])
    float: 1 never leads to 3
    """

    array: Array
    place: tuple[int, ...]
    name: str
    opportunities: float | None = None
    p_value: float | None = None

    def __str__(self) -> str:
        if self.opportunities is None or self.p_value is None:
            return self.name
        return f"{self.name} ({self.opportunities:.0f} opportunities, p = {self.p_value:.2g})"


class Direction(NamedTuple):
    """How the numbers of a model may begin to move together: first derivatives, the largest of size one.

    ``initial`` follows the states.

    Examples
    --------
    >>> from unlatch import domains, identify
    >>> direction = identify(domains.unidentifiable_pair()[0]).direction
    >>> float(abs(direction.transitions).max())
    1.0
    """

    transitions: Floats
    observations: Floats
    initial: Floats


@dataclass(frozen=True, eq=False)
class Identification:
    """What is determined of a model by its process, that is, by any log whatever its length.

    Attributes
    ----------
    identified : bool
        True if it is proved that no other model near this one, of as many states and the same emission, has the same
        process; ``everywhere`` if none at all has, but for the names of states.
    everywhere : bool
    reason : str
        The verdict in one sentence.
    transitions, observations, initial : array, shape of the rows + (2,)
        Least and greatest value among the valid models that were found with the same process. These are attained, hence
        inner bounds: the true range may be wider where it is no point. Equal to the number itself where none was found
        to differ; ``transition_rows`` and ``observation_rows`` say where that is proved.
    extremes : (POMDP, POMDP) or None
        The two models found that differ the most; None if no second one was.
    zeros : tuple of Zero
        The zeros that carry the proof. Empty if none is needed, or nothing is proved.
    verdict : str
        "determined"; "not determined": another model was found; "undecided": to first order numbers can move, but no
        other model was found; "not minimal": fewer states would show the same; "not examined": ``reason`` says why.
    transition_rows, observation_rows : array of str, shape (actions, states)
        "identified"; "identified up to relabeling": the numbers are, but another state shows the same, so that which
        of the two is which is a matter of names; "bounded": models with other numbers were found; "never observed": no
        log shows anything of the row, and any numbers will do; "not moved": no model found has others, without a
        proof; "not examined".
    dimension : int or None
        Of the process, terminal states included; None if it was not computed.
    free_directions : int or None
        Changes of basis that keep the form of a model, before any sign is looked at. If none, no zero is needed.
    direction : Direction or None
        One way to move, where the model is not determined.
    moving_states : tuple of int
        The states whose rows it moves.
    doubted : tuple of Zero
        Zeros of a learned model that a proof would need and that the log had too few opportunities against.

    Examples
    --------
    >>> from unlatch import domains, identify
    >>> found = identify(domains.unidentifiable_pair()[0])
    >>> found.identified, found.row_counts()
    (False, {'identified': 15, 'bounded': 3})
    >>> print(found.transitions[0, 1, 1].round(3), found.extremes[1].transitions[0, 1, 1].round(3))
    [0.  0.2] 0.2
    """

    identified: bool
    reason: str
    transitions: Floats
    observations: Floats
    initial: Floats
    n_states: int
    emission: Emission
    verdict: Verdict
    transition_rows: NDArray[np.str_]
    observation_rows: NDArray[np.str_]
    everywhere: bool = False
    extremes: tuple[POMDP, POMDP] | None = None
    zeros: tuple[Zero, ...] = ()
    dimension: int | None = None
    free_directions: int | None = None
    direction: Direction | None = None
    moving_states: tuple[int, ...] = ()
    doubted: tuple[Zero, ...] = ()

    def __post_init__(self) -> None:
        for name in ("transitions", "observations", "initial", "transition_rows", "observation_rows"):
            object.__setattr__(self, name, frozen(np.asarray(getattr(self, name))))

    def __repr__(self) -> str:
        return f"Identification({self})"

    def __str__(self) -> str:
        return self.reason

    def _repr_html_(self) -> str:
        """For notebooks: the sentence, and what it rests on."""
        rows = [("dimension of the process", self.dimension), ("free directions", self.free_directions)]
        parts = [html.table([row for row in rows if row[1] is not None])]
        if self.zeros:
            listed = [(zero.array, zero.name, zero.opportunities, zero.p_value) for zero in self.zeros]
            parts.append(html.table(listed, ["zero in", "which", "opportunities", "p-value"]))
        return html.page(str(self), *parts)

    def __eq__(self, other: object) -> bool:
        """Whether the same is said; the extreme models and the direction are not compared."""
        if not isinstance(other, Identification):
            return NotImplemented
        return self.as_dict() == other.as_dict()

    __hash__ = None  # type: ignore[assignment]

    def row_counts(self) -> dict[str, int]:
        """How many rows got each verdict."""
        words = np.concatenate([self.transition_rows.ravel(), self.observation_rows.ravel()])
        return {word: int((words == word).sum()) for word in get_args(RowVerdict) if (words == word).any()}

    # --- in files ---------------------------------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        """Plain values, without the direction and the extreme models; `from_dict` reads them."""
        kept = {name: getattr(self, name) for name in _PLAIN}
        ranges = {"ranges": {name: _listed(getattr(self, name)) for name in _RANGED}}
        rows = {name: getattr(self, name).tolist() for name in ("transition_rows", "observation_rows")}
        zeros = {name: [_plain_zero(zero) for zero in getattr(self, name)] for name in ("zeros", "doubted")}
        return {**kept, **ranges, **rows, **zeros, "moving_states": list(self.moving_states)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], pomdp: POMDP) -> Identification:
        """What `as_dict` gave, for the model that it is of; anything else is a `DataError`."""
        known = {field.name for field in fields(cls)}
        missing = [name for name in (*_PLAIN, "ranges") if name not in values]
        if missing:
            raise DataError(f"identified: {', '.join(missing)} is missing", field="identified")
        read = {name: value for name, value in values.items() if name in known}
        _checked_plain(read)
        for name in _RANGED:
            read[name] = _read_range(getattr(pomdp, name), _checked_ranges(values["ranges"]).get(name, []))
        for name in ("transition_rows", "observation_rows"):
            read[name] = _checked_rows(name, read.get(name), pomdp.transitions.shape[:2])
        for name in ("zeros", "doubted"):
            read[name] = tuple(_read_zero(item) for item in _checked_list(name, read.get(name, [])))
        moving = _checked_list("moving_states", read.get("moving_states", []))
        if not all(type(state) is int and 0 <= state < pomdp.n_states for state in moving):
            raise DataError("identified: moving_states must be states of the model", field="identified")
        return cls(**{**read, "moving_states": tuple(moving)})


def _plain_zero(zero: Zero) -> list[Any]:
    return [zero.array, list(zero.place), zero.name, zero.opportunities, zero.p_value]


def _read_zero(item: Any) -> Zero:
    if not isinstance(item, list | tuple) or len(item) != 5:
        raise DataError(f"identified: {item!r:.80} is no zero", field="identified")
    array, place, name, opportunities, p_value = item
    right = (
        array in get_args(Array)
        and isinstance(place, list | tuple)
        and all(type(index) is int for index in place)
        and isinstance(name, str)
        and all(value is None or type(value) in (int, float) for value in (opportunities, p_value))
    )
    if not right:
        raise DataError(f"identified: {item!r:.80} is no zero", field="identified")
    return Zero(array, tuple(place), name, opportunities, p_value)


def _checked_plain(read: Mapping[str, Any]) -> None:
    kinds: dict[str, tuple[type, ...]] = {
        "identified": (bool,),
        "everywhere": (bool,),
        "reason": (str,),
        "n_states": (int,),
        "dimension": (int, type(None)),
        "free_directions": (int, type(None)),
    }
    for name, kind in kinds.items():
        if type(read[name]) not in kind:
            raise DataError(f"identified: {name} is {read[name]!r:.60}", field="identified")
    if read["verdict"] not in get_args(Verdict) or read["emission"] not in get_args(Emission):
        raise DataError("identified: unknown verdict or emission", field="identified")


def _listed(ranges: Floats) -> list[list[Any]]:
    """Place, least and greatest value of every number that is no point."""
    open_ = np.argwhere(ranges[..., 1] > ranges[..., 0])
    return [[*place, *ranges[tuple(place)].tolist()] for place in open_.tolist()]


def _checked_ranges(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise DataError("identified: ranges is no object", field="identified")
    return value


def _read_range(numbers: Floats, listed: Any) -> Floats:
    """What `_listed` gave, around the numbers of the model."""
    ranges = np.stack([numbers, numbers], axis=-1)
    for item in _checked_list("ranges", listed):
        *place, low, high = item if isinstance(item, list | tuple) and len(item) > 2 else (None, 0.0, 0.0)
        inside = len(place) == numbers.ndim and all(
            type(index) is int and 0 <= index < size for index, size in zip(place, numbers.shape, strict=True)
        )
        if not inside or not all(type(end) in (int, float) and 0 <= end <= 1 for end in (low, high)):
            raise DataError(f"identified: {item!r:.80} is no range of a probability", field="identified")
        ranges[tuple(place)] = low, high
    return ranges


def _checked_rows(name: str, value: Any, shape: tuple[int, ...]) -> NDArray[np.str_]:
    rows = _checked_list(name, value)
    words = get_args(RowVerdict)
    right = len(rows) == shape[0] and all(
        isinstance(row, list | tuple) and len(row) == shape[1] and all(word in words for word in row)
        for row in rows
    )
    if not right:
        raise DataError(f"identified: {name} has no verdict for every row", field="identified")
    return np.array([list(row) for row in rows], dtype=str)


def _checked_list(name: str, value: Any) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise DataError(f"identified: {name} is no list", field="identified")
    return value
