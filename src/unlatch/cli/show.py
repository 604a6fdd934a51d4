"""``unlatch show``."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--picture", type=click.Path(path_type=Path), help="Also draw the state graphs to this file.")
def show(model: Path, picture: Path | None) -> None:
    """Print MODEL: its states, what the log could not tell apart, and every action's matrices."""
    from unlatch.errors import UsageError
    from unlatch.files.models import load_model
    from unlatch.show.text import console, print_diagnostics, print_partition, print_pomdp, print_psr

    saved = load_model(model)
    screen = console()
    if saved.pomdp is not None:
        print_pomdp(screen, saved.pomdp, saved.partition)
        if saved.partition is not None:
            actions = saved.provenance.get("full_rank_actions", ())
            print_partition(screen, saved.pomdp, saved.partition, [str(action) for action in actions])
    elif saved.psr is not None:
        print_psr(screen, saved.psr)
    print_diagnostics(screen, saved.diagnostics)
    if picture is not None:
        from unlatch.show.plots import draw_models

        if saved.pomdp is None:
            raise UsageError(f"{model} holds a PSR, which has no states to draw")
        draw_models({model.stem: saved.pomdp}, picture)
        screen.print(f"drew {picture}", markup=False)
