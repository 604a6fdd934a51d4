"""Our NPZ: whole or refused, whatever the bytes."""

from __future__ import annotations

import io
import pickle
import random
import resource
import time
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from unlatch import (
    POMDP,
    Partition,
    PartitionModel,
    Problem,
    Reward,
    SavedModel,
    domains,
    load_model,
    load_problem,
    save_model,
    save_problem,
)
from unlatch.errors import ModelFileError, StorageError
from unlatch.files.models import native

TIGER = domains.tiger()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.npz"


def refusal(path, data):
    path.write_bytes(data)
    with pytest.raises(ModelFileError) as caught:
        load_model(path)
    assert "model.npz" in str(caught.value)
    return str(caught.value)


def rebuilt(data, change):
    """The archive with its members changed, as a forger would."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    change(members)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


@pytest.mark.parametrize(
    "saved",
    [
        SavedModel(pomdp=TIGER, partition=Partition([0, 1]), log_likelihood=-3.5, options={"a": 1}),
        SavedModel(psr=TIGER.to_psr()),
        SavedModel(pomdp=domains.frozen_lake(lake=["SFF", "HFG"]), psr=None, extra={"future": {"x": [1]}}),
        SavedModel(pomdp=TIGER, reward=Reward.on_transitions(np.ones((3, 2, 2, 6))), discount=0.5),
        SavedModel(pomdp=TIGER, reward=Reward.on_states({"tiger-left": 1.0, (1,): 2.0}), discount=1.0),
        SavedModel(pomdp=TIGER, reward=Reward.on_observations({("listen", "hear-left"): 2.0}), discount=0.0),
        SavedModel(
            psr=TIGER.to_psr(), partition=Partition([0, 1]), reward=Reward.on_cells({1: 3.0}), discount=0.9
        ),
        SavedModel(pomdp=TIGER, reward=Reward.learned(TIGER), discount=0.9),
    ],
)
@pytest.mark.parametrize("ending", [".npz", ".json"])
def test_everything_comes_back(tmp_path, saved, ending):
    one, two = tmp_path / f"a{ending}", tmp_path / f"b{ending}"
    save_model(one, saved)
    loaded = load_model(one)
    fields = ("pomdp", "psr", "partition", "reward", "discount", "options", "log_likelihood")
    assert all(getattr(loaded, name) == getattr(saved, name) for name in fields)
    assert {key: loaded.extra[key] for key in saved.extra} == saved.extra
    save_model(two, loaded)
    assert one.read_bytes() == two.read_bytes()


def test_problems_of_every_kind_come_back(tmp_path):
    cells = PartitionModel(TIGER.to_psr(), Partition([0, 1]))
    for problem in (Problem(TIGER), Problem(TIGER.to_psr()), Problem(cells, Reward.on_cells({0: 1.0}), 0.5)):
        for ending in (".json", ".npz"):
            save_problem(tmp_path / f"a{ending}", problem)
            back = load_problem(tmp_path / f"a{ending}")
            assert back.reward == problem.reward
            assert back.discount == problem.discount
            assert type(back.model) is type(problem.model)


def test_numpy_reads_the_arrays(path):
    save_model(path, TIGER)
    with np.load(path) as archive:
        assert np.array_equal(archive["pomdp.transitions"], TIGER.transitions)


# --- C1: pickles -----------------------------------------------------------------------------------------


def test_c1_pickles_are_refused(path):
    assert "pickle refused" in refusal(path, pickle.dumps({"a": 1}))
    stream = io.BytesIO()
    np.savez(stream, **{"pomdp.transitions": np.array([{"a": 1}], dtype=object)})
    save_model(path, TIGER)
    whole = path.read_bytes()
    with zipfile.ZipFile(io.BytesIO(stream.getvalue())) as archive:
        objects = archive.read("pomdp.transitions.npy")
    forged = rebuilt(whole, lambda members: members.update({"pomdp.transitions.npy": objects}))
    assert "pickle refused" in refusal(path, forged)


# --- C2: bombs -------------------------------------------------------------------------------------------


def test_c2_compressed_members_are_refused_at_once(path):
    stream = io.BytesIO()
    with (
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("content.json", "w") as member,
    ):
        for _ in range(64):
            member.write(b"\0" * (1 << 20))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.perf_counter()
    assert "bomb" in refusal(path, stream.getvalue())
    assert time.perf_counter() - begun < 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 1024


def test_c2_claims_of_more_than_there_is(path):
    save_model(path, TIGER)
    data = bytearray(path.read_bytes())
    central = data.rindex(b"PK\x01\x02")
    for offset in (20, 24):  # sizes in the central directory
        data[central + offset : central + offset + 4] = (1 << 31).to_bytes(4, "little")
    refusal(path, bytes(data))


# --- C3: headers that lie --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999, 99999999999999999), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }",
        "{'descr': '|V8', 'fortran_order': False, 'shape': (2,), }",
        "{'descr': '>f8', 'fortran_order': False, 'shape': (2,), }",
        "{'descr': '<f8', 'fortran_order': True, 'shape': (2,), }",
        "{'descr': __import__('os'), 'fortran_order': False, 'shape': (2,), }",
        "",
    ],
)
def test_c3_headers_that_lie(path, header):
    save_model(path, TIGER)
    member = (
        b"\x93NUMPY\x01\x00" + (len(header) + 1).to_bytes(2, "little") + header.encode() + b"\n" + bytes(16)
    )
    forged = rebuilt(path.read_bytes(), lambda members: members.update({"pomdp.initial.npy": member}))
    assert "pomdp.initial" in refusal(path, forged)
    longer = b"\x93NUMPY\x01\x00\xff\xff" + bytes(40)
    refusal(path, rebuilt(forged, lambda m: m.update({"pomdp.initial.npy": longer})))


def test_c3_shapes_that_do_not_fit_each_other(path):
    """Also with a checksum that fits."""
    save_model(path, POMDP(np.ones((1, 1, 1)), np.ones((1, 1, 1)), np.ones(1)))
    saved = load_model(path)
    object.__setattr__(saved.pomdp, "initial", np.array([0.5, 0.5]))
    with pytest.raises(Exception, match="not written, because it could not be loaded again"):
        save_model(path, saved)


# --- C4: members -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../../x", "no folders"),
        ("/etc/passwd", "no folders"),
        ("../x.npy", "no folders"),
        ("content.json/", "no folders"),
        ("pomdp.initial", "holds .npy files"),
        ("unexpected.npy", "which no model has"),
    ],
)
def test_c4_members_of_other_names(path, name, reason):
    save_model(path, TIGER)
    forged = rebuilt(path.read_bytes(), lambda members: members.update({name: b"x"}))
    assert reason in refusal(path, forged)


def test_c4_missing_doubled_and_encrypted_members(path):
    save_model(path, TIGER)
    data = path.read_bytes()
    assert "not those of a model" in refusal(path, rebuilt(data, lambda members: members.pop("content.json")))
    assert "'initial' is missing" in refusal(path, resealed(data, lambda m, _: m.pop("pomdp.initial.npy")))
    stream = io.BytesIO(data)
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(stream, "a") as archive:
        archive.writestr("content.json", b"{}")
    assert "more than one array is called 'content.json'" in refusal(path, stream.getvalue())
    encrypted = bytearray(data)
    encrypted[encrypted.rindex(b"PK\x01\x02") + 8] |= 1
    refusal(path, bytes(encrypted))


def resealed(data, change):
    """Changed, with a checksum that fits."""
    import hashlib
    import json

    from unlatch.files import strict_json

    def seal(members):
        content = json.loads(members["content.json"])
        del content["sha256"]
        change(members, content)
        digest = hashlib.sha256(strict_json.canonical(content))
        for name in sorted(members):
            if name.endswith(".npy"):
                array = np.lib.format.read_array(io.BytesIO(members[name]))
                digest.update(json.dumps([name[:-4], *array.shape]).encode())
                digest.update(array.tobytes())
        content["sha256"] = digest.hexdigest()
        members["content.json"] = json.dumps(content).encode()

    return rebuilt(data, seal)


def test_c7_versions_and_unknown_fields(path):
    save_model(path, TIGER)
    data = path.read_bytes()
    newer = resealed(data, lambda _, content: content.update(version="1.99", future=[1]))
    path.write_bytes(newer)
    loaded = load_model(path)
    assert {"newer_version", "unknown_fields"} <= {note.name for note in loaded.diagnostics}
    save_model(path, loaded)
    assert load_model(path).extra == {"future": [1]}
    assert "format version 2.0" in refusal(
        path, resealed(data, lambda _, content: content.update(version="2.0"))
    )
    assert "no unlatch model" in refusal(path, resealed(data, lambda _, content: content.update(format="x")))


# --- C5: damage ------------------------------------------------------------------------------------------


def test_c5_no_flipped_bit_gives_another_model(path):
    save_model(path, TIGER)
    data = path.read_bytes()
    expected = load_model(path)
    for bit in random.Random(0).sample(range(8 * len(data)), 1500):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            assert load_model(path) == expected
        except ModelFileError:
            continue


def test_c5_truncated_and_empty(path):
    save_model(path, TIGER)
    data = path.read_bytes()
    assert "empty" in refusal(path, b"")
    for cut in (1, 4, 100, len(data) // 2, len(data) - 1):
        refusal(path, data[:cut])


def test_a_checksum_of_the_numbers_beside_that_of_the_archive(path):
    save_model(path, TIGER)
    array = io.BytesIO()
    np.lib.format.write_array(array, np.array([0.25, 0.75]), (1, 0))
    forged = rebuilt(
        path.read_bytes(), lambda members: members.update({"pomdp.initial.npy": array.getvalue()})
    )
    assert "checksum does not match" in refusal(path, forged)


def test_limits(path, monkeypatch):
    save_model(path, TIGER)
    monkeypatch.setattr(native, "MAX_BYTES", 100)
    with pytest.raises(StorageError, match="at most 100"):
        load_model(path)


# --- rewards in files ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reward",
    [
        3, {}, {"kind": "money"}, {"kind": "states"}, {"kind": "states", "entries": [1]},
        {"kind": "states", "entries": [["nobody", 1.0]]}, {"kind": "states", "entries": [[True, 1.0]]},
        {"kind": "states", "entries": [[0, 1.0], [0, 2.0]]}, {"kind": "states", "entries": [[0, "x"]]},
        {"kind": "states", "entries": [[0, 10**400]]}, {"kind": "transitions"},
        {"kind": "transitions", "table": [[1.0]]}, {"kind": "transitions", "table": "x"},
        {"kind": "symbols", "entries": [[3, 1.0]]}, {"kind": "observations", "entries": [["listen", 1.0]]},
        {"kind": "cells", "entries": [[0, 1.0]]}, {"kind": "rewards", "entries": [["x", 1.0]]},
    ],
)  # fmt: skip
def test_rewards_that_are_none(path, reward):
    save_model(path, replace(SavedModel(pomdp=TIGER), reward=Reward.learned(TIGER), discount=0.5))
    refusal(path, resealed(path.read_bytes(), lambda _, content: content.update(reward=reward)))


@pytest.mark.parametrize("discount", [-0.1, 1.1, "x", True, 10**400])
def test_discounts_that_are_none(path, discount):
    save_model(path, replace(SavedModel(pomdp=TIGER), reward=Reward.learned(TIGER), discount=0.5))
    refusal(path, resealed(path.read_bytes(), lambda _, content: content.update(discount=discount)))
