"""The report: what it says is what is known, names stay names, and nothing comes from elsewhere."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest

import remedies
from hostile import BENIGN, CONTROLS, PAYLOADS
from sizes import sized
from unlatch import (
    POMDP,
    Diagnostics,
    Evidence,
    Partition,
    SavedModel,
    Trajectory,
    domains,
    learn_pomdp,
    learn_psr,
    report_html,
    save_model,
    simulate,
    write_report,
)
from unlatch.errors import DataError, StorageError, UsageError
from unlatch.show.report import markup
from unlatch.show.report.data import Verdicts
from unlatch.study.report import study_html

TIGER = domains.tiger()
VOID = {"meta", "input", "br"}


class Reader(HTMLParser):
    """Elements with the names of their attributes, in order; links; texts; whether every element is closed."""

    def __init__(self):
        super().__init__()
        self.elements, self.links, self.texts, self.open, self.data = [], [], [], [], ""

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.links += [
            value for name, value in attrs if name in ("href", "src", "action", "xlink:href", "style")
        ]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script" and data.startswith("{"):
            self.data = data
        elif not self.open or self.open[-1] not in ("script", "style"):
            self.texts.append(data)

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data!r}")


def read(page):
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


def said(page):
    return re.sub(r"\s+", " ", " ".join(read(page).texts))


# --- hostile names ----------------------------------------------------------------------------------------


def same_as_the_template(make, pages):
    """A page with hostile names has the elements and attributes of one with harmless names, and no links."""
    pages = list(pages)
    template = read(make(BENIGN[: len(pages[0])])).elements
    for names in pages:
        hostile = read(make(names))
        assert hostile.elements == template
        assert all(link.startswith("#") for link in hostile.links)
        yield hostile


def chunks(size):
    return (PAYLOADS[start : start + size] for start in range(0, len(PAYLOADS), size))


def spread(n_states, n_actions, n_symbols, names):
    """A model that shows every one of its symbols somewhere in its graphs."""
    shows = np.full((n_actions, n_states, n_symbols), 0.1 / n_symbols)
    for a in range(n_actions):
        shows[a, :, a % n_symbols] += 0.9
    moves = np.tile(np.roll(np.eye(n_states), 1, axis=1), (n_actions, 1, 1))
    initial = np.full(n_states, 1 / n_states)
    return POMDP(moves, shows, initial, **names)


@pytest.mark.slow
def test_hostile_actions_and_symbols():
    def made(names):
        return report_html(spread(2, 50, 50, {"action_names": names, "observation_names": names[::-1]}))

    assert sum(1 for _ in same_as_the_template(made, chunks(50))) == 10


@pytest.mark.slow
@pytest.mark.parametrize("n_states", [25, 50])
def test_hostile_states_in_graphs_and_blocks(n_states):
    def made(names):
        first = np.full((n_states, n_states), 1 / n_states)
        model = spread(n_states, 1, 2, {"state_names": names})
        return report_html(replace(model, first_observations=first, first_observation_names=names))

    for page in same_as_the_template(made, chunks(n_states)):
        assert len(json.loads(page.data)["states"]) == n_states
        assert not any(character in page.data for character in "<>&\u2028\u2029")


def hostile_saved(names):
    notes = Diagnostics()
    for name in names:
        notes = notes.noting(name, name)
    evidence = Evidence(2, {1: -9.0, 2: 0.0}, 1, 9.0, 10, 0, emission=names[0], emissions_given_up=names)
    return SavedModel(
        pomdp=TIGER,
        diagnostics=notes,
        provenance={"log": {"steps": 10, "episodes": 1}, **{name: [name, name] for name in names}},
        options={name: name for name in names},
        evidence=evidence,
        partition=Partition.singletons(2),
    )


def test_hostile_notes_options_and_provenance():
    assert list(same_as_the_template(lambda names: report_html(hostile_saved(names)), [PAYLOADS + CONTROLS]))


def test_hostile_verdicts_and_true_names():
    """A page with 25 states has 625 transitions: room for a payload in every verdict."""
    model = replace(spread(25, 1, 25, {}), observations=np.eye(25)[None])

    def made(names):
        words = np.resize(np.array(names, dtype=object), 625)
        truth = replace(model, state_names=names[:25])
        verdicts = Verdicts(words.reshape(1, 25, 25), words.reshape(1, 25, 25), words[:25], meaning=names[-1])
        return report_html(model, verdicts=verdicts, truth=truth)

    assert list(same_as_the_template(made, [PAYLOADS, PAYLOADS[250:] + PAYLOADS[:250]]))


def test_hostile_titles():
    def made(names):
        (name,) = names
        return markup.page(name, markup.tag("h1", name, title=name, data_x=name))

    assert list(same_as_the_template(made, [(payload,) for payload in PAYLOADS + CONTROLS]))
    titled = [(PAYLOADS[1],), (CONTROLS[1],)]
    assert list(same_as_the_template(lambda names: report_html(TIGER, title=names[0]), titled))


def test_hostile_studies(tmp_path):
    def made(names):
        lines = ["domain,method,steps,seed,outcome,measure"]
        for row, name in enumerate(names):
            quoted = '"' + name.replace('"', '""') + '"'
            lines += [f"{quoted},{quoted},{size},{row},ok,{size + row % 7}" for size in (10, 1000)]
        (tmp_path / "rows.csv").write_text("\n".join(lines), encoding="utf-8", newline="")
        return study_html(tmp_path)

    assert list(same_as_the_template(made, [PAYLOADS]))


# --- what it says -----------------------------------------------------------------------------------------


def test_the_page_loads_nothing_and_says_so():
    page = report_html(TIGER)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page).group(1)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert "http://" not in page.replace("http-equiv", "")
    assert "https://" not in page


def test_a_bare_model_says_what_was_not_computed():
    text = said(report_html(TIGER))
    assert "how sure: not computed" in text
    assert "Intervals: not computed." in text
    assert "Predictive check: not computed." in text
    assert "A log simulated from the model itself" in text
    assert "Nothing is on record with this model." in text
    assert "determined" in text
    assert "“identified” – proved" in text


def test_every_number_of_the_model_is_there():
    model = spread(3, 2, 4, {})
    text = said(report_html(model))
    for value in np.unique(np.concatenate([model.observations.ravel(), model.initial])):
        assert f"{value:.3f}" in text


def test_intervals_verdicts_and_truth_stand_beside_the_numbers():
    ends = SimpleNamespace(
        transitions=np.stack([TIGER.transitions * 0.9, np.minimum(1, TIGER.transitions * 1.1)], -1),
        observations=np.stack([TIGER.observations * 0.9, np.minimum(1, TIGER.observations * 1.1)], -1),
        initial=np.stack([TIGER.initial - 0.01, TIGER.initial + 0.012], -1),
    )
    words = [
        np.full(np.shape(getattr(TIGER, name)), "") for name in ("transitions", "observations", "initial")
    ]
    words = [array.astype("U20") for array in words]
    words[0][0, 0, 0], words[1][0, 1, 1] = "open", "bounded only"
    verdicts = Verdicts(*words, meaning="as a test has it")
    text = said(report_html(TIGER, intervals=ends, level=0.95, verdicts=verdicts, truth=TIGER))
    assert "Below every estimate its interval, at 95%." in text
    assert "0.490–0.512" in text
    assert "0.765–0.935" in text
    assert "~1.000" in text
    assert "bounded only" in text
    assert "as a test has it" in text
    assert "0.850 [0.850]" in text
    assert "tiger-left is tiger-left" in text
    with pytest.raises(DataError, match=r"intervals.initial: shape \(3,\), expected \(2, 2\)"):
        report_html(TIGER, intervals=SimpleNamespace(**{**vars(ends), "initial": np.zeros(3)}))


def test_what_the_process_leaves_open_is_marked_with_its_range():
    first, _ = domains.unidentifiable_pair()
    text = said(report_html(first))
    assert "“bounded” – models with the same process and other numbers were found" in text
    assert "other models with the same process have other numbers here" in text
    assert re.search(r"~0\.\d{3} ~0\.\d{3}–[01]\.\d{3}", text)


def test_a_truth_of_another_size_is_not_compared():
    text = said(report_html(TIGER, truth=domains.tmaze()))
    assert "do not correspond" in text


@pytest.mark.slow
def test_a_result_says_why_how_sure_and_what_helps(tmp_path):
    log = simulate(TIGER, sized(6_000), rng=0)
    named = Trajectory(log.actions, log.observations, (*log.action_names, "never"), log.observation_names)
    result = learn_pomdp(named, rng=0)
    text = said(report_html(result, log=named))
    assert f"{len(log)} steps in 1 episode; 2 hidden states" in text
    assert "settled: " in text
    assert "never_tried" in text
    assert "What helps: log with this action, and do not plan with it." in text
    assert "Nothing needs to be done, unless what is rare matters" in text
    assert "This is the log that the model was learned from" in text
    save_model(tmp_path / "m.json", result)
    fresh = simulate(TIGER, 3_000, rng=5)
    other = said(report_html(result, log=fresh))
    assert "this is not the whole log that the model was learned from" in other
    assert "95 times in 100" in other


def test_a_wrong_model_is_caught_by_the_check():
    deaf = TIGER.observations.copy()
    deaf[0] = deaf[0].mean(axis=0)
    log = simulate(TIGER, 3_000, rng=1)
    wrong = said(report_html(replace(TIGER, observations=deaf), log=log))
    assert "There the model does not explain this log." in wrong
    right = said(report_html(TIGER, log=log))
    assert "no more than the" in right


def test_steps_that_are_ruled_out_are_counted():
    sure = POMDP([[[1.0]]], [[[1.0, 0.0]]], [1.0])
    text = said(report_html(sure, log=Trajectory([0, 0, 0], [0, 1, 0], ("0",), ("0", "1"))))
    assert "1 step had probability zero under the model" in text
    assert "0 (ruled out)" in text
    assert "minus infinity nats per step" in text


def test_endings_and_rewards_are_shown():
    text = said(report_html(domains.lockbox()))
    assert "the end" in text
    assert "The rewards that were learned" in text or "rewards" in text
    assert "Every goal, from the start" in text


def test_large_models_are_cut(rng):
    dense = rng.random((6, 120, 120)) + 0.01
    model = POMDP(dense / dense.sum(axis=2, keepdims=True), np.full((6, 120, 5), 0.2), np.full(120, 1 / 120))
    page = report_html(model)
    assert len(page) < 3_000_000
    assert "too many for a page" in page


def test_what_cannot_be_reported_is_refused(tmp_path):
    for wrong in (learn_psr(simulate(TIGER, 2_000, rng=0), rng=0), 3):
        with pytest.raises(UsageError):
            report_html(wrong)
    with pytest.raises(UsageError, match="log must be of type Trajectory"):
        report_html(TIGER, log="log.csv")
    with pytest.raises(StorageError):
        write_report(tmp_path / "none" / "x.html", TIGER)


def test_the_file_is_written_whole_and_the_same_every_time(tmp_path):
    write_report(tmp_path / "a.html", TIGER)
    write_report(tmp_path / "b.html", TIGER)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_what_helps_is_what_the_page_about_diagnostics_says():
    assert remedies.SHIPPED.read_text(encoding="utf-8") == remedies.remedies(), "run python tests/remedies.py"


def test_a_study_without_rows_is_refused(tmp_path):
    with pytest.raises(StorageError, match="no study"):
        study_html(tmp_path)


def test_a_study_has_curves_and_tables(tmp_path):
    folder = tmp_path / "curves"
    folder.mkdir()
    lines = ["domain,method,steps,seed,outcome,unit,error"]
    lines += [
        f"maze,ours,{10**k},{seed},ok,,{1 / 10**k + 0.001 * seed}" for k in (3, 4, 5) for seed in range(3)
    ]
    lines += [",,,,failed(timeout),em.maze.001,"]
    (folder / "rows.csv").write_text("\n".join(lines))
    page = study_html(tmp_path)
    text = said(page)
    assert "9 rows from finished units; 1 failed." in text
    assert "em.maze.001: failed(timeout)" in text
    assert "maze: error" in text
    assert "(3)" in text
    assert "<svg" in page
    assert "<script" not in page
