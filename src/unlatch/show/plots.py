"""Pictures of models and of what learning saw. matplotlib is imported when one is asked for.

The ``plot_`` functions draw into an axis, the caller's or a new one, and return it; nothing is shown or saved.
`draw_models` makes a whole picture of models and writes it to a file. The figures of the study are drawn by
``study/figures.py``, from its own tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unlatch.arrays import Floats, own_errstate
from unlatch.core.checks import finite_floats
from unlatch.core.pomdp import POMDP
from unlatch.core.reward import Symbol, symbol_code
from unlatch.errors import DataError, MissingDependencyError, UsageError
from unlatch.files.atomic import write_atomically

__all__ = ["draw_models", "plot_matrix", "plot_spectrum", "plot_states"]

_SHOWN = 0.005
"""Probabilities below this are left out of the picture."""

_NODE_RADIUS = 0.3
_INCHES = 1.25
"""On paper, per unit of the drawing's plane."""

_FORMATS = ("png", "pdf", "svg")
_MOST_NAMES = 40
"""Rows or columns of a matrix that are named at its edge."""


@own_errstate
def plot_states(pomdp: POMDP, action: Symbol, *, ax: Any = None) -> Any:
    """The graph of one action: states, what they show under it, and where it leads with which probability.

    A terminal state has two circles and no way out.

    Parameters
    ----------
    pomdp : POMDP
    action : name or index
    ax : matplotlib Axes, optional
        Where to draw; an axis of a new figure by default.

    Returns
    -------
    matplotlib Axes
        The figure is ``ax.figure``.
    """
    code = symbol_code("action", action, pomdp.action_names)
    ax = _axis(ax, _INCHES * _room(pomdp.n_states))
    places = _places(pomdp.n_states)
    for source, target in np.argwhere(pomdp.transitions[code] >= _SHOWN).tolist():
        if source in pomdp.terminal:
            continue  # nothing more happens there
        _draw_move(ax, places, source, target, float(pomdp.transitions[code, source, target]))
    for state, place in enumerate(places):
        _draw_state(ax, pomdp, code, state, place)
    ax.set_xlim(places[:, 0].min() - 0.95, places[:, 0].max() + 0.95)
    ax.set_ylim(places[:, 1].min() - 0.9, places[:, 1].max() + 0.45)
    ax.set_aspect("equal")
    ax.axis("off")
    ax.set_title(pomdp.action_names[code], fontsize=12, parse_math=False)
    return ax


@own_errstate
def plot_spectrum(
    values: ArrayLike, *, noise: ArrayLike | None = None, rank: int | None = None, ax: Any = None
) -> Any:
    """Singular values in decreasing order, on a logarithmic scale, with the level of noise and the rank chosen.

    Parameters
    ----------
    values : array, shape (n,)
        As in ``result.spectral.singular_values``.
    noise : float or array, shape (n,), optional
        What noise alone would give.
    rank : int, optional
        How many values were kept; a line is drawn after them.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    spectrum = finite_floats("values", values, ndim=1)
    if spectrum.size == 0 or spectrum.min() < 0:
        raise DataError("values: expected at least one singular value, none negative", field="values")
    level = None if noise is None else _level(noise, len(spectrum))
    ax = _axis(ax, np.array([5.0, 3.5]))
    places = np.arange(1, len(spectrum) + 1)
    ax.plot(places, _positive(spectrum), "o", markersize=4, color="#1f5fa8", label="singular values")
    if level is not None:
        ax.plot(places, _positive(level), "--", color="#888888", label="noise")
    if rank is not None:
        ax.axvline(rank + 0.5, color="#8a3b12", linewidth=1, label=f"rank {rank}")
    ax.set_yscale("log")
    ax.set_xlabel("number")
    ax.set_ylabel("singular value")
    ax.legend()
    return ax


@own_errstate
def plot_matrix(
    values: ArrayLike,
    *,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    title: str = "",
    ax: Any = None,
) -> Any:
    """A table of probabilities in shades, for models with too many states for a graph.

    Parameters
    ----------
    values : array, shape (rows, columns)
        As ``pomdp.transitions[a]``, ``pomdp.observations[a]`` or ``pomdp.state_probabilities(log).T``.
    rows, columns : sequences of str, optional
        Names at the edges, left out where there are more than 40.
    title : str
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    table = finite_floats("values", values, ndim=2)
    for field, names, size in (("rows", rows, table.shape[0]), ("columns", columns, table.shape[1])):
        if names is not None and len(names) != size:
            raise DataError(f"{field}: {len(names)} names for {size} {field}", field=field)
    ax = _axis(ax, np.array([5.0, 4.0]))
    image = ax.imshow(
        table, vmin=0.0, vmax=max(1.0, float(table.max(initial=0.0))), cmap="Blues", aspect="auto"
    )
    _name_edge(ax.set_yticks, rows, rotation=0)
    _name_edge(ax.set_xticks, columns, rotation=90)
    ax.figure.colorbar(image, ax=ax)
    ax.set_title(title, fontsize=12, parse_math=False)
    return ax


