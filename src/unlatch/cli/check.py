"""``unlatch check``."""

from __future__ import annotations

import click

from unlatch.cli.options import SEED, Number, Whole
from unlatch.cli.progress import progress
from unlatch.domains import NAMES


@click.command(epilog=f"Domains: {', '.join(NAMES)}; with parameters: tmaze:rooms=3,fail=0.1")
@click.argument("model")
@click.option(
    "--policy", metavar="P,P,...", help="How often exploration takes every action; uniform by default."
)
@click.option(
    "--error",
    type=Number(above=0.0),
    default=0.05,
    show_default=True,
    help="Mean L1 error of rows to ask for.",
)
@click.option(
    "--steps",
    type=Whole(least=1_000),
    default=20_000,
    show_default=True,
    help="Of the simulated log that losses and information are measured on.",
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Of that log.")
def check(model: str, policy: str | None, error: float, steps: int, seed: int) -> None:
    """Before any data: can MODEL, a domain's name or a model file, be learned, what of it, and from how many steps?"""
    from unlatch.cli.simulate import domain_or_model, probabilities
    from unlatch.compare.check import check_model
    from unlatch.show.screen import screen

    system = domain_or_model(model)
    with progress():
        found = check_model(system, policy=probabilities(policy), error=error, steps=steps, rng=seed)
    output = screen()
    for sentence in found.sentences():
        output.print(sentence, indent="  ")
