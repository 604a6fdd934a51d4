"""The model itself on a report: graphs, every number, and how it stands beside the truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unlatch.arrays import Floats
from unlatch.core.pomdp import POMDP
from unlatch.show import layout
from unlatch.show.report.data import OPEN, ReportData
from unlatch.show.report.graph import blocks_svg, graph_svg
from unlatch.show.report.markup import Markup, listing, paragraph, section, table, tag
from unlatch.show.report.words import NOT_COMPUTED
from unlatch.show.safe import counted

__all__ = ["graph_section", "number_section", "truth_section"]

_WIDEST_MATRIX = 14
"""Columns up to which rows are written as a matrix; beyond, as lists of their likely entries."""

_MOST_ENTRIES = 12_000
"""Numbers that the tables of a page list at most."""

_LISTED = 5e-4
"""Probabilities below this round to zero."""

_SIDE_BY_SIDE = 3.6
"""Units of the layout's plane up to which two graphs stand side by side."""

_MEANINGLESS = " (never tried in the log: these rows mean nothing)"


# --- graphs ----------------------------------------------------------------------------------------------


def graph_section(data: ReportData) -> Markup:
    """One graph an action; with scripts on one sees one at a time."""
    pomdp = data.pomdp
    shaded = data.summary.partition if data.summary.partition_speaks else None
    places = layout.state_places(pomdp) if pomdp.n_states <= layout.GRAPH_STATES else np.empty((0, 2))
    figures = [_graph(data, action, shaded, places) for action in range(pomdp.n_actions)]
    legend = (
        "States are circles, with what they show below them; an arrow is as wide as the move is likely, dashed "
        f"below .1, and left out below {layout.SHOWN}. "
        if pomdp.n_states <= layout.GRAPH_STATES
        else "A row for every state: left where it leads, right what it shows; the darker the likelier. "
    )
    if shaded is not None and not shaded.is_trivial:
        legend += "States with the same letter show the same under every full-rank action. "
    if pomdp.terminal:
        legend += "Two circles: the end, where nothing more happens."
    held = paragraph(
        "The disk inside a state: its probability where the tracker below stands.", "note scripted"
    )
    disks = held if pomdp.n_states <= layout.GRAPH_STATES else ""
    pictures = tag("div", *figures, id="figures")
    return section("graphs", "States and moves", paragraph(legend, "note"), disks, _switch(pomdp), pictures)


def _switch(pomdp: POMDP) -> Markup:
    """Radio buttons: the arrow keys move between them by themselves."""
    choices = (
        tag("label", tag("input", type="radio", name="action", value=a, checked=a == 0), tag("span", name))
        for a, name in enumerate(pomdp.action_names)
    )
    return tag("fieldset", tag("legend", "Action"), *choices, class_="switch scripted", id="switch")


def _graph(data: ReportData, action: int, shaded: Any, places: Floats) -> Markup:
    pomdp, name = data.pomdp, data.pomdp.action_names[action]
    untried = " (never tried in the log: these rows mean nothing)" if name in pomdp.untried_actions else ""
    title = tag("figcaption", tag("strong", name), untried)
    drawn = _drawn(
        pomdp, action, shaded, places, f"Graph of action {name}; the tables below have all numbers"
    )
    if data.truth is None or not data.truth.matched:
        return tag("figure", title, drawn, data_action=action)
    truth = data.truth.pomdp
    other = _drawn(truth, truth.action_names.index(name), None, places, f"True graph of action {name}")
    both = (
        tag("div", tag("p", said, class_="tag"), graph)
        for said, graph in (("learned", drawn), ("true", other))
    )
    narrow = len(places) > 0 and float(np.ptp(places[:, 0])) <= _SIDE_BY_SIDE
    return tag("figure", title, tag("div", *both, class_="pair" if narrow else None), data_action=action)


def _drawn(pomdp: POMDP, action: int, shaded: Any, places: Floats, label: str) -> Markup:
    if pomdp.n_states > layout.GRAPH_STATES:
        return blocks_svg(pomdp, action, shaded, label)
    return graph_svg(pomdp, action, places, shaded, label)


# --- numbers ---------------------------------------------------------------------------------------------


