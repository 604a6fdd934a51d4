"""What a study is made of: units of work that know nothing of each other.

A unit is a function of its parameters and its seed, and of nothing else. So units may be run in any order, by
any number of processes, and again after a crash, and the result is the same to the last bit.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from unlatch.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Finding", "Study", "Unit", "canonical_bytes", "named_seed"]

_ID = re.compile(r"[a-z0-9][a-z0-9._=-]{0,119}")


@dataclass(frozen=True)
class Finding:
    """What a unit found: rows of a table, and how long its stages took.

    Times differ from run to run, so they are kept apart from what must be the same in every run.
    """

    rows: Sequence[Mapping[str, Any]]
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Unit:
    """One piece of work.

    Parameters
    ----------
    id : str
        Unique within the study; also the name of the unit's file, hence lower-case letters, digits and ``._=-``.
    function : callable
        ``function(parameters, seed)`` gives a `Finding`. Must be importable by its name, so that
        another process can find it.
    parameters : mapping
        Values that JSON can hold.
    cost : float
        Expected work relative to other units; only the estimate of the time left depends on it.
    """

    id: str
    function: Callable[[Mapping[str, Any], np.random.SeedSequence], Finding]
    parameters: Mapping[str, Any]
    cost: float = 1.0

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise UsageError(
                f"a unit's id is made of a-z, 0-9 and ._=-, at most 120 of them; got {self.id!r}"
            )

    @property
    def definition(self) -> dict[str, Any]:
        """What settles the result, besides the seed."""
        name = f"{self.function.__module__}.{self.function.__qualname__}"
        return {"id": self.id, "function": name, "parameters": dict(self.parameters)}


@dataclass(frozen=True)
class Study:
    """Units, the seed that all of theirs derive from, and the settings by which people know the study.

    Parameters
    ----------
    name : str
    units : sequence of Unit
    root_seed : int
    settings : mapping
        Whatever else must agree before two runs may share a folder, such as the version of the code.
    """

    name: str
    units: Sequence[Unit]
    root_seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ids = [unit.id for unit in self.units]
        if len(set(ids)) < len(ids):
            twice = next(unit_id for unit_id in ids if ids.count(unit_id) > 1)
            raise UsageError(f"study {self.name}: two units have the id {twice!r}")

    def seed_of(self, unit: Unit) -> np.random.SeedSequence:
        """The unit's own stream, whoever runs it, and whatever else is in the study."""
        return named_seed(self.root_seed, unit.id)

    def fingerprint(self, unit: Unit) -> str:
        """Changes if the unit's function, parameters or seed change."""
        return _digest({**unit.definition, "root_seed": self.root_seed})[:16]

    @cached_property
    def configuration(self) -> dict[str, Any]:
        """What two runs in one folder must agree on, as JSON."""
        fingerprints = sorted(self.fingerprint(unit) for unit in self.units)
        return {
            "study": self.name,
            "root_seed": self.root_seed,
            **self.settings,
            "units": len(self.units),
            "definition": _digest(fingerprints),
        }

    @property
    def hash(self) -> str:
        """One line that stands for the whole configuration."""
        return _digest(self.configuration)


def named_seed(root: int, name: str) -> np.random.SeedSequence:
    """A stream that depends on the root seed and the name alone; different names give independent streams."""
    import numpy as np

    words = np.frombuffer(hashlib.sha256(name.encode()).digest()[:16], dtype="<u4")
    return np.random.SeedSequence(root, spawn_key=tuple(int(word) for word in words))


def canonical_bytes(value: Any) -> bytes:
    """JSON with sorted keys and no blanks: equal values give equal bytes. Refuses NaN and infinities."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _digest(value: Any) -> str:
    return hashlib.sha256(canonical_bytes(value)).hexdigest()
