"""The solver beside its rival and beside what is known: bounds, values, success, speed; and the agent.

``python benchmarks/solving.py FOLDER [--sarsop PATH] [--only PARTS]``

PARTS are files, exports, paper, lake, maze, search, exploration, tours, agent; all but the last three by default.
FOLDER holds classic ``.POMDP`` files (tiger.95, cheese.95, 4x3.95, shuttle.95, network.95, query.s3, hallway); those
that are missing are left out. ``--sarsop`` is the program ``pomdpsol`` of the C++ SARSOP, which then runs beside, in
turns, on the same files for as many ``--seconds``; ``exports`` has it solve what we write, in both formats. ``agent``
takes about an hour (``--systems``, ``--arms``, ``--runs``; ``--kept FILE`` goes on from what was run). Prints a table
for every part.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
import time
import warnings
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

import unlatch
from unlatch import (
    POMDP,
    ExactPlanner,
    PointBasedSolver,
    Policy,
    Problem,
    Reward,
    domains,
    run_episodes,
    solve,
)
from unlatch.errors import NotLearnableError, NumericalError
from unlatch.planning.episodes import Stage
from unlatch.planning.problem import PlanningProblem, planning_problem
from unlatch.planning.tour import Tour

FILES = ("tiger.95", "cheese.95", "4x3.95", "shuttle.95", "network.95", "query.s3", "hallway")
GAP = 1e-3
EPISODES = 10_000
ARMS = ("agent", "uniform")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sarsop", type=Path)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--problems", default=",".join((*FILES, "tag")))
    parser.add_argument("--episodes", type=int, default=EPISODES)
    parser.add_argument("--only", default="files,exports,paper,lake,maze,search")
    parser.add_argument("--beliefs", type=int, default=100, help="at which a search is judged")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=FIRST_SEED, help="of the agent's first run")
    parser.add_argument("--systems", default="lockbox,maze,lake")
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--kept", type=Path, help="a file of the agent's runs, to go on from")
    chosen = parser.parse_args()
    solve(Problem(domains.tiger(), discount=0.5))  # compile
    parts = {
        "files": lambda: files(
            chosen.folder, chosen.problems.split(","), chosen.sarsop, chosen.seconds, chosen.episodes
        ),
        "exports": lambda: exports(chosen.folder, chosen.sarsop, chosen.seconds),
        "paper": paper,
        "lake": lake,
        "maze": maze,
        "search": lambda: search(chosen.folder, chosen.beliefs),
        "exploration": lambda: exploration(chosen.folder, chosen.beliefs),
        "tours": tours,
        "agent": lambda: agent(
            chosen.systems.split(","),
            range(chosen.seed, chosen.seed + chosen.runs),
            chosen.arms.split(","),
            chosen.kept,
        ),
    }
    for name in chosen.only.split(","):
        parts[name]()


# --- bounds -------------------------------------------------------------------------------------------------------


def files(folder: Path, names: list[str], sarsop: Path | None, seconds: float, episodes: int) -> None:
    print(
        "| problem | states | ours | gap | seconds | SARSOP | gap | seconds | plan gathers | policy gathers | held |"
    )
    print("|---" * 11 + "|")
    problems = {
        name: unlatch.load_problem(folder / f"{name}.POMDP")
        for name in names
        if (folder / f"{name}.POMDP").exists()
    }
    if "tag" in names:
        problems["tag"] = Problem(domains.tag(), discount=0.95)
    for name, problem in problems.items():
        solver, taken = solved(problem, seconds)
        policy, rng = solver.policy(), np.random.default_rng(0)
        followed, its_error = plan_return(policy, episodes, rng)
        mean, error = discounted_return(policy, episodes // 10, rng)
        held = all(
            solver.lower - 3 * off <= gathered <= solver.upper + 3 * off
            for gathered, off in ((followed, its_error), (mean, error))
        )
        theirs = "| - | - | -" if sarsop is None else rival(sarsop, problem, seconds)
        print(
            f"| {name} | {problem.model.n_states} | {solver.lower:.5g} to {solver.upper:.5g} | {solver.gap:.3g} | "
            f"{taken} {theirs} | {followed:.5g} ± {its_error:.2g} | {mean:.4g} ± {error:.2g} | "
            f"{'yes' if held else 'NO'} |",
            flush=True,
        )


def solved(problem: Problem, seconds: float) -> tuple[PointBasedSolver, str]:
    """A solver that has run, and its seconds; where these are few, the median of twenty runs and the longest."""
    taken = []
    while not taken or (taken[0] < 0.5 and len(taken) < 20):
        solver = PointBasedSolver(problem)
        begun, of_processor = time.perf_counter(), time.process_time()
        solver.run(gap=GAP, time_limit=seconds)
        taken.append(time.perf_counter() - begun)
    if len(taken) == 1:
        return solver, f"{taken[0]:.2f}, {time.process_time() - of_processor:.2f} of the processor"
    return solver, f"{np.median(taken):.3f}, at most {max(taken):.3f}"


def exports(folder: Path, sarsop: Path | None, seconds: float) -> None:
    """What SARSOP makes of the files that we write: its bounds must hold the value that ours do."""
    if sarsop is None:
        print("exports: give the program of SARSOP with --sarsop")
        return
    print("| problem | file | ours | SARSOP | gap | seconds |")
    print("|---|---|---|---|---|---|")
    problems = {"Tiger, on departure": Problem(domains.tiger(), discount=0.95)}
    for name in ("tiger.95", "4x3.95", "shuttle.95"):
        if (folder / f"{name}.POMDP").exists():
            problems[name] = unlatch.load_problem(folder / f"{name}.POMDP")
    for name, problem in problems.items():
        solver = PointBasedSolver(problem)
        solver.run(gap=GAP, time_limit=seconds)
        for ending in (".pomdp", ".pomdpx"):
            theirs = rival(sarsop, problem, seconds, ending)
            print(f"| {name} | {ending} | {solver.lower:.5f} to {solver.upper:.5f} {theirs} |", flush=True)


def rival(sarsop: Path, problem: Problem, seconds: float, ending: str = ".pomdp") -> str:
    """SARSOP's last line of bounds on the same problem."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"problem{ending}"
        unlatch.save_problem(path, problem)
        command = [
            str(sarsop),
            "--timeout",
            str(seconds),
            "--precision",
            str(GAP),
            "-o",
            f"{folder}/out.policy",
            str(path),
        ]
        text = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    number = r"(-?[\d.e+-]+)"
    lines = re.findall(
        rf"^\s*{number}\s+\d+\s+\d+\s+{number}\s+{number}\s+{number}\s+\d+\s+\d+\s*$", text, re.M
    )
    if not lines:
        return "| failed | - | -"
    taken, lower, upper, gap = lines[-1]
    return f"| {float(lower):.5g} to {float(upper):.5g} | {float(gap):.3g} | {taken}"


