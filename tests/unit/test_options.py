"""Options are one value, spelled alike in Python, on the command line and in files."""

from __future__ import annotations

import dataclasses
import inspect
import json

import pytest

from unlatch import learn_pomdp
from unlatch.errors import UsageError
from unlatch.learn.options import LearnOptions


def test_the_function_and_the_value_have_the_same_options_with_the_same_defaults():
    signature = inspect.signature(learn_pomdp).parameters
    others = (
        "log",
        "engine",
        "checkpoint",
        "rng",
    )  # what it learns from, who works, and the seed are no options
    asked = {name: parameter.default for name, parameter in signature.items() if name not in others}
    assert asked == {field.name: field.default for field in dataclasses.fields(LearnOptions)}


def test_they_are_plain_values_for_a_file():
    options = LearnOptions(states=3, time_limit=2.5, emission="arrival")
    assert json.loads(json.dumps(options.as_dict())) == options.as_dict()
    assert LearnOptions(**options.as_dict()) == options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"states": 0}, "states must be a whole number of at least 1"),
        ({"states": 2.5}, "states must be a whole number"),
        ({"max_states": True}, "max_states must be a whole number"),
        ({"max_rank": 0}, "max_rank must be"),
        ({"draws": 0}, "draws must be"),
        ({"emission": "sideways"}, "emission must be"),
        ({"refine": "yes"}, "refine must be 'auto' or None"),
        ({"rotation": "none"}, "rotation must be"),
        ({"scaling": "some"}, "scaling must be"),
        ({"min_singular_value": -1.0}, "min_singular_value cannot be negative"),
        ({"observation_tolerance": float("nan")}, "observation_tolerance cannot be negative"),
        ({"states": 5, "max_states": 4}, "states=5 is more than max_states=4"),
        ({"rank": 5, "max_states": 4}, "rank=5 would be a spectral model of more states"),
        ({"rank": 2, "states": 3, "refine": None}, "disagree"),
    ],
)
def test_what_makes_no_sense_is_refused(options, message):
    with pytest.raises(UsageError, match=message):
        LearnOptions(**options)
