"""`learn_pomdp(log)` with nothing but the log: number of states, errors against the Cramer-Rao bound, likelihood.

    python benchmarks/efficiency.py bounds                  the bounds alone
    python benchmarks/efficiency.py counts errors --workers 2
    python benchmarks/efficiency.py useless                 logs that nothing can be learned from
    python benchmarks/efficiency.py emission                what it costs not to know which state shows the observation
    python benchmarks/efficiency.py                         everything: hours

Finished logs are kept in ``--out``: the same command goes on where it stopped, and ``--report`` only prints. Results
are in docs/efficiency.md.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import unlatch
from unlatch.compare.bounds import ErrorBound, cramer_rao_bound
from unlatch.domains import by_name
from unlatch.errors import UnlatchError
from unlatch.study.efficiency import (
    GROUPS,
    Case,
    build_efficiency_study,
    cases,
    paper_values,
    units_of,
)
from unlatch.study.jobs.runner import collect_rows, collect_seconds, run_units, write_table
from unlatch.study.summary import statistics

Rows = Sequence[Mapping[str, Any]]
Found = dict[tuple[str, int], list[dict[str, Any]]]

ALL = (*GROUPS, "bounds", "useless", "emission")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("groups", nargs="*", help=f"any of {', '.join(ALL)}; all by default")
    parser.add_argument("--out", type=Path, default=Path("efficiency"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--at-most", type=int, help="logs of a kind")
    parser.add_argument("--report", action="store_true", help="print what is finished, run nothing")
    parser.add_argument("--force", action="store_true", help="go on in a folder made by other code")
    arguments = parser.parse_args()
    chosen = arguments.groups or list(ALL)
    if unknown := set(chosen) - set(ALL):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    groups = [group for group in GROUPS if group in chosen]
    found: Found = {}
    if groups:
        found = _learned(groups, arguments)
    for group in ALL:
        if group in chosen:
            print(f"\n## {group}\n")
            REPORTS[group](found)


def _learned(groups: list[str], arguments: argparse.Namespace) -> Found:
    study = build_efficiency_study()
    units = [unit for case in cases(groups) for unit in units_of(case, at_most=arguments.at_most)]
    if not arguments.report:
        run_units(
            study, arguments.out, workers=arguments.workers, chosen=units, force=arguments.force,
            time_limit_per_unit=7200.0,
        )  # fmt: skip
    seconds = collect_seconds(study, arguments.out)
    rows = [
        {**row, "seconds": seconds.get(row["unit"], {}).get("learn")}
        for row in collect_rows(study, arguments.out)
    ]
    write_table(
        arguments.out / "rows.csv", [{k: v for k, v in row.items() if k != "seconds"} for row in rows]
    )
    found: Found = {}
    for row in rows:
        found.setdefault((row["system"], int(row["steps"])), []).append(row)
    return found


# --- reports ---------------------------------------------------------------------------------------------


def _counts(found: Found) -> None:
    _counted(GROUPS["counts"], found)


def _counted(wanted: Sequence[Case], found: Found) -> None:
    print(
        "| system | steps | right number of states | wanted | within 1 nat of the maximum | median seconds |"
    )
    print("|---|---|---|---|---|---|")
    for case in wanted:
        rows = found.get((case.system, case.steps), [])
        if not rows:
            continue
        right = [row for row in rows if row.get("states") == row["true_states"]]
        share = "" if case.share is None else f"{case.share:.0%}"
        reached = sum(row["log_likelihood_gap"] > -1 for row in right)
        seconds = np.median([row["seconds"] for row in rows if row["seconds"] is not None] or [np.nan])
        print(
            f"| {case.system} | {case.steps:.0e} | {len(right)} of {len(rows)} | {share} | {reached} of {len(right)} | "
            f"{seconds:.1f} |"
        )
        wrong = [row for row in rows if row not in right]
        for row in wrong:
            print(
                f"|   wrong: seed {row['seed']} | | {row.get('states')} of {row['true_states']} | {row['outcome']} | "
                f"{_shown(row.get('log_likelihood_gap'))} nats | penalized {_shown(row.get('penalized_gap'))} |"
            )


def _errors(found: Found) -> None:
    print(
        "| system | steps | seeds | observation_l1_all | ÷ bound | transition_l1 | ÷ bound | "
        "maximum from the truth ÷ bound |"
    )
    print("|---|---|---|---|---|---|---|---|")
    bounds: dict[str, ErrorBound] = {}
    for case in GROUPS["errors"]:
        rows = found.get((case.system, case.steps), [])
        right = [row for row in rows if row.get("states") == row["true_states"]]
        if not right:
            continue
        if case.system not in bounds:
            bounds[case.system] = cramer_rao_bound(by_name(case.system))
        cells = []
        reference = []
        for column, bound in zip(ErrorBound._fields, bounds[case.system], strict=True):
            found_here = statistics([row.get(column) for row in right])
            mean, error = found_here.mean, found_here.standard_error
            least = bound / np.sqrt(case.steps)
            cells += [f"{mean:.2e} ± {error:.0e}", f"{mean / least:.2f}" if least > 1e-9 else "bound 0"]
            reference.append(
                f"{statistics([row.get(f'best_{column}') for row in right]).mean / least:.2f}"
                if least > 1e-9
                else "-"
            )
        print(
            f"| {case.system} | {case.steps:.0e} | {len(right)} of {len(rows)} | {' | '.join(cells)} | "
            f"{', '.join(reference)} |"
        )


def _random(found: Found) -> None:
    rows = [row for case in GROUPS["random"] for row in found.get((case.system, case.steps), [])]
    right = [row for row in rows if row.get("states") == row["true_states"]]
    near = [row for row in right if row["log_likelihood_gap"] > -1]
    seconds = [row["seconds"] for row in rows if row["seconds"] is not None]
    print(
        f"right number of states in {len(right)} of {len(rows)}; of those within 1 nat of the maximum: {len(near)}; "
        f"median seconds {np.median(seconds or [np.nan]):.0f}\n"
    )
    others = {row["unit"]: _verdict(row) for row in rows if row not in near}
    for verdict, count in Counter(others.values()).most_common():
        print(f"- {verdict}: {count}")
    print("\n| model | true states | found | nats above the maximum from the truth | penalized | verdict |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        if row["unit"] in others:
            print(
                f"| {row['system']} | {row['true_states']} | {row.get('states')} | "
                f"{_shown(row.get('log_likelihood_gap'))} | {_shown(row.get('penalized_gap'))} | "
                f"{others[row['unit']]} |"
            )


def _verdict(row: dict[str, Any]) -> str:
    """Why a model is not the one that the climb from the truth finds."""
    if row["outcome"] != "ok":
        return str(row["outcome"])
    preferred = row["penalized_gap"] > -1
    if row["states"] == row["true_states"]:
        return "right count, other zeros that cost no more" if preferred else "right count, a lesser maximum"
    kind = "fewer" if row["states"] < row["true_states"] else "more"
    return f"{kind} states, preferred by the log" if preferred else f"{kind} states, missed by the search"


def _paper(found: Found) -> None:
    points: dict[tuple[str, str, str], list[float]] = {}
    lines = []
    for value in paper_values():
        rows = found.get((value["system"], value["steps"]), [])
        right = [row for row in rows if row.get("states") == row["true_states"]]
        if not rows:
            continue
        mean = statistics([row.get(value["measure"]) for row in right]).mean
        ratio = np.inf if mean <= 1e-9 else value["paper"] / mean
        points.setdefault((value["place"], value["system"], value["measure"]), []).append(ratio)
        lines.append(
            f"| {value['place']} | {value['system']} | {value['steps']:.0e} | {value['measure']} | "
            f"{mean:.2e} ({len(right)} of {len(rows)}) | {value['paper']:.2e} | {_ratio(ratio)} |"
        )
    print("paper ÷ ours, over the numbers of steps of each panel:\n")
    print("| place | system | measure | points | smallest | median | largest | no right count |")
    print("|---|---|---|---|---|---|---|---|")
    for (place, system, measure), ratios in points.items():
        known = [ratio for ratio in ratios if not np.isnan(ratio)]
        span = [_ratio(f(known)) for f in (np.min, np.median, np.max)] if known else ["-"] * 3
        print(
            f"| {place} | {system} | {measure} | {len(ratios)} | {' | '.join(span)} | {len(ratios) - len(known)} |"
        )
    print("\n| place | system | steps | measure | ours (logs with the right count) | paper | paper ÷ ours |")
    print("|---|---|---|---|---|---|---|")
    print("\n".join(lines))


def _ratio(ratio: float) -> str:
    return "-" if np.isnan(ratio) else "exact" if np.isinf(ratio) else f"{ratio:.1f}"


def _largest(found: Found) -> None:
    _counted(GROUPS["largest"], found)


def _bounds(_: Found) -> None:
    print("| system | observation_l1_all · √n | transition_l1 · √n |")
    print("|---|---|---|")
    systems = dict.fromkeys(case.system for case in (*GROUPS["errors"], *GROUPS["counts"]))
    for system in systems:
        if by_name(system).n_states <= 14:
            bound = cramer_rao_bound(by_name(system))
            print(f"| {system} | {bound.observation_l1_all:.3f} | {bound.transition_l1:.3f} |", flush=True)


def _emission(_: Found) -> None:
    """One log of every kind, learned with the emission given and with none, in one run: seconds of the processor."""
    print("| system | steps | states | departure given, s | auto, s | ratio | emission found |")
    print("|---|---|---|---|---|---|---|")
    unlatch.learn_pomdp(unlatch.simulate(by_name("tiger"), 2_000, rng=0), rng=0)  # compiles
    totals = np.zeros(2)
    for case in GROUPS["counts"]:
        log = unlatch.simulate(by_name(case.system), case.steps, rng=0)
        spent, found = np.zeros(2), []
        for i, emission in enumerate(("departure", "auto")):
            begun = time.process_time()
            found.append(unlatch.learn_pomdp(log, emission=emission, rng=0))  # type: ignore[arg-type]
            spent[i] = time.process_time() - begun
        totals += spent
        states, ratio = f"{found[0].states}, {found[1].states}", spent[1] / spent[0]
        print(
            f"| {case.system} | {case.steps} | {states} | {spent[0]:.1f} | {spent[1]:.1f} | {ratio:.2f} | "
            f"{found[1].pomdp.emission} |",
            flush=True,
        )
    print(f"\nall: {totals[0]:.0f} s and {totals[1]:.0f} s, {totals[1] / totals[0]:.2f} times")


def _useless(_: Found) -> None:
    print("| log | outcome | seconds |")
    print("|---|---|---|")
    for name, make in USELESS.items():
        log = make(np.random.default_rng(0))
        begun = time.perf_counter()
        try:
            result = unlatch.learn_pomdp(log, rng=0)
            codes = ", ".join(note.name for note in result.diagnostics)
            text = f"{result.pomdp.n_states} states; notes: {codes or 'none'}"
        except UnlatchError as error:
            text = f"{type(error).__name__}: {error}"
        print(f"| {name} | {text} | {time.perf_counter() - begun:.1f} |", flush=True)


def _constant(rng: np.random.Generator) -> unlatch.Trajectory:
    return unlatch.Trajectory(rng.integers(3, size=20_000), np.zeros(20_000, dtype=int))


def _noise(rng: np.random.Generator) -> unlatch.Trajectory:
    return unlatch.Trajectory(rng.integers(3, size=20_000), rng.integers(4, size=20_000))


def _one_action(rng: np.random.Generator) -> unlatch.Trajectory:
    return unlatch.simulate(by_name("tiger"), 20_000, policy=[1, 0, 0], rng=rng)


def _follows(rng: np.random.Generator, share: float) -> unlatch.Trajectory:
    """Tiger under a policy that is the last observation's, but for a share of random steps."""
    model = by_name("tiger")
    state, last = 0, 0
    actions, observations = [], []
    for _ in range(20_000):
        blind = rng.random() >= share
        action = int(rng.integers(model.n_actions)) if blind else last % model.n_actions
        last = int(rng.choice(model.n_observations, p=model.observations[action, state]))
        state = int(rng.choice(model.n_states, p=model.transitions[action, state]))
        actions.append(action)
        observations.append(last)
    return unlatch.Trajectory(
        actions, observations, action_names=model.action_names, observation_names=model.observation_names
    )


