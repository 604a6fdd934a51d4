"""Mutated model and policy files of every format: each is read, or refused with a declared error, and nothing else.

    python benchmarks/fuzz_models.py                            20,000 files of each format
    python benchmarks/fuzz_models.py --formats pomdp npz --files 1000000
    python benchmarks/fuzz_models.py --formats pomdp --only 4711    one of the files again

Of the NPZ files half have a right checksum in spite of the mutation, so that they get past it. A problem that is read
must be written, and be the same when read again. What counts as a fault is told in ``fuzz.py``.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import random
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fuzz import Report, add_file, edited, mutated, told
from unlatch import (
    POMDP,
    AlphaVectors,
    Problem,
    Reward,
    domains,
    load_model,
    load_policy,
    load_problem,
    save_policy,
    save_problem,
)
from unlatch.errors import UnlatchError
from unlatch.files import strict_json

WORDS = (
    b"T", b"O", b"R", b"T: ", b"R: * : * : * : * ", b"start", b"start include:", b"uniform", b"identity",
    b"reset", b"*", b":", b"-", b"+ 1", b"cost", b"states: 3\n", b"states: 99999999\n", b"actions: 0\n",
    b"discount: 1\n", b"1e-5", b".5", b"0.333333", b"\xd9\xa3", b"\xc2\xb2", b"1_0",
    b"# unlatch-names: {}\n", b'# unlatch-names: {"states": {}}\n', b"<Entry>", b"</Entry>",
    b"<Instance>- -</Instance>", b"<!DOCTYPE x [<!ENTITY a 'b'>]>", b"&lt;", b"&x;", b"<!--", b"-->",
    b"<NumValues>99999</NumValues>", b"nan", b"inf", b"9" * 400, b"0 " * 3000, b"(" * 200, b"\r",
    b"\xef\xbb\xbf",
)  # fmt: skip
"""What the readers look for, and what they must not take."""

GRAMMAR = b"""discount: 0.95
values: cost
states: left right end
actions: listen open
observations: 2
start include: left right
T: listen identity
T: open : * uniform
T : open : end reset
T: * : end : end 1
T: * : end : left 0
T: * : end : right 0
O: * : left 0.85 0.15
O: * : right : 0 0.15   # a comment
O: * : right : 1 0.85
O: * : 2 uniform
R: * : * : * : * 1
R: open : left : * : 1 -100
R: open : right : end
3 4
"""


def bases(folder: Path) -> dict[str, list[bytes]]:
    """Files of every format, small, with all that each can hold."""
    lake = domains.frozen_lake(lake=["SFF", "HFG"], observe="column")
    rng = np.random.default_rng(0)
    arrival = POMDP(
        rng.dirichlet(np.ones(3), size=(2, 3)),
        rng.dirichlet(np.ones(2), size=(2, 3)),
        [0.5, 0.5, 0],
        "arrival",
    )
    problems = (
        Problem(domains.tiger()),
        Problem(lake, discount=1.0),
        Problem(arrival, Reward.on_transitions(rng.normal(size=(2, 3, 3, 2)))),
    )
    found: dict[str, list[bytes]] = {}
    for ending in ("pomdp", "pomdpx", "json", "npz"):
        path = folder / f"base.{ending}"
        for problem in problems:
            save_problem(path, problem)
            found.setdefault(ending, []).append(path.read_bytes())
    found["pomdp"].append(GRAMMAR)
    plans = AlphaVectors(rng.normal(size=(3, 2)), [0, 1, 0])
    for ending in ("alpha", "policyx"):
        save_policy(folder / f"base.{ending}", plans)
        found[ending] = [(folder / f"base.{ending}").read_bytes()]
    return found


def changed(kind: str, data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """A mutated file."""
    if kind == "json" and rng.random() < 0.5:
        return edited(data, rng)
    if kind == "npz" and rng.random() < 0.5:
        return resealed(data, rng)
    if rng.random() < 0.4:
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((0, 0, 1, 5, 20)))
        return data[:at] + rng.choice(WORDS) + data[end:]
    return mutated(data, rng, others)


def resealed(data: bytes, rng: random.Random) -> bytes:
    """Members changed, or their content, with checksums that fit wherever one can be made."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    name = rng.choice(list(members))
    if name == "content.json" or rng.random() < 0.3:
        members["content.json"] = edited(members["content.json"], rng)
    elif rng.random() < 0.2:
        del members[name]
    else:
        members[name] = mutated(members[name], rng, list(members.values()))
    _seal(members)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for own, content in members.items():
            archive.writestr(zipfile.ZipInfo(own), content)
    return stream.getvalue()


