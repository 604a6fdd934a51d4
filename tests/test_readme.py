"""The README's shell commands run as they stand; its Python is run with the other pages (`tests/test_pages.py`)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"


def blocks(language: str) -> list[str]:
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", README.read_text(encoding="utf-8"), flags=re.M | re.S)
    return [block for its_language, block in fences if its_language == language]


@pytest.mark.slow
@pytest.mark.compiled
def test_shell_commands_work_as_they_stand(tmp_path: Path) -> None:
    """In order, each in a process of its own, with a shorter log."""
    commands = [line for block in blocks("") for line in block.splitlines() if line.startswith("unlatch ")]
    assert len(commands) >= 4
    for command in commands:
        arguments = command.replace("100000", "20000").split()[1:]
        done = subprocess.run(
            [sys.executable, "-m", "unlatch", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_ten_lines_are_ten_lines() -> None:
    (program,) = blocks("python")
    assert len([line for line in program.splitlines() if line.strip()]) == 10


def test_the_commands_are_targets_of_the_makefile() -> None:
    targets = re.findall(r"^(\w[\w-]*):", (README.parent / "Makefile").read_text(), flags=re.M)
    named = re.findall(r"^make ([\w-]+)", "\n".join(blocks("")), flags=re.M)
    assert named == ["demo", "test"]
    assert set(named) <= set(targets)
