"""Rooms in which many cells look the same, learned from nothing but a log: `learn_pomdp(log)`, and CSCG beside it.

    python benchmarks/rooms.py 6x8 10x10 14x14              four colors, five layouts each
    python benchmarks/rooms.py 20x20 30x30                  the same, large: hours
    python benchmarks/rooms.py --noisy                      5 % wrong colors and 10 % slips: 3x4, 4x5 and 5x6
    python benchmarks/rooms.py empty                        6x8 cells that show only which walls they touch
    python benchmarks/rooms.py 6x8 --cscg FOLDER            CSCG on the same logs
    python benchmarks/rooms.py 3x4 --at-most 1 --steps 5000     whether it runs

Finished logs are kept in ``--out``: the same command goes on where it stopped, and ``--report`` only prints. CSCG's
code, `chmm_actions.py` of github.com/vicariousinc/naturecomm_cscg, is not shipped: ``--cscg`` names the file or its
folder. Results are in docs/measurements.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import cscg_code
import rooms_units
import systems_units
from study_runs import Rows, add_options, digest, finished_rows, median, number
from unlatch.study.jobs.units import Study, Unit
from unlatch.study.studies import code_digest

STEPS = {
    "3x4": 50_000,
    "4x5": 50_000,
    "5x6": 50_000,
    "6x8": 50_000,
    "10x10": 200_000,
    "14x14": 400_000,
    "20x20": 1_000_000,
    "30x30": 2_000_000,
    "empty": 50_000,
}
"""Rooms, and how long their logs are."""

NOISY = ("3x4", "4x5", "5x6")
NOISY_STEPS = 200_000
NOISE = {"slip": 0.1, "wrong": 0.05}
EMPTY = (6, 8)
LAYOUTS = 5

FACTORS = (1.5, 5.0)
"""Clones of a color that CSCG is given, in units of the most that a color needs."""

CSCG_SEEDS = 3
"""Of CSCG on the same log: what it finds depends on them."""

ENOUGH_BITS = 0.001
MOST_SECONDS = 6 * 3600.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rooms", nargs="*", help=f"any of {', '.join(STEPS)}; all by default")
    parser.add_argument("--noisy", action="store_true", help="with wrong colors and slips")
    parser.add_argument("--steps", type=int, help="steps of every log instead of the room's own")
    parser.add_argument(
        "--layouts",
        type=int,
        nargs="+",
        choices=range(LAYOUTS),
        metavar="N",
        help="some of the five alone, from 0",
    )
    parser.add_argument(
        "--time-limit", type=float, metavar="SECONDS", help="of every log: how far it goes by then"
    )
    parser.add_argument("--cscg", type=Path, help="CSCG's file or its folder: run that on the same logs")
    parser.add_argument(
        "--cscg-seconds", type=float, default=3600.0, help="most CPU seconds for its EM, a log"
    )
    add_options(parser, out="rooms")
    arguments = parser.parse_args()
    known = NOISY if arguments.noisy else tuple(STEPS)
    chosen = arguments.rooms or list(known)
    if unknown := set(chosen) - set(known):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    if arguments.cscg is not None and not arguments.cscg.exists():
        parser.error(f"--cscg: {arguments.cscg} does not exist")
    rows = _rows("rooms", _units(known, arguments), chosen, arguments)
    print(f"\n## {_title('rooms', arguments)}\n")
    _report(rows)
    if arguments.cscg is not None:
        theirs = _rows("cscg", _cscg_units(known, arguments), chosen, arguments)
        print(f"\n## {_title('cscg', arguments)}\n")
        _cscg_report(theirs)


def _title(learner: str, arguments: argparse.Namespace) -> str:
    return f"{learner}-noisy" if arguments.noisy else learner


def _rows(learner: str, units: list[Unit], chosen: list[str], arguments: argparse.Namespace) -> Rows:
    name = _title(learner, arguments)
    settings = {
        "code": code_digest("held_out.py"),
        "benchmark": digest(rooms_units, systems_units, cscg_code),
    }
    study = Study(name, tuple(units), settings=settings)
    layouts = arguments.layouts or range(arguments.at_most or LAYOUTS)
    wanted = [
        unit for unit in units if unit.parameters["room"] in chosen and unit.parameters["layout"] in layouts
    ]
    return finished_rows(study, arguments.out / name, arguments, wanted, most_seconds=MOST_SECONDS)


def _units(known: tuple[str, ...], arguments: argparse.Namespace) -> list[Unit]:
    return [
        Unit(
            f"{parameters['room']}.{parameters['layout']}",
            rooms_units.rooms,
            {**parameters, "time_limit": arguments.time_limit},
            cost=_cost(parameters),
        )
        for parameters in _layouts(known, arguments)
    ]


def _cscg_units(known: tuple[str, ...], arguments: argparse.Namespace) -> list[Unit]:
    own = {"path": str(arguments.cscg.resolve()), "most_seconds": arguments.cscg_seconds}
    return [
        Unit(
            f"{parameters['room']}.{parameters['layout']}.{factor}.{seed}",
            rooms_units.cscg,
            {**parameters, **own, "factor": factor, "seed": seed},
            cost=_cost(parameters),
        )
        for parameters in _layouts(known, arguments)
        for factor in FACTORS
        for seed in range(CSCG_SEEDS)
    ]


def _layouts(known: tuple[str, ...], arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """The parameters of every room; an empty one has one layout, and as many logs."""
    noise = NOISE if arguments.noisy else {"slip": 0.0, "wrong": 0.0}
    found = []
    for room in known:
        rows, columns = EMPTY if room == "empty" else map(int, room.split("x"))
        steps = arguments.steps or (NOISY_STEPS if arguments.noisy else STEPS[room])
        found += [
            {"room": room, "rows": rows, "columns": columns, "layout": layout, "steps": steps, **noise}
            for layout in range(LAYOUTS)
        ]
    return found


def _cost(parameters: dict[str, Any]) -> float:
    return 1e-6 * float(parameters["steps"]) * parameters["rows"] * parameters["columns"]


# --- reports ---------------------------------------------------------------------------------------------


def _report(rows: Rows) -> None:
    print(
        "| room | layout | states | of | emission | bits a step above the truth | impossible steps | CPU s | seconds |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row['room']} | {row['layout']} | {row.get('states', row['outcome'])} | {row.get('true_states')} | "
            f"{row.get('emission_found', '-')} | {number(row, 'bits_above_truth', '.6f')} | "
            f"{row.get('impossible', '-')} | {number(row, 'cpu', '.1f')} | {number(row, 'seconds', '.0f')} |"
        )
    print(
        f"\n| room | exact, at most {ENOUGH_BITS} bits above the truth | median states | median bits above | "
        "median CPU s | most CPU s |"
    )
    print("|---|---|---|---|---|---|")
    for room in dict.fromkeys(row["room"] for row in rows):
        of_room = [row for row in rows if row["room"] == room]
        most = max((row["cpu"] for row in of_room if row["cpu"] is not None), default=float("nan"))
        print(
            f"| {room} | {sum(map(_exact, of_room))} of {len(of_room)} | {median(of_room, 'states'):.0f} | "
            f"{median(of_room, 'bits_above_truth'):.6f} | {median(of_room, 'cpu'):.1f} | {most:.1f} |"
        )


def _exact(row: Any) -> bool:
    bits = row.get("bits_above_truth")
    return (
        row.get("states") == row.get("true_states")
        and not row.get("impossible")
        and bits is not None
        and bits <= ENOUGH_BITS
    )


def _cscg_report(rows: Rows) -> None:
    print("| room | layout | clones | seed | states | of | bits a step above the truth | rounds | CPU s |")
    print("|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row['room']} | {row['layout']} | {row.get('clones')} ({row['factor']} ×) | {row['seed']} | "
            f"{row.get('states', row['outcome'])} | {row.get('true_states')} | {_their_bits(row)} | "
            f"{row.get('rounds', '-')}{' (cut)' if row.get('cut') else ''} | {number(row, 'cpu', '.1f')} |"
        )
    print("\n* a step was impossible: with the small count of the training everywhere\n")
    print("| room | clones | exact, share of seeds | median states | median bits above | median CPU s |")
    print("|---|---|---|---|---|---|")
    for room, factor in dict.fromkeys((row["room"], row["factor"]) for row in rows):
        of_kind = [row for row in rows if (row["room"], row["factor"]) == (room, factor)]
        exact = sum(map(_exact, of_kind))
        print(
            f"| {room} | {factor} × | {exact} of {len(of_kind)} ({exact / len(of_kind):.0%}) | "
            f"{median(of_kind, 'states'):.0f} | {median(of_kind, 'bits_above_truth'):.6f} | "
            f"{median(of_kind, 'cpu'):.1f} |"
        )


def _their_bits(row: Any) -> str:
    return number(row, "bits_above_truth", ".6f") + "*" * bool(row.get("impossible"))


if __name__ == "__main__":
    main()
