"""What a report says in words: in brief, in full, and how it all came about."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from unlatch.core.evidence import Evidence
from unlatch.show import layout
from unlatch.show.report.data import ReportData
from unlatch.show.report.graph import Series, chart_svg
from unlatch.show.report.markup import Markup, join, listing, paragraph, section, table, tag
from unlatch.show.safe import counted
from unlatch.show.summary import count_sentences, partition_sentences

__all__ = ["NOT_COMPUTED", "header", "provenance_section", "summary_section"]

_REPAIRS = (
    "clipped", "empty_episodes", "float_symbols", "missing_split", "opened_zeros", "projected_initial",
    "projected_observations", "projected_transitions", "renumbered", "repaired", "truncated_tail",
    "undetermined_rows", "weak_rows",
)  # fmt: skip
"""Diagnostics that tell of something that was changed, not only seen."""

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
    yield "the numbers, by the process", _how_determined(data)
    check = data.check
    if check is None or not check.windows:
        yield "predictions", NOT_COMPUTED
    else:
        place = "the log learned from" if data.own_log else "the log given"
        yield (
            f"predictions on {place}",
            f"farthest off of {len(check.windows)}: {abs(check.windows[0].error):.1f} standard errors; "
            f"chance allows {check.limit:.1f}",
        )
    notes = list(data.summary.diagnostics)
    repaired = sum(note.name in _REPAIRS for note in notes)
    yield "on record", f"{counted(repaired, 'repair')}, {counted(len(notes) - repaired, 'other note')}"


def _how_determined(data: ReportData) -> str:
    found = data.summary.identified
    if found is None:
        return NOT_COMPUTED
    if found.identified:
        return "determined, and no other model at all" if found.everywhere else "determined, locally"
    return found.verdict


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
    proved = partition_sentences(summary)
    parts = [
        tag("h3", "How many states, and why"),
        tag(
            "div",
            listing(map(_sentence, count_sentences(summary))),
            tag("div", _unknown_count() if summary.evidence is None else _evidence(summary.evidence)),
            class_="beside",
        ),
        tag("h3", "What is proved"),
        listing(map(_sentence, proved))
        if proved
        else paragraph(f"Which numbers the process determines: {NOT_COMPUTED}."),
        tag("h3", "What was repaired"),
        _notes(repaired) if repaired else paragraph("Nothing that is on record."),
        tag("h3", "What was noticed"),
        _notes(noticed) if noticed else paragraph("Nothing that is on record."),
    ]
    if not summary.complete:
        parts.insert(
            0, paragraph("The search was cut short: this is the best model seen, not the end of the search.")
        )
    return section("summary", "Summary", *parts)


def _unknown_count() -> Markup:
    return paragraph(f"How sure the number of states is: {NOT_COMPUTED}; this model came without evidence.")


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:] + ("" if words.endswith(".") else ".")


def _notes(notes: Sequence[Any]) -> Markup:
    return tag("dl", *(_note(note) for note in notes), class_="notes")


def _note(note: Any) -> Markup:
    remedy = _remedies().get(note.name)
    said = [tag("dd", _sentence(note.message))]
    if remedy is not None:
        said.append(tag("dd", _helps(remedy), class_="remedy"))
    return tag("div", tag("dt", note.name), *said)


def _helps(remedy: str) -> str:
    nothing = remedy.removeprefix("none")
    return f"What helps: {remedy}." if nothing == remedy else f"Nothing needs to be done{nothing}."


@cache
def _remedies() -> Mapping[str, str]:
    found: dict[str, str] = json.loads(
        (files("unlatch.show.report") / "remedies.json").read_text(encoding="utf-8")
    )
    return found


def _evidence(evidence: Evidence) -> Markup:
    scores = sorted(
        (int(count), float(score)) for count, score in evidence.scores.items() if np.isfinite(score)
    )
    if len(scores) < 2:
        return Markup("")
    rows = [[count, f"{score:.1f}", _role(evidence, count)] for count, score in scores]
    lowest = min(score for _, score in scores)
    bent = [(float(count), _bent(score)) for count, score in scores]
    y_ticks = _bent_ticks(lowest, max(score for _, score in scores))
    counts = [count for count, _ in scores]
    x_ticks = [(float(count), str(count)) for count in _spread(counts, evidence.states)]
    x_ticks = [(counts[0] - 0.5, ""), *x_ticks, (counts[-1] + 0.5, "")]
    chart = chart_svg(
        [Series("", bent)], label="Evidence by number of states; the table below has the numbers", x_ticks=x_ticks,
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


def _spread(counts: Sequence[int], chosen: int) -> list[int]:
    """At most a dozen of them, the chosen and the ends first, with a little room between."""
    least = max((counts[-1] - counts[0]) / 14, 1.0)
    kept: list[int] = []
    for count in (chosen, counts[0], counts[-1], *counts):
        if count in counts and all(abs(count - other) >= least for other in kept):
            kept.append(count)
    return sorted(kept)


# --- provenance ---------------------------------------------------------------------------------


def provenance_section(data: ReportData, software: Mapping[str, str]) -> Markup:
    """How the model came about, as far as it is on record."""
    rows = [*_flat("", data.provenance), *_flat("option ", data.options)]
    recorded = (
        table(["", "as recorded"], rows) if rows else paragraph("Nothing is on record with this model.")
    )
    made = ", ".join(f"{name} {version}" for name, version in software.items())
    return section("provenance", "Provenance", recorded, paragraph(f"This page was made by {made}.", "note"))


def _flat(prefix: str, values: Mapping[str, Any]) -> Iterator[list[object]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{prefix}{key} ", value)
        elif value is not None and value != []:
            said = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            yield [f"{prefix}{key}", layout.short(said, _MOST_PROVENANCE)]
