"""A planner that is told anything, in any order: it always has a legal action and never an undefined number."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from unlatch import POMDP, POUCT, ExactPlanner, Partition, PartitionModel, Reward
from unlatch.errors import BeliefCollapseError

SIZES = st.integers(1, 3)
AMOUNTS = st.sampled_from([0.0, 1.0, -1.0, 1e-12, -100.0, 1e308, -1e308])


def sparse_rows(rng, shape):
    """Distributions with many zeros, so that much is impossible."""
    rows = rng.dirichlet(np.full(shape[-1], 0.4), shape[:-1])
    rows = np.where(rows < 0.2, 0.0, rows)
    return rows / rows.sum(axis=-1, keepdims=True)


def episodic(rng, model):
    """The same, but its last state ends the episode, and rewards come beside observations."""
    transitions, initial = np.array(model.transitions), np.array(model.initial)
    transitions[:, -1] = np.eye(model.n_states)[-1]
    initial[:] = [*sparse_rows(rng, (model.n_states - 1,)), 0.0]
    return replace(
        model,
        transitions=transitions,
        initial=initial,
        terminal=model.n_states - 1,
        reward_values=[0.0, 1.0],
        reward_probabilities=sparse_rows(rng, (model.n_actions, model.n_states, 2)),
    )


@st.composite
def models(draw):
    """A POMDP, which may end and pay beside its observations, the same as a PSR in turned coordinates, or with its last
    two states confounded."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    states, actions, observations = draw(SIZES), draw(SIZES), draw(SIZES)
    model = POMDP(
        sparse_rows(rng, (actions, states, states)),
        sparse_rows(rng, (actions, states, observations)),
        sparse_rows(rng, (states,)),
        emission=draw(st.sampled_from(["departure", "arrival"])),
    )
    kind = draw(st.sampled_from(["pomdp", "episodic", "psr", "cells"]))
    if kind == "episodic" and states > 1:
        return episodic(rng, model)
    if kind == "psr":
        return model.to_psr().transformed(np.eye(states) + 0.5 * rng.random((states, states)))
    if kind == "cells":
        labels = np.minimum(np.arange(states), 1)
        return PartitionModel(model.to_psr(), Partition(labels))
    return model


@st.composite
def rewards(draw, model):
    if isinstance(model, POMDP) and model.reward_values is not None and draw(st.booleans()):
        return Reward.learned(model)
    if isinstance(model, POMDP) and draw(st.booleans()):
        return Reward.on_states(
            {draw(st.integers(0, model.n_states - 1 - len(model.terminal))): draw(AMOUNTS)}
        )
    if isinstance(model, PartitionModel) and draw(st.booleans()):
        return Reward.on_cells({draw(st.integers(0, model.partition.n_cells - 1)): draw(AMOUNTS)})
    pairs = [(a, o) for a in range(model.n_actions) for o in range(model.n_observations)]
    return Reward.on_observations({pair: draw(AMOUNTS) for pair in pairs})


@st.composite
def recipes(draw, model):
    """A function that makes the planner anew, and the actions that it may take."""
    reward = draw(rewards(model))
    legal = draw(st.sets(st.integers(0, model.n_actions - 1), min_size=1))
    common = {"actions": legal, "on_collapse": draw(st.sampled_from(["raise", "reset", "mix"]))}
    if draw(st.integers(0, 4)) == 0:
        return lambda: ExactPlanner(model, reward, horizon=3, **common), legal
    options = {
        "simulations": draw(st.sampled_from([0, 1, 7, 40])),
        "depth": draw(st.sampled_from([1, 3, 9])),
        "exploration": draw(st.sampled_from(["auto", 0.0, 2.0])),
        "bonus": draw(st.sampled_from(["polynomial", "ucb1"])),
        "sampling": draw(st.sampled_from([None, "belief"])),
        "discount": draw(st.sampled_from([0.0, 0.9, 1.0])),
        "reuse": draw(st.sampled_from([None, True, False])),
        "max_nodes": draw(st.sampled_from([1, 5, 1000])),
        "rng": draw(st.integers(0, 1000)),
    }
    return lambda: POUCT(model, reward, **common, **options), legal


class PlannerMachine(RuleBasedStateMachine):
    """Acts, sees the possible and the impossible, saves, restores and begins anew."""

    @initialize(data=st.data())
    def begin(self, data):
        self.model = data.draw(models())
        self.make, self.legal = data.draw(recipes(self.model))
        self.planner = self.make()
        self.saved = None
        self.collapses = 0

    @rule()
    def act(self):
        assert self.planner.action() in self.legal

    @precondition(lambda self: isinstance(self.planner, POUCT))
    @rule()
    def search(self):
        found = self.planner.search()
        assert found.action in self.legal
        assert np.isfinite(found.values[sorted(self.legal)]).all()
        assert not np.isnan(found.values).any()
        assert (found.visits >= 0).all()

    @rule(action=st.integers(0, 2), chance=st.floats(0, 1, exclude_max=True))
    def see_the_possible(self, action, chance):
        action = action % self.model.n_actions
        if any(self.planner.belief[state] > 0 for state in getattr(self.model, "terminal", ())):
            return  # it is over
        odds = np.maximum(self.model.to_psr().predict(self.planner.belief)[action], 0.0)
        if odds.max() > 1e-6:
            likely = np.where(odds > 1e-6, odds, 0.0)
            observation = int(np.searchsorted(np.cumsum(likely), chance * likely.sum(), side="right"))
            self.planner.observe(action, observation)
            assert self.planner.collapses == self.collapses

    @rule(
        action=st.integers(0, 2),
        observation=st.one_of(st.integers(0, 2), st.just("moo")),
        reward=st.sampled_from([None, 0, 1.0, 3]),
    )
    def see_anything(self, action, observation, reward):
        if observation != "moo":
            observation = observation % self.model.n_observations
        before = self.planner.belief
        try:
            self.planner.observe(action % self.model.n_actions, observation, reward)
        except BeliefCollapseError:
            assert self.planner.collapses == self.collapses + 1
            assert np.array_equal(self.planner.belief, before)
        self.collapses = self.planner.collapses

    @rule()
    def reset(self):
        self.planner.reset()
        assert np.allclose(self.planner.belief, self.make().belief)

    @rule()
    def save(self):
        self.saved = json.dumps(self.planner.state())

    @precondition(lambda self: self.saved is not None)
    @rule()
    def restore(self):
        self.planner = self.make()
        self.planner.restore(json.loads(self.saved))
        self.collapses = self.planner.collapses
        assert json.dumps(self.planner.state()) == self.saved

    @rule()
    def a_copy_acts_alike(self):
        copy = self.make()
        copy.restore(json.loads(json.dumps(self.planner.state())))
        assert copy.action() == self.planner.action()

    @invariant()
    def the_belief_is_defined(self):
        if hasattr(self, "planner"):
            belief = self.planner.belief
            assert np.isfinite(belief).all()
            assert abs(belief @ self.model.to_psr().final - 1) < 1e-6


TestPlannerMachine = pytest.mark.filterwarnings(
    "ignore::unlatch.BeliefCollapseWarning",
    "ignore::unlatch.ShortSightWarning",  # a depth of one step is among those drawn
)(PlannerMachine.TestCase)
TestPlannerMachine.settings = settings(deadline=None, max_examples=40, stateful_step_count=25)
