"""The paper's studies as data: domains, methods, sizes and seeds, and which of them every figure and table needs.

What the paper leaves open is settled here, once, for every method alike:

- The hallways have no row in the paper's Table 1. Directional: Hankel size (2, 1); noisy: (3, 2), since length-1 tests
  see only two of its states. The number of states is given as 3: the paper's curves begin at 3e4 steps, where
  no threshold finds it in the noisy hallway (its third singular value is .020 of the first, noise is .06). An action
  is full-rank from .02 on, half of what left and right have in the limit (.046; reset has 0).
- Episodes have 10 steps, are not discounted and start from the true system's start. Learned models start from
  the stationary belief. Every seed plays 20 episodes where the paper seems to have played one: the mean is the
  same, its error smaller.
- EM gets a fixed amount of work per size, see ``EM``.
- The observation error of ``spectral`` is the paper's: that of the diagonals. For every method, ``observation_l1`` is
  over the actions that truly have full rank, so that all are measured on the same actions;
  ``observation_l1_found`` is over the actions that were found to be full-rank, which the paper may have meant.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from unlatch import __version__
from unlatch.errors import UsageError
from unlatch.study.jobs.units import Study, Unit
from unlatch.study.paper import THRESHOLDS

__all__ = [
    "DOMAINS",
    "HALLWAYS",
    "TARGETS",
    "Target",
    "build_study",
    "chosen_units",
    "code_digest",
    "targets_of",
]

PLANNING = {"episodes": 20, "steps": 10, "simulations": 1000, "depth": 3, "exploration": 2.0}
"""The paper's planner; see the module about episodes."""

EM = {
    "search_steps": 20_000,  # every start climbs on the head of the log
    "search_iterations": 300,
    "follow_work": 25_000_000,  # then the best follows the growing log: iterations x steps at every size
    "follow_iterations": [10, 100],
    "tolerance": 1e-3,  # nats
    "easy_states": 6,  # beyond, iterations shrink with the square of the number of states
}
"""How far EM climbs. The work is bounded; ``log_likelihood_gap`` of every row tells whether it was enough."""

STARTS = {"em": 1, "em-12": 12}
"""The paper's EM, and the honest one."""

DOMAINS = {
    "tiger": "tiger",
    "tmaze": "tmaze:rooms=1",
    "sense-float-reset-3": "sense-float-reset:states=3",
    "sense-float-reset-4": "sense-float-reset:states=4",
}
"""The columns of Fig. 5."""

HALLWAYS: dict[str, dict[str, Any]] = {
    "directional-hallway": {
        "lengths": [2, 1],
        "goal": {
            "name": "middle",
            "pairs": [["left", "end-left"], ["right", "end-right"]],
            "state": {"rule": "shows", "shows": {"left": "end-left", "right": "end-right"}},
        },
    },
    "noisy-hallway": {
        "lengths": [3, 2],
        "goal": {
            "name": "middle",
            "pairs": [[action, end] for action in ("left", "right") for end in ("end-left", "end-right")],
            "state": {"rule": "most ambiguous"},
        },
    },
}
"""The rows of Fig. 6, with the goals that are set after learning."""

CURVE_SIZES = (
    *range(1_000, 6_000, 1_000),
    *range(10_000, 60_000, 10_000),
    *range(100_000, 900_000, 100_000),
    1_000_000,
)
HALLWAY_SIZES = (
    *(30_000, 40_000, 50_000),
    *range(100_000, 900_000, 100_000),
    *range(1_000_000, 11_000_000, 1_000_000),
    20_000_000,
)
HALLWAY_EM_SIZES = (
    *(30_000, 50_000, 100_000, 200_000, 300_000, 500_000),
    *(1_000_000, 2_000_000, 3_000_000, 5_000_000, 10_000_000, 20_000_000),
)
"""EM skips every other size of the hallways: 2e7 steps cost a second an iteration."""

ROOMS = (1, 2, 3, 4, 5, 6)
LENGTHS = ((2, 1), (3, 2), (4, 3))
TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
TABLE_STEPS = 10_000_000
FAIL = 0.1
"""The T-Maze of Tables 2 to 5: only with up and down failing now and then do its ranks come out."""

