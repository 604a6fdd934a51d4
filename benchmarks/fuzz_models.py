"""Models, problems and policies to be mutated, and how they are read; `fuzz.py` runs it.

Of the JSON and NPZ files half have a right checksum in spite of the mutation, so that they get past it.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import sys
import zipfile
from copy import deepcopy
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from fuzz import Format, mutated
from unlatch import (
    POMDP,
    AlphaVectors,
    Diagnostics,
    Partition,
    Problem,
    Reward,
    SavedModel,
    domains,
    load_model,
    load_policy,
    load_problem,
    save_model,
    save_policy,
    save_problem,
)
from unlatch.core.evidence import Evidence
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

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 0.5, -0.0, 1e308, -1e-300, 2**53 + 1, 10**18, 10**30, 10**400,
    "", "x", "inf", "nan", "é", "x" * 300, "departure", "arrival", [], {}, [[]], [{}], [None], [0, 1], ["a", "b"],
    [[0.5, 0.5]], [[[1.0]]], [1, [2]], [0.25, 0.75], {"a": 1}, {"": None},
)  # fmt: skip
"""What a field of a model may be instead."""


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
    return [_saved(folder / "base.json", one) for one in saved]


def _saved(path: Path, saved: SavedModel) -> bytes:
    save_model(path, saved)
    return path.read_bytes()


@cache
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
    short = POMDP([[[0.25, 0.75], [0, 1]]], [[[0.5, 0.5], [1, 0]]], [1, 0], "arrival")
    shortest = (
        Problem(domains.frozen_lake(lake=["SG"], observe="column")),
        Problem(short, Reward.on_transitions(rng.normal(size=(1, 2, 2, 2)))),
    )
    found: dict[str, list[bytes]] = {}
    for ending in ("pomdp", "pomdpx", "json", "npz"):
        path = folder / f"base.{ending}"
        for problem in shortest if ending == "pomdpx" else problems:  # an entry of POMDPX takes many words
            save_problem(path, problem)
            found.setdefault(ending, []).append(path.read_bytes())
    found["pomdp"].append(GRAMMAR)
    found["json"] += model_bases(folder)
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


def try_problem(path: Path, base: bytes, rng: random.Random) -> str:
    kind = path.suffix[1:]
    try:
        first = load_problem(path)
    except UnlatchError as error:
        return type(error).__name__
    again = path.with_name(f"again.{kind}")
    save_problem(again, first)
    second = load_problem(again)
    again.unlink()
    same = first.model == second.model and first.discount == second.discount
    if not same or not np.array_equal(_table(first), _table(second)):
        raise AssertionError("the problem does not come back")
    return "read"


def _table(problem: Problem) -> np.ndarray:
    return problem.reward_table if isinstance(problem.model, POMDP) else np.zeros(1)


def try_policy(path: Path, base: bytes, rng: random.Random) -> str:
    try:
        first = load_policy(path)
    except UnlatchError as error:
        return type(error).__name__
    save_policy(path, first)
    if load_policy(path) != first:
        raise AssertionError("the policy does not come back")
    return "read"


def flipped_outcome(path: Path, data: bytes) -> str:
    """What came of one flipped bit of ``data``."""
    try:
        found = load_model(path)
    except UnlatchError:
        return "noticed"
    path.write_bytes(data)
    if found != load_model(path):
        raise AssertionError("another model")
    return "harmless"


MODELS = {
    kind: Format(
        f".{kind}", partial(lambda kind, folder: bases(folder)[kind], kind), partial(changed, kind), attempt
    )
    for kind, attempt in {
        **dict.fromkeys(("pomdp", "pomdpx", "json", "npz"), try_problem),
        **dict.fromkeys(("alpha", "policyx"), try_policy),
    }.items()
}
"""By name."""