def _drifting(rng: np.random.Generator) -> unlatch.Trajectory:
    """One hallway, then the other: same actions, same observations."""
    names = ("directional-hallway", "noisy-hallway")
    first, second = (unlatch.simulate(by_name(name), 10_000, rng=rng) for name in names)
    return unlatch.Trajectory(
        np.concatenate([first.actions, second.actions]),
        np.concatenate([first.observations, second.observations]),
        action_names=first.action_names,
        observation_names=first.observation_names,
    )


def _twice(rng: np.random.Generator) -> unlatch.Trajectory:
    log = unlatch.simulate(by_name("tiger"), 10_000, rng=rng)
    return unlatch.Trajectory(
        np.tile(log.actions, 2),
        np.tile(log.observations, 2),
        action_names=log.action_names,
        observation_names=log.observation_names,
    )


USELESS: dict[str, Callable[[np.random.Generator], unlatch.Trajectory]] = {
    "constant observations": _constant,
    "pure noise": _noise,
    "one of three actions": _one_action,
    "action is a function of the last observation": lambda rng: _follows(rng, 1.0),
    "action mostly follows the last observation": lambda rng: _follows(rng, 0.7),
    "50 steps": lambda rng: unlatch.simulate(by_name("tiger"), 50, rng=rng),
    "period 3, one action": lambda _: unlatch.Trajectory(np.zeros(9_000, dtype=int), np.arange(9_000) % 3),
    "drift": _drifting,
    "the same log twice": _twice,
}

REPORTS: dict[str, Callable[[Found], None]] = {
    "counts": _counts,
    "errors": _errors,
    "random": _random,
    "paper": _paper,
    "largest": _largest,
    "bounds": _bounds,
    "useless": _useless,
    "emission": _emission,
}


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:+.1f}"


if __name__ == "__main__":
    main()
