"""Where the states, moves and labels of a state graph stand: numbers only, the same for every renderer.

Units are those of the plane that the graph lies in, y upwards; a state is a circle of radius 0.3. All actions of a
model share the places of its states, so that one can look from one action to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unlatch.arrays import Flags, Floats, Ints
from unlatch.core.checks import frozen
from unlatch.core.partition import Partition
from unlatch.core.pomdp import POMDP

__all__ = [
    "BAR_GAP",
    "BAR_HEIGHT",
    "NODE_RADIUS",
    "SHOWN",
    "Bar",
    "Move",
    "bar_width",
    "block_order",
    "extent",
    "fits_graph",
    "graph_moves",
    "most_lines",
    "routed",
    "said_lines",
    "shared_cells",
    "short",
    "shown_bars",
    "state_places",
]

SHOWN = 0.005
"""Probabilities below this are left out of a graph."""

_GRAPH_STATES = 30
_GRAPH_MOVES = 24, 2
"""States, and moves of one action (so many, and so many more for every state), up to which a graph is readable."""

NODE_RADIUS = 0.3
BAR_HEIGHT, BAR_GAP = 0.15, 0.06
"""Of the bar that one observation has below its state, and its distance from there."""

_NARROWEST, _LETTER = 1.0, 0.055
"""The least width of a bar, and what a letter of the smallest print takes of it."""

_LONGEST = 24
"""Letters of an observation's name that have room on a bar."""

_RING = 6
"""States up to which they stand on a circle, in their order."""

_FEW, _SOME = 12, 20
"""States up to which there is room for four, and for three observations below each."""

_ASIDE, _ABOVE = 0.5, 1.35
"""Least distance of two states: across, beyond the width of a bar, or upwards."""

_SPACING = 1.6
"""Units of the plane per move."""

_WIDEST = 9.0
_FOLDS = (1.0, 0.85, 0.7, 0.55, 0.4)
"""How far apart states may stand at most, and powers of the number of moves between them that are tried in turn until
they do: the smaller, the more a long corridor curls up."""

_BENDS = (0.16, 0.3, -0.16, -0.3, 0.45, -0.45)
_BENDS_OF_PAIRS = (0.2, 0.32, 0.45)
"""How far a move may bend away from the straight line, as a share of its length; where the way back is a move too, both
bend to their own right, so that they stay apart, or the one that would bend downwards goes straight."""

_DETACHED = 0.12
"""What a move that begins or ends away from its state, below what stands there, counts against a bend."""

_LOOPS = np.deg2rad([0.0, 180.0, 40.0, 140.0, 90.0])
"""Directions in which a loop may lie: not downwards, where observations stand."""

_LABELS = (0.5, 0.38, 0.62, 0.28, 0.72)
"""Where along a move its label may stand."""


class Move(NamedTuple):
    """One arrow: a cubic curve of four points, the triangle at its end, and where its label stands."""

    source: int
    target: int
    probability: float
    curve: Floats
    head: Floats
    label: Floats


class Bar(NamedTuple):
    """One observation that a state shows."""

    symbol: int
    name: str
    probability: float


def fits_graph(pomdp: POMDP) -> bool:
    """Whether a graph of the model is readable; otherwise it is drawn as a matrix of blocks."""
    most, more = _GRAPH_MOVES
    busiest = int((pomdp.transitions >= SHOWN).sum(axis=(1, 2)).max())
    return pomdp.n_states <= _GRAPH_STATES and busiest <= most + more * pomdp.n_states


def state_places(pomdp: POMDP) -> Floats:
    """A place for every state, the same for all actions; shape (states, 2).

    Few states stand on a circle. More stand so that their distance on paper is like the number of moves between them,
    where a move that many states share (a reset) counts as a long way.
    """
    n_states = pomdp.n_states
    if n_states <= _RING:
        return frozen(_circle(n_states))
    paths = _path_lengths(_move_lengths(pomdp))
    for bend in _FOLDS:
        places = _settled(paths**bend, np.array([bar_width(pomdp) + _ASIDE, _ABOVE]))
        if float(np.ptp(places[:, 0])) <= _WIDEST:
            break
    return frozen(places)


