"""What was noticed, repaired or left undetermined on the way to a result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from unlatch.core import html

__all__ = ["Diagnostic", "Diagnostics"]


@dataclass(frozen=True)
class Diagnostic:
    """One finding: a stable ``name``, a sentence for people and the numbers behind it.

    Examples
    --------
    >>> from unlatch import Diagnostic
    >>> note = Diagnostic("constant_observation", "the observation never changes", {"symbol": "dark"})
    >>> print(note)
    constant_observation: the observation never changes
    """

    name: str
    message: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name}: {self.message}"


@dataclass(frozen=True)
class Diagnostics:
    """An immutable list of findings, looked up by name: ``"clipped" in d``, ``d["clipped"].details``.

    Examples
    --------
    >>> from unlatch import Diagnostics
    >>> notes = Diagnostics().noting("drift", "the log changes half-way", statistic=31.5)
    >>> "drift" in notes, len(notes), notes["drift"].details
    (True, 1, {'statistic': 31.5})
    """

    entries: tuple[Diagnostic, ...] = ()

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, name: object) -> bool:
        return any(entry.name == name for entry in self.entries)

    def __getitem__(self, name: str) -> Diagnostic:
        for entry in self.entries:
            if entry.name == name:
                return entry
        raise KeyError(name)

    def __add__(self, other: Diagnostics) -> Diagnostics:
        return Diagnostics(self.entries + tuple(e for e in other.entries if e not in self.entries))

    def _repr_html_(self) -> str:
        """For notebooks: every finding and the numbers behind it."""
        if not self.entries:
            return html.page("Diagnostics: nothing was noticed")
        rows = (
            (
                entry.name,
                entry.message,
                ", ".join(f"{name} = {value}" for name, value in entry.details.items()),
            )
            for entry in self.entries
        )
        return html.page(
            f"Diagnostics: {len(self)} findings", html.table(rows, ["name", "finding", "details"])
        )

    def noting(self, name: str, message: str, **details: Any) -> Diagnostics:
        """A copy with one more finding."""
        return Diagnostics((*self.entries, Diagnostic(name, message, details)))
