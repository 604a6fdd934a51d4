"""The engine that Dask runs: the same counts, also while workers die; poison and lost schedulers are told."""

from __future__ import annotations

import os
import signal
import threading
import time
import urllib.error
import urllib.request

import numpy as np
import pytest

from unlatch import domains, simulate, write_log
from unlatch.engines.dask import DaskEngine, refuse_open_address
from unlatch.engines.engine import engine_of
from unlatch.engines.remembered import Remembered
from unlatch.errors import EngineError, UsageError
from unlatch.streams import source
from unlatch.streams.source import LogFiles
from unlatch.streams.streamed import StreamedLog
from unlatch.study.jobs.runner import collect_rows, run_units
from unlatch.study.jobs.units import Finding, Study, Unit

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


def square(parameters, seed):
    return Finding([{"number": parameters["number"] ** 2, "drawn": int(seed.generate_state(1)[0])}])


def test_units_of_a_study_are_run_by_a_cluster(engine, tmp_path):
    study = Study("squares", [Unit(f"square-{i}", square, {"number": i}) for i in range(3)])
    assert run_units(study, tmp_path / "there", engine=engine).run_here == 3
    run_units(study, tmp_path / "here")
    assert collect_rows(study, tmp_path / "there") == collect_rows(study, tmp_path / "here")


def test_a_poison_block_is_named(engine):
    blocks = [_Named("fine"), _Named("poison")]
    results = engine.each(deadly, blocks, [(0,), (1,)])
    assert next(results) == 0
    with pytest.raises(EngineError, match="poison: every worker") as caught:
        next(results)
    assert caught.value.block == "poison"


def unlucky(block, tries):
    """Dies the first few times."""
    with open(block.name, "a+") as deaths:
        deaths.write("x")
        deaths.flush()
        if deaths.tell() <= tries:
            os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def test_a_block_that_was_only_unlucky_is_done(engine, tmp_path):
    blocks = [_Named(str(tmp_path / name)) for name in ("fine", "unlucky")]
    assert list(engine.each(unlucky, blocks, [(0,), (4,)])) == ["done", "done"]
    assert (tmp_path / "unlucky").read_text() == "xxxxx"


def test_after_a_lost_scheduler_the_run_goes_on_where_it_was(path, tmp_path):
    expected = StreamedLog(LogFiles(path), engine_of(None)).count(3, 2)
    lost = DaskEngine.here(1, silence=2.0)
    stream = StreamedLog(LogFiles(path), Remembered(lost, tmp_path / "kept"))
    stream.whole  # noqa: B018
    done = len(list((tmp_path / "kept").iterdir()))
    lost.cluster.close(timeout=10)
    with pytest.raises(EngineError, match=r"gone.*checkpoint"):
        stream.count(3, 2)
    assert done == len(list((tmp_path / "kept").iterdir())) == 10
    there = DaskEngine.here(1)
    try:
        assert_same(StreamedLog(LogFiles(path), Remembered(there, tmp_path / "kept")).count(3, 2), expected)
    finally:
        there.close()


def test_a_cluster_of_ours_is_for_this_machine_and_shows_no_pages(engine):
    psutil = pytest.importorskip("psutil")
    mine = psutil.Process()
    listening = [
        connection.laddr
        for process in (mine, *mine.children(recursive=True))
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert len(listening) >= 3
    assert {address.ip for address in listening} == {"127.0.0.1"}
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(engine.cluster.dashboard_link, timeout=5)
    assert "stealing" not in engine.cluster.scheduler.extensions


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
