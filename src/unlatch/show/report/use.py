"""The model in use on a report: what it predicts, what it believes along a log, how far goals are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from unlatch.arrays import Floats
from unlatch.core.pomdp import POMDP
from unlatch.show.beliefs import Step
from unlatch.show.report import goals
from unlatch.show.report.check import Check, Window
from unlatch.show.report.data import ReportData
from unlatch.show.report.graph import scatter_svg
from unlatch.show.report.markup import Markup, listing, paragraph, section, table, tag
from unlatch.show.report.words import NOT_COMPUTED
from unlatch.show.safe import counted

__all__ = ["goal_section", "page_data", "prediction_section", "tracker_section"]

_MOST_GOALS = 60
_MOST_SCRIPTED = 60_000
"""Numbers of a model up to which it is handed to the script, which computes goals with them."""

_MOST_POINTS = 1500
_WORST = 12
"""Windows that are listed, those that deviate most."""

_STATIC_STEPS = 25


# --- predictions -----------------------------------------------------------------------------------------


def prediction_section(data: ReportData) -> Markup:
    """Seen beside expected, window by window."""
    if data.check is None:
        said = (
            f"Predictive check: {NOT_COMPUTED}. Give a log that the model was not learned from (--log, log=)."
        )
        return section("predictions", "Does it predict?", paragraph(said))
    check = data.check
    parts = [paragraph(_whose(data)), listing(_verdict_of(check))]
    if check.windows:
        points = [
            (
                window.expected / window.steps,
                window.seen / window.steps,
                f"{_window(window)}: {window.error:+.1f} s.e.",
            )
            for window in check.windows[:_MOST_POINTS]
        ]
        parts += [
            scatter_svg(points, label="Seen and expected frequencies", titles=("expected frequency", "seen")),
            _worst(check),
        ]
    return section("predictions", "Does it predict?", *parts)


def _whose(data: ReportData) -> str:
    """What is known of whether the model has seen this log before."""
    if data.own_log:
        return "This is the log that the model was learned from: the check is of the fit, not of prediction."
    if data.summary.steps is None:
        return "Whether the model was learned from this log is not on record; to check predictions it should not be."
    return (
        "By its length and likelihood this is not the whole log that the model was learned from; whether it is a part "
        "of that cannot be seen here."
    )


def _verdict_of(check: Check) -> Iterator[str]:
    rate = "minus infinity" if check.impossible else f"{check.log_likelihood / max(1, check.steps):.6f}"
    yield f"{counted(check.steps, 'step')} looked at; {rate} nats per step for the observations."
    if check.impossible:
        yield (
            f"{counted(check.impossible, 'step')} had probability zero under the model; after each it went on from "
            "what that step alone tells."
        )
    if not check.windows:
        yield "No window occurs often enough to compare."
        return
    worst = check.windows[0]
    outcome = "more than" if check.beyond else "no more than"
    yield (
        f"{len(check.windows)} frequencies of windows of one to three pairs compared. The largest deviation is "
        f"{abs(worst.error):.1f} standard errors, {outcome} the {check.limit:.1f} that the largest of so many stays "
        "below 95 times in 100 if the model is right (normal approximation, union bound)."
    )
    if check.beyond:
        yield f"Frequencies beyond that: {check.beyond}. There the model does not explain this log."


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
    static = tag(
        "details",
        tag("summary", f"The first {counted(len(rows), 'line')} as a table"),
        table(header, rows),
        open=True,
        class_="static",
    )
    return section("tracker", "Following the hidden state", paragraph(said), controls, static)


def _button(identity: str, words: str) -> Markup:
    return tag("button", words, type="button", id=identity)


def _step_row(pomdp: POMDP, number: int, step: Step) -> list[object]:
    likeliest = [int(s) for s in np.argsort(-step.belief, kind="stable")[:4] if step.belief[s] >= 0.005]
    said = ", ".join(f"{pomdp.state_names[s]} {step.belief[s]:.2f}" for s in likeliest)
    if step.action is None:
        return [
            number,
            "(an episode begins)",
            step.observation or "",
            "" if step.observation is None else f"{step.chance:.3f}",
            said,
        ]
    return [
        number,
        step.action,
        step.observation,
        f"{step.chance:.3f}" if step.chance > 0 else "0 (ruled out)",
        said,
    ]


# --- goals -----------------------------------------------------------------------------------------------


def goal_section(data: ReportData) -> Markup:
    """What any goal is worth and how far it is; with scripts on, for any goal and belief."""
    pomdp = data.pomdp
    said = (
        "These are bounds, not plans: they are computed as if the state became known after the next step (QMDP). "
        "Nobody who sees only observations needs fewer steps or earns more. A value is 1 for reaching the goal, times "
        f"{goals.DISCOUNT} for every step before."
    )
    if not _is_scripted(pomdp):
        large = f"More than {_MOST_SCRIPTED} numbers: too large a model for the script to compute any goal."
        return section("goals", "Goals", paragraph(said), paragraph(large), *_static_goals(pomdp))
    options = [
        tag("optgroup", *_options("s", pomdp.state_names), label="Come to a state"),
        tag("optgroup", *_options("o", pomdp.observation_names), label="See a symbol"),
    ]
    if pomdp.rewards is not None:
        options.insert(0, tag("option", "Earn the rewards that were learned", value="r"))
    controls = tag(
        "div",
        paragraph("Choose a goal here, or click a state in a graph above."),
        tag("label", "Goal ", tag("select", *options, id="goal")),
        tag("p", "", id="goal-told", role="status", aria_live="polite"),
        tag("div", "", id="goal-table"),
        class_="scripted controls", id="goal-controls",
    )  # fmt: skip
    return section("goals", "Goals", paragraph(said), controls, *_static_goals(pomdp))


def _is_scripted(pomdp: POMDP) -> bool:
    return int((pomdp.transitions > 0).sum() + (pomdp.observations > 0).sum()) <= _MOST_SCRIPTED


def _options(kind: str, names: Sequence[str]) -> Iterator[Markup]:
    return (tag("option", name, value=f"{kind}{number}") for number, name in enumerate(names))


def _static_goals(pomdp: POMDP) -> Iterator[Markup]:
    rewarded = _reward_table(pomdp)
    if rewarded is not None:
        yield tag(
            "details", tag("summary", "The rewards that were learned"), rewarded, open=True, class_="static"
        )
    if pomdp.n_states + pomdp.n_observations > _MOST_GOALS:
        yield paragraph(f"More than {_MOST_GOALS} goals: too many for a table.")
        return
    wanted = [(f"state {name}", goals.state_goal(pomdp, s)) for s, name in enumerate(pomdp.state_names)]
    wanted += [
        (f"symbol {name}", goals.observation_goal(pomdp, o)) for o, name in enumerate(pomdp.observation_names)
    ]
    rows = [_goal_row(pomdp, name, goal) for name, goal in wanted]
    header = ["goal", "value, at most", "steps, at least", "first action by value"]
    yield tag(
        "details",
        tag("summary", "Every goal, from the start"),
        table(header, rows),
        open=len(rows) <= 20,
        class_="static",
    )


def _goal_row(pomdp: POMDP, name: str, goal: goals.Goal) -> list[object]:
    found = goals.outlook(pomdp, goal)
    action, value = goals.first_action(pomdp, found.values, pomdp.initial)
    least = goals.least_steps(found.steps, pomdp.initial)
    move = "there already" if least == 0 else "out of reach" if value <= 0 else pomdp.action_names[action]
    said = f"{least:.1f}" if np.isfinite(least) else "may be missed for ever"
    return [name, f"{value:.3f}", said, move]


def _reward_table(pomdp: POMDP) -> Markup | None:
    values = goals.reward_outlook(pomdp)
    if values is None:
        return None
    beliefs = [("at the start", pomdp.initial), ("knowing nothing", pomdp.going_on)]
    beliefs += [
        (f"in state {pomdp.state_names[s]}", np.eye(pomdp.n_states)[s])
        for s in np.flatnonzero(pomdp.going_on)[:40]
    ]
    rows = []
    for name, belief in beliefs:
        action, value = goals.first_action(pomdp, values, belief)
        rows.append([name, f"{value:.3f}", pomdp.action_names[action]])
    caption = f"All that is earned, times {goals.DISCOUNT} for every step before"
    return table(["belief", "value, at most", "first action by value"], rows, caption=caption)


# --- for the script ---------------------------------------------------------------------------------------


def page_data(data: ReportData) -> dict[str, Any]:
    """What the script needs: the model, sparse, and the steps of the tracker."""
    pomdp = data.pomdp
    scripted = _is_scripted(pomdp)
    return {
        "discount": goals.DISCOUNT,
        "emission": pomdp.emission,
        "states": list(pomdp.state_names),
        "actions": list(pomdp.action_names),
        "symbols": list(pomdp.observation_names),
        "untried": [pomdp.action_names.index(name) for name in pomdp.untried_actions],
        "terminal": list(pomdp.terminal),
        "initial": _rounded(pomdp.initial),
        "transitions": [[_sparse(row) for row in rows] for rows in pomdp.transitions] if scripted else [],
        "observations": [[_sparse(row) for row in rows] for rows in pomdp.observations] if scripted else [],
        "rewards": None if pomdp.rewards is None else [_rounded(row) for row in pomdp.rewards],
        "steps": [
            {**step._asdict(), "chance": round(step.chance, 6), "belief": _sparse(step.belief, 5)}
            for step in data.steps
        ],
    }  # fmt: skip


def _rounded(values: Floats, digits: int = 8) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in values]


def _sparse(row: Floats, digits: int = 8) -> tuple[list[int], list[float]]:
    """Where a row is not zero, and how much."""
    places = np.flatnonzero(row)
    return places.tolist(), _rounded(row[places], digits)
