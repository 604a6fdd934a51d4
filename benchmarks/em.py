"""EM against its rival and against the truth.

First table: `learn_em` and hmmlearn on one action, from the same start and for the same number of iterations:
the likelihoods must agree and ours must be at least ten times faster per iteration. hmmlearn is measured with
both of its implementations; "log" is its default, "scaling" the faster one.

With ``--tables passes``: what a pass costs per step and state, with 4 to 100 states, dense and sparse, beside hmmlearn
and beside one read of as much memory as the beliefs of all steps take.

Second table: how often EM reaches the likelihood of the model that made the log, with the best of several
starts and with a single one, at ten thousand steps.

    python benchmarks/em.py --steps 1000000 --seeds 5
    python benchmarks/em.py --tables passes
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable, Sequence

import numpy as np

from unlatch import POMDP, Trajectory, domains, learn_em, simulate

DOMAINS: dict[str, Callable[[], POMDP]] = {
    "Tiger": domains.tiger,
    "T-Maze": domains.tmaze,
    "Sense-Float-Reset 3": domains.sense_float_reset,
    "directional hallway": domains.directional_hallway,
}


SIZES = (4, 8, 16, 48, 100)
STEPS_TIMES_STATES = 4_000_000
"""Shorter logs for more states, so that every row of the table takes about as much memory."""

SUCCESSORS = 4
"""Of a state of a sparse model, which shows one symbol: a room with four ways out of every cell."""


def main() -> None:
    options = parsed()
    if "passes" in options.tables:
        measure_passes(options.sizes, options.symbols, options.iterations)
    if "rival" in options.tables:
        compare_with_hmmlearn(options.steps, options.states, options.symbols, options.iterations)
    if "truth" in options.tables:
        compare_with_truth(options.log_steps, options.starts, options.seeds)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="EM against hmmlearn and against the truth.")
    parser.add_argument(
        "--tables", nargs="+", choices=("rival", "truth", "passes"), default=("rival", "truth")
    )
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, help="states of the table of passes")
    parser.add_argument("--steps", type=int, default=1_000_000, help="log length beside hmmlearn")
    parser.add_argument("--states", type=int, default=4, help="hidden states beside hmmlearn")
    parser.add_argument("--symbols", type=int, default=6, help="observations beside hmmlearn")
    parser.add_argument("--iterations", type=int, default=10, help="EM iterations beside hmmlearn")
    parser.add_argument("--log-steps", type=int, default=10_000, help="log length of the second table")
    parser.add_argument("--starts", type=int, default=12)
    parser.add_argument("--seeds", type=int, default=5, help="logs per domain")
    return parser.parse_args()


def compare_with_hmmlearn(steps: int, states: int, symbols: int, iterations: int) -> None:
    rng = np.random.default_rng(0)
    truth, start = (random_hmm(states, symbols, rng) for _ in range(2))
    log = simulate(truth, steps, rng=0)
    learn_em(log.head(100), states, initial_model=start, iterations=1, force=True)  # compile
    runs: dict[str, Callable[[int], float]] = {
        "unlatch": lambda n: ours(log, start, n),
        "unlatch, one thread": lambda n: ours(log, start, n, threads=1),
        "hmmlearn, scaling": lambda n: hmmlearns(log, start, n, "scaling"),
        "hmmlearn, log (its default)": lambda n: hmmlearns(log, start, n, "log"),
    }
    print(
        f"one action, {steps} steps, {states} states, {symbols} symbols, {iterations} iterations, same start"
    )
    print(
        f"{'':28} {'log-likelihood':>18} {'difference':>11} {'s/iteration':>12} {'ratio':>6} {'CPU s':>8} "
        f"{'ratio':>6}"
    )
    reference = None
    for name, run in runs.items():
        likelihood, wall, processor = measured(run, iterations)
        reference = reference or (likelihood, wall, processor)
        difference = abs(likelihood - reference[0]) / abs(reference[0])
        print(
            f"{name:28} {likelihood:18.7f} {difference:11.1e} {wall:12.4f} {wall / reference[1]:6.1f} "
            f"{processor:8.4f} {processor / reference[2]:6.1f}"
        )


def measure_passes(sizes: Sequence[int], symbols: int, iterations: int) -> None:
    """Nanoseconds of the processor per step and state of one pass forth and back."""
    importlib.import_module("hmmlearn.hmm")  # not to be timed
    rng = np.random.default_rng(0)
    print("nanoseconds of the processor per step and state; one thread, one action, same start")
    print(
        f"{'states':>6} {'rows':8} {'steps':>9} {'unlatch':>9} {'hmmlearn':>9} {'ratio':>6} {'one read':>9} "
        f"{'passes/s':>9}"
    )
    for states in sizes:
        steps = STEPS_TIMES_STATES // states
        for kind, make in (("dense", random_hmm), ("sparse", sparse_hmm)):
            truth = make(states, symbols, rng)
            start = jittered(truth, rng)
            log = simulate(truth, steps, rng=0)
            ours(log, start, 1, threads=1)  # compiles
            own = measured(lambda n, log=log, start=start: ours(log, start, n, threads=1), iterations)[2]
            theirs = measured(lambda n, log=log, start=start: hmmlearns(log, start, n, "scaling"), 3)[2]
            scale = 1e9 / (steps * states)
            print(
                f"{states:6} {kind:8} {steps:9} {own * scale:9.2f} {theirs * scale:9.2f} {theirs / own:6.1f} "
                f"{one_read(steps * states) * scale:9.3f} {1 / own:9.1f}",
                flush=True,
            )


def one_read(numbers: int, repeats: int = 5) -> float:
    """Seconds of the processor to add up so many numbers in memory."""
    memory = np.ones(numbers)
    spent = []
    for _ in range(repeats):
        begun = time.process_time()
        memory.sum()
        spent.append(time.process_time() - begun)
    return min(spent)


def measured(run: Callable[[int], float], iterations: int, repeats: int = 3) -> tuple[float, float, float]:
    """The likelihood after all iterations; seconds per iteration, and seconds of processor time.

    Only what the later iterations add is counted, and the quickest of some repeats, for every method alike:
    whatever else the machine does only adds. Processor time is the fairer of the two on a busy machine.
    """
    spent = []
    for _ in range(repeats):
        times = [clocks()]
        for n in (1, iterations):
            likelihood = run(n)
            times.append(clocks())
        spent.append(np.diff(times, axis=0))
    short, long = np.min(spent, axis=0)
    wall, processor = (long - short) / (iterations - 1)
    return likelihood, wall, processor


def clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def ours(log: Trajectory, start: POMDP, iterations: int, threads: int | None = None) -> float:
    """Likelihood of the model that the last but one iteration made: the one that hmmlearn reports."""
    result = learn_em(
        log, start.n_states, initial_model=start, iterations=iterations, tolerance=0, threads=threads, rng=0
    )
    return float(result.log_likelihoods[-2])


def hmmlearns(log: Trajectory, start: POMDP, iterations: int, implementation: str) -> float:
    from hmmlearn.hmm import CategoricalHMM

    model = CategoricalHMM(
        start.n_states,
        n_iter=iterations,
        tol=-np.inf,
        init_params="",
        implementation=implementation,
        n_features=start.n_observations,
    )
    model.startprob_ = start.initial.copy()
    model.transmat_ = start.transitions[0].copy()
    model.emissionprob_ = start.observations[0].copy()
    model.fit(log.observations[:, None])
    return float(model.monitor_.history[-1])


def random_hmm(states: int, symbols: int, rng: np.random.Generator) -> POMDP:
    return POMDP(
        transitions=rng.dirichlet(np.ones(states), (1, states)),
        observations=rng.dirichlet(np.ones(symbols), (1, states)),
        initial=rng.dirichlet(np.ones(states)),
    )


def sparse_hmm(states: int, symbols: int, rng: np.random.Generator) -> POMDP:
    """Every state leads to a few, one of them the next in a round, so that all are reached; and shows one symbol."""
    transitions = np.zeros((1, states, states))
    for state in range(states):
        others = rng.choice(states - 1, size=min(SUCCESSORS, states) - 1, replace=False)
        reached = (state + 1 + np.append(others + 1, 0)) % states
        transitions[0, state, reached] = rng.dirichlet(np.ones(len(reached)))
    return POMDP(
        transitions=transitions,
        observations=np.eye(symbols)[None, np.arange(states) % symbols],
        initial=np.full(states, 1 / states),
    )


def jittered(model: POMDP, rng: np.random.Generator) -> POMDP:
    """Other numbers with the same zeros: a start from which the log is possible."""
    transitions, observations = (
        rows * rng.uniform(0.5, 1.5, rows.shape) for rows in (model.transitions, model.observations)
    )
    return POMDP(
        transitions=transitions / transitions.sum(axis=2, keepdims=True),
        observations=observations / observations.sum(axis=2, keepdims=True),
        initial=model.initial,
    )


def compare_with_truth(steps: int, starts: int, seeds: int) -> None:
    print(f"\n{steps} steps, {seeds} logs a domain, best of {starts} starts; gaps in nats above the truth")
    print(
        f"{'':22} {'best >= truth':>14} {'smallest gap':>13} {'largest gap':>12} {'one start fails':>16} {'s':>6}"
    )
    for name, make in DOMAINS.items():
        truth = make()
        begun = time.perf_counter()
        gaps = np.array([start_gaps(truth, steps, starts, seed) for seed in range(seeds)])
        seconds = (time.perf_counter() - begun) / seeds
        best = gaps.max(axis=1)
        print(row(name, best, gaps, seconds))


def row(name: str, best: Sequence[float] | np.ndarray, gaps: np.ndarray, seconds: float) -> str:
    reached = f"{int(np.sum(np.asarray(best) >= 0))}/{len(best)}"
    return (
        f"{name:22} {reached:>14} {np.min(best):13.2f} {np.max(best):12.2f} {np.mean(gaps < 0):16.2f} "
        f"{seconds:6.1f}"
    )


def start_gaps(truth: POMDP, steps: int, starts: int, seed: int) -> np.ndarray:
    """Nats above the truth's likelihood (negative: below) where every start ended."""
    log = simulate(truth, steps, rng=seed)
    result = learn_em(log, truth.n_states, starts=starts, rng=seed)
    return result.start_log_likelihoods - truth.log_likelihood(log)


if __name__ == "__main__":
    main()
