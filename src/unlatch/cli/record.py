"""``unlatch record``."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unlatch.cli.options import OUTPUT, SEED, Whole, of_an_environment
from unlatch.cli.progress import progress
from unlatch.errors import UnlatchError, UsageError

if TYPE_CHECKING:
    from unlatch.core.trajectory import Trajectory

_DATASET = "minari:"


@click.command()
@click.argument("environment")
@click.option("--steps", type=Whole(), default=100_000, show_default=True, help="Steps in all.")
@click.option("--seed", type=SEED, help="Seed; drawn and printed if not given.")
@of_an_environment
@click.option(
    "--environments",
    type=Whole(),
    default=1,
    show_default=True,
    help="So many of them, recorded side by side.",
)
@click.option(
    "-o", "--output", type=OUTPUT, required=True, help="The log to write (.csv, .csv.gz, .parquet, .npz)."
)
def record(
    environment: str,
    steps: int,
    seed: int | None,
    observe: str | None,
    action_names: str | None,
    settings: tuple[str, ...],
    environments: int,
    output: Path,
) -> None:
    """Explore ENVIRONMENT, a name that Gymnasium knows, uniformly at random, and write the log.

    "package:Name-v0" imports the package that has it; "minari:NAME" writes a downloaded dataset of Minari
    instead, whole.
    """
    from unlatch.files.atomic import check_target
    from unlatch.files.logs.write import check_log_target, write_log
    from unlatch.show.safe import counted
    from unlatch.show.screen import screen

    check_target(output)
    check_log_target(output)
    shown = None if observe is None else function_of(observe)
    names = None if action_names is None else action_names.split(",")
    with progress():
        log = _recorded(environment, steps, seed, shown, names, settings_of(settings), environments)
        write_log(output, log)
    assert log.terminated is not None
    ended = int(log.terminated.sum())
    used = f" (seed {log.diagnostics['recorded'].details['seed']})" if "recorded" in log.diagnostics else ""
    screen().print(
        f"wrote {counted(len(log), 'step')} in {counted(log.n_episodes, 'episode')}, {ended} of which ended, to "
        f"{output}{used}"
    )


def _recorded(
    name: str,
    steps: int,
    seed: int | None,
    observe: Callable[[Any], Any] | None,
    action_names: list[str] | None,
    settings: dict[str, Any],
    count: int,
) -> Trajectory:
    try:
        if name.startswith(_DATASET):
            from unlatch.bridges.minari_datasets import from_minari

            return from_minari(name.removeprefix(_DATASET), observe=observe, action_names=action_names)
        from unlatch.bridges.record import made, record

        world = made(name, settings, count)
        try:
            return record(world, steps, seed=seed, observe=observe, action_names=action_names)
        finally:
            world.close()
    except (UnlatchError, KeyboardInterrupt, MemoryError):
        raise
    except Exception as error:  # of the environment, or of the function that maps what it shows
        said = " ".join(str(error).split())[:300]
        raise UsageError(f"{name}: failed while it was recorded: {type(error).__name__}: {said}") from None


def settings_of(pairs: tuple[str, ...]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"--set takes NAME=VALUE, got {pair[:80]!r}")
        try:
            result[name] = json.loads(value)
        except (ValueError, RecursionError):
            result[name] = value
    return result


def function_of(text: str) -> Callable[[Any], Any]:
    """A function of a file of the user."""
    path, colon, name = text.rpartition(":")
    if not colon or not name.isidentifier():
        raise UsageError(f"--observe takes FILE.py:FUNCTION, got {text[:80]!r}")
    if not Path(path).is_file():
        raise UsageError(f"--observe: there is no file {path[:200]}")
    spec = importlib.util.spec_from_file_location("observed", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"--observe: {path[:200]} is no Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        said = " ".join(str(error).split())[:200]
        raise UsageError(f"--observe: {path[:200]} cannot be run: {type(error).__name__}: {said}") from None
    function: Callable[[Any], Any] | None = getattr(module, name, None)
    if not callable(function):
        raise UsageError(f"--observe: {path[:200]} has no function {name!r}")
    return function
