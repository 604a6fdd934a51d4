"""The solver beside its rival and beside what is known: bounds, values, success, speed.

``python benchmarks/solving.py FOLDER [--sarsop PATH] [--only files,exports,paper,lake,maze,search,agent]``

FOLDER holds classic ``.POMDP`` files (tiger.95, cheese.95, 4x3.95, shuttle.95, network.95, query.s3, hallway); those
that are missing are left out. ``--sarsop`` is the program ``pomdpsol`` of the C++ SARSOP, which then runs beside, in
turns, on the same files for as many ``--seconds``; ``exports`` has it solve what we write, in both formats. ``agent``
takes hours, and is run only if it is asked for (``--systems``, ``--runs``). Prints a table for every part.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

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

FILES = ("tiger.95", "cheese.95", "4x3.95", "shuttle.95", "network.95", "query.s3", "hallway")
GAP = 1e-3
EPISODES = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sarsop", type=Path)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--episodes", type=int, default=EPISODES)
    parser.add_argument("--only", default="files,exports,paper,lake,maze,search")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--systems", default="lockbox,maze,lake")
    chosen = parser.parse_args()
    solve(Problem(domains.tiger(), discount=0.5))  # compile
    parts = {
        "files": lambda: files(chosen.folder, chosen.sarsop, chosen.seconds, chosen.episodes),
        "exports": lambda: exports(chosen.folder, chosen.sarsop, chosen.seconds),
        "paper": paper,
        "lake": lake,
        "maze": maze,
        "search": search,
        "agent": lambda: agent(chosen.systems.split(","), chosen.runs),
    }
    for name in chosen.only.split(","):
        parts[name]()


# --- bounds -------------------------------------------------------------------------------------------------------


def files(folder: Path, sarsop: Path | None, seconds: float, episodes: int) -> None:
    print("| problem | states | ours | gap | seconds | SARSOP | gap | seconds | simulated |")
    print("|---|---|---|---|---|---|---|---|---|")
    problems = {
        name: unlatch.load_problem(folder / f"{name}.POMDP")
        for name in FILES
        if (folder / f"{name}.POMDP").exists()
    }
    problems["tag"] = Problem(domains.tag(), discount=0.95)
    for name, problem in problems.items():
        solver = PointBasedSolver(problem)
        begun = time.perf_counter()
        solver.run(gap=GAP, time_limit=seconds)
        taken = time.perf_counter() - begun
        mean, error = discounted_return(solver.policy(), episodes, np.random.default_rng(0))
        held = solver.lower - 3 * error <= mean <= solver.upper + 3 * error
        theirs = "| - | - | -" if sarsop is None else rival(sarsop, problem, seconds)
        print(
            f"| {name} | {problem.model.n_states} | {solver.lower:.5g} to {solver.upper:.5g} | {solver.gap:.3g} | "
            f"{taken:.3f} {theirs} | {mean:.4g} ± {error:.2g}, {'inside' if held else 'OUTSIDE'} |",
            flush=True,
        )


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


def discounted_return(policy: Policy, episodes: int, rng: np.random.Generator) -> tuple[float, float]:
    """Mean and standard error of the discounted sum of rewards, all episodes side by side; what a step pays is its
    expectation in the state."""
    model, rewards, discount = policy.model, policy.problem.rewards, policy.problem.discount
    steps = int(np.ceil(np.log(1e-4) / np.log(discount)))
    cumulative, shown = np.cumsum(model.transitions, axis=2), np.cumsum(model.observations, axis=2)
    states = rng.choice(model.n_states, size=episodes, p=model.initial)
    beliefs = np.tile(model.initial, (episodes, 1))
    live = model.going_on > 0
    running = np.ones(episodes, dtype=bool)
    totals, weight = np.zeros(episodes), 1.0
    for _ in range(steps):
        actions = policy.actions_taken[np.argmax(beliefs @ policy.vectors.T, axis=1)]
        totals += weight * rewards[actions, states] * running
        weight *= discount
        following = drawn(cumulative[actions, states], rng)
        emitting = following if model.emission == "arrival" else states
        seen = drawn(shown[actions, emitting], rng)
        for a in np.unique(actions):
            own = np.flatnonzero(actions == a)
            likely = model.observations[a][:, seen[own]].T
            if model.emission == "arrival":
                beliefs[own] = (beliefs[own] @ model.transitions[a]) * likely
            else:
                beliefs[own] = (beliefs[own] * likely) @ model.transitions[a]
        states = following
        running &= live[states]
        beliefs[running] *= live
        beliefs[~running] = model.initial
        states = np.where(running, states, 0)
        beliefs /= beliefs.sum(axis=1, keepdims=True)
    return float(totals.mean()), float(totals.std(ddof=1) / np.sqrt(episodes))


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


def search() -> None:
    """More simulations: T-Maze and Tiger from valued leaves, the return of ten steps."""
    print("\n| PO-UCT, depth auto | 1,000 | 10,000 | 100,000 |\n|---|---|---|---|")
    for name, model in (("Tiger", domains.tiger()), ("T-Maze", domains.tmaze())):
        cells = []
        for simulations, episodes in ((1000, 500), (10_000, 200), (100_000, 40)):
            planner = unlatch.POUCT(model, depth="auto", simulations=simulations, rng=0)
            played = run_episodes(model, planner, episodes=episodes, steps=10, rng=1)
            cells.append(f"{played.mean:.2f} ± {played.standard_error:.2f}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


# --- the agent ------------------------------------------------------------------------------------------------------


class Trial(NamedTuple):
    """A system to be learned from nothing, and what both arms are told: discount, emission, first learning, and the
    steps after which a run is given up."""

    truth: POMDP
    discount: float
    emission: str
    first: int
    most: int


TRIALS = {
    "lockbox": lambda: Trial(domains.lockbox(), 0.95, "arrival", 150, 10_000),
    "maze": lambda: Trial(domains.tmaze(6), 0.95, "departure", 1000, 40_000),
    "lake": lambda: Trial(domains.frozen_lake(observe="column"), 0.99, "arrival", 5000, 100_000),
}
GROWTH, CUT, ENOUGH, SCORED = 1.5, 100, 0.9, 500


def agent(systems: list[str], runs: int) -> None:
    """Steps until the plan of the model learned so far gathers 90 % of the optimum in the true system: the agent, and
    uniform exploration with the same learner at the same lengths of the log."""
    print("\n| from nothing | run | agent | uniform |\n|---|---|---|---|")
    for name in systems:
        trial = TRIALS[name]()
        best = solve(Problem(trial.truth, discount=trial.discount), gap=1e-3, time_limit=20).lower
        taken = []
        for seed in range(runs):
            taken.append((by_agent(trial, best, seed), by_chance(trial, best, seed)))
            print(f"| {name} | {seed} | {taken[-1][0]} | {taken[-1][1]} |", flush=True)
        ours, theirs = np.median(taken, axis=0)
        print(f"| {name} | median of {runs} | {ours:.0f} | {theirs:.0f}: {ours / theirs:.0%} |", flush=True)


def by_agent(trial: Trial, best: float, seed: int) -> int:
    """``most`` where it did not come to that."""
    options = {"first": trial.first, "growth": GROWTH, "episode_steps": CUT, "emission": trial.emission}
    ours = unlatch.Agent(trial.truth, discount=trial.discount, seed=seed, **options)
    ours.run_until(lambda it: is_enough(trial, it.policy, best), most=trial.most)
    return len(ours)


def by_chance(trial: Trial, best: float, seed: int) -> int:
    steps = trial.first
    while steps < trial.most:
        log = unlatch.simulate(trial.truth, CUT, total=steps, rng=seed)
        model = unlatch.learn_pomdp(log, emission=trial.emission, rng=seed).pomdp
        solver = PointBasedSolver(Problem(model, discount=trial.discount))
        solver.run(gap=1e-3 * max(solver.problem.resolved.scale, 1e-9), max_backups=1000)
        if is_enough(trial, solver.policy(), best):
            return steps
        steps = int(np.ceil(GROWTH * steps))
    return trial.most


def is_enough(trial: Trial, policy: Policy | None, best: float) -> bool:
    if policy is None:
        return False
    scorer = Discounted(policy, trial.discount)
    steps = int(np.ceil(np.log(0.01) / np.log(trial.discount)))
    run_episodes(trial.truth, scorer, episodes=SCORED, steps=steps, rng=1)
    return bool(np.mean(scorer.totals[:SCORED]) >= ENOUGH * best)


class Discounted:
    """A planner that follows another one and keeps the discounted sum of what every episode paid."""

    def __init__(self, policy: Policy, discount: float) -> None:
        self.model, self._policy, self._discount = policy.model, policy, discount
        self.totals: list[float] = []

    def reset(self, observation: str | None = None) -> None:
        known = observation in self.model.first_observation_names
        self._policy.reset(observation if known else None)
        self.totals.append(0.0)
        self._weight = 1.0

    def action(self) -> int:
        return self._policy.action()

    def observe(self, action: str, observation: str, reward: float | None = None) -> None:
        self.totals[-1] += self._weight * (reward or 0.0)
        self._weight *= self._discount
        if action in self.model.action_names:
            self._policy.observe(action, observation, reward)


if __name__ == "__main__":
    main()
