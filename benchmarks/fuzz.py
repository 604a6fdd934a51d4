"""Mutated logs and models: every file is read, or refused with a declared error, and nothing else happens.

    python benchmarks/fuzz.py                    100,000 files, half of them CSV, half JSON
    python benchmarks/fuzz.py --tables           as many logs as Parquet, Feather, NPZ, NPY, and compressed text
    python benchmarks/fuzz.py --bits             all single-bit flips of three saved models
    python benchmarks/fuzz.py --only 4711        one of the files again, with its traceback

A CSV file is read with options drawn at random. Of the JSON files half have a right checksum in spite of the mutation,
so that they get past it. A model that loads must be saved, and be the same when loaded again. A fault is an exception
that is not declared, a model that does not come back, a file that takes more than two seconds, or a process that grows
beyond 512 MB; the file is kept beside the report and the exit code is 1.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from unlatch import (
    Diagnostics,
    Partition,
    SavedModel,
    domains,
    load_model,
    read_log,
    save_model,
    simulate,
    write_log,
)
from unlatch.core.evidence import Evidence
from unlatch.errors import ModelFileError, UnlatchError
from unlatch.files import strict_json

SLOW = 2.0
LARGE = 512.0
ADDRESSES = 8 << 30
"""Bytes that a process may ask for while it reads tables; most of what it asks for it never touches."""

TOKENS = (
    b"", b"\0", b'"', b'""', b"'", b",", b";", b"\t", b"\n", b"\r", b"\r\n", b"\n\n",
    b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", "é".encode(), "e\u0301".encode(), "\u202e".encode(), b"\x1b[31m",
    b"nan", b"NaN", b"-Infinity", b"inf", b"1e999", b"-1e-999", b"9" * 400, b"9" * 5000, b"-1", b"0.1", b"01",
    b"null", b"true", b"[]", b"{}", b"[" * 150, b'{"a":' * 150, b"[]," * 5000, b'{"":0},' * 2000,
    b'"\\ud800"', b'"\\u0000"', b"x" * 300, b"x" * 5000, b"a,b,c,d,e,f,g\n", b"action,observation\n", b"=1+1",
    b"PK\x03\x04", b"\x80\x04",
)  # fmt: skip
"""What parsers stumble over."""

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 0.5, -0.0, 1e308, -1e-300, 2**53 + 1, 10**18, 10**30, 10**400,
    "", "x", "inf", "nan", "é", "x" * 300, "departure", "arrival", [], {}, [[]], [{}], [None], [0, 1], ["a", "b"],
    [[0.5, 0.5]], [[[1.0]]], [1, [2]], [0.25, 0.75], {"a": 1}, {"": None},
)  # fmt: skip
"""What a field of a model may be instead."""


@dataclass
class Report:
    """What became of the files."""

    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slowest: tuple[float, str] = (0.0, "none")

    def add(self, name: str, outcome: str, seconds: float) -> None:
        self.outcomes[outcome] += 1
        self.slowest = max(self.slowest, (seconds, name))


# --- what is mutated -------------------------------------------------------------------------------------


def model_bases(folder: Path) -> list[bytes]:
    """Three saved models with all that a file can hold."""
    evidence = Evidence(2, {1: -80.5, 2: 0.0, 3: -7.25}, 3, 7.25, 2000, None)
    tiger, line = domains.tiger(), domains.sense_float_reset(3)
    saved = (
        SavedModel(
            pomdp=tiger,
            partition=Partition([0, 1]),
            evidence=evidence,
            log_likelihood=-1234.5,
            options={"states": None, "emission": "departure", "draws": 30},
            diagnostics=Diagnostics().noting("clipped", "a bit", by=1e-3, where=[0, 1]),
            provenance={"log": {"steps": 2000, "episodes": 1}, "seed": 0},
        ),
        SavedModel(psr=tiger.to_psr()),
        SavedModel(
            pomdp=line, psr=line.to_psr(), extra={"future": {"a": [1, 2]}, "pomdp": {"discount": 0.95}}
        ),
    )
    return [_bytes_of(folder / "base.json", lambda path, one=one: save_model(path, one)) for one in saved]


def log_bases(folder: Path) -> list[tuple[bytes, dict[str, Any]]]:
    """Logs with every kind of column, the forms that text can take, and how to read them."""
    tiger = simulate(domains.tiger(), 60, episodes=3, rng=0)
    written = _bytes_of(folder / "base.csv", lambda path: write_log(path, tiger))
    rows = [b"action,observation,reward,episode,probability"]
    rows += [b"%d,o%d,%d.5,%d,0.%d" % (i % 3, i % 2, i % 4, i // 20, 1 + i % 9) for i in range(60)]
    quoted = b'observation,action\n"a,b","x ""y"""\nplain,other\n' + b'"a,b",other\n' * 10
    return [
        (written, {}),
        (b"\n".join(rows) + b"\n", {}),
        (quoted, {}),
        (written.replace(b"\n", b"\r\n"), {"missing": "split"}),
        (written.replace(b",", b";"), {"delimiter": ";"}),
        (written.decode().encode("utf-16"), {"encoding": "utf-16"}),
        (b"left,wall\nright,door\n" * 20, {"header": False}),
    ]


