"""The forward-backward kernels against each other and against enumeration of all hidden paths."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from unlatch.kernels import em, em_small, em_sparse

KINDS = pytest.mark.parametrize("kind", ["general", "entries", "small", "listed"])
DEPARTURE_AND_ARRIVAL = pytest.mark.parametrize("departure", [True, False], ids=["departure", "arrival"])


def naive_counts(model: Any, episodes: list[list[tuple[int, int]]], departure: bool) -> Any:
    """Expected counts by weighing every sequence of hidden states, one episode at a time."""
    found = SimpleNamespace(
        first=np.zeros_like(model.initial),
        moves=np.zeros_like(model.transitions),
        shown=np.zeros_like(model.observations),
        log_likelihood=0.0,
    )
    for steps in episodes:
        weights = {}
        for path in product(range(len(model.initial)), repeat=len(steps) + 1):
            weights[path] = path_weight(model, steps, path, departure)
        total = sum(weights.values())
        found.log_likelihood += np.log(total)
        for path, weight in weights.items():
            add_path(found, steps, path, weight / total, departure)
    return found


def path_weight(model: Any, steps: list[tuple[int, int]], path: tuple[int, ...], departure: bool) -> float:
    weight = model.initial[path[0]]
    for t, (a, o) in enumerate(steps):
        weight *= model.transitions[a, path[t], path[t + 1]]
        weight *= model.observations[a, path[t] if departure else path[t + 1], o]
    return weight


def add_path(
    found: Any, steps: list[tuple[int, int]], path: tuple[int, ...], share: float, departure: bool
) -> None:
    found.first[path[0]] += share
    for t, (a, o) in enumerate(steps):
        found.shown[a, path[t] if departure else path[t + 1], o] += share
        if not departure or t + 1 < len(steps):
            found.moves[a, path[t], path[t + 1]] += share


def kernel_counts(
    kind: str,
    model: Any,
    episodes: list[list[tuple[int, int]]],
    departure: bool,
    *,
    length: int = 3,
    blocks_per_call: int = 1000,
    plain: bool = False,
) -> Any:
    """The same by the kernels; ``plain`` runs the outermost ones as Python."""
    call = (lambda f: getattr(f, "py_func", f)) if plain else (lambda f: f)
    (actions, states, _), n_symbols = model.transitions.shape, model.observations.shape[2]
    updates = np.zeros((actions * n_symbols, states, states))
    for a, o in product(range(actions), range(n_symbols)):
        shown, moves = model.observations[a, :, o], model.transitions[a]
        updates[a * n_symbols + o] = shown[:, None] * moves if departure else moves * shown[None, :]
    steps = em.Steps(
        np.array([a * n_symbols + o for episode in episodes for a, o in episode], dtype=np.uint32),
        np.array([t == 0 for episode in episodes for t in range(len(episode))]),
    )
    blocks = -(-len(steps.symbols) // length)
    ranges = [(b, min(b + blocks_per_call, blocks)) for b in range(0, blocks, blocks_per_call)]
    run = listed_kernels if kind == "listed" else full_kernels
    found = run(kind, call, updates, model.initial, steps, departure, length, ranges)
    if hasattr(found, "impossible"):
        return found
    joint = updates * found.outer
    emitted = joint.sum(axis=2) + found.last if departure else joint.sum(axis=1)
    found.moves = joint.reshape(actions, n_symbols, states, states).sum(axis=1)
    found.shown = emitted.reshape(actions, n_symbols, states).transpose(0, 2, 1)
    return found


def full_kernels(
    kind: str,
    call: Any,
    updates: np.ndarray,
    initial: np.ndarray,
    steps: em.Steps,
    departure: bool,
    length: int,
    ranges: list[tuple[int, int]],
) -> Any:
    states, total = len(initial), len(steps.symbols)
    n = -(-states // 4) * 4
    module, form = (em_small, tuple) if kind == "small" else (em, np.asarray)
    padded, first = np.zeros((len(updates), n, n)), np.zeros(n)
    padded[:, :states, :states], first[:states] = updates, initial
    start, ones = form(first), form(np.ones(n))
    ahead, back = (operators(one, kind) for one in (padded, padded.transpose(0, 2, 1)))
    checkpoints, workspace = np.empty((ranges[-1][1], n)), em.empty_workspace(length, len(updates), n)
    places = np.nonzero(padded.transpose(0, 2, 1))
    sums = em.Sums(
        np.zeros_like(padded), np.zeros(len(places[0])), np.zeros((len(updates), n)), np.zeros((1, n))
    )
    message, log_likelihood = np.array([first, first]), 0.0
    for begin, end in ranges:
        gain, done = call(module.forward_blocks)(
            ahead, start, steps, length, begin, end, message, checkpoints
        )
        if done < min(end * length, total):
            return SimpleNamespace(impossible=done)
        log_likelihood += gain
    log_likelihood += np.log(message[0].sum())
    alone = np.ones((2, n))
    for begin, end in reversed(ranges):
        call(module.backward_blocks)(back, ones, steps, length, begin, end, alone)
    message, lost = np.ones((2, n)), 0
    for begin, end in reversed(ranges):
        lost += call(module.count_blocks)(
            ahead,
            back,
            start,
            ones,
            steps,
            departure,
            length,
            begin,
            end,
            checkpoints,
            message,
            workspace,
            sums,
        )
    assert np.array_equal(alone[0], message[0])
    if kind == "entries":
        sums.outer.transpose(0, 2, 1)[places] = sums.entries
    return SimpleNamespace(
        outer=sums.outer[:, :states, :states],
        last=sums.last[:, :states],
        first=sums.first[0, :states],
        log_likelihood=log_likelihood,
        lost=lost,
    )


def operators(updates: np.ndarray, kind: str) -> Any:
    if kind == "small":
        return np.ascontiguousarray(updates)
    k, i, j = np.nonzero(updates)
    starts = np.searchsorted(k, np.arange(len(updates) + 1))
    return em.Operators(
        np.ascontiguousarray(updates) if kind == "general" else np.zeros((0, 0, 0)),
        *(array.astype(np.uint32) for array in (starts, i, j)),
        updates[k, i, j],
    )


def listed_kernels(
    kind: str,
    call: Any,
    updates: np.ndarray,
    initial: np.ndarray,
    steps: em.Steps,
    departure: bool,
    length: int,
    ranges: list[tuple[int, int]],
) -> Any:
    n, blocks = len(initial), ranges[-1][1]
    places = np.nonzero(updates)
    entries, origins = entries_of(updates, places)
    workspace, checkpoints = messages(length, length, initial), messages(blocks, blocks, initial)
    place, log_likelihood = np.full(n, -1), 0.0
    for begin, end in ranges:
        gain, done, impossible = call(em_sparse.forward_blocks)(
            entries, initial, steps, length, begin, end, place, workspace, checkpoints
        )
        if impossible >= 0:
            return SimpleNamespace(impossible=impossible)
        assert done == end
        log_likelihood += gain
    log_likelihood += np.log(workspace.masses[: workspace.offsets[1]].sum())
    alone = em_sparse.Backward(
        np.ones(n), np.zeros((2, n), dtype=np.uint32), np.zeros(1, dtype=np.int64), np.full(n, -1)
    )
    digits = all(
        call(em_sparse.backward_steps)(
            entries, origins, steps, begin * length, min(end * length, len(steps.symbols)), alone, np.empty(n)
        )
        for begin, end in reversed(ranges)
    )
    sums = em_sparse.ListedSums(np.zeros(len(places[0])), np.zeros((len(updates), n)), np.zeros((1, n)))
    after, before, lost = np.ones(n), np.empty(n), 0
    for begin, end in reversed(ranges):
        lost += call(em_sparse.count_blocks)(
            entries,
            initial,
            steps,
            departure,
            length,
            begin,
            end,
            place,
            checkpoints,
            workspace,
            after,
            before,
            sums,
        )
    if digits:  # the same up to a power of two, where it matters
        ratios = (after / np.where(alone.values > 0, alone.values, np.nan))[initial > 0]
        ratios = ratios[np.isfinite(ratios)]
        assert (ratios == ratios[0]).all()
        assert np.frexp(ratios[0])[0] == 0.5
    outer = np.zeros_like(updates)
    outer[places] = sums.entries
    return SimpleNamespace(
        outer=outer, last=sums.last, first=sums.first[0], log_likelihood=log_likelihood, lost=lost
    )


def entries_of(updates: np.ndarray, places: Any) -> tuple[em_sparse.Entries, em_sparse.Origins]:
    (symbols, n, _), (k, i, j) = updates.shape, places
    order = np.lexsort((i, j, k))
    starts, origin_starts = (np.searchsorted(k * n + s, np.arange(symbols * n + 1)) for s in (i, j[order]))
    return (
        em_sparse.Entries(starts, j.astype(np.uint32), updates[places]),
        em_sparse.Origins(origin_starts, i[order].astype(np.uint32)),
    )


def messages(number: int, rows: int, initial: np.ndarray) -> em_sparse.Messages:
    room = (rows + 4) * len(initial)
    made = em_sparse.Messages(
        np.zeros(number + 2, dtype=np.int64), np.zeros(room, dtype=np.uint32), np.zeros(room)
    )
    possible = np.flatnonzero(initial)
    made.states[: len(possible)], made.masses[: len(possible)] = possible, initial[possible]
    made.offsets[1] = len(possible)
    return made


def random_model(rng: np.random.Generator, states: int = 3, zeros: bool = True) -> Any:
    def rows(*shape: int) -> np.ndarray:
        weights = rng.standard_exponential(shape)
        if zeros:
            weights[..., 1:] *= rng.random((*shape[:-1], shape[-1] - 1)) < 0.7
        return weights / weights.sum(axis=-1, keepdims=True)

    return SimpleNamespace(
        initial=rows(states), transitions=rows(2, states, states), observations=rows(2, states, 3)
    )


def sampled_episodes(
    model: Any, lengths: list[int], departure: bool, rng: np.random.Generator
) -> list[list[tuple[int, int]]]:
    episodes = []
    for length in lengths:
        s, episode = rng.choice(len(model.initial), p=model.initial), []
        for _ in range(length):
            a = rng.integers(2)
            after = rng.choice(len(model.initial), p=model.transitions[a, s])
            o = rng.choice(3, p=model.observations[a, s if departure else after])
            episode.append((int(a), int(o)))
            s = after
        episodes.append(episode)
    return episodes


def assert_same(one: Any, other: Any, tolerance: float = 1e-12) -> None:
    assert one.log_likelihood == pytest.approx(other.log_likelihood, rel=tolerance, abs=tolerance)
    for name in ("first", "moves", "shown"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=tolerance, atol=tolerance)


@DEPARTURE_AND_ARRIVAL
@KINDS
@pytest.mark.parametrize("seed", range(5))
def test_kernels_agree_with_enumeration_of_paths(seed: int, kind: str, departure: bool) -> None:
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    episodes = sampled_episodes(model, [5, 1, 4, 2], departure, rng)
    expected = naive_counts(model, episodes, departure)
    assert_same(kernel_counts(kind, model, episodes, departure), expected)


@DEPARTURE_AND_ARRIVAL
def test_a_wrong_convention_is_noticed(departure: bool) -> None:
    rng = np.random.default_rng(0)
    model = random_model(rng, zeros=False)
    episodes = sampled_episodes(model, [6], departure, rng)
    expected = naive_counts(model, episodes, departure)
    wrong = kernel_counts("general", model, episodes, not departure)
    assert np.abs(wrong.moves - expected.moves).max() > 1e-3


@DEPARTURE_AND_ARRIVAL
@KINDS
@pytest.mark.parametrize("states", [3, 7])
def test_compiled_and_plain_kernels_agree(states: int, kind: str, departure: bool) -> None:
    rng = np.random.default_rng(1)
    model = random_model(rng, states)
    episodes = sampled_episodes(model, [40, 30], departure, rng)
    compiled = kernel_counts(kind, model, episodes, departure, length=16)
    assert_same(compiled, kernel_counts(kind, model, episodes, departure, length=16, plain=True))


@DEPARTURE_AND_ARRIVAL
@KINDS
@pytest.mark.parametrize("states", [3, 6])
def test_blocks_and_calls_do_not_change_the_counts(states: int, kind: str, departure: bool) -> None:
    rng = np.random.default_rng(2)
    model = random_model(rng, states)
    episodes = sampled_episodes(model, [300, 1, 77, 120], departure, rng)
    whole = kernel_counts("general", model, episodes, departure, length=1000)
    for length in (1, 2, 50, 300, 498):
        blocked = kernel_counts(kind, model, episodes, departure, length=length, blocks_per_call=3)
        assert_same(blocked, whole)
    assert whole.shown.sum() == pytest.approx(498, abs=1e-9)
    assert whole.moves.sum() == pytest.approx(498 - 4 * departure, abs=1e-9)
    assert whole.first.sum() == pytest.approx(4, abs=1e-12)


@KINDS
def test_an_impossible_observation_is_located(kind: str) -> None:
    model = SimpleNamespace(
        initial=np.array([1.0, 0.0]),
        transitions=np.array([np.eye(2)] * 2),
        observations=np.array([[[1.0, 0, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]]),
    )
    episodes = [[(0, 0), (1, 2), (0, 0)], [(1, 2), (0, 1), (0, 0)]]
    assert kernel_counts(kind, model, episodes, True, length=2).impossible == 4


@DEPARTURE_AND_ARRIVAL
@KINDS
@pytest.mark.parametrize("length", [1, 4, 10])
def test_tiny_probabilities_do_not_underflow(length: int, kind: str, departure: bool) -> None:
    rng = np.random.default_rng(3)
    model = random_model(rng, zeros=False)
    model.observations[:, :, 2] = 1e-300 * (1 + np.arange(3))
    episodes = [[(0, 0), (1, 2), (0, 1), (1, 2), (1, 2), (0, 0)]]
    counts = kernel_counts(kind, model, episodes, departure, length=length)
    scaled = SimpleNamespace(**vars(model))
    scaled.observations = model.observations.copy()
    scaled.observations[:, :, 2] *= 1e300
    expected = naive_counts(scaled, episodes, departure)
    expected.log_likelihood += 3 * np.log(1e-300)
    assert counts.lost == 0
    assert_same(counts, expected, 1e-11)


@KINDS
def test_steps_that_lose_all_digits_are_counted(kind: str) -> None:
    """The first half says that the state is the first, the second half that it is the other."""
    model = SimpleNamespace(
        initial=np.array([0.5, 0.5]),
        transitions=np.array([np.eye(2)]),
        observations=np.array([[[1.0, 1e-160, 0], [1e-160, 1.0, 0]]]),
    )
    assert kernel_counts(kind, model, [[(0, 0), (0, 0), (0, 1), (0, 1)]], True).lost > 0


def test_a_faint_backward_message_is_given_up() -> None:
    """It would have other digits than one that is scaled to the states that are possible."""
    updates = np.array([np.diag([1.0, 1e-150])])
    entries, origins = entries_of(updates, np.nonzero(updates))
    message = em_sparse.Backward(
        np.ones(2), np.zeros((2, 2), dtype=np.uint32), np.zeros(1, dtype=np.int64), np.full(2, -1)
    )
    for total, fine in ((1, True), (2, False)):
        steps = em.Steps(np.zeros(total, dtype=np.uint32), np.arange(total) == 0)
        assert em_sparse.backward_steps(entries, origins, steps, 0, total, message, np.empty(2)) == fine


def test_messages_that_find_no_room_go_on_where_they_stopped() -> None:
    rng = np.random.default_rng(4)
    model = random_model(rng, 6)
    updates = np.array([model.transitions[0] * model.observations[0, :, o][:, None] for o in range(3)])
    updates[:, 0, 0] += 0.1  # every symbol is possible
    entries, _ = entries_of(updates, np.nonzero(updates))
    steps = em.Steps(rng.integers(3, size=50).astype(np.uint32), np.arange(50) == 0)
    roomy, narrow = (messages(50, rows, model.initial) for rows in (50, 10))
    whole, done, full = em_sparse.forward_steps(
        entries, model.initial, steps, 0, 50, 0, np.full(6, -1), roomy
    )
    assert (done, full) == (50, False)
    place = np.full(6, -1)
    gained, done, full = em_sparse.forward_steps(entries, model.initial, steps, 0, 50, 0, place, narrow)
    assert full
    assert 0 < done < 50
    wider = narrow._replace(
        states=np.append(narrow.states, roomy.states), masses=np.append(narrow.masses, roomy.masses)
    )
    rest, done, full = em_sparse.forward_steps(entries, model.initial, steps, done, 50, 0, place, wider)
    assert (done, full) == (50, False)
    assert gained + rest == pytest.approx(whole, abs=1e-12)
    np.testing.assert_array_equal(wider.offsets, roomy.offsets)
    end = roomy.offsets[51]
    np.testing.assert_array_equal(wider.masses[:end], roomy.masses[:end])
