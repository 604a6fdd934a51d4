"""State graphs and small charts as SVG, from the same layout as the pictures of `plot_states`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from unlatch.arrays import Floats, Ints
from unlatch.core.partition import Partition
from unlatch.core.pomdp import POMDP
from unlatch.show import layout
from unlatch.show.report.markup import Markup, join, tag

__all__ = ["Series", "blocks_svg", "chart_svg", "graph_svg", "scatter_svg"]

UNIT = 115
"""Pixels per unit of the layout's plane, where there is room for it."""

NARROWEST = 82
"""Pixels per unit below which one scrolls instead: smaller labels are not legible."""

_SHADES = 10
_MOST_BLOCKS = 6000
_LARGEST_BLOCK = 34.0
_MARGIN, _TOP = 80.0, 28.0
"""Of a matrix of blocks: for the names of states, and for what the columns are."""

_CELLS = 8
"""Fills of cells that the style sheet knows."""


def graph_svg(
    pomdp: POMDP, action: int, places: Floats, partition: Partition | None = None, label: str = ""
) -> Markup:
    """The graph of one action. States carry their number, so that the script can mark beliefs and goals."""
    left, bottom, right, top = layout.extent(places, layout.most_lines(pomdp), layout.bar_width(pomdp))
    width, height = right - left, top - bottom
    flipped = np.array([1.0, -1.0]) * places
    moves = [_move(move) for move in layout.graph_moves(pomdp, action, places)]
    cells = layout.shared_cells(partition, pomdp.n_states)
    states = [
        _state(pomdp, action, state, flipped[state], int(cells[state])) for state in range(pomdp.n_states)
    ]
    drawing = tag(
        "svg", tag("g", *(arrow for arrow, _ in moves)), *states, tag("g", *(label for _, label in moves)),
        viewBox=f"{_px(left)} {_px(-top)} {_px(width)} {_px(height)}",
        width=_px(width), height=_px(height), role="img", aria_label=label, class_="graph",
    )  # fmt: skip
    return _scrolling(drawing, round(NARROWEST * width), label)


