"""Logs of every kind of file and table: the same log from each, and the same errors."""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import os
import re
import resource
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import unlatch
from unlatch import Trajectory, iterate_log, read_log, write_log
from unlatch.errors import DataError, ResourceLimitError, StorageError, UsageError
from unlatch.files.logs import arrays, arrow, compressed, delimited
from unlatch.files.logs.read import ReadOptions, checked_options

ENDINGS = [".csv", ".csv.gz", ".parquet", ".npz"]

FULL = Trajectory.from_symbols(
    ["left", "NA", "01", "left", "left"],
    ["1", "a|b", "ü", "1", "="],
    rewards=[0.1, -0.0, 1e300, 2, 3],
    episode_starts=[0, 2, 3],
    probabilities=[0.5, 1, 0.25, 1 / 3, 1],
    terminated=[False, True, False, False, True],
    first_observations=["dark", "light", "1"],
)
PLAIN = Trajectory.from_symbols(["a", "b", "a"], ["x", "y", "x"])


def save(path: Path, columns: dict[str, Any]) -> Path:
    """A table of columns in the format that the name of the file asks for."""
    if path.suffix == ".npz":
        np.savez(path, **{name: np.array(values) for name, values in columns.items()})
    elif path.suffix == ".npy":
        arrays_ = [np.array(values) for values in columns.values()]
        table = np.zeros(len(arrays_[0]), dtype=[(n, a.dtype) for n, a in zip(columns, arrays_, strict=True)])
        for name, array in zip(columns, arrays_, strict=True):
            table[name] = array
        np.save(path, table)
    elif path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
    elif path.suffix == ".feather":
        pyarrow.feather.write_feather(pa.table(columns), path)
    else:
        rows = zip(*columns.values(), strict=True)
        text = "\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n"
        packed = {".gz": gzip.compress, ".zst": lambda data: pa.compress(data, "zstd", asbytes=True)}
        path.write_bytes(packed.get(path.suffix, bytes)(text.encode()))
    return path


ALL = ["log.csv", "log.csv.gz", "log.csv.zst", "log.parquet", "log.feather", "log.npz", "log.npy"]
TYPED = ["log.parquet", "log.feather", "log.npz", "log.npy"]
COLUMNS = {
    "action": ["left", "NA", "01", "left"],
    "observation": ["1", "1e5", "null", "1"],
    "reward": [0.5, -1.0, 2.0, 3.0],
    "episode": [7, 7, 3, 3],
    "terminated": [False, True, False, False],
    "probability": [0.5, 1.0, 0.25, 1.0],
}


@pytest.mark.parametrize("name", ALL)
def test_the_same_log_from_every_kind_of_file(tmp_path: Path, name: str) -> None:
    log = read_log(save(tmp_path / name, COLUMNS))
    assert log == Trajectory.from_symbols(
        COLUMNS["action"],
        COLUMNS["observation"],
        rewards=COLUMNS["reward"],
        episode_starts=[0, 2],
        probabilities=COLUMNS["probability"],
        terminated=COLUMNS["terminated"],
    )


@pytest.mark.parametrize("name", TYPED)
def test_whole_numbers_are_symbols(tmp_path: Path, name: str) -> None:
    """A8, A10 to A13: verbatim, as in a text."""
    columns = {"action": [-1, 7, 7, 2**53 + 1], "observation": [1.0, 2.0, 1.0, 0.0]}
    log = read_log(save(tmp_path / name, columns))
    assert log.action_names == ("-1", "7", str(2**53 + 1))
    assert log.observation_names == ("0", "1", "2")
    assert log.diagnostics["float_symbols"].details == {"column": "observation"}


@pytest.mark.parametrize("name", TYPED)
def test_a10_fractions_are_no_symbols(tmp_path: Path, name: str) -> None:
    path = save(tmp_path / name, {"action": [0, 0, 1], "observation": [1.0, 2.5, 1.0]})
    with pytest.raises(DataError, match=r"row 2, column 'observation': 2.5; symbols must be whole numbers"):
        read_log(path)


@pytest.mark.parametrize("name", TYPED)
def test_a15_a_column_of_identifiers_is_refused(tmp_path: Path, name: str) -> None:
    path = save(tmp_path / name, {"action": [0] * 20_000, "observation": list(range(20_000))})
    with pytest.raises(ResourceLimitError, match="column 'observation' looks continuous"):
        read_log(path)


