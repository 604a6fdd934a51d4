"""HTML and SVG by functions: text is escaped unless it is `Markup` already, and only these functions make that.

Names come from files that anybody may have written. They stand in texts, titles and attributes only, never in an id, a
class, an address or a script, and characters that hide or turn the text around them are spelled out.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from unlatch.show.safe import plain

__all__ = ["Markup", "data_block", "join", "listing", "page", "paragraph", "section", "table", "tag", "text"]

_ALONE = ("br", "input", "meta")
"""Elements of HTML that have no end."""

_POLICY = (
    "default-src 'none'; style-src '{style}'; script-src '{script}'; base-uri 'none'; form-action 'none'"
)
"""Nothing is loaded, nothing is sent, and no style or script runs but the page's own two."""


class Markup(str):
    """HTML that needs no escaping any more."""

    __slots__ = ()


def text(value: object) -> Markup:
    """Any value as text."""
    return value if isinstance(value, Markup) else Markup(escape(plain(value), quote=True))


def join(parts: Iterable[object], between: object = "") -> Markup:
    """Pieces one after the other."""
    return Markup(text(between).join(text(part) for part in parts))


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """An element. An attribute that is None or False is left out, True stands alone; ``class_`` is the class, and an
    underscore inside a name a hyphen."""
    written = "".join(
        f" {_attribute(key)}" if value is True else f' {_attribute(key)}="{text(_number(value))}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _ALONE:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(children)}</{name}>")


def _attribute(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _number(value: object) -> object:
    """Coordinates with as many digits as a screen shows."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value


def table(
    header: Sequence[object],
    rows: Iterable[Sequence[object]],
    *,
    caption: object = None,
    class_: str | None = None,
) -> Markup:
    """A table whose first column names its rows; cells that are `Markup` of a cell stay as they are."""
    head = tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in header))) if header else ""
    body = tag("tbody", *(tag("tr", *_cells(row)) for row in rows))
    said = tag("caption", caption) if caption is not None else ""
    return tag("div", tag("table", said, head, body, class_=class_), class_="scroll")


def _cells(row: Sequence[object]) -> list[Markup]:
    first, *rest = row
    named = first if _is_cell(first) else tag("th", first, scope="row")
    return [text(named), *(text(cell) if _is_cell(cell) else tag("td", cell) for cell in rest)]


def _is_cell(value: object) -> bool:
    return isinstance(value, Markup) and value.startswith(("<td", "<th"))


def paragraph(words: object, class_: str | None = None) -> Markup:
    """A few sentences."""
    return tag("p", words, class_=class_)


def listing(items: Iterable[object], class_: str | None = None) -> Markup:
    """A list of sentences."""
    return tag("ul", *(tag("li", item) for item in items), class_=class_)


def section(identity: str, title: str, *parts: object) -> Markup:
    """A part of the page with a heading of its own."""
    heading = tag("h2", title, id=f"{identity}-title")
    return tag("section", heading, *parts, id=identity, aria_labelledby=f"{identity}-title")


def data_block(identity: str, value: Any) -> Markup:
    """Data for the script: JSON in which nothing can end the block or begin another one."""
    dumped = json.dumps(_plain_data(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        dumped = dumped.replace(character, f"\\u{ord(character):04x}")
    return Markup(f'<script type="application/json" id="{identity}">{dumped}</script>')


def _plain_data(value: Any) -> Any:
    """With names made safe to show, and numbers that JSON does not have left out."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {key: _plain_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_data(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def page(title: str, *parts: object, data: Markup | None = None) -> str:
    """A whole page: nothing of it comes from elsewhere."""
    style, script = _asset("page.css"), _asset("page.js") if data is not None else ""
    policy = _POLICY.format(style=_hash(style), script=_hash(script))
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=Markup(policy)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(style)),
    )
    scripts = "" if data is None else join([data, tag("script", Markup(script))])
    skip = tag("a", "Skip to the summary", href="#main", class_="skip")
    body = tag("body", skip, tag("main", *parts, id="main"), scripts)
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _asset(name: str) -> str:
    return (files("unlatch.show.report") / name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
