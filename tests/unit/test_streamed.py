"""Logs in files: the same numbers whoever passes over them, however they are cut."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from naive import random_pomdp
from unlatch import (
    POMDP,
    Trajectory,
    count_sequences,
    domains,
    learn_pomdp,
    read_log,
    simulate,
    uncertainty,
    write_log,
)
from unlatch.engines.engine import ThisProcess, WorkerDied, engine_of, result_alone
from unlatch.engines.processes import Processes
from unlatch.errors import DataError, EngineError, UsageError
from unlatch.files.logs.portions import some_rows
from unlatch.learn.likelihood.forward_backward import expected_counts
from unlatch.learn.likelihood.parameters import encoded_log, parameters_of
from unlatch.streams import source
from unlatch.streams.source import LogFiles
from unlatch.streams.streamed import StreamedLog

LOG = simulate(domains.tmaze(1), 40_000, rng=0)
EPISODES = simulate(domains.tmaze(1), 70, episodes=500, rng=1)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(source, "BLOCK", 6_000)


@pytest.fixture
def folder(tmp_path):
    """One log in several Parquet files, none as long as a block."""
    (tmp_path / "parts").mkdir()
    for i in range(8):
        write_log(tmp_path / "parts" / f"{i}.parquet", part(LOG, i * 5_000, (i + 1) * 5_000))
    return tmp_path / "parts"


def part(log, start, stop):
    return Trajectory(
        log.actions[start:stop],
        log.observations[start:stop],
        log.action_names,
        log.observation_names,
        log.rewards[start:stop],
    )


class InPieces(ThisProcess):
    """This process, reading as others would."""

    remote = True


def same_tables(one, other):
    assert (one.action_names, one.observation_names) == (other.action_names, other.observation_names)
    assert (one.steps, one.episodes, one.longest_episode) == (
        other.steps,
        other.episodes,
        other.longest_episode,
    )
    for a, b in zip(one.tables, other.tables, strict=True):
        assert np.array_equal(a.codes, b.codes)
        assert np.array_equal(a.counts, b.counts)


@pytest.mark.parametrize("continued", [False, True])
def test_blocks_that_others_read_are_those_that_this_process_reads(folder, continued):
    here = StreamedLog(LogFiles(folder, continued=continued), ThisProcess())
    there = StreamedLog(LogFiles(folder, continued=continued), InPieces())
    assert here.whole.episodes == there.whole.episodes == (1 if continued else 8)
    assert here.whole.pair_counts.tolist() == there.whole.pair_counts.tolist()
    assert len(here.whole.seams) == len(there.whole.seams) == 6
    same_tables(here.count(3, 2), there.count(3, 2))
    model = replace(domains.tmaze(1), symbol_rewards=None)
    actions = [model.action_names.index(name) for name in here.whole.action_names]
    shown = [model.observation_names.index(name) for name in here.whole.observation_names]
    parameters = replace(
        parameters_of(model),
        initial=np.full(model.n_states, 1 / model.n_states),  # a file may begin anywhere
        transitions=model.transitions[actions],
        observations=model.observations[actions][:, :, shown],
    )
    one, other = (stream.expected_counts(parameters, "departure") for stream in (here, there))
    assert one.log_likelihood == other.log_likelihood
    for a, b in zip(one.blocks, other.blocks, strict=True):
        assert np.array_equal(a, b)
    if continued:
        start = replace(parameters_of(model), initial=parameters.initial)
        expected = expected_counts(start, encoded_log(LOG), emission="departure")
        assert one.log_likelihood == pytest.approx(expected.log_likelihood, abs=1e-6)


def test_episodes_are_kept_apart_wherever_blocks_are_cut(tmp_path):
    path = tmp_path / "log.parquet"
    write_log(path, EPISODES)
    for engine in (ThisProcess(), InPieces()):
        stream = StreamedLog(LogFiles(path), engine)
        assert stream.whole.episodes == 500
        assert stream.whole.steps == len(EPISODES)
        expected = count_sequences(EPISODES, history_length=2, test_length=2)
        found = stream.count(2, 2)
        assert (found.steps, found.episodes, found.longest_episode) == (35_000, 500, 70)
        for a, b in zip(found.tables, expected.tables, strict=True):
            assert a.totals.sum() == b.totals.sum()
            assert sorted(a.totals.tolist()) == sorted(b.totals.tolist())


def test_spans_of_blocks_are_counted_as_blocks_are(tmp_path, folder, monkeypatch):
    write_log(tmp_path / "log.parquet", EPISODES)
    monkeypatch.setattr(source, "SPANS", 2)
    for files in (LogFiles(folder), LogFiles(folder, continued=True), LogFiles(tmp_path / "log.parquet")):
        here, there = (StreamedLog(files, engine) for engine in (ThisProcess(), InPieces()))
        same_tables(here.count(3, 2), there.count(3, 2))
    spans = source.spans_of(source.file_blocks(files))
    assert [len(span.blocks) for span in spans] == [3, 3]
    assert spans[1].name == f"{tmp_path / 'log.parquet'}, rows 18000 to 34999"


def test_a_log_of_one_block_is_learned_as_if_it_were_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "BLOCK", 1 << 20)
    log = simulate(domains.tiger(), 5_000, rng=0)
    write_log(tmp_path / "log.csv", log)
    one = learn_pomdp(tmp_path / "log.csv", rng=0)
    other = learn_pomdp(read_log(tmp_path / "log.csv"), rng=0)
    assert np.array_equal(one.pomdp.transitions, other.pomdp.transitions)
    assert one.log_likelihood == other.log_likelihood


def test_a_long_log_is_learned_block_by_block(tmp_path):
    log = simulate(domains.tiger(), 60_000, rng=0)
    write_log(tmp_path / "log.parquet", log)
    write_log(tmp_path / "log.csv", log)
    found = [
        learn_pomdp(tmp_path / "log.parquet", rng=0),
        learn_pomdp(tmp_path / "log.csv", rng=0),
        learn_pomdp(LogFiles(tmp_path / "log.parquet"), engine=InPieces(), rng=0),
    ]
    for result in found:
        assert (result.states, result.steps, result.episodes) == (2, 60_000, 1)
        assert np.array_equal(result.pomdp.transitions, found[0].pomdp.transitions)
        assert result.log_likelihood == found[0].log_likelihood
    log = read_log(tmp_path / "log.csv")
    assert found[0].pomdp.log_likelihood(log) == pytest.approx(found[0].log_likelihood, abs=1e-6)
    memory = learn_pomdp(log, rng=0)
    assert found[0].log_likelihood == pytest.approx(memory.log_likelihood, abs=1.0)


def test_the_spectral_model_of_a_long_log(folder):
    result = learn_pomdp(folder, refine=None, test_length=1, emission="departure", rng=0)
    assert result.steps == 40_000
    assert np.isfinite(result.log_likelihood)


# --- engines ----------------------------------------------------------------------------------------------


class _Named:
    def __init__(self, name):
        self.name = name

    def read(self):
        return self.name


def doubled(block, number):
    return block.read() * 2, number


def deadly(block, number):
    if block.read() == "poison":
        os._exit(1)
    return block.read()


def test_processes_do_what_this_process_does():
    blocks = [_Named(f"b{i}") for i in range(7)]
    given = [(i,) for i in range(7)]
    expected = list(ThisProcess().each(doubled, blocks, given))
    assert list(Processes(2).each(doubled, blocks, given)) == expected == [(f"b{i}" * 2, i) for i in range(7)]


def test_who_dies_of_what():
    """A block is the cause only if others live; where everybody dies it is only tried again, but not for ever."""
    tried = []

    def trial(deaths):
        def run(number):
            tried.append(number)
            if deaths(number):
                raise WorkerDied("gone")
            return number

        return run

    with pytest.raises(
        EngineError, match=r"b: every worker .*\(5 of 5 .* 20 of 20 beside it lived"
    ) as caught:
        result_alone(trial(lambda number: number == 1), 1, 0, "b")
    assert caught.value.poison
    assert tried == [1, 0, 0, 0, 0] * 5
    tried.clear()
    assert result_alone(trial(lambda _: len(tried) < 30), 1, 0, "b") == 1
    with pytest.raises(EngineError, match="whatever they work on") as caught:
        result_alone(trial(lambda _: True), 1, None, "b")
    assert not caught.value.poison


@pytest.mark.parametrize("alive", [0.2, 0.5, 0.8])
def test_who_is_only_unlucky_is_not_the_cause(alive):
    """Where workers are killed at random, whatever they work on."""
    rng = np.random.default_rng(0)

    def trial(number):
        if rng.random() > alive:
            raise WorkerDied("gone")
        return number

    assert [result_alone(trial, 1, 0, "b") for _ in range(3_000)] == [1] * 3_000


def test_a_cause_is_found_among_other_deaths():
    rng = np.random.default_rng(0)

    def trial(number):
        if number == 1 or rng.random() < 0.1:
            raise WorkerDied("gone")

    with pytest.raises(EngineError, match="b: every worker") as caught:
        result_alone(trial, 1, 0, "b")
    assert caught.value.poison


def test_a_block_that_kills_every_process_is_named():
    blocks = [_Named(name) for name in ("good", "poison", "fine")]
    results = Processes(2).each(deadly, blocks, [(0,)] * 3)
    assert next(results) == "good"
    with pytest.raises(EngineError, match="poison: every worker that worked on it died") as caught:
        next(results)
    assert caught.value.block == "poison"


def test_what_is_no_engine():
    assert isinstance(engine_of(None), ThisProcess)
    assert isinstance(engine_of(2), Processes)
    for wrong in ("cluster", 3.5, True):
        with pytest.raises(UsageError, match="engine"):
            engine_of(wrong)
    with pytest.raises(UsageError, match="scheduler is one of Dask"):
        engine_of(None, scheduler="tcp://127.0.0.1:8786")
    with pytest.raises(UsageError, match="in memory"):
        learn_pomdp(LOG, engine=2)


def _as_fields(log):
    episodes = np.repeat(np.arange(log.n_episodes), log.episode_ends - log.episode_starts)
    table = np.empty(
        len(log), dtype=[("action", "S8"), ("other", "f4"), ("observation", ">i2"), ("episode", "i8")]
    )
    table["action"] = np.array(log.action_names)[log.actions]
    table["observation"], table["episode"] = log.observations, episodes
    return table


def _as_columns(log):
    episodes = np.repeat(np.arange(log.n_episodes), log.episode_ends - log.episode_starts)
    return np.stack([log.actions, log.observations, np.zeros(len(log)), episodes], axis=1).astype(np.int32)


@pytest.mark.parametrize("table", [_as_fields, _as_columns, lambda log: np.asfortranarray(_as_columns(log))])
def test_arrays_are_read_in_parts_as_they_are_in_one(tmp_path, table):
    half = len(EPISODES) // 2
    np.save(tmp_path / "0.npy", table(EPISODES)[:half])
    np.save(tmp_path / "1.npy", table(EPISODES)[half:])
    here, there = (
        StreamedLog(LogFiles(tmp_path, continued=True), engine) for engine in (ThisProcess(), InPieces())
    )
    assert here.whole.episodes == there.whole.episodes == 500
    assert len(there.whole.seams) == 6
    same_tables(here.count(2, 2), there.count(2, 2))


@pytest.mark.parametrize(("first", "rows"), [(0, 1), (650, 1_500), (699, 2), (1_400, 700), (0, 3_000)])
def test_some_rows_of_a_file_wherever_its_groups_are_cut(tmp_path, first, rows):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    table = pa.table(
        {"did": [str(i) for i in range(3_000)], "observation": range(3_000), "else": [0.5] * 3_000}
    )
    parquet.write_table(table, tmp_path / "log.parquet", row_group_size=700)
    found = some_rows(str(tmp_path / "log.parquet"), first, rows, {"action": "did"})
    assert found.column_names == ["did", "observation"]
    assert found["did"].to_pylist() == [str(i) for i in range(first, first + rows)]
    assert found["observation"].to_pylist() == list(range(first, first + rows))


def test_arrays_that_cannot_be_read_in_parts_are_told(tmp_path):
    np.save(tmp_path / "log.npy", np.zeros((7, 2, 2)))
    with pytest.raises(DataError, match=r"log\.npy, rows 0 to 6.*expected named fields"):
        StreamedLog(LogFiles(tmp_path / "log.npy"), InPieces()).count(2, 1)
    (tmp_path / "log.npy").write_bytes((tmp_path / "log.npy").read_bytes()[:-1])
    with pytest.raises(DataError, match=r"log\.npy.*bytes"):
        StreamedLog(LogFiles(tmp_path / "log.npy"), InPieces()).count(2, 1)


def test_files_that_cannot_be_read_in_parts(tmp_path):
    write_log(tmp_path / "log.csv", LOG)
    with pytest.raises(UsageError, match="only Parquet"):
        learn_pomdp(tmp_path / "log.csv", engine=InPieces())
    with pytest.raises(UsageError, match="must be in files"):
        LogFiles([LOG])
    write_log(tmp_path / "log.parquet", LOG)
    data = bytearray((tmp_path / "log.parquet").read_bytes())
    data[len(data) // 3] ^= 255
    (tmp_path / "log.parquet").write_bytes(data)
    with pytest.raises(DataError, match=r"log\.parquet"):
        StreamedLog(LogFiles(tmp_path / "log.parquet"), InPieces()).count(2, 1)


@pytest.mark.slow
def test_intervals_are_those_of_the_whole_log(folder):
    """Of all blocks, not of the first one: as narrow as those of the log in memory."""
    files = LogFiles(folder, continued=True)
    result = learn_pomdp(files, emission="departure", rng=0)
    assert result.steps == len(LOG)
    whole = result.search.hypothesis.whole
    assert len(result.search.hypothesis.log) < len(LOG)
    found = result.intervals().standard_errors
    other = uncertainty(result.pomdp, LOG).intervals().standard_errors
    for kind in ("transitions", "observations"):
        one, two = getattr(found, kind), getattr(other, kind)
        np.testing.assert_allclose(one, two, rtol=0.02, atol=1e-6)
    assert result.uncertainty.fit.steps == len(LOG)
    remote = StreamedLog(files, InPieces())
    asked = whole.stream.expected_counts(parameters_of(result.pomdp), "departure")
    again = remote.expected_counts(parameters_of(result.pomdp), "departure")
    assert np.array_equal(asked.transitions, again.transitions)


def test_a_likelihood_alone_is_that_of_the_counts(folder):
    stream = StreamedLog(LogFiles(folder, continued=True), ThisProcess())
    actions, observations = len(stream.whole.action_names), len(stream.whole.observation_names)
    rng = np.random.default_rng(0)
    model = parameters_of(random_pomdp(rng, states=3, actions=actions, observations=observations))
    found = stream.likelihood("departure")
    assert found.log_likelihood(model) == pytest.approx(found.counts(model).log_likelihood, rel=1e-12)


def test_what_is_not_forgotten_at_cuts_is_told(tmp_path):
    """Two systems of which one was chosen at the beginning: what was seen first tells it for good."""
    still = np.array([np.eye(2)])
    coins = POMDP(transitions=still, observations=[[[0.51, 0.49], [0.5, 0.5]]], initial=[0.5, 0.5])
    write_log(tmp_path / "log.parquet", simulate(coins, 13_000, rng=0))
    stream = StreamedLog(LogFiles(tmp_path / "log.parquet"), ThisProcess())
    assert stream.unforgotten(parameters_of(coins), "departure") > 1e-3
    moving = replace(coins, transitions=np.full((1, 2, 2), 0.5))
    assert stream.unforgotten(parameters_of(moving), "departure") < 1e-12
    result = learn_pomdp(tmp_path / "log.parquet", emission="departure", rng=0)
    assert "unforgotten" not in result.diagnostics  # a single state remembers nothing