def table_bases(folder: Path) -> list[tuple[str, bytes]]:
    """Logs as tables of every other kind: those that we write, and those of others."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet as pq

    tiger = simulate(domains.tiger(), 60, episodes=3, rng=0)
    lake = simulate(domains.frozen_lake(), 20, total=60, rng=0)
    bases = [
        (ending, _bytes_of(folder / f"base{ending}", lambda path, log=log: write_log(path, log)))
        for ending in (".parquet", ".npz", ".csv.gz")
        for log in (tiger, lake)
    ]
    text = _bytes_of(folder / "base.csv", lambda path: write_log(path, lake))
    bases.append((".csv.zst", pa.compress(text, "zstd", asbytes=True)))
    columns = {
        "action": [f"a{i % 3}" for i in range(60)],
        "observation": [i % 5 for i in range(60)],
        "reward": [i / 4 for i in range(60)],
        "episode": [i // 20 for i in range(60)],
        "terminated": [i % 20 == 19 for i in range(60)],
    }
    table = pa.table(columns)
    for compression in ("uncompressed", "lz4", "zstd"):
        write = partial(pyarrow.feather.write_feather, table, compression=compression)
        bases.append((".feather", _bytes_of(folder / "base.feather", write)))
    for options in ({}, {"compression": "none", "use_dictionary": False}, {"data_page_version": "2.0"}):
        bases.append(
            (".parquet", _bytes_of(folder / "base.parquet", partial(_write_table, pq, table, options)))
        )
    rows = np.zeros(60, dtype=[("action", "U3"), ("observation", "<i4"), ("reward", "<f8")])
    rows["action"], rows["observation"] = columns["action"], columns["observation"]
    for array in (
        rows,
        np.asfortranarray(np.arange(180).reshape(60, 3) % 7),
        np.arange(180).reshape(60, 3) % 7.0,
    ):
        bases.append((".npy", _bytes_of(folder / "base.npy", lambda path, array=array: np.save(path, array))))
    bases.append((".npz", _bytes_of(folder / "base.npz", lambda path: np.savez(path, **columns))))
    return bases


def _write_table(pq: Any, table: Any, options: dict[str, Any], path: Path) -> None:
    pq.write_table(table, path, **options)


def _bytes_of(path: Path, write: Callable[[Path], None]) -> bytes:
    write(path)
    return path.read_bytes()


# --- mutations -------------------------------------------------------------------------------------------


def mutated(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """One to a few changes of the bytes."""
    for _ in range(rng.choice((1, 1, 1, 2, 4, 8))):
        at, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        near = min(at + rng.choice((1, 2, 8, 40)), len(data))
        kind = rng.randrange(8)
        if kind == 0 and data:
            flipped = bytearray(data)
            flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            data = bytes(flipped)
        elif kind == 1:
            data = data[:at] + data[near:]
        elif kind == 2:
            data = data[:at] + rng.choice(TOKENS) + data[at:]
        elif kind == 3:
            data = data[:at] + rng.choice(TOKENS) + data[near:]
        elif kind == 4:
            data = data[:at] + data[at:near] * rng.choice((2, 3, 50)) + data[near:]
        elif kind == 5:
            data = data[:at] + rng.randbytes(rng.choice((1, 4, 16))) + data[at:]
        elif kind == 6:
            data = data[: rng.choice((at, end, len(data) - 1))]
        else:
            other = rng.choice(others)
            cut = rng.randrange(len(other) + 1)
            data = data[:at] + other[cut : cut + (end - at)] + data[end:]
    return data


def edited(data: bytes, rng: random.Random) -> bytes:
    """A model with some of its fields exchanged, dropped or added, and a checksum that fits or is waived."""
    content = json.loads(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        _edit(content, rng)
    content.pop("sha256", None)
    try:
        sealed = hashlib.sha256(strict_json.canonical(content)).hexdigest()
    except (ValueError, RecursionError):
        sealed = None
    content["sha256"] = sealed if rng.random() < 0.7 else None
    sys.set_int_max_str_digits(0)
    text = json.dumps(content)
    sys.set_int_max_str_digits(4300)
    return text.encode()


def _edit(content: dict[str, Any], rng: random.Random) -> None:
    """Walk down at random, then change what is there."""
    place: Any = content
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = rng.choice(keys)
        inner = place[key]
        if isinstance(inner, dict | list) and inner and rng.random() < 0.75:
            place = inner
            continue
        break
    kind = rng.randrange(5)
    if kind == 0:
        del place[key]
    elif kind == 1 and isinstance(place, dict):
        place[rng.choice(("new", "", "pomdp", "psr", "é", "sha256"))] = deepcopy(rng.choice(VALUES))
    elif kind == 2 and isinstance(place, list):
        place.append(deepcopy(rng.choice((*VALUES, inner))))
    elif kind == 3 and isinstance(inner, float):
        place[key] = inner + rng.choice((1e-17, 1e-9, 1e-6, 1e-3, -1, -inner))
    else:
        place[key] = _nested(rng) if rng.random() < 0.03 else deepcopy(rng.choice(VALUES))


def _nested(rng: random.Random) -> Any:
    value: Any = []
    for _ in range(rng.choice((50, 90, 99, 101, 300))):
        value = [value] if rng.random() < 0.5 else {"a": value}
    return value


# --- reading ---------------------------------------------------------------------------------------------


def read_options(usual: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Options of `read_log`: those that fit, and now and then others."""
    others = {
        "header": (True, True, True, False),
        "delimiter": (",", ",", ",", ";", "\\t"),
        "encoding": ("utf-8", "utf-8", "utf-8", "latin-1", "utf-16", "cp1252"),
        "missing": ("refuse", "split"),
        "strict": (False, True),
        "reward": ("reward", "reward", None, "observation2"),
    }
    return {**usual, **{name: rng.choice(values) for name, values in others.items() if rng.random() < 0.1}}


