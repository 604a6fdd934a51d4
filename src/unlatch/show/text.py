"""A summary as text for the terminal: tables where they fit, sparse rows where they do not."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

import numpy as np

from unlatch.arrays import Flags, Floats
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.pomdp import POMDP
from unlatch.core.psr import PSR
from unlatch.errors import UsageError
from unlatch.learn.identify.entries import Undetermined
from unlatch.show.safe import plain
from unlatch.show.screen import Screen
from unlatch.show.summary import Summary, count_sentences, partition_sentences

__all__ = [
    "Format",
    "print_comparison",
    "print_csv",
    "print_diagnostics",
    "print_findings",
    "print_model",
    "print_summary",
]

Format = Literal["auto", "table", "sparse"]

_SHOWN_SPARSE = 0.005
"""Probabilities below this are left out of sparse rows."""

_SHOWN_IN_TABLE = 5e-4
"""Probabilities below this round to zero in a table and are shown as a dot."""

_UNTRIED = "never tried in the log: these rows mean nothing"


def print_summary(
    screen: Screen, summary: Summary, *, form: Format = "auto", actions: Sequence[str] = ()
) -> None:
    """Everything: the numbers, then what they are worth."""
    print_model(screen, summary, form=form, actions=actions)
    print_findings(screen, summary)


def print_findings(screen: Screen, summary: Summary) -> None:
    """Count of states, partition and notes, one sentence a line."""
    for sentence in (*count_sentences(summary), *partition_sentences(summary)):
        screen.print(sentence, indent="  ")
    print_diagnostics(screen, summary.diagnostics)


def print_diagnostics(screen: Screen, diagnostics: Diagnostics) -> None:
    """Every finding once, as a plain line."""
    for entry in diagnostics:
        screen.print(f"note: {entry.message}", indent="  ")


def print_model(
    screen: Screen, summary: Summary, *, form: Format = "auto", actions: Sequence[str] = ()
) -> None:
    """The numbers of the model, of all ``actions`` or those named; "auto" takes tables where they fit the width."""
    if form not in get_args(Format):
        raise UsageError(f"form must be one of {', '.join(get_args(Format))}, got {form!r}")
    if isinstance(summary.model, PSR):
        _print_psr(screen, summary.model, form)
        return
    _print_pomdp(screen, summary, summary.model, form, _chosen(summary.model, actions))


def _chosen(pomdp: POMDP, actions: Sequence[str]) -> list[int]:
    unknown = [name for name in actions if name not in pomdp.action_names]
    if unknown:
        raise UsageError(
            f"no action {unknown[0]!r}; the model has {', '.join(map(repr, pomdp.action_names))}"
        )
    return [pomdp.action_names.index(name) for name in dict.fromkeys(actions or pomdp.action_names)]


def _print_pomdp(screen: Screen, summary: Summary, pomdp: POMDP, form: Format, chosen: list[int]) -> None:
    screen.print(
        f"POMDP with {pomdp.n_states} states, {pomdp.n_actions} actions, {pomdp.n_observations} observation "
        f"symbols; observations come on {pomdp.emission}"
    )
    _print_vector(screen, "initial", pomdp.state_names, pomdp.initial, form)
    tables = [_action_table(pomdp, a, summary.undetermined) for a in chosen]
    as_tables = form == "table" or (form == "auto" and all(screen.fits(*table) for table in tables))
    if not as_tables:
        screen.print(f"(entries below {_SHOWN_SPARSE} are left out; --format csv prints all of them)")
    for a, table in zip(chosen, tables, strict=True):
        name = pomdp.action_names[a]
        title = f"action {name}" + (f" ({_UNTRIED})" if name in summary.untried else "")
        if as_tables:
            screen.table(title, *table)
        else:
            _print_sparse(screen, title, pomdp, a, summary.undetermined)
    if pomdp.symbol_rewards is not None:
        shown = np.flatnonzero(pomdp.observations.max(axis=(0, 1)) > 0)
        names = [pomdp.observation_names[o] for o in shown]
        _print_vector(screen, "reward of a symbol", names, pomdp.symbol_rewards[shown], form)


def _print_vector(screen: Screen, title: str, names: Sequence[str], values: Floats, form: Format) -> None:
    numbers = [f"{value:.4g}" for value in values]
    header, row = ["", *names], ["", *numbers]
    if form == "table" or (form == "auto" and screen.fits(header, [row])):
        screen.table(title, header, [row])
        return
    pairs = (f"{name} {number}" for name, number in zip(names, numbers, strict=True) if number != "0")
    screen.print(f"{title}: {', '.join(pairs)}", indent="  ")


def _action_table(
    pomdp: POMDP, a: int, open_entries: Undetermined | None
) -> tuple[list[str], list[list[str]]]:
    """Transitions and observations side by side: header and rows."""
    seen = np.flatnonzero(pomdp.observations[a].max(axis=0) > 0)
    symbols = [pomdp.observation_names[o] for o in seen]
    header = ["state", *(f"to {name}" for name in pomdp.state_names), *_headed("shows ", symbols)]
    rows = []
    for s, state in enumerate(pomdp.state_names):
        moves, shows = _open_rows(open_entries, a, s)
        cells = _cells(pomdp.transitions[a, s], moves)
        cells += _cells(pomdp.observations[a, s, seen], None if shows is None else shows[seen])
        rows.append([state, *cells])
    return header, rows


def _headed(word: str, names: list[str]) -> list[str]:
    return [f"{word}{names[0]}", *names[1:]] if names else []


def _open_rows(entries: Undetermined | None, a: int, s: int) -> tuple[Flags | None, Flags | None]:
    return (None, None) if entries is None else (entries.transitions[a, s], entries.observations[a, s])


def _cells(values: Floats, undetermined: Flags | None) -> list[str]:
    """Numbers, with ``~`` before those that no log determines, and zeros as a dot."""
    marks = np.zeros(len(values), dtype=bool) if undetermined is None else undetermined
    return [
        ("~" if mark else "") + ("." if value < _SHOWN_IN_TABLE and not mark else f"{value:.3f}")
        for value, mark in zip(values, marks, strict=True)
    ]


def _print_sparse(
    screen: Screen, title: str, pomdp: POMDP, a: int, open_entries: Undetermined | None
) -> None:
    screen.print(title)
    for s, state in enumerate(pomdp.state_names):
        moves, shows = _open_rows(open_entries, a, s)
        leads = _sparse(pomdp.state_names, pomdp.transitions[a, s], moves)
        seen = _sparse(pomdp.observation_names, pomdp.observations[a, s], shows)
        screen.print(f"  {state} → {leads} · shows {seen}", indent="      ")


def _sparse(names: Sequence[str], values: Floats, undetermined: Flags | None) -> str:
    """``name .91, name .09``, the likeliest first."""
    order = np.argsort(-values, kind="stable")
    return ", ".join(
        f"{names[i]} {'~' if undetermined is not None and undetermined[i] else ''}{_share(float(values[i]))}"
        for i in order
        if values[i] >= _SHOWN_SPARSE
    )


def _share(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


def _print_psr(screen: Screen, psr: PSR, form: Format) -> None:
    """What can be said of a PSR: its size and what it predicts at the start."""
    screen.print(
        f"PSR of rank {psr.rank}, {psr.n_actions} actions, {psr.n_observations} observation symbols; its "
        "coordinates are not states"
    )
    chances = psr.predict(psr.initial)
    header = ["action", *psr.observation_names]
    rows = [[name, *_cells(row, None)] for name, row in zip(psr.action_names, chances, strict=True)]
    if form == "table" or (form == "auto" and screen.fits(header, rows)):
        screen.table("prediction at the start", header, rows)
        return
    screen.print("prediction at the start")
    for name, row in zip(psr.action_names, chances, strict=True):
        screen.print(f"  {name} · shows {_sparse(psr.observation_names, row, None)}", indent="      ")


def print_comparison(screen: Screen, learned: POMDP, truth: POMDP) -> None:
    """Learned numbers with the true ones beside them in brackets, state by state (same order of states)."""
    for action in truth.action_names:
        a, b = learned.action_names.index(action), truth.action_names.index(action)
        columns = [
            (f"to {state}", learned.transitions[a, :, t], truth.transitions[b, :, t])
            for t, state in enumerate(truth.state_names)
        ]
        columns += [
            pair for pair in _symbol_pairs(learned, truth, a, b) if max(pair[1].max(), pair[2].max()) >= 5e-3
        ]
        rows = [
            [state, *(f"{x[s]:.3f} [{y[s]:.3f}]" for _, x, y in columns)]
            for s, state in enumerate(truth.state_names)
        ]
        screen.table(f"action {action}: learned [true]", ["state", *(name for name, _, _ in columns)], rows)


def _symbol_pairs(learned: POMDP, truth: POMDP, a: int, b: int) -> Iterator[tuple[str, Floats, Floats]]:
    for o, name in enumerate(truth.observation_names):
        if name in learned.observation_names:
            p = learned.observation_names.index(name)
            yield name, learned.observations[a, :, p], truth.observations[b, :, o]


# --- CSV -------------------------------------------------------------------------------------------------


def print_csv(screen: Screen, pomdp: POMDP, actions: Sequence[str] = ()) -> None:
    """Every number to the last digit, one a row, for other programs.

    Names stay as they are, so that the rows can be matched with the model, unless a terminal would show them.
    """
    spell = plain if screen.stream is not None and screen.stream.isatty() else str
    line = io.StringIO()
    writer = csv.writer(line, lineterminator="", quoting=csv.QUOTE_NONNUMERIC)  # so that =1+1 stays a name
    for row in _csv_rows(pomdp, _chosen(pomdp, actions)):
        writer.writerow([spell(cell) if isinstance(cell, str) else cell for cell in row])
        screen.write(line.getvalue())
        line.seek(0)
        line.truncate()


def _csv_rows(pomdp: POMDP, chosen: list[int]) -> Iterator[tuple[str, str, str, str, str | float]]:
    yield "kind", "action", "state", "to", "value"
    for name, value in zip(pomdp.state_names, pomdp.initial, strict=True):
        yield "initial", "", "", name, float(value)
    for a in chosen:
        for kind, names, rows in (
            ("transition", pomdp.state_names, pomdp.transitions[a]),
            ("observation", pomdp.observation_names, pomdp.observations[a]),
        ):
            for state, row in zip(pomdp.state_names, rows.tolist(), strict=True):
                for name, value in zip(names, row, strict=True):
                    yield kind, pomdp.action_names[a], state, name, value
    if pomdp.symbol_rewards is not None:
        for name, value in zip(pomdp.observation_names, pomdp.symbol_rewards.tolist(), strict=True):
            yield "reward", "", "", name, value
