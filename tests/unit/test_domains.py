"""The paper's domains, number by number."""

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
    assert all(domains.by_name(name).n_states >= 2 for name in domains.NAMES)


@pytest.mark.parametrize("text", ["tmaze:rooms=20000", "sense-float-reset:states=100000"])
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
