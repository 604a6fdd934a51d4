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
from unlatch.engines import remembered
from unlatch.engines.engine import ThisProcess, engine_of
from unlatch.engines.remembered import Remembered
from unlatch.engines.written import fingerprint, read_back, written
from unlatch.errors import DataError, EngineError, StorageError, UsageError
from unlatch.learn.likelihood.blocks import Seam
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
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 255
    victim.write_bytes(data)
    again = Watched()
    assert counted(log, Remembered(again, kept)) == expected
    assert len(again.names) == 1
    write_log(log, simulate(domains.tmaze(1), 20_000, rng=1))
    other = Watched()
    assert counted(log, Remembered(other, kept)) != expected
    assert len(other.names) == 18


def test_where_nothing_can_be_kept_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot keep results there"):
        engine_of(None, checkpoint=tmp_path / "file" / "folder")
    assert os.stat(tmp_path / "file").st_size == 0


class Poisoned(ThisProcess):
    """This process, to which some blocks are deadly."""

    def __init__(self, *deadly: int) -> None:
        self.deadly = deadly

    def each(self, task, blocks, arguments):
        for block, result in zip(blocks, super().each(task, blocks, arguments), strict=True):
            if block.start // 2_000 in self.deadly:
                raise EngineError("died", block=block.name, poison=True)
            yield result


@pytest.mark.parametrize("deadly", [(3,), (0, 8)])
def test_what_is_not_poison_is_done_and_kept(log, tmp_path, deadly):
    kept = tmp_path / "kept"
    with pytest.raises(EngineError, match="kept in") as caught:
        counted(log, Remembered(Poisoned(*deadly), kept))
    assert caught.value.poison
    for number in deadly:
        assert f"rows {2_000 * number} to" in str(caught.value) or len(deadly) == 1
    assert len(list(kept.iterdir())) == 9 - len(deadly)
    again = Watched()
    assert counted(log, Remembered(again, kept)) == counted(log, ThisProcess())
    assert len(again.names) == 9 + len(deadly)


def test_what_is_kept_is_data_and_other_code_is_other_data(log, tmp_path, monkeypatch):
    kept = tmp_path / "kept"
    counted(log, Remembered(ThisProcess(), kept))
    for path in kept.iterdir():
        with np.load(path, allow_pickle=False) as archive:
            assert all(archive[name].dtype.kind in "biuf" for name in archive.files)
    monkeypatch.setattr(remembered, "digest_of_the_code", lambda: "other")
    other = Watched()
    counted(log, Remembered(other, kept))
    assert len(other.names) == 18


def test_nothing_but_values_of_ours_is_read_back():
    scan = (
        Seam((np.arange(2), np.ones(1)), (np.float64(0.5), None)),
        {"a": -np.inf, ("b", 1): [True]},
        slice(2),
    )
    again = read_back(*written(scan))
    assert type(again[0]) is Seam
    assert again[0].before[0].tolist() == [0, 1]
    assert again[0].after == (0.5, None)
    assert again[1:] == scan[1:]
    assert fingerprint(scan) == fingerprint(again) != fingerprint(scan[1:])
    for name in (
        "os:system",
        "unlatch.errors:EngineError",
        "unlatch.streams.source:LogFiles",
        "unlatch:learn_pomdp",
    ):
        with pytest.raises(DataError, match="no class of values"):
            read_back({"class": name, "fields": {}}, {})
    with pytest.raises(DataError, match="not what a value"):
        read_back({"call": "x"}, {})
    with pytest.raises(TypeError, match="not written down"):
        written(LogFiles("x"))


def test_learning_with_a_checkpoint_is_learning(log, tmp_path):
    options = {"refine": None, "emission": "departure", "rng": 0}
    plain = learn_pomdp(log, **options)
    for _ in range(2):
        found = learn_pomdp(log, checkpoint=tmp_path / "kept", **options)
        assert np.array_equal(found.pomdp.transitions, plain.pomdp.transitions)
        assert found.log_likelihood == plain.log_likelihood
    with pytest.raises(UsageError, match="in memory"):
        learn_pomdp(LOG, checkpoint=tmp_path / "kept")
