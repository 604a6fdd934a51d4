"""Pictures of what learning saw and how well it went: spectra, evidence, learning curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unlatch.arrays import Floats, own_errstate
from unlatch.core.checks import finite_floats
from unlatch.core.evidence import Evidence
from unlatch.errors import DataError
from unlatch.show.figure import INK, MOVE, PALETTE, SHOWS, axis

__all__ = ["plot_evidence", "plot_learning_curves", "plot_spectrum"]

_STYLES = (("-", "o"), ("--", "s"), ("-.", "^"), (":", "D"), ("-", "v"), ("--", "x"), ("-.", "P"), (":", "*"))
"""Line and marker of every curve: in black and white these tell them apart."""

_FAR = 60.0
"""Nats behind the best beyond which differences say nothing more: the axis is linear up to there."""


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

    Examples
    --------
    >>> import unlatch
    >>> ax = unlatch.plot_spectrum([3.0, 1.0, 0.1, 0.08], noise=0.12, rank=2)
    """
    spectrum = finite_floats("values", values, ndim=1)
    if spectrum.size == 0 or spectrum.min() < 0:
        raise DataError("values: expected at least one singular value, none negative", field="values")
    level = None if noise is None else _level(noise, len(spectrum))
    ax = axis(ax, 5.0, 3.5)
    places = np.arange(1, len(spectrum) + 1)
    ax.plot(places, _positive(spectrum), "o", markersize=4, color=PALETTE[0], label="singular values")
    if level is not None:
        ax.plot(places, _positive(level), "--", color="#777777", label="noise")
    if rank is not None:
        ax.axvline(rank + 0.5, color=MOVE, linewidth=1, label=f"rank {rank}")
    ax.set_yscale("log")
    ax.set_xlabel("number")
    ax.set_ylabel("singular value")
    ax.legend()
    return ax


@own_errstate
def plot_evidence(evidence: Evidence, *, ax: Any = None) -> Any:
    """The evidence for every number of states that was tried, in nats relative to the chosen one.

    The chosen number is filled, the runner-up a ring; the others are open squares, since their models were climbed less
    far. Beyond 60 nats the scale is logarithmic.

    Parameters
    ----------
    evidence : Evidence
        As in ``result.evidence``.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import unlatch
    >>> scores = {1: -900.0, 2: 0.0, 3: -14.0}
    >>> ax = unlatch.plot_evidence(unlatch.Evidence(2, scores, 3, 14.0, steps=1000, steps_to_settle=0))
    """
    scores = {int(count): float(score) for count, score in evidence.scores.items() if np.isfinite(score)}
    if not scores:
        raise DataError("evidence: no number of states has a score", field="evidence")
    ax = axis(ax, 5.0, 3.5)
    counts = sorted(scores)
    ax.plot(counts, [scores[count] for count in counts], "-", color="#999999", linewidth=0.8, zorder=1)
    rest = [count for count in counts if count not in (evidence.states, evidence.runner_up)]
    groups = [([evidence.states], "o", PALETTE[0], "chosen"), (rest, "s", "white", "others, from the search")]
    if evidence.runner_up is not None:
        groups.insert(1, ([evidence.runner_up], "o", "white", f"runner-up, {evidence.gap:.1f} nats behind"))
    for members, marker, face, label in groups:
        drawn = [count for count in members if count in scores]
        ax.plot(
            drawn, [scores[count] for count in drawn], marker, markersize=7, markerfacecolor=face,
            markeredgecolor=SHOWS, linestyle="none", label=label, zorder=2,
        )  # fmt: skip
    ax.axhline(0.0, color=INK, linewidth=0.6)
    if min(scores.values()) < -2 * _FAR:
        ax.set_yscale("symlog", linthresh=_FAR)
        decades = range(2, int(np.ceil(np.log10(-min(scores.values())))) + 1)
        ticks = [*(-(10.0**power) for power in reversed(decades)), -30.0, 0.0]
        ax.set_yticks(ticks, labels=[f"{tick:,.0f}" for tick in ticks])
        ax.set_ylim(1.5 * min(scores.values()), max(0.0, *scores.values()) + 0.3 * _FAR)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel("number of states")
    ax.set_ylabel("nats of evidence, relative")
    ax.legend(fontsize=8)
    return ax


@own_errstate
def plot_learning_curves(
    curves: Mapping[str, ArrayLike],
    *,
    xlabel: str = "steps",
    ylabel: str = "",
    logarithmic: bool = True,
    ax: Any = None,
) -> Any:
    """Means by size of the log, with a band for their spread; every curve has its own line and marker.

    Parameters
    ----------
    curves : mapping of label to array, shape (sizes, 3)
        Rows of (size, mean, spread); the band reaches from mean - spread to mean + spread.
    xlabel, ylabel : str
    logarithmic : bool
        Whether the sizes are drawn on a logarithmic scale; the means are where all are positive and they span more than
        a factor of 20.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import unlatch
    >>> ax = unlatch.plot_learning_curves({"ours": [(100, 0.5, 0.1), (1000, 0.16, 0.03), (10000, 0.05, 0.01)]})
    """
    if not curves:
        raise DataError("curves: at least one is needed", field="curves")
    tables = {label: _curve(label, rows) for label, rows in curves.items()}
    ax = axis(ax, 5.5, 3.8)
    means = np.concatenate([table[:, 1] for table in tables.values()])
    steep = bool((means > 0).all() and means.max() > 20 * means.min())
    for number, (label, table) in enumerate(tables.items()):
        _draw_curve(ax, label, table, number, steep)
    if logarithmic:
        ax.set_xscale("log")
    if steep:
        ax.set_yscale("log")
    ax.set_xlabel(xlabel, parse_math=False)
    ax.set_ylabel(ylabel, parse_math=False)
    ax.grid(alpha=0.25)
    for text in ax.legend(fontsize=8).get_texts():
        text.set_parse_math(False)
    return ax


def _curve(label: str, rows: ArrayLike) -> Floats:
    table = finite_floats(f"curves[{label!r}]", rows, ndim=2)
    if table.shape[1] != 3 or not len(table) or (table[:, 2] < 0).any():
        raise DataError(
            f"curves[{label!r}]: shape {table.shape}; expected rows of (size, mean, spread), no spread negative",
            field="curves",
        )
    return table[np.argsort(table[:, 0], kind="stable")]


def _draw_curve(ax: Any, label: str, table: Floats, number: int, steep: bool) -> None:
    sizes, means, spread = table.T
    color = PALETTE[number % len(PALETTE)]
    line, marker = _STYLES[number % len(_STYLES)]
    lower = np.maximum(means - spread, 0.2 * means) if steep else means - spread
    ax.fill_between(sizes, lower, means + spread, color=color, alpha=0.15, linewidth=0)
    shown = label if not label.startswith("_") else f" {label}"  # an underscore would hide it from the legend
    ax.plot(sizes, means, line, marker=marker, markersize=4, color=color, linewidth=1.6, label=shown)


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
