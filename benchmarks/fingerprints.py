"""Whether a change of the code changed a result: a fingerprint of everything that six logs lead to.

A commit that only moves code must print the same lines before and after:

    python benchmarks/fingerprints.py > before.txt
    ...
    python benchmarks/fingerprints.py | diff before.txt -

The bits depend on the machine and on the versions of NumPy, SciPy and numba, so nothing is recorded here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import unlatch
from unlatch import POMDP, Trajectory, domains, simulate


def fingerprint(pomdp: POMDP) -> str:
    """Of all parameters, to the last bit."""
    parts = (pomdp.initial, pomdp.transitions, pomdp.observations)
    return hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest()[:16]


def random_arrival_model() -> POMDP:
    rng = np.random.default_rng(11)
    return POMDP(
        transitions=rng.dirichlet(np.full(3, 0.5), (2, 3)),
        observations=rng.dirichlet(np.full(4, 0.3), (2, 3)),
        initial=np.full(3, 1 / 3),
        emission="arrival",
    )


def logs() -> dict[str, tuple[Trajectory, str]]:
    """Six logs, each with the emission that it is learned with."""
    return {
        "tiger": (simulate(domains.tiger(), 20_000, rng=1), "departure"),
        "tmaze": (simulate(domains.tmaze(), 20_000, rng=2), "departure"),
        "sense-float-reset": (simulate(domains.sense_float_reset(3), 10_000, rng=3), "departure"),
        "directional-hallway": (simulate(domains.directional_hallway(), 20_000, rng=4), "departure"),
        "episodes": (simulate(domains.tiger(), 40, episodes=300, rng=5), "departure"),
        "arrival": (simulate(random_arrival_model(), 20_000, rng=6), "arrival"),
    }


def main() -> None:
    for name, (log, emission) in logs().items():
        learners: dict[str, Callable[[], Any]] = {
            "learned": partial(unlatch.learn_pomdp, log, emission=emission, rng=0),
            "spectral": partial(unlatch.learn_pomdp, log, emission=emission, refine=None, rng=0),
            "em": partial(unlatch.learn_em, log, 3, emission=emission, iterations=20, rng=0),
            "tensor": partial(unlatch.learn_tensor, log, emission=emission, rng=0),
        }
        listing = "  ".join(f"{kind} {outcome(learner)}" for kind, learner in learners.items())
        print(f"{name:20} {listing}", flush=True)


def outcome(learner: Callable[[], Any]) -> str:
    """The fingerprint of what is learned, or that it is refused."""
    try:
        return fingerprint(learner().pomdp)
    except unlatch.errors.NotLearnableError:
        return "refused"


if __name__ == "__main__":
    main()
