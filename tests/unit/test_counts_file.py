"""Counts as files: written and read to the last bit, merged, damaged, and learned from."""

from __future__ import annotations

import io
import warnings
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from unlatch import count_sequences, domains, learn_from_counts, load_counts, save_counts, simulate
from unlatch.errors import DataError, NotLearnableError, UsageError
from unlatch.files.arrays import read_arrays, write_arrays
from unlatch.streams.counts_file import KIND, is_counts_file

LOG = simulate(domains.tiger(), 3_000, episodes=2, rng=0)


def counted(log=LOG, history_length=3, test_length=2):
    return count_sequences(log, history_length=history_length, test_length=test_length)


def assert_same(one, other):
    for field in (
        "history_length",
        "test_length",
        "action_names",
        "observation_names",
        "steps",
        "episodes",
        "longest_episode",
    ):
        assert getattr(one, field) == getattr(other, field)
    for a, b in zip(one.tables, other.tables, strict=True):
        assert np.array_equal(a.codes, b.codes)
        assert np.array_equal(a.counts, b.counts)
        assert (a.weights is None) == (b.weights is None)
        if a.weights is not None:
            assert np.array_equal(a.weights, b.weights)
            assert np.array_equal(a.squares, b.squares)
    assert np.array_equal(one.symbol_rewards, other.symbol_rewards)


def test_what_is_saved_is_loaded(tmp_path):
    path = tmp_path / "counts.npz"
    weighted = simulate(domains.tiger(), 500, policy=np.full((6, 3), 1 / 3), rng=1)
    for log in (LOG, weighted):
        save_counts(path, counted(log))
        assert is_counts_file(path)
        assert_same(load_counts(path), counted(log))
    first = path.read_bytes()
    save_counts(path, counted(weighted))
    assert path.read_bytes() == first
    assert (
        np.load(path)["codes_1"].tolist() == counted(weighted).table(1).codes.tolist()
    )  # NumPy reads it too


def test_parts_merge_to_the_whole(tmp_path):
    parts = [LOG.episode(0), LOG.episode(1)]
    for i, part in enumerate(parts):
        save_counts(tmp_path / f"{i}.npz", counted(part))
    merged = load_counts(tmp_path / "0.npz") + load_counts(tmp_path / "1.npz")
    whole = counted()
    for a, b in zip(merged.tables, whole.tables, strict=True):
        assert np.array_equal(a.codes, b.codes)
        assert np.array_equal(a.totals, b.totals)
    assert (merged.steps, merged.episodes) == (6_000, 2)


def test_every_flipped_byte_is_noticed(tmp_path, rng):
    path = tmp_path / "counts.npz"
    save_counts(path, counted(simulate(domains.tiger(), 50, rng=0), 2, 1))
    data = path.read_bytes()
    for place in rng.choice(len(data), 300, replace=False):
        damaged = bytearray(data)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            again = load_counts(path)
        except DataError:
            continue
        assert_same(again, counted(simulate(domains.tiger(), 50, rng=0), 2, 1))


@pytest.mark.parametrize("content", [b"", b"PK", b"PK\x03\x04" + bytes(50), b"action,observation\na,b\n"])
def test_foreign_files_are_refused(tmp_path, content):
    path = tmp_path / "counts.npz"
    path.write_bytes(content)
    assert not is_counts_file(path)
    with pytest.raises(DataError):
        load_counts(path)


def test_archives_that_lie_are_refused(tmp_path):
    path = tmp_path / "counts.npz"
    np.savez(path, codes_1=np.zeros((1, 3), dtype=np.int64))
    with pytest.raises(DataError, match="counts"):
        load_counts(path)
    save_counts(path, counted())
    for change, message in (
        ({"compress": True}, "compressed"),
        ({"name": "../evil.npy"}, "no folders"),
        ({"twice": True}, "more than one array"),
        ({"object": True}, "pickle refused"),
    ):
        _rewritten(path, tmp_path / "other.npz", **change)
        with pytest.raises(DataError, match=message):
            load_counts(tmp_path / "other.npz")


def _rewritten(source, target, compress=False, name=None, twice=False, object=False):
    with (
        warnings.catch_warnings(),
        zipfile.ZipFile(source) as old,
        zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED) as new,
    ):
        warnings.simplefilter("ignore")
        for info in old.infolist():
            data = old.read(info)
            if object and info.filename == "codes_1.npy":
                buffer = io.BytesIO()
                np.save(buffer, np.array([None]), allow_pickle=True)
                data = buffer.getvalue()
            new.writestr(info.filename, data)
            if twice:
                new.writestr(info.filename, data)
        if name:
            new.writestr(name, b"")


@pytest.mark.parametrize(
    "change",
    [
        lambda h, a: h.update(steps=-1),
        lambda h, a: h.update(history_length=7),
        lambda h, a: h.update(action_names=["x", "x", "y"]),
        lambda h, a: h.update(more=1),
        lambda h, a: a.update(codes_1=a["codes_1"][:, ::-1]),
        lambda h, a: a.update(codes_1=a["codes_1"] + 1000),
        lambda h, a: a.update(counts_1=a["counts_1"][1:]),
        lambda h, a: a.update(counts_2=a["counts_2"] * 0),
        lambda h, a: a.pop("codes_3"),
        lambda h, a: a.update(symbol_rewards=a["symbol_rewards"] * np.inf),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_contents_that_contradict_themselves(tmp_path, change):
    path = tmp_path / "counts.npz"
    save_counts(path, counted())
    header, arrays = read_arrays(path, KIND)
    with np.errstate(invalid="ignore"):
        change(header, arrays)
    write_arrays(path, KIND, header, arrays)
    with pytest.raises(DataError, match="count the log anew"):
        load_counts(path)


# --- learning -----------------------------------------------------------------------------------------------


def test_counts_are_enough_for_the_spectral_model():
    log = simulate(domains.tiger(), 100_000, rng=3)
    found = learn_from_counts(counted(log), emission="departure", rng=0)
    assert found.pomdp.n_states == 2
    assert np.abs(np.sort(found.pomdp.observations[0].max(axis=1)) - 0.85).max() < 0.02
    assert found.counts.test_length <= 2


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_the_emission_is_told_by_the_windows(emission):
    truth = replace(domains.tiger(), emission=emission)
    log = simulate(truth, 50_000, rng=0)
    assert learn_from_counts(counted(log), rng=0).pomdp.emission == emission


def test_what_counts_cannot_answer():
    with pytest.raises(UsageError, match="expected SequenceCounts"):
        learn_from_counts(LOG)
    with pytest.raises(UsageError, match="up to 5 pairs were counted"):
        learn_from_counts(counted(), test_length=4)
    with pytest.raises(NotLearnableError, match="too few"):
        learn_from_counts(counted(LOG.head(60)), rng=0)
    with pytest.raises(UsageError, match="expected SequenceCounts"):
        save_counts("nowhere.npz", LOG)
