"""The domains, number by number."""

from __future__ import annotations

import numpy as np
import pytest

from unlatch import domains, exact_hankel
from unlatch.errors import ResourceLimitError, UsageError


def row(model, kind, action, state):
    """One row of a model as a dictionary of what is possible."""
    names = model.state_names if kind == "transitions" else model.observation_names
    values = getattr(model, kind)[model.action_names.index(action), model.state_names.index(state)]
    return {name: pytest.approx(value) for name, value in zip(names, values, strict=True) if value > 0}


def moves(model, action, state):
    return row(model, "transitions", action, state)


def shows(model, action, state):
    return row(model, "observations", action, state)


@pytest.mark.parametrize(
    ("model", "states", "actions", "symbols"),
    [
        (domains.tiger(), 2, 3, 6),
        (domains.tmaze(), 4, 4, 7),
        (domains.tmaze(rooms=2), 6, 4, 8),
        (domains.tmaze(rooms=6), 14, 4, 12),
        (domains.sense_float_reset(), 3, 3, 3),
        (domains.sense_float_reset(5), 5, 3, 3),
        (domains.sense_float_reset(3, reward=False), 3, 3, 2),
        (domains.directional_hallway(), 3, 4, 2),
        (domains.noisy_hallway(), 3, 4, 2),
    ],
)
def test_sizes(model, states, actions, symbols):
    assert (model.n_states, model.n_actions, model.n_observations) == (states, actions, symbols)
    assert model.emission == "departure"


def test_tiger():
    tiger = domains.tiger()
    assert tiger.initial.tolist() == [0.5, 0.5]
    assert shows(tiger, "listen", "tiger-left") == {"hear-left|-1": 0.85, "hear-right|-1": 0.15}
    assert shows(tiger, "listen", "tiger-right") == {"hear-left|-1": 0.15, "hear-right|-1": 0.85}
    assert shows(tiger, "open-left", "tiger-left") == {"hear-left|-100": 0.5, "hear-right|-100": 0.5}
    assert shows(tiger, "open-left", "tiger-right") == {"hear-left|10": 0.5, "hear-right|10": 0.5}
    assert shows(tiger, "open-right", "tiger-left") == {"hear-left|10": 0.5, "hear-right|10": 0.5}
    assert moves(tiger, "listen", "tiger-left") == {"tiger-left": 1.0}
    assert moves(tiger, "open-left", "tiger-left") == {"tiger-left": 0.5, "tiger-right": 0.5}
    np.testing.assert_allclose(tiger.rewards, [[-1, -1], [-100, 10], [10, -100]], atol=1e-13)


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_sense_float_reset(n):
    model = domains.sense_float_reset(n)
    last, before = str(n - 1), str(n - 2)
    assert model.initial.tolist() == [1.0] + [0.0] * (n - 1)
    assert moves(model, "float", "0") == {"0": 0.5, "1": 0.5}
    assert moves(model, "float", last) == {before: 0.5, last: 0.5}
    assert moves(model, "reset", last) == {"0": 1.0}
    assert moves(model, "sense", last) == {last: 1.0}
    assert shows(model, "float", "0") == {"0|0": 1.0}
    assert shows(model, "reset", "0") == shows(model, "sense", "0") == {"1|0": 1.0}
    for action in model.action_names:
        assert shows(model, action, "1") == {"0|1": 1.0}
        for state in model.state_names[2:]:
            assert shows(model, action, state) == {"0|0": 1.0}
    if n > 3:
        assert moves(model, "float", "2") == {"1": 0.5, "3": 0.5}


def test_sense_float_reset_without_rewards():
    model = domains.sense_float_reset(3, reward=False)
    assert model.symbol_rewards is None
    assert shows(model, "sense", "1") == shows(model, "sense", "2") == {"0": 1.0}


