"""Logs: every symbol as it stands in the file, or an error that says where and what to do."""

from __future__ import annotations

import ast
import csv
import gzip
import io
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unlatch import Trajectory, domains, read_log, simulate, write_log
from unlatch.core.progress import listening
from unlatch.errors import DataError, ResourceLimitError, StorageError, UnlatchError, UsageError
from unlatch.files.logs import chunks, columns, delimited, text

PANDAS_MISSING = [
    "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A",
    "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
]  # fmt: skip
VERBATIM = [
    *PANDAS_MISSING,
    "true",
    "False",
    "1e5",
    "01",
    "1",
    "1.0",
    "-1",
    "9007199254740993",
    "2.5",
    " ",
    "x y",
]


def pairs(log: Trajectory) -> list[tuple[str, str]]:
    return [
        (log.action_names[a], log.observation_names[o])
        for a, o in zip(log.actions.tolist(), log.observations.tolist(), strict=True)
    ]


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """Write some bytes or text to a file and read it as a log."""

    def reader(content: bytes | str, **options: Any) -> Trajectory:
        path = tmp_path / "log.csv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_log(path, **options)

    return reader


def refusal(read: Any, content: bytes | str, error: type[UnlatchError] = DataError, **options: Any) -> str:
    with pytest.raises(error) as caught:
        read(content, **options)
    assert type(caught.value) is error
    assert "log.csv" in str(caught.value)
    return str(caught.value)


def test_columns_are_found_by_name_in_any_order(read: Any) -> None:
    log = read("time,observation,reward,action\n0,dark,1.5,go\n1,light,-2,stay\n2,dark,1.5,go\n")
    assert pairs(log) == [("go", "dark"), ("stay", "light"), ("go", "dark")]
    assert log.rewards.tolist() == [1.5, -2.0, 1.5]
    assert log.n_episodes == 1
    assert log.diagnostics["ignored_columns"].details == {"columns": ["time"]}
    assert len(log.diagnostics) == 1


def test_other_names_of_columns(read: Any) -> None:
    log = read(
        "a,o,r,e,p\nx,y,1,2,.5\n", action="a", observation="o", reward="r", episode="e", probability="p"
    )
    assert pairs(log) == [("x", "y")]
    assert log.rewards.tolist() == [1.0]
    assert log.probabilities.tolist() == [0.5]
    assert len(log.diagnostics) == 0


@pytest.mark.parametrize("option", ["reward", "episode", "probability"])
def test_named_column_that_is_absent(read: Any, option: str) -> None:
    assert "no column 'r'" in refusal(read, "action,observation\nx,y\n", **{option: "r"})


def test_columns_by_position(read: Any) -> None:
    assert pairs(read("x,y\nz,w\n", header=False)) == [("x", "y"), ("z", "w")]
    log = read("x,y,1,a\nz,w,2,b\n", header=False)
    assert log.rewards.tolist() == [1.0, 2.0]
    assert log.episode_starts.tolist() == [0, 1]
    assert read("x,y,bad\n", header=False, reward=None).rewards is None
    assert "5 columns without a header" in refusal(read, "1,2,3,4,5\n", header=False)


def test_header_taken_for_a_step_is_noted(read: Any) -> None:
    log = read("action,observation\nx,y\n", header=False)
    assert len(log) == 2
    assert "header_like_row" in log.diagnostics


def test_names_are_sorted_numbers_by_value(read: Any) -> None:
    log = read("action,observation\n10,b\n9,a\n")
    assert log.action_names == ("9", "10")
    assert log.observation_names == ("a", "b")
    assert pairs(log) == [("10", "b"), ("9", "a")]


# ---------------------------------------------------------------- hardly any data


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\r\n", b"\xef\xbb\xbf"])
def test_a1_empty_file(read: Any, content: bytes) -> None:
    assert refusal(read, content).endswith("no data")


@pytest.mark.parametrize(
    "content", ["action,observation\n", "action,observation", "action,observation\n\n\n"]
)
def test_a2_header_only(read: Any, content: str) -> None:
    assert "0 steps" in refusal(read, content)


@pytest.mark.parametrize("steps", [1, 2])
def test_a3_few_steps_can_be_read(read: Any, steps: int) -> None:
    assert len(read("action,observation\n" + "x,y\n" * steps)) == steps


# ---------------------------------------------------------------- missing cells, rewards


@pytest.mark.parametrize(
    ("rows", "line", "count", "what"),
    [
        ("x,y\n,\nx,y\n,\n", 3, 2, "an empty cell in column 'action'"),
        ('x,y\nx,""\nx,y\n', 3, 1, "an empty cell in column 'observation'"),
        ("x,y\n\nx,y\n", 3, 1, "a blank line"),
        ("x,y\n\n\nx,\nx,y\n", 3, 3, "a blank line"),
    ],
)
def test_a6_missing_cells(read: Any, rows: str, line: int, count: int, what: str) -> None:
    message = refusal(read, "action,observation\n" + rows)
    assert f"line {line}: {what}; {count} rows lack" in message
    assert "--missing split" in message
    log = read("action,observation\n" + rows, missing="split")
    assert log.n_episodes > 1 or len(log) == 1 or rows.endswith(",\n")
    assert log.diagnostics["missing_split"].details == {"rows": count, "line": line}


def test_a6_split_begins_an_episode_after_every_gap(read: Any) -> None:
    log = read("action,observation\n,\n1,a\n2,a\n,a\n\n3,a\n4,a\n5,\n", missing="split")
    assert [a for a, _ in pairs(log)] == ["1", "2", "3", "4"]
    assert log.episode_starts.tolist() == [0, 2]
    assert log.diagnostics["missing_split"].details["rows"] == 4


def test_a6_cells_of_an_incomplete_row_are_not_read(read: Any) -> None:
    log = read("action,observation,reward,episode\na,b,1,e\n,,,\na,b,2,e\n", missing="split")
    assert log.rewards.tolist() == [1.0, 2.0]
    assert log.episode_starts.tolist() == [0, 1]


