"""Behind `efficiency.py`: one log learned with ten seeds; and, run as a program, how long learning takes.

    python benchmarks/efficiency_units.py LOG.npz           states and seconds as JSON

The program uses only names that every version of the library has, so that it can time an older checkout.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import unlatch
from unlatch import POMDP, Trajectory, domains
from unlatch.errors import UnlatchError

if TYPE_CHECKING:
    from unlatch.study.jobs.units import Finding, Unit

SEEDS = 10
FILE = "file:"
ROOM = "room:4x5"

SYSTEMS = {
    "tiger": 2_000,
    "tmaze:rooms=1": 5_000,
    "sense-float-reset:states=4": 30_000,
    "directional-hallway": 5_000,
    "noisy-hallway": 100_000,
    "tmaze:rooms=3,fail=0.1": 100_000,
    ROOM: 50_000,
    "random:22": 100_000,
    "random:13": 100_000,
}
"""Steps of each. The two random models have dense rows and rows with many zeros, both six states."""

COMPILING = 20_000
"""Steps to learn from before time is taken, so that every kernel is compiled, those for many states too."""

FILES = ("mini-hall2", "4x3.95", "web-ad")
FILE_STEPS = 100_000


def seeds_units(models: Path | None, steps: int | None = None) -> list[Unit]:
    """A unit for every system and seed of the learner; classic files only if their folder is given."""
    from unlatch.study.jobs.units import Unit

    systems = dict(SYSTEMS)
    if models is not None:
        missing = [name for name in FILES if not (models / f"{name}.POMDP").is_file()]
        if missing:
            print(f"not in {models}: {', '.join(missing)}", file=sys.stderr)
        systems |= {FILE + name: FILE_STEPS for name in FILES if name not in missing}
    folder = {} if models is None else {"folder": str(models.resolve())}
    return [
        Unit(
            f"{name.lower().replace(':', '.').replace(',', '.')}.{seed:02d}",
            seeds,
            {
                "system": name,
                "steps": steps or own,
                "seed": seed,
                **(folder if name.startswith(FILE) else {}),
            },
        )
        for seed in range(SEEDS)
        for name, own in systems.items()
    ]


def seeds(parameters: dict[str, Any], _: np.random.SeedSequence) -> Finding:
    """What the learner makes of a system's log, which is always the same, with one of its seeds."""
    from unlatch.study.jobs.units import Finding, named_seed
    from unlatch.study.task import Watch, outcome, rounded

    rng = np.random.default_rng(named_seed(0, f"log of {parameters['system']}"))
    truth = _truth(parameters, rng)
    log = unlatch.simulate(truth, parameters["steps"], rng=rng)
    watch = Watch()
    row: dict[str, Any] = {**parameters, "outcome": "ok", "true_states": truth.n_states}
    row.pop("folder", None)
    with outcome(row):
        with watch("learn"), watch("learn_cpu", time.process_time):
            result = unlatch.learn_pomdp(log, rng=parameters["seed"])
        row["states"], row["emission"] = result.states, result.pomdp.emission
        row["log_likelihood"] = result.log_likelihood
    return Finding([rounded(row)], watch.seconds)


def _truth(parameters: dict[str, Any], rng: np.random.Generator) -> POMDP:
    name = parameters["system"]
    if name.startswith(FILE):
        from systems_units import file_model

        return file_model(Path(parameters["folder"]) / f"{name.removeprefix(FILE)}.POMDP")
    if name == ROOM:
        return domains.random_room(4, 5, rng=rng)
    from unlatch.study.random_models import system

    return system(name)


# --- a log for another process ---------------------------------------------------------------------------


def save_arrays(log: Trajectory, path: Path) -> None:
    """What `learn_pomdp` needs of a log without episodes, as plain arrays that every version can read."""
    np.savez(
        path,
        actions=log.actions,
        observations=log.observations,
        action_names=np.array(log.action_names),
        observation_names=np.array(log.observation_names),
    )


def main(path: Path) -> None:
    with np.load(path) as arrays:
        log = Trajectory(
            arrays["actions"],
            arrays["observations"],
            action_names=tuple(arrays["action_names"].tolist()),
            observation_names=tuple(arrays["observation_names"].tolist()),
        )
    with suppress(UnlatchError):  # compiles; so short a part may be refused
        unlatch.learn_pomdp(log.head(min(len(log), COMPILING)), rng=0)
    wall, cpu = time.perf_counter(), time.process_time()
    result = unlatch.learn_pomdp(log, rng=0)
    spent = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    print(json.dumps({"states": result.states, **spent}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