def try_log(path: Path, options: dict[str, Any]) -> str:
    kind = path.name.partition(".")[2]
    try:
        log = read_log(path, **options)
    except UnlatchError as error:
        return f"{kind}: {type(error).__name__}"
    if len(log) == 0 or log.actions.min() < 0 or log.actions.max() >= len(log.action_names):
        raise AssertionError(f"a log of no form: {log}")
    return f"{kind}: read"


def try_model(path: Path) -> str:
    try:
        first = load_model(path)
    except UnlatchError as error:
        return f"json: {type(error).__name__}"
    save_model(path, first)
    second = load_model(path)
    if (first.pomdp, first.psr, first.partition, first.evidence) != (
        second.pomdp,
        second.psr,
        second.partition,
        second.evidence,
    ):
        raise AssertionError("the model does not come back")
    return "json: read"


def run(files: int, seed: int, folder: Path, keep: Path, only: int | None) -> Report:
    """Make and read the files one by one."""
    logs, models = log_bases(folder), model_bases(folder)
    for number, (data, usual) in enumerate(
        logs
    ):  # compiles what reads a log, which is not the fault of a file
        (folder / f"base-{number}.csv").write_bytes(data)
        read_log(folder / f"base-{number}.csv", **usual)
    report = Report()
    for number in range(files) if only is None else (only,):
        rng = random.Random(f"{seed}:{number}")
        if number % 2:
            base, usual = rng.choice(logs)
            name, data = f"{number}.csv", mutated(base, rng, [base for base, _ in logs])
            attempt = partial(try_log, options=read_options(usual, rng))
        else:
            base = rng.choice(models)
            data = edited(base, rng) if rng.random() < 0.5 else mutated(base, rng, models)
            name, attempt = f"{number}.json", try_model
        add_file(report, folder / name, data, attempt, keep)
    return report