def plan_return(policy: Policy, episodes: int, rng: np.random.Generator) -> tuple[float, float]:
    """Mean and standard error of what the plan gathers that the lower bound is made of: its action, then the plan that
    it goes on with after what was seen. That is the lower bound itself but for chance, and for what the first plans
    are worth more than was computed when time was up."""
    steps = policy.steps
    rows = len(steps.starts) - 1
    place = np.arange(len(steps.events)) - np.repeat(steps.starts[:-1], np.diff(steps.starts))
    row = np.repeat(np.arange(rows), np.diff(steps.starts))
    chances = np.zeros((rows, place.max() + 2))
    chances[row, place] = steps.chances
    chances[:, -1] = np.maximum(1 - chances.sum(axis=1), 0)  # the end
    cumulative = np.cumsum(chances, axis=1)
    plans = np.full(episodes, np.argmax(policy.vectors @ policy.model.initial))
    states = rng.choice(policy.model.n_states, size=episodes, p=policy.model.initial)
    running = np.arange(episodes)
    totals, weight = np.zeros(episodes), 1.0
    for _ in range(int(np.ceil(np.log(1e-4) / np.log(steps.discount)))):
        actions = np.searchsorted(steps.legal, policy.actions_taken[plans])
        totals[running] += weight * steps.scale * steps.rewards[actions, states]
        weight *= steps.discount
        rows_left = actions * steps.rank + states
        taken = drawn(cumulative[rows_left], rng)
        going_on = taken < chances.shape[1] - 1
        way = (steps.starts[rows_left] + taken)[going_on]
        running, states = running[going_on], steps.following[way]
        plans = policy.successors[plans[going_on], steps.events[way]]
    return float(totals.mean()), float(totals.std(ddof=1) / np.sqrt(episodes))