def _settled(wanted: Floats, room: Floats) -> Floats:
    """The best of several ways to bring distances on paper near to those that are wanted."""
    starts = (_circle(len(wanted)), *(_scattered(len(wanted), seed) for seed in range(4)))
    found = [_relaxed(start, wanted) for start in starts]
    best = min(found, key=lambda places: _stress(places, wanted))
    return _apart(_upright(_SPACING * best), room)


def _circle(n_states: int) -> Floats:
    if n_states == 1:
        return np.zeros((1, 2))
    angles = np.pi - 2 * np.pi * np.arange(n_states) / n_states
    radius = 1.1 if n_states == 2 else max(1.15, 0.9 / np.sin(np.pi / n_states))
    result: Floats = radius * np.column_stack([np.cos(angles), np.sin(angles)])
    return result


def _scattered(n_states: int, seed: int) -> Floats:
    result: Floats = np.random.default_rng(seed).normal(size=(n_states, 2)) * np.sqrt(n_states) / 2
    return result


def _move_lengths(pomdp: POMDP) -> Floats:
    """How far apart the ends of the likeliest moves should stand; infinite where no action leads."""
    likely = pomdp.transitions * (pomdp.transitions >= 0.05)
    into = np.maximum(likely.sum(axis=1, keepdims=True), 1.0)
    with np.errstate(divide="ignore"):
        lengths = np.where(likely > 0, np.sqrt(into) / np.sqrt(np.maximum(likely, 0.25)), np.inf).min(axis=0)
    both: Floats = np.minimum(lengths, lengths.T)
    np.fill_diagonal(both, 0.0)
    return both


def _path_lengths(lengths: Floats) -> Floats:
    """Shortest paths; states that nothing joins stand a little beyond the farthest that something does."""
    paths = lengths.copy()
    for through in range(len(paths)):
        np.minimum(paths, paths[:, through, None] + paths[None, through], out=paths)
    joined = paths[np.isfinite(paths)]
    return np.where(np.isfinite(paths), paths, joined.max(initial=1.0) + 1.0)


def _relaxed(places: Floats, wanted: Floats, rounds: int = 150) -> Floats:
    """Stress majorization: every state moves to where the others would have it, until it has settled."""
    weights = 1.0 / np.maximum(wanted, 1e-9) ** 2
    np.fill_diagonal(weights, 0.0)
    pulls = weights * wanted
    total = weights.sum(axis=1)
    x, y = places.T
    for _ in range(rounds):
        across, up = x[:, None] - x, y[:, None] - y
        near = pulls / np.maximum(np.sqrt(across * across + up * up), 1e-9)
        moved = (
            (weights @ x + (near * across).sum(axis=1)) / total,
            (weights @ y + (near * up).sum(axis=1)) / total,
        )
        settled = np.abs(moved[0] - x).max() + np.abs(moved[1] - y).max() < 1e-4
        x, y = moved
        if settled:
            break
    return np.column_stack([x, y])


def _stress(places: Floats, wanted: Floats) -> float:
    apart = places[:, None] - places[None]
    distance = np.hypot(apart[..., 0], apart[..., 1])
    return float((((distance - wanted) / np.maximum(wanted, 1.0)) ** 2).sum())


def _upright(places: Floats) -> Floats:
    """Turned so that it is wider than high, with the first state to the left and above."""
    centered = places - places.mean(axis=0)
    x, y = centered.T
    angle = 0.5 * np.arctan2(2 * (x * y).sum(), (x * x).sum() - (y * y).sum())
    turned = centered @ np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    turned = _squared(turned)
    flips = np.where(turned[0] * np.array([-1.0, 1.0]) >= 0, 1.0, -1.0)
    result: Floats = turned * flips
    return result


def _squared(places: Floats) -> Floats:
    """Turned by the few degrees, if any, that bring most neighbors into rows and columns."""
    angles = np.deg2rad(np.arange(-45, 46, 1.5))
    apart = places[:, None] - places[None]
    near = np.hypot(apart[..., 0], apart[..., 1])
    np.fill_diagonal(near, np.inf)
    links = apart[near < 1.35 * near.min(axis=1, keepdims=True)]
    heading = np.arctan2(links[:, 1], links[:, 0])
    straight = [float(np.cos(4 * (heading - angle)).sum()) - abs(angle) for angle in angles]
    best = angles[int(np.argmax(straight))]
    result: Floats = places @ np.array([[np.cos(best), -np.sin(best)], [np.sin(best), np.cos(best)]])
    return result


