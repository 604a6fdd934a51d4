"""Logs of any size: what counting, passes and learning take in time and memory, and that nothing depends on the way.

python benchmarks/streams.py write FOLDER --steps 1e9       T-Maze of 4 states as Parquet, in parts of 1e7 steps
python benchmarks/streams.py counting FOLDER                time against a bare read, peak memory, parts merged
python benchmarks/streams.py likelihood FOLDER              one pass against a bare read
python benchmarks/streams.py spectral FOLDER                spectral learning, time and peak memory
python benchmarks/streams.py learn FOLDER                   search, climb, intervals; errors, Cramer-Rao bound
python benchmarks/streams.py workers FOLDER                 counting by 1 and by 2 processes: what a second one is worth
python benchmarks/streams.py dask FOLDER                    the same counts and model by 2 and 4 workers
python benchmarks/streams.py kills FOLDER --times 100       counting while workers are killed at random moments
python benchmarks/streams.py ways                           one model from any chunks, files, formats
python benchmarks/streams.py going-on                       more steps for a model: time, likelihood, drift

``--parts 1`` takes one file of a folder, after ``--skip``, and so on: a folder of 1e9 steps is enough for all. Results
are in docs/cluster.md.
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
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import unlatch
from unlatch import domains
from unlatch.core.chunks import chunks_of
from unlatch.errors import UnlatchError
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
    parser.add_argument("--pause", type=float, default=2.0, help="seconds between two kills, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parts", type=int, help="so many files of the folder alone")
    parser.add_argument("--skip", type=int, default=0, help="files of the folder before these")
    parser.add_argument("--rooms", type=int, default=1, help="of the T-Maze: 1 has 4 states, 4 have 10")
    given = parser.parse_args()
    COMMANDS[given.what](given)


def write(given: Any) -> None:
    """One simulation after the other, each an episode in a file of its own."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    given.folder.mkdir(parents=True, exist_ok=True)
    model = domains.tmaze(given.rooms)
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


def files_of(given: Any) -> LogFiles:
    paths = sorted(given.folder.iterdir())[given.skip :]
    return LogFiles(paths[: given.parts])


