"""``unlatch learn``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from unlatch.cli.progress import progress_bar


def log_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that reads a log."""
    for option in reversed(
        [
            click.option("--delimiter", default=",", show_default=True, help="What separates the columns."),
            click.option("--encoding", default="utf-8", show_default=True, help="Text encoding of the log."),
            click.option(
                "--no-header", is_flag=True, help="Columns are action, observation[, reward[, episode]]."
            ),
            click.option(
                "--missing",
                type=click.Choice(["refuse", "split"]),
                default="refuse",
                show_default=True,
                help="What an empty cell means: an error, or a gap that splits the log.",
            ),
            click.option(
                "--ignore-reward", is_flag=True, help="Leave the reward column out of what is learned."
            ),
            click.option(
                "--ignore-probability",
                is_flag=True,
                help="Leave the probability column out: actions did not depend on observations.",
            ),
            click.option("--strict", is_flag=True, help="Refuse a log whose last line is cut off."),
        ]
    ):
        command = option(command)
    return command


@click.command()
@click.argument("log", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="The model to write (JSON)."
)
@click.option(
    "--rank", type=click.IntRange(min=1), help="Rank of the spectral model; found from the log if not given."
)
@click.option(
    "--rank-tolerance", type=float, help="Count singular values above this fraction of the largest."
)
@click.option(
    "--max-rank", type=click.IntRange(min=1), default=20, show_default=True, help="Most states considered."
)
@click.option(
    "--history-length", type=click.IntRange(min=2), help="Longest history; grown from the log if not given."
)
@click.option(
    "--test-length", type=click.IntRange(min=1), help="Longest test; grown from the log if not given."
)
@click.option(
    "--min-singular-value", type=float, help="Threshold of a full-rank action; three standard errors."
)
@click.option("--observation-tolerance", type=float, help="L1 distance within a cell; five standard errors.")
@click.option(
    "--emission",
    type=click.Choice(["departure", "arrival"]),
    default="departure",
    show_default=True,
    help="Which state shows the observation: the one left, or the one reached.",
)
@click.option(
    "--draws", type=click.IntRange(min=1), default=30, show_default=True, help="Random combinations tried."
)
@click.option(
    "--no-newton", is_flag=True, help="Leave the joint diagonalization unrefined, as the paper did."
)
@click.option(
    "--rotation",
    type=click.Choice(["cells", "dense"]),
    default="cells",
    show_default=True,
    help="Choose a basis inside cells, or rotate densely after the SVD as the paper did.",
)
@click.option(
    "--scaling",
    type=click.Choice(["noise", "none"]),
    default="noise",
    show_default=True,
    help="Scale the Hankel matrix such that its entries are equally noisy, or not, as the paper did.",
)
@click.option(
    "--refine/--no-refine",
    default=True,
    show_default=True,
    help="Search the number of states and maximize the likelihood, or stop at the fast spectral model.",
)
@click.option("--states", type=click.IntRange(min=1), help="Fix the number of states.")
@click.option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds for search and climb; the best model found by then is kept.",
)
@click.option("--seed", type=click.IntRange(min=0), help="Seed; drawn and recorded if not given.")
@log_options
def learn(log: Path, output: Path, no_newton: bool, refine: bool, seed: int | None, **options: Any) -> None:
    """Learn a POMDP from LOG, a CSV file with the columns action and observation.

    Optional columns: reward (learned as part of the observation), episode (no window of the log crosses
    from one to the next) and probability (with which the action was chosen). Actions must not depend on what
    was observed, unless their probabilities are given.
    """
    from unlatch.files.models import save_model
    from unlatch.learn.pipeline import learn_pomdp
    from unlatch.show.text import console, print_diagnostics, print_partition

    with progress_bar():
        trajectory = read(log, options)
        result = learn_pomdp(
            trajectory, newton=not no_newton, refine="auto" if refine else None, rng=seed, **options
        )
    save_model(
        output,
        result.pomdp,
        partition=result.partition,
        psr=result.partition_model.psr if result.completion is None else None,
        diagnostics=result.diagnostics,
        provenance={
            "command": "learn",
            "log": log.name,
            "steps": len(trajectory),
            "episodes": trajectory.n_episodes,
            "seed": result.seed,
            "history_length": result.hankel.history_length,
            "test_length": result.hankel.test_length,
            "rank": result.rank,
            "singular_values": result.singular_values.tolist(),
            "full_rank_actions": [result.pomdp.action_names[a] for a in result.full_rank_actions],
            "evidence": None if result.evidence is None else str(result.evidence),
            "options": {"newton": not no_newton, "refine": refine, **options},
        },
    )
    screen = console()
    values = ", ".join(f"{value:.3g}" for value in result.singular_values[: result.rank + 2])
    actions = [result.pomdp.action_names[a] for a in result.full_rank_actions]
    screen.print(
        f"{len(trajectory)} steps in {trajectory.n_episodes} episodes; {result.rank} hidden states "
        f"(singular values {values}; histories to {result.hankel.history_length - 1}, tests to "
        f"{result.hankel.test_length})"
    )
    if result.evidence is not None:
        screen.print(f"evidence: {result.evidence}")
    screen.print(f"full-rank actions: {', '.join(actions)}", markup=False)
    print_partition(screen, result.pomdp, result.partition, actions)
    print_diagnostics(screen, result.diagnostics)
    screen.print(f"wrote {output}; see it with: unlatch show {output}", markup=False)


def read(path: Path, options: dict[str, Any]) -> Any:
    """Read a log, taking the reader's options out of ``options``."""
    from unlatch.files.logs import read_log

    return read_log(
        path,
        header=not options.pop("no_header"),
        delimiter=options.pop("delimiter").replace("\\t", "\t"),
        encoding=options.pop("encoding"),
        missing=options.pop("missing"),
        strict=options.pop("strict"),
        reward=None if options.pop("ignore_reward") else "reward",
        probability=None if options.pop("ignore_probability") else "probability",
    )
