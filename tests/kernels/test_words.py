"""Passes from word to word against enumeration of all hidden paths, and against passes from step to step."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from test_em_kernels import assert_same, kernel_counts, naive_counts, random_model, sampled_episodes

from naive import random_episodic_pomdp, random_pomdp
from unlatch import simulate
from unlatch.errors import BeliefCollapseError
from unlatch.kernels import words as kernels
from unlatch.learn.likelihood import lanes, words
from unlatch.learn.likelihood.forward_backward import expected_counts
from unlatch.learn.likelihood.parameters import encoded_log, parameters_of

DEPARTURE_AND_ARRIVAL = pytest.mark.parametrize("departure", [True, False], ids=["departure", "arrival"])


def word_counts(model: Any, episodes: Any, departure: bool, longest: int, *, plain: bool = False) -> Any:
    """The same as `kernel_counts`, by words of so many steps; ``plain`` runs the kernels as Python."""
    call = (lambda f: f.py_func) if plain else (lambda f: f)
    (actions, n, _), shown = model.transitions.shape, model.observations.shape[2]
    updates = np.zeros((actions * shown, n, n + -n % 4))
    for a in range(actions):
        for o in range(shown):
            there, moves = model.observations[a, :, o], model.transitions[a]
            updates[a * shown + o, :, :n] = there[:, None] * moves if departure else moves * there[None, :]
    symbols = np.array([a * shown + o for episode in episodes for a, o in episode], dtype=np.uint32)
    begins = np.array([t == 0 for episode in episodes for t in range(len(episode))])
    room = 500
    children = np.full((room, len(updates)), -1, dtype=np.int32)
    parents, lasts = np.zeros((2, room), dtype=np.int32)
    numbers, starts = np.empty(len(symbols), dtype=np.uint32), np.empty(len(symbols), dtype=bool)
    written, used = call(kernels.read_words)(
        symbols, begins, longest, children, parents, lasts, len(updates), numbers, starts
    )
    tree, log = (parents[:used], lasts[:used]), (numbers[:written], starts[:written])
    width = updates.shape[2]
    rows = kernels.Rows(
        np.zeros(used + 1, dtype=np.int64),
        np.zeros(used * n, dtype=np.int64),
        np.zeros((used * n + 1, width)),
        np.zeros(used * n, dtype=np.int64),
    )
    kept = call(kernels.multiply_out)(*tree, updates, rows)
    start = tuple(np.append(model.initial, np.zeros(width - n)))
    message, tape = np.array([start]), np.empty(written * n)
    gained, done, end = call(kernels.forward_words)(*log, 0, written, rows, start, message, tape, 0)
    assert done == written
    ones, alone, after = tuple(np.ones(width)), np.ones((1, width)), np.ones((1, width))
    call(kernels.backward_words)(*log, 0, written, rows, ones, alone, True)
    sums = words.WordSums(np.zeros((kept, width)), np.zeros((len(updates), n)), np.zeros(n))
    lost = call(kernels.count_words)(*log, departure, 0, written, rows, ones, after, tape, end, True, sums)
    assert lost == 0
    assert np.array_equal(alone, after)
    outer = np.zeros_like(updates)
    call(kernels.tell_apart)(*tree, updates, rows, sums.outer, outer)
    joint = (outer * updates)[:, :, :n]
    emitted = joint.sum(axis=2) + sums.last if departure else joint.sum(axis=1)
    return SimpleNamespace(
        first=sums.first,
        moves=joint.reshape(actions, shown, n, n).sum(axis=1),
        shown=emitted.reshape(actions, shown, n).transpose(0, 2, 1),
        log_likelihood=gained + np.log(message.sum()),
        words=written,
    )


@DEPARTURE_AND_ARRIVAL
@pytest.mark.parametrize("longest", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_words_agree_with_enumeration_of_paths(seed: int, longest: int, departure: bool) -> None:
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    episodes = sampled_episodes(model, [6, 1, 4, 2, 5], departure, rng)
    found = word_counts(model, episodes, departure, longest)
    assert_same(found, naive_counts(model, episodes, departure))


@DEPARTURE_AND_ARRIVAL
@pytest.mark.parametrize("states", [3, 7])
def test_compiled_and_plain_kernels_agree(states: int, departure: bool) -> None:
    rng = np.random.default_rng(1)
    model = random_model(rng, states)
    episodes = sampled_episodes(model, [40, 30], departure, rng)
    found = word_counts(model, episodes, departure, 3)
    assert found.words < 70 / 2
    assert_same(found, word_counts(model, episodes, departure, 3, plain=True))
    assert_same(found, kernel_counts("general", model, episodes, departure))


def test_every_word_is_read_back_as_its_steps() -> None:
    rng = np.random.default_rng(2)
    symbols, begins = rng.integers(5, size=5_000).astype(np.uint32), rng.random(5_000) < 0.02
    begins[0] = True
    for few in (50, 400, words.FEW):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(words, "FEW", few)
            patch.setattr(words, "STEPS_PER_WORD", 1)
            found = words.words_of(symbols, begins, 5)
        spelled, starts = [], []
        for number, begin in zip(found.numbers.tolist(), found.begins.tolist(), strict=True):
            word = []
            while number >= 5:
                word.insert(0, int(found.lasts[number]))
                number = int(found.parents[number])
            starts += [begin, *[False] * len(word)]
            spelled += [number, *word]
        assert spelled == symbols.tolist()
        assert starts == begins.tolist()
        assert len(found.parents) <= 2 * few
        assert np.array_equal(found.counts, np.bincount(found.numbers, minlength=len(found.parents)))


@pytest.fixture
def for_all_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "LEAST_STEPS", 1)


@pytest.mark.usefixtures("for_all_logs")
@pytest.mark.parametrize("kept", [0, 1 << 22], ids=["anew", "kept"])
@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_the_counts_are_those_of_steps(emission: Any, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "KEPT_NUMBERS", kept)
    monkeypatch.setattr(words, "STRETCH", 100)
    model = random_episodic_pomdp(np.random.default_rng(0), states=3, first=2, emission=emission)
    log = encoded_log(simulate(model, 3_000, rng=0), model)
    parameters, rng = parameters_of(model), np.random.default_rng(0)
    around = {"before": rng.dirichlet(np.ones(model.n_states)), "after": rng.random(model.n_states)}
    going_on = replace(log, begins=log.begins & (np.arange(len(log)) > 0))
    for events, given in ((log, {}), (going_on, around)):
        one, two = (
            expected_counts(parameters, events, emission=emission, threads=t, **given) for t in (1, 2)
        )
        steps = expected_counts(parameters, events, emission=emission, block_length=64, **given)
        for name in ("initial", "transitions", "observations", "log_likelihood"):
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
            np.testing.assert_allclose(getattr(one, name), getattr(steps, name), rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("for_all_logs")
def test_what_words_lose_steps_find() -> None:
    """Words of steps that are improbable beyond all digits, and a step that is impossible, which is named."""
    model = random_pomdp(np.random.default_rng(0), states=3)
    log = encoded_log(simulate(model, 500, rng=0), model)
    parameters = parameters_of(model)
    faint = parameters.observations.copy()
    faint[:, :, 0] = 1e-200
    kept = parameters.with_blocks((parameters.initial, parameters.transitions, faint))
    found = expected_counts(kept, log)
    assert np.isfinite(found.log_likelihood)
    assert found.transitions.sum() == pytest.approx(499)
    nothing = faint.copy()
    nothing[:, :, 0] = 0
    with pytest.raises(BeliefCollapseError, match="step"):
        expected_counts(parameters.with_blocks((parameters.initial, parameters.transitions, nothing)), log)


def test_words_are_for_messages_that_fit_the_registers() -> None:
    """Of nine states, which are padded to twelve, a step takes up to six times as long as of eight."""
    assert words.may_be_worth_it(1 << 20, 8, 6)
    assert not words.may_be_worth_it(1 << 20, 9, 6)
