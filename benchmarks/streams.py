"""Logs of any size: what counting, passes and learning take in time and memory, and that nothing depends on the way.

python benchmarks/streams.py write FOLDER --steps 1e9       T-Maze 4 as Parquet, in parts
python benchmarks/streams.py counting FOLDER                time against a bare read, peak memory
python benchmarks/streams.py likelihood FOLDER              one pass against a bare read
python benchmarks/streams.py spectral FOLDER                spectral learning, time and peak memory
python benchmarks/streams.py learn FOLDER                   search, climb and errors against the Cramer-Rao bound
python benchmarks/streams.py workers FOLDER                 counting by 1 and by 2 processes, and by Dask
python benchmarks/streams.py kills FOLDER --times 100       counting while workers are killed at random moments
python benchmarks/streams.py ways                           one model from any chunks, files, formats
python benchmarks/streams.py going-on                       more steps for a model: time, likelihood, drift
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import unlatch
from unlatch import domains
from unlatch.core.chunks import chunks_of
from unlatch.files.logs.read import iterate_log
from unlatch.learn.likelihood.forward_backward import expectation
from unlatch.learn.likelihood.parameters import parameters_of
from unlatch.learn.spectral.counting import count_chunks, merged_counts
from unlatch.streams.source import LogFiles
from unlatch.streams.streamed import StreamedLog

PART = 10_000_000
LENGTHS = {"history_length": 3, "test_length": 2}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what")
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--steps", type=float, default=1e7)
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    COMMANDS[given.what](given)


def write(given: Any) -> None:
    """One simulation after the other, each a part of one long episode but for the hidden state, which is carried on."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    given.folder.mkdir(parents=True, exist_ok=True)
    model = domains.tmaze(4)
    left, number = int(given.steps), 0
    while left > 0:
        steps = min(PART, left)
        log = unlatch.simulate(model, steps, rng=given.seed + number)
        table = pa.table(
            {
                "action": pa.DictionaryArray.from_arrays(
                    pa.array(log.actions.astype(np.int8)), list(log.action_names)
                ),
                "observation": pa.DictionaryArray.from_arrays(
                    pa.array(log.observations.astype(np.int8)), list(log.observation_names)
                ),
            }
        )
        parquet.write_table(table, given.folder / f"part-{number:04}.parquet", write_page_checksum=True)
        left, number = left - steps, number + 1
    size = sum(path.stat().st_size for path in given.folder.iterdir())
    print(f"{int(given.steps):,} steps in {number} files, {size / 1e6:.0f} MB")


def bare_read(files: LogFiles) -> float:
    """Seconds of CPU that pyarrow takes to read the columns on one thread and to look at none."""
    import pyarrow.parquet as parquet

    begin = time.process_time()
    rows = 0
    for path in files.paths:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(
                batch_size=1 << 16, columns=["action", "observation"], use_threads=False
            ):
                rows += len(batch)
    return time.process_time() - begin


