"""The public names: one list, complete, and the same for people and for type checkers."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import typing
from pathlib import Path

import pytest

import unlatch

SOURCE = Path(unlatch.__file__)


def checked_imports():
    """Name to module, as the block for type checkers has it."""
    tree = ast.parse(SOURCE.read_text())
    (block,) = (
        node
        for node in tree.body
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    )
    found = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            if node.module == "typing":
                continue
            assert alias.asname == alias.name  # re-exported on purpose
            found[alias.name] = node.module
    return found


def test_both_lists_agree():
    checked = checked_imports()
    assert {*checked, "__version__"} == set(unlatch.__all__)
    for name, module in checked.items():
        value = getattr(unlatch, name)
        if not inspect.ismodule(value):
            assert value.__module__ == module, name


def test_no_name_stands_twice():
    assert len(unlatch.__all__) == len(set(unlatch.__all__))


def members(annotation):
    """The classes of ours that an annotation speaks of."""
    if inspect.isclass(annotation) and annotation.__module__.startswith("unlatch."):
        yield annotation
    for part in typing.get_args(annotation):
        yield from members(part)


def returned_types():
    """Every class of ours that a public function, or a public method of a public class, returns."""
    for name in unlatch.__all__:
        value = getattr(unlatch, name)
        calls = [(name, value)] if inspect.isfunction(value) else []
        if inspect.isclass(value):
            calls = [
                (f"{name}.{method}", call.fget if isinstance(call, property) else call)
                for method, call in vars(value).items()
                if not method.startswith("_") and (inspect.isfunction(call) or isinstance(call, property))
            ]
        for label, call in calls:
            annotation = inspect.unwrap(call).__annotations__.get("return")
            if isinstance(annotation, str):
                try:
                    scope = vars(inspect.getmodule(inspect.unwrap(call)))
                    annotation = eval(annotation, dict(scope))
                except NameError:  # a name that only type checkers see
                    continue
            for member in members(annotation):
                yield label, member


INTERNAL = {"ResolvedReward"}
"""Returned by a public method that is meant for planners, not for people."""


def test_what_public_calls_return_is_public():
    missing = {
        (label, member.__name__)
        for label, member in returned_types()
        if member.__name__ not in unlatch.__all__ and member.__name__ not in INTERNAL
    }
    assert missing == set()


def test_help_opens_with_what_a_user_needs():
    opening = unlatch.__doc__.splitlines()
    assert opening[0].startswith("Learn an explicit POMDP from the log")
    head = "\n".join(opening[:22])
    for call in ("read_log", "learn_pomdp", "save_model", "load_model", "POUCT", "run_episodes"):
        assert call in head
    assert "_HOMES" not in unlatch.__doc__


@pytest.mark.parametrize("name", [name for name in unlatch.__all__ if name != "__version__"])
def test_every_public_name_says_what_it_is(name):
    assert (getattr(unlatch, name).__doc__ or "").strip()


# --- examples and shapes --------------------------------------------------------------------------------------

VALUES = {
    name: getattr(unlatch, name)
    for name in unlatch.__all__
    if name not in ("__version__", "domains", "errors")
}
VALUES |= {
    f"domains.{name}": value
    for name, value in vars(unlatch.domains).items()
    if name in unlatch.domains.__all__ and inspect.isfunction(value)
}
MODULES = sorted({"unlatch", *(value.__module__ for value in VALUES.values())})


@pytest.mark.parametrize("name", VALUES)
def test_every_public_name_has_an_example(name):
    assert ">>> " in (VALUES[name].__doc__ or ""), "add a section Examples to its docstring"


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.compiled
def test_examples_in_docstrings_are_true(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    found = doctest.testmod(importlib.import_module(module))
    assert found.attempted > 0
    assert found.failed == 0


def arrays_of(value):
    """Parameters of a function, or fields of a class, that are arrays."""
    for name, annotation in getattr(inspect.unwrap(value), "__annotations__", {}).items():
        text = annotation if isinstance(annotation, str) else getattr(annotation, "__forward_arg__", "")
        if (
            not name.startswith("_")
            and name != "return"
            and re.search(r"\b(Floats|Ints|Flags|ArrayLike)\b", text)
        ):
            yield name


def says_shape(docstring, name):
    """``name : array, shape (...)``, ``name`` (...), or ``name`` has shape (...)."""
    for line in docstring.splitlines():
        named, _, kind = line.partition(" : ")
        if re.search(rf"\b{name}\b", named) and "shape (" in kind:
            return True
    return re.search(rf"``{name}``(?: has shape)?\s+\(", docstring) is not None


@pytest.mark.parametrize("name", VALUES)
def test_every_array_of_a_public_name_has_a_shape(name):
    value = VALUES[name]
    assert [array for array in arrays_of(value) if not says_shape(value.__doc__ or "", array)] == []


def test_the_search_for_shapes_finds_what_it_should():
    text = "a, b : array, shape (n,)\nc : array\n``d`` (n, m) and ``e``\n(n,) and ``f`` has shape (n,)"
    assert [name for name in "abcdefg" if says_shape(text, name)] == ["a", "b", "d", "e", "f"]
