"""The work behind `rooms.py`: a room learned by us, and by CSCG, each a function of its parameters and seed alone."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import cscg_code
import unlatch
from systems_units import finding, learned
from unlatch import POMDP, Trajectory, domains
from unlatch.errors import UnlatchError
from unlatch.study.held_out import chances_of_what_was_seen
from unlatch.study.jobs.units import Finding, named_seed
from unlatch.study.task import Watch

Parameters = Mapping[str, Any]
Row = dict[str, Any]

MOST_HELD_OUT = 100_000
"""Steps of a held-out log: a bit per step is known to a few thousandths of its error by then, and with hundreds of
states more take long."""


def rooms(parameters: Parameters, seed: np.random.SeedSequence) -> Finding:
    """Number of cells found, and bits per step of a held-out log above the truth."""
    truth, log, held_out = _logs(parameters)
    _compile()
    watch = Watch()
    row: Row = {**parameters, "true_states": truth.n_states}
    result = learned(log, {"emission": "auto", **parameters}, np.random.default_rng(seed), row, watch)
    if result is not None:
        ours, theirs = (chances_of_what_was_seen(model, held_out) for model in (result.pomdp, truth))
        possible = ours > 0
        row["impossible"] = int((~possible).sum())
        row["bits_above_truth"] = float(np.log2(theirs[possible] / ours[possible]).sum() / len(held_out))
        row["complete"] = result.complete
    return finding([row], watch)


def _logs(parameters: Parameters) -> tuple[POMDP, Trajectory, Trajectory]:
    """The room, the log to learn from and the one to judge by: the same for every learner."""
    names = ("room", "layout", "slip", "wrong", "steps")
    rng = np.random.default_rng(named_seed(0, " ".join(str(parameters[name]) for name in names)))
    truth = _room(parameters, rng)
    steps = parameters["steps"]
    log = unlatch.simulate(truth, steps, rng=rng)
    return truth, log, unlatch.simulate(truth, min(steps, MOST_HELD_OUT), rng=rng)


def _room(parameters: Parameters, rng: np.random.Generator) -> POMDP:
    rows, columns = parameters["rows"], parameters["columns"]
    noise = {"slip": parameters["slip"], "wrong": parameters["wrong"]}
    if parameters["room"].startswith("empty"):
        return domains.room(touched_walls(rows, columns), **noise)
    return domains.random_room(rows, columns, **noise, rng=rng)


def touched_walls(rows: int, columns: int) -> np.ndarray:
    """An empty room: every cell is named by the walls that it touches, and by nothing else."""
    names = np.full((rows, columns), "", dtype="<U32")
    for wall, cells in (
        ("top", np.s_[0]),
        ("bottom", np.s_[-1]),
        ("left", np.s_[:, 0]),
        ("right", np.s_[:, -1]),
    ):
        names[cells] = np.char.add(names[cells], f"+{wall}")
    return np.where(names == "", "none", np.char.lstrip(names, "+"))


def _compile() -> None:
    """Learn a tiny room, so that the seconds of a room are not those of the compiler."""
    tiny = domains.room(["aab", "bac"])
    with contextlib.suppress(UnlatchError):
        unlatch.learn_pomdp(unlatch.simulate(tiny, 2_000, rng=0), rng=0)


# --- CSCG ------------------------------------------------------------------------------------------------


def cscg(parameters: Parameters, seed: np.random.SeedSequence) -> Finding:
    """The same log learned by CSCG, with so many clones of every color as ``factor`` times the most that one needs.

    Its model has no step before the first observation, so that one is not counted for either.
    """
    truth, log, held_out = _logs(parameters)
    code = cscg_code.loaded(Path(parameters["path"]))
    clones = int(np.ceil(parameters["factor"] * _most_needed(truth)))
    row: Row = {key: value for key, value in parameters.items() if key != "path"}
    row |= {"outcome": "ok", "true_states": truth.n_states, "clones": clones}
    colors = np.full(truth.n_observations, clones, dtype=np.int64)
    own_seed = int(np.random.default_rng(seed).integers(2**31))
    watch = Watch()
    with contextlib.redirect_stdout(io.StringIO()):
        first, _, _ = cscg_code.trained(code, colors, log.head(100), own_seed, rounds=1)
        cscg_code.hardened(first, log.head(100))  # compiles
        with watch("learn"), watch("learn_cpu", time.process_time):
            model, row["rounds"], row["cut"] = cscg_code.trained(
                code, colors, log, own_seed, most_seconds=parameters["most_seconds"]
            )
            model = cscg_code.hardened(model, log)
        row["states"] = cscg_code.states_used(model, log)
        bits, row["impossible"] = cscg_code.bits(model, held_out)
    theirs = -np.log2(chances_of_what_was_seen(truth, held_out))
    row["bits_above_truth"] = float(np.mean(bits[1:] - theirs[1:]))
    return finding([row], watch)


def _most_needed(truth: POMDP) -> int:
    """Cells that have the commonest color."""
    return int(np.bincount(truth.observations[0].argmax(axis=1)).max())
