"""`learn_pomdp(log)` with nothing but the log: number of states, errors against the Cramer-Rao bound, likelihood.

    python benchmarks/efficiency.py bounds                  the bounds alone
    python benchmarks/efficiency.py counts errors --workers 2
    python benchmarks/efficiency.py short                   50 to 1,000 steps: no false states, nothing impossible
    python benchmarks/efficiency.py dense                   models of which every row is close to every other
    python benchmarks/efficiency.py rules dense             beside fits whose number of states a fixed rule chose: slow
    python benchmarks/efficiency.py ceiling dense           beside what the evidence prefers, climbed to from the truth
    python benchmarks/efficiency.py seeds --models DIR      the same log, ten seeds of the learner
    python benchmarks/efficiency.py speed --against SRC     seconds of the processor, beside another checkout's src
    python benchmarks/efficiency.py useless                 logs that nothing can be learned from
    python benchmarks/efficiency.py emission                what it costs not to know which state shows the observation
    python benchmarks/efficiency.py                         everything but rules, ceiling, seeds: hours

Finished logs are kept in ``--out``, those of some groups in a folder of their own: the same command goes on where it
stopped, and ``--report`` only prints. Results are in docs/efficiency.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import efficiency_units
import systems_units
import unlatch
from study_runs import Rows, add_options, digest, finished_rows, median, number
from unlatch.compare.bounds import ErrorBound, cramer_rao_bound
from unlatch.domains import by_name
from unlatch.errors import UnlatchError
from unlatch.study.efficiency import (
    GROUPS,
    TIGER,
    TMAZE,
    Case,
    build_efficiency_study,
    cases,
    maze,
    paper_values,
    units_of,
)
from unlatch.study.held_out import (
    MORE_STATES,
    RULES,
    SHORT_STEPS,
    SHORT_SYSTEMS,
    build_study,
    ceiling_units,
    chosen_by,
    dense_units,
    rules_units,
    short_units,
)
from unlatch.study.jobs.units import Study, Unit
from unlatch.study.random_models import KINDS, random_kind
from unlatch.study.studies import code_digest
from unlatch.study.summary import statistics

Found = dict[Any, list[dict[str, Any]]]
"""Rows by system and steps; those of the groups with a folder of their own by the group's name."""

OWN = ("short", "dense", "rules", "ceiling", "seeds")
"""Groups whose units are of another kind, each with a folder of its own."""

PRICES = np.arange(0.5, 5.01, 0.1).round(1).tolist()
"""Nats a parameter, from what noise gains to nearly BIC of 1e5 steps."""

DIRECT = ("bounds", "useless", "emission", "speed")
"""Groups that are measured while they are printed."""

ALL = (*GROUPS, *OWN, *DIRECT)
ON_REQUEST = ("rules", "ceiling", "seeds")
"""Not part of everything: the first takes a day, the second begins from the truth, the last needs files that are not
shipped."""

ENOUGH_DENSE = 2 / 3
NEAR_BEST_RULE = 1.1
"""Wanted of dense models: the share of right counts, and the mean loss in units of the best fixed rule's."""

