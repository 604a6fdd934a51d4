"""The documents say what the code does: names of diagnostics, files, functions, constants, links."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import unlatch

SOURCE = Path(unlatch.__file__).parent
ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


# --- diagnostics --------------------------------------------------------------------------------------------


def noted(tree: ast.AST) -> Iterator[str]:
    """Names given to ``.noting(...)`` and ``Diagnostic(...)``; the changing part of an f-string as ``{...}``."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
        if called not in ("noting", "Diagnostic"):
            continue
        given = node.args[0] if node.args else next(k.value for k in node.keywords if k.arg == "name")
        yield from _texts(given)


def _texts(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body)
        yield from _texts(node.orelse)
    elif isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else "{...}" for part in node.values)
        yield "".join(str(part) for part in parts)
    else:
        yield f"<{ast.unparse(node)}>"  # of which nobody knows what it will be


HANDED_ON = {SOURCE / "core" / "diagnostics.py", SOURCE / "files" / "models" / "native.py"}
"""Where diagnostics are made of names that came from elsewhere."""


def in_the_code() -> set[str]:
    return {
        name
        for path in SOURCE.rglob("*.py")
        for name in noted(ast.parse(path.read_text(encoding="utf-8")))
        if not (path in HANDED_ON and name.startswith("<"))
    }


def in_the_page() -> set[str]:
    """The first column of the page's tables."""
    text = (ROOT / "docs" / "diagnostics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]+`) \|", text, flags=re.M)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def fits(pattern: str, names: set[str]) -> set[str]:
    expression = re.escape(pattern).replace(re.escape("{...}"), "[a-z_]+")
    return {name for name in names if re.fullmatch(expression, name)}


def test_every_diagnostic_is_explained():
    page = in_the_page()
    assert sorted(pattern for pattern in in_the_code() if not fits(pattern, page)) == []


def test_every_explained_diagnostic_exists():
    page, code = in_the_page(), in_the_code()
    assert sorted(page - {name for pattern in code for name in fits(pattern, page)}) == []


def test_every_explained_diagnostic_has_a_meaning_and_a_remedy():
    text = (ROOT / "docs" / "diagnostics.md").read_text(encoding="utf-8")
    for line in re.findall(r"^\| `.*$", text, flags=re.M):
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        assert len(cells) == 4, line
        assert all(cells), line


def test_the_search_for_names_finds_what_it_should():
    code = """
notes.noting("plain", "...")
Diagnostics().noting(f"projected_{field}", "...", largest=1)
Diagnostic(name="named", message="...")
notes.noting("one" if a else "other", "...")
notes.noting(name, "...")
"""
    assert list(noted(ast.parse(code))) == ["plain", "projected_{...}", "named", "one", "other", "<name>"]
    assert fits("projected_{...}", {"projected_rows", "projected", "xprojected_rows"}) == {"projected_rows"}


# --- formulas -----------------------------------------------------------------------------------------------


def places_in(text: str) -> list[tuple[str, str]]:
    """Every ``path/file.py: name, name`` in backquotes, with each of its names."""
    found = re.findall(r"`([\w/]+\.py)`: ((?:`[\w.]+`(?:, )?)+)", text)
    return [(path, name) for path, names in found for name in re.findall(r"`([\w.]+)`", names)]


@pytest.mark.parametrize("page", ["formulas.md", "notation.md"])
def test_every_place_that_a_page_names_exists(page):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    missing = [f"{path}: {name}" for path, name in places_in(text) if not exists(path, name)]
    assert missing == []


def exists(path: str, name: str) -> bool:
    """Whether a file of the source defines ``name``, or ``Class.method``."""
    file = SOURCE / path
    if not file.exists():
        return False
    body: list[ast.stmt] = ast.parse(file.read_text(encoding="utf-8")).body
    for part in name.split("."):
        found = next((node for node in body if _defined(node, part)), None)
        if found is None:
            return False
        body = getattr(found, "body", [])
    return True


def _defined(node: ast.stmt, name: str) -> bool:
    targets = [*getattr(node, "targets", []), getattr(node, "target", None)]
    return getattr(node, "name", None) == name or any(getattr(t, "id", None) == name for t in targets)


def test_formulas_name_a_place_each():
    """Every section of the page says which file and function computes it."""
    text = (ROOT / "docs" / "formulas.md").read_text(encoding="utf-8")
    sections = re.split(r"^### ", text, flags=re.M)[1:]
    assert len(sections) >= 20
    assert [section.splitlines()[0] for section in sections if not places_in(section)] == []


