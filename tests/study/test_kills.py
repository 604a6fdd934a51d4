"""Whatever happens to a run, no finished unit is lost, none is doubled, and the files end up the same."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import tiny

from unlatch.errors import StorageError
from unlatch.study.jobs.runner import collect_rows, run_units
from unlatch.study.jobs.units import Study, Unit

UNITS = 40
NAP = 0.002


def start(
    folder: Path, *, units: int = UNITS, workers: int = 2, nap: float = NAP, log: str = ""
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", "import tiny; tiny.main()"]
    command += [str(folder), str(units), str(workers), str(nap), log]
    home = Path(tiny.__file__).parent
    return subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, cwd=home)


def finish(process: subprocess.Popen[bytes]) -> int:
    _, errors = process.communicate(timeout=60)
    assert errors == b""
    return process.returncode


def contents(folder: Path, pattern: str = "*") -> dict[str, bytes]:
    """All that must be the same after every run that has ended: everything but the times."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob(pattern)
        if path.is_file() and path.relative_to(folder).parts[0] != "times"
    }


def finished(folder: Path) -> dict[str, bytes]:
    """Units that are done. May be asked while a run goes on, when other files come and go."""
    return contents(folder, "*.json")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], float]:
    """The files of a run that was left alone, and how long it took."""
    folder = tmp_path_factory.mktemp("undisturbed")
    begun = time.monotonic()
    assert finish(start(folder)) == 0
    return contents(folder), time.monotonic() - begun


def kill(process: subprocess.Popen[bytes], everybody: bool) -> None:
    if everybody:
        with suppress(ProcessLookupError):  # it may just have ended
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.communicate(timeout=10)


@pytest.mark.slow
def test_killed_at_50_random_moments(tmp_path: Path, undisturbed: tuple[dict[str, bytes], float]) -> None:
    expected, duration = undisturbed
    dice = random.Random(1)
    kills = folders = 0
    seen: dict[str, bytes] = {}
    while kills < 50:
        folder = tmp_path / str(folders)
        process = start(folder, workers=dice.choice([1, 2]))
        try:
            assert process.wait(timeout=dice.uniform(0.1, 0.8) * duration) == 0
        except subprocess.TimeoutExpired:
            kills += 1
            kill(process, everybody=dice.random() < 0.5)
            now = finished(folder)
            assert seen.items() <= now.items() <= expected.items()
            seen = now
        else:
            process.communicate()
            assert contents(folder) == expected
            folders, seen = folders + 1, {}
    assert finish(start(tmp_path / str(folders))) == 0
    assert contents(tmp_path / str(folders)) == expected


def test_number_of_workers_does_not_matter(
    tmp_path: Path, undisturbed: tuple[dict[str, bytes], float]
) -> None:
    assert finish(start(tmp_path, workers=1)) == 0
    assert contents(tmp_path) == undisturbed[0]
    study = tiny.tiny_study(UNITS, nap=NAP, log="")
    values = [row["value"] for row in collect_rows(study, tmp_path)]
    assert len(values) == len(set(values)) == 3 * UNITS  # no stream is used twice


def test_two_runners_share_the_units(tmp_path: Path) -> None:
    log = tmp_path / "log"
    runners = [start(tmp_path / "out", log=str(log)) for _ in range(2)]
    assert [finish(runner) for runner in runners] == [0, 0]
    visits = Counter(log.read_text().split())
    assert visits == dict.fromkeys(map(str, range(UNITS)), 1)
    assert len(finished(tmp_path / "out")) == UNITS + 1
    assert not list((tmp_path / "out" / "claims").iterdir())


