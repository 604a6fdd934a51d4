"""``unlatch plan``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unlatch.cli.options import OUTPUT, SEED, Depth, Number, Whole, seen
from unlatch.cli.program import Interrupted
from unlatch.cli.progress import progress
from unlatch.cli.signals import was_interrupted
from unlatch.errors import UsageError
from unlatch.show.safe import brief

if TYPE_CHECKING:
    from unlatch.core.partition_model import PartitionModel
    from unlatch.core.pomdp import POMDP
    from unlatch.core.psr import PSR
    from unlatch.core.reward import Reward
    from unlatch.planning.choose import Plan
    from unlatch.planning.pouct import POUCT
    from unlatch.planning.problem import Untried
    from unlatch.show.screen import Screen

_GOALS = """\
\b
Goals (repeat --goal to reward several):
  state:NAME            leaving a state, by its name or number
  cell:K                leaving any state of a cell of the observability partition
  observation:O         seeing O
  observation:A=O       seeing O after action A
  where:A=O,B=P         leaving the states whose likeliest observations are O under A, P under B
  ambiguous             leaving the state whose observations are the most random
"""

_LONGEST_GOAL = 2000
"""Characters; a name has 256 bytes at most."""

_MOST_STATES = 20
"""States whose shares of time fit on a screen."""

_WHOLE, _FOR_OTHERS = (".json", ".npz"), (".alpha", ".policy", ".policyx")
"""Endings of files that hold a plan with its problem and bounds, and of those that other solvers read."""


@click.command(epilog=_GOALS)
@click.argument("model")
@click.option(
    "--goal", "goals", multiple=True, metavar="GOAL", help="What to pursue, +1 each time; see below."
)
@click.option(
    "--reward",
    type=click.Choice(["learned"]),
    help="Pursue the rewards that the model knows; so by default where no goal is named.",
)
@click.option(
    "--steps", type=Whole(), default=10, show_default=True, help="Steps of an episode; the most, if it ends."
)
@click.option("--episodes", type=Whole(), default=100, show_default=True, help="Episodes to run.")
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
@click.option(
    "--planner",
    type=click.Choice(["auto", "exact", "point-based", "search", "pouct"]),
    help="auto by default: exact where few beliefs can be reached, else by bounds; pouct if its options are given.",
)
@click.option(
    "--discount",
    type=Number(),
    help="What a reward a step later counts for. Below 1 the plan is made for ever, else for --steps.  [default: what "
    "the file of a problem says, else 1]",
)
@click.option(
    "--time-limit",
    type=Number(above=0),
    default=10.0,
    show_default=True,
    help="Seconds to compute bounds in.",
)
@click.option("--simulations", type=Whole(0), help="Per decision (pouct).  [default: 1000]")
@click.option("--depth", type=Depth(), help="Steps looked ahead, or auto (pouct).  [default: 3]")
@click.option("--exploration", help="auto, or a number; the paper's is 2 (pouct).  [default: auto]")
@click.option("--allow-untried", is_flag=True, help="Also choose actions that the log never tried.")
@click.option("--seed", type=SEED, help="Seed; drawn and printed if not given.")
@click.option(
    "-o",
    "--output",
    type=OUTPUT,
    help="Where to write the plan, which is then made by bounds: .json or .npz with both bounds, .alpha, .policy or "
    ".policyx for others.",
)
def plan(model: str, goals: tuple[str, ...], reward: str | None, world: str | None, **options: Any) -> None:
    """Plan with MODEL (a model file or a domain) towards a goal, act in the true system, and report how it went."""
    from unlatch.core.random import resolve_rng
    from unlatch.planning.choose import Plan
    from unlatch.planning.episodes import run_episodes
    from unlatch.show.screen import screen

    if goals and reward is not None:
        raise UsageError("name either a goal (--goal ...) or --reward learned, not both")
    method = _method(options)
    _check_output(options["output"], method)
    for goal in goals:
        if len(goal) > _LONGEST_GOAL:
            raise UsageError(f"the goal {brief(goal)} is longer than {_LONGEST_GOAL} characters")
    agent, states, discount = _agent_model(model, options["using"])
    goals = _cells_as_states(goals, agent, model)
    if options["discount"] is None:
        options["discount"] = 1.0 if discount is None or goals else discount
    _refuse_alpha_vectors_of_a_horizon(options["output"], options["discount"])
    truth = _world(world, model)
    pursued = _reward(goals, agent)
    judged = _judge(goals, agent, states, truth)
    generator, seed = resolve_rng(options["seed"])
    with progress():
        planner = _planner(agent, pursued, method, generator, options)
        _end_if_interrupted(planner, options["output"])
        played = run_episodes(
            truth,
            planner,
            episodes=options["episodes"],
            steps=options["steps"],
            reward=judged,
            untried=_untried(options),
            rng=generator,
        )
    output = screen()
    output.print(
        f"return over {_duration(options['steps'], played, truth)}: {_score(played.mean, played.standard_error)} "
        f"(standard error, {len(played)} episodes, seed {seed})"
    )
    if isinstance(planner, Plan):
        _print_plan(output, planner)
    _print_policy(output, planner)
    _print_time(output, played, judged, truth)
    if played.collapses.sum():
        output.print(
            f"{int(played.collapses.sum())} observations were impossible under the model; the belief went on from what "
            "each of them alone tells"
        )
    if options["output"] is not None:
        _write(options["output"], planner)
        output.print(f"wrote {options['output']}")


# --- what plans, where, for what -----------------------------------------------------------------------


def _agent_model(text: str, using: str) -> tuple[POMDP | PartitionModel | PSR, POMDP | None, float | None]:
    """What the planner sees, the POMDP with the same states, if there is one, to find them again by, and the file's
    discount."""
    from unlatch.cli.simulate import domain_or_model, pomdp_that_pays
    from unlatch.core.partition_model import PartitionModel
    from unlatch.files.models.doors import load_model

    if not Path(text).suffix:
        pomdp = domain_or_model(text)
        return (pomdp.to_psr() if using == "psr" else pomdp), pomdp, None
    saved = load_model(Path(text))
    if saved.pomdp is not None and saved.reward is not None:  # a problem, as .POMDP files hold it
        pomdp = pomdp_that_pays(saved)
        return (pomdp.to_psr() if using == "psr" else pomdp), pomdp, saved.discount
    if using == "pomdp":
        return saved.model, saved.pomdp, saved.discount
    psr = saved.psr if saved.psr is not None else saved.model.to_psr()
    if using == "psr":
        return psr, None, saved.discount
    if saved.partition is None:
        raise UsageError(f"{text} holds no partition; plan with --using pomdp or psr")
    return PartitionModel(psr, saved.partition), saved.pomdp, saved.discount


def _cells_as_states(goals: tuple[str, ...], agent: Any, model: str) -> tuple[str, ...]:
    """Goals on cells as goals on their states, where a POMDP plans: it has states, and its file knows their cells."""
    from unlatch.core.pomdp import POMDP
    from unlatch.files.models.doors import load_model
    from unlatch.planning.goals import states_in_cell

    if not isinstance(agent, POMDP) or not any(goal.startswith("cell:") for goal in goals):
        return goals
    partition = load_model(Path(model)).partition if Path(model).suffix else None
    if partition is None:
        raise UsageError(f"{model} has no cells: it was not learned; name states, as in state:0")
    return tuple(
        named
        for goal in goals
        for named in (
            [f"state:{agent.state_names[s]}" for s in states_in_cell(partition, _number(goal[5:]))]
            if goal.startswith("cell:")
            else [goal]
        )
    )


def _world(text: str | None, model: str) -> POMDP:
    from unlatch.cli.simulate import domain_or_model

    return domain_or_model(model if text is None else text)


def _method(options: dict[str, Any]) -> Any:
    """Which planner: the one that was named, the one whose options were given, the one whose plans can be written."""
    if options["planner"] not in (None, "auto"):
        return options["planner"]
    of_pouct = any(options[name] is not None for name in ("simulations", "depth", "exploration"))
    if of_pouct and options["planner"] is None:
        return "pouct"
    return "auto" if options["output"] is None else "point-based"


def _planner(
    agent: POMDP | PartitionModel | PSR, reward: Reward, method: Any, rng: Any, options: dict[str, Any]
) -> POUCT | Plan:
    from unlatch.core.problem import Problem
    from unlatch.planning.choose import plan as chosen_plan
    from unlatch.planning.pouct import POUCT

    untried = _untried(options)
    if method == "pouct":
        return POUCT(
            agent,
            reward,
            simulations=1000 if options["simulations"] is None else options["simulations"],
            depth=3 if options["depth"] is None else options["depth"],
            exploration=_exploration("auto" if options["exploration"] is None else options["exploration"]),
            discount=options["discount"],
            rng=rng,
            untried=untried,
        )
    return chosen_plan(
        Problem(agent, reward, discount=options["discount"]),
        method,
        horizon=options["steps"] if options["discount"] == 1 or method == "exact" else None,
        time_limit=options["time_limit"],
        untried=untried,
        rng=rng,
    )


def _end_if_interrupted(planner: POUCT | Plan, output: Path | None) -> None:
    """Ctrl-C ends the solver with the best plan so far: that is kept if a file was asked for, and not acted on."""
    if not was_interrupted():
        return
    if output is None:
        raise Interrupted("interrupted")
    _write(output, planner)
    raise Interrupted(f"interrupted: wrote the best plan so far to {output}")


def _untried(options: dict[str, Any]) -> Untried:
    return "allow" if options["allow_untried"] else "exclude"


def _exploration(text: str) -> Any:
    if text == "auto":
        return "auto"
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--exploration takes auto or a number, got {brief(text)}") from None


def _reward(goals: tuple[str, ...], model: POMDP | PartitionModel | PSR) -> Reward:
    from unlatch.core.reward import Reward

    if not goals:
        try:
            return Reward.learned(model)
        except UsageError:
            raise UsageError("the model knows no rewards; name a goal with --goal (see --help)") from None
    kinds = {goal.partition(":")[0] for goal in goals}
    if kinds == {"observation"}:
        return Reward.on_observations({seen(goal.partition(":")[2]): 1.0 for goal in goals})
    if kinds == {"cell"}:
        return Reward.on_cells({_number(goal.partition(":")[2]): 1.0 for goal in goals})
    if "observation" in kinds or "cell" in kinds:
        raise UsageError("goals on observations, on cells and on states cannot be mixed")
    return Reward.on_states({state: 1.0 for goal in goals for state in _states(goal, model)})


def _states(goal: str, model: Any) -> tuple[int | str, ...]:
    from unlatch.core.psr import PSR
    from unlatch.planning.goals import most_ambiguous_state, states_where

    if isinstance(model, PSR):
        raise UsageError("a PSR has no states; name a goal on observations, or plan --using pomdp")
    kind, _, rest = goal.partition(":")
    if kind == "state" and rest:
        known = getattr(model, "state_names", ())
        return (rest,) if rest in known or not _is_index(rest) else (int(rest),)
    if kind == "ambiguous" and not rest:
        return (most_ambiguous_state(model),)
    if kind == "where" and rest:
        found = states_where(model, "argmax", dict(_assignment(part) for part in rest.split(",")))
        if not found:
            raise UsageError(f"no state of the model answers to {brief(goal)}")
        return tuple(found)
    raise UsageError(f"cannot read the goal {brief(goal)}; see unlatch plan --help")


def _assignment(text: str) -> tuple[str, str]:
    action, separator, observation = text.partition("=")
    if not separator or not action or not observation:
        raise UsageError(f"cannot read {brief(text)}; write ACTION=OBSERVATION")
    return action, observation


def _number(text: str) -> int:
    if not _is_index(text):
        raise UsageError(f"a cell is named by its number, as in cell:0, got {brief(text)}")
    return int(text)


def _is_index(text: str) -> bool:
    """ASCII digits and few of them: ``²`` is a digit as well, and Python reads no number of 5,000 of them."""
    return text.isascii() and text.isdigit() and len(text) <= 18


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
    learned = _reward(goals, agent).resolve(agent).states[0]  # goals pay whatever the action
    order = match_states(states, truth)
    return Reward.on_states({t: float(learned[s]) for t, s in enumerate(order) if learned[s] != 0})


# --- the file ------------------------------------------------------------------------------------------


def _check_output(path: Path | None, method: str) -> None:
    """Refuse before anything is computed."""
    if path is None:
        return
    if method != "point-based":
        raise UsageError("only a point-based plan can be written; plan with --planner point-based")
    if path.suffix.lower() not in _WHOLE + _FOR_OTHERS:
        known = ", ".join(_WHOLE + _FOR_OTHERS)
        raise UsageError(f"{brief(str(path))}: a plan is written to a file whose name ends in {known}")
    if not path.parent.is_dir():
        raise UsageError(f"{brief(str(path.parent))}: there is no such folder to write the plan to")


def _refuse_alpha_vectors_of_a_horizon(path: Path | None, discount: float) -> None:
    if path is not None and path.suffix.lower() in _FOR_OTHERS and discount == 1:
        raise UsageError(
            f"{brief(str(path))}: such a file holds one plan for every step, and a plan for --steps differs from step "
            "to step; give a --discount below 1, or write .json or .npz"
        )


def _write(path: Path, planner: POUCT | Plan) -> None:
    from unlatch.files.models.policies import save_policy
    from unlatch.planning.policy import Policy
    from unlatch.solutions import save_solution

    policy = getattr(planner, "planner", None)
    assert isinstance(policy, Policy)  # as the method was chosen
    if path.suffix.lower() in _WHOLE:
        save_solution(path, policy)
    else:
        save_policy(path, policy.alpha_vectors)


# --- what is printed -----------------------------------------------------------------------------------


def _print_plan(output: Screen, planner: Plan) -> None:
    """How it was planned, why so, and what that is worth."""
    output.print(f"planned by: {planner.method} ({planner.reason})")
    if planner.lower is not None and planner.upper is not None:
        output.print(
            f"value of the plan: at least {planner.lower:.6g}; of the best: at most {planner.upper:.6g}"
        )
    for line in planner.in_words():
        output.print(line, indent="  ")


def _print_policy(output: Screen, planner: POUCT | Plan, most: int = 8) -> None:
    """The first action, and what follows each of the likeliest observations."""
    import numpy as np

    from unlatch.core.partition_model import PartitionModel

    model = planner.model
    planner.reset()
    first = planner.action()
    predicting = model.psr if isinstance(model, PartitionModel) else model
    chances = predicting.predict(planner.belief)[first]
    rows = []
    for o in np.argsort(-chances.round(12), kind="stable")[:most]:  # those as likely as others in their order
        if chances[o] < 1e-3:
            continue
        planner.reset()
        planner.observe(first, int(o))
        following = "(it is over)" if _is_over(planner) else model.action_names[planner.action()]
        rows.append([model.observation_names[o], f"{chances[o]:.3f}", following, _belief(planner.belief)])
    header = ["then observing", "probability", "next action", "belief"]
    output.table(f"first action: {model.action_names[first]}", header, rows)


def _score(mean: float, error: float) -> str:
    """With three places, unless rewards are so large or so small that these would be too many or none."""
    largest = max(abs(mean), error)
    places = ".3f" if largest == 0 or 1e-3 <= largest < 1e9 else ".4g"
    return f"{mean:{places}} ± {error:{places}}"


def _duration(steps: int, played: Any, truth: POMDP) -> str:
    if not truth.terminal:
        return f"{steps} steps"
    return f"at most {steps} steps ({played.lengths.mean():.1f} on average, {int(played.ended.sum())} episodes ended)"


def _is_over(planner: POUCT | Plan) -> bool:
    """Whether the planner's model is sure that the episode has ended."""
    terminal = list(getattr(planner.model, "terminal", ()))
    return bool(terminal) and float(planner.belief[terminal].sum()) > 0


