"""No test reads a private name of the code under test: what a test needs is public, or tested through what is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
FILES = sorted([*TESTS.rglob("*.py"), *(TESTS.parent / "benchmarks").glob("*.py")])

PUBLIC = {"_asdict", "_fields", "_make", "_replace", "_field_defaults", "_exit", "_repr_html_"}
"""Documented names all the same: those of named tuples, which stay out of the way of fields, ``os._exit``, and what
notebooks call."""

ALLOWED: set[tuple[str, str]] = set()
"""(file, name) that may stay, with the reason beside it."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC


def private_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of everything private of another module that a file reads or replaces."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            yield from ((node.lineno, name) for name in names if is_private(name))
        elif isinstance(node, ast.Import):
            parts = [part for alias in node.names for part in alias.name.split(".")]
            yield from ((node.lineno, part) for part in parts if is_private(part))
        elif isinstance(node, ast.Attribute) and is_private(node.attr) and not _is_own(node.value):
            yield node.lineno, node.attr
        elif isinstance(node, ast.Call):
            yield from ((node.lineno, name) for name in _replaced(node) if is_private(name))


def _is_own(value: ast.expr) -> bool:
    """Whether an attribute is one of the test's own class."""
    return isinstance(value, ast.Name) and value.id in ("self", "cls")


def _replaced(call: ast.Call) -> Iterator[str]:
    """Names given as text: ``setattr(module, "_NAME", ...)`` or ``setattr("package.module._NAME", ...)``."""
    called = getattr(call.func, "attr", None) or getattr(call.func, "id", None)
    if called in ("setattr", "getattr", "delattr", "hasattr", "setitem"):
        for given in call.args[:2]:
            if isinstance(given, ast.Constant) and isinstance(given.value, str):
                yield from given.value.split(".")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(TESTS.parent)))
def test_no_private_name_is_read(path):
    found = private_names(ast.parse(path.read_text(encoding="utf-8")))
    name = str(path.relative_to(TESTS.parent))
    assert [f"{name}:{line} {private}" for line, private in found if (name, private) not in ALLOWED] == []


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("from unlatch.learn.likelihood.zeros import _zeroed, maximize", ["_zeroed"]),
        ("from unlatch.kernels._jit import kernel", ["_jit"]),
        ("import unlatch.kernels._jit", ["_jit"]),
        ("counting._CHUNK = 3", ["_CHUNK"]),
        ("monkeypatch.setattr(counting, '_CHUNK', 3)", ["_CHUNK"]),
        ("monkeypatch.setattr('unlatch.learn.search._GROWTH', 3)", ["_GROWTH"]),
        ("self._cache = result._replace(x=1)._asdict()", []),
        ("module.__name__, model.__class__", []),
    ],
)
def test_the_search_itself_finds_what_it_should(code, names):
    assert [name for _, name in private_names(ast.parse(code))] == names
