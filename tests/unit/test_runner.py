"""Studies: seeds, configurations, files, and what becomes of a unit."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unlatch.core.progress import listening
from unlatch.engines.engine import ThisProcess
from unlatch.errors import RepairWarning, ResourceLimitError, StorageError, UsageError
from unlatch.files import atomic
from unlatch.study.jobs import workers as workers_module
from unlatch.study.jobs.folder import Claim
from unlatch.study.jobs.runner import collect_rows, collect_seconds, run_units, write_table
from unlatch.study.jobs.units import Finding, Study, Unit, canonical_bytes, named_seed


def square(parameters: Mapping[str, Any], seed: np.random.SeedSequence) -> Finding:
    return Finding([{"number": parameters["number"], "square": parameters["number"] ** 2}], {"squaring": 0.5})


def threads(parameters: Mapping[str, Any], seed: np.random.SeedSequence) -> Finding:
    import numba
    import scipy.linalg  # noqa: F401  # loads its own BLAS
    import threadpoolctl

    pools = [pool["num_threads"] for pool in threadpoolctl.threadpool_info()]
    return Finding([{"pools": pools, "numba": numba.get_num_threads()}])


def squares(count: int, **settings: Any) -> Study:
    units = [Unit(f"square-{i}", square, {"number": i}, cost=i + 1) for i in range(count)]
    return Study("squares", units, root_seed=3, settings=settings)


def test_seeds_depend_on_the_names_alone() -> None:
    small, large = squares(2), squares(500)
    for unit in small.units:
        assert (small.seed_of(unit).generate_state(4) == large.seed_of(unit).generate_state(4)).all()
    states = {tuple(large.seed_of(unit).generate_state(4)) for unit in large.units}
    assert len(states) == 500
    assert named_seed(1, "a").spawn_key != named_seed(1, "b").spawn_key
    assert (named_seed(1, "a").generate_state(2) != named_seed(2, "a").generate_state(2)).any()


@pytest.mark.parametrize("bad", ["", "Upper", "a/b", "../x", ".hidden", "a b", "x" * 121])
def test_ids_are_names_of_files(bad: str) -> None:
    with pytest.raises(UsageError, match="a unit's id"):
        Unit(bad, square, {})


def test_ids_are_unique() -> None:
    with pytest.raises(UsageError, match="two units have the id 'same'"):
        Study("twice", [Unit("same", square, {}), Unit("same", square, {})])


def test_rows_and_times_come_in_the_order_of_the_study(tmp_path: Path) -> None:
    study = squares(5)
    heard: list[tuple[str, float, float]] = []
    with listening(lambda *report: heard.append(report)):
        summary = run_units(study, tmp_path, workers=2)
    assert (summary.finished, summary.failed, summary.run_here) == (5, 0, 5)
    assert heard[0] == ("squares", 0, 15)
    assert heard[-1] == ("squares", 15, 15)
    rows = collect_rows(study, tmp_path)
    assert rows == [{"unit": f"square-{i}", "number": i, "square": i * i} for i in range(5)]
    seconds = collect_seconds(study, tmp_path)["square-3"]
    assert seconds["squaring"] == 0.5
    assert seconds["attempts"] == 1
    assert seconds["total"] > 0
    write_table(tmp_path / "rows.csv", [*rows[:1], {"unit": "x", "more": None}])
    assert (tmp_path / "rows.csv").read_text() == "unit,number,square,more\nsquare-0,0,0,\nx,,,nan\n"


def mortal(parameters: Mapping[str, Any], seed: np.random.SeedSequence) -> Finding:
    if parameters["number"] == 1:
        os._exit(3)
    if parameters["number"] == 2:
        threading.Event().wait()
    return Finding([{"number": parameters["number"], "drawn": int(seed.generate_state(1)[0])}])


def test_an_engine_runs_units_as_processes_of_this_machine_do(tmp_path: Path) -> None:
    units = [Unit(f"unit-{i}", mortal, {"number": i}) for i in range(4)]
    study = Study("mortals", units, root_seed=5)
    here = run_units(study, tmp_path / "here", workers=2, time_limit_per_unit=6.0)
    there = run_units(study, tmp_path / "there", engine=ThisProcess(), time_limit_per_unit=6.0)
    assert (there.finished, there.failed, there.run_here) == (here.finished, here.failed, 4) == (2, 2, 4)
    one, other = (
        {path.name: path.read_bytes() for path in (tmp_path / name / "units").rglob("*.json")}
        for name in ("here", "there")
    )
    assert one == other
    assert collect_seconds(study, tmp_path / "there")["unit-1"]["attempts"] == 2
    assert run_units(study, tmp_path / "there", engine=ThisProcess(), time_limit_per_unit=6.0).run_here == 0


def test_only_chosen_units_are_run_and_the_folder_stays_the_same_study(tmp_path: Path) -> None:
    study = squares(4)
    assert run_units(study, tmp_path, chosen=study.units[2:3]).run_here == 1
    assert [row["number"] for row in collect_rows(study, tmp_path)] == [2]
    assert run_units(study, tmp_path).run_here == 3


def test_another_configuration_is_refused_with_the_difference(tmp_path: Path) -> None:
    run_units(squares(2, version="1.0"), tmp_path)
    with pytest.raises(StorageError, match=r'version is "1\.0" there and "1\.1" here'):
        run_units(squares(2, version="1.1"), tmp_path)
    with pytest.raises(StorageError, match="units is 2 there and 3 here"):
        run_units(squares(3, version="1.0"), tmp_path)


def test_force_keeps_what_did_not_change_and_records_it(tmp_path: Path) -> None:
    run_units(squares(2, version="1.0"), tmp_path)
    more = squares(3, version="1.0")
    assert run_units(more, tmp_path, force=True).run_here == 1
    other_root = Study("squares", more.units, root_seed=4, settings={"version": "1.0"})
    assert run_units(other_root, tmp_path, force=True).run_here == 3
    history = json.loads((tmp_path / "study.json").read_text())["history"]
    assert [entry["forced"].split(";")[0] for entry in history] == [
        "units is 2 there and 3 here",
        "root_seed is 3 there and 4 here",
    ]
    assert history[0]["before"]["units"] == 2


def test_foreign_and_damaged_files_are_no_results(tmp_path: Path) -> None:
    study = squares(3)
    run_units(study, tmp_path)
    first, second, _ = sorted((tmp_path / "units").rglob("*.json"))
    whole = first.read_bytes()
    first.write_bytes(whole[:20])
    second.write_bytes(b"[]")
    (tmp_path / "units" / "notes.json").write_text("{}")
    leftover = first.with_name(".unlatch-0123.tmp")
    leftover.write_text("half")
    with pytest.warns(
        RepairWarning, match="2 units whose files are damaged or edited are run again: square-"
    ):
        assert run_units(study, tmp_path).run_here == 2
    assert first.read_bytes() == whole
    assert not leftover.exists()
    assert len(collect_rows(study, tmp_path)) == 3


def resealed(path: Path, change: Callable[[dict[str, Any]], object]) -> bytes:
    """The file after a change, its checksum made right again."""
    content = json.loads(path.read_bytes())
    del content["sha256"]
    change(content)
    content["sha256"] = hashlib.sha256(canonical_bytes(content)).hexdigest()
    return canonical_bytes(content)


def test_changed_digit_in_a_finished_unit_is_noticed(tmp_path: Path) -> None:
    study = squares(3)
    run_units(study, tmp_path)
    (path,) = (tmp_path / "units").rglob("square-2.json")
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"square":4', b'"square":5'))
    with pytest.warns(RepairWarning, match="1 units .* were left out; run the study again: square-2"):
        assert [row["number"] for row in collect_rows(study, tmp_path)] == [0, 1]
    with pytest.warns(RepairWarning, match="are run again: square-2"):
        summary = run_units(study, tmp_path)
    assert (summary.run_here, summary.damaged) == (1, ("square-2",))
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: b"",
        lambda path: b"[" * 100_000,
        lambda path: b"[]",
        lambda path: b'{"format": 2}',
        lambda path: b'{"format": "2"}',
        lambda path: path.read_bytes().replace(b'"sha256"', b'"sha25v"'),
        lambda path: resealed(path, lambda content: content.pop("outcome")),
        lambda path: resealed(path, lambda content: content.update(outcome="failed")),
        lambda path: resealed(path, lambda content: content.update(outcome="failed", reason="timeout")),
        lambda path: resealed(path, lambda content: content.update(rows=[1])),
        lambda path: resealed(path, lambda content: content.update(rows=None)),
        lambda path: resealed(path, lambda content: content.pop("fingerprint")),
    ],
)
def test_broken_unit_is_run_again(tmp_path: Path, damage: Callable[[Path], bytes]) -> None:
    study = squares(2)
    run_units(study, tmp_path)
    (path,) = (tmp_path / "units").rglob("square-1.json")
    whole = path.read_bytes()
    path.write_bytes(damage(path))
    with pytest.warns(RepairWarning, match="square-1"):
        assert collect_rows(study, tmp_path) == [{"unit": "square-0", "number": 0, "square": 0}]
    with pytest.warns(RepairWarning, match="square-1"):
        assert run_units(study, tmp_path).run_here == 1
    assert path.read_bytes() == whole


def test_unit_of_an_older_format_is_run_again_without_a_word(tmp_path: Path) -> None:
    study = squares(1)
    run_units(study, tmp_path)
    (path,) = (tmp_path / "units").rglob("*.json")
    whole = path.read_bytes()
    path.write_bytes(resealed(path, lambda content: content.update(format=1)))
    assert run_units(study, tmp_path).run_here == 1
    assert path.read_bytes() == whole


def test_broken_times_are_unknown_times(tmp_path: Path) -> None:
    study = squares(2)
    run_units(study, tmp_path)
    (path,) = (tmp_path / "times").rglob("square-1.json")
    path.write_bytes(b"[" * 100_000)
    assert list(collect_seconds(study, tmp_path)) == ["square-0"]


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    "content",
    [
        "[1, 2]",
        "{}",
        "3",
        "[" * 100_000,
        '{"hash": "x"}',
        '{"hash": "x", "history": []}',
        '{"hash": "x", "configuration": [], "history": []}',
        '{"hash": "x", "configuration": {}, "history": 3}',
        '{"hash": 3, "configuration": {}, "history": []}',
    ],
)
def test_broken_configuration_is_a_declared_error(tmp_path: Path, content: str, force: bool) -> None:
    (tmp_path / "study.json").write_text(content)
    with pytest.raises(StorageError, match=r"study\.json: damaged; move it away"):
        run_units(squares(1), tmp_path, force=force)
    assert (tmp_path / "study.json").read_text() == content


def test_hash_that_does_not_fit_its_configuration_is_refused(tmp_path: Path) -> None:
    run_units(squares(1), tmp_path)
    path = tmp_path / "study.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "hash": "x"}))
    with pytest.raises(StorageError, match='hash is "x" there'):
        run_units(squares(1), tmp_path)
    assert run_units(squares(1), tmp_path, force=True).run_here == 0


def test_damaged_configuration_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text("{")
    with pytest.raises(StorageError, match=r"study\.json: damaged"):
        run_units(squares(1), tmp_path)


def test_workers_have_one_thread(tmp_path: Path) -> None:
    study = Study("threads", [Unit("threads", threads, {})])
    before = dict(os.environ)
    run_units(study, tmp_path)
    (row,) = collect_rows(study, tmp_path)
    assert set(row["pools"]) == {1}
    assert row["numba"] == 1
    assert dict(os.environ) == before


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    run_units(squares(2), tmp_path / "first")
    before = len(os.listdir("/proc/self/fd"))
    run_units(squares(40), tmp_path / "second", workers=2)
    assert len(os.listdir("/proc/self/fd")) == before


def test_full_disk_is_an_error_and_finished_units_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_units(squares(3), tmp_path, chosen=squares(3).units[:1])
    before = collect_rows(squares(3), tmp_path)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(atomic.os, "fsync", full)
        with pytest.raises(StorageError, match="No space left"):
            run_units(squares(3), tmp_path)
    assert collect_rows(squares(3), tmp_path) == before
    assert run_units(squares(3), tmp_path).run_here == 2


def test_runs_outside_the_main_thread(tmp_path: Path) -> None:
    worker = threading.Thread(target=run_units, args=(squares(2), tmp_path))
    worker.start()
    worker.join()
    assert len(collect_rows(squares(2), tmp_path)) == 2


def test_function_that_cannot_be_sent_is_refused(tmp_path: Path) -> None:
    def local(parameters: Mapping[str, Any], seed: np.random.SeedSequence) -> Finding:
        return Finding([])

    with pytest.raises(UsageError, match="cannot be sent to another process"):
        run_units(Study("local", [Unit("local", local, {})]), tmp_path)


def test_workers_that_cannot_start_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_module, "START", "raise SystemExit(9)")
    with pytest.raises(ResourceLimitError, match=r"end as soon as they start \(exit code 9\)"):
        run_units(squares(1), tmp_path)


def test_claim_is_exclusive_and_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "unit.lock"
    claim = Claim.taken(path)
    assert claim is not None
    assert f"process {os.getpid()}" in path.read_text()
    assert Claim.taken(path) is None
    claim.release()
    assert not path.exists()
    again = Claim.taken(path)
    assert again is not None
    again.release()


def test_claim_on_a_file_without_its_name_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "unit.lock"
    real_open = os.open

    def opened_just_before_the_holder_left(*args: Any) -> int:
        descriptor = real_open(*args)
        path.unlink()
        return descriptor

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", opened_just_before_the_holder_left)
        assert Claim.taken(path) is None
    claim = Claim.taken(path)
    assert claim is not None
    claim.release()


@pytest.mark.parametrize(
    "options",
    [
        {"workers": 0},
        {"workers": "2"},
        {"workers": 1.5},
        {"time_limit_per_unit": 0},
        {"time_limit_per_unit": float("nan")},
        {"time_limit_per_unit": None},
    ],
)
def test_senseless_options_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="must be positive"):
        run_units(squares(1), tmp_path, **options)


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot make the folder"):
        run_units(squares(1), tmp_path / "file" / "out")