def peak() -> float:
    """Megabytes that this process had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def timed(what: str, work: Any) -> Any:
    begin, used = time.perf_counter(), time.process_time()
    result = work()
    print(
        f"{what}: {time.perf_counter() - begin:.1f} s, {time.process_time() - used:.1f} s of CPU, peak {peak():.0f} MB",
        flush=True,
    )
    return result


def counting(given: Any) -> None:
    files = LogFiles(given.folder)
    count_chunks(chunks_of(unlatch.simulate(domains.tmaze(4), 1_000, rng=0), 500), **LENGTHS)  # compiled
    read = bare_read(files)
    print(f"bare read: {read:.1f} s of CPU, load {os.getloadavg()[0]:.1f}")
    begin = time.process_time()
    rows = sum(len(chunk) for chunk in files.chunks())
    print(
        f"our reader alone: {time.process_time() - begin:.1f} s of CPU, {rows:,} steps, peak {peak():.0f} MB",
        flush=True,
    )
    for lengths in ({"history_length": 2, "test_length": 1}, LENGTHS):
        begin = time.process_time()
        counts = timed(
            f"counting {tuple(lengths.values())}",
            lambda lengths=lengths: count_chunks(files.chunks(), **lengths),
        )
        print(
            f"counting ÷ bare read: {(time.process_time() - begin) / read:.2f} of CPU; {counts}", flush=True
        )
    parts = merged_counts(count_chunks(iterate_log(path), **LENGTHS) for path in files.paths)
    same = all(
        np.array_equal(a.codes, b.codes) and np.array_equal(a.totals, b.totals)
        for a, b in zip(parts.tables, counts.tables, strict=True)
    )
    print(f"equal to the parts merged: {same}")


def likelihood(given: Any) -> None:
    expectation(domains.tmaze(4), unlatch.simulate(domains.tmaze(4), 1 << 18, rng=0))  # compiled
    stream = opened(given)
    timed("scan", lambda: stream.whole)
    model = parameters_of(truth(stream))
    read = bare_read(stream.files)
    print(f"bare read: {read:.1f} s of CPU, load {os.getloadavg()[0]:.1f}")
    for what, work in (
        ("a pass ahead", lambda: stream.log_likelihood(model, "departure")),
        ("a pass forth and back", lambda: stream.expected_counts(model, "departure").log_likelihood),
    ):
        begin = time.process_time()
        height = timed(what, work)
        print(f"{what} ÷ bare read: {(time.process_time() - begin) / read:.2f} of CPU; {height:.1f} nats")


def opened(given: Any, engine: Any = None) -> StreamedLog:
    from unlatch.engines.engine import engine_of

    return StreamedLog(LogFiles(given.folder), engine_of(engine))


def truth(stream: StreamedLog) -> Any:
    """T-Maze 4 in the alphabets of the log."""
    from dataclasses import replace

    model = domains.tmaze(4)
    actions = [model.action_names.index(name) for name in stream.whole.action_names]
    shown = [model.observation_names.index(name) for name in stream.whole.observation_names]
    return replace(
        model,
        transitions=model.transitions[actions],
        observations=model.observations[actions][:, :, shown],
        action_names=stream.whole.action_names,
        observation_names=stream.whole.observation_names,
        symbol_rewards=None,
    )


def spectral(given: Any) -> None:
    def learned() -> Any:
        try:
            return unlatch.learn_pomdp(
                given.folder, refine=None, emission="departure", test_length=2, rng=0, rank=10
            )
        except unlatch.UnlatchError as error:
            return f"refused: {error}"

    print(timed("spectral learning", learned))


def learn(given: Any) -> None:
    """All of it; and how far a climb from the truth would get on the same log."""
    from unlatch.learn.likelihood.zeros import maximize

    result = timed("learning", lambda: unlatch.learn_pomdp(given.folder, emission="departure", rng=0))
    print(result, result.evidence, result.diagnostics)
    stream = opened(given)
    best = timed(
        "climb from the truth", lambda: maximize(parameters_of(truth(stream)), stream.likelihood("departure"))
    )
    print(f"{result.log_likelihood - best.log_likelihood:+.1f} nats of the climb from the truth")


def workers(given: Any) -> None:
    expected = None
    for engine in (None, 1, 2, "dask"):
        stream = opened(given, engine)
        stream.whole  # noqa: B018 - read once, so that all begin alike
        counts = timed(f"counting by {engine or 'this process'}", lambda stream=stream: stream.count(3, 2))
        expected = expected or counts
        same = all(
            np.array_equal(a.codes, b.codes) and np.array_equal(a.counts, b.counts)
            for a, b in zip(counts.tables, expected.tables, strict=True)
        )
        print(f"  the same counts: {same}")


def kills(given: Any) -> None:
    from unlatch.engines.dask import DaskEngine

    engine = DaskEngine.here(2)
    stream = StreamedLog(LogFiles(given.folder), engine)
    expected = opened(given).count(3, 2)
    stop, killed = threading.Event(), [0]

    def killer() -> None:
        while not stop.is_set() and killed[0] < given.times:
            time.sleep(random.uniform(0.2, 1.0))
            processes = [worker.process.pid for worker in engine.cluster.workers.values() if worker.process]
            if processes:
                try:
                    os.kill(random.choice([p for p in processes if p]), signal.SIGKILL)
                    killed[0] += 1
                except (ProcessLookupError, IndexError):
                    continue

    thread = threading.Thread(target=killer, daemon=True)
    thread.start()
    runs = wrong = 0
    begin = time.perf_counter()
    while killed[0] < given.times:
        counts = stream.count(3, 2)
        runs += 1
        wrong += not all(
            np.array_equal(a.codes, b.codes) and np.array_equal(a.counts, b.counts)
            for a, b in zip(counts.tables, expected.tables, strict=True)
        )
    stop.set()
    print(f"{killed[0]} workers killed in {runs} runs, {time.perf_counter() - begin:.0f} s: {wrong} wrong")
    engine.close()


def part(log: Any, start: int, stop: int) -> Any:
    return unlatch.Trajectory(
        log.actions[start:stop],
        log.observations[start:stop],
        log.action_names,
        log.observation_names,
        log.rewards[start:stop],
    )


def ways(given: Any) -> None:
    log = unlatch.simulate(domains.tmaze(2), 300_000, rng=1)
    found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for suffix in ("csv", "parquet", "npz"):
            unlatch.write_log(folder / f"log.{suffix}", log)
            for chunk in (1_000, 100_000, 300_000):
                counts = count_chunks(iterate_log(folder / f"log.{suffix}", chunk=chunk), **LENGTHS)
                found[suffix, chunk] = [(t.codes.tobytes(), t.counts.tobytes()) for t in counts.tables]
            found[suffix, "model"] = unlatch.learn_pomdp(
                folder / f"log.{suffix}", rng=0
            ).pomdp.transitions.tobytes()
        (folder / "parts").mkdir()
        for i in range(500):
            unlatch.write_log(folder / "parts" / f"{i}.csv", part(log, i * 600, (i + 1) * 600))
        counts = count_chunks(iterate_log(folder / "parts", continued=True), **LENGTHS)
        found["500 files", 0] = [(t.codes.tobytes(), t.counts.tobytes()) for t in counts.tables]
        files = LogFiles(folder / "parts", continued=True)
        found["500 files", "model"] = unlatch.learn_pomdp(files, rng=0).pomdp.transitions.tobytes()
    counted = {key: value for key, value in found.items() if key[1] != "model"}
    models = {value for key, value in found.items() if key[1] == "model"}
    print(
        f"{len(counted)} ways, {len({tuple(value) for value in counted.values()})} count; {len(models)} model"
    )


def going_on(given: Any) -> None:
    """More steps for a model, with and without a change of the system."""
    from dataclasses import replace

    from unlatch.learn.resume import joined_logs

    model = domains.tmaze(2)
    old, new = (
        unlatch.simulate(model, int(given.steps), rng=1),
        unlatch.simulate(model, int(given.steps) // 10, rng=2),
    )
    first = timed("learning", lambda: unlatch.learn_pomdp(old, rng=0))
    begin = time.process_time()
    whole = timed("learning from both", lambda: unlatch.learn_pomdp(joined_logs(old, new), rng=0))
    scratch = time.process_time() - begin
    begin = time.process_time()
    found = timed("going on", lambda: unlatch.resume(first, new))
    took = time.process_time() - begin
    print(
        f"going on ÷ from scratch: {took / scratch:.3f} of CPU; {found.log_likelihood - whole.log_likelihood:+.2f} nats"
    )
    learned = [unlatch.learn_pomdp(unlatch.simulate(model, 100_000, rng=10 + i), rng=0) for i in range(2)]
    alarms = sum(
        "changed" in unlatch.resume(learned[i % 2], unlatch.simulate(model, 10_000, rng=1000 + i)).diagnostics
        for i in range(40)
    )
    moved = model.transitions.copy()
    moved[0] = 0.95 * moved[0] + 0.05 / model.n_states
    other = replace(model, transitions=moved)
    told = 0
    for i in range(20):
        steps = unlatch.simulate(other, 10_000, rng=2000 + i)
        told += "changed" in unlatch.resume(learned[i % 2], steps, time_limit=20).diagnostics
    print(f"no change: {alarms} of 40 alarms; a change of 5 % of one action's moves: told in {told} of 20")


COMMANDS = {
    "write": write,
    "counting": counting,
    "likelihood": likelihood,
    "spectral": spectral,
    "learn": learn,
    "workers": workers,
    "kills": kills,
    "ways": ways,
    "going-on": going_on,
}

if __name__ == "__main__":
    main()
