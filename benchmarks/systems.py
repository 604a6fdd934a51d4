"""`learn_pomdp(log)` on systems that other people made, or that are unlike the paper's.

    python benchmarks/systems.py frozen-lake                Gymnasium's FrozenLake-v1: learn, plan, act in it
    python benchmarks/systems.py classic --models DIR       ``.POMDP`` files: information about a held-out log
    python benchmarks/systems.py rooms [--noisy]            rooms in which many cells look the same
    python benchmarks/systems.py singular                   no transition matrix of full rank: errors against the bound
    python benchmarks/systems.py endings                    episodes that end: when they do, and planning with that
    python benchmarks/systems.py GROUP --at-most 1 --steps 2000     whether it runs

Finished logs are kept in ``--out``, a folder per group: the same command goes on where it stopped, and ``--report``
only prints. ``frozen-lake`` needs Gymnasium, which the project does not install: ``pip install gymnasium``. The files
of ``classic`` are not shipped: they are in the collection of pomdp.org and in many repositories.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import pomdp_files
import systems_units
from unlatch.study.jobs.runner import collect_rows, collect_seconds, run_units, write_table
from unlatch.study.jobs.units import Study, Unit
from unlatch.study.studies import code_digest

Rows = Sequence[Mapping[str, Any]]

FILES = (
    "tiger.95", "web-ad", "1d", "paint.95", "network.95", "parr95.95", "shuttle.95", "query.s2", "cheese.95",
    "4x3.95", "bridge-repair", "ejs1",
)  # fmt: skip
SIZES = ((3, 4), (4, 5), (5, 6))
LAYOUTS = 5
LAKES = {
    "only the column seen, not slippery": {"slippery": False, "observe": "column", "steps": 100_000},
    "all seen, slippery": {"slippery": True, "observe": "cell", "steps": 200_000},
}
LAKE_LOGS = 3
EPISODES = 2_000
MODELS = 20

ENOUGH_INFORMATION = 0.99
ENOUGH_BITS = 0.001
ENOUGH_RATIO = 1.5
"""Where a result counts as wanted: share of information, bits above the truth, errors in units of the bound."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("groups", nargs="+", help=f"any of {', '.join(GROUPS)}")
    parser.add_argument("--models", type=Path, help="folder of the .POMDP files of classic")
    parser.add_argument("--noisy", action="store_true", help="rooms with wrong colors and slips")
    parser.add_argument("--emission", default="auto", choices=["auto", "arrival", "departure"])
    parser.add_argument("--steps", type=int, help="steps of every log instead of the group's own")
    parser.add_argument("--episodes", type=int, default=EPISODES, help="of acting, a planner")
    parser.add_argument("--at-most", type=int, help="logs of a group")
    parser.add_argument("--out", type=Path, default=Path("systems"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--report", action="store_true", help="print what is finished, run nothing")
    parser.add_argument("--force", action="store_true", help="go on in a folder made by other code")
    arguments = parser.parse_args()
    if unknown := set(arguments.groups) - set(GROUPS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    for group in arguments.groups:
        _run(group, arguments, parser)


def _run(group: str, arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    units_of, report = GROUPS[group]
    function = getattr(systems_units, group.replace("-", "_"))
    common = {"emission": arguments.emission, "episodes": arguments.episodes}
    units = []
    for name, parameters in units_of(arguments, parser).items():
        steps = parameters["steps"] if arguments.steps is None else arguments.steps
        units.append(Unit(name, function, {**common, **parameters, "steps": steps}))
    name = f"{group}-noisy" if group == "rooms" and arguments.noisy else group
    study = Study(name, tuple(units), settings={"code": code_digest(), "benchmark": _own_digest()})
    chosen = units[: arguments.at_most]
    folder = arguments.out / name
    if not arguments.report:
        run_units(
            study, folder, workers=arguments.workers, chosen=chosen, force=arguments.force,
            time_limit_per_unit=7200.0, on_progress=_progress(name),
        )  # fmt: skip
    seconds = collect_seconds(study, folder, chosen)
    rows = [
        {**row, "seconds": seconds.get(row["unit"], {}).get("learn")}
        for row in collect_rows(study, folder, chosen)
    ]
    if rows:
        write_table(folder / "rows.csv", rows)
    print(f"\n## {name}: {len({row['unit'] for row in rows})} of {len(units)} logs\n")
    report(rows)


def _own_digest() -> str:
    """Changes whenever what is measured, or how, changes."""
    sources = [Path(module.__file__ or "").read_bytes() for module in (systems_units, pomdp_files)]
    return hashlib.sha256(b"".join(sources)).hexdigest()[:16]


def _progress(name: str) -> Callable[[float, float], None]:
    begun = time.monotonic()

    def tell(done: float, total: float) -> None:
        print(
            f"{name}: {done:.0f} of {total:.0f}, {time.monotonic() - begun:.0f} s",
            file=sys.stderr,
            flush=True,
        )

    return tell


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
    missing = [name for name in FILES if not (arguments.models / f"{name}.POMDP").is_file()]
    if missing:
        print(f"not in {arguments.models}: {', '.join(missing)}", file=sys.stderr)
    folder = str(arguments.models.resolve())
    return {
        name.lower(): {"file": name, "folder": folder, "steps": 100_000}
        for name in FILES
        if name not in missing
    }


def _rooms(arguments: argparse.Namespace, _: argparse.ArgumentParser) -> Units:
    noise = {"slip": 0.1, "wrong": 0.05} if arguments.noisy else {"slip": 0.0, "wrong": 0.0}
    return {
        f"{rows}x{columns}.{layout}": {
            "rows": rows, "columns": columns, "layout": layout, **noise,
            "steps": 200_000 if arguments.noisy else 50_000,
        }
        for rows, columns in SIZES
        for layout in range(LAYOUTS)
    }  # fmt: skip


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
        "| file | states | true | emission | information share | impossible steps | bits at stake | seconds |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        states, emission = _found(row)
        print(
            f"| {row['file']} | {states} | {row.get('true_states')} | {emission} | {_number(row, 'share', '.2%')} | "
            f"{row.get('impossible', '-')} | {_number(row, 'information', '.4f')} | {_seconds(row)} |"
        )
    good = [
        row for row in rows if (row.get("share") or 0) >= ENOUGH_INFORMATION and row.get("impossible") == 0
    ]
    arrival = [row for row in rows[:10] if row.get("emission_found") == "arrival"]
    print(
        f"\nat least {ENOUGH_INFORMATION:.0%} and nothing impossible: {len(good)} of {len(rows)} (wanted: all); "
        f"emission right: {len(arrival)} of the first {len(rows[:10])} (wanted: 8 of 10)"
    )


def _rooms_report(rows: Rows) -> None:
    print(
        "| room | layout | cells | states | emission | bits a step above the truth | impossible steps | seconds |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        states, emission = _found(row)
        print(
            f"| {row['rows']}x{row['columns']} | {row['layout']} | {row.get('true_states')} | {states} | {emission} | "
            f"{_number(row, 'bits_above_truth', '.6f')} | {row.get('impossible', '-')} | {_seconds(row)} |"
        )
    good = [
        row
        for row in rows
        if row.get("states") == row.get("true_states")
        and row.get("impossible") == 0
        and row["bits_above_truth"] is not None
        and row["bits_above_truth"] <= ENOUGH_BITS
    ]
    refused = [row for row in rows if row["outcome"] != "ok"]
    wanted = 12 if rows and rows[0]["wrong"] else 14
    print(
        f"\nright count, at most {ENOUGH_BITS} bits above the truth, nothing impossible: {len(good)} of {len(rows)} "
        f"(wanted: {wanted} of 15); refused: {len(refused)}"
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
            f"{emission} | {_number(row, 'observation_ratio', '.2f')} | {_number(row, 'transition_ratio', '.2f')} | "
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
            f"{_number(row, f'{name}_return', '.3f')} ± {_number(row, f'{name}_return_error', '.3f')}"
            for name in ("learned", "true")
        ]
        print(
            f"| {row['true_emission']} {row['number']} | {row.get('cap')} | {row.get('true_states')} | {states} | "
            f"{row.get('terminal_states', '-')} | {emission} | {_number(row, 'ending_ratio', '.2f')} | "
            f"{' | '.join(returns)} | {_number(row, 'planning_sigmas', '+.1f')} | {row.get('told_on', '-')} | "
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


def _number(row: Mapping[str, Any], column: str, form: str) -> str:
    value = row.get(column)
    return "-" if value is None else format(value, form)


def _seconds(row: Mapping[str, Any]) -> str:
    return _number(row, "seconds", ".0f")


GROUPS: dict[
    str, tuple[Callable[[argparse.Namespace, argparse.ArgumentParser], Units], Callable[[Rows], None]]
] = {
    "frozen-lake": (_lakes, _lakes_report),
    "classic": (_files, _files_report),
    "rooms": (_rooms, _rooms_report),
    "singular": (_singular, _singular_report),
    "endings": (_endings, _endings_report),
}


if __name__ == "__main__":
    main()
