"""The doors to model files: which format a file has is told by the ending of its name.

.POMDP            Cassandra's text format, read by most solvers
.pomdpx           POMDPX, the XML format of APPL and SARSOP
.npz              our own, for large models
anything else     our own JSON
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from unlatch.core.diagnostics import Diagnostics
from unlatch.core.partition import Partition
from unlatch.core.partition_model import PartitionModel
from unlatch.core.pomdp import POMDP
from unlatch.core.problem import Problem
from unlatch.core.psr import PSR
from unlatch.errors import ModelFileError, UsageError
from unlatch.files.atomic import PathLike, checked_path, read_regular_file, write_atomically
from unlatch.files.models import native
from unlatch.files.models.native import FILLED_IN, Learned, SavedModel, as_saved, completed

__all__ = [
    "check_model_name",
    "load_model",
    "load_problem",
    "save_model",
    "save_problem",
    "with_detected_ends",
]

Reader = Callable[[bytes, str], SavedModel]
Terminal = Literal["told", "detect"]

_NO_MODELS = {
    **dict.fromkeys((".alpha", ".policy", ".policyx"), "a value function"),
    **dict.fromkeys((".dot", ".mmd"), "a graph"),
    ".html": "a page",
}
"""What files hold that models are never in, by their ending."""

_OTHER_KINDS = (*_NO_MODELS, ".csv", ".gz", ".zst", ".parquet", ".feather", ".npy")
"""Endings of these, and of logs."""


def load_model(path: PathLike) -> SavedModel:
    """Read a model file: our JSON or NPZ, ``.POMDP`` or ``.pomdpx``, by the ending of its name.

    Raises `ModelFileError` for a file that is damaged, foreign, of a newer major version, or no valid model.
    What was repaired or passed over is in the ``diagnostics`` of the result.

    Examples
    --------
    >>> import unlatch
    >>> unlatch.save_model("tiger.json", unlatch.domains.tiger())
    >>> unlatch.load_model("tiger.json").model
    POMDP(2 states, 3 actions, 6 observations, emission='departure')
    """
    where = checked_path(path)
    read = _reader(where)
    if (kind := _NO_MODELS.get(_ending(where))) is not None and os.path.exists(where):
        raise ModelFileError(
            f"{where}: {kind}, no model; models are in .json, .npz, .POMDP and .pomdpx files"
        )
    return read(read_regular_file(path, largest=native.MAX_BYTES), where)


def load_problem(path: PathLike, *, terminal: Terminal = "told") -> Problem:
    """Read a model with its reward and discount.

    Parameters
    ----------
    path : path of a file whose name ends in ``.POMDP``, ``.pomdpx``, ``.npz`` or ``.json``
        Of a learned model without a reward of its own, the reward is what its symbols carry.
    terminal : "told" or "detect"
        ``.POMDP`` and ``.pomdpx`` know no terminal states: what looks like one leads to itself and pays nothing. With
        "detect" such states, where no episode starts in them, become terminal; otherwise only those that unlatch wrote
        down as such.

    Returns
    -------
    Problem
        What was noticed or repaired on the way is in its ``diagnostics``.

    Examples
    --------
    >>> import os, tempfile, unlatch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "tiger.POMDP")
    ...     notes = unlatch.save_problem(path, unlatch.Problem(unlatch.domains.tiger(), discount=0.9))
    ...     unlatch.load_problem(path)
    Problem(POMDP(4 states, 3 actions, 6 observations, emission='arrival'), reward on transitions, discount=0.9)
    """
    if terminal not in ("told", "detect"):
        raise UsageError(f"terminal must be 'told' or 'detect', got {terminal!r}")
    problem = load_model(path).problem
    return with_detected_ends(problem) if terminal == "detect" else problem


def with_detected_ends(problem: Problem) -> Problem:
    """States that every action leaves where they are, that pay nothing and that no episode starts in, as terminal."""
    model = problem.model
    if not isinstance(model, POMDP):
        return problem
    here = np.arange(model.n_states)
    stay = (model.transitions[:, here, here] == 1).all(axis=0) & (model.initial == 0)
    nothing = (problem.rewards == 0).all(axis=0)
    found = np.flatnonzero(stay & nothing)
    return replace(problem, model=replace(model, terminal=tuple({*model.terminal, *found.tolist()})))


def save_problem(path: PathLike, problem: Problem) -> Diagnostics:
    """Write a model with its reward and discount, whole or not at all.

    Parameters
    ----------
    path : path of a file whose name ends in ``.POMDP``, ``.pomdpx``, ``.npz`` or ``.json``
        It is replaced if it exists. Our own formats hold everything. The other two show observations on arrival: a
        model that shows them on departure is written by the exact conversion, `with_emission`.
    problem : Problem

    Returns
    -------
    Diagnostics
        What the format has no place for, or holds in another form.

    Examples
    --------
    >>> import unlatch
    >>> problem = unlatch.Problem(unlatch.domains.tiger(), discount=0.95)
    >>> notes = unlatch.save_problem("tiger.POMDP", problem)
    >>> unlatch.load_problem("tiger.POMDP").discount
    0.95
    """
    where = checked_path(path)
    if not isinstance(problem, Problem):
        raise UsageError(
            f"expected a Problem, got {type(problem).__name__}; make one by Problem(model, reward, discount=...), or "
            "write a learned model by save_model"
        )
    ending = _ending(where)
    if ending == ".pomdp":
        from unlatch.files.models.pomdp_writer import pomdp_bytes

        data, notes = pomdp_bytes(problem, where)
    elif ending == ".pomdpx":
        from unlatch.files.models.pomdpx_writer import pomdpx_bytes

        data, notes = pomdpx_bytes(problem, where)
    elif ending in (".json", ".npz"):
        data, notes = _written(_saved_problem(problem), where), Diagnostics()
    else:
        raise UsageError(
            f"{where}: a problem is written to a file whose name ends in .POMDP, .pomdpx, .json or .npz"
        )
    write_atomically(path, data)
    return notes


def _saved_problem(problem: Problem) -> SavedModel:
    model = problem.model
    saved = SavedModel(
        pomdp=model if isinstance(model, POMDP) else None,
        psr=model.psr if isinstance(model, PartitionModel) else model if isinstance(model, PSR) else None,
        partition=model.partition if isinstance(model, PartitionModel) else None,
        reward=problem.reward,
        discount=problem.discount,
        diagnostics=problem.diagnostics,
    )
    return replace(saved, provenance=completed({}, timestamp=False))


def save_model(
    path: PathLike,
    model: POMDP | PSR | SavedModel | Learned,
    *,
    partition: Partition | None = None,
    psr: PSR | None = None,
    provenance: Mapping[str, Any] | None = None,
    diagnostics: Diagnostics | None = None,
    timestamp: bool = False,
) -> None:
    """Write a model file, whole or not at all. The same model gives the same bytes.

    A name that ends in ``.npz`` gets our NPZ, for large models, and any other our JSON; for other people's formats
    there is `save_problem`. Endings of logs, value functions and graphs are refused.

    Parameters
    ----------
    path : path of the file, replaced if it exists
    model : result of learning, POMDP, PSR or SavedModel
        Of a result (`learn_pomdp`), all that is known goes into the file: the model, its partition, evidence,
        likelihood, intervals (at the level last asked for, else at 90 %), options, diagnostics, the seed, the size of
        the log, and what the spectral stage found. Where the
        spectral model is what was returned, its PSR is stored as well.
    partition, psr : optional
        Stored beside the model; they replace those of a `SavedModel` or a result.
    provenance : mapping, optional
        Added to what is known of a `SavedModel` or a result. The versions of unlatch and of what it is built on are
        always those of the software that writes the file, under ``software``; versions that a loaded model came with
        are kept under ``software_before``.
    diagnostics : Diagnostics, optional
        Added to those of a `SavedModel` or a result.
    timestamp : bool
        Note the time (UTC) in the provenance, as ``created``. The bytes then differ from one run to the next.

    Examples
    --------
    >>> import unlatch
    >>> unlatch.save_model("tiger.json", unlatch.domains.tiger())
    >>> unlatch.load_model("tiger.json").pomdp == unlatch.domains.tiger()
    True
    """
    where = checked_path(path)
    check_model_name(path)
    _refuse_kinds(partition, psr, provenance, diagnostics)
    saved = as_saved(model)
    whole = replace(
        saved,
        partition=partition or saved.partition,
        psr=psr or saved.psr,
        provenance=completed({**saved.provenance, **(provenance or {})}, timestamp),
        diagnostics=saved.diagnostics + (diagnostics or Diagnostics()),
    )
    write_atomically(path, _written(whole, where))


def check_model_name(path: PathLike) -> None:
    """Refuse an ending that names another kind of file: a call that learns for hours asks before."""
    where = checked_path(path)
    ending = _ending(where)
    if ending in (".pomdp", ".pomdpx"):
        raise UsageError(
            f"{where}: a file of this format holds a model with a reward and a discount, and not how it was learned; "
            "write a .json first, then convert it (unlatch convert, or save_problem(path, Problem(model, reward, "
            "discount=...)))"
        )
    if ending in _OTHER_KINDS:
        raise UsageError(f"{where}: {ending} is no ending of a model; write a .json, or .npz if it is large")


def _refuse_kinds(
    partition: object, psr: object, provenance: Mapping[str, Any] | None, diagnostics: object
) -> None:
    for name, value, kind in (
        ("partition", partition, Partition),
        ("psr", psr, PSR),
        ("provenance", provenance, Mapping),
        ("diagnostics", diagnostics, Diagnostics),
    ):
        if value is not None and not isinstance(value, kind):
            raise UsageError(f"{name} must be of type {kind.__name__}, got {type(value).__name__}")
    taken = [name for name in FILLED_IN if name in (provenance or {})]
    if taken:
        raise UsageError(f"provenance: {', '.join(taken)} is filled in by save_model; give it another name")


def _ending(where: str) -> str:
    return os.path.splitext(where)[1].lower()


def _reader(where: str) -> Reader:
    ending = _ending(where)
    if ending == ".pomdp":
        from unlatch.files.models.pomdp_reader import read_pomdp

        return read_pomdp
    if ending == ".pomdpx":
        from unlatch.files.models.pomdpx_reader import read_pomdpx

        return read_pomdpx
    if ending == ".npz":
        from unlatch.files.models.native_npz import read_npz

        return read_npz
    return native.read_json


def _written(saved: SavedModel, where: str) -> bytes:
    """The bytes of a file of ours."""
    ending = _ending(where)
    if ending == ".npz":
        from unlatch.files.models.native_npz import npz_bytes

        return npz_bytes(saved, where)
    return native.json_bytes(saved, where)
