"""The work behind `coverage.py`: logs of a known system, and whether the intervals from each hold the truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

import unlatch
from unlatch import POMDP, ExactPlanner, Reward, Trajectory, domains
from unlatch.arrays import Floats, Ints
from unlatch.domains.build import build
from unlatch.learn.intervals.uncertainty import Uncertainty
from unlatch.study.jobs.units import Finding
from unlatch.study.task import Watch, outcome, rounded

Parameters = Mapping[str, Any]
Row = dict[str, Any]

LEVEL = 0.9
DRAWS, REPLANS = 100, 12
"""Models that the interval of a plan's return is taken from, and of these those that are planned for. Drawn anew for
every log: the scatter of the same few chances would be too small, or too large, for all of them."""

LONGEST_EPISODE = 50

HORIZONS = {
    "tiger": 4,
    "tmaze": 5,
    "directional-hallway": 4,
    "sense-float-reset:states=4": 5,
    "one-dimension": 4,
    "machine": 4,
    "lockbox": 6,
}
"""Systems, and the steps of the plan whose return is asked for."""

REWARDS = {
    "directional-hallway": Reward.on_observations({("stay", "end-left"): 1.0}),
    "one-dimension": Reward.on_observations({("west", "goal"): 1.0, ("east", "goal"): 1.0}),
}
"""Of systems that pay nothing by themselves."""


@cache
def truth_of(name: str) -> POMDP:
    own = {"machine": machine, "one-dimension": one_dimension, "lockbox": lambda: domains.lockbox(2)}
    return own[name]() if name in own else domains.by_name(name)


def one_dimension() -> POMDP:
    """What the classic file `1d.POMDP` says: a corridor whose goal alone is seen, and left for any other place."""
    ahead = {"west": {"left": "left", "middle": "left", "right": "goal"},
             "east": {"left": "middle", "middle": "goal", "right": "right"}}  # fmt: skip
    places = ("left", "middle", "right")
    moves: dict[tuple[str, str], dict[str, float]] = {}
    shows: dict[tuple[str, str], dict[str, float]] = {}
    for action, steps in ahead.items():
        for place in places:
            moves[action, place], shows[action, place] = {steps[place]: 1.0}, {"nothing": 1.0}
        moves[action, "goal"], shows[action, "goal"] = dict.fromkeys(places, 1 / 3), {"goal": 1.0}
    return build(
        states=(*places, "goal"), actions=tuple(ahead), moves=moves, shows=shows,
        initial=dict.fromkeys(places, 1 / 3), emission="arrival",
    )  # fmt: skip


def machine() -> POMDP:
    """A classic: a machine wears out unseen; what it makes tells a little, looking tells more, repair costs."""
    wear = {
        "good": {"good": 0.85, "worn": 0.12, "broken": 0.03},
        "worn": {"worn": 0.8, "broken": 0.2},
        "broken": {"broken": 1.0},
    }
    made = {"good": 0.95, "worn": 0.7, "broken": 0.2}
    looks = {"good": 0.9, "worn": 0.6, "broken": 0.05}
    moves: dict[tuple[str, str], dict[str, float]] = {}
    shows: dict[tuple[str, str], dict[tuple[str, float], float]] = {}
    for state in wear:
        moves["run", state], moves["look", state] = wear[state], {state: 1.0}
        moves["repair", state] = {"good": 0.9, "worn": 0.1}
        shows["run", state] = {("fine", 1.0): made[state], ("faulty", -1.0): 1 - made[state]}
        shows["look", state] = {("clean", -0.2): looks[state], ("dirty", -0.2): 1 - looks[state]}
        shows["repair", state] = {("done", -0.5): 1.0}
    return build(
        states=list(wear), actions=("run", "look", "repair"), moves=moves, shows=shows,
        initial={"good": 1.0}, emission="arrival",
    )  # fmt: skip


def log_of(truth: POMDP, steps: int, rng: np.random.Generator, policy: Floats | None = None) -> Trajectory:
    if truth.terminal:
        return unlatch.simulate(truth, LONGEST_EPISODE, total=steps, policy=policy, rng=rng)
    return unlatch.simulate(truth, steps, policy=policy, rng=rng)


def maximum(truth: POMDP, log: Trajectory) -> POMDP:
    """The maximum of the likelihood near the truth, with its zeros, started as a learned model is."""
    found = unlatch.refine(truth, log, zeros=False).pomdp
    if truth.terminal:
        return found
    return replace(
        found, initial=found.stationary(np.bincount(log.actions, minlength=truth.n_actions) / len(log))
    )


def coverage(parameters: Parameters, seed: np.random.SeedSequence) -> Finding:
    """A row for each of some logs: which numbers, and whether the return of the plan, lie in their intervals."""
    truth, watch, rows = truth_of(parameters["system"]), Watch(), []
    for number, own in enumerate(seed.spawn(parameters["logs"])):
        rng = np.random.default_rng(own)
        log = log_of(truth, parameters["steps"], rng)
        row: Row = {**parameters, "log": parameters["batch"] * parameters["logs"] + number, "outcome": "ok"}
        with outcome(row):
            found = _fitted(truth, log, parameters["mode"], watch)
            if isinstance(found, str):
                row["outcome"] = found
            else:
                with watch("intervals"):
                    row |= covered(truth, found, log)
                if number < parameters["plans"]:
                    with watch("plan"):
                        row |= _plan_covered(parameters["system"], truth, found, rng)
        rows.append(rounded(row))
    return Finding(rows, watch.seconds)


def _fitted(truth: POMDP, log: Trajectory, mode: str, watch: Watch) -> Uncertainty | str:
    """What is known of the model, its states in the truth's order, or why it cannot be compared."""
    with watch("learn"):
        if mode == "truth":
            return unlatch.uncertainty(maximum(truth, log), log)
        result = unlatch.learn_pomdp(log, rng=0)
    if result.states != truth.n_states:
        return f"{result.states} states"
    if result.pomdp.emission != truth.emission:
        return str(result.pomdp.emission)
    aligned = result.pomdp.reordered(unlatch.match_states(result.pomdp, truth))
    return unlatch.uncertainty(aligned, log.with_reward_symbols(), shared=result.shared)


