"""The paper's figures with our curves (solid, band: standard deviation over seeds) on the paper's (dashed)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unlatch.core.pomdp import POMDP
from unlatch.domains import by_name
from unlatch.files.atomic import atomic_writer
from unlatch.show.plots import draw_models
from unlatch.study.paper import FIGURE_7_AT_A_MILLION
from unlatch.study.studies import DOMAINS, HALLWAYS
from unlatch.study.summary import CURVES, group, paper_curve

__all__ = ["draw_figure5", "draw_figure6", "draw_figure7", "draw_figure9"]

Row = Mapping[str, Any]

_COLORS = {
    "spectral": "#1f5fa8",
    "spectral-plain": "#7fb2e5",
    "spectral-model": "#6a3d9a",
    "psr": "#2e8b57",
    "em": "#c0392b",
    "em-12": "#e08e45",
    "truth": "#000000",
    "optimum": "#888888",
}
_LEARNERS = ("spectral", "spectral-plain", "spectral-model", "psr", "em", "em-12")
_THEIRS = ("spectral", "psr", "em")
_LEAST_ERROR = 1e-4
"""Below this an error counts as none, and axes end."""

_TITLES = {
    "estimated_states": "estimated states",
    "observation_l1": "observation error (L1)",
    "three_step_transition_l1": "three-step transition error (L1)",
    "total_reward": "total reward",
    "state_reward": "reward on the state",
    "observation_reward": "reward on observations",
    "observation_reward_meant": "reward on observations, judged by state",
}


def draw_figure5(rows: Sequence[Row], path: Path) -> Path:
    """States, errors and rewards by size, a column a domain."""
    panels = [[(domain, measure) for domain in DOMAINS] for measure in CURVES["fig5"]]
    return _draw_panels("fig5", rows, panels, path)


def draw_figure6(rows: Sequence[Row], path: Path) -> Path:
    """Errors and rewards by size in the hallways, a row a domain."""
    panels = [[(domain, measure) for measure in CURVES["fig6"]] for domain in HALLWAYS]
    return _draw_panels("fig6", rows, panels, path)


def _draw_panels(
    figure: str, rows: Sequence[Row], panels: Sequence[Sequence[tuple[str, str]]], path: Path
) -> Path:
    def draw(axes: Any) -> None:
        for axis_row, panel_row in zip(axes, panels, strict=True):
            for axis, (domain, measure) in zip(axis_row, panel_row, strict=True):
                _draw_panel(axis, figure, rows, domain, measure)
        axes[0, 0].plot([], [], color="#555555", label="ours")
        axes[0, 0].plot([], [], color="#555555", linestyle="--", label="paper")
        for method, color in _COLORS.items():
            axes[0, 0].plot([], [], color=color, linewidth=4, label=method)
        axes[0, 0].figure.legend(loc="outside lower center", ncols=10, fontsize=9, frameon=False)

    return _drawn(draw, (len(panels), len(panels[0])), path)


def _draw_panel(axis: Any, figure: str, rows: Sequence[Row], domain: str, measure: str) -> None:
    ours = group([row for row in rows if row["domain"] == domain], ("method", "steps"), measure)
    for method in _LEARNERS if measure != "estimated_states" else ("spectral",):
        points = [(steps, found) for (name, steps), found in ours.items() if name == method and found.count]
        _draw_ours(axis, sorted(points), _COLORS[method], band="reward" not in measure)
        if method in _THEIRS:
            _draw_paper(axis, paper_curve(figure, domain, measure, method), _COLORS[method])
    for method in ("truth", "optimum"):
        line = ours.get((method, 0))
        if line is not None and line.count and "reward" in measure:
            axis.axhline(line.mean, color=_COLORS[method], linewidth=1)
    if measure in ("total_reward", "state_reward"):
        for value in paper_curve(figure, domain, measure, "truth").values():
            axis.axhline(value.mean, color=_COLORS["truth"], linewidth=1, linestyle="--")
    if measure.endswith("_l1"):
        axis.set_yscale("log")
        axis.set_ylim(bottom=max(axis.get_ylim()[0], _LEAST_ERROR))
    _dress(axis, f"{domain}\n{_TITLES[measure]}")


def _dress(axis: Any, title: str) -> None:
    axis.set_xscale("log")
    axis.set_title(title, fontsize=9)
    axis.tick_params(labelsize=7, which="both")
    axis.grid(alpha=0.25)


def _draw_ours(axis: Any, points: list[tuple[int, Any]], color: str, *, band: bool) -> None:
    if not points:
        return
    steps = [size for size, _ in points]
    means = np.array([found.mean for _, found in points])
    spread = np.array([found.sd if band else found.standard_error for _, found in points])
    axis.plot(steps, means, color=color, linewidth=1.6, marker=".", markersize=3)
    lower = np.maximum(means - spread, means * 0.2) if (means > 0).all() else means - spread
    axis.fill_between(steps, lower, means + spread, color=color, alpha=0.13, linewidth=0)


def _draw_paper(axis: Any, curve: Mapping[int, Any], color: str) -> None:
    sizes = sorted(size for size in curve if size)
    axis.plot(sizes, [curve[size].mean for size in sizes], color=color, linewidth=1.2, linestyle="--")


def draw_figure7(rows: Sequence[Row], path: Path) -> Path:
    """How far the last true singular value stands from the first, by size."""
    ours = group(
        [row for row in rows if row.get("method") == "spectral"], ("domain", "steps"), "singular_ratio"
    )

    def draw(axes: Any) -> None:
        for axis, domain in zip(axes[0], DOMAINS, strict=True):
            points = sorted((steps, found) for (name, steps), found in ours.items() if name == domain)
            _draw_ours(axis, points, _COLORS["spectral"], band=True)
            axis.axhline(
                FIGURE_7_AT_A_MILLION[domain], color=_COLORS["spectral"], linestyle="--", linewidth=1.2
            )
            _dress(axis, f"{domain}\nσ_r / σ_1 (dashed: the paper's at 1e6)")

    return _drawn(draw, (1, len(DOMAINS)), path)


def draw_figure9(rows: Sequence[Row], path: Path) -> Path:
    """Tiger as learned beside Tiger as it is."""
    truth = by_name(DOMAINS["tiger"])
    learned = {"transition": truth.transitions.copy(), "observation": truth.observations.copy()}
    for row in rows:
        learned[row["kind"]][row["action"], row["state"], row["entry"]] = row["learned"]
    for matrix in learned.values():
        matrix /= matrix.sum(axis=2, keepdims=True)  # rows were rounded
    model = POMDP(
        transitions=learned["transition"],
        observations=learned["observation"],
        initial=truth.initial,
        action_names=truth.action_names,
        observation_names=truth.observation_names,
        state_names=truth.state_names,
        symbol_rewards=truth.symbol_rewards,
    )
    return draw_models({"learned": model, "true": truth}, path, actions=("listen", "open-left"))


def _drawn(draw: Callable[[Any], None], shape: tuple[int, int], path: Path) -> Path:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.3 * shape[1], 2.6 * shape[0] + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    draw(figure.subplots(*shape, squeeze=False))
    with atomic_writer(path) as handle:
        figure.savefig(handle, dpi=110, format="png")
    return path