def _belief(belief: Any, most: int = 6) -> str:
    """All of a short belief; of a long one the likeliest coordinates."""
    if len(belief) <= most:
        return ", ".join(f"{share:.2f}" for share in belief)
    likeliest = sorted(range(len(belief)), key=lambda k: -belief[k])[:most]
    return ", ".join(f"{k}: {belief[k]:.2f}" for k in likeliest if belief[k] >= 5e-3) + ", ..."


def _print_time(output: Screen, played: Any, judged: Reward, truth: POMDP) -> None:
    resolved = judged.resolve(truth)
    goal = [s for s in range(truth.n_states) if (resolved.states[:, s] > 0).any()]
    shares = played.share_of_time
    if goal:
        names = ", ".join(truth.state_names[s] for s in goal)
        output.print(f"share of time in the goal ({names}): {shares[goal].sum():.3f}", indent="  ")
    most = list(range(len(shares)))
    if len(shares) > _MOST_STATES:
        most = sorted(sorted(most, key=lambda s: -shares[s])[:_MOST_STATES])
    listing = ", ".join(f"{truth.state_names[s]} {shares[s]:.3f}" for s in most)
    more = "" if len(shares) <= _MOST_STATES else f", and {len(shares) - _MOST_STATES} states more"
    output.print(f"share of time by true state: {listing}{more}", indent="  ")