PICTURE_STEPS = 100_000

_CODE = (
    "arrays.py",
    "linalg.py",
    "simulation.py",
    "core",
    "domains",
    "kernels",
    "learn",
    "planning",
    "compare",
)
_STUDY_CODE = ("experiments.py", "scores.py", "sensitivity.py", "task.py")


@dataclass(frozen=True)
class Target:
    """A figure or table: the study it comes from, and the kinds of units it needs."""

    study: str
    kinds: tuple[str, ...]


TARGETS = {
    "fig5": Target("curves", ("spectral", "em", "em-12", "truth", "optimum")),
    "fig6": Target("hallways", ("spectral", "em", "em-12", "truth", "optimum")),
    "fig7": Target("curves", ("spectral",)),
    "fig9": Target("curves", ("picture",)),
    "table2": Target("sensitivity", ("sensitivity", "limit")),
    "table3": Target("sensitivity", ("sensitivity",)),
    "table4": Target("sensitivity", ("sensitivity",)),
    "table5": Target("sensitivity", ("sensitivity",)),
    "table6": Target("curves", ("spectral", "em")),
}


def targets_of(name: str) -> tuple[str, ...]:
    """The targets that a name on the command line stands for."""
    if name == "all":
        return tuple(TARGETS)
    if name not in TARGETS:
        raise UsageError(f"unknown target {name!r}; known: {', '.join(TARGETS)} and all")
    return (name,)


def build_study(name: str, *, seeds: int, sizes_up_to: int | None = None) -> Study:
    """A study by name: "curves" (Figs. 5, 7, 9, Table 6), "hallways" (Fig. 6) or "sensitivity" (Tables 2-5)."""
    if seeds < 1:
        raise UsageError(f"at least one seed is needed, got {seeds}")
    largest = sizes_up_to if sizes_up_to is not None else max(*HALLWAY_SIZES, TABLE_STEPS)
    if largest < min(HALLWAY_SIZES):
        raise UsageError(
            f"sizes up to {largest} leave nothing to learn from; the least is {min(HALLWAY_SIZES)}"
        )
    units = tuple(_BUILDERS[name](seeds, largest))
    settings = {
        "seeds": seeds,
        "sizes_up_to": sizes_up_to,
        "version": __version__,
        "code": code_digest(*_STUDY_CODE),
    }
    return Study(name, units, root_seed=0, settings=settings)


def chosen_units(study: Study, target: str) -> list[Unit]:
    """The units of ``study`` that a target needs."""
    kinds = TARGETS[target].kinds
    return [unit for unit in study.units if unit.id.split(".")[0] in kinds]


# --- units -----------------------------------------------------------------------------------------------


def _curves(seeds: int, largest: int) -> Iterator[Unit]:
    sizes = _up_to(CURVE_SIZES, largest)
    for domain, system in DOMAINS.items():
        yield _optimum(_curve_parameters(domain, system, sizes, 0))
    yield _picture(_curve_parameters("tiger", DOMAINS["tiger"], _up_to((PICTURE_STEPS,), largest), 0))
    for seed in range(seeds):
        for domain, system in DOMAINS.items():
            parameters = _curve_parameters(domain, system, sizes, seed)
            yield from _learners(parameters, sizes)


def _curve_parameters(domain: str, system: str, sizes: list[int], seed: int) -> dict[str, Any]:
    thresholds = THRESHOLDS[domain]
    return {
        "domain": domain,
        "system": system,
        "seed": seed,
        "sizes": sizes,
        "lengths": [thresholds.history_length, thresholds.test_length],
        "rank": None,
        "rank_tolerance": thresholds.rank_tolerance,
        "min_singular_value": thresholds.min_singular_value,
        "observation_tolerance": thresholds.observation_tolerance,
        "goal": None,
        "planning": PLANNING,
    }


