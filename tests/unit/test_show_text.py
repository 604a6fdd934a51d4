"""Models as text: tables where they fit, sparse rows where they do not, CSV on request."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import numpy as np
import pytest

import unlatch
from unlatch.errors import UsageError
from unlatch.show.screen import Screen
from unlatch.show.summary import Summary, summarize_pomdp
from unlatch.show.text import print_csv, print_model, print_summary

BIG = unlatch.domains.tmaze(rooms=9)


ENDING = unlatch.POMDP(
    transitions=[[[0.5, 0.25, 0.25], [0.125, 0.75, 0.125], [0, 0, 1]]],
    observations=[[[1.0, 0.0, 0.0], [0.375, 0.625, 0.0], [0, 0, 1]]],
    initial=[1, 0, 0],
    state_names=("hall", "room", "exit"),
    action_names=("go",),
    observation_names=("dark", "light", "void"),
    terminal="exit",
    first_observations=[[0.875, 0.125], [0.25, 0.75], [1, 0]],
    first_observation_names=("bell", "silence"),
    reward_values=[-1, 10],
    reward_probabilities=[[[0.8125, 0.1875], [1, 0], [0, 1]]],
)
"""A model that ends, in whose end only placeholders are shown."""


def shown(summary: Summary, width: int = 160, **options: object) -> str:
    stream = io.StringIO()
    print_summary(Screen(stream, width, wraps=True), summary, **options)  # type: ignore[arg-type]
    return stream.getvalue()


def test_twenty_states_are_readable_at_any_width() -> None:
    partition = unlatch.Partition(np.zeros(BIG.n_states, dtype=np.int64))
    for width in (40, 80, 120, 160):
        text = shown(Summary(BIG, partition, ("left",)), width)
        assert "…" not in text
        assert max(len(line) for line in text.splitlines()) <= width
        assert "entries below 0.005 are left out" in text


def test_sparse_rows_have_the_likely_entries_largest_first() -> None:
    text = shown(summarize_pomdp(BIG), form="sparse")
    assert "  top-map → top-rm_9 .900, top-map .100 · shows U|0 .950, D|0 .050" in text


def test_auto_takes_tables_where_they_fit() -> None:
    tiger = summarize_pomdp(unlatch.domains.tiger())
    assert "shows hear-left|-1" in shown(tiger, 130)
    assert "→" not in shown(tiger, 130)
    assert "→" in shown(tiger, 40)
    assert "→" not in shown(tiger, 40, form="table")


def test_one_action_at_a_time() -> None:
    text = shown(summarize_pomdp(unlatch.domains.tiger()), actions=("listen",))
    assert "action listen" in text
    assert "action open-left" not in text


def test_an_unknown_action_is_told_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no action 'lisen'; the model has 'listen', 'open-left'"):
        shown(summarize_pomdp(unlatch.domains.tiger()), actions=("lisen",))


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(UsageError, match="auto, table, sparse"):
        shown(summarize_pomdp(unlatch.domains.tiger()), form="html")


def test_actions_never_tried_are_marked() -> None:
    model = replace(unlatch.domains.tiger(), untried_actions=("open-left",))
    for form in ("table", "sparse"):
        text = shown(summarize_pomdp(model), form=form)
        assert "action open-left (never tried in the log: these rows mean nothing)" in text
        assert text.count("never tried") == 1


def test_undetermined_entries_are_marked_in_both_forms() -> None:
    model = unlatch.domains.unidentifiable_pair()[0]
    summary = Summary(model, unlatch.Partition.from_cells([[0], [1, 2]]), ("sense",))
    assert "~0.5" in shown(summary, form="table")
    assert "~.5" in shown(summary, form="sparse")


def test_the_end_is_marked_and_its_placeholders_are_left_out() -> None:
    table = shown(summarize_pomdp(ENDING), form="table")
    assert "exit (the end)" in table
    assert "void" not in table
    row = next(line for line in table.splitlines() if "exit (the end)" in line)
    assert not any(digit in row for digit in "0123456789.")
    sparse = shown(summarize_pomdp(ENDING), form="sparse")
    assert "  exit: the end\n" in sparse
    assert "void" not in sparse
    for text in (table, sparse):
        assert "3 hidden states, of which exit is the end" in text


def test_what_an_end_shows_on_arrival_is_shown() -> None:
    model = replace(ENDING, emission="arrival")
    assert "exit: the end · shows void 1.000" in shown(summarize_pomdp(model), form="sparse")
    table = shown(summarize_pomdp(model), form="table")
    row = next(line for line in table.splitlines() if "exit (the end)" in line)
    assert row.count("1.000") == 1


def test_first_observations_and_rewards_are_tables() -> None:
    table = shown(summarize_pomdp(ENDING), form="table")
    assert "shown before the first action" in table
    first = table[table.index("shown before") : table.index("action go")]
    assert "bell" in first
    assert "0.875" in first
    assert "exit" not in first
    assert "pays -1" in table
    assert "0.188" in table
    sparse = shown(summarize_pomdp(ENDING), form="sparse")
    assert "  room · shows silence .750, bell .250" in sparse
    assert "  hall → hall .500, room .250, exit .250 · shows dark 1.000 · pays -1 .812, 10 .188" in sparse
    assert "→" in shown(summarize_pomdp(ENDING), 40)


def test_csv_has_what_a_model_with_an_end_means() -> None:
    stream = io.StringIO()
    print_csv(Screen(stream), ENDING)
    rows = list(csv.DictReader(io.StringIO(stream.getvalue())))
    found = {(row["kind"], row["action"], row["state"], row["to"]): float(row["value"]) for row in rows}
    assert found["terminal", "", "exit", ""] == 1.0
    assert found["first observation", "", "hall", "silence"] == 0.125
    assert found["reward probability", "go", "hall", "10.0"] == 0.1875
    assert not any(row["state"] == "exit" for row in rows if row["kind"] != "terminal")
    assert len(rows) == 3 + 1 + 2 * 2 + 2 * 3 + 2 * 3 + 2 * 2
    arrival = io.StringIO()
    print_csv(Screen(arrival), replace(ENDING, emission="arrival"))
    assert '"observation","go","exit","void",1.0' in arrival.getvalue()


def test_csv_has_every_number_to_the_last_digit() -> None:
    model = unlatch.domains.tiger()
    stream = io.StringIO()
    print_csv(Screen(stream), model)
    rows = list(csv.DictReader(io.StringIO(stream.getvalue())))
    found = {(row["kind"], row["action"], row["state"], row["to"]): float(row["value"]) for row in rows}
    for a, action in enumerate(model.action_names):
        for s, state in enumerate(model.state_names):
            for t, target in enumerate(model.state_names):
                assert found["transition", action, state, target] == model.transitions[a, s, t]
            for o, symbol in enumerate(model.observation_names):
                assert found["observation", action, state, symbol] == model.observations[a, s, o]
    assert len(rows) == 2 + 3 * 2 * (2 + 6) + 6


def test_a_psr_is_shown_by_what_it_predicts() -> None:
    stream = io.StringIO()
    print_model(Screen(stream), Summary(unlatch.domains.tiger().to_psr()))
    assert "PSR of rank 2" in stream.getvalue()
    assert "prediction at the start" in stream.getvalue()
    narrow = io.StringIO()
    print_model(Screen(narrow, 40, wraps=True), Summary(unlatch.domains.tiger().to_psr()))
    assert "listen · shows hear-left|-1 .500" in narrow.getvalue()
