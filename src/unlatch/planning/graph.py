"""A policy as a graph: situations, what is done in each, and where every observation leads."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlatch.arrays import Floats, Ints, own_errstate
from unlatch.core import html
from unlatch.core.checks import frozen
from unlatch.core.symbols import plain_observations

if TYPE_CHECKING:
    from unlatch.planning.policy import Policy

__all__ = ["GraphEdge", "GraphNode", "PolicyGraph", "policy_graph"]

_SAME = 1e-9
"""Difference of beliefs up to which they are one situation."""

_POSSIBLE = 1e-12
"""Probability from which an observation is followed."""


@dataclass(frozen=True, eq=False)
class GraphNode:
    """A situation: the action that is taken, and the ``belief`` (states,) at which it was first come to.

    ``expanded`` is False where the graph was cut off: what follows is not in it.

    Examples
    --------
    >>> import unlatch
    >>> problem = unlatch.Problem(unlatch.domains.tiger(), discount=0.95)
    >>> policy = unlatch.solve(problem)
    >>> node = policy.graph().nodes[0]
    >>> node.action, node.belief, node.expanded
    ('listen', array([0.5, 0.5]), True)
    """

    action: str
    belief: Floats
    step: int
    expanded: bool


@dataclass(frozen=True)
class GraphEdge:
    """What is seen in a situation, how likely it is, and the situation that it leads to; None is the end.

    Examples
    --------
    >>> import unlatch
    >>> problem = unlatch.Problem(unlatch.domains.tiger(), discount=0.95)
    >>> policy = unlatch.solve(problem)
    >>> edge = policy.graph().edges[0]
    >>> edge.source, edge.observation, round(edge.probability, 2)
    (0, 'hear-left|-1', 0.5)
    """

    source: int
    observation: str
    probability: float
    target: int | None


@dataclass(frozen=True, eq=False)
class PolicyGraph:
    """What a policy does, as a graph that a person can read.

    Situations that differ in nothing that will ever be done are one. ``starts`` are the situations that episodes begin
    in, with the first observation that leads there (None where there is none). Where more situations can be reached
    than were asked for, the likeliest are in it and ``complete`` is False.

    Examples
    --------
    >>> import unlatch
    >>> problem = unlatch.Problem(unlatch.domains.tiger(), discount=0.95)
    >>> policy = unlatch.solve(problem)
    >>> graph = policy.graph()
    >>> graph.complete, [node.action for node in graph.nodes][:2]
    (True, ['listen', 'listen'])
    """

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    starts: tuple[tuple[str | None, int], ...]
    complete: bool
    state_names: tuple[str, ...]

    def __repr__(self) -> str:
        cut = "" if self.complete else ", cut off"
        return f"PolicyGraph({len(self.nodes)} situations, {len(self.edges)} edges{cut})"

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        rows = [(str(i), node.action, self._belief(node), self._ways(i)) for i, node in enumerate(self.nodes)]
        return html.page(repr(self), html.table(rows, ["situation", "action", "belief", "then"]))

    def lines(self) -> list[str]:
        """One line for every situation: its number, the action, the belief, and where every observation leads."""
        starts = ", ".join(
            f"{number}" if first is None else f"{number} after {first}" for first, number in self.starts
        )
        own = [f"start: {starts}"]
        for number, node in enumerate(self.nodes):
            ways = self._ways(number) if node.expanded else "(not followed further)"
            own.append(f"{number}: {node.action}  [{self._belief(node)}]  {ways}")
        return own

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, for JSON."""
        return {
            "starts": [{"observation": first, "node": number} for first, number in self.starts],
            "nodes": [
                {"action": n.action, "belief": n.belief.tolist(), "step": n.step, "expanded": n.expanded}
                for n in self.nodes
            ],
            "edges": [
                {
                    "source": e.source,
                    "observation": e.observation,
                    "probability": e.probability,
                    "target": e.target,
                }
                for e in self.edges
            ],
            "complete": self.complete,
            "states": list(self.state_names),
        }

    def _belief(self, node: GraphNode, most: int = 4) -> str:
        order = np.argsort(-node.belief, kind="stable")[:most]
        shown = [f"{self.state_names[s]} {node.belief[s]:.2f}" for s in order if node.belief[s] >= 0.005]
        return ", ".join(shown)

    def _ways(self, number: int) -> str:
        by_target: dict[int | None, list[str]] = {}
        for edge in self.edges:
            if edge.source == number:
                by_target.setdefault(edge.target, []).append(edge.observation)
        return "; ".join(
            f"{', '.join(names)} -> {'the end' if target is None else target}"
            for target, names in by_target.items()
        )


@dataclass
class _Situation:
    belief: Floats
    step: int
    action: int
    weight: float
    ways: list[tuple[str, float, int | None]] | None = None


