"""Whether what is said to be identified is: from the truth, against planted rivals, against searches, from logs.

    python benchmarks/identifiability.py exact                          # lists that must be identified, or not; seconds
    python benchmarks/identifiability.py planted [--models 300]         # a second model with the same process exists
    python benchmarks/identifiability.py restarts [--models 300] [--restarts 1000] --out out/identifiability
    python benchmarks/identifiability.py learned [--logs 5] [--steps 100000] [--given] [--domains ...] --out DIR

``restarts`` looks for a second model near identified ones: from random changes of basis, Levenberg's method drives
misses of the form and negative probabilities to zero (`second_models.py`). What it finds is sorted: the model itself,
states renamed or not; another one near (no weight moved by 0.5); another one far away. That it finds what there is to
find is shown on planted ones. ``learned`` compares the verdict of ``result.identified`` with that of the truth. Both
append a line of JSON for every model or log to a file in the folder, and go on from there when started again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

import unlatch
from second_models import descended
from unlatch import POMDP, domains, identify

EMISSIONS = ("departure", "arrival")

CONTROLS = 30
"""Models with a planted second one that the search has to find."""


# --- models ---------------------------------------------------------------------------------------------------


def dense(rng: np.random.Generator, states: int, emission: str, *, actions: int = 2, shown: int = 3) -> POMDP:
    """No zero anywhere."""
    return POMDP(
        rng.dirichlet(np.ones(states), (actions, states)),
        rng.dirichlet(np.ones(shown), (actions, states)),
        rng.dirichlet(np.ones(states)),
        emission,
    )


def aliased(rng: np.random.Generator, states: int, emission: str, **options: int) -> POMDP:
    """Two states that show the same under every action."""
    model = dense(rng, states, emission, **options)
    rows = model.observations.copy()
    one, other = rng.choice(states, 2, replace=False)
    rows[:, one] = rows[:, other]
    return replace(model, observations=rows)


def singular(rng: np.random.Generator, states: int, emission: str) -> POMDP:
    """Every transition matrix has rank states - 1."""
    moves = rng.dirichlet(np.ones(states - 1), (2, states)) @ rng.dirichlet(np.ones(states), (2, states - 1))
    model = dense(rng, states, emission)
    return replace(model, transitions=moves / moves.sum(axis=2, keepdims=True))


def thinned(rng: np.random.Generator, model: POMDP, share: float) -> POMDP:
    """The model with some of its probabilities zero."""

    def without(rows: np.ndarray) -> np.ndarray:
        kept = rows * (rng.random(rows.shape) > share)
        kept += 1e-9 * (kept.sum(axis=-1, keepdims=True) == 0) * (rows == rows.max(axis=-1, keepdims=True))
        return kept / kept.sum(axis=-1, keepdims=True)

    rows = without(model.observations)
    for a, s, t in np.argwhere(
        (np.abs(model.observations[:, :, None] - model.observations[:, None]) < 1e-12).all(axis=3)
    ):
        rows[a, max(s, t)] = rows[a, min(s, t)]  # what was alike stays alike
    return replace(model, transitions=without(model.transitions), observations=rows)


LARGE = {
    "tmaze 14": lambda: domains.tmaze(6),
    "tmaze 40": lambda: domains.tmaze(19),
    "room 40": lambda: domains.random_room(5, 8, 4, rng=0),
    "random 14": lambda: dense(np.random.default_rng(0), 14, "departure", actions=3, shown=5),
    "random 40": lambda: dense(np.random.default_rng(0), 40, "arrival", actions=3, shown=6),
}

PAPER: dict[str, Callable[[], POMDP]] = {
    "tiger": domains.tiger,
    **{f"tmaze {2 * k + 2}": (lambda k=k: domains.tmaze(k)) for k in (1, 2, 3, 6)},
    "tmaze 8 fail .1": lambda: domains.tmaze(3, 0.1),
    "sense-float-reset 3": lambda: domains.sense_float_reset(3),
    "sense-float-reset 3, no reward": lambda: domains.sense_float_reset(3, reward=False),
    **{f"sense-float-reset {n}": (lambda n=n: domains.sense_float_reset(n)) for n in (4, 5, 6, 8)},
    "directional hallway": domains.directional_hallway,
    "noisy hallway": domains.noisy_hallway,
}


# --- exact ------------------------------------------------------------------------------------------------------


def exact() -> None:
    """Lists that must be identified, and that must not be."""
    print("must be identified")
    for name, build in {**PAPER, **LARGE}.items():
        model = build()
        begun = time.perf_counter()
        found = identify(model, ranges=False)
        scope = "everywhere" if found.everywhere else "locally" if found.identified else "NO"
        took = time.perf_counter() - begun
        print(f"  {name:32} {model.n_states:3} states  {scope:10}  {len(found.zeros):4} zeros  {took:6.2f} s")
    for kind in (dense, singular):
        verdicts = Counter()
        for emission in EMISSIONS:
            for seed in range(25):
                found = identify(kind(np.random.default_rng([seed, 1]), 4, emission), ranges=False)
                verdicts[
                    "everywhere" if found.everywhere else "locally" if found.identified else found.verdict
                ] += 1
        print(f"  50 random models, {kind.__name__:14} {dict(verdicts)}")
    print("must be refused")
    first, second = domains.unidentifiable_pair()
    for name, model in (("first of the pair", first), ("second of the pair", second)):
        print(f"  {name:32} {refused(model)}")
    inside = min(within(identify(first), second.reordered(order)) for order in ([0, 1, 2], [0, 2, 1]))
    print(f"  second member, renamed, outside the ranges of the first by {max(inside, 0.0):.1e}")
    verdicts, worst, widths = Counter(), 0.0, []
    begun = time.perf_counter()
    for seed in range(50):
        model = aliased(np.random.default_rng([seed, 2]), 4 + seed % 2, EMISSIONS[seed % 2])
        found = identify(model)
        verdicts[found.verdict] += 1
        if found.extremes is not None:
            worst = max(worst, *(hankel_distance(model, other) for other in found.extremes))
            widths.append(float((found.transitions[..., 1] - found.transitions[..., 0]).max()))
    print(
        f"  50 dense models with a planted alias: {dict(verdicts)}, Hankel matrices of extremes equal to {worst:.1e}, "
        f"widest range {min(widths):.2f} to {max(widths):.2f}, {(time.perf_counter() - begun) / 50:.1f} s each"
    )


def refused(model: POMDP) -> str:
    found = identify(model)
    far = max(hankel_distance(model, other) for other in found.extremes) if found.extremes else np.nan
    return f"{found.verdict}, Hankel matrices of extremes equal to {far:.1e}"


def within(found: Any, model: POMDP) -> float:
    """By how much the model leaves the ranges."""
    low, high = found.transitions[..., 0], found.transitions[..., 1]
    return float(np.maximum(low - model.transitions, model.transitions - high).max())


def hankel_distance(one: POMDP, other: POMDP) -> float:
    """Largest difference of the probability of any sequence of up to four pairs."""
    difference, rows = 0.0, [one.initial, other.initial]
    rows = [row[None] for row in rows]
    for _ in range(4):
        rows = [
            np.einsum("hs,aost->haot", row, model.updates).reshape(-1, model.n_states)
            for row, model in zip(rows, (one, other), strict=True)
        ]
        difference = max(difference, float(np.abs(rows[0].sum(axis=1) - rows[1].sum(axis=1)).max()))
    return difference


# --- planted ----------------------------------------------------------------------------------------------------


def planted(models: int) -> None:
    """Models that have a second one beside them: whatever else they are like, none may be called identified."""
    verdicts, tried, seed = Counter(), 0, 0
    while tried < models:
        seed += 1
        model = plant(np.random.default_rng([seed, 3]))
        found = None if model is None else identify(model, ranges=False)
        if (
            found is None or found.verdict == "not minimal"
        ):  # refused for a reason that is not the question here
            continue
        tried += 1
        verdicts[found.verdict] += 1
    print(f"{models} models with a planted second realization near: {dict(verdicts)}")
    print(f"called identified: {verdicts['determined']}")


def plant(rng: np.random.Generator) -> POMDP | None:
    """A model with alike states, some zeros, and a change of basis under which it stays a model all the way; None if
    this draw has none."""
    states, emission = int(rng.integers(2, 6)), EMISSIONS[int(rng.integers(2))]
    model = aliased(rng, states, emission, actions=int(rng.integers(1, 4)), shown=int(rng.integers(2, 4)))
    if rng.random() < 0.7:
        model = thinned(rng, model, float(rng.uniform(0.05, 0.5)))
    same = np.argwhere(
        np.triu(
            (np.abs(model.observations[:, :, None] - model.observations[:, None]) < 1e-12).all(axis=(0, 3)), 1
        )
    )
    if not len(same):
        return None
    i, j = same[int(rng.integers(len(same)))]
    for direction in rng.uniform(-1, 1, (40, 2)):
        if all(valid(model, i, j, t * direction) for t in (1e-4, 1e-3, 0.01, 0.03)):
            return model
    return None


def valid(model: POMDP, i: int, j: int, weights: np.ndarray) -> bool:
    """Whether the mixture of two states that show the same gives a model, and another one."""
    mixing = np.eye(model.n_states)
    x, y = weights
    mixing[i, [i, j]], mixing[j, [i, j]] = (1 - x, x), (y, 1 - y)
    back = np.linalg.inv(mixing)
    moves = mixing @ model.transitions @ back
    moved = np.abs(moves - model.transitions).max() > 1e-6
    return bool(moved and moves.min() >= 0 and (model.initial @ back).min() >= 0)


# --- restarts ---------------------------------------------------------------------------------------------------


def restarts(models: int, number: int, folder: Path) -> None:
    """Searches for a second model beside identified ones."""
    path = folder / f"restarts-{number}.jsonl"
    known = {line["seed"] for line in lines(path)}
    seed = done = 0
    while done < models:
        seed += 1
        model = identified_model(np.random.default_rng([seed, 4]))
        if model is None:
            continue
        done += 1
        if seed in known:
            continue
        begun = time.perf_counter()
        found = identify(model, ranges=False)
        outcomes = searched(model, number, np.random.default_rng([seed, 5]))
        append(
            path,
            {
                "seed": seed,
                "states": model.n_states,
                "emission": model.emission,
                "zeros": len(found.zeros),
                "everywhere": found.everywhere,
                "outcomes": outcomes,
                "seconds": time.perf_counter() - begun,
            },
        )
    report_restarts(lines(path))
    report_control(number)


def report_restarts(found: list[dict[str, Any]]) -> None:
    for scope in (True, False):
        chosen = [line for line in found if line["everywhere"] == scope]
        total = Counter()
        for line in chosen:
            total.update(line["outcomes"])
        name = "everywhere" if scope else "locally"
        zeros = sum(line["zeros"] > 0 for line in chosen)
        print(f"{len(chosen)} models identified {name}, {zeros} by their zeros: {dict(total)}")


def report_control(number: int) -> None:
    """The same search beside models that have a second one."""
    tried = found = seed = 0
    while tried < CONTROLS:
        seed += 1
        model = plant(np.random.default_rng([seed, 6]))
        if model is None or identify(model, ranges=False).verdict == "not minimal":
            continue
        tried += 1
        found += "another, near" in searched(model, number, np.random.default_rng([seed, 7]))
    print(f"control: a second model near was found beside {found} of {tried} that have one planted")


def identified_model(rng: np.random.Generator) -> POMDP | None:
    """A random model that is called identified: dense, singular, thinned; or aliased, and saved by its zeros."""
    states, emission = int(rng.integers(2, 5)), EMISSIONS[int(rng.integers(2))]
    kind = rng.choice(["dense", "singular", "thinned", "aliased"], p=[0.02, 0.02, 0.02, 0.94])
    model = aliased(rng, states, emission) if kind == "aliased" else dense(rng, states, emission)
    if kind == "singular" and states > 2:
        model = singular(rng, states, emission)
    if kind in ("thinned", "aliased"):
        model = thinned(rng, model, float(rng.uniform(0.2, 0.6)))
    return model if identify(model, ranges=False).identified else None


def searched(model: POMDP, number: int, rng: np.random.Generator) -> dict[str, int]:
    """From so many random changes of basis, half of them near; what each came to."""
    n = model.n_states
    spread = np.where(np.arange(number) % 2 == 0, 0.15, 0.6)[:, None, None]
    mixings = np.eye(n) + spread * rng.standard_normal((number, n, n))
    off = ~np.eye(n, dtype=bool)
    points, misses = descended(model, mixings[:, off])
    outcomes: Counter[str] = Counter()
    names = np.stack([np.eye(n)[list(order)] for order in permutations(range(n))])
    for mixing, miss in zip(as_mixing(points, off), misses, strict=True):
        if not miss < 1e-18:
            outcomes["no model"] += 1
            continue
        nearest = float(np.abs(mixing - names).max(axis=(1, 2)).min())
        kind = "itself" if nearest < 1e-4 else "another, near" if nearest < 0.5 else "another, far"
        outcomes[kind] += 1
    return dict(outcomes)


def as_mixing(points: np.ndarray, off: np.ndarray) -> np.ndarray:
    """Matrices whose rows sum to one, from the entries off their diagonals."""
    mixings = np.zeros((len(points), *off.shape))
    mixings[:, off] = points
    index = np.arange(len(off))
    mixings[:, index, index] = 1 - mixings.sum(axis=2)
    return mixings


# --- learned ----------------------------------------------------------------------------------------------------


def learned(logs: int, steps: int, names: list[str], folder: Path, given: bool) -> None:
    """Verdicts of learned models beside those of the truth."""
    path = folder / f"learned-{steps}{'-given' * given}.jsonl"
    known = {(line["domain"], line["seed"]) for line in lines(path)}
    systems = {**PAPER, "unidentifiable pair": lambda: domains.unidentifiable_pair()[0]}
    for seed in range(logs):
        for name in names or systems:
            if (name, seed) in known:
                continue
            truth = systems[name]()
            begun = time.perf_counter()
            known_too = {"states": truth.n_states, "emission": truth.emission} if given else {}
            result = unlatch.learn_pomdp(unlatch.simulate(truth, steps, rng=seed), rng=0, **known_too)
            took = time.perf_counter() - begun
            found = result.identified
            append(
                path,
                {
                    "domain": name,
                    "seed": seed,
                    "states": result.states,
                    "true": truth.n_states,
                    "verdict": found.verdict,
                    "identified": found.identified,
                    "truth": identify(truth, ranges=False).identified,
                    "opportunities": min(
                        (zero.opportunities for zero in found.zeros + found.doubted), default=None
                    ),
                    "learning": took,
                    "seconds": time.perf_counter() - begun - took,
                },
            )
    report_learned(lines(path))


def report_learned(found: list[dict[str, Any]]) -> None:
    print(f"{'domain':32} logs  states right  verdict right  least opportunities")
    for name in dict.fromkeys(line["domain"] for line in found):
        chosen = [line for line in found if line["domain"] == name]
        counted = sum(line["states"] == line["true"] for line in chosen)
        right = sum(line["identified"] == line["truth"] for line in chosen)
        least = min(
            (line["opportunities"] for line in chosen if line["opportunities"] is not None), default=None
        )
        print(
            f"{name:32} {len(chosen):4}  {counted:12}  {right:13}  {'' if least is None else f'{least:.0f}':>19}"
        )
    right = sum(line["identified"] == line["truth"] for line in found)
    print(f"all: {right} of {len(found)} verdicts as for the truth")


# --- files -------------------------------------------------------------------------------------------------------


def lines(path: Path) -> list[dict[str, Any]]:
    return list(_lines(path))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def append(path: Path, value: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as handle:
        handle.write(json.dumps(value) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("exact", "planted", "restarts", "learned"))
    parser.add_argument("--models", type=int, default=300)
    parser.add_argument("--restarts", type=int, default=1000)
    parser.add_argument("--logs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--domains", nargs="*", default=[])
    parser.add_argument(
        "--given", action="store_true", help="learned with the true number of states and emission"
    )
    parser.add_argument("--out", type=Path, default=Path("out/identifiability"))
    given = parser.parse_args()
    if given.what == "exact":
        exact()
    elif given.what == "planted":
        planted(given.models)
    elif given.what == "restarts":
        restarts(given.models, given.restarts, given.out)
    else:
        learned(given.logs, given.steps, given.domains, given.out, given.given)


if __name__ == "__main__":
    main()
