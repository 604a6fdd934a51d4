"""The model itself on a report: graphs, every number, and how it stands beside the truth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

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

_ARRAYS = ("transitions", "observations", "initial")
_MEANINGLESS = " (never tried in the log: these rows mean nothing)"


# --- graphs ----------------------------------------------------------------------------------------------


def graph_section(data: ReportData) -> Markup:
    """One graph an action; with scripts on one sees one at a time."""
    pomdp = data.pomdp
    shaded = data.summary.partition if data.summary.partition_speaks else None
    places = layout.state_places(pomdp) if layout.fits_graph(pomdp) else np.empty((0, 2))
    figures = [_graph(data, action, shaded, places) for action in range(pomdp.n_actions)]
    legend = (
        "States are circles, with what they show below them; an arrow is as wide as the move is likely, dashed "
        f"below .1, and left out below {layout.SHOWN}. "
        if layout.fits_graph(pomdp)
        else "A row for every state: left where it leads (columns in the order of the rows), right what it shows; the "
        "darker the likelier. "
    )
    if shaded is not None and not shaded.is_trivial:
        legend += "States with the same letter show the same under every full-rank action. "
    if pomdp.terminal:
        legend += "Two circles: the end, where nothing more happens."
    held = paragraph(
        "The disk inside a state: its probability where the tracker below stands.", "note scripted"
    )
    disks = held if layout.fits_graph(pomdp) else ""
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
    untried = _MEANINGLESS if name in pomdp.untried_actions else ""
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
    if not len(places):
        return blocks_svg(pomdp, action, shaded, label)
    return graph_svg(pomdp, action, places, shaded, label)


# --- numbers ---------------------------------------------------------------------------------------------


def number_section(data: ReportData) -> Markup:
    """Every probability, with its interval and verdict where these are known."""
    pomdp = data.pomdp
    parts = [_legend(data)]
    budget = _MOST_ENTRIES
    starts = _known(data, "initial", pomdp.initial[None], ())
    parts.append(_laid_out("where an episode starts", ["start"], pomdp.state_names, starts))
    if pomdp.first_observations is not None:
        live = np.flatnonzero(pomdp.going_on)
        names, shown = [pomdp.state_names[s] for s in live], _Numbers(pomdp.first_observations[live])
        parts.append(_laid_out("shown before the first action", names, pomdp.first_observation_names, shown))
    for action, name in enumerate(pomdp.action_names):
        inner, used = _action_tables(data, action, budget)
        budget -= used
        untried = _MEANINGLESS if name in pomdp.untried_actions else ""
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
    if data.ranges is not None and any(
        np.ptp(getattr(data.ranges, name), axis=-1).max() > _LISTED for name in _ARRAYS
    ):
        true.append(
            "~: other models with the same process have other numbers here; below, the range that was found. The true "
            "one may be wider."
        )
    zeros = "A dot is a probability below .0005; lists leave those out."
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
    moves = _known(data, "transitions", pomdp.transitions[action, live], (action, live, None))
    shows = _known(
        data, "observations", pomdp.observations[action][np.ix_(showing, seen)], (action, showing, seen)
    )
    tables = [
        _laid_out("leads to", names, pomdp.state_names, moves),
        _laid_out(
            "shows",
            [pomdp.state_names[s] for s in showing],
            [pomdp.observation_names[o] for o in seen],
            shows,
        ),
    ]
    if pomdp.reward_probabilities is not None and pomdp.reward_values is not None:
        values = [f"{value:g}" for value in pomdp.reward_values]
        tables.append(_laid_out("pays", names, values, _Numbers(pomdp.reward_probabilities[action, live])))
    return tables, used


class _Numbers(NamedTuple):
    """A table of probabilities with what is known of each; None where nothing is.

    Its interval, a word, the true number, and the range of what models with the same process have.
    """

    values: Floats
    ends: Any = None
    words: Any = None
    true: Any = None
    ranges: Any = None

    @property
    def by_row(self) -> bool:
        """Whether words are about rows: then they stand once, at their end."""
        return self.words is not None and bool(
            (self.words == self.words[:, :1]).all() and (self.words != "").any()
        )

    def is_open(self, row: int, column: int) -> bool:
        if self.words is not None and str(self.words[row, column]) == OPEN:
            return True
        return self.ranges is not None and bool(np.ptp(self.ranges[row, column]) > _LISTED)

    def element(self, name: str, row: int, column: int) -> Markup:
        """One number as an element of that name: a cell of a matrix, or an entry of a list."""
        value, is_open = float(self.values[row, column]), self.is_open(row, column)
        shade = "" if value < _LISTED else f"p{min(10, max(1, round(10 * value)))}"
        said = f"{value:.3f}" if value >= _LISTED or is_open else "·"
        parts: list[object] = ["~" + said if is_open else said]
        if self.true is not None:
            parts.append(tag("small", f" [{self.true[row, column]:.3f}]"))
        for ends, sign in ((self.ends, ""), (self.ranges if is_open else None, "~")):
            if ends is not None:
                low, high = ends[row, column]
                parts += [tag("br"), tag("small", f"{sign}{low:.3f}–{high:.3f}")]
        word = "" if self.words is None or self.by_row else str(self.words[row, column])
        if word not in ("", OPEN):
            parts += [tag("br"), tag("small", word)]
        return tag(name, *parts, class_=f"{shade} open".strip() if is_open else shade or None)


def _known(data: ReportData, array: str, values: Floats, where: Any) -> _Numbers:
    """Numbers of the model; ``where`` says which part of its array they are."""
    return _Numbers(
        values,
        _taken(None if data.intervals is None else getattr(data.intervals, array), where),
        _taken(None if data.verdicts is None else getattr(data.verdicts, array), where),
        _taken(_true_array(data, array), where),
        _taken(None if data.ranges is None else getattr(data.ranges, array), where),
    )


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


def _laid_out(caption: str, rows: Sequence[str], columns: Sequence[str], numbers: _Numbers) -> Markup:
    """A matrix where it is not too wide, else for every row its likely entries, the likeliest first."""
    as_matrix = len(columns) <= _WIDEST_MATRIX
    by_row = numbers.by_row
    header = ["state", *(columns if as_matrix else ["with probability"]), *(["verdict"] if by_row else [])]
    body = []
    for row, name in enumerate(rows):
        if as_matrix:
            line = [numbers.element("td", row, column) for column in range(len(columns))]
        else:
            line = [tag("td", *_entries(columns, numbers, row), class_="entries")]
        said = [tag("td", numbers.words[row, 0], class_="entries")] if by_row else []
        body.append([name, *line, *said])
    return table(header, body, caption=caption, class_="matrix" if as_matrix else "sparse")


def _entries(columns: Sequence[str], numbers: _Numbers, row: int) -> Iterator[Markup]:
    for column in np.argsort(-numbers.values[row], kind="stable").tolist():
        if numbers.values[row, column] >= _LISTED or numbers.is_open(row, column):
            yield tag("span", columns[column], " ", numbers.element("b", row, column), class_="entry")


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
