"""Pictures of models. matplotlib is imported when one is asked for.

The ``plot_`` functions draw into an axis, the caller's or a new one, and return it; nothing is shown or saved.
`draw_models` makes a whole picture of models and writes it to a file. The figures of the study are drawn by
``study/figures.py``, from its own tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unlatch.arrays import Floats, own_errstate
from unlatch.core.checks import finite_floats
from unlatch.core.partition import Partition
from unlatch.core.pomdp import POMDP
from unlatch.core.reward import Symbol, symbol_code
from unlatch.core.trajectory import Trajectory
from unlatch.errors import DataError, UsageError
from unlatch.show import layout
from unlatch.show.beliefs import beliefs_along
from unlatch.show.figure import FILLS, INK, MOVE, SHOWS, axis, figure_of, picture_kind, write_picture

__all__ = ["draw_models", "plot_belief", "plot_comparison", "plot_matrix", "plot_states"]

_INCHES = 1.15
"""On paper, per unit of the drawing's plane."""

_TITLE = 12
_MOST_NAMES = 40
"""Rows or columns of a matrix that are named at its edge."""

_MOST_NUMBERS = 12
"""Rows and columns up to which the entries of a matrix are written out, if nobody says otherwise."""

_MOST_STEPS = 40
"""Steps of a log up to which each is named."""


@own_errstate
def plot_states(pomdp: POMDP, action: Symbol, *, partition: Partition | None = None, ax: Any = None) -> Any:
    """The graph of one action: states, what they show under it, and where it leads with which probability.

    States stand where they stand for every other action of the model. The wider an arrow the likelier the move; a
    terminal state has two circles and no way out. A model of more than 30 states, or with very many moves, is drawn as
    two matrices of blocks: where it leads and what it shows.

    Parameters
    ----------
    pomdp : POMDP
    action : name or index
    partition : Partition, optional
        States that share a cell are shaded alike and have its letter.
    ax : matplotlib Axes, optional
        Where to draw; an axis of a new figure by default.

    Returns
    -------
    matplotlib Axes
        The figure is ``ax.figure``.

    Examples
    --------
    >>> import unlatch
    >>> unlatch.plot_states(unlatch.domains.tiger(), "listen").get_title()
    'listen'
    """
    code = symbol_code("action", action, pomdp.action_names)
    if not layout.fits_graph(pomdp):
        return _plot_blocks(pomdp, code, partition, ax)
    places = layout.state_places(pomdp)
    left, bottom, right, top = _extent(pomdp, places)
    ax = axis(ax, _INCHES * (right - left), _INCHES * (top - bottom))
    _draw_graph(ax, pomdp, code, places, partition)
    _frame(ax, (left, bottom, right, top))
    ax.set_title(layout.short(pomdp.action_names[code], 40), fontsize=_TITLE, parse_math=False)
    return ax


@own_errstate
def plot_comparison(learned: POMDP, truth: POMDP, action: Symbol, *, ax: Any = None) -> Any:
    """The graphs of one action in two models side by side, every state of the one where it stands in the other.

    Parameters
    ----------
    learned, truth : POMDP
        With as many states, in the order in which they correspond:
        ``learned.reordered(match_states(learned, truth))``.
    action : name or index
        An index is that of ``learned``; the other model's action is the one of the same name.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import unlatch
    >>> tiger = unlatch.domains.tiger()
    >>> unlatch.plot_comparison(tiger, tiger, "listen").get_title()
    'listen: learned, true'
    """
    _refuse_unlike((learned, truth))
    code = symbol_code("action", action, learned.action_names)
    name = learned.action_names[code]
    other = symbol_code("action", name, truth.action_names)
    places = layout.state_places(truth)
    left, bottom, right, top = _extent(truth, places)
    shift = np.array([right - left, 0.0])
    ax = axis(ax, 2 * _INCHES * (right - left), _INCHES * (top - bottom))
    _draw_graph(ax, learned, code, places, None)
    _draw_graph(ax, truth, other, places + shift, None)
    for said, x in (("learned", (left + right) / 2), ("true", (left + right) / 2 + shift[0])):
        ax.text(x, top - 0.1, said, ha="center", va="top", fontsize=10, color=INK)
    ax.axvline(right, color="#bbbbbb", linewidth=0.8)
    _frame(ax, (left, bottom, right + shift[0], top))
    ax.set_title(f"{layout.short(name, 40)}: learned, true", fontsize=_TITLE, parse_math=False)
    return ax