def _apart(places: Floats, room: Floats, rounds: int = 200) -> Floats:
    """Pushed away from each other until no state stands on another's observations."""
    places = places.copy()
    for _ in range(rounds):
        gaps = places[:, None] - places[None]
        lacking = room - np.abs(gaps)
        clash = np.triu((lacking > 1e-6).all(axis=2), 1)
        if not clash.any():
            break
        for i, j in np.argwhere(clash).tolist():
            axis = int(np.argmin(lacking[i, j]))
            push = (0.5 * lacking[i, j, axis] + 1e-3) * (1.0 if gaps[i, j, axis] >= 0 else -1.0)
            places[i, axis] += push
            places[j, axis] -= push
    return places


def extent(places: Floats, lines: int = 2, width: float = _NARROWEST) -> tuple[float, float, float, float]:
    """The part of the plane that a graph needs, with loops, labels and lines below: left, bottom, right, top."""
    low, high = places.min(axis=0), places.max(axis=0)
    below = NODE_RADIUS + BAR_GAP + 0.1 + BAR_HEIGHT * lines
    aside = max(0.9, width / 2 + 0.05)
    return float(low[0]) - aside, float(low[1]) - below, float(high[0]) + aside, float(high[1]) + 0.8


# --- moves -----------------------------------------------------------------------------------------------


def graph_moves(pomdp: POMDP, action: int, places: Floats) -> list[Move]:
    """The arrows of one action, the likeliest last, so that they are drawn on top."""
    row = pomdp.transitions[action]
    pairs = [
        (int(s), int(t))
        for s, t in np.argwhere(row >= SHOWN)
        if s not in pomdp.terminal  # nothing more happens there
    ]
    pairs.sort(key=lambda pair: -float(row[pair]))
    lines = np.array([len(said_lines(pomdp, action, state)) for state in range(pomdp.n_states)])
    moves = routed(places, pairs, lines, bar_width(pomdp))
    return [move._replace(probability=float(row[move[:2]])) for move in moves][::-1]


def routed(
    places: Floats, pairs: Sequence[tuple[int, int]], lines: Ints | None = None, width: float = _NARROWEST
) -> list[Move]:
    """Arrows between places, each of probability one; the first of them have the first choice of where to write.

    ``lines`` says how many lines, so wide, stand below every place, around which arrows end.
    """
    lines = np.zeros(len(places), dtype=np.int64) if lines is None else lines
    taken: list[Floats] = []
    moves = []
    for source, target in pairs:
        if source == target:
            joined = [t if s == source else s for s, t in pairs if source in (s, t) and s != t]
            curve = _loop(places, source, joined)
        else:
            curve = _curve(places, lines, width, (target, source) in pairs, source, target)
        label = _label(places, lines, width, curve, taken)
        taken.append(label)
        moves.append(Move(source, target, 1.0, frozen(curve), _head(curve), frozen(label)))
    return moves


def _curve(places: Floats, lines: Ints, width: float, returns: bool, source: int, target: int) -> Floats:
    """From the rim of one state to that of another, on the bend that is clear of others and stays near both."""
    across, upwards = places[target] - places[source]
    straight = not returns or across > abs(upwards)  # to the right of which is below
    bends = ((0.0,) if straight else ()) + (_BENDS_OF_PAIRS if returns else _BENDS)
    others = np.delete(places, [source, target], axis=0)
    ends = (places[source], int(lines[source])), (places[target], int(lines[target]))
    wholes = [_bent(places[source], places[target], bend) for bend in bends]
    curves = [_between(whole, width, *ends) for whole in wholes]
    fit = [
        min(_clearance(whole, others), 0.55) - 0.12 * abs(bend) - _DETACHED * _detached(curve, *ends)
        for whole, curve, bend in zip(wholes, curves, bends, strict=True)
    ]
    return curves[int(np.argmax(fit))]


