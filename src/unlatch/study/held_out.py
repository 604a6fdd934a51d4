"""What learned models are worth on a log that they have not seen: short logs, dense models, and fixed rules beside.

A fixed rule fits every number of states by maximum likelihood and takes the one that its price prefers. ``dense`` and
``rules`` learn from the same logs and are judged on the same ones. ``ceiling`` is what the evidence itself prefers
there, with nothing left to luck: it climbs from the truth.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from unlatch.arrays import Floats
from unlatch.core.pomdp import POMDP
from unlatch.core.trajectory import Trajectory
from unlatch.errors import BeliefCollapseWarning
from unlatch.learn.likelihood.climb import Ascent, climb
from unlatch.learn.likelihood.marginal import Candidate, judged
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import parameters_of
from unlatch.learn.likelihood.split_merge import merge_gains, merged_states, split_state
from unlatch.learn.likelihood.starts import random_parameters
from unlatch.learn.pipeline import learn_pomdp
from unlatch.learn.significance import USED
from unlatch.simulation import simulate
from unlatch.study.efficiency import SENSE_3, TIGER, TMAZE
from unlatch.study.jobs.units import Finding, Study, Unit, named_seed
from unlatch.study.random_models import NOISE, dense_systems, system
from unlatch.study.studies import code_digest
from unlatch.study.task import Parameters, Row, Watch, outcome, rounded

__all__ = [
    "MORE_STATES",
    "RULES",
    "SHORT_STEPS",
    "SHORT_SYSTEMS",
    "Chosen",
    "build_study",
    "ceiling",
    "ceiling_units",
    "chances_of_what_was_seen",
    "chosen_by",
    "dense",
    "dense_units",
    "one_state_chances",
    "rules",
    "rules_units",
    "short",
    "short_units",
]

SHORT_SYSTEMS = (TIGER, TMAZE, SENSE_3, NOISE)
SHORT_STEPS = (50, 100, 200, 500, 1_000)
_SHORT_SEEDS = 40
_SHORT_HELD_OUT = 10_000

_DENSE_STEPS = 100_000
_DENSE_HELD_OUT = 200_000
_VALIDATION = 20_000
"""Steps that a dense model is learned from, is judged by, and that a rule with a validation part has on top."""

_PER = 100_000
"""Steps that a loss on a held-out log is told for."""

MORE_STATES = 2
"""How many more states than the truth the rules look at."""

_BOTH_WAYS = 2
"""How many states fewer and more than the truth are climbed to from it."""

_FEW_PASSES, _TRIED, _CLIMBED = 40, 3, 2
"""Passes after which it is told which of the splits, or of so many mergers, lead on; and how many of them are climbed
to the end."""

_STARTS = 4
"""Random starts of a fit. At the true number of states the truth is another."""


# --- what a model says of a log that it has not seen -----------------------------------------------------


def chances_of_what_was_seen(model: POMDP, log: Trajectory) -> Floats:
    """The probability of every step's observation; zero where the model holds it impossible.

    Raises `DataError` if the model does not know an observation that occurs.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BeliefCollapseWarning)
        predictions = model.predictions(log, impossible="mix")
    index = {name: code for code, name in enumerate(model.observation_names)}
    codes = np.array([index.get(name, -1) for name in log.observation_names])  # -1: does not occur
    result: Floats = predictions[np.arange(len(log)), codes[log.observations]]
    return result


def one_state_chances(training: Trajectory, log: Trajectory, *, unseen: float = 0.0) -> Floats:
    """The same of a model with one state: how often every action showed what in the training log.

    ``unseen`` is added to every count; with ½ nothing is impossible.
    """
    counts = np.full((len(training.action_names), len(training.observation_names)), unseen)
    np.add.at(counts, (training.actions, training.observations), 1)
    rows = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-300)
    result: Floats = rows[log.actions, log.observations]
    return result


def _nats(chances: Floats) -> float:
    """Log-likelihood; minus infinity if a step is impossible."""
    with np.errstate(divide="ignore"):
        return float(np.log(chances).sum())


# --- short logs ------------------------------------------------------------------------------------------


def short_units(*, at_most: int | None = None) -> list[Unit]:
    """One unit per short log, or the first few of every kind."""
    seeds = _SHORT_SEEDS if at_most is None else min(at_most, _SHORT_SEEDS)
    return [
        Unit(f"{_plain(name)}.{steps}.{seed:03d}", short, {"system": name, "steps": steps, "seed": seed})
        for name in SHORT_SYSTEMS
        for steps in SHORT_STEPS
        for seed in range(seeds)
    ]


