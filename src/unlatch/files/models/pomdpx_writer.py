"""Writing POMDPX: one state variable, one action variable, one observation variable, tables with plain decimals."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np

from unlatch import __version__
from unlatch.arrays import Floats
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.problem import Problem
from unlatch.errors import DataError, ModelFileError
from unlatch.files.models.comment_table import MARK, safe_names, table_of
from unlatch.files.models.export import Export, exported, plain_number
from unlatch.files.models.pomdp_reader import RESERVED
from unlatch.files.models.pomdpx_reader import read_pomdpx

__all__ = ["pomdpx_bytes"]

_HYPHENS = "-\\u002d"
"""Two hyphens, as JSON may also write them inside of text: they would end a comment."""

_VARIABLES = """\
  <Variable>
    <StateVar vnamePrev="state_0" vnameCurr="state_1" fullyObs="false"><ValueEnum>{states}</ValueEnum></StateVar>
    <ObsVar vname="observation"><ValueEnum>{observations}</ValueEnum></ObsVar>
    <ActionVar vname="action"><ValueEnum>{actions}</ValueEnum></ActionVar>
    <RewardVar vname="reward"/>
  </Variable>
"""


def pomdpx_bytes(problem: Problem, where: str) -> tuple[bytes, Diagnostics]:
    """The bytes of the file, which have been read back, and what it holds in another form than the problem does."""
    export = exported(problem)
    model = export.pomdp
    names = {
        "states": safe_names(model.state_names, "s", RESERVED),
        "actions": safe_names(model.action_names, "a", RESERVED),
        "observations": safe_names(model.observation_names, "o", RESERVED),
    }
    data = "".join(_lines(export, names)).encode("ascii")
    try:
        read_pomdpx(data, where)
    except ModelFileError as error:
        raise DataError(f"not written, because it could not be loaded again: {error}") from None
    return data, export.notes


def _lines(export: Export, names: dict[str, tuple[str, ...]]) -> Iterator[str]:
    model = export.pomdp
    yield '<?xml version="1.0" encoding="ISO-8859-1"?>\n'
    yield '<pomdpx version="0.1" id="unlatch">\n'
    table = table_of(model, names)
    if table.content:
        yield f"  <!-- {MARK} {json.dumps(table.content).replace('--', _HYPHENS)} -->\n"
    yield f"  <Description>Written by unlatch {__version__}.</Description>\n"
    yield f"  <Discount>{plain_number(export.discount)}</Discount>\n"
    yield _VARIABLES.format(**{kind: " ".join(own) for kind, own in names.items()})
    yield from _function("InitialStateBelief", "CondProb", "state_0", "null", _table([()], [model.initial]))
    rows = [(action, state) for action in names["actions"] for state in names["states"]]
    size = len(rows)
    yield from _function(
        "StateTransitionFunction",
        "CondProb",
        "state_1",
        "action state_0",
        _table(rows, model.transitions.reshape(size, -1)),
    )
    yield from _function(
        "ObsFunction",
        "CondProb",
        "observation",
        "action state_1",
        _table(rows, model.observations.reshape(size, -1)),
    )
    yield from _function(
        "RewardFunction",
        "Func",
        "reward",
        _reward_parents(export.rewards),
        _reward_entries(export.rewards, names),
    )
    yield "</pomdpx>\n"


def _function(section: str, kind: str, variable: str, parents: str, entries: Iterator[str]) -> Iterator[str]:
    yield f"  <{section}>\n    <{kind}>\n      <Var>{variable}</Var>\n      <Parent>{parents}</Parent>\n"
    yield '      <Parameter type="TBL">\n'
    yield from entries
    yield f"      </Parameter>\n    </{kind}>\n  </{section}>\n"


def _table(rows: Sequence[tuple[str, ...]], values: Floats | Sequence[Floats]) -> Iterator[str]:
    """A row of probabilities for every combination of parents."""
    for row, own in zip(rows, values, strict=True):
        numbers = " ".join(map(plain_number, own.tolist()))
        yield _entry((*row, "-"), "ProbTable", numbers)


def _entry(instance: Sequence[str], kind: str, numbers: str) -> str:
    return f"        <Entry><Instance>{' '.join(instance)}</Instance><{kind}>{numbers}</{kind}></Entry>\n"


def _reward_parents(table: Floats) -> str:
    following = " state_1" if table.shape[2] > 1 else ""
    return f"action state_0{following}" + (" observation" if table.shape[3] > 1 else "")


def _reward_entries(table: Floats, names: dict[str, tuple[str, ...]]) -> Iterator[str]:
    """Every reward that is not zero; of an action that pays the same everywhere, one entry."""
    axes = (names["actions"], names["states"], names["states"], names["observations"])
    used = [axis for axis in range(4) if axis < 2 or table.shape[axis] > 1]
    yield _entry(["*"] * len(used), "ValueTable", "0")
    for action, own in enumerate(table):
        if own.any() and (own == own.flat[0]).all():
            instance = [names["actions"][action], *["*"] * (len(used) - 1)]
            yield _entry(instance, "ValueTable", plain_number(float(own.flat[0])))
            continue
        for place in np.argwhere(own).tolist():
            codes = [action, *place]
            yield _entry(
                [axes[axis][codes[axis]] for axis in used], "ValueTable", plain_number(own[tuple(place)])
            )
