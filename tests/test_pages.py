"""What the documentation shows is true: its programs run and print what it says, its tables and links are right.

How a page is read: `tests/pages.py`. ``make docs-outputs`` mends what a change of the code made untrue.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import page_tables
import pages
from unlatch.cli.program import cli

ROOT = pages.ROOT
LINKED = [*pages.PAGES, *(ROOT / name for name in ("ARCHITECTURE.md", "CHANGELOG.md", "examples/README.md"))]
QUICK = {"CONTRIBUTING.md", "what-can-be-known.md", "files.md", "planning.md"}
"""Pages with programs that take less than five seconds."""

PROGRAMS = [page for page in pages.PAGES if pages.blocks_of(page.read_text(encoding="utf-8"))]


def marked(page: Path) -> object:
    return pytest.param(page, marks=[] if page.name in QUICK else [pytest.mark.slow], id=page.name)


@pytest.mark.parametrize("page", [marked(page) for page in PROGRAMS])
@pytest.mark.compiled
@pytest.mark.filterwarnings("default")  # as a reader has them
def test_programs_print_what_the_page_shows(page: Path) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    run = pages.run_page(page)
    assert "\n".join([*run.faults, *pages.wrong_pictures(run.pictures)]) == ""


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.name)
def test_tables_are_as_the_code_has_them(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert pages.with_tables(text) == text, "make docs-outputs"


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.name)
def test_pages_read_well_without_sphinx(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^(?:```|:::)\{.*$", text, flags=re.M) == []
    languages = {fence[1] for fence in re.finditer(r"^```(\w+)$", text, flags=re.M)}
    assert languages <= {"python", "console", "text", "sh"}  # no program that is not run


# --- contents and links ---------------------------------------------------------------------------------------


def test_every_page_is_in_the_table_of_contents() -> None:
    index = ROOT / "docs" / "index.md"
    listed = re.findall(r"^- \[[^]]+\]\(([^)]+)\)", index.read_text(encoding="utf-8"), flags=re.M)
    assert len(listed) == len(set(listed))
    found = {(index.parent / target).resolve() for target in listed}
    assert found == {*LINKED} - {index}


def anchors(page: Path) -> set[str]:
    """What GitHub and MyST make of the headings of a page."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    broken = []
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)]*))?\)", text):
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path)):
            broken.append(f"{target}#{anchor}")
    assert broken == []


def test_pages_name_no_host_of_packages_or_charts() -> None:
    for page in LINKED:
        hosts = set(re.findall(r"https?://([^/\s)>\"`]+)", page.read_text(encoding="utf-8")))
        assert hosts <= {"github.com", "numba.pydata.org"}, page.name


# --- nothing without a place ----------------------------------------------------------------------------------


def test_every_option_of_every_command_is_explained() -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## `unlatch (\w+)`\n(.*?)(?=^## |\Z)", text, flags=re.M | re.S))
    context = cli.make_context("unlatch", [])
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        for option in command.params:
            for flag in (flag for flag in [*option.opts, *option.secondary_opts] if flag.startswith("-")):
                row = re.search(rf"^\|[^|]*`{re.escape(flag)}`[^|]*\|[^|]*\| *\S", sections[name], flags=re.M)
                assert row is not None, f"{name} {flag}"


def test_every_public_name_is_in_the_reference() -> None:
    import unlatch

    listed = [name for names in page_tables.groups().values() for name in names]
    assert sorted(listed) == sorted({*unlatch.__all__} - {"__version__", "domains", "errors"})


# --- the runner itself ----------------------------------------------------------------------------------------

SAMPLE = """\
# Sample

```python
print(1 + 1)
```

```text
2
```

<!-- recorded -->
```python
print("long")
```

```text
never looked at here
```

```console
$ echo one
one
$ echo two words
two ...
```

```python
print("nothing shown")
```
"""


def test_blocks_are_found_with_what_they_show() -> None:
    blocks = pages.blocks_of(SAMPLE)
    assert [(block.language, block.shown, block.recorded) for block in blocks] == [
        ("python", "2\n", False),
        ("python", "never looked at here\n", True),
        ("console", "one\n", False),
        ("console", "two ...\n", False),
        ("python", None, False),
    ]
    assert [block.line for block in blocks] == [4, 13, 21, 23, 28]


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("3 states, 1.25 nats", "3 states, 1.26 nats", True),  # the last digit
        ("3 states, 1.25 nats", "3 states, 1.28 nats", False),
        ("3 states, 1.25 nats", "4 states, 1.25 nats", False),  # whole numbers are exact
        ("-5740.49 nats", "-5740.61 nats", True),  # one in a thousand
        ("-5740.49 nats", "5740.49 nats", False),
        ("1.5e-42  0", "1.4e-42 0", True),
        ("1.5e-42", "1.5e-41", False),
        ("a ... c", "a b b c", True),
        ("a ... c", "a b b", False),
        ("(0.1, .9)", "(0.1, .9)", True),
        ("version 1.2.3", "version 1.2.3", True),
        (" 0   .   1.000\n 1   .   0.5", " 0   .   1.000\n 1   .   0.5\n", True),
        (" 0   .   1.000", " 0   1.000   .", False),
    ],
)
def test_what_counts_as_the_same(shown: str, printed: str, same: bool) -> None:
    assert pages.matches(shown, printed) is same


def test_a_page_that_lies_is_found_out_and_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(SAMPLE)
    assert pages.run_page(page).faults == []
    page.write_text(SAMPLE.replace("\n2\n", "\n3\n").replace("one\none", "one\nnone"))
    run = pages.run_page(page)
    assert len(run.faults) == 2
    assert pages.written(run) == SAMPLE


def test_a_picture_with_another_label_is_another_picture(tmp_path: Path) -> None:
    from unlatch import domains, plot_states, save_plot

    tiger = domains.tiger()
    renamed = replace(tiger, observation_names=("hear-l…|-1", *tiger.observation_names[1:]))
    first, again, other = (
        save_plot(plot_states(model, "listen"), tmp_path / f"{number}.png")
        for number, model in enumerate((tiger, tiger, renamed))
    )
    assert pages.same_picture(again.read_bytes(), first)
    assert not pages.same_picture(other.read_bytes(), first)


def test_failures_of_programs_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("```python\n1 / 0\n```\n\n```console\n$ unlatch show nowhere.json\n```\n")
    first, second = pages.run_page(page).faults
    assert first == "page.md:2: ZeroDivisionError: division by zero"
    assert "ended with 7" in second
    page.write_text("```console\n$ unlatch show nowhere.json\nerror: ...nowhere.json...\n```\n")
    assert pages.run_page(page).faults == []


# --- first contact --------------------------------------------------------------------------------------------


def test_versions_agree() -> None:
    import unlatch

    for file, pattern in [("pyproject.toml", r'^version = "(.*)"$'), ("CITATION.cff", r"^version: (.*)$")]:
        found = re.search(pattern, (ROOT / file).read_text(encoding="utf-8"), flags=re.M)
        assert found is not None
        assert found[1] == unlatch.__version__, file


@pytest.mark.slow
@pytest.mark.compiled
def test_the_picture_of_the_readme_is_what_the_demo_draws(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "unlatch", "demo", "--out", str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert pages.same_picture((tmp_path / "tiger.png").read_bytes(), pages.IMAGES / "tiger.png")
