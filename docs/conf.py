"""How `make docs` makes web pages of the Markdown in this repository.

The pages hold no directives, so that they read as well without Sphinx. What Sphinx needs beside them is made here: the
tree of contents from the lists of links in ``index.md``, and the reference from docstrings.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import page_tables  # noqa: E402
import unlatch  # noqa: E402

project = "unlatch"
author = "the authors of unlatch"
version = release = unlatch.__version__
root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "examples/README.md",
]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"unlatch {version}"
html_copy_source = False
myst_heading_anchors = 4
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
autodoc_typehints = "none"  # docstrings say it in words
default_role = "literal"  # `name` in a docstring is code
napoleon_use_rtype = False
napoleon_use_ivar = True
suppress_warnings = [
    "ref.python"
]  # words of a shape, such as "actions", are taken for names that several classes have

_START = "<!DOCTYPE html><meta http-equiv='refresh' content='0; url=docs/index.html'>\n"


def setup(app: Sphinx) -> None:
    app.connect("source-read", _completed)
    app.connect("build-finished", _with_start)


def _completed(app: Sphinx, name: str, source: list[str]) -> None:
    if name == root_doc:
        source[0] += _contents(source[0])
    elif name == "docs/reproduction":
        tables = (path.relative_to(ROOT) for path in sorted(ROOT.glob("docs/results/*.md")))
        source[0] += _tree(table.as_posix() for table in tables)
    elif name.startswith("docs/results/") and not source[0].startswith("# "):
        source[0] = f"# {posixpath.basename(name)}\n\n{source[0]}"  # a table by itself
    elif name == "docs/reference":
        source[0] = _with_docstrings(source[0])


def _contents(text: str) -> str:
    """A hidden tree for every section of the first page, of the links in it."""
    trees = []
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        pages = [posixpath.normpath(f"docs/{link}") for link in re.findall(r"\]\(([^)#]+\.md)\)", section)]
        trees.append(_tree(dict.fromkeys(pages), caption=section.splitlines()[0]))
    return "".join(trees)


def _tree(pages: Iterable[str], caption: str = "") -> str:
    entries = "\n".join(f"/{page.removesuffix('.md')}" for page in pages)
    heading = f":caption: {caption}\n" if caption else ""
    return f"\n\n```{{toctree}}\n:hidden:\n{heading}\n{entries}\n```\n"


def _with_docstrings(text: str) -> str:
    """After the table of every group, the docstrings of its names."""
    for heading, names in page_tables.groups().items():
        directives = "\n".join(_directive(name) for name in names)
        found = re.search(rf"^## {re.escape(heading)}\n.*?(?=^## |^<!-- end)", text, flags=re.M | re.S)
        assert found is not None, f"no section {heading!r} in docs/reference.md: make docs-outputs"
        text = f"{text[: found.end()]}\n```{{eval-rst}}\n{directives}\n```\n\n{text[found.end() :]}"
    return text


def _directive(name: str) -> str:
    kind = "autoclass" if isinstance(getattr(unlatch, name), type) else "autofunction"
    if kind == "autoclass" and issubclass(getattr(unlatch, name), Warning):
        kind = "autoexception"
    return f".. {kind}:: unlatch.{name}\n"


def _with_start(app: Sphinx, error: Exception | None) -> None:
    """The folder itself opens at the first page."""
    if error is None:
        Path(app.outdir, "index.html").write_text(_START, encoding="utf-8")
