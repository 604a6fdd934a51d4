"""The command line as its users meet it: real processes for exit codes, click's runner for the rest."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import naive
import unlatch
from sizes import sized
from unlatch.cli import run
from unlatch.cli.learn import learn
from unlatch.engines.engine import engine_of


def call(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(list(arguments))
    captured = capfd.readouterr()
    return code, captured.out, captured.err


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a log of Tiger and the model learned from it."""
    path = tmp_path_factory.mktemp("cli")
    assert (
        run(["simulate", "tiger", "--steps", str(sized(20_000)), "--seed", "1", "-o", str(path / "log.csv")])
        == 0
    )
    assert run(["learn", str(path / "log.csv"), "-o", str(path / "model.json"), "--seed", "1"]) == 0
    return path


def test_help_is_instant_and_imports_nothing_heavy() -> None:
    code = "import sys, unlatch.cli; unlatch.cli.run(['--help']); print(sorted(sys.modules))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    loaded = output.splitlines()[-1]
    for name in ("simulate", "learn", "plan", "show", "demo"):
        assert f"  {name} " in output
    for heavy in ("'numba'", "'scipy'", "'matplotlib'", "'rich'", "'numpy'"):
        assert heavy not in loaded


def test_simulate_is_repeatable(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    logs = []
    for name in ("a.csv", "b.csv"):
        target = str(tmp_path / name)
        code, out, _ = call(
            capfd,
            "simulate",
            "tmaze:rooms=2",
            "--steps",
            "50",
            "--episodes",
            "3",
            "--seed",
            "7",
            "-o",
            target,
        )
        assert code == 0
        assert "150 steps in 3 episodes" in out
        logs.append((tmp_path / name).read_bytes())
    assert logs[0] == logs[1]
    assert unlatch.read_log(tmp_path / "a.csv").n_episodes == 3


def test_episodes_that_end(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unlatch.cli.simulate.by_name", lambda name: naive.corridor(slip=0.2))
    target = str(tmp_path / "log.csv")
    code, out, err = call(
        capfd, "simulate", "corridor", "--steps", "9", "--total", "500", "--seed", "1", "-o", target
    )
    assert code == 0, err
    assert "wrote 500 steps in" in out
    assert "of which ended" in out
    assert len(unlatch.read_log(target)) == 500
    for planner in ("pouct", "exact"):
        code, out, err = call(
            capfd,
            "plan",
            "corridor",
            "--reward",
            "learned",
            "--planner",
            planner,
            "--episodes",
            "50",
            "--seed",
            "1",
        )
        assert code == 0, err
        assert "return over at most 10 steps" in out
        assert "first action: right" in out
        assert "(it is over)" in out
    arguments = ["simulate", "corridor", "--steps", "9", "--episodes", "2", "--total", "9", "-o", target]
    assert call(capfd, *arguments)[0] == 2


def test_simulate_from_a_model_file_with_a_policy(
    capfd: pytest.CaptureFixture[str], folder: Path, tmp_path: Path
) -> None:
    target = str(tmp_path / "log.csv")
    model = str(folder / "model.json")
    code, _, _ = call(
        capfd, "simulate", model, "--steps", "500", "--policy", "0.5,0.5,0", "--seed", "0", "-o", target
    )
    assert code == 0
    assert set(unlatch.read_log(target).action_names) == {"listen", "open-left"}


def test_learn_writes_what_learn_pomdp_returns(folder: Path) -> None:
    saved = unlatch.load_model(folder / "model.json")
    log = unlatch.read_log(folder / "log.csv")
    result = unlatch.learn_pomdp(log, rng=1)
    assert saved.pomdp == result.pomdp
    assert saved.partition == result.partition
    assert saved.provenance["seed"] == 1
    assert saved.provenance["log"]["steps"] == sized(20_000)


def test_shell_and_python_write_the_same_file(folder: Path, tmp_path: Path) -> None:
    log = folder / "log.csv"
    recorded = {"log_files": [{"path": "log.csv", "bytes": log.stat().st_size}]}  # for --continue
    result = unlatch.learn_pomdp(unlatch.read_log(log), rng=1)
    unlatch.save_model(tmp_path / "m.json", result, provenance=recorded)
    assert (tmp_path / "m.json").read_bytes() == (folder / "model.json").read_bytes()


def test_options_are_those_of_learn_pomdp_with_the_same_defaults() -> None:
    keywords = inspect.signature(unlatch.learn_pomdp).parameters
    defaults = {name: p.default for name, p in keywords.items() if p.kind is p.KEYWORD_ONLY}
    reading = {
        "no_header",
        "ignore_reward",
        "ignore_probability",
        "ignore_terminated",
        "ignore_truncated",
        "ignore_environment",
        "ignore_step",
        *inspect.signature(unlatch.read_log).parameters,
    }
    values = learn.make_context("learn", ["log.csv", "-o", "m.json"]).params
    of_the_shell = {"logs", "output", "model", "old_log", "scheduler", "insecure_scheduler"}
    offered = {name: value for name, value in values.items() if name not in reading | of_the_shell}
    assert {**offered, "rng": None} == {**defaults, "seed": None, "refine": True, "engine": "process"}
    assert type(engine_of("process")) is type(engine_of(defaults["engine"]))


def test_learn_reports(capfd: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    code, out, _ = call(
        capfd, "learn", str(folder / "log.csv"), "-o", str(tmp_path / "m.json"), "--seed", "1"
    )
    assert code == 0
    assert out.startswith(f"{sized(20_000)} steps in 1 episode; 2 hidden states\n")
    assert "evidence: 2 states; runner-up" in out
    assert "Hankel matrix: rank 2, leading singular values 1, " in out
    assert "full-rank actions: listen" in out
    assert "observability partition: {0}, {1}" in out
    assert "determines the whole model" not in out
    assert f"wrote {tmp_path / 'm.json'}; see it with: unlatch show " in out


def test_learn_without_refinement(capfd: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    arguments = ["learn", str(folder / "log.csv"), "-o", str(tmp_path / "m.json"), "--seed", "1"]
    code, out, _ = call(capfd, *arguments, "--no-refine")
    assert code == 0
    assert "runner-up" not in out
    log = unlatch.read_log(folder / "log.csv")
    refined = unlatch.load_model(folder / "model.json").pomdp
    plain = unlatch.load_model(tmp_path / "m.json").pomdp
    assert plain is not None
    assert refined is not None
    assert refined.log_likelihood(log) > plain.log_likelihood(log)


def test_columns_are_named_by_options(
    capfd: pytest.CaptureFixture[str], folder: Path, tmp_path: Path
) -> None:
    rows = (folder / "log.csv").read_text().splitlines()
    (tmp_path / "log.csv").write_text("\n".join(["did,saw,paid", *rows[1:]]) + "\n")
    arguments = [
        "learn",
        str(tmp_path / "log.csv"),
        "-o",
        str(tmp_path / "m.json"),
        "--no-refine",
        "--seed",
        "1",
    ]
    code, _, err = call(capfd, *arguments)
    assert code == 3
    assert "--action" in err
    assert "--observation" in err
    code, _, err = call(capfd, *arguments, "--action", "did", "--observation", "saw", "--reward", "paid")
    assert code == 0, err
    code, _, err = call(capfd, *arguments, "--action", "did", "--observation", "saw", "--reward", "cash")
    assert code == 3
    assert "no column 'cash' for the reward" in err
    code, _, err = call(capfd, *arguments, "--reward", "paid", "--ignore-reward")
    assert code == 2
    assert "exclude each other" in err


def test_a_dash_reads_standard_input(folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "unlatch", "learn", "-", "--no-refine", "--seed", "1", "-o"]
    with open(folder / "log.csv", "rb") as log:
        subprocess.run([*command, str(tmp_path / "a.json")], stdin=log, check=True, capture_output=True)
    assert (
        run(["learn", str(folder / "log.csv"), "--no-refine", "--seed", "1", "-o", str(tmp_path / "b.json")])
        == 0
    )
    from_input, from_file = (json.loads((tmp_path / name).read_text()) for name in ("a.json", "b.json"))
    assert from_file["provenance"].pop("log_files")  # there is none to go on from where it was piped
    assert from_input.pop("sha256") != from_file.pop("sha256")
    assert from_input == from_file
    bad = subprocess.run([*command, str(tmp_path / "c.json")], input=b"", capture_output=True)
    assert bad.returncode == 3
    assert b"<stdin>: no data" in bad.stderr


def test_a_result_that_was_cut_short_is_written_and_told(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path
) -> None:
    result = unlatch.learn_pomdp(unlatch.read_log(folder / "log.csv"), rng=1, refine=None)
    cut = replace(
        result, complete=False, diagnostics=result.diagnostics.noting("interrupted", "stopped by the user")
    )
    monkeypatch.setattr("unlatch.learn.pipeline.learn_pomdp", lambda *_, **__: cut)
    model = tmp_path / "m.json"
    code, _, err = call(capfd, "learn", str(folder / "log.csv"), "-o", str(model))
    assert code == 130
    assert err == f"interrupted: wrote the best model so far to {model}\n"
    assert unlatch.load_model(model).pomdp == result.pomdp


def test_a_time_limit_that_was_reached_is_a_note_not_an_error(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path
) -> None:
    result = unlatch.learn_pomdp(unlatch.read_log(folder / "log.csv"), rng=1, refine=None)
    cut = replace(result, complete=False, diagnostics=result.diagnostics.noting("time_limit", "time is up"))
    monkeypatch.setattr("unlatch.learn.pipeline.learn_pomdp", lambda *_, **__: cut)
    code, out, err = call(capfd, "learn", str(folder / "log.csv"), "-o", str(tmp_path / "m.json"))
    assert code == 0
    assert "note: time is up" in out
    assert err == ""


def test_an_interrupt_while_the_model_is_written_does_not_lose_it(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path
) -> None:
    original, calls = unlatch.save_model, []

    def save(path: Path, result: object, **options: object) -> None:
        calls.append(path)
        if len(calls) == 1:
            raise KeyboardInterrupt
        original(path, result, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("unlatch.files.models.doors.save_model", save)
    model = tmp_path / "m.json"
    code, _, err = call(capfd, "learn", str(folder / "log.csv"), "-o", str(model), "--no-refine")
    assert code == 130
    assert "wrote the best model so far" in err
    assert unlatch.load_model(model).pomdp is not None
    assert unlatch.load_model(model).provenance["log_files"]


def test_probabilities_can_be_left_out(
    capfd: pytest.CaptureFixture[str], folder: Path, tmp_path: Path
) -> None:
    rows = (folder / "log.csv").read_text().splitlines()
    (tmp_path / "log.csv").write_text("".join(f"{row},0\n" for row in rows).replace(",0", ",probability", 1))
    arguments = ["learn", str(tmp_path / "log.csv"), "-o", str(tmp_path / "m.json"), "--no-refine"]
    code, _, err = call(capfd, *arguments)
    assert code == 3
    assert "line 2, column 'probability': 0.0" in err
    assert "--ignore-probability" in err
    code, out, _ = call(capfd, *arguments, "--ignore-probability")
    assert code == 0
    assert "2 hidden states" in out


def test_learn_tells_how_many_episodes_ended(
    capfd: pytest.CaptureFixture[str], folder: Path, tmp_path: Path
) -> None:
    log = unlatch.read_log(folder / "log.csv").head(4_000)
    lengths = np.tile([3, 9, 5, 8], 160)
    starts = np.append(0, np.cumsum(lengths))
    starts = starts[starts < len(log)]
    ended = np.isin(np.arange(len(log)), starts[1::2] - 1)
    episodes = replace(log, episode_starts=starts, terminated=ended)
    unlatch.write_log(tmp_path / "log.csv", episodes)
    arguments = [
        "learn",
        str(tmp_path / "log.csv"),
        "-o",
        str(tmp_path / "m.json"),
        "--no-refine",
        "--seed",
        "0",
    ]
    code, out, _ = call(capfd, *arguments)
    assert code == 0
    assert f"{ended.sum()} of {len(starts)} episodes ended, {len(starts) - ended.sum()} were cut" in out
    assert "does not say whether they ended" not in out
    code, out, _ = call(capfd, *arguments, "--ignore-terminated")
    assert code == 0
    assert "episodes ended" not in out
    assert "does not say whether they ended" in out


def test_endings_are_named_or_left_out(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("action,observation,terminated\na,x,0\na,x,maybe\n")
    arguments = ["learn", str(tmp_path / "log.csv"), "-o", str(tmp_path / "m.json")]
    code, _, err = call(capfd, *arguments)
    assert code == 3
    assert "line 3, column 'terminated': 'maybe' is neither true nor false" in err
    assert "--ignore-terminated" in err
    code, _, err = call(capfd, *arguments, "--terminated", "terminated", "--ignore-terminated")
    assert code == 2
    assert "--terminated and --ignore-terminated exclude each other" in err
    code, _, err = call(capfd, *arguments, "--truncated", "cut")
    assert code == 3
    assert "no column 'cut' for the truncated" in err


def test_show_prints_every_action(capfd: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    picture = tmp_path / "model.png"
    code, out, _ = call(capfd, "show", str(folder / "model.json"), "--picture", str(picture))
    assert code == 0
    for name in ("action listen", "action open-left", "action open-right", "reward of a symbol"):
        assert name in out
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_show_says_what_is_not_determined(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    first, _ = unlatch.domains.unidentifiable_pair()
    result = unlatch.learn_from_hankel(unlatch.exact_hankel(first, history_length=3, test_length=2), rng=0)
    unlatch.save_model(tmp_path / "pair.json", result.pomdp, partition=result.partition)
    code, out, _ = call(capfd, "show", str(tmp_path / "pair.json"))
    assert code == 0
    assert "observability partition: {0}, {1, 2}" in out
    assert "states 1, 2 show the same under every full-rank action" in out
    assert "not determined under float: transitions" in out
    assert "not determined under reset" not in out
    assert "~" in out


def test_names_are_data_not_markup(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = unlatch.POMDP(
        transitions=np.ones((1, 1, 1)),
        observations=np.full((1, 1, 2), 0.5),
        initial=np.ones(1),
        action_names=("[red]go[/red]",),
        observation_names=("[bold]x", "]"),
    )
    unlatch.save_model(tmp_path / "m.json", model)
    code, out, _ = call(capfd, "show", str(tmp_path / "m.json"))
    assert code == 0
    assert "[red]go[/red]" in out
    assert "[bold]x" in out


@pytest.mark.compiled
def test_demo_writes_model_and_picture(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = call(capfd, "demo", "--steps", str(sized(20_000)), "--out", str(tmp_path / "out"))
    assert code == 0
    assert "learned from that log alone: 2 hidden states" in out
    assert "[0.850]" in out
    pomdp = unlatch.load_model(tmp_path / "out" / "tiger.json").pomdp
    assert pomdp is not None
    assert np.abs(pomdp.observations[0, 0, :2] - [0.85, 0.15]).max() < 0.05
    assert (tmp_path / "out" / "tiger.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        (["--reward", "learned", "--in", "tiger"], "first action: listen"),
        (["--goal", "state:1", "--in", "tiger"], "share of time in the goal"),
        (["--goal", "cell:0", "--using", "cells"], "share of time"),
        (["--goal", "observation:listen=hear-left|-1"], "first action: listen"),
        (
            ["--goal", "observation:listen=hear-left|-1", "--using", "psr", "--in", "tiger"],
            "first action: listen",
        ),
        (
            ["--goal", "where:listen=hear-left|-1", "--planner", "exact", "--steps", "4"],
            "share of time in the goal",
        ),
        (["--goal", "ambiguous"], "share of time in the goal"),
    ],
)
def test_plan(capfd: pytest.CaptureFixture[str], folder: Path, goal: list[str], words: str) -> None:
    model = str(folder / "model.json")
    code, out, err = call(capfd, "plan", model, *goal, "--episodes", "5", "--seed", "1")
    assert code == 0, err
    assert "return over" in out
    assert words in out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["simulate", "lion", "--steps", "5", "-o", "{}/x.csv"], 2, "unknown domain 'lion'"),
        (["simulate", "tmaze:rooms=0", "--steps", "5", "-o", "{}/x.csv"], 2, "rooms must be"),
        (["simulate", "tiger", "--steps", "0", "-o", "{}/x.csv"], 2, "--steps"),
        (["simulate", "tiger", "--steps", "5", "-o", "{}/none/x.csv"], 7, "none"),
        (["learn", "{}/absent.csv", "-o", "{}/m.json"], 7, "absent.csv"),
        (["learn", "{}/empty.csv", "-o", "{}/m.json"], 3, "empty.csv"),
        (["learn", "{}/short.csv", "-o", "{}/m.json"], 5, "steps"),
        (["learn", "{}/short.csv", "-o", "{}/m.json", "--rank", "0"], 2, "--rank"),
        (["show", "{}/short.csv"], 4, "short.csv"),
        (["show", "{}/absent.json"], 7, "absent.json"),
        (["plan", "tiger", "--goal", "state:0", "--reward", "learned"], 2, "not both"),
        (["plan", "noisy-hallway"], 2, "--goal"),
        (["plan", "tiger", "-o", "plan.txt"], 2, ".policyx"),
        (["plan", "tiger", "-o", "nowhere/plan.alpha"], 2, "no such folder"),
        (["plan", "tiger", "-o", "plan.alpha"], 2, "--discount below 1"),
        (["plan", "tiger", "-o", "plan.json", "--planner", "exact"], 2, "--planner point-based"),
        (["plan", "tiger", "-o", "plan.json", "--depth", "2"], 2, "--planner point-based"),
        (["plan", "tiger", "--goal", "state:7"], 2, "7"),
        (["plan", "tiger", "--goal", "nonsense"], 2, "nonsense"),
        (["plan", "tiger", "--goal", "observation:listen"], 2, "listen"),
        (["plan", "tiger", "--goal", "observation:listen="], 2, "ACTION=OBSERVATION"),
        (["plan", "noisy-hallway", "--reward", "learned"], 2, "no rewards"),
        (["frobnicate"], 2, "frobnicate"),
    ],
)
def test_errors_have_codes_and_no_traceback(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "short.csv").write_text("action,observation\na,x\na,y\n")
    got, out, err = call(capfd, *(argument.format(tmp_path) for argument in arguments))
    assert got == code
    assert words in err
    assert "Traceback" not in out + err


def test_a_bug_of_ours_is_code_1_without_traceback(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("unlatch.simulation.simulate", broken)
    code, _, err = call(capfd, "simulate", "tiger", "--steps", "5", "-o", str(tmp_path / "x.csv"))
    assert code == 1
    assert "bug of ours" in err
    assert "Traceback" not in err


def test_interrupt_is_code_130(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("unlatch.simulation.simulate", interrupted)
    assert call(capfd, "simulate", "tiger", "--steps", "5", "-o", str(tmp_path / "x.csv"))[0] == 130


def test_module_runs_as_a_program(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "unlatch", "show", str(folder / "model.json")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "POMDP with 2 states" in done.stdout


def test_model_file_is_plain_json(folder: Path) -> None:
    content = json.loads((folder / "model.json").read_text())
    assert content["format"] == "unlatch-model"
    assert len(content["sha256"]) == 64


@pytest.mark.compiled
def test_plan_leaves_out_what_was_never_tried_unless_told_otherwise(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    model = unlatch.POMDP(
        transitions=np.ones((2, 1, 1)),
        observations=[[[1.0, 0.0]], [[0.0, 1.0]]],
        initial=np.ones(1),
        action_names=("tried", "untried"),
        observation_names=("nothing", "prize"),
        untried_actions=("untried",),
    )
    unlatch.save_model(tmp_path / "m.json", model)
    arguments = ["plan", str(tmp_path / "m.json"), "--goal", "observation:untried=prize", "--episodes", "2"]
    for planner in ("pouct", "exact"):
        code, out, err = call(capfd, *arguments, "--planner", planner, "--seed", "1")
        assert code == 0, err
        assert "first action: tried" in out
        code, out, err = call(capfd, *arguments, "--planner", planner, "--seed", "1", "--allow-untried")
        assert code == 0, err
        assert "first action: untried" in out


def test_show_prints_one_action_or_csv(capfd: pytest.CaptureFixture[str], folder: Path) -> None:
    model = str(folder / "model.json")
    code, out, _ = call(capfd, "show", model, "--action", "listen")
    assert code == 0
    assert "action open-left" not in out
    code, out, _ = call(capfd, "show", model, "--format", "csv", "--action", "listen")
    assert code == 0
    assert out.startswith('"kind","action","state","to","value"\n')
    assert "open-left" not in out
    code, _, err = call(capfd, "show", model, "--action", "lisen")
    assert code == 2
    assert "'listen'" in err
