"""Values as small pieces of HTML, for notebooks. Everything that comes from outside is escaped.

No scripts, no links, no styles from elsewhere: a piece is a heading and tables, cut where they grow large.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from unlatch.arrays import Floats

__all__ = ["cut_list", "heading", "listing", "matrix", "page", "table"]

MOST_ROWS = 20
MOST_COLUMNS = 12
MOST_TABLES = 6
_MOST_CHARACTERS = 2000


def page(title: str, *parts: str) -> str:
    """A piece with a title; ``parts`` are HTML, as the other functions here make it."""
    return f"<div><strong>{_text(title)}</strong>{''.join(parts)}</div>"


def heading(text: str) -> str:
    """A line above a part."""
    return f"<div>{_text(text)}</div>"


def table(rows: Iterable[Sequence[object]], header: Sequence[object] = ()) -> str:
    """Rows of cells, the first cell of each its name; at most 20 rows and 12 columns beside the names."""
    listed = list(islice(rows, MOST_ROWS + 1))
    head = f"<thead><tr>{_cells(header, 'th')}</tr></thead>" if header else ""
    body = "".join(f"<tr>{_cells(row, 'td')}</tr>" for row in listed[:MOST_ROWS])
    more = "<tr><th>...</th></tr>" if len(listed) > MOST_ROWS else ""
    return f"<table>{head}<tbody>{body}{more}</tbody></table>"


def matrix(values: Floats, rows: Sequence[str], columns: Sequence[str], corner: str = "") -> str:
    """A table of numbers with names at its edges; entries that are zero are left empty."""
    most = MOST_COLUMNS + 1  # one more than is shown, so that the cut is
    shown = (
        [name, *("" if value == 0 else f"{value:.3g}" for value in row[:most])]
        for name, row in zip(rows, values, strict=True)
    )
    return table(shown, [corner, *columns[:most]])


def listing(items: Sequence[str]) -> str:
    """A list of sentences."""
    return f"<ul>{''.join(f'<li>{_text(item)}</li>' for item in items)}</ul>"


def cut_list(names: Sequence[str], most: int = MOST_COLUMNS) -> str:
    """Names with commas (not yet escaped), the rest counted."""
    more = f", ... ({len(names)} in all)" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _cells(row: Sequence[object], tag: str) -> str:
    """The cells of a row, the first as a name."""
    cells = [*row[: MOST_COLUMNS + 1], "..."] if len(row) > MOST_COLUMNS + 1 else row
    tags = ["th", *[tag] * len(cells)]
    return "".join(f"<{tag}>{_text(cell)}</{tag}>" for tag, cell in zip(tags, cells, strict=False))


def _text(value: object) -> str:
    from html import escape  # brings every named character of HTML along, which nobody needs at the start

    text = str(value)
    if len(text) > _MOST_CHARACTERS:
        text = text[:_MOST_CHARACTERS] + "..."
    return escape(text)