def test_constants_have_the_values_that_the_formulas_say():
    """``NAME = value`` in backquotes, in a section that names the file of the constant."""
    text = (ROOT / "docs" / "formulas.md").read_text(encoding="utf-8")
    wrong = []
    for section in re.split(r"^### ", text, flags=re.M)[1:]:
        modules = [_module(path) for path in dict.fromkeys(re.findall(r"`([\w/]+\.py)`", section))]
        for name, value in re.findall(r"`([A-Z_][A-Z_]+) = ([^`]+)`", section):
            values = [getattr(module, name) for module in modules if hasattr(module, name)]
            if ast.literal_eval(value) not in values:
                wrong.append(f"{section.splitlines()[0]}: {name} = {value}, the code has {values}")
    assert wrong == []


def _module(path: str):
    return importlib.import_module("unlatch." + path.removesuffix(".py").replace("/", "."))


# --- names of files; links are tested with the pages, in tests/test_pages.py ----------------------------------


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda path: path.name)
def test_documents_name_only_files_that_exist(page):
    """``src/...``, ``tests/...``, ``benchmarks/...`` and files of the rooms, in backquotes."""
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`(?:python )?((?:[\w.]+/)+[\w]+\.py)\b[^`]*`", text)
    roots = (ROOT, SOURCE, ROOT / "src")
    assert sorted({name for name in named if not any((root / name).exists() for root in roots)}) == []


# --- fields of files ----------------------------------------------------------------------------------------


def section_of(page: str, heading: str) -> str:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, flags=re.M | re.S)
    assert found is not None
    return found[1]


NAMED = {"options", "details", "software", "log_files", "entries", "scores", "emission_scores"}
"""Sections of a model file whose fields are names of something else: options, versions, symbols, counts."""


def names_in(content: object) -> set[str]:
    """Every field of a model file, and of its sections in turn."""
    if not isinstance(content, dict):
        parts = content if isinstance(content, list) else []
        return {name for part in parts if isinstance(part, dict) for name in names_in(part)}
    return {*content, *(name for key, part in content.items() if key not in NAMED for name in names_in(part))}


def whole_model() -> unlatch.SavedModel:
    """A learned model with everything that a model file can have; a field that is new must come in here."""
    learned = unlatch.load_model(ROOT / "docs" / "results" / "lockbox.json")
    whole = dataclasses.replace(
        learned,
        psr=unlatch.domains.tiger().to_psr(),
        reward=unlatch.Reward.learned(learned.pomdp),
        discount=0.9,
    )
    lacking = [field.name for field in dataclasses.fields(whole) if not getattr(whole, field.name)]
    assert lacking == ["extra"]
    return whole


def fields_of_model_files(folder: Path) -> set[str]:
    """Every field that a model file may have, that of a policy included."""
    policy = unlatch.solve(unlatch.Problem(unlatch.domains.tiger(), discount=0.9))
    unlatch.save_model(folder / "full.json", whole_model(), timestamp=True)
    unlatch.save_solution(folder / "policy.json", policy)
    written = [json.loads((folder / f"{name}.json").read_text()) for name in ("full", "policy")]
    arrays = {field.name for value in (unlatch.POMDP, unlatch.PSR) for field in dataclasses.fields(value)}
    return {name for content in written for name in names_in(content)} | arrays - {"replicates"}


def test_every_field_of_a_model_file_is_explained(tmp_path):
    explained = re.findall(r"`(\w+)`", section_of("files.md", "Models"))
    assert sorted(fields_of_model_files(tmp_path) - set(explained)) == []


def test_every_field_of_a_file_of_counts_is_explained(tmp_path):
    log = unlatch.simulate(unlatch.domains.tiger(), 300, rng=0)
    known = dataclasses.replace(log, probabilities=np.full(len(log), 1 / 3))
    unlatch.save_counts(
        tmp_path / "counts.npz", unlatch.count_sequences(known, history_length=2, test_length=1)
    )
    with np.load(tmp_path / "counts.npz") as archive:
        arrays = {name for name in archive.files if name == "header" or name.endswith("_1")}
        header = json.loads(archive["header"].tobytes())
    explained = re.findall(r"`(\w+)`", section_of("files.md", "Counts"))
    assert len(arrays) == 5
    assert sorted({*header, *arrays, "symbol_rewards"} - set(explained)) == []


def test_every_column_of_a_log_is_explained():
    columns = ("action", "observation", "reward", "episode", "probability", "terminated", "truncated")
    assert set(columns) <= set(inspect.signature(unlatch.read_log).parameters)
    explained = section_of("files.md", "Logs")
    assert [name for name in columns if f"`{name}`" not in explained] == []


def test_every_option_of_reading_is_explained():
    """By its name in Python, or by that of the command line."""
    explained = section_of("files.md", "Logs")
    names = [
        name for name in inspect.signature(unlatch.read_log).parameters if name not in ("path", "source")
    ]
    assert [
        name
        for name in names
        if f"{name}=" not in explained and f"--{name}" not in explained and f"`{name}`" not in explained
    ] == []