def number_section(data: ReportData) -> Markup:
    """Every probability, with its interval and verdict where these are known."""
    pomdp = data.pomdp
    parts = [_legend(data)]
    budget = _MOST_ENTRIES
    parts.append(
        _rows_table(
            data, "where an episode starts", ["start"], pomdp.state_names, pomdp.initial[None], "initial", ()
        )
    )
    if pomdp.first_observations is not None:
        live = np.flatnonzero(pomdp.going_on)
        parts.append(
            _plain_table(
                "shown before the first action", [pomdp.state_names[s] for s in live], pomdp.first_observation_names,
                pomdp.first_observations[live],
            )
        )  # fmt: skip
    for action, name in enumerate(pomdp.action_names):
        inner, used = _action_tables(data, action, budget)
        budget -= used
        untried = (
            " (never tried in the log: these rows mean nothing)" if name in pomdp.untried_actions else ""
        )
        opened = pomdp.n_actions * pomdp.n_states <= 40
        told = tag("summary", "action ", tag("strong", name), untried)
        parts.append(tag("details", told, tag("div", *inner, class_="tables"), open=opened))
    if pomdp.symbol_rewards is not None:
        paid = [
            [name, f"{value:g}"]
            for name, value in zip(pomdp.observation_names, pomdp.symbol_rewards, strict=True)
        ]
        parts.append(
            tag("details", tag("summary", "What every symbol pays"), table(["symbol", "reward"], paid))
        )
    return section("numbers", "Every probability", *parts)


def _legend(data: ReportData) -> Markup:
    level = "" if data.level is None else f", at {data.level:.0%}"
    intervals = (
        f"Intervals: {NOT_COMPUTED}."
        if data.intervals is None
        else f"Below every estimate its interval{level}."
    )
    verdicts = f"Verdicts: {NOT_COMPUTED}." if data.verdicts is None else f"Verdicts: {data.verdicts.meaning}"
    true = ["In brackets: the true number."] if data.truth is not None and data.truth.matched else []
    zeros = "A dot is a probability below .0005."
    return listing([intervals, verdicts, *true, zeros], "note")


def _action_tables(data: ReportData, action: int, budget: int) -> tuple[list[Markup], int]:
    pomdp = data.pomdp
    live, showing = np.flatnonzero(pomdp.going_on), np.flatnonzero(pomdp.showing)
    seen = np.flatnonzero(pomdp.observations[action, pomdp.showing].max(axis=0) > 0)
    used = int((pomdp.transitions[action] >= _LISTED).sum() + (pomdp.observations[action] >= _LISTED).sum())
    if used > budget:
        said = f"{used} numbers, too many for a page: unlatch show MODEL --format csv prints all of them."
        return [paragraph(said)], 0
    names = [pomdp.state_names[s] for s in live]
    moves = _rows_table(
        data,
        "leads to",
        names,
        pomdp.state_names,
        pomdp.transitions[action, live],
        "transitions",
        (action, live, None),
    )
    shows = _rows_table(
        data, "shows", [pomdp.state_names[s] for s in showing], [pomdp.observation_names[o] for o in seen],
        pomdp.observations[action][np.ix_(showing, seen)], "observations", (action, showing, seen),
    )  # fmt: skip
    tables = [moves, shows]
    if pomdp.reward_probabilities is not None and pomdp.reward_values is not None:
        values = [f"{value:g}" for value in pomdp.reward_values]
        tables.append(_plain_table("pays", names, values, pomdp.reward_probabilities[action, live]))
    return tables, used


def _plain_table(caption: str, rows: Sequence[str], columns: Sequence[str], values: Floats) -> Markup:
    """Numbers of which neither intervals nor verdicts are known."""
    cells = [[_cell(float(value), None, "", None) for value in row] for row in values]
    return _laid_out(caption, rows, columns, values, cells)


def _rows_table(
    data: ReportData,
    caption: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Floats,
    array: str,
    where: Any,
) -> Markup:
    """Numbers with what is known of each; ``where`` says which part of the model's array they are."""
    ends = _taken(None if data.intervals is None else getattr(data.intervals, array), where)
    words = _taken(None if data.verdicts is None else getattr(data.verdicts, array), where)
    true = _taken(_true_array(data, array), where)
    cells = [
        [
            _cell(
                float(values[r, c]),
                None if ends is None else ends[r, c],
                "" if words is None else str(words[r, c]),
                None if true is None else float(true[r, c]),
            )
            for c in range(len(columns))
        ]
        for r in range(len(rows))
    ]
    return _laid_out(caption, rows, columns, values, cells)


