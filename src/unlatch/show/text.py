"""A summary as text for the terminal: tables where they fit, sparse rows where they do not."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

import numpy as np

from unlatch.arrays import Flags, Floats
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.intervals import Intervals
from unlatch.core.pomdp import POMDP
from unlatch.core.psr import PSR
from unlatch.errors import UsageError
from unlatch.learn.identify.entries import Undetermined
from unlatch.show.safe import plain
from unlatch.show.screen import Screen
from unlatch.show.summary import Summary, count_sentences, interval_sentences, partition_sentences

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

_SHOWN_INITIAL, _SHOWN_IN_TABLE = 5e-5, 5e-4
"""Probabilities below this round to zero in a table and are shown as a dot."""

_END = "the end"
"""Said of a terminal state, in which nothing more happens: its rows are no more than placeholders."""

_UNTRIED = "never tried in the log: these rows mean nothing"


def print_summary(
    screen: Screen,
    summary: Summary,
    *,
    form: Format = "auto",
    actions: Sequence[str] = (),
    intervals: bool = False,
) -> None:
    """Everything: the numbers, with their ``intervals`` if asked for, then what they are worth."""
    print_model(screen, summary, form=form, actions=actions, intervals=intervals)
    print_findings(screen, summary)


def print_findings(screen: Screen, summary: Summary) -> None:
    """Count of states, partition and notes, one sentence a line."""
    for sentence in (*count_sentences(summary), *partition_sentences(summary), *interval_sentences(summary)):
        screen.print(sentence, indent="  ")
    print_diagnostics(screen, summary.diagnostics)


def print_diagnostics(screen: Screen, diagnostics: Diagnostics) -> None:
    """Every finding once, as a plain line."""
    for entry in diagnostics:
        screen.print(f"note: {entry.message}", indent="  ")


def print_model(
    screen: Screen,
    summary: Summary,
    *,
    form: Format = "auto",
    actions: Sequence[str] = (),
    intervals: bool = False,
) -> None:
    """The numbers of the model, of all ``actions`` or those named; "auto" takes tables where they fit the width.

    With ``intervals`` a number is followed by its least and greatest value.
    """
    if form not in get_args(Format):
        raise UsageError(f"form must be one of {', '.join(get_args(Format))}, got {form!r}")
    if isinstance(summary.model, PSR):
        _print_psr(screen, summary.model, form)
        return
    if intervals and summary.intervals is None:
        raise UsageError("the model has no intervals; learn it again, or ask for them: result.intervals()")
    bounds = summary.intervals if intervals else None
    _print_pomdp(screen, summary, summary.model, form, _chosen(summary.model, actions), bounds)


def _chosen(pomdp: POMDP, actions: Sequence[str]) -> list[int]:
    unknown = [name for name in actions if name not in pomdp.action_names]
    if unknown:
        raise UsageError(
            f"no action {unknown[0]!r}; the model has {', '.join(map(repr, pomdp.action_names))}"
        )
    return [pomdp.action_names.index(name) for name in dict.fromkeys(actions or pomdp.action_names)]


def _print_pomdp(
    screen: Screen,
    summary: Summary,
    pomdp: POMDP,
    form: Format,
    chosen: list[int],
    intervals: Intervals | None,
) -> None:
    screen.print(
        f"POMDP with {pomdp.n_states} states, {pomdp.n_actions} actions, {pomdp.n_observations} observation "
        f"symbols; observations come on {pomdp.emission}"
    )
    _print_vector(screen, "initial", pomdp.state_names, pomdp.initial, form, least=_SHOWN_INITIAL)
    _print_first_observations(screen, pomdp, form)
    tables = [_action_table(pomdp, a, summary.undetermined, intervals) for a in chosen]
    as_tables = form == "table" or (form == "auto" and all(screen.fits(*table) for table in tables))
    if not as_tables:
        screen.print(f"(entries below {_SHOWN_SPARSE} are left out; --format csv prints all of them)")
    for a, table in zip(chosen, tables, strict=True):
        name = pomdp.action_names[a]
        title = f"action {name}" + (f" ({_UNTRIED})" if name in summary.untried else "")
        if as_tables:
            screen.table(title, *table)
        else:
            _print_sparse(screen, title, pomdp, a, summary.undetermined, intervals)
    if pomdp.symbol_rewards is not None:
        shown = np.flatnonzero(pomdp.observations[:, pomdp.showing].max(axis=(0, 1)) > 0)
        names = [pomdp.observation_names[o] for o in shown]
        _print_vector(screen, "reward of a symbol", names, pomdp.symbol_rewards[shown], form)


def _print_vector(
    screen: Screen, title: str, names: Sequence[str], values: Floats, form: Format, *, least: float = 0.0
) -> None:
    """One line of numbers; those between zero and ``least`` are a dot."""
    numbers = ["." if 0 < value < least else f"{value:.4g}" for value in values]
    header, row = ["", *names], ["", *numbers]
    if form == "table" or (form == "auto" and screen.fits(header, [row])):
        screen.table(title, header, [row])
        return
    pairs = (
        f"{name} {number}" for name, number in zip(names, numbers, strict=True) if number not in ("0", ".")
    )
    screen.print(f"{title}: {', '.join(pairs)}", indent="  ")


def _print_first_observations(screen: Screen, pomdp: POMDP, form: Format) -> None:
    if pomdp.first_observations is None:
        return
    title, names = "shown before the first action", pomdp.first_observation_names
    rows = [(pomdp.state_names[s], pomdp.first_observations[s]) for s in np.flatnonzero(pomdp.going_on)]
    table = [[state, *_cells(row, None)] for state, row in rows]
    if form == "table" or (form == "auto" and screen.fits(["state", *names], table)):
        screen.table(title, ["state", *names], table)
        return
    screen.print(title)
    for state, row in rows:
        screen.print(f"  {state} · shows {_sparse(names, row, None)}", indent="      ")


def _action_table(
    pomdp: POMDP, a: int, open_entries: Undetermined | None, intervals: Intervals | None
) -> tuple[list[str], list[list[str]]]:
    """Transitions, observations and rewards beside these, side by side: header and rows."""
    seen = np.flatnonzero(pomdp.observations[a, pomdp.showing].max(axis=0) > 0)
    symbols = [pomdp.observation_names[o] for o in seen]
    header = ["state", *(f"to {name}" for name in pomdp.state_names), *_headed("shows ", symbols)]
    header += _headed("pays ", _reward_names(pomdp))
    rows = []
    for s, state in enumerate(pomdp.state_names):
        moves, shows = _open_rows(open_entries, a, s)
        over = s in pomdp.terminal
        led, saw, got = _bounds_of(intervals, a, s)
        cells = [""] * pomdp.n_states if over else _cells(pomdp.transitions[a, s], moves, led)
        if pomdp.showing[s]:
            marks, kept = None if shows is None else shows[seen], None if saw is None else saw[seen]
            cells += _cells(pomdp.observations[a, s, seen], marks, kept)
        else:
            cells += [""] * len(seen)
        if pomdp.reward_probabilities is not None:
            paid = pomdp.reward_probabilities[a, s]
            cells += [""] * len(paid) if over else _cells(paid, None, got)
        rows.append([f"{state} ({_END})" if over else state, *cells])
    return header, rows


def _reward_names(pomdp: POMDP) -> list[str]:
    return [] if pomdp.reward_values is None else [f"{value:g}" for value in pomdp.reward_values]


def _headed(word: str, names: list[str]) -> list[str]:
    return [f"{word}{names[0]}", *names[1:]] if names else []


def _open_rows(entries: Undetermined | None, a: int, s: int) -> tuple[Flags | None, Flags | None]:
    return (None, None) if entries is None else (entries.transitions[a, s], entries.observations[a, s])


def _bounds_of(
    intervals: Intervals | None, a: int, s: int
) -> tuple[Floats | None, Floats | None, Floats | None]:
    """Of the moves, observations and rewards of a state under an action."""
    if intervals is None:
        return None, None, None
    paid = intervals.reward_probabilities
    return intervals.transitions[a, s], intervals.observations[a, s], None if paid is None else paid[a, s]


def _cells(values: Floats, undetermined: Flags | None, bounds: Floats | None = None) -> list[str]:
    """Numbers, with ``~`` before those that no log determines, and zeros as a dot; each with its bounds, if given."""
    marks = np.zeros(len(values), dtype=bool) if undetermined is None else undetermined
    return [
        ("~" if mark else "")
        + ("." if value < _SHOWN_IN_TABLE and not mark else f"{value:.3f}")
        + ("" if bounds is None else f" {_between(*bounds[i])}")
        for i, (value, mark) in enumerate(zip(values, marks, strict=True))
    ]


def _between(low: float, high: float) -> str:
    return f"[{_share(float(low))}, {_share(float(high))}]"


def _print_sparse(
    screen: Screen,
    title: str,
    pomdp: POMDP,
    a: int,
    open_entries: Undetermined | None,
    intervals: Intervals | None,
) -> None:
    screen.print(title)
    for s, state in enumerate(pomdp.state_names):
        moves, shows = _open_rows(open_entries, a, s)
        over = s in pomdp.terminal
        led, saw, got = _bounds_of(intervals, a, s)
        leads = _sparse(pomdp.state_names, pomdp.transitions[a, s], moves, led)
        said = [f"{state}: {_END}" if over else f"{state} → {leads}"]
        if pomdp.showing[s]:
            said.append(f"shows {_sparse(pomdp.observation_names, pomdp.observations[a, s], shows, saw)}")
        if pomdp.reward_probabilities is not None and not over:
            paid = pomdp.reward_probabilities[a, s]
            said.append(f"pays {_sparse(_reward_names(pomdp), paid, None, got)}")
        screen.print(f"  {' · '.join(said)}", indent="      ")


def _sparse(
    names: Sequence[str], values: Floats, undetermined: Flags | None, bounds: Floats | None = None
) -> str:
    """``name .91, name .09``, the likeliest first; each with its bounds, if given."""
    order = np.argsort(-values, kind="stable")
    return ", ".join(
        f"{names[i]} {'~' if undetermined is not None and undetermined[i] else ''}{_share(float(values[i]))}"
        + ("" if bounds is None else f" {_between(*bounds[i])}")
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


def print_csv(
    screen: Screen, pomdp: POMDP, actions: Sequence[str] = (), *, intervals: Intervals | None = None
) -> None:
    """Every number that means something, to the last digit, one a row, for other programs; with ``intervals`` beside
    each its least and greatest value, and the verdict.

    Names stay as they are, so that the rows can be matched with the model, unless a terminal would show them.
    """
    spell = plain if screen.stream is not None and screen.stream.isatty() else str
    line = io.StringIO()
    writer = csv.writer(line, lineterminator="", quoting=csv.QUOTE_NONNUMERIC)  # so that =1+1 stays a name
    for row in _csv_rows(pomdp, _chosen(pomdp, actions), intervals):
        writer.writerow([spell(cell) if isinstance(cell, str) else cell for cell in row])
        screen.write(line.getvalue())
        line.seek(0)
        line.truncate()


def _csv_rows(
    pomdp: POMDP, chosen: list[int], intervals: Intervals | None
) -> Iterator[tuple[str | float, ...]]:
    sure = _Sureness(intervals)
    yield "kind", "action", "state", "to", "value", *sure.header
    for s, (name, value) in enumerate(zip(pomdp.state_names, pomdp.initial, strict=True)):
        yield "initial", "", "", name, float(value), *sure.of("initial", s)
    for s in pomdp.terminal:
        yield "terminal", "", pomdp.state_names[s], "", 1.0, *sure.nothing
    live = pomdp.going_on > 0
    if pomdp.first_observations is not None:
        first = pomdp.first_observations
        for s, o, row in _csv_matrix(
            "first observation", "", pomdp, live, pomdp.first_observation_names, first
        ):
            yield *row, *sure.of("first_observations", s, o)
    for a in chosen:
        action = pomdp.action_names[a]
        for s, t, row in _csv_matrix(
            "transition", action, pomdp, live, pomdp.state_names, pomdp.transitions[a]
        ):
            yield *row, *sure.of("transitions", a, s, t)
        shown = pomdp.observations[a]
        for s, o, row in _csv_matrix(
            "observation", action, pomdp, pomdp.showing, pomdp.observation_names, shown
        ):
            yield *row, *sure.of("observations", a, s, o)
        if pomdp.reward_probabilities is not None and pomdp.reward_values is not None:
            values = [repr(value) for value in pomdp.reward_values.tolist()]
            paid = pomdp.reward_probabilities[a]
            for s, r, row in _csv_matrix("reward probability", action, pomdp, live, values, paid):
                yield *row, *sure.of("reward_probabilities", a, s, r)
    if pomdp.symbol_rewards is not None:
        for name, value in zip(pomdp.observation_names, pomdp.symbol_rewards.tolist(), strict=True):
            yield "reward", "", "", name, value, *sure.nothing


class _Sureness:
    """The further columns of every row, if there are intervals."""

    def __init__(self, intervals: Intervals | None) -> None:
        self._intervals = intervals
        self.header = () if intervals is None else ("least", "greatest", "verdict")
        self.nothing: tuple[str, ...] = () if intervals is None else ("", "", "")

    def of(self, kind: str, *place: int) -> tuple[str | float, ...]:
        if self._intervals is None:
            return ()
        low, high = getattr(self._intervals, kind)[place]
        return float(low), float(high), str(getattr(self._intervals.verdicts, kind)[place])


def _csv_matrix(
    kind: str, action: str, pomdp: POMDP, chosen: Flags, names: Sequence[str], rows: Floats
) -> Iterator[tuple[int, int, tuple[str, str, str, str, float]]]:
    """The rows of the chosen states, with their places: those of the others are placeholders."""
    for s in np.flatnonzero(chosen):
        for place, (name, value) in enumerate(zip(names, rows[s].tolist(), strict=True)):
            yield int(s), place, (kind, action, pomdp.state_names[s], name, value)
