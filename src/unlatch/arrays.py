"""Names for the array types that every signature uses, and floating point as our numbers need it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Complexes = NDArray[np.complex128]

own_errstate = np.errstate(divide="warn", over="warn", under="ignore", invalid="warn")
"""NumPy's own defaults, as a decorator of every public door that computes: a probability that underflows to zero is no
error, also where the caller has set ``np.seterr(all="raise")``."""