def _hallways(seeds: int, largest: int) -> Iterator[Unit]:
    sizes = _up_to(HALLWAY_SIZES, largest)
    for domain in HALLWAYS:
        yield _optimum(_hallway_parameters(domain, sizes, 0))
    for seed in range(seeds):
        for domain in HALLWAYS:
            parameters = _hallway_parameters(domain, sizes, seed)
            yield from _learners(parameters, _up_to(HALLWAY_EM_SIZES, largest))


def _hallway_parameters(domain: str, sizes: list[int], seed: int) -> dict[str, Any]:
    return {
        "domain": domain,
        "system": domain,
        "seed": seed,
        "sizes": sizes,
        "rank": 3,
        "rank_tolerance": None,
        "min_singular_value": 0.02,
        "observation_tolerance": 0.1,
        "planning": PLANNING,
        **HALLWAYS[domain],
    }


def _learners(parameters: dict[str, Any], em_sizes: list[int]) -> Iterator[Unit]:
    """Every method on one log; truth plays beside them."""
    from unlatch.study import experiments

    sizes = parameters["sizes"]
    yield _unit("truth", experiments.truth, parameters, cost=0.1)
    yield _unit("spectral", experiments.spectral, parameters, cost=0.6 * len(sizes) + 1.5e-7 * sum(sizes))
    for method, starts in STARTS.items():
        plan = {**EM, "starts": starts}
        work = 4e-8 * (starts * 300 * 45_000 + sum(min(100 * size, 25_000_000) for size in em_sizes))
        yield _unit(
            method,
            experiments.em,
            {**parameters, "method": method, "sizes": em_sizes, "em": plan},
            cost=work + 4e-7 * sum(em_sizes),
        )


def _optimum(parameters: dict[str, Any]) -> Unit:
    from unlatch.study import experiments

    return Unit(f"optimum.{parameters['domain']}", experiments.optimum, parameters, cost=0.5)


def _picture(parameters: dict[str, Any]) -> Unit:
    from unlatch.study import experiments

    return Unit(f"picture.{parameters['domain']}", experiments.picture, parameters, cost=0.5)


def _sensitivity(seeds: int, largest: int) -> Iterator[Unit]:
    from unlatch.study import sensitivity

    for rooms in ROOMS:
        parameters = _table_parameters(rooms, largest, 0)
        yield Unit(f"limit.{parameters['domain']}", sensitivity.limit, parameters, cost=0.5)
    for seed in range(seeds):
        for rooms in ROOMS:
            parameters = _table_parameters(rooms, largest, seed)
            yield _unit("sensitivity", sensitivity.sensitivity, parameters, cost=4.0)


def _table_parameters(rooms: int, largest: int, seed: int) -> dict[str, Any]:
    return {
        "domain": f"tmaze-{2 * (rooms + 1)}",
        "system": f"tmaze:rooms={rooms},fail={FAIL}",
        "seed": seed,
        "sizes": [min(TABLE_STEPS, largest)],
        "lengths": [list(lengths) for lengths in LENGTHS],
        "tolerances": list(TOLERANCES),
        "min_singular_value": 0.01,
        "observation_tolerance": 0.1,
    }


def _unit(kind: str, function: Callable[..., Any], parameters: dict[str, Any], *, cost: float) -> Unit:
    return Unit(f"{kind}.{parameters['domain']}.{parameters['seed']:03d}", function, parameters, cost)


def _up_to(sizes: tuple[int, ...], largest: int) -> list[int]:
    return [size for size in sizes if size <= largest] or [largest]


def code_digest(*study_files: str) -> str:
    """Changes whenever code changes that a result could depend on, in the library or in these files of the studies."""
    package = files("unlatch")
    parts = [package / name for name in _CODE] + [package / "study" / name for name in study_files]
    digest = hashlib.sha256()
    for path in parts:
        for source in sorted(_sources(path), key=str):
            digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _sources(path: Any) -> Iterator[Any]:
    if path.is_file():
        yield path
    else:
        for child in path.iterdir():
            if child.is_dir() or child.name.endswith(".py"):
                yield from _sources(child)


_BUILDERS: dict[str, Callable[[int, int], Iterator[Unit]]] = {
    "curves": _curves,
    "hallways": _hallways,
    "sensitivity": _sensitivity,
}