def bare_read(files: LogFiles) -> float:
    """Seconds of CPU that pyarrow takes to read the columns on one thread and to look at none, as much at a time as our
    reader asks for."""
    import pyarrow.parquet as parquet

    begin = time.process_time()
    rows = 0
    for path in files.paths:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(
                batch_size=1 << 18, columns=["action", "observation"], use_threads=False
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


def against_read(what: str, files: LogFiles, work: Any) -> Any:
    """Time some work between two bare reads of the same files."""
    before = bare_read(files)
    begin = time.process_time()
    result = timed(what, work)
    took = time.process_time() - begin
    read = (before + bare_read(files)) / 2
    print(f"  ÷ bare read ({read:.1f} s of CPU): {took / read:.2f}", flush=True)
    return result


def counting(given: Any) -> None:
    files = files_of(given)
    count_chunks(chunks_of(unlatch.simulate(domains.tmaze(1), 1_000, rng=0), 500), **LENGTHS)  # compiled
    bare_read(files)  # all in the memory of the system from now on
    print(f"load {os.getloadavg()[0]:.1f}")
    rows = against_read("our reader alone", files, lambda: sum(len(chunk) for chunk in files.chunks()))
    print(f"  {rows:,} steps")
    for lengths in ({"history_length": 2, "test_length": 1}, LENGTHS):
        counts = against_read(
            f"counting {tuple(lengths.values())}",
            files,
            lambda lengths=lengths: count_chunks(files.chunks(), **lengths),
        )
        print(f"  {counts}", flush=True)
    tables = [count_chunks(iterate_log(path), **LENGTHS) for path in files.paths]
    begin = time.process_time()
    parts = merged_counts(tables)
    took = time.process_time() - begin
    print(f"merging {len(tables)} parts: {1e3 * took / len(tables):.1f} ms of CPU each")
    same = all(
        np.array_equal(a.codes, b.codes) and np.array_equal(a.totals, b.totals)
        for a, b in zip(parts.tables, counts.tables, strict=True)
    )
    print(f"equal to the parts merged: {same}")


def likelihood(given: Any) -> None:
    expectation(domains.tmaze(1), unlatch.simulate(domains.tmaze(1), 1 << 18, rng=0))  # compiled
    stream = opened(given)
    timed("scan", lambda: stream.whole)
    model = parameters_of(truth(stream, given))
    print(f"load {os.getloadavg()[0]:.1f}")
    for what, work in (
        ("a pass ahead", lambda: stream.log_likelihood(model, "departure")),
        ("a pass forth and back", lambda: stream.expected_counts(model, "departure").log_likelihood),
    ):
        height = against_read(what, stream.files, work)
        print(f"  {height:.1f} nats")


def opened(given: Any, engine: Any = None) -> StreamedLog:
    from unlatch.engines.engine import engine_of

    return StreamedLog(files_of(given), engine_of(engine))


def truth(stream: StreamedLog, given: Any) -> Any:
    """The T-Maze in the alphabets of the log."""
    model = domains.tmaze(given.rooms)
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
            return unlatch.learn_pomdp(files_of(given), refine=None, emission="departure", rng=0)
        except UnlatchError as error:
            return f"refused: {error}"

    result = timed("spectral learning", learned)
    print(result)
    if not isinstance(result, str):
        print_errors(result.pomdp, given, result.steps)


def print_errors(model: Any, given: Any, steps: int) -> None:
    """Beside those of an efficient learner."""
    system = domains.tmaze(given.rooms)
    if model.n_states != system.n_states:
        print(f"{model.n_states} states instead of {system.n_states}")
        return
    system = replace(system, symbol_rewards=None)
    order = [model.action_names.index(name) for name in system.action_names]
    shown = [model.observation_names.index(name) for name in system.observation_names]
    model = replace(
        model,
        transitions=model.transitions[order],
        observations=model.observations[order][:, :, shown],
        action_names=system.action_names,
        observation_names=system.observation_names,
        symbol_rewards=None,
    )
    bound = unlatch.cramer_rao_bound(system)
    for name, least in bound._asdict().items():
        error = getattr(unlatch, name)(model, system)
        print(f"{name} {error:.2e}, ÷ Cramer-Rao bound {error / (least / np.sqrt(steps)):.2f}", flush=True)


def learn(given: Any) -> None:
    """All of it; and how far a climb from the truth gets on the same log."""
    from unlatch.learn.likelihood.zeros import maximize

    result = timed("learning", lambda: unlatch.learn_pomdp(files_of(given), emission="departure", rng=0))
    print(result, result.evidence)
    for note in result.diagnostics:
        print(f"  {note.name}: {note.message}")
    intervals = timed("intervals", lambda: result.intervals(0.9))
    print(f"  {intervals}")
    print_errors(result.pomdp, given, result.steps)
    if result.steps > 1 << 20:
        stream = opened(given)
        best = timed(
            "climb from the truth",
            lambda: maximize(parameters_of(truth(stream, given)), stream.likelihood("departure")),
        )
        print(f"{result.log_likelihood - best.log_likelihood:+.1f} nats of the climb from the truth")


def same_counts(one: Any, other: Any) -> bool:
    return all(
        np.array_equal(a.codes, b.codes) and np.array_equal(a.counts, b.counts)
        for a, b in zip(one.tables, other.tables, strict=True)
    )


def workers(given: Any) -> None:
    """By the clock, from workers that have begun and compiled to the last count."""
    from unlatch.engines.dask import DaskEngine

    expected = opened(given).count(3, 2)
    seconds = {}
    for number in (1, 2):
        engine = DaskEngine.here(number)
        stream = StreamedLog(files_of(given), engine)
        stream.whole  # noqa: B018 - read once, so that all begin alike
        stream.count(3, 2)
        times = []
        for _ in range(3):
            begin = time.perf_counter()
            counts = stream.count(3, 2)
            times.append(time.perf_counter() - begin)
        seconds[number] = float(np.median(times))
        print(f"{number} workers: {seconds[number]:.2f} s, the same counts: {same_counts(counts, expected)}")
        engine.close()
    print(f"2 workers are {seconds[1] / seconds[2]:.2f} times as fast as 1")


def dask(given: Any) -> None:
    """Here and by a cluster: counts, and the model of the whole search."""
    import subprocess
    import sys

    from unlatch.engines.dask import DaskEngine
    from unlatch.engines.engine import engine_of

    options = {"emission": "departure", "states": domains.tmaze(given.rooms).n_states, "rng": 0}
    files = files_of(given)
    counts = StreamedLog(files, engine_of(None)).count(3, 2)
    model = timed("this process", lambda: unlatch.learn_pomdp(files, **options))

    def compare(what: str, engine: Any) -> None:
        same = same_counts(StreamedLog(files, engine).count(3, 2), counts)
        found = timed(what, lambda: unlatch.learn_pomdp(files, engine=engine, **options))
        equal = found.log_likelihood == model.log_likelihood and all(
            np.array_equal(getattr(found.pomdp, name), getattr(model.pomdp, name))
            for name in ("initial", "transitions", "observations")
        )
        print(f"  the same counts: {same}; the same model, bit for bit: {equal}", flush=True)

    for number in (2, 4):
        engine = DaskEngine.here(number)
        compare(f"{number} workers", engine)
        engine.close()
    address = "tcp://127.0.0.1:18786"
    program = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1"]
    others = [subprocess.Popen([*program, "--port", "18786", "--no-dashboard"], stderr=subprocess.DEVNULL)]
    program = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nworkers", "2"]
    others.append(
        subprocess.Popen([*program, "--nthreads", "1", "--no-dashboard"], stderr=subprocess.DEVNULL)
    )
    try:
        engine = engine_of("dask", scheduler=address)
        compare(f"by address, {address}", engine)
        engine.close()
    finally:
        for process in reversed(others):
            process.terminate()
            process.wait(30)


def kills(given: Any) -> None:
    """Counting, again and again, until so many workers have been killed while one of the counts was made."""
    from unlatch.engines.dask import DaskEngine

    engine = DaskEngine.here(2)
    stream = StreamedLog(files_of(given), engine)
    expected = opened(given).count(3, 2)
    stream.whole  # noqa: B018
    stop, killed = threading.Event(), [0]
    chance = random.Random(given.seed)

    def killer() -> None:
        while not stop.is_set() and killed[0] < given.times:
            time.sleep(chance.uniform(0, given.pause))
            there = set(engine.cluster.scheduler.workers)  # not those that have yet to begin
            processes = [
                worker.process.pid
                for worker in list(engine.cluster.workers.values())
                if worker.process and worker.worker_address in there
            ]
            if processes:
                try:
                    os.kill(chance.choice([p for p in processes if p]), signal.SIGKILL)
                    killed[0] += 1
                except (ProcessLookupError, IndexError):
                    continue

    thread = threading.Thread(target=killer, daemon=True)
    begin = time.perf_counter()
    thread.start()
    runs = wrong = 0
    longest = 0.0
    while killed[0] < given.times:
        started = time.perf_counter()
        counts = stream.count(3, 2)
        longest = max(longest, time.perf_counter() - started)
        runs += 1
        wrong += not same_counts(counts, expected)
        print(f"{killed[0]} killed, {runs} counts finished, {wrong} wrong", flush=True)
    stop.set()
    print(
        f"{killed[0]} workers killed in {time.perf_counter() - begin:.0f} s: {runs} counts finished, {wrong} wrong, "
        f"the longest took {longest:.0f} s; load {os.getloadavg()[0]:.1f}"
    )
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
    "dask": dask,
    "kills": kills,
    "ways": ways,
    "going-on": going_on,
}

if __name__ == "__main__":
    main()