def test_a6_unknown_treatment_of_missing_cells(read: Any) -> None:
    with pytest.raises(UsageError, match="'refuse' or 'split'"):
        read("action,observation\nx,y\n", missing="drop")


@pytest.mark.parametrize(
    "cell",
    [
        "nan",
        "NaN",
        "inf",
        "-inf",
        "1e999",
        "",
        "x",
        "1_000",
        "١",
        "0x10",
        " 1",
        "1,5",
        "--1",
        "1e",
        "9" * 2000,
    ],
)
def test_a7_reward_that_is_no_finite_number(read: Any, cell: str) -> None:
    content = f'action,observation,reward\nx,y,1\nx,y,"{cell}"\n'
    message = refusal(read, content)
    assert "line 3, column 'reward'" in message
    assert "reward=None (--ignore-reward)" in message
    log = read(content, reward=None)
    assert log.rewards is None
    assert log.diagnostics["ignored_columns"].details == {"columns": ["reward"]}


@pytest.mark.parametrize(
    ("cell", "what"),
    [
        ("nan", "'nan' is not a finite number"),
        ("", "'' is not a finite number"),
        ("50%", "'50%' is not a finite number"),
        ("0", "0.0; the action was taken"),
        ("-0.5", "-0.5; the action was taken"),
        ("1.0000001", "1.0000001; the action was taken"),
        ("50", "50.0; the action was taken"),
    ],
)
def test_probability_that_is_none(read: Any, cell: str, what: str) -> None:
    content = f"probability,action,observation\n.5,x,y\n1,x,y\n{cell},x,y\n2,x,y\n"
    message = refusal(read, content)
    assert f"line 4, column 'probability': {what}" in message
    assert "probability=None (--ignore-probability)" in message
    log = read(content, probability=None)
    assert log.probabilities is None
    assert log.diagnostics["ignored_columns"].details == {"columns": ["probability"]}


def test_probabilities_of_incomplete_rows_are_not_read(read: Any) -> None:
    log = read("action,observation,probability\na,b,.5\n,,9\na,b,1\n", missing="split")
    assert log.probabilities.tolist() == [0.5, 1.0]


def test_rewards_are_the_nearest_floats(read: Any) -> None:
    cells = [
        "0.1",
        "-0",
        "1e-300",
        "12345678901234567890",
        "0.30000000000000004",
        ".5",
        "5.",
        "+1E2",
        "1e22",
        "1e23",
    ]
    log = read("action,observation,reward\n" + "".join(f"x,y,{cell}\n" for cell in cells))
    assert [repr(r) for r in log.rewards.tolist()] == [repr(float(cell)) for cell in cells]


# ---------------------------------------------------------------- symbols


@pytest.mark.parametrize("symbol", VERBATIM)
def test_a8_to_a13_symbols_are_kept_verbatim(read: Any, symbol: str) -> None:
    log = read(f"action,observation\n{symbol},{symbol}\nleft,1\n7,left\n")
    assert pairs(log) == [(symbol, symbol), ("left", "1"), ("7", "left")]


@pytest.mark.parametrize("count", [10_001, 20_000, 150_000])
def test_a15_continuous_column(read: Any, count: int) -> None:
    rows = "".join(f"go,{i}\n" for i in range(count))
    message = refusal(read, "action,observation\n" + rows, ResourceLimitError)
    assert "column 'observation' looks continuous: 10001 distinct values" in message
    told = int(message.split("distinct values in ")[1].split()[0])
    assert 10_001 <= told <= count  # no row is counted twice


def test_a15_continuous_column_of_a_short_file(read: Any) -> None:
    rows = "".join(f"{i},go\n" for i in range(101))
    assert "101 distinct values in 101 rows" in refusal(
        read, "action,observation\n" + rows, ResourceLimitError
    )


@pytest.mark.parametrize(
    "symbol", ["右", "🙂", "שלום", "e\u0301", "x" * 256, "a'b", "<b>", "../x", "😀" * 64]
)
def test_a17_names_in_any_script(read: Any, symbol: str) -> None:
    (action, _) = pairs(read(f"action,observation\n{symbol},y\n"))[0]
    assert action == ("é" if symbol == "e\u0301" else symbol)


@pytest.mark.parametrize(
    ("symbol", "message"),
    [
        ("a\tb", "control character"),
        ("a\x1bb", "control character"),
        ('"a\nb"', "control character"),
        ("x" * 257, "longer than 256 bytes"),
        ("x" * 10_240, "longer than 256 bytes"),
        ("a\0b", "NUL byte"),
    ],
)
def test_a17_names_that_are_refused(read: Any, symbol: str, message: str) -> None:
    said = refusal(read, f"action,observation\nx,y\n{symbol},y\n")
    assert message in said
    assert "line 3" in said
    assert "\x1b" not in said


def test_a17_look_alikes(read: Any) -> None:
    message = refusal(read, "action,observation\né,y\nx,y\ne\u0301,y\n")
    assert "column 'action': 'é' is spelled with different code points on lines 2 and 4" in message


def test_a18_blanks_and_case_stay_apart_and_are_noted(read: Any) -> None:
    log = read("action,observation\nleft,a\nleft ,A\n left,b\nright,b\n")
    assert log.action_names == (" left", "left", "left ", "right")
    assert log.observation_names == ("A", "a", "b")
    noted = [entry for entry in log.diagnostics if entry.name == "similar_names"]
    assert [entry.details["groups"] for entry in noted] == [[[" left", "left", "left "]], [["A", "a"]]]


# ---------------------------------------------------------------- tables


def test_a19_columns_of_one_name(read: Any) -> None:
    message = refusal(read, "action,observation,x,observation,x\n1,2,3,4,5\n")
    assert "more than one column is called 'observation', 'x'" in message


def test_a20_header_missing(read: Any) -> None:
    message = refusal(read, "left,dark\nright,light\n")
    assert "'left', 'dark'" in message
    assert "--no-header" in message
    assert len(read("left,dark\nright,light\n", header=False)) == 2