@pytest.mark.parametrize("fail", [0.0, 0.1, 1.0])
def test_tmaze(fail):
    model = domains.tmaze(rooms=2, fail=fail)
    places = ("map", "rm_2", "rm_1")
    assert set(model.state_names) == {f"{side}-{place}" for side in ("top", "bottom") for place in places}
    start = dict(zip(model.state_names, model.initial, strict=True))
    assert {name: p for name, p in start.items() if p} == {"top-rm_1": 0.5, "bottom-rm_1": 0.5}
    assert moves(model, "left", "top-rm_1") == {"top-rm_2": 0.9, "top-rm_1": 0.1}
    assert moves(model, "left", "top-rm_2") == {"top-map": 0.9, "top-rm_2": 0.1}
    assert moves(model, "left", "top-map") == {"top-map": 1.0}
    assert moves(model, "right", "bottom-map") == {"bottom-rm_2": 0.9, "bottom-map": 0.1}
    assert moves(model, "right", "bottom-rm_1") == {"bottom-rm_1": 1.0}
    assert moves(model, "up", "top-rm_2") == {"top-rm_2": 1.0}
    anew = {"top-rm_1": (1 + fail) / 2, "bottom-rm_1": (1 - fail) / 2}
    assert moves(model, "down", "top-rm_1") == {name: p for name, p in anew.items() if p}
    for action in model.action_names:
        assert shows(model, action, "top-map") == {"U|0": 0.95, "D|0": 0.05}
        assert shows(model, action, "bottom-map") == {"U|0": 0.05, "D|0": 0.95}
        assert shows(model, action, "top-rm_2") == shows(model, action, "bottom-rm_2") == {"rm_2|0": 1.0}
    for action in ("left", "right"):
        assert shows(model, action, "top-rm_1") == shows(model, action, "bottom-rm_1") == {"rm_1|0": 1.0}
    assert shows(model, "up", "top-rm_1") == {"U|1": 1.0}
    assert shows(model, "up", "bottom-rm_1") == {"D|-1": 1.0}
    assert shows(model, "down", "top-rm_1") == {"U|-1": 1.0}
    assert shows(model, "down", "bottom-rm_1") == {"D|1": 1.0}


@pytest.mark.parametrize(
    ("model", "ahead"), [(domains.directional_hallway(), 0.8), (domains.noisy_hallway(), 0.5)]
)
def test_hallways(model, ahead):
    assert model.symbol_rewards is None
    np.testing.assert_allclose(model.initial, 1 / 3)
    assert moves(model, "left", "right") == {"middle": 0.8, "right": 0.2}
    assert moves(model, "left", "middle") == {"left": 0.8, "middle": 0.2}
    assert moves(model, "left", "left") == {"left": 1.0}
    assert moves(model, "right", "left") == {"middle": 0.8, "left": 0.2}
    assert moves(model, "right", "middle") == {"right": 0.8, "middle": 0.2}
    assert moves(model, "right", "right") == {"right": 1.0}
    for state in model.state_names:
        assert moves(model, "stay", state) == {state: 1.0}
        assert moves(model, "reset", state) == dict.fromkeys(model.state_names, 1 / 3)
        assert (
            shows(model, "stay", state) == shows(model, "reset", state) == {"end-left": 0.5, "end-right": 0.5}
        )
    for action in ("left", "right"):
        assert shows(model, action, "left") == {"end-left": 0.8, "end-right": pytest.approx(0.2)}
        assert shows(model, action, "right") == {"end-left": pytest.approx(0.2), "end-right": 0.8}
    assert shows(model, "left", "middle") == {"end-left": ahead, "end-right": pytest.approx(1 - ahead)}
    assert shows(model, "right", "middle") == {"end-right": ahead, "end-left": pytest.approx(1 - ahead)}


def test_the_unidentifiable_pair_is_two_models_with_one_hankel_matrix():
    first, second = domains.unidentifiable_pair()
    float_ = first.action_names.index("float")
    np.testing.assert_allclose(first.transitions[float_], [[0.4, 0.5, 0.1], [0.5, 0.1, 0.4], [0, 0.5, 0.5]])
    assert np.abs(first.transitions - second.transitions).max() > 0.1
    assert min(first.transitions.min(), second.transitions.min()) >= 0
    one, other = (exact_hankel(model, history_length=4, test_length=3) for model in (first, second))
    assert [block.tolist() for block in one.histories] == [block.tolist() for block in other.histories]
    np.testing.assert_allclose(one.toarray(), other.toarray(), atol=1e-12)
    np.testing.assert_allclose(one.extended.toarray(), other.extended.toarray(), atol=1e-12)
    np.testing.assert_allclose(one.empty_history, other.empty_history, atol=1e-12)
    np.testing.assert_allclose(one.empty_test, other.empty_test, atol=1e-12)


# --- rooms -----------------------------------------------------------------------------------------------


