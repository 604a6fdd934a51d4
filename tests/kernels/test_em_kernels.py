"""The forward-backward kernels against each other and against enumeration of all hidden paths."""

from __future__ import annotations

from itertools import product
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from unlatch.kernels import em, em_small

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
    module: ModuleType,
    model: Any,
    episodes: list[list[tuple[int, int]]],
    departure: bool,
    *,
    sparse: bool = False,
    length: int = 3,
    blocks_per_call: int = 1000,
    plain: bool = False,
) -> Any:
    """The same by the kernels; ``plain`` runs the outermost ones as Python."""
    call = (lambda f: getattr(f, "py_func", f)) if plain else (lambda f: f)
    (actions, states, _), n_symbols = model.transitions.shape, model.observations.shape[2]
    n = -(-states // 4) * 4
    updates = np.zeros((actions * n_symbols, n, n))
    for a, o in product(range(actions), range(n_symbols)):
        shown, moves = model.observations[a, :, o], model.transitions[a]
        updates[a * n_symbols + o, :states, :states] = (
            shown[:, None] * moves if departure else moves * shown[None, :]
        )
    ahead, back = operators(updates, sparse), operators(updates.transpose(0, 2, 1), sparse)
    steps = em.Steps(
        np.array([a * n_symbols + o for episode in episodes for a, o in episode], dtype=np.uint32),
        np.array([t == 0 for episode in episodes for t in range(len(episode))]),
    )
    blocks = -(-len(steps.symbols) // length)
    ranges = [(b, min(b + blocks_per_call, blocks)) for b in range(0, blocks, blocks_per_call)]
    initial = np.zeros(n)
    initial[:states] = model.initial
    checkpoints, workspace, ones = np.empty((blocks, n)), np.empty((length + 1, n)), np.ones(n)
    sums = em.Sums(
        np.zeros_like(back.dense), np.zeros_like(back.values), np.zeros((len(updates), n)), np.zeros((1, n))
    )
    message = np.array([initial, initial])
    log_likelihood = 0.0
    for first, last in ranges:
        gain, done = call(module.forward_blocks)(
            ahead, initial, steps, length, first, last, message, checkpoints
        )
        if done < min(last * length, len(steps.symbols)):
            return SimpleNamespace(impossible=done)
        log_likelihood += gain
    log_likelihood += np.log(message[0].sum())
    message = np.ones((2, n))
    for first, last in reversed(ranges):
        call(module.backward_blocks)(back, ones, steps, length, first, last, message)
    before_all = message[0, :states].copy()
    message = np.ones((2, n))
    lost = 0
    for first, last in reversed(ranges):
        lost += call(module.count_blocks)(
            ahead,
            back,
            initial,
            ones,
            steps,
            departure,
            length,
            first,
            last,
            checkpoints,
            message,
            workspace,
            sums,
        )
    assert np.array_equal(before_all, message[0, :states])
    joint = updates * dense_sums(sums, back, updates.shape)
    emitted = joint.sum(axis=2) + sums.last if departure else joint.sum(axis=1)
    shape = (actions, n_symbols, n)
    return SimpleNamespace(
        first=sums.first[0, :states],
        moves=joint.reshape(actions, n_symbols, n, n).sum(axis=1)[:, :states, :states],
        shown=emitted.reshape(shape).transpose(0, 2, 1)[:, :states],
        log_likelihood=log_likelihood,
        lost=lost,
    )


def operators(updates: np.ndarray, sparse: bool) -> em.Operators:
    k, i, j = np.nonzero(updates)
    starts = np.searchsorted(k, np.arange(len(updates) + 1))
    if not sparse:
        k, i, j, starts = (np.zeros(0, dtype=np.int64) for _ in range(4))
    return em.Operators(
        np.zeros((0, *updates.shape[1:])) if sparse else np.ascontiguousarray(updates),
        starts.astype(np.uint32),
        i.astype(np.uint32),
        j.astype(np.uint32),
        updates[k, i, j],
    )


def dense_sums(sums: em.Sums, back: em.Operators, shape: tuple[int, ...]) -> np.ndarray:
    if len(back.dense):
        return sums.dense
    result = np.zeros(shape)
    symbols = np.repeat(np.arange(shape[0]), np.diff(back.starts.astype(int)))
    result[symbols, back.targets, back.sources] = sums.sparse
    return result


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
@pytest.mark.parametrize("seed", range(5))
def test_kernels_agree_with_enumeration_of_paths(seed: int, departure: bool) -> None:
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    episodes = sampled_episodes(model, [5, 1, 4, 2], departure, rng)
    expected = naive_counts(model, episodes, departure)
    assert_same(kernel_counts(em_small, model, episodes, departure), expected)
    assert_same(kernel_counts(em, model, episodes, departure), expected)
    assert_same(kernel_counts(em, model, episodes, departure, sparse=True), expected)


@DEPARTURE_AND_ARRIVAL
def test_a_wrong_convention_is_noticed(departure: bool) -> None:
    rng = np.random.default_rng(0)
    model = random_model(rng, zeros=False)
    episodes = sampled_episodes(model, [6], departure, rng)
    expected = naive_counts(model, episodes, departure)
    wrong = kernel_counts(em, model, episodes, not departure)
    assert np.abs(wrong.moves - expected.moves).max() > 1e-3


@DEPARTURE_AND_ARRIVAL
@pytest.mark.parametrize("module", [em, em_small], ids=["general", "small"])
def test_compiled_and_plain_kernels_agree(module: ModuleType, departure: bool) -> None:
    rng = np.random.default_rng(1)
    model = random_model(rng)
    episodes = sampled_episodes(model, [40, 30], departure, rng)
    for sparse in [False] if module is em_small else [False, True]:
        compiled = kernel_counts(module, model, episodes, departure, sparse=sparse, length=16)
        plain = kernel_counts(module, model, episodes, departure, sparse=sparse, length=16, plain=True)
        assert_same(compiled, plain)


@DEPARTURE_AND_ARRIVAL
@pytest.mark.parametrize("states", [3, 6])
def test_blocks_and_calls_do_not_change_the_counts(states: int, departure: bool) -> None:
    rng = np.random.default_rng(2)
    model = random_model(rng, states)
    episodes = sampled_episodes(model, [300, 1, 77, 120], departure, rng)
    whole = kernel_counts(em, model, episodes, departure, length=1000)
    modules = [(em, False), (em, True)] + ([(em_small, False)] if states <= 4 else [])
    for (module, sparse), length in product(modules, (1, 2, 50, 300, 498)):
        blocked = kernel_counts(
            module, model, episodes, departure, sparse=sparse, length=length, blocks_per_call=3
        )
        assert_same(blocked, whole)
    assert whole.shown.sum() == pytest.approx(498, abs=1e-9)
    assert whole.moves.sum() == pytest.approx(498 - 4 * departure, abs=1e-9)
    assert whole.first.sum() == pytest.approx(4, abs=1e-12)


@pytest.mark.parametrize(("module", "sparse"), [(em, False), (em, True), (em_small, False)])
def test_an_impossible_observation_is_located(module: ModuleType, sparse: bool) -> None:
    model = SimpleNamespace(
        initial=np.array([1.0, 0.0]),
        transitions=np.array([np.eye(2)] * 2),
        observations=np.array([[[1.0, 0, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]]),
    )
    episodes = [[(0, 0), (1, 2), (0, 0)], [(1, 2), (0, 1), (0, 0)]]
    assert kernel_counts(module, model, episodes, True, sparse=sparse, length=2).impossible == 4


@DEPARTURE_AND_ARRIVAL
@pytest.mark.parametrize(("module", "sparse"), [(em, False), (em, True), (em_small, False)])
def test_tiny_probabilities_do_not_underflow(module: ModuleType, sparse: bool, departure: bool) -> None:
    rng = np.random.default_rng(3)
    model = random_model(rng, zeros=False)
    model.observations[:, :, 2] = 1e-300 * (1 + np.arange(3))
    episodes = [[(0, 0), (1, 2), (0, 1), (1, 2), (1, 2), (0, 0)]]
    counts = kernel_counts(module, model, episodes, departure, sparse=sparse, length=4)
    scaled = SimpleNamespace(**vars(model))
    scaled.observations = model.observations.copy()
    scaled.observations[:, :, 2] *= 1e300
    expected = naive_counts(scaled, episodes, departure)
    expected.log_likelihood += 3 * np.log(1e-300)
    assert counts.lost == 0
    assert_same(counts, expected, 1e-11)
