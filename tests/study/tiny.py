"""Studies of units of a few milliseconds, and a function that runs them as a script: material for killing."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unlatch.study.jobs.runner import run_units
from unlatch.study.jobs.units import Finding, Study, Unit

if TYPE_CHECKING:  # imported where it is needed: these scripts are started a hundred times
    import numpy as np


def draw(parameters: Mapping[str, Any], seed: np.random.SeedSequence) -> Finding:
    """A few random numbers, after a nap; notes in a log who was here, if there is one."""
    if parameters.get("log"):
        descriptor = os.open(parameters["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, f"{parameters['number']}\n".encode())
        os.close(descriptor)
    time.sleep(parameters.get("nap", 0.0))
    import numpy as np

    values = np.random.default_rng(seed).random(3)
    rows = [{"number": parameters["number"], "draw": i, "value": float(v)} for i, v in enumerate(values)]
    return Finding(rows, {"nap": time.time()})


def misbehave(parameters: Mapping[str, Any], seed: np.random.SeedSequence) -> Finding:
    """Hang, die, die once, raise, or return what is no JSON, as asked."""
    how = parameters["how"]
    if how == "hang":
        time.sleep(1000)
    if how == "die" or (how == "die once" and not Path(parameters["mark"]).exists()):
        Path(parameters["mark"]).touch()
        os.kill(os.getpid(), 9)
    if how == "exit":
        os._exit(3)
    if how == "raise":
        raise ValueError("no luck")
    if how == "memory":
        raise MemoryError
    if how == "nan":
        return Finding([{"value": float("nan")}])
    return Finding([{"how": how}])


def tiny_study(units: int, **parameters: Any) -> Study:
    """Units that draw numbers."""
    made = [Unit(f"draw-{i:03d}", draw, {"number": i, **parameters}) for i in range(units)]
    return Study("tiny", made, root_seed=7, settings={"version": "1"})


def main() -> None:
    """Run a tiny study as told by the command line: folder, units, workers, nap, log."""
    out, units, workers, nap, log = sys.argv[1:]
    try:
        run_units(tiny_study(int(units), nap=float(nap), log=log), out, workers=int(workers))
    except KeyboardInterrupt:
        sys.exit(130)