def _detached(curve: Floats, first: tuple[Floats, int], last: tuple[Floats, int]) -> float:
    """How far from the rims of its states a curve begins and ends, since observations stand in its way."""
    gaps = np.array([curve[0] - first[0], curve[3] - last[0]])
    return float(np.maximum(np.hypot(*gaps.T) - NODE_RADIUS, 0.0).sum())


def _bent(start: Floats, end: Floats, bend: float) -> Floats:
    """From middle to middle of two states, bent to the right of its way."""
    along = end - start
    control = (start + end) / 2 + 2 * bend * np.array([along[1], -along[0]])
    return np.array([start, start + 2 / 3 * (control - start), end + 2 / 3 * (control - end), end])


def _between(curve: Floats, width: float, first: tuple[Floats, int], last: tuple[Floats, int]) -> Floats:
    """The part of a curve outside the states that it joins, their observations included."""
    times = np.linspace(0.0, 1.0, 201)
    points = _points(curve, times)
    leaves = np.flatnonzero(_covered(points, *first, width))
    reaches = np.flatnonzero(_covered(points, *last, width))
    begin = min(int(leaves.max(initial=0)) + 1, 150)
    finish = max(int(reaches.min(initial=200)) - 1, begin + 20)
    return _part(curve, float(times[begin]), float(times[min(finish, 200)]))


def _covered(points: Floats, place: Floats, lines: int, width: float) -> Flags:
    """Which points lie on a state, or on the lines below it."""
    gaps = points - place
    circle = np.hypot(gaps[:, 0], gaps[:, 1]) <= NODE_RADIUS
    low = -NODE_RADIUS - BAR_GAP - BAR_HEIGHT * lines
    below = (np.abs(gaps[:, 0]) <= width / 2) & (gaps[:, 1] <= -0.8 * NODE_RADIUS) & (gaps[:, 1] >= low)
    result: Flags = circle | (below & (lines > 0))
    return result


def _part(curve: Floats, begin: float, end: float) -> Floats:
    """The cubic curve between two of its points."""
    return _first_part(_first_part(curve, end)[::-1], 1 - begin / end)[::-1]


def _first_part(curve: Floats, t: float) -> Floats:
    one = (1 - t) * curve[:-1] + t * curve[1:]
    two = (1 - t) * one[:-1] + t * one[1:]
    return np.array([curve[0], one[0], two[0], (1 - t) * two[0] + t * two[1]])


def _loop(places: Floats, state: int, joined: Sequence[int]) -> Floats:
    """A loop to the side where there is most room, away from the arrows to and from other states."""
    here = places[state]
    others = np.delete(places, state, axis=0)
    middle = places.mean(axis=0)
    ways = np.arctan2(*(places[list(joined)] - here).T[::-1])

    def roomy(angle: float) -> float:
        tip = here + 0.75 * np.array([np.cos(angle), np.sin(angle)])
        near = float(np.hypot(*(others - tip).T).min(initial=2.0))
        turned = float(np.abs((ways - angle + np.pi) % (2 * np.pi) - np.pi).min(initial=np.pi))
        return min(near, 1.6) + 0.25 * float(np.hypot(*(tip - middle))) + min(turned, 1.2)

    angle = max(_LOOPS.tolist(), key=roomy)
    rim = [here + NODE_RADIUS * np.array([np.cos(a), np.sin(a)]) for a in (angle + 0.5, angle - 0.5)]
    far = [here + 0.86 * np.array([np.cos(a), np.sin(a)]) for a in (angle + 0.42, angle - 0.42)]
    return np.array([rim[0], far[0], far[1], rim[1]])


def _points(curve: Floats, times: Floats) -> Floats:
    t = times[:, None]
    result: Floats = np.hstack([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3]) @ curve
    return result


def _point(curve: Floats, t: float) -> Floats:
    result: Floats = _points(curve, np.array([t]))[0]
    return result


def _clearance(curve: Floats, others: Floats) -> float:
    points = _points(curve, np.linspace(0.1, 0.9, 9))
    gaps = points[:, None] - others[None]
    return float(np.hypot(gaps[..., 0], gaps[..., 1]).min(initial=2.0))