SPEED = ((TIGER, 100_000), (maze(14), 100_000), (TMAZE, 1_000_000))
SPEED_REPEATS = 3
LIBRARIES = ("OMP", "OPENBLAS", "MKL", "NUMBA")
"""Whose threads can be limited by a variable of the environment."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "groups", nargs="*", help=f"any of {', '.join(ALL)}; by default all but {' and '.join(ON_REQUEST)}"
    )
    parser.add_argument("--models", type=Path, help="folder of the .POMDP files of seeds")
    parser.add_argument(
        "--steps", type=int, help="of seeds, dense, rules, ceiling and speed instead of their own"
    )
    parser.add_argument(
        "--systems",
        nargs="+",
        metavar="NAME",
        help="some systems alone",
    )
    parser.add_argument("--against", type=Path, help="src folder of another checkout, for speed")
    parser.add_argument(
        "--threads", type=int, default=1, help="of every library, for speed; 0 leaves it to them"
    )
    add_options(parser, out="efficiency")
    arguments = parser.parse_args()
    chosen = arguments.groups or [group for group in ALL if group not in ON_REQUEST]
    if unknown := set(chosen) - set(ALL):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    found: Found = {}
    if groups := [group for group in GROUPS if group in chosen]:
        found = _learned(groups, arguments)
    for group in OWN:
        if group in chosen:
            found[group] = _own(group, arguments)
    for group in ALL:
        if group in chosen:
            print(f"\n## {group}\n")
            if group == "speed":
                _speed(arguments)
            else:
                REPORTS[group](found)


def _learned(groups: list[str], arguments: argparse.Namespace) -> Found:
    study = build_efficiency_study()
    chosen = cases(groups)
    asked = _asked([case.system for case in chosen], arguments)
    units = [
        unit for case in chosen if case.system in asked for unit in units_of(case, at_most=arguments.at_most)
    ]
    found: Found = {}
    for row in finished_rows(study, arguments.out, arguments, units, shown=study.units):
        found.setdefault((row["system"], int(row["steps"])), []).append(row)
    return found


def _own(group: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    steps = {} if arguments.steps is None or group == "short" else {"steps": arguments.steps}
    if group == "seeds":
        units = efficiency_units.seeds_units(arguments.models, arguments.steps)
        if arguments.models is None:
            print("seeds: without --models no classic files", file=sys.stderr)
        settings = {"code": code_digest(), "benchmark": digest(efficiency_units, systems_units)}
        study = Study(group, tuple(units), settings=settings)
        chosen = [unit for unit in units if unit.parameters["seed"] < (arguments.at_most or len(units))]
    else:
        units_of_group: Callable[..., list[Unit]] = {
            "short": short_units, "dense": dense_units, "rules": rules_units, "ceiling": ceiling_units,
        }[group]  # fmt: skip
        study = build_study(group, units_of_group(**steps))
        chosen = units_of_group(at_most=arguments.at_most, **steps)
    asked = _asked([unit.parameters["system"] for unit in study.units], arguments)
    chosen = [unit for unit in chosen if unit.parameters["system"] in asked]
    return finished_rows(study, arguments.out / group, arguments, chosen)


def _asked(known: Sequence[str], arguments: argparse.Namespace) -> Sequence[str]:
    """The systems that are wanted: all that are known, unless some were named."""
    named = arguments.systems or known
    unknown = [name for name in named if name not in known]
    if unknown:
        sys.exit(f"no system {unknown[0]!r} here; there are {', '.join(dict.fromkeys(known))}")
    return named


# --- reports ---------------------------------------------------------------------------------------------


def _counts(found: Found) -> None:
    _counted(GROUPS["counts"], found)


def _counted(wanted: Sequence[Case], found: Found) -> None:
    print(
        "| system | steps | right number of states | wanted | within 1 nat of the maximum | median seconds | CPU s |"
    )
    print("|---|---|---|---|---|---|---|")
    for case in wanted:
        rows = found.get((case.system, case.steps), [])
        if not rows:
            continue
        right = [row for row in rows if _right(row)]
        share = "" if case.share is None else f"{case.share:.0%}"
        reached = sum(row["log_likelihood_gap"] > -1 for row in right)
        print(
            f"| {case.system} | {_size(case.steps)} | {len(right)} of {len(rows)} | {share} | "
            f"{reached} of {len(right)} | {median(rows, 'seconds'):.1f} | {median(rows, 'cpu'):.1f} |"
        )
        wrong = [row for row in rows if row not in right]
        for row in wrong:
            print(
                f"|   wrong: seed {row['seed']} | | {row.get('states')} of {row.get('true_states')} | "
                f"{row['outcome']} | "
                f"{_shown(row.get('log_likelihood_gap'))} nats | evidence {_shown(row.get('oracle_gap'))} | |"
            )


def _right(row: Mapping[str, Any]) -> bool:
    """Whether a log led to a model at all, and to one with the true number of states."""
    return "states" in row and row["states"] == row["true_states"]


def _errors(found: Found) -> None:
    print(
        "| system | steps | seeds | observation_l1_all | ÷ bound | transition_l1 | ÷ bound | "
        "maximum from the truth ÷ bound |"
    )
    print("|---|---|---|---|---|---|---|---|")
    bounds: dict[str, ErrorBound] = {}
    for case in GROUPS["errors"]:
        rows = found.get((case.system, case.steps), [])
        right = [row for row in rows if _right(row)]
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
    right = [row for row in rows if _right(row)]
    near = [row for row in right if row["log_likelihood_gap"] > -1]
    print(
        f"right number of states in {len(right)} of {len(rows)}; of those within 1 nat of the maximum: {len(near)}; "
        f"median seconds {median(rows, 'seconds'):.0f}\n"
    )
    for kind in KINDS:
        of_kind = [row for row in rows if random_kind(int(row["system"].removeprefix("random:"))) == kind]
        print(f"- rows {kind}: {sum(row in right for row in of_kind)} of {len(of_kind)}")
    print()
    others = {row["unit"]: _verdict(row) for row in rows if row not in near}
    for verdict, count in Counter(others.values()).most_common():
        print(f"- {verdict}: {count}")
    print("\n| model | true states | found | nats above the maximum from the truth | evidence | verdict |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        if row["unit"] in others:
            print(
                f"| {row['system']} | {row.get('true_states')} | {row.get('states')} | "
                f"{_shown(row.get('log_likelihood_gap'))} | {_shown(row.get('oracle_gap'))} | "
                f"{others[row['unit']]} |"
            )


def _verdict(row: dict[str, Any]) -> str:
    """Why a model is not the one that the climb from the truth finds."""
    if row["outcome"] != "ok":
        return str(row["outcome"])
    preferred = row["oracle_gap"] > -1
    if row["states"] == row["true_states"]:
        return "right count, other zeros that cost no more" if preferred else "right count, a lesser maximum"
    kind = "fewer" if row["states"] < row["true_states"] else "more"
    return f"{kind} states, preferred by the log" if preferred else f"{kind} states, missed by the search"


def _paper(found: Found) -> None:
    points: dict[tuple[str, str, str], list[float]] = {}
    lines = []
    for value in paper_values():
        rows = found.get((value["system"], value["steps"]), [])
        right = [row for row in rows if _right(row)]
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


def _short(found: Found) -> None:
    print(
        "| system (states) | steps | found | refused | most above the truth | right | impossible logs | nats a step, "
        "of the others | truth | one state |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    false, impossible = 0, 0
    for system in SHORT_SYSTEMS:
        for steps in SHORT_STEPS:
            rows = [row for row in found["short"] if (row["system"], row["steps"]) == (system, steps)]
            if not rows:
                continue
            learned = [row for row in rows if "states" in row]
            excess = [row["states"] - row["true_states"] for row in learned]
            false += sum(more > 1 for more in excess)
            broken = sum(row["impossible"] > 0 for row in learned)
            impossible += broken
            nats = [_mean(learned, column) for column in ("nats", "true_nats", "one_state_nats")]
            print(
                f"| {system} ({rows[0].get('true_states')}) | {steps} | {_listed(learned)} | "
                f"{_outcomes(rows)} | {max(excess, default=0):+d} | {excess.count(0)} of {len(rows)} | {broken} | "
                f"{' | '.join(nats)} |"
            )
    print(
        f"\nmore than the truth and one state: {false} logs (wanted: 0); held-out likelihood not finite: {impossible} "
        "(wanted: 0)"
    )


def _listed(rows: Rows) -> str:
    """How often each number of states was found."""
    counts = sorted(Counter(row["states"] for row in rows).items())
    return ", ".join(f"{states} in {count}" for states, count in counts) or "-"


def _outcomes(rows: Rows) -> str:
    """What came instead of a model, and how often."""
    counts = Counter(row["outcome"] for row in rows if row["outcome"] != "ok")
    return ", ".join(f"{outcome} {count}" for outcome, count in counts.items()) or "0"


def _mean(rows: Rows, column: str) -> str:
    values = [row[column] for row in rows if row[column] is not None]
    return f"{np.mean(values):.4f}" if values else "-"


def _dense(found: Found) -> None:
    rows = found["dense"]
    print(
        "| model | true states | found | runner-up | nats behind | predicts best | "
        "held-out nats below the truth, per 1e5 steps | CPU s |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row['system']} | {row.get('true_states')} | {row.get('states', row['outcome'])} | "
            f"{row.get('runner_up')} | {number(row, 'gap', '.1f')} | "
            f"{row.get('predictive_states') or '-'} | {_shown(row.get('loss'))} | {number(row, 'cpu', '.1f')} |"
        )
    print()
    for prefix in ("random:", "dense:"):
        part = [row for row in rows if row["system"].startswith(prefix)]
        right = [row for row in part if _right(row)]
        print(
            f"- {prefix[:-1]}: true count in {len(right)} of {len(part)} (wanted: {ENOUGH_DENSE:.0%}), mean loss "
            f"{_mean([row for row in part if 'loss' in row], 'loss')}"
        )
    # Rows are drawn from the prior itself: so exact evidence is right as often as it says.
    if gaps := [row["gap"] for row in rows if row.get("gap") is not None]:
        share = float(np.mean(1 / (1 + np.exp(-np.array(gaps)))))
        print(
            f"- a count so far ahead of its runner-up is right in {share:.0%} at most, if evidence is exact"
        )


def _rules(found: Found) -> None:
    """Models whose fits are all there, by every rule, and beside them what was learned from the same logs."""
    fits: dict[str, list[dict[str, Any]]] = {}
    for row in found["rules"]:
        if row["outcome"] == "ok":
            fits.setdefault(row["system"], []).append(row)
    whole = {name: rows for name, rows in fits.items() if len(rows) == rows[0]["true_states"] + MORE_STATES}
    if not whole:
        print("no model has all of its fits yet")
        return
    print(f"{len(whole)} models; held-out nats below the truth, per 1e5 steps\n")
    print("| rule | mean loss | true count | of 100 % |\n|---|---|---|---|")
    losses = {}
    for rule in (*RULES, "true count", "hindsight", "one state"):
        chosen = {name: chosen_by(rule, rows) for name, rows in whole.items()}
        losses[rule] = float(np.mean([taken.loss for taken in chosen.values()]))
        right = sum(taken.states == whole[name][0]["true_states"] for name, taken in chosen.items())
        print(f"| {rule} | {losses[rule]:.1f} | {right} of {len(whole)} | {right / len(whole):.0%} |")
    best = min(losses[rule] for rule in RULES)
    ours = [row for row in found.get("dense", []) if row["system"] in whole and row.get("loss") is not None]
    if ours:
        loss = float(np.mean([row["loss"] for row in ours]))
        right = sum(row["states"] == row["true_states"] for row in ours)
        print(f"| learn_pomdp(log) | {loss:.1f} | {right} of {len(ours)} | {right / len(ours):.0%} |")
        missing = "" if len(ours) == len(whole) else f"; not learned: {len(whole) - len(ours)} models"
        print(f"\nlearned ÷ best fixed rule: {loss / best:.2f} (wanted: at most {NEAR_BEST_RULE}){missing}")
    else:
        print(f"\nbest fixed rule: {best:.1f}; ask for dense in the same command for what is learned")


def _ceiling(found: Found) -> None:
    """How often the largest evidence is that of the true count, and how often one price for every parameter is right,
    whatever it is; beside how often the learner, which does not know the truth, comes to the same."""
    fits: dict[str, list[dict[str, Any]]] = {}
    for row in found["ceiling"]:
        fits.setdefault(row["system"], []).append(row)

    def counts(value: Callable[[dict[str, Any]], float]) -> dict[str, int]:
        return {name: max(rows, key=value)["states"] for name, rows in fits.items()}

    def right(chosen: Mapping[str, int]) -> int:
        return sum(chosen[name] == rows[0]["true_states"] for name, rows in fits.items())

    preferred = counts(lambda row: row["score"])
    fewer = sum(preferred[name] < rows[0]["true_states"] for name, rows in fits.items())
    more = len(fits) - right(preferred) - fewer
    print(
        f"- evidence, climbed from the truth: true count in {right(preferred)} of {len(fits)}, fewer in {fewer}, "
        f"more in {more}"
    )
    by_price = {
        price: right(counts(lambda row, p=price: row["log_likelihood"] - p * row["free_parameters"]))  # type: ignore[misc]
        for price in PRICES
    }
    best = max(by_price, key=lambda price: by_price[price])
    print(
        f"- the best of all prices of a parameter, {best:g} nats: true count in {by_price[best]} of {len(fits)}"
    )
    ours = {
        row["system"]: row["states"]
        for row in found.get("dense", [])
        if _known(row) and row["system"] in fits
    }
    if ours:
        same = sum(states == preferred[name] for name, states in ours.items())
        print(f"- learn_pomdp(log): the count that the evidence prefers in {same} of {len(ours)}")


def _known(row: Mapping[str, Any]) -> bool:
    return row.get("states") is not None


def _seeds(found: Found) -> None:
    print("| system | steps | true states | counts by seed | same | median CPU s |")
    print("|---|---|---|---|---|---|")
    same = []
    for name in dict.fromkeys(row["system"] for row in found["seeds"]):
        rows = [row for row in found["seeds"] if row["system"] == name]
        counts = [row.get("states", row["outcome"]) for row in rows]
        most = Counter(counts).most_common(1)[0][1]
        same.append(most == len(rows))
        print(
            f"| {name} | {_size(rows[0]['steps'])} | {rows[0].get('true_states')} | {' '.join(map(str, counts))} | "
            f"{most} of {len(rows)} | {median(rows, 'cpu'):.1f} |"
        )
    print(f"\nthe same count for every seed: {sum(same)} of {len(same)} systems (wanted: all)")


def _size(steps: int) -> str:
    return f"{steps:.1e}".replace(".0e", "e")


def _speed(arguments: argparse.Namespace) -> None:
    """The whole of `learn_pomdp`, in a process of its own each time; the checkouts in turn, on the same log."""
    here = Path(unlatch.__file__).resolve().parents[1]
    sources = {"here": here} if arguments.against is None else {"here": here, "there": arguments.against}
    print("| system | steps | checkout | states | CPU s, each run | seconds | here ÷ there |")
    print("|---|---|---|---|---|---|---|")
    repeats = min(SPEED_REPEATS, arguments.at_most or SPEED_REPEATS)
    asked = _asked([name for name, _ in SPEED], arguments)
    for name, own in SPEED:
        if name not in asked:
            continue
        steps = arguments.steps or own
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log.npz"
            efficiency_units.save_arrays(unlatch.simulate(by_name(name), steps, rng=0), path)
            runs: dict[str, list[dict[str, float]]] = {checkout: [] for checkout in sources}
            for _ in range(repeats):
                for checkout, source in sources.items():
                    runs[checkout].append(_timed(path, source, arguments.threads))
        least = {checkout: min(run["cpu"] for run in timed) for checkout, timed in runs.items()}
        for checkout, timed in runs.items():
            ratio = f"{least['here'] / least['there']:.2f}" if checkout == "there" else ""
            spent = ", ".join(format(run["cpu"], ".1f") for run in timed)
            wall = min(run["wall"] for run in timed)
            print(
                f"| {name} | {_size(steps)} | {checkout} | {timed[0]['states']} | {spent} | {wall:.1f} | {ratio} |",
                flush=True,
            )


def _timed(log: Path, source: Path, threads: int) -> dict[str, float]:
    """Seconds in a process with so many threads: idle ones that wait for work count as the processor's time too."""
    command = [sys.executable, str(Path(efficiency_units.__file__)), str(log)]
    limits = {f"{library}_NUM_THREADS": str(threads) for library in LIBRARIES} if threads else {}
    environment = {**os.environ, **limits, "PYTHONPATH": str(source.resolve())}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if run.returncode:
        raise SystemExit(f"learning failed with {source}:\n{run.stderr}")
    result: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return result


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
    "short": _short,
    "dense": _dense,
    "rules": _rules,
    "ceiling": _ceiling,
    "seeds": _seeds,
    "bounds": _bounds,
    "useless": _useless,
    "emission": _emission,
}


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:+.1f}"


if __name__ == "__main__":
    main()
