"""unlatch: learn an explicit POMDP from the log of what an agent did and saw, then plan with it.

The public names are listed once, in ``_HOMES``, and imported on first use, so that ``import unlatch`` and
``unlatch --help`` stay instant.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    # values
    "Trajectory": "core.trajectory",
    "POMDP": "core.pomdp",
    "PSR": "core.psr",
    "Partition": "core.partition",
    "Diagnostic": "core.diagnostics",
    "Diagnostics": "core.diagnostics",
    # simulation
    "simulate": "simulation",
}

_MODULES = ("domains", "errors")

__all__ = ["__version__", *_HOMES, *_MODULES]

if TYPE_CHECKING:
    from unlatch import domains as domains
    from unlatch import errors as errors
    from unlatch.core.diagnostics import Diagnostic as Diagnostic
    from unlatch.core.diagnostics import Diagnostics as Diagnostics
    from unlatch.core.partition import Partition as Partition
    from unlatch.core.pomdp import POMDP as POMDP
    from unlatch.core.psr import PSR as PSR
    from unlatch.core.trajectory import Trajectory as Trajectory
    from unlatch.simulation import simulate as simulate


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(f"unlatch.{_HOMES[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"unlatch.{name}")
    else:
        raise AttributeError(f"module 'unlatch' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