@own_errstate
def draw_models(
    models: Mapping[str, POMDP], path: str | Path, *, actions: Sequence[str] | None = None
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

    Returns
    -------
    Path
        Where the picture is.
    """
    if not models:
        raise UsageError("draw_models needs at least one model")
    first = next(iter(models.values()))
    chosen = tuple(actions) if actions is not None else first.action_names
    for name in chosen:
        if any(name not in model.action_names for model in models.values()):
            raise UsageError(
                f"not every model has an action {name!r}; the first has {list(first.action_names)}"
            )
    target = Path(path)
    kind = target.suffix.removeprefix(".").lower()
    if kind not in _FORMATS:
        raise UsageError(
            f"cannot draw to {target}: its name must end in {', '.join(f'.{f}' for f in _FORMATS)}"
        )
    figure = _figure(_INCHES * _room(first.n_states) * np.array([len(models), len(chosen)]))
    axes = figure.subplots(len(chosen), len(models), squeeze=False)
    for row, action in enumerate(chosen):
        for column, (title, model) in enumerate(models.items()):
            plot_states(model, action, ax=axes[row, column])
            axes[row, column].set_title(f"{title}: {action}", fontsize=12, parse_math=False)
    write_atomically(target, _rendered(figure, kind))
    return target


def _rendered(figure: Any, kind: str) -> bytes:
    """The picture's bytes, the same ones for the same picture."""
    dated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind)
    buffer = BytesIO()
    figure.savefig(buffer, format=kind, dpi=110, metadata=dated)
    return buffer.getvalue()


def _figure(inches: Floats) -> Any:
    """A figure of its own, which no window and no global state knows."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError(
            f"matplotlib, which draws the pictures, cannot be imported ({error}); install it: pip install matplotlib",
            package="matplotlib",
        ) from None
    figure = Figure(figsize=tuple(inches.tolist()), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _axis(ax: Any, inches: Floats) -> Any:
    return _figure(inches).subplots() if ax is None else ax


def _room(n_states: int) -> Floats:
    """Width and height of a graph, with room for loops and text."""
    result: Floats = np.ptp(_places(n_states), axis=0) + np.array([1.9, 1.7])
    return result


def _level(noise: ArrayLike, size: int) -> Floats:
    level = finite_floats(
        "noise", np.broadcast_to(np.asarray(noise), (size,)) if np.ndim(noise) == 0 else noise, ndim=1
    )
    if len(level) != size:
        raise DataError(f"noise: {len(level)} levels for {size} values", field="noise")
    return level


def _positive(values: Floats) -> Floats:
    """With a gap where nothing can be drawn on a logarithmic scale."""
    return np.where(values > 0, values, np.nan)


def _name_edge(set_ticks: Any, names: Sequence[str] | None, rotation: int) -> None:
    if names is not None and len(names) <= _MOST_NAMES:
        set_ticks(range(len(names)), labels=list(names), rotation=rotation, fontsize=8, parse_math=False)


def _places(n_states: int) -> Floats:
    if n_states == 1:
        return np.zeros((1, 2))
    angles = np.pi - 2 * np.pi * np.arange(n_states) / n_states
    radius = max(0.95, 0.33 * n_states)
    return radius * np.column_stack([np.cos(angles), np.sin(angles)])


def _draw_state(axis: Any, model: POMDP, action: int, state: int, place: Floats) -> None:
    from matplotlib.patches import Circle

    axis.add_patch(Circle(tuple(place), _NODE_RADIUS, facecolor="#f3f0e6", edgecolor="#333333", zorder=3))
    if state in model.terminal:
        axis.add_patch(Circle(tuple(place), 0.85 * _NODE_RADIUS, fill=False, edgecolor="#333333", zorder=4))
    axis.text(
        *place, model.state_names[state], ha="center", va="center", fontsize=8, zorder=4, parse_math=False
    )
    lines = [
        f"{model.observation_names[o]} {model.observations[action, state, o]:.2f}"
        for o in np.argsort(-model.observations[action, state], kind="stable")
        if model.observations[action, state, o] >= _SHOWN and model.showing[state]
    ]
    if state in model.terminal:
        lines.insert(0, "the end")
    shown = lines[:4] + (["..."] if len(lines) > 4 else [])
    below = place - np.array([0.0, _NODE_RADIUS + 0.06])
    axis.text(
        *below,
        "\n".join(shown),
        ha="center",
        va="top",
        fontsize=7,
        color="#1f4e79",
        zorder=4,
        parse_math=False,
    )


def _draw_move(axis: Any, places: Floats, source: int, target: int, probability: float) -> None:
    from matplotlib.patches import FancyArrowPatch

    style: dict[str, Any] = {
        "arrowstyle": "-|>",
        "mutation_scale": 11,
        "linewidth": 0.6 + 2.2 * probability,
        "color": "#8a3b12",
        "alpha": 0.35 + 0.6 * probability,
        "zorder": 2,
    }
    start, end = places[source], places[target]
    if source == target:  # loops lie sideways: above and below are arrows and observations
        outward = np.array([-1.0 if start[0] < -1e-9 else 1.0, 0.0])
        side = np.array([-outward[1], outward[0]])
        begin = start + _NODE_RADIUS * (0.75 * outward + 0.65 * side)
        finish = start + _NODE_RADIUS * (0.75 * outward - 0.65 * side)
        axis.add_patch(FancyArrowPatch(begin, finish, connectionstyle="arc3,rad=-1.6", **style))
        label = start + (_NODE_RADIUS + 0.3) * outward
    else:
        along = (end - start) / np.hypot(*(end - start))
        side = np.array([along[1], -along[0]])
        begin, finish = start + _NODE_RADIUS * along, end - _NODE_RADIUS * along
        axis.add_patch(FancyArrowPatch(begin, finish, connectionstyle="arc3,rad=0.22", **style))
        label = (start + end) / 2 + 0.11 * np.hypot(*(finish - begin)) * side
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
    axis.text(
        *label,
        f"{probability:.2f}",
        ha="center",
        va="center",
        fontsize=7,
        color="#8a3b12",
        bbox=box,
        zorder=5,
    )
