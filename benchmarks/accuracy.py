"""Errors of the spectral learner beside the paper's, with the paper's sizes and thresholds (its Table 1).

    python benchmarks/accuracy.py [--seeds 20] [--domains tiger tmaze ...] [--paper]

Prints the mean over seeds of ``observation_l1`` and ``three_step_transition_l1`` with its standard error, the
paper's mean (its Fig. 5, read off the published figure) and whether ours is above it by more than two
standard errors. ``rows`` is the error of the model's own observation rows under the same actions, where the less
noisy of two readings is taken. ``--paper`` uses the paper's own choices throughout: one random draw, no
refinement, its dense rotation.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

import unlatch
from unlatch import domains
from unlatch.study.paper_measures import paper_errors


@dataclass(frozen=True)
class Setting:
    """A domain with the paper's Table 1 and the points of its Fig. 5: steps, observation, transition error."""

    model: unlatch.POMDP
    rank_tolerance: float
    min_singular_value: float
    lengths: tuple[int, int]
    observation_tolerance: float
    points: tuple[tuple[int, float, float], ...]


SETTINGS = {
    "tiger": Setting(
        domains.tiger(), 0.34, 0.1, (2, 1), 0.1,
        ((10_000, 0.0376, 0.0443), (100_000, 0.00821, 0.0112), (1_000_000, 0.00267, 0.00376)),
    ),
    "tmaze": Setting(
        domains.tmaze(), 0.1, 0.01, (2, 1), 0.1,
        ((10_000, 0.197, 0.53), (100_000, 0.0932, 0.337), (1_000_000, 0.0151, 0.0799)),
    ),
    "sense-float-reset-3": Setting(
        domains.sense_float_reset(3), 0.1, 0.1, (3, 2), 0.1,
        ((10_000, 0.0145, 0.0612), (100_000, 0.00331, 0.0199), (1_000_000, 0.001, 0.00524)),
    ),
    "sense-float-reset-4": Setting(
        domains.sense_float_reset(4), 0.015, 0.1, (4, 3), 0.5,
        ((500_000, 0.00745, 0.00541), (1_000_000, 0.00506, 0.00845)),
    ),
}  # fmt: skip


def learn(setting: Setting, log: unlatch.Trajectory, seed: int, paper: bool) -> unlatch.LearnResult:
    """One run with the paper's thresholds; with ``paper``, its single draw and dense rotation too."""
    return unlatch.learn_pomdp(
        log,
        rank_tolerance=setting.rank_tolerance,
        history_length=setting.lengths[0],
        test_length=setting.lengths[1],
        min_singular_value=setting.min_singular_value,
        observation_tolerance=setting.observation_tolerance,
        draws=1 if paper else 30,
        newton=not paper,
        rotation="dense" if paper else "cells",
        scaling="none" if paper else "noise",
        refine=None,
        rng=seed,
    )


def errors(setting: Setting, steps: int, seed: int, paper: bool) -> tuple[float, float, float] | None:
    """Observation error (eigenvalues), observation error (model rows), transition error; None if it failed."""
    log = unlatch.simulate(setting.model, steps, rng=np.random.default_rng([seed, steps]))
    try:
        result = learn(setting, log, seed, paper)
    except unlatch.errors.UnlatchError as error:
        print(f"    seed {seed}: {type(error).__name__}: {error}")
        return None
    if result.states != setting.model.n_states:
        return None
    return paper_errors(result, setting.model)


def verdict(values: np.ndarray, paper: float) -> str:
    mean, error = values.mean(), values.std(ddof=1) / np.sqrt(len(values))
    mark = "ABOVE" if mean > paper + 2 * error else "ok"
    return f"{mean:.5f} ± {error:.5f}   paper {paper:.5f}   ratio {mean / paper:5.2f}   {mark}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--domains", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--paper", action="store_true", help="the paper's draw and rotation, no refinement")
    arguments = parser.parse_args()
    for name in arguments.domains:
        setting = SETTINGS[name]
        for steps, observation, transition in setting.points:
            runs = [errors(setting, steps, seed, arguments.paper) for seed in range(arguments.seeds)]
            rows = np.array([run for run in runs if run is not None])
            print(
                f"{name}, {steps} steps, {len(rows)} of {arguments.seeds} seeds with the right rank",
                flush=True,
            )
            if len(rows) > 1:
                print(f"    observation_l1            {verdict(rows[:, 0], observation)}")
                print(f"    observation_l1 (rows)     {verdict(rows[:, 1], observation)}")
                print(f"    three_step_transition_l1  {verdict(rows[:, 2], transition)}")


if __name__ == "__main__":
    main()
