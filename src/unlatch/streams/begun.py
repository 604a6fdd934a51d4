"""What a worker of a cluster does before it is given any work: it loads what it will need.

Dask calls `dask_setup` of this module before the worker tells the scheduler that it is there. So tasks take as long as
their work, also the first of a worker that has just replaced another one.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from unlatch.core.trajectory import Trajectory
from unlatch.files.logs.read import iterate_log
from unlatch.files.logs.write import write_log
from unlatch.learn.spectral.counting import count_part
from unlatch.streams.streamed import StreamedLog

__all__ = ["StreamedLog", "dask_setup"]


def dask_setup(_: Any) -> None:
    """Count a few steps in a file, which loads readers and kernels."""
    steps = np.arange(64)
    with TemporaryDirectory() as folder:
        path = Path(folder) / ("log.parquet" if find_spec("pyarrow") else "log.npz")
        write_log(path, Trajectory(steps % 4, steps % 16))
        count_part(iterate_log(path), 3, 2)
