"""Everything that can be asked of `learn_pomdp`, as one value: checked once, recorded with the result."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from unlatch.core.arguments import checked_seconds, whole_number
from unlatch.core.pomdp import Emission
from unlatch.errors import UsageError
from unlatch.learn.spectral.factorize import Scaling

__all__ = ["LearnOptions"]


@dataclass(frozen=True, kw_only=True)
class LearnOptions:
    """The options of `learn_pomdp`, which says what they mean; the command line has the same names.

    Examples
    --------
    >>> LearnOptions(states=3).as_dict()["states"]
    3
    """

    states: int | None = None
    max_states: int | None = None
    time_limit: float | None = None
    emission: Emission | Literal["auto"] = "auto"
    refine: Literal["auto"] | None = "auto"
    rank: int | None = None
    rank_tolerance: float | None = None
    max_rank: int = 20
    history_length: int | None = None
    test_length: int | None = None
    scaling: Scaling = "noise"
    min_singular_value: float | None = None
    observation_tolerance: float | None = None
    draws: int = 30
    newton: bool = True
    rotation: Literal["cells", "dense"] = "cells"

    def __post_init__(self) -> None:
        for name in ("states", "max_states", "rank"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, whole_number(name, value, least=1))
        for name in ("max_rank", "draws"):
            whole_number(name, getattr(self, name), least=1)
        object.__setattr__(self, "time_limit", checked_seconds("time_limit", self.time_limit))
        _one_of("emission", self.emission, ("auto", *get_args(Emission)))
        _one_of("refine", self.refine, ("auto", None))
        _one_of("rotation", self.rotation, ("cells", "dense"))
        _one_of("scaling", self.scaling, ("noise", "none"))
        for name in ("min_singular_value", "observation_tolerance"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise UsageError(f"{name} cannot be negative, got {value}")
        self._check_agreement()

    def _check_agreement(self) -> None:
        """What is asked for twice must be the same, and nothing may be lost."""
        if self.states is not None and self.max_states is not None and self.states > self.max_states:
            raise UsageError(f"states={self.states} is more than max_states={self.max_states}")
        largest = self.max_states if self.states is None else self.states
        if self.rank is not None and largest is not None and self.rank > largest:
            raise UsageError(
                f"rank={self.rank} would be a spectral model of more states than the {largest} allowed"
            )
        if self.refine is None and self.states is not None and self.rank not in (None, self.states):
            raise UsageError(
                f"the spectral model has as many states as its rank: states={self.states} and rank={self.rank} disagree"
            )

    @property
    def emissions(self) -> tuple[Emission, ...]:
        """Those that come into question."""
        return get_args(Emission) if self.emission == "auto" else (self.emission,)

    @property
    def dense_rotation(self) -> bool:
        """Whether both factors are rotated densely, as the paper's experiments did."""
        return self.rotation == "dense"

    @property
    def spectral_rank(self) -> int | None:
        """The rank that is asked of the Hankel matrix, if any."""
        return self.states if self.rank is None else self.rank

    @property
    def largest_rank(self) -> int:
        """The most that is considered when the rank is not fixed."""
        return self.max_rank if self.max_states is None else min(self.max_rank, self.max_states)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, by name."""
        return asdict(self)


def _one_of(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        raise UsageError(f"{name} must be {' or '.join(map(repr, allowed))}, got {value!r}")
