"""EM against its rival and against the truth.

First table: `learn_em` and hmmlearn on one action, from the same start and for the same number of iterations:
the likelihoods must agree and ours must be at least ten times faster per iteration. hmmlearn is measured with
both of its implementations; "log" is its default, "scaling" the faster one.

Second table: nanoseconds per step of one forward-backward pass (`expected_counts`) by number of states, on dense
random models and on rooms, beside hmmlearn's "scaling" implementation of the same on one action, and beside one read of
as many numbers as all forward messages have.

Third table: how often EM reaches the likelihood of the model that made the log, with the best of several
starts and with a single one, at ten thousand steps.

    python benchmarks/em.py --steps 1000000 --seeds 5
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import numpy as np

from unlatch import POMDP, Trajectory, domains, learn_em, simulate
from unlatch.core.pomdp import Emission
from unlatch.learn.likelihood.forward_backward import expected_counts
from unlatch.learn.likelihood.parameters import EncodedLog, Parameters, encoded_log, parameters_of
from unlatch.learn.likelihood.split_merge import doubled_states

TABLES = ("rival", "passes", "truth")
PASS_STATES = (4, 8, 16, 48, 100)
PASS_SYMBOLS = 6
PASS_ROOMS = ((6, 8), (10, 10), (14, 14))
STICKINESS = 0.9  # of the bit that tells twins apart

DOMAINS: dict[str, Callable[[], POMDP]] = {
    "Tiger": domains.tiger,
    "T-Maze": domains.tmaze,
    "Sense-Float-Reset 3": domains.sense_float_reset,
    "directional hallway": domains.directional_hallway,
}


def main() -> None:
    options = parsed()
    if "rival" in options.tables:
        compare_with_hmmlearn(options.steps, options.states, options.symbols, options.iterations)
    if "passes" in options.tables:
        time_passes(options.pass_steps)
    if "truth" in options.tables:
        compare_with_truth(options.log_steps, options.starts, options.seeds)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="EM against hmmlearn and against the truth.")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES)
    parser.add_argument("--steps", type=int, default=1_000_000, help="log length beside hmmlearn")
    parser.add_argument("--states", type=int, default=4, help="hidden states beside hmmlearn")
    parser.add_argument("--symbols", type=int, default=6, help="observations beside hmmlearn")
    parser.add_argument("--iterations", type=int, default=10, help="EM iterations beside hmmlearn")
    parser.add_argument("--pass-steps", type=int, default=100_000, help="log length of the table of passes")
    parser.add_argument("--log-steps", type=int, default=10_000, help="log length of the last table")
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


def time_passes(steps: int) -> None:
    print(f"\none forward-backward pass over {steps} steps, nanoseconds per step")
    print(
        f"{'':22} {'states':>6} {'entries':>8} {'ours':>8} {'one thread':>10} {'CPU':>8} {'one read':>8} {'ratio':>7} "
        f"{'hmmlearn':>9} {'ratio':>7}"
    )
    for states in PASS_STATES:
        model = random_hmm(states, PASS_SYMBOLS, np.random.default_rng(states))
        log = simulate(model, steps, rng=0)
        print(pass_row("dense", parameters_of(model), encoded_log(log, model), model.emission, (log, model)))
    for rows, columns in PASS_ROOMS:
        room = domains.random_room(rows, columns, rng=0)
        log = encoded_log(simulate(room, steps, rng=0), room)
        truth = parameters_of(room)
        twins = doubled_states(truth, STICKINESS, np.random.default_rng(0))
        print(pass_row(f"room {rows}x{columns}", truth, log, room.emission))
        print(pass_row(f"room {rows}x{columns}, doubled", twins, log, room.emission))


def pass_row(
    name: str,
    parameters: Parameters,
    log: EncodedLog,
    emission: Emission,
    for_hmmlearn: tuple[Trajectory, POMDP] | None = None,
) -> str:
    """One line. hmmlearn knows a single action, and can be asked about dense models only."""
    nanoseconds = 1e9 / len(log)
    messages = np.ones((len(log), parameters.n_states))
    wall, _ = quickest(lambda: expected_counts(parameters, log, emission=emission))
    alone, processor = quickest(lambda: expected_counts(parameters, log, emission=emission, threads=1))
    read, _ = quickest(messages.sum)
    entries = np.count_nonzero(parameters.transitions)
    line = (
        f"{name:22} {parameters.n_states:6} {entries:8} {wall * nanoseconds:8.1f} {alone * nanoseconds:10.1f} "
        f"{processor * nanoseconds:8.1f} {read * nanoseconds:8.2f} {processor / read:7.1f}"
    )
    if for_hmmlearn is None:
        return line
    _, _, theirs = measured(lambda n: hmmlearns(*for_hmmlearn, n, "scaling"), iterations=3)
    return f"{line} {theirs * nanoseconds:9.1f} {theirs / processor:7.1f}"


def quickest(run: Callable[[], object], repeats: int = 7) -> tuple[float, float]:
    """Wall and processor seconds of the quickest of some runs, after one that compiles and warms up."""
    run()
    spent = []
    for _ in range(repeats):
        begun = clocks()
        run()
        spent.append(np.subtract(clocks(), begun))
    wall, processor = np.min(spent, axis=0)
    return float(wall), float(processor)


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