@own_errstate
def plot_matrix(
    values: ArrayLike,
    *,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    title: str = "",
    intervals: ArrayLike | None = None,
    numbers: bool | None = None,
    ax: Any = None,
) -> Any:
    """A table of probabilities in shades, with its numbers where there is room for them.

    Parameters
    ----------
    values : array, shape (rows, columns)
        As ``pomdp.transitions[a]``, ``pomdp.observations[a]`` or ``pomdp.state_probabilities(log).T``.
    rows, columns : sequences of str, optional
        Names at the edges, left out where there are more than 40.
    title : str
    intervals : array, shape (rows, columns, 2), optional
        Lower and upper end for every entry, written below it.
    numbers : bool, optional
        Whether entries are written out; by default up to 12 rows and columns. Zeros are left empty.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import unlatch
    >>> tiger = unlatch.domains.tiger()
    >>> ax = unlatch.plot_matrix(tiger.transitions[0], rows=tiger.state_names, columns=tiger.state_names)
    """
    table = finite_floats("values", values, ndim=2)
    for field, names, size in (("rows", rows, table.shape[0]), ("columns", columns, table.shape[1])):
        if names is not None and len(names) != size:
            raise DataError(f"{field}: {len(names)} names for {size} {field}", field=field)
    ends = None if intervals is None else finite_floats("intervals", intervals, ndim=3)
    if ends is not None and ends.shape != (*table.shape, 2):
        raise DataError(
            f"intervals: shape {ends.shape}, expected {(*table.shape, 2)}: a lower and an upper end for every entry",
            field="intervals",
        )
    few = max(table.shape, default=0) <= _MOST_NUMBERS
    written = few if numbers is None else numbers
    cell = 0.95 if ends is not None else 0.62
    size = np.array(table.shape[::-1]) * cell if written else np.array([4.0, 3.4])
    ax = axis(ax, *(np.maximum(size, 2.2) + np.array([1.8, 1.0])).tolist())
    image = ax.imshow(
        table, vmin=0.0, vmax=max(1.0, float(table.max(initial=0.0))), cmap="Blues", aspect="auto"
    )
    if written:
        _write_entries(ax, table, ends)
    _name_edge(ax.set_yticks, rows, rotation=0)
    _name_edge(ax.set_xticks, columns, rotation=90)
    ax.figure.colorbar(image, ax=ax)
    ax.set_title(title, fontsize=_TITLE, parse_math=False)
    return ax


@own_errstate
def plot_belief(pomdp: POMDP, log: Trajectory, *, ax: Any = None) -> Any:
    """The belief before the first step of a log and after every step, darker where a state is likelier.

    A new episode begins with a line. Steps are named at the edge where there are at most 40.

    Parameters
    ----------
    pomdp : POMDP
    log : Trajectory
        Not too long: ``log.head(30)``.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import unlatch
    >>> tiger = unlatch.domains.tiger()
    >>> ax = unlatch.plot_belief(tiger, unlatch.simulate(tiger, 12, rng=0))
    """
    steps = beliefs_along(pomdp, log)
    if not steps:
        raise DataError("log: at least one step is needed", field="log")
    table = np.column_stack([step.belief for step in steps])
    width = min(14.0, 1.6 + 0.32 * len(steps))
    ax = axis(ax, width, min(8.0, 1.9 + 0.3 * pomdp.n_states))
    ax.imshow(table, vmin=0.0, vmax=1.0, cmap="Blues", aspect="auto")
    _name_edge(ax.set_yticks, pomdp.state_names, rotation=0)
    if len(steps) <= _MOST_STEPS:
        _name_edge(ax.set_xticks, [_step_name(step) for step in steps], rotation=90)
    for place, step in enumerate(steps):
        if step.action is None and place:
            ax.axvline(place - 0.5, color=INK, linewidth=1.2)
    ax.set_xlabel("step")
    ax.set_ylabel("state")
    return ax


def _step_name(step: Any) -> str:
    if step.action is None:
        return "start" if step.observation is None else f"start: {layout.short(step.observation, 24)}"
    return f"{layout.short(step.action, 16)} → {layout.short(step.observation, 24)}"