def _label(places: Floats, lines: Ints, width: float, curve: Floats, taken: Sequence[Floats]) -> Floats:
    """On the curve, away from states, from what stands below them and from labels that stand already."""
    spots = [_point(curve, t) for t in _LABELS]
    below = NODE_RADIUS + BAR_GAP + BAR_HEIGHT * lines

    def free(spot: Floats) -> float:
        gaps = np.abs(places - np.column_stack([0 * below, (below - NODE_RADIUS) / 2]) - spot)
        half = np.column_stack([np.full(len(places), width / 2), (below + NODE_RADIUS) / 2])
        to_states = float(np.hypot(*np.maximum(gaps - half, 0.0).T).min())
        to_labels = min((float(np.hypot(*(other - spot))) for other in taken), default=1.0)
        return min(to_states, 0.2) + min(to_labels, 0.32)

    return max(spots, key=free)


def _head(curve: Floats) -> Floats:
    """A triangle that points along the end of the curve."""
    along = curve[3] - _point(curve, 0.9)
    along = along / max(float(np.hypot(*along)), 1e-12)
    side = np.array([-along[1], along[0]])
    tail = curve[3] - 0.15 * along
    return frozen(np.array([curve[3], tail + 0.06 * side, tail - 0.06 * side]))


# --- what is said at a state ------------------------------------------------------------------------------


def shown_bars(pomdp: POMDP, action: int, state: int) -> tuple[list[Bar], int]:
    """The likeliest observations of a state, and how many more it shows."""
    if not pomdp.showing[state]:
        return [], 0
    row = pomdp.observations[action, state]
    seen = [int(o) for o in np.argsort(-row, kind="stable") if row[o] >= SHOWN]
    most = 4 if pomdp.n_states <= _FEW else 3 if pomdp.n_states <= _SOME else 2
    most = most if len(seen) <= most else most - 1
    bars = [Bar(o, pomdp.observation_names[o], float(row[o])) for o in seen[:most]]
    return bars, len(seen) - len(bars)


def said_lines(pomdp: POMDP, action: int, state: int) -> list[tuple[str, float | None]]:
    """The lines below a state: text, and the share of a bar behind it, if it has one."""
    bars, more = shown_bars(pomdp, action, state)
    end: list[tuple[str, float | None]] = [("the end", None)] if state in pomdp.terminal else []
    rest: list[tuple[str, float | None]] = [(f"and {more} more", None)] if more else []
    return [
        *end,
        *((f"{short(bar.name, _LONGEST)} {bar.probability:.2f}", bar.probability) for bar in bars),
        *rest,
    ]


def bar_width(pomdp: POMDP) -> float:
    """The width of every bar of a model: that of its longest observation and a number, as far as there is room."""
    longest = min(max(map(len, pomdp.observation_names)), _LONGEST)
    return max(_NARROWEST, _LETTER * (longest + len(" 0.00")))


def most_lines(pomdp: POMDP) -> int:
    """The most lines that stand below a state, whatever the action."""
    return max(len(said_lines(pomdp, a, s)) for a in range(pomdp.n_actions) for s in range(pomdp.n_states))


def shared_cells(partition: Partition | None, n_states: int) -> Ints:
    """For every state the number, from 0, of the cell that it shares with others; -1 for a state by itself."""
    marks = np.full(n_states, -1)
    if partition is None or partition.n_states != n_states:
        return frozen(marks)
    shared = [cell for cell in partition.cells if len(cell) > 1]
    for number, cell in enumerate(shared):
        marks[list(cell)] = number
    return frozen(marks)


def block_order(pomdp: POMDP, partition: Partition | None = None) -> Ints:
    """An order of states for a matrix of blocks: states of one cell side by side, then those that show alike."""
    likeliest = pomdp.observations.mean(axis=0).argmax(axis=1)
    cells = np.zeros(pomdp.n_states, dtype=np.int64) if partition is None else partition.labels
    return frozen(np.lexsort((np.arange(pomdp.n_states), likeliest, cells)))


def short(name: str, most: int = 12) -> str:
    """A name as a picture has room for it."""
    return name if len(name) <= most else name[: most - 1] + "…"
