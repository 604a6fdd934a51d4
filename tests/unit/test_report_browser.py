"""The report in a real browser: what works with scripts on, that all is there with scripts off, and that names stay
names. Skipped where there is no Chromium."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from browser import browser, chromium
from hostile import BENIGN, PAYLOADS
from unlatch import POMDP, domains, simulate, write_report
from unlatch.show.report import goals

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason="no Chromium here: the report is not tried in a browser"),
]

TMAZE = domains.tmaze(2)
STRUCTURE = (
    "[...document.querySelectorAll('*')]"
    ".map((e) => e.tagName + ' ' + [...e.attributes].map((a) => a.name).join(' '))"
)


@pytest.fixture(scope="module")
def tab():
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "tmaze.html"
    write_report(path, TMAZE, log=simulate(TMAZE, 300, rng=3))
    return path


@pytest.fixture
def page(tab, report):
    tab.open(report)
    yield tab
    assert tab.complaints() == []
    assert tab.requests() == [report.resolve().as_uri()]


def shown_figures(page):
    return page.evaluate("[...document.querySelectorAll('#figures > figure')].map((f) => f.offsetHeight > 0)")


def goal_rows(page):
    rows = page.evaluate(
        "[...document.querySelectorAll('#goal-table tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))"
    )
    return {row[0]: row[1:] for row in rows}


def test_one_action_at_a_time(page):
    assert shown_figures(page) == [True, False, False, False]
    page.click("#switch label:nth-of-type(3) span")
    assert shown_figures(page) == [False, False, True, False]


def test_the_tracker_steps_along_the_log(page):
    first = page.evaluate("document.getElementById('told').textContent")
    assert first.startswith("Line 0 of 200")
    page.click("#next")
    page.click("#next")
    log = simulate(TMAZE, 300, rng=3)
    told = page.evaluate("document.getElementById('told').textContent")
    did, saw = TMAZE.action_names[log.actions[1]], TMAZE.observation_names[log.observations[1]]
    assert f"did {did}, saw {saw}" in told
    belief = page.evaluate(
        "[...document.querySelectorAll('#belief .much')].map((e) => Number(e.textContent))"
    )
    assert belief == pytest.approx(TMAZE.belief(log.head(2)), abs=6e-4)
    assert page.evaluate("document.querySelectorAll('#map .state').length") == TMAZE.n_states
    page.click("#first")
    assert page.evaluate("document.getElementById('told').textContent") == first


def test_the_goal_explorer_computes_what_python_does(page):
    for choice, goal in (
        ("s4", goals.state_goal(TMAZE, 4)),
        ("o1", goals.observation_goal(TMAZE, 1)),
    ):
        page.evaluate(
            f"document.getElementById('goal').value = '{choice}';"
            "document.getElementById('goal').dispatchEvent(new Event('change'))"
        )
        found = goals.outlook(TMAZE, goal)
        rows = goal_rows(page)
        beliefs = {"at the start": TMAZE.initial, "knowing nothing": TMAZE.going_on}
        beliefs |= {f"in state {name}": np.eye(TMAZE.n_states)[s] for s, name in enumerate(TMAZE.state_names)}
        for name, belief in beliefs.items():
            action, value = goals.first_action(TMAZE, found.values, belief)
            steps = goals.least_steps(found.steps, belief)
            assert rows[name][0] == f"{value:.3f}"
            assert rows[name][1] == (f"{steps:.1f}" if np.isfinite(steps) else "may be missed for ever")
            move = (
                "there already" if steps == 0 else TMAZE.action_names[action] if value > 0 else "out of reach"
            )
            assert rows[name][2] == move


def test_the_rewards_are_those_of_the_static_table(page):
    shown = goal_rows(page)
    static = page.evaluate(
        "[...document.querySelectorAll('#goals details.static:first-of-type tbody tr')]"
        ".map((r) => [...r.cells].map((c) => c.textContent))"
    )
    assert len(static) > 2
    for name, *rest in static:
        assert shown[name] == rest


def test_a_click_on_a_state_makes_it_the_goal(page):
    page.click("#figures figure:not([hidden]) .state[data-state='3'] .rim")
    assert page.evaluate("document.getElementById('goal').value") == "s3"
    name = TMAZE.state_names[3]
    assert (
        page.evaluate("document.getElementById('goal-told').textContent") == f"Goal: to come to state {name}."
    )
    assert page.evaluate("document.querySelectorAll('#figures .state.goal').length") == TMAZE.n_actions


def focused(page):
    return page.evaluate(
        "document.activeElement.id || document.activeElement.name || document.activeElement.className"
    )


def tab_to(page, what):
    for _ in range(80):
        page.press("Tab")
        if focused(page) == what:
            return
    raise AssertionError(f"{what} cannot be reached by Tab")


def test_the_keyboard_is_enough(page):
    page.press("Tab")
    assert focused(page) == "skip"
    tab_to(page, "action")
    page.press("ArrowRight")
    assert shown_figures(page) == [False, True, False, False]
    tab_to(page, "next")
    page.press("Enter")
    page.press(" ")
    assert page.evaluate("document.getElementById('step').value") == "2"
    tab_to(page, "step")
    page.press("End")
    assert page.evaluate("document.getElementById('told').textContent").startswith("Line 200 of 200")
    page.press("Home")
    tab_to(page, "goal")
    before = page.evaluate("document.getElementById('goal').value")
    page.press("ArrowDown")
    assert page.evaluate("document.getElementById('goal').value") != before
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"


def test_everything_that_is_used_has_a_name(page):
    """For screen readers: names of controls, headings of sections, one level after the other."""
    tree = page.call("Accessibility.getFullAXTree")["nodes"]
    for node in tree:
        role = node.get("role", {}).get("value")
        if role in ("button", "slider", "combobox", "radio", "img", "region", "navigation"):
            assert node.get("name", {}).get("value"), node
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3')].map((h) => Number(h.tagName[1]))")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_does_not_scroll_sideways(tab, report, width):
    tab.open(report, width=width)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out_from_its_ground(tab, report, dark):
    """The contrast of body text, soft text and links is at least that of WCAG AA."""
    tab.open(report, dark=dark)
    pairs = tab.evaluate(
        "['.note', 'section a, nav a', 'section p', '.tiles dt', 'figcaption'].map((q) => {"
        " const e = document.querySelector(q); let g = e; let ground = 'rgba(0, 0, 0, 0)';"
        " for (; g && ground === 'rgba(0, 0, 0, 0)'; g = g.parentElement) ground = getComputedStyle(g).backgroundColor;"
        " return [q, getComputedStyle(e).color, ground]; })"
    )
    for what, ink, ground in pairs:
        assert contrast(ink, ground) >= 4.5, (what, ink, ground)


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(color):
    shares = [int(part) / 255 for part in color[color.index("(") + 1 : -1].split(",")[:3]]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in shares]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def test_labels_of_graphs_are_legible(page):
    """At 1280 pixels no text of the graph that is shown is smaller than 9 pixels."""
    sizes = page.evaluate(
        "(() => { const svg = document.querySelector('#figures figure:not([hidden]) svg');"
        " const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;"
        " return [...svg.querySelectorAll('text')].map((t) => scale * parseFloat(getComputedStyle(t).fontSize)); })()"
    )
    assert min(sizes) >= 9


def test_all_is_there_with_scripts_off(tab, report):
    tab.open(report, scripts=False)
    document = tab.call("DOM.getDocument", depth=0)["root"]["nodeId"]

    def visible(selector):
        found = tab.call("DOM.querySelectorAll", nodeId=document, selector=selector)["nodeIds"]
        boxes = 0
        for node in found:
            try:
                boxes += tab.call("DOM.getBoxModel", nodeId=node)["model"]["height"] > 0
            except RuntimeError:  # it has no box
                continue
        return boxes, len(found)

    assert visible("#figures > figure") == (4, 4)
    assert visible(".scripted")[0] == 0
    assert visible("section") == (7, 7)
    assert visible("details.static table")[0] >= 2
    assert tab.complaints() == []


def test_the_browser_too_takes_names_for_names(tab, tmp_path):
    """Chromium's own parser finds the same elements and attributes as with harmless names, and runs nothing."""

    def structure(names, path):
        moves = np.tile(np.roll(np.eye(25), 1, axis=1), (5, 1, 1))
        model = POMDP(
            moves, np.full((5, 25, 20), 0.05), np.full(25, 1 / 25), state_names=names[:25], action_names=names[25:30],
            observation_names=names[30:50],
        )  # fmt: skip
        write_report(path, model, title=names[50], log=simulate(model, 20, rng=0))
        tab.open(path)
        assert tab.complaints() == []
        assert tab.requests() == [path.resolve().as_uri()]
        return tab.evaluate(STRUCTURE)

    template = structure(BENIGN[:51], tmp_path / "benign.html")
    for start in range(0, 450, 50):
        assert structure(PAYLOADS[start : start + 51], tmp_path / "hostile.html") == template
