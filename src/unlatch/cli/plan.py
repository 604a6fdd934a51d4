"""``unlatch plan``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unlatch.cli.progress import progress_bar
from unlatch.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from unlatch.core.partition_model import PartitionModel
    from unlatch.core.pomdp import POMDP
    from unlatch.core.psr import PSR
    from unlatch.core.reward import Reward
    from unlatch.plan.exact import ExactPlanner
    from unlatch.plan.pouct import POUCT

_GOALS = """\
\b
Goals (repeat --goal to reward several):
  state:NAME            leaving a state, by its name or number
  cell:K                leaving any state of a cell of the observability partition
  observation:A=O       seeing O after action A
  where:A=O,B=P         leaving the states whose likeliest observations are O under A, P under B
  ambiguous             leaving the state whose observations are the most random
"""


@click.command(epilog=_GOALS)
@click.argument("model")
@click.option(
    "--goal", "goals", multiple=True, metavar="GOAL", help="What to pursue, +1 each time; see below."
)
@click.option("--reward", type=click.Choice(["learned"]), help="Pursue the rewards that were logged.")
@click.option(
    "--steps", type=click.IntRange(min=1), default=10, show_default=True, help="Steps of an episode."
)
@click.option(
    "--episodes", type=click.IntRange(min=1), default=100, show_default=True, help="Episodes to run."
)
@click.option(
    "--in", "world", metavar="DOMAIN|MODEL", help="The true system to act in; the model itself by default."
)
@click.option(
    "--using",
    type=click.Choice(["pomdp", "cells", "psr"]),
    default="pomdp",
    show_default=True,
    help="Plan with the POMDP, with the estimate that is certain up to cells, or with the PSR.",
)
@click.option("--planner", type=click.Choice(["pouct", "exact"]), default="pouct", show_default=True)
@click.option(
    "--simulations", type=click.IntRange(min=0), default=1000, show_default=True, help="Per decision (pouct)."
)
@click.option(
    "--depth", type=click.IntRange(min=1), default=3, show_default=True, help="Steps looked ahead (pouct)."
)
@click.option(
    "--exploration", default="auto", show_default=True, help="auto, or a number; the paper's is 2 (pouct)."
)
@click.option("--seed", type=click.IntRange(min=0), help="Seed; drawn and printed if not given.")
def plan(model: str, goals: tuple[str, ...], reward: str | None, world: str | None, **options: Any) -> None:
    """Plan with MODEL (a model file or a domain) towards a goal, act in the true system, and report how it went."""
    from unlatch.core.random import resolve_rng
    from unlatch.plan.episodes import run_episodes
    from unlatch.show.text import console

    if bool(goals) == (reward is not None):
        raise UsageError("name either a goal (--goal ...) or --reward learned")
    agent, states = _agent_model(model, options["using"])
    truth = _world(world, model)
    pursued = _reward(goals, agent)
    judged = _judge(goals, agent, states, truth)
    generator, seed = resolve_rng(options["seed"])
    planner = _planner(agent, pursued, generator, options)
    with progress_bar():
        played = run_episodes(
            truth, planner, episodes=options["episodes"], steps=options["steps"], reward=judged, rng=generator
        )
    screen = console()
    screen.print(
        f"return over {options['steps']} steps: {played.mean:.3f} ± {played.standard_error:.3f} (standard error, "
        f"{len(played)} episodes, seed {seed})"
    )
    _print_policy(screen, planner)
    _print_time(screen, played, judged, truth)
    if played.collapses.sum():
        screen.print(
            f"{int(played.collapses.sum())} observations were impossible under the model; the belief restarted"
        )


# --- what plans, where, for what -----------------------------------------------------------------------


def _agent_model(text: str, using: str) -> tuple[POMDP | PartitionModel | PSR, POMDP | None]:
    """What the planner sees, and the POMDP with the same states, if there is one, to find them again by."""
    from unlatch.cli.simulate import domain_or_model
    from unlatch.core.partition_model import PartitionModel
    from unlatch.files.models import load_model

    if not Path(text).suffix:
        pomdp = domain_or_model(text)
        return (pomdp.to_psr() if using == "psr" else pomdp), pomdp
    saved = load_model(Path(text))
    if using == "pomdp":
        return saved.model, saved.pomdp
    psr = saved.psr if saved.psr is not None else saved.model.to_psr()
    if using == "psr":
        return psr, None
    if saved.partition is None:
        raise UsageError(f"{text} holds no partition; plan with --using pomdp or psr")
    return PartitionModel(psr, saved.partition), saved.pomdp


def _world(text: str | None, model: str) -> POMDP:
    from unlatch.cli.simulate import domain_or_model

    return domain_or_model(model if text is None else text)


def _planner(
    agent: POMDP | PartitionModel | PSR, reward: Reward, rng: Any, options: dict[str, Any]
) -> POUCT | ExactPlanner:
    from unlatch.plan.exact import ExactPlanner
    from unlatch.plan.pouct import POUCT

    if options["planner"] == "exact":
        return ExactPlanner(agent, reward, horizon=options["steps"], on_collapse="reset")
    return POUCT(
        agent,
        reward,
        simulations=options["simulations"],
        depth=options["depth"],
        exploration=_exploration(options["exploration"]),
        on_collapse="reset",
        rng=rng,
    )


def _exploration(text: str) -> Any:
    if text == "auto":
        return "auto"
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--exploration takes auto or a number, got {text!r}") from None


def _reward(goals: tuple[str, ...], model: POMDP | PartitionModel | PSR) -> Reward:
    from unlatch.core.reward import Reward

    if not goals:
        return Reward.from_symbols(model)
    kinds = {goal.partition(":")[0] for goal in goals}
    if kinds == {"observation"}:
        return Reward.on_observations({_assignment(goal.partition(":")[2]): 1.0 for goal in goals})
    if kinds == {"cell"}:
        return Reward.on_cells({_number(goal.partition(":")[2]): 1.0 for goal in goals})
    if "observation" in kinds or "cell" in kinds:
        raise UsageError("goals on observations, on cells and on states cannot be mixed")
    return Reward.on_states({state: 1.0 for goal in goals for state in _states(goal, model)})


def _states(goal: str, model: Any) -> tuple[int | str, ...]:
    from unlatch.core.psr import PSR
    from unlatch.plan.goals import most_ambiguous_state, states_where

    if isinstance(model, PSR):
        raise UsageError("a PSR has no states; name a goal on observations, or plan --using pomdp")
    kind, _, rest = goal.partition(":")
    if kind == "state" and rest:
        known = getattr(model, "state_names", ())
        return (rest,) if rest in known or not rest.isdigit() else (int(rest),)
    if kind == "ambiguous" and not rest:
        return (most_ambiguous_state(model),)
    if kind == "where" and rest:
        found = states_where(model, "argmax", dict(_assignment(part) for part in rest.split(",")))
        if not found:
            raise UsageError(f"no state of the model answers to {goal!r}")
        return tuple(found)
    raise UsageError(f"cannot read the goal {goal!r}; see unlatch plan --help")


def _assignment(text: str) -> tuple[str, str]:
    action, separator, observation = text.partition("=")
    if not separator or not action or not observation:
        raise UsageError(f"cannot read {text!r}; write ACTION=OBSERVATION")
    return action, observation


def _number(text: str) -> int:
    if not text.isdigit():
        raise UsageError(f"cell:{text} should name a cell by its number")
    return int(text)


def _judge(goals: tuple[str, ...], agent: Any, states: POMDP | None, truth: POMDP) -> Reward:
    """The same goal said of the true system: states and cells of the agent's model found again there."""
    from unlatch.compare.match_states import match_states
    from unlatch.core.reward import Reward

    if agent is truth or all(
        goal.partition(":")[0] in ("observation", "where", "ambiguous") for goal in goals
    ):
        return _reward(goals, truth)
    if states is None or states.n_states != truth.n_states:
        raise UsageError(
            "a goal on a learned state cannot be found in this system: the numbers of states differ"
        )
    learned = _reward(goals, agent).resolve(agent).states
    order = match_states(states, truth)
    return Reward.on_states({t: float(learned[s]) for t, s in enumerate(order) if learned[s] != 0})