def _taken(array: Any, where: Any) -> Any:
    if array is None:
        return None
    if not where:
        return np.asarray(array)[None]
    action, rows, columns = where
    part = np.asarray(array)[action][rows]
    return part if columns is None else part[:, columns]


def _true_array(data: ReportData, array: str) -> Floats | None:
    """The true numbers in the model's order of actions, states and symbols."""
    if data.truth is None or not data.truth.matched:
        return None
    truth, pomdp = data.truth.pomdp, data.pomdp
    if array == "initial":  # one long episode tells next to nothing about where it began
        return None if data.summary.episodes == 1 else truth.initial
    order = [truth.action_names.index(name) for name in pomdp.action_names]
    if array == "transitions":
        return truth.transitions[order]
    shown = np.zeros(pomdp.observations.shape)
    for o, name in enumerate(pomdp.observation_names):
        if name in truth.observation_names:
            shown[:, :, o] = truth.observations[order][:, :, truth.observation_names.index(name)]
    return shown


def _cell(value: float, ends: Any, word: str, true: float | None) -> Markup:
    shade = "" if value < _LISTED else f"p{min(10, max(1, round(10 * value)))}"
    is_open = word == OPEN
    parts: list[object] = [
        ("~" if is_open else "") + (f"{value:.3f}" if value >= _LISTED or is_open else "·")
    ]
    if true is not None:
        parts.append(tag("small", f" [{true:.3f}]"))
    if ends is not None:
        parts += [tag("br"), tag("small", f"{ends[0]:.3f}–{ends[1]:.3f}")]
    if word and not is_open and word != "determined":
        parts += [tag("br"), tag("small", word)]
    return tag("td", *parts, class_=f"{shade} open".strip() if is_open else shade or None)


def _laid_out(
    caption: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Floats,
    cells: Sequence[Sequence[Markup]],
) -> Markup:
    """A matrix where it is not too wide, else for every row its likely entries, the likeliest first."""
    if len(columns) <= _WIDEST_MATRIX:
        body = [[name, *line] for name, line in zip(rows, cells, strict=True)]
        return table(["state", *columns], body, caption=caption, class_="matrix")
    lists = []
    for name, row, line in zip(rows, values, cells, strict=True):
        order = [
            i for i in np.argsort(-row, kind="stable").tolist() if row[i] >= _LISTED or "open" in line[i][:24]
        ]
        lists.append([name, tag("td", *(_entry(columns[i], line[i]) for i in order), class_="entries")])
    return table(["state", "with probability"], lists, caption=caption, class_="sparse")


def _entry(name: str, cell: Markup) -> Markup:
    """A cell of a matrix, as an entry of a list."""
    return tag("span", name, " ", Markup("<b" + cell[3:-5] + "</b>"), class_="entry")


# --- beside the truth ------------------------------------------------------------------------------------


def truth_section(data: ReportData) -> Markup:
    """How far the model is from the true one."""
    from unlatch.compare.errors import observation_l1_all, transition_l1

    assert data.truth is not None
    truth, pomdp = data.truth.pomdp, data.pomdp
    if not data.truth.matched:
        said = (
            f"The true system has {counted(truth.n_states, 'state')} and {counted(truth.n_actions, 'action')}, the "
            f"model {pomdp.n_states} and {pomdp.n_actions}: their numbers, or their names, do not correspond, so that "
            "states are not compared."
        )
        return section("truth", "Beside the truth", paragraph(said))
    order = np.arange(pomdp.n_states)
    rows = [
        ["what states show", f"{observation_l1_all(pomdp, truth, order=order):.4f}"],
        ["where they lead", f"{transition_l1(pomdp, truth, order=order):.4f}"],
    ]
    pairs = ", ".join(
        f"{a} is {b}" for a, b in zip(pomdp.state_names[:30], truth.state_names[:30], strict=True)
    )
    more = f", ... ({pomdp.n_states} in all)" if pomdp.n_states > 30 else ""
    return section(
        "truth", "Beside the truth",
        paragraph(f"States are matched so that rows differ least: {pairs}{more}."),
        table(["mean over actions and states of", "L1 distance (0 to 2)"], rows),
    )  # fmt: skip