@pytest.mark.parametrize(
    ("rows", "line", "fields"),
    [
        ("x,y,1\nx,y,1\n", 2, 3),
        ("x,y\nx\n", 3, 1),
        ("x,y\nx,y\nx,y,\n", 4, 3),
        ('x,y\n""\n', 3, 1),
    ],
)
def test_a21_ragged_rows(read: Any, rows: str, line: int, fields: int) -> None:
    message = refusal(read, "action,observation\n" + rows)
    assert f"line {line}: {fields} fields where the first row has 2" in message


def test_a21_lines_inside_quotes_are_counted(read: Any) -> None:
    message = refusal(read, 'action,observation,note\nx,y,"a\nb"\nx,y\n')
    assert "line 4: 2 fields where the first row has 3" in message


PLAIN = "action,observation\nleft,a\nright,b\nleft,b\n"


@pytest.mark.parametrize(
    "content",
    [
        PLAIN.replace("\n", "\r\n").encode(),
        PLAIN.replace("\n", "\r").encode(),
        b"\xef\xbb\xbf" + PLAIN.encode(),
        PLAIN.encode() + b"\n\n",
        PLAIN.replace("\n", "\r\n").encode() + b"\r\n\r\n",
        b"\n\n" + PLAIN.encode(),
        PLAIN.replace("tion\n", "tion\n\n").encode(),
        PLAIN.replace("left", '"left"').encode(),
    ],
)
def test_a22_line_ends_and_marks(read: Any, content: bytes) -> None:
    assert read(content) == read(PLAIN)
    assert len(read(content).diagnostics) == 0


def test_a22_lines_are_counted_alike(read: Any) -> None:
    for end in ("\n", "\r\n", "\r"):
        content = end.join(["", "action,note,observation", "", 'x,"x', 'y",y', "bad"]) + end
        assert "line 6: 1 fields" in refusal(read, content)


@pytest.mark.parametrize(
    ("content", "byte", "remedy"),
    [
        ("action,observation\nä,y\n".encode("latin-1"), 19, "--encoding latin-1"),
        ("action,observation\nä,y\n".encode("utf-16"), 0, "--encoding utf-16"),
        (b"action,observation\nx,y\n\xff\xfe,y\n", 23, "--encoding"),
    ],
)
def test_a23_wrong_encoding(read: Any, content: bytes, byte: int, remedy: str) -> None:
    message = refusal(read, content)
    assert f"byte {byte} is not utf-8" in message
    assert remedy in message


@pytest.mark.parametrize(
    "encoding", ["latin-1", "utf-16", "utf-16-le", "utf-8-sig", "cp1252", "UTF8", "utf-32"]
)
def test_a23_other_encodings(read: Any, encoding: str) -> None:
    log = read("action,observation\nä,y\nö,ü\n".encode(encoding), encoding=encoding)
    assert pairs(log) == [("ä", "y"), ("ö", "ü")]


def test_a23_utf16_without_mark(read: Any) -> None:
    assert "--encoding utf-16" in refusal(read, "action,observation\nx,y\n".encode("utf-16-le"))


@pytest.mark.parametrize("encoding", ["klingon", "hex", "undefined", "rot13", ""])
def test_a23_unknown_encoding(read: Any, encoding: str) -> None:
    with pytest.raises(UsageError, match="unknown encoding"):
        read(PLAIN, encoding=encoding)


def test_a23_character_cut_by_a_block(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    content = "action,observation\n" + "ä🙂,ö\n" * 50
    expected = read(content)
    monkeypatch.setattr(text, "BLOCK_BYTES", 64)
    monkeypatch.setattr(columns, "MAX_ROW_BYTES", 40)
    assert read(content) == expected
    assert read(content.encode("utf-16"), encoding="utf-16") == expected
    assert "byte 369" in refusal(read, content.encode()[:369] + b"\xff" + content.encode()[369:])


def test_a_long_text_is_read_by_another_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, path = np.random.default_rng(0), tmp_path / "log.csv"
    rows = [f"{a},{o}\n" for a, o in rng.choice(["left", "right", "up"], (2_000, 2))]
    path.write_text("action,observation\n" + "".join(rows))
    expected, others = read_log(path), set()
    utf8_blocks = text.utf8_blocks

    def watched(*given: Any) -> Any:
        for block in utf8_blocks(*given):
            others.add(threading.get_ident() != threading.main_thread().ident)
            yield block

    monkeypatch.setattr(text, "BLOCK_BYTES", 256)
    monkeypatch.setattr(
        columns, "MAX_ROW_BYTES", 200
    )  # so that the names of the columns are sought in the first block
    monkeypatch.setattr(text, "utf8_blocks", watched)
    found = read_log(path)
    assert found == expected
    assert others == {False, True}  # that block is read by this one
    path.write_text("action,observation\n" + "".join([*rows[:1_500], "left\n", *rows[1_500:]]))
    with pytest.raises(DataError, match="line 1502: 1 fields"):
        read_log(path)


def test_codes_that_two_threads_translate_are_in_their_places(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"action,observation\n" + b"b,y\na,y\na,x\n" * 500_000)
    log = read_log(path)
    assert (log.action_names, log.observation_names) == (("a", "b"), ("x", "y"))
    np.testing.assert_array_equal(log.actions, np.tile([1, 0, 0], 500_000))
    np.testing.assert_array_equal(log.observations, np.tile([1, 1, 0], 500_000))


@pytest.mark.parametrize(("delimiter", "spelled"), [(";", "';'"), ("\t", "'\\t'"), ("|", "'|'")])
def test_a24_wrong_delimiter(read: Any, delimiter: str, spelled: str) -> None:
    content = PLAIN.replace(",", delimiter)
    message = refusal(read, content)
    assert "1 column found" in message
    assert f"--delimiter {spelled}" in message
    assert read(content, delimiter=delimiter) == read(PLAIN)


def test_a24_delimiters(read: Any) -> None:
    assert read(PLAIN.replace(",", "\t"), delimiter="\\t") == read(PLAIN)
    assert "--delimiter" in refusal(read, "nothing\nelse\n")
    for delimiter in ("", ",,", '"', "\n", "§"):
        with pytest.raises(UsageError, match="one ASCII character"):
            read(PLAIN, delimiter=delimiter)


def test_columns_must_differ(read: Any) -> None:
    with pytest.raises(UsageError, match="a column each"):
        read(PLAIN, action="x", observation="x")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ('x,y\nx,"y\nx,y\n', "line 3: a quote is opened in this row and never closed"),
        ('x,y\nx,"y"z\n', "line 3: text after a closing quote"),
        ("x,y\nx,\0\n", "line 3: a NUL byte"),
        ("x,y\n" + "x" * (1 << 20) + ",y\n", "line 3: a row longer than 1048576 bytes"),
        ("x,y\n" + "x" * (1 << 23) + ",y\n", "line 3: a row longer than 1048576 bytes"),
        ('x,y\n"' + "x,y\n" * (1 << 21), "line 3: a row longer than 1048576 bytes"),
    ],
)
def test_a25_damaged_rows(read: Any, rows: str, message: str) -> None:
    assert message in refusal(read, "action,observation\n" + rows)