def short(parameters: Parameters, seed: np.random.SeedSequence) -> Finding:
    """Learn from a short log; nats per step of a held-out one beside those of the truth and of one state.

    That one state has half a count more for everything, so that it holds nothing impossible either.
    """
    rng = np.random.default_rng(seed)
    truth = system(parameters["system"])
    log = simulate(truth, parameters["steps"], rng=rng)
    held_out = simulate(truth, _SHORT_HELD_OUT, rng=rng)
    row: Row = {**parameters, "outcome": "ok", "true_states": truth.n_states}
    row["true_nats"] = _nats(chances_of_what_was_seen(truth, held_out)) / len(held_out)
    row["one_state_nats"] = _nats(one_state_chances(log, held_out, unseen=0.5)) / len(held_out)
    watch = Watch()
    with outcome(row):
        with watch("learn"), watch("learn_cpu", time.process_time):
            result = learn_pomdp(log, rng=rng)
        chances = chances_of_what_was_seen(result.pomdp, held_out)
        row["states"], row["impossible"] = result.states, int((chances == 0).sum())
        row["nats"] = _nats(chances) / len(held_out)
    return Finding([rounded(row)], watch.seconds)


# --- dense models ----------------------------------------------------------------------------------------


class _Logs(NamedTuple):
    """To learn from, to judge by, and what a rule may look at on top."""

    training: Trajectory
    held_out: Trajectory
    validation: Trajectory


def dense_units(*, at_most: int | None = None, steps: int = _DENSE_STEPS) -> list[Unit]:
    """One unit per dense model, or the first few."""
    return [Unit(_plain(name), dense, {"system": name, "steps": steps}) for name in dense_systems()[:at_most]]


def dense(parameters: Parameters, seed: np.random.SeedSequence) -> Finding:
    """Learn a dense model with nothing but the log: its number of states, and held-out nats below the truth."""
    truth = system(parameters["system"])
    logs = _logs(truth, parameters)
    row: Row = {**parameters, "outcome": "ok", "true_states": truth.n_states}
    watch = Watch()
    with outcome(row):
        with watch("learn"), watch("learn_cpu", time.process_time):
            result = learn_pomdp(logs.training, rng=np.random.default_rng(seed))
        row["states"], row["emission"] = result.states, result.pomdp.emission
        if (evidence := result.evidence) is not None:
            row["predictive_states"] = evidence.predictive_states
            row["runner_up"], row["gap"] = evidence.runner_up, evidence.gap
        row["loss"] = _loss(result.pomdp, truth, logs.held_out)
    return Finding([rounded(row)], watch.seconds)


def _logs(truth: POMDP, parameters: Parameters) -> _Logs:
    """The same for every unit that is about the same system."""
    rng = np.random.default_rng(named_seed(0, f"logs of {parameters['system']}"))
    steps = (parameters["steps"], _DENSE_HELD_OUT, _VALIDATION)
    return _Logs(*(simulate(truth, n, rng=rng) for n in steps))


def _loss(model: POMDP, truth: POMDP, log: Trajectory) -> float:
    """Nats below the truth, for so many steps as losses are told for."""
    ours, theirs = (_nats(chances_of_what_was_seen(each, log)) for each in (model, truth))
    return (theirs - ours) * _PER / len(log)


# --- the evidence of dense models, from the truth --------------------------------------------------------


def ceiling_units(*, at_most: int | None = None, steps: int = _DENSE_STEPS) -> list[Unit]:
    """One unit per dense model, or the first few."""
    return [
        Unit(_plain(name), ceiling, {"system": name, "steps": steps}) for name in dense_systems()[:at_most]
    ]


def ceiling(parameters: Parameters, seed: np.random.SeedSequence) -> Finding:
    """The evidence for the true number of states and for those around it, climbed to from the truth.

    From every model states are split, and pairs merged, as long as there is one beside it to be reached or bettered.
    """
    truth = system(parameters["system"])
    likelihood = Likelihood.of(_logs(truth, parameters).training, truth.emission, truth)
    rng, watch = np.random.default_rng(seed), Watch()
    with watch("learn"), watch("learn_cpu", time.process_time):
        first = judged(climb(replace(parameters_of(truth), dense=True), likelihood), likelihood)
        best = {truth.n_states: first}
        for origin, reached in _ways(truth.n_states):
            found = _beside(best[origin], reached, likelihood, rng)
            if reached not in best or found.score > best[reached].score:
                best[reached] = found
    rows = [
        {
            **parameters,
            "outcome": "ok",
            "true_states": truth.n_states,
            "states": states,
            "score": found.score,
            "log_likelihood": found.log_likelihood,
            "free_parameters": found.free,
        }
        for states, found in sorted(best.items())
    ]
    return Finding([rounded(row) for row in rows], watch.seconds)


def _ways(true: int) -> list[tuple[int, int]]:
    """From which number of states to which: down, back up to above the truth, and down to it once more."""
    least, most = max(1, true - _BOTH_WAYS), true + _BOTH_WAYS
    path = [*range(true, least, -1), *range(least, most), *range(most, true - 1, -1)]
    return list(pairwise(path))


