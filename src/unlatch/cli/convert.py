"""``unlatch convert``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from unlatch.cli.options import INPUT, OUTPUT, Number
from unlatch.errors import UsageError

if TYPE_CHECKING:
    from unlatch.core.problem import Problem
    from unlatch.files.models.native import SavedModel

_GRAPHS = (".dot", ".mmd")
_POLICIES = (".alpha", ".policy", ".policyx")
_OURS = (".json", ".npz")
_MODELS = (".POMDP", ".pomdpx", *_OURS)

_FORMATS = """\
\b
Formats, by the ending of a name:
  .POMDP            Cassandra's text format
  .pomdpx           POMDPX, of APPL and SARSOP
  .json, .npz       our own
  .dot, .mmd        a graph for Graphviz or Mermaid (to write only)
  .alpha            value functions of pomdp-solve
  .policy, .policyx value functions of APPL and SARSOP
"""


@click.command(epilog=_FORMATS)
@click.argument("source", type=INPUT)
@click.argument("target", type=OUTPUT)
@click.option(
    "--terminal",
    type=click.Choice(["told", "detect"]),
    default="told",
    show_default=True,
    help="Take states that lead to themselves and pay nothing for terminal (detect), or not.",
)
@click.option("--discount", type=Number(), help="Of the problem that is written, instead of that of SOURCE.")
def convert(source: Path, target: Path, terminal: str, discount: float | None) -> None:
    """Read the model or policy SOURCE and write it as TARGET, in the formats that their endings name."""
    from unlatch.files.atomic import check_target
    from unlatch.show.screen import screen

    check_target(target, not_over=(source,))
    output = screen()
    if source.suffix.lower() in _POLICIES:
        _convert_policy(source, target)
    else:
        for note in _convert_model(source, target, terminal, discount):
            output.print(f"note: {note}")
    output.print(f"wrote {target}")


def _convert_policy(source: Path, target: Path) -> None:
    from unlatch.files.models.policies import load_policy, save_policy

    if target.suffix.lower() not in _POLICIES:
        raise UsageError(
            f"{source} is a policy, which can be written as {', '.join(_POLICIES)}, not as {target}"
        )
    save_policy(target, load_policy(source))


def _convert_model(source: Path, target: Path, terminal: str, discount: float | None) -> list[str]:
    """What there is to say about it, one line each."""
    from dataclasses import replace

    from unlatch.files.models.doors import load_model, save_model, save_problem, with_detected_ends

    ending = target.suffix.lower()
    if ending in _GRAPHS:
        return _draw(source, target)
    if ending not in map(str.lower, _MODELS):
        raise UsageError(f"{target}: the name must end in {', '.join((*_MODELS, *_GRAPHS))}")
    saved = load_model(source)
    if discount is not None:
        saved = replace(saved, discount=discount, reward=saved.reward or saved.problem.reward)
    if terminal == "detect":
        saved = replace(saved, pomdp=with_detected_ends(saved.problem).model)  # type: ignore[arg-type]
    if ending in _OURS:
        save_model(target, saved)
        return [str(note) for note in saved.diagnostics]
    problem = _problem(saved)
    notes = problem.diagnostics + save_problem(target, problem)
    return [str(note) for note in notes]


def _problem(saved: SavedModel) -> Problem:
    """The problem of a file; where nothing pays, one in which nothing pays."""
    from unlatch.core.pomdp import POMDP
    from unlatch.core.problem import Problem
    from unlatch.core.reward import Reward

    model = saved.model
    knows = model.symbol_rewards is not None or getattr(model, "reward_values", None) is not None
    if saved.reward is not None or knows or not isinstance(model, POMDP):
        return saved.problem
    nothing = Reward.on_transitions([[0.0] * model.n_states] * model.n_actions)
    notes = saved.diagnostics.noting(
        "no_reward", "the model knows no rewards: the file says that nothing pays"
    )
    return Problem(model, nothing, diagnostics=notes)


def _draw(source: Path, target: Path) -> list[str]:
    from unlatch.core.pomdp import POMDP
    from unlatch.files.atomic import write_atomically
    from unlatch.files.models.doors import load_model
    from unlatch.show.graphs import to_dot, to_mermaid

    model = load_model(source).model
    if not isinstance(model, POMDP):
        raise UsageError(f"{source} holds a PSR, which has no states to draw")
    text = to_dot(model) if target.suffix.lower() == ".dot" else to_mermaid(model)
    write_atomically(target, text.encode())
    return []
