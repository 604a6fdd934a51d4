"""What used to end in an internal error, or reached the terminal raw, each by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unlatch
from sizes import sized
from unlatch.cli import run

ESCAPES = ("\x1b", "\x07", "\x9b", "\u202e", "\u2066", "\u200b", "\r")
HOSTILE_NAME = "[red]x[/red] [/x] :smile: [link=http://evil]y[/link] \u202eabc\u2066 \u200b"
HOSTILE_TEXT = "\x1b[31mred\x1b]8;;http://evil\x07link\x1b]8;;\x07 [/x] :smile: \u202eabc\rover"
DIGITS = "1" + "0" * 30


def call(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(list(arguments))
    captured = capfd.readouterr()
    return code, captured.out, captured.err


def process(
    *arguments: str,
    code: str = "from unlatch.cli import main; import sys; main(sys.argv[1:])",
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **options.pop("env", {})}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        text=True,
        encoding="utf-8",
        env=environment,
        stderr=subprocess.PIPE,
        timeout=300,
        **{"stdout": subprocess.PIPE, **options},
    )


@pytest.fixture(scope="module")
def tiger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("failures") / "tiger.json"
    unlatch.save_model(path, unlatch.domains.tiger(), partition=unlatch.Partition.singletons(2))
    return path


# --- numbers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "goal", ["state:²", "cell:²", "state:" + "9" * 5000, "cell:" + "9" * 5000, "where:" + "x" * 5000]
)
@pytest.mark.parametrize("using", ["pomdp", "cells"])
def test_goals_that_are_no_number_are_a_usage_error(
    capfd: pytest.CaptureFixture[str], tiger: Path, goal: str, using: str
) -> None:
    code, _, err = call(capfd, "plan", str(tiger), "--using", using, "--goal", goal)
    assert code == 2
    assert len(err) < 500


WHOLE_OPTIONS = [
    *(("plan", option) for option in ("--steps", "--episodes", "--simulations", "--depth", "--seed")),
    *(("simulate", option) for option in ("--steps", "--episodes", "--total", "--seed")),
    *(("demo", option) for option in ("--steps", "--seed")),
    *(("check", option) for option in ("--steps", "--seed")),
    *(("record", option) for option in ("--steps", "--seed", "--environments")),
    *(("agent", option) for option in ("--steps", "--episode-steps", "--first", "--max-states", "--seed")),
    *(("count", option) for option in ("--test-length", "--history-length")),
    *(("reproduce", option) for option in ("--seeds", "--workers", "--sizes-up-to")),
    *(
        ("learn", option)
        for option in (
            "--states", "--max-states", "--rank", "--max-rank", "--history-length", "--test-length", "--draws", "--seed"
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize("value", [DIGITS, "9" * 5000, "-" + DIGITS, "²", "1e3", "", "nan"])
@pytest.mark.parametrize(("command", "option"), WHOLE_OPTIONS)
def test_sizes_beyond_reason_are_a_usage_error_that_names_the_largest(
    capfd: pytest.CaptureFixture[str], command: str, option: str, value: str
) -> None:
    code, _, err = call(capfd, command, option, value)
    assert code == 2
    assert f"'{option}'" in err
    assert "to " in err or "no whole number" in err
    assert len(err) < 500


def test_every_whole_number_on_the_command_line_has_a_largest_value() -> None:
    from unlatch.cli import program

    context = program.cli.make_context("unlatch", ["show"], resilient_parsing=True)
    found = set()
    for name in program.cli.list_commands(context):
        command = program.cli.get_command(context, name)
        assert command is not None
        for parameter in command.params:
            if parameter.type.name in ("integer", "integer or auto"):
                assert parameter.type.most < 2**64  # type: ignore[attr-defined]
                found.add((name, parameter.opts[0]))
            assert parameter.type.name not in ("integer range", "float", "float range")
    assert found == set(WHOLE_OPTIONS)


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "0", "1e999", "x"])
def test_a_time_limit_is_a_finite_number_above_zero(capfd: pytest.CaptureFixture[str], value: str) -> None:
    code, _, err = call(capfd, "learn", "log.csv", "-o", "m.json", "--time-limit", value)
    assert code == 2
    assert "--time-limit" in err


# --- memory and libraries --------------------------------------------------------------------------------


def test_out_of_memory_is_a_resource_limit_with_a_remedy(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def hungry(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("unlatch.simulation.simulate", hungry)
    code, _, err = call(capfd, "simulate", "tiger", "--steps", "5", "-o", str(tmp_path / "x.csv"))
    assert code == 8
    assert "out of memory; ask for less" in err


@pytest.mark.parametrize(
    ("library", "arguments"),
    [
        ("click", ["--help"]),
        ("numpy", ["show", "{model}"]),
        ("numba", ["simulate", "tiger", "--steps", "5", "-o", "{folder}/x.csv"]),
        ("matplotlib", ["show", "{model}", "--picture", "{folder}/x.png"]),
    ],
)
def test_a_missing_library_is_named_with_what_to_do(
    library: str, arguments: list[str], tiger: Path, tmp_path: Path
) -> None:
    code = f"import sys; sys.modules[{library!r}] = None; from unlatch.cli import main; main(sys.argv[1:])"
    done = process(*(a.format(model=tiger, folder=tmp_path) for a in arguments), code=code)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {library}")
    assert "cannot be imported" in done.stderr
    assert f"pip install {library}" in done.stderr
    assert "Traceback" not in done.stderr


# --- standard output -------------------------------------------------------------------------------------


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["--help"], ["show", "{}"], ["show", "{}", "--format", "csv"]])
def test_standard_output_on_a_full_disk_is_a_storage_error(tiger: Path, arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = process(*(argument.format(tiger) for argument in arguments), stdout=full)
    assert done.returncode == 7
    assert "No space left on device" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(os.name == "nt", reason="POSIX descriptors")
def test_closed_standard_streams_are_no_error(tiger: Path) -> None:
    code = "import os, sys; os.execv(sys.executable, [sys.executable, '-m', 'unlatch', *sys.argv[1:]])"
    for descriptors in ("1", "2", "1, 2", "0, 1, 2"):
        closing = f"import os\nfor d in [{descriptors}]: os.close(d)\n"
        done = process("show", str(tiger), code=closing + code)
        assert done.returncode == 0
        assert done.stderr == ""


@pytest.mark.skipif(os.name == "nt", reason="POSIX pipes")
def test_a_reader_that_has_seen_enough_ends_the_program_quietly(tmp_path: Path) -> None:
    unlatch.save_model(tmp_path / "m.json", unlatch.domains.tmaze(rooms=30))
    reader, writer = os.pipe()
    os.close(reader)
    done = process("show", str(tmp_path / "m.json"), "--format", "csv", stdout=writer)
    os.close(writer)
    assert done.returncode == 0
    assert done.stderr == ""


def test_an_ascii_terminal_gets_ascii(tiger: Path) -> None:
    for arguments in (
        ["show", str(tiger)],
        ["show", str(tiger), "--format", "sparse"],
        ["plan", "tiger", "--reward", "learned", "--episodes", "2", "--simulations", "10"],
    ):
        done = process(*arguments, env={"PYTHONIOENCODING": "ascii"})
        assert done.returncode == 0, done.stderr
        assert done.stdout.isascii()
    assert "+-" in done.stdout


@pytest.mark.parametrize("width", ["40", "100"])
def test_columns_are_obeyed(tmp_path: Path, width: str) -> None:
    unlatch.save_model(tmp_path / "m.json", unlatch.domains.tmaze(rooms=8))
    done = process("show", str(tmp_path / "m.json"), env={"COLUMNS": width})
    assert max(len(line) for line in done.stdout.splitlines()) <= int(width)
    assert "…" not in done.stdout


# --- hostile files ---------------------------------------------------------------------------------------


def hostile_model(path: Path) -> Path:
    """A model with a hostile text in every slot that takes text."""
    model = unlatch.POMDP(
        transitions=np.full((2, 2, 2), 0.5),
        observations=np.full((2, 2, 2), 0.5),
        initial=np.full(2, 0.5),
        action_names=(HOSTILE_NAME, "[/x]"),
        observation_names=("o" + HOSTILE_NAME, "]"),
        state_names=("s" + HOSTILE_NAME, "[/]"),
    )
    unlatch.save_model(path, model, partition=unlatch.Partition.from_cells([[0, 1]]))
    content = json.loads(path.read_text())
    content["sha256"] = None
    content[HOSTILE_TEXT] = HOSTILE_TEXT
    content["pomdp"][HOSTILE_TEXT] = 1
    content["diagnostics"] = [{"name": HOSTILE_TEXT, "message": HOSTILE_TEXT, "details": {HOSTILE_TEXT: 1}}]
    content["provenance"] = {
        HOSTILE_TEXT: HOSTILE_TEXT, "full_rank_actions": [HOSTILE_TEXT], "log": {"steps": HOSTILE_TEXT}
    }  # fmt: skip
    path.write_text(json.dumps(content))
    return path


def assert_harmless(text: str) -> None:
    assert not any(character in text for character in ESCAPES)
    assert "😄" not in text


@pytest.fixture
def hostile_paths(tmp_path: Path) -> Path:
    folder = tmp_path / "[q] \x1b[31m \u202e"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("form", ["auto", "table", "sparse", "csv"])
@pytest.mark.parametrize("width", ["30", "200"])
def test_nothing_in_a_model_file_is_interpreted_by_show(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, form: str, width: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    code, out, err = call(capfd, "show", str(hostile_model(tmp_path / "m.json")), "--format", form)
    assert code == 0
    if form != "csv":  # whose names are for other programs, unless a terminal shows them
        assert_harmless(out)
        assert "[/x]" in out
        assert ":smile:" in out
    assert_harmless(err)


def test_nothing_in_a_model_file_is_interpreted_by_plan(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    model = str(hostile_model(tmp_path / "m.json"))
    code, out, err = call(
        capfd, "plan", model, "--goal", "observation:[/x]=]", "--episodes", "2", "--simulations", "10"
    )
    assert code == 0, err
    assert_harmless(out + err)
    assert "[red]x[/red]" in out
    code, out, err = call(capfd, "plan", model, "--goal", "state:nobody")
    assert code == 2
    assert_harmless(err)


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "{}/none.json"],
        ["show", "{}/log.csv"],
        ["show", "{}/broken.json"],
        ["learn", "{}/log.csv", "-o", "{}/m.json"],
        ["learn", "{}/none.csv", "-o", "{}/m.json"],
        ["learn", "{}/log.csv", "-o", "{}/none/m.json"],
        ["simulate", "\x1b[31m", "--steps", "5", "-o", "{}/x.csv"],
        ["simulate", "tiger:\x1b[31m=3", "--steps", "5", "-o", "{}/x.csv"],
        ["simulate", "tiger", "--steps", "\x1b[31m", "-o", "{}/x.csv"],
        ["plan", "tiger", "--goal", "\x1b[31m"],
        ["plan", "tiger", "--goal", "state:\x1b[31m\u202e"],
        ["plan", "tiger", "--exploration", "\x1b[31m"],
        ["\x1b[31m"],
        ["show", "--\x1b[31m"],
        ["reproduce", "\x1b[31m"],
    ],
)
def test_errors_are_plain_whatever_they_quote(
    capfd: pytest.CaptureFixture[str], hostile_paths: Path, arguments: list[str]
) -> None:
    (hostile_paths / "log.csv").write_text("\x1b[31m,b\n\x1b[31m,c\n")
    (hostile_paths / "broken.json").write_text('{"\\u001b[31m": ')
    code, out, err = call(capfd, *(argument.format(hostile_paths) for argument in arguments))
    assert code in (2, 3, 4, 7)
    assert_harmless(out + err)
    assert "error: " in err


def test_a_picture_may_lie_under_any_path(
    capfd: pytest.CaptureFixture[str], tiger: Path, hostile_paths: Path
) -> None:
    code, out, _ = call(capfd, "show", str(tiger), "--picture", str(hostile_paths / "p.png"))
    assert code == 0
    assert_harmless(out)
    assert "drew " in out


@pytest.mark.compiled
def test_demo_writes_into_a_folder_of_any_name(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capfd, "demo", "--steps", str(sized(5000)), "--out", "[/q]")
    assert code == 0, err
    assert "[/q]" in out
    assert (tmp_path / "[/q]" / "tiger.json").exists()


def test_warnings_are_plain_lines(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    done = process(
        "simulate", "tiger", "--steps", "5", "-o", os.devnull,
        code="import sys, warnings, unlatch.simulation\n"
        "def simulate(*_, **__):\n    warnings.warn('\\x1b[31m')\n    raise MemoryError\n"
        "unlatch.simulation.simulate = simulate\n"
        "import unlatch.files.atomic as a; a.check_target = lambda *_, **__: None\n"
        "from unlatch.cli import main; main(sys.argv[1:])",
    )  # fmt: skip
    assert done.stderr.splitlines()[0] == "warning: \\x1b[31m"


# --- small kindnesses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["lern"], "did you mean learn?"),
        (["Show"], "did you mean show?"),
        (["simulation"], "did you mean simulate?"),
        (["xyzzy"], "there are simulate, record, inspect, learn, count, merge, plan"),
        (["learn", "x.csv", "--max-state", "3"], "--max-states"),
        (["show", "x.json", "--fromat", "csv"], "--format"),
    ],
)
def test_what_is_not_known_brings_the_nearest(
    capfd: pytest.CaptureFixture[str], typed: list[str], words: str
) -> None:
    code, _, err = call(capfd, *typed)
    assert code == 2
    assert words in err


@pytest.mark.parametrize("name", ["log.csv", "log.txt"])
def test_show_says_that_a_log_is_a_log(capfd: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("action,observation\na,x\n")
    code, _, err = call(capfd, "show", str(tmp_path / name))
    assert code == 4
    assert "is a log, not a model" in err
    assert "unlatch learn " in err


@pytest.mark.parametrize("text", ["", "{", '{"format": "other"}', "\0action,observation", "plain words"])
def test_show_does_not_take_everything_for_a_log(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, text: str
) -> None:
    (tmp_path / "m.json").write_text(text)
    code, _, err = call(capfd, "show", str(tmp_path / "m.json"))
    assert code == 4
    assert "is a log" not in err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["simulate", "{m}", "--steps", "5", "-o", "{m}"], 2),
        (["show", "{m}", "--picture", "{m}"], 2),
        (["show", "{m}", "--picture", "{f}/none/p.png"], 7),
        (["learn", "{l}", "-o", "{l}"], 2),
        (["learn", "{l}", "-o", "{f}/none/m.json"], 7),
        (["learn", "{l}", "-o", "{f}"], 7),
        (["demo", "--out", "{m}"], 2),
        (["reproduce", "table2", "--out", "{m}"], 2),
        (["reproduce", "table2", "--out", "{m}/below"], 7),
    ],
)
def test_targets_are_checked_before_the_work_begins(
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: list[str],
    code: int,
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("the work began")

    for work in (
        "unlatch.simulation.simulate",
        "unlatch.learn.pipeline.learn_pomdp",
        "unlatch.files.logs.read.read_log",
    ):
        monkeypatch.setattr(work, never)
    monkeypatch.setattr("unlatch.study.reproduction.reproduce_targets", never)
    model, log = tmp_path / "m.json", tmp_path / "log.csv"
    unlatch.save_model(model, unlatch.domains.tiger())
    log.write_text("action,observation\na,x\n")
    before = model.read_bytes(), log.read_bytes()
    got, _, err = call(capfd, *(a.format(m=model, l=log, f=tmp_path) for a in arguments))
    assert got == code, err
    assert (model.read_bytes(), log.read_bytes()) == before


def test_an_interrupt_that_a_library_turns_into_an_import_error_stays_an_interrupt(monkeypatch, capfd):
    def interrupted(*arguments, **options):
        raise unlatch.errors.MissingDependencyError("matplotlib cannot be imported (initialization failed)")

    monkeypatch.setattr("unlatch.cli.program.was_interrupted", lambda: True)
    monkeypatch.setattr("unlatch.simulation.simulate", interrupted)
    assert run(["simulate", "tiger", "--steps", "10", "-o", "unwritten.csv"]) == 130
    assert capfd.readouterr().err == "interrupted\n"
