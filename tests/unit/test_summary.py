"""Every sentence about a model follows from what was computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import unlatch
from unlatch.core.evidence import Evidence
from unlatch.show.summary import (
    Summary,
    count_sentences,
    ending_sentences,
    partition_sentences,
    summarize_pomdp,
    summarize_saved,
)

TIGER = unlatch.domains.tiger()


def evidence(**changes: Any) -> Evidence:
    values: dict[str, Any] = {
        "states": 2, "scores": {2: 0.0, 3: -60.0}, "runner_up": 3, "gap": 60.0, "steps": 1000, "steps_to_settle": 0
    }  # fmt: skip
    return Evidence(**{**values, **changes})


def said(summary: Summary) -> str:
    return "\n".join(partition_sentences(summary))


def confounded() -> unlatch.POMDP:
    return unlatch.domains.unidentifiable_pair()[0]


def test_a_trivial_partition_does_not_claim_that_the_log_determines_the_model() -> None:
    summary = Summary(TIGER, unlatch.Partition.singletons(2), ("listen",), evidence())
    assert "determines the whole model" not in said(summary)
    assert (
        "no two states of this model share their observation rows under all full-rank actions (listen)"
        in said(summary)
    )
    assert "settled" not in said(summary)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"fixed": True}, "was given, not found"),
        ({"complete": False}, "is not settled by this log"),
        ({"gap": 1.0, "steps_to_settle": 500}, "is not settled by this log"),
        ({"runner_up": None, "gap": np.inf, "steps_to_settle": None}, "is not settled by this log"),
    ],
)
def test_a_partition_of_an_unsettled_count_says_so(changes: dict[str, Any], words: str) -> None:
    summary = Summary(TIGER, unlatch.Partition.singletons(2), ("listen",), evidence(**changes))
    assert not summary.settled
    assert words in said(summary)


def test_without_a_full_rank_action_nothing_is_called_undetermined() -> None:
    everything_in_one_cell = unlatch.Partition(np.zeros(3, dtype=np.int64))
    summary = Summary(confounded(), everything_in_one_cell, full_rank_actions=())
    assert "no action of full rank: the observability partition says nothing" in said(summary)
    assert "not determined under" not in said(summary)
    assert "one choice among many" not in said(summary)
    assert summary.undetermined is None
    assert str(unlatch.identify(confounded())) in said(summary)


def test_one_choice_among_many_is_said_of_a_cell_with_a_change_of_basis() -> None:
    summary = Summary(confounded(), unlatch.Partition.from_cells([[0], [1, 2]]), ("sense",))
    assert summary.undetermined is not None
    assert "states 1, 2 show the same under every full-rank action (sense)" in said(summary)
    assert "not determined under float: transitions" in said(summary)
    assert "one choice among many" in said(summary)


def test_a_cell_whose_entries_nothing_moves_is_not_called_undetermined() -> None:
    same = unlatch.POMDP(
        transitions=np.full((1, 2, 2), 0.5), observations=np.full((1, 2, 2), 0.5), initial=np.full(2, 0.5)
    )
    summary = Summary(same, unlatch.Partition.from_cells([[0, 1]]), ("0",))
    entries = summary.undetermined
    assert entries is not None
    assert entries.any == ("one choice among many" in said(summary))


def test_one_state_needs_no_telling_apart() -> None:
    model = unlatch.POMDP(np.ones((1, 1, 1)), np.ones((1, 1, 1)), np.ones(1))
    assert partition_sentences(Summary(model, unlatch.Partition.singletons(1), ("0",))) == (
        "full-rank actions: 0",
        "observability partition: {0}",
        "identified: no other model of 1 state shows the same, but for the names of its states",
        "rows: 2 identified",
    )


@pytest.mark.parametrize(
    "provenance",
    [
        {"full_rank_actions": 5},
        {"full_rank_actions": None},
        {"full_rank_actions": [5, None]},
        {"full_rank_actions": {"a": 1}},
        {"full_rank_actions": "listen"},
        {"full_rank_actions": ["no such action"]},
        {"log": 3, "spectral": 4},
        {"log": {"steps": "many", "episodes": -1}},
        {"spectral": {"rank": 2, "singular_values": "x", "history_length": 2, "test_length": 1}},
        {"spectral": {"rank": 2, "singular_values": [None], "history_length": 2, "test_length": 1}},
        {"spectral": {"rank": True, "singular_values": [1.0], "history_length": 2, "test_length": 1}},
    ],
)
def test_provenance_of_any_shape_is_taken_for_not_known(provenance: dict[str, Any]) -> None:
    saved = unlatch.SavedModel(pomdp=TIGER, partition=unlatch.Partition.singletons(2), provenance=provenance)
    summary = summarize_saved(saved)
    assert summary.full_rank_actions is None
    assert summary.steps is None
    assert summary.hankel is None
    assert partition_sentences(summary)
    assert count_sentences(summary) == ("2 hidden states",)


def test_what_a_file_records_is_said() -> None:
    saved = unlatch.SavedModel(
        pomdp=TIGER,
        partition=unlatch.Partition.singletons(2),
        evidence=evidence(),
        log_likelihood=-1234.5,
        provenance={
            "log": {"steps": 1000, "episodes": 1},
            "full_rank_actions": ["listen"],
            "spectral": {
                "rank": 2,
                "singular_values": [1.0, 0.4, 0.01, 0.005, 0.001],
                "history_length": 3,
                "test_length": 2,
            },
        },
    )
    assert count_sentences(summarize_saved(saved)) == (
        "1000 steps in 1 episode; 2 hidden states",
        "evidence: 2 states; runner-up 3, 60.0 nats behind on 1000 steps",
        "log-likelihood of the model on its log: -1234.5 nats, -1.234500 per step",
        "Hankel matrix: rank 2, leading singular values 1, 0.4, 0.01, 0.005 (histories to 2, tests to 2)",
    )


def test_summaries_know_the_end() -> None:
    model = unlatch.POMDP(
        [[[0.0, 0.5, 0.5], [0, 1, 0], [0, 0, 1]]],
        [[[1.0], [1.0], [1.0]]],
        [1, 0, 0],
        terminal=(1, 2),
        state_names=("begin", "won", "lost"),
    )
    summary = summarize_pomdp(model)
    assert summary.terminal == ("won", "lost")
    assert count_sentences(summary) == ("3 hidden states, of which won, lost are the end",)
    assert summarize_saved(unlatch.SavedModel(pomdp=model)).terminal == ("won", "lost")
    assert summarize_pomdp(TIGER).terminal == Summary(TIGER.to_psr()).terminal == ()


def test_how_many_episodes_ended() -> None:
    log = unlatch.Trajectory([0, 0, 0, 0], [0, 0, 0, 0], terminated=[False, True, True, False])
    assert ending_sentences(log) == ("2 of 3 episodes ended, 1 were cut",)
    assert ending_sentences(unlatch.Trajectory([0], [0])) == ()
