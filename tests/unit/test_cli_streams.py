"""Counting, merging, going on and learning from several files, from the command line."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from unlatch import (
    count_sequences,
    domains,
    load_counts,
    load_model,
    read_log,
    save_counts,
    simulate,
    write_log,
)
from unlatch.cli import run

TIGER = domains.tiger()


@pytest.fixture
def nights(tmp_path):
    folder = tmp_path / "nights"
    folder.mkdir()
    for night in range(3):
        write_log(folder / f"{night}.csv", simulate(TIGER, 4_000, rng=night))
    return folder


def test_counts_of_parts_merge_to_those_of_all(nights, tmp_path, capsys):
    parts = []
    for night in range(3):
        parts.append(str(tmp_path / f"{night}.npz"))
        assert run(["count", str(nights / f"{night}.csv"), "-o", parts[-1]]) == 0
    assert run(["merge", *parts[::-1], "-o", str(tmp_path / "all.npz")]) == 0
    assert "12000 steps" in capsys.readouterr().out.replace(",", "")
    assert run(["count", str(nights), "-o", str(tmp_path / "once.npz")]) == 0
    merged, once = load_counts(tmp_path / "all.npz"), load_counts(tmp_path / "once.npz")
    assert (merged.steps, merged.episodes) == (once.steps, once.episodes) == (12_000, 3)
    for a, b in zip(merged.tables, once.tables, strict=True):
        assert np.array_equal(a.codes, b.codes)
        assert np.array_equal(a.totals, b.totals)
    assert run(["learn", str(tmp_path / "all.npz"), "-o", str(tmp_path / "m.json"), "--seed", "0"]) == 0
    assert load_model(tmp_path / "m.json").pomdp.n_states == 2
    assert run(["learn", *parts, "-o", str(tmp_path / "m2.json"), "--states", "2"]) == 2
    assert "needs the log" in capsys.readouterr().err


def test_standard_input_is_counted(nights, tmp_path, monkeypatch):
    with (nights / "0.csv").open() as handle:
        monkeypatch.setattr("sys.stdin", handle)
        assert run(["count", "-", "-o", str(tmp_path / "c.npz"), "--test-length", "1"]) == 0
    expected = count_sequences(read_log(nights / "0.csv"), history_length=2, test_length=1)
    assert np.array_equal(load_counts(tmp_path / "c.npz").table(3).counts, expected.table(3).counts)


def test_several_files_are_one_log(nights, tmp_path):
    files = [str(nights / f"{night}.csv") for night in range(3)]
    assert run(["learn", *files, "-o", str(tmp_path / "a.json"), "--seed", "0", "--max-states", "3"]) == 0
    saved = load_model(tmp_path / "a.json")
    assert saved.pomdp.n_states == 2
    assert saved.provenance["log"] == {"steps": 12_000, "episodes": 3}


def test_going_on(nights, tmp_path, capsys):
    model = tmp_path / "model.json"
    learn = ["learn", "--seed", "0"]
    assert run([*learn, str(nights / "0.csv"), "-o", str(model), "--max-states", "3"]) == 0
    assert load_model(model).provenance["log_files"][0]["path"] == "nights/0.csv"
    assert (
        run([*learn, str(nights / "1.csv"), "--continue", str(model), "-o", str(tmp_path / "more.json")]) == 0
    )
    more = load_model(tmp_path / "more.json")
    assert (more.provenance["log"]["steps"], more.pomdp.n_states) == (8_000, 2)
    assert [file["path"] for file in more.provenance["log_files"]] == ["nights/0.csv", "nights/1.csv"]
    capsys.readouterr()
    refused = [*learn, str(nights / "1.csv"), "--continue", str(model), "-o", str(tmp_path / "x.json")]
    assert run([*refused, "--states", "2"]) == 2
    assert "cannot be set with --continue" in capsys.readouterr().err
    (nights / "0.csv").unlink()
    assert run(refused) == 2
    assert "--old-log" in capsys.readouterr().err
    assert run([*refused, "--old-log", str(nights / "2.csv")]) == 0


def test_what_standard_input_gave_is_not_taken_for_known_later(nights, tmp_path, monkeypatch, capsys):
    model, more = tmp_path / "model.json", tmp_path / "more.json"
    learn = ["learn", "--seed", "0"]
    assert run([*learn, str(nights / "0.csv"), "-o", str(model), "--max-states", "3"]) == 0
    with (nights / "1.csv").open("rb") as piped:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=piped))
        assert run([*learn, "-", "--continue", str(model), "-o", str(more)]) == 0
    assert load_model(more).provenance["log"]["steps"] == 8_000
    capsys.readouterr()
    assert run([*learn, str(nights / "2.csv"), "--continue", str(more), "-o", str(tmp_path / "x.json")]) == 2
    assert "does not say which log it was learned from" in capsys.readouterr().err


def test_files_that_are_no_counts(nights, tmp_path, capsys):
    assert run(["merge", str(nights / "0.csv"), "-o", str(tmp_path / "c.npz")]) == 3
    log = simulate(TIGER, 500, rng=0)
    save_counts(tmp_path / "a.npz", count_sequences(log, history_length=2, test_length=1))
    save_counts(tmp_path / "b.npz", count_sequences(log, history_length=3, test_length=1))
    assert (
        run(["merge", str(tmp_path / "a.npz"), str(tmp_path / "b.npz"), "-o", str(tmp_path / "c.npz")]) == 3
    )
    assert "history_length differs" in capsys.readouterr().err
    assert (
        run(
            [
                "learn",
                str(nights / "0.csv"),
                "-o",
                str(tmp_path / "m.json"),
                "--scheduler",
                "tcp://10.0.0.1:1",
            ]
        )
        == 2
    )
