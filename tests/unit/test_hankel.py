"""The Hankel matrix, estimated and exact, entry by entry."""

from __future__ import annotations

import numpy as np
import pytest

import naive
from unlatch import Trajectory, count_sequences, domains, estimate_hankel, exact_hankel, simulate
from unlatch.errors import DataError, ResourceLimitError, UsageError
from unlatch.learn.spectral import exact_hankel as module
from unlatch.learn.spectral.windows import BLOCKS, noise_blocks

LOG = simulate(domains.tiger(), 300, episodes=2, rng=0)


def estimate(log, history_length=3, test_length=2):
    return estimate_hankel(count_sequences(log, history_length=history_length, test_length=test_length))


def sequences(blocks, n_observations):
    """Histories or tests as tuples of (action, observation)."""
    return [tuple(divmod(code, n_observations) for code in row) for block in blocks for row in block.tolist()]


def frequency(windows, window):
    """Count of the window over the count of its action sequence."""
    actions = [a for a, _ in window]
    tried = sum(n for w, n in windows.items() if [a for a, _ in w] == actions)
    return windows.get(window, 0) / tried if tried else 0.0


def test_every_entry_is_a_relative_frequency():
    hankel = estimate(LOG)
    windows = naive.count_windows(LOG, 5)
    histories, tests = sequences(hankel.histories, 6), sequences(hankel.tests, 6)
    assert histories == sorted({w for w in windows if len(w) <= 2}, key=lambda w: (len(w), w))
    assert tests == histories
    matrix, extended = hankel.toarray(), hankel.extended.toarray()
    pick = np.random.default_rng(0)
    for _ in range(300):
        i, j, pair = pick.integers(len(histories)), pick.integers(len(tests)), pick.integers(18)
        assert matrix[i, j] == pytest.approx(frequency(windows, histories[i] + tests[j]), abs=1e-15)
        longer = (*histories[i], divmod(int(pair), 6), *tests[j])
        assert extended[pair * len(histories) + i, j] == pytest.approx(frequency(windows, longer), abs=1e-15)
    np.testing.assert_allclose(hankel.empty_history, [frequency(windows, test) for test in tests])
    np.testing.assert_allclose(hankel.empty_test, [frequency(windows, history) for history in histories])
    assert matrix.any()
    assert extended.any()


def test_shape_and_names():
    hankel = estimate(LOG)
    assert (hankel.history_length, hankel.test_length, hankel.n_pairs) == (3, 2, 18)
    assert hankel.extended.shape == (18 * hankel.shape[0], hankel.shape[1])
    assert hankel.symbol_rewards.tolist() == domains.tiger().symbol_rewards.tolist()
    assert hankel.labels(hankel.histories)[0] == (("listen", "hear-left|-1"),)
    assert "estimated" in repr(hankel)


def test_replicates_leave_out_one_block_each():
    """With an episode for every stretch of a block, the estimate without a block is that of the other seven."""
    n = 64 * (1 + 2) * BLOCKS
    rng = np.random.default_rng(3)
    blocks = noise_blocks(np.arange(n))
    starts = np.append(0, np.flatnonzero(np.diff(blocks)) + 1)
    log = Trajectory(rng.integers(0, 2, n), rng.integers(0, 2, n), episode_starts=starts)
    hankel = estimate(log, 2, 1)
    assert len(hankel.replicates) == BLOCKS
    for block, replicate in enumerate(hankel.replicates):
        keep = blocks != block
        left = (np.cumsum(keep) - 1)[starts[keep[starts]]]
        rest = estimate(Trajectory(log.actions[keep], log.observations[keep], episode_starts=left), 2, 1)
        np.testing.assert_allclose(replicate.toarray(), rest.toarray(), atol=1e-15)
        np.testing.assert_allclose(replicate.extended.toarray(), rest.extended.toarray(), atol=1e-15)
        np.testing.assert_allclose(replicate.empty_test, rest.empty_test, atol=1e-15)
        np.testing.assert_allclose(replicate.empty_history, rest.empty_history, atol=1e-15)


def test_replicates_average_to_the_whole_where_counts_are_even():
    hankel = estimate(simulate(domains.tiger(), 50_000, rng=1), 2, 1)
    mean = np.mean([replicate.toarray() for replicate in hankel.replicates], axis=0)
    assert np.abs(mean - hankel.toarray()).max() < 1e-3
    assert any(np.abs(r.toarray() - hankel.toarray()).max() > 1e-3 for r in hankel.replicates)


