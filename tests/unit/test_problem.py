"""Problems: a model, a reward on it, a discount; and rewards by transition."""

import numpy as np
import pytest

from unlatch import POMDP, ExactPlanner, Problem, Reward, domains, run_episodes
from unlatch.errors import DataError, UsageError

TIGER = domains.tiger()
PAYS = np.array([[-1.0, -1.0], [-100.0, 10.0], [10.0, -100.0]])


def random_model(emission, seed=0, terminal=()):
    rng = np.random.default_rng(seed)
    moves = rng.dirichlet(np.ones(3), size=(2, 3))
    moves[:, list(terminal)] = np.eye(3)[list(terminal)]
    return POMDP(moves, rng.dirichlet(np.ones(2), size=(2, 3)), [0.5, 0.5, 0], emission, terminal=terminal)


def naive_pay(model, table, action, state):
    """Expected pay by going through everything that can happen."""
    total = 0.0
    for t in range(model.n_states):
        for o in range(model.n_observations):
            shows = model.observations[action, state if model.emission == "departure" else t, o]
            total += model.transitions[action, state, t] * shows * table[action, state, t, o]
    return total


@pytest.mark.parametrize("emission", ["departure", "arrival"])
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 3), (2, 3, 3, 2), (2, 3, 1, 2)])
def test_rewards_on_transitions_are_what_is_expected(emission, shape):
    model = random_model(emission)
    table = np.random.default_rng(1).normal(size=shape)
    full = np.broadcast_to(table.reshape(shape + (1,) * (4 - len(shape))), (2, 3, 3, 2))
    paid = Problem(model, Reward.on_transitions(table)).rewards
    wanted = [[naive_pay(model, full, a, s) for s in range(3)] for a in range(2)]
    assert np.allclose(paid, wanted, atol=1e-14)


def test_rewards_by_action_and_state_give_the_same_plan_as_those_of_the_symbols():
    by_symbol, by_state = Problem(TIGER), Problem(TIGER, Reward.on_transitions(PAYS))
    assert np.allclose(by_symbol.rewards, PAYS)
    assert np.allclose(by_symbol.rewards, by_state.rewards)
    plans = [ExactPlanner(TIGER, problem.reward, horizon=6).value() for problem in (by_symbol, by_state)]
    assert plans[0] == pytest.approx(plans[1], abs=1e-12)
    assert plans[0] != pytest.approx(ExactPlanner(TIGER, Reward.on_transitions(-PAYS), horizon=6).value())


def test_episodes_pay_by_the_action_that_was_taken():
    class AlwaysLeft:
        model = TIGER

        def reset(self):
            pass

        def action(self):
            return 1

        def observe(self, action, observation):
            pass

    pays = np.array([[5.0, 5.0], [2.0, 2.0], [7.0, 7.0]])
    played = run_episodes(TIGER, AlwaysLeft(), episodes=3, steps=4, reward=Reward.on_transitions(pays), rng=0)
    assert played.rewards.tolist() == [8.0, 8.0, 8.0]


def test_a_terminal_state_pays_nothing():
    model = random_model("arrival", terminal=(2,))
    problem = Problem(model, Reward.on_transitions(np.ones((2, 3))))
    assert problem.rewards.tolist() == [[1, 1, 0], [1, 1, 0]]
    assert problem.terminal == (2,)


def test_the_reward_of_a_problem_is_the_models_own_unless_another_is_named():
    assert Problem(TIGER) == Problem(TIGER, Reward.learned(TIGER), discount=0.95)
    assert Problem(TIGER) != Problem(TIGER, discount=0.9)
    assert Problem(TIGER) != Problem(TIGER, Reward.on_transitions(PAYS))
    with pytest.raises(UsageError, match="carry no rewards"):
        Problem(domains.noisy_hallway())


@pytest.mark.parametrize("discount", [-0.1, 1.01, np.nan, np.inf, "0.9", None, True])
def test_a_discount_is_a_number_from_0_to_1(discount):
    with pytest.raises(UsageError, match="discount"):
        Problem(TIGER, discount=discount)


def test_a_problem_needs_a_model_and_a_reward_that_fit():
    with pytest.raises(UsageError, match="a problem needs a POMDP"):
        Problem(object())
    with pytest.raises(UsageError, match="expected a Reward"):
        Problem(TIGER, {"listen": 1})
    with pytest.raises(DataError, match=r"shape \(2, 2, 1, 1\) for 3 actions"):
        Problem(TIGER, Reward.on_transitions(np.ones((2, 2))))
    with pytest.raises(DataError, match="observations"):
        Problem(TIGER, Reward.on_transitions(np.ones((3, 2, 2, 2))))
    with pytest.raises(UsageError, match="does not tell apart"):
        Problem(TIGER.to_psr(), Reward.on_transitions(PAYS))
    with pytest.raises(UsageError, match="does not tell its states apart"):
        _ = Problem(TIGER.to_psr()).rewards


@pytest.mark.parametrize("table", [1.0, [1.0], np.ones((1,) * 5), np.empty((2, 0))])
def test_rewards_on_transitions_have_two_to_four_axes(table):
    with pytest.raises(UsageError, match="rewards on transitions"):
        Reward.on_transitions(table)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rewards_on_transitions_are_finite(value):
    with pytest.raises(DataError, match="rewards"):
        Reward.on_transitions([[value, 1.0]])


def test_equal_tables_are_equal_rewards():
    one, other = Reward.on_transitions(PAYS), Reward.on_transitions(PAYS.copy())
    assert one == other
    assert hash(one) == hash(other)
    assert one != Reward.on_transitions(PAYS + 1)
    assert one != Reward.learned(TIGER)
    assert "from -100 to 10" in repr(one)
    assert "transitions" in Problem(TIGER, one)._repr_html_()
    with pytest.raises(ValueError, match="read-only"):
        one.table[0] = 0


def test_a_ragged_table_of_rewards_is_refused():
    with pytest.raises(DataError, match="lists of different lengths"):
        Reward.on_transitions([[1.0, 2.0], [1.0]])
