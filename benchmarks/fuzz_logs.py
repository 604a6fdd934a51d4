"""Logs to be mutated, in every form that they are read from, and how they are read; `fuzz.py` runs it."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from fuzz import Format, mutated
from unlatch import domains, read_log, simulate, write_log
from unlatch.errors import UnlatchError


@cache
def log_bases(folder: Path) -> list[tuple[bytes, dict[str, Any]]]:
    """Logs with every kind of column, the forms that text can take, and how to read them."""
    tiger = simulate(domains.tiger(), 8, episodes=3, rng=0)
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


def try_text(path: Path, base: bytes, rng: random.Random) -> str:
    """With the options that its base needs, and now and then others."""
    usual = next((usual for data, usual in log_bases(path.parent) if data == base), {})
    return try_log(path, read_options(usual, rng) if rng.random() < 0.5 else usual)


def try_table(path: Path, base: bytes, rng: random.Random) -> str:
    return try_log(path, {})


def try_log(path: Path, options: dict[str, Any]) -> str:
    try:
        log = read_log(path, **options)
    except UnlatchError as error:
        return type(error).__name__
    if len(log) == 0 or log.actions.min() < 0 or log.actions.max() >= len(log.action_names):
        raise AssertionError(f"a log of no form: {log}")
    return "read"


def _of_ending(ending: str, folder: Path) -> list[bytes]:
    return [data for kind, data in table_bases(folder) if kind == ending]


LOGS = {
    "csv": Format(".csv", lambda folder: [data for data, _ in log_bases(folder)], mutated, try_text),
    **{
        name: Format(ending, partial(_of_ending, ending), mutated, try_table)
        for name, ending in {
            "parquet": ".parquet",
            "feather": ".feather",
            "log-npz": ".npz",
            "npy": ".npy",
            "csv-gz": ".csv.gz",
            "csv-zst": ".csv.zst",
        }.items()
    },
}
"""By name; the NPZ archives of models have the shorter one."""
