"""A model as a graph in text: DOT for Graphviz, Mermaid for the pages that draw it themselves."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from unlatch.arrays import Floats
from unlatch.core.arguments import real_number
from unlatch.core.pomdp import POMDP
from unlatch.errors import ResourceLimitError, UsageError
from unlatch.show.safe import plain

__all__ = ["to_dot", "to_mermaid"]

LEAST = 0.005
"""Probabilities below this are left out: they would be written as 0.00."""

_MOST_STATES = 500
"""Beyond this no program draws a graph that anybody can read."""

_MERMAID_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,:=+-/")


def to_dot(pomdp: POMDP, *, least: float = LEAST) -> str:
    """The state graph of a model in the language of Graphviz: ``dot -Tsvg model.dot``.

    Parameters
    ----------
    pomdp : POMDP
    least : float
        The smallest probability that is drawn.

    Returns
    -------
    str
        A state is a node, which says what it shows; an edge says by which actions it is taken and how likely. Terminal
        states have a double border. Names are escaped, so that none of them can be read as part of the language.

    >>> import unlatch
    >>> print(unlatch.to_dot(unlatch.domains.noisy_hallway()).splitlines()[0])
    digraph model {
    """
    _check(pomdp, least)
    lines = ["digraph model {", "  node [shape=box];"]
    for state in range(pomdp.n_states):
        label = "\\n".join(map(_dot_text, _node_lines(pomdp, state, least)))
        ending = ", peripheries=2" if state in pomdp.terminal else ""
        lines.append(f'  s{state} [label="{label}"{ending}];')
    for source, target, labels in _edges(pomdp, least):
        text = "\\n".join(map(_dot_text, labels))
        lines.append(f'  s{source} -> s{target} [label="{text}"];')
    return "\n".join([*lines, "}", ""])


def to_mermaid(pomdp: POMDP, *, least: float = LEAST) -> str:
    """The state graph of a model in the language of Mermaid, which READMEs of many sites draw.

    Parameters
    ----------
    pomdp : POMDP
    least : float
        The smallest probability that is drawn.

    Returns
    -------
    str
        As of `to_dot`. Put it into a block of code whose language is ``mermaid``.

    Examples
    --------
    >>> import unlatch
    >>> print(unlatch.to_mermaid(unlatch.domains.noisy_hallway()).splitlines()[0])
    flowchart LR
    """
    _check(pomdp, least)
    lines = ["flowchart LR"]
    for state in range(pomdp.n_states):
        label = "<br/>".join(map(_mermaid_text, _node_lines(pomdp, state, least)))
        opening, closing = ("[[", "]]") if state in pomdp.terminal else ("[", "]")
        lines.append(f'  s{state}{opening}"{label}"{closing}')
    for source, target, labels in _edges(pomdp, least):
        text = "<br/>".join(map(_mermaid_text, labels))
        lines.append(f'  s{source} -->|"{text}"| s{target}')
    return "\n".join([*lines, ""])


def _check(pomdp: POMDP, least: float) -> None:
    if not isinstance(pomdp, POMDP):
        raise UsageError(f"a POMDP has states to draw, a {type(pomdp).__name__} has none")
    real_number("least", least, 0.0, 1.0)
    if pomdp.n_states > _MOST_STATES:
        raise ResourceLimitError(f"{pomdp.n_states} states; at most {_MOST_STATES} are drawn")


def _node_lines(pomdp: POMDP, state: int, least: float) -> Iterator[str]:
    """The name of a state, then what it shows, action by action or once for all."""
    yield pomdp.state_names[state]
    if not pomdp.showing[state]:
        return
    rows = pomdp.observations[:, state]
    if (rows == rows[0]).all():
        yield _row_text(rows[0], pomdp.observation_names, least)
        return
    for action, row in zip(pomdp.action_names, rows, strict=True):
        yield f"{action}: {_row_text(row, pomdp.observation_names, least)}"


def _row_text(row: Floats, names: tuple[str, ...], least: float) -> str:
    return ", ".join(f"{names[o]} {row[o]:.2f}" for o in np.flatnonzero(row >= max(least, 1e-300)))


def _edges(pomdp: POMDP, least: float) -> Iterator[tuple[int, int, list[str]]]:
    """Every pair of states that an action leads between; nothing leaves a terminal state."""
    largest = pomdp.transitions.max(axis=0)
    for source, target in np.argwhere(largest >= max(least, 1e-300)).tolist():
        if source in pomdp.terminal:
            continue
        chances = pomdp.transitions[:, source, target]
        likely = np.flatnonzero(chances >= max(least, 1e-300))
        yield source, target, [f"{pomdp.action_names[a]} {chances[a]:.2f}" for a in likely]


def _dot_text(text: str) -> str:
    """Inside quotes only these two signs mean something."""
    return plain(text).replace("\\", "\\\\").replace('"', '\\"')


def _mermaid_text(text: str) -> str:
    """Everything but letters, digits and a few signs by its number."""
    return "".join(sign if sign in _MERMAID_PLAIN else f"#{ord(sign)};" for sign in plain(text))
