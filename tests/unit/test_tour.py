"""Tours: where an agent goes in order to learn."""

from __future__ import annotations

import numpy as np
import pytest

from unlatch import POMDP, domains
from unlatch.planning.tour import Tour, expected_uses


def walked(model, tour, steps, start=0, rng=None):
    """States that a tour comes to where the state is seen and an end begins anew, and the actions taken."""
    rng = np.random.default_rng(0) if rng is None else rng
    state, states, actions = start, [], []
    for _ in range(steps):
        belief = np.eye(model.n_states)[state]
        tour.visit(belief)
        action = tour.action(belief)
        tour.took(belief, action)
        states.append(state)
        actions.append(action)
        state = int(rng.choice(model.n_states, p=model.transitions[action, state]))
        if state in model.terminal:
            state = start
    return np.array(states), np.array(actions)


def even(model):
    return Tour(
        model, np.ones((model.n_actions, model.n_states)), np.zeros((model.n_actions, model.n_states))
    )


def corridor(states, ends=()):
    """Left and right along a line."""
    places = np.arange(states)
    moves = np.stack(
        [np.eye(states)[np.maximum(places - 1, 0)], np.eye(states)[np.minimum(places + 1, states - 1)]]
    )
    for end in ends:
        moves[:, end] = np.eye(states)[end]
    return POMDP(
        transitions=moves,
        observations=np.broadcast_to(np.eye(states), moves.shape),
        initial=np.eye(states)[0],
        emission="arrival",
        terminal=[str(end) for end in ends],
        state_names=[str(place) for place in places],
    )


def test_it_goes_from_end_to_end():
    """Who goes where the counts are lowest is at both ends much less often."""
    states, _ = walked(corridor(10), even(corridor(10)), 400)
    ends = states[np.isin(states, (0, 9))]
    assert (np.diff(ends) != 0).sum() >= 400 / 9 * 0.6
    assert (np.bincount(states, minlength=10) > 20).all()


def test_what_tells_most_is_done_and_tells_less_from_then_on():
    model = corridor(3)
    gains = np.array([[1.0, 1.0, 1.0], [1.0, 5.0, 1.0]])
    tour = Tour(model, gains, np.zeros((2, 3)))
    states, actions = walked(model, tour, 60)
    done = actions[states == 1]
    assert 0.2 < done.mean() < 0.9  # the fivefold gain is used up by five times the uses


def test_an_end_is_a_way_back():
    """From behind the trap one comes to the start only through it."""
    model = corridor(6, ends=(5,))
    states, _ = walked(model, even(model), 200)
    assert (np.bincount(states, minlength=6)[:5] > 15).all()
    assert not (states == 5).any()


def test_what_is_out_of_reach_is_not_waited_for():
    moves = np.array([[[0, 1, 0], [1, 0, 0], [0, 0, 1]]] * 2, dtype=float)
    model = POMDP(moves, np.full((2, 3, 2), 0.5), [1, 0, 0])
    states, _ = walked(model, even(model), 50)
    assert set(states.tolist()) == {0, 1}


def test_a_model_that_is_wrong_does_not_hold_it_up():
    """The model holds the last place to be one step away; in truth nothing moves."""
    tour = even(corridor(4))
    belief = np.eye(4)[0]
    wanted = []
    for _ in range(200):
        tour.visit(belief)
        tour.took(belief, tour.action(belief))
        wanted.append(tour.target)
    assert {1, 2, 3} <= set(wanted)


@pytest.mark.parametrize("model", [domains.tiger(), domains.lockbox(), domains.frozen_lake()])
def test_it_always_has_an_action(model):
    tour, rng = even(model), np.random.default_rng(0)
    for _ in range(50):
        belief = rng.dirichlet(np.ones(model.n_states)) * (model.going_on > 0)
        belief /= belief.sum()
        tour.visit(belief)
        assert 0 <= tour.action(belief) < model.n_actions


def test_uses_are_those_of_a_walk():
    """Three steps to the end, then from the start again."""
    model = corridor(4, ends=(3,))
    uses = expected_uses(model, [1, 1, 1, 0], 12)
    assert np.allclose(uses[1], [1 / 3, 1 / 3, 1 / 3, 0])
    assert np.allclose(uses[0], 0)


def test_what_was_done_often_tells_less():
    tour = even(corridor(3))
    before = tour.told[1, 2]
    for _ in range(9):
        tour.took(np.eye(3)[2], 1)
    assert tour.told[1, 2] == pytest.approx(before / 10)
    assert tour.told[0, 2] == before