def _beside(origin: Candidate, states: int, likelihood: Likelihood, rng: np.random.Generator) -> Candidate:
    """The best model with a state more or fewer."""
    parameters = origin.parameters
    if states > origin.n_states:
        starts = [split_state(parameters, state, rng) for state in range(origin.n_states)]
    else:
        pairs = merge_gains(origin).pairs[:_TRIED]
        starts = [merged_states(parameters, [pair], origin.ascent.visits) for pair in pairs]
    short = sorted((climb(start, likelihood, passes=_FEW_PASSES) for start in starts), key=_height)
    climbed = (judged(climb(ascent.parameters, likelihood), likelihood) for ascent in short[-_CLIMBED:])
    return max(climbed, key=lambda found: found.score)


def _height(ascent: Ascent) -> float:
    return ascent.log_likelihood


# --- fixed rules -----------------------------------------------------------------------------------------


def rules_units(*, at_most: int | None = None, steps: int = _DENSE_STEPS) -> list[Unit]:
    """One unit per dense model and number of states, up to some more than the truth has."""
    return [
        Unit(
            f"{_plain(name)}.{states:02d}",
            rules,
            {"system": name, "steps": steps, "states": states},
            cost=float(states),
        )
        for name in dense_systems()[:at_most]
        for states in range(1, system(name).n_states + MORE_STATES + 1)
    ]


def rules(parameters: Parameters, seed: np.random.SeedSequence) -> Finding:
    """The likeliest model with so many states, and all that a rule may judge it by."""
    truth = system(parameters["system"])
    logs = _logs(truth, parameters)
    watch = Watch()
    with watch("learn"), watch("learn_cpu", time.process_time):
        best = _likeliest(truth, logs.training, parameters["states"], np.random.default_rng(seed))
    model = _fresh(best, truth)
    row: Row = {
        **parameters,
        "outcome": "ok",
        "true_states": truth.n_states,
        "log_likelihood": best.log_likelihood,
        "free_parameters": _free_parameters(best),
        "converged": best.converged,
        "validation": _nats(chances_of_what_was_seen(model, logs.validation)),
        "loss": _loss(model, truth, logs.held_out),
    }
    return Finding([rounded(row)], watch.seconds)


def _likeliest(truth: POMDP, log: Trajectory, states: int, rng: np.random.Generator) -> Ascent:
    likelihood = Likelihood.of(log, truth.emission, truth)
    starts = [random_parameters(likelihood.log, states, rng, truth.emission) for _ in range(_STARTS)]
    if states == truth.n_states:
        starts.append(parameters_of(truth))
    return max((climb(start, likelihood) for start in starts), key=_height)


def _fresh(ascent: Ascent, truth: POMDP) -> POMDP:
    """The fit as a model that knows nothing of where its log began."""
    return POMDP(
        transitions=ascent.parameters.transitions,
        observations=ascent.parameters.observations,
        initial=np.full(ascent.n_states, 1 / ascent.n_states),
        emission=truth.emission,
        action_names=truth.action_names,
        observation_names=truth.observation_names,
    )


def _free_parameters(ascent: Ascent) -> int:
    """Entries with expected uses, less one a row."""
    used = [(rows > USED).sum(axis=-1) for rows in ascent.counts.blocks[1:]]
    return int(sum(np.maximum(entries - 1, 0).sum() for entries in used))


@dataclass(frozen=True)
class Chosen:
    """What a rule takes of the fits of one system."""

    states: int
    loss: float


RULES = {
    "BIC": lambda fit: _priced(fit, 0.5 * np.log(fit["steps"])),
    "Hannan–Quinn": lambda fit: _priced(fit, np.log(np.log(fit["steps"]))),
    "AIC": lambda fit: _priced(fit, 1.0),
    f"{_VALIDATION} further steps": lambda fit: fit["validation"],
}
"""What each rule maximizes."""


def _priced(fit: Mapping[str, Any], price: float) -> float:
    return float(fit["log_likelihood"] - price * fit["free_parameters"])


def chosen_by(rule: str, fits: Sequence[Mapping[str, Any]]) -> Chosen:
    """The fit of one system that a rule prefers. Beside the `RULES`: "true count", "one state", "hindsight"."""
    ways = {
        **RULES,
        "true count": lambda fit: fit["states"] == fit["true_states"],
        "one state": lambda fit: fit["states"] == 1,
        "hindsight": lambda fit: -fit["loss"],
    }
    best = max(fits, key=ways[rule])
    return Chosen(best["states"], best["loss"])


def build_study(name: str, units: Sequence[Unit]) -> Study:
    """A study of units of this file."""
    code = code_digest("held_out.py", "efficiency.py", "random_models.py")
    return Study(name, tuple(units), settings={"code": code})


def _plain(name: str) -> str:
    return name.replace(":", ".").replace(",", ".")
