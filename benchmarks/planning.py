"""How well and how fast the planners plan, on the paper's domains.

    python benchmarks/planning.py                    every table, full size
    python benchmarks/planning.py paper auto         some of them
    python benchmarks/planning.py more --domains tiger --episodes 200

Parts: ``exact`` optimal values · ``paper`` PO-UCT with the paper's settings · ``auto`` with ours · ``more`` ours
with twenty times the simulations · ``goals`` on states and on observations, in the hallways · ``speed`` against
pomdp_py on Tiger · ``returns`` beside pomdp_py in a Tiger that was exported to it · ``size`` a million simulations.
"""

from __future__ import annotations

import argparse
import math
import random
import resource
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

from unlatch import Problem, domains, to_pomdp_py
from unlatch.core.pomdp import POMDP
from unlatch.core.reward import Reward
from unlatch.errors import MissingDependencyError
from unlatch.planning.episodes import Episodes, run_episodes
from unlatch.planning.exact import ExactPlanner
from unlatch.planning.goals import most_ambiguous_state, states_where
from unlatch.planning.pouct import POUCT

STEPS = 10
RIVAL_EPISODES = 150
"""At most, where pomdp_py plans: it takes seconds an episode."""

MIDDLE = Reward.on_states({"middle": 1.0})

DOMAINS: dict[str, tuple[Callable[[], POMDP], Reward | None]] = {
    "tiger": (domains.tiger, None),
    "tmaze": (domains.tmaze, None),
    "sense-float-reset-3": (domains.sense_float_reset, None),
    "sense-float-reset-4": (lambda: domains.sense_float_reset(4), None),
    "directional-hallway": (domains.directional_hallway, MIDDLE),
    "noisy-hallway": (domains.noisy_hallway, MIDDLE),
}

OPTIMA = {
    "tiger": 9.44,
    "tmaze": 2.34,
    "sense-float-reset-3": 7.09,
    "sense-float-reset-4": 7.09,
    "directional-hallway": 6.16,
    "noisy-hallway": 5.95,
}
"""Known values of the best plan over ten steps."""

PUBLISHED = {
    "tiger": "-28.7 ± 57.6",
    "tmaze": "1.17 ± 2.09",
    "sense-float-reset-3": "6.69 ± 2.79",
    "sense-float-reset-4": "6.73 ± 2.74",
    "directional-hallway": "6.26 ± 3.51",
    "noisy-hallway": "6.16 ± 3.06",
}
"""The paper's ground-truth lines: mean and standard deviation over 100 seeds."""

EXPECTED = {
    "tiger": (-49.0, 10.0),
    "tmaze": (2.25, 0.3),
    "sense-float-reset-3": (7.2, 0.3),
    "sense-float-reset-4": (7.2, 0.3),
}
"""What an independent implementation of the paper's planner reached, and how near is near (a measured mean may
be two of its standard errors farther off)."""

FLOORS = {"tiger": 4.0, "tmaze": 2.0, "sense-float-reset-3": 6.9, "sense-float-reset-4": 6.9}
"""What automatic exploration must reach."""


def main() -> None:
    parts: dict[str, Callable[[argparse.Namespace], None]] = {
        "exact": exact_values,
        "paper": paper_settings,
        "auto": automatic_settings,
        "more": more_simulations,
        "goals": goals,
        "speed": speed,
        "returns": returns,
        "size": size,
    }
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(parts)}; default all")
    parser.add_argument(
        "--domains", nargs="+", choices=list(DOMAINS), default=list(DOMAINS), metavar="DOMAIN"
    )
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--simulations", type=int, default=1000)
    parser.add_argument("--searches", type=int, default=30, help="searches timed for the speed table")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    unknown = [part for part in arguments.parts if part not in parts]
    if unknown:
        parser.error(f"unknown part {unknown[0]!r}; choose from {', '.join(parts)}")
    for part in arguments.parts or parts:
        parts[part](arguments)
        print()