@pytest.mark.parametrize("name", ALL)
def test_other_names_and_pairs_of_columns(tmp_path: Path, name: str) -> None:
    path = save(tmp_path / name, {"do": [0, 1, 0], "x": [3, 4, 3], "y": ["red", "b", "red"]})
    log = read_log(path, action="do", observation=("x", "y"))
    assert log == Trajectory.from_symbols(["0", "1", "0"], ["3|red", "4|b", "3|red"])
    with pytest.raises(DataError, match="no column 'action', 'observation'"):
        read_log(path)
    with pytest.raises(DataError, match="no column 'z'"):
        read_log(path, action="do", observation=("x", "z"))


def test_pairs_that_would_have_the_same_name(tmp_path: Path) -> None:
    path = save(tmp_path / "log.csv", {"action": "aa", "x": ["1|2", "1"], "y": ["3", "2|3"]})
    with pytest.raises(DataError, match=r"line 3: '1\|2\|3' stands for different cells"):
        read_log(path, observation=["x", "y"])


def test_a_pair_that_lacks_a_part_is_missing() -> None:
    text = b"action,x,y\na,1,2\na,,2\na,1,2\n"
    with pytest.raises(DataError, match="line 3: an empty cell in column 'x'; 1 rows lack"):
        read_log(io.BytesIO(text), observation=["x", "y"])
    assert read_log(io.BytesIO(text), observation=["x", "y"], missing="split").n_episodes == 2


@pytest.mark.parametrize("observation", [[], ["x", "x"], ["x", None], ["x"] * 17, 3])
def test_columns_of_an_observation_that_make_no_sense(observation: Any) -> None:
    with pytest.raises(UsageError):
        read_log(io.BytesIO(b"action,x\na,b\n"), observation=observation)


# ---------------------------------------------------------------- tables in memory


