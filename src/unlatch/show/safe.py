"""Text from files, made safe to show: whatever a terminal would act on becomes visible instead.

Names, messages and paths come from files that anybody may have written. Shown raw, an escape sequence could recolor
or overwrite what is on the screen, and a bidirectional override could make a name read as another.
"""

from __future__ import annotations

import unicodedata

__all__ = ["brief", "columns", "counted", "encodable", "plain"]

_ACTED_UPON = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Unicode categories that a terminal interprets, hides or has no glyph for: controls, formats (bidirectional overrides,
zero widths, tags), surrogates, private use, unassigned, line and paragraph separators."""

_SPELLED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

_IN_ASCII = str.maketrans({"→": "->", "±": "+-", "…": "...", "─": "-", "–": "-", "·": "|"})
"""What we print ourselves beyond ASCII."""


def plain(text: object) -> str:
    """``text`` on one line with every character that a terminal would act on spelled out, as ``\\x1b``."""
    return "".join(_visible(character) for character in str(text))


def _visible(character: str) -> str:
    if " " <= character <= "~" or unicodedata.category(character) not in _ACTED_UPON:
        return character
    if character in _SPELLED:
        return _SPELLED[character]
    return character.encode("unicode_escape").decode("ascii")


def encodable(text: str, encoding: str) -> str:
    """``text`` with what ``encoding`` has no character for replaced: our own signs by ASCII, others by ``\\u....``."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_IN_ASCII).encode(encoding, errors="backslashreplace").decode(encoding)
    except LookupError:  # a stream may claim an encoding that Python does not know
        return text.translate(_IN_ASCII).encode("ascii", errors="backslashreplace").decode("ascii")
    return text


def columns(text: str) -> int:
    """How many columns of a terminal ``text`` takes: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def brief(text: str, most: int = 60) -> str:
    """``text`` as a message quotes it: at most ``most`` characters."""
    return repr(text) if len(text) <= most else f"{text[:most]!r}... ({len(text)} characters)"


def counted(number: int, noun: str) -> str:
    """``1 step``, ``2 steps``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