# --- what is printed -----------------------------------------------------------------------------------


def _print_policy(screen: Console, planner: POUCT | ExactPlanner, most: int = 8) -> None:
    """The first action, and what follows each of the likeliest observations."""
    import numpy as np
    from rich.table import Table
    from rich.text import Text

    from unlatch.core.partition_model import PartitionModel

    model = planner.model
    planner.reset()
    first = planner.action()
    psr = model.psr if isinstance(model, PartitionModel) else model.to_psr()
    chances = psr.predict(planner.belief)[first]
    table = Table(
        title=f"first action: {model.action_names[first]}", title_justify="left", title_style="bold"
    )
    for heading in ("then observing", "probability", "belief", "next action"):
        table.add_column(heading)
    for o in np.argsort(-chances, kind="stable")[:most]:
        if chances[o] < 1e-3:
            continue
        planner.reset()
        planner.observe(first, int(o))
        belief = ", ".join(f"{share:.2f}" for share in planner.belief)
        table.add_row(
            Text(model.observation_names[o]),
            f"{chances[o]:.3f}",
            belief,
            Text(model.action_names[planner.action()]),
        )
    screen.print(table)


def _print_time(screen: Console, played: Any, judged: Reward, truth: POMDP) -> None:
    resolved = judged.resolve(truth)
    goal = [s for s in range(truth.n_states) if resolved.states[s] > 0]
    shares = played.share_of_time
    if goal:
        names = ", ".join(truth.state_names[s] for s in goal)
        screen.print(f"share of time in the goal ({names}): {shares[goal].sum():.3f}", markup=False)
    listing = ", ".join(f"{name} {share:.3f}" for name, share in zip(truth.state_names, shares, strict=True))
    screen.print(f"share of time by true state: {listing}", markup=False)