def exact_values(arguments: argparse.Namespace) -> None:
    """The optimal value of ten steps, and what an agent that plans exactly gathers."""
    rows = []
    for name in arguments.domains:
        model, reward = _domain(name)
        begun = time.perf_counter()
        planner = ExactPlanner(model, reward, STEPS)
        value = planner.value()
        seconds = time.perf_counter() - begun
        played = _play(model, planner, reward, arguments)
        met = _verdict(round(value, 2) == OPTIMA[name])
        rows.append([name, f"{value:.3f}", f"{OPTIMA[name]}", met, _shown(played), f"{seconds:.2f}"])
    _table(f"Exact planner, {STEPS} steps", ["domain", "value", "known", "", "gathered", "seconds"], rows)


def paper_settings(arguments: argparse.Namespace) -> None:
    """Exploration 2, polynomial bonus, depth 3: the paper's planner on the truth."""
    rows = []
    for name in arguments.domains:
        for sampling in ("state", "belief"):
            played, seconds = _search(
                name, arguments, arguments.simulations, exploration=2.0, sampling=sampling
            )
            met, expected = "", ""
            if name in EXPECTED:
                target, near = EXPECTED[name]
                expected = f"{target} ± {near}"
                met = _verdict(abs(played.mean - target) <= near)
            label = f"{name}, by {sampling}"
            rows.append(
                [label, _shown(played), _spread(played), expected, met, PUBLISHED[name], f"{seconds:.1f}"]
            )
    _table(
        f"PO-UCT as in the paper (exploration 2, {arguments.simulations} simulations, depth 3)",
        ["domain", "gathered", "sd", "expected", "", "paper (mean ± sd)", "seconds"],
        rows,
    )


def automatic_settings(arguments: argparse.Namespace) -> None:
    """Our defaults on the truth."""
    rows = []
    for name in arguments.domains:
        played, seconds = _search(name, arguments, arguments.simulations)
        floor = FLOORS.get(name)
        met = "" if floor is None else _verdict(played.mean >= floor)
        share = _share_of_goal(name, played)
        rows.append(
            [
                name,
                _shown(played),
                _spread(played),
                "" if floor is None else f">= {floor}",
                met,
                share,
                f"{seconds:.1f}",
            ]
        )
    _table(
        f"PO-UCT, exploration 'auto' ({arguments.simulations} simulations, depth 3)",
        ["domain", "gathered", "sd", "wanted", "", "time in goal", "seconds"],
        rows,
    )


def more_simulations(arguments: argparse.Namespace) -> None:
    """Twenty times the simulations must not gather less, by two standard errors of the difference."""
    rows = []
    for name in arguments.domains:
        few, _ = _search(name, arguments, arguments.simulations)
        many, seconds = _search(name, arguments, 20 * arguments.simulations)
        error = (few.standard_error**2 + many.standard_error**2) ** 0.5
        met = _verdict(many.mean >= few.mean - 2 * error)
        rows.append([name, _shown(few), _shown(many), met, f"{seconds:.1f}"])
    _table(
        "PO-UCT, exploration 'auto': more simulations",
        ["domain", f"{arguments.simulations}", f"{20 * arguments.simulations}", "", "seconds"],
        rows,
    )


