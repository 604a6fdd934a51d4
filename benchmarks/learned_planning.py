"""Planning with learned models against planning with the truth.

    python benchmarks/learned_planning.py [rewards] [goals] [--episodes 1000] [--logs 5]

``rewards``: Tiger, T-Maze and Sense-Float-Reset 3 learned from 1e5 steps, rewards learned as observations. The
truth, the explicit POMDP, the estimate that is certain up to cells and the PSR go into one planner; returns over ten
steps in the true system.

``goals``: the paper's Fig. 6. Both hallways, goal named after learning: reward on the middle state, or on the
observations seen there. Judged by the time spent in the true middle state.
"""

from __future__ import annotations

import argparse

import numpy as np

import unlatch
from unlatch import POUCT, Reward, domains, run_episodes

REWARDED = {
    "tiger": domains.tiger(),
    "tmaze": domains.tmaze(),
    "sense-float-reset-3": domains.sense_float_reset(3),
}
HALLWAYS = {"directional-hallway": domains.directional_hallway(), "noisy-hallway": domains.noisy_hallway()}
AHEAD = {("left", "end-left"): 1.0, ("right", "end-right"): 1.0}
EITHER = {**AHEAD, ("left", "end-right"): 1.0, ("right", "end-left"): 1.0}


def returns(
    truth: unlatch.POMDP, model: object, reward: Reward, judge: Reward | None, episodes: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return of every episode and share of time in every true state, planner with its default settings."""
    planner = POUCT(model, reward, on_collapse="reset", rng=seed)  # type: ignore[arg-type]
    played = run_episodes(truth, planner, episodes=episodes, steps=10, reward=judge, rng=seed + 1)
    return played.rewards, played.share_of_time


def rewards(arguments: argparse.Namespace) -> None:
    for name, truth in REWARDED.items():
        scores: dict[str, list[np.ndarray]] = {}
        for seed in range(arguments.logs):
            log = unlatch.simulate(truth, 100_000, rng=np.random.default_rng([seed, 7]))
            result = unlatch.learn_pomdp(log, refine=None, rng=seed)
            models = {
                "truth": truth,
                "learned POMDP": result.pomdp,
                "learned up to cells": result.spectral.partition_model,
                "learned PSR": result.spectral.psr,
            }
            if arguments.refine:
                models["refined POMDP"] = unlatch.learn_pomdp(log, rng=seed).pomdp
            for label, model in models.items():
                each = arguments.episodes // arguments.logs
                got, _ = returns(truth, model, Reward.learned(model), None, each, 100 * seed)
                scores.setdefault(label, []).append(got)
        print(
            f"{name}: return over 10 steps, {arguments.logs} logs of 1e5 steps, {arguments.episodes} episodes"
        )
        base = np.concatenate(scores["truth"])
        for label, parts in scores.items():
            _print_row(label, np.concatenate(parts), base)


def _print_row(label: str, values: np.ndarray, base: np.ndarray) -> None:
    error = values.std(ddof=1) / np.sqrt(len(values))
    both = np.hypot(error, base.std(ddof=1) / np.sqrt(len(base)))
    verdict = (
        ""
        if values is base
        else f"   {(values.mean() - base.mean()) / both:+.1f} standard errors from the truth's"
    )
    print(f"    {label:20s} {values.mean():7.3f} ± {error:.3f}{verdict}", flush=True)


def goals(arguments: argparse.Namespace) -> None:
    judge = Reward.on_states({"middle": 1.0})
    for name, truth in HALLWAYS.items():
        log = unlatch.simulate(truth, arguments.steps, rng=np.random.default_rng([arguments.seed, 8]))
        refined = unlatch.learn_pomdp(log, rng=arguments.seed)
        spectral = unlatch.learn_pomdp(log, rank=3, refine=None, rng=arguments.seed)
        print(
            f"{name}: goal named after learning from {arguments.steps:.0e} steps ({refined.evidence}); return = steps "
            "that left the middle state"
        )
        observed = Reward.on_observations(AHEAD if name.startswith("directional") else EITHER)
        for label, model in (("truth", truth), ("learned", refined.pomdp), ("spectral", spectral.pomdp)):
            try:
                chosen = _middle(name, model)
                for strategy, reward in (
                    ("state", Reward.on_states(dict.fromkeys(chosen, 1.0))),
                    ("observation", observed),
                ):
                    _print_goal(truth, label, strategy, model, reward, judge, arguments)
            except unlatch.errors.UnlatchError as error:
                print(f"    {label:10s} {type(error).__name__}: {error}")
        _print_goal(truth, "PSR", "observation", spectral.psr, observed, judge, arguments)


def _middle(name: str, model: unlatch.POMDP) -> tuple[int, ...]:
    """The middle state by the rule that a person would say."""
    if name.startswith("directional"):
        found = unlatch.states_where(model, "argmax", {"left": "end-left", "right": "end-right"})
        if not found:
            raise unlatch.errors.UsageError("no state shows end-left under left and end-right under right")
        return tuple(found)
    return (unlatch.most_ambiguous_state(model),)


def _print_goal(
    truth: unlatch.POMDP,
    label: str,
    strategy: str,
    model: object,
    reward: Reward,
    judge: Reward,
    arguments: argparse.Namespace,
) -> None:
    values, shares = returns(truth, model, reward, judge, arguments.episodes, arguments.seed)
    middle = shares[truth.state_names.index("middle")]
    error = values.std(ddof=1) / np.sqrt(len(values))
    print(
        f"    {label:10s} {strategy:12s} {values.mean():6.3f} ± {error:.3f}   share of time in the middle {middle:.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="rewards|goals", help="both by default")
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--logs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=1_000_000, help="log length for the hallways")
    parser.add_argument("--refine", action="store_true", help="also the refined model in `rewards`")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for name, part in (("rewards", rewards), ("goals", goals)):
        if not arguments.parts or name in arguments.parts:
            part(arguments)


if __name__ == "__main__":
    main()
