"""Kinds of options that several commands share."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from unlatch.errors import UsageError
from unlatch.show.safe import brief

__all__ = [
    "INPUT",
    "OUTPUT",
    "SEED",
    "Depth",
    "Number",
    "Whole",
    "of_an_engine",
    "of_an_environment",
    "seen",
]

_Command = TypeVar("_Command", bound=Callable[..., Any])

_LARGEST = 2**31 - 1
_DIGITS = 20
"""More digits than any number that is allowed has; beyond some thousands Python refuses to read them at all."""


class Whole(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.5 on only
    """A whole number between bounds; the message for another one names both bounds."""

    name = "integer"

    def __init__(self, least: int = 1, most: int = _LARGEST) -> None:
        self.least, self.most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        digits = value.strip().removeprefix("-")
        if not (digits.isascii() and digits.isdigit()):
            self.fail(f"{brief(value)} is no whole number", param, ctx)
        number = int(value) if len(digits) <= _DIGITS else None
        if number is None or not self.least <= number <= self.most:
            self.fail(f"{brief(value)} is not in the range from {self.least} to {self.most}", param, ctx)
        return number


class Depth(Whole):
    """A whole number, or ``auto``."""

    name = "integer or auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if value == "auto" else super().convert(value, param, ctx)


class Number(click.ParamType):  # type: ignore[type-arg]
    """A finite number, above ``above`` if that is given."""

    name = "number"

    def __init__(self, above: float | None = None) -> None:
        self.above = above

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number = float(value)
        except ValueError:
            self.fail(f"{brief(str(value))} is no number", param, ctx)
        if not math.isfinite(number) or (self.above is not None and not number > self.above):
            bound = "" if self.above is None else f" above {self.above:g}"
            self.fail(f"{brief(str(value))} is no finite number{bound}", param, ctx)
        return number


SEED = Whole(0, 2**63 - 1)
INPUT = click.Path(path_type=Path)
OUTPUT = click.Path(path_type=Path)


def seen(text: str) -> tuple[str, str] | str:
    """What a goal ``observation:...`` speaks of: ``ACTION=OBSERVATION``, or an observation after any action."""
    action, separator, observation = text.partition("=")
    if not text or (separator and not (action and observation)):
        raise UsageError(f"cannot read {brief(text)}; write OBSERVATION or ACTION=OBSERVATION")
    return (action, observation) if separator else text


def of_an_environment(command: Any) -> Any:
    """The options of commands that act in an environment of Gymnasium."""
    for option in (
        click.option(
            "--set",
            "settings",
            metavar="NAME=VALUE",
            multiple=True,
            help="An argument of the environment, as is_slippery=false; repeatable.",
        ),
        click.option("--action-names", metavar="NAME,NAME,...", help="Names of the actions 0, 1, ..."),
        click.option(
            "--observe",
            metavar="FILE.py:FUNCTION",
            help="Makes a symbol of an observation, where observations are not discrete.",
        ),
    ):
        command = option(command)
    return command


def of_an_engine(what: str) -> Callable[[_Command], _Command]:
    """The options of commands whose work others can do; ``what`` says which work."""
    options = (
        click.option(
            "--engine",
            type=click.Choice(["process", "processes", "dask"]),
            default="process",
            show_default=True,
            help=what,
        ),
        click.option(
            "--scheduler", metavar="ADDRESS", help="With --engine dask: the scheduler of a running cluster."
        ),
        click.option(
            "--insecure-scheduler",
            is_flag=True,
            help="Reach a scheduler on another machine without TLS. Whoever reaches it can run anything there.",
        ),
    )

    def added(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return added
