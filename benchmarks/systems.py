"""`learn_pomdp(log)` on systems that other people made, or that are unlike the paper's.

    python benchmarks/systems.py frozen-lake                Gymnasium's FrozenLake-v1: learn, plan, act in it
    python benchmarks/systems.py classic --models DIR       ``.POMDP`` files: information about a held-out log
    python benchmarks/systems.py classic --long --models DIR        the largest of them, from ten times the steps
    python benchmarks/systems.py singular                   no transition matrix of full rank: errors against the bound
    python benchmarks/systems.py endings                    episodes that end: when they do, and planning with that
    python benchmarks/systems.py GROUP --at-most 1 --steps 2000     whether it runs

Finished logs are kept in ``--out``, a folder per group: the same command goes on where it stopped, and ``--report``
only prints. ``frozen-lake`` needs Gymnasium, which the project does not install: ``pip install gymnasium``. The files
of ``classic`` are not shipped: they are in the collection of pomdp.org and in many repositories.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import systems_units
from study_runs import Rows, add_options, digest, finished_rows, number
from unlatch.errors import UnlatchError
from unlatch.study.jobs.units import Study, Unit
from unlatch.study.studies import code_digest

FILES = (
    "tiger.95", "web-ad", "1d", "paint.95", "network.95", "parr95.95", "shuttle.95", "query.s2", "cheese.95",
    "4x3.95", "bridge-repair", "ejs1", "concert", "hanks.95", "stand-tiger.95", "cheng.D5-1", "mini-hall2", "4x4.95",
    "milos-aaai97", "query.s3",
)  # fmt: skip
"""2 to 27 states. Of the first ten it is known which emission a log of theirs prefers."""

KNOWN_EMISSION = 10
FILE_STEPS = 100_000
LONG_FILES = ("query.s3", "milos-aaai97", "hallway")
LONG_STEPS = 1_000_000
"""27, 20 and 60 states."""

LONG_SECONDS = 6 * 3600.0
LAKES = {
    "only the column seen, not slippery": {"slippery": False, "observe": "column", "steps": 100_000},
    "all seen, slippery": {"slippery": True, "observe": "cell", "steps": 200_000},
}
LAKE_LOGS = 3
EPISODES = 2_000
MODELS = 20

ENOUGH_INFORMATION = 0.99
ENOUGH_AT_ORACLE = 17
ENOUGH_RATIO = 1.5
"""Where a result counts as wanted: share of information, files level with the oracle, errors in units of the bound."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("groups", nargs="+", help=f"any of {', '.join(GROUPS)}")
    parser.add_argument("--models", type=Path, help="folder of the .POMDP files of classic")
    parser.add_argument("--long", action="store_true", help="the largest files of classic, from long logs")
    parser.add_argument("--files", help="some files of classic alone, as in tiger.95,query.s2")
    parser.add_argument("--emission", default="auto", choices=["auto", "arrival", "departure"])
    parser.add_argument("--steps", type=int, help="steps of every log instead of the group's own")
    parser.add_argument(
        "--time-limit", type=float, metavar="SECONDS", help="of every log: how far it goes by then"
    )
    parser.add_argument("--episodes", type=int, default=EPISODES, help="of acting, a planner")
    add_options(parser, out="systems")
    arguments = parser.parse_args()
    if unknown := set(arguments.groups) - set(GROUPS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    for group in arguments.groups:
        _run(group, arguments, parser)


def _run(group: str, arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    units_of, report = GROUPS[group]
    function = getattr(systems_units, group.replace("-", "_"))
    common = {
        "emission": arguments.emission,
        "episodes": arguments.episodes,
        "time_limit": arguments.time_limit,
    }
    units = []
    for name, parameters in units_of(arguments, parser).items():
        steps = parameters["steps"] if arguments.steps is None else arguments.steps
        units.append(Unit(name, function, {**common, **parameters, "steps": steps}))
    name = f"{group}-long" if group == "classic" and arguments.long else group
    settings = {
        "code": code_digest("held_out.py", "efficiency.py"),
        "benchmark": digest(systems_units),
    }
    study = Study(name, tuple(units), settings=settings)
    chosen = units[: arguments.at_most]
    most_seconds = LONG_SECONDS if arguments.long else 7200.0
    rows = finished_rows(study, arguments.out / name, arguments, chosen, most_seconds=most_seconds)
    print(f"\n## {name}: {len({row['unit'] for row in rows})} of {len(units)} logs\n")
    report(rows)


# --- which logs ------------------------------------------------------------------------------------------

Units = dict[str, dict[str, Any]]


def _lakes(_: argparse.Namespace, parser: argparse.ArgumentParser) -> Units:
    if importlib.util.find_spec("gymnasium") is None:
        parser.error(
            "frozen-lake acts in Gymnasium's environment, which is not installed: pip install gymnasium"
        )
    return {
        f"{lake['observe']}.{log}": {"lake": name, "log": log, **lake}
        for log in range(LAKE_LOGS)
        for name, lake in LAKES.items()
    }


def _files(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> Units:
    if arguments.models is None:
        parser.error("classic needs --models, the folder with the .POMDP files")
    files, steps = (LONG_FILES, LONG_STEPS) if arguments.long else (FILES, FILE_STEPS)
    files = tuple(arguments.files.split(",")) if arguments.files else files
    readable = [name for name in files if _can_be_read(arguments.models / f"{name}.POMDP")]
    folder = str(arguments.models.resolve())
    return {name.lower(): {"file": name, "folder": folder, "steps": steps} for name in readable}


def _can_be_read(path: Path) -> bool:
    """Whether the reader can, which says so if not."""
    try:
        systems_units.file_model(path)
    except UnlatchError as error:
        print(f"left out: {error}", file=sys.stderr)
        return False
    return True


def _singular(_: argparse.Namespace, __: argparse.ArgumentParser) -> Units:
    return _both_emissions(steps=1_000_000)


def _endings(_: argparse.Namespace, __: argparse.ArgumentParser) -> Units:
    return _both_emissions(steps=100_000)


def _both_emissions(steps: int) -> Units:
    return {
        f"{emission}.{number:02d}": {"true_emission": emission, "number": number, "steps": steps}
        for number in range(MODELS // 2)
        for emission in ("departure", "arrival")
    }


# --- reports ---------------------------------------------------------------------------------------------


def _lakes_report(rows: Rows) -> None:
    print("| lake | log | states | emission | seconds | policy | success |")
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        rate = (
            f"{row['success']:.3f} ± {row['standard_error']:.3f}" if "success" in row else row.get("refusal")
        )
        print(
            f"| {row['lake']} | {row['log']} | {_learned(row)} | {_seconds(row)} | {row.get('policy')} | {rate} |"
        )


def _files_report(rows: Rows) -> None:
    print(
        "| file | states | true | emission | information share | impossible steps | bits at stake | "
        "nats above the oracle | evidence | observation L1 | of rows ever shown | CPU s | seconds |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        states, emission = _found(row)
        print(
            f"| {row['file']} | {states} | {row.get('true_states')} | {emission} | {number(row, 'share', '.2%')} | "
            f"{row.get('impossible', '-')} | {number(row, 'information', '.4f')} | "
            f"{number(row, 'log_likelihood_gap', '+.1f')} | {number(row, 'oracle_gap', '+.1f')} | "
            f"{number(row, 'observation_l1', '.4f')} | {number(row, 'shown_l1', '.4f')} | "
            f"{number(row, 'cpu', '.0f')} | {_seconds(row)} |"
        )
    good = [
        row for row in rows if (row.get("share") or 0) >= ENOUGH_INFORMATION and row.get("impossible") == 0
    ]
    level = [row for row in rows if row.get("at_oracle")]
    known = [row for row in rows if row["file"] in FILES[:KNOWN_EMISSION]]
    arrival = [row for row in known if row.get("emission_found") == "arrival"]
    print(
        f"\nevidence at most {systems_units.AT_ORACLE:g} nats below the model refined from the truth: {len(level)} of "
        f"{len(rows)} (wanted: {ENOUGH_AT_ORACLE} of {len(FILES)}); at least {ENOUGH_INFORMATION:.0%} and nothing "
        f"impossible: {len(good)} of {len(rows)} (wanted: all); emission right: {len(arrival)} of {len(known)} files "
        "of which it is known (wanted: 8 of 10)"
    )


def _singular_report(rows: Rows) -> None:
    print(
        "| model | ranks | true states | states | emission | observations ÷ bound | transitions ÷ bound | seconds |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        states, emission = _found(row)
        print(
            f"| {row['true_emission']} {row['number']} | {row.get('ranks')} | {row.get('true_states')} | {states} | "
            f"{emission} | {number(row, 'observation_ratio', '.2f')} | {number(row, 'transition_ratio', '.2f')} | "
            f"{_seconds(row)} |"
        )
    right = [row for row in rows if row.get("states") == row.get("true_states") and "transition_ratio" in row]
    print(f"\nright count: {len(right)} of {len(rows)}")
    for column in ("observation_ratio", "transition_ratio"):
        ratios = [row[column] for row in right if row[column] is not None]
        if ratios:
            print(
                f"{column}: mean {np.mean(ratios):.2f}, largest {np.max(ratios):.2f} (wanted: at most {ENOUGH_RATIO})"
            )


def _endings_report(rows: Rows) -> None:
    print(
        "| model | cap | true states | states | terminal | emission | RMS of P(end) ÷ bound | learned return | "
        "with the truth | σ | hidden endings noted | seconds |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        states, emission = _found(row)
        returns = [
            f"{number(row, f'{name}_return', '.3f')} ± {number(row, f'{name}_return_error', '.3f')}"
            for name in ("learned", "true")
        ]
        print(
            f"| {row['true_emission']} {row['number']} | {row.get('cap')} | {row.get('true_states')} | {states} | "
            f"{row.get('terminal_states', '-')} | {emission} | {number(row, 'ending_ratio', '.2f')} | "
            f"{' | '.join(returns)} | {number(row, 'planning_sigmas', '+.1f')} | {row.get('told_on', '-')} | "
            f"{_seconds(row)} |"
        )
    right = [row for row in rows if row.get("ending_ratio") is not None]
    level = [row for row in rows if row.get("planning_sigmas") is not None and row["planning_sigmas"] >= -2]
    ratios = [row["ending_ratio"] for row in right] or [np.nan]
    print(
        f"\nright count: {len(right)} of {len(rows)}; RMS of P(end) ÷ the Cramer-Rao bound: mean "
        f"{np.mean(ratios):.2f}, largest {np.max(ratios):.2f} (wanted: at most {ENOUGH_RATIO}); plans within two "
        f"standard errors of the truth's: "
        f"{len(level)} of {len(rows)}; hidden endings noted: {sum(row.get('told_on') is True for row in rows)}"
    )


def _found(row: Mapping[str, Any]) -> tuple[Any, Any]:
    """States and emission, or the reason why there are none."""
    return (row["states"], row["emission_found"]) if "states" in row else (row["outcome"], "-")


def _learned(row: Mapping[str, Any]) -> str:
    states, emission = _found(row)
    return f"{states} | {emission}"


def _seconds(row: Mapping[str, Any]) -> str:
    return number(row, "seconds", ".0f")


GROUPS: dict[
    str, tuple[Callable[[argparse.Namespace, argparse.ArgumentParser], Units], Callable[[Rows], None]]
] = {
    "frozen-lake": (_lakes, _lakes_report),
    "classic": (_files, _files_report),
    "singular": (_singular, _singular_report),
    "endings": (_endings, _endings_report),
}


if __name__ == "__main__":
    main()
