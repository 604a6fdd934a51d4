"""One way to say where randomness comes from: a seed, a generator, or nothing."""

from __future__ import annotations

import numpy as np

from unlatch.errors import UsageError

RandomSource = int | np.random.Generator | None

__all__ = ["RandomSource", "resolve_rng"]


def resolve_rng(rng: RandomSource) -> tuple[np.random.Generator, int | None]:
    """A generator and the seed that made it (None if the caller passed a generator).

    A seed that had to be drawn is returned, so that the result can record it and be repeated.
    """
    if isinstance(rng, np.random.Generator):
        return rng, None
    if rng is None:
        rng = int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> 1)
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer):
        raise UsageError(f"rng must be a seed or a numpy.random.Generator, got {type(rng).__name__}")
    if rng < 0:
        raise UsageError(f"a seed cannot be negative, got {rng}")
    return np.random.default_rng(int(rng)), int(rng)