def covered(truth: POMDP, found: Uncertainty, log: Trajectory) -> Row:
    """Which true numbers lie in their intervals, as digits: those between zero and one, and those at the edge."""
    intervals = found.intervals(LEVEL)
    inside, edge, widths = [], [], []
    for kind, bounds in intervals.rows.items():
        true = _true_rows(kind, truth, found.pomdp)
        speaks = ~np.isin(getattr(intervals.verdicts, kind), ("never observed", "by definition"))
        holds = (bounds[..., 0] <= true + 1e-12) & (true - 1e-12 <= bounds[..., 1])
        between = (true > 0) & (true < 1)
        inside.append(_digits(holds, between, speaks))
        edge.append(_digits(holds, ~between, speaks))
        widths.append((bounds[..., 1] - bounds[..., 0])[between & speaks])
    return {
        "inside": "".join(inside),
        "edge": "".join(edge),
        "width": float(np.concatenate(widths).mean()),
    }


def _true_rows(kind: str, truth: POMDP, found: POMDP) -> Floats:
    """The true numbers in the alphabets of the model that was found."""
    rows = np.asarray(getattr(truth, kind))
    if kind in ("transitions", "observations", "reward_probabilities"):
        rows = rows[_places(found.action_names, truth.action_names)]
    if kind == "observations":
        rows = rows[..., _places(found.observation_names, truth.observation_names)]
    if kind == "first_observations":
        rows = rows[..., _places(found.first_observation_names, truth.first_observation_names)]
    return rows


def _places(names: tuple[str, ...], known: tuple[str, ...]) -> Ints:
    return np.array([known.index(name) for name in names])


def _digits(holds: Any, chosen: Any, speaks: Any) -> str:
    """1 or 0 for every chosen number, - where the log has nothing to say."""
    flags = zip(holds[chosen].tolist(), speaks[chosen].tolist(), strict=True)
    return "".join("-" if not says else "01"[hold] for hold, says in flags)


def _plan_covered(system: str, truth: POMDP, found: Uncertainty, rng: np.random.Generator) -> Row:
    """Whether the plan's return in the truth lies in its interval, and where it lies."""
    start = truth if truth.terminal else replace(truth, initial=truth.stationary())
    planner = ExactPlanner(found.pomdp, REWARDS.get(system), HORIZONS[system])
    drawn = unlatch.plan_return(planner, found.draws(DRAWS, rng=rng), level=LEVEL, replans=REPLANS)
    true = unlatch.plan_value(planner)(start)
    return {
        "plan": bool(drawn.low <= true <= drawn.high),
        "plan_low": drawn.low,
        "plan_high": drawn.high,
        "plan_own": drawn.own,
        "plan_optimism": drawn.optimism,
        "plan_true": true,
    }


# --- design ----------------------------------------------------------------------------------------------


DESIGNS = (
    ("noisy-hallway", 20_000, "action"),
    ("noisy-hallway", 20_000, "last observation"),
    ("noisy-hallway", 100_000, "action"),
    ("tmaze-6", 10_000, "action"),
    ("tmaze-6", 10_000, "last observation"),
    ("lockbox-3", 20_000, "action"),
)
"""Systems, the steps of uniform exploration whose error a design has to reach with fewer, and what frequencies may
depend on. In the shorter logs of the hallway some rows are visited a few times only, and errors do not fall with the
root of the steps yet."""


@cache
def _designed_for(name: str, by: str) -> tuple[POMDP, unlatch.Design]:
    truth = {
        "noisy-hallway": domains.noisy_hallway,
        "tmaze-6": lambda: domains.tmaze(2),
        "lockbox-3": domains.lockbox,
    }[name]()
    cut = LONGEST_EPISODE if truth.terminal else None
    return truth, unlatch.design(truth, by=by, episode_steps=cut, rng=0)  # type: ignore[arg-type]


def designed(parameters: Parameters, seed: np.random.SeedSequence) -> Finding:
    """Mean errors of the numbers of a model from logs of uniform exploration and from shorter designed ones."""
    truth, plan = _designed_for(parameters["system"], parameters["by"])
    steps, rows = parameters["steps"], []
    for own in seed.spawn(parameters["logs"]):
        row: Row = {
            "system": parameters["system"],
            "steps": steps,
            "by": parameters["by"],
            "policy": str(plan),
            "worth": plan.worth,
            "uniform": _error_of(truth, log_of(truth, steps, np.random.default_rng(own))),
        }
        most = round(max(parameters["shares"]) * steps)  # with the same chances
        longest = log_of(truth, most, np.random.default_rng(own), plan.action_probabilities)
        for share in parameters["shares"]:
            row[f"design_{share}"] = _error_of(truth, longest.head(round(share * steps)))
        rows.append(rounded(row))
    return Finding(rows)


def _error_of(truth: POMDP, log: Trajectory) -> float:
    """The mean distance of the numbers that are neither zero nor one from the truth, at the maximum near it."""
    found = unlatch.refine(truth, log, zeros=False).pomdp
    off = [
        np.abs(getattr(found, kind) - getattr(truth, kind))[
            (getattr(truth, kind) > 0) & (getattr(truth, kind) < 1)
        ]
        for kind in ("transitions", "observations")
    ]
    return float(np.concatenate(off).mean())
