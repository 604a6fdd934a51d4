"""numba tells the named tuples that kernels are called with apart by their names and what they hold, not by their
class: of two with one name the second is looked up anew, and slowly, at every call."""

from __future__ import annotations

import importlib
import pkgutil

import unlatch.kernels


def test_no_two_named_tuples_of_kernels_share_a_name() -> None:
    found: dict[str, set[str]] = {}
    for module in pkgutil.iter_modules(unlatch.kernels.__path__):
        loaded = importlib.import_module(f"unlatch.kernels.{module.name}")
        for name, value in vars(loaded).items():
            if isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):
                found.setdefault(name, set()).add(value.__module__)
    assert "Steps" in found
    assert {name: modules for name, modules in found.items() if len(modules) > 1} == {}
