"""Symbols that are pairs of an observation and a reward, as people name them: by the observation alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unlatch.arrays import Floats, Ints
from unlatch.core.trajectory import format_reward

__all__ = ["plain_observations", "symbols_showing"]


def plain_observations(names: Sequence[str], symbol_rewards: Floats | None) -> tuple[str, ...]:
    """What every symbol shows, without its reward.

    Symbols are pairs if every one of them ends with its own reward, ``hear-left|-1``; otherwise they are observations
    already.
    """
    if symbol_rewards is None:
        return tuple(names)
    endings = [f"|{format_reward(reward)}" for reward in symbol_rewards]
    if all(name.endswith(ending) and name != ending for name, ending in zip(names, endings, strict=True)):
        return tuple(name.removesuffix(ending) for name, ending in zip(names, endings, strict=True))
    return tuple(names)


def symbols_showing(observation: str, names: tuple[str, ...], symbol_rewards: Floats | None) -> Ints:
    """The codes of the symbol of that name, or else of all symbols that show an observation of that name."""
    if observation in names:
        return np.array([names.index(observation)])
    plain = plain_observations(names, symbol_rewards)
    return np.array([code for code, name in enumerate(plain) if name == observation], dtype=np.int64)