@own_errstate
def draw_models(
    models: Mapping[str, POMDP],
    path: str | Path,
    *,
    actions: Sequence[str] | None = None,
    partition: Partition | None = None,
) -> Path:
    """Draw the state graph of every action, one row an action, one column a model, and save it.

    The picture is written whole or not at all: an older one under that name survives a full disk, and a symbolic link
    is replaced, not followed.

    Parameters
    ----------
    models : mapping of title to POMDP
        All with the same actions and the same number of states, in the order in which states correspond.
    path : path ending in .png, .pdf or .svg
    actions : names of the actions to draw, all by default
    partition : Partition, optional
        Cells of states, shaded in every graph.

    Returns
    -------
    Path
        Where the picture is.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from unlatch import domains, draw_models
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw_models({"Tiger": domains.tiger()}, Path(folder) / "tiger.svg", actions=["listen"]).name
    'tiger.svg'
    """
    if not models:
        raise UsageError("draw_models needs at least one model")
    first = next(iter(models.values()))
    _refuse_unlike(tuple(models.values()))
    chosen = tuple(actions) if actions is not None else first.action_names
    for name in chosen:
        if any(name not in model.action_names for model in models.values()):
            raise UsageError(
                f"not every model has an action {name!r}; the first has {list(first.action_names)}"
            )
    picture_kind(path)
    as_graphs = all(map(layout.fits_graph, models.values()))
    places = layout.state_places(first)
    figure = figure_of(*_size(first, places, len(models), len(chosen), as_graphs))
    axes = figure.subplots(len(chosen), len(models), squeeze=False)
    for row, action in enumerate(chosen):
        for column, (title, model) in enumerate(models.items()):
            ax = axes[row, column]
            code = model.action_names.index(action)
            if not as_graphs:
                _plot_blocks(model, code, partition, ax)
            else:
                _draw_graph(ax, model, code, places, partition)
                _frame(ax, _extent(first, places))
            ax.set_title(layout.short(f"{title}: {action}", 40), fontsize=_TITLE, parse_math=False)
    return write_picture(figure, path)


def _size(model: POMDP, places: Floats, columns: int, rows: int, as_graphs: bool) -> tuple[float, float]:
    if not as_graphs:
        return 6.5 * columns, 5.5 * rows
    left, bottom, right, top = _extent(model, places)
    return _INCHES * (right - left) * columns, _INCHES * (top - bottom) * rows


def _refuse_unlike(models: Sequence[POMDP]) -> None:
    counts = {model.n_states for model in models}
    if len(counts) > 1:
        raise UsageError(f"models side by side need as many states, got {sorted(counts)}")


# --- graphs ----------------------------------------------------------------------------------------------


def _extent(pomdp: POMDP, places: Floats) -> tuple[float, float, float, float]:
    return layout.extent(places, layout.most_lines(pomdp), layout.bar_width(pomdp))


def _frame(ax: Any, extent: tuple[float, float, float, float]) -> None:
    left, bottom, right, top = extent
    ax.set_xlim(left, right)
    ax.set_ylim(bottom, top)
    ax.set_aspect("equal")
    ax.axis("off")


def _draw_graph(ax: Any, pomdp: POMDP, action: int, places: Floats, partition: Partition | None) -> None:
    for move in layout.graph_moves(pomdp, action, places):
        _draw_move(ax, move)
    cells = layout.shared_cells(partition, pomdp.n_states)
    for state, place in enumerate(places):
        _draw_state(ax, pomdp, action, state, place, int(cells[state]))


def _draw_move(ax: Any, move: layout.Move) -> None:
    from matplotlib.patches import PathPatch, Polygon
    from matplotlib.path import Path as Curve

    codes = [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4]
    style: dict[str, Any] = {"alpha": 0.4 + 0.6 * move.probability, "zorder": 2}
    dashes = "--" if move.probability < 0.1 else "-"
    ax.add_patch(
        PathPatch(
            Curve(move.curve, codes), fill=False, edgecolor=MOVE, linestyle=dashes,
            linewidth=0.7 + 2.3 * move.probability, **style,
        )
    )  # fmt: skip
    ax.add_patch(Polygon(move.head, closed=True, facecolor=MOVE, edgecolor="none", **style))
    ax.text(
        *move.label, f"{move.probability:.2f}", ha="center", va="center", fontsize=7, color=MOVE, zorder=5,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.9},
    )  # fmt: skip


def _draw_state(ax: Any, model: POMDP, action: int, state: int, place: Floats, cell: int) -> None:
    from matplotlib.patches import Circle

    radius = layout.NODE_RADIUS
    fill = "#ffffff" if cell < 0 else FILLS[cell % len(FILLS)]
    ax.add_patch(Circle(tuple(place), radius, facecolor=fill, edgecolor=INK, zorder=3))
    if state in model.terminal:
        ax.add_patch(Circle(tuple(place), 0.85 * radius, fill=False, edgecolor=INK, zorder=4))
    name = layout.short(model.state_names[state])
    size = 9 if len(name) <= 5 else 6.5
    ax.text(*place, name, ha="center", va="center", fontsize=size, color=INK, zorder=4, parse_math=False)
    if cell >= 0:
        below = place - np.array([0.0, 0.6 * radius])
        ax.text(*below, _letter(cell), fontsize=6, color=INK, zorder=6, ha="center", va="center")
    _draw_bars(ax, model, action, state, place)