def test_several_words_give_the_same_matrix(rng):
    """The same log over a declared alphabet so large that windows need three words."""
    symbols = rng.integers(0, 3, 300)
    small = estimate(Trajectory(np.zeros(300, int), symbols), 4, 3)
    names = [str(i) for i in range(5000)]
    large = estimate(Trajectory(np.zeros(300, int), symbols * 2000, observation_names=names), 4, 3)
    np.testing.assert_allclose(small.toarray(), large.toarray(), atol=1e-15)
    rows = small.shape[0]
    for o in range(3):
        np.testing.assert_allclose(
            small.extended.toarray()[o * rows : (o + 1) * rows],
            large.extended[o * 2000 * rows : (o * 2000 + 1) * rows].toarray(),
            atol=1e-15,
        )


def test_untried_action_sequences_are_told():
    never = Trajectory([0, 1] * 50, [0] * 100)
    note = estimate(never, 2, 1).diagnostics["untried_action_sequences"]
    assert note.details == {"untried": 6, "possible": 8}
    assert len(estimate(LOG, 2, 1).diagnostics) == 0


# --- exact ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_exact_entries_are_probabilities_from_the_stationary_start(rng, emission):
    model = naive.random_pomdp(rng, actions=2, observations=2, emission=emission)
    hankel = exact_hankel(model, history_length=3, test_length=2)
    psr = naive.stationary_start(model).to_psr()
    histories, tests = sequences(hankel.histories, 2), sequences(hankel.tests, 2)
    assert len(histories) == len(tests) == 4 + 16
    expected = [
        [psr.probability(*zip(*history, *test, strict=True)) for test in tests] for history in histories
    ]
    np.testing.assert_allclose(hankel.toarray(), expected, atol=1e-15)
    assert "exact" in repr(hankel)
    assert hankel.replicates == ()


def test_the_estimate_tends_to_the_exact_matrix():
    model = domains.tiger()
    exact = exact_hankel(model, history_length=2, test_length=1)
    estimated = estimate(simulate(model, 400_000, rng=2), 2, 1)
    assert sequences(exact.histories, 6) == sequences(estimated.histories, 6)
    assert np.abs(exact.toarray() - estimated.toarray()).max() < 0.01
    assert np.abs(exact.extended.toarray() - estimated.extended.toarray()).max() < 0.02
    assert np.abs(exact.empty_history - estimated.empty_history).max() < 0.01
    assert np.abs(exact.empty_test - estimated.empty_test).max() < 0.01


def test_impossible_sequences_are_left_out():
    hankel = exact_hankel(domains.sense_float_reset(3), history_length=2, test_length=1)
    assert (("sense", "1|0"),) in hankel.labels(hankel.histories)
    assert (("float", "1|0"),) not in hankel.labels(hankel.histories)


def test_a_model_and_its_psr_have_one_matrix(rng):
    model = naive.random_pomdp(rng)
    psr = model.to_psr().transformed(rng.standard_normal((3, 3)))
    one = exact_hankel(model, history_length=2, test_length=2)
    other = exact_hankel(psr, history_length=2, test_length=2)
    np.testing.assert_allclose(one.toarray(), other.toarray(), atol=1e-12)


def test_the_policy_moves_the_start():
    model = domains.sense_float_reset(3)
    often = exact_hankel(model, history_length=2, test_length=1, policy=[0.05, 0.9, 0.05])
    home = often.labels(often.histories).index((("sense", "1|0"),))
    assert often.empty_test[home] == pytest.approx(model.stationary([0.05, 0.9, 0.05])[0])
    assert often.empty_test[home] > 0.9
    with pytest.raises(DataError, match="policy"):
        exact_hankel(model, history_length=2, test_length=1, policy=[1.0])


def test_limits(monkeypatch):
    with pytest.raises(UsageError, match="history_length must be at least 2"):
        exact_hankel(domains.tiger(), history_length=1, test_length=1)
    monkeypatch.setattr(module, "MAX_ENTRIES", 1000)
    with pytest.raises(ResourceLimitError, match="10 histories, 10 tests and 18 pairs"):
        exact_hankel(domains.tiger(), history_length=2, test_length=1)
    with pytest.raises(ResourceLimitError, match="too many sequences"):
        exact_hankel(domains.tiger(), history_length=4, test_length=1)
