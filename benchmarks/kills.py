"""Signals at random moments: nothing partial, nothing left behind, declared exit codes, an answer within two seconds.

    python benchmarks/kills.py                                200 SIGKILLs, 100 SIGINTs, 30 SIGTERMs
    python benchmarks/kills.py --kills 20 --interrupts 10 --terminations 5 --seed 1

The commands are ``simulate``, ``learn``, ``show --picture`` and ``plan``; every other time the file that they write was
there before. After every signal: the target is what it was, or whole and new; the folder has nothing else in it. After
SIGKILL the next write in the folder may have to remove a leftover first. SIGINT and SIGTERM get 130, or 0 if the work
was over; ``learn`` has then written a model that loads, or nothing. They are sent once the process listens for them: in
the first moments, before any of our code runs, they belong to Python. The exit code is 1 if anything else was seen.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from unlatch import domains, load_model, read_log, save_model, simulate, write_log
from unlatch.errors import UnlatchError
from unlatch.files.atomic import write_atomically

PATIENCE = 2.0
"""Seconds within which a signal is answered."""

INTERRUPTED = 130
AFTER_IT_LISTENS = 0.8
"""About the share of its time that a process has before it once it listens for signals."""

LONGEST = 120.0


def is_log(path: Path) -> bool:
    try:
        return len(read_log(path, strict=True)) > 0
    except UnlatchError:
        return False


def is_model(path: Path) -> bool:
    try:
        return load_model(path).pomdp is not None and "no_checksum" not in load_model(path).diagnostics
    except UnlatchError:
        return False


def is_picture(path: Path) -> bool:
    content = path.read_bytes()
    return content.startswith(b"\x89PNG") and b"IEND" in content[-12:]


@dataclass(frozen=True)
class Command:
    """What is run, and how to tell that what it writes is whole."""

    name: str
    arguments: Sequence[str]
    target: str | None
    is_whole: Callable[[Path], bool] = is_log


def commands(small: bool) -> list[Command]:
    """Each takes a second or a few, most of it in the library; none ends at once."""
    steps, episodes = ("200000", "50") if small else ("3000000", "400")
    return [
        Command(
            "simulate",
            ["simulate", "tiger", "--steps", steps, "--seed", "1", "-o", "out.csv"],
            "out.csv",
            is_log,
        ),
        *(
            Command(
                f"simulate{ending}",
                ["simulate", "tiger", "--steps", steps, "--seed", "1", "-o", f"out{ending}"],
                f"out{ending}",
                is_log,
            )
            for ending in (".csv.gz", ".parquet", ".npz")
        ),
        Command(
            "record",
            ["record", "CliffWalking-v1", "--steps", episodes + "00", "--seed", "1", "-o", "out.parquet"],
            "out.parquet",
            is_log,
        ),
        Command("learn", ["learn", "log.csv", "--seed", "1", "-o", "out.json"], "out.json", is_model),
        Command("show", ["show", "model.json", "--picture", "out.png"], "out.png", is_picture),
        Command(
            "plan", ["plan", "tiger", "--reward", "learned", "--episodes", episodes, "--seed", "1"], None
        ),
    ]


@dataclass
class Report:
    """What was seen, by signal and command."""

    seen: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slowest: dict[str, float] = field(default_factory=dict)

    def fault(self, what: str) -> None:
        self.faults.append(what)
        print(f"FAULT {what}", flush=True)


# --- one process -----------------------------------------------------------------------------------------


def start(command: Command, folder: Path) -> subprocess.Popen[bytes]:
    program = [sys.executable, "-m", "unlatch", *command.arguments]
    return subprocess.Popen(program, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def listens(process: subprocess.Popen[bytes]) -> bool:
    """Whether the process has a handler for SIGTERM, which is the first thing that the command line does."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    caught = next((int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt:")), 0)
    return bool(caught >> (signal.SIGTERM - 1) & 1)


