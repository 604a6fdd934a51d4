"""``unlatch agent``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unlatch.cli.options import OUTPUT, SEED, Number, Whole, of_an_environment, seen
from unlatch.cli.progress import progress
from unlatch.errors import UnlatchError, UsageError

if TYPE_CHECKING:
    from unlatch.agent import Agent, AgentRound
    from unlatch.core.reward import Reward


@click.command()
@click.argument("system", metavar="ENVIRONMENT|DOMAIN|MODEL")
@click.option(
    "--steps", type=Whole(), default=2000, show_default=True, help="Steps to take, beyond those taken."
)
@click.option(
    "-o", "--output", type=OUTPUT, required=True, help="Folder of the log, the model and the agent's state."
)
@click.option(
    "--goal",
    "goals",
    multiple=True,
    metavar="O|A=O",
    help="Pays 1 whenever O is seen, or follows action A; repeatable. By default what the system pays.",
)
@click.option(
    "--discount",
    type=Number(above=0),
    default=0.95,
    show_default=True,
    help="What a reward a step later counts for.",
)
@click.option("--first", type=Whole(), default=200, show_default=True, help="Steps before the first model.")
@click.option("--episode-steps", type=Whole(), help="Steps after which an episode is cut.")
@click.option("--seed", type=SEED, help="Seed; drawn and printed if not given.")
@of_an_environment
@click.option(
    "--emission", type=click.Choice(["auto", "departure", "arrival"]), default="auto", show_default=True
)
@click.option("--max-states", type=Whole(), help="The most states that the model may have.")
def agent(system: str, steps: int, output: Path, goals: tuple[str, ...], **options: Any) -> None:
    """Explore a system from nothing, learn it, plan in it, act, and go on learning.

    Call it again with the same folder to go on.
    """
    from unlatch.agent import Agent
    from unlatch.cli.record import function_of
    from unlatch.show.screen import screen

    observe, names = options["observe"], options["action_names"]
    world = _world(system, options["settings"])
    learning = {name: options[name] for name in ("emission", "max_states") if options[name] is not None}
    with Agent(
        world,
        goal=_goal(goals),
        discount=options["discount"],
        folder=output,
        seed=options["seed"],
        first=options["first"],
        episode_steps=options["episode_steps"],
        observe=None if observe is None else function_of(observe),
        action_names=None if names is None else names.split(","),
        **learning,
    ) as it:
        before, known = len(it), len(it.rounds)
        with progress():
            _run(it, system, steps)
        for found in it.rounds[known:]:
            screen().print(_line(found))
        screen().print(_paid(it, before))
        screen().print(f"wrote log.npz, model.json and agent.json to {output} (seed {it.seed})")


def _world(text: str, settings: tuple[str, ...]) -> Any:
    """A system of ours by its name or file, else an environment of Gymnasium."""
    from unlatch.bridges.record import made
    from unlatch.cli.record import settings_of
    from unlatch.cli.simulate import domain_or_model
    from unlatch.domains import NAMES

    if text.partition(":")[0] in NAMES or Path(text).suffix:
        if settings:
            raise UsageError("--set is for environments of Gymnasium; write tmaze:rooms=3 for a domain")
        return domain_or_model(text)
    return made(text, settings_of(settings), 1)


def _goal(goals: tuple[str, ...]) -> Reward | None:
    from unlatch.core.reward import Reward

    if not goals:
        return None
    return Reward.on_observations({seen(goal.removeprefix("observation:")): 1.0 for goal in goals})


def _run(it: Agent, name: str, steps: int) -> None:
    try:
        it.run(steps)
    except (UnlatchError, KeyboardInterrupt, MemoryError):
        raise
    except Exception as error:  # of the environment, or of the function that maps what it shows
        said = " ".join(str(error).split())[:300]
        raise UsageError(f"{name}: failed while it was acted in: {type(error).__name__}: {said}") from None


def _line(found: AgentRound) -> str:
    if found.states is None or found.gain is None:
        return f"{found.steps} steps: nothing could be learned yet"
    known = f"{found.steps} steps: {found.states} states, {found.gain:.2g} nats expected from a step"
    if found.lower is None:
        return f"{known}; the goal has not been seen"
    return f"{known}; by the model the plan gathers {found.lower:.4g} to {found.upper:.4g}"


def _paid(it: Agent, before: int) -> str:
    assert it.log is not None
    assert it.log.rewards is not None
    paid = it.log.rewards[before:]
    return f"paid on the way: {paid.sum():.4g} in {len(paid)} steps"
