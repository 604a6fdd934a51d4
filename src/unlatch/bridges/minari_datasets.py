"""Logs from datasets of Minari."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unlatch.bridges.symbols import Observe, Recorder, actions_of, checked_observe, joined, symbol
from unlatch.core.alphabet import checked_names
from unlatch.core.progress import report
from unlatch.core.trajectory import Trajectory
from unlatch.errors import DataError, MissingDependencyError, UsageError

__all__ = ["from_minari"]


def from_minari(
    dataset: Any, *, observe: Observe | None = None, action_names: Sequence[str] | None = None
) -> Trajectory:
    """The episodes of a dataset of Minari as a log, with rewards, endings and first observations.

    Parameters
    ----------
    dataset : str or minari.MinariDataset
        A dataset, or the name of one that has been downloaded. Actions must be discrete.
    observe : function, optional
        Makes a symbol (text, a whole number, or a tuple of these) of an observation. Needed where observations are not
        discrete.
    action_names : sequence of str, optional
        Names of the actions 0, 1, ..., if they have one part.

    Notes
    -----
    Datasets do not say with which probability actions were chosen. Where these depend on what was seen, as those of
    experts do, `examine` tells, and learning from frequencies is biased.

    Examples
    --------
    A dataset as ``minari.load_dataset(name)`` gives one, with a single episode:

    >>> import gymnasium
    >>> from types import SimpleNamespace
    >>> episode = SimpleNamespace(
    ...     observations=[0, 1, 1], actions=[1, 0], rewards=[0.0, 1.0], terminations=[False, True]
    ... )
    >>> space = gymnasium.spaces.Discrete(2)
    >>> dataset = SimpleNamespace(
    ...     action_space=space, observation_space=space, total_episodes=1, iterate_episodes=lambda: [episode]
    ... )
    >>> from_minari(dataset, action_names=["stay", "go"])
    Trajectory(2 steps, 1 episodes, 2 actions, 1 observations, rewards, 1 endings, first observations)
    """
    data = _loaded(dataset) if isinstance(dataset, str) else dataset
    if not hasattr(data, "iterate_episodes") or not hasattr(data, "action_space"):
        raise UsageError(f"expected a dataset of Minari or its name, got {type(data).__name__}")
    where = str(getattr(getattr(data, "spec", None), "dataset_id", "the dataset"))
    sizes = actions_of(data.action_space, where)
    names = None if action_names is None else checked_names("action_names", action_names, sizes[0])
    seen = checked_observe(data.observation_space, observe, where)
    recorder = Recorder(where)
    for number, episode in enumerate(data.iterate_episodes()):
        _take(episode, recorder, seen, names)
        report("reading", number + 1, max(int(data.total_episodes), number + 1))
    if not len(recorder):
        raise DataError(f"{where}: 0 steps")
    return joined([recorder])


def _loaded(name: str) -> Any:
    try:
        import minari
    except ImportError as error:
        raise MissingDependencyError(
            f"to read a dataset of Minari, minari is needed, which cannot be imported ({error}); install it: "
            "pip install minari",
            package="minari",
        ) from None
    try:
        return minari.load_dataset(name)
    except Exception as error:  # of many types: not there, another version, no network
        said = " ".join(str(error).split())[:200]
        raise DataError(f"{name[:80]}: cannot be loaded by minari: {said} ({type(error).__name__})") from None


def _take(episode: Any, recorder: Recorder, observe: Observe, names: Sequence[str] | None) -> None:
    """One episode: an observation more than actions."""
    shown = list(_rows(episode.observations))
    actions = list(_rows(episode.actions))
    if len(shown) != len(actions) + 1:
        raise DataError(
            f"{recorder.where}: an episode of {len(actions)} actions has {len(shown)} observations; one more is "
            f"expected"
        )
    recorder.begin(observe(shown[0]))
    for t, action in enumerate(actions):
        name = symbol(action, recorder.where) if names is None else names[int(action)]
        recorder.add(name, observe(shown[t + 1]), episode.rewards[t], episode.terminations[t], None)


def _rows(values: Any) -> Any:
    """One entry a step, of an array or of a tuple or dictionary of arrays."""
    if isinstance(values, dict):
        parts = {key: list(_rows(value)) for key, value in values.items()}
        length = len(next(iter(parts.values()), []))
        return [{key: part[t] for key, part in parts.items()} for t in range(length)]
    if isinstance(values, tuple):
        return list(zip(*(list(_rows(part)) for part in values), strict=True))
    return np.asarray(values) if not isinstance(values, list) else values
