"""``unlatch learn``."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unlatch.cli.logs import (
    log_options,
    open_input,
    read_input,
    reader_options,
    refuse_company_of_standard_input,
)
from unlatch.cli.options import INPUT, OUTPUT, SEED, Number, Whole, of_an_engine
from unlatch.cli.program import Interrupted
from unlatch.cli.progress import progress
from unlatch.cli.signals import was_interrupted
from unlatch.errors import UsageError

if TYPE_CHECKING:
    from unlatch.learn.pipeline import LearnResult
    from unlatch.show.screen import Screen

__all__ = ["learn", "print_result"]


@click.command()
@click.argument("logs", type=INPUT, nargs=-1, required=True)
@click.option("-o", "--output", type=OUTPUT, required=True, help="The model to write (JSON).")
@click.option("--states", type=Whole(), help="Fix the number of states.")
@click.option("--max-states", type=Whole(), help="Most states that the search considers.")
@click.option(
    "--time-limit",
    type=Number(above=0),
    help="Seconds for the whole call; the best model found by then is kept.",
)
@click.option(
    "--refine/--no-refine",
    default=True,
    show_default=True,
    help="Search the number of states and maximize the likelihood, or stop at the fast spectral model.",
)
@click.option(
    "--emission",
    type=click.Choice(["auto", "departure", "arrival"]),
    default="auto",
    show_default=True,
    help="Which state shows the observation: the one left, the one reached, or the one that explains the log better.",
)
@click.option("--rank", type=Whole(), help="Rank of the spectral stage; found from the log if not given.")
@click.option(
    "--rank-tolerance", type=Number(), help="Count singular values above this fraction of the largest."
)
@click.option(
    "--max-rank", type=Whole(), default=20, show_default=True, help="Largest rank of the spectral stage."
)
@click.option("--history-length", type=Whole(2), help="Longest history; grown from the log if not given.")
@click.option("--test-length", type=Whole(), help="Longest test; grown from the log if not given.")
@click.option(
    "--min-singular-value",
    type=Number(),
    help="Threshold of a full-rank action; from the noise if not given.",
)
@click.option(
    "--observation-tolerance", type=Number(), help="L1 distance within a cell; from the noise if not given."
)
@click.option("--draws", type=Whole(), default=30, show_default=True, help="Random combinations tried.")
@click.option(
    "--newton/--no-newton",
    default=True,
    show_default=True,
    help="Refine the joint diagonalization, or leave it as the paper did.",
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
@click.option("--seed", type=SEED, help="Seed; drawn and recorded if not given.")
@click.option(
    "--continue",
    "model",
    type=INPUT,
    help="A model that was learned before: go on from it with LOGS as new steps.",
)
@click.option(
    "--old-log",
    type=INPUT,
    multiple=True,
    help="With --continue: what the model was learned from, if it is no longer where the model file says.",
)
@of_an_engine(
    "Who passes over logs that are longer than a block: this process, several of this machine, a cluster of Dask."
)
@click.option(
    "--checkpoint",
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep what was found in every block there: a run that was killed goes on where it was. Parquet and NPY.",
)
@log_options
@click.pass_context
def learn(
    ctx: click.Context, /, logs: tuple[Path, ...], output: Path, seed: int | None, **options: Any
) -> None:
    """Learn a POMDP from LOGS, tables with the columns action and observation; - reads standard input.

    LOGS may also be counts, of unlatch count or unlatch merge: then the spectral model is learned from these.

    Optional columns: reward (learned with the observation, or beside it), episode (no window of the log crosses
    from one to the next), probability (with which the action was chosen), terminated (true where a step ended its
    episode for good) and truncated (true where it was cut). A row without an action, the first of its episode, holds
    what was shown before any action. Actions must not depend on what was observed, unless their probabilities are
    given.
    """
    from unlatch.files.atomic import check_target
    from unlatch.files.models.doors import check_model_name
    from unlatch.show.screen import screen
    from unlatch.show.summary import ending_sentences

    files = [log for log in logs if str(log) != "-"]
    refuse_company_of_standard_input(logs)
    check_target(output, not_over=files)
    check_model_name(output)
    chosen = {
        name: options.pop(name)
        for name in ("model", "old_log", "engine", "scheduler", "insecure_scheduler", "checkpoint")
    }
    _refuse_what_would_be_ignored(chosen)
    if _are_counts(files):
        _refuse_engines(chosen, "counts are in memory")
        _learn_from_counts(ctx, files, output, seed, options)
        return
    trajectory = None
    with progress():
        if chosen["model"] is not None:
            old = chosen["old_log"] or _recorded_files(chosen["model"])
            result = _gone_on(ctx, logs, old, chosen["model"], seed, options)
            files = (
                [*old, *files] if len(files) == len(logs) else []
            )  # standard input cannot be read once more
        elif len(files) == len(logs) and _are_many(files, chosen):
            result = _from_files(ctx, logs, chosen, seed, options)
        else:
            from unlatch.learn.pipeline import learn_pomdp

            trajectory = read_input(ctx, logs, options)
            result = learn_pomdp(trajectory, rng=seed, **_given(ctx, options))
    cut = _saved_despite_interrupt(output, result, files) or "interrupted" in result.diagnostics
    if cut or was_interrupted():
        raise Interrupted(f"interrupted: wrote the best model so far to {output}")
    output_screen = screen()
    if trajectory is not None:
        for sentence in ending_sentences(trajectory):
            output_screen.print(sentence)
    print_result(output_screen, result, output)


def _refuse_what_would_be_ignored(chosen: dict[str, Any]) -> None:
    """Options that only mean something beside others."""
    if chosen["engine"] != "dask":
        for name in ("scheduler", "insecure_scheduler"):
            if chosen[name]:
                option = name.replace("_", "-")
                raise UsageError(f"--{option} is one of Dask: give --engine dask with it")
    if chosen["model"] is None and chosen["old_log"]:
        raise UsageError("--old-log is what --continue goes on from: give the model with --continue")
    if chosen["model"] is not None:
        _refuse_engines(chosen, "--continue reads both logs into memory")


def _refuse_engines(chosen: dict[str, Any], why: str) -> None:
    for name in ("engine", "checkpoint"):
        if chosen[name] not in (None, "process"):
            raise UsageError(f"--{name} has nothing to do here: {why}")


_READ_WHOLE = 64 << 20
"""Bytes of files up to which a log is read into memory: it is then learned from as a whole."""


def _are_many(files: list[Path], chosen: dict[str, Any]) -> bool:
    """Whether logs are passed over in blocks, rather than read into memory."""
    if chosen["engine"] != "process" or chosen["checkpoint"] or len(files) > 1:
        return True
    return files[0].is_dir() or (files[0].is_file() and files[0].stat().st_size > _READ_WHOLE)


def _from_files(
    ctx: click.Context,
    logs: tuple[Path, ...],
    chosen: dict[str, Any],
    seed: int | None,
    options: dict[str, Any],
) -> LearnResult:
    from unlatch.engines.engine import engine_of
    from unlatch.learn.pipeline import learn_pomdp

    engine = None
    if chosen["engine"] != "process" or chosen["scheduler"] or chosen["checkpoint"]:
        engine = engine_of(
            chosen["engine"],
            scheduler=chosen["scheduler"],
            insecure=chosen["insecure_scheduler"],
            checkpoint=chosen["checkpoint"],
        )
    try:
        source = open_input(ctx, logs, options)
        result = learn_pomdp(source, engine=engine, rng=seed, **_given(ctx, options))
        result.stated  # noqa: B018 - passes over the log, while the engine is there
        return result
    finally:
        if engine is not None and hasattr(engine, "close"):
            engine.close()


def _gone_on(
    ctx: click.Context,
    logs: tuple[Path, ...],
    old: Sequence[Path],
    model: Path,
    seed: int | None,
    options: dict[str, Any],
) -> LearnResult:
    """The model that was learned before, with these logs as more steps."""
    from unlatch.files.models.doors import load_model
    from unlatch.learn.resume import resume

    reading = options.copy()
    reader_options(ctx, options)  # what is left is for learning
    given = _given(ctx, options)
    unknown = sorted(set(given) - {"time_limit"})
    if unknown:
        raise UsageError(
            f"--{unknown[0].replace('_', '-')} cannot be set with --continue: the model has settled it"
        )
    new_log, old_log = (read_input(ctx, paths, reading.copy()) for paths in (logs, old))
    return resume(load_model(model), new_log, old_log=old_log, rng=seed, **given)


def _recorded_files(model: Path) -> list[Path]:
    """The files that a model was learned from, if they are still what they were."""
    from unlatch.files.models.doors import load_model

    recorded = load_model(model).provenance.get("log_files")
    if not isinstance(recorded, list | tuple) or not recorded:
        raise UsageError(f"{model} does not say which log it was learned from; give it with --old-log")
    found = []
    for entry in recorded:
        path = model.resolve().parent / str(entry.get("path")) if isinstance(entry, Mapping) else Path()
        if not path.exists() or _size(path) != entry.get("bytes"):
            raise UsageError(
                f"{path}, which {model} was learned from, is gone or has changed; give the old log with --old-log"
            )
        found.append(path)
    return found


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in ([path] if path.is_file() else path.iterdir()))


def _are_counts(files: list[Path]) -> bool:
    from unlatch.streams.counts_file import is_counts_file

    named = [path for path in files if path.suffix == ".npz" and path.is_file()]
    return bool(named) and len(named) == len(files) and all(is_counts_file(path) for path in named)


def _learn_from_counts(
    ctx: click.Context, files: list[Path], output: Path, seed: int | None, options: dict[str, Any]
) -> None:
    from unlatch.files.models.doors import save_model
    from unlatch.files.models.native import SavedModel
    from unlatch.learn.pipeline import learn_from_counts
    from unlatch.learn.spectral.counting import merged_counts
    from unlatch.show.screen import screen
    from unlatch.streams.counts_file import load_counts

    reader_options(ctx, options)
    given = _given(ctx, options)
    for name in ("states", "max_states", "time_limit", "refine"):
        if given.pop(name, None) is not None:
            raise UsageError(
                f"--{name.replace('_', '-')} needs the log; from counts the spectral model is learned"
            )
    with progress():
        counts = merged_counts(load_counts(path) for path in files)
        found = learn_from_counts(counts, rng=seed, **given)
    provenance = {"log": {"steps": counts.steps, "episodes": counts.episodes}, "seed": seed}
    saved = SavedModel(
        pomdp=found.pomdp,
        psr=found.psr,
        partition=found.partition,
        diagnostics=found.diagnostics,
        provenance={name: value for name, value in provenance.items() if value is not None},
    )
    save_model(output, saved)
    screen().print(
        f"the spectral model of {counts.steps} counted steps: {found.pomdp!r}; unlatch learn with the logs themselves "
        "searches the number of states and maximizes the likelihood"
    )
    screen().print(f"wrote {output}; see it with: unlatch show {shlex.quote(str(output))}")


def _given(ctx: click.Context, options: dict[str, Any]) -> dict[str, Any]:
    """What the user set, as `learn_pomdp` spells it: defaults have their home there."""
    given = {name: value for name, value in options.items() if _is_given(ctx, name)}
    if "refine" in given:
        given["refine"] = "auto" if given["refine"] else None
    return given


def _is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT


def _saved_despite_interrupt(output: Path, result: LearnResult, files: list[Path]) -> bool:
    """Write the model; an interrupt in the middle leaves the old file, so it is written once more. True then."""
    from unlatch.files.models.doors import save_model

    place = output.resolve().parent
    recorded = [
        {"path": os.path.relpath(path.resolve(), place), "bytes": _size(path)}
        for path in files
        if path.exists()
    ]
    provenance = {"log_files": recorded} if recorded else None
    try:
        save_model(output, result, provenance=provenance)
    except KeyboardInterrupt:
        save_model(output, result, provenance=provenance)
        return True
    return False


def print_result(screen: Screen, result: LearnResult, output: Path) -> None:
    """What was learned, how sure it is, and where it was written."""
    from unlatch.show.summary import summarize_result
    from unlatch.show.text import print_findings

    print_findings(screen, summarize_result(result))
    screen.print(f"wrote {output}; see it with: unlatch show {shlex.quote(str(output))}")