class Streamed:
    """A table of which nothing is known but that it exports itself."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_any_table_that_exports_itself(kind: Any) -> None:
    action = pa.array(["left", "", None, "right"])
    columns = {
        "action": action.cast(kind) if kind != pa.string_view() else pa.array(action.to_pylist(), kind)
    }
    columns["observation"] = pa.array([True, False, True, True])
    table = Streamed(pa.table(columns))
    with pytest.raises(DataError, match="<Streamed>, row 2, column 'action': an empty cell"):
        read_log(Streamed(pa.table({**columns, "episode": [0, 0, 0, 0]})))
    log = read_log(table, missing="split")
    assert log == Trajectory.from_symbols(["left", "right"], ["true", "true"], episode_starts=[0, 1])


def test_a42_data_frames() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "action": pandas.Categorical(["b", "a", "b"], categories=["zz", "b", "a"]),
            "observation": pandas.array([1, 2, 1], dtype="Int64"),
            "reward": [1, 2, 3],
        }
    )
    assert read_log(frame) == Trajectory.from_symbols(["b", "a", "b"], ["1", "2", "1"], rewards=[1, 2, 3])
    frame["observation"] = ["x", 1, "x"]  # A8: mixed
    with pytest.raises(DataError, match="<DataFrame>: cannot be read as a table"):
        read_log(frame)
    with pytest.raises(DataError):
        read_log(frame["action"])


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1], [2]]),
        pa.array([1, 2], pa.timestamp("s")),
        pa.array([1, 2], pa.decimal128(5, 2)),
        pa.array([b"a", b"b"]),
        pa.array([{"x": 1}, {"x": 2}]),
        pa.array([1, 2], pa.duration("s")),
    ],
    ids=["nested", "timestamp", "decimal", "bytes", "struct", "duration"],
)
@pytest.mark.parametrize("role", ["observation", "reward", "terminated"])
def test_a28_types_that_are_no_symbols(tmp_path: Path, column: Any, role: str) -> None:
    table = pa.table({"action": ["a", "b"], "observation": ["x", "y"], role: column})
    pq.write_table(table, tmp_path / "log.parquet")
    for source in (tmp_path / "log.parquet", table):
        with pytest.raises(DataError, match=f"column '{role}': holds .*; expected"):
            read_log(source)


def test_a19_columns_of_one_name_in_a_table() -> None:
    table = pa.Table.from_arrays([pa.array(["a"])] * 3, names=["action", "observation", "observation"])
    with pytest.raises(DataError, match="more than one column is called 'observation'"):
        read_log(table)


@pytest.mark.parametrize("flags", [[1, 0], [1.0, 0.0], ["True", "no"], [True, False]])
@pytest.mark.parametrize("name", ["log.parquet", "log.npz"])
def test_answers_of_any_type(tmp_path: Path, name: str, flags: Any) -> None:
    columns = {"action": ["a", "b"], "observation": ["x", "y"], "terminated": flags}
    assert read_log(save(tmp_path / name, columns)).terminated.tolist() == [True, False]


@pytest.mark.parametrize(
    ("column", "values", "what"),
    [
        ("reward", [1.0, np.nan], "'' is not a finite number"),
        ("reward", [1.0, np.inf], "'inf' is not a finite number"),
        ("probability", [1.0, 1.5], "1.5; the action was taken"),
        ("terminated", [1, 2], "'2' is neither true nor false"),
        ("terminated", ["yes", "maybe"], "'maybe' is neither true nor false"),
    ],
)
@pytest.mark.parametrize("name", TYPED)
def test_a7_cells_of_arrays_that_are_no_numbers(
    tmp_path: Path, name: str, column: str, values: Any, what: str
) -> None:
    path = save(tmp_path / name, {"action": ["a", "b"], "observation": ["x", "y"], column: values})
    with pytest.raises(DataError, match=f"row 2, column '{column}': {what}"):
        read_log(path)


# ---------------------------------------------------------------- round trips


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("chunk", [1, 2, 3, 1000])
@pytest.mark.parametrize("log", [FULL, PLAIN], ids=["full", "plain"])
def test_written_logs_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, chunk: int, log: Trajectory
) -> None:
    monkeypatch.setattr("unlatch.files.logs.write.STEPS_PER_CHUNK", chunk)
    monkeypatch.setattr(arrow, "ROWS_PER_BATCH", chunk)
    monkeypatch.setattr(arrays, "ROWS_PER_BATCH", chunk)
    monkeypatch.setattr(delimited, "ROWS_PER_CALL", chunk)
    path = tmp_path / f"log{ending}"
    write_log(path, log)
    back = read_log(path)
    assert back == log
    if log.rewards is not None:
        assert np.signbit(back.rewards).tolist() == np.signbit(log.rewards).tolist()
    first = path.read_bytes()
    write_log(path, log)
    assert path.read_bytes() == first


@pytest.mark.parametrize("ending", ENDINGS)
def test_files_hold_no_unset_memory(tmp_path: Path, ending: str) -> None:
    """Whatever new memory is filled with: pyarrow leaves some behind a dictionary in which a name stands twice."""
    program = (
        "from unlatch import Trajectory, write_log\n"
        "log = Trajectory([0, 1, 0], [0, 1, 2], observation_names=list('abc'), first_observations=[0, 1],\n"
        "                 first_observation_names=list('ab'), episode_starts=[0, 2])\n"
    )
    written = set()
    for filling in ("0", "85", "170"):
        path = tmp_path / f"{filling}{ending}"
        subprocess.run(
            [sys.executable, "-c", program + f"write_log({str(path)!r}, log)"],
            env={**os.environ, "MALLOC_PERTURB_": filling, "ARROW_DEFAULT_MEMORY_POOL": "system"},
            check=True,
            timeout=120,
        )
        written.add(path.read_bytes())
    assert len(written) == 1


@pytest.mark.parametrize("name", ["log.feather", "log.npy", "log.csv.zst", "log.zip", "log.JSON"])
def test_kinds_of_files_that_are_not_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"written as \.csv, \.csv\.gz, \.parquet or \.npz"):
        write_log(tmp_path / name, PLAIN)
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------- damage


@pytest.mark.parametrize("ending", [".csv.gz", ".parquet", ".npz"])
def test_a27_flipped_bits_are_found(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"log{ending}"
    log = unlatch.simulate(unlatch.domains.tiger(), 500, rng=1)
    write_log(path, log)
    good, log = path.read_bytes(), read_log(path)
    rng = np.random.default_rng(1)
    wrong = 0
    for bit in rng.integers(0, 8 * len(good), 300).tolist():
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bytes(bad))
        with contextlib.suppress(DataError, ResourceLimitError):
            wrong += read_log(path) != log
    assert wrong == 0


@pytest.mark.parametrize("name", ALL[1:])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.99])
def test_a27_files_that_are_cut_off(tmp_path: Path, name: str, share: float) -> None:
    path = save(tmp_path / name, {key: values * 100 for key, values in COLUMNS.items() if key != "episode"})
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(DataError, match="log"):
        read_log(path)


@pytest.mark.parametrize(
    "name", ["log.parquet", "log.feather", "log.npz", "log.npy", "log.csv.gz", "log.csv.zst"]
)
@pytest.mark.parametrize("content", [b"x", b"action,observation\na,b\n", bytes(100), os.urandom(500)])
def test_a27_files_of_another_kind(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError):
        read_log(tmp_path / name)


def test_c1_pickles_are_refused(tmp_path: Path) -> None:
    objects = np.array(["a", 1, None], dtype=object)
    np.savez(tmp_path / "log.npz", action=objects, observation=np.zeros(3, int), allow_pickle=True)
    np.save(tmp_path / "log.npy", objects, allow_pickle=True)
    for name in ("log.npz", "log.npy"):
        with pytest.raises(DataError, match="pickle refused"):
            read_log(tmp_path / name)


def test_c2_archives_that_unpack_to_far_more_are_refused(tmp_path: Path) -> None:
    """Declared sizes are compared before anything is unpacked."""
    path = tmp_path / "log.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("action", "observation"):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array_header_1_0(
                    member, {"descr": "|u1", "fortran_order": False, "shape": (1 << 30,)}
                )
                for _ in range(1 << 6):
                    member.write(bytes(1 << 24))
    assert path.stat().st_size < 1 << 23
    program = (
        "import resource, sys, unlatch, time\n"
        "unlatch.read_log\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "begin = time.monotonic()\n"
        "try: unlatch.read_log(sys.argv[1])\n"
        "except unlatch.errors.ResourceLimitError as error: print(error)\n"
        "took = time.monotonic() - begin\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000, took < 5)\n"
    )
    run = subprocess.run([sys.executable, "-c", program, path], capture_output=True, check=True, text=True)
    assert "bytes would become" in run.stdout
    assert run.stdout.endswith("True True\n")


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc")
def test_damaged_streams_leave_no_memory_behind(tmp_path: Path) -> None:
    """Each took as much as a block has, which after some thousand files was all that there is."""

    def megabytes() -> float:
        status = Path("/proc/self/status").read_text()
        return int(re.search(r"VmSize:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]

    good = pa.compress(b"action,observation\na,b\n" * 20, "zstd", asbytes=True)
    path = tmp_path / "log.csv.zst"
    path.write_bytes(good[:4] + bytes([good[4] ^ 255]) + good[5:])
    for files in (20, 400):
        before = megabytes()
        for _ in range(files):
            with pytest.raises(DataError, match="cannot be unpacked"):
                read_log(path)
    assert megabytes() - before < 50


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_a31_text_that_unpacks_to_far_more_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setattr(compressed, "BOMB_BYTES", 1 << 20)
    path = save(tmp_path / f"log.csv{ending}", {"action": "a" * 2_000_000, "observation": "b" * 2_000_000})
    with pytest.raises(ResourceLimitError, match="bytes became more than"):
        read_log(path)


def members(**arrays_: Any) -> dict[str, bytes]:
    result = {}
    for name, array in arrays_.items():
        out = io.BytesIO()
        np.lib.format.write_array(out, np.asarray(array))
        result[f"{name}.npy"] = out.getvalue()
    return result


GOOD = members(action=np.arange(3), observation=np.arange(3))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({**GOOD, "../../x.npy": b"x"}, "no folders"),
        ({**GOOD, "x.txt": b"x"}, "an archive of arrays holds .npy files"),
        ({}, "no data"),
        ({**GOOD, "action.npy": GOOD["action.npy"][:-1]}, "but has 23 bytes"),
        ({**GOOD, "action.npy": GOOD["action.npy"].replace(b"(3,)", b"(9,)")}, r"declares the shape \(9,\)"),
        ({**GOOD, "action.npy": GOOD["action.npy"].replace(b"(3,)", b"(-3)")}, "cannot be read as NPZ"),
        ({**GOOD, "action.npy": GOOD["action.npy"].replace(b"<i8", b"|O8")}, "unpickled|cannot be read"),
        ({**GOOD, "action.npy": b"\x93NUMPY\x09\x00"}, "version"),
        (members(action=np.arange(3), observation=np.arange(4)), "lengths differ: action 3, observation 4"),
        (members(action=np.zeros((3, 2)), observation=np.arange(3)), "expected one entry per step"),
        (members(action=np.zeros(3, "M8[s]"), observation=np.arange(3)), "holds datetime64"),
        (members(action=[0, 5], action_names=["a"], observation=[0, 0]), "5, but there are 1 names"),
        (members(action=[0, -2], action_names=["a"], observation=[0, 0]), "-2, but there are 1 names"),
        (members(action=[0, 0], action_names=[1.5], observation=[0, 0]), "expected text"),
        (members(action=[0.5, 0], action_names=["a"], observation=[0, 0]), "expected whole numbers"),
        (members(action=np.array([b"\xff", b"a"]), observation=[0, 0]), "not UTF-8"),
        (members(action=np.array([2**31, 5], "u4").view("U1"), observation=[0, 0]), "what is no text"),
        (
            members(action=[0, 0], action_names=np.array([2**31], "u4").view("U1"), observation=[0, 0]),
            "holds what is no text",
        ),
    ],
)
def test_c3_c4_archives_that_lie(tmp_path: Path, content: dict[str, bytes], message: str) -> None:
    path = tmp_path / "log.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    with pytest.raises(DataError, match=message):
        read_log(path)


def test_members_of_one_name(tmp_path: Path) -> None:
    path = tmp_path / "log.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("action.npy", "observation.npy"):
            archive.writestr(name, GOOD["action.npy"])
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("action.npy", GOOD["action.npy"])
    with pytest.raises(DataError, match="more than one array is called 'action'"):
        read_log(path)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["<i2", ">i8", "<f8", "<u8"])
def test_a41_plain_arrays_of_columns(tmp_path: Path, order: Any, kind: str) -> None:
    table = np.array([[0, 3, 1, 0], [1, 2, 0, 0], [0, 3, 5, 9]], dtype=kind, order=order)
    np.save(tmp_path / "log.npy", table)
    log = read_log(tmp_path / "log.npy")
    assert log == Trajectory.from_symbols(
        ["0", "1", "0"], ["3", "2", "3"], rewards=[1, 0, 5], episode_starts=[0, 2]
    )
    np.save(tmp_path / "log.npy", table[:, 0])
    with pytest.raises(DataError, match="expected named fields"):
        read_log(tmp_path / "log.npy")


def test_a29_cells_too_long_for_symbols(tmp_path: Path) -> None:
    cells = pa.table({"action": ["a" * 50_000, "b"], "observation": ["x", "y"]})
    pq.write_table(cells, tmp_path / "log.parquet")
    for source in (cells, tmp_path / "log.parquet"):
        with pytest.raises(DataError, match="longer than 256 bytes"):
            read_log(source)


# ---------------------------------------------------------------- several files


def test_files_are_read_one_after_the_other(tmp_path: Path) -> None:
    names = ["part-2.csv", "part-10.parquet", "part-1.npz"]
    for i, name in enumerate(names):
        save(tmp_path / name, {"action": [i, i], "observation": ["x", f"o{i}"], "episode": [0, 1]})
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".part-1.crc").write_text("")
    log = read_log(tmp_path)
    assert [log.action_names[a] for a in log.actions] == ["2", "2", "0", "0", "1", "1"]
    assert log.n_episodes == 6  # an episode 0 of another file is another episode
    assert read_log([tmp_path / name for name in ("part-1.npz", "part-2.csv", "part-10.parquet")]) == log
    (tmp_path / "notes.md").write_text("")
    with pytest.raises(DataError, match=r"notes.md: is no table"):
        read_log(tmp_path)


def test_parts_of_one_log_go_on(tmp_path: Path) -> None:
    whole = {"action": list("abcabc"), "observation": list("xyzxyz"), "episode": [5, 5, 5, 5, 6, 6]}
    expected = read_log(save(tmp_path / "whole.csv", whole))
    parts = [
        save(tmp_path / name, {key: values[a:b] for key, values in whole.items()})
        for name, a, b in (("1.csv", 0, 2), ("2.parquet", 2, 5), ("3.npz", 5, 6))
    ]
    assert read_log(parts, continued=True) == expected
    assert read_log(parts).n_episodes == 4
    with pytest.raises(DataError, match="an episode that had ended goes on"):
        read_log([parts[2], parts[0], parts[1]], continued=True)
    streams = [io.BytesIO(b"action,observation\na,x\n"), io.BytesIO(b"action,observation\nb,y\n")]
    assert read_log(streams, continued=True).n_episodes == 1


def test_files_of_one_log_have_the_same_columns(tmp_path: Path) -> None:
    one = save(tmp_path / "1.csv", {"action": "a", "observation": "x", "reward": [1]})
    two = save(tmp_path / "2.csv", {"action": "a", "observation": "x"})
    with pytest.raises(DataError, match="has not the same columns as"):
        read_log([one, two])
    assert len(read_log([one, two], reward=None)) == 2


def test_look_alikes_in_different_files(tmp_path: Path) -> None:
    one = save(tmp_path / "1.csv", {"action": ["\u00e9"], "observation": "x"})
    two = save(tmp_path / "2.csv", {"action": ["e\u0301"], "observation": "x"})
    with pytest.raises(DataError, match=r"different code points on lines 2 of .*1.csv and 2"):
        read_log([one, two])


def test_a_dataset_of_minari_is_read_by_another_door() -> None:
    with pytest.raises(
        UsageError, match=r"from_minari\('D4RL/door-v2'\).*unlatch record minari:D4RL/door-v2"
    ):
        read_log("minari:D4RL/door-v2")


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the folder holds no table"):
        read_log(tmp_path)


# ---------------------------------------------------------------- chunks


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("ending", ENDINGS)
def test_chunks_are_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, size: int) -> None:
    monkeypatch.setattr(delimited, "ROWS_PER_CALL", 3)
    monkeypatch.setattr(arrow, "ROWS_PER_BATCH", 3)
    monkeypatch.setattr(arrays, "ROWS_PER_BATCH", 3)
    path = tmp_path / f"log{ending}"
    write_log(path, FULL)
    chunks = list(iterate_log(path, chunk=size))
    assert [len(chunk) for chunk in chunks[:-1]] == [size] * (len(chunks) - 1)
    assert [chunk.start for chunk in chunks] == list(range(0, len(FULL), size))
    names = chunks[-1].action_names, chunks[-1].observation_names, chunks[-1].first_observation_names
    for chunk in chunks:
        known = chunk.action_names, chunk.observation_names, chunk.first_observation_names
        assert all(end[: len(part)] == part for end, part in zip(names, known, strict=True))
    actions = [names[0][code] for chunk in chunks for code in chunk.actions]
    assert actions == [FULL.action_names[code] for code in FULL.actions]
    first = [names[2][code] for chunk in chunks for code in chunk.first_observations]
    assert first == [FULL.first_observation_names[code] for code in FULL.first_observations]
    starts = np.concatenate([chunk.episode_starts + chunk.start for chunk in chunks])
    assert starts.tolist() == FULL.episode_starts.tolist()
    for name in ("rewards", "probabilities", "terminated"):
        whole = np.concatenate([getattr(chunk, name) for chunk in chunks])
        assert whole.tolist() == getattr(FULL, name).tolist()


def test_p9_windows_are_the_same_however_a_log_is_cut(tmp_path: Path) -> None:
    """A35, P9: counting in chunks, with as many steps carried over as a window needs."""
    log = unlatch.simulate(unlatch.domains.tiger(), 30, total=300, rng=1)
    log = Trajectory(log.actions, log.observations, episode_starts=np.arange(0, 300, 30))
    write_log(tmp_path / "log.csv", log)
    for size in (1, 2, 7, 64, 300):
        counts: dict[tuple[str, ...], int] = {}
        carried: list[tuple[str, str]] = []
        for chunk in iterate_log(tmp_path / "log.csv", chunk=size):
            for t in range(len(chunk)):
                carried = [] if t in chunk.episode_starts else carried[-2:]
                carried.append(
                    (chunk.action_names[chunk.actions[t]], chunk.observation_names[chunk.observations[t]])
                )
                if len(carried) == 3:
                    counts[str(carried)] = counts.get(str(carried), 0) + 1
        assert sum(counts.values()) == 10 * (30 - 3 + 1)
        expected: dict[str, int] = {}
        pairs = [
            (log.action_names[a], log.observation_names[o])
            for a, o in zip(log.actions.tolist(), log.observations.tolist(), strict=True)
        ]
        for e in range(10):
            for t in range(30 * e, 30 * e + 28):
                key = str(pairs[t : t + 3])
                expected[key] = expected.get(key, 0) + 1
        assert counts == expected


@pytest.mark.parametrize("options", [{"chunk": 0}, {"chunk": 1.5}, {"colour": 1}, {"missing": "x"}])
def test_options_of_chunks(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        list(iterate_log(io.BytesIO(b"action,observation\na,b\n"), **options))


def test_options_that_are_handed_on_are_those_of_reading() -> None:
    declared = get_type_hints(read_log)
    assert get_type_hints(ReadOptions) == {name: declared[name] for name in read_log.__kwdefaults__}
    assert checked_options({}) == read_log.__kwdefaults__


@pytest.mark.parametrize("option", ["header", "sort", "continued", "strict"])
@pytest.mark.parametrize("read", [read_log, unlatch.inspect_log, lambda *a, **k: list(iterate_log(*a, **k))])
def test_what_is_neither_true_nor_false_is_no_answer(read: Any, option: str) -> None:
    with pytest.raises(UsageError, match=f"{option} must be True or False, got 'no'"):
        read(io.BytesIO(b"action,observation\na,b\n"), **{option: "no"})


def test_an_option_that_there_is_not() -> None:
    for read in (unlatch.inspect_log, iterate_log):
        with pytest.raises(UsageError, match="no option 'actions'; there are action"):
            read(io.BytesIO(b"action,observation\na,b\n"), actions="a")


def test_what_is_wrong_with_the_whole_comes_after_the_last_chunk() -> None:
    chunks = iterate_log(io.BytesIO(b"action,observation\na,b\na,\na,b\n"), chunk=1)
    assert len(next(chunks)) == 1
    with pytest.raises(DataError, match="an empty cell"):
        list(chunks)


# ---------------------------------------------------------------- the order of rows


def table(text: str, **options: Any) -> Trajectory:
    return read_log(io.BytesIO(text.encode()), **options)


def names_of(log: Trajectory) -> list[str]:
    return [
        log.action_names[a] + log.observation_names[o]
        for a, o in zip(log.actions.tolist(), log.observations.tolist(), strict=True)
    ]


def test_a37_environments_in_turns() -> None:
    log = table(
        "environment,action,observation,terminated\nA,a,1,0\nB,b,2,0\nA,c,3,1\nB,d,4,0\nA,e,5,0\nB,f,6,0\n"
    )
    assert names_of(log) == ["a1", "c3", "e5", "b2", "d4", "f6"]
    assert log.episode_starts.tolist() == [0, 2, 3]
    episodes = (
        "environment,episode,action,observation\nA,0,a,1\nB,0,b,2\nA,0,c,3\nB,1,d,4\nA,1,e,5\nB,1,f,6\n"
    )
    assert table(episodes).episode_starts.tolist() == [0, 2, 3, 4]
    first = "environment,action,observation\nA,,x\nB,,y\nA,c,3\nB,d,4\n"
    assert table(first).first_observations.tolist() == [0, 1]


def test_a37_repeated_step_numbers_without_environments() -> None:
    text = "env,step,action,observation\nA,0,a,1\nB,0,b,2\nA,1,c,3\nB,1,d,4\n"
    with pytest.raises(DataError, match=r"line 3, column 'step': step 0 stands twice .*--environment"):
        table(text)
    assert table(text, environment="env").episode_starts.tolist() == [0, 2]
    assert table(text, step=None).n_episodes == 1


def test_a38_steps_out_of_order() -> None:
    text = "episode,step,action,observation\n0,1,b,2\n0,0,a,1\n0,2,c,3\n1,1,e,5\n1,0,d,4\n"
    with pytest.raises(DataError, match=r"line 3, column 'step': step 0 comes after a higher one.*--sort"):
        table(text)
    log = table(text, sort=True)
    assert names_of(log) == ["a1", "b2", "c3", "d4", "e5"]
    assert log.episode_starts.tolist() == [0, 3]
    with pytest.raises(UsageError, match="needs a column that numbers the steps"):
        table("action,observation\na,1\n", sort=True)
    with pytest.raises(DataError, match="stands twice"):
        table("step,action,observation\n1,b,2\n1,a,1\n", sort=True)


def test_a35_missing_steps_begin_an_episode() -> None:
    log = table("step,action,observation\n0,a,1\n1,b,2\n5,c,3\n6,d,4\n7,e,5\n")
    assert log.episode_starts.tolist() == [0, 2]
    assert log.diagnostics["step_gaps"].details == {"gaps": 1}
    with pytest.raises(DataError, match="it does not number the steps"):
        table("step,action,observation\n0,a,1\n4,b,2\n8,c,3\n")
    with pytest.raises(DataError, match="'x' is not a finite number"):
        table("step,action,observation\n0,a,1\nx,b,2\n")
    with pytest.raises(DataError, match="steps are missing inside an episode that has a first"):
        table("step,action,observation\n,,dark\n0,a,1\n1,b,2\n2,b,2\n5,c,3\n")


def test_a33_observations_before_their_action() -> None:
    text = "episode,observation,action,reward\n0,s,a,1\n0,t,b,2\n0,u,c,3\n1,s,d,4\n1,t,e,5\n"
    log = table(text, order="observation-first")
    assert names_of(log) == ["at", "bu", "dt"]
    assert log.rewards.tolist() == [1, 2, 4]
    assert [log.first_observation_names[o] for o in log.first_observations] == ["s", "s"]
    assert log.diagnostics["unseen_outcomes"].details == {"steps": 2}


def test_a33_endings_need_what_was_seen_last() -> None:
    text = "observation,action,terminated\ns,a,0\nt,b,1\n"
    with pytest.raises(DataError, match="line 3, column 'terminated': the episode ended here"):
        table(text, order="observation-first")
    log = table(text + "u,,\ns,a,0\nt,a,0\n", order="observation-first")
    assert names_of(log) == ["at", "bu", "at"]
    assert log.terminated.tolist() == [False, True, False]
    assert log.n_episodes == 2


def test_a36_rows_that_only_reset() -> None:
    text = "action,observation,terminated,truncated\na,1,0,0\nb,2,1,0\nx,9,0,0\na,1,0,1\nx,9,0,0\nc,3,0,0\n"
    log = table(text, autoreset="next-step")
    assert names_of(log) == ["a1", "b2", "a1", "c3"]
    assert log.episode_starts.tolist() == [0, 2, 3]
    assert log.diagnostics["reset_rows"].details == {"rows": 2}
    assert len(table(text)) == 6
    with pytest.raises(UsageError, match="autoreset must be None or 'next-step'"):
        table(text, autoreset="same-step")


# ---------------------------------------------------------------- without pyarrow


def test_what_to_install_is_said(tmp_path: Path) -> None:
    save(tmp_path / "log.parquet", {"action": "a", "observation": "x"})
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import unlatch\n"
        "for call in (lambda: unlatch.read_log(sys.argv[1]), lambda: unlatch.write_log(sys.argv[1], log)):\n"
        "    log = unlatch.Trajectory([0], [0])\n"
        "    try: call()\n"
        "    except unlatch.errors.MissingDependencyError as error: print(error)\n"
        "unlatch.write_log(sys.argv[1] + '.npz', log); print(unlatch.read_log(sys.argv[1] + '.npz') == log)\n"
    )
    run = [sys.executable, "-c", program, tmp_path / "log.parquet"]
    said = subprocess.run(run, capture_output=True, check=True, text=True).stdout
    assert said.count("pip install 'unlatch[tables]'") == 2
    assert said.endswith("True\n")


# ---------------------------------------------------------------- writers that fail


@pytest.mark.parametrize("ending", ENDINGS)
def test_e4_a_disk_that_fills_up_leaves_the_old_log(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"log{ending}"
    write_log(path, PLAIN)
    old = path.read_bytes()
    log = unlatch.simulate(unlatch.domains.tiger(), 300_000, rng=1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 15, hard))
    try:
        with pytest.raises(StorageError, match="cannot write"):
            write_log(path, log)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == old
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("call", ["fsync", "replace", "fchmod"])
def test_e4_a_system_call_that_fails_leaves_the_old_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, call: str
) -> None:
    path = tmp_path / f"log{ending}"
    write_log(path, PLAIN)

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(os, call, fail)
        with pytest.raises(StorageError, match=r"cannot write: Permission denied"):
            write_log(path, FULL)
    assert read_log(path) == PLAIN
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("ending", ENDINGS)
def test_e1_a_killed_writer_leaves_the_old_log(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"log{ending}"
    write_log(path, PLAIN)
    program = (
        "import os, signal, sys, unlatch\n"
        "from unlatch.core.progress import listening\n"
        "log = unlatch.simulate(unlatch.domains.tiger(), 600_000, rng=1)\n"
        "with listening(lambda *told: os.kill(os.getpid(), signal.SIGKILL)):\n"
        "    unlatch.write_log(sys.argv[1], log)\n"
    )
    run = subprocess.run([sys.executable, "-c", program, path], check=False)
    assert run.returncode == -signal.SIGKILL
    assert read_log(path) == PLAIN
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


# ---------------------------------------------------------------- the documentation


def test_the_examples_of_the_documentation_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the sections about logs and environments in docs/files.md, in order."""
    page = (
        (Path(__file__).parents[2] / "docs" / "files.md")
        .read_text(encoding="utf-8")
        .partition("## Models")[0]
    )
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text(re.findall(r"```\n(action.*?)```", page, flags=re.S)[0])
    names: dict[str, Any] = {"unlatch": unlatch}
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.S):
        exec(compile(block, "files.md", "exec"), names)
    assert (
        capsys.readouterr().out == "('1|blue', '3|red')\nTrue\n0 2 ('left', 'right')\n2 1 ('left', 'right')\n"
    )
    assert len(names["log"]) == 2_000
    assert names["pole"].observation_names == ("left", "right")
