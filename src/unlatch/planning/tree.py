"""Memory of a search tree, and its form as plain numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from unlatch.core.memory import require_memory
from unlatch.errors import DataError
from unlatch.kernels.treesearch import Tree, new_node, new_root

__all__ = ["empty_tree", "roomy_tree", "tree_from_state", "tree_state"]


def empty_tree(actions: int, capacity: int) -> Tree:
    """A tree of one root with room for ``capacity`` nodes."""
    require_memory(
        capacity * 16 * (1 + actions), f"a tree of {capacity} nodes", "lower max_nodes or the simulations"
    )
    tree = Tree(
        size=np.zeros(1, np.int64),
        deepest=np.zeros(1, np.int64),
        closing=np.zeros(2),
        parent=np.empty(capacity, np.int32),
        action=np.empty(capacity, np.int32),
        symbol=np.empty(capacity, np.int32),
        sibling=np.empty(capacity, np.int32),
        child=np.empty((capacity, actions), np.int32),
        visits=np.empty((capacity, actions), np.int32),
        values=np.empty((capacity, actions)),
    )
    new_root(tree)
    return tree


def roomy_tree(tree: Tree, capacity: int) -> Tree:
    """``tree`` itself if it has room for ``capacity`` nodes, else a larger copy."""
    if len(tree.parent) >= capacity:
        return tree
    size = int(tree.size[0])
    larger = empty_tree(tree.child.shape[1], capacity)
    for name in Tree._fields:
        old, new = getattr(tree, name), getattr(larger, name)
        kept = size if len(old) == len(tree.parent) else len(old)
        new[:kept] = old[:kept]
    return larger


def tree_state(tree: Tree) -> dict[str, Any]:
    """What `tree_from_state` needs, as plain numbers and lists."""
    size = int(tree.size[0])
    per_node = ("parent", "action", "symbol", "visits", "values")
    return {
        "deepest": int(tree.deepest[0]),
        "closing": tree.closing.tolist(),
        **{name: getattr(tree, name)[:size].tolist() for name in per_node},
    }


def tree_from_state(state: dict[str, Any], actions: int, observations: int, max_nodes: int) -> Tree:
    """The tree that `tree_state` recorded; `DataError` if the record is no tree of such a model."""
    try:
        parents, taken, seen = (
            np.array(state[name], dtype=np.int32) for name in ("parent", "action", "symbol")
        )
        visits = np.array(state["visits"], dtype=np.int32)
        values = np.array(state["values"], dtype=np.float64)
        deepest, closing = int(state["deepest"]), np.array(state["closing"], dtype=np.float64)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise DataError("a planner's state needs a whole search tree") from None
    size = len(parents) if parents.ndim == 1 else 0
    below = slice(1, None)
    if not (
        0 < size <= max_nodes
        and taken.shape == seen.shape == (size,)
        and visits.shape == values.shape == (size, actions)
        and closing.shape == (2,)
        and parents[0] == -1
        and (parents[below] >= 0).all()
        and (parents[below] < np.arange(1, size)).all()
        and (taken[below] >= 0).all()
        and (taken[below] < actions).all()
        and (seen[below] >= 0).all()
        and (seen[below] < observations).all()
        and (visits >= 0).all()
        and np.isfinite(values).all()
        and np.isfinite(closing).all()
    ):
        raise DataError("the state's search tree does not fit this planner's model and options")
    tree = empty_tree(actions, size)
    for node in range(1, size):
        new_node(tree, parents[node], taken[node], seen[node])
    tree.visits[:size], tree.values[:size] = visits, values
    tree.deepest[0], tree.closing[:] = deepest, closing
    return tree
