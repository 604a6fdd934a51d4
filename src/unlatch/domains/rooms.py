"""Rooms in which many places look the same: where you are shows only in how you came there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from unlatch.arrays import Ints
from unlatch.core.arguments import real_number, whole_number
from unlatch.core.pomdp import POMDP
from unlatch.core.random import RandomSource, resolve_rng
from unlatch.domains.build import build, require_room
from unlatch.errors import UsageError

__all__ = ["random_room", "room"]

BLOCKED = "#"
"""Stands for a cell that nobody can enter."""

_STEPS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}

_MOST_DRAWS = 1000
"""Of layouts, until one has cells that can all be told apart. Only rooms of next to no colors need more than a few."""

Cell = tuple[int, int]


def room(colors: Sequence[str] | ArrayLike, *, slip: float = 0.0, wrong: float = 0.0) -> POMDP:
    """A grid of colored cells of which only the color of the cell that was reached is seen.

    The actions up, down, left and right move one cell. The border and blocked cells stop a move: the agent stays, and
    sees its own cell. Arrival emission, no rewards, no end; an episode starts in any cell.

    Parameters
    ----------
    colors : sequence of str, or array of shape (rows, columns)
        A text per row with a letter per cell, or an array of numbers or names. ``#`` is a blocked cell.
    slip : float
        Probability that a move fails and the agent stays where it is.
    wrong : float
        Probability that another color is seen than the cell has, each of the others equally likely.

    Examples
    --------
    >>> from unlatch import domains
    >>> model = domains.room(["rgr", "r#g"])
    >>> model.state_names
    ('0,0', '0,1', '0,2', '1,0', '1,2')
    >>> model.observation_names
    ('g', 'r')
    """
    real_number("slip", slip, 0.0, 1.0)
    real_number("wrong", wrong, 0.0, 1.0)
    cells = _cells(colors)
    alphabet = sorted(set(cells.values()))
    if wrong > 0 and len(alphabet) == 1:
        raise UsageError("wrong: the room has one color, so that no other can be seen; leave wrong at 0")
    require_room(states=len(cells), actions=len(_STEPS), symbols=len(alphabet))
    names = {cell: f"{cell[0]},{cell[1]}" for cell in cells}
    moves: dict[tuple[str, str], dict[str, float]] = {}
    shows: dict[tuple[str, str], dict[str, float]] = {}
    for action in _STEPS:
        for cell, color in cells.items():
            reached = _reached(cell, action, cells)
            if reached != cell:
                moves[action, names[cell]] = {names[reached]: 1 - slip, names[cell]: slip}
            shows[action, names[cell]] = {
                shown: 1 - wrong if shown == color else wrong / (len(alphabet) - 1) for shown in alphabet
            }
    return build(
        states=list(names.values()),
        actions=tuple(_STEPS),
        moves=moves,
        shows=shows,
        initial=dict.fromkeys(names.values(), 1 / len(cells)),
        emission="arrival",
    )


def random_room(
    rows: int, columns: int, colors: int = 4, *, slip: float = 0.0, wrong: float = 0.0, rng: RandomSource
) -> POMDP:
    """A room whose cells are colored at random.

    Drawn anew until every color occurs and no two cells are alike in everything that can be seen from them, so that
    the room has as many states as cells.

    Parameters
    ----------
    rows, columns, colors : int
    slip, wrong : float
        See `room`.
    rng : int or numpy.random.Generator
        Of the layout.

    Examples
    --------
    >>> from unlatch import domains
    >>> domains.random_room(6, 8, rng=0)
    POMDP(48 states, 4 actions, 4 observations, emission='arrival')
    """
    rows = whole_number("rows", rows, least=1)
    columns = whole_number("columns", columns, least=1)
    colors = whole_number("colors", colors, least=2, most=26)
    require_room(states=rows * columns, actions=len(_STEPS), symbols=colors)
    if rows * columns < colors:
        raise UsageError(f"colors: {rows} x {columns} cells cannot show {colors} colors; ask for fewer")
    generator, _ = resolve_rng(rng)
    for _ in range(_MOST_DRAWS):
        layout = np.array(list("abcdefghijklmnopqrstuvwxyz"))[
            generator.integers(colors, size=(rows, columns))
        ]
        if len(np.unique(layout)) == colors and _all_differ(_cells(layout)):
            return room(layout, slip=slip, wrong=wrong)
    raise UsageError(
        f"colors: of {_MOST_DRAWS} random layouts of {rows} x {columns} cells in {colors} colors none had all colors "
        "and no two cells alike; ask for other numbers"
    )


def _cells(colors: Sequence[str] | ArrayLike) -> dict[Cell, str]:
    """The color of every cell that can be entered, row by row."""
    try:
        rows = [list(row) if isinstance(row, str) else row.tolist() for row in np.asarray(colors)]
    except (TypeError, ValueError, AttributeError):  # no rows at all, or rows of different lengths
        rows = []
    if not rows or any(not isinstance(row, list) or not row or len(row) != len(rows[0]) for row in rows):
        raise UsageError("colors must be a grid: rows of equal length, a color for every cell")
    named = [[str(color) for color in row] for row in rows]
    cells = {(r, c): color for r, row in enumerate(named) for c, color in enumerate(row) if color != BLOCKED}
    if not cells:
        raise UsageError("colors: every cell is blocked; a room needs one to stand in")
    return cells


def _reached(cell: Cell, action: str, cells: dict[Cell, str]) -> Cell:
    down, right = _STEPS[action]
    beyond = (cell[0] + down, cell[1] + right)
    return beyond if beyond in cells else cell


def _all_differ(cells: dict[Cell, str]) -> bool:
    """Whether no two cells show the same colors under all sequences of moves: labels are split until none splits."""
    places = {cell: i for i, cell in enumerate(cells)}
    following = np.array([[places[_reached(cell, action, cells)] for action in _STEPS] for cell in cells])
    labels: Ints = np.unique(list(cells.values()), return_inverse=True)[1]
    while True:
        seen = np.column_stack([labels, labels[following]])
        finer = np.unique(seen, axis=0, return_inverse=True)[1].reshape(-1)
        if finer.max() == labels.max():
            return bool(finer.max() == len(cells) - 1)
        labels = finer
