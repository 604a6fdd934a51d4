"""The README's Python runs as it stands, and its shell commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from unlatch.cli import cli

README = Path(__file__).resolve().parents[1] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), flags=re.S)


@pytest.mark.slow
def test_python_blocks_run_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert printed.startswith("2\n2 states; runner-up")
    assert "Partition({0}, {1})" in printed
    assert printed.endswith("listen\n")


@pytest.mark.slow
def test_shell_commands_are_understood(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    commands = [line for block in blocks("") for line in block.splitlines() if line.startswith("unlatch ")]
    assert len(commands) >= 4
    for command in commands:
        arguments = command.replace("100000", "20000").split()[1:]
        result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output


def test_linked_files_exist() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README.read_text()):
        assert (README.parent / target).exists(), target
