"""Where states, moves and labels stand: the same for all actions, nothing on top of anything else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import naive
from unlatch import POMDP, Partition, domains
from unlatch.show import layout

SYSTEMS = {
    "tiger": domains.tiger(),
    "tmaze": domains.tmaze(6),
    "sense-float-reset": domains.sense_float_reset(4),
    "lockbox": domains.lockbox(),
    "room": domains.by_name("room:rows=5,columns=6,slip=0.1"),
    "lake": domains.frozen_lake(),
}


@pytest.mark.parametrize("pomdp", SYSTEMS.values(), ids=SYSTEMS)
def test_states_stand_apart_and_the_picture_is_no_wider_than_a_page(pomdp):
    places = layout.state_places(pomdp)
    assert places.shape == (pomdp.n_states, 2)
    gaps = np.abs(places[:, None] - places[None])
    clash = (gaps < np.array([1.2, 1.2])).all(axis=2)
    np.fill_diagonal(clash, False)
    assert not clash.any()
    assert np.ptp(places[:, 0]) < 12
    assert np.array_equal(places, layout.state_places(pomdp))


def test_a_room_is_laid_out_as_a_room():
    """Neighbors in the grid are neighbors on paper."""
    room = SYSTEMS["room"]
    places = layout.state_places(room)
    apart = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1))
    joined = (room.transitions >= 0.05).any(axis=0)
    np.fill_diagonal(joined, False)
    far = ~joined & ~np.eye(room.n_states, dtype=bool)
    assert apart[joined].max() < np.median(apart[far])


@pytest.mark.parametrize("pomdp", SYSTEMS.values(), ids=SYSTEMS)
def test_moves_are_those_of_the_model(pomdp):
    places = layout.state_places(pomdp)
    for action in range(pomdp.n_actions):
        moves = layout.graph_moves(pomdp, action, places)
        expected = {
            (s, t): pomdp.transitions[action, s, t]
            for s, t in np.argwhere(pomdp.transitions[action] >= layout.SHOWN).tolist()
            if s not in pomdp.terminal
        }
        assert {(m.source, m.target): m.probability for m in moves} == pytest.approx(expected)
        for move in moves:
            begin, end = move.curve[0], move.curve[3]
            assert np.hypot(*(begin - places[move.source])) >= 0.28  # outside the circle
            assert np.hypot(*(end - places[move.target])) >= 0.28
            assert np.array_equal(move.head[0], end)


def test_arrows_end_outside_the_observations_below_a_state():
    up = POMDP([[[0.0, 1.0], [0.0, 1.0]]], [[[1.0], [1.0]]], [1, 0])
    places = np.array([[0.0, -2.0], [0.0, 0.0]])
    (move,) = (m for m in layout.graph_moves(up, 0, places) if m.source == 0)
    assert move.curve[3, 1] < -layout.NODE_RADIUS - layout.BAR_GAP - 0.8 * layout.BAR_HEIGHT


def test_ways_there_and_back_are_two_curves():
    pair = POMDP([[[0.0, 1.0], [1.0, 0.0]]], [[[1.0], [1.0]]], [1, 0])
    there, back = layout.graph_moves(pair, 0, layout.state_places(pair))
    assert np.abs(there.label - back.label).max() > 0.3


def test_what_a_state_shows_is_cut_where_it_is_much(rng):
    many = naive.random_pomdp(rng, states=3, actions=1, observations=9)
    bars, more = layout.shown_bars(many, 0, 0)
    assert len(bars) == 3
    shown = int((many.observations[0, 0] >= layout.SHOWN).sum())
    assert len(bars) + more == shown
    assert [bar.probability for bar in bars] == sorted((bar.probability for bar in bars), reverse=True)
    assert layout.said_lines(many, 0, 0)[-1] == (f"and {more} more", None)


def test_cells_that_are_shared_have_a_number():
    partition = Partition.from_cells([[0], [1, 3], [2, 4]])
    assert layout.shared_cells(partition, 5).tolist() == [-1, 0, 1, 0, 1]
    assert layout.shared_cells(None, 2).tolist() == [-1, -1]


def test_blocks_keep_cells_together():
    room = domains.by_name("room:rows=6,columns=8")
    partition = Partition(np.arange(48) % 3)
    order = layout.block_order(room, partition)
    assert sorted(order.tolist()) == list(range(48))
    assert (np.diff(partition.labels[order]) != 0).sum() == 2


def test_bars_have_room_for_their_names_and_states_for_their_bars():
    named = replace(SYSTEMS["lake"], observation_names=tuple(f"a rather long name {o}" for o in range(16)))
    assert layout.said_lines(named, 0, 0) == [("a rather long name 0 1.00", 1.0)]
    width = layout.bar_width(named)
    assert width > 1.3 > layout.bar_width(SYSTEMS["lake"])
    gaps = np.abs(np.subtract.outer(*2 * [layout.state_places(named)[:, 0]]))
    level = np.abs(np.subtract.outer(*2 * [layout.state_places(named)[:, 1]])) < 1.2
    np.fill_diagonal(level, False)
    assert gaps[level].min() > width
    endless = replace(named, observation_names=tuple(f"{o}" * 120 for o in range(16)))
    assert layout.bar_width(endless) < 2


def test_a_way_along_goes_straight_where_observations_stand_below():
    """Bent to its right it would begin and end away from its states."""
    pair = POMDP([[[0.5, 0.5], [0.5, 0.5]]], [[[0.5, 0.5], [0.5, 0.5]]], [1, 0])
    places = layout.state_places(pair)
    for move in layout.graph_moves(pair, 0, places):
        assert np.hypot(*(move.curve[0] - places[move.source])) < layout.NODE_RADIUS + 0.05
        assert np.hypot(*(move.curve[3] - places[move.target])) < layout.NODE_RADIUS + 0.05


def test_long_names_are_cut():
    assert layout.short("abc") == "abc"
    assert layout.short("a" * 300, 12) == "a" * 11 + "…"
