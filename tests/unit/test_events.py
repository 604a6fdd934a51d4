"""What a step can bring: one table of it, a row of it, and the sums of its rows are the same."""

from __future__ import annotations

import numpy as np
import pytest

from unlatch import POMDP, Problem, domains, run_episodes, solve
from unlatch.planning.events import events_of

SIZES = {"actions": 3, "states": 5, "observations": 4}


def random_model(emission: str, *, ends: bool, pays: bool) -> POMDP:
    """With zeros, so that not every event is possible."""
    rng = np.random.default_rng(0)
    actions, states, observations = SIZES.values()
    moves = _thinned(rng.dirichlet(np.full(states, 0.5), (actions, states)))
    shown = _thinned(rng.dirichlet(np.full(observations, 0.5), (actions, states)))
    start, more = np.full(states, 1 / states), {}
    if ends:
        moves[:, -1] = np.eye(states)[-1]
        start = np.append(np.full(states - 1, 1 / (states - 1)), 0.0)
        more["terminal"] = (states - 1,)
    if pays:
        chances = rng.dirichlet(np.ones(2), (actions, states))
        chances[:, :2] = [1.0, 0.0]
        more |= {"reward_probabilities": chances, "reward_values": np.array([0.0, 1.0])}
    return POMDP(moves, shown, start, emission=emission, **more)


def _thinned(rows: np.ndarray) -> np.ndarray:
    rows = np.where(rows < 0.1, 0.0, rows)
    return rows / rows.sum(axis=-1, keepdims=True)


MODELS = [
    domains.frozen_lake(observe="column"),
    domains.lockbox(),
    domains.tiger(),
    *(
        random_model(emission, ends=ends, pays=pays)
        for emission in ("departure", "arrival")
        for ends in (False, True)
        for pays in (False, True)
    ),
]


@pytest.mark.parametrize("model", MODELS, ids=range(len(MODELS)))
def test_rows_and_their_sums_are_those_of_the_whole_table(model: POMDP) -> None:
    events = events_of(model)
    table = events.updates
    assert events.chances() == pytest.approx(table.sum(axis=3).transpose(0, 2, 1), abs=1e-14)
    for action, event, state in np.ndindex(table.shape[:3]):
        assert np.array_equal(events.reached(action, event, state), table[action, event, state])
    assert table.sum(axis=(1, 3)) == pytest.approx(np.ones(table.shape[::2][:2]))  # something happens
    assert table[:, events.ended].any(axis=(0, 2, 3)).all()  # and every way to end can be taken


@pytest.mark.parametrize("model", MODELS, ids=range(len(MODELS)))
def test_what_a_step_brings_is_written_down_alike(model: POMDP) -> None:
    """Against the definition, entry by entry."""
    events = events_of(model)
    live = model.going_on > 0
    for event, (shown, paid, over) in enumerate(
        zip(events.observations, events.rewards, events.ended, strict=True)
    ):
        if shown < 0:
            continue
        for a, s, t in np.ndindex(model.transitions.shape):
            emitting = t if model.emission == "arrival" else s
            chance = model.transitions[a, s, t] * model.observations[a, emitting, shown]
            chance *= 1.0 if paid < 0 else model.reward_probabilities[a, s, paid]
            if model.terminal:
                chance *= live[s] and live[t] != over
            assert events.updates[a, event, s, t] == pytest.approx(chance, abs=1e-15)


def test_acting_in_a_system_of_many_states_needs_no_table_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = domains.frozen_lake()
    policy = solve(Problem(lake, discount=0.95), gap=0.1)
    expected = run_episodes(lake, policy, episodes=20, steps=30, rng=0)
    monkeypatch.setattr(
        "unlatch.planning.events.Events.updates", property(lambda _: pytest.fail("asked for"))
    )
    assert np.array_equal(run_episodes(lake, policy, episodes=20, steps=30, rng=0).rewards, expected.rewards)