def wait_until_it_listens(process: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and process.poll() is None:
        if listens(process):
            return True
        time.sleep(0.001)
    return False


def prepared(folder: Path) -> Path:
    """A folder with a log to learn from and a model to show."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    write_log(folder / "log.csv", simulate(domains.tiger(), 20_000, rng=0))
    save_model(folder / "model.json", domains.tmaze(2))
    return folder


def duration(command: Command, folder: Path, report: Report) -> float:
    """How long it takes when nothing happens to it, after a first run that compiles."""
    seconds = LONGEST
    for _ in range(2):
        begun = time.monotonic()
        with start(command, folder) as process:
            _, said = process.communicate(timeout=LONGEST)
        seconds = time.monotonic() - begun
        if process.returncode != 0:
            report.fault(
                f"{command.name}: exit code {process.returncode} undisturbed: {said.decode()[-300:]}"
            )
    if command.target is not None and not command.is_whole(folder / command.target):
        report.fault(f"{command.name}: {command.target} is not whole after an undisturbed run")
    return seconds


# --- one signal ------------------------------------------------------------------------------------------


def strike(
    command: Command, number: signal.Signals, seconds: float, folder: Path, rng: random.Random, report: Report
) -> None:
    """Run the command, send the signal at some moment, and look at what is left."""
    label = f"{number.name} {command.name}"
    before = set(os.listdir(folder)) - {command.target}
    old = _set_up(command, folder, rng)
    with start(command, folder) as process:
        if number != signal.SIGKILL and not wait_until_it_listens(process) and process.poll() is None:
            report.fault(f"{label}: never listened for SIGTERM")
        time.sleep(rng.uniform(0, seconds if number == signal.SIGKILL else AFTER_IT_LISTENS * seconds))
        running = process.poll() is None
        begun = time.monotonic()
        process.send_signal(number)
        try:
            _, said = process.communicate(timeout=10 * PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            _, said = process.communicate()
            report.fault(f"{label}: no answer")
    answered = time.monotonic() - begun
    if running and number != signal.SIGKILL:
        report.slowest[label] = max(report.slowest.get(label, 0.0), answered)
        if answered > PATIENCE:
            report.fault(f"{label}: answered after {answered:.1f} s")
    wrote = _look(label, command, folder, before, old, report)
    _judge(label, number, process.returncode, said.decode(errors="replace"), report)
    report.seen[f"{label}: exit {process.returncode}{', file written' if wrote else ''}"] += 1


def _set_up(command: Command, folder: Path, rng: random.Random) -> bytes | None:
    """Every other time there is a file already, whose bytes are given back."""
    if command.target is None:
        return None
    target = folder / command.target
    target.unlink(missing_ok=True)
    if rng.random() < 0.5:
        return None
    target.write_bytes(b"old")
    return b"old"


def _look(
    label: str, command: Command, folder: Path, before: set[str], old: bytes | None, report: Report
) -> bool:
    """Whether there is a new file; anything but the old one or a whole new one is a fault."""
    write_atomically(folder / "next", b"")  # removes what a writer killed in the last instant may have left
    os.unlink(folder / "next")
    left = set(os.listdir(folder)) - before - {command.target}
    if left:
        report.fault(f"{label}: left behind {sorted(left)}")
    if command.target is None:
        return False
    target = folder / command.target
    content = target.read_bytes() if target.exists() else None
    if content == old:
        return False
    if content is None:
        report.fault(f"{label}: the old {command.target} is gone")
        return False
    if not command.is_whole(target):
        report.fault(f"{label}: {command.target} is partial, {len(content)} bytes")
    return True


def _judge(label: str, number: signal.Signals, code: int, said: str, report: Report) -> None:
    allowed = {0, -signal.SIGKILL} if number == signal.SIGKILL else {0, INTERRUPTED}
    if code not in allowed:
        report.fault(f"{label}: exit code {code}: {said[-300:]}")
    if "Traceback" in said:
        report.fault(f"{label}: a traceback: {said[-300:]}")
    if code == INTERRUPTED and not said.strip():
        report.fault(f"{label}: not a word about the interrupt")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--interrupts", type=int, default=100)
    parser.add_argument("--terminations", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", help="of the commands, only this one; may be repeated")
    parser.add_argument("--small", action="store_true", help="commands that take about a second")
    arguments = parser.parse_args()
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell's background job ignores it, children too
    rng = random.Random(arguments.seed)
    chosen = [one for one in commands(arguments.small) if not arguments.only or one.name in arguments.only]
    numbers = (
        [signal.SIGKILL] * arguments.kills
        + [signal.SIGINT] * arguments.interrupts
        + [signal.SIGTERM] * arguments.terminations
    )
    report = Report()
    with tempfile.TemporaryDirectory() as name:
        folder = prepared(Path(name) / "work")
        seconds = {command.name: duration(command, folder, report) for command in chosen}
        for count, number in enumerate(numbers):
            command = chosen[count % len(chosen)]
            strike(command, number, seconds[command.name], folder, rng, report)
    return told(report)


def told(report: Report) -> int:
    """Print the report; 1 if there was a fault."""
    for what, count in sorted(report.seen.items()):
        print(f"{count:5d}  {what}")
    for label, slowest in sorted(report.slowest.items()):
        print(f"slowest answer to {label}: {slowest:.2f} s")
    print(f"{len(report.faults)} faults")
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