def goals(arguments: argparse.Namespace) -> None:
    """The middle of a hallway as a goal, named by its state and by what is seen there; judged on the true state."""
    ahead = {("left", "end-left"): 1.0, ("right", "end-right"): 1.0}
    either = {**ahead, ("left", "end-right"): 1.0, ("right", "end-left"): 1.0}
    directional, noisy = domains.directional_hallway(), domains.noisy_hallway()
    (middle,) = states_where(directional, "argmax", {"left": "end-left", "right": "end-right"})
    named = [
        ("directional-hallway", directional, "state", Reward.on_states({middle: 1.0})),
        ("directional-hallway", directional, "observations", Reward.on_observations(ahead)),
        ("noisy-hallway", noisy, "state", Reward.on_states({most_ambiguous_state(noisy): 1.0})),
        ("noisy-hallway", noisy, "observations", Reward.on_observations(either)),
    ]
    rows = []
    for name, model, strategy, reward in named:
        if name in arguments.domains:
            own, judged = (
                _play(
                    model,
                    POUCT(model, reward, simulations=arguments.simulations, rng=arguments.seed),
                    judge,
                    arguments,
                )
                for judge in (reward, MIDDLE)
            )
            rows.append([name, strategy, _shown(own), _shown(judged), _share_of_goal(name, judged)])
    _table(
        f"Goals named after learning, on the truth ({arguments.simulations} simulations, depth 3)",
        ["domain", "goal on", "of its own reward", "of the middle's", "time in middle"],
        rows,
    )


def speed(arguments: argparse.Namespace) -> None:
    """One search on Tiger, ours and pomdp_py's, in turns of ten searches."""
    try:
        import pomdp_py
        from pomdp_py.problems.tiger.tiger_problem import TigerProblem
    except ImportError:
        print("speed: pomdp_py is not installed; pip install 'unlatch[rivals]' to compare with it")
        return
    rows = []
    for depth in (3, 10):
        options = {"simulations": arguments.simulations, "depth": depth, "exploration": 50.0}
        ours = POUCT(domains.tiger(), bonus="ucb1", rng=arguments.seed, **options)  # type: ignore[arg-type]
        rival = pomdp_py.POUCT(
            max_depth=depth,
            num_sims=arguments.simulations,
            exploration_const=50.0,
            discount_factor=1.0,
            rollout_policy=TigerProblem.create().agent.policy_model,
        )
        ours.action()  # compiles
        mine: list[float] = []
        theirs: list[float] = []
        while len(mine) < arguments.searches:
            for _ in range(10):
                ours.reset()
                mine.append(_milliseconds(ours.action))
            for _ in range(10):
                theirs.append(_milliseconds(partial(rival.plan, TigerProblem.create().agent)))
        ratio = median(theirs) / median(mine)
        row = [
            str(depth),
            f"{median(mine):.3f}",
            f"{median(theirs):.1f}",
            f"{ratio:.0f}",
            _verdict(ratio >= 100),
        ]
        rows.append(row)
    _table(
        f"One search on Tiger, {arguments.simulations} simulations, median of {arguments.searches}",
        ["depth", "unlatch ms", "pomdp_py ms", "times faster", ">= 100"],
        rows,
    )


class TheirPlanner:
    """pomdp_py's PO-UCT in a problem that was exported to it, as our episodes ask a planner: a new tree at every step,
    and the exact belief."""

    def __init__(self, problem: Problem, rng: int, **options: float) -> None:
        import pomdp_py

        random.seed(rng)
        self._library = pomdp_py
        self._made = to_pomdp_py(problem, rng=rng)
        self._start = self._made.agent.belief
        policy = self._made.agent.policy_model
        self._planner = pomdp_py.POUCT(rollout_policy=policy, discount_factor=problem.discount, **options)

    def reset(self) -> None:
        self._made.agent.set_belief(self._start)

    def action(self) -> int:
        self._made.agent.tree = None
        return int(self._planner.plan(self._made.agent).code)

    def observe(self, action: int | str, observation: str) -> None:
        agent = self._made.agent
        done = next(each for each in self._made.actions if action in (each.code, each.name))
        seen = next(each for each in self._made.observations if each.name == observation)
        belief = self._library.update_histogram_belief(
            agent.belief,
            done,
            seen,
            agent.observation_model,
            agent.transition_model,
        )
        agent.set_belief(belief)