@pytest.mark.parametrize(
    "header", ['"action,observation\nx,y\n', 'action,"observation"x\nx,y\n', "a" * (1 << 21)]
)
def test_a25_damaged_header(read: Any, header: str) -> None:
    assert "line 1" in refusal(read, header)


def test_a25_endless_header(read: Any) -> None:
    names = ",".join(f"column{i}" for i in range(200_000))
    assert "line 1: a row longer than 1048576 bytes" in refusal(read, f"action,observation,{names}\nx,y\n")
    assert "more than one column is called ''" in refusal(read, "action,observation" + "," * 1_000_000 + "\n")


@pytest.mark.parametrize("tail", ["11,2", "1", "11,", ",", '"11",2', '11,"2"', "x,y,z", "1,ä"])
def test_a26_truncated_last_line(read: Any, tail: str) -> None:
    content = "action,observation\n10,20\n11,21\n"
    log = read((content + tail).encode())
    assert log == read(content)
    assert log.diagnostics["truncated_tail"].details == {"steps": 1, "line": 4}
    message = refusal(read, content + tail, strict=True)
    assert "line 4: no line end" in message
    assert "truncated_tail" not in read(content, strict=True).diagnostics


def test_a26_truncated_character(read: Any) -> None:
    content = "action,observation\n10,20\n11,ä"
    assert len(read(content.encode()[:-1])) == 1
    assert "truncated_tail" in read(content.encode("utf-16")[:-1], encoding="utf-16").diagnostics
    half = "action,observation\n10,20\n".encode("utf-16") + b"1"
    assert "truncated_tail" in read(half, encoding="utf-16").diagnostics


def test_a26_only_step_is_truncated(read: Any) -> None:
    assert "0 steps; its only row has no line end" in refusal(read, "action,observation\n1,2")


@pytest.mark.parametrize(
    "magic",
    [
        b"\x1f\x8b\x08\x00",
        b"PK\x03\x04\x14",
        b"\x28\xb5\x2f\xfd",
        b"PAR1\x15\x00",
        b"\xfd7zXZ\x00",
        b"\x93NUMPY\x01",
    ],
)
def test_a31_other_kinds_of_file(read: Any, magic: bytes) -> None:
    assert "not a table of text" in refusal(read, magic + bytes(50))


# ---------------------------------------------------------------- episodes


def test_episode_begins_where_its_column_changes(read: Any) -> None:
    log = read('episode,action,observation\nb,1,x\nb,2,x\na,3,x\n,4,x\n"c""",5,x\n"c""",6,x\n')
    assert log.episode_starts.tolist() == [0, 2, 3, 4]
    assert read("episode,action,observation\nb,1,x\na,2,x\nb,3,x\n", episode=None).n_episodes == 1


def test_episode_that_comes_back(read: Any) -> None:
    message = refusal(read, "episode,action,observation\nb,1,x\na,2,x\na,3,x\nb,4,x\n")
    assert "line 5, column 'episode': an episode that had ended goes on" in message


@pytest.mark.parametrize(
    ("names", "comes_back"),
    [
        ([0, 1, 2, 10, 11, 40], 2),
        ([5, 3, 4], 5),
        (["1", "01", "x", "2", ""], "01"),
        (["9" * 18, "9" * 19, "9" * 25], "9" * 18),
        ([7, "x", 8, 9], 7),
    ],
)
def test_names_of_episodes_of_any_form(read: Any, names: list[Any], comes_back: Any) -> None:
    """By their numbers while these rise, else by their texts: nothing is mixed up when it changes."""
    rows = [(name, step) for name in names for step in range(300)]
    text = "action,observation,episode\n" + "".join(f"a,{step % 7},{name}\n" for name, step in rows)
    assert read(text).episode_starts.tolist() == list(range(0, len(rows), 300))
    assert read(text.replace("\n", "\r\n")) == read(text)
    message = refusal(read, text + f"a,1,{comes_back}\n")
    assert f"line {len(rows) + 2}, column 'episode': an episode that had ended goes on" in message


def test_many_different_cells(read: Any) -> None:
    """More than the quick tables have room for at first, or at all."""
    count = 20_000
    names = [f"o{(7919 * i) % 3000}" + "x" * (i % 3000 == 5) * 30 for i in range(count)]
    rewards = [f"{i / 8 if i > 400 else 1}" for i in range(count)]
    head = "action,observation,reward,episode\n"
    rows = [f"a{i % 3},{names[i]},{rewards[i]},{i // 1000}\n" for i in range(count)]
    log = read(head + "".join(rows))
    assert [log.observation_names[o] for o in log.observations] == names
    assert log.rewards is not None
    assert log.rewards.tolist() == list(map(float, rewards))
    for row in (100, 15_000):
        wrong = [*rows[:row], "a,o1,1..5,0\n", *rows[row:]] if row < 1000 else [*rows[:row], "a,o1,1..5,14\n"]
        assert f"line {row + 2}, column 'reward': '1..5' is not a finite number" in refusal(
            read, head + "".join(wrong)
        )


