"""Every model file of a folder read, written in every format that can be written, and read again.

``python benchmarks/model_files.py FOLDER`` prints, for each ``.POMDP`` and ``.pomdpx`` file, the greatest difference of
a number between the problem read first and what came back, in each format: transitions, observations, start, rewards,
discount. With ``--only tiger.95 hallway`` only these. The exit code is 1 if a file cannot be read or a difference is
above 1e-12.

With ``--converter PATH``, the program ``pomdpconvert`` that comes with the sources of SARSOP, another column compares
with what a reader of others makes of the file: that program reads ``.POMDP`` by Cassandra's own parser and writes
POMDPX. It writes six digits, so that differences are relative to the largest number of a table and up to 1e-5; and it
takes costs for rewards, so that the signs of these are turned where a file says ``values: cost``.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from unlatch import POMDP, Problem, load_problem, save_problem
from unlatch.errors import UnlatchError

ENDINGS = (".POMDP", ".pomdpx", ".json", ".npz")
EQUAL = 1e-12
SIX_DIGITS = 1e-5


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


def converted(path: Path, problem: Problem, converter: Path, folder: Path) -> float:
    """The greatest difference to what ``pomdpconvert`` reads, relative to the largest number of its table."""
    shutil.copy(path, folder / "its.pomdp")
    run = [str(converter.resolve()), "its.pomdp"]
    subprocess.run(run, cwd=folder, capture_output=True, check=True, timeout=60)
    other = load_problem(folder / "its.pomdpx")
    a, b = problem.model, other.model
    assert isinstance(a, POMDP)
    assert isinstance(b, POMDP)
    sign = -1 if "values: cost" in " ".join(path.read_text().lower().split()) else 1
    pairs = [
        (a.transitions, b.transitions),
        (a.observations, b.observations),
        (a.initial, b.initial),
        (problem.rewards, sign * other.rewards),
        (np.array([problem.discount]), np.array([other.discount])),
    ]
    if any(x.shape != y.shape for x, y in pairs):
        return float("inf")
    return max(float(np.abs(x - y).max() / max(np.abs(x).max(), 1e-300)) for x, y in pairs)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", help="names of files without their endings")
    parser.add_argument("--converter", type=Path, help="pomdpconvert, to compare with what it reads")
    given = parser.parse_args()
    paths = sorted(path for path in given.folder.iterdir() if path.suffix.lower() in (".pomdp", ".pomdpx"))
    chosen = [path for path in paths if given.only is None or path.stem in given.only]
    worst, worst_converted = 0.0, 0.0
    columns = [*ENDINGS, *(["converter"] if given.converter else [])]
    print(f"{'file':24} {'states':>6} " + " ".join(f"{column:>9}" for column in columns))
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
                if given.converter and path.suffix.lower() == ".pomdp":
                    found.append(converted(path, problem, given.converter, Path(folder)))
                    worst_converted = max(worst_converted, found[-1])
            except UnlatchError as error:
                print(f"{path.name}: {error}", file=sys.stderr)
                states = "-"
            worst = max(worst, *found[: len(ENDINGS)])
            print(f"{path.name:24} {states:>6} " + " ".join(f"{value:9.1e}" for value in found), flush=True)
    print(f"{len(chosen)} files, greatest difference {worst:.1e} (wanted: at most {EQUAL:.0e})")
    if given.converter:
        print(
            f"greatest difference to the converter {worst_converted:.1e} (wanted: at most {SIX_DIGITS:.0e})"
        )
    return 0 if worst <= EQUAL and worst_converted <= SIX_DIGITS else 1


if __name__ == "__main__":
    sys.exit(main())
