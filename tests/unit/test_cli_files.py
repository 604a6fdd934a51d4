"""Files of other tools on the command line: converted, simulated, planned with, shown."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

import unlatch
from unlatch import cli
from unlatch.errors import UsageError

TIGER = """discount: 0.95
values: reward
states: left right
actions: listen open-left open-right
observations: hear-left hear-right
T: listen identity
T: open-left uniform
T: open-right uniform
O: * uniform
O: listen : left 0.85 0.15
O: listen : right 0.15 0.85
R: listen : * : * : * -1
R: open-left : left : * : * -100
R: open-left : right : * : * 10
R: open-right : left : * : * 10
R: open-right : right : * : * -100
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tiger.POMDP").write_text(TIGER)
    return tmp_path


def call(capfd: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = cli.run([str(argument) for argument in arguments])
    captured = capfd.readouterr()
    return code, captured.out, captured.err


def test_a_model_goes_through_all_formats(capfd, folder):
    names = ["tiger.POMDP", "a.pomdpx", "b.npz", "c.json", "d.POMDP"]
    for source, target in itertools.pairwise(names):
        code, out, err = call(capfd, "convert", folder / source, folder / target)
        assert (code, err) == (0, "")
        assert f"wrote {folder / target}" in out
    first, last = (unlatch.load_problem(folder / name) for name in ("tiger.POMDP", "d.POMDP"))
    assert first == last


def test_learned_models_keep_what_is_known_of_them(capfd, folder):
    unlatch.save_model(folder / "m.json", unlatch.domains.tiger(), provenance={"seed": 3})
    assert call(capfd, "convert", folder / "m.json", folder / "m.npz")[0] == 0
    assert call(capfd, "convert", folder / "m.npz", folder / "n.json")[0] == 0
    assert (folder / "m.json").read_bytes() == (folder / "n.json").read_bytes()
    code, out, _ = call(capfd, "convert", folder / "m.json", folder / "m.POMDP", "--discount", "0.5")
    assert code == 0
    assert "note: emission_converted" in out
    assert unlatch.load_problem(folder / "m.POMDP").discount == 0.5


def test_a_model_without_rewards_is_written_as_one_in_which_nothing_pays(capfd, folder):
    unlatch.save_model(folder / "m.json", unlatch.domains.noisy_hallway())
    code, out, _ = call(capfd, "convert", folder / "m.json", folder / "m.POMDP")
    assert code == 0
    assert "note: no_reward" in out
    assert not unlatch.load_problem(folder / "m.POMDP").rewards.any()


def test_graphs_policies_and_terminal_states(capfd, folder):
    assert call(capfd, "convert", folder / "tiger.POMDP", folder / "t.dot")[0] == 0
    assert (folder / "t.dot").read_text().startswith("digraph")
    assert call(capfd, "convert", folder / "tiger.POMDP", folder / "t.mmd")[0] == 0
    assert (folder / "t.mmd").read_text().startswith("flowchart")
    unlatch.save_policy(folder / "p.alpha", unlatch.AlphaVectors(np.eye(2), [0, 1]))
    assert call(capfd, "convert", folder / "p.alpha", folder / "p.policyx")[0] == 0
    assert unlatch.load_policy(folder / "p.policyx") == unlatch.load_policy(folder / "p.alpha")
    ends = TIGER.replace("left right\n", "left right end\n", 1).replace(
        "T: listen identity", "start: left\nT: listen identity"
    )
    ends = ends.replace("O: *", "T: * : end : end 1\nT: * : end : left 0\nT: * : end : right 0\nO: *", 1)
    (folder / "ends.POMDP").write_text(
        ends.replace("R: listen : *", "R: listen : left").replace("uniform", "uniform")
    )
    code, _, err = call(capfd, "convert", folder / "ends.POMDP", folder / "e.json", "--terminal", "detect")
    assert (code, err) == (0, "")
    assert unlatch.load_model(folder / "e.json").pomdp.terminal == (2,)


@pytest.mark.parametrize(
    ("source", "target", "code"),
    [
        ("tiger.POMDP", "t.xyz", 2), ("gone.POMDP", "t.json", 7), ("tiger.POMDP", "nowhere/t.json", 7),
        ("tiger.POMDP", "tiger.POMDP", 2), ("bad.POMDP", "t.json", 4), ("p.alpha", "p.json", 2),
        ("tiger.POMDP", "p.alpha", 2), ("psr.json", "t.dot", 2), ("psr.json", "t.POMDP", 2),
    ],
)  # fmt: skip
def test_what_cannot_be_converted(capfd, folder, source, target, code):
    (folder / "bad.POMDP").write_text("states: T\n")
    unlatch.save_policy(folder / "p.alpha", unlatch.AlphaVectors(np.eye(2), [0, 1]))
    unlatch.save_model(folder / "psr.json", unlatch.domains.tiger().to_psr())
    before = sorted(path.name for path in folder.iterdir())
    found, _, err = call(capfd, "convert", folder / source, folder / target)
    assert found == code
    assert "error: " in err
    assert "Traceback" not in err
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.compiled
@pytest.mark.parametrize(("paid", "said"), [("1e308", "e+308 ± "), ("1e-300", "e-299 ± "), ("2", ".000 ± ")])
def test_returns_of_any_size_are_said_in_a_line(capfd, folder, paid, said):
    (folder / "t.POMDP").write_text(TIGER[: TIGER.index("R:")] + f"R: listen : * : * : * {paid}\n")
    code, out, err = call(capfd, "plan", folder / "t.POMDP", "--episodes", 5, "--steps", 10, "--seed", 1)
    assert code == 0
    first = next(line for line in out.splitlines() if line.startswith("return over"))
    assert said in first
    assert "inf" not in out
    assert "overflow" not in err


@pytest.mark.compiled
def test_files_are_simulated_and_planned_with_as_domains_are(capfd, folder):
    code, out, _ = call(
        capfd, "simulate", folder / "tiger.POMDP", "--steps", 500, "--seed", 1, "-o", folder / "log.csv"
    )
    assert code == 0
    assert "wrote 500 steps" in out
    log = unlatch.read_log(folder / "log.csv")
    assert set(log.rewards) == {-100.0, -1.0, 10.0}
    arguments = ["--episodes", 20, "--steps", 4, "--simulations", 200, "--seed", 1]
    code, out, _ = call(capfd, "plan", folder / "tiger.POMDP", "--reward", "learned", *arguments)
    assert code == 0
    assert "first action: listen" in out
    tiger = unlatch.paying_model(unlatch.load_problem(folder / "tiger.POMDP"))
    unlatch.save_model(folder / "m.json", tiger)
    code, out, _ = call(
        capfd, "plan", folder / "m.json", "--reward", "learned", "--in", folder / "tiger.POMDP", *arguments
    )
    assert code == 0
    assert "share of time by true state: left" in out


@pytest.mark.compiled
@pytest.mark.parametrize("ending", ["json", "npz", "alpha", "policyx"])
def test_plans_are_written(capfd, folder, ending):
    """The rewards and the discount are those of the file; what is written is read again."""
    path = folder / f"plan.{ending}"
    code, out, _ = call(capfd, "plan", folder / "tiger.POMDP", "--episodes", 2, "--seed", 1, "-o", path)
    assert code == 0
    assert "listen until one state is" in out
    assert f"wrote {path.name}" in out.replace(str(folder) + "/", "")
    if ending in ("json", "npz"):
        assert unlatch.load_solution(path).lower == pytest.approx(19.37, abs=0.05)
    else:
        assert unlatch.load_policy(path).vectors.shape[1] == 2


def test_show_prints_rewards_and_discount(capfd, folder):
    code, out, _ = call(capfd, "show", folder / "tiger.POMDP")
    assert code == 0
    assert "2 states, 3 actions, 2 observation symbols; observations come on arrival" in out
    assert "expected rewards (discount 0.95)" in out
    assert "-100" in out
    code, out, _ = call(capfd, "show", folder / "tiger.POMDP", "--action", "listen")
    assert "-100" not in out


# --- refused before anything is learned -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["m.POMDP", "m.pomdpx", "m.dot", "m.csv"])
def test_an_ending_that_holds_no_learned_model_is_refused_at_once(capfd, folder, name):
    (folder / "log.csv").write_text("no log at all")
    code, _, err = call(capfd, "learn", folder / "log.csv", "-o", folder / name)
    assert code == 2
    assert f"{name}: " in err
    with pytest.raises(UsageError, match=name):
        unlatch.save_model(folder / name, unlatch.domains.tiger())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-", "log.csv"], "the only log there can be"),
        (["log.csv", "-"], "the only log there can be"),
        (["log.csv", "--old-log", "old.csv"], "--continue"),
        (["log.csv", "--scheduler", "tcp://127.0.0.1:1"], "--engine dask"),
        (["log.csv", "--insecure-scheduler", "--engine", "processes"], "--engine dask"),
        (["log.csv", "--continue", "m.json", "--engine", "processes"], "--engine has nothing to do"),
    ],
)
def test_no_option_of_learn_is_passed_over_in_silence(capfd, folder, monkeypatch, words, told):
    monkeypatch.chdir(folder)
    code, _, err = call(capfd, "learn", *words, "-o", "out.json")
    assert code == 2
    assert told in err


