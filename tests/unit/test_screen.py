"""The screen: widths, wrapping, streams that fail."""

from __future__ import annotations

import io
import os

import pytest

from unlatch.errors import StorageError
from unlatch.show.screen import Screen, screen


def lines(stream: io.StringIO) -> list[str]:
    return stream.getvalue().splitlines()


@pytest.mark.parametrize(
    ("text", "width"),
    [("40", 40), ("5", 20), ("1000000", 10_000), ("²", 160), ("9" * 5000, 160), ("", 160), ("-3", 160)],
)
def test_columns_are_obeyed_where_they_make_sense(
    monkeypatch: pytest.MonkeyPatch, text: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", text)
    assert screen().width == width


def test_sentences_are_wrapped_at_the_width_and_words_are_not_broken() -> None:
    stream = io.StringIO()
    Screen(stream, 30, wraps=True).print(
        "one two three four five six seven eight /a/path/that/is/longer/than/the/width"
    )
    assert max(map(len, lines(stream)[:-1])) <= 30
    assert lines(stream)[-1] == "/a/path/that/is/longer/than/the/width"


def test_in_a_pipe_a_sentence_is_one_line() -> None:
    stream = io.StringIO()
    Screen(stream).print("word " * 100)
    assert len(lines(stream)) == 1


def test_tables_are_aligned_also_with_wide_characters() -> None:
    stream = io.StringIO()
    Screen(stream).table("title", ["state", "to 左"], [["0", "1.000"], ["右右", "."]])
    assert lines(stream) == ["title", " state  to 左", " ─────  ─────", " 0      1.000", " 右右       ."]


def test_what_is_printed_is_plain() -> None:
    stream = io.StringIO()
    output = Screen(stream)
    output.print("\x1b[31m")
    output.table("\x1b[1m", ["\x1b", "\u202e"], [["\x07", "[/x]"]])
    assert "\x1b" not in stream.getvalue()
    assert "\x07" not in stream.getvalue()
    assert "\u202e" not in stream.getvalue()
    assert "[/x]" in stream.getvalue()


def test_an_ascii_stream_gets_ascii() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", errors="strict")
    output = Screen(stream)
    output.print("1 ± 2 → 左")
    output.table("t", ["a"], [["b"]])
    output.flush()
    assert raw.getvalue().startswith(b"1 +- 2 -> \\u5de6\n")


def test_a_closed_stream_is_passed_over() -> None:
    output = Screen(None)
    output.print("nobody reads this")
    output.flush()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_a_storage_error() -> None:
    with open("/dev/full", "w", encoding="utf-8") as stream:
        output = Screen(stream)
        output.print("text")
        with pytest.raises(StorageError, match="No space left"):
            output.flush()
        with open(os.devnull, "wb") as nowhere:  # or closing would fail once more
            os.dup2(nowhere.fileno(), stream.fileno())
