"""The log as a value: codes, names, rewards, episodes."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from enum import Enum
from pathlib import Path

import numpy as np
import pytest

from unlatch import Trajectory, domains, simulate
from unlatch.core.trajectory import format_reward
from unlatch.errors import DataError, ResourceLimitError, UsageError


def log_of(actions, observations=None, **fields):
    return Trajectory(
        actions=actions, observations=actions if observations is None else observations, **fields
    )


def test_plain_codes_number_themselves():
    log = log_of([0, 1, 1], [2, 0, 1])
    assert log.actions.tolist() == [0, 1, 1]
    assert log.observations.tolist() == [2, 0, 1]
    assert (log.action_names, log.observation_names) == (("0", "1"), ("0", "1", "2"))
    assert log.episode_starts.tolist() == [0]
    assert (len(log), log.n_episodes) == (3, 1)
    assert "3 steps, 1 episodes, 2 actions, 3 observations" in repr(log)


def test_gaps_are_renumbered_and_the_old_numbers_become_names():
    log = log_of([7, 0, 1, 7], [0, 0, 0, 0])
    assert log.actions.tolist() == [2, 0, 1, 2]
    assert log.action_names == ("0", "1", "7")
    assert "renumbered" in log.diagnostics


def test_declared_names_may_hold_symbols_that_never_occur():
    log = log_of([2, 0], [0, 0], action_names=["a", "b", "c"], observation_names=["x", "y"])
    assert log.actions.tolist() == [2, 0]
    assert log.action_names == ("a", "b", "c")
    assert len(log.diagnostics) == 0


def test_whole_floats_are_read_as_integers_and_noted():
    log = log_of(np.array([0.0, 1.0, 2.0]), [0, 0, 0])
    assert log.actions.dtype == np.int64
    assert "float_symbols" in log.diagnostics


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([0.0, 1.5], r"actions\[1\] is 1.5"),
        ([0.0, np.nan], r"actions\[1\] is nan"),
        ([np.inf, 0.0], r"actions\[0\] is inf"),
        ([0.0, 2.0**54], r"actions\[1\] is 1.8"),
        ([0, -1], r"actions\[1\] is -1"),
        (np.array([0, 2**63], dtype=np.uint64), "9223372036854775808 does not fit"),
        ([0, 2**64], "expected integer codes"),
        (["a", "b"], "from_symbols"),
        (np.array([0, "a"], dtype=object), "from_symbols"),
        (np.array([0, True], dtype=object), "from_symbols"),
        (np.array([0, 2**70], dtype=object), "does not fit 63 bits"),
        ([True, False], "dtype bool"),
        (np.array([0j, 1j]), "complex"),
        (np.array([(0, 1), (1, 1)], dtype=[("a", int), ("o", int)]), "expected integer codes"),
        ([[0, 1]], "shape"),
        ([[0], [0, 1]], "different lengths"),
        (0, "actions: expected one code per step, got int"),
        (None, "actions: expected one code per step, got NoneType"),
        ("ab", "actions: expected one code per step, got str"),
        (Path("log.csv"), "actions: expected one code per step, got PosixPath"),
        ({0, 1}, "actions: expected one code per step, got set"),
        ((i for i in range(2)), "actions: expected one code per step, got generator"),
        (np.ma.array([0, 1], mask=[False, True]), r"actions\[1\] is masked"),
        (np.ma.masked, "actions is masked"),
    ],
)
def test_what_is_no_code_is_refused(actions, message):
    with pytest.raises(DataError, match=message):
        log_of(actions, [0, 0])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"observations": [0, 1, 0]}, "actions 2, observations 3"),
        ({"rewards": [1.0]}, "actions 2, rewards 1"),
        ({"rewards": [1.0, np.nan]}, r"rewards\[1\] is nan"),
        ({"rewards": [np.inf, 0.0]}, r"rewards\[0\] is inf"),
        ({"rewards": ["1", "2"]}, "real numbers"),
        ({"probabilities": [1.0]}, "actions 2, probabilities 1"),
        ({"probabilities": [[1.0, 1.0]]}, "expected 1 dimensions"),
        ({"probabilities": ["1", "1"]}, "real numbers"),
        ({"probabilities": [1.0, np.nan]}, r"probabilities\[1\] is nan"),
        ({"probabilities": [1.0, 0.0]}, r"probabilities\[1\] is 0.0; the action was taken"),
        ({"probabilities": [-0.5, 2.0]}, r"probabilities\[0\] is -0.5; .* leave the probabilities out"),
        ({"probabilities": [1.0, 1.5]}, r"probabilities\[1\] is 1.5; .*no percentage, no logarithm"),
        ({"action_names": ["a"]}, r"actions\[1\] is 1 but only 1"),
        ({"action_names": ["a", "a"]}, "stands twice"),
        ({"action_names": "ab"}, "sequence of text"),
        ({"action_names": 5}, "sequence of text names, got int"),
        ({"action_names": {"a", "b"}}, "sequence of text names, got set"),
        ({"action_names": (c for c in "ab")}, "sequence of text names, got generator"),
        ({"action_names": [["a"], ["b", "c"]]}, r"action_names\[0\] is \['a'\] of type list"),
        ({"rewards": None, "diagnostics": None}, "expected Diagnostics"),
        ({"rewards": 1.0}, "expected 1 dimensions"),
        ({"rewards": [[1.0], [1.0, 2.0]]}, "real numbers, got lists of different lengths"),
        ({"rewards": [1.0, None]}, "real numbers"),
        ({"rewards": np.ma.array([1.0, 2.0], mask=[True, False])}, r"rewards\[0\] is masked, and 1 in all"),
        ({"rewards": np.array([1, "1e4000"], dtype=np.longdouble)}, r"rewards\[1\] is inf"),
        (
            {"probabilities": np.ma.array([1.0, 1.0], mask=True)},
            r"probabilities\[0\] is masked, and 2 in all",
        ),
        ({"episode_starts": np.ma.array([0, 1], mask=[False, True])}, r"episode_starts\[1\] is masked"),
        ({"episode_starts": 0}, "episode_starts: expected one code per step"),
        ({"episode_starts": np.array([0, 2**64 - 1], dtype=np.uint64)}, "increase"),
        ({"episode_starts": [1]}, "begin at 0"),
        ({"episode_starts": [0, 0]}, "increase"),
        ({"episode_starts": [0, 2]}, "below the 2 steps"),
        ({"episode_starts": []}, "step indices"),
        ({"episode_starts": [0.0]}, "step indices"),
        ({"terminated": [True]}, "actions 2, terminated 1"),
        (
            {"terminated": [[False, True]]},
            r"terminated: expected one flag per step, got an array of shape \(1, 2\)",
        ),
        ({"terminated": True}, "terminated: expected one flag per step"),
        ({"terminated": ["no", "yes"]}, r"terminated: expected True or False \(or 1 or 0\) for every step"),
        ({"terminated": [0, 2]}, "expected True or False"),
        ({"terminated": [0.0, np.nan]}, "expected True or False"),
        ({"terminated": [False, None]}, "expected True or False"),
        ({"terminated": np.ma.array([False, True], mask=[True, False])}, r"terminated\[0\] is masked"),
        (
            {"terminated": [True, False], "episode_starts": [0]},
            r"terminated\[0\] is set, but step 1 belongs to the same episode; .*correct episode_starts, or leave",
        ),
        ({"first_observations": [0, 1]}, "first_observations: 2 for 1 episodes; give one for each"),
        ({"first_observations": []}, "first_observations: 0 for 1 episodes"),
        ({"first_observations": [-1]}, r"first_observations\[0\] is -1"),
        ({"first_observations": [0.5]}, r"first_observations\[0\] is 0.5"),
        (
            {"first_observations": ["a"]},
            r"first_observations: expected integer codes.* Trajectory.from_symbols",
        ),
        ({"first_observations": [[0]]}, "first_observations: expected one code per step"),
        (
            {"first_observations": [2], "first_observation_names": ["a", "b"]},
            r"first_observations\[0\] is 2 but only 2 names are declared",
        ),
        ({"first_observations": [0], "first_observation_names": ["a", "a"]}, "stands twice"),
        (
            {"first_observations": [5], "observation_names": ["a", "b"]},
            r"first_observations\[0\] is 5 but only 2",
        ),
    ],
)
def test_fields_that_do_not_fit_are_refused(fields, message):
    with pytest.raises(DataError, match=message):
        Trajectory(**{"actions": [0, 1], "observations": [0, 1], **fields})


def test_an_identifier_is_no_alphabet():
    with pytest.raises(ResourceLimitError, match="looks continuous: 1000 distinct values in 1000 rows"):
        log_of(np.arange(1000))


# --- the caller's arrays ----------------------------------------------------------------------------------

CODES = np.array([0, 1, 2, 1, 0, 2, 2, 1])


def memmap(codes, folder):
    array = np.memmap(folder / "codes", dtype=np.int32, mode="w+", shape=codes.shape)
    array[:] = codes
    return array


@pytest.mark.parametrize(
    "convert",
    [
        lambda codes, _: codes.tolist(),
        lambda codes, _: codes.astype(np.uint8),
        lambda codes, _: codes.astype(np.float16),
        lambda codes, _: codes.astype(">i4"),
        lambda codes, _: np.repeat(codes, 2)[::2],
        lambda codes, _: codes[::-1].copy()[::-1],
        lambda codes, _: np.asfortranarray(np.stack([codes, codes]))[0],
        memmap,
    ],
    ids=["list", "uint8", "float16", "big-endian", "strided", "reversed", "fortran", "memmap"],
)
def test_any_layout_of_the_same_codes_is_the_same_log(convert, tmp_path):
    given = convert(CODES, tmp_path)
    before = np.array(given)
    assert log_of(given) == log_of(CODES)
    assert np.array_equal(given, before)


def test_the_caller_keeps_his_arrays_and_cannot_reach_ours():
    actions, rewards, chances = CODES.copy(), np.arange(8.0), np.ones(8)
    log = log_of(actions, rewards=rewards, episode_starts=[0, 4], probabilities=chances)
    actions[0], rewards[0], chances[0] = 2, 99.0, 0.5
    assert log.actions[0] == 0
    assert log.rewards[0] == 0.0
    assert log.probabilities[0] == 1.0
    assert "3 observations, rewards, probabilities)" in repr(log)
    for array in (
        log.actions,
        log.observations,
        log.rewards,
        log.episode_starts,
        log.episode_ends,
        log.probabilities,
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


# --- text symbols -----------------------------------------------------------------------------------------


def test_text_symbols_are_kept_verbatim():
    names = ["NA", "None", "nan", "null", "true", "1e5", "01", "1", " left", "left", "Left"]
    log = Trajectory.from_symbols(names, names)
    assert sorted(log.action_names) == sorted(names)
    assert [log.action_names[code] for code in log.actions] == names


def test_whole_numbers_are_ordered_by_value():
    assert Trajectory.from_symbols(["10", "9", "-1"], ["a", "b", "a"]).action_names == ("-1", "9", "10")


MISSING = r"\[1\] is missing; .* Remove the step, and let an episode start after it"


@pytest.mark.parametrize(
    ("symbols", "message"),
    [
        ([1, 2], r"actions\[0\] is 1 of type int; .* Give codes to Trajectory\(...\)"),
        (["1", 1], r"actions\[1\] is 1 of type int; .* Give codes"),
        (["a", np.int64(1)], r"actions\[1\] is .*1.* of type int64"),
        (["a", 1.5], r"actions\[1\] is 1.5 of type float"),
        (["a", float("nan")], MISSING),
        (["a", np.nan], MISSING),
        (["a", None], MISSING),
        (["a", np.ma.masked], MISSING),
        (["a", np.datetime64("NaT")], MISSING),
        (np.ma.array(["a", "b"], mask=[False, True]), r"actions\[1\] is masked"),
        (np.array(["a", np.nan], dtype=object), MISSING),
        (np.array(["a", np.nan], dtype=np.dtypes.StringDType(na_object=np.nan)), MISSING),
        ([np.zeros(2), np.zeros(3)], r"actions\[0\] is array"),
        ([["a"], ["b"]], r"got an array of shape \(2, 1\)"),
        ([["a"], ["b", "c"]], r"actions\[0\] is \['a'\] of type list"),
        ([np.zeros((2, 2)), np.zeros((2, 3))], "got lists of different lengths"),
        ([b"a", b"b"], r"actions\[0\] is b'a' of type bytes"),
        ("ab", "got str"),
        (None, "got NoneType"),
        (3, "got int"),
        (Path("x"), "got PosixPath"),
        ({"a", "b"}, "got set"),
        ({"a": 1, "b": 2}, "got dict"),
        ((c for c in "ab"), "got generator"),
        (["a\0", "a"], "control character"),
        (["a\ud800", "a"], "lone surrogate"),
        (["", "a"], "a name is empty"),
        (["x" * 300, "a"], "longer than 256 bytes"),
    ],
)
def test_a6_a8_from_symbols_takes_text_only(symbols, message):
    """Once ``nan`` became a symbol, ``"1"`` and ``1`` became one, and a mask was dropped."""
    with pytest.raises(DataError, match=message):
        Trajectory.from_symbols(symbols, ["x", "y"])
    with pytest.raises(DataError):
        Trajectory.from_symbols(["x", "y"], symbols)


class Column:
    """As columns of tables are: no NumPy array, but with a way to become one."""

    def __init__(self, items):
        self.items = items

    def __array__(self, dtype=None, copy=None):
        return np.array(self.items, dtype=object).astype(dtype or object)


class Refusing:
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("on another device")


class Move(str, Enum):  # noqa: UP042  # whose str() is not its text
    LEFT = "left"
    RIGHT = "right"


@pytest.mark.parametrize(
    "convert",
    [
        tuple,
        deque,
        np.array,
        Column,
        lambda items: np.array(items, dtype=object),
        lambda items: np.array(items, dtype=np.dtypes.StringDType()),
        lambda items: np.ma.array(items, mask=False),
        lambda items: [np.str_(item) for item in items],
        lambda items: [Move(item) for item in items],
        lambda items: np.array([items, items])[0],
    ],
    ids=["tuple", "deque", "U", "column", "object", "StringDType", "unmasked", "np.str_", "enum", "view"],
)
def test_a42_any_flat_sequence_of_text_is_a_log(convert):
    items = ["left", "right", "left"]
    expected = Trajectory.from_symbols(items, items)
    log = Trajectory.from_symbols(convert(items), convert(items))
    assert log == expected
    assert log.action_names == ("left", "right")
    assert all(type(name) is str for name in log.action_names)


def test_objects_that_cannot_become_arrays_are_refused_with_their_reason():
    for build in (lambda: Trajectory.from_symbols(Refusing(), ["x"]), lambda: Trajectory(Refusing(), [0])):
        with pytest.raises(DataError, match="got Refusing, which says: on another device"):
            build()


def test_whole_numbers_that_came_as_objects_are_codes():
    given = np.array([0, np.int16(1), 1], dtype=object)
    assert log_of(given) == log_of([0, 1, 1])
    assert log_of([0, 1, 1], episode_starts=np.array([0, 2], dtype=object)).n_episodes == 2


@pytest.mark.parametrize("steps", [None, "2", 1.5, [1]])
def test_steps_and_episodes_are_whole_numbers(steps):
    with pytest.raises(UsageError, match="steps must be a whole number"):
        log_of([0, 1]).head(steps)
    with pytest.raises(UsageError, match="index must be a whole number"):
        log_of([0, 1]).episode(steps)


def test_one_long_symbol_costs_no_memory_for_the_others():
    with pytest.raises(DataError, match="longer than 256 bytes"):
        Trajectory.from_symbols(["x" * 10**6, *["a"] * 10**5], ["y"] * (10**5 + 1))


def test_symbols_that_look_alike_after_nfc_are_refused():
    with pytest.raises(DataError, match="stands twice"):
        Trajectory.from_symbols(["\u00e9", "e\u0301"], ["x", "y"])


# --- episodes ---------------------------------------------------------------------------------------------


def test_episodes_and_heads_are_logs_of_their_own():
    chances = np.arange(1, 9) / 8
    log = log_of(CODES, rewards=np.arange(8.0), episode_starts=[0, 3, 4], probabilities=chances)
    assert log.episode_ends.tolist() == [3, 4, 8]
    assert log.episode(2) == Trajectory(
        actions=CODES[4:],
        observations=CODES[4:],
        action_names=log.action_names,
        observation_names=log.observation_names,
        rewards=np.arange(4.0, 8.0),
        probabilities=chances[4:],
    )
    assert log.head(5).episode_starts.tolist() == [0, 3, 4]
    assert log.head(4).episode_starts.tolist() == [0, 3]
    assert log.head(4).actions.tolist() == CODES[:4].tolist()
    assert log.head(4).probabilities.tolist() == [0.125, 0.25, 0.375, 0.5]
    assert log.head(100) == log
    assert len(log.head(0)) == 0


def test_an_episode_starts_after_every_ending():
    log = log_of(CODES[:4], terminated=[0, 1, 1, 0])
    assert log.terminated.tolist() == [False, True, True, False]
    assert log.terminated.dtype == bool
    assert not log.terminated.flags.writeable
    assert log.episode_starts.tolist() == [0, 2, 3]
    assert "3 episodes" in repr(log)
    assert "2 endings" in repr(log)
    assert log_of(CODES[:4], terminated=np.array([0, 1, 1, 0], dtype=object)) == log
    assert log_of(CODES[:4], terminated=[0.0, 1.0, 1.0, 0.0]) == log


def test_an_episode_may_stop_without_an_ending():
    log = log_of(CODES[:4], terminated=[False, False, False, True], episode_starts=[0, 2])
    assert log.episode_starts.tolist() == [0, 2]
    assert log_of(CODES[:4]).terminated is None
    assert log_of(CODES[:4], terminated=[False] * 4).n_episodes == 1


def test_first_observations_count_among_the_observations_unless_named():
    log = log_of([0, 0], [0, 2], first_observations=[1])
    assert log.observation_names == log.first_observation_names == ("0", "1", "2")
    gaps = log_of([0, 0], [0, 9], first_observations=[5])
    assert gaps.observation_names == ("0", "5", "9")
    assert (gaps.observations.tolist(), gaps.first_observations.tolist()) == ([0, 2], [1])
    named = log_of([0, 0], [0, 1], observation_names=["x", "y"], first_observations=[1])
    assert named.first_observation_names == ("x", "y")
    own = log_of([0, 0], [0, 1], first_observations=[2], first_observation_names=["a", "b", "c"])
    assert own.observation_names == ("0", "1")
    assert own.first_observation_names == ("a", "b", "c")
    assert "first observations" in repr(own)
    assert log_of([0, 0]).first_observations is None


def test_endings_and_first_observations_from_symbols():
    log = Trajectory.from_symbols(
        ["go", "go", "stay"], ["x", "y", "x"], terminated=[True, False, True], first_observations=["q", "p"]
    )
    assert log.first_observation_names == ("p", "q")
    assert log.first_observations.tolist() == [1, 0]
    assert log.observation_names == ("x", "y")
    assert log.episode_starts.tolist() == [0, 1]


def test_parts_of_a_log_keep_endings_and_first_observations():
    log = log_of(
        CODES[:6],
        terminated=[False, True, False, False, False, True],
        episode_starts=[0, 2, 4],
        first_observations=[2, 0, 1],
        first_observation_names=["a", "b", "c"],
    )
    middle = log.episode(1)
    assert middle.terminated.tolist() == [False, False]
    assert middle.first_observations.tolist() == [0]
    assert middle.first_observation_names == ("a", "b", "c")
    assert log.head(3).first_observations.tolist() == [2, 0]
    assert log.head(3).terminated.tolist() == [False, True, False]
    assert log.head(2).first_observations.tolist() == [2]
    assert len(log.head(0)) == len(log.head(0).first_observations) == len(log.head(0).terminated) == 0
    assert log.head(6) == log


def test_the_empty_log_is_a_log():
    log = log_of([])
    assert (len(log), log.n_episodes, log.action_names) == (0, 0, ())
    assert log.actions.dtype == np.int64


@pytest.mark.parametrize(
    "other",
    [
        log_of([0, 1], [0, 0]),
        log_of([0, 1], action_names=["a", "b"]),
        log_of([0, 1], observation_names=["a", "b"]),
        log_of([0, 1], rewards=[0.0, 0.0]),
        log_of([0, 1], episode_starts=[0, 1]),
        log_of([0, 1], probabilities=[1.0, 1.0]),
        log_of([0, 1], terminated=[False, False]),
        log_of([0, 1], first_observations=[0]),
        "log",
    ],
)
def test_unequal_logs(other):
    assert log_of([0, 1]) == log_of([0, 1])
    assert log_of([0, 1]) != other


def test_logs_that_begin_or_end_otherwise_are_unequal():
    log = log_of([0, 1], terminated=[False, True], first_observations=[0], first_observation_names=["a", "b"])
    assert log == replace(log)
    assert log != replace(log, terminated=[False, False])
    assert log != replace(log, first_observations=[1])
    assert log != replace(log, first_observation_names=["a", "c"])


# --- rewards ----------------------------------------------------------------------------------------------


def test_symbols_that_settle_the_reward_stay():
    log = log_of([0, 0, 0], [0, 1, 0], rewards=[5, -1, 5], observation_names=["a", "b", "c"])
    assert log.symbol_rewards.tolist() == [5.0, -1.0, 0.0]
    assert log.with_reward_symbols() is log


def test_symbols_that_do_not_settle_the_reward_become_pairs():
    log = log_of(
        [0, 0, 0, 0],
        [0, 1, 0, 0],
        rewards=[5, -1, 2.5, 5],
        observation_names=["a", "b"],
        probabilities=[1, 0.5, 0.25, 1],
    )
    assert log.symbol_rewards is None
    paired = log.with_reward_symbols()
    assert paired.observation_names == ("a|2.5", "a|5", "b|-1")
    assert paired.observations.tolist() == [1, 2, 0, 1]
    assert paired.symbol_rewards.tolist() == [2.5, 5.0, -1.0]
    assert paired.probabilities.tolist() == [1.0, 0.5, 0.25, 1.0]
    assert paired.with_reward_symbols() is paired


def test_first_observations_come_without_a_reward():
    log = log_of([0, 0], [0, 0], rewards=[1, 2], terminated=[True, False], first_observations=[0, 0])
    paired = log.with_reward_symbols()
    assert paired.observation_names == ("0|1", "0|2")
    assert paired.first_observation_names == ("0",)
    assert paired.first_observations.tolist() == [0, 0]
    assert paired.terminated.tolist() == [True, False]


def test_negative_zero_is_zero():
    log = log_of([0] * 4, rewards=[-0.0, 1.0, 0.0, 1.0])
    assert log.with_reward_symbols().observation_names == ("0|0", "0|1")


def test_pairs_can_be_asked_for():
    log = log_of([0, 0], [0, 1], rewards=[5, -1])
    assert log.with_reward_symbols(always=True).observation_names == ("0|5", "1|-1")
    assert log_of([0, 0]).with_reward_symbols(always=True).observation_names == ("0",)


def test_continuous_rewards_are_no_symbols():
    with pytest.raises(ResourceLimitError, match="rewards looks continuous"):
        log_of([0] * 500, rewards=np.linspace(0, 1, 500)).with_reward_symbols()


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1"), (-100, "-100"), (0.1, "0.1"), (1e-7, "1e-07"), (1 / 3, "0.3333333333333333")],
)
def test_format_reward_reads_back(value, text):
    assert format_reward(value) == text
    assert float(text) == value


# --- symbols that a model does not know ------------------------------------------------------------------


def test_a5_unknown_symbols_are_refused_or_their_steps_ignored():
    tiger = domains.tiger()
    log = simulate(tiger, 20, episodes=2, rng=0)
    names = list(log.observation_names)
    names[int(log.observations[7])] = "roar"
    strange = replace(log, observation_names=tuple(names))
    with pytest.raises(DataError, match="unknown observation 'roar'"):
        strange.known_to(tiger)
    with pytest.raises(DataError, match="unknown observation 'roar'"):
        tiger.log_likelihood(strange)
    left = strange.known_to(tiger, unknown="ignore-step")
    roars = np.flatnonzero(strange.observations == strange.observations[7])
    assert len(left) == 40 - len(roars)
    assert left.diagnostics["unknown_symbols"].details == {"steps": len(roars)}
    kept = [i for i in range(40) if i not in roars]
    begins = [n for n, i in enumerate(kept) if i in (0, 20) or i - 1 not in kept]
    assert left.episode_starts.tolist() == begins
    parts = np.split(np.array(kept), begins[1:])
    expected = sum(
        tiger.log_likelihood(
            Trajectory(
                log.actions[part], log.observations[part], log.action_names, log.observation_names,
                rewards=log.rewards[part],
            )
        )
        for part in parts
    )  # fmt: skip
    assert tiger.log_likelihood(left) == pytest.approx(expected)
    assert log.known_to(tiger, unknown="ignore-step") is log
    with pytest.raises(UsageError, match="ignore-step"):
        log.known_to(tiger, unknown="skip")


def test_first_observations_go_with_episodes_whose_beginning_is_left_out():
    log = Trajectory(
        [0, 1, 0, 0, 1], [0, 0, 0, 0, 0], ("a", "b"), ("x",), episode_starts=[0, 3], first_observations=[0, 1],
        first_observation_names=("u", "v"),
    )  # fmt: skip
    only = Trajectory([0], [0], ("a",), ("x",))
    left = log.known_to(only, unknown="ignore-step")
    assert left.episode_starts.tolist() == [0, 1, 2]
    assert left.first_observations is None
    assert log.episode(1).known_to(only, unknown="ignore-step").first_observations.tolist() == [1]
    with pytest.raises(DataError, match="every one of the 1 steps"):
        Trajectory([0], [0], ("c",), ("x",)).known_to(only, unknown="ignore-step")