def discounted_return(policy: Policy, episodes: int, rng: np.random.Generator) -> tuple[float, float]:
    """Mean and standard error of the discounted sum of rewards in the policy's own model, all episodes side by side;
    what a step pays is its expectation in the state. Steps that weigh less than 1e-4 are left out."""
    model, rewards, discount = policy.model, policy.problem.rewards, policy.problem.discount
    cumulative, shown = np.cumsum(model.transitions, axis=2), np.cumsum(model.observations, axis=2)
    live = model.going_on > 0
    moves = [csr_array(rows * live) for rows in model.transitions]
    states = rng.choice(model.n_states, size=episodes, p=model.initial)
    beliefs = np.tile(model.initial, (episodes, 1))
    running = np.arange(episodes)
    totals, weight = np.zeros(episodes), 1.0
    for _ in range(int(np.ceil(np.log(1e-4) / np.log(discount)))):
        actions = policy.actions_taken[np.argmax(beliefs @ policy.vectors.T, axis=1)]
        totals[running] += weight * rewards[actions, states]
        weight *= discount
        following = drawn(cumulative[actions, states], rng)
        arrival = model.emission == "arrival"
        seen = drawn(shown[actions, following if arrival else states], rng)
        for a in np.unique(actions):
            own = np.flatnonzero(actions == a)
            likely = model.observations[a][:, seen[own]].T
            beliefs[own] = (
                (beliefs[own] @ moves[a]) * likely if arrival else (beliefs[own] * likely) @ moves[a]
            )
        going_on = live[following]
        running, states, beliefs = running[going_on], following[going_on], beliefs[going_on]
        if not len(running):
            break
        beliefs /= beliefs.sum(axis=1, keepdims=True)
    return float(totals.mean()), float(totals.std(ddof=1) / np.sqrt(episodes))


def return_elsewhere(
    policy: Policy, truth: POMDP, episodes: int, rng: np.random.Generator
) -> tuple[float, float]:
    """The same in another system than the policy's model. Beliefs go on as those of `Policy.observe` do, also after
    what the policy's model holds impossible."""
    own = planning_problem(policy.model, policy.reward, untried="allow")
    stage = Stage.build(truth, policy, None, "allow")
    codes = [own.event_codes(*told) for told in stage.told]
    following = stage.following / np.maximum(stage.following[..., -1:], 1e-300)
    paid = stage.scale * (
        np.einsum("ase,ae->as", np.diff(stage.shown, axis=2, prepend=0.0), stage.symbol_rewards)
        + stage.state_rewards
    )
    discount = policy.problem.discount
    states = drawn(np.tile(np.cumsum(truth.initial), (episodes, 1)), rng)
    beliefs = np.tile(own.initial, (episodes, 1))
    if stage.tells_first:
        firsts = drawn(stage.first[states], rng)
        for first in np.unique(firsts):
            policy.reset(truth.first_observation_names[first])
            beliefs[firsts == first] = policy.belief
    totals, weight = np.zeros(episodes), 1.0
    running = np.arange(episodes)
    for _ in range(int(np.ceil(np.log(1e-4) / np.log(discount)))):
        actions = policy.actions_taken[np.argmax(beliefs @ policy.vectors.T, axis=1)]
        totals[running] += weight * paid[actions, states]
        weight *= discount
        events = drawn(stage.shown[actions, states], rng)
        states = drawn(following[actions, events, states], rng)
        for step in np.unique(actions * len(codes) + events):
            action, event = divmod(int(step), len(codes))
            here = (actions == action) & (events == event)
            beliefs[here] = advanced(own, beliefs[here], action, codes[event])
        going_on = ~stage.events.ended[events]
        running, states, beliefs = running[going_on], states[going_on], beliefs[going_on]
        if not len(running):
            break
    return float(totals.mean()), float(totals.std(ddof=1) / np.sqrt(episodes))


