"""More steps for a model: as good as learning from all, and what has changed is told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unlatch import SavedModel, Trajectory, domains, learn_pomdp, resume, simulate
from unlatch.errors import NotLearnableError, UsageError
from unlatch.learn.resume import joined_logs

TIGER = domains.tiger()
OLD = simulate(TIGER, 20_000, rng=0)


@pytest.fixture(scope="module")
def learned():
    return learn_pomdp(OLD, rng=0)


def names(result):
    return {note.name for note in result.diagnostics}


def test_going_on_equals_learning_from_both(learned):
    new = simulate(TIGER, 3_000, rng=1)
    found = resume(learned, new)
    both = joined_logs(OLD, new)
    whole = learn_pomdp(both, rng=0)
    assert (found.steps, found.episodes, found.states) == (23_000, 2, 2)
    assert found.log_likelihood == pytest.approx(whole.log_likelihood, abs=1.0)
    assert found.log_likelihood == pytest.approx(found.pomdp.log_likelihood(both), abs=1e-6)
    assert not names(found) & {"changed", "new_symbols", "states_changed"}
    again = resume(found, simulate(TIGER, 500, rng=2))
    assert again.steps == 23_500


def test_a_model_from_a_file_needs_its_log(learned):
    new = simulate(TIGER, 1_000, rng=1)
    saved = SavedModel(pomdp=learned.pomdp)
    with pytest.raises(UsageError, match="old_log"):
        resume(saved, new)
    one, other = resume(saved, new, old_log=OLD), resume(learned, new)
    assert np.array_equal(one.pomdp.transitions, other.pomdp.transitions)


def test_a_changed_system_is_told(learned):
    worse = TIGER.observations.copy()
    worse[0] = 0.7 * worse[0] + 0.3 * worse[0][::-1]
    new = simulate(replace(TIGER, observations=worse), 4_000, rng=3)
    found = resume(learned, new, rng=0)
    note = found.diagnostics["changed"]
    assert note.details["p_value"] < 1e-6


@pytest.mark.slow
def test_an_unchanged_system_is_not_called_changed():
    alarms = 0
    for seed in range(8):
        first = learn_pomdp(simulate(TIGER, 2_000, rng=100 + seed), rng=0)
        alarms += "changed" in resume(first, simulate(TIGER, 1_500, rng=200 + seed)).diagnostics
    assert alarms <= 1


def test_new_symbols_are_told(learned):
    new = simulate(TIGER, 2_000, rng=4)
    rings = np.arange(2_000) % 50 == 0
    more = Trajectory(
        new.actions,
        np.where(rings, len(new.observation_names), new.observations),
        new.action_names,
        (*new.observation_names, "alarm"),
        np.where(rings, 0.0, new.rewards),
    )
    found = resume(learned, more, rng=0)
    assert found.diagnostics["new_symbols"].details["names"] == ["alarm"]
    assert "alarm" in found.pomdp.observation_names


def test_what_cannot_be_gone_on_with(learned):
    with pytest.raises(UsageError, match="result of learning"):
        resume("model.json", OLD)
    with pytest.raises(NotLearnableError, match="no steps"):
        resume(learned, OLD.head(0))
    with pytest.raises(UsageError, match="only one of the logs has rewards"):
        resume(learned, replace(OLD, rewards=None, observation_names=OLD.observation_names))
