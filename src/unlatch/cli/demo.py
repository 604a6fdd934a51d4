"""``unlatch demo``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unlatch.cli.options import SEED, Whole
from unlatch.cli.program import Interrupted
from unlatch.cli.progress import progress
from unlatch.errors import StorageError

if TYPE_CHECKING:
    from unlatch.core.pomdp import POMDP
    from unlatch.learn.pipeline import LearnResult
    from unlatch.show.screen import Screen


@click.command()
@click.option(
    "--steps", type=Whole(100, 2_000_000_000), default=100_000, show_default=True, help="Length of the log."
)
@click.option("--seed", type=SEED, default=0, show_default=True)
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
    from unlatch.files.logs.write import write_log
    from unlatch.files.models.doors import save_model
    from unlatch.learn.pipeline import learn_pomdp
    from unlatch.show.plots import draw_models
    from unlatch.show.screen import screen
    from unlatch.simulation import simulate

    log_path, model_path, picture_path = _targets(out)
    truth = domains.tiger()
    output = screen()
    with progress():
        log = simulate(truth, steps, rng=seed)
        write_log(log_path, log)
        output.print(f"1. acted {steps} times at random in Tiger; the log is {log_path}")
        result = learn_pomdp(log, rng=seed)
    save_model(model_path, result)
    if "interrupted" in result.diagnostics:
        raise Interrupted(f"interrupted: wrote the best model so far to {model_path}")
    learned = _beside_truth(output, result, truth)
    gap = (learned.log_likelihood(log) - truth.log_likelihood(log)) / steps
    output.print(f"log-likelihood per step against the truth's: {gap:+.6f} nats")
    draw_models({"learned": learned, "true": truth}, picture_path, actions=("listen", "open-left"))
    output.print(f"3. wrote the model to {model_path} and its picture to {picture_path}")
    output.print(f"   see it again with: unlatch show {shlex.quote(str(model_path))}")


def _targets(out: Path) -> tuple[Path, Path, Path]:
    """Where log, model and picture go; what stands in the way is told of before the work begins."""
    from unlatch.files.atomic import check_target

    try:
        out.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise StorageError(f"cannot make the folder {out}: {getattr(error, 'strerror', error)}") from None
    targets = out / "tiger.csv", out / "tiger.json", out / "tiger.png"
    for target in targets:
        check_target(target)
    return targets


def _beside_truth(output: Screen, result: LearnResult, truth: POMDP) -> POMDP:
    """Print what was learned beside the truth; the learned model, its states in the truth's order if they match."""
    from unlatch.compare.match_states import match_states
    from unlatch.show.summary import partition_sentences, summarize_pomdp, summarize_result
    from unlatch.show.text import print_comparison, print_model

    output.print(
        f"2. learned from that log alone: {result.states} hidden states ({result.evidence})", indent="   "
    )
    learned: POMDP = result.pomdp
    if result.states == truth.n_states:
        learned = learned.reordered(match_states(learned, truth))
        print_comparison(output, learned, truth)
    else:
        print_model(output, summarize_pomdp(learned))
    for sentence in partition_sentences(summarize_result(result)):
        output.print(sentence, indent="  ")
    return learned
