"""What a worker of a cluster does before it is given any work: it loads what it will need.

Dask calls `dask_setup` of this module before the worker tells the scheduler that it is there. So tasks take as long as
their work, also the first of a worker that has just replaced another one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unlatch.core.chunks import LogChunk
from unlatch.learn.spectral.counting import count_part
from unlatch.streams.streamed import StreamedLog

__all__ = ["StreamedLog", "dask_setup"]


def dask_setup(_: Any) -> None:
    """Count a few steps, which loads the kernels."""
    steps = np.arange(64, dtype=np.uint16)
    names = tuple(map(str, range(16)))
    count_part([LogChunk(0, steps % 4, steps % 16, np.zeros(1, dtype=np.int64), names[:4], names)], 3, 2)
