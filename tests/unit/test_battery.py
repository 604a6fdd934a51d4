"""The battery of checks, run for every learner."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import battery
import unlatch
from battery import HOSTILE, HOSTILE_STEPS, LEARNERS, LOGS, Learner, outcome
from unlatch import Trajectory
from unlatch.errors import UnlatchError, UsageError

pytestmark = pytest.mark.compiled  # as many logs as learners: without the JIT it would take most of an hour

learners = pytest.mark.parametrize("learner", LEARNERS, ids=repr)


@learners
@pytest.mark.parametrize("name", LOGS)
def test_probabilities_or_a_declared_error(learner: Learner, name: str) -> None:
    log = LOGS[name]()
    before = battery.snapshot(log)
    result = outcome(learner, log)
    after = battery.snapshot(log)
    for field, value in before.items():
        np.testing.assert_array_equal(after[field], value, err_msg=f"the log's {field} changed")
    if isinstance(result, UnlatchError):
        assert str(result)
        return
    battery.check_probabilities(battery.model_of(result))
    if learner.explains:
        battery.check_explains(result, log)


@pytest.mark.parametrize("learner", [learner for learner in LEARNERS if learner.explains], ids=repr)
@pytest.mark.parametrize("name", ["one long episode", "many episodes", "rewards", "absorbed", "drifting"])
def test_a_log_of_hundreds_of_steps_is_never_refused(learner: Learner, name: str) -> None:
    """Not even where the system changes half-way, or is left for good."""
    battery.check_explains(learner.learn(LOGS[name](), 1), LOGS[name]())


@learners
@pytest.mark.parametrize("name", ["one long episode", "many episodes", "rewards", "50 steps"])
def test_the_same_seed_gives_the_same_result(learner: Learner, name: str) -> None:
    one, other = outcome(learner, LOGS[name]()), outcome(learner, LOGS[name]())
    assert type(one) is type(other)
    if isinstance(one, UnlatchError):
        assert str(one) == str(other)
    else:
        battery.check_same(battery.model_of(one), battery.model_of(other))


@learners
@pytest.mark.parametrize(
    "name", ["one long episode", "a cycle of three", "absorbed", "constant observations"]
)
def test_the_caller_s_floating_point_settings_do_not_matter(learner: Learner, name: str) -> None:
    with np.errstate(all="ignore"):
        one = outcome(learner, LOGS[name]())
    with np.errstate(all="raise"):
        other = outcome(learner, LOGS[name]())
    assert type(one) is type(other)
    if not isinstance(one, UnlatchError):
        battery.check_same(battery.model_of(one), battery.model_of(other))


@learners
def test_what_comes_back_is_read_only(learner: Learner) -> None:
    result = learner.learn(LOGS["one long episode"](), 1)
    found = battery.arrays_of(result)
    assert len(found) >= 3
    assert [path for path, array in found if array.flags.writeable] == []


@learners
def test_names_and_alphabets_are_those_of_the_log(learner: Learner) -> None:
    log = LOGS["symbols that never come"]()
    result = outcome(learner, log)
    if not isinstance(result, UnlatchError):
        model = battery.model_of(result)
        assert model.action_names == log.action_names
        assert model.observation_names == log.observation_names


# --- hostile input ------------------------------------------------------------------------------------------

EXAMINERS: dict[str, Callable[[Any], Any]] = {
    **{repr(learner): lambda log, learner=learner: learner.learn(log, 1) for learner in LEARNERS},
    "examine": unlatch.examine,
    "examine_model": lambda log: unlatch.examine_model(unlatch.domains.tiger(), log),
    "count_sequences": lambda log: unlatch.count_sequences(log, history_length=2, test_length=1),
}


READERS = ("learn_pomdp", "spectral")
"""Those that take a path for a log."""


@pytest.mark.parametrize("name", EXAMINERS)
@pytest.mark.parametrize("given", HOSTILE)
def test_what_is_no_log_is_refused(
    name: str, given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    is_read = name in READERS and isinstance(HOSTILE[given], str | Path)
    with pytest.raises(UnlatchError, match="log.csv: cannot read" if is_read else "Trajectory"):
        EXAMINERS[name](HOSTILE[given])


@pytest.mark.parametrize("build", [Trajectory, Trajectory.from_symbols], ids=["Trajectory", "from_symbols"])
@pytest.mark.parametrize("given", HOSTILE_STEPS)
@pytest.mark.parametrize("place", ["actions", "observations"])
def test_what_are_no_steps_is_refused(build: Callable[..., Any], given: str, place: str) -> None:
    good = ["a", "b"] if build is not Trajectory else [0, 1]
    arguments = {"actions": good, "observations": good, place: HOSTILE_STEPS[given]}
    with pytest.raises(UnlatchError):
        build(**arguments)


@pytest.mark.parametrize(
    "options",
    [
        {"states": 0},
        {"states": -1},
        {"states": 2.5},
        {"states": "2"},
        {"states": True},
        {"states": float("nan")},
        {"max_states": 0},
        {"max_states": "many"},
        {"max_states": True},
        {"time_limit": 0},
        {"time_limit": -1},
        {"time_limit": float("nan")},
        {"time_limit": "soon"},
        {"time_limit": True},
        {"refine": "yes"},
        {"refine": 1},
        {"emission": "never"},
        {"emission": None},
        {"rng": "seed"},
        {"rng": -1},
        {"rng": 1.5},
        {"min_singular_value": float("nan")},
        {"observation_tolerance": -1},
    ],
    ids=str,
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any]) -> None:
    """Before any work is done: the log is empty, and would be refused for that."""
    with pytest.raises(UsageError):
        unlatch.learn_pomdp(LOGS["0 steps"](), **options)
