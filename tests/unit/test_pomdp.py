"""The explicit model: validation, repair, the triple, belief and rewards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import naive
from unlatch import POMDP, Trajectory, domains
from unlatch.errors import BeliefCollapseError, BeliefCollapseWarning, DataError, RepairWarning, UsageError

ARRAYS = {
    "transitions": np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.5, 0.5]]]),
    "observations": np.array([[[1.0, 0.0], [0.3, 0.7]], [[0.5, 0.5], [0.25, 0.75]]]),
    "initial": np.array([0.25, 0.75]),
}


def model_of(**fields):
    return POMDP(**{**ARRAYS, **fields})


def changed(field, place, value):
    array = ARRAYS[field].copy()
    array[place] = value
    return {field: array}


def test_built_from_plain_arrays():
    model = model_of(emission="arrival")
    assert (model.n_states, model.n_actions, model.n_observations) == (2, 2, 2)
    assert model.action_names == model.observation_names == model.state_names == ("0", "1")
    assert model.symbol_rewards is model.rewards is None
    assert repr(model) == "POMDP(2 states, 2 actions, 2 observations, emission='arrival')"
    for field, array in ARRAYS.items():
        assert np.array_equal(getattr(model, field), array)
        assert not getattr(model, field).flags.writeable


@pytest.mark.parametrize("field", ARRAYS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(field, value):
    with pytest.raises(DataError, match=rf"{field}\[.*\] is .*; every entry must be finite"):
        model_of(**changed(field, (0,) * ARRAYS[field].ndim, value))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (changed("transitions", (1, 0, 1), 0.4), r"transitions: row \[1, 0\] sums to"),
        (changed("initial", 0, 0.2), "initial: the vector sums to"),
        (changed("initial", 0, 0.25002), "initial: the vector sums to"),
        (changed("observations", (0, 1), [1.1, -0.1]), r"observations\[0, 1, 1\] is -0.1"),
        ({"transitions": np.ones((2, 2))}, "expected 3 dimensions"),
        ({"transitions": "model"}, "real numbers"),
        ({"transitions": [[[1.0], [0.5, 0.5]]]}, "real numbers"),
        ({"transitions": np.ones((2, 2, 2), dtype=complex) / 2}, "dtype complex128"),
        ({"initial": [1.0, 0.0, 0.0]}, "shapes do not fit together"),
        ({"observations": np.ones((1, 2, 1))}, "shapes do not fit together"),
        ({"observations": np.ones((2, 2, 0))}, "last axis is empty"),
        (
            {"transitions": np.ones((0, 2, 2)), "observations": np.ones((0, 2, 2))},
            "shapes do not fit together",
        ),
        ({"action_names": ["a"]}, "action_names: 1 names for 2"),
        ({"state_names": ["s", "s"]}, "state_names: the name 's' stands twice"),
        ({"symbol_rewards": [1.0]}, "1 rewards for 2"),
        ({"symbol_rewards": [1.0, np.nan]}, r"symbol_rewards\[1\] is nan"),
    ],
)
def test_what_is_no_model_is_refused(fields, message):
    with pytest.raises(DataError, match=message):
        model_of(**fields)


def test_unknown_emission():
    with pytest.raises(UsageError, match="'departure' or 'arrival', got 'sideways'"):
        model_of(emission="sideways")


# --- repair of what is slightly off -----------------------------------------------------------------------


def test_rounding_is_left_bit_for_bit():
    initial = np.array([0.7, 0.2, 0.1])
    assert initial.sum() != 1
    model = POMDP(transitions=np.eye(3)[None], observations=np.ones((1, 3, 1)), initial=initial)
    assert np.array_equal(model.initial, initial)


def test_rows_slightly_off_are_renormalized_with_a_warning():
    with pytest.warns(RepairWarning, match="initial: 1 rows off by up to 1.0e-06"):
        model = model_of(initial=[0.25, 0.750001])
    assert model.initial.sum() == pytest.approx(1, abs=1e-15)
    rows = np.array([[[0.7, 0.2, 0.1], [0.7, 0.2, 0.1 + 1e-7]]] * 2)
    with pytest.warns(RepairWarning, match="observations: 2 rows"):
        model = model_of(observations=rows)
    assert model.observations[:, 1].sum(axis=1).tolist() == pytest.approx([1, 1], abs=1e-15)
    assert np.array_equal(model.observations[:, 0], rows[:, 0])  # rows that are right but for rounding stay


def test_negative_rounding_is_set_to_zero_with_a_warning():
    with pytest.warns(RepairWarning, match="negatives down to -1.0e-13"):
        model = model_of(initial=[1.0, -1e-13])
    assert model.initial.tolist() == [1.0, 0.0]


def test_float32_rows_are_cast_and_renormalized_once():
    rows = np.full((2, 2, 3), 1 / 3, dtype=np.float32)
    rows[..., 0] += np.float32(1e-6)
    with pytest.warns(RepairWarning):
        model = model_of(observations=rows)
    assert model.observations.dtype == np.float64
    np.testing.assert_allclose(model.observations.sum(axis=2), 1, atol=1e-15)


def test_tiny_probabilities_and_zeros_survive():
    model = model_of(initial=[1.0, 1e-300])
    assert model.initial.tolist() == [1.0, 1e-300]
    assert model.observations[0, 0, 1] == 0.0
    assert model.updates[0, 1, 0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "layout", [np.asfortranarray, lambda x: x.astype(">f8"), lambda x: np.repeat(x, 2, 0)[::2]]
)
def test_any_layout_of_the_same_numbers_is_the_same_model(layout):
    given = {field: layout(array) for field, array in ARRAYS.items()}
    before = {field: array.copy() for field, array in given.items()}
    assert model_of(**given) == model_of()
    assert all(np.array_equal(given[field], before[field]) for field in given)


# --- the triple -------------------------------------------------------------------------------------------


def test_updates_of_departure_and_arrival():
    departure, arrival = model_of(), model_of(emission="arrival")
    for a in range(2):
        for o in range(2):
            shown, moved = np.diag(ARRAYS["observations"][a, :, o]), ARRAYS["transitions"][a]
            np.testing.assert_allclose(departure.updates[a, o], shown @ moved, atol=1e-16)
            np.testing.assert_allclose(arrival.updates[a, o], moved @ shown, atol=1e-16)
    np.testing.assert_allclose(arrival.updates.sum(axis=1), ARRAYS["transitions"], atol=1e-15)
    assert departure.to_psr().final.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_likelihood_adds_up_over_episodes(rng, emission):
    model = naive.random_pomdp(rng, emission=emission)
    log = Trajectory(actions=[0, 1, 1, 0, 1], observations=[2, 0, 1, 1, 2], episode_starts=[0, 3])
    expected = [
        np.log(naive.path_probability(model, part.actions, part.observations))
        for part in (log.episode(0), log.episode(1))
    ]
    assert model.log_likelihood(log) == pytest.approx(sum(expected), abs=1e-12)
    np.testing.assert_allclose(model.belief(log), model.belief(log.episode(1)), atol=1e-15)


def test_belief_is_bayes_rule():
    model = model_of()
    log = Trajectory(actions=[0], observations=[0], action_names=("0", "1"), observation_names=("0", "1"))
    weights = np.array([0.25 * 1.0, 0.75 * 0.3])
    np.testing.assert_allclose(model.belief(log), weights / weights.sum() @ ARRAYS["transitions"][0])
    np.testing.assert_allclose(model.predict(model.initial)[0], [weights.sum(), 1 - weights.sum()])


def test_the_empty_log():
    log = Trajectory(actions=[], observations=[])
    assert model_of().log_likelihood(log) == 0.0
    assert model_of().belief(log).tolist() == [0.25, 0.75]


def test_the_impossible_has_no_likelihood_and_collapses_the_belief():
    model = domains.sense_float_reset(3)
    log = Trajectory.from_symbols(["reset", "sense", "sense"], ["1|0", "1|0", "0|0"])
    assert model.log_likelihood(log) == -np.inf
    with pytest.raises(BeliefCollapseError, match=r"step 2: observation '0\|0' after action 'sense'"):
        model.belief(log, impossible="raise")
    with pytest.warns(BeliefCollapseWarning, match="impossible under the model: 1, the first at step 2"):
        assert model.belief(log).sum() == pytest.approx(1.0)


def test_an_impossible_episode_does_not_spoil_the_belief_after_the_next():
    log = Trajectory.from_symbols(["sense", "sense"], ["0|0", "1|0"], episode_starts=[0, 1])
    model = domains.sense_float_reset(3)
    assert model.log_likelihood(log) == -np.inf
    assert model.belief(log).tolist() == [1.0, 0.0, 0.0]


def test_logs_are_matched_by_name():
    model = model_of(action_names=["go", "stay"], observation_names=["dark", "light"])
    here = Trajectory.from_symbols(["stay", "go", "stay"], ["light", "dark", "light"])
    coded = Trajectory(actions=[1, 0, 1], observations=[1, 0, 1])
    assert model.log_likelihood(here) == model_of().log_likelihood(coded)
    with pytest.raises(
        DataError, match="unknown observation 'loud' at step 1: the model knows 'dark', 'light'"
    ):
        model.belief(Trajectory.from_symbols(["go", "go"], ["dark", "loud"]))


@pytest.mark.parametrize("bad", [[np.nan, 1.0], [np.inf, 0.0], [1.0], [[0.5, 0.5]], ["a", "b"]])
def test_predict_wants_a_belief(bad):
    with pytest.raises(DataError, match="belief"):
        model_of().predict(bad)


# --- rewards ----------------------------------------------------------------------------------------------


def test_rewards_of_departure_and_arrival():
    worth = np.array([1.0, -2.0])
    departure = model_of(symbol_rewards=worth)
    arrival = model_of(symbol_rewards=worth, emission="arrival")
    assert departure.rewards[0, 1] == pytest.approx(0.3 * 1 + 0.7 * -2)
    assert arrival.rewards[0, 1] == pytest.approx(0.2 * 1 + 0.8 * (0.3 * 1 + 0.7 * -2))


def test_a_log_with_rewards_apart_meets_a_model_of_pairs():
    tiger = domains.tiger()
    apart = Trajectory.from_symbols(
        ["listen", "listen", "open-left"], ["hear-left", "hear-right", "hear-left"], rewards=[-1, -1, 10]
    )
    pairs = Trajectory.from_symbols(
        ["listen", "listen", "open-left"], ["hear-left|-1", "hear-right|-1", "hear-left|10"]
    )
    assert tiger.log_likelihood(apart) == tiger.log_likelihood(pairs) > -np.inf
    wrong = Trajectory.from_symbols(["listen"], ["hear-left|-1"], rewards=[7.0])
    with pytest.raises(DataError, match=r"step 0: observation 'hear-left\|-1' came with reward 7.0"):
        tiger.log_likelihood(wrong)


# --- order and equality -----------------------------------------------------------------------------------


def test_reordering_moves_everything():
    model = model_of(state_names=["x", "y"], symbol_rewards=[1.0, 0.0])
    turned = model.reordered([1, 0])
    assert turned.state_names == ("y", "x")
    assert turned.initial.tolist() == [0.75, 0.25]
    assert turned.transitions[0, 0].tolist() == [0.8, 0.2]
    assert turned.observations[1, 0].tolist() == [0.25, 0.75]
    assert turned != model
    assert turned.reordered([1, 0]) == model
    for order in ([0, 0], [0], [0, 1, 2]):
        with pytest.raises(DataError, match="permutation of the 2 states"):
            model.reordered(order)


@pytest.mark.parametrize(
    "fields",
    [
        {"emission": "arrival"},
        {"action_names": ["a", "b"]},
        {"observation_names": ["a", "b"]},
        {"state_names": ["a", "b"]},
        {"symbol_rewards": [0.0, 0.0]},
        changed("initial", slice(None), [0.5, 0.5]),
        changed("transitions", (0, 0), [0.5, 0.5]),
        changed("observations", (0, 0), [0.5, 0.5]),
    ],
)
def test_models_that_differ_in_one_field_are_unequal(fields):
    assert model_of() == model_of()
    assert model_of() != model_of(**fields)
    assert model_of() != "model"


def test_stationary_under_a_policy():
    model = model_of()
    for policy in (None, [0.5, 0.5], [1.0, 0.0], [0.2, 0.8]):
        chain = np.tensordot([0.5, 0.5] if policy is None else policy, ARRAYS["transitions"], 1)
        start = model.stationary(policy)
        np.testing.assert_allclose(start @ chain, start, atol=1e-15)
    np.testing.assert_allclose(model.stationary([1.0, 0.0]), [2 / 3, 1 / 3], atol=1e-15)


@pytest.mark.parametrize("policy", [[1.0], [0.5, 0.6], [1.5, -0.5], [np.nan, 1.0], "ab", [[0.5, 0.5]]])
def test_what_is_no_policy(policy):
    with pytest.raises(DataError, match="policy"):
        model_of().stationary(policy)


# --- endings, first observations, rewards beside observations ---------------------------------------------

LASTING = {
    "transitions": [[[0.5, 0.5, 0, 0], [0.1, 0.2, 0.3, 0.4], [0, 0, 1, 0], [0, 0, 0, 1]]],
    "observations": [[[1, 0], [0.3, 0.7], [0, 1], [0.5, 0.5]]],
    "initial": [1, 0, 0, 0],
    "state_names": ["hall", "room", "won", "lost"],
}


def lasting(**fields):
    return POMDP(**{**LASTING, **fields})


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (2, (2,)),
        (np.int64(3), (3,)),
        ("won", (2,)),
        (["lost", "won"], (2, 3)),
        ((3, 2, 3), (2, 3)),
        ({3}, (3,)),
        (np.array([2, 3]), (2, 3)),
        ([2, "lost"], (2, 3)),
        ([], ()),
        (None, ()),
    ],
)
def test_terminal_states_are_indices_or_names(given, kept):
    model = lasting(terminal=given)
    assert model.terminal == kept
    assert all(type(state) is int for state in model.terminal)
    assert ("terminal" in repr(model)) == bool(kept)
    assert model.going_on.tolist() == [0.0 if s in kept else 1 / (4 - len(kept)) for s in range(4)]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"terminal": 4}, "terminal: 4 is no state of the model, which has 4"),
        ({"terminal": -1}, "-1 is no state"),
        ({"terminal": "attic"}, "'attic' is no state"),
        ({"terminal": [True]}, "True is no state"),
        ({"terminal": [2.0]}, "2.0 is no state"),
        ({"terminal": 2.5}, "terminal: expected states, got 2.5"),
        ({"terminal": range(4)}, "every state is; an episode needs one to begin in"),
        ({"terminal": "room"}, "nothing more happens in state 'room', so that every action must leave it"),
        ({"terminal": 2, "initial": [0.5, 0, 0.5, 0]}, "an episode cannot start in state 'won'"),
    ],
)
def test_terminal_states_must_be_the_end(fields, message):
    with pytest.raises(DataError, match=message) as caught:
        lasting(**fields)
    assert caught.value.field == "terminal"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"first_observations": np.ones((3, 2)) / 2},
            r"first_observations: shape \(3, 2\) for 4 states and 2 names",
        ),
        ({"first_observations": np.ones((4, 3)) / 3}, r"shape \(4, 3\) for 4 states and 2 names"),
        ({"first_observations": np.ones((4, 2))}, r"first_observations: row \[0\] sums to 2"),
        ({"first_observations": np.ones(4) / 4}, "first_observations: expected 2 dimensions"),
        ({"first_observations": np.ones((4, 1)), "first_observation_names": "a"}, "sequence of text names"),
        ({"first_observations": np.ones((4, 2)) / 2, "first_observation_names": ["a", "a"]}, "stands twice"),
        ({"reward_values": [1.0]}, "belong together; give both or neither"),
        ({"reward_probabilities": np.ones((1, 4, 1))}, "belong together; give both or neither"),
        (
            {"reward_values": [1.0, 1.0], "reward_probabilities": np.ones((1, 4, 2)) / 2},
            "which must increase",
        ),
        (
            {"reward_values": [1.0, 2.0], "reward_probabilities": np.ones((1, 4, 1))},
            r"shape \(1, 4, 1\) for 1 actions",
        ),
        (
            {"reward_values": [np.inf], "reward_probabilities": np.ones((1, 4, 1))},
            r"reward_values\[0\] is inf",
        ),
        (
            {"reward_values": [1.0], "reward_probabilities": np.ones((1, 4, 1)) / 2},
            "reward_probabilities: row",
        ),
        (
            {"reward_values": [1.0], "reward_probabilities": np.ones((1, 4, 1)), "symbol_rewards": [0, 1]},
            "with the symbols or beside them, not both",
        ),
    ],
)
def test_first_observations_and_rewards_must_fit(fields, message):
    with pytest.raises(DataError, match=message):
        lasting(**fields)


EVERYTHING = {
    "terminal": ("won", "lost"),
    "first_observations": [[0.9, 0.1, 0], [0.2, 0.3, 0.5], [1, 0, 0], [1, 0, 0]],
    "first_observation_names": ["a", "b", "c"],
    "reward_values": [-1, 10],
    "reward_probabilities": [[[0.5, 0.5], [1, 0], [0, 1], [0, 1]]],
}


def test_rewards_of_terminal_states_are_zero():
    assert lasting(**EVERYTHING).rewards.tolist() == [[4.5, -1.0, 0.0, 0.0]]
    for emission in ("departure", "arrival"):
        model = lasting(terminal=(2, 3), symbol_rewards=[1.0, 2.0], emission=emission)
        shown = model.observations[0] @ [1.0, 2.0]
        by_hand = shown if emission == "departure" else model.transitions[0] @ shown
        np.testing.assert_allclose(model.rewards[0, :2], by_hand[:2])
        assert model.rewards[0, 2:].tolist() == [0.0, 0.0]


def test_what_a_terminal_state_shows_means_something_on_arrival_only():
    assert lasting(terminal=(2, 3)).showing.tolist() == [True, True, False, False]
    assert lasting(terminal=(2, 3), emission="arrival").showing.all()
    assert lasting().showing.all()


def test_first_observations_are_named_as_observations_by_default():
    model = lasting(first_observations=np.ones((4, 2)) / 2, observation_names=["x", "y"])
    assert model.first_observation_names == ("x", "y")
    assert lasting().first_observations is None
    assert lasting().first_observation_names == ()


def test_reordering_moves_endings_first_observations_and_rewards():
    model = lasting(**EVERYTHING)
    turned = model.reordered([3, 0, 2, 1])
    assert turned.terminal == (0, 2)
    assert [turned.state_names[s] for s in turned.terminal] == ["lost", "won"]
    assert turned.first_observations[3].tolist() == [0.2, 0.3, 0.5]
    assert turned.reward_probabilities[0, 1].tolist() == [0.5, 0.5]
    assert turned.reordered([1, 3, 2, 0]) == model


@pytest.mark.parametrize(
    "fields",
    [
        {"terminal": ("won",)},
        {"first_observations": None},
        {"first_observations": [[1, 0, 0]] * 4},
        {"first_observation_names": ["a", "b", "d"]},
        {"reward_values": [-2, 10]},
        {"reward_values": None, "reward_probabilities": None},
        {"reward_probabilities": [[[1, 0]] * 4]},
    ],
)
def test_models_that_end_or_begin_otherwise_are_unequal(fields):
    assert lasting(**EVERYTHING) == lasting(**EVERYTHING)
    assert lasting(**EVERYTHING) != lasting(**{**EVERYTHING, **fields})


# --- actions that the log never tried -----------------------------------------------------------------------


def test_untried_actions_are_kept_and_compared():
    model = replace(domains.tiger(), untried_actions=["open-right", "listen"])
    assert model.untried_actions == ("listen", "open-right")  # in the order of the alphabet
    assert model != domains.tiger()
    assert model == replace(domains.tiger(), untried_actions=("listen", "open-right"))
    assert model.reordered([1, 0]).untried_actions == model.untried_actions
    assert replace(model, initial=[1.0, 0.0]).untried_actions == model.untried_actions
    assert "untried_actions=('listen', 'open-right')" in repr(model)
    assert domains.tiger().untried_actions == ()


@pytest.mark.parametrize("untried", ["listen", ("run",), (0,), None, 3])
def test_untried_actions_must_be_action_names(untried):
    with pytest.raises(DataError, match="untried_actions") as caught:
        replace(domains.tiger(), untried_actions=untried)
    assert caught.value.field == "untried_actions"


@pytest.mark.parametrize(
    "model", [domains.tmaze(2), domains.lockbox(), domains.frozen_lake(observe="column")]
)
def test_predictions_go_by_rows_and_agree_with_those_of_the_triple(model, monkeypatch):
    belief = np.random.default_rng(0).dirichlet(np.ones(model.n_states))
    expected = model.to_psr().predict(belief)
    fresh = replace(model)
    monkeypatch.setattr(
        POMDP, "updates", property(lambda _: pytest.fail("a table of all events is not needed"))
    )
    assert fresh.predict(belief) == pytest.approx(expected, abs=1e-14)
    with pytest.raises(DataError, match="entries for"):
        fresh.predict(belief[:-1])
