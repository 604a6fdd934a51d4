"""Pictures of models. The only module that draws; matplotlib is imported when a picture is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unlatch.arrays import Floats
from unlatch.core.pomdp import POMDP
from unlatch.errors import StorageError, UsageError

__all__ = ["draw_models"]

_SHOWN = 0.005
"""Probabilities below this are left out of the picture."""

_NODE_RADIUS = 0.3
_INCHES = 1.25
"""On paper, per unit of the drawing's plane."""


def draw_models(
    models: Mapping[str, POMDP], path: str | Path, *, actions: Sequence[str] | None = None
) -> Path:
    """Draw the state graph of every action, one row an action, one column a model, and save it.

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
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    width, height = np.ptp(_places(first.n_states), axis=0) + np.array([1.9, 1.7])  # room for loops and text
    figure = Figure(
        figsize=(_INCHES * width * len(models), _INCHES * height * len(chosen)), layout="constrained"
    )
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(chosen), len(models), squeeze=False)
    for row, action in enumerate(chosen):
        for column, (title, model) in enumerate(models.items()):
            _draw_panel(axes[row, column], model, model.action_names.index(action))
            axes[row, column].set_title(f"{title}: {action}", fontsize=12)
    target = Path(path)
    try:
        figure.savefig(target, dpi=110)
    except ValueError as error:
        raise UsageError(f"cannot draw to {target}: {error}") from None
    except OSError as error:
        raise StorageError(f"cannot write the picture {target}: {error.strerror or error}") from None
    return target


def _draw_panel(axis: Any, model: POMDP, action: int) -> None:
    places = _places(model.n_states)
    for source in range(model.n_states):
        for target in range(model.n_states):
            probability = float(model.transitions[action, source, target])
            if probability >= _SHOWN:
                _draw_move(axis, places, source, target, probability)
    for state, place in enumerate(places):
        _draw_state(axis, model, action, state, place)
    axis.set_xlim(places[:, 0].min() - 0.95, places[:, 0].max() + 0.95)
    axis.set_ylim(places[:, 1].min() - 0.9, places[:, 1].max() + 0.45)
    axis.set_aspect("equal")
    axis.axis("off")


def _places(n_states: int) -> Floats:
    if n_states == 1:
        return np.zeros((1, 2))
    angles = np.pi - 2 * np.pi * np.arange(n_states) / n_states
    radius = max(0.95, 0.33 * n_states)
    return radius * np.column_stack([np.cos(angles), np.sin(angles)])


def _draw_state(axis: Any, model: POMDP, action: int, state: int, place: Floats) -> None:
    from matplotlib.patches import Circle

    axis.add_patch(Circle(tuple(place), _NODE_RADIUS, facecolor="#f3f0e6", edgecolor="#333333", zorder=3))
    axis.text(
        *place, model.state_names[state], ha="center", va="center", fontsize=8, zorder=4, parse_math=False
    )
    lines = [
        f"{model.observation_names[o]} {model.observations[action, state, o]:.2f}"
        for o in np.argsort(-model.observations[action, state], kind="stable")
        if model.observations[action, state, o] >= _SHOWN
    ]
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
