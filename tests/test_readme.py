"""The README's Python and its shell commands run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import unlatch

README = Path(__file__).resolve().parents[1] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), flags=re.S)


@pytest.mark.slow
def test_python_blocks_run_in_order(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    said = re.search(r"# (2 states; runner-up \d+), ", README.read_text())
    assert said is not None
    assert printed.startswith(f"2\n{said[1]}, ")
    assert "True 2" in printed
    assert "Partition({0}, {1})" in printed
    assert "\n6 ()\nlocally determined: " in printed
    assert "\n(4, 5)\ndown\n" in printed
    assert printed.endswith("listen\n")


@pytest.mark.slow
def test_the_gymnasium_recipe_runs_where_gymnasium_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (recipe,) = blocks("py")
    compiled = compile(recipe, "README.md", "exec")  # whether it is Python is checked without
    pytest.importorskip("gymnasium")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compiled, names)
    log = names["log"]
    assert isinstance(log, unlatch.Trajectory)
    assert len(log) == 15_000
    assert log.n_episodes > 1_000
    assert log.terminated is not None
    assert unlatch.read_log("lake.csv") == log


@pytest.mark.slow
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


def test_linked_files_exist() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README.read_text()):
        assert (README.parent / target).exists(), target
