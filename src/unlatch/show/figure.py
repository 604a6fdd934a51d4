"""What all pictures share: figures that no window knows, files written whole, colors."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

from unlatch.arrays import own_errstate
from unlatch.errors import MissingDependencyError, UsageError
from unlatch.files.atomic import PathLike, checked_path, write_atomically

__all__ = [
    "FILLS",
    "INK",
    "MOVE",
    "PALETTE",
    "SHOWS",
    "axis",
    "figure_of",
    "picture_kind",
    "save_plot",
    "write_picture",
]

FORMATS = ("png", "pdf", "svg")

INK, MOVE, SHOWS = "#222222", "#8a3b12", "#1f4e79"
"""Outlines and names; moves; observations. All dark enough to read as black."""

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#555555", "#56B4E9", "#E69F00", "#000000")
"""Okabe and Ito's colors, which color-blind readers tell apart; the first five differ in black and white as well."""

FILLS = ("#cfe3f3", "#f6d9b8", "#c9e8d8", "#ecd3e2", "#d9d9d9", "#e7e3a6", "#bfd8d2", "#e3c9c4")
"""Of cells that several states share."""


@own_errstate
def save_plot(ax: Any, path: PathLike) -> Path:
    """Save the figure of an axis, whole or not at all: an older file of that name survives a full disk.

    Parameters
    ----------
    ax : matplotlib Axes
        As every ``plot_`` function returns it.
    path : path ending in .png, .pdf or .svg
        A symbolic link is replaced, not followed. The same picture gives the same bytes.

    Returns
    -------
    Path

    Examples
    --------
    >>> import tempfile, unlatch
    >>> folder = tempfile.mkdtemp()
    >>> save_plot(unlatch.plot_states(unlatch.domains.tiger(), "listen"), f"{folder}/tiger.svg").name
    'tiger.svg'
    """
    return write_picture(ax.figure, path)


def write_picture(figure: Any, path: PathLike) -> Path:
    """The whole of a figure as a file."""
    kind = picture_kind(path)
    write_atomically(path, _rendered(figure, kind))
    return Path(checked_path(path))


def picture_kind(path: PathLike) -> str:
    """The format that a path's ending asks for."""
    target = Path(checked_path(path))
    kind = target.suffix.removeprefix(".").lower()
    if kind not in FORMATS:
        raise UsageError(
            f"cannot draw to {target}: its name must end in {', '.join(f'.{f}' for f in FORMATS)}"
        )
    return kind


def _rendered(figure: Any, kind: str) -> bytes:
    """The picture's bytes, the same ones for the same picture."""
    from matplotlib import rc_context

    dated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind)
    buffer = BytesIO()
    with rc_context({"svg.hashsalt": "unlatch"}):
        figure.savefig(buffer, format=kind, dpi=130, metadata=dated)
    return buffer.getvalue()


def figure_of(width: float, height: float) -> Any:
    """A figure of its own, in inches, which no window and no global state knows."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError(
            f"matplotlib, which draws the pictures, cannot be imported ({error}); install it: pip install matplotlib",
            package="matplotlib",
        ) from None
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def axis(ax: Any, width: float, height: float) -> Any:
    """The caller's axis, or that of a new figure."""
    return figure_of(width, height).subplots() if ax is None else ax
