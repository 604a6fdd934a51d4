"""Nothing that a terminal would act on gets through, and nothing else is changed."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from unlatch.show.safe import brief, columns, counted, encodable, plain

HOSTILE = [
    "\x1b[31mred\x1b[0m",
    "\x1b]8;;http://evil\x07link\x1b]8;;\x07",
    "\x9b31m",
    "a\rb",
    "a\nb",
    "a\bb",
    "\u202egnp.exe",
    "\u2066isolate\u2069",
    "zero\u200bwidth",
    "\ufeffmark",
    "line\u2028end",
    "\udcff",
    "\x00",
    "\U000e0041tag",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_whatever_a_terminal_acts_on_is_spelled_out(text: str) -> None:
    shown = plain(text)
    assert all(unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in shown)
    assert "\\" in shown


def test_no_character_of_unicode_passes_raw_that_is_a_control_or_format() -> None:
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            assert character not in plain(character)


@pytest.mark.parametrize(
    "text", ["plain", "[red]x[/red]", ":smile:", "[link=http://x]y[/link]", "größe", "左", "→ ±", "😀", "a b"]
)
def test_names_are_data_and_stay_as_they_are(text: str) -> None:
    assert plain(text) == text


def test_our_own_signs_have_an_ascii_form() -> None:
    assert encodable("0 → 1 ± 2 · ──", "ascii") == "0 -> 1 +- 2 | --"
    assert encodable("±", "latin-1") == "±"
    assert encodable("左", "ascii") == "\\u5de6"
    assert encodable("→", "utf-8") == "→"
    assert encodable("→", "no-such-encoding") == "->"


def test_columns_count_what_a_terminal_shows() -> None:
    assert columns("abc") == 3
    assert columns("左右") == 4
    assert columns("e\u0301") == 1


def test_brief_quotes_a_long_text_in_part() -> None:
    assert brief("abc") == "'abc'"
    assert len(brief("9" * 5000)) < 100
    assert "5000 characters" in brief("9" * 5000)


def test_counted_knows_the_singular() -> None:
    assert counted(1, "step") == "1 step"
    assert counted(2, "step") == "2 steps"