def test_a_room():
    model = domains.room(["abc", "a#b"], slip=0.1, wrong=0.2)
    assert model.emission == "arrival"
    assert model.action_names == ("up", "down", "left", "right")
    assert model.state_names == ("0,0", "0,1", "0,2", "1,0", "1,2")
    assert model.observation_names == ("a", "b", "c")
    assert model.terminal == ()
    assert model.symbol_rewards is None
    np.testing.assert_allclose(model.initial, 1 / 5)
    assert moves(model, "right", "0,0") == {"0,1": 0.9, "0,0": 0.1}
    assert moves(model, "down", "0,2") == {"1,2": 0.9, "0,2": 0.1}
    assert moves(model, "up", "1,0") == {"0,0": 0.9, "1,0": 0.1}
    assert moves(model, "left", "0,0") == moves(model, "up", "0,0") == {"0,0": 1.0}
    assert moves(model, "down", "0,1") == {"0,1": 1.0}  # a blocked cell stops as the border does
    for action in model.action_names:
        assert shows(model, action, "1,2") == {"b": 0.8, "a": 0.1, "c": 0.1}


def test_moves_in_a_room_without_slips_are_undone_by_their_opposites():
    model = domains.random_room(4, 3, rng=5)
    assert set(np.unique(model.transitions)) == {0.0, 1.0}
    opposite = {"up": "down", "left": "right", "down": "up", "right": "left"}
    for action, other in opposite.items():
        there, back = (model.transitions[model.action_names.index(name)] for name in (action, other))
        moved = np.diag(there) == 0
        np.testing.assert_array_equal((there @ back)[moved], np.eye(12)[moved])


def test_the_colors_of_a_room_may_be_an_array():
    grid = np.array([[3, 1], [1, 3], [2, 2]])
    assert domains.room(grid) == domains.room(["31", "13", "22"]) == domains.room(grid.tolist())
    named = domains.room([["red", "green"], ["#", "red"]])
    assert named.observation_names == ("green", "red")
    assert named.n_states == 3


@pytest.mark.parametrize("seed", range(10))
def test_the_cells_of_a_random_room_can_be_told_apart(seed):
    model = domains.random_room(3, 3, 2, rng=seed)
    assert model == domains.random_room(3, 3, 2, rng=np.random.default_rng(seed))
    assert (model.n_states, model.n_observations) == (9, 2)
    seen = model.observations[0].argmax(axis=1)[:, None]
    for _ in range(9):  # colors after every sequence of so many moves
        after = [seen[model.transitions[a].argmax(axis=1)] for a in range(4)]
        seen = np.unique(np.concatenate([seen, *after], axis=1), axis=1)
    assert len(np.unique(seen, axis=0)) == 9


# --- the frozen lake -------------------------------------------------------------------------------------


def test_the_frozen_lake():
    model = domains.frozen_lake()
    assert model.emission == "arrival"
    assert model.action_names == ("left", "down", "right", "up")
    assert model.n_states == 16
    assert model.initial.argmax() == 0
    assert model.initial.max() == 1
    assert model.terminal == (5, 7, 11, 12, 15)
    third = pytest.approx(1 / 3)
    assert moves(model, "right", "0") == {"0": third, "1": third, "4": third}
    assert moves(model, "left", "0") == {"0": pytest.approx(2 / 3), "4": third}
    assert moves(model, "down", "14") == {"13": third, "14": third, "15": third}
    assert moves(model, "up", "15") == {"15": 1.0}
    assert shows(model, "down", "15") == {"15|1": 1.0}
    assert shows(model, "down", "12") == {"12|0": 1.0}
    assert model.rewards[model.action_names.index("right"), 14] == third
    assert model.rewards[:, model.terminal].max() == 0
    assert model.first_observation_names == tuple(map(str, range(16)))
    np.testing.assert_array_equal(model.first_observations, np.eye(16))


def test_a_lake_that_is_not_slippery_and_shows_only_columns():
    model = domains.frozen_lake(slippery=False, observe="column")
    assert moves(model, "right", "0") == {"1": 1.0}
    assert moves(model, "up", "0") == {"0": 1.0}
    assert shows(model, "right", "1") == shows(model, "left", "9") == {"1|0": 1.0}
    assert model.observation_names == ("0|0", "1|0", "2|0", "3|0", "3|1")
    assert model.first_observation_names == ("0", "1", "2", "3")
    assert domains.frozen_lake(observe="row").first_observation_names == ("0", "1", "2", "3")


def test_a_lake_of_one_s_own():
    model = domains.frozen_lake(lake=["SHS", "FFG"], slippery=False)
    assert model.initial.tolist() == [0.5, 0, 0.5, 0, 0, 0]
    assert model.terminal == (1, 5)
    assert moves(model, "right", "4") == {"5": 1.0}
    assert domains.frozen_lake(8).n_states == 64


