"""A walk over ice: episodes that end in a hole or at the goal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from unlatch.core.pomdp import POMDP
from unlatch.domains.build import build, require_room
from unlatch.errors import UsageError

__all__ = ["frozen_lake"]

_LAKES = {
    4: ("SFFF", "FHFH", "FFFH", "HFFG"),
    8: (
        "SFFFFFFF",
        "FFFFFFFF",
        "FFFHFFFF",
        "FFFFFHFF",
        "FFFHFFFF",
        "FHHFFFHF",
        "FHFFHFHF",
        "FFFHFFFG",
    ),
}
"""The maps of Gymnasium's FrozenLake-v1, by size."""

_ACTIONS = ("left", "down", "right", "up")
"""In the order in which a neighbor is perpendicular and the one after it is opposite, and in Gymnasium's."""

_STEPS = {"left": (0, -1), "down": (1, 0), "right": (0, 1), "up": (-1, 0)}

Observe = Literal["cell", "row", "column"]


def frozen_lake(
    size: int = 4, *, lake: Sequence[str] | None = None, slippery: bool = True, observe: str = "cell"
) -> POMDP:
    """Gymnasium's FrozenLake-v1: from the start over the ice to the goal, which pays 1; holes and the goal end the
    episode.

    Arrival emission, and the episode begins with an observation of the start. Each hole and the goal is a terminal
    state of its own.

    Parameters
    ----------
    size : 4 or 8
        Which of the two published maps.
    lake : sequence of str, optional
        A map of your own instead, a letter a cell: S where an episode can start, F ice, H a hole, G a goal.
    slippery : bool
        Whether a move goes where it is meant to with probability 1/3 only, and to either side with 1/3 each. The
        border stops a move.
    observe : "cell", "row" or "column"
        What is seen of the cell that was reached: its number (row by row, from 0), or only that of its row or column.

    Examples
    --------
    >>> from unlatch import domains
    >>> model = domains.frozen_lake(observe="column")
    >>> model.observation_names, model.first_observation_names
    (('0|0', '1|0', '2|0', '3|0', '3|1'), ('0', '1', '2', '3'))
    >>> [model.state_names[s] for s in model.terminal]
    ['5', '7', '11', '12', '15']
    """
    rows = _checked(size, lake)
    if observe not in get_args(Observe):
        raise UsageError(f"observe must be 'cell', 'row' or 'column', got {observe!r}")
    if not isinstance(slippery, bool):
        raise UsageError(f"slippery must be True or False, got {slippery!r}")
    height, width = len(rows), len(rows[0])
    require_room(states=height * width, actions=4, symbols=height * width + 1)
    letters = {(r, c): rows[r][c] for r in range(height) for c in range(width)}
    names = {(r, c): str(r * width + c) for r, c in letters}
    seen = {(r, c): {"cell": names[r, c], "row": str(r), "column": str(c)}[observe] for r, c in letters}
    ends = [cell for cell, letter in letters.items() if letter in "HG"]
    starts = [cell for cell, letter in letters.items() if letter == "S"]

    def reached(cell: tuple[int, int], action: str) -> str:
        down, right = _STEPS[action]
        beyond = (cell[0] + down, cell[1] + right)
        return names[beyond if beyond in names else cell]

    moves: dict[tuple[str, str], dict[str, float]] = {}
    for cell in letters:
        if cell in ends:
            continue
        for i, action in enumerate(_ACTIONS):
            taken = [_ACTIONS[(i + turn) % 4] for turn in ((-1, 0, 1) if slippery else (0,))]
            row = moves.setdefault((action, names[cell]), {})
            for direction in taken:
                following = reached(cell, direction)
                row[following] = row.get(following, 0.0) + 1 / len(taken)
    return build(
        states=list(names.values()),
        actions=_ACTIONS,
        moves=moves,
        shows={
            (action, names[cell]): {(seen[cell], float(letter == "G")): 1.0}
            for action in _ACTIONS
            for cell, letter in letters.items()
        },
        initial={names[cell]: 1 / len(starts) for cell in starts},
        emission="arrival",
        terminal=[names[cell] for cell in ends],
        first={names[cell]: {seen[cell]: 1.0} for cell in letters},
    )


def _checked(size: int, lake: Sequence[str] | None) -> tuple[str, ...]:
    """The map's rows."""
    if lake is None:
        if isinstance(size, bool) or size not in _LAKES:
            raise UsageError(
                f"size must be 4 or 8, the sizes of the published maps, got {size!r:.60}; draw other lakes"
            )
        return _LAKES[size]
    rows = tuple(lake) if not isinstance(lake, str) else ()
    if not rows or not all(isinstance(row, str) and row and len(row) == len(rows[0]) for row in rows):
        raise UsageError(
            "lake must be texts of equal length, one a row, such as ['SFFF', 'FHFH', 'FFFH', 'HFFG']"
        )
    if strange := set("".join(rows)) - set("SFHG"):
        raise UsageError(f"lake: S, F, H and G are known, got {', '.join(map(repr, sorted(strange)))}")
    if "S" not in "".join(rows):
        raise UsageError("lake: an episode has nowhere to start; mark a cell with S")
    return rows
