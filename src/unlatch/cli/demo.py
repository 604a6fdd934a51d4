"""``unlatch demo``."""

from __future__ import annotations

from pathlib import Path

import click

from unlatch.cli.progress import progress_bar


@click.command()
@click.option(
    "--steps", type=click.IntRange(min=100), default=100_000, show_default=True, help="Length of the log."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default=Path("out"), show_default=True,
    help="Folder for the log, the model and the picture.",
)  # fmt: skip
def demo(steps: int, seed: int, out: Path) -> None:
    """Simulate Tiger, learn it from the log alone, and print what was learned beside the truth.

    The tiger is behind one of two doors; listening tells which with probability .85. The learner sees
    neither doors nor tiger, only what was done and what was heard and paid.
    """
    from unlatch import domains
    from unlatch.compare.match_states import match_states
    from unlatch.errors import StorageError
    from unlatch.files.logs import write_log
    from unlatch.files.models import save_model
    from unlatch.learn.pipeline import learn_pomdp
    from unlatch.show.plots import draw_models
    from unlatch.show.text import console, print_comparison, print_partition, print_pomdp
    from unlatch.simulation import simulate

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot make the folder {out}: {error.strerror}") from None
    truth = domains.tiger()
    screen = console()
    with progress_bar():
        log = simulate(truth, steps, rng=seed)
        write_log(out / "tiger.csv", log)
        screen.print(f"1. acted {steps} times at random in Tiger; the log is {out / 'tiger.csv'}")
        result = learn_pomdp(log, rng=seed)
    learned = result.pomdp
    if learned.n_states == truth.n_states:
        learned = learned.reordered(match_states(learned, truth))
    screen.print(f"2. learned from that log alone: {result.rank} hidden states ({result.evidence})")
    if learned.n_states == truth.n_states:
        print_comparison(screen, learned, truth)
    else:
        print_pomdp(screen, learned)
    print_partition(screen, learned, result.partition)
    save_model(
        out / "tiger.json", learned, partition=result.partition, provenance={"seed": seed, "steps": steps}
    )
    models = {"learned": learned, "true": truth}
    draw_models(models, out / "tiger.png", actions=("listen", "open-left"))
    gap = (learned.log_likelihood(log) - truth.log_likelihood(log)) / steps
    screen.print(f"log-likelihood per step against the truth's: {gap:+.6f} nats")
    screen.print(f"3. wrote the model to {out / 'tiger.json'} and its picture to {out / 'tiger.png'}")
    screen.print(f"   see it again with: unlatch show {out / 'tiger.json'}")