def advanced(
    own: PlanningProblem, beliefs: np.ndarray, action: int, codes: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """Beliefs (episodes, states) after one and the same step, as a planner follows them with ``on_collapse="mix"``."""
    result = np.tile(own.mixing, (len(beliefs), 1))
    unknown = np.ones(len(beliefs), dtype=bool)
    for source in (beliefs, np.tile(own.mixing, (len(beliefs), 1))):
        for kind in codes:  # an episode that may go on does
            after = source @ own.updates[action, kind].sum(axis=0)
            mass = after.sum(axis=1)
            found = unknown & (mass > 0)
            result[found] = after[found] / mass[found, None]
            unknown &= ~found
    return result


def drawn(cumulative: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    chances = rng.random(len(cumulative))[:, None] * cumulative[:, -1:]
    return np.minimum((cumulative <= chances).sum(axis=1), cumulative.shape[1] - 1)


# --- exact values, success, mazes -----------------------------------------------------------------------------------


def paper() -> None:
    print("\n| ten steps, undiscounted | exact | lower | upper | seconds |\n|---|---|---|---|---|")
    middle = Reward.on_states({"middle": 1.0})
    problems = {
        "Tiger": (domains.tiger(), None),
        "T-Maze": (domains.tmaze(), None),
        "Sense-Float-Reset 3": (domains.sense_float_reset(3), None),
        "Sense-Float-Reset 4": (domains.sense_float_reset(4), None),
        "directional": (domains.directional_hallway(), middle),
        "noisy": (domains.noisy_hallway(), middle),
    }
    for name, (model, reward) in problems.items():
        exact = ExactPlanner(model, reward, 10).value()
        begun = time.perf_counter()
        policy = solve(Problem(model, reward, discount=1.0), horizon=10, gap=1e-6, time_limit=60)
        taken = time.perf_counter() - begun
        print(f"| {name} | {exact:.7f} | {policy.lower:.7f} | {policy.upper:.7f} | {taken:.2f} |", flush=True)


def lake(episodes: int = 2000, recorded: int = 200_000) -> None:
    """Success in Gymnasium's own FrozenLake, slippery, at most 100 steps."""
    import gymnasium

    world = gymnasium.make("FrozenLake-v1")
    truth = domains.frozen_lake()
    print("\n| FrozenLake, slippery | success |\n|---|---|")
    policy = solve(Problem(truth, discount=1.0), horizon=100, gap=1e-3, time_limit=60)
    print(f"| true model, point-based | {score(world, policy, episodes)} |", flush=True)
    log = unlatch.record(world, recorded, seed=0)
    learned = unlatch.learn_pomdp(log, rng=0).pomdp
    policy = solve(Problem(learned, discount=1.0), horizon=100, gap=1e-3, time_limit=60)
    print(
        f"| learned from {recorded} steps ({learned.n_states} states) | {score(world, policy, episodes)} |",
        flush=True,
    )
    planner = unlatch.POUCT(truth, depth="auto", rng=0)
    print(f"| PO-UCT, depth auto, 1000 simulations (300 episodes) | {score(world, planner, 300)} |")


def score(world: object, policy: Policy | unlatch.POUCT, episodes: int) -> str:
    played = run_episodes(world, policy, episodes=episodes, steps=100, rng=1)
    return f"{played.mean:.3f} ± {played.standard_error:.3f}"


def maze(seconds: float = 30.0) -> None:
    print("\n| T-Maze, discount .95 | lower | upper | lower / upper | seconds |\n|---|---|---|---|---|")
    for rooms in (6, 14):
        model = domains.tmaze(rooms)
        solver = PointBasedSolver(Problem(model, discount=0.95))
        begun = time.perf_counter()
        solver.run(gap=1e-3, time_limit=seconds)
        taken = time.perf_counter() - begun
        share = solver.lower / solver.upper
        print(
            f"| {model.n_states} states | {solver.lower:.4f} | {solver.upper:.4f} | {share:.3f} | {taken:.1f} |"
        )


def search(folder: Path, beliefs: int) -> None:
    """What a search loses by the action that it chooses, at beliefs that a good and a random policy come to: the
    optimal value minus that of the action and of acting optimally after it. The beliefs are the same in every column,
    so that columns can be compared; a return of few episodes says nothing."""
    numbers = (1000, 10_000, 100_000)
    print("\n| PO-UCT, discount .95: loss of one decision | " + " | ".join(f"{n:,}" for n in numbers), end="")
    print(" | 100,000 minus 1,000 |\n|---|---|---|---|---|")
    for name, problem in searched(folder).items():
        losses = Losses(problem, beliefs)
        for depth in ("auto", 3):
            found = []
            for simulations in numbers:
                planner = searcher(problem, depth, simulations)
                found.append(losses.of([planner.action(belief) for belief in losses.beliefs]))
            cells = " | ".join(f"{lost.mean():.4g}" for lost in found)
            print(f"| {name}, depth {depth} | {cells} | {stated(found[-1] - found[0])} |", flush=True)


def exploration(folder: Path, beliefs: int) -> None:
    """The same for other constants of exploration, in units of the automatic one; leaves valued, 1,000 simulations."""
    factors = (1 / 80, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0)
    print(
        "\n| loss by exploration, times the automatic | " + " | ".join(f"{factor:.3g}" for factor in factors),
        end="",
    )
    print(" |\n" + "|---" * (len(factors) + 1) + "|")
    for name, problem in searched(folder).items():
        losses = Losses(problem, beliefs)
        automatic = searcher(problem, "auto", 1)
        width = automatic.settings.exploration * problem.resolved.scale
        cells = []
        for factor in factors:
            planner = searcher(problem, "auto", 1000, exploration=factor * width)
            cells.append(f"{losses.of([planner.action(b) for b in losses.beliefs]).mean():.3g}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def searched(folder: Path) -> dict[str, Problem]:
    problems = {
        "Tiger": Problem(domains.tiger(), discount=0.95),
        "T-Maze": Problem(domains.tmaze(), discount=0.95),
        "T-Maze, 14 states": Problem(domains.tmaze(6), discount=0.95),
        "lockbox": Problem(domains.lockbox(), discount=0.95),
        "FrozenLake": Problem(domains.frozen_lake(), discount=0.95),
    }
    for name in ("4x3.95", "shuttle.95", "cheese.95"):
        if (folder / f"{name}.POMDP").exists():
            problems[name] = unlatch.load_problem(folder / f"{name}.POMDP")
    return problems


def searcher(problem: Problem, depth: int | str, simulations: int, **options: Any) -> unlatch.POUCT:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # three steps are too few for some, which is what is shown
        return unlatch.POUCT(
            problem.model,
            problem.reward,
            depth=depth,
            simulations=simulations,
            discount=problem.discount,
            rng=0,
            **options,
        )


def stated(differences: np.ndarray) -> str:
    return f"{differences.mean():+.2g} ± {differences.std(ddof=1) / np.sqrt(len(differences)):.1g}"


class Losses:
    """Beliefs, and what every action loses at each of them, by bounds that are tightened there."""

    def __init__(self, problem: Problem, beliefs: int, random: float = 0.3) -> None:
        rng = np.random.default_rng(0)
        solver = PointBasedSolver(problem)
        close = 1e-4 * problem.resolved.scale
        solver.run(gap=10 * close, time_limit=5)
        own, policy = planning_problem(problem.model, problem.reward), solver.policy()
        found = []
        while len(found) < beliefs:
            belief = own.initial
            for _ in range(10):
                found.append(belief)
                chosen = policy.action(belief) if rng.random() > random else rng.choice(own.legal)
                going_on = np.flatnonzero(~own.events.ended)
                after = np.einsum("s,est->et", belief, own.updates[chosen][going_on])
                if not after.any():
                    break
                drawn_one = rng.choice(len(after), p=after.sum(axis=1) / after.sum())
                belief = after[drawn_one] / after[drawn_one].sum()
        self.beliefs = found[:beliefs]
        for belief in self.beliefs:
            solver.improve(belief, gap=close, max_backups=2000)
        policy = solver.policy()
        values = np.array([self._values(own, policy, belief) for belief in self.beliefs])
        self._lost = values.max(axis=1, keepdims=True) - values

    @staticmethod
    def _values(own: PlanningProblem, policy: Policy, belief: np.ndarray) -> np.ndarray:
        going_on = np.flatnonzero(~own.events.ended)
        after = np.einsum("s,aest->aet", belief, own.updates[:, going_on])
        later = (after @ policy.vectors.T).max(axis=2).sum(axis=1)
        return own.scale * (own.expected @ belief) + policy.problem.discount * later

    def of(self, actions: list[int]) -> np.ndarray:
        return self._lost[np.arange(len(actions)), actions]


# --- the agent ------------------------------------------------------------------------------------------------------


def tours(steps: int = 20_000) -> None:
    """How often a walker comes from the map of the T-Maze to the prize and tries it, by places alone: what shows that
    the two belong together. Episodes of 100 steps, one action of ten uniform (tours, lowest counts)."""
    places = without_rows(domains.tmaze(6))
    print("\n| T-Maze, 14 states | steps for each way from the map to the prize |\n|---|---|")
    for name, blind in (("uniform", 1.0), ("to the lowest counts", 0.1), ("tour", 0.1)):
        print(f"| {name} | {steps / ways_to_the_prize(places, name, blind, steps):.0f} |", flush=True)


def without_rows(maze: POMDP) -> POMDP:
    """What a learner holds the maze to be before it knows of its two rows."""
    half = maze.n_states // 2
    rows = maze.transitions.reshape(4, 2, half, 2, half).sum(axis=3).mean(axis=1)
    shows = maze.observations.reshape(4, 2, half, -1).mean(axis=1)
    return POMDP(rows, shows, np.eye(half)[-1], action_names=maze.action_names)


def ways_to_the_prize(model: POMDP, walker: str, blind: float, steps: int) -> int:
    rng = np.random.default_rng(0)
    uses = np.zeros((model.n_actions, model.n_states))
    tour = Tour(model, np.ones_like(uses), uses)
    distance = np.abs(np.subtract.outer(np.arange(model.n_states), np.arange(model.n_states)))
    last, left, right = model.n_states - 1, *(model.action_names.index(name) for name in ("left", "right"))
    place, from_map, ways = last, False, 0
    for step in range(steps):
        if step % CUT == 0:
            place, from_map = last, False
        belief = np.eye(model.n_states)[place]
        tour.visit(belief)
        if walker == "tour":
            action = tour.action(belief)
        else:
            action, wanted = np.unravel_index((0.95 ** distance[place] / (uses + 1)).argmax(), uses.shape)
            if wanted != place:
                action = left if wanted < place else right
        if rng.random() < blind:
            action = int(rng.integers(model.n_actions))
        tour.took(belief, int(action))
        uses[action, place] += 1
        from_map |= place == 0
        if place == last and action not in (left, right):
            ways, from_map = ways + from_map, False
        place = int(rng.choice(model.n_states, p=model.transitions[action, place]))
    return ways


class Trial(NamedTuple):
    """A system to be learned from nothing, and what both arms are told: discount, emission, steps before the first
    learning, the steps after which a run is given up; and the optimum."""

    truth: POMDP
    discount: float
    emission: str
    first: int
    most: int
    best: float


def trial(truth: POMDP, discount: float, emission: str, first: int, most: int) -> Trial:
    """With what the best plan gathers, from below."""
    best = solve(Problem(truth, discount=discount), gap=1e-3, time_limit=20).lower
    return Trial(truth, discount, emission, first, most, best)


TRIALS = {
    "lockbox": lambda: trial(domains.lockbox(), 0.95, "arrival", 225, 6_000),
    "maze": lambda: trial(domains.tmaze(2), 0.95, "departure", 300, 8_000),
    "lake": lambda: trial(domains.frozen_lake(observe="column", slippery=False), 0.95, "arrival", 300, 8_000),
    # on which nothing was tried out
    "other box": lambda: trial(
        domains.lockbox(3, locks=[(2, 1), (0, 1), None, (1, 1)]), 0.95, "arrival", 225, 6_000
    ),
    "smaller box": lambda: trial(domains.lockbox(2), 0.95, "arrival", 100, 4_000),
    "longer maze": lambda: trial(domains.tmaze(3), 0.95, "departure", 200, 16_000),
    "longest maze": lambda: trial(domains.tmaze(6), 0.95, "departure", 1000, 64_000),
    "slippery lake": lambda: trial(domains.frozen_lake(observe="column"), 0.99, "arrival", 5000, 80_000),
}
CUT, ENOUGH, SCORED, GROWTH = 100, 0.9, 2000, 1.5
"""Steps after which an episode is cut; the share of the optimum that is asked for; the episodes by which a plan is
judged; the factor from one learning to the next, the agent's own."""
FIRST_SEED = 400
"""No constant was chosen on the seeds from here on."""


def agent(systems: list[str], seeds: range, arms: list[str], kept: Path | None) -> None:
    """Steps until the plan of the model learned so far gathers 90 % of the optimum in the true system: the agent, and
    uniform exploration with the same learner and planner at the same lengths of the log. What is in ``kept``, a line
    of JSON for every run, is not run again."""
    print("\n| from nothing | run | agent | uniform |\n|---|---|---|---|")
    done = {} if kept is None or not kept.exists() else dict(map(json.loads, kept.read_text().splitlines()))
    trials = {name: TRIALS[name]() for name in systems}
    for seed, (name, trial) in product(seeds, trials.items()):
        for arm in arms:
            key = f"{name} {arm} {seed}"
            if key not in done:
                done[key] = (by_agent if arm == "agent" else by_chance)(trial, seed)
                if kept is not None:
                    with kept.open("a") as file:
                        file.write(json.dumps([key, done[key]]) + "\n")
        shown = (str(done.get(f"{name} {arm} {seed}", "-")) for arm in ARMS)
        print(f"| {name} | {seed} | {' | '.join(shown)} |", flush=True)
    for name in systems:
        compared(name, *([done.get(f"{name} {arm} {seed}") for seed in seeds] for arm in ARMS))


def compared(name: str, ours: list[int | None], theirs: list[int | None]) -> None:
    """Medians of all runs of both arms, if both are there."""
    if None in ours or None in theirs:
        return
    share, means = np.median(ours) / np.median(theirs), np.mean(ours) / np.mean(theirs)
    print(f"| {name} | medians of {len(ours)} | {np.median(ours):.0f} | {np.median(theirs):.0f}: ", end="")
    print(f"{share:.0%} (means {means:.0%}) |", flush=True)


def by_agent(trial: Trial, seed: int) -> int:
    """``most`` where it did not come to that."""
    options = {"first": trial.first, "growth": GROWTH, "episode_steps": CUT, "emission": trial.emission}
    ours = unlatch.Agent(trial.truth, discount=trial.discount, seed=seed, **options)
    ours.run_until(lambda it: is_enough(trial, it.policy), most=trial.most)
    return len(ours)


def by_chance(trial: Trial, seed: int) -> int:
    walk = unlatch.simulate(trial.truth, CUT, total=trial.most, rng=seed)
    steps = trial.first
    while steps < trial.most and not is_enough(trial, planned(trial, walk.head(steps), seed)):
        steps = min(int(np.ceil(GROWTH * steps)), trial.most)
    return steps


def planned(trial: Trial, log: unlatch.Trajectory, seed: int) -> Policy | None:
    """The plan in the model of a log, made as the agent makes its own; None where nothing can be learned yet."""
    try:
        model = unlatch.learn_pomdp(log, emission=trial.emission, rng=seed).pomdp
    except (NotLearnableError, NumericalError):
        return None
    solver = PointBasedSolver(Problem(model, discount=trial.discount))
    solver.run(gap=1e-3 * max(solver.problem.resolved.scale, 1e-9), max_backups=1000)
    return solver.policy()


def is_enough(trial: Trial, policy: Policy | None) -> bool:
    if policy is None:
        return False
    mean, _ = return_elsewhere(policy, trial.truth, SCORED, np.random.default_rng(1))
    return mean >= ENOUGH * trial.best


if __name__ == "__main__":
    main()