def run_tables(files: int, seed: int, folder: Path, keep: Path, only: int | None) -> Report:
    """The same for logs that are not text. What a file declares may be huge: no process gets that much."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    bases = table_bases(folder)
    for number, (ending, data) in enumerate(bases):
        path = folder / f"base-{number}{ending}"
        path.write_bytes(data)
        read_log(path)
    report = Report()
    for number in range(files) if only is None else (only,):
        rng = random.Random(f"tables:{seed}:{number}")
        ending, base = rng.choice(bases)
        data = mutated(base, rng, [other for kind, other in bases if kind == ending])
        add_file(report, folder / f"{number}{ending}", data, partial(try_log, options={}), keep)
    return report


def add_file(report: Report, path: Path, data: bytes, attempt: Callable[[Path], str], keep: Path) -> None:
    """Write a file, read it, and note what came of it."""
    path.write_bytes(data)
    begun = time.perf_counter()
    try:
        outcome = attempt(path)
    except Exception as error:
        outcome = f"FAULT: {type(error).__name__}"
        _keep(report, keep, path.name, data, traceback.format_exc())
    seconds = time.perf_counter() - begun
    if seconds > SLOW:
        _keep(report, keep, path.name, data, f"took {seconds:.1f} s")
    report.add(path.name, outcome, seconds)
    path.unlink()


def _keep(report: Report, keep: Path, name: str, data: bytes, what: str) -> None:
    keep.mkdir(parents=True, exist_ok=True)
    (keep / name).write_bytes(data)
    report.faults.append(f"{keep / name}: {what}")


def run_bits(folder: Path, keep: Path, stride: int) -> Report:
    """Every single-bit flip (or every ``stride``-th) is refused, or the model is the same."""
    report = Report()
    path = folder / "flipped.json"
    for number, data in enumerate(model_bases(folder)):
        path.write_bytes(data)
        expected = load_model(path)
        for bit in range(0, 8 * len(data), stride):
            flipped = bytearray(data)
            flipped[bit // 8] ^= 1 << bit % 8
            path.write_bytes(flipped)
            begun = time.perf_counter()
            try:
                outcome = "harmless" if load_model(path) == expected else "FAULT: another model"
            except ModelFileError:
                outcome = "noticed"
            except Exception as error:
                outcome = f"FAULT: {type(error).__name__}"
            if outcome.startswith("FAULT"):
                _keep(report, keep, f"model-{number}-bit-{bit}.json", bytes(flipped), outcome)
            report.add(f"model {number}, bit {bit}", outcome, time.perf_counter() - begun)
    return report


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="the number of one file")
    parser.add_argument("--tables", action="store_true", help="logs that are not text")
    parser.add_argument("--bits", action="store_true", help="flip bits instead")
    parser.add_argument("--stride", type=int, default=1, help="flip every so many bits")
    parser.add_argument("--keep", type=Path, default=Path("out/fuzz"), help="where files with faults go")
    arguments = parser.parse_args()
    warnings.simplefilter("error")
    warm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=warm if warm.is_dir() else None) as name:
        folder = Path(name)
        begun = time.perf_counter()
        if arguments.bits:
            report = run_bits(folder, arguments.keep, arguments.stride)
        elif arguments.tables:
            report = run_tables(arguments.files, arguments.seed, folder, arguments.keep, arguments.only)
        else:
            report = run(arguments.files, arguments.seed, folder, arguments.keep, arguments.only)
        seconds = time.perf_counter() - begun
    return told(report, seconds)


def peak_megabytes() -> float:
    """The most memory that this program has had; getrusage would count what its parent had when it began."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def told(report: Report, seconds: float) -> int:
    """Print the report; 1 if there was a fault."""
    for outcome, count in sorted(report.outcomes.items()):
        print(f"{count:9d}  {outcome}")
    megabytes = peak_megabytes()
    slowest, name = report.slowest
    print(f"{sum(report.outcomes.values())} files in {seconds:.0f} s, peak {megabytes:.0f} MB")
    print(f"slowest: {name}, {slowest:.2f} s")
    if megabytes > LARGE:
        report.faults.append(f"the process grew to {megabytes:.0f} MB")
    for fault in report.faults[:10]:
        print(f"FAULT {fault}")
    print(f"{len(report.faults)} faults")
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
