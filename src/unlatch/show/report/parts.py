"""The sections of a report, each a function of what there is to show."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from unlatch.arrays import Floats
from unlatch.core.evidence import Evidence
from unlatch.core.pomdp import POMDP
from unlatch.show import layout
from unlatch.show.report import goals
from unlatch.show.report.check import Check, Window
from unlatch.show.report.data import OPEN, ReportData
from unlatch.show.report.graph import blocks_svg, chart_svg, graph_svg, scatter_svg
from unlatch.show.report.markup import Markup, join, listing, section, table, tag
from unlatch.show.safe import counted
from unlatch.show.summary import count_sentences, partition_sentences

__all__ = [
    "goal_section",
    "graph_section",
    "header",
    "number_section",
    "page_data",
    "prediction_section",
    "provenance_section",
    "summary_section",
    "tracker_section",
    "truth_section",
]

_REPAIRS = (
    "clipped", "empty_episodes", "float_symbols", "missing_split", "opened_zeros", "projected_initial",
    "projected_observations", "projected_transitions", "renumbered", "repaired", "truncated_tail",
    "undetermined_rows", "weak_rows",
)  # fmt: skip
"""Diagnostics that tell of something that was changed, not only seen."""

_WIDEST_MATRIX = 14
"""Columns up to which rows are written as a matrix; beyond, as lists of their likely entries."""

_MOST_ENTRIES = 12_000
"""Numbers that the tables of a page list at most."""

_LISTED = 5e-4
"""Probabilities below this round to zero."""

_MOST_GOALS = 60
_MOST_POINTS = 1500
_WORST = 12
_STATIC_STEPS = 25
_MOST_PROVENANCE = 400
"""Characters of one entry of the provenance."""

NOT_COMPUTED = "not computed"


def header(data: ReportData, parts: Sequence[tuple[str, str]]) -> Markup:
    """What the page is about in four lines, and the way to its parts."""
    pomdp = data.pomdp
    size = (
        f"{counted(pomdp.n_actions, 'action')}, {counted(pomdp.n_observations, 'observation symbol')}, "
        f"observations on {pomdp.emission}"
    )
    learned = "" if data.summary.steps is None else f"; learned from {data.summary.steps:,} steps"
    links = (tag("a", name, href=f"#{identity}") for identity, name in parts)
    tiles = (tag("div", tag("dt", name), tag("dd", said)) for name, said in _in_brief(data))
    return tag(
        "header",
        tag("h1", data.title),
        tag("p", size + learned, class_="lead"),
        tag("dl", *tiles, class_="tiles"),
        tag("nav", *links, aria_label="Parts of this page"),
    )


def _in_brief(data: ReportData) -> Iterator[tuple[str, str]]:
    """The four questions that come first. Every answer is a number or a verdict that the page has in full."""
    yield counted(data.pomdp.n_states, "hidden state"), _how_sure(data)
    certificate = data.summary.certificate
    verdict = f"{NOT_COMPUTED}" if certificate is None else f"locally {certificate.verdict}"
    yield "the numbers, by the process", verdict.replace("locally not examined", "not examined")
    check = data.check
    if check is None or not check.windows:
        yield "predictions", NOT_COMPUTED
    else:
        place = "the log learned from" if data.own_log else "the log given"
        yield (
            f"predictions on {place}",
            f"worst of {len(check.windows)}: {abs(check.windows[0].error):.1f} standard errors, {check.limit:.1f} allowed",
        )
    notes = list(data.summary.diagnostics)
    repaired = sum(note.name in _REPAIRS for note in notes)
    yield "on record", f"{counted(repaired, 'repair')}, {counted(len(notes) - repaired, 'other note')}"


def _how_sure(data: ReportData) -> str:
    evidence = data.summary.evidence
    if evidence is None:
        return "how sure: not computed"
    if evidence.fixed:
        return "as asked, not found"
    if evidence.runner_up is None:
        return "no other number compared"
    settled = "settled" if data.summary.settled else "not settled"
    return f"{settled}: {evidence.runner_up} is {evidence.gap:.1f} nats behind"


# --- in words --------------------------------------------------------------------------------------------


def summary_section(data: ReportData) -> Markup:
    """How many states and why, what is proved, what was repaired and noticed."""
    summary = data.summary
    notes = list(summary.diagnostics)
    repaired = [note for note in notes if note.name in _REPAIRS]
    noticed = [note for note in notes if note.name not in _REPAIRS]
    proved = partition_sentences(summary) or _certified(data)
    parts = [
        tag("h3", "How many states, and why"),
        tag(
            "div",
            listing(map(_sentence, count_sentences(summary))),
            tag("div", _unknown_count() if summary.evidence is None else _evidence(summary.evidence)),
            class_="beside",
        ),
        tag("h3", "What is proved"),
        listing(map(_sentence, proved)) if proved else _paragraph(f"Which numbers the process determines: {NOT_COMPUTED}."),
        tag("h3", "What was repaired"),
        _notes(repaired) if repaired else _paragraph("Nothing that is on record."),
        tag("h3", "What was noticed"),
        _notes(noticed) if noticed else _paragraph("Nothing that is on record."),
    ]
    if not summary.complete:
        parts.insert(0, _paragraph("The search was cut short: this is the best model seen, not the end of the search."))
    return section("summary", "Summary", *parts)


def _certified(data: ReportData) -> list[str]:
    certificate = data.summary.certificate
    return [] if certificate is None else [f"the process of this model: {certificate}"]


def _unknown_count() -> Markup:
    return _paragraph(f"How sure the number of states is: {NOT_COMPUTED}; this model came without evidence.")


def _paragraph(words: object, class_: str | None = None) -> Markup:
    return tag("p", words, class_=class_)


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:] + ("" if words.endswith(".") else ".")


def _notes(notes: Sequence[Any]) -> Markup:
    return tag("dl", *(_note(note) for note in notes), class_="notes")


def _note(note: Any) -> Markup:
    remedy = _remedies().get(note.name)
    said = [tag("dd", _sentence(note.message))]
    if remedy is not None:
        said.append(tag("dd", tag("span", "What helps: ", class_="tag"), remedy, class_="remedy"))
    return tag("div", tag("dt", note.name), *said)


@cache
def _remedies() -> Mapping[str, str]:
    found: dict[str, str] = json.loads((files("unlatch.show.report") / "remedies.json").read_text(encoding="utf-8"))
    return found


def _evidence(evidence: Evidence) -> Markup:
    scores = sorted((int(count), float(score)) for count, score in evidence.scores.items() if np.isfinite(score))
    if len(scores) < 2:
        return Markup("")
    rows = [
        [count, f"{score:.1f}", _role(evidence, count)] for count, score in scores
    ]
    lowest = min(score for _, score in scores)
    bent = [(float(count), _bent(score)) for count, score in scores]
    y_ticks = _bent_ticks(lowest, max(score for _, score in scores))
    counts = [count for count, _ in scores]
    x_ticks = [(float(count), str(count)) for count in _spread(counts)]
    x_ticks = [(counts[0] - 0.5, ""), *x_ticks, (counts[-1] + 0.5, "")]
    chart = chart_svg(
        [("", bent)], label="Evidence by number of states; the table below has the numbers", x_ticks=x_ticks,
        y_ticks=y_ticks, titles=("number of states", "nats behind the best"), marked=float(evidence.states),
    )  # fmt: skip
    header = ["states", "nats of evidence, relative to the chosen", ""]
    return join([chart, tag("details", tag("summary", "The numbers"), table(header, rows))])


def _role(evidence: Evidence, count: int) -> str:
    if count == evidence.states:
        return "chosen"
    return "runner-up, climbed as far" if count == evidence.runner_up else "from the search"


def _bent(score: float) -> float:
    """Linear near zero, logarithmic far from it."""
    return float(np.sign(score) * np.log10(1 + abs(score) / 3))


def _bent_ticks(lowest: float, highest: float) -> list[tuple[float, str]]:
    values = [0.0, *(sign * step for sign in (-1, 1) for step in (10, 100, 1e3, 1e4, 1e5, 1e6, 1e7))]
    reached = [v for v in values if 3 * lowest <= v <= 3 * highest or v == 0]
    ends = [min([lowest, *reached]), max([highest, *reached])]
    ticks = {v: f"{v:,.0f}" for v in reached} | {v: "" for v in ends if v not in reached}
    bent = sorted((_bent(v), said) for v, said in ticks.items())
    return [*bent, (bent[-1][0] + 0.25, "")]


def _spread(counts: Sequence[int]) -> list[int]:
    """At most a dozen of them, with a little room between."""
    kept = [counts[0]]
    least = (counts[-1] - counts[0]) / 14
    for count in counts[1:]:
        if count - kept[-1] >= max(least, 1):
            kept.append(count)
    return kept


# --- graphs ----------------------------------------------------------------------------------------------


def graph_section(data: ReportData) -> Markup:
    """One graph an action; with scripts on one sees one at a time."""
    pomdp = data.pomdp
    shaded = data.summary.partition if data.summary.partition_speaks else None
    places = layout.state_places(pomdp) if pomdp.n_states <= layout.GRAPH_STATES else np.empty((0, 2))
    figures = [_graph(data, action, shaded, places) for action in range(pomdp.n_actions)]
    legend = (
        "States are circles, with what they show below them; an arrow is as wide as the move is likely, dashed below .1, "
        f"and left out below {layout.SHOWN}. "
        if pomdp.n_states <= layout.GRAPH_STATES
        else "A row for every state: left where it leads, right what it shows; the darker the likelier. "
    )
    if shaded is not None and not shaded.is_trivial:
        legend += "States with the same letter show the same under every full-rank action. "
    if pomdp.terminal:
        legend += "Two circles: the end, where nothing more happens."
    held = _paragraph("The disk inside a state: its probability where the tracker below stands.", "note scripted")
    disks = held if pomdp.n_states <= layout.GRAPH_STATES else ""
    pictures = tag("div", *figures, id="figures")
    return section("graphs", "States and moves", _paragraph(legend, "note"), disks, _switch(pomdp), pictures)


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
    drawn = _drawn(pomdp, action, shaded, places, f"Graph of action {name}; the tables below have all numbers")
    if data.truth is None or not data.truth.matched:
        return tag("figure", title, drawn, data_action=action)
    truth = data.truth.pomdp
    other = _drawn(truth, truth.action_names.index(name), None, places, f"True graph of action {name}")
    pair = tag("div", tag("p", "learned", class_="tag"), drawn, tag("p", "true", class_="tag"), other)
    return tag("figure", title, pair, data_action=action)


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
    parts.append(_rows_table(data, "where an episode starts", ["start"], pomdp.state_names, pomdp.initial[None], "initial", ()))
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
        untried = " (never tried in the log: these rows mean nothing)" if name in pomdp.untried_actions else ""
        opened = pomdp.n_actions * pomdp.n_states <= 40
        told = tag("summary", "action ", tag("strong", name), untried)
        parts.append(tag("details", told, tag("div", *inner, class_="tables"), open=opened))
    if pomdp.symbol_rewards is not None:
        paid = [[name, f"{value:g}"] for name, value in zip(pomdp.observation_names, pomdp.symbol_rewards, strict=True)]
        parts.append(tag("details", tag("summary", "What every symbol pays"), table(["symbol", "reward"], paid)))
    return section("numbers", "Every probability", *parts)


def _legend(data: ReportData) -> Markup:
    level = "" if data.level is None else f", at {data.level:.0%}"
    intervals = f"Intervals: {NOT_COMPUTED}." if data.intervals is None else f"Below every estimate its interval{level}."
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
        return [_paragraph(said)], 0
    names = [pomdp.state_names[s] for s in live]
    moves = _rows_table(
        data, "leads to", names, pomdp.state_names, pomdp.transitions[action, live], "transitions", (action, live, None)
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
    data: ReportData, caption: str, rows: Sequence[str], columns: Sequence[str], values: Floats, array: str, where: Any
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
    parts: list[object] = [("~" if is_open else "") + (f"{value:.3f}" if value >= _LISTED or is_open else "·")]
    if true is not None:
        parts.append(tag("small", f" [{true:.3f}]"))
    if ends is not None:
        parts += [tag("br"), tag("small", f"{ends[0]:.3f}–{ends[1]:.3f}")]
    if word and not is_open and word != "determined":
        parts += [tag("br"), tag("small", word)]
    return tag("td", *parts, class_=f"{shade} open".strip() if is_open else shade or None)


def _laid_out(
    caption: str, rows: Sequence[str], columns: Sequence[str], values: Floats, cells: Sequence[Sequence[Markup]]
) -> Markup:
    """A matrix where it is not too wide, else for every row its likely entries, the likeliest first."""
    if len(columns) <= _WIDEST_MATRIX:
        body = [[name, *line] for name, line in zip(rows, cells, strict=True)]
        return table(["state", *columns], body, caption=caption, class_="matrix")
    lists = []
    for name, row, line in zip(rows, values, cells, strict=True):
        order = [i for i in np.argsort(-row, kind="stable").tolist() if row[i] >= _LISTED or "open" in line[i][:24]]
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
            f"The true system has {counted(truth.n_states, 'state')} and {counted(truth.n_actions, 'action')}, the model "
            f"{pomdp.n_states} and {pomdp.n_actions}: their numbers, or their names, do not correspond, so that states are "
            "not compared."
        )
        return section("truth", "Beside the truth", _paragraph(said))
    order = np.arange(pomdp.n_states)
    rows = [
        ["what states show", f"{observation_l1_all(pomdp, truth, order=order):.4f}"],
        ["where they lead", f"{transition_l1(pomdp, truth, order=order):.4f}"],
    ]
    pairs = ", ".join(f"{a} is {b}" for a, b in zip(pomdp.state_names[:30], truth.state_names[:30], strict=True))
    more = f", ... ({pomdp.n_states} in all)" if pomdp.n_states > 30 else ""
    return section(
        "truth", "Beside the truth",
        _paragraph(f"States are matched so that rows differ least: {pairs}{more}."),
        table(["mean over actions and states of", "L1 distance (0 to 2)"], rows),
    )  # fmt: skip


# --- predictions -----------------------------------------------------------------------------------------


def prediction_section(data: ReportData) -> Markup:
    """Seen beside expected, window by window."""
    if data.check is None:
        said = f"Predictive check: {NOT_COMPUTED}. Give a log that the model was not learned from (--log, log=)."
        return section("predictions", "Does it predict?", _paragraph(said))
    check = data.check
    whose = (
        "This is the log that the model was learned from: the check is of the fit, not of prediction."
        if data.own_log
        else "Whether the model was learned from this log is not known here; as a check of prediction it should not have been."
        if data.summary.steps is None
        else "This is not the log that the model was learned from, by its length and likelihood."
    )
    parts = [_paragraph(whose), listing(_verdict_of(check, data))]
    if check.windows:
        points = [
            (window.expected / window.steps, window.seen / window.steps, f"{_window(window)}: {window.error:+.1f} s.e.")
            for window in check.windows[:_MOST_POINTS]
        ]
        parts += [
            scatter_svg(points, label="Seen and expected frequencies", titles=("expected frequency", "seen")),
            _worst(check),
        ]
    return section("predictions", "Does it predict?", *parts)


def _verdict_of(check: Check, data: ReportData) -> Iterator[str]:
    rate = "minus infinity" if check.impossible else f"{check.log_likelihood / max(1, check.steps):.6f}"
    yield f"{counted(check.steps, 'step')} looked at; {rate} nats per step for the observations."
    if check.impossible:
        yield (
            f"{counted(check.impossible, 'step')} had probability zero under the model; after each it went on from what "
            "that step alone tells."
        )
    if not check.windows:
        yield "No window occurs often enough to compare."
        return
    worst = check.windows[0]
    outcome = "more than" if check.beyond else "no more than"
    yield (
        f"{len(check.windows)} frequencies of windows of one to three pairs compared. The largest deviation is "
        f"{abs(worst.error):.1f} standard errors, {outcome} the {check.limit:.1f} that the largest of so many stays below "
        "95 times in 100 if the model is right (normal approximation, union bound)."
    )
    if check.beyond:
        yield f"{counted(check.beyond, 'frequency').replace('frequencys', 'frequencies')} beyond that: the model does not explain this log there."


def _worst(check: Check) -> Markup:
    rows = [
        [
            _window(window), window.steps, f"{window.expected / window.steps:.4f}",
            f"{window.seen / window.steps:.4f}", f"{window.error:+.2f}",
        ]
        for window in check.windows[:_WORST]
    ]  # fmt: skip
    header = ["window (its last observation is predicted)", "steps", "expected", "seen", "standard errors"]
    return table(header, rows, caption=f"The {len(rows)} frequencies that deviate most")


def _window(window: Window) -> str:
    return ", ".join(f"{action} → {observation}" for action, observation in window.pairs)


# --- the tracker -----------------------------------------------------------------------------------------


def tracker_section(data: ReportData) -> Markup:
    """The belief along a log: a table to read, and controls to step through it."""
    pomdp = data.pomdp
    source = (
        "A log simulated from the model itself, with actions at random."
        if data.log is None or not len(data.log)
        else f"The first {counted(sum(step.action is not None for step in data.steps), 'step')} of the log."
    )
    said = f"{source} The belief is the probability of every state given all that was done and seen before."
    controls = tag(
        "div",
        tag("div", _button("first", "Start"), _button("back", "Back"), _button("next", "Next"), class_="buttons"),
        tag("label", "Step ", tag("input", type="range", id="step", min=0, max=len(data.steps) - 1, value=0)),
        tag("p", "", id="told", role="status", aria_live="polite"),
        tag("div", tag("div", "", id="belief", class_="bars"), tag("div", "", id="map"), class_="beside"),
        class_="scripted controls", id="tracker-controls",
    )  # fmt: skip
    header = ["step", "done", "seen", "probability of that", "likeliest states after it"]
    rows = [_step_row(pomdp, number, step) for number, step in enumerate(data.steps[: _STATIC_STEPS + 1])]
    static = tag("details", tag("summary", f"The first {counted(len(rows), 'line')} as a table"), table(header, rows), open=True, class_="static")
    return section("tracker", "Following the hidden state", _paragraph(said), controls, static)


def _button(identity: str, words: str) -> Markup:
    return tag("button", words, type="button", id=identity)


def _step_row(pomdp: POMDP, number: int, step: Any) -> list[object]:
    likeliest = [int(s) for s in np.argsort(-step.belief, kind="stable")[:4] if step.belief[s] >= 0.005]
    said = ", ".join(f"{pomdp.state_names[s]} {step.belief[s]:.2f}" for s in likeliest)
    if step.action is None:
        return [number, "(an episode begins)", step.observation or "", "" if step.observation is None else f"{step.chance:.3f}", said]
    return [number, step.action, step.observation, f"{step.chance:.3f}" if step.chance > 0 else "0 (ruled out)", said]


# --- goals -----------------------------------------------------------------------------------------------


def goal_section(data: ReportData) -> Markup:
    """What any goal is worth and how far it is; with scripts on, for any goal and belief."""
    pomdp = data.pomdp
    said = (
        "These are bounds, not plans: they are computed as if the state became known after the next step (QMDP). Nobody who "
        "sees only observations needs fewer steps or earns more. A value is 1 for reaching the goal, times "
        f"{goals.DISCOUNT} for every step before."
    )
    options = [
        tag("optgroup", *(tag("option", name, value=f"s{s}") for s, name in enumerate(pomdp.state_names)), label="Come to a state"),
        tag("optgroup", *(tag("option", name, value=f"o{o}") for o, name in enumerate(pomdp.observation_names)), label="See a symbol"),
    ]  # fmt: skip
    if pomdp.rewards is not None:
        options.insert(0, tag("option", "Earn the rewards that were learned", value="r"))
    controls = tag(
        "div",
        _paragraph("Choose a goal here, or click a state in a graph above."),
        tag("label", "Goal ", tag("select", *options, id="goal")),
        tag("p", "", id="goal-told", role="status", aria_live="polite"),
        tag("div", "", id="goal-table"),
        class_="scripted controls", id="goal-controls",
    )  # fmt: skip
    return section("goals", "Goals", _paragraph(said), controls, *_static_goals(pomdp))


def _static_goals(pomdp: POMDP) -> Iterator[Markup]:
    rewarded = _reward_table(pomdp)
    if rewarded is not None:
        yield tag("details", tag("summary", "The rewards that were learned"), rewarded, open=True, class_="static")
    if pomdp.n_states + pomdp.n_observations > _MOST_GOALS:
        yield _paragraph(f"More than {_MOST_GOALS} goals: with scripts on, choose one above.")
        return
    wanted = [(f"state {name}", goals.state_goal(pomdp, s)) for s, name in enumerate(pomdp.state_names)]
    wanted += [(f"symbol {name}", goals.observation_goal(pomdp, o)) for o, name in enumerate(pomdp.observation_names)]
    rows = [_goal_row(pomdp, name, goal) for name, goal in wanted]
    header = ["goal", "value, at most", "steps, at least", "first action by that"]
    yield tag(
        "details", tag("summary", "Every goal, from the start"), table(header, rows), open=len(rows) <= 20, class_="static"
    )


def _goal_row(pomdp: POMDP, name: str, goal: goals.Goal) -> list[object]:
    found = goals.outlook(pomdp, goal)
    action, value = goals.first_action(pomdp, found.values, pomdp.initial)
    least = goals.least_steps(found.steps, pomdp.initial)
    said = f"{least:.1f}" if np.isfinite(least) else "may be missed for ever"
    return [name, f"{value:.3f}", said, pomdp.action_names[action] if value > 0 else "out of reach"]


def _reward_table(pomdp: POMDP) -> Markup | None:
    values = goals.reward_outlook(pomdp)
    if values is None:
        return None
    beliefs = [("at the start", pomdp.initial), ("knowing nothing", pomdp.going_on)]
    beliefs += [(f"in state {pomdp.state_names[s]}", np.eye(pomdp.n_states)[s]) for s in np.flatnonzero(pomdp.going_on)[:40]]
    rows = []
    for name, belief in beliefs:
        action, value = goals.first_action(pomdp, values, belief)
        rows.append([name, f"{value:.3f}", pomdp.action_names[action]])
    caption = f"All that is earned, times {goals.DISCOUNT} for every step before"
    return table(["belief", "value, at most", "first action by that"], rows, caption=caption)


# --- provenance and data ---------------------------------------------------------------------------------


def provenance_section(data: ReportData, software: Mapping[str, str]) -> Markup:
    """How the model came about, as far as it is on record."""
    rows = [*_flat("", data.provenance), *_flat("option ", data.options)]
    recorded = table(["", "as recorded"], rows) if rows else _paragraph("Nothing is on record with this model.")
    made = ", ".join(f"{name} {version}" for name, version in software.items())
    return section("provenance", "Provenance", recorded, _paragraph(f"This page was made by {made}.", "note"))


def _flat(prefix: str, values: Mapping[str, Any]) -> Iterator[list[object]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{prefix}{key} ", value)
        elif value is not None and value != []:
            said = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            yield [f"{prefix}{key}", layout.short(said, _MOST_PROVENANCE)]


def page_data(data: ReportData) -> dict[str, Any]:
    """What the script needs: the model, sparse, and the steps of the tracker."""
    pomdp = data.pomdp
    return {
        "discount": goals.DISCOUNT,
        "emission": pomdp.emission,
        "states": list(pomdp.state_names),
        "actions": list(pomdp.action_names),
        "symbols": list(pomdp.observation_names),
        "untried": [pomdp.action_names.index(name) for name in pomdp.untried_actions],
        "terminal": list(pomdp.terminal),
        "initial": _rounded(pomdp.initial),
        "transitions": [[_sparse(row) for row in rows] for rows in pomdp.transitions],
        "observations": [[_sparse(row) for row in rows] for rows in pomdp.observations],
        "rewards": None if pomdp.rewards is None else [_rounded(row) for row in pomdp.rewards],
        "steps": [
            {"action": step.action, "observation": step.observation, "chance": round(step.chance, 6), "belief": _sparse(step.belief)}
            for step in data.steps
        ],
    }  # fmt: skip


def _rounded(values: Floats) -> list[float]:
    return [float(f"{value:.8g}") for value in values]


def _sparse(row: Floats) -> list[list[float]]:
    """Where a row is not zero, and how much."""
    places = np.flatnonzero(row)
    return [places.tolist(), _rounded(row[places])]
