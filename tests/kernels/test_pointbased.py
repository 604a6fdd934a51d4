"""The kernels of the point-based solver: compiled, as Python, and beside slow twins."""

from __future__ import annotations

import numpy as np
import pytest

import naive
from unlatch import PointBasedSolver, Problem, domains
from unlatch.kernels import pointbased
from unlatch.planning.events import events_of
from unlatch.planning.steps import state_problem


def as_python(kernel):
    return getattr(kernel, "py_func", kernel)


def model_of(problem):
    steps = state_problem(problem)
    return pointbased.Model(
        starts=steps.starts,
        events=steps.events.astype(np.int32),
        following=steps.following.astype(np.int32),
        chances=steps.chances,
        rewards=np.ascontiguousarray(steps.rewards),
        discount=problem.discount,
        endless=True,
    )


@pytest.mark.parametrize("model", [domains.tiger(), domains.frozen_lake(), domains.tmaze()])
def test_rows_are_the_events_that_go_on(model):
    steps, events = state_problem(Problem(model)), events_of(model)
    going_on = events.updates[:, ~events.ended]
    dense = np.zeros((model.n_actions, steps.n_events, model.n_states, model.n_states))
    for a in range(model.n_actions):
        for s in range(model.n_states):
            for k in range(steps.starts[a * steps.rank + s], steps.starts[a * steps.rank + s + 1]):
                dense[a, steps.events[k], s, steps.following[k]] += steps.chances[k]
    kept = going_on[:, going_on.any(axis=(0, 2, 3))]
    live = model.going_on > 0
    assert np.allclose(dense[:, :, live], kept[:, :, live])


@pytest.mark.parametrize("model", [domains.tiger(), domains.tmaze()])
def test_informed_bound_equals_twin(model, version):
    problem = Problem(model, discount=0.9)
    step = version(pointbased.informed_step)
    own = model_of(problem)
    worth, later = np.zeros_like(own.rewards), np.zeros_like(own.rewards)
    for _ in range(4):
        step(own, later, worth, 1, 0.0)
        later = worth.copy()
    events = events_of(model)
    assert np.allclose(worth, naive.informed_bound(events.updates, own.rewards, 0.9, 4))


def test_certain_and_blind_steps(version):
    problem = Problem(domains.tmaze(), discount=0.9)
    own = model_of(problem)
    moves = domains.tmaze().transitions
    later = np.arange(4.0)
    values = np.zeros(4)
    version(pointbased.certain_step)(own, later, values, 1, 0.0)
    assert np.allclose(values, (own.rewards + 0.9 * moves @ later).max(axis=0))
    blind_later = np.arange(16.0).reshape(4, 4)
    blind = np.zeros((4, 4))
    version(pointbased.blind_step)(own, blind_later, blind, 1, 0.0)
    assert np.allclose(blind, own.rewards + 0.9 * np.einsum("ast,at->as", moves, blind_later))


def worked(work, backups):
    solver = PointBasedSolver(Problem(domains.tiger(), discount=0.9))
    model, bounds, scratch = solver.tables
    aim = pointbased.Aim(1e-6, 0.5, 1e-3)
    while bounds.counts[pointbased.BACKUPS] < backups:
        work(model, bounds, scratch, aim, 1)
    return bounds


@pytest.mark.compiled
def test_compiled_work_equals_python(monkeypatch):
    compiled = worked(pointbased.work, 25)
    for name in dir(pointbased):
        kernel = getattr(pointbased, name)
        if hasattr(kernel, "py_func"):
            monkeypatch.setattr(pointbased, name, kernel.py_func)
    python = worked(pointbased.work, 25)
    nodes, vectors = compiled.counts[pointbased.NODES], compiled.counts[pointbased.VECTORS]
    assert np.array_equal(compiled.counts, python.counts)
    for name in ("upper", "lower", "optimism"):
        assert np.allclose(getattr(compiled, name)[:nodes], getattr(python, name)[:nodes], rtol=1e-12)
    assert np.allclose(compiled.vectors[:vectors], python.vectors[:vectors], rtol=1e-12)
    assert np.array_equal(compiled.successors[:vectors], python.successors[:vectors])


def test_sawtooth_equals_twin(rng):
    """Random points and a random belief, some of whose states are impossible."""
    states = 5
    for _ in range(20):
        points = [rng.dirichlet(np.full(states, 0.4)) * (rng.random(states) < 0.7) for _ in range(6)]
        points = [p / p.sum() for p in points if p.sum() > 0]
        belief = rng.dirichlet(np.ones(states)) * (rng.random(states) < 0.8)
        if not belief.sum() > 0:
            continue
        deficits = -rng.random(len(points))
        first = np.cumsum([0, *((p > 0).sum() for p in points)])
        of_weights = np.concatenate([np.argsort(-p, kind="stable")[: (p > 0).sum()] for p in points])
        inverse = np.concatenate([1 / np.sort(p[p > 0])[::-1] for p in points])
        heads, chain = np.full((1, states), -1), np.full(len(points), -1)
        for i in range(len(points)):
            top = of_weights[first[i]]
            chain[i], heads[0, top] = heads[0, top], i
        seen = np.flatnonzero(belief)[None]
        found = as_python(pointbased.sawtooth)(
            first,
            of_weights,
            inverse,
            deficits,
            chain,
            heads,
            0,
            belief[None],
            seen,
            0,
            seen.size,
            belief.sum(),
            -1,
        )
        shares = [min(belief[s] / p[s] for s in np.flatnonzero(p)) for p in points]
        expected = min(0.0, *(share * deficit for share, deficit in zip(shares, deficits, strict=True)))
        assert found == pytest.approx(expected, abs=1e-12)