def success(model, steps):
    """The largest probability to reach the goal, within so many steps."""
    values = np.zeros(model.n_states)
    for _ in range(steps):
        values = (model.rewards + model.transitions @ values).max(axis=0)
    return float(model.initial @ values)


def test_how_often_the_best_policy_crosses_the_frozen_lake():
    model = domains.frozen_lake()
    assert success(model, 100) == pytest.approx(0.74, abs=0.005)
    assert success(model, 5_000) == pytest.approx(14 / 17)
    assert success(domains.frozen_lake(slippery=False), 6) == 1
    assert success(domains.frozen_lake(slippery=False), 5) == 0


@pytest.mark.parametrize("slippery", [True, False])
@pytest.mark.parametrize("size", [4, 8])
def test_the_frozen_lake_is_gymnasium_s(size, slippery):
    gymnasium = pytest.importorskip("gymnasium")
    theirs = gymnasium.make("FrozenLake-v1", map_name=f"{size}x{size}", is_slippery=slippery).unwrapped
    ours = domains.frozen_lake(size, slippery=slippery)
    transitions, rewards = np.zeros(ours.transitions.shape), np.zeros(ours.rewards.shape)
    for state, actions in theirs.P.items():
        for action, outcomes in actions.items():
            for probability, following, reward, ended in outcomes:
                transitions[action, state, following] += probability
                rewards[action, state] += probability * reward
                assert ended == (following in ours.terminal)
    np.testing.assert_allclose(ours.transitions, transitions, atol=1e-12)
    np.testing.assert_allclose(ours.rewards, rewards, atol=1e-12)
    np.testing.assert_allclose(ours.initial, theirs.initial_state_distrib, atol=1e-12)


# --- the lockbox -----------------------------------------------------------------------------------------


def test_the_lockbox():
    model = domains.lockbox()
    assert model.emission == "arrival"
    assert model.n_states == 9
    assert model.state_names[-1] == "open"
    assert model.terminal == (8,)
    assert model.initial[model.state_names.index("000")] == 1
    assert moves(model, "push-0", "000") == {"100": 0.9, "000": 0.1}
    assert moves(model, "push-0", "101") == {"001": 0.9, "101": 0.1}
    assert moves(model, "push-1", "001") == {"001": 1.0}
    assert moves(model, "push-1", "101") == {"111": 0.9, "101": 0.1}
    assert moves(model, "push-2", "011") == {"010": 0.9, "011": 0.1}
    assert moves(model, "open", "110") == {"110": 1.0}
    assert moves(model, "open", "001") == {"open": 0.9, "001": 0.1}
    assert shows(model, "push-1", "100") == shows(model, "open", "001") == {"moves|0": 0.95, "stuck|0": 0.05}
    assert shows(model, "push-1", "011") == shows(model, "open", "110") == {"moves|0": 0.05, "stuck|0": 0.95}
    assert shows(model, "open", "open") == {"open|1": 1.0}
    assert model.first_observations is None


def test_what_a_push_shows_is_whether_the_joint_was_free():
    """With arrival emission the state reached shows it, the same as if the state left did."""
    model = domains.lockbox(3, locks=[(2, 0), None, (1, 1), (0, 1)], fail=0.3)
    for a in range(model.n_actions):
        for left, reached in zip(*np.nonzero(model.transitions[a]), strict=True):
            if reached not in model.terminal:
                np.testing.assert_array_equal(model.observations[a, left], model.observations[a, reached])


def test_every_position_of_the_lockbox_can_be_reached_and_the_box_be_opened():
    for model in (domains.lockbox(4), domains.lockbox(2, locks=[None, (0, 1), (1, 0)])):
        reached = model.initial > 0
        for _ in range(model.n_states**2):
            reached = reached | (reached @ model.transitions.any(axis=0))
        assert reached.all()
    assert success(domains.lockbox(fail=0.0), 4) == 1
    assert success(domains.lockbox(fail=0.0), 3) == 0
    assert success(domains.lockbox(fail=0.1), 4) == pytest.approx(0.9**4)


def test_a_lockbox_may_have_locks_of_its_own():
    model = domains.lockbox(2, locks=[(1, 0), None, (0, 1)])
    assert moves(model, "push-0", "00") == {"10": 0.9, "00": 0.1}
    assert moves(model, "push-0", "01") == {"01": 1.0}
    assert moves(model, "push-1", "10") == {"11": 0.9, "10": 0.1}
    assert moves(model, "open", "11") == {"open": 0.9, "11": 0.1}


