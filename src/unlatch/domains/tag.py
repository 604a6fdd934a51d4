"""Tag: a robot looks for somebody who runs away from it, and sees them only where they are."""

from __future__ import annotations

import numpy as np

from unlatch.core.checks import frozen
from unlatch.core.pomdp import POMDP
from unlatch.core.trajectory import format_reward
from unlatch.domains.build import require_room

__all__ = ["tag"]

_BOTTOM_ROWS, _BOTTOM_WIDTH = 2, 10
_TOP_ROWS, _TOP_COLUMNS = 3, (5, 6, 7)
_MOVES = {"north": (0, 1), "south": (0, -1), "east": (1, 0), "west": (-1, 0)}


def tag(flee: float = 0.8, step: float = -1.0, caught: float = 10.0, missed: float = -10.0) -> POMDP:
    """Tag (Pineau, Gordon and Thrun 2003): 29 cells, robot and opponent in one each, 870 states.

    The robot moves north, south, east or west for ``step`` each, and always knows where it is; it sees the opponent
    only in its own cell. To ``tag`` there pays ``caught`` and ends the episode, elsewhere it pays ``missed``. The
    opponent flees: with probability ``flee`` by row or by column, half of the time each, to a cell that is not nearer,
    else it stays; it also stays where a wall is in its way. Episodes start anywhere. Arrival emission; the last 29
    states are the end, one for every cell of the robot.

    Examples
    --------
    >>> from unlatch import domains
    >>> domains.tag().n_states, len(domains.tag().terminal)
    (870, 29)
    """
    cells = [(x, y) for y in range(_BOTTOM_ROWS) for x in range(_BOTTOM_WIDTH)]
    cells += [(x, y) for y in range(_BOTTOM_ROWS, _BOTTOM_ROWS + _TOP_ROWS) for x in _TOP_COLUMNS]
    place = {cell: i for i, cell in enumerate(cells)}
    n, actions = len(cells), (*_MOVES, "tag")
    require_room(states=n * (n + 1), actions=len(actions), symbols=4 * n)

    def moved(cell: tuple[int, int], way: tuple[int, int]) -> tuple[int, int]:
        beyond = (cell[0] + way[0], cell[1] + way[1])
        return beyond if beyond in place else cell

    flights = np.zeros((n, n, n))  # robot, opponent, where the opponent goes
    for robot in cells:
        for opponent in cells:
            r, o = place[robot], place[opponent]
            flights[r, o, o] += 1 - flee
            for axis in (0, 1):
                ways = [way for way in _MOVES.values() if way[axis]]
                away = [w for w in ways if (opponent[axis] - robot[axis]) * w[axis] >= 0]
                for way in away:
                    flights[r, o, place[moved(opponent, way)]] += flee / 2 / len(away)
    transitions = np.zeros((len(actions), n * (n + 1), n * (n + 1)))
    for r, robot in enumerate(cells):
        transitions[:, n * n + r, n * n + r] = 1.0  # caught
        for o in range(n):
            for a, way in enumerate(_MOVES.values()):
                reached = place[moved(robot, way)]
                transitions[a, r * n + o, reached * n : reached * n + n] = flights[r, o]
            if r == o:
                transitions[-1, r * n + o, n * n + r] = 1.0
            else:
                transitions[-1, r * n + o, r * n : r * n + n] = flights[r, o]
    seen = [f"at {x} {y}" for x, y in cells] + [f"together at {x} {y}" for x, y in cells]
    rewards = sorted({step, caught, missed})
    names = [f"{name}|{format_reward(reward)}" for name in seen for reward in rewards]
    return POMDP(
        transitions=transitions,
        observations=_shown(n, actions, rewards, step, caught, missed),
        initial=np.append(np.full(n * n, 1 / (n * n)), np.zeros(n)),
        emission="arrival",
        action_names=actions,
        observation_names=tuple(names),
        state_names=_state_names(cells),
        symbol_rewards=np.tile(rewards, len(seen)),
        terminal=tuple(range(n * n, n * (n + 1))),
    )


def _state_names(cells: list[tuple[int, int]]) -> tuple[str, ...]:
    pairs = [f"robot {r[0]} {r[1]} opponent {o[0]} {o[1]}" for r in cells for o in cells]
    return (*pairs, *(f"caught at {x} {y}" for x, y in cells))


def _shown(
    n: int, actions: tuple[str, ...], rewards: list[float], step: float, caught: float, missed: float
) -> np.ndarray:
    """What every state shows: the robot's cell, whether the opponent is there, and what the action paid."""
    shown = np.zeros((len(actions), n * (n + 1), 2 * n * len(rewards)))
    for a, action in enumerate(actions):
        paid = rewards.index(missed if action == "tag" else step)
        for state in range(n * n):
            robot, opponent = divmod(state, n)
            where = robot + n * (robot == opponent)
            shown[a, state, where * len(rewards) + paid] = 1.0
        for robot in range(n):
            shown[a, n * n + robot, (robot + n) * len(rewards) + rewards.index(caught)] = 1.0
    return frozen(shown)