def test_a_cell_is_a_goal_of_the_pomdp_too(capfd, folder):
    truth = unlatch.domains.tiger()
    unlatch.save_model(folder / "m.json", truth, partition=unlatch.Partition([0, 1]))
    plain = ["plan", folder / "m.json", "--steps", "3", "--episodes", "5", "--seed", "1"]
    by_cell, by_state = (
        call(capfd, *plain, "--goal", goal) for goal in ("cell:1", f"state:{truth.state_names[1]}")
    )
    assert by_cell == by_state
    assert by_cell[0] == 0
    code, _, err = call(capfd, "plan", "tiger", "--goal", "cell:0")
    assert code == 2
    assert "name states" in err


@pytest.mark.parametrize(
    ("name", "kind"), [("v.alpha", "a value function"), ("g.dot", "a graph"), ("r.html", "a page")]
)
def test_what_a_file_holds_that_is_no_model_is_named(capfd, folder, name, kind):
    (folder / name).write_text("anything")
    code, _, err = call(capfd, "show", folder / name)
    assert code == 4
    assert f"{name}: {kind}, no model" in err


def test_a_plan_that_is_written_is_one_that_can_be(capfd, folder):
    path = folder / "plan.json"
    code, out, _ = call(capfd, "plan", "tiger", "--episodes", 2, "--steps", 3, "--seed", 1, "-o", path)
    assert code == 0
    assert f"wrote {path}" in out