def _scrolling(drawing: Markup, least: int, label: str) -> Markup:
    """A drawing that shrinks with the page down to a width at which it is still legible, and scrolls from there on.

    The style sheet knows widths in steps of 100 pixels.
    """
    step = min(max(least // 100, 1), 16)
    return tag("div", drawing, class_=f"scroll wide{step}", tabindex="0", role="region", aria_label=label)


def _px(value: float) -> str:
    return f"{UNIT * value:.1f}".rstrip("0").rstrip(".")


def _move(move: layout.Move) -> tuple[Markup, Markup]:
    (a, b, c, d) = ([_px(x), _px(-y)] for x, y in move.curve.tolist())
    path = f"M{' '.join(a)}C{' '.join([*b, *c, *d])}"
    head = " ".join(f"{_px(x)},{_px(-y)}" for x, y in move.head.tolist())
    strong = 0.45 + 0.55 * move.probability
    arrow = tag(
        "g",
        tag("path", d=path, stroke_width=0.9 + 3.0 * move.probability,
            stroke_dasharray="5 3" if move.probability < 0.1 else None),
        tag("polygon", points=head),
        class_="move", opacity=round(strong, 3),
    )  # fmt: skip
    x, y = move.label.tolist()
    label = tag("text", f"{move.probability:.2f}", x=_px(x), y=_px(-y), class_="chance")
    return arrow, label


def _state(pomdp: POMDP, action: int, state: int, place: Floats, cell: int) -> Markup:
    x, y = place.tolist()
    name = pomdp.state_names[state]
    short = layout.short(name, 11)
    radius = layout.NODE_RADIUS
    parts = [
        tag("title", _described(pomdp, state, cell)),
        tag("circle", cx=_px(x), cy=_px(y), r=_px(radius), class_="rim"),
        tag("circle", cx=_px(x), cy=_px(y), r="0", class_="held"),
    ]
    if state in pomdp.terminal:
        parts.append(tag("circle", cx=_px(x), cy=_px(y), r=_px(0.85 * radius), class_="inner"))
    parts.append(tag("text", short, x=_px(x), y=_px(y), class_=f"name {_size(short)}".strip()))
    if cell >= 0:
        parts.append(
            tag("text", chr(ord("A") + cell % 26), x=_px(x), y=_px(y + 0.62 * radius), class_="letter")
        )
    parts += _lines(pomdp, action, state, x, y)
    fill = f" cell{cell % _CELLS}" if cell >= 0 else ""
    return tag("g", *parts, class_=f"state{fill}", data_state=state)


def _size(name: str) -> str:
    return "" if len(name) <= 5 else "long" if len(name) <= 8 else "longest"


def _described(pomdp: POMDP, state: int, cell: int) -> str:
    end = ", the end" if state in pomdp.terminal else ""
    shared = f", in cell {chr(ord('A') + cell % 26)}" if cell >= 0 else ""
    return f"state {pomdp.state_names[state]}{end}{shared}"


def _lines(pomdp: POMDP, action: int, state: int, x: float, y: float) -> Iterable[Markup]:
    top = y + layout.NODE_RADIUS + layout.BAR_GAP
    full = layout.bar_width(pomdp)
    for number, (line, share) in enumerate(layout.said_lines(pomdp, action, state)):
        if share is not None:
            corner = {"x": _px(x - full / 2), "y": _px(top + layout.BAR_HEIGHT * (number + 0.07))}
            height = _px(0.85 * layout.BAR_HEIGHT)
            yield tag("rect", width=_px(full), height=height, class_="track", **corner)
            yield tag("rect", width=_px(full * share), height=height, class_="bar", **corner)
        yield tag("text", line, x=_px(x), y=_px(top + layout.BAR_HEIGHT * (number + 0.5)), class_="shows")


# --- beyond thirty states ---------------------------------------------------------------------------------


def blocks_svg(pomdp: POMDP, action: int, partition: Partition | None = None, label: str = "") -> Markup:
    """Where every state leads and what it shows, as squares that are darker where it is likelier."""
    order = layout.block_order(pomdp, partition)
    n_states, n_symbols = pomdp.n_states, pomdp.n_observations
    side = max(4.0, min(_LARGEST_BLOCK, 1000 / (n_states + n_symbols + 2)))
    right, bottom = _MARGIN + n_states * side + 2 * side, _TOP + n_states * side
    shown = np.where(pomdp.showing[:, None], pomdp.observations[action], 0.0)
    matrices = ((pomdp.transitions[action][order][:, order], _MARGIN), (shown[order], right))
    squares = [_matrix(values, x, side) for values, x in matrices]
    titles = [
        tag("text", said, x=x, y=_TOP - 10, class_="axis start")
        for said, x in (("leads to", _MARGIN), ("shows", right))
    ]
    rows = [
        _row(pomdp, int(state), _MARGIN - 5, _TOP + side * (i + 0.5), side) for i, state in enumerate(order)
    ]
    named = range(n_symbols if side >= 9 else 0)
    names = [_turned(pomdp.observation_names[o], right + side * (o + 0.5), bottom + 8) for o in named]
    width, height = right + max(n_symbols * side, 40) + 20, bottom + (100 if names else 10)
    drawing = tag(
        "svg", *squares, *titles, *rows, *names, viewBox=f"0 0 {width:.0f} {height:.0f}", width=round(width),
        height=round(height), role="img", aria_label=label, class_="blocks",
    )  # fmt: skip
    return _scrolling(drawing, round(width), label)


def _matrix(values: Floats, x: float, side: float) -> Markup:
    """One frame with its squares, and with numbers where they are large enough."""
    rows, columns = values.shape
    frame = tag("rect", x=x, y=_TOP, width=columns * side, height=rows * side, class_="frame")
    return join([frame, *_squares(values, x, _TOP, side), *_written(values, x, _TOP, side)])


def _row(pomdp: POMDP, state: int, x: float, y: float, side: float) -> Markup:
    name = layout.short(pomdp.state_names[state], 10) if side >= 8 else ""
    title = tag("title", _described(pomdp, state, -1))
    return tag("g", title, tag("text", name, x=x, y=y, class_="axis end"), class_="state", data_state=state)


def _turned(name: str, x: float, y: float) -> Markup:
    return tag(
        "text", layout.short(name), transform=f"translate({x:.1f} {y:.1f}) rotate(90)", class_="axis start"
    )


def _squares(values: Floats, x: float, y: float, side: float) -> Iterable[Markup]:
    """One path for every shade; of very many entries the largest."""
    least = layout.SHOWN
    if (values >= least).sum() > _MOST_BLOCKS:
        least = float(np.sort(values, axis=None)[-_MOST_BLOCKS])
    shades: Ints = np.ceil(np.clip(values, 0, 1) * _SHADES).astype(np.int64)
    size = f"h{side:.4g}v{side:.4g}h-{side:.4g}z"
    for shade in range(1, _SHADES + 1):
        places = np.argwhere((shades == shade) & (values >= least))
        if len(places):
            path = "".join(
                f"M{x + side * column:.4g} {y + side * row:.4g}{size}" for row, column in places.tolist()
            )
            yield tag("path", d=path, class_="square", opacity=round(0.1 + 0.9 * shade / _SHADES, 2))


def _written(values: Floats, x: float, y: float, side: float) -> Iterable[Markup]:
    """The numbers, where squares are large enough for them."""
    if side < 26:
        return
    for row, column in np.argwhere(values >= layout.SHOWN).tolist():
        value = float(values[row, column])
        place = {"x": x + side * (column + 0.5), "y": y + side * (row + 0.5)}
        yield tag("text", f"{value:.2f}", class_="inside light" if value > 0.5 else "inside", **place)


# --- small charts ----------------------------------------------------------------------------------------

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 470.0, 250.0, 88.0, 46.0


class Series(NamedTuple):
    """A curve by its points, in the units of the axes, and the ends of a band around it, if it has one."""

    name: str
    points: Sequence[tuple[float, float]]
    band: Sequence[tuple[float, float]] = ()


def chart_svg(
    series: Sequence[Series],
    *,
    label: str,
    x_ticks: Sequence[tuple[float, str]],
    y_ticks: Sequence[tuple[float, str]],
    titles: tuple[str, str],
    marked: float | None = None,
) -> Markup:
    """Lines with dots. The axes begin and end with their ticks; several curves get a legend below."""
    xs, ys = [tick for tick, _ in x_ticks], [tick for tick, _ in y_ticks]
    place = _placer(min(xs), max(xs), min(ys), max(ys))
    parts = [_axes(place, x_ticks, y_ticks, titles)]
    for number, curve in enumerate(series):
        parts += _curve(place, curve, number, marked)
    legend = series if len(series) > 1 else ()
    for number, curve in enumerate(legend):
        y = _HEIGHT + 12.0 + 18 * number
        parts.append(tag("line", x1=_LEFT, y1=y, x2=_LEFT + 40, y2=y, class_=f"line line{number % 6}"))
        parts.append(tag("text", layout.short(curve.name, 40), x=_LEFT + 50, y=y, class_="axis start"))
    return _chart(parts, label, 18 * len(legend) + (6 if legend else 0))


def _curve(place: Place, curve: Series, number: int, marked: float | None) -> Iterable[Markup]:
    style = f"line line{number % 6}"
    places = [place(x, y) for x, y in curve.points]
    if curve.band:
        lower = [place(x, low) for (x, _), (low, _) in zip(curve.points, curve.band, strict=True)]
        upper = [place(x, high) for (x, _), (_, high) in zip(curve.points, curve.band, strict=True)]
        yield tag("polygon", points=_path([*lower, *reversed(upper)]), class_=f"band band{number % 6}")
    yield tag("polyline", points=_path(places), class_=style)
    for (x, y), (px, py) in zip(curve.points, places, strict=True):
        mark = "dot chosen" if marked is not None and x == marked else "dot"
        said = f"{curve.name} {x:g}: {y:.4g}".strip()
        yield tag(
            "circle",
            tag("title", said),
            cx=px,
            cy=py,
            r=5.0 if not curve.band else 3.0,
            class_=f"{mark} {style}",
        )


def _path(places: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def scatter_svg(points: Sequence[tuple[float, float, str]], *, label: str, titles: tuple[str, str]) -> Markup:
    """Dots from 0 to 1 both ways, with the diagonal."""
    place = _placer(0.0, 1.0, 0.0, 1.0)
    ticks = [(value / 4, f"{value / 4:g}") for value in range(5)]
    ends = dict(zip(("x1", "y1", "x2", "y2"), (*place(0, 0), *place(1, 1)), strict=True))
    parts = [_axes(place, ticks, ticks, titles), tag("line", class_="diagonal", **ends)]
    for x, y, said in points:
        px, py = place(x, y)
        parts.append(tag("circle", tag("title", said), cx=px, cy=py, r=3.5, class_="spot"))
    return _chart(parts, label)


def _chart(parts: Sequence[Markup], label: str, below: int = 0) -> Markup:
    height = round(_HEIGHT) + below
    drawing = tag(
        "svg", *parts, viewBox=f"0 0 {_WIDTH:.0f} {height}", width=round(_WIDTH), height=height,
        role="img", aria_label=label, class_="chart",
    )  # fmt: skip
    return tag("div", drawing, class_="scroll wide3")


Place = Callable[[float, float], tuple[float, float]]
"""From the units of the axes to pixels."""


def _placer(left: float, right: float, low: float, high: float) -> Place:
    across, upwards = (right - left) or 1.0, (high - low) or 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            _LEFT + (x - left) / across * (_WIDTH - _LEFT - 20),
            _HEIGHT - _BOTTOM - (y - low) / upwards * (_HEIGHT - _BOTTOM - 16),
        )

    return place


Ticks = Sequence[tuple[float, str]]


def _axes(place: Place, x_ticks: Ticks, y_ticks: Ticks, titles: tuple[str, str]) -> Markup:
    left, low = x_ticks[0][0], y_ticks[0][0]
    right = x_ticks[-1][0]
    parts = []
    for value, said in x_ticks:
        x, y = place(value, low)
        parts.append(tag("text", said, x=x, y=y + 15, class_="axis middle"))
    for value, said in y_ticks:
        x, y = place(left, value)
        parts.append(tag("line", x1=x, y1=y, x2=place(right, value)[0], y2=y, class_="grid"))
        parts.append(tag("text", said, x=x - 8, y=y, class_="axis end"))
    middle = (_LEFT + _WIDTH - 20) / 2
    parts.append(tag("text", titles[0], x=middle, y=_HEIGHT - 8, class_="axis middle"))
    side = f"translate(14 {(_HEIGHT - _BOTTOM + 16) / 2:.0f}) rotate(-90)"
    parts.append(tag("text", titles[1], transform=side, class_="axis middle"))
    return join(parts)