@own_errstate
def policy_graph(policy: Policy, max_nodes: int) -> PolicyGraph:
    """Follow ``policy`` from the beginnings of an episode, the likeliest situations first."""
    found = _Exploration(policy, max_nodes)
    situations, complete = found.situations, found.complete
    labels = _merged(situations) if complete else np.arange(len(situations))
    order = list(dict.fromkeys(labels.tolist()))  # in the order in which they were come to
    number = {label: i for i, label in enumerate(order)}
    first = {label: int(np.argmax(labels == label)) for label in order}
    names = policy.model.action_names
    nodes, edges = [], []
    for label in order:
        own = situations[first[label]]
        nodes.append(GraphNode(names[own.action], frozen(own.belief), own.step, own.ways is not None))
        for observation, probability, target in own.ways or []:
            reached = None if target is None else number[labels[target]]
            edges.append(GraphEdge(number[label], observation, probability, reached))
    starts = tuple((name, number[labels[i]]) for name, i in found.starts)
    return PolicyGraph(tuple(nodes), tuple(edges), starts, complete, policy.model.state_names)


class _Exploration:
    """Situations that can be reached, found in the order of how likely they are."""

    def __init__(self, policy: Policy, most: int) -> None:
        self.situations: list[_Situation] = []
        self.complete = True
        self._policy, self._most = policy, most
        self._steps = policy.steps
        self._codes = {int(a): i for i, a in enumerate(self._steps.legal)}
        self._known: dict[tuple[Any, ...], int] = {}
        self._queue: list[tuple[float, int]] = []
        self.starts = self._begin()
        while self._queue:
            _, place = heapq.heappop(self._queue)
            if self.situations[place].ways is None:
                self._expand(place)

    def _begin(self) -> list[tuple[str | None, int]]:
        beliefs, weights = self._steps.beginnings()
        model = self._policy.model
        names: list[str | None] = [None]
        if model.first_observations is not None:
            possible = (self._steps.initial @ model.first_observations) > 0
            names = [
                name
                for name, is_possible in zip(model.first_observation_names, possible, strict=True)
                if is_possible
            ]
        return [
            (name, self._come_to(belief, 0, float(weight)))
            for name, belief, weight in zip(names, beliefs, weights, strict=True)
        ]

    def _come_to(self, belief: Floats, step: int, weight: float) -> int:
        key = (step, *np.rint(belief / _SAME).astype(np.int64).tolist())
        if key not in self._known:
            self._known[key] = len(self.situations)
            horizon = self._policy.horizon
            left = None if horizon is None else horizon - step
            action = self._policy.action(belief / belief.sum(), left)
            self.situations.append(_Situation(belief, step, action, 0.0))
        place = self._known[key]
        if weight > self.situations[place].weight:
            self.situations[place].weight = weight
            heapq.heappush(self._queue, (-weight, place))
        return place

    def _expand(self, place: int) -> None:
        own = self.situations[place]
        if len(self.situations) >= self._most:
            self.complete = False
            return
        step = own.step if self._policy.horizon is None else own.step + 1
        ways: list[tuple[str, float, int | None]] = []
        over = step == self._policy.horizon
        action = self._codes[own.action]
        for event in range(self._steps.n_events):
            weights = self._steps.after(own.belief, action, event)
            mass = float(weights.sum())
            if mass > _POSSIBLE:
                target = None if over else self._come_to(weights / mass, step, own.weight * mass)
                ways.append((self._steps.event_name(event), mass, target))
        own.ways = ways + self._endings(own)

    def _endings(self, own: _Situation) -> list[tuple[str, float, int | None]]:
        """What is seen at the end of the episode."""
        model, action = self._policy.model, own.action
        ends = list(model.terminal)
        if not ends:
            return []
        shown = model.observations[action]
        if model.emission == "arrival":
            chances = (own.belief @ model.transitions[action])[ends] @ shown[ends]
        else:
            chances = (own.belief * model.transitions[action][:, ends].sum(axis=1)) @ shown
        plain = plain_observations(model.observation_names, None)
        return [(plain[o], float(chances[o]), None) for o in np.flatnonzero(chances > _POSSIBLE)]


def _merged(situations: list[_Situation]) -> Ints:
    """A label for every situation: the same for those from which the same is done for ever, whatever is seen."""
    labels = np.unique([own.action for own in situations], return_inverse=True)[1]
    while True:
        kinds: dict[tuple[Any, ...], int] = {}
        finer = np.empty_like(labels)
        for i, own in enumerate(situations):
            ways = sorted(
                (name, -1 if target is None else int(labels[target])) for name, _, target in own.ways or []
            )
            finer[i] = kinds.setdefault((int(labels[i]), own.step, tuple(ways)), len(kinds))
        if len(kinds) == len(np.unique(labels)):
            return finer
        labels = finer
