"""Results of blocks that are kept: a run that was killed goes on where it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from unlatch import domains, learn_pomdp, simulate, write_log
from unlatch.engines.engine import ThisProcess, engine_of
from unlatch.engines.remembered import Remembered
from unlatch.errors import StorageError, UsageError
from unlatch.streams import source
from unlatch.streams.source import LogFiles
from unlatch.streams.streamed import StreamedLog

LOG = simulate(domains.tmaze(1), 20_000, rng=0)

KILLED = """
import os, signal, sys
from unlatch.engines.engine import ThisProcess
from unlatch.engines.remembered import Remembered
from unlatch.streams import source
from unlatch.streams.source import LogFiles
from unlatch.streams.streamed import StreamedLog

source.BLOCK = 2_000

class Mortal(ThisProcess):
    done = 0

    def each(self, task, blocks, arguments):
        for result in super().each(task, blocks, arguments):
            yield result
            self.done += 1
            if self.done == 14:
                os.kill(os.getpid(), signal.SIGKILL)

StreamedLog(LogFiles(sys.argv[1]), Remembered(Mortal(), sys.argv[2])).count(2, 1)
"""


class Watched(ThisProcess):
    """This process, with the blocks that it has worked on."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def each(self, task, blocks, arguments):
        for block, result in zip(blocks, super().each(task, blocks, arguments), strict=True):
            self.names.append(block.name)
            yield result


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(source, "BLOCK", 2_000)


@pytest.fixture
def log(tmp_path):
    write_log(tmp_path / "log.parquet", LOG)
    return tmp_path / "log.parquet"


def counted(log: Path, engine) -> list[bytes]:
    tables = StreamedLog(LogFiles(log), engine).count(2, 1).tables
    return [table.codes.tobytes() + table.counts.tobytes() for table in tables]


def test_a_killed_run_goes_on_where_it_was(log, tmp_path):
    """Nine blocks are looked at and six of them counted when the process is killed."""
    kept = tmp_path / "kept"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(log), str(kept)], check=False, timeout=120)
    assert killed.returncode == -signal.SIGKILL
    assert len(list(kept.iterdir())) == 15
    again, plain = Watched(), Watched()
    assert counted(log, Remembered(again, kept)) == counted(log, Remembered(plain, tmp_path / "other"))
    assert (len(again.names), len(plain.names)) == (3, 18)
    assert again.names == plain.names[-3:]
    done = Watched()
    assert counted(log, Remembered(done, kept)) == counted(log, ThisProcess())
    assert done.names == []


def test_what_is_damaged_or_older_than_its_file_is_made_anew(log, tmp_path):
    kept = tmp_path / "kept"
    expected = counted(log, Remembered(ThisProcess(), kept))
    victim = sorted(kept.iterdir())[3]
    victim.write_bytes(victim.read_bytes()[:-1] + b"x")
    again = Watched()
    assert counted(log, Remembered(again, kept)) == expected
    assert len(again.names) == 1
    write_log(log, simulate(domains.tmaze(1), 20_000, rng=1))
    other = Watched()
    assert counted(log, Remembered(other, kept)) != expected
    assert len(other.names) == 18


def test_a_folder_that_others_can_write_to_is_refused(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(StorageError, match="others can write to it"):
        engine_of(None, checkpoint=tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot keep results there"):
        engine_of(None, checkpoint=tmp_path / "file" / "folder")
    assert os.stat(tmp_path / "file").st_size == 0


def test_learning_with_a_checkpoint_is_learning(log, tmp_path):
    options = {"refine": None, "emission": "departure", "rng": 0}
    plain = learn_pomdp(log, **options)
    for _ in range(2):
        found = learn_pomdp(log, checkpoint=tmp_path / "kept", **options)
        assert np.array_equal(found.pomdp.transitions, plain.pomdp.transitions)
        assert found.log_likelihood == plain.log_likelihood
    with pytest.raises(UsageError, match="in memory"):
        learn_pomdp(LOG, checkpoint=tmp_path / "kept")
