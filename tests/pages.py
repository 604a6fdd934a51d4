"""The pages of the documentation as programs: their blocks are run, and what they show is what was printed.

``python tests/pages.py`` runs every page and says where what it shows is not what came; ``--write`` puts what came into
the pages, and redraws their pictures; ``--quick`` leaves out what takes long; names of pages, such as ``tutorial.md``,
leave the others alone.

A page stays plain Markdown:

- Blocks of ``python`` run in the order of the page, in one namespace, in an empty folder. A block of ``text`` right
  after one is what it printed; without it nothing is compared.
- Blocks of ``console`` hold commands after ``$``, each followed by what it printed. A command may fail only where a
  line that it shows begins with ``error:``.
- ``...`` in what is shown stands for anything.
- A picture that a block leaves in the folder must be the one of that name in ``docs/images``.
- ``<!-- recorded -->`` before a block: too long to run in every test. It runs here, and is not compared there. With
  ``<!-- recorded: model.json -->`` the file of that name that it leaves is kept in ``docs/results``, for later blocks.
- A table between ``<!-- made by NAME -->`` and ``<!-- end -->`` is made by the function of that name in `TABLES`.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import page_tables

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
RESULTS = ROOT / "docs" / "results"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PICTURE_BLOCK, PICTURE_TOLERANCE = 16, 16.0
"""Pixels of the side of a block, and by how much, of 255, the mean shade of one may differ: fonts are drawn a little
differently everywhere, but a label that says something else, or an arrow elsewhere, is more than that."""

RELATIVE_TOLERANCE = 1e-3
"""Of decimal numbers with many digits, for the same reason."""

_DECIMAL = re.compile(r"[-+]?\d*\.\d+(?:e[-+]?\d+)?")
_PARTS = re.compile(rf"(\.\.\.|{_DECIMAL.pattern})")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.M | re.S)
_TABLE = re.compile(r"(<!-- made by (\w+) -->\n)(.*?)(<!-- end -->)", flags=re.S)
_RECORDED = re.compile(r"<!-- recorded(?:: ([\w.-]+))? -->\s*\Z")


@dataclass(frozen=True)
class Block:
    """A program of a page, and where what it printed is shown: ``text[start:end]``, or nowhere."""

    language: str
    code: str
    line: int
    recorded: bool
    leaves: str | None
    start: int
    end: int
    shown: str | None


def blocks_of(text: str) -> list[Block]:
    """Every program of a page, in order. A command of a console is one of its own."""
    fences = list(_FENCE.finditer(text))
    found: list[Block] = []
    for i, fence in enumerate(fences):
        line = text.count("\n", 0, fence.start()) + 2
        recorded = _RECORDED.search(text[: fence.start()])
        leaves = recorded[1] if recorded else None
        block = Block(fence[1], fence[2], line, bool(recorded), leaves, fence.end(), fence.end(), None)
        if fence[1] == "console":
            found += _commands(block, fence.start(2))
        elif fence[1] == "python":
            after = fences[i + 1] if i + 1 < len(fences) else None
            if after is not None and after[1] == "text" and not text[fence.end() : after.start()].strip():
                block = replace(block, start=after.start(2), end=after.end(2), shown=after[2])
            found.append(block)
    return found


def _commands(block: Block, begin: int) -> Iterator[Block]:
    for part in re.finditer(r"^\$ (.*?(?<!\\))\n(.*?)(?=^\$ |\Z)", block.code, flags=re.M | re.S):
        line = block.line + block.code.count("\n", 0, part.start())
        yield replace(
            block,
            code=part[1],
            line=line,
            start=begin + part.start(2),
            end=begin + part.end(2),
            shown=part[2],
        )


def matches(shown: str, printed: str) -> bool:
    """Whether what a page shows is what was printed; ``...`` stands for anything.

    The last digit of a decimal number may differ, as it does between processors. Whole numbers may not.
    """
    expected: list[str] = []
    pattern = "".join(_pattern(part, expected) for part in _PARTS.split(_trimmed(shown)))
    found = re.fullmatch(pattern, _trimmed(printed), flags=re.S)
    return found is not None and all(map(_about_equal, expected, found.groups()))


def _pattern(part: str, expected: list[str]) -> str:
    """What a part of the text that is shown may look like; decimal numbers are noted, to be compared."""
    if part == "...":
        return ".*?"
    if _DECIMAL.fullmatch(part):
        expected.append(part)
        return f"({_DECIMAL.pattern})"
    return re.sub(r"(?:\\?[ \n])+", r"\\s+", re.escape(part))


def _about_equal(shown: str, printed: str) -> bool:
    mantissa, _, exponent = shown.lower().partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    return abs(float(shown) - float(printed)) <= max(1.5 * unit, RELATIVE_TOLERANCE * abs(float(shown)))


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n"))


@dataclass
class Run:
    """A page that was run: what each of its blocks printed, and the complaints."""

    text: str
    printed: list[tuple[Block, str]]
    faults: list[str]
    pictures: dict[str, bytes]
    files: dict[str, bytes]


def run_page(page: Path, *, recorded: bool = False) -> Run:
    """Run the blocks of a page in a folder of their own; those marked as recorded too, if asked for."""
    text = page.read_text(encoding="utf-8")
    run = Run(text, [], [], {}, {})
    names: dict[str, Any] = {"__name__": "__main__"}
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for block in blocks_of(text):
                if recorded or not block.recorded:
                    _run_block(page, block, names, run)
                    if block.leaves is not None:
                        run.files[block.leaves] = Path(block.leaves).read_bytes()
                elif block.leaves is not None:
                    shutil.copy(RESULTS / block.leaves, block.leaves)
        finally:
            os.chdir(before)
        run.pictures = {path.name: path.read_bytes() for path in Path(folder).glob("*.png")}
    return run


def _run_block(page: Path, block: Block, names: dict[str, Any], run: Run) -> None:
    place = f"{page.relative_to(ROOT)}:{block.line}"
    try:
        printed = _python(block, names, place) if block.language == "python" else _command(block)
    except Exception as error:
        run.faults.append(f"{place}: {type(error).__name__}: {error}")
        return
    run.printed.append((block, printed))
    if block.shown is not None and not matches(block.shown, printed):
        run.faults.append(f"{place} shows\n{block.shown}but this was printed:\n{printed}")


def _python(block: Block, names: dict[str, Any], place: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block.code, place, "exec"), names)
    return printed.getvalue()


def _command(block: Block) -> str:
    folder = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": folder + os.pathsep + os.environ["PATH"], "COLUMNS": "110"}
    done = subprocess.run(
        block.code.replace("\\\n", " "),
        shell=True,
        capture_output=True,
        text=True,
        env=environment,
        timeout=900,
    )
    if done.returncode == 0:
        return done.stdout
    if block.shown is not None and re.search(r"^error:", block.shown, flags=re.M):
        return done.stdout + done.stderr
    raise RuntimeError(f"{block.code!r} ended with {done.returncode}: {done.stdout}{done.stderr}")


# --- pictures and tables ------------------------------------------------------------------------------------


def wrong_pictures(pictures: dict[str, bytes]) -> list[str]:
    """Which of the pictures that a page made are not those in ``docs/images``."""
    return [
        f"{name} is not the picture in docs/images"
        for name, data in pictures.items()
        if not same_picture(data, IMAGES / name)
    ]


def same_picture(data: bytes, path: Path) -> bool:
    """Whether a picture looks like the one in a file."""
    from matplotlib.image import imread

    if not path.exists():
        return False
    ours, theirs = (np.asarray(imread(io.BytesIO(each))) * 255 for each in (data, path.read_bytes()))
    if ours.shape != theirs.shape:
        return False
    return float(np.abs(_blocks(ours) - _blocks(theirs)).max()) <= PICTURE_TOLERANCE


def _blocks(picture: Any) -> Any:
    """The mean shade of every block; what is over at the edges is filled with black."""
    height, width = picture.shape[:2]
    gaps = [(0, -height % PICTURE_BLOCK), (0, -width % PICTURE_BLOCK)]
    padded = np.pad(picture[..., :3].mean(axis=2), gaps)
    rows, columns = (size // PICTURE_BLOCK for size in padded.shape)
    return padded.reshape(rows, PICTURE_BLOCK, columns, PICTURE_BLOCK).mean(axis=(1, 3))


def with_tables(text: str) -> str:
    """The text of a page with every generated table as it is made today."""
    return _TABLE.sub(lambda found: f"{found[1]}\n{page_tables.TABLES[found[2]]()}\n\n{found[4]}", text)


# --- by hand ------------------------------------------------------------------------------------------------


def written(run: Run) -> str:
    """The page with what was printed; what it shows already, with dots or without, stays."""
    text = run.text
    for block, printed in reversed(run.printed):
        if block.shown is not None and not matches(block.shown, printed):
            text = text[: block.start] + _trimmed(printed) + "\n" * bool(printed) + text[block.end :]
    return text


def main(arguments: list[str]) -> int:
    write = "--write" in arguments
    wanted = [name for name in arguments if not name.startswith("--")]
    wrong = 0
    for page in PAGES:
        if wanted and page.name not in wanted:
            continue
        text = page.read_text(encoding="utf-8")
        if write and with_tables(text) != text:
            page.write_text(with_tables(text), encoding="utf-8")
        run = run_page(page, recorded="--quick" not in arguments)
        for fault in [*run.faults, *wrong_pictures(run.pictures)]:
            wrong += 1
            print(fault)
        if write:
            page.write_text(written(run), encoding="utf-8")
            for name, data in run.pictures.items():
                if not same_picture(data, IMAGES / name):
                    (IMAGES / name).write_bytes(data)
            for name, data in run.files.items():
                (RESULTS / name).write_bytes(data)
    print(f"{wrong} differences" + (", written" if write and wrong else ""))
    return 0 if write else min(wrong, 1)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
