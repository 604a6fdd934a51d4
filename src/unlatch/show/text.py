"""Models as tables for the terminal. Names are data, never markup."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from unlatch.arrays import Flags, Floats
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.partition import Partition
from unlatch.core.pomdp import POMDP
from unlatch.core.psr import PSR
from unlatch.learn.identify.entries import Undetermined, undetermined_entries

__all__ = ["console", "print_comparison", "print_diagnostics", "print_partition", "print_pomdp", "print_psr"]

_NOTICEABLE = 0.02
"""How far an entry must be free to move to be called undetermined: in a learned model noise moves them all."""


def console() -> Console:
    """Where results go: standard output, wide enough for tables when it is not a terminal."""
    output = Console(highlight=False)
    if not output.is_terminal:
        output = Console(highlight=False, width=160)
    return output


def print_pomdp(output: Console, pomdp: POMDP, partition: Partition | None = None) -> None:
    """Every action's transition and observation matrix side by side."""
    open_entries = (
        None if partition is None else undetermined_entries(pomdp, partition, tolerance=_NOTICEABLE)
    )
    shown = np.flatnonzero(pomdp.observations.max(axis=(0, 1)) > 0)
    output.print(
        f"POMDP with {pomdp.n_states} states, {pomdp.n_actions} actions, {pomdp.n_observations} observation "
        f"symbols; observations come on {pomdp.emission}"
    )
    output.print(_vector_table("initial", pomdp.state_names, pomdp.initial))
    for a, name in enumerate(pomdp.action_names):
        output.print(_action_table(pomdp, a, name, shown, open_entries))
    if pomdp.symbol_rewards is not None:
        names = [pomdp.observation_names[o] for o in shown]
        output.print(_vector_table("reward of a symbol", names, pomdp.symbol_rewards[shown], digits=4))


def _vector_table(title: str, names: Sequence[str], values: Floats, digits: int = 3) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in names:
        table.add_column(Text(name), justify="right")
    table.add_row(*(f"{value:.{digits}g}" for value in values))
    return table


def _action_table(
    pomdp: POMDP, action: int, name: str, shown: Sequence[int] | np.ndarray, open_entries: Undetermined | None
) -> Table:
    seen = [int(o) for o in shown if pomdp.observations[action, :, o].max() > 0]
    table = Table(title=f"action {escape(name)}", title_justify="left", title_style="bold")
    table.add_column("state")
    for state in pomdp.state_names:
        table.add_column(Text(f"to {state}"), justify="right")
    for index, o in enumerate(seen):
        heading = Text(pomdp.observation_names[o])
        table.add_column(Text("shows ") + heading if index == 0 else heading, justify="right", style="cyan")
    for s, state in enumerate(pomdp.state_names):
        moves = _cells(
            pomdp.transitions[action, s],
            None if open_entries is None else open_entries.transitions[action, s],
        )
        rows = _cells(
            pomdp.observations[action, s, seen],
            None if open_entries is None else open_entries.observations[action, s, seen],
        )
        table.add_row(Text(state), *moves, *rows)
    return table


def print_comparison(output: Console, learned: POMDP, truth: POMDP) -> None:
    """Learned numbers with the true ones beside them in brackets, state by state (same order of states)."""
    names = [name for name in truth.observation_names if name in learned.observation_names]
    for action in truth.action_names:
        a, b = learned.action_names.index(action), truth.action_names.index(action)
        table = Table(
            title=f"action {escape(action)}: learned \\[true]", title_justify="left", title_style="bold"
        )
        table.add_column("state")
        columns = []
        for t, state in enumerate(truth.state_names):
            table.add_column(Text(f"to {state}"), justify="right")
            columns.append((learned.transitions[a, :, t], truth.transitions[b, :, t]))
        for name in names:
            pair = (
                learned.observations[a, :, learned.observation_names.index(name)],
                truth.observations[b, :, truth.observation_names.index(name)],
            )
            if max(pair[0].max(), pair[1].max()) >= 5e-3:
                table.add_column(Text(name), justify="right", style="cyan")
                columns.append(pair)
        for s, state in enumerate(truth.state_names):
            table.add_row(Text(state), *(Text(f"{x[s]:.3f} [{y[s]:.3f}]") for x, y in columns))
        output.print(table)


def _cells(values: Floats, undetermined: Flags | None) -> list[str]:
    """Numbers, with ``~`` before those that the log does not determine, and zeros as a dot."""
    marks = np.zeros(len(values), dtype=bool) if undetermined is None else undetermined
    return [
        ("~" if mark else "") + ("." if value < 5e-4 and not mark else f"{value:.3f}")
        for value, mark in zip(values, marks, strict=True)
    ]


def print_psr(output: Console, psr: PSR) -> None:
    """What can be said of a PSR: its size and what it predicts at the start."""
    output.print(
        f"PSR of rank {psr.rank}, {psr.n_actions} actions, {psr.n_observations} observation symbols; its "
        "coordinates are not states"
    )
    table = Table(title="prediction at the start", title_justify="left", title_style="bold")
    table.add_column("action")
    for name in psr.observation_names:
        table.add_column(Text(name), justify="right")
    for name, row in zip(psr.action_names, psr.predict(psr.initial), strict=True):
        table.add_row(Text(name), *(f"{value:.3f}" for value in row))
    output.print(table)


def print_partition(output: Console, pomdp: POMDP, partition: Partition, actions: Sequence[str] = ()) -> None:
    """Cells, and in words which dynamics are not determined."""
    cells = ", ".join("{" + ", ".join(pomdp.state_names[s] for s in cell) + "}" for cell in partition.cells)
    output.print(f"observability partition: {cells}", markup=False)
    if partition.is_trivial:
        output.print("every state stands alone: the log determines the whole model")
        return
    by = f" ({', '.join(actions)})" if actions else ""
    open_entries = undetermined_entries(pomdp, partition, tolerance=_NOTICEABLE)
    for cell in partition.cells:
        if len(cell) > 1:
            names = ", ".join(pomdp.state_names[s] for s in cell)
            output.print(f"states {names} show the same under every full-rank action{by}", markup=False)
    for a, name in enumerate(pomdp.action_names):
        moves = _open_moves(pomdp, open_entries.transitions[a])
        if moves:
            output.print(f"not determined under {name}: transitions {', '.join(moves)}", markup=False)
        rows = [pomdp.state_names[s] for s in np.flatnonzero(open_entries.observations[a].any(axis=1))]
        if rows:
            output.print(f"not determined under {name}: observations of {', '.join(rows)}", markup=False)
    output.print(
        "these numbers (marked ~) are one choice among many that explain the log equally well; sums over a "
        "cell are determined"
    )


def _open_moves(pomdp: POMDP, undetermined: Flags, most: int = 12) -> list[str]:
    moves = [f"{pomdp.state_names[s]}→{pomdp.state_names[t]}" for s, t in np.argwhere(undetermined)]
    return moves if len(moves) <= most else [*moves[:most], f"... ({len(moves)} in all)"]


def print_diagnostics(output: Console, diagnostics: Diagnostics) -> None:
    """Every finding once, as a plain line."""
    for entry in diagnostics:
        output.print(f"note: {entry.message}", markup=False)
