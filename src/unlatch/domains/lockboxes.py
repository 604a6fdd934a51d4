"""A box whose joints lock one another: to open it is to find out which."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from unlatch.core.arguments import real_number, whole_number
from unlatch.core.pomdp import POMDP
from unlatch.domains.build import build, require_room
from unlatch.errors import UsageError

__all__ = ["lockbox"]

Lock = tuple[int, int] | None
"""The joint that locks another, and the position in which it sets it free; None: never locked."""

_MOST_JOINTS = 20
"""A million states; long before, memory is asked for and refused."""


def lockbox(
    joints: int = 3, *, locks: Sequence[Lock] | None = None, fail: float = 0.1, wrong: float = 0.05
) -> POMDP:
    """Joints with two positions that lock one another, and a door; after Baum et al., "Opening a lockbox through
    physical exploration" (Humanoids 2017).

    Pushing a joint that is free takes it to its other position; a locked one stays. The door is a joint too, but once
    it moves, the box is open: that pays 1 and ends the episode. What is felt is whether the joint was free, ``moves``
    or ``stuck``; positions are not seen. An episode starts with every joint in position 0.

    Arrival emission. That is exact, since a joint never locks itself: whether it is free is the same before and after
    its push.

    Parameters
    ----------
    joints : int
        Without the door. There are ``2 ** joints`` states named by the positions, such as ``010``, and ``open``.
    locks : sequence, optional
        For every joint and then the door, what sets it free: (joint, position), joints counted from 0, or None if it
        is never locked. By default a chain: the first joint is free, and every other one, in the end the door, once
        the joint before it is in position 1.
    fail : float
        Probability that a free joint springs back: it is felt to move, and nothing has changed.
    wrong : float
        Probability that the feeling deceives. That the box is open is beyond doubt.

    Examples
    --------
    >>> from unlatch import domains
    >>> box = domains.lockbox()
    >>> box.n_states, box.action_names, box.observation_names
    (9, ('push-0', 'push-1', 'push-2', 'open'), ('moves|0', 'stuck|0', 'open|1'))
    """
    joints = whole_number("joints", joints, least=1, most=_MOST_JOINTS)
    real_number("fail", fail, 0.0, 1.0)
    real_number("wrong", wrong, 0.0, 1.0)
    chain: list[Lock] = [None, *((joint, 1) for joint in range(joints))]
    keys = chain if locks is None else _checked(locks, joints)
    require_room(states=2**joints + 1, actions=joints + 1, symbols=3)
    actions = (*(f"push-{joint}" for joint in range(joints)), "open")
    moves: dict[tuple[str, str], dict[str, float]] = {}
    shows: dict[tuple[str, str], dict[tuple[str, float], float]] = {}
    configurations = list(product((0, 1), repeat=joints))
    for positions in configurations:
        for joint, (action, lock) in enumerate(zip(actions, keys, strict=True)):
            here = _name(positions)
            free = lock is None or positions[lock[0]] == lock[1]
            if free:
                moves[action, here] = {_pushed(positions, joint): 1 - fail, here: fail}
            likely = 1 - wrong if free else wrong
            shows[action, here] = {("moves", 0.0): likely, ("stuck", 0.0): 1 - likely}
    return build(
        states=[*map(_name, configurations), "open"],
        actions=actions,
        moves=moves,
        shows={**shows, **{(action, "open"): {("open", 1.0): 1.0} for action in actions}},
        initial={_name(configurations[0]): 1.0},
        emission="arrival",
        terminal=["open"],
    )


def _name(positions: Sequence[int]) -> str:
    return "".join(map(str, positions))


def _pushed(positions: tuple[int, ...], joint: int) -> str:
    """The state after a push; the door is the joint after the last."""
    if joint == len(positions):
        return "open"
    return _name([position ^ (i == joint) for i, position in enumerate(positions)])


def _checked(locks: Sequence[Lock], joints: int) -> list[Lock]:
    keys = list(locks)
    if len(keys) != joints + 1:
        raise UsageError(f"locks: {len(keys)} entries for {joints} joints and the door; give one for each")
    for joint, lock in enumerate(keys):
        if lock is None:
            continue
        if not (
            isinstance(lock, tuple) and len(lock) == 2 and lock[0] in range(joints) and lock[1] in (0, 1)
        ):
            raise UsageError(
                f"locks: joint {joint} is locked by {lock!r:.60}; give (joint, position) with a joint from 0 to "
                f"{joints - 1} and the position 0 or 1 that frees it, or None"
            )
        if lock[0] == joint:
            raise UsageError(f"locks: joint {joint} cannot lock itself")
    return keys