def _seal(members: dict[str, bytes]) -> None:
    try:
        content = json.loads(members["content.json"])
        content.pop("sha256", None)
        digest = hashlib.sha256(strict_json.canonical(content))
        for name in sorted(members):
            if name.endswith(".npy"):
                array = np.lib.format.read_array(io.BytesIO(members[name]), allow_pickle=False)
                digest.update(json.dumps([name[:-4], *array.shape]).encode())
                digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
        content["sha256"] = digest.hexdigest()
        members["content.json"] = json.dumps(content).encode()
    except Exception:  # then it stays as it is, and the checksum is wrong
        return


def try_problem(path: Path) -> str:
    kind = path.suffix[1:]
    try:
        first = load_problem(path)
    except UnlatchError as error:
        return f"{kind}: {type(error).__name__}"
    again = path.with_name(f"again.{kind}")
    save_problem(again, first)
    second = load_problem(again)
    again.unlink()
    same = first.model == second.model and first.discount == second.discount
    if not same or not np.array_equal(_table(first), _table(second)):
        raise AssertionError("the problem does not come back")
    return f"{kind}: read"


def _table(problem: Problem) -> np.ndarray:
    return problem.reward_table if isinstance(problem.model, POMDP) else np.zeros(1)


def try_policy(path: Path) -> str:
    try:
        first = load_policy(path)
    except UnlatchError as error:
        return f"{path.suffix[1:]}: {type(error).__name__}"
    save_policy(path, first)
    if load_policy(path) != first:
        raise AssertionError("the policy does not come back")
    return f"{path.suffix[1:]}: read"


ATTEMPTS: dict[str, Callable[[Path], str]] = {
    **dict.fromkeys(("pomdp", "pomdpx", "json", "npz"), try_problem),
    **dict.fromkeys(("alpha", "policyx"), try_policy),
}


def run(kinds: list[str], files: int, seed: int, folder: Path, keep: Path, only: int | None) -> Report:
    """Make and read the files one by one."""
    report, found = Report(), bases(folder)
    for kind in kinds:
        for number in range(files) if only is None else (only,):
            rng = random.Random(f"{seed}:{kind}:{number}")
            data = changed(kind, rng.choice(found[kind]), rng, found[kind])
            add_file(report, folder / f"{number}.{kind}", data, ATTEMPTS[kind], keep)
    return report


def run_bits(kinds: list[str], folder: Path, stride: int) -> Report:
    """Every single-bit flip (or every ``stride``-th) of our own files is refused, or the model is the same."""
    report = Report()
    for kind in kinds:
        for number, data in enumerate(bases(folder)[kind]):
            path = folder / f"flipped.{kind}"
            path.write_bytes(data)
            expected = load_model(path)
            for bit in range(0, 8 * len(data), stride):
                flipped = bytearray(data)
                flipped[bit // 8] ^= 1 << bit % 8
                path.write_bytes(flipped)
                begun = time.perf_counter()
                try:
                    outcome = "harmless" if load_model(path) == expected else "FAULT: another model"
                except UnlatchError:
                    outcome = "noticed"
                if outcome.startswith("FAULT"):
                    report.faults.append(f"{kind} {number}, bit {bit}: {outcome}")
                report.add(f"{kind} {number}, bit {bit}", f"{kind}: {outcome}", time.perf_counter() - begun)
    return report


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--formats", nargs="+", choices=list(ATTEMPTS), default=list(ATTEMPTS))
    parser.add_argument("--files", type=int, default=20_000, help="of each format")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="the number of one file")
    parser.add_argument("--bits", action="store_true", help="flip bits of our own formats instead")
    parser.add_argument("--stride", type=int, default=1, help="flip every so many bits")
    parser.add_argument("--keep", type=Path, default=Path("out/fuzz"), help="where files with faults go")
    arguments = parser.parse_args()
    warnings.simplefilter("error")
    warm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=warm if warm.is_dir() else None) as name:
        begun = time.perf_counter()
        if arguments.bits:
            ours = [kind for kind in arguments.formats if kind in ("json", "npz")]
            report = run_bits(ours, Path(name), arguments.stride)
        else:
            report = run(
                arguments.formats, arguments.files, arguments.seed, Path(name), arguments.keep, arguments.only
            )
        seconds = time.perf_counter() - begun
    return told(report, seconds)


if __name__ == "__main__":
    sys.exit(main())
