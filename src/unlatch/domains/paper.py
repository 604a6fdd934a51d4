"""The POMDPs of Shaw, Manderson, Kessens and Roy (WAFR 2026).

All emit on departure, never end, and start in ``initial``. Where a domain has rewards, its observation
symbols are pairs named ``observation|reward``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unlatch.core.arguments import real_number, whole_number
from unlatch.core.pomdp import POMDP
from unlatch.domains.build import Moves, Shows, build, require_room

__all__ = [
    "directional_hallway",
    "noisy_hallway",
    "sense_float_reset",
    "tiger",
    "tmaze",
    "unidentifiable_pair",
]


def tiger() -> POMDP:
    """Two doors, one tiger. Listening costs 1 and is right with .85; opening a door pays 10 or costs 100,
    then the tiger is placed anew and the sound is a coin flip.

    Examples
    --------
    >>> from unlatch import domains
    >>> domains.tiger()
    POMDP(2 states, 3 actions, 6 observations, emission='departure')
    >>> domains.tiger().action_names
    ('listen', 'open-left', 'open-right')
    """
    states = ("tiger-left", "tiger-right")
    anew = {"tiger-left": 0.5, "tiger-right": 0.5}

    def opened(reward: float) -> dict[tuple[str, float], float]:
        return {("hear-left", reward): 0.5, ("hear-right", reward): 0.5}

    shows: Shows = {
        ("listen", "tiger-left"): {("hear-left", -1): 0.85, ("hear-right", -1): 0.15},
        ("listen", "tiger-right"): {("hear-left", -1): 0.15, ("hear-right", -1): 0.85},
        ("open-left", "tiger-left"): opened(-100),
        ("open-left", "tiger-right"): opened(10),
        ("open-right", "tiger-left"): opened(10),
        ("open-right", "tiger-right"): opened(-100),
    }
    return build(
        states=states,
        actions=("listen", "open-left", "open-right"),
        moves={(door, state): anew for door in ("open-left", "open-right") for state in states},
        shows=shows,
        initial=anew,
    )


def tmaze(rooms: int = 1, fail: float = 0.0) -> POMDP:
    """Two identical corridors, told apart only by the map at one end and the prize at the other.

    ``rooms`` rooms a corridor, so 2 (rooms + 1) states. With ``fail`` the actions up and down have no
    effect on the junction with that probability, which makes them full-rank.

    Examples
    --------
    >>> from unlatch import domains
    >>> domains.tmaze(rooms=6)  # two states for every room, and two more
    POMDP(14 states, 4 actions, 12 observations, emission='departure')
    """
    whole_number("rooms", rooms, least=1)
    real_number("fail", fail, 0.0, 1.0)
    require_room(states=2 * (rooms + 1), actions=4, symbols=rooms + 5)
    places = ["map"] + [f"rm_{i}" for i in range(rooms, 0, -1)]
    rows = {"top": "U", "bottom": "D"}
    other = {"top": "bottom", "bottom": "top"}
    prize = {("up", "top"): 1.0, ("up", "bottom"): -1.0, ("down", "top"): -1.0, ("down", "bottom"): 1.0}
    moves: dict[tuple[str, str], dict[str, float]] = {}
    shows: dict[tuple[str, str], dict[tuple[str, float], float]] = {}
    for row, letter in rows.items():
        wrong = rows[other[row]]
        for i, place in enumerate(places):
            here = f"{row}-{place}"
            for action, j in (("left", max(i - 1, 0)), ("right", min(i + 1, rooms))):
                if j != i:
                    moves[action, here] = {f"{row}-{places[j]}": 0.9, here: 0.1}
            for action in ("left", "right", "up", "down"):
                if place == "map":
                    shows[action, here] = {(letter, 0.0): 0.95, (wrong, 0.0): 0.05}
                elif place == "rm_1" and action in ("up", "down"):
                    shows[action, here] = {(letter, prize[action, row]): 1.0}
                    moves[action, here] = {
                        here: fail + (1 - fail) / 2,
                        f"{other[row]}-{place}": (1 - fail) / 2,
                    }
                else:
                    shows[action, here] = {(place, 0.0): 1.0}
    return build(
        states=[f"{row}-{place}" for row in rows for place in places],
        actions=("left", "right", "up", "down"),
        moves=moves,
        shows=shows,
        initial={"top-rm_1": 0.5, "bottom-rm_1": 0.5},
    )


def sense_float_reset(states: int = 3, reward: bool = True) -> POMDP:
    """A line of states of which only the first shows itself; float wanders, reset goes home, sense looks.

    With ``reward``, leaving state 1 pays 1.

    Examples
    --------
    >>> from unlatch import domains
    >>> domains.sense_float_reset(4)
    POMDP(4 states, 3 actions, 3 observations, emission='departure')
    """
    whole_number("states", states, least=2)
    require_room(states=states, actions=3, symbols=4)
    names = [str(s) for s in range(states)]
    moves: dict[tuple[str, str], dict[str, float]] = {("reset", name): {"0": 1.0} for name in names}
    for s, name in enumerate(names):
        step: dict[str, float] = {}
        for following in (max(s - 1, 0), min(s + 1, states - 1)):
            step[names[following]] = step.get(names[following], 0.0) + 0.5
        moves["float", name] = step

    def seen(action: str, state: int) -> str:
        return "1" if action != "float" and state == 0 else "0"

    shows: Shows = {
        (action, name): {(seen(action, s), float(s == 1)) if reward else seen(action, s): 1.0}
        for action in ("float", "reset", "sense")
        for s, name in enumerate(names)
    }
    return build(
        states=names, actions=("float", "reset", "sense"), moves=moves, shows=shows, initial={"0": 1.0}
    )


def directional_hallway() -> POMDP:
    """Three places; in the middle one, what is seen is the end that the agent heads for.

    Examples
    --------
    >>> from unlatch import domains
    >>> domains.directional_hallway().state_names
    ('left', 'middle', 'right')
    """
    return _hallway(middle_ahead=0.8)


def noisy_hallway() -> POMDP:
    """Three places; in the middle one, what is seen is a coin flip.

    Examples
    --------
    >>> from unlatch import domains
    >>> domains.noisy_hallway().observation_names
    ('end-left', 'end-right')
    """
    return _hallway(middle_ahead=0.5)


def _hallway(middle_ahead: float) -> POMDP:
    states = ("left", "middle", "right")
    ahead = {"left": "end-left", "right": "end-right"}
    opposite = {"end-left": "end-right", "end-right": "end-left"}
    moves: Moves = {
        ("left", "middle"): {"left": 0.8, "middle": 0.2},
        ("left", "right"): {"middle": 0.8, "right": 0.2},
        ("right", "middle"): {"right": 0.8, "middle": 0.2},
        ("right", "left"): {"middle": 0.8, "left": 0.2},
        **{("reset", state): dict.fromkeys(states, 1 / 3) for state in states},
    }
    shows: dict[tuple[str, str], dict[str, float]] = {}
    for action in ("left", "right", "stay", "reset"):
        for state in states:
            if action in ("stay", "reset"):
                shows[action, state] = {"end-left": 0.5, "end-right": 0.5}
            elif state == "middle":
                end = ahead[action]
                shows[action, state] = {end: middle_ahead, opposite[end]: 1 - middle_ahead}
            else:
                end = ahead[state]
                shows[action, state] = {end: 0.8, opposite[end]: 0.2}
    return build(
        states=states,
        actions=("left", "right", "stay", "reset"),
        moves=moves,
        shows=shows,
        initial=dict.fromkeys(states, 1 / 3),
    )


def unidentifiable_pair() -> tuple[POMDP, POMDP]:
    """Two different POMDPs with one and the same Hankel matrix (the paper's Eq. 17).

    Sense-Float-Reset with three states, no rewards and a perturbed float, and its image under a
    similarity that mixes states 1 and 2. No log can tell one from the other.

    Examples
    --------
    >>> import numpy as np
    >>> import unlatch
    >>> one, other = unlatch.domains.unidentifiable_pair()
    >>> hankels = [unlatch.exact_hankel(each, history_length=2, test_length=2) for each in (one, other)]
    >>> one == other, np.allclose(hankels[0].matrix.toarray(), hankels[1].matrix.toarray())
    (False, True)
    """
    plain = sense_float_reset(3, reward=False)
    transitions = plain.transitions.copy()
    transitions[plain.action_names.index("float")] = [[0.4, 0.5, 0.1], [0.5, 0.1, 0.4], [0.0, 0.5, 0.5]]
    mixing = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.95, 0.05]])
    unmixing = np.array([[1.0, 0.0, 0.0], [0.0, -0.05 / 0.95, 1 / 0.95], [0.0, 1.0, 0.0]])
    first = replace(plain, transitions=transitions)
    mixed = np.where(np.abs(moved := mixing @ transitions @ unmixing) < 1e-15, 0.0, moved)
    return first, replace(plain, transitions=mixed, initial=plain.initial @ unmixing)
