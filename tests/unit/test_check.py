"""Before any data: whether a system can be learned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unlatch import POMDP, check_model, domains
from unlatch.cli import run
from unlatch.errors import DataError, UsageError

pytestmark = pytest.mark.compiled


def test_tiger_can_be_learned() -> None:
    found = check_model(domains.tiger(), steps=5_000)
    assert found.learnable
    assert found.identified.everywhere
    assert found.emissions == ("departure",)
    assert found.classes == ((0, 1),)
    assert (found.transient, found.unreached, found.untried) == ((), (), ())
    assert found.steps_for_count is not None
    assert 50 < found.steps_for_count < 3_000  # learned logs have two states from a few hundred steps on
    assert found.bound is not None
    assert found.steps_for_error == int(np.ceil((found.bound.observation_l1_all / 0.05) ** 2))
    assert found.sentences()[0] == "can be learned from a log of departure emission"


def test_smaller_errors_take_more_steps() -> None:
    one, other = (check_model(domains.tiger(), error=error, steps=2_000) for error in (0.1, 0.01))
    assert one.steps_for_error is not None
    assert other.steps_for_error == pytest.approx(100 * one.steps_for_error, rel=0.05)


def test_a_system_that_no_log_determines() -> None:
    found = check_model(domains.unidentifiable_pair()[0], steps=2_000)
    assert not found.learnable
    assert found.steps_for_error is None
    assert any("not everything is identified" in obstacle for obstacle in found.obstacles)
    assert str(found).startswith("cannot be learned in full")


def test_exploration_that_leaves_something_out() -> None:
    found = check_model(domains.tiger(), policy=[0.0, 0.5, 0.5], steps=2_000)
    assert found.untried == (0,)
    assert not found.learnable
    assert any("never taken: listen" in obstacle for obstacle in found.obstacles)


def test_no_number_of_steps_is_promised_for_what_is_never_tried() -> None:
    found = check_model(domains.tiger(), policy=[1, 0, 0], steps=1_000)
    assert found.identified.identified  # of what is tried
    assert found.bound is None
    assert found.steps_for_error is None


def test_states_that_are_left_for_good_and_classes() -> None:
    moves = [[[0.0, 0.5, 0.5, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]]
    rows = [[[0.5, 0.5], [0.9, 0.1], [0.2, 0.8], [1.0, 0.0]]]
    found = check_model(POMDP(moves, rows, [1.0, 0.0, 0.0, 0.0]), steps=1_000)
    assert found.classes == ((1,), (2,))
    assert found.transient == (0,)
    assert found.unreached == (3,)
    assert not found.learnable
    assert len(found.obstacles) >= 3


def test_an_episodic_system_begins_again() -> None:
    found = check_model(domains.frozen_lake(lake=["SFF", "HFG"], slippery=False), steps=2_000)
    assert len(found.classes) == 1
    assert found.transient == ()
    assert found.emissions == (
        "arrival",
        "departure",
    )  # where moves are certain the state left tells what is reached


def test_a_model_that_can_be_read_either_way() -> None:
    """Where what is shown never depends on the state there is no telling who shows it."""
    model = POMDP([[[0.5, 0.5], [0.5, 0.5]]], [[[0.3, 0.7], [0.3, 0.7]]], [0.5, 0.5])
    assert check_model(model, steps=1_000).emissions == ("departure", "arrival")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"error": 0.0}, UsageError),
        ({"error": "small"}, UsageError),
        ({"steps": 10}, UsageError),
        ({"policy": [1.0]}, DataError),
        ({"policy": np.full((6, 3), 1 / 3)}, UsageError),
    ],
)
def test_bad_arguments(options: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        check_model(domains.tiger(), **options)  # type: ignore[arg-type]


def test_no_model() -> None:
    with pytest.raises(UsageError, match="expected a POMDP"):
        check_model("tiger")  # type: ignore[arg-type]


def test_from_the_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "tiger", "--steps", "2000", "--error", "0.1"]) == 0
    said = capsys.readouterr().out
    assert "can be learned from a log of departure emission" in said
    assert "off by 0.1 in L1" in said
    assert run(["check", "tiger", "--policy", "0.5,0.5"]) == 3
    assert run(["check", "no-such-domain"]) == 2
    assert run(["check", "tiger", "--error", "0"]) == 2


def test_untried_actions_of_a_model_stay_untried() -> None:
    found = check_model(replace(domains.tiger(), untried_actions=("listen",)), steps=1_000)
    assert any("never taken: listen" in obstacle for obstacle in found.obstacles)