# --- what cannot be --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "build",
    [
        lambda: domains.tmaze(rooms=0),
        lambda: domains.tmaze(rooms=1.5),
        lambda: domains.tmaze(rooms=True),
        lambda: domains.tmaze(fail=-0.1),
        lambda: domains.tmaze(fail=float("nan")),
        lambda: domains.sense_float_reset(1),
        lambda: domains.by_name("lion"),
        lambda: domains.by_name("tmaze:rooms=many"),
        lambda: domains.by_name("tmaze:windows=3"),
        lambda: domains.by_name("sense-float-reset:reward=no"),
        lambda: domains.room([]),
        lambda: domains.room(7),
        lambda: domains.room(["ab", "a"]),
        lambda: domains.room([[1, 2], [3]]),
        lambda: domains.room(["##", "##"]),
        lambda: domains.room(["aa"], wrong=0.1),
        lambda: domains.room(["ab"], slip=1.5),
        lambda: domains.random_room(0, 3, rng=0),
        lambda: domains.random_room(1, 3, 4, rng=0),
        lambda: domains.random_room(2, 2, 2, rng=-1),
        lambda: domains.random_room(5, 5, 25, rng=0),
        lambda: domains.by_name("room:rows=2,columns=1,colors=3"),
        lambda: domains.frozen_lake(5),
        lambda: domains.frozen_lake(lake="SG"),
        lambda: domains.frozen_lake(lake=["SF", "G"]),
        lambda: domains.frozen_lake(lake=["SX"]),
        lambda: domains.frozen_lake(lake=["FG"]),
        lambda: domains.frozen_lake(slippery=1),
        lambda: domains.by_name("frozen-lake:observe=everything"),
        lambda: domains.lockbox(0),
        lambda: domains.lockbox(10**6),
        lambda: domains.lockbox(fail=2.0),
        lambda: domains.lockbox(2, locks=[None, (0, 1)]),
        lambda: domains.lockbox(2, locks=[None, (1, 1), (1, 1)]),
        lambda: domains.lockbox(2, locks=[None, (0, 2), (1, 1)]),
        lambda: domains.lockbox(2, locks=[None, (2, 0), (1, 1)]),
    ],
)
def test_parameters_that_make_no_sense(build):
    with pytest.raises(UsageError):
        build()


def test_by_name():
    assert domains.by_name("tmaze:rooms=2,fail=0.1") == domains.tmaze(rooms=2, fail=0.1)
    assert domains.by_name("sense_float_reset:states=4,reward=false") == domains.sense_float_reset(
        4, reward=False
    )
    assert domains.by_name("room:rows=2,columns=5,colors=3,wrong=0.1,seed=4") == domains.random_room(
        2, 5, 3, wrong=0.1, rng=4
    )
    assert domains.by_name("frozen-lake:slippery=false,observe=column") == domains.frozen_lake(
        slippery=False, observe="column"
    )
    assert domains.by_name("lockbox:joints=2") == domains.lockbox(2)
    assert all(domains.by_name(name).n_states >= 2 for name in domains.NAMES)


@pytest.mark.parametrize(
    "text",
    [
        "tmaze:rooms=20000",
        "sense-float-reset:states=100000",
        "room:rows=1000,columns=1000",
        "lockbox:joints=20",
    ],
)
def test_a_domain_that_does_not_fit_is_refused_before_it_is_made(text, monkeypatch):
    monkeypatch.setattr("unlatch.core.memory.available_memory", lambda: 10**10)
    with pytest.raises(
        ResourceLimitError, match=r"a domain of \d+ states would take .* ask for a smaller one"
    ):
        domains.by_name(text)


@pytest.mark.parametrize(
    "text", ["tmaze:rooms=1e30", f"tmaze:rooms={10**30}", f"tmaze:rooms={'9' * 5000}", "tmaze:fail=true"]
)
def test_sizes_beyond_reason_are_refused(text):
    with pytest.raises(UsageError, match="must be"):
        domains.by_name(text)


def test_updates_that_do_not_fit_are_refused(monkeypatch):
    maze = domains.tmaze(100)
    monkeypatch.setattr("unlatch.core.memory.available_memory", lambda: 10**6)
    with pytest.raises(ResourceLimitError, match="the updates of POMDP"):
        maze.to_psr()