def test_line_ends_may_change_in_the_middle(read: Any) -> None:
    text = "action,observation,episode\r\n" + "a,x,0\r\n" * 500 + "a,y,0\n" * 500 + "b,x,1\r\n" * 500
    log = read(text)
    assert len(log) == 1500
    assert log == read(text.replace("\r\n", "\n"))
    assert "line 1502: 2 fields" in refusal(read, text + "a,b\n")


def test_episodes_across_calls_and_blocks(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    content = "action,observation,reward,episode\n" + "".join(
        f"a{i % 3},o{i % 5},{i / 8},e{i // 7}\n" for i in range(500)
    )
    expected = read(content)
    assert expected.episode_starts.tolist() == list(range(0, 500, 7))
    monkeypatch.setattr(delimited, "ROWS_PER_CALL", 10)
    monkeypatch.setattr(text, "BLOCK_BYTES", 256)
    monkeypatch.setattr(columns, "MAX_ROW_BYTES", 40)
    assert read(content) == expected
    back = content + "a,o,1,e3\n"
    assert "line 502" in refusal(read, back)


@pytest.mark.parametrize("block", [40, 127, 128, 129, 160, 161, 300, 1000])
def test_lines_that_came_before_across_blocks(read: Any, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    """Short lines and long ones, most of them known, some new late, one of them without a line end."""
    rng = np.random.default_rng(4)
    steps = [(f"a{rng.integers(3)}", f"o{rng.integers(5)}" * int(rng.integers(1, 7))) for _ in range(900)]
    steps[700] = ("new", "never-before")
    content = "action,observation\n" + "".join(f"{a},{o}\n" for a, o in steps)
    monkeypatch.setattr(text, "BLOCK_BYTES", block)
    monkeypatch.setattr(columns, "MAX_ROW_BYTES", 40)  # else the first block takes it all
    log = read(content + "a1,o")
    assert pairs(log) == steps
    assert log.diagnostics["truncated_tail"].details == {"steps": 1, "line": 902}
    assert "line 902: 3 fields" in refusal(read, content + "a,b,c\n" + "a1,o1\n" * 50)


@pytest.mark.parametrize("filling", ["x" * 5_000, "é" * 2_047, "x" * 4_070, "a\nb" * 1_500])
def test_a_header_of_any_length(read: Any, filling: str) -> None:
    """Longer than what is looked at first, cut by that inside of a character, a line end or quotes."""
    for end in ("\n", "\r\n", "\r"):
        log = read(f'action,"{filling}",observation{end}left,1,dark{end}right,2,light{end}')
        assert pairs(log) == [("left", "dark"), ("right", "light")]
    message = refusal(read, f'action,"{filling},observation\nleft,1,dark\n')
    assert "line 1" in message


def test_a_log_is_read_where_the_system_lends_little(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for more than is needed may be refused; then there is less of it."""
    monkeypatch.setattr(delimited, "ROWS_PER_CALL", 50)
    monkeypatch.setattr(chunks, "ROOM", 1 << 45)
    content = "action,observation,reward\n" + "".join(f"a{i % 3},o{i % 4},{i}\n" for i in range(1_000))
    log = read(content)
    assert pairs(log) == [(f"a{i % 3}", f"o{i % 4}") for i in range(1_000)]
    assert log.rewards.tolist() == list(range(1_000))
    assert log.actions.base is None
    assert log.rewards.base is None


def test_gaps_across_calls(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    content = "action,observation\n" + "x,y\n" * 3 + "\n" * 5 + "x,y\n" * 2 + ",y\n" * 4 + "x,y\n" + "\n" * 9
    expected = read(content, missing="split")
    assert expected.episode_starts.tolist() == [0, 3, 5]
    assert expected.diagnostics["missing_split"].details == {"rows": 9, "line": 5}
    for rows in (1, 2, 3, 4):
        monkeypatch.setattr(delimited, "ROWS_PER_CALL", rows)
        log = read(content, missing="split")
        assert log == expected
        assert log.diagnostics == expected.diagnostics


# ---------------------------------------------------------------- endings


@pytest.mark.parametrize(
    ("yes", "no"),
    [("true", "false"), ("True", "FALSE"), ("1", "0"), ("1.0", "0.0"), ("yes", "no"), (" Y", "n")],
)
def test_endings_start_episodes(read: Any, yes: str, no: str) -> None:
    log = read(f"action,observation,terminated\na,x,{no}\nb,x,{yes}\na,y,{yes}\nb,y,{no}\n")
    assert log.terminated.tolist() == [False, True, True, False]
    assert log.episode_starts.tolist() == [0, 2, 3]
    assert len(log.diagnostics) == 0


def test_truncation_starts_an_episode_and_is_no_ending(read: Any) -> None:
    log = read("action,observation,terminated,truncated\na,x,0,1\na,x,1,1\na,x,1,0\na,x,0,0\n")
    assert log.episode_starts.tolist() == [0, 1, 2, 3]
    assert log.terminated.tolist() == [False, True, True, False]  # where both are said, it ended
    assert len(log.diagnostics) == 0


def test_truncation_alone_says_nothing_of_endings(read: Any) -> None:
    log = read("action,observation,truncated\na,x,false\na,x,true\na,x,false\n")
    assert log.terminated is None
    assert log.episode_starts.tolist() == [0, 2]


def test_truncation_inside_what_one_episode_is_called_cuts_it(read: Any) -> None:
    log = read("action,observation,episode,truncated\na,x,0,0\na,x,0,1\na,x,0,0\na,x,1,0\n")
    assert log.episode_starts.tolist() == [0, 2, 3]


@pytest.mark.parametrize("column", ["terminated", "truncated"])
@pytest.mark.parametrize("cell", ["", "2", "done", "nan", "-1", "tru", "x" * 3000])
def test_ending_that_is_neither_true_nor_false(read: Any, column: str, cell: str) -> None:
    content = f"action,observation,{column}\na,x,0\na,x,1\na,x,{cell}\n"
    message = refusal(read, content)
    assert (
        f"line 4, column '{column}': {cell[:40]!r} is neither true nor false; write true or false" in message
    )
    assert f"{column}=None (--ignore-{column})" in message
    log = read(content, **{column: None})
    assert log.terminated is None
    assert log.n_episodes == 1
    assert log.diagnostics["ignored_columns"].details == {"columns": [column]}


def test_episode_that_goes_on_after_its_ending(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    content = "action,observation,episode,terminated\na,x,0,0\na,x,0,1\na,x,0,0\n"
    for rows in (1, 2, 3):
        monkeypatch.setattr(delimited, "ROWS_PER_CALL", rows)
        message = refusal(read, content)
        assert "line 4, column 'episode': the episode goes on, though it terminated on line 3" in message
        assert "a number of its own" in message


def test_other_names_of_endings(read: Any) -> None:
    content = "action,observation,done,cut\na,x,0,1\na,x,1,0\na,x,0,0\n"
    log = read(content, terminated="done", truncated="cut")
    assert log.terminated.tolist() == [False, True, False]
    assert log.episode_starts.tolist() == [0, 1, 2]
    assert "no column 'over' for the terminated" in refusal(read, content, terminated="over")


# ---------------------------------------------------------------- first observations


def first(log: Trajectory) -> list[str]:
    return [log.first_observation_names[code] for code in log.first_observations.tolist()]


def test_rows_without_an_action_are_first_observations(read: Any) -> None:
    log = read("episode,action,observation,reward\n0,,dark,\n0,a,x,1\n0,b,y,2\n1,,light,0\n1,a,y,3\n")
    assert first(log) == ["dark", "light"]
    assert pairs(log) == [("a", "x"), ("b", "y"), ("a", "y")]
    assert log.observation_names == ("x", "y")
    assert log.first_observation_names == ("dark", "light")
    assert log.rewards.tolist() == [1.0, 2.0, 3.0]
    assert log.episode_starts.tolist() == [0, 2]
    assert len(log.diagnostics) == 0


def test_the_example_of_the_documentation(read: Any) -> None:
    page = (Path(__file__).parents[2] / "docs" / "files.md").read_text()
    log = read(page[page.index("**First observations.**") :].split("```\n")[1])
    assert first(log) == ["dark", "light"]
    assert log.terminated.tolist() == [False, True, False]
    assert log.episode_starts.tolist() == [0, 2]


def test_without_a_column_for_it_a_first_observation_starts_an_episode(read: Any) -> None:
    log = read("action,observation\n,x\na,x\n,y\na,y\nb,y\n")
    assert first(log) == ["x", "y"]
    assert log.episode_starts.tolist() == [0, 1]
    assert read(",x\na,x\n,y\na,y\nb,y\n", header=False) == log


def test_first_observations_and_endings(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    content = (
        "action,observation,probability,terminated,truncated\n,x,,,\na,x,.5,0,0\na,y,.5,1,0\n,y,0,0,false\n"
        'a,"y""",1,0,1\n,"y""",,,\na,y,1,no,no\n'
    )
    expected = read(content)
    assert first(expected) == ["x", "y", 'y"']
    assert expected.episode_starts.tolist() == [0, 2, 3]
    assert expected.terminated.tolist() == [False, True, False, False]
    for rows in (1, 2, 3, 4, 5):
        monkeypatch.setattr(delimited, "ROWS_PER_CALL", rows)
        assert read(content) == expected


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
def test_first_observation_in_the_middle_of_an_episode(
    read: Any, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(delimited, "ROWS_PER_CALL", rows)
    head = "action,observation,episode\n"
    message = refusal(read, head + ",x,0\na,x,0\n,x,0\na,x,0\n")
    assert "line 4, column 'action': an empty cell, in a row that is not the first of its episode" in message
    assert "--missing split" in message
    assert "line 3, column 'action'" in refusal(read, head + ",x,0\n,y,0\na,x,0\n")  # two for one episode


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
@pytest.mark.parametrize(
    ("content", "without", "with_one"),
    [
        ("action,observation,episode\n,x,0\na,x,0\na,x,1\n,x,2\na,x,2\n", 4, 2),
        ("action,observation,episode\na,x,0\n,x,1\na,x,1\n", 2, 3),
        ("action,observation\na,x\na,x\n,y\na,x\n", 2, 4),
        ("action,observation,terminated\n,x,\na,x,1\na,x,0\n", 4, 2),
        ("action,observation,episode\n,x,0\na,x,1\n", 3, 2),
    ],
)
def test_episode_without_a_first_observation_among_others(
    read: Any, monkeypatch: pytest.MonkeyPatch, content: str, without: int, with_one: int, rows: int
) -> None:
    monkeypatch.setattr(delimited, "ROWS_PER_CALL", rows)
    message = refusal(read, content)
    assert (
        f"line {without}: an episode begins without a first observation, but line {with_one} has" in message
    )
    assert "Give every episode one" in message
    assert "--missing split" in message


@pytest.mark.parametrize(
    ("column", "cell"), [("reward", "1"), ("probability", ".5"), ("terminated", "true"), ("truncated", "1")]
)
def test_first_observation_with_more_than_that(read: Any, column: str, cell: str) -> None:
    content = f"action,observation,{column}\n,x,{cell}\na,x,1\n"
    message = refusal(read, content)
    assert (
        f"line 2, column '{column}': the row has no action, so that this cell must be empty or zero"
        in message
    )
    assert first(read(content, **{column: None})) == ["x"]


def test_first_observations_of_episodes_without_steps_are_noted(
    read: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = "action,observation\n,x\n,y\na,x\n,z\n,x\na,x\n,y\n"
    for rows in (1, 2, 3, 100):
        monkeypatch.setattr(delimited, "ROWS_PER_CALL", rows)
        log = read(content)
        assert first(log) == ["y", "x"]
        assert log.diagnostics["empty_episodes"].details == {"episodes": 3}


def test_split_takes_rows_without_an_action_for_gaps(read: Any) -> None:
    log = read("action,observation\n,x\na,x\n,y\na,y\n", missing="split")
    assert log.first_observations is None
    assert log.diagnostics["missing_split"].details["rows"] == 2


def test_names_of_first_observations_are_checked(read: Any) -> None:
    message = refusal(read, "action,observation\n,\x07\na,x\n")
    assert "line 2, column 'observation'" in message
    assert "a symbol longer" in refusal(read, f"action,observation\n,{'x' * 2000}\na,x\n")


# ---------------------------------------------------------------- storage


def test_a39_file_that_grows_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(PLAIN)

    def append(stage: str, done: float, total: float) -> None:
        with open(path, "a") as handle:
            handle.write("left,a\n")

    with listening(append), pytest.raises(StorageError, match=r"log\.csv: changed while reading"):
        read_log(path)


@pytest.mark.parametrize("kind", ["pipe", "device", "loop", "missing"])
def test_a40_only_ordinary_files(tmp_path: Path, kind: str) -> None:
    path = Path("/dev/zero") if kind == "device" else tmp_path / "log.csv"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path)
    with pytest.raises(StorageError, match=str(path)):
        read_log(path)


@pytest.mark.parametrize(
    ("source", "error"),
    [
        (None, UsageError),
        (3, UsageError),
        (0.5, UsageError),
        ([], UsageError),
        ([3], UsageError),
        (["not-there.csv"], StorageError),
        ("", StorageError),
        (b"a\0b", StorageError),
        ("a\ud800b", StorageError),
        (".", DataError),
        ("x" * 5000, StorageError),
        ("/dev/null/x", StorageError),
    ],
)
def test_what_is_no_path_is_a_declared_error(source: Any, error: type[UnlatchError]) -> None:
    with pytest.raises(error):
        read_log(source)


@pytest.mark.parametrize(
    "options",
    [
        {"action": None},
        {"observation": 3},
        {"reward": 3},
        {"delimiter": None},
        {"delimiter": ""},
        {"delimiter": b","},
        {"encoding": None},
        {"encoding": 8},
        {"missing": None},
        {"missing": []},
        {"missing": np.zeros(2)},
        {"delimiter": np.zeros(2)},
    ],
)
def test_options_of_no_sense_are_usage_errors(read: Any, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        read("action,observation\n0,0\n", **options)


# ---------------------------------------------------------------- streams


class InPieces(io.RawIOBase):
    """A stream that gives a few bytes at a time and cannot be rewound, as a socket does."""

    def __init__(self, content: bytes, size: int) -> None:
        self._content, self._size = content, size

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        piece, self._content = self._content[: self._size], self._content[self._size :]
        return piece


STREAMED = "\ufeffaction,observation,reward\nlinks,é,1\nrechts,è,2\n".encode()


@pytest.mark.parametrize(
    "stream",
    [
        lambda: io.BytesIO(STREAMED),
        lambda: io.TextIOWrapper(io.BytesIO(STREAMED)),
        lambda: InPieces(STREAMED, 1),
        lambda: InPieces(STREAMED, 7),
        lambda: gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(STREAMED))),
    ],
    ids=["bytes", "text with bytes beneath", "byte by byte", "in pieces", "decompressed"],
)
def test_binary_stream_is_read_like_a_file(read: Any, stream: Any) -> None:
    assert read_log(stream()) == read(STREAMED)


def test_pipe_is_read_like_a_file(read: Any) -> None:
    program = "import sys; from unlatch import read_log; print(read_log(sys.stdin.buffer))"
    run = [sys.executable, "-c", program]
    output = subprocess.run(run, input=STREAMED, capture_output=True, check=True).stdout.decode()
    assert output.strip() == repr(read(STREAMED))


def test_stream_is_named_in_messages_and_left_open() -> None:
    stream = io.BytesIO(b"action,observation\n0\n")
    with pytest.raises(DataError, match="<BytesIO>, line 2: 1 fields"):
        read_log(stream)
    assert not stream.closed


def closed() -> io.BytesIO:
    stream = io.BytesIO(STREAMED)
    stream.close()
    return stream


class NotYet(io.RawIOBase):
    def read(self, size: int = -1) -> Any:
        return None


@pytest.mark.parametrize(
    ("stream", "error", "message"),
    [
        (
            io.StringIO("action,observation\n0,0\n"),
            UsageError,
            "gives str, not bytes; open it in binary mode",
        ),
        (closed(), StorageError, "cannot read: ValueError: I/O operation on closed file"),
        (NotYet(), StorageError, "nothing has come yet"),
        (
            gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(STREAMED)[:30])),
            StorageError,
            "cannot read: EOFError",
        ),
        (gzip.GzipFile(fileobj=io.BytesIO(STREAMED)), StorageError, "cannot read: Not a gzipped file"),
        (io.BytesIO(gzip.compress(STREAMED)), DataError, "compressed by gzip"),
        (io.BytesIO(b""), DataError, "no data"),
    ],
)
def test_stream_that_cannot_be_read(stream: Any, error: type[UnlatchError], message: str) -> None:
    with pytest.raises(error, match=message):
        read_log(stream)


