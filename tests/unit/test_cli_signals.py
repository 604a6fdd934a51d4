"""Ctrl-C and SIGTERM in real processes, sent by the process itself at a moment that is certain."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import unlatch
from sizes import sized
from unlatch.cli import run

pytestmark = [
    pytest.mark.compiled,  # of processes that learn and plan
    pytest.mark.skipif(os.name == "nt", reason="POSIX signals"),
]

AT_IMPORT = """
import importlib.abc, os, signal, sys
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.{signal})
sys.meta_path.insert(0, Finder())
from unlatch.cli import main
main(sys.argv[1:])
"""

WHILE_WORKING = """
import os, signal, sys
import unlatch.cli.progress as progress
original, sent = progress.listening, []
def listening(listener, aside):
    def update(stage, done, total):
        if stage.startswith({stage!r}) and not sent:
            sent.append(stage)
            os.kill(os.getpid(), signal.{signal})
        listener(stage, done, total)
    return original(update, aside)
progress.listening = listening
from unlatch.cli import main
main(sys.argv[1:])
"""

STUBBORN = """
import sys, time
import unlatch.simulation
def simulate(*_, **__):
    begun = False
    while True:
        try:
            if not begun:
                begun = True
                print("begun", flush=True)
            time.sleep(60)
        except KeyboardInterrupt:
            print("heard", flush=True)
unlatch.simulation.simulate = simulate
from unlatch.cli import main
main(sys.argv[1:])
"""

LOST = """
import os, signal, sys, time
import unlatch.simulation
class Finalized:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass
def simulate(*_, **__):
    Finalized()
    time.sleep(60)
unlatch.simulation.simulate = simulate
from unlatch.cli import main
main(sys.argv[1:])
"""


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("module", ["unlatch.cli.program", "click", "numpy", "unlatch.files.models.doors"])
def test_a_signal_during_start_up_gives_no_traceback(module: str, name: str, tmp_path: Path) -> None:
    unlatch.save_model(tmp_path / "m.json", unlatch.domains.tiger())
    done = python(AT_IMPORT.format(module=module, signal=name), "show", str(tmp_path / "m.json"))
    assert done.returncode == 130
    assert done.stderr == "interrupted\n"


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupted_search_writes_the_best_model_so_far(name: str, tmp_path: Path) -> None:
    log, model = tmp_path / "log.csv", tmp_path / "m.json"
    assert run(["simulate", "tiger", "--steps", str(sized(20_000)), "--seed", "1", "-o", str(log)]) == 0
    done = python(
        WHILE_WORKING.format(signal=name, stage="searching"),
        "learn",
        str(log),
        "-o",
        str(model),
        "--seed",
        "1",
    )
    assert done.returncode == 130, done.stderr
    assert done.stderr.splitlines()[-1] == f"interrupted: wrote the best model so far to {model}"
    assert "Traceback" not in done.stderr
    assert unlatch.load_model(model).pomdp is not None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_ends_the_process_at_once(number: signal.Signals, tmp_path: Path) -> None:
    arguments = ["simulate", "tiger", "--steps", "5", "-o", str(tmp_path / "x.csv")]
    with subprocess.Popen(
        [sys.executable, "-c", STUBBORN, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(number)
        assert process.stdout.readline() == "heard\n"
        time.sleep(0.3)  # two signals within a tenth of a second are one press
        process.send_signal(number)
        assert process.wait(timeout=60) == 130
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_that_falls_into_a_finalizer_is_not_lost(tmp_path: Path) -> None:
    done = python(LOST, "simulate", "tiger", "--steps", "5", "-o", str(tmp_path / "x.csv"))
    assert done.returncode == 130
    assert done.stderr == "interrupted\n"


def test_an_ignored_signal_stays_ignored(tmp_path: Path) -> None:
    code = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
import unlatch.simulation
original = unlatch.simulation.simulate
def simulate(*arguments, **options):
    os.kill(os.getpid(), signal.SIGINT)
    return original(*arguments, **options)
unlatch.simulation.simulate = simulate
from unlatch.cli import main
main(sys.argv[1:])
"""
    done = python(code, "simulate", "tiger", "--steps", "5", "-o", str(tmp_path / "x.csv"))
    assert done.returncode == 0, done.stderr


def test_plan_to_any_depth_can_be_interrupted() -> None:
    code = """
import os, signal, sys, threading
import unlatch.planning.episodes as episodes
original = episodes.run_episodes
def run_episodes(*arguments, **options):
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    return original(*arguments, **options)
episodes.run_episodes = run_episodes
from unlatch.cli import main
main(sys.argv[1:])
"""
    done = python(code, "plan", "tiger", "--reward", "learned", "--depth", "100000000", "--seed", "1")
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1] == "interrupted"


def test_an_interrupted_agent_stops_and_goes_on_from_its_folder(tmp_path: Path) -> None:
    call = ["agent", "tiger", "--steps", "120", "--first", "80", "-o", str(tmp_path / "a")]
    done = python(WHILE_WORKING.format(signal="SIGINT", stage="searching"), *call, "--seed", "1")
    assert done.returncode == 130, done.stderr
    assert done.stdout == ""
    assert len(unlatch.read_log(tmp_path / "a" / "log.npz")) == 80
    assert run(call) == 0
    assert len(unlatch.read_log(tmp_path / "a" / "log.npz")) == 200


def test_an_interrupted_solver_is_not_acted_on_but_kept(tmp_path: Path) -> None:
    code, path = WHILE_WORKING.format(signal="SIGINT", stage="solving"), tmp_path / "plan.json"
    done = python(code, "plan", "tiger", "--discount", "0.95", "-o", str(path))
    assert done.returncode == 130, done.stderr
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1] == f"interrupted: wrote the best plan so far to {path}"
    assert unlatch.load_solution(path) is not None
