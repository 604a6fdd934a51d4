"""JSON without surprises: no NaN, no overflow, no key twice, no lone surrogate, and every refusal says where.

The standard parser takes all of these. What it lets pass is caught in a second step, where a glance at the bytes says
that there may be something; only after a refusal is the text searched for the place. So a good file costs little extra.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any, NoReturn

from unlatch.errors import ModelFileError

__all__ = ["canonical", "parse", "pretty"]

_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|[][{}]|[^]\s",:[{}]++', re.DOTALL)
_KEY = re.compile(r"\s*+:")
_CONSTANTS = ("NaN", "Infinity", "-Infinity")
_DEEPEST = 100

_COSTLY = (
    (b"[", "lists", 1 << 19, 128),
    (b"{", "objects", 1 << 16, 1024),
    (b'"', "quotes", 1 << 19, 128),
)
"""What takes many times the memory of its text, how many are allowed in any file, and in how many bytes one is allowed
in a larger file. So a file of brackets cannot cost much more than its own size."""


_SUSPECT = re.compile(rb"\\u[dD][89a-fA-F]|[eE]\+?[0-9]{3}|[0-9]{200}")
"""Without any of these there can be no lone surrogate, and no number beyond the largest float (10**200 * 10**99)."""


class _Refusal(ValueError):
    """What the hooks of the parser raise, since they do not know where they are."""


def parse(data: bytes, where: str) -> Any:
    """The value of a JSON text in UTF-8, or a `ModelFileError` that names the line and column."""
    if data.startswith(b"\xef\xbb\xbf"):
        raise ModelFileError(f"{where}: byte 0: a byte order mark; save the file as UTF-8 without one")
    for mark, kind, allowed, bytes_each in _COSTLY:
        if (count := data.count(mark)) > max(allowed, len(data) // bytes_each):
            raise ModelFileError(f"{where}: {count} {kind} in {len(data)} bytes; no model has so many")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ModelFileError(f"{where}: byte {error.start} is not UTF-8; the file is damaged") from None
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
        if _is_deep(value):
            raise RecursionError
        if _SUSPECT.search(data):
            canonical(value)
    except json.JSONDecodeError as error:
        raise ModelFileError(f"{where}: line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        _refuse(where, text, _too_deep(text), "brackets are nested too deep for a model")
    except _Refusal as refusal:
        place = _second_key(text) if refusal.args[0] == "key" else _first(text, lambda t: t in _CONSTANTS)
        _refuse(where, text, place, refusal.args[1])
    except UnicodeEncodeError:
        _refuse(where, text, _first(text, _has_surrogate), "a lone surrogate is no character")
    except ValueError:  # an integer of thousands of digits, or a float beyond the largest
        _refuse(where, text, _first(text, _too_large), "a number is too large")
    return value


def canonical(value: Any) -> bytes:
    """The one spelling of a value that its checksum is taken of: sorted keys, no blanks, UTF-8."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def pretty(value: Any, indent: str = "") -> str:
    """JSON for people: a field of an object a line, a row of a matrix a line."""
    deeper = indent + " "
    if isinstance(value, dict) and value:
        items = [f"{_compact(key)}: {pretty(item, deeper)}" for key, item in value.items()]
        opening, closing = "{", "}"
    elif isinstance(value, list) and value and isinstance(value[0], list | dict):
        items = [pretty(item, deeper) for item in value]
        opening, closing = "[", "]"
    else:
        return _compact(value)
    return f"{opening}\n{deeper}" + f",\n{deeper}".join(items) + f"\n{indent}{closing}"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise _Refusal("key", f"the key {twice!r} stands twice in one object")
    return result


def _no_constant(name: str) -> NoReturn:
    raise _Refusal("constant", f"{name} is no number of JSON; every number must be finite")


def _refuse(where: str, text: str, place: int, reason: str) -> NoReturn:
    line = text.count("\n", 0, place) + 1
    column = place - text.rfind("\n", 0, place)
    raise ModelFileError(f"{where}: line {line}, column {column}: {reason}")


def _first(text: str, wanted: Callable[[str], bool]) -> int:
    """Position of the first token that is wanted."""
    return next((token.start() for token in _TOKEN.finditer(text) if wanted(token.group())), 0)


def _too_large(token: str) -> bool:
    if token[0] not in "-0123456789":
        return False
    return len(token) > 1000 or float(token) in (float("inf"), float("-inf"))


def _has_surrogate(token: str) -> bool:
    return token[0] == '"' and any("\ud800" <= c <= "\udfff" for c in json.loads(token, strict=False))


def _second_key(text: str) -> int:
    """Position of the first key that its object has already."""
    objects: list[set[str]] = []
    for token in _TOKEN.finditer(text):
        if token.group() == "{":
            objects.append(set())
        elif token.group() == "}":
            objects.pop()
        elif token.group()[0] == '"' and _KEY.match(text, token.end()):
            key = json.loads(token.group(), strict=False)
            if key in objects[-1]:
                return token.start()
            objects[-1].add(key)
    return 0


def _is_deep(value: Any) -> bool:
    """Whether brackets are nested deeper than a model needs, found level by level."""
    level = [value] if isinstance(value, list | dict) else []
    for _ in range(_DEEPEST):
        level = [
            item
            for outer in level
            for item in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(item, list | dict)
        ]
    return bool(level)


def _too_deep(text: str) -> int:
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token.group(), 0)
        if depth > _DEEPEST:
            return token.start()
    return 0
