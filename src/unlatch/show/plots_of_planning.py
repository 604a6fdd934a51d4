"""Pictures of plans: a search tree, the value of beliefs, a policy graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unlatch.arrays import Floats, own_errstate
from unlatch.core.arguments import whole_number
from unlatch.errors import DataError, UsageError
from unlatch.planning.graph import PolicyGraph
from unlatch.show import layout
from unlatch.show.figure import FILLS, INK, MOVE, PALETTE, SHOWS, axis

if TYPE_CHECKING:
    from unlatch.planning.pouct import POUCT

__all__ = ["plot_policy_graph", "plot_search_tree", "plot_value"]

_HATCHES = ("", "///", "...", "\\\\\\", "xx", "|||", "++", "oo")
"""Of the regions of actions, which colors alone would not tell apart in black and white."""

_MOST_NODES = 40
"""Of a policy graph that is drawn."""

_POINTS = {2: 201, 3: 40}
"""Beliefs along an edge of the simplex at which a value is asked for."""


# --- the search tree -------------------------------------------------------------------------------------


class _Branch(NamedTuple):
    """A node of the drawing: an action that was tried, or what was seen after it."""

    parent: int
    depth: int
    label: str
    visits: int
    is_action: bool


@own_errstate
def plot_search_tree(planner: POUCT, *, depth: int = 2, most: int = 3, ax: Any = None) -> Any:
    """The tree that a planner keeps after a search: actions (boxes) and what was seen after them (circles).

    Lines are as wide as they were often tried; a box says the action, how often it was tried and its mean return in the
    planner's window.

    Parameters
    ----------
    planner : POUCT
        After ``planner.search()`` or ``planner.action()``, at its own belief.
    depth : int
        Steps that are drawn.
    most : int
        Actions of a node, and observations of an action, that are drawn, the most visited first.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import unlatch
    >>> planner = unlatch.POUCT(unlatch.domains.tiger(), simulations=200, rng=0)
    >>> result = planner.search()
    >>> ax = unlatch.plot_search_tree(planner)
    """
    depth = whole_number("depth", depth, least=1, most=10)
    most = whole_number("most", most, least=1, most=100)
    branches = _branches(planner, depth, most)
    if len(branches) == 1:
        raise UsageError("the planner's tree is empty: let it search first, by planner.search()")
    places = _tree_places(branches)
    leaves = round(float(np.ptp(places[:, 1]))) + 1
    ax = axis(ax, 2.3 + 3.4 * depth, max(2.6, 0.36 * leaves + 0.6))
    total = max(branch.visits for branch in branches)
    for number, branch in enumerate(branches):
        if branch.parent >= 0:
            x, y = np.stack([places[branch.parent], places[number]]).T
            width = 0.5 + 5 * branch.visits / max(total, 1)
            ax.plot(x, y, color="#999999", linewidth=width, zorder=1, solid_capstyle="round")
        _draw_branch(ax, branch, places[number])
    ax.set_xlim(-0.4, 2 * depth + 0.55)
    ax.set_ylim(places[:, 1].min() - 0.7, places[:, 1].max() + 0.7)
    ax.axis("off")
    return ax


def _branches(planner: POUCT, depth: int, most: int) -> list[_Branch]:
    from unlatch.planning.events import events_of

    tree = planner.state()["tree"]
    parent, taken, seen = (np.array(tree[name]) for name in ("parent", "action", "symbol"))
    visits, values = np.array(tree["visits"]), np.array(tree["values"])
    shown = events_of(planner.model).observations
    names = planner.model.observation_names
    scale = planner.reward.resolve(
        planner.model
    ).scale  # the tree keeps means of returns in units of the largest reward
    branches = [_Branch(-1, 0, "now", int(visits[0].sum()), False)]
    waiting = [(0, 0, 0)]  # node of the tree, its number here, its depth
    while waiting:
        node, here, level = waiting.pop(0)
        for action in np.argsort(-visits[node], kind="stable")[:most].tolist():
            tried = int(visits[node, action])
            if level >= depth or not tried:
                continue
            mean = scale * float(values[node, action])
            said = f"{layout.short(planner.model.action_names[action])}: {tried}×, {mean:.3g}"
            branches.append(_Branch(here, 2 * level + 1, said, tried, True))
            box = len(branches) - 1
            below = np.flatnonzero((parent == node) & (taken == action))
            counts = visits[below].sum(axis=1)
            for child in below[np.argsort(-counts, kind="stable")][:most].tolist():
                code = int(shown[seen[child]])
                label = "over" if code < 0 else layout.short(names[code], 16)
                branches.append(_Branch(box, 2 * level + 2, label, int(visits[child].sum()), False))
                waiting.append((child, len(branches) - 1, level + 1))
    return branches


def _tree_places(branches: Sequence[_Branch]) -> Floats:
    """Depth to the right; leaves one below the other, every node in the middle of its own."""
    children: dict[int, list[int]] = {}
    for number, branch in enumerate(branches):
        children.setdefault(branch.parent, []).append(number)
    heights: dict[int, float] = {}
    free = 0.0
    order = [0]
    for number in order:  # grows: every node after its parent
        order += children.get(number, [])
    for number in _from_left(children, 0):
        if number not in children:
            heights[number] = -free
            free += 1.0
    for number in reversed(order):
        if number in children:
            heights[number] = float(np.mean([heights[child] for child in children[number]]))
    return np.array([[branch.depth, heights[number]] for number, branch in enumerate(branches)])


def _from_left(children: Mapping[int, Sequence[int]], root: int) -> list[int]:
    """All nodes, each before what lies below it, siblings in their order."""
    found, waiting = [], [root]
    while waiting:
        number = waiting.pop()
        found.append(number)
        waiting += reversed(children.get(number, ()))
    return found


def _draw_branch(ax: Any, branch: _Branch, place: Floats) -> None:
    box = "square,pad=0.25" if branch.is_action else "round,pad=0.3,rounding_size=0.8"
    face = "#f6ece6" if branch.is_action else "#eef2f6"
    ax.text(
        *place, branch.label, ha="center", va="center", fontsize=7.5, zorder=3, parse_math=False,
        color=MOVE if branch.is_action else SHOWS,
        bbox={"boxstyle": box, "facecolor": face, "edgecolor": INK, "linewidth": 0.6},
    )  # fmt: skip


# --- values of beliefs -----------------------------------------------------------------------------------


@own_errstate
def plot_value(
    policy: Any, *, states: Sequence[str] | None = None, actions: Sequence[str] | None = None, ax: Any = None
) -> Any:
    """The value of every belief over two or three states.

    Parameters
    ----------
    policy : object with a method ``value(belief)``, or a function of a belief
        As an `ExactPlanner`. If it also has ``action(belief)``, the beliefs are marked by what it does there.
    states : sequence of 2 or 3 names, optional
        Two states give a curve over the probability of the second, three a triangle with lines of equal value. By
        default those of ``policy.model``, or "0" and "1".
    actions : sequence of str, optional
        Names of the actions; by default those of ``policy.model``, or numbers.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import unlatch
    >>> ax = unlatch.plot_value(unlatch.ExactPlanner(unlatch.domains.tiger(), horizon=4))
    """
    model = getattr(policy, "model", None)
    states = states if states is not None else getattr(model, "state_names", ("0", "1"))
    if len(states) not in _POINTS:
        raise UsageError(f"values are drawn over 2 or 3 states, got {len(states)}")
    value = getattr(policy, "value", policy)
    if not callable(value):
        raise UsageError("expected an object with a method value(belief), or a function of a belief")
    choose = getattr(policy, "action", None)
    names = actions if actions is not None else getattr(model, "action_names", None)
    beliefs = _simplex(len(states))
    values = np.array([float(value(belief)) for belief in beliefs])
    chosen = None if choose is None else np.array([int(choose(belief)) for belief in beliefs])
    if len(states) == 2:
        return _plot_curve(beliefs, values, chosen, states, names, ax)
    return _plot_triangle(beliefs, values, chosen, states, names, ax)


def _simplex(n_states: int) -> Floats:
    steps = _POINTS[n_states]
    if n_states == 2:
        share = np.linspace(0.0, 1.0, steps)
        return np.column_stack([1 - share, share])
    grid = [(i, j, steps - i - j) for i in range(steps + 1) for j in range(steps + 1 - i)]
    return np.array(grid) / steps


def _named(names: Sequence[str] | None, action: int) -> str:
    return str(action) if names is None else layout.short(names[action], 20)


def _plot_curve(beliefs: Floats, values: Floats, chosen: Any, states: Any, names: Any, ax: Any) -> Any:
    ax = axis(ax, 5.0, 3.6)
    ax.plot(beliefs[:, 1], values, color=INK, linewidth=1.8, zorder=3)
    if chosen is not None:
        cuts = np.flatnonzero(np.diff(chosen)) + 1
        seen: set[int] = set()
        for part in np.split(np.arange(len(values)), cuts):
            action = int(chosen[part[0]])
            ends = beliefs[[part[0], min(part[-1] + 1, len(values) - 1)], 1]
            label = None if action in seen else _named(names, action)
            seen.add(action)
            ax.axvspan(
                *ends, facecolor=FILLS[action % len(FILLS)], hatch=_HATCHES[action % len(_HATCHES)],
                edgecolor="#888888", linewidth=0.0, label=label, zorder=1,
            )  # fmt: skip
        _legend(ax)
    ax.set_xlim(0, 1)
    ax.set_xlabel(
        f"probability of {layout.short(states[1], 30)} (otherwise {layout.short(states[0], 30)})",
        parse_math=False,
    )
    ax.set_ylabel("value")
    return ax


def _plot_triangle(beliefs: Floats, values: Floats, chosen: Any, states: Any, names: Any, ax: Any) -> Any:
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])
    x, y = (beliefs @ corners).T
    ax = axis(ax, 5.6, 4.6)
    darkest = float(values.max() + 0.8 * np.ptp(values))  # never reached: numbers stand on the shades
    filled = ax.tricontourf(x, y, values, levels=12, cmap="Blues", vmax=darkest)
    lines = ax.tricontour(x, y, values, levels=12, colors=INK, linewidths=0.4)
    ax.clabel(lines, fontsize=6.5)
    ax.figure.colorbar(filled, ax=ax, label="value", shrink=0.8)
    if chosen is not None:
        markers = "os^Dvx+*"
        for action in np.unique(chosen).tolist():
            where = np.flatnonzero(chosen == action)[::3]
            ax.plot(
                x[where], y[where], markers[action % len(markers)], markersize=2.6, linestyle="none",
                color=PALETTE[action % len(PALETTE)], label=_named(names, action),
            )  # fmt: skip
        _legend(ax)
    for place, name, side in zip(corners, states, ("top", "top", "bottom"), strict=True):
        ax.annotate(
            layout.short(name, 20), place, ha="center", va=side, fontsize=9, parse_math=False, annotation_clip=False,
            xytext=(0, -6 if side == "top" else 6), textcoords="offset points",
        )  # fmt: skip
    ax.set_ylim(-0.04, corners[2, 1] + 0.04)  # labels of lines reach over the edge
    ax.set_aspect("equal")
    ax.axis("off")
    return ax


def _legend(ax: Any) -> None:
    for text in ax.legend(fontsize=8, loc="best", framealpha=0.95).get_texts():
        text.set_parse_math(False)


# --- policy graphs ---------------------------------------------------------------------------------------


@own_errstate
def plot_policy_graph(
    nodes: PolicyGraph | Sequence[str],
    edges: Mapping[tuple[int, str], int] | None = None,
    *,
    start: int | None = 0,
    ax: Any = None,
) -> Any:
    """A finite-state controller: every node takes an action, what is seen then leads to the next node.

    Parameters
    ----------
    nodes : PolicyGraph, or sequence of str
        As ``policy.graph()``, which has everything; or the action of every node.
    edges : mapping of (node, observation) to node
        With a sequence of actions.
    start : int, optional
        The node that an episode begins in, drawn with a thick rim; a `PolicyGraph` has its own.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import unlatch
    >>> policy = unlatch.solve(unlatch.Problem(unlatch.domains.tiger(), discount=0.95))
    >>> ax = unlatch.plot_policy_graph(policy.graph())
    >>> nodes = ["listen", "open-left", "open-right"]
    >>> edges = {(0, "hear-left"): 2, (0, "hear-right"): 1, (1, "silence"): 0, (2, "silence"): 0}
    >>> ax = unlatch.plot_policy_graph(nodes, edges)
    """
    starts = [] if start is None else [start]
    if isinstance(nodes, PolicyGraph):
        nodes, edges, starts = _controller(nodes)
    edges = edges if edges is not None else {}
    _refuse_edges(nodes, edges)
    places = _level_places(_levels(len(nodes), edges, starts or [0]))
    labels: dict[tuple[int, int], list[str]] = {}
    for (source, observation), target in edges.items():
        labels.setdefault((source, target), []).append(observation)
    moves = layout.routed(places, list(labels))
    drawn = np.concatenate([places, *(move.label[None] for move in moves)])
    left, bottom, right, top = layout.extent(drawn, 0)
    ax = axis(ax, 1.3 * (right - left), 1.3 * (top - bottom))
    for move in moves:
        _draw_edge(ax, move, labels[move.source, move.target])
    for number, (action, place) in enumerate(zip(nodes, places, strict=True)):
        _draw_node(ax, action, place, is_start=number in starts)
    ax.set_xlim(left, right)
    ax.set_ylim(bottom, top)
    ax.set_aspect("equal")
    ax.axis("off")
    return ax


def _controller(graph: PolicyGraph) -> tuple[list[str], dict[tuple[int, str], int], list[int]]:
    """Actions of the nodes, edges and starts of a graph; where something ends, one node more."""
    end = len(graph.nodes)
    edges = {(e.source, e.observation): end if e.target is None else e.target for e in graph.edges}
    over = ["the end"] if end in edges.values() else []
    return [node.action for node in graph.nodes] + over, edges, [number for _, number in graph.starts]


def _refuse_edges(nodes: Sequence[str], edges: Mapping[tuple[int, str], int]) -> None:
    if not len(nodes):
        raise DataError("nodes: at least one is needed", field="nodes")
    if len(nodes) > _MOST_NODES:
        raise DataError(
            f"nodes: {len(nodes)}, of which no picture is readable; at most {_MOST_NODES} are drawn: ask for fewer,"
            " by policy.graph(max_nodes=...), or print the graph",
            field="nodes",
        )
    for (source, _), target in edges.items():
        for node in (source, target):
            if not 0 <= node < len(nodes):
                raise DataError(f"edges: there is no node {node}; there are {len(nodes)}", field="edges")


def _levels(count: int, edges: Mapping[tuple[int, str], int], starts: Sequence[int]) -> list[int]:
    """Steps from the start to every node; nodes that nothing leads to come last."""
    found = dict.fromkeys(starts, 0)
    waiting = list(found)
    for node in waiting:
        for (source, _), target in edges.items():
            if source == node and target not in found:
                found[target] = found[node] + 1
                waiting.append(target)
    last = max(found.values()) + 1
    return [found.get(node, last) for node in range(count)]


def _level_places(levels: Sequence[int]) -> Floats:
    places = np.zeros((len(levels), 2))
    for level in sorted(set(levels)):
        members = [node for node, its in enumerate(levels) if its == level]
        for row, node in enumerate(members):
            shift = 0.28 * (level % 2) if len(members) == 1 else 0.0  # off the line, so that long edges pass
            places[node] = [1.9 * level, (len(members) - 1) / 2 * 1.35 - 1.35 * row + shift]
    return places


def _draw_node(ax: Any, action: str, place: Floats, *, is_start: bool) -> None:
    from matplotlib.patches import Circle

    rim = 2.4 if is_start else 0.9
    ax.add_patch(
        Circle(tuple(place), layout.NODE_RADIUS, facecolor="#f6ece6", edgecolor=INK, linewidth=rim, zorder=3)
    )
    name = layout.short(action)
    size = 9 if len(name) <= 6 else 7
    ax.text(*place, name, ha="center", va="center", fontsize=size, zorder=4, parse_math=False, color=INK)


def _draw_edge(ax: Any, move: layout.Move, seen: Sequence[str]) -> None:
    from matplotlib.patches import PathPatch, Polygon
    from matplotlib.path import Path as Curve

    codes = [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4]
    ax.add_patch(PathPatch(Curve(move.curve, codes), fill=False, edgecolor=SHOWS, linewidth=1.1, zorder=2))
    ax.add_patch(Polygon(move.head, closed=True, facecolor=SHOWS, edgecolor="none", zorder=2))
    more = f", +{len(seen) - 3}" if len(seen) > 3 else ""
    names = [layout.short(name, 24) for name in seen[:3]]
    said = (", " if sum(map(len, names)) <= 24 else ",\n").join(names) + more
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.9}
    ax.text(
        *move.label,
        said,
        ha="center",
        va="center",
        fontsize=7.5,
        color=SHOWS,
        bbox=box,
        zorder=5,
        parse_math=False,
    )