def returns(arguments: argparse.Namespace) -> None:
    """What both planners are paid in Tiger with the same settings, in episodes whose chances are the same."""
    problem = Problem(domains.tiger(), discount=0.95)
    depth, simulations, exploration = 3, 1000, 110.0
    try:
        rival = TheirPlanner(
            problem, arguments.seed, max_depth=depth, num_sims=simulations, exploration_const=exploration
        )
    except MissingDependencyError as error:
        print(f"returns: {error}")
        return
    ours = POUCT(
        problem.model, bonus="ucb1", rng=arguments.seed, simulations=simulations, depth=depth, exploration=exploration,
        discount=problem.discount,
    )  # fmt: skip
    episodes = min(arguments.episodes, RIVAL_EPISODES)
    mine, theirs = (
        run_episodes(problem.model, planner, episodes=episodes, steps=STEPS, rng=arguments.seed + 1)
        for planner in (ours, rival)
    )
    sigmas = (mine.mean - theirs.mean) / math.hypot(mine.standard_error, theirs.standard_error)
    _table(
        f"Return of {STEPS} steps in Tiger, {episodes} episodes each, depth {depth}, {simulations} simulations",
        ["unlatch", "pomdp_py", "standard errors apart", "<= 2"],
        [[_shown(mine), _shown(theirs), f"{sigmas:+.2f}", _verdict(abs(sigmas) <= 2)]],
    )


def size(arguments: argparse.Namespace) -> None:
    """A million simulations, deep, with a small cap on nodes."""
    rows = []
    for name, depth, cap in (("tiger", 10, 100_000), ("tmaze", 20, 100_000), ("tmaze", 20, 1_000_000)):
        model, reward = _domain(name)
        planner = POUCT(model, reward, simulations=1_000_000, depth=depth, max_nodes=cap, rng=arguments.seed)
        before = _megabytes()
        begun = time.perf_counter()
        result = planner.search()
        seconds = time.perf_counter() - begun
        grown = _megabytes() - before
        rows.append(
            [
                name,
                str(depth),
                str(cap),
                str(result.nodes),
                _verdict(result.nodes <= cap),
                f"{grown:.0f}",
                f"{seconds:.1f}",
            ]
        )
    _table(
        "A million simulations",
        ["domain", "depth", "node cap", "nodes", "within", "peak MB grown", "seconds"],
        rows,
    )


def _domain(name: str) -> tuple[POMDP, Reward | None]:
    make, reward = DOMAINS[name]
    return make(), reward


def _play(
    model: POMDP, planner: POUCT | ExactPlanner, reward: Reward | None, arguments: argparse.Namespace
) -> Episodes:
    return run_episodes(
        model, planner, episodes=arguments.episodes, steps=STEPS, reward=reward, rng=arguments.seed + 1
    )


def _search(
    name: str, arguments: argparse.Namespace, simulations: int, **options: float
) -> tuple[Episodes, float]:
    model, reward = _domain(name)
    planner = POUCT(model, reward, simulations=simulations, rng=arguments.seed, **options)  # type: ignore[arg-type]
    begun = time.perf_counter()
    played = _play(model, planner, reward, arguments)
    return played, time.perf_counter() - begun


def _share_of_goal(name: str, played: Episodes) -> str:
    if "middle" not in played.state_names:
        return ""
    return f"{played.share_of_time[played.state_names.index('middle')]:.2f}"


def _shown(played: Episodes) -> str:
    return f"{played.mean:.2f} ± {played.standard_error:.2f}"


def _spread(played: Episodes) -> str:
    return f"{played.standard_deviation:.1f}"


def _verdict(met: bool) -> str:
    return "ok" if met else "MISSED"


def _milliseconds(call: Callable[[], object]) -> float:
    """Of the processor: others that are busy do not count."""
    begun = time.process_time()
    call()
    return 1e3 * (time.process_time() - begun)


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(line[i]) for line in (header, *rows)) for i in range(len(header))]
    print(title)
    for line in (header, ["-" * width for width in widths], *rows):
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


if __name__ == "__main__":
    main()
