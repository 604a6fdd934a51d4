"""A policy in words: what is done how certain of what, read off the plans and the situations that they lead to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unlatch.arrays import Floats

if TYPE_CHECKING:
    from unlatch.planning.graph import PolicyGraph
    from unlatch.planning.policy import Policy

__all__ = ["describe_policy"]

_MOST_SITUATIONS = 60
"""Situations up to which a few sentences can say what a policy does."""

_MOST_LINES = 8


def describe_policy(policy: Policy) -> list[str]:
    """Sentences about ``policy``. Every number in them is read off the policy; where too much can happen for that, they
    say so."""
    graph = policy.graph(max_nodes=_MOST_SITUATIONS)
    lines = _always(graph) or _by_certainty(graph) or _by_action(graph)
    thresholds = _thresholds(policy) if policy.horizon is None else []
    return [*lines, *thresholds]


def _certainty(belief: Floats) -> tuple[int, float]:
    likeliest = int(np.argmax(belief))
    return likeliest, float(belief[likeliest])


def _always(graph: PolicyGraph) -> list[str]:
    """Where the policy only ever takes one action."""
    actions = {node.action for node in graph.nodes}
    return [f"always {actions.pop()}"] if graph.complete and len(actions) == 1 else []


def _by_certainty(graph: PolicyGraph) -> list[str]:
    """ "Listen until one state is .97 certain, then ...", if that is what the policy does: one action below a
    certainty, and from there on one for every likeliest state."""
    if not graph.complete:
        return []
    found = [(node.action, *_certainty(node.belief)) for node in graph.nodes]
    for patient in dict.fromkeys(action for action, _, _ in found):
        below = [certainty for action, _, certainty in found if action == patient]
        above = [(state, action, certainty) for action, state, certainty in found if action != patient]
        decided = {state: action for state, action, _ in above}
        if not above or any(decided[state] != action for state, action, _ in above):
            continue
        reached = min(certainty for _, _, certainty in above)
        if max(below) < reached - 1e-9:
            then = "; ".join(f"{graph.state_names[state]}: {action}" for state, action in decided.items())
            return [f"{patient} until one state is {_share(reached)} certain, then by that state - {then}"]
    return []


def _by_action(graph: PolicyGraph) -> list[str]:
    """For every action the states that are likeliest when it is taken, and how likely they are then."""
    ranges: dict[str, dict[int, tuple[float, float]]] = {}
    for node in graph.nodes:
        state, certainty = _certainty(node.belief)
        low, high = ranges.setdefault(node.action, {}).get(state, (2.0, 0.0))
        ranges[node.action][state] = (min(low, certainty), max(high, certainty))
    which = "in all" if graph.complete else "in the likeliest"
    lines = [f"{which} {len(graph.nodes)} situations that the policy leads to:"]
    for action, states in ranges.items():
        parts = [
            f"{graph.state_names[s]} ({_range(*span)})" for s, span in list(states.items())[:_MOST_LINES]
        ]
        more = "" if len(states) <= _MOST_LINES else f", and {len(states) - _MOST_LINES} more"
        lines.append(f"  {action} where the likeliest state is {', '.join(parts)}{more}")
    return lines


def _thresholds(policy: Policy) -> list[str]:
    """Of a model with two states the exact probabilities at which the action changes."""
    live = np.flatnonzero(policy.model.going_on > 0)
    if len(live) != 2:
        return []
    parts = action_intervals(policy.vectors[:, live[::-1]], policy.actions_taken)
    if len(parts) < 2:
        return []
    name, actions = policy.model.state_names[live[0]], policy.model.action_names
    spans = [f"{actions[action]} from {_share(low)} to {_share(high)}" for low, high, action in parts]
    return [f"by the probability of {name}: {', '.join(spans)}"]


def action_intervals(vectors: Floats, actions: np.ndarray) -> list[tuple[float, float, int]]:
    """For two states the intervals of the second one's probability on which each action's vector is the highest: the
    upper envelope of lines ``vectors[:, 0] + p (vectors[:, 1] - vectors[:, 0])``."""
    offsets, slopes = vectors[:, 0], vectors[:, 1] - vectors[:, 0]
    here, p = int(np.lexsort((slopes, offsets))[-1]), 0.0
    parts: list[tuple[float, float, int]] = []
    while True:
        steeper = np.flatnonzero(slopes > slopes[here])
        crossings = (offsets[here] - offsets[steeper]) / (slopes[steeper] - slopes[here])
        ahead = crossings >= p - 1e-15
        end = float(min(crossings[ahead].min(initial=1.0), 1.0))
        action = int(actions[here])
        if parts and parts[-1][2] == action:
            parts[-1] = (parts[-1][0], end, action)
        elif end > p or not parts:
            parts.append((p, end, action))
        if end >= 1.0:
            return parts
        reached = steeper[ahead][crossings[ahead] <= end + 1e-15]
        here, p = int(reached[np.argmax(slopes[reached])]), end


def _share(value: float) -> str:
    """A probability in as many digits as keep it from being rounded to certainty."""
    for digits in (2, 3, 4):
        text = f"{value:.{digits}f}"
        if 0.0 < float(text) < 1.0 or value in (0.0, 1.0):
            return text.lstrip("0") if value not in (0.0, 1.0) else f"{value:.0f}"
    return f"{value:.6g}"


def _range(low: float, high: float) -> str:
    return _share(low) if high - low < 5e-3 else f"{_share(low)} to {_share(high)}"