def _letter(cell: int) -> str:
    return chr(ord("A") + cell % 26)


def _draw_bars(ax: Any, model: POMDP, action: int, state: int, place: Floats) -> None:
    from matplotlib.patches import Rectangle

    top = place[1] - layout.NODE_RADIUS - layout.BAR_GAP
    full = layout.bar_width(model)
    for number, (line, share) in enumerate(layout.said_lines(model, action, state)):
        corner = (place[0] - full / 2, top - layout.BAR_HEIGHT * (number + 0.92))
        for width, color in ((1.0, "#eef2f6"), (share, "#b9cfe4")) if share is not None else ():
            ax.add_patch(
                Rectangle(
                    corner, full * width, 0.85 * layout.BAR_HEIGHT, facecolor=color,
                    edgecolor="none", zorder=3.5,
                )
            )  # fmt: skip
        ax.text(
            place[0], top - layout.BAR_HEIGHT * (number + 0.5), line, ha="center", va="center", fontsize=6.5,
            color=SHOWS, zorder=4, parse_math=False,
        )  # fmt: skip


# --- matrices --------------------------------------------------------------------------------------------


def _plot_blocks(pomdp: POMDP, action: int, partition: Partition | None, ax: Any) -> Any:
    """Where every state leads, and beyond a gap what it shows: for models with too many states for a graph."""
    order = layout.block_order(pomdp, partition)
    ordered = replace(pomdp.reordered(order), symbol_rewards=pomdp.symbol_rewards)
    gap = np.full((pomdp.n_states, max(1, pomdp.n_states // 24)), np.nan)
    shown = np.where(ordered.showing[:, None], ordered.observations[action], 0.0)
    table = np.hstack([ordered.transitions[action], gap, shown])
    ax = axis(ax, 8.5, 6.2)
    ax.imshow(np.ma.masked_invalid(table), vmin=0.0, vmax=1.0, cmap="Blues", interpolation="nearest")
    labels = np.zeros(pomdp.n_states) if partition is None else partition.labels[order]
    for edge in (np.flatnonzero(np.diff(labels)) + 0.5).tolist():
        ax.axhline(edge, color="#999999", linewidth=0.4)
        ax.plot([edge, edge], [-0.5, pomdp.n_states - 0.5], color="#999999", linewidth=0.4)
    first = pomdp.n_states + gap.shape[1]
    if pomdp.n_states <= 60:
        names = [layout.short(name, 10) for name in ordered.state_names]
        ax.set_yticks(range(pomdp.n_states), labels=names, fontsize=5.5, parse_math=False)
    if pomdp.n_observations <= _MOST_NAMES:
        names = [layout.short(name) for name in pomdp.observation_names]
        spots = range(first, first + pomdp.n_observations)
        ax.set_xticks(spots, labels=names, rotation=90, fontsize=6.5, parse_math=False)
    ax.set_title(layout.short(pomdp.action_names[action], 40), fontsize=_TITLE, parse_math=False)
    ax.set_xlabel("leads to (states, in the order of the rows)  |  shows")
    ax.set_ylabel("state")
    return ax


def _write_entries(ax: Any, table: Floats, ends: Floats | None) -> None:
    """Numbers in the cells, light on dark; zeros stay empty, unless an interval says how sure they are."""
    largest = max(1.0, float(table.max(initial=0.0)))
    for (row, column), value in np.ndenumerate(table):
        said = "" if value == 0 else f"{value:.2f}" if value >= 0.005 else "<.01"
        if ends is not None:
            low, high = ends[row, column]
            said = f"{value:.2f}\n{low:.2f}–{high:.2f}"
        color = "white" if value > 0.55 * largest else INK
        ax.text(column, row, said, ha="center", va="center", fontsize=8, color=color)


def _name_edge(set_ticks: Any, names: Sequence[str] | None, rotation: int) -> None:
    if names is not None and len(names) <= _MOST_NAMES:
        shown = [layout.short(name, 30) for name in names]
        set_ticks(range(len(names)), labels=shown, rotation=rotation, fontsize=8, parse_math=False)
