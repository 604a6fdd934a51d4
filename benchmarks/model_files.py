"""Every model file of a folder read, written in every format that can be written, and read again.

``python benchmarks/model_files.py FOLDER`` prints, for each ``.POMDP`` and ``.pomdpx`` file, the greatest difference of
a number between the problem read first and what came back, in each format: transitions, observations, start, rewards,
discount. With ``--only tiger.95 hallway`` only these. The exit code is 1 if a file cannot be read or a difference is
above 1e-12.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from unlatch import POMDP, Problem, load_problem, save_problem
from unlatch.errors import UnlatchError

ENDINGS = (".POMDP", ".pomdpx", ".json", ".npz")
EQUAL = 1e-12


def difference(one: Problem, other: Problem) -> float:
    """The greatest of a number; infinite if shapes or names differ."""
    a, b = one.model, other.model
    assert isinstance(a, POMDP)
    assert isinstance(b, POMDP)
    if a.emission != b.emission or (a.action_names, a.observation_names) != (
        b.action_names,
        b.observation_names,
    ):
        return float("inf")
    pairs = [
        (a.transitions, b.transitions),
        (a.observations, b.observations),
        (a.initial, b.initial),
        (one.reward_table, other.reward_table),
        (np.array(one.discount), np.array(other.discount)),
    ]
    try:
        return max(float(np.max(np.abs(x - y), initial=0)) for x, y in pairs)
    except ValueError:  # shapes that do not fit each other
        return float("inf")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", help="names of files without their endings")
    given = parser.parse_args()
    paths = sorted(path for path in given.folder.iterdir() if path.suffix.lower() in (".pomdp", ".pomdpx"))
    chosen = [path for path in paths if given.only is None or path.stem in given.only]
    worst = 0.0
    print(f"{'file':24} {'states':>6} " + " ".join(f"{ending:>9}" for ending in ENDINGS))
    with tempfile.TemporaryDirectory() as folder:
        for path in chosen:
            try:
                found = [float("inf")] * len(ENDINGS)
                problem = load_problem(path)
                for i, ending in enumerate(ENDINGS):
                    copy = Path(folder, f"{path.stem}{ending}")
                    save_problem(copy, problem)
                    found[i] = difference(problem, load_problem(copy))
                states = str(problem.model.n_states)
            except UnlatchError as error:
                print(f"{path.name}: {error}", file=sys.stderr)
                states = "-"
            worst = max(worst, *found)
            print(f"{path.name:24} {states:>6} " + " ".join(f"{value:9.1e}" for value in found), flush=True)
    print(f"{len(chosen)} files, greatest difference {worst:.1e} (wanted: at most {EQUAL:.0e})")
    return 0 if worst <= EQUAL else 1


if __name__ == "__main__":
    sys.exit(main())
