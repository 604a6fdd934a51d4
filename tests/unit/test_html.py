"""Values in a notebook: everything escaped, large ones cut."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import naive
from unlatch import (
    POMDP,
    POUCT,
    Diagnostics,
    Partition,
    PartitionModel,
    Reward,
    Trajectory,
    domains,
    learn_em,
    learn_pomdp,
    learn_tensor,
    refine,
    run_episodes,
    simulate,
)
from unlatch.core import html

HOSTILE = "<script>alert(1)</script>"
QUOTES = "\"><img src=x onerror='alert(1)'>&amp;"
ALLOWED = {"div", "strong", "table", "thead", "tbody", "tr", "th", "td", "ul", "li"}


class Reader(HTMLParser):
    """Which elements and attributes there are, which text, and whether every element is closed."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.text, self.open = set(), [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(piece):
    reader = Reader()
    reader.feed(piece)
    reader.close()
    assert reader.open == []
    assert reader.tags <= ALLOWED
    assert reader.attributes == []
    return reader.text


def hostile_model():
    return POMDP(
        np.full((1, 2, 2), 0.5),
        np.full((1, 2, 2), 0.5),
        [1.0, 0.0],
        action_names=(HOSTILE,),
        observation_names=(HOSTILE, QUOTES),
        state_names=(QUOTES, HOSTILE),
        untried_actions=(HOSTILE,),
        first_observations=np.full((2, 2), 0.5),
        first_observation_names=(QUOTES, HOSTILE),
    )


@pytest.mark.parametrize(
    "value",
    [
        hostile_model(),
        hostile_model().to_psr(),
        PartitionModel(hostile_model().to_psr(), Partition.from_cells([[0, 1]])),
        Diagnostics().noting(HOSTILE, QUOTES, **{QUOTES: HOSTILE}),
        Reward.on_states({HOSTILE: 1.0}),
        Reward.on_observations({(HOSTILE, QUOTES): 1.0}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_names_are_text_and_nothing_else(value):
    text = read(value._repr_html_())
    assert any(HOSTILE in part or QUOTES in part for part in text) or isinstance(value, PartitionModel)


def test_a_model_shows_its_rows():
    text = read(domains.tiger()._repr_html_())
    assert {"listen", "hear-left|-1", "tiger-left", "0.85", "shows", "leads to", "starts in"} <= set(text)
    assert "0" not in text  # zeros are left empty


def test_a_model_with_an_end_shows_it():
    model = POMDP(
        [[[0.75, 0.25], [0, 1]]],
        [[[1.0, 0.0], [0.0, 1.0]]],
        [1, 0],
        state_names=("begin", "over"),
        observation_names=("dark", "void"),
        terminal=1,
        first_observations=[[0.625, 0.375], [1, 0]],
        first_observation_names=("bell", "silence"),
        reward_values=[-1, 7],
        reward_probabilities=[[[0.875, 0.125], [0, 1]]],
    )
    text = read(model._repr_html_())
    assert "the end, where nothing more happens: over" in text
    assert {"shows first", "bell", "0.375", "pays", "7", "0.875", "0.25"} <= set(text)
    assert text.count("over") == 2  # where an episode may start, and where it may lead; no row of its own
    arrival = read(replace(model, emission="arrival")._repr_html_())
    assert arrival.count("over") == 3


@pytest.mark.parametrize("states", [13, 14, 60])
def test_large_models_are_cut(rng, states):
    model = naive.random_pomdp(rng, states=states, actions=9, observations=30)
    piece = model._repr_html_()
    text = read(piece)
    assert len(piece) < 60_000
    assert "..." in text
    assert "and 3 more actions" in text
    for part in piece.split("<table>")[1:]:
        rows = [row.count("<th>") + row.count("<td>") for row in part.split("<tr>")[1:]]
        assert len(set(rows[:20])) == 1  # as many cells in the header as below it
        assert max(rows) <= 14


def test_every_value_has_a_piece():
    tiger = domains.tiger()
    played = run_episodes(tiger, POUCT(tiger, simulations=5, rng=0), episodes=2, steps=2, rng=0)
    for value in (Partition.from_cells([[0, 2], [1]]), Diagnostics(), Reward.learned(tiger), played):
        assert read(value._repr_html_())
    assert "0, 2" in read(Partition.from_cells([[0, 2], [1]])._repr_html_())


def test_parts_can_be_put_together():
    piece = html.page(
        "a & b", html.heading("<c>"), html.table([(1, "<d>")], ["x", "y"]), html.listing(["<e>"])
    )
    assert read(piece) == ["a & b", "<c>", "x", "y", "1", "<d>", "<e>"]
    assert html.cut_list([str(i) for i in range(20)], 3) == "0, 1, 2, ... (20 in all)"
    assert read(html.page("x" * 10_000))[0].endswith("...")


def test_results_show_the_model_the_evidence_and_what_was_noticed():
    log = simulate(domains.tiger(), 2_000, rng=0)
    named = Trajectory(
        log.actions, log.observations, (HOSTILE, QUOTES, "wait", "never"), log.observation_names
    )
    result = learn_pomdp(named, rng=0)
    values = (
        result,
        result.spectral,
        result.evidence,
        named,
        refine(result.pomdp, named, passes=5, zeros=False),
        learn_em(named, 2, iterations=5, rng=0),
        learn_tensor(log, rng=0),
    )
    for value in values:
        read(value._repr_html_())
    text = " ".join(read(result._repr_html_()))
    assert "2 hidden states" in text
    assert "nats behind" in text
    assert "never_tried" in text
    assert HOSTILE in text
