"""Everything that writes a file, by the name of the file; a program that kills each of them while it writes.

``python tests/writers.py FOLDER`` puts an old file in the place of each, starts the writer in a process that is killed
at a system call, and prints what is not as it was.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import unlatch
from unlatch import Problem, domains
from unlatch.errors import StorageError

Write = Callable[[Path], object]


@cache
def log() -> unlatch.Trajectory:
    return unlatch.simulate(domains.tiger(), 50, episodes=3, rng=0)


@cache
def tiger() -> Problem:
    return Problem(domains.tiger(), discount=0.95)


@cache
def policy() -> unlatch.Policy:
    return unlatch.solve(tiger())


@cache
def picture() -> object:
    return unlatch.plot_states(domains.tiger(), "listen")


@cache
def given() -> Path:
    """A folder with what some writers read: a problem, and the folder of a study."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    unlatch.save_problem(folder / "source.json", tiger())
    (folder / "rows.csv").write_text("unit,domain,method,steps,observation_l1\na,tiger,psr,100,0.5\n")
    return folder


def graph(path: Path) -> None:
    """What the shell writes; its exit code for an error of storage as that error."""
    from unlatch import cli

    code = cli.run(["convert", str(given() / "source.json"), str(path)])
    if code == StorageError.exit_code:
        raise StorageError(f"{path}: exit code {code}")
    assert code == 0


def table_of_a_study(path: Path) -> None:
    from unlatch.study.jobs.runner import write_table

    write_table(path, [{"steps": steps, "error": 0.5} for steps in range(9)])


def page_of_a_study(path: Path) -> None:
    from unlatch.study.report import write_study_report

    write_study_report(path, given())


WRITERS: dict[str, tuple[str, Write]] = {
    **{
        f"log{ending}": ("files/logs/write.py", lambda path: unlatch.write_log(path, log()))
        for ending in (".csv", ".tsv", ".csv.gz", ".parquet", ".npz")
    },
    **{
        f"problem{ending}": ("files/models/doors.py", lambda path: unlatch.save_problem(path, tiger()))
        for ending in (".POMDP", ".pomdpx", ".json", ".npz")
    },
    **{
        f"model{ending}": ("files/models/doors.py", lambda path: unlatch.save_model(path, domains.tiger()))
        for ending in (".json", ".npz")
    },
    **{
        f"solution{ending}": ("files/models/doors.py", lambda path: unlatch.save_solution(path, policy()))
        for ending in (".json", ".npz")
    },
    **{
        f"plans{ending}": (
            "files/models/policies.py",
            lambda path: unlatch.save_policy(path, policy().alpha_vectors),
        )
        for ending in (".alpha", ".policyx")
    },
    "counts.npz": (
        "files/arrays.py",
        lambda path: unlatch.save_counts(
            path, unlatch.count_sequences(log(), history_length=2, test_length=1)
        ),
    ),
    "page.html": ("show/report/__init__.py", lambda path: unlatch.write_report(path, domains.tiger())),
    **{
        f"picture{ending}": (
            "show/figure.py",
            lambda path: unlatch.save_plot(picture(), path),
        )
        for ending in (".png", ".svg")
    },
    "graph.dot": ("cli/convert.py", graph),
    "graph.mmd": ("cli/convert.py", graph),
    "rows.csv": ("study/jobs/runner.py", table_of_a_study),
    "study.html": ("study/report.py", page_of_a_study),
}
"""The module that calls the one door (`unlatch.files.atomic`), and the call."""

IN_FOLDERS = {
    "agent.py": "tests/unit/test_agent.py",
    "study/jobs/folder.py": "tests/unit/test_runner.py",
    "study/figures.py": "tests/unit/test_studies.py",
    "study/reproduction.py": "tests/unit/test_studies.py",
}
"""Modules that write files of folders of their own, and where these are tested."""

KILLED_AT = ("fsync", "replace")


def main(folder: Path) -> None:
    for name, (_, write) in WRITERS.items():
        write(folder / name)  # imports and compiles what the processes need
        for call in KILLED_AT:
            (folder / name).write_bytes(b"old")
            child = os.fork()
            if child == 0:
                killed_at(call, write, folder / name)
            _, status = os.waitpid(child, 0)
            if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
                print(f"FAULT {name}: was not killed at {call}: {status}")
            if (folder / name).read_bytes() != b"old":
                print(f"FAULT {name}: changed by a writer that was killed at {call}")
        write(folder / name)
        if (folder / name).read_bytes() == b"old":
            print(f"FAULT {name}: not written")
        (folder / name).unlink()
        for left in folder.iterdir():
            print(f"FAULT {name}: leaves {left.name}")
    print("done")


def killed_at(call: str, write: Write, path: Path) -> None:
    setattr(os, call, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
    write(path)
    os._exit(3)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
