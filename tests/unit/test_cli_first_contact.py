"""What somebody meets who has never used the command line: no arguments, completion, doctor."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest

from unlatch.cli import run
from unlatch.cli.program import cli


def test_without_arguments_it_says_what_people_do(capfd: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    said = capfd.readouterr().out
    named = re.findall(r"^  unlatch (\w+)", said, flags=re.M)
    assert named == ["demo", "learn", "show", "plan", "simulate"]
    assert set(named) <= set(cli.list_commands(cli.make_context("unlatch", [])))
    assert max(len(line) for line in said.splitlines()) <= 120


def test_doctor(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor"]) == 0
    assert "no problems found" in capfd.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(capfd: pytest.CaptureFixture[str], shell: str) -> None:
    assert run(["completion", shell]) == 0
    script = capfd.readouterr().out
    assert "_UNLATCH_COMPLETE" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_completion_refuses_another_shell(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", "tcsh"]) == 2
    assert "bash" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "wanted"),
    [("unlatch si", "simulate"), ("unlatch learn --sta", "--states"), ("unlatch completion z", "zsh")],
)
def test_the_shell_is_answered(words: str, wanted: str) -> None:
    environment = {
        **os.environ,
        "_UNLATCH_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-c", "from unlatch.cli import main; main()"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert f"plain,{wanted}" in done.stdout.splitlines()
