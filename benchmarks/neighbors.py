"""Other learners on the same logs: unlatch, CSCG and hmmlearn; bits of a held-out log, states, processor time.

    python benchmarks/neighbors.py --cscg FOLDER            everything, some minutes
    python benchmarks/neighbors.py tiger tmaze              without CSCG

What each is given, and told:

- unlatch: the log. Nothing else.
- CSCG: the log and, for every observation, twice as many clones as the system has states, at most 24, which is more
  than any color of the rooms has cells; three seeds. As EM leaves it, and after the Viterbi training that its authors
  use in worlds without noise. Its code is not shipped: ``--cscg`` names `chmm_actions.py` of
  github.com/vicariousinc/naturecomm_cscg, or its folder.
- hmmlearn: it has no actions. It gets the pairs of action and observation as symbols, and as many states as there are
  pairs of a hidden state and a next action, which is what such a hidden Markov model needs; three random starts, of
  which the likeliest counts. What it says about an observation is conditioned on the action that was taken.
  ``pip install hmmlearn``.

Bits are those that the observations of a new log cost beyond what they cost with the true model, a step. Results are in
docs/results.md.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import cscg_code
import unlatch
from unlatch import POMDP, Trajectory, domains
from unlatch.study.held_out import chances_of_what_was_seen

SYSTEMS = {
    "tiger": (domains.tiger(), 10_000),
    "tmaze": (domains.tmaze(), 10_000),
    "3x4": (domains.random_room(3, 4, rng=1), 20_000),
    "6x8": (domains.random_room(6, 8, rng=1), 50_000),
}
"""Systems, and how long their logs are."""

SEEDS = 3
MOST_CLONES = 24
MOST_HMM_STATES = 60
"""Beyond which an iteration of hmmlearn takes seconds, and there are hundreds of them."""

HMM_ITERATIONS = 300
SMALL = 1e-6
"""Mixed into the probabilities of hmmlearn, whose zeros would make some of a new log impossible."""


class Line(NamedTuple):
    learner: str
    told: str
    states: str
    bits: float
    cpu: float


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("systems", nargs="*", help=f"any of {', '.join(SYSTEMS)}; all by default")
    parser.add_argument("--cscg", type=Path, help="CSCG's file or its folder")
    parser.add_argument("--cscg-seconds", type=float, default=600.0, help="most CPU seconds for its EM")
    parser.add_argument("--steps", type=int, help="steps of every log instead of the system's own")
    arguments = parser.parse_args()
    if unknown := set(arguments.systems) - set(SYSTEMS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(SYSTEMS)}")
    if arguments.cscg is not None and not arguments.cscg.exists():
        parser.error(f"--cscg: {arguments.cscg} does not exist")
    print("| system | learner | told | states | bits a step above the truth | CPU s |")
    print("|---|---|---|---|---|---|")
    for name in arguments.systems or SYSTEMS:
        truth, steps = SYSTEMS[name]
        steps = arguments.steps or steps
        log, held_out = unlatch.simulate(truth, steps, rng=1), unlatch.simulate(truth, steps, rng=2)
        for line in _lines(truth, log, held_out, arguments):
            print(
                f"| {name}, {truth.n_states} states, {steps:,} steps | {line.learner} | {line.told} | {line.states} | "
                f"{line.bits:.4f} | {line.cpu:.1f} |",
                flush=True,
            )


def _lines(
    truth: POMDP, log: Trajectory, held_out: Trajectory, arguments: argparse.Namespace
) -> Iterator[Line]:
    yield ours(truth, log, held_out)
    if arguments.cscg is None:
        print("CSCG is not compared with: name its file by --cscg")
    else:
        for seed in range(SEEDS):
            yield from cscgs(truth, log, held_out, seed, arguments)
    try:
        import hmmlearn  # noqa: F401
    except ImportError:
        print("hmmlearn is not installed: pip install hmmlearn to compare with it")
        return
    if truth.n_states * truth.n_actions <= MOST_HMM_STATES:
        yield hmmlearns(truth, log, held_out)


def ours(truth: POMDP, log: Trajectory, held_out: Trajectory) -> Line:
    unlatch.learn_pomdp(log.head(1_000), rng=0)  # compiles
    begun = time.process_time()
    result = unlatch.learn_pomdp(log, rng=0)
    cpu = time.process_time() - begun
    bits = -np.log2(chances_of_what_was_seen(result.pomdp, held_out))
    return Line("unlatch", "the log", f"{result.states}, found", _above(bits, truth, held_out), cpu)


def cscgs(
    truth: POMDP, log: Trajectory, held_out: Trajectory, seed: int, arguments: argparse.Namespace
) -> Iterator[Line]:
    code = cscg_code.loaded(arguments.cscg)
    clones = np.full(truth.n_observations, min(2 * truth.n_states, MOST_CLONES), dtype=np.int64)
    told = f"{clones.sum()} clones, seed {seed}"
    with contextlib.redirect_stdout(io.StringIO()):
        first, _, _ = cscg_code.trained(code, clones, log.head(100), seed, rounds=1)
        cscg_code.hardened(first, log.head(100))  # compiles
        begun = time.process_time()
        model, rounds, cut = cscg_code.trained(code, clones, log, seed, most_seconds=arguments.cscg_seconds)
        cpu = time.process_time() - begun
        after_em = _cscg_line(
            model, f"{told}; {rounds} rounds of EM{' (cut)' * cut}", truth, log, held_out, cpu
        )
        begun = time.process_time()
        model = cscg_code.hardened(model, log)
        cpu += time.process_time() - begun
        after_all = _cscg_line(model, f"{told}; then Viterbi", truth, log, held_out, cpu)
    yield after_em
    yield after_all


def _cscg_line(
    model: Any, told: str, truth: POMDP, log: Trajectory, held_out: Trajectory, cpu: float
) -> Line:
    used = cscg_code.states_used(model, log)
    bits, impossible = cscg_code.bits(model, held_out)
    note = ", some steps impossible" if impossible else ""
    return Line("CSCG", told, f"{used} used{note}", _above(bits, truth, held_out), cpu)


def hmmlearns(truth: POMDP, log: Trajectory, held_out: Trajectory) -> Line:
    from hmmlearn.hmm import CategoricalHMM

    states = truth.n_states * truth.n_actions
    symbols = truth.n_actions * truth.n_observations
    pairs = (log.actions.astype(np.int64) * truth.n_observations + log.observations)[:, None]
    found: list[Any] = []
    begun = time.process_time()
    for seed in range(SEEDS):
        model = CategoricalHMM(
            states, n_iter=HMM_ITERATIONS, random_state=seed, implementation="scaling", n_features=symbols
        )
        found.append(model.fit(pairs))
    cpu = time.process_time() - begun
    best = max(found, key=lambda model: model.monitor_.history[-1])
    return Line(
        "hmmlearn",
        f"{states} states",
        str(states),
        _above(_pair_bits(best, truth, held_out), truth, held_out),
        cpu,
    )


def _pair_bits(model: Any, truth: POMDP, log: Trajectory) -> np.ndarray:
    """Bits of every observation, given the action taken and all that came before."""
    shape = (model.n_components, truth.n_actions, truth.n_observations)
    emission = (1 - SMALL) * model.emissionprob_.reshape(shape) + SMALL / (shape[1] * shape[2])
    moves = (1 - SMALL) * model.transmat_ + SMALL / len(model.transmat_)
    belief = np.full(shape[0], 1 / shape[0])
    bits = np.empty(len(log))
    for step, (action, seen) in enumerate(zip(log.actions.tolist(), log.observations.tolist(), strict=True)):
        acted = belief * emission[:, action].sum(axis=1)
        belief = belief * emission[:, action, seen]
        bits[step] = np.log2(acted.sum() / belief.sum())
        belief = (belief / belief.sum()) @ moves
    return bits


def _above(bits: np.ndarray, truth: POMDP, held_out: Trajectory) -> float:
    """Beyond the bits of the true model; the first step, about which CSCG says nothing, is not counted."""
    least = -np.log2(chances_of_what_was_seen(truth, held_out))
    return float(np.mean(bits[1:] - least[1:]))


if __name__ == "__main__":
    main()