def test_f9_flags_of_the_command_line_stand_behind_what_python_calls_them() -> None:
    folder = Path(text.__file__).parent
    for path in sorted(folder.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                bare = re.findall(r"(?<!\()(?<!, )--[a-z][a-z-]*", node.value)
                assert bare == [], f"{path.name}, line {node.lineno}"


def test_progress_is_reported_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", 16)
    (tmp_path / "log.csv").write_text(PLAIN)
    told: list[tuple[str, float, float]] = []
    with listening(lambda *report: told.append(report)):
        read_log(tmp_path / "log.csv")
    assert told == [("reading", done, len(PLAIN)) for done in (16, 32, len(PLAIN))]


# ---------------------------------------------------------------- twins and round trips

CELLS = st.text(st.sampled_from("ab01 \",;'é🙂=-"), min_size=1, max_size=4)


@given(
    rows=st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=12),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    delimiter=st.sampled_from([",", ";", "\t"]),
    block=st.integers(3, 40),
    calls=st.integers(1, 5),
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_agrees_with_the_csv_module(
    tmp_path: Path,
    rows: list[tuple[str, str, str]],
    quoting: Any,
    end: str,
    delimiter: str,
    block: int,
    calls: int,
) -> None:
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter, lineterminator=end, quoting=quoting)
    writer.writerows([("observation", "other", "action"), *rows])
    path = tmp_path / "log.csv"
    path.write_bytes(out.getvalue().encode())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(text, "BLOCK_BYTES", block)
        patched.setattr(columns, "MAX_ROW_BYTES", 40)  # else the first block takes it all
        patched.setattr(delimited, "ROWS_PER_CALL", calls)
        assert pairs(read_log(path, delimiter=delimiter)) == [(a, o) for o, _, a in rows]


