"""The engine that Dask runs: the same counts, also while workers die; poison and lost schedulers are told."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

from unlatch import domains, simulate, write_log
from unlatch.engines.dask import DaskEngine, refuse_open_address
from unlatch.engines.engine import engine_of
from unlatch.errors import EngineError, UsageError
from unlatch.streams import source
from unlatch.streams.source import LogFiles
from unlatch.streams.streamed import StreamedLog

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def engine():
    made = DaskEngine.here(2)
    yield made
    made.close()


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "BLOCK", 6_000)
    write_log(tmp_path / "log.parquet", simulate(domains.tmaze(1), 60_000, rng=0))
    return tmp_path / "log.parquet"


class _Named:
    def __init__(self, name):
        self.name = name


def deadly(block, number):
    if block.name == "poison":
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def slow(block, number):
    time.sleep(0.2)
    return number


def assert_same(one, other):
    for a, b in zip(one.tables, other.tables, strict=True):
        assert np.array_equal(a.codes, b.codes)
        assert np.array_equal(a.counts, b.counts)


def test_the_same_counts_while_workers_are_killed(engine, path):
    expected = StreamedLog(LogFiles(path), engine_of(None)).count(3, 2)
    assert_same(StreamedLog(LogFiles(path), engine_of(engine.client)).count(3, 2), expected)
    killed = []

    def killer():
        for _ in range(3):
            time.sleep(0.4)
            for info in engine.client.run(os.getpid).values():
                os.kill(info, signal.SIGKILL)
                killed.append(info)
                break

    thread = threading.Thread(target=killer, daemon=True)
    thread.start()
    for _ in range(3):
        assert_same(StreamedLog(LogFiles(path), engine).count(3, 2), expected)
    thread.join(30)


def test_a_poison_block_is_named(engine):
    blocks = [_Named("fine"), _Named("poison")]
    results = engine.each(deadly, blocks, [(0,), (1,)])
    assert next(results) == 0
    with pytest.raises(EngineError, match="poison: every worker") as caught:
        next(results)
    assert caught.value.block == "poison"


def test_a_lost_scheduler_is_told():
    engine = DaskEngine.here(1, silence=3.0)
    results = engine.each(slow, [_Named(f"b{i}") for i in range(50)], [(i,) for i in range(50)])
    assert next(results) == 0
    engine.cluster.close(timeout=10)
    with pytest.raises(EngineError, match="gone"):
        list(results)


@pytest.mark.parametrize("address", ["tcp://10.0.0.5:8786", "10.0.0.5:8786", "tcp://example.org:8786"])
def test_other_machines_need_encryption_or_consent(address):
    with pytest.raises(UsageError, match="without encryption"):
        refuse_open_address(address, insecure=False)
    refuse_open_address(address, insecure=True)
    refuse_open_address("tls://10.0.0.5:8786", insecure=False)
    refuse_open_address("tcp://127.0.0.1:8786", insecure=False)
    for wrong in ("http://127.0.0.1:80", "tcp://"):
        with pytest.raises(UsageError, match="no address"):
            refuse_open_address(wrong, insecure=False)
