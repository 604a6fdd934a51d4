"""``unlatch simulate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from unlatch.cli.options import OUTPUT, SEED, Whole
from unlatch.cli.progress import progress
from unlatch.core.pomdp import POMDP
from unlatch.domains import NAMES, by_name
from unlatch.errors import UsageError
from unlatch.show.safe import counted

if TYPE_CHECKING:
    from unlatch.files.models.native import SavedModel

_MOST_STEPS = 2_000_000_000
"""As many as one log may have."""


@click.command(epilog=f"Domains: {', '.join(NAMES)}; with parameters: tmaze:rooms=3,fail=0.1")
@click.argument("domain")
@click.option(
    "--steps",
    type=Whole(most=_MOST_STEPS),
    required=True,
    help="Steps of an episode; the most, if it can end.",
)
@click.option("--episodes", type=Whole(most=_MOST_STEPS), help="Number of episodes.")
@click.option(
    "--total",
    type=Whole(most=_MOST_STEPS),
    help="Steps of the whole log, instead of a number of episodes; by default those of --steps.",
)
@click.option("--policy", metavar="P,P,...", help="Probability of every action; uniform by default.")
@click.option("--seed", type=SEED, help="Seed; drawn and printed if not given.")
@click.option(
    "-o", "--output", type=OUTPUT, required=True, help="The log to write (.csv, .csv.gz, .parquet, .npz)."
)
def simulate(
    domain: str,
    steps: int,
    episodes: int | None,
    total: int | None,
    policy: str | None,
    seed: int | None,
    output: Path,
) -> None:
    """Sample a log of blind exploration in DOMAIN, which is a domain's name or a model file."""
    from unlatch.core.random import resolve_rng
    from unlatch.files.atomic import check_target
    from unlatch.files.logs.write import check_log_target, write_log
    from unlatch.show.screen import screen
    from unlatch.simulation import simulate as simulate_log

    check_target(output, not_over=(Path(domain),) if Path(domain).suffix else ())
    check_log_target(output)
    model = domain_or_model(domain)
    generator, used = resolve_rng(seed)
    with progress():
        log = simulate_log(
            model, steps, episodes=episodes, total=total, policy=probabilities(policy), rng=generator
        )
        write_log(output, log)
    ended = "" if log.terminated is None else f", {int(log.terminated.sum())} of which ended,"
    screen().print(
        f"wrote {counted(len(log), 'step')} in {counted(log.n_episodes, 'episode')}{ended} to {output} (seed {used})"
    )


def domain_or_model(text: str) -> POMDP:
    """A domain by name, or the POMDP of a model file, which pays the reward that the file names."""
    if not Path(text).suffix:
        return by_name(text)
    from unlatch.files.models.doors import load_model

    saved = load_model(Path(text))
    if saved.pomdp is None:
        raise UsageError(f"{text} holds a PSR, which has no states to act in; give a POMDP or a domain")
    return pomdp_that_pays(saved)


def pomdp_that_pays(saved: SavedModel) -> POMDP:
    """The POMDP of a file, with the reward of the file, if it names one, paid by the model."""
    from unlatch.core.paying import paying_model

    assert saved.pomdp is not None
    return saved.pomdp if saved.reward is None else paying_model(saved.problem)


def probabilities(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"--policy takes numbers separated by commas, got {text!r}") from None