@given(data=st.binary(max_size=60), header=st.booleans(), at=st.integers(0, 120), split=st.booleans())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_give_a_log_or_a_declared_error(
    tmp_path: Path, data: bytes, header: bool, at: int, split: bool
) -> None:
    good = (
        b'action,observation,reward,episode,probability,terminated\n,c,,x,,\nleft,"a ""b""",1,x,.5,no\n'
        b"right,b,-2.5,x,1,1\n"
    )
    path = tmp_path / "log.csv"
    path.write_bytes(good[:at] + data + good[at:])
    message = "a log"
    try:
        read_log(path, header=header, missing="split" if split else "refuse")
    except UnlatchError as error:
        message = str(error)
    assert message == "a log" or "log.csv" in message


NAMES = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=6)


@given(
    symbols=st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=15),
    rewards=st.one_of(
        st.none(), st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=15, max_size=15)
    ),
    probabilities=st.one_of(st.none(), st.lists(st.floats(0, 1, exclude_min=True), min_size=15, max_size=15)),
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=15),
    ended=st.one_of(st.none(), st.lists(st.booleans(), min_size=15, max_size=15)),
    first=st.one_of(st.none(), st.lists(NAMES, min_size=15, max_size=15)),
    chunk=st.integers(1, 20),
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_written_logs_read_back(
    tmp_path: Path,
    symbols: list[tuple[str, str]],
    rewards: list[float] | None,
    probabilities: list[float] | None,
    lengths: list[int],
    ended: list[bool] | None,
    first: list[str] | None,
    chunk: int,
) -> None:
    starts = [s for s in np.cumsum([0, *lengths]).tolist() if s < len(symbols)]
    last = {start - 1 for start in [*starts, len(symbols)]}
    actions, observations = ([pair[i] for pair in symbols] for i in (0, 1))
    try:
        log = Trajectory.from_symbols(
            actions,
            observations,
            rewards=rewards and rewards[: len(symbols)],
            episode_starts=starts,
            probabilities=probabilities and probabilities[: len(symbols)],
            terminated=ended and [t in last and ended[t] for t in range(len(symbols))],
            first_observations=first and first[: len(starts)],
        )
    except DataError:  # two names that Unicode takes for one
        return
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("unlatch.files.logs.write.STEPS_PER_CHUNK", chunk)
        write_log(tmp_path / "log.csv", log)
    back = read_log(tmp_path / "log.csv", strict=True)
    assert back == log
    assert repr(back.rewards) == repr(log.rewards)  # with the signs of zeros