def test_two_runners_of_which_one_is_killed_now_and_then(tmp_path: Path) -> None:
    dice = random.Random(2)
    kills = 0
    log, out = tmp_path / "log", tmp_path / "out"
    steady = start(out, units=200, workers=1, nap=0.02, log=str(log))
    while steady.poll() is None:
        other = start(out, units=200, workers=1, nap=0.02, log=str(log))
        time.sleep(dice.uniform(0.3, 0.9))
        kills += other.poll() is None
        kill(other, everybody=True)
    assert finish(steady) == 0
    visits = Counter(log.read_text().split())
    assert set(visits) == set(map(str, range(200)))
    assert sum(visits.values()) <= 200 + kills  # at most the one unit that the killed worker had
    assert kills >= 2
    assert len(finished(out)) == 201


def test_unit_of_a_killed_runner_is_taken_over(tmp_path: Path) -> None:
    first = start(tmp_path, units=2, workers=2, nap=1.0)
    while len(list((tmp_path / "claims").glob("*.lock"))) < 2:
        time.sleep(0.01)
    second = start(tmp_path, units=2, workers=1, nap=1.0)
    time.sleep(0.4)
    kill(first, everybody=True)
    assert finish(second) == 0
    assert len(finished(tmp_path)) == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_stops_at_once_and_goes_on_later(tmp_path: Path, number: int) -> None:
    process = start(tmp_path, units=12, nap=0.5)
    while len(finished(tmp_path)) < 3:
        time.sleep(0.01)
    os.killpg(process.pid, number)
    assert finish(process) == 130
    assert len(finished(tmp_path)) < 13  # it did not go on to the end
    with pytest.raises(ProcessLookupError):  # no worker stayed behind
        os.killpg(process.pid, 0)
    before = finished(tmp_path)
    assert not list((tmp_path / "claims").iterdir())
    assert finish(start(tmp_path, units=12, workers=6, nap=0.5)) == 0
    assert before.items() <= finished(tmp_path).items()
    assert len(finished(tmp_path)) == 13


def misbehaving(folder: Path, *kinds: str) -> Study:
    units = [
        Unit(kind.replace(" ", "-"), tiny.misbehave, {"how": kind, "mark": str(folder / kind)})
        for kind in kinds
    ]
    return Study("bad", units)


def outcomes(study: Study, folder: Path) -> dict[str, Any]:
    return {row["unit"]: row.get("outcome", "finished") for row in collect_rows(study, folder)}


def test_hung_and_dying_units_are_recorded_and_the_others_go_on(tmp_path: Path) -> None:
    study = misbehaving(tmp_path, "hang", "die", "die once", "exit", "raise", "memory", "nan", "nothing")
    begun = time.monotonic()
    summary = run_units(study, tmp_path / "out", workers=2, time_limit_per_unit=1.0)
    assert time.monotonic() - begun < 20
    assert outcomes(study, tmp_path / "out") == {
        "hang": "failed(timeout)",
        "die": "failed(killed)",
        "die-once": "finished",
        "exit": "failed(killed)",
        "raise": "failed(error)",
        "memory": "failed(memory)",
        "nan": "failed(error)",
        "nothing": "finished",
    }
    assert (summary.finished, summary.failed, summary.run_here) == (2, 6, 8)
    assert run_units(study, tmp_path / "out", time_limit_per_unit=1.0).run_here == 0


def test_unit_that_ran_out_of_time_is_tried_again_with_more(tmp_path: Path) -> None:
    study = tiny.tiny_study(1, nap=0.6)
    assert run_units(study, tmp_path, time_limit_per_unit=0.2).failed == 1
    assert run_units(study, tmp_path, time_limit_per_unit=0.1).run_here == 0
    assert run_units(study, tmp_path, time_limit_per_unit=20).finished == 1


def test_fellow_runner_that_never_ends_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unlatch.study.jobs.runner.GRACE", 0.0)
    holder = start(tmp_path, units=1, workers=1, nap=600)
    while not list((tmp_path / "claims").glob("*.lock")):
        time.sleep(0.01)
    with pytest.raises(StorageError, match=rf"draw-000 by process {holder.pid} on "):
        run_units(tiny.tiny_study(1, nap=600.0, log=""), tmp_path, time_limit_per_unit=0.3)
    kill(holder, everybody=True)