def test_written_text(tmp_path: Path) -> None:
    log = Trajectory.from_symbols(
        ["=1+1", "go,go", '"'], ["-1", "a", "@"], rewards=[1, -0.5, 1e100], episode_starts=[0, 2]
    )
    write_log(tmp_path / "log.csv", log)
    assert (tmp_path / "log.csv").read_bytes() == (
        b'action,observation,reward,episode\n"=1+1","-1",1,0\n"go,go",a,-0.5,0\n"""","@",1e+100,1\n'
    )
    write_log(tmp_path / "log.csv", Trajectory([0, 1], [1, 0]))
    assert (tmp_path / "log.csv").read_bytes() == b"action,observation\n0,1\n1,0\n"
    told = Trajectory.from_symbols(
        ["go", "go", "go"],
        ["a", "b", "b"],
        rewards=[0, 1, 0],
        terminated=[False, True, False],
        first_observations=["=", "a"],
    )
    write_log(tmp_path / "log.csv", told)
    assert (tmp_path / "log.csv").read_text() == (
        'action,observation,reward,episode,terminated\n,"=",,0,\ngo,a,0,0,false\ngo,b,1,0,true\n,a,,1,\ngo,b,0,1,false\n'
    )


def test_zero_keeps_its_sign(tmp_path: Path) -> None:
    write_log(tmp_path / "log.csv", Trajectory([0, 0, 0], [0, 0, 0], rewards=[0.0, -0.0, 0.0]))
    rewards = read_log(tmp_path / "log.csv").rewards
    assert rewards is not None
    assert np.signbit(rewards).tolist() == [False, True, False]


def test_simulated_log_reads_back(tmp_path: Path) -> None:
    log = simulate(domains.tiger(), 3_000, episodes=4, rng=5)
    write_log(tmp_path / "log.csv", log)
    back = read_log(tmp_path / "log.csv")
    assert len(back.diagnostics) == 0
    assert pairs(back) == pairs(log)
    assert np.array_equal(back.rewards, log.rewards)
    assert np.array_equal(back.episode_starts, log.episode_starts)
    assert domains.tiger().log_likelihood(back) == pytest.approx(domains.tiger().log_likelihood(log))


@pytest.mark.parametrize("log", [None, [1, 2], "log.csv"])
def test_only_logs_are_written(tmp_path: Path, log: Any) -> None:
    with pytest.raises(UsageError, match="a Trajectory can be written"):
        write_log(tmp_path / "x.csv", log)


def test_log_without_steps_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="0 steps"):
        write_log(tmp_path / "log.csv", Trajectory([], []))
    assert os.listdir(tmp_path) == []
